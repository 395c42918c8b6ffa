"""Import of record formats: deterministic, exact, and idempotent (docs/format.md section 9).

The source is compared, record by record and by SHA-256, with what the journal has of it, and only what is new is
appended. Nothing is ever overwritten: what differs goes to a branch of its own, at the last common event.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

from gitjournal import policy
from gitjournal.errors import NotFound, Refused, UsageError
from gitjournal.event import Event
from gitjournal.formats import again, copies, left, moved, named, resaved
from gitjournal.formats.drafted import drafted
from gitjournal.formats.feed import Feed
from gitjournal.formats.imported import ANEW
from gitjournal.formats.importing import Differs, Importing, Restart
from gitjournal.formats.known import Line
from gitjournal.formats.left import Left
from gitjournal.formats.protocol import mapped
from gitjournal.formats.records import Record
from gitjournal.formats.report import ImportReport
from gitjournal.formats.source import joined
from gitjournal.formats.versions import generations
from gitjournal.journal import Journal
from gitjournal.refs import Name

if TYPE_CHECKING:
    from gitjournal.formats.protocol import Item, Mapper, Options, RecordFormat, Source, Strand

__all__ = ["Deferred", "drafted", "import_records"]

_PIECE = 256 * 1024


class Deferred(Exception):
    """The source begins with a copy of a session that may be imported soon; nothing was written (`Options.wait`)."""


def import_records(fmt: RecordFormat, journal: Journal, source: Source, options: Options) -> ImportReport:
    """Import ``source`` into its session. Raises JournalError; the events up to the last full batch stay then."""
    reports: list[ImportReport] = []
    for strand in fmt.strands(source):
        # Only the first session takes the id that was asked for: the others are others.
        own = options._replace(session=None) if reports else options
        reports.append(_Strand(fmt, strand, journal, source, own).run())
    report = reports[0] if reports else ImportReport(str(source.path), fmt.name, dry_run=options.dry_run)
    report.others = reports[1:]
    return report


class _Strand:
    """The import of one session of a source."""

    def __init__(self, fmt: RecordFormat, strand: Strand, journal: Journal, source: Source, options: Options) -> None:
        self._fmt = fmt
        self._strand = strand
        self._journal = journal
        self._source = source
        self._options = options

    def run(self) -> ImportReport:
        report = self._report()
        # Not held on to: it may be large.
        if next(self._strand.records(), None) is None:
            return report
        wanted = self._session()
        session = named.of_format(self._journal, self._fmt.name, wanted)
        if session != wanted and self._options.session is not None:
            raise UsageError(
                f"session {wanted} is there already, and was not imported from {self._fmt.name}",
                hint="Give another id with --session.",
            )
        if self._options.complete_only and not self._strand.about.settled and not self._journal.branches(session):
            report.pending = True
            return report
        if self._options.redactor is None and any(map(self._was_redacted, {wanted, session})):
            # What was taken out once must not come in by the next import.
            self._options = self._options._replace(redactor=policy.redactor(self._journal.store))
        self._check(session)
        report = self._gone_on(session) or self._compared(session)
        if session != wanted:
            report.notes.insert(0, f"a session {wanted} was not imported from {self._fmt.name}: this one is {session}")
        return report

    def _report(self, session: str = "") -> ImportReport:
        return ImportReport(str(self._source.path), self._fmt.name, session, dry_run=self._options.dry_run)

    def _session(self) -> str:
        """The session id: asked for, else the source's own, else that of the same content, else the file's name."""
        if self._options.session is not None:
            return named.usable(self._options.session)
        own = self._strand.about.session
        if own is None and (found := moved.find(self._fmt, self._strand, self._journal, self._source, self._options)):
            return found
        for candidate in (own, self._source.stem):
            try:
                if candidate:
                    return named.usable(candidate)
            except UsageError:
                continue
        raise UsageError(f"{self._source.path} has no usable session id", hint="Give one with --session.")

    def _check(self, session: str) -> None:
        """Refused for an id that holds a secret, when none may come in: it stands in each event and cannot change."""
        redactor = self._options.redactor
        if redactor is not None and (found := redactor.look(session)):
            raise Refused(
                f"the id of a session of {self._source.path} holds a secret ({found[0][1].rule})",
                hint="Give it another id with --session, or allow the secret in the policy.",
            )

    def _was_redacted(self, session: str) -> bool:
        try:
            return self._journal.event(Name(session), 1).stored_data.get("redacted") is True
        except NotFound:
            return False

    # --- from where it was left ------------------------------------------------------------------

    def _gone_on(self, session: str) -> ImportReport | None:
        """The import from where an earlier one stopped; None when nobody knows, or the records before are needed."""
        if not self._strand.exact:
            return None
        redacted = self._options.redactor is not None
        found = left.find(self._journal, session, self._fmt.name, self._source, redacted=redacted)
        if found is None:
            return None
        was, stream, digest = found
        with stream:
            report = self._report(session)
            report.records, report.size, report.skipped_known = was.records, was.size, was.records
            report.complete, report.branch = was.complete, was.branch
            start = stream.read(1)
            if not start:
                return report
            mapper = self._fmt.mapper(report, self._source) if self._strand.lines else None
            if mapper is None or was.mapper is None or not was.complete:
                return None
            rest = self._fmt.cut(joined(itertools.chain((start,), iter(partial(stream.read, _PIECE), b""))))
            feed = Feed(self._fmt, self._strand, _shifted(rest, was), report, self._options)
            feed.digest = digest
            run = Importing(self._fmt, self._strand, self._journal, report, self._options)
            run.go_on(was)
            try:
                mapper.load(was.mapper)
                self._finish(run, feed, mapper, session)
            except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
                # Somebody has changed the note. What was added is right or another version: the source is compared.
                left.forget(self._journal, session)
                return None
            return report

    # --- as a document that was written anew -----------------------------------------------------

    def _saved_anew(self, session: str) -> ImportReport | None:
        """The import of what a document has that the one before has not; None when it is none, or says otherwise."""
        if not self._fmt.grows or not self._journal.branches(session):
            return None
        report = self._report(session)
        feed = Feed(self._fmt, self._strand, self._strand.records(), report, self._options)
        now = resaved.document(feed)
        found = resaved.find(self._fmt, self._journal, session, now) if now else None
        if found is None:
            return None
        report.branch, report.skipped_known = found.at[0].branch, found.records - len(found.new)
        if found.known:
            if not found.kept:
                report.exact = False
                report.notes.append("it is an older saving of what the journal has, with other bytes")
            return report
        report.notes.append(f"it was written anew: {len(found.new)} of its {found.records} records are new or changed")
        run = Importing(self._fmt, self._strand, self._journal, report, self._options)
        run.save_anew(found)
        items = self._strand.read(iter([*found.before, *found.new]), report)
        with run:
            for item in itertools.islice(items, len(found.before), None):
                run.take(feed.clean(item._replace(data={**item.data, ANEW: True})))
            run.hold(found)
            place = run.finish()
        self._keep(run, feed, place)
        return report

    # --- from the beginning ----------------------------------------------------------------------

    def _compared(self, session: str) -> ImportReport:
        if (report := self._saved_anew(session)) is not None:
            return report
        said = None
        try:
            try:
                return self._run(session)
            except Differs as differs:
                said = again.find(self._fmt, self._journal, session, self._quiet, differs.records)
            return self._run(session, said=said, may_differ=False)
        except Restart:
            return self._run(session, whole=True)

    def _quiet(self) -> Iterator[Record]:
        return iter(Feed(self._fmt, self._strand, self._strand.records(), self._report(), self._options))

    def _run(
        self, session: str, *, whole: bool = False, said: again.Again | None = None, may_differ: bool = True
    ) -> ImportReport:
        """``whole``: no part of the source is taken for a copy. ``said``: what it says again."""
        report = self._report(session)
        run = Importing(self._fmt, self._strand, self._journal, report, self._options)
        lines = [Line(self._journal, self._fmt, one) for one in generations(self._journal, session)]
        if said is not None:
            run.say_again(said)
        elif whole and lines:
            run.begin_anew(lines[0])
        elif lines:
            run.compare(lines, may_differ=may_differ and bool(self._fmt.stamps))
        elif begin := self._begins_after(report):
            run.begin_after(*begin)
        elif not whole and (line := self._copied_from(report)):
            run.copy(copies.Copy(self._fmt, self._journal, line))
        mapper = self._fmt.mapper(report, self._source) if self._strand.lines else None
        self._finish(run, Feed(self._fmt, self._strand, self._strand.records(), report, self._options), mapper, session)
        return report

    def _begins_after(self, report: ImportReport) -> tuple[Name, Event] | None:
        """The event of another session that the source goes on from."""
        if self._strand.about.goes_on_from is None:
            return None
        of, number = self._strand.about.goes_on_from
        found: tuple[int, Name, Event] | None = None
        for line in self._lines_of(of, report, "goes on from"):
            for event in self._journal.events(line):
                at = None if event.withheld else self._fmt.ordinal(event)
                if at is not None and at < number and (found is None or at > found[0]):
                    found = at, line, event
        return found and found[1:]

    def _copied_from(self, report: ImportReport) -> Name | None:
        """The line of another session that the source begins with a copy of."""
        lines = self._lines_of(
            self._strand.about.copied_from or self._fmt.origin(self._source), report, "begins with a copy of"
        )
        if not lines:
            return None
        return max(lines, key=self._agreeing) if len(lines) > 1 else lines[0]

    def _lines_of(self, of: str | None, report: ImportReport, how: str) -> list[Name]:
        """The lines of another session that the source needs; `Deferred` where that may come later."""
        if of is None:
            return []
        try:
            session = named.of_format(self._journal, self._fmt.name, of)
            lines = copies.lines(self._journal, session)
        except UsageError:
            session, lines = of, []
        if session == report.session:
            return []
        if not lines and self._options.wait:
            raise Deferred
        if not lines:
            report.notes.append(f"it {how} session {of}, which is not in the journal")
        return lines

    def _agreeing(self, line: Name) -> int:
        found = copies.Copy(self._fmt, self._journal, line)
        quiet = self._report()
        feed = Feed(self._fmt, self._strand, self._strand.records(), quiet, self._options)
        for item in self._strand.read(iter(feed), quiet):
            if not found.take(item):
                break
        return found.records

    def _finish(self, run: Importing, feed: Feed, mapper: Mapper | None, session: str) -> None:
        report = run.report
        found = iter(feed)
        items: Iterator[Item] = mapped(mapper, found) if mapper else self._strand.read(found, report)
        with run:
            for item in items:
                run.take(feed.clean(item))
            place = run.finish()
        self._keep(run, feed, place, mapper)

    def _keep(self, run: Importing, feed: Feed, place: Left | None, mapper: Mapper | None = None) -> None:
        """Note where the import stopped."""
        report = run.report
        if place is None or not self._strand.exact:
            return
        kept = place._replace(
            records=report.records,
            size=report.size,
            sha256=feed.digest.hexdigest(),
            # A last line that is left for the next time is not part of what was imported, unless it is in pieces.
            complete=report.complete or (report.pending and not feed.inside),
            mapper=mapper.save() if mapper else None,
        )
        left.keep(self._journal, report.session, kept)


def _shifted(found: Iterator[Record], was: Left) -> Iterator[Record]:
    for record in found:
        yield record._replace(number=record.number + was.records, offset=record.offset + was.size)
