"""A text without the escapes of JSON, and the way back to where each character stands in it.

Floor 0, pure. JSON spells one text in many ways, and a JSON text in a string of a JSON text in more.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Callable
from itertools import accumulate

# What a JSON text escapes, at any level, and what a terminal does not show: colours and control characters. That it
# begins with one set of characters makes the search ten times as fast.
# Runs of newlines and of control characters are one piece each, because files have millions of them.
_ESCAPE = re.compile(
    r"""([\\\x00-\x08\x0b\x0c\x0e-\x1f\x7f]
    (?:(?<=\\)(?:n(?:\\n)*+|\\*(?:u005[cC]\\*)*(?:["'/nrt]|u001[bB]\[[0-9;?]*[A-Za-z]|u[0-9a-fA-F]{4})?)
    |(?<=\x1b)\[[0-9;?]*[A-Za-z]
    |(?<!\\)[\x00-\x08\x0b\x0c\x0e-\x1a\x1c-\x1f\x7f]*+))""",
    re.VERBOSE,
)
_PLAIN = {"n": "\n", "r": "\r", "t": "\t"}


class Escapes(dict[str, str]):
    """What each escape of one kind stands for, worked out once."""

    def __init__(self, pattern: re.Pattern[str], shown: Callable[[str], str]) -> None:
        super().__init__()
        self.pattern = pattern
        self._shown = shown

    def __missing__(self, escape: str) -> str:
        self[escape] = shown = self._shown(escape)
        return shown


def _shown(escape: str) -> str:
    if escape[0] != "\\" or "[" in escape:
        return ""
    last = escape[-1]
    if escape.startswith("\\n"):
        return "\n" * (len(escape) // 2)
    if last in "nrt":
        return _PLAIN[last]
    if last in "\"'/":
        return last
    if last == "\\" or escape[-5:].lower() == "u005c":
        return "\\"
    shown = chr(int(escape[-4:], 16))
    return shown if shown in "\t\n\r" or not (shown < " " or shown == "\x7f") else ""


#: Of all levels at once, and what a terminal does not show.
ALL_LEVELS = Escapes(_ESCAPE, _shown)
#: Of one string of a JSON text.
ONE_LEVEL = Escapes(re.compile(r"(\\(?:u[0-9a-fA-F]{4}|.))"), lambda escape: str(json.loads(f'"{escape}"')))


class View:
    """A text without its escapes, and the way there and back: usually what the detector looks at."""

    def __init__(self, text: str, escapes: Escapes = ALL_LEVELS) -> None:
        parts = escapes.pattern.split(text)
        if len(parts) == 1:
            self.text, self._from, self._to = text, [0], [0]
            return
        shown = parts.copy()
        shown[1::2] = map(escapes.__getitem__, parts[1::2])
        self.text = "".join(shown)
        self._from = [0, *accumulate(map(len, parts))]
        self._to = [0, *accumulate(map(len, shown))]

    def forth(self, place: int) -> int:
        """Where in ``text`` that is which stands at ``place``."""
        part = bisect_right(self._from, place) - 1
        return self._to[part] + (0 if part % 2 else place - self._from[part])

    def back(self, start: int, end: int) -> tuple[int, int]:
        """The span of the text that ``text[start:end]`` of the view comes from; no escape is cut."""
        return self._at(start), self._at(end - 1) + self._width(end - 1)

    def _part(self, place: int) -> int:
        """The part with the character at ``place``: the last that begins there or before, and is not empty."""
        return bisect_right(self._to, place) - 1

    def _at(self, place: int) -> int:
        part = self._part(place)
        inside = 0 if part % 2 else place - self._to[part]
        return self._from[part] + inside

    def _width(self, place: int) -> int:
        part = self._part(place)
        return self._from[part + 1] - self._from[part] if part % 2 else 1
