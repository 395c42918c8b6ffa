"""One JSON document as a list of records, without losing a byte (docs/formats/records.md).

Programs that write a session as one document keep its messages in an array. Such an array is opened: each of its
elements is a record, and what stands around them are fragments. All of them in order, each with what stands after it,
are the document.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any, BinaryIO, ClassVar

from gitjournal.foreign import MAX_VALUES, count, scan, skip_space
from gitjournal.formats.protocol import RecordFormat
from gitjournal.formats.records import MAX_RECORD, NOT_JSON, Record, records
from gitjournal.formats.source import joined

#: A document is read whole; longer ones, in bytes, are taken as lines.
MAX_DOCUMENT = 40 * 1024 * 1024
_PIECE = 256 * 1024
# A character beyond U+FFFF makes four bytes of each character of a text. Longer documents with one are not read whole.
_MAX_WIDE = MAX_DOCUMENT // 2
_WIDE = re.compile(rb"[\xf0-\xf4]")

Path = tuple[str | int, ...]
#: The arrays to open: names from the document's root to the array, ``*`` for any element of an array.
Opened = frozenset[tuple[str, ...]]


class DocumentFormat(RecordFormat):
    """Base of formats that are one JSON document. A source that is none is taken as lines."""

    #: ``{("messages",), ("messages", "*", "parts")}`` opens the messages, and the parts of each message.
    opened: ClassVar[Opened] = frozenset()

    def cut(self, stream: BinaryIO) -> Iterator[Record]:
        """See `RecordFormat.cut`."""
        raw = stream.read(MAX_DOCUMENT + 1)
        text = _text(raw)
        if text is not None:
            # Of a large document only one form is kept at a time.
            del raw
            found = _cut(text, self.opened)
            if found is not None:
                del text
                yield from found
                return
            raw = text.encode()
            del text
        rest = iter(partial(stream.read, _PIECE), b"")
        yield from records(joined(itertools.chain((raw,), rest)), self.salvage)

    def finished(self, last: Record) -> bool:
        """See `RecordFormat.finished`: a document that could be read is whole."""
        return super().finished(last) or last.fragment or bool(last.at) or (last.number == 1 and last.is_json)


def around(found: Iterable[Record]) -> dict[str, Any]:
    """The members of a document around its records."""
    root: dict[str, Any] = {}
    for record in found:
        if record.fragment:
            root.update(record.value)
    return root


def document(raw: bytes, opened: Opened) -> list[Record] | None:
    """The records of a document; None when ``raw`` is not one JSON value in UTF-8, or too large to be read whole."""
    text = _text(raw)
    return None if text is None else _cut(text, opened)


def _text(raw: bytes) -> str | None:
    """A document as text; None when it is not UTF-8, or would need too much memory."""
    if len(raw) > MAX_DOCUMENT or (len(raw) > _MAX_WIDE and _WIDE.search(raw)):
        return None
    try:
        return raw.decode("utf-8")
    except ValueError:
        return None


def _cut(text: str, opened: Opened) -> list[Record] | None:
    try:
        # All values are in memory together.
        if len(text) > MAX_VALUES and count(text, skip_space(text, text.startswith("\ufeff"))) > MAX_VALUES:
            return None
        return _Cutter(text, opened).cut()
    except ValueError:
        return None


class _Cutter:
    """Walks down to the arrays that are to be opened; everything else is scanned as a whole."""

    def __init__(self, text: str, opened: Opened) -> None:
        self._text = text
        self._opened = opened
        #: Beginnings of paths to an array that is opened: objects on the way.
        self._ways = {path[:n] for path in opened for n in range(len(path))}
        self._found: list[Record] = []
        self._offset = 0
        #: Where the present fragment begins, and its members.
        self._start = 0
        self._members: dict[str, Any] = {}

    def cut(self) -> list[Record]:
        begin = skip_space(self._text, self._text.startswith("\ufeff"))
        char = self._text[begin : begin + 1]
        if char == "[" and () in self._opened:
            end = self._array(begin, ())
        elif char == "{" and () in self._ways:
            end = self._object(begin, ())
        else:
            value, end = scan(self._text, begin)
            if skip_space(self._text, end) == len(self._text):
                self._emit(len(self._text), value, ())
            end = len(self._text) if self._found else end
        if skip_space(self._text, end) != len(self._text):
            raise ValueError("something follows the document")
        self._fragment(len(self._text), ())
        return self._found

    def _object(self, pos: int, at: Path) -> int:
        """Walk an object; where it ends."""
        pos = skip_space(self._text, pos + 1)
        if self._text[pos : pos + 1] == "}":
            return pos + 1
        while True:
            name, pos = self._name(pos)
            pos = skip_space(self._text, self._member(pos, (*at, name)))
            char = self._text[pos : pos + 1]
            if char == "}":
                return pos + 1
            if char != ",":
                raise ValueError(f"no comma or end of an object (character {pos})")
            pos = skip_space(self._text, pos + 1)

    def _name(self, pos: int) -> tuple[str, int]:
        name, pos = scan(self._text, pos) if self._text[pos : pos + 1] == '"' else (None, pos)
        pos = skip_space(self._text, pos)
        if type(name) is not str or self._text[pos : pos + 1] != ":":
            raise ValueError(f"no member (character {pos})")
        return name, skip_space(self._text, pos + 1)

    def _member(self, pos: int, at: Path) -> int:
        char, way = self._text[pos : pos + 1], _way(at)
        if char == "[" and way in self._opened:
            return self._array(pos, at)
        if char == "{" and way in self._ways:
            return self._object(pos, at)
        value, end = scan(self._text, pos)
        self._put(at, value)
        return end

    def _put(self, at: Path, value: Any) -> None:
        """Add a member to those of the fragment: objects on the way to an array are nested as they stand."""
        element = max((n for n, step in enumerate(at) if type(step) is int), default=-1)
        names = [str(step) for step in at[element + 1 :]]
        node = self._members
        for name in names[:-1]:
            node = node.setdefault(name, {})
        if names[-1] in node or names[-1].startswith("$gj:"):
            raise ValueError(f"a repeated or odd name {names[-1]!r}")
        node[names[-1]] = value

    def _array(self, pos: int, at: Path) -> int:
        """Open an array: its elements become records. Where it ends."""
        pos = skip_space(self._text, pos + 1)
        self._fragment(pos, at)
        number = 0
        while self._text[pos : pos + 1] != "]":
            pos = self._element(pos, (*at, number))
            number += 1
        return pos + 1

    def _element(self, pos: int, at: Path) -> int:
        whole = self._text[pos : pos + 1] != "{" or _way(at) not in self._ways
        value, end = scan(self._text, pos) if whole else (None, self._object(pos, at))
        end = skip_space(self._text, end)
        after = end
        if self._text[end : end + 1] == ",":
            after = skip_space(self._text, end + 1)
            if self._text[after : after + 1] == "]":
                raise ValueError(f"nothing after a comma (character {after})")
        elif self._text[end : end + 1] != "]":
            raise ValueError(f"no comma or end of an array (character {end})")
        if whole:
            self._emit(end, value, at, after)
        else:
            self._fragment(end, at, after)
        return after

    def _fragment(self, end: int, at: Path, after: int = 0) -> None:
        if end > self._start or after > end:
            members, self._members = self._members, {}
            self._emit(end, members, at, after, fragment=True)

    def _emit(self, end: int, value: Any, at: Path, after: int = 0, *, fragment: bool = False) -> None:
        raw = self._text[self._start : end].encode()
        between = self._text[end:after].encode() if after > end else b""
        self._start = max(end, after)
        if len(raw) > MAX_RECORD:
            pieces = [raw[n : n + MAX_RECORD] for n in range(0, len(raw), MAX_RECORD)]
            for n, piece in enumerate(pieces):
                self._add(piece, NOT_JSON, "oversized", between if n == len(pieces) - 1 else b"", at, False)
        else:
            self._add(raw, value, "", between, at, fragment)

    def _add(self, raw: bytes, value: Any, fault: str, after: bytes, at: Path, fragment: bool) -> None:
        number = len(self._found) + 1
        self._found.append(Record(number, self._offset, raw, value, fault, False, True, after, at, fragment))
        self._offset += len(raw) + len(after)


def _way(at: Path) -> tuple[str, ...]:
    return tuple("*" if type(step) is int else str(step) for step in at)
