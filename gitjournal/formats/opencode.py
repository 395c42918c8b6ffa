"""opencode: what ``opencode export`` writes, its database, and its older files (docs/formats/opencode.md).

A session has messages, and a message has parts; each part is a record. In the export they are elements of arrays, in
the database rows, whose ``data`` is the same JSON text without the ids. A part is changed in place while it grows.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from pathlib import Path
from typing import Any, BinaryIO, ClassVar

from gitjournal.errors import JournalError, UsageError
from gitjournal.formats import opencode_files
from gitjournal.formats.document import DocumentFormat
from gitjournal.formats.mapping import modality
from gitjournal.formats.opencode_rows import Row, of_database, of_document, rows, sessions
from gitjournal.formats.protocol import About, Head, Home, Item, Source, Strand
from gitjournal.formats.records import NOT_JSON, Record
from gitjournal.formats.report import ImportReport
from gitjournal.formats.shapes import (
    Mapped,
    Members,
    beginning,
    call_part,
    is_text,
    media_part,
    members,
    native,
    response_part,
    text,
    text_part,
    usage,
    whole,
    without_none,
)
from gitjournal.formats.sqlite_read import MAGIC, Database, columns
from gitjournal.formats.times import to_ts
from gitjournal.journal import Journal
from gitjournal.refs import Name
from gitjournal.vocabulary import is_title

NAME = "opencode"
#: Columns by which the database is recognised.
_COLUMNS = {
    "session": {"id", "project_id", "directory", "parent_id", "version"},
    "part": {"id", "message_id", "session_id", "data"},
}
_EXPORT = re.compile(rb'(?:\xef\xbb\xbf)?\s*\{\s*"info"\s*:\s*\{\s*"id"\s*:\s*"ses_')
# The tables, when the database cannot be opened now.
_SCHEMA = re.compile(rb'CREATE TABLE [`"\[]?part[`"\]]? ?\(.{0,400}message_id', re.DOTALL)
_ENVELOPE = frozenset({"id", "sessionID", "messageID", "type", "role", "parentID", "time"})
#: Results of a tool call whose status says that all went well.
_BROKEN_TOOL = "invalid"


class Opencode(DocumentFormat):
    """Reads and writes exports of opencode, and reads its database and its older files."""

    name = NAME
    opened = frozenset({("messages",), ("messages", "*", "parts")})
    homes = (Home("", "~/.local/share/opencode", ("opencode*.db",)),)

    def sniff(self, head: Head) -> bool:
        """Whether the document is or begins with a session of opencode, or the database has its tables."""
        if not head.raw.startswith(MAGIC):
            found = beginning(head.raw)
            if _is_session(found):
                return opencode_files.is_place(head.path)
            return _is_session(members(found.get("info"))) or _EXPORT.match(head.raw) is not None
        try:
            return all(columns(head.path, table) >= names for table, names in _COLUMNS.items())
        except JournalError:
            return _SCHEMA.search(head.raw) is not None

    def about(self, found: Iterator[Record], source: Source) -> About:
        """What the member ``info`` before the messages says."""
        first = next(found, None)
        info = members(members(first.value).get("info")) if first is not None else {}
        return _about(text(info, "id"), info.get("directory"), info.get("parentID"), info.get("version"))

    def read(self, found: Iterator[Record], report: ImportReport, source: Source) -> Iterator[Item]:
        """See `RecordFormat.read`."""
        return _Mapper(report).items(map(of_document, found))

    def strands(self, source: Source) -> Iterator[Strand]:
        """The session of an export, or of a file in the older tree; all sessions of a database."""
        with source.open() as stream:
            magic = stream.read(len(MAGIC))
        if magic == MAGIC:
            yield from _stored(Database(source.path))
        elif opencode_files.is_place(source.path) and _is_session(info := opencode_files.about(source)):
            about = _about(text(info, "id"), info.get("directory"), info.get("parentID"), info.get("version"))
            yield Strand(about, lambda: opencode_files.rows(source), _mapped_rows, exact=False)
        else:
            yield from super().strands(source)

    def export(self, journal: Journal, name: Name, out: BinaryIO, files: Path | None) -> int:
        """See `Format.export`. UsageError for a session that came from rows or many files: they make no file."""
        first = journal.event(name, 1)
        if not first.withheld and first.stored_data.get("exact") is False:
            raise UsageError(
                f"{name} came from rows of a database or from many files, which make no file",
                hint="gj export --format jsonl writes it all.",
            )
        return super().export(journal, name, out, files)


def _is_session(info: Members) -> bool:
    return (text(info, "id") or "").startswith("ses") and ("projectID" in info or "directory" in info)


def _about(session: str | None, directory: Any, parent: Any, version: Any) -> About:
    start = {
        "project": directory if type(directory) is str and directory else None,
        "parent": {"session": parent} if type(parent) is str and parent else None,
        "agent.version": version if type(version) is str and version else None,
    }
    return About(session, without_none(start))


def _stored(database: Database) -> Iterator[Strand]:
    """The sessions of a database, in the order of their ids."""
    for row in sessions(database):
        session = str(row["id"])
        about = _about(session, row.get("directory"), row.get("parent_id"), row.get("version"))
        about = about._replace(start={**about.start, "exact": False})
        yield Strand(about, _reader(database, session), _mapped_rows, exact=False)


def _reader(database: Database, session: str) -> Callable[[], Iterator[Record]]:
    return lambda: rows(database, session)


def _mapped_rows(found: Iterator[Record], report: ImportReport) -> Iterator[Item]:
    return _Mapper(report).items(map(of_database, found))


class _Message:
    """The message whose parts are being mapped."""

    def __init__(self, held: list[Row]) -> None:
        info = next((row for row in held if row.kind == "info"), None)
        self.info: Members = info.of if info else {}
        self.id = info.id if info else None
        self.role = text(self.info, "role")
        #: Responses of the provider: counted where a step ends, else in the message itself.
        self.steps = sum(1 for row in held if row.of.get("type") == "step-finish" and members(row.of.get("tokens")))
        self.finished = 0
        #: How many messages before it have its id: tools that hide secrets have put one word in the place of all ids.
        self.double = 0
        self.spoken = self.compacted = False

    @property
    def response(self) -> str | None:
        """The id of the present response of the provider."""
        own = f"{self.id}~{self.double}" if self.id and self.double else self.id
        return f"{own}.{self.finished + 1}" if own and self.finished else own

    @property
    def is_summary(self) -> bool:
        """Whether the message takes the place of what was said before it."""
        done = "finish" in self.info and not self.info.get("error")
        return self.role == "assistant" and self.info.get("summary") is True and done


class _Mapper:
    """Maps the rows of one session, in order."""

    def __init__(self, report: ImportReport) -> None:
        self._report = report
        #: Entries of the context so far, those that a compaction took away, and how many there were at each message.
        self._count = self._gone = 0
        self._starts: dict[str, int] = {}
        self._ids = Counter[str]()
        #: The message from which on a compaction keeps what was said.
        self._tail: str | None = None

    def items(self, found: Iterable[Row]) -> Iterator[Item]:
        """The events of all rows."""
        for key, group in groupby(found, key=lambda row: row.message):
            if key is None:
                yield from map(self._session, group)
                continue
            held = list(group)
            message = _Message(held)
            own = message.id or key
            self._ids[own] += 1
            message.double = self._ids[own] - 1
            if message.double:
                self._report.count("repeated_ids", held[0].record.number, held[0].record.offset)
            self._starts[own] = self._count
            yield from (self._item(row, message) for row in held)

    def _session(self, row: Row) -> Item:
        info = members(row.of.get("info"))
        title = info.get("title")
        if row.record.value is NOT_JSON:
            return Item(row.record, "native", {"format": NAME, "type": row.record.fault})
        ts = to_ts(members(info.get("time")).get("created"))
        if is_title(title) and title:
            marks = {"type": "session", "id": text(info, "id"), "parent": text(info, "parentID")}
            return Item(row.record, "session.update", {"title": title, "native": without_none(marks)}, ts=ts)
        return Item(row.record, *native(NAME, "session", info or row.of), ts)

    def _item(self, row: Row, message: _Message) -> Item:
        record = row.record
        if record.value is NOT_JSON:
            return Item(record, "native", {"format": NAME, "type": record.fault})
        if members(record.value) is not record.value and type(record.value) is dict:
            self._report.count("odd_names", record.number, record.offset)
        if row.kind == "info":
            kind, data, actor = self._info(row, message)
        else:
            kind, data, actor = self._part(row, message)
        self._count += bool(data.get("parts"))
        marks = {"type": row.of.get("type", "message"), "id": row.id, "parent": message.id}
        if row.kind == "info":
            marks["parent"] = text(row.of, "parentID")
        cost = row.of.get("cost")
        if type(cost) in (int, float):
            marks["cost"] = cost
        data["native"] = without_none(marks)
        return Item(record, kind, data, actor, _moment(row))

    def _info(self, row: Row, message: _Message) -> Mapped:
        """What a message says of itself; the parts say what was said."""
        of = row.of
        if message.role != "assistant":
            return native(NAME, f"message/{message.role}" if message.role else "message", of, _ENVELOPE)
        tokens, error = members(of.get("tokens")), members(of.get("error"))
        if error:
            return _error(error)
        data = _about_response(message)
        data["finish_reason"] = text(of, "finish")
        if tokens and not message.steps:
            data["usage"], data["native_usage"] = _usage(tokens), tokens
        return "model.response", without_none(data), "assistant"

    def _part(self, row: Row, message: _Message) -> Mapped:
        kind = "message" if row.kind == "rest" else text(row.of, "type") or "unknown"
        if message.role is None:
            return native(NAME, kind, row.of, _ENVELOPE)
        if kind == "compaction":
            self._tail = text(row.of, "tail_start_id")
        handler = self._HANDLERS.get(kind)
        return (handler(self, row.of, message) if handler else None) or native(NAME, kind, row.of, _ENVELOPE)

    # --- by type of part: None when the shape does not fit ---------------------------------------

    def _text(self, of: Members, message: _Message) -> Mapped | None:
        if not is_text(of.get("text")) or of.get("ignored") is True:
            return None
        parts = text_part(of["text"])
        if message.is_summary and parts and not message.compacted:
            message.compacted = True
            return self._compaction(parts)
        return _said(parts, message, made=of.get("synthetic") is True)

    def _compaction(self, parts: list[Members]) -> Mapped:
        start = self._starts.get(self._tail or "")
        keep = 0 if start is None else self._count - max(start, self._gone)
        self._gone, self._tail = self._count - keep, None
        return "context.compaction", {"summary": parts, "keep_last": keep}, "host"

    def _reasoning(self, of: Members, message: _Message) -> Mapped | None:
        if not is_text(of.get("text")):
            return None
        parts = [{"type": "reasoning", "content": of["text"]}] if of["text"] else []
        return _said(parts, message)

    def _file(self, of: Members, message: _Message) -> Mapped | None:
        url, mime = of.get("url"), of.get("mime")
        if type(url) is not str or not url:
            return None
        return _said([media_part(modality(mime), mime, url)], message)

    def _tool(self, of: Members, message: _Message) -> Mapped | None:
        """A call, and its result as soon as there is one: the program writes it into the same part."""
        state, name = members(of.get("state")), text(of, "tool")
        if name is None or not state:
            return None
        call, metadata, status = of.get("callID"), members(state.get("metadata")), state.get("status")
        parts = [call_part(call, name, state.get("input"))]
        if status in ("completed", "error"):
            parts.append(response_part(call, *_result(name, state, metadata)))
        kind, data, actor = _response(parts, message)
        if child := text(metadata, "sessionId"):
            data["child"] = {"session": child}
        return kind, data, actor

    def _step(self, of: Members, message: _Message) -> Mapped | None:
        tokens = members(of.get("tokens"))
        if not tokens:
            return None
        data = {**_about_response(message), "finish_reason": text(of, "reason")}
        message.finished += 1
        data["usage"], data["native_usage"] = _usage(tokens), tokens
        return "model.response", without_none(data), "assistant"

    def _retry(self, of: Members, message: _Message) -> Mapped | None:
        error = members(of.get("error"))
        return _error(error) if error else None

    _HANDLERS: ClassVar[dict[str, Callable[[_Mapper, Members, _Message], Mapped | None]]] = {
        "text": _text,
        "reasoning": _reasoning,
        "file": _file,
        "tool": _tool,
        "step-finish": _step,
        "retry": _retry,
    }


def _said(parts: list[Members], message: _Message, *, made: bool = False) -> Mapped:
    """Parts of a message, from whose it is. All parts of a user's message are one turn."""
    if message.role == "assistant":
        return _response(parts, message)
    data: Members = {"role": message.role, "parts": parts}
    if message.spoken:
        data["continues"] = True
    if made:
        return "message", {**data, "injected": True}, "host"
    message.spoken = True
    return "message", data, "user"


def _response(parts: list[Members], message: _Message) -> Mapped:
    return "model.response", without_none({"parts": parts, "response.id": message.response}), "assistant"


def _about_response(message: _Message) -> Members:
    return {
        "response.id": message.response,
        "response.model": text(message.info, "modelID"),
        "provider.name": text(message.info, "providerID"),
    }


def _result(name: str, state: Members, metadata: Members) -> tuple[Any, bool]:
    """What a tool gave back, and whether it failed: a status alone does not say so."""
    failed = state.get("status") == "error"
    response = state.get("error") if failed and "output" not in state else state.get("output")
    code = metadata.get("exit")
    return response, failed or name == _BROKEN_TOOL or (type(code) is int and code != 0)


def _error(error: Members) -> Mapped:
    said = members(error.get("data")).get("message", error.get("message"))
    kind = text(error, "name") or "error"
    return "error", {"error.type": kind, "message": said if is_text(said) else kind}, "host"


def _usage(tokens: Members) -> Members:
    """``input`` is without the cache. ``output`` is with the reasoning in older versions, and without in newer."""
    cache = members(tokens.get("cache"))
    names = (tokens.get("input"), cache.get("read"), cache.get("write"))
    counts = [count for value in names if (count := whole(value)) is not None]
    given, made, reasoning = sum(counts), whole(tokens.get("output")), whole(tokens.get("reasoning")) or 0
    apart = whole(tokens.get("total")) == given + (made or 0) + reasoning or reasoning > (made or 0)
    return usage(
        given if counts else None,
        made + reasoning if made is not None and apart else made,
        read=cache.get("read"),
        created=cache.get("write"),
        reasoning=tokens.get("reasoning"),
    )


def _moment(row: Row) -> str | None:
    """When a message or part was made, in milliseconds there."""
    state = members(row.of.get("state"))
    times = (members(of.get("time")) for of in (row.of, state))
    found = (value for time in times for name in ("start", "created") if (value := to_ts(time.get(name))))
    return next(found, None) or to_ts(row.created)
