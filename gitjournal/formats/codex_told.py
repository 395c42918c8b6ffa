"""What lines of a rollout say in all versions of Codex: a newer one may write the rollouts of older ones anew."""

from __future__ import annotations

from typing import Any

from gitjournal.formats import codex_items as read
from gitjournal.formats.codex_map import EVENT
from gitjournal.formats.shapes import Members, items, members, text

#: What display records of messages are called as items.
_SHOWN = {
    "user_message": "UserMessage",
    "agent_message": "AgentMessage",
    "agent_reasoning": "Reasoning",
    "agent_reasoning_raw_content": "Reasoning",
}
_COUNTERS = ("input_tokens", "cached_input_tokens", "output_tokens", "reasoning_output_tokens", "total_tokens")


def told(line: str, payload: Members) -> list[Any] | None:
    """What a line says in whatever form; None for one whose form has not changed."""
    kind = text(payload, "type")
    if line == "session_meta":
        return [line, payload.get("id"), payload.get("forked_from_id")]
    if line == "turn_context":
        return [line, payload.get("model")]
    if line != EVENT:
        return None
    if kind == "token_count":
        info = members(payload.get("info"))
        return [kind, *(_counted(info.get(name)) for name in ("total_token_usage", "last_token_usage"))]
    if kind in _SHOWN:
        return [_SHOWN[kind], *read.texts_of(read.parts_of(payload.get("message", payload.get("text"))))]
    if kind == "item_completed":
        return _item(members(payload.get("item")))
    return None


def _item(item: Members) -> list[Any] | None:
    kind = text(item, "type")
    if kind == "Reasoning":
        return [kind, *items(item.get("summary_text")), *items(item.get("raw_content"))]
    if kind in _SHOWN.values():
        return [kind, *read.texts_of(read.parts_of(item.get("content")))]
    return None


def _counted(value: Any) -> list[Any]:
    return [members(value).get(name) for name in _COUNTERS]
