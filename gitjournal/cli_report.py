"""The page of `gj verify --report`: what it says beside the reports, and writing it.

Floor 6.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from gitjournal import __version__
from gitjournal.cli_base import App, write_file
from gitjournal.errors import JournalError, disk_errors

if TYPE_CHECKING:
    from gitjournal.journal import Journal
    from gitjournal.report_html import Seen
    from gitjournal.verdict import Report


class Notes:
    """What a run of `gj verify` has said, kept for its page."""

    def __init__(self, path: str, given: Iterable[tuple[str, str]], file: str | None) -> None:
        """``path`` is where the page goes; ``file`` the one that is checked, if it is not a journal."""
        self._path = Path(path)
        self._given = tuple(given)
        self._file = file
        self.reports: list[Report] = []
        self.unreadable: list[str] = []

    def write(self, app: App, exit_status: int) -> None:
        """Write the page, with the events near the findings. StorageError, UsageError."""
        from gitjournal.report_html import Context, page
        from gitjournal.writer import now

        journal = None if self._file else app.journal()
        context = Context(
            where=str(Path(self._file).absolute() if self._file else app.place().absolute()),
            when=f"{now()[:19].replace('T', ' ')} UTC",
            program=f"gj {__version__}",
            exit_status=exit_status,
            given=self._given,
            unreadable=self.unreadable,
            events=_near_findings(journal, self.reports) if journal else {},
        )
        with disk_errors(f"write the report {self._path}"):
            write_file(self._path, page(self.reports, context).encode())


def named_file(label: str, path: str | None) -> Iterator[tuple[str, str]]:
    """A file that the check was given, by its name and by what is in it."""
    if path is not None:
        # A pipe can be read once only.
        digest = f", SHA-256 {sha256(Path(path).read_bytes()).hexdigest()}" if Path(path).is_file() else ""
        yield label, f"{path}{digest}"


def _near_findings(journal: Journal, reports: Sequence[Report]) -> Mapping[tuple[str, int], Seen]:
    """The events that findings speak of and those beside them, as far as a page shows them."""
    from gitjournal.report_html import MAX_SHOWN

    found = [(report, one.seq) for report in reports for one in report.findings if one.seq is not None][:MAX_SHOWN]
    out: dict[tuple[str, int], Seen] = {}
    for report, middle in found:
        for seq in (middle - 1, middle, middle + 1):
            if (report.name, seq) not in out and 1 <= seq <= max(report.head_seq, middle):
                out[report.name, seq] = _look(journal, report, seq)
    return out


def _look(journal: Journal, report: Report, seq: int) -> Seen:
    from gitjournal.report_html import Seen

    if report.branch is None:
        return Seen(seq, fault="it is not here")
    try:
        event = journal.chain(report.branch).event(seq)
        return Seen(seq, event.ts, event.type, event.actor, event.hash)
    except JournalError as error:
        return Seen(seq, fault=str(error))
