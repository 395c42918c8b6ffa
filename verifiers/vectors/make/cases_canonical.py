"""Canonical bytes: one-event exports whose `session.start` holds odd JSON (docs/format.md section 2)."""

from __future__ import annotations

import random
import struct

from .kit import Raw, canon, es6, first
from .suite import Suite

_GOOD_NUMBERS = (
    "0 1 -1 10 100 1000000000000000 9007199254740991 -9007199254740991 0.1 -0.1 0.5 1.5 0.001 0.00001 "
    "0.000001 0.0000012 9.5e-7 1e-7 1.2e-7 -1e-7 1e-10 1.25e-20 5e-324 -5e-324 2.225073858507201e-308 "
    "2.2250738585072014e-308 1e-300 2e-323 1.1e-322 0.3333333333333333 0.6666666666666666 123456789.125 "
    "4503599627370495.5 -4503599627370495.5 2251799813685247.8 4.35 0.3 0.30000000000000004 "
    "1.7976931348623157e-300 333333333.3333333 9.5367431640625e-7 0.002 2.0005 8.41e-21"
)
#: name, text of the number, code.
_BAD_NUMBERS = """
one-point-zero 1.0 not-canonical
zero-point-zero 0.0 not-canonical
exponent-of-zero 0e0 not-canonical
zero-with-big-exponent 0e400 not-canonical
zero-with-endless-exponent 0e99999999999999999999 not-canonical
one-e0 1e0 not-canonical
upper-case-e 1E-7 not-canonical
plus-in-exponent 1e+2 not-canonical
exponent-where-digits-are-due 1e2 not-canonical
digits-where-exponent-is-due 0.0000001 not-canonical
exponent-at-one-millionth 1e-6 not-canonical
leading-zero-in-exponent 1e-07 not-canonical
point-zero-before-exponent 1.0e-7 not-canonical
trailing-zero 1.50 not-canonical
hidden-integer 10e-1 not-canonical
hundred-over-hundred 100e-2 not-canonical
too-many-digits 0.10000000000000001 not-canonical
not-the-shortest-digits 4.9e-324 not-canonical
digits-of-the-smallest-double 4.94065645841246544e-324 not-canonical
rounded-to-zero 1e-400 not-canonical
rounded-to-zero-from-half-the-smallest 2.4703282292062327e-324 not-canonical
rounded-down-to-the-limit 9007199254740991.4999 not-canonical
limit-with-exponent 9.007199254740991e15 not-canonical
minus-zero -0 bad-json
minus-zero-point-zero -0.0 bad-json
minus-zero-with-exponent -0e5 bad-json
minus-rounded-to-zero -1e-400 bad-json
minus-rounded-to-zero-endless -1e-99999999999999999999 bad-json
two-to-53 9007199254740992 bad-json
minus-two-to-53 -9007199254740992 bad-json
two-to-53-plus-1 9007199254740993 bad-json
rounded-up-to-two-to-53 9007199254740991.5 bad-json
two-to-53-with-exponent 9.007199254740992e15 bad-json
e16 1e16 bad-json
e21 1e21 bad-json
e400 1e400 bad-json
minus-e400 -1e400 bad-json
endless-exponent 1e99999999999999999999 bad-json
largest-double 1.7976931348623157e308 bad-json
twenty-digits 12345678901234567890 bad-json
leading-zero 01 bad-json
minus-leading-zero -01 bad-json
two-zeros 00 bad-json
plus-sign +1 bad-json
no-digit-after-point 1. bad-json
no-digit-before-point .5 bad-json
no-digit-before-exponent 1.e5 bad-json
no-exponent 1e bad-json
no-exponent-after-sign 1e+ bad-json
only-minus - bad-json
two-minus --1 bad-json
hexadecimal 0x10 bad-json
octal 0o7 bad-json
underscore 1_000 bad-json
nan NaN bad-json
infinity Infinity bad-json
minus-infinity -Infinity bad-json
inf inf bad-json
arabic-digit \u0661 bad-json
full-width-digit \uff11 bad-json
fraction-in-exponent 1e1.5 bad-json
comma-for-point 0,5 bad-json
suffix 1f bad-json
big-int-suffix 1n bad-json
"""

#: name, bytes between the quotes of a string (escapes of Python's bytes), code.
_BAD_STRINGS = (
    ("escaped-slash", rb"\/", "not-canonical"),
    ("escaped-letter", rb"\u0061", "not-canonical"),
    ("escaped-newline-as-u", rb"\u000a", "not-canonical"),
    ("escaped-backspace-as-u", rb"\u0008", "not-canonical"),
    ("escaped-form-feed-as-u", rb"\u000c", "not-canonical"),
    ("escaped-tab-as-u", rb"\u0009", "not-canonical"),
    ("escaped-return-as-u", rb"\u000d", "not-canonical"),
    ("escaped-quote-as-u", rb"\u0022", "not-canonical"),
    ("escaped-backslash-as-u", rb"\u005c", "not-canonical"),
    ("upper-case-escape", rb"\u001F", "not-canonical"),
    ("upper-case-escape-of-vertical-tab", rb"\u000B", "not-canonical"),
    ("escaped-delete", rb"\u007f", "not-canonical"),
    ("escaped-line-separator", rb"\u2028", "not-canonical"),
    ("escaped-e-acute", rb"\u00e9", "not-canonical"),
    ("escaped-pair", rb"\ud83d\ude00", "not-canonical"),
    ("escaped-pair-in-upper-case", rb"\uD83D\uDE00", "not-canonical"),
    ("escaped-less-than", rb"\u003c", "not-canonical"),
    ("lone-high-surrogate", rb"\ud800", "bad-json"),
    ("lone-high-surrogate-in-upper-case", rb"\uDBFF", "bad-json"),
    ("lone-low-surrogate", rb"\udc00", "bad-json"),
    ("reversed-surrogates", rb"\ude00\ud83d", "bad-json"),
    ("two-high-surrogates", rb"\ud83d\ud83d", "bad-json"),
    ("high-surrogate-then-letter", rb"\ud83dx", "bad-json"),
    ("high-surrogate-then-escaped-letter", rb"\ud83d\u0061", "bad-json"),
    ("high-surrogate-then-newline", rb"\ud83d\n", "bad-json"),
    ("high-surrogate-then-raw-low", b"\\ud83d\xed\xb8\x80", "bad-json"),
    ("pair-then-low-surrogate", rb"\ud83d\ude00\ude00", "bad-json"),
    ("raw-high-surrogate", b"\xed\xa0\x80", "bad-json"),
    ("raw-low-surrogate", b"\xed\xbf\xbf", "bad-json"),
    ("raw-pair-as-cesu", b"\xed\xa0\xbd\xed\xb8\x80", "bad-json"),
    ("overlong-nul", b"\xc0\x80", "bad-json"),
    ("overlong-slash", b"\xc0\xaf", "bad-json"),
    ("overlong-quote", b"\xc0\xa2", "bad-json"),
    ("overlong-of-two", b"\xc1\xbf", "bad-json"),
    ("overlong-of-three", b"\xe0\x80\x80", "bad-json"),
    ("overlong-of-three-at-its-end", b"\xe0\x9f\xbf", "bad-json"),
    ("overlong-of-four", b"\xf0\x8f\xbf\xbf", "bad-json"),
    ("above-unicode", b"\xf4\x90\x80\x80", "bad-json"),
    ("far-above-unicode", b"\xf5\x80\x80\x80", "bad-json"),
    ("five-byte-form", b"\xf8\x88\x80\x80\x80", "bad-json"),
    ("byte-fe", b"\xfe", "bad-json"),
    ("byte-ff", b"\xff", "bad-json"),
    ("lone-continuation", b"\x80", "bad-json"),
    ("continuation-after-ascii", b"a\xbf", "bad-json"),
    ("cut-of-two", b"\xc3", "bad-json"),
    ("cut-of-three", b"\xe2\x82", "bad-json"),
    ("cut-of-four", b"\xf0\x9f\x98", "bad-json"),
    ("latin-1", b"caf\xe9", "bad-json"),
    ("raw-nul", b"\x00", "bad-json"),
    ("raw-control", b"\x01", "bad-json"),
    ("raw-escape", b"\x1b[31m", "bad-json"),
    ("raw-tab", b"\t", "bad-json"),
    ("raw-return", b"\r", "bad-json"),
    ("raw-unit-separator", b"\x1f", "bad-json"),
    ("escape-x", rb"\x41", "bad-json"),
    ("escape-a", rb"\a", "bad-json"),
    ("escape-v", rb"\v", "bad-json"),
    ("escape-zero", rb"\0", "bad-json"),
    ("escape-quote", rb"\'", "bad-json"),
    ("escape-upper-case-u", rb"\U0041", "bad-json"),
    ("escape-upper-case-n", rb"\N", "bad-json"),
    ("escape-with-three-digits", rb"\u041", "bad-json"),
    ("escape-with-plus", rb"\u+041", "bad-json"),
    ("escape-with-space", rb"\u 041", "bad-json"),
    ("escape-with-letter-g", rb"\u004g", "bad-json"),
    ("escape-with-braces", rb"\u{41}", "bad-json"),
    ("escape-with-wide-digits", "\\u\uff10\uff10\uff14\uff11".encode(), "bad-json"),
    ("pair-with-cut-second-half", rb"\ud83d\ude0", "bad-json"),
)

#: name, the whole value of data.x, code.
_BAD_VALUES = (
    ("capital-true", b"True", "bad-json"),
    ("capital-null", b"NULL", "bad-json"),
    ("cut-null", b"nul", "bad-json"),
    ("long-null", b"nulll", "bad-json"),
    ("undefined", b"undefined", "bad-json"),
    ("single-quotes", b"'a'", "bad-json"),
    ("no-value", b"", "bad-json"),
    ("comma-at-end-of-array", b"[1,]", "bad-json"),
    ("comma-at-begin-of-array", b"[,1]", "bad-json"),
    ("two-commas", b"[1,,2]", "bad-json"),
    ("no-comma", b"[1 2]", "bad-json"),
    ("array-not-closed", b"[1", "bad-json"),
    ("array-closed-by-brace", b"[1}", "bad-json"),
    ("comma-at-end-of-object", b'{"a":1,}', "bad-json"),
    ("only-comma", b"{,}", "bad-json"),
    ("no-colon", b'{"a" 1}', "bad-json"),
    ("two-colons", b'{"a"::1}', "bad-json"),
    ("equals-for-colon", b'{"a"=1}', "bad-json"),
    ("name-without-value", b'{"a":}', "bad-json"),
    ("name-alone", b'{"a"}', "bad-json"),
    ("name-without-quotes", b"{a:1}", "bad-json"),
    ("number-for-a-name", b"{1:2}", "bad-json"),
    ("null-for-a-name", b"{null:2}", "bad-json"),
    ("string-not-closed", b'"a', "bad-json"),
    ("string-ends-in-backslash", b'"a\\"', "bad-json"),
    ("line-comment", b"1//x", "bad-json"),
    ("block-comment", b"/*x*/1", "bad-json"),
    ("hash-comment", b"1#x", "bad-json"),
    ("form-feed-as-space", b"\x0c1", "bad-json"),
    ("vertical-tab-as-space", b"\x0b1", "bad-json"),
    ("no-break-space", b"\xc2\xa01", "bad-json"),
    ("line-separator-as-space", b"\xe2\x80\xa81", "bad-json"),
    ("nul-as-space", b"\x001", "bad-json"),
    ("byte-order-mark-as-space", b"\xef\xbb\xbf1", "bad-json"),
    ("byte-ff-as-space", b"\xff1", "bad-json"),
    ("space-after-colon", b" 1", "not-canonical"),
    ("tab-before-comma", b"[1\t,2]", "not-canonical"),
    ("return-in-array", b"[\r]", "not-canonical"),
    ("space-in-empty-object", b"{ }", "not-canonical"),
    # Order and repetition of names
    ("names-not-sorted", b'{"b":1,"a":2}', "not-canonical"),
    ("prefix-after-longer-name", b'{"aa":1,"a":2}', "not-canonical"),
    ("empty-name-not-first", b'{"a":1,"":2}', "not-canonical"),
    ("numbers-sorted-as-numbers", b'{"9":1,"10":2}', "not-canonical"),
    ("names-sorted-without-case", b'{"a":1,"B":2}', "not-canonical"),
    ("sorted-by-code-point", '{"\ufb33":1,"\U0001f600":2}'.encode(), "not-canonical"),
    ("sorted-by-code-point-at-the-edge", '{"\ue000":1,"\U00010000":2}'.encode(), "not-canonical"),
    ("sorted-with-an-accent-as-letter", '{"e":1,"\u00e9":2,"f":3}'.encode(), "not-canonical"),
    ("toJSON-hides-the-order", b'{"toJSON":1,"b":2}', "not-canonical"),
    ("toJSON-in-an-array-hides-the-order", b'[{"z":{"toJSON":null,"a":1}}]', "not-canonical"),
    ("proto-not-first", b'{"a":1,"__proto__":2}', "not-canonical"),
    ("proto-object-not-first", b'{"a":1,"__proto__":{}}', "not-canonical"),
    ("duplicate-member", b'{"a":1,"a":1}', "bad-json"),
    ("duplicate-member-of-another-value", b'{"a":1,"a":2}', "bad-json"),
    ("duplicate-member-far-apart", b'{"a":1,"b":2,"c":3,"a":4}', "bad-json"),
    ("duplicate-member-through-an-escape", rb'{"a":1,"\u0061":2}', "bad-json"),
    ("duplicate-member-through-an-escape-first", rb'{"\u0061":1,"a":2}', "bad-json"),
    ("duplicate-member-through-a-pair", '{"\U0001f600":1,"\\ud83d\\ude00":2}'.encode(), "bad-json"),
    ("duplicate-member-through-a-slash", rb'{"/":1,"\/":2}', "bad-json"),
    ("duplicate-empty-name", b'{"":1,"":2}', "bad-json"),
    ("duplicate-proto", b'{"__proto__":1,"__proto__":2}', "bad-json"),
    ("duplicate-proto-object", b'{"__proto__":{"a":1},"__proto__":{"a":2}}', "bad-json"),
    ("duplicate-constructor", b'{"constructor":1,"constructor":2}', "bad-json"),
    ("duplicate-deep-inside", b'[[{"x":[{"k":1,"k":1}]}]]', "bad-json"),
    ("duplicate-before-bad-order", b'{"z":1,"a":{"q":1,"q":2}}', "bad-json"),
    ("lone-surrogate-in-a-name", rb'{"\ud800":1}', "bad-json"),
    ("raw-surrogate-in-a-name", b'{"\xed\xa0\x80":1}', "bad-json"),
    ("byte-ff-in-a-name", b'{"\xff":1}', "bad-json"),
    ("raw-control-in-a-name", b'{"\x02":1}', "bad-json"),
    ("escaped-letter-in-a-name", rb'{"\u0061":1}', "not-canonical"),
    # The worse rule is found even when it comes after the lesser one
    ("duplicate-after-a-space", b'[ 1,{"a":1,"a":1}]', "bad-json"),
    ("surrogate-after-a-needless-escape", rb'["\/","\ud800"]', "bad-json"),
    ("two-to-53-after-one-point-zero", b"[1.0,9007199254740992]", "bad-json"),
    ("garbage-after-bad-order", b'{"b":1,"a":2}}', "bad-json"),
)

_GOOD_VALUES = (
    ("empty-names", b'{"":{"":[]}}'),
    ("sorted-by-utf-16", '{"\\r":1,"1":2,"\u0080":3,"\u00f6":4,"\u20ac":5,"\U0001f600":6,"\ufb33":7}'.encode()),
    ("astral-before-private-use", '{"\U00010000":1,"\U0010ffff":2,"\ue000":3,"\uffff":4}'.encode()),
    ("numbers-sorted-as-text", b'{"1":1,"10":2,"2":3,"9":4}'),
    ("prefix-first", b'{"":0,"a":1,"a\\u0000":2,"aa":3,"ab":4,"b":5}'),
    ("composed-and-decomposed", '{"e\u0301":1,"\u00e9":2}'.encode()),
    ("toJSON", b'{"b":1,"toJSON":2}'),
    ("toJSON-of-all-kinds", b'[{"toJSON":null},{"a":{},"toJSON":{}},{"toJSON":"x"}]'),
    ("proto", b'{"__proto__":1}'),
    ("proto-null", b'{"__proto__":null,"a":1}'),
    ("proto-object", b'{"__proto__":{"toString":1},"a":{"__proto__":{"__proto__":[]}}}'),
    ("constructor", b'{"constructor":{"prototype":{"polluted":1}}}'),
    (
        "names-of-object-prototype",
        b'{"__defineGetter__":1,"hasOwnProperty":false,"isPrototypeOf":0,"length":-1,"toLocaleString":[],"toString":null,"valueOf":"x"}',
    ),
    ("names-of-python-and-java", b'{"__class__":1,"__dict__":2,"class":3,"getClass":4,"hashCode":5,"self":6}'),
    ("same-name-at-two-levels", b'{"a":{"a":{"a":1}}}'),
    ("same-name-in-two-objects", b'[{"a":1},{"a":1}]'),
    ("literals", b"[true,false,null]"),
    ("strings-that-look-like-more", b'["null","1.0","-0","{}","[","\\\\ud800","\\\\u0061","$gj:"]'),
    ("many-names", b"{%s}" % b",".join(b'"k%04d":%d' % (n, n) for n in range(1500))),
)


def _case(suite: Suite, name: str, value: bytes, code: str | None = None) -> None:
    event = first(data={"x": Raw(value)})
    if code is None:
        suite.export(name, "a value that is in canonical form", [event])
    else:
        suite.export(name, f"a value that is {code}", [event], [(code, 1)], line={"head": {"hash": None}})


def _numbers(suite: Suite) -> None:
    _case(suite, "numbers-good", b"[%s]" % b",".join(_GOOD_NUMBERS.encode().split()))
    chance = random.Random(53)
    doubles: list[float] = []
    while len(doubles) < 1200:
        # Half of all bit patterns are too big; of the rest most are tiny. The second kind is what people write.
        doubles.append(struct.unpack(">d", chance.randbytes(8))[0])
        doubles.append(chance.uniform(-10, 10) * 10.0 ** chance.randint(-9, 14))
        doubles = [x for x in doubles if abs(x) < 2**53]
    _case(suite, "numbers-good-by-chance", b"[%s]" % b",".join(map(es6, doubles)))
    # Below a power of two doubles lie closer than above it, so its shortest digits need not be the nearest ones.
    powers = [2.0**-n for n in range(1, 1075)] + [2.0**n for n in range(53)]
    _case(suite, "numbers-good-powers-of-two", b"[%s]" % b",".join(map(es6, powers)))
    for row in _BAD_NUMBERS.strip().splitlines():
        name, text, code = row.split(" ")
        _case(suite, f"number-{name}", text.encode().decode("unicode_escape").encode(), code)
    _case(suite, "number-of-400-digits", b"9" * 400, "bad-json")
    _case(suite, "number-of-5000-digits", b"1" * 5000, "bad-json")
    _case(suite, "number-with-5000-zeros-behind-the-point", b"1." + b"0" * 5000, "not-canonical")
    _case(suite, "number-one-in-a-long-way", b"0." + b"0" * 399 + b"1e400", "not-canonical")
    _case(suite, "number-with-800-digits-of-a-fraction", b"0." + b"3" * 800, "not-canonical")
    _case(suite, "number-of-5000-digits-over-as-many", b"1" + b"0" * 5000 + b"e-5000", "not-canonical")


def _strings(suite: Suite) -> None:
    controls = "".join(map(chr, range(0x20)))
    _case(suite, "string-with-all-controls", canon(controls))
    rest = '"\\/\x7f\x80\x9f\xa0\xad\u0300\u2028\u2029\ufdd0\ufeff\ufffd\ufffe\uffff\U0001f600\U0001ffff\U0010ffff'
    _case(suite, "string-with-all-kinds-of-characters", canon(rest))
    _case(
        suite, "string-of-every-length-of-utf-8", canon("a\x7f\x80\u07ff\u0800\ud7ff\ue000\uffff\U00010000\U0010ffff")
    )
    for name, text, code in _BAD_STRINGS:
        _case(suite, f"string-{name}", b'"%s"' % text, code)


def _nested(kind: str, levels: int) -> bytes:
    """``levels`` arrays or objects around a number."""
    opens, closes = {"arrays": (b"[", b"]"), "objects": (b'{"a":', b"}"), "both": (b'[{"a":', b"}]")}[kind]
    times = levels // 2 if kind == "both" else levels
    return opens * times + b"1" + closes * times


def _depth(suite: Suite) -> None:
    # The event is level 1, its data level 2.
    for kind in ("arrays", "objects", "both"):
        _case(suite, f"depth-64-{kind}", _nested(kind, 62))
        _case(suite, f"depth-65-{kind}", b"[%s]" % _nested(kind, 62), "bad-json")
    _case(suite, "depth-65-empty-array", b"[" * 63 + b"]" * 63, "bad-json")
    _case(suite, "depth-64-empty-array", b"[" * 62 + b"]" * 62)
    _case(suite, "depth-65-and-not-canonical", b" " + _nested("arrays", 63), "bad-json")
    _case(suite, "depth-64-many-times", b"[%s]" % b",".join([_nested("objects", 61)] * 20))
    wide = b"[%s]" % b",".join([b"[]"] * 5000)
    _case(suite, "wide-and-not-deep", wide)
    for kind, name in (("open", "never-closed"), ("arrays", "arrays"), ("objects", "objects"), ("bare", "bare")):
        suite.generated(
            f"depth-bomb-{name}",
            "a hundred thousand levels",
            "jsonl",
            [("bad-json", 1)],
            generate=["depth_bomb", kind, 100_000],
            rss=600,
        )


def _whole(suite: Suite) -> None:
    """The text of the event as a whole."""
    raw = first().raw
    cases = (
        ("byte-order-mark", b"\xef\xbb\xbf" + raw, "bad-json"),
        ("utf-16-big-endian", raw.decode().encode("utf-16-be"), "bad-json"),
        ("utf-16-little-endian-with-mark", raw.decode().encode("utf-16"), "bad-json"),
        ("space-before", b" " + raw, "not-canonical"),
        ("space-after", raw + b" ", "not-canonical"),
        ("return-after", raw + b"\r", "not-canonical"),
        ("trailing-nul", raw + b"\x00", "bad-json"),
        ("trailing-letter", raw + b"x", "bad-json"),
        ("trailing-comma", raw + b",", "bad-json"),
        ("trailing-brace", raw + b"}", "bad-json"),
        ("trailing-mark", raw + b"\xef\xbb\xbf", "bad-json"),
        ("two-values", raw + raw, "bad-json"),
        ("two-values-with-a-space", raw + b" " + raw, "bad-json"),
        ("cut", raw[:-1], "bad-json"),
        ("cut-in-the-middle", raw[: len(raw) // 2], "bad-json"),
        ("empty-line", b"", "bad-json"),
        ("only-a-space", b" ", "bad-json"),
        ("number", b"1", "bad-json"),
        ("string", b'"x"', "bad-json"),
        ("null", b"null", "bad-json"),
        ("true", b"true", "bad-json"),
        ("empty-array", b"[]", "bad-json"),
        ("array-of-the-event", b"[%s]" % raw, "bad-json"),
        ("number-not-canonical", b"1.0", "not-canonical"),
        ("array-not-canonical", b"[ ]", "not-canonical"),
        ("members-in-another-order", b'{"v":1,' + raw[1 : -len(b',"v":1}')] + b"}", "not-canonical"),
        ("members-as-python-prints-them", raw.replace(b":", b": ").replace(b",", b", "), "not-canonical"),
        ("v-as-one-point-zero", raw.replace(b'"v":1', b'"v":1.0'), "not-canonical"),
        ("seq-with-exponent", raw.replace(b'"seq":1', b'"seq":1e0'), "not-canonical"),
        ("epoch-minus-zero", raw.replace(b'"epoch":1', b'"epoch":-0'), "bad-json"),
        ("epoch-two-to-53", raw.replace(b'"epoch":1', b'"epoch":9007199254740992'), "bad-json"),
        ("slash-escaped-in-actor", raw.replace(b'"host"', rb'"ho\/st"'), "not-canonical"),
        ("name-escaped", raw.replace(b'"v"', rb'"\u0076"'), "not-canonical"),
        ("seq-twice", raw.replace(b'"seq":1', b'"seq":1,"seq":1'), "bad-json"),
        ("seq-twice-through-an-escape", raw.replace(b'"seq":1', rb'"seq":1,"\u0073eq":2'), "bad-json"),
        ("data-twice", raw.replace(b'"data":{}', b'"data":{},"data":{"a":1}'), "bad-json"),
        ("prev-twice", raw.replace(b'"prev":null', b'"prev":null,"prev":null'), "bad-json"),
    )
    for name, text, code in cases:
        suite.export(
            f"event-{name}", f"an event that is {code}", text + b"\n", [(code, 1)], line={"head": {"hash": None}}
        )
    suite.export("event-plain", "the shortest good event", [first()])
    long = [("bad-member", 1)]
    suite.generated("event-of-16-mib", "exactly as long as an event may be", "jsonl", generate=["long_event", 1 << 24])
    suite.generated("event-too-long", "16 MiB and a byte", "jsonl", long, generate=["long_event", (1 << 24) + 1])
    suite.generated(
        "event-far-too-long", "a line without end, no JSON", "jsonl", long, generate=["long_line", 100 << 20], rss=700
    )


def add(suite: Suite) -> None:
    """All cases of this file."""
    suite.folder = "canonical"
    _numbers(suite)
    _strings(suite)
    for name, value in _GOOD_VALUES:
        _case(suite, f"good-{name}", value)
    for name, value, code in _BAD_VALUES:
        _case(suite, f"value-{name}", value, code)
    _depth(suite)
    _whole(suite)
