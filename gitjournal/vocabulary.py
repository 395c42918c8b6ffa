"""Names and limits of docs/events.md that those who write events share with those who read them.

Floor 0. Computes nothing but the trust of a source.
"""

from __future__ import annotations

import re

#: Token counters, by their OpenTelemetry names. Input includes cache, output includes reasoning.
USAGE = (
    "gen_ai.usage.input_tokens",
    "gen_ai.usage.output_tokens",
    "gen_ai.usage.cache_read.input_tokens",
    "gen_ai.usage.cache_creation.input_tokens",
    "gen_ai.usage.reasoning.output_tokens",
)

#: Levels of trust, the narrowest first.
TRUST_LEVELS = ("sandbox", "host")
NARROWEST = TRUST_LEVELS[0]
#: What a source is trusted with; every other source is trusted least.
TRUST_BY_SOURCE = {"console": "host"}

#: How a turn can end.
OUTCOMES = ("completed", "failed", "canceled", "interrupted", "rescheduling")
#: What a tool call can wait for: that a person allows it, or that somebody outside runs it.
REQUIREMENTS = ("confirmation", "result")
#: Priorities of a wake, the least urgent first.
PRIORITIES = ("low", "normal", "high")
RESOURCE_ACTIONS = ("attach", "detach")

#: Codes of a `tool.result` whose call did not run to its end. Such a result may come late (docs/events.md).
INTERRUPTED, DENIED = "interrupted", "denied"

MAX_TITLE = 200
MAX_SUMMARY = 16_384
MAX_LABEL = 64
# C0, DEL and C1, and the two separators at which programs break lines as well.
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")


def source_trust(source: object) -> str:
    """The level of trust of a session from ``source``: the narrowest for one that is unknown or missing."""
    return TRUST_BY_SOURCE.get(source, NARROWEST) if isinstance(source, str) else NARROWEST


def is_wider(trust: str, than: str) -> bool:
    """Whether level ``trust`` allows more than level ``than``."""
    return TRUST_LEVELS.index(trust) > TRUST_LEVELS.index(than)


def is_title(value: object) -> bool:
    """Whether a value can be a title: one line of at most `MAX_TITLE` characters; empty removes it."""
    return isinstance(value, str) and len(value) <= MAX_TITLE and not _CONTROL.search(value)


def is_summary(value: object) -> bool:
    """Whether a value can be a summary: at most `MAX_SUMMARY` characters; empty removes it."""
    return isinstance(value, str) and len(value) <= MAX_SUMMARY


def is_label(value: object) -> bool:
    """Whether a value can be a label: 1 to `MAX_LABEL` characters, no control characters."""
    return isinstance(value, str) and 1 <= len(value) <= MAX_LABEL and not _CONTROL.search(value)
