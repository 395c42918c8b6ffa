"""Items of a Codex rollout as message parts: what is said, calls, results; and what the program says as the user."""

from __future__ import annotations

import json
import re
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
    without_none,
)

#: The format's name: what users type, and ``source`` of the sessions.
NAME = "codex"
#: Items in the words of `opened` as calls: what they call the tool, and the member with what it is given.
_CALLS = {
    "function_call": (None, "arguments"),
    "custom_tool_call": (None, "input"),
    "local_shell_call": ("local_shell", "action"),
    "tool_search_call": ("tool_search", "arguments"),
    "web_search_call": ("web_search", "action"),
    "image_generation_call": ("image_generation", "revised_prompt"),
}
#: Items with a result.
OUTPUTS = frozenset({
    "function_call_output", "custom_tool_call_output", "local_shell_call_output", "tool_search_output",
})  # fmt: skip
_TEXTS = frozenset({"input_text", "output_text", "text", "summary_text", "reasoning_text", "Text", "inputText"})
# What the program puts into the context in the user's name, from one end of a text to the other.
_WRAPPED = re.compile(
    r"\s*(?:<(environment_context|user_instructions|permissions instructions|skill|skills_instructions"
    r"|user_shell_command|turn_aborted|subagent_notification|recommended_plugins|agent_message_board_notification"
    r"|apps_instructions|collaboration_mode|model_switch|personality_spec|user_action|hook_prompt)(?:\s[^>]*)?>"
    r".*</\1>|# AGENTS\.md instructions.*</INSTRUCTIONS>)\s*",
    re.DOTALL | re.IGNORECASE,
)
_TAG = re.compile(r"</?image[^<>]*>")


def parts_of(content: Any) -> list[Members]:
    """The parts of a message's content: text, or a list of content items."""
    if type(content) is list:
        return [_part(block) for block in content]
    return [_part(content)] if type(content) is dict and not is_text(content) else text_part(content)


def _part(block: Any) -> Members:
    of = members(block)
    kind = text(of, "type")
    if kind in _TEXTS:
        return {"type": "text", "content": of.get("text")}
    if kind == "input_image" and text(of, "image_url"):
        return media_part("image", None, of["image_url"])
    if kind == "input_image" and text(of, "file_id"):
        return {"type": "file", "modality": "image", "file_id": of["file_id"]}
    if kind == "encrypted_content":
        return {"type": kind}
    return part_of(block)


def texts_of(parts: list[Members]) -> list[str]:
    """The texts among parts, without the tags around images."""
    found = [part["content"] for part in parts if part["type"] == "text" and type(part.get("content")) is str]
    return [one for one in found if not _TAG.fullmatch(one)]


def reasoning_of(item: Members) -> tuple[list[Members], list[str]]:
    """The parts of a ``reasoning`` item, and its texts: what the model thought, else the summary of it."""
    for name in ("content", "summary"):
        found = [block.get("text") for block in map(members, items(item.get(name)))]
        if texts := [one for one in found if is_text(one)]:
            return [{"type": "reasoning", "content": one} for one in texts], [one for one in texts if type(one) is str]
    return [], []


def is_put_in(item: Members, parts: list[Members]) -> bool:
    """Whether a message in the user's name was made by the program. Newer versions say so."""
    kinds = items(members(item.get("internal_chat_message_metadata_passthrough")).get("content_item_kinds"))
    if kinds and len(kinds) == len(parts) and all(type(kind) is str for kind in kinds):
        return not any(kind.startswith("user.") for kind in kinds)
    texts = texts_of(parts)
    return bool(texts) and len(texts) == len(parts) and all(map(_WRAPPED.fullmatch, texts))


def call_id(item: Members) -> str | None:
    """The id that joins a call and its result."""
    return text(item, "call_id") or text(item, "id")


def call_of(item: Members) -> Members | None:
    """The part of a call; None for what is none."""
    kind = text(item, "type")
    fixed, given = _CALLS.get(kind or "", ("", ""))
    name = fixed if fixed is not None else text(item, "name") or text(members(item.get("function")), "name")
    if not name:
        return None
    arguments = item.get(given)
    return call_part(call_id(item), name, opened(arguments) if kind == "function_call" else arguments)


def answer_at_once(item: Members) -> Members | None:
    """The result that stands in a call's own item; None when it has one of its own, or none was kept."""
    kind = item.get("type")
    if kind == "image_generation_call":
        image = item.get("result")
        blob = {"type": "blob", "modality": "image", "mime_type": "image/png", "content": image}
        return response_part(call_id(item), [blob] if is_text(image) and image else item.get("status"))
    if kind == "web_search_call" or (kind == "tool_search_call" and text(item, "call_id") is None):
        return response_part(call_id(item), item.get("status"))
    return None


def result_of(item: Members) -> Members:
    """The data of a result."""
    output = item.get("tools") if item.get("type") == "tool_search_output" else item.get("output")
    failed = None
    if type(output) is dict and not is_text(output):
        success = output.get("success")
        failed = not success if type(success) is bool else None
        output = output.get("content_items") or output.get("content") or output
    elif type(output) is str and output.startswith('{"output":'):
        # Of older versions: text and exit code as JSON in the string.
        code = members(members(opened(output)).get("metadata")).get("exit_code")
        failed = code != 0 if type(code) is int else None
    response = output if type(output) is str else parts_of(output) if output is not None else None
    return without_none({"id": call_id(item), "response": response, "is_error": failed})


def search_of(of: Members) -> list[str]:
    """What a search looked for, as the texts that call and display have in common."""
    action = members(of.get("action"))
    return [json.dumps(action, sort_keys=True)] if action else [text(of, "query") or ""]


def shown_call(of: Members) -> tuple[Members, Members] | None:
    """A call and its result that only the display log has, such as one of many in a script; None for others."""
    kind, number = text(of, "type"), text(of, "call_id") or text(of, "id")
    asked = members(of.get("invocation")) or of
    given: Any
    if kind in ("CommandExecution", "exec_command_end"):
        name, given = "shell", without_none({"command": of.get("command"), "cwd": of.get("cwd")})
        output, failed = of.get("aggregated_output"), of.get("exit_code") not in (0, None)
    elif kind in ("McpToolCall", "mcp_tool_call_end", "DynamicToolCall"):
        name, given = ".".join(filter(None, (text(asked, "server"), text(asked, "tool")))), asked.get("arguments")
        output, failed = _outcome(of.get("result", of.get("content_items"))), "Err" in members(of.get("result"))
    elif kind in ("FileChange", "patch_apply_end"):
        name, given = "apply_patch", of.get("changes")
        output, failed = of.get("stdout"), of.get("success") is False or of.get("status") == "failed"
    else:
        return None
    return call_part(number, name or "tool", given), response_part(number, output, failed)


def _outcome(result: Any) -> Any:
    of = members(result)
    inner = of.get("Ok", of.get("Err", result))
    content = members(inner).get("content")
    return parts_of(content) if type(content) is list else inner
