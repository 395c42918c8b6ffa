"""Write a journal's packs anew, as one pack in which what is alike is stored as differences.

Floor 1. git looks for deltas by name and size; here it is known what is like what: an event is like the one before of
its type, so is the record that it was imported from, a commit is like the one before it, and a tree is the beginning
of a newer one. No object is left out, reachable or not, so nothing that a writer or a tail relies on can go. The new
pack is complete and was read back before an old one is removed.
"""

from __future__ import annotations

import re
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from operator import itemgetter
from pathlib import Path
from typing import NamedTuple

from gitjournal import pack, tiers
from gitjournal.errors import VerificationError, disk_errors
from gitjournal.likeness import describe
from gitjournal.objects import git_id
from gitjournal.packread import BadPack, Pack

#: So many earlier objects of a kind are tried as the base of one, and so many deltas stand on each other at most:
#: git allows 4095, but each one has to be read.
_WINDOW = 4
# A tree is the beginning of the newest one of its page, a commit is like any other.
_WINDOWS = {b"tree": 2, b"commit": 1}
_DEPTH = 16
# Larger objects are stored whole: what they say is mostly not what others say.
_MOST = 512 * 1024
_LEAST = 64
# A tree that is not the beginning of another one but for so many bytes is a newer one: others will be of it.
_MOST_REST = 127
_KINDS = {b"commit": pack.COMMIT, b"tree": pack.TREE, b"blob": pack.BLOB}
# What is alike: events and records by their type; other blobs by how they begin.
_EVENT = re.compile(rb'"type":"([a-z._]+)","v":1\}\Z')
_RECORD = re.compile(rb'"type":\s?"([A-Za-z_.-]{1,40})"')
_FOREIGN = (".keep", ".promisor", ".mtimes")

Progress = Callable[[int, int], None]


class Saved(NamedTuple):
    """Bytes of the packs with their indexes, before and after; objects in the new one."""

    before: int
    after: int
    objects: int


def repack(folder: Path, lock: Path, progress: Progress | None = None) -> Saved | None:
    """Join the packs in ``folder`` (``objects/pack``) into one; None when another process is at it, or there is none.

    ``lock`` keeps two processes from it. Packs with a ``.keep``, those of a partial clone and cruft stay as they are.
    Raises StorageError; VerificationError for an object that cannot be read or is not what its id says, and then
    nothing has changed.
    """
    with disk_errors(f"repack {folder}"), tiers.only_one(lock) as alone:
        packs = _ours(folder) if alone else []
        if not packs:
            return None
        before = sum(map(_size, packs))
        written = _Writing(packs, progress)
        made = pack.publish(folder, written.count, written.fill, keep=None, sync=True)
        old = [one.path for one in packs if one.path != made]
        try:
            _check(made)
        except BaseException:
            if len(old) == len(packs):
                _remove(made)
            raise
        for path in old:
            _remove(path)
        return Saved(before, _size(Pack(made)), written.count)


def _remove(path: Path) -> None:
    """Remove a pack: the index first, so that nothing finds the pack and then not its bytes."""
    for suffix in (".idx", ".rev", ".bitmap", ".pack"):
        with suppress(FileNotFoundError):
            path.with_suffix(suffix).unlink()


def _size(one: Pack) -> int:
    files = (one.path.with_suffix(suffix) for suffix in (".pack", ".idx", ".rev", ".bitmap"))
    return sum(path.stat().st_size for path in files if path.exists())


def _ours(folder: Path) -> list[Pack]:
    """The packs that may be joined, oldest first."""
    listed = tiers.listed(folder)
    found = []
    for path in sorted(folder.glob("pack-*.pack"), key=lambda path: (path.stat().st_mtime_ns, path.name)):
        foreign = any(path.with_suffix(suffix).exists() for suffix in _FOREIGN)
        index = path.with_suffix(".idx")
        if not foreign and index.exists() and index.name.encode() not in listed:
            try:
                found.append(Pack(path))
            except BadPack as error:
                raise VerificationError("bad-object", f"{path}: {error}") from None
    return found


class _Base(NamedTuple):
    """An object that others can be deltas of."""

    content: bytes
    offset: int
    depth: int


class _Writing:
    """The new pack on its way: each object once, in the order in which they stand in the old ones."""

    def __init__(self, packs: list[Pack], progress: Progress | None) -> None:
        self._packs = packs
        self._progress = progress
        self._ids = {oid for one in packs for oid, _, _ in one.entries()}
        self.count = len(self._ids)
        self._bases: dict[tuple[bytes, bytes], deque[_Base]] = {}

    def fill(self, out: pack.Out) -> Iterable[pack.Entry]:
        """Write all objects; the lines of the index in id order. VerificationError."""
        left = self._ids
        done = 0
        for one in self._packs:
            for oid, _, offset in sorted(one.entries(), key=itemgetter(2)):
                if oid not in left:
                    continue
                left.remove(oid)
                kind, content = _read(one, oid, offset)
                out.add(oid, self._entry(kind, content, out.offset))
                done += 1
                if self._progress and done % 1000 == 0:
                    self._progress(done, self.count)
        return sorted(out.entries, key=itemgetter(0))

    def _entry(self, kind: bytes, content: bytes, offset: int) -> bytes:
        whole = pack.entry_header(_KINDS[kind], len(content)) + zlib.compress(content, 9)
        if not _LEAST <= len(content) <= _MOST:
            return whole
        bases = self._bases.setdefault(_group(kind, content), deque(maxlen=_WINDOWS.get(kind, _WINDOW)))
        best, depth = whole, 0
        for base in reversed(bases):
            if base.depth < _DEPTH and (delta := _delta(kind, content, base.content)) is not None:
                head = pack.entry_header(pack.OFS_DELTA, len(delta)) + pack.offset_header(offset - base.offset)
                entry = head + zlib.compress(delta, 9)
                if len(entry) < len(best):
                    best, depth = entry, base.depth + 1
        if kind != b"tree" or best is whole:
            # Trees come newest first, and all older ones of a page are the beginning of that one.
            bases.append(_Base(content, offset, depth))
        return best


def _read(one: Pack, oid: bytes, offset: int) -> tuple[bytes, bytes]:
    try:
        kind, content = one.read_at(offset)
    except BadPack as error:
        raise VerificationError("bad-object", f"object {oid.hex()} cannot be read: {error}", oid=oid.hex()) from None
    if git_id(kind, content) != oid:
        raise VerificationError("bad-object", f"object {oid.hex()} is not what its id says", oid=oid.hex())
    return kind, content


def _group(kind: bytes, content: bytes) -> tuple[bytes, bytes]:
    """What an object is like."""
    if kind == b"tree":
        # Leaf, middle and root trees begin with another mode, and the upper ones have longer or shorter names.
        return kind, content[:9]
    if kind == b"commit":
        return kind, b""
    found = _EVENT.search(content, max(0, len(content) - 120))
    if found:
        return b"event", found[1]
    found = _RECORD.search(content)
    return kind, found[1] if found else content[:12]


def _delta(kind: bytes, ours: bytes, theirs: bytes) -> bytes | None:
    """``ours`` as a delta of ``theirs``; None when they have nothing in common."""
    made = _Delta(len(theirs), len(ours))
    if kind == b"tree":
        same = _common(ours, theirs)
        if len(ours) - same > _MOST_REST:
            return None
        made.copy(0, same)
        made.text(ours[same:])
    else:
        describe(made, ours, theirs, 0, b" " if kind == b"commit" else b'"')
    return made.whole()


def _common(one: bytes, other: bytes) -> int:
    """How many first bytes two texts share."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if one[:middle] == other[:middle] else (low, middle - 1)
    return low


class _Delta:
    """A delta as git writes it (gitformat-pack)."""

    def __init__(self, base: int, size: int) -> None:
        self._out = bytearray(pack.varint(base) + pack.varint(size))
        self._text = bytearray()
        self._at = self._copied = 0

    def copy(self, at: int, size: int) -> None:
        if not size:
            return
        if self._copied and at == self._at + self._copied:
            self._copied += size
            return
        self._flush()
        self._at, self._copied = at, size

    def text(self, raw: bytes) -> None:
        if raw:
            self._flush_copy()
            self._text += raw

    def whole(self) -> bytes:
        self._flush()
        return bytes(self._out)

    def _flush(self) -> None:
        for n in range(0, len(self._text), 127):
            piece = self._text[n : n + 127]
            self._out.append(len(piece))
            self._out += piece
        self._text.clear()
        self._flush_copy()

    def _flush_copy(self) -> None:
        while self._copied:
            size = min(self._copied, pack.MOST_COPIED)
            flags, parts = 0x80, bytearray()
            for n, byte in enumerate(self._at.to_bytes(4, "little")):
                if byte:
                    flags |= 1 << n
                    parts.append(byte)
            for n, byte in enumerate(size.to_bytes(3, "little")):
                if byte:
                    flags |= 0x10 << n
                    parts.append(byte)
            self._out.append(flags)
            self._out += parts
            self._at += size
            self._copied -= size


def _check(path: Path) -> None:
    """Read the new pack once more, all of it. VerificationError."""
    made = Pack(path)
    for oid, _, offset in _by_place(made):
        _read(made, oid, offset)


def _by_place(one: Pack) -> Iterator[pack.Entry]:
    yield from sorted(one.entries(), key=itemgetter(2))
