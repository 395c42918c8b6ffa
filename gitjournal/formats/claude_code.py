"""Claude Code transcripts: ``~/.claude/projects/<folder>/<session>.jsonl`` (docs/formats/claude-code.md).

The format is internal to its program and changes. So a record that looks different than expected is kept as ``native``
or shown in part; its bytes are kept in any case.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import islice
from typing import Any

from gitjournal.foreign import lenient, wrap_value
from gitjournal.formats.protocol import About, Head, Home, Item, RecordFormat, Source
from gitjournal.formats.records import NOT_JSON, Record, Salvage
from gitjournal.formats.report import ImportReport
from gitjournal.formats.times import to_ts
from gitjournal.rules import JSON_TAG

NAME = "claude-code"
#: The session id is looked for in so many records.
_ID_RECORDS = 1000
_TYPES = frozenset({"user", "assistant", "system", "summary", "progress", "attachment", "file-history-snapshot"})
# Members that only this program writes.
_OWN = re.compile(rb'"(?:parentUuid|isSidechain|leafUuid|isSnapshotUpdate|toolUseResult)"\s*:')
_TOOL = re.compile(r"[A-Za-z0-9._:@/+-]{1,95}")
#: Part of every record, or big: not shown as a field of a native record.
_ENVELOPE = frozenset({
    "type", "subtype", "uuid", "parentUuid", "logicalParentUuid", "sessionId", "timestamp", "cwd", "version",
    "gitBranch", "userType", "isSidechain", "slug", "entrypoint", "isMeta", "agentId", "requestId",
})  # fmt: skip
# Calls that wait for their result, and ids that are remembered to find missing parents; both bound memory.
_MAX_CALLS = 10_000
_MAX_IDS = 250_000

#: Members of ``native`` and where they come from.
_OWN_WORDS = (("id", "uuid"), ("parent", "parentUuid"), ("request_id", "requestId"), ("agent", "agentId"))

Members = dict[str, Any]
Mapped = tuple[str, Members, str]


def _is_record(value: Any) -> bool:
    """Whether a value is a whole record, and not an object inside one."""
    if not isinstance(value, dict):
        return False
    kind = _text(value, "type")
    if (kind == "summary" and "leafUuid" in value) or (kind == "file-history-snapshot" and "snapshot" in value):
        return True
    known = kind in _TYPES or isinstance(value.get("message"), dict)
    return known and isinstance(value.get("sessionId"), str)


SALVAGE = Salvage(
    re.compile(
        r'\{"(?:parentUuid|logicalParentUuid|type|uuid|sessionId|isSidechain|timestamp|messageId|leafUuid|cwd)"'
    ),
    lambda value: isinstance(value, dict) and (_is_record(value) or "sessionId" in value),
)


class ClaudeCode(RecordFormat):
    """Reads and writes the transcripts of Claude Code."""

    name = NAME
    salvage = SALVAGE
    homes = (Home("CLAUDE_CONFIG_DIR", "~/.claude", ("projects/**/*.jsonl",), keeps_days=30),)

    def sniff(self, head: Head) -> bool:
        """Whether one of the first lines is a record of Claude Code."""
        return any(map(_is_record, head.values)) or (
            # A first line that is longer than the head.
            b"\n" not in head.raw and b'"sessionId"' in head.raw and _OWN.search(head.raw) is not None
        )

    def about(self, found: Iterator[Record], source: Source) -> About:
        """The first ``sessionId``. A sub-agent's file carries its parent's, so the agent's id is added."""
        for record in islice(found, _ID_RECORDS):
            members = _object(record.value)
            session, agent = members.get("sessionId"), members.get("agentId")
            if isinstance(session, str) and session:
                own = members.get("isSidechain") is True and isinstance(agent, str)
                return About(f"{session}.agent-{agent}" if own else session)
        return About()

    def read(self, found: Iterator[Record], report: ImportReport, source: Source) -> Iterator[Item]:
        """See `RecordFormat.read`."""
        mapper = _Mapper(report)
        for record in found:
            yield mapper.item(record)
        mapper.finish()


def _object(value: Any) -> Members:
    """An object's members; of repeated names the last counts. Empty for what is no object."""
    if type(value) is not dict:
        return {}
    if len(value) == 1 and type(value.get(JSON_TAG)) is str:
        opened = wrap_value(lenient(value[JSON_TAG]))
        return opened if type(opened) is dict and JSON_TAG not in opened else {}
    return value


def _text(members: Members, name: str) -> str | None:
    value = members.get(name)
    return value if type(value) is str and value else None


class _Mapper:
    """Maps the records of one file, in order."""

    def __init__(self, report: ImportReport) -> None:
        self._report = report
        self._calls: dict[str, str] = {}
        self._session: str | None = None
        #: Id of the sub-agent whose own file this is.
        self._agent: str | None = None
        # Hashes instead of ids, which are three times as large.
        self._ids: set[int] = set()
        self._parents: dict[int, tuple[int, int]] = {}

    def item(self, record: Record) -> Item:
        """The event of a record."""
        if record.value is NOT_JSON:
            return Item(record, "native", {"format": NAME, "type": record.fault})
        members = _object(record.value)
        if members is not record.value and type(record.value) is dict:
            self._report.count("odd_names", record.number, record.offset)
        if not members:
            return Item(record, "native", {"format": NAME, "type": "json"})
        self._note(record, members)
        snapshot = _object(members.get("snapshot"))
        ts = to_ts(members.get("timestamp", snapshot.get("timestamp")))
        if ts is None and ("timestamp" in members or "uuid" in members):
            # Other records, such as summaries and modes, have no time by nature.
            self._report.count("no_time", record.number, record.offset)
        kind, data, actor = self._map(members)
        return Item(record, kind, self._marked(members, data), actor, ts)

    def finish(self) -> None:
        """Report the parents that never came."""
        for number, offset in self._parents.values():
            self._report.count("dangling_parents", number, offset)

    def _note(self, record: Record, members: Members) -> None:
        """Count oddities that concern records together."""
        session = _text(members, "sessionId")
        if session and self._session is None:
            self._session = session
            self._agent = _text(members, "agentId") if members.get("isSidechain") is True else None
        elif session and session != self._session:
            self._report.count("other_session", record.number, record.offset)
        own, parent = _text(members, "uuid"), _text(members, "parentUuid")
        if own:
            if hash(own) in self._ids:
                self._report.count("repeated_ids", record.number, record.offset)
            elif len(self._ids) < _MAX_IDS:
                self._ids.add(hash(own))
            self._parents.pop(hash(own), None)
        if parent and hash(parent) not in self._ids and len(self._ids) < _MAX_IDS:
            self._parents.setdefault(hash(parent), (record.number, record.offset))

    def _marked(self, members: Members, data: Members) -> Members:
        """Add what the record says about itself, in its own words."""
        native: Members = {"type": members.get("type")}
        for name, source in _OWN_WORDS:
            if _text(members, source):
                native[name] = members[source]
        if members.get("isMeta") is True:
            native["meta"] = True
        session = _text(members, "sessionId")
        if session and session != self._session:
            native["session"] = session
        if members.get("isSidechain") is True and self._agent is None:
            # Talk of a sub-agent in its parent's file (older versions): not part of the parent's context.
            data["sidechain"] = True
        data["native"] = native
        return data

    # --- by type ---------------------------------------------------------------------------------

    def _map(self, members: Members) -> Mapped:
        kind = _text(members, "type")
        message = _object(members.get("message"))
        if kind is None and message:
            # Only written by tools that cut records down; the message says whose it is.
            kind = _text(message, "role")
        if kind == "user":
            return self._user(members, message) or _native(members)
        if kind == "assistant":
            return self._assistant(members, message) or _native(members)
        if kind == "system" and members.get("subtype") == "api_error":
            return _error(members, members.get("error"))
        if kind == "attachment":
            return self._attachment(members) or _native(members)
        if kind == "tool_use" and _text(members, "name"):
            call = {"id": members.get("id"), "name": members["name"], "arguments": members.get("input")}
            return "tool.call", _without_none(call), "assistant"
        if kind == "tool_result" and "output" in members:
            answer = {"id": members.get("id"), "response": members["output"], "is_error": members.get("is_error")}
            return "tool.result", _without_none(answer), _tool_actor(_text(members, "name"))
        return _native(members)

    def _user(self, members: Members, message: Members) -> Mapped | None:
        parts = self._parts(message.get("content"))
        if parts is None:
            return None
        if members.get("isCompactSummary") is True:
            return "context.compaction", {"summary": parts}, "host"
        results = [part for part in parts if part["type"] == "tool_call_response"]
        if results and len(results) == len(parts):
            names = {self._calls.pop(part["id"], None) for part in results if type(part.get("id")) is str}
            return "tool.result", {"parts": parts}, _tool_actor(names.pop() if len(names) == 1 else None)
        actor = "user"
        if members.get("isMeta") is True:
            actor = "host"
        elif members.get("isSidechain") is True:
            actor = "assistant"
        return "message", {"role": "user", "parts": parts}, actor

    def _assistant(self, members: Members, message: Members) -> Mapped | None:
        if not message:
            return None
        parts = self._parts(message.get("content"))
        if members.get("isApiErrorMessage") is True:
            return _error(members, members.get("error"), parts)
        data: Members = {"parts": parts or []}
        for name, source in (("response.id", "id"), ("response.model", "model"), ("finish_reason", "stop_reason")):
            if _text(message, source):
                data[name] = message[source]
        native = message.get("usage")
        if type(native) is dict:
            data["usage"] = _usage(native)
            data["native_usage"] = native
        return "model.response", data, "assistant"

    def _attachment(self, members: Members) -> Mapped | None:
        attachment = _object(members.get("attachment"))
        if attachment.get("type") != "queued_command":
            return None
        # What the user typed while the agent was busy; there is no user record for it.
        parts = self._parts(attachment.get("prompt"))
        return None if parts is None else ("message", {"role": "user", "parts": parts}, "user")

    # --- message parts ---------------------------------------------------------------------------

    def _parts(self, content: Any) -> list[Members] | None:
        """Content blocks as message parts; None when ``content`` is neither text nor a list."""
        if type(content) is list:
            return [self._part(block) for block in content]
        return [{"type": "text", "content": content}] if _is_text(content) else None

    def _part(self, block: Any) -> Members:
        kind = block.get("type") if type(block) is dict else None
        if kind == "text":
            return {"type": "text", "content": block.get("text")}
        if kind == "thinking":
            return {"type": "reasoning", "content": block.get("thinking")}
        if kind == "tool_use":
            self._remember(block.get("id"), block.get("name"))
            return {
                "type": "tool_call",
                "id": block.get("id"),
                "name": block.get("name"),
                "arguments": block.get("input"),
            }
        if kind == "tool_result":
            content = block.get("content")
            parts = self._parts(content) if type(content) is list else content
            answer = {"id": block.get("tool_use_id"), "response": parts, "is_error": block.get("is_error")}
            return {"type": "tool_call_response", **_without_none(answer)}
        if kind in ("image", "document") and type(block.get("source")) is dict:
            return _media(kind, block["source"]) or block
        # A block of another type is a part of that type; what is no block at all is wrapped in one.
        return block if type(kind) is str else {"type": "native", "value": block}

    def _remember(self, call: Any, name: Any) -> None:
        if type(call) is str and type(name) is str:
            self._calls[call] = name
            if len(self._calls) > _MAX_CALLS:
                del self._calls[next(iter(self._calls))]


def _is_text(value: Any) -> bool:
    """Whether a wrapped value is a string, also one with lone surrogates."""
    if type(value) is dict and len(value) == 1:
        text = value.get(JSON_TAG)
        return type(text) is str and text.startswith('"')
    return type(value) is str


def _without_none(members: Members) -> Members:
    return {name: value for name, value in members.items() if value is not None}


def _tool_actor(name: str | None) -> str:
    return f"tool:{name}" if name and _TOOL.fullmatch(name) else "host"


def _media(kind: str, source: Members) -> Members | None:
    """An image or document as ``blob``, ``uri`` or ``file``; None for other sources (plain text)."""
    modality = "image" if kind == "image" else "document"
    mime = {"mime_type": source["media_type"]} if "media_type" in source else {}
    for given, part, name in (("data", "blob", "content"), ("url", "uri", "uri"), ("file_id", "file", "file_id")):
        if _is_text(source.get(given)) and source.get("type") != "text":
            return {"type": part, "modality": modality, **mime, name: source[given]}
    return None


def _usage(native: Members) -> Members:
    """Token counters with OpenTelemetry's meaning: there, input includes what a cache gave and took."""

    def count(name: str) -> int | None:
        value = native.get(name)
        return value if type(value) is int and value >= 0 else None

    plain, read, created = (
        count(name) for name in ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
    )
    known = [value for value in (plain, read, created) if value is not None]
    counters = {
        "gen_ai.usage.input_tokens": sum(known) if known else None,
        "gen_ai.usage.output_tokens": count("output_tokens"),
        "gen_ai.usage.cache_read.input_tokens": read,
        "gen_ai.usage.cache_creation.input_tokens": created,
    }
    return _without_none(counters)


def _error(members: Members, error: Any, parts: list[Members] | None = None) -> Mapped:
    """An error of the provider's interface, from a ``system`` record or a made-up assistant message."""
    texts = [part["content"] for part in parts or () if part["type"] == "text" and type(part.get("content")) is str]
    message: Any = "\n".join(texts) if texts else members.get("content")
    if not _is_text(message):
        message = json.dumps(error, ensure_ascii=False, sort_keys=True) if error is not None else "API error"
    data: Members = {"error.type": error if type(error) is str and error else "api_error", "message": message}
    return "error", data, "host"


def _native(members: Members) -> Mapped:
    """A record without a neutral meaning: its type, and those of its own members that are no containers."""
    inner = members.get("attachment") if members.get("type") == "attachment" else members.get("data")
    sub = members.get("subtype") or (inner.get("type") if type(inner) is dict else None)
    kind = _text(members, "type") or "unknown"
    fields = {
        name: value
        for name, value in members.items()
        if name not in _ENVELOPE and (_is_text(value) or type(value) in (int, float, bool))
    }
    data: Members = {"format": NAME, "type": f"{kind}/{sub}" if type(sub) is str else kind}
    if fields:
        data["fields"] = fields
    return "native", data, "host"
