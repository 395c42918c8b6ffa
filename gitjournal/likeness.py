"""What one text has of another: for patches of records, which are much alike.

Floor 0, pure. Texts are compared piece by piece, JSON between quotes, not byte by byte.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import Protocol

# How far ahead a short piece may stand and still be taken for the same; a long one may stand anywhere.
_NEAR = 8
_LONG = 24
_BETWEEN = b'"'


class Sink(Protocol):
    """Takes the description of a text, from its beginning to its end."""

    def copy(self, at: int, size: int) -> None:
        """The next ``size`` bytes are those of the other text from ``at`` on, which never goes back."""

    def text(self, raw: bytes) -> None:
        """The next bytes are these."""


def describe(sink: Sink, ours: bytes, theirs: bytes, at: int = 0) -> None:
    """Say ``ours`` as what it has of ``theirs``, which begins at ``at``. Linear in both."""
    if ours == theirs:
        sink.copy(at, len(ours))
        return
    places = [at]
    spots: dict[bytes, list[int]] = {}
    for n, piece in enumerate(theirs.split(_BETWEEN)):
        places.append(places[-1] + len(piece) + 1)
        spots.setdefault(piece, []).append(n)
    after = 0
    for n, piece in enumerate(ours.split(_BETWEEN)):
        found = _next(spots.get(piece), after, piece)
        if found < 0:
            sink.text(_BETWEEN + piece if n else piece)
            continue
        if n and found:
            # With what stands between it and the piece before.
            sink.copy(places[found] - 1, len(piece) + 1)
        else:
            sink.text(_BETWEEN if n else b"")
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
