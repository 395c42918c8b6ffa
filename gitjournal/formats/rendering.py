"""Sessions in formats of other programs, made from the neutral events: for any session, and with losses.

A format that gives back the bytes that were imported is an exporter (`Format.export`); a rendering writes anew. Both
can have one name: then a session that came from the format is given back exactly, and every other one is rendered.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO, NamedTuple, Protocol

from gitjournal.errors import FormatError, JournalError
from gitjournal.event import Event
from gitjournal.formats.losses import Losses
from gitjournal.journal import Journal
from gitjournal.refs import Name
from gitjournal.vocabulary import USAGE


class Rendering(Protocol):
    """Writes any session in a format of another program."""

    #: What users type.
    name: str

    def write(self, journal: Journal, name: Name, out: BinaryIO, losses: Losses) -> int:
        """Write a branch to ``out``, count in ``losses`` what is not in it; the number of steps, spans or messages.

        The same events give the same bytes. Raises JournalError.
        """
        ...


class Said(NamedTuple):
    """An event as renderings see it: what was said, plain JSON values."""

    event: Event
    #: Role of who said it: ``system``, ``user``, ``assistant``, ``tool``.
    role: str
    parts: list[dict[str, Any]]
    data: Mapping[str, Any]

    @property
    def type(self) -> str:
        """Type of the event."""
        return self.event.type

    @property
    def usage(self) -> dict[str, int]:
        """The token counters that are there."""
        counters = self.data.get("usage")
        given = counters if isinstance(counters, dict) else {}
        return {name: given[name] for name in USAGE if type(given.get(name)) is int and given[name] >= 0}

    def text(self, name: str) -> str | None:
        """A member of the payload that is a string and not empty."""
        value = self.data.get(name)
        return value if isinstance(value, str) and value else None


#: Types that say something; the others are about the session.
_ROLES = {
    "session.start": "system",
    "message": "",
    "model.response": "assistant",
    "tool.call": "assistant",
    "tool.result": "tool",
    "context.compaction": "system",
    "error": "system",
}


def said(journal: Journal, name: Name, losses: Losses) -> Iterator[Said]:
    """What was said on a branch, in order; the first is its ``session.start``. What is not said is counted."""
    for event in journal.events(name):
        if event.withheld:
            losses.add("withheld")
        elif event.type not in _ROLES:
            losses.add(_other(event.type))
        elif (data := losses.plain(_data(event, losses))) and data.get("sidechain") is True:
            losses.add("sidechain")
        else:
            yield Said(event, _role(event.type, data), _parts(event.type, data), data)


def _role(kind: str, data: Mapping[str, Any]) -> str:
    role = _ROLES[kind] or data.get("role")
    return role if role in ("system", "user", "tool") else "assistant"


def _other(kind: str) -> str:
    if kind == "native":
        return "native"
    return "session" if kind.startswith(("session.", "turn.", "tool.")) else "unknown"


def _data(event: Event, losses: Losses) -> dict[str, Any]:
    try:
        return dict(event.data)
    except (FormatError, JournalError):
        losses.add("files")
        return dict(event.stored_data)


def _parts(kind: str, data: Mapping[str, Any]) -> list[dict[str, Any]]:
    if kind == "tool.call":
        return [{"type": "tool_call", **_members(data, "id", "name", "arguments")}]
    if kind == "tool.result" and "parts" not in data:
        return [{"type": "tool_call_response", **_members(data, "id", "response", "is_error", "code")}]
    if kind == "error":
        return [{"type": "text", "content": str(data.get("message") or data.get("error.type") or "error")}]
    place = {"session.start": "system_instructions", "context.compaction": "summary"}.get(kind, "parts")
    found = data.get(place)
    if isinstance(found, str):
        return [{"type": "text", "content": found}] if found else []
    return [part for part in found or () if isinstance(part, dict)] if isinstance(found, list) else []


def _members(data: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {name: data[name] for name in names if name in data}


def source_of(journal: Journal, name: Name) -> str:
    """What the first event of a branch says that it came from; empty if it says nothing."""
    first = next(iter(journal.events(name)), None)
    source = None if first is None or first.withheld else first.stored_data.get("source")
    return source if isinstance(source, str) else ""


def as_text(value: Any) -> str:
    """A JSON value as text: a string as it is, everything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def only_text(response: Any) -> str | None:
    """The text of a tool's response that is a string or parts of text only; None when it is anything else."""
    if isinstance(response, str):
        return response
    if not isinstance(response, list) or not all(
        isinstance(part, dict) and part.get("type") == "text" and isinstance(part.get("content"), str)
        for part in response
    ):
        return None
    return "\n".join(part["content"] for part in response)


class Counted:
    """Token counters so that each provider response counts once, however many events repeat it."""

    def __init__(self) -> None:
        self._seen: dict[str, dict[str, int]] = {}

    def new(self, one: Said) -> dict[str, int]:
        """What an event adds to the counters of its response; all of them for a response without an id."""
        response, usage = one.text("response.id"), one.usage
        if response is None:
            return usage
        before = self._seen.setdefault(response, {})
        added = {name: max(0, number - before.get(name, 0)) for name, number in usage.items()}
        before.update({name: max(number, before.get(name, 0)) for name, number in usage.items()})
        return added

    def knows(self, response: str | None) -> bool:
        """Whether an event of this response was counted."""
        return response in self._seen


def url_of(part: Mapping[str, Any]) -> str | None:
    """The URL of a ``uri`` or ``blob`` part; None when it has none."""
    uri, content = part.get("uri"), part.get("content")
    if part.get("type") == "uri" and isinstance(uri, str) and uri:
        return uri
    if part.get("type") == "blob" and isinstance(content, str):
        return f"data:{part.get('mime_type') or 'application/octet-stream'};base64,{content}"
    return None
