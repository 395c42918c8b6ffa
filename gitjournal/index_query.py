"""What is asked of the index: the list of sessions, and full-text search.

Floor 4. What people type is never handed to FTS5 as it is: `match` reads it and writes the query anew, each word in
quotes, so that no text is an error of the database.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Collection, Iterator, Sequence
from heapq import nsmallest
from itertools import islice
from typing import Any, NamedTuple

from gitjournal.errors import UsageError
from gitjournal.index_db import SEQ_BITS
from gitjournal.index_text import COLUMNS
from gitjournal.refs import TRUNK, Name

#: So many hits are ranked at the most beside those in titles: those that were indexed last.
MOST_RANKED = 20_000
_MOST_WORDS = 64
# Values of one statement; SQLite takes 32,766.
_AT_ONCE = 5000
_TOKEN = re.compile(r'(-?)"([^"]*)"(\*?)|(-?)([^\s"]+)|(")')
_WORD = re.compile(r"\w")
#: Weights of the columns: a word in the title says more than one in the output of a tool.
_RANK = "bm25(words, 10.0, 4.0, 1.0, 0.4)"
#: Around what matched in a snippet. Texts that hold them themselves only look odd.
_BEGIN, _END = "\ue000", "\ue001"
_SNIPPET_WORDS = 24
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
    """The branches whose line begins with one of these events, copied refs among them, and those of unknown lines."""
    # Behind the hash of a copied ref's segment there is a space, and its name.
    query = (
        "SELECT DISTINCT session, name FROM segment JOIN part ON part.segment = segment.id "
        "JOIN branch ON branch.id = part.branch WHERE hash >= ? AND hash < ? || '!' AND place = 0"
    )
    rows = [row for digest in hashes for row in db.execute(query, (digest, digest))]
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


def search(
    db: sqlite3.Connection,
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
        best = _best(db, query, where, values, limit)
        said = _snippets(db, query, best)
    except sqlite3.OperationalError as error:
        if "fts5" not in str(error):
            raise
        raise UsageError(f"{text[:80]!r} cannot be searched for: {error}") from None
    hits: dict[tuple[str, int, str, str], Hit] = {}
    for row, score in best.items():
        if row in said and (hit := _hit(db, row, score, *said[row], session, archived)):
            # A ref that was copied by force has the same event in a segment of its own.
            digest = db.execute("SELECT substr(hash, 1, 64) FROM segment WHERE id = ?", (row >> SEQ_BITS,)).fetchone()
            known = hits.setdefault((*digest, hit.seq, *said[row]), hit)
            if _listed(hit.name) < _listed(known.name):
                hits[*digest, hit.seq, *said[row]] = hit
    return list(hits.values())


def _best(db: sqlite3.Connection, query: str, where: str, values: Sequence[Any], limit: int) -> dict[int, float]:
    """The scores of the best hits, which come first; of equal ones the newest."""
    # Ranking reads each document's size: of a word that is everywhere only some are worth it.
    ranked = f"SELECT rowid, {_RANK} FROM words WHERE words MATCH ? {where} ORDER BY rowid DESC LIMIT ?"  # noqa: S608
    scores = dict(db.execute(ranked, (query, *values, MOST_RANKED)).fetchall())
    if len(scores) == MOST_RANKED:
        # Titles are few, count most, and may be those of old sessions.
        scores.update(db.execute(ranked, (f"{{title summary}} : ({query})", *values, MOST_RANKED)).fetchall())
    least = max(nsmallest(limit, scores.values()), default=0.0)
    rows = _newest_first(db, [row for row, score in scores.items() if score <= least])
    rows.sort(key=scores.__getitem__)
    return {row: scores[row] for row in rows[:limit]}


def _newest_first(db: sqlite3.Connection, rows: Sequence[int]) -> list[int]:
    """Rows in an order that does not depend on when they were indexed."""
    times: dict[int, str] = {}
    for begin in range(0, len(rows), _AT_ONCE):
        some = rows[begin : begin + _AT_ONCE]
        query = f"SELECT rowid, ts FROM words WHERE rowid IN ({', '.join('?' * len(some))})"  # noqa: S608
        times.update(db.execute(query, some).fetchall())
    one = "SELECT hash FROM segment WHERE id = ?"
    hashes = {segment: db.execute(one, (segment,)).fetchone() for segment in {row >> SEQ_BITS for row in rows}}
    found = sorted(rows, key=lambda row: (row & _SEQ, hashes[row >> SEQ_BITS]))
    return sorted(found, key=lambda row: times.get(row, ""), reverse=True)


def _listed(name: Name) -> tuple[str, bool, str]:
    """The trunk first, as in lists."""
    return name.session, name.branch != TRUNK, name.branch


def _snippets(db: sqlite3.Connection, query: str, rows: Collection[int]) -> dict[int, tuple[str, str]]:
    """(time, marked snippet) of each of the rows that a query has found, in one pass over its hits."""
    # The plus keeps FTS5 from asking for row after row, which for `begin*` would gather all its words each time.
    cut = (
        f"SELECT rowid, ts, snippet(words, -1, '{_BEGIN}', '{_END}', '…', {_SNIPPET_WORDS}) FROM words "  # noqa: S608
        f"WHERE words MATCH ? AND +rowid IN ({', '.join('?' * len(rows))}) ORDER BY rowid DESC LIMIT ?"
    )
    return {row: (ts, said) for row, ts, said in db.execute(cut, (query, *rows, len(rows)))}


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
        where += "AND ts >= ? "
        values.append(since)
    return where, values


def _hit(
    db: sqlite3.Connection, row: int, score: float, ts: str, said: str, session: str, archived: bool
) -> Hit | None:
    seq = row & _SEQ
    name = _holder(db, row >> SEQ_BITS, seq, session, archived)
    snippet, matches = _unmarked(said)
    return Hit(name, seq, ts, round(-score, 4), snippet, matches) if name else None


def _holder(db: sqlite3.Connection, segment: int, seq: int, session: str, archived: bool) -> Name | None:
    """The branch (of ``session``, if one is named) that wrote an event; else the first that has it and may be shown."""
    query = (
        "SELECT session, name FROM part JOIN branch ON branch.id = part.branch "  # noqa: S608
        f"WHERE segment = ? AND upto >= ? AND (? = '' OR session = ?) AND (? OR session NOT IN {_AWAY}) "
        "ORDER BY place < (SELECT max(place) FROM part AS other WHERE other.branch = part.branch), session, name"
    )
    row = db.execute(query, (segment, seq, session, session, archived)).fetchone()
    return Name(*row) if row else None


def _unmarked(snippet: str) -> tuple[str, list[tuple[int, int]]]:
    """The snippet as one line without its marks, and where they stood."""
    parts = re.split(f"[{_BEGIN}{_END}]", " ".join(snippet.split()))
    text, matches = "", []
    for number, part in enumerate(parts):
        if number % 2 and part:
            matches.append((len(text), len(text) + len(part)))
        text += part
    return text, matches
