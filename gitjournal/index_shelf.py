"""Rows on their way into the index, many in one statement.

Floor 4. SQLite works without Python's lock while one statement runs. So a whole index is written in a thread of its
own, a thousand rows at a time, while the next events are read.
"""

from __future__ import annotations

import queue
import sqlite3
import threading
from collections import defaultdict
from typing import Any

from gitjournal.errors import StorageError
from gitjournal.event import Event
from gitjournal.index_db import SEQ_BITS, reason
from gitjournal.index_text import Words, moment

#: Rows, and bytes of their events, of one statement at the most. SQLite takes 32,766 values.
_ROWS = 2000
_BYTES = 4_000_000
_WAITING = 2
LAST_SEQ = (1 << SEQ_BITS) - 1

Row = tuple[Any, ...]
_WORDS = "words(rowid, title, summary, text, tools)"


def row_id(segment: int, seq: int) -> int:
    """The row id of the document of an event."""
    return segment << SEQ_BITS | seq


class Shelf:
    """Writes rows into a database: at once, or (``aside``) by a thread until `close`.

    When the database refuses, any call raises StorageError, or (without a thread) sqlite3.Error.
    """

    def __init__(self, db: sqlite3.Connection, *, aside: bool) -> None:
        self._db = db
        self._rows: defaultdict[str, list[Row]] = defaultdict(list)
        self._size = 0
        self._failed: sqlite3.Error | None = None
        self._jobs: queue.Queue[tuple[str, list[Row]] | None] = queue.Queue(_WAITING)
        self._thread = threading.Thread(target=self._work, name="gitjournal-index", daemon=True) if aside else None
        if self._thread:
            self._thread.start()

    def document(self, segment: int, event: Event, said: Words) -> None:
        """Add what an event says."""
        self._size += len(event.raw)
        number = row_id(segment, event.seq)
        self.add(_WORDS, (number, *said))
        self.add("stamp", (number, moment(event.ts)))

    def add(self, table: str, row: Row) -> None:
        """Add a row to ``table``; not the caller's text but one of a few names, with columns where need be."""
        rows = self._rows[table]
        rows.append(row)
        if len(rows) >= _ROWS or self._size >= _BYTES:
            self._send()

    def flush(self) -> None:
        """Return when all rows are in the database."""
        self._send()
        if self._thread:
            self._jobs.join()
        self._check()

    def close(self) -> None:
        """Flush, and end the thread."""
        try:
            self.flush()
        finally:
            self.abandon()

    def abandon(self) -> None:
        """End the thread; rows that are not in the database yet may be lost."""
        if self._thread:
            self._jobs.put(None)
            self._thread.join()
            self._thread = None

    def _send(self) -> None:
        self._check()
        for table, rows in self._rows.items():
            if self._thread:
                self._jobs.put((table, rows))
            else:
                self._write(table, rows)
        self._rows, self._size = defaultdict(list), 0

    def _check(self) -> None:
        if self._failed:
            raise StorageError(f"the index cannot be written: {reason(self._failed)}")

    def _work(self) -> None:
        while job := self._jobs.get():
            try:
                if self._failed is None:
                    self._write(*job)
            except sqlite3.Error as error:
                self._failed = error
            self._jobs.task_done()
        self._jobs.task_done()

    def _write(self, table: str, rows: list[Row]) -> None:
        one = f"({', '.join('?' * len(rows[0]))})"
        # A table's name is one of ours, and values go beside the statement.
        statement = f"INSERT INTO {table} VALUES {', '.join([one] * len(rows))}"  # noqa: S608
        self._db.execute(statement, [value for row in rows for value in row])
