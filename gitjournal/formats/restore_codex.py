"""Where Codex looks for sessions: ``sessions/YYYY/MM/DD/rollout-<time>-<session>.jsonl``, by the id in the name."""

from __future__ import annotations

import secrets
import time
import uuid
from collections.abc import Iterator
from contextlib import suppress

from gitjournal.errors import NotFound, UsageError
from gitjournal.formats.codex import Codex as Format
from gitjournal.formats.codex_items import NAME
from gitjournal.formats.codex_map import opened_line
from gitjournal.formats.exporter import raw_records
from gitjournal.formats.imported import raw_piece
from gitjournal.formats.named import of_format
from gitjournal.formats.protocol import About
from gitjournal.formats.records import Record
from gitjournal.formats.restore import UUID, Placed, Placement, moved, renamed, said_of
from gitjournal.formats.shapes import Members, members, text
from gitjournal.formats.splice import Changes
from gitjournal.journal import Journal
from gitjournal.refs import Name


class Codex(Placement):
    """A rollout. Those of its sub-agents are sessions of their own, for Codex too."""

    format = NAME
    variable = "CODEX_HOME"
    default = "~/.codex"
    resume = "codex resume"

    def taken(self, session: str) -> bool:
        """Whether there is a rollout with this id, archived or not."""
        trees = ("sessions", "archived_sessions")
        return any(any((self.root / tree).glob(f"**/rollout-*{session}*")) for tree in trees)

    def new_id(self) -> str:
        """A UUID of version 7: Codex sorts by the time in it."""
        stamp = time.time_ns() // 1_000_000
        bits = stamp << 80 | 7 << 76 | secrets.randbits(12) << 64 | 2 << 62 | secrets.randbits(62)
        return str(uuid.UUID(int=bits))

    def place(self, journal: Journal, name: Name, about: About, session: str) -> Iterator[Placed]:
        """See `Placement.place`. The time in the name is that of the first record, in UTC."""
        if about.session is None:
            raise UsageError(
                f"{name} has no line session_meta, and Codex opens no rollout without one",
                hint="gj export writes its bytes to a file.",
            )
        for past, of, is_fork in reversed(list(self._pasts(journal, name, about))):
            yield self._placed(journal, past, of, is_fork=is_fork)
        yield self._placed(journal, name, session, is_fork=bool(about.goes_on_from))

    def _placed(self, journal: Journal, name: Name, session: str, *, is_fork: bool) -> Placed:
        first = next(iter(journal.events(name, after=1, to=2)))
        if is_fork:
            first = next(event for event, _ in raw_records(journal, name) if raw_piece(event))
        day, clock = first.ts[:10], first.ts[11:19]
        folder = self.root.joinpath("sessions", *day.split("-"))
        return Placed(folder / f"rollout-{day}T{clock.replace(':', '-')}-{session}.jsonl", records=name)

    def _pasts(self, journal: Journal, name: Name, about: About) -> Iterator[tuple[Name, str, bool]]:
        """(branch, id, whether it is a fork too) of each rollout that one goes on from, the nearest first.

        Those from one on that Codex has are left out. UsageError for one that is nowhere, and for a ring.
        """
        seen = {about.session}
        while about.goes_on_from:
            of = about.goes_on_from[0]
            if not UUID.fullmatch(of):
                raise UsageError(f"{name} goes on from session {of!r}, and no rollout of Codex has such an id")
            if of in seen:
                raise UsageError(f"{name} goes on from session {of}, which goes on from itself: nobody can read that")
            if self.taken(of):
                return
            seen.add(of)
            name, about = _past(journal, of, name)
            yield name, of, bool(about.goes_on_from)

    def changes(self, former: str, session: str, old: str | None) -> Changes:
        """See `Placement.changes`."""
        return {
            ("payload", "cwd"): lambda value: moved(value, old, self.project),
            ("payload", "thread_settings", "cwd"): lambda value: moved(value, old, self.project),
            ("payload", "id"): renamed(former, session),
            ("payload", "session_id"): renamed(former, session),
            ("payload", "thread_id"): renamed(former, session),
        }

    def whence(self, record: Record, former: str) -> tuple[tuple[str, ...], Members] | None:
        """See `Placement.whence`. The header of a fork says it so."""
        line, payload = opened_line(members(record.value))
        if line != "session_meta" or text(payload, "id") != former:
            return None
        return ("payload",), {} if "forked_from_id" in payload else {"forked_from_id": former}


def _past(journal: Journal, of: str, name: Name) -> tuple[Name, About]:
    """The session that another one goes on from, and what it says of itself. UsageError."""
    with suppress(NotFound, UsageError):
        past = journal.resolve(Name(of_format(journal, NAME, of)))
        about = said_of(Format(), journal, past)
        if about.session == of:
            return past, about
    raise UsageError(
        f"{name} goes on from session {of}, which neither Codex nor the journal has",
        hint=f"gj import codex FILE with the rollout of {of} brings it into the journal.",
    )
