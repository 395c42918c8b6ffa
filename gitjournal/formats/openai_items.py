"""Items of OpenAI's Responses interface as parts of the neutral form: messages, calls, outputs, reasoning.

Both SDKs for agents keep them: the Python one with names like ``call_id``, the JavaScript one with ``callId``.
"""

from __future__ import annotations

from typing import Any

from gitjournal.formats.shapes import (
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
    without_none,
)

#: Calls that the provider runs itself: the item of the call is that of its result as well.
_HOSTED = frozenset({
    "file_search_call", "web_search_call", "code_interpreter_call", "image_generation_call", "mcp_call",
    "hosted_tool_call",
})  # fmt: skip
_ANSWERS = ("_output", "_result")
_ARGUMENTS = ("arguments", "input", "action", "operation", "code", "queries")
_RESULTS = ("output", "results", "outputs", "result", "error")


def either(of: Members, name: str) -> Any:
    """A member under its Python or its JavaScript name."""
    head, *rest = name.split("_")
    return of.get(name, of.get(head + "".join(map(str.title, rest))))


def kind_of(item: Members) -> str:
    """The type of an item; a message may leave it out."""
    return text(item, "type") or ("message" if "role" in item else "unknown")


def is_answer(kind: str) -> bool:
    """Whether an item of this type is the output of a call."""
    return kind.endswith(_ANSWERS)


def is_call(kind: str) -> bool:
    """Whether an item of this type is a call."""
    return kind.endswith("_call")


def said(item: Members) -> list[Members]:
    """What a message says, as parts."""
    content = item.get("content")
    return [_part(block) for block in content] if type(content) is list else text_part(content)


def thought(item: Members) -> list[Members]:
    """The reasoning that an item shows: its text, else its summary. The part is there even when it shows none."""
    for name in ("content", "raw_content", "rawContent", "summary"):
        texts = [members(block).get("text") for block in items(item.get(name))]
        shown = [one for one in texts if type(one) is str]
        if shown:
            return [{"type": "reasoning", "content": "\n\n".join(shown)}]
    return [{"type": "reasoning", "content": ""}]


def call(item: Members) -> list[Members]:
    """A call as a part; one that the provider has run itself, with its result."""
    kind = kind_of(item)
    own = either(item, "call_id")
    own = item.get("id") if own is None else own
    name = text(item, "name") or kind.removesuffix("_call")
    given = next((item[one] for one in _ARGUMENTS if one in item), None)
    parts = [call_part(own, name, opened(given))]
    if kind in _HOSTED:
        result = next((item[one] for one in _RESULTS if item.get(one) is not None), None)
        parts.append(response_part(own, result, True if item.get("error") is not None else None))
    return parts


def answer(item: Members) -> Members:
    """The output of a call as a part."""
    output = item.get("output")
    if members(output).get("type") == "text":
        output = members(output).get("text")
    response = [_part(block) for block in output] if type(output) is list else output
    failed = True if item.get("status") in ("failed", "incomplete") else None
    return response_part(either(item, "call_id"), response, failed)


def _part(block: Any) -> Members:
    shape = members(block)
    kind = shape.get("type")
    if kind in ("input_text", "output_text", "text") and is_text(shape.get("text")):
        return {"type": "text", "content": shape["text"]}
    if kind == "refusal" and is_text(shape.get("refusal")):
        return {"type": "text", "content": shape["refusal"]}
    if kind == "input_image":
        return _image(shape) or part_of(block)
    if kind == "input_file":
        return _file(shape) or part_of(block)
    return part_of(block)


def _image(shape: Members) -> Members | None:
    url = either(shape, "image_url")
    url = url if url is not None else shape.get("image")
    if type(url) is str:
        return media_part("image", None, url)
    own = either(shape, "file_id")
    return {"type": "file", "modality": "image", "file_id": own} if is_text(own) else None


def _file(shape: Members) -> Members | None:
    for name in ("file_data", "file_url"):
        url = either(shape, name)
        if type(url) is str:
            return media_part("document", None, url)
    own = either(shape, "file_id")
    return {"type": "file", "modality": "document", "file_id": own} if is_text(own) else None


def counters(native: Members) -> Members:
    """Token counters of a response; the details come as an object or as a list of one."""

    def detail(name: str, *counted: str) -> Any:
        details = either(native, name)
        shape = members(details[0] if type(details) is list and details else details)
        return next((found for one in counted if (found := either(shape, one)) is not None), None)

    return without_none(
        usage(
            either(native, "input_tokens"),
            either(native, "output_tokens"),
            read=detail("input_tokens_details", "cached_tokens"),
            created=detail("input_tokens_details", "cache_write_tokens", "cache_creation_tokens"),
            reasoning=detail("output_tokens_details", "reasoning_tokens"),
        )
    )
