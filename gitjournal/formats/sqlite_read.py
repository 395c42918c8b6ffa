"""SQLite files of other programs, read without a trace: nothing is written to them or put beside them.

SQLite itself makes ``-wal`` and ``-shm`` files where it opens a database for reading only, and leaves them there. So a
database in WAL mode is read as immutable when its WAL is empty; over the ``-shm`` file that its program keeps open when
it is not; and as a private copy when there is a WAL but no such file, as after a crash or in a backup.

Files of others can hold programs: only tables are read, no views and nothing recursive, and the work is bounded.
"""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
import weakref
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from urllib.parse import quote

from gitjournal.errors import ImportRefused, NotFound, StorageError
from gitjournal.foreign import scan, skip_space
from gitjournal.formats.records import MAX_RECORD, NOT_JSON, Record

#: How each SQLite file begins.
MAGIC = b"SQLite format 3\0"
# Byte 19 of the file: 2 means a write-ahead log.
_WAL_MODE = 2
# How long a writer is waited for, in seconds.
_PATIENCE = 2.0
#: A cell may have so many bytes.
MAX_CELL = 32 * 1024 * 1024
# What reading may cost, in steps of SQLite's machine: so many, and so many for each byte of the file. A row takes about
# twenty, and its bytes. A damaged tree can be a table of 10^30 rows in a few pages.
_STEPS = 10_000_000
_STEPS_FOR_BYTE = 100
_ASKED_EVERY = 100_000


class Database:
    """A database file. It can be read several times; a private copy goes away with the object."""

    def __init__(self, path: Path) -> None:
        """NotFound and StorageError; nothing is opened yet."""
        self._path = path
        self._copy: Path | None = None

    @contextmanager
    def read(self) -> Iterator[sqlite3.Connection]:
        """A connection that can only read. Text columns come as `str`, with U+FFFD for bytes that are no UTF-8.

        NotFound; StorageError; ImportRefused for what is no database, is damaged, is locked, or was written to while it
        was read, also for the errors of reading within the ``with`` block.
        """
        path = self._path
        if not path.is_file():
            raise NotFound(f"there is no file {path}")
        try:
            before = _stamp(path)
            uri, still = self._place()
            with closing(sqlite3.connect(uri, uri=True, timeout=_PATIENCE)) as connection:
                connection.text_factory = _text
                _bound(connection, before[1])
                yield connection
            if still and _stamp(path) != before:
                raise ImportRefused(f"{path} was written to while it was read. Import it again.")
        except OSError as error:
            raise StorageError(f"{path} cannot be read: {error.strerror or error}") from None
        except sqlite3.Error as error:
            raise ImportRefused(f"{path} cannot be read as a database: {_why(error)}") from None

    def _place(self) -> tuple[str, bool]:
        """The URI under which SQLite leaves no trace, and whether nobody may write to the file meanwhile."""
        path = self._path
        with path.open("rb") as stream:
            head = stream.read(20)
        wal, shared = path.with_name(path.name + "-wal"), path.with_name(path.name + "-shm")
        if not head.startswith(MAGIC) or head[19:20] != bytes([_WAL_MODE]):
            return _uri(path, "mode=ro"), False
        if not wal.is_file() or not wal.stat().st_size:
            return _uri(path, "immutable=1"), True
        if shared.is_file():
            return _uri(path, "mode=ro&readonly_shm=1"), False
        return _uri(self._copied(wal), "mode=rw"), False

    def _copied(self, wal: Path) -> Path:
        if self._copy is None:
            folder = tempfile.mkdtemp(prefix="gitjournal-")
            weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
            self._copy = Path(folder) / "copy.db"
            shutil.copyfile(self._path, self._copy)
            shutil.copyfile(wal, self._copy.with_name("copy.db-wal"))
        return self._copy


def _bound(connection: sqlite3.Connection, size: int) -> None:
    """Let nothing be read but tables, and that not for ever."""
    left = (_STEPS + _STEPS_FOR_BYTE * size) // _ASKED_EVERY

    def spent() -> bool:
        nonlocal left
        left -= 1
        return left < 0

    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_CELL)
    connection.execute("PRAGMA trusted_schema=OFF")
    made = "SELECT name FROM sqlite_master WHERE type = 'table' AND rootpage = 0"
    virtual = {name for (name,) in connection.execute(made)}

    def allowed(action: int, table: str | None, _column: str | None, _schema: str | None, view: str | None) -> int:
        denied = action == sqlite3.SQLITE_RECURSIVE or view is not None or table in virtual
        return sqlite3.SQLITE_DENY if denied else sqlite3.SQLITE_OK

    connection.set_authorizer(allowed)
    connection.set_progress_handler(spent, _ASKED_EVERY)


def opened(path: Path) -> AbstractContextManager[sqlite3.Connection]:
    """`Database.read` of a file that is read once."""
    return Database(path).read()


def columns(path: Path, table: str) -> frozenset[str]:
    """The names of a table's columns; none when there is no such table. Errors as `Database.read`."""
    with opened(path) as connection:
        return frozenset(name for (name,) in connection.execute("SELECT name FROM pragma_table_info(?)", (table,)))


def cell(raw: bytes | None, number: int, offset: int, at: tuple[str | int, ...]) -> Iterator[Record]:
    """The records of a cell that holds JSON: one, or several pieces when it is larger than a record may be.

    ``at`` is the place of the row, in the words of the format. Select the cell ``CAST(... AS BLOB)``.
    """
    whole = raw or b""
    for start in range(0, max(len(whole), 1), MAX_RECORD):
        piece = whole[start : start + MAX_RECORD]
        value, fault, valid = _parsed(piece) if len(whole) <= MAX_RECORD else (NOT_JSON, "oversized", True)
        index = start // MAX_RECORD
        yield Record(number + index, offset + start, piece, value, fault, False, valid, at=at)


def _parsed(raw: bytes) -> tuple[object, str, bool]:
    if not raw.strip(b" \t\r\n"):
        return NOT_JSON, "blank", True
    text = raw.decode("utf-8", "replace")
    valid = text.encode() == raw
    try:
        value, end = scan(text, skip_space(text, 0))
    except ValueError:
        return NOT_JSON, "unparsable", valid
    return (value, "", valid) if skip_space(text, end) == len(text) else (NOT_JSON, "unparsable", valid)


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")


def _why(error: sqlite3.Error) -> str:
    text = " ".join(str(error).split())
    if "locked" in text or "busy" in text:
        return f"{text}: its program is writing to it. Close the program, or try again."
    if "not authorized" in text or "prohibited" in text:
        return f"{text}: what should be a table is a view or a program."
    if text == "interrupted":
        return "it has more rows than fit into it: it is damaged, or made to keep a reader busy."
    if "too big" in text:
        return f"{text}: a cell has more than {MAX_CELL >> 20} MiB."
    if "malformed" in text or "not a database" in text:
        return f"{text}: the file is damaged or cut. Import a backup of it."
    return text


def _stamp(path: Path) -> tuple[int, int]:
    about = path.stat()
    return about.st_mtime_ns, about.st_size


def _uri(path: Path, how: str) -> str:
    return f"file:{quote(str(path.resolve()))}?{how}"
