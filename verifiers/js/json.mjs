// Bytes, and one strict scanner of JSON: section 6 of docs/verification.md, rows 2 and 3.

export const encoder = new TextEncoder();
// ignoreBOM: a string may begin with U+FEFF, and the decoder would swallow it.
export const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
export const HEX = Array.from({ length: 256 }, (_, byte) => byte.toString(16).padStart(2, "0"));
const NIBBLE = new Uint8Array(128);
for (let i = 0; i < 16; i++) NIBBLE["0123456789abcdef".charCodeAt(i)] = i;

/** Node has these two in its engine; elsewhere they are slower. */
const native = globalThis.Buffer?.prototype;
const join = (bytes, from, to, text) => Array.from(bytes.subarray(from, to), text).join("");

/** Text of bytes that are one character each. */
export const latin1 = native
  ? (bytes, from = 0, to = bytes.length) => native.latin1Slice.call(bytes, from, Math.min(to, bytes.length))
  : (bytes, from, to) => join(bytes, from, to, (byte) => String.fromCharCode(byte));

export const hex = native
  ? (bytes, from, count) => native.hexSlice.call(bytes, from, from + count)
  : (bytes, from, count) => join(bytes, from, from + count, (byte) => HEX[byte]);

/** A copy that outlives the next await. */
export const copyOf = (bytes) => bytes && new Uint8Array(bytes);

/** A text as UTF-8, or null when the bytes are none. */
export function decode(bytes) {
  try {
    return decoder.decode(bytes);
  } catch {
    return null;
  }
}

export const base64 = (bytes) => btoa(latin1(bytes));

/** The bytes of standard base64 that is spelled exactly as encoding gives it, or null. */
export function unbase64(text) {
  try {
    const content = atob(text);
    return btoa(content) === text ? Uint8Array.from(content, (char) => char.charCodeAt(0)) : null;
  } catch {
    return null;
  }
}

/** Bytes that grow. `front` bytes before them are free for the header of a git object. */
export class Bytes {
  length = 0;

  constructor(front = 0) {
    this.front = front;
    this.data = new Uint8Array(1024);
  }

  /** Makes room for `count` more bytes and takes it; says where it begins. */
  take(count) {
    const at = this.front + this.length;
    this.length += count;
    if (at + count > this.data.length) {
      const old = this.data;
      this.data = new Uint8Array(2 * (at + count));
      this.data.set(old);
    }
    return at;
  }

  add(bytes) {
    const at = this.take(bytes.length);
    this.data.set(bytes, at);
    return this;
  }

  ascii(text) {
    const at = this.take(text.length);
    for (let i = 0; i < text.length; i++) this.data[at + i] = text.charCodeAt(i);
    return this;
  }

  utf8(text) {
    const at = this.take(3 * text.length); // at most
    this.length = at - this.front + encoder.encodeInto(text, this.data.subarray(at)).written;
    return this;
  }

  hex(text) {
    const at = this.take(text.length / 2);
    for (let i = 0; i < text.length; i += 2) {
      this.data[at + i / 2] = (NIBBLE[text.charCodeAt(i)] << 4) | NIBBLE[text.charCodeAt(i + 1)];
    }
    return this;
  }

  clear() {
    this.length = 0;
    return this;
  }

  view(length = this.length) {
    return this.data.subarray(this.front, this.front + length);
  }

  /** The same with git's header: what an object id is the SHA-1 of. */
  asObject(type) {
    const header = `${type} ${this.length}\0`;
    const at = this.front - header.length;
    for (let i = 0; i < header.length; i++) this.data[at + i] = header.charCodeAt(i);
    return this.data.subarray(at, this.front + this.length);
  }
}

/** For what is put together and hashed at once. */
export const scratch = new Bytes();

// --- JSON ------------------------------------------------------------------------------------------------------------------------

const MAX_LEVELS = 64;
/** Thrown where bytes are not what they should be, and caught where that has a code. */
export const BAD = Symbol("bad");
export const [TAB, LF, CR, SPACE, QUOTE, DOLLAR, PLUS, COMMA, MINUS, DOT] = [9, 10, 13, 32, 34, 36, 43, 44, 45, 46];
export const [ZERO, NINE, COLON, OPEN_ARRAY, BACKSLASH, CLOSE_ARRAY, OPEN_OBJECT, CLOSE_OBJECT] = [48, 57, 58, 91, 92, 93, 123, 125];

/** 1 for the bytes that stand for themselves in a string, a character each. */
const PLAIN = Uint8Array.from({ length: 256 }, (_, byte) => Number(byte >= SPACE && byte < 0x80 && byte !== QUOTE && byte !== BACKSLASH));

/**
 * One strict pass over the bytes. JSON.parse would pass bad UTF-8, repeated names, lone surrogates and big numbers.
 * Notes on the way whether the text is RFC 8785, and where things stand that are looked at later.
 */
class Scanner {
  constructor(bytes, names, unique) {
    this.bytes = bytes;
    this.at = 0;
    this.canonical = true;
    this.sorted = true;
    this.names = names; // of the members of the outermost object that are looked for, sorted
    this.unique = unique; // keep all names of each object, to find a repeated one in an object that is not sorted
    this.spans = new Array(3 * names.length).fill(0); // and where they are: name from, value from, value to (0: absent)
    this.expected = 0; // the first of them that may come next
    this.unknown = false; // the outermost object has another member
    this.tagged = []; // from, to of each object that has a name beginning with $gj:
  }

  run() {
    this.value(0);
    if (this.space() !== undefined) throw BAD;
  }

  /** Passes white space; the byte after it, undefined at the end. */
  space() {
    let byte = this.bytes[this.at];
    while (byte === SPACE || byte === LF || byte === CR || byte === TAB) {
      this.canonical = false;
      byte = this.bytes[++this.at];
    }
    return byte;
  }

  value(level) {
    switch (this.space()) {
      case QUOTE:
        return this.string();
      case OPEN_OBJECT:
        return this.object(level + 1);
      case OPEN_ARRAY:
        return this.array(level + 1);
      case 0x74:
        return this.word("true");
      case 0x66:
        return this.word("false");
      case 0x6e:
        return this.word("null");
      default:
        return this.number();
    }
  }

  word(text) {
    for (let i = 0; i < text.length; i++) if (this.bytes[this.at++] !== text.charCodeAt(i)) throw BAD;
  }

  array(level) {
    if (level > MAX_LEVELS) throw BAD;
    this.at++;
    if (this.space() === CLOSE_ARRAY) return this.at++;
    for (;;) {
      this.value(level);
      const byte = this.space();
      this.at++;
      if (byte === CLOSE_ARRAY) return;
      if (byte !== COMMA) throw BAD;
    }
  }

  object(level) {
    if (level > MAX_LEVELS) throw BAD;
    const start = this.at++;
    const seen = this.unique ? new Set() : null;
    let from = 0, to = 0, plain = true, tagged = false;
    if (this.space() === CLOSE_OBJECT) return this.at++;
    for (;;) {
      if (this.space() !== QUOTE) throw BAD;
      const before = from, beforeTo = to, beforePlain = plain;
      from = this.at;
      plain = this.string();
      to = this.at;
      if (seen) this.keep(seen, from, to);
      else if (before && !this.ascending(before, beforeTo, from, to, beforePlain && plain)) this.sorted = false;
      if (this.bytes[from + 1] === DOLLAR && latin1(this.bytes, from + 1, from + 5) === "$gj:") tagged = true;
      if (this.space() !== COLON) throw BAD;
      this.at++;
      this.space();
      const value = this.at;
      this.value(level);
      if (level === 1) this.member(from, to, value);
      const byte = this.space();
      this.at++;
      if (byte === CLOSE_OBJECT) break;
      if (byte !== COMMA) throw BAD;
    }
    if (tagged) this.tagged.push(start, this.at);
  }

  /** Notes a member of the outermost object. What is not sorted is refused, so that a known one comes later than the one before. */
  member(from, to, value) {
    const { names, spans } = this;
    let index = this.expected;
    while (index < names.length && !this.isName(names[index], from, to)) index++;
    this.unknown ||= index === names.length;
    if (index === names.length) return;
    this.expected = index + 1;
    spans[3 * index] = from;
    spans[3 * index + 1] = value;
    spans[3 * index + 2] = this.at;
  }

  isName(name, from, to) {
    for (let i = 0; i < name.length; i++) if (this.bytes[from + 1 + i] !== name.charCodeAt(i)) return false;
    return name.length === to - from - 2;
  }

  keep(seen, from, to) {
    const name = this.text(from, to);
    if (seen.has(name)) throw BAD;
    seen.add(name);
  }

  /** The string behind a literal that has been scanned. */
  text(from, to) {
    return JSON.parse(decoder.decode(this.bytes.subarray(from, to)));
  }

  /** Whether one name sorts before another, by UTF-16 units as JavaScript compares. `plain`: bytes do as well. */
  ascending(from, to, nextFrom, nextTo, plain) {
    if (!plain) return this.text(from, to) < this.text(nextFrom, nextTo);
    const { bytes } = this;
    const shorter = Math.min(to - from, nextTo - nextFrom) - 1;
    for (let i = 1; i < shorter; i++) if (bytes[from + i] !== bytes[nextFrom + i]) return bytes[from + i] < bytes[nextFrom + i];
    return to - from < nextTo - nextFrom;
  }

  /** A string from quote to quote; says whether it is only ASCII without escapes. */
  string() {
    const { bytes } = this;
    let at = this.at + 1, plain = true;
    for (;;) {
      while (PLAIN[bytes[at]] & PLAIN[bytes[at + 1]] & PLAIN[bytes[at + 2]] & PLAIN[bytes[at + 3]]) at += 4;
      while (PLAIN[bytes[at]]) at++;
      if (bytes[at] === QUOTE) break;
      plain = false;
      at = bytes[at] === BACKSLASH ? this.escape(at) : this.sequence(at);
    }
    this.at = at + 1;
    return plain;
  }

  /** Behind the escape at `at`. Canonical text escapes only what must be, and as short as it can. */
  escape(at) {
    const char = String.fromCharCode(this.bytes[at + 1]);
    if (char !== "u") {
      if (!'"\\/bfnrt'.includes(char)) throw BAD;
      if (char === "/") this.canonical = false;
      return at + 2;
    }
    const unit = this.unit(at);
    if (unit >= 0x20 || '\b\t\n\f\r'.includes(String.fromCharCode(unit)) || latin1(this.bytes, at + 4, at + 6) !== HEX[unit]) {
      this.canonical = false;
    }
    if (unit < 0xd800 || unit > 0xdfff) return at + 6;
    const low = this.unit(at + 6);
    if (unit > 0xdbff || low < 0xdc00 || low > 0xdfff) throw BAD;
    return at + 12;
  }

  /** The UTF-16 unit of the escape `\uXXXX` at `at`. */
  unit(at) {
    const text = latin1(this.bytes, at, at + 6);
    if (!/^\\u[0-9a-fA-F]{4}$/.test(text)) throw BAD;
    return parseInt(text.slice(2), 16);
  }

  /** Behind the UTF-8 sequence at `at`: no overlong form, no surrogate, at most U+10FFFF. Control characters end here too. */
  sequence(at) {
    const lead = this.bytes[at];
    const more = lead >= 0xc2 && lead <= 0xdf ? 1 : lead >= 0xe0 && lead <= 0xef ? 2 : lead >= 0xf0 && lead <= 0xf4 ? 3 : 0;
    if (!more) throw BAD;
    const least = lead === 0xe0 ? 0xa0 : lead === 0xf0 ? 0x90 : 0x80;
    const most = lead === 0xed ? 0x9f : lead === 0xf4 ? 0x8f : 0xbf;
    if (!(this.bytes[at + 1] >= least && this.bytes[at + 1] <= most)) throw BAD;
    for (let i = 2; i <= more; i++) if ((this.bytes[at + i] & 0xc0) !== 0x80) throw BAD;
    return at + more + 1;
  }

  number() {
    const { bytes } = this;
    const from = this.at;
    const first = bytes[from] === MINUS ? from + 1 : from;
    let at = this.digits(first);
    if (bytes[first] === ZERO && at - first > 1) throw BAD;
    const whole = at;
    if (bytes[at] === DOT) at = this.digits(at + 1);
    if (bytes[at] === 0x65 || bytes[at] === 0x45) {
      at++;
      at = this.digits(bytes[at] === PLUS || bytes[at] === MINUS ? at + 1 : at);
    }
    this.at = at;
    // A whole number of so few digits is below 2^53 and prints as it stands.
    if (at === whole && at - first <= 15 && (first === from || bytes[first] !== ZERO)) return;
    const text = decoder.decode(bytes.subarray(from, at));
    const value = Number(text);
    if (!(Math.abs(value) < 2 ** 53) || Object.is(value, -0)) throw BAD;
    if (String(value) !== text) this.canonical = false;
  }

  /** Behind one or more digits. */
  digits(at) {
    const from = at;
    while (this.bytes[at] >= ZERO && this.bytes[at] <= NINE) at++;
    if (at === from) throw BAD;
    return at;
  }
}

/** What a scan noted, or null for bad-json. The whole text is looked at: bad-json wins over not-canonical. */
export function scan(bytes, names = []) {
  const found = new Scanner(bytes, names, false);
  try {
    found.run();
    if (!found.sorted) {
      found.canonical = false;
      new Scanner(bytes, names, true).run();
    }
  } catch (error) {
    if (error !== BAD) throw error;
    return null;
  }
  return found;
}

/** Canonical JSON of our own verdict. */
export function canonical(value) {
  if (Array.isArray(value)) return `[${value.map(canonical).join(",")}]`;
  if (value === null || typeof value !== "object") return JSON.stringify(value);
  const members = Object.keys(value).sort().map((name) => `${JSON.stringify(name)}:${canonical(value[name])}`);
  return `{${members.join(",")}}`;
}

