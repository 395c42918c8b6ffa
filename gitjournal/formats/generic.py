"""Any file as a session of native records: the fallback for what no other format knows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, BinaryIO

from gitjournal.foreign import scan, skip_space
from gitjournal.formats.protocol import About, Head, Item, RecordFormat, Source
from gitjournal.formats.records import MAX_RECORD, NOT_JSON, Record, records
from gitjournal.formats.report import ImportReport
from gitjournal.formats.times import to_ts

_TIMES = ("timestamp", "ts", "time", "created_at")


class Records(RecordFormat):
    """JSON Lines of any kind, or one JSON document; each record becomes a ``native`` event with its whole value."""

    name = "records"

    def sniff(self, head: Head) -> bool:
        """Any file can be taken, so this never claims one."""
        return False

    def cut(self, stream: BinaryIO) -> Iterator[Record]:
        """The whole document, or its lines."""
        document = _document(stream)
        if document is not None:
            yield document
            return
        stream.seek(0)
        yield from records(stream)

    def about(self, found: Iterator[Record], source: Source) -> About:
        """Nothing: what a foreign id is called is not known here."""
        return About()

    def read(self, found: Iterator[Record], report: ImportReport, source: Source) -> Iterator[Item]:
        """See `RecordFormat.read`."""
        return map(_item, found)


def _document(stream: BinaryIO) -> Record | None:
    """The whole source as one record, when it is one JSON value on several lines."""
    raw = stream.read(MAX_RECORD + 1)
    if len(raw) > MAX_RECORD:
        return None
    try:
        text = raw.decode("utf-8")
        begin = skip_space(text, text.startswith("\ufeff"))
        # Lines that are values of their own are records, and most files that are not JSON at all stop here.
        if text[begin : begin + 1] not in ("{", "[") or _is_value(text, begin, text.find("\n", begin)):
            return None
        value, end = scan(text, begin)
    except ValueError:
        return None
    return Record(1, 0, raw, value, "", False, True) if skip_space(text, end) == len(text) else None


def _is_value(text: str, begin: int, end: int) -> bool:
    try:
        return end >= 0 and scan(text[:end], begin) is not None
    except ValueError:
        return False


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
