"""Sessions back to their programs: only what must change changes, nothing is overwritten, nothing leads out."""

from __future__ import annotations

import inspect
import io
import itertools
import json
import sys
import uuid
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from imported import lines
from support import CORPUS, Gj
from transcripts import line, reply

from gitjournal import fold, objects
from gitjournal.errors import StorageError, UsageError
from gitjournal.formats import export, import_file
from gitjournal.formats.claude_beside import Beside
from gitjournal.formats.claude_code import ClaudeCode
from gitjournal.formats.records import records
from gitjournal.formats.restore import Placed, Restored, moved, restore
from gitjournal.formats.restore_claude import Claude, encoded
from gitjournal.formats.restore_codex import Codex
from gitjournal.formats.splice import added, spliced
from gitjournal.journal import Journal

ID = "6f0c3f1e-58c4-4f43-9d0b-3c1f5a2b7e11"
ROLLOUT = "019fc8be-3658-7ca3-9e29-0000000000aa"
OLD = "/home/ada/old"


def claude(n: int = 0, text: Any = "hello", **members: Any) -> bytes:
    return line(text, n, **{"sessionId": ID, "cwd": OLD, "version": "2.1.0", **members})


def header(session: str = ROLLOUT, **more: Any) -> dict[str, Any]:
    payload = {"id": session, "session_id": session, "cwd": OLD, "cli_version": "0.150.0", "timestamp": "x"} | more
    return {"timestamp": "2026-06-01T10:05:07.000Z", "type": "session_meta", "payload": payload}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "new place"
    folder.mkdir()
    return folder.resolve()


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


def take(journal: Journal, path: Path, content: bytes, **options: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    import_file(journal, path, **options)


def back(journal: Journal, home: Path, project: Path, session: str = ID, **options: Any) -> Restored:
    kind = Codex if session == ROLLOUT else Claude
    return restore(journal, journal.resolve(session), kind(home, project), **options)


def changes_in(before: bytes, after: bytes) -> list[tuple[Any, Any]]:
    """The values that differ, record by record, in the order of their members."""
    pairs = zip(map(json.loads, before.splitlines()), map(json.loads, after.splitlines()), strict=True)
    return [(old, new) for one, two in pairs for old, new in zip(_leaves(one), _leaves(two), strict=True) if old != new]


def _leaves(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [leaf for item in value.items() for leaf in _leaves(list(item))]
    return [leaf for item in value for leaf in _leaves(item)] if isinstance(value, list) else [value]


# --- Claude Code -------------------------------------------------------------------------------------


def test_a_session_is_where_the_program_looks_and_has_its_bytes(
    journal: Journal, home: Path, project: Path, tmp_path: Path
) -> None:
    content = claude() + claude(1, "x", cwd=f"{OLD}/sub") + claude(2, "y", cwd="/elsewhere") + b"torn {\n\0\0\n"
    take(journal, tmp_path / "a.jsonl", content)
    head = journal.head(ID)
    report = back(journal, home, project)
    (path,) = report.files
    assert path == home / "projects" / encoded(str(project)) / f"{ID}.jsonl"
    expected = content.replace(f'"{OLD}"'.encode(), json.dumps(str(project)).encode())
    assert path.read_bytes() == expected.replace(f'"{OLD}/sub"'.encode(), json.dumps(f"{project}/sub").encode())
    assert (report.session, report.former, dict(report.changed), report.notes) == (ID, ID, {"cwd": 2}, [])
    assert path.stat().st_mode & 0o077 == 0
    assert journal.head(ID) == head
    out = io.BytesIO()
    export(journal, ID, "claude-code", out)
    assert out.getvalue() == content, "the journal keeps the original"


def test_a_session_that_is_there_is_not_touched_and_the_new_one_has_a_new_id(
    journal: Journal, home: Path, project: Path, tmp_path: Path
) -> None:
    take(journal, tmp_path / "a.jsonl", claude() + reply("b", 1, sessionId=ID) + claude(2, ID))
    first = back(journal, home, project).files[0]
    kept = first.read_bytes()
    report = back(journal, home, project)
    assert uuid.UUID(report.session).version == 4 and report.session != ID
    assert first.read_bytes() == kept and report.files[0].name == f"{report.session}.jsonl"
    made = report.files[0].read_bytes()
    whence = b',"forkedFrom":{"sessionId":"%b","messageUuid":"u0"}' % ID.encode()
    assert made.count(whence) == 1 and made.index(whence) < made.index(b"\n"), "it says whence it comes"
    changed = changes_in(kept, made.replace(whence, b""))
    assert changed == [(ID, report.session)] * 3, "an id in a text is no id"
    assert dict(report.changed) == {"cwd": 2, "sessionId": 3, "forkedFrom": 1}


def test_it_is_the_same_session_for_another_project_too(
    journal: Journal, home: Path, project: Path, tmp_path: Path
) -> None:
    take(journal, tmp_path / "a.jsonl", claude())
    other = home / "projects" / "-elsewhere" / f"{ID}.jsonl"
    other.parent.mkdir(parents=True)
    other.write_bytes(b"kept\n")
    assert back(journal, home, project).session != ID
    assert other.read_bytes() == b"kept\n"


def test_an_id_that_the_program_would_not_take_is_a_new_one(
    journal: Journal, home: Path, project: Path, tmp_path: Path
) -> None:
    take(journal, tmp_path / "a.jsonl", line(cwd=OLD))
    report = back(journal, home, project, "s1")
    assert report.former == "s1" and uuid.UUID(report.session)
    assert json.loads(report.files[0].read_bytes())["sessionId"] == report.session


def test_sub_agents_and_outputs_come_along(journal: Journal, home: Path, project: Path, tmp_path: Path) -> None:
    source = tmp_path / "p" / f"{ID}.jsonl"
    beside = source.with_suffix("")
    (beside / "tool-results").mkdir(parents=True)
    (beside / "tool-results" / "t1.txt").write_bytes(b"whole")
    agent = claude(0, "do", isSidechain=True, agentId="a7")
    result = [{"type": "tool_result", "tool_use_id": "t", "content": "x"}]
    take(journal, source, claude(1, result, toolUseResult={"persistedOutputPath": "/x/tool-results/t1.txt"}))
    (beside / "subagents").mkdir()
    (beside / "subagents" / "agent-a7.meta.json").write_bytes(b'{"agentType":"x"}')
    take(journal, beside / "subagents" / "agent-a7.jsonl", agent)
    report = back(journal, home, project)
    root = home / "projects" / encoded(str(project))
    found = {path.relative_to(root).as_posix(): path.read_bytes() for path in root.rglob("*") if path.is_file()}
    assert set(found) == {
        f"{ID}.jsonl", f"{ID}/tool-results/t1.txt", f"{ID}/subagents/agent-a7.jsonl",
        f"{ID}/subagents/agent-a7.meta.json",
    }  # fmt: skip
    assert found[f"{ID}/tool-results/t1.txt"] == b"whole"
    assert found[f"{ID}/subagents/agent-a7.jsonl"] == agent.replace(OLD.encode(), str(project).encode())
    assert report.files[-1].name == f"{ID}.jsonl", "as long as it is missing, the program sees nothing"
    with pytest.raises(UsageError, match="sub-agent"):
        restore(journal, journal.resolve(f"{ID}.agent-a7"), Claude(home, project))


def test_a_name_in_a_transcript_leads_nowhere(journal: Journal, home: Path, project: Path, tmp_path: Path) -> None:
    take(journal, tmp_path / "a.jsonl", claude(cwd=OLD))
    for n, agent in enumerate(("../../../evil", "..", "a/b", ".hidden", "x" * 200)):
        take(journal, tmp_path / f"{n}.jsonl", claude(isSidechain=True, agentId=agent))
    take(journal, tmp_path / "b.jsonl", line(sessionId="../../evil", cwd=f"{OLD}/../../.."))
    assert len(back(journal, home, project).files) == 1
    report = back(journal, home, project, "../../evil")
    assert report.files[0].parent == home / "projects" / encoded(str(project))
    assert json.loads(report.files[0].read_bytes())["cwd"] == str(project)
    assert not [path for path in tmp_path.rglob("*evil*") if journal.store.path not in path.parents]


def test_a_file_without_a_last_newline_gets_one_and_it_is_said(
    journal: Journal, home: Path, project: Path, tmp_path: Path
) -> None:
    take(journal, tmp_path / "a.jsonl", claude()[:-1])
    report = back(journal, home, project)
    assert report.files[0].read_bytes().endswith(b"}\n") and "newline" in report.notes[0]


def test_what_was_recorded_here_is_left_out_and_it_is_said(
    journal: Journal, home: Path, project: Path, tmp_path: Path
) -> None:
    take(journal, tmp_path / "a.jsonl", claude())
    with journal.session(ID) as session:
        session.append("message", {"role": "user", "parts": []})
    report = back(journal, home, project)
    assert len(report.files[0].read_bytes().splitlines()) == 1 and "left out: 1" in report.notes[0]


def test_rewinds_and_copies_are_in_it(journal: Journal, home: Path, project: Path, tmp_path: Path) -> None:
    first = claude() + claude(1, "old", parentUuid="u0") + claude(2, "new", parentUuid="u0")
    take(journal, tmp_path / "a.jsonl", first)
    fork = {"sessionId": ID[:-1] + "2", "forkedFrom": {"sessionId": ID, "messageUuid": "u0"}}
    second = claude(**fork) + line("more", 1, sessionId=fork["sessionId"])
    take(journal, tmp_path / "b.jsonl", second)
    assert len(journal.branches(ID)) == 2
    for session, content in ((ID, first), (fork["sessionId"], second)):
        made = back(journal, home, project, session).files[0].read_bytes()
        assert made == content.replace(OLD.encode(), str(project).encode())


def test_a_session_that_is_placed_with_a_new_id_comes_back_as_a_branch_of_what_it_was(
    journal: Journal, home: Path, project: Path, tmp_path: Path
) -> None:
    take(journal, tmp_path / "a.jsonl", claude() + reply("b", 1, sessionId=ID, cwd=OLD))
    folder = tmp_path / "a" / "subagents"
    agent = {"isSidechain": True, "agentId": "7"}
    take(journal, folder / "agent-7.jsonl", claude(5, "do", **agent) + claude(6, "done", **agent))
    back(journal, home, project)
    report = back(journal, home, project)
    with report.files[-1].open("ab") as file:
        file.write(claude(2, "c", sessionId=report.session, cwd=str(project)))
    for path, past in ((report.files[-1], f"{ID}@3"), (report.files[0], f"{ID}.agent-7@3")):
        found = import_file(journal, path)
        state = fold(journal.events(found.session))
        assert state.forked_from and "{session}@{seq}".format(**state.forked_from) == past
        assert found.added == (path == report.files[-1]), "only what is new"
        out = io.BytesIO()
        export(journal, found.session, "claude-code", out)
        assert out.getvalue() == path.read_bytes()


def test_a_session_that_says_whose_fork_it_is_says_nothing_else(
    journal: Journal, home: Path, project: Path, tmp_path: Path
) -> None:
    fork = {"forkedFrom": {"sessionId": "s0", "messageUuid": "u0"}}
    take(journal, tmp_path / "a.jsonl", claude(**fork) + claude(1))
    back(journal, home, project)
    report = back(journal, home, project)
    assert "forkedFrom" not in report.changed and report.files[0].read_bytes().count(b"forkedFrom") == 1


def test_what_would_lead_the_program_elsewhere_is_changed(
    journal: Journal, home: Path, project: Path, tmp_path: Path
) -> None:
    # A session that was moved within the program, and one that ran in a work tree of git.
    content = claude() + lines(
        {"type": "relocated", "relocatedCwd": "/elsewhere", "sessionId": ID},
        {"type": "relocated", "relocatedCwd": f"{OLD}/sub", "sessionId": ID},
        {"type": "worktree-state", "worktreeSession": {"worktreePath": "/wt", "sessionId": ID}, "sessionId": ID},
        {"type": "worktree-state", "worktreeSession": None, "sessionId": ID},
    )
    take(journal, tmp_path / "a.jsonl", content)
    report = back(journal, home, project)
    assert dict(report.changed) == {"cwd": 1, "relocatedCwd": 2, "worktreeSession": 1}
    made = [json.loads(raw) for raw in report.files[0].read_bytes().splitlines()]
    assert [one.get("relocatedCwd") for one in made[1:3]] == [str(project), f"{project}/sub"]
    assert [one["worktreeSession"] for one in made[3:]] == [None, None]
    again = import_file(journal, report.files[0])
    assert (again.branch, again.added) == ("import-2", 0)


@pytest.mark.parametrize(
    ("path", "hashed"),
    # As the program makes them: the number of a text in Java, without its sign, to the base of 36.
    [("/" + "x" * 250, "v734pd"), ("/" + "x" * 199, ""), ("/" + "\U0001f600" * 120, "fp2zqh")],
)
def test_a_folder_with_a_long_path_has_a_hash_in_its_name(
    journal: Journal, home: Path, tmp_path: Path, path: str, hashed: str
) -> None:
    assert encoded(path)[200:] == (f"-{hashed}" if hashed else "")
    take(journal, tmp_path / "a.jsonl", claude())
    (placed,) = back(journal, home, Path(path)).files
    assert placed.parent.name == encoded(path)


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/home/ada/my.app", "-home-ada-my-app"),
        ("/a-b/c_d e", "-a-b-c-d-e"),
        ("C:\\Users\\ada", "C--Users-ada"),
        ("/caf\u00e9", "-caf-"),
        ("/cafe\u0301", "-caf-"),
        ("/\U0001f600", "---"),
    ],
)
def test_the_folder_of_a_project(path: str, name: str) -> None:
    assert encoded(path) == name


def test_a_file_that_is_there_is_never_overwritten(
    journal: Journal, home: Path, project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    take(journal, tmp_path / "a.jsonl", claude())
    there = back(journal, home, project).files[0]
    there.write_bytes(b"kept\n")
    monkeypatch.setattr(Claude, "taken", lambda *_: False)
    for dry_run in (True, False):
        with pytest.raises(UsageError, match="nothing is overwritten"):
            back(journal, home, project, dry_run=dry_run)
    # The same when it appears between the look and the writing.
    monkeypatch.setattr(Path, "exists", lambda _: False)
    with pytest.raises(UsageError, match="nothing is overwritten"):
        back(journal, home, project)
    assert there.read_bytes() == b"kept\n"


def test_a_name_of_a_side_file_leads_nowhere(
    journal: Journal, home: Path, project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    named = [objects.side_file(b"x", "text/plain", name) for name in ("../../../evil", "..", "/evil", "a/evil", "good")]
    monkeypatch.setattr(Beside, "of", lambda *_: named)
    take(journal, tmp_path / "a.jsonl", claude())
    for name in ("a/b", "../../evil"):
        take(journal, tmp_path / "b.jsonl", claude(1, isSidechain=True, agentId="7"), session=f"{ID}.agent-{name}")
    report = back(journal, home, project)
    assert [path.name for path in report.files] == ["good", f"{ID}.jsonl"]
    assert not [path for path in tmp_path.rglob("*evil*") if journal.store.path not in path.parents]
    left = "../../evil, a/b, ../../../evil, .., /evil, ..."
    assert report.notes == [f"left out: 6 sub-agents or files whose names are no plain ones: {left}"]


def test_a_line_that_came_in_two_steps_is_no_file_beside(
    journal: Journal, home: Path, project: Path, tmp_path: Path
) -> None:
    whole = claude() + claude(1, "x" * 300)
    for content in (whole[:-40], whole):
        take(journal, tmp_path / "a.jsonl", content)
    report = back(journal, home, project)
    assert [path.name for path in report.files] == [f"{ID}.jsonl"]
    assert report.files[0].read_bytes() == whole.replace(OLD.encode(), str(project).encode())


# --- Codex -------------------------------------------------------------------------------------------


def rollout() -> bytes:
    said = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": f"<cwd>{OLD}</cwd>"}]}
    turn = {"turn_id": "t1", "cwd": f"{OLD}/sub", "workspace_roots": [OLD], "id": "other"}
    stamp = "2026-06-01T10:05:08.000Z"
    return lines(
        header(),
        {"timestamp": stamp, "type": "turn_context", "payload": turn},
        {"timestamp": stamp, "type": "response_item", "payload": said},
        {"timestamp": stamp, "type": "session_meta", "payload": {"id": ID, "cwd": "/elsewhere"}},
    )


def test_a_rollout_is_where_codex_looks(journal: Journal, home: Path, project: Path, tmp_path: Path) -> None:
    take(journal, tmp_path / "a.jsonl", rollout())
    report = back(journal, home, project, ROLLOUT)
    (path,) = report.files
    assert path == home / "sessions" / "2026" / "06" / "01" / f"rollout-2026-06-01T10-05-07-{ROLLOUT}.jsonl"
    assert changes_in(rollout(), path.read_bytes()) == [(OLD, str(project)), (f"{OLD}/sub", f"{project}/sub")]
    assert report.command == f"cd '{project}' && codex resume {ROLLOUT}"


@pytest.mark.parametrize("tree", ["sessions/2025/01/02", "archived_sessions"])
def test_a_rollout_that_is_there_makes_a_new_id(
    journal: Journal, home: Path, project: Path, tmp_path: Path, tree: str
) -> None:
    there = home / tree / f"rollout-2025-01-02T03-04-05-{ROLLOUT}.jsonl.zst"
    there.parent.mkdir(parents=True)
    there.write_bytes(b"kept")
    take(journal, tmp_path / "a.jsonl", rollout())
    report = back(journal, home, project, ROLLOUT)
    assert uuid.UUID(report.session).version == 7 and there.read_bytes() == b"kept"
    whence = {"payload.forked_from_id": 1}
    assert dict(report.changed) == {"payload.cwd": 2, "payload.id": 1, "payload.session_id": 1} | whence
    made = [json.loads(raw)["payload"] for raw in report.files[0].read_bytes().splitlines()]
    assert made[3]["id"] == ID and "forked_from_id" not in made[3], "that of an ancestor stays"
    assert made[0]["forked_from_id"] == ROLLOUT
    again = import_file(journal, report.files[0])
    assert (again.session, again.added, again.copied) == (report.session, 0, 4), "it is a branch of what it was"


def test_a_rollout_without_a_header_is_refused(journal: Journal, home: Path, project: Path, tmp_path: Path) -> None:
    take(journal, tmp_path / "a.jsonl", b"".join(rollout().splitlines(keepends=True)[1:3]))
    with pytest.raises(UsageError, match="Codex opens no rollout without one"):
        restore(journal, journal.resolve("a"), Codex(home, project))
    assert not home.exists()


def test_a_rollout_of_a_newer_version_is_a_branch_of_what_it_was(
    journal: Journal, home: Path, project: Path, tmp_path: Path
) -> None:
    ids = {"thread_id": ROLLOUT, "session_id": ROLLOUT, "turn_id": "t1"}
    used = {"input_tokens": 10, "output_tokens": 2}
    item = {"type": "AgentMessage", "content": [{"type": "Text", "text": "Done."}]}
    settings = {"type": "thread_settings_applied", "thread_id": ROLLOUT, "thread_settings": {"cwd": OLD, "model": "m"}}
    shown = {"type": "item_completed", "thread_id": ROLLOUT, "turn_id": "t1", "item": item}
    values = [
        header(),
        {"type": "event_msg", "payload": settings},
        {"type": "event_msg", "payload": shown},
        {
            "type": "token_usage_record",
            "payload": ids | {"response_id": "r1", "usage": used, "thread_token_usage": used},
        },
    ]
    content = lines(*({"timestamp": "2026-06-01T10:05:07.000Z"} | value for value in values))
    take(journal, tmp_path / "a.jsonl", content)
    back(journal, home, project, ROLLOUT)
    report = back(journal, home, project, ROLLOUT)
    made = report.files[0].read_bytes()
    assert made.count(ROLLOUT.encode()) == 1 and OLD.encode() not in made, "but in forked_from_id"
    again = import_file(journal, report.files[0])
    assert (again.session, again.added, again.copied) == (report.session, 0, 4)


FORK = "019fc8be-3658-7ca3-9e29-0000000000ff"


def by_reference(**more: Any) -> bytes:
    """A fork that holds only what came after the second line of the rollout."""
    base = {"thread_id": ROLLOUT, "end_ordinal_exclusive": 2, "end_byte_offset": 999}
    said = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "more"}]}
    return lines(
        header(FORK, forked_from_id=ROLLOUT, history_base=base | more) | {"ordinal": 2},
        {"timestamp": "2026-06-02T10:05:08.000Z", "type": "response_item", "payload": said, "ordinal": 3},
    )


def test_a_fork_that_refers_to_its_past_brings_it_along(
    journal: Journal, home: Path, project: Path, tmp_path: Path
) -> None:
    take(journal, tmp_path / "a.jsonl", rollout())
    take(journal, tmp_path / "b.jsonl", by_reference())
    report = restore(journal, journal.resolve(FORK), Codex(home, project))
    past, own = report.files
    assert past.name.endswith(f"{ROLLOUT}.jsonl") and own.name.endswith(f"{FORK}.jsonl")
    assert own.read_bytes() == by_reference().replace(OLD.encode(), str(project).encode(), 1)
    # Where the program has it already, it stays as it is.
    own.unlink()
    kept = past.read_bytes()
    assert restore(journal, journal.resolve(FORK), Codex(home, project)).files == [own]
    assert past.read_bytes() == kept


def test_a_fork_whose_past_is_nowhere_is_refused(journal: Journal, home: Path, project: Path, tmp_path: Path) -> None:
    take(journal, tmp_path / "b.jsonl", by_reference())
    with pytest.raises(UsageError, match=f"goes on from session {ROLLOUT}, which neither Codex nor the journal has"):
        restore(journal, journal.resolve(FORK), Codex(home, project))
    assert not home.exists()


def fork_of(of: str, session: str = FORK) -> bytes:
    """A fork by reference of any session."""
    base = {"thread_id": of, "end_ordinal_exclusive": 2}
    return lines(header(session, history_base=base) | {"ordinal": 2}, header(session) | {"ordinal": 3})


@pytest.mark.parametrize(
    "evil",
    ["x/../../../../../../evil/pwn", "../evil", "/evil/**", "a/main", "pre*fix", "a**b", "[", "", ROLLOUT[:8]],
)
def test_attack_a_past_whose_id_is_a_path_a_pattern_or_a_part(
    journal: Journal, home: Path, project: Path, tmp_path: Path, evil: str
) -> None:
    # There is a rollout with the part of an id in its name, and a session of the very name.
    take(journal, tmp_path / "a.jsonl", rollout())
    back(journal, home, project, ROLLOUT)
    if evil:
        take(journal, tmp_path / "e.jsonl", rollout().replace(ROLLOUT.encode(), evil.encode()))
    take(journal, tmp_path / "b.jsonl", fork_of(evil))
    before = {path for path in tmp_path.rglob("*") if journal.store.path not in path.parents}
    for dry_run in (True, False):
        if evil:
            with pytest.raises(UsageError, match="no rollout of Codex has such an id"):
                restore(journal, journal.resolve(FORK), Codex(home, project), dry_run=dry_run)
    assert {path for path in tmp_path.rglob("*") if journal.store.path not in path.parents} == before


@pytest.mark.parametrize("of_the_past", [FORK, ROLLOUT], ids=["each-other", "itself"])
def test_attack_forks_that_go_on_from_each_other(
    journal: Journal, home: Path, project: Path, tmp_path: Path, of_the_past: str
) -> None:
    take(journal, tmp_path / "a.jsonl", fork_of(of_the_past, ROLLOUT))
    take(journal, tmp_path / "b.jsonl", fork_of(ROLLOUT))
    for session in (FORK, ROLLOUT):
        with pytest.raises(UsageError, match="goes on from itself"):
            restore(journal, journal.resolve(session), Codex(home, project))
    assert not home.exists()


def test_attack_a_past_that_is_another_session_under_its_id(
    journal: Journal, home: Path, project: Path, tmp_path: Path
) -> None:
    take(journal, tmp_path / "a.jsonl", rollout().replace(ROLLOUT.encode(), ID.encode()), session=ROLLOUT)
    take(journal, tmp_path / "b.jsonl", fork_of(ROLLOUT))
    with pytest.raises(UsageError, match="which neither Codex nor the journal has"):
        restore(journal, journal.resolve(FORK), Codex(home, project))
    assert not home.exists()


def test_a_long_row_of_forks_comes_whole(journal: Journal, home: Path, project: Path, tmp_path: Path) -> None:
    ids = [f"{ROLLOUT[:-4]}{number:04x}" for number in range(40)]
    take(journal, tmp_path / "0.jsonl", rollout().replace(ROLLOUT.encode(), ids[0].encode()))
    for number, (of, own) in enumerate(itertools.pairwise(ids), 1):
        take(journal, tmp_path / f"{number}.jsonl", fork_of(of, own))
    limit = sys.getrecursionlimit()
    try:
        sys.setrecursionlimit(len(inspect.stack(0)) + 100)
        report = restore(journal, journal.resolve(ids[-1]), Codex(home, project))
    finally:
        sys.setrecursionlimit(limit)
    assert [path.stem[-36:] for path in report.files] == ids, "the oldest first"


@pytest.mark.parametrize("evil", ["../out", "sessions/../../out", "/elsewhere/out"])
def test_attack_a_placement_that_leads_out_writes_nothing(
    journal: Journal, home: Path, project: Path, tmp_path: Path, evil: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Codex, "place", lambda *_: iter([Placed(home / "good", b"x"), Placed(home / evil, b"x")]))
    take(journal, tmp_path / "a.jsonl", rollout())
    with pytest.raises(UsageError, match="leads out of"):
        back(journal, home, project, ROLLOUT)
    assert not list(tmp_path.rglob("out")) and not (home / "good").exists()


# --- whatever is in the records ----------------------------------------------------------------------

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=6) | st.just(OLD),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["cwd", "payload", "a", "\u00e9"]), inner, max_size=3)
    ),
    max_leaves=12,
)


@given(st.dictionaries(st.sampled_from(["cwd", "payload", "id", "\u00e9"]), VALUES), st.sampled_from([None, 2]))
def test_only_the_members_that_change_change(value: dict[str, Any], indent: int | None) -> None:
    raw = (
        json.dumps(value, indent=indent, ensure_ascii=False).encode("utf-8", "surrogatepass").replace(b"\n", b" ")
        + b" \n"
    )
    changes = {
        ("cwd",): lambda text: text.replace(OLD, "/n\u00e9w"),
        ("payload", "cwd"): lambda text: text.replace(OLD, "/x"),
    }
    for record in records(io.BytesIO(raw)):
        made, changed = spliced(record, changes)
        expected = json.loads(record.raw)
        if isinstance(expected.get("cwd"), str):
            expected["cwd"] = expected["cwd"].replace(OLD, "/n\u00e9w")
        if isinstance(inner := expected.get("payload"), dict) and isinstance(inner.get("cwd"), str):
            inner["cwd"] = inner["cwd"].replace(OLD, "/x")
        assert json.loads(made) == expected
        assert made == record.raw or changed
        for path in ((), ("payload",)):
            of = json.loads(record.raw)
            inner = of.get("payload") if path else of
            if isinstance(inner, dict) and inner:
                inner["more"] = {"of": "\u00e9"}
            assert json.loads(added(record, path, {"more": {"of": "\u00e9"}})) == of


@pytest.mark.parametrize(
    "raw",
    [b'{"cwd": "a", "cwd": "a", "x": {"cwd": "a"}}\n', b'\xef\xbb\xbf {"x":[{"cwd":"a"}],"cwd":"\\u0061" }\r\n'],
    ids=["twice", "bom-and-escape"],
)
def test_a_name_in_another_object_and_a_repeated_name(raw: bytes) -> None:
    (record,) = records(io.BytesIO(raw))
    made, changed = spliced(record, {("cwd",): lambda _: "b"})
    assert made == raw.replace(b'"cwd": "a"', b'"cwd": "b"', 2 if raw[0:1] == b"{" else 0).replace(b'"\\u0061"', b'"b"')
    assert len(changed) == raw.count(b"cwd") - 1


@pytest.mark.parametrize(
    "raw",
    [
        b"[1]\n",
        b'"cwd"\n',
        b"torn {\n",
        b'{"cwd":"caf\xe9"}\n',
        b"\n",
        b'{"cwd":3}\n',
        b"{}\n",
        b"1152921504606846976\n",
    ],
)
def test_what_is_no_object_stays(raw: bytes) -> None:
    (record,) = records(io.BytesIO(raw))
    assert spliced(record, {("cwd",): lambda _: "b"}) == (raw, [])
    if raw != b'{"cwd":3}\n':
        assert added(record, (), {"more": 1}) == raw
    assert added(record, ("cwd",), {"more": 1}) == raw


@pytest.mark.parametrize(
    ("value", "old", "expected"),
    [
        ("/a/b", "/a/b", "/n"), ("/a/b/c", "/a/b", "/n/c"), ("/a/bc", "/a/b", None), ("/a", "/a/b", None),
        ("/a/b/../../etc", "/a/b", "/n"), ("/a/b//c/", "/a/b", "/n/c"), ("/a/b", None, None),
        ("/a/b/c", "/a/b/", "/n/c"),
        ("C:\\p\\q", "C:\\p", "/n/q"), ("C:\\p\\..\\q", "C:\\p", "/n"), ("/etc", "/", "/n/etc"), ("", "/a", None),
    ],
)  # fmt: skip
def test_a_folder_within_the_project(value: str, old: str | None, expected: str | None) -> None:
    assert moved(value, old, Path("/n")) == expected


# --- refusals ----------------------------------------------------------------------------------------


def test_a_session_of_another_program_is_refused(journal: Journal, home: Path, project: Path, tmp_path: Path) -> None:
    take(journal, tmp_path / "a.jsonl", rollout())
    with pytest.raises(UsageError, match="not imported from claude-code but from codex"):
        restore(journal, journal.resolve(ROLLOUT), Claude(home, project))
    with journal.session("live", create=True) as session:
        session.append("note", {})
    with pytest.raises(UsageError, match="not imported"):
        restore(journal, journal.resolve("live"), Codex(home, project))
    assert not home.exists()


@pytest.mark.parametrize("name", ["caf\udce9", "a\nb", "\x1b[2J"])
def test_a_folder_whose_name_is_no_text_is_refused(journal: Journal, home: Path, tmp_path: Path, name: str) -> None:
    take(journal, tmp_path / "a.jsonl", claude())
    with pytest.raises(UsageError, match="cannot stand in a transcript"):
        back(journal, home, tmp_path / name)
    assert not home.exists()


def test_a_disk_that_is_full_leaves_no_file(
    journal: Journal, home: Path, project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    take(journal, tmp_path / "a.jsonl", claude() + claude(1))
    monkeypatch.setattr("os.fsync", _full)
    with pytest.raises(StorageError, match="No space"):
        back(journal, home, project)
    assert not [path for path in home.rglob("*") if path.is_file()]


def _full(_: int) -> None:
    raise OSError(28, "No space left on device")


# --- the command -------------------------------------------------------------------------------------


@pytest.fixture
def programs(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME"):
        monkeypatch.setenv(name, str(home))
    return home


def test_the_command_says_what_it_did(gj: Gj, programs: Path, project: Path, tmp_path: Path) -> None:
    source = tmp_path / "a.jsonl"
    source.write_bytes(claude() + claude(1)[:-1])
    gj("init")
    gj("import", source)
    dry = gj("restore", ID, "--to", project, "--dry-run").stdout
    assert "would place" in dry and not programs.exists()
    said = gj("restore", ID[:8], "--to", project).stdout
    assert "placed" in said and "cwd in 2 records" in said and "newline" in said and "claude --resume" in said
    told = json.loads(gj("restore", ID, "--to", project, "--as", "claude-code", "--json").stdout)
    assert told["former"] == ID != told["session"] and Path(told["files"][0]).exists() and told["dry_run"] is False


def test_what_cannot_be_restored_is_one_line(gj: Gj, programs: Path, project: Path, tmp_path: Path) -> None:
    source = tmp_path / "a.jsonl"
    source.write_bytes(claude())
    gj("init")
    gj("import", "records", source, "--session", "plain")
    gj("import", source)
    for words in (
        ("plain", "--to", project), (ID, "--to", tmp_path / "nowhere"), (ID, "--to", source),
        (ID, "--to", project, "--as", "codex"), (f"{ID}@1", "--to", project), ("nothing", "--to", project),
    ):  # fmt: skip
        result = gj("restore", *words, ok=False)
        assert result.exit_code and not result.stdout and not programs.exists()


@pytest.mark.skipif(not CORPUS.exists(), reason="the public corpus is not here")
@pytest.mark.parametrize("path", sorted((CORPUS / "claude-code").glob("*")), ids=lambda path: path.name[:30])
def test_files_of_the_corpus(journal: Journal, home: Path, project: Path, path: Path) -> None:
    name = import_file(journal, path).session
    report = back(journal, home, project, name)
    made, content = report.files[-1].read_bytes(), path.read_bytes()
    assert made.endswith(b"\n")
    before = [record.raw for record in ClaudeCode().cut(io.BytesIO(content))]
    after = [record.raw for record in ClaudeCode().cut(io.BytesIO(made))]
    assert len(before) == len(after)
    changed = sum(old.rstrip(b"\n") != new.rstrip(b"\n") for old, new in zip(before, after, strict=True))
    assert changed <= max(report.changed.values(), default=0) or report.changed["sessionId"]
