"""Runs commands, and one Python program, for `runners`: one JSON line asks, one answers.

The Python program is run without starting Python: what it imports is imported once, and each run is a fork. Other
commands are started from here because a child's memory is counted from its parent's, and this parent is small.
"""

from __future__ import annotations

import ast
import contextlib
import importlib
import json
import os
import signal
import sys
import traceback
from pathlib import Path
from types import CodeType
from typing import Any


def _load(path: Path) -> CodeType:
    source = path.read_bytes()
    for node in ast.walk(ast.parse(source)):
        names = [one.name for one in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module, *(f"{node.module}.{one.name}" for one in node.names)]
        for name in names:
            with contextlib.suppress(ImportError):
                importlib.import_module(name)
    return compile(source, str(path), "exec")


def _program(code: CodeType, path: Path, wish: dict[str, Any]) -> int:
    """Be the Python program; the exit status."""
    os.environ.clear()
    os.environ.update(wish["env"])
    sys.argv = [str(path), *wish["arguments"]]
    try:
        exec(code, {"__name__": "__main__", "__file__": str(path)})
    except SystemExit as end:
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
        return 70
    return 0


def _child(wish: dict[str, Any], program: tuple[CodeType, Path] | None) -> int:
    """Be what is asked for; the exit status, if that is a Python program."""
    for descriptor, name in ((1, wish["out"]), (2, wish["err"])):
        os.dup2(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), descriptor)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    if not program:
        os.execvpe(wish["command"][0], [*wish["command"], *wish["arguments"]], wish["env"])
    status = _program(*program, wish)
    sys.stdout.flush()
    sys.stderr.flush()
    return status


def main() -> None:
    """Answer until there is nobody to ask."""
    program = (_load(Path(sys.argv[1])), Path(sys.argv[1])) if len(sys.argv) > 1 else None
    for line in sys.stdin.buffer:
        wish = json.loads(line)
        pid = os.fork()
        if not pid:
            status = 70
            try:
                status = _child(wish, program)
            finally:
                os._exit(status)
        # Who does not end in time is ended; a handler lets the wait go on.
        signal.signal(signal.SIGALRM, lambda *_, pid=pid: os.kill(pid, signal.SIGKILL))
        signal.alarm(wish["seconds"])
        _, ended, usage = os.wait4(pid, 0)
        signal.alarm(0)
        answer = {"status": os.waitstatus_to_exitcode(ended), "rss": usage.ru_maxrss // 1024}
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
