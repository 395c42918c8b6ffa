"""Any session as ATIF, OTLP and chat messages: what is kept, what is counted as lost, and the way back."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from imported import Json, folded
from support import ROOT, Gj, event

import gitjournal
from gitjournal import Journal, fold
from gitjournal.errors import NotFound
from gitjournal.event import Event
from gitjournal.formats import export, import_file, renderings
from gitjournal.formats.atif import Atif
from gitjournal.formats.losses import KINDS, Losses
from gitjournal.formats.otlp import Otlp
from gitjournal.formats.protocol import Item, Source
from gitjournal.formats.report import ImportReport
from gitjournal.formats.to_atif import ToAtif
from gitjournal.formats.to_openai import ToOpenai, ToOpenaiLines
from gitjournal.formats.to_otlp import ToOtlp
from gitjournal.refs import Name

atif = pytest.importorskip("atif")
DEMO = ROOT / "gitjournal" / "demo" / "session.jsonl"
Draft = tuple[str, str, Json]


class Events:
    """As much of a journal as a rendering asks for: events without a disk."""

    def __init__(self, *drafts: Draft, start: Json | None = None) -> None:
        self.all = [event(1, data=start or {"source": "test"})]
        for kind, actor, data in drafts:
            self.all.append(event(len(self.all) + 1, self.all[-1].hash, type=kind, actor=actor, data=data))

    def events(self, name: Name) -> Iterator[Event]:
        return iter(self.all)

    def head(self, name: Name) -> Event:
        return self.all[-1]

    def resolve(self, name: str) -> Name:
        raise NotFound(name)


def rendered(rendering: Any, *drafts: Draft, start: Json | None = None) -> tuple[Any, dict[str, int]]:
    """What a rendering makes of events, as JSON, and what it has lost."""
    out, losses = io.BytesIO(), Losses()
    rendering.write(Events(*drafts, start=start), Name("s"), out, losses)
    return json.loads(out.getvalue()), losses.as_dict()


def say(text: str, role: str = "user", actor: str = "user", **more: Any) -> Draft:
    return "message", actor, {"role": role, "parts": [{"type": "text", "content": text}], **more}


def respond(*parts: Json, **more: Any) -> Draft:
    return "model.response", "assistant", {"parts": list(parts), **more}


def text(content: str) -> Json:
    return {"type": "text", "content": content}


def call(own: str | None = "c1", name: str = "bash", arguments: Any = None) -> Json:
    return {"type": "tool_call", "id": own, "name": name, "arguments": {"a": 1} if arguments is None else arguments}


def answer(response: Any, own: str | None = "c1", **more: Any) -> Draft:
    return "tool.result", "tool:bash", {"id": own, "response": response, **more}


SESSION = [
    say("hi"), respond({"type": "reasoning", "content": "hm"}, text("I look."), call(), **{
        "response.id": "r1", "response.model": "m", "finish_reason": "tool_call",
        "usage": {"gen_ai.usage.input_tokens": 10, "gen_ai.usage.output_tokens": 5,
                  "gen_ai.usage.cache_read.input_tokens": 4}}),
    answer("done"), respond(text("Bye."), **{"response.id": "r2", "usage": {"gen_ai.usage.input_tokens": 20}}),
]  # fmt: skip


# --- ATIF ------------------------------------------------------------------------------------------


def test_a_session_as_a_trajectory() -> None:
    start = {"source": "test", "agent.name": "a", "agent.version": "3", "system_instructions": [text("Be brief.")]}
    document, lost = rendered(ToAtif(), *SESSION, start=start)
    atif.Trajectory.model_validate(document)
    assert document["schema_version"] == "ATIF-v1.7" and document["session_id"] == "s" and not lost
    assert document["agent"] == {"name": "a", "version": "3", "model_name": "m"}
    assert [step["source"] for step in document["steps"]] == ["system", "user", "agent", "agent"]
    step = document["steps"][2]
    assert (step["message"], step["reasoning_content"], step["model_name"]) == ("I look.", "hm", "m")
    assert step["tool_calls"] == [{"tool_call_id": "c1", "function_name": "bash", "arguments": {"a": 1}}]
    assert step["observation"] == {"results": [{"source_call_id": "c1", "content": "done"}]}
    assert step["metrics"] == {"prompt_tokens": 10, "completion_tokens": 5, "cached_tokens": 4}
    assert step["extra"]["gitjournal"] == {"seqs": [3, 4], "response_id": "r1", "finish_reason": "tool_call"}
    assert document["final_metrics"] == {
        "total_steps": 4, "total_prompt_tokens": 30, "total_completion_tokens": 5, "total_cached_tokens": 4,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("drafts", "lost"),
    [
        ([("native", "host", {"type": "x"}), ("session.update", "user", {"title": "t"}), ("odd.type", "host", {})],
         {"native": 1, "session": 1, "unknown": 1}),
        ([respond(call("c1", arguments="ls"), call(None), call("c2", arguments=[1]))],
         {"arguments": 2, "ids": 1, "open": 2}),
        ([respond(call()), answer({"code": 0})], {"responses": 1}),
        ([answer("late", "gone")], {"unmatched": 1}),
        ([respond({"type": "reasoning", "content": "a"}, {"type": "reasoning", "content": "b"})], {"reasoning": 1}),
        ([("message", "user", {"role": "user", "parts": [
            {"type": "blob", "modality": "audio", "mime_type": "audio/wav", "content": "AQI="}, {"type": "odd"},
            {"type": "uri", "modality": "image", "mime_type": "image/png", "uri": "https://a/b.png"}]})],
         {"parts": 1, "media": 1}),
        ([say("cut \ud83d", sidechain=True)], {"sidechain": 1}),
        ([say("x", child={"session": "elsewhere"})], {"children": 1}),
    ],
    ids=["other events", "arguments", "responses", "unmatched", "reasoning", "media", "sidechain", "children"],
)  # fmt: skip
def test_what_a_trajectory_has_no_place_for_is_counted(drafts: list[Draft], lost: dict[str, int]) -> None:
    drafts = [draft for draft in drafts if "\ud83d" not in json.dumps(draft[2], ensure_ascii=False)] or [
        say("cut", sidechain=True)
    ]
    document, found = rendered(ToAtif(), *drafts)
    assert atif.Trajectory.model_validate(document) and found == lost
    assert set(found) <= set(KINDS)


def test_records_of_one_response_are_one_step_and_results_go_to_their_calls() -> None:
    one = {"response.id": "r1", "usage": {"gen_ai.usage.output_tokens": 3}}
    grown = {"response.id": "r1", "usage": {"gen_ai.usage.output_tokens": 9}}
    document, _ = rendered(
        ToAtif(), respond(text("a"), **one), respond(call("c1"), **one), answer("r1", "c1"),
        respond(call("c2"), **grown), say("wait"), answer("late", "c2", code="interrupted", is_error=True),
    )  # fmt: skip
    atif.Trajectory.model_validate(document)
    first, second = document["steps"]
    assert first["metrics"] == {"completion_tokens": 9} and len(first["tool_calls"]) == 2 and second["source"] == "user"
    assert first["observation"]["results"][1] == {
        "source_call_id": "c2", "content": "late", "extra": {"is_error": True, "gitjournal": {"code": "interrupted"}},
    }  # fmt: skip


def test_sub_agents_of_the_journal_are_embedded_once(journal: Journal) -> None:
    for name in ("top", "sub", "deep"):
        with journal.session(name, create=True) as session:
            data = {"id": "c1", "name": "Task", "arguments": {}}
            session.append("tool.call", data, actor="assistant")
            child = {"top": "sub", "sub": "deep", "deep": "top"}[name]
            session.append("tool.result", {"id": "c1", "response": "ok", "child": {"session": child}}, actor="host")
    out, losses = io.BytesIO(), Losses()
    ToAtif().write(journal, Name("top"), out, losses)
    document = json.loads(out.getvalue())
    atif.Trajectory.model_validate(document)
    (sub,) = document["subagent_trajectories"]
    (deep,) = sub["subagent_trajectories"]
    assert (sub["trajectory_id"], deep["trajectory_id"]) == ("sub", "deep")
    ref = document["steps"][0]["observation"]["results"][0]["subagent_trajectory_ref"]
    assert ref == [{"trajectory_id": "sub"}]
    # The session above is not put into itself.
    assert losses.as_dict() == {"children": 1}


# --- the way back ----------------------------------------------------------------------------------

words = st.text(max_size=12) | st.sampled_from(["a", "line\nline", "<b>", "\u2028", "\U0001f600"])
scalars = st.none() | st.booleans() | st.integers(-(2**40), 2**40) | words
values = st.recursive(scalars, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(words, inner, max_size=2))
CALLS = {f"c{n}": f"tool{n}" for n in range(4)}


@st.composite
def counters(draw: Callable[..., Any]) -> Json:
    given_tokens, made = draw(st.integers(0, 2000)), draw(st.integers(0, 900))
    return {
        "gen_ai.usage.input_tokens": given_tokens,
        "gen_ai.usage.output_tokens": made,
        "gen_ai.usage.cache_read.input_tokens": draw(st.integers(0, given_tokens)),
        "gen_ai.usage.reasoning.output_tokens": draw(st.integers(0, made)),
    }


#: One id, one call: said again while it is open with other arguments, it would be the same call all the same.
ARGUMENTS = {"c0": {"a": [1, None]}, "c1": "ls -l", "c2": [1, "x"], "c3": {}}
calls = st.sampled_from(sorted(CALLS)).map(lambda own: call(own, CALLS[own], ARGUMENTS[own]))
results = st.builds(
    lambda own, response, more: answer(response, own, **more),
    st.sampled_from(sorted(CALLS)),
    values | st.lists(words.map(text), min_size=1, max_size=2),
    st.sampled_from([{}, {"is_error": True}, {"is_error": False, "code": "error"}]),
)
parts = words.map(text) | calls | words.map(lambda content: {"type": "reasoning", "content": content})
responses = st.builds(lambda made, usage: respond(*made, usage=usage), st.lists(parts, max_size=3), counters())
drafts = st.lists(
    words.map(say) | words.map(lambda content: say(content, "system", "host")) | responses | results
    | calls.map(lambda part: ("tool.call", "assistant", {k: v for k, v in part.items() if k != "type"}))
    | st.just(("native", "host", {"type": "x"})),
    max_size=14,
)  # fmt: skip


def by_kind(entries: Sequence[Any]) -> dict[str, Any]:
    """What a history holds: texts in order; calls and results by themselves, since results move to their calls, and
    a call that is said again while it is open is one.
    """
    every = [(entry, part) for entry in entries for part in entry["parts"]]
    printed = {
        kind: sorted({json.dumps([part.get(name) for name in names]) for _, part in every if part["type"] == kind})
        for kind, names in (
            ("tool_call", ("id", "name", "arguments")), ("tool_call_response", ("id", "response", "is_error")),
        )
    }  # fmt: skip
    said = [(entry["role"], part["content"]) for entry, part in every if part["type"] == "text" and part["content"]]
    return {**printed, "text": said}


def same(before: Any, after: Any) -> None:
    for name in ("usage", "tool_calls", "tool_results", "unmatched_results"):
        assert getattr(before, name) == getattr(after, name), name
    assert before.turns["user"] == after.turns["user"]
    assert [one["id"] for one in before.open_calls] == [one["id"] for one in after.open_calls]
    assert by_kind(before.history) == by_kind(after.history)


@given(drafts)
@settings(max_examples=300, deadline=None)
def test_a_trajectory_of_any_session_is_valid_and_comes_back_the_same(made: list[Draft]) -> None:
    document, _ = rendered(ToAtif(), *made)
    atif.Trajectory.model_validate(document)
    fmt = Atif()
    back = list(fmt.read(fmt.cut(io.BytesIO(json.dumps(document).encode())), ImportReport("x", "atif"), Source(ROOT)))
    same(fold(Events(*made).all), folded(back))


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 50)), max_size=8))
@settings(max_examples=100, deadline=None)
def test_tokens_of_repeated_responses_come_back_the_same(seen: list[tuple[int, int]]) -> None:
    made = [
        respond(text("x"), **{"response.id": f"r{own}", "usage": {"gen_ai.usage.output_tokens": n}}) for own, n in seen
    ]
    document, _ = rendered(ToAtif(), *made)
    fmt = Atif()
    back = list(fmt.read(fmt.cut(io.BytesIO(json.dumps(document).encode())), ImportReport("x", "atif"), Source(ROOT)))
    assert folded(back).usage == fold(Events(*made).all).usage


def spans_back(document: Any, tmp: Any) -> list[Item]:
    path = tmp / "spans.json"
    path.write_text(json.dumps(document))
    (strand,) = Otlp().strands(Source(path))
    assert b"".join(record.raw for record in strand.records()) == path.read_bytes()
    return list(strand.read(strand.records(), ImportReport("x", "otlp")))


def test_spans_come_back_the_same(tmp_path: Any) -> None:
    late = [respond(call("c2"), **{"response.id": "r3"}), say("and?"), say("on", "system", "host")]
    document, lost = rendered(ToOtlp(), *SESSION, *late)
    assert lost == {"open": 1, "provider": 3}
    same(fold(Events(*SESSION, *late[:1]).all), folded(spans_back(document, tmp_path)))


# --- OTLP ------------------------------------------------------------------------------------------


def attributes(span: Json) -> Json:
    return {one["key"]: next(iter(one["value"].values())) for one in span["attributes"]}


def test_a_session_as_spans() -> None:
    start = {"source": "test", "agent.name": "a", "tool.definitions": [{"n": 1}], "system_instructions": [text("Sys.")]}
    document, lost = rendered(ToOtlp(), *SESSION, ("error", "host", {"error.type": "t", "message": "m"}), start=start)
    (scope,) = document["resourceSpans"][0]["scopeSpans"]
    root, first, tool, second = scope["spans"]
    assert lost == {"provider": 2} and [one["name"] for one in scope["spans"]] == [
        "invoke_agent a", "chat m", "execute_tool bash", "chat unknown",
    ]  # fmt: skip
    assert {len(one["traceId"]) for one in scope["spans"]} == {32} and len(root["spanId"]) == 16
    assert {one.get("parentSpanId") for one in scope["spans"]} == {None, root["spanId"]}
    assert [one["kind"] for one in scope["spans"]] == [1, 3, 1, 3]
    about = attributes(first)
    assert about["gen_ai.usage.input_tokens"] == "10" and about["gen_ai.response.id"] == "r1"
    assert json.loads(about["gen_ai.input.messages"]) == [{"role": "user", "parts": [text("hi")]}]
    (said,) = json.loads(about["gen_ai.output.messages"])
    assert said["finish_reason"] == "tool_call" and said["parts"][2] == call()
    ran = attributes(tool)
    assert (ran["gen_ai.tool.call.arguments"], ran["gen_ai.tool.call.result"]) == ('{"a":1}', "done")
    assert json.loads(attributes(second)["gen_ai.input.messages"])[0]["parts"][0]["response"] == "done"
    assert json.loads(attributes(root)["gen_ai.system_instructions"]) == [text("Sys.")]
    assert root["events"][0]["attributes"][1] == {"key": "exception.message", "value": {"stringValue": "m"}}
    assert int(first["startTimeUnixNano"]) <= int(first["endTimeUnixNano"])


def test_spans_of_one_session_are_the_same_bytes_and_their_ids_those_of_events() -> None:
    made = [rendered(ToOtlp(), *SESSION)[0] for _ in range(2)]
    assert made[0] == made[1]
    grown, _ = rendered(ToOtlp(), *SESSION, say("more"), respond(text("x")))
    ids = [[one["spanId"] for one in d["resourceSpans"][0]["scopeSpans"][0]["spans"]] for d in (made[0], grown)]
    assert ids[1][: len(ids[0])] == ids[0] and len(set(ids[1])) == len(ids[1])


@pytest.mark.parametrize(
    ("said", "provider"),
    [
        ({"response.model": "claude-sonnet-4-5", "request.model": "best"}, "anthropic"),
        ({"request.model": "gpt-5.1-codex"}, "openai"),
        ({"request.model": "o3"}, "openai"),
        ({"request.model": "gemini-2.5-pro"}, "gcp.gemini"),
        ({"request.model": "us.anthropic.claude-sonnet-4-5-v1:0"}, "aws.bedrock"),
        ({"request.model": "claude-sonnet-4-5", "provider.name": "aws.bedrock"}, "aws.bedrock"),
        ({"request.model": "my-claude-1"}, None),
        ({}, None),
    ],
)
def test_a_chat_span_says_whose_model_it_was(said: Json, provider: str | None) -> None:
    document, lost = rendered(ToOtlp(), respond(text("yes"), **said))
    span = document["resourceSpans"][0]["scopeSpans"][0]["spans"][1]
    values = {one["key"]: one["value"] for one in span["attributes"]}
    assert values.get("gen_ai.provider.name") == (provider and {"stringValue": provider})
    assert lost == ({} if provider else {"provider": 1})


def test_a_call_that_failed_or_never_came_back() -> None:
    document, lost = rendered(ToOtlp(), respond(call("c1"), call("c2")), answer("no", is_error=True))
    spans = document["resourceSpans"][0]["scopeSpans"][0]["spans"]
    assert [one["name"] for one in spans] == ["invoke_agent test", "chat unknown", "execute_tool bash"]
    assert spans[2]["status"] == {"code": 2, "message": "tool_error"} and lost == {"open": 1, "provider": 1}


# --- chat messages ---------------------------------------------------------------------------------


def test_a_session_as_chat_messages() -> None:
    messages, lost = rendered(ToOpenai(), *SESSION)
    assert messages == [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": "I look.", "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "bash", "arguments": '{"a":1}'}}]},
        {"role": "tool", "tool_call_id": "c1", "content": "done"},
        {"role": "assistant", "content": "Bye."},
    ]  # fmt: skip
    assert lost == {"reasoning": 1, "usage": 2}
    out = io.BytesIO()
    ToOpenaiLines().write(Events(*SESSION), Name("s"), out, Losses())  # type: ignore[arg-type]
    assert [json.loads(line) for line in out.getvalue().splitlines()] == messages


@given(drafts)
@settings(max_examples=200, deadline=None)
def test_results_stand_behind_the_message_with_their_call(made: list[Draft]) -> None:
    messages, _ = rendered(ToOpenai(), *made)
    waiting: list[str] = []
    for message in messages:
        if message["role"] == "tool":
            assert message["tool_call_id"] in waiting and isinstance(message["content"], str)
            continue
        waiting = [one["id"] for one in message.get("tool_calls", [])]
        for one in message.get("tool_calls", []):
            assert isinstance(one["function"]["arguments"], str)
        assert message["content"] or message.get("tool_calls") or message["content"] == ""


@pytest.mark.parametrize("rendering", [ToAtif(), ToOtlp(), ToOpenai()], ids=lambda one: one.name)
def test_what_a_program_says_in_the_users_name(rendering: Any) -> None:
    document, lost = rendered(rendering, say("<context>", actor="host", injected=True), say("hi"))
    assert lost == ({} if rendering.name == "atif" else {"injected": 1})
    if rendering.name == "atif":
        assert [step["extra"]["gitjournal"].get("injected") for step in document["steps"]] == [True, None]


def test_pictures_in_chat_messages() -> None:
    shown = {"type": "blob", "modality": "image", "mime_type": "image/png", "content": "AQI="}
    messages, lost = rendered(ToOpenai(), ("message", "user", {"role": "user", "parts": [text("see"), shown]}))
    assert messages[0]["content"] == [
        {"type": "text", "text": "see"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AQI="}},
    ]
    assert not lost


# --- by name, and on the command line --------------------------------------------------------------


def test_a_session_of_the_format_itself_is_given_back_exactly(journal: Journal, tmp_path: Any) -> None:
    path = tmp_path / "t.json"
    path.write_bytes(b'{"schema_version":"ATIF-v1.5",  "session_id": "r", "agent":{}, "steps":[]}')
    import_file(journal, path)
    out = io.BytesIO()
    export(journal, "r", "atif", out)
    assert out.getvalue() == path.read_bytes()
    with journal.session("r") as session:
        session.append("message", say("more")[2], actor="user")
    out, losses = io.BytesIO(), Losses()
    export(journal, "r", "atif", out, losses=losses)
    assert json.loads(out.getvalue())["schema_version"] == "ATIF-v1.7" and losses.as_dict() == {"native": 2}


def test_withheld_and_unreadable_events_are_counted(journal: Journal) -> None:
    with journal.session("s", create=True) as session:
        session.append("message", say("secret")[2], actor="user")
    whole = list(journal.events("s"))
    events = Events()
    events.all = [whole[0], whole[1].withhold()]
    out, losses = io.BytesIO(), Losses()
    ToAtif().write(events, Name("s"), out, losses)  # type: ignore[arg-type]
    assert losses.as_dict() == {"withheld": 1} and b"secret" not in out.getvalue()


@pytest.mark.parametrize("kind", renderings())
def test_losses_are_said_on_standard_error_and_in_json(gj: Gj, place: Any, tmp_path: Any, kind: str) -> None:
    gitjournal.init(place)
    gj("import", DEMO)
    name = gj("sessions", "--json").stdout.split('"session":"')[1].split('"')[0]
    target = tmp_path / "out"
    done = gj("export", name, "--format", kind, "-o", target, "--json")
    told = json.loads(done.stdout)
    assert told["format"] == kind and told["losses"]["native"] == 3 and told["records"] > 5
    assert "records of the source without" in done.stderr
    shown = gj("export", name, "--format", kind)
    assert shown.stdout.encode() == target.read_bytes() and "records of the source without" in shown.stderr
    assert gj("export", name, "--format", kind, "--only", "2", ok=False).exit_code == 2


def test_what_json_cannot_hold_is_named() -> None:
    losses = Losses()
    deep: Any = 1
    for _ in range(100):
        deep = [deep]
    assert losses.plain({"a": "x\ud83dy", "b": b"\x01", "c": float("nan"), "d": 2**80}) == {
        "a": "x\ufffdy", "b": "AQ==", "c": "nan", "d": 2**80,
    }  # fmt: skip
    assert json.dumps(losses.plain(deep)).count("[") == 60
    assert losses.as_dict() == {"text": 1, "numbers": 2, "depth": 1}
    assert losses.lines()[0] == "texts with characters that are not Unicode, shown as U+FFFD: 1"
