"""SWE-agent and mini-swe-agent: messages with and without an interface for calls, and what was done when."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from imported import JUNK, Json, changed, counters, documents, folded, mapped, places, texts

from gitjournal import Journal, fold
from gitjournal.formats import detect, export, import_file
from gitjournal.formats.protocol import Source
from gitjournal.formats.swe_agent import SweAgent

SWE = SweAgent()
STEP = {"action": "ls", "observation": "a.py", "response": "Look.\n```\nls\n```", "thought": "Look.", "state": "{}",
        "execution_time": 0.1, "query": [{"role": "user", "content": "Fix it."}]}  # fmt: skip
FUNCTION = {"id": "c1", "type": "function", "function": {"name": "bash", "arguments": '{"command": "ls"}'}}
HISTORY: list[Json] = [
    {"role": "system", "content": "You fix bugs.", "agent": "main", "message_type": "system_prompt"},
    {"role": "user", "content": "See how.", "is_demo": True},
    {"role": "user", "content": [{"type": "text", "text": "Fix it."}], "agent": "main"},
    {"role": "assistant", "content": "Look.", "thought": "Look.", "action": "ls", "tool_calls": [FUNCTION],
     "thinking_blocks": [{"type": "thinking", "thinking": "Where?", "signature": "s"}]},
    {"role": "tool", "content": "a.py", "message_type": "observation", "tool_call_ids": ["c1"]},
    {"role": "assistant", "content": "Edit.\n```\ncat a.py\n```", "action": "cat a.py"},
    {"role": "user", "content": "x = 1", "message_type": "observation"},
]  # fmt: skip
INFO = {"exit_status": "submitted", "model_stats": {"tokens_sent": 900, "tokens_received": 40, "api_calls": 2}}
TRAJECTORY: Json = {
    "trajectory": [STEP, STEP], "history": HISTORY, "info": {**INFO, "swe_agent_version": "1.1"}, "environment": "e",
    "replay_config": json.dumps({"agent": {"model": {"name": "m-1"}}}),
}  # fmt: skip
MINI: Json = {
    "info": {"exit_status": "Submitted", "mini_version": "2.0", "config": {"model": {"model_name": "m-2"}}},
    "messages": [
        {"role": "system", "content": "Use bash."}, {"role": "user", "content": "Fix it."},
        {"role": "assistant", "content": "THOUGHT: look", "extra": {
            "actions": [{"command": "ls"}], "timestamp": 1767323045.5, "response": {
                "id": "r1", "model": "m-2b", "choices": [{"finish_reason": "stop"}],
                "usage": {"prompt_tokens": 100, "completion_tokens": 9, "prompt_tokens_details": {"cached_tokens": 60},
                          "completion_tokens_details": {"reasoning_tokens": 4}}}}},
        {"role": "user", "content": "<returncode>0</returncode>\n<output>a.py</output>"},
        {"role": "assistant", "content": None, "reasoning_content": "Hm.", "tool_calls": [FUNCTION]},
        {"role": "tool", "tool_call_id": "c1", "content": "a.py", "extra": {"returncode": 0}},
        {"role": "exit", "content": "done"},
    ],
    "instance_id": "repo__1", "trajectory_format": "mini-swe-agent-1.1",
}  # fmt: skip


def raw(value: Any) -> bytes:
    return json.dumps(value, indent=2).encode()


def test_a_trajectory_is_shown_by_its_messages_and_not_twice() -> None:
    items, _ = mapped(SWE, raw(TRAJECTORY))
    state = folded(items)
    assert state.turns == {"user": 2, "model": 2} and (state.tool_calls, state.tool_results) == (2, 2)
    assert not state.open_calls and not state.unmatched_results
    assert texts(state.history) == ["You fix bugs.", "See how.", "Fix it.", "Look.", "Edit.\n```\ncat a.py\n```"]
    assert texts(state.history, "reasoning") == ["Where?"] and counters(state)[:2] == [900, 40]
    by_type = [item.data["native"].get("type") for item in items if item.type == "model.response"]
    assert by_type == ["assistant", "assistant", "run"]
    demo = next(item for item in items if item.data.get("native", {}).get("demo"))
    assert demo.data["parts"] == [{"type": "text", "content": "See how."}]
    assert {item.data.get("response.model") for item in items if item.type == "model.response"} == {"m-1"}
    assert next(item for item in items if item.type == "tool.result").actor == "tool:bash"


def test_a_trajectory_without_a_history_is_shown_by_its_steps() -> None:
    items, _ = mapped(SWE, raw({name: value for name, value in TRAJECTORY.items() if name != "history"}))
    state = folded(items)
    assert state.turns["model"] == 2 and (state.tool_calls, state.tool_results) == (2, 2)
    assert items[1].data["parts"] == [
        {"type": "text", "content": "Look.\n```\nls\n```"},
        {"type": "tool_call", "id": None, "name": "shell", "arguments": {"command": "ls"}},
        {"type": "tool_call_response", "id": None, "response": "a.py"},
    ]


def test_the_small_one_with_and_without_an_interface_for_calls() -> None:
    items, _ = mapped(SWE, raw(MINI))
    state = folded(items)
    assert state.turns == {"user": 1, "model": 2} and (state.tool_calls, state.tool_results) == (2, 2)
    assert counters(state) == [100, 9, 60, 0, 4] and not state.open_calls
    first = items[3]
    assert (first.data["response.id"], first.data["response.model"], first.data["finish_reason"]) == (
        "r1",
        "m-2b",
        "stop",
    )
    assert first.ts == "2026-01-02T03:04:05.500Z"
    assert items[5].data["parts"][0] == {"type": "reasoning", "content": "Hm."}
    assert items[5].data["response.model"] == "m-2" and items[7].type == "native"


def test_what_a_user_says_after_an_answer_is_no_output() -> None:
    messages = [MINI["messages"][2], {"role": "user", "content": "No, the other one."}]
    items, _ = mapped(SWE, raw({**MINI, "messages": messages}))
    assert items[2].type == "message" and items[2].actor == "user"
    quoted = {"role": "user", "content": "<returncode>0</returncode> is what I see."}
    items, _ = mapped(SWE, raw({**MINI, "messages": [MINI["messages"][0], quoted]}))
    assert items[2].type == "message"


def test_who_the_session_is(journal: Journal, tmp_path: Path) -> None:
    for name, value, expected in (
        ("fix.traj", TRAJECTORY, {"source": "swe-agent", "agent.name": "swe-agent", "agent.version": "1.1"}),
        ("run.json", MINI, {"source": "swe-agent", "agent.name": "mini-swe-agent", "agent.version": "2.0"}),
        ("bare.traj.json", MINI["messages"], {"source": "swe-agent", "agent.name": "mini-swe-agent"}),
    ):
        path = tmp_path / name
        path.write_bytes(raw(value))
        report = import_file(journal, path)
        assert report.format == "swe-agent" and report.session in ("fix", "repo__1", "bare.traj")
        assert journal.event(report.session, 1).data == expected
        with (tmp_path / "out").open("wb") as out:
            export(journal, report.session, "swe-agent", out)
        assert (tmp_path / "out").read_bytes() == path.read_bytes()
        assert import_file(journal, path).added == 0
    assert fold(journal.events("bare.traj")).turns["user"] == 1


@pytest.mark.parametrize("name", ["chat.json", "list.jsonl"])
def test_a_list_of_messages_of_somebody_else_is_not_claimed(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(raw(MINI["messages"]))
    found = detect(Source(tmp_path / name))
    assert found is None or found.name != "swe-agent"


@pytest.mark.parametrize("junk", JUNK, ids=repr)
def test_members_of_any_shape(junk: Any) -> None:
    for value in (TRAJECTORY, MINI):
        for path in places(value):
            mapped(SWE, raw(changed(value, path, junk)))


@given(documents(TRAJECTORY) | documents(MINI) | documents(MINI["messages"]))
@settings(max_examples=300, deadline=None)
def test_any_document_is_mapped_and_given_back(content: bytes) -> None:
    mapped(SWE, content)
