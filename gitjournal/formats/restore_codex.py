"""Where Codex looks for sessions: ``sessions/YYYY/MM/DD/rollout-<time>-<session>.jsonl``, by the id in the name."""

from __future__ import annotations

import secrets
import time
import uuid
from collections.abc import Iterator

from gitjournal.formats.codex_items import NAME
from gitjournal.formats.protocol import About
from gitjournal.formats.restore import Placed, Placement, moved, renamed
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
        first = next(iter(journal.events(name, after=1, to=2)))
        day, clock = first.ts[:10], first.ts[11:19]
        folder = self.root.joinpath("sessions", *day.split("-"))
        yield Placed(folder / f"rollout-{day}T{clock.replace(':', '-')}-{session}.jsonl", records=name)

    def changes(self, former: str, session: str, old: str | None) -> Changes:
        """See `Placement.changes`."""
        return {
            ("payload", "cwd"): lambda value: moved(value, old, self.project),
            ("payload", "id"): renamed(former, session),
            ("payload", "session_id"): renamed(former, session),
        }
