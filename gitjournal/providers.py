"""What model providers answer, in the words of docs/events.md: parts, finish reason; their usage is in `counters`.

Floor 0, pure. Knows three shapes, as plain values: OpenAI chat completions (which many servers speak), OpenAI
responses, Anthropic messages. Depends on none of their clients.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from gitjournal import canonical
from gitjournal.counters import usage
from gitjournal.errors import FormatError, UsageError
from gitjournal.plain import kind, without_nulls

Part = dict[str, Any]
Data = dict[str, Any]

_DATA_URL = re.compile(r"data:([\w.+-]+/[\w.+-]+);base64,")
#: Their words for why a response ended, where OpenTelemetry has another.
_FINISH = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "max_output_tokens": "length",
    "tool_use": "tool_call",
    "tool_calls": "tool_call",
    "function_call": "tool_call",
    "refusal": "content_filter",
}
#: Whose models are called so, in OpenTelemetry's words. Others that offer them put a name of their own before.
_MODELS = (
    (re.compile(r"claude-|anthropic/"), "anthropic"),
    (re.compile(r"(chat)?gpt-|o[1-9](-|$)|codex-|text-embedding-|openai/"), "openai"),
    (re.compile(r"gemini-|google/gemini-"), "gcp.gemini"),
    (re.compile(r"grok-|x-ai/"), "x_ai"),
    (re.compile(r"(open-)?(mistral|mixtral)-|(code|mini|magi|pix)stral-|devstral-|mistralai/"), "mistral_ai"),
    (re.compile(r"deepseek-|deepseek/"), "deepseek"),
    (re.compile(r"command-|cohere/"), "cohere"),
    (re.compile(r"(\w+\.)?(anthropic|amazon|meta|cohere|mistral|deepseek)\."), "aws.bedrock"),
)


def provider_of(model: str) -> str | None:
    """Who a model is from, as ``gen_ai.provider.name`` says it, by the model's name; None when that does not tell."""
    return next((provider for form, provider in _MODELS if form.match(model)), None)


# --- parts ---------------------------------------------------------------------------------------


def parts(content: Any) -> list[Part]:
    """Message parts from text, one block or a list of them: parts of ours as they are, providers' blocks as ours.

    Types that are not known are kept. UsageError for what is no part, or a known one without what makes it one.
    """
    if isinstance(content, str):
        return [{"type": "text", "content": content}]
    if isinstance(content, list):
        return [part for block in content for part in parts(block)]
    if is_message(content):
        return _message(content)
    kind_of = content.get("type") if isinstance(content, dict) else None
    if type(kind_of) is not str:
        found_one = "an object without one" if isinstance(content, dict) else f"a {type(content).__name__}"
        raise UsageError(f"a message part is text, or an object with a type; this is {found_one}")
    reader = _READERS.get(kind_of)
    found = reader(content) if reader else [{name: item for name, item in content.items() if item is not None}]
    return [_sound(part) for part in found]


def _sound(part: Part) -> Part:
    """The part, if it has what makes it one of its type."""
    needed = _NEEDED.get(part["type"])
    if needed and type(part.get(needed)) is not str:
        raise UsageError(f"a message part of type {part['type']} needs the text {needed!r}")
    if part["type"] in ("tool_call", "tool_call_response"):
        _text_or_none(f"the id of a {part['type']}", part.get("id"))
    return part


def _text_or_none(what: str, value: Any) -> None:
    if value is not None and type(value) is not str:
        raise UsageError(f"{what} is a {kind(value)}, not text")


#: Parts of docs/events.md, with the text that each must have.
_NEEDED = {
    "text": "content",
    "reasoning": "content",
    "tool_call": "name",
    "blob": "content",
    "file": "file_id",
    "uri": "uri",
}


def _renamed(kind: str, block: Part, **names: str) -> Part:
    """A part of another type: ``names`` gives the old name of each member that has a new one."""
    old = set(names.values())
    rest = {name: item for name, item in block.items() if name not in old and item not in (None, [])}
    return {**rest, "type": kind, **{new: block.get(name) for new, name in names.items()}}


def _text(block: Part) -> list[Part]:
    return [_renamed("text", block, content="text")] if "text" in block else [block]


def _reasoning(block: Part) -> list[Part]:
    if isinstance(block.get("content"), str):
        return [block]
    said = _list(block.get("content")) or _list(block.get("summary"))
    text = "\n".join(str(one.get("text", "")) for one in said if isinstance(one, dict))
    rest = {name: item for name, item in block.items() if name not in ("summary", "status") and item is not None}
    return [{**rest, "content": text}]


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _call(block: Part) -> list[Part]:
    part = _renamed("tool_call", block, id="call_id", arguments="arguments")
    part.pop("status", None)
    return [part | {"arguments": _arguments(block.get("arguments"))}]


def _client_call(block: Part) -> list[Part]:
    """A call that the client answers by its ``call_id``, of a tool that has a type of its own, or a name."""
    arguments = _ARGUMENTS[block["type"]]
    part = _renamed("tool_call", block, id="call_id", arguments=arguments)
    part.pop("status", None)
    return [{"name": block["type"].removesuffix("_call"), **part}]


def _output(block: Part) -> list[Part]:
    return [_renamed("tool_call_response", block, id="call_id", response="output")]


def is_message(value: Any) -> bool:
    """Whether a value is a message of a chat, which has a role and no type."""
    return isinstance(value, dict) and "type" not in value and isinstance(value.get("role"), str)


def _message(message: Mapping[str, Any]) -> list[Part]:
    """A message of a chat, or one whose content are blocks."""
    content = message.get("content") or []
    if message.get("tool_call_id") is not None:
        return [_sound({"type": "tool_call_response", "id": message["tool_call_id"], "response": content})]
    if message.get("role") == "function":
        # The older form: the name of the function stands for the call.
        return [{"type": "tool_call_response", "id": None, "name": message.get("name"), "response": content}]
    thought = message.get("reasoning_content") or message.get("reasoning")
    found = [{"type": "reasoning", "content": thought}] if isinstance(thought, str) else []
    found += parts(content)
    found += _audio(message.get("audio"))
    if isinstance(message.get("refusal"), str):
        found.append({"type": "refusal", "content": message["refusal"]})
    found += [_chat_call(call) for call in _list(message.get("tool_calls"))]
    # The name of calls before there were several in one message; its result has the role "function" and no id.
    older = message.get("function_call")
    return found + ([_chat_call({"function": older})] if older is not None else [])


def _audio(audio: Any) -> list[Part]:
    """What a model spoke: its words, and the sound, whose kind only the request knows."""
    if not isinstance(audio, dict):
        return []
    said: list[Part] = [{"type": "text", "content": audio["transcript"]}] if audio.get("transcript") else []
    sound = [{"type": "blob", "modality": "audio", "content": audio["data"]}] if audio.get("data") else []
    return [_sound(part) for part in said + sound]


def _image(block: Part) -> list[Part]:
    """Anthropic's ``source`` or OpenAI's ``image_url``, which is a text or an object with a url."""
    source = block.get("source") or block.get("image_url")
    source = {"url": source} if isinstance(source, str) else source
    if not isinstance(source, dict):
        return [block]
    if type(source.get("data")) is str:
        return [_blob(source.get("media_type"), source["data"])]
    url = source.get("url")
    if not isinstance(url, str):
        return [block]
    found = _DATA_URL.match(url)
    return [_blob(found[1], url[found.end() :]) if found else {"type": "uri", "modality": "image", "uri": url}]


def _blob(media_type: Any, data: str) -> Part:
    return {"type": "blob", "modality": "image", "mime_type": media_type, "content": data}


def _arguments(value: Any) -> Any:
    """Arguments that come as JSON text, as what they mean; the text itself if it cannot be read or kept."""
    if not isinstance(value, str):
        return value
    try:
        return canonical.loads(value.encode("utf-8", "surrogatepass"))
    except FormatError:
        return value


#: Calls of the responses API that the client answers, and which member says what is asked for.
_ARGUMENTS = {
    "custom_tool_call": "input",
    "local_shell_call": "action",
    "shell_call": "action",
    "computer_call": "action",
    "apply_patch_call": "operation",
}
_READERS: dict[str, Callable[[Part], list[Part]]] = {
    "text": _text,
    "output_text": _text,
    "input_text": _text,
    "refusal": lambda block: [_renamed("refusal", block, content="refusal")] if "refusal" in block else [block],
    "thinking": lambda block: [_renamed("reasoning", block, content="thinking")],
    "reasoning": _reasoning,
    "tool_use": lambda block: [_renamed("tool_call", block, id="id", name="name", arguments="input")],
    "tool_result": lambda block: [_renamed("tool_call_response", block, id="tool_use_id", response="content")],
    "function_call": _call,
    **dict.fromkeys(_ARGUMENTS, _client_call),
    **{f"{name}_output": _output for name in ("function_call", *_ARGUMENTS)},
    "message": _message,
    "image": _image,
    "image_url": _image,
    "input_image": _image,
}


# --- responses -----------------------------------------------------------------------------------


def response(answer: Mapping[str, Any], counts: object = None) -> Data | None:
    """The data of a ``model.response`` for a provider's response; None when it has none of the three shapes.

    ``counts`` is usage that a caller names: it wins, and that of the response is kept as it came.
    UsageError for an id, model or finish reason that is no text, and for one of several choices, or a piece of a
    stream: which of them was used, only the caller knows.
    """
    if isinstance(answer.get("choices"), list):
        data = _completion(answer)
    elif answer.get("object") == "response" or isinstance(answer.get("output"), list):
        data = _items(answer)
    elif answer.get("type") == "message" and isinstance(answer.get("content"), list):
        data = {"parts": parts(answer["content"]), "finish_reason": finish_reason(answer.get("stop_reason"))}
    else:
        return None
    data |= {"response.id": answer.get("id"), "response.model": answer.get("model")}
    for name in ("response.id", "response.model", "finish_reason"):
        _text_or_none(name, data.get(name))
    own = answer.get("usage")
    if own is not None:
        data |= usage(own) if counts is None else {"native_usage": without_nulls(own)}
    return {name: value for name, value in data.items() if value not in (None, [])}


def finish_reason(word: Any) -> Any:
    """A provider's word for why a response ended, as OpenTelemetry has it."""
    return _FINISH.get(word, word) if isinstance(word, str) else word


def _completion(answer: Mapping[str, Any]) -> Data:
    choices = answer["choices"]
    message = choices[0].get("message") if len(choices) == 1 and isinstance(choices[0], dict) else None
    if not isinstance(message, dict):
        what = "a piece of a stream" if "chunk" in str(answer.get("object")) else f"a list of {len(choices)}"
        raise UsageError(f"choices is {what}, not one message", hint="Give the parts that were used as a list.")
    return {"parts": _message(message), "finish_reason": finish_reason(choices[0].get("finish_reason"))}


def _chat_call(call: Any) -> Part:
    what = (call.get("function") or call.get("custom")) if isinstance(call, dict) else None
    if not isinstance(what, dict) or type(what.get("name")) is not str:
        raise UsageError("a tool call of the response names no function")
    arguments = _arguments(what["arguments"]) if "arguments" in what else what.get("input")
    return _sound({"type": "tool_call", "id": call.get("id"), "name": what["name"], "arguments": arguments})


def _items(answer: Mapping[str, Any]) -> Data:
    found = parts(answer.get("output") or [])
    status = answer.get("status")
    details = answer.get("incomplete_details")
    reason = details.get("reason") if isinstance(details, dict) else None
    calls = any(part["type"] == "tool_call" for part in found)
    ended = {"completed": "tool_call" if calls else "stop", "failed": "error"}.get(str(status), reason or status)
    return {"parts": found, "finish_reason": finish_reason(ended)}
