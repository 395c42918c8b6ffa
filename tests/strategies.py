"""Hypothesis strategies and oracles for canonical JSON. Used by test_canonical.py and bench/prove_canonical.py."""

from __future__ import annotations

import enum
import json
import math
import random
import struct
import subprocess
from collections import OrderedDict
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

import rfc8785
from hypothesis import strategies as st

from gitjournal import canonical
from gitjournal.errors import FormatError

LIMIT = 2**53

# Characters at which encoders differ: controls, escapes, DEL, C1, line separators, BOM, both sides of the
# surrogates, the last of the BMP, and astral ones (which UTF-16 sorts before U+E000).
HARD = "\x00\x08\t\n\x0b\x0c\r\x1f\"\\/'\x7f\x80\xa0é\u2028\u2029\ud7ff\ue000\ufb33\ufeff\uffff\U00010000😀\U0010ffff"
NAMES = ["toJSON", "__proto__", "constructor", "", "10", "9", "a", "aa", "$gj:json", "\ue000", "\U00010000", "é"]

text = st.one_of(st.text(max_size=12), st.text(st.sampled_from(HARD), max_size=8))
name = st.one_of(st.sampled_from(NAMES), text)
surrogate_text = st.builds(
    lambda a, c, b: a + chr(c) + b, text, st.integers(0xD800, 0xDFFF), st.sampled_from(["", "a", "\udc00", "😀"])
)


def boundary_doubles() -> list[float]:
    """Doubles at which notations change, with their neighbours."""
    marks = [5e-324, 2.2250738585072014e-308, 1e-7, 1e-6, 1e-5, 1e-4, 0.1, 1.0, 1e15, float(LIMIT), 1e16, 1e21, 1e22]
    near = [math.nextafter(m, to) for m in marks for to in (math.inf, -math.inf)]
    return [sign * x for x in [*marks, *near] for sign in (1, -1)]


integers = st.one_of(st.integers(1 - LIMIT, LIMIT - 1), st.sampled_from([LIMIT - 1, 1 - LIMIT, 0, -1]))
any_float = st.one_of(
    st.floats(),
    st.sampled_from(boundary_doubles()),
    st.builds(lambda k, p: k / 10**p, st.integers(-(10**9), 10**9), st.integers(0, 12)),
    st.integers(-(10**17), 10**17).map(float),
)
good_float = any_float.filter(lambda x: abs(x) < LIMIT and not (x == 0 and math.copysign(1, x) < 0))
good_scalar = st.one_of(st.none(), st.booleans(), integers, good_float, text)


class Colour(enum.Enum):
    RED = 1


class Level(enum.IntEnum):
    HIGH = 3


class Mode(enum.StrEnum):
    FAST = "fast"


class Price(float):
    pass


# What the profile refuses, or what is not JSON at all.
bad_scalar = st.one_of(
    st.sampled_from([LIMIT, -LIMIT, 10**30, -(10**400), math.nan, math.inf, -0.0, 1e16, float(LIMIT)]),
    surrogate_text,
    st.sampled_from([Colour.RED, Level.HIGH, Mode.FAST, Price(1.5), b"x", Decimal("1.5"), 1j, {1}, OrderedDict(a=1)]),
)


def _containers(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(
        st.lists(inner, max_size=5), st.dictionaries(name, inner, max_size=6), st.lists(inner, max_size=3).map(tuple)
    )


def _wild_containers(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    bad_name = st.one_of(surrogate_text, st.sampled_from([1, None, True, 1.5, Mode.FAST, b"a", (1,)]))
    return st.one_of(_containers(inner), st.dictionaries(st.one_of(name, name, name, bad_name), inner, max_size=4))


def _nested(value: Any, levels: int, in_object: bool) -> Any:
    for _ in range(levels):
        value = {"a": value} if in_object else [value]
    return value


documents = st.recursive(good_scalar, _containers, max_leaves=25)
wild = st.one_of(
    st.recursive(st.one_of(good_scalar, good_scalar, good_scalar, bad_scalar), _wild_containers, max_leaves=15),
    st.builds(_nested, good_scalar, st.integers(55, 75), st.booleans()),
)


# Oracles


def reference(value: Any) -> bytes | None:
    """What rfc8785 prints, None if it refuses (by whichever exception: some leak)."""
    try:
        return rfc8785.dumps(value)
    except (ValueError, RecursionError):
        return None


def ours(value: Any) -> bytes | None:
    """What we print, None for a FormatError. Any other exception is a fault, and passes."""
    try:
        return canonical.dumps(value)
    except FormatError as error:
        assert error.code == "bad-json"
        return None


def profile_is_narrower(value: Any, depth: int = 0) -> bool:
    """Whether the value has something that RFC 8785 can print and the journal profile does not allow."""
    if type(value) in (dict, list, tuple):
        items = [*value, *value.values()] if isinstance(value, dict) else value
        return depth >= 64 or any(profile_is_narrower(item, depth + 1) for item in items)
    if type(value) is float:
        return abs(value) >= LIMIT or (value == 0 and math.copysign(1, value) < 0)
    return type(value) not in (str, int, bool, type(None))


def agrees_with_reference(value: Any) -> bool:
    """Equal bytes, or both refuse, or ours refuses for one of the profile's own rules."""
    mine, theirs = ours(value), reference(value)
    if mine is None and theirs is not None:
        return profile_is_narrower(value)
    return mine == theirs


def random_doubles(count: int, seed: int) -> Iterator[float]:
    """Doubles of all kinds: bit patterns, patterns below 2^53, decimals, notation boundaries, integral ones."""
    rng = random.Random(seed)
    boundaries = boundary_doubles()
    kinds: list[Callable[[], float]] = [
        lambda: struct.unpack("<d", rng.randbytes(8))[0],
        lambda: struct.unpack("<d", rng.randbytes(6) + struct.pack("<H", rng.randrange(0x4340)))[0],
        lambda: rng.choice((1, -1)) * rng.randrange(10 ** rng.randrange(1, 17)) / 10 ** rng.randrange(25),
        lambda: rng.choice(boundaries) * (1 + rng.randrange(-9, 10) * 2**-52),
        lambda: float(rng.randrange(-LIMIT, LIMIT)),
        lambda: rng.choice((1, -1)) * 2 ** rng.uniform(-25, 53),
    ]
    for index in range(count):
        yield kinds[index % len(kinds)]()


_NODE = """
const bytes = require("fs").readFileSync(0), lines = [];
for (let i = 0; i < bytes.length; i += 8) lines.push(JSON.stringify(bytes.readDoubleLE(i)));
process.stdout.write(lines.join("\\n"));
"""


def node_numbers(doubles: list[float]) -> list[str]:
    """``JSON.stringify`` of each double, by one node process (ECMA-262, which RFC 8785 section 3.2.2.3 cites)."""
    packed = struct.pack(f"<{len(doubles)}d", *doubles)
    run = subprocess.run(["node", "-e", _NODE], input=packed, capture_output=True, check=True)
    return run.stdout.decode("ascii").split("\n")


def number_mismatches(doubles: list[float]) -> tuple[int, list[str]]:
    """How many of the doubles the profile refuses, and a line for each that differs from node."""
    refused, wrong = 0, []
    for x, expected in zip(doubles, node_numbers(doubles), strict=True):
        mine = ours(x)
        if mine is None:
            refused += 1
        good = mine is None if profile_is_narrower(x) or not math.isfinite(x) else mine == expected.encode()
        if not good or (mine is not None and canonical.loads_canonical(mine) != x):
            wrong.append(f"{x!r}: ours {mine!r}, node {expected}")
    return refused, wrong


def spellings(value: Any) -> list[bytes]:
    """Other texts of the value: indented, spaced, escaped, not sorted. Numbers as Python spells them."""
    return [
        json.dumps(value, indent=1).encode(),
        json.dumps(value, ensure_ascii=False).encode(),
        json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode(),
        b" \t\r\n" + json.dumps(value, sort_keys=True).encode() + b"\n",
    ]
