"""Sessions of the OpenAI Agents SDK (docs/formats/openai-agents.md): SQLite files, and the state of a paused run.

A SQLite file has many sessions, each a strand whose records are its rows. The state of a run is one JSON document:
what was said stands in ``original_input`` and ``generated_items``, what it cost in ``model_responses``.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from gitjournal.errors import JournalError
from gitjournal.formats.document import DocumentFormat, around
from gitjournal.formats.mapping import ObjectMapper
from gitjournal.formats.openai_items import answer, call, counters, either, is_answer, is_call, kind_of, said, thought
from gitjournal.formats.protocol import About, Head, Item, Source, Strand, mapped
from gitjournal.formats.records import Record
from gitjournal.formats.report import ImportReport
from gitjournal.formats.shapes import Mapped, Members, beginning, members, native, text, tool_actor, without_none
from gitjournal.formats.sqlite_read import MAGIC, cell, opened

NAME = "openai-agents"
_TABLES = ("agent_sessions", "agent_messages")
_STATE = ("original_input", "current_turn", "current_agent", "generated_items")
_SESSIONS = "SELECT session_id FROM agent_messages GROUP BY session_id ORDER BY min(id)"
_ROWS = "SELECT CAST(message_data AS BLOB), created_at FROM agent_messages WHERE session_id = ? ORDER BY id"


class OpenaiAgents(DocumentFormat):
    """Reads session databases and run states; writes to neither."""

    name = NAME
    grows = True
    opened = frozenset(
        (name,)
        for name in (
            "original_input", "originalInput", "generated_items", "generatedItems", "model_responses", "modelResponses",
        )
    )  # fmt: skip

    def sniff(self, head: Head) -> bool:
        """Whether the file has their tables, or is the state of a run."""
        if head.raw.startswith(MAGIC):
            with suppress(JournalError):
                return _is_theirs(head.path)
            return False
        found = beginning(head.raw)
        return "$schemaVersion" in found and any(either(found, name) is not None for name in _STATE)

    def comes_again(self, was: Record, now: Record) -> bool:
        """See `RecordFormat.comes_again`: what stands around the arrays. A prompt there is said once."""
        return now.fragment

    def about(self, found: Iterator[Record], source: Source) -> About:
        """The conversation or trace of a run; its agent."""
        root = around(found)
        trace, agent = members(root.get("trace")), members(either(root, "current_agent"))
        ids = (either(root, "conversation_id"), either(trace, "group_id"), trace.get("id"))
        session = next((own for own in ids if type(own) is str and own), None)
        return About(session, without_none({"agent.name": text(agent, "name")}))

    def read(self, found: Iterator[Record], report: ImportReport, source: Source) -> Iterator[Item]:
        """See `RecordFormat.read`."""
        return mapped(_Mapper(report), found)

    def strands(self, source: Source) -> Iterator[Strand]:
        """The run; or the sessions of a database, those that were begun first before the others."""
        if not source.head().raw.startswith(MAGIC):
            yield from super().strands(source)
            return
        with opened(source.path) as database:
            sessions = [str(session) for (session,) in database.execute(_SESSIONS)]
        for session in sessions:
            yield Strand(
                About(session),
                lambda session=session: _rows(source.path, session),  # type: ignore[misc]
                lambda found, report: self.read(found, report, source),
                exact=False,
            )


def _is_theirs(path: Path) -> bool:
    with opened(path) as database:
        columns = {row[1] for row in database.execute(f"PRAGMA table_info({_TABLES[1]})")}
        sessions = {row[1] for row in database.execute(f"PRAGMA table_info({_TABLES[0]})")}
    return columns >= {"session_id", "message_data", "created_at"} and "session_id" in sessions


def _rows(path: Path, session: str) -> Iterator[Record]:
    """The rows of a session. What a cell holds are the bytes of its record; the time of the row is its ``at``."""
    number, offset = 1, 0
    with opened(path) as database:
        for raw, created in database.execute(_ROWS, (session,)):
            for record in cell(raw, number, offset, (str(created),)):
                yield record
                number, offset = record.number + 1, record.offset + len(record.raw)


class _Mapper(ObjectMapper):
    """Maps rows or the records of a run."""

    def __init__(self, report: ImportReport) -> None:
        super().__init__(NAME, report)
        # Whether the item before was of the model: what follows is of the same response then.
        self._answering = False
        self._at: tuple[str | int, ...] = ()
        self._prompt: str | None = None

    def item(self, record: Record) -> Item:
        """See `ObjectMapper.item`."""
        self._at = record.at
        return super().item(record)

    def moment(self, of: Members) -> Any:
        """Only rows have a time, of the second."""
        return self._at[0] if len(self._at) == 1 and not self._in_state else None

    @property
    def _in_state(self) -> bool:
        return bool(self._at) and (self._at[0],) in OpenaiAgents.opened

    def mapped(self, record: Record, of: Members) -> Mapped:
        """See `ObjectMapper.mapped`."""
        if record.fragment:
            return self._around(of)
        place = str(record.at[0]) if self._in_state else ""
        if place.startswith("model"):
            return self._response(of)
        raw = members(either(of, "raw_item")) if place.startswith("generated") else of
        kind, data, actor = self._item_of(raw or of, text(of, "type"), counted=not place)
        own = {"type": kind_of(raw or of), "id": raw.get("id"), "item": text(of, "type") if raw is not of else None}
        agent = text(members(of.get("agent")), "name")
        return kind, {**data, "native": without_none({**own, "agent": agent})}, actor

    def _around(self, of: Members) -> Mapped:
        """A piece of the document around the arrays: the prompt stands there when it is one text."""
        prompt = either(of, "original_input")
        if type(prompt) is str and prompt and prompt != self._prompt:
            self._prompt = prompt
            return "message", {"role": "user", "parts": [{"type": "text", "content": prompt}]}, "user"
        return native(NAME, "run_state", of)

    def _response(self, of: Members) -> Mapped:
        """A response of the model. What it said comes again in the items, in order with the outputs of tools."""
        data: Members = {"response.id": text(of, "response_id") or text(of, "responseId"), "parts": []}
        if spent := members(of.get("usage")):
            data |= {"usage": counters(spent), "native_usage": spent}
        return "model.response", {**without_none(data), "native": {"type": "model_response"}}, "assistant"

    def _item_of(self, item: Members, kept_as: str | None, *, counted: bool) -> Mapped:
        kind = kind_of(item)
        role = text(item, "role")
        first, self._answering = counted and not self._answering, False
        if is_answer(kind):
            part = answer(item)
            return "tool.result", {"parts": [part]}, tool_actor(self.called(part["id"]))
        if kind == "message" and role != "assistant":
            role = "system" if role in ("system", "developer") else "user"
            return "message", {"role": role, "parts": said(item)}, "user" if role == "user" else "host"
        if kind in ("message", "reasoning") or is_call(kind):
            self._answering = counted
            return self._by_model(item, kind, kept_as, first=first)
        # What is unknown does not part what stands around it.
        self._answering = counted and not first
        return native(NAME, kind, item, ("id", "type"))

    def _by_model(self, item: Members, kind: str, kept_as: str | None, *, first: bool) -> Mapped:
        if is_call(kind):
            parts = call(item)
            self.remember(parts[0]["id"], parts[0]["name"])
            if len(parts) == 1 and not first:
                waits = "confirmation" if kept_as == "tool_approval_item" else None
                about = {name: value for name, value in parts[0].items() if name != "type"}
                return "tool.call", without_none({**about, "requires": waits}), "assistant"
        else:
            parts = said(item) if kind == "message" else thought(item)
        if first:
            return "model.response", {"parts": parts}, "assistant"
        # The same response as the item before, or one whose counters stand elsewhere.
        return "message", {"role": "assistant", "parts": parts}, "assistant"
