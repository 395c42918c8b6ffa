"""Doctor: what is wrong on this machine and in this journal.

Floor 6.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from gitjournal.cli_base import FAILED, App, color_option, journal_option, json_option, pass_app
from gitjournal.cli_progress import shown

if TYPE_CHECKING:
    from gitjournal.cli_progress import Progress
    from gitjournal.doctor import Trouble
    from gitjournal.journal import Journal


@click.command(short_help="Say what is wrong here, and the command that mends it.")
@json_option
@color_option
@journal_option
@pass_app
def doctor(app: App, as_json: bool) -> None:
    """Look for what needs a hand, and change nothing: one line each, and the command that mends it.

    Sessions of the known agents that are not in the journal, and when their program deletes them; errors of hooks;
    locks that nobody holds; remotes that git fetch brings nothing from; events that are not in git yet; heads without
    a signature; calls without a result; records that could not be read. The exit status is 1 when something needs a
    hand. Whether the journal is what it claims to be, gj verify says.
    """
    journal = app.journal_or_empty()
    serious = 0
    with shown(0.5) as progress:
        for trouble in _all(journal, progress):
            progress.clear()
            serious += trouble.serious
            _say(app, trouble, as_json)
    if not serious and not as_json:
        app.note("nothing needs a hand")
    if serious:
        click.get_current_context().exit(FAILED)


def _all(journal: Journal, progress: Progress) -> Iterator[Trouble]:
    from gitjournal.doctor import examine, machine
    from gitjournal.formats.homes import places
    from gitjournal.hook import state_folder

    yield from machine(journal, places(os.environ), state_folder(), progress)
    yield from examine(journal, progress)


def _say(app: App, trouble: Trouble, as_json: bool) -> None:
    from gitjournal.render import printable

    if as_json:
        app.emit(trouble._asdict())
        return
    app.say(printable(trouble.what) if trouble.serious else app.paint(printable(trouble.what), "dim"))
    if trouble.mend:
        app.say(f"  {printable(trouble.mend)}")
