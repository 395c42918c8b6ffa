"""Claude Code transcripts: ``~/.claude/projects/<folder>/<session>.jsonl`` (docs/formats/claude-code.md).

The format is internal to its program and changes. So a record that looks different than expected is kept as ``native``
or shown in part; its bytes are kept in any case. `claude_map` says what records mean.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from typing import Any

from gitjournal import canonical
from gitjournal.formats.claude_beside import original
from gitjournal.formats.claude_map import ClaudeMapper
from gitjournal.formats.claude_parts import NAME, agent_of, session_of
from gitjournal.formats.protocol import HEAD_BYTES, About, Head, Home, Item, RecordFormat, Source, mapped
from gitjournal.formats.records import Record, Salvage
from gitjournal.formats.report import ImportReport
from gitjournal.formats.shapes import Members, members, text

#: The session id is looked for in so many records, and what else is said of it in so many after that one.
_ID_RECORDS = 1000
_START_RECORDS = 25
_TYPES = frozenset({"user", "assistant", "system", "summary", "progress", "attachment", "file-history-snapshot"})
#: What a copy of a record has of it.
_KEPT = ("type", "subtype", "uuid", "message", "attachment")
# Members that only this program writes.
_OWN = re.compile(rb'"(?:parentUuid|isSidechain|leafUuid|isSnapshotUpdate|toolUseResult)"\s*:')
# How a record begins of which the message is longer than what is looked at: the session's id stands behind it.
_BEGIN = re.compile(
    rb'(?:\xef\xbb\xbf)?\s*\{"parentUuid"\s*:\s*(?:null|"[^"\\]*")\s*,\s*"(?:isSidechain|logicalParentUuid)"\s*:'
)


def is_record(value: Any) -> bool:
    """Whether a value is a whole record, and not an object inside one."""
    if not isinstance(value, dict):
        return False
    kind = text(value, "type")
    if (kind == "summary" and "leafUuid" in value) or (kind == "file-history-snapshot" and "snapshot" in value):
        return True
    known = kind in _TYPES or isinstance(value.get("message"), dict)
    return known and (isinstance(value.get("sessionId"), str) or _is_streamed(value))


def _is_streamed(value: Members) -> bool:
    """Whether a record is one of ``claude -p --output-format stream-json``."""
    own = "parent_tool_use_id" in value or (value.get("subtype") == "init" and "mcp_servers" in value)
    return own and isinstance(value.get("session_id"), str)


SALVAGE = Salvage(
    re.compile(
        r'\{"(?:parentUuid|logicalParentUuid|type|uuid|sessionId|isSidechain|timestamp|messageId|leafUuid|cwd)"'
    ),
    lambda value: isinstance(value, dict) and (is_record(value) or "sessionId" in value),
)


class ClaudeCode(RecordFormat):
    """Reads and writes the transcripts of Claude Code: of sessions, of sub-agents, and streams of ``claude -p``."""

    name = NAME
    salvage = SALVAGE
    stamps = (("cwd",), ("gitBranch",), ("version",), ("relocatedCwd",), ("worktreeSession",))
    #: Not the journals of workflows, which lie beside their agents.
    homes = (
        Home(
            "CLAUDE_CONFIG_DIR",
            "~/.claude",
            ("projects/*/*.jsonl", "projects/*/*/subagents/**/agent-*.jsonl"),
            keeps_days=30,
        ),
    )

    def sniff(self, head: Head) -> bool:
        """Whether one of the first lines is a record of Claude Code."""
        if any(map(is_record, head.values)):
            return True
        if b"\n" in head.raw:
            return False
        # A first line that is longer than the head.
        if b'"sessionId"' in head.raw and _OWN.search(head.raw):
            return True
        return len(head.raw) >= HEAD_BYTES and _BEGIN.match(head.raw) is not None

    def about(self, found: Iterator[Record], source: Source) -> About:
        """The first session id, and what the records there say. A sub-agent's file carries its parent's id."""
        return about(found, source)

    def origin(self, source: Source) -> str | None:
        """The session of the file beside that this one is a copy of, by its first message."""
        return original(source.path)

    def read(self, found: Iterator[Record], report: ImportReport, source: Source) -> Iterator[Item]:
        """See `RecordFormat.read`."""
        return mapped(self.mapper(report, source), found)

    def mapper(self, report: ImportReport, source: Source) -> ClaudeMapper:
        """See `RecordFormat.mapper`."""
        return ClaudeMapper(report, source.path, self.name)

    def same(self, record: Record) -> bytes:
        """A resume or fork into another file keeps id and message, and writes the rest of a record anew.

        Forks that the SDK makes have new ids, and say which the old ones are.
        """
        of = members(record.value)
        kept = {name: of[name] for name in _KEPT if name in of}
        if former := text(members(of.get("forkedFrom")), "messageUuid"):
            kept["uuid"] = former
        return canonical.dumps(kept) if text(of, "uuid") else b""


def about(found: Iterator[Record], source: Source) -> About:
    """What the first records of a transcript say of its session."""
    seen = 0
    for record in islice(found, _ID_RECORDS):
        of, seen = members(record.value), seen + 1
        if session := session_of(of):
            later = (members(one.value) for one in islice(found, _START_RECORDS))
            return _about(session, of, later, source)
    return About(settled=seen == _ID_RECORDS)


def _about(session: str, first: Members, later: Iterator[Members], source: Source) -> About:
    agent = agent_of(first, source.path)
    told = first
    # Some files begin with modes and titles, which do not say where the session runs.
    seen = 0
    while not text(told, "cwd") and (following := next(later, None)) is not None:
        seen += 1
        told = following if session_of(following) == session else told
    settled = bool(text(told, "cwd")) or seen == _START_RECORDS
    start: Members = {}
    if text(told, "cwd"):
        start["project"] = told["cwd"]
    if version := text(told, "version") or text(told, "claude_code_version"):
        start |= {"agent.name": NAME, "agent.version": version}
    copied = text(members(told.get("forkedFrom")), "sessionId")
    if agent is None:
        return About(session, start, copied, settled)
    start |= {"agent.id": agent, "parent": {"session": session}}
    return About(f"{session}.agent-{agent}", start, f"{copied}.agent-{agent}" if copied else None, settled)
