"""How fast sessions are found: the list of 100,000, full-text search over a million events, and the index itself.

``python bench/sessions.py`` prints one table; ``--sessions`` and ``--events`` make it smaller, ``--dir`` chooses the
disk, ``--json FILE`` keeps the figures. Parts of the library's own writer make the journals, without a sync.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import data

import gitjournal
from gitjournal import index, index_query, pack, refs
from gitjournal.event import Event
from gitjournal.flush import Packing, Pending
from gitjournal.journal import Journal
from gitjournal.objects import Deriver

_PACK = 20_000
_QUERIES = (
    "cache server",
    '"cache server"',
    "refund customer invoice",
    "lease OR epoch",
    "cache -server",
    "retr*",
    "the",
)


class Writer:
    """Writes branches into packs of many, and all refs at once into packed-refs."""

    def __init__(self, path: Path) -> None:
        self.journal = gitjournal.init(path)
        self._objects: dict[bytes, pack.PackObject] = {}
        self._refs: list[str] = []

    def add(self, name: refs.Name, events: list[Event]) -> None:
        """One branch."""
        made, deriver = Packing(), Deriver()
        for event in events:
            made.add(deriver.push(event), Pending(event))
        for one in made:
            self._objects.setdefault(one[1], one)
        assert deriver.head
        self._refs.append(f"{deriver.head.hex()} {refs.ref_name(name)}\n")
        if len(self._objects) >= _PACK * 15:
            self._write()

    def _write(self) -> None:
        if self._objects:
            pack.write(self.journal.store.pack_folder, list(self._objects.values()), sync=False)
        self._objects = {}

    def close(self) -> Journal:
        """Write what is left."""
        self._write()
        path = self.journal.path / "packed-refs"
        path.write_text("# pack-refs with: peeled fully-peeled sorted \n" + "".join(sorted(self._refs, key=_name)))
        return gitjournal.open(self.journal.path)


def _name(line: str) -> str:
    return line.split(" ", 1)[1]


def chained(session: str, drafts: Iterator[tuple[str, dict[str, Any], str]], start: int) -> Iterator[Event]:
    """A session of these drafts; times begin ``start`` seconds after the first of all sessions."""
    prev: str | None = None
    begun = [("session.start", {"source": "console", "project": "/home/dev/shop"}, "host")]
    for seq, (kind, payload, actor) in enumerate([*begun, *drafts], 1):
        at = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(1_770_000_000 + start + seq))
        members = {"v": 1, "session": session, "seq": seq, "prev": prev, "epoch": 1, "ts": at, "type": kind}
        event = Event.build({**members, "actor": actor, "data": payload})
        prev = event.hash
        yield event


def many(path: Path, count: int) -> Journal:
    """A journal of ``count`` sessions of three events."""
    writer, world = Writer(path), data.World(5)
    for number in range(count):
        asked = {"role": "user", "parts": [{"type": "text", "content": world.sentence()}]}
        usage = {"gen_ai.usage.input_tokens": 900 + number, "gen_ai.usage.output_tokens": 40}
        said = {"parts": [{"type": "text", "content": world.sentence()}], "response.id": f"r{number}", "usage": usage}
        drafts = iter([("message", asked, "user"), ("model.response", said, "assistant")])
        session = f"{number:06d}-{world.hex(8)}"
        writer.add(refs.Name(session), list(chained(session, drafts, number * 7 % count)))
    return writer.close()


def long(path: Path, count: int, each: int = 20_000) -> Journal:
    """A journal of ``count`` events as a coding agent makes them, in sessions of ``each``."""
    writer, drafts = Writer(path), data.drafts(count, 7)
    for number in range(max(1, count // each)):
        session = f"work-{number}"
        events = islice(drafts, min(each, count) - 1)
        writer.add(refs.Name(session), list(chained(session, events, number * each)))
    return writer.close()


# --- measures ------------------------------------------------------------------------------------


def whole_process(path: Path, rounds: int = 15) -> list[float]:
    """Milliseconds of ``gj sessions``, as somebody waits for it."""
    command = [sys.executable, "-m", "gitjournal", "-J", str(path), "sessions"]
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[1])}
    took = []
    for _ in range(rounds):
        begun = time.perf_counter()
        subprocess.run(command, check=True, capture_output=True, env=env)
        took.append(1000 * (time.perf_counter() - begun))
    return took


def timed(work: Any, rounds: int) -> list[float]:
    """Milliseconds of each of ``rounds`` calls, after one that is not counted."""
    work()
    took = []
    for _ in range(rounds):
        begun = time.perf_counter()
        work()
        took.append(1000 * (time.perf_counter() - begun))
    return took


def reindexed(journal: Journal) -> tuple[float, float, int]:
    """(events/s by the clock, by processor time, bytes of the index)."""
    begun, used = time.perf_counter(), time.process_time()
    done = index.rebuild(journal)
    seconds, worked = time.perf_counter() - begun, time.process_time() - used
    return done.events / seconds, done.events / worked, (journal.path / "gitjournal" / "index.sqlite").stat().st_size


def grown(journal: Journal) -> list[float]:
    """Milliseconds until the list is right after one event was appended to a long session."""
    took = []
    with journal.session("work-0") as session:
        for number in range(9):
            session.append("message", {"role": "user", "parts": [{"type": "text", "content": f"go on {number}"}]})
            begun = time.perf_counter()
            index.ask(journal, lambda db: index_query.sessions(db, limit=1))
            took.append(1000 * (time.perf_counter() - begun))
    return took


def _row(what: str, took: list[float], **more: Any) -> dict[str, Any]:
    return {"what": what, "median_ms": round(statistics.median(took), 2), "best_ms": round(min(took), 2), **more}


def measure(folder: Path, sessions: int, events: int) -> Iterator[dict[str, Any]]:
    """All rows."""
    journal = many(folder / "many", sessions)
    rate, worked, size = reindexed(journal)
    yield {
        "what": f"reindex, {sessions:,} sessions of 3 events",
        "per_s": round(rate),
        "per_cpu_s": round(worked),
        "bytes": size,
    }
    yield _row(f"gj sessions, {sessions:,} sessions, whole process", whole_process(journal.path))
    yield _row(
        "the same question in process",
        timed(lambda: index.ask(journal, lambda db: index_query.sessions(db, limit=51)), 15),
    )
    journal = long(folder / "long", events)
    rate, worked, size = reindexed(journal)
    yield {"what": f"reindex, {events:,} events", "per_s": round(rate), "per_cpu_s": round(worked), "bytes": size}
    for query in _QUERIES:
        found = index.ask(journal, lambda db, query=query: index_query.search(db, journal, query))
        took = timed(lambda query=query: index.ask(journal, lambda db: index_query.search(db, journal, query)), 9)
        yield _row(f"search {query!r}, {events:,} events", took, hits=len(found))
    yield _row("one event more in a long session, then the list", grown(journal))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sessions", type=int, default=100_000)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--dir", type=Path)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="gj-sessions-", dir=options.dir))
    rows = []
    try:
        for row in measure(folder, options.sessions, options.events):
            rows.append(row)
            print(
                "  ".join(f"{name} {value:,}" if not isinstance(value, str) else value for name, value in row.items()),
                flush=True,
            )
    finally:
        shutil.rmtree(folder)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
