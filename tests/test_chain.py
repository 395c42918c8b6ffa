"""Writing and reading one branch: compare-and-swap, leases, epochs, flushes, side files, the index, rivals, names."""

from __future__ import annotations

import os
import re
import shutil
import string
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from support import NOBODY, as_nobody, fork, forked, fsck, git, git_text, wait

import gitjournal
from gitjournal import seqindex, writer
from gitjournal.errors import (
    AlreadyExists,
    ConflictError,
    DamagedTail,
    Fenced,
    FormatError,
    JournalError,
    LeaseHeld,
    NotAJournal,
    NotFound,
    StorageError,
    UsageError,
    VerificationError,
)
from gitjournal.event import Event
from gitjournal.journal import Journal, Session
from gitjournal.objects import Deriver, git_id, side_file
from gitjournal.refs import Name
from gitjournal.writer import Draft, Printed, Writer, compact


def draft(n: int, **more: Any) -> Draft:
    return Draft("message", {"n": n}, **more)


def drafts(count: int, first: int = 0) -> list[Draft]:
    return [draft(n) for n in range(first, first + count)]


def numbers(journal: Journal, name: str | Name = "s") -> list[int]:
    """The payloads after session.start, and that seqs are dense and hashes chained."""
    events = list(journal.events(name))
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    assert all(two.prev == one.hash for one, two in pairwise(events))
    return [event.data["n"] for event in events[1:]]


def commits(journal: Journal, name: str = "s/main") -> list[str]:
    return git_text("rev-list", "--reverse", f"refs/heads/{name}", cwd=journal.path).split()


def derived(journal: Journal, name: str | Name = "s") -> list[str]:
    """The commit ids that follow from the events, worked out from nothing."""
    deriver, chain, out = Deriver(), journal.chain(journal.resolve(name)), []
    for event in chain.events():
        files = [git_id(b"blob", chain.raw_file(event.seq, k)) for k in range(1, len(event.files) + 1)]
        out.append(deriver.push(event, files).commit[0].hex())
    return out


def in_git(journal: Journal, name: str = "s") -> int:
    return journal.chain(Name(name)).snapshot().in_git


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """No flush for being idle: what a test leaves in the tail stays there."""
    monkeypatch.setattr(writer, "IDLE_SECONDS", 3600)


def crashed_copy(journal: Journal, to: Path) -> Journal:
    """The journal as it would be if every process died now."""
    shutil.copytree(journal.path, to)
    return gitjournal.open(to)


# --- append ----------------------------------------------------------------------------------------


def test_append_returns_place_and_hash(journal: Journal) -> None:
    with journal.session("s", create=True) as s:
        done = s.append("message", {"n": 1})
        assert (done.seq, s.head) == (2, done)
        assert journal.event("s", 2).hash == done.hash
    assert journal.head("s") == done


def test_expected_seq(journal: Journal, patient: None) -> None:
    with journal.session("s", create=True) as s:
        s.append("message", {"n": 1}, expected_seq=1)
        before = journal.chain(Name("s")).tail_path.read_bytes()
        for wrong in (0, 1, 3, 10**9):
            with pytest.raises(ConflictError) as error:
                s.append("message", {"n": 9}, expected_seq=wrong)
            assert error.value.head_seq == 2
            assert "at seq 2" in str(error.value)
            with pytest.raises(ConflictError):
                s.append_many(drafts(3), expected_seq=wrong)
        assert journal.chain(Name("s")).tail_path.read_bytes() == before
        s.append_many(drafts(2, 2), expected_seq=2)
    assert numbers(journal) == [1, 2, 3]


@pytest.mark.parametrize(
    ("bad", "error"),
    [
        ({"type": "Message"}, FormatError),
        ({"type": ""}, FormatError),
        ({"type": "a" * 65}, FormatError),
        ({"type": "session.start"}, UsageError),
        ({"type": "session.seal"}, UsageError),
        ({"actor": ""}, FormatError),
        ({"actor": "a\nb"}, FormatError),
        ({"turn": ""}, FormatError),
        ({"ts": "yesterday"}, FormatError),
        ({"data": []}, FormatError),
        ({"data": None}, FormatError),
        ({"data": {"x": 2**53}}, FormatError),
        ({"data": {"x": float("nan")}}, FormatError),
        ({"data": {"x": "\ud800"}}, FormatError),
        ({"data": {"x": object()}}, FormatError),
        ({"data": {1: 2}}, FormatError),
        ({"data": {"$gj:file": 1}}, FormatError),
        ({"data": {"x": {"$gj:file": 1}}}, FormatError),
        ({"data": {"x": {"$gj:what": 1}}}, FormatError),
    ],
)
def test_bad_event_is_refused_and_nothing_is_written(
    journal: Journal, bad: dict[str, Any], error: type[JournalError]
) -> None:
    with journal.session("s", create=True) as s:
        given = {"type": "message", "data": {}, **bad}
        with pytest.raises(error):
            s.append(**given)
        with pytest.raises(error):
            s.append_many([draft(1), Draft(**given), draft(2)])
        assert s.head.seq == 1
        s.append("message", {"n": 1})
    assert numbers(journal) == [1]
    assert gitjournal.verify(journal, "s").ok


def test_each_salt_is_16_random_bytes_in_their_one_spelling(journal: Journal) -> None:
    with journal.session("s", create=True) as s:
        s.append_many([("note", {}, "user")] * 300)
    salts = [event.members["salt"] for event in journal.events("s")]
    assert len(set(salts)) == len(salts) > 300
    for salt in salts:
        assert urlsafe_b64encode(urlsafe_b64decode(salt + "==")).decode() == salt + "=="
    # A character that never came would be a mistake in the table: the odds are below one in 10^40.
    assert {char for salt in salts for char in salt[:-1]} == set(string.ascii_letters + string.digits + "-_")
    assert {salt[-1] for salt in salts} == set("AQgw")


def test_deep_nesting_is_refused(journal: Journal) -> None:
    deep: Any = "x"
    for _ in range(5000):
        deep = [deep]
    with journal.session("s", create=True) as s:
        with pytest.raises(FormatError):
            s.append("message", {"x": deep})
        assert s.head.seq == 1


def test_large_event_of_small_strings_is_refused(journal: Journal) -> None:
    """20 MiB that no side file takes: named, and nothing is written."""
    parts = [{"type": "text", "content": "x" * 60_000} for _ in range(350)]
    before = git_text("count-objects", "-v", cwd=journal.path)
    with journal.session("s", create=True) as s:
        with pytest.raises(FormatError, match="event 2: an event may have 16777216 bytes"):
            s.append("message", {"parts": parts})
        assert s.head.seq == 1
        assert not journal.chain(Name("s")).snapshot().in_git
        assert git_text("count-objects", "-v", cwd=journal.path) == before


def test_large_string_goes_to_a_side_file(journal: Journal) -> None:
    text = "0123456789abcdef" * (20 * 1024 * 64)
    with journal.session("s", create=True, durability="os") as s:
        done = s.append("tool.result", {"output": text}, actor="tool:shell")
        # At once in git: a tail cannot hold it.
        assert in_git(journal) == 2
    event = journal.event("s", done.seq)
    assert len(event.raw) < 1000
    assert event.data["output"] == text
    assert journal.raw_file("s", 2, 1) == text.encode()
    assert gitjournal.verify(journal, "s").side_files == 1


@pytest.mark.parametrize("size", [65_535, 65_536, 65_537])
def test_where_side_files_begin(journal: Journal, size: int) -> None:
    with journal.session("s", create=True, durability="os") as s:
        s.append("message", {"x": "a" * size, "y": ["é" * (size // 2)], "n": 1})
    event = journal.event("s", 2)
    assert len(event.files) == (size >= 65_536) + (size // 2 * 2 >= 65_536)
    assert (event.data["x"], event.data["y"]) == ("a" * size, ["é" * (size // 2)])


def test_blob_parts_go_to_side_files(journal: Journal, patient: None) -> None:
    blob = {"type": "blob", "mime_type": "image/png", "content": "iVBORw0KGgo="}
    with journal.session("s", create=True) as s:
        s.append("message", {"n": 0})
        s.append("message", {"role": "user", "parts": [blob, {"type": "text", "content": "see"}], "n": 1})
        s.append("message", {"n": 2})
        assert in_git(journal) == 3
        assert journal.event("s", 3).data["parts"] == [blob, {"type": "text", "content": "see"}]
        assert journal.raw_file("s", 3, 1) == b"\x89PNG\r\n\x1a\n"
        for seq, k in ((3, 2), (2, 1), (4, 1), (5, 1), (0, 1), (3, 0), (3, -1)):
            with pytest.raises(NotFound):
                journal.raw_file("s", seq, k)
    assert numbers(journal) == [0, 1, 2]


def test_same_side_file_is_stored_once(journal: Journal) -> None:
    with journal.session("s", create=True, durability="os") as s:
        for _ in range(3):
            s.append("tool.result", {"output": "z" * 100_000})
    listed = git_text("cat-file", "--batch-all-objects", "--batch-check", cwd=journal.path)
    assert len([line for line in listed.splitlines() if line.endswith("blob 100000")]) == 1


# --- batches ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [0, 1, 2, 255, 256, 257, 511, 512, 513, 5000])
def test_batches_of_every_size(journal: Journal, count: int) -> None:
    with journal.session("s", create=True, durability="os") as s:
        done = s.append_many(drafts(count))
        assert [one.seq for one in done] == list(range(2, count + 2))
        assert s.head.seq == count + 1
    assert numbers(journal) == list(range(count))
    assert [event.hash for event in journal.events("s", after=1)] == [one.hash for one in done]
    assert gitjournal.verify(journal, "s").ok


def test_batch_is_stored_whole_or_not_at_all(journal: Journal) -> None:
    def until(count: int) -> Iterator[Draft]:
        yield from drafts(count)
        raise RuntimeError("source broke")

    with journal.session("s", create=True, durability="os") as s:
        with pytest.raises(RuntimeError):
            s.append_many(until(700))
        assert s.head.seq == 1
        # Beyond 4,096 events a batch is stored in pieces, each whole.
        with pytest.raises(RuntimeError):
            s.append_many(until(5000))
        assert s.head.seq == 4097
    assert numbers(journal) == list(range(4096))


def test_batch_whose_source_appends(journal: Journal) -> None:
    """The event in between takes the place that the batch was made for."""
    with journal.session("s", create=True) as s:

        def source() -> Iterator[Draft]:
            yield draft(1)
            s.append("message", {"n": 0})
            yield draft(2)

        with pytest.raises(ConflictError):
            s.append_many(source())
        s.append("message", {"n": 3})
    assert numbers(journal) == [0, 3]


def test_batch_takes_drafts_and_tuples(journal: Journal) -> None:
    with journal.session("s", create=True) as s:
        s.append_many([("message", {"n": 1}, "user"), Draft("message", {"n": 2}, "assistant", "t1"), draft(3)])
    assert [(event.actor, event.turn) for event in journal.events("s", after=1)] == [
        ("user", None),
        ("assistant", "t1"),
        ("host", None),
    ]


# --- flush -----------------------------------------------------------------------------------------


def test_flush_at_512_events(journal: Journal, patient: None) -> None:
    with journal.session("s", create=True, durability="os") as s:
        for n in range(510):
            s.append("message", {"n": n})
        assert in_git(journal) == 0
        s.append("message", {"n": 510})
        assert in_git(journal) == 512
        s.append("message", {"n": 511})
        assert in_git(journal) == 512


def test_flush_at_4_mib(journal: Journal, patient: None) -> None:
    with journal.session("s", create=True, durability="os") as s:
        for n in range(69):
            s.append("message", {"n": n, "x": "y" * 61_000})
        assert in_git(journal) == 70
        s.append("message", {"n": 69})
        assert in_git(journal) == 70


def test_flush_when_idle(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "IDLE_SECONDS", 0.02)
    with journal.session("s", create=True) as s:
        for n in range(3):
            s.append("message", {"n": n})
            deadline = time.monotonic() + 60
            while in_git(journal) < n + 2:
                assert time.monotonic() < deadline
                time.sleep(0.01)


def test_flush_and_close(journal: Journal, patient: None) -> None:
    chain = journal.chain(Name("s"))
    with journal.session("s", create=True) as s:
        s.append("message", {"n": 1})
        assert in_git(journal) == 0
        s.flush()
        assert in_git(journal) == 2
        s.flush()
        s.append("message", {"n": 2})
    assert in_git(journal) == 3
    assert not chain.tail_path.exists()
    assert not chain.lease_path.exists()
    s.close()
    for call in (lambda: s.append("message", {}), lambda: s.append_many([]), lambda: s.append_many(drafts(1))):
        with pytest.raises(UsageError, match="closed"):
            call()
    fsck(journal.path)


def test_journal_flush(journal: Journal, patient: None, tmp_path: Path) -> None:
    with journal.session("s", create=True) as s:
        s.append("message", {"n": 1})
        with pytest.raises(LeaseHeld):
            journal.flush("s")
        copy = crashed_copy(journal, tmp_path / "copy")
    copy.flush("s")
    copy.flush("s")
    assert in_git(copy) == 2


def test_durability(journal: Journal, patient: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """What each promises, seen by the syncs of the tail and by the ref."""
    syncs: list[int] = []
    real = os.fdatasync
    monkeypatch.setattr(os, "fdatasync", lambda fd: syncs.append(fd) or real(fd))
    for durability, expected, there in (("disk", 3, 0), ("os", 0, 0), ("commit", 0, 3)):
        syncs.clear()
        with journal.session(f"s-{durability}", create=True, durability=durability) as s:  # type: ignore[arg-type]
            s.append("message", {"n": 1})
            s.append("message", {"n": 2})
            assert len(syncs) == expected
            assert in_git(journal, f"s-{durability}") == there
            assert numbers(journal, f"s-{durability}") == [1, 2]
    for bad in ("", "fsync", None, True):
        with pytest.raises(UsageError):
            journal.session("x", create=True, durability=bad)  # type: ignore[arg-type]
    assert "x" not in [str(name) for name in journal.sessions()]


SOURCE = [draft(n, ts=f"2026-01-01T00:{n // 60:02d}:{n % 60:02d}.000Z") for n in range(120)]


def open_fixed(journal: Journal, create: bool = False) -> Session:
    start = Draft("session.start", {}, ts="2026-01-01T00:00:00.000Z")
    return journal.session("s", create=create, epoch=1, salted=False, durability="os", start=start)


def one_by_one(journal: Journal) -> None:
    with open_fixed(journal) as session:
        for one in SOURCE:
            session.append(one.type, one.data, ts=one.ts)
            session.flush()


def in_one_batch(journal: Journal) -> None:
    with open_fixed(journal) as session:
        session.append_many(SOURCE)


def tail_then_close(journal: Journal) -> None:
    with open_fixed(journal) as session:
        for one in SOURCE:
            session.append(one.type, one.data, ts=one.ts)


def reopened(journal: Journal) -> None:
    for at in range(0, 120, 7):
        with open_fixed(journal) as session:
            session.append_many(SOURCE[at : at + 7])


def child_dies(journal: Journal) -> None:
    def append_and_die(part: list[Draft]) -> None:
        session = open_fixed(journal)
        session.append_many(part[:10])
        session.flush()
        for one in part[10:]:
            session.append(one.type, one.data, ts=one.ts)
        os._exit(9)

    for at in range(0, 120, 30):
        assert forked(lambda at=at: append_and_die(SOURCE[at : at + 30])) == 9


def test_commit_ids_do_not_depend_on_flushes(tmp_path: Path) -> None:
    """One by one, in batches, after reopening, after a crash: the same events are the same commits."""
    tips = set()
    for how in (one_by_one, in_one_batch, tail_then_close, reopened, child_dies):
        journal = gitjournal.init(tmp_path / how.__name__)
        open_fixed(journal, create=True).close()
        how(journal)
        journal.flush("s")
        assert numbers(journal) == list(range(120))
        assert commits(journal) == derived(journal)
        assert gitjournal.verify(journal, "s").ok
        tips.add(commits(journal)[-1])
        fsck(journal.path)
    assert len(tips) == 1


# --- lease and epoch -------------------------------------------------------------------------------


def test_lease_of_another_process(journal: Journal) -> None:
    with journal.session("s", create=True) as s:

        def other() -> None:
            with pytest.raises(LeaseHeld, match=rf"process {os.getppid()} on .+ since 20"):
                gitjournal.open(journal.path).session("s")

        assert forked(other) == 0
        s.append("message", {"n": 1})
    assert numbers(journal) == [1]


def test_lease_of_another_thread(journal: Journal) -> None:
    with journal.session("s", create=True), ThreadPoolExecutor(1) as pool:
        task = pool.submit(journal.session, "s")
        with pytest.raises(LeaseHeld, match=f"process {os.getpid()}"):
            task.result()
    journal.session("s").close()


def test_crash_frees_the_lease(journal: Journal) -> None:
    def die() -> None:
        journal.session("s", create=True).append("message", {"n": 1})
        os._exit(9)

    assert forked(die) == 9
    with journal.session("s") as s:
        # The epoch of the dead writer is in its lease file and in its events.
        assert s.epoch == 2
        assert s.set_aside == 0
        s.append("message", {"n": 2})
    assert numbers(journal) == [1, 2]
    assert [event.epoch for event in journal.events("s")] == [1, 1, 2]


def test_epoch_rises_with_each_opening(journal: Journal) -> None:
    journal.session("s", create=True).close()
    for epoch in (2, 3):
        with journal.session("s") as s:
            assert s.epoch == epoch
            s.append("message", {"n": epoch})
    # An opening that appends nothing leaves no epoch behind.
    with journal.session("s") as s:
        assert s.epoch == 4
    with journal.session("s") as s:
        assert s.epoch == 4


def test_fixed_epoch(journal: Journal) -> None:
    with journal.session("s", create=True, epoch=5) as s:
        assert s.epoch == 5
    for low in (1, 4):
        with pytest.raises(Fenced, match="epoch 5"):
            journal.session("s", epoch=low)
    for bad in (0, -1):
        with pytest.raises(UsageError):
            journal.session("s", epoch=bad)
    with journal.session("s", epoch=5) as s:
        s.append("message", {"n": 1})
    with journal.session("s") as s:
        assert s.epoch == 6


def test_fixed_epoch_below_an_event_in_the_tail(journal: Journal, patient: None, tmp_path: Path) -> None:
    with journal.session("s", create=True, epoch=7):
        copy = crashed_copy(journal, tmp_path / "copy")
    with pytest.raises(Fenced):
        copy.session("s", epoch=6)
    with copy.session("s", epoch=7) as s:
        s.append("message", {"n": 1})


def take_over(journal: Journal, session: str = "s") -> Session:
    """Open a session whose lease file somebody has removed under its writer."""
    journal.chain(Name(session)).lease_path.unlink()
    return journal.session(session)


def test_older_writer_is_fenced(journal: Journal, patient: None) -> None:
    old = journal.session("s", create=True)
    old.append("message", {"n": 1})
    with take_over(journal) as new:
        assert new.epoch > old.epoch
        new.append("message", {"n": 2})
        for call in (lambda: old.append("message", {"n": 9}), lambda: old.append_many(drafts(3)), old.flush):
            with pytest.raises(Fenced):
                call()
        with pytest.raises(Fenced):
            old.close()
        new.append("message", {"n": 3})
    assert numbers(journal) == [1, 2, 3]
    assert gitjournal.verify(journal, "s").ok


def test_fenced_writer_leaves_the_tail_of_the_newer_one(journal: Journal, patient: None, tmp_path: Path) -> None:
    """The older writer's tail is empty when it closes, but the file is the newer one's by now."""
    old = journal.session("s", create=True)
    old.append("message", {"n": 1})
    old.flush()
    with take_over(journal) as new:
        new.append("message", {"n": 2})
        old.close()
        assert journal.chain(Name("s")).tail_path.exists()
        assert numbers(crashed_copy(journal, tmp_path / "copy")) == [1, 2]
        new.append("message", {"n": 3})
    assert numbers(journal) == [1, 2, 3]


def test_forked_child_leaves_the_session_alone(journal: Journal, patient: None, tmp_path: Path) -> None:
    with journal.session("s", create=True) as s:
        s.append("message", {"n": 1})
        s.flush()

        def child() -> None:
            with pytest.raises(Fenced, match=f"process {os.getppid()}"):
                s.append("message", {"n": 9})
            s.close()

        s.append("message", {"n": 2})
        s.flush()
        assert forked(child) == 0
        s.append("message", {"n": 3})
        assert numbers(crashed_copy(journal, tmp_path / "copy")) == [1, 2, 3]
    assert numbers(journal) == [1, 2, 3]


def test_removed_lease_file_fences_even_without_a_rival(journal: Journal, patient: None) -> None:
    s = journal.session("s", create=True)
    journal.chain(Name("s")).lease_path.unlink()
    with pytest.raises(Fenced):
        s.append("message", {"n": 1})
    with pytest.raises(Fenced):
        s.close()
    assert numbers(journal) == []
    journal.session("s").close()


# --- rivals that do not ask ------------------------------------------------------------------------


def test_ref_moved_back(journal: Journal, patient: None) -> None:
    """The ref goes back two events under a writer: nothing is lost, and nobody goes on by guessing."""
    s = journal.session("s", create=True)
    s.append_many(drafts(5))
    s.flush()
    s.append_many(drafts(3, 5))
    right = git_text("rev-parse", "refs/heads/s/main", cwd=journal.path)
    git("update-ref", "refs/heads/s/main", f"{right}~2", cwd=journal.path)
    with pytest.raises(ConflictError):
        s.flush()
    with pytest.raises(StorageError, match="moved the ref"):
        s.append("message", {"n": 9})
    with pytest.raises(DamagedTail, match=r"main\.jsonl"):
        list(journal.events("s"))
    with pytest.raises(StorageError, match="moved the ref"):
        s.close()
    with pytest.raises(DamagedTail):
        journal.session("s")
    # Put right again, the session is whole.
    git("update-ref", "refs/heads/s/main", right, cwd=journal.path)
    assert numbers(journal) == list(range(8))
    with journal.session("s") as s:
        s.append("message", {"n": 8})
    assert numbers(journal) == list(range(9))


def rival_line(journal: Journal, tmp_path: Path, count: int) -> str:
    """Another host goes on from what is in git, and pushes its events."""
    clone = tmp_path / "rival"
    git("clone", "-q", "--bare", journal.path, clone, cwd=tmp_path)
    rival = gitjournal.open(clone)
    with rival.session("s", durability="os") as s:
        s.append_many(drafts(count, 100))
    git("push", "-q", journal.path, "refs/heads/s/main:refs/heads/s/main", cwd=clone)
    return commits(rival)[-1]


@pytest.mark.parametrize("count", [1, 3, 8])
def test_ref_moved_ahead_by_a_rival(journal: Journal, patient: None, tmp_path: Path, count: int) -> None:
    """Events that were acknowledged here may not vanish behind others with the same seqs."""
    s = journal.session("s", create=True)
    s.append_many(drafts(5))
    s.flush()
    s.append_many(drafts(3, 5))
    tail = journal.chain(Name("s")).tail_path.read_bytes()
    rival_line(journal, tmp_path, count)
    with pytest.raises(ConflictError):
        s.flush()
    with pytest.raises(StorageError):
        s.append("message", {"n": 9})
    with pytest.raises(StorageError, match="moved the ref"):
        s.close()
    assert journal.chain(Name("s")).tail_path.read_bytes() == tail
    with pytest.raises(DamagedTail):
        journal.session("s")
    assert journal.chain(Name("s")).tail_path.read_bytes() == tail
    got = []
    with pytest.raises(DamagedTail):
        got += [event.seq for event in journal.events("s")] + list(journal.events("s"))
    assert not gitjournal.verify(journal, "s").ok
    assert [event.data["n"] for event in journal.events("s", after=1, to=6)] == list(range(5))


def test_ref_moved_ahead_while_nothing_is_pending(journal: Journal, patient: None, tmp_path: Path) -> None:
    s = journal.session("s", create=True)
    s.flush()
    rival_line(journal, tmp_path, 3)
    s.append("message", {"n": 1})
    with pytest.raises(ConflictError):
        s.flush()
    with pytest.raises(StorageError, match="moved the ref"):
        s.close()
    with pytest.raises(DamagedTail):
        journal.session("s")


def test_ref_deleted(journal: Journal, patient: None) -> None:
    s = journal.session("s", create=True)
    s.append("message", {"n": 1})
    s.flush()
    s.append("message", {"n": 2})
    tip = git_text("rev-parse", "refs/heads/s/main", cwd=journal.path)
    git("update-ref", "-d", "refs/heads/s/main", cwd=journal.path)
    with pytest.raises(ConflictError):
        s.flush()
    with pytest.raises(StorageError, match="moved the ref"):
        s.close()
    with pytest.raises(DamagedTail):
        journal.session("s", create=True)
    git("update-ref", "refs/heads/s/main", tip, cwd=journal.path)
    assert numbers(journal) == [1, 2]


def test_ref_appears_while_a_session_begins(journal: Journal, patient: None) -> None:
    s = journal.session("s", create=True)
    git("update-ref", "refs/heads/s/main", "refs/heads/journal/main", cwd=journal.path)
    with pytest.raises(ConflictError):
        s.flush()
    with pytest.raises(StorageError, match="moved the ref"):
        s.close()
    git("update-ref", "-d", "refs/heads/s/main", cwd=journal.path)
    with journal.session("s") as s:
        s.append("message", {"n": 1})
    assert numbers(journal) == [1]


# --- reading beside a writer -----------------------------------------------------------------------


def test_readers_see_a_dense_prefix(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    """Appends, batches, flushes, reopenings and folding packs, and a reader in a loop."""
    monkeypatch.setattr(writer, "FLUSH_EVENTS", 16)
    monkeypatch.setattr("gitjournal.tiers.FAN_IN", 3)
    journal.session("s", create=True).close()
    total = 900

    def write() -> None:
        mine, n = gitjournal.open(journal.path), 0
        while n < total:
            with mine.session("s", durability="os") as s:
                for _ in range(60):
                    s.append("message", {"n": n, "x": "y" * (n % 7 * 300)})
                    n += 1
                s.append_many(Draft("message", {"n": k}) for k in range(n, n + 15))
                n += 15
                s.append("tool.result", {"n": n, "output": "z" * 66_000})
                n += 1

    pid = fork(write)
    last, looks = 0, 0
    while True:
        done, status = os.waitpid(pid, os.WNOHANG)
        hashes = [event.hash for event in journal.events("s", after=last)]
        seqs = [event.seq for event in journal.events("s", after=last)]
        assert seqs == list(range(last + 1, last + len(seqs) + 1))
        assert len(seqs) >= len(hashes)
        head = journal.head("s")
        assert journal.event("s", head.seq).hash == head.hash
        if looks % 5 == 0:
            assert gitjournal.verify(gitjournal.open(journal.path) if looks % 2 else journal, "s").findings == []
        last, looks = max(0, last + len(hashes) - 40), looks + 1
        if done:
            assert status == 0
            break
    assert numbers(journal) == list(range(len(numbers(journal))))
    assert len(numbers(journal)) >= total
    assert looks > 3
    fsck(journal.path)


def test_a_reader_keeps_what_it_began_with(journal: Journal, patient: None) -> None:
    with journal.session("s", create=True, durability="os") as s:
        s.append_many(drafts(150))
        s.flush()
        s.append_many(drafts(5, 150))
        reader = journal.events("s")
        first = [next(reader) for _ in range(50)]
        s.append_many(drafts(5, 155))
        s.flush()
        git("gc", "-q", "--prune=now", cwd=journal.path)
        rest = list(reader)
    assert [event.seq for event in first + rest] == list(range(1, 157))


def test_read_ranges(journal: Journal, patient: None) -> None:
    with journal.session("s", create=True, durability="os") as s:
        s.append_many(drafts(250))
        s.flush()
        s.append_many(drafts(10, 250))
        everything = list(range(1, 262))
        for after in (-(10**9), -1, 0, 1, 98, 99, 100, 101, 199, 200, 249, 250, 251, 252, 260, 261, 262, 10**9):
            for to in (None, -1, 0, 1, 99, 100, 101, 200, 250, 251, 252, 261, 262, 10**9):
                got = [event.seq for event in journal.events("s", after=after, to=to)]
                assert got == [seq for seq in everything if seq > after and (to is None or seq <= to)], (after, to)
        assert [journal.event("s", seq).seq for seq in everything] == everything
        for seq in (0, -1, 262, 10**9):
            with pytest.raises(NotFound):
                journal.event("s", seq)


def test_damaged_tail_is_read_as_far_as_it_goes(journal: Journal, patient: None, tmp_path: Path) -> None:
    with journal.session("s", create=True) as s:
        s.append("message", {"n": 0})
        s.flush()
        for n in range(1, 6):
            s.append("message", {"n": n})
        copy = crashed_copy(journal, tmp_path / "copy")
    path = copy.chain(Name("s")).tail_path
    path.write_bytes(path.read_bytes().replace(b'"n":3', b'"n"x3'))
    before = path.read_bytes()
    got = []
    with pytest.raises(DamagedTail, match="line 3"):
        for event in copy.events("s"):
            got.append(event.seq)
    assert got == [1, 2, 3, 4]
    assert [event.seq for event in copy.events("s", to=4)] == got
    assert copy.head("s").seq == 4
    assert copy.event("s", 4).data == {"n": 2}
    with pytest.raises(DamagedTail):
        copy.event("s", 5)
    with pytest.raises(DamagedTail, match="line 3") as error:
        copy.session("s")
    assert "Keep a copy" in error.value.hint
    assert path.read_bytes() == before
    # The lease file still says that a writer died.
    assert copy.chain(Name("s")).lease_path.exists()
    copy.branch("s", at=4, as_="saved")
    assert [event.seq for event in copy.events("s/saved")] == [1, 2, 3, 4, 5]


def test_torn_write_is_set_aside(journal: Journal, patient: None, tmp_path: Path) -> None:
    with journal.session("s", create=True) as s:
        for n in range(3):
            s.append("message", {"n": n})
        copy = crashed_copy(journal, tmp_path / "copy")
    path = copy.chain(Name("s")).tail_path
    path.write_bytes(path.read_bytes().rstrip(b"\n")[:-20])
    assert numbers(copy) == [0, 1]
    with copy.session("s") as s:
        assert s.set_aside > 0
        s.append("message", {"n": 7})
    assert numbers(copy) == [0, 1, 7]
    assert path.with_suffix(".torn").read_bytes().startswith(b'{"actor"')


# --- the index of commits by seq -------------------------------------------------------------------


@pytest.fixture
def indexed(journal: Journal) -> Journal:
    """A session of 240 events, with a branch at 100."""
    with journal.session("s", create=True, durability="os") as s:
        s.append_many(drafts(120))
        s.append_many(drafts(119, 120))
    journal.branch("s", at=100, as_="b")
    with journal.session("s/b", durability="os") as s:
        s.append_many(drafts(60, 1000))
    return journal


def check_index(journal: Journal, name: str = "s/main") -> None:
    want = commits(journal, name)
    session, branch = name.split("/")
    for seq in (1, 2, 50, 99, 100, 101, 102, 120, len(want) - 1, len(want)):
        assert gitjournal.open(journal.path).chain(Name(session, branch)).commit_at(seq).hex() == want[seq - 1], seq
    for seq in (0, -1, len(want) + 1, 10**9):
        with pytest.raises(NotFound):
            journal.chain(Name(session, branch)).commit_at(seq)


def header(first: int) -> bytes:
    return seqindex._HEADER.pack(seqindex._MAGIC, first)


def spoil(path: Path, how: str, journal: Journal) -> None:
    """Do to an index file what disks, crashes and people do."""
    raw, other = path.read_bytes(), journal.chain(Name("s", "b")).index.path.read_bytes()
    size = seqindex._HEADER.size
    ids = raw[size:]
    own = range(0, len(ids) - 20, 20)
    spoilt = {
        "missing": b"",
        "empty": b"",
        "garbage": b"\x00garbage" * 1000,
        "cut-header": raw[: size - 1],
        "only-header": raw[:size],
        "cut": raw[: size + 20 * 60],
        "cut-in-an-id": raw[:-7],
        "too-long": raw + b"x" * 7,
        "one-too-many": raw + ids[-20:],
        "first-too-high": header(1000) + ids,
        "first-too-low": header(0) + ids,
        "first-huge": header(2**64 - 1) + ids,
        "shifted": header(2) + ids[20:] + ids[-20:],
        "of-another-branch": other,
        "another-branch-with-our-head": raw[: size + 20 * 100] + other[size : size + 20 * 40] + ids[20 * 140 :],
        "zeros-but-the-head": raw[:size] + bytes(len(ids) - 20) + ids[-20:],
        "reversed-but-the-head": raw[:size] + b"".join(reversed([ids[at : at + 20] for at in own])) + ids[-20:],
        "another-magic": b"gjseq\x00\x00\x02" + raw[8:],
    }[how]
    path.write_bytes(spoilt)
    if how == "missing":
        path.unlink()


HOWS = [
    "missing", "empty", "garbage", "cut-header", "only-header", "cut", "cut-in-an-id", "too-long", "one-too-many",
    "first-too-high", "first-too-low", "first-huge", "shifted", "of-another-branch", "another-branch-with-our-head",
    "zeros-but-the-head", "reversed-but-the-head", "another-magic",
]  # fmt: skip


@pytest.mark.parametrize("how", HOWS)
def test_index_is_only_a_hint(indexed: Journal, how: str) -> None:
    path = indexed.chain(Name("s")).index.path
    right = path.read_bytes()
    want = commits(indexed)
    for seq in (100, 130, 1, 240):
        spoil(path, how, indexed)
        assert indexed.chain(Name("s")).commit_at(seq).hex() == want[seq - 1], seq
        path.write_bytes(right)
    spoil(path, how, indexed)
    with pytest.raises(NotFound):
        indexed.chain(Name("s")).commit_at(241)
    indexed.branch("s", at=130, as_="after")
    assert gitjournal.verify(indexed, "s/after").ok
    # Appending goes on, and once somebody has asked, the file is right again.
    with indexed.session("s") as s:
        s.append("message", {"n": 239})
    check_index(indexed)
    assert gitjournal.verify(indexed, "s").ok


@pytest.mark.parametrize("how", HOWS)
def test_index_of_a_parent_is_only_a_hint(indexed: Journal, how: str) -> None:
    path = indexed.chain(Name("s")).index.path
    spoil(path, how, indexed)
    want = commits(indexed, "s/b")
    for seq in (1, 99, 100, 101, 161):
        assert indexed.chain(Name("s", "b")).commit_at(seq).hex() == want[seq - 1]
    check_index(indexed, "s/b")


@pytest.mark.parametrize("how", ["missing", "garbage", "first-too-high", "first-too-low"])
def test_index_of_a_branch_is_only_a_hint(indexed: Journal, how: str) -> None:
    spoil(indexed.chain(Name("s", "b")).index.path, how, indexed)
    check_index(indexed, "s/b")


def test_index_when_the_parent_is_gone(indexed: Journal) -> None:
    git("update-ref", "-d", "refs/heads/s/main", cwd=indexed.path)
    shutil.rmtree(indexed.path / "gitjournal" / "index")
    check_index(indexed, "s/b")


def test_index_that_cannot_be_written(indexed: Journal) -> None:
    folder = indexed.path / "gitjournal" / "index"
    shutil.rmtree(folder)
    folder.write_text("in the way")
    check_index(indexed)
    with indexed.session("s") as s:
        s.append("message", {"n": 239})
    check_index(indexed)


def test_index_is_stale_after_a_move_of_the_ref(indexed: Journal) -> None:
    git("update-ref", "refs/heads/s/main", "refs/heads/s/main~100", cwd=indexed.path)
    check_index(indexed)
    with indexed.session("s", durability="os") as s:
        s.append_many(drafts(150, 500))
    check_index(indexed)


# --- disks and clocks ------------------------------------------------------------------------------


def test_read_only_folder(journal: Journal, patient: None, public: Path) -> None:
    """As another user without the right to write sees it: reading and verifying work, writing says why not."""
    with journal.session("s", create=True) as s:
        s.append("message", {"n": 0})
        s.flush()
        s.append("message", {"n": 1})
        copy = crashed_copy(journal, public / "copy")
    shutil.rmtree(copy.path / "gitjournal" / "lease")
    shutil.rmtree(copy.path / "gitjournal" / "index", ignore_errors=True)

    def work() -> None:
        mine = gitjournal.open(copy.path)
        assert numbers(mine) == [0, 1]
        assert mine.event("s", 2).data == {"n": 0}
        assert [str(name) for name in mine.sessions()] == ["s"]
        assert mine.chain(Name("s")).commit_at(1)
        assert gitjournal.verify(mine, "s").ok
        for call in (
            lambda: mine.session("s"),
            lambda: mine.session("t", create=True),
            lambda: mine.branch("s", at=1, as_="b"),
            lambda: mine.fork("s", at=1, session="f"),
            lambda: mine.flush("s"),
            lambda: gitjournal.init(copy.path / "inner"),
        ):
            with pytest.raises(StorageError, match=re.escape(str(copy.path))):
                call()

    if os.getuid():
        pytest.skip("needs root to become somebody who may not write")
    for one in [copy.path, *copy.path.rglob("*")]:
        os.chown(one, NOBODY, NOBODY)
        one.chmod(0o555 if one.is_dir() else 0o444)
    assert as_nobody(work) == 0


def test_disk_full_at_flush_keeps_the_events(journal: Journal, patient: None, monkeypatch: pytest.MonkeyPatch) -> None:
    with journal.session("s", create=True) as s:
        s.append("message", {"n": 0})
        with monkeypatch.context() as patch:

            def full(*_: Any, **__: Any) -> None:
                raise StorageError("no space left")

            patch.setattr(type(journal.store), "write_pack", full)
            with pytest.raises(StorageError):
                s.flush()
            s.append("message", {"n": 1})
            assert numbers(journal) == [0, 1]
            with pytest.raises(StorageError):
                s.append("tool.result", {"n": 9, "output": "x" * 70_000})
            assert numbers(journal) == [0, 1]
        s.append("message", {"n": 2})
    assert numbers(journal) == [0, 1, 2]


def test_clock_that_goes_back(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    """`ts` says what the clock said, the order is the chain's, and commit times never fall."""
    said = [
        "2026-05-01T00:00:10.000Z",
        "2026-05-01T00:00:05.500Z",
        "2020-01-01T00:00:00.000Z",
        "2026-05-01T00:00:11.000Z",
    ]
    times = iter(said)
    monkeypatch.setattr(writer, "now", lambda: next(times))
    with journal.session("s", create=True) as s:
        s.append_many(drafts(3))
    assert [event.ts for event in journal.events("s")] == said
    stamps = [int(text) for text in git_text("log", "--reverse", "--format=%ct", "s/main", cwd=journal.path).split()]
    assert stamps == [stamps[0], stamps[0], stamps[0], stamps[0] + 1]
    assert gitjournal.verify(journal, "s").ok


def test_clock_before_1970_is_refused(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    with journal.session("s", create=True) as s:
        monkeypatch.setattr(writer, "now", lambda: "1969-12-31T23:59:59.000Z")
        with pytest.raises(FormatError):
            s.append("message", {"n": 1})
        assert s.head.seq == 1


# --- names -----------------------------------------------------------------------------------------

NAMES = [
    "a/b", "a/b/c", "/", "//", "/a", "a/", "a:b", "..", ".", "a..b", ".hidden", "a.", "x.lock", ".lock",
    "a.lock.lock", "-n",
    "two words", " ", "tab-free", "é😀", "日本語", "a@1", "@", "s@{0}", "HEAD",
    "~^?*[\\", "%41", "%", "a%2Fb", "con", "nul",
    "a" * 200, "refs/heads/x", "a.jsonl", "x.seq", "e\u0301", "\u202ertl", "$(id)", "'\"`;&|<>", "--help", "a=b", "#1",
]  # fmt: skip


@pytest.mark.parametrize("session", NAMES)
def test_names(journal: Journal, session: str) -> None:
    """Each may be a session and a branch; git and every call here find it again."""
    with journal.session(session, create=True, durability="os") as s:
        s.append("message", {"n": 1})
    journal.branch(Name(session), at=1, as_=session)
    journal.fork(Name(session), at=2, session="fork of " + session[:180])
    assert list(journal.sessions()) == sorted([Name(session), Name(session, session), Name("fork of " + session[:180])])
    for name in (Name(session), Name(session, session)):
        assert journal.resolve(name) == name
        assert gitjournal.verify(journal, name).ok
        assert next(iter(journal.events(name))).session == session
    assert journal.resolve(session) == Name(session)
    with journal.session(Name(session, session), durability="os") as s:
        s.append("message", {"n": 2})
    git("gc", "-q", cwd=journal.path)
    assert len(list(gitjournal.open(journal.path).sessions())) == 3
    fsck(journal.path)


@pytest.mark.parametrize(
    "session", ["", "a" * 201, "é" * 101, "é" * 60, "/" * 81, "a\nb", "a\x00", "\x7f", "\x85", "\ud800", "\udcff"]
)
def test_names_that_are_refused(journal: Journal, session: str) -> None:
    with pytest.raises(UsageError):
        journal.session(session, create=True)
    journal.session("s", create=True).close()
    with pytest.raises(UsageError):
        journal.branch("s", at=1, as_=session)
    with pytest.raises(UsageError):
        journal.fork("s", at=1, session=session)
    with pytest.raises(NotFound):
        journal.session(session)
    assert list(journal.sessions()) == [Name("s")]


def test_names_that_differ_only_in_case(journal: Journal, patient: None) -> None:
    with journal.session("Work", create=True):
        with pytest.raises(AlreadyExists, match="'Work'"):
            journal.session("work", create=True)
        journal.branch("Work", at=1, as_="Try")
    for twin in ("try", "TRY", "MAIN"):
        with pytest.raises(AlreadyExists):
            journal.branch("Work", at=1, as_=twin)
    for call in (
        lambda: journal.session("WORK", create=True),
        lambda: journal.fork("Work", at=1, session="work"),
        lambda: journal.graft(Name("worK"), []),
        lambda: journal.branch("Work", at=1, as_="main"),
        lambda: journal.branch("Work", at=1, as_="Try"),
        lambda: journal.fork("Work", at=1, session="Work"),
    ):
        with pytest.raises(AlreadyExists):
            call()
    git("pack-refs", "--all", cwd=journal.path)
    with pytest.raises(AlreadyExists):
        journal.session("work", create=True)
    assert list(journal.sessions()) == [Name("Work", "Try"), Name("Work")]


def test_the_journals_own_session(journal: Journal) -> None:
    for call in (
        lambda: journal.session("journal"),
        lambda: journal.session("journal", create=True),
        lambda: journal.graft(Name("journal"), []),
        lambda: journal.branch("journal", at=1, as_="x"),
    ):
        with pytest.raises((UsageError, NotFound)):
            call()
    journal.session("s", create=True).close()
    with pytest.raises(UsageError, match="reserved"):
        journal.fork("s", at=1, session="journal")
    with pytest.raises(AlreadyExists):
        journal.session("Journal", create=True)
    assert [event.type for event in journal.events("journal")] == ["session.start"]


# --- many at once ----------------------------------------------------------------------------------


def test_eight_processes_create_one_session(journal: Journal) -> None:
    """One wins; the others are told who writes, or open what is there when it is done."""
    gate_read, gate_write = os.pipe()

    def child() -> None:
        os.close(gate_write)
        os.read(gate_read, 1)
        try:
            with gitjournal.open(journal.path).session("s", create=True) as s:
                s.append("message", {"n": os.getpid()})
        except LeaseHeld:
            os._exit(3)

    pids = [fork(child) for _ in range(8)]
    os.close(gate_read)
    os.close(gate_write)
    ends = [wait(pid) for pid in pids]
    assert set(ends) <= {0, 3}
    assert 0 in ends
    assert len(numbers(journal)) == ends.count(0)
    assert [event.type for event in journal.events("s")].count("session.start") == 1
    assert gitjournal.verify(journal, "s").ok
    fsck(journal.path)


def test_sixteen_threads_on_sixteen_sessions(journal: Journal) -> None:
    def work(number: int) -> None:
        for _ in range(2):
            with journal.session(f"s{number}", create=True, durability="os") as s:
                for n in range(15):
                    s.append("message", {"n": n})
                    if n % 5 == number % 5:
                        s.flush()
                s.append_many(drafts(15, 15))
            if journal.chain(Name("s0")).exists():
                assert next(iter(journal.events("s0"))).seq == 1

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(work, range(16)))
    assert len(list(journal.sessions())) == 16
    for number in range(16):
        assert numbers(journal, f"s{number}") == [*range(30), *range(30)]
        assert gitjournal.verify(journal, f"s{number}").ok
    fsck(journal.path)


def test_threads_share_one_session(journal: Journal) -> None:
    with journal.session("s", create=True, durability="os") as s, ThreadPoolExecutor(8) as pool:
        done = list(pool.map(lambda n: s.append("message", {"n": n}), range(200)))
    assert sorted(one.seq for one in done) == list(range(2, 202))
    assert sorted(numbers(journal)) == list(range(200))


def test_processes_on_sessions_of_their_own(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    """Flushes, folds of packs and branches side by side, with git gc among them."""
    monkeypatch.setattr("gitjournal.tiers.FAN_IN", 3)

    def work(number: int) -> Callable[[], None]:
        def child() -> None:
            mine = gitjournal.open(journal.path)
            with mine.session(f"s{number}", create=True, durability="os") as s:
                for n in range(40):
                    s.append("message", {"n": n})
                    if n % 4 == 0:
                        s.flush()
            mine.branch(f"s{number}", at=20, as_="b")

        return child

    pids = [fork(work(number)) for number in range(4)]
    # A fold may take a pack away under gc, which then stops; what it has done so far harms nobody.
    git("gc", "-q", cwd=journal.path, check=False)
    assert [wait(pid) for pid in pids] == [0, 0, 0, 0]
    for number in range(4):
        assert numbers(journal, f"s{number}") == list(range(40))
        assert gitjournal.verify(journal, f"s{number}").ok
        assert gitjournal.verify(journal, f"s{number}/b").ok
    fsck(journal.path)


def test_processes_take_turns_on_one_session(journal: Journal) -> None:
    """Each appends with compare-and-swap when it gets the lease; all events are there, once."""

    def child() -> None:
        mine, left = gitjournal.open(journal.path), 10
        while left:
            try:
                with mine.session("s", create=True, durability="os") as s:
                    s.append("message", {"n": os.getpid()}, expected_seq=s.head.seq)
                    left -= 1
            except LeaseHeld:
                time.sleep(0.002)

    pids = [fork(child) for _ in range(3)]
    assert [wait(pid) for pid in pids] == [0, 0, 0]
    assert sorted(numbers(journal)) == sorted(pids * 10)
    assert gitjournal.verify(journal, "s").ok


# --- writer and chain by themselves ----------------------------------------------------------------


RAW = side_file(b'{"a":"b"}', "application/json", "raw")


def kept(one: Draft) -> Draft:
    return one


@pytest.mark.parametrize("keep", [kept, compact])
def test_drafts_in_less_memory_are_the_same_events(journal: Journal, keep: Callable[[Draft], Any]) -> None:
    some = [
        Draft("message", {"text": "é😀"}, "user", "t1", "2026-01-02T03:04:05.678Z", [RAW]),
        Draft("message", {"text": {"$gj:ref": [1, "/a"]}}, files=[RAW], ts="2026-01-02T03:04:06.000Z"),
        Draft("message", {"text": {"$gj:json": "1e400"}}, files=[RAW], ts="2026-01-02T03:04:06.000Z"),
        Draft("message", {"text": "x" * 70_000}, files=[RAW], ts="2026-01-02T03:04:07.000Z"),
        Draft("message", {"text": "y" * 70_000}, ts="2026-01-02T03:04:07.000Z"),
        Draft("message", {"n": 1.0, "\U00010000": 0}, ts="2026-01-02T03:04:08.000Z"),
    ]
    journal.session(
        "s", create=True, epoch=1, salted=False, start=Draft("session.start", {}, ts="2026-01-02T03:04:05.000Z")
    ).close()
    with Writer(journal.chain(Name("s")), epoch=1, salted=False) as one:
        head = one.append_many([keep(each) for each in some])[-1]
    assert [isinstance(compact(each), Printed) for each in some] == [True, True, True, False, False, True]
    # As before there was a second way to make them.
    assert head.hash == "94b16c0d25bb2d82d02276f599ccb42fdf7274442ccd9af25eb3ba5b8a837a9c"
    assert [journal.event("s", 3).data["text"], journal.event("s", 6).data["text"]] == ["b", "y" * 70_000]


@pytest.mark.parametrize(
    "bad",
    [
        Draft("Message", {}, files=[RAW]),
        Draft("message", {}, "no actor", files=[RAW]),
        Draft("message", {}, turn="no turn", files=[RAW]),
        Draft("message", {}, ts="2026-02-30T00:00:00.000Z", files=[RAW]),
        Draft("message", {"a": {"$gj:ref": [2, "/a"]}}, files=[RAW]),
        Draft("message", {"a": 2**53}, files=[RAW]),
        Draft("message", {}, files=[RAW._replace(entry={**RAW.entry, "media_type": "\n"})]),
        Draft("message", {}, files=[RAW._replace(entry={**RAW.entry, "more": 1})]),
        Draft("message", []),  # type: ignore[arg-type]
    ],
)
def test_a_bad_draft_in_less_memory_is_refused_in_the_same_words(journal: Journal, bad: Draft) -> None:
    journal.session("s", create=True).close()
    refusals = []
    with Writer(journal.chain(Name("s")), epoch=1, salted=False) as one:
        for each in (bad, compact(bad)):
            with pytest.raises(FormatError) as refusal:
                one.append_many([each])
            refusals.append((refusal.value.code, str(refusal.value)))
    assert refusals[0] == refusals[1] and numbers(journal) == []


def test_a_batch_of_a_session_takes_no_payload_that_was_checked_elsewhere(journal: Journal) -> None:
    with journal.session("s", create=True) as s, pytest.raises(UsageError):
        s.append_many([compact(draft(1))])  # type: ignore[list-item]


def test_writer_without_an_event(journal: Journal) -> None:
    with Writer(journal.chain(Name("s"))) as bare:
        assert bare.head is None
        assert not journal.chain(Name("s")).exists()
        with pytest.raises(NotFound):
            _ = Session(bare).head
        with pytest.raises(FormatError, match=r"session\.start must stand at seq 1"):
            bare.append(draft(1))
    assert list(journal.sessions()) == []
    assert not journal.chain(Name("s")).lease_path.exists()


def test_writer_on_a_damaged_head(journal: Journal) -> None:
    journal.session("s", create=True).close()
    blob = git_text("hash-object", "-w", "--stdin", cwd=journal.path, stdin=b"x")
    (journal.path / "refs" / "heads" / "s" / "main").write_text(blob + "\n")
    for call in (lambda: journal.session("s"), lambda: list(journal.events("s")), lambda: journal.head("s")):
        with pytest.raises(VerificationError):
            call()
    assert not journal.chain(Name("s")).lease_path.exists()
    assert [str(name) for name in journal.sessions()] == ["s"]


def test_event_is_plain_after_the_journal_is_gone(journal: Journal) -> None:
    with journal.session("s", create=True) as s:
        s.append("message", {"n": 1, "x": "y" * 70_000})
    event = journal.event("s", 2)
    shutil.rmtree(journal.path)
    assert Event.parse(event.raw).hash == event.hash
    with pytest.raises((NotFound, NotAJournal)):
        gitjournal.open(journal.path)


@pytest.mark.parametrize("data", [{"a": {"$gj:json": "1"}}, {"$gj:file": 1}, {"a": [{"b": ({"$gj:x": 0},)}]}])
def test_live_data_that_would_read_back_as_something_else(journal: Journal, data: dict[str, Any]) -> None:
    with journal.session("s", create=True) as session:
        with pytest.raises(FormatError, match="journal's own"):
            session.append("note", data)
        assert session.append("note", {"text": "$gj:json is fine as a value"}).seq == 2
