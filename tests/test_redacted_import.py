"""Imports under redaction: what is kept has no secret anywhere, says so, and comes out the same the second time."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support import git
from test_redact import FOUND, OTHER, TOKEN, left

import gitjournal
from gitjournal import formats, policy, scan
from gitjournal.errors import Refused
from gitjournal.formats.records import MAX_RECORD
from gitjournal.journal import Journal
from gitjournal.verify import verify_session


def claude(text: str, number: int) -> list[dict[str, Any]]:
    """What a person says, a call of a tool and its result, all with a text in them."""
    use = {"type": "tool_use", "id": f"toolu_{number}", "name": "Bash", "input": {"command": text}}
    usage = {"input_tokens": 1, "output_tokens": 1}
    result = {"type": "tool_result", "tool_use_id": f"toolu_{number}", "content": text}
    said = [
        {"type": "user", "message": {"role": "user", "content": text}},
        {
            "type": "assistant",
            "message": {"id": f"msg_{number}", "role": "assistant", "content": [use], "usage": usage},
        },
        {"type": "user", "message": {"role": "user", "content": [result]}, "toolUseResult": {"stdout": text}},
    ]
    common = {"sessionId": "sess-1", "timestamp": "2026-01-01T00:00:00.000Z"}
    return [{"uuid": f"u{number}-{at}", **common, **one} for at, one in enumerate(said)]


def codex(text: str, number: int) -> list[dict[str, Any]]:
    """A call whose arguments are JSON in a string, and its output, which is too."""
    call = {"type": "function_call", "name": "shell", "call_id": f"call_{number}"}
    call["arguments"] = json.dumps({"command": ["bash", "-lc", text]})
    output = {"type": "function_call_output", "call_id": f"call_{number}", "output": json.dumps({"output": text})}
    time = "2026-01-01T00:00:00.000Z"
    return [{"timestamp": time, "type": "response_item", "payload": payload} for payload in (call, output)]


def written(path: Path, texts: list[str], make: Any = claude) -> Path:
    records = [record for number, text in enumerate(texts) for record in make(text, number)]
    path.write_text("".join(f"{json.dumps(one)}\n" for one in records))
    return path


def kept(journal: Journal) -> str:
    """All that git has, and the tails."""
    for name in journal.sessions():
        journal.flush(name)
    listed = git("cat-file", "--batch-all-objects", "--batch", cwd=journal.path).stdout
    return listed.decode("utf-8", "replace")


@pytest.mark.parametrize(("kind", "make"), [("claude-code", claude), ("codex", codex), ("records", claude)])
def test_no_object_has_a_secret(journal: Journal, tmp_path: Path, kind: str, make: Any) -> None:
    source = written(tmp_path / "rollout-1.jsonl", [case.text for case in FOUND[::3]], make)
    report = formats.import_file(journal, source, format=kind, redact=True)
    assert report.odd["redacted"] >= len(FOUND[::3])
    assert not report.exact and report.lines()[-1].endswith(f"no export in {report.format} gives this file back")
    everything = kept(journal)
    assert [case.name for case in FOUND[::3] if left(case, everything)] == []
    assert list(scan.everywhere(journal, policy.redactor(journal.store), journal.sessions())) == []
    assert not any(one.findings for one in verify_session(journal, report.session))


def test_a_redacted_import_says_what_was_taken_out(journal: Journal, tmp_path: Path) -> None:
    source = written(tmp_path / "s.jsonl", ["hello", f"use {TOKEN}"])
    formats.import_file(journal, source, redact=True)
    notes = [event.data.get("redactions") for event in journal.events("sess-1")]
    digest = policy.redactor(journal.store).digest(TOKEN)
    assert notes[:4] == [None] * 4
    assert notes[4] == [{"rule": "github_token", "at": "/message/content", "digest": digest}]
    assert {one["digest"] for note in notes[4:] for one in note} == {digest}


def test_importing_again_adds_only_what_is_new(journal: Journal, tmp_path: Path) -> None:
    source = written(tmp_path / "s.jsonl", [f"use {TOKEN}"])
    first = formats.import_file(journal, source, redact=True)
    refs = journal.store.list_refs()
    again = formats.import_file(journal, source, redact=True)
    assert (first.added, again.added, journal.store.list_refs()) == (3, 0, refs)
    written(source, [f"use {TOKEN}", f"and {OTHER}"])
    grown = formats.import_file(journal, source)
    assert grown.added == 3 and journal.store.list_refs() == refs
    assert TOKEN not in kept(journal) and OTHER not in kept(journal)


def test_a_policy_forbids_what_is_not_redacted(journal: Journal, tmp_path: Path) -> None:
    source = written(tmp_path / "s.jsonl", [f"use {TOKEN}"])
    (journal.path / "p.toml").write_text('[import]\nredact = "required"\n')
    journal.store.set_settings({policy.SETTING: "p.toml"})
    with pytest.raises(Refused):
        formats.import_file(journal, source, redact=False)
    assert list(journal.sessions()) == []
    formats.import_file(journal, source)
    assert TOKEN not in kept(journal)
    (journal.path / "p.toml").write_text("[import\n")
    for redact in (None, True, False):
        with pytest.raises(Refused):
            formats.import_file(journal, written(tmp_path / "t.jsonl", ["more"]), redact=redact)


def test_finished_events_with_a_secret_are_refused_under_redaction(journal: Journal, tmp_path: Path) -> None:
    other = gitjournal.init(tmp_path / "other")
    with other.session("s", create=True) as s:
        s.user("hello")
        s.user(f"use {TOKEN}")
    with (tmp_path / "s.jsonl").open("wb") as out:
        formats.export(other, "s", "jsonl", out)
    with pytest.raises(Refused, match="event 3 has a secret"):
        formats.import_file(journal, tmp_path / "s.jsonl", format="jsonl", redact=True)
    assert TOKEN not in kept(journal)


def test_a_secret_across_the_cut_of_a_line_that_is_too_long_goes_whole(journal: Journal, tmp_path: Path) -> None:
    source = tmp_path / "long.jsonl"
    begun = b'{"sessionId": "s", "text": "'

    def held(before: int, redact: bool) -> list[bytes]:
        """The pieces of a line with a token that begins so many bytes before the first cut."""
        words = b"a " * ((MAX_RECORD - before - len(begun)) // 2)
        source.write_bytes(begun + words + f"{TOKEN} {'b ' * 100} {OTHER} ".encode() + b'end"}\n')
        name = f"s{before}{redact}"
        formats.import_file(journal, source, format="records", redact=redact, session=name)
        assert formats.import_file(journal, source, format="records", session=name).added == 0
        return [event.read_file(1) for event in journal.events(name) if event.files]

    for before in (2, 20, len(TOKEN) - 1):
        first, second = held(before, redact=True)
        assert first.endswith(b"]") and b"[redacted:github_token:" in first[-80:]
        assert TOKEN[:2].encode() not in first[-80:] and second.startswith(b" b b") and OTHER.encode() not in second
    assert list(scan.everywhere(journal, policy.redactor(journal.store), journal.sessions())) == []
    assert TOKEN.encode() in b"".join(held(20, redact=False))
    found = list(scan.everywhere(journal, policy.redactor(journal.store), journal.sessions()))
    assert [(one.seq, one.rule, one.places) for one in found if isinstance(one, scan.Secret)] == [
        (3, "gitlab_token", ("file 1",)), (3, "github_token", ("file 1",)),
    ]  # fmt: skip


def test_the_end_of_a_long_line_that_comes_later_is_no_line_of_its_own(journal: Journal, tmp_path: Path) -> None:
    source = tmp_path / "long.jsonl"
    line = b'{"a": 1}\n{"text": "' + b"a " * (MAX_RECORD // 2) + b'b"}\n'
    source.write_bytes(line[:-2])
    assert formats.import_file(journal, source, format="records", complete_only=True).pending
    source.write_bytes(line)
    formats.import_file(journal, source, format="records", complete_only=True)
    at_once = formats.import_file(journal, source, format="records", session="at-once")
    assert at_once.branch == "main"
    kinds = {name: [event.data.get("type") for event in journal.events(name)] for name in ("long", "at-once")}
    assert kinds["long"] == kinds["at-once"] == [None, "json", "oversized", "oversized"]


def test_half_a_secret_is_left_until_its_line_is_whole(journal: Journal, tmp_path: Path) -> None:
    source = written(tmp_path / "s.jsonl", ["hello", f"use {TOKEN}"])
    whole = source.read_bytes()
    cut = whole.index(TOKEN.encode()) + len(TOKEN) - 10
    source.write_bytes(whole[:cut])
    report = formats.import_file(journal, source, redact=True)
    assert report.pending and any("half a secret" in note for note in report.notes)
    source.write_bytes(whole)
    report = formats.import_file(journal, source)
    assert (report.branch, report.pending, report.added) == ("main", False, 3)
    assert TOKEN[:-10] not in kept(journal)
    # A record that is whole but for its newline has no half of anything.
    source.write_bytes(whole[:-1])
    assert not formats.import_file(journal, source, session="other", redact=True).pending


def test_an_id_that_holds_a_secret_is_refused_and_can_be_another(journal: Journal, tmp_path: Path) -> None:
    source = written(tmp_path / f"run {TOKEN}.jsonl", ["hello"])
    with pytest.raises(Refused, match=r"holds a secret \(github_token\)"):
        formats.import_file(journal, source, format="records", redact=True)
    assert list(journal.sessions()) == []
    formats.import_file(journal, source, format="records", redact=True, session="run")
    assert TOKEN not in kept(journal)
