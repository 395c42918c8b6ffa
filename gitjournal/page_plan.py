"""What stands where on a page of a session, worked out before the first line of it is written.

Floor 5. One pass over the events: which result belongs to which call, where the turns begin and what they cost, what
is sealed, where other branches part. Keeps numbers and names, no texts, so a long session can be written as it is read.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from gitjournal import lineage
from gitjournal.cost import money, used_by
from gitjournal.ledger import Ledger, Scope, Used
from gitjournal.lineage import Line, lines
from gitjournal.refs import Name
from gitjournal.render import clip, entry_gist, read_data
from gitjournal.rules import STRUCTURE
from gitjournal.seal import own_fault
from gitjournal.state import SessionState, StateBuilder
from gitjournal.state_read import begins_turn

if TYPE_CHECKING:
    from gitjournal.event import Event
    from gitjournal.journal import Journal
    from gitjournal.prices import Asked, Prices

#: Where a call or a result stands: seq of the event, and number of the part in it, or `WHOLE`.
Place = tuple[int, int]
#: The number of an event that is a call or result itself.
WHOLE = -1
#: So much of a message stands for its turn, in columns.
_GIST = 90
# What Markdown marks words with.
_MARKS = re.compile(r"\*\*|__|`|^#+ ")
# Above and below a block of code, with the name of its language.
_FENCE = re.compile(r"^ {0,3}(?:`{3}|~{3}).*$", re.MULTILINE)

Part = dict[str, Any]


class Source(NamedTuple):
    """A branch as a page reads it."""

    name: Name
    #: All events, oldest first; asked for twice.
    events: Callable[[], Iterator[Event]]
    #: One event, in constant time.
    event: Callable[[int], Event]
    #: All branches of the session.
    lines: Sequence[Line] = ()


def source_of(journal: Journal, name: Name, only: Collection[int] | None = None) -> Source:
    """A branch as it is now; with ``only``, all events but these without their payload. NotFound."""
    chain = journal.chain(name)
    head = journal.head(name).seq

    def shown(event: Event) -> Event:
        plain = only is None or event.seq in only or event.type in STRUCTURE or event.withheld
        return event if plain else event.withhold()

    return Source(
        name,
        lambda: map(shown, chain.events(0, head)),
        lambda seq: shown(chain.event(seq)),
        lines(journal, name.session),
    )


@dataclass(slots=True)
class Call:
    """What became of a tool call."""

    result: Place | None = None
    #: Events that say it again (``tool.call``), or whether it may run (``tool.confirmation``).
    events: list[int] = field(default_factory=list)


@dataclass(slots=True)
class Turn:
    """A message of the user and all that follows until the next one."""

    seq: int
    ts: str
    gist: str
    #: What the responses used that were seen first in this turn.
    used: Used = field(default_factory=Used)
    calls: int = 0
    errors: int = 0

    @property
    def tokens(self) -> tuple[int, int]:
        """Input and output."""
        return self.used.input, self.used.output


class Seal(NamedTuple):
    """A seal as it says itself; nobody has checked it."""

    seq: int
    size: int
    keys: Sequence[str]


@dataclass(slots=True)
class Plan:
    """What `plan` has found."""

    state: SessionState
    #: What all responses used, those before the first turn too.
    used: Used = field(default_factory=Used)
    #: Of the prices; empty when there are none.
    currency: str = ""
    turns: list[Turn] = field(default_factory=list)
    calls: dict[Place, Call] = field(default_factory=dict)
    #: The call that each result is shown with.
    results: dict[Place, Place] = field(default_factory=dict)
    #: Events that are shown with a call, but its result.
    beside: set[int] = field(default_factory=set)
    seals: list[Seal] = field(default_factory=list)
    #: Branches that part after an event of this one.
    forks: dict[int, list[Line]] = field(default_factory=dict)

    def cost(self, used: Used) -> str:
        """What something cost, for people; empty without prices."""
        return money(used, self.currency) if self.currency else ""

    def rest(self, event: Event, data: Mapping[str, Any]) -> list[tuple[int, Part]] | None:
        """The parts of an event that are shown in its own place; None when all of it is shown with calls."""
        if event.seq in self.beside or (event.seq, WHOLE) in self.results:
            return None
        parts = parts_of(data)
        rest = [(number, part) for number, part in parts if (event.seq, number) not in self.results]
        return rest if rest or not parts else None


def parts_of(data: Mapping[str, Any]) -> list[tuple[int, Part]]:
    """The message parts of a payload with their numbers; what is none comes as a part of type ``other``."""
    parts = data.get("parts")
    if isinstance(parts, str):
        parts = [{"type": "text", "content": parts}]
    return [(n, part_of(item)) for n, item in enumerate(parts)] if isinstance(parts, list) else []


def part_of(item: Any) -> Part:
    """A message part, or a part of type ``other`` with what is there instead."""
    return item if isinstance(item, dict) and isinstance(item.get("type"), str) else {"type": "other", "value": item}


def _unfenced(part: Part) -> Part:
    content = part.get("content")
    return {**part, "content": _FENCE.sub("", content)} if isinstance(content, str) else part


def headed(events: Iterable[Event]) -> Iterator[tuple[Event, Mapping[str, Any] | None, bool]]:
    """Each event with its payload (None when it cannot be read), and whether the heading of a turn stands before it.

    That belongs before the ``turn.start`` which a recorder writes right before the message of the user.
    """
    held: tuple[Event, Mapping[str, Any] | None] | None = None
    for event in events:
        data = {} if event.withheld else read_data(event)
        begins = begins_turn(event, data or {})
        if held is not None:
            yield (*held, begins)
            held, begins = None, False
        if event.type == "turn.start":
            held = event, data
        else:
            yield event, data, begins
    if held is not None:
        yield (*held, False)


def is_edge(event: Event, data: Mapping[str, Any] | None) -> bool:
    """Whether an event says no more than that a turn begins, or has ended as it should."""
    if event.withheld or data is None:
        return False
    return (event.type, data) in (("turn.start", {}), ("turn.end", {"outcome": "completed"}))


def plan(source: Source, prices: Prices | None = None) -> Plan:
    """Read all events once. Raises what reading them raises."""
    found = _Planner().read(source, prices)
    found.forks = _forks(source)
    return found


class _Planner:
    def __init__(self) -> None:
        # All that is on the page counts, whatever session it was written to.
        self._ledger = Ledger(Scope())
        # How many responses were seen before each turn.
        self._seen: list[int] = []
        self._builder = StateBuilder(history=False)
        self._plan = Plan(SessionState())
        self._open: dict[str, Place] = {}
        self._before = SessionState()

    def read(self, source: Source, prices: Prices | None) -> Plan:
        whole = lineage.Part(source.name, 0, 0, None)
        self._ledger.read(whole, map(self._push, source.events()), None, set())
        self._end_turn()
        self._plan.state = self._before
        self._add_up(prices)
        return self._plan

    def _add_up(self, prices: Prices | None) -> None:
        """Give each response to the turn where it was seen first."""
        self._plan.currency = prices.currency if prices else ""
        known: dict[Asked, Any] = {}
        for number, response in enumerate(self._ledger.responses):
            used = used_by(response, prices, known)
            self._plan.used.add(used)
            turn = bisect_right(self._seen, number)
            if turn:
                self._plan.turns[turn - 1].used.add(used)

    def _push(self, event: Event) -> Event:
        """Note an event, before the ledger counts it."""
        data = (None if event.withheld else read_data(event)) or {}
        if begins_turn(event, data):
            self._end_turn()
            said = entry_gist([_unfenced(part) for _, part in parts_of(data)])
            gist = clip(_MARKS.sub("", said).strip(), _GIST)
            self._plan.turns.append(Turn(event.seq, event.ts, gist))
            self._seen.append(len(self._ledger.responses))
        self._pair(event, data)
        if event.type == "session.seal" and not own_fault(event):
            self._plan.seals.append(Seal(event.seq, data["size"], [one["key"] for one in data["signatures"]]))
        self._builder.push(event)
        return event

    def _end_turn(self) -> None:
        state, before = self._builder.state(), self._before
        if self._plan.turns:
            turn = self._plan.turns[-1]
            turn.calls = state.tool_calls - before.tool_calls
            turn.errors = len(state.errors) - len(before.errors)
        self._before = state

    def _pair(self, event: Event, data: Mapping[str, Any]) -> None:
        if event.type in ("tool.call", "tool.confirmation") and self._beside(event, data):
            return
        if event.type == "tool.call":
            self._call(data, (event.seq, WHOLE))
        elif event.type == "tool.result" and "parts" not in data:
            self._result(data, (event.seq, WHOLE))
        elif event.type in ("message", "model.response", "tool.result"):
            for number, part in parts_of(data):
                if part["type"] == "tool_call":
                    self._call(part, (event.seq, number))
                elif part["type"] == "tool_call_response":
                    self._result(part, (event.seq, number))

    def _beside(self, event: Event, data: Mapping[str, Any]) -> bool:
        """Put an event with an open call that it is about."""
        ident = data.get("id")
        known = self._open.get(ident) if isinstance(ident, str) else None
        if known is not None:
            self._plan.beside.add(event.seq)
            self._plan.calls[known].events.append(event.seq)
        return known is not None

    def _call(self, part: Mapping[str, Any], place: Place) -> None:
        ident = part.get("id")
        if isinstance(ident, str) and ident and ident not in self._open:
            self._open[ident] = place
            self._plan.calls[place] = Call()

    def _result(self, part: Mapping[str, Any], place: Place) -> None:
        ident = part.get("id")
        call = self._open.pop(ident, None) if isinstance(ident, str) else None
        if call is not None:
            self._plan.calls[call].result = place
            self._plan.results[place] = call


def _forks(source: Source) -> dict[int, list[Line]]:
    """The branches that part from the events of this one, wherever those were written, by the event before."""
    known = {line.name: line for line in source.lines}
    # This line and those that it has its beginning from, with the last event that it has from each.
    shared: dict[Name, int] = {}
    at, reach = known.get(source.name), 0
    while at is not None and at.name not in shared:
        reach = min(reach, at.head) if shared else at.head
        shared[at.name] = reach
        reach = min(reach, at.begin.after)
        at = known.get(at.begin.parent) if at.begin.parent else None
    found: dict[int, list[Line]] = {}
    for line in source.lines:
        parent, after = line.begin.parent, line.begin.after
        if line.name not in shared and parent in shared and after <= shared[parent]:
            found.setdefault(after, []).append(line)
    return found
