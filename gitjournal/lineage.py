"""How branches hang together: what they have in common, where each begins, and from which.

Floor 3. Hashes decide: an equal event hash at n means that the events 1 to n are the same. What events say of their
origin only makes it quick to find. The derived index of `seqindex` is a hint whose answer is checked, never written.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from gitjournal.chain import branch_origin
from gitjournal.errors import JournalError
from gitjournal.refs import TRUNK, Name

if TYPE_CHECKING:
    from gitjournal.chain import Chain
    from gitjournal.event import Event
    from gitjournal.journal import Journal


#: Gives the branches whose line begins with one of these events (hashes); more may be among them, but none is missing.
Beginning = Callable[[Collection[str]], Iterable[Name]]

#: Events that are in memory at once when a branch is read backwards.
_PIECE = 128


# --- what is the same ----------------------------------------------------------------------------


def common(one: Chain, other: Chain) -> int:
    """How many first events two branches share, of whatever sessions; reads about 2 log2(n) events, not n."""
    heads = [chain.head() for chain in (one, other)]
    return _agree(one, other, 0, min(head.seq if head else 0 for head in heads))


def _agree(one: Chain, other: Chain, low: int, high: int) -> int:
    """The last event up to ``high`` that is the same in both; they are the same up to ``low``."""
    if low >= high or _is_same(one, other, high):
        return max(low, high)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if _is_same(one, other, middle) else (low, middle)
    return low


def _is_same(one: Chain, other: Chain, seq: int) -> bool:
    return one.event(seq).hash == other.event(seq).hash


class Part(NamedTuple):
    """What a branch has that none before it had: events ``after`` < seq <= ``head``.

    Event ``after`` is in the part of branch ``parent``, which is None when there is nothing before.
    """

    name: Name
    after: int
    head: int
    parent: Name | None


class _Node:
    """A part with the parts that go on from it, by the place where they do and the hash of their first event."""

    __slots__ = ("chain", "children", "part", "up")

    def __init__(self, part: Part, chain: Chain, up: _Node | None) -> None:
        self.part = part
        self.chain = chain
        self.up = up
        self.children: dict[tuple[int, str], _Node] = {}


class Once:
    """Takes branches one after the other, and says of each what none before it had: each event counts once.

    A journal that lies about its forks, or has a line twice, changes nothing in that.
    """

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._roots: dict[tuple[int, str], _Node] = {}
        self._nodes: dict[Name, _Node] = {}

    def add(self, name: Name, declared: Begin | None = None) -> Part | None:
        """The part of branch ``name``; None when it has no event. ``declared``: where it says that it begins."""
        chain = self._journal.chain(name)
        head = chain.head()
        if head is None:
            return None
        up, after = self._declared(chain, head.seq, declared) or self._walk(chain, head.seq)
        part = Part(name, after, head.seq, up.part.name if up else None)
        node = self._nodes[name] = _Node(part, chain, up)
        if after < head.seq:
            (up.children if up else self._roots)[after, chain.event(after + 1).hash] = node
        return part

    def _declared(self, chain: Chain, head: int, begin: Begin | None) -> tuple[_Node, int] | None:
        """Where the branch hangs, if it is where it says: a few looks instead of a search."""
        node = self._nodes.get(begin.parent) if begin and begin.parent else None
        if begin is None or node is None or not 1 <= begin.after < head:
            return None
        after = begin.after
        while node.up and after <= node.part.after:
            node = node.up
        if after > node.part.head or not _is_same(chain, node.chain, after):
            return None
        parts = (after, chain.event(after + 1).hash) not in node.children
        ends = after == node.part.head or not _is_same(chain, node.chain, after + 1)
        return (node, after) if parts and ends else None

    def _walk(self, chain: Chain, head: int) -> tuple[_Node | None, int]:
        """Down from the beginning, as far as some branch goes along."""
        up: _Node | None = None
        after, level = 0, self._roots
        while after < head:
            node = level.get((after, chain.event(after + 1).hash))
            if node is None:
                break
            after = _agree(chain, node.chain, after + 1, min(head, node.part.head))
            up, level = node, node.children
        return up, after


# --- where a branch says that it begins ----------------------------------------------------------


class Begin(NamedTuple):
    """Where a branch begins: its own events are those with seq > ``after``, and ``parent`` has the ones before.

    ``parent`` is None, and ``after`` 0, for a line that begins at event 1 or whose parent is not in the journal.
    """

    after: int = 0
    parent: Name | None = None


def begins(journal: Journal, name: Name) -> Begin:
    """Where branch ``name`` begins. A parent that is not here, or has another event in that place, counts as none.

    What a session was forked from may have another name by now.
    """
    chain = journal.chain(name)
    after, parent = said(chain)
    mine = _at(chain, after) if parent else None
    if parent is None or mine is None:
        return Begin()
    theirs = _at(journal.chain(parent), after)
    if (theirs is None or theirs.hash != mine.hash) and parent.session != name.session:
        damaged: dict[Name, JournalError] = {}
        there = parts(journal, journal.branches(parent.session), damaged)
        # Of those that have the event, the first one is the one that it was written to.
        for one in (part.name for part in there if after <= part.head):
            if journal.chain(one).event(after).hash == mine.hash:
                return Begin(after, one)
    return Begin(after, parent) if theirs and theirs.hash == mine.hash else Begin()


def declared(chain: Chain) -> Begin:
    """Where a branch says that it begins; ``parent`` may be gone."""
    first = _at(chain, 1)
    if first is not None and first.session == chain.name.session and chain.name.branch == TRUNK:
        return Begin()
    bounds = chain.index.bounds()
    hinted = _at(chain, bounds[0]) if bounds else None
    if hinted is not None and (found := _begin(chain, hinted)) and found.after == hinted.seq - 1:
        return found
    # The newest declaration counts (docs/format.md section 8), and no branch is read further than it reaches.
    newest = declaration(chain)
    return (_begin(chain, newest) if newest else None) or Begin()


def declaration(chain: Chain) -> Event | None:
    """The newest event that gives this very branch its name; None when none does."""
    head = chain.head()
    events = backwards(chain, 1, head.seq if head else 0)
    return next((event for event in events if _begin(chain, event)), None)


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


# --- the branches of a session -------------------------------------------------------------------


class Line(NamedTuple):
    """One branch of a session: its name, its newest seq, and where it begins."""

    name: Name
    head: int
    begin: Begin


def parts(journal: Journal, names: Iterable[Name], failed: dict[Name, JournalError] | None = None) -> list[Part]:
    """The parts of branches, each event in one of them: a branch comes after the one that it says it begins on.

    A branch that cannot be read is noted in ``failed`` and left out; without that, its error is raised.
    """
    once = Once(journal)
    found = []
    for name, begin in _in_order(journal, names):
        try:
            part = once.add(name, begin)
        except JournalError as error:
            if failed is None:
                raise
            failed[name] = error
        else:
            found += [part] if part else []
    return found


def _in_order(journal: Journal, names: Iterable[Name]) -> list[tuple[Name, Begin]]:
    """Parents before their children; last what is no trunk and does not say where it begins."""
    begun = [(name, said(journal.chain(name))) for name in names]
    return sorted(begun, key=lambda one: (one[0].branch != TRUNK and not one[1].parent, one[1].after, one[0]))


def said(chain: Chain) -> Begin:
    """`declared`; of a branch that cannot be read, that it begins by itself."""
    try:
        return declared(chain)
    except JournalError:
        return Begin()


def lines(journal: Journal, session: str, failed: dict[Name, JournalError] | None = None) -> list[Line]:
    """All branches of a session, the trunk first, each with the branch that really holds what is before it.

    A branch of ``try`` at an event that ``try`` itself has from ``main`` hangs on ``main``, and so does one whose
    parent is gone, if ``main`` is what it still has something in common with. One that cannot be read at all is left
    out, and noted in ``failed``.
    """
    damaged: dict[Name, JournalError] = {}
    found = parts(journal, journal.branches(session), damaged)
    listed = []
    for name in (*damaged, *(part.name for part in found)):
        try:
            listed.append(_line(journal, name, next((part for part in found if part.name == name), None)))
        except JournalError as error:
            if failed is not None:
                failed[name] = error
    return sorted(listed, key=lambda line: (line.name.branch != TRUNK, line.name.branch))


def _line(journal: Journal, name: Name, part: Part | None) -> Line:
    """A branch by its part; without one, which only a damaged branch is, as what it says of itself."""
    if part is None:
        head = journal.head(name).seq
        journal.chain(name).event(head)
        return Line(name, head, begins(journal, name))
    return Line(name, part.head, Begin(part.after, part.parent) if part.parent else begins(journal, name))


def forks(journal: Journal, session: str, beginning: Beginning | None = None) -> dict[Name, list[Begin]]:
    """The sessions that go on from events of this one: for each of its branches (fork, seq), sorted by seq.

    Opens those that ``beginning`` names; without it every session of the journal.
    """
    found: dict[Name, list[Begin]] = {}
    firsts = {first.hash for name in journal.branches(session) if (first := _at(journal.chain(name), 1))}
    for name in beginning(firsts) if beginning else journal.sessions():
        if name.session == session or name.branch != TRUNK:
            continue
        begin = begins(journal, name)
        if begin.parent is not None and begin.parent.session == session:
            found.setdefault(begin.parent, []).append(Begin(begin.after, name))
    return {parent: sorted(all_of_it) for parent, all_of_it in found.items()}
