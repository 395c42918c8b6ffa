"""Take payloads out of a journal for good: the command `gj erase`.

Floor 6.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from gitjournal.cli_base import FAILED, App, journal_option, json_option, name_argument, pass_app
from gitjournal.cli_find import still_indexed
from gitjournal.cli_names import find, parse_seqs
from gitjournal.cli_progress import shown
from gitjournal.cli_proof import own_signer
from gitjournal.errors import UsageError

if TYPE_CHECKING:
    from gitjournal.erase import Erased, Plan


@click.command(short_help="Erase what events say, for good; the chain stays.")
@name_argument("[NAME]", required=False)
@click.argument("seqs", metavar="[SEQS]", required=False)
@click.option("--reason", help="Why: it is recorded in the journal.")
@click.option("--finish", is_flag=True, help="Only finish an erasure that was cut; without NAME and SEQS.")
@click.option("--dry-run", is_flag=True, help="Say what would be erased, change nothing.")
@json_option
@journal_option
@pass_app
def erase(
    app: App, name: str | None, seqs: str | None, reason: str | None, finish: bool, dry_run: bool, as_json: bool
) -> None:
    """Erase the payloads of events for good, on every branch that has them. SEQS is like 17,20-25.

    NAME is a whole name. The events stay as headers, so the chain, seals and proofs still verify; a session.erasure
    says what was done and why. Commits change from the first erased event on. Old objects are removed from this
    repository; copies elsewhere must be told: the command for each known remote is printed. Nobody may write to the
    journal meanwhile.
    """
    from gitjournal import erase as room
    from gitjournal.index import forget

    journal = app.journal()
    if not dry_run and (finish or room.is_unfinished(journal)):
        with shown() as progress:
            cut = room.finish(journal, own_signer(journal.store), forget=forget, say=progress)
        app.note("finished an erasure that was cut" if cut else "no erasure was cut")
        if cut:
            _say(app, cut.plan, cut, as_json)
    if finish:
        if name or seqs or dry_run:
            raise UsageError("--finish goes without NAME, SEQS and --dry-run")
        return
    if name is None or seqs is None or reason is None:
        raise UsageError("an erasure needs NAME, SEQS and --reason")
    target = find(journal, name, by="whole")
    if target.seq is not None:
        raise UsageError("give the events as SEQS, and the name without a position")
    wanted = parse_seqs(seqs)
    if dry_run:
        _say(app, room.plan(journal, target.name, wanted, reason), None, as_json)
        return
    with shown() as progress:
        done = room.erase(journal, target.name, wanted, reason, own_signer(journal.store), forget=forget, say=progress)
    _say(app, done.plan, done, as_json)
    if done.indexed or done.left:
        click.get_current_context().exit(FAILED)


def _say(app: App, planned: Plan, done: Erased | None, as_json: bool) -> None:
    if done is not None:
        still_indexed(app, done.indexed)
    if as_json:
        app.emit(_as_dict(planned, done))
        return
    from gitjournal.render import count, printable

    verb = "erased" if done else "would erase"
    for one, seqs in planned.branches.items():
        app.say(f"{verb} {count(len(seqs), 'payload')} of {printable(str(one))}: {_listed(seqs)}")
    if planned.done:
        app.say(f"withheld already: {_listed(planned.done)}")
    if planned.guessable:
        app.say(
            f"guessable: {_listed(planned.guessable)} had no salt. Whoever guesses all of such a payload can confirm it"
            " from the hash that stays; short ones can be tried out."
        )
    if done is not None:
        _say_rest(app, done)


def _say_rest(app: App, done: Erased) -> None:
    from gitjournal.render import count, printable

    if done.resigned or done.unsigned:
        app.say(f"signed again: {count(done.resigned, 'commit')}; not signed any more: {done.unsigned:,}")
    if done.left:
        left = count(len(done.left), "old object")
        app.note(f"{left} could not be removed: in a pack that somebody keeps, an alternate, or under another ref")
    for remote in done.remotes:
        app.say(f"{printable(remote.name)} ({printable(remote.url)}) may still hold the old objects.")
        if remote.command:
            app.say("Update it with this; a journal there refuses it until its receive.denyNonFastForwards is false:")
            app.say(f"  {printable(remote.command)}")


def _as_dict(planned: Plan, done: Erased | None) -> dict[str, object]:
    from gitjournal.verdict import ranges

    out: dict[str, object] = {
        "dry_run": done is None,
        "branches": {str(one): ranges(seqs) for one, seqs in planned.branches.items()},
        "withheld_already": ranges(planned.done),
        "guessable": ranges(planned.guessable),
        "reason": planned.reason,
    }
    if done is not None:
        out |= {"resigned": done.resigned, "unsigned": done.unsigned, "left": done.left}
        out["remotes"] = [remote._asdict() for remote in done.remotes]
    return out


def _listed(seqs: list[int]) -> str:
    from gitjournal.verdict import ranges

    return ",".join(f"{first}-{last}" if last > first else str(first) for first, last in ranges(seqs))
