"""Sessions from files and to files: import and export.

Floor 6.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

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
    whole_file,
)
from gitjournal.cli_names import find, parse_seqs
from gitjournal.cli_progress import shown
from gitjournal.errors import JournalError, NotFound, UsageError

if TYPE_CHECKING:
    from gitjournal.formats import ImportReport
    from gitjournal.journal import Journal
    from gitjournal.refs import Name

#: Seconds after which an import says how far it is.
_QUIET = 0.5


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

    size = _size(path)
    with shown(_QUIET) as progress:

        def show(done: int, records: int) -> None:
            progress(f"importing, {min(99, 100 * done // size) if size else 0} %, {records:,} records")

        return import_file(journal, path, format=kind, session=session, dry_run=dry_run, progress=show)


def _size(path: str) -> int:
    """In bytes; 0 if it cannot be told."""
    try:
        return Path(path).stat().st_size
    except (OSError, ValueError):
        return 0


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

#: Formats that show a session and are not the session.
_RENDERINGS = ("html", "md")


def _complete_formats(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    return [name for name in _formats() if name.startswith(incomplete)]


def _formats() -> list[str]:
    from gitjournal.formats import formats

    return sorted({*formats(), *_RENDERINGS})


@click.command(short_help="Write a session to a file, or as a page to read.")
@name_argument("NAME")
@click.option(
    "--format",
    "kind",
    default="jsonl",
    show_default=True,
    shell_complete=_complete_formats,
    help="jsonl: our own, whole; claude-code and records: the bytes that were imported; html and md: to read.",
)
@click.option("-o", "--output", default="-", metavar="FILE", help="Where to; - is standard output, the default.")
@click.option("--only", metavar="SEQS", help="Withhold what all events but these say, like 3,17-20 (jsonl, html, md).")
@click.option(
    "--prices", "table", type=click.Path(), metavar="FILE", help="Show what tokens cost, as gj cost (html, md)."
)
@json_option
@journal_option
@pass_app
def export(app: App, name: str, kind: str, output: str, only: str | None, table: str | None, as_json: bool) -> None:
    """Write a branch to a file or standard output.

    jsonl is one event a line in its canonical form, with side files in FILE.files; importing that gives the same
    commits. claude-code, records and other importers give back the bytes that were imported. With --only the other
    events are written as headers: the file still verifies as one chain, and nobody can read them.

    html is one file that a browser shows, with everything in it and nothing to load; md is Markdown. Both are to
    read: they are not exact, and cannot be imported.
    """
    from gitjournal.render import count, printable

    journal = app.journal()
    target = find(journal, name)
    if target.seq is not None:
        raise UsageError("an export is of a whole branch: give its name without a position")
    write = _writer(journal, target.name, kind, None if only is None else _shown(journal, target.name, only), table)
    if output == "-":
        app.out.flush()
        write(app.out.buffer, None)
    else:
        number = _to_file(Path(output), write)
        if as_json:
            app.emit({"name": str(target.name), "format": kind, "file": output, "records": number})
        else:
            app.say(printable(f"{target.name}: {count(number, 'record')} written to {output} as {kind}"))
    if kind in _RENDERINGS:
        app.note(f"{kind} is to read and not exact; --format jsonl has everything")


def _shown(journal: Journal, name: Name, only: str) -> frozenset[int]:
    """The events that are not withheld. NotFound for one that the branch has not."""
    seqs = frozenset(parse_seqs(only))
    newest = journal.head(name).seq
    if absent := [seq for seq in seqs if not 1 <= seq <= newest]:
        raise NotFound(f"{name} has no event {min(absent)}", hint=f"Its newest event is {name}@{newest}.")
    return seqs


#: Writes to a stream, side files to a folder; the number of records.
_Write = Callable[[BinaryIO, Path | None], int]


def _writer(journal: Journal, name: Name, kind: str, only: frozenset[int] | None, table: str | None) -> _Write:
    """What writes a branch in a format. UsageError when there is no such format, or it shows no prices."""
    if kind not in _RENDERINGS:
        if kind not in _formats():
            raise UsageError(f"there is no format {kind!r}", hint=f"Formats: {', '.join(_formats())}.")
        if table is not None:
            raise UsageError(f"--prices is for {' and '.join(_RENDERINGS)}: {kind} shows no cost")
        from gitjournal.formats import export as write

        return lambda out, files: write(journal, name, kind, out, files, only)
    from gitjournal import page_html, page_text
    from gitjournal.cli_cost import read_prices
    from gitjournal.page_plan import source_of

    prices = None if table is None else read_prices(table)
    render = page_html.write if kind == "html" else page_text.write
    source = source_of(journal, name, only)
    return lambda out, _: render(source, out, prices)


def _to_file(path: Path, write: _Write) -> int:
    from gitjournal.formats.jsonl import FILES_SUFFIX

    with whole_file(path) as stream:
        return write(stream, path.with_name(path.name + FILES_SUFFIX))
