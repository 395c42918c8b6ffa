"""The database of OpenClaw (docs/formats/pi.md): each row holds what was a line of its files before.

A row has its entry as text, or compressed where it is large. Sessions that were deleted or begun anew are kept there
as well, as whole files.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from gitjournal.errors import ImportRefused, JournalError
from gitjournal.formats.records import Record, Salvage, records
from gitjournal.formats.source import unpacked
from gitjournal.formats.sqlite_read import MAX_CELL, Database, cell, columns

_EVENTS, _ARCHIVES = "transcript_events", "session_transcript_archives"
#: Columns by which the database is recognised; those of the archives; and one that older versions do not have.
_COLUMNS = frozenset({"session_id", "seq", "event_json"})
_ARCHIVED = frozenset({"session_id", "archive_blob", "created_at"})
_COMPRESSED = "event_zstd"
_SESSIONS = "SELECT DISTINCT session_id FROM transcript_events ORDER BY session_id"
_ROWS = "SELECT CAST(event_json AS BLOB), {more} FROM transcript_events WHERE session_id = ? ORDER BY seq"
_KEPT = "SELECT rowid, session_id FROM session_transcript_archives ORDER BY created_at, rowid"
_BLOB = "SELECT CAST(archive_blob AS BLOB) FROM session_transcript_archives WHERE rowid = ?"


def is_theirs(path: Path) -> bool:
    """Whether a database has the table of entries; False for one that cannot be read now."""
    try:
        return columns(path, _EVENTS) >= _COLUMNS
    except JournalError:
        return False


class Store:
    """The sessions of a database. Errors as `Database.read`."""

    def __init__(self, path: Path, salvage: Salvage | None) -> None:
        self._path = path
        self._salvage = salvage
        self._database = Database(path)
        more = _COMPRESSED if _COMPRESSED in columns(path, _EVENTS) else "NULL"
        self._rows = _ROWS.format(more=more)

    def sessions(self) -> list[str]:
        """The ids of those that are there."""
        with self._database.read() as connection:
            return [str(session) for (session,) in connection.execute(_SESSIONS)]

    def lines(self, session: str) -> Iterator[Record]:
        """The entries of a session, each with the newline that it had in a file."""
        number, offset = 1, 0
        with self._database.read() as connection:
            for text, packed in connection.execute(self._rows, (session,)):
                raw = _plain(packed, self._path) if text is None else text + b"\n"
                for record in cell(raw, number, offset, ()):
                    yield record
                    number, offset = record.number + 1, record.offset + len(record.raw)

    def archives(self) -> list[tuple[int, str]]:
        """(row, session id) of those that were deleted or begun anew, the oldest first."""
        if not columns(self._path, _ARCHIVES) >= _ARCHIVED:
            return []
        with self._database.read() as connection:
            return [(int(row), str(session)) for row, session in connection.execute(_KEPT)]

    def archived(self, row: int) -> Iterator[Record]:
        """The lines of one of them. ImportRefused when it is compressed and damaged."""
        with self._database.read() as connection:
            blob = next((blob for (blob,) in connection.execute(_BLOB, (row,))), None)
        yield from records(_stream(blob or b"", self._path), self._salvage)


def _stream(blob: bytes, path: Path) -> BinaryIO:
    return unpacked(io.BufferedReader(io.BytesIO(blob)), path)


def _plain(packed: object, path: Path) -> bytes:
    """An entry that was compressed; as it stands there when that cannot be undone."""
    blob = packed if isinstance(packed, bytes) else b""
    try:
        plain = _stream(blob, path).read(MAX_CELL + 1)
    except ImportRefused:
        return blob
    return plain + b"\n" if 0 < len(plain) <= MAX_CELL else blob
