"""git's file of packed refs: one name looked up, or all names read.

Floor 1. A journal of many sessions has a line in it for each branch, and most readers ask for one or two of them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from gitjournal.errors import disk_errors
from gitjournal.files import read_regular

_LINE = re.compile(rb"^([0-9a-f]{40}) ([^\n]+)$", re.MULTILINE)
_ID = re.compile(rb"[0-9a-f]{40}")
#: So many names are looked for in the text; then a table of all names pays.
_SEARCHES = 64

#: What changes when the file does: time of the last write, size, inode. All are 0 while there is no file.
Stamp = tuple[int, int, int]
_ABSENT: Stamp = (0, 0, 0)


class PackedRefs:
    """The file ``packed-refs`` of a repository, read again when it has changed.

    Every method raises StorageError when it cannot be read, also when it is a link or a pipe: to pass it over, as a
    verifier may, could begin a session anew that is there.
    """

    def __init__(self, folder: str) -> None:
        self._path = f"{folder}/packed-refs"
        self._read: Stamp = _ABSENT
        self._text = b""
        self._table: dict[str, str] | None = {}
        self._searches = 0

    def stamp(self) -> Stamp:
        """What the file is now."""
        with disk_errors(f"read {self._path}"):
            try:
                status = os.lstat(self._path)
            except FileNotFoundError:
                return _ABSENT
        return status.st_mtime_ns, status.st_size, status.st_ino

    def get(self, ref: str) -> str | None:
        """The id (hex) that a ref has here, by its full name."""
        self._refresh()
        if self._table is None and self._searches < _SEARCHES:
            self._searches += 1
            return _search(self._text, ref.encode("utf-8", "surrogateescape"))
        return self._names().get(ref)

    def all(self) -> Mapping[str, str]:
        """Full names and ids (hex) of all refs in the file."""
        self._refresh()
        return self._names()

    def _refresh(self) -> None:
        stamp = self.stamp()
        if stamp == self._read:
            return
        with disk_errors(f"read {self._path}"):
            try:
                self._text = read_regular(self._path, os.O_NOFOLLOW)
            except FileNotFoundError:
                self._text, stamp = b"", _ABSENT
        self._read, self._table, self._searches = stamp, None, 0

    def _names(self) -> dict[str, str]:
        table = self._table
        if table is None:
            found = _LINE.findall(self._text)
            table = {name.decode("utf-8", "surrogateescape"): oid.decode() for oid, name in found}
            self._table, self._text = table, b""
        return table


def _search(text: bytes, name: bytes) -> str | None:
    """What the last line with ``name`` says, as a table of all lines would."""
    wanted = b" " + name
    found: str | None = None
    at = text.find(wanted)
    while at >= 0:
        end = at + len(wanted)
        whole = text[end : end + 1] in (b"", b"\n") and (at == 40 or text[at - 41 : at - 40] == b"\n")
        if whole and _ID.fullmatch(text, at - 40, at):
            found = text[at - 40 : at].decode()
        at = text.find(wanted, end)
    return found
