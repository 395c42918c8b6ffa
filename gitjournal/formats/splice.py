"""Members in the text of a JSON object changed and added: everything else keeps its bytes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from gitjournal.foreign import scan, skip_space
from gitjournal.formats.records import Record

#: What a member's string becomes; None leaves it. Nested objects are opened by the names that lead there.
Change = Callable[[str], str | None]
#: A member without a `Change` becomes null, whatever it is.
Changes = Mapping[tuple[str, ...], Change | None]


def spliced(record: Record, changes: Changes) -> tuple[bytes, list[tuple[str, ...]]]:
    """A record's bytes with changed members, and which were changed; the same bytes when none was.

    A name that is there twice is changed twice. What is no JSON object in valid UTF-8 stays as it is.
    """
    text, begin = _opened(record)
    if not text:
        return record.raw, []
    pieces, done, changed = [], 0, []
    for at, start, end, new in _found(text, begin, (), changes):
        pieces += [text[done:start], json.dumps(new, ensure_ascii=False)]
        done = end
        changed.append(at)
    return ("".join([*pieces, text[done:]]).encode() if changed else record.raw), changed


def added(record: Record, path: tuple[str, ...], more: Mapping[str, Any]) -> bytes:
    """A record's bytes with more members behind the others of the object that ``path`` leads to.

    The same bytes when there is no such object, or it has no members.
    """
    text, begin = _opened(record)
    for step in path if text else ():
        found = _members(text, begin)
        begin = next((start for name, start, _, of in found if name == step and _is_object(of, text, start)), -1)
        if begin < 0:
            return record.raw
    if not text or next(_members(text, begin), None) is None:
        return record.raw
    end = scan(text, begin)[1] - 1
    inner = json.dumps(more, ensure_ascii=False, separators=(",", ":"))[1:-1]
    return f"{text[:end]},{inner}{text[end:]}".encode()


def _opened(record: Record) -> tuple[str, int]:
    """The text of a record that is an object, and where that begins; an empty text for any other."""
    text = record.raw.decode("utf-8") if record.is_json else ""
    begin = skip_space(text, text.startswith("\ufeff"))
    return (text, begin) if _is_object(record.value, text, begin) else ("", 0)


def _found(
    text: str, pos: int, at: tuple[str, ...], changes: Changes
) -> Iterator[tuple[tuple[str, ...], int, int, Any]]:
    """(member, where its value begins and ends, the new value) for each member that changes, in order."""
    for name, start, end, value in _members(text, pos):
        here = (*at, name)
        if here in changes and (new := _changed(changes[here], value)) != value:
            yield here, start, end, new
        elif _is_object(value, text, start) and any(path[: len(here)] == here for path in changes):
            yield from _found(text, start, here, changes)


def _changed(change: Change | None, value: Any) -> Any:
    if change is None:
        return None
    new = change(value) if type(value) is str else None
    return value if new is None else new


def _members(text: str, pos: int) -> Iterator[tuple[str, int, int, Any]]:
    """(name, where its value begins and ends, value) of each member of the object that begins at ``pos``."""
    pos = skip_space(text, pos + 1)
    while text[pos : pos + 1] != "}":
        name, pos = scan(text, pos)
        start = skip_space(text, skip_space(text, pos) + 1)
        value, end = scan(text, start)
        yield name if type(name) is str else "", start, end, value
        pos = skip_space(text, end)
        if text[pos : pos + 1] == ",":
            pos = skip_space(text, pos + 1)


def _is_object(value: Any, text: str, start: int) -> bool:
    # A value that an event cannot hold is wrapped in an object, whatever it is.
    return type(value) is dict and text[start : start + 1] == "{"
