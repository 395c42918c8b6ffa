"""What the events that a search has found say, and what of it matched.

Floor 4. The index has no texts: a few events are read from the journal and searched once more, by themselves.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from typing import TYPE_CHECKING, NamedTuple

from gitjournal.errors import JournalError
from gitjournal.index_db import TOKENS
from gitjournal.index_text import COLUMNS, words

if TYPE_CHECKING:
    from gitjournal.journal import Journal
    from gitjournal.refs import Name

#: Around what matched. Texts that hold them themselves only look odd.
_BEGIN, _END = "\ue000", "\ue001"
_WORDS = 24


class Snippet(NamedTuple):
    """A piece of what an event says, the (begin, end) of what matched in it, and the event's ``ts``."""

    ts: str
    text: str
    matches: list[tuple[int, int]]


def snippets(journal: Journal, query: str, places: Mapping[int, tuple[Name, int]]) -> dict[int, Snippet]:
    """The snippets of events by whatever they have as numbers; without those that do not match, or cannot be read."""
    if not places:
        return {}
    times: dict[int, str] = {}
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as db:
        db.execute(f"CREATE VIRTUAL TABLE words USING fts5({', '.join(COLUMNS)}, {TOKENS})")
        put = f"INSERT INTO words(rowid, {', '.join(COLUMNS)}) VALUES (?{', ?' * len(COLUMNS)})"  # noqa: S608
        for number, (name, seq) in places.items():
            try:
                event = journal.chain(name).event(seq)
            except JournalError:
                # It was moved or damaged since the index was made.
                continue
            if said := words(event):
                times[number] = event.ts
                db.execute(put, (number, *said))
        cut = f"snippet(words, -1, '{_BEGIN}', '{_END}', '…', {_WORDS})"
        rows = db.execute(f"SELECT rowid, {cut} FROM words WHERE words MATCH ?", (query,))  # noqa: S608
        return {number: Snippet(times[number], *_unmarked(said)) for number, said in rows}


def _unmarked(snippet: str) -> tuple[str, list[tuple[int, int]]]:
    """The snippet as one line without its marks, and where they stood."""
    parts = re.split(f"[{_BEGIN}{_END}]", " ".join(snippet.split()))
    text, matches = "", []
    for number, part in enumerate(parts):
        if number % 2 and part:
            matches.append((len(text), len(text) + len(part)))
        text += part
    return text, matches
