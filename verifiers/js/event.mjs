// One event: section 6 of docs/verification.md, formats 2 to 4 and 9 of docs/format.md; and the names of format 7.

import { DOT, HEX, MINUS, OPEN_OBJECT, decode, decoder, encoder, latin1, scan, scratch } from "./json.mjs";

// The members of an event, format 2
const NAMES = ["actor", "data", "data_sha256", "epoch", "files", "prev", "salt", "seq", "session", "ts", "turn", "type", "v"];

const [ACTOR, DATA, DATA_SHA256, EPOCH, FILES, PREV, SALT, SEQ, SESSION, TS, TURN, TYPE, V] = NAMES.keys();
export const MAX_EVENT = 16 * 1024 * 1024;
const REQUIRED = [ACTOR, EPOCH, PREV, SEQ, SESSION, TS, TYPE];
const FORMS = [
  [ACTOR, /^"[A-Za-z0-9][A-Za-z0-9._:@/+-]{0,99}"$/],
  [DATA_SHA256, /^"[0-9a-f]{64}"$/],
  [PREV, /^(?:null|"[0-9a-f]{64}")$/],
  [SALT, /^"[A-Za-z0-9_-]{21}[AQgw]"$/],
  [TURN, /^"[A-Za-z0-9_-]{1,64}"$/],
  [TYPE, /^(?=.{3,66}$)"[a-z][a-z0-9_]*(?:\.[a-z][a-z0-9_]*)*"$/],
];
const MOMENT = /^"(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)\.\d{3}Z"$/;
const UNESCAPED = /^"[ !#-[\]-~]*"$/; // a string of ASCII without escapes
const CONTROL = /[\u0000-\u001f\u007f-\u009f]/;
/** Longest literal of a member above `data`: a session of 200 bytes, each escaped. */
const MAX_LITERAL = 1202;

/** An id or name: 1 to `most` bytes of UTF-8 without control characters. */
export function isName(value, most = 200) {
  if (typeof value !== "string" || value === "" || CONTROL.test(value)) return false;
  return 3 * value.length <= most || encoder.encode(value).length <= most;
}

/** Unix seconds of a moment from 1970 on, or null if there is no such moment. */
export function seconds(year, month, day, hour, minute, second) {
  const leap = year % 4 === 0 && (year % 100 !== 0 || year % 400 === 0);
  const days = month === 2 ? 28 + leap : [4, 6, 9, 11].includes(month) ? 30 : 31;
  if (year < 1970 || month < 1 || month > 12 || day < 1 || day > days || hour > 23 || minute > 59 || second > 59) return null;
  return Date.UTC(year, month - 1, day, hour, minute, second) / 1000;
}

/** The event in `bytes`, or the code (a string) of the first rule that it breaks. Keeps nothing of `bytes`. */
export function readEvent(bytes, host) {
  if (bytes.length > MAX_EVENT) return "bad-member";
  const found = scan(bytes, NAMES);
  if (found === null) return "bad-json";
  if (!found.canonical) return "not-canonical";
  if (bytes[0] !== OPEN_OBJECT) return "bad-json";
  const { spans } = found;
  const has = (member) => spans[3 * member + 2] > 0;
  const bytesAt = (member) => bytes.subarray(spans[3 * member + 1], spans[3 * member + 2]);
  const value = (member) => JSON.parse(decoder.decode(bytesAt(member)));
  // As they are written, one character a byte; empty for one that is absent or longer than any rule allows.
  const literals = new Array(NAMES.length).fill("");
  for (let member = 0; member < NAMES.length; member++) {
    const size = spans[3 * member + 2] - spans[3 * member + 1];
    if (size > 0 && size <= MAX_LITERAL && member !== DATA && member !== FILES) literals[member] = latin1(bytes, spans[3 * member + 1], spans[3 * member + 2]);
  }

  if (literals[V] !== "1") return "bad-version";
  if (found.unknown || !REQUIRED.every(has)) return "bad-member";
  if (!/^[1-9]\d{0,7}$/.test(literals[SEQ])) return "bad-seq";
  if (!/^[1-9]\d{0,15}$/.test(literals[EPOCH])) return "bad-epoch";

  for (const [member, form] of FORMS) if (has(member) && !form.test(literals[member])) return "bad-member";
  const session = UNESCAPED.test(literals[SESSION]) ? literals[SESSION].slice(1, -1) : value(SESSION);
  const ts = MOMENT.exec(literals[TS]);
  const time = ts && seconds(+ts[1], +ts[2], +ts[3], +ts[4], +ts[5], +ts[6]);
  if (!isName(session) || time === null) return "bad-member";
  const withheld = has(DATA_SHA256);
  if (withheld === has(DATA) || (withheld && (has(FILES) || has(SALT)))) return "bad-member";
  if (!withheld && bytesAt(DATA)[0] !== OPEN_OBJECT) return "bad-member";
  const files = has(FILES) ? value(FILES) : NO_FILES;
  if (has(FILES) && !isFileList(files)) return "bad-member";
  for (let i = 0; i < found.tagged.length; i += 2) {
    // The text is canonical, so JSON.parse loses nothing, and a member named __proto__ is one like any other.
    const object = JSON.parse(decoder.decode(bytes.subarray(found.tagged[i], found.tagged[i + 1])));
    if (!isTag(object, files.length)) return "bad-member";
  }

  const seq = Number(literals[SEQ]);
  const prev = literals[PREV] === "null" ? null : literals[PREV].slice(1, -1);
  const type = literals[TYPE].slice(1, -1);
  const structure = type === "session.branch" || type === "session.fork";
  if ((seq === 1) !== (prev === null)) return "broken-link";
  if (withheld && structure) return "bad-fork";
  if (withheld && type === "session.seal") return "bad-seal";
  if ((seq === 1) !== (type === "session.start")) return "bad-fork";

  const data = structure || type === "session.seal" ? value(DATA) : null;
  const hash = withheld ? host.sha256(bytes) : eventHash(bytes, spans, host);
  const [epoch, actor] = [Number(literals[EPOCH]), literals[ACTOR].slice(1, -1)];
  return { seq, prev, epoch, session, type, actor, time, files, withheld, data, hash };
}

const NO_FILES = [];

/** Format 3: the body's hash takes the place of data, files and salt. Both are cut out of the bytes as they are stored. */
function eventHash(bytes, spans, host) {
  const others = [3 * FILES, 3 * SALT].filter((at) => spans[at + 2] > 0); // each with the comma before its name
  scratch.clear().ascii("{").add(bytes.subarray(spans[3 * DATA], spans[3 * DATA + 2]));
  for (const at of others) scratch.add(bytes.subarray(spans[at] - 1, spans[at + 2]));
  const body = host.sha256(scratch.ascii("}").view());

  scratch.clear().add(bytes.subarray(0, spans[3 * DATA])).ascii(`"data_sha256":"${body}"`);
  let from = spans[3 * DATA + 2];
  for (const at of others) {
    scratch.add(bytes.subarray(from, spans[at] - 1));
    from = spans[at + 2];
  }
  return host.sha256(scratch.add(bytes.subarray(from)).view());
}

export const isObject = (value) => typeof value === "object" && value !== null && !Array.isArray(value);

/** Whether a value is an object that has exactly these members. */
export function hasExactly(value, ...names) {
  return isObject(value) && Object.keys(value).length === names.length && names.every((name) => Object.hasOwn(value, name));
}

/** Format 4 */
function isFileList(files) {
  return Array.isArray(files) && files.length >= 1 && files.length <= 1000 && files.every((file) =>
    (hasExactly(file, "media_type", "sha256", "size") || (hasExactly(file, "media_type", "name", "sha256", "size") && isName(file.name, 255))) &&
    typeof file.sha256 === "string" && /^[0-9a-f]{64}$/.test(file.sha256) &&
    Number.isInteger(file.size) && file.size >= 0 &&
    typeof file.media_type === "string" && /^[\x20-\x7e]{1,127}$/.test(file.media_type));
}

/** Whether an object with a name in $gj: is one of the tags of formats 4 and 9; `count` is the number of side files. */
function isTag(object, count) {
  const isFile = (k) => Number.isInteger(k) && k >= 1 && k <= count;
  const names = Object.keys(object);
  const value = object[names[0]];
  if (names.length !== 1) return false;
  if (names[0] === "$gj:file") return isFile(value);
  if (names[0] === "$gj:json" || names[0] === "$gj:b64") return typeof value === "string";
  if (names[0] !== "$gj:ref" || !Array.isArray(value) || value.length !== 2) return false;
  return isFile(value[0]) && typeof value[1] === "string" && (value[1] === "" || value[1].startsWith("/"));
}

// --- Names and refs, section 5 and format 7 -----------------------------------------------------------------------------------

export function encodeName(text) {
  const bytes = encoder.encode(text);
  let out = "";
  bytes.forEach((byte, i) => {
    const lock = text.endsWith(".lock") && i === bytes.length - 5;
    const odd = byte === DOT && (i === 0 || i === bytes.length - 1 || bytes[i + 1] === DOT || lock);
    const char = String.fromCharCode(byte);
    const plain = /[A-Za-z0-9._-]/.test(char) && !odd && !(byte === MINUS && i === 0);
    out += plain ? char : "%" + HEX[byte].toUpperCase();
  });
  return out;
}

/** Whether a part of a ref is spelled as `encodeName` spells an id. */
export function isEncodedName(part) {
  if (part.length > 240 || !/^(?:[A-Za-z0-9._-]|%[0-9A-F]{2})+$/.test(part)) return false;
  const bytes = part.match(/%..|./g).map((piece) => (piece.length > 1 ? parseInt(piece.slice(1), 16) : piece.charCodeAt(0)));
  const text = decode(Uint8Array.from(bytes));
  return text !== null && isName(text) && encodeName(text) === part;
}
