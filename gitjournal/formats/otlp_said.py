"""What spans say as messages: the schema of the GenAI conventions, and how it was said before there was one."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from gitjournal import canonical
from gitjournal.formats import chat
from gitjournal.formats.shapes import Members, call_part, is_text, items, members, opened, part_of, text, text_part

_ROLES = {"user": "user", "system": "system", "developer": "system", "assistant": "assistant", "tool": "tool"}
_ROLES |= {"model": "assistant", "human": "user", "ai": "assistant", "function": "tool"}


@dataclass(slots=True)
class Message:
    """A message to a model or of it."""

    role: str
    parts: list[Members]
    finish: str | None = None

    @property
    def digest(self) -> str:
        """The same for messages that say the same."""
        return sha256(canonical.dumps([self.role, self.parts])).hexdigest()


def messages_of(found: Any, role: str = "user") -> list[Message]:
    """Messages from a list of them, from parts alone, or from a text, which are of ``role``."""
    if is_text(found):
        return [Message(role, text_part(found))] if found else []
    shapes = [members(one) for one in items(found)]
    if shapes and all("type" in shape and "role" not in shape for shape in shapes):
        return [Message("system" if role == "user" else role, [part(one) for one in items(found)])]
    return [message_of(one, role) for one in items(found)]


def message_of(value: Any, role: str = "user") -> Message:
    """One message; text instead of parts, and calls beside them, as older names have it."""
    shape = members(value)
    given = _ROLES.get(str(shape.get("role")), role)
    if "parts" in shape:
        parts = [part(one) for one in items(shape["parts"])]
    elif given == "tool" and "content" in shape:
        parts = [chat.result({**shape, "tool_call_id": shape.get("tool_call_id", shape.get("id"))})]
    else:
        parts = chat.content(shape.get("content", value if is_text(value) else None)) + chat.calls(shape)
    return Message(given, parts, text(shape, "finish_reason"))


def part(value: Any) -> Members:
    """A part as docs/events.md has it; the result of a tool stands under two names in the wild."""
    shape = members(value)
    if shape.get("type") == "tool_call_response" and "response" not in shape and "result" in shape:
        return {("response" if name == "result" else name): item for name, item in shape.items()}
    if shape.get("type") == "tool_call":
        return {**shape, "arguments": opened(shape.get("arguments"))}
    return part_of(value)


def numbered(attributes: Members, *prefixes: str) -> list[Message]:
    """Messages that are spread over attributes, like ``gen_ai.prompt.0.content``."""
    rows: dict[int, Members] = {}
    for name, value in attributes.items():
        prefix = next((one for one in prefixes if name.startswith(one)), None)
        number, _, rest = name.removeprefix(prefix or name).partition(".")
        if prefix is not None and number.isdigit() and len(number) < 6:
            rows.setdefault(int(number), {})[rest.removeprefix("message.")] = value
    default = "assistant" if "completion" in "".join(prefixes) else "user"
    return [_row(rows[number], default) for number in sorted(rows)]


def _row(row: Members, default: str) -> Message:
    role = _ROLES.get(str(row.get("role")), default)
    if role == "tool":
        return Message(role, [chat.result({"content": row.get("content"), "tool_call_id": row.get("tool_call_id")})])
    parts = text_part(row.get("content"))
    calls: dict[str, Members] = {}
    for name, value in row.items():
        steps = name.removeprefix("tool_calls.").split(".")
        if name.startswith("tool_calls.") and len(steps) > 1:
            calls.setdefault(steps[0], {})[steps[-1]] = value
    parts += [call_part(c.get("id"), c.get("name"), opened(c.get("arguments"))) for c in calls.values()]
    return Message(role, parts, text(row, "finish_reason"))
