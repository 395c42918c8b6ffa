"""openboa: ``.openboa/agents/<agent>/sessions/<session>/events.jsonl`` (docs/formats/openboa.md).

Each line says that an event was appended, or that one was processed. The order is that of the file; the program itself
sorts by the clock. Of ``session.json`` beside it only what never changes is read: whose session it is, and its parent.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, ClassVar

from gitjournal.errors import JournalError
from gitjournal.foreign import lenient, wrap_value
from gitjournal.formats.mapping import ObjectMapper, turn_id
from gitjournal.formats.protocol import About, Head, RecordFormat, Source
from gitjournal.formats.records import Record, Salvage
from gitjournal.formats.report import ImportReport
from gitjournal.formats.shapes import (
    Mapped,
    Members,
    call_part,
    is_text,
    members,
    native,
    response_part,
    text,
    text_part,
    tool_actor,
    without_none,
)

NAME = "openboa"
_ID_RECORDS = 1000
APPENDED, PROCESSED = "session.event.appended", "session.event.processed"
#: The file of the session beside its events, and how much of it is read.
STATE = "session.json"
_STATE_BYTES = 1024 * 1024
_ENVELOPE = frozenset({"id", "type", "createdAt", "processedAt", "wakeId"})
#: How a wake ended. One that is blocked has come to its end: what it waits for is an open call.
_OUTCOMES = {"success": "completed", "error": "failed", "blocked": "completed"}


def _is_record(of: Any) -> bool:
    """Whether a value is a whole line, and not an object inside one."""
    if type(of) is not dict or type(of.get("sessionId")) is not str:
        return False
    if of.get("kind") == APPENDED:
        return type(of.get("event")) is dict
    return of.get("kind") == PROCESSED and type(of.get("eventId")) is str


class Openboa(RecordFormat):
    """Reads and writes the events of openboa's sessions."""

    name = NAME
    salvage = Salvage(re.compile(r'\{"(?:kind|sessionId|event|eventId)"'), _is_record)

    def sniff(self, head: Head) -> bool:
        """Whether one of the first lines is a record of openboa."""
        return any(map(_is_record, head.values))

    def about(self, found: Iterator[Record], source: Source) -> About:
        """The first ``sessionId``, else the folder's name; agent and parent from ``session.json``."""
        values = (members(record.value) for record in islice(found, _ID_RECORDS))
        session = next((text(of, "sessionId") for of in values if text(of, "sessionId")), None)
        state = _state(source)
        parent = text(members(state.get("metadata")), "parentSessionId")
        start = {"agent.id": text(state, "agentId"), "parent": {"session": parent} if parent else None}
        folder = source.path.absolute().parent.name if source.path.stem == "events" else None
        return About(session or folder, without_none(start))

    def mapper(self, report: ImportReport, source: Source) -> ObjectMapper:
        """See `RecordFormat.mapper`."""
        return _Mapper(NAME, report)


def _state(source: Source) -> Members:
    """The members of ``session.json`` beside the events; none when there is no such file, or it cannot be read."""
    path = source.path.with_name(STATE)
    try:
        if path.is_symlink() or path.stat().st_size > _STATE_BYTES:
            return {}
        with Source(path).open() as stream:
            return members(wrap_value(lenient(stream.read(_STATE_BYTES))))
    except (JournalError, OSError, ValueError):
        return {}


class _Mapper(ObjectMapper):
    """Maps the records of one file, in order."""

    def moment(self, of: Members) -> Any:
        """When the event was made, or processed."""
        return members(of.get("event")).get("createdAt") or of.get("processedAt")

    def mapped(self, record: Record, of: Members) -> Mapped:
        """See `ObjectMapper.mapped`."""
        event = members(of.get("event"))
        if of.get("kind") != APPENDED or not event:
            self.turn = None
            return native(NAME, text(of, "kind") or "unknown", of, ("kind", "sessionId"))
        repeated = self.note(record, text(event, "id"), None)
        kind = text(event, "type") or "unknown"
        self.turn = turn_id(text(event, "wakeId")) or None
        # The program takes an id once.
        handler = None if repeated else self._HANDLERS.get(kind)
        found, data, actor = (handler(self, event) if handler else None) or native(NAME, kind, event, _ENVELOPE)
        if child := text(event, "childSessionId"):
            data["child"] = {"session": child}
        data["native"] = without_none({"type": kind, "id": text(event, "id"), "wake": text(event, "wakeId")})
        return found, data, actor

    # --- by type: None when the shape does not fit -----------------------------------------------

    def _user(self, event: Members) -> Mapped | None:
        if not is_text(event.get("message")):
            return None
        return "message", {"role": "user", "parts": text_part(event["message"])}, "user"

    def _agent(self, event: Members) -> Mapped | None:
        if not is_text(event.get("message")):
            return None
        return "model.response", {"parts": text_part(event["message"])}, "assistant"

    def _tool(self, event: Members) -> Mapped | None:
        """A call that was run, with its result; or one that waits until a person allows it."""
        call, name, given = text(event, "requestId"), text(event, "toolName"), event.get("input")
        if name is None:
            return None
        if event.get("output") is not None:
            parts = [call_part(call, name, given), response_part(call, event["output"])]
            return "message", {"role": "assistant", "parts": parts}, "assistant"
        if call is None:
            return "message", {"role": "assistant", "parts": [call_part(None, name, given)]}, "assistant"
        asks = "confirmation" if event.get("permissionPolicy") == "always_ask" else None
        self.remember(call, name)
        data = {"id": call, "name": name, "arguments": given, "requires": asks}
        return "tool.call", without_none(data), "assistant"

    def _custom(self, event: Members) -> Mapped | None:
        call, name = text(event, "requestId"), text(event, "toolName")
        if call is None or name is None:
            return None
        self.remember(call, name)
        data = {"id": call, "name": name, "arguments": event.get("input"), "requires": "result"}
        return "tool.call", without_none(data), "assistant"

    def _custom_result(self, event: Members) -> Mapped | None:
        call = text(event, "requestId")
        if call is None:
            return None
        name = self.called(call) or text(event, "toolName")
        return "tool.result", without_none({"id": call, "response": event.get("output")}), tool_actor(name)

    def _confirmation(self, event: Members) -> Mapped | None:
        call, allowed = text(event, "requestId"), event.get("allowed")
        if call is None or type(allowed) is not bool:
            return None
        data = {"id": call, "approved": allowed, "reason": text(event, "note")}
        return "tool.confirmation", without_none(data), "user"

    def _interrupt(self, event: Members) -> Mapped | None:
        return "session.interrupt", without_none({"reason": text(event, "note")}), "user"

    def _span_started(self, event: Members) -> Mapped | None:
        self.turn = turn_id(text(event, "spanId")) or None
        return ("turn.start", {}, "host") if event.get("spanKind") == "wake" and self.turn else None

    def _span_completed(self, event: Members) -> Mapped | None:
        outcome = _OUTCOMES.get(text(event, "result") or "")
        self.turn = turn_id(text(event, "spanId")) or None
        if event.get("spanKind") != "wake" or self.turn is None or outcome is None:
            return None
        message = event.get("summary")
        return "turn.end", {"outcome": outcome, **({"message": message} if is_text(message) else {})}, "host"

    _HANDLERS: ClassVar[dict[str, Callable[[_Mapper, Members], Mapped | None]]] = {
        "user.message": _user,
        "agent.message": _agent,
        "agent.tool_use": _tool,
        "agent.custom_tool_use": _custom,
        "user.custom_tool_result": _custom_result,
        "user.tool_confirmation": _confirmation,
        "user.interrupt": _interrupt,
        "span.started": _span_started,
        "span.completed": _span_completed,
    }
