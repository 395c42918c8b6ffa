"""Read loose objects, and find the object folders that a repository borrows from.

Floor 1. Not by libgit2: 1.9 never comes back from a loose object that is cut, and a power cut can leave one.
Nothing here is trusted: `store.Store.read` hashes what comes back.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from isal import isal_zlib
from isal.igzip_lib import IsalError

from gitjournal.packread import MAX_OBJECT

_HEAD = re.compile(rb"(commit|tree|blob|tag) (0|[1-9][0-9]{0,10})\x00")
_HEAD_BYTES = 32
#: How many steps from one repository to another git goes.
_MOST_STEPS = 5


class BadLoose(Exception):
    """The file is not a loose object; `store` turns it into a VerificationError."""


def read(folder: Path, oid: bytes) -> tuple[bytes, bytes] | None:
    """(kind, content) of an object in an ``objects`` folder, None when it is not there. Raises BadLoose, OSError."""
    name = oid.hex()
    path = folder / name[:2] / name[2:]
    try:
        raw = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return None
    try:
        return _parse(raw)
    except (BadLoose, IsalError) as error:  # type: ignore[misc]  # its stub does not say that it is an exception
        raise BadLoose(f"{path} is not a loose object: {error}") from None


def _parse(raw: bytes) -> tuple[bytes, bytes]:
    inflater = isal_zlib.decompressobj()
    start = inflater.decompress(raw, _HEAD_BYTES)
    head = _HEAD.match(start)
    if head is None or int(head[2]) > MAX_OBJECT:
        raise BadLoose("its header is none")
    size = head.end() + int(head[2])
    content = start
    # One byte more than there should be: it shows a longer content, and lets the stream come to its end.
    while len(content) <= size and not inflater.eof:
        more = inflater.decompress(inflater.unconsumed_tail, size + 1 - len(content))
        if not more and not inflater.eof:
            raise BadLoose("it is cut")
        content += more
    if len(content) != size or inflater.unused_data:
        raise BadLoose("it has another size than it says")
    return head[1], content[head.end() :]


def alternates(folder: Path) -> list[Path]:
    """The ``objects`` folders that ``folder`` borrows from, the nearest first (git: gitrepository-layout)."""
    found = [folder]
    level = [folder]
    for _ in range(_MOST_STEPS):
        # Each folder once, or a few files that name each other many times would never come to an end.
        level = [one for one in dict.fromkeys(one for each in level for one in _named_by(each)) if one not in found]
        found += level
    return found[1:]


def _named_by(folder: Path) -> Iterator[Path]:
    try:
        lines = (folder / "info" / "alternates").read_bytes().split(b"\n")
    except OSError:
        return
    for line in lines:
        path = folder / line.decode("utf-8", "surrogateescape")
        if line and not line.startswith(b"#") and os.path.isdir(path):  # noqa: PTH112 - Path.is_dir raises for a long name
            yield path.resolve()
