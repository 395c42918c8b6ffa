"""OpenAI Codex rollouts: ``~/.codex/sessions/YYYY/MM/DD/rollout-<time>-<session>.jsonl`` (docs/formats/codex.md).

`codex_map` says what records mean. Newer versions write kinds of lines that no reader here knows: they are ``native``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from typing import Any

from gitjournal import canonical
from gitjournal.event import Event
from gitjournal.formats.codex_items import NAME
from gitjournal.formats.codex_map import CodexMapper, opened_line, parent_of
from gitjournal.formats.codex_told import told
from gitjournal.formats.protocol import About, Head, Home, Item, RecordFormat, Source, mapped
from gitjournal.formats.records import Record, Salvage
from gitjournal.formats.report import ImportReport
from gitjournal.formats.shapes import Members, members, text

#: The header is looked for in so many records.
_START_RECORDS = 25
_LINES = frozenset({
    "session_meta", "response_item", "event_msg", "turn_context", "compacted", "world_state", "token_usage_record",
    "inter_agent_communication", "inter_agent_communication_metadata", "security_risk_score", "retained_context",
    "realtime_item",
})  # fmt: skip
#: What a line's payload says of the session that it is in, and of its folder.
_OWN = frozenset({"thread_id", "session_id", "cwd", "thread_settings"})
#: Lines whose payload has a kind of its own.
_KINDS = frozenset({"response_item", "event_msg"})
_FILE = re.compile(r"rollout-[0-9T-]{19}-([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})")


def is_line(value: Any) -> bool:
    """Whether a value is a whole line, and not an object inside one."""
    if not isinstance(value, dict) or not isinstance(value.get("payload"), dict):
        return False
    kind = text(value, "type")
    sure = kind in _LINES and isinstance(value.get("timestamp"), str)
    return sure and (kind not in _KINDS or isinstance(value["payload"].get("type"), str))


def _is_header(value: Any) -> bool:
    """Whether a value is the first line of the oldest files, which have no envelope."""
    if not isinstance(value, dict) or "type" in value or "instructions" not in value:
        return False
    return isinstance(value.get("id"), str) and isinstance(value.get("timestamp"), str)


SALVAGE = Salvage(re.compile(r'\{"(?:timestamp|ordinal|type|payload)"'), is_line)


class Codex(RecordFormat):
    """Reads and writes the rollouts of Codex."""

    name = NAME
    salvage = SALVAGE
    stamps = (("ordinal",), ("payload", "cwd"), ("payload", "thread_settings", "cwd"))
    homes = (
        Home(
            "CODEX_HOME",
            "~/.codex",
            (
                "sessions/**/rollout-*.jsonl",
                "sessions/**/rollout-*.jsonl.zst",
                "archived_sessions/**/rollout-*.jsonl",
                "archived_sessions/**/rollout-*.jsonl.zst",
            ),
        ),
    )

    def sniff(self, head: Head) -> bool:
        """Whether one of the first lines is one of a rollout."""
        return any(map(is_line, head.values)) or any(map(_is_header, head.values[:1]))

    def about(self, found: Iterator[Record], source: Source) -> About:
        """What the first header says: later ones are of sessions that this one was forked from."""
        seen = 0
        for record in islice(found, _START_RECORDS):
            line, payload = opened_line(members(record.value))
            seen += 1
            if line == "session_meta" and text(payload, "id"):
                return _about(payload)
        named = _FILE.match(source.path.name)
        return About(named[1] if named else None, settled=seen == _START_RECORDS)

    def read(self, found: Iterator[Record], report: ImportReport, source: Source) -> Iterator[Item]:
        """See `RecordFormat.read`."""
        return mapped(self.mapper(report, source), found)

    def mapper(self, report: ImportReport, source: Source) -> CodexMapper:
        """See `RecordFormat.mapper`."""
        return CodexMapper(report)

    def same(self, record: Record) -> bytes:
        """A fork writes the lines of the session that it comes from again, at another time and for itself."""
        of = members(record.value)
        payload = {name: value for name, value in members(of.get("payload")).items() if name not in _OWN}
        return canonical.dumps({"type": of.get("type"), "payload": payload}) if "payload" in of else b""

    def told(self, value: Any) -> Any:
        """See `RecordFormat.told`. Newer versions write old rollouts anew, with other members and display records."""
        of = members(value)
        said = told(*opened_line(of)) if "payload" in of else None
        return super().told(value) if said is None else [of.get("timestamp"), *said]

    def ordinal(self, event: Event) -> int | None:
        """See `RecordFormat.ordinal`."""
        number = members(event.stored_data.get("native")).get("ordinal")
        return number if type(number) is int else None


def _about(meta: Members) -> About:
    start: Members = {}
    if text(meta, "cwd"):
        start["project"] = meta["cwd"]
    if text(meta, "cli_version"):
        start |= {"agent.name": NAME, "agent.version": meta["cli_version"]}
    if parent := parent_of(meta):
        start["parent"] = {"session": parent}
        if agent := text(meta, "agent_path") or text(meta, "agent_nickname"):
            start["agent.id"] = agent
    base = members(meta.get("history_base"))
    of, end = text(base, "thread_id"), base.get("end_ordinal_exclusive")
    if of and type(end) is int:
        return About(meta["id"], start, goes_on_from=(of, end))
    return About(meta["id"], start, text(meta, "forked_from_id"))
