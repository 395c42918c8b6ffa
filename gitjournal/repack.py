"""Write a journal's packs anew, as one pack with pages.

Floor 1. git looks for deltas by name and size; here it is known what is like what: events, their records and their
commits are like those before them (`pages`), and a tree is the beginning of a newer one. No object is left out,
reachable or not, so nothing that a writer or a tail relies on can go; only old pages, whose objects are on new ones.
The new pack is complete and was read back before an old one is removed.
"""

from __future__ import annotations

import zlib
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from operator import itemgetter
from pathlib import Path
from typing import NamedTuple

from gitjournal import loose, pack, packwalk, pages, tiers
from gitjournal.errors import VerificationError, disk_errors
from gitjournal.objects import git_id
from gitjournal.packread import BadPack, Pack, TooLarge

# So many trees of a kind that were written whole are tried as the base of one.
_WINDOW = 2
# A tree that is not the beginning of another one but for so many bytes is a newer one: others will be of it.
_MOST_REST = 127
_KINDS = {kind: number for number, kind in packwalk.KINDS.items()}
_FOREIGN = (".keep", ".promisor", ".mtimes")

Progress = Callable[[int, int], None]
Dangling = Callable[[], Collection[bytes]]


class Saved(NamedTuple):
    """Bytes of the packs with their indexes, before and after; objects in the new one but for its pages."""

    before: int
    after: int
    objects: int


def repack(
    folder: Path, lock: Path, secret: bytes, dangling: Dangling, progress: Progress | None = None
) -> Saved | None:
    """Join the packs in ``folder`` (``objects/pack``) into one; None when another process is at it, or there is none.

    ``lock`` keeps two processes from it, ``secret`` is the key of the journal's pages. ``dangling`` gives the ids of
    the objects that no ref, log or other object leads to: of those pages are left out, loose ones as well. Packs with
    a ``.keep``, those of a partial clone and cruft stay as they are. Raises StorageError; VerificationError for an
    object that cannot be read or is not what its id says, and then nothing has changed.
    """
    with disk_errors(f"repack {folder}"), tiers.only_one(lock) as alone:
        packs = _ours(folder) if alone else []
        if not packs:
            return None
        before = sum(map(_size, packs))
        written = _Writing(packs, secret, dangling, progress)
        made = pack.publish(folder, None, written.fill, keep=None, sync=True)
        old = [one.path for one in packs if one.path != made]
        try:
            _check(made)
        except BaseException:
            if len(old) == len(packs):
                _remove(made)
            raise
        for path in old:
            _remove(path)
        _remove_loose(folder.parent, secret, dangling)
        return Saved(before, _size(Pack(made)), written.count)


def _remove(path: Path) -> None:
    """Remove a pack: the index first, so that nothing finds the pack and then not its bytes."""
    for suffix in (".idx", ".rev", ".bitmap", ".pack"):
        with suppress(FileNotFoundError):
            path.with_suffix(suffix).unlink()


def _remove_loose(folder: Path, secret: bytes, dangling: Dangling) -> None:
    """Remove the pages that ``git gc`` has made loose objects of."""
    for oid in dangling() if any(folder.glob("[0-9a-f][0-9a-f]/*")) else ():
        with suppress(OSError, loose.BadLoose, TooLarge):
            found = loose.read(folder, oid)
            if found and git_id(*found) == oid and pages.is_page(found[1], secret):
                (folder / oid.hex()[:2] / oid.hex()[2:]).unlink()


def _size(one: Pack) -> int:
    files = (one.path.with_suffix(suffix) for suffix in (".pack", ".idx", ".rev", ".bitmap"))
    return sum(path.stat().st_size for path in files if path.exists())


def _ours(folder: Path) -> list[Pack]:
    """The packs that may be joined, oldest first."""
    listed = tiers.listed(folder)
    found = []
    for path in sorted(folder.glob("pack-*.pack"), key=lambda path: (path.stat().st_mtime_ns, path.name)):
        foreign = any(path.with_suffix(suffix).exists() for suffix in _FOREIGN)
        index = path.with_suffix(".idx")
        if not foreign and index.exists() and index.name.encode() not in listed:
            try:
                found.append(Pack(path))
            except BadPack as error:
                raise VerificationError("bad-object", f"{path}: {error}") from None
    return found


class _Writing:
    """The new pack on its way: each object once, in the order in which they stand in the old ones; new pages."""

    def __init__(self, packs: list[Pack], secret: bytes, dangling: Dangling, progress: Progress | None) -> None:
        self._packs = packs
        self._secret = secret
        self._dangling = dangling
        self._progress = progress
        self._left = {oid for one in packs for oid, _, _ in one.entries()}
        self._whole: dict[bytes, deque[_Tree]] = {}
        #: Where the old pages are.
        self.pages: dict[bytes, tuple[Pack, int]] = {}
        #: Objects written, but for pages.
        self.count = 0

    def fill(self, out: pack.Out) -> Iterable[pack.Entry]:
        """Write all objects; the lines of the index in id order. VerificationError."""
        left, count = self._left, len(self._left)
        new = pages.Pages(out, self._secret, _best)
        for one in self._packs:
            for oid, _, offset in _by_place(one):
                if oid in left:
                    left.remove(oid)
                    kind, content = _read(one, oid, offset)
                    if pages.is_page(content, self._secret):
                        self.pages[oid] = one, offset
                    else:
                        self._put(out, new, oid, kind, content)
                    if self._progress and len(left) % 1000 == 0:
                        self._progress(count - len(left), count)
        # A file of a session may have the very bytes of a page, and a ref may lead to one.
        for oid in self.pages.keys() - set(self._dangling()) if self.pages else ():
            one, offset = self.pages[oid]
            self._put(out, new, oid, *_read(one, oid, offset))
        new.close()
        return sorted(out.entries, key=itemgetter(0))

    def _put(self, out: pack.Out, new: pages.Pages, oid: bytes, kind: bytes, content: bytes) -> None:
        self.count += 1
        if kind == b"tree":
            out.add(oid, self._tree(content, out.offset))
        else:
            new.add(_KINDS[kind], oid, content)

    def _tree(self, content: bytes, offset: int) -> bytes:
        whole = pack.entry_header(pack.TREE, len(content)) + _best(content)
        # Leaf, middle and root trees begin with another mode, and the upper ones have longer or shorter names.
        earlier = self._whole.setdefault(content[:9], deque(maxlen=_WINDOW))
        best = whole
        for base in reversed(earlier):
            same = _common(content, base.content)
            if len(content) - same <= _MOST_REST:
                delta = pack.prefixed(len(base.content), same, content[same:])
                head = pack.entry_header(pack.OFS_DELTA, len(delta)) + pack.offset_header(offset - base.offset)
                best = min(best, head + _best(delta), key=len)
        if best is whole:
            # They come newest first, and all older ones of a page are the beginning of that one.
            earlier.append(_Tree(content, offset))
        return best


class _Tree(NamedTuple):
    """A tree that was written whole."""

    content: bytes
    offset: int


def _best(data: bytes) -> bytes:
    return zlib.compress(data, 9)


def _read(one: Pack, oid: bytes, offset: int) -> tuple[bytes, bytes]:
    try:
        kind, content = one.read_at(offset)
    except BadPack as error:
        raise VerificationError("bad-object", f"object {oid.hex()} cannot be read: {error}", oid=oid.hex()) from None
    if git_id(kind, content) != oid:
        raise VerificationError("bad-object", f"object {oid.hex()} is not what its id says", oid=oid.hex())
    return kind, content


def _common(one: bytes, other: bytes) -> int:
    """How many first bytes two texts share."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if one[:middle] == other[:middle] else (low, middle - 1)
    return low


def _check(path: Path) -> None:
    """Read the new pack once more, all of it. VerificationError."""
    made = Pack(path)
    for oid, _, offset in _by_place(made):
        _read(made, oid, offset)


def _by_place(one: Pack) -> Iterator[pack.Entry]:
    yield from sorted(one.entries(), key=itemgetter(2))
