"""Messages in the manner of OpenAI's Chat Completions, which many programs write with members of their own."""

from __future__ import annotations

from typing import Any

from gitjournal.formats.shapes import (
    Mapped,
    Members,
    call_part,
    is_text,
    items,
    media_part,
    members,
    opened,
    part_of,
    response_part,
    text,
    text_part,
    usage,
    whole,
)


def content(found: Any) -> list[Members]:
    """The content of a message as parts: a text, or blocks."""
    return [_block(block) for block in found] if type(found) is list else text_part(found)


def reasoning(message: Members) -> list[Members]:
    """What stands beside the content as reasoning: ``reasoning_content``, or blocks of thinking."""
    if is_text(message.get("reasoning_content")) and message["reasoning_content"]:
        return [{"type": "reasoning", "content": message["reasoning_content"]}]
    blocks = [members(block).get("thinking") for block in items(message.get("thinking_blocks"))]
    return [{"type": "reasoning", "content": thinking} for thinking in blocks if is_text(thinking)]


def prompt(role: str, message: Members) -> Mapped:
    """A message of the user or of the system."""
    return "message", {"role": role, "parts": content(message.get("content"))}, "user" if role == "user" else "host"


def calls(message: Members) -> list[Members]:
    """The calls of a message; their arguments are JSON in a text, or what they stand for."""
    return [_call(call) for call in items(message.get("tool_calls"))]


def _call(call: Any) -> Members:
    shape = members(call)
    if not shape:
        return part_of(call)
    function = shape.get("function")
    inner = members(function) if not is_text(function) else {"name": function, "arguments": shape.get("arguments")}
    return call_part(shape.get("id"), inner.get("name"), opened(inner.get("arguments")))


def result(message: Members, is_error: Any = None) -> Members:
    """A message with the role ``tool`` as the part of a result; a text alone stays a text."""
    found = message.get("content")
    response = content(found) if type(found) is list else found
    return response_part(message.get("tool_call_id"), response, is_error)


def counters(native: Members) -> Members:
    """Token counters of a response; cached input is part of the input, reasoning of the output."""
    given, made = members(native.get("prompt_tokens_details")), members(native.get("completion_tokens_details"))
    created = next((native[name] for name in ("cache_creation_input_tokens",) if name in native), None)
    return usage(
        native.get("prompt_tokens"),
        native.get("completion_tokens"),
        read=given.get("cached_tokens"),
        created=whole(created),
        reasoning=made.get("reasoning_tokens"),
    )


def _block(block: Any) -> Members:
    shape = members(block)
    kind = shape.get("type")
    if kind == "text" and is_text(shape.get("text")):
        return {"type": "text", "content": shape["text"]}
    if kind in ("thinking", "reasoning"):
        thought = text(shape, "thinking") or text(shape, "reasoning") or ""
        return {"type": "reasoning", "content": thought}
    if kind in ("image_url", "image", "audio", "video"):
        url = members(shape.get("image_url")).get("url") or shape.get("image_url") or shape.get(kind)
        if type(url) is str:
            return media_part("image" if kind == "image_url" else kind, None, url)
    return part_of(block)
