"""Sessions from files: import.

Floor 6.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gitjournal.cli_base import FAILED, App, complain, explain, journal_option, json_option, pass_app
from gitjournal.cli_names import since as parse_since
from gitjournal.cli_progress import shown
from gitjournal.errors import JournalError, UsageError

if TYPE_CHECKING:
    from gitjournal.cli_progress import Progress
    from gitjournal.formats import ImportReport
    from gitjournal.formats.batch import Outcome, Total, Wanted
    from gitjournal.formats.homes import Place

#: Seconds after which an import says how far it is.
_QUIET = 0.5
_DAY = 86_400


def _complete_sources(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[Any]:
    from click.shell_completion import CompletionItem

    from gitjournal.formats import formats

    names = [name for name in ("auto", *formats()) if incomplete and name.startswith(incomplete)]
    return [*map(CompletionItem, names), CompletionItem(incomplete, type="file")]


@click.command("import", short_help="Import sessions of other programs, or our own export.")
@click.argument("sources", metavar="[FORMAT] PATH...", nargs=-1, shell_complete=_complete_sources)
@click.option("--discover", is_flag=True, help="Find the sessions on this machine, show them, and ask.")
@click.option("--yes", is_flag=True, help="With --discover: do not ask.")
@click.option("--since", metavar="WHEN", help="Of found files only those changed since then: 7d, 2026-11-03.")
@click.option("--session", metavar="ID", help="Session id to use instead of the file's own (one file only).")
@click.option("--redact/--no-redact", default=None, help="Replace secrets before anything is kept; or do not.")
@click.option("--dry-run", is_flag=True, help="Say what would be imported, write nothing.")
@json_option
@journal_option
@pass_app
def import_(
    app: App,
    sources: tuple[str, ...],
    discover: bool,
    yes: bool,
    since: str | None,
    session: str | None,
    redact: bool | None,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Import sessions from files and report what was odd in them. Nothing is lost: every byte is kept.

    FORMAT is auto (each file is recognised by its content; the default), or a name: claude-code, codex, jsonl (what gj
    export wrote), records (any JSON or text), ...; a wrong one is answered with them all. PATH is a file, also a
    compressed one (zstd, gzip), or a folder: in it, what no format recognises is passed over, and links are not
    followed. Importing a file again adds nothing, importing one that has grown adds the growth. A file that cannot be
    imported does not stop the rest; the exit status is 1 then.

    With --redact the exact bytes of records with secrets are not kept, and an export says so.
    """
    from gitjournal.formats.batch import gather

    kind, paths = _split(sources, discover=discover)
    newer = None if since is None else _unix(parse_since(since))
    if discover:
        if paths or session is not None:
            raise UsageError("--discover finds the files itself: it takes no PATH and no --session")
        wanted = _discovered(app, kind, newer, yes=yes, dry_run=dry_run, as_json=as_json)
        kind = "auto"
    else:
        wanted = list(gather(map(Path, paths), newer))
        if session is not None and (len(wanted) > 1 or len(paths) > 1):
            raise UsageError("--session is the id of one session: give one file with it")
    if wanted:
        _run(app, wanted, kind, session, redact, dry_run=dry_run, as_json=as_json)
    elif not discover:
        app.note("there is nothing to import in " + ", ".join(paths))


def _unix(ts: str) -> float:
    from datetime import datetime

    return datetime.fromisoformat(ts).timestamp()


def _split(sources: tuple[str, ...], *, discover: bool) -> tuple[str, tuple[str, ...]]:
    """(format, paths): the first word is a format when it is the name of one, and no file."""
    import difflib

    from gitjournal.formats import find as find_format
    from gitjournal.formats import formats

    if not sources:
        if discover:
            return "auto", ()
        raise UsageError("give the files to import, or --discover", hint="gj import --help")
    first, rest = sources[0], sources[1:]
    if (rest or discover) and first in ("auto", *formats()):
        return first, rest
    if rest and not Path(first).exists() and difflib.get_close_matches(first, formats(), 1):
        # A format with a slip in it; the error names them all.
        find_format(first)
    return "auto", sources


# --- what is on this machine ---------------------------------------------------------------------


def _discovered(
    app: App, kind: str, since: float | None, *, yes: bool, dry_run: bool, as_json: bool
) -> Sequence[Wanted]:
    """The files of sessions on this machine, after they were shown; none when the user says no."""
    from gitjournal.formats.homes import places

    found = []
    with shown(_QUIET) as progress:
        for place in places(os.environ):
            if kind in ("auto", place.format):
                progress(f"looking, {place.root}")
                found.append((place, _files(place, since)))
    found = [(place, files) for place, files in found if files]
    rows = [_row(place, files) for place, files in found]
    if as_json:
        for row in rows:
            app.emit(row)
    elif rows:
        _show(app, rows)
    else:
        app.say("no sessions of other programs were found on this machine")
    wanted = [one for _, files in found for one in files]
    if not wanted or dry_run or yes:
        return wanted
    if not (app.on_terminal and not as_json):
        app.note("nothing was imported; with --yes it is")
        return []
    return wanted if click.confirm(f"Import these {len(wanted)} files?", err=True) else []


def _files(place: Place, since: float | None) -> list[Wanted]:
    from gitjournal.formats.batch import Wanted, is_recent

    return [Wanted(path, named=False) for path in place.files() if is_recent(path, since)]


def _row(place: Place, files: Sequence[Wanted]) -> dict[str, Any]:
    """What stands in the table: number, bytes and times (Unix seconds) of the files of one place."""
    sizes, times = [], []
    for one in files:
        try:
            status = one.path.stat()
        except OSError:
            continue
        sizes.append(status.st_size)
        times.append(status.st_mtime)
    keeps = place.home.keeps_days
    oldest = min(times, default=None)
    left = None if keeps is None or oldest is None else max(0, int(keeps - (time.time() - oldest) / _DAY))
    return {
        "format": place.format,
        "folder": str(place.root),
        "files": len(files),
        "size": sum(sizes),
        "newest": max(times, default=None),
        "deletes_in_days": left,
    }


def _show(app: App, rows: Sequence[dict[str, Any]]) -> None:
    from datetime import UTC, datetime

    from gitjournal.cli_table import Column, table
    from gitjournal.render import short_number

    columns = [
        Column("PROGRAM"),
        Column("FILES", right=True),
        Column("BYTES", right=True),
        Column("NEWEST", leave=2),
        Column("DELETES", leave=1),
        Column("FOLDER", least=12, both_ends=True),
    ]
    cells = []
    for row in rows:
        newest = datetime.fromtimestamp(row["newest"], UTC).strftime("%Y-%m-%d") if row["newest"] else ""
        left = row["deletes_in_days"]
        deletes = "never" if left is None else f"in {left} days"
        cells.append([row["format"], str(row["files"]), short_number(row["size"]), newest, deletes, row["folder"]])
    table(app, columns, cells)


# --- importing -----------------------------------------------------------------------------------


def _run(
    app: App, wanted: Sequence[Wanted], kind: str, session: str | None, redact: bool | None, *, dry_run: bool,
    as_json: bool,
) -> None:  # fmt: skip
    from gitjournal.formats.batch import Total, import_all

    journal, total = app.journal_or_empty() if dry_run else app.journal_for_writing(), Total()
    with shown(_QUIET) as progress:
        outcomes = import_all(
            journal, wanted, format=kind, session=session, dry_run=dry_run, redact=redact,
            progress=_progress(progress, total, len(wanted)),
        )  # fmt: skip
        for outcome in outcomes:
            total.add(outcome)
            progress.clear()
            _say(app, outcome, as_json=as_json)
    _say_total(app, total, wanted, dry_run=dry_run, as_json=as_json)
    if total.failed:
        click.get_current_context().exit(FAILED)


def _progress(progress: Progress, total: Total, files: int) -> Callable[[Wanted], Callable[[int, int], None]]:
    """What says how far the import of each file is."""
    from gitjournal.formats.protocol import Source

    def begin(one: Wanted) -> Callable[[int, int], None]:
        size = Source(one.path).size()
        of = f"file {total.files + 1:,} of {files:,}, " if files > 1 else ""
        if of:
            progress(f"importing, {of}{total.added:,} records added")

        def show(done: int, records: int) -> None:
            progress(f"importing, {of}{min(99, 100 * done // size) if size else 0} %, {records:,} records")

        return show

    return begin


def _say(app: App, outcome: Outcome, *, as_json: bool) -> None:
    if outcome.error is not None:
        _say_failure(str(outcome.wanted.path), outcome.error)
    elif outcome.report is not None:
        _say_report(app, outcome.report, named=outcome.wanted.named, as_json=as_json)


def _say_report(app: App, report: ImportReport, *, named: bool, as_json: bool) -> None:
    from gitjournal.render import printable

    if as_json:
        app.emit(report.as_dict())
        return
    # Of the files of a folder only those that brought something, or are odd.
    if named or report.is_news:
        for line in report.lines():
            app.say(printable(line))


def _say_failure(path: str, error: JournalError | OSError) -> None:
    if isinstance(error, OSError):
        complain(f"{path}: {error.strerror or error}")
        return
    if path not in str(error):
        error.args = (f"{path}: {error}",)
    explain(error)


def _say_total(app: App, total: Total, wanted: Sequence[Wanted], *, dry_run: bool, as_json: bool) -> None:
    """One line for all files: with what was passed over, if folders were meant."""
    from gitjournal.render import count

    if total.failed and total.files > 1:
        complain(f"{total.failed} of {total.files} files could not be imported")
    in_folders = any(not one.named for one in wanted)
    if as_json and in_folders:
        app.emit({"total": total.as_dict()})
    if as_json or total.files < 2:
        return
    verb = "would add" if dry_run else "added"
    app.say(
        f"{count(total.files, 'file')}, {total.skipped} of them no sessions: "
        f"{count(total.sessions, 'session')}, {verb} {count(total.added, 'record')}, {total.known} were there already"
    )
