"""What stands inside a record of Claude Code: content blocks as message parts, usage, errors, who said it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from gitjournal.formats.shapes import Mapped, Members, is_text, items, members, text, whole, without_none

#: The format's name: what users type, and ``source`` of the sessions.
NAME = "claude-code"
#: The model of what the program itself said in the model's place.
SYNTHETIC = "<synthetic>"
# What an editor or a hook shows to the model; people's prompts may begin with it.
_WRAPPED = re.compile(r"\s*<(ide_opened_file|ide_selection|ide_diagnostics|system-reminder)>")
# Calls that wait for their result, and responses whose request is known; what is put away must stay small.
_MAX_CALLS = 2000
_MAX_RESPONSES = 500
# Written by the program in the user's name.
_HOST_SAYS = re.compile(
    r"<(?:local-command-(?:stdout|stderr|caveat)|bash-std(?:out|err)|task-notification)>"
    r"|\[Request interrupted by user|Caveat: The messages below were generated"
)


class Parts:
    """Content blocks as parts; remembers the tools that were called, and the requests of responses."""

    def __init__(self) -> None:
        self._calls: dict[str, str] = {}
        self._requests: dict[str, str] = {}

    def of(self, content: Any) -> list[Members] | None:
        """The parts of a message's content; None when it is neither text nor a list."""
        if type(content) is list:
            return [self._part(block) for block in content]
        return [{"type": "text", "content": content}] if is_text(content) else None

    def tool_of(self, results: list[Members]) -> str | None:
        """The tool that gave all of these results, if it was one and its call was seen."""
        names = {self._calls.pop(part["id"], None) for part in results if type(part.get("id")) is str}
        return names.pop() if len(names) == 1 else None

    def response_id(self, of: Members, message: Members) -> str | None:
        """What the lines of one response have in common: the message's id.

        Ids of some providers repeat. With another request it is another response, and its request is part of its id.
        """
        own, request = text(message, "id"), text(of, "requestId")
        if own is None or request is None:
            return own
        first = self._requests.setdefault(own, request)
        if len(self._requests) > _MAX_RESPONSES:
            del self._requests[next(iter(self._requests))]
        return own if first == request else f"{own}/{request}"

    def save(self) -> Any:
        """See `protocol.Mapper.save`."""
        return [self._calls, self._requests]

    def load(self, saved: Any) -> None:
        """See `protocol.Mapper.load`."""
        self._calls, self._requests = saved

    def _part(self, block: Any) -> Members:
        kind = block.get("type") if type(block) is dict else None
        if kind == "text":
            return {"type": "text", "content": block.get("text")}
        if kind == "thinking":
            return {"type": "reasoning", "content": block.get("thinking")}
        if kind == "tool_use":
            return self._call(block)
        if kind == "tool_result":
            return self._result(block)
        if kind in ("image", "document") and type(block.get("source")) is dict:
            return _media(kind, block["source"]) or block
        # A block of another type is a part of that type; what is no block at all is wrapped in one.
        return block if type(kind) is str else {"type": "native", "value": block}

    def _call(self, block: Members) -> Members:
        call, name = block.get("id"), block.get("name")
        if type(call) is str and type(name) is str:
            self._calls[call] = name
            if len(self._calls) > _MAX_CALLS:
                del self._calls[next(iter(self._calls))]
        return {"type": "tool_call", "id": call, "name": name, "arguments": block.get("input")}

    def _result(self, block: Members) -> Members:
        content = block.get("content")
        parts = self.of(content) if type(content) is list else content
        answer = {"id": block.get("tool_use_id"), "response": parts, "is_error": block.get("is_error")}
        return {"type": "tool_call_response", **without_none(answer)}


def _media(kind: str, source: Members) -> Members | None:
    """An image or document as ``blob``, ``uri`` or ``file``; None for other sources (plain text)."""
    modality = "image" if kind == "image" else "document"
    mime = {"mime_type": source["media_type"]} if "media_type" in source else {}
    for given, part, name in (("data", "blob", "content"), ("url", "uri", "uri"), ("file_id", "file", "file_id")):
        if is_text(source.get(given)) and source.get("type") != "text":
            return {"type": part, "modality": modality, **mime, name: source[given]}
    return None


def usage(native: Members) -> Members:
    """Token counters with OpenTelemetry's meaning: there, input includes what a cache gave and took."""
    names = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
    plain, read, created = (whole(native.get(name)) for name in names)
    known = [value for value in (plain, read, created) if value is not None]
    counters = {
        "gen_ai.usage.input_tokens": sum(known) if known else None,
        "gen_ai.usage.output_tokens": whole(native.get("output_tokens")),
        "gen_ai.usage.cache_read.input_tokens": read,
        "gen_ai.usage.cache_creation.input_tokens": created,
    }
    return without_none(counters)


def speaker(of: Members, parts: list[Members]) -> str:
    """The actor of a record of type ``user``: people type few of them."""
    if of.get("isMeta") is True or of.get("promptSource") == "system":
        return "host"
    if is_aside(of):
        return "assistant"
    origin = members(of.get("origin")).get("kind")
    if type(origin) is str and origin != "human":
        return "host"
    texts = [part.get("content") for part in parts if part["type"] == "text"]
    return "host" if texts and all(type(one) is str and _is_put_in(one) for one in texts) else "user"


def _is_put_in(said: str) -> bool:
    """Whether a text in the user's name is the program's: it begins like one, or is only what an editor shows."""
    if _HOST_SAYS.match(said):
        return True
    tag = _WRAPPED.match(said)
    return tag is not None and said.rstrip().endswith(f"</{tag[1]}>")


def is_aside(of: Members) -> bool:
    """Whether a record is talk of a sub-agent."""
    return of.get("isSidechain") is True or text(of, "parent_tool_use_id") is not None


def agent_of(first: Members, file: Path) -> str | None:
    """The id of the sub-agent whose own file this is, by its first record that names a session."""
    if first.get("isSidechain") is not True:
        return None
    return text(first, "agentId") or (file.stem.removeprefix("agent-") if file.stem.startswith("agent-") else None)


def session_of(of: Members) -> str | None:
    """The session that a record names: in files ``sessionId``, in streams ``session_id``."""
    return text(of, "sessionId") or text(of, "session_id")


def child_of(of: Members) -> str | None:
    """The session of the sub-agent that a record names, as `ClaudeCode.about` calls it."""
    agent = text(members(of.get("toolUseResult")), "agentId")
    if agent is None and of.get("type") == "progress":
        agent = text(members(of.get("data")), "agentId")
    session = session_of(of)
    return f"{session}.agent-{agent}" if agent and session else None


def error(of: Members, given: Any, parts: list[Members] | None = None) -> Mapped:
    """An error of the provider's interface, from a ``system`` record or a made-up assistant message."""
    texts = [part["content"] for part in parts or () if part["type"] == "text" and type(part.get("content")) is str]
    inner = members(given)
    while type(inner.get("error")) is dict:
        # What the client says of the answer, then the answer itself.
        inner = inner["error"]
    message: Any = "\n".join(texts) if texts else of.get("content")
    if not is_text(message):
        message = inner.get("message")
    if not is_text(message):
        message = json.dumps(given, ensure_ascii=False, sort_keys=True) if given is not None else "API error"
    kind = given if type(given) is str and given else text(inner, "type") or "api_error"
    return "error", {"error.type": kind, "message": message}, "host"


def last_texts(content: Any) -> list[str]:
    """The texts of tool results in a message's content."""
    found: list[str] = []
    for block in items(content):
        inner = members(block).get("content")
        blocks = [{"text": inner}] if type(inner) is str else items(inner)
        found += [one["text"] for one in blocks if type(one) is dict and type(one.get("text")) is str]
    return found
