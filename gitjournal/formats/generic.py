"""Any file as a session of native records: the fallback for what no other format knows."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import partial
from typing import Any, BinaryIO

from gitjournal.foreign import scan, skip_space
from gitjournal.formats.protocol import About, Head, Item, RecordFormat, Source
from gitjournal.formats.records import MAX_RECORD, NOT_JSON, Record, records
from gitjournal.formats.report import ImportReport
from gitjournal.formats.source import joined
from gitjournal.formats.times import to_ts

_PIECE = 256 * 1024
_TIMES = ("timestamp", "ts", "time", "created_at")


class Records(RecordFormat):
    """JSON Lines of any kind, or one JSON document; each record becomes a ``native`` event with its whole value."""

    name = "records"

    def sniff(self, head: Head) -> bool:
        """Any file can be taken, so this never claims one."""
        return False

    def cut(self, stream: BinaryIO) -> Iterator[Record]:
        """The whole document, or its lines."""
        raw = stream.read(MAX_RECORD + 1)
        document = _document(raw) if len(raw) <= MAX_RECORD else None
        if document is not None:
            yield document
            return
        rest = iter(partial(stream.read, _PIECE), b"")
        yield from records(joined(itertools.chain((raw,), rest)))

    def finished(self, last: Record) -> bool:
        """See `RecordFormat.finished`: a document is whole."""
        return super().finished(last) or (last.is_json and b"\n" in last.raw)

    def about(self, found: Iterator[Record], source: Source) -> About:
        """Nothing: what a foreign id is called is not known here."""
        return About()

    def read(self, found: Iterator[Record], report: ImportReport, source: Source) -> Iterator[Item]:
        """See `RecordFormat.read`."""
        return map(_item, found)


def _document(raw: bytes) -> Record | None:
    """The whole source as one record, when it is one JSON value on several lines."""
    if raw.find(b"\n", 0, -1) < 0:
        return None
    try:
        text = raw.decode("utf-8")
        begin = skip_space(text, text.startswith("\ufeff"))
        # Most files that are not JSON at all stop here.
        if text[begin : begin + 1] not in ("{", "["):
            return None
        value, end = scan(text, begin)
    except ValueError:
        return None
    # Lines that are values of their own are records.
    if end <= text.find("\n", begin) or skip_space(text, end) != len(text):
        return None
    return Record(1, 0, raw, value, "", False, True)


def _item(record: Record) -> Item:
    if record.value is NOT_JSON:
        return Item(record, "native", {"format": Records.name, "type": record.fault})
    data: dict[str, Any] = {"format": Records.name, "type": "json", "record": record.value}
    ts = None
    if type(record.value) is dict:
        kind = record.value.get("type")
        if type(kind) is str:
            data["type"] = kind
        ts = next((found for name in _TIMES if (found := to_ts(record.value.get(name)))), None)
    return Item(record, "native", data, ts=ts)
