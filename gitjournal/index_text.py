"""What an event says, as the text that people look for: in what column which words stand.

Floor 4. Pure. Names of members are never text, ids and hashes neither; what a tool was given and gave back is cut.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from gitjournal.errors import JournalError
from gitjournal.event import Event, may_hold_tags

#: Characters of one event that are indexed at the most: what somebody said, and what a tool was given or gave back.
MOST_TEXT = 100_000
MOST_TOOLS = 8_000
_ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")

#: Leaves of a ``ts`` its digits.
_NO_DIGITS = str.maketrans("", "", "-T:.Z")

Data = Mapping[str, Any]


class Words(NamedTuple):
    """The columns of the index, each a text that may be empty."""

    title: str = ""
    summary: str = ""
    text: str = ""
    tools: str = ""


COLUMNS = Words._fields


def words(event: Event) -> Words | None:
    """What an event says; None for nothing: a withheld event, or one that only counts or links."""
    handler = _HANDLERS.get(event.type, _of_unknown)
    if handler is None or event.withheld:
        return None
    data = data_of(event)
    found = handler(data) if data else None
    if found is None or not any(found):
        return None
    if "\x1b" in found.text or "\x1b" in found.tools:
        # Colours of a terminal would stick to the words.
        found = Words(*(_ANSI.sub(" ", text) for text in found))
    # Only what an event could not hold as it is can have what a database does not take.
    return _encodable(found) if may_hold_tags(event.raw) else found


def moment(ts: str) -> int:
    """A ``ts``, or its beginning, as a number: the same order."""
    return int(ts.translate(_NO_DIGITS).ljust(17, "0"))


def data_of(event: Event) -> Data:
    """The payload; as stored when a side file is not to be had, empty when it is no JSON object at all."""
    try:
        data = event.data
    except JournalError:
        try:
            data = event.stored_data
        except JournalError:
            return {}
    return data if isinstance(data, dict) else {}


def strings(value: Any) -> Iterator[str]:
    """All strings in a JSON value, in order, without the names of members."""
    todo = [value]
    while todo:
        node = todo.pop()
        if isinstance(node, str):
            yield node
        elif isinstance(node, dict):
            todo.extend(reversed(node.values()))
        elif isinstance(node, list):
            todo.extend(reversed(node))


def encodable(text: str) -> str:
    """The same without lone surrogates, which no database takes."""
    return text.encode("utf-8", "replace").decode()


def _encodable(found: Words) -> Words:
    try:
        "".join(found).encode()
    except UnicodeEncodeError:
        return Words(*map(encodable, found))
    return found


def _some(value: Any, most: int) -> str:
    """The strings of a value, joined, up to ``most`` characters."""
    if isinstance(value, str):
        return value[:most]
    found, size = [], 0
    for text in strings(value):
        found.append(text[: most - size])
        size += len(text) + 1
        if size >= most:
            break
    return "\n".join(found)


def _text(data: Data, *names: str) -> str:
    return "\n".join(value for name in names if isinstance(value := data.get(name), str))[:MOST_TEXT]


def _of_message(data: Data) -> Words:
    parts = data.get("parts")
    if isinstance(parts, str):
        return Words(text=parts[:MOST_TEXT])
    said: list[str] = []
    tools: list[str] = []
    for part in parts if isinstance(parts, list) else ():
        if isinstance(part, dict):
            _of_part(part, said, tools)
    return Words("", "", "\n".join(said)[:MOST_TEXT], "\n".join(tools)[: 2 * MOST_TOOLS])


def _of_part(part: Data, said: list[str], tools: list[str]) -> None:
    kind = part.get("type")
    if kind == "tool_call":
        tools.append(_call(part))
    elif kind == "tool_call_response":
        tools.append(_some(part.get("response"), MOST_TOOLS))
    elif kind in ("text", "reasoning") and isinstance(content := part.get("content"), str):
        said.append(content)


def _call(data: Data) -> str:
    name = data.get("name")
    given = _some(data.get("arguments"), MOST_TOOLS)
    return f"{name}\n{given}" if isinstance(name, str) else given


def _of_result(data: Data) -> Words:
    return _of_message(data) if "parts" in data else Words(tools=_some(data.get("response"), MOST_TOOLS))


def _of_compaction(data: Data) -> Words:
    summary = data.get("summary")
    return Words(summary=summary[:MOST_TEXT] if isinstance(summary, str) else _of_message({"parts": summary}).text)


def _of_native(data: Data) -> Words:
    fields = data.get("fields")
    return Words(text=_text(fields, "content", "summary", "message", "text")) if isinstance(fields, dict) else Words()


def _of_unknown(data: Data) -> Words:
    return Words(text=_some(data, MOST_TOOLS))


_HANDLERS: dict[str, Callable[[Data], Words] | None] = {
    "session.start": lambda data: Words(title=_text(data, "title")),
    "session.update": lambda data: Words(title=_text(data, "title"), summary=_text(data, "summary")),
    "message": _of_message,
    "model.response": _of_message,
    "tool.call": lambda data: Words(tools=_call(data)),
    "tool.result": _of_result,
    "tool.confirmation": lambda data: Words(text=_text(data, "reason")),
    "error": lambda data: Words(text=_text(data, "error.type", "message")),
    "context.compaction": _of_compaction,
    "session.wake": lambda data: Words(text=_text(data, "reason", "note")),
    "session.terminate": lambda data: Words(text=_text(data, "reason")),
    "session.interrupt": lambda data: Words(text=_text(data, "reason")),
    "session.resource": lambda data: Words(text=_text(data, "name", "uri")),
    "turn.end": lambda data: Words(text=_text(data, "message")),
    "native": _of_native,
    "turn.start": None,
    "session.wake_done": None,
    "session.branch": None,
    "session.fork": None,
    "session.seal": None,
    "session.erasure": None,
}
