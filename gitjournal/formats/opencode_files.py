"""The older tree of files of opencode as the same rows as its database (docs/formats/opencode.md).

Below ``storage``: ``session/<project>/<session>.json``, ``message/<session>/<message>.json``,
``part/<message>/<part>.json``. Each is one JSON document, which the program writes anew when it changes.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gitjournal.errors import ImportRefused
from gitjournal.formats.homes import walk
from gitjournal.formats.protocol import Source
from gitjournal.formats.records import Record, value_of
from gitjournal.formats.shapes import Members, members
from gitjournal.formats.sqlite_read import MAX_CELL, cell

_SESSIONS, _MESSAGES, _PARTS = "session", "message", "part"


def is_place(path: Path) -> bool:
    """Whether a file lies where one of a session lies."""
    place = path.absolute().parent.parent
    return path.suffix == ".json" and place.name == _SESSIONS and (place.parent / _MESSAGES).is_dir()


def about(source: Source) -> Members:
    """What the session's file says."""
    return members(value_of(_read(source)))


def rows(source: Source) -> Iterator[Record]:
    """The messages of a session, each with its parts behind it, by their names, which grow with the time."""
    storage = source.path.absolute().parent.parent.parent
    number, offset = 1, 0
    for path, at in _files(storage, source.path.stem):
        for record in cell(_read(Source(path)), number, offset, at):
            yield record
            number, offset = record.number + 1, record.offset + len(record.raw)


def _files(storage: Path, session: str) -> Iterator[tuple[Path, tuple[Any, ...]]]:
    """Each file with what its place says of it, in the words of `opencode_rows.of_database`."""
    for path in _in(storage / _MESSAGES / session):
        message = path.stem
        yield path, (_MESSAGES, message, message, 0)
        for part in _in(storage / _PARTS / message):
            yield part, (_PARTS, message, part.stem, 0)


def _in(folder: Path) -> Iterator[Path]:
    """The JSON files in a folder, sorted; a link to one is not followed."""
    if folder.is_symlink():
        return iter(())
    return (path for path in walk(folder, lambda _: False) if path.suffix == ".json")


def _read(source: Source) -> bytes:
    with source.open() as stream:
        raw = stream.read(MAX_CELL + 1)
    if len(raw) > MAX_CELL:
        raise ImportRefused(f"{source.path} has more than {MAX_CELL >> 20} MiB, which no message of opencode has")
    return raw
