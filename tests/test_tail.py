"""The tail: what was acknowledged stays, what was not never breaks the chain, and damage is named and left alone."""

from __future__ import annotations

import errno
import itertools
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import chain, event, flips

from gitjournal import tail
from gitjournal.errors import DamagedTail, StorageError
from gitjournal.event import Event
from gitjournal.objects import side_file
from gitjournal.tail import Scan, Tail, scan

PAGE = 4096
FIVE = chain(5)


def write(path: Path, batches: Sequence[Sequence[Event]], *, sync: bool = True) -> bytes:
    """A tail with these writes; its bytes, all that was filled included."""
    one = Tail(path)
    for batch in batches:
        one.append([event.raw for event in batch], sync=sync)
    one.close()
    return path.read_bytes()


def found(raw: bytes, seq: int = 0, prev: str | None = None) -> Scan:
    return scan(raw, "s", seq, prev)


def recover(path: Path, seq: int = 0, prev: str | None = None) -> tuple[list[Event], int]:
    one = Tail(path)
    try:
        return one.recover("s", seq, prev)
    finally:
        one.close(remove=False)


def goes_on(path: Path, kept: Sequence[Event]) -> None:
    """After `recover` the tail takes the next event, and both are there."""
    one = Tail(path)
    events, _ = one.recover("s", 0, None)
    assert events == list(kept)
    following = chain(1, first=len(kept) + 1, prev=kept[-1].hash if kept else None)
    one.append([following[0].raw])
    one.close()
    assert found(path.read_bytes()).events == [*kept, *following]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "s" / "main.jsonl"


# --- what a tail is ----------------------------------------------------------------------------------


def test_a_tail_is_one_event_a_line(path: Path) -> None:
    raw = write(path, [[one] for one in FIVE])
    assert raw.rstrip(b"\n") == b"\n".join(one.raw for one in FIVE) and set(raw[-1000:]) == {0x0A}
    assert found(raw) == Scan(FIVE, len(raw.rstrip(b"\n")))
    assert tail.read(path) == raw.rstrip(b"\n") and recover(path) == (FIVE, 0)


def test_a_batch_is_marked_as_one_write(path: Path) -> None:
    raw = write(path, [FIVE[:2], FIVE[2:]]).rstrip(b"\n")
    assert [line[:1] for line in raw.split(b"\n")] == [b"{", b" ", b"{", b" ", b" "]
    assert found(raw) == Scan(FIVE, len(raw)) and recover(path) == (FIVE, 0)
    goes_on(path, FIVE)


def test_what_was_not_synced_is_one_write_with_what_follows(path: Path) -> None:
    one = Tail(path)
    for number, each in enumerate(FIVE):
        one.append([each.raw], sync=number in (0, 3))
    one.close()
    raw = path.read_bytes().rstrip(b"\n")
    assert [line[:1] for line in raw.split(b"\n")] == [b"{", b"{", b" ", b" ", b"{"]
    assert found(raw).events == FIVE


def test_no_tail_and_an_empty_tail_hold_nothing(path: Path) -> None:
    assert tail.read(path) == b"" and found(b"") == Scan()
    one = Tail(path)
    assert one.recover("s", 0, None) == ([], 0) and one.used == 0
    one.close()
    assert not path.exists()


def test_a_tail_that_is_in_use_outlives_its_writer(path: Path) -> None:
    one = Tail(path)
    one.append([FIVE[0].raw])
    one.close()
    assert path.exists() and path.stat().st_mode & 0o777 == 0o600
    other = Tail(path)
    other.recover("s", 1, FIVE[0].hash)
    other.reset()
    other.close(remove=False)
    assert path.exists() and tail.read(path) == b""


def test_reset_clears_and_the_next_event_begins_at_the_start(path: Path) -> None:
    one = Tail(path)
    one.append([each.raw for each in FIVE[:4]])
    one.reset()
    assert one.used == 0 and tail.read(path) == b""
    one.append([FIVE[4].raw])
    assert one.used == len(FIVE[4].raw) and found(tail.read(path), 4, FIVE[3].hash).events == FIVE[4:]
    one.close()


# --- cuts ----------------------------------------------------------------------------------------------


def test_a_cut_at_every_byte_keeps_all_whole_lines() -> None:
    raw = b"\n".join(one.raw for one in FIVE)
    ends = list(itertools.accumulate(len(one.raw) + 1 for one in FIVE))
    for cut in range(len(raw) + 1):
        for filled in (raw[:cut], raw[:cut] + b"\n" * 50):
            seen = found(filled)
            # The last newline may be missing: the line before it is whole without it.
            whole = sum(end - 1 <= cut for end in ends)
            assert seen.events == FIVE[:whole] and not seen.damage
            left = raw[:cut].rstrip(b"\n")
            assert (seen.torn_at is None) == (len(left) == max(ends[whole - 1] - 1 if whole else 0, 0))


@pytest.mark.parametrize("cut", range(1, 700, 53))
def test_a_cut_tail_is_mended_and_goes_on(path: Path, cut: int) -> None:
    raw = write(path, [[one] for one in FIVE])
    path.write_bytes(raw[:cut])
    kept, torn = recover(path)
    assert kept == FIVE[: len(kept)]
    aside = path.with_suffix(".torn")
    text = raw[:cut].rstrip(b"\n")
    if torn:
        assert aside.read_bytes() == text[-torn:] + b"\n" and tail.read(path) == text[:-torn].rstrip(b"\n")
    else:
        assert not aside.exists() and tail.read(path) == text
    goes_on(path, kept)


def test_a_tail_that_could_not_be_recovered_is_never_removed(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    raw = write(path, [FIVE])
    for error in (KeyboardInterrupt, MemoryError, StorageError("cannot read")):
        one = Tail(path)
        with monkeypatch.context() as patch, pytest.raises(BaseException):  # noqa: B017
            patch.setattr("gitjournal.tail.scan", _raising(error))
            one.recover("s", 0, None)
        one.close()
        assert path.read_bytes() == raw


def test_torn_bytes_that_cannot_be_set_aside_stay_where_they_are(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path.parent.mkdir()
    path.write_bytes(b"torn")
    path.with_suffix(".torn").mkdir()
    one = Tail(path)
    with pytest.raises(StorageError):
        one.recover("s", 0, None)
    one.close()
    assert path.read_bytes() == b"torn"


def _raising(error: Any) -> Callable[..., Any]:
    def run(*_: Any) -> Any:
        raise error

    return run


def test_torn_bytes_are_collected_and_never_written_over(path: Path) -> None:
    for number in range(3):
        write_garbage = b"torn %d" % number
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(write_garbage)
        assert recover(path) == ([], len(write_garbage))
    assert path.with_suffix(".torn").read_bytes() == b"torn 0\ntorn 1\ntorn 2\n"


@pytest.mark.parametrize("before", [[], [1], [2, 1], [1, 20]])
def test_a_torn_batch_is_no_damage_whichever_pages_reached_the_disk(path: Path, before: list[int]) -> None:
    """A power cut during a write leaves any subset of its pages; those that did not make it are as they were."""
    events = chain(sum(before) + 14, size=1300)
    cuts = [0, *itertools.accumulate(before)]
    batches = [events[low:high] for low, high in itertools.pairwise(cuts)]
    old = write(path, batches) if batches else b"\n" * 65536
    kept, batch = events[: cuts[-1]], events[cuts[-1] :]
    start = len(old.rstrip(b"\n"))
    path.unlink(missing_ok=True)
    new = write(path, [*batches, batch]).ljust(len(old), b"\n")
    old = old.ljust(len(new), b"\n")
    pages = range(start // PAGE, len(new.rstrip(b"\n")) // PAGE + 1)
    assert 5 <= len(pages) <= 8
    for lost in itertools.product((False, True), repeat=len(pages)):
        raw = bytearray(new)
        for page, is_lost in zip(pages, lost, strict=True):
            if is_lost:
                raw[page * PAGE : (page + 1) * PAGE] = old[page * PAGE : (page + 1) * PAGE]
        seen = found(bytes(raw))
        assert not seen.damage and seen.events[: len(kept)] == kept and seen.events == events[: len(seen.events)]
        assert any(lost) or seen.events == events
        if lost[0] and sum(lost) < 3:
            path.write_bytes(raw)
            assert recover(path)[0] == seen.events
            goes_on(path, seen.events)


def test_pages_of_blanks_in_what_was_acknowledged_are_damage(path: Path) -> None:
    events = chain(21, size=1300)
    raw = write(path, [events[:20], events[20:]])
    for page in range(6):
        spoiled = raw[: page * PAGE] + b"\n" * PAGE + raw[(page + 1) * PAGE :]
        seen = found(spoiled)
        assert seen.damage and seen.events == events[: len(seen.events)]
        path.write_bytes(spoiled)
        with pytest.raises(DamagedTail, match=r"line \d+ \(byte \d+\)"):
            recover(path)
        assert path.read_bytes() == spoiled and not path.with_suffix(".torn").exists()


# --- damage --------------------------------------------------------------------------------------------


def test_a_flip_of_every_byte_is_damage_or_costs_the_last_line_only(path: Path) -> None:
    raw = write(path, [[one] for one in FIVE]).rstrip(b"\n")
    last = raw.rindex(b"\n")
    for at, spoiled in flips(raw, masks=(0xFF, 0x01, 0x20)):
        seen = found(spoiled)
        line = raw[:at].count(b"\n") + 1
        if at < last:
            # The chain shows a changed line that still reads by the line behind it.
            assert f"line {line} " in seen.damage or f"line {line + 1} " in seen.damage, at
            assert len(seen.events) <= line and seen.events[: line - 1] == FIVE[: line - 1]
        elif at == last:
            assert seen.events == FIVE[:3] and seen.torn_at == raw.rindex(b"\n", 0, last) + 1
        else:
            # Nothing points at the last line yet: what reads as an event that joins is one.
            assert seen.events[:4] == FIVE[:4] and seen.damage in (
                "",
                f"line 5 (byte {last + 1}): the event does not follow the one before it",
            )


@pytest.mark.parametrize("at", range(3, 500, 41))
def test_a_damaged_tail_is_named_and_left_alone(path: Path, at: int) -> None:
    raw = write(path, [[one] for one in FIVE])
    spoiled = raw[:at] + bytes([raw[at] ^ 0xFF]) + raw[at + 1 :]
    path.write_bytes(spoiled)
    one = Tail(path)
    with pytest.raises(DamagedTail, match=rf"{path.name}: line \d \(byte \d+\): .") as caught:
        one.recover("s", 0, None)
    one.close()
    assert (
        caught.value.hint
        and path.read_bytes() == spoiled
        and [entry.name for entry in path.parent.iterdir()] == [path.name]
    )


ODD_LINES = [
    b"[]", b"[1]", b'"x"', b"1", b"null", b"true", b"{}", b'{"seq":1}', b"\xff\xfe", b" ", b"  {}", b"\x00" * 100,
    b"x" * 5000,
    b"[" * 5000, b"\r", b"\xef\xbb\xbf{}", FIVE[2].raw[:-1], FIVE[2].raw + FIVE[2].raw, b"  " + FIVE[2].raw,
    FIVE[2].raw + b" ",
    FIVE[2].raw + b"\r",
]  # fmt: skip


@pytest.mark.parametrize("line", ODD_LINES)
def test_a_line_that_is_no_event_is_torn_at_the_end_and_damage_before_it(path: Path, line: bytes) -> None:
    good = FIVE[0].raw + b"\n" + FIVE[1].raw + b"\n"
    assert found(good + line) == Scan(FIVE[:2], len(good) - 1, torn_at=len(good))
    assert f"line 3 (byte {len(good)})" in found(good + line + b"\n" + FIVE[2].raw).damage
    assert f"line 3 (byte {len(good)})" in found(good + line + b"\n\n\n" + FIVE[3].raw).damage
    # A line that was written together with the one before it proves nothing.
    assert found(good + line + b"\n " + FIVE[2].raw).torn_at == len(good)
    path.parent.mkdir()
    path.write_bytes(good + line)
    assert recover(path) == (FIVE[:2], len(line))
    goes_on(path, FIVE[:2])


FOREIGN = {
    "another session": event(3, FIVE[1].hash, session="other"),
    "a gap": FIVE[3],
    "another past": event(3, "0" * 64),
    "side files that cannot be here": event(3, FIVE[1].hash, files=[side_file(b"x", "a/b").entry]),
}


@pytest.mark.parametrize("what", FOREIGN)
def test_an_event_that_does_not_join_is_damage(what: str) -> None:
    raw = b"\n".join([FIVE[0].raw, FIVE[1].raw, FOREIGN[what].raw])
    seen = found(raw)
    assert seen.damage.startswith("line 3 ") and "does not follow" in seen.damage and seen.events == FIVE[:2]
    # As the second half of a write it may be anything: that write was never acknowledged.
    assert found(raw.replace(b"\n" + FOREIGN[what].raw, b"\n " + FOREIGN[what].raw)).torn_at is not None


def test_a_fork_changes_the_session_and_nothing_else_does() -> None:
    fork = event(
        3,
        FIVE[1].hash,
        session="new",
        type="session.fork",
        data={"from": {"session": "s", "branch": "main", "seq": 2, "hash": FIVE[1].hash}},
    )
    following = event(4, fork.hash, session="new")
    assert scan(fork.raw + b"\n" + following.raw, "new", 2, FIVE[1].hash).events == [fork, following]
    assert scan(event(4, fork.hash, session="s").raw, "new", 3, fork.hash).damage


@settings(max_examples=300)
@given(
    st.lists(
        st.one_of(st.sampled_from([one.raw for one in FIVE]), st.sampled_from(ODD_LINES), st.binary(max_size=30)),
        max_size=12,
    ),
    st.binary(max_size=2),
)
def test_any_lines_in_any_order_give_a_chain_and_no_traceback(lines: list[bytes], glue: bytes) -> None:
    for raw in (b"\n".join(lines), b"\n ".join(lines), glue.join(lines)):
        for seq in (0, 2):
            seen = found(raw, seq, FIVE[seq - 1].hash if seq else None)
            assert seen.events == FIVE[seq : seq + len(seen.events)] and seen.end <= len(raw)
            assert seen.damage == "" or seen.torn_at is None


# --- after a flush that was cut ----------------------------------------------------------------------------


def test_lines_that_git_has_already_are_passed_over(path: Path) -> None:
    raw = write(path, [FIVE[:3], FIVE[3:]])
    for seq in range(1, 6):
        seen = found(raw, seq, FIVE[seq - 1].hash)
        assert (
            seen.events == FIVE[seq:]
            and seen.stale == FIVE[:seq]
            and seen.end == len(raw.rstrip(b"\n"))
            and not seen.damage
        )
    one = Tail(path)
    assert one.recover("s", 5, FIVE[4].hash) == ([], 0) and one.used == len(raw.rstrip(b"\n"))
    following = chain(1, first=6, prev=FIVE[4].hash)[0]
    one.append([following.raw])
    one.close()
    assert found(path.read_bytes(), 5, FIVE[4].hash).events == [following]


def test_a_half_cleared_tail_is_no_damage(path: Path) -> None:
    """`reset` is not synced: after a power cut any page of the old lines may be back, beside new ones."""
    events = chain(30, size=1300)
    old = write(path, [events[:20]])
    path.unlink()
    one = Tail(path)
    one.append([each.raw for each in events[:20]])
    one.reset()
    one.append([events[20].raw])
    one.close()
    new = path.read_bytes()
    for page in range(1, 7):
        for pages in range(1, 8 - page):
            low, high = page * PAGE, (page + pages) * PAGE
            mixed = new[:low] + old[low:high] + new[high:]
            seen = found(mixed, 20, events[19].hash)
            assert seen.events == [events[20]] and not seen.damage
            path.write_bytes(mixed)
            other = Tail(path)
            assert other.recover("s", 20, events[19].hash)[0] == [events[20]]
            other.append([events[21].raw])
            other.close()
            assert found(path.read_bytes(), 20, events[19].hash).events == events[20:22]


# --- the disk refuses ----------------------------------------------------------------------------------------


class Disk:
    """`os` as the tail sees it, which refuses the ``failing``-th call of a kind, after doing ``half`` of a write."""

    def __init__(self, call: str, failing: int, code: int, half: bool = False) -> None:
        self.call, self.failing, self.code, self.half, self.count = call, failing, code, half, 0

    def __getattr__(self, name: str) -> Any:
        real = getattr(os, name)
        return self._watched(real) if name == self.call else real

    def _watched(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def run(*args: Any) -> Any:
            self.count += 1
            if self.count == self.failing - 1 and self.half and self.call == "pwrite":
                return real(args[0], args[1][: max(len(args[1]) // 2, 1)], args[2])
            if self.count == self.failing:
                raise OSError(self.code, os.strerror(self.code))
            return real(*args)

        return run


def use(path: Path, events: Sequence[Event]) -> tuple[list[Event], int, bool]:
    """A writer's life: (events acknowledged since the flush, events flushed, whether anything was refused)."""
    kept: list[Event] = []
    flushed, refused = 0, False
    try:
        one = Tail(path)
    except StorageError:
        return kept, 0, True
    for position, batch in enumerate(
        [events[:1], events[1:2], events[2:6], None, events[6:7], events[7:12], events[12:13]]
    ):
        try:
            if batch is None:
                flushed, kept = len(kept), []
                one.reset()
                continue
            begun = flushed + len(kept)
            if batch[0].seq != begun + 1:
                continue
            one.append([each.raw for each in batch], sync=position != 1)
            kept = [*kept, *batch]
        except StorageError as error:
            refused = True
            assert str(path) in str(error)
    one.close()
    return kept, flushed, refused


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
@pytest.mark.parametrize("half", [False, True])
@pytest.mark.parametrize("call", ["pwrite", "fdatasync", "fsync", "open"])
def test_a_disk_that_refuses_a_call_loses_nothing_acknowledged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, half: bool, code: int
) -> None:
    events = chain(13, size=9000)
    for failing in itertools.count(1):
        path = tmp_path / f"{failing}" / "main.jsonl"
        disk = Disk(call, failing, code, half)
        with monkeypatch.context() as patch:
            patch.setattr("gitjournal.tail.os", disk)
            kept, flushed, refused = use(path, events)
        raw = tail.read(path)
        seen = found(raw, flushed, events[flushed - 1].hash if flushed else None)
        assert not seen.damage and seen.events[: len(kept)] == kept
        # A write that failed is not there; one whose sync failed may be.
        assert call == "fdatasync" or seen.events == kept
        if path.exists():
            other = Tail(path)
            again, _ = other.recover("s", flushed, events[flushed - 1].hash if flushed else None)
            assert again == seen.events
            other.close()
        if disk.count < failing:
            assert not refused
            return


def test_after_a_failed_sync_the_tail_refuses_until_it_is_opened_again(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = Tail(path)
    one.append([FIVE[0].raw])
    with monkeypatch.context() as patch:
        patch.setattr("gitjournal.tail.os", Disk("fdatasync", 1, errno.EIO))
        with pytest.raises(StorageError, match="cannot sync"):
            one.append([FIVE[1].raw])
    for _ in range(2):
        with pytest.raises(StorageError, match="cannot sync") as caught:
            one.append([FIVE[1].raw])
        assert "Open the session again" in caught.value.hint
    one.close()
    assert recover(path)[0][:1] == FIVE[:1]


def test_a_tail_that_was_cleared_by_half_takes_no_event_before_it_is_opened_again(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events = chain(7, size=5000)
    one = Tail(path)
    one.append([each.raw for each in events[:6]])
    with monkeypatch.context() as patch:
        patch.setattr("gitjournal.tail.os", Disk("pwrite", 2, errno.EIO, half=True))
        with pytest.raises(StorageError):
            one.reset()
    with pytest.raises(StorageError):
        one.append([events[6].raw])
    one.close()
    other = Tail(path)
    assert other.recover("s", 6, events[5].hash)[0] == []
    other.append([events[6].raw])
    other.close()
    assert found(tail.read(path), 6, events[5].hash).events == [events[6]]


def test_after_a_failed_write_the_next_one_takes_its_place(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = Tail(path)
    one.append([FIVE[0].raw])
    with monkeypatch.context() as patch:
        patch.setattr("gitjournal.tail.os", Disk("pwrite", 2, errno.ENOSPC, half=True))
        with pytest.raises(StorageError, match="No space left"):
            one.append([FIVE[1].raw])
    assert tail.read(path) == FIVE[0].raw
    one.append([FIVE[1].raw])
    one.close()
    assert recover(path) == (FIVE[:2], 0)


def test_a_folder_or_file_in_the_way_is_a_storage_error(tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").mkdir()
    (tmp_path / "file").touch()
    for bad in (tmp_path / "x.jsonl", tmp_path / "file" / "main.jsonl"):
        with pytest.raises(StorageError, match="cannot write"):
            Tail(bad)
    with pytest.raises(StorageError, match="cannot read"):
        tail.read(tmp_path / "x.jsonl")


def test_a_pipe_or_a_file_without_end_is_a_storage_error(tmp_path: Path) -> None:
    pipe, huge = tmp_path / "pipe.jsonl", tmp_path / "huge.jsonl"
    os.mkfifo(pipe)
    huge.touch()
    os.truncate(huge, 20 << 30)
    for bad, why in ((pipe, "not a regular file"), (huge, "File too large")):
        with pytest.raises(StorageError, match=f"cannot read .*{why}"):
            tail.read(bad)
    with pytest.raises(StorageError, match="File too large"):
        recover(huge)
    with pytest.raises(StorageError, match="cannot write"):
        Tail(pipe)
    assert huge.stat().st_size == 20 << 30


# --- what an append costs ----------------------------------------------------------------------------------


def test_an_append_moves_no_inode_and_syncs_once(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = Tail(path)
    size = path.stat().st_size
    disk = Disk("fdatasync", 0, 0)
    monkeypatch.setattr("gitjournal.tail.os", disk)
    events = chain(40)
    for number, each in enumerate(events[:20], 1):
        one.append([each.raw])
        assert disk.count == number and path.stat().st_size == size
    one.append([each.raw for each in events[20:40]])
    assert disk.count == 21 and path.stat().st_size == size
    one.close()
    assert found(path.read_bytes()).events == events


def test_without_sync_an_append_syncs_nothing(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = Tail(path)
    counts = [Disk("fdatasync", 0, 0), Disk("fsync", 0, 0)]
    for disk in counts:
        monkeypatch.setattr("gitjournal.tail.os", disk)
        for each in FIVE:
            one.append([each.raw], sync=False)
        one.reset()
    assert [disk.count for disk in counts] == [0, 0]
    one.close()


def test_a_large_write_makes_the_file_larger(path: Path) -> None:
    events = chain(30, size=200_000)
    one = Tail(path)
    one.append([events[0].raw])
    assert path.stat().st_size >= len(events[0].raw) + 1
    one.append([each.raw for each in events[1:]])
    one.close()
    raw = path.read_bytes()
    assert raw.endswith(b"\n") and len(raw) % 65536 == 0 and found(raw).events == events
    assert len(raw) - len(raw.rstrip(b"\n")) <= 1024 * 1024


def test_lines_up_to_the_very_end_of_the_file_make_room_for_one_more(path: Path) -> None:
    room = 65536 - len(event(1, data={"text": ""}).raw) - 1
    for spare in (-1, 0, 1):
        first = event(1, data={"text": "x" * (room + spare)})
        raw = write(path, [[first], chain(1, first=2, prev=first.hash)])
        assert len(found(raw).events) == 2 and raw.endswith(b"\n")
        path.unlink()


# --- the folder ----------------------------------------------------------------------------------


def test_the_folder_goes_with_the_last_tail_in_it(tmp_path: Path) -> None:
    one, other = Tail(tmp_path / "tail" / "s" / "main.jsonl"), Tail(tmp_path / "tail" / "s" / "b.jsonl")
    one.close()
    assert other.path.exists()
    other.close()
    assert list((tmp_path / "tail").iterdir()) == []


def test_a_folder_that_another_writer_removes_meanwhile_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "tail" / "s" / "main.jsonl"
    removals = iter([True, True, False])
    really = os.open

    def late(name: Any, *more: Any, **options: Any) -> int:
        if Path(name) == path and next(removals, False):
            path.parent.rmdir()
        return really(name, *more, **options)

    monkeypatch.setattr(os, "open", late)
    one = Tail(path)
    assert path.exists() and next(removals, None) is None
    one.close()


def test_a_folder_that_goes_away_while_it_is_made_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "tail" / "s" / "main.jsonl"
    there = iter([True, True, False])
    really = os.mkdir

    def crossed(name: Any, *more: Any, **options: Any) -> None:
        if Path(name) == path.parent and next(there, False):
            # As it is for mkdir when another writer's folder is there, and gone when pathlib looks at it.
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), name)
        really(name, *more, **options)

    monkeypatch.setattr(os, "mkdir", crossed)
    one = Tail(path)
    assert path.exists() and next(there, None) is None
    one.close()


def test_writers_of_many_branches_come_and_go_at_once(tmp_path: Path) -> None:
    def work(number: int) -> None:
        for _ in range(60):
            one = Tail(tmp_path / "tail" / "s" / f"{number}.jsonl")
            one.append([FIVE[0].raw], sync=False)
            one.reset()
            one.close()

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(work, range(6)))
    assert list((tmp_path / "tail").iterdir()) == []
