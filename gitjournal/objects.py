"""The git objects that follow from events (docs/format.md sections 4 to 6).

Floor 0: bytes in, bytes out. No I/O, no pygit2. The same `Deriver` writes a journal and verifies one.
Git object ids are 20 raw bytes here; hex only where a person reads them.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Iterator, Sequence
from hashlib import sha1, sha256
from itertools import repeat
from typing import Any, NamedTuple, Protocol

from gitjournal import rules
from gitjournal.errors import FormatError

#: Largest size of an event's blob, and the code for a larger one (docs/verification.md section 4).
EVENT_LIMIT = (rules.MAX_EVENT_BYTES, "bad-member")


def git_id(kind: bytes, data: bytes) -> bytes:
    """The SHA-1 object id (20 bytes) that git gives to ``data`` as a ``blob``, ``tree`` or ``commit``."""
    return sha1(b"%s %d\x00%s" % (kind, len(data), data)).digest()


class FileBlob(NamedTuple):
    """A side file: its description for the event, its bytes, and its git blob id."""

    entry: dict[str, Any]
    data: bytes
    oid: bytes


def side_file(data: bytes, media_type: str, name: str | None = None) -> FileBlob:
    """Describe ``data`` as a side file (section 4). FormatError ``bad-file`` when it is larger than 1 GiB."""
    if len(data) > rules.MAX_FILE_BYTES:
        raise FormatError("bad-file", f"a side file may have {rules.MAX_FILE_BYTES} bytes, this one has {len(data)}")
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
    if len(file_ids) == 1:
        return b"100644 %08d.1\x00%s%s" % (seq, file_ids[0], part)
    named = file_ids.numbered if isinstance(file_ids, Gap) else enumerate(file_ids, 1)
    entries = sorted((b"%08d.%d" % (seq, k), oid) for k, oid in named)
    return b"".join([b"100644 %s\x00%s" % pair for pair in entries]) + part


class Gap(list[bytes]):
    """Ids of side files whose numbers have a gap: nobody's, so that the first one is an id that there is not.

    ``numbered`` are those of the tree with the numbers that they have there: trees are derived with them all the same.
    """

    def __init__(self, numbered: Iterable[tuple[int, bytes]]) -> None:
        self.numbered = sorted(numbered)
        super().__init__([b"", *(oid for _, oid in self.numbered)])


_LEAF_NAME = re.compile(rb"([0-9]{8})\.(?:json|([1-9][0-9]{0,8}))")
_LEAF_ENTRY = struct.Struct("7s8s6s20s")


def leaf_events(leaf: bytes) -> Iterator[tuple[int, bytes, Sequence[bytes]]]:
    """(seq, blob id, side file ids) of each event in a leaf tree. FormatError ``bad-tree`` for any other form."""
    if len(leaf) % _LEAF_ENTRY.size == 0:
        modes, stems, ends, oids = zip(*_LEAF_ENTRY.iter_unpack(leaf), strict=True) if leaf else ((),) * 4
        if {*modes} <= {b"100644 "} and {*ends} <= {b".json\x00"} and b"".join(stems).isdigit():
            yield from zip(map(int, stems), oids, repeat(()))
            return
    events: dict[bytes, bytes] = {}
    files: dict[bytes, dict[int, bytes]] = {}
    for mode, name, oid in tree_entries(leaf):
        entry = _LEAF_NAME.fullmatch(name)
        if mode != b"100644" or entry is None:
            raise FormatError("bad-tree", f"{name!r} is no entry of a leaf tree")
        there = files.setdefault(entry[1], {}) if entry[2] else events
        key: Any = int(entry[2]) if entry[2] else entry[1]
        if key in there:
            raise FormatError("bad-tree", f"{name!r} is in a leaf tree twice")
        there[key] = oid
    for stem, oid in events.items():
        own = files.get(stem, {})
        is_whole = len(own) == max(own, default=0)
        yield int(stem), oid, [own[number] for number in sorted(own)] if is_whole else Gap(own.items())


def tree_entries(tree: bytes) -> Iterator[tuple[bytes, bytes, bytes]]:
    """(mode, name, id) of each entry of a git tree. FormatError ``bad-tree`` when it is cut.

    Also when an entry has no mode or no name.
    """
    at = 0
    while at < len(tree):
        nul = tree.find(b"\x00", at)
        mode, _, name = tree[at:nul].partition(b" ")
        if nul < 0 or nul + 21 > len(tree):
            raise FormatError("bad-tree", "a tree is cut in the middle of an entry")
        if not mode or not name:
            raise FormatError("bad-tree", "an entry of a tree has no mode or no name")
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


class Told(Protocol):
    """What an event says of the objects that follow from it."""

    @property
    def seq(self) -> int:
        """Position along the branch."""

    @property
    def raw(self) -> bytes:
        """The canonical bytes; nobody looks at them who gives the git id of them."""

    @property
    def session(self) -> str:
        """Id of its session."""

    @property
    def ts(self) -> str:
        """Wall-clock time."""

    @property
    def type(self) -> str:
        """What kind of event it is."""

    @property
    def actor(self) -> str:
        """Who acted."""

    @property
    def hash(self) -> str:
        """The event hash, hex."""


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
    too_long = len(match["session"]) > rules.MAX_SESSION_BYTES or len(match["type"]) > rules.MAX_TYPE_BYTES
    if too_long or rules.CONTROL.search(session):
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


def commit_bytes(event: Told, tree: bytes, parent: bytes | None, time: int, signature: str | None = None) -> bytes:
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

    __slots__ = ("_before", "_leaf", "_middle", "_open", "_root", "_tree", "head", "seq", "time")

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
        # The middle and root tree of the page, without the id that ends each.
        self._open: tuple[_OpenTree, _OpenTree] | None = None

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

    def sign(self, event: Told, signature: str) -> tuple[bytes, bytes]:
        """Give the commit of ``event``, pushed last, an armoured SSHSIG; its new (id, bytes)."""
        commit = commit_bytes(event, self._tree, self._before, self.time, signature)
        self.head = git_id(b"commit", commit)
        return self.head, commit

    def push(self, event: Told, file_ids: Sequence[bytes] = (), blob_id: bytes | None = None) -> Derived:
        """Derive the objects of the next event. The caller has checked that it is the next one.

        ``blob_id`` is the git id of the event's bytes, if the caller has computed it.
        """
        seq = event.seq
        blob_id = blob_id or git_id(b"blob", event.raw)
        if self._open is None or seq % LEAF_SPAN == 0:
            self._open = self._turn_page(seq)
        self._leaf += leaf_part(seq, blob_id, file_ids)
        leaf = git_id(b"tree", self._leaf), self._leaf
        middle = self._open[0].ending_in(leaf[0])
        root = self._open[1].ending_in(middle[0])
        self._tree = root[0]
        self.time = max(self.time, rules.unix_seconds(event.ts))
        commit = commit_bytes(event, root[0], self.head, self.time)
        self._before, self.head = self.head, git_id(b"commit", commit)
        self.seq = seq
        return Derived(seq, (blob_id, event.raw), (leaf, middle, root), (self.head, commit))

    def _turn_page(self, seq: int) -> tuple[_OpenTree, _OpenTree]:
        """Close the leaf (and middle) tree that the previous event filled, and begin those of ``seq``."""
        before = seq - 1
        if self._leaf and seq % LEAF_SPAN == 0:
            self._middle += b"40000 %s\x00%s" % (middle_entry(before), git_id(b"tree", self._leaf))
            self._leaf = b""
            if seq % MIDDLE_SPAN == 0:
                self._root += b"40000 %s\x00%s" % (root_entry(before), git_id(b"tree", self._middle))
                self._middle = b""
        return _OpenTree(self._middle, middle_entry(seq)), _OpenTree(self._root, root_entry(seq))


class _OpenTree:
    """An upper tree of which only the last id still changes, with each event of a page: the rest is hashed once."""

    __slots__ = ("_begin", "_hash")

    def __init__(self, closed: bytes, name: bytes) -> None:
        self._begin = b"%s40000 %s\x00" % (closed, name)
        self._hash = sha1(b"tree %d\x00%s" % (len(self._begin) + 20, self._begin))

    def ending_in(self, oid: bytes) -> tuple[bytes, bytes]:
        """(id, content) of the tree whose last entry leads to ``oid``."""
        tree_hash = self._hash.copy()
        tree_hash.update(oid)
        return tree_hash.digest(), self._begin + oid
