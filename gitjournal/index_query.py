"""What is asked of the index: the list of sessions, and full-text search.

Floor 4. What people type is never handed to FTS5 as it is: `match` reads it and writes the query anew, each word in
quotes, so that no text is an error of the database.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Collection, Iterator, Mapping, Sequence
from heapq import nsmallest
from itertools import islice, takewhile
from typing import TYPE_CHECKING, Any, NamedTuple

from gitjournal import index_rank
from gitjournal.errors import UsageError
from gitjournal.index_db import SEQ_BITS
from gitjournal.index_snippet import snippets
from gitjournal.index_text import COLUMNS, moment
from gitjournal.refs import TRUNK, Name

if TYPE_CHECKING:
    from gitjournal.journal import Journal

_MOST_WORDS = 64
# Values of one statement; SQLite takes 32,766.
_AT_ONCE = 5000
_TOKEN = re.compile(r'(-?)"([^"]*)"(\*?)|(-?)([^\s"]+)|(")')
_WORD = re.compile(r"[^\W_]")
_FOREIGN = re.compile(rf"\bNOT\b|\bNEAR\b|\b(?:{'|'.join(COLUMNS)})\s*:")
_LEAST = 2
_SEQ = (1 << SEQ_BITS) - 1
_AWAY = "(SELECT session FROM session WHERE archived)"


class Hit(NamedTuple):
    """One event that a search has found. ``matches`` are the (begin, end) in ``snippet`` of what matched."""

    name: Name
    seq: int
    ts: str
    score: float
    snippet: str
    matches: list[tuple[int, int]]


# --- sessions ------------------------------------------------------------------------------------


def sessions(
    db: sqlite3.Connection,
    *,
    archived: bool = False,
    since: str = "",
    projects: Sequence[str] = (),
    label: str = "",
    limit: int | None = None,
) -> list[dict[str, Any]]:
    """The first ``limit`` rows of `listed`."""
    found = listed(db, archived=archived, since=since, projects=projects, label=label)
    return list(islice(found, limit))


def listed(
    db: sqlite3.Connection,
    *,
    archived: bool = False,
    since: str = "",
    projects: Sequence[str] = (),
    label: str = "",
    status: str = "",
    live: Sequence[str] = (),
) -> Iterator[dict[str, Any]]:
    """The rows of sessions (`index_rows.about_session`), newest first; those that cannot be read at the end.

    Archived ones only if asked for. ``since`` is a ``ts``, ``projects`` are folders as `session.start` may name one.
    With a ``status``, those that have it while nobody writes to them, and all that may be ``live``.
    """
    where, values = "(? OR NOT archived) ", list[Any]([archived])
    for wanted, condition, given in (
        (projects, f"AND project IN ({', '.join('?' * len(projects))}) ", projects),
        (label, "AND session IN (SELECT session FROM label WHERE label = ?) ", (label,)),
        (status, "AND (status = ? OR session IN (SELECT value FROM json_each(?))) ", (status, json.dumps(live))),
    ):
        if wanted:
            where += condition
            values += given
    # Those that cannot be read have no time, and are listed since whenever.
    for updated in ("updated >= ?", "updated = ''") if since else ("updated >= ?",):
        query = f"SELECT about FROM session WHERE {where} AND {updated} ORDER BY updated DESC, session"  # noqa: S608
        for (about,) in db.execute(query, [*values, *[since][: updated.count("?")]]):
            yield json.loads(about)


def below(db: sqlite3.Connection, session: str) -> dict[str, list[str]]:
    """``session`` and all below it, each with the sessions whose start names it as their parent, sorted."""
    query = "SELECT session FROM session WHERE parent = ? AND parent <> '' ORDER BY session"
    found: dict[str, list[str]] = {}
    todo = [session]
    while todo:
        # Sessions that name each other as parents are taken once.
        if (one := todo.pop()) not in found:
            found[one] = [child for (child,) in db.execute(query, (one,))]
            todo += found[one]
    return found


def beginning(db: sqlite3.Connection, hashes: Collection[str]) -> list[Name]:
    """The branches whose line begins with one of these events, and those that cannot be read."""
    query = (
        "SELECT session, name FROM part JOIN branch ON branch.id = part.branch "
        "WHERE place = 0 AND segment IN (SELECT id FROM segment WHERE hash = ?)"
    )
    rows = [row for digest in hashes for row in db.execute(query, (digest,))]
    return [Name(*row) for row in (*rows, *db.execute("SELECT session, name FROM branch WHERE error <> ''"))]


def unread(db: sqlite3.Connection) -> dict[str, str]:
    """The sessions of which no branch can be read, and why."""
    rows = db.execute("SELECT session, about FROM session WHERE updated = '' ORDER BY session")
    return {session: json.loads(about)["error"] or "" for session, about in rows}


def with_wakes(db: sqlite3.Connection) -> list[str]:
    """The sessions in which a wake waits, and those of which a branch cannot be read."""
    return [session for (session,) in db.execute("SELECT session FROM session WHERE wakes ORDER BY session")]


def titles(db: sqlite3.Connection, names: Sequence[Name]) -> dict[Name, str]:
    """The title of each branch, or how it began; without those that have neither."""
    found = {}
    for name in names:
        row = db.execute("SELECT about FROM branch WHERE path = ?", (name.path,)).fetchone()
        about = json.loads(row[0]) if row else {}
        if said := about.get("title") or about.get("first"):
            found[name] = said
    return found


# --- search --------------------------------------------------------------------------------------


def missed(db: sqlite3.Connection, session: str = "") -> int:
    """How many branches (of ``session``, if one is named) are not in the index because they cannot be read."""
    query = "SELECT count(*) FROM branch WHERE error <> '' AND (? = '' OR session = ?)"
    return int(db.execute(query, (session, session)).fetchone()[0])


def match(text: str, columns: Sequence[str] = ()) -> str:
    """The FTS5 query for what somebody typed: words, ``"a phrase"``, ``begin*``, ``OR``, ``-not``. UsageError.

    ``columns`` (of `index_text.COLUMNS`) says where to look; nowhere else then.
    """
    for column in columns:
        if column not in COLUMNS:
            raise UsageError(f"there is no column {column!r}", hint=f"There are {', '.join(COLUMNS)}.")
    wanted, unwanted = _terms(text)
    if not wanted:
        raise UsageError(f"{text!r} has no word to look for")
    # Alternatives bind closer than words beside each other, as in web searches.
    query = " AND ".join(f"({' OR '.join(either)})" for either in wanted)
    query = f"({query})" + "".join(f" NOT {term}" for term in unwanted)
    return f"{{{' '.join(columns)}}} : ({query})" if columns else query


def _terms(text: str) -> tuple[list[list[str]], list[str]]:
    """(groups of alternatives, what must not be there), each an FTS5 phrase."""
    wanted: list[list[str]] = []
    unwanted: list[str] = []
    either = False
    for count, found in enumerate(_TOKEN.finditer(text)):
        minus, phrase, star, minus_word, word, lone = found.groups()
        if lone or count >= _MOST_WORDS:
            raise UsageError(f"{text[:80]!r} has {'a quote that is never closed' if lone else 'too many words'}")
        if word in ("OR", "AND"):
            either = word == "OR"
            continue
        term = _phrase(phrase, star) if phrase is not None else _phrase(word.rstrip("*"), word[len(word.rstrip("*")) :])
        if not term:
            continue
        if minus or minus_word:
            unwanted.append(term)
        elif either and wanted:
            wanted[-1].append(term)
        else:
            wanted.append([term])
        either = False
    return wanted, unwanted


def _phrase(text: str, star: str) -> str:
    # Without a letter or digit there is nothing that an index of words could have.
    clean = text.replace('"', " ").replace("\x00", " ").encode("utf-8", "replace").decode()
    if star and len(clean.strip()) < _LEAST:
        raise UsageError(f"{text}* begins too many words", hint=f"Give {_LEAST} letters or more before the star.")
    return f'"{clean}"{" *" if star else ""}' if _WORD.search(clean) else ""


def is_foreign(text: str) -> bool:
    """Whether a search looks as if operators of FTS5 were meant, which `match` takes for words."""
    return bool(_FOREIGN.search(text))


def search(
    db: sqlite3.Connection,
    journal: Journal,
    text: str,
    *,
    columns: Sequence[str] = (),
    session: str = "",
    since: str = "",
    archived: bool = False,
    limit: int = 20,
) -> list[Hit]:
    """The events that say ``text`` (`match`), the best first. UsageError.

    Those that only archived sessions have are left out unless they are ``archived``, or the ``session`` is named.
    """
    query = match(text, columns)
    archived = archived or bool(session)
    where, values = _narrowed(session, since, archived)
    try:
        scores = index_rank.scores(db, query, index_rank.Filter(where, values, session))
    except sqlite3.OperationalError as error:
        if "fts5" not in str(error):
            raise
        raise UsageError(f"{text[:80]!r} cannot be searched for: {error}") from None
    rows = limit
    while True:
        best = _best(db, scores, rows)
        hits = _hits(db, journal, query, best, session, archived)
        if len(hits) >= limit or len(best) == len(scores):
            return hits[:limit]
        # Some are the same hit, or cannot be read any more.
        rows *= 2


def _hits(
    db: sqlite3.Connection, journal: Journal, query: str, best: Mapping[int, _Place], session: str, archived: bool
) -> list[Hit]:
    """What rows say, the best first."""
    held = {row: name for row in best if (name := _holder(db, row, session, archived))}
    said = snippets(journal, query, {row: (name, row & _SEQ) for row, name in held.items()})
    hits: dict[tuple[_Place, str], Hit] = {}
    for row, one in said.items():
        place, name = best[row], held[row]
        hit = Hit(name, place.seq, one.ts, round(-place.score, 4), one.text, one.matches)
        # An event that one branch has with its payload and another without it is there twice, and so is what comes
        # after it.
        known = hits.setdefault((place, one.text), hit)
        if _listed(name) < _listed(known.name):
            hits[place, one.text] = hit
    return [hits[key] for key in sorted(hits, key=lambda key: (*key[0].rank, _listed(hits[key].name), key[1]))]


class _Place(NamedTuple):
    """Of a hit what says where it stands in the list; ``session`` is the one that it was written in."""

    score: float
    moment: int
    session: str
    seq: int

    @property
    def rank(self) -> tuple[Any, ...]:
        """Sorts the best first, of equal ones the newest. It does not depend on when they were indexed."""
        return self.score, -self.moment, self.session, self.seq


def _best(db: sqlite3.Connection, scores: Mapping[int, float], limit: int) -> dict[int, _Place]:
    """The best hits; more than ``limit`` if more stand in one place."""
    least = max(nsmallest(limit, scores.values()), default=0.0)
    places = _places(db, {row: score for row, score in scores.items() if score <= least})
    found = sorted(places.items(), key=lambda one: one[1].rank)
    return dict([*found[:limit], *takewhile(lambda one: one[1] == found[limit - 1][1], found[limit:])])


def _places(db: sqlite3.Connection, scores: Mapping[int, float]) -> dict[int, _Place]:
    """The places of hits by row."""
    times, rows = dict[int, int](), list(scores)
    for begin in range(0, len(rows), _AT_ONCE):
        some = rows[begin : begin + _AT_ONCE]
        query = f"SELECT id, ts FROM stamp WHERE id IN ({', '.join('?' * len(some))})"  # noqa: S608
        times.update(db.execute(query, some).fetchall())
    one = "SELECT session FROM segment WHERE id = ?"
    sessions = {number: db.execute(one, (number,)).fetchone()[0] for number in {row >> SEQ_BITS for row in rows}}
    return {
        row: _Place(score, times.get(row, 0), sessions[row >> SEQ_BITS], row & _SEQ) for row, score in scores.items()
    }


def _listed(name: Name) -> tuple[str, bool, str]:
    """The trunk first, as in lists."""
    return name.session, name.branch != TRUNK, name.branch


def _narrowed(session: str, since: str, archived: bool) -> tuple[str, list[Any]]:
    where, values = "", list[Any]()
    parts = "FROM part JOIN branch ON branch.id = part.branch WHERE session"
    here = f"segment = words.rowid >> {SEQ_BITS} AND upto >= words.rowid & {_SEQ}"
    if session:
        where += f"AND EXISTS(SELECT 1 {parts} = ? AND {here}) "
        values.append(session)
    if not archived:
        # Most segments are of no archived session: only the others are looked at hit by hit.
        where += f"AND (words.rowid >> {SEQ_BITS} NOT IN (SELECT segment {parts} IN {_AWAY}) "
        where += f"OR EXISTS(SELECT 1 {parts} NOT IN {_AWAY} AND {here})) "
    if since:
        where += "AND (SELECT ts FROM stamp WHERE id = words.rowid) >= ? "
        values.append(moment(since))
    return where, values


def _holder(db: sqlite3.Connection, row: int, session: str, archived: bool) -> Name | None:
    """The branch (of ``session``, if one is named) that wrote an event; else the first that has it and may be shown."""
    query = (
        "SELECT session, name FROM part JOIN branch ON branch.id = part.branch "  # noqa: S608
        f"WHERE segment = ? AND upto >= ? AND (? = '' OR session = ?) AND (? OR session NOT IN {_AWAY}) "
        f"ORDER BY own > ?, session, name <> '{TRUNK}', name"
    )
    seq = row & _SEQ
    found = db.execute(query, (row >> SEQ_BITS, seq, session, session, archived, seq)).fetchone()
    return Name(*found) if found else None
