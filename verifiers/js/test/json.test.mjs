import assert from "node:assert/strict";
import test from "node:test";
import { canonical, scan } from "../json.mjs";

const bytesOf = (text) => (typeof text === "string" ? new TextEncoder().encode(text) : Uint8Array.from(text));
function verdictOn(text) {
  const found = scan(bytesOf(text));
  return found === null ? "bad-json" : found.canonical ? "canonical" : "not-canonical";
}
const quoted = (...bytes) => [0x22, ...bytes, 0x22];

const CASES = {
  canonical: [
    "{}", "[]", '""', "null", "true", "0", "-1", "9007199254740991", "0.1", "1e-7", "5e-324", "0.000001", "5.684341886080802e-14", '"\\u0000\\u001f\\b\\t\\n\\f\\r\\"\\\\/"',
    '"\u007f\u2028\ufeff"', '{"":1,"10":1,"9":1,"__proto__":1,"constructor":1,"toJSON":1}', '{"\u{1f600}":1,"\uffff":1}', '{"\\n":1,"\\r":1,"1":1,"é":1}',
    "[".repeat(64) + "]".repeat(64), '"\u{10ffff}"',
  ],
  "not-canonical": [
    " {}", "{} ", "[1, 2]", "1.0", "1E5", "1e5", "1e+5", "0.10", "0e9", "0.0000001", '"\\/"', '"\\u0041"', '"\\u000a"', '"\\u001F"', '"\\ud83d\\ude00"', '{"b":1,"a":1}',
    '{"\uffff":1,"\u{1f600}":1}', '{"a":1,"\\u0020":1}', "0.1000000000000000055",
  ],
  "bad-json": [
    "", " ", "{", "[1,]", "{,}", '{"a"}', '{"a":1,}', "[1 2]", "nul", "truex", "01", "+1", "1.", ".5", "1e", "-", "NaN", "Infinity", "-0", "-0.0", "-1e-999", "9007199254740992", "1e400",
    "-9007199254740992", '"', '"\\', '"\\x"', '"\\u12"', '"\\ud800"', '"\\udc00"', '"\\ud800\\u0041"', '"\n"', '"\\u0000', "{}{}", "\ufeff{}", '{"a":1,"a":1}', '{"b":1,"a":1,"b":1}',
    '{"a":1,"\\u0061":1}', '{ "__proto__":1,"__proto__":1}', "'a'", "[" .repeat(65) + "]".repeat(65), "[".repeat(1e6), '{"a":'.repeat(1e5), "\u00a01",
    quoted(0xff), quoted(0xc0, 0x80), quoted(0xc1, 0xbf), quoted(0xe0, 0x9f, 0xbf), quoted(0xed, 0xa0, 0x80), quoted(0xf0, 0x8f, 0xbf, 0xbf), quoted(0xf4, 0x90, 0x80, 0x80), quoted(0xf5, 0x80, 0x80, 0x80),
    quoted(0xc3), quoted(0x80), [0x22, 0xe2, 0x82], [0x31, 0x00],
  ],
};

for (const [wanted, texts] of Object.entries(CASES)) {
  test(`texts that are ${wanted}`, () => {
    for (const text of texts) assert.equal(verdictOn(text), wanted, JSON.stringify(text).slice(0, 80));
  });
}

test("bad-json wins over not-canonical, wherever it stands", () => {
  assert.equal(verdictOn('[ 1.0,"\\ud800"]'), "bad-json");
});

test("numbers print as ECMAScript does, all over the range", () => {
  const view = new DataView(new ArrayBuffer(8));
  for (let i = 0, state = 1; i < 20000; i++) {
    for (const at of [0, 4]) view.setUint32(at, (state = (Math.imul(state, 1664525) + 1013904223) >>> 0));
    const number = view.getFloat64(0);
    if (!Number.isFinite(number)) continue;
    const small = Math.abs(number) < 2 ** 53 && number !== 0;
    assert.equal(verdictOn(String(number)), small ? "canonical" : Object.is(number, 0) ? "canonical" : "bad-json", String(number));
    if (small) assert.equal(verdictOn(number.toExponential(20)), "not-canonical");
  }
});

test("our own printer sorts by UTF-16 units", () => {
  assert.equal(canonical({ "\uffff": 1, "\u{1f600}": [null, "\u0001"], a: { b: true } }), '{"a":{"b":true},"\u{1f600}":[null,"\\u0001"],"\uffff":1}');
});
