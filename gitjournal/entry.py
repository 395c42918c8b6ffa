"""The program's door: what must be quick goes past the command line.

Floor 6. A hook is waited for by the agent that calls it, and the command line takes longer to load than it may wait.
"""

from __future__ import annotations

import sys

#: With this exit status a hook forbids the agent what it is about to do, or to stop; with any other it has just failed.
_BLOCKS = 2


def main() -> None:
    """The entry point ``gj``."""
    # Only the exact forms that an agent's settings have; anything else, also its help, is the command line's.
    match words := sys.argv[1:]:
        case ["hook", "claude-code", *named] if not named or (len(named) == 2 and named[0] == "--journal"):
            from gitjournal.hook import receive

            receive(named[1] if named else None)
        case _:
            from gitjournal.cli import main as command_line

            try:
                command_line()
            except SystemExit as end:
                if end.code == _BLOCKS and _calls_a_hook(words):
                    from gitjournal.hook import refused

                    refused(words)
                raise


def _calls_a_hook(words: list[str]) -> bool:
    """Whether an agent calls, or may: nobody sits at a terminal."""
    while words and words[0].startswith("-"):
        words = words[1 if "=" in words[0] else 2 :]
    try:
        return words[:1] == ["hook"] and not (sys.stdin and sys.stdin.isatty())
    except ValueError:  # closed
        return True
