"""OpenAI Agents SDK: rows of its session databases, and the state of a run that waits."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from imported import JUNK, Json, changed, documents, folded, golden, mapped, mutations, places, stored, texts, told_of

from gitjournal import Journal, fold
from gitjournal.errors import ImportRefused
from gitjournal.formats import detect, import_file, sqlite_read
from gitjournal.formats.openai_agents import OpenaiAgents
from gitjournal.formats.protocol import Item, Source
from gitjournal.formats.report import ImportReport

AGENTS = OpenaiAgents()
CALL = {"type": "function_call", "call_id": "c1", "name": "look", "arguments": '{"at": "x"}', "id": "fc_1"}
ITEMS: list[Json] = [
    {"role": "user", "content": "What is at x?"},
    {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "Look."}],
     "encrypted_content": "e"},
    CALL,
    {"type": "function_call_output", "call_id": "c1", "output": "a cat"},
    {"type": "message", "role": "assistant", "id": "msg_1", "status": "completed",
     "content": [{"type": "output_text", "text": "A cat.", "annotations": []}]},
]  # fmt: skip


def database(path: Path, **sessions: list[Any]) -> Path:
    with sqlite3.connect(path) as made:
        made.execute("CREATE TABLE agent_sessions (session_id TEXT PRIMARY KEY, created_at TIMESTAMP)")
        columns = "id INTEGER PRIMARY KEY, session_id TEXT, message_data TEXT, created_at TIMESTAMP"
        made.execute(f"CREATE TABLE agent_messages ({columns})")
        for name, items in sessions.items():
            made.execute("INSERT INTO agent_sessions VALUES (?, ?)", (name, "2026-01-02 03:04:05"))
            for item in items:
                cell = item if isinstance(item, (bytes, str)) or item is None else json.dumps(item)
                row = (name, cell, "2026-01-02 03:04:05")
                made.execute("INSERT INTO agent_messages (session_id, message_data, created_at) VALUES (?, ?, ?)", row)
    made.close()
    return path


def rows(tmp_path: Path, *items: Any) -> list[Item]:
    path = database(tmp_path / "rows.db", s=list(items))
    (strand,) = AGENTS.strands(Source(path))
    made = list(strand.read(strand.records(), ImportReport("x", "openai-agents")))
    stored(made)
    return made


def shown(item: Item) -> tuple[str, Json, str]:
    return item.type, {name: value for name, value in item.data.items() if name != "native"}, item.actor


def test_the_rows_of_a_session(journal: Journal, tmp_path: Path) -> None:
    path = database(tmp_path / "s.db", chat=ITEMS, other=ITEMS[:1])
    report = import_file(journal, path)
    assert (report.format, report.session, [one.session for one in report.others]) == (
        "openai-agents",
        "chat",
        ["other"],
    )
    events = list(journal.events("chat"))
    assert [event.type for event in events[1:]] == [
        "message", "model.response", "tool.call", "tool.result", "model.response",
    ]  # fmt: skip
    assert events[1].ts == "2026-01-02T03:04:05.000Z"
    assert events[3].read_file(1) == json.dumps(CALL).encode()
    assert events[4].actor == "tool:look"
    state = fold(events)
    assert state.turns == {"user": 1, "model": 2} and not state.open_calls and not state.odd
    assert texts(state.history) == ["What is at x?", "A cat."] and texts(state.history, "reasoning") == ["Look."]
    assert state.history[2]["parts"][0]["arguments"] == {"at": "x"}
    assert import_file(journal, path).added == 0
    with sqlite3.connect(path) as made:
        made.execute(
            "INSERT INTO agent_messages (session_id, message_data) VALUES ('chat', ?)", (json.dumps(ITEMS[0]),)
        )
    made.close()
    assert import_file(journal, path).added == 1


def test_history_that_was_taken_back_goes_to_a_branch(journal: Journal, tmp_path: Path) -> None:
    """``pop_item`` and ``clear_session`` change what was there; a journal keeps both."""
    path = database(tmp_path / "s.db", chat=ITEMS)
    import_file(journal, path)
    with sqlite3.connect(path) as made:
        made.execute("DELETE FROM agent_messages WHERE id = 5")
        made.execute("INSERT INTO agent_messages VALUES (6, 'chat', ?, '2026-01-02 03:05:05')", (json.dumps(ITEMS[0]),))
    made.close()
    report = import_file(journal, path)
    assert report.branch == "import-2" and journal.head("chat").seq == 6


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        ({"role": "developer", "content": [{"type": "input_text", "text": "Be brief."}]},
         ("message", {"role": "system", "parts": [{"type": "text", "content": "Be brief."}]}, "host")),
        ({"role": "user", "content": [
            {"type": "input_image", "image_url": "data:image/png;base64,AQI="}, {"type": "input_image", "file_id": "f"},
            {"type": "input_file", "file_url": "https://a/b.pdf"}, {"type": "input_audio"}]},
         ("message", {"role": "user", "parts": [
             {"type": "blob", "modality": "image", "mime_type": "image/png", "content": "AQI="},
             {"type": "file", "modality": "image", "file_id": "f"},
             {"type": "uri", "modality": "document", "uri": "https://a/b.pdf"}, {"type": "input_audio"}]}, "user")),
        ({"type": "message", "role": "assistant", "content": [{"type": "refusal", "refusal": "No."}]},
         ("model.response", {"parts": [{"type": "text", "content": "No."}]}, "assistant")),
        ({"type": "reasoning", "summary": []}, ("model.response", {"parts": [{"type": "reasoning", "content": ""}]},
                                                "assistant")),
        ({"type": "mcp_call", "id": "m1", "name": "find", "arguments": "{}", "output": "found"},
         ("model.response", {"parts": [
             {"type": "tool_call", "id": "m1", "name": "find", "arguments": {}},
             {"type": "tool_call_response", "id": "m1", "response": "found"}]}, "assistant")),
        ({"type": "local_shell_call", "call_id": "l", "action": {"command": ["ls"]}},
         ("model.response", {"parts": [
             {"type": "tool_call", "id": "l", "name": "local_shell", "arguments": {"command": ["ls"]}}]}, "assistant")),
        ({"type": "custom_tool_call", "call_id": "u", "name": "patch", "input": "*** Begin"},
         ("model.response", {"parts": [
             {"type": "tool_call", "id": "u", "name": "patch", "arguments": "*** Begin"}]}, "assistant")),
        ({"type": "function_call_output", "call_id": "gone", "output": [{"type": "input_text", "text": "t"}]},
         ("tool.result", {"parts": [{"type": "tool_call_response", "id": "gone",
                                     "response": [{"type": "text", "content": "t"}]}]}, "host")),
        ({"type": "item_reference", "id": "x"},
         ("native", {"format": "openai-agents", "type": "item_reference"}, "host")),
        ("no json", ("native", {"format": "openai-agents", "type": "unparsable"}, "host")),
        (None, ("native", {"format": "openai-agents", "type": "blank"}, "host")),
    ],
    ids=lambda value: str(value.get("type", value.get("role"))) if isinstance(value, dict) else None,
)  # fmt: skip
def test_each_kind_of_item(tmp_path: Path, item: Any, expected: tuple[str, Json, str]) -> None:
    (made,) = rows(tmp_path, item)
    assert shown(made) == expected


def test_the_items_of_one_response_are_one_turn(tmp_path: Path) -> None:
    calls = [{**CALL, "call_id": f"c{n}"} for n in (1, 2)]
    made = rows(tmp_path, ITEMS[1], {"type": "item_reference"}, *calls, ITEMS[3], *calls[:1], ITEMS[3])
    assert [item.type for item in made] == [
        "model.response", "native", "tool.call", "tool.call", "tool.result", "model.response", "tool.result",
    ]  # fmt: skip
    assert folded(made).turns["model"] == 2


# --- the state of a run ----------------------------------------------------------------------------

USAGE = {"requests": 1, "input_tokens": 50, "output_tokens": 9, "total_tokens": 59,
         "input_tokens_details": [{"cached_tokens": 40, "cache_write_tokens": 5}],
         "output_tokens_details": {"reasoning_tokens": 3}}  # fmt: skip
STATE: Json = {
    "$schemaVersion": "1.13", "original_input": "What is at x?", "current_agent": {"name": "helper"},
    "trace": {"id": "trace_1"},
    "model_responses": [{"usage": USAGE, "response_id": "resp_1", "output": [CALL]}],
    "generated_items": [
        {"type": "tool_call_item", "raw_item": CALL, "agent": {"name": "helper"}},
        {"type": "tool_call_output_item", "raw_item": ITEMS[3]},
        {"type": "message_output_item", "raw_item": ITEMS[4]},
        {"type": "tool_approval_item", "raw_item": {**CALL, "call_id": "c2"}},
    ],
}  # fmt: skip


def test_the_state_of_a_run() -> None:
    items, _ = mapped(AGENTS, json.dumps(STATE, indent=2).encode())
    assert [item.type for item in items] == [
        "message", "model.response", "native", "tool.call", "tool.result", "message", "tool.call", "native",
    ]  # fmt: skip
    state = folded(items)
    assert state.turns == {"user": 1, "model": 1} and list(state.usage.values()) == [50, 9, 40, 5, 3]
    assert [(one["id"], one["requires"]) for one in state.open_calls] == [("c2", "confirmation")]
    assert items[1].data["native_usage"] == USAGE and items[3].data["native"]["agent"] == "helper"


def test_the_state_of_a_run_of_the_javascript_sdk() -> None:
    said = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Hi."}]}
    result = {"type": "function_call_result", "callId": "c", "output": {"type": "text", "text": "r"}}
    state = {
        "$schemaVersion": "1.0", "currentTurn": 1, "currentAgent": {"name": "a"}, "originalInput": [
            {"type": "message", "role": "user", "content": "Hello"}],
        "modelResponses": [{"usage": {"inputTokens": 7, "outputTokens": 2}, "responseId": "r", "output": []}],
        "generatedItems": [{"type": "tool_call_item", "rawItem": {**CALL, "callId": "c", "call_id": None}},
                           {"type": "tool_call_output_item", "rawItem": result},
                           {"type": "message_output_item", "rawItem": said}],
    }  # fmt: skip
    items, _ = mapped(AGENTS, json.dumps(state).encode())
    made = folded(items)
    assert texts(made.history) == ["Hello", "Hi."] and list(made.usage.values())[:2] == [7, 2]
    assert made.tool_calls == made.tool_results == 1


def test_what_is_recognised(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    path.write_text(json.dumps(STATE, indent=1))
    found = detect(Source(path))
    assert found is not None and found.name == "openai-agents"
    path.write_text(json.dumps({"$schemaVersion": "1.0", "rules": []}))
    assert not AGENTS.sniff(Source(path).head())
    with sqlite3.connect(tmp_path / "x.db") as made:
        made.execute("CREATE TABLE agent_messages (id, session_id)")
    made.close()
    assert not AGENTS.sniff(Source(tmp_path / "x.db").head())


def test_a_cell_that_is_too_long_is_kept_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_read, "MAX_RECORD", 1000)
    found = rows(tmp_path, {"role": "user", "content": "x" * 1500}, {"role": "user", "content": "y"})
    assert [(item.record.number, item.record.fault) for item in found] == [(1, "oversized"), (2, "oversized"), (3, "")]
    assert found[1].record.offset == 1000 and len(found[1].record.raw) < 1000


def test_a_database_that_is_cut_is_refused(journal: Journal, tmp_path: Path) -> None:
    path = database(tmp_path / "s.db", chat=ITEMS * 40)
    path.write_bytes(path.read_bytes()[:5000])
    with pytest.raises(ImportRefused, match="damaged or cut"):
        import_file(journal, path, format="openai-agents")
    assert not list(journal.sessions())


@pytest.mark.parametrize("junk", JUNK, ids=repr)
def test_members_of_any_shape(junk: Any) -> None:
    for path in places(STATE):
        mapped(AGENTS, json.dumps(changed(STATE, path, junk)).encode())


@given(documents(STATE))
@settings(max_examples=200, deadline=None)
def test_any_state_is_mapped_and_given_back(content: bytes) -> None:
    mapped(AGENTS, content)


@given(mutations(ITEMS))
@settings(max_examples=100, deadline=None)
def test_any_rows_are_mapped(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    rows(tmp_path_factory.mktemp("rows"), *content.split(b"\n"))


@golden("openai-agents")
def test_a_file_of_the_corpus(path: Path, told: Json) -> None:
    items, _ = mapped(AGENTS, path.read_bytes(), Source(path))
    assert told_of(items, folded(items)) == told
