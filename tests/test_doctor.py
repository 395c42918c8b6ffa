"""What `gj doctor` finds, and that it finds nothing where nothing is wrong."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import time
from functools import partial
from pathlib import Path

import pytest
from support import Gj, git
from transcripts import line, reply

import gitjournal
from gitjournal import Journal, doctor, live, signing
from gitjournal.doctor import Trouble
from gitjournal.errors import StorageError
from gitjournal.formats import import_file
from gitjournal.formats.homes import Place
from gitjournal.formats.protocol import Home
from gitjournal.refs import Name
from gitjournal.signing import Policy

#: Records that say all about their session that later ones could.
said = partial(line, cwd="/home/ada")
replied = partial(reply, cwd="/home/ada")


def quiet(_: str) -> None:
    return


def found(journal: Journal) -> dict[str, Trouble]:
    troubles = list(doctor.examine(journal, quiet))
    assert all("\n" not in one.what and one.number > 0 for one in troubles)
    return {one.code: one for one in troubles}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "claude"
    (folder / "projects" / "-x").mkdir(parents=True)
    return folder


def waiting(journal: Journal, home: Path, keeps_days: int | None = 30) -> dict[str, Trouble]:
    place = Place("claude-code", Home("", "", ("projects/**/*.jsonl",), keeps_days), home)
    return {one.code: one for one in doctor.machine(journal, [place], home / "state", quiet)}


# --- the machine ---------------------------------------------------------------------------------


def test_sessions_that_are_not_imported_and_when_they_go(journal: Journal, home: Path) -> None:
    path = home / "projects" / "-x" / "s1.jsonl"
    for number in (1, 2):
        path.with_name(f"s{number}.jsonl").write_bytes(
            said(sessionId=f"s{number}") * 1 + said(n=1, sessionId=f"s{number}")
        )
    (path.parent / "notes.jsonl").write_text("no session\n")
    old = time.time() - 26.5 * 86_400
    os.utime(path, (old, old))
    told = waiting(journal, home)
    assert set(told) == {"import-new"}
    new = told["import-new"]
    assert (new.number, new.serious) == (2, True)
    assert new.what.startswith("2 sessions of claude-code not in the journal")
    assert new.what.endswith("deletes the first in 3 days")
    assert new.mend == f"gj import claude-code {shlex.quote(str(home))}"
    assert waiting(journal, home, None)["import-new"].what.endswith("MB)")
    os.utime(path, (1, 1))
    assert waiting(journal, home)["import-new"].what.endswith("deletes the first now")


def test_what_is_imported_is_not_spoken_of_and_what_has_grown_is(journal: Journal, home: Path) -> None:
    path = home / "projects" / "-x" / "s1.jsonl"
    path.write_bytes(said(n=0) + said(n=1) + said(n=2))
    import_file(journal, path)
    assert waiting(journal, home) == {}
    # A line that is being written is nobody's fault.
    path.write_bytes(path.read_bytes() + said(n=3)[:20])
    assert waiting(journal, home) == {}
    path.write_bytes(said(n=0) + said(n=1) + said(n=2) + said(n=3) + said(n=4))
    told = waiting(journal, home)
    assert set(told) == {"import-grown"} and told["import-grown"].number == 1
    # Under another name it is the same session.
    import_file(journal, path)
    path.rename(path.with_name("other.jsonl"))
    assert waiting(journal, home) == {}


def test_a_file_that_cannot_be_read_hides_no_other(
    journal: Journal, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b"):
        (home / "projects" / f"{name}.jsonl").write_bytes(said(sessionId=name))
    real = doctor.import_file

    def broken(journal: Journal, path: Path, **how: object) -> object:
        if path.name == "a.jsonl":
            raise StorageError("a bad sector")
        return real(journal, path, **how)  # type: ignore[arg-type]

    monkeypatch.setattr(doctor, "import_file", broken)
    assert waiting(journal, home)["import-new"].number == 1


def test_errors_of_hooks(journal: Journal, home: Path) -> None:
    for number in (1, 2):
        live.log_error(home / "state", StorageError(f"disk {number}"))
    told = waiting(journal, home)["hook-failed"]
    assert told.number == 2 and told.what.endswith(": disk 2")
    subprocess.run(["sh", "-c", told.mend], check=True)
    assert waiting(journal, home) == {}


# --- the journal ---------------------------------------------------------------------------------


def test_a_journal_in_order_has_nothing(journal: Journal) -> None:
    assert found(journal) == {}
    with journal.session("s1", source="console") as s:
        s.user("hello")
        with s.tool_call("shell", {}, id="c1") as call:
            call.result("done")
        # While somebody is at work, nothing of it is wrong.
        s.tool_call("shell", {}, id="c2")
        assert found(journal) == {}
        s.tool_result("c2", "done")
    assert found(journal) == {}


def test_a_lost_writer_leaves_a_tail_and_calls(journal: Journal, gj: Gj) -> None:
    with journal.session("s1", source="console") as s:
        s.user("hello")
        s.flush()
        s.tool_call("shell", {}, id="c1")
        s.tool_call("ask", {}, id="c2", requires="confirmation")
        tail = journal.chain(Name("s1")).tail_path.read_bytes()
        s.flush()
        head = git("rev-parse", "refs/heads/s1/main~2", cwd=journal.path).stdout.decode().strip()
    git("update-ref", "refs/heads/s1/main", head, cwd=journal.path)
    path = journal.chain(Name("s1")).tail_path
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(tail)
    told = found(gitjournal.open(journal.path))
    assert set(told) == {"unflushed", "open-calls"}
    assert (told["unflushed"].number, told["unflushed"].mend) == (2, "gj flush s1")
    assert (told["open-calls"].number, told["open-calls"].mend) == (1, "gj resume s1")
    for one in told.values():
        gj("-J", str(journal.path), *shlex.split(one.mend)[1:])
    assert found(gitjournal.open(journal.path)) == {}


def test_locks_that_nobody_holds(journal: Journal) -> None:
    (journal.path / "packed-refs.lock").touch()
    assert found(journal) == {}
    os.utime(journal.path / "packed-refs.lock", (1, 1))
    lock = journal.path / "refs" / "heads" / "s1" / "main.lock"
    lock.parent.mkdir(parents=True)
    lock.touch()
    os.utime(lock, (1, 1))
    told = [one for one in doctor.examine(journal, quiet) if one.code == "stale-lock"]
    assert len(told) == 2
    for one in told:
        subprocess.run(["sh", "-c", one.mend], check=True)
    assert found(journal) == {}


@pytest.mark.parametrize(
    ("spec", "code"),
    [(None, "no-refspec"), ("+refs/*:refs/*", "mirror"), ("refs/heads/*:refs/heads/*", "mirror"),
     ("+refs/heads/*:refs/remotes/a b/*", None)],
)  # fmt: skip
def test_remotes_that_bring_nothing_or_take_away(journal: Journal, spec: str | None, code: str | None) -> None:
    git("config", "remote.a b.url", "/nowhere", cwd=journal.path)
    if spec:
        git("config", "remote.a b.fetch", spec, cwd=journal.path)
    told = {key: one for key, one in found(journal).items() if key in ("no-refspec", "mirror")}
    assert set(told) == ({code} if code else set())
    for one in told.values():
        subprocess.run(["sh", "-c", one.mend], check=True)
    assert not {"no-refspec", "mirror"} & set(found(journal))


def test_what_a_killed_writer_left_among_the_packs(journal: Journal, gj: Gj) -> None:
    folder = journal.store.pack_folder
    with journal.session("s", create=True) as session:
        session.user("words")
    left, alive = folder / "tmp_pack_left", folder / "tmp_pack_alive"
    for path in (left, alive):
        path.write_bytes(b"words")
    os.utime(left, (1, 1))
    assert found(journal)["unfinished-pack"].number == 1
    gj("-J", journal.path, "gc")
    assert not left.exists() and alive.exists() and "unfinished-pack" not in found(journal)

    [one] = folder.glob("pack-*.pack")
    one.with_suffix(".idx").unlink()
    assert "pack-without-index" not in found(journal), "it may be about to get one"
    os.utime(one, (1, 1))
    trouble = found(journal)["pack-without-index"]
    subprocess.run(shlex.split(trouble.mend), check=True, capture_output=True)
    assert "pack-without-index" not in found(journal) and journal.head("s").seq == 2


def test_heads_without_the_signature_that_is_wanted(journal: Journal, tmp_path: Path, gj: Gj) -> None:
    with journal.session("s1", source="console") as s:
        s.user("hello")
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(tmp_path / "key")], check=True)
    signing.write(journal.store, Policy("seal", str(tmp_path / "key")))
    told = found(journal)
    assert told["unsigned"].mend == "gj seal s1"
    gj("-J", str(journal.path), "seal", "s1")
    assert "s1" not in told.get("x", Trouble("", "")).what and "unsigned" not in {
        one.code for one in doctor.examine(gitjournal.open(journal.path), quiet) if one.what.startswith("s1:")
    }


def test_records_that_could_not_be_read_are_good_to_know(journal: Journal, tmp_path: Path) -> None:
    path = tmp_path / "s1.jsonl"
    path.write_bytes(said(n=0) + b'{"torn\n{"torn too\n' + replied("x", 2, parentUuid="nowhere"))
    import_file(journal, path)
    told = [one for one in doctor.examine(journal, quiet) if not one.serious]
    assert sorted((one.code, one.number) for one in told) == [("orphans", 1), ("unread", 2)]
    assert found(journal).keys() == {"orphans", "unread"}


def test_open_calls_of_an_import_are_its_programs_business(journal: Journal, tmp_path: Path) -> None:
    path = tmp_path / "s1.jsonl"
    path.write_bytes(said(n=0) + replied([{"type": "tool_use", "id": "t1", "name": "Bash", "input": {}}], 1))
    import_file(journal, path)
    assert found(journal) == {}


def test_a_damaged_branch_is_said_and_stops_nothing(journal: Journal) -> None:
    for name in ("a", "b"):
        with journal.session(name, source="console") as s:
            s.user("hello")
    (journal.path / "refs" / "heads" / "a" / "main").write_text("0" * 39 + "1\n")
    (journal.path / "packed-refs.lock").touch()
    os.utime(journal.path / "packed-refs.lock", (1, 1))
    told = found(gitjournal.open(journal.path))
    assert {"unreadable", "stale-lock"} <= set(told) and told["unreadable"].mend == "gj verify a"


# --- the command ---------------------------------------------------------------------------------


def test_the_command(gj: Gj, place: Path, home: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(home))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("HOME", str(tmp_path / "nobody"))
    # A journal that was asked for must be there; one's own need not be yet.
    assert gj("-J", str(place), "doctor", ok=False).exit_code == 4
    monkeypatch.delenv("GITJOURNAL_DIR")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    assert gj("doctor").stderr == "gj: nothing needs a hand\n" and not (tmp_path / "data").exists()
    monkeypatch.setenv("GITJOURNAL_DIR", str(place))
    gitjournal.init(place)
    done = gj("doctor")
    assert (done.stdout, done.stderr) == ("", "gj: nothing needs a hand\n")
    (home / "projects" / "-x" / "s1.jsonl").write_bytes(said("\x1b[31mred") + b'{"torn\n')
    failed = gj("doctor", ok=False)
    assert failed.exit_code == 1
    first, second = failed.stdout.splitlines()
    assert first.startswith("1 session of claude-code not in the journal") and second.startswith(
        "  gj import claude-code "
    )
    [told] = [json.loads(one) for one in gj("doctor", "--json", ok=False).stdout.splitlines()]
    assert told["code"] == "import-new" and told["serious"] is True
    gj("import", str(home / "projects" / "-x" / "s1.jsonl"))
    done = gj("doctor")
    assert done.exit_code == 0 and "s1: pieces of its file that are no JSON, kept as they are: 1" in done.stdout
