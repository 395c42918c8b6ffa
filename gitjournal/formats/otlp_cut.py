"""OTLP-JSON as records: the pieces of each span that an event is made of, and what stands between them.

A span says many things at once: the prompt that is new, the answer, what a tool was given and gave back. Each of them
is a record of its own, down to the single messages of a list that stands as JSON text in one attribute. All pieces in
order are the source.
"""

from __future__ import annotations

import io
import json
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, BinaryIO, NamedTuple

from gitjournal.foreign import scan, skip_space
from gitjournal.formats.document import MAX_DOCUMENT, Opened, document
from gitjournal.formats.records import Record, records
from gitjournal.formats.shapes import Members, items, members

_SPANS = ("resourceSpans", "*", "scopeSpans", "*", "spans")
_OPENED: Opened = frozenset({_SPANS[:1], _SPANS[:3], _SPANS, (*_SPANS, "*", "attributes")})
# So much is read at a time where lines are passed over, in bytes.
_PASS = 1 << 20
#: Steps of the place of a span.
_SPAN_STEPS = 6
#: Attributes that say something: each is a record of its own.
_SAID = re.compile(
    r"gen_ai\.(?:input\.messages|output\.messages|system_instructions|tool\.call\.(?:arguments|result)"
    r"|(?:prompt|completion)(?:\.[0-9]+\.content)?)"
    r"|llm\.(?:input|output)_messages\.[0-9]+\.message\.content|(?:input|output)\.value"
)
#: Attributes that are a list of messages, as JSON text: each message is a record.
LISTS = ("gen_ai.input.messages", "gen_ai.prompt")
_IN_ATTRIBUTE = re.compile(r'"stringValue"[ \t\r\n]*:[ \t\r\n]*"')
_IN_OBJECT = re.compile(r'"gen_ai\.input\.messages"[ \t\r\n]*:[ \t\r\n]*"')
_STRING = re.compile(r'[^"\\]*(?:\\.[^"\\]*)*', re.DOTALL)
_ESCAPE = re.compile(r"\\(?:u[0-9a-fA-F]{4}|.)", re.DOTALL)
_HIGH, _LOW = re.compile(r"\\u[dD][89abAB].."), re.compile(r"\\u[dD][c-fC-F]..")


@dataclass(slots=True)
class Span:
    """What a span says, over all its pieces."""

    #: Its members but the attributes, and the attributes by name.
    members: Members = field(default_factory=dict)
    attributes: Members = field(default_factory=dict)

    def text(self, *names: str) -> str | None:
        """The first of these attributes, or of the span's own members, that is a string and not empty."""
        found = (self.attributes.get(name, self.members.get(name)) for name in names)
        return next((value for value in found if type(value) is str and value), None)

    @property
    def trace(self) -> str | None:
        """The trace that it belongs to."""
        context = members(self.members.get("context"))
        return next((v for v in (self.text("traceId", "trace_id"), context.get("trace_id")) if type(v) is str), None)


@dataclass(slots=True)
class Piece:
    """A record, the span that it is of, and what of it the record holds."""

    record: Record
    #: None for what is no part of a span.
    span: Span | None = None
    #: Name of the attribute, and the number of the message in it; empty for what stands around these.
    key: str = ""
    index: int = -1
    #: Whether it is the last piece of its span.
    last: bool = False


class Slice(NamedTuple):
    """A part of a stream: where it begins, and its length in bytes."""

    offset: int
    size: int


def spans(stream: BinaryIO) -> Iterator[tuple[Slice, list[Span]]]:
    """The document or lines of a stream, each with the spans in it."""
    offset = 0
    for line in _lines(stream):
        found = _cut(line, split=False)
        yield Slice(offset, len(line.raw)), list({id(p.span): p.span for p in found if p.span is not None}.values())
        offset += len(line.raw)


def pieces(stream: BinaryIO, slices: Iterable[Slice] | None = None) -> Iterator[Piece]:
    """The pieces of a document or of lines, or of some of them, numbered and in order; they are the stream."""
    number = 0
    for offset, line in _lines_at(stream, slices) if slices is not None else _counted(_lines(stream)):
        place = offset
        for piece in _cut(line):
            number += 1
            piece.record = piece.record._replace(number=number, offset=place)
            place += len(piece.record.raw)
            yield piece


def _counted(lines: Iterator[Record]) -> Iterator[tuple[int, Record]]:
    offset = 0
    for line in lines:
        yield offset, line
        offset += len(line.raw)


def _lines_at(stream: BinaryIO, slices: Iterable[Slice]) -> Iterator[tuple[int, Record]]:
    """Some of the lines, by reading over the others: what is decompressed on the way cannot be jumped in."""
    at = 0
    for offset, size in slices:
        while at < offset and (passed := len(stream.read(min(offset - at, _PASS)))):
            at += passed
        raw = stream.read(size)
        at = offset + len(raw)
        for within, line in _counted(_lines(io.BytesIO(raw))):
            yield offset + within, line


def _lines(stream: BinaryIO) -> Iterator[Record]:
    """The whole document if it is one on several lines, else the lines."""
    raw = stream.read(MAX_DOCUMENT + 1)
    if len(raw) <= MAX_DOCUMENT and raw.count(b"\n", 0, -1):
        first = raw.split(b"\n", 1)[0]
        whole = document(raw, frozenset()) if document(first, frozenset()) is None else None
        if whole is not None and len(whole) == 1:
            yield whole[0]
            return
    stream.seek(0)
    yield from records(stream)


def _cut(line: Record, *, split: bool = True) -> Iterator[Piece]:
    value = members(line.value) if line.valid else {}
    if items(value.get("resourceSpans")):
        found = document(line.raw, _OPENED)
        if found is not None:
            yield from _spans(found, split)
            return
    if attributes := flat(value):
        yield from _flat(line, Span(value, attributes), split)
        return
    yield Piece(line)


def flat(value: Members) -> Members:
    """The attributes of a single span, as SDKs print it or as somebody has saved them; empty for anything else."""
    inner = members(value.get("attributes"))
    shown = inner if inner else value
    return shown if any(name.startswith(("gen_ai.", "llm.")) for name in shown) else {}


def _flat(line: Record, span: Span, split: bool) -> Iterator[Piece]:
    made = (list(_split(line, _IN_OBJECT, span, LISTS[0])) if split else []) or [Piece(line, span)]
    made[-1].last = True
    yield from made


# --- documents -----------------------------------------------------------------------------------


def _spans(found: list[Record], split: bool) -> list[Piece]:
    """The pieces of a document: what says nothing is joined, so that a span is a record and not one an attribute."""
    made: list[Piece] = []
    run: list[Piece] = []
    for piece in _parts(found, split):
        owner = _owner(run)
        if run and (piece.key or (owner is not None and piece.span not in (None, owner))):
            made.append(_run(run))
            run = []
        if piece.key:
            made.append(piece)
        else:
            run.append(piece)
    if run:
        made.append(_run(run))
    for piece, after in zip(made, [*made[1:], None], strict=True):
        piece.last = after is None or after.span is not piece.span
    return made


def _owner(run: list[Piece]) -> Span | None:
    """The span that a run is of; what stands around spans is of the one before it or behind it."""
    return next((piece.span for piece in run if piece.span is not None), None)


def _run(run: list[Piece]) -> Piece:
    raw = b"".join(piece.record.raw + piece.record.after for piece in run)
    return Piece(Record(0, 0, raw, {}, "", False, True, b"", run[0].record.at, True), _owner(run))


def _parts(found: list[Record], split: bool) -> Iterator[Piece]:
    """The records of a document with their spans; a span is complete before its first piece is given."""
    spans: dict[tuple[str | int, ...], Span] = {}
    for record in found:
        if len(record.at) >= _SPAN_STEPS:
            span = spans.setdefault(record.at[:_SPAN_STEPS], Span())
            if record.fragment:
                span.members.update(record.value)
            elif type(members(record.value).get("key")) is str:
                span.attributes[record.value["key"]] = plain(record.value.get("value"))
    for record in found:
        owner = spans.get(record.at[:_SPAN_STEPS]) if len(record.at) >= _SPAN_STEPS else None
        key = "" if record.fragment or owner is None else members(record.value).get("key")
        if type(key) is not str or not _SAID.fullmatch(key):
            yield Piece(record, owner)
            continue
        whole = record._replace(raw=record.raw + record.after, after=b"", fragment=True)
        messages = list(_split(whole, _IN_ATTRIBUTE, owner, key)) if split and key in LISTS else []
        yield from messages or [Piece(whole, owner, key)]


def plain(value: Any) -> Any:
    """An attribute's value without the names of its types."""
    shape = members(value)
    for name, inner in shape.items():
        if name == "intValue":
            return int(inner) if type(inner) is str and re.fullmatch(r"-?[0-9]{1,15}", inner) else inner
        if name in ("stringValue", "boolValue", "doubleValue", "bytesValue"):
            return inner
        if name == "arrayValue":
            return [plain(item) for item in items(members(inner).get("values"))]
        if name == "kvlistValue":
            pairs = map(members, items(members(inner).get("values")))
            return {pair["key"]: plain(pair.get("value")) for pair in pairs if type(pair.get("key")) is str}
    return value


# --- lists of messages in a text -----------------------------------------------------------------


def _split(record: Record, before: re.Pattern[str], span: Span | None, key: str) -> Iterator[Piece]:
    """One piece for each message of a list that stands as JSON text in a record; none when it has none."""
    text = record.raw.decode("utf-8")
    match = before.search(text)
    if match is None:
        return
    shown = _Text(text, match.end())
    cuts = [shown.place(at) for at in _elements(shown.said)]
    if not cuts:
        return
    messages = range(len(cuts) - 1)
    if before is _IN_ATTRIBUTE:
        cuts[0], cuts[-1] = 0, len(text)
    else:
        # What stands before and behind the messages is of the span around them.
        cuts, messages = [0, *cuts, len(text)], range(1, len(cuts))
    for number, (start, end) in enumerate(pairwise(cuts)):
        glued = record.glued and not number
        piece = Record(0, 0, text[start:end].encode(), {}, "", glued, True, b"", record.at, True)
        yield Piece(piece, span, key, number - messages[0]) if number in messages else Piece(piece, span)


class _Text:
    """A JSON string within a text: what it says, and where in the text each character of that stands."""

    def __init__(self, text: str, start: int) -> None:
        end = _STRING.match(text, start).end()  # type: ignore[union-attr]
        #: What the string says; empty when it is none.
        self.said = ""
        with suppress(ValueError):
            self.said = json.loads(f'"{text[start:end]}"')
        # Where the two stop to go in step: (place in what is said, place in the text), behind each escape.
        self._said_at, self._text_at = [0], [start]
        shift, high = 0, -1
        for match in _ESCAPE.finditer(text, start, end):
            token, stop = match[0], match.end()
            # Two escapes can be one character.
            second = high == match.start() and _LOW.fullmatch(token) is not None
            shift += len(token) - (not second)
            high = stop if _HIGH.fullmatch(token) else -1
            self._said_at.append(stop - start - shift)
            self._text_at.append(stop)

    def place(self, at: int) -> int:
        """Where in the text a character of the string stands."""
        step = bisect_right(self._said_at, at) - 1
        return self._text_at[step] + at - self._said_at[step]


def _elements(text: str) -> list[int]:
    """Where the elements of an array begin, and where the last one ends; nothing for anything else."""
    pos = skip_space(text, 0)
    starts: list[int] = []
    try:
        if text[pos : pos + 1] != "[" or text[(pos := skip_space(text, pos + 1)) : pos + 1] == "]":
            return []
        while True:
            starts.append(pos)
            pos = skip_space(text, scan(text, pos)[1])
            if text[pos : pos + 1] != ",":
                return [*starts, pos] if text[pos : pos + 1] == "]" else []
            pos = skip_space(text, pos + 1)
    except ValueError:
        return []
