"""How the branches of one session hang together: where each begins, and from which.

Floor 5. Reads events only; the derived index of `seqindex` is a hint whose answer is checked, and never written.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from gitjournal.chain import branch_origin
from gitjournal.errors import JournalError
from gitjournal.refs import TRUNK, Name

if TYPE_CHECKING:
    from gitjournal.chain import Chain
    from gitjournal.event import Event
    from gitjournal.journal import Journal


#: Events that are in memory at once when a branch is read backwards.
_PIECE = 128


class Begin(NamedTuple):
    """Where a branch begins: its own events are those with seq > ``after``, and ``parent`` has the ones before.

    ``parent`` is None, and ``after`` 0, for a line that begins at event 1 or whose parent is not in the journal.
    """

    after: int = 0
    parent: Name | None = None


def begins(journal: Journal, name: Name) -> Begin:
    """Where branch ``name`` begins. A parent that is not here, or has no such event, counts as none."""
    found = _declared(journal.chain(name))
    if found.parent is None:
        return Begin()
    head = journal.chain(found.parent).head()
    return found if head is not None and head.seq >= found.after else Begin()


def _declared(chain: Chain) -> Begin:
    first = _at(chain, 1)
    if first is not None and first.session == chain.name.session and chain.name.branch == TRUNK:
        return Begin()
    bounds = chain.index.bounds()
    hinted = _at(chain, bounds[0]) if bounds else None
    if hinted is not None and (found := _begin(chain, hinted)) and found.after == hinted.seq - 1:
        return found
    # The newest declaration counts (docs/format.md section 8), and no branch is read further than it reaches.
    head = chain.head()
    declared = (_begin(chain, event) for event in backwards(chain, 1, head.seq if head else 0))
    return next(filter(None, declared), Begin())


def backwards(chain: Chain, first: int, last: int) -> Iterator[Event]:
    """Events ``last`` down to ``first``, read forwards in pieces, so that memory stays bounded."""
    while last >= first:
        begin = max(first, last - _PIECE + 1)
        yield from reversed(list(chain.events(begin - 1, last)))
        last = begin - 1


def _at(chain: Chain, seq: int) -> Event | None:
    try:
        return chain.event(seq)
    except JournalError:
        return None


def _begin(chain: Chain, event: Event) -> Begin | None:
    """The beginning that an event declares, if it is that of this very branch."""
    origin = branch_origin(event)
    if origin is None or event.session != chain.name.session or not 1 <= origin[1] < event.seq:
        return None
    branch = TRUNK if event.type == "session.fork" else event.stored_data.get("branch")
    return Begin(origin[1], origin[0]) if branch == chain.name.branch else None


class Line(NamedTuple):
    """One branch of a session: its name, its newest seq, and where it begins."""

    name: Name
    head: int
    begin: Begin


def lines(journal: Journal, session: str) -> list[Line]:
    """All branches of a session, the trunk first, each with the branch that really holds what is before it.

    A branch of ``try`` at an event that ``try`` itself has from ``main`` hangs on ``main``.
    """
    names = [name for name in journal.sessions() if name.session == session]
    names.sort(key=lambda name: (name.branch != TRUNK, name.branch))
    found: dict[Name, Line] = {}
    for name in names:
        head = journal.chain(name).head()
        if head is not None:
            found[name] = Line(name, head.seq, begins(journal, name))
    return [line._replace(begin=_owner(line.begin, found)) for line in found.values()]


def _owner(begin: Begin, known: dict[Name, Line]) -> Begin:
    parent = begin.parent
    # As many steps as there are lines: a journal may say that two branches begin on each other.
    for _ in range(len(known)):
        if parent is None or parent not in known or begin.after > known[parent].begin.after:
            break
        parent = known[parent].begin.parent
    return Begin(begin.after, parent)
