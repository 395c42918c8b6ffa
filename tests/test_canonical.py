"""canonical.py against RFC 8785: its own vectors, rfc8785 and node as oracles, each refusal by name."""

from __future__ import annotations

import enum
import json
import math
import random
import shutil
import struct
import subprocess
import sys
import textwrap
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from decimal import Decimal
from pathlib import Path
from typing import Any, ClassVar

import pytest
import rfc8785
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from strategies import (
    NAMES,
    Colour,
    Level,
    Mode,
    Price,
    agrees_with_reference,
    documents,
    number_mismatches,
    random_doubles,
    reference,
    spellings,
    wild,
)

from gitjournal import canonical
from gitjournal.canonical import dumps, loads, loads_canonical
from gitjournal.errors import FormatError

ci = settings(max_examples=1000, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@contextmanager
def fast_path(on: bool) -> Iterator[None]:
    before, canonical.FAST = canonical.FAST, on
    try:
        yield
    finally:
        canonical.FAST = before


def outcome(call: Callable[[Any], Any], argument: Any, *, fast: bool) -> tuple[str, ...]:
    """The result with the types of its nodes, or all that the error says."""
    with fast_path(fast):
        try:
            return ("value", repr(call(argument)))
        except FormatError as error:
            return (error.code, str(error), str(error.where))


def both(call: Callable[[Any], Any], argument: Any) -> tuple[str, ...]:
    """The outcome, after a check that it is the same with and without orjson."""
    fast, slow = (outcome(call, argument, fast=on) for on in (True, False))
    assert fast == slow
    return fast


def refusal(call: Callable[[Any], Any], argument: Any) -> FormatError:
    both(call, argument)
    with pytest.raises(FormatError) as caught:
        call(argument)
    return caught.value


def test_orjson_passes_the_known_answers() -> None:
    assert canonical.FAST


# Vectors from the text of RFC 8785


APPENDIX_B = [
    ("0000000000000000", "0"),
    ("0000000000000001", "5e-324"),
    ("8000000000000001", "-5e-324"),
    ("3eb0c6f7a0b5ed8c", "9.999999999999997e-7"),
    ("3eb0c6f7a0b5ed8d", "0.000001"),
    ("41b3de4355555553", "333333333.3333332"),
    ("41b3de4355555554", "333333333.33333325"),
    ("41b3de4355555555", "333333333.3333333"),
    ("41b3de4355555556", "333333333.3333334"),
    ("41b3de4355555557", "333333333.33333343"),
    ("becbf647612f3696", "-0.0000033333333333333333"),
    ("43143ff3c1cb0959", "1424953923781206.2"),
]
# Numbers of the same table that RFC 8785 prints (or calls an error) and the profile refuses.
APPENDIX_B_REFUSED = {
    "8000000000000000": "negative zero",
    "7fefffffffffffff": "2^53",
    "ffefffffffffffff": "2^53",
    "4340000000000000": "2^53",
    "c340000000000000": "2^53",
    "4430000000000000": "2^53",
    "44b52d02c7e14af5": "2^53",
    "44b52d02c7e14af6": "2^53",
    "44b52d02c7e14af7": "2^53",
    "444b1ae4d6e2ef4e": "2^53",
    "444b1ae4d6e2ef4f": "2^53",
    "444b1ae4d6e2ef50": "2^53",
    "7fffffffffffffff": "NaN",
    "7ff0000000000000": "infinity",
}


def double(bits: str) -> float:
    value: float = struct.unpack(">d", bytes.fromhex(bits))[0]
    return value


@pytest.mark.parametrize(("bits", "text"), APPENDIX_B)
def test_appendix_b(bits: str, text: str) -> None:
    assert both(dumps, [double(bits)]) == ("value", repr(f"[{text}]".encode()))
    assert repr(loads_canonical(text.encode())) == repr(int(text) if text == "0" else double(bits))


@pytest.mark.parametrize(("bits", "rule"), APPENDIX_B_REFUSED.items())
def test_appendix_b_outside_the_profile(bits: str, rule: str) -> None:
    assert rule in str(refusal(dumps, [double(bits)]))


SORTING = {
    "\u20ac": "Euro Sign",
    "\r": "Carriage Return",
    "\ufb33": "Hebrew Letter Dalet With Dagesh",
    "1": "One",
    "😀": "Emoji: Grinning Face",
    "\u0080": "Control",
    "ö": "Latin Small Letter O With Diaeresis",
}
SAMPLE = rb"""{
  "numbers": [333333333.33333329, 4.50, 2e-3, 0.000000000000000000000000001],
  "string": "\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/",
  "literals": [null, true, false]
}"""
VECTORS: list[tuple[Any, str]] = [
    (
        SORTING,
        '{"\\r":"Carriage Return","1":"One","\u0080":"Control","ö":"Latin Small Letter O With Diaeresis",'
        '"\u20ac":"Euro Sign","😀":"Emoji: Grinning Face","\ufb33":"Hebrew Letter Dalet With Dagesh"}',
    ),
    (
        loads(SAMPLE),
        '{"literals":[null,true,false],"numbers":[333333333.3333333,4.5,0.002,1e-27],'
        '"string":"€$\\u000f\\nA\'B\\"\\\\\\\\\\"/"}',
    ),
    ({"toJSON": 1, "b": 2, "a": {"toJSON": None}}, '{"a":{"toJSON":null},"b":2,"toJSON":1}'),
    ({"constructor": 1, "__proto__": {"b": 1, "a": 2}}, '{"__proto__":{"a":2,"b":1},"constructor":1}'),
    ({"b": 0, "10": 1, "9": 2, "": 3, "B": 4}, '{"":3,"10":1,"9":2,"B":4,"b":0}'),
    ([56.0, {"d": True, "10": None, "1": []}], '[56,{"1":[],"10":null,"d":true}]'),
    ((1, (2,), {"a": ()}), '[1,[2],{"a":[]}]'),
    ([1.0, 100.0, 1e15, 0.0, True, 1, 2.0**52], "[1,100,1000000000000000,0,true,1,4503599627370496]"),
    ([1e-5, 1e-6, 1e-7, 1.5e-6, 1.5e-7], "[0.00001,0.000001,1e-7,0.0000015,1.5e-7]"),
    ([2**53 - 1, 1 - 2**53], "[9007199254740991,-9007199254740991]"),
    ("\x00\x07\b\t\n\v\f\r\x1f", r'"\u0000\u0007\b\t\n\u000b\f\r\u001f"'),
    ("\x7f\x80\u2028\u2029\ufeff\uffff\U0010ffff</&>", '"\x7f\x80\u2028\u2029\ufeff\uffff\U0010ffff</&>"'),
    ("", '""'),
    (None, "null"),
    (False, "false"),
    (-7, "-7"),
]


@pytest.mark.parametrize(("value", "text"), VECTORS)
def test_vector(value: Any, text: str) -> None:
    assert both(dumps, value) == ("value", repr(text.encode()))
    assert rfc8785.dumps(value) == text.encode()
    assert dumps(loads_canonical(text.encode())) == text.encode()
    both(loads_canonical, text.encode())


def test_one_float_type_in_and_an_integer_out() -> None:
    """``1.0`` is a legal text, its canonical form is ``1``, and that reads as an int."""
    assert repr(loads(b"1.0")) == "1.0"
    assert repr(loads_canonical(dumps(1.0))) == "1"


# Properties


@ci
@given(documents)
def test_documents_print_as_rfc8785_prints_them(value: Any) -> None:
    text = dumps(value)
    assert text == reference(value)
    assert both(dumps, value) == ("value", repr(text))


@ci
@given(wild)
def test_wild_values_are_printed_or_refused_as_by_rfc8785(value: Any) -> None:
    """Where we alone refuse, a rule of the profile says so: size, -0, depth, subclasses (`profile_is_narrower`)."""
    assert agrees_with_reference(value)
    both(dumps, value)


@ci
@given(documents)
def test_printing_is_idempotent_and_reading_its_inverse(value: Any) -> None:
    text = dumps(value)
    again = loads_canonical(text)
    assert dumps(again) == text
    assert again == loads(text) == json.loads(text)
    assert both(loads_canonical, text) == both(loads, text) == ("value", repr(json.loads(text)))


@settings(ci, max_examples=400)
@given(documents)
def test_other_spellings_read_as_the_same_value(value: Any) -> None:
    for text in spellings(value):
        assert both(loads, text) == ("value", repr(json.loads(text)))
        assert dumps(loads(text)) == dumps(value)
        if text != dumps(value):
            assert refusal(loads_canonical, text).code == "not-canonical"


@ci
@given(documents, st.randoms(use_true_random=False))
def test_damaged_text_is_refused_alike_or_still_a_value(value: Any, rng: random.Random) -> None:
    text = bytearray(dumps(value))
    for _ in range(rng.randrange(1, 4)):
        at = rng.randrange(len(text) + 1)
        text[at : at + rng.randrange(2)] = rng.choice(
            [b"", b"0", b"-", b".0", b"e5", b'"', b"\xed\xa0\x80", b"\\ud800", b" ", b"{"]
        )
    data = bytes(text)
    both(loads_canonical, data)
    if both(loads, data)[0] == "value":
        assert loads_canonical(dumps(loads(data))) == json.loads(data)


@settings(ci, max_examples=400)
@given(st.binary(max_size=40))
def test_any_bytes_give_a_value_or_a_format_error(data: bytes) -> None:
    both(loads, data)
    both(loads_canonical, data)


@pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
def test_numbers_print_as_in_node() -> None:
    refused, wrong = number_mismatches(list(random_doubles(20_000, seed=8785)))
    assert wrong == []
    assert 1000 < refused < 5000


# Refusals of dumps


def nested(levels: int, innermost: Any = 1) -> Any:
    value = innermost
    for level in range(levels):
        value = [value] if level % 2 else {"a": value}
    return value


def cycle() -> list[Any]:
    knot: list[Any] = [1]
    knot.append({"again": knot})
    return knot


class ShoutingMeta(type):
    def __eq__(cls, other: object) -> bool:
        raise RuntimeError("compared")

    def __hash__(cls) -> int:
        raise RuntimeError("hashed")


class Shouting(metaclass=ShoutingMeta):
    def __repr__(self) -> str:
        raise RuntimeError("printed")


class RaisingValue(enum.Enum):
    ONE = 1

    @property
    def value(self) -> Any:
        raise KeyError("orjson 3.13 crashes the process here")


class Name(str):
    pass


REFUSED_VALUES: list[tuple[str, Any, str, str]] = [
    ("int 2^53", 2**53, "2^53", ""),
    ("int -2^53", [-(2**53)], "2^53", "/0"),
    ("uint64", {"id": 2**64 - 1}, "2^53", "/id"),
    ("int of 5001 digits", {"a": [0, 10**5000]}, "2^53", "/a/1"),
    ("float 2^53", {"a": 2.0**53}, "2^53", "/a"),
    ("float -1e300", [[-1e300]], "2^53", "/0/0"),
    ("NaN", [math.nan], "NaN", "/0"),
    ("inf", {"x": math.inf}, "infinity", "/x"),
    ("-inf", {"x": -math.inf}, "infinity", "/x"),
    ("negative zero", [0, -0.0], "negative zero", "/1"),
    ("lone surrogate", {"a": ["x\ud800"]}, "surrogate", "/a/0"),
    ("reversed pair", "\ude00\ud83d", "surrogate", ""),
    ("surrogate in a name", {"a": {"b\udfff": 1}}, "surrogate", "/a/b\\udfff"),
    ("int name", {"a": {1: 2}}, "name", "/a"),
    ("None name", {None: 2}, "name", ""),
    ("str subclass as name", {Name("n"): 2}, "name", ""),
    ("StrEnum as name", [{Mode.FAST: 1}], "name", "/0"),
    ("set", [{1}], "set", "/0"),
    ("bytes", b"x", "bytes", ""),
    ("Decimal", Decimal("1.5"), "Decimal", ""),
    ("Enum", {"c": Colour.RED}, "Colour", "/c"),
    ("IntEnum", {"c": Level.HIGH}, "Level", "/c"),
    ("StrEnum", {"c": Mode.FAST}, "Mode", "/c"),
    ("float subclass", [Price(1.5)], "Price", "/0"),
    ("str subclass", Name("n"), "Name", ""),
    ("Enum whose value raises", [RaisingValue.ONE], "RaisingValue", "/0"),
    ("class that raises", [Shouting()], "Shouting", "/0"),
    ("cycle", cycle(), "cycle", "/1/again"),
    ("list depth 65", nested(65), "deeper than 64", "/a/0" * 32),
    ("depth 10000", nested(10_000), "deeper than 64", "/0/a" * 32),
    ("escaped pointer", {"a/b": {"c~d": b""}}, "bytes", "/a~1b/c~0d"),
]


@pytest.mark.parametrize(
    ("value", "rule", "where"), [r[1:] for r in REFUSED_VALUES], ids=[r[0] for r in REFUSED_VALUES]
)
def test_dumps_refuses(value: Any, rule: str, where: str) -> None:
    error = refusal(dumps, value)
    assert (error.code, error.where) == ("bad-json", where)
    assert rule in str(error)
    str(error).encode("utf-8")


@pytest.mark.parametrize(
    "value", [10**60, "\ud800", {1: 1}, math.nan, cycle()], ids=["int", "surrogate", "name", "nan", "cycle"]
)
def test_a_refusal_stands_alone(value: Any) -> None:
    """orjson may set a str as the cause of its TypeError, which breaks whoever prints the traceback."""
    with pytest.raises(FormatError) as caught:
        dumps(value)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None
    assert "FormatError" in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize("innermost", [1, [], {}, "x"])
def test_depth_64_is_legal(innermost: Any) -> None:
    levels = 63 if innermost in ([], {}) else 64
    value = nested(levels, innermost)
    assert both(dumps, value)[0] == "value"
    assert both(loads_canonical, dumps(value))[0] == "value"
    assert "deeper than 64" in str(refusal(dumps, [value]))
    assert "deeper than 64" in str(refusal(loads, b"[" + dumps(value) + b"]"))


def test_the_same_container_twice_is_no_cycle() -> None:
    shared = {"x": [1]}
    assert both(dumps, [shared, shared, {"y": shared}]) == ("value", repr(b'[{"x":[1]},{"x":[1]},{"y":{"x":[1]}}]'))


def test_no_recursion_error_when_the_stack_is_nearly_full() -> None:
    value = nested(40, 1.0)
    text = dumps(value)

    def below(frames: int, call: Callable[[], object]) -> object:
        return below(frames - 1, call) if frames else call()

    used = len(traceback.extract_stack())
    for room in range(20, 200, 7):
        for call in (lambda: dumps(value), lambda: loads(text), lambda: loads_canonical(b" " + text)):
            with suppress(FormatError):
                below(sys.getrecursionlimit() - used - room, call)


# Refusals of loads


REFUSED_TEXTS: list[tuple[bytes, str, str | None]] = [
    (b"", "empty", None),
    (b" \n", "byte 2", None),
    (b"\xef\xbb\xbf{}", "byte order mark", None),
    ("{}".encode("utf-16"), "UTF-8 (byte 0)", None),
    (b'"\xff"', "UTF-8 (byte 1)", None),
    (b'"\xed\xa0\x80"', "UTF-8 (byte 1)", None),
    (b'"\xc0\x80"', "UTF-8 (byte 1)", None),
    (b'["a",\xf8]', "UTF-8 (byte 5)", None),
    (b"{} {}", "Extra data (byte 3)", None),
    ('["é😀"'.encode(), "not JSON", None),
    ('{"é😀":1}x'.encode(), "(byte 12)", None),
    (b"{}\x00", "not JSON", None),
    (b"{'a':1}", "not JSON", None),
    (b"[1,]", "not JSON", None),
    (b'"\n"', "not JSON", None),
    (b'"\\x41"', "not JSON", None),
    (b"01", "not JSON", None),
    (b"+1", "not JSON", None),
    (b"1.", "not JSON", None),
    (b".5", "not JSON", None),
    (b"nul", "not JSON", None),
    ("[１]".encode(), "not JSON", None),
    (b'{"a":1,"a":1}', "repeated", "/a"),
    (b'[{"x":{"b":1,"a":[],"\\u0061":2}}]', "repeated", "/0/x/a"),
    (b'{"__proto__":1,"__proto__":2}', "repeated", "/__proto__"),
    (b'["\\ud800"]', "surrogate", "/0"),
    (b'["\\ude00\\ud83d"]', "surrogate", "/0"),
    (b'{"\\uDFFF":1}', "surrogate", "/\\udfff"),
    (b'{"\\ud800":1,"\\ud800":2}', "repeated", "/\\ud800"),
    (b"9007199254740992", "2^53", ""),
    (b'{"id":-9007199254740992}', "2^53", "/id"),
    (b"[18446744073709551616]", "2^53", "/0"),
    (b"[9007199254740993.0]", "2^53", "/0"),
    (b"[9007199254740992.0]", "2^53", "/0"),
    (b"[1e16]", "2^53", "/0"),
    (b"[1e400]", "2^53", "/0"),
    (b"[-1E400]", "2^53", "/0"),
    (b"[" + b"9" * 5000 + b"]", "2^53", "/0"),
    (b"[" + b"9" * 5000 + b".5]", "2^53", "/0"),
    (b"[NaN]", "NaN", "/0"),
    (b"[Infinity]", "infinity", "/0"),
    (b"[-Infinity]", "infinity", "/0"),
    (b"-0", "negative zero", ""),
    (b"[-0.0]", "negative zero", "/0"),
    (b"[-0e0]", "negative zero", "/0"),
    (b"[-0.0E+5]", "negative zero", "/0"),
    (b"[-1e-400]", "negative zero", "/0"),
    (b"[" * 65 + b"]" * 65, "deeper than 64", "/0" * 64),
    (b"[" * 300 + b"]" * 300, "deeper than 64", "/0" * 64),
    (b"[" * 100_000, "deeper than 64", None),
    (b'{"a":' * 100_000, "deeper than 64", None),
]


@pytest.mark.parametrize(("data", "rule", "where"), REFUSED_TEXTS, ids=[repr(t[0][:24]) for t in REFUSED_TEXTS])
@pytest.mark.parametrize("call", [loads, loads_canonical])
def test_loads_refuses(call: Callable[[bytes], Any], data: bytes, rule: str, where: str | None) -> None:
    error = refusal(call, data)
    assert (error.code, error.where) == ("bad-json", where)
    assert rule in str(error)
    str(error).encode("utf-8")


@pytest.mark.parametrize("data", ["{}", bytearray(b"{}"), memoryview(b"{}"), None])
def test_text_must_be_bytes(data: Any) -> None:
    """A memoryview would slip through byte searches: ``b"ab" in memoryview(b"ab")`` is False."""
    assert "must be bytes" in str(refusal(loads, data))
    assert "must be bytes" in str(refusal(loads_canonical, data))


NOT_CANONICAL: list[tuple[bytes, bytes, int]] = [
    (b"{} ", b"{}", 2),
    (b" 1", b"1", 0),
    (b"1\n", b"1", 1),
    (b"[1, 2]", b"[1,2]", 3),
    (b'{"b":1,"a":2}', b'{"a":2,"b":1}', 2),
    ('{"\ufb33":1,"😀":2}'.encode(), '{"😀":2,"\ufb33":1}'.encode(), 2),
    (b'"\\u0061"', b'"a"', 1),
    (b'"\\/"', b'"/"', 1),
    (b'"\\u000A"', b'"\\n"', 2),
    (b'"\\u001F"', b'"\\u001f"', 6),
    (b'"\\ud83d\\ude00"', '"😀"'.encode(), 1),
    (b'"\\u007f"', b'"\x7f"', 1),
    (b"1.0", b"1", 1),
    (b"1e2", b"100", 1),
    (b"0.0", b"0", 1),
    (b"0.10", b"0.1", 3),
    (b"1e-6", b"0.000001", 0),
    (b"1E-7", b"1e-7", 1),
    (b"1e-07", b"1e-7", 3),
    (b"0.30000000000000001", b"0.3", 3),
    (b"1e-400", b"0", 0),
]


@pytest.mark.parametrize(("data", "form", "offset"), NOT_CANONICAL)
def test_not_canonical(data: bytes, form: bytes, offset: int) -> None:
    assert dumps(loads(data)) == form
    error = refusal(loads_canonical, data)
    assert error.code == "not-canonical"
    assert f"byte {offset})" in str(error)


@pytest.mark.parametrize("name", NAMES)
def test_names_that_trip_other_encoders(name: str) -> None:
    value: dict[str, Any] = {"b": 1, name: {"z": None, "\ue000": 1, "\U00010000": 2}, "A": 2}
    text = dumps(value)
    assert text == rfc8785.dumps(value)
    assert loads_canonical(text) == value


def test_emoji_in_values_keep_the_fast_path() -> None:
    assert canonical._dumps_fast({"text": "😀", "é": 1}) is not None
    assert canonical._dumps_fast({"a": [{"😀": 1}]}) is None


# The known answers at import


class Fake:
    """Sources of ``dumps`` (and ``loads``) that a changed orjson could have."""

    CHANGES: ClassVar[dict[str, str]] = {
        "large floats as 1e16 (orjson before 3.11.7)": "dumps = lambda v, **k: real.dumps(v, **k).replace(b'e+', b'e')",
        "integral floats without .0": "dumps = lambda v, **k: real.dumps(v, **k).replace(b'.0,', b',')",
        "1e-05 in the window": "dumps = lambda v, **k: real.dumps(v, **k).replace(b'0.00001,', b'1e-05,')",
        "17 digits": "dumps = lambda v, **k: real.dumps(v, **k).replace(b'.3333333333333333', b'.33333333333333331')",
        "upper-case escapes": "dumps = lambda v, **k: real.dumps(v, **k).replace(b'001f', b'001F')",
        "DEL escaped": "dumps = lambda v, **k: real.dumps(v, **k).replace(b'\\x7f', b'\\\\u007f')",
        "no sorting": "dumps = lambda v, option=0: real.dumps(v, option=option & ~real.OPT_SORT_KEYS)",
        "64-bit integers": "dumps = lambda v, option=0: real.dumps(v, option=option & ~real.OPT_STRICT_INTEGER)",
        "other names accepted": "dumps = lambda v, option=0: real.dumps(v, option=option | real.OPT_NON_STR_KEYS)",
        "inexact parser": "loads = lambda d: real.loads(d.replace(b'3333,', b'333,'))",
        "an exception": "dumps = None",
    }


def run_with(fake: str) -> str:
    """FAST and the bytes of one value, in a new process whose orjson is what ``fake`` makes of it."""
    script = f"""
    import sys, types
    sys.path.insert(0, {str(Path(canonical.__file__).parent.parent)!r})
    import orjson as real
    fake = types.ModuleType("orjson")
    fake.__dict__.update(vars(real))
    {fake}
    sys.modules["orjson"] = fake
    from gitjournal import canonical
    value = {{"b": [1.0, 1e-05, 1e-6, 2.5], "a": chr(31)}}
    print(canonical.FAST, canonical.dumps(value), canonical.loads(canonical.dumps(value)) == value)
    """
    run = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, check=True)
    return run.stdout.strip()


RIGHT = f"{rfc8785.dumps({'b': [1.0, 1e-05, 1e-6, 2.5], 'a': chr(31)})!r} True"


@pytest.mark.parametrize("change", Fake.CHANGES.values(), ids=Fake.CHANGES.keys())
def test_a_changed_orjson_turns_the_fast_path_off(change: str) -> None:
    name, source = change.split(" = ", 1)
    assert run_with(f"fake.{name} = {source}") == f"False {RIGHT}"


def test_without_orjson_the_reference_does_everything() -> None:
    assert run_with("fake = None") == f"False {RIGHT}"


def test_the_same_orjson_keeps_the_fast_path_on() -> None:
    assert run_with("pass") == f"True {RIGHT}"


def test_rfc8785_is_imported_only_when_needed() -> None:
    script = "import sys; from gitjournal import canonical as c; c.dumps({'a': 1.5}); print('rfc8785' in sys.modules)"
    root = Path(canonical.__file__).parent.parent
    run = subprocess.run([sys.executable, "-c", script], cwd=root, capture_output=True, text=True, check=True)
    assert run.stdout == "False\n"
