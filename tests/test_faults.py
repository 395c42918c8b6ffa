"""Crash and error at every step: acknowledged events are never lost, unacknowledged ones never break the chain.

A child process runs a short life of a session. The k-th of its system calls that change the disk fails or is where
the process dies; then the journal is opened anew and compared with what the child was told.
"""

from __future__ import annotations

import errno
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import gitjournal
from gitjournal import tail
from gitjournal.errors import JournalError, RefLocked, StorageError
from gitjournal.lease import Lease
from gitjournal.store import Store

CALLS = ["pwrite", "fdatasync", "fsync", "rename", "replace", "unlink", "open", "ftruncate", "fchmod"]
# What a process may do after its k-th call: die before it, die after it, or be told that it failed.
DEATHS = ["die-before", "die-after"]
ERRORS = ["ENOSPC", "EIO"]


class Faults:
    """Counts the calls that change the disk, and does something at the chosen one."""

    def __init__(self, at: int, how: str) -> None:
        self.count = 0
        self.at = at
        self.how = how

    def install(self) -> None:
        for name in CALLS:
            setattr(os, name, self.wrap(getattr(os, name), name))
        tempfile._os.open = os.open  # type: ignore[attr-defined]
        Store._try_cas = self.wrap(Store._try_cas, "cas")  # type: ignore[method-assign]

    def wrap(self, call: Callable[..., Any], name: str) -> Callable[..., Any]:
        def faulty(*args: Any, **kwargs: Any) -> Any:
            if name == "open" and not (args[1] & (os.O_WRONLY | os.O_RDWR)):
                return call(*args, **kwargs)
            self.count += 1
            if self.count != self.at:
                return call(*args, **kwargs)
            if self.how == "die-after":
                call(*args, **kwargs)
            if self.how in DEATHS:
                os._exit(9)
            number = getattr(errno, self.how)
            if name == "cas":
                raise StorageError(os.strerror(number))
            raise OSError(number, os.strerror(number))

        return faulty


def life(folder: Path, report: Callable[[dict[str, Any]], None]) -> None:
    """Append, flush, append a side file, branch, close; report every acknowledgement."""
    journal = gitjournal.open(folder)

    def attempt(what: Callable[[], Any]) -> Any:
        try:
            return what()
        except JournalError as error:
            report({"error": error.code})
            return None

    def ack(done: Any) -> None:
        for one in done or []:
            report({"seq": one.seq, "hash": one.hash})

    session = attempt(lambda: journal.session("s", create=True))
    if session is None:
        return
    ack([session.head])
    for number in range(3):
        ack([one] if (one := attempt(lambda n=number: session.append("note", {"n": n}))) else [])
    ack(attempt(lambda: session.append_many([("note", {"m": n}, "host") for n in range(3)])))
    attempt(session.flush)
    ack([one] if (one := attempt(lambda: session.append("note", {"big": "x" * 70_000}))) else [])
    ack([one] if (one := attempt(lambda: session.append("note", {"last": True}))) else [])
    attempt(lambda: journal.branch("s", at=2, as_="side"))
    attempt(session.close)
    report({"closed": True})


def run_child(folder: Path, at: int, how: str) -> tuple[int, list[dict[str, Any]], int]:
    """Fork, run `life` with the fault, and return (exit status, reports, calls counted)."""
    read_end, write_end = os.pipe()
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            os.close(read_end)
            faults = Faults(at, how)
            faults.install()
            life(folder, lambda line: os.write(write_end, json.dumps(line).encode() + b"\n") and None)
            os.write(write_end, json.dumps({"calls": faults.count}).encode() + b"\n")
            status = 0
        except BaseException as error:
            leak = "".join(traceback.format_exception(error))[-900:]
            os.write(write_end, json.dumps({"leak": leak}).encode() + b"\n")
        finally:
            os._exit(status)
    os.close(write_end)
    with os.fdopen(read_end) as pipe:
        reports = [json.loads(line) for line in pipe]
    _, wait_status = os.waitpid(pid, 0)
    calls = next((line["calls"] for line in reports if "calls" in line), 0)
    return os.waitstatus_to_exitcode(wait_status), reports, calls


def check_survivor(folder: Path, acknowledged: list[dict[str, Any]]) -> None:
    """The journal must open, hold all that was acknowledged, verify, and please git."""
    journal = gitjournal.open(folder)
    known = {name.session for name in journal.sessions()}
    if "s" not in known:
        assert acknowledged == []
        return
    with journal.session("s") as session:
        session.append("after", {"fault": True})
    events = list(journal.events("s"))
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    hashes = {event.seq: event.hash for event in events}
    for line in acknowledged:
        assert hashes[line["seq"]] == line["hash"]
    for name in journal.sessions():
        report = gitjournal.verify(journal, name)
        assert report.ok, report.as_dict()
    assert list((folder / "objects" / "pack").glob("*.keep")) in ([], list_of_branch_keeps(folder))
    git = subprocess.run(["git", "fsck", "--strict", "--full"], cwd=folder, capture_output=True, text=True)
    assert git.returncode == 0, git.stderr


def list_of_branch_keeps(folder: Path) -> list[Path]:
    """A branch that died while it began leaves its own ``.keep``, which goes when somebody makes that branch."""
    keeps = (folder / "objects" / "pack").glob("*.keep")
    return [path for path in keeps if path.read_text() == "gitjournal refs/heads/s/side\n"]


@pytest.fixture(scope="module")
def calls(tmp_path_factory: pytest.TempPathFactory) -> int:
    """How many calls a life without faults makes."""
    folder = tmp_path_factory.mktemp("count") / "journal"
    gitjournal.init(folder)
    status, reports, count = run_child(folder, -1, "none")
    assert status == 0, reports
    assert {"closed": True} in reports
    assert not [line for line in reports if "error" in line]
    assert count > 40
    return count


@pytest.mark.parametrize("how", DEATHS)
def test_death_at_every_call_loses_nothing_acknowledged(tmp_path: Path, calls: int, how: str) -> None:
    for at in range(1, calls + 1):
        folder = tmp_path / f"{how}-{at}"
        gitjournal.init(folder)
        status, reports, _ = run_child(folder, at, how)
        assert status == 9, (at, reports)
        check_survivor(folder, [line for line in reports if "seq" in line])


@pytest.mark.parametrize("how", ERRORS)
def test_error_at_every_call_is_one_of_ours_and_loses_nothing(tmp_path: Path, calls: int, how: str) -> None:
    for at in range(1, calls + 1):
        folder = tmp_path / f"{how}-{at}"
        gitjournal.init(folder)
        status, reports, _ = run_child(folder, at, how)
        assert [line for line in reports if "leak" in line] == [], at
        assert status == 0
        check_survivor(folder, [line for line in reports if "seq" in line])


ENDLESS = """
import sys, gitjournal
journal = gitjournal.open(sys.argv[1])
with journal.session("s", create=True, durability=sys.argv[2]) as session:
    while True:
        done = session.append("note", {"text": "x" * 300})
        print(done.seq, done.hash, flush=True)
        if done.seq % 7 == 0:
            for done in session.append_many([("note", {"n": n}, "host") for n in range(5)]):
                print(done.seq, done.hash, flush=True)
        if done.seq % 50 == 0:
            session.flush()
"""


@pytest.mark.parametrize("durability", ["disk", "os", "commit"])
def test_kill_9_again_and_again_keeps_what_was_acknowledged(tmp_path: Path, durability: str) -> None:
    folder = tmp_path / "journal"
    gitjournal.init(folder)
    chance = random.Random(durability)
    acknowledged: dict[int, str] = {}
    for _ in range(8):
        child = subprocess.Popen(
            [sys.executable, "-c", ENDLESS, str(folder), durability], stdout=subprocess.PIPE, text=True
        )
        assert child.stdout is not None
        first = child.stdout.readline()
        time.sleep(chance.uniform(0.0, 0.15))
        child.send_signal(signal.SIGKILL)
        lines = [first, *child.stdout]
        child.wait()
        child.stdout.close()
        # The last line may be cut by the kill; it was then not received, and so not acknowledged.
        for line in lines:
            if line.endswith("\n"):
                seq, digest = line.split()
                acknowledged[int(seq)] = digest
        journal = gitjournal.open(folder)
        found = {event.seq: event.hash for event in journal.events("s")}
        assert acknowledged.items() <= found.items()
    assert len(acknowledged) > 8
    report = gitjournal.verify(gitjournal.open(folder), "s")
    assert report.ok, report.as_dict()


def test_full_disk_refuses_the_event_and_keeps_those_before(tmp_path: Path) -> None:
    """RLIMIT_FSIZE stands in for a full disk: writes beyond it fail in the kernel, for libgit2 as well."""
    folder = tmp_path / "journal"
    gitjournal.init(folder)
    script = """
import resource, signal, sys, gitjournal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
journal = gitjournal.open(sys.argv[1])
session = journal.session("s", create=True)
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, resource.RLIM_INFINITY))
try:
    while True:
        done = session.append("note", {"text": "x" * 3000})
        print(done.seq, done.hash, flush=True)
except gitjournal.JournalError as error:
    print("refused", error.code, error, flush=True)
try:
    session.close()
except gitjournal.JournalError as error:
    print("close", error.code, flush=True)
"""
    child = subprocess.run([sys.executable, "-c", script, str(folder)], capture_output=True, text=True)
    assert child.returncode == 0, child.stderr
    lines = child.stdout.splitlines()
    refused = [line for line in lines if line.startswith("refused storage")]
    assert len(refused) == 1
    assert "File too large" in refused[0]
    acknowledged = dict(line.split() for line in lines if line[0].isdigit())
    assert acknowledged
    journal = gitjournal.open(folder)
    found = {str(event.seq): event.hash for event in journal.events("s")}
    assert acknowledged.items() <= found.items()
    with journal.session("s") as session:
        session.append("note", {"text": "there is room again"})
    assert gitjournal.verify(journal, "s").ok


def test_the_ref_lock_of_a_dead_writer_is_removed_by_the_next_one(tmp_path: Path) -> None:
    folder = tmp_path / "journal"
    journal = gitjournal.init(folder)
    script = """
import os, sys, gitjournal
session = gitjournal.open(sys.argv[1]).session("s", create=True)
session.flush()
open(sys.argv[1] + "/refs/heads/s/main.lock", "x").close()
os.kill(os.getpid(), 9)
"""
    assert subprocess.run([sys.executable, "-c", script, str(folder)], check=False).returncode == -9
    with journal.session("s") as session:
        session.append("note", {})
    assert journal.chain(gitjournal.Name("s")).snapshot().in_git == 2


def test_a_ref_lock_that_no_writer_of_ours_left_is_named_and_kept(tmp_path: Path) -> None:
    journal = gitjournal.init(tmp_path / "journal")
    journal.session("s", create=True).close()
    lock = tmp_path / "journal" / "refs" / "heads" / "s" / "main.lock"
    lock.touch()
    session = journal.session("s")
    done = session.append("note", {})
    with pytest.raises(RefLocked, match=r"main\.lock .* old"):
        session.flush()
    lock.unlink()
    session.close()
    assert journal.head("s") == done


def test_an_interrupted_append_is_not_written_over_by_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C after the write: what is in the file is unknown, so nothing may follow before it is read again."""
    journal = gitjournal.init(tmp_path / "journal")
    session = journal.session("s", create=True)
    real = tail._sync_data

    def interrupted(fd: int) -> None:
        real(fd)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(tail, "_sync_data", interrupted)
        with pytest.raises(KeyboardInterrupt):
            session.append("note", {"text": "x" * 700})
    with pytest.raises(StorageError, match="interrupted"):
        session.append("note", {"short": True})
    with pytest.raises(StorageError, match="interrupted"):
        session.close()
    with journal.session("s") as session:
        assert session.append("note", {"short": True}).seq == 3
    assert gitjournal.verify(journal, "s").ok


def test_git_repack_beside_the_recovery_of_a_cut_flush(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The pack of a flush that was cut before the ref moved is kept until a ref reaches it."""
    folder = tmp_path / "journal"
    journal = gitjournal.init(folder)
    script = """
import os, sys, gitjournal
from gitjournal.store import Store
session = gitjournal.open(sys.argv[1]).session("s", create=True)
done = [session.append("note", {"n": n}) for n in range(5)]
Store.cas_ref = lambda *_: os._exit(9)
session.flush()
"""
    assert subprocess.run([sys.executable, "-c", script, str(folder)], check=False).returncode == 9
    real = Store.cas_ref

    def repack_first(store: Store, *args: Any) -> None:
        subprocess.run(["git", "repack", "-adq"], cwd=folder, check=True)
        subprocess.run(["git", "prune", "--expire=now"], cwd=folder, check=True)
        real(store, *args)

    monkeypatch.setattr(Store, "cas_ref", repack_first)
    journal.session("s").close()
    assert [event.seq for event in journal.events("s")] == list(range(1, 7))
    assert gitjournal.verify(journal, "s").ok
    assert not list((folder / "objects" / "pack").glob("*.keep"))


def test_a_forked_child_does_not_keep_the_lease_of_its_dead_parent(tmp_path: Path) -> None:
    folder = tmp_path / "journal"
    journal = gitjournal.init(folder)
    script = """
import os, sys, time, gitjournal
session = gitjournal.open(sys.argv[1]).session("s", create=True)
done, ready = os.pipe()
if os.fork() == 0:
    os.write(ready, b".")
    time.sleep(20)
    os._exit(0)
os.read(done, 1)
os.kill(os.getpid(), 9)
"""
    dead = subprocess.run([sys.executable, "-c", script, str(folder)], check=False)
    assert dead.returncode == -9
    with journal.session("s") as session:
        assert session.append("note", {}).seq == 2


def test_a_refused_call_leaves_word_of_the_writer_that_died(tmp_path: Path) -> None:
    folder = tmp_path / "journal"
    journal = gitjournal.init(folder)
    script = """
import os, sys, gitjournal
session = gitjournal.open(sys.argv[1]).session("s", create=True)
os.kill(os.getpid(), 9)
"""
    subprocess.run([sys.executable, "-c", script, str(folder)], check=False)
    chain = journal.chain(gitjournal.Name("s"))
    left = chain.lease_path.read_bytes()
    lease = Lease.acquire(chain.lease_path, "s")
    assert lease.last_epoch == 1
    lease.release()
    assert chain.lease_path.read_bytes() == left
