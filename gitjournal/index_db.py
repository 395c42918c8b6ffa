"""The file of the index: a SQLite database beside the journal, and how it is opened whatever state it is in.

Floor 4. Nothing in it is the only copy of anything: `open_file` says in one line why a file cannot be used, and the
caller makes a new one or does without.
"""

from __future__ import annotations

import os
import sqlite3
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from urllib.parse import quote

from gitjournal.errors import StorageError
from gitjournal.index_text import COLUMNS
from gitjournal.lease import locked

#: Counts up when the tables below, or what stands in them, change their meaning.
SCHEMA = 4
_APPLICATION = 0x676A6978
#: How long a reader waits for another process that brings the index up to date, in seconds.
PATIENCE = 2.0
#: The seq of a document is the lower part of its row id, its segment the upper.
SEQ_BITS = 27
#: Bytes of a page; with small ones the many tables of a small index take less room, with large ones a search of many
#: events is quicker.
SMALL_PAGE, LARGE_PAGE = 512, 4096
#: What SQLite keeps beside a database.
_BESIDE = ("-wal", "-shm", "-journal")
#: What a database that cannot be read raises: of a damaged schema, Python cannot always decode what SQLite says.
_ERRORS = (sqlite3.Error, UnicodeDecodeError)
#: The columns of words as FTS5 has them. A word of any but the first takes two bytes more in each document: most are of
#: tools.
ORDER = COLUMNS[::-1]
#: What a word is.
TOKENS = 'tokenize="unicode61 remove_diacritics 2"'

_TABLES = f"""
CREATE TABLE meta(key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
-- One branch. `loose` is what its ref file holds and `tail` what its tail file is: both empty for most. `marks` are of
-- the events that are not in git; from event `own` on it wrote them itself.
CREATE TABLE branch(
    id INTEGER PRIMARY KEY, path TEXT NOT NULL UNIQUE, session TEXT NOT NULL, name TEXT NOT NULL,
    head TEXT NOT NULL, loose TEXT NOT NULL, tail TEXT NOT NULL, tree BLOB, in_git INTEGER NOT NULL,
    marks BLOB NOT NULL, own INTEGER NOT NULL, error TEXT NOT NULL, about TEXT NOT NULL);
CREATE INDEX branch_session ON branch(session);
CREATE INDEX branch_moving ON branch(path, loose, tail, error) WHERE loose <> '' OR tail <> '' OR error <> '';
-- Documents of events `first` to `upto`, which go on from segment `up`; `hash` and `withheld` name the first of them,
-- and `twin` is where that is in its other form. `parted`: no branch begins there, but two lines part.
CREATE TABLE segment(
    id INTEGER PRIMARY KEY, up INTEGER NOT NULL, hash TEXT NOT NULL, withheld INTEGER NOT NULL, first INTEGER NOT NULL,
    upto INTEGER NOT NULL, session TEXT NOT NULL, twin INTEGER NOT NULL, parted INTEGER NOT NULL);
CREATE INDEX segment_hash ON segment(hash);
CREATE INDEX segment_session ON segment(session);
CREATE INDEX segment_parted ON segment(first) WHERE parted;
-- A branch is a line of segments, most of them others' as well. `spent` is what its events up to `upto` count.
CREATE TABLE part(
    branch INTEGER NOT NULL, place INTEGER NOT NULL, segment INTEGER NOT NULL, upto INTEGER NOT NULL,
    spent TEXT NOT NULL, PRIMARY KEY(branch, place)) WITHOUT ROWID;
CREATE INDEX part_segment ON part(segment);
-- What provider responses used (index_used.py), under the segment and the event of the first of them.
CREATE TABLE response(id INTEGER PRIMARY KEY, records BLOB NOT NULL);
-- The fold of a long branch in the middle, to go on from.
CREATE TABLE saved(branch INTEGER NOT NULL, seq INTEGER NOT NULL, state BLOB NOT NULL, PRIMARY KEY(branch, seq));
-- One session. `status` is its state while nobody writes to it; `wakes` says that one waits in it, or that one may.
CREATE TABLE session(
    session TEXT PRIMARY KEY, updated TEXT NOT NULL, archived INTEGER NOT NULL, project TEXT NOT NULL,
    parent TEXT NOT NULL, status TEXT NOT NULL, wakes INTEGER NOT NULL, about TEXT NOT NULL);
CREATE INDEX session_updated ON session(updated DESC, session, archived, status);
CREATE INDEX session_project ON session(project, updated DESC, session);
CREATE INDEX session_wakes ON session(session) WHERE wakes;
CREATE TABLE label(label TEXT NOT NULL, session TEXT NOT NULL, PRIMARY KEY(label, session)) WITHOUT ROWID;
CREATE INDEX label_session ON label(session);
CREATE INDEX session_parent ON session(parent, session) WHERE parent <> '';
CREATE INDEX session_archived ON session(session) WHERE archived;
-- Which words are where, and not the texts: those are in the journal.
CREATE VIRTUAL TABLE words USING fts5({", ".join(ORDER)}, {TOKENS}, content='');
-- The time of each document, as `index_text.moment` has it.
CREATE TABLE stamp(id INTEGER PRIMARY KEY, ts INTEGER NOT NULL);
PRAGMA application_id = {_APPLICATION};
PRAGMA user_version = {SCHEMA};
"""


class Unusable(Exception):
    """The file is there and cannot be used; ``str()`` says why. ``mend``: a new one may take its place."""

    def __init__(self, why: str, *, mend: bool) -> None:
        super().__init__(why)
        self.mend = mend


def place(folder: Path) -> Path:
    """Where the index of the journal in git folder ``folder`` is."""
    return folder / "gitjournal" / "index.sqlite"


def open_file(path: Path) -> sqlite3.Connection | None:
    """The index at ``path``, None when there is none. `Unusable`."""
    db = None
    try:
        if not path.exists():
            return None
        if not _is_own(path):
            raise Unusable("it is no file of its own", mend=True)
        db = _connect(path)
        version = db.execute("PRAGMA user_version").fetchone()[0]
        if db.execute("PRAGMA application_id").fetchone()[0] != _APPLICATION:
            raise Unusable("it is no index of gitjournal", mend=True)
        if version != SCHEMA:
            age = "a newer" if version > SCHEMA else "an older"
            # Nothing in it is the only copy: who has gone back to an older version for good can remove it.
            way_out = "" if version < SCHEMA else "; remove it if that one is not used any more"
            raise Unusable(f"it was made by {age} version of gj{way_out}", mend=version < SCHEMA)
        if db.execute("SELECT count(*) FROM meta").fetchone()[0] == 0:
            raise Unusable("it was not finished", mend=True)
    except OSError as error:
        raise Unusable(reason(error), mend=False) from None
    except _ERRORS as error:
        _close(db)
        raise Unusable(reason(error), mend=not is_busy(error)) from None
    except Unusable:
        _close(db)
        raise
    return db


def _is_own(path: Path) -> bool:
    """Whether a database and what is beside it are files: what a link leads to is somebody else's."""
    for suffix in ("", *_BESIDE):
        # The last who closes a database removes what is beside it, at any moment.
        with suppress(FileNotFoundError):
            if not stat.S_ISREG(os.lstat(f"{path}{suffix}").st_mode):
                return False
    return True


def _connect(path: Path) -> sqlite3.Connection:
    """Open for writing if the folder lets us, else as it stands."""
    db = sqlite3.connect(path, timeout=PATIENCE, isolation_level=None, check_same_thread=False)
    try:
        # Says that the file is none of ours before a pragma changes it.
        db.execute("SELECT count(*) FROM sqlite_master").fetchone()
        prepare(db)
    except _ERRORS as error:
        db.close()
        if not isinstance(error, sqlite3.OperationalError):
            raise
        logs = [path.with_name(path.name + suffix) for suffix in ("-wal", "-journal")]
        # In a folder that cannot be written, a file whose last user closed it is whole by itself.
        if is_busy(error) or any(log.exists() and log.stat().st_size for log in logs):
            raise
        db = sqlite3.connect(f"file:{quote(str(path))}?immutable=1", uri=True, isolation_level=None)
    return db


def prepare(db: sqlite3.Connection) -> None:
    """Set a connection up for reading and for small changes."""
    # A file that somebody else has put there may name no functions of SQLite to be called.
    db.execute("PRAGMA trusted_schema = OFF")
    # What is taken out is overwritten: an erased payload must not live on here.
    db.execute("PRAGMA secure_delete = ON")
    # A power cut may lose the newest changes of the index, which are then found again.
    db.execute("PRAGMA synchronous = NORMAL")
    db.execute("PRAGMA cache_size = -32000")


def page_of(path: Path) -> int:
    """The size of the pages of the index at ``path``; 0 when there is none that can be read."""
    # SQLite is asked: to close a file that we opened would let go of the locks that this process has on it.
    with suppress(OSError, Unusable, *_ERRORS):
        if db := _to_replace(path):
            with closing(db):
                return page_size(db)
    return 0


def page_size(db: sqlite3.Connection) -> int:
    """The size of the pages of a database."""
    return int(db.execute("PRAGMA page_size").fetchone()[0])


def widen(db: sqlite3.Connection, page: int) -> None:
    """Give a database that has grown pages of this size, if it has smaller ones and no other process has it open."""
    if page_size(db) >= page:
        return
    with suppress(sqlite3.Error):
        try:
            db.execute("PRAGMA busy_timeout = 0")
            # With a log beside it, it keeps the pages that it has.
            db.execute("PRAGMA journal_mode = DELETE")
            db.execute(f"PRAGMA page_size = {page}")
            db.execute("VACUUM")
        finally:
            db.execute(f"PRAGMA busy_timeout = {int(1000 * PATIENCE)}")
            db.execute("PRAGMA journal_mode = WAL")


def create(path: Path | None, page: int = LARGE_PAGE) -> sqlite3.Connection:
    """A new, empty index for one writer: at ``path``, or (None) in a file that goes with the connection.

    ``page`` is the size of its pages: one database is given the content of another only if these are equal.

    StorageError where the disk refuses, or this Python's SQLite has no FTS5.
    """
    db = None
    try:
        if path is not None:
            # For its owner only, as all that says what was said.
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        db = sqlite3.connect(path or "", isolation_level=None, check_same_thread=False)
        prepare(db)
        # Nobody reads it before it is finished, and one that was cut is made again.
        db.execute(f"PRAGMA page_size = {page}")
        db.execute("PRAGMA journal_mode = OFF")
        db.execute("PRAGMA synchronous = OFF")
        db.execute("PRAGMA cache_size = -128000")
        db.executescript(_TABLES)
        # Fewer merges of FTS5's lists while all comes at once; in one transaction it writes them less often.
        db.execute("INSERT INTO words(words, rank) VALUES ('automerge', 16)")
        db.execute("BEGIN")
    except (sqlite3.Error, OSError) as error:
        _close(db)
        raise StorageError(f"an index cannot be made: {reason(error)}") from None
    return db


def complete(db: sqlite3.Connection) -> None:
    """End what `create` has begun, when all is in. sqlite3.Error."""
    db.execute("INSERT INTO words(words, rank) VALUES ('automerge', 4)")
    db.execute("COMMIT")


def put_in_place(fresh: sqlite3.Connection, made: Path, path: Path) -> None:
    """Give a finished index, whose file is ``made``, its place. Who reads the old one goes on. StorageError."""
    try:
        # Of several that find none there, one puts its file there and the others give that their content.
        with locked(path.with_name(f"{path.name}.lock")):
            if not _poured(fresh, path):
                fresh.close()
                remove(path)
                made.replace(path)
                with closing(sqlite3.connect(path, isolation_level=None)) as db:
                    db.execute("PRAGMA journal_mode = WAL")
    except Unusable as fault:
        raise StorageError(f"{path} cannot be replaced: {fault}") from None
    except (sqlite3.Error, OSError) as error:
        raise StorageError(f"{path} cannot be written: {reason(error)}") from None


def _poured(fresh: sqlite3.Connection, path: Path) -> bool:
    """Give the file at ``path`` the content of another; False when there is none or it is no database that can take it.

    Through SQLite's own locks, whatever version made it: to put another file under the feet of a process that has it
    open would damage both. `Unusable`, sqlite3.Error; StorageError when it stays locked for longer than `PATIENCE`.
    """
    live = None
    try:
        live = _to_replace(path)
        if live is None:
            return False
        page = page_size(live)
        if page != page_size(fresh):
            # It was given larger ones meanwhile; a database with a log takes none of another size.
            fresh.execute(f"PRAGMA page_size = {page}")
            fresh.execute("VACUUM")
        fresh.backup(live, progress=_deadline(path))
        live.execute("PRAGMA journal_mode = WAL")
        settle(live)
    except _ERRORS as error:
        if not _is_no_database(error):
            raise
        return False
    finally:
        _close(live)
    return True


def _to_replace(path: Path) -> sqlite3.Connection | None:
    """The file at ``path`` if there is one of ours, and it may be replaced. `Unusable`, sqlite3.Error."""
    try:
        return open_file(path)
    except Unusable as fault:
        if not fault.mend:
            raise
    if not _is_own(path):
        return None
    db = _connect(path)
    if db.execute("PRAGMA application_id").fetchone()[0] == _APPLICATION:
        return db
    # Another program's: its content is not ours to write over, wherever else it has a name.
    db.close()
    return None


def _deadline(path: Path) -> Callable[[int, int, int], None]:
    """What `sqlite3.Connection.backup`, which by itself would try for ever, is to call after each try."""
    until = time.monotonic() + PATIENCE

    def tried(status: int, _left: int, _all: int) -> None:
        if status & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED) and time.monotonic() > until:
            raise StorageError(f"{path} is in use by another process", hint="Try again when that has ended.")

    return tried


def _is_no_database(error: Exception) -> bool:
    name = getattr(error, "sqlite_errorname", "")
    return isinstance(error, UnicodeDecodeError) or name.startswith(("SQLITE_NOTADB", "SQLITE_CORRUPT"))


def settle(db: sqlite3.Connection) -> bool:
    """Write all into the file itself, so that the log beside it holds nothing; False while another process reads."""
    return not db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]


def compact(db: sqlite3.Connection) -> None:
    """Merge what came in many pieces, and leave no free pages. sqlite3.Error."""
    db.execute("INSERT INTO words(words) VALUES ('optimize')")
    db.execute("VACUUM")
    settle(db)


def remove(path: Path) -> None:
    """Remove an index with what SQLite keeps beside it. OSError."""
    for suffix in (*_BESIDE, ""):
        with suppress(FileNotFoundError):
            path.with_name(path.name + suffix).unlink()


@contextmanager
def making(path: Path) -> Iterator[Path]:
    """A name for a new index until it has its place: one of its own for each thread and process. StorageError."""
    made = path.with_name(f"{path.name}.{os.urandom(8).hex()}.new")
    with locked(_makers(path), shared=True):
        try:
            yield made
        finally:
            with suppress(OSError):
                made.unlink(missing_ok=True)


def clear_away(path: Path) -> bool:
    """Remove unfinished indexes (``<name>.<...>.new``) that nobody makes any more. Whether none is left. OSError."""
    left = [*path.parent.glob(f"{path.name}.*.new")]
    if not left:
        return True
    from gitjournal.tiers import only_one

    with only_one(_makers(path)) as alone:
        for made in left if alone else ():
            made.unlink(missing_ok=True)
    return alone


def _makers(path: Path) -> Path:
    """What all who make an index have locked: a process ends, and its number may be another one's the next day."""
    return path.with_name(f"{path.name}.new.lock")


def is_busy(error: Exception) -> bool:
    """Whether the file is fine and only in use, or not ours to write."""
    name = getattr(error, "sqlite_errorname", "")
    return name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED"))


def reason(error: BaseException) -> str:
    """What went wrong, for a message."""
    said = error.strerror if isinstance(error, OSError) else str(error)
    return said or type(error).__name__


def _close(db: sqlite3.Connection | None) -> None:
    if db is not None:
        db.close()
