// Makes journals, exports, seals and signatures for the tests, straight from docs/format.md and with nothing of the verifier.

import { spawnSync } from "node:child_process";
import crypto from "node:crypto";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";
import zlib from "node:zlib";

export const sha = (name, data) => crypto.createHash(name).update(data).digest("hex");
export const here = (name) => fileURLToPath(new URL(`../${name}`, import.meta.url));

export function scratchFolder(t) {
  const dir = fs.mkdtempSync(path.join(os.tmpdir(), "verify-js-"));
  t.after(() => fs.rmSync(dir, { recursive: true, force: true }));
  return dir;
}

/** Runs the command line: { status, verdict (null for none), stderr }. */
export function verify(...args) {
  const { status, stdout, stderr } = spawnSync(process.execPath, [here("cli.mjs"), ...args], { encoding: "utf8", timeout: 60_000 });
  return { status, verdict: stdout === "" ? null : JSON.parse(stdout), stderr };
}

/** `code seq` of all findings of the first line. */
export const findings = ({ verdict }) => verdict.lines[0].findings.map(({ code, seq }) => `${code} ${seq}`);

export function canonical(value) {
  if (Array.isArray(value)) return `[${value.map(canonical).join(",")}]`;
  if (value === null || typeof value !== "object") return JSON.stringify(value);
  return `{${Object.keys(value).sort().map((name) => `${JSON.stringify(name)}:${canonical(value[name])}`).join(",")}}`;
}

export function eventHash(event) {
  const { data, files, salt, ...header } = event;
  if (data !== undefined) header.data_sha256 = sha("sha256", canonical(JSON.parse(JSON.stringify({ data, files, salt }))));
  return sha("sha256", canonical(header));
}

/** Events 1 to count of session s; `change(event, hashes)` may change each of them before the next one follows it. */
export function events(count, change = () => {}) {
  const out = [];
  const hashes = [];
  for (let seq = 1; seq <= count; seq++) {
    const type = seq === 1 ? "session.start" : "message";
    const event = { v: 1, session: "s", seq, prev: hashes.at(-1) ?? null, epoch: 1, ts: "2026-01-02T03:04:05.678Z", type, actor: "host", data: { n: seq } };
    change(event, hashes);
    out.push(event);
    hashes.push(eventHash(event));
  }
  return out;
}

export const lines = (list) => list.map((event) => `${canonical(event)}\n`).join("");

// --- Repositories: loose objects -------------------------------------------------------------------------------------------------

export class Repository {
  constructor(dir) {
    this.dir = dir;
    for (const folder of ["objects", "refs/heads/s"]) fs.mkdirSync(path.join(dir, folder), { recursive: true });
    fs.writeFileSync(path.join(dir, "HEAD"), "ref: refs/heads/s/main\n");
    fs.writeFileSync(path.join(dir, "config"), "[core]\n\trepositoryformatversion = 0\n\tbare = true\n");
  }

  fileOf(id) {
    return path.join(this.dir, "objects", id.slice(0, 2), id.slice(2));
  }

  /** Stores an object; `header` and `id` may lie. */
  put(type, content, header = `${type} ${content.length}`, id = null) {
    const raw = Buffer.concat([Buffer.from(`${header}\0`), Buffer.from(content)]);
    id ??= sha("sha1", raw);
    fs.mkdirSync(path.dirname(this.fileOf(id)), { recursive: true });
    fs.writeFileSync(this.fileOf(id), zlib.deflateSync(raw));
    return id;
  }

  tree(entries) {
    return this.put("tree", Buffer.concat(entries.flatMap(([mode, name, id]) => [Buffer.from(`${mode} ${name}\0`), Buffer.from(id, "hex")])));
  }

  /** Writes events (fewer than 100, without side files) and returns the ids of their commits. */
  write(list, { sign = () => "", leaf = (entries) => entries } = {}) {
    const entries = [];
    const commits = [];
    for (const event of list) {
      entries.push(["100644", `${String(event.seq).padStart(8, "0")}.json`, this.put("blob", canonical(event))]);
      const root = this.tree([["40000", "0000", this.tree([["40000", "00", this.tree(leaf([...entries], event))]])]]);
      const parent = commits.length > 0 ? `parent ${commits.at(-1)}\n` : "";
      const time = Date.parse(event.ts.slice(0, 19) + "Z") / 1000;
      const begin = `tree ${root}\n${parent}author ${event.actor} <${event.actor}@gitjournal.invalid> ${time} +0000\n` +
        `committer gitjournal <gitjournal@gitjournal.invalid> ${time} +0000\n`;
      const end = `\n${event.type} #${event.seq}\n\nSession: ${event.session}\nEvent-Hash: sha256:${eventHash(event)}\n`;
      const armour = sign(event, begin + end);
      commits.push(this.put("commit", begin + (armour && `gpgsig ${armour.trimEnd().replaceAll("\n", "\n ")}\n`) + end));
    }
    this.point(commits.at(-1));
    return commits;
  }

  point(id, name = "s/main") {
    const file = path.join(this.dir, "refs/heads", name);
    fs.mkdirSync(path.dirname(file), { recursive: true });
    fs.writeFileSync(file, `${id}\n`);
  }
}

// --- Keys, signatures, seals -----------------------------------------------------------------------------------------------------

const string = (bytes) => {
  const size = Buffer.alloc(4);
  size.writeUInt32BE(Buffer.byteLength(bytes));
  return Buffer.concat([size, Buffer.from(bytes)]);
};
const mpint = (bytes) => {
  const digits = bytes.subarray(bytes.findIndex((byte) => byte !== 0));
  return string(digits[0] >= 0x80 ? Buffer.concat([Buffer.from([0]), digits]) : digits);
};
const unurl = (text) => Buffer.from(text, "base64url");

/** A new key of a kind: its blob, its line for allowed signers, its fingerprint, and sign(message, namespace). */
export function newKey(kind) {
  const made = { "ssh-ed25519": ["ed25519"], "ecdsa-sha2-nistp256": ["ec", { namedCurve: "P-256" }], "ecdsa-sha2-nistp384": ["ec", { namedCurve: "P-384" }],
    "ecdsa-sha2-nistp521": ["ec", { namedCurve: "P-521" }], "ssh-rsa": ["rsa", { modulusLength: 2048 }] }[kind];
  const { privateKey, publicKey } = crypto.generateKeyPairSync(...made);
  const { x, y, n, e } = publicKey.export({ format: "jwk" });
  const curve = kind.split("-").at(-1);
  const rest = { ed25519: () => [string(unurl(x))], rsa: () => [mpint(unurl(e)), mpint(unurl(n))] }[curve] ??
    (() => [string(curve), string(Buffer.concat([Buffer.from([4]), unurl(x), unurl(y)]))]);
  const blob = Buffer.concat([string(kind), ...rest()]);
  const raw = (data) => {
    if (curve === "ed25519") return [kind, crypto.sign(null, data, privateKey)];
    if (curve === "rsa") return ["rsa-sha2-512", crypto.sign("sha512", data, privateKey)];
    const pair = crypto.sign({ nistp256: "sha256", nistp384: "sha384", nistp521: "sha512" }[curve], data, { key: privateKey, dsaEncoding: "ieee-p1363" });
    return [kind, Buffer.concat([mpint(pair.subarray(0, pair.length / 2)), mpint(pair.subarray(pair.length / 2))])];
  };
  const sign = (message, namespace) => {
    const parts = [string(namespace), string(""), string("sha512"), string(crypto.createHash("sha512").update(message).digest())];
    const [algorithm, signature] = raw(Buffer.concat([Buffer.from("SSHSIG"), ...parts]));
    const inner = Buffer.concat([string(algorithm), string(signature)]);
    const all = Buffer.concat([Buffer.from("SSHSIG\0\0\0\x01"), string(blob), ...parts.slice(0, 3), string(inner)]);
    return `-----BEGIN SSH SIGNATURE-----\n${all.toString("base64").replace(/.{70}/g, "$&\n")}\n-----END SSH SIGNATURE-----\n`;
  };
  const fingerprint = `SHA256:${crypto.createHash("sha256").update(blob).digest("base64").replaceAll("=", "")}`;
  return { line: `${kind} ${blob.toString("base64")}`, fingerprint, sign };
}

const node = (left, right) => sha("sha256", Buffer.concat([Buffer.from([1]), Buffer.from(left, "hex"), Buffer.from(right, "hex")]));

/** RFC 9162 section 2.1.1, as it is written there. */
export function merkleRoot(hashes) {
  if (hashes.length === 1) return sha("sha256", Buffer.concat([Buffer.from([0]), Buffer.from(hashes[0], "hex")]));
  const half = 2 ** Math.floor(Math.log2(hashes.length - 1));
  return node(merkleRoot(hashes.slice(0, half)), merkleRoot(hashes.slice(half)));
}

/** RFC 9162 section 2.1.3.1, base64. */
export function inclusionPath(hashes, index) {
  if (hashes.length === 1) return [];
  const half = 2 ** Math.floor(Math.log2(hashes.length - 1));
  const [left, right] = [hashes.slice(0, half), hashes.slice(half)];
  const [inside, beside, at] = index < half ? [left, right, index] : [right, left, index - half];
  return [...inclusionPath(inside, at), Buffer.from(merkleRoot(beside), "hex").toString("base64")];
}

/** Makes an event the seal of those before it. */
export function seal(event, hashes, ...keys) {
  const root = merkleRoot(hashes);
  const checkpoint = `gitjournal/s/main\n${hashes.length}\n${Buffer.from(root, "hex").toString("base64")}\n`;
  const signatures = keys.map((key) => ({ key: key.fingerprint, sshsig: key.sign(checkpoint, "gitjournal") }));
  Object.assign(event, { type: "session.seal", data: { size: hashes.length, root, checkpoint, signatures } });
}
