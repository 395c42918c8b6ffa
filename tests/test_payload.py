"""Side files, references and foreign JSON: nothing is lost on the way in and back."""

from __future__ import annotations

import base64
import json
import math
import sys
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gitjournal import canonical, foreign
from gitjournal.errors import FormatError, NotFound
from gitjournal.objects import FileBlob
from gitjournal.payload import TEXT, extract, lenient, refer, resolve, wrap, wrap_value, wrappers
from gitjournal.rules import SIDE_FILE_BYTES

LONE = "\ud83d"


def _no_files(k: int) -> bytes:
    raise LookupError(k)


def unwrap(value: Any) -> Any:
    return resolve(value, [], _no_files)


def back(data: Any, files: list[FileBlob]) -> Any:
    return resolve(data, [f.entry for f in files], lambda k: files[k - 1].data)


def key(value: Any) -> Any:
    """A value in a form where equal means equal: NaN, -0.0, numbers by value, bool apart from int."""
    if isinstance(value, float) and not (math.isfinite(value) and (value or math.copysign(1, value) > 0)):
        return ("odd", repr(value))
    if isinstance(value, bool) or value is None:
        return ("c", value)
    if isinstance(value, int | float):
        return ("n", Decimal(value))
    if isinstance(value, list | tuple):
        return [key(item) for item in value]
    if isinstance(value, dict):
        return {name: key(item) for name, item in value.items()}
    return value


# Python strings may hold a high and a low surrogate side by side; JSON text cannot tell that from the one character.
texts = st.text(st.characters(exclude_categories=()), max_size=20).map(
    lambda s: s.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
)
names = texts | st.sampled_from(["$gj:file", "$gj:json", "$gj:x", "a", "b"])
numbers = st.integers() | st.floats() | st.sampled_from([2**53, -(2**53), 2**53 - 1, 10**400, -0.0, 1e22, 5e-324])
values = st.recursive(
    st.none() | st.booleans() | numbers | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(names, inner, max_size=4),
    max_leaves=20,
)


@given(values)
@settings(max_examples=400, deadline=None)
def test_wrapping_a_value_loses_nothing(value: Any) -> None:
    wrapped = wrap_value(value)
    canonical.dumps(wrapped)
    assert key(unwrap(wrapped)) == key(value)


@given(values, st.sampled_from([None, 1]), st.booleans())
@settings(max_examples=400, deadline=None)
def test_wrapping_a_text_loses_nothing(value: Any, indent: int | None, escaped: bool) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=escaped)
    stored = canonical.loads(canonical.dumps(wrap(text)))
    assert key(unwrap(stored)) == key(lenient(text))


@given(values)
@settings(max_examples=200, deadline=None)
def test_both_parsers_wrap_alike(value: Any) -> None:
    text = json.dumps(value)
    slow, end = foreign._Slow(text, foreign._SCALARS, foreign.WRAP_DEPTH).parse(0)
    assert end == len(text)
    assert key(wrap(text)) == key(slow)


@given(values, st.sampled_from([(",", ":"), (", ", ": ")]), st.booleans())
@settings(max_examples=600, deadline=None)
def test_what_is_printed_as_usual_is_wrapped_alike(value: Any, separators: tuple[str, str], escaped: bool) -> None:
    text = json.dumps(value, separators=separators, ensure_ascii=escaped).encode("utf-8", "surrogatepass")
    found = foreign.printed(text)
    assert found is canonical.UNPROVEN or repr(found) == repr(wrap(text))


@pytest.mark.parametrize(
    "text", ['{"a":[1,-2,0.5,"é😀$",null,true],"b":{"c":"\\n"}}', "[]", '"x"', "null", "[" * 40 + "]" * 40]
)
def test_the_usual_print_is_read_at_once(text: str) -> None:
    found = foreign.printed(text.encode())
    assert found is not canonical.UNPROVEN and repr(found) == repr(wrap(text))


@pytest.mark.parametrize(
    "text",
    [
        '{"a":1,"a":1}', '{"$gj:ref":[1,"/a"]}', '{"a": 1}', "[1.0]", "[1e5]", "[0.10]", "[-0]", "[-0.0]", "[NaN]",
        "[9007199254740992]", "[0.1000000000000000055]", "[1e400]", '["\\u0061"]', '["\\ud800"]', "[" * 41 + "]" * 41,
        "[1] 2", "{", "", "\ufeff[1]", "[\"\x00\"]",
    ],
)  # fmt: skip
def test_what_is_printed_otherwise_is_left_to_the_parsers(text: str) -> None:
    assert foreign.printed(text.encode()) is canonical.UNPROVEN


def test_bytes_that_are_no_text_are_left_to_the_parsers() -> None:
    assert foreign.printed(b'["\xff"]') is canonical.UNPROVEN
    assert foreign.printed(b'["\xed\xa0\x80"]') is canonical.UNPROVEN


def test_more_values_than_are_taken_for_json_are_not_read_at_once() -> None:
    assert foreign.printed(b"[" + b"1," * 600_000 + b"1]") is canonical.UNPROVEN


@given(values)
@settings(max_examples=200, deadline=None)
def test_the_reference_parser_reads_what_json_reads(value: Any) -> None:
    text = json.dumps(value, indent=1)
    assert key(foreign._Slow(text, foreign._LENIENT, None).parse(0)[0]) == key(json.loads(text))


@given(st.text(alphabet='[]{}:,"\\u0d8 1-.eE+trufalsn\n', max_size=30))
@settings(max_examples=1000, deadline=None)
def test_the_reference_parser_takes_exactly_what_json_takes(text: str) -> None:
    def accepts(parse: Any) -> bool:
        try:
            _, end = parse(text, foreign.skip_space(text, 0))
        except ValueError:
            return False
        return foreign.skip_space(text, end) == len(text)

    assert accepts(lambda t, i: foreign._Slow(t, foreign._SCALARS, 40).parse(i)) == accepts(
        json.JSONDecoder().raw_decode
    )


@given(st.binary(max_size=40))
@settings(max_examples=300, deadline=None)
def test_wrap_takes_any_bytes(raw: bytes) -> None:
    wrapped = wrap(raw)
    canonical.dumps(wrapped)
    if "$gj:b64" in (wrapped if isinstance(wrapped, dict) else ()):
        assert unwrap(wrapped) == raw


@pytest.mark.parametrize(
    ("text", "wrapped"),
    [
        ("9007199254740992", {"$gj:json": "9007199254740992"}),
        ("9007199254740991", 9007199254740991),
        ("-9007199254740992", {"$gj:json": "-9007199254740992"}),
        ("12345678901234567890", {"$gj:json": "12345678901234567890"}),
        ("1e16", {"$gj:json": "1e16"}),
        ("1E400", {"$gj:json": "1E400"}),
        ("1e-400", {"$gj:json": "1e-400"}),
        ("1e-99999999999999999999", {"$gj:json": "1e-99999999999999999999"}),
        ("-0", {"$gj:json": "-0"}),
        ("-0.0", {"$gj:json": "-0.0"}),
        ("0.0", 0),
        ("0e5", 0),
        ("1.0", 1),
        ("0.10", 0.1),
        ("5e-324", 5e-324),
        ("0.30000000000000004", 0.30000000000000004),
        ("3.14159265358979323846", {"$gj:json": "3.14159265358979323846"}),
        ("[NaN,-Infinity]", [{"$gj:json": "NaN"}, {"$gj:json": "-Infinity"}]),
        ('["ok \\ud83d\\ude00","cut \\ud83d"]', ["ok 😀", {"$gj:json": '"cut \\ud83d"'}]),
        ('{"k":{"a": 1,"a":2},"b":1e999}', {"k": {"$gj:json": '{"a": 1,"a":2}'}, "b": {"$gj:json": "1e999"}}),
        ('[{"$gj:file":1}]', [{"$gj:json": '{"$gj:file":1}'}]),
        ('[{"\\u0024gj:x":1}]', [{"$gj:json": '[{"\\u0024gj:x":1}]'[1:-1]}]),
        ('{"\\ud800":1}', {"$gj:json": '{"\\ud800":1}'}),
    ],
)
def test_the_smallest_node_is_wrapped(text: str, wrapped: Any) -> None:
    assert key(wrap(text)) == key(wrapped)
    canonical.dumps(wrap(text))


def test_three_thousand_nested_arrays() -> None:
    text = '{"a":' + "[" * 3000 + " 1e0 " + "]" * 3000 + "}"
    wrapped = wrap(text)
    canonical.dumps({"data": wrapped})
    node, depth = wrapped["a"], 1
    while isinstance(node, list):
        node, depth = node[0], depth + 1
    assert depth == foreign.WRAP_DEPTH
    assert node == {"$gj:json": "[" * (3001 - depth) + " 1e0 " + "]" * (3001 - depth)}
    inner = unwrap(wrapped)["a"]
    for _ in range(3000):
        (inner,) = inner
    assert inner == 1
    assert wrap_value(lenient(text))["a"] is not None


def test_wrapping_does_not_depend_on_the_recursion_limit() -> None:
    text = "[" * 200 + '{"a":1.50}' + "]" * 200
    first = wrap(text)
    limit = sys.getrecursionlimit()
    try:
        sys.setrecursionlimit(160)
        second = wrap(text)
    finally:
        sys.setrecursionlimit(limit)
    assert first == second


def test_a_number_of_a_million_digits() -> None:
    text = "[" + "9" * 1_000_000 + ", 1." + "1" * 1_000_000 + "]"
    wrapped = wrap(text)
    assert wrappers(wrapped) == 2
    assert unwrap(wrapped)[0] == Decimal("9" * 1_000_000)


def test_big_integers_come_back_exactly() -> None:
    assert unwrap(wrap("12345678901234567890")) == 12345678901234567890
    assert unwrap(wrap_value(10**5000)) == Decimal(10**5000)


def test_a_value_that_is_no_json_is_refused() -> None:
    cycle: list[Any] = []
    cycle.append(cycle)
    for value in (object(), {1: 2**60}, b"x", cycle):
        with pytest.raises(FormatError, match=r"Python|name|cycle"):
            wrap_value(value)


def test_nesting_that_only_an_attacker_needs_is_not_read() -> None:
    levels = foreign.MAX_LEVELS
    assert "$gj:b64" not in wrap("[" * levels + "]" * levels)
    text = "[" * (levels + 1) + "]" * (levels + 1)
    assert unwrap(wrap(text)) == text.encode()
    value: Any = []
    for _ in range(levels):
        value = [value]
    with pytest.raises(FormatError, match="levels"):
        wrap_value(value)


def test_a_value_that_fits_is_not_copied() -> None:
    value = {"a": [1, "b"]}
    assert wrap_value(value) is value


# --- references ----------------------------------------------------------------------------------


def test_long_strings_become_references() -> None:
    long, other = "x" * 256, "é" * 128
    raw = {"a/b": [long, {"~": other}], "again": long, "short": "y" * 255}
    neutral = {"parts": [{"content": long}, {"content": other}], "short": raw["short"], "elsewhere": "z" * 300}
    seen = refer(neutral, raw, 1)
    assert seen["parts"] == [{"content": {"$gj:ref": [1, "/a~1b/0"]}}, {"content": {"$gj:ref": [1, "/a~1b/1/~0"]}}]
    assert seen["short"] == raw["short"] and seen["elsewhere"] == neutral["elsewhere"]
    raw_bytes = json.dumps(raw).encode()
    assert resolve(seen, [{"media_type": "application/json"}], lambda k: raw_bytes) == neutral


def test_a_reference_changes_nothing_of_the_record() -> None:
    raw = {"m": [{"a/b~c": "x" * 300, "n": {"k": 1}}], "o": {"p": "short"}}
    before = repr(raw)
    seen = refer({"first": raw["m"], "second": raw["o"]}, raw, 1)
    assert seen == {
        "first": [{"a/b~c": {"$gj:ref": [1, "/m/0/a~1b~0c"]}, "n": {"k": 1}}],
        "second": {"p": "short"},
    }
    # What holds no long string need not be copied.
    assert repr(raw) == before and seen["second"] is raw["o"]


def test_a_long_string_with_a_lone_surrogate_becomes_a_reference() -> None:
    text = json.dumps({"m": LONE + "x" * 300})
    seen = refer({"content": wrap(text)["m"]}, wrap(text), 1)
    assert seen == {"content": {"$gj:ref": [1, "/m"]}}
    assert resolve(seen, [{}], lambda k: text.encode()) == {"content": LONE + "x" * 300}


def test_of_equal_strings_the_first_in_document_order_is_pointed_at() -> None:
    long, later = "x" * 300, "y" * 300
    # The search goes on behind the second one, for another string.
    raw = {"first": long, "second": long, "last": later}
    seen = refer({"a": long, "b": later}, raw, 1)
    assert seen == {"a": {"$gj:ref": [1, "/first"]}, "b": {"$gj:ref": [1, "/last"]}}
    odd = wrap(json.dumps({"first": LONE + long, "second": LONE + long, "last": LONE + later}))
    assert refer({"a": odd["first"], "b": odd["last"]}, odd, 1) == seen


def test_references_never_lead_into_a_wrapped_node() -> None:
    long = "x" * 300
    raw = wrap(json.dumps({"odd": 1}).replace("1", f'{{"a":"{long}","a":"{long}"}}'))
    assert refer({"c": long}, raw, 1) == {"c": long}


@given(values, st.integers(0, 12))
@settings(max_examples=300, deadline=None)
def test_refer_and_resolve_are_inverse(value: Any, limit: int) -> None:
    text = json.dumps(value)
    wrapped = wrap(text)
    seen = refer({"v": wrapped, "copy": [wrapped]}, wrapped, 1, limit=limit)
    found = resolve(canonical.loads(canonical.dumps(seen)), [{}], lambda k: text.encode())
    assert key(found["v"]) == key(found["copy"][0]) == key(lenient(text))


# --- side files ----------------------------------------------------------------------------------


sizes = st.sampled_from([0, 1, SIDE_FILE_BYTES - 1, SIDE_FILE_BYTES, SIDE_FILE_BYTES + 5])
strings = st.builds(lambda s, n: s * (n // max(len(s), 1) + 1), st.sampled_from(["a", "é", "😀", "\0"]), sizes)
encoded = st.binary(max_size=50).map(lambda b: base64.b64encode(b).decode())
blobs = st.fixed_dictionaries(
    {"type": st.just("blob"), "content": encoded | strings | st.sampled_from(["====", "YQ", "YR==", "a b="])},
    optional={"mime_type": st.sampled_from(["image/png", TEXT, "text/plain", "é", ""]), "modality": strings},
)
live = st.recursive(
    strings | st.integers(0, 9) | blobs,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=6,
)


@given(st.dictionaries(st.sampled_from("xyz"), live, max_size=3))
@settings(max_examples=200, deadline=None)
def test_extract_and_resolve_are_inverse(data: dict[str, Any]) -> None:
    text = canonical.dumps(data)
    moved, files = extract(data)
    assert back(moved, files) == data
    assert extract(data, text) == (moved, files)
    assert canonical.dumps(data) == text, "the caller's data was changed"
    assert files or moved is data


def test_an_image_moves_as_bytes() -> None:
    image = bytes(range(256))
    part = {"type": "blob", "mime_type": "image/png", "modality": "image", "content": base64.b64encode(image).decode()}
    moved, files = extract({"parts": [part]})
    assert moved["parts"][0]["content"] == {"$gj:file": 1}
    assert files[0].data == image and files[0].entry["media_type"] == "image/png"
    assert back(moved, files) == {"parts": [part]}


def test_extract_leaves_what_no_event_can_hold() -> None:
    deep: Any = LONE * SIDE_FILE_BYTES
    for _ in range(100):
        deep = [deep]
    data = {"deep": deep, "lone": LONE * SIDE_FILE_BYTES}
    assert extract(data) == (data, [])


@pytest.mark.parametrize(
    "tag",
    [
        {"$gj:file": 2},
        {"$gj:file": 0},
        {"$gj:file": 3},
        {"$gj:ref": [1, "/nothing"]},
        {"$gj:ref": [1, "/a/1"]},
        {"$gj:ref": [1, "/a/01"]},
        {"$gj:ref": [1, "/a"]},
        {"$gj:ref": [3, ""]},
        {"$gj:json": "[1"},
        {"$gj:b64": "Y"},
        {"$gj:new": 1},
    ],
)
def test_a_tag_that_leads_nowhere_is_named(tag: dict[str, Any]) -> None:
    def load(k: int) -> bytes:
        if k == 1:
            return b'{"a":["x"]}'
        raise NotFound("gone")

    with pytest.raises(FormatError) as caught:
        resolve({"x": tag}, [{"media_type": "application/json"}] * 2, load)
    assert caught.value.code == "bad-file"


def test_side_files_resolve_by_media_type() -> None:
    kinds = ["text/x", "application/json", "application/problem+json", "image/png", "text/plain"]
    files = [{"media_type": kind} for kind in kinds]
    data = {"v": [{"$gj:file": k} for k in range(1, 6)]}
    raws = [b"a", b"{}", b"{}", b"a", b"\xff"]
    assert resolve(data, files, lambda k: raws[k - 1])["v"] == ["a", "{}", "{}", b"a", b"\xff"]
