"""A line on a terminal that says how far a long command is.

Floor 6.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

#: Within one phase of the work a new text is shown so often, in seconds.
_EVERY = 0.1


class Progress:
    """Shows how far a work is on standard error, if that is a terminal.

    A text is a phase, and behind a comma how far that is: ``"writing anew, event 100 of 5,000"``. A work that is done
    within ``quiet`` seconds says nothing.
    """

    def __init__(self, quiet: float = 0.0) -> None:
        self._on = sys.stderr is not None and sys.stderr.isatty()
        self._phase = ""
        self._begins = self._next = time.monotonic() + quiet

    def __call__(self, text: str) -> None:
        """``text`` is one line of printable characters."""
        phase = text.partition(",")[0]
        if self._on and ((now := time.monotonic()) >= self._next or (phase != self._phase and now >= self._begins)):
            self._phase, self._next = phase, now + _EVERY
            sys.stderr.write(f"\r\x1b[K{text}")
            sys.stderr.flush()

    def clear(self) -> None:
        """Wipe the line out, before anything else is said."""
        if self._phase:
            self._phase = ""
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


@contextmanager
def shown(quiet: float = 0.0) -> Iterator[Progress]:
    """A progress that is wiped out at the end, also by an error."""
    progress = Progress(quiet)
    try:
        yield progress
    finally:
        progress.clear()
