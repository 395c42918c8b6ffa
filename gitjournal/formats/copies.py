"""Sources that begin with a copy of another session: only what differs is kept, and the bytes are exact all the same.

A program that resumes or forks a session may copy its history into a new file. In the journal the new session is a fork
of the other one. Its first own event holds the bytes of the copied part (`copied`).
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from gitjournal.event import Event
from gitjournal.formats.copied import Part, base, is_copied
from gitjournal.formats.imported import after_record, raw_piece
from gitjournal.formats.patch import MOST_PATCH
from gitjournal.formats.records import NOT_JSON, Record, value_of
from gitjournal.journal import Journal
from gitjournal.likeness import describe
from gitjournal.refs import Name

if TYPE_CHECKING:
    from gitjournal.formats.protocol import Item, RecordFormat

# What nobody says to the model: a copy may leave it out, or have it where the other has none.
_ASIDE = frozenset({"native", "session.update"})
# So many of them in a row.
_MOST_ASIDE = 256


class _Theirs(NamedTuple):
    event: Event
    key: bytes
    #: Where its record begins in the base, and the record.
    at: int
    raw: bytes


class Copy(Part):
    """The copied part of a source, found record by record along one line of the other session."""

    def __init__(self, fmt: RecordFormat, journal: Journal, line: Name) -> None:
        super().__init__()
        self.line = line
        #: The newest event that was copied.
        self.seq = 0
        #: The time of the last of them.
        self.ts = ""
        #: Items behind the last one that has a partner: they are not copied.
        self.aside: list[Item] = []
        self._fmt = fmt
        self._journal = journal
        self._said = False
        self._offset = 0
        self._events = journal.events(line, after=1)
        self._ahead: deque[_Theirs] = deque()

    def take(self, item: Item) -> bool:
        """Whether the next record goes into the copied part, or may yet; after False it is over."""
        key = self._fmt.same(item.record)
        theirs = self._partner(key) if key else None
        if theirs is None:
            if item.type not in _ASIDE or len(self.aside) >= _MOST_ASIDE or len(self._patch) > MOST_PATCH:
                return False
            self.aside.append(item)
            return True
        for one in self.aside:
            self._patch.text(self._count(one.record))
        describe(self._patch, self._count(item.record), theirs.raw, theirs.at)
        self.aside = []
        self.seq, self.ts = theirs.event.seq, item.ts or ""
        self._said = self._said or theirs.event.type not in _ASIDE
        return True

    def _partner(self, key: bytes) -> _Theirs | None:
        """The next record of the other session that has this key; only what nobody says may stand before it."""
        at = 0
        while at < _MOST_ASIDE:
            if at == len(self._ahead) and not self._look():
                return None
            theirs = self._ahead[at]
            if theirs.key == key:
                for _ in range(at + 1):
                    self._ahead.popleft()
                return theirs
            if theirs.event.type not in _ASIDE:
                return None
            at += 1
        return None

    def _look(self) -> bool:
        event = next(self._events, None)
        while event is not None and not event.withheld and not raw_piece(event) and _is_between(event):
            event = next(self._events, None)
        if event is None or event.withheld or not raw_piece(event):
            return False
        raw = event.read_file(1)
        value = value_of(raw)
        record = Record(1, 0, raw, value, "" if value is not NOT_JSON else "unparsable", False, True)
        whole = raw + after_record(event)
        self._ahead.append(_Theirs(event, self._fmt.same(record), self._offset, whole))
        self._offset += len(whole)
        return True

    def finish(self) -> bytes | None:
        """The patch, which was tried; None when there is nothing worth it, or it does not give the bytes back."""
        return self._whole(base(self._journal, self.line, self.seq + 1)) if self._said else None


def _is_between(event: Event) -> bool:
    """Whether an event is one that a line has between its records."""
    return event.type in ("session.branch", "session.fork") or is_copied(event)


def lines(journal: Journal, session: str) -> list[Name]:
    """The lines of a session that a source can be a copy of, the trunk first."""
    return sorted(journal.branches(session), key=lambda name: (name.branch != "main", name.branch))
