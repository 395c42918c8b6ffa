"""Many small objects of a pack as pieces of one page, which is deflated as a whole.

Floor 1. An event, the record it came from and its commit are much like those before them, but git deflates each object
for itself. Here blobs are laid end to end in pages, commits in pages of their own; each of them is in the pack as a
delta of one copy instruction, and the page as an object that nothing leads to. To git that is a pack like any other:
what it packs anew itself is without pages.

A page says nothing that its objects do not say, so `repack` leaves pages out and makes new ones. For that it must know
them from a file that looks like one: a page holds a keyed hash of itself, and the key stays in the journal's folder.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from hashlib import blake2b
from hmac import compare_digest
from operator import itemgetter
from pathlib import Path

from isal import isal_zlib

from gitjournal import pack
from gitjournal.errors import disk_errors
from gitjournal.files import make_once, read_regular
from gitjournal.objects import git_id

#: A page is closed before it gets larger, in bytes: who reads one object inflates a page.
PAGE = 256 * 1024
# What is larger has enough to be deflated by alone; what is smaller is no longer than a delta.
_MOST = PAGE // 2
_LEAST = 48
# So few are not worth a page.
_FEW = 4
_KEY_BYTES = 32
_MAC_BYTES = 16
# git looks at commits that nothing leads to as well: a page of commits is a good one, with the tree of the first.
_SIGN = b"gitjournal page\n"
_WHO = b"gitjournal page <page@gitjournal.invalid> 0 +0000\n"
_COMMIT = b"author " + _WHO + b"committer " + _WHO + b"\n"
_TREE = re.compile(rb"tree [0-9a-f]{40}\n")
_PAGE = re.compile(rb"(?:" + _SIGN + rb"|tree [0-9a-f]{40}\n" + re.escape(_COMMIT) + rb")([0-9a-f]{32})\n")
_KINDS = {pack.COMMIT: b"commit", pack.BLOB: b"blob"}

Deflate = Callable[[bytes], bytes]


def key(path: Path) -> bytes:
    """The journal's key for pages in the file ``path``, made when it is not there. StorageError.

    Without it (removed, or cut) old pages are kept as if they were files of a session.
    """
    with suppress(OSError):
        if len(found := read_regular(path)) == _KEY_BYTES:
            return found
        path.unlink()
    with disk_errors(f"make the key {path}"):
        make_once(path, os.urandom(_KEY_BYTES))
        return read_regular(path)


def is_page(content: bytes, secret: bytes) -> bool:
    """Whether an object, of whichever kind, is a page that was written under this key."""
    found = _PAGE.match(content)
    return found is not None and compare_digest(found[1], _mac(content[found.end() :], secret))


def _mac(content: bytes, secret: bytes) -> bytes:
    return blake2b(content, digest_size=_MAC_BYTES, key=secret).hexdigest().encode()


def fast(data: bytes) -> bytes:
    """Deflate as a flush does: ISA-L's best, within a tenth of zlib's at four times its speed."""
    return isal_zlib.compress(data, 3)


class Pages:
    """Takes whole objects for a pack that is being written, and writes them page by page."""

    def __init__(self, out: pack.Out, secret: bytes, deflate: Deflate = fast) -> None:
        self._out = out
        self._secret = secret
        self._deflate = deflate
        self._waiting: dict[int, list[tuple[bytes, bytes]]] = {number: [] for number in _KINDS}
        self._sizes = dict.fromkeys(_KINDS, 0)

    def add(self, number: int, oid: bytes, data: bytes) -> None:
        """Write an object, now or with others of its kind (``number`` is the pack's for it)."""
        if not self._fits(number, data):
            self._whole(number, oid, data)
            return
        if self._sizes[number] + len(data) > PAGE:
            self._write(number)
        self._waiting[number].append((oid, data))
        self._sizes[number] += len(data)

    def close(self) -> None:
        """Write what is left."""
        for number in _KINDS:
            self._write(number)

    def _fits(self, number: int, data: bytes) -> bool:
        if number == pack.COMMIT and (b"\0" in data or not _TREE.match(data)):
            return False
        return number in _KINDS and _LEAST <= len(data) <= _MOST

    def _whole(self, number: int, oid: bytes, data: bytes) -> None:
        self._out.add(oid, pack.entry_header(number, len(data)) + self._deflate(data))

    def _write(self, number: int) -> None:
        items = self._waiting[number]
        self._waiting[number], self._sizes[number] = [], 0
        if len(items) < _FEW:
            for oid, data in items:
                self._whole(number, oid, data)
            return
        rest = b"".join(map(itemgetter(1), items))
        # No commit has a tree that is not there.
        begin = items[0][1][:46] + _COMMIT if number == pack.COMMIT else _SIGN
        page = b"%s%s\n%s" % (begin, _mac(rest, self._secret), rest)
        base, size, at = self._out.offset, len(page), len(page) - len(rest)
        self._whole(number, git_id(_KINDS[number], page), page)
        for oid, data in items:
            delta = pack.copied(size, at, len(data))
            head = pack.entry_header(pack.OFS_DELTA, len(delta)) + pack.offset_header(self._out.offset - base)
            self._out.add(oid, head + pack.stored(delta))
            at += len(data)


def write(
    folder: Path, objects: Iterable[pack.PackObject], secret: bytes, *, keep: str | None = None, sync: bool = True
) -> Path:
    """As `pack.write`, with pages. StorageError."""

    def fill(out: pack.Out) -> Iterable[pack.Entry]:
        paged, trees = Pages(out, secret), pack.Trees(out)
        for number, oid, data in objects:
            if isinstance(data, pack.Prefix) or number == pack.TREE:
                trees.add(oid, data)
            else:
                paged.add(number, oid, data)
        paged.close()
        return sorted(out.entries, key=itemgetter(0))

    return pack.publish(folder, None, fill, keep, sync)
