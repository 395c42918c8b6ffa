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
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from hashlib import sha1
from pathlib import Path

from gitjournal import pack
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
    with _only_one(lock) as alone:
        group = _pick(folder) if alone else []
        if not group:
            return 0
        return _join(folder, group, sync)


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


def _pick(folder: Path) -> list[Path]:
    """The packs of the lowest tier that is full, oldest first; empty when none is."""
    midx = folder / "multi-pack-index"
    listed = midx.read_bytes() if midx.exists() else b""
    names = set(os.listdir(folder))
    tiers: dict[int, list[tuple[int, Path]]] = defaultdict(list)
    for name in names:
        stem, suffix = os.path.splitext(name)
        if suffix != ".pack" or f"{stem}.idx" not in names or f"{stem}.idx".encode() in listed:
            continue
        if any(stem + foreign in names for foreign in _FOREIGN):
            continue
        path = folder / name
        with suppress(FileNotFoundError):
            status = path.stat()
            if status.st_size <= LIMIT:
                tiers[_tier(status.st_size)].append((status.st_mtime_ns, path))
    for tier in sorted(tiers):
        if len(tiers[tier]) >= FAN_IN:
            return [path for _, path in sorted(tiers[tier])[:FAN_IN]]
    return []


def _tier(size: int) -> int:
    tier = 0
    while size > _FIRST_TIER:
        size //= FAN_IN
        tier += 1
    return tier


def _join(folder: Path, paths: Sequence[Path], sync: bool) -> int:
    try:
        packs = [Pack(path) for path in paths]
    except (OSError, BadPack):
        # git gc was faster, or a pack is damaged: verification reports damage, folding must not hide it.
        return 0
    contents = [one.entries() for one in packs]
    count = sum(map(len, contents))
    if len({oid for entries in contents for oid, _, _ in entries}) != count or not all(map(_is_whole, packs)):
        return 0

    def fill(out: pack.Out) -> None:
        for one, entries in zip(packs, contents, strict=True):
            shift = out.offset - pack.HEADER_BYTES
            out.entries.extend([(oid, crc, offset + shift) for oid, crc, offset in entries])
            for piece in one.pieces(_COPY):
                out.raw(piece)

    pack.publish(folder, count, fill, keep=None, sync=sync)
    for path in paths:
        _remove(path)
    return len(paths)


def _is_whole(one: Pack) -> bool:
    """Whether the pack's own checksum holds: a fold must not give damaged bytes a new checksum."""
    checksum = sha1()
    for piece in one.pieces(_COPY, header=True):
        checksum.update(piece)
    return checksum.digest() == one.checksum()


def _remove(path: Path) -> None:
    """Remove a pack as git does: the index first, so that nothing finds the pack and then not its bytes."""
    for suffix in (".idx", ".rev", ".pack"):
        with suppress(FileNotFoundError):
            path.with_suffix(suffix).unlink()
