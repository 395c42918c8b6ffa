"""Many files in one go: which of them are sessions, in which order, and what became of each.

One that cannot be imported does not stop the others. In folders, what no format recognises is passed over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from gitjournal.errors import ImportRefused, JournalError
from gitjournal.formats import detect, find, import_file
from gitjournal.formats.homes import walk
from gitjournal.formats.importer import Deferred
from gitjournal.formats.protocol import Progress, RecordFormat, Source
from gitjournal.formats.report import ImportReport
from gitjournal.journal import Journal


class Wanted(NamedTuple):
    """A file to import. ``named`` is False for one that was found in a folder."""

    path: Path
    named: bool = True


class Outcome(NamedTuple):
    """What became of a file: a report, or an error, or neither when it is no session."""

    wanted: Wanted
    report: ImportReport | None = None
    error: JournalError | OSError | None = None


@dataclass(slots=True)
class Total:
    """Sums over all files."""

    files: int = 0
    imported: int = 0
    skipped: int = 0
    failed: int = 0
    sessions: int = 0
    added: int = 0
    known: int = 0
    copied: int = 0
    size: int = 0
    _names: set[str] = field(default_factory=set)

    def add(self, outcome: Outcome) -> None:
        """Count one file."""
        self.files += 1
        self.failed += outcome.error is not None
        if outcome.error is None and outcome.report is None:
            self.skipped += 1
        if outcome.report is not None:
            self.imported += 1
            self.size += outcome.report.size
            for one in (outcome.report, *outcome.report.others):
                self.added += one.added
                self.known += one.skipped_known
                self.copied += one.copied
                self._names.add(one.session)
            self.sessions = len(self._names - {""})

    def as_dict(self) -> dict[str, Any]:
        """The sums as a JSON object."""
        names = ("files", "imported", "skipped", "failed", "sessions", "added", "known", "copied", "size")
        return {name: getattr(self, name) for name in names}


def gather(paths: Iterable[Path], since: float | None = None) -> Iterator[Wanted]:
    """The files that are meant: those named, and the regular ones below folders, where no link is followed.

    ``since``: of those in folders only the ones that were changed at this Unix time or later.
    """
    for path in paths:
        if not path.is_dir():
            yield Wanted(path)
            continue
        for one in walk(path):
            if is_recent(one, since):
                yield Wanted(one, named=False)


def is_recent(path: Path, since: float | None) -> bool:
    """Whether a file was changed at this Unix time or later; one that cannot be asked was."""
    try:
        return since is None or path.stat().st_mtime >= since
    except OSError:
        return True


def import_all(
    journal: Journal,
    wanted: Sequence[Wanted],
    *,
    format: str = "auto",  # noqa: A002 - the word that users type
    session: str | None = None,
    dry_run: bool = False,
    redact: bool | None = None,
    progress: Callable[[Wanted], Progress] | None = None,
) -> Iterator[Outcome]:
    """Import files, each as `import_file` does; sessions that begin with a copy of another one come after it."""

    def outcome(one: Wanted, *, wait: bool) -> Outcome:
        try:
            if not one.named and not _is_session(one.path, format):
                return Outcome(one)
            report = import_file(
                journal, one.path, format=format, session=session, dry_run=dry_run, redact=redact, wait=wait,
                progress=progress(one) if progress else None,
            )  # fmt: skip
            return Outcome(one, report)
        except (JournalError, OSError) as error:
            return Outcome(one, error=error)

    waiting = list(wanted)
    while waiting:
        later: list[Wanted] = []
        for one in waiting:
            try:
                yield outcome(one, wait=True)
            except Deferred:
                later.append(one)
        if len(later) == len(waiting):
            # What these go on from is not there, unless it is one of them: then they are a circle.
            yield from (outcome(one, wait=False) for one in later)
            return
        waiting = later


def _is_session(path: Path, kind: str) -> bool:
    """Whether a file that was found is one of the format that is asked for, or of any."""
    source = Source(path)
    try:
        head = source.head()
    except ImportRefused:
        return False
    if kind == "auto":
        return detect(source) is not None
    # The format of last resort takes whatever it is given.
    fmt = find(kind)
    return bool(head.raw) if isinstance(fmt, RecordFormat) and kind == "records" else fmt.sniff(head)
