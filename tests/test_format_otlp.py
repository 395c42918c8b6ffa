"""OTLP-JSON: what a span says, once; conversations in one file; and names from before there was a schema."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from imported import JUNK, Json, changed, counters, documents, folded, golden, places, stored, texts, told_of

from gitjournal import Journal, fold
from gitjournal.formats import detect, export, import_file
from gitjournal.formats.otlp import Otlp
from gitjournal.formats.otlp_cut import pieces
from gitjournal.formats.protocol import Item, Source
from gitjournal.formats.report import ImportReport

OTLP = Otlp()


def value(given_value: Any) -> Json:
    if isinstance(given_value, bool):
        return {"boolValue": given_value}
    if isinstance(given_value, int):
        return {"intValue": str(given_value)}
    if isinstance(given_value, list):
        return {"arrayValue": {"values": [value(one) for one in given_value]}}
    return {"stringValue": given_value if isinstance(given_value, str) else json.dumps(given_value)}


def span(
    operation: str, number: int = 1, /, *, trace: str = "t1", status: Json | None = None, **attributes: Any
) -> Json:
    named = {name.replace("__", "."): given_value for name, given_value in attributes.items()}
    if operation:
        named = {"gen_ai.operation.name": operation, "gen_ai.conversation.id": "talk", **named}
    return {
        "traceId": trace, "spanId": f"{number:016x}", "name": f"{operation} x", "kind": 3,
        "startTimeUnixNano": "1767323045500000000", "endTimeUnixNano": str(1767323046500000000 + number * 10**9),
        "attributes": [{"key": name, "value": value(given_value)} for name, given_value in named.items()],
        **({"status": status} if status else {}),
    }  # fmt: skip


def request(*spans: Json) -> Json:
    resource = {"attributes": [{"key": "service.name", "value": {"stringValue": "s"}}]}
    return {"resourceSpans": [{"resource": resource, "scopeSpans": [{"scope": {"name": "x"}, "spans": list(spans)}]}]}


def message(role: str, *parts: Json) -> Json:
    return {"role": role, "parts": list(parts)}


def text(content: str) -> Json:
    return {"type": "text", "content": content}


CALL = {"type": "tool_call", "id": "c1", "name": "look", "arguments": {"at": "x"}}
ASKED = [message("system", text("Be brief.")), message("user", text("What is at x? \U0001f600\n\u2028"))]
RESULT = message("tool", {"type": "tool_call_response", "id": "c1", "result": "a cat"})
FIRST = span(
    "chat", 1, gen_ai__request__model="m", gen_ai__response__model="m-2", gen_ai__response__id="r1",
    gen_ai__provider__name="p", gen_ai__usage__input_tokens=10, gen_ai__usage__output_tokens=4,
    gen_ai__input__messages=json.dumps(ASKED),
    gen_ai__output__messages=json.dumps([{**message("assistant", CALL), "finish_reason": "tool_call"}]),
)  # fmt: skip
TOOL = span(
    "execute_tool", 2, gen_ai__tool__name="look", gen_ai__tool__call__id="c1",
    gen_ai__tool__call__arguments='{"at": "x"}', gen_ai__tool__call__result="a cat",
)  # fmt: skip
SECOND = span(
    "chat", 3, gen_ai__response__id="r2", gen_ai__usage__input_tokens=20, gen_ai__usage__output_tokens=5,
    gen_ai__input__messages=json.dumps([*ASKED, message("assistant", CALL), RESULT]),
    gen_ai__output__messages=json.dumps([message("assistant", text("A cat."))]),
)  # fmt: skip
AGENT = span("invoke_agent", 4, gen_ai__agent__name="helper", gen_ai__usage__input_tokens=30)


def raw(*values: Any, indent: int | None = None) -> bytes:
    return b"".join(json.dumps(one, indent=indent).encode() + b"\n" for one in values)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "spans.json"


def strands(path: Path, content: bytes) -> dict[str | None, list[Item]]:
    """The events of each conversation, checked: the pieces are the file."""
    path.write_bytes(content)
    with path.open("rb") as stream:
        assert b"".join(piece.record.raw for piece in pieces(stream)) == content
    made: dict[str | None, list[Item]] = {}
    for strand in OTLP.strands(Source(path)):
        records = list(strand.records())
        items = list(strand.read(iter(records), ImportReport("x", "otlp")))
        assert len(items) == len(records)
        stored(items)
        made[strand.about.session] = items
        assert not strand.exact or b"".join(record.raw for record in records) == content
    return made


def one(path: Path, *spans: Json) -> list[Item]:
    (made,) = strands(path, raw(request(*spans))).values()
    return made


def kinds(items: list[Item]) -> list[str]:
    return [item.type for item in items if item.type != "native"]


CONVERSATION = ["message", "message", "model.response", "tool.call", "tool.result", "model.response"]


@pytest.mark.parametrize("indent", [None, 2])
def test_a_conversation_is_shown_once_though_each_request_repeats_it(path: Path, indent: int | None) -> None:
    made = strands(path, raw(request(FIRST, TOOL, SECOND, AGENT), indent=indent))
    (items,) = made.values()
    assert [*made] == ["talk"] and kinds(items) == CONVERSATION
    state = folded(items)
    assert state.turns == {"user": 1, "model": 2} and counters(state)[:2] == [30, 9]
    assert (state.tool_calls, state.tool_results, state.unmatched_results) == (1, 1, 0) and not state.open_calls
    assert texts(state.history) == ["Be brief.", "What is at x? \U0001f600\n\u2028", "A cat."]
    response = next(item for item in items if item.type == "model.response")
    assert {name: response.data[name] for name in (
        "response.id", "response.model", "request.model", "provider.name", "finish_reason",
    )} == {"response.id": "r1", "response.model": "m-2", "request.model": "m", "provider.name": "p",
           "finish_reason": "tool_call"}  # fmt: skip
    assert next(item for item in items if item.type == "tool.result").actor == "tool:look"
    assert response.data["native"] == {"type": "chat x", "id": f"{1:016x}", "trace": "t1"}


def test_each_message_of_a_request_is_a_record_with_its_own_bytes(path: Path) -> None:
    items = one(path, FIRST)
    said = [item for item in items if item.type == "message"]
    assert b"Be brief." in said[0].record.raw and b"What is" not in said[0].record.raw
    assert b"What is at x" in said[1].record.raw and said[0].ts == "2026-01-02T03:04:05.500Z"


def test_messages_behind_characters_of_two_escapes_are_cut_where_they_begin(path: Path) -> None:
    said = [message("system", text('\U0001f600\U0001f600 \ud83d \\ " \n')), message("user", text("second"))]
    said.append(message("user", text("third")))
    items = one(path, span("chat", 1, gen_ai__input__messages=json.dumps(said, ensure_ascii=False)))
    pieces_of = [item.record.raw for item in items if item.type == "message"]
    assert [b"second" in raw_piece for raw_piece in pieces_of] == [False, True, False]
    assert pieces_of[1].startswith(b'{\\"role\\": \\"user') and pieces_of[2].startswith(b'{\\"role\\": \\"user')


def test_lines_and_what_comes_later(journal: Journal, tmp_path: Path) -> None:
    path = tmp_path / "spans.jsonl"
    path.write_bytes(raw(request(FIRST), request(TOOL)))
    found = detect(Source(path))
    assert found is not None and found.name == "otlp"
    first = import_file(journal, path)
    with path.open("ab") as stream:
        stream.write(
            raw(request(SECOND, AGENT), request(span("chat", 9, trace="t9", gen_ai__conversation__id="other")))
        )
    grown = import_file(journal, path)
    assert (first.session, grown.session, grown.branch, grown.skipped_known) == ("talk", "talk", "main", first.records)
    assert [other.session for other in grown.others] == ["other"]
    assert fold(journal.events("talk")).turns == {"user": 1, "model": 2}
    with (tmp_path / "out").open("wb") as out:
        export(journal, "talk", "otlp", out)
    assert (tmp_path / "out").read_bytes() == b"".join(path.read_bytes().splitlines(keepends=True)[:3])


def test_conversations_in_one_request_are_sessions(path: Path) -> None:
    other = span("chat", 5, trace="t2", gen_ai__output__messages=json.dumps([message("assistant", text("x"))]))
    other["attributes"][1]["value"] = value("second")
    bare = span("", 6, trace="t3")
    bare["attributes"] = [{"key": "gen_ai.operation.name", "value": value("chat")}]
    made = strands(path, raw(request(FIRST, other, bare, SECOND)))
    assert [*made] == ["talk", "second", "t3"]
    assert texts(folded(made["second"]).history) == ["x"] and folded(made["talk"]).turns["model"] == 2


def test_without_content_the_counters_and_calls_are_there(path: Path) -> None:
    """Content is not captured by default."""
    chat = span("chat", 1, gen_ai__usage__input_tokens=10, gen_ai__response__id="r1")
    tool = span("execute_tool", 2, gen_ai__tool__name="look", gen_ai__tool__call__id="c1")
    items = one(path, chat, tool)
    state = folded(items)
    assert state.turns["model"] == 1 and counters(state)[0] == 10
    assert state.tool_calls == state.tool_results == 1 and not state.open_calls


def test_errors_of_requests_and_tools(path: Path) -> None:
    failed = {"code": 2, "message": "too many requests"}
    items = one(
        path, span("chat", 1, status=failed, error__type="429", gen_ai__input__messages=json.dumps(ASKED)),
        span("execute_tool", 2, status={"code": "STATUS_CODE_ERROR"}, gen_ai__tool__name="t",
             gen_ai__tool__call__id="c", gen_ai__tool__call__arguments="{}", gen_ai__tool__call__result="boom"),
    )  # fmt: skip
    state = folded(items)
    assert [(error["type"], error["message"]) for error in state.errors] == [("429", "too many requests")]
    result = next(item for item in items if item.type == "tool.result")
    assert result.data["is_error"] is True and state.turns["model"] == 0


def test_a_new_turn_without_the_history_of_the_last(path: Path) -> None:
    """Our own export writes only what is new, and some servers keep the history themselves."""
    again = span("chat", 5, gen_ai__input__messages=json.dumps([ASKED[0], message("user", text("And y?"))]))
    assert texts(folded(one(path, FIRST, TOOL, again)).history)[2:] == ["And y?"]


@pytest.mark.parametrize(
    "attributes",
    [
        {"gen_ai.system": "openai", "gen_ai.prompt": json.dumps([{"role": "user", "content": "Hi"}]),
         "gen_ai.completion": json.dumps([{"role": "assistant", "content": "Hello"}]),
         "gen_ai.usage.prompt_tokens": 7, "gen_ai.usage.completion_tokens": 3},
        {"gen_ai.prompt.0.role": "user", "gen_ai.prompt.0.content": "Hi", "gen_ai.completion.0.role": "assistant",
         "gen_ai.completion.0.content": "Hello", "gen_ai.usage.input_tokens": 7, "gen_ai.usage.output_tokens": 3},
        {"openinference.span.kind": "LLM", "llm.input_messages.0.message.role": "user",
         "llm.input_messages.0.message.content": "Hi", "llm.output_messages.0.message.content": "Hello",
         "llm.output_messages.0.message.role": "assistant", "llm.token_count.prompt": 7,
         "llm.token_count.completion": 3},
        {"gen_ai.prompt": "Hi", "gen_ai.completion": "Hello", "gen_ai.usage.input_tokens": 7,
         "gen_ai.usage.output_tokens": 3},
    ],
    ids=["before the schema", "OpenLLMetry", "OpenInference", "texts alone"],
)  # fmt: skip
def test_names_that_were_used_before(path: Path, attributes: Json) -> None:
    kind = "" if "openinference.span.kind" in attributes else "chat"
    state = folded(one(path, span(kind, 1, **attributes)))
    assert [(entry["role"], entry["parts"][0]["content"]) for entry in state.history] == [
        ("user", "Hi"), ("assistant", "Hello"),
    ]  # fmt: skip
    assert counters(state)[:2] == [7, 3]


def test_calls_that_are_spread_over_attributes(path: Path) -> None:
    prefix = "llm.output_messages.0.message.tool_calls.0.tool_call"
    call = {f"{prefix}.id": "c9", f"{prefix}.function.name": "f", f"{prefix}.function.arguments": '{"a": 1}'}
    items = one(
        path,
        span("", 1, **{"openinference.span.kind": "LLM", "llm.output_messages.0.message.role": "assistant"}, **call),
    )
    assert items[-1].data["parts"] == [{"type": "tool_call", "id": "c9", "name": "f", "arguments": {"a": 1}}]


def test_a_single_span_as_an_sdk_prints_it(path: Path) -> None:
    printed = {
        "name": "chat m", "context": {"trace_id": "0xabc", "span_id": "0x1"}, "parent_id": None,
        "start_time": "2026-01-02T03:04:05.000000Z", "end_time": "2026-01-02T03:04:06.000000Z",
        "attributes": {"gen_ai.operation.name": "chat", "gen_ai.input.messages": json.dumps(ASKED),
                       "gen_ai.output.messages": json.dumps([message("assistant", text("A cat."))])},
    }  # fmt: skip
    made = strands(path, raw(printed, indent=4))
    assert [*made] == ["0xabc"] and kinds(made["0xabc"]) == ["message", "message", "model.response"]
    assert made["0xabc"][-1].ts == "2026-01-02T03:04:06.000Z"


def test_values_that_are_structured_and_not_text(path: Path) -> None:
    chat = span("chat", 1)
    parts = {
        "arrayValue": {
            "values": [
                {
                    "kvlistValue": {
                        "values": [
                            {"key": "type", "value": {"stringValue": "text"}},
                            {"key": "content", "value": {"stringValue": "Hi"}},
                        ]
                    }
                }
            ]
        }
    }
    said = {"arrayValue": {"values": [{"kvlistValue": {"values": [
        {"key": "role", "value": {"stringValue": "user"}}, {"key": "parts", "value": parts}]}}]}}  # fmt: skip
    chat["attributes"].append({"key": "gen_ai.input.messages", "value": said})
    assert texts(folded(one(path, chat)).history) == ["Hi"]


@pytest.mark.parametrize(
    "content", [b"", b"{}", b'{"resourceSpans": {}}', b'{"spans": []}', b'{"gen_ai.request.model": 1}']
)
def test_nothing_else_is_claimed(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    assert not OTLP.sniff(Source(path).head())


def whole() -> Json:
    return request(FIRST, TOOL, SECOND, AGENT, span("chat", 7, trace="t2", status={"code": 2}))


def junked() -> Iterator[Json]:
    for place in places(whole()):
        # Inside of an attribute's value the same few shapes repeat; one span of each kind is enough.
        if len(place) < 9 or place[7:8] == ("key",):
            for junk in JUNK[::3]:
                yield changed(whole(), place, junk)


def test_members_of_any_shape(path: Path) -> None:
    for wrong in junked():
        strands(path, raw(wrong))


@given(documents(whole()))
@settings(max_examples=200, deadline=None)
def test_any_spans_are_mapped_and_given_back(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    strands(tmp_path_factory.mktemp("any") / "spans.json", content)


@golden("otlp")
def test_a_file_of_the_corpus(path: Path, told: Json) -> None:
    (strand,) = OTLP.strands(Source(path))
    items = list(strand.read(strand.records(), ImportReport("x", "otlp")))
    assert strand.exact and b"".join(item.record.raw for item in items) == path.read_bytes()
    assert told_of(items, folded(items)) == told
