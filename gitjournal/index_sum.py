"""What a session has used, counted from its events one by one.

Floor 4. It is the slow way, for sessions of which an event has its payload on one branch and not on another: then the
first branch that has the event says what it counts, as in `gj cost`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gitjournal import index_used
from gitjournal.errors import JournalError
from gitjournal.index_fold import LineFold
from gitjournal.index_rows import Sum, add
from gitjournal.lineage import parts

if TYPE_CHECKING:
    from gitjournal.index_fold import Spent
    from gitjournal.journal import Journal
    from gitjournal.lineage import Part
    from gitjournal.refs import Name


def from_events(journal: Journal, session: str) -> Sum:
    """What a session has used; what cannot be read is left out."""
    failed: dict[Name, JournalError] = {}
    found = parts(journal, journal.branches(session), failed)
    found.sort(key=lambda part: journal.chain(part.name).event(1).ts)
    events, spent, records = 0, dict[str, int](), list[bytes]()
    for part in found:
        try:
            count, counted, used = _own(journal, session, part)
        except JournalError:
            continue
        events += count
        add(spent, counted)
        records.append(used)
    return Sum(events, spent, index_used.total(b"".join(records)))


def _own(journal: Journal, session: str, part: Part) -> tuple[int, Spent, bytes]:
    """How many events of the session a part has, what they count, and the records of their responses."""
    fold, before = LineFold(), ""
    ours: list[int] = []
    records: list[bytes] = []
    for event in journal.chain(part.name).events(to=part.head):
        begins = event.seq == part.after + 1 or event.session != before
        before = event.session
        response = fold.push(event, begins=begins)
        if event.seq > part.after and before == session:
            ours += [event.seq] if begins else []
            records += [response] if response else []
    spent: Spent = {}
    events = 0
    for piece in fold.parts():
        if piece.first in ours:
            add(spent, piece.spent)
            events += piece.upto - piece.first + 1
    return events, spent, b"".join(records)
