"""openboa: events in the order of the file, and what waits for somebody."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from imported import Json, folded, lines, mapped, misshapen, mutations, texts

from gitjournal.formats.openboa import STATE, Openboa
from gitjournal.formats.protocol import Head, Item, Source

FMT = Openboa()
SESSION_ID = "0195-s"


def one(kind: str, n: int, wake: str | None = None, **more: Any) -> Json:
    stamp = f"2026-02-01T10:00:{n:02d}.000Z"
    event = {"id": f"e{n}", "type": kind, "createdAt": stamp, "processedAt": None, "wakeId": wake, **more}
    return {"kind": "session.event.appended", "sessionId": SESSION_ID, "event": event}


def span(kind: str, n: int, **more: Any) -> Json:
    return one(kind, n, "w/1", spanId="w/1", parentSpanId=None, spanKind="wake", name="wake", summary=None, **more)


CALL = {
    "requestId": "r1",
    "toolName": "shell",
    "input": {"command": "ls"},
    "permissionPolicy": "always_ask",
    "ownership": "managed",
}
SESSION: list[Json] = [
    one("user.define_outcome", 0, outcome={"title": "List", "detail": None, "successCriteria": []}),
    one("user.message", 1, message="List."),
    span("span.started", 2),
    one("agent.tool_use", 3, "w/1", **{**CALL, "requestId": None, "toolName": "read", "output": "a.py"}),
    one("agent.tool_use", 4, "w/1", **CALL, output=None),
    one("session.status_idle", 5, "w/1", reason="requires_action", summary="waits", blockingEventIds=["e4"]),
    span("span.completed", 6, result="blocked"),
    {
        "kind": "session.event.processed",
        "sessionId": SESSION_ID,
        "eventId": "e1",
        "processedAt": "2026-02-01T10:00:07.000Z",
    },
    one("user.tool_confirmation", 8, requestId="r1", toolName="shell", allowed=True, note="go"),
    one("agent.tool_use", 9, "w2", **CALL, output="a.py"),
    one("agent.custom_tool_use", 10, "w2", requestId="r2", toolName="ask", input={"q": 1}),
    one("user.custom_tool_result", 11, requestId="r2", toolName="ask", output="yes"),
    one("agent.message", 12, "w2", message="One file.", summary="done"),
    one("session.child_created", 13, childSessionId="0195-c", outcomeTitle=None, message="sub"),
    one("user.interrupt", 14, note="enough"),
]


def items_of(*values: Any) -> list[Item]:
    return mapped(FMT, lines(*values))[0]


def test_each_kind_of_event_has_its_own() -> None:
    items = items_of(*SESSION)
    assert [(item.type, item.actor, item.turn) for item in items] == [
        ("native", "host", None), ("message", "user", None), ("turn.start", "host", "w_1"),
        ("message", "assistant", "w_1"), ("tool.call", "assistant", "w_1"), ("native", "host", "w_1"),
        ("turn.end", "host", "w_1"), ("native", "host", None), ("tool.confirmation", "user", None),
        ("message", "assistant", "w2"), ("tool.call", "assistant", "w2"), ("tool.result", "tool:ask", None),
        ("model.response", "assistant", "w2"), ("native", "host", None), ("session.interrupt", "user", None),
    ]  # fmt: skip
    assert items[4].data == {
        "id": "r1", "name": "shell", "arguments": {"command": "ls"}, "requires": "confirmation",
        "native": {"type": "agent.tool_use", "id": "e4", "wake": "w/1"},
    }  # fmt: skip
    assert items[3].data["parts"] == [
        {"type": "tool_call", "id": None, "name": "read", "arguments": {"command": "ls"}},
        {"type": "tool_call_response", "id": None, "response": "a.py"},
    ]
    assert items[13].data["child"] == {"session": "0195-c"}
    assert (items[7].ts, items[1].ts) == ("2026-02-01T10:00:07.000Z", "2026-02-01T10:00:01.000Z")


def test_the_state_is_that_of_the_session() -> None:
    items = items_of(*SESSION)
    state = folded(items)
    assert (state.turns, state.tool_calls, state.tool_results, state.open_calls) == ({"user": 1, "model": 1}, 3, 3, [])
    assert texts(state.history) == ["List.", "One file."]
    assert state.last_turn == {"id": "w_1", "outcome": "completed", "seq": 8}
    waiting = folded(items, last=8)
    assert [(call["id"], call["requires"]) for call in waiting.open_calls] == [("r1", "confirmation")]
    assert folded(items, last=11).open_calls[0]["requires"] == "result"


def test_the_order_is_that_of_the_file_not_of_the_clock() -> None:
    items = items_of(one("user.message", 9, message="first"), one("user.message", 1, message="second"))
    assert texts(folded(items).history) == ["first", "second"]


def test_an_event_that_is_there_already_is_not_said_again() -> None:
    items, report = mapped(FMT, lines(SESSION[1], SESSION[1]))
    assert [item.type for item in items] == ["message", "native"] and report.odd["repeated_ids"] == 1


@pytest.mark.parametrize(
    ("result", "outcome"), [("success", "completed"), ("error", "failed"), ("blocked", "completed")]
)
def test_a_wake_is_a_turn(result: str, outcome: str) -> None:
    state = folded(items_of(span("span.started", 1), span("span.completed", 2, result=result)))
    assert state.last_turn == {"id": "w_1", "outcome": outcome, "seq": 3}


def test_a_tools_span_is_no_turn() -> None:
    tool = {**span("span.started", 1)["event"], "spanKind": "tool"}
    items = items_of({**SESSION[1], "event": tool})
    assert items[0].type == "native"


def test_a_torn_last_line_and_damage_in_the_middle_are_kept() -> None:
    items = items_of(SESSION[1], b"garbage\n", lines(SESSION[2])[:30] + lines(SESSION[12]), lines(SESSION[13])[:-9])
    assert [item.record.fault for item in items] == ["", "unparsable", "unparsable", "", "unparsable"]


# --- the folder ------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / ".openboa" / "agents" / "a1" / "sessions" / SESSION_ID
    path.mkdir(parents=True)
    (path / "events.jsonl").write_bytes(lines(*SESSION))
    return path


def about(folder: Path) -> tuple[str | None, Any]:
    source = Source(folder / "events.jsonl")
    return next(iter(FMT.strands(source))).about[:2]


def test_the_session_is_linked_to_its_parent(folder: Path) -> None:
    state = {"id": SESSION_ID, "agentId": "a1", "status": "idle", "metadata": {"parentSessionId": "0195-p"}}
    (folder / STATE).write_text(json.dumps(state))
    assert about(folder) == (SESSION_ID, {"agent.id": "a1", "parent": {"session": "0195-p"}})


@pytest.mark.parametrize("content", [None, b"", b"{", b"[]", b'{"agentId":[],"metadata":3}', b"x" * 2_000_000])
def test_a_missing_or_damaged_session_file_is_no_obstacle(folder: Path, content: bytes | None) -> None:
    if content is not None:
        (folder / STATE).write_bytes(content)
    assert about(folder) == (SESSION_ID, {})


def test_a_link_in_the_place_of_the_session_file_is_not_followed(folder: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret.json"
    secret.write_text('{"agentId": "from elsewhere"}')
    (folder / STATE).symlink_to(secret)
    assert about(folder) == (SESSION_ID, {})


def test_a_session_whose_events_do_not_say_its_id_is_called_like_its_folder(folder: Path) -> None:
    (folder / "events.jsonl").write_bytes(b"damaged\n")
    assert about(folder)[0] == SESSION_ID


# --- recognised, damaged ---------------------------------------------------------------------------


def test_it_knows_its_own_and_nothing_else() -> None:
    def sniff(content: bytes) -> bool:
        return FMT.sniff(Head(content, Path("events.jsonl")))

    assert sniff(lines(SESSION[0])) and sniff(lines(b"torn\n", SESSION[7]))
    for other in ({"kind": "session.event.appended"}, {"sessionId": "x", "kind": "other", "event": {}}, [], None):
        assert not sniff(lines(other))


def test_no_shape_of_any_member_stops_it() -> None:
    mapped(FMT, misshapen(SESSION))


@settings(max_examples=60, deadline=None)
@given(mutations(SESSION))
def test_no_file_stops_it(content: bytes) -> None:
    mapped(FMT, content)
