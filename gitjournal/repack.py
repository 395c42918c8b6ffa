"""Write a journal's packs anew, as one pack with pages, or a few if it is large.

Floor 1. git looks for deltas by name and size; here it is known what is like what: events, their records and their
commits are like those before them (`pages`), and a tree is the beginning of a newer one. No object is left out,
reachable or not, so nothing that a writer or a tail relies on can go; only old pages, whose objects are on new ones.
The new packs are complete and were read back before an old one is removed.
"""

from __future__ import annotations

import stat
import time
import zlib
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from hashlib import sha1
from itertools import chain, islice
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
# What is larger is read and written piece by piece; a tree is not, to be the beginning of another one.
_LARGE = 1024 * 1024
# So many objects are written into one pack: what is known of each until it ends would else fill the memory.
_MOST_OBJECTS = 1_500_000
# Seconds after which nobody writes on.
_ABANDONED = 3600
_KINDS = {kind: number for number, kind in packwalk.KINDS.items()}
_FOREIGN = (".keep", ".promisor", ".mtimes")

Progress = Callable[[int, int], None]
Dangling = Callable[[], Collection[bytes]]


class Saved(NamedTuple):
    """Bytes of the packs with their indexes, before and after; objects in the new ones but for their pages."""

    before: int
    after: int
    objects: int


def repack(
    folder: Path, lock: Path, secret: bytes, dangling: Dangling, progress: Progress | None = None
) -> Saved | None:
    """Join the packs in ``folder`` (``objects/pack``); None when another process is at it, or there is none.

    ``lock`` keeps two processes from it, ``secret`` is the key of the journal's pages. ``dangling`` gives the ids of
    the objects that no ref, log or other object leads to: of those pages are left out, loose ones as well. Packs with
    a ``.keep``, those of a partial clone and cruft stay as they are. Raises StorageError; VerificationError for an
    object that cannot be read or is not what its id says, and then nothing has changed.
    """
    with disk_errors(f"repack {folder}"), tiers.only_one(lock) as alone:
        for path in left_over(folder) if alone else ():
            path.unlink(missing_ok=True)
        packs = _ours(folder) if alone else []
        if not packs:
            return None
        before = sum(map(_size, packs))
        written = _Writing(packs, secret, dangling, progress)
        old = {one.path for one in packs}
        made: list[Path] = []
        try:
            while written.goes_on():
                made.append(pack.publish(folder, None, written.fill, keep=None, sync=True))
            for path in made:
                _check(path)
        except BaseException:
            for path in set(made) - old:
                _remove(path)
            raise
        for path in old.difference(made):
            _remove(path)
        _remove_loose(folder.parent, secret, dangling)
        return Saved(before, sum(_size(Pack(path)) for path in made), written.count)


def left_over(folder: Path) -> dict[Path, int]:
    """The files of packs that were never finished, as a git or gj that was killed leaves them: their sizes. OSError."""
    found: dict[Path, int] = {}
    for path in folder.glob("tmp_*"):
        # One that is finished at this moment has another name now.
        with suppress(FileNotFoundError):
            status = path.lstat()
            # Who is still at it has written within the hour: git prune counts so as well.
            if stat.S_ISREG(status.st_mode) and time.time() - status.st_mtime > _ABANDONED:
                found[path] = status.st_size
    return found


def _remove(path: Path) -> None:
    """Remove a pack: the index first, so that nothing finds the pack and then not its bytes."""
    for suffix in (".idx", ".rev", ".bitmap", ".pack"):
        with suppress(FileNotFoundError):
            path.with_suffix(suffix).unlink()


def _remove_loose(folder: Path, secret: bytes, dangling: Dangling) -> None:
    """Remove the pages that ``git gc`` has made loose objects of."""
    for oid in dangling() if any(folder.glob("[0-9a-f][0-9a-f]/*")) else ():
        with suppress(OSError, loose.BadLoose, TooLarge):
            found = loose.read(folder, oid, 2 * pages.PAGE)
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


class _Object(NamedTuple):
    """An object to be written: its content, or None for one that is `_LARGE`, with the pack that has it and where."""

    oid: bytes
    kind: bytes
    content: bytes | None
    pack: Pack
    offset: int


class _Writing:
    """The new packs on their way: each object once, in the order in which they stand in the old ones; new pages."""

    def __init__(self, packs: list[Pack], secret: bytes, dangling: Dangling, progress: Progress | None) -> None:
        self._packs = packs
        self._secret = secret
        self._dangling = dangling
        self._progress = progress
        self._left = self._all()
        self._next: list[_Object] = []
        self._whole: dict[bytes, deque[_Tree]] = {}
        #: Objects written, but for pages.
        self.count = 0

    def goes_on(self) -> bool:
        """Whether there is an object that is not written yet. VerificationError."""
        self._next = list(islice(self._left, 1))
        return bool(self._next)

    def fill(self, out: pack.Out) -> Iterable[pack.Entry]:
        """Write what goes into one pack of what is left; the lines of its index in id order. VerificationError."""
        out.entries = lines = pack.Lines()
        new = pages.Pages(out, self._secret, _best)
        # A delta is of what is in the same pack.
        self._whole = {}
        for found in islice(chain(self._next, self._left), _MOST_OBJECTS):
            self._put(out, new, found)
        new.close()
        return lines

    def _all(self) -> Iterator[_Object]:
        """All objects, but for old pages."""
        repeated, seen = _repeated(self._packs), set[bytes]()
        done, count = 0, sum(one.count for one in self._packs)
        pages_there: dict[bytes, tuple[Pack, int]] = {}
        for one in self._packs:
            for offset, oid in one.by_place():
                done += 1
                if self._progress and done % 1000 == 0:
                    self._progress(done, count)
                if oid in seen:
                    continue
                if oid in repeated:
                    seen.add(oid)
                found = _read(one, oid, offset)
                if found.content is not None and pages.is_page(found.content, self._secret):
                    pages_there[oid] = one, offset
                else:
                    yield found
            one.rest()
        # A file of a session may have the very bytes of a page, and a ref may lead to one.
        for oid in pages_there.keys() - set(self._dangling()) if pages_there else ():
            one, offset = pages_there[oid]
            yield _read(one, oid, offset)

    def _put(self, out: pack.Out, new: pages.Pages, found: _Object) -> None:
        self.count += 1
        if found.content is None:
            kind, size, pieces = _large(found)
            out.add_pieces(found.oid, pack.entry_header(_KINDS[kind], size), _deflated(pieces))
        elif found.kind == b"tree":
            out.add(found.oid, self._tree(found.content, out.offset))
        else:
            new.add(_KINDS[found.kind], found.oid, found.content)

    def _tree(self, content: bytes, offset: int) -> bytes:
        whole = pack.entry_header(pack.TREE, len(content)) + _best(content)
        # Leaf, middle and root trees begin with another mode, and the upper ones have longer or shorter names.
        earlier = self._whole.setdefault(content[:9], deque(maxlen=_WINDOW))
        best = whole
        for base in reversed(earlier):
            same = min(_common(content, base.content), pack.MOST_COPIED)
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


def _repeated(packs: list[Pack]) -> set[bytes]:
    """The ids that stand more than once in the indexes of these packs."""
    found: set[bytes] = set()
    for first in range(256):
        seen: set[bytes] = set()
        for one in packs:
            for oid, _, _ in one.entries(first):
                (found if oid in seen else seen).add(oid)
            one.give_back()
    return found


def _read(one: Pack, oid: bytes, offset: int) -> _Object:
    try:
        try:
            kind, content = one.read_at(offset, _LARGE)
        except TooLarge:
            found = one.whole(offset)
            if found is not None and found[0] != b"tree":
                return _Object(oid, found[0], None, one, offset)
            kind, content = one.read_at(offset)
    except BadPack as error:
        raise VerificationError("bad-object", f"object {oid.hex()} cannot be read: {error}", oid=oid.hex()) from None
    if git_id(kind, content) != oid:
        raise _another(oid)
    return _Object(oid, kind, content, one, offset)


def _another(oid: bytes) -> VerificationError:
    return VerificationError("bad-object", f"object {oid.hex()} is not what its id says", oid=oid.hex())


def _large(one: _Object) -> tuple[bytes, int, Iterator[bytes]]:
    """Kind, size and content, piece by piece, of an object that is not held. VerificationError behind the last one."""
    found = one.pack.whole(one.offset)
    if found is None:
        raise _another(one.oid)
    kind, size, pieces = found
    return kind, size, _checked(one.oid, kind, size, pieces)


def _checked(oid: bytes, kind: bytes, size: int, pieces: Iterable[bytes]) -> Iterator[bytes]:
    """The pieces of an object; behind the last one VerificationError if they are not what its id says."""
    digest, done = sha1(b"%s %d\x00" % (kind, size)), 0
    for piece in pieces:
        digest.update(piece)
        done += len(piece)
        yield piece
    if done != size or digest.digest() != oid:
        raise _another(oid)


def _deflated(pieces: Iterable[bytes]) -> Iterator[bytes]:
    packer = zlib.compressobj(9)
    for piece in pieces:
        yield packer.compress(piece)
    yield packer.flush()


def _common(one: bytes, other: bytes) -> int:
    """How many first bytes two texts share."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if one[:middle] == other[:middle] else (low, middle - 1)
    return low


def _check(path: Path) -> None:
    """Read a new pack once more, all of it. VerificationError."""
    made = Pack(path)
    for offset, oid in made.by_place():
        found = _read(made, oid, offset)
        if found.content is None:
            # Its pieces are checked while they pass.
            deque(_large(found)[2], maxlen=0)
