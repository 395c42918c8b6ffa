"""Commands about a session as a whole: its title, summary and labels, put away, ended, deleted.

Floor 6.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from gitjournal.cli_base import (
    FAILED,
    App,
    journal_option,
    json_option,
    name_argument,
    pass_app,
    standard_input,
)
from gitjournal.cli_find import still_indexed
from gitjournal.cli_names import By, find_branch
from gitjournal.cli_proof import opened
from gitjournal.errors import JournalError, LeaseHeld, Refused, StorageError, UsageError
from gitjournal.refs import TRUNK

if TYPE_CHECKING:
    from gitjournal.chain import Appended
    from gitjournal.delete import Deleted, Plan
    from gitjournal.journal import Journal
    from gitjournal.refs import Name
    from gitjournal.session import Session
    from gitjournal.state import SessionState

#: The actor of what is changed from the command line.
_WHO = "user"
#: More than this is no summary, however its characters are counted.
_MOST_BYTES = 128 * 1024
#: What a list of sessions takes from the trunk.
_OF_LISTS = {"title", "summary", "added"}


def _change(
    app: App, name: str, do: Callable[[Session], Appended], as_json: bool, *, by: By = "prefix", **about: Any
) -> None:
    """Append the one event of a command, and say where it is. ``about``: what changed, for JSON."""
    journal = app.journal()
    branch = find_branch(journal, name, by=by)
    try:
        session = opened(journal, branch)
    except LeaseHeld as error:
        # A branch would be no way out: it is this one that is to change.
        error.hint = "Wait until it is done, or let that program do it (docs/sessions.md)."
        raise
    with session:
        done = do(session)
    if branch.branch != TRUNK and _OF_LISTS & about.keys():
        app.note(f"this is of {branch} alone: lists show what the trunk says")
    if as_json:
        app.emit({"name": str(branch), "seq": done.seq, "hash": done.hash, **about})
    else:
        _say(app, f"{branch}@{done.seq} {done.hash}")


def _state(journal: Journal, branch: Name) -> SessionState:
    from gitjournal.state import fold

    return fold(journal.events(branch), history=False)


def _say(app: App, text: str) -> None:
    from gitjournal.render import printable

    for line in text.splitlines():
        app.say(printable(line))


# --- title, summary, labels ----------------------------------------------------------------------


@click.command(short_help="Give a session a title, or print it.")
@name_argument()
@click.argument("text", required=False)
@json_option
@journal_option
@pass_app
def title(app: App, name: str, text: str | None, as_json: bool) -> None:
    """Give a session the title TEXT, one line of at most 200 characters; without TEXT, print it. "" removes it.

    Lists show the title of the trunk; a branch that is named has one of its own.
    """
    if text is not None:
        given = text.strip()
        _change(app, name, lambda session: session.update(title=given, actor=_WHO), as_json, title=given)
        return
    journal = app.journal()
    branch = find_branch(journal, name, by="near")
    found = _state(journal, branch).title
    if as_json:
        app.emit({"name": str(branch), "title": found})
    else:
        _say(app, found)


@click.command(short_help="Say what a session was about, or print it.")
@name_argument()
@click.argument("text", metavar="[TEXT|-]", required=False)
@json_option
@journal_option
@pass_app
def summary(app: App, name: str, text: str | None, as_json: bool) -> None:
    """Give a session the summary TEXT, or that on standard input (-), of at most 16,384 characters. "" removes it.

    Without TEXT, print the summary. A branch that is named has one of its own, as it has a title. Of a session that
    nobody has summed up, the last six messages are shown, 2,000 characters of them at most; they are not stored.
    """
    if text is not None:
        given = (_read() if text == "-" else text).strip()
        _change(app, name, lambda session: session.update(summary=given, actor=_WHO), as_json, summary=given)
        return
    from gitjournal.lineage import backwards
    from gitjournal.summary import automatic, last_said

    journal = app.journal()
    branch = find_branch(journal, name, by="near")
    state = _state(journal, branch)
    written = state.summary.strip()
    found = written or automatic(last_said(backwards(journal.chain(branch), 1, state.last_seq)))
    if as_json:
        app.emit({"name": str(branch), "summary": found, "automatic": not written})
        return
    if not written:
        app.note("nobody has written a summary; what was said last:" if found else "nothing was said in it yet")
    _say(app, found)


def _read() -> str:
    raw = standard_input().read(_MOST_BYTES + 1)
    if len(raw) > _MOST_BYTES:
        raise UsageError(f"a summary of more than {_MOST_BYTES} bytes is none")
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise UsageError(f"the summary is not UTF-8 (byte {error.start})") from None


class _SignedWords(click.Command):
    """Takes words like ``-draft`` for what they are, not for options."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """As click does, with each ``-word`` as ``--remove word``."""
        words: list[str] = []
        for word in args:
            signed = word.startswith("-") and not word.startswith(("--", "-J")) and word not in ("-", "-h")
            # After one of these it is the option's value.
            valued = bool(words) and words[-1] in ("-J", "--journal", "--add", "--remove")
            words += [f"--remove={word[1:]}"] if signed and not valued else [word]
        return super().parse_args(ctx, words)


@click.command(cls=_SignedWords, short_help="Add labels to a session and take them off, or print them.")
@name_argument()
@click.argument("labels", metavar="[+LABEL|-LABEL]...", nargs=-1)
@click.option("--add", multiple=True, metavar="LABEL", help="Add LABEL, whatever it begins with.")
@click.option("--remove", multiple=True, metavar="LABEL", help="Take LABEL off, whatever it begins with.")
@json_option
@journal_option
@pass_app
def label(
    app: App, name: str, labels: tuple[str, ...], add: tuple[str, ...], remove: tuple[str, ...], as_json: bool
) -> None:
    """Add labels (+LABEL, or LABEL) to a session, and take labels off (-LABEL). Without one, print its labels.

    Lists go by the labels of the trunk; a branch that is named has its own.

    \b
      gj label s1 +bug -draft
    """
    added = [*add, *(word.removeprefix("+") for word in labels)]
    if both := {*added} & {*remove}:
        raise UsageError(f"label {min(both)!r} is to be added and to be taken off")
    if added or remove:
        _change(
            app,
            name,
            lambda session: session.update(add_labels=added or None, remove_labels=remove or None, actor=_WHO),
            as_json,
            added=sorted({*added}),
            removed=sorted({*remove}),
        )
        return
    journal = app.journal()
    branch = find_branch(journal, name, by="near")
    found = _state(journal, branch).labels
    if as_json:
        app.emit({"name": str(branch), "labels": found})
    else:
        _say(app, "\n".join(found))


# --- put away, ended -----------------------------------------------------------------------------


@click.command(short_help="Put a session away.")
@name_argument()
@json_option
@journal_option
@pass_app
def archive(app: App, name: str, as_json: bool) -> None:
    """Put a session away: lists and searches leave it out, and it cannot be resumed until gj unarchive."""
    _change(app, name, lambda session: session.update(archived=True, actor=_WHO), as_json, archived=True)


@click.command(short_help="Take a session back that was put away.")
@name_argument()
@json_option
@journal_option
@pass_app
def unarchive(app: App, name: str, as_json: bool) -> None:
    """Take a session back that gj archive put away."""
    _change(app, name, lambda session: session.update(archived=False, actor=_WHO), as_json, archived=False)


@click.command(short_help="Say that a session is over for good.")
@name_argument()
@click.option("--reason", help="Why.")
@json_option
@journal_option
@pass_app
def terminate(app: App, name: str, reason: str | None, as_json: bool) -> None:
    """Say that a session is over for good: it cannot be resumed any more. NAME is its whole name."""
    about = {"reason": reason} if reason else {}
    _change(
        app,
        name,
        lambda session: _end(session, reason),
        as_json,
        by="whole",
        terminated=True,
        **about,
    )


def _end(session: Session, reason: str | None) -> Appended:
    from gitjournal.state import fold

    if before := fold(session.chain.events(), history=False).terminated:
        raise Refused(f"{session.name} is terminated already, by event {before['seq']}; nothing was written")
    return session.terminate(reason, actor=_WHO)


# --- delete --------------------------------------------------------------------------------------


@click.command(short_help="Delete a session with all its branches.")
@name_argument("SESSION")
@click.option("--reason", help="Why: it is recorded in the journal.")
@click.option("--dry-run", is_flag=True, help="Say what would be deleted, change nothing.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@json_option
@journal_option
@pass_app
def delete(app: App, name: str, reason: str | None, dry_run: bool, yes: bool, as_json: bool) -> None:
    """Delete a session with all its branches: their refs go, and what was not in git yet.

    A tombstone in the journal's own session says what there was. Sessions that were forked from this one keep the
    events that they share with it, and git keeps all objects until it collects what no ref reaches. To take away what
    single events say, and keep the session: gj erase.
    """
    from gitjournal import delete as room
    from gitjournal import index

    journal = app.journal()
    if not dry_run and (cut := room.finish(journal)):
        app.note(f"finished deleting {cut.plan.session}, which was cut")
        _forget(app, journal, cut)
        if cut.plan.session == name and not journal.branches(name):
            _told(app, journal, cut, as_json)
            return
    session = _session(journal, name)
    beginning = partial(index.beginning, journal, say=app.note)
    if dry_run:
        _told(app, journal, room.plan(journal, session, beginning), as_json)
    elif yes or _confirmed(app, journal, session):
        done = room.delete(journal, session, reason, beginning)
        _forget(app, journal, done)
        _told(app, journal, done, as_json)
    else:
        app.note("not deleted")
        click.get_current_context().exit(FAILED)


def _forget(app: App, journal: Journal, done: Deleted) -> None:
    """Tell the index that these branches are gone, and the memory of verifications that somebody wanted it."""
    from gitjournal.cli_given import memory
    from gitjournal.index import forget
    from gitjournal.refs import Name

    # Where nothing can be written, gj verify says that they are gone.
    with suppress(StorageError, UsageError):
        memory(journal).drop(Name(done.plan.session, branch) for branch in done.plan.branches)
    still_indexed(app, forget(journal))


def _session(journal: Journal, name: str) -> str:
    """The id of the session, which must be given whole, as one that has no trunk may be."""
    from gitjournal.refs import Name

    if _is_id(name) and journal.branches(name):
        return name
    branch = find_branch(journal, name, by="whole")
    if branch.branch != TRUNK:
        raise UsageError(
            f"{branch} is one branch of session {Name(branch.session)}", hint="To delete it: gj branch --delete."
        )
    return branch.session


def _is_id(name: str) -> bool:
    from gitjournal.refs import check_id

    try:
        return bool(check_id(name))
    except UsageError:
        return False


def _confirmed(app: App, journal: Journal, session: str) -> bool:
    """Ask the person at the terminal. JournalError when there is none."""
    if sys.stdin is None or not sys.stdin.isatty():
        raise JournalError(
            f"not deleted: nobody can be asked about {session!r} here", hint="Give --yes, or first --dry-run."
        )
    from gitjournal import index
    from gitjournal.delete import plan
    from gitjournal.render import printable

    for line in _lines(plan(journal, session, partial(index.beginning, journal)), "would delete"):
        app.note(line)
    return bool(click.confirm(f"Delete session {printable(session)}?", err=True))


def _told(app: App, journal: Journal, done: Plan | Deleted, as_json: bool) -> None:
    import shlex

    from gitjournal.delete import Plan

    planned = done if isinstance(done, Plan) else done.plan
    if as_json:
        app.emit(_as_dict(done))
        return
    for line in _lines(planned, "would delete" if done is planned else "deleted"):
        _say(app, line)
    if not isinstance(done, Plan):
        _say(app, f"tombstone: journal@{done.tombstone.seq} {done.tombstone.hash}")
        for branch in done.kept:
            app.note(f"branch {branch} of {planned.session} was written to meanwhile and stays; delete again")
    collect = shlex.join(["git", "-C", str(journal.path), "gc", "--prune=now"])
    _say(app, f"git has the objects until it collects what no ref reaches: {collect}")


def _lines(planned: Plan, verb: str) -> list[str]:
    from gitjournal.render import count

    lines = []
    for branch, stand in planned.branches.items():
        events = count(stand.head.seq, "event") if stand.head else "events that cannot be read"
        lines.append(f"{verb} {planned.session}/{branch}: {events}" + (f", commit {stand.commit}" * bool(stand.commit)))
    if lost := sum(stand.lost for stand in planned.branches.values()):
        lines.append(f"{count(lost, 'byte')} of damaged or cut writes cannot be brought back by any commit")
    lines += [f"{name} keeps {count(seq, 'event')} that it shares" for name, seq in planned.shared.items()]
    lines += [f"{ref} keeps what a remote has of it; so does the remote" for ref in planned.tracking]
    return lines


def _as_dict(done: Plan | Deleted) -> dict[str, object]:
    from gitjournal.delete import Plan

    planned = done if isinstance(done, Plan) else done.plan
    out: dict[str, object] = {
        "session": planned.session,
        "dry_run": done is planned,
        "branches": {branch: stand.told for branch, stand in planned.branches.items()},
        "lost_bytes": sum(stand.lost for stand in planned.branches.values()),
        "shared": dict(planned.shared),
        "tracking": planned.tracking,
    }
    if not isinstance(done, Plan):
        out |= {"tombstone": done.tombstone._asdict(), "kept": done.kept}
    return out
