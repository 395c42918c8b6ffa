"""What an import found: counts, and where the first odd records are."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, NamedTuple

#: Kinds of oddities, with the words for one line of a report; the order is that of the report.
KINDS = {
    "glued": "records that share a line with another one",
    "unparsable": "pieces that are not JSON, kept as bytes",
    "nul": "runs of NUL bytes, kept",
    "oversized": "pieces of lines over 16 MiB, kept as bytes",
    "invalid_utf8": "records that are not valid UTF-8 (exact bytes kept, shown with U+FFFD)",
    "blank": "blank lines, kept",
    "redacted": "secrets taken out before anything was kept",
    "wrapped": "values that the journal's JSON cannot hold, kept as text",
    "too_big": "records whose view is too big for an event, kept as bytes only",
    "spilled": "outputs that the program keeps in other files, and that are missing or too big",
    "odd_names": "records with repeated or odd member names (the last one is shown)",
    "no_time": "records without a usable time (the one before is taken)",
    "dangling_parents": "records whose parent is not in the file",
    "repeated_ids": "records with an id that was there before",
    "other_session": "records of another session id",
}
_PLACES = 5


class Place(NamedTuple):
    """Where something odd is: record number from 1, and byte offset in the source."""

    record: int
    offset: int


@dataclass(slots=True)
class ImportReport:
    """The outcome of one import. ``lines()`` is for people, ``as_dict()`` for programs."""

    path: str
    format: str
    #: Empty when the source had no record, so that nothing was written.
    session: str = ""
    #: The branch that has the source's last record.
    branch: str = "main"
    dry_run: bool = False
    #: Records in the source, and its size in bytes.
    records: int = 0
    size: int = 0
    #: Records that became events now, and those that the journal had already.
    added: int = 0
    skipped_known: int = 0
    #: Records that are a copy of another session's, and not events of their own.
    copied: int = 0
    #: Branches that begin with one of the added records, because a rewind is recorded there.
    rewinds: int = 0
    #: False when the last line has no newline: a writer may still be busy with it.
    complete: bool = True
    #: False when the bytes of what was read now are not kept as they are in the source.
    exact: bool = True
    #: True when a last line without newline, or a whole source, was left for the next time.
    pending: bool = False
    odd: Counter[str] = field(default_factory=Counter)
    places: dict[str, list[Place]] = field(default_factory=dict)
    #: Sentences on what was decided: a new branch and why, a format that was guessed.
    notes: list[str] = field(default_factory=list)
    #: The other sessions of a source that has several.
    others: list[ImportReport] = field(default_factory=list)

    def count(self, kind: str, record: int, offset: int, number: int = 1) -> None:
        """Note ``number`` oddities of a kind of `KINDS` in one record."""
        self.odd[kind] += number
        places = self.places.setdefault(kind, [])
        if len(places) < _PLACES:
            places.append(Place(record, offset))

    @property
    def is_news(self) -> bool:
        """Whether something was added, or is to be known."""
        return bool(self.added or self.copied or self.notes or any(other.is_news for other in self.others))

    def lines(self) -> list[str]:
        """The report as lines of text."""
        verb = "would add" if self.dry_run else "added"
        plural = "" if self.records == 1 else "s"
        out = [f"{self.path}: {self.records} record{plural}, {self.size} bytes, read as {self.format}"]
        if self.session:
            name = self.session if self.branch == "main" else f"{self.session}/{self.branch}"
            out.append(f"session {name}: {verb} {self.added}, {self.skipped_known} were there already")
        else:
            out.append("the file is empty: nothing to import")
        out.extend(self.notes)
        out.extend(self._odd_line(kind) for kind in KINDS if self.odd[kind])
        if not self.exact:
            out.append(f"  its exact bytes are not kept: no export in {self.format} gives this file back")
        for other in self.others:
            out.extend(other.lines())
        return out

    def _odd_line(self, kind: str) -> str:
        places = "; ".join(f"record {place.record}, byte {place.offset}" for place in self.places[kind])
        more = "; ..." if self.odd[kind] > len(self.places[kind]) else ""
        return f"  {KINDS[kind]}: {self.odd[kind]} ({places}{more})"

    def as_dict(self) -> dict[str, Any]:
        """The report as a JSON object; the same for the same source and journal."""
        plain = (
            "path",
            "format",
            "session",
            "branch",
            "dry_run",
            "records",
            "size",
            "added",
            "skipped_known",
            "copied",
            "rewinds",
            "complete",
            "exact",
            "pending",
        )
        return {
            **{name: getattr(self, name) for name in plain},
            "odd": {kind: self.odd[kind] for kind in KINDS if self.odd[kind]},
            "places": {kind: [place._asdict() for place in self.places[kind]] for kind in KINDS if kind in self.places},
            "notes": list(self.notes),
            "others": [other.as_dict() for other in self.others],
        }
