"""``gj hook claude-code``: what Claude Code calls when something has happened in a session.

Floor 6. The agent waits for its hooks, and takes what they print for instructions. So this prints nothing, never fails,
and leaves the work to a process of its own, which writes what went wrong into a log that ``gj doctor`` shows.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path
    from typing import NoReturn

#: A hook's input is never more than this, in bytes: it may hold what a tool printed.
_MAX_INPUT = 64 * 1024 * 1024


def receive(journal: str | None) -> None:
    """Take the hook's input from standard input, and end; a child process does the rest. Never raises, never prints.

    ``journal`` is its path, None for the one that is found from the agent's folder.
    """
    try:
        raw = os.read(0, 0) if sys.stdin is None else sys.stdin.buffer.read(_MAX_INPUT)
        if os.fork() == 0:
            _child(raw, journal)
    except BaseException as error:  # the agent must not hear of it, whatever it is
        _tell(error)
    os._exit(0)


def refused(words: list[str]) -> NoReturn:
    """End a call that is wrong, as by the settings of another version, so that the agent is not kept from anything."""
    from gitjournal.errors import UsageError

    _tell(UsageError(f"a hook was called in a way that it does not know: gj {' '.join(words)}"))
    sys.exit(1)


def _child(raw: bytes, journal: str | None) -> None:
    """The work, in a session of its own, holding none of the agent's pipes: who waits for their end need not wait."""
    status = 1
    try:
        os.setsid()
        nothing = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(nothing, stream)
        from gitjournal.journal import at_hand
        from gitjournal.live import take_hook

        take_hook(raw, state_folder(), lambda folder: at_hand(journal, os.environ, folder)[0])
        status = 0
    except BaseException as error:
        _tell(error)
    finally:
        os._exit(status)


def _tell(error: BaseException) -> None:
    """Write an error into the log; there is nobody else to tell."""
    try:
        from gitjournal.live import log_error

        log_error(state_folder(), error)
    except BaseException:
        return


def state_folder() -> Path:
    """Where locks and logs of this user on this machine are."""
    import platformdirs

    return platformdirs.user_state_path("gitjournal")
