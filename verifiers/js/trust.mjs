// Signatures and who may make them: section 9 of docs/verification.md.

import { seconds } from "./event.mjs";
import { BAD, Bytes, base64, decode, encoder, hex, latin1, unbase64 } from "./json.mjs";
import { Stop } from "./report.mjs";

/** Reads SSH's binary form (RFC 4251); throws BAD where it ends too early. */
class Wire {
  at = 0;

  constructor(bytes) {
    this.bytes = bytes;
  }

  take(count) {
    if (count > this.bytes.length - this.at) throw BAD;
    this.at += count;
    return this.bytes.subarray(this.at - count, this.at);
  }

  number() {
    const [a, b, c, d] = this.take(4);
    return ((a * 256 + b) * 256 + c) * 256 + d;
  }

  string() {
    return this.take(this.number());
  }

  /** A string as text; one that is longer than all that we know is none of them. */
  word() {
    const bytes = this.string();
    return bytes.length > 64 ? "?" : latin1(bytes);
  }

  /** A positive number in its one spelling, without the zero byte in front. */
  mpint() {
    const bytes = this.string();
    const padded = bytes[0] === 0;
    if (bytes.length === 0 || bytes[0] >= 0x80 || (padded && !(bytes[1] >= 0x80))) throw BAD;
    return padded ? bytes.subarray(1) : bytes;
  }

  end() {
    if (this.at !== this.bytes.length) throw BAD;
  }
}

/** Armour and blob of an SSHSIG, rules 1 and 2; throws BAD. */
function readSignature(armour) {
  const lines = armour.split("\n");
  if (lines.length > 1 && lines.at(-1) === "") lines.pop();
  if (lines.length < 2 || lines[0] !== "-----BEGIN SSH SIGNATURE-----" || lines.at(-1) !== "-----END SSH SIGNATURE-----") throw BAD;
  const bytes = unbase64(lines.slice(1, -1).join(""));
  if (bytes === null) throw BAD;
  const wire = new Wire(bytes);
  if (latin1(wire.take(6)) !== "SSHSIG" || wire.number() !== 1) throw BAD;
  const [key, namespace, reserved, hash, signature] = [wire.string(), wire.word(), wire.string(), wire.word(), wire.string()];
  wire.end();
  // OpenSSH signs and checks an empty reserved field, whatever stands there.
  if (reserved.length > 0 || (hash !== "sha256" && hash !== "sha512")) throw BAD;
  return { key, namespace, hash, signature };
}

const url = (bytes) => base64(bytes).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");

/** What a key and its signature are, by the first string of the key; as `host.verify` wants it. */
const KINDS = new Map([
  ["ssh-ed25519", ed25519],
  ["ecdsa-sha2-nistp256", (key, signature) => ecdsa(key, signature, "nistp256", "P-256", 32, "SHA-256")],
  ["ecdsa-sha2-nistp384", (key, signature) => ecdsa(key, signature, "nistp384", "P-384", 48, "SHA-384")],
  ["ssh-rsa", rsa],
]);

function ed25519(key, signature) {
  const [x, algorithm, bytes] = [key.string(), signature.word(), signature.string()];
  if (x.length !== 32 || algorithm !== "ssh-ed25519" || bytes.length !== 64) throw BAD;
  return { name: "Ed25519", jwk: { kty: "OKP", crv: "Ed25519", x: url(x) }, signature: bytes };
}

function ecdsa(key, signature, curve, crv, size, hash) {
  if (key.word() !== curve || signature.word() !== `ecdsa-sha2-${curve}`) throw BAD;
  const point = key.string();
  const pair = new Wire(signature.string());
  const [r, s] = [pair.mpint(), pair.mpint()];
  pair.end();
  if (point.length !== 2 * size + 1 || point[0] !== 4 || r.length > size || s.length > size) throw BAD;
  const bytes = new Uint8Array(2 * size);
  bytes.set(r, size - r.length);
  bytes.set(s, 2 * size - s.length);
  const jwk = { kty: "EC", crv, x: url(point.subarray(1, size + 1)), y: url(point.subarray(size + 1)) };
  return { name: "ECDSA", namedCurve: crv, hash, jwk, signature: bytes };
}

function rsa(key, signature) {
  const [e, n, algorithm, bytes] = [key.mpint(), key.mpint(), signature.word(), signature.string()];
  const hash = algorithm === "rsa-sha2-256" ? "SHA-256" : algorithm === "rsa-sha2-512" ? "SHA-512" : null;
  const exponent = e.length > 4 ? 0 : parseInt(hex(e, 0, e.length), 16);
  const bits = 8 * n.length - Math.clz32(n[0]) + 24;
  if (hash === null || exponent < 3 || exponent > 0x7fffffff || exponent % 2 === 0) throw BAD;
  if (bits < 2048 || bits > 8192 || n.at(-1) % 2 === 0 || bytes.length !== n.length) throw BAD;
  return { name: "RSASSA-PKCS1-v1_5", hash, jwk: { kty: "RSA", n: url(n), e: url(e) }, signature: bytes };
}

/** The allowed signers and revoked keys of the auditor, and the checking of signatures. */
export class Trust {
  /** `allowed` and `revoked`: bytes of the two files, or null. Throws Stop for a line that cannot be read. */
  constructor(allowed, revoked, host) {
    this.host = host;
    this.given = allowed !== null;
    this.lines = (allowed ? signerLines(allowed) : []).map(([text, number]) => signerLine(text, number));
    this.revoked = new Set((revoked ? signerLines(revoked) : []).map(([text, number]) => (keyIn(text) ?? unreadable(number)).key));
  }

  /** Checks the signatures that a line has come across since the last call. */
  async settle(report) {
    for (const signature of report.pending.splice(0)) await this.check(report, signature);
  }

  async check(report, { armour, namespace, message, time, key, covers, seq, id }) {
    let made, kind, fingerprint, right = false;
    try {
      made = readSignature(armour);
      fingerprint = "SHA256:" + base64(await this.host.digest("sha256", made.key)).replaceAll("=", "");
      if (made.namespace !== namespace || (key !== null && key !== fingerprint)) throw BAD;
      const wire = new Wire(made.key);
      kind = KINDS.get(wire.word());
      if (kind !== undefined) {
        const algorithm = new Wire(made.signature);
        const parts = kind(wire, algorithm);
        wire.end();
        algorithm.end();
        right = await this.host.verify(parts, await this.signedBytes(made, message));
      }
    } catch (error) {
      if (error !== BAD) throw error;
      return report.add("bad-signature", seq, id);
    }
    if (kind === undefined || right === null) report.notChecked++;
    else if (!right) report.add("bad-signature", seq, id);
    else this.count(report, base64(made.key), fingerprint, namespace, time, covers, seq, id);
  }

  async signedBytes({ namespace, hash }, message) {
    const out = new Bytes().ascii("SSHSIG");
    const digest = await this.host.digest(hash, message);
    for (const bytes of [encoder.encode(namespace), new Uint8Array(0), encoder.encode(hash), digest]) {
      out.hex(bytes.length.toString(16).padStart(8, "0")).add(bytes);
    }
    return out.view();
  }

  /** A right signature: whose is it, and is that one allowed? */
  count(report, key, fingerprint, namespace, time, covers, seq, id) {
    report.signatures++;
    if (!report.signers.has(fingerprint)) report.signers.set(fingerprint, { key: fingerprint, principals: null, number: Infinity, signatures: 0 });
    const signer = report.signers.get(fingerprint);
    signer.signatures++;
    if (!this.given) return;
    const accepts = (line) => line.key === key && line.accepts && line.allows(namespace) && line.after <= time && time < line.before;
    const line = this.revoked.has(key) ? undefined : this.lines.find(accepts);
    if (line === undefined) return report.add("unknown-signer", seq, id);
    report.signedTo = Math.max(report.signedTo, covers);
    if (line.before < Infinity) report.ends = true;
    if (line.number < signer.number) Object.assign(signer, { principals: line.principals, number: line.number });
  }
}

function unreadable(number) {
  throw new Stop(2, `line ${number} of the signers or keys cannot be read`);
}

/** [text, number] of the lines that mean something. */
function signerLines(bytes) {
  const text = decode(bytes) ?? unreadable(1);
  const lines = text.split("\n").map((line, i) => [line.replace(/\r$/, "").replace(/^[ \t]+|[ \t]+$/g, ""), i + 1]);
  return lines.filter(([line]) => line !== "" && !line.startsWith("#"));
}

/** `type base64 [comment]`: the key as base64, if it begins with its type; else null. */
function keyIn(text) {
  const [type, key] = text.split(/[ \t]+/);
  const bytes = key === undefined ? null : unbase64(key);
  const name = encoder.encode(type);
  if (bytes === null || bytes.length < 4 + name.length || new Wire(bytes).number() !== name.length) return null;
  return name.every((byte, i) => bytes[4 + i] === byte) ? { key } : null;
}

function signerLine(text, number) {
  const [, principals, rest] = /^([^ \t]+)[ \t]+(.*)$/s.exec(text) ?? unreadable(number);
  const line = { number, principals, accepts: true, allows: () => true, after: 0, before: Infinity };
  const plain = keyIn(rest);
  if (plain) return { ...line, ...plain };
  const [, options, key] = /^((?:"[^"]*"|[^" \t])+)[ \t]+(.*)$/s.exec(rest) ?? unreadable(number);
  return { ...line, ...(keyIn(key) ?? unreadable(number)), ...signerOptions(options, number) };
}

function signerOptions(text, number) {
  const out = {};
  const seen = new Set();
  const option = /([^ \t,="]+)(?:="([^"]*)")?(,|$)/y;
  for (let comma = ","; comma === ","; ) {
    const [, spelled, value, end] = option.exec(text) ?? unreadable(number);
    const name = spelled.toLowerCase();
    comma = end;
    if (!["namespaces", "valid-after", "valid-before"].includes(name)) {
      out.accepts = false;
      continue;
    }
    if (value === undefined || seen.has(name)) unreadable(number);
    seen.add(name);
    if (name === "namespaces") out.allows = patternList(value);
    else out[name === "valid-after" ? "after" : "before"] = signerTime(value) ?? unreadable(number);
  }
  return out;
}

/** As OpenSSH matches: one pattern must, and none with `!` may. */
function patternList(text) {
  const patterns = text.split(",");
  const wanted = patterns.filter((pattern) => !pattern.startsWith("!"));
  const refused = patterns.filter((pattern) => pattern.startsWith("!")).map((pattern) => pattern.slice(1));
  return (name) => wanted.some((one) => matches(one, name)) && !refused.some((one) => matches(one, name));
}

/** `*` and `?`. Only the last `*` is tried again, so that no pattern takes long, as it may as a RegExp. */
function matches(pattern, text) {
  let [at, place, star, starAt] = [0, 0, -1, 0];
  while (at < text.length) {
    if (pattern[place] === "*") {
      [star, starAt, place] = [place, at, place + 1];
    } else if (pattern[place] === "?" || pattern[place] === text[at]) {
      [at, place] = [at + 1, place + 1];
    } else if (star >= 0) {
      starAt++;
      [at, place] = [starAt, star + 1];
    } else {
      return false;
    }
  }
  return /^\**$/.test(pattern.slice(place));
}

function signerTime(text) {
  const match = /^(\d{4})(\d\d)(\d\d)(?:(\d\d)(\d\d)(\d\d)?)?Z?$/.exec(text);
  return match && seconds(...match.slice(1).map((part) => Number(part ?? 0)));
}

