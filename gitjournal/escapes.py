"""A text without the escapes of JSON, and the way back to where each character stands in it.

Floor 0, pure. JSON spells one text in many ways, and a JSON text in a string of a JSON text in more.
"""

from __future__ import annotations

import json
import re
from array import array
from bisect import bisect_right
from collections.abc import Callable
from itertools import accumulate

# What a JSON text escapes, at any level, and what a terminal does not show: colours and control characters. That it
# begins with one set of characters makes the search ten times as fast.
# Runs of newlines and tabs and of control characters are one piece each, because files have millions of them.
_ESCAPE = re.compile(
    r"""([\\\x00-\x08\x0b\x0c\x0e-\x1f\x7f]
    (?:(?<=\\)(?:[nrt](?:\\[nrt])*+|\\*(?:u005[cC]\\*)*(?:["'/nrt]|u001[bB]\[[0-9;?]*[A-Za-z]|u[0-9a-fA-F]{4})?)
    |(?<=\x1b)\[[0-9;?]*[A-Za-z]
    |(?<!\\)[\x00-\x08\x0b\x0c\x0e-\x1a\x1c-\x1f\x7f]*+))""",
    re.VERBOSE,
)
_PLAIN = {"n": "\n", "r": "\r", "t": "\t"}
# So many escapes are taken out at once, and so many of one kind are remembered, no longer than this: a text can be
# nothing but escapes.
_AT_ONCE = 1 << 17
_MOST_KNOWN = 1 << 16
_LONGEST_KNOWN = 64


class Escapes(dict[str, str]):
    """What each escape of one kind stands for; usual ones are worked out once."""

    def __init__(self, pattern: re.Pattern[str], shown: Callable[[str], str]) -> None:
        super().__init__()
        self.pattern = pattern
        self._shown = shown

    def __missing__(self, escape: str) -> str:
        shown = self._shown(escape)
        if len(escape) <= _LONGEST_KNOWN and len(self) < _MOST_KNOWN:
            self[escape] = shown
        return shown


def _shown(escape: str) -> str:
    if escape[0] != "\\" or "[" in escape:
        return ""
    last = escape[-1]
    if escape[1:2] in _PLAIN:
        return "".join(map(_PLAIN.__getitem__, escape[1::2]))
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
        # Where each part begins, in the text and in the view; each second part is an escape.
        self._from, self._to = array("Q", [0]), array("Q", [0])
        pieces: list[str] = []
        more = True
        while more:
            parts = escapes.pattern.split(text, _AT_ONCE)
            if more := len(parts) > 2 * _AT_ONCE:
                text = parts.pop()
            shown = parts.copy()
            shown[1::2] = map(escapes.__getitem__, parts[1::2])
            for places, found in ((self._from, parts), (self._to, shown)):
                places.extend(accumulate(map(len, found), initial=places.pop()))
            pieces.append("".join(shown))
        self.text = "".join(pieces)

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
