"""Erasing payloads: what is gone, what still holds, and an erasure that is cut at every step."""

from __future__ import annotations

import io
import json
import os
import shutil
import sys
import threading
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support import event as support_event
from support import forked, git, git_text
from test_faults import Faults

import gitjournal
from gitjournal import erase as room
from gitjournal import keys, objects, pack, proof, sshsig
from gitjournal.cli_progress import shown
from gitjournal.errors import FormatError, JournalError, LeaseHeld, NotFound, StorageError, UsageError
from gitjournal.journal import Journal
from gitjournal.keys import Signer
from gitjournal.refs import Name
from gitjournal.signers import AllowedSigners
from gitjournal.verify import Checks, verify, verify_session

SECRET = "correct horse battery staple"
BIG = "a very long secret " * 4000
SHARED = "shared by two events " * 4000


@pytest.fixture(scope="module")
def ana(tmp_path_factory: pytest.TempPathFactory) -> Signer:
    return keys.generate(tmp_path_factory.mktemp("ana") / "key")


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory, ana: Signer) -> Path:
    """Session s, sealed and signed; its branch b and its fork f have the secret of event 5, session t has none."""
    journal = gitjournal.init(tmp_path_factory.mktemp("erase") / "journal")
    with journal.session("s", create=True, signer=ana) as s:
        s.append_many([("message", {"n": n}, "user") for n in range(2, 5)])
        s.append("message", {"text": SECRET}, actor="user")
        s.append("message", {"text": BIG}, actor="user")
        s.append("message", {"text": SHARED}, actor="user")
        s.append("message", {"text": SHARED, "again": 1}, actor="user")
        s.append_many([("message", {"n": n}, "user") for n in range(9, 12)])
    journal.branch("s", at=9, as_="b")
    journal.fork("s", at=5, session="f")
    journal.branch("s", at=3, as_="early")
    with journal.session("t", create=True) as t:
        t.append("message", {"text": SHARED}, actor="user")
    return journal.path


@pytest.fixture
def journal(base: Path, tmp_path: Path) -> Journal:
    shutil.copytree(base, tmp_path / "copy", symlinks=True)
    return gitjournal.open(tmp_path / "copy")


def allowed(signer: Signer) -> AllowedSigners:
    return AllowedSigners.parse(f"ana {signer.line}\n")


def everything(path: Path) -> Iterator[bytes]:
    """All bytes that anybody could find in a journal: files as they are, and git's objects."""
    for file in path.rglob("*"):
        if file.is_file():
            raw = file.read_bytes()
            yield raw
            if len(file.name) == 38:
                yield zlib.decompress(raw)
    yield git("cat-file", "--batch", "--batch-all-objects", cwd=path).stdout


def check_erased(journal: Journal, ana: Signer, signed_to: int = 12) -> None:
    """The secret is nowhere, and all that was stated before still holds."""
    fresh = gitjournal.open(journal.path)
    assert not any(SECRET.encode() in raw for raw in everything(journal.path))
    git("fsck", "--strict", "--full", cwd=journal.path)
    for name in ("s", "s/b", "f"):
        report = verify(fresh, name, Checks(signers=allowed(ana)))
        assert report.ok, (name, report.findings)
        assert report.withheld == [5]
        newest = list(fresh.events(name))[-1]
        assert newest.type == "session.erasure" or name == "s"
    assert verify(fresh, "s", Checks(signers=allowed(ana))).signed_to == signed_to
    assert all(one.ok for one in verify_session(fresh, "s"))


def hashes(journal: Journal, name: str) -> list[str]:
    return [event.hash for event in journal.events(name)]


def test_what_is_gone_and_what_holds(journal: Journal, ana: Signer) -> None:
    before = {name: hashes(journal, name) for name in ("s", "s/b", "f", "s/early", "t")}
    proofs = [proof.inclusion(journal, "s", seq) for seq in (4, 5, 6)]
    done = room.erase(journal, "s", [5], "a password", ana)
    assert {str(name): seqs for name, seqs in done.plan.branches.items()} == {"s": [5], "s/b": [5], "f": [5]}
    assert (done.left, done.resigned, done.unsigned, done.plan.guessable) == ([], 1, 0, [])
    check_erased(journal, ana)
    for name, old in before.items():
        new = hashes(journal, name)
        assert new[: len(old)] == old, "event hashes do not change"
        assert len(new) == len(old) + (name not in ("s/early", "t"))
    assert journal.event("s", 13).data == {"seqs": [5], "reason": "a password"}
    for raw in proofs:
        assert proof.check(raw, allowed(ana)).ok
    with journal.session("s") as s:
        s.append("message", {"after": 1})
    check_erased(journal, ana)


def test_stock_git_knows_the_signatures_after_it(journal: Journal, ana: Signer, tmp_path: Path) -> None:
    room.erase(journal, "s", [5], "x", ana)
    file = tmp_path / "allowed_signers"
    file.write_text(f"ana {ana.line}\n")
    seal = git_text("rev-list", "--grep=^session.seal #12", "s/main", cwd=journal.path).split()
    git("-c", f"gpg.ssh.allowedSignersFile={file}", "verify-commit", *seal, cwd=journal.path)


def test_without_the_key_commits_lose_their_signature_and_seals_keep_theirs(journal: Journal, ana: Signer) -> None:
    done = room.erase(journal, "s", [5], "x")
    assert (done.resigned, done.unsigned) == (0, 1)
    check_erased(journal, ana, signed_to=11)


def test_nobody_signs_in_the_name_of_another(journal: Journal, ana: Signer, tmp_path: Path) -> None:
    done = room.erase(journal, "s", [5], "x", keys.generate(tmp_path / "other"))
    assert (done.resigned, done.unsigned) == (0, 1)


def test_side_files_that_nobody_else_uses_are_gone(journal: Journal) -> None:
    done = room.erase(journal, "s", [6, 7], "x")
    assert done.left == []
    everywhere = list(everything(journal.path))
    assert not any(BIG.encode()[:200] in raw for raw in everywhere)
    assert any(SHARED.encode() in raw for raw in everywhere), "event 8, and another session"
    assert journal.event("s", 8).data["text"] == SHARED == journal.event("t", 2).data["text"]


def test_again_changes_nothing(journal: Journal, ana: Signer) -> None:
    room.erase(journal, "s", [5], "x", ana)
    refs = git_text("for-each-ref", cwd=journal.path)
    done = room.erase(journal, "s", [5], "y", ana)
    assert (done.plan.branches, done.plan.done) == ({}, [5])
    assert git_text("for-each-ref", cwd=journal.path) == refs


def test_a_plan_changes_nothing(journal: Journal) -> None:
    before = {path: path.read_bytes() for path in journal.path.rglob("*") if path.is_file()}
    planned = room.plan(journal, "s", [5, 6], "x")
    assert (len(planned.blobs), len(planned.files)) == (2, 1)
    assert before == {path: path.read_bytes() for path in journal.path.rglob("*") if path.is_file()}


def test_what_cannot_be_erased(journal: Journal) -> None:
    for seqs, error in (([12], UsageError), ([99], NotFound), ([0], NotFound), ([], UsageError)):
        with pytest.raises(error):
            room.erase(journal, "s", seqs, "x")
    with pytest.raises(UsageError):
        room.erase(journal, "s", [5], "  ")
    with pytest.raises(UsageError):
        room.erase(journal, "f", [6], "x")


def test_a_branch_that_is_being_written_is_left_alone(journal: Journal) -> None:
    refs = git_text("for-each-ref", cwd=journal.path)
    with journal.session("f", sign="off"), pytest.raises(LeaseHeld):
        room.erase(journal, "s", [5], "x")
    assert git_text("for-each-ref", cwd=journal.path) == refs
    assert room.finish(journal) is None, "nothing was begun"


def test_a_broken_journal_is_not_erased_in(journal: Journal) -> None:
    head = git_text("rev-parse", "s/main~1", cwd=journal.path).strip()
    (journal.path / "refs" / "heads" / "s" / "b").write_text(head + "\n")
    with pytest.raises(FormatError, match="nothing was erased"):
        room.erase(gitjournal.open(journal.path), "s", [5], "x")


def test_what_is_only_in_the_tail_and_what_was_set_aside(journal: Journal, ana: Signer) -> None:
    tail = journal.chain(Name("s")).tail_path
    with journal.session("s", sign="off") as s:
        s.append("message", {"text": "tail secret"})
        s.append("message", {"n": 1})
        copy = tail.read_bytes()
    tail.parent.mkdir(parents=True, exist_ok=True)
    assert b"tail secret" in copy
    tail.with_suffix(".torn").write_bytes(copy[:200])
    room.erase(journal, "s", [13], "x")
    assert not any(b"tail secret" in raw for raw in everything(journal.path))


def test_old_objects_under_another_ref_are_named(journal: Journal) -> None:
    git("tag", "old", "s/main", cwd=journal.path)
    done = room.erase(journal, "s", [5], "x")
    assert len(done.left) == 1
    git("tag", "-d", "old", cwd=journal.path)


def test_unsalted_events_are_guessable(journal: Journal, tmp_path: Path) -> None:
    source = tmp_path / "log.jsonl"
    source.write_text('{"a":"yes"}\n{"a":"no"}\n')
    from gitjournal import formats

    formats.import_file(journal, source, format="records", session="imported")
    assert room.plan(journal, "imported", [2, 3], "x").guessable == [2, 3]


def test_remotes_are_named_without_their_passwords(journal: Journal) -> None:
    git("remote", "add", "backup", "https://user:token@example.com/x.git", cwd=journal.path)
    (remote,) = room.erase(journal, "s", [5], "x").remotes
    assert (remote.name, remote.url) == ("backup", "https://example.com/x.git")
    assert "token" not in remote.command and "push" in remote.command


def test_the_command_for_a_remote_takes_the_old_objects_out_of_it(journal: Journal, tmp_path: Path) -> None:
    git("init", "--bare", "-q", str(tmp_path / "backup.git"))
    git("remote", "add", "backup", str(tmp_path / "backup.git"), cwd=journal.path)
    git("push", "-q", "backup", "refs/heads/*:refs/heads/*", cwd=journal.path)
    (remote,) = room.erase(journal, "s", [5], "x").remotes
    import shlex

    git(*shlex.split(remote.command)[1:])
    git("gc", "-q", "--prune=now", cwd=tmp_path / "backup.git")
    assert not any(SECRET.encode() in raw for raw in everything(tmp_path / "backup.git"))


# --- cut anywhere ----------------------------------------------------------------------------------


def attempt(path: Path, at: int, how: str) -> int:
    """An erasure in a child whose ``at``-th call that changes the disk fails; its exit status."""
    faults = Faults(at, how)

    def work() -> None:
        faults.install()
        try:
            room.erase(gitjournal.open(path), "s", [5], "x")
        except JournalError:
            os._exit(3)
        os._exit(0 if faults.count >= at else 4)

    return forked(work)


@pytest.mark.parametrize("how", ["die-before", "die-after", "ENOSPC", "EIO"])
def test_cut_at_every_call_it_is_not_done_or_the_next_run_finishes_it(
    base: Path, tmp_path: Path, ana: Signer, how: str
) -> None:
    # Each way takes its own share of the calls: a repack of git is in each try.
    at, steps = ["die-before", "die-after", "ENOSPC", "EIO"].index(how) - 5, 0
    while True:
        at += 6
        path = tmp_path / f"{at}"
        shutil.copytree(base, path)
        status = attempt(path, at, how)
        journal = gitjournal.open(path)
        for name in ("s", "s/b", "f"):
            report = verify(journal, name)
            assert report.ok, (at, name, report.findings)
            assert not report.withheld or report.withheld == [5]
        room.erase(gitjournal.open(path), "s", [5], "x")
        check_erased(journal, ana, signed_to=11)
        erasures = [event for event in journal.events("s") if event.type == "session.erasure"]
        assert len(erasures) == 1, at
        shutil.rmtree(path)
        steps += 1
        if status == 4:
            break
    assert steps > 8


def test_cut_while_the_index_forgets_the_next_run_sees_to_it(journal: Journal) -> None:
    def cut(_: Journal) -> str:
        raise KeyboardInterrupt

    def forget(there: Journal) -> str:
        begun.append(room.is_unfinished(there))
        return "another process reads it"

    begun: list[bool] = []
    with pytest.raises(KeyboardInterrupt):
        room.erase(journal, "s", [5], "x", forget=cut)
    done = room.finish(gitjournal.open(journal.path), forget=forget)
    assert begun == [True]
    assert done is not None
    assert done.indexed == "another process reads it"
    assert not room.is_unfinished(journal)


DAMAGED = [
    "{", "[]", "{}", '{"name":"s/main"}',
    '{"blobs":[],"files":[],"heads":{},"name":"s/main","reason":"x","seqs":["x"],"tracking":{}}',
    '{"blobs":[],"files":[],"heads":{},"name":"s/main","reason":"x","seqs":[99999999],"tracking":{}}',
    '{"blobs":["zz"],"files":[],"heads":{},"name":"s/main","reason":"x","seqs":[5],"tracking":{}}',
    '{"blobs":[],"files":[],"heads":{},"name":"s/main","reason":"x","seqs":[12],"tracking":{}}',
    '{"blobs":[],"files":[],"heads":{},"name":"none/main","reason":"x","seqs":[5],"tracking":{}}',
]  # fmt: skip


@pytest.mark.parametrize("content", DAMAGED)
def test_a_damaged_or_planted_intent_is_named(journal: Journal, content: str) -> None:
    (journal.path / "gitjournal" / "erase.json").write_text(content)
    refs = git_text("for-each-ref", cwd=journal.path)
    with pytest.raises(StorageError, match=r"erase\.json"):
        room.erase(journal, "s", [5], "x")
    assert git_text("for-each-ref", cwd=journal.path) == refs


# --- attacks ---------------------------------------------------------------------------------------


def test_a_planted_intent_does_not_get_a_forged_history_signed(journal: Journal, ana: Signer) -> None:
    """Eve rewrites t, puts Ana's public key into signatures that are none, and an intent into the folder."""
    events = list(journal.events("t"))
    deriver = objects.Deriver()
    bogus = sshsig.enclose(ana.public, "git", sshsig.string(b"ssh-ed25519") + sshsig.string(bytes(64)))
    made = []
    for event in events:
        forged = (
            event if event.seq < 2 else support_event(seq=2, prev=events[0].hash, session="t", data={"n": "forged"})
        )
        derived = deriver.push(forged)
        commit = deriver.sign(forged, bogus)
        trees = [(pack.TREE, *one) for one in derived.trees]
        made += [(pack.COMMIT, *commit), *trees, (pack.BLOB, *derived.blob)]
    pack.write(journal.path / "objects" / "pack", made, sync=False)
    git("update-ref", "refs/heads/t/main", (deriver.head or b"").hex(), cwd=journal.path)
    intent = {"blobs": [], "files": [], "heads": {}, "name": "t/main", "reason": "x", "seqs": [1], "tracking": {}}
    (journal.path / "gitjournal" / "erase.json").write_text(json.dumps(intent))
    fresh = gitjournal.open(journal.path)
    with pytest.raises(FormatError, match="not intact"):
        room.erase(fresh, "s", [5], "x", ana)
    report = verify(gitjournal.open(journal.path), "t", Checks(signers=allowed(ana), require_signed=True))
    assert not report.ok and report.signed_to == 0


def test_the_journals_own_log_is_not_erased_in(journal: Journal) -> None:
    with pytest.raises(UsageError, match="log"):
        room.erase(journal, "journal", [1], "x")
    assert gitjournal.open(journal.path).head("s").seq == 12


def test_a_branch_that_came_back_with_the_payload(journal: Journal, ana: Signer) -> None:
    """Somebody pushes an old branch again: what is withheld on one line is erased on the other."""
    old = git_text("rev-parse", "s/b", cwd=journal.path).strip()
    git("bundle", "create", "-q", journal.path.parent / "old.bundle", "s/b", cwd=journal.path)
    room.erase(journal, "s", [5], "x", ana)
    git("fetch", "-q", journal.path.parent / "old.bundle", "s/b", cwd=journal.path)
    git("update-ref", "refs/heads/s/b", old, cwd=journal.path)
    git("update-ref", "-d", "FETCH_HEAD", cwd=journal.path, check=False)
    (journal.path / "FETCH_HEAD").unlink(missing_ok=True)
    fresh = gitjournal.open(journal.path)
    done = room.erase(fresh, "s", [5], "again", ana)
    assert {str(name) for name in done.plan.branches} == {"s/b"} and done.left == []
    check_erased(journal, ana)


def test_a_branch_cannot_begin_meanwhile(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    began: list[bool] = []
    carry_out = room._carry_out

    def beside(*args: Any) -> Any:
        thread = threading.Thread(target=lambda: (journal.branch("s", at=6, as_="late"), began.append(True)))
        thread.start()
        thread.join(0.3)
        assert not began, "it waits"
        done = carry_out(*args)
        threads.append(thread)
        return done

    threads: list[threading.Thread] = []
    monkeypatch.setattr(room, "_carry_out", beside)
    room.erase(gitjournal.open(journal.path), "s", [5], "x")
    threads[0].join()
    report = verify(gitjournal.open(journal.path), Name("s", "late"))
    assert (report.ok, report.withheld) == (True, [5])


def test_payloads_in_an_alternate_are_reported(journal: Journal, tmp_path: Path) -> None:
    git("clone", "-q", "--bare", "--shared", journal.path, tmp_path / "shared")
    done = room.erase(gitjournal.open(tmp_path / "shared"), "s", [5], "x")
    assert len(done.left) == 1


@pytest.mark.parametrize(
    ("name", "url"), [("o", "https://[bad"), ("--receive-pack=touch x", "/x"), ("o", "/a\nremote.evil.url /b")]
)
def test_hostile_remotes(journal: Journal, name: str, url: str) -> None:
    git("config", f"remote.{name}.url", url, cwd=journal.path)
    (remote,) = room.erase(journal, "s", [5], "x").remotes
    assert (remote.command == "") == (name != "o" or "\n" in url)
    assert not room.is_unfinished(journal)


def test_what_git_remembers_of_a_remote_goes_too(journal: Journal, tmp_path: Path) -> None:
    git("init", "--bare", "-q", str(tmp_path / "backup.git"))
    git("remote", "add", "backup", str(tmp_path / "backup.git"), cwd=journal.path)
    git("push", "-q", "backup", "refs/heads/*:refs/heads/*", cwd=journal.path)
    git("fetch", "-q", "backup", cwd=journal.path)
    done = room.erase(journal, "s", [5], "x")
    assert done.left == []
    assert not any(SECRET.encode() in raw for raw in everything(journal.path))


# --- what is said meanwhile ----------------------------------------------------------------------


def test_a_long_erasure_says_how_far_it_is(journal: Journal) -> None:
    with journal.session("s") as session:
        session.append_many([("message", {"n": n}, "user") for n in range(300)])
    said: list[str] = []
    room.erase(journal, "s", [5], "by mistake", say=said.append)
    phases = [text.split(",")[0] for text in said]
    assert [*dict.fromkeys(phase.split()[0] for phase in phases)] == ["checking", "writing", "removing"]
    assert len([text for text in said if "of 313 events of 's'" in text]) >= 4, said


@pytest.mark.parametrize("terminal", [True, False])
def test_it_is_said_on_a_terminal_only_and_wiped_out(terminal: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    class Screen(io.StringIO):
        def isatty(self) -> bool:
            return terminal

    screen = Screen()
    monkeypatch.setattr(sys, "stderr", screen)
    with pytest.raises(KeyError), shown() as progress:
        for text in ("checking 5 events", "writing anew, event 1 of 5", "writing anew, event 2 of 5", "removing"):
            progress(text)
        raise KeyError
    parts = screen.getvalue().split("\r\x1b[K")
    assert parts == (["", "checking 5 events", "writing anew, event 1 of 5", "removing", ""] if terminal else [""])
