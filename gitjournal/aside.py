"""Work in a second process beside this one, on the same data, where the machine has a processor for it.

Floor 1. The process is a copy of this one (``fork``) that ends with the work; nothing that matters is only there: who
gets no answer does the work itself. Messages go through pipes between the two, and are read by nobody else.
"""

from __future__ import annotations

import marshal
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import IO, Any

_HOLD = 1 << 18
_SIZE_BYTES = 4

#: Sends a message of plain Python values: numbers, bytes, str, None, and tuples and lists of them.
Send = Callable[[Any], None]
#: What is done in the other process: with the messages that come, and a way to answer.
Work = Callable[[Iterator[Any], Send], None]


def is_possible() -> bool:
    """Whether a copy of this process may be made, and would have a processor of its own."""
    # A copy has only the thread that made it, and for ever the locks that the others held.
    if threading.active_count() != 1 or not hasattr(os, "fork"):
        return False
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return count > 1


class Aside:
    """One piece of work in a process of its own. Close it, whatever happens (``with``)."""

    def __init__(self, work: Work) -> None:
        """Begin. OSError when no process is to be had."""
        inbox, told = os.pipe()
        try:
            answers, said = os.pipe()
        except OSError:
            _close(inbox, told)
            raise
        try:
            self._pid = os.fork()
        except OSError:
            _close(inbox, told, answers, said)
            raise
        if self._pid == 0:
            _close(told, answers)
            _run(work, inbox, said)
        _close(inbox, said)
        self._told: IO[bytes] | None = os.fdopen(told, "wb", _HOLD)
        self._answers = os.fdopen(answers, "rb", _HOLD)

    def __enter__(self) -> Aside:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def tell(self, message: Any) -> bool:
        """Send a message; False when nobody is there any more.

        Before all answers to earlier ones have been read only to a work that does not answer before `hang_up`.
        """
        try:
            if self._told is not None:
                _send(self._told, message)
        except OSError:
            self.hang_up()
        return self._told is not None

    def answers(self) -> Iterator[Any]:
        """The answers, in order, as they come. They end with the work, also where it has failed."""
        return _messages(self._answers)

    def hang_up(self) -> None:
        """Let the other process know that nothing more comes."""
        told, self._told = self._told, None
        if told is not None:
            with suppress(OSError):
                told.close()

    def close(self) -> None:
        """End the other process, if it has not ended."""
        with suppress(OSError):
            os.kill(self._pid, signal.SIGKILL)
        self.hang_up()
        self._answers.close()
        with suppress(OSError):
            os.waitpid(self._pid, 0)


def _run(work: Work, inbox: int, said: int) -> None:
    """The life of the copy. Never returns: what this process has still to do when it ends is not the copy's."""
    status = 1
    try:
        with os.fdopen(inbox, "rb", _HOLD) as messages, os.fdopen(said, "wb", _HOLD) as out:
            work(_messages(messages), lambda message: _send(out, message))
        status = 0
    finally:
        os._exit(status)


def _send(file: IO[bytes], message: Any) -> None:
    text = marshal.dumps(message)
    file.write(len(text).to_bytes(_SIZE_BYTES, "big"))
    file.write(text)
    file.flush()


def _messages(file: IO[bytes]) -> Iterator[Any]:
    """What `_send` has written, up to the end or to a message that is cut."""
    while len(head := file.read(_SIZE_BYTES)) == _SIZE_BYTES:
        size = int.from_bytes(head, "big")
        text = file.read(size)
        if len(text) != size:
            return
        yield marshal.loads(text)  # noqa: S302  # from our own copy, through a pipe that nobody else has


def _close(*ends: int) -> None:
    for end in ends:
        os.close(end)
