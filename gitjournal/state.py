"""State of a session as a fold over its events (docs/events.md).

Floor 3; imports floor 0 only, and its own rooms: `state_form` (the state), `state_read` (data of any shape) and
`state_life` (events that are not said to the model). `fold` is the only place that turns events into state, a pure
function of their order along the branch: no clock, no I/O of its own, and ``ts`` orders nothing.

Damage is the business of verification. Here, data that does not have the shape of docs/events.md is passed over
and noted under ``odd``; types that the vocabulary does not have are counted and otherwise ignored.
"""

from __future__ import annotations

import base64
import gc
import struct
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from copy import copy
from typing import Any

from gitjournal.errors import FormatError, UsageError
from gitjournal.event import Event
from gitjournal.refs import TRUNK
from gitjournal.state_form import Entry, SessionState, Status, is_same_call, tagged, untagged
from gitjournal.state_life import Life
from gitjournal.state_read import Data, begins_turn
from gitjournal.vocabulary import DENIED, INTERRUPTED, REQUIREMENTS, USAGE

__all__ = ["TYPES", "USAGE", "SessionState", "StateBuilder", "Status", "entry_of", "fold"]

_COUNTERS = struct.Struct(f"{len(USAGE)}q")


class StateBuilder(Life):
    """The running fold: `push` events in order, ask for the `state` at any time.

    ``history=False`` leaves out ``history``, ``context``, the texts of errors and what compactions kept and
    said, so that memory does not grow with the text of a session. Everything else is the same. ``parts=False``
    leaves out only what entries say (`entry_of` has it).
    """

    __slots__ = ("_aside", "_full", "_last", "_next", "_parted", "_responses", "_usage")

    @classmethod
    def thaw(cls, frozen: dict[str, Any]) -> StateBuilder:
        """The builder that `freeze` has written down."""
        builder = cls(history=False)
        raw, size = base64.b64decode(frozen["counters"]), _COUNTERS.size
        builder._responses = {name: raw[at * size : (at + 1) * size] for at, name in enumerate(frozen["responses"])}
        builder._resume(SessionState(**untagged(frozen["state"])))
        return builder

    def __init__(self, *, history: bool = True, parts: bool = True) -> None:
        super().__init__()
        self._full = history
        self._parted = history and parts
        self._last: Event | None = None
        # The seq that the next event must have; None before the first.
        self._next: int | None = None
        self._usage = [0] * len(USAGE)
        # Counters by provider response id: lines of one response repeat its usage, often with growing output.
        # A long session has hundreds of thousands, so packed.
        self._responses: dict[str, bytes] = {}
        # Whether the event is talk of a sub-agent that a source wrote into its parent's session.
        self._aside = False

    def push(self, event: Event) -> None:
        """Take the next event. FormatError ``bad-seq`` when its seq does not follow the one before."""
        if event.seq != self._next:
            self._begin(event)
        self._next = event.seq + 1
        self._last = event
        kind, withheld = event.type, event.withheld
        handler = _HANDLERS.get(kind)
        if withheld:
            self._state.withheld += 1
        if handler is None:
            self._count_type(kind)
        elif not withheld:
            data = self._data(event)
            self._aside = data.get("sidechain") is True
            handler(self, event, data)
        if self._faults:
            self._state.odd.append({"seq": event.seq, "type": event.type, "faults": sorted(self._faults)})
            self._faults.clear()

    def _begin(self, event: Event) -> None:
        if self._next is not None:
            # A gap would give a state that never was; callers that filter events would get it silently.
            raise FormatError("bad-seq", f"cannot be folded after event {self._next - 1}", seq=event.seq)
        self._state.started = event.ts

    def _count_type(self, kind: str) -> None:
        if kind == "native":
            self._state.native += 1
        elif kind not in _PASSIVE:
            self._state.unknown[kind] = self._state.unknown.get(kind, 0) + 1

    def state(self) -> SessionState:
        """The state after the newest event. Later pushes do not change it."""
        state = SessionState(**{name: copy(value) for name, value in self._state.members().items()})
        state.open_calls = list(self._open.values())
        state.resources = list(self._resources.values())
        state.wakes = list(self._wakes.values())
        state.labels = sorted(self._labels)
        state.usage = dict(zip(USAGE, self._usage, strict=True))
        if self._last is not None:
            state.session, state.last_seq = self._last.session, self._last.seq
            state.last_hash, state.updated = self._last.hash, self._last.ts
        return state

    def freeze(self) -> dict[str, Any]:
        """The builder as JSON values, for `thaw` to go on with. UsageError for one that keeps the history."""
        if self._full:
            raise UsageError("a fold that keeps the history cannot be frozen")
        counters = base64.b64encode(b"".join(self._responses.values())).decode()
        return {"state": tagged(self.state().members()), "responses": [*self._responses], "counters": counters}

    def _resume(self, state: SessionState) -> None:
        super()._resume(state)
        self._next = state.last_seq + 1 if state.last_seq else None
        self._usage = list(state.usage.values())

    # --- handlers, one per type ------------------------------------------------------------------

    def _on_message(self, event: Event, data: Data) -> None:
        role = self._text(data, "role", required=True) or "unknown"
        if begins_turn(event, data):
            self._state.turns["user"] += 1
        parts = self._parts(data, "parts", required=True)
        self._enter(event, "message", role, parts)
        self._note_tools(event, parts)

    def _on_response(self, event: Event, data: Data) -> None:
        parts = self._parts(data, "parts")
        self._count_response(data, bool(parts))
        self._enter(event, "model.response", "assistant", parts)
        calls = self._note_tools(event, parts)
        if parts and not self._aside:
            self._state.answered = not calls

    def _on_call(self, event: Event, data: Data) -> None:
        # The response may have said this call already, in a part: then it is one call, and one entry.
        if self._call(event, data, required=True):
            self._enter(event, "tool.call", "assistant", self._said("tool_call", data, _CALL))

    def _on_result(self, event: Event, data: Data) -> None:
        if "parts" in data:
            parts = self._parts(data, "parts", required=True)
            self._enter(event, "tool.result", "tool", parts)
            self._note_tools(event, parts)
            return
        call = self._answer(data, required=True)
        code = self._text(data, "code")
        late = call if code in (INTERRUPTED, DENIED) else None
        self._enter(event, "tool.result", "tool", self._said("tool_call_response", data, _RESULT), late)

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

    def _enter(self, event: Event, kind: str, role: str, parts: list[Any], late: dict[str, Any] | None = None) -> None:
        """Add an entry to history and context; nothing said, no entry. ``late``: the call that it answers late."""
        if not parts:
            return
        if not self._aside:
            self._state.answered = False
        if self._full:
            # Not a list: the garbage collector would have to look through an entry that holds one.
            said = parts if self._parted else ()
            entry = {"seq": event.seq, "actor": event.actor, "role": role, "kind": kind, "parts": said}
            self._state.history.append(entry)
            if late is not None:
                self._insert(entry, late["seq"])
            # What a sub-agent and its model said to each other, the model of this session never saw.
            elif not self._aside:
                self._state.context.append(entry)

    def _said(self, kind: str, data: Data, names: tuple[str, ...]) -> list[Any]:
        """The message part that says what a live writer put into the event's data itself."""
        if not self._parted:
            return _SOMETHING
        part = {"type": kind}
        for name in names:
            if name in data:
                part[name] = data[name]
        return [part]

    def _insert(self, entry: Entry, call_seq: int) -> None:
        """Put a late result into the context behind its call, the calls of the same breath, and their results.

        Nowhere when the call is gone.
        """
        context = self._state.context
        place = len(context)
        while place and context[place - 1]["seq"] != call_seq:
            place -= 1
        if place:
            for kind in ("tool.call", "tool.result"):
                while place < len(context) and context[place]["kind"] == kind:
                    place += 1
            context.insert(place, entry)

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
            kind, actor = event.type, event.actor
            stay.insert(place, {"seq": event.seq, "actor": actor, "role": "system", "kind": kind, "parts": summary})
        self._state.context = stay

    def _branch_point(self, event: Event, data: Data) -> dict[str, Any]:
        origin = dict(self._object(data.get("from"), "from"))
        point = {"seq": event.seq, "session": event.session, "branch": self._state.branch, "from": origin}
        self._state.branch_points.append(point)
        return origin

    def _count_response(self, data: Data, spoke: bool) -> None:
        counts = self._counts(data)
        total = self._usage
        name = self._text(data, "response.id")
        kept = self._responses.get(name) if name else None
        if kept is None:
            # Without an id, an event that says nothing only brings counters: it is no response of its own.
            self._state.turns["model"] += 1 if name or spoke else 0
            for i, count in enumerate(counts):
                total[i] += count
        else:
            before = _COUNTERS.unpack(kept)
            counts = list(map(max, before, counts))
            for i, count in enumerate(counts):
                total[i] += count - before[i]
        if name:
            self._responses[name] = _COUNTERS.pack(*counts)

    def _note_tools(self, event: Event, parts: list[Any]) -> int:
        """Note the tool calls and results among parts; how many calls there are."""
        calls = 0
        for part in parts:
            kind = part["type"]
            if kind == "tool_call":
                calls += 1
                self._call(event, part)
            elif kind == "tool_call_response":
                self._answer(part)
        return calls

    def _call(self, event: Event, part: Data, *, required: bool = False) -> bool:
        """Note a tool call; False when it is open already, and said again.

        With the id of an open call and another name it is a new one (``odd``), and takes the id over: models number
        calls anew, and what was open before a crash may have got no result.
        """
        name = self._text(part, "name", required=True)
        call_id = self._text(part, "id", required=required)
        requires = self._one_of(part, "requires", REQUIREMENTS) if "requires" in part else None
        known = self._open.get(call_id) if call_id else None
        if known is not None and not is_same_call(known["name"], name):
            self._faults.add("id")
            # It stands where its own event does.
            self._open.pop(known["id"])
        elif known is not None:
            # Said in the response, it could not yet say what it waits for.
            if known["requires"] is None and requires is not None:
                self._open[known["id"]] = known | {"requires": requires}
            return False
        self._state.tool_calls += 1
        if call_id:
            about = {"id": call_id, "name": name, "seq": event.seq, "requires": requires, "approved": None}
            self._open[call_id] = about
        return True

    def _answer(self, part: Data, *, required: bool = False) -> dict[str, Any] | None:
        """Note a tool result; the open call that it answers."""
        call_id = self._text(part, "id", required=required)
        self._state.tool_results += 1
        call = self._open.pop(call_id, None) if call_id else None
        if call_id and call is None:
            self._state.unmatched_results += 1
        return call


Handler = Callable[[StateBuilder, Event, Data], None]

_HANDLERS: dict[str, Handler] = {
    "session.start": StateBuilder._on_start,
    "session.update": StateBuilder._on_update,
    "session.terminate": StateBuilder._on_terminate,
    "session.checkpoint": StateBuilder._on_checkpoint,
    "session.resource": StateBuilder._on_resource,
    "turn.start": StateBuilder._on_turn_start,
    "turn.end": StateBuilder._on_turn_end,
    "message": StateBuilder._on_message,
    "model.response": StateBuilder._on_response,
    "tool.call": StateBuilder._on_call,
    "tool.confirmation": StateBuilder._on_confirmation,
    "tool.result": StateBuilder._on_result,
    "error": StateBuilder._on_error,
    "context.compaction": StateBuilder._on_compaction,
    "session.wake": StateBuilder._on_wake,
    "session.wake_done": StateBuilder._on_wake_done,
    "session.interrupt": StateBuilder._on_interrupt,
    "session.branch": StateBuilder._on_branch,
    "session.fork": StateBuilder._on_fork,
}
# Known, without effect on the state. What an erasure erased shows as withheld events.
_PASSIVE = frozenset({"session.seal", "session.erasure", "session.delete", "native"})
#: The vocabulary of docs/events.md.
TYPES = frozenset(_HANDLERS) | _PASSIVE


def fold(events: Iterable[Event], to: int | None = None, *, history: bool = True, parts: bool = True) -> SessionState:
    """The state after the events of one branch, in order; with ``to``, after event ``to``.

    Reads no event beyond ``to``. ``history=False`` and ``parts=False``: see `StateBuilder`.

    Raises UsageError for a ``to`` that is negative or no number, FormatError ``bad-seq`` for events out of order, and
    whatever reading the events raises; never for the shape of their data.
    """
    if to is not None and (type(to) is not int or to < 0):
        raise UsageError(f"cannot fold up to event {to!r:.80}")
    builder = StateBuilder(history=history, parts=parts)
    if to == 0:
        return builder.state()
    with _no_collection() if history else nullcontext():
        _push_to(builder, events, to)
    return builder.state()


def entry_of(event: Event) -> Entry:
    """The entry that an event adds to the context, one that adds any: a state without parts has its place."""
    return fold([event]).context[-1]


def _push_to(builder: StateBuilder, events: Iterable[Event], to: int | None) -> None:
    push = builder.push
    for event in events:
        if to is not None and event.seq > to:
            break
        push(event)
        if event.seq == to:
            break


@contextmanager
def _no_collection() -> Iterator[None]:
    """Meanwhile the garbage collector rests: a history is many new objects, none of them garbage, and to look through
    all of them again and again takes as long as the fold."""
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


_CALL = ("id", "name", "arguments")
_RESULT = ("id", "response", "is_error")
# In the place of parts that nobody will read: something was said.
_SOMETHING: list[Any] = [None]
