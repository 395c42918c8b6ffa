"""Commands that write to a journal: init, append, flush.

Floor 6. ``gj import`` is in `cli_import`, ``gj branch`` in `cli_branch`.
"""

from __future__ import annotations

import itertools
import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, cast

import click

from gitjournal.cli_base import (
    FAILED,
    App,
    complete_names,
    explain,
    journal_option,
    json_option,
    name_argument,
    pass_app,
)
from gitjournal.cli_input import Batch, is_json, read_batches
from gitjournal.cli_proof import for_one_append
from gitjournal.errors import ConflictError, FormatError, JournalError, NotFound, UsageError

if TYPE_CHECKING:
    from gitjournal.chain import Appended
    from gitjournal.journal import Journal
    from gitjournal.refs import Name
    from gitjournal.session import Session
    from gitjournal.writer import Draft, Durability

_MEMBERS = frozenset({"type", "data", "actor", "turn", "ts"})


# --- init ----------------------------------------------------------------------------------------


@click.command(short_help="Make a journal.")
@click.argument("path", required=False, type=click.Path())
@json_option
@journal_option
@pass_app
def init(app: App, path: str | None, as_json: bool) -> None:
    """Make a journal at PATH; without it, at -J, at $GITJOURNAL_DIR, or as .gitjournal in this folder.

    A journal that is there already is left as it is.
    """
    from gitjournal import journal as library

    place = Path(path or app.named or os.environ.get("GITJOURNAL_DIR") or ".gitjournal")
    there = place.is_dir() and any(place.iterdir())
    made = library.init(place)
    where = str(made.path.resolve())
    if as_json:
        app.emit({"journal": where, "created": not there})
    else:
        _say(app, f"{'there is a journal already at' if there else 'made a journal at'} {where}")


def _say(app: App, text: str) -> None:
    from gitjournal.render import printable

    app.say(printable(text))


# --- append --------------------------------------------------------------------------------------


@click.command(short_help="Append events to a session.")
@name_argument("NAME")
@click.argument("source", metavar="[JSON|FILE|-]", default="-")
@click.option("--type", "kind", metavar="TYPE", help="The type of the events; the input is then their data alone.")
@click.option("--actor", default="host", show_default=True, help="Who acted, where the input does not say.")
@click.option("--turn", metavar="ID", help="The turn that the events belong to, where the input does not say.")
@click.option("--expect", type=click.IntRange(min=0), metavar="SEQ", help="Append only if SEQ is the newest event.")
@click.option("--create", is_flag=True, help="Begin the session if there is none of that name.")
@click.option(
    "--durability",
    type=click.Choice(["disk", "os", "commit"]),
    default="disk",
    show_default=True,
    help="What is certain when a line is printed: on disk, with the operating system, or a git commit.",
)
@click.option(
    "--redact/--no-redact", default=None, help="Replace secrets first, or not; else as the journal's policy says."
)
@json_option
@journal_option
@pass_app
def append(
    app: App,
    name: str,
    source: str,
    kind: str | None,
    actor: str,
    turn: str | None,
    expect: int | None,
    create: bool,
    durability: str,
    redact: bool | None,
    as_json: bool,
) -> None:
    """Append events to a session or branch, and print the seq and hash of each once it is safe.

    The input is JSON: the argument itself, a FILE (or @FILE), or standard input; in a file, one event a line. Each is
    {"type": ..., "data": {...}} with "actor", "turn" and "ts" if wanted; with --type it is the data alone.

    \b
      gj append s1 --create --type message --actor user \\
        '{"role": "user", "parts": [{"type": "text", "content": "hello"}]}'
      my-agent | gj append s1
    """
    reader = _Reader(kind, actor, turn, counted=not is_json(source))
    batches = read_batches(source)
    first = next(batches, None)
    if first is None:
        raise UsageError("there is no event in the input")
    # A mistake in the first event must not begin a session.
    start = reader.draft(*first[0])
    journal = app.journal_for_writing()
    session, expect = _session(journal, name, start if create else None, expect, cast("Durability", durability), redact)
    with session:
        if session.set_aside:
            app.note(f"{session.set_aside} bytes of a write that was cut, and never acknowledged, were set aside")
        run = _Append(app, session, reader, expect, as_json)
        for batch in itertools.chain([first], batches):
            run.take(batch)
        try:
            session.close()
        except JournalError as error:
            # All that was printed is on disk: whoever reads the exit status must not append it again.
            app.note(f"the events are safe, but not in git yet: {error}")


def _session(
    journal: Journal, name: str, start: Draft | None, expect: int | None, durability: Durability, redact: bool | None
) -> tuple[Session, int | None]:
    """The session, open for writing, and the seq that its head must have.

    With ``start``, its first event to be, a session that is missing is made; it is at seq 0 until then.
    """
    how = partial(journal.session, name, durability=durability, redact=redact, **for_one_append(journal))
    try:
        return how(), expect
    except NotFound as error:
        if start is None:
            error.hint = f"{error.hint} With --create it is made."
            raise
    if expect:
        raise ConflictError(f"there is no session {name!r}, and {name}@{expect} was expected", head_seq=0)
    _try(start)
    return how(create=True), None if expect is None else 1


def _try(draft: Draft) -> None:
    """Raise FormatError if an event of this type and actor can never be."""
    from gitjournal.event import Event
    from gitjournal.writer import now

    members = {"v": 1, "session": "s", "seq": 2, "prev": "0" * 64, "epoch": 1, "ts": draft.ts or now()}
    members |= {"type": draft.type, "actor": draft.actor, "data": {}}
    members |= {"turn": draft.turn} if draft.turn is not None else {}
    try:
        Event.build(members)
    except FormatError as error:
        raise FormatError(error.code, str(error).removeprefix("event 2: ")) from None


class _Reader(NamedTuple):
    """Turns lines into drafts. ``counted``: errors name the line."""

    kind: str | None
    actor: str
    turn: str | None
    counted: bool

    def draft(self, number: int, line: bytes) -> Draft:
        """FormatError or UsageError, with the number of the line, when it is no event."""
        try:
            return self._draft(line)
        except (FormatError, UsageError) as error:
            raise self.placed(error, number) from None

    def placed(self, error: JournalError, number: int) -> JournalError:
        """The error, with its line."""
        if self.counted:
            error.args = (f"line {number}: {error}",)
        return error

    def _draft(self, line: bytes) -> Draft:
        from gitjournal import canonical
        from gitjournal.writer import Draft

        value = canonical.loads(line)
        members = value if self.kind is None else {"type": self.kind, "data": value}
        if type(members) is not dict or not {"type", "data"} <= members.keys():
            raise UsageError(
                'an event is {"type": ..., "data": {...}}', hint="With --type TYPE the input is taken as data."
            )
        if unknown := members.keys() - _MEMBERS:
            raise UsageError(
                f"an event has no member {min(unknown)!r}", hint="gj import takes whole sessions that gj export wrote."
            )
        if type(members["data"]) is not dict:
            raise FormatError("bad-member", "data is not an object")
        actor, turn = members.get("actor", self.actor), members.get("turn", self.turn)
        return Draft(members["type"], members["data"], actor, turn, members.get("ts"))


class _Append:
    """One run of ``gj append``: stores batches and prints what is safe."""

    def __init__(self, app: App, session: Session, reader: _Reader, expect: int | None, as_json: bool) -> None:
        self._app = app
        self._session = session
        self._reader = reader
        self._expect = expect
        self._as_json = as_json
        self._stored = 0

    def take(self, batch: Batch) -> None:
        """Store a batch; if an event cannot be, those before it are stored and the error says so."""
        drafts: list[tuple[int, Draft]] = []
        for number, line in batch:
            try:
                drafts.append((number, self._reader.draft(number, line)))
            except JournalError as error:
                self._store(drafts)
                raise self._told(error) from None
        self._store(drafts)

    def _store(self, drafts: list[tuple[int, Draft]]) -> None:
        try:
            self._print(self._session.append_many([draft for _, draft in drafts], expected_seq=self._expect))
        except (FormatError, UsageError):
            # One of them breaks a rule, so none was stored: find it.
            for number, draft in drafts:
                self._store_one(number, draft)

    def _store_one(self, number: int, draft: Draft) -> None:
        try:
            self._print(self._session.append_many([draft], expected_seq=self._expect))
        except (FormatError, UsageError) as error:
            raise self._told(self._reader.placed(error, number)) from None

    def _print(self, done: list[Appended]) -> None:
        if done:
            self._expect = None
            self._stored += len(done)
        name = str(self._session.name)
        for seq, digest in done:
            if self._as_json:
                self._app.emit({"name": name, "seq": seq, "hash": digest})
            else:
                _say(self._app, f"{name}@{seq} {digest}")
        self._app.out.flush()

    def _told(self, error: JournalError) -> JournalError:
        if self._stored:
            stored = f"What stands before it is stored, up to {self._session.name}@{self._session.head.seq}."
            error.hint = f"{error.hint} {stored}".lstrip()
        return error


# --- flush -------------------------------------------------------------------------


@click.command(short_help="Move durable events from the tail to git now.")
@click.argument("name", metavar="[NAME]", required=False, shell_complete=complete_names)
@click.option("--all", "everything", is_flag=True, help="All sessions; so too without NAME.")
@json_option
@journal_option
@pass_app
def flush(app: App, name: str | None, everything: bool, as_json: bool) -> None:
    """Move events that are safe in the tail of a session, but not yet in git, to git.

    Writers do that by themselves; it is of use after a crash. SESSION is all its branches, SESSION/BRANCH is one.
    """
    if name and everything:
        raise UsageError("give a name or --all, not both")
    journal = app.journal()
    chosen = journal.resolve(name) if name else None
    failed = False
    for one in journal.sessions():
        if chosen is None or one == chosen or (name == chosen.session and one.session == name):
            try:
                _flush(app, journal, one, as_json)
            except JournalError as error:
                explain(error)
                failed = True
    if failed:
        click.get_current_context().exit(FAILED)


def _flush(app: App, journal: Journal, name: Name, as_json: bool) -> None:
    from gitjournal.render import count

    chain = journal.chain(name)
    before = chain.snapshot().in_git
    journal.flush(name)
    after = chain.snapshot().in_git
    if as_json:
        app.emit({"name": str(name), "seq": after, "moved": after - before})
    elif after > before:
        _say(app, f"{name}: {count(after - before, 'event')} moved to git")
