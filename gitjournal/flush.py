"""From events to git: derive their commits, write one pack, move the ref (docs/format.md sections 5 to 7).

Floor 2. The writer of a branch and the beginning of a branch both end here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from gitjournal.event import Event
from gitjournal.objects import LEAF_SPAN, MIDDLE_SPAN, Derived, Deriver, FileBlob
from gitjournal.pack import BLOB, COMMIT, MOST_COPIED, TREE, PackObject, Prefix
from gitjournal.rules import MAX_SEQ
from gitjournal.store import Store

# How many events share a leaf, a middle and a root tree.
_SPANS = (LEAF_SPAN, MIDDLE_SPAN, MAX_SEQ + 1)


class Pending(NamedTuple):
    """An event with its place, and the content of its side files."""

    event: Event
    files: Sequence[FileBlob] = ()


def publish(
    store: Store,
    deriver: Deriver,
    items: Sequence[Pending],
    ref: str,
    old: bytes | None,
    note: str,
    sync: bool,
) -> list[bytes]:
    """Derive the commits of ``items``, write one pack, move ``ref`` from ``old`` to the last; the commit ids.

    Advances ``deriver``. The pack is kept from git's gc until the ref reaches it.
    """
    made = _Packing()
    for item in items:
        made.add(deriver.push(item.event, [file.oid for file in item.files]), item)
    store.refresh()
    # Commits that exist come from a flush that was cut, or from a branch, and so does all that belongs to them.
    known = next((n for n, oid in enumerate(made.commits) if not store.has(oid, refresh=False)), len(items))
    fresh = made.objects(known, lambda oid: store.has(oid, refresh=False))
    written = store.write_pack(fresh, keep=note, sync=sync) if fresh else None
    store.cas_ref(ref, old, made.commits[-1])
    if written is not None:
        store.release(written)
    return made.commits


class _Packing:
    """The objects of a flush on their way into a pack.

    Of the trees only the newest of each page is held: the older ones are its prefixes (section 5), and a flush of
    thousands of events would else hold thousands of trees.
    """

    def __init__(self) -> None:
        self.commits: list[bytes] = []
        self._parts: list[tuple[tuple[bytes, bytes], tuple[bytes, bytes], Pending]] = []
        self._newest: dict[tuple[int, int], tuple[bytes, bytes]] = {}
        self._trees: list[list[tuple[tuple[int, int], bytes, int, bytes]]] = []

    def add(self, derived: Derived, item: Pending) -> None:
        seq = derived.seq
        versions = []
        for level, (oid, tree) in enumerate(derived.trees):
            page = (level, seq // _SPANS[level])
            self._newest[page] = (oid, tree)
            versions.append((page, oid, len(tree), tree[-20:] if level else b""))
        self._trees.append(versions)
        self.commits.append(derived.commit[0])
        self._parts.append((derived.commit, derived.blob, item))

    def objects(self, first: int, exists: Callable[[bytes], bool]) -> list[PackObject]:
        """Those of the events from number ``first`` on: commits and trees newest first (as deltas need them), then
        blobs as they will be read. Side files may exist for other reasons, so each is looked up."""
        out: dict[bytes, PackObject] = {}
        for commit, _, _ in reversed(self._parts[first:]):
            out[commit[0]] = (COMMIT, *commit)
        for versions in reversed(self._trees[first:]):
            for page, oid, size, tail in versions:
                out.setdefault(oid, (TREE, oid, self._tree(page, oid, size, tail)))
        for _, blob, item in self._parts[first:]:
            for file in item.files:
                if file.oid not in out and not exists(file.oid):
                    out[file.oid] = (BLOB, file.oid, file.data)
            out.setdefault(blob[0], (BLOB, *blob))
        return list(out.values())

    def _tree(self, page: tuple[int, int], oid: bytes, size: int, tail: bytes) -> bytes | Prefix:
        base, content = self._newest[page]
        copied = size - len(tail)
        # A first tree of a page has nothing to copy; one beyond the reach of an instruction is written whole.
        if oid == base:
            return content
        if copied == 0 or copied > MOST_COPIED:
            return content[:copied] + tail
        return Prefix(base, len(content), copied, tail)
