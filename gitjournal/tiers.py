"""Fold small packs into larger ones, as a log-structured merge tree does with its tiers.

Floor 1. A fold joins packs by copying their bytes: offset deltas are relative and stay right. Only packs that this
journal's flushes could have written are touched: none with a ``.keep``, ``.promisor`` or ``.bitmap``, and none that
a multi-pack-index names. The new pack is complete before an old one is removed, so readers and git see every object
at every moment; a reader that holds an old pack open keeps it.
"""

from __future__ import annotations

import fcntl
import heapq
import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from hashlib import sha1
from itertools import pairwise
from pathlib import Path

from gitjournal import pack
from gitjournal.errors import disk_errors
from gitjournal.packread import BadPack, Pack

#: A tier becomes one pack of the next tier when it holds this many.
FAN_IN = 8
_FIRST_TIER = 64 * 1024
#: Larger packs are left alone: a fold moves at most FAN_IN times this, whatever the journal's size.
LIMIT = 32 * 1024 * 1024
_COPY = 1 << 20
_FOREIGN = (".keep", ".promisor", ".bitmap", ".mtimes")


def fold(folder: Path, lock: Path, *, sync: bool = True) -> int:
    """Do at most one folding step in ``folder`` (``objects/pack``); the number of packs that went away.

    ``lock`` is a file that keeps two processes from folding at once; when another holds it this returns 0.
    Raises StorageError; a crash at any point leaves every object in at least one complete pack.
    """
    with disk_errors(f"fold the packs in {folder}"), _only_one(lock) as alone:
        for tier in _full_tiers(folder) if alone else ():
            group = _joinable(tier)
            if len(group) > 1:
                _join(folder, group, sync)
                return len(group)
    return 0


@contextmanager
def _only_one(lock: Path) -> Iterator[bool]:
    fd = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True
    finally:
        os.close(fd)


def _full_tiers(folder: Path) -> Iterator[list[Path]]:
    """The packs of each tier that holds enough of them, lowest tier first, oldest pack first."""
    names = set(os.listdir(folder))
    # One file, or since git 2.47 a folder of layers.
    indexes = [folder / "multi-pack-index", *folder.glob("multi-pack-index.d/*.midx")]
    listed = b"".join(path.read_bytes() for path in indexes if path.exists())
    tiers: dict[int, list[tuple[int, Path]]] = defaultdict(list)
    for name in names:
        stem = name.removesuffix(".pack")
        if stem == name or f"{stem}.idx" not in names or f"{stem}.idx".encode() in listed:
            continue
        if any(stem + foreign in names for foreign in _FOREIGN):
            continue
        with suppress(FileNotFoundError):
            status = (folder / name).stat()
            if status.st_size <= LIMIT:
                tiers[_tier(status.st_size)].append((status.st_mtime_ns, folder / name))
    for tier in sorted(tiers):
        if len(tiers[tier]) >= FAN_IN:
            yield [path for _, path in sorted(tiers[tier])]


def _tier(size: int) -> int:
    tier = 0
    while size > _FIRST_TIER:
        size //= FAN_IN
        tier += 1
    return tier


def _joinable(paths: Sequence[Path]) -> list[Pack]:
    """Up to FAN_IN packs that are whole and share no object: one pack holds an object once."""
    group: list[Pack] = []
    for path in paths:
        # A pack that cannot be opened is damaged, or git gc was faster. Verification reports damage; folding must
        # not hide it under a new checksum.
        with suppress(OSError, BadPack):
            one = Pack(path)
            if _is_whole(one):
                group.append(one)
        if len(group) == FAN_IN:
            break
    shared = _sharing(group)
    return [one for number, one in enumerate(group) if number not in shared]


def _sharing(group: Sequence[Pack]) -> set[int]:
    """The numbers of packs with an object that one before them has too."""

    def lines(number: int) -> Iterator[tuple[bytes, int]]:
        return ((oid, number) for oid, _, _ in group[number].entries())

    found = set()
    for one, other in pairwise(heapq.merge(*map(lines, range(len(group))))):
        if one[0] == other[0]:
            found.add(other[1])
    return found


def _join(folder: Path, group: Sequence[Pack], sync: bool) -> None:
    def moved(one: Pack, shift: int) -> Iterator[pack.Entry]:
        return ((oid, crc, offset + shift) for oid, crc, offset in one.entries())

    def fill(out: pack.Out) -> Iterable[pack.Entry]:
        lines = []
        for one in group:
            lines.append(moved(one, out.offset - pack.HEADER_BYTES))
            for piece in one.pieces(_COPY):
                out.raw(piece)
        # Lazily: the index lines of a large fold never stand in memory all at once.
        return heapq.merge(*lines)

    pack.publish(folder, sum(one.count for one in group), fill, keep=None, sync=sync)
    for one in group:
        _remove(one.path)


def _is_whole(one: Pack) -> bool:
    """Whether pack and index hold what their checksums say, and as many objects as each other.

    A fold must not give damaged bytes a new checksum, nor leave out what an index does not name.
    """
    checksum = sha1()
    for piece in one.pieces(_COPY, header=True):
        checksum.update(piece)
    return checksum.digest() == one.checksum() and one.is_consistent()


def _remove(path: Path) -> None:
    """Remove a pack as git does: the index first, so that nothing finds the pack and then not its bytes."""
    for suffix in (".idx", ".rev", ".pack"):
        with suppress(FileNotFoundError):
            path.with_suffix(suffix).unlink()
