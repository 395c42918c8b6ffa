"""Which of the events that a search has found are ranked, and their scores.

Floor 4. To rank an event takes long, as FTS5 reads the size of its text: of a word that is everywhere only some are
worth it. Which ones depends on what the journal holds, and not on the order in which it was indexed.
"""

from __future__ import annotations

import json
import sqlite3
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any, NamedTuple

from gitjournal.index_db import ORDER, SEQ_BITS

#: With more hits than this, about so many are ranked beside those in titles: those of the sessions written last.
MOST_RANKED = 16_000
#: Weights of columns: a word in the title says more than one in the output of a tool.
_WEIGHTS = {"title": 10.0, "summary": 4.0, "text": 1.0, "tools": 0.4}
_RANK = f"bm25(words, {', '.join(str(_WEIGHTS[column]) for column in ORDER)})"
_SEQ = (1 << SEQ_BITS) - 1


#: The first and last row id of documents.
_Range = tuple[int, int]


class Filter(NamedTuple):
    """Which hits are meant: an SQL condition with its values; ``session``: those that it has, if one is named."""

    where: str
    values: Sequence[Any]
    session: str


class _Segment(NamedTuple):
    """Events ``first`` to ``upto`` of a segment."""

    id: int
    first: int
    upto: int


def scores(db: sqlite3.Connection, query: str, some: Filter) -> dict[int, float]:
    """The scores of hits by row id, a smaller one for a better hit."""
    some_rows = _last(db, query, some)
    if len(some_rows) <= MOST_RANKED:
        return _of(db, query, some_rows)
    found = _of(db, query, _newest(db, query, some, some_rows))
    # Titles are few, count most, and may be those of old sessions.
    titles = f"{{title summary}} : ({query})"
    told = _last(db, titles, some)
    found.update(_of(db, titles, told if len(told) <= MOST_RANKED else _newest(db, titles, some, told)))
    return found


def _last(db: sqlite3.Connection, query: str, some: Filter) -> list[int]:
    """All hits, or as many of those with the largest row ids as `_most` says; the smallest first."""
    rows = f"SELECT rowid FROM words WHERE words MATCH ? {some.where} ORDER BY rowid DESC LIMIT ?"  # noqa: S608
    return [row for (row,) in db.execute(rows, (query, *some.values, _most()))][::-1]


def _most() -> int:
    # With the slice that is too much: mostly those that were indexed last are those of the sessions written last.
    return MOST_RANKED + MOST_RANKED // 4 + 1


def _of(db: sqlite3.Connection, query: str, rows: Sequence[int]) -> dict[int, float]:
    """The scores of some hits."""
    if not rows:
        return {}
    # One question, for FTS5 counts all hits before it ranks the first; the plus keeps it from looking row for row.
    ranked = (
        f"SELECT rowid, {_RANK} FROM words WHERE words MATCH ? AND rowid BETWEEN ? AND ? "  # noqa: S608
        "AND +rowid IN (SELECT value FROM json_each(?))"
    )
    return dict(db.execute(ranked, (query, min(rows), max(rows), json.dumps(rows))))


def _newest(db: sqlite3.Connection, query: str, some: Filter, known: Sequence[int]) -> list[int]:
    """The hits in the sessions that were written last, at least `MOST_RANKED`. ``known`` are those of `_last`."""
    least = known[0] if len(known) == _most() else 0
    one = f"SELECT rowid FROM words WHERE words MATCH ? AND rowid BETWEEN ? AND ? {some.where}"  # noqa: S608
    found: list[int] = []
    for ranges in _slices(db, some.session):
        for first, last in ranges:
            if first >= least:
                found += known[bisect_left(known, first) : bisect_right(known, last)]
            else:
                found += [row for (row,) in db.execute(one, (query, first, last, *some.values))]
        if len(found) >= MOST_RANKED:
            break
    return found


def _slices(db: sqlite3.Connection, session: str) -> Iterator[list[_Range]]:
    """All documents in the order of their sessions, the newest first, those of some thousand events at a time.

    Where one slice ends and the next begins follows from how many events the sessions have.
    """
    most = max(MOST_RANKED // 8, 1)
    waiting: list[int] = []
    room = most
    for segments in _sessions(db, session):
        size = sum(one.upto - one.first + 1 for one in segments)
        if size > room and waiting:
            yield _whole(waiting)
            waiting, room = [], most
        if size > most:
            yield from _cut(segments, most)
        else:
            waiting += [one.id for one in segments]
            room -= size
    yield _whole(waiting)


def _cut(segments: Sequence[_Segment], most: int) -> Iterator[list[_Range]]:
    """A long session in slices, its newest events first."""
    last = max(one.upto for one in segments)
    while last > 0:
        first = max(last - most + 1, 1)
        cut = ((one.id << SEQ_BITS, max(one.first, first), min(one.upto, last)) for one in segments)
        yield [(number | begin, number | end) for number, begin, end in cut if begin <= end]
        last = first - 1


def _whole(segments: Sequence[int]) -> list[_Range]:
    """Whole segments; those that follow each other are one range."""
    found: list[_Range] = []
    for number in sorted(segments):
        first, last = number << SEQ_BITS, number << SEQ_BITS | _SEQ
        if found and found[-1][1] == first - 1:
            first, _ = found.pop()
        found.append((first, last))
    return found


def _sessions(db: sqlite3.Connection, session: str) -> Iterator[list[_Segment]]:
    """The segments of each session, those of the session that was written last first; gone sessions at the end."""
    only = "id IN (SELECT segment FROM part JOIN branch ON branch.id = part.branch WHERE branch.session = ?)"
    where, values = (f"WHERE {only}", (session,)) if session else ("", ())
    there = (
        "SELECT session.session, id, first, upto FROM session "  # noqa: S608
        f"CROSS JOIN segment ON segment.session = session.session {where} ORDER BY updated DESC, session.session"
    )
    gone = (
        f"SELECT session, id, first, upto FROM segment {where or 'WHERE 1'} "  # noqa: S608
        "AND session NOT IN (SELECT session FROM session) ORDER BY session"
    )
    for question in (there, gone):
        for _, rows in groupby(db.execute(question, values), key=lambda row: str(row[0])):
            yield [_Segment(*row[1:]) for row in rows]
