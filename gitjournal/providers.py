"""What model providers answer, in the words of docs/events.md: parts, usage, finish reason.

Floor 0, pure. Knows three shapes, as plain values: OpenAI chat completions (which many servers speak), OpenAI
responses, Anthropic messages. Depends on none of their clients.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from gitjournal import canonical
from gitjournal.errors import FormatError, UsageError
from gitjournal.plain import kind, without_nulls
from gitjournal.vocabulary import USAGE

Part = dict[str, Any]
Data = dict[str, Any]

_INPUT, _OUTPUT, _READ, _WRITE, _REASONING = USAGE
_PREFIX = "gen_ai.usage."
_READ_KEY, _WRITE_KEY = "cache_read_input_tokens", "cache_creation_input_tokens"
#: More tokens than this in one response are a mistake.
MOST_TOKENS = 10**12
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


def is_message(value: Any) -> bool:
    """Whether a value is a message of a chat, which has a role and no type."""
    return isinstance(value, dict) and "type" not in value and isinstance(value.get("role"), str)


def _message(message: Mapping[str, Any]) -> list[Part]:
    """A message of a chat, or one whose content are blocks."""
    content = message.get("content") or []
    if message.get("tool_call_id") is not None:
        return [_sound({"type": "tool_call_response", "id": message["tool_call_id"], "response": content})]
    thought = message.get("reasoning_content") or message.get("reasoning")
    found = [{"type": "reasoning", "content": thought}] if isinstance(thought, str) else []
    found += parts(content)
    if isinstance(message.get("refusal"), str):
        found.append({"type": "refusal", "content": message["refusal"]})
    return found + [_chat_call(call) for call in _list(message.get("tool_calls"))]


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
    "function_call_output": lambda block: [_renamed("tool_call_response", block, id="call_id", response="output")],
    "message": _message,
    "image": _image,
    "image_url": _image,
    "input_image": _image,
}


# --- responses -----------------------------------------------------------------------------------


def response(answer: Mapping[str, Any]) -> Data | None:
    """The data of a ``model.response`` for a provider's response; None when it has none of the three shapes.

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
    if answer.get("usage") is not None:
        data |= usage(answer["usage"])
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
    reason = _detail(answer, "incomplete_details", "reason")
    calls = any(part["type"] == "tool_call" for part in found)
    ended = {"completed": "tool_call" if calls else "stop", "failed": "error"}.get(str(status), reason or status)
    return {"parts": found, "finish_reason": finish_reason(ended)}


# --- usage ---------------------------------------------------------------------------------------


def usage(counts: Any) -> Data:
    """``usage`` in our counters, and ``native_usage`` when the counters came in a provider's form.

    Takes our names (the prefix may be left out) and those of the three shapes. UsageError names a counter that is not
    known or is given twice, one that is no whole number from 0 to `MOST_TOKENS`, and one that is more than the counter
    that includes it.
    """
    if not isinstance(counts, Mapping):
        raise UsageError("usage is an object of token counters")
    if not counts:
        return {}
    ours = {f"{_PREFIX}{name.removeprefix(_PREFIX)}": count for name, count in counts.items()}
    if any(name.startswith(_PREFIX) for name in counts) or ours.keys() <= set(USAGE):
        for name in counts:
            if not name.startswith(_PREFIX) and _PREFIX + name in counts:
                raise UsageError(f"usage has the counter {name} twice, with the prefix {_PREFIX} and without")
        return {"usage": _checked(ours)}
    native = without_nulls(dict(counts))
    if "prompt_tokens" in native or "completion_tokens" in native:
        found = _openai(native, "prompt_tokens", "completion_tokens")
    elif _READ_KEY in native or _WRITE_KEY in native:
        found = _anthropic(native)
    elif "input_tokens" in native or "output_tokens" in native:
        found = _openai(native, "input_tokens", "output_tokens")
    else:
        raise UsageError(f"usage has none of the known counters, but {', '.join(sorted(counts)):.200}")
    return {"usage": _checked(found), "native_usage": native}


def _openai(native: Data, into: str, out: str) -> Data:
    """Input includes the cache already, output the reasoning. Proxies add Anthropic's names for the cache."""
    read, thought = (
        _detail(native, f"{into}_details", "cached_tokens"),
        _detail(native, f"{out}_details", "reasoning_tokens"),
    )
    also = native.get(_READ_KEY)
    if None not in (read, also) and read != also:
        raise UsageError(f"usage has two counts of what was read from a cache: {_shown(read)} and {_shown(also)}")
    counts = {_INPUT: native.get(into), _OUTPUT: native.get(out), _REASONING: thought}
    return {**counts, _READ: also if read is None else read, _WRITE: native.get(_WRITE_KEY)}


def _detail(native: Mapping[str, Any], group: str, name: str) -> Any:
    details = native.get(group)
    return details.get(name) if isinstance(details, dict) else None


def _anthropic(native: Data) -> Data:
    """Input counts what was neither read from nor written to a cache."""
    read, written = native.get(_READ_KEY), native.get(_WRITE_KEY)
    counts = [native.get("input_tokens"), read, written]
    known = _whole(dict(zip((_INPUT, _READ, _WRITE), counts, strict=True)))
    total = sum(known.values()) if known else None
    return {_INPUT: total, _OUTPUT: native.get("output_tokens"), _READ: read, _WRITE: written}


#: What each of these is a part of.
_PART_OF = {_READ: _INPUT, _WRITE: _INPUT, _REASONING: _OUTPUT}


def _checked(counts: Mapping[str, Any]) -> Data:
    known = _whole(counts)
    for part, total in _PART_OF.items():
        if part in known and known[part] > known.get(total, known[part]):
            raise UsageError(
                f"{part} is {known[part]}, more than {total}, {known[total]}, which includes it",
                hint="Give usage= in the counters of docs/events.md.",
            )
    return known


def _whole(counts: Mapping[str, Any]) -> Data:
    """The counters that are given, each a whole number."""
    for name, count in counts.items():
        if name not in USAGE:
            raise UsageError(f"{name} is not one of the token counters", hint=f"They are {', '.join(USAGE)}.")
        if count is not None and (type(count) is not int or not 0 <= count <= MOST_TOKENS):
            raise UsageError(f"{name} is {_shown(count)}, not a whole number from 0 to {MOST_TOKENS:,}")
    return {name: count for name, count in counts.items() if count is not None}


def _shown(count: object) -> str:
    if type(count) is int and count.bit_length() > 100:
        return "a huge number"
    return repr(count) if type(count) in (int, float, bool) else f"a {type(count).__name__}"
