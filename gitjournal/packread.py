"""Read objects out of git packs.

Floor 1. Packs are read in windows with ``pread``, so memory stays bounded and a pack that a fold or ``git gc`` has
deleted meanwhile stays readable. Nothing here trusts an index: `store.Store.read` hashes what comes back.
"""

from __future__ import annotations

import mmap
import os
import struct
import zlib
from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache
from hashlib import sha1
from itertools import chain, pairwise
from pathlib import Path
from typing import BinaryIO, NamedTuple, TypeVar

from isal import isal_zlib
from isal.igzip_lib import IsalError

from gitjournal.files import NotRegular, open_regular
from gitjournal.pack import HEADER_BYTES, OFS_DELTA, REF_DELTA, TRAILER_BYTES, Entry, stored_head
from gitjournal.packwalk import KINDS, WINDOW, most_deflated, walk, whole
from gitjournal.rules import MAX_FILE_BYTES

# Commits, trees and blobs lie in three regions of a pack, and a reader walks all three at once.
_MOST_WINDOWS = 8
# What is read where nothing was read lately, and how many such places are known again.
_PIECE = 8192
_MOST_TOUCHED = 4
# Bases of deltas, small and large: a journal that git has repacked has chains of 50, which lie about in no order.
_SMALL_BASE = 16 * 1024
_MOST_SMALL = 1024
_LARGE_BASE = 4 * 1024 * 1024
_MOST_LARGE = 4
# The most that git makes (pack.depth is at most this).
_MOST_DELTAS = 4095
# The least that git takes.
_LEAST_DELTA = 4
# Type, size, base and, if it is short, the content of an entry.
_HEAD = 128
# A delta as `pack` writes it copies once from its base and inserts one id, or none.
_MOST_PREFIX = 40
_INSERTED_ID = 1 + 20
_WORD = struct.Struct(">I").unpack_from
_STORED_HEAD = 7
_SHORT = 64
# Ids of an index that is mapped for looking them up: about 512 begin with the same byte.
_MOST_MAPPED = 128 * 1024
# Ids that are asked for before an index of at most so many is taken into memory, for one pack at a time.
_MANY_ASKED = 1000
_MOST_TABLED = 250_000
# Entries that are sorted by their place at a time.
_MOST_SORTED = 250_000
# An index of so many is not worth giving back.
_SMALL_INDEX = 10_000
# The bit of an offset that is in the table of those that do not fit.
_LARGE_OFFSET = 0x80000000
_FANOUT = 8
_IDS = _FANOUT + 1024
_SIGNATURES = (b"PACK\x00\x00\x00\x02", b"PACK\x00\x00\x00\x03")
#: An object that claims to be larger is not read (a decompression bomb).
MAX_OBJECT = MAX_FILE_BYTES
# What a delta builds on, and a delta itself, may be larger than what is made: as much as the verifiers let git take.
_MOST_BASE = 256 * 1024 * 1024
# All deltas upon each other, in sizes of what is made: git's own 50, the worst that it would keep, have 13.
_MOST_HELD = 16

_T = TypeVar("_T")


def _remember(cache: dict[int, _T], key: int, value: _T, most: int) -> None:
    """Put a value into a small cache that threads may share."""
    if key in cache:
        return
    while len(cache) >= most:
        # Another thread may change the dict between its iter and its next.
        with suppress(RuntimeError):
            cache.pop(next(iter(cache), key), None)
    cache[key] = value


class BadPack(Exception):
    """The pack or its index is not what the format says; `store` turns it into a VerificationError."""


class BadIndex(BadPack):
    """The index has the object at a place outside of itself: git stops at that, whatever other copies there are."""


class TooLarge(BadPack):
    """The object says that it is larger than wanted, and was not read. A delta that is too large has no kind."""

    def __init__(self, kind: bytes, size: int) -> None:
        super().__init__(f"it claims {size} bytes")
        self.kind = kind


class Pack:
    """One pack and its index, open for reading. Safe to share between threads."""

    def __init__(self, path: Path) -> None:
        """Open ``path`` (the ``.pack``). OSError when it is gone, BadPack for one that git does not open either."""
        self.path = path
        self._file = os.fdopen(open_regular(path), "rb", buffering=0)
        self._fd = self._file.fileno()
        self.size = os.fstat(self._fd).st_size
        with os.fdopen(open_regular(path.with_name(f"{path.name[:-5]}.idx")), "rb", buffering=0) as file:
            if os.fstat(file.fileno()).st_size < _IDS + 40:
                raise BadPack(f"{path.name}: index is cut")
            self._idx = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            self._fanout = self._read_fanout()
            self.count = self._fanout[256]
            # Of a large index what is looked at is read: who asks for ids here and there would have all of it mapped.
            self._ids = os.fdopen(os.dup(file.fileno()), "rb", buffering=0) if self.count > _MOST_MAPPED else None
        self._check_ends()
        self._offsets = _IDS + 24 * self.count
        # By offset, the oldest goes first: windows, those that were read in once, and bases of deltas, whole.
        self._windows: dict[int, bytes] = {}
        self._touched: dict[int, bool] = {}
        self._small: dict[int, tuple[bytes, bytes]] = {}
        self._large: dict[int, tuple[bytes, bytes]] = {}
        # What was read last outside of any window, and where it begins.
        self._piece = (0, b"")
        # Offsets by id, once many have been asked for; how many have been since `forget`.
        self._table: dict[bytes, int] | None = None
        self._asked = 0

    def _read_fanout(self) -> tuple[int, ...]:
        idx = self._idx
        if idx[:8] != b"\xfftOc\x00\x00\x00\x02":
            raise BadPack(f"{self.path.name}: index is not version 2")
        fanout = (0, *struct.unpack_from(">256I", idx, _FANOUT))
        count = fanout[256]
        # At most all offsets but one are so large that they are in the last table.
        beyond = len(idx) - (_IDS + 28 * count + 40)
        if not 0 <= beyond <= 8 * max(0, count - 1) or any(a > b for a, b in pairwise(fanout)):
            raise BadPack(f"{self.path.name}: index has a wrong size or its fan-out falls")
        return fanout

    def _check_ends(self) -> None:
        """BadPack unless the pack is of a version that git reads, and of this index by its count and its sum."""
        head = os.pread(self._fd, HEADER_BYTES, 0) if self.size >= HEADER_BYTES + TRAILER_BYTES else b""
        ours = head[:8] in _SIGNATURES and int.from_bytes(head[8:], "big") == self.count
        if not ours or self.checksum() != self._idx[-40:-20]:
            raise BadPack(f"{self.path.name}: not the pack of its index")

    def __del__(self) -> None:
        # Not there when the pack could not be opened.
        if hasattr(self, "_file"):
            self._file.close()
        ids: BinaryIO | None = getattr(self, "_ids", None)
        if ids is not None:
            ids.close()

    def offset(self, oid: bytes) -> int | None:
        """Where the object lies in the pack, or None."""
        first = oid[0]
        low, high = self._fanout[first], self._fanout[first + 1]
        place = self._find(oid, low, high) if self._ids is None else self._find_near(oid, low, high)
        return self._offset_at(place) if place >= 0 else None

    def offset_next(self, oid: bytes) -> int | None:
        """As `offset`, for a pack of which one object after the other is wanted, until `forget`."""
        if self._table is not None:
            return self._table.get(oid)
        self._asked += 1
        if self._asked > max(_MANY_ASKED, self.count >> 5):
            self._table = self._as_table()
            # Not soon again for an index that cannot be had as a table.
            self._asked = -self.count
        return self.offset(oid)

    def _as_table(self) -> dict[bytes, int] | None:
        """The index as a dict, if that is small and cannot be read in two ways."""
        if self.count > _MOST_TABLED:
            return None
        ids = list(chain.from_iterable(struct.iter_unpack("20s", self._idx[_IDS : _IDS + 20 * self.count])))
        offsets = struct.unpack_from(f">{self.count}I", self._idx, self._offsets)
        table = dict(zip(ids, offsets, strict=True))
        firsts = b"".join(bytes((first,)) * (b - a) for first, (a, b) in enumerate(pairwise(self._fanout)))
        in_place = firsts == self._idx[_IDS : _IDS + 20 * self.count : 20] and sorted(table) == ids
        return table if in_place and max(offsets) < _LARGE_OFFSET else None

    def forget(self) -> None:
        """Give back the memory for which others than the next ids are asked."""
        self._table, self._asked = None, 0

    def rest(self) -> None:
        """Give back all memory, until something is read again."""
        self.forget()
        self.give_back()
        for cache in (self._windows, self._touched, self._small, self._large):
            cache.clear()
        self._piece = (0, b"")

    def give_back(self) -> None:
        """Let the system take the memory of the index; it is read from the disk's cache when it is wanted again."""
        if self.count > _SMALL_INDEX:
            self._idx.madvise(mmap.MADV_DONTNEED)

    def _find_near(self, oid: bytes, low: int, high: int) -> int:
        """As `_find`, after a look at where it should be."""
        # Ids are uniformly distributed: it should be here, give or take four sigma.
        guess = low + ((high - low) * int.from_bytes(oid[1:4], "big") >> 24)
        slack = 2 * int((high - low) ** 0.5) + 8
        near, far = max(low, guess - slack), min(high, guess + slack)
        ids = os.pread(self._ids.fileno(), 20 * (far - near), _IDS + 20 * near) if self._ids else b""
        if not (near == low or ids[:20] <= oid) or not (far == high or oid <= ids[-20:]):
            return self._find(oid, low, high)
        at = ids.find(oid)
        while at >= 0 and at % 20:
            at = ids.find(oid, at + 1)
        return near + at // 20 if at >= 0 else -1

    def _find(self, oid: bytes, low: int, high: int) -> int:
        """The place of an id among those from ``low`` to ``high``, or -1."""
        end = _IDS + 20 * high
        at = self._idx.find(oid, _IDS + 20 * low, end) - _IDS
        while at >= 0 and at % 20:
            at = self._idx.find(oid, at + _IDS + 1, end) - _IDS
        return at // 20 if at >= 0 else -1

    def _offset_at(self, place: int) -> int:
        offset: int = _WORD(self._idx, self._offsets + 4 * place)[0]
        if offset & _LARGE_OFFSET:
            at = self._offsets + 4 * self.count + 8 * (offset - _LARGE_OFFSET)
            if at + 8 > len(self._idx) - 40:
                raise BadIndex(f"{self.path.name}: index points outside itself")
            (offset,) = struct.unpack_from(">Q", self._idx, at)
        return offset

    def entries(self, first: int | None = None) -> Iterator[Entry]:
        """The index line by line, in id order; with ``first`` only the ids that begin with that byte."""
        low, high = (0, self.count) if first is None else self._fanout[first : first + 2]
        table = memoryview(self._idx)
        crc_at = _IDS + 20 * self.count
        ids = struct.iter_unpack("20s", table[_IDS + 20 * low : _IDS + 20 * high])
        crcs = struct.iter_unpack(">I", table[crc_at + 4 * low : crc_at + 4 * high])
        for place, ((oid,), (crc,)) in enumerate(zip(ids, crcs, strict=True), low):
            yield oid, crc, self._offset_at(place)

    def by_place(self) -> Iterator[tuple[int, bytes]]:
        """(offset, id) of all entries in the order of the pack, some at a time: those of a large one fill no memory."""
        step = self.size // (self.count // _MOST_SORTED + 1) + 1
        for start in range(0, self.size, step):
            some: list[tuple[int, bytes]] = []
            for first in range(256):
                found = self.entries(first)
                some += [(offset, oid) for oid, _, offset in found if start <= offset < start + step]
                self.give_back()
            some.sort()
            yield from some

    def pieces(self, size: int, *, header: bool = False) -> Iterator[bytes]:
        """The pack's entries (with ``header`` from its first byte) as they lie there, ``size`` bytes at a time."""
        at, end = 0 if header else HEADER_BYTES, self.size - TRAILER_BYTES
        while at < end:
            piece = os.pread(self._fd, min(size, end - at), at)
            at += len(piece)
            yield piece

    def is_consistent(self) -> bool:
        """Whether the index, which was this pack's when it was opened, is undamaged."""
        return sha1(self._idx[:-20]).digest() == self._idx[-20:]

    def checksum(self) -> bytes:
        """The SHA-1 that the pack ends with."""
        return os.pread(self._fd, TRAILER_BYTES, self.size - TRAILER_BYTES)

    def read_at(self, offset: int, most: int = MAX_OBJECT) -> tuple[bytes, bytes]:
        """(kind, content) of the entry at ``offset``, through as many deltas as git allows. BadPack, TooLarge."""
        try:
            kind, base, content, _ = self._entry(offset, most)
            if kind:
                return kind, content
            found = self._small.get(base) or self._base(offset, base, max(most, _MOST_BASE), _MOST_HELD * most)
            return found[0], apply_delta(found[1], content, most, found[0])
        except IndexError:
            raise BadPack(f"{self.path.name}: cut at {offset}") from None

    def whole(self, offset: int) -> tuple[bytes, int, Iterator[bytes]] | None:
        """(kind, size, content piece by piece) of an entry, however large; None for a delta. Nothing is checked."""
        return whole(self._fd, offset)

    def behind(self, offset: int, most: int = MAX_OBJECT) -> Iterator[tuple[bytes, bytes, int]]:
        """(kind, content, offset) of the entries behind that at ``offset``, to the first delta. BadPack, IndexError."""
        _, _, _, offset = self._entry(offset, most)
        while True:
            offset = yield from walk(self._fd, offset, most)
            kind, _, content, end = self._entry(offset, most)
            if not kind:
                return
            yield kind, content, offset
            offset = end

    def _base(self, offset: int, base: int, most: int, held: int) -> tuple[bytes, bytes]:
        """The entry at ``base``, which the delta at ``offset`` builds on; no step to it is larger than ``most``."""
        try:
            return self._through_deltas(offset, base, most, max(most, held))
        except TooLarge as error:
            # It is not the wanted object that is too large.
            raise BadPack(f"{self.path.name}: what the delta at {offset} builds on: {error}") from None

    def _through_deltas(self, offset: int, base: int, most: int, held: int) -> tuple[bytes, bytes]:
        deltas: list[tuple[int, bytes]] = []
        found = self._small.get(base) or self._large.get(base)
        while found is None:
            kind, below, content, _ = self._entry(base, most)
            held -= len(content)
            if kind:
                found = kind, content
                self._keep_base(base, found)
            elif len(deltas) + 1 == _MOST_DELTAS:
                # A circle of deltas has no end.
                raise BadPack(f"{self.path.name}: more than {_MOST_DELTAS} deltas upon each other at {offset}")
            elif held < 0:
                raise BadPack(f"{self.path.name}: the deltas upon each other at {offset} are too large")
            else:
                deltas.append((base, content))
                base = below
                found = self._small.get(base) or self._large.get(base)
        while deltas:
            at, delta = deltas.pop()
            found = found[0], apply_delta(found[1], delta, most, found[0])
            self._keep_base(at, found)
        return found

    def _keep_base(self, offset: int, base: tuple[bytes, bytes]) -> None:
        size = len(base[1])
        if size <= _SMALL_BASE:
            _remember(self._small, offset, base, _MOST_SMALL)
        elif size <= _LARGE_BASE:
            _remember(self._large, offset, base, _MOST_LARGE)

    def _entry(self, offset: int, most: int) -> tuple[bytes, int, bytes, int]:
        """(kind, offset of its base, what is inflated, offset behind it) of an entry. A delta has the kind b""."""
        if not 12 <= offset < self.size - 20:
            raise BadPack(f"{self.path.name}: offset {offset} is outside the pack")
        window, at = self._view(offset, _HEAD)
        begin = at
        byte = window[at]
        number, size, shift = (byte >> 4) & 7, byte & 15, 4
        at += 1
        while byte & 0x80:
            byte = window[at]
            size |= (byte & 0x7F) << shift
            shift += 7
            at += 1
            if shift > 60:
                raise BadPack(f"{self.path.name}: size at {offset} does not end")
        kind, base = KINDS.get(number, b""), 0
        if size > most and (kind or size > _MOST_BASE):
            raise TooLarge(kind, size)
        if number == OFS_DELTA:
            distance, at = _read_distance(window, at)
            base = offset - distance
        elif number == REF_DELTA:
            base = self._base_by_id(window[at : at + 20])
            at += 20
        elif not kind:
            raise BadPack(f"{self.path.name}: object type {number} at {offset}")
        place = offset + at - begin
        content = _stored(window, at, size) if size < _SHORT else None
        if content is None:
            content, behind = self._inflate(place, size)
        else:
            behind = place + _STORED_HEAD + size + 4
        return kind, base, content, behind

    def _base_by_id(self, oid: bytes) -> int:
        found = self.offset(oid)
        if found is None:
            raise BadPack(f"{self.path.name}: the base of a delta is not in the pack")
        return found

    def _view(self, offset: int, length: int) -> tuple[bytes, int]:
        """Bytes and where in them ``offset`` is; ``length`` of them are there, or what there is to the pack's end."""
        start = offset % WINDOW
        window = self._windows.get(offset - start)
        if window is None or start + length > WINDOW:
            return self._fetch(offset, length)
        return window, start

    def _fetch(self, offset: int, length: int) -> tuple[bytes, int]:
        begin, piece = self._piece
        if begin <= offset and offset + length <= begin + len(piece):
            return piece, offset - begin
        start = offset % WINDOW
        # Whoever reads here a second time reads on; whoever reads one event here and there does not.
        if offset - start in self._touched and start + length <= WINDOW:
            window = os.pread(self._fd, WINDOW, offset - start)
            _remember(self._windows, offset - start, window, _MOST_WINDOWS)
            return window, start
        _remember(self._touched, offset - start, True, _MOST_TOUCHED)
        piece = os.pread(self._fd, max(length, _PIECE), offset)
        self._piece = (offset, piece)
        return piece, 0

    def _inflate(self, place: int, size: int, most: int = 0) -> tuple[bytes, int]:
        """(the ``size`` bytes, offset behind) of the stream at ``place``, of which ``most`` bytes are looked at."""
        # If it was asked once: a stream that was flushed piece by piece is longer.
        most = min(most or most_deflated(size), self.size - place)
        window, at = self._view(place, most)
        stream = window[at : at + most]
        inflater = isal_zlib.decompressobj()
        try:
            content = inflater.decompress(stream, size + 1)
            if len(content) == size and not inflater.eof:
                content += inflater.decompress(inflater.unconsumed_tail, 1)
        except IsalError as error:  # type: ignore[misc]  # its stub does not say that it is an exception
            raise BadPack(f"{self.path.name}: the stream at {place} does not inflate") from error
        if len(content) <= size and not inflater.eof and place + most < self.size:
            # Deflated piece by piece, perhaps, with an empty block after each.
            return self._inflate(place, size, 16 * most)
        if len(content) != size or not inflater.eof:
            raise BadPack(f"{self.path.name}: the object at {place} is not {size} bytes long")
        return content, place + len(stream) - len(inflater.unused_data)


def _stored(window: bytes, at: int, size: int) -> bytes | None:
    """The ``size`` bytes of a stream that is one stored block, as `pack` writes what is short; None when it is not."""
    if not window.startswith(stored_head(size), at):
        return None
    at += _STORED_HEAD
    content = window[at : at + size]
    return content if window.startswith(zlib.adler32(content).to_bytes(4, "big"), at + size) else None


def _read_distance(window: bytes, at: int) -> tuple[int, int]:
    byte = window[at]
    at += 1
    distance = byte & 0x7F
    while byte & 0x80:
        if distance >> 50:
            raise BadPack("the base of a delta is nowhere")
        byte = window[at]
        at += 1
        distance = ((distance + 1) << 7) | (byte & 0x7F)
    return distance, at


def apply_delta(base: bytes, delta: bytes, most: int = MAX_OBJECT, kind: bytes = b"") -> bytes:
    """Apply a git delta. BadPack when it does not fit its base or its own sizes, TooLarge when it makes too much."""
    if len(delta) < _LEAST_DELTA:
        raise BadPack("delta is too short")
    if len(delta) <= _MOST_PREFIX:
        begin, rest = delta, b""
        if delta.startswith(b"\x14", -_INSERTED_ID):
            begin, rest = delta[:-_INSERTED_ID], delta[1 - _INSERTED_ID :]
        source, target, at, copied = _one_copy(begin)
        if source == len(base) and at + copied <= source and copied + len(rest) == target <= most:
            return base[at : at + copied] + rest
    try:
        source, at = _read_varint(delta, 0)
        target, at = _read_varint(delta, at)
        if source != len(base):
            raise BadPack("delta is for another base")
        if not target:
            raise BadPack("delta makes nothing")
        if target > most:
            raise TooLarge(kind, target)
        out = _run_delta(base, delta, at, target)
    except IndexError as error:
        raise BadPack("delta is cut") from error
    if len(out) != target:
        raise BadPack("delta makes another size than it says")
    return out


@lru_cache(maxsize=16384)
def _one_copy(delta: bytes) -> tuple[int, int, int, int]:
    """(size of the base, size of what is made, what is copied from where) of a delta that copies once; else -1."""
    with suppress(IndexError, BadPack):
        source, at = _read_varint(delta, 0)
        target, at = _read_varint(delta, at)
        if delta[at] & 0x80:
            offset, copied, at = _read_copy(delta, at)
            if at == len(delta):
                return source, target, offset, copied
    return -1, -1, -1, -1


def _run_delta(base: bytes, delta: bytes, at: int, target: int) -> bytes:
    parts = []
    end = len(delta)
    made = 0
    while at < end:
        op = delta[at]
        if op & 0x80:
            offset, size, at = _read_copy(delta, at)
            if offset + size > len(base):
                raise BadPack("delta copies from outside its base")
            parts.append(base[offset : offset + size])
        elif op:
            size = op
            if at + size >= end:
                raise BadPack("delta is cut")
            parts.append(delta[at + 1 : at + 1 + size])
            at += 1 + size
        else:
            raise BadPack("delta has a reserved instruction")
        made += size
        if made > target:  # at once: four bytes of delta can copy 16 MiB
            raise BadPack("delta makes more than it says")
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _read_copy(delta: bytes, at: int) -> tuple[int, int, int]:
    """(offset, size, where the next instruction is) of the copy instruction at ``at``."""
    op = delta[at]
    at += 1
    offset = size = 0
    for bit in range(4):
        if op & (1 << bit):
            offset |= delta[at] << (8 * bit)
            at += 1
    for bit in range(3):
        if op & (0x10 << bit):
            size |= delta[at] << (8 * bit)
            at += 1
    return offset, size or 0x10000, at


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        shift += 7
        if not byte & 0x80:
            return number, at
        if shift > 60:
            raise BadPack("a size in a delta does not end")


class _Look(NamedTuple):
    """What a look at the folder has shown: the names of all indexes, and the packs that could be opened."""

    names: frozenset[str]
    packs: dict[str, Pack]


class Packs:
    """All packs of one ``objects/pack`` folder. Looks again at the folder when an object is not found.

    Safe to share between threads without a lock: a look is replaced as a whole, and each thread uses its own.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._look = _Look(frozenset(), {})
        self._last: Pack | None = None

    def read(self, oid: bytes, most: int = MAX_OBJECT) -> tuple[bytes, bytes] | None:
        """(kind, content) from whichever pack has the object; None when none has. Raises BadPack, TooLarge."""
        last = self._last
        offset = last.offset_next(oid) if last is not None else None
        found = self._locate(oid) if last is None or offset is None else (last, offset)
        if found is None:
            return None
        try:
            return found[0].read_at(found[1], most)
        except (TooLarge, BadIndex):
            raise
        except BadPack:
            # As git does: what cannot be unpacked here may be good in another pack.
            for other in self._look.packs.values():
                if other is not found[0] and (offset := other.offset(oid)) is not None:
                    return other.read_at(offset, most)
            raise

    def asked_first(self) -> Pack | None:
        """The pack that is asked for an object before all others: that of the last one."""
        return self._last

    def behind(self, oid: bytes, most: int = MAX_OBJECT) -> Iterator[tuple[bytes, bytes, int]]:
        """What lies behind an object in its pack, as far as it can be read: a guess at what is wanted next."""
        with suppress(BadPack, IndexError, OSError):
            found = self._locate(oid, False)
            if found is not None:
                yield from found[0].behind(found[1], most)

    def has(self, oid: bytes, *, refresh: bool) -> bool:
        """Whether a pack has the object; without ``refresh``, one of the packs seen so far."""
        return self._locate(oid, refresh) is not None

    def _locate(self, oid: bytes, refresh: bool = True) -> tuple[Pack, int] | None:
        look = self._look
        same = 0
        while True:
            found = self._among(look, oid)
            # A pack can be folded into a new one while the folder is listed, and be in neither place of the list:
            # nothing is missing before two looks in a row have shown the same.
            if found is not None or not refresh or same == 2:
                return found
            before, look = look, self._look_again()
            same = same + 1 if look.names == before.names else 0

    def _among(self, look: _Look, oid: bytes) -> tuple[Pack, int] | None:
        # Neighbours in time are neighbours in a pack: ask the one of the last time first.
        last = self._last
        if last is not None and (offset := last.offset(oid)) is not None:
            return last, offset
        for pack in look.packs.values():
            if pack is not last and (offset := pack.offset(oid)) is not None:
                self._last = pack
                if last is not None:
                    last.forget()
                return pack, offset
        return None

    def refresh(self) -> bool:
        """Look at the folder again. True when its packs have changed."""
        before = self._look.names
        # Who asks for ids here and there, as an import does, would in time have all indexes in memory.
        for pack in self._look.packs.values():
            pack.give_back()
        return self._look_again().names != before

    def _look_again(self) -> _Look:
        try:
            names = frozenset(name for name in os.listdir(self.folder) if name.endswith(".idx"))
        except (FileNotFoundError, NotADirectoryError):
            names = frozenset()
        before = self._look
        if names == before.names:
            return before
        packs = {name: pack for name, pack in before.packs.items() if name in names}
        for name in names - packs.keys():
            # Deleted since the listing, or damaged: its objects are missing unless they are elsewhere too.
            with suppress(FileNotFoundError, NotRegular, BadPack):
                # Not `with_suffix`, for which the name ``.idx`` has none.
                packs[name] = Pack(self.folder / f"{name[:-4]}.pack")
        if self._last is not None:
            self._last.forget()
        self._last = None
        self._look = look = _Look(names, packs)
        return look
