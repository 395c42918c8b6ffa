// What is reported: sections 3, 10 and 11 of docs/verification.md.

import { canonical } from "./json.mjs";

export const MAX_FINDINGS = 1000;

const TEXTS = {
  "bad-commit": "a commit is not in its form, or says something else than its event",
  "bad-epoch": "epoch is below 1, or falls",
  "bad-file": "a side file is not what the event says, or their number differs",
  "bad-fork": "a start, branch or fork does not stand or come from where it says",
  "bad-hash": "a commit names another event hash than its event has",
  "bad-json": "the bytes are not JSON, or break a rule that all JSON here keeps",
  "bad-member": "a member is missing, unknown, too big or breaks its rule",
  "bad-object": "an object cannot be read, or its content does not have its id",
  "bad-seal": "a seal or proof does not agree with the events",
  "bad-seq": "seq is out of range, or not one more than the event before",
  "bad-session": "session changes without a fork",
  "bad-signature": "a signature is wrong, of another namespace or key, or missing",
  "bad-tree": "a tree is malformed, or a commit is not the one that the events derive",
  "bad-version": "the version is not 1",
  "broken-link": "prev is not the hash of the event before",
  "equivocation": "two lines of a session go apart and neither says so",
  "missing-object": "an object that must be there is not",
  "not-canonical": "JSON, but not in canonical form",
  "rollback": "another event stands where the expected head was",
  "truncated": "the line ends before the expected head, or in the middle of an event",
  "unknown-signer": "a right signature of a key that the allowed signers do not accept",
  "wrong-ref": "the ref is not one of this line, or holds no commit id",
};

/** Ends the run without a verdict: exit 2 is wrong usage, 4 nothing to verify. */
export class Stop extends Error {
  constructor(exit, message) {
    super(message);
    this.exit = exit;
  }
}

export class Report {
  name = null;
  commit = null;
  seq = 0;
  hash = null;
  seals = 0;
  sideFiles = 0;
  signatures = 0;
  signedTo = 0;
  notChecked = 0; // signatures of a kind that is not checked
  leftOut = 0; // commits that a shallow history leaves out
  ends = false; // an accepting line has valid-before: the note about clocks
  withheld = [];
  signers = new Map();
  findings = new Map();
  pending = []; // signatures that are still to be checked: the only step that may have to wait

  add(code, seq, id) {
    if (!this.full) this.findings.set(`${code} ${seq} ${id}`, { code, seq, id, text: TEXTS[code] });
  }

  get full() {
    return this.findings.size >= MAX_FINDINGS;
  }

  withhold(seq) {
    const last = this.withheld.at(-1);
    if (last && last[1] === seq - 1) last[1] = seq;
    else this.withheld.push([seq, seq]);
  }

  asJson() {
    const order = (a, b) => (a.seq ?? 0) - (b.seq ?? 0) || compare(a.code, b.code) || compare(a.id, b.id);
    const signers = [...this.signers.values()].map(({ key, principals, signatures }) => ({ key, principals, signatures }));
    return {
      findings: [...this.findings.values()].sort(order),
      head: { commit: this.commit, hash: this.hash, seq: this.seq },
      name: this.name,
      seals: this.seals,
      side_files: this.sideFiles,
      signatures: this.signatures,
      signed_to: this.signedTo,
      signers: signers.sort((a, b) => compare(a.key, b.key)),
      withheld: this.withheld,
    };
  }
}

export const compare = (a, b) => (a < b ? -1 : a > b ? 1 : 0);

// --- The verdict, sections 3 and 10 -------------------------------------------------------------------------------------------

const NOT_THERE = {
  git: "events that are not yet in git: the tail of a live journal",
  jsonl: "commits, trees and refs: an export has none",
  proof: "all other events: a proof shows what it names",
};

/** { exit, text }: the text is one line of canonical JSON. */
export function verdict(input, reports, { trust, expected }, foreign) {
  const sum = (count) => reports.reduce((total, report) => total + count(report), 0);
  const signatures = sum((report) => report.signatures);
  const notChecked = sum((report) => report.notChecked);
  const leftOut = sum((report) => report.leftOut);
  const withheld = sum((report) => report.withheld.reduce((total, [from, to]) => total + to - from + 1, 0));
  const unchecked = [];
  let incomplete = false;
  const note = (applies, text, isGap = false) => {
    if (applies) unchecked.push(text);
    incomplete ||= applies && isGap;
  };
  note(true, NOT_THERE[input]);
  note(!expected, "whether newer events were cut off: no head was expected");
  note(signatures === 0, "who wrote the events: nothing is signed");
  note(signatures > 0 && !trust.given, "whose keys signed: no allowed signers were given", true);
  note(notChecked > 0, `signatures of a kind that is not checked here: ${notChecked}`, true);
  note(reports.some((report) => report.ends), "when it was signed: an accepted key has an end, and the time is the signer's word");
  note(trust.given && reports.some((report) => report.signedTo < report.seq), "events after the last accepted signature");
  note(withheld > 0, `the payloads of withheld events: ${withheld}`);
  note(leftOut > 0, `commits that a shallow history leaves out: ${leftOut}`, true);
  note(foreign > 0, `refs that are no line of a journal: ${foreign}`);
  note(reports.some((report) => report.full), `what comes after ${MAX_FINDINGS} findings in a line`, true);
  const broken = reports.some((report) => report.findings.size > 0);
  const word = broken ? "broken" : incomplete ? "incomplete" : "ok";
  const value = { input, lines: reports.map((report) => report.asJson()), unchecked, verdict: word, version: 1 };
  return { exit: { ok: 0, broken: 1, incomplete: 3 }[word], text: canonical(value) };
}
