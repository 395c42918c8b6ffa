"""Foreign values of any shape: what importers ask of them, and the pieces of the neutral form that they all make.

Values are wrapped (`gitjournal.foreign`): what an event cannot hold stands in them as text. Nothing here raises.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import Any

from gitjournal.foreign import lenient, scan, skip_space, wrap_value
from gitjournal.rules import JSON_TAG

Members = dict[str, Any]
#: Type, data and actor of an event.
Mapped = tuple[str, Members, str]

_TOOL = re.compile(r"[A-Za-z0-9._:@/+-]{1,95}")


def members(value: Any) -> Members:
    """An object's members; of repeated names the last counts. Empty for what is no object."""
    if type(value) is not dict:
        return {}
    if len(value) == 1 and type(value.get(JSON_TAG)) is str:
        opened = wrap_value(lenient(value[JSON_TAG]))
        return opened if type(opened) is dict and JSON_TAG not in opened else {}
    return value


def items(value: Any) -> list[Any]:
    """The elements of an array; none for what is no array."""
    return value if type(value) is list else []


def text(of: Members, name: str) -> str | None:
    """A member that is a string and not empty."""
    value = of.get(name)
    return value if type(value) is str and value else None


def whole(value: Any) -> int | None:
    """A counter: a whole number from 0 on."""
    return value if type(value) is int and value >= 0 else None


def is_text(value: Any) -> bool:
    """Whether a wrapped value is a string, also one with lone surrogates."""
    if type(value) is dict and len(value) == 1:
        inner = value.get(JSON_TAG)
        return type(inner) is str and inner.startswith('"')
    return type(value) is str


def without(value: Any, path: Sequence[str]) -> Any:
    """A value without the member that ``path`` leads to, if there is one."""
    name, *rest = path
    if type(value) is not dict or name not in value:
        return value
    if rest:
        return {**value, name: without(value[name], rest)}
    return {key: of for key, of in value.items() if key != name}


def without_none(of: Members) -> Members:
    """The members that are not null."""
    return {name: value for name, value in of.items() if value is not None}


def tool_actor(name: Any) -> str:
    """The actor of a tool's result; ``host`` for a name that no actor can have."""
    return f"tool:{name}" if type(name) is str and _TOOL.fullmatch(name) else "host"


def native(fmt: str, kind: str, of: Members, envelope: Collection[str] = ()) -> Mapped:
    """A record without a neutral meaning: its type, and its own members that are no containers.

    ``envelope`` names members that are part of every record or shown elsewhere.
    """
    fields = {
        name: value
        for name, value in of.items()
        if name not in envelope and (is_text(value) or type(value) in (int, float, bool))
    }
    data: Members = {"format": fmt, "type": kind}
    if fields:
        data["fields"] = fields
    return "native", data, "host"


def opened(value: Any) -> Any:
    """The object or array that a string holds as JSON text, wrapped; every other value as it is."""
    if not is_text(value):
        return value
    body = value if type(value) is str else lenient(value[JSON_TAG])
    try:
        found, end = scan(body, skip_space(body, 0))
    except ValueError:
        return value
    return found if type(found) in (dict, list) and skip_space(body, end) == len(body) else value


def text_part(content: Any) -> list[Members]:
    """Text as a message part; none for an empty one and for what is no text."""
    return [{"type": "text", "content": content}] if is_text(content) and content else []


def part_of(block: Any) -> Members:
    """A content block that no rule knows: itself if it has a type, else wrapped in a part."""
    return block if type(block) is dict and type(block.get("type")) is str else {"type": "native", "value": block}


def call_part(call: Any, name: Any, arguments: Any) -> Members:
    """The part ``tool_call``."""
    return {"type": "tool_call", "id": call if is_text(call) else None, "name": name, "arguments": arguments}


def response_part(call: Any, response: Any, is_error: Any = None) -> Members:
    """The part ``tool_call_response``; ``is_error`` only if it is known."""
    part = {"type": "tool_call_response", "id": call if is_text(call) else None, "response": response}
    return {**part, "is_error": is_error} if type(is_error) is bool else part


def media_part(modality: str, mime: Any, url: str) -> Members:
    """What a URL shows or a ``data:`` URL holds, as the part ``blob`` or ``uri``."""
    head, comma, content = url.partition(",")
    if comma and head.startswith("data:") and head.endswith(";base64"):
        return {"type": "blob", "modality": modality, "mime_type": head[5:-7] or mime, "content": content}
    return without_none({"type": "uri", "modality": modality, "mime_type": mime, "uri": url})


def usage(
    given: Any = None, made: Any = None, *, read: Any = None, created: Any = None, reasoning: Any = None
) -> Members:
    """Token counters of docs/events.md. ``given`` includes what a cache gave and took, ``made`` the reasoning.

    What is no counter, or more than what includes it, is left out.
    """
    all_in, out = whole(given), whole(made)
    counters = {
        "gen_ai.usage.input_tokens": all_in,
        "gen_ai.usage.output_tokens": out,
        "gen_ai.usage.cache_read.input_tokens": _within(read, all_in),
        "gen_ai.usage.cache_creation.input_tokens": _within(created, all_in),
        "gen_ai.usage.reasoning.output_tokens": _within(reasoning, out),
    }
    return without_none(counters)


def _within(value: Any, limit: int | None) -> int | None:
    part = whole(value)
    return part if part is not None and (limit is None or part <= limit) else None


def beginning(raw: bytes) -> Members:
    """The first members of an object of which only the beginning may be there; wrapped. Empty for anything else."""
    try:
        body = raw.decode("utf-8", "replace").removeprefix("\ufeff")
        pos, found = skip_space(body, 0), dict[str, Any]()
        if body[pos : pos + 1] != "{":
            return {}
        while body[pos : pos + 1] in ("{", ","):
            name, pos = scan(body, skip_space(body, pos + 1))
            pos = skip_space(body, pos)
            if type(name) is not str or body[pos : pos + 1] != ":":
                break
            found[name], pos = scan(body, skip_space(body, pos + 1))
            pos = skip_space(body, pos)
    except ValueError:
        pass
    return found
