"""The lease: one writer at a time, freed by a crash, and a writer that was overtaken knows it."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from support import ROOT, fork, forked, kill, wait

from gitjournal.errors import Fenced, LeaseHeld, StorageError
from gitjournal.lease import Lease, held


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "lease" / "s" / "main.json"


def take(path: Path, epoch: int = 1) -> Lease:
    lease = Lease.acquire(path, "s/main")
    lease.stamp(epoch)
    return lease


def held_by_child(path: Path) -> int:
    """A child that has taken the lease with epoch 7 and waits to be killed; its pid."""
    ready = path.parent.parent / "ready"

    def work() -> None:
        take(path, 7)
        ready.parent.mkdir(parents=True, exist_ok=True)
        ready.touch()
        while True:
            time.sleep(60)

    pid = fork(work)
    while not ready.exists():
        time.sleep(0.005)
    return pid


def test_a_lease_that_is_given_back_leaves_nothing(path: Path) -> None:
    lease = take(path)
    lease.check()
    assert path.stat().st_mode & 0o777 == 0o600
    lease.release()
    assert not path.exists() and not path.parent.exists()
    again = take(path)
    assert again.last_epoch == 1
    again.release()


def test_the_file_says_who_holds_it(path: Path) -> None:
    lease = take(path, 3)
    record = json.loads(path.read_text())
    assert record["pid"] == os.getpid() and record["epoch"] == 3 and record["host"] and record["since"].endswith("Z")
    lease.stamp(4)
    assert json.loads(path.read_text())["epoch"] == 4 and json.loads(path.read_text())["token"] != record["token"]
    lease.check()
    lease.release()


def test_a_second_writer_fails_at_once_and_is_told_who_has_it(path: Path) -> None:
    pid = held_by_child(path)
    try:
        for _ in range(3):
            with pytest.raises(
                LeaseHeld, match=rf"s/main is being written by process {pid} on \S+ since \S+Z"
            ) as caught:
                Lease.acquire(path, "s/main")
            assert "gj branch" in caught.value.hint
    finally:
        kill(pid)


def test_the_same_process_cannot_take_it_twice(path: Path) -> None:
    lease = take(path)
    with pytest.raises(LeaseHeld, match=f"process {os.getpid()}"):
        Lease.acquire(path, "s")
    lease.check()
    lease.release()


def test_a_process_that_has_only_just_begun_has_no_name_yet(path: Path) -> None:
    lease = Lease.acquire(path, "s")
    with pytest.raises(LeaseHeld, match="another process that has only just begun"):
        Lease.acquire(path, "s")
    lease.release()


@pytest.mark.parametrize(
    "content",
    [
        b"", b"x",
        b"[]", b"{}", b'{"pid":1}', b"\xff\xfe", b"null", b"1", b"[" * 4096, b"x" * 100_000, b'{"epoch":1e999}',
        b'{"epoch":"7"}', b'{"epoch":null}', b'{"epoch":-1}', b'{"epoch":true}', b'{"epoch":9007199254740992}',
        b'{"epoch":99999999999999999999999}',
    ],
)  # fmt: skip
def test_a_lease_file_of_nonsense_says_nothing_and_breaks_nothing(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True)
    path.write_bytes(content)
    lease = Lease.acquire(path, "s")
    assert lease.last_epoch == 0
    with pytest.raises(LeaseHeld, match="another process"):
        Lease.acquire(path, "s")
    lease.stamp(1)
    lease.check()
    assert json.loads(path.read_text())["epoch"] == 1
    lease.release()


def test_a_crash_frees_the_lease_and_leaves_its_epoch(path: Path) -> None:
    kill(held_by_child(path))
    assert path.exists()
    lease = Lease.acquire(path, "s")
    assert lease.last_epoch == 7
    lease.stamp(8)
    lease.check()
    lease.release()


def test_a_process_killed_from_outside_frees_the_lease(path: Path) -> None:
    """The same in a process of its own, with nothing in common but the file."""
    script = (
        "import sys, pathlib, gitjournal.lease as l; lease = l.Lease.acquire(pathlib.Path(sys.argv[1]), 's');"
        "lease.stamp(5); print('held', flush=True); sys.stdin.read()"
    )
    running = subprocess.Popen(
        [sys.executable, "-c", script, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT
    )
    assert running.stdout is not None and running.stdout.readline() == b"held\n"
    with pytest.raises(LeaseHeld, match=f"process {running.pid} "):
        Lease.acquire(path, "s")
    running.kill()
    running.communicate()
    lease = Lease.acquire(path, "s")
    assert lease.last_epoch == 5
    lease.release()


def test_a_program_that_is_started_does_not_inherit_the_lease(path: Path) -> None:
    lease = take(path)
    running = subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE)
    lease.release()
    again = take(path)
    running.communicate()
    again.check()
    again.release()


def test_a_writer_whose_file_was_taken_away_is_refused(path: Path) -> None:
    old = take(path, 1)
    path.unlink()
    with pytest.raises(Fenced, match="another one has taken over"):
        old.check()
    new = take(path, 2)
    for _ in range(2):
        with pytest.raises(Fenced):
            old.check()
    new.check()
    old.release()
    # The old one gives back what is its own, not the file of the new one.
    new.check()
    with pytest.raises(LeaseHeld):
        Lease.acquire(path, "s")
    new.release()
    assert not path.exists()


@pytest.mark.parametrize("content", [b"", b"x", b'{"epoch": 2}'])
def test_a_writer_whose_file_was_written_over_is_refused(path: Path, content: bytes) -> None:
    lease = take(path)
    path.write_bytes(content)
    for _ in range(2):
        with pytest.raises(Fenced, match="another one has taken over"):
            lease.check()
    lease.release()


def test_a_file_that_was_replaced_is_another_lease(path: Path, tmp_path: Path) -> None:
    lease = take(path)
    copy = tmp_path / "copy"
    copy.write_bytes(path.read_bytes())
    copy.rename(path)
    with pytest.raises(Fenced):
        lease.check()
    lease.release()
    assert path.exists()


def test_a_forked_child_may_not_write(path: Path) -> None:
    lease = take(path)
    lease.check()

    def child() -> None:
        with pytest.raises(Fenced, match=f"^s/main was opened by process {os.getppid()}"):
            lease.check()
        lease.release()
        with pytest.raises(LeaseHeld):
            Lease.acquire(path, "s")

    assert forked(child) == 0
    lease.check()
    assert path.exists()
    lease.release()


def test_of_eight_processes_one_holds_it_at_a_time(path: Path, tmp_path: Path) -> None:
    """Each that has the lease makes a file that must not be there, takes it away, and lets go."""
    inside, count = tmp_path / "inside", tmp_path / "count"
    count.write_bytes(b"")

    def work() -> None:
        got = 0
        while got < 25:
            try:
                lease = Lease.acquire(path, "s")
            except LeaseHeld:
                continue
            lease.stamp(lease.last_epoch + 1)
            os.close(os.open(inside, os.O_CREAT | os.O_EXCL))
            lease.check()
            with count.open("ab") as file:
                file.write(b"x")
            inside.unlink()
            lease.release()
            got += 1

    assert [wait(pid) for pid in [fork(work) for _ in range(8)]] == [0] * 8
    assert count.read_bytes() == b"x" * 200 and not path.exists()


def test_something_in_the_way_is_a_storage_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "folder.json").mkdir()
    for bad in (tmp_path / "file" / "main.json", tmp_path / "folder.json"):
        with pytest.raises(StorageError, match="cannot take the lease"):
            Lease.acquire(bad, "s")


@pytest.mark.parametrize("times", [1, 3, 10_000])
def test_a_folder_that_somebody_deletes_meanwhile_is_made_again(
    path: Path, times: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, gone = os.open, 0

    def opened(file: str | Path, *how: int, **more: int) -> int:
        nonlocal gone
        if file == path and gone < times:
            gone += 1
            path.parent.rmdir()
        return real(file, *how, **more)

    with monkeypatch.context() as patched:
        patched.setattr(os, "open", opened)
        if times == 10_000:
            with pytest.raises(StorageError, match="No such file"):
                take(path)
            return
        lease = take(path)
    assert held(path) and gone == times
    lease.release()


def test_whether_somebody_holds_it_can_be_asked_without_taking_it(path: Path) -> None:
    assert not held(path)
    lease = take(path)
    assert held(path) and held(path)
    lease.check()
    lease.release()
    assert not held(path)


def test_what_a_crash_left_is_held_by_nobody(path: Path) -> None:
    pid = held_by_child(path)
    assert held(path)
    kill(pid)
    assert path.exists() and not held(path)


def test_who_asks_does_not_keep_a_writer_out(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """To ask is to lock the file for an instant: a writer looks again before it says that another one is there."""
    path.parent.mkdir(parents=True)
    asking = os.open(path, os.O_RDWR | os.O_CREAT)
    fcntl.flock(asking, fcntl.LOCK_SH)
    monkeypatch.setattr(time, "sleep", lambda _: fcntl.flock(asking, fcntl.LOCK_UN))
    lease = Lease.acquire(path, "s/main")
    assert held(path)
    lease.release()
    os.close(asking)


@pytest.mark.parametrize("kind", ["folder", "link", "pipe"])
def test_what_is_no_lease_file_is_held_by_nobody(path: Path, kind: str) -> None:
    path.parent.mkdir(parents=True)
    if kind == "folder":
        path.mkdir()
    elif kind == "link":
        path.symlink_to(path.parent)
    else:
        os.mkfifo(path)
    assert not held(path)
