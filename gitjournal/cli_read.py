"""Commands that look at a journal and change nothing: show, cat.

Floor 6. ``gj log`` is in `cli_log`, replay and verify in `cli_check`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import click

from gitjournal.cli_base import (
    FAILED,
    App,
    color_option,
    complain,
    journal_option,
    json_option,
    name_argument,
    pass_app,
)
from gitjournal.cli_names import position
from gitjournal.errors import JournalError

if TYPE_CHECKING:
    from gitjournal.event import Event
    from gitjournal.refs import Name


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


# --- what lists share ----------------------------------------------------------------------------


def when(ts: str) -> str:
    """A time for people, to the second."""
    return ts[:19].replace("T", " ") or "-"


def unread(failed: Mapping[Name, JournalError]) -> None:
    """Name the branches that could not be read, and fail if there are some."""
    for name, error in failed.items():
        complain(f"{name} cannot be read: [{error.code}] {error}", error.hint)
    if failed:
        click.get_current_context().exit(FAILED)
