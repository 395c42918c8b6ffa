"""The segments of an index: which documents are there, and whose events they are.

Floor 4. A segment is found again by the hash of its first event. That a line goes on in it as the segment does is
checked by trees, for two lines may part anywhere, and one may have lost a payload that the other still has.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable
from typing import TYPE_CHECKING

from gitjournal.index_fold import same_past
from gitjournal.index_shelf import LAST_SEQ, Shelf, row_id
from gitjournal.index_text import Words, words

if TYPE_CHECKING:
    from gitjournal.event import Event
    from gitjournal.index_fold import Part, Spent
    from gitjournal.store import Store


class Segment:
    """Documents are there up to event ``last``, from git, and up to ``tail``, if that is more, from a tail.

    Root tree ``tree`` holds its events up to ``reach``, and all before them.
    """

    __slots__ = ("first", "hash", "id", "last", "reach", "tail", "tree", "was")

    def __init__(
        self, number: int, digest: str, first: int, last: int, tail: int, tree: bytes | None, reach: int
    ) -> None:
        self.id, self.hash, self.first, self.last, self.tail = number, digest, first, last, tail
        self.tree, self.reach = tree, reach
        # (last, tail) as the database has them; None for a segment that it has not.
        self.was: tuple[int, int] | None = (last, tail)


class Segments:
    """The segments that one run touches. ``whole``: it makes them all, and the database has none."""

    def __init__(self, db: sqlite3.Connection, shelf: Shelf, store: Store, *, whole: bool) -> None:
        self._db = db
        self._shelf = shelf
        self._store = store
        self._whole = whole
        self._by_hash: dict[str, list[Segment]] = {}
        self._by_id: dict[int, Segment] = {}
        self._next: int = db.execute("SELECT coalesce(max(id), 0) + 1 FROM segment").fetchone()[0]
        #: Whether text was taken out.
        self.removed = False

    # --- finding ---------------------------------------------------------------------------------

    def of_hash(self, digest: str) -> list[Segment]:
        """The segments that begin with the event of this hash; more than one when lines have parted within."""
        if digest not in self._by_hash:
            rows = (
                () if self._whole else self._db.execute("SELECT id FROM segment WHERE hash = ? ORDER BY id", (digest,))
            )
            self._by_hash[digest] = [self.of_id(number) for (number,) in rows]
        return self._by_hash[digest]

    def of_id(self, number: int) -> Segment:
        """The segment of this number."""
        if number not in self._by_id:
            row = self._db.execute("SELECT id, hash, first, last, tail FROM segment WHERE id = ?", (number,)).fetchone()
            holder = self._db.execute(
                "SELECT tree, min(upto, in_git) AS reach FROM part JOIN branch ON branch.id = part.branch "
                "WHERE segment = ? AND tree IS NOT NULL ORDER BY reach DESC LIMIT 1",
                (number,),
            ).fetchone()
            self._by_id[number] = Segment(*row, *(holder or (None, 0)))
        return self._by_id[number]

    def new(self, first: int, digest: str) -> Segment:
        """A segment without documents."""
        segment = self._by_id[self._next] = Segment(self._next, digest, first, first - 1, 0, None, 0)
        segment.was = None
        self.of_hash(digest).append(segment)
        self._next += 1
        return segment

    def fits(self, segment: Segment, tree: bytes | None, upto: int) -> bool:
        """Whether the line of root tree ``tree`` is the same as the segment's, up to event ``upto``."""
        if tree is None or segment.tree is None:
            return True
        return same_past(self._store, segment.tree, tree, min(upto, segment.reach))

    # --- documents -------------------------------------------------------------------------------

    def document(self, segment: Segment, event: Event, *, mine: bool) -> bool:
        """Put in what an event says. From a tail another text may be there: it makes room if the segment is ``mine``.

        False when it does not: then the lines have parted.
        """
        said = words(event)
        if event.seq <= segment.tail:
            there = self._there(segment, event.seq)
            if there == said:
                return True
            if not mine:
                return False
            self.drop(segment, event.seq, event.seq)
        if said is not None:
            self._shelf.document(segment.id, event, said)
        return True

    def says(self, segment: Segment, event: Event) -> bool:
        """Whether the document of an event is what it says."""
        return self._there(segment, event.seq) == words(event)

    def _there(self, segment: Segment, seq: int) -> Words | None:
        self._shelf.flush()
        query = "SELECT title, summary, text, tools FROM words WHERE rowid = ?"
        row = self._db.execute(query, (row_id(segment.id, seq),)).fetchone()
        return Words(*row) if row else None

    def drop(self, segment: Segment, first: int, last: int) -> None:
        """Take out the documents of events ``first`` to ``last``."""
        self._shelf.flush()
        ends = row_id(segment.id, first), row_id(segment.id, last)
        self.removed |= self._db.execute("DELETE FROM words WHERE rowid BETWEEN ? AND ?", ends).rowcount > 0

    # --- what lines are made of ------------------------------------------------------------------

    def write(self, branch: int, held: Iterable[tuple[Segment, Part]], tree: bytes | None, in_git: int) -> None:
        """Note what the line of a branch is made of."""
        for place, (segment, part) in enumerate(held):
            self._shelf.add("part", (branch, place, segment.id, part.upto, json.dumps(part.spent)))
            if tree is not None and min(part.upto, in_git) > segment.reach:
                segment.tree, segment.reach = tree, min(part.upto, in_git)
            now = segment.last, segment.tail
            if segment.was is None:
                self._shelf.add("segment", (segment.id, segment.hash, segment.first, *now))
            elif segment.was != now:
                self._shelf.flush()
                self._db.execute("UPDATE segment SET last = ?, tail = ? WHERE id = ?", (*now, segment.id))
            segment.was = now

    def release(self, branch: int) -> None:
        """Take a branch out: what no other has of its parts goes."""
        self._shelf.flush()
        held = [number for (number,) in self._db.execute("SELECT segment FROM part WHERE branch = ?", (branch,))]
        self._db.execute("DELETE FROM part WHERE branch = ?", (branch,))
        for segment in map(self.of_id, held):
            query = (
                "SELECT coalesce(max(upto), 0), coalesce(max(min(upto, in_git)), 0) "
                "FROM part JOIN branch ON branch.id = part.branch WHERE segment = ?"
            )
            self._cut(segment, *self._db.execute(query, (segment.id,)).fetchone())

    def _cut(self, segment: Segment, upto: int, in_git: int) -> None:
        """Let a segment end at event ``upto``, of which ``in_git`` are in git; before its first event, it goes."""
        if upto < max(segment.last, segment.tail):
            self.drop(segment, upto + 1, LAST_SEQ)
        if upto < segment.first:
            self._db.execute("DELETE FROM segment WHERE id = ?", (segment.id,))
        else:
            # What no branch has in git any more is a text from a tail: git may come to have another one there.
            last = min(segment.last, in_git)
            now = last, min(max(segment.last, segment.tail), upto)
            self._db.execute("UPDATE segment SET last = ?, tail = ? WHERE id = ?", (*now, segment.id))
        # Another branch is now the one that has most of it: it is read again when it is next asked for.
        self._by_id.pop(segment.id, None)
        self._by_hash = {digest: known for digest, known in self._by_hash.items() if segment not in known}

    def undo(self, segment: Segment, last: int, tail: int) -> None:
        """Make a segment again what it was before a line that cannot be read to its end."""
        self.drop(segment, max(last, tail) + 1, LAST_SEQ)
        segment.last, segment.tail = last, tail
        if segment.was is None:
            self._by_id.pop(segment.id, None)
            for known in self._by_hash.values():
                if segment in known:
                    known.remove(segment)

    def spent(self, branch: int) -> list[tuple[int, str, int, int, Spent]]:
        """(segment, hash of its first event, first seq, last seq, what it spent) of each part of a branch."""
        # Behind the hash there may be the name of a copied ref.
        query = (
            "SELECT segment, substr(hash, 1, 64), first, upto, spent FROM part JOIN segment ON id = segment "
            "WHERE branch = ? ORDER BY place"
        )
        return [(*row, json.loads(spent)) for *row, spent in self._db.execute(query, (branch,))]
