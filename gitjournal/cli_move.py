"""Sessions from files and to files: import and export.

Floor 6.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, cast

import click

from gitjournal.cli_base import (
    FAILED,
    App,
    complain,
    explain,
    journal_option,
    json_option,
    name_argument,
    pass_app,
)
from gitjournal.cli_names import find, parse_seqs
from gitjournal.errors import JournalError, NotFound, UsageError

if TYPE_CHECKING:
    from gitjournal.formats import ImportReport
    from gitjournal.journal import Journal
    from gitjournal.refs import Name

#: Progress is shown for files of at least this size, in bytes.
_WORTH_SHOWING = 4 * 1024 * 1024


# --- import --------------------------------------------------------------------------------------


def _complete_sources(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[Any]:
    from click.shell_completion import CompletionItem

    from gitjournal.formats import formats

    names = [name for name in formats() if incomplete and name.startswith(incomplete)]
    return [*map(CompletionItem, names), CompletionItem(incomplete, type="file")]


@click.command("import", short_help="Import sessions of other programs, or our own export.")
@click.argument("sources", metavar="[FORMAT] FILE...", nargs=-1, required=True, shell_complete=_complete_sources)
@click.option("--session", metavar="ID", help="Session id to use instead of the file's own (one FILE only).")
@click.option("--dry-run", is_flag=True, help="Say what would be imported, write nothing.")
@json_option
@journal_option
@pass_app
def import_(app: App, sources: tuple[str, ...], session: str | None, dry_run: bool, as_json: bool) -> None:
    """Import sessions from files and report what was odd in them. Nothing is lost: every byte is kept.

    FORMAT is claude-code, jsonl (what gj export wrote) or records (any JSON or text); without it, each file is
    recognised by its content. Importing a file again adds nothing, importing one that has grown adds the growth. A
    file that cannot be imported does not stop the rest; the exit status is 1 then.
    """
    kind, files = _split(sources)
    if session is not None and len(files) > 1:
        raise UsageError("--session is the id of one session: give one file with it")
    journal = _journal(app, dry_run)
    failed = 0
    for path in files:
        try:
            _say_report(app, _import(journal, path, kind, session, dry_run), as_json)
        except (JournalError, OSError) as error:
            failed += 1
            _say_failure(path, error)
    if len(files) > 1 and failed:
        complain(f"{failed} of {len(files)} files could not be imported")
    if failed:
        click.get_current_context().exit(FAILED)


def _split(sources: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
    """(format, files): the first word is a format when it is the name of one, and no file."""
    import difflib

    from gitjournal.formats import find as find_format
    from gitjournal.formats import formats

    first, rest = sources[0], sources[1:]
    if rest and first in formats():
        return first, rest
    if rest and not Path(first).exists() and difflib.get_close_matches(first, formats(), 1):
        # A format with a slip in it; the error names them all.
        find_format(first)
    return "auto", sources


def _journal(app: App, dry_run: bool) -> Journal:
    """The journal; a dry run does not make one, and compares with an empty one that is thrown away."""
    try:
        return app.journal() if dry_run else app.journal_for_writing()
    except NotFound:
        if not dry_run or app.named:
            raise
    import tempfile

    from gitjournal.journal import init

    folder = tempfile.TemporaryDirectory(prefix="gitjournal-")
    click.get_current_context().call_on_close(folder.cleanup)
    return init(Path(folder.name) / "journal.git")


def _import(journal: Journal, path: str, kind: str, session: str | None, dry_run: bool) -> ImportReport:
    from gitjournal.formats import import_file

    progress, clear = _progress(path)
    try:
        return import_file(journal, path, format=kind, session=session, dry_run=dry_run, progress=progress)
    finally:
        clear()


def _progress(path: str) -> tuple[Callable[[int, int], None] | None, Callable[[], object]]:
    """A line on a terminal that says how far an import is, and what wipes it out again."""
    try:
        size = Path(path).stat().st_size
    except (OSError, ValueError):
        size = 0
    if size < _WORTH_SHOWING or sys.stderr is None or not sys.stderr.isatty():
        return None, lambda: None

    def show(done: int, records: int) -> None:
        sys.stderr.write(f"\r\x1b[K{min(99, 100 * done // size)} %, {records:,} records")
        sys.stderr.flush()

    return show, lambda: sys.stderr.write("\r\x1b[K")


def _say_report(app: App, report: ImportReport, as_json: bool) -> None:
    from gitjournal.render import printable

    if as_json:
        app.emit(report.as_dict())
        return
    for line in report.lines():
        app.say(printable(line))


def _say_failure(path: str, error: JournalError | OSError) -> None:
    if isinstance(error, OSError):
        complain(f"{path}: {error.strerror or error}")
        return
    if path not in str(error):
        error.args = (f"{path}: {error}",)
    explain(error)


# --- export --------------------------------------------------------------------------------------


def _complete_formats(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    from gitjournal.formats import formats

    return [name for name in formats() if name.startswith(incomplete)]


@click.command(short_help="Write a session to a file.")
@name_argument("NAME")
@click.option(
    "--format",
    "kind",
    default="jsonl",
    show_default=True,
    shell_complete=_complete_formats,
    help="jsonl: our own, whole; claude-code and records: the bytes that were imported.",
)
@click.option("-o", "--output", default="-", metavar="FILE", help="Where to; - is standard output, the default.")
@click.option("--only", metavar="SEQS", help="Withhold what all events but these say, like 3,17-20 (jsonl).")
@json_option
@journal_option
@pass_app
def export(app: App, name: str, kind: str, output: str, only: str | None, as_json: bool) -> None:
    """Write a branch to a file or standard output.

    jsonl is one event a line in its canonical form, with side files in FILE.files; importing that gives the same
    commits. The other formats give back the bytes that were imported. With --only the other events are written as
    headers: the file still verifies as one chain, and nobody can read them.
    """
    from gitjournal.formats import export as write
    from gitjournal.render import count, printable

    journal = app.journal()
    target = find(journal, name)
    if target.seq is not None:
        raise UsageError("an export is of a whole branch: give its name without a position")
    shown = None if only is None else frozenset(parse_seqs(only))
    if output == "-":
        app.out.flush()
        write(journal, target.name, kind, app.out.buffer, only=shown)
        return
    number = _to_file(journal, target.name, kind, Path(output), shown)
    if as_json:
        app.emit({"name": str(target.name), "format": kind, "file": output, "records": number})
    else:
        app.say(printable(f"{target.name}: {count(number, 'record')} written to {output} as {kind}"))


def _to_file(journal: Journal, name: Name, kind: str, path: Path, only: frozenset[int] | None) -> int:
    """Write beside the file and move it there when it is whole, so that a failure leaves the old one."""
    from gitjournal.formats import export as write
    from gitjournal.formats.jsonl import FILES_SUFFIX

    if path.is_dir():
        raise UsageError(f"{path} is a folder", hint="Give the name of a file in it.")
    beside = path.with_name(path.name + FILES_SUFFIX)
    if path.exists() and not path.is_file():
        # A device or a pipe is written to; a file moved there would take its place.
        with path.open("wb") as stream:
            return write(journal, name, kind, cast(BinaryIO, stream), beside, only)
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        with part.open("xb") as stream:
            number = write(journal, name, kind, cast(BinaryIO, stream), beside, only)
        os.replace(part, path)
    except BaseException:
        with suppress(OSError):
            part.unlink()
        raise
    return number
