"""Counts what sessions have used, event by event.

Floor 5; `cost` says of which events, and puts the counters together. The rules are those of `state`, for many lines:
an event counts once, for the session and branch that it was written to, and a provider response once, with its largest
counters, for the place where it was seen first. Lines of one id whose providers are named and differ are responses of
their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Any, NamedTuple

from gitjournal.errors import JournalError
from gitjournal.event import Event, may_hold_tags
from gitjournal.lineage import Part
from gitjournal.prices import EXACT
from gitjournal.refs import TRUNK, Name
from gitjournal.state_form import is_same_call
from gitjournal.state_read import Data, Reader, begins_turn
from gitjournal.vocabulary import DENIED, INTERRUPTED, USAGE


class Place(NamedTuple):
    """Where something counts: the session and branch that it was written to, and its UTC day."""

    session: str
    branch: str
    day: str


@dataclass(slots=True)
class Used:
    """Counters. Input includes cache, output includes reasoning (docs/events.md)."""

    events: int = 0
    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    reasoning: int = 0
    user_turns: int = 0
    model_turns: int = 0
    tool_calls: int = 0
    #: Results with ``is_error``.
    tool_errors: int = 0
    #: Events of type ``error``.
    errors: int = 0
    #: ``ts`` of the first and last event that counts, by the clocks of their writers.
    first: str | None = None
    last: str | None = None
    #: Sum of the times from ``turn.start`` to ``turn.end``.
    turn_ms: int = 0
    #: Sum of what has a price; None without a table.
    cost: Decimal | None = None
    #: Tokens without a price, by model and kind (`prices.KINDS`).
    unpriced: dict[str, dict[str, int]] = field(default_factory=dict)

    def add(self, other: Used) -> None:
        """Add the counters of another."""
        for name in _SUMS:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.see(other.first, other.last)
        if other.cost is not None:
            self.cost = EXACT.add(self.cost or Decimal(0), other.cost)
        for model, tokens in other.unpriced.items():
            self.miss(model, tokens)

    def see(self, first: str | None, last: str | None) -> None:
        """Widen the time from ``first`` to ``last``."""
        self.first = min(filter(None, (self.first, first)), default=None)
        self.last = max(filter(None, (self.last, last)), default=None)

    def miss(self, model: str, tokens: Mapping[str, int]) -> None:
        """Note tokens of a model that have no price."""
        there = self.unpriced.setdefault(model, {})
        for kind, count in tokens.items():
            there[kind] = there.get(kind, 0) + count

    def as_dict(self) -> dict[str, Any]:
        """For JSON; the cost as text, so that nobody rounds it. Prices and their gaps only if there is a table."""
        plain: dict[str, Any] = {name: getattr(self, name) for name in (*_SUMS, "first", "last")}
        if self.cost is not None:
            plain |= {"cost": f"{self.cost.normalize(EXACT):f}", "unpriced": self.unpriced}
        return plain


_SUMS = (
    "events", "input", "output", "cache_read", "cache_write", "reasoning", "user_turns", "model_turns", "tool_calls",
    "tool_errors", "errors", "turn_ms",
)  # fmt: skip


#: The tool of a call or result that names none.
_UNNAMED = "?"


class Response:
    """One provider response: its largest counters, and where it was seen first."""

    __slots__ = ("counts", "place", "provider", "requested", "shown", "spoke")

    def __init__(self, place: Place | None, spoke: bool) -> None:
        #: None: it is from before the time that is asked for.
        self.place = place
        self.counts = [0] * len(USAGE)
        self.spoke = spoke
        self.shown = self.requested = self.provider = ""

    @property
    def model(self) -> str:
        """The model that answered, else the one that was asked for; empty when nobody says."""
        return self.shown or self.requested


class Scope(NamedTuple):
    """What is counted: the events of ``sessions`` (None: of all), on ``branches`` of them (None: on all).

    ``below`` are the sub-sessions among them: those that name one of the others as their parent. ``unknown`` are
    sessions that cannot be read, and why: whether they belong to them nobody knows.
    """

    sessions: frozenset[str] | None = None
    branches: frozenset[Name] | None = None
    below: tuple[str, ...] = ()
    unknown: tuple[tuple[str, str], ...] = ()


class Turn(NamedTuple):
    """A turn that is open: its id, the ``ts`` of its start, and that of the last of its events that was work."""

    id: str
    begun: str
    seen: str


class Open(NamedTuple):
    """What is open on a line: tool calls (name by id), and the turn."""

    calls: dict[str, str | None]
    turn: Turn | None


class Ledger(Reader):
    """Takes the events of one part of a line after the other, and keeps what they used."""

    def __init__(self, what: Scope, since: str = "") -> None:
        """Counts the events that are meant, from ``since`` (a ``ts``) on."""
        super().__init__()
        self._what = what
        self._since = since
        self.cells: dict[tuple[Place, str], Used] = {}
        self.responses: list[Response] = []
        #: How many responses are in more than one session.
        self.repeated = 0
        #: Branches that could not be read, or not to their end.
        self.unread: dict[Name, JournalError] = {}
        # More than one under an id only if their providers say that they have nothing to do with each other.
        self._by_id: dict[str, tuple[Response, ...]] = {}
        self._repeated: set[Response] = set()
        self._open: dict[str, str | None] = {}
        self._turn: Turn | None = None
        self._place = Place("", "", "")
        self._meant = self._in = False

    def fresh(self) -> Ledger:
        """A ledger that has counted nothing, and knows the responses that this one has seen."""
        ledger = Ledger(self._what, self._since)
        ledger._by_id = dict(self._by_id)
        return ledger

    def read(self, part: Part, events: Iterable[Event], before: Open | None, forks: set[int]) -> dict[int, Open]:
        """Count the events of a part, which goes on from the calls ``before``; what is open after each of ``forks``."""
        self._open = dict(before.calls) if before else {}
        self._turn = before.turn if before else None
        branch = TRUNK
        left: dict[int, Open] = {}
        for number, event in enumerate(events):
            if self._turn and number == 0:
                # A turn that goes on in two branches takes time in each from where they part.
                self._turn = Turn(self._turn.id, event.ts, event.ts)
            kind, session = event.type, event.session
            if kind == "session.branch":
                branch = self._text(event.stored_data, "branch") or branch
            elif kind == "session.fork":
                branch = TRUNK
            # Of what a fork has inherited, the events say which branch they were written to.
            self._push(event, kind, session, part.name.branch if session == part.name.session else branch)
            if event.seq in forks:
                left[event.seq] = Open(dict(self._open), self._turn)
        return left

    def _push(self, event: Event, kind: str, session: str, branch: str) -> None:
        ts = event.ts
        if self._place != (session, branch, ts[:10]):
            self._place = Place(session, branch, ts[:10])
            sessions, branches = self._what.sessions, self._what.branches
            self._meant = sessions is None or session in sessions
            self._meant &= branches is None or Name(session, branch) in branches
        self._in = self._meant and ts >= self._since
        if self._in:
            cell = self._cell("")
            cell.events += 1
            # The first and last of a day are not those of its lines: several sessions go on in it.
            if cell.first is None or ts < cell.first:
                cell.first = ts
            if cell.last is None or ts > cell.last:
                cell.last = ts
        data = self._stored(event) if kind in _HANDLERS and not event.withheld else None
        if data is not None:
            _HANDLERS[kind](self, event, data)
        if self._turn and event.turn == self._turn.id and not (data and data.get("code") in (INTERRUPTED, DENIED)):
            self._turn = self._turn._replace(seen=event.ts)

    def _cell(self, tool: str) -> Used:
        """Where a tool's use counts now; under the empty name what is no tool's. Nobody sees it if it does not."""
        if not self._in:
            return Used()
        key = self._place, tool
        cell = self.cells.get(key)
        if cell is None:
            cell = self.cells[key] = Used()
        return cell

    # --- handlers, as in `state` -----------------------------------------------------------------

    def _on_message(self, event: Event, data: Data) -> None:
        if begins_turn(event, data):
            self._cell("").user_turns += 1
        self._tools(self._parts(data, "parts"))

    def _on_response(self, event: Event, data: Data) -> None:
        parts = self._parts(data, "parts")
        if not self._meant:
            # A branch that is not asked for has no part in what a response used on one that is.
            self._tools(parts)
            return
        name, provider = self._text(data, "response.id"), self._text(data, "provider.name") or ""
        known = self._by_id.get(name, ()) if name else ()
        found = next((one for one in known if provider in ("", one.provider) or not one.provider), None)
        if found is None:
            found = self._new(name, bool(name or parts))
        elif found.place is not None and found.place.session != self._place.session:
            self._repeated.add(found)
            self.repeated = len(self._repeated)
        found.counts = list(map(max, found.counts, self._counts(data)))
        found.shown = found.shown or self._text(data, "response.model") or ""
        found.requested = found.requested or self._text(data, "request.model") or ""
        found.provider = found.provider or provider
        self._tools(parts)

    def _new(self, name: str | None, spoke: bool) -> Response:
        found = Response(self._place if self._in else None, spoke)
        if name:
            self._by_id[name] = (*self._by_id.get(name, ()), found)
        if self._in:
            self.responses.append(found)
        return found

    def _on_call(self, event: Event, data: Data) -> None:
        self._call(data)

    def _on_result(self, event: Event, data: Data) -> None:
        if "parts" in data:
            self._tools(self._parts(data, "parts"))
        else:
            self._answer(data)

    def _on_error(self, event: Event, data: Data) -> None:
        self._cell("").errors += 1

    def _on_turn_start(self, event: Event, data: Data) -> None:
        if event.turn is not None:
            self._turn = Turn(event.turn, event.ts, event.ts)

    def _on_turn_end(self, event: Event, data: Data) -> None:
        if self._turn is not None and self._turn.id == event.turn:
            # Who ends a turn that a crash has left open comes whenever it may be: it ended with its last event.
            end = self._turn.seen if data.get("outcome") == INTERRUPTED else event.ts
            # A clock that went back in between makes no time.
            self._cell("").turn_ms += max(_milliseconds(end) - _milliseconds(self._turn.begun), 0)
            self._turn = None

    # --- what handlers share ---------------------------------------------------------------------

    def _tools(self, parts: list[Any]) -> None:
        for part in parts:
            if part["type"] == "tool_call":
                self._call(part)
            elif part["type"] == "tool_call_response":
                self._answer(part)

    def _call(self, part: Data) -> None:
        call_id, name = self._text(part, "id"), self._text(part, "name")
        if call_id:
            if call_id in self._open and is_same_call(self._open[call_id], name):
                return
            self._open[call_id] = name
        self._cell(_UNNAMED if name is None else name).tool_calls += 1

    def _answer(self, part: Data) -> None:
        name = self._open.pop(self._text(part, "id") or "", None)
        if part.get("is_error") is True:
            self._cell(_UNNAMED if name is None else name).tool_errors += 1

    def _stored(self, event: Event) -> Data:
        """The payload without its side files, unless one of those is what is counted here."""
        data = event.stored_data
        return self._data(event) if may_hold_tags(event.raw) and _is_tagged(data) else data


_HANDLERS: dict[str, Callable[[Ledger, Event, Data], None]] = {
    "message": Ledger._on_message,
    "model.response": Ledger._on_response,
    "tool.call": Ledger._on_call,
    "tool.result": Ledger._on_result,
    "error": Ledger._on_error,
    "turn.start": Ledger._on_turn_start,
    "turn.end": Ledger._on_turn_end,
}
_READ = (
    "role",
    "sidechain",
    "injected",
    "continues",
    "id",
    "name",
    "is_error",
    "response.id",
    "response.model",
    "request.model",
    "provider.name",
)


def _is_tagged(data: Data) -> bool:
    """Whether a tag stands for something that is read here."""
    usage, parts = data.get("usage"), data.get("parts")
    read = [data.get(name) for name in _READ]
    read += usage.values() if isinstance(usage, dict) else ()
    for part in parts if isinstance(parts, list) else (parts,):
        read += [part.get(name) for name in ("type", "id", "name", "is_error")] if isinstance(part, dict) else ()
    return any(isinstance(value, dict) for value in (*read, usage if _tag(usage) else None, parts))


def _tag(value: Any) -> bool:
    return isinstance(value, dict) and any(name.startswith("$gj:") for name in value)


def _milliseconds(ts: str) -> int:
    return round(datetime.fromisoformat(ts).timestamp() * 1000)
