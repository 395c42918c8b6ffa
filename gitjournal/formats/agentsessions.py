"""Journals of agentsessions: a SQLite file with hash-chained events (docs/formats/agentsessions.md).

Each session is a strand, each row a record whose bytes are the event as it stands there. Their hash chain is checked
on the way: the report says where it breaks.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from gitjournal.errors import JournalError
from gitjournal.foreign import wrap_value
from gitjournal.formats.agentsessions_proto import Decoder, content_hash
from gitjournal.formats.mapping import ObjectMapper, blob_part, modality, turn_id
from gitjournal.formats.protocol import About, Head, Item, RecordFormat, Source, Strand, mapped
from gitjournal.formats.records import Record
from gitjournal.formats.report import ImportReport
from gitjournal.formats.shapes import (
    Mapped,
    Members,
    call_part,
    items,
    members,
    native,
    response_part,
    text,
    tool_actor,
    usage,
    without_none,
)
from gitjournal.formats.sqlite_read import MAGIC, opened
from gitjournal.vocabulary import is_title

NAME = "agentsessions"
_COLUMNS = frozenset({"session", "seq", "prev_hash", "hash", "fence", "event"})
_ROWS = "SELECT seq, prev_hash, hash, fence, event FROM events WHERE session = ? ORDER BY seq"
_ROLES = ("user", "system", "assistant", "tool")
_OUTCOMES = {"COMPLETED": "completed", "FAILED": "failed", "CANCELED": "canceled"}
_CODES = {"APPROVAL_DENIED": "denied", "EXECUTOR_ERROR": "error"}


class Agentsessions(RecordFormat):
    """Reads journals; nothing is written to them."""

    name = NAME

    def sniff(self, head: Head) -> bool:
        """Whether the file is a database with their table of events."""
        with suppress(JournalError):
            return head.raw.startswith(MAGIC) and _columns(head.path, "events") >= _COLUMNS
        return False

    def about(self, found: Iterator[Record], source: Source) -> About:
        """Nothing: what a session is called stands beside its rows (`strands`)."""
        return About()

    def read(self, found: Iterator[Record], report: ImportReport, source: Source) -> Iterator[Item]:
        """See `RecordFormat.read`."""
        return mapped(_Mapper(report), found)

    def strands(self, source: Source) -> Iterator[Strand]:
        """One strand for each session, parents before those that were forked from them."""
        path = source.path
        for session in _sessions(path):
            yield Strand(
                _about(session),
                lambda session=session: _records(path, session["session"], session.get("created_at")),  # type: ignore[misc]
                lambda found, report: self.read(found, report, source),
                exact=False,
            )


def _columns(path: Path, table: str) -> frozenset[str]:
    with opened(path) as database:
        return frozenset(row[1] for row in database.execute(f"PRAGMA table_info({table})"))


def _sessions(path: Path) -> list[Members]:
    """What the journal says of its sessions, those that events are of as well."""
    columns = sorted(_columns(path, "sessions"))
    with opened(path) as database:
        known = database.execute(f"SELECT {', '.join(columns)} FROM sessions") if columns else ()  # noqa: S608 - names from the file's own schema
        rows = {row["session"]: row for row in (dict(zip(columns, row, strict=True)) for row in known)}
        for (session,) in database.execute("SELECT DISTINCT session FROM events ORDER BY session"):
            rows.setdefault(session, {"session": session})
    return _parents_first({name: row for name, row in rows.items() if type(name) is str})


def _parents_first(rows: dict[str, Members]) -> list[Members]:
    order: dict[str, Members] = {}
    for name in sorted(rows):
        line: list[str] = []
        while name in rows and name not in order and name not in line:
            line.append(name)
            name = str(rows[name].get("parent_uid"))
        order.update((one, rows[one]) for one in reversed(line))
    return list(order.values())


def _about(session: Members) -> About:
    name, harness = session.get("name"), session.get("harness")
    start = {
        "title": name if name and is_title(name) else None,
        "agent.name": harness if type(harness) is str and harness else None,
    }
    parent = session.get("parent_uid")
    return About(session["session"], without_none(start), parent if type(parent) is str and parent else None)


def _records(path: Path, session: str, created: Any) -> Iterator[Record]:
    """The rows of a session; the value has the columns, the event as JSON, and what is wrong with the row."""
    offset, prev = 0, ""
    with opened(path) as database:
        for number, (seq, link, stored, fence, cell) in enumerate(database.execute(_ROWS, (session,)), 1):
            raw = cell if type(cell) is bytes else b"" if cell is None else str(cell).encode()
            decoder = Decoder()
            event, fault = _checked(decoder, raw, (seq, link, stored), (number, prev))
            value = {"seq": seq, "prev_hash": link, "hash": stored, "fence": fence, "event": event, "fault": fault}
            value["unknown_fields"] = decoder.unknown or None
            if number == 1 and type(created) is int:
                value["created"] = created // 1_000_000
            yield Record(
                number, offset, raw, wrap_value(without_none(_jsonable(value))), "", False, True, fragment=True
            )
            offset, prev = offset + len(raw), stored


def _jsonable(value: Members) -> Members:
    return {name: repr(item) if type(item) is bytes else item for name, item in value.items()}


def _checked(
    decoder: Decoder, raw: bytes, row: tuple[Any, Any, Any], place: tuple[int, Any]
) -> tuple[Members | None, str | None]:
    """(event, what is wrong). ``place``: the number that the row must have, and the hash that it must name."""
    seq, link, stored = row
    try:
        event = decoder.event(raw)
    except (ValueError, OverflowError) as error:
        return None, f"cannot be decoded: {error}"
    number, prev = place
    if seq != number:
        return event, f"stands where {number} belongs"
    if link != prev:
        return event, "does not name the hash of the record before it"
    try:
        right = content_hash(event, str(link), number) == stored
    except ValueError as error:
        return event, f"has no canonical form: {error}"
    return event, None if right else "has another content than its hash says"


class _Mapper(ObjectMapper):
    """Maps the rows of one session."""

    def __init__(self, report: ImportReport) -> None:
        super().__init__(NAME, report)
        self._model: Members = {}
        self._started: set[str] = set()
        self._faults: list[tuple[Any, str]] = []
        self._count = self._uncovered = 0

    def finish(self) -> None:
        """Say in the report whether the hash chain of the source is whole."""
        super().finish()
        if not self._faults:
            self._report.notes.append(
                f"hash chain of the source: {self._count} records, all hashes and links are right"
            )
        for seq, fault in self._faults[:5]:
            self._report.notes.append(f"hash chain of the source: it breaks at record {seq}, which {fault}")
        if len(self._faults) > 5:
            self._report.notes.append(f"hash chain of the source: {len(self._faults) - 5} more records are wrong")
        if self._uncovered:
            what = f"{self._uncovered} records have fields that are not known here, and that their hash does not cover"
            self._report.notes.append(f"hash chain of the source: {what}")

    def moment(self, of: Members) -> Any:
        """The time of the event; events of most journals have none, so the first takes that of its session."""
        return members(of.get("event")).get("ts", of.get("created"))

    def mapped(self, record: Record, of: Members) -> Mapped:
        """See `ObjectMapper.mapped`."""
        self._count += 1
        self._uncovered += "unknown_fields" in of
        if fault := text(of, "fault"):
            self._faults.append((of.get("seq"), fault))
        event = members(of.get("event"))
        execution = text(event, "execution_id")
        self.turn = turn_id(execution) if execution else None
        kind, data, actor = self._map(event)
        own = {"type": event.get("kind"), "seq": of.get("seq"), "actor": event.get("actor"), "broken": of.get("fault")}
        chain = {name: of.get(name) for name in ("prev_hash", "hash", "fence", "unknown_fields")}
        return kind, {**data, "native": without_none({**own, **chain})}, actor

    def _map(self, event: Members) -> Mapped:
        kind = str(event.get("kind", "")).removeprefix("EVENT_").lower()
        handler = getattr(self, f"_on_{kind}", None)
        found = handler(event) if handler is not None else None
        if found is not None:
            result: Mapped = found
            return result
        body = next((members(event[name]) for name in _BODIES if name in event), {})
        return native(NAME, "/".join(filter(None, (kind or "unreadable", text(body, "kind")))), body)

    def _on_input(self, event: Members) -> Mapped:
        message = members(event.get("message"))
        role, parts = text(message, "role") or "user", _parts(message.get("parts"))
        if parts and all(part["type"] == "tool_call_response" for part in parts):
            return "tool.result", {"parts": parts}, "host"
        actor = role if role in ("user", "assistant") else "host"
        return (
            "message",
            {"role": role if role in ("user", "system", "assistant", "tool") else "user", "parts": parts},
            actor,
        )

    def _on_model_call(self, event: Members) -> None:
        # Outputs do not say which call they answer: it is the last one before them.
        self._model = members(event.get("model"))

    def _on_output(self, event: Members) -> Mapped:
        parts = _parts(members(event.get("message")).get("parts"))
        return "model.response", {"parts": parts, **self._response()}, "assistant"

    def _on_usage(self, event: Members) -> Mapped:
        given = members(event.get("usage"))
        numbers = {name: int(value) for name, value in given.items() if type(value) is str and value.isdigit()}
        counters = usage(
            numbers.get("input_tokens"), numbers.get("output_tokens"), reasoning=numbers.get("reasoning_tokens")
        )
        model = {"response.model": text(given, "model")}
        data = {**self._response(), **without_none(model), "parts": [], "usage": counters, "native_usage": given}
        return "model.response", data, "assistant"

    def _response(self) -> Members:
        return without_none({"response.id": text(self._model, "id"), "request.model": text(self._model, "model")})

    def _on_tool_call(self, event: Members) -> Mapped:
        tool = members(event.get("tool"))
        waits = "confirmation" if tool.get("mediation") == "MEDIATION_REQUIRES_APPROVAL" else None
        self.remember(tool.get("id"), tool.get("tool"))
        call = {"id": tool.get("id"), "name": tool.get("tool"), "arguments": tool.get("args", {}), "requires": waits}
        return "tool.call", without_none(call), "assistant"

    def _on_tool_result(self, event: Members) -> Mapped:
        part = _result(members(event.get("result")))
        del part["type"]
        return "tool.result", without_none(part), tool_actor(self.called(part["id"]))

    def _on_approval_result(self, event: Members) -> Mapped:
        answer = members(event.get("approval_result"))
        said = {
            "id": answer.get("tool_call_id"),
            "approved": answer.get("approved") is True,
            "reason": answer.get("reason"),
        }
        return "tool.confirmation", without_none(said), "user"

    def _on_execution_start(self, event: Members) -> Mapped | None:
        if self.turn is None:
            return None
        self._started.add(self.turn)
        started = members(event.get("execution_start"))
        about = {"harness": started.get("harness"), "harness_version": started.get("harness_version")}
        return "turn.start", without_none(about), "host"

    def _on_end(self, event: Members) -> Mapped | None:
        end = members(event.get("end"))
        outcome = _OUTCOMES.get(str(end.get("state")))
        if outcome is None or self.turn not in self._started:
            return None
        said = {"outcome": outcome, "message": text(members(end.get("error")), "description")}
        return "turn.end", without_none(said), "host"

    def _on_error(self, event: Members) -> Mapped:
        error = members(event.get("error"))
        code = error.get("code")
        data = {"error.type": None if code is None else str(code), "message": text(error, "description") or "error"}
        return "error", without_none(data), "host"


_BODIES = (
    "message", "model", "tool", "result", "approval", "approval_result", "usage", "lifecycle", "end", "error",
    "execution_start",
)  # fmt: skip


def _parts(found: Any) -> list[Members]:
    return [part for one in items(found) for part in _part(members(one))]


def _part(part: Members) -> list[Members]:
    """A part of theirs; its one member says what it is."""
    kind, body = next(((name, members(value)) for name, value in part.items()), ("", Members()))
    if kind == "text":
        return [{"type": "text", "content": body.get("text", "")}]
    if kind == "reasoning":
        # What the model thought is opaque and stays in the record; a summary may be there.
        summary = [said["content"] for said in _parts(body.get("summary")) if said["type"] == "text"]
        return [{"type": "reasoning", "content": "\n\n".join(map(str, summary))}]
    if kind == "file" and "bytes" in body:
        return [blob_part(body.get("mime"), body["bytes"])]
    if kind == "file":
        mime = body.get("mime")
        return [
            without_none({"type": "uri", "modality": modality(mime), "mime_type": mime, "uri": body.get("uri", "")})
        ]
    if kind == "tool_call":
        return [call_part(body.get("id"), body.get("tool"), body.get("args", {}))]
    if kind == "tool_result":
        return [_result(body)]
    return [{"type": kind or "native", "value": body.get("data", body)}]


def _result(result: Members) -> Members:
    response: Any = _parts(result["content"]) if items(result.get("content")) else result.get("output")
    if response is None:
        response = text(result, "error") or text(result, "output_uri")
    code = _CODES.get(str(result.get("code")))
    part = response_part(result.get("id"), response, result.get("is_error") is True)
    return {**part, "code": code} if code else part
