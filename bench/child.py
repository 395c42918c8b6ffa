"""One task in a process of its own, so that its memory can be told: prints a JSON object.

python bench/child.py import JOURNAL SESSION TRANSCRIPT
python bench/child.py read | verify JOURNAL SESSION
"""

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path

import gitjournal


def peak_mb() -> float:
    """Most memory that this process has had resident, in MB (10^6 bytes), mapped files included."""
    try:
        status = Path("/proc/self/status").read_text(encoding="ascii")
        return int(status.partition("VmHWM:")[2].split()[0]) * 1024 / 1e6
    except (OSError, IndexError):
        # Only where there is no /proc: Linux lets this figure begin with the peak of the parent process.
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak / 1e6 if sys.platform == "darwin" else peak * 1024 / 1e6


def mapped_mb() -> float:
    """How much of the memory now is pages of mapped files, which the system can take back; 0 if unknown."""
    try:
        status = Path("/proc/self/status").read_text(encoding="ascii")
        return int(status.partition("RssFile:")[2].split()[0]) * 1024 / 1e6
    except (OSError, IndexError):
        return 0.0


def do_import(folder: str, session: str, transcript: str) -> int:
    """Import a Claude Code transcript."""
    from gitjournal import formats

    journal = gitjournal.init(folder)
    return formats.import_file(journal, transcript, format="claude-code", session=session).added


def do_read(folder: str, session: str) -> int:
    """Read a session with its payloads, side files resolved."""
    count = 0
    for event in gitjournal.open(folder).events(session):
        count += event.data is not None
    return count


def do_verify(folder: str, session: str) -> int:
    """Verify a session. RuntimeError when it is not intact."""
    report = gitjournal.verify(gitjournal.open(folder), session)
    if not report.ok:
        raise RuntimeError(f"not intact: {report.findings[:3]}")
    return report.head_seq


TASKS: dict[str, Callable[..., int]] = {"import": do_import, "read": do_read, "verify": do_verify}


def main(task: str, *arguments: str) -> None:
    """Run a task and print what it took."""
    began = time.perf_counter()
    count = TASKS[task](*arguments)
    seconds = time.perf_counter() - began
    took = {"count": count, "seconds": seconds, "cpu": time.process_time()}
    print(json.dumps({**took, "peak_mb": peak_mb(), "mapped_mb": mapped_mb()}))


if __name__ == "__main__":
    main(*sys.argv[1:])
