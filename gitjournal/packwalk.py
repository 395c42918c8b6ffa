"""Objects that lie whole, one behind the other, in a pack: as a flush writes the blobs of its events.

Floor 1. Nothing here trusts a pack: what is odd, cut, a delta or too large ends the walk; `packread` says what it is.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator

from isal import isal_zlib
from isal.igzip_lib import IsalError

from gitjournal.pack import BLOB, COMMIT, TAG, TREE

#: How much of a pack is read at once.
WINDOW = 128 * 1024
#: Kinds of objects that are no deltas, by the number that an entry of a pack has for them.
KINDS = {COMMIT: b"commit", TREE: b"tree", BLOB: b"blob", TAG: b"tag"}
# No size of an object has more bits than this.
_MOST_BITS = 60
# Type and size of an entry are no longer.
_HEAD = 16


def most_deflated(size: int) -> int:
    """How long a stream of ``size`` bytes is at the worst: deflate grows what it cannot shrink by 5 bytes in 16 KiB."""
    return size + (size >> 11) + 64


def walk(fd: int, offset: int, most: int) -> Generator[tuple[bytes, bytes, int], None, int]:
    """(kind, content, offset) of the entries of pack ``fd`` from ``offset`` on, none larger than ``most``.

    Returns the offset of the first one that is not simply there. OSError.
    """
    window, begin, at = os.pread(fd, WINDOW, offset), offset, 0
    decompressobj = isal_zlib.decompressobj
    while at < len(window):
        byte = window[at]
        number, size, shift, place = byte >> 4 & 7, byte & 15, 4, at + 1
        while byte & 0x80 and shift < _MOST_BITS and place < len(window):
            byte = window[place]
            size |= (byte & 0x7F) << shift
            shift += 7
            place += 1
        end = place + most_deflated(size)
        if end > len(window) == WINDOW and at:
            window, begin, at = os.pread(fd, WINDOW, begin + at), begin + at, 0
            continue
        # A window that is shorter ends with the pack.
        if number not in KINDS or size > most or end > len(window) == WINDOW:
            break
        stream = window[place:end]
        inflater = decompressobj()
        try:
            content = inflater.decompress(stream, size + 1)
        except IsalError:  # type: ignore[misc]  # its stub does not say that it is an exception
            break
        if len(content) != size or not inflater.eof:
            break
        yield KINDS[number], content, begin + at
        at = place + len(stream) - len(inflater.unused_data)
    return begin + at


def whole(fd: int, offset: int) -> tuple[bytes, int, Iterator[bytes]] | None:
    """(kind, size, content piece by piece) of the entry at ``offset`` of pack ``fd``; None for a delta. OSError.

    The content ends where the entry is odd or cut: who hashes it sees that.
    """
    head = os.pread(fd, _HEAD, offset)
    ends = (n for n, byte in enumerate(head) if not byte & 0x80)
    end = next(ends, None)
    if end is None or (kind := KINDS.get(head[0] >> 4 & 7)) is None:
        return None
    size = head[0] & 15 | sum((byte & 0x7F) << 7 * n + 4 for n, byte in enumerate(head[1 : end + 1]))
    return kind, size, _inflated(fd, offset + end + 1)


def _inflated(fd: int, place: int) -> Iterator[bytes]:
    inflater = isal_zlib.decompressobj()
    while not inflater.eof:
        stream = inflater.unconsumed_tail
        if not stream:
            stream = os.pread(fd, WINDOW, place)
            place += len(stream)
        if not stream:
            return
        try:
            yield inflater.decompress(stream, WINDOW)
        except IsalError:  # type: ignore[misc]  # its stub does not say that it is an exception
            return
