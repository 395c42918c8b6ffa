"""Records of Claude Code as events (docs/formats/claude-code.md)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gitjournal.formats.claude_beside import Beside
from gitjournal.formats.claude_parts import (
    NAME,
    SYNTHETIC,
    Parts,
    agent_of,
    child_of,
    error,
    is_aside,
    session_of,
    speaker,
    usage,
)
from gitjournal.formats.claude_stream import Stream
from gitjournal.formats.claude_tree import Tree
from gitjournal.formats.protocol import Item
from gitjournal.formats.records import NOT_JSON, Record
from gitjournal.formats.report import ImportReport
from gitjournal.formats.shapes import Mapped, Members, members, native, text, tool_actor, without_none
from gitjournal.formats.times import to_ts
from gitjournal.formats.titles import title_of

#: Part of every record, or big, or the text of another one: not shown as a field of a native record.
_ENVELOPE = frozenset({
    "type", "subtype", "uuid", "parentUuid", "logicalParentUuid", "sessionId", "session_id", "timestamp", "cwd",
    "version", "gitBranch", "userType", "isSidechain", "slug", "entrypoint", "isMeta", "agentId", "requestId", "result",
})  # fmt: skip
#: Members of ``native`` and where they come from.
_OWN_WORDS = (("id", "uuid"), ("parent", "parentUuid"), ("request_id", "requestId"), ("agent", "agentId"))
#: Events that stand in the model's context, and the member that says what.
_SAID = {"message", "model.response", "tool.call", "tool.result"}


class ClaudeMapper:
    """Maps the records of one file, in order. ``fmt`` is the name of the format, ``source`` where it is."""

    def __init__(self, report: ImportReport, source: Path, fmt: str = NAME) -> None:
        self._report = report
        self._fmt = fmt
        self._source = source
        self._parts = Parts()
        self._stream = Stream()
        self._tree = Tree(report)
        self._beside = Beside(source, report)
        #: Id of the sub-agent whose own file this is; None until the first record that names a session.
        self._agent: str | None = None
        self._begun = False
        #: Whether a person has given the title.
        self._titled = False

    def item(self, record: Record) -> Item:
        """The event of a record."""
        if record.value is NOT_JSON:
            return Item(record, "native", {"format": self._fmt, "type": record.fault})
        of = members(record.value)
        if of is not record.value and type(record.value) is dict:
            self._report.count("odd_names", record.number, record.offset)
        if not of:
            return Item(record, "native", {"format": self._fmt, "type": "json"})
        return self._item(record, of)

    def finish(self) -> None:
        """Report what never came."""
        self._tree.finish()

    def save(self) -> Any:
        """See `protocol.Mapper.save`."""
        return {
            "tree": self._tree.save(),
            "parts": self._parts.save(),
            "stream": self._stream.save(),
            "agent": self._agent,
            "begun": self._begun,
            "titled": self._titled,
        }

    def load(self, saved: Any) -> None:
        """See `protocol.Mapper.load`."""
        self._tree.load(saved["tree"])
        self._parts.load(saved["parts"])
        self._stream.load(saved["stream"])
        self._agent, self._begun, self._titled = saved["agent"], saved["begun"], saved["titled"]

    def _item(self, record: Record, of: Members) -> Item:
        if not self._begun and session_of(of):
            self._begun = True
            self._agent = agent_of(of, self._source)
        again = self._tree.note(record, of)
        kind, data, actor = self._native(of) if again else self._map(of)
        if again:
            # What the program writes a second time, at a resume or a compaction, was said once.
            data["repeats"] = of["uuid"]
        aside = self._aside(of)
        follows = None
        if kind in _SAID and not aside:
            if actor == "user" and of.get("type") == "user":
                follows = self._tree.prompt(of)
            if data.get("parts") != []:
                self._tree.entered(of)
        files = self._beside.of(record, of)
        return Item(record, kind, self._marked(of, data, aside), actor, self._time(record, of), files, follows)

    def _time(self, record: Record, of: Members) -> str | None:
        ts = to_ts(of.get("timestamp"))
        if ts is None and "snapshot" in of:
            ts = to_ts(members(of["snapshot"]).get("timestamp"))
        # Records of streams, summaries and modes have no time by nature.
        if ts is None and ("timestamp" in of or ("uuid" in of and "session_id" not in of)):
            self._report.count("no_time", record.number, record.offset)
        return ts

    def _aside(self, of: Members) -> bool:
        """Whether a record is talk of a sub-agent in its parent's file, and no part of the parent's context."""
        return is_aside(of) and self._agent is None

    def _marked(self, of: Members, data: Members, aside: bool) -> Members:
        """Add what the record says about itself, in its own words."""
        own: Members = {"type": of.get("type")}
        for name, source in _OWN_WORDS:
            if text(of, source):
                own[name] = of[source]
        if of.get("isMeta") is True:
            own["meta"] = True
        if type(of.get("costUSD")) in (int, float):
            own["cost_usd"] = of["costUSD"]
        session = session_of(of)
        if session and self._tree.is_other(session):
            own["session"] = session
        if aside:
            data["sidechain"] = True
        if child := child_of(of):
            data["child"] = {"session": child}
        data["native"] = own
        return data

    # --- by type ---------------------------------------------------------------------------------

    def _map(self, of: Members) -> Mapped:
        kind, message = text(of, "type"), members(of.get("message"))
        if kind is None and message:
            # Only written by tools that cut records down; the message says whose it is.
            kind = text(message, "role")
        if kind == "user":
            found = self._user(of, message)
        elif kind == "assistant":
            found = self._assistant(of, message)
        else:
            found = self._other(kind, of)
        return found or self._native(of)

    def _other(self, kind: str | None, of: Members) -> Mapped | None:
        if kind == "system":
            return self._system(of)
        if kind == "attachment":
            return self._attachment(of)
        if kind in ("custom-title", "ai-title", "summary"):
            return self._title(kind, of)
        if kind == "result" and of.get("is_error") is True:
            return error(of, of.get("subtype"), self._parts.of(of.get("result")))
        if kind == "result" and (rest := self._stream.rest(of)):
            return "model.response", rest, "assistant"
        if kind == "tool_use" and text(of, "name"):
            call = {"id": of.get("id"), "name": of["name"], "arguments": of.get("input")}
            return "tool.call", without_none(call), "assistant"
        if kind == "tool_result" and "output" in of:
            answer = {"id": of.get("id"), "response": of["output"], "is_error": of.get("is_error")}
            return "tool.result", without_none(answer), tool_actor(text(of, "name"))
        return None

    def _user(self, of: Members, message: Members) -> Mapped | None:
        parts = self._parts.of(message.get("content"))
        if parts is None:
            return None
        if of.get("isCompactSummary") is True:
            kept = self._tree.compacted()
            return "context.compaction", {"summary": parts, **({"keep_last": kept} if kept else {})}, "host"
        results = [part for part in parts if part["type"] == "tool_call_response"]
        if results and len(results) == len(parts):
            return "tool.result", {"parts": parts}, tool_actor(self._parts.tool_of(results))
        return _spoken(parts, speaker(of, parts))

    def _assistant(self, of: Members, message: Members) -> Mapped | None:
        if not message:
            return None
        parts = self._parts.of(message.get("content"))
        if of.get("isApiErrorMessage") is True:
            return error(of, of.get("error"), parts)
        if message.get("model") == SYNTHETIC:
            # Made by the program, which tells the model that it has said so. No provider answered.
            return "message", {"role": "assistant", "parts": parts or []}, "host"
        data: Members = {"parts": parts or []}
        if response := self._parts.response_id(of, message):
            data["response.id"] = response
        for name, source in (("response.model", "model"), ("finish_reason", "stop_reason")):
            if text(message, source):
                data[name] = message[source]
        counted = message.get("usage")
        if type(counted) is dict:
            data["usage"] = usage(counted)
            data["native_usage"] = counted
            self._stream.said(of, data)
        return "model.response", data, "assistant"

    def _system(self, of: Members) -> Mapped | None:
        kind = of.get("subtype")
        if kind == "api_error":
            return error(of, of.get("error"))
        if kind == "compact_boundary":
            self._tree.boundary(of)
        return None

    def _attachment(self, of: Members) -> Mapped | None:
        attachment = members(of.get("attachment"))
        if attachment.get("type") != "queued_command":
            return None
        # What the user typed while the agent was busy; there is no user record for it.
        parts = self._parts.of(attachment.get("prompt"))
        if parts is None:
            return None
        typed = attachment.get("commandMode") in (None, "prompt", "bash")
        return _spoken(parts, speaker(attachment, parts) if typed else "host")

    def _title(self, kind: str, of: Members) -> Mapped | None:
        names = {"custom-title": "customTitle", "ai-title": "aiTitle", "summary": "summary"}
        found = title_of(of.get(names[kind]))
        if found is None or (self._titled and kind != "custom-title"):
            return None
        # Summaries of other sessions are written into whatever file is open: only a leaf that is here tells.
        if kind == "summary" and not self._tree.has(of.get("leafUuid")):
            return None
        self._titled = self._titled or kind == "custom-title"
        return "session.update", {"title": found}, "user" if kind == "custom-title" else "host"

    def _native(self, of: Members) -> Mapped:
        """A record without a neutral meaning: its type, and those of its own members that are no containers."""
        inner = of.get("attachment") if of.get("type") == "attachment" else of.get("data")
        sub: Any = of.get("subtype") or (inner.get("type") if type(inner) is dict else None)
        kind = text(of, "type") or "unknown"
        return native(self._fmt, f"{kind}/{sub}" if type(sub) is str else kind, of, _ENVELOPE)


def _spoken(parts: list[Members], actor: str) -> Mapped:
    """A message in the user's name. What the program has put in begins no turn."""
    put_in = {"injected": True} if actor == "host" else {}
    return "message", {"role": "user", "parts": parts, **put_in}, actor
