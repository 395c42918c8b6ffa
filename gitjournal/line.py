"""The rules between an event and those before it on its line (docs/format.md sections 2, 3 and 8).

Floor 0, pure. Verification reports what breaks them; what comes in finished is refused by them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gitjournal import rules
from gitjournal.event import Event

#: In the place of the hash of an event that could not be read.
_LOST = bytes(32)


class Line:
    """The rules between an event and those before it (sections 2, 3 and 8)."""

    def __init__(self) -> None:
        self.seq = 0
        self.prev: str | None = None
        self.session: str | None = None
        self.epoch = 1
        self.branch = "main"
        #: Event hashes by seq, 32 bytes each: late declarations and comparisons of branches look back.
        self.hashes = bytearray()
        #: seq before which this line says it left another one.
        self.declared: set[int] = set()
        #: seq of the first event that could not be read, 0 when there is none.
        self.first_lost = 0
        self._prev_lost = False

    def lose(self) -> None:
        """The next event is not there or cannot be read: nothing is known of it but its place."""
        self.seq += 1
        self.first_lost = self.first_lost or self.seq
        self._prev_lost = True
        self.hashes += _LOST

    def faults(self, event: Event) -> Iterator[tuple[str, str]]:
        """(code, text) for each rule that the next event breaks; then it is the newest event all the same."""
        digest, session, epoch, kind = event.hash, event.session, event.epoch, event.type
        if event.seq != self.seq + 1:
            yield "bad-seq", f"seq {event.seq} follows {self.seq}"
        if event.prev != self.prev and not self._prev_lost:
            yield "broken-link", f"prev is {event.prev}, the event before has {self.prev}"
        if epoch < self.epoch:
            yield "bad-epoch", f"epoch falls from {self.epoch} to {epoch}"
        if self.session is not None and session != self.session and kind != "session.fork":
            yield "bad-session", f"session changes from {self.session!r} to {session!r}"
        if kind in ("session.branch", "session.fork"):
            yield from self._fork_faults(event)
        self.seq += 1
        self._prev_lost = False
        self.prev, self.session, self.epoch = digest, session, max(self.epoch, epoch)
        self.hashes += bytes.fromhex(digest)

    def _fork_faults(self, event: Event) -> Iterator[tuple[str, str]]:
        data = event.stored_data
        source = data.get("from")
        if not isinstance(source, dict) or type(source.get("seq")) is not int:
            yield "bad-fork", f"{event.type} does not say where it comes from"
            return
        if event.type == "session.branch":
            yield from self._name_faults(data)
        else:
            yield from self._origin_faults(source, event)
        if self.is_lost(source["seq"]):
            return
        if self.hash_at(source["seq"]) != source.get("hash"):
            yield "bad-fork", f"the event {source['seq']} that it comes from has another hash"
        else:
            self.declared.add(source["seq"])

    def _name_faults(self, data: Any) -> Iterator[tuple[str, str]]:
        branch = data.get("branch")
        if rules.is_id(branch):
            self.branch = branch
        else:
            yield "bad-fork", "session.branch gives its branch no name"
        if not 1 <= data["from"]["seq"] <= self.seq:
            yield "bad-fork", f"branch comes from event {data['from']['seq']}, which is not before it"

    def _origin_faults(self, source: Any, event: Event) -> Iterator[tuple[str, str]]:
        if source["seq"] != self.seq:
            yield "bad-fork", f"fork comes from event {source['seq']}, not from {self.seq}"
        if self.session is not None and event.session == self.session:
            yield "bad-fork", f"fork of session {event.session!r} into itself"
        elif self.session is not None and source.get("session") != self.session:
            yield "bad-fork", f"fork comes from session {source.get('session')!r}, not {self.session!r}"
        self.branch = "main"

    def is_lost(self, seq: int) -> bool:
        """Whether the event was there to be read and could not be."""
        return 1 <= seq <= self.seq and self.hashes[32 * seq - 32 : 32 * seq] == _LOST

    def hash_at(self, seq: int) -> str | None:
        """Hash of an event that has been seen; None when it was not, or is lost."""
        if not 1 <= seq <= self.seq or self.is_lost(seq):
            return None
        return self.hashes[32 * seq - 32 : 32 * seq].hex()
