"""Canonical JSON: RFC 8785 (JCS) over the journal profile of docs/format.md section 2.

Pure: bytes in, bytes out. May import the standard library, orjson, rfc8785 and ``gitjournal.errors``.

There are two printers. rfc8785 is the reference: slow and always right. orjson is 15 to 50 times faster and
prints the same bytes for most values, so it is used where equality follows from what it was given:

- Every node has one of the eight exact types, so no Enum, UUID, dataclass or Fragment reaches orjson. The
  scan comes *before* the printing, as orjson (3.10 to 3.13) crashes if the ``value`` of an Enum raises.
- Strings and escapes are the same in both. orjson refuses lone surrogates, names that are not exact str,
  and (``OPT_STRICT_INTEGER``) integers from 2^53 on.
- Floats are the same if they have a fraction and abs(x) >= 1e-5. Any other float goes to the reference.
- Both sort names; orjson by code point, RFC 8785 by UTF-16 unit. The orders differ only if a name has a
  character above U+FFFF. Values with such names go to the reference.

Whatever orjson does not print is walked by `_check`, which names the broken rule and its place, and is then
printed by the reference. ``FAST`` is false if orjson is absent or fails the known answers at import.
"""

from __future__ import annotations

import json
from math import isfinite
from typing import Any, NoReturn

from gitjournal.errors import FormatError

try:
    import orjson
except ImportError:  # no wheel for this platform, perhaps: the reference does everything then
    orjson = None  # type: ignore[assignment,unused-ignore]

MAX_DEPTH = 64
#: What `loads_printed` gives when it cannot tell.
UNPROVEN: Any = object()
_LIMIT = 2**53

_TOO_DEEP = f"nesting deeper than {MAX_DEPTH} levels"


def dumps(value: object) -> bytes:
    """The canonical bytes of a value (RFC 8785), without a final newline.

    Takes exactly dict, list, tuple (printed as an array), str, int, float, bool and None; subclasses such as
    IntEnum or OrderedDict are refused, because what they print as is up to their class. A float that is
    integral prints as an integer: ``1.0`` gives ``1`` (section 3.2.2.3).

    Raises FormatError ``bad-json`` for: another type, a name that is not a str, a lone surrogate, a number
    with |x| >= 2^53, NaN, an infinity, negative zero, a cycle, nesting deeper than 64. ``where`` is a JSON
    Pointer (RFC 6901).
    """
    try:
        text = _dumps_fast(value) if FAST else None
        if text is None:
            _check(value, [], [])
            text = _dumps_reference(value)
    except RecursionError:  # _check stops at MAX_DEPTH, so it is the caller's stack that is nearly full
        raise FormatError("bad-json", "nesting too deep for the rest of the stack") from None
    return text


def jcs(value: object) -> bytes:
    """RFC 8785 of a JSON value, without the narrower rules of the journal profile: what other programs hash.

    Raises ValueError for what RFC 8785 has no form for.
    """
    return _dumps_reference(value)


def loads(data: bytes) -> Any:
    """The value of a strict I-JSON text (RFC 7493); white space and the order of names are free.

    Raises FormatError ``bad-json`` for all that `dumps` refuses, and for text that is not JSON, is empty, is
    not UTF-8, begins with a byte order mark, has something after the value, or repeats a name in an object.
    The message gives the byte offset, or ``where`` the JSON Pointer. A fraction that a double cannot hold
    exactly is rounded, as RFC 7493 section 2.2 lets it be.
    """
    if FAST and type(data) is bytes:
        value = _loads_fast(data, _AS_IS)
        if value is not UNPROVEN:
            return value
    return _loads_strict(data)


def loads_canonical(data: bytes) -> Any:
    """The value of a text that is exactly what `dumps` prints for it.

    Raises FormatError ``bad-json`` as `loads` does, ``not-canonical`` if the text keeps the rules but is
    not in its canonical form.
    """
    if FAST and type(data) is bytes:
        value = _loads_fast(data, _SORTED)
        if value is not UNPROVEN:
            return value
    value = _loads_strict(data)
    canonical = dumps(value)
    if canonical != data:
        raise FormatError("not-canonical", _first_difference(data, canonical))
    return value


def loads_printed(data: bytes, depth: int) -> Any:
    """The value of a text that is printed as orjson and ``JSON.stringify`` print it, nested ``depth`` levels at most.

    It is then what every strict parser reads in it, with nothing rounded. `UNPROVEN` for any other text, be it JSON
    or not: quick, and no judgement.
    """
    return _loads_fast(data, _AS_IS, MAX_DEPTH - depth) if FAST else UNPROVEN


# The fast path


_SORTED = orjson.OPT_STRICT_INTEGER | orjson.OPT_SORT_KEYS if orjson else 0
_AS_IS = orjson.OPT_STRICT_INTEGER if orjson else 0


def _dumps_fast(value: object) -> bytes | None:
    """orjson's text if it is certainly the canonical one, else None."""
    if not _is_plain((value,), 0):
        return None
    try:
        text = orjson.dumps(value, option=_SORTED)
    except TypeError:
        # A big integer, a lone surrogate or a name that is no str; _check will say which. Nothing is raised
        # from here, as orjson may set a str as the cause of its error (issue 402), which breaks tracebacks.
        return None
    return None if _may_hold_astral(text) and _has_astral_name(value) else text


def _loads_fast(data: bytes, option: int, level: int = 0) -> Any:
    """The value, at ``level``, if orjson prints it as the same bytes again, else UNPROVEN.

    Equal bytes prove that names are unique, nothing is escaped or spaced in another way, text is valid UTF-8
    and integers are below 2^53, as orjson would have printed anything else otherwise, or refused it.
    """
    try:
        value = orjson.loads(data)
        if orjson.dumps(value, option=option) != data:
            return UNPROVEN
        kind = type(value)
        # Containers at once: one call less for each text.
        items, depth = (value.values(), 1) if kind is dict else (value, 1) if kind is list else ((value,), 0)
        if not _is_plain(items, level + depth):
            return UNPROVEN
        # Names above U+FFFF are sorted in another way, and no order is asked for where names may stand as they are.
        if option == _SORTED and _may_hold_astral(data) and _has_astral_name(value):
            return UNPROVEN
    except (ValueError, TypeError, RecursionError):
        return UNPROVEN
    return value


def _is_plain(items: Any, depth: int) -> bool:
    """Whether all nodes have exact types, floats are in the window where orjson is right, and depth is legal.

    ``items`` are the members of a container at ``depth``. A cycle ends at the depth limit. Types are compared
    with ``is`` here and in `_check`, as ``in`` and ``==`` would run code of the type's metaclass.
    """
    for item in items:
        kind = type(item)
        if kind is str or kind is int or kind is bool or item is None:
            continue
        if kind is dict:
            if depth == MAX_DEPTH or not _is_plain(item.values(), depth + 1):
                return False
        elif kind is list or kind is tuple:
            if depth == MAX_DEPTH or not _is_plain(item, depth + 1):
                return False
        elif kind is not float or item.is_integer() or not 1e-5 <= abs(item) < _LIMIT:
            return False
    return True


def _may_hold_astral(text: bytes) -> bool:
    """Whether UTF-8 text has a character above U+FFFF: those begin with the bytes F0 to F4."""
    return not text.isascii() and any(lead in text for lead in (b"\xf0", b"\xf1", b"\xf2", b"\xf3", b"\xf4"))


def _has_astral_name(value: Any) -> bool:
    """Whether an object in the value has a name with a character above U+FFFF."""
    if isinstance(value, dict):
        return any(not n.isascii() and max(n) > "\uffff" for n in value) or any(map(_has_astral_name, value.values()))
    return isinstance(value, (list, tuple)) and any(map(_has_astral_name, value))


# The reference


def _dumps_reference(value: object) -> bytes:
    """The canonical bytes of a value that _check has passed."""
    import rfc8785  # here, because a start of the command line seldom needs it

    return rfc8785.dumps(value)  # type: ignore[arg-type]


def _check(value: Any, path: list[str | int], holders: list[int]) -> None:
    """Refuses a value that the profile does not hold.

    ``path`` leads to the value; ``holders`` are the ids of the containers around it. Values are never printed
    in messages: they may be huge, or of a class whose repr raises.
    """
    kind = type(value)
    if kind is dict or kind is list or kind is tuple:
        _check_container(value, path, holders)
    elif kind is str:
        if not _is_unicode(value):
            _refuse("a lone surrogate", path)
    elif kind is int or kind is float:
        _check_number(value, path)
    elif kind is _Repeated:
        _refuse("a repeated object name", [*path, value.name])
    elif value is not None and kind is not bool:
        _refuse(f"a Python {kind.__name__}, which is not one of the exact JSON types", path)


def _check_container(value: Any, path: list[str | int], holders: list[int]) -> None:
    if id(value) in holders:
        _refuse("a cycle", path)
    if len(holders) == MAX_DEPTH:
        _refuse(_TOO_DEEP, path)
    holders.append(id(value))
    is_object = type(value) is dict
    for name, item in value.items() if is_object else enumerate(value):
        if is_object and type(name) is not str:
            _refuse("an object name that is not an exact str", path)
        path.append(name)
        if is_object and not _is_unicode(str(name)):
            _refuse("a lone surrogate in an object name", path)
        _check(item, path, holders)
        path.pop()
    holders.pop()


def _check_number(value: float, path: list[str | int]) -> None:
    if isinstance(value, float) and not isfinite(value):
        _refuse("NaN or an infinity", path)
    if not -_LIMIT < value < _LIMIT:
        _refuse("a number with |x| >= 2^53", path)
    if value == 0 and str(value) == "-0.0":
        _refuse("negative zero", path)


def _is_unicode(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _refuse(rule: str, path: list[str | int]) -> NoReturn:
    """Raises bad-json, the path as JSON Pointer. Surrogates in it become escapes, so that it can be shown."""
    pointer = "".join("/" + str(step).replace("~", "~0").replace("/", "~1") for step in path)
    raise FormatError("bad-json", rule, where=pointer.encode("utf-8", "backslashreplace").decode("utf-8"))


# The strict parser: json's, with hooks that keep what it would lose. What a hook returns for a broken rule is
# something that _check refuses, so that the refusal comes with a pointer.


_GONE = object()


class _Repeated:
    """Stands in for an object that has the same name twice."""

    def __init__(self, name: str) -> None:
        self.name = name


def _loads_strict(data: bytes) -> Any:
    text = _decode(data)
    try:
        value = _DECODER.decode(text)
        _check(value, [], [])
    except json.JSONDecodeError as error:
        offset = len(text[: error.pos].encode("utf-8"))
        raise FormatError("bad-json", f"not JSON: {error.msg} (byte {offset})") from None
    except RecursionError:
        raise FormatError("bad-json", _TOO_DEEP) from None
    return value


def _decode(data: bytes) -> str:
    if not isinstance(data, bytes):
        raise FormatError("bad-json", f"JSON text must be bytes, not {type(data).__name__}")
    if not data:
        raise FormatError("bad-json", "empty text")
    if data.startswith(b"\xef\xbb\xbf"):
        raise FormatError("bad-json", "a byte order mark (byte 0)")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise FormatError("bad-json", f"invalid UTF-8 (byte {error.start})") from None


def _object(pairs: list[tuple[str, object]]) -> dict[str, object] | _Repeated:
    members = dict(pairs)
    if len(members) == len(pairs):
        return members
    repeated = next(name for name, _ in pairs if members.pop(name, _GONE) is _GONE)
    return _Repeated(repeated)


def _integer(text: str) -> float:
    if text == "-0":
        return -0.0
    # 2^53 has 16 digits. Longer ones are not converted: int() raises ValueError for thousands of digits.
    return int(text) if len(text) <= 17 else _LIMIT


def _fraction(text: str) -> float:
    """A float, never an infinity: 1e400 breaks the rule on size. -1e-400 gives -0.0, which is refused."""
    value = float(text)
    return value if abs(value) < _LIMIT else float(_LIMIT)


_DECODER = json.JSONDecoder(object_pairs_hook=_object, parse_int=_integer, parse_float=_fraction, parse_constant=float)


def _first_difference(data: bytes, canonical: bytes) -> str:
    pairs = enumerate(zip(data, canonical, strict=False))
    offset = next((i for i, (a, b) in pairs if a != b), min(len(data), len(canonical)))
    return f"not the canonical form (first difference: byte {offset})"


# Known answers

_KNOWN_VALUE: list[Any] = [
    "".join(map(chr, range(0x20))) + '"\\/\x7f\x80\u2028\uffff\U0010ffff',
    dict.fromkeys(("\ue000", "é", "aa", "a", "", "9", "10")),
    [1e-5, -0.1, 1 / 3, 4503599627370495.5, True, 2**53 - 1, 1 - 2**53],
]
_KNOWN_TEXT = (
    rb'["\u0000\u0001\u0002\u0003\u0004\u0005\u0006\u0007\b\t\n\u000b\f\r\u000e\u000f\u0010\u0011\u0012\u0013\u0014'
    rb"\u0015\u0016\u0017\u0018\u0019\u001a\u001b\u001c\u001d\u001e\u001f\"\\/"
    + '\x7f\x80\u2028\uffff\U0010ffff",'.encode()
    + '{"":null,"10":null,"9":null,"a":null,"aa":null,"é":null,"\ue000":null},'.encode()
    + b"[0.00001,-0.1,0.3333333333333333,4503599627370495.5,true,9007199254740991,-9007199254740991]]"
)
_LEFT_TO_THE_REFERENCE: list[Any] = [
    *(2**53, -(2**53), 10**400, "\ud800", {"\ud800": 1}, {1: 1}, {"\U00010000": 1}),
    *(0.0, -0.0, 1.0, 1e15, 1e16, 1e21, 1e-6, 1e-7, float("nan"), float("inf")),
]


def _known_answers() -> bool:
    """Whether this orjson prints what the proof counts on. An upgrade that does not costs speed, not bytes.

    The first line's forms are never used, but show a change of the float printer, as in orjson 3.11.7.
    """
    try:
        odd_forms = orjson.dumps([1.0, -0.0, 1e15, 1e16, 1e21, 1e-6, 1e-7])
        return (
            odd_forms == b"[1.0,-0.0,1000000000000000.0,1e+16,1e+21,1e-6,1e-7]"
            and _dumps_fast(_KNOWN_VALUE) == _KNOWN_TEXT
            and _loads_fast(_KNOWN_TEXT, _SORTED) == _KNOWN_VALUE
            and not any(_dumps_fast(value) for value in _LEFT_TO_THE_REFERENCE)
        )
    except Exception:  # whatever a broken orjson raises, the reference is there
        return False


FAST: bool = orjson is not None and _known_answers()
