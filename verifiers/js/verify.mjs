// Standalone verifier of gitjournal: the checks, beginning with exports and proofs. "Section N" is a section of docs/verification.md, "format N" one of
// docs/format.md. To be read in this order: json, event, report, seal, line, trust, verify, git; then cli or browser.
//
// These modules import nothing else and run in Node and in a browser. `host` gives them the primitives:
//   sha256(bytes), sha1(bytes)   hex digest (sha1 for git only)
//   digest(name, bytes)          digest as bytes, or a promise of it; name is "sha256" or "sha512"
//   hasher(name)                 the same in pieces: update(bytes), hex()
//   equal(a, b)                  whether two byte arrays are equal (git only)
//   verify(key, bytes)           true, false, or null for "cannot check this kind"; or a promise of it
// Nothing here trusts what it reads: every byte comes from somebody who may want to be believed.

import { MAX_EVENT, encodeName, hasExactly, isEncodedName, readEvent } from "./event.mjs";
import { Bytes, LF, OPEN_OBJECT, decoder, encoder, hex, scan, unbase64 } from "./json.mjs";
import { Line, applyOptions } from "./line.mjs";
import { Report, Stop, verdict } from "./report.mjs";
import { awaitSignatures, checkpointOf, isConsistent, isIncluded, isSeal, leafHash } from "./seal.mjs";

const MAX_PROOF = 64 * 1024 * 1024;

// --- An export, format 11 -----------------------------------------------------------------------------------------------------

/** The lines of an export: { bytes (null: too long for an event), ended }. `bytes` is valid until the next one. */
async function* linesOf(chunks) {
  const line = new Bytes();
  let size = 0; // of the line so far; what is too long is not kept
  for await (const chunk of chunks) {
    for (let from = 0; from < chunk.length; ) {
      const newline = chunk.indexOf(LF, from);
      const end = newline < 0 ? chunk.length : newline;
      size += end - from;
      if (size <= MAX_EVENT) line.add(chunk.subarray(from, end));
      from = end + 1;
      if (newline < 0) break;
      yield { bytes: size <= MAX_EVENT ? line.view() : null, ended: true };
      line.clear();
      size = 0;
    }
  }
  if (size > 0) yield { bytes: null, ended: false };
}

/** `input` has chunks(): the file in pieces, and file(name): a side file in pieces, or null if it is none. */
export async function verifyExport(input, options, host) {
  const report = new Report();
  const line = new Line(report, host);
  for await (const { bytes, ended } of linesOf(input.chunks())) {
    const seq = ++report.seq;
    if (report.full) continue;
    const e = !ended ? "truncated" : bytes === null ? "bad-member" : readEvent(bytes, host);
    if (typeof e === "string") {
      report.add(e, seq, "");
      line.lose(seq);
      continue;
    }
    line.next(e, seq, "");
    for (const [i, expected] of e.files.entries()) await sideFile(input, host, report, e, `${seq}.${i + 1}`, seq, expected);
    if (report.pending.length > 0) await options.trust.settle(report);
  }
  if (report.seq === 0) throw new Stop(4, "the export is empty");
  report.hash = line.hashAt(report.seq);
  applyOptions(line, options);
  return verdict("jsonl", [report], options, 0);
}

async function sideFile(input, host, report, e, name, seq, expected) {
  const pieces = await input.file(name);
  if (pieces === null) return report.add("missing-object", seq, e.hash);
  const sha256 = host.hasher("sha256");
  let size = 0;
  for await (const piece of pieces) {
    sha256.update(piece);
    size += piece.length;
    if (size > expected.size) break;
  }
  if (size !== expected.size || sha256.hex() !== expected.sha256) report.add("bad-file", seq, e.hash);
  else report.sideFiles++;
}

// --- A proof, section 9 -------------------------------------------------------------------------------------------------------

export async function verifyProof(bytes, options, host) {
  const report = new Report();
  const broken = proofFault(bytes, report, host);
  if (broken) report.add(broken, null, "");
  else await options.trust.settle(report);
  applyOptions(new Line(report, host), options);
  return verdict("proof", [report], options, 0);
}

/** At most 1,000 of the bytes `,` `[` `{` stand outside of strings: each value takes far more room than its text. */
function hasFewValues(text) {
  let marks = 0;
  let quoted = false;
  for (let at = 0; at < text.length && marks <= 1000; at++) {
    const char = text[at];
    if (char === 0x5c) at++;
    else if (char === 0x22) quoted = !quoted;
    else if (!quoted && (char === 0x2c || char === 0x5b || char === 0x7b)) marks++;
  }
  return marks <= 1000;
}

/** The code of the first broken rule, or null; then the signatures are pending in the report. */
function proofFault(bytes, report, host) {
  if (bytes.length > MAX_PROOF) return "bad-json";
  const ended = bytes.at(-1) === LF;
  const text = ended ? bytes.subarray(0, -1) : bytes;
  const found = hasFewValues(text) ? scan(text) : null;
  if (found === null) return "bad-json";
  if (!found.canonical || !ended) return "not-canonical";
  if (text[0] !== OPEN_OBJECT) return "bad-json";
  const proof = JSON.parse(decoder.decode(text));
  if (proof.format !== "gitjournal-proof" || proof.version !== 1) return "bad-version";
  const inclusion = proof.kind === "inclusion" && hasExactly(proof, "event", "format", "kind", "path", "seal", "version");
  const consistency = proof.kind === "consistency" && hasExactly(proof, "first", "format", "kind", "path", "second", "version");
  if (!inclusion && !consistency) return "bad-member";
  const texts = inclusion ? [proof.event, proof.seal] : [proof.first, proof.second];
  if (!texts.every((one) => typeof one === "string") || !Array.isArray(proof.path) || proof.path.length > 64) return "bad-member";
  const path = proof.path.map((hash) => (typeof hash === "string" && hash.length === 44 ? unbase64(hash) : null));
  if (!path.every((hash) => hash?.length === 32)) return "bad-member";
  return eventsFault(inclusion, texts, path.map((hash) => hex(hash, 0, 32)), report, host);
}

function eventsFault(inclusion, texts, path, report, host) {
  const events = [];
  for (const [i, text] of texts.entries()) {
    const e = readEvent(encoder.encode(text), host);
    if (typeof e === "string") return e;
    if (e.withheld) report.withhold(e.seq);
    if ((i === 1 || !inclusion) && e.type !== "session.seal") return "bad-seal";
    events.push(e);
  }
  const seals = inclusion ? events.slice(1) : events;
  for (const seal of seals) {
    const branch = isSeal(seal.data, seal.seq) ? seal.data.checkpoint.split("\n")[0].split("/")[2] ?? "" : "";
    if (!isEncodedName(branch)) return "bad-seal";
    if (seal.data.checkpoint !== checkpointOf(encodeName(seal.session), branch, seal.data.size, seal.data.root)) return "bad-seal";
    report.seals++;
  }
  const [first, second] = events;
  const { size, root } = second.data;
  report.seq = size;
  const good = inclusion
    ? first.seq <= size && isIncluded(host, leafHash(host, first.hash), first.seq - 1, size, path, root)
    : first.session === second.session && first.data.size <= size && isConsistent(host, first.data.size, size, path, first.data.root, root);
  if (!good) return "bad-seal";
  for (const seal of seals) awaitSignatures(report, seal, null, "");
  return null;
}

