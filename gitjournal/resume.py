"""Going on with a session after its process ended, however it ended: `resume`.

Floor 3. Runs nothing, and above all runs nothing again: what was open is closed with the honest answer that nobody
knows how it went.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from gitjournal.chain import Appended
from gitjournal.errors import Refused, VerificationError
from gitjournal.journal import Journal
from gitjournal.refs import Name
from gitjournal.session import Session
from gitjournal.state import SessionState, fold
from gitjournal.state_form import waits
from gitjournal.vocabulary import DENIED, INTERRUPTED
from gitjournal.writer import Draft

# Half of a character, which no event can hold as it is.
_SURROGATE = re.compile("[\ud800-\udfff]")

#: What the model is told of a call whose result nobody knows.
LOST = "Execution interrupted; outcome unknown. Inspect state before retrying."
#: What it is told of a call that a person has refused before the process ended.
REFUSED = "Not allowed; the call was not run."


class Resumed(NamedTuple):
    """What `resume` found and did; the calls are open ones of `SessionState` as they were."""

    name: Name
    #: The newest event now.
    head: Appended
    #: Calls that have got a result now.
    closed: tuple[dict[str, Any], ...]
    #: The turn that was ended.
    turn: str | None
    #: Calls that wait on, for a person or for somebody outside.
    waiting: tuple[dict[str, Any], ...]
    #: Calls of imports that stay open, because only an import can say their ids: they hold half a character.
    left: tuple[dict[str, Any], ...] = ()


def resume(
    journal: Journal,
    name: str | Name,
    project: str | os.PathLike[str] | None = None,
    *,
    opened: Callable[[Name], Session] | None = None,
) -> Resumed:
    """Make a session ready to go on: close its open calls and its open turn. Doing it twice adds nothing.

    ``project`` is the root folder of the caller's project; with None it is not compared. Calls that wait for a
    confirmation or a result from outside stay open. ``opened`` opens the branch for writing in another way than
    `Journal.session` does.

    Raises NotFound, LeaseHeld (naming the holder), and Refused for a session that is archived, terminated or of
    another project; nothing is written then. The trunk says for all branches whether the session is archived or
    terminated; one branch may also be terminated alone.
    """
    branch = journal.resolve(name)
    state = fold(journal.events(branch), history=False)
    _check(journal, branch, state, project)
    with opened(branch) if opened else journal.session(branch, closing_seal=False) as session:
        # Only now nobody else can write.
        if session.head.hash != state.last_hash:
            state = fold(journal.events(branch), history=False)
            _check(journal, branch, state, project)
        return _close(session, state)


async def aresume(journal: Journal, name: str | Name, project: str | os.PathLike[str] | None = None) -> Resumed:
    """The same for asyncio, in a thread. A task that is cancelled meanwhile goes on when it is done."""
    from gitjournal.aio import finished, worker  # asyncio is slow to load, and gj does not use it

    with worker() as thread:
        return await finished(thread, partial(resume, journal, name, project))


def trunk_state(journal: Journal, name: Name, state: SessionState) -> SessionState:
    """What says of a branch in ``state`` whether its session is archived, and terminated as a whole: its trunk's state.

    Without one that can be read, which a clone may not have, the branch speaks for itself.
    """
    trunk = Name(name.session)
    if name == trunk or not journal.chain(trunk).exists():
        return state
    try:
        return fold(journal.events(trunk), history=False)
    except VerificationError:
        return state


def _check(journal: Journal, name: Name, state: SessionState, project: str | os.PathLike[str] | None) -> None:
    whole = trunk_state(journal, name, state)
    if over := state.terminated or whole.terminated:
        place = f"{name}@{over['seq'] - 1}" if state.terminated else str(name)
        hint = f"What came before can go on in a session of its own: gj fork {shlex.quote(place)} NEW"
        raise Refused("Session is terminated; it cannot be resumed", hint=hint)
    if whole.archived:
        raise Refused(f"Session is archived; unarchive it before resuming: gj unarchive {shlex.quote(name.session)}")
    if project is not None and state.project is not None and not _same(state.project, project):
        hint = "Resume it there, or name that root as the project."
        raise Refused(f"Session belongs to another project; its root is {state.project}", hint=hint)


def _same(root: str, folder: str | os.PathLike[str]) -> bool:
    try:
        return os.path.realpath(root) == os.path.realpath(folder)
    except ValueError:
        # A zero byte in one of them: no folder has such a name.
        return False


def _close(session: Session, state: SessionState) -> Resumed:
    turn = state.open_turn["id"] if state.open_turn else None
    waiting = tuple(call for call in state.open_calls if waits(call))
    others = [call for call in state.open_calls if not waits(call)]
    closed = tuple(call for call in others if not _SURROGATE.search(call["id"]))
    left = tuple(call for call in others if _SURROGATE.search(call["id"]))
    drafts = [Draft("tool.result", _result(call), turn=turn) for call in closed]
    if turn is not None:
        drafts.append(Draft("turn.end", {"outcome": "interrupted"}, turn=turn))
    session.append_many(drafts)
    return Resumed(session.name, session.head, closed, turn, waiting, left)


def _result(call: dict[str, Any]) -> dict[str, Any]:
    refused = call["approved"] is False
    code, text = (DENIED, REFUSED) if refused else (INTERRUPTED, LOST)
    return {"id": call["id"], "is_error": True, "code": code, "response": text}
