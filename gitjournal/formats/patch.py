"""Bytes as a patch on other bytes: what both have is said once.

A patch is whole numbers in base 128, low digits first: each ``2 n`` before ``n`` bytes of text, or ``2 n + 1`` before
the distance from where the last copy ended to where the next ``n`` bytes of the other begin.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from hashlib import sha256
from typing import BinaryIO

from gitjournal.errors import FormatError
from gitjournal.formats.source import joined

#: One that is made has not many more bytes.
MOST_PATCH = 64 * 1024 * 1024


class Patch:
    """A patch being made; ``at`` of `copy` never goes back."""

    def __init__(self) -> None:
        self._out = bytearray()
        self._text = bytearray()
        self._copied = self._at = self._end = 0

    def __len__(self) -> int:
        return len(self._out) + len(self._text)

    def copy(self, at: int, size: int) -> None:
        """The next ``size`` bytes are those of the base from ``at`` on."""
        if not size:
            return
        if not self._text and at == self._at + self._copied:
            self._copied += size
            return
        self._flush()
        self._at, self._copied = at, size

    def text(self, raw: bytes) -> None:
        """The next bytes are these."""
        if raw:
            self._flush_copy()
            self._text += raw

    def whole(self) -> bytes:
        """All of it."""
        self._flush()
        return bytes(self._out)

    def _flush(self) -> None:
        if self._text:
            self._number(2 * len(self._text))
            self._out += self._text
            self._text.clear()
        self._flush_copy()

    def _flush_copy(self) -> None:
        if self._copied:
            self._number(2 * self._copied + 1)
            self._number(self._at - self._end)
            self._end = self._at + self._copied
            self._at, self._copied = self._end, 0

    def _number(self, number: int) -> None:
        while number > 0x7F:
            self._out.append(0x80 | number & 0x7F)
            number >>= 7
        self._out.append(number)


def patched(patch: bytes, pieces: Iterator[bytes]) -> Iterator[bytes]:
    """The bytes that a patch makes of a base. FormatError ``bad-file`` when it does not fit."""
    source, at = joined(pieces), 0
    while at < len(patch):
        number, at = _read_number(patch, at)
        size = number >> 1
        if not number & 1:
            if at + size > len(patch):
                raise FormatError("bad-file", "the patch of a copied part is cut")
            yield patch[at : at + size]
            at += size
            continue
        skip, at = _read_number(patch, at)
        for _ in _take(source, skip):
            pass
        yield from _take(source, size)


def makes(patch: bytes, pieces: Iterable[bytes], digest: bytes) -> bool:
    """Whether a patch makes of a base the bytes that have this SHA-256."""
    made = sha256()
    try:
        for piece in patched(patch, iter(pieces)):
            made.update(piece)
    except FormatError:
        return False
    return made.digest() == digest


def _take(source: BinaryIO, size: int) -> Iterator[bytes]:
    while size:
        piece = source.read(min(size, 1 << 20))
        if not piece:
            raise FormatError("bad-file", "the patch of a copied part goes beyond what it was made for")
        size -= len(piece)
        yield piece


def _read_number(patch: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while at < len(patch) and shift < 63:
        byte = patch[at]
        number |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return number, at
    raise FormatError("bad-file", "the patch of a copied part is cut")
