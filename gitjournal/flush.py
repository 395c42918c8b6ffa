"""From events to git: derive their commits, write one pack, move the ref (docs/format.md sections 5 to 7).

Floor 2. The writer of a branch and the beginning of a branch both end here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from gitjournal.event import Event
from gitjournal.files import sync_folder
from gitjournal.objects import LEAF_SPAN, MIDDLE_SPAN, Derived, Deriver, FileBlob
from gitjournal.pack import BLOB, COMMIT, MOST_COPIED, TREE, PackObject, Prefix
from gitjournal.store import Store

#: The armoured SSHSIG of an event's commit (its bytes without one), None when it is not signed.
Sign = Callable[[Event, bytes], str | None]


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
    sign: Sign | None = None,
    *,
    paged: bool = False,
) -> list[bytes]:
    """Derive the commits of ``items``, write one pack, move ``ref`` from ``old`` to the last; the commit ids.

    ``sign`` says the signature of each commit that gets one, ``paged`` that the pack has `pages`. Advances
    ``deriver``. The pack is kept from git's gc until the ref reaches it.
    """
    made = Packing()
    for item in items:
        derived = deriver.push(item.event, [file.oid for file in item.files])
        signature = sign(item.event, derived.commit[1]) if sign else None
        if signature:
            derived = derived._replace(commit=deriver.sign(item.event, signature))
        made.add(derived, item)
    store.refresh()
    # Commits that exist come from a flush that was cut, or from a branch, and so does all that belongs to them.
    known = next((n for n, oid in enumerate(made.commits) if not store.has(oid, refresh=False)), len(items))
    if known:
        # Who wrote them may have died before their names were on disk, and this flush ends by clearing the tail.
        sync_folder(store.pack_folder)
    made.drop(known, lambda oid: store.has(oid, refresh=False))
    written = _written(store, made, note, paged) if len(made) else None
    store.cas_ref(ref, old, deriver.head or b"")
    if written is not None:
        store.release(written)
    return made.commits


def _written(store: Store, made: Packing, note: str, paged: bool) -> Path:
    return store.write_pages(made.by_event(), keep=note) if paged else store.write_pack(made, keep=note)


class Packing:
    """The objects of a flush on their way into a pack: commits and trees newest first, then blobs in order.

    Of the trees only the newest of each page is held: the older ones are its prefixes (section 5), and a flush of
    thousands of events would else hold thousands of trees.
    """

    def __init__(self) -> None:
        #: Ids of all commits added, oldest first.
        self.commits: list[bytes] = []
        self._first = 0
        self._bodies: list[bytes] = []
        self._blobs: list[tuple[bytes, bytes]] = []
        # For each event its side files; one that several have stands at the first.
        self._files: list[dict[bytes, bytes]] = []
        self._seen: set[bytes] = set()
        # For each event the ids of its three trees, and (by level and page) the newest whole.
        self._trees: list[tuple[int, bytes, bytes, bytes]] = []
        self._sizes: list[tuple[int, int, int]] = []
        self._newest: dict[tuple[int, int], tuple[bytes, bytes]] = {}

    def add(self, derived: Derived, item: Pending) -> None:
        """Take the objects of the next event."""
        seq = derived.seq
        leaf, middle, root = derived.trees
        self._newest[0, seq // LEAF_SPAN] = leaf
        self._newest[1, seq // MIDDLE_SPAN] = middle
        self._newest[2, 0] = root
        self._trees.append((seq, leaf[0], middle[0], root[0]))
        self._sizes.append((len(leaf[1]), len(middle[1]), len(root[1])))
        self.commits.append(derived.commit[0])
        self._bodies.append(derived.commit[1])
        self._blobs.append(derived.blob)
        fresh = {file.oid: file.data for file in item.files if file.oid not in self._seen}
        self._seen.update(fresh)
        self._files.append(fresh)

    def drop(self, count: int, exists: Callable[[bytes], bool]) -> None:
        """Leave out the first ``count`` events, which are in the store, and side files that ``exists`` knows."""
        self._first = count
        self._files = [{oid: data for oid, data in files.items() if not exists(oid)} for files in self._files]

    def __len__(self) -> int:
        return 5 * (len(self.commits) - self._first) + sum(map(len, self._files))

    def __iter__(self) -> Iterator[PackObject]:
        events = range(self._first, len(self.commits))
        for n in reversed(events):
            yield COMMIT, self.commits[n], self._bodies[n]
        yield from self._all_trees()
        for files in self._files:
            for oid, data in files.items():
                yield BLOB, oid, data
        for n in events:
            yield BLOB, *self._blobs[n]

    def by_event(self) -> Iterator[PackObject]:
        """The same in the order of the events, each after its files: on `pages` what is alike stands together."""
        for n, files in enumerate(self._files):
            for oid, data in files.items():
                yield BLOB, oid, data
            if n >= self._first:
                yield BLOB, *self._blobs[n]
                yield COMMIT, self.commits[n], self._bodies[n]
        yield from self._all_trees()

    def _all_trees(self) -> Iterator[PackObject]:
        for n in reversed(range(self._first, len(self.commits))):
            seq, leaf, middle, root = self._trees[n]
            sizes = self._sizes[n]
            yield self._tree((0, seq // LEAF_SPAN), leaf, sizes[0], b"")
            # The last id of an upper tree is that of the tree below it.
            yield self._tree((1, seq // MIDDLE_SPAN), middle, sizes[1], leaf)
            yield self._tree((2, 0), root, sizes[2], middle)

    def _tree(self, page: tuple[int, int], oid: bytes, size: int, last: bytes) -> PackObject:
        base, content = self._newest[page]
        copied = size - len(last)
        if oid == base:
            return TREE, oid, content
        # Nothing to copy in a first tree, or more than one instruction reaches: whole.
        if copied == 0 or copied > MOST_COPIED:
            return TREE, oid, content[:copied] + last
        return TREE, oid, Prefix(base, len(content), copied, last)
