"""Events and the git objects that follow from them (docs/format.md sections 2 to 6).

Floor 0: bytes in, bytes out. No I/O, no pygit2. The same `Deriver` writes a journal and verifies one.
Git object ids are 20 raw bytes here; hex only where a person reads them.
"""

from __future__ import annotations

import calendar
import re
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from hashlib import sha1, sha256
from typing import Any, NamedTuple, NoReturn

from gitjournal import canonical
from gitjournal.errors import FormatError

VERSION = 1
MAX_SEQ = 99_999_999
MAX_EVENT_BYTES = 16 * 1024 * 1024
MAX_SESSION_BYTES = 200
MAX_TYPE_BYTES = 64
MAX_NUMBER = 2**53
MAX_FILE_BYTES = 1 << 30
#: Strings of this many UTF-8 bytes or more move to a side file (section 4).
SIDE_FILE_BYTES = 64 * 1024

#: Tags that may stand in `data` as the one member of an object (sections 4 and 9).
FILE_TAG = "$gj:file"
REF_TAG = "$gj:ref"
JSON_TAG = "$gj:json"
B64_TAG = "$gj:b64"

_REQUIRED = frozenset({"v", "session", "seq", "prev", "epoch", "ts", "type", "actor"})
_PAYLOAD = frozenset({"data", "files", "salt"})
_KNOWN = _REQUIRED | _PAYLOAD | {"turn", "data_sha256"}

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
_MEDIA_TYPE = re.compile(r"[\x20-\x7e]{1,127}")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


def git_id(kind: bytes, data: bytes) -> bytes:
    """The SHA-1 object id (20 bytes) that git gives to ``data`` as a ``blob``, ``tree`` or ``commit``."""
    return sha1(b"%s %d\x00%s" % (kind, len(data), data)).digest()


@lru_cache(maxsize=256)
def _minute(stamp: str) -> int:
    """Unix seconds of ``YYYY-MM-DDTHH:MM``. Raises ValueError for a minute that does not exist."""
    return calendar.timegm(datetime.strptime(stamp, "%Y-%m-%dT%H:%M").timetuple())


def unix_seconds(ts: str) -> int:
    """Whole Unix seconds of an event's ``ts``. Raises ValueError for a moment that does not exist."""
    seconds = int(ts[17:19])
    if seconds > 59:
        raise ValueError(ts)
    return _minute(ts[:16]) + seconds


# Canonical bytes have one order of members, so an event is: actor, its payload's first member, and a rest that holds
# no other `,"epoch":` - inside a string the quotes would be escaped, and the members that follow hold no such name.
_FRONT = re.compile(rb'\{"actor":"([A-Za-z0-9][A-Za-z0-9._:@/+-]{0,99})","data(?:":|_sha256":"([0-9a-f]{64})"(?=,"e))')
_REST_AT = b',"epoch":'
_REST = re.compile(
    rb',"epoch":([1-9]\d{0,15})'
    rb'(,"files":\[.+\])?'
    rb'(,"prev":(?:null|"([0-9a-f]{64})"))'
    rb'(,"salt":"[A-Za-z0-9_-]{21}[AQgw]")?'
    rb',"seq":([1-9]\d{0,7})'
    rb',"session":"((?:[^"\\]|\\["\\])+)"'
    rb',"ts":"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z)"'
    rb'(?:,"turn":"([A-Za-z0-9_-]{1,64})")?'
    rb',"type":"([a-z][a-z0-9_]*(?:\.[a-z][a-z0-9_]*)*)","v":1\}'
)


class Event:
    """One immutable event: its canonical bytes and what they say.

    ``raw`` is the stored form, full or withheld. Make one with `parse` (bytes from anywhere), `load` (bytes from a
    journal) or `build` (members).
    """

    __slots__ = ("_data", "_front", "_hash", "_resolve", "_rest", "raw", "seq")

    #: The canonical bytes.
    raw: bytes
    #: Position along the branch, from 1.
    seq: int
    _front: re.Match[bytes]
    _rest: re.Match[bytes]
    _resolve: Callable[[Event], Mapping[str, Any]] | None
    # Set when they are first asked for.
    _data: Mapping[str, Any]
    _hash: str

    def __init__(self, raw: bytes, resolve: Callable[[Event], Mapping[str, Any]] | None = None) -> None:
        """Read canonical bytes that are known to be an event's: those of a journal.

        Checks the form of the header and nothing more; the payload is parsed when it is asked for. ``resolve`` puts
        side files and foreign JSON in their places in `data`. FormatError when the bytes are not an event.
        """
        front = _FRONT.match(raw)
        rest = _REST.fullmatch(raw, raw.rfind(_REST_AT)) if front else None
        if front is None or rest is None:
            raise _why_not(raw)
        put = object.__setattr__
        put(self, "raw", raw)
        put(self, "seq", int(rest[6]))
        put(self, "_front", front)
        put(self, "_rest", rest)
        put(self, "_resolve", resolve)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"Event is immutable, cannot set {name}")

    @classmethod
    def parse(cls, raw: bytes) -> Event:
        """The event in bytes from anywhere. FormatError with the code of the first rule of section 2 that they break."""
        event = cls(raw)
        _check_header(event)
        if not event.withheld:
            event._check_payload()
        return event

    @classmethod
    def build(cls, members: Mapping[str, Any], text: bytes | None = None) -> Event:
        """The event made of ``members``; FormatError when they break a rule of section 2.

        ``text`` is what `canonical.dumps` makes of them, if the caller has it.
        """
        event = cls(canonical.dumps(members) if text is None else text)
        # A name that sorts between `data` and `epoch` is taken for a part of the payload by the pattern.
        if not members.keys() <= _KNOWN or members.keys() >= {"data", "data_sha256"}:
            raise event._refusal()
        _check_header(event)
        if not event.withheld:
            event._check_parts(members["data"])
        return event

    def _check_payload(self) -> None:
        try:
            # Within a list, so that the payload is at level 2, as it is in the event.
            values = canonical.loads_canonical(b"[%s]" % self._data_bytes)
            if self._rest[2]:
                canonical.loads_canonical(self._rest[2][len(b',"files":') :])
        except FormatError:
            raise self._refusal() from None
        # The pattern says where the payload ends, not that it is one value: `{},{}` is two.
        if len(values) != 1:
            raise self._refusal()
        self._check_parts(values[0])
        object.__setattr__(self, "_data", values[0])

    def _refusal(self) -> FormatError:
        error = _why_not(self.raw)
        return error if error.seq == self.seq else FormatError(error.code, str(error), seq=self.seq)

    def _check_parts(self, data: Any) -> None:
        if type(data) is not dict:
            raise FormatError("bad-member", "data is not an object", seq=self.seq, where="/data")
        if self._rest[2]:
            _check_files(self.files, self.seq)
        if b'"$gj:' in self._data_bytes:
            _check_tags(data, len(self.files), self.seq)

    @property
    def session(self) -> str:
        """Id of the session that the event belongs to."""
        return _session(self._rest[7])

    @property
    def prev(self) -> str | None:
        """Event hash of the previous event, 64 hex digits; None at seq 1."""
        return None if self._rest[4] is None else self._rest[4].decode()

    @property
    def epoch(self) -> int:
        """Number of the writer incarnation."""
        return int(self._rest[1])

    @property
    def ts(self) -> str:
        """Wall-clock time as ``YYYY-MM-DDTHH:MM:SS.mmmZ``; for people, never an order."""
        return self._rest[8].decode()

    @property
    def type(self) -> str:
        """For example ``tool.call`` (docs/events.md)."""
        return self._rest[10].decode()

    @property
    def actor(self) -> str:
        """Who acted: ``user``, ``assistant``, ``tool:shell``."""
        return self._front[1].decode()

    @property
    def turn(self) -> str | None:
        """Execution id of the turn, if the writer gave one."""
        return self._rest[9].decode() if self._rest[9] else None

    @property
    def withheld(self) -> bool:
        """True when only the header is here and the payload is not."""
        return self._front[2] is not None

    @property
    def _data_bytes(self) -> bytes:
        return self.raw[self._front.end() : self._rest.start()]

    @property
    def stored_data(self) -> Mapping[str, Any]:
        """The payload as it is stored, tags unresolved; empty for a withheld event. FormatError if it is no JSON."""
        if self.withheld:
            return {}
        try:
            return self._data
        except AttributeError:
            data = canonical.loads(self._data_bytes)
        if type(data) is not dict:
            raise FormatError("bad-member", "data is not an object", seq=self.seq, where="/data")
        object.__setattr__(self, "_data", data)
        return data

    @property
    def data(self) -> Mapping[str, Any]:
        """The payload; empty for a withheld event.

        An event that came from a journal gives the resolved value, side files and foreign JSON in their places.
        """
        return self.stored_data if self._resolve is None else self._resolve(self)

    @property
    def files(self) -> Sequence[Mapping[str, Any]]:
        """Descriptions of the side files; empty when there are none."""
        return canonical.loads(self._rest[2][len(b',"files":') :]) if self._rest[2] else ()

    @property
    def members(self) -> dict[str, Any]:
        """The stored form as a new dict."""
        return canonical.loads(self.raw)  # type: ignore[no-any-return]

    @property
    def hash(self) -> str:
        """The event hash (section 3), 64 lower-case hex digits: SHA-256 of the canonical header. Computed once."""
        try:
            return self._hash
        except AttributeError:
            digest = sha256(self.header).hexdigest()
        object.__setattr__(self, "_hash", digest)
        return digest

    @property
    def header(self) -> bytes:
        """The canonical header: the event with ``data_sha256`` in the place of its payload (section 3)."""
        if self.withheld:
            return self.raw
        rest = self._rest
        body = b'{"data":%s%s%s}' % (self._data_bytes, rest[2] or b"", rest[5] or b"")
        return b'{"actor":"%s","data_sha256":"%s","epoch":%s%s%s' % (
            self._front[1],
            sha256(body).hexdigest().encode(),
            rest[1],
            rest[3],
            self.raw[rest.start(6) - len(b',"seq":') :],
        )

    def withhold(self) -> Event:
        """The same event without its payload: same hash, same place in the chain."""
        return Event(self.header)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Event) and self.raw == other.raw

    def __hash__(self) -> int:
        return hash(self.raw)

    def __repr__(self) -> str:
        return f"<Event {self.session}@{self.seq} {self.type} {self.hash[:12]}>"


@lru_cache(maxsize=1024)
def _session(text: bytes) -> str:
    """The session id behind its JSON text. Raises FormatError ``bad-member``."""
    session = str(canonical.loads_canonical(b'"%s"' % text))
    if len(session.encode()) > MAX_SESSION_BYTES or _CONTROL.search(session):
        raise FormatError("bad-member", f"session {session!a} {_RULES['session']}", where="/session")
    return session


def _check_header(event: Event) -> None:
    """What the patterns do not say: sizes, dates, and the rules of seq 1."""
    if event.withheld and (event._front.end() != event._rest.start() or event._rest[2] or event._rest[5]):
        raise _why_not(event.raw)
    _ = event.session
    seq = event.seq
    if len(event.raw) > MAX_EVENT_BYTES:
        size = len(event.raw)
        raise FormatError("bad-member", f"an event may have {MAX_EVENT_BYTES} bytes, this one has {size}", seq=seq)
    if (seq == 1) != (event.prev is None):
        raise FormatError("broken-link", "prev must be null at seq 1 and only there", seq=seq, where="/prev")
    if event.epoch >= MAX_NUMBER:
        raise FormatError("bad-json", "a number with |x| >= 2^53", seq=seq, where="/epoch")
    if len(event.type) > MAX_TYPE_BYTES:
        raise FormatError("bad-member", f"type {event.type!r} {_RULES['type']}", seq=seq, where="/type")
    if not _is_time(event.ts):
        raise FormatError("bad-member", f"ts {event.ts!r} {_RULES['ts']}", seq=seq, where="/ts")
    if event.withheld and event.type in ("session.branch", "session.fork"):
        # Their payload is the structure of the journal: without it nobody can tell a branch from a forgery.
        raise FormatError("bad-fork", f"the payload of {event.type} cannot be withheld", seq=seq)
    if (seq == 1) != (event.type == "session.start"):
        raise FormatError("bad-fork", "session.start must stand at seq 1 and only there", seq=seq, where="/type")


def _why_not(raw: bytes) -> FormatError:
    """The rule that bytes break which `Event` cannot read."""
    if len(raw) > MAX_EVENT_BYTES:
        return FormatError("bad-member", f"an event may have {MAX_EVENT_BYTES} bytes, this one has {len(raw)}")
    try:
        check_members(canonical.loads_canonical(raw))
    except FormatError as error:
        return error
    # The patterns and `check_members` say the same thing twice; a test compares them.
    return FormatError("bad-member", "the event is not in the form of section 2")


_RULES = {
    "session": "is not 1 to 200 bytes of UTF-8 without control characters",
    "prev": "is neither null nor 64 lower-case hex digits",
    "epoch": "is not an integer of 1 or more",
    "ts": "is not a UTC time YYYY-MM-DDTHH:MM:SS.mmmZ",
    "type": "is not a dotted lower-case name of at most 64 bytes",
    "actor": "is not 1 to 100 of A-Z a-z 0-9 . _ : @ / + -, letter or digit first",
    "turn": "is not 1 to 64 of A-Z a-z 0-9 _ -",
    "salt": "is not 16 bytes as 22 characters of base64url",
    "data_sha256": "is not 64 lower-case hex digits",
}


def check_members(members: Any) -> None:
    """Check one event, alone, against section 2, member by member. FormatError names the code, rule and place.

    Slow and plain: it says why `Event` refuses bytes, and is what the fast patterns are tested against.
    """
    if type(members) is not dict:
        raise FormatError("bad-json", "an event is a JSON object")
    version = members.get("v")
    if type(version) is not int or version != VERSION:
        raise FormatError("bad-version", f"version {version!r} is not 1, the one known here", where="/v")
    keys = members.keys()
    if not keys >= _REQUIRED:
        raise FormatError("bad-member", f"member {min(_REQUIRED - keys)!r} is missing")
    if not keys <= _KNOWN:
        raise FormatError("bad-member", f"member {min(keys - _KNOWN)!r} is not one that version 1 allows")
    seq = members["seq"]
    if type(seq) is not int or not 1 <= seq <= MAX_SEQ:
        raise FormatError("bad-seq", f"seq {seq!r} is not an integer from 1 to {MAX_SEQ}", where="/seq")
    for name in _RULES.keys() & keys:
        if not _holds(name, members[name]):
            code = "bad-epoch" if name == "epoch" else "bad-member"
            raise FormatError(code, f"{name} {members[name]!r} {_RULES[name]}", seq=seq, where=f"/{name}")
    if "data_sha256" in members:
        if not keys.isdisjoint(_PAYLOAD):
            raise FormatError("bad-member", "a withheld event has no data, files or salt", seq=seq)
    elif type(members.get("data")) is not dict:
        raise FormatError("bad-member", "data is not an object", seq=seq, where="/data")
    if "files" in members:
        _check_files(members["files"], seq)


def _holds(name: str, value: Any) -> bool:
    if name == "prev":
        return value is None or _match(_HASH, value)
    if name == "epoch":
        return type(value) is int and value >= 1
    if name == "session":
        return type(value) is str and 1 <= len(value.encode()) <= MAX_SESSION_BYTES and not _CONTROL.search(value)
    if name == "type":
        return _match(_TYPE, value) and len(value) <= MAX_TYPE_BYTES
    if name == "ts":
        return _match(_TS, value) and _is_time(value)
    return _match(_PATTERNS[name], value)


def _match(pattern: re.Pattern[str], value: object) -> bool:
    return type(value) is str and pattern.fullmatch(value) is not None


def _is_time(ts: str) -> bool:
    try:
        return unix_seconds(ts) >= 0
    except ValueError:
        return False


def _check_files(files: object, seq: int) -> None:
    if type(files) is not list or not files:
        raise FormatError("bad-member", "files is not a list of at least one side file", seq=seq, where="/files")
    for number, entry in enumerate(files):
        good = (
            type(entry) is dict
            and {"sha256", "size", "media_type"} <= entry.keys() <= {"sha256", "size", "media_type", "name"}
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
    return type(name) is str and 1 <= len(name.encode()) <= 255 and not _CONTROL.search(name)


def _check_tags(data: Mapping[str, Any], count: int, seq: int) -> None:
    """Every member name that begins with ``$gj:`` is one of our tags, alone in its object and well formed."""
    todo: list[Any] = [data]
    while todo:
        node = todo.pop()
        if type(node) is list or type(node) is tuple:
            todo.extend(node)
        elif type(node) is dict:
            for name in node:
                if name.startswith("$gj:") and not (len(node) == 1 and _is_tag(name, node[name], count)):
                    raise FormatError("bad-member", f"member {name!r} is not a well-formed $gj: tag", seq=seq)
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


class FileBlob(NamedTuple):
    """A side file: its description for the event, its bytes, and its git blob id."""

    entry: dict[str, Any]
    data: bytes
    oid: bytes


def side_file(data: bytes, media_type: str, name: str | None = None) -> FileBlob:
    """Describe ``data`` as a side file (section 4). FormatError ``bad-file`` when it is larger than 1 GiB."""
    if len(data) > MAX_FILE_BYTES:
        raise FormatError("bad-file", f"a side file may have {MAX_FILE_BYTES} bytes, this one has {len(data)}")
    entry: dict[str, Any] = {"sha256": sha256(data).hexdigest(), "size": len(data), "media_type": media_type}
    if name is not None:
        entry["name"] = name
    return FileBlob(entry, data, git_id(b"blob", data))


# --- trees (section 5) ---------------------------------------------------------------------------

LEAF_SPAN = 100
MIDDLE_SPAN = 10_000


def event_path(seq: int) -> str:
    """Path of an event in the commit's tree: ``DDDD/MM/SSSSSSSS.json``."""
    return f"{seq // MIDDLE_SPAN:04d}/{seq // LEAF_SPAN % 100:02d}/{seq:08d}.json"


def root_entry(seq: int) -> bytes:
    """Name of the root tree's entry that leads to ``seq``."""
    return b"%04d" % (seq // MIDDLE_SPAN)


def middle_entry(seq: int) -> bytes:
    """Name of the middle tree's entry that leads to ``seq``."""
    return b"%02d" % (seq // LEAF_SPAN % 100)


def leaf_entry(seq: int) -> bytes:
    """Name of the leaf tree's entry that is the event ``seq``."""
    return b"%08d.json" % seq


def leaf_part(seq: int, blob_id: bytes, file_ids: Sequence[bytes] = ()) -> bytes:
    """The bytes that event ``seq`` adds to its leaf tree: side files in git's name order, then the event."""
    part = b"100644 %08d.json\x00%s" % (seq, blob_id)
    if not file_ids:
        return part
    named = sorted((b"%08d.%d" % (seq, k), oid) for k, oid in enumerate(file_ids, 1))
    return b"".join([b"100644 %s\x00%s" % pair for pair in named]) + part


_LEAF_ENTRY = struct.Struct("7s8s6s20s")


def leaf_events(leaf: bytes) -> Iterator[tuple[int, bytes, Sequence[bytes]]]:
    """(seq, blob id, side file ids) of each event in a leaf tree. FormatError ``bad-tree`` for any other form."""
    if len(leaf) % _LEAF_ENTRY.size == 0:
        entries = list(_LEAF_ENTRY.iter_unpack(leaf))
        if all(mode == b"100644 " and end == b".json\x00" and stem.isdigit() for mode, stem, end, _ in entries):
            for _, stem, _, oid in entries:
                yield int(stem), oid, ()
            return
    files: dict[int, bytes] = {}
    for mode, name, oid in tree_entries(leaf):
        stem, dot, suffix = name.partition(b".")
        if mode != b"100644" or len(stem) != 8 or not stem.isdigit():
            raise FormatError("bad-tree", f"{name!r} is no entry of a leaf tree")
        if suffix == b"json":
            yield int(stem), oid, [files[number] for number in sorted(files)]
            files = {}
        elif suffix.isdigit():
            files[int(suffix)] = oid
        else:
            raise FormatError("bad-tree", f"{name!r} is no entry of a leaf tree")


def tree_entries(tree: bytes) -> Iterator[tuple[bytes, bytes, bytes]]:
    """(mode, name, id) of each entry of a git tree. FormatError ``bad-tree`` when it is cut."""
    at = 0
    while at < len(tree):
        nul = tree.find(b"\x00", at)
        mode, space, name = tree[at:nul].partition(b" ")
        if nul < 0 or not space or nul + 21 > len(tree):
            raise FormatError("bad-tree", "a tree is cut in the middle of an entry")
        yield mode, name, tree[nul + 1 : nul + 21]
        at = nul + 21


# --- commits (section 6) -------------------------------------------------------------------------

_COMMIT = re.compile(
    rb"tree (?P<tree>[0-9a-f]{40})\n"
    rb"(?:parent (?P<parent>[0-9a-f]{40})\n)?"
    rb"author (?P<actor>[A-Za-z0-9][A-Za-z0-9._:@/+-]{0,99}) <(?P=actor)@gitjournal\.invalid> "
    rb"(?P<time>0|[1-9][0-9]{0,11}) \+0000\n"
    rb"committer gitjournal <gitjournal@gitjournal\.invalid> (?P=time) \+0000\n"
    rb"(?:gpgsig (?P<gpgsig>-----BEGIN SSH SIGNATURE-----\n(?: [A-Za-z0-9+/=]+\n)+ -----END SSH SIGNATURE-----)\n)?"
    rb"\n(?P<type>[a-z][a-z0-9_]*(?:\.[a-z][a-z0-9_]*)*) #(?P<seq>[1-9][0-9]{0,7})\n\n"
    rb"Session: (?P<session>[^\n\x00]+)\n"
    rb"Event-Hash: sha256:(?P<hash>[0-9a-f]{64})\n"
)


class Commit(NamedTuple):
    """What a commit of a session says. ``signature`` is the armoured SSHSIG block, or None."""

    tree: bytes
    parent: bytes | None
    time: int
    seq: int
    session: str
    type: str
    event_hash: str
    signature: str | None


def parse_commit(raw: bytes) -> Commit | None:
    """Read a commit in exactly the form of section 6; None when it has any other."""
    match = _COMMIT.fullmatch(raw)
    if match is None:
        return None
    parent, gpgsig = match["parent"], match["gpgsig"]
    try:
        session = match["session"].decode()
    except UnicodeDecodeError:
        return None
    if _CONTROL.search(session) or len(match["session"]) > MAX_SESSION_BYTES or len(match["type"]) > MAX_TYPE_BYTES:
        return None
    return Commit(
        tree=bytes.fromhex(match["tree"].decode()),
        parent=None if parent is None else bytes.fromhex(parent.decode()),
        time=int(match["time"]),
        seq=int(match["seq"]),
        session=session,
        type=match["type"].decode(),
        event_hash=match["hash"].decode(),
        signature=None if gpgsig is None else gpgsig.decode().replace("\n ", "\n"),
    )


def commit_bytes(event: Event, tree: bytes, parent: bytes | None, time: int, signature: str | None = None) -> bytes:
    """The commit of ``event``, byte for byte (section 6). ``time`` is in Unix seconds, already clamped."""
    actor = event.actor
    parent_line = f"parent {parent.hex()}\n" if parent is not None else ""
    gpgsig = "gpgsig " + signature.rstrip("\n").replace("\n", "\n ") + "\n" if signature else ""
    return (
        f"tree {tree.hex()}\n{parent_line}"
        f"author {actor} <{actor}@gitjournal.invalid> {time} +0000\n"
        f"committer gitjournal <gitjournal@gitjournal.invalid> {time} +0000\n"
        f"{gpgsig}\n{event.type} #{event.seq}\n\n"
        f"Session: {event.session}\nEvent-Hash: sha256:{event.hash}\n"
    ).encode()


class Derived(NamedTuple):
    """The git objects of one event: (id, bytes) pairs. ``trees`` is leaf, middle, root."""

    seq: int
    blob: tuple[bytes, bytes]
    trees: tuple[tuple[bytes, bytes], tuple[bytes, bytes], tuple[bytes, bytes]]
    commit: tuple[bytes, bytes]


class Deriver:
    """The running state from which every tree and commit of a branch follows.

    Starts before seq 1, or (`resume`) after a known commit. ``head`` is the id of the newest commit.
    """

    __slots__ = ("_before", "_leaf", "_middle", "_root", "_tree", "head", "seq", "time")

    def __init__(self) -> None:
        self.seq = 0
        self.head: bytes | None = None
        self.time = 0
        self._before: bytes | None = None
        self._tree = b""
        # Leaf: all entries. Middle and root: the entries before the one that still changes.
        self._leaf = b""
        self._middle = b""
        self._root = b""

    @classmethod
    def resume(cls, seq: int, head: bytes, time: int, leaf: bytes, middle: bytes, root: bytes) -> Deriver:
        """Go on after commit ``head`` of event ``seq`` whose trees are given whole."""
        self = cls()
        self.seq, self.head, self.time, self._leaf = seq, head, time, leaf
        self._middle = middle[: -len(b"40000 MM\x00") - 20]
        self._root = root[: -len(b"40000 DDDD\x00") - 20]
        return self

    def copy(self) -> Deriver:
        """An independent deriver in the same state."""
        twin = Deriver()
        for name in self.__slots__:
            setattr(twin, name, getattr(self, name))
        return twin

    def sign(self, event: Event, signature: str) -> tuple[bytes, bytes]:
        """Give the commit of ``event``, pushed last, an armoured SSHSIG; its new (id, bytes)."""
        commit = commit_bytes(event, self._tree, self._before, self.time, signature)
        self.head = git_id(b"commit", commit)
        return self.head, commit

    def push(self, event: Event, file_ids: Sequence[bytes] = (), blob_id: bytes | None = None) -> Derived:
        """Derive the objects of the next event. The caller has checked that it is the next one.

        ``blob_id`` is the git id of the event's bytes, if the caller has computed it.
        """
        seq = event.seq
        blob_id = blob_id or git_id(b"blob", event.raw)
        self._turn_page(seq)
        self._leaf += leaf_part(seq, blob_id, file_ids)
        leaf_id = git_id(b"tree", self._leaf)
        middle = b"%s40000 %s\x00%s" % (self._middle, middle_entry(seq), leaf_id)
        middle_id = git_id(b"tree", middle)
        root = b"%s40000 %s\x00%s" % (self._root, root_entry(seq), middle_id)
        root_id = self._tree = git_id(b"tree", root)
        self.time = max(self.time, unix_seconds(event.ts))
        commit = commit_bytes(event, root_id, self.head, self.time)
        self._before, self.head = self.head, git_id(b"commit", commit)
        self.seq = seq
        trees = ((leaf_id, self._leaf), (middle_id, middle), (root_id, root))
        return Derived(seq, (blob_id, event.raw), trees, (self.head, commit))

    def _turn_page(self, seq: int) -> None:
        """Close the leaf (and middle) tree that the previous event filled."""
        if seq % LEAF_SPAN or not self._leaf:
            return
        before = seq - 1
        self._middle += b"40000 %s\x00%s" % (middle_entry(before), git_id(b"tree", self._leaf))
        self._leaf = b""
        if seq % MIDDLE_SPAN == 0:
            self._root += b"40000 %s\x00%s" % (root_entry(before), git_id(b"tree", self._middle))
            self._middle = b""
