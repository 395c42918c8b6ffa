"""Our own interchange: one canonical event a line, side files in a folder (docs/format.md section 11)."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import BinaryIO

from gitjournal import objects, refs
from gitjournal.chain import blobs
from gitjournal.errors import FormatError, ImportRefused, NotFound, Refused, StorageError, UsageError
from gitjournal.event import Event
from gitjournal.export_check import FILES_SUFFIX as FILES_SUFFIX
from gitjournal.files import open_regular
from gitjournal.formats.protocol import Head, Options, Source
from gitjournal.formats.report import ImportReport
from gitjournal.journal import Journal
from gitjournal.objects import FileBlob
from gitjournal.redact import Redactor
from gitjournal.refs import Name
from gitjournal.rules import MAX_EVENT_BYTES, STRUCTURE


class Jsonl:
    """The whole events: importing an export gives the same commit ids."""

    name = "jsonl"

    def sniff(self, head: Head) -> bool:
        """Whether the first line is a first event."""
        line = head.raw.split(b"\n", 1)[0]
        return line.startswith(b'{"actor":"') and b'"prev":null' in line and b'"seq":1,' in line and b'"v":1}' in line

    def load(self, journal: Journal, source: Source, options: Options) -> ImportReport:
        """Import an export. Events that the journal has are compared; FormatError or ImportRefused, by line.

        Nothing is added when a line is damaged within the first batch; what was added before one stays.
        """
        report = ImportReport(str(source.path), self.name, dry_run=options.dry_run)
        name = _target(source)
        if name is None:
            return report
        if options.session not in (None, name.session):
            raise UsageError(f"{source.path} is of session {name.session!r}: the id is part of every event's hash")
        report.session, report.branch = name.session, name.branch
        there = _head_seq(journal, name)
        items = _items(source, report, options)
        if options.redactor is not None:
            items = _clean(items, options.redactor)
        if options.dry_run:
            report.added = max(0, sum(1 for _ in items) - there)
        else:
            report.added = journal.graft(name, items)
        report.skipped_known = report.records - report.added
        if report.records < there:
            report.notes.append("the journal has more of this session than the file")
        return report

    def export(
        self, journal: Journal, name: Name, out: BinaryIO, files: Path | None, only: Collection[int] | None = None
    ) -> int:
        """See `Format.export`. UsageError when there are side files and no folder for them.

        With ``only``, all events but these are written as headers; what the chain is made of stays whole.
        """
        if only is not None and files is not None and files.exists():
            # Whoever sends the folder along would send what an earlier export has put there.
            raise UsageError(f"{files} is there already, and may hold what is to be withheld", hint="Remove it first.")
        if files is None:
            _refuse_files(journal, name, only)
        count = 0
        for whole in journal.events(name):
            withhold = only is not None and whole.seq not in only and whole.type not in STRUCTURE
            event = whole.withhold() if withhold and not whole.withheld else whole
            for k in range(1, len(event.files) + 1):
                if files is None:
                    raise _needs_folder(name)
                _write(files / f"{event.seq}.{k}", event.read_file(k))
            out.write(event.raw + b"\n")
            count += 1
        return count


def _refuse_files(journal: Journal, name: Name, only: Collection[int] | None) -> None:
    """UsageError, before anything is written, when an event that is to be shown has side files."""
    view = journal.chain(name).snapshot()
    if view.commit is None:
        return
    # Events of a tail have none.
    for seq, _, ids in blobs(journal.store, view.commit.tree, 0, view.in_git):
        if ids and (only is None or seq in only) and journal.event(name, seq).files:
            raise _needs_folder(name)


def _needs_folder(name: Name) -> UsageError:
    return UsageError(f"{name} has side files, which need a folder", hint="Export to a file.")


def _write(path: Path, data: bytes) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    except OSError as error:
        raise StorageError(f"{path} cannot be written: {error.strerror}") from None


def _head_seq(journal: Journal, name: Name) -> int:
    try:
        return journal.head(name).seq
    except NotFound:
        return 0


def _target(source: Source) -> Name | None:
    """The branch that the events are of: the last one that begins in them. None for an empty file."""
    name: Name | None = None
    for number, line in _lines(source):
        if number > 1 and b'"type":"session.' not in line:
            continue
        event = _parse(source, number, line)
        if number == 1 or event.type == "session.fork":
            name = Name(event.session)
        elif event.type == "session.branch" and isinstance(branch := event.data.get("branch"), str):
            name = Name(event.session, branch)
    if name is not None:
        refs.check_id(name.branch, "branch name")
    return name


def _lines(source: Source) -> Iterator[tuple[int, bytes]]:
    """(number, line without newline). ImportRefused for a line that is cut or too long."""
    with source.open() as stream:
        number = 0
        while line := stream.readline(MAX_EVENT_BYTES + 1):
            number += 1
            if not line.endswith(b"\n"):
                why = "has no newline: the file is cut" if len(line) <= MAX_EVENT_BYTES else "is too long for an event"
                raise ImportRefused(f"{source.path}: line {number} {why}")
            yield number, line[:-1]


def _parse(source: Source, number: int, line: bytes) -> Event:
    try:
        return Event.parse(line)
    except FormatError as error:
        raise ImportRefused(f"{source.path}: line {number}: {error}") from None


def _items(source: Source, report: ImportReport, options: Options) -> Iterator[tuple[Event, list[FileBlob]]]:
    """All events with their side files, checked to follow one another."""
    folder = source.path.with_name(source.path.name + FILES_SUFFIX)
    prev: Event | None = None
    for number, line in _lines(source):
        event = _parse(source, number, line)
        if event.seq != number or event.prev != (prev.hash if prev else None):
            raise FormatError("broken-link", "the event does not follow the one on the line before", seq=event.seq)
        report.records, report.size = number, report.size + len(line) + 1
        if options.progress and number % 2000 == 0:
            options.progress(report.size, number)
        prev = event
        yield event, [_side_file(folder, event, k) for k in range(1, len(event.files) + 1)]


def _clean(items: Iterator[tuple[Event, list[FileBlob]]], redactor: Redactor) -> Iterator[tuple[Event, list[FileBlob]]]:
    """The same events. Refused at the first one with a secret: it cannot be taken out of what has a hash."""
    for event, files in items:
        for raw in (event.raw, *(file.data for file in files)):
            for _, hit in redactor.look(raw.decode("utf-8", "surrogateescape")):
                raise Refused(
                    f"event {event.seq} has a secret ({hit.rule} at {hit.at or 'the text'}), and its hash is fixed",
                    hint="Import it without redaction, or have it redacted where it was recorded.",
                )
        yield event, files


def _side_file(folder: Path, event: Event, k: int) -> FileBlob:
    entry = event.files[k - 1]
    path = folder / f"{event.seq}.{k}"
    try:
        with os.fdopen(open_regular(path, os.O_NOFOLLOW), "rb") as stream:
            # A byte more than it may have, so that a wrong file is not read whole.
            blob = objects.side_file(stream.read(entry["size"] + 1), entry["media_type"], entry.get("name"))
    except OSError as error:
        raise FormatError("bad-file", f"side file {path}: {error.strerror}", seq=event.seq) from None
    if blob.entry != entry:
        raise FormatError("bad-file", f"{path} is not the side file that the event names", seq=event.seq)
    return blob
