"""What a journal has of a source: its records in the order of the file, and how far the source agrees with them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from hashlib import sha256
from typing import TYPE_CHECKING, NamedTuple

from gitjournal import canonical
from gitjournal.errors import FormatError
from gitjournal.event import Event
from gitjournal.formats.copied import copied_places, copied_records, is_copied
from gitjournal.formats.imported import EPOCH, after_record, continues, raw_piece
from gitjournal.formats.records import Record
from gitjournal.formats.versions import Generation, Run, place
from gitjournal.journal import Journal
from gitjournal.refs import Name
from gitjournal.writer import Draft

if TYPE_CHECKING:
    from gitjournal.formats.protocol import RecordFormat


class Known(NamedTuple):
    """A record that the journal has."""

    name: Name
    #: Seq of its event; of the last one if it is in several.
    seq: int
    #: SHA-256 (hex) and size of each piece; None for a payload that is gone.
    pieces: list[tuple[str, int]] | None
    after: bytes
    event: Event | None


class Line:
    """A generation, and how far a source agrees with it."""

    def __init__(self, journal: Journal, fmt: RecordFormat, generation: Generation) -> None:
        self.generation = generation
        #: The newest event that agrees, and the newest that was seen.
        self.matched = self.tip = generation.root
        #: False when something that is no import stands after the last record.
        self.open = True
        #: Where the records are, as far as they were read. Those that were copied from another session are nowhere.
        self.runs: list[Run] = []
        self._journal = journal
        self._fmt = fmt
        self._found = self._read()
        self._next = next(self._found, None)
        self._then = next(self._found, None)

    # --- reading ---------------------------------------------------------------------------------

    def _read(self) -> Iterator[Known]:
        """Its records in the order of the source. Ends where something else begins, or a run is missing."""
        number, runs = 0, self.generation.runs
        for run, then in zip(runs, [*runs[1:], None], strict=True):
            if run.position != number + 1:
                # The branch that had the records between is gone.
                self.open = False
                return
            for known in self._run(run):
                number += 1
                yield known
                if then and number + 1 == then.position:
                    break

    def _run(self, run: Run) -> Iterator[Known]:
        self.tip, self.open = (run.name, run.first - 1), True
        number = run.position
        waiting: Known | None = None
        for event in self._journal.events(run.name, after=run.first - 1):
            if event.epoch != EPOCH or not (event.withheld or event.files):
                self.open = False
                break
            self.tip = (run.name, event.seq)
            if is_copied(event):
                for known in self._copies(run.name, event):
                    number += 1
                    yield known
                if not self.open:
                    return
                continue
            piece = _known(run.name, event)
            if waiting and continues(event):
                waiting = waiting._replace(seq=event.seq, pieces=[*(waiting.pieces or ()), *(piece.pieces or ())])
                self.runs.append(Run(number, run.name, event.seq))
                continue
            if waiting:
                number += 1
                yield waiting
            else:
                self.runs.append(Run(number, run.name, event.seq))
            waiting = piece
        if waiting:
            yield waiting

    def _copies(self, name: Name, event: Event) -> Iterator[Known]:
        """The records of the copied part, which have no events of their own."""
        places = copied_places(name, event)
        self.runs.extend(places)
        try:
            for record in copied_records(self._journal, name, event, self._fmt):
                at = place(places, record.number) or (name, event.seq)
                yield Known(*at, [(sha256(record.raw).hexdigest(), len(record.raw))], record.after, None)
        except FormatError:
            # What it goes by was erased: this version can be compared with nothing any more.
            self.open = False

    # --- comparing -------------------------------------------------------------------------------

    @property
    def ended(self) -> bool:
        """Whether the line has no more records."""
        return self._next is None

    @property
    def within_copy(self) -> bool:
        """Whether the source has left the line, or ended, within the copied part."""
        return self._next is not None and self._next.event is None

    def agrees(self, record: Record, draft: Callable[[], Draft]) -> bool:
        """Whether the next record of the line is this one; if so, step over it."""
        known = self._next
        if known is None or not _is_same(known, record, draft):
            return False
        self.matched = known.name, known.seq
        self.step()
        return True

    @property
    def coming(self) -> Known | None:
        """The next record of the line."""
        return self._next

    def step(self) -> None:
        """Step over it."""
        self._next, self._then = self._then, next(self._found, None)

    def grown(self, record: Record) -> int:
        """How many bytes of ``record`` the line's last record is the beginning of; 0 when it is not."""
        known = self._next
        if known is None or self._then is not None or not self.open or not known.pieces or known.after:
            return 0
        size = sum(size for _, size in known.pieces)
        begin = record.raw[:size]
        is_line = not record.at and not record.fragment and b"\n" not in begin
        return size if is_line and len(begin) < len(record.raw) and _are(known.pieces, begin) else 0


def _known(name: Name, event: Event) -> Known:
    digest = raw_piece(event)
    return Known(name, event.seq, [digest] if digest else None, after_record(event), event)


def _is_same(known: Known, record: Record, draft: Callable[[], Draft]) -> bool:
    if known.pieces is None:
        # Where the bytes are erased or held back, the hash of the body is still there, and import is deterministic.
        return known.event is not None and known.event.members.get("data_sha256") == _body_digest(draft())
    return known.after == record.after and _are(known.pieces, record.raw)


def _are(pieces: list[tuple[str, int]], raw: bytes) -> bool:
    if sum(size for _, size in pieces) != len(raw):
        return False
    at = 0
    for digest, size in pieces:
        if sha256(raw[at : at + size]).hexdigest() != digest:
            return False
        at += size
    return True


def _body_digest(draft: Draft) -> str:
    """The ``data_sha256`` that the draft's event has when it is withheld (section 3)."""
    body = {"data": draft.data, "files": [file.entry for file in draft.files]}
    return sha256(canonical.dumps(body)).hexdigest()
