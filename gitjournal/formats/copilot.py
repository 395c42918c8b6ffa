"""GitHub Copilot CLI: ``~/.copilot/session-state/<session>/events.jsonl`` (docs/formats/copilot.md).

Each record is ``{type, data, id, parentId, timestamp}``. Tokens are counted only when the program ends, for the whole
session so far; what is new since the last time is this event's.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any, ClassVar

from gitjournal.formats.mapping import ObjectMapper, blob_part, injected, turn_id
from gitjournal.formats.protocol import About, Head, Home, RecordFormat, Source
from gitjournal.formats.records import Record, Salvage
from gitjournal.formats.report import ImportReport
from gitjournal.formats.shapes import (
    Mapped,
    Members,
    call_part,
    is_text,
    items,
    members,
    native,
    part_of,
    text,
    text_part,
    tool_actor,
    usage,
    whole,
    without_none,
)
from gitjournal.vocabulary import is_title

NAME = "copilot"
#: The session's own record is looked for in so many records.
_ID_RECORDS = 1000
_KIND = re.compile(
    r"abort|(?:session|user|assistant|system|tool|hook|subagent|skill|permission|model)\.[a-z_]+(?:\.[a-z_]+)?"
)
_ENVELOPE = frozenset({"type", "id", "parentId", "timestamp"})
# To so many of the newest events a rewind can go back.
_MAX_STANDS = 5_000
#: A model's counters at the end of the program, in the order of `shapes.usage`.
_COUNTERS = ("inputTokens", "outputTokens", "cacheReadTokens", "cacheWriteTokens", "reasoningTokens")

Counts = tuple[int, ...]


def _is_record(value: Any) -> bool:
    """Whether a value is a whole record, and not an object inside one."""
    if type(value) is not dict or not {"type", "data", "id", "timestamp"} <= value.keys():
        return False
    kind = value["type"]
    return type(kind) is str and type(value["data"]) is dict and _KIND.fullmatch(kind) is not None


class Copilot(RecordFormat):
    """Reads and writes the event files of Copilot CLI."""

    name = NAME
    salvage = Salvage(re.compile(r'\{"(?:type|data|id|timestamp|parentId|agentId|ephemeral)"'), _is_record)
    homes = (Home("COPILOT_HOME", "~/.copilot", ("session-state/*/events.jsonl", "session-state/*.jsonl")),)

    def sniff(self, head: Head) -> bool:
        """Whether one of the first lines is a record of Copilot CLI."""
        return any(map(_is_record, head.values))

    def about(self, found: Iterator[Record], source: Source) -> About:
        """What ``session.start`` says, which is the first record; else the folder is called like the session."""
        for record in islice(found, _ID_RECORDS):
            of = members(record.value)
            if of.get("type") == "session.start":
                data = members(of.get("data"))
                context = members(data.get("context"))
                project = text(context, "gitRoot") or text(context, "cwd")
                start = {"project": project, "agent.version": text(data, "copilotVersion")}
                return About(text(data, "sessionId") or _folder(source), without_none(start))
        return About(_folder(source))

    def mapper(self, report: ImportReport, source: Source) -> ObjectMapper:
        """See `RecordFormat.mapper`."""
        return _Mapper(NAME, report)


def _folder(source: Source) -> str | None:
    return source.path.absolute().parent.name if source.path.stem == "events" else None


class _Mapper(ObjectMapper):
    """Maps the records of one file, in order."""

    KEPT = ("_used", "_thoughts", "_stands", "_ended")

    def __init__(self, name: str, report: ImportReport) -> None:
        super().__init__(name, report)
        #: What each model has used up to the last count.
        self._used: dict[str, Sequence[int]] = {}
        #: Reasoning since the last message: newer versions say it in a record of its own and in the message.
        self._thoughts: list[str] = []
        #: After which record each event stands, for a rewind.
        self._stands: dict[str, int] = {}
        self._ended = False

    def mapped(self, record: Record, of: Members) -> Mapped:
        """See `ObjectMapper.mapped`."""
        if self._ended:
            self.turn, self._ended = None, False
        own, data = text(of, "id"), members(of.get("data"))
        self.note(record, own, text(of, "parentId"))
        kind = text(of, "type")
        found = self._map(kind, data) if data else None
        event, view, actor = found or native(NAME, kind or "unknown", {**of, **data}, _ENVELOPE)
        if own:
            self._stands.setdefault(own, self.before)
            if len(self._stands) > _MAX_STANDS:
                del self._stands[next(iter(self._stands))]
        agent = text(of, "agentId")
        if agent or text(data, "parentToolCallId"):
            # Talk of a sub-agent in its parent's file: not part of the parent's context.
            view["sidechain"] = True
        marks = {"type": of.get("type"), "id": own, "parent": text(of, "parentId"), "agent": agent}
        view["native"] = without_none(marks | {"interaction": text(data, "interactionId")})
        return event, view, actor

    def _map(self, kind: str | None, data: Members) -> Mapped | None:
        handler = self._HANDLERS.get(kind or "")
        return handler(self, data) if handler else None

    # --- by type: None when the shape does not fit ----------------------------------------------

    def _user(self, data: Members) -> Mapped | None:
        if not is_text(data.get("content")):
            return None
        parts = text_part(data["content"]) + [_attachment(one) for one in items(data.get("attachments"))]
        # Not typed by anybody: a skill, another agent, the program that goes on by itself.
        made = text(data, "source") not in (None, "user") or data.get("isAutopilotContinuation") is True
        return injected(parts) if made else ("message", {"role": "user", "parts": parts}, "user")

    def _system(self, data: Members) -> Mapped | None:
        if not is_text(data.get("content")):
            return None
        return "message", {"role": "system", "parts": text_part(data["content"])}, "host"

    def _turn_start(self, data: Members) -> Mapped | None:
        if not text(data, "turnId"):
            return None
        # They are numbered anew after each prompt.
        self.turn = turn_id(text(data, "turnId"), text(data, "interactionId"))
        return "turn.start", {}, "host"

    def _turn_end(self, data: Members) -> Mapped | None:
        if self.turn is None:
            return None
        self._ended = True
        return "turn.end", {"outcome": "completed"}, "host"

    def _reasoning(self, data: Members) -> Mapped | None:
        content = data.get("content")
        if not is_text(content):
            return None
        self._thoughts.append(str(content))
        # No response of its own: the message that belongs to it follows.
        return "message", {"role": "assistant", "parts": [{"type": "reasoning", "content": content}]}, "assistant"

    def _message(self, data: Members) -> Mapped | None:
        requests = items(data.get("toolRequests"))
        if not is_text(data.get("content")) and not requests:
            return None
        thought = data.get("reasoningText")
        said = is_text(thought) and thought and str(thought) not in self._thoughts
        self._thoughts.clear()
        parts = [{"type": "reasoning", "content": thought}] if said else []
        parts += text_part(data.get("content")) + [self._request(one) for one in requests]
        view: Members = {
            "parts": parts,
            "response.id": text(data, "apiCallId") or text(data, "messageId"),
            "response.model": text(data, "model"),
        }
        if whole(data.get("outputTokens")) is not None:
            view["native_usage"] = {"outputTokens": data["outputTokens"]}
        return "model.response", without_none(view), "assistant"

    def _request(self, request: Any) -> Members:
        shape = members(request)
        if not text(shape, "name"):
            return part_of(request)
        self.remember(shape.get("toolCallId"), shape["name"])
        return call_part(shape.get("toolCallId"), shape["name"], shape.get("arguments"))

    def _call(self, data: Members, actor: str = "assistant") -> Mapped | None:
        call, name = text(data, "toolCallId"), text(data, "toolName")
        if not call or not name:
            return None
        self.remember(call, name)
        return "tool.call", without_none({"id": call, "name": name, "arguments": data.get("arguments")}), actor

    def _user_call(self, data: Members) -> Mapped | None:
        return self._call(data, "user")

    def _result(self, data: Members) -> Mapped | None:
        call = text(data, "toolCallId")
        if not call:
            return None
        result, failure = members(data.get("result")), members(data.get("error"))
        response = result.get("content") if "content" in result else failure.get("message")
        view = {"id": call, "response": response, "code": text(failure, "code")}
        if type(data.get("success")) is bool:
            view["is_error"] = not data["success"]
        return "tool.result", without_none(view), tool_actor(self.called(call))

    def _error(self, data: Members) -> Mapped | None:
        if not is_text(data.get("message")):
            return None
        return "error", {"error.type": text(data, "errorType") or "error", "message": data["message"]}, "host"

    def _compaction(self, data: Members) -> Mapped | None:
        if data.get("success") is False or not text_part(data.get("summaryContent")):
            return None
        return "context.compaction", {"summary": text_part(data["summaryContent"])}, "host"

    def _cleared(self, data: Members) -> Mapped | None:
        parts = text_part(data.get("initialMessage"))
        return "context.compaction", {"summary": parts} if parts else {}, "host"

    def _title(self, data: Members) -> Mapped | None:
        title = data.get("title")
        return ("session.update", {"title": title}, "host") if is_title(title) else None

    def _abort(self, data: Members) -> Mapped | None:
        return "session.interrupt", without_none({"reason": text(data, "reason")}), "user"

    def _rewind(self, data: Members) -> Mapped | None:
        place = self._stands.get(text(data, "upToEventId") or "")
        if place:
            self.goes_after(place)
        return None

    def _shutdown(self, data: Members) -> Mapped | None:
        """What was used since the last count."""
        metrics = members(data.get("modelMetrics"))
        new = {model: self._new(model, members(members(metrics[model]).get("usage"))) for model in metrics}
        if not new:
            return None
        total = [sum(counts) for counts in zip(*new.values(), strict=True)]
        used = [model for model, counts in new.items() if any(counts)] or list(new)
        view = {
            "response.model": used[0] if len(used) == 1 else None,
            "usage": usage(total[0], total[1], read=total[2], created=total[3], reasoning=total[4]),
            "native_usage": metrics,
        }
        return "model.response", without_none(view), "assistant"

    def _new(self, model: str, counters: Members) -> Counts:
        """A model's counters without those of the last count; all of them when they have begun anew."""
        now = tuple(whole(counters.get(name)) or 0 for name in _COUNTERS)
        last = self._used.get(model, (0,) * len(now))
        self._used[model] = now
        grown = all(new >= old for new, old in zip(now, last, strict=True))
        return tuple(new - old for new, old in zip(now, last, strict=True)) if grown else now

    _HANDLERS: ClassVar[dict[str, Callable[[_Mapper, Members], Mapped | None]]] = {
        "user.message": _user,
        "system.message": _system,
        "assistant.turn_start": _turn_start,
        "assistant.turn_end": _turn_end,
        "assistant.reasoning": _reasoning,
        "assistant.message": _message,
        "tool.user_requested": _user_call,
        "tool.execution_start": _call,
        "tool.execution_complete": _result,
        "session.error": _error,
        "session.compaction_complete": _compaction,
        "session.context_cleared": _cleared,
        "session.title_changed": _title,
        "session.snapshot_rewind": _rewind,
        "session.shutdown": _shutdown,
        "abort": _abort,
    }


def _attachment(one: Any) -> Members:
    """What was attached: the bytes if they are there, else what the record says of the file."""
    shape = members(one)
    if shape.get("type") == "blob" and text(shape, "data") and text(shape, "mimeType"):
        return blob_part(shape["mimeType"], shape["data"])
    return {"type": "native", "value": one}
