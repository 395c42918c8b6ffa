"""A derived file of commit ids by seq, 20 bytes an event: which commit is event n of this branch?

Floor 1. Nothing depends on it for truth: it is used only while its last entry is the ref, and rebuilt otherwise.
A branch's file begins at the first event of its own; what lies before is in its parent's file.
"""

from __future__ import annotations

import os
import struct
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from gitjournal.files import open_regular

_MAGIC = b"gjseq\x00\x00\x01"
_HEADER = struct.Struct(">8sQ4x")
_ID = 20


class SeqIndex:
    """The ids of commits ``first`` .. ``last`` of one branch, in a file that may be missing or stale."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def _open(self) -> BinaryIO:
        return os.fdopen(open_regular(self.path), "rb")

    def bounds(self) -> tuple[int, int, bytes] | None:
        """(first seq, last seq, last commit id); None when the file is missing, empty or not ours."""
        try:
            with self._open() as file:
                first = _first(file.read(_HEADER.size))
                count = (os.fstat(file.fileno()).st_size - _HEADER.size) // _ID
                if first is None or count < 1:
                    return None
                file.seek(_HEADER.size + _ID * (count - 1))
                return first, first + count - 1, file.read(_ID)
        except OSError:
            return None

    def get(self, seq: int) -> bytes | None:
        """The commit id of ``seq``, or None when it is outside the file."""
        found = self.slice(seq, seq)
        return found[0] if found and len(found[0]) == _ID else None

    def slice(self, first: int, last: int) -> list[bytes]:
        """The commit ids of ``first`` .. ``last``, as far as the file has them."""
        try:
            with self._open() as file:
                begin = _first(file.read(_HEADER.size))
                if begin is None or first < begin:
                    return []
                file.seek(_HEADER.size + _ID * (first - begin))
                found = file.read(_ID * (last - first + 1))
        except OSError:
            return []
        return [found[at : at + _ID] for at in range(0, len(found), _ID)]

    def extend(self, first: int, ids: Sequence[bytes], parent: bytes | None) -> None:
        """Add commits from seq ``first`` on, whose git parent is ``parent``; without one a new file begins.

        A file that does not end at ``parent`` is left alone: it is stale and the next reader rebuilds it.
        Failures are ignored, since the file can always be made again.
        """
        bounds = self.bounds()
        if bounds is None and parent is None:
            self.replace(first, ids)
        elif bounds is not None and bounds[1] == first - 1 and bounds[2] == parent:
            with suppress(OSError), self.path.open("r+b") as file:
                file.seek(_HEADER.size + _ID * (first - bounds[0]))
                file.write(b"".join(ids))

    def replace(self, first: int, ids: Sequence[bytes]) -> None:
        """Write the whole file anew: commits from seq ``first`` on."""
        temporary = self.path.with_suffix(f".{os.getpid()}.{threading.get_ident()}.tmp")
        with suppress(OSError):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            temporary.write_bytes(_HEADER.pack(_MAGIC, first) + b"".join(ids))
            os.replace(temporary, self.path)


def _first(header: bytes) -> int | None:
    if len(header) != _HEADER.size or not header.startswith(_MAGIC):
        return None
    first: int = _HEADER.unpack(header)[1]
    return first
