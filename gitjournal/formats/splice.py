"""Strings in the text of a JSON object put in the place of others: everything else keeps its bytes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from gitjournal.foreign import scan, skip_space
from gitjournal.formats.records import Record

#: What a member's string becomes; None leaves it. Nested objects are opened by the names that lead there.
Change = Callable[[str], str | None]
Changes = Mapping[tuple[str, ...], Change]


def spliced(record: Record, changes: Changes) -> tuple[bytes, list[tuple[str, ...]]]:
    """A record's bytes with changed strings, and which members were changed; the same bytes when none was.

    A name that is there twice is changed twice. What is no JSON object in valid UTF-8 stays as it is.
    """
    text = record.raw.decode("utf-8") if record.is_json else ""
    begin = skip_space(text, text.startswith("\ufeff"))
    if not _is_object(record.value, text, begin):
        return record.raw, []
    pieces, done, changed = [], 0, []
    for at, start, end, new in _found(text, begin, (), changes):
        pieces += [text[done:start], json.dumps(new, ensure_ascii=False)]
        done = end
        changed.append(at)
    return ("".join([*pieces, text[done:]]).encode() if changed else record.raw), changed


def _found(
    text: str, pos: int, at: tuple[str, ...], changes: Changes
) -> Iterator[tuple[tuple[str, ...], int, int, str]]:
    """(member, where its value begins and ends, the new string) for each string that changes, in order."""
    pos = skip_space(text, pos + 1)
    while text[pos : pos + 1] != "}":
        name, pos = scan(text, pos)
        start = skip_space(text, skip_space(text, pos) + 1)
        value, end = scan(text, start)
        here = (*at, name if type(name) is str else "")
        if type(value) is str and here in changes and (new := changes[here](value)) is not None and new != value:
            yield here, start, end, new
        elif _is_object(value, text, start) and any(path[: len(here)] == here for path in changes):
            yield from _found(text, start, here, changes)
        pos = skip_space(text, end)
        if text[pos : pos + 1] == ",":
            pos = skip_space(text, pos + 1)


def _is_object(value: Any, text: str, start: int) -> bool:
    # A value that an event cannot hold is wrapped in an object, whatever it is.
    return type(value) is dict and text[start : start + 1] == "{"
