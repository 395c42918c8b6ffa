"""Fold small packs into larger ones, as a log-structured merge tree does with its tiers.

Floor 1. A fold joins packs by copying their bytes: offset deltas are relative and stay right. Only packs that this
journal's flushes could have written are touched: none with a ``.keep``, ``.promisor`` or ``.bitmap``, and none that
a multi-pack-index names. The new pack is complete before an old one is removed, so readers and git see every object
at every moment; a reader that holds an old pack open keeps it.
"""

from __future__ import annotations

import fcntl
import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from hashlib import sha1
from itertools import islice
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
    with disk_errors(f"fold the packs in {folder}"), only_one(lock) as alone:
        for tier in _full_tiers(folder) if alone else ():
            for choose in (_oldest, _apart):
                group = choose(_whole(tier))
                # BadPack: it was whole a moment ago, and is not ours to judge.
                with suppress(_Shared, BadPack):
                    if len(group) > 1:
                        _join(folder, group, sync)
                        return len(group)
    return 0


@contextmanager
def only_one(lock: Path) -> Iterator[bool]:
    """Whether this is the only process that works on the packs."""
    fd = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True
    finally:
        # A child forked meanwhile has the descriptor too, and would go on holding the lock.
        fcntl.flock(fd, fcntl.LOCK_UN)
        os.close(fd)


def listed(folder: Path) -> bytes:
    """What multi-pack-indexes of a folder hold: the names of the packs that must stay are in it."""
    # One file, or since git 2.47 a folder of layers.
    indexes = [folder / "multi-pack-index", *folder.glob("multi-pack-index.d/*.midx")]
    return b"".join(path.read_bytes() for path in indexes if path.exists())


def _full_tiers(folder: Path) -> Iterator[list[Path]]:
    """The packs of each tier that holds enough of them, lowest tier first, oldest pack first."""
    names = set(os.listdir(folder))
    named = listed(folder)
    tiers: dict[int, list[tuple[int, Path]]] = defaultdict(list)
    for name in names:
        stem = name.removesuffix(".pack")
        if stem == name or f"{stem}.idx" not in names or f"{stem}.idx".encode() in named:
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


def _whole(paths: Sequence[Path]) -> Iterator[Pack]:
    for path in paths:
        # A pack that cannot be opened is damaged, or git gc was faster. Verification reports damage; folding must
        # not hide it under a new checksum.
        with suppress(OSError, BadPack):
            one = Pack(path)
            if _is_whole(one):
                yield one


class _Shared(Exception):
    """Two packs have an object in common, and one pack may hold it only once."""


def _oldest(packs: Iterator[Pack]) -> list[Pack]:
    return list(islice(packs, FAN_IN))


def _apart(packs: Iterator[Pack]) -> list[Pack]:
    """The oldest packs but for those that have an object which one before them has too."""
    seen: set[bytes] = set()
    apart: list[Pack] = []
    for one in packs:
        ids = {oid for oid, _, _ in one.entries()}
        if seen.isdisjoint(ids):
            apart.append(one)
            seen |= ids
        if len(apart) == FAN_IN:
            break
    return apart


def _join(folder: Path, group: Sequence[Pack], sync: bool) -> None:
    def fill(out: pack.Out) -> Iterable[pack.Entry]:
        shifts = []
        for one in group:
            shifts.append(out.offset - pack.HEADER_BYTES)
            for piece in one.pieces(_COPY):
                out.raw(piece)
        return _merged(group, shifts)

    pack.publish(folder, sum(one.count for one in group), fill, keep=None, sync=sync)
    for one in group:
        _remove(one.path)


def _merged(group: Sequence[Pack], shifts: Sequence[int]) -> Iterator[pack.Entry]:
    """The index lines of a joined pack in id order, a 256th at a time: those of a large fold fill no memory."""
    before = b""
    for first in range(256):
        lines = [
            (oid, crc, offset + shift)
            for one, shift in zip(group, shifts, strict=True)
            for oid, crc, offset in one.entries(first)
        ]
        lines.sort()
        for line in lines:
            if line[0] == before:
                raise _Shared
            before = line[0]
            yield line


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
