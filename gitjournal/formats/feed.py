"""The records of a source on their way to the mapper: counted, cut off where a line is not whole, freed of secrets."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256
from typing import TYPE_CHECKING

from gitjournal import objects
from gitjournal.formats.records import NOT_JSON, Record, value_of
from gitjournal.formats.report import ImportReport
from gitjournal.objects import FileBlob
from gitjournal.redact import REDACTIONS, note

if TYPE_CHECKING:
    from gitjournal.formats.protocol import Item, Options, RecordFormat, Strand
    from gitjournal.redact import Hit, Redactor

# So many bytes on both sides of the cut in a line that is too long are looked at together; no secret is longer.
_BESIDE = 64 * 1024


class Feed:
    """Iterates over records once."""

    def __init__(
        self, fmt: RecordFormat, strand: Strand, found: Iterator[Record], report: ImportReport, options: Options
    ) -> None:
        #: Of the bytes of the source so far, as they are in it.
        self.digest = sha256()
        #: Whether the last record is a piece of a line that goes on.
        self.inside = False
        self._fmt = fmt
        self._exact = strand.exact
        self._found = found
        self._report = report
        self._options = options
        # What was taken out of records that are not mapped yet, by their number.
        self._hits: dict[int, list[Hit]] = {}
        # So many bytes of the next record are in the one before, because a secret stood across the cut.
        self._taken = 0

    def __iter__(self) -> Iterator[Record]:
        before: Record | None = None
        for record in self._found:
            if before is not None:
                yield self._pass(before, record)
            before = record
        if before is None:
            return
        # What is no text, as the rows of a database, has no last line.
        self._report.complete = not self._exact or self._fmt.finished(before)
        torn = self._options.redactor is not None and before.value is NOT_JSON and not self._report.complete
        if torn and not self._options.complete_only:
            self._report.notes.append("its last line is not whole and was left: half a secret is not known as one")
        if torn or (self._options.complete_only and not self._report.complete):
            self._report.pending = True
        else:
            yield self._pass(before, None)

    def _pass(self, record: Record, following: Record | None) -> Record:
        self.digest.update(record.raw)
        if record.after:
            self.digest.update(record.after)
        self._report.records = record.number
        self._report.size += len(record.raw) + len(record.after)
        self.inside = following is not None and _go_on(record, following)
        redactor = self._options.redactor
        return record if redactor is None else self._redacted(record, following if self.inside else None, redactor)

    # --- secrets ---------------------------------------------------------------------------------

    def _redacted(self, record: Record, rest: Record | None, redactor: Redactor) -> Record:
        """``rest`` is the next piece of the same line."""
        own = record.raw[self._taken :]
        self._taken = _across(own, rest.raw, redactor) if rest else 0
        if rest and self._taken:
            own += rest.raw[: self._taken]
        raw, hits = redactor.record(own)
        if record.fragment or not self._exact:
            # What it says need not stand in its bytes: it may be of another slice, or decoded from another form.
            value, more = (NOT_JSON, []) if record.value is NOT_JSON else redactor.value(record.value)
            hits = list(dict.fromkeys(hits + more))
            new = record._replace(raw=raw, value=value)
        elif hits and record.value is not NOT_JSON:
            new = record._replace(raw=raw, value=value_of(raw))
        else:
            new = record._replace(raw=raw)
        if not hits:
            return record if len(raw) == len(record.raw) else new
        self._hits[record.number] = hits
        self._report.count("redacted", record.number, record.offset, len(hits))
        self._report.exact = False
        return new._replace(fault="unparsable") if new.value is NOT_JSON and not new.fault else new

    def clean(self, item: Item) -> Item:
        """The item with a note of what was taken out of its record, and its side files without secrets."""
        redactor = self._options.redactor
        if redactor is None:
            return item
        hits = self._hits.pop(item.record.number, [])
        files: list[FileBlob] = []
        for file in item.files:
            data, found = redactor.record(file.data)
            hits = hits + found
            files.append(objects.side_file(data, file.entry["media_type"], file.entry.get("name")) if found else file)
        if not hits:
            return item
        return item._replace(data={**item.data, REDACTIONS: note(hits)}, files=files)


def _go_on(record: Record, following: Record) -> bool:
    """Whether two records are pieces of one line that is too long."""
    return record.fault == following.fault == "oversized" and not record.after and not record.raw.endswith(b"\n")


def _across(left: bytes, right: bytes, redactor: Redactor) -> int:
    """How many bytes of ``right`` belong to a secret that begins in ``left``."""
    left = left[-_BESIDE:]
    text = (left + right[:_BESIDE]).decode("utf-8", "surrogateescape")
    for place, _ in redactor.look(text):
        start, end = (len(text[:at].encode("utf-8", "surrogateescape")) for at in (place.start, place.end))
        if start < len(left) < end:
            return end - len(left)
    return 0
