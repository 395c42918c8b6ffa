"""Codex: what the lines of a rollout become, its two logs, its counters, and what takes turns back."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
import zstandard
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

from gitjournal import fold
from gitjournal.formats import import_file
from gitjournal.formats.batch import gather, import_all
from gitjournal.formats.codex import SALVAGE, Codex
from gitjournal.formats.exporter import raw_records
from gitjournal.formats.protocol import Head, Item, Source
from gitjournal.formats.records import records
from gitjournal.formats.report import ImportReport
from gitjournal.journal import Journal

FMT = Codex()
ID = "019fc8be-3658-7ca3-9e29-0000000000aa"
OTHER = "019fc8be-0000-7ca3-9e29-0000000000bb"


def one(kind: str, payload: Any, n: int = 0, **more: Any) -> Json:
    """A line as Codex writes it."""
    return {"timestamp": f"2026-06-01T10:00:{n:02d}.000Z", "type": kind, "payload": payload, **more}


def meta(session: str = ID, **more: Any) -> Json:
    about = {"id": session, "timestamp": "2026-06-01T10:00:00.000Z", "cwd": "/p", "originator": "codex_cli_rs"}
    return one("session_meta", about | {"cli_version": "0.150.0", "source": "cli"} | more)


def item(kind: str, **more: Any) -> Json:
    return one("response_item", {"type": kind, **more})


def said(role: str, *texts_: str, **more: Any) -> Json:
    kind = "output_text" if role == "assistant" else "input_text"
    return item("message", role=role, content=[{"type": kind, "text": text} for text in texts_], **more)


def shown(kind: str, **more: Any) -> Json:
    """A line of the display log."""
    return one("event_msg", {"type": kind, **more})


def done(kind: str, block: str, text: str) -> Json:
    """A line of the display log of newer versions."""
    return shown("item_completed", item={"type": kind, "content": [{"type": block, "text": text}]})


def context(turn: str | None = "t1", **more: Any) -> Json:
    return one("turn_context", {"cwd": "/p", "model": "gpt-5", **({"turn_id": turn} if turn else {}), **more})


def call(number: str, name: str = "exec_command", arguments: str = '{"cmd": "ls"}') -> Json:
    return item("function_call", name=name, arguments=arguments, call_id=number)


def output(number: str, value: Any) -> Json:
    return item("function_call_output", call_id=number, output=value)


def tokens(*counts: int) -> Json:
    """Input, cached, output, reasoning."""
    names = ("input_tokens", "cached_input_tokens", "output_tokens", "reasoning_output_tokens")
    return dict(zip(names, counts, strict=True)) | {"total_tokens": counts[0] + counts[2]}


def count(total: Any, last: Any = None) -> Json:
    info = {"total_token_usage": total, "last_token_usage": last or total, "model_context_window": 258400}
    return shown("token_count", info=info, rate_limits={"primary": {"used_percent": 1.5}})


#: One of each kind that a session can hold.
SESSION: list[Json] = [
    meta(git={"branch": "main", "commit_hash": "0a"}, base_instructions={"text": "Be brief."}),
    shown("task_started", turn_id="t1", model_context_window=258400),
    said("developer", "<permissions instructions>none</permissions instructions>"),
    said("user", "<environment_context>\n<cwd>/p</cwd>\n</environment_context>"),
    context(),
    said("user", "List."),
    shown("user_message", message="List.", images=[]),
    shown("agent_reasoning", text="I run ls."),
    item("reasoning", id="rs1", summary=[{"type": "summary_text", "text": "I run ls."}], encrypted_content="opaque"),
    call("c1"),
    count(tokens(100, 40, 20, 5)),
    output("c1", "a\n"),
    shown("exec_command_end", call_id="c1", command=["ls"], aggregated_output="a\n", exit_code=0),
    shown("agent_message", message="One file."),
    said("assistant", "One file.", phase="final_answer"),
    count(tokens(250, 100, 30, 5), tokens(150, 60, 10, 0)),
    shown("task_complete", turn_id="t1", last_agent_message="One file."),
    one("compacted", {"message": "ls was run", "replacement_history": [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "List."}]},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "ls was run"}]},
        {"type": "compaction", "encrypted_content": "opaque"},
    ]}),
    shown("context_compacted"),
    shown("thread_name_updated", thread_name="Listing"),
    shown("error", message="slow down", codex_error_info="usage_limit"),
    one("world_state", {"full": True, "state": {"a": 1}}),
]  # fmt: skip


def items_of(*values: Any) -> list[Item]:
    return mapped(FMT, lines(*values))[0]


# --- each kind of line -------------------------------------------------------------------------------


def test_each_kind_of_line_has_its_event() -> None:
    items = items_of(*SESSION)
    assert [(item.type, item.actor) for item in items] == [
        ("native", "host"), ("turn.start", "host"), ("message", "host"), ("message", "host"), ("native", "host"),
        ("message", "user"), ("native", "host"), ("model.response", "assistant"), ("native", "host"),
        ("model.response", "assistant"), ("model.response", "assistant"), ("tool.result", "tool:exec_command"),
        ("native", "host"), ("model.response", "assistant"), ("native", "host"), ("model.response", "assistant"),
        ("turn.end", "host"), ("context.compaction", "host"), ("native", "host"), ("session.update", "user"),
        ("error", "host"), ("native", "host"),
    ]  # fmt: skip
    assert items[2].data["role"] == "system" and items[3].data["role"] == "user"
    assert items[9].data == {
        "parts": [{"type": "tool_call", "id": "c1", "name": "exec_command", "arguments": {"cmd": "ls"}}],
        "response.id": "t1/1", "response.model": "gpt-5",
        "native": {"type": "response_item", "item": "function_call", "call": "c1"},
    }  # fmt: skip
    assert items[12].data["fields"] == {"exit_code": 0}, "its output is that of the result before it"
    assert items[20].data["error.type"] == "usage_limit"
    assert items[0].ts == "2026-06-01T10:00:00.000Z"


def test_the_state_is_that_of_the_session() -> None:
    state = folded(items_of(*SESSION))
    assert (state.turns, state.tool_calls, state.tool_results, state.open_calls) == ({"user": 1, "model": 2}, 1, 1, [])
    assert texts(state.history)[2:] == ["List.", "One file."]
    assert texts(state.history, "reasoning") == ["I run ls."]
    assert texts(state.context) == ["List.", "ls was run"]
    assert counters(state) == [250, 30, 100, 0, 5]
    assert state.title == "Listing" and state.last_turn == {"id": "t1", "outcome": "completed", "seq": 18}


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [('{"a": [1]}', {"a": [1]}), ("[1]", [1]), ("not json", "not json"), ('{"torn', '{"torn'), ("3", "3"), ("", "")],
)
def test_arguments_are_json_in_a_string(arguments: str, expected: Any) -> None:
    assert items_of(call("c1", arguments=arguments))[0].data["parts"][0]["arguments"] == expected


@pytest.mark.parametrize(
    ("value", "part"),
    [
        (
            item("custom_tool_call", call_id="c1", name="apply_patch", input="*** Begin"),
            ("c1", "apply_patch", "*** Begin"),
        ),
        (item("local_shell_call", call_id="c1", action={"type": "exec"}), ("c1", "local_shell", {"type": "exec"})),
        (item("local_shell_call", id="i1", action={}), ("i1", "local_shell", {})),
        (item("tool_search_call", call_id="c1", arguments={"query": "x"}), ("c1", "tool_search", {"query": "x"})),
        (item("web_search_call", id="ws1", action={"query": "x"}), ("ws1", "web_search", {"query": "x"})),
        (item("web_search_call", action={"query": "x"}), (None, "web_search", {"query": "x"})),
        (item("image_generation_call", id="ig1", revised_prompt="a cat"), ("ig1", "image_generation", "a cat")),
    ],
)
def test_calls_of_all_kinds(value: Json, part: tuple[Any, ...]) -> None:
    found = items_of(value)[0].data["parts"][0]
    assert found == dict(zip(("type", "id", "name", "arguments"), ("tool_call", *part), strict=True))


def test_a_call_that_never_gets_a_result_of_its_own_is_not_left_open() -> None:
    state = folded(items_of(
        item("web_search_call", id="ws1", status="completed", action={"query": "x"}),
        item("image_generation_call", id="ig1", status="completed", revised_prompt="cat", result="iVBORw0="),
        item("tool_search_call", call_id=None, arguments={}), call("c1"),
    ))  # fmt: skip
    assert [open_["id"] for open_ in state.open_calls] == ["c1"] and state.tool_results == 3


@pytest.mark.parametrize(
    ("value", "data"),
    [
        ("plain", {"response": "plain"}),
        ([{"type": "input_text", "text": "a"}], {"response": [{"type": "text", "content": "a"}]}),
        ({"content": "a", "success": False}, {"response": "a", "is_error": True}),
        ({"content": "a", "success": True}, {"response": "a", "is_error": False}),
        ('{"output":"a","metadata":{"exit_code":2}}', {"is_error": True}),
        ('{"output":"a","metadata":{"exit_code":0}}', {"is_error": False}),
        ('{"output":"a', {}),
        ([{"type": "input_image", "image_url": "data:image/png;base64,AAAA"}],
         {"response": [{"type": "blob", "modality": "image", "mime_type": "image/png", "content": "AAAA"}]}),
    ],
)  # fmt: skip
def test_outputs_of_all_shapes(value: Any, data: Json) -> None:
    found = items_of(call("c1"), output("c1", value))[1]
    assert (found.type, found.actor) == ("tool.result", "tool:exec_command")
    given = {"response": value, **data, "id": "c1"}
    assert {name: kept for name, kept in found.data.items() if name != "native"} == given


def test_reasoning_is_kept_as_the_model_thought_it_else_as_its_summary() -> None:
    whole = item("reasoning", summary=[{"text": "short"}], content=[{"type": "reasoning_text", "text": "long"}])
    assert items_of(whole)[0].data["parts"] == [{"type": "reasoning", "content": "long"}]
    opaque = items_of(item("reasoning", summary=[], content=None, encrypted_content="opaque"))[0]
    assert (opaque.type, opaque.data["parts"]) == ("model.response", []) and "opaque" not in json.dumps(opaque.data)


@pytest.mark.parametrize(
    ("text", "actor"),
    [
        ("<environment_context>x</environment_context>", "host"),
        ("# AGENTS.md instructions for /p\n\n<INSTRUCTIONS>\nx\n</INSTRUCTIONS>", "host"),
        ("<user_instructions>\n\nx\n\n</user_instructions>", "host"),
        ("  <turn_aborted>\nx</turn_aborted>\n", "host"),
        ("<environment_context>x</environment_context> and why?", "user"),
        ("What is <skill>?", "user"),
    ],
)
def test_what_the_program_puts_in_is_not_the_users(text: str, actor: str) -> None:
    found = items_of(said("user", text))[0]
    assert (found.actor, found.data.get("injected")) == (actor, actor == "host" or None)


def test_a_message_with_an_image_is_the_users() -> None:
    image = {"type": "input_image", "image_url": "https://example.com/a.png"}
    content = [{"type": "input_text", "text": "<skill>x</skill>"}, image]
    assert items_of(item("message", role="user", content=content))[0].actor == "user"


def test_newer_versions_say_what_is_the_users() -> None:
    kinds = {"internal_chat_message_metadata_passthrough": {"content_item_kinds": ["memory.summary"]}}
    assert items_of(said("user", "plain", **kinds))[0].actor == "host"
    kinds = {"internal_chat_message_metadata_passthrough": {"content_item_kinds": ["user.text"]}}
    assert items_of(said("user", "<skill>x</skill>", **kinds))[0].actor == "user"


# --- two logs ----------------------------------------------------------------------------------------

SEARCH = {"query": "x"}
PAIRS = [
    (said("user", "go"), shown("user_message", message="go\n")),
    (said("assistant", "yes"), shown("agent_message", message="yes")),
    (item("reasoning", summary=[{"text": "hm"}]), shown("agent_reasoning", text="hm")),
    (item("web_search_call", action=SEARCH), shown("web_search_end", call_id="w", query="x", action=SEARCH)),
    (said("user", "go"), done("UserMessage", "text", "go")),
    (said("assistant", "go"), done("AgentMessage", "Text", "go")),
]


@pytest.mark.parametrize("pair", PAIRS)
def test_what_both_logs_say_is_shown_once_whichever_comes_first(pair: tuple[Json, Json]) -> None:
    for first, second in (pair, pair[::-1]):
        items = items_of(first, second, second, first)
        assert [item.type == "native" for item in items] == [False, True, False, True]


def test_the_same_word_twice_is_said_twice() -> None:
    values = [said("user", "go on"), shown("user_message", message="go on")] * 2
    assert folded(items_of(*values)).turns["user"] == 2


def test_what_only_the_display_log_has_is_shown() -> None:
    values = [meta(), shown("user_message", message="go", images=["data:image/png;base64,AAAA"]),
              shown("agent_reasoning", text="hm"), shown("agent_message", message="yes")]  # fmt: skip
    state = folded(items_of(*values))
    assert texts(state.history) == ["go", "yes"] and texts(state.history, "reasoning") == ["hm"]
    assert state.turns == {"user": 1, "model": 1}


def test_an_echo_is_not_taken_for_the_word() -> None:
    items = items_of(said("user", "hello"), shown("agent_message", message="hello"))
    assert [item.type for item in items] == ["message", "model.response"]


def test_a_message_with_an_image_has_its_text_in_both_logs() -> None:
    begin, end, asked = ({"type": "input_text", "text": text} for text in ("<image>", "</image>", "what is it?"))
    content = [begin, {"type": "input_image", "image_url": "data:image/png;base64,A"}, end, asked]
    items = items_of(item("message", role="user", content=content), shown("user_message", message="what is it?"))
    assert [item.type for item in items] == ["message", "native"]


def test_a_call_within_a_script_is_only_in_the_display_log() -> None:
    ended = {"type": "CommandExecution", "id": "x1", "command": ["ls"], "aggregated_output": "a", "exit_code": 1}
    items = items_of(
        call("c1"), shown("item_completed", item=ended), shown("item_completed", item=ended | {"id": "c1"})
    )
    assert [item.type for item in items] == ["model.response", "message", "native"]
    assert items[1].data["parts"] == [
        {"type": "tool_call", "id": "x1", "name": "shell", "arguments": {"command": ["ls"]}},
        {"type": "tool_call_response", "id": "x1", "response": "a", "is_error": True},
    ]
    state = folded(items)
    assert (state.tool_calls, len(state.open_calls)) == (2, 1) and len(state.context) == 1
    mcp = {"call_id": "m", "invocation": {"server": "s", "tool": "t", "arguments": {}}, "result": {"Err": "no"}}
    parts = items_of(shown("mcp_tool_call_end", **mcp))[0].data["parts"]
    assert parts[0]["name"] == "s.t" and parts[1]["response"] == "no" and parts[1]["is_error"] is True


# --- counters ----------------------------------------------------------------------------------------


def used(*values: Json) -> list[int]:
    return counters(folded(items_of(meta(), context(), *values)))


def test_a_count_that_is_written_again_counts_once() -> None:
    # Up to eight times in a file; sums of the newest counters are 5 % over the truth.
    again = count(tokens(100, 40, 20, 5))
    assert used(again, again, again) == [100, 20, 40, 0, 5]


def test_a_sum_that_grew_by_more_than_the_newest_counts_whole() -> None:
    assert used(count(tokens(100, 0, 10, 0)), count(tokens(300, 0, 30, 0), tokens(50, 0, 5, 0))) == [300, 30, 0, 0, 0]


def test_a_sum_that_went_back_begins_anew() -> None:
    assert used(count(tokens(100, 0, 10, 0)), count(tokens(40, 0, 20, 0)), count(tokens(60, 0, 25, 0))) == [
        160,
        35,
        0,
        0,
        0,
    ]


def test_the_sum_of_a_history_that_is_not_in_the_file_does_not_count() -> None:
    assert used(count(tokens(5000, 0, 500, 0), tokens(40, 0, 4, 0))) == [40, 4, 0, 0, 0]


def test_counts_without_a_sum_or_without_anything() -> None:
    only = shown("token_count", info={"last_token_usage": tokens(9, 0, 1, 0)})
    assert used(only, shown("token_count", info=None), shown("token_count", info={})) == [9, 1, 0, 0, 0]
    assert used(shown("token_count", info={"prompt": 1420, "completion": 910})) == [1420, 910, 0, 0, 0]


def test_a_usage_record_and_the_count_after_it_are_one_response() -> None:
    record = one("token_usage_record", {
        "response_id": "resp_1", "turn_id": "t1", "usage": tokens(100, 0, 10, 0),
        "thread_token_usage": tokens(100, 0, 10, 0),
    })  # fmt: skip
    items = items_of(meta(), context(), said("assistant", "yes"), record, count(tokens(100, 0, 10, 0)))
    assert [item.data.get("response.id") for item in items[2:]] == ["t1/1", "t1/1", None]
    assert items[3].data["native"]["response_id"] == "resp_1"
    state = folded(items)
    assert counters(state)[:2] == [100, 10] and state.turns["model"] == 1


def test_items_of_one_response_have_one_name_and_what_is_given_ends_it() -> None:
    values = [context(), item("reasoning", summary=[{"text": "a"}]), call("c1"), call("c2"), count(tokens(1, 0, 1, 0)),
              output("c1", ""), output("c2", ""), said("assistant", "b"), count(tokens(2, 0, 2, 0)),
              said("user", "more"), said("assistant", "c"), context("t2"), said("assistant", "d")]  # fmt: skip
    names = [item.data["response.id"] for item in items_of(*values) if item.type == "model.response"]
    assert names == ["t1/1", "t1/1", "t1/1", "t1/1", "t1/2", "t1/2", "t1/3", "t2/1"]


def test_a_turn_that_is_named_again_goes_on() -> None:
    values = [
        context("t1"),
        said("assistant", "a"),
        context("t2"),
        said("assistant", "b"),
        context("t1"),
        said("assistant", "c"),
    ]
    names = [item.data["response.id"] for item in items_of(*values) if item.type == "model.response"]
    assert names == ["t1/1", "t2/1", "t1/2"]


def test_the_native_numbers_stand_beside() -> None:
    found = items_of(count(tokens(100, 40, 20, 5)))[0].data
    assert found["native_usage"]["last_token_usage"]["cached_input_tokens"] == 40 and "parts" not in found


# --- turns, rewinds ----------------------------------------------------------------------------------


def turn(name: str, text: str) -> list[Json]:
    return [
        shown("task_started", turn_id=name), said("user", text), shown("user_message", message=text),
        said("assistant", f"re: {text}"), shown("task_complete", turn_id=name),
    ]  # fmt: skip


def test_a_rollback_leads_back_to_before_the_turn() -> None:
    items = items_of(
        meta(),
        *turn("t1", "a"),
        *turn("t2", "b"),
        *turn("t3", "c"),
        shown("thread_rolled_back", num_turns=2),
        *turn("t4", "d"),
    )
    assert [item.record.number for item in items if item.follows is not None] == [17] and items[16].follows == 6
    assert texts(folded(items).history) == ["a", "re: a", "d", "re: d"]
    assert len(line_of(items)) == 6 + 1 + 5


def test_rollbacks_one_after_the_other() -> None:
    back = shown("thread_rolled_back", num_turns=1)
    items = items_of(meta(), *turn("t1", "a"), *turn("t2", "b"), back, back, *turn("t3", "c"))
    assert [item.follows for item in items if item.follows is not None] == [6, 1]
    assert texts(folded(items).history) == ["c", "re: c"]


def test_a_rollback_ends_the_turn_that_it_takes_back() -> None:
    items = items_of(meta(), *turn("t1", "a")[:4], shown("thread_rolled_back", num_turns=1), said("user", "b"))
    assert [item.turn for item in items] == [None, "t1", "t1", "t1", "t1", None, None]
    assert folded(items).open_turn is None


@pytest.mark.parametrize("number", [0, -1, 3, None, "1", True, 1.5])
def test_a_rollback_of_more_than_there_is_leads_nowhere(number: Any) -> None:
    items = items_of(meta(), *turn("t1", "a"), shown("thread_rolled_back", num_turns=number))
    assert all(item.follows is None for item in items)


@pytest.mark.parametrize(
    ("end", "outcome"),
    [
        (shown("task_complete", turn_id="t1"), "completed"),
        (shown("turn_complete"), "completed"),
        (shown("task_complete", turn_id="t1", error={"message": "no"}), "failed"),
        (shown("turn_aborted", reason="interrupted"), "interrupted"),
        (shown("turn_aborted", turn_id="t1", reason="replaced"), "canceled"),
    ],
)
def test_how_a_turn_ends(end: Json, outcome: str) -> None:
    state = folded(items_of(shown("task_started", turn_id="t1"), end))
    assert state.last_turn and (state.last_turn["id"], state.last_turn["outcome"]) == ("t1", outcome)


def test_the_end_of_a_turn_that_is_not_open_is_none() -> None:
    items = items_of(shown("task_complete", turn_id="t0"), shown("task_started"), shown("task_complete", turn_id="t9"))
    assert [item.type for item in items] == ["native", "turn.start", "native"]
    assert items[1].turn == "turn-2"


# --- sub-agents, forks -------------------------------------------------------------------------------


def about(*values: Any, path: str = "x.jsonl") -> Any:
    return FMT.about(FMT.cut(io.BytesIO(lines(*values))), Source(Path(path)))


def test_a_sub_agent_is_a_child_and_its_first_prompt_is_its_parents() -> None:
    spawned = {"subagent": {"thread_spawn": {"parent_thread_id": OTHER, "depth": 1, "agent_path": "/root/a"}}}
    child = meta(source=spawned, session_id=OTHER, agent_nickname="Ada")
    found = about(child, meta(OTHER))
    assert (found.session, found.start["parent"], found.start["agent.id"]) == (ID, {"session": OTHER}, "Ada")
    assert about(meta(parent_thread_id=OTHER)).start["parent"] == {"session": OTHER}
    assert "parent" not in about(meta(parent_thread_id=ID)).start
    items = items_of(
        child, said("user", "<environment_context></environment_context>"), said("user", "do"), said("user", "more")
    )
    assert [item.actor for item in items] == ["host", "host", "assistant", "user"]


def test_a_review_that_names_no_parent_is_a_sub_agent_too() -> None:
    items = items_of(meta(source={"subagent": "review"}), said("user", "review this"), said("user", "and that"))
    assert [item.actor for item in items] == ["host", "assistant", "user"]


def test_the_parent_names_the_child() -> None:
    assert items_of(shown("collab_agent_spawn_end", new_thread_id=OTHER))[0].data["child"] == {"session": OTHER}
    assert items_of(shown("sub_agent_activity", agent_thread_id=OTHER))[0].data["child"] == {"session": OTHER}
    spawn = [call("c1", "spawn_agent", '{"message": "do"}'), output("c1", json.dumps({"agent_id": OTHER}))]
    assert items_of(*spawn)[1].data["child"] == {"session": OTHER}


def test_what_another_agent_says_has_its_name() -> None:
    content = [{"type": "input_text", "text": "done"}, {"type": "encrypted_content", "encrypted_content": "opaque"}]
    for value in (item("agent_message", author="/root/a", recipient="/root", content=content),
                  one("inter_agent_communication", {"author": "/root/a", "content": content})):  # fmt: skip
        found = items_of(value)[0]
        assert (found.actor, found.data["name"], found.data["parts"][0]["content"]) == ("host", "/root/a", "done")
        assert "opaque" not in json.dumps(found.data)
    assert folded(items_of(item("agent_message", author="a", content="x"))).turns["user"] == 0


def fork_of(past: list[Json], *more: Json) -> list[Json]:
    """The rollout of a fork: its own header, then all lines of the other one, stamped anew."""
    stamped = [{**value, "timestamp": "2026-06-02T00:00:00.000Z"} for value in past]
    return [meta(OTHER, forked_from_id=ID), *stamped, *more]


def test_a_fork_is_a_branch_of_its_session_and_its_history_counts_once(journal: Journal, tmp_path: Path) -> None:
    # ccusage #950: 91 times the truth.
    first, second = tmp_path / "a.jsonl", tmp_path / "b.jsonl"
    first.write_bytes(lines(*SESSION[:17]))
    fork = fork_of(
        SESSION[:17], context("t2"), said("user", "More."), said("assistant", "No."), count(tokens(300, 100, 40, 5))
    )
    second.write_bytes(lines(*fork))
    assert about(*fork).copied_from == ID
    import_file(journal, first)
    report = import_file(journal, second)
    assert report.session == OTHER
    state = fold(journal.events(OTHER))
    assert state.forked_from and state.forked_from["session"] == ID
    assert texts(state.history)[2:] == ["List.", "One file.", "More.", "No."]
    assert counters(state) == [300, 40, 100, 0, 5]
    for name, path in ((ID, first), (OTHER, second)):
        assert b"".join(raw for _, raw in raw_records(journal, journal.resolve(name))) == path.read_bytes()


def by_reference(end: Any, of: str = ID) -> list[Json]:
    """The rollout of a fork as newer versions write it: of the other one it has the name, and where it was left."""
    base = {"thread_id": of, "end_ordinal_exclusive": end, "end_byte_offset": 0}
    header = meta(OTHER, forked_from_id=of, history_base=base)
    after = [context("t2"), said("user", "More."), said("assistant", "No."), count(tokens(300, 100, 40, 5))]
    return numbered([header, *after], end if isinstance(end, int) else 0)


def numbered(values: list[Json], begin: int = 0) -> list[Json]:
    return [{**value, "ordinal": begin + n} for n, value in enumerate(values)]


@pytest.mark.parametrize("end", [13, 17, 99])
def test_a_fork_that_refers_to_its_past_is_a_branch_of_it(journal: Journal, tmp_path: Path, end: int) -> None:
    first, second = tmp_path / "a.jsonl", tmp_path / "b.jsonl"
    first.write_bytes(lines(*numbered(SESSION[:17])))
    second.write_bytes(lines(*by_reference(end)))
    import_file(journal, first)
    report = import_file(journal, second)
    # Record n is event n + 1.
    assert report.notes == [f"the session goes on from {ID}@{min(end, 17) + 1}"]
    state = fold(journal.events(OTHER))
    assert state.forked_from and state.forked_from["seq"] == min(end, 17) + 1
    past = texts(fold(journal.events(ID, to=min(end, 17) + 1)).history)
    assert past and texts(state.history) == [*past, "More.", "No."]
    for name, path in ((ID, first), (OTHER, second)):
        assert b"".join(raw for _, raw in raw_records(journal, journal.resolve(name))) == path.read_bytes()
    with second.open("ab") as file:
        file.write(lines(*numbered([said("user", "And?")], end + 9)))
    assert import_file(journal, second).added == 1 and import_file(journal, second).added == 0
    assert texts(fold(journal.events(OTHER)).history)[-1] == "And?"


@pytest.mark.parametrize(("end", "branch"), [(6, "main"), (9, "rewind-1")])
def test_a_fork_of_a_session_with_a_rollback_goes_on_from_the_branch_that_it_means(
    journal: Journal, tmp_path: Path, end: int, branch: str
) -> None:
    past = [meta(), context("t1"), said("user", "a"), context("t2"), said("user", "b"), said("assistant", "c")]
    past += [shown("thread_rolled_back", num_turns=1), said("user", "d"), said("assistant", "e"), said("user", "f")]
    for name, values in (("a.jsonl", numbered(past)), ("b.jsonl", by_reference(end))):
        (tmp_path / name).write_bytes(lines(*values))
        import_file(journal, tmp_path / name)
    state = fold(journal.events(OTHER))
    assert state.forked_from and state.forked_from["branch"] == branch
    assert texts(state.history)[-4:] == (["b", "c", "More.", "No."] if end == 6 else ["d", "e", "More.", "No."])


@pytest.mark.parametrize("end", [0, -3, "13", None, 2.5, True])
def test_a_fork_that_refers_to_nothing_begins_by_itself(journal: Journal, tmp_path: Path, end: Any) -> None:
    first, second = tmp_path / "a.jsonl", tmp_path / "b.jsonl"
    first.write_bytes(lines(*numbered(SESSION[:17])))
    second.write_bytes(lines(*by_reference(end)))
    for path in (first, second):
        import_file(journal, path)
    state = fold(journal.events(OTHER))
    assert not state.forked_from and texts(state.history) == ["More.", "No."]


def test_a_fork_whose_past_is_not_there_says_so(journal: Journal, tmp_path: Path) -> None:
    path = tmp_path / "b.jsonl"
    path.write_bytes(lines(*by_reference(13)))
    report = import_file(journal, path)
    assert report.notes == [f"it goes on from session {ID}, which is not in the journal"]
    # Not even when it comes later: what is there is never written anew.
    (tmp_path / "a.jsonl").write_bytes(lines(*numbered(SESSION[:17])))
    import_file(journal, tmp_path / "a.jsonl")
    assert import_file(journal, path).added == 0


def test_a_fork_that_is_imported_with_its_past_waits_for_it(journal: Journal, tmp_path: Path) -> None:
    third = OTHER[:-1] + "c"
    base = {"thread_id": OTHER, "end_ordinal_exclusive": 18}
    header = meta(third, forked_from_id=OTHER, history_base=base)
    alone = meta(ID[:-1] + "0", forked_from_id=ID[:-1] + "1")
    folder = tmp_path / "sessions"
    folder.mkdir()
    (folder / "a.jsonl").write_bytes(lines(*numbered([header, said("user", "And?")], 18)))
    (folder / "b.jsonl").write_bytes(lines(*by_reference(13)))
    (folder / "c.jsonl").write_bytes(lines(*numbered(SESSION[:17])))
    (folder / "d.jsonl").write_bytes(lines(alone, said("user", "Alone.")))
    outcomes = list(import_all(journal, list(gather([folder]))))
    assert len(outcomes) == 4 and not any(outcome.error for outcome in outcomes)
    for session, of in ((OTHER, ID), (third, OTHER)):
        state = fold(journal.events(session))
        assert state.forked_from and state.forked_from["session"] == of
    assert texts(fold(journal.events(third)).history)[-3:] == ["More.", "No.", "And?"]


def migrated(values: list[Json]) -> list[Json]:
    """A rollout as ``codex migrate-rollouts`` writes it."""
    kinds = {"user_message": ("UserMessage", "text"), "agent_message": ("AgentMessage", "Text")}
    made = []
    for value in numbered(values):
        kind, payload = value["type"], value["payload"]
        if kind == "session_meta":
            payload = payload | {"session_id": payload["id"], "history_mode": "paginated"}
        elif kind == "turn_context":
            payload = {name: of for name, of in payload.items() if name != "summary"} | {"permission_profile": {}}
        elif payload.get("type") in kinds:
            name, block = kinds[payload["type"]]
            content = [{"type": block, "text": payload["message"]}]
            payload = {"type": "item_completed", "item": {"type": name, "id": "item-1", "content": content}}
        elif payload.get("type") == "agent_reasoning":
            thought = {"type": "Reasoning", "summary_text": [payload["text"]], "raw_content": []}
            payload = {"type": "item_completed", "item": thought}
        elif payload.get("type") == "token_count":
            payload = payload | {"rate_limits": {"individual_limit": None}}
        made.append(value | {"payload": payload})
    return made


def test_a_rollout_that_was_migrated_is_a_version_that_shares_its_history(journal: Journal, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(lines(*SESSION[:17]))
    import_file(journal, path)
    old = path.read_bytes()
    path.write_bytes(lines(*migrated(SESSION[:17])) + lines(*numbered([said("user", "More.")], 17)))
    report = import_file(journal, path)
    assert (report.branch, report.copied, report.added) == ("import-2", 17, 1)
    assert texts(fold(journal.events(f"{ID}/import-2")).history)[-2:] == ["One file.", "More."]
    for name, content in ((ID, old), (f"{ID}/import-2", path.read_bytes())):
        assert b"".join(raw for _, raw in raw_records(journal, journal.resolve(name))) == content


@pytest.mark.parametrize(
    ("at", "path"),
    [
        (0, ("forked_from_id",)), (4, ("model",)), (5, ("role",)), (6, ("item", "content", 0, "text")),
        (7, ("item", "summary_text", 0)), (10, ("info", "total_token_usage", "input_tokens")),
        (15, ("info", "last_token_usage", "output_tokens")), (16, ("turn_id",)),
    ],
)  # fmt: skip
def test_a_migrated_rollout_that_says_something_else_is_a_version_from_there_on(
    journal: Journal, tmp_path: Path, at: int, path: tuple[Any, ...]
) -> None:
    file = tmp_path / "a.jsonl"
    file.write_bytes(lines(*SESSION[:17]))
    import_file(journal, file)
    changed = json.loads(json.dumps(migrated(SESSION[:17])))
    inner = changed[at]["payload"]
    for step in path[:-1]:
        inner = inner[step]
    inner[path[-1]] = "other" if isinstance(inner, list) or not isinstance(inner.get(path[-1]), int) else 7
    file.write_bytes(lines(*changed))
    assert import_file(journal, file).copied == at


def test_a_response_has_one_name_in_all_copies_of_its_history() -> None:
    names = [item.data["response.id"] for item in items_of(*SESSION[:17]) if "response.id" in item.data]
    copied = [item.data["response.id"] for item in items_of(*fork_of(SESSION[:17])) if "response.id" in item.data]
    assert names == copied


@pytest.mark.parametrize("shown_first", [True, False])
def test_a_call_behind_the_counters_is_of_the_same_response(shown_first: bool) -> None:
    # As versions up to 0.42 write it: what the screen shows, the counters, what the model has said.
    first = [shown("agent_message", message="I look.")] * shown_first
    first += [count(tokens(100, 40, 20, 5)), said("assistant", "I look."), call("c1"), output("c1", "a")]
    second = [shown("agent_message", message="One.")] * shown_first
    second += [count(tokens(250, 100, 30, 5), tokens(150, 60, 10, 0)), said("assistant", "One.")]
    items = items_of(meta(), said("user", "List."), *first, count(tokens(100, 40, 20, 5)), *second)
    names = [item.data["response.id"] for item in items if "response.id" in item.data]
    assert names == [f"{ID}/1"] * 3 + [f"{ID}/2"] * 2
    assert folded(items).turns["model"] == 2 and counters(folded(items)) == [250, 30, 100, 0, 5]


def test_counters_behind_the_result_are_of_the_response_before_it() -> None:
    items = items_of(
        meta(), said("user", "List."), call("c1"), output("c1", "a"), count(tokens(100, 40, 20, 5)),
        said("assistant", "One."), one("compacted", {"message": "listed"}), said("assistant", "Two."),
    )  # fmt: skip
    names = [item.data["response.id"] for item in items if "response.id" in item.data]
    assert names == [f"{ID}/1"] * 2 + [f"{ID}/2", f"{ID}/3"]


def test_the_first_header_counts() -> None:
    assert about(meta(), meta(OTHER)).session == ID
    assert about(b"torn\n", meta()).session == ID


def test_without_a_header_the_name_of_the_file_says_which_session() -> None:
    name = f"rollout-2026-06-01T10-00-00-{ID}.jsonl.zst"
    found = about(context(), path=name)
    assert found.session == ID and not found.settled
    assert about(context(), path="notes.jsonl").session is None


def test_the_start_says_where_and_with_what() -> None:
    assert about(*SESSION).start == {"project": "/p", "agent.name": "codex", "agent.version": "0.150.0"}


# --- other shapes ------------------------------------------------------------------------------------

FLAT: list[Json] = [
    {"id": ID, "timestamp": "2025-06-01T10:00:00.000Z", "instructions": None, "git": {}},
    {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "List."}]},
    {"type": "reasoning", "id": "rs", "summary": [{"type": "summary_text", "text": "Hm."}]},
    {"type": "function_call", "name": "shell", "arguments": '{"command":["ls"]}', "call_id": "c1"},
    {"type": "function_call_output", "call_id": "c1", "output": '{"output":"a","metadata":{"exit_code":0}}'},
    {"record_type": "state"},
    {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "a"}]},
]


def test_the_oldest_files_have_no_envelope() -> None:
    content = lines(*FLAT).replace(b"\n", b"\r\n")
    assert FMT.sniff(Head(content, Path("x"))) and about(content).session == ID
    items, report = mapped(FMT, content)
    assert [item.type for item in items] == [
        "native", "message", "model.response", "model.response", "tool.result", "native", "model.response",
    ]  # fmt: skip
    assert not report.odd and folded(items).turns == {"user": 1, "model": 2}


def test_a_compressed_rollout_is_the_same_session(journal: Journal, tmp_path: Path) -> None:
    plain, packed = tmp_path / "a.jsonl", tmp_path / "a.jsonl.zst"
    plain.write_bytes(lines(*SESSION))
    packed.write_bytes(zstandard.compress(lines(*SESSION)))
    assert import_file(journal, plain).added == len(SESSION)
    assert import_file(journal, packed).added == 0


def test_kinds_of_lines_that_nobody_knows_yet_are_kept() -> None:
    item = items_of(one("realtime_item", {"id": "x", "mode": "new", "inner": {}}))[0]
    assert item.data["type"] == "realtime_item" and item.data["fields"] == {"mode": "new"}


def test_it_knows_its_own_and_nothing_else() -> None:
    assert all(FMT.sniff(Head(lines(value), Path("x"))) for value in SESSION)
    for other in (
        {"type": "session_meta", "payload": {}}, {"timestamp": "t", "type": "event_msg", "payload": {}},
        {"timestamp": "t", "type": "message", "payload": {}},
        {"id": "x", "timestamp": "t", "instructions": "", "type": "y"},
        {"type": "user", "message": {}, "sessionId": "s"}, {"id": 1, "timestamp": "t", "instructions": ""}, [], 3, None,
    ):  # fmt: skip
        assert not FMT.sniff(Head(lines(other), Path("x")))


# --- put away between two imports --------------------------------------------------------------------


@pytest.mark.parametrize("cut", range(len(SESSION) + 1))
def test_a_mapper_that_was_put_away_goes_on_as_if_it_had_not(cut: int) -> None:
    more = [*SESSION, *turn("t5", "a"), shown("thread_rolled_back", num_turns=2), *SESSION[5:12]]
    whole = items_of(*more)
    found = list(FMT.cut(io.BytesIO(lines(*more))))
    first = FMT.mapper(ImportReport("x", "x"), NOWHERE)
    for record in found[:cut]:
        first.item(record)
    second = FMT.mapper(ImportReport("x", "x"), NOWHERE)
    second.load(json.loads(json.dumps(first.save())))
    assert [second.item(record) for record in found[cut:]] == whole[cut:]


# --- damage ------------------------------------------------------------------------------------------


def test_a_line_behind_a_torn_one_is_found() -> None:
    # codex #24425
    torn = lines(SESSION[5])[:60] + lines(SESSION[5])
    assert [record.fault for record in records(io.BytesIO(torn), SALVAGE)] == ["unparsable", ""]


def test_decimals_and_reused_ordinals_are_no_reason_to_stop() -> None:
    # codex #35746, #45150
    values = [meta() | {"ordinal": 0}, count(tokens(1, 0, 1, 0)) | {"ordinal": 0}, said("user", "x")]
    items = items_of(*values)
    assert [item.data["native"].get("ordinal") for item in items] == [0, 0, None]


def test_no_shape_of_any_member_stops_it() -> None:
    mapped(FMT, misshapen([*SESSION, *FLAT, fork_of([])[0], *(value for pair in PAIRS for value in pair)]))


@settings(max_examples=60, deadline=None)
@given(mutations([*SESSION, *FLAT, *(value for pair in PAIRS for value in pair)]))
def test_no_file_stops_it(content: bytes) -> None:
    mapped(FMT, content)


# --- the corpus --------------------------------------------------------------------------------------


def counted(values: list[Any]) -> list[int]:
    """Tokens of a file whose sums never go back: the last sum."""
    sums = [value["payload"]["info"]["total_token_usage"] for value in values
            if value.get("payload", {}).get("type") == "token_count"
            and (value["payload"]["info"] or {}).get("total_token_usage")]  # fmt: skip
    most = max(sums, key=lambda one: one["total_tokens"], default={})
    names = ("input_tokens", "output_tokens", "cached_input_tokens", "", "reasoning_output_tokens")
    return [most.get(name, 0) for name in names]


@golden("codex")
def test_files_of_the_corpus(path: Path, told: Json, journal: Journal) -> None:
    content = path.read_bytes()
    report = import_file(journal, path)
    items, _ = mapped(FMT, content, Source(path))
    found = told_of(items, fold(journal.events(report.session)))
    begin = {name: found[name] and found[name][:60] for name in ("first", "last")}
    assert report.format == "codex" and found | begin == told
    values = [json.loads(line) for line in content.splitlines() if line.strip()]
    if "legacy" not in path.name:
        assert counted(values) == told["tokens"]
    assert b"".join(raw for _, raw in raw_records(journal, journal.resolve(report.session))) == content
