"""State as a fold (docs/events.md)."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from spoken import answer, call, chain, response, said, texts

from gitjournal import canonical, rules
from gitjournal.errors import FormatError, StorageError, UsageError
from gitjournal.event import Event
from gitjournal.state import TYPES, USAGE, SessionState, StateBuilder, entry_of, fold
from gitjournal.vocabulary import OUTCOMES

EVENTS_MD = Path(__file__).resolve().parents[1] / "docs" / "events.md"
INPUT, OUTPUT, CACHED = USAGE[0], USAGE[1], USAGE[2]


def as_json(state: SessionState) -> bytes:
    return canonical.dumps(state.as_dict())


class Given:
    """Says what an event's data is, whatever its stored form says, or raises it."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def data(self, _event: Event) -> Any:
        if isinstance(self.value, Exception):
            raise self.value
        return self.value

    def file(self, _event: Event, _number: int) -> bytes:
        raise AssertionError("no fold reads side files")


def foreign(event: Event, value: Any) -> Event:
    """An event whose resolved data is not what its stored form can hold, as after the tags of an import."""
    return Event(event.raw, Given(value))


# --- properties over random sessions -------------------------------------------------------------

names = st.sampled_from(["a", "b", "c", "", None])
small = st.integers(0, 9)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 2**53 - 1) | st.floats(0, 1e6) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=6,
)
parts = st.lists(
    st.fixed_dictionaries({"type": st.just("text"), "content": st.text(max_size=5)})
    | st.fixed_dictionaries({"type": st.just("tool_call"), "id": names, "name": st.just("t")})
    | st.fixed_dictionaries({"type": st.just("tool_call_response"), "id": names, "response": json_values}),
    max_size=3,
)
usage = st.dictionaries(st.sampled_from(USAGE), small)
origin = st.just({"session": "s1", "branch": "main", "seq": 1, "hash": "0" * 64})
well_formed: dict[str, st.SearchStrategy[Any]] = {
    "message": st.fixed_dictionaries({"role": st.sampled_from(["user", "system"]), "parts": parts}),
    "model.response": st.fixed_dictionaries({}, optional={"parts": parts, "response.id": names, "usage": usage}),
    "tool.call": st.fixed_dictionaries(
        {"id": st.sampled_from("abc"), "name": st.sampled_from("tu")},
        optional={"requires": st.sampled_from(["confirmation", "result"])},
    ),
    "tool.result": st.fixed_dictionaries(
        {"id": st.sampled_from("abc")},
        optional={"response": json_values, "code": st.sampled_from(["interrupted", "denied", "error"])},
    )
    | st.fixed_dictionaries({"parts": parts}),
    "error": st.fixed_dictionaries({"message": st.text(max_size=5)}),
    "context.compaction": st.fixed_dictionaries(
        {},
        optional={
            "summary": st.text(max_size=5) | parts,
            "from_seq": small,
            "to_seq": small,
            "keep_last": small,
        },
    ),
    "session.branch": st.fixed_dictionaries({"branch": st.text(max_size=3), "from": origin}),
    "session.fork": st.fixed_dictionaries({"from": origin}),
    "session.update": st.fixed_dictionaries(
        {},
        optional={
            "title": st.sampled_from(["", "a title", "ü" * 200]),
            "summary": st.text(max_size=5),
            "archived": st.booleans(),
            "add_labels": st.lists(st.sampled_from("abc")),
            "remove_labels": st.lists(st.sampled_from("abc")),
        },
    ),
    "session.terminate": st.fixed_dictionaries({}, optional={"reason": st.text(max_size=5)}),
    "session.checkpoint": st.dictionaries(st.sampled_from("abc"), json_values),
    "session.resource": st.fixed_dictionaries(
        {"id": st.sampled_from("abc"), "action": st.sampled_from(["attach", "detach"])}, optional={"uri": st.text()}
    ),
    "session.wake": st.fixed_dictionaries(
        {"due": st.just("2026-12-01T08:00:00.000Z"), "reason": st.just("r")},
        optional={"key": st.sampled_from("ab"), "priority": st.sampled_from(["low", "normal", "high"])},
    ),
    "session.wake_done": st.fixed_dictionaries({"seqs": st.lists(small)}),
    "session.interrupt": st.just({}),
    "session.seal": st.just({}),
    "session.erasure": st.just({}),
    "native": st.dictionaries(st.sampled_from("abc"), json_values),
    "x.other": st.dictionaries(st.sampled_from("abc"), json_values),
}
#: What cannot be said in good form without what came before.
in_place: dict[str, st.SearchStrategy[Any]] = {
    "tool.confirmation": st.fixed_dictionaries({"id": st.sampled_from("abc"), "approved": st.booleans()}),
    "turn.start": st.just({}),
    "turn.end": st.fixed_dictionaries({"outcome": st.sampled_from(OUTCOMES)}),
}
MEMBERS = ["trust", "source", "role", "parts", "usage", "response.id", "id", "name", "response", "is_error"]
MEMBERS += ["message", "where", "error.type", "summary", "from_seq", "to_seq", "keep_last", "branch", "from"]
bad_parts = st.lists(
    json_values
    | st.fixed_dictionaries(
        {"type": st.sampled_from(["tool_call", "tool_call_response"])},
        optional={"id": json_values, "name": json_values},
    ),
    max_size=3,
)
MEMBERS += [
    "project",
    "parent",
    "labels",
    "title",
    "archived",
    "add_labels",
    "remove_labels",
    "reason",
    "action",
    "uri",
]
MEMBERS += ["outcome", "requires", "approved", "code", "due", "key", "note", "priority", "seqs"]
misshapen = st.dictionaries(
    st.sampled_from(MEMBERS),
    json_values | bad_parts | st.dictionaries(st.sampled_from(USAGE), json_values),
    max_size=6,
)
good_specs = st.one_of([st.tuples(st.just(kind), data) for kind, data in well_formed.items()])
# The payload of a branch, a fork or a seal cannot be withheld.
placed_specs = st.one_of(
    [
        st.tuples(st.just(kind), data, st.just("host"), st.sampled_from(["t1", "t2", None]))
        for kind, data in in_place.items()
    ]
)
any_specs = st.tuples(st.sampled_from(sorted({*well_formed, *in_place})), st.none() | misshapen).filter(
    lambda spec: spec[1] is not None or spec[0] not in rules.STRUCTURE
)
sessions = st.lists(good_specs | placed_specs | any_specs, max_size=40).map(lambda specs: chain(*specs))


@settings(max_examples=150, deadline=None)
@given(sessions, st.randoms(use_true_random=False))
def test_fold_to_n_is_the_fold_of_the_first_n(events: list[Event], rng: random.Random) -> None:
    for n in [rng.randint(0, len(events)) for _ in range(20)]:
        assert fold(events, to=n) == fold(events[:n])
        assert fold(events, to=n).last_seq == n


@settings(max_examples=150, deadline=None)
@given(sessions)
def test_replay_gives_the_same_bytes_twice_and_from_stored_bytes(events: list[Event]) -> None:
    first = as_json(fold(events))
    assert as_json(fold(events)) == first
    assert as_json(fold(Event.parse(event.raw) for event in events)) == first


@settings(max_examples=100, deadline=None)
@given(sessions)
def test_builder_gives_each_state_on_the_way(events: list[Event]) -> None:
    builder, states = StateBuilder(), []
    for event in events:
        builder.push(event)
        states.append(builder.state())
    frozen = [as_json(fold(events, to=n)) for n in range(1, len(events) + 1)]
    assert [as_json(state) for state in states] == frozen, "a later push changed an earlier state"
    lengths = [len(state.history) for state in states]
    assert lengths == sorted(lengths), "history may only grow"


@settings(max_examples=150, deadline=None)
@given(sessions)
def test_counters_are_the_same_without_history(events: list[Event]) -> None:
    def counters(state: SessionState) -> dict[str, Any]:
        plain = state.as_dict() | {"history": [], "context": []}
        plain["errors"] = [error | {"message": None, "where": None} for error in plain["errors"]]
        plain["compactions"] = [note | {"kept": None, "summary": None} for note in plain["compactions"]]
        return plain

    lean = fold(events, history=False)
    assert lean.history == lean.context == []
    assert lean.as_dict() == counters(fold(events))


@settings(max_examples=150, deadline=None)
@given(sessions, st.data())
def test_frozen_and_thawed_anywhere_the_fold_goes_on_as_if_nothing_was(
    events: list[Event], data: st.DataObject
) -> None:
    cut = data.draw(st.integers(0, len(events)))
    builder = StateBuilder(history=False)
    for event in events[:cut]:
        builder.push(event)
    frozen = json.dumps(builder.freeze())
    thawed = StateBuilder.thaw(json.loads(frozen))
    assert thawed.state() == builder.state()
    for event in events[cut:]:
        thawed.push(event)
    assert thawed.state() == fold(events, history=False)


@pytest.mark.parametrize(
    "value",
    [
        b"\xff",
        "\ud800",
        2**70,
        float("inf"),
        -0.0,
        {"$gj:b64": "x"},
        {"\ud800": 1},
        [{"a": (1, b"x")}],
        {"$gj:json": 1},
    ],
)
def test_foreign_values_survive_the_frost(value: Any) -> None:
    builder = StateBuilder(history=False)
    builder.push(foreign(chain()[0], {"x": value}))
    thawed = StateBuilder.thaw(json.loads(json.dumps(builder.freeze())))
    assert repr(thawed.state().start["x"]) == repr([{"a": [1, b"x"]}] if isinstance(value, list) else value)


def test_a_fold_with_history_cannot_be_frozen() -> None:
    with pytest.raises(UsageError, match="history"):
        StateBuilder().freeze()


@settings(max_examples=150, deadline=None)
@given(sessions)
def test_without_parts_all_is_the_same_but_what_entries_say_and_that_is_in_their_events(events: list[Event]) -> None:
    whole, lean = fold(events), fold(events, parts=False)

    def silent(state: SessionState) -> dict[str, Any]:
        bare = [[entry | {"parts": []} for entry in entries] for entries in (state.history, state.context)]
        return state.as_dict() | dict(zip(("history", "context"), bare, strict=True))

    assert silent(lean) == silent(whole)
    assert [entry_of(events[entry["seq"] - 1]) for entry in lean.context] == whole.context


@settings(max_examples=200, deadline=None)
@given(
    st.lists(any_specs | st.tuples(st.sampled_from(sorted(well_formed)), json_values), max_size=15),
    json_values,
)
def test_data_of_any_shape_never_raises(specs: list[tuple[str, Any]], start: Any) -> None:
    shapes = [start, *(data for _, data in specs)]
    stored = chain(*((kind, {}) for kind, _ in specs))
    events = [foreign(event, data) for event, data in zip(stored, shapes, strict=True)]
    state = fold(events)
    assert state.last_seq == len(events)
    assert as_json(state) == as_json(fold(events))
    seqs = [note["seq"] for note in state.odd]
    assert seqs == sorted(set(seqs)), "one note an event"


@settings(max_examples=100, deadline=None)
@given(st.lists(good_specs, max_size=30))
def test_well_formed_data_is_never_odd(specs: list[tuple[str, Any]]) -> None:
    # The id of an open call under another name is odd; parts call every tool "t".
    specs = [(kind, data | {"name": "t"}) if kind == "tool.call" else (kind, data) for kind, data in specs]
    assert fold(chain(*specs)).odd == []


# --- the page and the code -----------------------------------------------------------------------


def documented_sessions() -> Iterator[list[Event]]:
    for block in re.findall(r"```jsonl\n(.*?)```", EVENTS_MD.read_text(), re.DOTALL):
        first, *rest = [json.loads(line) for line in block.splitlines()]
        yield chain(*((e["type"], e["data"], e["actor"], e.get("turn")) for e in rest), start=first["data"])


def test_page_lists_exactly_the_types_of_the_code() -> None:
    rows = re.findall(r"^\| `([a-z._]+)` \| .*\|.*\|.*\|.*\|$", EVENTS_MD.read_text(), re.MULTILINE)
    assert set(rows) == TYPES


def test_examples_of_the_page_use_every_type_and_are_well_formed() -> None:
    live, imported = documented_sessions()
    assert {event.type for event in live} == TYPES
    assert fold(live).odd == fold(imported).odd == []


def test_live_example() -> None:
    live, _ = documented_sessions()
    state = fold(live)
    assert (state.session, state.branch, state.last_seq, state.last_hash) == ("s2", "main", 24, live[-1].hash)
    assert (state.trust, state.source, state.native) == ("host", "console", 1)
    assert [e["kind"] for e in state.history] == [
        "message", "model.response", "tool.call", "tool.result", "model.response"]  # fmt: skip
    assert texts(state.context) == ["notes.txt has 12 lines.", "Twelve."]
    assert state.usage == dict(zip(USAGE, (2460, 45, 1000, 0, 12), strict=True))
    assert state.turns == {"user": 1, "model": 2}
    assert (state.tool_calls, state.tool_results, state.open_calls, state.unmatched_results) == (1, 1, [], 0)
    error = {"type": "timeout", "message": "no answer within 60 s", "where": "model"}
    assert state.errors == [{"seq": 14, "actor": "host"} | error]
    assert fold(live, to=19).branch == "try-b"


def test_imported_example() -> None:
    _, imported = documented_sessions()
    state = fold(imported)
    assert (state.usage[INPUT], state.usage[OUTPUT]) == (900, 61)
    assert (state.turns["model"], state.tool_calls, state.tool_results, state.open_calls) == (1, 2, 2, [])


# --- reading -------------------------------------------------------------------------------------


def test_nothing_is_read_beyond_to() -> None:
    def endless() -> Iterator[Event]:
        yield from chain(said("a"), said("b"))
        raise AssertionError("read too far")

    assert fold(endless(), to=3).last_seq == 3


def test_no_events_and_to_zero_give_the_empty_state() -> None:
    assert fold([]) == fold(chain(said("a")), to=0) == SessionState()


def test_to_zero_reads_nothing() -> None:
    def untouched() -> Iterator[Event]:
        raise AssertionError("read")
        yield

    assert fold(untouched(), to=0).last_seq == 0


def test_negative_to_is_refused() -> None:
    with pytest.raises(UsageError, match="-1"):
        fold([], to=-1)


@pytest.mark.parametrize("order", [(0, 2), (0, 0), (1, 0)])
def test_events_out_of_order_are_refused(order: tuple[int, int]) -> None:
    events = chain(said("a"), said("b"))
    with pytest.raises(FormatError) as caught:
        fold(events[i] for i in order)
    assert caught.value.code == "bad-seq"


def test_timestamps_order_nothing() -> None:
    back = [f"2026-11-29T12:00:0{9 - i}.000Z" for i in range(4)]
    specs = said("a"), response("b", key="r"), said("c")
    state, plain = fold(chain(*specs, ts=back)), fold(chain(*specs))
    assert (state.started, state.updated) == (back[0], back[3])
    assert state.history == plain.history
    assert texts(state.history) == ["a", "b", "c"]


def test_data_that_cannot_be_resolved_is_read_as_stored() -> None:
    start, event = chain(said("a"))
    state = fold([start, foreign(event, FormatError("bad-file", "gone"))])
    assert texts(state.history) == ["a"]
    assert state.odd == [{"seq": 2, "type": "message", "faults": ["files"]}]


def test_errors_of_the_store_are_not_swallowed() -> None:
    with pytest.raises(StorageError):
        fold([foreign(chain()[0], StorageError("disk"))])


# --- compaction ----------------------------------------------------------------------------------

FOUR = (said("a"), said("b"), said("c"), said("d"))  # seq 2 to 5


@pytest.mark.parametrize(
    ("keep", "left"),
    [(0, ""), (1, "d"), (2, "cd"), (3, "bcd"), (4, "abcd"), (5, "abcd"), (99, "abcd"), (None, "")],
)
def test_compaction_keeps_the_last_k(keep: int | None, left: str) -> None:
    data = {"summary": "S"} | ({} if keep is None else {"keep_last": keep})
    state = fold(chain(*FOUR, ("context.compaction", data)))
    assert texts(state.context) == ["S", *left]
    assert texts(state.history) == [*"abcd"]
    assert state.compactions == [
        {"seq": 6, "from_seq": 1, "to_seq": 5, "keep_last": keep or 0, "kept": len(left),
         "summary": [{"type": "text", "content": "S"}]}]  # fmt: skip


@pytest.mark.parametrize(
    ("data", "left"),
    [
        ({"from_seq": 3, "to_seq": 4}, "aSd"),
        ({"from_seq": 3}, "aS"),
        ({"to_seq": 3}, "Scd"),
        ({"from_seq": 3, "to_seq": 5, "keep_last": 2}, "aScd"),
        ({"from_seq": 3, "to_seq": 5, "keep_last": 4}, "aSbcd"),
        ({"from_seq": 5, "to_seq": 3}, "abcSd"),
        ({"from_seq": 50, "to_seq": 60}, "abcdS"),
        ({"from_seq": 0, "to_seq": 99}, "S"),
    ],
)
def test_compaction_of_a_range(data: dict[str, int], left: str) -> None:
    state = fold(chain(*FOUR, ("context.compaction", data | {"summary": "S"})))
    assert texts(state.context) == [*left]
    assert texts(state.history) == [*"abcd"]


def test_second_compaction_takes_the_first_summary_and_keeps_the_last() -> None:
    compaction = ("context.compaction", {"summary": "S", "keep_last": 1})
    again = ("context.compaction", {"summary": "T", "keep_last": 2})
    state = fold(chain(*FOUR, compaction, said("e"), again))
    assert texts(state.context) == ["T", "d", "e"]
    assert state.context[0] == {
        "seq": 8, "actor": "host", "role": "system", "kind": "context.compaction",
        "parts": [{"type": "text", "content": "T"}]}  # fmt: skip


def test_compaction_without_summary_puts_nothing_there() -> None:
    state = fold(chain(*FOUR, ("context.compaction", {"keep_last": 1}), said("summary follows")))
    assert [entry["seq"] for entry in state.context] == [5, 7]
    assert state.odd == []


@pytest.mark.parametrize("bad", [-1, 1.5, "2", True, [], {}])
@pytest.mark.parametrize("name", ["from_seq", "to_seq", "keep_last"])
def test_compaction_that_cannot_be_read_removes_nothing(name: str, bad: Any) -> None:
    state = fold(chain(*FOUR, ("context.compaction", {"summary": "S", name: bad})))
    assert texts(state.context) == [*"abcd"]
    assert state.compactions == []
    assert state.odd == [{"seq": 6, "type": "context.compaction", "faults": [name]}]


def test_tool_parts_in_a_summary_are_not_calls() -> None:
    summary = [{"type": "tool_call", "id": "c", "name": "t"}]
    state = fold(chain(("context.compaction", {"summary": summary})))
    assert (state.tool_calls, state.open_calls) == (0, [])


# --- usage and turns -----------------------------------------------------------------------------


def test_usage_counts_once_per_response_with_the_maximum_of_each_counter() -> None:
    state = fold(
        chain(
            response("x", key="r1", usage={INPUT: 100, OUTPUT: 1, CACHED: 80}),
            response("y", key="r2", usage={INPUT: 10, OUTPUT: 2}),
            response("x", key="r1", usage={INPUT: 100, OUTPUT: 7}),
            response("x", key="r1", usage={INPUT: 90, OUTPUT: 3}),
        )
    )
    assert state.usage == dict(zip(USAGE, (110, 9, 80, 0, 0), strict=True))
    assert state.turns["model"] == 2


def test_usage_without_response_id_counts_each_time() -> None:
    one = response("x", usage={INPUT: 5})
    state = fold(chain(one, one, response("x", key="", usage={INPUT: 5})))
    assert (state.usage[INPUT], state.turns["model"]) == (15, 3)


def test_counters_alone_are_no_turn() -> None:
    state = fold(chain(response(usage={INPUT: 5}), response("x", key="r")))
    assert (state.usage[INPUT], state.turns["model"], len(state.history)) == (5, 1, 1)


@pytest.mark.parametrize("bad", [-1, 0.5, "7", True, None, [], 2**60])
def test_bad_counter_spoils_only_itself(bad: Any) -> None:
    event = chain(("model.response", {}))[1]
    usage = {INPUT: bad, OUTPUT: 3}
    state = fold([*chain(), foreign(event, {"response.id": "r", "usage": usage})])
    good = bad == 2**60 and type(bad) is int
    assert state.usage[INPUT] == (2**60 if good else 0)
    assert state.usage[OUTPUT] == 3
    assert bool(state.odd) == (not good and bad is not None)


def test_user_turns_are_messages_of_the_role_user() -> None:
    assert fold(chain(said("a"), said("b", "system"), said("c"))).turns == {"user": 2, "model": 0}


def test_a_message_that_continues_the_one_before_is_no_turn_of_its_own() -> None:
    more = ("message", {**said("file")[1], "continues": True})
    state = fold(chain(said("a"), more, said("b")))
    assert (state.turns["user"], texts(state.history)) == (2, ["a", "file", "b"])


# --- tool calls ----------------------------------------------------------------------------------


def test_open_calls_are_those_without_a_result() -> None:
    state = fold(chain(call("a"), call("b", "web"), answer("a"), answer("zzz")))
    assert state.open_calls == [{"id": "b", "name": "web", "seq": 3, "requires": None, "approved": None}]
    assert (state.tool_calls, state.tool_results, state.unmatched_results) == (2, 2, 1)


def test_call_said_in_the_response_and_again_when_it_runs_is_one() -> None:
    part = {"type": "tool_call", "id": "a", "name": "shell", "arguments": {}}
    state = fold(chain(("model.response", {"parts": [part]}), call("a"), answer("a")))
    assert (state.tool_calls, state.open_calls) == (1, [])
    assert [entry["kind"] for entry in state.history] == ["model.response", "tool.result"]


def test_id_used_again_after_its_result_is_a_new_call() -> None:
    state = fold(chain(call("call_0"), answer("call_0"), call("call_0")))
    assert (state.tool_calls, [c["seq"] for c in state.open_calls]) == (2, [4])


def test_a_late_result_stands_behind_the_calls_of_the_same_breath_and_their_results() -> None:
    late = answer("a", code="interrupted", is_error=True)
    state = fold(chain(said("go"), call("a"), call("b"), answer("b"), said("well?"), late))
    told = [(one["kind"], one["parts"][0].get("id")) for one in state.context]
    assert told[1:5] == [("tool.call", "a"), ("tool.call", "b"), ("tool.result", "b"), ("tool.result", "a")]
    assert len(told) == 6


def test_call_and_result_in_one_record() -> None:
    parts = [
        {"type": "tool_call", "id": "a", "name": "t"},
        {"type": "tool_call_response", "id": "a", "response": 1},
    ]
    state = fold(chain(("model.response", {"parts": parts})))
    assert (state.tool_calls, state.tool_results, state.open_calls, state.unmatched_results) == (1, 1, [], 0)


def test_parts_may_have_no_id_and_events_must() -> None:
    parts = [{"type": "tool_call", "id": None, "name": "t"}, {"type": "tool_call_response", "response": 1}]
    quiet = fold(chain(("model.response", {"parts": parts})))
    assert (quiet.tool_calls, quiet.tool_results, quiet.unmatched_results, quiet.odd) == (1, 1, 0, [])
    loud = fold(chain(("tool.call", {"name": "t"}), ("tool.result", {})))
    assert [note["faults"] for note in loud.odd] == [["id"], ["id"]]


def test_live_result_keeps_its_error_flag() -> None:
    state = fold(chain(call("a"), ("tool.result", {"id": "a", "response": "no", "is_error": True}, "tool:shell")))
    assert state.history[-1] == {
        "seq": 3, "actor": "tool:shell", "role": "tool", "kind": "tool.result",
        "parts": [{"type": "tool_call_response", "id": "a", "response": "no", "is_error": True}]}  # fmt: skip


# --- branches, trust, what is not there ----------------------------------------------------------

FROM = {"branch": "main", "seq": 2, "hash": "0" * 64}


def test_branch_and_fork_inherit_trust_and_cannot_change_it() -> None:
    start = {"trust": "sandbox", "source": "http", "note": 1}
    branch = ("session.branch", {"branch": "b", "from": FROM, "trust": "host", "source": "console"})
    fork = ("session.fork", {"from": FROM | {"session": "s1"}, "trust": "host"})
    state = fold(chain(said("a"), branch, fork, ("message", said("b")[1] | {"trust": "host"}), start=start))
    assert (state.trust, state.source, state.start) == ("sandbox", "http", start)


def test_branch_points() -> None:
    fork = ("session.fork", {"from": FROM | {"session": "s1", "branch": "b"}})
    events = chain(said("a"), ("session.branch", {"branch": "b", "from": FROM}), fork, said("c"))
    on_branch, forked = fold(events, to=3), fold(events)
    assert (on_branch.session, on_branch.branch, on_branch.forked_from) == ("s1", "b", None)
    assert (forked.session, forked.branch, forked.forked_from) == ("s2", "main", fork[1]["from"])
    assert forked.branch_points == [
        {"seq": 3, "session": "s1", "branch": "b", "from": FROM},
        {"seq": 4, "session": "s2", "branch": "main", "from": fork[1]["from"]},
    ]


def test_unknown_types_are_counted_and_change_nothing_else() -> None:
    known = fold(chain(said("a")))
    state = fold(chain(said("a"), ("x.y", {"role": "user", "parts": []}), ("x.y", {}), ("z", {})))
    assert state.unknown == {"x.y": 2, "z": 1}
    rest = {"unknown": {}, "last_seq": known.last_seq, "last_hash": known.last_hash}
    assert state.as_dict() | rest == known.as_dict()


def test_withheld_events_are_counted_and_change_nothing_else() -> None:
    withheld = (
        ("message", None),
        ("model.response", None),
        ("tool.call", None),
        ("x.y", None),
        ("native", None),
    )
    state = fold(chain(said("a"), *withheld))
    assert (state.withheld, state.unknown, state.native) == (5, {"x.y": 1}, 1)
    assert (texts(state.history), state.turns, state.tool_calls) == (["a"], {"user": 1, "model": 0}, 0)
    assert state.odd == []


# --- misshapen data ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "faults"),
    [
        (("message", {}), ["parts", "role"]),
        (("message", {"role": 1, "parts": {}}), ["parts", "role"]),
        (("message", {"role": "user", "parts": [1, {"content": "x"}, {"type": 2}]}), ["parts"]),
        (("model.response", {"parts": 7, "usage": [], "response.id": 5}), ["parts", "response.id", "usage"]),
        (("tool.call", {"id": [], "name": None}), ["id", "name"]),
        (("tool.result", {"parts": None}), ["parts"]),
        (("error", {"message": {}, "error.type": 1, "where": 2}), ["error.type", "message", "where"]),
        (("session.branch", {"branch": 1, "from": "x"}), ["branch", "from"]),
        (("session.fork", {}), ["from"]),
        (("context.compaction", {"summary": 5}), ["summary"]),
    ],
)
def test_faults_are_named_with_their_seq(spec: tuple[str, Any], faults: list[str]) -> None:
    assert fold(chain(spec)).odd == [{"seq": 2, "type": spec[0], "faults": faults}]


def test_faults_of_one_event_are_not_those_of_the_next() -> None:
    state = fold(chain(("message", {}), said("a"), ("error", {})))
    assert [(note["seq"], note["faults"]) for note in state.odd] == [(2, ["parts", "role"]), (4, ["message"])]


def test_values_just_built_count_like_values_read_back() -> None:
    part = {"type": "text", "content": "x"}
    data = {"parts": (part,), "usage": {INPUT: 7.0}}
    events = chain(("model.response", data), ("context.compaction", {"keep_last": 1.0}))
    built, read = fold(events), fold(Event.parse(event.raw) for event in events)
    assert built.odd == read.odd == []
    assert (built.usage, built.history) == (read.usage, read.history)


def test_string_in_the_place_of_parts_is_kept_as_text() -> None:
    state = fold(chain(("message", {"role": "user", "parts": "hello"})))
    assert texts(state.history) == ["hello"]
    assert state.odd == [{"seq": 2, "type": "message", "faults": ["parts"]}]


def test_good_parts_beside_bad_ones_are_kept() -> None:
    data = {"role": "user", "parts": [None, {"type": "text", "content": "x"}, "y"]}
    assert texts(fold(chain(("message", data))).history) == ["x"]


def test_start_of_the_wrong_shape() -> None:
    state = fold(chain(start={"trust": 5, "source": []}))
    assert (state.trust, state.source) == ("sandbox", None)
    assert state.odd == [{"seq": 1, "type": "session.start", "faults": ["source", "trust"]}]


# --- as_dict -------------------------------------------------------------------------------------


def foreign_start(value: Any) -> Any:
    state = fold([foreign(chain()[0], {"x": value})])
    as_json(state)
    return state.as_dict()["start"]["x"]


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        ("\ud800", {"$gj:json": '"\\ud800"'}),
        (2**53, {"$gj:json": "9007199254740992"}),
        (Decimal("1" + "0" * 5000), {"$gj:json": "1" + "0" * 5000}),
        (float("inf"), {"$gj:json": "Infinity"}),
        (float("nan"), {"$gj:json": "NaN"}),
        (-0.0, {"$gj:json": "-0.0"}),
        (0.5, 0.5),
        (True, True),
        (b"\xff", {"base64": "/w=="}),
        (("a", b"a"), ["a", {"base64": "YQ=="}]),
    ],
)
def test_as_dict_holds_what_canonical_json_can(value: Any, plain: Any) -> None:
    assert foreign_start(value) == plain


@pytest.mark.parametrize("depth", [30, 60, 62, 64, 100, 5000])
@pytest.mark.parametrize("leaf", ["x", "\ud800", b"x"])
def test_as_dict_of_deep_data(depth: int, leaf: Any) -> None:
    if leaf == b"x" and depth > 64:
        return  # stored data cannot hold a tag so deep
    value: Any = leaf
    for _ in range(depth):
        value = {"a": value}
    foreign_start(value)


def test_as_dict_is_a_copy() -> None:
    state = fold(chain(said("a")))
    state.as_dict()["history"][0]["parts"].clear()
    assert texts(state.history) == ["a"]


def test_event_nested_as_deep_as_the_format_allows() -> None:
    content: Any = "x"
    for _ in range(60):  # data, parts and the part are levels 2 to 4
        content = [content]
    state = fold(chain(("message", {"role": "user", "parts": [{"type": "text", "content": content}]})))
    assert b"$gj:json" in as_json(state)


def test_talk_of_a_sub_agent_is_history_but_not_context() -> None:
    aside = {"role": "user", "parts": [{"type": "text", "content": "to the sub-agent"}], "sidechain": True}
    usage = {"gen_ai.usage.input_tokens": 5, "gen_ai.usage.output_tokens": 2}
    answer = {"parts": [{"type": "text", "content": "done"}], "usage": usage, "sidechain": True}
    state = fold(chain(said("a"), ("message", aside), ("model.response", answer), said("b")))
    assert texts(state.history) == ["a", "to the sub-agent", "done", "b"]
    assert texts(state.context) == ["a", "b"]
    assert state.turns["user"] == 2
    assert state.usage["gen_ai.usage.input_tokens"] == 5
    # Nor does it say who spoke last.
    assert fold(chain(said("a"), ("model.response", answer))).answered is False
