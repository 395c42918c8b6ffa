"""Import of record formats: deterministic, exact, and idempotent (docs/format.md section 9).

The source is compared, record by record and by SHA-256, with what the journal has of it, and only what is new is
appended. Nothing is ever overwritten: what differs goes to a branch of its own, at the last common event.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from hashlib import sha256
from typing import TYPE_CHECKING

from gitjournal import canonical, objects, payload, refs, rules
from gitjournal.errors import NotFound, UsageError
from gitjournal.event import Event
from gitjournal.formats.report import ImportReport
from gitjournal.formats.times import NO_TIME
from gitjournal.journal import Journal
from gitjournal.refs import JOURNAL_SESSION, Name
from gitjournal.session import Session
from gitjournal.writer import Draft

if TYPE_CHECKING:
    from gitjournal.formats.protocol import About, Item, Options, RecordFormat, Source, Strand

#: Name of the side file that holds a record's bytes.
RAW = "raw"
#: Member of ``data``: what stands in the source after the record (`Record.after`).
AFTER = "after"
_AFTER_MEMBER = b'"after":'
#: Imports never have another epoch; a live writer that takes over begins with 2.
EPOCH = 1
_BATCH_RECORDS = 2000
_BATCH_BYTES = 4 * 1024 * 1024
# A view can be four times the record at most, when its text has to be escaped; smaller ones need not be measured.
_MEASURE_FROM = rules.MAX_EVENT_BYTES // 5
_VIEW_BYTES = rules.MAX_EVENT_BYTES - 64 * 1024


def import_records(fmt: RecordFormat, journal: Journal, source: Source, options: Options) -> ImportReport:
    """Import ``source`` into its session. Raises JournalError; the events up to the last full batch stay then."""
    reports = [_import(fmt.name, strand, journal, source, options) for strand in fmt.strands(source)]
    report = reports[0] if reports else ImportReport(str(source.path), fmt.name, dry_run=options.dry_run)
    report.others = reports[1:]
    return report


def _import(fmt: str, strand: Strand, journal: Journal, source: Source, options: Options) -> ImportReport:
    report = ImportReport(str(source.path), fmt, dry_run=options.dry_run)
    found = strand.records()
    first = next(found, None)
    if first is None:
        return report
    report.session = _session(strand.about.session, source, options)
    with _Import(fmt, strand.about, journal, report, options) as run:
        for item in strand.read(itertools.chain((first,), found), report):
            run.take(item)
        run.finish()
    return report


def _session(found: str | None, source: Source, options: Options) -> str:
    """The session id: asked for, else the source's own, else the file's name."""
    if options.session is not None:
        return _usable(options.session)
    for candidate in (found, source.path.stem):
        try:
            if candidate:
                return _usable(candidate)
        except UsageError:
            continue
    raise UsageError(f"{source.path} has no usable session id", hint="Give one with --session.")


def _usable(session: str) -> str:
    refs.check_id(session)
    if session == JOURNAL_SESSION:
        raise UsageError(f"the session id {session!r} is reserved for the journal's own log")
    return session


class _Line:
    """A branch that has (a part of) this source, and how far the source agrees with it."""

    def __init__(self, journal: Journal, name: Name) -> None:
        self.name = name
        #: Seq of the newest event that agrees, and of the newest event seen.
        self.matched = self.tip = 1
        #: False when something that is no import stands after the last record.
        self.open = True
        self._events = journal.events(name)
        self._next = self._advance()

    def _advance(self) -> Event | None:
        """The next event that is an imported record; None at the end or where something else begins."""
        for event in self._events:
            if event.type in ("session.start", "session.branch"):
                self.tip = event.seq
            elif event.epoch == EPOCH and (event.withheld or raw_digest(event)):
                return event
            else:
                self.open = False
                return None
        return None

    @property
    def ended(self) -> bool:
        """Whether the line has no more records."""
        return self._next is None

    def agrees(self, digest: str, after: bytes, draft: Callable[[], Draft]) -> bool:
        """Whether the next record of the line is the one with this SHA-256 and this after it; if so, step over it."""
        event = self._next
        if event is None:
            return False
        # Where the bytes are erased or held back, the hash of the body is still there, and import is deterministic.
        same: bool
        if event.withheld:
            same = event.members["data_sha256"] == _body_digest(draft())
        else:
            same = raw_digest(event) == digest and after_record(event) == after
        if same:
            self.matched = self.tip = event.seq
            self._next = self._advance()
        return same


def raw_digest(event: Event) -> str | None:
    """SHA-256 (hex) of the record that an event was imported from; None when the event has none."""
    files = event.files
    return files[0]["sha256"] if files and files[0].get("name") == RAW else None


def after_record(event: Event) -> bytes:
    """What stands in the source after the record that an event was imported from, before the next one."""
    # Most events have none, and need not be parsed to know it.
    after = event.stored_data.get(AFTER) if _AFTER_MEMBER in event.raw else None
    return after.encode() if type(after) is str else b""


def _body_digest(draft: Draft) -> str:
    """The ``data_sha256`` that the draft's event has when it is withheld (section 3)."""
    body = {"data": draft.data, "files": [file.entry for file in draft.files]}
    return sha256(canonical.dumps(body)).hexdigest()


class _Import:
    """One run: takes items in order, finds the place to go on, writes in batches."""

    def __init__(self, fmt: str, about: About, journal: Journal, report: ImportReport, options: Options) -> None:
        self._fmt = fmt
        self._about = about
        self._journal = journal
        self._report = report
        self._options = options
        self._ts = NO_TIME
        self._lines = _lines(journal, report.session)
        #: Where new events go.
        self._open = self._create
        self._expected = 1
        self._session: Session | None = None
        self._batch: list[Draft] = []
        self._bytes = 0

    def __enter__(self) -> _Import:
        return self

    def __exit__(self, *error: object) -> None:
        if self._session is not None:
            self._session.close()

    def take(self, item: Item) -> None:
        """The next record of the source."""
        self._count(item)
        if item.ts is not None:
            self._ts = item.ts
        if self._lines:
            if self._is_known(item):
                return
            self._choose(item)
        self._report.added += 1
        if not self._options.dry_run:
            self._batch.append(self._draft(item))
            self._bytes += len(item.record.raw)
            if len(self._batch) >= _BATCH_RECORDS or self._bytes >= _BATCH_BYTES:
                self._write()

    def finish(self) -> None:
        """After the last record: write what waits, and say which branch has the source now."""
        if self._lines:
            self._report.branch = self._lines[0].name.branch
            if not all(line.ended for line in self._lines):
                self._report.notes.append("the journal has more of this session than the file")
        if self._batch:
            self._write()
        if not self._report.complete:
            self._report.notes.append(
                "the last line has no newline yet; if it grows, the next import puts it on a new branch"
            )

    def _count(self, item: Item) -> None:
        report, record = self._report, item.record
        report.records = record.number
        report.size += len(record.raw) + len(record.after)
        report.complete = record.raw.endswith(b"\n")
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
        digest = sha256(item.record.raw).hexdigest()
        agreeing = [line for line in self._lines if line.agrees(digest, item.record.after, lambda: self._draft(item))]
        if agreeing:
            self._lines = agreeing
            self._report.skipped_known += 1
        return bool(agreeing)

    def _choose(self, item: Item) -> None:
        """Decide where this and all further records go: the first that no line has."""
        line = next((line for line in self._lines if line.ended and line.open), self._lines[0])
        self._lines = []
        if line.ended and line.open:
            self._open = lambda: self._journal.session(line.name, epoch=EPOCH, salted=False)
            self._expected, self._report.branch = line.tip, line.name.branch
            return
        branch = self._free_branch()
        why = "has other events" if line.ended else "has another record"
        self._report.notes.append(
            f"record {item.record.number} is new, but {line.name} {why} after event {line.matched}: "
            f"from there the file goes to the new branch {branch}; nothing is overwritten"
        )
        self._report.branch = branch
        self._expected = line.matched + 1
        self._open = lambda: self._split(line, branch)

    def _free_branch(self) -> str:
        taken = {name.branch for name in self._journal.sessions() if name.session == self._report.session}
        return next(name for n in itertools.count(2) if (name := f"import-{n}") not in taken)

    def _split(self, line: _Line, branch: str) -> Session:
        child = self._journal.branch(line.name, line.matched, branch, epoch=EPOCH)
        return self._journal.session(child, epoch=EPOCH, salted=False)

    def _create(self) -> Session:
        # Its time is that of the first record: the one time that is there and stays when the file grows.
        start = Draft("session.start", {"source": self._fmt, **self._about.start}, ts=self._batch[0].ts)
        name = Name(self._report.session)
        return self._journal.session(name, create=True, start=start, epoch=EPOCH, salted=False)

    def _write(self) -> None:
        if self._session is None:
            self._session = self._open()
        done = self._session.append_many(self._batch, expected_seq=self._expected)
        self._expected = done[-1].seq
        self._batch, self._bytes = [], 0

    def _draft(self, item: Item) -> Draft:
        """The event of a record, without its place."""
        record = item.record
        kind, data, actor = item.type, item.data, item.actor
        if record.is_json:
            data = payload.refer(data, record.value, 1)
        if len(record.raw) > _MEASURE_FROM and len(canonical.dumps(data)) > _VIEW_BYTES:
            self._report.count("too_big", record.number, record.offset)
            kind, data, actor = "native", {"format": self._fmt, "type": "too_big"}, "host"
        if record.after:
            data = {**data, AFTER: record.after.decode()}
        media = "application/json" if record.is_json else "application/octet-stream"
        return Draft(kind, data, actor, ts=self._ts, files=(objects.side_file(record.raw, media, RAW), *item.files))


def _lines(journal: Journal, session: str) -> list[_Line]:
    """The trunk and the import branches of the session, in this order; empty when it is new."""
    found = [name for name in journal.sessions() if name.session == session]
    imports = [name for name in found if name.branch.startswith("import-")]
    try:
        trunk = [journal.resolve(Name(session))]
    except NotFound:
        trunk = []
    return [_Line(journal, name) for name in trunk + imports]
