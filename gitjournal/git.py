"""Stock git, run on a journal without anybody's hooks, helpers and environment.

Floor 1. For what git alone knows: what leads to what, and how to drop what nothing leads to.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from gitjournal.errors import StorageError

_SECONDS = 24 * 3600


def run(path: Path, *args: str, hint: str = "", check: bool = True) -> str:
    """What ``git ARGS`` prints in the repository ``path``. StorageError when git is not there, or with ``check`` fails.

    ``hint`` says what to do then.
    """
    safe = ["-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false"]
    clean = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
    quiet = {"LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0", "GIT_NO_REPLACE_OBJECTS": "1", "GIT_ALLOW_PROTOCOL": "none"}
    try:
        done = subprocess.run(  # noqa: S603 - git, found as the user's shell finds it
            ["git", f"--git-dir={path}", *safe, *args],  # noqa: S607
            env={**clean, **quiet},
            capture_output=True,
            timeout=_SECONDS,
            check=False,
        )
    except FileNotFoundError:
        raise StorageError("this needs git, which is not installed") from None
    if check and done.returncode:
        why = done.stderr.decode("utf-8", "replace").strip().rpartition("\n")[2]
        raise StorageError(f"git {args[0]} failed: {why}", hint=hint)
    return done.stdout.decode("utf-8", "replace")
