"""What an agent records: one method for each kind of event, and what each of them refuses by name."""

from __future__ import annotations

import asyncio
import os
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, timezone
from enum import Enum
from pathlib import Path
from types import MappingProxyType
from typing import Any
from unittest.mock import ANY

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import fork, git, kill

import gitjournal
from gitjournal import counters, delete, drafts, providers, vocabulary
from gitjournal.errors import FormatError, JournalError, NotFound, Refused, UsageError
from gitjournal.journal import Journal
from gitjournal.refs import Name
from gitjournal.session import RESERVED_TYPES, Session
from gitjournal.state import fold
from gitjournal.writer import Draft

IN, OUT, READ, WRITE, REASONING = vocabulary.USAGE


@pytest.fixture
def s(journal: Journal) -> Iterator[Session]:
    with journal.session("s", source="console") as session:
        yield session


def last(session: Session) -> tuple[str, str, Mapping[str, Any]]:
    """Type, actor and data of the newest event."""
    event = session.chain.event(session.head.seq)
    return event.type, event.actor, event.data


def refused(session: Session, do: Callable[[], object], *words: str, error: type[JournalError] = UsageError) -> None:
    """``do`` is refused in one line that has these words, and nothing is written."""
    before = session.head
    with pytest.raises(error) as caught:
        do()
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 400
    for word in words:
        assert word in str(caught.value), str(caught.value)
    assert session.head == before


# --- one method for each kind of event -----------------------------------------------------------

TEXT = [{"type": "text", "content": "hi"}]

RECORDED: list[tuple[Callable[[Session], object], str, str, Mapping[str, Any]]] = [
    (lambda s: s.user("hi"), "message", "user", {"role": "user", "parts": TEXT}),
    (lambda s: s.user(TEXT, actor="user:ana"), "message", "user:ana", {"role": "user", "parts": TEXT}),
    (lambda s: s.user(["hi", TEXT[0]]), "message", "user", {"role": "user", "parts": TEXT * 2}),
    (lambda s: s.system("hi"), "message", "host", {"role": "system", "parts": TEXT}),
    (lambda s: s.message("assistant", "hi"), "message", "assistant", {"role": "assistant", "parts": TEXT}),
    (
        lambda s: s.message("user", "hi", name="Ana"),
        "message",
        "user",
        {"role": "user", "parts": TEXT, "name": "Ana"},
    ),
    (lambda s: s.model_response("hi", usage={}), "model.response", "assistant", {"parts": TEXT}),
    (
        lambda s: s.model_response(
            "hi", id="r1", model="m", usage={"input_tokens": 3, OUT: 4}, finish_reason="stop", provider="local"
        ),
        "model.response",
        "assistant",
        {
            "parts": TEXT,
            "response.id": "r1",
            "response.model": "m",
            "usage": {IN: 3, OUT: 4},
            "finish_reason": "stop",
            "provider.name": "local",
        },
    ),
    (lambda s: s.model_response(usage={"output_tokens": 1}, id="r"), "model.response", "assistant",
     {"response.id": "r", "usage": {OUT: 1}}),
    (lambda s: s.error("no answer", type="timeout", where="model"), "error", "host",
     {"message": "no answer", "error.type": "timeout", "where": "model"}),
    (lambda s: s.error(ValueError("bad \ud800")), "error", "host",
     {"message": "bad \\ud800", "error.type": "ValueError"}),
    (lambda s: s.checkpoint({"todos": ["a"], "n": 1}), "session.checkpoint", "host", {"todos": ["a"], "n": 1}),
    (lambda s: s.checkpoint({}), "session.checkpoint", "host", {}),
    (lambda s: s.attach("r1", type="file", uri="file:///x", name="x"), "session.resource", "host",
     {"id": "r1", "action": "attach", "type": "file", "uri": "file:///x", "name": "x"}),
    (lambda s: s.detach("r1"), "session.resource", "host", {"id": "r1", "action": "detach"}),
    (lambda s: s.title("The cache bug"), "session.update", "host", {"title": "The cache bug"}),
    (lambda s: s.title(""), "session.update", "host", {"title": ""}),
    (lambda s: s.summary("Two\nlines"), "session.update", "host", {"summary": "Two\nlines"}),
    (lambda s: s.summary(" \n It went well. \n"), "session.update", "host", {"summary": "It went well."}),
    # White space alone would hide the automatic summary.
    (lambda s: s.summary("   "), "session.update", "host", {"summary": ""}),
    (lambda s: s.label("b", "a", "b"), "session.update", "host", {"add_labels": ["a", "b"]}),
    (lambda s: s.unlabel("a"), "session.update", "host", {"remove_labels": ["a"]}),
    (lambda s: s.archive(), "session.update", "host", {"archived": True}),
    (lambda s: s.update(archived=False, title="x"), "session.update", "host", {"archived": False, "title": "x"}),
    (lambda s: s.terminate("done"), "session.terminate", "host", {"reason": "done"}),
    (lambda s: s.terminate(), "session.terminate", "host", {}),
    (lambda s: s.interrupt("stop"), "session.interrupt", "host", {"reason": "stop"}),
    (lambda s: s.wake("2027-01-02T03:04:05.678Z", "look again", key="k", priority="high", note="n"), "session.wake",
     "host", {"due": "2027-01-02T03:04:05.678Z", "reason": "look again", "key": "k", "priority": "high", "note": "n"}),
    (lambda s: s.wake(datetime(2027, 1, 2, 5, 4, 5, 678999, timezone(timedelta(hours=2))), "r"), "session.wake",
     "host", {"due": "2027-01-02T03:04:05.678Z", "reason": "r"}),
    (lambda s: s.append("x.mine", {"n": 1}), "x.mine", "host", {"n": 1}),
]  # fmt: skip


@pytest.mark.parametrize(("record", "kind", "actor", "data"), RECORDED, ids=lambda one: str(one)[:20])
def test_what_each_method_writes(
    s: Session, record: Callable[[Session], object], kind: str, actor: str, data: Mapping[str, Any]
) -> None:
    assert record(s) == s.head
    assert last(s) == (kind, actor, data)


def test_what_is_recorded_is_as_the_vocabulary_says(s: Session, journal: Journal) -> None:
    for record, kind, *_ in RECORDED:
        if kind != "session.terminate":
            record(s)
    s.terminate()
    state = fold(journal.events("s"))
    assert not state.odd and set(state.unknown) <= {"x.mine"}


def test_a_wake_is_done_by_the_seq_of_its_event(s: Session) -> None:
    first = s.wake("2027-01-02T03:04:05.678Z", "a").seq
    second = s.wake("2027-01-02T03:04:05.678Z", "b").seq
    refused(s, lambda: s.wake_done(first, 1), "event 1", "no wake")
    refused(s, lambda: s.wake_done(first, 99), "event 99", "no wake")
    s.wake_done(second, first)
    assert last(s)[2] == {"seqs": [first, second]}
    refused(s, lambda: s.wake_done(second), f"event {second}", "no wake that waits")


def test_of_two_wakes_with_one_key_only_the_first_can_be_done(s: Session, journal: Journal) -> None:
    first, second = (s.wake("2027-01-02T03:04:05.678Z", "a", key="k").seq for _ in range(2))
    refused(s, lambda: s.wake_done(second), f"event {second}", "no wake that waits")
    s.wake_done(first)
    assert not fold(journal.events("s")).wakes
    third = s.wake("2027-01-02T03:04:05.678Z", "a", key="k").seq
    s.interrupt()
    refused(s, lambda: s.wake_done(third), f"event {third}", "no wake that waits")


def test_after_its_end_nothing_begins_and_what_is_open_can_end(s: Session, journal: Journal) -> None:
    call = s.tool_call("t", {})
    with s.turn():
        s.terminate("done")
        for begins in (
            lambda: s.user("more"),
            lambda: s.model_response("more"),
            lambda: s.tool_call("t", {}),
            lambda: s.turn(),
            lambda: s.wake("2027-01-02T03:04:05.678Z", "r"),
            lambda: s.terminate(),
        ):
            refused(s, begins, "terminated", error=Refused)
        call.result("late")
    state = fold(journal.events("s"))
    assert not state.open_calls and state.open_turn is None and not state.odd
    s.close()
    with journal.session("s") as again:
        # A record, not a lock.
        again.user("by somebody who has not read it")
        again.append("session.terminate", {})
        with pytest.raises(Refused):
            again.user("x")


# --- what is refused -----------------------------------------------------------------------------


class Colour(Enum):
    RED = 1


class Broken:
    """A model of a client that cannot be dumped."""

    def model_dump(self, **_: object) -> object:
        raise KeyError("x")


MB = "x" * (1 << 20)
LOOP: list[Any] = []
LOOP.append(LOOP)

REFUSED: list[tuple[Callable[[Session], object], str]] = [
    (lambda s: s.user(b"bytes"), "bytes"),
    (lambda s: s.user(object()), "object"),
    (lambda s: s.user(None), "NoneType"),
    (lambda s: s.user([]), "at least one part"),
    (lambda s: s.user({"content": "x"}), "part"),
    (lambda s: s.user({"type": "text", "content": 5}), "text"),
    (lambda s: s.user(Colour.RED), "Colour"),
    (lambda s: s.user(iter("ab")), "iterator"),
    (lambda s: s.user(LOOP), "holds itself"),
    (lambda s: s.message("developer", "x"), "developer"),
    (lambda s: s.message("user", "x", name=5), "name is a int"),  # type: ignore[arg-type]
    (lambda s: s.model_response(object()), "object"),
    (lambda s: s.model_response(Path("x")), "pathlib."),
    (lambda s: s.model_response({"answer": 1}), "dict"),
    (lambda s: s.model_response(), "parts"),
    (lambda s: s.model_response("x", id=5), "response.id is a int"),  # type: ignore[arg-type]
    (lambda s: s.model_response("x", usage={"input_tokens": -1}), f"{IN} is -1"),
    (lambda s: s.model_response("x", usage={"input_tokens": 1.0}), f"{IN} is 1.0"),
    (lambda s: s.model_response("x", usage={"input_tokens": True}), f"{IN} is True"),
    (lambda s: s.model_response("x", usage={OUT: 10**12 + 1}), f"{OUT} is 1000000000001"),
    (lambda s: s.model_response("x", usage={OUT: 2**53}), OUT),
    (lambda s: s.model_response("x", usage={OUT: 10**9999}), "huge"),
    (lambda s: s.model_response("x", usage={OUT: "7"}), "a str"),
    (lambda s: s.model_response("x", usage={"gen_ai.usage.inptu_tokens": 1}), "inptu"),
    (lambda s: s.model_response("x", usage={"tokens": 1}), "tokens"),
    (lambda s: s.model_response("x", usage=7), "object"),
    (lambda s: s.model_response("x", usage={"input_tokens": -1, "cache_read_input_tokens": 5}), f"{IN} is -1"),
    (lambda s: s.model_response("x", usage={"prompt_tokens": 2.5}), f"{IN} is 2.5"),
    (lambda s: s.model_response("x", usage={"input_tokens": 5, IN: 7}), "twice"),
    (lambda s: s.model_response("x", usage={IN: 5, READ: 6}), f"{READ} is 6, more than {IN}"),
    (lambda s: s.model_response("x", usage={IN: 5, "gen_ai.usage.cache_creation.input_tokens": 6}), "cache_creation"),
    (lambda s: s.model_response("x", usage={OUT: 5, REASONING: 6}), f"{REASONING} is 6, more than {OUT}"),
    (lambda s: s.model_response("x", usage={"prompt_tokens": 5, "prompt_tokens_details": {"cached_tokens": 6}}), READ),
    (lambda s: s.model_response("x", usage={"output_tokens": 5, "output_tokens_details": {"reasoning_tokens": 6}}),
     REASONING),
    (lambda s: s.model_response("x", usage={"prompt_tokens": 5, "cache_creation_input_tokens": 6}), "cache_creation"),
    (lambda s: s.model_response("x", usage={"prompt_tokens": 9, "prompt_tokens_details": {"cached_tokens": 3},
                                            "cache_read_input_tokens": 4}), "two counts"),
    (lambda s: s.model_response({**CHAT, "id": 5}), "response.id is a int"),
    (lambda s: s.model_response({**CHAT, "model": {"a": 1}}), "response.model is a dict"),
    (lambda s: s.model_response({**MESSAGE, "stop_reason": 5}), "finish_reason is a int"),
    (lambda s: s.model_response({"choices": [{"message": {"role": "assistant", "tool_calls": [
        {"id": 5, "function": {"name": "t", "arguments": "{}"}}]}}]}), "the id of a tool_call is a int"),
    (lambda s: s.user({"type": "tool_call", "name": "t", "id": ["x"]}), "the id of a tool_call is a list"),
    (lambda s: s.user({"type": "tool_result", "tool_use_id": 5}), "the id of a tool_call_response is a int"),
    (lambda s: s.user({"role": "tool", "tool_call_id": 5, "content": "x"}), "the id of a tool_call_response is a int"),
    (lambda s: s.user(Broken()), "Broken failed with KeyError"),
    (lambda s: s.update(add_labels=5), "labels are a list of texts, not a int"),  # type: ignore[arg-type]
    (lambda s: s.wake(datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=5))), "r"), "due"),
    (lambda s: s.wake(datetime(9999, 12, 31, 23, tzinfo=timezone(timedelta(hours=-5))), "r"), "due"),
    (lambda s: s.tool_call("", {}), "name"),
    (lambda s: s.tool_call("t", {"x": {1}}), "set"),
    (lambda s: s.tool_call("t", {1: 2}), "int"),
    (lambda s: s.tool_call("t", {}, id=""), "id"),
    (lambda s: s.tool_call("t", {}, requires="permission"), "permission"),
    (lambda s: s.tool_result("nobody", "x"), "nobody"),
    (lambda s: s.confirm("nobody", True), "nobody"),
    (lambda s: s.confirm("x", "yes"), "approved"),  # type: ignore[arg-type]
    (lambda s: s.error(""), "message"),
    (lambda s: s.title(MB), "1,048,576"),
    (lambda s: s.title("two\nlines"), "one line"),
    (lambda s: s.title(5), "int"),  # type: ignore[arg-type]
    (lambda s: s.summary(MB), "1,048,576"),
    (lambda s: s.label(), "no label"),
    (lambda s: s.label("a\x07b"), "a\\x07b"),
    (lambda s: s.label("x" * 65), "64"),
    (lambda s: s.label(""), "label"),
    (lambda s: s.unlabel(MB), "label"),
    (lambda s: s.label(7), "int"),  # type: ignore[arg-type]
    (lambda s: s.checkpoint([1]), "list"),  # type: ignore[arg-type]
    (lambda s: s.checkpoint("x"), "str"),  # type: ignore[arg-type]
    (lambda s: s.attach(""), "id"),
    (lambda s: s.attach("r", uri=5), "uri"),  # type: ignore[arg-type]
    (lambda s: s.terminate(5), "reason"),  # type: ignore[arg-type]
    (lambda s: s.wake("tomorrow", "r"), "due"),
    (lambda s: s.wake("2027-02-30T00:00:00.000Z", "r"), "due"),
    (lambda s: s.wake(datetime(2027, 1, 1), "r"), "zone"),
    (lambda s: s.wake(datetime(1969, 1, 1, tzinfo=UTC), "r"), "1970"),
    (lambda s: s.wake("2027-01-01T00:00:00.000Z", ""), "reason"),
    (lambda s: s.wake("2027-01-01T00:00:00.000Z", "r", priority="urgent"), "urgent"),
    (lambda s: s.wake_done(), "seqs"),
    (lambda s: s.wake_done(True), "seqs"),
    (lambda s: s.wake_done(0), "seqs"),
    (lambda s: s.end_turn("t", "completed"), "t"),
    (lambda s: s.append("session.delete", {}), "session.delete"),
]  # fmt: skip


@pytest.mark.parametrize(("do", "word"), REFUSED, ids=[str(n) for n in range(len(REFUSED))])
def test_what_cannot_be_kept_is_refused_by_name(s: Session, do: Callable[[Session], object], word: str) -> None:
    refused(s, lambda: do(s), word)


@pytest.mark.parametrize("number", [float("nan"), float("inf"), -float("inf"), -0.0, 2**53, 1e300])
def test_numbers_that_json_cannot_hold(s: Session, number: float) -> None:
    for do in (
        lambda: s.checkpoint({"a": {"b": number}}),
        lambda: s.tool_call("t", {"a": {"b": number}}),
        lambda: s.append("x.mine", {"a": {"b": number}}),
        lambda: s.append("x.mine", {"a": {"b": number}, "c": Point(1, 2)}),
    ):
        refused(s, do, "/a/b", error=FormatError)
    refused(s, lambda: s.user({"type": "text", "content": "x", "score": number}), "/parts/0/score", error=FormatError)


@pytest.mark.parametrize("kind", sorted(RESERVED_TYPES))
def test_types_that_only_the_library_makes(s: Session, kind: str) -> None:
    refused(s, lambda: s.append(kind, {}), kind)
    refused(s, lambda: s.append_many([Draft(kind, {})]), kind)


@given(st.text())
def test_no_exception_is_too_odd_to_be_recorded(text: str) -> None:
    assert drafts.shown(ValueError(text)).encode()


def test_an_exception_that_cannot_be_printed() -> None:
    class Silent(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    assert drafts.error(Silent()) == {"message": "Silent, which cannot be printed", "error.type": "Silent"}
    assert drafts.error(ValueError())["message"] == "ValueError"


# --- objects -------------------------------------------------------------------------------------


@dataclass
class Point:
    x: int
    y: int
    near: list[Point] = field(default_factory=list)


class Model:
    """As the classes of pydantic have it."""

    def __init__(self, **members: Any) -> None:
        self.__dict__.update(members)

    def model_dump(self, mode: str = "python") -> dict[str, Any]:
        def dumped(value: Any) -> Any:
            if isinstance(value, Model):
                return value.model_dump(mode)
            if isinstance(value, list):
                return [dumped(one) for one in value]
            return value.isoformat() if isinstance(value, datetime) and mode == "json" else value

        return {name: dumped(value) for name, value in self.__dict__.items()}


class Bare:
    def model_dump(self) -> dict[str, Any]:
        return {"plain": None}


def test_dataclasses_and_models_are_data_at_any_depth(s: Session) -> None:
    call = s.tool_call("t", Point(1, 2, [Point(3, 4)]))
    assert last(s)[2]["arguments"] == {"x": 1, "y": 2, "near": [{"x": 3, "y": 4, "near": []}]}
    call.result([Model(at=datetime(2027, 1, 1), next=Model(n=None)), Bare(), (1, 2), MappingProxyType({"a": 1})])
    assert last(s)[2]["response"] == [
        {"at": "2027-01-01T00:00:00", "next": {"n": None}},
        {"plain": None},
        [1, 2],
        {"a": 1},
    ]
    s.append("x.mine", {"point": Point(1, 2)})
    assert last(s)[2] == {"point": {"x": 1, "y": 2, "near": []}}
    refused(s, lambda: s.append("x.mine", {"at": [object()]}), "object", "/at/0", error=FormatError)
    refused(s, lambda: s.checkpoint({"type": Point}), "the class Point")
    refused(s, lambda: s.checkpoint({"p": Point(1, datetime.now())}), "datetime.datetime")  # type: ignore[arg-type]


CHAT = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "created": 1700000000,
    "model": "m-1",
    "choices": [
        {
            "index": 0,
            "finish_reason": "tool_calls",
            "logprobs": None,
            "message": {
                "role": "assistant",
                "content": "I will look.",
                "refusal": None,
                "reasoning_content": "Where?",
                "tool_calls": [
                    {"id": "c1", "type": "function", "function": {"name": "ls", "arguments": '{"path": "."}'}},
                    {"id": "c2", "type": "function", "function": {"name": "ls", "arguments": '{"path": '}},
                    {
                        "id": "c3",
                        "type": "function",
                        "function": {"name": "ls", "arguments": '{"n": 9007199254740993}'},
                    },
                    {"id": "c4", "type": "custom", "custom": {"name": "sql", "input": "select 1"}},
                ],
            },
        }
    ],
    "usage": {
        "prompt_tokens": 100,
        "completion_tokens": 30,
        "total_tokens": 130,
        "prompt_tokens_details": {"cached_tokens": 60, "audio_tokens": None},
        "completion_tokens_details": {"reasoning_tokens": 10},
    },
}
RESPONSE = {
    "id": "resp_1",
    "object": "response",
    "model": "m-2",
    "status": "completed",
    "incomplete_details": None,
    "output": [
        {
            "type": "reasoning",
            "id": "rs_1",
            "summary": [{"type": "summary_text", "text": "Look"}],
            "content": None,
            "encrypted_content": "abc",
        },
        {
            "type": "message",
            "id": "msg_1",
            "role": "assistant",
            "status": "completed",
            "content": [{"type": "output_text", "text": "I will look.", "annotations": [], "logprobs": None}],
        },
        {
            "type": "function_call",
            "id": "fc_1",
            "call_id": "c1",
            "name": "ls",
            "arguments": '{"path": "."}',
            "status": "completed",
        },
        {"type": "web_search_call", "id": "ws_1"},
    ],
    "usage": {
        "input_tokens": 100,
        "output_tokens": 30,
        "total_tokens": 130,
        "input_tokens_details": {"cached_tokens": 60},
        "output_tokens_details": {"reasoning_tokens": 10},
    },
}
MESSAGE = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "m-3",
    "stop_reason": "tool_use",
    "stop_sequence": None,
    "content": [
        {"type": "thinking", "thinking": "Where?", "signature": "sig"},
        {"type": "redacted_thinking", "data": "xyz"},
        {"type": "text", "text": "I will look.", "citations": None},
        {"type": "tool_use", "id": "c1", "name": "ls", "input": {"path": "."}},
    ],
    "usage": {
        "input_tokens": 40,
        "cache_read_input_tokens": 50,
        "cache_creation_input_tokens": 10,
        "output_tokens": 30,
        "service_tier": "standard",
        "server_tool_use": None,
    },
}


def test_a_chat_completion(s: Session) -> None:
    s.model_response(CHAT)
    data = last(s)[2]
    assert data["parts"] == [
        {"type": "reasoning", "content": "Where?"},
        {"type": "text", "content": "I will look."},
        {"type": "tool_call", "id": "c1", "name": "ls", "arguments": {"path": "."}},
        # Arguments that are no JSON, or none that can be kept, stay the text that the model wrote.
        {"type": "tool_call", "id": "c2", "name": "ls", "arguments": '{"path": '},
        {"type": "tool_call", "id": "c3", "name": "ls", "arguments": '{"n": 9007199254740993}'},
        {"type": "tool_call", "id": "c4", "name": "sql", "arguments": "select 1"},
    ]
    assert data["usage"] == {IN: 100, OUT: 30, READ: 60, REASONING: 10}
    assert data["native_usage"]["prompt_tokens_details"] == {"cached_tokens": 60}
    assert (data["response.id"], data["response.model"], data["finish_reason"]) == ("chatcmpl-1", "m-1", "tool_call")


def test_an_openai_response(s: Session) -> None:
    s.model_response(RESPONSE)
    data = last(s)[2]
    assert data["parts"] == [
        {"type": "reasoning", "id": "rs_1", "content": "Look", "encrypted_content": "abc"},
        {"type": "text", "content": "I will look."},
        {"type": "tool_call", "id": "c1", "name": "ls", "arguments": {"path": "."}},
        {"type": "web_search_call", "id": "ws_1"},
    ]
    assert data["usage"] == {IN: 100, OUT: 30, READ: 60, REASONING: 10}
    assert (data["response.id"], data["response.model"], data["finish_reason"]) == ("resp_1", "m-2", "tool_call")


def test_an_anthropic_message(s: Session) -> None:
    s.model_response(MESSAGE)
    data = last(s)[2]
    assert data["parts"] == [
        {"type": "reasoning", "content": "Where?", "signature": "sig"},
        {"type": "redacted_thinking", "data": "xyz"},
        {"type": "text", "content": "I will look."},
        {"type": "tool_call", "id": "c1", "name": "ls", "arguments": {"path": "."}},
    ]
    # Their input counts what was not cached; ours counts all.
    assert data["usage"] == {IN: 100, OUT: 30, READ: 50, WRITE: 10}
    assert data["native_usage"] == {
        name: count
        for name, count in MESSAGE["usage"].items()
        if count is not None  # type: ignore[attr-defined]
    }
    assert (data["response.id"], data["response.model"], data["finish_reason"]) == ("msg_1", "m-3", "tool_call")


def as_models(value: Any, module: str) -> Any:
    """The same value as objects with model_dump, whose classes are from that module."""
    if isinstance(value, dict):
        of = type("Thing", (Model,), {"__module__": module})
        return of(**{name: as_models(item, module) for name, item in value.items()})
    return [as_models(item, module) for item in value] if isinstance(value, list) else value


@pytest.mark.parametrize(
    ("answer", "module", "provider"),
    [(CHAT, "openai.types.chat", "openai"), (RESPONSE, "openai.types", "openai"), (MESSAGE, "anthropic", "anthropic")],
)
def test_the_object_of_a_client_is_its_dict_and_says_the_provider(
    s: Session, answer: Any, module: str, provider: str
) -> None:
    s.model_response(answer)
    plain = last(s)[2]
    for _ in range(2):
        s.model_response(as_models(answer, module))
        assert last(s)[2] == {**plain, "provider.name": provider}
    s.model_response(as_models(answer, module), id="mine", model="m", usage={IN: 1}, finish_reason="stop", provider="p")
    named = {"response.id": "mine", "response.model": "m", "finish_reason": "stop", "provider.name": "p"}
    assert last(s)[2] == {**plain, **named, "usage": {IN: 1}}


@pytest.mark.parametrize(
    ("stop", "ours"),
    [
        ("end_turn", "stop"),
        ("max_tokens", "length"),
        ("tool_use", "tool_call"),
        ("pause_turn", "pause_turn"),
        (None, None),
    ],
)
def test_why_a_response_ended(stop: str | None, ours: str | None) -> None:
    assert drafts.response({**MESSAGE, "stop_reason": stop}).get("finish_reason") == ours


@pytest.mark.parametrize(
    ("changes", "ours"),
    [
        ({"status": "completed", "output": RESPONSE["output"][:2]}, "stop"),  # type: ignore[index]
        ({"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}, "length"),
        ({"status": "failed"}, "error"),
    ],
)
def test_why_an_openai_response_ended(changes: dict[str, Any], ours: str) -> None:
    assert drafts.response({**RESPONSE, **changes})["finish_reason"] == ours


def test_of_several_choices_only_the_caller_knows_which_was_used(s: Session) -> None:
    refused(s, lambda: s.model_response({**CHAT, "choices": CHAT["choices"] * 2}), "2")  # type: ignore[operator]
    refused(s, lambda: s.model_response({**CHAT, "choices": []}), "0")
    chunk = {"object": "chat.completion.chunk", "choices": [{"delta": {"content": "x"}}]}
    refused(s, lambda: s.model_response(chunk), "stream")


def test_a_refusal_and_an_empty_answer(s: Session) -> None:
    message = {"role": "assistant", "content": None, "refusal": "No."}
    s.model_response({**CHAT, "choices": [{"message": message, "finish_reason": "stop"}]})
    assert last(s)[2]["parts"] == [{"type": "refusal", "content": "No."}]
    s.model_response({**CHAT, "choices": [{"message": {"role": "assistant", "content": ""}, "finish_reason": "stop"}]})
    assert "parts" not in last(s)[2] and last(s)[2]["response.id"] == "chatcmpl-1"


def test_a_message_of_a_chat(s: Session) -> None:
    message = CHAT["choices"][0]["message"]  # type: ignore[index]
    s.model_response(message, id="r")
    parts = last(s)[2]["parts"]
    s.message("assistant", as_models(message, "openai"))
    assert last(s)[2]["parts"] == parts and [part["type"] for part in parts[:3]] == ["reasoning", "text", "tool_call"]
    s.message("tool", {"role": "tool", "tool_call_id": "c1", "content": "ok"})
    assert last(s)[2]["parts"] == [{"type": "tool_call_response", "id": "c1", "response": "ok"}]
    s.user([{"role": "user", "content": [{"type": "text", "text": "hi"}]}])
    assert last(s)[2]["parts"] == TEXT


def test_messages_in_the_blocks_of_the_providers(s: Session) -> None:
    png = "iVBORw0KGgo="
    s.tool_call("look", {}, id="c1")
    s.tool_call("look", {}, id="c2")
    s.user(
        [
            {"type": "text", "text": "See"},
            {"type": "input_text", "text": "this"},
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": png}},
            {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{png}", "detail": "low"}},
            {"type": "input_image", "image_url": "https://example.org/a.png"},
            {"type": "tool_result", "tool_use_id": "c1", "content": "ok", "is_error": True},
            {"type": "function_call_output", "call_id": "c2", "output": "ok"},
            {"type": "odd", "kept": [1], "unset": None},
        ]
    )
    blob = {"type": "blob", "modality": "image", "mime_type": "image/png", "content": png}
    assert last(s)[2]["parts"] == [
        {"type": "text", "content": "See"},
        {"type": "text", "content": "this"},
        blob,
        blob,
        {"type": "uri", "modality": "image", "uri": "https://example.org/a.png"},
        {"type": "tool_call_response", "id": "c1", "response": "ok", "is_error": True},
        {"type": "tool_call_response", "id": "c2", "response": "ok"},
        {"type": "odd", "kept": [1]},
    ]


COUNT = st.integers(0, counters.MOST_TOKENS)


@given(COUNT, COUNT, COUNT, COUNT)
def test_usage_of_all_forms_means_the_same(plain: int, read: int, out: int, thought: int) -> None:
    total = plain + read
    chat = {
        "prompt_tokens": total,
        "completion_tokens": out,
        "prompt_tokens_details": {"cached_tokens": read},
        "completion_tokens_details": {"reasoning_tokens": thought},
    }
    new = {"input_tokens": total, "output_tokens": out, "input_tokens_details": {"cached_tokens": read}}
    message = {"input_tokens": plain, "cache_read_input_tokens": read, "output_tokens": out}
    proxy = {"prompt_tokens": total, "completion_tokens": out, "cache_read_input_tokens": read}
    if total > counters.MOST_TOKENS:
        for form in (chat, new, message, proxy):
            with pytest.raises(UsageError):
                counters.usage(form)
        return
    if thought > out:
        with pytest.raises(UsageError, match=REASONING):
            counters.usage(chat)
        del chat["completion_tokens_details"]
    ours = {IN: total, OUT: out, READ: read}
    assert counters.usage(chat)["usage"] == ours | ({REASONING: thought} if thought <= out else {})
    assert counters.usage(new)["usage"] == counters.usage(message)["usage"] == counters.usage(proxy)["usage"] == ours
    assert counters.usage(ours) == {"usage": ours}


@pytest.mark.parametrize("names", [("prompt", "completion"), ("input", "output")])
def test_reasoning_beside_the_output_is_added_where_the_total_shows_it(names: tuple[str, str]) -> None:
    """As Gemini and xAI speak OpenAI's form."""
    into, out = (f"{name}_tokens" for name in names)
    form = {into: 32, out: 9, f"{out}_details": {"reasoning_tokens": 94}}
    found = counters.usage({**form, "total_tokens": 135})
    assert found == {"usage": {IN: 32, OUT: 103, REASONING: 94}, "native_usage": {**form, "total_tokens": 135}}
    for total in ({}, {"total_tokens": 41}, {"total_tokens": 136}):
        with pytest.raises(UsageError, match=f"{REASONING} is 94, more than {OUT}, 9") as caught:
            counters.usage({**form, **total})
        assert f"usage={{'{OUT}': 103, '{REASONING}': 94}}" in caught.value.hint
    # Reasoning that is not more than the output may be either: the total tells, and without it OpenAI's form is meant.
    less = {into: 32, out: 9, f"{out}_details": {"reasoning_tokens": 5}}
    assert [
        counters.usage({**less, **total})["usage"][OUT]
        for total in ({}, {"total_tokens": 41}, {"total_tokens": 46}, {"total_tokens": 45})
    ] == [9, 9, 14, 9]


def test_usage_of_gemini_in_both_spellings(s: Session) -> None:
    snake = {
        "prompt_token_count": 100,
        "cached_content_token_count": 60,
        "candidates_token_count": 30,
        "thoughts_token_count": 45,
        "tool_use_prompt_token_count": 7,
        "total_token_count": 182,
        "prompt_tokens_details": [{"modality": "TEXT", "token_count": 100}],
    }
    camel = {"promptTokenCount": 100, "cachedContentTokenCount": 60, "candidatesTokenCount": 30,
             "thoughtsTokenCount": 45, "toolUsePromptTokenCount": 7, "totalTokenCount": 182}  # fmt: skip
    ours = {IN: 107, OUT: 75, READ: 60, REASONING: 45}
    for form in (snake, camel):
        s.model_response("x", usage=form)
        assert (last(s)[2]["usage"], last(s)[2]["native_usage"]) == (ours, form)
    # An answer that was nothing but thought has no candidates.
    assert counters.usage({"promptTokenCount": 21, "thoughtsTokenCount": 60, "totalTokenCount": 81})["usage"] == {
        IN: 21, OUT: 60, REASONING: 60
    }  # fmt: skip
    for wrong, name in (({"promptTokenCount": -1}, IN), ({"thoughtsTokenCount": 1.5}, REASONING)):
        refused(s, lambda wrong=wrong: s.model_response("x", usage=wrong), name)  # type: ignore[misc]


@pytest.mark.parametrize("names", [("prompt", "completion"), ("input", "output")])
def test_what_was_written_to_a_cache_is_counted_in_openai_s_forms(names: tuple[str, str]) -> None:
    into, out = (f"{name}_tokens" for name in names)
    form = {into: 50, out: 6, f"{into}_details": {"cached_tokens": 2, "cache_write_tokens": 7}}
    assert counters.usage(form)["usage"] == {IN: 50, OUT: 6, READ: 2, WRITE: 7}
    assert counters.usage({**form, "cache_creation_input_tokens": 7})["usage"][WRITE] == 7
    with pytest.raises(UsageError, match="two counts of what was written to a cache: 7 and 8"):
        counters.usage({**form, "cache_creation_input_tokens": 8})


def test_usage_that_is_named_wins_over_one_that_would_be_refused(s: Session) -> None:
    answer = {**CHAT, "usage": {"prompt_tokens": 1, "completion_tokens": 2,
                                "completion_tokens_details": {"reasoning_tokens": 3}}}  # fmt: skip
    refused(s, lambda: s.model_response(answer), REASONING)
    s.model_response(answer, usage={OUT: 5, REASONING: 3})
    assert last(s)[2]["usage"] == {OUT: 5, REASONING: 3} and last(s)[2]["native_usage"] == answer["usage"]


def test_a_call_in_the_older_form_of_a_chat_is_open(s: Session) -> None:
    message = {"role": "assistant", "content": "hm", "function_call": {"name": "f", "arguments": '{"x": 1}'}}
    s.model_response({**CHAT, "choices": [{"finish_reason": "function_call", "message": message}]})
    assert last(s)[2]["parts"] == [
        {"type": "text", "content": "hm"},
        {"type": "tool_call", "id": ANY, "name": "f", "arguments": {"x": 1}},
    ]
    (call,) = fold(s.chain.events()).open_calls
    assert call["id"] == last(s)[2]["parts"][1]["id"] and re.fullmatch("[0-9a-f]{16}", call["id"])
    s.message("tool", {"role": "function", "name": "f", "content": "ok"})
    assert last(s)[2]["parts"] == [{"type": "tool_call_response", "id": call["id"], "name": "f", "response": "ok"}]
    state = fold(s.chain.events())
    assert (state.tool_calls, state.tool_results, state.open_calls, state.unmatched_results) == (1, 1, [], 0)


@pytest.mark.parametrize("none", [None, ""])
def test_a_call_without_an_id_is_one_call_when_it_is_run(s: Session, none: str | None) -> None:
    asked = {"type": "tool_call", "id": none, "name": "f", "arguments": {"x": 1}}
    s.model_response([asked, {**asked, "arguments": {"x": 2}}])
    for x in (2, 1):
        with s.tool_call("f", {"x": x}) as call:
            call.result(x)
    state = fold(s.chain.events())
    assert (state.tool_calls, state.tool_results, state.open_calls, state.odd) == (2, 2, [], [])


def test_a_tool_of_the_host_is_not_taken_for_the_call_of_another_tool(s: Session) -> None:
    s.model_response([{"type": "tool_call", "id": "b", "name": "sh", "arguments": {}}])
    with s.tool_call("ls", {}) as own:
        own.result("a.py")
    assert own.id != "b"
    with s.tool_call("sh", {}) as asked:
        asked.result("ok")
    assert asked.id == "b" and not fold(s.chain.events()).odd


def test_a_call_that_the_model_asked_for_is_not_run_under_another_name(s: Session) -> None:
    s.model_response([{"type": "tool_call", "id": "b", "name": "read", "arguments": {}}])
    refused(s, lambda: s.tool_call("write", {}, id="b"), "'b' is one of 'read', not of 'write'")
    with s.tool_call("read", {}, id="b") as call:
        call.result("ok")
    assert not fold(s.chain.events()).odd


def test_what_a_model_spoke_is_text_and_sound(s: Session) -> None:
    audio = {"id": "a1", "expires_at": 1, "data": "UklGRg==", "transcript": "Hello."}
    s.model_response({**CHAT, "choices": [{"message": {"role": "assistant", "content": None, "audio": audio}}]})
    assert last(s)[2]["parts"] == [
        {"type": "text", "content": "Hello."},
        {"type": "blob", "modality": "audio", "content": "UklGRg=="},
    ]
    wrong = {"role": "assistant", "audio": {"transcript": 7}}
    refused(s, lambda: s.model_response({**CHAT, "choices": [{"message": wrong}]}), "text 'content'")


@pytest.mark.parametrize(
    ("member", "kind", "name"),
    [("input", "custom_tool_call", "sql"), ("action", "local_shell_call", None), ("action", "shell_call", None),
     ("action", "computer_call", None), ("operation", "apply_patch_call", None)],
)  # fmt: skip
def test_calls_of_the_responses_api_that_the_client_answers_are_calls(
    s: Session, member: str, kind: str, name: str | None
) -> None:
    item = {"type": kind, "id": "ctc_1", "call_id": "c1", member: {"do": "it"}, "status": "completed"}
    s.model_response({**RESPONSE, "output": [item | ({"name": name} if name else {})], "usage": None})
    data = last(s)[2]
    assert data["finish_reason"] == "tool_call"
    assert data["parts"] == [
        {"type": "tool_call", "id": "c1", "name": name or kind.removesuffix("_call"), "arguments": {"do": "it"}}
    ]
    assert [call["id"] for call in fold(s.chain.events()).open_calls] == ["c1"]
    s.message("tool", {"type": f"{kind}_output", "call_id": "c1", "output": "done"})
    assert not fold(s.chain.events()).open_calls


@dataclass
class Noted:
    n: int


def test_a_batch_takes_what_one_event_does(s: Session) -> None:
    many: Any = [("note", {"d": Noted(1), "l": [Noted(2), {"x": (3,)}]}, "host"), ["note", {"n": 4}], Draft("note", {})]
    s.append_many(many)
    for kind, data, *_ in many:
        s.append(kind, data)
    found = [event.data for event in s.chain.events(s.head.seq - 6)]
    assert found[:3] == found[3:] == [{"d": {"n": 1}, "l": [{"n": 2}, {"x": [3]}]}, {"n": 4}, {}]


@pytest.mark.parametrize(
    "item", [1, None, "abc", ("note",), ("note", {}, "host", None, None, None, 7), {"type": "note"}]
)
def test_what_is_no_draft_is_refused_by_name(s: Session, item: Any) -> None:
    refused(s, lambda: s.append_many([("note", {}, "host"), item]), "(type, data, actor)")


@pytest.mark.parametrize("value", [object(), {1: 2}, {1, 2}])
def test_what_no_event_can_keep_is_refused_in_a_batch(s: Session, value: Any) -> None:
    before = s.head
    with pytest.raises(JournalError):
        s.append_many([("note", {}, "host"), ("note", {"x": value}, "host")])
    assert s.head == before


def test_a_batch_that_terminates_the_session_ends_it(s: Session) -> None:
    with pytest.raises(JournalError):
        s.append_many([("session.terminate", {}, "host"), ("note", {"x": object()}, "host")])
    s.user("still going")
    s.append_many([("session.terminate", {}, "host")])
    with pytest.raises(Refused, match="terminated"):
        s.user("x")


KINDS = sorted(providers._READERS)
NAMES = ["type", "role", "content", "text", "choices", "output", "usage", "message", "id", "name", "status", "data"]
NAMES += ["tool_calls", "tool_call_id", "call_id", "function", "custom", "arguments", "input", "summary", "thinking"]
NAMES += ["source", "image_url", "url", "refusal", "incomplete_details"]
JSON = st.recursive(
    st.sampled_from(KINDS) | st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES) | st.text(max_size=4), inner, max_size=5)
    ),
    max_leaves=20,
)


@given(JSON, st.sampled_from([CHAT, RESPONSE, MESSAGE]), st.sampled_from(sorted({*CHAT, *RESPONSE, *MESSAGE})))
def test_a_response_of_any_shape_is_read_or_refused(value: Any, answer: Any, name: str) -> None:
    for content in (value, {**answer, name: value}):
        try:
            drafts.response(content)
            drafts.message("user", content)
        except UsageError:
            pass


@given(st.sampled_from(KINDS), st.dictionaries(st.sampled_from(NAMES), JSON, max_size=4))
def test_a_block_of_any_shape_is_read_or_refused(kind: str, members: dict[str, Any]) -> None:
    try:
        found = drafts.parts({**members, "type": kind})
    except UsageError:
        return
    assert all(type(part["type"]) is str for part in found)


# --- tool calls ----------------------------------------------------------------------------------


def open_ids(journal: Journal) -> list[str]:
    return [call["id"] for call in fold(journal.events("s")).open_calls]


def test_a_call_is_in_the_journal_before_the_tool_runs(s: Session, journal: Journal) -> None:
    with s.tool_call("shell", {"command": "ls"}) as call:
        assert last(s) == ("tool.call", "assistant", {"id": call.id, "name": "shell", "arguments": {"command": "ls"}})
        assert open_ids(journal) == [call.id]
        call.result("a.py")
    assert last(s) == ("tool.result", "tool:shell", {"id": call.id, "response": "a.py"})
    assert not open_ids(journal)


def test_a_result_is_any_value_and_may_be_an_error(s: Session) -> None:
    s.tool_call("a b/ü", id="c").result({"n": [1, None]}, is_error=True, code="mine")
    expected = {"id": "c", "response": {"n": [1, None]}, "is_error": True, "code": "mine"}
    assert last(s) == ("tool.result", "tool:a_b/_", expected)
    s.tool_call("x", id="c").result()
    assert last(s)[2] == {"id": "c", "response": None}


def test_a_tool_that_raises_has_an_error_for_its_result(s: Session) -> None:
    with pytest.raises(ValueError, match="odd"), s.tool_call("t", {}) as call:
        raise ValueError("odd \ud800")
    result = {"id": call.id, "response": "ValueError: odd \\ud800", "is_error": True, "code": "error"}
    assert last(s)[2] == result


def test_an_error_after_the_result_adds_nothing(s: Session) -> None:
    with pytest.raises(ValueError, match="late"), s.tool_call("t", {}) as call:
        call.result(1)
        raise ValueError("late")
    assert last(s)[2] == {"id": call.id, "response": 1}


@pytest.mark.parametrize("stop", [KeyboardInterrupt, SystemExit, GeneratorExit, asyncio.CancelledError])
def test_what_interrupts_the_program_leaves_the_call_open(
    s: Session, journal: Journal, stop: type[BaseException]
) -> None:
    with pytest.raises(stop), s.tool_call("t", {}) as call:
        raise stop
    assert open_ids(journal) == [call.id]


def test_a_block_without_a_result_leaves_the_call_open(s: Session, journal: Journal) -> None:
    with s.tool_call("t", {}, requires="result") as call:
        pass
    assert open_ids(journal) == [call.id]


def test_a_second_result_is_refused(s: Session) -> None:
    call = s.tool_call("t", {}, id="c")
    call.result(1)
    refused(s, lambda: call.result(2), "'c'", "has its result")
    refused(s, lambda: s.tool_result("c", 2), "'c'", "has its result")


def test_a_call_that_is_open_is_not_begun_again(s: Session) -> None:
    s.tool_call("t", {}, id="c")
    refused(s, lambda: s.tool_call("t", {}, id="c"), "'c'", "open already")
    s.tool_result("c", 1)
    # Some models number their calls anew in each turn.
    call = s.tool_call("t", {}, id="c")
    # Said by the model only now, it runs all the same.
    s.model_response({"type": "tool_call", "id": "c", "name": "t", "arguments": {}})
    refused(s, lambda: s.tool_call("t", {}, id="c"), "'c'", "open already")
    assert s.tool_call("t", {}).id != "c"
    call.result(2)


def test_the_calls_of_a_model_are_open_and_are_found_by_name_and_arguments(s: Session, journal: Journal) -> None:
    s.model_response(CHAT)
    assert open_ids(journal) == ["c1", "c2", "c3", "c4"]
    with s.tool_call("ls", {"path": "."}) as call:
        assert call.id == "c1"
    other = s.tool_call("ls", {"path": "."})
    assert other.id not in ("c1", "c2", "c3", "c4")
    assert s.tool_call("sql", "select 1", id="c4").id == "c4"
    for one in ("c1", "c2", "c3", "c4", other.id):
        s.tool_result(one, "x")
    assert last(s)[1] == "tool:ls" and not open_ids(journal)
    assert not fold(journal.events("s")).unmatched_results


def test_calls_from_before_are_known(journal: Journal) -> None:
    with journal.session("s", source="console") as s:
        s.tool_call("t", {}, id="old", requires="confirmation")
        s.tool_call("t", {}, id="done").result(1)
    with journal.session("s") as s:
        refused(s, lambda: s.tool_result("done", 1), "'done'")
        s.confirm("old", True)
        s.tool_result("old", 1)
        assert last(s)[1] == "tool:t"
        refused(s, lambda: s.tool_result("old", 1), "'old'")


def test_opening_and_recording_read_no_events_from_before(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    with journal.session("s", source="console") as s:
        s.append_many([("x.mine", {"n": n}, "host") for n in range(600)])
        s.tool_call("t", {}, id="old")
    read: list[int] = []
    chain = journal.chain(Name("s"))
    events = chain.events
    monkeypatch.setattr(chain, "events", lambda *args, **named: read.append(1) or events(*args, **named))
    with journal.session("s") as s:
        s.user("hi")
        s.model_response(CHAT)
        with s.turn():
            s.tool_call("ls", {"path": "."}).result(1)
            s.tool_call("t", {}, id="c", requires="confirmation")
            s.confirm("c", False)
            s.tool_result("c", "no", is_error=True, code="denied")
        assert not read
        for _ in range(3):
            refused(s, lambda: s.tool_result("nobody", 1), "nobody")
        s.tool_result("old", 1)
    assert len(read) == 1


def test_batches_and_plain_appends_count_as_well(s: Session) -> None:
    s.append("tool.call", {"id": "a", "name": "t"})
    s.append_many([Draft("tool.call", {"id": "b", "name": "t"}), Draft("tool.result", {"id": "a", "response": 1})])
    refused(s, lambda: s.tool_result("a", 1), "'a'")
    s.tool_result("b", 1)
    refused(
        s,
        lambda: s.append_many([Draft("tool.call", {"id": "c", "name": "t"}), Draft("x", {"n": object()})]),
        "object",
        error=FormatError,
    )
    # It was never stored.
    refused(s, lambda: s.tool_result("c", 1), "'c'")
    s.append("tool.call", {"id": "d", "name": "t"})
    s.append("tool.result", {"parts": [{"type": "tool_call_response", "id": "d", "response": 1}]})
    refused(s, lambda: s.tool_result("d", 1), "'d'")


RESULTS = [
    {"role": "tool", "tool_call_id": "c", "content": "x"},
    {"type": "tool_result", "tool_use_id": "c", "content": "x"},
    {"type": "function_call_output", "call_id": "c", "output": "x"},
]


@pytest.mark.parametrize("result", RESULTS)
def test_a_result_in_a_message_is_of_an_open_call_and_comes_once(s: Session, result: dict[str, Any]) -> None:
    for said in ("no such call", "answered"):
        before = s.head
        with pytest.raises(UsageError, match="'c' is not open"):
            s.message("tool", result)
        assert s.head == before, said
        s.tool_call("look", {}, id="c")
        s.message("tool", result)
    with pytest.raises(UsageError, match="two results"):
        s.tool_call("look", {}, id="c")
        s.message("tool", [result, result])


def test_a_response_has_results_of_tools_that_the_provider_ran_and_no_others(s: Session) -> None:
    found = {"type": "tool_call_response", "id": "srv", "response": "found"}
    refused(s, lambda: s.model_response([found]), "'srv' is not open")
    s.model_response([{"type": "tool_call", "id": "srv", "name": "web_search"}, found])
    refused(s, lambda: s.model_response([found]), "'srv' is not open")
    # One that went on in a later response.
    s.model_response([{"type": "tool_call", "id": "srv", "name": "web_search"}])
    s.model_response([found])
    assert not fold(s.chain.events()).unmatched_results


NAMELESS = [{"type": "tool_call_response", "response": 1}, {"type": "tool_result", "content": "x"}]


@pytest.mark.parametrize("result", NAMELESS)
@pytest.mark.parametrize("method", ["message", "model_response"])
def test_a_result_that_names_neither_call_nor_tool_is_refused(s: Session, result: dict[str, Any], method: str) -> None:
    def say(*parts: object) -> None:
        if method == "message":
            s.message("tool", list(parts))
        else:
            s.model_response(list(parts))

    s.tool_call("look", {}, id="c")
    for none in (None, ""):
        refused(s, lambda none=none: say(result | {"id": none}), "neither the id of its call nor the name of its tool")
    refused(s, lambda: say(result | {"name": "find"}), "'find'", "no call of that tool is open")
    say(result | {"name": "look"})
    refused(s, lambda: say(result | {"name": "look"}), "'look'", "no call of that tool is open")
    assert not fold(s.chain.events()).open_calls


def test_results_without_ids_are_of_the_calls_of_their_tools_one_of_each(s: Session) -> None:
    call, result = {"type": "tool_call", "name": "look"}, {"type": "tool_call_response", "name": "look", "response": 1}
    s.tool_call("look", {}, id="a")
    # What runs its own tools says both in one message.
    s.model_response([call, result])
    assert [one["id"] for one in fold(s.chain.events()).open_calls] == ["a"]
    s.tool_call("look", {}, id="b")
    refused(s, lambda: s.message("tool", [result, result, result]), "'look'", "no call of that tool is open")
    s.message("tool", [{"type": "tool_call_response", "id": "a", "response": 1}, result])
    assert [part["id"] for part in last(s)[2]["parts"]] == ["a", "b"]
    # The result that has the id comes later.
    for name in ("x", "y"):
        s.tool_call("look", {}, id=name)
    s.message("tool", [result, {"type": "tool_call_response", "id": "x", "response": 1}])
    assert [part["id"] for part in last(s)[2]["parts"]] == ["y", "x"]


def test_a_result_without_an_id_is_of_a_call_from_before_the_session_was_opened(journal: Journal) -> None:
    with journal.session("s", create=True) as s:
        s.tool_call("look", {}, id="a")
    with journal.session("s") as s:
        s.message("tool", {"role": "function", "name": "look", "content": "ok"})
        assert not fold(s.chain.events()).open_calls


def test_what_is_archived_already_is_not_archived_again(journal: Journal) -> None:
    with journal.session("s", create=True) as s:
        refused(s, s.unarchive, "s is not archived; nothing was written", error=Refused)
        s.archive()
    with journal.session("s") as s:
        refused(s, s.archive, "s is archived already; nothing was written", error=Refused)
        refused(s, lambda: s.update(archived=True), "archived already", error=Refused)
        # It says something else as well.
        s.update(archived=True, title="x")
        s.unarchive()
        refused(s, s.unarchive, "not archived", error=Refused)


def test_a_call_that_is_said_again_waits_for_its_confirmation_still(s: Session) -> None:
    s.tool_call("t", {}, id="c", requires="confirmation")
    s.model_response([{"type": "tool_call", "id": "c", "name": "t", "arguments": {}}])
    s.confirm("c", True)
    with pytest.raises(UsageError, match="has its answer"):
        s.confirm("c", True)


def test_a_message_may_hold_a_call_and_its_result(s: Session) -> None:
    call = {"type": "tool_call", "id": "c", "name": "look"}
    s.message("assistant", [call, {"type": "tool_call_response", "id": "c", "response": 1}])
    with pytest.raises(UsageError, match="not open"):
        s.tool_result("c", 2)


@pytest.mark.parametrize("wrong", ["1", "a\nb", 1.0, True, [1], -1])
def test_an_expected_seq_that_is_no_number_is_no_conflict(s: Session, wrong: Any) -> None:
    with pytest.raises(UsageError, match="not the number of an event"):
        s.append("note", {}, expected_seq=wrong)


@pytest.mark.parametrize("wrong", [[], {"a": 1}, None, 1])
def test_a_type_that_is_no_text_is_named(s: Session, wrong: Any) -> None:
    for append in (lambda: s.append(wrong, {}), lambda: s.append_many([(wrong, {}, "host")])):
        with pytest.raises(UsageError, match="the type of an event is text"):
            append()
    with pytest.raises(UsageError, match="a batch is a list"):
        s.append_many(wrong if isinstance(wrong, int) else None)  # type: ignore[arg-type]


@pytest.mark.parametrize("member", ["type", "actor", "turn", "ts"])
def test_a_refusal_is_one_line_however_long_what_was_given_is(s: Session, member: str) -> None:
    given: dict[str, Any] = {"type": "note", member: "x" * 100_000}
    with pytest.raises(FormatError) as refused:
        s.append(given.pop("type"), {}, **given)
    assert len(str(refused.value)) < 500


def test_nor_is_a_name_repeated_in_full(journal: Journal) -> None:
    long = "x" * 100_000
    wrong: list[Callable[[], object]] = [
        lambda: journal.resolve(long),
        lambda: journal.session("s", create=True, parent=long),
        lambda: journal.session("s", create=True, parent={long: 1}),
        lambda: journal.session("s", create=True, durability=long),  # type: ignore[arg-type]
    ]
    for call in wrong:
        with pytest.raises(JournalError) as refused:
            call()
        assert len(str(refused.value)) < 1000


def test_a_parent_that_this_journal_has_is_named_as_it_is_there(journal: Journal) -> None:
    journal.session("p", create=True).close()
    for wrong in ({"session": "p", "branch": "zz"}, {"session": "p", "seq": 99}):
        with pytest.raises(UsageError, match="the parent"):
            journal.session("child", create=True, parent=wrong)
    journal.session("child", create=True, parent={"session": "elsewhere", "seq": 99}).close()
    # Of this parent the trunk is not here.
    journal.session("lone", create=True).close()
    journal.branch("lone", 1, "b")
    git("update-ref", "-d", "refs/heads/lone/main", cwd=journal.path)
    journal.session("orphan", create=True, parent={"session": "lone", "seq": 99}).close()
    journal.session("other", create=True, parent={"session": "p", "seq": 1}).close()


def test_of_many_threads_one_gives_the_result(s: Session, journal: Journal) -> None:
    s.tool_call("t", {}, id="c")
    gate = threading.Barrier(8)
    errors: list[JournalError] = []

    def give(n: int) -> None:
        gate.wait()
        try:
            s.tool_result("c", n)
        except UsageError as error:
            errors.append(error)

    threads = [threading.Thread(target=give, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(errors) == 7 and fold(journal.events("s")).unmatched_results == 0


# --- confirmations -------------------------------------------------------------------------------


def test_a_confirmation_is_given_once_and_only_where_it_is_waited_for(s: Session) -> None:
    s.tool_call("t", {}, id="c", requires="confirmation")
    assert last(s)[2] == {"id": "c", "name": "t", "arguments": {}, "requires": "confirmation"}
    s.confirm("c", False, "too dangerous", actor="user:ana")
    assert last(s) == ("tool.confirmation", "user:ana", {"id": "c", "approved": False, "reason": "too dangerous"})
    refused(s, lambda: s.confirm("c", True), "'c'", "answer already")
    s.tool_result("c", "denied", is_error=True, code="denied")
    refused(s, lambda: s.confirm("c", True), "'c'", "not open")
    s.tool_call("t", {}, id="d")
    refused(s, lambda: s.confirm("d", True), "'d'", "no confirmation")


def test_after_an_interrupt_nothing_waits_for_an_answer(s: Session) -> None:
    s.tool_call("t", {}, id="c", requires="confirmation")
    s.tool_call("t", {}, id="d", requires="confirmation")
    s.confirm("d", True)
    s.interrupt()
    refused(s, lambda: s.confirm("c", True), "'c'", "no confirmation")
    refused(s, lambda: s.confirm("d", True), "'d'", "answer already")
    s.tool_result("c", "late")


def test_a_call_of_the_model_can_be_made_to_wait(s: Session, journal: Journal) -> None:
    s.model_response(CHAT)
    s.tool_call("ls", {"path": "."}, requires="confirmation")
    assert fold(journal.events("s")).open_calls[0]["requires"] == "confirmation"
    s.confirm("c1", True)


# --- turns ---------------------------------------------------------------------------------------


def turns(journal: Journal) -> list[tuple[str, str | None]]:
    return [(event.type, event.turn) for event in journal.events("s", after=1)]


def test_a_turn_stamps_all_that_happens_in_it(s: Session, journal: Journal) -> None:
    s.user("before")
    with s.turn("t1") as turn:
        assert turn.id == "t1"
        s.user("hi")
        s.append("x.mine", {})
        s.append("x.mine", {}, turn="other")
        s.append_many([Draft("x.mine", {}), Draft("x.mine", {}, turn="other")])
        s.tool_call("t", {}).result(1)
    s.user("after")
    kinds = ["turn.start", "message", "x.mine", "x.mine", "x.mine", "x.mine", "tool.call", "tool.result", "turn.end"]
    stamps = ["t1", "t1", "t1", "other", "t1", "other", "t1", "t1", "t1"]
    stamped = list(zip(kinds, stamps, strict=True))
    assert turns(journal) == [("message", None), *stamped, ("message", None)]
    assert fold(journal.events("s")).last_turn == {"id": "t1", "outcome": "completed", "seq": s.head.seq - 1}


@pytest.mark.parametrize(
    ("raised", "outcome"),
    [
        (ValueError("odd"), "failed"),
        (KeyboardInterrupt(), "canceled"),
        (asyncio.CancelledError(), "canceled"),
        (SystemExit(), "canceled"),
    ],
)
def test_how_a_turn_ends_by_what_leaves_it(s: Session, raised: BaseException, outcome: str) -> None:
    with pytest.raises(type(raised)), s.turn():
        raise raised
    assert last(s)[0] == "turn.end" and last(s)[2]["outcome"] == outcome
    assert last(s)[2]["message"].startswith(type(raised).__name__)
    s.user("after")


def test_a_turn_ends_as_it_is_told(s: Session, journal: Journal) -> None:
    with s.turn() as turn:
        refused(s, lambda: turn.end("later"), "later")
        turn.end("rescheduling", "wait for the build")
        s.user("after")
        refused(s, lambda: turn.end(), "has ended")
    assert turns(journal)[-2:] == [("turn.end", turn.id), ("message", None)]


def test_one_turn_at_a_time(s: Session) -> None:
    with s.turn("t1"):
        refused(s, lambda: s.turn("t2"), "t1")
        refused(s, lambda: s.end_turn("t2", "completed"), "t2")
    with s.turn() as one:
        pass
    with s.turn() as two:
        pass
    assert one.id != two.id
    refused(s, lambda: s.turn("a b"), "turn", error=FormatError)
    s.turn("fine").end()


# --- a crash -------------------------------------------------------------------------------------


def test_kill_between_call_and_result_leaves_the_call_open(journal: Journal, tmp_path: Path) -> None:
    ready = tmp_path / "ready"

    def agent() -> None:
        mine = gitjournal.open(journal.path)
        with mine.session("s", source="console") as s, s.turn(), s.tool_call("shell", {"command": "sleep"}, id="c"):
            ready.touch()
            while True:
                os.read(reading, 1)

    reading, writing = os.pipe()
    child = fork(agent)
    while not ready.exists():
        pass
    kill(child)
    os.close(reading)
    os.close(writing)
    state = fold(journal.events("s"))
    assert [call["id"] for call in state.open_calls] == ["c"] and state.open_turn is not None
    with journal.session("s") as s:
        s.tool_result("c", "unknown", is_error=True, code="interrupted")
    assert not open_ids(journal)


# --- beginning a session -------------------------------------------------------------------------


def started(journal: Journal, **how: Any) -> Mapping[str, Any]:
    with journal.session("new", **how):
        return journal.event("new", 1).data


@pytest.mark.parametrize(
    ("how", "trust"),
    [
        ({"source": "console"}, "host"),
        ({"source": "console", "trust": "host"}, "host"),
        ({"source": "console", "trust": "sandbox"}, "sandbox"),
        ({"source": "http"}, "sandbox"),
        ({"source": "CONSOLE"}, "sandbox"),
        ({"source": ""}, "sandbox"),
        ({"trust": "sandbox"}, "sandbox"),
        ({"title": "x"}, "sandbox"),
        ({"create": True}, "sandbox"),
    ],
)
def test_trust_follows_from_the_source_and_is_never_wider(journal: Journal, how: dict[str, Any], trust: str) -> None:
    data = started(journal, **how)
    assert fold(journal.events("new")).trust == trust
    assert data.get("source") == how.get("source")
    if "source" in how:
        assert data["trust"] == trust


@pytest.mark.parametrize(
    "how",
    [
        {"source": "http", "trust": "host"},
        {"trust": "host"},
        {"source": "console", "trust": "admin"},
        {"source": "console", "trust": 1},
        {"source": 7},
        {"source": "x" * 10_000_000, "trust": "host"},
        {"source": "console", "title": MB},
        {"source": "console", "labels": ["a\n"]},
        {"source": "console", "labels": "ab"},
        {"source": "console", "parent": {"session": "p", "n": 1}},
        {"source": "console", "parent": {"branch": "p"}},
        {"source": "console", "parent": {"session": "p", "seq": 0}},
        {"source": "console", "parent": 7},
        {"source": "console", "project": 5},
        {"source": "console", "project": "a\0b"},
        {"source": "console", "labels": 5},
        {"create": True, "start": 5},
        {"create": True, "start": Draft("session.start", {"trust": "host", "source": "http"})},
        {"source": "console", "start": Draft("session.start", {})},
        {"source": "http", "start": {"trust": "host"}},
        {"start": {"source": "console"}},
        {"source": "http", "start": {"agent.name": object()}},
    ],
)
def test_a_session_that_cannot_begin_so_does_not_begin(journal: Journal, how: dict[str, Any]) -> None:
    with pytest.raises(UsageError) as caught:
        journal.session("new", **how)
    assert len(str(caught.value)) < 300
    assert not list(journal.sessions())


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda j: j.session(5), "a session or branch is named by a text or a Name, not a int"),
        (lambda j: j.session(None, source="console"), "not a NoneType"),
        (lambda j: j.head(b"s"), "not a bytes"),
        (lambda j: j.branch("s", "1", "b"), "events are counted by whole numbers, not by a str"),
        (lambda j: j.fork("s", True, "b"), "not by a bool"),
        (lambda j: j.branch("s", 1, 5), "branch name is a int, not text"),
        (lambda j: j.fork("s", 1, 5), "session id is a int, not text"),
        (lambda j: j.event("s", "1"), "not by a str"),
        (lambda j: j.events("s", "1"), "not by a str"),
        (lambda j: j.events("s", to=1.5), "not by a float"),
        (lambda j: fold(j.events("s"), to="x"), "cannot fold up to event 'x'"),
        (lambda j: j.session("s").error("x", type=3), "type is a int, not text"),
    ],
)
def test_what_names_nothing_is_refused_by_name(journal: Journal, call: Callable[[Journal], object], said: str) -> None:
    journal.session("s", source="console").close()
    with pytest.raises(UsageError, match=said):
        call(journal)
    assert [str(name) for name in journal.sessions()] == ["s"] and journal.head("s").seq == 1


def test_a_project_is_an_absolute_path() -> None:
    about = dict.fromkeys(("source", "trust", "parent", "title", "labels"))
    assert drafts.start(project="/a", **about) == {"project": "/a"}  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="absolute"):
        drafts.start(project="a", **about)  # type: ignore[arg-type]


def test_where_a_session_belongs(journal: Journal, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    with journal.session("s", source="console", title="The parent") as parent:
        parent.user("hi")
        data = started(journal, project=tmp_path / "link", parent=parent, title="t", labels=["b", "a"])
    assert data == {
        "project": str(tmp_path),
        "parent": {"session": "s", "branch": "main", "seq": 2},
        "title": "t",
        "labels": ["a", "b"],
    }
    state = fold(journal.events("new"))
    assert (state.title, state.labels, state.project, state.parent) == ("t", ["a", "b"], str(tmp_path), data["parent"])
    for n, other in enumerate(("s", Name("s"), {"session": "s"})):
        with journal.session(f"n{n}", parent=other):
            assert journal.event(f"n{n}", 1).data["parent"]["session"] == "s"
    with pytest.raises(NotFound):
        journal.session("n9", parent="nobody")


def test_a_session_begins_with_more_than_the_usual_members(journal: Journal) -> None:
    start = {"agent.name": "helper", "system_instructions": [{"type": "text", "content": "Be kind."}]}
    assert started(journal, source="console", start=start) == {"source": "console", "trust": "host", **start}


@pytest.mark.parametrize(("first", "later", "trust"), [("http", "console", "sandbox"), ("console", "http", "host")])
def test_what_is_said_about_the_beginning_says_nothing_later(
    journal: Journal, first: str, later: str, trust: str
) -> None:
    with journal.session("s", source=first):
        pass
    with journal.session("s", source=later, title="later") as s:
        assert s.head.seq == 1
        s.append("session.update", {"trust": "host", "source": later})
    journal.branch("s", 1, "b")
    journal.fork("s", 1, "f")
    for name in ("s", "s/b", "f"):
        state = fold(journal.events(name))
        assert (state.source, state.trust, state.title) == (first, trust, "")


def test_another_trust_than_that_of_the_session_is_refused(journal: Journal) -> None:
    with journal.session("s", source="console"):
        pass
    journal.branch("s", 1, "b")
    for name in ("s", "s/b"):
        with pytest.raises(UsageError, match="has trust host, not sandbox"):
            journal.session(name, trust="sandbox")
        with journal.session(name, trust="host", source="console"):
            pass
    with pytest.raises(UsageError, match="wider"):
        journal.session("s", source="http", trust="host")


def test_a_sub_session_is_never_trusted_more_than_its_parent(journal: Journal) -> None:
    with journal.session("low", source="http") as low, journal.session("high", source="console") as high:
        low.user("x")
        high.user("x")
        wider: list[dict[str, Any]] = [
            *({"parent": parent} for parent in (low, "low", Name("low", "b"), {"session": "low", "branch": "b"})),
            {"start": Draft("session.start", {"source": "console", "trust": "host", "parent": {"session": "low"}})},
        ]
        journal.branch("low", 1, "b")
        for how in wider:
            with pytest.raises(UsageError, match="trust host is wider than sandbox, which the parent 'low' has") as no:
                journal.session("c", **({} if "start" in how else {"source": "console"}), create=True, **how)
            assert no.value.hint == "Name a trust for it: sandbox."
        for number, how in enumerate([
            {"parent": low, "trust": "sandbox"},
            {"parent": high},
            {"parent": high, "trust": "sandbox"},
            {"parent": {"session": "of another journal"}},
        ]):  # fmt: skip
            journal.session(f"c{number}", source="console", **how).close()
    assert [fold(journal.events(f"c{n}")).trust for n in range(4)] == ["sandbox", "host", "sandbox", "host"]
    # Who cannot be read is trusted with nothing.
    (journal.path / "refs" / "heads" / "high" / "main").write_text("2" * 40 + "\n")
    with pytest.raises(UsageError, match="which the parent 'high' has"):
        journal.session("c", source="console", parent="high")
    # A session that is there goes on.
    journal.session("c1", parent="low").close()


def test_a_call_from_before_under_another_name_gives_its_id_away(journal: Journal) -> None:
    with journal.session("s", source="console") as s:
        s.tool_call("first", {}, id="c1", requires="confirmation")
    with journal.session("s") as s:
        call = s.tool_call("second", {}, id="c1")
        state = fold(journal.events("s"))
        assert [(one["name"], one["seq"], one["requires"]) for one in state.open_calls] == [("second", 3, None)]
        assert state.tool_calls == 2 and state.odd == [{"seq": 3, "type": "tool.call", "faults": ["id"]}]
        call.result("x")
        assert last(s)[1] == "tool:second"
    assert not fold(journal.events("s")).open_calls
    assert [entry["seq"] for entry in fold(journal.events("s")).context] == [2, 3, 4]


def test_a_branch_that_is_not_there_does_not_become_a_session(journal: Journal) -> None:
    journal.session("s", source="console").close()
    for name, left, branch in (("s/try", "s", "try"), ("s/a/b", "s", "a/b")):
        with pytest.raises(NotFound, match=f"session '{left}' has no branch '{branch}'") as caught:
            journal.session(name, source="console")
        assert caught.value.hint == f"Make it with: gj branch {left} {branch}"
    assert [str(name) for name in journal.sessions()] == ["s"]
    # A name that is said as such, and ids with a slash where no session is the first part of.
    journal.session(Name("s/try"), source="console").close()
    journal.session("other/x", source="console").close()


def test_no_labels_are_none(journal: Journal) -> None:
    journal.session("s", source="console", labels=[]).close()
    assert "labels" not in journal.event("s", 1).data
    with pytest.raises(NotFound) as caught:
        journal.session("nothing")
    assert "source=" in caught.value.hint


def test_a_session_that_is_deleted_while_it_is_opened_is_not_there(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal.session("s", source="console").close()
    redactor = journal._redactor

    def gone(redact: bool | None) -> Any:
        delete.delete(journal, "s")
        return redactor(redact)

    monkeypatch.setattr(journal, "_redactor", gone)
    with pytest.raises(NotFound):
        journal.session("s")
    assert not journal.branches("s")


def test_without_a_beginning_nothing_is_made(journal: Journal) -> None:
    for how in ({}, {"create": False}, {"create": False, "source": "console"}):
        with pytest.raises(NotFound):
            journal.session("s", **how)  # type: ignore[arg-type]
    assert not list(journal.sessions())


# --- whatever is done, in whatever order ---------------------------------------------------------

IDS = st.sampled_from("abc")
STEPS = st.one_of(
    st.tuples(st.just("call"), IDS, st.sampled_from([None, "confirmation", "result"])),
    st.tuples(st.just("asked"), IDS),
    st.tuples(st.just("result"), IDS),
    st.tuples(st.just("confirm"), IDS, st.booleans()),
    st.tuples(st.just("turn"), IDS),
    st.tuples(st.just("end"), IDS),
    st.tuples(st.just("interrupt")),
    st.tuples(st.just("batch"), IDS),
    st.tuples(st.just("again")),
)


@settings(max_examples=50)
@given(st.lists(STEPS, max_size=25))
def test_what_the_methods_take_no_reader_finds_odd(tmp_path_factory: pytest.TempPathFactory, steps: list[Any]) -> None:
    """Calls, answers and turns in any order, by a session that is opened anew in between: the fold has no complaint."""
    journal = gitjournal.init(tmp_path_factory.mktemp("j") / "journal")
    session = journal.session("s", source="console", durability="os")
    for kind, *more in steps:
        try:
            if kind == "call":
                session.tool_call("t", {}, id=more[0], requires=more[1])
            elif kind == "asked":
                session.model_response({"type": "tool_call", "id": more[0], "name": "t", "arguments": {}})
            elif kind == "result":
                was_open = more[0] in {call["id"] for call in fold(journal.events("s")).open_calls}
                before = session.head.seq
                session.tool_result(more[0], "x")
                assert was_open and session.head.seq == before + 1
            elif kind == "confirm":
                session.confirm(more[0], more[1])
            elif kind == "turn":
                session.turn(more[0])
            elif kind == "end":
                session.end_turn(more[0], "completed")
            elif kind == "interrupt":
                session.interrupt()
            elif kind == "batch":
                session.append_many([Draft("tool.call", {"id": more[0], "name": "t"}), Draft("x.mine", {})])
            else:
                session.close()
                session = journal.session("s", durability="os")
        except UsageError:
            assert kind not in ("asked", "interrupt", "batch", "again")
            if kind == "result":
                assert not was_open
    session.close()
    state = fold(journal.events("s"))
    assert not state.odd and not state.unmatched_results
