"""The rules of section 2 of docs/format.md, for one event alone and member by member.

Floor 0, pure. Slow and plain: it says why `event.Event` refuses bytes, and is what the fast patterns there are tested
against.
"""

from __future__ import annotations

import calendar
import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from functools import lru_cache
from typing import Any

from gitjournal.errors import FormatError

VERSION = 1
MAX_SEQ = 99_999_999
MAX_EVENT_BYTES = 16 * 1024 * 1024
MAX_SESSION_BYTES = 200
MAX_TYPE_BYTES = 64
MAX_NUMBER = 2**53
MAX_FILE_BYTES = 1 << 30
#: Side files of one event: with this bound a leaf tree stays small, however hostile its writer is.
MAX_FILES = 1000
#: Strings of this many UTF-8 bytes or more move to a side file (section 4).
SIDE_FILE_BYTES = 64 * 1024

#: Tags that may stand in `data` as the one member of an object (sections 4 and 9).
FILE_TAG = "$gj:file"
REF_TAG = "$gj:ref"
JSON_TAG = "$gj:json"
B64_TAG = "$gj:b64"

REQUIRED = frozenset({"v", "session", "seq", "prev", "epoch", "ts", "type", "actor"})
PAYLOAD = frozenset({"data", "files", "salt"})
KNOWN = REQUIRED | PAYLOAD | {"turn", "data_sha256"}

#: Types that are never withheld, and the code for one that is.
STRUCTURE = {"session.branch": "bad-fork", "session.fork": "bad-fork", "session.seal": "bad-seal"}

_HASH = re.compile(r"[0-9a-f]{64}")
_TYPE = re.compile(r"[a-z][a-z0-9_]*(?:\.[a-z][a-z0-9_]*)*")
_TS = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", re.ASCII)
_PATTERNS = {
    "actor": re.compile(r"[A-Za-z0-9][A-Za-z0-9._:@/+-]{0,99}"),
    "turn": re.compile(r"[A-Za-z0-9_-]{1,64}"),
    # 16 bytes are 22 characters, and the last one carries only two bits: one spelling for each salt.
    "salt": re.compile(r"[A-Za-z0-9_-]{21}[AQgw]"),
    "data_sha256": _HASH,
}
# What is said of a side file: always, and at most.
_DESCRIBED = frozenset({"sha256", "size", "media_type"})
_NAMED = _DESCRIBED | {"name"}
# In canonical JSON: what begins a member named $gj: or a string, and is no plain reference into the first side file.
_NO_REFERENCE = re.compile(rb'"\$gj:(?:(?<!\{"\$gj:)|(?!ref":\[1,"/[^"\\]*"\]\}))')
_MEDIA_TYPE = re.compile(r"[\x20-\x7e]{1,127}")
#: Characters that no id and no name may hold.
CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


@lru_cache(maxsize=256)
def _minute(stamp: str) -> int:
    """Unix seconds of ``YYYY-MM-DDTHH:MM``. Raises ValueError for a minute that does not exist."""
    return calendar.timegm(datetime.strptime(stamp, "%Y-%m-%dT%H:%M").timetuple())


@lru_cache(maxsize=1024)
def unix_seconds(ts: str) -> int:
    """Whole Unix seconds of an event's ``ts``. Raises ValueError for a moment that does not exist."""
    seconds = int(ts[17:19])
    if seconds > 59:
        raise ValueError(ts)
    return _minute(ts[:16]) + seconds


#: What each member must be, as the end of a sentence. In the order in which a broken one is named.
WORDING = {
    "epoch": "is not an integer of 1 or more",
    "session": "is not 1 to 200 bytes of UTF-8 without control characters",
    "prev": "is neither null nor 64 lower-case hex digits",
    "ts": "is not a UTC time YYYY-MM-DDTHH:MM:SS.mmmZ",
    "type": "is not a dotted lower-case name of at most 64 bytes",
    "actor": "is not 1 to 100 of A-Z a-z 0-9 . _ : @ / + -, letter or digit first",
    "turn": "is not 1 to 64 of A-Z a-z 0-9 _ -",
    "salt": "is not 16 bytes as 22 characters of base64url",
    "data_sha256": "is not 64 lower-case hex digits",
}


def check_members(members: Any) -> None:
    """Check one event, alone, against section 2, rule by rule. FormatError names the first broken one and its place.

    The order is that of docs/verification.md section 6, so that all verifiers give the same code.
    """
    if type(members) is not dict:
        raise FormatError("bad-json", "an event is a JSON object")
    version = members.get("v")
    if type(version) is not int or version != VERSION:
        raise FormatError("bad-version", f"version {version!r} is not 1, the one known here", where="/v")
    keys = members.keys()
    if not keys >= REQUIRED:
        raise FormatError("bad-member", f"member {min(REQUIRED - keys)!r} is missing")
    if not keys <= KNOWN:
        raise FormatError("bad-member", f"member {min(keys - KNOWN)!r} is not one that version 1 allows")
    seq = members["seq"]
    if type(seq) is not int or not 1 <= seq <= MAX_SEQ:
        raise FormatError("bad-seq", f"seq {seq!r} is not an integer from 1 to {MAX_SEQ}", where="/seq")
    for name in WORDING:
        if name in keys and not _holds(name, members[name]):
            code = "bad-epoch" if name == "epoch" else "bad-member"
            raise FormatError(code, f"{name} {members[name]!r:.80} {WORDING[name]}", seq=seq, where=f"/{name}")
    _check_payload(members, seq)
    check_place(seq, members["type"], first=members["prev"] is None, withheld="data_sha256" in members)


def _check_payload(members: Mapping[str, Any], seq: int) -> None:
    if "data_sha256" in members:
        if not members.keys().isdisjoint(PAYLOAD):
            raise FormatError("bad-member", "a withheld event has no data, files or salt", seq=seq)
        return
    if type(members.get("data")) is not dict:
        raise FormatError("bad-member", "data is not an object", seq=seq, where="/data")
    if "files" in members:
        check_files(members["files"], seq)
    check_tags(members["data"], len(members.get("files", ())), seq)


def check_place(seq: int, kind: str, *, first: bool, withheld: bool) -> None:
    """The rules between members. ``first``: it has no event before it. FormatError."""
    if (seq == 1) != first:
        raise FormatError("broken-link", "prev must be null at seq 1 and only there", seq=seq, where="/prev")
    if withheld and kind in STRUCTURE:
        # Their payload is the structure of the journal: without it nobody can tell a branch from a forgery.
        raise FormatError(STRUCTURE[kind], f"the payload of {kind} cannot be withheld", seq=seq)
    if (seq == 1) != (kind == "session.start"):
        raise FormatError("bad-fork", "session.start must stand at seq 1 and only there", seq=seq, where="/type")


def _holds(name: str, value: Any) -> bool:
    if name == "prev":
        return value is None or _match(_HASH, value)
    if name == "epoch":
        return type(value) is int and value >= 1
    if name == "session":
        return is_id(value)
    if name == "type":
        return _match(_TYPE, value) and len(value) <= MAX_TYPE_BYTES
    if name == "ts":
        return is_ts(value)
    return _match(_PATTERNS[name], value)


def is_id(value: object) -> bool:
    """Whether a value can be the id of a session or the name of a branch."""
    return type(value) is str and 1 <= len(value.encode()) <= MAX_SESSION_BYTES and not CONTROL.search(value)


def _match(pattern: re.Pattern[str], value: object) -> bool:
    return type(value) is str and pattern.fullmatch(value) is not None


def is_ts(value: object) -> bool:
    """Whether a value can be a ``ts``: the right form, and a moment from 1970 on."""
    return isinstance(value, str) and _match(_TS, value) and is_time(value)


def is_time(ts: str) -> bool:
    """Whether a ``ts`` of the right form is a moment from 1970 on."""
    try:
        # A moment before 1970 is in a minute before it.
        return ts[17:19] < "60" and _minute(ts[:16]) >= 0
    except ValueError:
        return False


def check_files(files: object, seq: int) -> None:
    """Check the list of side files (section 4). FormatError ``bad-member``."""
    if type(files) is not list or not 1 <= len(files) <= MAX_FILES:
        rule = f"files is not a list of 1 to {MAX_FILES} side files"
        raise FormatError("bad-member", rule, seq=seq, where="/files")
    for number, entry in enumerate(files):
        good = (
            type(entry) is dict
            and _DESCRIBED <= entry.keys() <= _NAMED
            and _match(_HASH, entry["sha256"])
            and type(entry["size"]) is int
            and entry["size"] >= 0
            and _match(_MEDIA_TYPE, entry["media_type"])
            and _is_file_name(entry.get("name", "raw"))
        )
        if not good:
            rule = "a side file is {sha256, size, media_type, name?}"
            raise FormatError("bad-member", rule, seq=seq, where=f"/files/{number}")


def _is_file_name(name: object) -> bool:
    return type(name) is str and 1 <= len(name.encode()) <= 255 and not CONTROL.search(name)


def check_tags(data: Mapping[str, Any], count: int, seq: int) -> None:
    """Every member name that begins with ``$gj:`` is one of our tags, alone in its object and well formed.

    ``count`` is how many side files the event has. FormatError ``bad-member``.
    """
    for node in _objects(data):
        for name in node:
            if name.startswith("$gj:") and not (len(node) == 1 and _is_tag(name, node[name], count)):
                raise FormatError("bad-member", f"member {name!r:.80} is not a well-formed $gj: tag", seq=seq)


def only_references(data: bytes) -> bool:
    """Whether every tag in canonical JSON is a plain reference into the first side file, of which there is one.

    Of imported events most are, and `check_tags` need not walk through them.
    """
    return _NO_REFERENCE.search(data) is None


def refuse_tags(data: Mapping[str, Any], seq: int) -> None:
    """Live data may not use the names of our tags: what it means would be read back as something else."""
    for node in _objects(data):
        for name in node:
            if name.startswith("$gj:"):
                text = f"member name {name!r:.80}: names in $gj: are the journal's own"
                raise FormatError("bad-member", text, seq=seq)


def _objects(data: Any) -> Iterator[Mapping[str, Any]]:
    """All objects in a JSON value, itself included."""
    todo = [data]
    while todo:
        node = todo.pop()
        if type(node) is list or type(node) is tuple:
            todo.extend(node)
        elif type(node) is dict:
            yield node
            todo.extend(node.values())


def _is_tag(name: str, value: Any, count: int) -> bool:
    if name == FILE_TAG:
        return type(value) is int and 1 <= value <= count
    if name == REF_TAG:
        return (
            type(value) is list
            and len(value) == 2
            and type(value[0]) is int
            and 1 <= value[0] <= count
            and type(value[1]) is str
            and (value[1] == "" or value[1].startswith("/"))
        )
    return name in (JSON_TAG, B64_TAG) and type(value) is str
