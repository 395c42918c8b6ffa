"""A session that is written again for another place: its history is there once, and each file comes back whole."""

from __future__ import annotations

import json
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from imported import forget, given_back, lines, take, texts
from transcripts import line, reply

import gitjournal
from gitjournal import Journal, doctor, fold, objects
from gitjournal.erase import erase
from gitjournal.errors import FormatError
from gitjournal.event import Event
from gitjournal.formats import again, copied, import_file
from gitjournal.formats.homes import places
from gitjournal.formats.restore import restore
from gitjournal.formats.restore_claude import Claude
from gitjournal.formats.restore_codex import Codex
from gitjournal.writer import Draft, Writer

ID = "6f0c3f1e-58c4-4f43-9d0b-3c1f5a2b7e11"
ROLLOUT = "019fc8be-3658-7ca3-9e29-0000000000aa"
OLD = "/home/ada/old"
USAGE = {"input_tokens": 100, "output_tokens": 7}


def said(n: int, text: Any = None, cwd: str = OLD, **members: Any) -> bytes:
    return line(text or f"words {n}", n, sessionId=ID, cwd=cwd, **members)


def answer(n: int, cwd: str = OLD) -> bytes:
    block = [{"type": "text", "text": f"answer {n}"}]
    return reply(block, n, usage=USAGE, message={"id": f"msg_{n}"}, sessionId=ID, cwd=cwd)


#: With records that have no id, a torn one, and half a line at the end.
HISTORY = (
    lines({"type": "file-history-snapshot", "messageId": "m", "snapshot": {}})
    + said(0) + answer(1) + b"torn {\n" + said(2) + answer(3)
)  # fmt: skip


def exported(journal: Journal, name: str, fmt: str = "claude-code") -> bytes:
    return given_back(journal, name, fmt)


def refs(journal: Journal) -> dict[str, Any]:
    return {str(name): journal.head(name) for session in (ID, ROLLOUT) for name in journal.branches(session)}


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    return gitjournal.init(tmp_path / "journal.git")


def moved(content: bytes, cwd: str = "/new") -> bytes:
    return content.replace(json.dumps(OLD).encode(), json.dumps(cwd).encode())


def restored(journal: Journal, tmp_path: Path, name: str = ID, place: str = "home") -> Path:
    project = tmp_path / f"{place}-project"
    project.mkdir()
    return restore(journal, journal.resolve(name), Claude(tmp_path / place, project)).files[-1]


def test_a_restored_session_is_no_second_copy_of_its_history(journal: Journal, tmp_path: Path) -> None:
    take(journal, tmp_path / "a.jsonl", HISTORY)
    path = restored(journal, tmp_path)
    report = import_file(journal, path)
    assert (report.added, report.copied, report.branch) == (0, 6, "import-2")
    assert any("say the same" in note for note in report.notes)
    assert exported(journal, ID) == HISTORY and exported(journal, f"{ID}/import-2") == path.read_bytes()
    (held,) = [event for event in journal.events(f"{ID}/import-2") if copied.is_copied(event)]
    assert held.data["of"] == "main" and held.data["start"]["project"].endswith("home-project")
    assert held.files[0]["size"] < len(HISTORY) * 0.6
    assert [event.type for event in journal.events(f"{ID}/import-2")][-2:] == ["session.branch", "native"]


def test_its_turns_and_tokens_count_once_and_it_grows(journal: Journal, tmp_path: Path) -> None:
    take(journal, tmp_path / "a.jsonl", HISTORY)
    before = fold(journal.events(ID))
    path = restored(journal, tmp_path)
    content = path.read_bytes()
    import_file(journal, path)
    state = fold(journal.events(f"{ID}/import-2"))
    assert (state.turns, state.usage) == (before.turns, before.usage)
    grown = content + said(4, cwd="/new") + answer(5, "/new")
    report = take(journal, path, grown)
    assert (report.added, report.branch) == (2, "import-2")
    assert exported(journal, f"{ID}/import-2") == grown and exported(journal, ID) == HISTORY
    assert fold(journal.events(f"{ID}/import-2")).turns["user"] == before.turns["user"] + 1
    assert fold(journal.events(ID)).turns == before.turns
    assert take(journal, tmp_path / "a.jsonl", HISTORY + said(6)).branch == "main"


def test_importing_it_again_adds_nothing_with_and_without_the_note(journal: Journal, tmp_path: Path) -> None:
    take(journal, tmp_path / "a.jsonl", HISTORY)
    import_file(journal, path := restored(journal, tmp_path))
    before = refs(journal)
    for _ in range(2):
        for one in (path, tmp_path / "a.jsonl"):
            report = import_file(journal, one)
            assert report.added == 0 and refs(journal) == before
            assert report.branch == ("import-2" if one == path else "main")
        forget(journal)
    report = take(journal, path, path.read_bytes() + said(7))
    assert (report.added, report.branch, report.skipped_known) == (1, "import-2", 6)


@pytest.mark.parametrize("what", ["pipe", "device", "folder"])
def test_what_is_no_note_in_the_place_of_one_is_none(journal: Journal, tmp_path: Path, what: str) -> None:
    take(journal, tmp_path / "a.jsonl", HISTORY)
    (note,) = (journal.path / "gitjournal" / "index").rglob("*.import")
    note.unlink()
    if what == "pipe":
        os.mkfifo(note)
    elif what == "device":
        note.symlink_to("/dev/zero")
    else:
        note.mkdir()
    assert take(journal, tmp_path / "a.jsonl", HISTORY + said(7)).added == 1
    assert exported(journal, ID) == HISTORY + said(7)


def test_at_once_or_bit_by_bit_and_tried_before(journal: Journal, tmp_path: Path) -> None:
    take(journal, tmp_path / "a.jsonl", HISTORY)
    content = moved(HISTORY) + said(8)
    report = take(journal, tmp_path / "b.jsonl", content, dry_run=True)
    assert (report.added, report.copied, len(journal.branches(ID))) == (1, 6, 1)
    assert take(journal, tmp_path / "b.jsonl", content).added == 1
    assert exported(journal, f"{ID}/import-2") == content


def test_a_third_place_goes_by_the_version_that_has_most(journal: Journal, tmp_path: Path) -> None:
    take(journal, tmp_path / "a.jsonl", HISTORY)
    path = restored(journal, tmp_path)
    take(journal, path, path.read_bytes() + said(4) + answer(5))
    third = restored(journal, tmp_path, f"{ID}/import-2", "other")
    report = take(journal, third, third.read_bytes() + said(6))
    assert (report.added, report.copied, report.branch) == (1, 8, "import-3")
    for branch, file in (("import-2", path), ("import-3", third)):
        assert exported(journal, f"{ID}/{branch}") == file.read_bytes()
    forget(journal)
    assert import_file(journal, third).added == 0
    # An older one in a new place leaves the version within the part that it has of another.
    older = moved(HISTORY, "/fourth")
    assert take(journal, tmp_path / "d.jsonl", older).added == 0
    assert exported(journal, f"{ID}/import-4") == older


def test_a_long_row_of_places_has_an_end(journal: Journal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for room in (again, copied):
        monkeypatch.setattr(room, "MOST_LEVELS", 3)
    content = said(0) + answer(1)
    take(journal, tmp_path / "a.jsonl", content)
    for n in range(2, 8):
        content = moved(content, f"/p{n}").replace(f'"/p{n - 1}"'.encode(), f'"/p{n}"'.encode()) + said(n, cwd=f"/p{n}")
        take(journal, tmp_path / f"{n}.jsonl", content)
        assert exported(journal, f"{ID}/import-{n}") == content


def test_a_rewind_in_it_is_there_once(journal: Journal, tmp_path: Path) -> None:
    history = said(0) + said(1, "old", parentUuid="u0") + said(2, "new", parentUuid="u0") + answer(3)
    assert take(journal, tmp_path / "a.jsonl", history).rewinds == 1
    content = moved(history) + said(4)
    report = take(journal, tmp_path / "b.jsonl", content)
    assert (report.added, report.copied) == (1, 4)
    assert exported(journal, f"{ID}/import-2") == content
    assert fold(journal.events(f"{ID}/import-2")).turns["user"] == 3, "without what was gone back from"
    forget(journal)
    assert take(journal, tmp_path / "b.jsonl", content).added == 0


@pytest.mark.parametrize("at_once", [True, False])
def test_going_back_into_what_is_there_of_another_version_is_a_branch(
    journal: Journal, tmp_path: Path, at_once: bool
) -> None:
    take(journal, tmp_path / "a.jsonl", HISTORY)
    content = moved(HISTORY) + said(8, "again", parentUuid="u1", cwd="/new") + answer(9, "/new")
    if not at_once:
        take(journal, tmp_path / "b.jsonl", moved(HISTORY))
        forget(journal)
    report = take(journal, tmp_path / "b.jsonl", content)
    assert (report.rewinds, report.branch) == (1, "import-2.rewind-1")
    assert exported(journal, f"{ID}/import-2") == content and exported(journal, ID) == HISTORY
    state = fold(journal.events(f"{ID}/{report.branch}"))
    assert texts(state.history) == ["words 0", "answer 1", "again", "answer 9"]
    for _ in range(2):
        assert take(journal, tmp_path / "b.jsonl", content).added == 0
        forget(journal)
    grown = content + said(10, cwd="/new", parentUuid="u9")
    assert take(journal, tmp_path / "b.jsonl", grown).branch == "import-2.rewind-1"
    assert exported(journal, f"{ID}/import-2") == grown


def test_a_third_place_knows_where_the_records_are(journal: Journal, tmp_path: Path) -> None:
    take(journal, tmp_path / "a.jsonl", HISTORY)
    take(journal, tmp_path / "b.jsonl", moved(HISTORY) + said(4, cwd="/new"))
    third = moved(HISTORY, "/third") + said(4, cwd="/third") + said(8, "again", parentUuid="u1", cwd="/third")
    assert take(journal, tmp_path / "c.jsonl", third).rewinds == 1
    assert texts(fold(journal.events(f"{ID}/import-3.rewind-1")).history)[-2:] == ["answer 1", "again"]
    assert exported(journal, f"{ID}/import-3") == third


@pytest.mark.parametrize("places", [3, [3], [[1, "main"]], [[0, "main", 1]], [[1, 2, 3]], [[1, "main", None]]])
def test_odd_places_are_none(journal: Journal, tmp_path: Path, places: Any) -> None:
    take(journal, tmp_path / "a.jsonl", HISTORY)
    take(journal, tmp_path / "b.jsonl", moved(HISTORY))
    (held,) = [event for event in journal.events(f"{ID}/import-2") if copied.is_copied(event)]
    name = journal.resolve(f"{ID}/import-2")
    assert [run.position for run in copied.copied_places(name, held)] == [1]
    odd = SimpleNamespace(stored_data={**held.stored_data, "places": places})
    assert copied.copied_places(name, cast(Event, odd)) == []


@pytest.mark.parametrize(
    "changed",
    [
        HISTORY.replace(b"words 2", b"other 2"),
        moved(HISTORY).replace(b"words 2", b"other 2"),
        moved(HISTORY).replace(b'"snapshot": {}', b'"snapshot": {"a": 1}'),
        moved(HISTORY).replace(b"torn {", b"torn ["),
    ],
    ids=["said otherwise", "said otherwise elsewhere", "a snapshot", "a torn one"],
)
def test_what_says_something_else_is_a_record_of_its_own(journal: Journal, tmp_path: Path, changed: bytes) -> None:
    take(journal, tmp_path / "a.jsonl", HISTORY)
    report = take(journal, tmp_path / "b.jsonl", changed)
    differs = next(
        n
        for n, (a, b) in enumerate(zip(moved(HISTORY).splitlines(), moved(changed).splitlines(), strict=True))
        if a != b
    )
    assert report.skipped_known + report.copied == differs and report.added == 6 - differs
    assert exported(journal, f"{ID}/import-2") == changed


def test_a_rollout_too(journal: Journal, tmp_path: Path) -> None:
    meta = {"id": ROLLOUT, "session_id": ROLLOUT, "cwd": OLD, "cli_version": "0.150.0", "timestamp": "x"}
    message = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]}
    stamp = "2026-06-01T10:05:07.000Z"
    content = lines(
        {"timestamp": stamp, "type": "session_meta", "payload": meta},
        {"timestamp": stamp, "type": "turn_context", "payload": {"turn_id": "t1", "cwd": OLD}},
        {"timestamp": stamp, "type": "response_item", "payload": message},
    )
    take(journal, tmp_path / "a.jsonl", content)
    (tmp_path / "new").mkdir()
    path = restore(journal, journal.resolve(ROLLOUT), Codex(tmp_path / "home", tmp_path / "new")).files[0]
    report = import_file(journal, path)
    assert (report.added, report.copied, report.session) == (0, 3, ROLLOUT)
    assert exported(journal, f"{ROLLOUT}/import-2", "codex") == path.read_bytes() != content


def test_a_version_that_goes_by_itself_is_an_error_and_no_endless_loop(journal: Journal, tmp_path: Path) -> None:
    take(journal, tmp_path / "a.jsonl", HISTORY)
    journal.branch(journal.resolve(ID), 2, "import-2", epoch=1, more={"position": 1, "generation": "main"})
    data = {"format": "claude-code", "type": "copied", "of": "import-2", "records": 1}
    held = objects.side_file(b"\x03\x00", "application/octet-stream", "copied")
    with Writer(journal.chain(journal.resolve(f"{ID}/import-2")), epoch=1, salted=False) as writer:
        writer.append_many([Draft("native", data, files=[held])], expected_seq=3)
    with pytest.raises(FormatError, match="by itself"):
        exported(journal, f"{ID}/import-2")
    assert take(journal, tmp_path / "b.jsonl", moved(HISTORY)).copied == 6


RECORDS = st.lists(
    st.one_of(
        st.builds(said, st.integers(0, 5), st.sampled_from(["a", "b"]), st.sampled_from([OLD, "/x"])),
        st.builds(answer, st.integers(0, 5), st.sampled_from([OLD, "/x"])),
        st.sampled_from([b"torn {\n", b"\n", b'{"cwd":"/home/ada/old"}\n', b"\0\0\n", b'{"cwd":1}\n']),
    ),
    min_size=1,
    max_size=6,
).map(lambda found: said(9) + b"".join(found))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=40)
@given(RECORDS, st.booleans(), RECORDS, st.integers(0, 400))
def test_whatever_changes_every_version_comes_back(
    tmp_path_factory: pytest.TempPathFactory, first: bytes, same: bool, other: bytes, cut: int
) -> None:
    folder = tmp_path_factory.mktemp("again")
    journal = gitjournal.init(folder / "j.git")
    versions = [first, (moved(first) if same else moved(other)) + other, moved(first, "/z")[: max(cut, 300)]]
    found: dict[str, bytes] = {}
    for n, content in enumerate(versions):
        report = take(journal, folder / f"{n}.jsonl", content, session=ID)
        # A version is exported by the name that it began with.
        branch = report.branch.split(".")[0] if report.branch.startswith("import") else "main"
        found[branch] = max(found.get(branch, b""), content, key=len)
        forget(journal)
        report = import_file(journal, folder / f"{n}.jsonl", session=ID)
        assert report.added == report.copied == 0
    for branch, content in found.items():
        assert exported(journal, f"{ID}/{branch}") == content


def test_when_a_record_that_it_goes_by_is_erased_it_is_said_and_imports_go_on(journal: Journal, tmp_path: Path) -> None:
    take(journal, tmp_path / "a.jsonl", HISTORY)
    take(journal, tmp_path / "b.jsonl", content := moved(HISTORY) + said(4))
    erase(journal, ID, [3], "a name")
    forget(journal)
    with pytest.raises(FormatError, match="copied part"):
        exported(journal, f"{ID}/import-2")
    report = take(journal, tmp_path / "b.jsonl", content)
    assert report.branch == "import-3" and exported(journal, f"{ID}/import-3") == content


def test_outputs_come_along_to_a_third_place(journal: Journal, tmp_path: Path) -> None:
    source = tmp_path / "p" / f"{ID}.jsonl"
    output = source.with_suffix("") / "tool-results" / "t1.txt"
    output.parent.mkdir(parents=True)
    output.write_bytes(b"whole")
    result = [{"type": "tool_result", "tool_use_id": "t", "content": "x"}]
    take(journal, source, said(0) + said(1, result, toolUseResult={"persistedOutputPath": "/x/tool-results/t1.txt"}))
    import_file(journal, restored(journal, tmp_path))
    third = restored(journal, tmp_path, f"{ID}/import-2", "other")
    assert (third.with_suffix("") / "tool-results" / "t1.txt").read_bytes() == b"whole"


def test_for_doctor_a_restored_session_is_there_and_one_that_grew_is_there_in_part(
    journal: Journal, tmp_path: Path
) -> None:
    take(journal, tmp_path / "a.jsonl", HISTORY)
    path = restored(journal, tmp_path)
    (place,) = [one for one in places({"CLAUDE_CONFIG_DIR": str(tmp_path / "home")}) if one.format == "claude-code"]
    assert not list(doctor._not_imported(journal, place, lambda _: None))
    path.write_bytes(path.read_bytes() + said(4) + said(5))
    (found,) = doctor._not_imported(journal, place, lambda _: None)
    assert found.code == "import-grown"
