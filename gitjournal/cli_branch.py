"""Commands about branches: branch (begin, rename, delete), fork, branches.

Floor 6.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from gitjournal.cli_base import (
    App,
    color_option,
    journal_option,
    json_option,
    name_argument,
    pass_app,
)
from gitjournal.cli_given import memory
from gitjournal.cli_names import find, find_branch, position
from gitjournal.cli_read import unread, when
from gitjournal.cli_table import Column, table
from gitjournal.errors import JournalError, StorageError, UsageError

if TYPE_CHECKING:
    from gitjournal.journal import Journal
    from gitjournal.lineage import Begin, Line
    from gitjournal.refs import Name

_COLUMNS = (
    Column("NAME", least=24, both_ends=True),
    Column("EVENTS", right=True),
    Column("OWN", right=True, leave=1),
    Column("FROM", least=20, both_ends=True, leave=4),
    Column("HEAD", leave=2),
    Column("LAST EVENT", leave=3),
)


@click.command(short_help="Begin, rename or delete a branch.")
@name_argument("NAME[@SEQ]")
@click.argument("new", metavar="[BRANCH]", required=False)
@click.option("-d", "--delete", "deletes", is_flag=True, help="Delete the branch NAME.")
@click.option("-m", "--rename", "renames", is_flag=True, help="Rename the branch NAME to BRANCH.")
@click.option("-f", "--force", is_flag=True, help="With --delete: also events that nothing else has.")
@json_option
@journal_option
@pass_app
def branch(app: App, name: str, new: str | None, deletes: bool, renames: bool, force: bool, as_json: bool) -> None:
    """Begin branch BRANCH of the same session after event SEQ, by default the newest. Nothing is copied.

    With --delete the branch NAME is deleted, if its events are on other branches or in a remote's copy as well; with
    --rename it has the name BRANCH from now on, and an event says so. Nobody may be writing to it. The trunk stays.
    """
    if (deletes and renames) or (force and not deletes):
        raise UsageError("--delete and --rename go alone, and --force goes with --delete")
    if bool(new) == deletes:
        raise UsageError("--delete takes one name" if deletes else "the name of the branch is missing")
    journal = app.journal()
    if deletes:
        _delete(app, journal, name, force, as_json)
    elif renames:
        _rename(app, journal, name, str(new), as_json)
    else:
        parent, seq = position(journal, name, by="prefix")
        _began(app, journal, journal.branch(parent, seq, str(new)), parent, seq, as_json)


def _delete(app: App, journal: Journal, name: str, force: bool, as_json: bool) -> None:
    from gitjournal import index
    from gitjournal.branches import delete
    from gitjournal.render import count, printable

    beginning = partial(index.beginning, journal, say=app.note)
    gone = delete(journal, find_branch(journal, name, by="whole"), force=force, beginning=beginning)
    _remember(journal, gone.name, None)
    kept = gone.kept
    if as_json:
        seq, digest = gone.head or (None, None)
        members = {"name": str(gone.name), "seq": seq, "hash": digest}
        app.emit({"deleted": members, "kept": kept.to, "lost": kept.lost, "tracking": kept.tracking})
        return
    ended = f"which ended at {gone.head.seq} {gone.head.hash}" if gone.head else "which could not be read"
    app.say(printable(f"deleted {gone.name}, {ended}"))
    if kept.lost:
        app.note(f"{count(kept.lost, 'event')} beyond {kept.to} had no other place; they go when git collects garbage")
    _still_there(app, kept.tracking)


def _rename(app: App, journal: Journal, name: str, new: str, as_json: bool) -> None:
    from gitjournal.branches import rename
    from gitjournal.render import printable

    old = find_branch(journal, name, by="whole")
    if new.startswith(f"{old.session}/"):
        raise UsageError(f"{new!r} names the session as well", hint=f"Write {new[len(old.session) + 1 :]} alone.")
    done = rename(journal, old, new)
    _remember(journal, done.old, done.new)
    if as_json:
        members = {"name": str(done.new), "seq": done.head.seq, "hash": done.head.hash}
        app.emit({"renamed": str(done.old), **members, "tracking": done.tracking})
        return
    app.say(printable(f"{done.new}@{done.head.seq} {done.head.hash}, was {done.old}"))
    _still_there(app, done.tracking)


def _remember(journal: Journal, old: Name, new: Name | None) -> None:
    """Tell the user's own memory of verified heads, or `gj verify` would miss the branch that he has taken away."""
    from gitjournal.pins import Pin

    # A memory that cannot be read says so in the next verification.
    with suppress(StorageError, UsageError):
        known = memory(journal)
        head = known.heads().get(old)
        known.drop([old])
        if head and new:
            known.keep([Pin(new, head)])


def _still_there(app: App, tracking: list[str]) -> None:
    for ref in tracking:
        app.note(f"a remote's copy of it is still there: {ref}")


@click.command(short_help="Begin a new session that goes on from an event.")
@name_argument("NAME[@SEQ]")
@click.argument("new", metavar="SESSION")
@json_option
@journal_option
@pass_app
def fork(app: App, name: str, new: str, as_json: bool) -> None:
    """Begin the new session SESSION with the events up to SEQ, by default all, as its past. Nothing is copied."""
    journal = app.journal()
    parent, seq = position(journal, name, by="prefix")
    _began(app, journal, journal.fork(parent, seq, new), parent, seq, as_json)


def _began(app: App, journal: Journal, child: Name, parent: Name, seq: int, as_json: bool) -> None:
    from gitjournal.render import printable

    head = journal.head(child)
    if as_json:
        app.emit({"name": str(child), "seq": head.seq, "hash": head.hash, "from": {"name": str(parent), "seq": seq}})
    else:
        app.say(printable(f"{child}@{head.seq} {head.hash}, goes on from {parent}@{seq}"))
    # A branch that cannot be read as a whole has begun all the same.
    with suppress(JournalError):
        _inherits(app, journal, child, f"{parent}@{seq}")


def _inherits(app: App, journal: Journal, child: Name, origin: str) -> None:
    """Say what keeps a branch that has just begun from being listed or resumed."""
    import shlex

    from gitjournal.refs import TRUNK
    from gitjournal.resume import trunk_state
    from gitjournal.state import fold

    state = fold(journal.events(child), history=False)
    whole = trunk_state(journal, child, state)
    if state.terminated:
        before = shlex.quote(f"{child}@{state.terminated['seq'] - 1}")
        app.note(f"{child} is terminated, as {origin} is; what came before can go on: gj fork {before} NEW")
    elif whole.terminated:
        app.note(
            f"{child} is terminated, as all of its session is; it can go on: gj fork {shlex.quote(str(child))} NEW"
        )
    elif whole.archived:
        why = origin if child.branch == TRUNK else "all of its session"
        app.note(f"{child} is archived, as {why} is: gj unarchive {shlex.quote(child.session)}")


@click.command(short_help="List the branches of a session.")
@name_argument("SESSION")
@click.option("--forks", "with_forks", is_flag=True, help="Also the sessions that go on from here.")
@json_option
@color_option
@journal_option
@pass_app
def branches(app: App, name: str, with_forks: bool, as_json: bool) -> None:
    """List the branches of a session: how long each is, how many events are its own, and where it begins."""
    from gitjournal import index
    from gitjournal.lineage import forks, lines

    journal = app.journal()
    session = find(journal, name).name.session
    found = forks(journal, session, partial(index.beginning, journal, say=app.note)) if with_forks else {}
    rows = []
    failed: dict[Name, JournalError] = {}
    for line in lines(journal, session, failed):
        if as_json:
            app.emit(_members(journal, line, found.get(line.name, []) if with_forks else None))
        else:
            rows += [_row(journal, line), *(_fork_row(journal, line.name, one) for one in found.get(line.name, []))]
    if rows:
        table(app, _COLUMNS, rows)
    unread(failed)


def _members(journal: Journal, line: Line, forks: list[Begin] | None) -> dict[str, Any]:
    begin, head = line.begin, journal.event(line.name, line.head)
    members: dict[str, Any] = {"name": str(line.name), "branch": line.name.branch, "events": line.head}
    members |= {"own": line.head - begin.after, "from": _place(begin), "head": head.hash, "updated": head.ts}
    return members if forks is None else members | {"forks": [_place(one) for one in forks]}


def _place(begin: Begin) -> dict[str, Any] | None:
    return {"name": str(begin.parent), "seq": begin.after} if begin.parent else None


def _row(journal: Journal, line: Line) -> tuple[str, ...]:
    begin, head = line.begin, journal.event(line.name, line.head)
    source = f"{begin.parent}@{begin.after}" if begin.parent else "-"
    return str(line.name), str(line.head), str(line.head - begin.after), source, head.hash[:7], when(head.ts)


def _fork_row(journal: Journal, parent: Name, fork: Begin) -> tuple[str, ...]:
    """The row of a session that goes on from branch ``parent``."""
    from gitjournal.lineage import Begin, Line

    name = journal.resolve(str(fork.parent))
    return _row(journal, Line(name, journal.head(name).seq, Begin(fork.after, parent)))
