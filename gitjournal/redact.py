"""Secrets in one record, found and replaced before it is hashed (docs/secrets.md).

Floor 0, pure. A record is a JSON text or any other text. JSON spells one secret in many ways (``\\u0041``, ``\\/``,
a JSON text in a string of a JSON text), so escapes of all levels are taken out first, the detector looks at that,
and what it found is replaced where it stands in the record. No other byte changes.
"""

from __future__ import annotations

import hmac
import json
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from gitjournal import canonical, detect, foreign
from gitjournal.errors import Refused, UsageError
from gitjournal.escapes import ONE_LEVEL, View

if TYPE_CHECKING:
    from collections.abc import Mapping

T = TypeVar("T")

#: The member of an event's data that says what was replaced in it (docs/events.md).
REDACTIONS = "redactions"

_IDS = """
id uuid type role name model kind status subtype version cwd path uri url mime_type media_type modality parentUuid
leafUuid logicalParentUuid sessionId session session_id parentId parent_id messageId message_id requestId request_id
response_id responseId thread_id turn_id agentId agent_id call_id callId tool_call_id toolCallId tool_use_id toolUseID
toolUseId parentToolUseID sourceToolAssistantUUID item_id file_id trace_id span_id traceId spanId parentSpanId commit
commit_hash hash sha sha1 sha256 sha512 md5 digest checksum integrity etag fingerprint gitBranch branch ref timestamp
ts prev key_id
"""
#: Members that say what or where something is. Their values are left alone as long as they are one word that, without
#: what stands around it, is no secret; a token that is one by its own form is replaced here too.
IDS = frozenset(_IDS.split())
#: Members whose values are opaque to everybody but the program that wrote them. Nothing in them is replaced while they
#: are long base64: a changed byte would make them useless, and random text looks like anything. Short ones are treated
#: as those of `IDS`, because much is called ``data``.
OPAQUE = frozenset(
    {"signature", "thoughtSignature", "thought_signature", "encrypted_content", "encryptedContent", "data"}
)

# A string with the colon after it, if it is a name; or a bracket.
_TOKEN = re.compile(r'"((?:[^"\\]++|\\.)*+)"(\s*+:)?|[{}\[\]]', re.DOTALL)
_NAME_BEFORE = re.compile(r'"([^"]{1,64})"\s*:\s*\[?\s*"(?=[^"]*\Z)')
_WORD = re.compile(r"[\w.:/+=@%~,#?&-]*", re.ASCII)
_BASE64 = re.compile(r"[A-Za-z0-9+/_=\\-]*")
# From so many characters on base64 is longer than any credential.
_OPAQUE_FROM = 256
_LOOK_BACK = 400
# After so many rounds the strings that are still not clean are replaced whole.
_ROUNDS = 5
_DEPTH = 6


class Hit(NamedTuple):
    """A secret that was found: by which rule, where (a JSON Pointer; "" in a text), 8 digits of its keyed hash."""

    rule: str
    at: str
    digest: str


class Place(NamedTuple):
    """A secret in a text: ``text[start:end]``, what it says without escapes, and the string that it stands in."""

    start: int
    end: int
    rule: str
    secret: str
    at: str
    #: Where the content of the JSON string begins and ends, or the text does.
    inside: tuple[int, int]


def places(text: str, more: str = "", *, names: bool = False) -> list[Place]:
    """The secrets of a record that can be replaced, in order; with ``names`` also those that are names of members.

    `detect.Missing`.
    """
    view = View(text)
    found = [one for one in detect.find(view.text, more) if not _kept(view.text, one, more)]
    if not found:
        return []
    if is_json(text):
        spans = [(*view.back(one.start, one.end), one.rule) for one in found]
        return list(_clipped(text, spans, more, names=names))
    whole = (0, len(text))
    return [Place(*view.back(one.start, one.end), one.rule, view.text[one.start : one.end], "", whole) for one in found]


def suspected(text: str, more: str = "") -> list[tuple[int, int]]:
    """Where the detector sees something in a text, in order: there is all that `places` finds in it, or in one of its
    lines, and what is none when one looks closer. `detect.Missing`.
    """
    view = View(text)
    return [view.back(one.start, one.end) for one in detect.find(view.text, more)]


def is_json(text: str) -> bool:
    """Whether a text is one JSON value that can hold strings of its own."""
    body = text.lstrip("\ufeff \t\r\n")
    if body[:1] not in ("{", "[", '"'):
        return False
    try:
        json.loads(body)
    except RecursionError:
        return _is_deep_json(body)
    except ValueError:
        return False
    return True


def _is_deep_json(body: str) -> bool:
    try:
        _, end = foreign.scan(body, 0)
    except ValueError:
        return False
    return foreign.skip_space(body, end) == len(body)


# Start, end and rule of a finding in the text itself.
_Span = tuple[int, int, str]


class Redactor:
    """Replaces secrets by marks. ``key`` is the journal's own, and equal secrets have equal marks under one key.

    ``allow`` has rules, and digests of single values, that are left alone; ``more`` are rules of the user's own
    (`detect.check`).
    """

    def __init__(self, key: bytes, allow: frozenset[str] = frozenset(), more: str = "") -> None:
        self._key = key
        self._allow = allow
        self._more = more

    def digest(self, secret: str) -> str:
        """8 hex digits that stand for a secret: who has not the key cannot try what it may have been."""
        return hmac.digest(self._key, secret.encode("utf-8", "surrogatepass"), "sha256").hex()[:8]

    def look(self, text: str, *, names: bool = False) -> list[tuple[Place, Hit]]:
        """The secrets of a record that are not allowed, each with its hit; with ``names`` those in names as well.

        Names are never replaced, so the pointer of a hit can hold a secret: there its mark stands.
        """
        found = ((place, self.digest(place.secret)) for place in places(text, self._more, names=names))
        return [
            (place, Hit(place.rule, self.text(place.at)[0] if place.at else "", digest))
            for place, digest in found
            if self._allow.isdisjoint((place.rule, digest))
        ]

    def record(self, raw: bytes) -> tuple[bytes, list[Hit]]:
        """A record with its secrets replaced, and what they were; ``raw`` itself when there is none.

        JSON stays JSON of the same structure; a second look finds nothing. `detect.Missing`, Refused.
        """
        text, hits = self.text(raw.decode("utf-8", "surrogateescape"))
        return (text.encode("utf-8", "surrogateescape"), hits) if hits else (raw, hits)

    def text(self, text: str) -> tuple[str, list[Hit]]:
        """The same for a record as text."""
        hits: dict[Hit, None] = {}
        for turn in range(_ROUNDS):
            found = self.look(text)
            if not found:
                return text, list(hits)
            hits.update((hit, None) for _, hit in found)
            text = _replaced(text, found, whole=turn >= _ROUNDS - 2)
        raise Refused("a record has a secret that cannot be taken out", hint="Keep it out of the journal, or allow it.")

    def value(self, data: T) -> tuple[T, list[Hit]]:
        """The same for a JSON value in memory; ``data`` itself when it holds none. FormatError for what is no JSON."""
        raw, hits = self.record(canonical.dumps(data))
        return (canonical.loads(raw), hits) if hits else (data, hits)

    def noted(self, data: Mapping[str, Any]) -> Mapping[str, Any]:
        """The data of an event with its secrets replaced and noted; ``data`` itself when it holds none.

        What is no object stays as it is, for no event can hold it. FormatError for what is no JSON, UsageError when
        the place of the note is taken.
        """
        clean, hits = self.value(data)
        if not hits or not isinstance(clean, dict):
            return data
        before = data.get(REDACTIONS, [])
        if not isinstance(before, list):
            raise UsageError(f"{REDACTIONS} in the data of an event says what was redacted, and here it is no list")
        return {**clean, REDACTIONS: [*before, *note(hits)]}


def note(hits: list[Hit]) -> list[dict[str, str]]:
    """Hits as the member ``redactions`` of an event's data."""
    return [hit._asdict() for hit in hits]


def mark(hit: Hit) -> str:
    """What stands in the place of the secret. It needs no escaping at any level."""
    return f"[redacted:{hit.rule}:{hit.digest}]"


# --- what is left alone --------------------------------------------------------------------------


def _kept(view: str, one: detect.Found, more: str) -> bool:
    """Whether a finding stands in a member that is not to be touched; here also of JSON that is a part of a text."""
    before = _NAME_BEFORE.search(view, max(0, one.start - _LOOK_BACK), one.start)
    return before is not None and _untouched(before[1], view, before.end(), more)


def _untouched(name: str, text: str, start: int, more: str) -> bool:
    """Whether the value of a member, which begins at ``start`` and ends at a quote, is to stay as it is."""
    form = _BASE64 if name in OPAQUE else _WORD if name in IDS else None
    match = form.match(text, start) if form else None
    if match is None or text[match.end() : match.end() + 1] not in ('"', ""):
        return False
    if name in OPAQUE and len(match[0]) >= _OPAQUE_FROM:
        return True
    return not detect.find(match[0], more)


# --- JSON ----------------------------------------------------------------------------------------


def _clipped(text: str, spans: list[_Span], more: str, *, names: bool, depth: int = 0) -> Iterator[Place]:
    """Findings cut to the values that they stand in; what is outside of strings is left."""
    past = 0
    for value in _values(text, spans, names=names):
        while past < len(spans) and spans[past][1] <= value.start:
            past += 1
        inside: list[_Span] = []
        at = past
        while at < len(spans) and spans[at][0] < value.end:
            start, end, rule = spans[at]
            inside.append((max(start, value.start), min(end, value.end), rule))
            at += 1
        if inside and not _untouched(value.name, text, value.start, more):
            yield from _in_value(text, value, inside, more, names=names, depth=depth)


def _in_value(text: str, value: _Value, spans: list[_Span], more: str, *, names: bool, depth: int) -> Iterator[Place]:
    """Findings in one string. If that is a JSON text, they are cut to its values too."""
    whole = value.start, value.end
    if depth < _DEPTH and text[value.start] in "{[":
        level = View(text[value.start : value.end], ONE_LEVEL)
        if is_json(level.text):
            moved = [(level.forth(start - whole[0]), level.forth(end - whole[0]), rule) for start, end, rule in spans]
            for place in _clipped(level.text, moved, more, names=names, depth=depth + 1):
                start, end = level.back(place.start, place.end)
                yield place._replace(start=whole[0] + start, end=whole[0] + end, at=value.at, inside=whole)
            return
    for start, end, rule in spans:
        secret = View(text[start:end]).text
        if detect.has_secret(secret):
            yield Place(start, end, rule, secret, value.at, whole)


class _Value(NamedTuple):
    """Where the content of a string is, and the name of the member that it is a value of.

    Of the name of a member itself: no name, and the place of the object.
    """

    start: int
    end: int
    name: str
    at: str


@dataclass(slots=True)
class _Container:
    """A JSON container that is open: the step to it, and what comes next in it, an index or a name."""

    step: str | int
    next: str | int


def _values(text: str, spans: list[_Span], *, names: bool) -> Iterator[_Value]:
    """The strings that are values, or names too, and that the spans, which are in order, touch."""
    inside = [_Container("", "")]
    past = number = 0
    for token in _TOKEN.finditer(text):
        start, end = token.span()
        while number < len(spans) and spans[number][1] <= start:
            number += 1
        if number == len(spans):
            return
        here = inside[-1]
        if isinstance(here.next, int):
            here.next += text.count(",", past, start)
        past = end
        if token[0] in ("{", "["):
            inside.append(_Container(here.next, "" if token[0] == "{" else 0))
        elif token[1] is None:
            del inside[max(1, len(inside) - 1) :]
        elif token[2] is not None:
            here.next = token[1]
            if names and spans[number][0] < end:
                yield _Value(start + 1, start + 1 + len(token[1]), "", _pointer([one.step for one in inside[2:]]))
        elif spans[number][0] < end:
            steps = [*(one.step for one in inside[2:]), here.next] if len(inside) > 1 else []
            yield _Value(start + 1, end - 1, _last_name(steps), _pointer(steps))


def _last_name(steps: list[str | int]) -> str:
    return next((step for step in reversed(steps) if isinstance(step, str)), "")


def _pointer(steps: list[str | int]) -> str:
    return "".join("/" + _step(step) for step in steps)


def _step(step: str | int) -> str:
    """A step as one of a JSON Pointer; a name is given as it is spelled."""
    if isinstance(step, str):
        with suppress(ValueError):
            step = json.loads(f'"{step}"', strict=False)
    return str(step).replace("~", "~0").replace("/", "~1")


# --- replacing -----------------------------------------------------------------------------------


def _replaced(text: str, found: list[tuple[Place, Hit]], *, whole: bool) -> str:
    """The text with each secret replaced. A string of JSON that would not be JSON any more is replaced whole."""
    pieces: list[str] = []
    past = 0
    for (low, high), group in _by_string(found):
        fresh = mark(group[0][1]) if whole else _within(text, group, low, high)
        if not whole and high - low < len(text) and not _same_shape(text[low:high], fresh):
            fresh = mark(group[0][1])
        pieces += (text[past:low], fresh)
        past = high
    return "".join([*pieces, text[past:]])


def _by_string(found: list[tuple[Place, Hit]]) -> Iterator[tuple[tuple[int, int], list[tuple[Place, Hit]]]]:
    group: list[tuple[Place, Hit]] = []
    for pair in found:
        if group and group[0][0].inside != pair[0].inside:
            yield group[0][0].inside, group
            group = []
        group.append(pair)
    yield group[0][0].inside, group


def _within(text: str, group: list[tuple[Place, Hit]], low: int, high: int) -> str:
    pieces: list[str] = []
    for place, hit in group:
        pieces += (text[low : place.start], mark(hit))
        low = place.end
    return "".join([*pieces, text[low:high]])


def _same_shape(old: str, new: str) -> bool:
    """Whether the content of a string, if it is JSON, is still JSON of the same structure."""
    try:
        before, after = (json.loads(f'"{one}"', strict=False) for one in (old, new))
    except ValueError:
        return False
    return _alike(before, after, _DEPTH + 1)


def _alike(before: Any, after: Any, depth: int) -> bool:
    """Whether two values have the same members and types, JSON in strings included."""
    if type(before) is not type(after):
        return False
    if isinstance(before, dict):
        return list(before) == list(after) and all(_alike(item, after[name], depth) for name, item in before.items())
    if isinstance(before, list):
        return len(before) == len(after) and all(map(_alike, before, after, [depth] * len(before)))
    if not isinstance(before, str) or before == after or depth == 0 or before.lstrip()[:1] not in ("{", "["):
        return True
    try:
        inner = json.loads(before)
    except (ValueError, RecursionError):
        return True
    try:
        return _alike(inner, json.loads(after), depth - 1)
    except (ValueError, RecursionError):
        return False
