"""One document as records: nothing is lost, arrays are opened, anything else is left whole."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gitjournal.foreign import wrap
from gitjournal.formats import document
from gitjournal.formats.document import Opened
from gitjournal.formats.records import NOT_JSON, Record

CHAT: Opened = frozenset({("messages",), ("messages", "*", "parts")})


def cut(text: str | bytes, opened: Opened = CHAT) -> list[Record] | None:
    raw = text.encode() if isinstance(text, str) else text
    found = document.document(raw, opened)
    if found is not None:
        assert b"".join(record.raw + record.after for record in found) == raw
        offset = 0
        for number, record in enumerate(found, 1):
            assert (record.number, record.offset) == (number, offset)
            offset += len(record.raw) + len(record.after)
            if record.is_json:
                assert record.value == wrap(record.raw)
    return found


def shape(text: str, opened: Opened = CHAT) -> list[tuple[str, bytes, tuple[str | int, ...]]]:
    return [(record.raw.decode(), record.after, record.at) for record in cut(text, opened) or ()]


def test_elements_are_records_and_the_rest_are_fragments() -> None:
    found = cut('{"id": "s", "messages": [ {"a":1} , 2 ], "end": true}\n', frozenset({("messages",)}))
    assert found is not None
    assert [(one.raw, one.after, one.value, one.at, one.fragment) for one in found] == [
        (b'{"id": "s", "messages": [ ', b"", {"id": "s"}, ("messages",), True),
        (b'{"a":1} ', b", ", {"a": 1}, ("messages", 0), False),
        (b"2 ", b"", 2, ("messages", 1), False),
        (b'], "end": true}\n', b"", {"end": True}, (), True),
    ]


def test_an_array_within_elements_is_opened_too() -> None:
    text = '{"messages":[{"info":{"id":"m"},"parts":[{"p":1},{"p":2}],"x":1},{"info":{}}]}'
    assert shape(text) == [
        ('{"messages":[', b"", ("messages",)),
        ('{"info":{"id":"m"},"parts":[', b"", ("messages", 0, "parts")),
        ('{"p":1}', b",", ("messages", 0, "parts", 0)),
        ('{"p":2}', b"", ("messages", 0, "parts", 1)),
        ('],"x":1}', b",", ("messages", 0)),
        ('{"info":{}}', b"", ("messages", 1)),
        ("]}", b"", ()),
    ]


def test_objects_on_the_way_are_nested_in_their_fragment() -> None:
    found = cut('{"data":{"id":7,"messages":[1],"n":8},"z":9}', frozenset({("data", "messages")}))
    assert found is not None
    assert [record.value for record in found] == [{"data": {"id": 7}}, 1, {"data": {"n": 8}, "z": 9}]


def test_a_document_that_is_an_array_or_has_nothing_to_open() -> None:
    assert shape("[1, 2]", frozenset({()})) == [
        ("[", b"", ()), ("1", b", ", (0,)), ("2", b"", (1,)), ("]", b"", ()),
    ]  # fmt: skip
    assert shape("[]", frozenset({()})) == [("[", b"", ()), ("]", b"", ())]
    assert shape(' {"a": [1]} ') == [(' {"a": [1]} ', b"", ())]
    assert shape('{"messages": 3}') == [('{"messages": 3}', b"", ())]
    assert shape("3") == [("3", b"", ())]


@pytest.mark.parametrize(
    "text",
    [
        "", " ", "{", '{"messages"', '{"messages":', '{"messages":[', '{"messages":[1', '{"messages":[1,', "nope",
        '{"messages":[1,]}', '{"messages":[,1]}', '{"messages":[1 2]}', '{"messages":[1]', '{"messages":[1]}x',
        '{"messages":[1],}', '{messages:[1]}', '{"a":1,"a":2,"messages":[]}', '{"$gj:x":1,"messages":[]}',
        '{"messages":[{"parts":[1]]}', '{"messages":[{"parts":[1]} {"parts":[]}]}', "[1]]", b"\xff{}",
    ],
)  # fmt: skip
def test_what_is_no_document_is_left_to_others(text: str | bytes) -> None:
    assert cut(text) is None


def test_an_element_that_is_too_long_is_kept_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(document, "MAX_RECORD", 20)
    found = cut('{"messages":["' + "x" * 50 + '", 1]}')
    assert found is not None
    assert [record.fault for record in found] == ["", "oversized", "oversized", "oversized", "", ""]
    assert found[1].value is NOT_JSON and found[3].after == b", "


values = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["messages", "parts", "a", "*", ""]), inner, max_size=3)
    ),
    max_leaves=12,
)


@given(
    values, st.sampled_from([None, 1]), st.sampled_from([CHAT, frozenset({()}), frozenset({("a", "*")}), CHAT | {()}])
)
@settings(max_examples=400, deadline=None)
def test_any_document_is_its_records(value: Any, indent: int | None, opened: Opened) -> None:
    assert cut(json.dumps(value, indent=indent), opened) is not None


@given(values, st.data())
@settings(max_examples=300, deadline=None)
def test_damage_is_never_cut_wrongly(value: Any, data: st.DataObject) -> None:
    raw = bytearray(json.dumps(value).encode())
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(raw)))
        raw[at : at + data.draw(st.integers(0, 2))] = data.draw(st.sampled_from([b"", b"{", b"]", b",", b'"', b"\xff"]))
    found = cut(bytes(raw))
    try:
        json.loads(bytes(raw))
    except ValueError:
        assert found is None
