"""The two logs of a Codex rollout: what the model exchanged, and what the screen showed. Most of it is in both.

What stands first is shown; the same text in the other log is its double. Which log is first differs between versions
and between kinds of messages, and nothing can wait for a later record: an import must not depend on how far a file
had grown.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from zlib import crc32

PROTOCOL = "protocol"
DISPLAY = "display"
# Texts whose double has not come yet; most that come only once are what the program has put in.
_MAX_WAITING = 256


class Doubles:
    """Texts that were shown from one log and may come again in the other."""

    def __init__(self) -> None:
        #: How often each text was shown without its double, by log, kind and text.
        self._waiting: dict[str, int] = {}

    def is_new(self, log: str, kind: str, texts: Sequence[str]) -> bool:
        """Take texts of a record; False when all of them were shown from the other log.

        ``kind`` is who said it, so that the echo of a word is not taken for it.
        """
        other = DISPLAY if log == PROTOCOL else PROTOCOL
        said = [text.strip() for text in texts if text.strip()]
        doubles = [_key(other, kind, text) for text in said]
        if said and all(key in self._waiting for key in doubles):
            for key in doubles:
                self._take(key)
            return False
        for text in said:
            key = _key(log, kind, text)
            self._waiting[key] = self._waiting.pop(key, 0) + 1
        while len(self._waiting) > _MAX_WAITING:
            del self._waiting[next(iter(self._waiting))]
        return True

    def _take(self, key: str) -> None:
        if key in self._waiting:
            self._waiting[key] -= 1
            if not self._waiting[key]:
                del self._waiting[key]

    def save(self) -> Any:
        """See `protocol.Mapper.save`."""
        return self._waiting

    def load(self, saved: Any) -> None:
        """See `protocol.Mapper.load`."""
        self._waiting = saved


def _key(log: str, kind: str, text: str) -> str:
    return f"{log} {kind} {len(text)} {crc32(text.encode())}"
