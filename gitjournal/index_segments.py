"""The segments of an index: which documents are there, and whose events they are.

Floor 4. All lines together are a tree in which each event stands once. A segment is a piece of it without a fork: where
what one branch wrote begins, one begins, and where lines part that were copied or set back by force. Which of these
goes on in a segment depends on who came first; which documents there are does not. An event that has lost its payload
on one line and not on another is two, and so is what comes after it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple
from zlib import compress, decompress

from gitjournal import index_used
from gitjournal.chain import Chain
from gitjournal.errors import JournalError
from gitjournal.index_fold import same_past
from gitjournal.index_shelf import LAST_SEQ, Shelf, row_id
from gitjournal.index_text import COLUMNS, moment, words
from gitjournal.refs import Name

if TYPE_CHECKING:
    from gitjournal.event import Event
    from gitjournal.store import Store

#: Bytes of an event's mark.
_MARK = 8


class Lost(Exception):
    """What is to be taken out of the index cannot be read any more: a new one has to be made."""


class Witness(NamedTuple):
    """What the events of a segment are: ``tree`` holds those up to ``reach``; ``marks`` those after event ``in_git``.

    The two may be of different branches: the one that has most of it in git, and the one that has most of it.
    """

    tree: bytes | None = None
    reach: int = 0
    in_git: int = 0
    marks: bytes = b""
    upto: int = 0


class Segment:
    """Documents of events ``first`` to ``upto``; it goes on from segment ``up`` (0: it begins a line)."""

    __slots__ = (
        "first", "hash", "id", "kept", "records", "said", "session", "twin", "up", "upto", "withheld", "witness",
    )  # fmt: skip

    def __init__(
        self, number: int, up: int, digest: str, withheld: int, first: int, upto: int, session: str, twin: int
    ) -> None:
        self.id, self.up, self.hash, self.withheld = number, up, digest, bool(withheld)
        self.first, self.upto, self.session = first, upto, session
        #: The segment that has the first event in its other form, with or without its payload; 0 for none.
        self.twin = twin
        #: ``upto`` as the database has it; None for a segment that it has not.
        self.kept: int | None = upto
        #: Records of responses (`index_used`) that are not in the database yet.
        self.said: list[bytes] = []
        #: Those that are, as long as somebody may ask for them, of a segment that is made with a whole index.
        self.records: list[bytes] = []
        self.witness: Witness | None = None


def mark(event: Event) -> bytes:
    """What tells an event from all others, and from itself without its payload."""
    digest = int(event.hash[: 2 * _MARK], 16)
    return (digest & ~1 | event.withheld).to_bytes(_MARK)


class Segments:
    """The segments that one run touches. ``whole``: it makes them all, and the database has none."""

    def __init__(self, db: sqlite3.Connection, shelf: Shelf, store: Store, *, whole: bool) -> None:
        self._db = db
        self._shelf = shelf
        self._store = store
        # Reads trees whosever they are.
        self._chain = Chain(store, Name("any"))
        self._whole = whole
        self._by_hash: dict[str, list[Segment]] = {}
        self._by_id: dict[int, Segment] = {}
        self._next: int = db.execute("SELECT coalesce(max(id), 0) + 1 FROM segment").fetchone()[0]
        # Those that somebody may have let go of, with trees in which their events are, and up to which.
        self._loose: dict[int, list[tuple[bytes, int]]] = {}
        #: The seqs at which lines part within what one branch wrote.
        self.parted: set[int] = {seq for (seq,) in db.execute("SELECT first FROM segment WHERE parted")}
        #: Whether text was taken out.
        self.removed = False

    # --- finding ---------------------------------------------------------------------------------

    def of_id(self, number: int) -> Segment:
        """The segment of this number."""
        if number not in self._by_id:
            query = "SELECT id, up, hash, withheld, first, upto, session, twin FROM segment WHERE id = ?"
            self._by_id[number] = Segment(*self._db.execute(query, (number,)).fetchone())
        return self._by_id[number]

    def of_branch(self, branch: int) -> list[Segment]:
        """The segments of a branch that is in the index, oldest first."""
        rows = self._db.execute("SELECT segment FROM part WHERE branch = ? ORDER BY place", (branch,)).fetchall()
        return [self.of_id(number) for (number,) in rows]

    def _of_hash(self, digest: str) -> list[Segment]:
        if digest not in self._by_hash:
            query = "SELECT id FROM segment WHERE hash = ?"
            rows = () if self._whole else self._db.execute(query, (digest,)).fetchall()
            self._by_hash[digest] = [self.of_id(number) for (number,) in rows]
        return self._by_hash[digest]

    def find(self, up: Segment | None, event: Event) -> Segment | None:
        """The segment that begins with an event, as it is, behind segment ``up``."""
        found = self._beside(up, event)
        return next((one for one in found if one.withheld == event.withheld), None)

    def _beside(self, up: Segment | None, event: Event) -> list[Segment]:
        """The segments that begin with an event, in any form, behind segment ``up``."""
        return [one for one in self._of_hash(event.hash) if one.up == (up.id if up else 0)]

    def begun(self, up: Segment | None, event: Event, *, parted: bool) -> Segment:
        """The segment that begins with an event behind segment ``up``, a new one if need be.

        ``parted``: nobody's branch begins there, but the line is not what goes on in ``up``.
        """
        found = self.find(up, event)
        if found is None:
            other = [one.id for one in self._beside(up, event)]
            if up and not other and event.seq <= up.upto and self._is_form(up, event):
                other = [up.id]
            twin = other[0] if other else 0
            place = up.id if up else 0
            found = Segment(
                self._next, place, event.hash, event.withheld, event.seq, event.seq - 1, event.session, twin
            )
            found.kept = None
            found.witness = Witness()
            self._by_id[self._next] = found
            self._of_hash(event.hash).append(found)
            self._next += 1
            if parted:
                self.parted.add(event.seq)
        return found

    # --- comparing -------------------------------------------------------------------------------

    def agreed(self, segment: Segment, tree: bytes | None, in_git: int) -> int:
        """Up to which event a line whose root tree is ``tree`` is surely the same as the segment: as trees tell.

        The line is the same up to the segment's first event at the least, or it would not be asked.
        """
        witness = self._witness(segment)
        low, high = segment.first - 1, min(witness.reach, in_git)
        if tree is None or witness.tree is None or high <= low:
            return low
        if same_past(self._store, witness.tree, tree, high):
            return high
        while high - low > 1:
            middle = (low + high) // 2
            same = same_past(self._store, witness.tree, tree, middle)
            low, high = (middle, high) if same else (low, middle)
        return low

    def has(self, segment: Segment, event: Event) -> bool:
        """Whether an event is the one that the segment has in its place, and in the same form."""
        return self._mark(segment, event.seq) == mark(event)

    def _is_form(self, segment: Segment, event: Event) -> bool:
        """Whether the segment has an event in its other form."""
        there = self._mark(segment, event.seq)
        return bool(there) and mark(event)[:-1] == there[:-1] and mark(event)[-1] | 1 == there[-1] | 1

    def _mark(self, segment: Segment, seq: int) -> bytes:
        """The mark of an event of a segment; empty when it cannot be known."""
        witness = self._witness(segment)
        if seq > witness.reach or witness.tree is None:
            at = (seq - witness.in_git - 1) * _MARK
            return witness.marks[at : at + _MARK] if at >= 0 else b""
        try:
            return mark(next(self._chain.in_tree(witness.tree, seq - 1, seq)))
        except (JournalError, StopIteration):
            return b""

    def _witness(self, segment: Segment) -> Witness:
        if segment.witness is None:
            self._shelf.flush()
            holders = "FROM part JOIN branch ON branch.id = part.branch WHERE segment = ?"
            in_git = f"SELECT tree, min(upto, in_git) AS reach {holders} AND tree IS NOT NULL ORDER BY reach DESC"
            most = f"SELECT in_git, marks, upto {holders} ORDER BY upto DESC"
            tree = self._db.execute(f"{in_git} LIMIT 1", (segment.id,)).fetchone() or (None, 0)
            rest = self._db.execute(f"{most} LIMIT 1", (segment.id,)).fetchone() or (0, b"", 0)
            segment.witness = Witness(*tree, *rest)
        return segment.witness

    # --- what lines are made of ------------------------------------------------------------------

    def document(self, segment: Segment, event: Event, response: bytes | None) -> None:
        """Put in what the next event of a segment says, and what a response has used."""
        segment.upto = event.seq
        if response is not None:
            segment.said.append(response)
        said = words(event)
        if said is not None:
            self._shelf.document(segment.id, event, said)

    def write(self, branch: int, held: Iterable[tuple[Segment, int, str]], tree: bytes | None, in_git: int,
              marks: bytes) -> None:  # fmt: skip
        """Note what the line of a branch is made of: segments, up to which event, and what these count."""
        for place, (segment, upto, spent) in enumerate(held):
            self._shelf.add("part", (branch, place, segment.id, upto, spent))
            if self._whole or segment.kept is None:
                segment.witness = _better(segment.witness or Witness(), tree, in_git, marks, upto)
            else:
                segment.witness = None
            self._save(segment)

    def _save(self, segment: Segment) -> None:
        if segment.kept is None:
            parted = segment.first in self.parted
            row = (segment.id, segment.up, segment.hash, segment.withheld, segment.first, segment.upto)
            self._shelf.add("segment", (*row, segment.session, segment.twin, parted))
        elif segment.kept != segment.upto:
            self._shelf.flush()
            self._db.execute("UPDATE segment SET upto = ? WHERE id = ?", (segment.upto, segment.id))
        segment.kept = segment.upto
        if segment.said:
            records = b"".join(segment.said)
            self._shelf.add("response", (row_id(segment.id, index_used.first(records)), compress(records)))
            segment.said = []
            if self._whole:
                segment.records.append(records)

    # --- letting go ------------------------------------------------------------------------------

    def release(self, branch: int) -> None:
        """Take a branch out; `settle` takes out what no other has of its parts."""
        self._shelf.flush()
        self.loosen(branch)
        self._db.execute("DELETE FROM part WHERE branch = ?", (branch,))

    def loosen(self, branch: int) -> None:
        """A branch may hold less of its segments than it does now."""
        tree, in_git = self._db.execute("SELECT tree, in_git FROM branch WHERE id = ?", (branch,)).fetchone()
        for number, upto in self._db.execute("SELECT segment, upto FROM part WHERE branch = ?", (branch,)).fetchall():
            self._loose.setdefault(number, []).append((tree or b"", min(upto, in_git)))

    def leave(self, segments: Iterable[Segment], tree: bytes | None, in_git: int) -> None:
        """A line that came through these segments cannot be read to its end."""
        for segment in segments:
            self._loose.setdefault(segment.id, []).append((tree or b"", min(segment.upto, in_git)))

    def settle(self) -> None:
        """Let each segment end where the last of the lines that go through it does; without one, it goes. `Lost`."""
        if self._loose:
            self._shelf.flush()
        for number, trees in self._loose.items():
            query = "SELECT coalesce(max(upto), 0) FROM part WHERE segment = ?"
            self._cut(self.of_id(number), self._db.execute(query, (number,)).fetchone()[0], trees)
        self._loose = {}

    def _cut(self, segment: Segment, upto: int, trees: Iterable[tuple[bytes, int]]) -> None:
        if upto < segment.upto:
            self._drop(segment, max(upto, segment.first - 1), trees)
            self._cut_responses(segment.id, upto)
            segment.said = []
        if upto < segment.first:
            self._db.execute("DELETE FROM segment WHERE id = ?", (segment.id,))
            if segment.hash in self._by_hash:
                self._by_hash[segment.hash].remove(segment)
            del self._by_id[segment.id]
        elif segment.kept != upto:
            self._db.execute("UPDATE segment SET upto = ? WHERE id = ?", (upto, segment.id))
        segment.upto = segment.kept = upto
        if not self._whole:
            # Another branch is now the one that has most of it.
            segment.witness = None

    def _drop(self, segment: Segment, after: int, trees: Iterable[tuple[bytes, int]]) -> None:
        """Take out the documents of a segment's events from ``after`` on, each as it was put in. `Lost`."""
        ends = row_id(segment.id, after + 1), row_id(segment.id, LAST_SEQ)
        left = dict(self._db.execute("SELECT id, ts FROM stamp WHERE id BETWEEN ? AND ?", ends).fetchall())
        self.removed |= bool(left)
        tree = next((tree for tree, reach in trees if reach >= segment.upto), b"") if left else b""
        columns = ", ".join(("words", "rowid", *COLUMNS))
        out = f"INSERT INTO words({columns}) VALUES ('delete', ?{', ?' * len(COLUMNS)})"  # noqa: S608 - names of ours
        try:
            for event in self._chain.in_tree(tree, after, segment.upto) if tree else ():
                # With its side files or not at all: `words` would do without.
                said = words(event) if event.withheld or event.data is not None else None
                number = row_id(segment.id, event.seq)
                if said is not None and number in left:
                    if left.pop(number) != moment(event.ts):
                        raise Lost("another event is in its place")
                    self._db.execute(out, (number, *said))
        except JournalError as error:
            raise Lost(str(error)) from None
        if left:
            raise Lost("events that are in no commit")
        self._db.execute("DELETE FROM stamp WHERE id BETWEEN ? AND ?", ends)

    def _cut_responses(self, number: int, upto: int) -> None:
        first, after, last = row_id(number, 0), row_id(number, upto + 1), row_id(number, LAST_SEQ)
        self._db.execute("DELETE FROM response WHERE id BETWEEN ? AND ?", (after, last))
        query = "SELECT id, records FROM response WHERE id BETWEEN ? AND ? ORDER BY id DESC LIMIT 1"
        for row, records in self._db.execute(query, (first, last)).fetchall():
            left = compress(index_used.within(decompress(records), 0, upto))
            self._db.execute("UPDATE response SET records = ? WHERE id = ?", (left, row))

    # --- what sessions are made of ---------------------------------------------------------------

    def parts(self, branch: int) -> Iterator[tuple[Segment, int, str]]:
        """(segment, up to which event, what these count) of each part of a branch."""
        query = "SELECT segment, upto, spent FROM part WHERE branch = ? ORDER BY place"
        for number, upto, spent in self._db.execute(query, (branch,)).fetchall():
            yield self.of_id(number), upto, spent

    def responses(self, segment: Segment, after: int, upto: int) -> bytes:
        """The records of responses of events ``after`` < seq <= ``upto`` of a segment."""
        ends = row_id(segment.id, 0), row_id(segment.id, LAST_SEQ)
        query = "SELECT records FROM response WHERE id BETWEEN ? AND ? ORDER BY id"
        rows = () if self._whole else self._db.execute(query, ends).fetchall()
        records = b"".join([*segment.records, *(decompress(found) for (found,) in rows)])
        whole = after < segment.first and upto >= segment.upto
        return records if whole else index_used.within(records, after, upto)

    def free(self, segments: Iterable[int]) -> None:
        """Nobody will ask for responses of these any more, while a whole index is made."""
        for number in segments:
            self.of_id(number).records = []

    def is_twin(self, segment: Segment) -> bool:
        """Whether there is another segment that has its first event in another form."""
        if not segment.twin:
            return False
        if self._whole:
            return True
        query = "SELECT 1 FROM segment WHERE id = ? AND upto >= ?"
        return self._db.execute(query, (segment.twin, segment.first)).fetchone() is not None


def _better(known: Witness, tree: bytes | None, in_git: int, marks: bytes, upto: int) -> Witness:
    """A witness, now that a branch has the segment's events up to ``upto``."""
    if tree is not None and min(upto, in_git) > known.reach:
        known = known._replace(tree=tree, reach=min(upto, in_git))
    return known._replace(in_git=in_git, marks=marks, upto=upto) if upto > known.upto else known
