"""Sessions back to the programs that they came from: restore.

Floor 6.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gitjournal.cli_base import App, journal_option, json_option, name_argument, pass_app
from gitjournal.cli_names import find_branch
from gitjournal.errors import NotFound, UsageError

if TYPE_CHECKING:
    from gitjournal.formats.restore import Placement
    from gitjournal.journal import Journal
    from gitjournal.refs import Name

#: Programs that sessions can be placed for.
_PROGRAMS = ("claude-code", "codex")


@click.command(short_help="Place an imported session where its program can go on with it.")
@name_argument("NAME")
@click.option("--to", "folder", type=click.Path(), required=True, metavar="FOLDER", help="The project to go on in.")
@click.option("--as", "program", type=click.Choice(_PROGRAMS), help="The program; by default the session's own.")
@click.option("--dry-run", is_flag=True, help="Say what would be placed where, write nothing.")
@json_option
@journal_option
@pass_app
def restore(app: App, name: str, folder: str, program: str | None, dry_run: bool, as_json: bool) -> None:
    """Place a session of Claude Code or Codex in that program's own folder, to go on with it in FOLDER.

    The folder that the session ran in becomes FOLDER in its records, and it gets a new id if the program has one with
    its id already. Everything else keeps its bytes, and the report says what was changed. Sub-agents of Claude Code
    and outputs beside its transcript come along. No file is overwritten, and the session in the journal stays as it
    is. The program's folder is what CLAUDE_CONFIG_DIR or CODEX_HOME names, else ~/.claude or ~/.codex.
    """
    from gitjournal.formats import restore as restoring
    from gitjournal.render import printable

    journal = app.journal()
    target = find_branch(journal, name, by="near")
    report = restoring.restore(journal, target, _placement(journal, target, folder, program), dry_run=dry_run)
    if as_json:
        app.emit(report.as_dict() | {"dry_run": dry_run})
        return
    app.say("would place" if dry_run else "placed")
    for line in report.lines():
        app.say(printable(line))


def _placement(journal: Journal, name: Name, folder: str, program: str | None) -> Placement:
    from gitjournal.formats import restore_claude, restore_codex
    from gitjournal.formats.restore import home

    kinds = {one.format: one for one in (restore_claude.Claude, restore_codex.Codex)}
    source = program or _source(journal, name)
    if source not in kinds:
        raise UsageError(
            f"{name} was imported from {source or 'no program'}, and can be placed for {' or '.join(kinds)} only",
            hint="gj export writes any session to a file.",
        )
    project = Path(folder).expanduser()
    if not project.is_dir():
        raise NotFound(f"there is no folder {folder}", hint="Make it first: the session is to go on there.")
    return kinds[source](home(os.environ, kinds[source]), project.resolve())


def _source(journal: Journal, name: Name) -> str | None:
    start = next(iter(journal.events(name, to=1)))
    source = None if start.withheld else start.data.get("source")
    return source if isinstance(source, str) else None
