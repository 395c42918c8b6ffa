"""What is asked of the index: the list of sessions, and full-text search.

Floor 4. What people type is never handed to FTS5 as it is: `match` reads it and writes the query anew, each word in
quotes, so that no text is an error of the database.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Collection, Sequence
from itertools import islice
from typing import Any, NamedTuple

from gitjournal.errors import UsageError
from gitjournal.index_db import SEQ_BITS
from gitjournal.index_text import COLUMNS
from gitjournal.refs import Name

#: So many hits are ranked at the most, those that were indexed last.
MOST_RANKED = 20_000
_MOST_WORDS = 64
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
    project: str = "",
    label: str = "",
    limit: int | None = None,
) -> list[dict[str, Any]]:
    """The rows of sessions (`index_rows.about_session`), newest first; those that cannot be read at the end.

    Archived ones only if asked for. ``since`` is a ``ts``, ``project`` a folder as `session.start` names it.
    """
    query = (
        "SELECT about FROM session WHERE (updated >= ? OR updated = '') AND (? OR NOT archived) "
        "AND (? = '' OR project = ?) ORDER BY updated DESC, session"
    )
    rows = (json.loads(about) for (about,) in db.execute(query, (since, archived, project, project)))
    return list(islice((row for row in rows if not label or label in (row["labels"] or ())), limit))


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


def without_wakes(db: sqlite3.Connection) -> set[str]:
    """The sessions in which no wake waits; not those of which a branch cannot be read."""
    return {row["session"] for row in sessions(db, archived=True) if not row["wakes"] and not row["error"]}


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
    # Ranking reads each document's size: of a word that is everywhere only the newest are worth it.
    ranked = (
        f"SELECT rowid, score FROM (SELECT rowid, {_RANK} AS score FROM words WHERE words MATCH ? {where} "  # noqa: S608
        "ORDER BY rowid DESC LIMIT ?) ORDER BY score, rowid DESC LIMIT ?"
    )
    try:
        best = dict(db.execute(ranked, (query, *values, MOST_RANKED, limit)).fetchall())
        said = _snippets(db, query, best)
    except sqlite3.OperationalError as error:
        if "fts5" not in str(error):
            raise
        raise UsageError(f"{text[:80]!r} cannot be searched for: {error}") from None
    hits = (_hit(db, row, score, *said[row], session, archived) for row, score in best.items() if row in said)
    return [hit for hit in hits if hit is not None]


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
