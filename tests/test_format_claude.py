"""Claude Code: what its records become, its traps, and the files beside a transcript."""

from __future__ import annotations

import io
import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from imported import (
    NOWHERE,
    Json,
    counters,
    folded,
    golden,
    line_of,
    lines,
    mapped,
    misshapen,
    mutations,
    texts,
    told_of,
)
from transcripts import line, reply

from gitjournal import fold
from gitjournal.formats import claude_beside, import_file
from gitjournal.formats.claude_code import ClaudeCode
from gitjournal.formats.claude_web import ClaudeCodeWeb
from gitjournal.formats.exporter import raw_records
from gitjournal.formats.homes import places
from gitjournal.formats.protocol import Head, Item, Source
from gitjournal.formats.report import ImportReport
from gitjournal.journal import Journal

FMT, WEB = ClaudeCode(), ClaudeCodeWeb()
CALL = {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "ls"}}
QUEUED = {"type": "queued_command", "prompt": "And now?"}
ANSWER = {"type": "tool_result", "tool_use_id": "t1", "content": "a\n"}
USAGE = {"input_tokens": 3, "cache_read_input_tokens": 10, "cache_creation_input_tokens": 5, "output_tokens": 7}


def items_of(*records: bytes, source: Source = NOWHERE) -> list[Item]:
    return mapped(FMT, b"".join(records), source)[0]


def one(record: bytes) -> Item:
    return items_of(record)[0]


def bare(kind: str, **members: Any) -> bytes:
    """A record without the envelope of a message."""
    return lines({"type": kind, "sessionId": "s1", **members})


def system(subtype: str, n: int = 0, **members: Any) -> bytes:
    return line(n=n, type="system", message=None, subtype=subtype, **members)


def about(*records: bytes, path: str = "s1.jsonl") -> Any:
    return FMT.about(FMT.cut(io.BytesIO(b"".join(records))), Source(Path(path)))


#: One of each kind that a session can hold.
SESSION: list[Json] = [
    json.loads(record)
    for record in (
        bare("permission-mode", permissionMode="default"),
        line("List.", cwd="/p", version="2.1.0", gitBranch="main", permissionMode="default"),
        reply([{"type": "thinking", "thinking": "Hm.", "signature": "c2ln"}], 1, usage=USAGE, requestId="r1"),
        reply([{"type": "text", "text": "I look."}, CALL], 2, usage=USAGE | {"output_tokens": 30}, requestId="r1"),
        line(type="progress", message=None, data={"type": "bash_progress", "output": "a"}, n=3),
        line([ANSWER], 4, toolUseResult={"stdout": "a\n", "agentId": "a7"}, sourceToolAssistantUUID="u2"),
        reply("One file.", 5, usage=USAGE, message={"id": "msg_2"}, requestId="r2"),
        system("turn_duration", 6, durationMs=1200),
        line(type="attachment", message=None, n=7, attachment=QUEUED),
        system("compact_boundary", 8, compactMetadata={"preservedSegment": {"headUuid": "u7", "tailUuid": "u7"}}),
        line("In short.", 9, isCompactSummary=True),
        bare("ai-title", aiTitle="Files"),
        bare("summary", summary="Listing", leafUuid="u5"),
        reply([{"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}], 10),
        reply("API Error", 11, isApiErrorMessage=True, error="overloaded"),
    )
]


# --- each kind of record -----------------------------------------------------------------------------


def test_each_kind_of_record_has_its_event() -> None:
    items = items_of(lines(*SESSION))
    assert [(item.type, item.actor) for item in items] == [
        ("native", "host"), ("message", "user"), ("model.response", "assistant"), ("model.response", "assistant"),
        ("native", "host"), ("tool.result", "tool:Bash"), ("model.response", "assistant"), ("native", "host"),
        ("message", "user"), ("native", "host"), ("context.compaction", "host"), ("session.update", "host"),
        ("session.update", "host"), ("model.response", "assistant"), ("error", "host"),
    ]  # fmt: skip
    assert items[1].data["native"] == {"type": "user", "id": "u0"}
    assert items[0].data["fields"] == {"permissionMode": "default"}
    assert items[4].data["type"] == "progress/bash_progress"
    assert items[5].data["child"] == {"session": "s1.agent-a7"}


def test_the_state_is_that_of_the_session() -> None:
    state = folded(items_of(lines(*SESSION)))
    assert (state.turns, state.tool_calls, state.tool_results) == ({"user": 2, "model": 2}, 1, 1)
    assert texts(state.history) == ["List.", "I look.", "One file.", "And now?"]
    assert texts(state.history, "reasoning") == ["Hm."]
    assert texts(state.context) == ["In short.", "And now?"]
    assert counters(state) == [36, 37, 20, 10, 0] and state.title == "Listing"
    assert [error["type"] for error in state.errors] == ["overloaded"]


@pytest.mark.parametrize(
    ("record", "actor"),
    [
        (line("hi"), "user"),
        (line("hi", isMeta=True), "host"),
        (line("hi", isSidechain=True), "assistant"),
        (line("hi", origin={"kind": "task-notification"}), "host"),
        (line("hi", origin={"kind": "human"}), "user"),
        (line("hi", promptSource="system"), "host"),
        (line("<command-name>/cost</command-name>"), "user"),
        (line("<local-command-stdout>3 USD</local-command-stdout>"), "host"),
        (line("<bash-input>ls</bash-input>"), "user"),
        (line("<bash-stdout>a</bash-stdout>"), "host"),
        (line([{"type": "text", "text": "[Request interrupted by user for tool use]"}]), "host"),
        (line("Say <bash-stdout> to me"), "user"),
        (line("<ide_opened_file>a.py</ide_opened_file>"), "host"),
        (line("<ide_opened_file>a.py</ide_opened_file> Fix it."), "user"),
        (
            line([{"type": "text", "text": "<ide_selection>x</ide_selection>"}, {"type": "text", "text": "Fix it."}]),
            "user",
        ),
        (line([ANSWER, {"type": "text", "text": "[Request interrupted by user for tool use]"}]), "host"),
    ],
)
def test_what_the_program_says_in_the_users_name_is_not_the_users(record: bytes, actor: str) -> None:
    found = one(record)
    assert (found.type, found.actor, found.data.get("injected")) == ("message", actor, actor == "host" or None)


def test_a_queued_command_is_the_users_unless_a_task_put_it_there() -> None:
    def queued(**more: Any) -> Item:
        return one(line(type="attachment", message=None, attachment={"type": "queued_command", "prompt": "x", **more}))

    assert queued().actor == queued(commandMode="prompt").actor == "user"
    assert queued(commandMode="task-notification").actor == queued(origin={"kind": "agent"}).actor == "host"


def test_what_the_program_answers_itself_is_no_answer_of_a_provider() -> None:
    made_up = one(reply([{"type": "text", "text": "No response requested."}], message={"model": "<synthetic>"}))
    assert (made_up.type, made_up.actor, made_up.data["role"]) == ("message", "host", "assistant")
    assert "usage" not in made_up.data


def test_old_versions_said_what_a_response_cost() -> None:
    assert one(reply("x", costUSD=0.12)).data["native"]["cost_usd"] == 0.12


def test_an_error_says_what_the_provider_said() -> None:
    inner = {"type": "overloaded_error", "message": "Overloaded"}
    given = {"status": 529, "headers": {"x": "y"}, "error": {"type": "error", "error": inner}}
    data = one(system("api_error", error=given)).data
    assert (data["error.type"], data["message"]) == ("overloaded_error", "Overloaded")


# --- titles ------------------------------------------------------------------------------------------


def titles(*records: bytes) -> list[Any]:
    return [item.data.get("title") for item in items_of(*records)]


def test_a_title_of_the_user_stays_over_made_ones() -> None:
    given, made = bare("custom-title", customTitle="Mine"), bare("ai-title", aiTitle="Made")
    assert titles(made, given, made, bare("custom-title", customTitle="")) == ["Made", "Mine", None, ""]
    items = items_of(given, made)
    assert items[0].actor == "user" and items[1].type == "native"


def test_a_summary_of_another_session_is_no_title() -> None:
    # Summaries of whatever sessions were written into the open file: claude-code #2597.
    assert titles(bare("summary", summary="Other", leafUuid="elsewhere"), line()) == [None, None]
    assert titles(line(), bare("summary", summary="This", leafUuid="u0")) == [None, "This"]


def test_a_title_is_one_line() -> None:
    assert titles(bare("ai-title", aiTitle="a\nb\x1b[2J  c")) == ["a b [2J c"]
    assert len(titles(bare("ai-title", aiTitle="x" * 300))[0]) == 200
    assert titles(bare("ai-title", aiTitle=7)) == [None]


# --- trap 5: one response is several lines -----------------------------------------------------------


def test_a_response_with_growing_usage_counts_once_with_the_most() -> None:
    state = folded(items_of(*(reply("x", n, usage=USAGE | {"output_tokens": n}, requestId="r") for n in (1, 9, 4))))
    assert counters(state)[:2] == [18, 9] and state.turns["model"] == 1


def test_the_same_message_id_of_another_request_is_another_response() -> None:
    items = items_of(
        *(reply("x", n, usage=USAGE, requestId=request) for n, request in enumerate(("a", "b", "a", None)))
    )
    assert [item.data["response.id"] for item in items] == ["msg_1", "msg_1/b", "msg_1", "msg_1"]
    assert counters(folded(items))[:2] == [36, 14]


def test_a_missing_request_id_is_no_other_request() -> None:
    # ccusage #976
    items = items_of(reply("x", 1, usage=USAGE), reply("y", 2, usage=USAGE, requestId="r"))
    assert counters(folded(items))[:2] == [18, 7]


# --- trap 7: parents are a hint ----------------------------------------------------------------------


def test_two_prompts_with_the_same_parent_are_a_rewind() -> None:
    items = items_of(
        line(), reply("a", 1), line("old", 2), reply("b", 3), line("new", 4, parentUuid="u1"), reply("c", 5)
    )
    assert [item.follows for item in items] == [None, None, None, None, 2, None]
    assert texts(folded(items).history) == ["hello", "a", "new", "c"]
    assert [item.record.number for item in line_of(items)] == [1, 2, 5, 6]


def test_a_rewind_is_a_branch_and_the_file_is_whole(journal: Journal, tmp_path: Path) -> None:
    content = line() + reply("a", 1) + line("old", 2) + line("new", 3, parentUuid="u1") + reply("c", 4)
    (tmp_path / "a.jsonl").write_bytes(content)
    for _ in range(2):
        import_file(journal, tmp_path / "a.jsonl")
        assert sorted(str(name) for name in journal.sessions()) == ["s1", "s1/rewind-1"]
    assert texts(fold(journal.events("s1")).history) == ["hello", "a", "old"]
    assert texts(fold(journal.events("s1/rewind-1")).history) == ["hello", "a", "new", "c"]
    assert b"".join(raw for _, raw in raw_records(journal, journal.resolve("s1"))) == content


def test_a_third_prompt_goes_back_to_the_same_place() -> None:
    items = items_of(line(), reply("a", 1), *(line(str(n), n, parentUuid="u1") for n in (2, 3, 4)))
    assert [item.follows for item in items] == [None, None, None, 2, 2]


@pytest.mark.parametrize(
    "second",
    [
        line([ANSWER], 3, parentUuid="u1"),
        reply("x", 3, parentUuid="u1"),
        line("x", 3, parentUuid="u1", isMeta=True),
        line("x", 3, parentUuid="u1", isSidechain=True),
        line("<bash-stdout></bash-stdout>", 3, parentUuid="u1"),
        line("prompt", 2, parentUuid="u1"),
        line("x", 3, parentUuid=None),
        line("x", 3, parentUuid="nowhere"),
        line(
            type="attachment", message=None, n=3, parentUuid="u1", attachment={"type": "queued_command", "prompt": "x"}
        ),
    ],
    ids=["result", "answer", "meta", "sidechain", "host", "repeated", "root", "unknown", "queued"],
)
def test_a_mechanical_fork_is_no_rewind(second: bytes) -> None:
    assert not any(item.follows for item in items_of(line(), reply("a", 1), line("prompt", 2), second))


def test_two_roots_are_no_rewind() -> None:
    assert not any(item.follows for item in items_of(line(), line("x", 1, parentUuid=None)))


def test_parents_that_are_nowhere_and_sessions_that_change_are_counted() -> None:
    _, report = mapped(
        FMT, line(n=5) + line(n=6, sessionId="s2") + line(n=7, parentUuid="u9") + line(n=9, parentUuid="u7")
    )
    assert dict(report.odd) == {"dangling_parents": 1, "other_session": 1}


# --- trap 8: records are written again ---------------------------------------------------------------


def test_a_record_that_a_resume_wrote_again_was_said_once() -> None:
    # The same id and message, stamped anew, and with all members in another order.
    def turned(value: Any) -> Any:
        return {name: turned(value[name]) for name in reversed(value)} if isinstance(value, dict) else value

    first = reply([CALL], 1, version="2.0.1", usage=USAGE)
    again = json.loads(reply([turned(CALL)], 1, version="2.0.9", usage=USAGE))
    items = items_of(line(), first, lines(turned(again)), line([ANSWER], 2))
    assert items[2].type == "native" and items[2].data["repeats"] == "u1"
    state = folded(items)
    assert (state.tool_calls, state.tool_results, state.turns["user"]) == (1, 1, 1)
    assert counters(state)[1] == 7


def test_a_record_with_the_same_id_and_another_message_is_shown() -> None:
    # claude-code #92089 and #12625: an id alone says too little.
    items, report = mapped(FMT, line("one") + line("two"))
    assert texts(folded(items).history) == ["one", "two"] and report.odd["repeated_ids"] == 1


def test_history_that_a_compaction_writes_again_is_not_said_again() -> None:
    past = [line("a"), reply("b", 1), line("c", 2)]
    items = items_of(*past, system("compact_boundary", 3), line("sum", 4, isCompactSummary=True), *past, line("d", 5))
    assert texts(folded(items).history) == ["a", "b", "c", "d"] and folded(items).turns["user"] == 3


# --- compaction --------------------------------------------------------------------------------------


def compacted(metadata: Any) -> list[str]:
    boundary = system("compact_boundary", 4, parentUuid=None, logicalParentUuid="u3", compactMetadata=metadata)
    said = [line("a"), reply("b", 1), line("c", 2), reply("d", 3)]
    return texts(folded(items_of(*said, boundary, line("sum", 5, isCompactSummary=True), line("e", 6))).context)


def test_a_compaction_keeps_what_its_boundary_names() -> None:
    assert compacted({"trigger": "auto"}) == ["sum", "e"]
    assert compacted({"preservedSegment": {"headUuid": "u2", "anchorUuid": "u5", "tailUuid": "u3"}}) == [
        "sum",
        "c",
        "d",
        "e",
    ]
    assert compacted({"preservedMessages": {"uuids": ["u3"], "allUuids": ["u3"]}}) == ["sum", "d", "e"]


@pytest.mark.parametrize(
    "segment", [{"headUuid": "u0", "tailUuid": "u1"}, {"headUuid": "u9", "tailUuid": "u3"}, {"headUuid": 3}, [], None]
)
def test_a_segment_that_is_not_the_end_keeps_nothing(segment: Any) -> None:
    assert compacted({"preservedSegment": segment}) == ["sum", "e"]


def test_talk_of_a_sub_agent_is_not_among_what_a_compaction_keeps() -> None:
    items = items_of(
        line("a"), reply("b", 1), line("aside", 2, isSidechain=True), reply("c", 3),
        system("compact_boundary", 4, compactMetadata={"preservedSegment": {"headUuid": "u1", "tailUuid": "u3"}}),
        line("sum", 5, isCompactSummary=True),
    )  # fmt: skip
    assert items[5].data["keep_last"] == 2 and texts(folded(items).context) == ["sum", "b", "c"]


def test_a_rewind_takes_its_records_out_of_what_a_compaction_can_keep() -> None:
    items = items_of(
        line("a"), reply("b", 1), line("old", 2), reply("gone", 3), line("new", 4, parentUuid="u1"),
        system("compact_boundary", 5, compactMetadata={"preservedSegment": {"headUuid": "u1", "tailUuid": "u4"}}),
        line("sum", 6, isCompactSummary=True),
    )  # fmt: skip
    assert texts(folded(items).context) == ["sum", "b", "new"]


# --- sub-agents --------------------------------------------------------------------------------------


def test_talk_of_a_sub_agent_in_its_parents_file_is_aside() -> None:
    items = items_of(line("go"), line("do this", 1, isSidechain=True), reply("done", 2, isSidechain=True))
    assert [item.data.get("sidechain") for item in items] == [None, True, True]
    state = folded(items)
    assert texts(state.context) == ["go"] and state.turns["user"] == 1


def test_a_sub_agents_own_file_is_a_child_of_the_session(journal: Journal, tmp_path: Path) -> None:
    folder = tmp_path / "s1" / "subagents"
    folder.mkdir(parents=True)
    (folder / "agent-a7.jsonl").write_bytes(line("do this", isSidechain=True, agentId="a7", cwd="/p", version="2.1.0"))
    (folder / "agent-a7.meta.json").write_text('{"agentType": "Explore"}')
    (tmp_path / "s1.jsonl").write_bytes(
        line() + line([ANSWER], 1, toolUseResult={"agentId": "a7", "status": "completed"})
    )
    import_file(journal, tmp_path / "s1.jsonl")
    report = import_file(journal, folder / "agent-a7.jsonl")
    assert report.session == "s1.agent-a7"
    start, said = journal.events("s1.agent-a7")
    assert start.data == {
        "source": "claude-code", "parent": {"session": "s1"}, "agent.id": "a7", "agent.name": "claude-code",
        "agent.version": "2.1.0", "project": "/p",
    }  # fmt: skip
    assert said.actor == "assistant" and "sidechain" not in said.data
    assert [entry["name"] for entry in said.files] == ["raw", "agent-a7.meta.json"]
    assert said.read_file(2) == b'{"agentType": "Explore"}'
    (result,) = [event for event in journal.events("s1") if event.type == "tool.result"]
    assert result.data["child"] == {"session": "s1.agent-a7"}


def test_a_sub_agents_file_of_an_older_version_is_told_by_its_name() -> None:
    old = line("do this", isSidechain=True)
    assert about(old, path="p/agent-9f.jsonl").session == "s1.agent-9f"
    assert about(old, path="p/s1.jsonl").session == "s1"
    assert "sidechain" not in items_of(old, source=Source(Path("p/agent-9f.jsonl")))[0].data
    assert items_of(old, source=Source(Path("p/s1.jsonl")))[0].data["sidechain"] is True


def test_progress_of_a_sub_agent_names_it() -> None:
    progress = line(type="progress", message=None, data={"type": "agent_progress", "agentId": "b1", "message": {}})
    assert one(progress).data["child"] == {"session": "s1.agent-b1"}


# --- files beside the transcript ---------------------------------------------------------------------


def spilled(path: str, **more: Any) -> bytes:
    """The result of a tool whose output was too long."""
    content = f"<persisted-output>\nOutput too large (2MB). Full output saved to: {path}\n\nPreview:\nx"
    return line([ANSWER | {"content": content}], toolUseResult={"persistedOutputPath": path}, **more)


@pytest.fixture
def outputs(tmp_path: Path) -> Path:
    folder = tmp_path / "s1" / "tool-results"
    folder.mkdir(parents=True)
    (folder / "t1.txt").write_bytes(b"the whole output")
    return folder


def files_of(tmp_path: Path, *records: bytes) -> tuple[list[tuple[Any, bytes]], int]:
    items, report = mapped(FMT, b"".join(records), Source(tmp_path / "s1.jsonl"))
    return [(file.entry["name"], file.data) for item in items for file in item.files], report.odd["spilled"]


def test_a_spilled_output_comes_along(outputs: Path, tmp_path: Path) -> None:
    found = [("t1.txt", b"the whole output")]
    assert files_of(tmp_path, spilled("/home/ada/.claude/projects/p/s1/tool-results/t1.txt")) == (found, 0)
    assert files_of(tmp_path, spilled("C:\\Users\\ada\\p\\s1\\tool-results\\t1.txt")) == (found, 0)
    text = line(
        [ANSWER | {"content": [{"type": "text", "text": "<persisted-output>\nsaved to: /x/tool-results/t1.txt"}]}]
    )
    assert files_of(tmp_path, text) == (found, 0)


def test_a_sub_agents_outputs_are_in_its_sessions_folder(outputs: Path, tmp_path: Path) -> None:
    agent = tmp_path / "s1" / "subagents" / "workflows" / "agent-1.jsonl"
    items, _ = mapped(FMT, spilled("/x/tool-results/t1.txt", isSidechain=True, agentId="1"), Source(agent))
    assert [file.data for file in items[0].files] == [b"the whole output"]


def test_an_output_of_the_session_that_a_fork_comes_from_is_in_that_ones_folder(outputs: Path, tmp_path: Path) -> None:
    record = spilled("/home/ada/.claude/projects/p/s1/tool-results/t1.txt")
    items, report = mapped(FMT, record, Source(tmp_path / "s2.jsonl"))
    assert [file.data for file in items[0].files] == [b"the whole output"] and not report.odd
    for path in ("/p/../tool-results/t1.txt", "/p/s3/tool-results/t1.txt", "/p//tool-results/t1.txt"):
        _, report = mapped(FMT, spilled(path), Source(tmp_path / "s2.jsonl"))
        assert report.odd["spilled"] == 1
    (tmp_path / "s4").symlink_to(outputs.parent)
    _, report = mapped(FMT, spilled("/p/s4/tool-results/t1.txt"), Source(tmp_path / "s2.jsonl"))
    assert report.odd["spilled"] == 1, "links are not followed"


@pytest.mark.parametrize(
    "path",
    [
        "/x/tool-results/../../secret", "/etc/tool-results/../passwd", "/x/tool-results/.hidden", "tool-results",
        "/x/tool-results/", "/x/tool-results/a b", "/x/tool-results/" + "n" * 300, "/x/other/t1.txt", "t1.txt",
    ],
)  # fmt: skip
def test_a_path_in_a_transcript_leads_nowhere(outputs: Path, tmp_path: Path, path: str) -> None:
    (tmp_path / "secret").write_bytes(b"secret")
    (outputs / ".hidden").write_bytes(b"secret")
    assert files_of(tmp_path, spilled(path)) == ([], 0)


def test_outputs_that_are_gone_linked_or_too_big_are_counted(
    outputs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "secret").write_bytes(b"secret")
    (outputs / "link").symlink_to(tmp_path / "secret")
    (outputs / "folder").mkdir()
    for name in ("gone", "link", "folder"):
        assert files_of(tmp_path, spilled(f"/x/tool-results/{name}")) == ([], 1)
    monkeypatch.setattr(claude_beside, "MAX_RECORD", 5)
    assert files_of(tmp_path, spilled("/x/tool-results/t1.txt")) == ([], 1)


def test_a_folder_of_outputs_that_is_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "t1.txt").write_bytes(b"secret")
    (tmp_path / "s1").mkdir()
    (tmp_path / "s1" / "tool-results").symlink_to(tmp_path / "elsewhere")
    assert files_of(tmp_path, spilled("/x/tool-results/t1.txt")) == ([], 1)


# --- what the file says of the session ---------------------------------------------------------------


def test_the_start_says_where_and_with_what() -> None:
    mode = bare("permission-mode", permissionMode="default")
    found = about(mode, line(cwd="/p", version="2.1.9"), line(n=1, cwd="/q", version="3"))
    assert (found.session, found.start, found.settled) == (
        "s1", {"project": "/p", "agent.name": "claude-code", "agent.version": "2.1.9"}, True,
    )  # fmt: skip
    assert not about(mode).settled and not about(b"{}\n").settled
    assert about(*[mode] * 30).settled


def test_where_the_program_keeps_its_sessions(tmp_path: Path) -> None:
    (place,) = [one for one in places({"CLAUDE_CONFIG_DIR": str(tmp_path)}) if one.format == FMT.name]
    beside = tmp_path / "projects" / "p" / "s1"
    for path in ("projects/p/s1.jsonl", "projects/p/agent-1.jsonl"):
        assert place.has(tmp_path / path)
    for name in ("subagents/agent-1.jsonl", "subagents/workflows/w/agent-2.jsonl"):
        assert place.has(beside / name)
    for name in ("subagents/workflows/w/journal.jsonl", "tool-results/t1.txt", "subagents/agent-1.meta.json"):
        assert not place.has(beside / name)
    assert not place.has(tmp_path / "history.jsonl")


def test_a_fork_says_what_it_is_a_copy_of() -> None:
    assert about(line(cwd="/p", forkedFrom={"sessionId": "s0", "messageUuid": "u0"})).copied_from == "s0"
    assert about(line(cwd="/p")).copied_from is None


def test_a_copy_keeps_id_and_message() -> None:
    def key(raw: bytes) -> bytes:
        return FMT.same(next(FMT.cut(io.BytesIO(raw))))

    assert key(line(cwd="/a")) == key(line(cwd="/b", sessionId="s2", forkedFrom={"sessionId": "s1"})) != b""
    assert key(line("x")) != key(line("y")) and key(line(n=1)) != key(line(n=2))
    assert key(bare("summary", summary="x", leafUuid="y")) == key(b"torn\n") == b""


def test_a_fork_is_a_branch_of_its_session(journal: Journal, tmp_path: Path) -> None:
    shared = [("a", line), ("b", reply)]
    for session in ("s1", "s2"):
        more = [{"forkedFrom": {"sessionId": "s1", "messageUuid": f"u{n}"}} if session == "s2" else {} for n in (0, 1)]
        past = [make(text, n, sessionId=session, cwd="/p", **more[n]) for n, (text, make) in enumerate(shared)]
        path = tmp_path / f"{session}.jsonl"
        path.write_bytes(b"".join(past) + line(session, 2, sessionId=session))
        assert import_file(journal, path).session == session
        assert b"".join(raw for _, raw in raw_records(journal, journal.resolve(session))) == path.read_bytes()
    state = fold(journal.events("s2"))
    assert state.forked_from and state.forked_from["session"] == "s1"
    assert texts(state.history) == ["a", "b", "s2"]


def test_a_fork_by_the_sdk_has_new_ids_and_is_a_branch_all_the_same(journal: Journal, tmp_path: Path) -> None:
    past = line("a", cwd="/p") + bare("progress", uuid="p0", sessionId="s1") + reply("b", 1, cwd="/p")
    ids = ({"uuid": f"n{n}", "forkedFrom": {"sessionId": "s1", "messageUuid": f"u{n}"}} for n in range(2))
    fork = line("a", cwd="/p", sessionId="s2", logicalParentUuid=None, **next(ids))
    fork += reply("b", 1, cwd="/p", sessionId="s2", parentUuid="n0", timestamp="2026-06-01T00:00:00Z", **next(ids))
    fork += bare("custom-title", sessionId="s2", customTitle="a (fork)", uuid="t0")
    for name, content in (("s1", past + line("later", 2)), ("s2", fork)):
        path = tmp_path / f"{name}.jsonl"
        path.write_bytes(content)
        report = import_file(journal, path)
        assert b"".join(raw for _, raw in raw_records(journal, journal.resolve(name))) == content
    assert (report.copied, report.added) == (2, 1)
    state = fold(journal.events("s2"))
    assert texts(state.history) == ["a", "b"] and state.title == "a (fork)"


UUID = "6f0c3f1e-58c4-4f43-9d0b-3c1f5a2b7e11"


def resumed(tmp_path: Path, session: str, age: int, *more: bytes, past: bytes = b"") -> Path:
    """A transcript of a version that copies a history without saying whose it was."""
    path = tmp_path / f"{session}.jsonl"
    path.write_bytes(past.replace(b'"s1"', f'"{session}"'.encode()) + b"".join(more))
    os.utime(path, (age, age))
    return path


def test_a_copy_that_does_not_say_of_what_is_found_by_its_first_message(tmp_path: Path) -> None:
    past = bare("permission-mode", permissionMode="default") + line(cwd="/p", uuid=UUID) + reply("b", 1)
    first = resumed(tmp_path, "s1", 100, past=past)
    second = resumed(tmp_path, "s2", 200, line("c", 2, sessionId="s2"), past=past)
    third = resumed(tmp_path, "s3", 300, past=past)
    resumed(tmp_path, "s4", 50, line("other", 7, sessionId="s4"))
    (tmp_path / "link.jsonl").symlink_to(first)
    (tmp_path / "notes.txt").write_bytes(past)
    assert [FMT.origin(Source(path)) for path in (first, second, third)] == [None, "s1", "s2"]
    assert FMT.origin(Source(tmp_path / "gone.jsonl")) is None
    assert FMT.origin(Source(resumed(tmp_path, "s5", 400, b"torn\n"))) is None
    assert FMT.origin(Source(resumed(tmp_path, "s6", 400, past=past))) == "s3"


def test_the_same_made_up_id_in_two_files_makes_no_copy(tmp_path: Path) -> None:
    paths = [resumed(tmp_path, session, 100, past=line(cwd="/p")) for session in ("s1", "s2")]
    assert [FMT.origin(Source(path)) for path in paths] == [None, None]


def test_a_resume_that_says_nothing_is_a_branch_all_the_same(journal: Journal, tmp_path: Path) -> None:
    past = line("a", cwd="/p", uuid=UUID) + reply("b", 1, parentUuid=UUID)
    paths = [
        resumed(tmp_path, "s1", 100, past=past),
        resumed(tmp_path, "s2", 200, line("c", 2, sessionId="s2"), past=past),
    ]
    for path in paths:
        name = import_file(journal, path).session
        assert b"".join(raw for _, raw in raw_records(journal, journal.resolve(name))) == path.read_bytes()
    state = fold(journal.events("s2"))
    assert state.forked_from and state.forked_from["session"] == "s1" and texts(state.history) == ["a", "b", "c"]


# --- other shapes of the same program ----------------------------------------------------------------

STREAM: list[Json] = [
    {"type": "system", "subtype": "init", "cwd": "/p", "session_id": "s1", "tools": [], "mcp_servers": [],
     "model": "m-1", "claude_code_version": "2.1.0", "uuid": "x0"},
    {"type": "assistant", "message": {"id": "m1", "role": "assistant", "content": [CALL], "usage": USAGE},
     "parent_tool_use_id": None, "session_id": "s1", "uuid": "x1"},
    {"type": "user", "message": {"role": "user", "content": [ANSWER]}, "parent_tool_use_id": None, "session_id": "s1"},
    {"type": "user", "message": {"role": "user", "content": "do"}, "parent_tool_use_id": "t1", "session_id": "s1"},
    {"type": "stream_event", "event": {"type": "ping"}, "parent_tool_use_id": None, "session_id": "s1"},
    {"type": "result", "subtype": "success", "is_error": False, "result": "Done.", "num_turns": 1, "session_id": "s1",
     "total_cost_usd": 0.01},
]  # fmt: skip


def test_a_stream_of_claude_p() -> None:
    assert FMT.sniff(Head(lines(*STREAM), Path("x")))
    found = about(lines(*STREAM))
    assert (found.session, found.start["project"], found.start["agent.version"]) == ("s1", "/p", "2.1.0")
    items, report = mapped(FMT, lines(*STREAM))
    assert [item.type for item in items] == ["native", "model.response", "tool.result", "message", "native", "native"]
    assert items[3].data["sidechain"] is True and items[5].data["fields"]["total_cost_usd"] == 0.01
    assert "result" not in items[5].data["fields"], "the last message once more"
    assert not report.odd and counters(folded(items))[:2] == [18, 7]


def streamed(name: str, plain: int, out: int, **more: Any) -> Json:
    """A response's line of a stream: its output is what there was when it began."""
    used = {
        "input_tokens": plain,
        "cache_read_input_tokens": 10,
        "cache_creation_input_tokens": 1,
        "output_tokens": out,
    }
    message = {"id": name, "model": "m-1", "role": "assistant", "content": [], "usage": used}
    return {"type": "assistant", "message": message, "parent_tool_use_id": None, "session_id": "s1"} | more


def summed(**models: tuple[int, int, int, int]) -> Json:
    names = ("inputTokens", "cacheReadInputTokens", "cacheCreationInputTokens", "outputTokens")
    return STREAM[-1] | {"modelUsage": {name: dict(zip(names, sums, strict=True)) for name, sums in models.items()}}


def test_what_the_lines_of_a_stream_do_not_say_stands_in_its_result() -> None:
    first = [STREAM[0], streamed("m1", 5, 1), streamed("m1", 5, 1), streamed("m2", 6, 1, parent_tool_use_id="t1")]
    items, _ = mapped(FMT, lines(*first, summed(m=(21, 30, 3, 99))))
    rest = items[-1].data
    assert (items[-1].type, rest["parts"], rest["response.model"]) == ("model.response", [], "m")
    state = folded(items)
    assert counters(state) == [21 + 30 + 3, 99, 30, 3, 0] and state.turns["model"] == 2
    # Sums go on from turn to turn, and begin anew when the program does.
    more = [streamed("m3", 7, 1), summed(m=(28, 40, 4, 120)), streamed("m4", 1, 1), summed(m=(1, 10, 1, 9))]
    assert counters(folded(mapped(FMT, lines(*first, summed(m=(21, 30, 3, 99)), *more))[0])) == [84, 129, 50, 5, 0]


@pytest.mark.parametrize(
    "end",
    [summed(m=(5, 10, 1, 1)), summed(m=(0, 0, 0, 0)), summed(), STREAM[-1], STREAM[-1] | {"modelUsage": [1]},
     STREAM[-1] | {"modelUsage": {"m": 1, "n": {"inputTokens": -4, "outputTokens": "x"}}}],
)  # fmt: skip
def test_a_result_that_says_no_more_than_the_lines_counts_nothing(end: Json) -> None:
    items, _ = mapped(FMT, lines(streamed("m1", 5, 1), end))
    assert items[-1].type == "native" and counters(folded(items)) == [16, 1, 10, 1, 0]


def test_of_several_models_none_is_named() -> None:
    items, _ = mapped(FMT, lines(summed(a=(1, 0, 0, 1), b=(1, 0, 0, 1))))
    assert "response.model" not in items[0].data and counters(folded(items))[:2] == [2, 2]
    (item,), _ = mapped(FMT, lines(STREAM[-1] | {"modelUsage": {"m-1[1m]": {"outputTokens": 3}}}))
    assert item.data["response.model"] == "m-1"


def test_a_stream_that_ended_badly() -> None:
    item = one(lines(STREAM[-1] | {"is_error": True, "subtype": "error_max_turns", "result": None}))
    assert (item.type, item.data["error.type"]) == ("error", "error_max_turns")


def test_an_export_of_the_web_interface(journal: Journal, tmp_path: Path) -> None:
    document = b'{"loglines": [\n  ' + line(cwd="/p").strip() + b",\n  " + reply("b", 1).strip() + b'\n], "x": 1}\n'
    assert WEB.sniff(Head(document, Path("x")))
    items, report = mapped(WEB, document)
    assert [item.type for item in items] == ["native", "message", "model.response", "native"] and not report.odd
    path = tmp_path / "web.json"
    path.write_bytes(document)
    found = import_file(journal, path)
    assert (found.format, found.session) == ("claude-code-web", "s1")
    assert not WEB.sniff(Head(b'{"loglines": []}', Path("x"))) and not WEB.sniff(Head(line(), Path("x")))


# --- put away between two imports --------------------------------------------------------------------


@pytest.mark.parametrize("cut", range(len(SESSION) + 3))
def test_a_mapper_that_was_put_away_goes_on_as_if_it_had_not(cut: int) -> None:
    prompts = [json.loads(line(str(n), n, parentUuid="u6")) for n in (12, 13)]
    more = [*SESSION, *prompts, *SESSION[:3]]
    whole = items_of(lines(*more))
    records = list(FMT.cut(io.BytesIO(lines(*more))))
    first = FMT.mapper(ImportReport("x", "x"), NOWHERE)
    for record in records[:cut]:
        first.item(record)
    second = FMT.mapper(ImportReport("x", "x"), NOWHERE)
    second.load(json.loads(json.dumps(first.save())))
    assert [second.item(record) for record in records[cut:]] == whole[cut:]


def test_what_is_put_away_stays_small() -> None:
    mapper = FMT.mapper(ImportReport("x", "x"), NOWHERE)
    for n in range(25_000):
        call = {"type": "tool_use", "id": f"toolu_{n:030d}", "name": "Bash", "input": {}}
        raw = reply(
            [call], n, message={"id": f"msg_{n:030d}"}, uuid=f"uuid-{n}", requestId=f"req_{n:030d}", timestamp=None
        )
        for record in FMT.cut(io.BytesIO(raw)):
            mapper.item(record)
    assert len(json.dumps(mapper.save())) < 1_200_000


# --- damage ------------------------------------------------------------------------------------------


def test_no_shape_of_any_member_stops_it() -> None:
    mapped(FMT, misshapen([*SESSION, *STREAM]))


@settings(max_examples=60, deadline=None)
@given(mutations([*SESSION, *STREAM]))
def test_no_file_stops_it(content: bytes) -> None:
    mapped(FMT, content)


@settings(max_examples=30, deadline=None)
@given(mutations(SESSION))
def test_no_export_of_the_web_interface_stops_it(content: bytes) -> None:
    mapped(WEB, b'{"loglines":[' + content.replace(b"\n", b",") + b"{}]}")


# --- the corpus --------------------------------------------------------------------------------------


def counted(content: bytes) -> Json:
    """What a golden file says, counted from the JSON alone: no importer."""
    found: list[Any] = []
    text, decoder, pos = content.decode().rstrip(), json.JSONDecoder(), 0
    while pos < len(text):
        value, pos = decoder.raw_decode(text, pos)
        found.append(value)
        pos += len(text[pos:]) - len(text[pos:].lstrip())
    usage: dict[Any, list[int]] = {}
    calls = results = 0
    for value in found:
        message = value.get("message")
        if not isinstance(message, dict):
            continue
        blocks = message.get("content") if isinstance(message.get("content"), list) else []
        kinds = [block.get("type") for block in blocks if isinstance(block, dict)]
        calls += kinds.count("tool_use")
        results += kinds.count("tool_result")
        if isinstance(given := message.get("usage"), dict):
            read, made = given.get("cache_read_input_tokens", 0), given.get("cache_creation_input_tokens", 0)
            counts = [given["input_tokens"] + read + made, given["output_tokens"], read, made]
            before = usage.get(message.get("id"), counts)
            usage[message.get("id")] = [max(pair) for pair in zip(before, counts, strict=True)]
    tokens = [sum(column) for column in zip(*usage.values(), strict=True)] or [0] * 4
    return {"calls": calls, "results": results, "tokens": [*tokens, 0]}


@golden("claude-code")
def test_files_of_the_corpus(path: Path, told: Json, journal: Journal) -> None:
    content = path.read_bytes()
    report = import_file(journal, path)
    items, _ = mapped(FMT, content, Source(path))
    found = told_of(items, fold(journal.events(report.session)))
    begin = {name: found[name] and found[name][:60] for name in ("first", "last")}
    assert report.format == "claude-code" and found | begin == told
    if path.parent.name == FMT.name and "edge" not in path.name and "drift" not in path.name:
        assert {name: told[name] for name in ("calls", "results", "tokens")} == counted(content)
    assert b"".join(raw for _, raw in raw_records(journal, journal.resolve(report.session))) == content
