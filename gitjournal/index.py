"""The index of a journal: what its sessions are and what they say, found without reading them.

Floor 4. Derived from the events and from nothing else, and brought up to date by whoever asks; writers know nothing of
it. One that is missing, damaged or of another version is made anew; one that is in use is done without.
"""

from __future__ import annotations

import binascii
import json
import os
import sqlite3
import struct
import zlib
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from gitjournal import index_db, index_query
from gitjournal.ahead import reading
from gitjournal.errors import StorageError, disk_errors
from gitjournal.index_db import Unusable
from gitjournal.index_look import MANY_LOOSE, Look, changed, is_current, look

if TYPE_CHECKING:
    from gitjournal.index_build import Progress
    from gitjournal.journal import Journal
    from gitjournal.refs import Name

T = TypeVar("T")
Say = Callable[[str], object]

#: With more branches to be indexed than this, and than are in the index, a new index is quicker.
_MANY = 500
#: Bytes in packs of a journal that is a small one.
_SMALL = 4_000_000
_DAMAGE = (
    sqlite3.DatabaseError, json.JSONDecodeError, UnicodeDecodeError, binascii.Error, zlib.error, struct.error,
)  # fmt: skip
#: What a row that lacks something makes of a question; of a new index, it is a fault of the question.
_ODD = (KeyError, TypeError, AttributeError)


class Rebuilt(NamedTuple):
    """What is in a new index."""

    sessions: int
    branches: int
    events: int


def _quiet(_: object) -> None:
    return


def ask(
    journal: Journal,
    question: Callable[[sqlite3.Connection], T],
    *,
    say: Say = _quiet,
    progress: Progress = _quiet,
    whole: bool = False,
) -> T:
    """What ``question`` (a call of `index_query`) finds in the index, brought up to date before.

    ``say`` takes one line when something is not as usual, ``progress`` numbers of events while they are read. While
    another process updates the index, what came last may be missing; if it must not (``whole``), a temporary one is
    made. StorageError when not even that can be; whatever ``question`` raises.
    """
    db = _ready(journal, say, progress, whole)
    try:
        return question(db)
    except (*_DAMAGE, *_ODD) as error:
        fault = error
    finally:
        db.close()
    if index_db.is_busy(fault):
        say("another process keeps the index: working without it")
        db = _temporary(journal, progress)
    else:
        # Damage in the middle of the file shows only when it is read.
        say(f"the index is damaged ({index_db.reason(fault)}); making a new one")
        with suppress(OSError):
            index_db.remove(index_db.place(journal.path))
        db = _ready(journal, say, progress, whole)
    try:
        return question(db)
    except _DAMAGE as error:
        raise StorageError(f"the index cannot be read: {index_db.reason(error)}") from None
    finally:
        db.close()


def below(journal: Journal, session: str, *, say: Say = _quiet) -> tuple[dict[str, list[str]], dict[str, str]]:
    """``session`` and the sessions that have it as their parent, theirs and so on: each with its children, sorted.

    And the sessions that cannot be read, each with the reason: whose children they are is not known.
    """
    return ask(journal, lambda db: (index_query.below(db, session), index_query.unread(db)), say=say, whole=True)


def beginning(journal: Journal, hashes: Collection[str], *, say: Say = _quiet) -> Iterable[Name]:
    """The branches whose line begins with one of these events; all there are where there is no index to ask."""
    if not index_db.place(journal.path).exists():
        return journal.sessions()
    try:
        return ask(journal, lambda db: index_query.beginning(db, hashes), say=say, whole=True)
    except StorageError as error:
        say(str(error))
        return journal.sessions()


def forget(journal: Journal) -> str:
    """Let the index, if there is one, forget what was erased or deleted. Why it could not; else empty."""
    path = index_db.place(journal.path)
    try:
        alone = index_db.clear_away(path)
        why = _forgotten(journal, path) if path.exists() else ""
    except (StorageError, Unusable, OSError) as error:
        return index_db.reason(error)
    return why or ("" if alone else "another process is making a new one")


def _forgotten(journal: Journal, path: Path) -> str:
    """`forget` for an index that is there; one that cannot be brought up to date is removed."""
    try:
        db = index_db.open_file(path)
        if db is None:
            return ""
        with closing(db):
            found = look(journal.store)
            if not is_current(db, found) and not _refreshed(journal, db, found, _quiet):
                rebuild(journal)
            return "" if index_db.settle(db) else "another process reads it"
    except (Unusable, sqlite3.Error, *_DAMAGE, *_ODD) as error:
        if not error.mend if isinstance(error, Unusable) else index_db.is_busy(error):
            return index_db.reason(error)
        index_db.remove(path)
    return ""


def compact(journal: Journal) -> None:
    """Write the index, if there is one, without gaps; not while another process uses it."""
    with suppress(Unusable, sqlite3.Error, UnicodeDecodeError):
        if db := index_db.open_file(index_db.place(journal.path)):
            with closing(db):
                index_db.compact(db)


def titles(journal: Journal, names: Sequence[Name]) -> dict[Name, str]:
    """Titles (or first words) of branches, as far as the index has them now: nothing is read for it."""
    try:
        db = index_db.open_file(index_db.place(journal.path))
        if db is None:
            return {}
        try:
            return index_query.titles(db, names)
        finally:
            db.close()
    except (Unusable, sqlite3.Error, *_DAMAGE, *_ODD):
        return {}


# --- up to date ----------------------------------------------------------------------------------


def _ready(journal: Journal, say: Say, progress: Progress, whole: bool) -> sqlite3.Connection:
    """An index that says what the journal holds now."""
    path = index_db.place(journal.path)
    try:
        db = index_db.open_file(path)
    except Unusable as fault:
        say(f"the index cannot be used: {fault}" + ("; making a new one" if fault.mend else ""))
        return _anew(journal, path, say, progress) if fault.mend else _temporary(journal, progress)
    if db is None:
        return _anew(journal, path, say, progress)
    try:
        found = look(journal.store)
        if not is_current(db, found) and not _refreshed(journal, db, found, progress):
            db.close()
            return _anew(journal, path, say, progress)
    except sqlite3.Error as error:
        return _without(journal, db, error, say, progress, whole)
    except (*_DAMAGE, *_ODD) as error:
        db.close()
        say(f"the index is damaged ({index_db.reason(error)}); making a new one")
        return _anew(journal, path, say, progress)
    except BaseException:
        db.close()
        raise
    return db


def _without(
    journal: Journal, db: sqlite3.Connection, error: sqlite3.Error, say: Say, progress: Progress, whole: bool
) -> sqlite3.Connection:
    """Go on when the index cannot be brought up to date."""
    name = getattr(error, "sqlite_errorname", "")
    if index_db.is_busy(error) and not whole and _is_readable(db):
        say("another process is updating the index: what came last may be missing")
        return db
    db.close()
    say(f"the index cannot be brought up to date: {index_db.reason(error)}")
    if index_db.is_busy(error) or name.startswith(("SQLITE_READONLY", "SQLITE_FULL", "SQLITE_IOERR")):
        return _temporary(journal, progress)
    return _anew(journal, index_db.place(journal.path), say, progress)


def _is_readable(db: sqlite3.Connection) -> bool:
    try:
        return bool(db.execute("SELECT count(*) FROM meta").fetchone()[0])
    except sqlite3.Error:
        return False


def _refreshed(journal: Journal, db: sqlite3.Connection, found: Look, progress: Progress) -> bool:
    """Bring the index up to date; False when another one has to be made, or is quicker because so much is new."""
    from gitjournal.index_build import Indexer
    from gitjournal.index_segments import Lost

    with suppress(OSError):
        # What was said is in them as well.
        index_db.clear_away(index_db.place(journal.path))
    if found.loose > MANY_LOOSE:
        # They would have to be opened one by one by everybody who looks.
        with suppress(StorageError):
            journal.store.pack_refs()
            found = look(journal.store)
    # Whoever gave it larger pages may have been kept from setting this again.
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("BEGIN IMMEDIATE")
    try:
        paths = changed(db, journal.store, found)
        if len(paths) > max(_MANY, db.execute("SELECT count(*) FROM branch").fetchone()[0]):
            db.execute("ROLLBACK")
            return False
        indexer = Indexer(journal, db, whole=False, progress=progress)
        try:
            indexer.take(paths, found.marks)
        except Lost:
            db.execute("ROLLBACK")
            return False
        indexer.close(done=True)
        _stamp(db, found)
        removed = indexer.removed
        if removed:
            # Words of what was taken out stay in FTS5's lists until these are written anew.
            db.execute("INSERT INTO words(words) VALUES ('optimize')")
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise
    if removed:
        index_db.settle(db)
    if index_db.page_size(db) < index_db.LARGE_PAGE:
        index_db.widen(db, _page(journal))
    return True


def _stamp(db: sqlite3.Connection, found: Look) -> None:
    db.execute("INSERT OR REPLACE INTO meta VALUES ('packed', ?)", (found.stamp,))


# --- a new one -----------------------------------------------------------------------------------


def _anew(journal: Journal, path: Path, say: Say, progress: Progress) -> sqlite3.Connection:
    try:
        rebuild(journal, progress=progress)
        db = index_db.open_file(path)
        if db is not None:
            return db
        why = "it is gone"
    except (StorageError, Unusable) as error:
        why = str(error)
    say(f"working without an index: {why}")
    return _temporary(journal, progress)


def _temporary(journal: Journal, progress: Progress) -> sqlite3.Connection:
    """An index for this one question."""
    db = index_db.create(None)
    try:
        _fill(journal, db, progress)
    except BaseException:
        db.close()
        raise
    return db


def rebuild(journal: Journal, *, progress: Progress = _quiet) -> Rebuilt:
    """Make the index anew, in one pass over all events. StorageError: then the old one is still there."""
    path = index_db.place(journal.path)
    with disk_errors(f"make {path.parent}"):
        path.parent.mkdir(parents=True, exist_ok=True)
        index_db.clear_away(path)
    with index_db.making(path) as made, closing(index_db.create(made, index_db.page_of(path) or _page(journal))) as db:
        _fill(journal, db, progress)
        done = _counted(db)
        index_db.put_in_place(db, made, path)
    return done


def _page(journal: Journal) -> int:
    """How large the pages of a new index should be."""
    with suppress(OSError):
        size = sum(entry.stat().st_size for entry in os.scandir(journal.store.pack_folder))
        return index_db.SMALL_PAGE if size < _SMALL else index_db.LARGE_PAGE
    return index_db.LARGE_PAGE


def _fill(journal: Journal, db: sqlite3.Connection, progress: Progress) -> None:
    if look(journal.store).loose > MANY_LOOSE:
        with suppress(StorageError):
            journal.store.pack_refs()
    found = look(journal.store)
    try:
        # Before the indexer: that begins a thread, and a process of several threads is not copied.
        with reading(journal.store):
            _index_all(journal, db, found, progress)
        _stamp(db, found)
        index_db.complete(db)
    except sqlite3.Error as error:
        raise StorageError(f"the index cannot be written: {index_db.reason(error)}") from None


def _index_all(journal: Journal, db: sqlite3.Connection, found: Look, progress: Progress) -> None:
    from gitjournal.index_build import Indexer
    from gitjournal.index_segments import Lost

    indexer = Indexer(journal, db, whole=True, progress=progress)
    try:
        indexer.take(journal.store.heads().keys() | found.marks.keys(), found.marks)
    except Lost as error:
        indexer.close(done=False)
        raise StorageError(f"the journal cannot be read the same way twice: {error}") from None
    except BaseException:
        indexer.close(done=False)
        raise
    indexer.close(done=True)


def _counted(db: sqlite3.Connection) -> Rebuilt:
    sessions = db.execute("SELECT count(*) FROM session").fetchone()[0]
    branches = db.execute("SELECT count(*) FROM branch WHERE about <> '{}'").fetchone()[0]
    events = db.execute("SELECT coalesce(sum(upto - first + 1), 0) FROM segment").fetchone()[0]
    return Rebuilt(sessions, branches, events)
