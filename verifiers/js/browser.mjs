// The verifier in a browser page: files come from the reader's disk, nothing goes out. The checks are in the other modules, see verify.mjs.
// An export or a proof only: a repository needs git (cli.mjs).

import { Stop } from "./report.mjs";
import { Trust } from "./trust.mjs";
import { verifyExport, verifyProof } from "./verify.mjs";

// --- SHA-256 (FIPS 180-4), as browsers have it only with a wait ---------------------------------------------------------------

/** The first 32 bits of the fraction of the n-th root of the first primes, which the constants are made of. */
function fractions(count, root) {
  const primes = [];
  for (let n = 2; primes.length < count; n++) if (primes.every((prime) => n % prime)) primes.push(n);
  return Uint32Array.from(primes, (prime) => (prime ** (1 / root) % 1) * 2 ** 32);
}
const START = fractions(8, 2);
const ROUND = fractions(64, 3);

class Sha256 {
  state = START.slice();
  block = new Uint8Array(64);
  words = new Uint32Array(64);
  length = 0;

  update(bytes) {
    let at = 0;
    while (at < bytes.length) {
      const used = this.length % 64;
      const count = Math.min(64 - used, bytes.length - at);
      this.block.set(bytes.subarray(at, at + count), used);
      this.length += count;
      at += count;
      if (this.length % 64 === 0) this.compress();
    }
    return this;
  }

  compress() {
    const { words: w, block } = this;
    for (let i = 0; i < 16; i++) w[i] = (block[4 * i] << 24) | (block[4 * i + 1] << 16) | (block[4 * i + 2] << 8) | block[4 * i + 3];
    const turn = (x, n) => (x >>> n) | (x << (32 - n));
    for (let i = 16; i < 64; i++) {
      const [x, y] = [w[i - 15], w[i - 2]];
      w[i] = w[i - 16] + (turn(x, 7) ^ turn(x, 18) ^ (x >>> 3)) + w[i - 7] + (turn(y, 17) ^ turn(y, 19) ^ (y >>> 10));
    }
    let [a, b, c, d, e, f, g, h] = this.state;
    for (let i = 0; i < 64; i++) {
      const one = (h + (turn(e, 6) ^ turn(e, 11) ^ turn(e, 25)) + ((e & f) ^ (~e & g)) + ROUND[i] + w[i]) | 0;
      const two = ((turn(a, 2) ^ turn(a, 13) ^ turn(a, 22)) + ((a & b) ^ (a & c) ^ (b & c))) | 0;
      [h, g, f, e, d, c, b, a] = [g, f, e, (d + one) | 0, c, b, a, (one + two) | 0];
    }
    [a, b, c, d, e, f, g, h].forEach((word, i) => (this.state[i] += word));
  }

  digest() {
    const bits = 8 * this.length;
    const padding = new Uint8Array(((119 - (this.length % 64)) % 64) + 9);
    padding[0] = 0x80;
    const end = new DataView(padding.buffer, padding.length - 8);
    end.setUint32(0, Math.floor(bits / 2 ** 32));
    end.setUint32(4, bits % 2 ** 32);
    this.update(padding);
    const out = new DataView(new ArrayBuffer(32));
    this.state.forEach((word, i) => out.setUint32(4 * i, word));
    return new Uint8Array(out.buffer);
  }

  hex() {
    return Array.from(this.digest(), (byte) => byte.toString(16).padStart(2, "0")).join("");
  }
}

// The roots above are as exact as this browser's arithmetic; so a known answer first.
if (new Sha256().update(new TextEncoder().encode("abc")).hex() !== "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad") {
  throw new Error("SHA-256 is wrong in this browser");
}

const subtle = globalThis.crypto?.subtle;

export const host = {
  sha256: (bytes) => new Sha256().update(bytes).hex(),
  digest: async (name, bytes) => (name === "sha256" || !subtle ? new Sha256().update(bytes).digest() : new Uint8Array(await subtle.digest("SHA-512", bytes))),
  hasher: () => new Sha256(), // of side files
  async verify({ name, namedCurve, hash, jwk, signature }, bytes) {
    if (!subtle) return null;
    try {
      const key = await subtle.importKey("jwk", jwk, { name, namedCurve, hash }, false, ["verify"]);
      return await subtle.verify({ name, hash }, key, signature, bytes);
    } catch (error) {
      return error.name === "NotSupportedError" ? null : false; // a browser without Ed25519; or a point that is not on the curve
    }
  },
};

async function* piecesOf(file) {
  for (let at = 0; at < file.size; at += 1 << 20) yield new Uint8Array(await file.slice(at, at + (1 << 20)).arrayBuffer());
}

/** The verdict on a file, as { exit, text }. `sideFiles` are files named like 12.1; the texts may be empty. */
export async function verifyFile(file, sideFiles, { allowed = "", revoked = "", expected = null, requireSigned = false }) {
  const bytesOf = (text) => (text.trim() === "" ? null : new TextEncoder().encode(text));
  const options = { expected, requireSigned, trust: new Trust(bytesOf(allowed), bytesOf(revoked), host) };
  if (file.name.endsWith(".json")) return verifyProof(new Uint8Array(await file.arrayBuffer()), options, host);
  const byName = new Map(sideFiles.map((one) => [one.name, one]));
  return verifyExport({ chunks: () => piecesOf(file), file: (name) => (byName.has(name) ? piecesOf(byName.get(name)) : null) }, options, host);
}

// --- The page -----------------------------------------------------------------------------------------------------------------

function readExpected(seq, hash) {
  if (seq === "" && hash === "") return null;
  if (!/^[1-9][0-9]{0,7}$/.test(seq) || !/^[0-9a-f]{64}$/.test(hash)) throw new Stop(2, "An expected head is a number and 64 hex digits.");
  return { seq: Number(seq), hash };
}

/** Shows a verdict. Everything is set as text: what a file says is never markup. */
function show(page, { exit, text }) {
  const verdict = JSON.parse(text);
  const list = (id, items) => {
    page.getElementById(id).replaceChildren(...items.map((item) => Object.assign(page.createElement("li"), { textContent: item })));
  };
  const [line] = verdict.lines;
  page.getElementById("verdict").textContent = verdict.verdict;
  page.getElementById("verdict").className = verdict.verdict;
  list("facts", [
    `head: ${line.head.seq} ${line.head.hash ?? ""}`,
    `side files: ${line.side_files}, seals: ${line.seals}, signatures: ${line.signatures}, signed to: ${line.signed_to}`,
    ...line.signers.map(({ key, principals, signatures }) => `signed ${signatures} times by ${principals ?? "somebody unknown"}: ${key}`),
  ]);
  list("findings", line.findings.map((finding) => `${finding.code}${finding.seq === null ? "" : ` at ${finding.seq}`}: ${finding.text} ${finding.id}`));
  list("unchecked", verdict.unchecked);
  page.getElementById("json").textContent = `${text}\n(exit ${exit})`;
}

async function run(page) {
  const field = (id) => page.getElementById(id);
  const [file] = field("file").files;
  field("result").hidden = true;
  field("message").textContent = file ? "Checking ..." : "Choose a file first.";
  if (!file) return;
  try {
    const expected = file.name.endsWith(".json") ? null : readExpected(field("seq").value.trim(), field("hash").value.trim());
    const options = { allowed: field("allowed").value, revoked: field("revoked").value, expected, requireSigned: field("signed").checked };
    show(page, await verifyFile(file, [...field("sides").files], options));
    field("message").textContent = "";
    field("result").hidden = false;
  } catch (error) {
    field("message").textContent = error instanceof Stop ? error.message : String(error);
  }
}

globalThis.document?.getElementById("run").addEventListener("click", () => run(document));
