"""Foreign JSON: values that the journal profile cannot hold, in and out of it (docs/format.md section 9).

Floor 0, pure. `wrap` and `wrap_value` make a value that an event can carry, `lenient` reads the text of a wrapped one.

Two parsers read foreign JSON. `json` with hooks is fast and right for what has no repeated or odd names and is not
deep; whatever else it meets goes to `_Slow`, the reference, which keeps its own stack and knows where in the text
each node stands. Both give the same for what the first takes, so the result does not depend on the recursion limit.
"""

from __future__ import annotations

import base64
import json
import math
import re
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

from gitjournal import canonical
from gitjournal.errors import FormatError
from gitjournal.rules import B64_TAG, JSON_TAG

#: Foreign values may nest this deep; of the 64 levels of an event the rest is for what stands around them.
WRAP_DEPTH = 40

#: What nests deeper is not taken for JSON: it is damage, or meant to keep a reader busy.
MAX_LEVELS = 10_000

#: A record of more values is not taken for JSON: in memory each is far larger than its few bytes.
MAX_VALUES = 1_000_000

_LIMIT = 2**53
_INT_DIGITS = 4300  # int() refuses longer texts, and needs quadratic time
_SURROGATE = re.compile("[\ud800-\udfff]")
_LARGE = 1024 * 1024
_SPACE = re.compile(r"[ \t\n\r]*")
# A string, with its end if it has one; or what stands before a value or behind the last one.
_MARK = re.compile(r'"(?:[^"\\]++|\\.)*+("?)|[\[{,\]}]', re.DOTALL)


def wrap(text: str | bytes) -> Any:
    """The value of a foreign JSON text as one that the journal profile can hold.

    Nodes that it cannot hold become ``{"$gj:json": text}``, at the smallest node; a text that is not JSON (or not
    UTF-8) becomes ``{"$gj:b64": ...}`` as a whole. Never raises.
    """
    try:
        decoded = text.decode("utf-8") if isinstance(text, bytes) else text
        value, end = _scan(decoded, skip_space(decoded, 0))
        if skip_space(decoded, end) == len(decoded):
            return value
    except ValueError:
        pass
    raw = text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")
    return {B64_TAG: base64.b64encode(raw).decode("ascii")}


def printed(text: bytes) -> Any:
    """The wrapped value of a JSON text that is printed as most programs do; else `canonical.UNPROVEN`: ask `scan`.

    Takes a third of the time of `scan`, and gives the same.
    """
    if len(text) > MAX_VALUES or (b"$" in text and b'"$gj:' in text):
        return canonical.UNPROVEN
    return canonical.loads_printed(text, WRAP_DEPTH)


def scan(text: str, start: int) -> tuple[Any, int]:
    """The value that begins at ``start`` (no white space before it), wrapped, and where it ends.

    Raises ValueError when no JSON value begins there, or one of more than `MAX_VALUES` values.
    """
    if len(text) - start > MAX_VALUES and count(text, start) > MAX_VALUES:
        raise ValueError(f"more than {MAX_VALUES} values (character {start})")
    return _scan(text, start)


def count(text: str, start: int) -> int:
    """How many values the JSON value at ``start`` holds, at least and about; not counted beyond `MAX_VALUES`."""
    depth = found = 0
    for mark in _MARK.finditer(text, start):
        char = text[mark.start()]
        if char == '"':
            if not mark[1]:
                break
        elif char in "]}":
            depth -= 1
            if depth <= 0:
                break
        else:
            found += 1
            depth += char != ","
            if found > MAX_VALUES:
                break
        if not depth:
            break
    return found


def _scan(text: str, start: int) -> tuple[Any, int]:
    try:
        value, end = _FAST.raw_decode(text, start)
    except (_Odd, RecursionError):
        return _Slow(text, _SCALARS, WRAP_DEPTH).parse(start)
    if _is_plain(value, text, start, end):
        return value, end
    return _Slow(text, _SCALARS, WRAP_DEPTH).parse(start)


def skip_space(text: str, start: int) -> int:
    """The first position from ``start`` on that holds no JSON white space."""
    return _SPACE.match(text, start).end()  # type: ignore[union-attr]


def wrap_value(value: object) -> Any:
    """A Python value as one that the journal profile can hold; the same object when it already is.

    Takes what `json.loads` can give and tuples. FormatError ``bad-json`` for other types, cycles, and more levels
    than `MAX_LEVELS`.
    """
    try:
        if b'"$gj:' not in canonical.dumps(value):
            return value
    except FormatError:
        pass
    try:
        return _scan("".join(_print(value)), 0)[0]
    except ValueError as error:
        raise FormatError("bad-json", str(error)) from None


def lenient(text: str | bytes) -> Any:
    """Parse JSON as widely as it is written: exact big integers, NaN, lone surrogates, any depth, the last of
    repeated names, a byte order mark. Integers of more than 4,300 digits come as Decimal.

    Raises ValueError for what is not JSON even so.
    """
    decoded = text.decode("utf-8", "surrogatepass") if isinstance(text, bytes) else text
    start = skip_space(decoded, decoded.startswith("\ufeff"))
    try:
        value, end = _LENIENT.raw_decode(decoded, start)
    except RecursionError:
        value, end = _Slow(decoded, _LENIENT, None).parse(start)
    if skip_space(decoded, end) != len(decoded):
        raise ValueError(f"something follows the JSON value (character {end})")
    return value


class _Odd(Exception):
    """The fast parser met what only the reference parser can wrap."""


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise _Odd
    return members


def _constant(token: str) -> Any:
    return {JSON_TAG: token}


def _integer(token: str) -> Any:
    # 2^53 has 16 digits; longer tokens are not converted at all.
    if len(token) > 17 or token.startswith("-0") or not -_LIMIT < int(token) < _LIMIT:
        return {JSON_TAG: token}
    return int(token)


def _fraction(token: str) -> Any:
    value = float(token)
    if not -_LIMIT < value < _LIMIT or not _is_exact(token, value):
        return {JSON_TAG: token}
    return int(value) if value.is_integer() else value


def _is_exact(token: str, value: float) -> bool:
    """Whether the shortest text of ``value`` has the value of ``token``: then nothing is rounded."""
    if value == 0:
        return math.copysign(1, value) > 0 and not re.search("[1-9]", re.split("[eE]", token)[0])
    shortest = repr(value)
    return shortest == token or Decimal(token) == Decimal(shortest)


def _any_integer(token: str) -> int | Decimal:
    return int(token) if len(token) < _INT_DIGITS else Decimal(token)


_FAST = json.JSONDecoder(object_pairs_hook=_unique, parse_int=_integer, parse_float=_fraction, parse_constant=_constant)
_SCALARS = json.JSONDecoder(parse_int=_integer, parse_float=_fraction, parse_constant=_constant)
_LENIENT = json.JSONDecoder(parse_int=_any_integer)


def _is_plain(value: Any, text: str, start: int, end: int) -> bool:
    """Whether the fast parser's value needs no wrapping but that of numbers, which it has done."""
    # A lone surrogate comes from an escape (or was in the text), and a name with "$gj:" begins after a quote. Most
    # records hold neither and are shallow, so they are not walked.
    containers = text.count("[", start, end) + text.count("{", start, end)
    plain = containers <= WRAP_DEPTH and text.find('"$', start, end) < 0 and text.find("\\u", start, end) < 0
    return (plain and (text.isascii() or not _has_surrogate(text, start, end))) or _is_clean(value, 1)


def _has_surrogate(text: str, start: int, end: int) -> bool:
    if end - start > _LARGE:
        # Slower, and without a copy.
        return _SURROGATE.search(text, start, end) is not None
    try:
        text[start:end].encode("utf-8")
    except UnicodeEncodeError:
        return True
    return False


def _is_clean(value: Any, level: int) -> bool:
    kind = type(value)
    if kind is str:
        return value.isascii() or not _SURROGATE.search(value)
    if kind is dict:
        # A number that a hook has wrapped stops here as well: the reference wraps it in the same way.
        return level <= WRAP_DEPTH and all(
            not name.startswith("$gj:") and _is_clean(name, level) and _is_clean(item, level + 1)
            for name, item in value.items()
        )
    if kind is list:
        return level <= WRAP_DEPTH and all(_is_clean(item, level + 1) for item in value)
    return True


class _Frame:
    """An array or object that is not closed yet."""

    __slots__ = ("close", "members", "name", "odd", "start")

    def __init__(self, char: str, start: int) -> None:
        self.start = start
        self.close = "]" if char == "[" else "}"
        self.members: Any = [] if char == "[" else {}
        self.name = ""
        self.odd = False

    def add(self, value: Any) -> None:
        if self.close == "]":
            self.members.append(value)
        else:
            self.members[self.name] = value


_OPEN: Any = object()


class _Slow:
    """The reference parser: a stack instead of recursion, scalars by ``scalars``.

    ``depth=None`` reads leniently and wraps nothing; else odd objects and what lies deeper become text.
    """

    def __init__(self, text: str, scalars: json.JSONDecoder, depth: int | None) -> None:
        self._text = text
        self._scalars = scalars
        self._depth = depth
        self._stack: list[_Frame] = []
        # Wrapped nodes whose text is cut out at the end, so that a node in a wrapped node costs nothing.
        self._cuts: list[tuple[dict[str, str], int, int]] = []

    def parse(self, start: int) -> tuple[Any, int]:
        """The value at ``start`` and where it ends; ValueError when there is none."""
        pos = start
        while True:
            char = self._text[pos : pos + 1]
            value, pos = self._open(char, pos) if char in ("[", "{") else self._scalar(pos)
            while value is not _OPEN:
                if not self._stack:
                    self._cut()
                    return value, pos
                value, pos = self._attach(value, pos)

    def _open(self, char: str, start: int) -> tuple[Any, int]:
        if len(self._stack) == MAX_LEVELS:
            raise ValueError(f"nested deeper than {MAX_LEVELS} levels (character {start})")
        frame = _Frame(char, start)
        self._stack.append(frame)
        pos = skip_space(self._text, start + 1)
        if self._text[pos : pos + 1] == frame.close:
            return self._close(pos + 1)
        return _OPEN, self._member(frame, pos)

    def _attach(self, value: Any, pos: int) -> tuple[Any, int]:
        frame = self._stack[-1]
        frame.add(value)
        pos = skip_space(self._text, pos)
        char = self._text[pos : pos + 1]
        if char == frame.close:
            return self._close(pos + 1)
        if char != ",":
            raise ValueError(f"no comma or end of a container (character {pos})")
        return _OPEN, self._member(frame, skip_space(self._text, pos + 1))

    def _member(self, frame: _Frame, pos: int) -> int:
        """Read the name and colon before an object's value; where the value begins."""
        if frame.close == "]":
            return pos
        if self._text[pos : pos + 1] != '"':
            raise ValueError(f"no name (character {pos})")
        frame.name, pos = self._scalars.raw_decode(self._text, pos)
        if frame.name in frame.members or frame.name.startswith("$gj:") or _SURROGATE.search(frame.name):
            frame.odd = True
        pos = skip_space(self._text, pos)
        if self._text[pos : pos + 1] != ":":
            raise ValueError(f"no colon (character {pos})")
        return skip_space(self._text, pos + 1)

    def _close(self, end: int) -> tuple[Any, int]:
        frame = self._stack.pop()
        if self._depth is None or not (frame.odd or len(self._stack) >= self._depth):
            return frame.members, end
        while self._cuts and self._cuts[-1][1] > frame.start:
            self._cuts.pop()
        tag = {JSON_TAG: ""}
        self._cuts.append((tag, frame.start, end))
        return tag, end

    def _scalar(self, pos: int) -> tuple[Any, int]:
        value, end = self._scalars.raw_decode(self._text, pos)
        if self._depth is not None and type(value) is str and _SURROGATE.search(value):
            value = {JSON_TAG: json.dumps(value)}
        return value, end

    def _cut(self) -> None:
        for tag, start, end in self._cuts:
            tag[JSON_TAG] = _SURROGATE.sub(lambda m: f"\\u{ord(m[0]):04x}", self._text[start:end])


# --- Python values to JSON text ------------------------------------------------------------------


class _Piece(str):
    """Finished text among the values that wait to be printed."""

    __slots__ = ()


def _print(value: object) -> Iterator[str]:
    """Pieces of JSON text for a value of any depth, with nothing rounded; the reverse of `lenient`."""
    todo: list[Any] = [value]
    holders: set[int] = set()
    while todo:
        node = todo.pop()
        if type(node) is _Piece:
            yield node
        elif type(node) is _Frame:
            holders.discard(node.start)
            yield node.close
        elif isinstance(node, dict | list | tuple):
            if id(node) in holders:
                raise FormatError("bad-json", "a cycle")
            holders.add(id(node))
            is_object = isinstance(node, dict)
            todo.append(_Frame("{" if is_object else "[", id(node)))
            todo.extend(reversed(_members(node)))
            yield "{" if is_object else "["
        else:
            yield _print_scalar(node)


def _members(node: Any) -> list[Any]:
    """Names, values and commas of a container, in order."""
    out: list[Any] = []
    for item in node:
        out.append(_Piece("," if out else ""))
        if isinstance(node, dict):
            if not isinstance(item, str):
                raise FormatError("bad-json", "an object name that is not a str")
            out.append(_Piece(json.dumps(item) + ":"))
            item = node[item]
        out.append(item)
    return out


def _print_scalar(node: object) -> str:
    if type(node) is int:
        return str(node) if node.bit_length() < 10_000 else str(Decimal(node))
    if type(node) is Decimal:
        return str(node)
    if node is None or type(node) in (bool, str, float):
        return json.dumps(node)
    raise FormatError("bad-json", f"a Python {type(node).__name__}, which is not one of the JSON types")
