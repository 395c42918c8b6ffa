"""What branches have in common, where they begin, and what deleting and renaming one leaves behind."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import ROOT, Gj, forked, fsck, git

import gitjournal
from gitjournal import branches, keys, signing
from gitjournal.branches import Renamed, delete, kept_elsewhere, rename
from gitjournal.chain import Chain
from gitjournal.errors import (
    AlreadyExists,
    ConflictError,
    JournalError,
    LeaseHeld,
    NotFound,
    Refused,
    UsageError,
    VerificationError,
)
from gitjournal.event import Event
from gitjournal.journal import Journal
from gitjournal.lineage import Begin, Beginning, Once, begins, common, forks, lines, parts
from gitjournal.refs import Name
from gitjournal.store import Store
from gitjournal.verify import verify, verify_session
from gitjournal.writer import Draft, start_branch


def note(journal: Journal, name: str, count: int = 1) -> None:
    """Append ``count`` events to a branch, which is made if it is a session."""
    with journal.session(name, create="/" not in name) as s:
        s.append_many([("note", {"at": name}, "host") for _ in range(count)])


def make(folder: Path) -> Journal:
    journal = gitjournal.init(folder)
    note(journal, "s", 5)  # 6 events
    journal.branch("s", 4, "a")
    note(journal, "s/a", 3)  # 8 events, own 5..8
    return journal


def copy_ref(journal: Journal, old: str, new: Name) -> None:
    oid = journal.store.read_ref(journal.chain(journal.resolve(old)).ref)
    assert oid is not None
    journal.store.cas_ref(journal.chain(new).ref, None, oid)


def shown(journal: Journal, session: str = "s") -> dict[str, tuple[int, str | None, int]]:
    """Head, parent and place of each branch."""
    return {
        str(line.name): (line.head, str(line.begin.parent) if line.begin.parent else None, line.begin.after)
        for line in lines(journal, session)
    }


def is_intact(journal: Journal, session: str = "s") -> bool:
    """By the library and by the verifier that shares no line with it."""
    ours = [report.ok for report in verify_session(journal, session)]
    command = [sys.executable, ROOT / "verifiers" / "verify_chain.py", journal.path]
    theirs = subprocess.run([*map(str, command)], capture_output=True, check=False)
    assert (theirs.returncode == 0) == all(ours), theirs.stdout
    fsck(journal.path)
    return all(ours)


# --- what is the same ----------------------------------------------------------------------------


def test_a_fork_of_a_fork_takes_the_right_parent(tmp_path: Path) -> None:
    journal = make(tmp_path / "j")
    journal.branch("s/a", 7, "b")  # on an event of a's own
    journal.branch("s/a", 3, "c")  # on one that a has from main
    journal.branch("s/b", 8, "d")  # on the first event of b
    journal.fork("s/b", 8, "f")
    note(journal, "f")
    journal.fork("f", 10, "g")
    assert shown(journal) == {
        "s": (6, None, 0),
        "s/a": (8, "s", 4),
        "s/b": (8, "s/a", 7),
        "s/c": (4, "s", 3),
        "s/d": (9, "s/b", 8),
    }
    assert shown(journal, "f") == {"f": (10, "s/b", 8)} and shown(journal, "g") == {"g": (11, "f", 10)}
    assert forks(journal, "s") == {Name("s", "b"): [Begin(8, Name("f"))]}
    assert forks(journal, "f") == {Name("f"): [Begin(10, Name("g"))]}
    assert common(journal.chain(Name("g")), journal.chain(Name("s", "a"))) == 7


def test_a_branch_that_names_a_heir_hangs_on_the_owner(tmp_path: Path) -> None:
    """``from.branch`` is not checked: who says ``a`` of an event that a has from the trunk hangs on the trunk."""
    journal = make(tmp_path / "j")
    origin = {"branch": "a", "seq": 4, "hash": journal.event("s", 4).hash}
    draft = Draft("session.branch", {"branch": "c", "from": origin})
    start_branch(journal.chain(Name("s", "a")), 4, journal.chain(Name("s", "c")), draft)
    assert shown(journal)["s/c"] == (5, "s", 4) and is_intact(journal)


def test_sessions_of_equal_words_have_nothing_in_common(journal: Journal) -> None:
    note(journal, "s", 3)
    note(journal, "t", 3)
    assert common(journal.chain(Name("s")), journal.chain(Name("t"))) == 0
    assert common(journal.chain(Name("s")), journal.chain(Name("s"))) == 4
    assert common(journal.chain(Name("s")), journal.chain(Name("gone"))) == 0


def test_the_search_reads_few_events(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    note(journal, "s", 1000)
    journal.branch("s", 700, "a")
    note(journal, "s/a", 500)
    one, other = journal.chain(Name("s")), journal.chain(Name("s", "a"))
    reads: list[int] = []
    event = type(one).event

    def counted(chain: Chain, seq: int) -> Event:
        reads.append(seq)
        return event(chain, seq)

    monkeypatch.setattr(type(one), "event", counted)
    assert common(one, other) == 700 and len(reads) < 30


def test_a_branch_whose_parent_is_gone_hangs_on_what_it_shares(tmp_path: Path) -> None:
    journal = make(tmp_path / "j")
    journal.branch("s/a", 7, "b")
    delete(journal, "s/a", force=True)
    assert shown(journal)["s/b"] == (8, "s", 4)


def test_a_new_branch_of_an_old_name_is_no_parent(tmp_path: Path) -> None:
    journal = make(tmp_path / "j")
    journal.branch("s/a", 7, "b")
    delete(journal, "s/a", force=True)
    journal.branch("s", 2, "a")
    note(journal, "s/a", 10)
    assert shown(journal)["s/b"] == (8, "s", 4) and begins(journal, Name("s", "b")) == Begin()


def test_a_line_that_is_there_twice_counts_once(tmp_path: Path) -> None:
    journal = make(tmp_path / "j")
    copy_ref(journal, "s/a", Name("s", "copy"))
    found = {part.name.branch: (part.after, part.head) for part in parts(journal, journal.branches("s"))}
    assert found == {"main": (0, 6), "a": (4, 8), "copy": (8, 8)}


def test_branches_that_claim_to_begin_on_each_other_are_told_apart_by_hashes(journal: Journal) -> None:
    note(journal, "s", 3)
    once = Once(journal)
    assert once.add(Name("s"), Begin(2, Name("s"))) == (Name("s"), 0, 4, None)
    assert once.add(Name("s"), Begin(2, Name("s"))) == (Name("s"), 4, 4, Name("s"))
    assert once.add(Name("gone")) is None


steps = st.lists(st.tuples(st.integers(0, 50), st.integers(1, 50), st.integers(0, 3), st.booleans()), max_size=9)


@settings(max_examples=25)
@given(steps)
def test_each_event_is_in_one_part(tmp_path_factory: pytest.TempPathFactory, made: list[Any]) -> None:
    journal = gitjournal.init(tmp_path_factory.mktemp("j") / "j")
    note(journal, "s", 3)
    for number, (which, at, more, into_session) in enumerate(made):
        names = list(journal.sessions())
        parent = names[which % len(names)]
        seq = 1 + at % journal.head(parent).seq
        if into_session or journal.event(parent, seq).session != parent.session:
            child = journal.fork(parent, seq, f"f{number}")
        else:
            child = journal.branch(parent, seq, f"b{number}")
        note(journal, str(child), more)
    every = {name: [event.hash for event in journal.events(name)] for name in journal.sessions()}
    found = parts(journal, every)
    owned = [digest for part in found for digest in every[part.name][part.after : part.head]]
    assert sorted(owned) == sorted(set(itertools.chain(*every.values())))
    for part in found:
        # The events are where they were written to, as all is declared here.
        assert {journal.event(part.name, n).session for n in range(part.after + 1, part.head + 1)} == {
            part.name.session
        }
        if part.parent:
            assert part.parent == journal.chain(part.name).owner(part.after)
    for one, other in itertools.combinations(every, 2):
        same = sum(1 for a, b in zip(every[one], every[other], strict=False) if a == b)
        assert common(journal.chain(one), journal.chain(other)) == same
    # Without what they say of themselves, and in another order, the same.
    once = Once(journal)
    bare = [once.add(name) for name in reversed(every)]
    assert sum(part.head - part.after for part in bare if part) == len(owned)


# --- delete --------------------------------------------------------------------------------------


def test_a_branch_is_deleted_only_if_nothing_is_lost(tmp_path: Path) -> None:
    journal = make(tmp_path / "j")
    with pytest.raises(JournalError, match="3 events that nothing else has, beyond event 4") as refused:
        delete(journal, "s/a")
    assert "--force" in refused.value.hint and journal.head("s/a").seq == 8
    gone = delete(journal, "s/a", force=True)
    assert (gone.kept.to, gone.kept.lost, gone.head.seq) == (4, 3, 8)
    with pytest.raises(NotFound):
        journal.resolve("s/a")
    assert is_intact(journal)


def test_a_branch_that_only_began_can_go(tmp_path: Path) -> None:
    journal = make(tmp_path / "j")
    journal.branch("s", 2, "b")
    assert delete(journal, "s/b").kept.lost == 0


@pytest.mark.parametrize("session", [True, False])
def test_what_another_branch_has_is_not_lost(tmp_path: Path, session: bool) -> None:
    journal = make(tmp_path / "j")
    child = journal.fork("s/a", 8, "f") if session else journal.branch("s/a", 8, "b")
    before = [event.hash for event in journal.events("s/a")]
    assert delete(journal, "s/a").kept == (8, 0, [])
    assert [event.hash for event in journal.events(child, to=8)] == before
    assert is_intact(journal, child.session)


def test_events_in_a_tail_count_as_well(tmp_path: Path) -> None:
    journal = make(tmp_path / "j")

    def die() -> None:
        s = gitjournal.open(journal.path).session("s/a")
        s.append("note", {"only": "in the tail"})
        import os

        os._exit(7)

    assert forked(die) == 7
    with pytest.raises(JournalError, match="4 events"):
        delete(journal, "s/a")
    assert journal.head("s/a").seq == 9
    delete(journal, "s/a", force=True)
    assert not journal.chain(Name("s", "a")).exists()


def test_packed_refs_are_deleted_too(tmp_path: Path) -> None:
    journal = make(tmp_path / "j")
    git("pack-refs", "--all", cwd=journal.path)
    delete(journal, "s/a", force=True)
    assert git("for-each-ref", "refs/heads/s/a", cwd=journal.path).stdout == b""


def test_a_remotes_copy_keeps_events_and_is_named(tmp_path: Path) -> None:
    journal = make(tmp_path / "j")
    other = tmp_path / "other.git"
    git("init", "--bare", "-q", other, cwd=tmp_path)
    git("remote", "add", "there", other, cwd=journal.path)
    git("push", "-q", "there", "refs/heads/s/a", cwd=journal.path)
    git("fetch", "-q", "there", "+refs/heads/*:refs/remotes/there/*", cwd=journal.path)
    assert kept_elsewhere(journal, Name("s", "a")) == (8, 0, ["refs/remotes/there/s/a"])
    note(journal, "s/a", 2)
    assert kept_elsewhere(journal, Name("s", "a")) == (8, 2, [])
    with pytest.raises(JournalError, match="2 events"):
        delete(journal, "s/a")
    git("update-ref", "refs/remotes/there/s/a", "refs/heads/s/a", cwd=journal.path)
    git("pack-refs", "--all", cwd=journal.path)
    assert delete(journal, "s/a").kept.tracking == ["refs/remotes/there/s/a"]


def test_a_remotes_copy_of_another_branch_of_that_name_keeps_nothing(tmp_path: Path) -> None:
    journal = make(tmp_path / "j")
    git("update-ref", "refs/remotes/there/s/a", "refs/heads/s/main", cwd=journal.path)
    (journal.path / "refs" / "remotes" / "bad" / "s").mkdir(parents=True)
    (journal.path / "refs" / "remotes" / "bad" / "s" / "a").write_text("rubbish\n")
    assert kept_elsewhere(journal, Name("s", "a")) == (4, 3, [])


def test_nobody_may_be_writing(tmp_path: Path) -> None:
    journal = make(tmp_path / "j")
    with journal.session("s/a") as s:
        for change in (lambda: delete(journal, "s/a", force=True), lambda: rename(journal, "s/a", "b")):
            with pytest.raises(LeaseHeld):
                change()
        s.append("note", {})
    assert journal.head("s/a").seq == 9 and "s/b" not in shown(journal)


def test_the_trunk_stays(tmp_path: Path) -> None:
    journal = make(tmp_path / "j")
    for change in (lambda: delete(journal, "s", force=True), lambda: rename(journal, "s", "b")):
        with pytest.raises(UsageError, match="trunk"):
            change()
    with pytest.raises(UsageError):
        rename(journal, "s/a", "main")
    with pytest.raises(NotFound):
        delete(journal, "s/nothing")


def test_a_damaged_branch_keeps_nothing_and_goes_by_force(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = make(tmp_path / "j")
    journal.branch("s/a", 8, "b")
    damaged = {"b"}
    event = Chain.event

    def broken(chain: Chain, seq: int) -> Event:
        if chain.name.branch in damaged and seq > 1:
            raise VerificationError("missing-object", "it is not there")
        return event(chain, seq)

    monkeypatch.setattr(Chain, "event", broken)
    assert kept_elsewhere(journal, Name("s", "a")).lost == 3
    damaged.add("a")
    with pytest.raises(Refused):
        delete(journal, "s/a")
    monkeypatch.setattr(Chain, "events", lambda *_, **__: iter(lambda: broken(journal.chain(Name("s", "a")), 2), 0))
    with pytest.raises(VerificationError):
        delete(journal, "s/a")
    assert delete(journal, "s/a", force=True).kept == (0, 8, [])


def test_a_branch_of_which_nothing_can_be_read_hides_no_other_and_goes_by_force(gj: Gj, place: Path) -> None:
    journal = make(place)
    journal.branch("s", 4, "b")
    (place / "refs" / "heads" / "s" / "a").write_text("2" * 40 + "\n")
    failed: dict[Name, JournalError] = {}
    assert [str(line.name) for line in lines(journal, "s", failed)] == ["s", "s/b"] and [*failed] == [Name("s", "a")]
    for words in (("branches", "s"), ("log", "s", "--graph")):
        run = gj(*words, ok=False)
        assert (
            run.exit_code == 1
            and "s/b" in run.stdout + "(b) s/b"
            and "s/a cannot be read: [missing-object]" in run.stderr
        )
    assert "<html" in gj("export", "s", "--format", "html").stdout and gj("resume", "s/b").exit_code == 0
    assert gj("branch", "--delete", "s/a", ok=False).exit_code == 1 and Name("s", "a") in journal.branches("s")
    with journal.session("s/b"), pytest.raises(LeaseHeld):
        delete(journal, "s/b", force=True)
    assert gj("branch", "--delete", "s/a", "--force").stdout == "deleted s/a, which could not be read\n"
    assert {str(name) for name in journal.branches("s")} == {"s", "s/b"}
    # A trunk that cannot be read does not keep anybody from a branch that can.
    (place / "refs" / "heads" / "s" / "main").write_text("2" * 40 + "\n")
    gj("resume", "s/b")


def test_the_journal_s_own_log_has_no_forks(tmp_path: Path) -> None:
    journal = make(tmp_path / "j")
    with pytest.raises(UsageError, match="reserved"):
        journal.fork("journal", 1, "x")
    assert "x" not in {name.session for name in journal.sessions()}


def test_a_ref_that_somebody_moved_meanwhile_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = make(tmp_path / "j")
    look = branches.kept_elsewhere

    def push(journal: Journal, name: Name, beginning: Beginning | None = None) -> branches.Kept:
        kept = look(journal, name, beginning)
        git("update-ref", "refs/heads/s/a", "refs/heads/s/main", cwd=journal.path)
        return kept

    monkeypatch.setattr(branches, "kept_elsewhere", push)
    with pytest.raises(ConflictError):
        delete(journal, "s/a", force=True)
    assert journal.store.read_ref("refs/heads/s/a") == journal.store.read_ref("refs/heads/s/main")


def test_an_erasure_that_was_cut_comes_first(tmp_path: Path) -> None:
    journal = make(tmp_path / "j")
    (journal.path / "gitjournal" / "erase.json").write_text("{}")
    with pytest.raises(JournalError, match="erasure"):
        delete(journal, "s/a", force=True)


# --- rename --------------------------------------------------------------------------------------


def test_a_renamed_branch_is_intact_for_every_verifier(tmp_path: Path) -> None:
    journal = make(tmp_path / "j")
    with journal.session("s/a") as s:
        s.seal()
    before = [event.hash for event in journal.events("s/a")]
    done = rename(journal, "s/a", "b")
    assert done == Renamed(Name("s", "a"), Name("s", "b"), journal.head("s/b"), [])
    last = journal.event("s/b", done.head.seq)
    assert (last.type, last.seq) == ("session.branch", 10)
    assert last.data["branch"] == "b" and last.data["from"] == journal.event("s/b", 5).data["from"]
    assert [event.hash for event in journal.events("s/b", to=9)] == before
    assert shown(journal) == {"s": (6, None, 0), "s/b": (10, "s", 4)} and is_intact(journal)


def test_a_renamed_branch_goes_on(tmp_path: Path) -> None:
    journal = make(tmp_path / "j")
    rename(journal, "s/a", "b")
    note(journal, "s/b", 3)
    rename(journal, "s/b", "c")
    with journal.session("s/c") as s:
        s.append("note", {})
        s.seal()
    assert shown(journal)["s/c"] == (15, "s", 4)
    assert begins(journal, Name("s", "c")) == Begin(4, Name("s"))
    journal.branch("s/c", 7, "d")
    # Who wrote event 7 is known by the name of now.
    assert journal.event("s/d", 8).data["from"]["branch"] == "c"
    rename(journal, "s/c", "a")
    assert shown(journal)["s/d"] == (8, "s/a", 7) and is_intact(journal)
    assert verify(journal, Name("s", "a")).seals == 1


def test_branches_and_forks_of_a_renamed_branch_keep_their_place(tmp_path: Path) -> None:
    journal = make(tmp_path / "j")
    journal.branch("s/a", 7, "x")
    journal.fork("s/a", 6, "f")
    rename(journal, "s/a", "b")
    assert shown(journal) == {"s": (6, None, 0), "s/b": (9, "s", 4), "s/x": (8, "s/b", 7)}
    assert shown(journal, "f") == {"f": (7, "s/b", 6)} and forks(journal, "s") == {
        Name("s", "b"): [Begin(6, Name("f"))]
    }
    assert is_intact(journal) and is_intact(journal, "f")
    delete(journal, "s/b", force=True)
    assert shown(journal, "f") == {"f": (7, "s/x", 6)}
    delete(journal, "s/x", force=True)
    assert shown(journal, "f") == {"f": (7, None, 0)} and forks(journal, "s") == {}


def test_the_commit_that_renames_is_signed_where_every_one_is(tmp_path: Path) -> None:
    journal = make(tmp_path / "j")
    keys.generate(tmp_path / "key")
    signing.write(journal.store, signing.Policy("every", str(tmp_path / "key")))
    rename(journal, "s/a", "b")
    assert b"gpgsig" in git("cat-file", "-p", "s/b", cwd=journal.path).stdout
    assert verify(journal, Name("s", "b")).signatures == 1


def test_two_names_for_one_branch_are_refused(tmp_path: Path) -> None:
    journal = make(tmp_path / "j")
    journal.branch("s", 2, "b")
    with pytest.raises(AlreadyExists):
        rename(journal, "s/a", "b")
    with pytest.raises(AlreadyExists, match="only in case"):
        rename(journal, "s/a", "A")
    with pytest.raises(UsageError):
        rename(journal, "s/a", "a")
    for bad in ("", "x\x00", "y" * 201):
        with pytest.raises(UsageError):
            rename(journal, "s/a", bad)
    assert set(shown(journal)) == {"s", "s/a", "s/b"}


def test_a_branch_that_does_not_say_its_name_cannot_be_renamed(tmp_path: Path) -> None:
    journal = make(tmp_path / "j")
    copy_ref(journal, "s/a", Name("s", "copy"))
    with pytest.raises(JournalError, match="does not say where it begins"):
        rename(journal, "s/copy", "b")
    assert set(shown(journal)) == {"s", "s/a", "s/copy"}


# --- cuts ----------------------------------------------------------------------------------------


def cut(work: Callable[[], object], at: int) -> bool:
    """Do ``work`` in a child that dies when it is about to change the disk for the ``at``-th time; whether it died."""

    def run() -> None:
        import os

        left = itertools.count(at, -1)

        def dying(change: Callable[..., Any]) -> Callable[..., Any]:
            def changed(*args: Any, **named: Any) -> Any:
                if next(left) == 0:
                    os._exit(9)
                return change(*args, **named)

            return changed

        for owner, method in ((Store, "cas_ref"), (Store, "write_pack"), (Store, "release"), (Path, "unlink")):
            setattr(owner, method, dying(getattr(owner, method)))
        os.replace = dying(os.replace)
        work()

    return forked(run) == 9


@pytest.mark.parametrize("packed", [False, True])
def test_a_rename_that_is_cut_is_finished_by_the_next(tmp_path: Path, packed: bool) -> None:
    for at in range(40):
        journal = make(tmp_path / f"j{at}")
        if packed:
            git("pack-refs", "--all", cwd=journal.path)
        died = cut(partial(rename, journal, "s/a", "b"), at)
        assert is_intact(journal)
        if died:
            assert {"s/a", "s/b"} & set(shown(journal))
            if "s/a" in shown(journal):
                rename(journal, "s/a", "b")
        assert shown(journal) == {"s": (6, None, 0), "s/b": (9, "s", 4)} and is_intact(journal)
        note(journal, "s/b")
        if not died:
            assert at > 3
            return
    pytest.fail("there is no end")


def test_a_rename_that_was_cut_is_not_finished_over_new_events(tmp_path: Path) -> None:
    journal = make(tmp_path / "j")
    assert cut(lambda: rename(gitjournal.open(journal.path), "s/a", "b"), 4)
    # Both are the same line, of which each event counts once.
    assert shown(journal) == {"s": (6, None, 0), "s/a": (8, "s", 4), "s/b": (9, "s/a", 8)}
    note(journal, "s/a")
    with pytest.raises(AlreadyExists):
        rename(journal, "s/a", "b")
    assert journal.head("s/a").seq == 9


def test_a_delete_that_is_cut_is_done_or_not(tmp_path: Path) -> None:
    for at in range(40):
        journal = make(tmp_path / f"j{at}")
        died = cut(partial(delete, journal, "s/a", force=True), at)
        assert is_intact(journal)
        if "s/a" in shown(journal):
            assert died
            delete(journal, "s/a", force=True)
        # What is left of it is not in the way of a new one.
        journal.branch("s", 3, "a")
        assert shown(journal) == {"s": (6, None, 0), "s/a": (4, "s", 3)} and is_intact(journal)
        if not died:
            return
    pytest.fail("there is no end")


# --- the command ---------------------------------------------------------------------------------


def test_branches_lists_forks_when_asked(gj: Gj, place: Path) -> None:
    journal = make(place)
    journal.fork("s/a", 6, "f")
    rows = [line.split()[:4] for line in gj("branches", "s", "--forks").stdout.splitlines()[1:]]
    assert rows == [["s", "6", "6", "-"], ["s/a", "8", "4", "s@4"], ["f", "7", "1", "s/a@6"]]
    one = json.loads(gj("branches", "s", "--forks", "--json").stdout.splitlines()[1])
    assert one["forks"] == [{"name": "f", "seq": 6}] and one["from"] == {"name": "s", "seq": 4}
    assert "forks" not in json.loads(gj("branches", "s", "--json").stdout.splitlines()[1])


def test_branch_deletes_and_renames_as_git_does(gj: Gj, place: Path) -> None:
    make(place)
    assert gj("branch", "-m", "s/a", "try").stdout.endswith(", was s/a\n")
    refused = gj("branch", "-d", "s/try", ok=False)
    assert (refused.exit_code, refused.stdout) == (1, "") and "--force" in refused.stderr
    done = gj("branch", "-d", "s/try", "-f")
    assert done.stdout.startswith("deleted s/try, which ended at 9 ") and "3 events beyond 4" in done.stderr
    assert gj("branch", "-d", "s/try", ok=False).exit_code == 4


def test_verify_does_not_miss_what_was_renamed_or_deleted_here(gj: Gj, place: Path) -> None:
    journal = make(place)
    gj("verify", "s")
    gj("branch", "-m", "s/a", "b")
    # What was known of the old name is known of the new one.
    assert "s/b: ok, 9 events, pinned at 8" in gj("verify", "s").stdout
    copy = journal.store.read_ref("refs/heads/s/b")
    gj("branch", "-d", "-f", "s/b")
    gj("verify", "s")
    journal.branch("s", 2, "b")
    gj("verify", "s")
    # What others do to it is missed all the same.
    git("update-ref", "-d", "refs/heads/s/b", cwd=journal.path)
    assert copy and "the branch is gone" in gj("verify", "s", ok=False).stdout


def test_branch_says_the_same_as_json(gj: Gj, place: Path) -> None:
    journal = make(place)
    made = json.loads(gj("branch", "--rename", "s/a", "b", "--json").stdout)
    assert made == {"renamed": "s/a", "name": "s/b", "seq": 9, "hash": journal.head("s/b").hash, "tracking": []}
    gone = json.loads(gj("branch", "--delete", "s/b", "--force", "--json").stdout)
    assert gone == {"deleted": {"name": "s/b", "seq": 9, "hash": made["hash"]}, "kept": 4, "lost": 3, "tracking": []}


@pytest.mark.parametrize(
    "words",
    [("s/a",), ("-d", "s/a", "b"), ("-m", "s/a"), ("-d", "-m", "s/a", "b"), ("-f", "s", "b"), ("-d", "s/a@5"),
     ("-m", "s/a", "s/b"), ("-d", "s"), ("-m", "s", "b")],
)  # fmt: skip
def test_what_cannot_be_meant_is_refused(gj: Gj, place: Path, words: tuple[str, ...]) -> None:
    journal = make(place)
    result = gj("branch", *words, ok=False)
    assert (result.exit_code, result.stdout) == (2, "") and len(result.stderr.splitlines()) <= 2
    assert set(shown(journal)) == {"s", "s/a"}
