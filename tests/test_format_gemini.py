"""Gemini CLI: documents and lines; messages that come again, rewinds, and a conversation that is put together anew."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from imported import Json, changed, counters, folded, golden, lines, mapped, misshapen, mutations, texts, told_of

from gitjournal.formats.gemini import Gemini
from gitjournal.formats.protocol import Head, Item, Source

FMT = Gemini()
META: Json = {
    "sessionId": "s-1", "projectHash": "ab" * 32, "startTime": "2026-04-01T10:00:00.000Z",
    "lastUpdated": "2026-04-01T10:00:00.000Z", "kind": "main",
}  # fmt: skip


def said(kind: str, own: str, content: Any, **more: Any) -> Json:
    return {"id": own, "timestamp": f"2026-04-01T10:01:{len(own):02d}.000Z", "type": kind, "content": content, **more}


def tokens(given: int, made: int, cached: int = 0, thoughts: int = 0) -> Json:
    total = given + made + thoughts
    return {"input": given, "output": made, "cached": cached, "thoughts": thoughts, "tool": 0, "total": total}


def call(own: str, status: str = "success", output: Any = "a.py", **more: Any) -> Json:
    answer = [{"functionResponse": {"id": own, "name": "ls", "response": {"output": output}}}]
    return {"id": own, "name": "ls", "args": {"dir": "."}, "status": status, "result": answer, "timestamp": "x", **more}


ASKED = said("user", "u1", [{"text": "List."}])
ANSWERED = said(
    "gemini", "g1", "One file.", model="gemini-3", tokens=tokens(100, 10, 60, 5),
    thoughts=[{"subject": "Listing", "description": "I call ls.", "timestamp": "x"}], toolCalls=[call("c1")],
)  # fmt: skip
SESSION: list[Json] = [
    META,
    ASKED,
    {"$set": {"lastUpdated": "2026-04-01T10:02:00.000Z"}},
    ANSWERED,
    said("info", "i1", "An update is there."),
    said("error", "e1", "[API Error: quota]"),
    {"$set": {"summary": "Lists files."}},
    {"$rewindTo": "g1"},
    said("user", "u2", [{"text": "See "}, {"inlineData": {"mimeType": "image/png", "data": "iVBOR"}}, "it", {"x": 1}]),
    {"$set": {"messages": [said("user", "n1", "In short: files."), said("gemini", "n2", [{"text": "Yes."}])]}},
]


def items_of(*values: Any) -> list[Item]:
    return mapped(FMT, lines(*values))[0]


def document(*messages: Any, **more: Any) -> bytes:
    return json.dumps({**META, "messages": list(messages), **more}, indent=2).encode()


# --- what a message becomes ------------------------------------------------------------------------


def test_each_kind_of_message_has_its_event() -> None:
    items = items_of(*SESSION)
    assert [(item.type, item.actor, item.follows) for item in items] == [
        ("native", "host", None), ("message", "user", None), ("native", "host", None),
        ("model.response", "assistant", None), ("native", "host", None), ("error", "host", None),
        ("session.update", "host", None), ("native", "host", 3), ("message", "user", None),
        ("context.compaction", "host", None),
    ]  # fmt: skip
    assert items[3].data == {
        "parts": [
            {"type": "reasoning", "content": "Listing"},
            {"type": "reasoning", "content": "I call ls."},
            {"type": "text", "content": "One file."},
            {"type": "tool_call", "id": "c1", "name": "ls", "arguments": {"dir": "."}},
            {"type": "tool_call_response", "id": "c1", "response": "a.py", "is_error": False},
        ],
        "response.id": "g1",
        "response.model": "gemini-3",
        "native_usage": tokens(100, 10, 60, 5),
        "usage": {
            "gen_ai.usage.input_tokens": 100, "gen_ai.usage.output_tokens": 15,
            "gen_ai.usage.cache_read.input_tokens": 60, "gen_ai.usage.reasoning.output_tokens": 5,
        },
        "native": {"type": "gemini", "id": "g1"},
    }  # fmt: skip
    assert items[8].data["parts"] == [
        {"type": "text", "content": "See "},
        {"type": "blob", "modality": "image", "mime_type": "image/png", "content": "iVBOR"},
        {"type": "text", "content": "it"},
        {"type": "native", "value": {"x": 1}},
    ]
    assert (items[2].ts, items[0].ts) == ("2026-04-01T10:02:00.000Z", META["startTime"])


def test_output_is_with_the_thoughts() -> None:
    assert counters(folded(items_of(ANSWERED)))[:2] == [100, 15]


def test_a_call_is_over_when_its_status_says_so() -> None:
    calls = [
        call("c1", "error", "broken"), call("c2", "cancelled", result=None), call("c3", "executing", result=None),
        {**call("c4"), "result": [{"functionResponse": {"id": "c4", "response": {"error": "no such file"}}}]},
        {**call("c5"), "result": [{"text": "a"}, {"fileData": {"fileUri": "gs://b/c", "mimeType": "application/pdf"}}]},
    ]  # fmt: skip
    items = items_of(said("gemini", "g1", "", toolCalls=calls))
    answers = {part["id"]: part for part in items[0].data["parts"] if part["type"] == "tool_call_response"}
    assert {own: (part["response"], part["is_error"]) for own, part in answers.items()} == {
        "c1": ("broken", True), "c2": (None, True), "c4": ("no such file", False),
        "c5": (
            [
                {"type": "text", "content": "a"},
                {"type": "uri", "modality": "document", "mime_type": "application/pdf", "uri": "gs://b/c"},
            ],
            False,
        ),
    }  # fmt: skip
    assert [one["id"] for one in folded(items).open_calls] == ["c3"]


def test_a_sub_agent_is_a_child() -> None:
    items = items_of(said("gemini", "g1", "", toolCalls=[call("c1", agentId="a-1")]))
    assert items[0].data["child"] == {"session": "a-1"}
    two = items_of(said("gemini", "g1", "", toolCalls=[call("c1", agentId="a-1"), call("c2", agentId="a-2")]))
    assert two[0].data["children"] == [{"session": "a-1"}, {"session": "a-2"}]
    records = [item.record for item in items_of({**META, "kind": "subagent", "sessionId": "a-1"})]
    where = Source(Path("/h/.gemini/tmp/p/chats/s-1/a-1.jsonl"))
    assert FMT.about(iter(records), where)[:2] == ("a-1", {"parent": {"session": "s-1"}})
    for folder in ("chats", os.fsdecode(b"\xff")):
        assert FMT.about(iter(records), Source(Path("/h") / folder / "a-1.jsonl")).start == {}


# --- the same id again -----------------------------------------------------------------------------


def test_a_message_that_grows_is_said_once() -> None:
    base = {name: value for name, value in ANSWERED.items() if name not in ("tokens", "toolCalls")}
    waits = {**call("c1", "executing"), "result": None}
    values = [ASKED, base, {**base, "tokens": ANSWERED["tokens"]}, {**base, "toolCalls": [waits]}, ANSWERED]
    items = items_of(*values)
    assert [[part["type"] for part in item.data["parts"]] for item in items[1:]] == [
        ["reasoning", "reasoning", "text"], [], ["tool_call"], ["tool_call_response"],
    ]  # fmt: skip
    state = folded(items)
    assert (state.turns, state.tool_calls, state.tool_results, state.open_calls) == ({"user": 1, "model": 1}, 1, 1, [])
    assert texts(state.history) == ["List.", "One file."] and counters(state) == [100, 15, 60, 0, 5]


def test_a_result_that_is_masked_later_is_no_second_result() -> None:
    masked = changed(
        ANSWERED, ("toolCalls", 0, "result"), [{"functionResponse": {"id": "c1", "response": {"output": "…"}}}]
    )
    state = folded(items_of(ASKED, ANSWERED, masked))
    assert (state.tool_results, state.unmatched_results) == (1, 0)


def test_a_prompt_that_is_changed_is_no_second_turn() -> None:
    state = folded(items_of(ASKED, {**ASKED, "content": "List all."}))
    assert state.turns["user"] == 1 and texts(state.history) == ["List.", "List all."]


# --- rewinds ---------------------------------------------------------------------------------------


def prompts(*names: str) -> list[Json]:
    return [said("user", name, name) for name in names]


def test_a_rewind_takes_a_message_and_all_after_it() -> None:
    items = items_of(META, *prompts("a", "b", "c"), {"$rewindTo": "b"}, *prompts("d"))
    assert items[4].follows == 2
    assert texts(folded(items).context) == ["a", "d"]
    assert texts(folded(items, last=4).context) == ["a", "b", "c"]


def test_a_rewind_to_an_unknown_message_takes_all() -> None:
    items = items_of(META, *prompts("a", "b"), {"$rewindTo": "nowhere"}, *prompts("c"))
    assert items[3].follows == 1
    assert texts(folded(items).context) == ["c"]


def test_a_rewind_of_nothing_changes_nothing() -> None:
    items = items_of(META, {"$rewindTo": "nowhere"}, *prompts("a"))
    assert [item.follows for item in items] == [None, None, None]


def test_a_rewind_after_a_rewind_knows_only_what_is_left() -> None:
    values = [
        META,
        *prompts("a", "b"),
        {"$rewindTo": "b"},
        *prompts("c"),
        {"$rewindTo": "c"},
        *prompts("b"),
        {"$rewindTo": "b"},
    ]
    items = items_of(*values, *prompts("z"))
    assert [item.follows for item in items] == [None, None, None, 2, None, 4, None, 6, None]
    assert texts(folded(items).context) == ["a", "z"]


def test_a_rewind_goes_to_where_a_message_stood_first() -> None:
    values = [META, *prompts("a"), ANSWERED, {"$set": {}}, ANSWERED, *prompts("b"), {"$rewindTo": "g1"}, *prompts("c")]
    items = items_of(*values)
    assert items[6].follows == 2
    assert texts(folded(items).context) == ["a", "c"]


# --- checkpoints -----------------------------------------------------------------------------------


def test_a_conversation_put_together_anew_is_a_summary_and_what_was_kept() -> None:
    kept = prompts("c", "d")
    values = [
        META,
        *prompts("a", "b"),
        *kept,
        {"$set": {"messages": [said("user", "s", "a and b"), *kept]}},
        *prompts("e"),
    ]
    items = items_of(*values)
    assert items[5].type == "context.compaction" and items[5].data["keep_last"] == 2
    assert texts(folded(items).context) == ["a and b", "c", "d", "e"]


def test_what_was_kept_can_be_rewound_and_put_together_again() -> None:
    kept = prompts("c", "d")
    first = {"$set": {"messages": [said("user", "s", "a and b"), *kept]}}
    again = {"$set": {"messages": [said("user", "t", "up to c"), kept[1], *prompts("e")]}}
    items = items_of(META, *prompts("a", "b"), *kept, first, *prompts("e"), again, *prompts("f"))
    assert items[7].data["keep_last"] == 2
    assert texts(folded(items).context) == ["up to c", "d", "e", "f"]
    back = items_of(META, *prompts("a", "b"), *kept, first, *prompts("e"), {"$rewindTo": "e"}, *prompts("g"))
    assert texts(folded(back).context) == ["a and b", "c", "d", "g"]


def test_what_is_kept_after_a_rewind_is_counted_from_where_it_went_back_to() -> None:
    kept = prompts("c", "d")
    values = [
        META,
        *prompts("a", "b", "x"),
        {"$rewindTo": "b"},
        *kept,
        {"$set": {"messages": [said("user", "s", "a"), *kept]}},
    ]
    items = items_of(*values, *prompts("e"))
    assert items[7].data["keep_last"] == 2
    again = {"$set": {"messages": [said("user", "t", "up to c"), kept[1], *prompts("e")]}}
    assert texts(folded(items_of(*values, *prompts("e"), again)).context) == ["up to c", "d", "e"]


def test_what_a_chat_begins_with_is_no_compaction() -> None:
    begin = {"$set": {"messages": [said("user", "c1", [{"text": "<session_context>Today."}])]}}
    items = items_of(META, begin, ASKED, ANSWERED)
    assert [(item.type, item.actor) for item in items[1:3]] == [("message", "host"), ("message", "user")]
    assert items[1].data["injected"] is True and texts([items[1].data]) == ["<session_context>Today."]
    state = folded(items)
    assert state.turns == {"user": 1, "model": 1} and not state.compactions
    assert texts(state.context)[:2] == ["<session_context>Today.", "List."]
    # It is a message as any other from then on.
    again = folded(items_of(META, begin, ASKED, {"$set": {"messages": [begin["$set"]["messages"][0], ASKED]}}))
    assert texts(again.context) == ["<session_context>Today.", "List."]
    later = items_of(META, ASKED, begin)
    assert later[-1].type == "context.compaction"


def test_a_checkpoint_that_drops_all_has_no_summary() -> None:
    items = items_of(META, *prompts("a", "b"), {"$set": {"messages": []}}, *prompts("c"))
    assert texts(folded(items).context) == ["c"]


def test_a_checkpoint_that_only_cuts_the_end_is_a_rewind() -> None:
    items = items_of(META, *prompts("a", "b", "c"), {"$set": {"messages": prompts("a")}}, *prompts("d"))
    assert (items[4].type, items[4].follows) == ("native", 2)
    assert texts(folded(items).context) == ["a", "d"]


def test_a_checkpoint_of_the_same_messages_says_nothing_new() -> None:
    items = items_of(META, ASKED, ANSWERED, {"$set": {"messages": [ASKED, changed(ANSWERED, ("content",), "One.")]}})
    assert items[3].type == "native" and counters(folded(items))[0] == 100


def test_a_checkpoints_calls_are_not_calls_again() -> None:
    content = [{"functionCall": {"id": "c1", "name": "ls", "args": {"dir": "."}}}]
    answer = [{"functionResponse": {"id": "c1", "name": "ls", "response": {"output": "a.py"}}}]
    one = {**said("gemini", "n1", content), "toolCalls": [call("c1")]}
    items = items_of(
        META, ASKED, ANSWERED, {"$set": {"messages": [said("user", "n0", "x"), one, said("user", "n2", answer)]}}
    )
    state = folded(items)
    assert (state.tool_calls, state.tool_results, state.open_calls) == (1, 1, [])
    kinds = [part["type"] for part in items[3].data["summary"]]
    assert kinds == ["text", "tool_call", "tool_call_response", "tool_call_response"]


def test_a_message_of_results_only_is_a_result() -> None:
    answer = [{"functionResponse": {"id": "c1", "name": "ls", "response": {"output": "a.py"}}}]
    content = [{"functionCall": {"id": "c1", "name": "ls", "args": {}}}]
    items = items_of(said("gemini", "g", content), said("user", "u", answer))
    assert [item.type for item in items] == ["model.response", "tool.result"]
    assert (folded(items).open_calls, folded(items).turns["user"]) == ([], 0)


# --- documents -------------------------------------------------------------------------------------


def test_a_document_has_a_record_for_each_message() -> None:
    items = items_of(document(ASKED, ANSWERED, said("info", "i", "x"), summary="Lists."))
    assert [(item.type, item.record.at) for item in items] == [
        ("native", ("messages",)), ("message", ("messages", 0)), ("model.response", ("messages", 1)),
        ("native", ("messages", 2)), ("session.update", ()),
    ]  # fmt: skip
    state = folded(items)
    assert (state.summary, state.turns, counters(state)) == ("Lists.", {"user": 1, "model": 1}, [100, 15, 60, 0, 5])


def test_a_file_of_lines_with_one_line_is_no_document() -> None:
    alone, more = items_of(META)[0], items_of(META, ASKED)[0]
    assert alone == more and alone.record.is_json


def test_a_document_and_lines_have_the_same_conversation() -> None:
    from_lines = folded(items_of(META, ASKED, ANSWERED))
    from_document = folded(items_of(document(ASKED, ANSWERED)))
    assert [entry["parts"] for entry in from_lines.history] == [entry["parts"] for entry in from_document.history]


@pytest.mark.parametrize(
    "content", [document(ASKED)[:-3], document(ASKED) + b"x", document(ASKED) * 2], ids=["cut", "more", "two"]
)
def test_a_document_that_is_damaged_is_kept_as_lines(content: bytes) -> None:
    assert all(item.type == "native" for item in items_of(content))


# --- recognised, damaged ---------------------------------------------------------------------------


def head(content: bytes) -> Head:
    return Head(content, Path("session-x.jsonl"))


def test_it_knows_its_own_and_nothing_else() -> None:
    assert FMT.sniff(head(lines(META))) and FMT.sniff(head(document(ASKED)))
    assert FMT.sniff(head(document(said("user", "u", "x" * 300_000))[: 256 * 1024])), "longer than the head"
    assert FMT.sniff(head(lines(META)[:20] + b"\n" + lines(ANSWERED))), "gemini-cli #27276: a damaged first line"
    for other in ({"sessionId": "s", "type": "user"}, {"type": "gemini"}, {"messages": []}, [], None):
        assert not FMT.sniff(head(lines(other)))


def test_a_damaged_first_line_hides_nothing() -> None:
    items = items_of(lines(META)[:20] + b"\n", ASKED, ANSWERED)
    assert texts(folded(items).history) == ["List.", "One file."]
    assert FMT.about(iter([item.record for item in items]), Source(Path("session-x.jsonl"))).session is None


def test_no_shape_of_any_member_stops_it() -> None:
    mapped(FMT, misshapen(SESSION))
    for wrong in misshapen([ASKED, ANSWERED]).splitlines():
        mapped(FMT, document(*[json.loads(wrong)]))


@settings(max_examples=60, deadline=None)
@given(mutations([*SESSION, {"$rewindTo": "u1"}, {"$set": {"messages": [ASKED]}}]))
def test_no_file_stops_it(content: bytes) -> None:
    mapped(FMT, content)
    mapped(FMT, b'{"sessionId":"s","messages":[' + b",".join(content.splitlines()) + b"]}")


# --- the corpus ------------------------------------------------------------------------------------


@golden("gemini")
def test_files_of_the_corpus(path: Path, told: Json) -> None:
    """One of them is a document under the name of a file of lines."""
    content = path.read_bytes()
    items, report = mapped(FMT, content, Source(path))
    assert FMT.sniff(head(content)) and not report.odd
    assert told_of(items, folded(items)) == told
    try:
        values = json.loads(content)["messages"]
    except ValueError:
        values = [json.loads(line) for line in content.splitlines()]
    made = [value for value in values if value.get("type") == "gemini"]
    used = [value["tokens"] for value in made if value.get("tokens")]
    assert sum(one["input"] for one in used) == told["tokens"][0]
    assert sum(one["total"] - one["input"] for one in used) == told["tokens"][1]
    assert sum(len(value.get("toolCalls", ())) for value in made) == told["calls"]
