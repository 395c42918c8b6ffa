"""How fast events become state: the fold over decoded events, and ``gj replay`` of a long session as a whole process.

``python bench/replay.py`` prints one line a measure; ``--events`` makes it smaller, ``--dir`` chooses the disk,
``--json FILE`` keeps the figures. Rates are given by the clock and by processor time: where other programs run, only
the second one says something.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import data

import gitjournal
from gitjournal.event import Event
from gitjournal.journal import Journal
from gitjournal.resume import resume
from gitjournal.state import fold

_SESSION = "long"
_BATCH = 4000


def recorded(path: Path, count: int) -> Journal:
    """A journal with one session of ``count`` events as a coding agent makes them."""
    journal = gitjournal.init(path)
    drafts = data.drafts(count, 7)
    with journal.session(_SESSION, create=True) as session:
        while batch := list(islice(drafts, min(_BATCH, count - session.head.seq))):
            session.append_many(batch)
    return journal


def rates(count: int, work: Callable[[], object], rounds: int) -> dict[str, Any]:
    """Events a second of the median round by the clock, and of the best one by processor time."""
    wall, cpu = [], []
    for _ in range(rounds):
        begun, used = time.perf_counter(), time.process_time()
        work()
        wall.append(time.perf_counter() - begun)
        cpu.append(time.process_time() - used)
    return {"per_s": round(count / statistics.median(wall)), "per_cpu_s": round(count / min(cpu))}


def process(path: Path, *words: str, rounds: int = 5) -> dict[str, Any]:
    """Milliseconds of ``gj`` as somebody waits for it: the median by the clock, the best by processor time."""
    command = [sys.executable, "-m", "gitjournal", "-J", str(path), *words]
    wall, cpu = [], []
    for _ in range(rounds):
        begun, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        wall.append(time.perf_counter() - begun)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return {"median_ms": round(statistics.median(wall) * 1000), "best_cpu_ms": round(min(cpu) * 1000)}


def _folds(events: list[Event]) -> Iterator[dict[str, Any]]:
    for event in events:
        _ = event.data
    count = len(events)
    yield {"what": f"fold, {count:,} decoded events", **rates(count, lambda: fold(events), 7)}
    yield {"what": "the same without history", **rates(count, lambda: fold(events, history=False), 7)}


def measure(folder: Path, count: int) -> Iterator[dict[str, Any]]:
    """All rows."""
    journal = recorded(folder / "journal", count)
    yield from _folds(list(journal.events(_SESSION)))
    yield {"what": "read and fold", **rates(count, lambda: fold(journal.events(_SESSION)), 3)}
    for words in (("replay", f"{_SESSION}@{count - 1}"), ("replay", f"{_SESSION}@{count - 1}", "--json")):
        yield {"what": f"gj {' '.join(words)}, whole process", **process(journal.path, *words)}
    yield {"what": "resume with nothing open", **rates(count, lambda: resume(journal, _SESSION), 3)}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=100_000)
    parser.add_argument("--dir", type=Path)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory(prefix="gj-replay-", dir=options.dir) as folder:
        for row in measure(Path(folder), options.events):
            rows.append(row)
            shown = (f"{value}" if isinstance(value, str) else f"{name} {value:,}" for name, value in row.items())
            print("  ".join(shown), flush=True)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
