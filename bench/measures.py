"""The measures: each takes the `Bench` and gives the rows of the table that it can fill.

Contenders take turns (A B A B), the order changes from round to round, and the figure is the median of the rounds.
Making the data is never in the time.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from statistics import mean, median
from typing import Any

import data
import peers
import pygit2
import rfc8785
from harness import CHILD_ENV, REF, SESSION, Bench, child, clock, ingest, rates, turns
from peers import Timing, git, timed_git
from report import Row

import gitjournal
from gitjournal import canonical
from gitjournal.journal import Journal

# --- append --------------------------------------------------------------------------------------


class Ours:
    """gitjournal as a contender of the append measure."""

    label = "gitjournal"

    def __init__(self, folder: Path) -> None:
        self.session = gitjournal.init(folder / "append").session(SESSION, create=True)

    def append(self, event: Mapping[str, Any], raw: bytes) -> None:
        """Store the payload; the envelope is made in the time."""
        self.session.append(event["type"], event["data"], actor=event["actor"])

    def close(self) -> None:
        """Close the session."""
        self.session.close()


def append(bench: Bench) -> list[Row]:
    """One durable event at a time, in blocks; a flush follows each block of ours, beside the single appends."""
    scale = bench.scale
    events = data.members(scale.blocks * scale.block)
    raws = [canonical.dumps(event) for event in events]
    with ExitStack() as stack:
        contenders = [kind(bench.folder) for kind in (Ours, peers.Jsonl, peers.Sqlite, peers.PlainGit)]
        for one in contenders:
            stack.callback(one.close)
        times: dict[str, list[float]] = {one.label: [] for one in contenders}
        flushes = 0.0
        for block in range(scale.blocks):
            some = range(block * scale.block, (block + 1) * scale.block)
            for place in range(len(contenders)):
                one = contenders[(block + place) % len(contenders)]
                times[one.label] += [clock_us(one, events[i], raws[i]) for i in some]
                if isinstance(one, Ours):
                    flushes += clock(one.session.flush).wall
    return _append_rows(times, flushes)


def clock_us(contender: Any, event: Mapping[str, Any], raw: bytes) -> float:
    """Microseconds of one append."""
    began = time.perf_counter_ns()
    contender.append(event, raw)
    return (time.perf_counter_ns() - began) / 1000


def _append_rows(times: dict[str, list[float]], flushes: float) -> list[Row]:
    ours = times.pop(Ours.label)
    details = {"p99": _p99(ours), "mean": mean(ours), "mean with flush": mean(ours) + flushes * 1e6 / len(ours)}
    rows = []
    for label, theirs in times.items():
        more = {**details, "peer p99": _p99(theirs), "peer mean": mean(theirs)}
        row = Row("durable append, 1 KB, median", median(ours), "us", label, median(theirs), details=more)
        rows.append(row.beats(15 if label == peers.PlainGit.label else 1))
    # Flushing after so few events costs more an event than after the usual 512.
    label = peers.Jsonl.label
    value, theirs_mean = details["mean with flush"], mean(times[label])
    return [*rows, Row("durable append, mean with its flush", value, "us", label, theirs_mean, details=details)]


def _p99(values: list[float]) -> float:
    return sorted(values)[len(values) * 99 // 100]


# --- ingest and size -----------------------------------------------------------------------------


def ingest_rows(bench: Bench) -> list[Row]:
    """append_many into a new journal, and git fast-import of the same objects into a new repository."""
    count, stream = bench.scale.ingest, bench.folder / "stream"
    journal = gitjournal.open(bench.short)
    head = git("rev-parse", REF, cwd=bench.short, capture=True)
    with stream.open("wb") as file:
        file.writelines(peers.fast_import_stream(journal, SESSION, REF))

    def ours() -> Timing:
        path = bench.folder / "ingest"
        took = ingest(path, count)
        shutil.rmtree(path)
        return took

    def theirs() -> Timing:
        path = bench.folder / "fast-import"
        git("init", "--quiet", "--bare", path, cwd=bench.folder)
        with stream.open("rb") as file:
            took = timed_git("fast-import", "--quiet", cwd=path, stdin=file)
        if git("rev-parse", REF, cwd=path, capture=True) != head:
            raise RuntimeError("fast-import made other commits: the comparison would not be fair")
        shutil.rmtree(path)
        return took

    own, other = (rates(count, result) for result in turns(bench.scale.rounds, [ours, theirs]))
    stream.unlink()
    return _ingest_rows(own, other)


def _ingest_rows(own: dict[str, Any], other: dict[str, Any]) -> list[Row]:
    rows = []
    for kind, name in (("wall", "by the clock"), ("cpu", "by processor time")):
        value, peer = median(own[kind]), median(other[kind])
        more = {"rounds": own[kind], "peer rounds": other[kind]}
        row = Row(f"ingest with flush, {name}", value, "events/s", "git fast-import", peer, lower=False, details=more)
        rows.append(row.beats(2))
    alone = Row("ingest with flush", median(own["wall"]), "events/s", lower=False)
    return [alone.at_least(15_000), *rows]


def size(bench: Bench) -> list[Row]:
    """Packs and indexes as they are after ingest or import, and after git has repacked all of it from scratch."""
    imported, _, size_mb = bench.imported
    journals = {f"{bench.scale.ingest:,} events": bench.short, f"{bench.scale.events:,} events": bench.long}
    journals[f"{size_mb:,.0f} MB transcript"] = imported
    if bench.transcripts is not None:
        journals[f"{len(bench.transcript_files)} real transcripts"] = bench.real
    return [_size_row(bench, label, path) for label, path in journals.items()]


def _size_row(bench: Bench, label: str, path: Path) -> Row:
    copy = peers.copy_journal(path, bench.folder / "repacked")
    bench.say(f"git repack -adf, {label}")
    git("repack", "-adf", "--quiet", cwd=copy)
    ours, theirs = peers.pack_bytes(path), peers.pack_bytes(copy)
    shutil.rmtree(copy)
    value, peer = ((one["pack"] + one["idx"]) / 1e6 for one in (ours, theirs))
    row = Row(f"size, {label}", value, "MB", "git repack -adf", peer, details={"ours": ours, "peer": theirs})
    return row.at_most(1.1 * peer, "<= 1.1 of peer")


# --- read ----------------------------------------------------------------------------------------


def read(bench: Bench) -> list[Row]:
    """The whole session through git: the events alone, their payloads as well; git's own way is the peer."""
    rows = []
    for label, path in (("", bench.long), (", after git gc", bench.long_after_gc)):
        journal = gitjournal.open(path)
        contenders = [lambda j=journal: _walk(j), lambda j=journal: _walk_data(j), lambda p=path: _cat_file(p)]
        results = turns(bench.scale.rounds, contenders)
        plain, parsed, theirs = ([bench.scale.events / seconds for seconds in result] for result in results)
        for name, own in (("read", plain), ("read with payloads", parsed)):
            more = {"rounds": own, "peer rounds": theirs}
            row = Row(name + label, median(own), "events/s", "git cat-file", median(theirs), lower=False, details=more)
            rows.append(row.at_least(80_000) if name == "read" else row)
    return rows


def _walk(journal: Journal) -> float:
    began = time.perf_counter()
    for event in journal.events(SESSION):
        _ = event.seq
    return time.perf_counter() - began


def _walk_data(journal: Journal) -> float:
    began = time.perf_counter()
    for event in journal.events(SESSION):
        _ = event.data
    return time.perf_counter() - began


def _cat_file(path: Path) -> float:
    began = time.perf_counter()
    ids = git("ls-tree", "-r", "--format=%(objectname)", REF, cwd=path, capture=True)
    git("cat-file", "--batch", "--buffer", cwd=path, stdin=ids)
    return time.perf_counter() - began


def event(bench: Bench) -> list[Row]:
    """One event by its seq, anywhere in the long session."""
    rows = []
    for label, path in (("", bench.long), (", after git gc", bench.long_after_gc)):
        journal, repo = gitjournal.open(path), pygit2.Repository(str(path))
        seqs = bench.seqs(bench.scale.samples)

        def ours(seq: int, journal: Journal = journal) -> Any:
            return journal.event(SESSION, seq)

        def theirs(seq: int, repo: Any = repo) -> Any:
            return repo.revparse_single(f"{REF}:{peers.event_path(seq)}").data

        for seq in seqs[:50]:
            if ours(seq).raw != theirs(seq):
                raise RuntimeError(f"event {seq} is not the same")
        own, other = _each(ours, theirs, seqs)
        name = f"event by seq of {bench.scale.events:,}{label}, median"
        more = {"p99": _p99(own), "peer p99": _p99(other)}
        rows.append(Row(name, median(own), "us", "pygit2 revparse", median(other), details=more).at_most(100))
    return rows


def _each(ours: Callable[[int], Any], theirs: Callable[[int], Any], seqs: list[int]) -> tuple[list[float], ...]:
    """Microseconds of each call, the two contenders taking turns in blocks of 50."""
    times: tuple[list[float], list[float]] = ([], [])
    for at in range(0, len(seqs), 50):
        for call, into in zip((ours, theirs), times, strict=True):
            for seq in seqs[at : at + 50]:
                began = time.perf_counter_ns()
                call(seq)
                into.append((time.perf_counter_ns() - began) / 1000)
    return times


def branch(bench: Bench) -> list[Row]:
    """Begin a branch after any event, on a copy; stock git has to walk the commits to find the one to start from."""
    path = peers.copy_journal(bench.long, bench.folder / "branched")
    journal = gitjournal.open(path)
    own = [
        clock(lambda seq=seq, number=number: journal.branch(SESSION, seq, f"try-{number}")).wall * 1000
        for number, seq in enumerate(bench.seqs(bench.scale.branches))
    ]
    theirs = [_git_branch(path, seq, number) * 1000 for number, seq in enumerate(bench.seqs(3), bench.scale.events)]
    shutil.rmtree(path)
    name = f"branch at any seq of {bench.scale.events:,}, median"
    more = {"each": own, "peer each": theirs}
    row = Row(name, median(own), "ms", "git rev-list + git branch", median(theirs), details=more)
    return [row.at_most(5)]


def _git_branch(path: Path, seq: int, last: int) -> float:
    began = time.perf_counter()
    skip = f"--skip={max(last - seq, 0)}"
    commit = git("rev-list", "--max-count=1", skip, REF, cwd=path, capture=True).decode().strip()
    git("branch", f"peer-{seq}", commit, cwd=path)
    return time.perf_counter() - began


# --- verify, memory, start, canonical ------------------------------------------------------------


def verify(bench: Bench) -> list[Row]:
    """Everything checked: ours derives every commit from the events again, git hashes every object."""
    journal, count = gitjournal.open(bench.short), bench.scale.ingest

    def ours() -> Timing:
        reports: list[Any] = []
        took = clock(lambda: reports.append(gitjournal.verify(journal, SESSION)))
        if not reports[0].ok:
            raise RuntimeError(f"not intact: {reports[0].findings[:3]}")
        return took

    def theirs() -> Timing:
        return timed_git("fsck", "--full", "--no-progress", cwd=bench.short)

    own, other = (rates(count, result) for result in turns(bench.scale.rounds, [ours, theirs]))
    more = {"ours": own, "peer": other}
    value, peer = median(own["wall"]), median(other["wall"])
    return [Row("verify", value, "events/s", "git fsck --full", peer, lower=False, details=more).at_least(30_000)]


def memory(bench: Bench) -> list[Row]:
    """Most memory of a process that does one thing to a long session."""
    path, took, size_mb = bench.imported
    label, events = f"{size_mb:,.0f} MB transcript", f"{bench.scale.events:,} events"
    tasks: list[tuple[str, str, Callable[[], Path]]] = [
        (f"reading, {label}", "read", lambda: path),
        (f"verifying, {label}", "verify", lambda: path),
        (f"reading after git gc, {label}", "read", lambda: bench.imported_after_gc),
        (f"verifying after git gc, {label}", "verify", lambda: bench.imported_after_gc),
        (f"reading, {events}", "read", lambda: bench.long),
        (f"verifying, {events}", "verify", lambda: bench.long),
        (f"reading after git gc, {events}", "read", lambda: bench.long_after_gc),
        (f"verifying after git gc, {events}", "verify", lambda: bench.long_after_gc),
    ]
    rows = [_memory_row(f"importing, {label}", took)]
    for name, task, journal in tasks:
        rows.append(_memory_row(name, child(task, journal(), SESSION)))
    return rows


def _memory_row(name: str, took: Mapping[str, Any]) -> Row:
    return Row(f"memory, {name}", took["peak_mb"], "MB", details=dict(took)).at_most(300)


def start(bench: Bench) -> list[Row]:
    """`gj --help` in a new process, and a process that does no more than import click."""

    def run(*arguments: str) -> float:
        began = time.perf_counter()
        subprocess.run([sys.executable, *arguments], stdout=subprocess.DEVNULL, check=True, env=CHILD_ENV)
        return (time.perf_counter() - began) * 1000

    def ours() -> float:
        return run("-c", "import sys; from gitjournal.cli import main; sys.argv[:] = ['gj', '--help']; main()")

    def theirs() -> float:
        return run("-c", "import click")

    for warm in (ours, theirs):
        warm()
    own, other = turns(bench.scale.starts, [ours, theirs])
    more = {"each": own, "peer each": other}
    return [Row("gj --help", median(own), "ms", "import click", median(other), details=more).at_most(120)]


def canonical_rows(bench: Bench) -> list[Row]:
    """Canonical bytes of events of 1 KB."""
    events = data.members(200)
    for one in events:
        if canonical.dumps(one) != rfc8785.dumps(one):
            raise RuntimeError("the two do not print the same bytes")

    def run(dumps: Callable[[Any], bytes]) -> float:
        return clock(lambda: [dumps(one) for one in events]).wall * 1e6 / len(events)

    contenders = [lambda: run(canonical.dumps), lambda: run(rfc8785.dumps)]
    own, other = turns(5 * bench.scale.rounds, contenders)
    more = {"rounds": own, "peer rounds": other}
    return [Row("canonical bytes, 1 KB", median(own), "us", "rfc8785", median(other), details=more).beats(10)]


#: In this order: the quick ones first, and those that need the long session together.
MEASURES: dict[str, Callable[[Bench], list[Row]]] = {
    "canonical": canonical_rows,
    "start": start,
    "append": append,
    "ingest": ingest_rows,
    "verify": verify,
    "size": size,
    "read": read,
    "event": event,
    "branch": branch,
    "memory": memory,
}
