"""ATIF: each row of the mapping, sub-agents in one document, and what terminal agents leave out."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from imported import JUNK, NOWHERE, Json, changed, documents, folded, golden, mapped, places, stored, told_of
from support import CORPUS

from gitjournal import Journal, fold
from gitjournal.formats import detect, export, import_file
from gitjournal.formats.atif import Atif
from gitjournal.formats.protocol import About, Item, Source
from gitjournal.formats.report import ImportReport

ATIF = Atif()
REDACTED = CORPUS / "atif" / "Sinity-polylogue__nemo_relay_atif_v1.7_real_redacted.json"
CALL = {"tool_call_id": "c1", "function_name": "bash", "arguments": {"command": "ls"}}
STEPS: list[Json] = [
    {"step_id": 1, "timestamp": "2026-01-02T03:04:05Z", "source": "system", "message": "Be brief."},
    {"step_id": 2, "timestamp": "2026-01-02T03:04:06Z", "source": "user", "message": "What is here?"},
    {
        "step_id": 3, "source": "agent", "model_name": "m-2", "message": "I look.", "reasoning_content": "Use ls.",
        "tool_calls": [CALL], "observation": {"results": [{"source_call_id": "c1", "content": "a b"}]},
        "metrics": {"prompt_tokens": 100, "completion_tokens": 20, "cached_tokens": 80, "cost_usd": 0.1,
                    "prompt_token_ids": [1, 2], "extra": {"reasoning_tokens": 5}},
    },
    {"step_id": 4, "source": "agent", "message": "Two files.", "llm_call_count": 1},
]  # fmt: skip
AGENT = {"name": "helper", "version": "2.1", "model_name": "m-1", "tool_definitions": [{"type": "function"}]}


def trajectory(*steps: Json, **more: Any) -> Json:
    return {"schema_version": "ATIF-v1.7", "session_id": "run-1", "agent": AGENT, "steps": list(steps), **more}


def raw(value: Any, indent: int | None = None) -> bytes:
    return json.dumps(value, indent=indent).encode()


def of(*steps: Json) -> list[Item]:
    """The events of steps, without those of the document around them."""
    items, _ = mapped(ATIF, raw(trajectory(*steps)))
    return items[1:-1]


def one(**step: Any) -> tuple[str, Json, str]:
    (item,) = of({"step_id": 1, "message": "", **step})
    return item.type, {name: value for name, value in item.data.items() if name != "native"}, item.actor


def test_a_trajectory_step_by_step() -> None:
    items, report = mapped(ATIF, raw(trajectory(*STEPS, final_metrics={"total_prompt_tokens": 100})))
    assert [item.type for item in items] == [
        "native",
        "message",
        "message",
        "model.response",
        "model.response",
        "native",
    ]
    assert [item.actor for item in items[1:4]] == ["host", "user", "assistant"]
    assert items[2].ts == "2026-01-02T03:04:06.000Z" and not report.odd
    assert items[3].data == {
        "parts": [
            {"type": "reasoning", "content": "Use ls."}, {"type": "text", "content": "I look."},
            {"type": "tool_call", "id": "c1", "name": "bash", "arguments": {"command": "ls"}},
            {"type": "tool_call_response", "id": "c1", "response": "a b"},
        ],
        "response.model": "m-2",
        "usage": {"gen_ai.usage.input_tokens": 100, "gen_ai.usage.output_tokens": 20,
                  "gen_ai.usage.cache_read.input_tokens": 80, "gen_ai.usage.reasoning.output_tokens": 5},
        "native_usage": {"prompt_tokens": 100, "completion_tokens": 20, "cached_tokens": 80, "cost_usd": 0.1,
                         "extra": {"reasoning_tokens": 5}},
        "native": {"type": "agent", "id": 3},
    }  # fmt: skip
    assert items[4].data["response.model"] == "m-1"
    state = folded(items)
    assert state.turns == {"user": 1, "model": 2} and state.tool_calls == 1 and not state.open_calls


def test_who_the_session_is_and_who_the_agent() -> None:
    def about(**more: Any) -> Any:
        return ATIF.about(ATIF.cut(io.BytesIO(raw(trajectory(**more)))), NOWHERE)

    assert about() == About(
        "run-1", {"agent.name": "helper", "agent.version": "2.1", "tool.definitions": [{"type": "function"}]}
    )
    assert about(trajectory_id="t-9").session == "t-9"
    assert about(session_id=None, agent=None) == About()


@pytest.mark.parametrize("version", [f"1.{n}" for n in range(9)])
def test_each_version_is_recognised(version: str, tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    path.write_bytes(raw({"agent": {}, "schema_version": f"ATIF-v{version}", "steps": [{"message": "x" * 300_000}]}, 2))
    found = detect(Source(path))
    assert found is not None and found.name == "atif"


@pytest.mark.parametrize(
    "text", [b"", b"[]", b'{"schema_version": "1.7"}', b'{"a": "\\"schema_version\\": \\"ATIF-v1.7"}']
)
def test_nothing_else_is_claimed(text: bytes, tmp_path: Path) -> None:
    (tmp_path / "t.json").write_bytes(text)
    assert not ATIF.sniff(Source(tmp_path / "t.json").head())


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        ({"source": "agent", "llm_call_count": 0, "tool_calls": [CALL]},
         ("message", {"role": "assistant", "parts": [
             {"type": "tool_call", "id": "c1", "name": "bash", "arguments": {"command": "ls"}}]}, "assistant")),
        ({"source": "system", "observation": {"results": [{"content": "began"}]}},
         ("message", {"role": "system", "parts": [
             {"type": "tool_call_response", "id": None, "response": "began"}]}, "host")),
        ({"source": "<redacted>"}, ("native", {"format": "atif", "type": "step", "fields": {
            "step_id": 1, "message": "", "source": "<redacted>"}}, "host")),
        ({"source": "user", "message": [
            {"type": "text", "text": "see"},
            {"type": "image", "source": {"media_type": "image/png", "path": "images/a.png"}},
            {"type": "image", "source": {"media_type": "image/png", "path": "data:image/png;base64,AQI="}},
            {"type": "hologram"}]},
         ("message", {"role": "user", "parts": [
             {"type": "text", "content": "see"},
             {"type": "uri", "modality": "image", "mime_type": "image/png", "uri": "images/a.png"},
             {"type": "blob", "modality": "image", "mime_type": "image/png", "content": "AQI="},
             {"type": "hologram"}]}, "user")),
        ({"source": "agent", "metrics": {"prompt_tokens": 5, "cached_tokens": 9, "completion_tokens": -1}},
         ("model.response", {"parts": [], "response.model": "m-1", "usage": {"gen_ai.usage.input_tokens": 5},
                             "native_usage": {"prompt_tokens": 5, "cached_tokens": 9, "completion_tokens": -1}},
          "assistant")),
    ],
    ids=["no model asked", "event of the system", "unknown source", "pictures", "counters that cannot be"],
)  # fmt: skip
def test_a_step_by_itself(step: Json, expected: tuple[str, Json, str]) -> None:
    assert one(**step) == expected


def test_results_that_name_no_call_answer_the_last_calls() -> None:
    """Terminal agents write one observation for what they typed, and no id (Harbor's Terminus)."""
    calls = [{**CALL, "tool_call_id": f"c{n}"} for n in (1, 2)]
    step = {"source": "agent", "tool_calls": calls}
    kind, data, _ = one(**step, observation={"results": [{"content": "out"}]})
    assert [part["id"] for part in data["parts"]] == ["c1", "c2", "c2"] and kind == "model.response"
    _, data, _ = one(**step, observation={"results": [{"content": "a"}, {"content": "b"}, {"content": "c"}]})
    assert [part["id"] for part in data["parts"][2:]] == [None, "c1", "c2"]
    _, data, _ = one(**step, observation={"results": [{"content": "a", "source_call_id": "c2"}, {"content": "b"}]})
    assert [part["id"] for part in data["parts"][2:]] == ["c2", "c1"]


def test_what_was_copied_from_another_trajectory_is_not_paid_for_again() -> None:
    items = of(
        {"step_id": 1, "source": "agent", "message": "x", "is_copied_context": True, "metrics": {"prompt_tokens": 9}}
    )
    assert "usage" not in items[0].data and items[0].data["native_usage"] == {"prompt_tokens": 9}
    assert items[0].data["native"]["copied"] is True


def test_times_that_are_none_and_steps_of_one_number_are_counted() -> None:
    items, report = mapped(ATIF, raw(trajectory(
        {"step_id": 1, "source": "user", "message": "a", "timestamp": "<redacted>"},
        {"step_id": 1, "source": "user", "message": "b"},
    )))  # fmt: skip
    assert report.odd == {"no_time": 1, "repeated_ids": 1} and items[1].ts is None


SUB = trajectory({"step_id": 1, "source": "user", "message": "sum up"}, trajectory_id="sub-1")
DELEGATED = {"step_id": 1, "source": "agent", "message": "", "tool_calls": [CALL], "observation": {"results": [
    {"source_call_id": "c1", "content": "done", "subagent_trajectory_ref": [{"trajectory_id": "sub-1"}]}]}}  # fmt: skip


def test_an_embedded_sub_agent_is_a_session_of_its_own(journal: Journal, tmp_path: Path) -> None:
    inner = {**SUB, "subagent_trajectories": [{**SUB, "trajectory_id": "deep"}]}
    path = tmp_path / "t.json"
    path.write_bytes(raw(trajectory(DELEGATED, subagent_trajectories=[inner]), 1))
    report = import_file(journal, path)
    assert [report.session, *(other.session for other in report.others)] == ["run-1", "run-1.sub-1", "run-1.sub-1.deep"]
    assert journal.event("run-1", 3).data["child"] == {"session": "run-1.sub-1"}
    assert journal.event("run-1.sub-1", 1).data["parent"] == {"session": "run-1"}
    assert fold(journal.events("run-1.sub-1.deep")).history[0]["parts"] == [{"type": "text", "content": "sum up"}]
    with (tmp_path / "out.json").open("wb") as out:
        export(journal, "run-1", "atif", out)
    assert (tmp_path / "out.json").read_bytes() == path.read_bytes()
    again = import_file(journal, path)
    assert [again.added, *(other.added for other in again.others)] == [0, 0, 0]


def test_a_sub_agent_in_another_file_is_named_as_that_file_names_it() -> None:
    def child(**ref: str) -> Any:
        results = [{"content": "x", "subagent_trajectory_ref": [ref]}]
        return of({"step_id": 1, "source": "system", "message": "", "observation": {"results": results}})[0].data[
            "child"
        ]

    assert child(trajectory_id="t-2", trajectory_path="t2.json") == {"session": "t-2"}
    assert child(session_id="s-2", trajectory_path="../../etc/passwd") == {"session": "s-2"}


@pytest.mark.parametrize("junk", JUNK, ids=repr)
def test_members_of_any_shape(junk: Any) -> None:
    whole = trajectory(*STEPS, DELEGATED, subagent_trajectories=[SUB])
    for path in places(whole):
        mapped(ATIF, raw(changed(whole, path, junk)))


@given(documents(trajectory(*STEPS, DELEGATED, subagent_trajectories=[SUB])))
@settings(max_examples=300, deadline=None)
def test_any_document_is_mapped_and_given_back(content: bytes) -> None:
    mapped(ATIF, content)


@given(documents(trajectory(DELEGATED, subagent_trajectories=[SUB, {**SUB, "trajectory_id": "x"}])))
@settings(max_examples=100, deadline=None)
def test_sub_agents_of_any_shape(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    path = tmp_path_factory.mktemp("any") / "t.json"
    path.write_bytes(content)
    for strand in ATIF.strands(Source(path)):
        stored(list(strand.read(strand.records(), ImportReport("x", "atif"))))


@pytest.mark.skipif(not REDACTED.exists(), reason="the public corpus is not here")
def test_a_redacted_file_is_kept_though_its_sources_are_no_sources() -> None:
    items, report = mapped(ATIF, REDACTED.read_bytes())
    assert [item.type for item in items] == ["native"] * 6 + ["model.response", "native"]
    kinds = [part["type"] for part in items[6].data["parts"]]
    assert kinds == ["tool_call"] * 4 + ["tool_call_response"] * 4 and report.odd["no_time"] == 6
    # The step that has counters does not say that an agent made it.
    assert not any("usage" in item.data for item in items) and b'"prompt_tokens": 8983' in items[3].record.raw


@golden("atif")
def test_a_file_of_the_corpus(path: Path, told: Json) -> None:
    items, _ = mapped(ATIF, path.read_bytes(), Source(path))
    odd_free = [item for item in items if item.type != "native"]
    assert odd_free and told_of(items, folded(items)) == told
