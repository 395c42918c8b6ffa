"""Commands about going on: resume a session, make its context shorter, and see what waits for its time.

Floor 6.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gitjournal.cli_base import (
    FAILED,
    App,
    color_option,
    journal_option,
    json_option,
    name_argument,
    not_empty,
    pass_app,
    read_file,
    standard_input,
)
from gitjournal.cli_names import find, find_branch
from gitjournal.cli_proof import opened
from gitjournal.cli_read import when
from gitjournal.cli_table import Column, table
from gitjournal.errors import UsageError

if TYPE_CHECKING:
    from gitjournal.errors import JournalError
    from gitjournal.journal import Journal
    from gitjournal.refs import Name
    from gitjournal.resume import Resumed
    from gitjournal.wakes import Wake

# Sessions whose branches are looked for one by one.
_FEW = 3
#: A summary longer than this is a mistake: the model is to read it in every request.
_MOST_SUMMARY = 1024 * 1024
_COLUMNS = (
    Column("DUE"),
    Column("PRIORITY", leave=2),
    Column("SESSION", least=12, both_ends=True),
    Column("EVENT", leave=1),
    Column("REASON", least=20),
)


# --- resume --------------------------------------------------------------------------------------


@click.command(short_help="Make a session ready to go on after its process ended.")
@name_argument()
@click.option(
    "--project",
    callback=not_empty,
    metavar="PATH",
    help="Root of the project that goes on with it; else this folder or one above.",
)
@json_option
@color_option
@journal_option
@pass_app
def resume(app: App, name: str, project: str | None, as_json: bool) -> None:
    """Make a session ready to go on: give each tool call that was interrupted a result that says so, end an open turn.

    Nothing is run, and nothing is run again. Calls that wait for a confirmation or for a result from outside wait on.
    Doing it twice adds nothing. A session that is archived, terminated, of another project, or held by a process that
    lives is refused.
    """
    from gitjournal.resume import resume as run

    journal = app.journal()
    branch = find_branch(journal, name, by="whole")
    done = run(journal, branch, project or _project_here(journal, branch), opened=partial(opened, journal))
    if as_json:
        app.emit(_as_dict(done))
    else:
        _say(app, done)


def _project_here(journal: Journal, branch: Name) -> str:
    """This folder, or the one above it that is the session's root."""
    cwd = Path.cwd()
    root = journal.event(branch, 1).stored_data.get("project")
    within = isinstance(root, str) and Path(os.path.realpath(root)) in (cwd, *cwd.parents)
    return str(root) if within else str(cwd)


def _as_dict(done: Resumed) -> dict[str, Any]:
    names = ("id", "name", "seq")
    return {
        "name": str(done.name),
        "seq": done.head.seq,
        "hash": done.head.hash,
        "closed": [{one: call[one] for one in names} for call in done.closed],
        "turn": done.turn,
        "waiting": [{one: call[one] for one in (*names, "requires")} for call in done.waiting],
        "left": [{one: call[one] for one in names} for call in done.left],
    }


def _say(app: App, done: Resumed) -> None:
    from gitjournal.render import one_line, printable

    for call in done.closed:
        how = "refused by a person, not run" if call["approved"] is False else "interrupted, outcome unknown"
        app.say(f"closed @{call['seq']} {one_line(str(call['name']))} ({one_line(call['id'])}): {how}")
    if done.turn is not None:
        app.say(f"ended turn {printable(done.turn)}: interrupted")
    for call in done.waiting:
        said = f"@{call['seq']} {one_line(str(call['name']))} ({one_line(call['id'])})"
        app.say(f"waits on {said} for {_WAITS[call['requires']]}")
    for call in done.left:
        said = f"@{call['seq']} {one_line(str(call['name']))} ({one_line(call['id'])})"
        app.note(f"{said} stays open: its id is of an import, and no new event can say it")
    if not done.closed and not done.left and done.turn is None:
        app.say("nothing was open")
    app.say(f"{app.paint(printable(f'{done.name}@{done.head.seq}'), 'bold')} is ready")


_WAITS = {"confirmation": "a confirmation", "result": "a result from outside"}


# --- compact -------------------------------------------------------------------------------------


@click.command(short_help="Make the context shorter: a summary in the place of old entries.")
@name_argument()
@click.option("--keep", type=int, metavar="N", help="How many of the newest entries stay. [default: 6; 0 with a range]")
@click.option("--from", "first", type=int, metavar="SEQ", help="Only entries of this event or later ones.")
@click.option("--to", "last", type=int, metavar="SEQ", help="Only entries of this event or earlier ones.")
@click.option("--summary", metavar="TEXT", help="What stands in their place.")
@click.option("--summary-file", metavar="FILE", help="The same from a file; - is standard input.")
@json_option
@color_option
@journal_option
@pass_app
def compact(
    app: App,
    name: str,
    keep: int | None,
    first: int | None,
    last: int | None,
    summary: str | None,
    summary_file: str | None,
    as_json: bool,
) -> None:
    """Make what the model sees shorter: old entries leave the context, and your summary stands in their place.

    The journal and the transcript lose nothing: a branch from before has the whole context, and `gj replay NAME@SEQ
    --context` shows what the model saw at any event. A tool call and its result go together: a few more than N stay
    when it must be.
    """
    from gitjournal.compact import as_summary
    from gitjournal.compact import compact as run
    from gitjournal.render import count, printable

    journal = app.journal()
    branch = find_branch(journal, name, by="whole")
    text = as_summary(_summary(summary, summary_file))
    with opened(journal, branch) as session:
        done = run(session, text, keep=keep, from_seq=first, to_seq=last)
    if as_json:
        members = {"seq": done.event.seq, "hash": done.event.hash}
        app.emit({"name": str(branch), **members, "removed": done.removed, "kept": done.kept})
        return
    place = app.paint(printable(f"{branch}@{done.event.seq}"), "bold")
    app.say(f"{place}: {count(done.removed, 'entry', 'entries')} left the context, {done.kept:,} stayed")


def _summary(text: str | None, path: str | None) -> str:
    if (text is None) == (path is None):
        raise UsageError("give the summary with --summary or --summary-file, and not with both")
    if path is None:
        return str(text)
    raw = standard_input().read(_MOST_SUMMARY + 1) if path == "-" else read_file(path, _MOST_SUMMARY)
    if len(raw) > _MOST_SUMMARY:
        raise UsageError(f"the summary has more than {_MOST_SUMMARY} bytes")
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        raise UsageError("the summary is not UTF-8 text") from None


# --- wakes ---------------------------------------------------------------------------------------


@click.command(short_help="List the wakes that wait: which session is to be run when.")
@name_argument("[NAME]", required=False)
@click.option("--due", is_flag=True, help="Only those whose time has come, the most urgent first.")
@json_option
@journal_option
@pass_app
def wakes(app: App, name: str | None, due: bool, as_json: bool) -> None:
    """List the wakes that wait in a session, or in all that are neither archived nor terminated.

    They are worked out from events alone; times are UTC. A branch has the wakes of its parent, as it has all that
    waited there. This runs nothing; whoever does writes a session.wake_done after it.
    """
    from gitjournal.wakes import in_order

    faults: list[str] = []
    found = _wakes(app, name, faults)
    listed = in_order(found, _now() if due else None)
    if as_json:
        for wake in listed:
            app.emit({**wake._asdict(), "name": str(wake.name)})
    elif listed:
        table(app, _COLUMNS, [_row(wake) for wake in listed])
    else:
        app.note("no wake is due" if due else "no wake waits")
    for fault in faults:
        app.note(fault)
    if faults:
        click.get_current_context().exit(FAILED)


def _wakes(app: App, name: str | None, faults: list[str]) -> list[Wake]:
    from gitjournal.index import ask
    from gitjournal.index_query import with_wakes
    from gitjournal.state import fold
    from gitjournal.wakes import of_journal, of_state

    journal = app.journal()
    if name is None:
        # The index knows where some wait: only those sessions are read.
        waiting = set(ask(journal, with_wakes, say=app.note, whole=True))
        told = partial(_fault, faults)
        return list(of_journal(journal, told, _branches(journal, waiting)))
    target = find(journal, name)
    return of_state(target.name, fold(journal.events(target.name, to=target.seq), history=False))


def _branches(journal: Journal, sessions: Collection[str]) -> Iterator[Name]:
    """The branches of some sessions; to look for those of one takes as long as to look at all names of the journal."""
    if len(sessions) > _FEW:
        return (one for one in journal.sessions() if one.session in sessions)
    return (one for session in sessions for one in journal.branches(session))


def _fault(faults: list[str], branch: Name, error: JournalError) -> None:
    faults.append(f"{branch}: [{error.code}] {error}")


def _row(wake: Wake) -> tuple[str, ...]:
    from gitjournal.render import one_line

    said = ": ".join(one_line(text) for text in (wake.reason, wake.note) if text)
    return when(wake.due), wake.priority, str(wake.name), f"@{wake.seq}", said


def _now() -> str:
    from datetime import UTC, datetime

    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"
