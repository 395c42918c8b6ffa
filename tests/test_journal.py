"""The library as a caller sees it, and random histories against a model of lists."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from itertools import count, pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from support import fork, forked, fsck, git, git_text, wait

import gitjournal
from gitjournal import journal as journals
from gitjournal import tiers, writer
from gitjournal.errors import (
    AlreadyExists,
    FormatError,
    JournalError,
    NotAJournal,
    NotFound,
    UsageError,
)
from gitjournal.event import Event
from gitjournal.journal import Journal, Session, discover
from gitjournal.objects import Deriver, FileBlob, git_id, side_file
from gitjournal.refs import Name
from gitjournal.tail import Tail
from gitjournal.verify import verify_session
from gitjournal.writer import Draft


def say(n: int) -> tuple[str, dict[str, Any], str]:
    return "message", {"n": n}, "user"


def numbers(journal: Journal, name: str | Name) -> list[int]:
    return [event.data["n"] for event in journal.events(name) if event.type == "message"]


def counted(journal: Journal) -> int:
    """Objects in the repository, loose and packed, an object in two packs twice."""
    lines = dict(line.split(": ") for line in git_text("count-objects", "-v", cwd=journal.path).splitlines())
    return int(lines["count"]) + int(lines["in-pack"])


def commits(journal: Journal, name: str) -> list[str]:
    return git_text("rev-list", "--reverse", f"refs/heads/{name}", cwd=journal.path).split()


def derived(journal: Journal, name: str | Name) -> list[str]:
    """The commit ids that follow from the events of a branch, worked out from nothing."""
    deriver, out = Deriver(), []
    for event, files in lines(journal, name):
        out.append(deriver.push(event, [file.oid for file in files]).commit[0].hex())
    return out


def lines(journal: Journal, name: str | Name) -> Iterable[tuple[Event, list[FileBlob]]]:
    """A whole branch, as `Journal.graft` takes it."""
    for event in journal.events(name):
        files = []
        for k, entry in enumerate(event.files, 1):
            content = journal.raw_file(name, event.seq, k)
            files.append(FileBlob(dict(entry), content, git_id(b"blob", content)))
        yield event, files


@pytest.fixture
def filled(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> Journal:
    """Session s: 30 messages, the newest two with a side file between them."""
    with journal.session("s", create=True, durability="os") as s:
        s.append_many([say(n) for n in range(27)])
        s.append("message", {"n": 27})
        s.append("tool.result", {"output": "x" * 70_000}, actor="tool:shell")
        s.append("message", {"n": 28})
    return journal


# --- the calls of the README -----------------------------------------------------------------------


def test_the_library_as_a_caller_sees_it(tmp_path: Path) -> None:
    import gitjournal

    path = tmp_path / "new" / "journal"
    journal = gitjournal.init(path)
    with journal.session("s1", create=True) as s:
        done = s.append(
            "message", {"role": "user", "parts": [{"type": "text", "content": "hi"}]}, actor="user", expected_seq=1
        )
        assert (done.seq, len(done.hash)) == (2, 64)
        s.append_many([("tool.call", {"id": "c1"}, "assistant"), ("tool.result", {"id": "c1"}, "tool:shell")])
        s.flush()
    for event in journal.events("s1/main", after=0, to=None):
        assert all((event.seq, event.type, event.actor, event.ts, event.hash)) and event.data is not None
    assert journal.event("s1", 2).data["role"] == "user"
    assert journal.branch("s1", at=3, as_="try-b") == Name("s1", "try-b")
    assert journal.fork("s1", at=3, session="s2") == Name("s2")
    assert gitjournal.fold(journal.events("s1"), to=3).last_seq == 3
    report = gitjournal.verify(journal, "s1/main")
    assert (report.ok, report.findings, bool(report.unchecked)) == (True, [], True)
    assert [str(name) for name in gitjournal.open(path).sessions()] == ["s1", "s1/try-b", "s2"]
    fsck(path)


@pytest.mark.parametrize(
    "before",
    [
        "",
        "import gitjournal.verify",
        "from gitjournal.verify import verify_session",
        "import gitjournal.journal, gitjournal.verify",
        "from gitjournal import *",
        "import importlib; importlib.import_module('gitjournal.verify')",
        "from gitjournal import verify, Report, open, init, Journal",
    ],
)
def test_verify_is_a_function_whatever_was_imported(tmp_path: Path, before: str) -> None:
    code = f"""
{before}
import gitjournal
journal = gitjournal.init({str(tmp_path / "j")!r})
journal.session("s", create=True).close()
assert gitjournal.verify(journal, "s").ok and callable(gitjournal.verify)
import gitjournal.verify
assert gitjournal.verify(journal, "s").ok
assert gitjournal.verify is __import__("sys").modules["gitjournal.verify"].verify
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr


def test_exported_names() -> None:
    for name in gitjournal.__all__:
        assert getattr(gitjournal, name) is not None
    assert set(gitjournal.__all__) <= set(dir(gitjournal))
    assert gitjournal.open is not open
    with pytest.raises(AttributeError):
        _ = gitjournal.nothing


# --- init, open, discover --------------------------------------------------------------------------


def test_init_twice_changes_nothing(filled: Journal) -> None:
    before = git_text("for-each-ref", cwd=filled.path)
    again = gitjournal.init(filled.path)
    assert git_text("for-each-ref", cwd=filled.path) == before
    assert numbers(again, "s") == list(range(29))
    assert gitjournal.init(str(filled.path)).path == filled.path


def test_init_in_an_empty_folder(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    journal = gitjournal.init(tmp_path / "empty")
    assert list(journal.sessions()) == []
    assert git_text("symbolic-ref", "HEAD", cwd=journal.path) == "refs/heads/journal/main"
    assert git_text("rev-parse", "--is-bare-repository", cwd=journal.path) == "true"
    assert (journal.path.stat().st_mode & 0o077) == 0
    assert gitjournal.verify(journal, "journal").ok
    fsck(journal.path)


def foreign(tmp_path: Path, kind: str) -> Path:
    path = tmp_path / "there"
    if kind == "file":
        path.write_text("a file")
        return path
    path.mkdir()
    if kind == "folder":
        (path / "notes.txt").write_text("mine")
    if kind in ("bare", "work", "two-level", "empty-bare"):
        git("init", "-q", *([] if kind == "work" else ["--bare"]), path, cwd=tmp_path)
    if kind in ("bare", "work", "two-level"):
        tree = git_text("hash-object", "-w", "-t", "tree", "--stdin", cwd=path)
        who = {
            "GIT_AUTHOR_NAME": "A",
            "GIT_AUTHOR_EMAIL": "a@b",
            "GIT_COMMITTER_NAME": "A",
            "GIT_COMMITTER_EMAIL": "a@b",
        }
        commit = git_text("commit-tree", tree, "-m", "work", cwd=path, env=who)
        branch = "feature/main" if kind == "two-level" else "main"
        git("update-ref", f"refs/heads/{branch}", commit, cwd=path)
    return path


@pytest.mark.parametrize("kind", ["file", "folder", "bare", "work", "two-level", "empty-bare"])
def test_init_and_open_refuse_what_is_no_journal(tmp_path: Path, kind: str) -> None:
    path = foreign(tmp_path, kind)
    before = sorted(path.rglob("*"))
    for call in (gitjournal.init, gitjournal.open):
        with pytest.raises(NotAJournal, match="there"):
            call(path)
    assert sorted(path.rglob("*")) == before


def test_open_where_nothing_is(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="no journal at") as error:
        gitjournal.open(tmp_path / "nothing")
    assert "gj init" in error.value.hint
    assert not (tmp_path / "nothing").exists()


def test_init_that_was_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The process died between making the repository and writing the journal's log."""

    def die() -> None:
        monkeypatch.setattr(journals, "Writer", lambda *_, **__: os._exit(9))
        gitjournal.init(tmp_path / "j")

    assert forked(die) == 9
    with pytest.raises(NotAJournal):
        gitjournal.open(tmp_path / "j")
    journal = gitjournal.init(tmp_path / "j")
    assert gitjournal.verify(journal, "journal").ok
    journal.session("s", create=True).close()
    assert [event.type for event in gitjournal.init(tmp_path / "j").events("journal")] == ["session.start"]


def test_init_by_several_processes(tmp_path: Path) -> None:
    """Whoever comes second finds the first at work, or its journal."""

    def child() -> None:
        try:
            gitjournal.init(tmp_path / "j")
        except JournalError:
            os._exit(3)

    ends = [wait(pid) for pid in [fork(child) for _ in range(6)]]
    assert set(ends) <= {0, 3}
    journal = gitjournal.init(tmp_path / "j")
    assert [event.type for event in journal.events("journal")] == ["session.start"]
    assert gitjournal.verify(journal, "journal").ok


def test_discover(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    deep = tmp_path / "a" / "b" / "c"
    deep.mkdir(parents=True)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("HOME", str(tmp_path))
    assert discover(None, {}, deep) == tmp_path / "data" / "gitjournal" / "journal.git"
    (tmp_path / ".gitjournal").mkdir()
    assert discover(None, {}, deep) == tmp_path / ".gitjournal"
    assert discover(None, {}, tmp_path) == tmp_path / ".gitjournal"
    (tmp_path / "a" / "b" / ".gitjournal").write_text("a file is no journal")
    (tmp_path / "a" / ".gitjournal").mkdir()
    assert discover(None, {}, deep) == tmp_path / "a" / ".gitjournal"
    assert discover(None, {"GITJOURNAL_DIR": "/x"}, deep) == Path("/x")
    assert discover(None, {"GITJOURNAL_DIR": ""}, deep) == tmp_path / "a" / ".gitjournal"
    assert discover("y", {"GITJOURNAL_DIR": "/x"}, deep) == Path("y")


# --- names -----------------------------------------------------------------------------------------


def test_resolve(filled: Journal) -> None:
    filled.branch("s", at=5, as_="try-b")
    for text, want in (("s", Name("s")), ("s/main", Name("s")), ("s/try-b", Name("s", "try-b"))):
        assert filled.resolve(text) == want
        assert filled.resolve(want) == want
        assert filled.resolve(str(want)) == want


def test_resolve_suggests_near_names(filled: Journal) -> None:
    for n in range(6):
        filled.session(f"deploy-{n}", create=True).close()
    filled.branch("deploy-1", at=1, as_="retry")
    for text, near in (("deploy-l/retry", "deploy-1/retry"), ("deploj-2", "deploy-2"), ("dep", "deploy-0")):
        with pytest.raises(NotFound, match=f"'{text}'") as error:
            filled.resolve(text)
        assert near in error.value.hint
        assert error.value.hint.startswith("Did you mean")
    # Sessions before the branches of one of them.
    for branch in ("a", "b", "c"):
        filled.branch("deploy-0", at=1, as_=branch)
    with pytest.raises(NotFound) as error:
        filled.resolve("d")
    assert error.value.hint == "Did you mean deploy-0, deploy-1, deploy-2?"
    with pytest.raises(NotFound) as error:
        filled.resolve("qqqqqqqqqq")
    assert error.value.hint == "gj sessions lists what is there."


def test_resolve_ambiguous_slashes(journal: Journal) -> None:
    """A session a/b, and a branch b of session a: a person must say which."""
    journal.session("a", create=True).close()
    journal.branch("a", at=1, as_="b")
    assert journal.resolve("a/b") == Name("a", "b")
    with pytest.raises(UsageError):
        # Opening with `create` must not guess either once there are two.
        journal.session(Name("a/b"), create=True).close()
        journal.resolve("a/b")
    assert journal.resolve(Name("a/b")) == Name("a/b")
    assert journal.resolve(Name("a", "b")) == Name("a", "b")
    for call in (journal.resolve, journal.events, journal.head, lambda name: journal.session(name, create=True)):
        with pytest.raises(UsageError, match=r"branch 'main' of session 'a/b' or branch 'b' of session 'a'"):
            call("a/b")


def test_sessions_lists_what_is_only_in_a_tail(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "IDLE_SECONDS", 3600)
    assert list(journal.sessions()) == []
    with journal.session("in tail/é", create=True) as s:
        assert not git_text("for-each-ref", "refs/heads/in*", cwd=journal.path)
        assert list(journal.sessions()) == [Name("in tail/é")]
        s.flush()
        assert list(journal.sessions()) == [Name("in tail/é")]
    tails = journal.path / "gitjournal" / "tail"
    for name in ("bad%zz/main.jsonl", "x/main.torn", "empty/main.jsonl", "x.jsonl"):
        (tails / name).parent.mkdir(exist_ok=True)
        (tails / name).write_text("\n" * 100)
    assert list(journal.sessions()) == [Name("in tail/é")]


def test_sessions_leaves_other_refs_alone(filled: Journal) -> None:
    tip = git_text("rev-parse", "refs/heads/s/main", cwd=filled.path)
    for ref in ("refs/heads/plain", "refs/heads/a/b/c", "refs/tags/s/main", "refs/heads/bad%zz/main", "refs/notes/x/y"):
        git("update-ref", ref, tip, cwd=filled.path)
    assert list(filled.sessions()) == [Name("s")]
    git("pack-refs", "--all", cwd=filled.path)
    assert list(filled.sessions()) == [Name("s")]


def test_missing_sessions(filled: Journal) -> None:
    calls: list[Callable[[], object]] = [
        lambda: filled.events("t"),
        lambda: filled.event("t", 1),
        lambda: filled.head("t"),
        lambda: filled.raw_file("t", 1, 1),
        lambda: filled.session("t"),
        lambda: filled.session("s/t"),
        lambda: filled.session(Name("s", "t"), create=True),
        lambda: filled.branch("t", at=1, as_="x"),
        lambda: filled.fork("t", at=1, session="x"),
        lambda: filled.flush("t"),
        lambda: gitjournal.verify(filled, "t"),
    ]
    for call in calls:
        with pytest.raises(NotFound):
            call()
    assert list(filled.sessions()) == [Name("s")]


# --- branch and fork -------------------------------------------------------------------------------


def test_branch_copies_nothing(filled: Journal) -> None:
    for at in (1, 2, 15, 29, 30):
        before = counted(filled)
        name = filled.branch("s", at=at, as_=f"at-{at}")
        # An event, its commit, and three trees.
        assert counted(filled) - before == 5
        events = list(filled.events(name))
        assert [event.seq for event in events] == list(range(1, at + 2))
        assert events[-1].data == {
            "branch": f"at-{at}",
            "from": {"branch": "main", "seq": at, "hash": filled.event("s", at).hash},
        }
        assert commits(filled, f"s/at-{at}")[:at] == commits(filled, "s/main")[:at]
        assert gitjournal.verify(filled, name).ok
    assert all(report.ok for report in verify_session(filled, "s"))
    fsck(filled.path)


def test_fork_copies_nothing(filled: Journal) -> None:
    before = counted(filled)
    name = filled.fork("s", at=12, session="f")
    assert counted(filled) - before == 5
    events = list(filled.events("f"))
    assert [event.session for event in events] == ["s"] * 12 + ["f"]
    assert events[-1].data["from"] == {"session": "s", "branch": "main", "seq": 12, "hash": events[11].hash}
    assert gitjournal.verify(filled, name).ok
    with filled.session("f") as s:
        assert s.epoch > events[-1].epoch
        s.append("message", {"n": 100})
    assert numbers(filled, "f")[-1] == 100
    assert numbers(filled, "s") == list(range(29))


@pytest.mark.parametrize("at", [0, -1, 32, 10**9])
def test_branch_where_no_event_is(filled: Journal, at: int) -> None:
    before = git_text("for-each-ref", cwd=filled.path), counted(filled)
    for call in (lambda: filled.branch("s", at=at, as_="b"), lambda: filled.fork("s", at=at, session="f")):
        with pytest.raises(NotFound, match=f"has no event {at}"):
            call()
    assert (git_text("for-each-ref", cwd=filled.path), counted(filled)) == before
    assert not list((filled.path / "gitjournal").glob("lease/*/*"))


def test_branch_of_events_still_in_the_tail(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    """While the parent's writer is at work; the parent's own flush later finds the same objects there."""
    monkeypatch.setattr(writer, "IDLE_SECONDS", 3600)
    with journal.session("s", create=True, durability="os") as s:
        for n in range(4):
            s.append("message", {"n": n})
        only_tail = journal.branch("s", at=3, as_="early")
        s.flush()
        for n in range(4, 10):
            s.append("message", {"n": n})
        for at in (5, 6, 8, 11):
            name = journal.branch("s", at=at, as_=f"b{at}")
            assert len(list(journal.events(name))) == at + 1
        journal.fork("s", at=9, session="f")
        s.append("message", {"n": 10})
    assert numbers(journal, "s") == list(range(11))
    assert numbers(journal, only_tail) == [0, 1]
    for name in journal.sessions():
        assert gitjournal.verify(journal, name).ok
        assert commits(journal, f"{name.session}/{name.branch}") == derived(journal, name)
    fsck(journal.path)


def test_branches_of_branches_and_forks_of_forks(filled: Journal) -> None:
    filled.branch("s", at=10, as_="b")
    with filled.session("s/b", durability="os") as s:
        s.append_many([say(n) for n in range(100, 110)])
    filled.branch("s/b", at=15, as_="bb")
    filled.branch("s/b", at=4, as_="below")
    filled.fork("s/bb", at=16, session="f")
    with filled.session("f", durability="os") as s:
        s.append_many([say(n) for n in range(200, 205)])
    filled.fork("f", at=20, session="ff")
    filled.branch("ff", at=21, as_="b")
    with pytest.raises(UsageError, match="event 2 of ff was inherited from session 's'"):
        filled.branch("ff", at=2, as_="old")
    filled.fork("ff", at=2, session="old")
    assert filled.event("old", 3).data["from"]["session"] == "s"
    filled.fork("ff/b", at=22, session="fff")
    for name in filled.sessions():
        report = gitjournal.verify(filled, name)
        assert report.ok, (name, report.findings)
        full = f"{name.session}/{name.branch}"
        assert commits(filled, full) == derived(filled, name)
        chain = filled.chain(name)
        assert [chain.commit_at(seq).hex() for seq in range(1, report.head_seq + 1)] == derived(filled, name)
    assert numbers(filled, "fff") == [*range(9), 100, 101, 102, 103, 200, 201, 202]


def test_a_chain_of_retries(journal: Journal) -> None:
    """Each try is branched from the try before, at the same event: as fast at the hundredth as at the first."""
    with journal.session("s", create=True, durability="os") as s:
        s.append_many([say(n) for n in range(10)])
    name = Name("s")
    for n in range(100):
        name = journal.branch(name, at=5, as_=f"try-{n}")
    shutil.rmtree(journal.path / "gitjournal" / "index")
    assert journal.chain(name).commit_at(3) == journal.chain(Name("s")).commit_at(3)
    assert gitjournal.verify(journal, name).ok


def test_branch_names_that_are_taken(filled: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    filled.branch("s", at=5, as_="b")
    for call in (
        lambda: filled.branch("s", at=6, as_="b"),
        lambda: filled.branch("s", at=6, as_="main"),
        lambda: filled.fork("s", at=6, session="s"),
    ):
        with pytest.raises(AlreadyExists):
            call()
    with filled.session("s/b", durability="os") as s, pytest.raises(JournalError):
        s.append("message", {"n": 50})
        filled.branch("s", at=6, as_="b")
    assert filled.head("s/b").seq == 7


def test_sessions_are_listed_while_the_writers_of_others_come_and_go(journal: Journal) -> None:
    over = threading.Event()

    def churn(number: int) -> None:
        while not over.is_set():
            Tail(journal.path / "gitjournal" / "tail" / f"s{number}" / "main.jsonl").close()

    with ThreadPoolExecutor(3) as pool:
        for number in range(3):
            pool.submit(churn, number)
        try:
            for _ in range(3000):
                assert list(journal.sessions()) == journal.branches("s0") == []
        finally:
            over.set()


def test_a_folder_of_tails_that_goes_away_meanwhile_has_none(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = journal.path / "gitjournal" / "tail" / "s"
    really = os.scandir

    def late(path: Any = ".") -> Any:
        if str(path) == str(folder):
            folder.rmdir()
        return really(path)

    monkeypatch.setattr(os, "scandir", late)
    for look in (lambda: list(journal.sessions()), lambda: journal.branches("s")):
        folder.mkdir(parents=True)
        assert look() == []
        assert not folder.exists()


def test_branch_by_several_processes(filled: Journal) -> None:
    """The same name: one wins. Other names: all do."""

    def child(name: str) -> Callable[[], None]:
        def work() -> None:
            try:
                gitjournal.open(filled.path).branch("s", at=7, as_=name)
            except JournalError:
                os._exit(3)

        return work

    ends = [wait(pid) for pid in [fork(child("same")) for _ in range(5)]]
    assert sorted(ends) == [0, 3, 3, 3, 3]
    assert [wait(pid) for pid in [fork(child(f"b{n}")) for n in range(4)]] == [0] * 4
    assert all(gitjournal.verify(filled, name).ok for name in filled.sessions())
    fsck(filled.path)


def test_branch_with_a_fixed_epoch_depends_on_nothing_else(tmp_path: Path) -> None:
    """An import makes the same branch on every machine."""
    tips = set()
    for n in range(2):
        journal = gitjournal.init(tmp_path / str(n))
        start = Draft("session.start", {}, ts="2026-01-01T00:00:00.000Z")
        with journal.session("s", create=True, start=start, epoch=1, salted=False) as s:
            s.append("message", {"n": 1}, ts="2026-01-01T00:00:01.000Z")
        journal.branch("s", at=2, as_="b", epoch=1)
        tips.add(commits(journal, "s/b")[-1])
    assert len(tips) == 1


def test_events_of_a_branch_resolve_side_files_of_its_parent(filled: Journal) -> None:
    filled.branch("s", at=31, as_="b")
    assert filled.event("s/b", 30).data == {"output": "x" * 70_000}
    assert filled.raw_file("s/b", 30, 1) == b"x" * 70_000


# --- graft -----------------------------------------------------------------------------------------


@pytest.fixture
def other(tmp_path: Path) -> Journal:
    return gitjournal.init(tmp_path / "other")


def test_graft_makes_the_same_commits(filled: Journal, other: Journal) -> None:
    filled.branch("s", at=30, as_="b")
    filled.fork("s/b", at=31, session="f")
    for name in (Name("s"), Name("s", "b"), Name("f")):
        size = len(list(filled.events(name)))
        assert other.graft(name, lines(filled, name)) == size
        assert other.graft(name, lines(filled, name)) == 0
        full = f"{name.session}/{name.branch}"
        assert commits(other, full) == commits(filled, full)
        assert gitjournal.verify(other, name).ok
    assert other.event("f", 30).data == {"output": "x" * 70_000}
    fsck(other.path)


def test_graft_goes_on_where_it_was(filled: Journal, other: Journal) -> None:
    """Interrupted after any number of events, and done again from the start."""
    everything = list(lines(filled, "s"))
    for before, size in pairwise((0, 0, 1, 2, 10, 30, 31)):
        assert other.graft(Name("s"), everything[:size]) == size - before
    assert commits(other, "s/main") == commits(filled, "s/main")
    assert other.graft(Name("s"), everything[:5]) == 0


def test_graft_that_breaks_off(filled: Journal, other: Journal) -> None:
    def broken() -> Iterable[tuple[Event, list[FileBlob]]]:
        yield from list(lines(filled, "s"))[:20]
        raise OSError("the line is dead")

    with pytest.raises(OSError, match="dead"):
        other.graft(Name("s"), broken())
    assert other.graft(Name("s"), lines(filled, "s")) == 31
    assert commits(other, "s/main") == commits(filled, "s/main")


def test_graft_of_another_history(filled: Journal, other: Journal) -> None:
    with other.session("s", create=True) as s:
        s.append("message", {"n": 1})
    with pytest.raises(FormatError, match="event 1: the journal has another event"):
        other.graft(Name("s"), lines(filled, "s"))
    assert numbers(other, "s") == [1]


def test_graft_onto_a_line_that_went_on(filled: Journal, other: Journal) -> None:
    other.graft(Name("s"), list(lines(filled, "s"))[:10])
    with other.session("s") as s:
        s.append("message", {"n": 77})
    with pytest.raises(FormatError) as error:
        other.graft(Name("s"), lines(filled, "s"))
    assert (error.value.code, error.value.seq) == ("broken-link", 11)
    assert other.head("s").seq == 11


@pytest.mark.parametrize(
    ("change", "code", "seq"),
    [
        (lambda items: items[:3] + items[4:], "bad-seq", 5),
        (lambda items: items[1:], "bad-seq", 2),
        (lambda items: [*items[:4], items[3]], "bad-seq", 4),
        (lambda items: [*items[:29], (items[29][0], [])], "bad-file", 30),
        (lambda items: [*items[:29], (items[29][0], [side_file(b"other", "text/plain")])], "bad-file", 30),
        (lambda items: [*items[:4], (items[4][0], [side_file(b"extra", "text/plain")])], "bad-file", 5),
    ],
)
def test_graft_of_a_broken_line(filled: Journal, other: Journal, change: Any, code: str, seq: int) -> None:
    items = list(lines(filled, "s"))
    with pytest.raises(FormatError) as error:
        other.graft(Name("s"), change(items))
    assert (error.value.code, error.value.seq) == (code, seq)
    other.graft(Name("s"), items)
    assert gitjournal.verify(other, "s").ok


def remade(items: list[tuple[Event, list[FileBlob]]], first: int, **changes: Any) -> list[tuple[Event, list[FileBlob]]]:
    out = items[: first - 1]
    for event, files in items[first - 1 :]:
        members = {**event.members, **changes, "prev": out[-1][0].hash if out else None}
        out.append((Event.build(members), files))
    return out


def test_graft_with_falling_epoch_or_another_session(filled: Journal, other: Journal) -> None:
    """Also when the break is where an earlier graft ended."""
    items = remade(list(lines(filled, "s")), 2, epoch=3)
    for already in (0, 10):
        with pytest.raises(FormatError) as error:
            other.graft(Name("s"), remade(items, 11, epoch=2))
        assert (error.value.code, error.value.seq) == ("bad-epoch", 11)
        with pytest.raises(FormatError) as error:
            other.graft(Name("s"), remade(items, 11, session="t"))
        assert (error.value.code, error.value.seq) == ("bad-session", 11)
        assert other.graft(Name("s"), items[:10]) == 10 - already
    other.graft(Name("s"), items)
    assert gitjournal.verify(other, "s").ok


def test_graft_of_another_session_under_a_name(filled: Journal, other: Journal) -> None:
    """The line must be of the branch that it is put under."""
    for name in (Name("t"), Name("s", "b"), Name("t", "b")):
        with pytest.raises(FormatError):
            other.graft(name, lines(filled, "s"))
    assert list(other.sessions()) == []


def test_graft_of_withheld_events(filled: Journal, other: Journal) -> None:
    items = [(event.withhold(), []) if event.seq in (5, 30) else (event, files) for event, files in lines(filled, "s")]
    assert other.graft(Name("s"), items) == 31
    report = gitjournal.verify(other, "s")
    assert (report.ok, report.withheld) == (True, [5, 30])
    assert report.head_hash == filled.head("s").hash
    assert other.event("s", 5).data == {}


# --- random histories against lists ----------------------------------------------------------------


class Histories(RuleBasedStateMachine):
    """Every branch is a list of numbers; whatever happens, the journal holds exactly these, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="gj-model-"))
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(tiers, "FAN_IN", 2)
        self.patch.setattr(writer, "IDLE_SECONDS", 3600)
        self.patch.setattr(writer, "FLUSH_EVENTS", 12)
        self.patch.setattr(writer, "_DIRECT_EVENTS", 8)
        self.model: dict[Name, list[Any]] = {}
        self.open: dict[Name, Session] = {}
        self.serial = count()
        self.copies = count()

    @initialize()
    def begin(self) -> None:
        self.journal = gitjournal.init(self.folder / "j")
        self.create("s")

    def create(self, session: str) -> None:
        name = Name(session)
        self.open[name] = self.journal.session(session, create=True, durability="os")
        self.model[name] = ["session.start"]

    def teardown(self) -> None:
        for session in self.open.values():
            session.close()
        if hasattr(self, "journal"):
            for name in self.model:
                self.journal.flush(name)
                assert commits(self.journal, f"{name.session}/{name.branch}") == derived(self.journal, name)
            fsck(self.journal.path)
        self.patch.undo()
        shutil.rmtree(self.folder)

    def pick(self, data: st.DataObject) -> Name:
        return data.draw(st.sampled_from(sorted(self.model)))

    def writing(self, name: Name) -> Session:
        if name not in self.open:
            self.open[name] = self.journal.session(name, durability="os")
        return self.open[name]

    def add(self, session: Session, values: list[int], text: str = "") -> None:
        extra = {"text": text} if text else {}
        if len(values) == 1:
            session.append("message", {"n": values[0], **extra})
        else:
            session.append_many(Draft("message", {"n": value, **extra}) for value in values)

    @rule(data=st.data())
    def append(self, data: st.DataObject) -> None:
        name, value = self.pick(data), next(self.serial)
        self.writing(name).append("message", {"n": value}, expected_seq=len(self.model[name]))
        self.model[name].append(value)

    @rule(data=st.data(), size=st.integers(0, 14))
    def append_many(self, data: st.DataObject, size: int) -> None:
        name = self.pick(data)
        values = [next(self.serial) for _ in range(size)]
        self.writing(name).append_many(Draft("message", {"n": value}) for value in values)
        self.model[name] += values

    @rule(data=st.data(), text=st.sampled_from(["x", "é"]))
    def append_with_side_file(self, data: st.DataObject, text: str) -> None:
        name, value = self.pick(data), next(self.serial)
        self.add(self.writing(name), [value], text * 70_000)
        self.model[name].append(value)

    @rule(data=st.data())
    def flush(self, data: st.DataObject) -> None:
        self.writing(self.pick(data)).flush()

    @precondition(lambda self: self.open)
    @rule(data=st.data())
    def close(self, data: st.DataObject) -> None:
        self.open.pop(data.draw(st.sampled_from(sorted(self.open)))).close()

    @precondition(lambda self: len(self.model) < 8)
    @rule(data=st.data())
    def branch(self, data: st.DataObject) -> None:
        name = self.pick(data)
        at = data.draw(st.integers(1, len(self.model[name])))
        if self.journal.event(name, at).session != name.session:
            with pytest.raises(UsageError):
                self.journal.branch(name, at=at, as_="no")
            return
        child = self.journal.branch(name, at=at, as_=f"b{len(self.model)}")
        self.model[child] = [*self.model[name][:at], "session.branch"]

    @precondition(lambda self: len(self.model) < 8)
    @rule(data=st.data())
    def fork(self, data: st.DataObject) -> None:
        name = self.pick(data)
        at = data.draw(st.integers(1, len(self.model[name])))
        child = self.journal.fork(name, at=at, session=f"f{len(self.model)}")
        self.model[child] = [*self.model[name][:at], "session.fork"]

    @rule()
    def crash(self) -> None:
        """Every process dies; the journal goes on in a copy made at this moment."""
        copy = self.folder / f"copy{next(self.copies)}"
        shutil.copytree(self.journal.path, copy)
        for session in self.open.values():
            session.close()
        shutil.rmtree(self.journal.path)
        self.open.clear()
        self.journal = gitjournal.open(copy)

    @rule(data=st.data(), size=st.integers(1, 14), flushed=st.booleans())
    def child_writes_and_dies(self, data: st.DataObject, size: int, flushed: bool) -> None:
        name = self.pick(data)
        if name in self.open:
            self.open.pop(name).close()
        values = [next(self.serial) for _ in range(size)]

        def child() -> None:
            session = self.journal.session(name, durability="os")
            for value in values:
                self.add(session, [value])
            if flushed:
                session.flush()
            os._exit(9)

        assert forked(child) == 9
        self.model[name] += values

    @rule()
    def collect_garbage(self) -> None:
        git("gc", "-q", "--prune=now", cwd=self.journal.path)

    @rule()
    def forget_derived_files(self) -> None:
        shutil.rmtree(self.journal.path / "gitjournal" / "index", ignore_errors=True)

    @rule(data=st.data())
    def look_at_one(self, data: st.DataObject) -> None:
        name = self.pick(data)
        seq = data.draw(st.integers(1, len(self.model[name])))
        event = self.journal.event(name, seq)
        assert self.value(event) == self.model[name][seq - 1]
        in_git = self.journal.chain(name).snapshot().in_git
        if seq <= in_git:
            commit = self.journal.chain(name).read_commit(self.journal.chain(name).commit_at(seq))
            assert commit.event_hash == event.hash

    @staticmethod
    def value(event: Event) -> Any:
        return event.data["n"] if event.type == "message" else event.type

    @invariant()
    def the_journal_is_the_model(self) -> None:
        if not hasattr(self, "journal"):
            return
        assert sorted(self.journal.sessions()) == sorted(self.model)
        for name, values in self.model.items():
            events = list(self.journal.events(name))
            assert [self.value(event) for event in events] == values
            assert [event.seq for event in events] == list(range(1, len(values) + 1))
            assert all(two.prev == one.hash for one, two in pairwise(events))
            report = gitjournal.verify(self.journal, name)
            assert report.findings == []
            assert (report.head_seq, report.head_hash) == (len(values), events[-1].hash)


Histories.TestCase.settings = settings(
    max_examples=25,
    stateful_step_count=25,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
)
TestHistories = Histories.TestCase


def test_a_branch_without_its_index_still_knows_whose_events_it_inherited(filled: Journal) -> None:
    """The derived files may be deleted at any time; what is written into events may not depend on them."""
    child = filled.branch("s", at=5, as_="c")
    shutil.rmtree(filled.path / "gitjournal" / "index")
    with filled.session(child) as session:
        session.append("note", {})
    grandchild = filled.branch(child, at=3, as_="g")
    assert filled.event(grandchild, 4).data["from"]["branch"] == "main"
    assert gitjournal.verify(filled, grandchild).ok


@pytest.mark.parametrize("path", ["a" * 300, "a\0b"])
def test_a_path_that_no_system_has(path: str) -> None:
    for call in (gitjournal.init, gitjournal.open):
        with pytest.raises(UsageError):
            call(path)


def test_a_session_and_a_branch_of_one_name_do_not_come_to_be(journal: Journal) -> None:
    with journal.session("s", create=True) as session:
        session.user("x")
    journal.branch("s", 2, "x")
    with pytest.raises(NotFound, match="session 's' has no branch 'y'"):
        journal.fork("s", 2, "s/y")
    with pytest.raises(AlreadyExists, match="'s/x' is branch 'x' of session 's'"):
        journal.fork("s", 2, "s/x")
    journal.session(Name("s/z"), create=True).close()
    with pytest.raises(AlreadyExists, match="a session is called s/z"):
        journal.branch("s", 2, "z")
