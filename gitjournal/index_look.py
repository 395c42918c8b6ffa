"""A quick look at where all branches of a journal stand, and what has moved since the index was made.

Floor 4. Refs that git has packed are one file, whose stamp says whether any moved. What is left are the refs with a
file of their own and the tails: those of the few sessions that were written to lately.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from gitjournal.refs import JOURNAL_SESSION

if TYPE_CHECKING:
    from gitjournal.store import Store

#: With more refs in files of their own, a refresh packs them.
MANY_LOOSE = 1000
#: A file that was written so many nanoseconds ago may be written again without a new time: clocks of files are coarse.
_JUST_NOW = 100_000_000

#: What a branch's ref file holds, and what its tail file is; empty for what is not there.
Mark = tuple[str, str]


class Look(NamedTuple):
    """The stamp of packed-refs, and the mark of each branch that has a ref file or a tail, by ``session/branch``."""

    stamp: str
    marks: dict[str, Mark]
    loose: int


def look(store: Store) -> Look:
    """Look at a journal. StorageError."""
    # Before any content is read: what moves after this look is seen by the next one.
    tails = dict(_tails(os.fspath(store.path / "gitjournal" / "tail")))
    loose = store.loose_refs()
    stamp = ",".join(map(str, store.packed_stamp()))
    # The journal's own log is no session.
    paths = (path for path in loose.keys() | tails.keys() if not path.startswith(f"{JOURNAL_SESSION}/"))
    marks = {path: (loose.get(path, ""), tails.get(path, "")) for path in paths}
    return Look(stamp, marks, len(loose))


def _tails(folder: str) -> Iterator[tuple[str, str]]:
    for session in _names(folder):
        names = _names(f"{folder}/{session}")
        if not names:
            # An older version has left it; looking into thousands of them takes seconds.
            with suppress(OSError):
                Path(folder, session).rmdir()
        for name in names:
            if name.endswith(".jsonl"):
                with suppress(OSError):
                    status = os.stat(f"{folder}/{session}/{name}", follow_symlinks=False)
                    fresh = "?" if abs(time.time_ns() - status.st_mtime_ns) < _JUST_NOW else ""
                    mark = f"{status.st_mtime_ns},{status.st_size},{status.st_ino}{fresh}"
                    yield f"{session}/{name.removesuffix('.jsonl')}", mark


def _names(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def is_current(db: sqlite3.Connection, found: Look) -> bool:
    """Whether nothing has moved since the index was made, and all that it could not read is as it was."""
    stamp = db.execute("SELECT value FROM meta WHERE key = 'packed'").fetchone()
    return stamp is not None and stamp[0] == found.stamp and not _moved(db, found)


def _moved(db: sqlite3.Connection, found: Look) -> set[str]:
    """Branches whose mark is another; those that could not be read, for they may be whole again."""
    rows = db.execute(
        "SELECT path, loose, tail, error FROM branch WHERE loose <> '' OR tail <> '' OR error <> ''"
    ).fetchall()
    known = {path: (loose, tail) for path, loose, tail, _ in rows}
    moved = {path for path in known.keys() | found.marks.keys() if _differs(known.get(path), found.marks.get(path))}
    return moved | {path for path, *_, error in rows if error}


def _differs(known: Mark | None, now: Mark | None) -> bool:
    return (known or ("", "")) != (now or ("", "")) or bool(now and now[1].endswith("?"))


def changed(db: sqlite3.Connection, store: Store, found: Look) -> set[str]:
    """The branches (``session/branch``) that have moved, are new or are gone. StorageError."""
    moved = _moved(db, found)
    stamp = db.execute("SELECT value FROM meta WHERE key = 'packed'").fetchone()
    if stamp is None or stamp[0] != found.stamp:
        heads = store.heads()
        known = dict(db.execute("SELECT path, head FROM branch WHERE head <> ''"))
        moved |= {path for path, _ in heads.items() ^ known.items()}
    return moved
