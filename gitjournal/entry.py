"""The program's door: what must be quick goes past the command line.

Floor 6. A hook is waited for by the agent that calls it, and the command line takes longer to load than it may wait.
"""

from __future__ import annotations

import sys


def main() -> None:
    """The entry point ``gj``."""
    # Only the exact forms that an agent's settings have; anything else, also its help, is the command line's.
    match sys.argv[1:]:
        case ["hook", "claude-code"]:
            journal = None
        case ["hook", "claude-code", "--journal", named]:
            journal = named
        case _:
            journal = ""
    if journal != "":
        from gitjournal.hook import receive

        receive(journal)
    else:
        from gitjournal.cli import main as command_line

        command_line()
