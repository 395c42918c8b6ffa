"""The program's door: what must be quick goes past the command line.

Floor 6. A hook is waited for by the agent that calls it, and the command line takes longer to load than it may wait.
"""

from __future__ import annotations

import sys


def main() -> None:
    """The entry point ``gj``."""
    # Only the exact forms that an agent's settings have; anything else, also its help, is the command line's.
    match sys.argv[1:]:
        case ["hook", "claude-code", *named] if not named or (len(named) == 2 and named[0] == "--journal"):
            from gitjournal.hook import receive

            receive(named[1] if named else None)
        case _:
            from gitjournal.cli import main as command_line

            command_line()
