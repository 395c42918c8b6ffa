"""The blobs of events, read and hashed in a second process before they are asked for.

Floor 2. To inflate and to hash is half of reading a long session. Where there is no second process, or it has stopped
for whatever reason, who wants an event reads it alone.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from gitjournal import aside
from gitjournal.aside import Aside, Send
from gitjournal.chain import blobs

if TYPE_CHECKING:
    from gitjournal.store import Store

# Bytes of events in one message.
_PART = 128 * 1024
Read = Callable[[bytes], bytes]


@contextmanager
def reading(store: Store) -> Iterator[None]:
    """Meanwhile this thread's long reads of the store have the help of a second process, where one is possible."""
    if store.ahead is not None or not aside.is_possible():
        yield
        return
    try:
        store.ahead = helper = Ahead(store)
    except OSError:
        yield
        return
    try:
        yield
    finally:
        store.ahead = None
        helper.close()


class Ahead:
    """The second process; for one read at a time, by the thread that made it."""

    def __init__(self, store: Store) -> None:
        """Begin. OSError when no process is to be had."""
        self._store = store
        self._owner = threading.get_ident()
        self._aside = Aside(self._work)
        self._answers = self._aside.answers()
        self._free = True

    def _work(self, messages: Iterator[Any], send: Send) -> None:
        """In the other process: for each message (id, content) of blobs, in parts; each says if it is the last one."""
        for root, after, last in messages:
            read = self._store.run(b"blob").read
            part: list[tuple[bytes, bytes]] = []
            size = 0
            for _, oid, _ in blobs(self._store, root, after, last):
                raw = read(oid)
                part.append((oid, raw))
                size += len(raw)
                if size >= _PART:
                    send((part, False))
                    part, size = [], 0
            send((part, True))

    def reader(self, root: bytes, after: int, last: int, alone: Read) -> Read:
        """Reads the blobs of events ``after`` < seq <= ``last`` in order; ``alone`` does it without help."""
        if not self._free or threading.get_ident() != self._owner or not self._aside.tell((root, after, last)):
            return alone
        self._free = False
        coming = self._coming()

        def read(oid: bytes) -> bytes:
            found, content = next(coming, (b"", b""))
            return content if found == oid else alone(oid)

        return read

    def _coming(self) -> Iterator[tuple[bytes, bytes]]:
        for part, is_last in self._answers:
            self._free = is_last
            yield from part
            if is_last:
                return

    def close(self) -> None:
        """End the other process."""
        self._aside.close()
