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


class _Content:
    """The file as it was once: its text until there is a table of it, which is put there before the text goes."""

    __slots__ = ("searches", "stamp", "table", "text")

    def __init__(self, stamp: Stamp, text: bytes) -> None:
        self.stamp = stamp
        self.text = text
        self.table: dict[str, str] | None = None
        self.searches = 0

    def names(self) -> dict[str, str]:
        """Ids (hex) by full name."""
        # The text first: as long as there is no table then, another thread has not taken it away.
        text, table = self.text, self.table
        if table is None:
            found = _LINE.findall(text)
            table = {name.decode("utf-8", "surrogateescape"): oid.decode() for oid, name in found}
            self.table = table
            self.text = b""
        return table


class PackedRefs:
    """The file ``packed-refs`` of a repository, read again when it has changed.

    Every method raises StorageError when it cannot be read, also when it is a link or a pipe: to pass it over, as a
    verifier may, could begin a session anew that is there.
    """

    def __init__(self, folder: str) -> None:
        self._path = f"{folder}/packed-refs"
        # Replaced as a whole, as threads share it.
        self._content = _Content(_ABSENT, b"")

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
        content = self._refreshed()
        text = content.text
        if content.table is None and content.searches < _SEARCHES:
            content.searches += 1
            return _search(text, ref.encode("utf-8", "surrogateescape"))
        return content.names().get(ref)

    def all(self) -> Mapping[str, str]:
        """Full names and ids (hex) of all refs in the file."""
        return self._refreshed().names()

    def _refreshed(self) -> _Content:
        stamp, content = self.stamp(), self._content
        if stamp == content.stamp:
            return content
        text = b""
        with disk_errors(f"read {self._path}"):
            try:
                text = read_regular(self._path, os.O_NOFOLLOW)
            except FileNotFoundError:
                stamp = _ABSENT
        self._content = content = _Content(stamp, text)
        return content


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
