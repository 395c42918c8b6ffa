"""Where other programs keep their sessions on this machine.

A program's folder may hold links and special files; none is followed or opened.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from gitjournal.formats import find, formats
from gitjournal.formats.protocol import Home, RecordFormat


@dataclass(frozen=True)
class Place:
    """A folder of a program's sessions, which exists."""

    format: str
    home: Home
    root: Path

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        return re.compile("|".join(map(_regex, self.home.patterns)))

    def has(self, path: Path) -> bool:
        """Whether ``path`` is that of a session's file here, by its name alone."""
        try:
            inside = path.relative_to(self.root)
        except ValueError:
            return False
        return self._pattern.fullmatch(inside.as_posix()) is not None

    def files(self, folder: Path | None = None) -> Iterator[Path]:
        """All files of sessions (below ``folder``), sorted in each folder. What cannot be read is passed over."""
        below = self.root if folder is None else folder
        if not below.is_relative_to(self.root) or not self._leads(below):
            return iter(())
        return filter(self.has, walk(below, self._leads))

    def _leads(self, folder: Path) -> bool:
        """Whether a session's file can be below ``folder``: a program may keep much else beside its sessions."""
        steps = folder.relative_to(self.root).parts
        return any(_is_way(pattern.split("/")[:-1], steps) for pattern in self.home.patterns)


def _is_way(pattern: Sequence[str], steps: Sequence[str]) -> bool:
    for at, step in enumerate(steps):
        if at == len(pattern):
            return False
        if pattern[at] == "**":
            return True
        if re.fullmatch(_regex(pattern[at]), step) is None:
            return False
    return True


def _regex(pattern: str) -> str:
    """A pattern of `Path.glob` as a regular expression for the whole path; ``**/`` is any number of folders."""
    words = {"**/": "(?:[^/]+/)*", "*": "[^/]*", "?": "[^/]"}
    return "".join(words.get(piece) or re.escape(piece) for piece in re.split(r"(\*\*/|\*|\?)", pattern))


def places(environ: Mapping[str, str]) -> list[Place]:
    """The folders that exist, in the order of their formats' names. ``environ`` may say where they are."""
    found = []
    for name in formats():
        fmt = find(name)
        for home in fmt.homes if isinstance(fmt, RecordFormat) else ():
            root = Path(environ.get(home.variable) or home.default).expanduser()
            if root.is_dir():
                found.append(Place(name, home, root))
    return found


def walk(folder: Path, into: Callable[[Path], bool] = lambda _: True) -> Iterator[Path]:
    """The regular files below a folder, sorted in each. Links are not followed; what cannot be read is not there.

    ``into`` says of a folder whether it is looked into.
    """
    waiting = [folder]
    while waiting:
        try:
            with os.scandir(waiting.pop()) as entries:
                found = sorted(entries, key=lambda entry: entry.name)
        except OSError:
            continue
        for entry in found:
            if entry.is_file(follow_symlinks=False):
                yield Path(entry.path)
        folders = (Path(entry.path) for entry in reversed(found) if entry.is_dir(follow_symlinks=False))
        waiting.extend(filter(into, folders))
