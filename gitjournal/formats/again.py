"""A source that is another copy of its own session: the same records, with other stamps, such as the folder.

A program, or `gj restore`, may write a session again for another place. It is a version of the source, whose branch
goes on from the last record that both have. Its first own event holds the bytes of these records, as a patch (`copies`)
on those of the other version, in the order of that source.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from gitjournal import canonical
from gitjournal.errors import FormatError
from gitjournal.formats.copies import MOST_PATCH, OF, Patch, copied_bytes, is_copied, patched, sizes_file
from gitjournal.formats.exporter import in_order
from gitjournal.formats.imported import after_record, raw_piece
from gitjournal.formats.known import Generation, Line, generations
from gitjournal.formats.records import NOT_JSON, Record, value_of
from gitjournal.formats.source import joined
from gitjournal.journal import Journal
from gitjournal.likeness import describe
from gitjournal.refs import Name

if TYPE_CHECKING:
    from gitjournal.formats.protocol import RecordFormat

# A version may go by one that goes by another: so many of them, and no more.
_MOST_LEVELS = 16


def base(journal: Journal, name: Name) -> Iterator[bytes]:
    """The records of a version that others may go by, one after the other. FormatError ``bad-file``."""
    if _level(journal, name) >= _MOST_LEVELS:
        raise FormatError("bad-file", f"{name} goes by too many other versions, or by itself")
    for branch, event in in_order(journal, name):
        if raw_piece(event):
            yield event.read_file(1) + after_record(event)
        elif is_copied(event):
            yield from copied_bytes(journal, branch, event)


def _level(journal: Journal, name: Name) -> int:
    """How many versions this one goes by, one after the other; no more than are allowed are counted."""
    found = {one.name.branch: one for one in generations(journal, name.session)}
    level, branch = 0, name.branch
    while level < _MOST_LEVELS and (of := _goes_by(journal, found.get(branch))):
        level, branch = level + 1, of
    return level


def _goes_by(journal: Journal, generation: Generation | None) -> str | None:
    if generation is None or not generation.runs:
        return None
    run = generation.runs[0]
    first = next(iter(journal.events(run.name, after=run.first - 1, to=run.first)), None)
    of = first.stored_data.get(OF) if first is not None and is_copied(first) else None
    return of if type(of) is str else None


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


class Again:
    """How far a source says the same as a version that the journal has. Takes records from the first one on."""

    def __init__(self, fmt: RecordFormat, journal: Journal, generation: Generation) -> None:
        self.generation = generation
        #: How many records say the same, how many bytes they have, and the event (branch and seq) of the last one.
        self.records = 0
        self.size = 0
        self.at = generation.root
        #: Once it is finished.
        self.patch = b""
        self._sizes = array("Q")
        self._stamps = fmt.stamps
        self._journal = journal
        self._line = Line(journal, fmt, generation)
        self._base = joined(base(journal, generation.name))
        self._offset = 0
        self._patch = Patch()
        self._digest = sha256()

    def take(self, record: Record) -> bool:
        """Whether the next record says what that of the version says; after False it is over."""
        while (known := self._line.coming) is not None and known.pieces is None:
            # What is erased is in no copy that is made later.
            self._line.step()
        if known is None or len(self._patch) > MOST_PATCH:
            return False
        size = sum(size for _, size in known.pieces or ())
        theirs, after = self._base.read(size), self._base.read(len(known.after))
        if not _is_alike(theirs, record, self._stamps):
            return False
        raw = record.raw + record.after
        describe(self._patch, raw, theirs + after, self._offset)
        self._offset += size + len(after)
        self._digest.update(raw)
        self._sizes.extend((len(record.raw), len(record.after)))
        self.size += len(raw)
        self.records += 1
        self.at = known.name, known.seq
        self._line.step()
        return True

    @property
    def sizes(self) -> bytes:
        """What `copies.SIZES` holds."""
        return sizes_file(self._sizes)

    @property
    def digest(self) -> str:
        """SHA-256 (hex) of the records that are the same."""
        return self._digest.hexdigest()

    def finish(self) -> bool:
        """Make `patch`, and try it; False when it does not give the bytes back, or cannot be gone on from."""
        if self._line.within_copy or _level(self._journal, self.generation.name) >= _MOST_LEVELS - 1:
            return False
        self.patch, digest = self._patch.whole(), sha256()
        try:
            for piece in patched(self.patch, base(self._journal, self.generation.name)):
                digest.update(piece)
        except FormatError:
            return False
        return digest.digest() == self._digest.digest()


def _is_alike(theirs: bytes, record: Record, stamps: tuple[tuple[str, ...], ...]) -> bool:
    if theirs == record.raw:
        return True
    value = value_of(theirs)
    if value is NOT_JSON or not record.is_json:
        # A newline may have been added at the end.
        return theirs.rstrip(b"\r\n") == record.raw.rstrip(b"\r\n")
    return _unstamped(value, stamps) == _unstamped(record.value, stamps)


def _unstamped(value: Any, stamps: tuple[tuple[str, ...], ...]) -> bytes:
    for path in stamps:
        value = _without(value, path)
    return canonical.dumps(value)


def _without(value: Any, path: tuple[str, ...]) -> Any:
    name, *rest = path
    if type(value) is not dict or name not in value:
        return value
    if rest:
        return {**value, name: _without(value[name], tuple(rest))}
    return {key: of for key, of in value.items() if key != name}
