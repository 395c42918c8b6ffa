"""What a rendering of a session has left out or changed, counted by kind."""

from __future__ import annotations

import base64
import math
import re
from collections import Counter
from decimal import Decimal
from typing import Any

#: Kinds of losses, with the words for one line of a report; the order is that of the report.
KINDS = {
    "native": "records of the source without a neutral meaning, left out",
    "withheld": "events whose payload is withheld or erased, left out",
    "files": "events with a side file that is gone or unreadable, written without it",
    "sidechain": "events of a sub-agent inside its parent's session, left out",
    "session": "events on the session itself (turns, titles, seals, wakes and the like), left out",
    "unknown": "events of types that the vocabulary does not have, left out",
    "errors": "errors, left out",
    "injected": "messages of the program in the user's name, written as the user's",
    "children": "links to sub-agents whose sessions are not here, left out",
    "parts": "message parts that the format has no place for",
    "media": "pictures and other media that the format has no place for",
    "reasoning": "pieces of reasoning that were joined or left out",
    "arguments": "arguments of calls that are no object, wrapped in one",
    "responses": "results that are no text, written as JSON text",
    "ids": "calls or results without an id; one was made",
    "open": "calls without a result",
    "unmatched": "results without a call",
    "usage": "token counters that the format has no place for",
    "provider": "responses of an unknown provider, written without one",
    "context": "messages that later requests contained again, written once",
    "text": "texts with characters that are not Unicode, shown as U+FFFD",
    "numbers": "numbers and bytes that JSON cannot hold, written as text",
    "depth": "values that nest too deep, written as null",
}
_SURROGATE = re.compile("[\ud800-\udfff]")
_DEPTH = 60


class Losses:
    """Counts losses of the kinds of `KINDS`. ``lines()`` is for people, ``as_dict()`` for programs."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()

    def add(self, kind: str, number: int = 1) -> None:
        """Count ``number`` losses of a kind."""
        self._counts[kind] += number

    def as_dict(self) -> dict[str, int]:
        """Number of losses by kind, in the order of `KINDS`; kinds without any are not there."""
        return {kind: self._counts[kind] for kind in KINDS if self._counts[kind]}

    def lines(self) -> list[str]:
        """One line for each kind that occurred."""
        return [f"{KINDS[kind]}: {number}" for kind, number in self.as_dict().items()]

    def plain(self, value: Any, depth: int = 0) -> Any:
        """A value of an event as one that any JSON program reads; what had to be changed is counted."""
        kind = type(value)
        if kind is str:
            if value.isascii() or not _SURROGATE.search(value):
                return value
            self.add("text")
            return _SURROGATE.sub("\ufffd", value)
        if kind in (dict, list) and depth >= _DEPTH:
            self.add("depth")
            return None
        if kind is dict:
            return {self.plain(name): self.plain(item, depth + 1) for name, item in value.items()}
        if kind is list:
            return [self.plain(item, depth + 1) for item in value]
        if value is None or kind is bool or kind is int or (kind is float and math.isfinite(value)):
            return value
        self.add("numbers")
        return base64.b64encode(value).decode() if kind is bytes else str(value) if kind is Decimal else repr(value)
