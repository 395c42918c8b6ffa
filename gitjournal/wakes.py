"""The wakes that wait in a journal: which session is to be run again, when, and why.

Floor 3. Pure data, worked out from events alone; what runs a session when its time has come is not here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from gitjournal.errors import JournalError
from gitjournal.journal import Journal
from gitjournal.refs import TRUNK, Name
from gitjournal.state import SessionState, fold
from gitjournal.vocabulary import PRIORITIES


class Wake(NamedTuple):
    """One wake that waits. ``due`` is a ``ts``; the text of two of them compares as their times do."""

    name: Name
    #: The event that asked for it: what `session.wake_done` names.
    seq: int
    due: str
    reason: str | None
    note: str | None
    key: str | None
    priority: str


def of_state(name: Name, state: SessionState) -> list[Wake]:
    """The wakes of one branch that wait, in the order of their events."""
    return [Wake(name, **wake) for wake in state.wakes]


def of_journal(
    journal: Journal,
    failed: Callable[[Name, JournalError], object] | None = None,
    names: Iterable[Name] | None = None,
) -> Iterator[Wake]:
    """The wakes of all branches, but not of those that nobody may resume: terminated, or the trunk is, or is archived.

    ``names``: only of these, which are all branches of some sessions.
    A branch that cannot be read is told to ``failed`` and passed over; without it the error is raised.
    """
    closed: dict[str, bool] = {}
    # The trunk first: it says what its session is.
    some = journal.sessions() if names is None else names
    for name in sorted(some, key=lambda one: (one.session, one.branch != TRUNK, one)):
        if closed.get(name.session):
            continue
        try:
            state = fold(journal.events(name), history=False)
        except JournalError as error:
            if failed is None:
                raise
            failed(name, error)
            continue
        ended = state.terminated is not None
        # Without a trunk that can be read, each branch speaks for itself.
        away = state.archived and (name.branch == TRUNK or name.session not in closed)
        if name.branch == TRUNK:
            closed[name.session] = ended or away
        if not ended and not away:
            yield from of_state(name, state)


def in_order(wakes: Iterable[Wake], now: str | None = None) -> list[Wake]:
    """The most urgent first: by time; with ``now`` (a ``ts``) only those that are due, by priority, then by time."""
    if now is None:
        return sorted(wakes, key=_when)
    due = [wake for wake in wakes if wake.due <= now]
    return sorted(due, key=lambda wake: (-PRIORITIES.index(wake.priority), *_when(wake)))


def _when(wake: Wake) -> tuple[str, int, Name, int]:
    return wake.due, -PRIORITIES.index(wake.priority), wake.name, wake.seq
