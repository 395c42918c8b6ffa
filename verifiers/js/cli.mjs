#!/usr/bin/env node
// Standalone verifier of gitjournal for Node: arguments, files and the git child. The checks are in the other modules, see verify.mjs; "section N" is a section
// of docs/verification.md. Needs nothing but Node 20 and, for a repository, git 2.36.

import { spawn, spawnSync } from "node:child_process";
import crypto from "node:crypto";
import fs from "node:fs";
import { verifyGit } from "./git.mjs";
import { Stop } from "./report.mjs";
import { Trust } from "./trust.mjs";
import { verifyExport, verifyProof } from "./verify.mjs";

const USAGE = `usage: cli.mjs [--allowed-signers FILE] [--revoked-keys FILE] [--require-signed]
               [--expect-seq N --expect-head HASH] PATH [NAME]
`;

// --- The primitives that the checks are given ---------------------------------------------------------------------------------

const hashOnce = crypto.hash ?? ((name, bytes) => crypto.createHash(name).update(bytes).digest("hex")); // crypto.hash: Node 20.12

const host = {
  sha1: (bytes) => hashOnce("sha1", bytes, "hex"),
  sha256: (bytes) => hashOnce("sha256", bytes, "hex"),
  digest: (name, bytes) => new Uint8Array(crypto.createHash(name).update(bytes).digest()),
  hasher(name) {
    const hash = crypto.createHash(name);
    return { update: (bytes) => hash.update(bytes), hex: () => hash.digest("hex") };
  },
  equal: (a, b) => Buffer.compare(a, b) === 0,
  verify({ name, hash, jwk, signature }, bytes) {
    try {
      const key = crypto.createPublicKey({ key: jwk, format: "jwk" });
      return crypto.verify(name === "Ed25519" ? null : hash, bytes, { key, dsaEncoding: "ieee-p1363" }, signature);
    } catch {
      return false; // such as a point that is not on the curve
    }
  },
};

// --- git cat-file, section 4 --------------------------------------------------------------------------------------------------

function gitEnvironment() {
  const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith("GIT_")));
  return {
    ...env,
    GIT_NO_REPLACE_OBJECTS: "1",
    GIT_ALLOW_PROTOCOL: "none",
    GIT_NO_LAZY_FETCH: "1",
    GIT_CONFIG_NOSYSTEM: "1",
    GIT_CONFIG_GLOBAL: "/dev/null",
    GIT_OPTIONAL_LOCKS: "0",
    GIT_TERMINAL_PROMPT: "0",
    GIT_ALLOC_LIMIT: "256m",
  };
}

/**
 * One `git cat-file`. It is started again for what is left when it ends, and when an answer was not as it should be: git prints what is
 * in a file, which can be more or less than the size that it says. To see that nothing more comes, the last request of each group is
 * an id by chance, that no repository can know; `MISSING` is the answer to it.
 */
const NOBODY = crypto.randomBytes(20).toString("hex");
const MISSING = Buffer.from(`${NOBODY} missing\n`);

const TYPES = ["blob", "tree", "commit"];

function isAt(bytes, at, text) {
  for (let i = 0; i < text.length; i++) if (bytes[at + i] !== text.charCodeAt(i)) return false;
  return true;
}

class Git {
  child = null;
  ended = false;
  asked = []; // ids not answered yet, from `next` on
  next = 0;
  sent = 0; // how many of them git has been sent
  buffer = new Uint8Array(1 << 20);
  from = 0;
  to = 0;
  type = null; // of the next answer, once its header has been read; then `from` is where the type stands
  size = 0;
  head = 0; // bytes from the type to the content
  wake = () => {};

  constructor(dir) {
    this.args = [`--git-dir=${dir}`, "--no-replace-objects", "-c", "core.bigFileThreshold=32m", "-c", "core.multiPackIndex=false"];
    this.args.push("cat-file", "--batch-command", "--buffer");
    this.env = gitEnvironment();
  }

  ask(id) {
    this.asked.push(id);
  }

  /** Sends what was asked, as one group: git reads all of it before it answers. */
  flush() {
    if (this.sent === this.asked.length) return;
    if (this.child === null) this.spawn();
    const ids = [...this.asked.slice(this.sent), NOBODY];
    this.child.stdin.write(`contents ${ids.join("\ncontents ")}\nflush\n`, "latin1");
    this.sent = this.asked.length;
  }

  spawn() {
    const child = spawn("git", this.args, { env: this.env, stdio: ["pipe", "pipe", "ignore"] });
    this.child = child;
    this.ended = false;
    this.from = this.to = 0;
    const ended = () => {
      if (this.child !== child) return;
      this.ended = true;
      this.wake();
    };
    child.on("error", ended);
    child.stdin.on("error", () => {}); // git has gone: its output ends as well
    child.stdout.on("end", ended);
    child.stdout.on("data", (chunk) => {
      if (this.child === child) this.receive(chunk);
    });
  }

  receive(chunk) {
    if (this.to + chunk.length > this.buffer.length) this.makeRoom(chunk.length);
    this.buffer.set(chunk, this.to);
    this.to += chunk.length;
    if (this.to - this.from > 1 << 22) this.child.stdout.pause();
    this.wake();
  }

  makeRoom(count) {
    const rest = this.buffer.subarray(this.from, this.to);
    if (rest.length + count > this.buffer.length / 2) this.buffer = new Uint8Array(2 * (rest.length + count));
    this.buffer.set(rest);
    this.from = 0;
    this.to = rest.length;
  }

  /** Forgets all that was asked. */
  reset() {
    this.child?.kill();
    this.child = this.type = null;
    this.asked = [];
    this.next = this.sent = 0;
  }

  /** Gives up the answer that was taken last, and asks again for those behind it. */
  restart() {
    const rest = this.asked.slice(this.next);
    this.reset();
    this.asked = rest;
    this.flush();
    return null;
  }

  /** Null if the next answer is here, if its header is and says more than `most` bytes, or if no more comes; else a promise of that. */
  arrival(most) {
    return this.isHere(most) ? null : this.wait(() => this.isHere(most));
  }

  async wait(isHere) {
    while (!isHere()) {
      this.child.stdout.resume();
      await new Promise((wake) => (this.wake = wake));
    }
  }

  isHere(most) {
    if (this.type === null && !this.readHeader()) return this.isOver();
    return this.size > most || this.to - this.from > this.head + this.size || this.isOver();
  }

  /** Whether git has said all that it will say. */
  isOver() {
    return this.ended || this.isClosed();
  }

  /** Whether the last that git has said is the answer that closes a group. */
  isClosed() {
    return this.to - this.from >= MISSING.length && Buffer.compare(this.buffer.subarray(this.to - MISSING.length, this.to), MISSING) === 0;
  }

  /** `<id> missing` or `<id> <type> <size>` */
  readHeader() {
    const { buffer, from } = this;
    let end = from;
    while (end < this.to && buffer[end] !== 10 && end - from < 100) end++; // no line of git is so long
    if (end === this.to) return false;
    if (isAt(buffer, from, NOBODY)) {
      this.from = end + 1;
      return this.readHeader();
    }
    const type = isAt(buffer, from, this.asked[this.next]) ? TYPES.find((one) => isAt(buffer, from + 41, one)) : undefined;
    this.type = type ?? (isAt(buffer, from, `${this.asked[this.next]} missing`) ? "missing" : "?");
    this.size = type ? 0 : -1;
    for (let at = from + 42 + type?.length; at < end; at++) this.size = 10 * this.size + buffer[at] - 48;
    this.head = type ? end - from - 40 : 0;
    this.from = type ? from + 41 : end + 1;
    return true;
  }

  /** Type of the next answer, or "missing"; null when there is none. Its size is in `size`. To be called when it has arrived. */
  take() {
    const { type } = this;
    this.type = null;
    if (++this.next === this.asked.length) this.asked.length = this.next = this.sent = 0;
    return type === null || type === "?" ? this.restart() : type;
  }

  /** `<type> <size>`, a zero byte and the bytes, valid until the next await; null when they are not all. */
  body() {
    const end = this.from + this.head + this.size;
    if (end >= this.to || this.buffer[end] !== 10) return this.restart();
    const frame = this.buffer.subarray(this.from, end);
    frame[this.head - 1] = 0; // the newline of the header: now this is what git hashes
    this.from = end + 1;
    return frame;
  }

  /** The bytes in pieces; fewer than `size` when they are not all. The last bytes are held back: they may be `MISSING`. */
  async *pieces() {
    this.from += this.head;
    for (let left = this.size + 1; left > 0; ) {
      await this.wait(() => this.to - this.from > MISSING.length || this.isOver());
      // A git that ended before it closed the group has said nothing else behind the object.
      const held = this.ended && !this.isClosed() ? 0 : MISSING.length;
      const count = Math.min(left, this.to - this.from - held);
      if (count <= 0) return this.restart();
      const piece = this.buffer.subarray(this.from, this.from + count);
      this.from += count;
      left -= count;
      if (left > 0) yield piece;
      else if (piece[count - 1] === 10) yield piece.subarray(0, -1);
      else return this.restart();
    }
  }
}

// --- Refs, section 5 ----------------------------------------------------------------------------------------------------------

/** The largest packed-refs and shallow. */
const MAX_GIT_FILE = 256 * 2 ** 20;

/** The repository at `path`: refs, shallow commits, objects. */
function openRepository(path) {
  const isRepository = (dir) => isKind(`${dir}/HEAD`, "isFile") && isKind(`${dir}/objects`, "isDirectory");
  const dir = [path, `${path}/.git`].find(isRepository);
  if (dir === undefined) throw new Stop(4, "no repository");
  if (isKind(`${dir}/reftable`, "isDirectory")) throw new Stop(4, "a repository with a reftable cannot be read");
  for (const name of ["packed-refs", "shallow"]) {
    const stat = fs.lstatSync(`${dir}/${name}`, { throwIfNoEntry: false });
    if (stat?.isFile() && stat.size > MAX_GIT_FILE) throw new Stop(4, `${name} is too large`);
  }
  const version = /(\d+)\.(\d+)/.exec(spawnSync("git", ["--version"], { env: gitEnvironment(), encoding: "latin1" }).stdout ?? "");
  if (version === null || version[1] * 1000 + Number(version[2]) < 2036) throw new Stop(4, "git 2.36 or newer is needed");
  const shallow = new Set(idLines(dir, "shallow", /^([0-9a-f]{40})$/).map(([, id]) => id));
  return { refs: () => readRefs(dir), shallow: () => shallow, git: new Git(dir) };
}

function isKind(path, kind) {
  const stat = fs.statSync(path, { throwIfNoEntry: false });
  return stat?.[kind]() ?? false;
}

/** Matches of the lines of a regular file; none when it is something else. A character is a byte. */
function idLines(dir, name, form) {
  const file = openRegular(`${dir}/${name}`);
  if (file === null) return [];
  const text = fs.readFileSync(file, "latin1");
  fs.closeSync(file);
  return text.split("\n").map((line) => form.exec(line)).filter((match) => match !== null);
}

/** Opens a regular file; null if there is none. A link is not followed, and a pipe does not make us wait. */
function openRegular(path) {
  let file;
  try {
    file = fs.openSync(path, fs.constants.O_RDONLY | fs.constants.O_NOFOLLOW | fs.constants.O_NONBLOCK);
  } catch (error) {
    if (["ENOENT", "ENOTDIR", "ELOOP", "ENXIO"].includes(error.code)) return null;
    throw error;
  }
  if (fs.fstatSync(file).isFile()) return file;
  fs.closeSync(file);
  return null;
}

function readRefs(dir) {
  const refs = new Map(idLines(dir, "packed-refs", /^([0-9a-f]{40}) (refs\/(?:heads|remotes)\/.*)$/s).map(([, id, name]) => [name, id]));
  for (const folder of ["refs/heads", "refs/remotes"]) {
    const top = ["refs", folder].every((part) => fs.lstatSync(`${dir}/${part}`, { throwIfNoEntry: false })?.isDirectory());
    for (const name of top ? looseRefs(dir, folder) : []) refs.set(name, readRef(dir, name));
  }
  return [...refs].map(([name, id]) => ({ name: utf8(name), id }));
}

/** Names of all that is no folder; one character a byte, as file names need not be text. */
function* looseRefs(dir, top) {
  for (const folders = [top]; folders.length > 0; ) {
    const folder = folders.pop();
    for (const entry of fs.readdirSync(pathOf(dir, folder), { withFileTypes: true, encoding: "latin1" })) {
      const name = `${folder}/${entry.name}`;
      if (entry.isDirectory()) folders.push(name);
      else if (!name.endsWith(".lock")) yield name;
    }
  }
}

const pathOf = (dir, name) => Buffer.concat([Buffer.from(`${dir}/`), Buffer.from(name, "latin1")]);

function readRef(dir, name) {
  const file = openRegular(pathOf(dir, name));
  if (file === null) return null;
  const bytes = Buffer.alloc(42);
  const text = bytes.latin1Slice(0, fs.readSync(file, bytes, 0, 42, 0));
  fs.closeSync(file);
  return /^[0-9a-f]{40}\n$/.test(text) ? text.slice(0, 40) : null;
}

function utf8(name) {
  const text = Buffer.from(name, "latin1").toString();
  return Buffer.from(text).latin1Slice() === name ? text : null;
}

// --- Files and arguments, section 2 -------------------------------------------------------------------------------------------

function* piecesOf(file) {
  const buffer = Buffer.alloc(1 << 18);
  try {
    for (let count; (count = fs.readSync(file, buffer, 0, buffer.length, null)) > 0; ) yield buffer.subarray(0, count);
  } finally {
    fs.closeSync(file);
  }
}

/** An export: side files are beside it, in a folder of its name. */
function exportInput(path) {
  return {
    chunks: () => piecesOf(fs.openSync(path, "r")),
    file(name) {
      try {
        const file = openRegular(`${path}.files/${name}`);
        return file === null ? null : piecesOf(file);
      } catch {
        return null; // it cannot be read
      }
    },
  };
}

function readOption(path) {
  try {
    return new Uint8Array(fs.readFileSync(path));
  } catch (error) {
    throw new Stop(2, error.message);
  }
}

function parseArguments(args) {
  const given = new Map();
  const names = [];
  for (let at = 0; at < args.length; at++) {
    const arg = args[at];
    if (arg === "--require-signed") given.set(arg, true);
    else if (["--allowed-signers", "--revoked-keys", "--expect-seq", "--expect-head"].includes(arg) && at + 1 < args.length) given.set(arg, args[++at]);
    else if (arg.startsWith("-")) throw new Stop(2, USAGE);
    else names.push(arg);
  }
  const [seq, hash] = [given.get("--expect-seq"), given.get("--expect-head")];
  if (names.length < 1 || names.length > 2 || (seq === undefined) !== (hash === undefined)) throw new Stop(2, USAGE);
  if (seq !== undefined && !(/^[1-9][0-9]{0,7}$/.test(seq) && /^[0-9a-f]{64}$/.test(hash))) throw new Stop(2, USAGE);
  const [allowed, revoked] = ["--allowed-signers", "--revoked-keys"].map((name) => (given.has(name) ? readOption(given.get(name)) : null));
  const [path, name] = names;
  return {
    path,
    name: name === undefined || name.includes("/") ? name : `${name}/main`,
    expected: seq === undefined ? null : { seq: Number(seq), hash },
    requireSigned: given.has("--require-signed"),
    trust: new Trust(allowed, revoked, host),
  };
}

async function run(options) {
  const { path, name, expected } = options;
  const isGit = isKind(path, "isDirectory");
  if (!isGit && !(isKind(path, "isFile") && /\.jsonl?$/.test(path))) throw new Stop(4, "no such file, or no kind of it that is known here");
  const isProof = !isGit && path.endsWith(".json");
  if ((!isGit && name !== undefined) || (expected && (isProof || (isGit && name === undefined)))) throw new Stop(2, USAGE);
  if (!isGit) return isProof ? verifyProof(proofBytes(path), options, host) : verifyExport(exportInput(path), options, host);
  const repository = openRepository(path);
  try {
    return await verifyGit(repository, options, host);
  } finally {
    repository.git.reset();
  }
}

/** Up to one byte more than a proof may have. */
function proofBytes(path) {
  const pieces = [];
  let size = 0;
  for (const piece of piecesOf(fs.openSync(path, "r"))) {
    pieces.push(Buffer.from(piece));
    size += piece.length;
    if (size > 64 * 1024 * 1024) break;
  }
  return new Uint8Array(Buffer.concat(pieces));
}

try {
  const { exit, text } = await run(parseArguments(process.argv.slice(2)));
  fs.writeSync(1, text + "\n");
  process.exitCode = exit;
} catch (error) {
  fs.writeSync(2, `${error instanceof Stop ? error.message : error.stack}\n`);
  process.exitCode = error instanceof Stop ? error.exit : 4;
}
