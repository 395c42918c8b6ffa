"""One run of an import: takes mapped records in order, finds the place to go on, writes in batches."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from gitjournal import payload
from gitjournal.chain import Appended
from gitjournal.errors import AlreadyExists
from gitjournal.event import Event
from gitjournal.formats.again import Again
from gitjournal.formats.copied import OF, PLACES, Part
from gitjournal.formats.copies import Copy
from gitjournal.formats.drafted import drafted, drafted_copy, drafted_rest
from gitjournal.formats.imported import ANEW, EPOCH
from gitjournal.formats.known import Line
from gitjournal.formats.left import Left
from gitjournal.formats.report import ImportReport
from gitjournal.formats.resaved import Resaved
from gitjournal.formats.times import NO_TIME
from gitjournal.formats.versions import GENERATION, POSITION, Generation, Run, place
from gitjournal.journal import Journal
from gitjournal.refs import Name
from gitjournal.writer import Draft, Printed, Writer, compact

if TYPE_CHECKING:
    from gitjournal.formats.protocol import Item, Options, RecordFormat, Strand

_BATCH_RECORDS = 2000
# A little less than a writer takes at once, so that each batch is one pack; and what a view is guessed to add.
_BATCH_BYTES = 4 * 1024 * 1024 - 256 * 1024
_VIEW_GUESS = 1000


class Restart(Exception):
    """What was taken for a copy is none: the import begins again without looking for one."""


class Differs(Exception):
    """No version has the record behind the first ``records``, and one may say the same. Nothing was written."""

    def __init__(self, records: int) -> None:
        super().__init__()
        self.records = records


class Importing:
    """Takes items in order. Before the first one it is told where the journal may have them (at most one of
    `compare`, `go_on`, `save_anew`, `begin_anew`, `say_again` and `copy`); without that, a session begins."""

    def __init__(
        self, fmt: RecordFormat, strand: Strand, journal: Journal, report: ImportReport, options: Options
    ) -> None:
        self.report = report
        self._fmt = fmt.name
        self._lines_are_records = strand.lines
        self._about = strand.about
        self._exact = strand.exact
        self._journal = journal
        self._options = options
        self._ts = NO_TIME
        #: Versions that agree so far, and what the records are a copy of; then neither.
        self._lines: list[Line] = []
        self._copy: Copy | None = None
        self._again: Again | None = None
        self._may_differ = True
        #: Where new events go: the branch, and the seq that its head has then, with all that waits.
        self._name = Name(report.session)
        self._seq = 1
        self._generation = Generation(self._name, (self._name, 1), [])
        self._runs: list[Run] = [Run(1, self._name, 2)]
        self._open: Callable[[], Writer] = self._opened
        self._is_new = True
        self._writer: Writer | None = None
        self._head: Appended | None = None
        self._batch: list[Draft | Printed] = []
        self._bytes = 0
        # So many bytes of the next record are there already.
        self._begun = 0

    # --- where to go on --------------------------------------------------------------------------

    def compare(self, lines: list[Line], *, may_differ: bool = True) -> None:
        """The journal has these versions of the source. `Differs` is raised when none has a record, if it may be."""
        self._lines, self._may_differ = lines, may_differ

    def say_again(self, found: Again) -> None:
        """The source begins with the same as a version that the journal has, in other bytes."""
        self._again = found

    def copy(self, found: Copy) -> None:
        """The source may begin with a copy of another session."""
        self._copy = found

    def begin_after(self, line: Name, event: Event) -> None:
        """The source goes on from an event of another session, of which it repeats nothing."""
        self.report.notes.append(f"the session goes on from {line}@{event.seq}")
        self._ts = event.ts
        self._begin_fork(line, event.seq, Part(), b"")

    def go_on(self, was: Left) -> None:
        """The journal has the records before the first one that will be taken."""
        self._generation = was.generation(self.report.session)
        self._runs = self._generation.runs
        self._ts = was.ts
        self._append_to(Name(self.report.session, was.branch), was.seq)

    def save_anew(self, found: Resaved) -> None:
        """The source is a document that was written anew: only what is new or changed in it will be taken."""
        self._generation, self._runs = found.generation, found.generation.runs
        self._append_to(*found.at)
        self._ts = self._journal.event(*found.at).ts

    def begin_anew(self, line: Line) -> None:
        """The source is a new version from its first record on, though the journal has one that is a copy."""
        self._generation = line.generation
        self._begin_branch(
            line.generation.root, 1, f"{line.generation.name} begins with a copy of another session that differs"
        )

    def _append_to(self, name: Name, seq: int) -> None:
        self._name, self._seq, self._is_new = name, seq, False
        self.report.branch = name.branch

    def __enter__(self) -> Importing:
        return self

    def __exit__(self, *error: object) -> None:
        self._close()

    def _close(self) -> None:
        if self._writer is not None:
            writer, self._writer = self._writer, None
            writer.close()

    # --- taking ----------------------------------------------------------------------------------

    def take(self, item: Item) -> None:
        """The next record of the source."""
        self._count(item)
        if item.ts is not None:
            self._ts = item.ts
        if self._lines:
            if self._is_known(item):
                return
            item = self._choose(item)
        elif self._copy is not None:
            if self._copy.take(item._replace(ts=self._ts)):
                return
            self._end_copy(self._copy)
            self._ts = item.ts or self._ts
        elif self._again is not None and self._again.records >= item.record.number:
            if self._again.records == item.record.number:
                self._begin_again(self._again)
            return
        self._add(item)

    def hold(self, found: Resaved) -> None:
        """After the last record of a document that was written anew: its bytes."""
        self._put(drafted_copy(self._fmt, found, found.patch, self._ts, {ANEW: True}), len(found.patch))

    def finish(self) -> Left | None:
        """After the last record: write what waits, and say where the source ends; None when more of it is known."""
        if self._copy is not None:
            self._end_copy(self._copy)
        known = not self._lines or self._end_of_known()
        if self._batch:
            self._write()
        self._close()
        if self.report.pending:
            self.report.notes.append("the last line has no newline yet: it is left for the next import")
        elif not self.report.complete:
            self.report.notes.append("the last line has no newline yet; if it grows, the next import adds the rest")
        if self._options.dry_run or not known or not self.report.records:
            return None
        return Left(
            self._fmt, self._generation.name.branch, self._generation.root[1], self._name.branch, self._seq,
            self._hash(), self._ts, 0, 0, "", True,
            self._options.redactor is not None,
            [(run.position, run.name.branch, run.first) for run in self._runs], None,
        )  # fmt: skip

    def _hash(self) -> str:
        return (self._head or self._journal.head(self._name)).hash

    def _end_of_known(self) -> bool:
        """Whether the source ends where the journal's version of it does."""
        line = next((line for line in self._lines if line.ended), self._lines[0])
        self.report.branch = (line.tip if line.ended else line.matched)[0].branch
        if not line.ended:
            self.report.notes.append("the journal has more of this session than the file")
            return False
        self._generation, self._runs = line.generation, line.runs
        self._name, self._seq = line.tip
        return line.open

    def _count(self, item: Item) -> None:
        report, record = self.report, item.record
        if record.fault:
            report.count(record.fault, record.number, record.offset)
        if record.glued:
            report.count("glued", record.number, record.offset)
        if not record.valid:
            report.count("invalid_utf8", record.number, record.offset)
        if wrapped := payload.wrappers(item.data):
            report.count("wrapped", record.number, record.offset, wrapped)
        if self._options.progress and record.number % _BATCH_RECORDS == 0:
            self._options.progress(report.size, report.records)

    def _is_known(self, item: Item) -> bool:
        agreeing = [line for line in self._lines if line.agrees(item.record, lambda: self._draft(item))]
        if agreeing:
            self._lines = agreeing
            self.report.skipped_known += 1
        return bool(agreeing)

    def _choose(self, item: Item) -> Item:
        """Decide where this and all further records go: the first that no line has."""
        record = item.record
        line = next((line for line in self._lines if line.open and line.ended), None)
        # The rest of a rewind would have to stand on another branch than its beginning.
        grown = next((line for line in self._lines if item.follows is None and line.grown(record)), None)
        if not line and not grown and self._may_differ:
            raise Differs(record.number - 1)
        first, self._lines = self._lines[0], []
        chosen = line or grown or first
        self._generation, self._runs = chosen.generation, chosen.runs
        if line or grown:
            self._begun = 0 if line else chosen.grown(record)
            self._append_to(*chosen.tip)
            return item
        if first.within_copy:
            raise Restart
        why = "has other events" if first.ended else "has another record"
        at = self._followed(item) or first.matched
        self._begin_branch(at, record.number, f"{first.generation.name} {why} after event {first.matched[1]}")
        return item._replace(follows=None)

    def _begin_branch(self, at: tuple[Name, int], number: int, why: str) -> None:
        """All further records go to a new version, whose first branch goes on from event ``at``."""
        branch = self._new_version()
        self.report.notes.append(
            f"record {number} is new, but {why}: from there the file goes to the new branch {branch}; "
            "nothing is overwritten"
        )
        before = self._generation.name.branch
        self._go_to(at, branch, number, {GENERATION: before})
        self._generation = Generation(self._name, self._generation.root, [])

    def _new_version(self) -> str:
        taken = {name.branch for name in self._journal.branches(self.report.session)}
        return next(name for n in itertools.count(2) if (name := f"import-{n}") not in taken)

    def _go_to(
        self, at: tuple[Name, int], branch: str, number: int, more: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        """A new branch for record ``number`` and those behind it."""
        self._close()
        self._name, self._seq = Name(self.report.session, branch), at[1] + 1
        self._runs = [run for run in self._runs if run.position < number] + [Run(number, self._name, self._seq + 1)]
        self._open, self._is_new = partial(self._split, at, branch, {POSITION: number, **more}), False
        self.report.branch = branch

    # --- rewinds ---------------------------------------------------------------------------------

    def _followed(self, item: Item) -> tuple[Name, int] | None:
        """The event that a record stands behind, if that is not the one before it."""
        at = item.follows
        if at is None or not 0 <= at < item.record.number - 1:
            return None
        return place(self._runs, at) if at else self._generation.root

    def _rewind(self, at: tuple[Name, int], number: int) -> None:
        if self._batch:
            self._write()
        taken = {name.branch for name in self._journal.branches(self.report.session)}
        self._go_to(at, self._generation.rewind(taken), number)
        self.report.rewinds += 1

    # --- copies ----------------------------------------------------------------------------------

    def _end_copy(self, copy: Copy) -> None:
        """The copied part is over: the session begins as a fork, if there is one."""
        self._copy, ts = None, self._ts
        patch = copy.finish() if copy.records else None
        if patch is not None:
            self._fork(copy, patch)
        elif copy.records:
            raise Restart
        for item in copy.aside:
            self._ts = item.ts or self._ts
            self._add(item)
        self._ts = ts

    def _fork(self, copy: Copy, patch: bytes) -> None:
        self.report.copied = copy.records
        self.report.notes.append(
            f"records 1 to {copy.records} are a copy of {copy.line}: the session goes on from {copy.line}@{copy.seq}"
        )
        self._ts = copy.ts
        self._begin_fork(copy.line, copy.seq, copy, patch)

    def _begin_fork(self, line: Name, seq: int, copy: Part, patch: bytes) -> None:
        """The session goes on from an event of another one; what the source has of that comes first."""
        self._seq = root = seq + 1
        self._generation = Generation(self._name, (self._name, root), [])
        self._runs = [Run(copy.records + 1, self._name, root + 2)]
        self._put(self._copied(copy, patch), len(patch))
        self._open, self._is_new = partial(self._forked, line, seq), False

    def _begin_again(self, again: Again) -> None:
        """The last record that a version has in other bytes: a branch goes on from there."""
        self._again, of = None, again.generation
        self.report.copied = again.records
        branch = self._new_version()
        self.report.notes.append(
            f"records 1 to {again.records} say the same as {of.name} in other bytes: "
            f"{branch} goes on from {again.at[0]}@{again.at[1]}"
        )
        self._go_to(again.at, branch, 1, {GENERATION: of.name.branch})
        self._generation = Generation(self._name, of.root, [])
        self._runs = [*again.places, Run(again.records + 1, self._name, self._seq + 2)]
        places = [[run.position, run.name.branch, run.first] for run in again.places]
        self._put(self._copied(again, again.patch, {OF: of.name.branch, PLACES: places}), len(again.patch))

    def _copied(self, copy: Part, patch: bytes, more: Mapping[str, Any] = MappingProxyType({})) -> Draft:
        """The event with the bytes of a copied part."""
        start = self._about_it()
        sizes = None if self._lines_are_records else copy.sizes
        return drafted_copy(self._fmt, copy, patch, self._ts, {**more, **({"start": start} if start else {})}, sizes)

    def _forked(self, line: Name, seq: int) -> Writer:
        self._journal.fork(line, seq, self.report.session, epoch=EPOCH)
        return self._opened()

    # --- writing ---------------------------------------------------------------------------------

    def _split(self, at: tuple[Name, int], branch: str, more: Mapping[str, Any]) -> Writer:
        self._journal.branch(*at, branch, epoch=EPOCH, more=more)
        return self._opened()

    def _opened(self) -> Writer:
        return Writer(self._journal.chain(self._name), epoch=EPOCH, salted=False)

    def _start(self) -> Draft:
        # Its time is that of the first record: the one time that is there and stays when the file grows.
        data = {"source": self._fmt, **self._about_it()}
        if self._options.redactor is not None:
            data["redacted"] = True
        return Draft("session.start", data, ts=self._batch[0].ts)

    def _about_it(self) -> dict[str, Any]:
        """What the source says of its session."""
        # Of what has no bytes of its own, as the rows of a database, the records are not the source.
        start = {**self._about.start, **({} if self._exact else {"exact": False})}
        return self._options.redactor.value(start)[0] if self._options.redactor else start

    def _add(self, item: Item) -> None:
        at = self._followed(item)
        if at is not None:
            self._rewind(at, item.record.number)
        self.report.added += 1
        if self._begun:
            draft, self._begun = drafted_rest(self._fmt, item, self._ts, self.report, self._begun), 0
            self._runs.append(Run(item.record.number, self._name, self._seq + 1))
        else:
            draft = self._draft(item)
        self._put(draft, len(item.record.raw))

    def _put(self, draft: Draft, size: int) -> None:
        self._seq += 1
        if self._options.dry_run:
            return
        self._batch.append(compact(draft))
        self._bytes += size + _VIEW_GUESS
        if len(self._batch) >= _BATCH_RECORDS or self._bytes >= _BATCH_BYTES:
            self._write()

    def _write(self) -> None:
        with self._beginning() if self._is_new else nullcontext():
            if self._writer is None:
                self._writer = self._open()
                # It may be closed for a rewind, and is never made twice.
                self._open = self._opened
            before = self._seq - len(self._batch)
            self._head = self._writer.append_many(self._batch, expected_seq=before)[-1]
        self._batch, self._bytes, self._is_new = [], 0, False

    @contextmanager
    def _beginning(self) -> Iterator[None]:
        """The session begins with this batch."""
        with self._journal.creating(self._name):
            if left := self._journal.branches(self._name.session):
                raise AlreadyExists(
                    f"session {self._name} has no trunk, but {left[0]}: it cannot begin anew",
                    hint="If its deletion was cut, finish it with gj delete.",
                )
            self._batch.insert(0, self._start())
            yield

    def _draft(self, item: Item) -> Draft:
        return drafted(self._fmt, item, self._ts, self.report)
