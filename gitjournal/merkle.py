"""The Merkle tree over event hashes that seals and proofs speak of: RFC 9162 section 2.1, with SHA-256.

Floor 0, pure. docs/verification.md section 9 has the rules. The leaves are event hashes of 32 bytes, one after the
other in one buffer. Nothing is stored: whoever makes a proof hashes them again, a second for a million.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from struct import Struct

from gitjournal.errors import UsageError

HASH_BYTES = 32
#: Event hashes, in order, without anything between them.
Hashes = bytes | bytearray | memoryview

# As many leaves are hashed at a time: a level of them is small, and the loops are long enough to be quick.
_BLOCK_HEIGHT = 12
_BLOCK_BYTES = HASH_BYTES << _BLOCK_HEIGHT
_leaves = Struct("32s").iter_unpack
_pairs = Struct("64s").iter_unpack


def leaf_hash(event_hash: bytes) -> bytes:
    """Hash of a leaf. The first byte keeps a leaf from passing for a node."""
    return sha256(b"\x00" + event_hash).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    """Hash of a node over its two children."""
    return sha256(b"\x01" + left + right).digest()


class Frontier:
    """The tree of all event hashes appended so far, as the roots of its perfect subtrees: at most 27 of them."""

    __slots__ = ("_peaks", "size")

    def __init__(self, hashes: Hashes = b"") -> None:
        #: How many event hashes the tree has.
        self.size = 0
        # From left to right, one for each bit of size that is set, the highest bit first.
        self._peaks: list[bytes] = []
        _count(hashes)
        with memoryview(hashes) as view:
            whole = len(view) - len(view) % _BLOCK_BYTES
            for at in range(0, whole, _BLOCK_BYTES):
                self._push(_block_root(view[at : at + _BLOCK_BYTES]), _BLOCK_HEIGHT)
            for at in range(whole, len(view), HASH_BYTES):
                self.append(bytes(view[at : at + HASH_BYTES]))

    def append(self, event_hash: bytes) -> None:
        """Add the hash (32 bytes) of the next event."""
        if len(event_hash) != HASH_BYTES:
            raise UsageError(f"an event hash has {HASH_BYTES} bytes, this one has {len(event_hash)}")
        self._push(leaf_hash(event_hash), 0)

    def _push(self, peak: bytes, height: int) -> None:
        carry = self.size >> height
        while carry & 1:
            peak = node_hash(self._peaks.pop(), peak)
            carry >>= 1
        self._peaks.append(peak)
        self.size += 1 << height

    def root(self) -> bytes:
        """The Merkle tree hash; that of the empty text when there are no leaves."""
        if not self._peaks:
            return sha256().digest()
        *left, out = self._peaks
        for peak in reversed(left):
            out = node_hash(peak, out)
        return out


def root(hashes: Hashes) -> bytes:
    """The Merkle tree hash over ``hashes``."""
    return Frontier(hashes).root()


def inclusion_path(hashes: Hashes, index: int, size: int) -> list[bytes]:
    """Proof that leaf ``index`` (from 0) is in the tree over the first ``size`` hashes, from the leaf upwards."""
    if not 0 <= index < size <= _count(hashes):
        raise UsageError(f"no leaf {index} in a tree of {size} of {_count(hashes)} event hashes")
    path: list[bytes] = []
    start, end = 0, size
    with memoryview(hashes) as view:
        # Downwards: the half that the leaf is not in is one hash of the path.
        while end - start > 1:
            middle = start + _split(end - start)
            if index < middle:
                path.append(_range_root(view, middle, end))
                end = middle
            else:
                path.append(_range_root(view, start, middle))
                start = middle
    return path[::-1]


def consistency_path(hashes: Hashes, first: int, second: int) -> list[bytes]:
    """Proof that the tree over the first ``first`` hashes is the beginning of that over ``second``; empty if equal."""
    if not 1 <= first <= second <= _count(hashes):
        raise UsageError(f"no trees of {first} and {second} among {_count(hashes)} event hashes")
    path: list[bytes] = []
    start, end = 0, second
    with memoryview(hashes) as view:
        while first != end:
            middle = start + _split(end - start)
            if first <= middle:
                path.append(_range_root(view, middle, end))
                end = middle
            else:
                path.append(_range_root(view, start, middle))
                start = middle
        # The first tree itself is known to whoever checks; what is left of it beside others is not.
        if start:
            path.append(_range_root(view, start, end))
    return path[::-1]


def verify_inclusion(leaf: bytes, index: int, size: int, path: Sequence[bytes], root: bytes) -> bool:
    """Whether ``path`` leads from the event hash ``leaf`` at ``index`` to ``root`` (RFC 9162 section 2.1.3.2)."""
    if not 0 <= index < size or not _are_hashes(leaf, root, *path):
        return False
    place, last = index, size - 1
    found = leaf_hash(leaf)
    for step in path:
        if last == 0:
            return False
        if place & 1 or place == last:
            found = node_hash(step, found)
            # A last node without a neighbour goes up as it is.
            while place and not place & 1:
                place, last = place >> 1, last >> 1
        else:
            found = node_hash(found, step)
        place, last = place >> 1, last >> 1
    return last == 0 and found == root


def verify_consistency(first: int, second: int, first_root: bytes, second_root: bytes, path: Sequence[bytes]) -> bool:
    """Whether ``path`` shows that the first tree is the beginning of the second (RFC 9162 section 2.1.4.2).

    An empty tree begins every other one, so a proof of it would say nothing: ``first`` is 1 or more.
    """
    if not 1 <= first <= second or not _are_hashes(first_root, second_root, *path):
        return False
    if first == second:
        return not path and first_root == second_root
    if not path:
        return False
    # The first tree is one node of the second when its size is a power of two, and is then not in the path.
    steps = [first_root, *path] if first & (first - 1) == 0 else path
    place, last = first - 1, second - 1
    while place & 1:
        place, last = place >> 1, last >> 1
    old = new = steps[0]
    for step in steps[1:]:
        if last == 0:
            return False
        if place & 1 or place == last:
            old, new = node_hash(step, old), node_hash(step, new)
            while place and not place & 1:
                place, last = place >> 1, last >> 1
        else:
            new = node_hash(new, step)
        place, last = place >> 1, last >> 1
    return last == 0 and old == first_root and new == second_root


def _are_hashes(*values: bytes) -> bool:
    return all(len(value) == HASH_BYTES for value in values)


def _count(hashes: Hashes) -> int:
    count, rest = divmod(len(hashes), HASH_BYTES)
    if rest:
        raise UsageError(f"{len(hashes)} bytes are no event hashes of {HASH_BYTES} bytes each")
    return count


def _split(size: int) -> int:
    """The largest power of two below ``size``, which is 2 or more."""
    return 1 << ((size - 1).bit_length() - 1)


def _range_root(view: memoryview, start: int, end: int) -> bytes:
    with view[start * HASH_BYTES : end * HASH_BYTES] as part:
        return Frontier(part).root()


def _block_root(block: memoryview) -> bytes:
    """Root over a number of leaves that is a power of two, level by level."""
    level = b"".join([sha256(b"\x00" + leaf).digest() for (leaf,) in _leaves(block)])
    while len(level) > HASH_BYTES:
        level = b"".join([sha256(b"\x01" + pair).digest() for (pair,) in _pairs(level)])
    return level
