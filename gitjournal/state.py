"""State of a session as a fold over its events (docs/events.md).

Floor 3; imports floor 0 only. `fold` is the only place that turns events into state, a pure function of their
order along the branch: no clock, no I/O of its own, and ``ts`` orders nothing.

Damage is the business of verification. Here, data that does not have the shape of docs/events.md is passed over
and noted under ``odd``; types that the vocabulary does not have are counted and otherwise ignored.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Mapping
from copy import copy
from dataclasses import dataclass, field, fields
from typing import Any

from gitjournal.errors import FormatError, UsageError
from gitjournal.event import Event
from gitjournal.foreign import wrap_value
from gitjournal.refs import TRUNK

#: Token counters, by their OpenTelemetry names. Input includes cache, output includes reasoning.
USAGE = (
    "gen_ai.usage.input_tokens",
    "gen_ai.usage.output_tokens",
    "gen_ai.usage.cache_read.input_tokens",
    "gen_ai.usage.cache_creation.input_tokens",
    "gen_ai.usage.reasoning.output_tokens",
)
_NO_USAGE = (0,) * len(USAGE)
# Bytes come from tags in stored data, which has at most 64 levels; the state adds a few.
_BYTES_LEVEL = 70

Entry = dict[str, Any]
Data = Mapping[str, Any]


@dataclass(slots=True)
class SessionState:
    """What a session is after some event. Plain data; lists are in the order of ``seq``.

    An *entry* is ``{"seq", "actor", "role", "kind", "parts"}``, where ``kind`` is the event's type. Entries refer
    to the data of their events, so do not change them.
    """

    session: str = ""
    #: Name of the branch: the newest ``session.branch`` since the session began, else ``main``.
    branch: str = TRUNK
    #: Position and hash of the newest event; 0 and None before the first.
    last_seq: int = 0
    last_hash: str | None = None
    #: ``ts`` of the first and of the newest event by seq, even if the clock went back in between.
    started: str | None = None
    updated: str | None = None
    #: Fixed by ``session.start``; branches and forks inherit them and cannot change them.
    trust: str | None = None
    source: str | None = None
    #: All data of ``session.start``.
    start: dict[str, Any] = field(default_factory=dict)
    #: Transcript: everything that was said. Only ever grows.
    history: list[Entry] = field(default_factory=list)
    #: What the model sees now: history as changed by compactions.
    context: list[Entry] = field(default_factory=list)
    #: Sum of each counter of `USAGE`, once per provider response.
    usage: dict[str, int] = field(default_factory=lambda: dict.fromkeys(USAGE, 0))
    #: Number of messages with role ``user``, and of distinct provider responses.
    turns: dict[str, int] = field(default_factory=lambda: {"user": 0, "model": 0})
    tool_calls: int = 0
    tool_results: int = 0
    #: Calls without a result: ``{"id", "name", "seq"}``.
    open_calls: list[dict[str, Any]] = field(default_factory=list)
    #: Results whose id is not that of an open call.
    unmatched_results: int = 0
    #: ``{"seq", "actor", "type", "message", "where"}``
    errors: list[dict[str, Any]] = field(default_factory=list)
    #: ``{"seq", "from_seq", "to_seq", "keep_last", "kept", "summary"}``; ``kept``: how many entries stayed in context.
    compactions: list[dict[str, Any]] = field(default_factory=list)
    #: ``from`` of the newest ``session.fork``.
    forked_from: dict[str, Any] | None = None
    #: Every ``session.branch`` and ``session.fork`` on the way: ``{"seq", "session", "branch", "from"}``.
    branch_points: list[dict[str, Any]] = field(default_factory=list)
    #: Events without their payload.
    withheld: int = 0
    #: Imported records without a neutral meaning.
    native: int = 0
    #: Types that docs/events.md does not have, with the number of their events.
    unknown: dict[str, int] = field(default_factory=dict)
    #: Events whose data is not as docs/events.md says: ``{"seq", "type", "faults"}``, at most one each.
    odd: list[dict[str, Any]] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        """A copy that `canonical.dumps` takes, the same bytes for the same events.

        What JSON of docs/format.md section 2 cannot hold (lone surrogates, big numbers, deep nesting) comes as
        the tag of section 9, bytes as ``{"base64": text}``.
        """
        plain = _without_bytes({f.name: getattr(self, f.name) for f in fields(self)}, 1)
        return wrap_value(plain)  # type: ignore[no-any-return]


class StateBuilder:
    """The running fold: `push` events in order, ask for the `state` at any time.

    ``history=False`` leaves out ``history``, ``context``, the texts of errors and what compactions kept and
    said, so that memory does not grow with the text of a session. Everything else is the same.
    """

    __slots__ = ("_aside", "_faults", "_full", "_last", "_open", "_responses", "_state")

    def __init__(self, *, history: bool = True) -> None:
        self._full = history
        self._state = SessionState()
        self._last: Event | None = None
        self._open: dict[str, dict[str, Any]] = {}
        # Counters by provider response id: lines of one response repeat its usage, often with growing output.
        self._responses: dict[str, tuple[int, ...]] = {}
        self._faults: set[str] = set()
        # Whether the event is talk of a sub-agent that a source wrote into its parent's session.
        self._aside = False

    def push(self, event: Event) -> None:
        """Take the next event. FormatError ``bad-seq`` when its seq does not follow the one before."""
        state, seq = self._state, event.seq
        if self._last is None:
            state.started = event.ts
        elif seq != self._last.seq + 1:
            # A gap would give a state that never was; callers that filter events would get it silently.
            raise FormatError("bad-seq", f"cannot be folded after event {self._last.seq}", seq=seq)
        self._last = event
        if event.withheld:
            state.withheld += 1
        self._dispatch(event)
        if self._faults:
            state.odd.append({"seq": seq, "type": event.type, "faults": sorted(self._faults)})
            self._faults.clear()

    def state(self) -> SessionState:
        """The state after the newest event. Later pushes do not change it."""
        state = SessionState(**{f.name: copy(getattr(self._state, f.name)) for f in fields(SessionState)})
        state.open_calls = list(self._open.values())
        if self._last is not None:
            state.session, state.last_seq = self._last.session, self._last.seq
            state.last_hash, state.updated = self._last.hash, self._last.ts
        return state

    def _dispatch(self, event: Event) -> None:
        kind = event.type
        handler = _HANDLERS.get(kind)
        if handler is not None:
            if not event.withheld:
                data = self._data(event)
                self._aside = data.get("sidechain") is True
                handler(self, event, data)
        elif kind == "native":
            self._state.native += 1
        elif kind not in _PASSIVE:
            self._state.unknown[kind] = self._state.unknown.get(kind, 0) + 1

    # --- handlers, one per type ------------------------------------------------------------------

    def _on_start(self, event: Event, data: Data) -> None:
        self._state.start = dict(data)
        self._state.trust = self._text(data, "trust")
        self._state.source = self._text(data, "source")

    def _on_message(self, event: Event, data: Data) -> None:
        role = self._text(data, "role", required=True) or "unknown"
        if role == "user" and not self._aside:
            self._state.turns["user"] += 1
        self._enter(event, role, self._spoken(event, data, required=True))

    def _on_response(self, event: Event, data: Data) -> None:
        parts = self._spoken(event, data)
        self._count_response(data, bool(parts))
        self._enter(event, "assistant", parts)

    def _on_call(self, event: Event, data: Data) -> None:
        # The response may have said this call already, in a part: then it is one call, and one entry.
        if self._call(event, data, required=True):
            self._enter(event, "assistant", [_part("tool_call", data, "id", "name", "arguments")])

    def _on_result(self, event: Event, data: Data) -> None:
        if "parts" in data:
            self._enter(event, "tool", self._spoken(event, data, required=True))
        else:
            self._answer(data, required=True)
            self._enter(event, "tool", [_part("tool_call_response", data, "id", "response", "is_error")])

    def _on_error(self, event: Event, data: Data) -> None:
        error = {"seq": event.seq, "actor": event.actor, "type": self._text(data, "error.type")}
        for name in ("message", "where"):
            text = self._text(data, name, required=name == "message")
            error[name] = text if self._full else None
        self._state.errors.append(error)

    def _on_compaction(self, event: Event, data: Data) -> None:
        first = self._number(data, "from_seq", 1)
        last = self._number(data, "to_seq", event.seq - 1)
        keep = self._number(data, "keep_last", 0)
        summary = self._parts(data, "summary", text=True)
        if first is None or last is None or keep is None:
            return  # A range that cannot be read removes nothing: a context too long beats one that is lost.
        self._compact(event, first, last, keep, summary)
        note = {"seq": event.seq, "from_seq": first, "to_seq": last, "keep_last": keep}
        kept = len(self._state.context) - bool(summary)
        said = {"kept": kept, "summary": summary} if self._full else {"kept": None, "summary": None}
        self._state.compactions.append(note | said)

    def _on_branch(self, event: Event, data: Data) -> None:
        self._state.branch = self._text(data, "branch", required=True) or self._state.branch
        self._branch_point(event, data)

    def _on_fork(self, event: Event, data: Data) -> None:
        self._state.branch = TRUNK
        self._state.forked_from = self._branch_point(event, data)

    # --- what handlers share ---------------------------------------------------------------------

    def _enter(self, event: Event, role: str, parts: list[Any]) -> None:
        """Add an entry to history and context; nothing said, no entry."""
        if parts and self._full:
            entry = _entry(event, role, parts)
            self._state.history.append(entry)
            # What a sub-agent and its model said to each other, the model of this session never saw.
            if not self._aside:
                self._state.context.append(entry)

    def _compact(self, event: Event, first: int, last: int, keep: int, summary: list[Any]) -> None:
        """Put the summary in the place of what lies in first..last, but keep the last ``keep`` entries."""
        context = self._state.context
        # Not context[:-keep]: for keep = 0 that would be empty.
        fixed = max(len(context) - keep, 0)
        gone = {i for i, entry in enumerate(context[:fixed]) if first <= entry["seq"] <= last}
        after = (i for i, entry in enumerate(context) if entry["seq"] >= first)
        place = min(gone) if gone else next(after, len(context))
        stay = [entry for i, entry in enumerate(context) if i not in gone]
        if summary and self._full:
            stay.insert(place, _entry(event, "system", summary))
        self._state.context = stay

    def _branch_point(self, event: Event, data: Data) -> dict[str, Any]:
        origin = dict(self._object(data.get("from"), "from"))
        point = {"seq": event.seq, "session": event.session, "branch": self._state.branch, "from": origin}
        self._state.branch_points.append(point)
        return origin

    def _count_response(self, data: Data, spoke: bool) -> None:
        usage = self._object(data["usage"], "usage") if data.get("usage") is not None else {}
        counts = tuple(self._number(usage, name, 0) or 0 for name in USAGE)
        name = self._text(data, "response.id")
        before = self._responses.get(name) if name else None
        if before is None:
            # Without an id, an event that says nothing only brings counters: it is no response of its own.
            self._state.turns["model"] += 1 if name or spoke else 0
            before = _NO_USAGE
        after = tuple(map(max, before, counts))
        if name:
            self._responses[name] = after
        for counter, old, new in zip(USAGE, before, after, strict=True):
            self._state.usage[counter] += new - old

    def _call(self, event: Event, part: Data, *, required: bool = False) -> bool:
        """Note a tool call; False when a call of that id is open already (it is the same one, said again)."""
        name = self._text(part, "name", required=True)
        call_id = self._text(part, "id", required=required)
        if call_id and call_id in self._open:
            return False
        self._state.tool_calls += 1
        if call_id:
            self._open[call_id] = {"id": call_id, "name": name, "seq": event.seq}
        return True

    def _answer(self, part: Data, *, required: bool = False) -> None:
        call_id = self._text(part, "id", required=required)
        self._state.tool_results += 1
        if call_id and self._open.pop(call_id, None) is None:
            self._state.unmatched_results += 1

    # --- reading data of any shape ---------------------------------------------------------------

    def _data(self, event: Event) -> Data:
        try:
            return self._object(event.data, "data")
        except FormatError:
            # A tag that stands for nothing, or a side file that is not here: the rest can still be read.
            self._faults.add("files")
            return self._object(event.stored_data, "data")

    def _object(self, value: Any, what: str) -> Data:
        if isinstance(value, Mapping):
            return value
        self._faults.add(what)
        return {}

    def _text(self, data: Data, name: str, *, required: bool = False) -> str | None:
        value = data.get(name)
        if isinstance(value, str):
            return value
        if value is not None or required:
            self._faults.add(name)
        return None

    def _number(self, data: Data, name: str, default: int) -> int | None:
        """A whole number >= 0, the default when there is none, None (and a fault) for anything else."""
        value = data.get(name)
        if value is None:
            return default
        # 1.0 and 1 have the same canonical bytes: an event just built may hold the one and, read back, the other.
        if type(value) is float and value.is_integer():
            value = int(value)
        if type(value) is int and value >= 0:
            return value
        self._faults.add(name)
        return None

    def _parts(self, data: Data, name: str, *, required: bool = False, text: bool = False) -> list[Any]:
        """The well-formed message parts in a member. A string stands for a text part (``text``: without a fault)."""
        value = data.get(name)
        if value is None and not required:
            return []
        if isinstance(value, str):
            if not text:
                self._faults.add(name)
            return [{"type": "text", "content": value}] if value else []
        items = value if isinstance(value, list | tuple) else ()
        good = [part for part in items if isinstance(part, dict) and isinstance(part.get("type"), str)]
        if items is not value or len(good) != len(items):
            self._faults.add(name)
        return good

    def _spoken(self, event: Event, data: Data, *, required: bool = False) -> list[Any]:
        """The parts of an event; tool calls and results among them are noted."""
        parts = self._parts(data, "parts", required=required)
        for part in parts:
            if part["type"] == "tool_call":
                self._call(event, part)
            elif part["type"] == "tool_call_response":
                self._answer(part)
        return parts


Handler = Callable[[StateBuilder, Event, Data], None]

_HANDLERS: dict[str, Handler] = {
    "session.start": StateBuilder._on_start,
    "message": StateBuilder._on_message,
    "model.response": StateBuilder._on_response,
    "tool.call": StateBuilder._on_call,
    "tool.result": StateBuilder._on_result,
    "error": StateBuilder._on_error,
    "context.compaction": StateBuilder._on_compaction,
    "session.branch": StateBuilder._on_branch,
    "session.fork": StateBuilder._on_fork,
}
# Known, without effect on the state. What an erasure erased shows as withheld events.
_PASSIVE = frozenset({"session.seal", "session.erasure", "native"})
#: The vocabulary of docs/events.md.
TYPES = frozenset(_HANDLERS) | _PASSIVE


def fold(events: Iterable[Event], to: int | None = None, *, history: bool = True) -> SessionState:
    """The state after the events of one branch, in order; with ``to``, after event ``to``.

    Reads no event beyond ``to``. ``history=False``: see `StateBuilder`.

    Raises UsageError for a negative ``to``, FormatError ``bad-seq`` for events out of order, and whatever
    reading the events raises; never for the shape of their data.
    """
    if to is not None and to < 0:
        raise UsageError(f"cannot fold up to event {to}")
    builder = StateBuilder(history=history)
    if to == 0:
        return builder.state()
    for event in events:
        if to is not None and event.seq > to:
            break
        builder.push(event)
        if event.seq == to:
            break
    return builder.state()


def _entry(event: Event, role: str, parts: list[Any]) -> Entry:
    return {"seq": event.seq, "actor": event.actor, "role": role, "kind": event.type, "parts": parts}


def _part(kind: str, data: Data, *names: str) -> dict[str, Any]:
    """The message part that says what a live writer put into the event's data itself."""
    return {"type": kind} | {name: data[name] for name in names if name in data}


def _without_bytes(node: Any, level: int) -> Any:
    """A deep copy in which JSON can show bytes. ``level`` is the nesting depth of ``node``, from 1."""
    if isinstance(node, bytes):
        return {"base64": base64.b64encode(node).decode()}
    if level > _BYTES_LEVEL:
        return node
    if isinstance(node, dict):
        return {name: _without_bytes(item, level + 1) for name, item in node.items()}
    if isinstance(node, list | tuple):
        return [_without_bytes(item, level + 1) for item in node]
    return node
