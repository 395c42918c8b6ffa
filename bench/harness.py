"""What the measures share: sizes, journals made when first needed, turns, and child processes."""

from __future__ import annotations

import gc
import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import data
import peers
from peers import Timing, git

import gitjournal
from gitjournal import formats

SESSION = "bench"
REF = "refs/heads/bench/main"
HERE = Path(__file__).resolve().parent
#: Child processes measure the same checkout as this one.
CHILD_ENV = {**os.environ, "PYTHONPATH": str(HERE.parent)}


class Scale(NamedTuple):
    """How much of everything. ``events``: the long session; ``ingest``: the one that is built again and again."""

    rounds: int
    blocks: int
    block: int
    ingest: int
    events: int
    session_mb: int
    samples: int
    branches: int
    starts: int


SCALES = {
    "small": Scale(2, 2, 100, 3_000, 3_000, 6, 300, 5, 4),
    "full": Scale(3, 15, 200, 100_000, 1_000_000, 1_000, 3_000, 40, 20),
}


class Bench:
    """What the measures share: a folder, the sizes, and journals that are made when first asked for."""

    def __init__(self, folder: Path, scale: Scale, say: Callable[[str], None], transcripts: Path | None = None) -> None:
        self.folder = folder
        self.scale = scale
        self.say = say
        self.transcripts = transcripts
        self.random = random.Random(7)

    @cached_property
    def short(self) -> Path:
        """A journal whose session has ``scale.ingest`` events."""
        return self._journal(self.scale.ingest)

    @cached_property
    def long(self) -> Path:
        """A journal whose session has ``scale.events`` events."""
        return self.short if self.scale.events == self.scale.ingest else self._journal(self.scale.events)

    @cached_property
    def long_after_gc(self) -> Path:
        """A copy of `long` after `git gc`."""
        return self._collected(self.long)

    def _journal(self, count: int) -> Path:
        path = self.folder / f"events-{count}"
        self.say(f"making a journal of {count:,} events")
        ingest(path, count)
        return path

    def _collected(self, source: Path) -> Path:
        path = peers.copy_journal(source, source.with_name(source.name + "-gc"))
        self.say(f"git gc of {path.name}")
        git("gc", "--quiet", cwd=path)
        return path

    @cached_property
    def imported(self) -> tuple[Path, Mapping[str, Any], float]:
        """(journal with an imported transcript, what the import took, MB of the transcript)."""
        source, path = self.folder / "transcript.jsonl", self.folder / "imported"
        self.say(f"making a transcript of {self.scale.session_mb:,} MB")
        data.transcript(source, self.scale.session_mb * 1_000_000)
        self.say("importing it")
        size = source.stat().st_size / 1e6
        took = child("import", path, SESSION, source)
        source.unlink()
        return path, took, size

    @cached_property
    def imported_after_gc(self) -> Path:
        """A copy of `imported` after `git gc`."""
        return self._collected(self.imported[0])

    @property
    def transcript_files(self) -> list[Path]:
        """The transcripts that the caller has named, sorted."""
        return sorted(self.transcripts.glob("*.jsonl")) if self.transcripts else []

    @cached_property
    def real(self) -> Path:
        """A journal with all of them imported."""
        path = self.folder / "real"
        journal = gitjournal.init(path)
        for one in self.transcript_files:
            formats.import_file(journal, one)
        return path

    def seqs(self, count: int) -> list[int]:
        """Random seqs of the long session."""
        return [self.random.randint(1, self.scale.events) for _ in range(count)]


# --- tools ---------------------------------------------------------------------------------------


def turns(rounds: int, contenders: Sequence[Callable[[], Any]]) -> list[list[Any]]:
    """Run each contender once a round, another one first each time; the results by contender."""
    results: list[list[Any]] = [[] for _ in contenders]
    for number in range(rounds):
        for place in range(len(contenders)):
            which = (number + place) % len(contenders)
            gc.collect()
            results[which].append(contenders[which]())
    return results


def clock(call: Callable[[], Any]) -> Timing:
    """How long a call takes."""
    cpu, wall = time.process_time(), time.perf_counter()
    call()
    return Timing(time.perf_counter() - wall, time.process_time() - cpu)


class Untimed:
    """Hands out items made a thousand at a time, and knows how long making them took."""

    def __init__(self, items: Iterator[data.Draft]) -> None:
        self._items = items
        self.wall = self.cpu = 0.0

    def __iter__(self) -> Iterator[data.Draft]:
        while True:
            some: list[data.Draft] = []
            took = clock(lambda into=some: into.extend(islice(self._items, 1000)))  # type: ignore[misc]
            self.wall += took.wall
            self.cpu += took.cpu
            if not some:
                return
            yield from some


def ingest(path: Path, count: int) -> Timing:
    """Make a journal at ``path`` whose session has ``count`` events; from opening the session to closing it."""
    journal = gitjournal.init(path)
    source = Untimed(data.drafts(count - 1))

    def run() -> None:
        with journal.session(SESSION, create=True) as session:
            session.append_many(source)

    took = clock(run)
    return Timing(took.wall - source.wall, took.cpu - source.cpu)


def child(task: str, *arguments: str | Path) -> Mapping[str, Any]:
    """Run a task of child.py in a process of its own."""
    command = [sys.executable, str(HERE / "child.py"), task, *map(str, arguments)]
    run = subprocess.run(command, capture_output=True, text=True, check=False, env=CHILD_ENV)
    if run.returncode:
        raise RuntimeError(f"child {task}: {run.stderr.strip()[-500:]}")
    found: Mapping[str, Any] = json.loads(run.stdout)
    return found


def rates(count: int, timings: Sequence[Timing]) -> dict[str, Any]:
    """Events a second of each round, by the clock and by processor time."""
    return {"wall": [count / one.wall for one in timings], "cpu": [count / one.cpu for one in timings]}
