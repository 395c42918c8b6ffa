"""The rules between an event and those before it on its line (docs/format.md sections 2, 3 and 8).

Floor 0, pure. Verification reports what breaks them; what comes in finished is refused by them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gitjournal.event import Event


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

    def faults(self, event: Event) -> Iterator[tuple[str, str]]:
        """(code, text) for each rule that the next event breaks; then it is the newest event all the same."""
        digest = event.hash
        if event.seq != self.seq + 1:
            yield "bad-seq", f"seq {event.seq} follows {self.seq}"
        if event.prev != self.prev:
            yield "broken-link", f"prev is {event.prev}, the event before has {self.prev}"
        if event.epoch < self.epoch:
            yield "bad-epoch", f"epoch falls from {self.epoch} to {event.epoch}"
        if self.session is not None and event.session != self.session and event.type != "session.fork":
            yield "bad-session", f"session changes from {self.session!r} to {event.session!r}"
        if event.type in ("session.branch", "session.fork"):
            yield from self._fork_faults(event)
        self.seq += 1
        self.prev, self.session, self.epoch = digest, event.session, max(self.epoch, event.epoch)
        self.hashes += bytes.fromhex(digest)

    def _fork_faults(self, event: Event) -> Iterator[tuple[str, str]]:
        data = event.stored_data
        source = data.get("from")
        if not isinstance(source, dict) or type(source.get("seq")) is not int:
            yield "bad-fork", f"{event.type} does not say where it comes from"
            return
        if event.type == "session.branch":
            yield from self._name_faults(data, event)
        elif event.session == self.session:
            yield "bad-fork", f"fork of session {event.session!r} into itself"
        elif source.get("session") != self.session or source["seq"] != event.seq - 1:
            yield "bad-fork", f"fork comes from {source.get('session')}@{source['seq']}, not {self.session}@{self.seq}"
        if self.hash_at(source["seq"]) != source.get("hash"):
            yield "bad-fork", f"the event {source['seq']} that it comes from has another hash"
        else:
            self.declared.add(source["seq"])
        if event.type == "session.fork":
            self.branch = "main"

    def _name_faults(self, data: Any, event: Event) -> Iterator[tuple[str, str]]:
        branch = data.get("branch")
        if type(branch) is str and branch:
            self.branch = branch
        else:
            yield "bad-fork", "session.branch gives its branch no name"
        if not 1 <= data["from"]["seq"] < event.seq:
            yield "bad-fork", f"branch comes from event {data['from']['seq']}, which is not before it"

    def hash_at(self, seq: int) -> str | None:
        """Hash of an event that has been seen."""
        if not 1 <= seq <= self.seq:
            return None
        return self.hashes[32 * seq - 32 : 32 * seq].hex()
