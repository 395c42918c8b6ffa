"""A source that is another copy of its own session: the same records, with other stamps, such as the folder.

A program, or `gj restore`, may write a session again for another place, or in a newer form. It is a version of the
source, whose branch goes on from the last record that both have. Its first own event holds the bytes of these records,
as a patch (`copied`) on those of the other version, in the order of that source.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING

from gitjournal import canonical
from gitjournal.errors import FormatError
from gitjournal.formats.copied import MOST_LEVELS, Part, level, version_base
from gitjournal.formats.known import Line
from gitjournal.formats.patch import MOST_PATCH
from gitjournal.formats.records import NOT_JSON, Record, value_of
from gitjournal.formats.source import joined
from gitjournal.formats.versions import Generation, Run, generations, place
from gitjournal.journal import Journal
from gitjournal.likeness import describe

if TYPE_CHECKING:
    from gitjournal.formats.protocol import RecordFormat


def find(
    fmt: RecordFormat, journal: Journal, session: str, records: Callable[[], Iterable[Record]], known: int
) -> Again | None:
    """The version of which the source says the same furthest; None when that is not beyond the first ``known`` records.

    ``records`` gives those of the source, from the first one on.
    """
    best = None
    for generation in generations(journal, session) if fmt.stamps else ():
        with suppress(FormatError):
            one = Again(fmt, journal, generation)
            for record in records():
                if not one.take(record):
                    break
            if one.records > max(known, best.records if best else 0) and one.finish():
                best = one
    return best


class Again(Part):
    """How far a source says the same as a version that the journal has. Takes records from the first one on."""

    def __init__(self, fmt: RecordFormat, journal: Journal, generation: Generation) -> None:
        super().__init__()
        self.generation = generation
        #: The event (branch and seq) of the last record that says the same.
        self.at = generation.root
        #: Once it is finished.
        self.patch = b""
        #: Where the records are: runs of events one after the other.
        self.places: list[Run] = []
        self._fmt = fmt
        self._journal = journal
        self._line = Line(journal, fmt, generation)
        self._base = joined(version_base(journal, generation.name))
        self._offset = 0

    def take(self, record: Record) -> bool:
        """Whether the next record says what that of the version says; after False it is over."""
        while (known := self._line.coming) is not None and known.pieces is None:
            # What is erased is in no copy that is made later.
            self._line.step()
        if known is None or len(self._patch) > MOST_PATCH:
            return False
        size = sum(size for _, size in known.pieces or ())
        theirs, after = self._base.read(size), self._base.read(len(known.after))
        if not _is_alike(theirs, record, self._fmt):
            return False
        describe(self._patch, self._count(record), theirs + after, self._offset)
        self._offset += size + len(after)
        self.at = known.name, known.seq
        self._put()
        self._line.step()
        return True

    def _put(self) -> None:
        """Note where the newest record is."""
        if not self.places or place(self.places, self.records) != self.at:
            self.places.append(Run(self.records, *self.at))

    def finish(self) -> bool:
        """Make `patch`, and try it; False when it does not give the bytes back, or cannot be gone on from."""
        if self._line.within_copy or level(self._journal, self.generation.name) >= MOST_LEVELS - 1:
            return False
        patch = self._whole(version_base(self._journal, self.generation.name))
        self.patch = patch or b""
        return patch is not None


def _is_alike(theirs: bytes, record: Record, fmt: RecordFormat) -> bool:
    if theirs == record.raw:
        return True
    value = value_of(theirs)
    if value is NOT_JSON or not record.is_json:
        # A newline may have been added at the end.
        return theirs.rstrip(b"\r\n") == record.raw.rstrip(b"\r\n")
    return canonical.dumps(fmt.told(value)) == canonical.dumps(fmt.told(record.value))
