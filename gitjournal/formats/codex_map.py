"""Records of a Codex rollout as events (docs/formats/codex.md)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gitjournal.formats import codex_items as read
from gitjournal.formats.codex_items import NAME
from gitjournal.formats.codex_log import DISPLAY, PROTOCOL, Doubles
from gitjournal.formats.codex_turns import Turns
from gitjournal.formats.codex_usage import Responses, Totals
from gitjournal.formats.protocol import Item
from gitjournal.formats.records import NOT_JSON, Record
from gitjournal.formats.report import ImportReport
from gitjournal.formats.shapes import (
    Mapped,
    Members,
    call_part,
    is_text,
    items,
    media_part,
    members,
    native,
    opened,
    response_part,
    text,
    text_part,
    tool_actor,
)
from gitjournal.formats.times import to_ts
from gitjournal.formats.titles import title_of

#: Kinds of lines; the newest versions write more, which stay ``native``.
ITEM, EVENT = "response_item", "event_msg"
_MAX_CALLS = 2000
#: Shown elsewhere.
_ENVELOPE = frozenset({"type", "id", "call_id", "turn_id", "timestamp"})
#: Texts of the display log that stand in an item of the other log as well, or in a record before.
_SAID = frozenset({
    "message", "text", "last_agent_message", "result", "stdout", "stderr", "aggregated_output", "formatted_output",
})  # fmt: skip


class CodexMapper:
    """Maps the records of one rollout, in order."""

    def __init__(self, report: ImportReport) -> None:
        self._report = report
        self._doubles = Doubles()
        self._totals = Totals()
        self._responses = Responses()
        self._turns = Turns()
        self._calls: dict[str, str] = {}
        self._model: str | None = None
        #: Whether the session is a sub-agent's, and its task has not come yet.
        self._task_waits = False
        self._begun = False
        #: The session's own id, which stands for a turn without one.
        self._session = ""

    def item(self, record: Record) -> Item:
        """The event of a record."""
        if record.value is NOT_JSON:
            return Item(record, "native", {"format": NAME, "type": record.fault})
        of = members(record.value)
        if of is not record.value and type(record.value) is dict:
            self._report.count("odd_names", record.number, record.offset)
        if not of:
            return Item(record, "native", {"format": NAME, "type": "json"})
        line, payload = opened_line(of)
        self._turns.number = record.number
        kind, data, actor = self._map(line, payload) or _native(line, payload)
        follows, turn = self._turns.place()
        ts = self._time(record, of, payload)
        return Item(record, kind, _marked(of, line, payload, data), actor, ts, follows=follows, turn=turn)

    def finish(self) -> None:
        """See `protocol.Mapper.finish`."""

    def save(self) -> Any:
        """See `protocol.Mapper.save`."""
        return {
            "doubles": self._doubles.save(),
            "totals": self._totals.save(),
            "responses": self._responses.save(),
            "turns": self._turns.save(),
            "own": [self._calls, self._model, self._task_waits, self._begun, self._session],
        }

    def load(self, saved: Any) -> None:
        """See `protocol.Mapper.load`."""
        self._doubles.load(saved["doubles"])
        self._totals.load(saved["totals"])
        self._responses.load(saved["responses"])
        self._turns.load(saved["turns"])
        self._calls, self._model, self._task_waits, self._begun, self._session = saved["own"]

    def _time(self, record: Record, of: Members, payload: Members) -> str | None:
        for name in ("timestamp", "created_at"):
            for there in (of, payload):
                if ts := to_ts(there.get(name)):
                    return ts
        if "payload" in of:
            self._report.count("no_time", record.number, record.offset)
        return None

    # --- lines -----------------------------------------------------------------------------------

    def _map(self, line: str, payload: Members) -> Mapped | None:
        if line == ITEM:
            return self._response_item(payload)
        if line == EVENT:
            return self._event(payload)
        if line == "session_meta":
            return self._meta(payload)
        if line == "turn_context":
            self._model = text(payload, "model") or self._model
            self._responses.turn(text(payload, "turn_id") or self._session)
            return None
        if line == "compacted":
            self._responses.given()
            return _compaction(payload)
        if line == "token_usage_record":
            return self._usage(payload, payload.get("thread_token_usage"), payload.get("usage"))
        if line == "inter_agent_communication":
            return self._between(payload)
        return None

    def _meta(self, payload: Members) -> Mapped | None:
        if not self._begun:
            self._begun = True
            self._task_waits = parent_of(payload) is not None or "subagent" in members(payload.get("source"))
            self._session = text(payload, "id") or ""
            self._responses.turn(self._session)
        return None

    def _usage(self, payload: Members, total: Any, last: Any) -> Mapped | None:
        usage = self._totals.new(total, last)
        if usage is None:
            return None
        counted: Members = {"response.id": self._responses.counted(), "usage": usage}
        if model := text(members(payload.get("info")), "model") or self._model:
            counted["response.model"] = model
        counted["native_usage"] = payload.get("info", payload.get("usage"))
        return "model.response", counted, "assistant"

    def _said(self, parts: list[Members]) -> Mapped:
        """What the model has said."""
        data: Members = {"parts": parts, "response.id": self._responses.said()}
        if self._model:
            data["response.model"] = self._model
        return "model.response", data, "assistant"

    # --- what the model exchanged ----------------------------------------------------------------

    def _response_item(self, item: Members) -> Mapped | None:
        kind = text(item, "type")
        if kind == "message" or (kind is None and text(item, "role")):
            return self._message(item)
        if kind == "reasoning":
            parts, texts = read.reasoning_of(item)
            return self._said(parts) if self._doubles.is_new(PROTOCOL, "reasoning", texts) else None
        if kind == "agent_message":
            return self._between(item)
        if kind in read.OUTPUTS or kind == "function_result":
            return self._result(item)
        call = read.call_of(item)
        return self._call(item, call) if call else None

    def _message(self, item: Members) -> Mapped | None:
        role, parts = text(item, "role"), read.parts_of(item.get("content", item.get("message")))
        texts = read.texts_of(parts)
        if role == "assistant":
            return self._said(parts) if self._doubles.is_new(PROTOCOL, role, texts) else None
        if role in ("developer", "system"):
            return "message", {"role": "system", "parts": parts}, "host"
        if role != "user":
            return None
        if read.is_put_in(item, parts):
            return "message", {"role": role, "parts": parts, "injected": True}, "host"
        return self._prompt(PROTOCOL, parts, texts)

    def _prompt(self, log: str, parts: list[Members], texts: list[str]) -> Mapped | None:
        if not self._doubles.is_new(log, "user", texts):
            return None
        self._turns.prompted()
        self._responses.given()
        # The first that a sub-agent is told comes from the agent that began it.
        actor, self._task_waits = "assistant" if self._task_waits else "user", False
        return "message", {"role": "user", "parts": parts}, actor

    def _between(self, item: Members) -> Mapped | None:
        """What another agent says to this one."""
        parts = read.parts_of(item.get("content"))
        if not parts:
            return None
        name = {"name": item["author"]} if text(item, "author") else {}
        self._task_waits = False
        return "message", {"role": "user", **name, "parts": parts, "injected": True}, "host"

    def _call(self, item: Members, call: Members) -> Mapped | None:
        if item.get("type") == "web_search_call" and not self._doubles.is_new(PROTOCOL, "search", read.search_of(item)):
            return None
        if type(call["id"]) is str and type(call["name"]) is str:
            self._calls[call["id"]] = call["name"]
            if len(self._calls) > _MAX_CALLS:
                del self._calls[next(iter(self._calls))]
        answer = read.answer_at_once(item)
        return self._said([call, answer] if answer else [call])

    def _result(self, item: Members) -> Mapped:
        data = read.result_of(item)
        name = self._calls.get(data.get("id", ""), text(item, "name"))
        if name == "spawn_agent" and (agent := text(members(opened(data.get("response"))), "agent_id")):
            data["child"] = {"session": agent}
        self._responses.given()
        if "id" not in data:
            data = {"parts": [response_part(None, data.get("response"), data.get("is_error"))]}
        return "tool.result", data, tool_actor(name)

    # --- what the screen showed ------------------------------------------------------------------

    def _event(self, payload: Members) -> Mapped | None:
        handler = _EVENTS.get(text(payload, "type") or "")
        return handler(self, payload) if handler else self._shown(payload)

    def _user_message(self, payload: Members) -> Mapped | None:
        parts = read.parts_of(payload.get("message"))
        parts += [media_part("image", None, url) for url in items(payload.get("images")) if type(url) is str]
        return self._prompt(DISPLAY, parts, read.texts_of(parts)) if parts else None

    def _agent_message(self, payload: Members) -> Mapped | None:
        parts = read.parts_of(payload.get("message"))
        new = parts and self._doubles.is_new(DISPLAY, "assistant", read.texts_of(parts))
        return self._said(parts) if new else None

    def _agent_reasoning(self, payload: Members) -> Mapped | None:
        said = payload.get("text")
        if not is_text(said) or not self._doubles.is_new(DISPLAY, "reasoning", [said] if type(said) is str else []):
            return None
        return self._said([{"type": "reasoning", "content": said}])

    def _token_count(self, payload: Members) -> Mapped | None:
        info = members(payload.get("info"))
        last = info if "prompt" in info else info.get("last_token_usage")
        return self._usage(payload, info.get("total_token_usage"), last)

    def _started(self, payload: Members) -> Mapped:
        turn = text(payload, "turn_id")
        self._turns.started(turn)
        self._responses.turn(turn or self._session)
        return "turn.start", {}, "host"

    def _ended(self, payload: Members) -> Mapped | None:
        failure = text(members(payload.get("error")), "message")
        if payload.get("type") == "turn_aborted":
            outcome = "interrupted" if payload.get("reason") == "interrupted" else "canceled"
        else:
            outcome = "failed" if failure else "completed"
        if not self._turns.ended(text(payload, "turn_id")):
            return None
        return "turn.end", {"outcome": outcome, **({"message": failure} if failure else {})}, "host"

    def _rolled_back(self, payload: Members) -> Mapped | None:
        self._turns.rolled_back(payload.get("num_turns"))
        self._responses.given()
        return None

    def _failure(self, payload: Members) -> Mapped:
        inner = members(payload.get("error"))
        message = payload.get("message", inner.get("message"))
        kinds = (payload.get("codex_error_info"), inner.get("kind"), payload.get("type"))
        data = {"error.type": next(one for one in (*kinds, "error") if type(one) is str)}
        return "error", data | {"message": message if is_text(message) else "error"}, "host"

    def _named(self, payload: Members) -> Mapped | None:
        title = title_of(payload.get("thread_name"))
        return None if title is None else ("session.update", {"title": title}, "user")

    def _completed(self, payload: Members) -> Mapped | None:
        item = members(payload.get("item"))
        kind, content = item.get("type"), read.parts_of(item.get("content"))
        if kind == "UserMessage":
            return self._prompt(DISPLAY, content, read.texts_of(content)) if content else None
        if kind == "AgentMessage":
            new = content and self._doubles.is_new(DISPLAY, "assistant", read.texts_of(content))
            return self._said(content) if new else None
        return self._shown(item)

    def _shown(self, of: Members) -> Mapped | None:
        """A call that the model did not make itself, such as one in a script of its: no part of its context."""
        found = read.shown_call(of)
        if found is None or found[0]["id"] in self._calls:
            return None
        return "message", {"role": "assistant", "parts": list(found), "sidechain": True}, "host"

    def _searched(self, payload: Members) -> Mapped | None:
        if read.call_id(payload) in self._calls or not self._doubles.is_new(DISPLAY, "search", read.search_of(payload)):
            return None
        call = call_part(read.call_id(payload), "web_search", payload.get("action", payload.get("query")))
        return self._said([call, response_part(call["id"], payload.get("results"))])


_EVENTS: dict[str, Callable[[CodexMapper, Members], Mapped | None]] = {
    "user_message": CodexMapper._user_message,
    "agent_message": CodexMapper._agent_message,
    "agent_reasoning": CodexMapper._agent_reasoning,
    "agent_reasoning_raw_content": CodexMapper._agent_reasoning,
    "token_count": CodexMapper._token_count,
    "task_started": CodexMapper._started,
    "turn_started": CodexMapper._started,
    "task_complete": CodexMapper._ended,
    "turn_complete": CodexMapper._ended,
    "turn_aborted": CodexMapper._ended,
    "thread_rolled_back": CodexMapper._rolled_back,
    "error": CodexMapper._failure,
    "stream_error": CodexMapper._failure,
    "thread_name_updated": CodexMapper._named,
    "item_completed": CodexMapper._completed,
    "web_search_end": CodexMapper._searched,
}


def opened_line(of: Members) -> tuple[str, Members]:
    """The kind of a line and what it holds. The oldest files have no envelope: bare items after a header."""
    kind = text(of, "type")
    if "payload" in of and kind:
        return kind, members(of["payload"])
    if kind is None and text(of, "id") and ("instructions" in of or "git" in of):
        return "session_meta", of
    if text(of, "role") or kind in read.OUTPUTS or kind in ("reasoning", "function_result") or read.call_of(of):
        return ITEM, of
    return kind or "unknown", of


def parent_of(payload: Members) -> str | None:
    """The session that began this one, in the words of its ``session_meta``."""
    spawn = members(members(members(payload.get("source")).get("subagent")).get("thread_spawn"))
    parent = text(payload, "parent_thread_id") or text(spawn, "parent_thread_id")
    return parent if parent != text(payload, "id") else None


def _compaction(payload: Members) -> Mapped:
    """What the model's context is now: the history that replaces it, else the summary."""
    parts = [
        part
        for item in map(members, items(payload.get("replacement_history")))
        if item.get("type") == "message"
        for part in read.parts_of(item.get("content"))
    ]
    message = payload.get("message")
    summary = parts or text_part(message)
    return "context.compaction", {"summary": summary} if summary else {}, "host"


def _native(line: str, payload: Members) -> Mapped:
    sub = text(payload, "type") if line in (ITEM, EVENT) else None
    hidden = _ENVELOPE | _SAID if sub in _EVENTS or (sub or "").endswith("_end") else _ENVELOPE
    return native(NAME, f"{line}/{sub}" if sub else line, payload, hidden)


def _marked(of: Members, line: str, payload: Members, data: Members) -> Members:
    """Add what the record says about itself, in its own words."""
    own: Members = {"type": line}
    for name, source in (("item", "type"), ("id", "id"), ("call", "call_id"), ("namespace", "namespace")):
        if payload is not of and text(payload, source):
            own[name] = payload[source]
    for name in ("phase", "response_id"):
        if text(payload, name):
            own[name] = payload[name]
    if type(of.get("ordinal")) is int:
        own["ordinal"] = of["ordinal"]
    child = text(payload, "new_thread_id") or text(payload, "agent_thread_id")
    if child and line == EVENT:
        data["child"] = {"session": child}
    data["native"] = own
    return data
