"""Any byte stream as a list of records, without losing a byte (docs/formats/records.md).

A record is a slice of the source: one JSON value with the white space and newline after it, or what stood where
none could be read. The slices in order are the source. Lines end at ``\\n`` only: U+2028, U+0085 and their kind are
ordinary characters of JSON strings. Memory is bounded by the longest line, at most `MAX_RECORD`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO, NamedTuple

from gitjournal.canonical import UNPROVEN
from gitjournal.foreign import printed, scan, skip_space

#: Longer lines are kept in unparsed pieces of this size, in bytes. An event may have as much (section 2).
MAX_RECORD = 16 * 1024 * 1024
# How long a torn line is searched for a record: a failed attempt may look at the whole rest of it.
_ATTEMPTS = 64
_LOOK = 4 * 1024 * 1024
_SPACE = b" \t\r\n"
_ESCAPED = re.compile("[\udc80-\udcff]")
_NULS = re.compile("\0+")


class _NotJson:
    def __repr__(self) -> str:
        return "NOT_JSON"


#: The value of a record that is no JSON.
NOT_JSON: Any = _NotJson()


class Record(NamedTuple):
    """One slice of the source."""

    #: From 1, and the byte offset in the source.
    number: int
    offset: int
    raw: bytes
    #: The wrapped value (`gitjournal.foreign`), or NOT_JSON.
    value: Any
    #: ``""``, or why there is no value: ``blank``, ``nul``, ``unparsable``, ``oversized``.
    fault: str
    #: Whether another record stands before it on its line.
    glued: bool
    #: Whether ``raw`` is valid UTF-8. If not, the value is that of the text with U+FFFD for bad bytes.
    valid: bool
    #: What stands between this record and the next one and is part of neither: the comma in a document's array.
    after: bytes = b""
    #: In a document: the place of the record, as the steps of a JSON Pointer.
    at: tuple[str | int, ...] = ()
    #: Whether ``raw`` is the piece of a document around its records; the value has the members that stand in it.
    fragment: bool = False

    @property
    def is_json(self) -> bool:
        """Whether ``raw`` is exactly one JSON text, so that references into it work."""
        return self.valid and self.value is not NOT_JSON and not self.fragment


@dataclass(frozen=True, slots=True)
class Salvage:
    """How to find a record of a format behind a torn one on the same line."""

    #: Matches where a record can begin.
    start: re.Pattern[str]
    #: Whether a value is a record, and not some object inside one.
    is_record: Callable[[Any], bool]


def records(stream: BinaryIO, salvage: Salvage | None = None) -> Iterator[Record]:
    """All records of ``stream`` from where it stands, which counts as byte 0."""
    number = offset = 0
    for line, fault in _lines(stream):
        if not fault and (found := printed(line.rstrip(_SPACE))) is not UNPROVEN:
            number += 1
            yield Record(number, offset, line, found, "", False, True)
            offset += len(line)
            continue
        pieces = iter([_Piece(line, NOT_JSON, fault)]) if fault else _split(line, salvage)
        for index, piece in enumerate(pieces):
            number += 1
            yield Record(number, offset, piece.raw, piece.value, piece.fault, index > 0, piece.valid)
            offset += len(piece.raw)


def value_of(raw: bytes) -> Any:
    """The wrapped value of a record's bytes, bad ones as U+FFFD; NOT_JSON when they are not one JSON text."""
    text = raw.decode("utf-8", "replace")
    try:
        value, end = scan(text, _begin(text, 0))
    except ValueError:
        return NOT_JSON
    return value if skip_space(text, end) == len(text) else NOT_JSON


def _lines(stream: BinaryIO) -> Iterator[tuple[bytes, str]]:
    """Lines with their newline, and the fault ``oversized`` for pieces of lines that are too long."""
    inside = False
    while line := stream.readline(MAX_RECORD):
        whole = line.endswith(b"\n") or len(line) < MAX_RECORD
        yield line, "oversized" if inside or not whole else ""
        inside = not whole


class _Piece(NamedTuple):
    raw: bytes
    value: Any
    fault: str
    valid: bool = True


def _split(line: bytes, salvage: Salvage | None) -> Iterator[_Piece]:
    """One line as pieces: usually one, more when records are glued together or torn."""
    if not line.strip(_SPACE):
        yield _Piece(line, NOT_JSON, "blank")
        return
    try:
        text, valid = line.decode("utf-8"), True
    except UnicodeDecodeError:
        text, valid = line.decode("utf-8", "surrogateescape"), False
    first = _value_at(text, 0)
    if valid and first[0] == len(text):
        # The text can be four times as large as the line, and is not kept for as long as the record is.
        del text
        yield _Piece(line, first[1], "")
        return
    for start, end, value, fault in _cut(text, first, salvage):
        if valid and end - start == len(text):
            yield _Piece(line, value, fault)
        else:
            yield _piece(text[start:end], value, fault)


def _piece(text: str, value: Any, fault: str) -> _Piece:
    raw = text.encode("utf-8", "surrogateescape")
    if not _ESCAPED.search(text):
        return _Piece(raw, value, fault)
    if value is not NOT_JSON:
        shown = _ESCAPED.sub("\ufffd", text)
        value = scan(shown, _begin(shown, 0))[0]
    return _Piece(raw, value, fault, valid=False)


def _begin(text: str, start: int) -> int:
    """Where the value begins: after a byte order mark, which may stand at the start of a line, and white space."""
    return skip_space(text, start + (start == 0 and text.startswith("\ufeff")))


def _cut(text: str, first: tuple[int, Any], salvage: Salvage | None) -> Iterator[tuple[int, int, Any, str]]:
    """Cut a line into (start, end, value, fault); the ends and starts join. ``first`` is what stands at its start."""
    start = 0
    while start < len(text):
        end, value = _value_at(text, start) if start else first
        if end:
            yield start, end, value, ""
        elif nuls := _NULS.match(text, start):
            # A crash leaves blocks of NUL bytes where the data had not reached the disk.
            end = nuls.end()
            yield start, end, NOT_JSON, "nul"
        else:
            end = _next_start(text, start + 1, salvage)
            yield start, end, NOT_JSON, "unparsable"
        start = end


def _value_at(text: str, start: int) -> tuple[int, Any]:
    """(end with white space, value) of the record at ``start``; end 0 when there is none."""
    begin = _begin(text, start)
    if start and text[begin : begin + 1] != "{":
        return 0, NOT_JSON
    try:
        value, end = scan(text, begin)
    except ValueError:
        return 0, NOT_JSON
    end = skip_space(text, end)
    # A scalar or array with something behind it is no record but a part of something that was torn.
    return (end, value) if end == len(text) or text[begin] == "{" else (0, NOT_JSON)


def _next_start(text: str, start: int, salvage: Salvage | None) -> int:
    """Where the next record of this line begins; the end of the line when none can be found."""
    if salvage is None:
        return len(text)
    left = min(_ATTEMPTS * len(text), _LOOK + 2 * len(text))
    for match in salvage.start.finditer(text, start):
        end, value = _value_at(text, match.start())
        if end and salvage.is_record(value):
            return match.start()
        left -= (end or len(text)) - match.start()
        if left < 0:
            break
    return len(text)
