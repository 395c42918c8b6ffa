"""Gemini CLI: ``~/.gemini/tmp/<project>/chats/session-*`` (docs/formats/gemini.md), and its forks.

Older versions write a session as one document, newer ones as lines. In both a message holds what was said, the calls,
and their results. In the lines a message comes again, whole, each time something was added to it: then only what is
new becomes parts of the event.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any, BinaryIO

from gitjournal import canonical
from gitjournal.formats.document import DocumentFormat
from gitjournal.formats.mapping import ObjectMapper, blob_part, injected, modality
from gitjournal.formats.protocol import About, Head, Home, Item, Source, mapped
from gitjournal.formats.records import Record
from gitjournal.formats.report import ImportReport
from gitjournal.formats.shapes import (
    Mapped,
    Members,
    beginning,
    call_part,
    is_text,
    items,
    media_part,
    members,
    native,
    part_of,
    response_part,
    text,
    text_part,
    usage,
    whole,
    without_none,
)
from gitjournal.vocabulary import is_summary

NAME = "gemini"
_ID_RECORDS = 1000
_KINDS = frozenset({"user", "gemini", "info", "error", "warning"})
_ENVELOPE = frozenset({"type", "id", "timestamp"})
# A call with one of these is over, with or without a result.
_OVER = frozenset({"success", "error", "cancelled"})


def _is_session(of: Any) -> bool:
    """Whether a value has the members that each session begins with."""
    return type(of) is dict and type(of.get("sessionId")) is str and type(of.get("projectHash")) is str


def _is_response(of: Any) -> bool:
    """Whether a value is a message of the model; the first line may be damaged."""
    return type(of) is dict and of.get("type") == "gemini" and {"id", "timestamp", "content"} <= of.keys()


class Gemini(DocumentFormat):
    """Reads and writes the sessions of Gemini CLI, of both generations."""

    name = NAME
    opened = frozenset({("messages",)})
    grows = True
    homes = (Home("", "~/.gemini", ("tmp/*/chats/**/*.json", "tmp/*/chats/**/*.jsonl"), keeps_days=30),)

    def sniff(self, head: Head) -> bool:
        """Whether the document, or one of the first lines, says that it is a session."""
        found = [beginning(head.raw), *head.values]
        return any(_is_session(value) or _is_response(value) for value in found)

    def cut(self, stream: BinaryIO) -> Iterator[Record]:
        """See `RecordFormat.cut`. A file of lines that has only its first one yet is no document."""
        for record in super().cut(stream):
            alone = record.fragment and not record.at and record.number == 1
            yield record._replace(fragment=False) if alone and b"\n" not in record.raw.strip() else record

    def comes_again(self, was: Record, now: Record) -> bool:
        """See `RecordFormat.comes_again`: as in the lines, the same id is the same message."""
        own = text(members(now.value), "id")
        return now.fragment or (own is not None and own == text(members(was.value), "id"))

    def about(self, found: Iterator[Record], source: Source) -> About:
        """The first ``sessionId``. A sub-agent's file lies in a folder that is called like its parent."""
        readable = False
        for record in islice(found, _ID_RECORDS):
            of = members(record.value)
            readable = readable or bool(of)
            if session := text(of, "sessionId"):
                folder = source.path.absolute().parent.name
                nested = of.get("kind") == "subagent" and folder not in ("chats", "") and folder.isprintable()
                return About(session, {"parent": {"session": folder}} if nested else {})
        # Lines of which none is an object may be the beginning of a document.
        return About(settled=readable)

    def read(self, found: Iterator[Record], report: ImportReport, source: Source) -> Iterator[Item]:
        """See `RecordFormat.read`."""
        return mapped(_Mapper(NAME, report), found)


class _Message:
    """What is known of a message: where it stands, and what was said of it."""

    def __init__(self, before: int, entries: int) -> None:
        #: Number of the record that it stands after, and how many entries the context had there.
        self.before = before
        self.entries = entries
        #: Hashes, because a session need not fit into memory: of the whole message, and of its parts.
        self.whole: int | None = None
        self.parts: set[int] = set()


class _Mapper(ObjectMapper):
    """Maps the records of one file, in order."""

    def __init__(self, name: str, report: ImportReport) -> None:
        super().__init__(name, report)
        #: The messages of the conversation now, in their order.
        self._messages: dict[str, _Message] = {}
        #: Entries of the context: what keeps its place after a checkpoint is counted from its end.
        self._entries = 0

    def moment(self, of: Members) -> Any:
        """The time of a message, or that of the change."""
        change = members(of.get("$set"))
        return of.get("timestamp") or change.get("lastUpdated") or of.get("startTime") or of.get("lastUpdated")

    def mapped(self, record: Record, of: Members) -> Mapped:
        """See `ObjectMapper.mapped`."""
        kind, own = text(of, "type"), text(of, "id")
        if type(of.get("$rewindTo")) is str:
            self._rewind(of["$rewindTo"])
            return native(NAME, "$rewindTo", of)
        if type(of.get("$set")) is dict:
            return self._set(members(of["$set"]))
        if kind not in _KINDS:
            return self._session(of)
        message = self._place(own)
        event, data, actor = self._map(kind, of, message)
        if message is not None:
            message.whole = _key(of)
        self._entries += bool(data.get("parts"))
        data["native"] = without_none({"type": kind, "id": own})
        return event, data, actor

    def _session(self, of: Members) -> Mapped:
        """What stands around the messages."""
        if is_summary(of.get("summary")) and of["summary"]:
            return "session.update", {"summary": of["summary"], "native": {"type": "session"}}, "host"
        return native(NAME, "session" if "sessionId" in of or "lastUpdated" in of else "unknown", of)

    # --- order: repeated messages, rewinds, checkpoints ------------------------------------------

    def _place(self, own: str | None) -> _Message | None:
        if own is None:
            return None
        return self._messages.setdefault(own, _Message(self.before, self._entries))

    def _rewind(self, target: str) -> None:
        """Forget a message and all after it; all of them when it is unknown."""
        ids = list(self._messages)
        gone = ids[ids.index(target) :] if target in self._messages else ids
        if gone:
            first = self._messages[gone[0]]
            self._entries = first.entries
            self.goes_after(first.before)
        for name in gone:
            del self._messages[name]

    def _set(self, change: Members) -> Mapped:
        if type(change.get("messages")) is list:
            return self._checkpoint(change["messages"])
        if is_summary(change.get("summary")) and change["summary"]:
            return "session.update", {"summary": change["summary"], "native": {"type": "$set"}}, "host"
        return native(NAME, "$set", change)

    def _checkpoint(self, found: list[Any]) -> Mapped:
        """The conversation is put together anew: what stands at its end as before stays, the rest is a summary."""
        new = [members(one) for one in found]
        ids = [text(one, "id") for one in new]
        if ids == list(self._messages):
            # Only contents were changed: results that were masked or cut to save space.
            return native(NAME, "$set/messages", {})
        if [_key(one) for one in new] == [one.whole for one in self._messages.values()][: len(new)]:
            self._rewind(list(self._messages)[len(new)])
            return native(NAME, "$set/messages", {})
        kept = self._kept(new)
        first = len(new) - kept
        keep = self._entries - self._messages[str(ids[first])].entries if kept else 0
        parts = [part for one in new[:first] for part in _said(one)]
        is_begin = not self._entries and all(text(one, "type") == "user" for one in new)
        self._restart(new, first, keep, bool(parts))
        if is_begin:
            # There is nothing whose place it could take: the program says where it is.
            event, said, actor = injected(parts)
            return event, {**said, "native": {"type": "$set/messages"}}, actor
        data: Members = {"summary": parts, "keep_last": keep, "native": {"type": "$set/messages"}}
        return "context.compaction", data, "host"

    def _kept(self, new: list[Members]) -> int:
        """How many messages at the end are those that stand there already, unchanged."""
        known = [one.whole for one in self._messages.values()]
        return next((n for n in range(len(new)) if n >= len(known) or _key(new[-1 - n]) != known[-1 - n]), len(new))

    def _restart(self, new: list[Members], first: int, keep: int, said: bool) -> None:
        """The conversation after a checkpoint: a summary, if any was said, then what was kept."""
        old, self._messages = self._messages, {}
        shift = self._entries - keep - said
        self._entries = keep + said
        for n, one in enumerate(new):
            own = text(one, "id")
            if own is None:
                continue
            message = _Message(self.before, said)
            if n >= first:
                message = old[own]
                message.entries -= shift
            message.whole = _key(one)
            message.parts = message.parts or _keys(_said(one))
            self._messages[own] = message

    # --- by type ---------------------------------------------------------------------------------

    def _map(self, kind: str, of: Members, message: _Message | None) -> Mapped:
        if kind == "error" and is_text(of.get("content")):
            return "error", {"error.type": "error", "message": of["content"]}, "host"
        if kind not in ("user", "gemini"):
            # What the program tells its user; the model never sees it.
            return native(NAME, kind, of, _ENVELOPE)
        parts = _said(of)
        new = parts
        if message is not None:
            new = [part for part in parts if not _keys([part]) & message.parts]
            message.parts = _keys(parts)
        if kind == "user":
            return _user(new, changed=message is not None and message.whole is not None)
        return "model.response", {"parts": new, **_response(of)}, "assistant"


def _key(value: Any) -> int:
    return hash(canonical.dumps(value))


def _keys(parts: list[Members]) -> set[int]:
    """What parts are known by. A call or a result is known by its id too: it is not said again when it was changed."""
    named = ([part["type"], part["id"]] for part in parts if type(part.get("id")) is str)
    return {*map(_key, parts), *map(_key, named)}


def _user(parts: list[Members], *, changed: bool) -> Mapped:
    if parts and all(part["type"] == "tool_call_response" for part in parts):
        return "tool.result", {"parts": parts}, "host"
    data: Members = {"role": "user", "parts": parts}
    return "message", {**data, "continues": True} if changed else data, "user"


def _response(of: Members) -> Members:
    """What a response says of itself."""
    tokens = members(of.get("tokens"))
    data: Members = {"response.id": text(of, "id"), "response.model": text(of, "model")}
    if tokens:
        data["native_usage"] = tokens
        data["usage"] = _usage(tokens)
    agents = [agent for call in items(of.get("toolCalls")) if (agent := text(members(call), "agentId"))]
    if len(agents) == 1:
        data["child"] = {"session": agents[0]}
    elif agents:
        data["children"] = [{"session": agent} for agent in agents]
    return without_none(data)


def _usage(tokens: Members) -> Members:
    """``output`` is without thoughts, and ``cached`` is a part of ``input``."""
    output, thoughts = whole(tokens.get("output")), whole(tokens.get("thoughts"))
    made = None if output is None and thoughts is None else (output or 0) + (thoughts or 0)
    return usage(tokens.get("input"), made, read=tokens.get("cached"), reasoning=thoughts)


def _said(of: Members) -> list[Members]:
    """All parts of a message: thoughts, content, calls, results."""
    content = _content(of.get("content"))
    given = items(of.get("toolCalls"))
    calls = [call for call in map(members, given) if text(call, "name")]
    odd = [part_of(call) for call in given if not text(members(call), "name")]
    named = {text(call, "id") for call in calls if text(call, "id")}
    # A checkpoint has the calls in the content as well.
    content = [part for part in content if part["type"] != "tool_call" or part.get("id") not in named]
    thoughts = [part for one in items(of.get("thoughts")) for part in _thought(one)]
    return [*thoughts, *content, *odd, *map(_call, calls), *(part for call in calls for part in _result(call))]


def _thought(one: Any) -> list[Members]:
    shape = members(one)
    lines = [shape[name] for name in ("subject", "description") if text(shape, name)]
    return [{"type": "reasoning", "content": line} for line in lines]


def _content(content: Any) -> list[Members]:
    blocks = content if type(content) is list else [] if content is None else [content]
    return [part for block in blocks for part in _part(block)]


def _part(block: Any) -> list[Members]:
    """A part of the provider's interface."""
    if is_text(block):
        return text_part(block)
    shape = members(block)
    if is_text(shape.get("text")):
        thought = shape.get("thought") is True
        return [{"type": "reasoning", "content": shape["text"]}] if thought else text_part(shape["text"])
    call, answer = members(shape.get("functionCall")), members(shape.get("functionResponse"))
    data, file = members(shape.get("inlineData")), members(shape.get("fileData"))
    if text(call, "name"):
        return [call_part(call.get("id"), call.get("name"), call.get("args"))]
    if answer:
        return [response_part(answer.get("id"), *_outcome(answer.get("response")))]
    if is_text(data.get("data")):
        return [blob_part(data.get("mimeType"), data["data"])]
    if type(file.get("fileUri")) is str:
        return [media_part(modality(file.get("mimeType")), file.get("mimeType"), file["fileUri"])]
    return [part_of(block)]


def _outcome(response: Any) -> tuple[Any, bool | None]:
    """What a tool gave back, and whether that is an error."""
    shape = members(response)
    if len(shape) == 1 and "output" in shape:
        return shape["output"], None
    if len(shape) == 1 and "error" in shape:
        return shape["error"], True
    return response, None


def _call(call: Members) -> Members:
    return call_part(call.get("id"), call.get("name"), call.get("args"))


def _result(call: Members) -> list[Members]:
    """What came of a call; nothing while it waits or runs."""
    status, result = text(call, "status"), call.get("result")
    if result is None and status not in _OVER:
        return []
    blocks = _content(result)
    response, error = (blocks[0]["response"], blocks[0].get("is_error")) if _is_answer(blocks) else (blocks, None)
    if status in _OVER:
        error = status != "success"
    return [response_part(call.get("id"), response if result is not None else None, error)]


def _is_answer(blocks: list[Members]) -> bool:
    return len(blocks) == 1 and blocks[0]["type"] == "tool_call_response" and "response" in blocks[0]
