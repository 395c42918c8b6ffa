"""Sources of several formats under one name: each is a session of its own, and each comes back whole."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from imported import given_back, lines, take
from test_redact import TOKEN
from transcripts import line, reply

import gitjournal
from gitjournal import Journal, fold, scan
from gitjournal.errors import UsageError
from gitjournal.formats import export, import_file
from gitjournal.formats.restore import restore
from gitjournal.formats.restore_claude import Claude
from gitjournal.formats.restore_codex import Codex
from gitjournal.redact import Redactor

ID = "6f0c3f1e-58c4-4f43-9d0b-3c1f5a2b7e11"
PAST, LATER = "019fc8be-3658-7ca3-9e29-0000000000aa", "019fc8be-3658-7ca3-9e29-0000000000bb"
TIME = "2026-01-01T00:00:00.000Z"


def item(n: int, text: str = "") -> dict[str, Any]:
    """What a person says, as Codex writes it."""
    said = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text or f"words {n}"}]}
    return {"timestamp": TIME, "type": "response_item", "payload": said}


#: A rollout without an id: its session is called as its file.
ROLLOUT = lines(*map(item, range(3)))


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    return gitjournal.init(tmp_path / "journal.git")


def sessions(journal: Journal) -> list[str]:
    return sorted(str(name) for name in journal.sessions())


@pytest.mark.parametrize("size", [20, len(ROLLOUT) // 6])
def test_a_file_that_was_half_written_is_read_as_what_it_is_when_it_is_whole(
    journal: Journal, tmp_path: Path, size: int
) -> None:
    path = tmp_path / "n.jsonl"
    assert take(journal, path, ROLLOUT[:size]).format == "records"
    report = take(journal, path, ROLLOUT)
    assert (report.format, report.session, report.branch, report.added) == ("codex", "n.codex", "main", 3)
    assert report.notes[0] == "a session n was not imported from codex: this one is n.codex"
    assert given_back(journal, "n.codex", "codex") == ROLLOUT and given_back(journal, "n", "records") == ROLLOUT[:size]
    state = fold(journal.events("n.codex"))
    assert (state.source, state.turns["user"]) == ("codex", 3) and not state.odd
    heads = journal.store.heads()
    assert take(journal, path, ROLLOUT).added == 0 and journal.store.heads() == heads
    grown = ROLLOUT + lines(item(3))
    report = take(journal, path, grown)
    assert (report.session, report.branch, report.added) == ("n.codex", "main", 1)
    assert given_back(journal, "n.codex", "codex") == grown


def test_files_of_one_name_and_other_formats_are_other_sessions(journal: Journal, tmp_path: Path) -> None:
    spans = json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [{
        "spanId": "b" * 16, "name": "chat", "attributes": [
            {"key": "gen_ai.operation.name", "value": {"stringValue": "chat"}},
        ],
    }]}]}]}).encode()  # fmt: skip
    other = b'{"n": 1}\n{"n": 2}\n'
    for n in range(2):
        for folder, content, kind, session in (
            ("a", spans, "otlp", "trace"), ("b", other, "records", "trace.records"),
            ("c", ROLLOUT, "codex", "trace.codex"),
        ):  # fmt: skip
            report = take(journal, tmp_path / folder / "trace.json", content)
            assert (report.format, report.session, bool(report.added)) == (kind, session, n == 0)
            assert given_back(journal, session, kind) == content
    assert sessions(journal) == ["trace", "trace.codex", "trace.records"]


def test_a_name_after_both_that_is_taken_too(journal: Journal, tmp_path: Path) -> None:
    for number, name in enumerate(("n.jsonl", "n.codex.jsonl")):
        take(journal, tmp_path / name, lines({"n": number}))
    report = take(journal, tmp_path / "n.jsonl", ROLLOUT)
    assert report.session == "n.codex-2" and given_back(journal, "n.codex-2", "codex") == ROLLOUT
    assert take(journal, tmp_path / "n.jsonl", ROLLOUT).added == 0


def test_a_format_that_is_forced_over_another_one(journal: Journal, tmp_path: Path) -> None:
    take(journal, tmp_path / "n.jsonl", ROLLOUT)
    report = import_file(journal, tmp_path / "n.jsonl", format="records")
    assert report.session == "n.records" and given_back(journal, "n.records", "records") == ROLLOUT


def test_a_session_that_was_recorded_live_is_of_no_format(journal: Journal, tmp_path: Path) -> None:
    with journal.session("n", create=True, source="console") as session:
        session.user("hello")
    report = take(journal, tmp_path / "n.jsonl", ROLLOUT)
    assert report.session == "n.codex" and given_back(journal, "n.codex", "codex") == ROLLOUT


def test_what_was_renamed_is_known_though_its_name_is_taken(journal: Journal, tmp_path: Path) -> None:
    take(journal, tmp_path / "first.jsonl", ROLLOUT)
    take(journal, tmp_path / "n.jsonl", b'{"n": 1}\n')
    report = take(journal, tmp_path / "n.jsonl", ROLLOUT)
    assert (report.session, report.added) == ("first", 0)


def test_an_id_that_is_asked_for_is_not_another_one(journal: Journal, tmp_path: Path) -> None:
    take(journal, tmp_path / "n.jsonl", b'{"n": 1}\n')
    with pytest.raises(UsageError, match="session n is there already, and was not imported from codex"):
        take(journal, tmp_path / "m.jsonl", ROLLOUT, session="n")
    with pytest.raises(UsageError, match="200 bytes"):
        take(journal, tmp_path / f"{'l' * 196}.jsonl", b'{"n": 2}\n')
        take(journal, tmp_path / f"{'l' * 196}.jsonl", ROLLOUT)
    assert sessions(journal) == ["l" * 196, "n"]


def test_a_dry_run_says_the_name_and_writes_nothing(journal: Journal, tmp_path: Path) -> None:
    take(journal, tmp_path / "n.jsonl", ROLLOUT[:20])
    heads = journal.store.heads()
    report = take(journal, tmp_path / "n.jsonl", ROLLOUT, dry_run=True)
    assert (report.session, report.added) == ("n.codex", 3) and journal.store.heads() == heads


def test_what_was_redacted_once_is_redacted_under_the_other_name(journal: Journal, tmp_path: Path) -> None:
    secret = lines(item(1), item(2, f"use {TOKEN}"))
    path = tmp_path / "n.jsonl"
    take(journal, path, secret[:20] + b"\n", redact=True)
    report = take(journal, path, secret)
    assert report.session == "n.codex" and report.odd["redacted"] == 1
    assert not list(scan.everywhere(journal, Redactor(b"k" * 32), journal.sessions()))


def test_a_copy_is_a_fork_of_the_session_of_its_format(journal: Journal, tmp_path: Path) -> None:
    past = line("one", 0, sessionId=ID) + reply("two", 1, sessionId=ID)
    take(journal, tmp_path / f"{ID}.jsonl", past, format="records")
    whence = [{"forkedFrom": {"sessionId": ID, "messageUuid": f"u{n}"}, "sessionId": "later"} for n in (0, 1)]
    copy = lines(*({**json.loads(one), **more} for one, more in zip(past.splitlines(), whence, strict=True)))
    report = take(journal, tmp_path / "early.jsonl", copy.replace(b"later", b"early"))
    assert not report.copied and f"session {ID}, which is not in the journal" in report.notes[-1]
    take(journal, tmp_path / f"{ID}.jsonl", past)
    report = take(journal, tmp_path / "later.jsonl", copy)
    assert report.copied == 2 and f"{ID}.claude-code@3" in report.notes[0]
    for name, content in (("later", copy), ("early", copy.replace(b"later", b"early"))):
        assert given_back(journal, name, "claude-code") == content


def test_a_source_that_is_a_copy_of_itself_is_none(journal: Journal, tmp_path: Path) -> None:
    own = {"forkedFrom": {"sessionId": ID, "messageUuid": "u0"}}
    for content in (b'{"half', line("one", 0, sessionId=ID, **own)):
        report = take(journal, tmp_path / f"{ID}.jsonl", content)
    assert report.session == f"{ID}.claude-code" and len(report.notes) == 1 and not report.copied


def test_a_session_whose_start_is_withheld_may_be_of_any_format(journal: Journal, tmp_path: Path) -> None:
    take(journal, tmp_path / "n.jsonl", ROLLOUT)
    with (tmp_path / "some.jsonl").open("wb") as out:
        export(journal, "n", "jsonl", out, only=[2])
    there = gitjournal.init(tmp_path / "there.git")
    import_file(there, tmp_path / "some.jsonl", format="jsonl")
    report = take(there, tmp_path / "n.jsonl", ROLLOUT)
    assert (report.session, report.added) == ("n", 0)


def test_the_bytes_of_any_import_come_as_records(journal: Journal, tmp_path: Path) -> None:
    take(journal, tmp_path / "n.jsonl", ROLLOUT)
    assert given_back(journal, "n", "records") == ROLLOUT
    with journal.session("live", create=True) as session:
        session.user("hello")
    with pytest.raises(UsageError, match="1 events that are not from a records file"):
        given_back(journal, "live", "records")


# --- back to their programs ------------------------------------------------------------------------


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "project").mkdir()
    return tmp_path / "project"


def test_a_session_under_another_name_is_restored_with_its_own_id(
    journal: Journal, tmp_path: Path, project: Path
) -> None:
    main = line("one", 0, sessionId=ID, cwd="/old") + reply("two", 1, sessionId=ID)
    agents = tmp_path / ID / "subagents"
    for content in (main[:40], main):
        take(journal, tmp_path / f"{ID}.jsonl", content)
    child = line("do", 0, sessionId=ID, agentId="x", isSidechain=True)
    for name, content in (("x", child), ("y", child.replace(b'"x"', b'"y"'))):
        take(journal, tmp_path / "a" / f"{ID}.agent-{name}.jsonl", b'{"half of %b' % name.encode())
        take(journal, agents / f"agent-{name}.jsonl", content)
    assert len(sessions(journal)) == 6
    report = restore(journal, journal.resolve(f"{ID}.claude-code"), Claude(tmp_path / "home", project))
    assert report.session == ID and sorted(path.name for path in report.files) == [
        f"{ID}.jsonl", "agent-x.jsonl", "agent-y.jsonl",
    ]  # fmt: skip
    assert report.files[0].read_bytes() == child


def test_what_a_rollout_goes_on_from_may_have_another_name(journal: Journal, tmp_path: Path, project: Path) -> None:
    meta = {"id": PAST, "cwd": "/old", "timestamp": TIME, "history_mode": "paginated"}
    past = lines({"timestamp": TIME, "ordinal": 0, "type": "session_meta", "payload": meta}, {**item(1), "ordinal": 1})
    begin = {"history_base": {"thread_id": PAST, "end_ordinal_exclusive": 2}, "forked_from_id": PAST}
    later = lines(
        {"timestamp": TIME, "ordinal": 2, "type": "session_meta", "payload": {**meta, "id": LATER, **begin}},
        {**item(2), "ordinal": 3},
    )
    take(journal, tmp_path / f"{PAST}.jsonl", past[:40])
    take(journal, tmp_path / f"{PAST}.jsonl", past)
    assert "goes on from" in take(journal, tmp_path / "later.jsonl", later).notes[0]
    report = restore(journal, journal.resolve(LATER), Codex(tmp_path / "home", project))
    assert [path.name.rpartition("T")[2][9:-6] for path in report.files] == [PAST, LATER]
