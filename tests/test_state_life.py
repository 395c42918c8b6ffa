"""What a session is and does, as a fold: trust, status, title, turns, confirmations, wakes, late results."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from spoken import Spec, answer, asked, call, chain, response, said, texts, turn

from gitjournal.state import SessionState, Status, fold
from gitjournal.vocabulary import TRUST_LEVELS

DUE = "2026-12-01T08:00:00.000Z"
FROM = {"branch": "main", "seq": 1, "hash": "0" * 64}


def after(*specs: Spec, start: Any = None) -> SessionState:
    return fold(chain(*specs, start=start))


def update(**data: Any) -> Spec:
    return "session.update", data


def wake(key: str | None = None, due: str = DUE, **more: Any) -> Spec:
    return "session.wake", {"due": due, "reason": "go on"} | ({} if key is None else {"key": key}) | more


def interrupt(reason: str = "stop") -> Spec:
    return "session.interrupt", {"reason": reason}


# --- trust ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("start", "trust", "odd"),
    [
        ({}, "sandbox", False),
        ({"source": "console"}, "sandbox", False),
        ({"source": "console", "trust": "host"}, "host", False),
        ({"source": "console", "trust": "sandbox"}, "sandbox", False),
        ({"source": "http", "trust": "sandbox"}, "sandbox", False),
        # A source that nobody knows is trusted least, whatever it says of itself.
        ({"source": "http", "trust": "host"}, "sandbox", True),
        ({"trust": "host"}, "sandbox", True),
        ({"source": "Console", "trust": "host"}, "sandbox", True),
        ({"source": ["console"], "trust": "host"}, "sandbox", True),
        ({"source": "console", "trust": "root"}, "sandbox", True),
        ({"source": "console", "trust": "HOST"}, "sandbox", True),
        ({"source": "console", "trust": ["host"]}, "sandbox", True),
        ({"source": "console", "trust": 1}, "sandbox", True),
    ],
)
def test_trust_is_the_level_that_the_start_names_and_no_wider_than_its_source(
    start: dict[str, Any], trust: str, odd: bool
) -> None:
    state = after(start=start)
    assert state.trust == trust
    assert any("trust" in note["faults"] for note in state.odd) == odd


levels = st.sampled_from([*TRUST_LEVELS, "root", None, 1])
sources = st.sampled_from(["console", "http", "telegram", None])
claims = st.fixed_dictionaries({}, optional={"trust": levels, "source": sources})


@settings(max_examples=150, deadline=None)
@given(claims, st.lists(st.tuples(st.sampled_from(["session.update", "session.branch", "session.fork", "x"]), claims)))
def test_widening_attack_nothing_after_the_first_event_changes_trust(
    start: dict[str, Any], later: list[tuple[str, dict[str, Any]]]
) -> None:
    specs = [
        (kind, data | ({"branch": "b", "from": FROM} if kind in ("session.branch", "session.fork") else {}))
        for kind, data in later
    ]
    first, last = after(start=start), after(*specs, start=start)
    assert (last.trust, last.source, last.project) == (first.trust, first.source, first.project)
    assert last.trust in TRUST_LEVELS
    assert last.trust == "sandbox" or start == {"trust": "host", "source": "console"}


@pytest.mark.parametrize("start", [{"source": "console", "trust": "host"}, {"source": "http"}])
def test_second_start_changes_nothing(start: dict[str, Any]) -> None:
    """Bytes that no journal takes: a start at seq 2."""
    events = chain(said("a"), start=start)
    other = chain(start={"source": "console", "trust": "host", "project": "/elsewhere", "title": "mine"})[0]
    forged = type(other)(other.raw.replace(b'"seq":1', b'"seq":3'))
    state, plain = fold([*events, forged]), fold(events)
    assert (state.trust, state.source, state.start, state.project) == (plain.trust, plain.source, start, None)
    assert state.title == "" and state.odd == [{"seq": 3, "type": "session.start", "faults": ["seq"]}]


# --- title, labels, checkpoint, resources --------------------------------------------------------


def test_start_names_project_parent_title_and_labels() -> None:
    parent = {"session": "s0", "branch": "main", "seq": 7}
    state = after(start={"project": "/p", "parent": parent, "title": "T", "labels": ["b", "a"]})
    assert (state.project, state.parent, state.title, state.labels) == ("/p", parent, "T", ["a", "b"])
    assert state.odd == []


def test_updates_change_what_they_name_and_nothing_else() -> None:
    state = after(
        update(title="one", summary="s", add_labels=["x", "y"]),
        update(archived=True),
        update(title="two", remove_labels=["x"], add_labels=["z"]),
    )
    assert (state.title, state.summary, state.archived, state.labels) == ("two", "s", True, ["y", "z"])
    state = after(
        update(title="one", archived=True, add_labels=["x"]), update(title="", archived=False, remove_labels=["x", "q"])
    )
    assert (state.title, state.archived, state.labels, state.odd) == ("", False, [], [])


def test_label_that_is_added_and_removed_at_once_is_removed() -> None:
    assert after(update(add_labels=["a"], remove_labels=["a"])).labels == []


@pytest.mark.parametrize(
    ("data", "faults"),
    [
        ({"title": "x" * 201}, ["title"]),
        ({"title": "a\nb"}, ["title"]),
        ({"title": "x\x1b[31m"}, ["title"]),
        ({"title": "x" * 1_000_000}, ["title"]),
        ({"title": 1}, ["title"]),
        ({"summary": "x" * 16_385}, ["summary"]),
        ({"summary": ["x"]}, ["summary"]),
        ({"archived": "yes"}, ["archived"]),
        ({"archived": 1}, ["archived"]),
        ({"add_labels": ["ok", "", "x" * 65, 5, "a\tb"]}, ["add_labels"]),
        ({"add_labels": "ok"}, ["add_labels"]),
        ({"remove_labels": {"a": 1}}, ["remove_labels"]),
    ],
)
def test_what_is_no_title_summary_or_label_is_odd_and_changes_nothing(data: dict[str, Any], faults: list[str]) -> None:
    before = update(title="T", summary="S", archived=True, add_labels=["l"])
    state = after(before, ("session.update", data))
    assert (state.title, state.summary, state.archived) == ("T", "S", True)
    assert set(state.labels) <= {"l", "ok"}
    assert state.odd == [{"seq": 3, "type": "session.update", "faults": faults}]


def test_checkpoint_is_replaced_whole() -> None:
    first = {"scratchpad": "a", "todos": [{"text": "x", "done": True}], "counters": {"tools": 3}}
    events = chain(("session.checkpoint", first), said("a"), ("session.checkpoint", {"scratchpad": "b"}))
    assert fold(events, to=3).checkpoint == first
    assert fold(events).checkpoint == {"scratchpad": "b"}


def test_resources_are_those_attached_and_not_detached_since() -> None:
    def resource(action: str, key: str, **more: str) -> Spec:
        return "session.resource", {"id": key, "action": action, **more}

    state = after(
        resource("attach", "a", type="file", uri="file:///a"),
        resource("attach", "b", name="B"),
        resource("detach", "a"),
        resource("detach", "zzz"),
        resource("attach", "c"),
        resource("attach", "b", name="B2"),
    )
    assert [(one["id"], one["seq"], one["name"]) for one in state.resources] == [("c", 6, None), ("b", 7, "B2")]
    odd = after(resource("lend", "a"), ("session.resource", {"action": "attach"}))
    assert odd.resources == [] and [note["faults"] for note in odd.odd] == [["action"], ["id"]]


def test_the_first_end_counts() -> None:
    state = after(("session.terminate", {"reason": "done"}), ("session.terminate", {"reason": "again"}))
    assert state.terminated == {"seq": 2, "reason": "done"}


# --- turns and status ----------------------------------------------------------------------------


def test_turns_open_and_end_by_their_ids() -> None:
    events = chain(turn("start", "t1"), said("a"), turn("end", "t1", outcome="completed"), turn("start", "t2"))
    assert fold(events, to=3).open_turn == {"id": "t1", "seq": 2}
    assert fold(events, to=4).last_turn == {"id": "t1", "outcome": "completed", "seq": 4}
    assert (fold(events, to=4).open_turn, fold(events).open_turn) == (None, {"id": "t2", "seq": 5})


@pytest.mark.parametrize(
    ("spec", "faults"),
    [
        (turn("end", "other", outcome="completed"), ["turn"]),
        (turn("end", None, outcome="completed"), ["turn"]),
        (turn("start", None), ["turn"]),
    ],
)
def test_what_names_no_or_another_turn_is_odd_and_changes_nothing(spec: Spec, faults: list[str]) -> None:
    state = after(turn("start", "t1"), spec)
    assert (state.open_turn, state.last_turn) == ({"id": "t1", "seq": 2}, None)
    assert [note["faults"] for note in state.odd] == [faults]


def test_an_end_without_an_outcome_ends_the_turn_and_is_no_success() -> None:
    state = after(turn("start", "t1"), turn("end", "t1", outcome="fine"))
    assert (state.open_turn, state.last_turn) == (None, {"id": "t1", "outcome": "interrupted", "seq": 3})
    assert state.odd == [{"seq": 3, "type": "turn.end", "faults": ["outcome"]}]


DONE = (turn("start", "t"), said("a"), response("b"), turn("end", "t", outcome="completed"))
ENDED = ("session.terminate", {})
ALLOWED = ("tool.confirmation", {"id": "c", "approved": True})
REFUSED = ("tool.confirmation", {"id": "c", "approved": False})
LATER = (turn("start", "t"), turn("end", "t", outcome="rescheduling"))


@pytest.mark.parametrize(
    ("specs", "live", "dead"),
    [
        ((), "idle new", "idle new"),
        ((update(title="x"),), "idle new", "idle new"),
        # Without turn events: what was said last.
        ((said("a"),), "running", "idle completed"),
        ((said("a"), response("b")), "idle completed", "idle completed"),
        ((said("a"), asked("c")), "running", "idle interrupted"),
        ((said("a"), asked("c"), call("c")), "running", "idle interrupted"),
        ((said("a"), asked("c"), answer("c")), "running", "idle completed"),
        # With them: the turn.
        ((turn("start", "t"), said("a")), "running", "idle interrupted"),
        ((turn("start", "t"), said("a"), response("b")), "running", "idle interrupted"),
        (DONE, "idle completed", "idle completed"),
        ((*DONE, said("c")), "idle completed", "idle completed"),
        # A tool that runs is work, whatever has ended before.
        ((*DONE, call("c")), "running", "idle interrupted"),
        ((turn("start", "t"), turn("end", "t", outcome="failed")), "idle failed", "idle failed"),
        ((turn("start", "t"), turn("end", "t", outcome="canceled")), "idle canceled", "idle canceled"),
        # What waits.
        ((call("c", requires="confirmation"),), "requires_action c", "requires_action c"),
        ((turn("start", "t"), call("c", requires="result")), "requires_action c", "requires_action c"),
        ((call("c", requires="confirmation"), ALLOWED), "running", "idle interrupted"),
        ((call("c", requires="result"), answer("c")), "running", "idle completed"),
        ((*DONE, call("c"), answer("c")), "idle completed", "idle completed"),
        ((*DONE, call("c", requires="confirmation"), ALLOWED), "running", "idle interrupted"),
        ((*DONE, call("c", requires="confirmation"), REFUSED), "idle completed", "idle interrupted"),
        ((call("c", requires="confirmation"), interrupt()), "running", "idle interrupted"),
        # Wakes.
        ((*DONE, wake()), "rescheduling", "rescheduling"),
        ((turn("start", "t"), wake()), "running", "rescheduling"),
        ((*DONE, wake(), ("session.wake_done", {"seqs": [6]})), "idle completed", "idle completed"),
        (LATER, "rescheduling", "rescheduling"),
        ((*LATER, interrupt()), "idle interrupted", "idle interrupted"),
        # The end is the end.
        ((call("c", requires="result"), wake(), turn("start", "t"), ENDED), "terminated", "terminated"),
    ],
)  # fmt: skip
def test_status(specs: tuple[Spec, ...], live: str, dead: str) -> None:
    for history in (True, False):
        state = fold(chain(*specs), history=history)
        assert (state.status(True), state.status(False)) == (as_status(live), as_status(dead))


def as_status(text: str) -> Status:
    """``idle completed``: a status with another stop reason; ``requires_action c``: with what blocks."""
    name, *more = text.split()
    if name == "idle":
        return Status(name, *more)
    return Status(name, None if name == "running" else name, tuple(more))


def test_talk_of_a_sub_agent_is_not_what_the_session_said_last() -> None:
    asides = [(kind, data | {"sidechain": True}) for kind, data in (said("to the sub-agent"), response("done"))]
    assert after(said("a"), response("b"), asides[0]).status(True) == Status("idle", "completed")
    assert after(said("a"), *asides).status(True) == Status("running")


# --- confirmations and interrupts ----------------------------------------------------------------


def test_first_confirmation_counts_a_second_cannot_allow_what_was_refused() -> None:
    def confirm(approved: Any, key: str = "c") -> Spec:
        return "tool.confirmation", {"id": key, "approved": approved}

    state = after(call("c", requires="confirmation"), confirm(False), confirm(True))
    assert [(one["requires"], one["approved"]) for one in state.open_calls] == [("confirmation", False)]
    assert state.odd == [{"seq": 4, "type": "tool.confirmation", "faults": ["id"]}]
    wrong = after(call("c", requires="confirmation"), call("d"), confirm(True, "d"), confirm(True, "x"), confirm("yes"))
    assert [one["approved"] for one in wrong.open_calls] == [None, None]
    assert [note["faults"] for note in wrong.odd] == [["id"], ["id"], ["approved"]]


def test_confirmation_of_a_call_that_was_answered_says_nothing_of_the_next_one_with_its_id() -> None:
    confirm = ("tool.confirmation", {"id": "c", "approved": True})
    state = after(call("c", requires="confirmation"), confirm, answer("c"), call("c", requires="confirmation"))
    assert [(one["seq"], one["approved"]) for one in state.open_calls] == [(5, None)]


def test_call_said_in_the_response_waits_when_the_event_says_so() -> None:
    state = after(asked("c"), call("c", requires="confirmation"), call("c"))
    assert [(one["seq"], one["requires"]) for one in state.open_calls] == [(2, "confirmation")]
    assert after(call("c", requires="luck")).odd == [{"seq": 2, "type": "tool.call", "faults": ["requires"]}]


def test_interrupt_cancels_wakes_and_what_is_waited_for_and_leaves_calls_open() -> None:
    calls = (call("a", requires="confirmation"), call("b", requires="result"), call("c"))
    events = chain(*calls, wake("k"), interrupt("enough"), wake("k"))
    state = fold(events, to=6)
    assert [(one["id"], one["requires"]) for one in state.open_calls] == [("a", None), ("b", None), ("c", None)]
    assert (state.wakes, state.interrupted) == ([], {"seq": 6, "reason": "enough"})
    assert [one["seq"] for one in fold(events).wakes] == [7], "the key is free again"


def test_interrupt_leaves_an_answer_that_was_given() -> None:
    state = after(call("c", requires="confirmation"), ALLOWED, interrupt())
    assert [(one["requires"], one["approved"]) for one in state.open_calls] == [("confirmation", True)]


# --- late results --------------------------------------------------------------------------------

LOST = {"code": "interrupted", "is_error": True}


def seqs(state: SessionState) -> list[int]:
    return [entry["seq"] for entry in state.context]


def test_late_result_stands_behind_its_call_in_the_context_and_by_its_seq_in_the_history() -> None:
    state = after(asked("a", "b"), answer("a"), said("meanwhile"), answer("b", **LOST))
    assert seqs(state) == [2, 3, 5, 4]
    assert [entry["seq"] for entry in state.history] == [2, 3, 4, 5]
    assert (state.open_calls, state.unmatched_results, state.odd) == ([], 0, [])


def test_late_results_of_calls_with_entries_of_their_own() -> None:
    state = after(call("a"), call("b"), said("meanwhile"), answer("a", **LOST), answer("b", code="denied"))
    assert seqs(state) == [2, 3, 5, 6, 4]
    state = after(asked("a", "b"), call("c"), answer("a"), said("meanwhile"), answer("c", **LOST), answer("b", **LOST))
    assert seqs(state) == [2, 3, 4, 6, 7, 5]


def test_other_late_answers_stand_where_they_came() -> None:
    assert seqs(after(call("a"), said("meanwhile"), answer("a", code="error"))) == [2, 3, 4]
    assert seqs(after(call("a"), said("meanwhile"), answer("x", **LOST))) == [2, 3, 4], "of no open call"


def test_late_result_of_a_call_that_left_the_context_is_history_only() -> None:
    state = after(call("a"), said("b"), ("context.compaction", {"summary": "S", "keep_last": 1}), answer("a", **LOST))
    assert seqs(state) == [4, 3]
    assert [entry["seq"] for entry in state.history] == [2, 3, 5]


def test_compaction_takes_a_late_result_by_its_place_not_by_its_seq() -> None:
    state = after(call("a"), said("b"), answer("a", **LOST), ("context.compaction", {"summary": "S", "keep_last": 1}))
    assert texts(state.context) == ["S", "b"]


# --- any seq, any branch -------------------------------------------------------------------------

lively = st.lists(
    st.sampled_from(
        [
            said("a"), response("b"), asked("c1"), call("c1"), call("c2", requires="confirmation"), answer("c1"),
            answer("c2", **LOST), ("tool.confirmation", {"id": "c2", "approved": True}), turn("start", "t1"),
            turn("end", "t1", outcome="completed"), update(title="x"), update(archived=True), wake("k"), wake(),
            ("session.wake_done", {"seqs": [3]}), interrupt(), ("session.checkpoint", {"n": 1}),
            ("context.compaction", {"summary": "S", "keep_last": 1}), ENDED,
        ]
    ),
    max_size=30,
)  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(lively, st.integers(0, 30))
def test_branch_at_n_has_exactly_the_state_of_its_parent_at_n(specs: list[Spec], n: int) -> None:
    n = min(n, len(specs))
    branch = ("session.branch", {"branch": "b", "from": FROM | {"seq": n + 1}})
    parent, child = fold(chain(*specs), to=n + 1), fold(chain(*specs[:n], branch))
    own = ("branch", "branch_points", "last_seq", "last_hash", "updated")
    assert {**child.as_dict(), **dict.fromkeys(own)} == {**parent.as_dict(), **dict.fromkeys(own)}
    assert [child.status(live) for live in (True, False)] == [parent.status(live) for live in (True, False)]
