"""Two branches side by side: what they have in common, and what each has done since.

Floor 5. What is common is found by hashes, so branches of one session, forks and strangers are compared alike.
Everything is streamed; memory does not grow with what was said.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from gitjournal.cost import grouped, total
from gitjournal.lease import held
from gitjournal.ledger import Ledger, Open, Scope, Used
from gitjournal.lineage import Part, common
from gitjournal.state import StateBuilder, Status

if TYPE_CHECKING:
    from gitjournal.event import Event
    from gitjournal.journal import Journal
    from gitjournal.refs import Name

#: What is set side by side. Other events are counted only.
SPOKEN = frozenset({"message", "model.response", "tool.call", "tool.result", "error", "context.compaction"})


class Side(NamedTuple):
    """One of the two: what it has used since they parted, and how it stands at event ``seq``, the last that counts."""

    name: Name
    seq: int
    hash: str
    #: Counters of the events after the common ones.
    used: Used
    #: Tool calls by name, and the models that answered, among the same.
    tools: dict[str, int]
    models: list[str]
    status: Status
    #: Outcome of the last turn that ended after the common events; None when there was none.
    turn: str | None


class Comparison(NamedTuple):
    """Two branches that have the events 1 to ``common`` in common; ``hash`` is that of event ``common``."""

    common: int
    hash: str | None
    left: Side
    right: Side

    @property
    def is_same(self) -> bool:
        """Whether neither has an event of its own."""
        return self.common == self.left.seq == self.right.seq


def compare(journal: Journal, left: tuple[Name, int], right: tuple[Name, int]) -> Comparison:
    """Compare two branches, each up to an event."""
    one, other = journal.chain(left[0]), journal.chain(right[0])
    same = min(common(one, other), left[1], right[1])
    state, ledger = StateBuilder(history=False), Ledger(Scope())
    # What was open where they part, and the responses that had begun, are not used anew.
    events = _through(state, one.events(0, same))
    opened = ledger.read(Part(left[0], 0, same, None), events, None, {same}).get(same)
    frozen = state.freeze()
    sides = [_side(journal, where, same, StateBuilder.thaw(frozen), ledger.fresh(), opened) for where in (left, right)]
    return Comparison(same, one.event(same).hash if same else None, sides[0], sides[1])


def _side(
    journal: Journal, where: tuple[Name, int], same: int, state: StateBuilder, ledger: Ledger, opened: Open | None
) -> Side:
    name, seq = where
    chain = journal.chain(name)
    ledger.read(Part(name, same, seq, name), _through(state, chain.events(same, seq)), opened, set())
    tools = {tool: used.tool_calls for tool, used in grouped(ledger, "tool").items() if used.tool_calls}
    models = [model for model in grouped(ledger, "model") if model]
    found = state.state()
    turn = found.last_turn["outcome"] if found.last_turn and found.last_turn["seq"] > same else None
    # Who writes to the branch now says nothing of how it stood at an earlier event.
    live = seq == journal.head(name).seq and held(chain.lease_path)
    used = total(grouped(ledger))
    return Side(name, seq, chain.event(seq).hash, used, tools, models, found.status(live), turn)


def _through(state: StateBuilder, events: Iterable[Event]) -> Iterator[Event]:
    for event in events:
        state.push(event)
        yield event


def entries(journal: Journal, side: Side, common: int) -> Iterator[Event]:
    """What was said on one side after the common events, in order."""
    return (event for event in journal.events(side.name, common, side.seq) if event.type in SPOKEN)


def says_the_same(one: Event | None, other: Event | None) -> bool:
    """Whether two events say the same, each in its place."""
    if one is None or other is None or one.withheld or other.withheld:
        return False
    # Side files by their hashes: the tags that stand for them are numbers only.
    said = [(event.type, event.actor, event.stored_data, event.files) for event in (one, other)]
    return said[0] == said[1]
