"""Write git packs: one pack a flush.

Floor 1. Format: git's `gitformat-pack` (pack version 2, index version 2).

A tree of event n is a prefix of the tree of event n+1, apart from the last object id of the upper two levels, so
trees come newest first and each older one is a delta of one copy instruction against the newest, at depth 1.
Offset deltas are relative within a pack, so `tiers` joins packs by copying their bytes untouched.
"""

from __future__ import annotations

import os
import struct
import sys
import tempfile
import zlib
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from hashlib import sha1
from itertools import chain, islice
from operator import itemgetter
from pathlib import Path
from typing import IO, NamedTuple, Protocol

from isal import isal_zlib

from gitjournal.errors import disk_errors
from gitjournal.files import sync_folder

#: Object types as a pack numbers them.
COMMIT, TREE, BLOB, TAG = 1, 2, 3, 4
OFS_DELTA, REF_DELTA = 6, 7

# Level 2 of ISA-L: within 2 % of zlib's default on events of 1 KB, at a quarter of its time.
_LEVEL = 2
# Shorter than this, stored bytes are as small as deflated ones and cost a tenth.
_STORE_BELOW = 64
_HOLD = 1 << 20
_HEADER = struct.Struct(">4sII")
HEADER_BYTES = _HEADER.size
_LINE = struct.Struct(">20sIQ")
TRAILER_BYTES = 20
#: One copy instruction reaches as far as this.
MOST_COPIED = 0xFFFFFF
_MAX_SMALL_OFFSET = 0x7FFFFFFF
# Which bytes of a copy instruction there are, as its first byte says: those that are not 0.
_NONZERO = b"\x00" + b"\x01" * 255
_FLAGS = {bytes(n >> i & 1 for i in range(7)): bytes([0x80 | n]) for n in range(128)}
# Lines of an index that are taken at a time.
_LINES = 4096


class Prefix(NamedTuple):
    """A tree that is another one's first ``copied`` bytes and then ``rest`` (at most 127 bytes).

    ``base`` is the other one's id; it comes before this one in the pack, whole.
    """

    base: bytes
    base_size: int
    copied: int
    rest: bytes


# Plain tuples: a flush makes five of each for every event.
#: An object to write: pack type number, id (20 bytes), content; or for a tree its `Prefix`.
PackObject = tuple[int, bytes, bytes | Prefix]
#: One line of a pack index: id, CRC-32 of the packed bytes, offset.
Entry = tuple[bytes, int, int]


class Objects(Protocol):
    """The objects of a pack, and how many they are: a list, or what makes them one by one."""

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[PackObject]: ...


def write(folder: Path, objects: Objects, *, keep: str | None = None, sync: bool = True) -> Path:
    """Write one pack with its index into ``folder`` and return the path of the ``.pack``.

    ``objects`` are distinct. ``keep`` is the text of a ``.keep`` file, which is there
    before the pack is (git then neither repacks nor prunes the objects until the ref has moved; see `release`).
    With ``sync`` the pack, the index and the folder are on disk on return. Raises StorageError, and then
    nothing but a ``tmp_*`` file (which ``gj gc`` and git clean up) can be left behind.
    """

    def fill(out: Out) -> Iterable[Entry]:
        trees = Trees(out)
        for kind, oid, data in objects:
            if isinstance(data, Prefix) or kind == TREE:
                trees.add(oid, data)
            else:
                out.add(oid, entry_header(kind, len(data)) + _deflate(data))
        return sorted(out.entries, key=itemgetter(0))

    return publish(folder, len(objects), fill, keep, sync)


def release(pack: Path) -> None:
    """Remove the ``.keep`` file of a pack whose objects a ref now reaches."""
    # What stays behind is removed by the branch's next writer.
    with suppress(OSError):
        pack.with_suffix(".keep").unlink()


class Out:
    """A pack being written: counts offsets, collects the index, hashes what passes."""

    def __init__(self, file: IO[bytes], count: int | None) -> None:
        self._file = file
        self._count = count
        self._sha = sha1()
        self._parts: list[bytes] = []
        # Written in pieces of _HOLD bytes: here is where the next piece is due.
        self._due = _HOLD
        self.offset = 0
        self.entries: list[Entry] | Lines = []
        self.raw(_HEADER.pack(b"PACK", 2, count or 0))

    def raw(self, data: bytes) -> None:
        """Append bytes of the pack as they are."""
        self._parts.append(data)
        self.offset += len(data)
        if self.offset >= self._due:
            self._pass_on()

    def _pass_on(self) -> None:
        data = b"".join(self._parts)
        self._parts, self._due = [], self.offset + _HOLD
        self._file.write(data)
        self._sha.update(data)

    def add(self, oid: bytes, entry: bytes) -> None:
        """Append one encoded entry and note it for the index."""
        self.entries.append((oid, isal_zlib.crc32(entry), self.offset))
        self._parts.append(entry)
        self.offset += len(entry)
        if self.offset >= self._due:
            self._pass_on()

    def add_pieces(self, oid: bytes, head: bytes, pieces: Iterable[bytes]) -> None:
        """As `add`, for an entry that is too large to be held."""
        start, crc = self.offset, 0
        for piece in chain((head,), pieces):
            crc = isal_zlib.crc32(piece, crc)
            self.raw(piece)
        self.entries.append((oid, crc, start))

    def finish(self) -> bytes:
        """Append the checksum and return it."""
        self._pass_on()
        if self._count is None:
            self._say_count()
        checksum = self._sha.digest()
        self._file.write(checksum)
        return checksum

    def _say_count(self) -> None:
        """Put the number of objects, which is known only now, at the beginning of what has been written."""
        self._file.seek(0)
        self._file.write(_HEADER.pack(b"PACK", 2, len(self.entries)))
        self._file.seek(0)
        self._sha = sha1()
        while piece := self._file.read(_HOLD):
            self._sha.update(piece)


class Lines:
    """The lines of an index in as few bytes as they are, for an `Out` that writes millions of them."""

    def __init__(self) -> None:
        self._count = 0
        self._by_first = [bytearray() for _ in range(256)]

    def append(self, entry: Entry) -> None:
        """Take a line."""
        self._count += 1
        self._by_first[entry[0][0]] += _LINE.pack(*entry)

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Entry]:
        """The lines in id order. They are given once: what has been given is held no longer."""
        for first, lines in enumerate(self._by_first):
            self._by_first[first] = bytearray()
            yield from sorted(_LINE.iter_unpack(lines))


class Trees:
    """Takes the trees of a pack that is being written, each before those that are its prefixes."""

    def __init__(self, out: Out) -> None:
        self._out = out
        self._places: dict[bytes, int] = {}

    def add(self, oid: bytes, data: bytes | Prefix) -> None:
        """Write a tree whole, or as one copy instruction against one that was written whole."""
        out = self._out
        if isinstance(data, Prefix):
            delta = prefixed(data.base_size, data.copied, data.rest)
            head = entry_header(OFS_DELTA, len(delta)) + offset_header(out.offset - self._places[data[0]])
            out.add(oid, head + stored(delta))
        else:
            self._places[oid] = out.offset
            out.add(oid, entry_header(TREE, len(data)) + _deflate(data))


def _deflate(data: bytes) -> bytes:
    return isal_zlib.compress(data, _LEVEL) if len(data) >= _STORE_BELOW else stored(data)


def stored(data: bytes) -> bytes:
    """A zlib stream of one stored block (RFC 1950, 1951)."""
    return b"%s%s%s" % (stored_head(len(data)), data, zlib.adler32(data).to_bytes(4, "big"))


@lru_cache(maxsize=_STORE_BELOW)
def stored_head(size: int) -> bytes:
    """What stands before ``size`` stored bytes: zlib's header, and that of a last block that is stored."""
    return b"\x78\x01\x01" + struct.pack("<HH", size, size ^ 0xFFFF)


# Sizes repeat: trees grow entry by entry, and deltas are of one or two shapes.
@lru_cache(maxsize=16384)
def entry_header(kind: int, size: int) -> bytes:
    """What stands before an entry of a pack: its type and the size of its content."""
    byte = (kind << 4) | (size & 15)
    size >>= 4
    out = bytearray()
    while size:
        out.append(byte | 0x80)
        byte = size & 0x7F
        size >>= 7
    out.append(byte)
    return bytes(out)


def offset_header(distance: int) -> bytes:
    """The base-128 number of an offset delta, in which each continued byte also adds one."""
    if distance < 0x4080:
        # Nearly all of a page's pieces.
        return bytes((distance,)) if distance < 0x80 else bytes((0x7F + (distance >> 7), distance & 0x7F))
    out = [distance & 0x7F]
    while distance := distance >> 7:
        distance -= 1
        out.append(0x80 | (distance & 0x7F))
    out.reverse()
    return bytes(out)


@lru_cache(maxsize=16384)
def varint(number: int) -> bytes:
    """A whole number in base 128, lowest digits first."""
    out = bytearray()
    while number > 0x7F:
        out.append(0x80 | (number & 0x7F))
        number >>= 7
    out.append(number)
    return bytes(out)


def prefixed(base_size: int, copied: int, rest: bytes) -> bytes:
    """A delta that is the first ``copied`` bytes of its base, and then ``rest`` of at most 127 bytes."""
    begin = _copy_from_start(base_size, copied, len(rest))
    return b"%s%c%s" % (begin, len(rest), rest) if rest else begin


# Flushes have the same few shapes again and again.
@lru_cache(maxsize=16384)
def _copy_from_start(base_size: int, copied: int, inserted: int) -> bytes:
    """The sizes that a delta begins with, and the copy instruction for ``copied`` bytes from offset 0."""
    return varint(base_size) + varint(copied + inserted) + _copy(0, copied)


def copied(base_size: int, at: int, size: int) -> bytes:
    """A delta that is ``size`` bytes of its base from ``at`` on, at most `MOST_COPIED`."""
    return varint(base_size) + varint(size) + _copy(at, size)


def _copy(at: int, size: int) -> bytes:
    parts = at.to_bytes(4, "little") + size.to_bytes(3, "little")
    return _FLAGS[parts.translate(_NONZERO)] + parts.replace(b"\x00", b"")


def _index(entries: Iterable[Entry], checksum: bytes) -> Iterator[bytes | bytearray | array[int]]:
    """A version 2 index of ``entries``, which come in id order, in pieces."""
    ids, crcs, offsets, large = bytearray(), array("I"), array("I"), array("Q")
    lines = iter(entries)
    while some := tuple(islice(lines, _LINES)):
        some_ids, some_crcs, some_offsets = zip(*some, strict=True)
        ids += b"".join(some_ids)
        crcs.extend(some_crcs)
        if max(some_offsets) <= _MAX_SMALL_OFFSET:
            offsets.extend(some_offsets)
            continue
        for offset in some_offsets:
            if offset > _MAX_SMALL_OFFSET:
                large.append(offset)
                offset = 0x80000000 | (len(large) - 1)
            offsets.append(offset)
    del lines
    first_bytes = ids[::20]
    if sys.byteorder == "little":
        for column in (crcs, offsets, large):
            column.byteswap()
    fanout = struct.pack(">256I", *(bisect_right(first_bytes, byte) for byte in range(256)))
    digest = sha1()
    for piece in (b"\xfftOc\x00\x00\x00\x02", fanout, ids, crcs, offsets, large, checksum):
        digest.update(piece)
        yield piece
    yield digest.digest()


def publish(
    folder: Path, count: int | None, fill: Callable[[Out], Iterable[Entry]], keep: str | None, sync: bool
) -> Path:
    """Write temporary files, sync, then give them their names: ``.keep``, ``.pack``, last the ``.idx``.

    ``count`` is the number of objects, None when that shows only at the end.
    ``fill`` writes the entries and returns the index lines in id order. Crashing before the ``.idx`` is named leaves
    files that no git reads; after it, a complete pack.
    """
    temporary: list[Path] = []
    try:
        with disk_errors(f"write a pack in {folder}"):
            with _temporary(folder, "tmp_pack_", temporary, sync) as file:
                out = Out(file, count)
                entries = fill(out)
                checksum = out.finish()
            with _temporary(folder, "tmp_idx_", temporary, sync) as file:
                file.writelines(_index(entries, checksum))
            stem = folder / f"pack-{checksum.hex()}"
            if not stem.with_suffix(".idx").exists():
                # Until the index has its name no reader finds the rest, and it may be taken away again.
                temporary += [stem.with_suffix(".pack"), stem.with_suffix(".keep")]
            if keep is not None:
                stem.with_suffix(".keep").write_text(keep, encoding="utf-8")
            temporary[0].rename(stem.with_suffix(".pack"))
            temporary[1].rename(stem.with_suffix(".idx"))
            temporary.clear()
            if sync:
                sync_folder(folder)
            return stem.with_suffix(".pack")
    finally:
        for path in temporary:
            with suppress(OSError):
                path.unlink()


@contextmanager
def _temporary(folder: Path, prefix: str, made: list[Path], sync: bool) -> Iterator[IO[bytes]]:
    """A new read-only file, on disk when the block ends; its path is added to ``made``."""
    fd, name = tempfile.mkstemp(prefix=prefix, dir=folder)
    made.append(Path(name))
    with os.fdopen(fd, "w+b", buffering=_HOLD) as file:
        yield file
        file.flush()
        os.fchmod(fd, 0o444)
        if sync:
            os.fsync(fd)
