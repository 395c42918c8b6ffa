"""Pi, versions 1 to 3, and OpenClaw, which wrote the same (docs/formats/pi.md).

Entries are a tree by ``parentId``; the program goes on from any of them. A branch is made only where two prompts of the
user share a parent, or where the tree says that it was left for another place.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from typing import Any, ClassVar, NamedTuple

from gitjournal.formats import openclaw
from gitjournal.formats.mapping import ObjectMapper, blob_part, injected
from gitjournal.formats.protocol import About, Head, Home, RecordFormat, Source, Strand
from gitjournal.formats.records import Record, Salvage
from gitjournal.formats.report import ImportReport
from gitjournal.formats.shapes import (
    Mapped,
    Members,
    call_part,
    is_text,
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
from gitjournal.formats.sqlite_read import MAGIC
from gitjournal.formats.times import to_ts
from gitjournal.vocabulary import is_title

NAME = "pi"
_ID_RECORDS = 1000
_MAX_ENTRIES = 250_000
# A file with more is damaged or made to keep a reader busy; the rest stays in the order of the file.
_MAX_BRANCHES = 1_000
_ENVELOPE = frozenset({"type", "id", "parentId", "timestamp"})
_TYPES = frozenset({
    "message", "model_change", "thinking_level_change", "compaction", "branch_summary", "custom", "custom_message",
    "label", "session_info", "context_transform", "ephemeral", "reset",
})  # fmt: skip
#: Entries that the model is told of.
_SAID = frozenset({"message", "custom_message", "branch_summary", "compaction"})
#: Roles of messages that the model is given as the user's, and that the program wrote.
_MADE = frozenset({"custom", "hookMessage", "branchSummary", "compactionSummary"})
#: ``<time>_<id>.jsonl``, and what OpenClaw puts behind it: ``.deleted.<time>``, ``.reset.<time>``, ``.full.bak``.
_FILE = re.compile(r"(?:[0-9TZ:.-]+_)?(?P<id>.+?)\.jsonl(?:\.(?:deleted|reset|full|bak|archived)\b.*)?")
_FILES = tuple(f"agents/*/sessions/*.jsonl{end}" for end in ("", ".deleted.*", ".reset.*", ".full.bak"))
_HOMES = (
    Home("PI_CODING_AGENT_DIR", "~/.pi/agent", ("sessions/**/*.jsonl",)),
    Home("OPENCLAW_STATE_DIR", "~/.openclaw", (*_FILES, "agents/*/agent/openclaw-agent.sqlite")),
)


def _is_header(of: Any) -> bool:
    if type(of) is not dict or of.get("type") != "session":
        return False
    return type(of.get("id")) is str and type(of.get("timestamp")) is str and type(of.get("cwd")) is str


def _is_entry(of: Any) -> bool:
    """Whether a value is a whole entry, and not an object inside one."""
    if type(of) is not dict or type(of.get("type")) is not str or type(of.get("timestamp")) is not str:
        return False
    return of["type"] in _TYPES and "parentId" in of and type(of.get("id")) is str


class Pi(RecordFormat):
    """Reads and writes the sessions of Pi and OpenClaw, and reads OpenClaw's database."""

    name = NAME
    salvage = Salvage(re.compile(r'\{"(?:type|id|parentId|timestamp)"'), lambda of: _is_header(of) or _is_entry(of))
    homes = _HOMES

    def sniff(self, head: Head) -> bool:
        """Whether one of the first lines is the header, or a message of the tree; or it is OpenClaw's database."""
        if head.raw.startswith(MAGIC):
            return openclaw.is_theirs(head.path)
        return any(_is_header(of) or (_is_entry(of) and of["type"] == "message") for of in head.values)

    def strands(self, source: Source) -> Iterator[Strand]:
        """The session of a file; all sessions of a database, last those that were deleted or begun anew."""
        with source.open() as stream:
            magic = stream.read(len(MAGIC))
        if magic != MAGIC:
            yield from super().strands(source)
            return
        store = openclaw.Store(source.path, self.salvage)
        for session in store.sessions():
            yield self._row_strand(session, source, partial(store.lines, session))
        for row, session in store.archives():
            yield self._row_strand(session, source, partial(store.archived, row))

    def _row_strand(self, session: str, source: Source, found: Callable[[], Iterator[Record]]) -> Strand:
        about = self.about(found(), source)._replace(session=session)
        return Strand(about, found, lambda lines, report: self.read(lines, report, source), exact=False)

    def about(self, found: Iterator[Record], source: Source) -> About:
        """The header's ``id``; the file's name has it too. A forked session names the file that it was copied from."""
        header = next((of for one in islice(found, _ID_RECORDS) if _is_header(of := members(one.value))), {})
        origin = text(header, "parentSession") or text(header, "branchedFrom")
        start = without_none({"project": text(header, "cwd")})
        session = text(header, "id") or _named(source.path.name)
        return About(session, start, copied_from=_named(re.split(r"[/\\]", origin)[-1]) if origin else None)

    def same(self, record: Record) -> bytes:
        """A copy has a header of its own; its entries are copied as they are."""
        return b"" if _is_header(record.value) else record.raw

    def mapper(self, report: ImportReport, source: Source) -> ObjectMapper:
        """See `RecordFormat.mapper`."""
        return _Mapper(NAME, report)


def _named(file: str) -> str | None:
    """The session's id in the name of its file."""
    match = _FILE.fullmatch(file)
    return match["id"] if match else None


class _Entry(NamedTuple):
    """Where an entry is in the file and in the tree, and what the context was there."""

    number: int
    #: The stretch of the file that it is in: a new one begins at each branch.
    stretch: int
    #: The nearest entry on the way to it that the model is told of, itself if it is one; None at the root.
    said: str | None
    #: Entries of the context before it and after it, and those of them that a compaction took away.
    before: int
    after: int
    gone: int


class _Mapper(ObjectMapper):
    """Maps the records of one file, in order."""

    def __init__(self, name: str, report: ImportReport) -> None:
        super().__init__(name, report)
        self._entries: dict[str, _Entry] = {}
        #: Entries by their place among all objects of the file, as version 1 counts them.
        self._places: list[tuple[str | None, _Entry]] = []
        #: By parent: after which record the first prompt with this parent stands.
        self._prompts: dict[str | None, int] = {}
        #: Of each stretch, in which it began, and after which record.
        self._stretches: list[tuple[int, int]] = [(0, 0)]
        self._stretch = self._count = self._gone = 0

    def mapped(self, record: Record, of: Members) -> Mapped:
        """See `ObjectMapper.mapped`."""
        own, parent = text(of, "id"), text(of, "parentId")
        if not _is_header(of):
            self.note(record, own, parent)
            self._move(of, parent)
        before = self._count
        kind, data, actor = self._map(of)
        self._count += bool(data.get("parts")) or kind in ("tool.call", "tool.result")
        self._remember(record, of, own, parent, before)
        data["native"] = without_none({"type": of.get("type"), "id": own, "parent": parent})
        return kind, data, actor

    def kept(self) -> Any:
        """See `ObjectMapper.kept`."""
        return [self._places, list(self._prompts.items()), self._stretches, self._stretch, self._count, self._gone]

    def restore(self, own: Any) -> None:
        """See `ObjectMapper.restore`."""
        places, prompts, stretches, self._stretch, self._count, self._gone = own
        self._prompts = dict(prompts)
        self._stretches = [(stretch, number) for stretch, number in stretches]
        for name, entry in places:
            self._put(name, _Entry(*entry))

    # --- the tree --------------------------------------------------------------------------------

    def _move(self, of: Members, parent: str | None) -> None:
        """Find out whether an entry stands elsewhere than behind the one before it in the file."""
        known = self._entries.get(parent or "")
        if not _is_prompt(of) and of.get("type") != "branch_summary":
            return
        if "parentId" not in of or (parent and known is None):
            return
        said = known.said if known else None
        if of.get("type") == "branch_summary" or not self._is_here(known):
            self._go(known, known.number if known else self._prompts.get(None, 0))
        elif said in self._prompts:
            place = self._entries.get(said or "")
            self._go(place, place.number if place else self._prompts[said])
        self._prompts.setdefault(said, self.before)

    def _is_here(self, entry: _Entry | None) -> bool:
        """Whether an entry is on the way from the beginning to where the file is now."""
        if entry is None:
            return True
        stretch, limit = self._stretch, self.before
        while stretch != entry.stretch:
            if not stretch:
                return False
            stretch, limit = self._stretches[stretch]
        return entry.number <= limit

    def _go(self, entry: _Entry | None, number: int) -> None:
        if number == self.before or len(self._stretches) > _MAX_BRANCHES:
            return
        self.goes_after(number)
        self._stretches.append((entry.stretch if entry else 0, number))
        self._stretch = len(self._stretches) - 1
        self._count, self._gone = (entry.after, entry.gone) if entry else (0, 0)

    def _remember(self, record: Record, of: Members, own: str | None, parent: str | None, before: int) -> None:
        known = self._entries.get(parent or "")
        said = own if text(of, "type") in _SAID else known.said if known else None
        self._put(own, _Entry(record.number, self._stretch, said, before, self._count, self._gone))

    def _put(self, own: str | None, entry: _Entry) -> None:
        if len(self._places) < _MAX_ENTRIES:
            self._places.append((own, entry))
            if own:
                self._entries[own] = entry

    # --- by type: None when the shape does not fit -----------------------------------------------

    def _map(self, of: Members) -> Mapped:
        kind = text(of, "type") or "unknown"
        handler = self._HANDLERS.get(kind)
        return (handler(self, of) if handler else None) or native(NAME, kind, of, _ENVELOPE)

    def _message(self, of: Members) -> Mapped | None:
        message = members(of.get("message"))
        role = text(message, "role")
        if role == "assistant":
            return self._assistant(message)
        if role == "toolResult":
            return self._result(message)
        if role == "bashExecution":
            return _bash(message)
        parts = _parts(message.get("content", message.get("summary")))
        if parts is None or (role != "user" and role not in _MADE):
            return None
        return ("message", {"role": "user", "parts": parts}, "user") if role == "user" else injected(parts)

    def _assistant(self, message: Members) -> Mapped | None:
        parts, failure = _parts(message.get("content")), message.get("errorMessage")
        if not parts and is_text(failure) and failure:
            return "error", {"error.type": text(message, "stopReason") or "error", "message": failure}, "host"
        if parts is None:
            return None
        for part in parts:
            if part["type"] == "tool_call":
                self.remember(part["id"], part["name"])
        data: Members = {
            "parts": parts,
            "response.id": text(message, "responseId"),
            "response.model": text(message, "model"),
            "provider.name": text(message, "provider"),
            "finish_reason": text(message, "stopReason"),
        }
        native_usage = members(message.get("usage"))
        if native_usage:
            data["usage"] = _usage(native_usage)
            data["native_usage"] = native_usage
        return "model.response", without_none(data), "assistant"

    def _result(self, message: Members) -> Mapped | None:
        parts = _parts(message.get("content"))
        call = text(message, "toolCallId")
        if parts is None or call is None:
            return None
        data: Members = {"id": call, "response": parts}
        if type(message.get("isError")) is bool:
            data["is_error"] = message["isError"]
        return "tool.result", data, tool_actor(self.called(call) or message.get("toolName"))

    def _injected(self, of: Members) -> Mapped | None:
        parts = _parts(of.get("content"))
        return None if parts is None else injected(parts)

    def _branch_summary(self, of: Members) -> Mapped | None:
        """What was said on the branch that is left: the model is told on the new one."""
        parts = text_part(of.get("summary"))
        return injected(parts) if parts else None

    def _compaction(self, of: Members) -> Mapped | None:
        parts = text_part(of.get("summary"))
        if not parts:
            return None
        first = self._first_kept(of)
        keep = 0 if first is None else self._count - max(first.before, self._gone)
        self._gone = self._count - keep
        return "context.compaction", {"summary": parts, "keep_last": keep}, "host"

    def _first_kept(self, of: Members) -> _Entry | None:
        """The entry from which on the context is kept; None when nothing is, or it is not in the file."""
        found = self._entries.get(text(of, "firstKeptEntryId") or "")
        place = whole(of.get("firstKeptEntryIndex"))
        if found is None and place is not None and place < len(self._places):
            found = self._places[place][1]
        return found if found is not None and self._is_here(found) else None

    def _info(self, of: Members) -> Mapped | None:
        title = (text(of, "name") or "").strip()
        return ("session.update", {"title": title}, "user") if title and is_title(title) else None

    _HANDLERS: ClassVar[dict[str, Callable[[_Mapper, Members], Mapped | None]]] = {
        "message": _message,
        "custom_message": _injected,
        "branch_summary": _branch_summary,
        "compaction": _compaction,
        "session_info": _info,
    }

    def moment(self, of: Members) -> Any:
        """The time of the entry; in version 1 only the message has one, and it is in milliseconds."""
        inner = members(of.get("message")).get("timestamp")
        return inner if to_ts(of.get("timestamp")) is None and to_ts(inner) else of.get("timestamp")


def _is_prompt(of: Members) -> bool:
    return of.get("type") == "message" and members(of.get("message")).get("role") == "user"


def _bash(message: Members) -> Mapped | None:
    """A command that the user ran beside the conversation, and its output: the model is told of both, if of any."""
    command, output = message.get("command"), message.get("output")
    if not is_text(command) or not is_text(output) or message.get("excludeFromContext") is True:
        return None
    return "message", {"role": "user", "parts": text_part(command) + text_part(output)}, "user"


def _parts(content: Any) -> list[Members] | None:
    """Content blocks as message parts; None when ``content`` is neither text nor a list."""
    if type(content) is list:
        return [_part(block) for block in content]
    return text_part(content) if is_text(content) else None


def _part(block: Any) -> Members:
    shape = members(block)
    kind = shape.get("type")
    if kind == "text" and is_text(shape.get("text")):
        return {"type": "text", "content": shape["text"]}
    if kind == "thinking" and is_text(shape.get("thinking")):
        return {"type": "reasoning", "content": shape["thinking"]}
    if kind == "toolCall" and text(shape, "name"):
        return call_part(shape.get("id"), shape.get("name"), shape.get("arguments"))
    if kind == "image" and is_text(shape.get("data")):
        return blob_part(shape.get("mimeType"), shape["data"])
    return part_of(block)


def _usage(native_usage: Members) -> Members:
    """``input`` is without what the cache gave and took."""
    names = ("input", "cacheRead", "cacheWrite")
    counts = [count for name in names if (count := whole(native_usage.get(name))) is not None]
    return usage(
        sum(counts) if counts else None,
        native_usage.get("output"),
        read=native_usage.get("cacheRead"),
        created=native_usage.get("cacheWrite"),
        reasoning=native_usage.get("reasoning"),
    )
