"""Deleting a session: what goes, what others keep, what the journal says of it, and a deletion that is cut anywhere."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from support import Gj, fork, forked, fsck, git, git_text, kill
from test_faults import Faults

import gitjournal
from gitjournal import branches, index, index_db, index_query
from gitjournal import delete as room
from gitjournal.chain import Chain
from gitjournal.errors import AlreadyExists, JournalError, LeaseHeld, NotFound, Refused, StorageError, UsageError
from gitjournal.event import Event
from gitjournal.journal import Journal
from gitjournal.lease import Lease
from gitjournal.lineage import forks
from gitjournal.refs import Name
from gitjournal.state import fold
from gitjournal.verify import verify
from gitjournal.writer import Draft

SECRET = "the secret of session s"


@pytest.fixture
def base(tmp_path: Path) -> Path:
    """s with a branch; f, forked from event 3 of s; g, forked from f within what it has from s; t, of its own."""
    journal = gitjournal.init(tmp_path / "base")
    with journal.session("s", source="console") as s:
        for n in range(5):
            s.user(f"{SECRET} {n}")
    journal.branch("s", 4, "b")
    journal.fork("s", 3, "f")
    journal.fork("f", 2, "g")
    with journal.session("f") as f, journal.session("t", source="console") as t:
        f.user("of f")
        t.user("of t")
    return journal.path


@pytest.fixture
def journal(base: Path) -> Journal:
    return gitjournal.open(base)


def tombstones(journal: Journal) -> list[dict[str, Any]]:
    return [dict(event.data) for event in journal.events(Name("journal")) if event.type == room.TOMBSTONE]


def files_of(journal: Journal, session: str) -> list[Path]:
    """The files that are left of a session in the folders beside git's."""
    found = (journal.path / "gitjournal").rglob("*")
    return [path for path in found if session in path.parts and path.is_file()]


def check_gone(journal: Journal, session: str = "s", *, but_index: bool = False) -> None:
    assert not journal.branches(session) and session not in {name.session for name in journal.sessions()}
    assert not git_text("for-each-ref", f"refs/heads/{session}", cwd=journal.path)
    left = [path for path in files_of(journal, session) if not (but_index and path.suffix == ".seq")]
    assert not room.is_unfinished(journal) and not left
    for name in (*journal.sessions(), Name("journal")):
        assert verify(journal, name).ok, name
    fsck(journal.path)


# --- what goes and what stays --------------------------------------------------------------------


def test_all_branches_go_and_the_journal_says_what_there_was(journal: Journal) -> None:
    before = {name.branch: journal.head(name) for name in journal.branches("s")}
    commits = {branch: git_text("rev-parse", f"s/{branch}", cwd=journal.path) for branch in before}
    done = room.delete(journal, "s", "no longer wanted")
    check_gone(journal)
    said = {branch: {"seq": head.seq, "hash": head.hash, "commit": commits[branch]} for branch, head in before.items()}
    assert tombstones(journal) == [{"session": "s", "branches": said, "reason": "no longer wanted"}]
    assert journal.head(Name("journal")) == done.tombstone and not done.kept
    with pytest.raises(NotFound):
        journal.resolve("s")


@pytest.mark.parametrize("state", ["fresh", "stale", "none", "damaged"])
def test_what_shares_events_is_found_without_reading_every_session(
    journal: Journal, state: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(20):
        journal.session(f"other{number}", source="console").close()
    git("update-ref", "refs/heads/copied/main", "refs/heads/s/main", cwd=journal.path)
    (journal.path / "refs" / "heads" / "other3" / "main").write_text("2" * 40 + "\n")
    index.rebuild(journal)
    place = index_db.place(journal.path)
    if state == "stale":
        journal.fork("s", 4, "late")
    elif state == "none":
        place.unlink()
    elif state == "damaged":
        place.write_bytes(b"no database")
    read: list[str] = []
    first = room._first
    monkeypatch.setattr(room, "_first", lambda chain: read.append(str(chain.name)) or first(chain))
    by_index = room.plan(journal, "s", partial(index.beginning, journal))
    assert (len(read) < 10) == (state != "none")
    assert by_index == room.plan(journal, "s")
    assert by_index.shared == {"copied": 6, "f": 3, "g": 2} | ({"late": 4} if state == "stale" else {})


def test_forks_keep_the_events_that_they_share(journal: Journal) -> None:
    kept = {name: [event.raw for event in journal.events(name)] for name in ("f", "g", "t")}
    done = room.delete(journal, "s")
    assert done.plan.shared == {"f": 3, "g": 2}
    git("-c", "gc.pruneExpire=now", "gc", "-q", "--prune=now", cwd=journal.path)
    again = gitjournal.open(journal.path)
    check_gone(again)
    assert {name: [event.raw for event in again.events(name)] for name in kept} == kept
    with again.session("f") as f:
        f.user("more")
        f.seal()
    again.fork("f", 2, "h")
    again.branch("f", 5, "b")
    assert fold(again.events("f")).trust == "host" and all(verify(again, name).ok for name in ("f", "h", "f/b"))
    # What nobody shares is gone with git's collection.
    assert SECRET + " 4" not in everything(journal.path) and SECRET + " 0" in everything(journal.path)


def everything(path: Path) -> str:
    """All blobs of a repository."""
    ids = git_text("cat-file", "--batch-check=%(objectname) %(objecttype)", "--batch-all-objects", cwd=path)
    blobs = [line.split()[0] for line in ids.splitlines() if line.endswith("blob")]
    return git("cat-file", "--batch", cwd=path, stdin="\n".join(blobs).encode()).stdout.decode()


def test_a_fork_can_be_deleted_and_leaves_its_parent(journal: Journal) -> None:
    done = room.delete(journal, "f")
    assert done.plan.shared == {"g": 2, "s": 3, "s/b": 3}
    check_gone(journal, "f")
    assert journal.head("s").seq == 6


def test_until_git_collects_it_can_be_brought_back_by_what_the_tombstone_says(journal: Journal) -> None:
    events = [event.raw for event in journal.events("s")]
    room.delete(journal, "s")
    (said,) = tombstones(journal)
    git("update-ref", "refs/heads/s/main", said["branches"]["main"]["commit"], cwd=journal.path)
    assert [event.raw for event in gitjournal.open(journal.path).events("s")] == events


def test_events_that_were_only_in_the_tail_are_in_git_first(journal: Journal) -> None:
    def crash() -> None:
        with gitjournal.open(journal.path).session("s") as s:
            s.user("not in git yet")
            os._exit(0)

    assert forked(crash) == 0
    assert journal.chain(Name("s")).snapshot().in_git == 6
    room.delete(journal, "s")
    (said,) = tombstones(journal)
    assert said["branches"]["main"]["seq"] == 7
    assert b"#7" in git("cat-file", "commit", said["branches"]["main"]["commit"], cwd=journal.path).stdout
    check_gone(journal)


def test_a_session_of_the_same_name_can_begin_anew(journal: Journal) -> None:
    for n in range(2):
        room.delete(journal, "s")
        with journal.session("s", source="http") as s:
            s.user(f"new {n}")
    assert [event.data.get("source") for event in journal.events("s", to=1)] == ["http"]
    assert len(tombstones(journal)) == 2 and verify(journal, "s").ok


def test_refs_that_git_has_packed_go_as_well(journal: Journal) -> None:
    git("pack-refs", "--all", cwd=journal.path)
    room.delete(gitjournal.open(journal.path), "s")
    check_gone(gitjournal.open(journal.path))


def test_what_remotes_have_is_named(journal: Journal, tmp_path: Path) -> None:
    git("clone", "-q", "--bare", journal.path, tmp_path / "backup.git")
    git("remote", "add", "backup", tmp_path / "backup.git", cwd=journal.path)
    git("fetch", "-q", "backup", cwd=journal.path)
    done = room.delete(journal, "s")
    assert done.plan.tracking == ["refs/remotes/backup/s/b", "refs/remotes/backup/s/main"]
    check_gone(journal)


def test_a_session_without_a_trunk(journal: Journal) -> None:
    git("update-ref", "-d", "refs/heads/s/main", cwd=journal.path)
    room.delete(journal, "s")
    check_gone(journal)


def test_a_damaged_session_can_be_deleted(journal: Journal) -> None:
    chain = journal.chain(Name("s"))
    chain.tail_path.parent.mkdir(parents=True, exist_ok=True)
    chain.tail_path.write_text('{"seq":99}\n{"v":1}\n')
    git("update-ref", "refs/heads/s/b", git_text("commit-tree", "s/b^{tree}", "-m", "x", cwd=journal.path,
        env={f"GIT_{who}_{what}": "x@y" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}),
        cwd=journal.path)  # fmt: skip
    room.delete(journal, "s")
    check_gone(journal)
    (said,) = tombstones(journal)
    assert "commit" in said["branches"]["b"] and "seq" not in said["branches"]["b"]


# --- what is refused -----------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "error"), [("nobody", NotFound), ("s/b", NotFound), ("journal", UsageError)])
def test_what_is_no_session_is_not_deleted(journal: Journal, name: str, error: type[JournalError]) -> None:
    before = git_text("for-each-ref", cwd=journal.path)
    with pytest.raises(error):
        room.delete(journal, name)
    assert git_text("for-each-ref", cwd=journal.path) == before


def test_a_session_that_somebody_writes_to_is_not_deleted(journal: Journal) -> None:
    before = git_text("for-each-ref", cwd=journal.path)
    with journal.session("s/b"), pytest.raises(LeaseHeld):
        room.delete(journal, "s")
    assert git_text("for-each-ref", "refs/heads/s/main", cwd=journal.path) in before
    assert not room.is_unfinished(journal) and not tombstones(journal)
    room.delete(journal, "s")


def test_an_erasure_that_was_cut_is_finished_first(journal: Journal) -> None:
    (journal.path / "gitjournal" / "erase.json").write_text("{}")
    with pytest.raises(JournalError, match="erasure"):
        room.delete(journal, "s")


def test_only_the_library_writes_tombstones(journal: Journal) -> None:
    with journal.session("t") as t, pytest.raises(UsageError):
        t.append_many([Draft(room.TOMBSTONE, {})])


# --- cut anywhere ----------------------------------------------------------------------------------


def attempt(path: Path, at: int, how: str) -> int:
    """A deletion in a child whose ``at``-th call that changes the disk fails; its exit status."""
    faults = Faults(at, how)

    def work() -> None:
        faults.install()
        Path.unlink = faults.wrap(Path.unlink, "path-unlink")  # type: ignore[method-assign]
        try:
            room.delete(gitjournal.open(path), "s", "x")
        except JournalError:
            os._exit(3)
        os._exit(0 if faults.count >= at else 4)

    return forked(work)


WAYS = ["die-before", "die-after", "EIO"]


@pytest.mark.parametrize("how", WAYS)
def test_cut_at_every_call_it_is_not_done_or_the_next_run_finishes_it(base: Path, tmp_path: Path, how: str) -> None:
    # Each way takes its own share of the calls.
    at, done = WAYS.index(how) - 2, 0
    while True:
        at += 3
        path = tmp_path / f"{at}"
        shutil.copytree(base, path)
        status = attempt(path, at, how)
        journal = gitjournal.open(path)
        if not room.is_unfinished(journal) and len(journal.branches("s")) == 2:
            assert not tombstones(journal) and verify(journal, "s").ok, at
            done += 1
        room.delete(journal, "s", "x") if journal.branches("s") else room.finish(journal)
        # A disk that refuses to remove what is derived keeps no session.
        check_gone(gitjournal.open(path), but_index=how == "EIO")
        assert [one["session"] for one in tombstones(journal)] == ["s"], at
        assert tombstones(journal)[0]["branches"].keys() == {"main", "b"}
        assert journal.head("f").seq == 5
        shutil.rmtree(path)
        if status == 4:
            break
    assert 0 < done < at and at > 8


def cut(path: Path, session: str = "s") -> None:
    """A deletion that dies when one of two refs is gone."""

    def work() -> None:
        journal = gitjournal.open(path)
        real = journal.store.cas_ref

        def first_only(ref: str, old: bytes | None, new: bytes | None) -> None:
            real(ref, old, new)
            if new is None:
                os._exit(9)

        journal.store.cas_ref = first_only  # type: ignore[method-assign]
        room.delete(journal, session, "x")

    assert forked(work) == 9


def test_the_next_deletion_of_any_session_finishes_it(journal: Journal) -> None:
    cut(journal.path)
    assert room.is_unfinished(journal) and [name.branch for name in journal.branches("s")] == ["main"]
    room.delete(journal, "t")
    check_gone(journal)
    check_gone(journal, "t")
    assert [one["session"] for one in tombstones(journal)] == ["s", "t"]
    assert room.finish(journal) is None


def test_the_trunk_goes_last_and_a_session_without_one_does_not_begin_anew(gj: Gj, journal: Journal) -> None:
    journal.branch("t", 2, "x")
    journal.branch("t", 2, "y")
    cut(journal.path, "t")
    assert [name.branch for name in journal.branches("t")] == ["main", "y"]
    assert "a deletion was cut; finish it with gj delete t" in gj("verify").stderr
    git("update-ref", "-d", "refs/heads/t/main", cwd=journal.path)
    with pytest.raises(AlreadyExists) as refused, journal.session("t", source="console"):
        pass
    assert "t/y" in str(refused.value) and "gj delete t" in str(refused.value.hint)
    assert [name.branch for name in journal.branches("t")] == ["y"] and verify(journal, "t/y").ok
    gj("delete", "t")
    check_gone(journal, "t")
    with journal.session("t", source="console"):
        pass
    assert verify(journal, "t").ok


def test_verify_goes_on_beside_a_damaged_intent(gj: Gj, journal: Journal) -> None:
    (journal.path / "gitjournal" / "delete.json").write_text("{}")
    done = gj("verify", "t")
    assert "delete.json" in done.stderr and "t: ok" in done.stdout


def test_what_no_commit_can_bring_back_is_counted(gj: Gj, journal: Journal) -> None:
    chain = journal.chain(Name("s"))
    chain.tail_path.parent.mkdir(parents=True, exist_ok=True)
    chain.tail_path.write_text('{"seq":99}\n{"v":1}\n')
    chain.tail_path.with_suffix(".torn").write_text("four\n")
    assert json.loads(gj("delete", "s", "--dry-run", "--json").stdout)["lost_bytes"] == 23
    cut(journal.path)
    done = room.finish(journal)
    # What is set aside ends with a newline of its own.
    assert done is not None and sum(stand.lost for stand in done.plan.branches.values()) == 24
    check_gone(journal)
    assert "byte" not in gj("delete", "t", "--yes").stdout


@pytest.mark.parametrize("dies", [False, True])
def test_a_branch_that_was_written_to_since_the_cut_stays(journal: Journal, dies: bool) -> None:
    cut(journal.path)

    def write() -> None:
        with gitjournal.open(journal.path).session("s") as s:
            s.user("still here")
            if dies:
                # What it said is in the tail alone, and the ref is where it was.
                os._exit(0)

    assert forked(write) == 0
    assert (journal.chain(Name("s")).snapshot().in_git == 6) == dies
    done = room.finish(journal)
    assert done is not None and done.kept == ["main"]
    assert journal.head("s").seq == 7 and verify(journal, "s").ok
    room.delete(journal, "s")
    check_gone(journal)


def test_a_session_that_goes_while_somebody_opens_it_is_not_there(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    find = journal._find

    def found_and_gone(name: str | Name) -> Name | None:
        found = find(name)
        room.delete(gitjournal.open(journal.path), "t")
        return found

    monkeypatch.setattr(journal, "_find", found_and_gone)
    with pytest.raises(NotFound, match="'t'"):
        journal.session("t", source="console")
    monkeypatch.undo()
    check_gone(journal, "t")
    with journal.session("t", source="console") as t:
        t.user("anew")
    assert verify(journal, "t").ok


def test_an_import_of_the_same_bytes_after_a_deletion_is_not_taken_for_the_old_session(journal: Journal) -> None:
    events = [(event, ()) for event in journal.events("t")]
    for _ in range(2):
        room.delete(journal, "t")
        journal.graft(Name("t"), events)
    assert journal.head("t").seq == 2 and len(tombstones(journal)) == 2


def planted(journal: Journal, **changes: Any) -> dict[str, Any]:
    head, commit = journal.head("t"), git_text("rev-parse", "t/main", cwd=journal.path)
    branches = {"main": {"seq": head.seq, "hash": head.hash, "commit": commit}}
    data = {"session": "t", "branches": branches}
    beside = {"tails": {"main": ""}, "lost": {"main": 0}, "shared": {}, "tracking": []}
    return {"data": data, "after": 1, **beside} | changes


DAMAGED: list[Callable[[Journal], object]] = [
    lambda journal: [],
    lambda journal: {},
    lambda journal: planted(journal, after=-1),
    lambda journal: planted(journal, after="1"),
    lambda journal: planted(journal, tails={}),
    lambda journal: planted(journal, lost={"main": -1}),
    lambda journal: planted(journal, shared=5),
    lambda journal: planted(journal, data={"session": "journal", "branches": {}}),
    lambda journal: planted(journal, data={"session": "t", "branches": {"main": {"seq": "x", "hash": "y"}}}),
    lambda journal: planted(journal, data={"session": "t", "branches": {"main": {"commit": "refs/heads/x"}}}),
    lambda journal: planted(journal, data={"session": "t", "branches": {"main": {"say": "this"}}}),
    lambda journal: planted(journal, data={"session": "t", "branches": {}, "and": "this"}),
    lambda journal: planted(journal, data={"session": "../t", "branches": {}, "reason": 5}),
]


@pytest.mark.parametrize("content", DAMAGED)
def test_a_damaged_or_planted_intent_is_named(journal: Journal, content: Callable[[Journal], object]) -> None:
    (journal.path / "gitjournal" / "delete.json").write_text(json.dumps(content(journal)))
    refs = git_text("for-each-ref", cwd=journal.path)
    with pytest.raises(StorageError, match=r"delete\.json"):
        room.delete(journal, "s", "x")
    assert git_text("for-each-ref", cwd=journal.path) == refs


def test_kill_between_tombstone_and_refs(journal: Journal, tmp_path: Path) -> None:
    def work() -> None:
        mine = gitjournal.open(journal.path)
        mine.store.cas_ref = lambda *_: (tmp_path / "ready").touch() or os.read(reading, 1)  # type: ignore[method-assign]
        room.delete(mine, "s")

    reading, writing = os.pipe()
    # The log's own flush would stop there as well.
    child = fork(work)
    while not (tmp_path / "ready").exists():
        pass
    kill(child)
    os.close(reading)
    os.close(writing)
    Lease.acquire(journal.chain(Name("s")).lease_path, "s").release()
    room.delete(journal, "s")
    check_gone(journal)
    assert len(tombstones(journal)) == 1


# --- the command ---------------------------------------------------------------------------------


@pytest.fixture
def place(base: Path) -> Path:
    return base


def test_dry_run_says_what_would_go_and_changes_nothing(gj: Gj, base: Path) -> None:
    before = git_text("for-each-ref", cwd=base)
    said = gj("delete", "s", "--dry-run").stdout
    assert "would delete s/main: 6 events, commit " in said and "f keeps 3 events" in said and "gc --prune=now" in said
    out = json.loads(gj("delete", "s", "--dry-run", "--json").stdout)
    assert out["dry_run"] is True and out["shared"] == {"f": 3, "g": 2} and set(out["branches"]) == {"main", "b"}
    assert git_text("for-each-ref", cwd=base) == before


def test_the_log_says_in_a_few_words_what_was_deleted(gj: Gj, base: Path) -> None:
    gj("delete", "s", "--yes", "--reason", "on request")
    shown = gj("log", "journal", "-n", "1").stdout
    assert shown.endswith("session.delete  s (b@5, main@6): on request\n"), shown


def test_without_a_terminal_it_wants_yes(gj: Gj, base: Path) -> None:
    refused = gj("delete", "s", ok=False)
    assert refused.exit_code == 1 and "--yes" in refused.output and len(refused.output.splitlines()) == 2
    out = json.loads(gj("delete", "s", "--yes", "--reason", "old", "--json").stdout)
    journal = gitjournal.open(base)
    check_gone(journal)
    assert out["tombstone"]["seq"] == 2 and not out["kept"] and tombstones(journal)[0]["reason"] == "old"


@pytest.mark.parametrize(("answer", "gone"), [("n\n", False), ("y\n", True)])
def test_on_a_terminal_it_asks_first(base: Path, answer: str, gone: bool) -> None:
    out = on_terminal(base, answer)
    assert "would delete s/main: 6 events" in out and "Delete session s? [y/N]" in out
    assert ("not deleted" in out) != gone
    journal = gitjournal.open(base)
    assert bool(journal.branches("s")) != gone


def on_terminal(base: Path, answer: str) -> str:
    """What `gj delete s` shows on a terminal where this is typed."""
    import pty
    import sys

    pid, terminal = pty.fork()
    if pid == 0:
        os.environ["GITJOURNAL_DIR"] = str(base)
        os.execv(sys.executable, [sys.executable, "-m", "gitjournal", "delete", "s"])
    seen = b""
    while b"[y/N]" not in seen:
        seen += os.read(terminal, 4096)
    os.write(terminal, answer.encode())
    try:
        while more := os.read(terminal, 4096):
            seen += more
    except OSError:
        pass
    os.waitpid(pid, 0)
    os.close(terminal)
    return seen.decode()


@pytest.mark.parametrize(
    ("name", "status", "words"),
    [
        ("nobody", 4, "no session"),
        ("s/b", 2, "one branch of session s"),
        ("s@3", 2, "one event"),
        ("journal", 2, "log"),
        ("\x07", 4, "no session"),
    ],
)
def test_what_it_refuses(gj: Gj, base: Path, name: str, status: int, words: str) -> None:
    before = git_text("for-each-ref", cwd=base)
    refused = gj("delete", name, "--yes", ok=False)
    assert refused.exit_code == status and words in refused.output, refused.output
    assert git_text("for-each-ref", cwd=base) == before


def test_the_index_forgets_it(gj: Gj, base: Path) -> None:
    with gitjournal.open(base).session("t") as t:
        t.user("a word that only t has: zyzzyva")
    assert "t" in gj("search", "zyzzyva").stdout
    gj("delete", "t", "--yes")
    assert not any(b"zyzzyva" in path.read_bytes() for path in (base / "gitjournal").glob("index.sqlite*"))


def test_the_memory_of_verifications_does_not_miss_it(gj: Gj, base: Path) -> None:
    gj("verify", "--all")
    gj("delete", "s", "--yes")
    with gitjournal.open(base).session("s", source="console"):
        pass
    assert "s: ok, 1 event" in gj("verify", "--all").stdout
    gj("delete", "s", "--yes")
    assert "BROKEN" not in gj("verify", "--all").output


def test_the_command_finishes_a_deletion_that_was_cut(gj: Gj, base: Path) -> None:
    cut(base)
    done = gj("delete", "s", "--json")
    assert "finished deleting s" in done.stderr and json.loads(done.stdout)["tombstone"]["seq"] == 2
    check_gone(gitjournal.open(base))


# --- one branch ----------------------------------------------------------------------------------


@pytest.fixture
def branched(tmp_path: Path) -> Journal:
    """Session s with a branch b that has two events of its own, of which fork f has the first; and other sessions."""
    made = gitjournal.init(tmp_path / "branched")
    for number in range(6):
        with made.session(f"o{number}", create=True) as s:
            s.append("note", {"n": number})
    with made.session("s", create=True) as s:
        s.append("note", {})
    made.branch("s", 2, "b")
    for end in (4, 5):
        with made.session("s/b") as s:
            s.append("note", {"end": end})
        if end == 4:
            made.fork("s/b", 4, "f")
    return made


def test_deleting_a_branch_looks_at_no_session_but_those_that_share_its_beginning(
    branched: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    beginning = partial(index.beginning, branched)
    index.rebuild(branched)
    seen: set[str] = set()
    read = Chain.event

    def event(self: Chain, seq: int) -> Event:
        seen.add(self.name.session)
        return read(self, seq)

    monkeypatch.setattr(Chain, "event", event)
    with pytest.raises(Refused, match="has 1 event that nothing else has, beyond event 4"):
        branches.delete(branched, "s/b", beginning=beginning)
    assert seen == {"s", "f"}
    assert {
        parent: [str(one.parent) for one in found] for parent, found in forks(branched, "s", beginning).items()
    } == {Name("s", "b"): ["f"]}
    assert seen == {"s", "f"} and forks(branched, "s") == forks(branched, "s", beginning)
    branched.fork("s/b", 5, "g")
    assert branches.delete(branched, "s/b", beginning=beginning).kept.lost == 0


@pytest.mark.parametrize("stale", ["a fork that is gone", "a fork that was set back", "other sessions"])
def test_what_the_index_says_keeps_no_event(branched: Journal, stale: str) -> None:
    branched.fork("s/b", 5, "g")
    index.rebuild(branched)
    known = index.ask(branched, lambda db: index_query.beginning(db, [branched.event("s", 1).hash]))
    assert Name("g") in known
    if stale == "a fork that was set back":
        git("update-ref", "refs/heads/g/main", "refs/heads/s/main", cwd=branched.path)
    elif stale == "a fork that is gone":
        git("update-ref", "-d", "refs/heads/g/main", cwd=branched.path)
    else:
        known = [name for name in known if name.session != "g"] + [Name("o1"), Name("nobody")]
    with pytest.raises(Refused):
        branches.delete(branched, "s/b", beginning=lambda _: known)
    if stale != "other sessions":
        # An index that is brought up to date says the same.
        with pytest.raises(Refused):
            branches.delete(branched, "s/b", beginning=partial(index.beginning, branched))
    assert branched.head("s/b").seq == 5


def test_gj_branch_asks_the_index(gj: Gj, journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []
    monkeypatch.setattr(index, "beginning", lambda *what, **_: asked.append(what) or [])
    with journal.session("s/b") as s:
        s.user("its own")
    assert "beyond event 4" in gj("branch", "--delete", "s/b", ok=False).stderr and len(asked) == 1
    assert gj("branches", "s", "--forks").stdout and len(asked) == 2
