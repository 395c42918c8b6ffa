"""GitHub Copilot CLI: what its events become, and its counters, which are said once and for all that was before."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from imported import (
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

from gitjournal.formats.copilot import Copilot
from gitjournal.formats.protocol import Head, Item, Source

FMT = Copilot()


def one(kind: str, n: int, data: Any, **more: Any) -> Json:
    """An event as Copilot CLI writes it."""
    stamp = f"2026-06-01T10:00:{n:02d}.000Z"
    return {
        "type": kind,
        "data": data,
        "id": f"e{n}",
        "timestamp": stamp,
        "parentId": f"e{n - 1}" if n else None,
        **more,
    }


def used(n: int, **models: list[int]) -> Json:
    """The end of the program; input, output, read, written, reasoning of each model."""
    names = ("inputTokens", "outputTokens", "cacheReadTokens", "cacheWriteTokens", "reasoningTokens")
    metrics = {
        model: {"requests": {"count": 1, "cost": 1}, "usage": dict(zip(names, counts, strict=True)), "totalNanoAiu": 5}
        for model, counts in models.items()
    }
    return one("session.shutdown", n, {"shutdownType": "routine", "modelMetrics": metrics})


CONTEXT = {"cwd": "/home/ada/p/sub", "gitRoot": "/home/ada/p", "branch": "main"}
START = one("session.start", 0, {"sessionId": "s-1", "version": 1, "copilotVersion": "1.0.64", "context": CONTEXT})
CALL = {"toolCallId": "c1", "name": "bash", "arguments": {"command": "ls"}, "type": "function"}
SESSION: list[Json] = [
    START,
    one("system.message", 1, {"role": "system", "content": "Be brief."}),
    one("user.message", 2, {"content": "List.", "transformedContent": "<time>List.", "attachments": []}),
    one("assistant.turn_start", 3, {"turnId": "0", "interactionId": "i-1"}),
    one("assistant.reasoning", 4, {"reasoningId": "r1", "content": "I run ls."}),
    one("assistant.message", 5, {
        "messageId": "m1", "apiCallId": "a1", "model": "gpt-5", "content": "Running.", "reasoningText": "I run ls.",
        "toolRequests": [CALL], "outputTokens": 7, "encryptedContent": "opaque",
    }),
    one("tool.execution_start", 6, {"toolCallId": "c1", "toolName": "bash", "arguments": {"command": "ls"}}),
    one("tool.execution_complete", 7, {"toolCallId": "c1", "success": True, "result": {"content": "a\n"}}),
    one("hook.end", 8, {"hookType": "postToolUse", "input": {"toolResult": {"textResultForLlm": "a\n"}}}),
    one("assistant.turn_end", 9, {"turnId": "0"}),
    one("session.error", 10, {"errorType": "rate_limit", "message": "slow down"}),
    one("session.title_changed", 11, {"title": "Listing"}),
    one("session.compaction_complete", 12, {"success": True, "summaryContent": "ls was run", "messagesRemoved": 3}),
    one("user.message", 13, {"content": "go on", "source": "skill-pdf"}),
    one("abort", 14, {"reason": "user_abort"}),
    used(15, **{"gpt-5": [100, 20, 40, 3, 5]}),
]  # fmt: skip


def items_of(*values: Any) -> list[Item]:
    return mapped(FMT, lines(*values))[0]


def test_each_kind_of_record_has_its_event() -> None:
    items = items_of(*SESSION)
    assert [(item.type, item.actor) for item in items] == [
        ("native", "host"), ("message", "host"), ("message", "user"), ("turn.start", "host"), ("message", "assistant"),
        ("model.response", "assistant"), ("tool.call", "assistant"), ("tool.result", "tool:bash"), ("native", "host"),
        ("turn.end", "host"), ("error", "host"), ("session.update", "host"), ("context.compaction", "host"),
        ("message", "host"), ("session.interrupt", "user"), ("model.response", "assistant"),
    ]  # fmt: skip
    assert items[5].data == {
        "parts": [
            {"type": "text", "content": "Running."},
            {"type": "tool_call", "id": "c1", "name": "bash", "arguments": {"command": "ls"}},
        ],
        "response.id": "a1",
        "response.model": "gpt-5",
        "native_usage": {"outputTokens": 7},
        "native": {"type": "assistant.message", "id": "e5", "parent": "e4"},
    }
    assert items[7].data["response"] == "a\n" and items[7].data["is_error"] is False
    assert items[10].data["error.type"] == "rate_limit" and items[10].data["message"] == "slow down"
    assert [item.ts for item in items] == [value["timestamp"] for value in SESSION]


def test_the_state_is_that_of_the_session() -> None:
    state = folded(items_of(*SESSION))
    assert (state.turns, state.tool_calls, state.tool_results, state.open_calls) == ({"user": 1, "model": 1}, 1, 1, [])
    assert state.title == "Listing"
    assert texts(state.history) == ["Be brief.", "List.", "Running.", "go on"]
    assert texts(state.history, "reasoning") == ["I run ls."], (
        "said in a record of its own, and once more in the message"
    )
    assert texts(state.context) == ["ls was run", "go on"]
    assert counters(state) == [100, 20, 40, 3, 5]


def test_reasoning_that_only_the_message_has_is_shown() -> None:
    item = items_of(one("assistant.message", 1, {"content": "", "reasoningText": "Hm.", "toolRequests": []}))[0]
    assert item.data["parts"] == [{"type": "reasoning", "content": "Hm."}]


def test_a_turn_is_named_after_its_interaction_because_the_numbers_begin_anew() -> None:
    values = [
        one("assistant.turn_start", 1, {"turnId": "0", "interactionId": "a"}),
        one("assistant.turn_end", 2, {"turnId": "0"}),
        one("session.info", 3, {"message": "x"}),
        one("assistant.turn_start", 4, {"turnId": "0", "interactionId": "b/c"}),
        one("assistant.turn_end", 5, {"turnId": "0"}),
    ]
    items = items_of(*values)
    assert [item.turn for item in items] == ["0-a", "0-a", None, "0-b_c", "0-b_c"]
    assert folded(items).last_turn == {"id": "0-b_c", "outcome": "completed", "seq": 6}


# --- usage: cumulative, never twice ----------------------------------------------------------------


def test_a_resumed_session_counts_what_came_since() -> None:
    values = [START, used(1, a=[100, 10, 50, 0, 2]), one("session.resume", 2, {}), used(3, a=[250, 30, 90, 0, 2])]
    items = items_of(*values)
    assert items[3].data["usage"]["gen_ai.usage.input_tokens"] == 150
    assert counters(folded(items)) == [250, 30, 90, 0, 2]
    assert items[3].data["native_usage"]["a"]["usage"]["inputTokens"] == 250, "the record's own numbers stand beside it"


def test_counters_that_have_begun_anew_count_whole() -> None:
    items = items_of(used(1, a=[100, 10, 0, 0, 0]), used(2, a=[40, 60, 0, 0, 0]))
    assert counters(folded(items)) == [140, 70, 0, 0, 0]


def test_the_same_count_written_twice_counts_once() -> None:
    # copilot-cli #4098: a resumed session has records again.
    items = items_of(used(1, a=[100, 10, 5, 0, 0]), used(1, a=[100, 10, 5, 0, 0]))
    assert counters(folded(items)) == [100, 10, 5, 0, 0]


def test_a_count_of_one_model_has_its_name_and_one_of_several_has_none() -> None:
    one_model, several = items_of(
        used(1, a=[1, 1, 0, 0, 0], b=[0, 0, 0, 0, 0]), used(2, a=[2, 2, 0, 0, 0], b=[3, 3, 0, 0, 0])
    )
    assert one_model.data["response.model"] == "a"
    assert "response.model" not in several.data and several.data["usage"]["gen_ai.usage.input_tokens"] == 4


def test_a_session_that_crashed_has_no_counters() -> None:
    state = folded(items_of(*SESSION[:9]))
    assert counters(state) == [0, 0, 0, 0, 0]


# --- tools and sub-agents --------------------------------------------------------------------------


def test_a_failed_call_says_why() -> None:
    data = {"toolCallId": "c9", "success": False, "error": {"code": "denied", "message": "not allowed"}}
    item = items_of(one("tool.execution_complete", 1, data))[0]
    assert {**item.data, "native": None} == {
        "id": "c9", "response": "not allowed", "code": "denied", "is_error": True, "native": None,
    }  # fmt: skip


def test_a_call_that_began_before_it_was_asked_for_is_one_call() -> None:
    values = [
        one("tool.execution_start", 1, {"toolCallId": "c1", "toolName": "bash", "arguments": {}}),
        one("assistant.message", 2, {"content": "", "toolRequests": [CALL]}),
        one("tool.execution_complete", 3, {"toolCallId": "c1", "success": True, "result": {"content": "ok"}}),
    ]
    state = folded(items_of(*values))
    assert (state.tool_calls, state.tool_results, state.open_calls) == (1, 1, [])


def test_a_sub_agents_talk_is_not_in_the_context_of_its_parent() -> None:
    values = [
        one("user.message", 1, {"content": "go"}),
        one("assistant.message", 2, {"content": "from the agent", "parentToolCallId": "c1"}),
        one("user.message", 3, {"content": "do this"}, agentId="agent-1"),
    ]
    items = items_of(*values)
    assert [item.data.get("sidechain") for item in items] == [None, True, True]
    state = folded(items)
    assert texts(state.context) == ["go"] and state.turns["user"] == 1
    assert items[2].data["native"]["agent"] == "agent-1"


def test_what_was_attached_is_a_part() -> None:
    blob = {"type": "blob", "mimeType": "image/png", "data": "iVBORw0="}
    file = {"type": "file", "path": "/etc/passwd", "displayName": "passwd"}
    item = items_of(one("user.message", 1, {"content": "see", "attachments": [blob, file]}))[0]
    assert item.data["parts"][1:] == [
        {"type": "blob", "modality": "image", "mime_type": "image/png", "content": "iVBORw0="},
        {"type": "native", "value": file},
    ]


# --- what changes the past -------------------------------------------------------------------------


def test_a_rewind_goes_back_to_before_its_event() -> None:
    values = [*SESSION[:3], one("user.message", 3, {"content": "wrong"}), one("user.message", 4, {"content": "worse"})]
    rewind = one("session.snapshot_rewind", 5, {"upToEventId": "e3", "eventsRemoved": 2})
    items = items_of(*values, rewind, one("user.message", 6, {"content": "right"}))
    assert items[5].follows == 3
    assert texts(folded(items).history) == ["Be brief.", "List.", "right"]
    assert [item.record.number for item in line_of(items)] == [1, 2, 3, 6, 7]


def test_a_cleared_context_is_empty_or_has_its_first_message() -> None:
    clear = one("session.context_cleared", 2, {"messagesCleared": 1})
    assert folded(items_of(one("user.message", 1, {"content": "a"}), clear)).context == []
    again = one("session.context_cleared", 3, {"messagesCleared": 0, "initialMessage": "b"})
    assert texts(folded(items_of(clear, again)).context) == ["b"]


def test_a_compaction_that_failed_or_says_nothing_removes_nothing() -> None:
    said = one("user.message", 1, {"content": "a"})
    for data in ({"success": False, "summaryContent": "x"}, {"success": True}, {"success": True, "summaryContent": ""}):
        items = items_of(said, one("session.compaction_complete", 2, data))
        assert items[1].type == "native" and texts(folded(items).context) == ["a"]


# --- recognised, named -----------------------------------------------------------------------------


def head(content: bytes, path: str = "events.jsonl") -> Head:
    return Head(content, Path(path))


def test_it_knows_its_own_and_nothing_else() -> None:
    assert FMT.sniff(head(lines(START)))
    assert FMT.sniff(head(lines(b"torn\n", SESSION[2])))
    for other in (
        {"type": "user", "message": {}, "sessionId": "s"}, {"type": "session", "id": "x", "timestamp": "t", "cwd": "/"},
        {"type": "other.kind", "data": {}, "id": "1", "timestamp": "t"}, {"type": "user.message", "data": []},
        [], 3, None,
    ):  # fmt: skip
        assert not FMT.sniff(head(lines(other)))
    assert not FMT.sniff(head(b""))


def test_the_session_is_called_as_it_says_else_as_its_folder() -> None:
    where = Source(Path("/home/ada/.copilot/session-state/f-1/events.jsonl"))
    records = [item.record for item in items_of(*SESSION)]
    assert FMT.about(iter(records), where) == (
        "s-1", {"project": "/home/ada/p", "agent.version": "1.0.64"}, *FMT.about(iter(records), where)[2:]
    )  # fmt: skip
    assert FMT.about(iter(records[1:]), where).session == "f-1"
    assert FMT.about(iter(records[1:]), Source(Path("/x/old.jsonl"))).session is None


# --- damage ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "faults"),
    [
        (lines(START)[:-1] + lines(SESSION[2]), ["", ""]),
        (lines(START)[:40] + lines(SESSION[2]), ["unparsable", ""]),
        (lines(START, SESSION[2]) + b"\0" * 1500, ["", "", "nul"]),
        (b'{"type":"user.message","data":{"content":"two\nlines"},"id":"x"}\n', ["unparsable", "unparsable"]),
        (b"\xef\xbb\xbf" + lines(START).replace(b"\n", b"\r\n") + b"\n", ["", "blank"]),
    ],
    ids=["glued", "torn-then-glued", "nul-tail", "raw-newline-in-a-string", "bom-crlf-blank"],
)
def test_damaged_files_are_kept_whole_and_their_records_found(content: bytes, faults: list[str]) -> None:
    items, _ = mapped(FMT, content)
    assert [item.record.fault for item in items] == faults


def test_line_separators_in_a_string_are_characters() -> None:
    # copilot-cli #2012, #2490
    value = one("user.message", 1, {"content": "a\u2028b\u0085c"})
    items, _ = mapped(FMT, json.dumps(value, ensure_ascii=False).encode() + b"\n")
    assert texts(folded(items).history) == ["a\u2028b\u0085c"]


def test_a_lone_surrogate_is_kept_as_it_stands() -> None:
    items, _ = mapped(FMT, lines(one("user.message", 1, {"content": "cut \ud83d"})))
    assert items[0].data["parts"] == [{"type": "text", "content": {"$gj:json": '"cut \\ud83d"'}}]


def test_repeated_ids_and_missing_parents_are_counted() -> None:
    _, report = mapped(FMT, lines(SESSION[5], SESSION[5]))
    assert (report.odd["repeated_ids"], report.odd["dangling_parents"]) == (1, 1)


def test_no_shape_of_any_member_stops_it() -> None:
    mapped(FMT, misshapen(SESSION))


@settings(max_examples=60, deadline=None)
@given(mutations(SESSION))
def test_no_file_stops_it(content: bytes) -> None:
    mapped(FMT, content)


# --- the corpus ------------------------------------------------------------------------------------


@golden("copilot")
def test_files_of_the_corpus(path: Path, told: Json) -> None:
    content = path.read_bytes()
    items, report = mapped(FMT, content, Source(path))
    assert FMT.sniff(head(content)) and not report.odd
    assert told_of(items, folded(items)) == told
    values = [json.loads(line) for line in content.splitlines()]
    assert len(values) == told["records"]
    assert sum(value["type"] == "user.message" for value in values) == told["prompts"]
    last = [value["data"]["modelMetrics"] for value in values if value["type"] == "session.shutdown"][-1]
    assert sum(model["usage"]["inputTokens"] for model in last.values()) == told["tokens"][0]
