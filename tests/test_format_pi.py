"""Pi and OpenClaw: a tree in a file of lines, and what of it becomes a branch."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from imported import Json, counters, folded, golden, lines, mapped, misshapen, mutations, texts, told_of

from gitjournal.formats.pi import Pi
from gitjournal.formats.protocol import Head, Item, Source

FMT = Pi()
HEADER: Json = {
    "type": "session",
    "version": 3,
    "id": "s-1",
    "timestamp": "2026-03-01T10:00:00.000Z",
    "cwd": "/home/ada/p",
}
USAGE = {
    "input": 100, "output": 20, "cacheRead": 50, "cacheWrite": 7, "totalTokens": 177,
    "cost": {"input": 5e-06, "output": 0.0003, "cacheRead": 0.0, "cacheWrite": 0.0, "total": 0.000305},
}  # fmt: skip


def entry(kind: str, own: str, parent: str | None, **more: Any) -> Json:
    return {"type": kind, "id": own, "parentId": parent, "timestamp": "2026-03-01T10:00:01.000Z", **more}


def prompt(own: str, parent: str | None, text: str = "") -> Json:
    message = {"role": "user", "content": [{"type": "text", "text": text or own}], "timestamp": 1772359202000}
    return entry("message", own, parent, message=message)


def reply(own: str, parent: str | None, *content: Any, **more: Any) -> Json:
    blocks = list(content) or [{"type": "text", "text": own}]
    message = {
        "role": "assistant",
        "content": blocks,
        "model": "m-1",
        "provider": "p",
        "usage": USAGE,
        "stopReason": "stop",
    }
    return entry("message", own, parent, message={**message, **more})


CALL = {"type": "toolCall", "id": "t1", "name": "read", "arguments": {"path": "a.py"}}
RESULT = {
    "role": "toolResult", "toolCallId": "t1", "toolName": "read", "isError": False,
    "content": [{"type": "text", "text": "print()"}, {"type": "image", "data": "iVBOR", "mimeType": "image/png"}],
}  # fmt: skip
BASH = {
    "role": "bashExecution",
    "command": "ls",
    "output": "a.py",
    "exitCode": 0,
    "cancelled": False,
    "truncated": False,
}
SESSION: list[Json] = [
    HEADER,
    entry("model_change", "a0", None, provider="p", modelId="m-1"),
    prompt("a1", "a0", "Read it."),
    reply(
        "a2", "a1", {"type": "thinking", "thinking": "I read.", "thinkingSignature": "opaque"}, CALL, responseId="r1"
    ),
    entry("message", "a3", "a2", message=RESULT),
    reply("a4", "a3"),
    entry("message", "a5", "a4", message=BASH),
    entry("custom", "a6", "a5", customType="x", data={"n": 1}),
    entry("custom_message", "a7", "a6", customType="x", content="Note.", display=False),
    entry("session_info", "a8", "a7", name=" Reading "),
    entry("label", "a9", "a8", targetId="a1", label="start"),
    entry("compaction", "b0", "a9", summary="It was read.", firstKeptEntryId="a4", tokensBefore=900),
    reply("b1", "b0", stopReason="error", errorMessage="overloaded", content=[]),
    prompt("b2", "b1", "Again."),
]


def items_of(*values: Any) -> list[Item]:
    return mapped(FMT, lines(*values))[0]


def test_each_kind_of_entry_has_its_event() -> None:
    items = items_of(*SESSION)
    assert [(item.type, item.actor) for item in items] == [
        ("native", "host"), ("native", "host"), ("message", "user"), ("model.response", "assistant"),
        ("tool.result", "tool:read"), ("model.response", "assistant"), ("message", "user"), ("native", "host"),
        ("message", "host"), ("session.update", "user"), ("native", "host"), ("context.compaction", "host"),
        ("error", "host"), ("message", "user"),
    ]  # fmt: skip
    assert items[3].data == {
        "parts": [
            {"type": "reasoning", "content": "I read."},
            {"type": "tool_call", "id": "t1", "name": "read", "arguments": {"path": "a.py"}},
        ],
        "response.id": "r1",
        "response.model": "m-1",
        "provider.name": "p",
        "finish_reason": "stop",
        "usage": {
            "gen_ai.usage.input_tokens": 157, "gen_ai.usage.output_tokens": 20,
            "gen_ai.usage.cache_read.input_tokens": 50, "gen_ai.usage.cache_creation.input_tokens": 7,
        },
        "native_usage": USAGE,
        "native": {"type": "message", "id": "a2", "parent": "a1"},
    }  # fmt: skip
    assert items[4].data["response"] == [
        {"type": "text", "content": "print()"},
        {"type": "blob", "modality": "image", "mime_type": "image/png", "content": "iVBOR"},
    ]
    assert items[12].data["message"] == "overloaded"


def test_the_state_is_that_of_the_session() -> None:
    state = folded(items_of(*SESSION))
    assert (state.title, state.tool_calls, state.tool_results, state.open_calls) == ("Reading", 1, 1, [])
    assert texts(state.history) == ["Read it.", "a4", "ls", "a.py", "Note.", "Again."]
    assert texts(state.context) == ["It was read.", "a4", "ls", "a.py", "Note.", "Again."]
    assert counters(state) == [314, 40, 100, 14, 0]


def test_costs_stand_as_they_were_written() -> None:
    # transcript notes, trap 3: 5e-06 is 0.000005 in the file, and the other way round
    raw = lines(reply("a", None)).replace(b"5e-06", b"0.000005")
    items, _ = mapped(FMT, raw)
    assert items[0].record.raw == raw and items[0].data["native_usage"]["cost"]["input"] == 0.000005


# --- branches --------------------------------------------------------------------------------------


def follows(*values: Any) -> list[int | None]:
    return [item.follows for item in items_of(*values)]


def test_two_prompts_with_one_parent_are_two_branches() -> None:
    values = [
        HEADER,
        prompt("a", None),
        reply("b", "a"),
        prompt("c", "b"),
        reply("d", "c"),
        prompt("e", "b"),
        reply("f", "e"),
    ]
    items = items_of(*values)
    assert [item.follows for item in items] == [None, None, None, None, None, 3, None]
    assert texts(folded(items).context) == ["a", "b", "e", "f"]
    assert texts(folded(items, last=5).context) == ["a", "b", "c", "d"]


def test_a_settings_entry_between_parent_and_prompt_does_not_hide_the_branch() -> None:
    values = [
        HEADER, prompt("a", None), reply("b", "a"), prompt("c", "b"), reply("d", "c"),
        entry("model_change", "m", "b", provider="p", modelId="m-2"), prompt("e", "m"),
    ]  # fmt: skip
    items = items_of(*values)
    assert items[6].follows == 3
    assert texts(folded(items).context) == ["a", "b", "e"]


def test_the_first_prompt_said_anew_is_a_branch_from_the_beginning() -> None:
    values = [HEADER, entry("model_change", "m", None), prompt("a", "m"), reply("b", "a"), prompt("c", "m")]
    assert follows(*values) == [None, None, None, None, 2]
    assert follows(HEADER, prompt("a", None), reply("b", "a"), prompt("c", None)) == [None, None, None, 1]


def test_a_prompt_on_a_branch_that_was_left_goes_back_to_it() -> None:
    values = [
        HEADER,
        prompt("a", None),
        reply("b", "a"),
        prompt("c", "b"),
        reply("d", "c"),
        prompt("e", "b"),
        prompt("f", "d"),
    ]
    items = items_of(*values)
    assert [item.follows for item in items][5:] == [3, 5]
    assert texts(folded(items).context) == ["a", "b", "c", "d", "f"]


def test_what_was_said_on_the_branch_that_is_left_is_told_on_the_new_one() -> None:
    values = [
        HEADER, prompt("a", None), reply("b", "a"), prompt("c", "b"), reply("d", "c"),
        entry("branch_summary", "s", "b", fromId="d", summary="c was tried"), prompt("e", "s"), reply("f", "e"),
    ]  # fmt: skip
    items = items_of(*values)
    assert [item.follows for item in items][5:] == [3, None, None]
    assert texts(folded(items).context) == ["a", "b", "c was tried", "e", "f"]


@pytest.mark.parametrize(
    "values",
    [
        [prompt("a", None), reply("b", "a"), entry("message", "r", "a", message=RESULT), prompt("c", "r")],
        [prompt("a", None), reply("b", "a"), prompt("c", "gone"), prompt("d", "gone")],
        [prompt("a", None), reply("b", "a"), reply("c", "a"), prompt("d", "c")],
        [{"type": "message", "message": {"role": "user", "content": "x"}}] * 3,
        [prompt("a", "a"), prompt("b", "b")],
    ],
    ids=["mechanical", "parents-never-written", "two-replies", "version-1", "its-own-parent"],
)
def test_no_other_fork_is_a_branch(values: list[Any]) -> None:
    assert follows(HEADER, *values) == [None] * (len(values) + 1)


def test_a_file_of_nothing_but_branches_ends_and_has_a_limit() -> None:
    values: list[Any] = [HEADER, prompt("a", None), reply("r0", "a")]
    for n in range(1, 1100):
        values += [prompt(f"x{n}", f"r{n - 1}"), prompt(f"y{n}", f"r{n - 1}"), reply(f"r{n}", f"y{n}")]
    assert sum(number is not None for number in follows(*values)) == 1000


def test_a_compaction_on_a_branch_keeps_what_is_on_it() -> None:
    values = [
        HEADER, prompt("a", None), reply("b", "a"), prompt("c", "b"), reply("d", "c"), prompt("e", "b"),
        reply("f", "e"), entry("compaction", "k", "f", summary="S", firstKeptEntryId="b"), prompt("g", "k"),
    ]  # fmt: skip
    items = items_of(*values)
    assert items[7].data["keep_last"] == 3
    assert texts(folded(items).context) == ["S", "b", "e", "f", "g"]
    other = [*values[:7], entry("compaction", "k", "f", summary="S", firstKeptEntryId="c"), prompt("g", "k")]
    assert texts(folded(items_of(*other)).context) == ["S", "g"], "c is on the branch that was left"


def test_a_second_compaction_does_not_keep_the_first_summary() -> None:
    values = [
        HEADER, prompt("a", None), prompt("b", "a"), entry("compaction", "k", "b", summary="S", firstKeptEntryId="b"),
        prompt("c", "k"), entry("compaction", "l", "c", summary="T", firstKeptEntryId="a"), prompt("d", "l"),
    ]  # fmt: skip
    assert texts(folded(items_of(*values)).context) == ["T", "b", "c", "d"]


def test_a_compaction_may_keep_from_an_entry_that_says_nothing() -> None:
    values = [
        HEADER, prompt("a", None), entry("model_change", "m", "a"), prompt("b", "m"),
        entry("compaction", "k", "b", summary="S", firstKeptEntryId="m"),
    ]  # fmt: skip
    assert texts(folded(items_of(*values)).context) == ["S", "b"]


# --- older versions, OpenClaw ----------------------------------------------------------------------


def test_version_1_counts_entries_from_the_header() -> None:
    said = [
        {"type": "message", "timestamp": "2026-03-01T10:00:00Z", "message": {"role": "user", "content": t}}
        for t in "abc"
    ]
    cut = {"type": "compaction", "timestamp": "2026-03-01T10:00:00Z", "summary": "S", "firstKeptEntryIndex": 3}
    items = items_of({**HEADER, "version": None}, said[0], b"damaged\n", *said[1:], cut)
    assert texts(folded(items).context) == ["S", "c"]


def test_version_1_has_its_times_in_the_messages() -> None:
    value = {"type": "message", "message": {"role": "user", "content": "x", "timestamp": 1772359202123}}
    assert items_of(value)[0].ts == "2026-03-01T10:00:02.123Z"


def test_version_2_calls_injected_messages_otherwise() -> None:
    value = entry("message", "a", None, message={"role": "hookMessage", "content": "x", "customType": "h"})
    item = items_of(value)[0]
    assert (item.type, item.actor, item.data["injected"]) == ("message", "host", True)


@pytest.mark.parametrize(
    ("file", "session"),
    [
        ("2026-03-01T10-00-00-000Z_ab-12.jsonl", "ab-12"),
        ("ab-12.jsonl", "ab-12"),
        ("ab-12.jsonl.deleted.2026-03-01T10-00-00.000Z", "ab-12"),
        ("ab-12.jsonl.reset.2026-03-01T10-00-00.000Z", "ab-12"),
        ("ab-12.jsonl.full.bak", "ab-12"),
        ("ab-12-topic-7.jsonl", "ab-12-topic-7"),
        ("notes.txt", None),
    ],
)
def test_a_file_without_a_header_is_called_as_its_name_says(file: str, session: str | None) -> None:
    assert FMT.about(iter(()), Source(Path("/x") / file)).session == session


def test_an_archived_file_is_the_session_that_it_was() -> None:
    records = [item.record for item in items_of(*SESSION)]
    about = FMT.about(iter(records), Source(Path("other.jsonl.deleted.2026")))
    assert (about.session, about.start) == ("s-1", {"project": "/home/ada/p"})
    patterns = FMT.homes[1].patterns
    assert any(Path("agents/main/sessions/s.jsonl.deleted.2026").match(pattern) for pattern in patterns)
    assert not any(Path("agents/main/sessions/s.jsonl.lock").match(pattern) for pattern in patterns)


def test_a_copy_names_where_it_was_copied_from() -> None:
    origin = "/home/ada/.pi/agent/sessions/--p--/2026-03-01T09-00-00-000Z_par-1.jsonl"
    for member, path in (("parentSession", origin), ("branchedFrom", origin.replace("/", "\\"))):
        records = [item.record for item in items_of({**HEADER, member: path}, *SESSION[1:])]
        assert FMT.about(iter(records), Source(Path("x.jsonl"))).copied_from == "par-1"
    assert FMT.same(records[0]) == b"" and FMT.same(records[1]) == records[1].raw


# --- recognised, damaged ---------------------------------------------------------------------------


def head(content: bytes) -> Head:
    return Head(content, Path("x.jsonl"))


def test_it_knows_its_own_and_nothing_else() -> None:
    assert FMT.sniff(head(lines(HEADER))) and FMT.sniff(head(lines(b"torn\n", SESSION[2])))
    for other in ({"type": "session"}, {"type": "message", "id": "x"}, {"type": "user", "parentId": None}, [], 1, None):
        assert not FMT.sniff(head(lines(other)))


def test_damaged_lines_are_kept_and_the_rest_is_read() -> None:
    items = items_of(HEADER, lines(SESSION[2])[:50] + lines(SESSION[3]), b"no json\n", prompt("c", "a2"))
    assert [item.record.fault for item in items] == ["", "unparsable", "", "unparsable", ""]
    assert texts(folded(items).history) == ["c"]


def test_repeated_ids_and_missing_parents_are_counted() -> None:
    _, report = mapped(FMT, lines(HEADER, prompt("a", "gone"), prompt("a", "gone")))
    assert (report.odd["repeated_ids"], report.odd["dangling_parents"]) == (1, 1)


def test_no_shape_of_any_member_stops_it() -> None:
    branched = [prompt("c1", "a2"), entry("branch_summary", "c2", "a2", fromId="c1", summary="S"), prompt("c3", "c2")]
    mapped(FMT, misshapen([*SESSION, *branched, {"type": "message", "message": {"role": "user", "content": "x"}}]))


@settings(max_examples=80, deadline=None)
@given(mutations([*SESSION, prompt("c1", "a2"), prompt("c2", "a1"), entry("branch_summary", "c3", "a2", summary="S")]))
def test_no_file_stops_it(content: bytes) -> None:
    mapped(FMT, content)


# --- the corpus ------------------------------------------------------------------------------------


@golden("pi")
def test_files_of_the_corpus(path: Path, told: Json) -> None:
    content = path.read_bytes()
    items, report = mapped(FMT, content, Source(path))
    assert FMT.sniff(head(content)) and not report.odd
    assert told_of(items, folded(items)) == told
    assert FMT.about(iter([item.record for item in items]), Source(path)).copied_from == "parent-uuid"
    values = [json.loads(line)["message"] for line in content.splitlines() if b'"type":"message"' in line]
    assert sum(value["role"] == "user" for value in values) == told["prompts"]
    assert sum(value["usage"]["totalTokens"] for value in values if value["role"] == "assistant") == sum(
        told["tokens"][:2]
    )
