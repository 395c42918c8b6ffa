// The rules between the events of one line: section 7 of docs/verification.md.

import { encodeName, isName, isObject } from "./event.mjs";
import { Bytes, hex } from "./json.mjs";
import { Tree, awaitSignatures, checkpointOf, isSeal } from "./seal.mjs";

export class Line {
  prev = null;
  prevKnown = true;
  session = null;
  epoch = 1;
  branch = "main";
  hashes = new Bytes(); // 32 bytes an event; zeros for a lost one
  firstLost = Infinity;
  declared = new Set();
  tree = null; // made by the first seal

  constructor(report, host) {
    this.report = report;
    this.host = host;
  }

  hashAt(seq) {
    if (!(seq >= 1 && 32 * seq <= this.hashes.length) || this.isLost(seq)) return null;
    return hex(this.hashes.data, 32 * seq - 32, 32);
  }

  isLost(seq) {
    return seq >= this.firstLost && this.hashes.data.subarray(32 * seq - 32, 32 * seq).every((byte) => byte === 0);
  }

  lose(seq) {
    const at = this.hashes.take(32);
    this.hashes.data.fill(0, at, at + 32);
    this.firstLost = Math.min(this.firstLost, seq);
    this.prevKnown = false;
  }

  next(e, seq, id) {
    const { report } = this;
    if (e.seq !== seq) report.add("bad-seq", seq, id);
    if (this.prevKnown && e.prev !== this.prev) report.add("broken-link", seq, id);
    if (e.epoch < this.epoch) report.add("bad-epoch", seq, id);
    if (this.session !== null && e.session !== this.session && e.type !== "session.fork") report.add("bad-session", seq, id);
    if (e.type === "session.branch" || e.type === "session.fork") this.fork(e, seq, id);
    this.prev = e.hash;
    this.prevKnown = true;
    this.hashes.hex(e.hash);
    this.session = e.session;
    this.epoch = Math.max(this.epoch, e.epoch);
    if (e.withheld) report.withhold(seq);
    if (e.type === "session.seal") this.seal(e, seq, id);
  }

  fork(e, seq, id) {
    const from = e.data.from;
    let good = isObject(from) && Number.isInteger(from.seq);
    if (good) {
      if (e.type === "session.branch") {
        if (isName(e.data.branch)) this.branch = e.data.branch;
        else good = false;
      } else {
        if (this.session !== null && (e.session === this.session || from.session !== this.session)) good = false;
        if (from.seq !== seq - 1) good = false;
        this.branch = "main";
      }
      if (from.seq < 1 || from.seq >= seq) good = false;
      else if (this.isLost(from.seq)) ; // nobody can tell
      else if (this.hashAt(from.seq) === from.hash) this.declared.add(from.seq);
      else good = false;
    }
    if (!good) this.report.add("bad-fork", seq, id);
  }

  /** Section 9, seal(e) */
  seal(e, seq, id) {
    this.report.seals++;
    if (this.firstLost < seq) return; // root and hash cannot be computed
    this.tree ??= new Tree(this.host);
    while (this.tree.size < seq - 1) this.tree.push(hex(this.hashes.data, 32 * this.tree.size, 32));
    const good = isSeal(e.data, seq) && e.data.root === this.tree.root() &&
      e.data.checkpoint === checkpointOf(encodeName(e.session), encodeName(this.branch), seq - 1, e.data.root);
    if (good) awaitSignatures(this.report, e, seq, id);
    else this.report.add("bad-seal", seq, id);
  }
}

/** Equivocation: two lines of one session must not go apart silently. */
export function equivocation(earlier, later) {
  const size = (line) => Math.min(line.firstLost - 1, line.hashes.length / 32);
  const both = Math.min(size(earlier), size(later));
  let at = 0;
  while (at < 32 * both && earlier.hashes.data[at] === later.hashes.data[at]) at++;
  const equal = Math.floor(at / 32);
  if (equal < both && !earlier.declared.has(equal) && !later.declared.has(equal)) {
    later.report.add("equivocation", equal + 1, later.hashAt(equal + 1));
  }
}

function expectHead(line, expected) {
  const count = line.report.seq;
  if (count < expected.seq) line.report.add("truncated", count || null, expected.hash);
  else if (line.hashAt(expected.seq) !== expected.hash) line.report.add("rollback", expected.seq, expected.hash);
}

/** What the auditor asked for beyond the rules. */
export function applyOptions(line, { expected, requireSigned }) {
  const { report } = line;
  if (expected) expectHead(line, expected);
  if (requireSigned && report.signedTo === 0) report.add("bad-signature", null, "");
}
