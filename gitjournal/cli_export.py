"""Sessions to files: export.

Floor 6.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, cast

import click

from gitjournal.cli_base import (
    App,
    journal_option,
    json_option,
    name_argument,
    not_empty,
    pass_app,
    whole_file,
)
from gitjournal.cli_names import find, parse_seqs
from gitjournal.errors import NotFound, UsageError

if TYPE_CHECKING:
    from gitjournal.formats.losses import Losses
    from gitjournal.journal import Journal
    from gitjournal.refs import Name

#: Formats that show a session and are not the session.
_RENDERINGS = ("html", "md")


def _complete_formats(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    return [name for name in _formats() if name.startswith(incomplete)]


def _formats() -> list[str]:
    from gitjournal.formats import formats, renderings

    return sorted({*formats(), *renderings(), *_RENDERINGS})


@click.command(short_help="Write a session to a file, or as a page to read.")
@name_argument("NAME")
@click.option(
    "--format",
    "kind",
    default="jsonl",
    show_default=True,
    shell_complete=_complete_formats,
    help="jsonl: our own; that of an importer: the imported bytes; atif, otlp, openai-chat; html and md: to read.",
)
@click.option("-o", "--output", default="-", metavar="FILE", help="Where to; - is standard output, the default.")
@click.option("--only", metavar="SEQS", help="Withhold what all events but these say, like 3,17-20 (jsonl, html, md).")
@click.option(
    "--prices",
    "table",
    type=click.Path(),
    callback=not_empty,
    metavar="FILE",
    help="Show what tokens cost, as gj cost (html, md).",
)
@click.option("--for-resume", is_flag=True, help="End the file with a newline, as who goes on writing to it needs.")
@json_option
@journal_option
@pass_app
def export(
    app: App,
    name: str,
    kind: str,
    output: str,
    only: str | None,
    table: str | None,
    for_resume: bool,
    as_json: bool,
) -> None:
    """Write a branch to a file or standard output.

    jsonl is one event a line in its canonical form, with side files in FILE.files; importing that gives the same
    commits. The format that a session was imported from gives back the bytes that were imported, also of a trunk with
    rewinds the whole file; records does so for an import of any format. With --only the other events are written as
    headers: the file still verifies as one chain, and nobody can read them.

    atif, otlp, openai-chat and openai-chat-jsonl write any session for other programs. What has no place there is
    counted, and said at the end.

    html is one file that a browser shows, with everything in it and nothing to load; md is Markdown. Both are to
    read: they are not exact, and cannot be imported.
    """
    from gitjournal.formats import renderings
    from gitjournal.formats.losses import Losses
    from gitjournal.render import count, printable

    journal = app.journal()
    target = find(journal, name)
    if target.seq is not None:
        raise UsageError("an export is of a whole branch: give its name without a position")
    losses = Losses()
    shown = None if only is None else _shown(journal, target.name, only)
    write = _writer(journal, target.name, kind, shown, table, losses)
    if for_resume:
        write = _ended(app, write)
    if output == "-":
        app.out.flush()
        write(app.out.buffer, None)
    else:
        number = _to_file(Path(output), write)
        if as_json:
            about = {"name": str(target.name), "format": kind, "file": output, "records": number}
            app.emit(about | ({"losses": losses.as_dict()} if kind in renderings() else {}))
        else:
            app.say(printable(f"{target.name}: {count(number, 'record')} written to {output} as {kind}"))
    _say_what_is_missing(app, journal, target.name, kind, losses)


def _say_what_is_missing(app: App, journal: Journal, name: Name, kind: str, losses: Losses) -> None:
    from gitjournal.formats.exporter import redacted
    from gitjournal.render import count

    for line in losses.lines():
        app.note(f"not exact: {line}")
    if kind in _RENDERINGS:
        app.note(f"{kind} is to read and not exact; --format jsonl has everything")
    elif kind != "jsonl" and (number := redacted(journal, name)):
        app.note(f"not exact: secrets were taken out of {count(number, 'record')} at import")


def _ended(app: App, write: _Write) -> _Write:
    """Writes the same, and a newline if there is none at the end."""

    def ended(out: BinaryIO, files: Path | None) -> int:
        last = _Last(out)
        number = write(cast(BinaryIO, last), files)
        if last.byte not in (b"", b"\n"):
            out.write(b"\n")
            app.note("a newline was added at the end, so that the next record begins on a line of its own")
        return number

    return ended


class _Last:
    """Passes on what is written, and knows its last byte."""

    def __init__(self, out: BinaryIO) -> None:
        self._out = out
        self.byte = b""
        #: The file's path, by which side files find their folder.
        self.name = getattr(out, "name", None)

    def write(self, data: bytes) -> int:
        self.byte = bytes(data[-1:]) or self.byte
        return self._out.write(data)


def _shown(journal: Journal, name: Name, only: str) -> frozenset[int]:
    """The events that are not withheld. NotFound for one that the branch has not."""
    seqs = frozenset(parse_seqs(only))
    newest = journal.head(name).seq
    if absent := [seq for seq in seqs if not 1 <= seq <= newest]:
        raise NotFound(f"{name} has no event {min(absent)}", hint=f"Its newest event is {name}@{newest}.")
    return seqs


#: Writes to a stream, side files to a folder; the number of records.
_Write = Callable[[BinaryIO, Path | None], int]


def _writer(
    journal: Journal, name: Name, kind: str, only: frozenset[int] | None, table: str | None, losses: Losses
) -> _Write:
    """What writes a branch in a format, and counts what that leaves out.

    UsageError when there is no such format, or it shows no prices.
    """
    if kind not in _RENDERINGS:
        if kind not in _formats():
            raise UsageError(f"there is no format {kind!r}", hint=f"Formats: {', '.join(_formats())}.")
        if table is not None:
            raise UsageError(f"--prices is for {' and '.join(_RENDERINGS)}: {kind} shows no cost")
        from gitjournal.formats import export as write

        return lambda out, files: write(journal, name, kind, out, files, only, losses)
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
