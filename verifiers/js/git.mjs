// Git: sections 4, 5 and 8 of docs/verification.md, formats 5 and 6 of docs/format.md.
//
// `repo` has refs(): [{ name (null: not UTF-8), id (null: holds none) }], shallow(): a Set of commit ids, and git: ask(id) and flush() for requests, and
// for each answer in turn arrival(), take(), then body(), pieces() or restart(); reset() forgets what was asked.

import { MAX_EVENT, encodeName, isEncodedName, isName, isObject, readEvent } from "./event.mjs";
import { Bytes, LF, SPACE, copyOf, decode, encoder, hex, latin1 } from "./json.mjs";
import { Line, applyOptions, equivocation } from "./line.mjs";
import { Report, Stop, compare, verdict } from "./report.mjs";

const LARGEST = { commit: 64 * 1024, tree: 16 * 1024 * 1024, blob: MAX_EVENT };
const TOO_LARGE = { commit: "bad-commit", tree: "bad-tree", blob: "bad-member" };

const COMMIT = new RegExp(
  "^tree (?<tree>[0-9a-f]{40})\n(?:parent [0-9a-f]{40}\n)?" +
  "author (?<actor>[A-Za-z0-9][A-Za-z0-9._:@/+-]{0,99}) <\\k<actor>@gitjournal\\.invalid> (?<time>0|[1-9][0-9]{0,11}) \\+0000\n" +
  "committer gitjournal <gitjournal@gitjournal\\.invalid> \\k<time> \\+0000\n" +
  "(?<header>gpgsig (?<armour>-----BEGIN SSH SIGNATURE-----\n(?: [A-Za-z0-9+/=]+\n)+ -----END SSH SIGNATURE-----)\n)?" +
  "\n(?=.{1,64} #)(?<type>[a-z][a-z0-9_]*(?:\\.[a-z][a-z0-9_]*)*) #(?<seq>[1-9][0-9]{0,7})\n\n" +
  "Session: (?<session>[^\n\0]{1,200})\nEvent-Hash: sha256:(?<hash>[0-9a-f]{64})\n$",
);

/** The parts of a commit in the form of format 6, or null. */
function readCommit(raw) {
  const text = latin1(raw);
  const parts = COMMIT.exec(text)?.groups;
  const session = parts && decode(Uint8Array.from(parts.session, (char) => char.charCodeAt(0)));
  return parts && isName(session) ? { ...parts, text, session, time: Number(parts.time), seq: Number(parts.seq) } : null;
}

/** The parent that a commit's second line names, whatever else the commit is; null for none. */
function parentOf(raw) {
  const at = raw.indexOf(LF) + 1;
  const match = /^parent ([0-9a-f]{40})\n/.exec(latin1(raw.subarray(at, at + 48)));
  return match && match[1];
}

/** Calls `visit(mode, name, id offset)` for each entry until it says false. False if it did, or the bytes are no tree. */
function eachEntry(tree, visit) {
  const text = (from, to) => (to - from > 32 ? "?" : latin1(tree, from, to)); // longer ones are none of ours
  for (let at = 0; at < tree.length; ) {
    const zero = tree.indexOf(0, at);
    const blank = tree.indexOf(SPACE, at);
    if (zero < 0 || blank <= at || blank + 1 >= zero || zero + 21 > tree.length) return false;
    if (visit(text(at, blank), text(blank + 1, zero), zero + 1) === false) return false;
    at = zero + 21;
  }
  return true;
}

/** The events of a leaf tree: seq -> { blob, files: [[name, id], ...] in the order of names }; null if it is no leaf. */
function leafEvents(leaf) {
  const events = new Map();
  const names = new Set();
  const good = eachEntry(leaf, (mode, name, at) => {
    if (mode !== "100644" || !/^\d{8}\.(?:json|[1-9]\d{0,8})$/.test(name) || names.has(name)) return false;
    names.add(name);
    const seq = Number(name.slice(0, 8));
    if (!events.has(seq)) events.set(seq, { blob: null, files: [] });
    if (name.endsWith(".json")) events.get(seq).blob = hex(leaf, at, 20);
    else events.get(seq).files.push([name, hex(leaf, at, 20)]);
    return true;
  });
  for (const { files } of events.values()) files.sort((a, b) => compare(a[0], b[0]));
  return good ? events : null;
}

/** Objects out of git, section 4. They are taken in the order in which they were asked for. */
class Objects {
  constructor(git, host) {
    this.git = git;
    this.host = host;
  }

  /** To be awaited before `take`, unless it is null: then the answer is here already. */
  arrival(type) {
    return this.git.arrival(LARGEST[type]);
  }

  /** Bytes of a good object, valid until the next await; or null, and `code` says why. `expected`: what they must be. */
  take(type, id, expected = null) {
    if (!this.isOf(type)) return null;
    const { size } = this.git;
    if (size > LARGEST[type]) return this.refuse(TOO_LARGE[type]);
    this.code = "bad-object";
    const frame = this.git.body(); // `<type> <size>`, a zero byte, the bytes
    if (frame === null) return null;
    const bytes = frame.subarray(frame.length - size);
    const good = expected ? this.host.equal(bytes, expected) : this.host.sha1(frame) === id;
    return good ? bytes : this.refuse("bad-object");
  }

  /** Whether the next object is there, readable and of this type. */
  isOf(type) {
    const found = this.git.take();
    if (found === type) return true;
    this.code = found === "missing" ? "missing-object" : "bad-object";
    if (found !== null && found !== "missing") this.git.restart();
    return false;
  }

  /** Not good: what comes behind it in git's output is not to be believed either. */
  refuse(code) {
    this.code = code;
    this.git.restart();
    return null;
  }

  /** One object at once. */
  async get(type, id) {
    this.git.ask(id);
    this.git.flush();
    await this.arrival(type);
    return this.take(type, id);
  }

  /** Size and SHA-256 of a blob of any size; null as above. */
  async digest(id) {
    await this.git.arrival(0);
    if (!this.isOf("blob")) return null;
    const { size } = this.git;
    const [sha1, sha256] = [this.host.hasher("sha1"), this.host.hasher("sha256")];
    sha1.update(encoder.encode(`blob ${size}\0`));
    let read = 0;
    for await (const piece of this.git.pieces()) {
      sha1.update(piece);
      sha256.update(piece);
      read += piece.length;
    }
    if (read === size && sha1.hex() === id) return { size, sha256: sha256.hex() };
    return this.refuse("bad-object");
  }

  /** A tree as { id, bytes, code }; code is null when it is good. */
  async tree(id) {
    const bytes = copyOf(await this.get("tree", id));
    const code = bytes === null ? this.code : eachEntry(bytes, () => true) ? null : "bad-tree";
    return { id, bytes, code };
  }

  /** The folder `name` in a tree; what is wrong with the tree itself is wrong with it. */
  async folder(tree, name) {
    if (tree.code !== null) return tree;
    let id = null;
    eachEntry(tree.bytes, (mode, entry, at) => {
      if (id === null && entry === name && mode === "40000") id = hex(tree.bytes, at, 20);
    });
    return id === null ? { id: "", bytes: null, code: "missing-object" } : this.tree(id);
  }
}

const two = (number) => String(number).padStart(2, "0");
const middleName = (seq) => two(Math.floor(seq / 100) % 100);
const rootName = (seq) => two(Math.floor(seq / 10000)).padStart(4, "0");

/** The trees and commits that follow from events. Upper trees end in the entry that still changes. */
class Deriver {
  head = null;
  time = 0;
  leaf = new Bytes(32);
  middle = new Bytes(32);
  root = new Bytes(32);
  commit = new Bytes(32); // the one pushed last
  closedMiddle = 0; // lengths without that entry
  closedRoot = 0;

  constructor(host) {
    this.host = host;
  }

  /** The objects of the next event. `leafSize`: the leaf tree is the first bytes of `this.leaf`. */
  push(e, { blob, files }) {
    if (e.seq % 100 === 0) this.turnPage(e.seq);
    const stem = String(e.seq).padStart(8, "0");
    for (const [name, id] of files) this.leaf.ascii(`100644 ${name}\0`).hex(id);
    const leafSize = this.leaf.ascii(`100644 ${stem}.json\0`).hex(blob).length;
    const leaf = this.host.sha1(this.leaf.asObject("tree"));
    this.middle.length = this.closedMiddle;
    const middle = this.host.sha1(this.middle.ascii(`40000 ${middleName(e.seq)}\0`).hex(leaf).asObject("tree"));
    this.root.length = this.closedRoot;
    const root = this.host.sha1(this.root.ascii(`40000 ${rootName(e.seq)}\0`).hex(middle).asObject("tree"));
    this.time = Math.max(this.time, e.time);
    this.head = this.host.sha1(this.commit.clear().utf8(commitText(e, root, this.head, this.time)).asObject("commit"));
    return { seq: e.seq, leafSize, leaf, middle, root, commit: this.head };
  }

  turnPage(seq) {
    this.leaf.clear();
    this.closedMiddle = this.middle.length;
    if (seq % 10000 !== 0) return;
    this.closedRoot = this.root.length;
    this.closedMiddle = 0;
  }

  /** Leaf, middle and root of an event of the page that was pushed last. */
  trees({ leafSize, leaf, middle }) {
    this.middle.length -= 20;
    this.root.length -= 20;
    return [this.leaf.view(leafSize), this.middle.hex(leaf).view(), this.root.hex(middle).view()];
  }
}

function commitText(e, root, parent, time) {
  return `tree ${root}\n${parent === null ? "" : `parent ${parent}\n`}author ${e.actor} <${e.actor}@gitjournal.invalid> ${time} +0000\n` +
    `committer gitjournal <gitjournal@gitjournal.invalid> ${time} +0000\n\n${e.type} #${e.seq}\n\n` +
    `Session: ${e.session}\nEvent-Hash: sha256:${e.hash}\n`;
}

// --- A line in git, section 8 -------------------------------------------------------------------------------------------------

/**
 * One run over one line. Without `walking` it is the shortcut: no commit is looked at but those that the events derive, and
 * `run` says false as soon as that does not prove the line.
 */
class GitLine {
  last = 0;
  deriving = true;
  commits = new Bytes(); // of the walk: 20 bytes each, from the head back
  first = 1; // the oldest event that the walk came to
  firstParent = null; // what the commit there names
  ownRef = false; // whether the line's session is that of its ref

  constructor(repo, host, trust, ref, walking) {
    this.repo = repo;
    this.host = host;
    this.trust = trust;
    this.ref = ref;
    this.walking = walking;
    this.objects = new Objects(repo.git, host);
    this.report = new Report();
    this.report.name = ref.name;
    this.report.commit = ref.id;
    this.line = new Line(this.report, host);
    this.deriver = new Deriver(host);
  }

  async run() {
    const { report, line, ref } = this;
    const raw = await this.objects.get("commit", ref.id);
    const head = raw && readCommit(raw);
    if (head === null) return report.add(raw ? "bad-commit" : this.objects.code, null, ref.id);
    this.last = report.seq = head.seq;
    if (this.walking) await this.walk();
    if (!(await this.events(head.tree))) return false;
    report.hash = line.hashAt(this.last);
    if (line.session === null) return true;
    this.ownRef = encodeName(line.session) === ref.session;
    if (!this.ownRef || encodeName(line.branch) !== ref.branch) report.add("wrong-ref", null, ref.id);
    return true;
  }

  async walk() {
    const shallow = this.repo.shallow();
    this.first = this.last + 1;
    let [id, child] = [this.ref.id, null];
    for (let seq = this.last; seq >= 1; seq--) {
      const raw = await this.objects.get("commit", id);
      if (raw === null) {
        if (this.objects.code === "missing-object" && shallow.has(child)) this.report.leftOut = seq;
        else this.report.add(this.objects.code, seq, id);
        return;
      }
      this.commits.hex(id);
      this.first = seq;
      this.firstParent = parentOf(raw);
      if (seq === 1 && this.firstParent !== null) this.report.add("bad-commit", 1, this.firstParent);
      if (seq > 1 && this.firstParent === null) return this.report.add("bad-commit", seq, id);
      [child, id] = [id, this.firstParent];
    }
  }

  /** Page by page: the 100 events of a leaf, then what they derive. The events of the next page are asked for in between. */
  async events(rootId) {
    this.root = await this.objects.tree(rootId);
    let page = await this.page(0);
    this.askEvents(page);
    while (page) {
      this.repo.git.flush();
      await this.readEvents(page);
      if (!this.walking && !this.deriving) return false;
      const next = page.end <= this.last && !this.report.full ? await this.page(page.end) : null;
      this.askDerived(page);
      if (next) this.askEvents(next);
      this.repo.git.flush();
      await this.readDerived(page);
      if (!this.walking && this.report.findings.size > 0) return false;
      await this.trust.settle(this.report);
      page = next;
    }
    return this.walking || this.deriver.head === this.ref.id;
  }

  async page(start) {
    if (start % 10000 === 0) this.middle = await this.objects.folder(this.root, rootName(start));
    const leaf = await this.objects.folder(this.middle, middleName(start));
    const entries = leaf.code === null ? leafEvents(leaf.bytes) : null;
    if (entries === null) this.report.add(leaf.code ?? "bad-tree", Math.max(start, 1), leaf.id);
    return { start: Math.max(start, 1), end: start + 100, entries, derived: [], files: [], commits: new Map() };
  }

  /** The events of a page that the line has, with their entries. */
  *places({ start, end, entries }) {
    for (let seq = start; seq < end && seq <= this.last; seq++) yield [seq, entries?.get(seq)];
  }

  commitAt(seq) {
    return hex(this.commits.data, 20 * (this.last - seq), 20);
  }

  askEvents(page) {
    for (const [seq] of this.places(page)) if (this.walking && seq >= this.first) this.repo.git.ask(this.commitAt(seq));
    for (const [, entry] of this.places(page)) if (entry?.blob) this.repo.git.ask(entry.blob);
  }

  async readEvents(page) {
    const { objects } = this;
    for (const [seq] of this.places(page)) {
      if (!this.walking || seq < this.first) continue;
      await objects.arrival("commit");
      page.commits.set(seq, copyOf(objects.take("commit", this.commitAt(seq))));
    }
    for (const [seq, entry] of this.places(page)) {
      const arrival = entry?.blob ? objects.arrival("blob") : null;
      if (arrival) await arrival;
      const e = this.readEvent(page, seq, entry);
      if (e === null) {
        this.line.lose(seq);
        this.deriving = false;
        continue;
      }
      this.line.next(e, seq, entry.blob);
      this.checkFiles(page, e, seq, entry.files);
      if (e.seq !== seq) this.deriving = false;
      if (this.deriving) this.compare(page, e, seq, entry);
    }
  }

  readEvent(page, seq, entry) {
    if (!entry?.blob) {
      if (page.entries) this.report.add("missing-object", seq, "");
      return null;
    }
    const bytes = this.objects.take("blob", entry.blob);
    const e = bytes === null ? this.objects.code : readEvent(bytes, this.host);
    if (typeof e !== "string") return e;
    this.report.add(e, seq, entry.blob);
    return null;
  }

  checkFiles(page, e, seq, files) {
    if (files.length + e.files.length === 0) return;
    const ids = files.map(([name, id]) => [Number(name.slice(9)), id]).sort((a, b) => a[0] - b[0]);
    if (ids.length !== e.files.length || ids.some(([number], i) => number !== i + 1)) this.report.add("bad-file", seq, e.hash);
    else ids.forEach(([, id], i) => page.files.push({ seq, id, expected: e.files[i] }));
  }

  compare(page, e, seq, entry) {
    const { deriver } = this;
    // The commits before may be signed and are not there to tell, so the parent is the one that the commit names.
    if (this.walking && seq === this.first && seq > 1) deriver.head = this.firstParent;
    const derived = deriver.push(e, entry);
    if (this.walking) {
      if (seq < this.first) return;
      const actual = this.commitAt(seq);
      if (actual !== derived.commit && !this.isSigned(e, actual, page.commits.get(seq))) {
        this.deriving = false;
        return;
      }
      deriver.head = actual;
    }
    page.derived.push(derived);
  }

  /** Whether the commit is the derived one with a signature on it; otherwise it is reported. */
  isSigned(e, actual, raw) {
    const commit = raw ? readCommit(raw) : null;
    const report = (code) => this.report.add(code, e.seq, actual);
    if (commit === null) return report("bad-commit");
    const message = copyOf(this.deriver.commit.view());
    if (commit.header && commit.text.replace(commit.header, "") === latin1(message)) {
      const armour = commit.armour.replaceAll("\n ", "\n");
      this.report.pending.push({ armour, namespace: "git", message, time: commit.time, key: null, covers: e.seq, seq: e.seq, id: actual });
      return true;
    }
    if (commit.hash !== e.hash) return report("bad-hash");
    if (commit.seq !== e.seq || commit.session !== e.session || commit.type !== e.type) return report("bad-commit");
    return report("bad-tree");
  }

  askDerived(page) {
    const { git } = this.repo;
    for (const { id } of page.files) git.ask(id);
    for (const { commit, leaf, middle, root } of page.derived) {
      if (!this.walking) git.ask(commit);
      git.ask(leaf), git.ask(middle), git.ask(root);
    }
  }

  async readDerived(page) {
    const { report, objects } = this;
    for (const { seq, id, expected } of page.files) {
      const found = await objects.digest(id);
      if (found === null) report.add(objects.code, seq, id);
      else if (found.size !== expected.size || found.sha256 !== expected.sha256) report.add("bad-file", seq, id);
      else report.sideFiles++;
    }
    for (const derived of page.derived) {
      const ids = [derived.commit, derived.leaf, derived.middle, derived.root];
      const contents = [null, ...this.deriver.trees(derived)];
      for (let i = this.walking ? 1 : 0; i < 4; i++) { // the walk has read the commits
        const type = i === 0 ? "commit" : "tree";
        const arrival = objects.arrival(type);
        if (arrival) await arrival;
        if (objects.take(type, ids[i], contents[i]) === null) report.add(objects.code, derived.seq, ids[i]);
      }
    }
  }
}

/** The encoded session and branch of a line's ref; "nothing" for a clone's HEAD, null for a foreign ref. */
function parseRef(name) {
  const parts = name === null ? [] : name.split("/");
  if (parts.length === 4 && parts[1] === "remotes" && parts[3] === "HEAD") return "nothing";
  const remote = parts[1] === "remotes"; // called by a name, too, but as it stands
  if (parts.length !== (remote ? 5 : 4) || (remote && !isName(parts[2]))) return null;
  const [session, branch] = parts.slice(-2);
  return isEncodedName(session) && isEncodedName(branch) ? { session, branch } : null;
}

export async function verifyGit(repo, options, host) {
  const refs = repo.refs().map((ref) => ({ ...ref, place: parseRef(ref.name) }));
  const foreign = refs.filter(({ place }) => place === null).length;
  const bytesOf = (name) => latin1(encoder.encode(name));
  const wanted = refs.filter(({ place }) => isObject(place) && (!options.name || options.name === `${place.session}/${place.branch}`));
  if (wanted.length === 0) throw new Stop(4, "no line of a journal, or none of this name");
  if (options.expected && wanted.length > 1) throw new Stop(2, "an expected head needs exactly one line");
  wanted.sort((a, b) => compare(bytesOf(a.name), bytesOf(b.name)));
  const lines = [];
  for (const { name, id, place } of wanted) lines.push(await verifyRef(repo, options, host, { name, id, ...place }));
  for (const [i, later] of lines.entries()) {
    const others = lines.slice(0, i).filter(({ line, ownRef }) => ownRef && later.ownRef && line.session === later.line.session);
    for (const earlier of others) equivocation(earlier.line, later.line);
  }
  return verdict("git", lines.map(({ report }) => report), options, foreign);
}

async function verifyRef(repo, options, host, ref) {
  for (const walking of [false, true]) {
    const checked = new GitLine(repo, host, options.trust, ref, walking);
    if (ref.id === null) {
      checked.report.add("wrong-ref", null, "");
      return checked;
    }
    if ((await checked.run()) !== false) {
      applyOptions(checked.line, options);
      return checked;
    }
    repo.git.reset();
  }
}

