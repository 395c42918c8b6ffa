"""Read loose objects, and find the object folders that a repository borrows from.

Floor 1. Not by libgit2: 1.9 never comes back from a loose object that is cut, and a power cut can leave one.
Nothing here is trusted: `store.Store.read` hashes what comes back.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from isal import isal_zlib
from isal.igzip_lib import IsalError

from gitjournal.files import NotRegular, open_regular, read_regular
from gitjournal.packread import MAX_OBJECT, TooLarge

_HEAD = re.compile(rb"(commit|tree|blob|tag) (0|[1-9][0-9]{0,19})\x00")
_HEAD_BYTES = 32
_PIECE = 64 * 1024
#: How many steps from one repository to another git goes.
_MOST_STEPS = 5


class BadLoose(Exception):
    """The file is not a loose object; `store` turns it into a VerificationError."""


def read(folder: Path, oid: bytes, most: int = MAX_OBJECT) -> tuple[bytes, bytes] | None:
    """(kind, content) of an object in an ``objects`` folder, None when it is not there.

    Raises BadLoose, OSError, and TooLarge before it reads an object of more than ``most`` bytes.
    """
    name = oid.hex()
    path = folder / name[:2] / name[2:]
    try:
        fd = open_regular(path)
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return None
    except NotRegular:
        raise BadLoose(f"{path} is not a regular file") from None
    try:
        with os.fdopen(fd, "rb", buffering=0) as file:
            return _parse(file, most)
    except (BadLoose, IsalError) as error:  # type: ignore[misc]  # its stub does not say that it is an exception
        raise BadLoose(f"{path} is not a loose object: {error}") from None


def _pieces(file: BinaryIO) -> Iterator[bytes]:
    """What is in a file, as far as it says that it goes: one of the system's may say 0, and not answer or not end."""
    left = os.fstat(file.fileno()).st_size
    while left > 0 and (piece := file.read(min(_PIECE, left))):
        left -= len(piece)
        yield piece


def _parse(file: BinaryIO, most: int) -> tuple[bytes, bytes]:
    # In pieces: a file may be larger than the object, or than memory.
    pieces = _pieces(file)
    inflater = isal_zlib.decompressobj()
    content = inflater.decompress(next(pieces, b""), _HEAD_BYTES)
    head = _HEAD.match(content)
    # git stops at a size that is too large for its numbers; it reads any other.
    if head is None or int(head[2]) >= 1 << 64:
        raise BadLoose("its header is none")
    if int(head[2]) > most:
        raise TooLarge(head[1], int(head[2]))
    # Without its header, so that the content need not be copied once more.
    content = content[head.end() :]
    parts, wanted = [content], int(head[2]) - len(content)
    # One byte more than there should be: it shows a longer content, and lets the stream come to its end.
    while wanted >= 0 and not inflater.eof:
        more = inflater.decompress(inflater.unconsumed_tail, wanted + 1)
        if not more and not inflater.eof:
            piece = next(pieces, b"")
            if not piece:
                raise BadLoose("it is cut")
            more = inflater.decompress(inflater.unconsumed_tail + piece, wanted + 1)
        parts.append(more)
        wanted -= len(more)
    if wanted or inflater.unused_data or next(pieces, b""):
        raise BadLoose("it has another size than it says")
    return head[1], b"".join(parts)


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
        # git reads it as C does a text: as far as the first zero byte.
        lines = read_regular(folder / "info" / "alternates").partition(b"\x00")[0].split(b"\n")
    except OSError:
        return
    for line in lines:
        path = folder / line.decode("utf-8", "surrogateescape")
        if line and not line.startswith(b"#") and os.path.isdir(path):  # noqa: PTH112 - Path.is_dir raises for a long name
            yield path.resolve()
