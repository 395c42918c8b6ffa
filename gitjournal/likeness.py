"""What one text has of another: for patches and deltas of records, events and commits, which are much alike.

Floor 0, pure. Texts are compared piece by piece, not byte by byte: JSON between quotes, a commit between spaces.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import Protocol

# How far ahead a short piece may stand and still be taken for the same; a long one may stand anywhere.
_NEAR = 8
_LONG = 24


class Sink(Protocol):
    """Takes the description of a text, from its beginning to its end."""

    def copy(self, at: int, size: int) -> None:
        """The next ``size`` bytes are those of the other text from ``at`` on, which never goes back."""

    def text(self, raw: bytes) -> None:
        """The next bytes are these."""


def describe(sink: Sink, ours: bytes, theirs: bytes, at: int = 0, between: bytes = b'"') -> None:
    """Say ``ours`` as what it has of ``theirs``, which begins at ``at``. Linear in both."""
    if ours == theirs:
        sink.copy(at, len(ours))
        return
    places = [at]
    spots: dict[bytes, list[int]] = {}
    for n, piece in enumerate(theirs.split(between)):
        places.append(places[-1] + len(piece) + 1)
        spots.setdefault(piece, []).append(n)
    after = 0
    for n, piece in enumerate(ours.split(between)):
        found = _next(spots.get(piece), after, piece)
        if found < 0:
            sink.text(between + piece if n else piece)
            continue
        if n and found:
            # With what stands between it and the piece before.
            sink.copy(places[found] - 1, len(piece) + 1)
        else:
            sink.text(between if n else b"")
            sink.copy(places[found], len(piece))
        after = found + 1


def _next(spots: list[int] | None, at: int, piece: bytes) -> int:
    """Where the piece stands next, if that is near enough to mean something; else -1."""
    if spots is None:
        return -1
    n = bisect_left(spots, at)
    if n == len(spots) or (spots[n] - at > _NEAR and len(piece) < _LONG):
        return -1
    return spots[n]
