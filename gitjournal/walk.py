"""What a ref leads to: the commits back from a head, and the leaf trees of its tree (docs/verification.md section 8).

Floor 3. Takes a reader of raw objects, and believes nothing but what they hash to.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar

from gitjournal import objects
from gitjournal.errors import FormatError, VerificationError

if TYPE_CHECKING:
    from gitjournal.store import Store

T = TypeVar("T")
_PARENT = re.compile(rb"[^\n]*\nparent ([0-9a-f]{40})(?:\n|\Z)")


class History:
    """The ids of the commits that a ref leads to, 20 bytes each, found by walking back from the head."""

    def __init__(self, store: Store, head: bytes, last: int) -> None:
        self._ids = bytearray()
        self._last = last
        #: Faults of the walk itself.
        self.findings: list[tuple[str, int, str, str]] = []
        #: Commits that a shallow history says it does not have.
        self.left_out = 0
        #: The parent that the oldest commit reached names.
        self.parent_of_first: bytes | None = None
        self._walk(store, head)

    def _walk(self, store: Store, head: bytes) -> None:
        at: bytes | None = head
        child = head
        while at is not None and len(self._ids) < 20 * self._last:
            try:
                raw = store.read(at, b"commit")
            except VerificationError as error:
                self._end(store, error, at)
                return
            self._ids += at[::-1]
            child, at = at, _parent(raw)
            self.parent_of_first = at
        seq = self._last - len(self._ids) // 20 + 1
        if at is None and seq > 1:
            self.findings.append(("bad-commit", seq, child.hex(), "the commit names no parent, and is not the first"))
        elif at is not None:
            self.findings.append(("bad-commit", 1, at.hex(), "the commit of the first event has a parent"))

    def _end(self, store: Store, error: VerificationError, oid: bytes) -> None:
        """The walk ends before the commit ``oid``. No fault where git says that the history was cut there."""
        seq = self._last - len(self._ids) // 20
        if error.code == "missing-object" and self._ids[-20:][::-1].hex() in store.shallow_commits():
            self.left_out = seq
        else:
            self.findings.append((error.code, seq, oid.hex(), str(error)))

    def begins_with(self, ids: bytes | bytearray) -> bool:
        """Whether the oldest commits have these ids, 20 bytes each; not if the walk did not come to them."""
        return all(self.at(seq) == ids[20 * seq - 20 : 20 * seq] for seq in range(1, len(ids) // 20 + 1))

    def at(self, seq: int) -> bytes | None:
        """The id of the commit of event ``seq``, None when the walk did not come so far."""
        place = 20 * (self._last - seq)
        return bytes(self._ids[place : place + 20][::-1]) if place < len(self._ids) else None


class Pages:
    """Leaf trees of the head's tree, each checked to be in the form of section 5 as far as it is walked."""

    def __init__(self, store: Store, root: bytes) -> None:
        self._store = store
        self._root_id = root
        self._root: dict[bytes, bytes] | None = None
        self._middle: dict[bytes, bytes] = {}
        self._at = -1

    def page(self, first: int) -> dict[int, tuple[bytes, Sequence[bytes]]]:
        """The events of the leaf that holds ``first``. VerificationError when a tree is missing or malformed."""
        if self._root is None:
            self._root = self._folders(self._root_id)
        if self._at != first // objects.MIDDLE_SPAN:
            self._middle = self._folders(_named(self._root, objects.root_entry(first)))
            self._at = first // objects.MIDDLE_SPAN
        oid = _named(self._middle, objects.middle_entry(first))
        leaf = self._store.read(oid, b"tree")
        page: dict[int, tuple[bytes, Sequence[bytes]]] = {}
        with_names = _told_of(oid, objects.leaf_events(leaf))
        for seq, blob, files in with_names:
            if seq in page:
                raise VerificationError("bad-tree", f"a leaf tree has event {seq} twice", oid=oid.hex())
            page[seq] = (blob, files)
        return page

    def _folders(self, oid: bytes) -> dict[bytes, bytes]:
        entries = _told_of(oid, objects.tree_entries(self._store.read(oid, b"tree")))
        folders: dict[bytes, bytes] = {}
        for mode, name, entry in entries:
            if mode == b"40000":
                folders.setdefault(name, entry)
        return folders


def _told_of(oid: bytes, entries: Iterator[T]) -> Iterator[T]:
    """The entries of a tree; an error of its form names the tree."""
    try:
        yield from entries
    except FormatError as error:
        raise VerificationError(error.code, str(error), oid=oid.hex()) from None


def _named(tree: dict[bytes, bytes], name: bytes) -> bytes:
    if name not in tree:
        raise VerificationError("missing-object", f"the head's tree has no {name.decode()}", oid="")
    return tree[name]


def _parent(raw: bytes) -> bytes | None:
    """The parent that the second line of a commit names, whatever form the rest has."""
    match = _PARENT.match(raw)
    return bytes.fromhex(match[1].decode()) if match else None
