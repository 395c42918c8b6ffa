"""Payloads of events: side files and references (docs/format.md sections 4 and 9).

Floor 0, pure. `extract` moves what is big or binary out of live data, `refer` makes the view of a foreign record point
into its raw bytes, and `resolve` gives the values back. Foreign JSON itself is the business of `gitjournal.foreign`,
whose functions are offered here as well.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from gitjournal.errors import FormatError, NotFound
from gitjournal.foreign import lenient, wrap, wrap_value
from gitjournal.objects import FileBlob, side_file
from gitjournal.rules import B64_TAG, FILE_TAG, JSON_TAG, REF_TAG, SIDE_FILE_BYTES

__all__ = ["TEXT", "extract", "lenient", "refer", "resolve", "wrap", "wrap_value", "wrappers"]

#: Strings of this many UTF-8 bytes or more become references to the raw record.
REF_BYTES = 256
#: Media type of a long string's side file. A blob part's file has any other, so `resolve` can tell them apart.
TEXT = "text/plain; charset=utf-8"

_MEDIA_TYPE = re.compile(r"[\x20-\x7e]{1,127}")
_TEXTUAL = re.compile(r"text/|application/(?:[\w.+-]+\+)?(?:json|xml|yaml|toml|javascript)\b", re.ASCII | re.IGNORECASE)
_INDEX = re.compile(r"0|[1-9][0-9]{0,9}", re.ASCII)
_MAX_DEPTH = 64
# A character has at most four bytes.
_MAY_MOVE = SIDE_FILE_BYTES // 4

Load = Callable[[int], bytes]
Data = Mapping[str, Any]


# --- live data to side files and back ------------------------------------------------------------


def extract(data: Data, text: bytes | None = None) -> tuple[Data, list[FileBlob]]:
    """Live data with strings of 64 KiB or more, and base64 in ``blob`` parts, moved to side files.

    ``text`` may be the canonical bytes of ``data`` or of its event; most events are then done after one look at them.
    Returns ``data`` itself and no files when there is nothing to move. Never raises: what an event cannot hold is
    left for `canonical.dumps` to name.
    """
    if text is not None and not may_be_moved(text):
        return data, []
    if not _may_move(data, 1):
        return data, []
    files: list[FileBlob] = []
    moved = _extract(data, files, 1)
    return (moved, files) if files else (data, files)


def may_be_moved(text: bytes) -> bool:
    """Whether there can be something to move in data of which ``text`` is the canonical form."""
    return len(text) >= SIDE_FILE_BYTES or b'"type":"blob"' in text


def _may_move(node: Any, level: int) -> bool:
    """Whether a container holds a string that can be long enough, or a blob part. Quick, as every append asks."""
    if type(node) is dict:
        if node.get("type") == "blob":
            return True
        node = node.values()
    for item in node:
        kind = type(item)
        if kind is str:
            if len(item) >= _MAY_MOVE:
                return True
        elif (kind is dict or kind is list or kind is tuple) and level <= _MAX_DEPTH and _may_move(item, level + 1):
            return True
    return False


def _extract(node: Any, files: list[FileBlob], level: int) -> Any:
    """``node`` with side files taken out; the same object when there were none."""
    kind = type(node)
    if kind is str:
        return _extract_text(node, files) if len(node) >= _MAY_MOVE else node
    if level > _MAX_DEPTH or kind not in (dict, list, tuple):
        return node
    if kind is dict and node.get("type") == "blob" and type(node.get("content")) is str:
        return _extract_blob(node, files, level)
    before = len(files)
    if kind is dict:
        new: Any = {name: _extract(item, files, level + 1) for name, item in node.items()}
    else:
        new = [_extract(item, files, level + 1) for item in node]
    return node if len(files) == before else new


def _extract_text(text: str, files: list[FileBlob]) -> Any:
    try:
        raw = text.encode("utf-8")
    except UnicodeEncodeError:
        return text
    if len(raw) < SIDE_FILE_BYTES:
        return text
    files.append(side_file(raw, TEXT))
    return {FILE_TAG: len(files)}


def _extract_blob(part: dict[str, Any], files: list[FileBlob], level: int) -> dict[str, Any]:
    try:
        raw = base64.b64decode(part["content"], validate=True)
    except (binascii.Error, ValueError):
        raw = b""
    # Only the one base64 text that decoding and encoding gives back may move; others stay strings.
    if base64.b64encode(raw).decode("ascii") != part["content"]:
        return {name: _extract(item, files, level + 1) for name, item in part.items()}
    files.append(side_file(raw, _blob_type(part.get("mime_type"))))
    place = {FILE_TAG: len(files)}
    rest = ((name, _extract(item, files, level + 1)) for name, item in part.items() if name != "content")
    return {**dict(rest), "content": place}


def _blob_type(mime: object) -> str:
    if type(mime) is not str or not _MEDIA_TYPE.fullmatch(mime):
        return "application/octet-stream"
    return "text/plain" if mime == TEXT else mime


def resolve(data: Any, files: Sequence[Data], load: Load) -> Any:
    """The values that stored ``data`` stands for; ``files`` describes the side files, ``load(k)`` gives the bytes of k.

    ``$gj:file`` gives str for textual media types that hold UTF-8, base64 text as the ``content`` of a ``blob`` part,
    else bytes; ``$gj:ref`` the string it points at; ``$gj:json`` what `lenient` reads; ``$gj:b64`` bytes.

    Raises FormatError ``bad-file`` for a tag that points at nothing; errors of ``load`` pass, except NotFound and
    LookupError, which are that.
    """
    return _Resolver(files, load).value(data)


class _Resolver:
    """One event's side files, each loaded and parsed at most once."""

    def __init__(self, files: Sequence[Data], load: Load) -> None:
        self._files = files
        self._load = load
        self._raw: dict[int, bytes] = {}
        self._parsed: dict[int, Any] = {}

    def value(self, node: Any) -> Any:
        if type(node) is list:
            return [self.value(item) for item in node]
        if type(node) is not dict:
            return node
        if _is_tag(node):
            return self._tag(*next(iter(node.items())))
        if node.get("type") == "blob" and type(content := node.get("content")) is dict and FILE_TAG in content:
            return {name: self._blob(item) if name == "content" else self.value(item) for name, item in node.items()}
        return {name: self.value(item) for name, item in node.items()}

    def _tag(self, tag: str, value: Any) -> Any:
        try:
            if tag == FILE_TAG:
                return self._file(value)
            if tag == REF_TAG:
                return self._referred(value[0], value[1])
            return lenient(value) if tag == JSON_TAG else base64.b64decode(value, validate=True)
        except (ValueError, TypeError) as error:
            raise FormatError("bad-file", f"the tag {tag} cannot be resolved: {error}") from None

    def _file(self, k: int) -> str | bytes:
        raw = self._bytes(k)
        if _TEXTUAL.match(self._files[k - 1]["media_type"]):
            try:
                return raw.decode("utf-8")
            except UnicodeDecodeError:
                pass
        return raw

    def _blob(self, content: dict[str, Any]) -> str | bytes:
        k = content[FILE_TAG]
        raw = self._bytes(k)
        return self._file(k) if self._files[k - 1]["media_type"] == TEXT else base64.b64encode(raw).decode("ascii")

    def _bytes(self, k: int) -> bytes:
        if not 1 <= k <= len(self._files):
            raise FormatError("bad-file", f"the event has no side file {k}")
        if k not in self._raw:
            try:
                self._raw[k] = self._load(k)
            except (NotFound, LookupError):
                raise FormatError("bad-file", f"side file {k} is not there") from None
        return self._raw[k]

    def _referred(self, k: int, pointer: str) -> str:
        if k not in self._parsed:
            self._parsed[k] = lenient(self._bytes(k))
        node = self._parsed[k]
        for step in pointer.split("/")[1:]:
            node = _step(node, step.replace("~1", "/").replace("~0", "~"))
        if type(node) is not str:
            raise FormatError("bad-file", f"no string stands at {pointer!a} in side file {k}")
        return node


def _step(node: Any, name: str) -> Any:
    """One step of a JSON Pointer (RFC 6901); None when it leads nowhere."""
    if type(node) is dict:
        return node.get(name)
    if type(node) is list and _INDEX.fullmatch(name) and int(name) < len(node):
        return node[int(name)]
    return None


def _is_tag(node: dict[str, Any]) -> bool:
    return len(node) == 1 and next(iter(node)).startswith("$gj:")


# --- references ----------------------------------------------------------------------------------


def refer(value: Any, raw_value: Any, k: int, limit: int = REF_BYTES) -> Any:
    """``value`` with each long string that occurs in the record ``raw_value`` as a reference into side file ``k``.

    Both are wrapped values. Long means ``limit`` UTF-8 bytes or more; of equal strings the first in document order is
    taken. A wrapped string (lone surrogates) counts as well.
    """
    around = [value]
    wanted: set[str | tuple[str]] = set()
    holders: set[int] = set()
    if not _find(around, limit, wanted, holders):
        return value
    places: dict[str | tuple[str], list[str | int]] = {}
    _collect(raw_value, [], limit, wanted, places)
    return _replace(around, k, limit, places, holders)[0] if places else value


def _key(node: Any, limit: int) -> str | tuple[str] | None:
    """What a long string, plain or wrapped, is looked up by; None for anything else."""
    if type(node) is str:
        return node if len(node) >= limit or (not node.isascii() and _size(node) >= limit) else None
    if type(node) is dict and len(node) == 1 and type(text := node.get(JSON_TAG)) is str:
        # In a tuple, not to be taken for the plain string of the same text.
        return (text,) if len(text) >= limit and text.startswith('"') else None
    return None


def _size(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))


def _find(node: Any, limit: int, wanted: set[str | tuple[str]], holders: set[int]) -> bool:
    """Note the long strings in a container, and the ids of the containers that hold one; whether this one does."""
    holds = False
    for item in node.values() if type(node) is dict else node:
        kind = type(item)
        if kind is str:
            # Most are short, and a character has four bytes at most.
            if 4 * len(item) >= limit and (key := _key(item, limit)) is not None:
                wanted.add(key)
                holds = True
        elif kind is list:
            holds |= _find(item, limit, wanted, holders)
        elif kind is dict:
            if len(item) != 1 or not _is_tag(item):
                holds |= _find(item, limit, wanted, holders)
            elif (key := _key(item, limit)) is not None:
                wanted.add(key)
                holds = True
    if holds:
        holders.add(id(node))
    return holds


def _collect(
    node: Any,
    path: list[str | int],
    limit: int,
    wanted: set[str | tuple[str]],
    places: dict[str | tuple[str], list[str | int]],
) -> None:
    """Note the first place of each string that is wanted, in a container; ``path`` leads to the container."""
    for step, item in node.items() if type(node) is dict else enumerate(node) if type(node) is list else ():
        kind = type(item)
        if kind is str:
            if 4 * len(item) >= limit and item in wanted and item not in places:
                places[item] = [*path, step]
        elif kind is dict or kind is list:
            if kind is list or len(item) != 1 or not _is_tag(item):
                path.append(step)
                _collect(item, path, limit, wanted, places)
                path.pop()
            elif (key := _key(item, limit)) in wanted and key not in places:
                places[key] = [*path, step]
        if len(places) == len(wanted):
            return


def _pointer(path: list[str | int]) -> str:
    text = "/" + "/".join(map(str, path))
    if "~" not in text and text.count("/") == len(path):
        return text
    return "".join("/" + str(step).replace("~", "~0").replace("/", "~1") for step in path)


def _replace(node: Any, k: int, limit: int, places: dict[str | tuple[str], list[str | int]], holders: set[int]) -> Any:
    """A copy of a container in ``holders``, with references; containers without a long string are the same ones."""
    new = node.copy()
    for step, item in node.items() if type(node) is dict else enumerate(node):
        kind = type(item)
        if kind is str or (kind is dict and len(item) == 1):
            key = item if kind is str else _key(item, limit)
            if key in places:
                new[step] = {REF_TAG: [k, _pointer(places[key])]}
                continue
        if (kind is dict or kind is list) and id(item) in holders:
            new[step] = _replace(item, k, limit, places, holders)
    return new


def wrappers(value: Any) -> int:
    """How many ``$gj:json`` and ``$gj:b64`` tags stand in ``value``, an array or object."""
    if type(value) is dict:
        if len(value) == 1 and (JSON_TAG in value or B64_TAG in value):
            return 1
        value = value.values()
    found = 0
    for item in value:
        if type(item) is dict or type(item) is list:
            found += wrappers(item)
    return found
