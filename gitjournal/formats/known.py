"""What a journal has of a source: its records in the order of the file, on whatever branches they are.

A source can be there in several versions, the generations: the trunk is the first one, each branch ``import-N`` another
that differs from some record on. A rewind within a source is a branch too: ``rewind-N``, or ``import-N.rewind-M``. So
the records of one generation are in runs, each of which is a piece of one branch.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator
from hashlib import sha256
from typing import TYPE_CHECKING, NamedTuple

from gitjournal import canonical, lineage
from gitjournal.errors import FormatError
from gitjournal.event import Event
from gitjournal.formats.copies import copied_records, is_copied
from gitjournal.formats.imported import EPOCH, after_record, continues, raw_piece
from gitjournal.formats.records import Record
from gitjournal.journal import Journal
from gitjournal.refs import TRUNK, Name
from gitjournal.writer import Draft

if TYPE_CHECKING:
    from gitjournal.formats.protocol import RecordFormat

#: Members of a ``session.branch``: the number of the record that the branch begins with; and for ``import-N``, on what
#: branch the generation began that has the records before.
POSITION = "position"
GENERATION = "generation"
_BASE = re.compile(r"import-[1-9][0-9]*")
_REWIND = re.compile(r"(?:(import-[1-9][0-9]*)\.)?rewind-[1-9][0-9]*")


class Run(NamedTuple):
    """Records that are events of one branch, one after the other."""

    #: Number of the first record, and the seq of its event.
    position: int
    name: Name
    first: int


class Generation(NamedTuple):
    """One version of a source."""

    #: The branch that it began on: the trunk, or ``import-N``.
    name: Name
    #: The event (branch and seq) behind which its first record stands.
    root: tuple[Name, int]
    runs: list[Run]

    def rewind(self, taken: set[str]) -> str:
        """A name for its next rewind."""
        begin = "" if self.name.branch == TRUNK else f"{self.name.branch}."
        return next(name for n in range(1, len(taken) + 2) if (name := f"{begin}rewind-{n}") not in taken)


def place(runs: list[Run], number: int) -> tuple[Name, int] | None:
    """The event (branch and seq) that record ``number`` is."""
    at = bisect_right(runs, number, key=lambda run: run.position)
    return (runs[at - 1].name, runs[at - 1].first + number - runs[at - 1].position) if at else None


def generations(journal: Journal, session: str) -> list[Generation]:
    """The versions of a source, the trunk first; none when the session is new."""
    names = journal.branches(session)
    found: dict[str, Generation] = {}
    trunk = Name(session)
    if trunk in names:
        begin = lineage.declared(journal.chain(trunk))
        root = begin.after + 1
        found[TRUNK] = Generation(trunk, (trunk, root), [Run(1, trunk, root + 1)])
    bases = sorted((name for name in names if _BASE.fullmatch(name.branch)), key=lambda name: int(name.branch[7:]))
    rewinds = [(name, match[1] or TRUNK) for name in names if (match := _REWIND.fullmatch(name.branch))]
    starts = {name: _start(journal, name) for name in [*bases, *(name for name, _ in rewinds)]}
    for base in [trunk, *bases]:
        if base in starts and not _based(found, base, starts):
            continue
        own = [(starts[name], name) for name, of in rewinds if of == base.branch]
        if base.branch in found:
            runs = found[base.branch].runs
            runs.extend(Run(start.position, name, start.after + 2) for start, name in own if start.position)
            runs.sort()
    return list(found.values())


class _Start(NamedTuple):
    #: 0 when it is not said.
    position: int
    after: int
    parent: Name | None
    #: ``""`` when it is not said.
    generation: str


def _start(journal: Journal, name: Name) -> _Start:
    chain = journal.chain(name)
    begin = lineage.declared(chain)
    said = chain.event(begin.after + 1).stored_data if begin.parent else {}
    position, generation = said.get(POSITION), said.get(GENERATION)
    return _Start(
        position if type(position) is int and position > 0 else 0,
        begin.after,
        begin.parent,
        generation if type(generation) is str else "",
    )


def _based(found: dict[str, Generation], base: Name, starts: dict[Name, _Start]) -> bool:
    """Enter the generation that begins with branch ``base``; False when nobody can tell what it goes on from."""
    start = starts[base]
    parent = start.parent
    match = _REWIND.fullmatch(parent.branch) if parent else None
    # Journals of earlier versions do not say it, and have no rewinds.
    of = found.get(start.generation or (match and match[1]) or (parent.branch if parent and not match else TRUNK))
    if of is None or parent is None:
        return False
    position = start.position or _implied(of, parent, start.after)
    if not position:
        return False
    before = [run for run in of.runs if run.position < position]
    found[base.branch] = Generation(base, of.root, [*before, Run(position, base, start.after + 2)])
    return True


def _implied(of: Generation, parent: Name, after: int) -> int:
    """The number of the record behind event ``after``; journals of earlier versions do not say it."""
    if (parent, after) == of.root:
        return 1
    runs = [run for run in of.runs if run.name == parent and run.first <= after]
    return runs[-1].position + after - runs[-1].first + 1 if runs else 0


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
        #: Where the records are, as far as they were read. Those of the copied part are nowhere.
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
        try:
            for record in copied_records(self._journal, name, event, self._fmt):
                yield Known(name, event.seq, [(sha256(record.raw).hexdigest(), len(record.raw))], record.after, None)
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
