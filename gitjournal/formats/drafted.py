"""The events of mapped records: the bytes as a side file, the view with references into them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from gitjournal import canonical, objects, payload, rules
from gitjournal.formats.copied import COPIED, SIZES, Part
from gitjournal.formats.imported import AFTER, BEFORE, RAW
from gitjournal.formats.records import NOT_JSON
from gitjournal.formats.report import ImportReport
from gitjournal.session import RESERVED_TYPES
from gitjournal.writer import Draft

if TYPE_CHECKING:
    from gitjournal.formats.protocol import Item
    from gitjournal.formats.resaved import Resaved

# A view can be four times the record at most, when its text has to be escaped; smaller ones need not be measured.
_MEASURE_FROM = rules.MAX_EVENT_BYTES // 5
_VIEW_BYTES = rules.MAX_EVENT_BYTES - 64 * 1024
#: Name of the side file with the whole record, where the event has only the rest of it as ``raw``.
WHOLE = "whole"


def drafted(fmt: str, item: Item, ts: str, report: ImportReport) -> Draft:
    """The event of a record of format ``fmt``, without its place; ``ts`` is the time of a record that has none."""
    record = item.record
    kind, data, actor = item.type, item.data, item.actor
    if kind in RESERVED_TYPES:
        # They are made by the journal alone, whatever a format says.
        kind = "native"
    if record.is_json:
        data = payload.refer(data, record.value, 1)
    if len(record.raw) > _MEASURE_FROM and len(canonical.dumps(data)) > _VIEW_BYTES:
        report.count("too_big", record.number, record.offset)
        kind, data, actor = "native", {"format": fmt, "type": "too_big"}, "host"
    if record.after:
        data = {**data, AFTER: record.after.decode()}
    media = "application/json" if record.is_json else "application/octet-stream"
    files = (objects.side_file(record.raw, media, RAW), *item.files)
    return Draft(kind, data, actor, item.turn, item.ts or ts, files)


def drafted_copy(
    fmt: str, part: Part | Resaved, patch: bytes, ts: str, more: Mapping[str, Any], sizes: bytes | None = None
) -> Draft:
    """The event with the bytes of a copied part or of a whole document, as a patch (`copied`).

    ``sizes`` are those of its records, where they are no lines.
    """
    told = {"format": fmt, "type": COPIED, "records": part.records, "bytes": part.size, "sha256": part.digest}
    files = [objects.side_file(patch, "application/octet-stream", COPIED)]
    if sizes is not None:
        files.append(objects.side_file(sizes, "text/plain", SIZES))
    return Draft("native", {**told, **more}, ts=ts, files=files)


def drafted_rest(fmt: str, item: Item, ts: str, report: ImportReport, size: int) -> Draft:
    """The event of a record whose first ``size`` bytes are in the event before: its line was not whole yet."""
    record = item.record
    rest = record.raw[size:]
    if not rest.strip(b" \t\r\n"):
        # Nothing was missing but the end of the line: what the record says, the event before has said.
        item = item._replace(
            record=record._replace(value=NOT_JSON), type="native", actor="host",
            data={"format": fmt, "type": "rest"}, files=(),
        )  # fmt: skip
    draft = drafted(fmt, item, ts, report)
    raw = objects.side_file(rest, "application/octet-stream", RAW)
    whole, *more = draft.files
    if item.record.is_json:
        # The view points into the whole record, which is one file further.
        entry = {**whole.entry, "name": WHOLE}
        data = payload.refer(item.data, record.value, 2)
        return draft._replace(data={**data, BEFORE: size}, files=(raw, whole._replace(entry=entry), *more))
    return draft._replace(data={**draft.data, BEFORE: size}, files=(raw, *more))
