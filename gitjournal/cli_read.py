"""Commands that look at a journal and change nothing: show, cat, branches, sessions.

Floor 6. ``gj log`` is in `cli_log`, replay and verify in `cli_check`.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click

from gitjournal.cli_base import (
    FAILED,
    App,
    color_option,
    journal_option,
    json_option,
    name_argument,
    pass_app,
)
from gitjournal.cli_names import find, position
from gitjournal.errors import JournalError

if TYPE_CHECKING:
    from gitjournal.event import Event
    from gitjournal.journal import Journal
    from gitjournal.refs import Name

#: `gj sessions` looks for the first words of a user in so many events.
_FIRST = 200


# --- one event -----------------------------------------------------------------------------------


@click.command(short_help="Show one event in full.")
@name_argument("NAME@SEQ")
@click.option("--raw", is_flag=True, help="The stored bytes, and nothing else.")
@json_option
@color_option
@journal_option
@pass_app
def show(app: App, name: str, raw: bool, as_json: bool) -> None:
    """Show one event in full; without @SEQ, the newest of the branch.

    Its payload is shown with side files in their places. --json gives that as JSON; --raw the event as it is stored,
    in canonical form.
    """
    journal = app.journal()
    branch, seq = position(journal, name)
    event = journal.event(branch, seq)
    if raw:
        app.write(event.raw)
    elif as_json:
        app.emit({"name": str(branch), "hash": event.hash, **_members(event)})
    else:
        with app.paged():
            for line in _event_lines(app, branch, event):
                app.say(line)


def _members(event: Event) -> dict[str, Any]:
    """The members of an event with its data resolved, in a form that JSON can hold."""
    members = event.members
    if not event.withheld:
        members["data"] = _plain(event.data)
    return members


def _plain(value: Any) -> Any:
    """Data as JSON can hold it: bytes as base64, odd values as the tags of docs/format.md section 9."""
    from gitjournal.state import SessionState

    return SessionState(start={"data": value}).as_dict()["start"]["data"]


def _event_lines(app: App, name: Name, event: Event) -> Iterator[str]:
    from gitjournal.render import outline, printable

    paint = app.paint
    yield paint(printable(f"{name}@{event.seq}"), "bold")
    yield f"{'hash':<8} {paint(event.hash, 'yellow')}"
    if event.session != name.session:
        yield f"{'session':<8} {printable(event.session)}"
    for member in ("prev", "epoch", "ts", "type", "actor", "turn", "salt", "data_sha256"):
        if member in event.members:
            yield f"{member:<8} {event.members[member] or '-'}"
    for number, entry in enumerate(event.files, 1):
        named = f"{printable(entry['name'])}, " if "name" in entry else ""
        yield f"{f'file {number}':<8} {named}{entry['media_type']}, {entry['size']:,} bytes, sha256 {entry['sha256']}"
    yield ""
    if event.withheld:
        yield "The payload is withheld; its hash is data_sha256."
        return
    yield from outline(_data(app, event), "  ")


def _data(app: App, event: Event) -> Any:
    try:
        return event.data
    except JournalError as error:
        app.note(f"the payload is shown as it is stored: {error}")
        return event.stored_data


@click.command(short_help="Write the stored bytes of an event or side file.")
@name_argument("NAME@SEQ")
@click.argument("file_number", metavar="[K]", required=False, type=click.IntRange(min=1))
@journal_option
@pass_app
def cat(app: App, name: str, file_number: int | None) -> None:
    """Write the stored bytes of an event, or of its side file K (from 1), exactly, to standard output."""
    journal = app.journal()
    branch, seq = position(journal, name)
    if file_number is None:
        app.write(journal.event(branch, seq).raw)
    else:
        app.write(journal.raw_file(branch, seq, file_number))


# --- lists ---------------------------------------------------------------------------------------


@click.command(short_help="List the branches of a session.")
@name_argument("SESSION")
@json_option
@color_option
@journal_option
@pass_app
def branches(app: App, name: str, as_json: bool) -> None:
    """List the branches of a session: how long each is, how many events are its own, and where it begins."""
    from gitjournal.lineage import lines

    journal = app.journal()
    rows = []
    for line in lines(journal, find(journal, name).name.session):
        begin, head = line.begin, journal.event(line.name, line.head)
        origin = {"name": str(begin.parent), "seq": begin.after} if begin.parent else None
        if as_json:
            own = line.head - begin.after
            app.emit(
                {"name": str(line.name), "branch": line.name.branch, "events": line.head, "own": own, "from": origin}
                | {"head": head.hash, "updated": head.ts}
            )
            continue
        source = f"{begin.parent}@{begin.after}" if begin.parent else "-"
        numbers = (str(line.head), str(line.head - begin.after))
        rows.append((str(line.name), *numbers, source, head.hash[:7], when(head.ts)))
    if not as_json:
        _table(app, ("NAME", "EVENTS", "OWN", "FROM", "HEAD", "LAST EVENT"), rows)


@click.command(short_help="List all sessions, the newest first.")
@json_option
@color_option
@journal_option
@pass_app
def sessions(app: App, as_json: bool) -> None:
    """List all sessions, the one with the newest event first: events, branches, last time, and how it began."""
    from gitjournal.render import clip

    journal = app.journal()
    found = [_summary(journal, session, names) for session, names in by_session(journal)]
    found.sort(key=lambda row: str(row["updated"]), reverse=True)
    rows = []
    for row in found:
        if as_json:
            app.emit(row)
        else:
            said = row["error"] or row["first"] or ""
            cells = (row["session"], str(row["events"]), str(len(row["branches"])), when(row["updated"]))
            rows.append((*cells, clip(said, 60 if app.width is None else app.width)))
    if not as_json and rows:
        _table(app, ("SESSION", "EVENTS", "BRANCHES", "LAST EVENT", "BEGINS WITH"), rows)
    if not found:
        app.note(f"no session yet in {journal.path}")
    if any(row["error"] for row in found):
        click.get_current_context().exit(FAILED)


def by_session(journal: Journal) -> Iterator[tuple[str, list[Name]]]:
    """Each session with its branches, the trunk first."""
    for session, names in itertools.groupby(journal.sessions(), key=lambda name: name.session):
        yield session, sorted(names, key=lambda name: (name.branch != "main", name.branch))


def _summary(journal: Journal, session: str, names: list[Name]) -> dict[str, Any]:
    """One session; a fault in it is a part of the answer, so that the others are listed all the same."""
    row: dict[str, Any] = {"session": session, "events": 0, "branches": [name.branch for name in names]}
    row |= {"updated": "", "first": None, "error": None}
    try:
        newest = max((journal.event(name, journal.head(name).seq) for name in names), key=lambda event: event.ts)
        row |= {"events": journal.head(names[0]).seq, "updated": newest.ts}
        row["first"] = _first_words(journal.events(names[0], to=_FIRST))
    except JournalError as error:
        row["error"] = f"[{error.code}] {error}"
    return row


def _first_words(events: Iterable[Event]) -> str | None:
    """What the first message of a user says."""
    from gitjournal.render import gist, read_data

    for event in events:
        if event.type == "message" and (read_data(event) or {}).get("role") == "user":
            return gist(event)
    return None


def when(ts: str) -> str:
    """A time for people, to the second."""
    return ts[:19].replace("T", " ") or "-"


def _table(app: App, head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> None:
    from gitjournal.render import clip, columns, printable

    shown = [head, *(tuple(map(printable, row)) for row in rows)]
    widths = [max(columns(row[at]) for row in shown) for at in range(len(head))]
    numbers = {"EVENTS", "OWN", "BRANCHES"}
    for row in shown:
        cells = []
        for title, cell, width in zip(head, row, widths, strict=True):
            pad = " " * (width - columns(cell))
            cells.append(pad + cell if title in numbers else cell + pad)
        line = "  ".join(cells).rstrip()
        line = line if app.width is None else clip(line, app.width)
        app.say(app.paint(line, "dim") if row is head else line)
