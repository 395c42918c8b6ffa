"""The hot functions, one by one, for pytest-benchmark. Nothing here asserts a time.

python -m pytest bench/test_bench.py --benchmark-enable         measure
python -m pytest bench/test_bench.py --benchmark-disable        each once: a smoke test
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import data
import pytest

import gitjournal
from gitjournal import canonical
from gitjournal.event import Event
from gitjournal.flush import Pending, publish
from gitjournal.journal import Journal
from gitjournal.objects import Deriver
from gitjournal.store import Store, create
from gitjournal.tail import Tail

EVENTS = 2000
REF = "refs/heads/bench/main"


@pytest.fixture(scope="module")
def journal(tmp_path_factory: pytest.TempPathFactory) -> Journal:
    """A journal with one session of 2,000 events, all in git."""
    made = gitjournal.init(tmp_path_factory.mktemp("bench") / "journal")
    with made.session("bench", create=True) as session:
        session.append_many(data.drafts(EVENTS - 1))
    return made


@pytest.fixture(scope="module")
def chain(journal: Journal) -> list[Event]:
    """The first 512 events of that session."""
    return list(journal.events("bench", to=512))


@pytest.fixture(scope="module")
def members() -> list[dict[str, Any]]:
    """Events as dicts, about 1 KB each."""
    return data.members(100)


def test_dumps(benchmark: Any, members: list[dict[str, Any]]) -> None:
    """Canonical bytes of 100 events."""
    texts = benchmark(lambda: [canonical.dumps(one) for one in members])
    assert [canonical.loads(text) for text in texts] == members


def test_loads_canonical(benchmark: Any, members: list[dict[str, Any]]) -> None:
    """100 events from their canonical bytes, checked."""
    texts = [canonical.dumps(one) for one in members]
    assert benchmark(lambda: [canonical.loads_canonical(text) for text in texts]) == members


def test_parse(benchmark: Any, chain: list[Event]) -> None:
    """`Event.parse` of 512 events."""
    raws = [event.raw for event in chain]
    assert benchmark(lambda: [Event.parse(raw) for raw in raws]) == chain


def test_deriver_push(benchmark: Any, journal: Journal, chain: list[Event]) -> None:
    """Blob, trees and commit of 512 events, hashes of events and bodies included."""
    raws = [event.raw for event in chain]

    def run() -> bytes | None:
        deriver = Deriver()
        for raw in raws:
            deriver.push(Event(raw))
        return deriver.head

    assert benchmark(run) == journal.chain(journal.resolve("bench")).commit_at(512)


@pytest.fixture
def tail(tmp_path: Path) -> Iterator[Tail]:
    """An empty tail."""
    made = Tail(tmp_path / "s" / "main.jsonl")
    yield made
    made.close()


def test_tail_append(benchmark: Any, tail: Tail, chain: list[Event]) -> None:
    """One event of 1 KB on disk."""
    benchmark(tail.append, [chain[1].raw])
    assert tail.used >= len(chain[1].raw)


def test_publish(benchmark: Any, tmp_path: Path, chain: list[Event]) -> None:
    """A flush of 512 events: derive, write a pack, move the ref."""
    items = [Pending(event) for event in chain]
    numbers = iter(range(1_000_000))

    def fresh() -> tuple[tuple[Any, ...], dict[str, Any]]:
        path = tmp_path / str(next(numbers))
        create(path)
        return (Store(path), Deriver(), items, REF, None, "bench\n"), {}

    ids = benchmark.pedantic(publish, setup=fresh, rounds=10)
    assert len(ids) == len(items)


def test_store_read(benchmark: Any, journal: Journal, chain: list[Event]) -> None:
    """512 blobs out of a pack, hashed again."""
    deriver = Deriver()
    wanted = [deriver.push(event).blob for event in chain]
    read = benchmark(lambda: [journal.store.read(oid, b"blob") for oid, _ in wanted])
    assert read == [content for _, content in wanted]


def test_event_by_seq(benchmark: Any, journal: Journal) -> None:
    """Events from all over a session, one call each."""
    seqs = range(1, EVENTS, 97)
    found = benchmark(lambda: [journal.event("bench", seq) for seq in seqs])
    assert [event.seq for event in found] == list(seqs)


def test_read_session(benchmark: Any, journal: Journal) -> None:
    """A session of 2,000 events through git."""
    assert benchmark(lambda: sum(1 for _ in journal.events("bench"))) == EVENTS


def test_verify(benchmark: Any, journal: Journal) -> None:
    """A session of 2,000 events derived anew and compared."""
    report = benchmark(gitjournal.verify, journal, "bench")
    assert report.ok
    assert report.head_seq == EVENTS
