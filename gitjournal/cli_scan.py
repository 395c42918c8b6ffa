"""The command `gj scan`: secrets in a journal, in what a push would send, or in a file.

Floor 6.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gitjournal.cli_base import EXIT, FAILED, App, complain, journal_option, json_option, pass_app
from gitjournal.cli_progress import shown
from gitjournal.errors import UsageError

if TYPE_CHECKING:
    from gitjournal.journal import Journal
    from gitjournal.redact import Redactor
    from gitjournal.scan import Say, Secret, Unread

_ANY_REMOTE = "\0"


@click.command(short_help="Find secrets: in sessions, or before a push.")
@click.argument("names", metavar="[NAME]...", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="In all sessions.")
@click.option(
    "--push", "remote", metavar="[REMOTE]", is_flag=False, flag_value=_ANY_REMOTE, help="In what a push would send."
)
@click.option("--file", "path", metavar="FILE", type=click.Path(dir_okay=False), help="In a file, without a journal.")
@click.option("--rules", is_flag=True, help="List the rules, and what they are of.")
@json_option
@journal_option
@pass_app
def scan(
    app: App, names: tuple[str, ...], everything: bool, remote: str | None, path: str | None, rules: bool, as_json: bool
) -> None:
    """Find secrets in events, side files and tails: where they are and by which rule, never the secret itself.

    NAME is a session with all its branches, s/branch that branch alone, s@40 its events up to 40. With --push the
    events that REMOTE is not known to have: put it before a push, or into a pre-push hook. Nothing leaves this machine.
    The exit status is 1 when something was found, or could not be read.

    A secret that is in a journal is taken out with gj erase; one that was pushed must be revoked where it was issued.
    """
    asked = [bool(names), everything, remote is not None, path is not None, rules]
    if sum(asked) != 1:
        raise UsageError(
            "name sessions, or one of --all, --push, --file and --rules", hint="All sessions: gj scan --all"
        )
    if rules:
        _list_rules(app, as_json)
        return
    from gitjournal.scan import Secret

    found = status = 0
    with shown(quiet=0.5) as progress:
        for one in _in_file(Path(path)) if path is not None else _in_journal(app, names, remote, progress):
            progress.clear()
            if isinstance(one, Secret):
                found += 1
                _say(app, one, path, as_json)
            else:
                complain(f"{one.name}: {one.error}", one.error.hint)
                status = max(status, EXIT.get(one.error.code, FAILED))
    if not found and not status:
        app.note("no secret found")
    if found or status:
        click.get_current_context().exit(status or FAILED)


def _list_rules(app: App, as_json: bool) -> None:
    from gitjournal import detect

    for rule in detect.rules():
        if as_json:
            app.emit({"rule": rule, "detector": detect.version()})
        else:
            app.say(rule)
    app.note(f"rules of {detect.version()}")


def _in_journal(app: App, names: tuple[str, ...], remote: str | None, progress: Say) -> Iterator[Secret | Unread]:
    from gitjournal import policy
    from gitjournal import scan as room

    journal = app.journal()
    redactor = policy.redactor(journal.store, keep=False)
    if remote is not None:
        yield from room.unsent(journal, redactor, None if remote == _ANY_REMOTE else remote, progress)
    elif not names:
        yield from room.everywhere(journal, redactor, room.all_names(journal), progress)
    for name in names:
        yield from _named(journal, redactor, name, progress)


def _named(journal: Journal, redactor: Redactor, text: str, progress: Say) -> Iterator[Secret | Unread]:
    from gitjournal import scan as room
    from gitjournal.cli_names import find
    from gitjournal.lineage import Part
    from gitjournal.refs import TRUNK

    target = find(journal, text)
    name, head = target.name, target.seq or journal.head(target.name).seq
    if name.branch == TRUNK and target.seq is None and not text.endswith(f"/{TRUNK}"):
        yield from room.everywhere(journal, redactor, journal.branches(name.session), progress)
    else:
        yield from room.line(journal, redactor, Part(name, 0, head, None), progress)


def _in_file(path: Path) -> Iterator[Secret]:
    from gitjournal.files import read_given
    from gitjournal.redact import Redactor
    from gitjournal.refs import Name
    from gitjournal.scan import Secret, in_text, masked

    # Its marks are seen nowhere, so the key need not be anybody's.
    redactor = Redactor(os.urandom(32))
    for line, place, hit in in_text(redactor, read_given(path, "text").decode("utf-8", "surrogateescape")):
        yield Secret(Name(path.name), line, hit.rule, "", masked(place.secret), (hit.at,))


def _say(app: App, one: Secret, path: str | None, as_json: bool) -> None:
    from gitjournal.render import printable

    if as_json:
        event = {"session": one.name.session, "branch": one.name.branch, "seq": one.seq, "digest": one.digest}
        where = event if path is None else {"file": path, "line": one.seq}
        app.emit({**where, "rule": one.rule, "preview": one.preview, "places": list(one.places)})
        return
    place = f"{one.name}@{one.seq}" if path is None else f"{path}:{one.seq}"
    more = f" and {len(one.places) - 1} more" if len(one.places) > 1 else ""
    app.say(printable("  ".join(filter(None, (place, one.places[0] + more, one.rule, one.preview)))))
