"""The token counters that model providers give, in those of docs/events.md: `usage`.

Floor 0, pure. Providers differ in what "input" and "output" include; ours include all. Knows the counters of OpenAI
(which many servers speak), Anthropic and Gemini, as plain values.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from gitjournal.errors import UsageError
from gitjournal.plain import without_nulls
from gitjournal.vocabulary import USAGE

Data = dict[str, Any]

_INPUT, _OUTPUT, _READ, _WRITE, _REASONING = USAGE
_PREFIX = "gen_ai.usage."
_READ_KEY, _WRITE_KEY = "cache_read_input_tokens", "cache_creation_input_tokens"
#: More tokens than this in one response are a mistake.
MOST_TOKENS = 10**12


def usage(counts: Any) -> Data:
    """``usage`` in our counters, and ``native_usage`` when the counters came in a provider's form.

    Takes our names (the prefix may be left out) and those of the three providers. UsageError names a counter that is
    not known or is given twice, one that is no whole number from 0 to `MOST_TOKENS`, and one that is more than the
    counter that includes it.
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
    if not set(_GEMINI).isdisjoint(spelled := _snake(native)):
        found = _gemini(spelled)
    elif "prompt_tokens" in native or "completion_tokens" in native:
        found = _openai(native, "prompt_tokens", "completion_tokens")
    elif (_READ_KEY in native or _WRITE_KEY in native) and "input_tokens_details" not in native:
        found = _anthropic(native)
    elif "input_tokens" in native or "output_tokens" in native:
        found = _openai(native, "input_tokens", "output_tokens")
    else:
        raise UsageError(f"usage has none of the known counters, but {', '.join(sorted(counts)):.200}")
    return {"usage": _checked(found), "native_usage": native}


def _openai(native: Data, into: str, out: str) -> Data:
    """Input includes the cache already. Proxies add Anthropic's names for the cache.

    Output includes the reasoning at OpenAI, but not at all who speak this form: there the total is more than both.
    """
    read = _one_count("read from", _detail(native, f"{into}_details", "cached_tokens"), native.get(_READ_KEY))
    written = _one_count("written to", _detail(native, f"{into}_details", "cache_write_tokens"), native.get(_WRITE_KEY))
    counts = {_INPUT: native.get(into), _OUTPUT: native.get(out), _READ: read, _WRITE: written}
    counts[_REASONING] = thought = _detail(native, f"{out}_details", "reasoning_tokens")
    known = _whole(counts)
    answer = known.get(_OUTPUT, 0) + known.get(_REASONING, 0)
    if thought and native.get("total_tokens") == known.get(_INPUT, 0) + answer:
        counts[_OUTPUT] = answer
    return counts


def _one_count(what: str, count: Any, also: Any) -> Any:
    if None not in (count, also) and count != also:
        raise UsageError(f"usage has two counts of what was {what} a cache: {_shown(count)} and {_shown(also)}")
    return also if count is None else count


def _detail(native: Mapping[str, Any], group: str, name: str) -> Any:
    details = native.get(group)
    return details.get(name) if isinstance(details, dict) else None


#: Gemini's counters, in either spelling. What tools gave the model is input beside the prompt.
_GEMINI = ("prompt_token_count", "candidates_token_count", "thoughts_token_count", "tool_use_prompt_token_count")


def _snake(native: Mapping[str, Any]) -> Data:
    return {re.sub("[A-Z]", lambda found: f"_{found[0].lower()}", name): count for name, count in native.items()}


def _gemini(native: Mapping[str, Any]) -> Data:
    """The prompt includes the cache, the answer does not include the thoughts."""
    prompt, answer, thoughts, tools = map(native.get, _GEMINI)
    counts = {_READ: native.get("cached_content_token_count"), _REASONING: thoughts}
    counts[_INPUT] = _sum((_INPUT, prompt), (_INPUT, tools))
    return {**counts, _OUTPUT: _sum((_OUTPUT, answer), (_REASONING, thoughts))}


def _sum(*counts: tuple[str, Any]) -> int | None:
    """Of those that are given, each a whole number; None for none."""
    known = [count for name, one in counts for count in _whole({name: one}).values()]
    return sum(known) if known else None


def _anthropic(native: Data) -> Data:
    """Input counts what was neither read from nor written to a cache."""
    read, written = native.get(_READ_KEY), native.get(_WRITE_KEY)
    into = _sum((_INPUT, native.get("input_tokens")), (_READ, read), (_WRITE, written))
    return {_INPUT: into, _OUTPUT: native.get("output_tokens"), _READ: read, _WRITE: written}


#: What each of these is a part of.
_PART_OF = {_READ: _INPUT, _WRITE: _INPUT, _REASONING: _OUTPUT}


def _checked(counts: Mapping[str, Any]) -> Data:
    known = _whole(counts)
    for part, total in _PART_OF.items():
        if part in known and known[part] > known.get(total, known[part]):
            both = {total: known[total] + known[part], part: known[part]}
            raise UsageError(
                f"{part} is {known[part]}, more than {total}, {known[total]}, which includes it",
                hint=f"If the one was counted beside the other, give the sum, as in usage={both}.",
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
