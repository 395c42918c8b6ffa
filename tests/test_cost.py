"""What sessions have used: each event and response once, the same total by every grouping, money from a table only."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import Gj

import gitjournal
from gitjournal import branches, cli_cost
from gitjournal.chain import Chain
from gitjournal.cli_base import App
from gitjournal.cli_table import Column
from gitjournal.cost import GROUPINGS, grouped, scope, tally, total
from gitjournal.errors import VerificationError
from gitjournal.event import Event
from gitjournal.formats import import_file
from gitjournal.journal import Journal
from gitjournal.ledger import Scope, Used
from gitjournal.prices import load
from gitjournal.refs import Name
from gitjournal.state import USAGE, fold
from gitjournal.writer import Draft

TABLE = 'currency = "EUR"\n[[model]]\nname = "m-1"\ninput = 2\noutput = 10\ncache_read = 0.5\n'


def usage(*counts: int) -> dict[str, int]:
    return dict(zip(USAGE, counts, strict=False))


def response(name: str | None = None, *counts: int, model: str | None = "m-1", **more: Any) -> tuple[str, Any, str]:
    data: dict[str, Any] = {"parts": [{"type": "text", "content": "yes"}], "usage": usage(*counts), **more}
    data |= {"response.id": name} if name else {}
    data |= {"response.model": model} if model else {}
    return "model.response", data, "assistant"


def say(text: str = "hello", **more: Any) -> tuple[str, Any, str]:
    return "message", {"role": "user", "parts": [{"type": "text", "content": text}], **more}, "user"


def call(name: str, tool: str = "sh") -> tuple[str, Any, str]:
    return "tool.call", {"id": name, "name": tool}, "assistant"


def result(name: str, failed: bool = False) -> tuple[str, Any, str]:
    return "tool.result", {"id": name, "response": "x", "is_error": failed}, "tool:sh"


def record(journal: Journal, name: str, *events: tuple[str, Any, str], start: dict[str, Any] | None = None) -> None:
    first = Draft("session.start", start) if start else None
    with journal.session(name, create="/" not in name, start=first) as s:
        s.append_many(list(events))


def used(journal: Journal, *, session: str | None = None, branch: str | None = None, since: str = "") -> Used:
    what = scope(journal, session, branch) if session else Scope()
    return total(grouped(tally(journal, what, since)))


def tokens(found: Used) -> tuple[int, ...]:
    return found.input, found.output, found.cache_read, found.cache_write, found.reasoning


# --- the same as the state of a single line ------------------------------------------------------

ids = st.one_of(st.none(), st.sampled_from(["r1", "r2", "r3", ""]))
number = st.one_of(st.integers(0, 2**52), st.sampled_from([-1, 1.0, 1.5, True, "7", None]))
tools = st.sampled_from(["t", "u", "", None])
part = st.one_of(
    st.just({"type": "text", "content": "x"}),
    st.builds(lambda i, n: {"type": "tool_call", "id": i, "name": n}, st.sampled_from(["a", "b", None, 3]), tools),
    st.builds(lambda i: {"type": "tool_call_response", "id": i, "is_error": True}, st.sampled_from(["a", "b", None])),
    st.just("no part"),
)
parts = st.one_of(st.lists(part, max_size=3), st.just("text"), st.none())
event = st.one_of(
    st.builds(
        lambda i, u, p, m: ("model.response", {"response.id": i, "usage": u, "parts": p, "response.model": m}),
        ids, st.one_of(st.none(), st.just(7), st.dictionaries(st.sampled_from(USAGE), number)), parts, ids,
    ),
    st.builds(
        lambda r, p, s: ("message", {"role": r, "parts": p, "sidechain": s}),
        st.sampled_from(["user", "assistant", 5, None]), parts, st.booleans(),
    ),
    st.builds(lambda i, n: ("tool.call", {"id": i, "name": n}), st.sampled_from(["a", "b", 3, None]), tools),
    st.builds(lambda i, p: ("tool.result", {"id": i, **p}), st.sampled_from(["a", "b", None]),
              st.sampled_from([{}, {"parts": []}, {"parts": [{"type": "tool_call", "id": "b", "name": "u"}]}])),
    st.sampled_from([("error", {"message": "no"}), ("note", {}), ("native", {"type": "progress"})]),
)  # fmt: skip


@pytest.mark.parametrize(("said", "errors"), [(True, 1), (False, 0), ("false", 0), (1, 0), (None, 0)])
def test_a_result_has_failed_if_it_says_true_and_nothing_else(journal: Journal, said: object, errors: int) -> None:
    with journal.session("s", create=True) as s:
        s.append("tool.result", {"id": "c", "response": "x", "is_error": said})
        s.append("tool.result", {"parts": [{"type": "tool_call_response", "id": "d", "is_error": said}]})
    assert used(journal).tool_errors == 2 * errors


@settings(max_examples=60)
@given(st.lists(event, max_size=25))
def test_a_single_line_has_the_counters_of_its_state(
    tmp_path_factory: pytest.TempPathFactory, made: list[tuple[str, Any]]
) -> None:
    journal = gitjournal.init(tmp_path_factory.mktemp("j") / "j")
    with journal.session("s", create=True, durability="commit") as s:
        s.append_many([(kind, data, "host") for kind, data in made])
    state, found = fold(journal.events("s")), used(journal)
    assert tokens(found) == tuple(state.usage[USAGE[at]] for at in (0, 1, 2, 3, 4))
    assert {"user": found.user_turns, "model": found.model_turns} == state.turns
    assert (found.tool_calls, found.errors, found.events) == (state.tool_calls, len(state.errors), state.last_seq)
    assert (found.first, found.last) == (state.started, state.updated)


def test_an_id_that_stands_in_a_side_file_is_known_again(journal: Journal, tmp_path: Path) -> None:
    said: dict[str, Any] = {
        "id": "m" * 300,
        "role": "assistant",
        "model": "m-1",
        "content": [{"type": "text", "text": "x"}],
    }
    said |= {"usage": {"input_tokens": 7, "output_tokens": 3}}
    lines = [{"type": "assistant", "sessionId": "c", "uuid": f"u{n}", "message": said} for n in range(2)]
    source = tmp_path / "x.jsonl"
    source.write_text("".join(json.dumps(line) + "\n" for line in lines))
    import_file(journal, source)
    assert any("$gj:ref" in str(event.stored_data) for name in journal.sessions() for event in journal.events(name))
    assert tokens(used(journal))[:2] == (7, 3) and used(journal).model_turns == 1


# --- each once -----------------------------------------------------------------------------------


def test_lines_of_one_response_count_once_with_their_largest_counters(journal: Journal) -> None:
    record(journal, "s", response("r", 900, 3), response("r", 900, 61), response("r", 900, 50), response("q", 1, 1))
    found = used(journal)
    assert tokens(found)[:2] == (901, 62) and found.model_turns == 2


def test_a_fork_counts_what_it_shares_once(journal: Journal) -> None:
    record(journal, "s", say(), response("r", 100, 10), call("c"))
    journal.branch("s", 4, "a")
    journal.branch("s/a", 5, "b")
    journal.fork("s/a", 5, "f")
    for name in ("s", "s/a", "s/b", "f"):
        record(journal, name, result("c", True), response(None, 1, 1))
    found = used(journal)
    # One call that is open on all four lines and answered on each.
    assert (found.input, found.tool_calls, found.tool_errors) == (104, 1, 4)
    assert found.events == len({event.hash for name in journal.sessions() for event in journal.events(name)})
    assert {key: one.input for key, one in grouped(tally(journal, Scope()), "branch").items()} == {
        "f": 1, "s": 101, "s/a": 1, "s/b": 1,
    }  # fmt: skip
    assert {key: one.tool_errors for key, one in grouped(tally(journal, Scope()), "tool").items()} == {"": 0, "sh": 4}


def test_a_fork_costs_what_it_did_itself(journal: Journal) -> None:
    record(journal, "s", response("r", 100, 10))
    journal.fork("s", 2, "f")
    record(journal, "f", response("q", 7, 7))
    assert used(journal, session="f").input == 7 and used(journal, session="s").input == 100
    assert used(journal).input == 107


def test_what_a_fork_brings_along_counts_for_where_it_was_written(journal: Journal, tmp_path: Path) -> None:
    record(journal, "s", response("r", 100, 10))
    journal.branch("s", 2, "a")
    record(journal, "s/a", response("p", 20, 2))
    journal.fork("s/a", 4, "f")
    record(journal, "f", response("q", 7, 7))
    alone = gitjournal.init(tmp_path / "alone")
    alone.graft(Name("f"), ((event, ()) for event in journal.events("f")))
    by_branch = grouped(tally(alone, Scope()), "branch")
    assert {key: one.input for key, one in by_branch.items()} == {"f": 7, "s": 100, "s/a": 20}
    assert used(alone, session="f").input == 7


def test_a_call_said_again_after_a_fork_is_the_same_call(journal: Journal) -> None:
    said = {"parts": [{"type": "tool_call", "id": "c", "name": "sh"}]}
    record(journal, "s", ("model.response", said, "assistant"))
    journal.branch("s", 2, "a")
    record(journal, "s/a", call("c"), result("c"), call("c"))
    assert used(journal).tool_calls == 2 == fold(journal.events("s/a")).tool_calls


def test_a_session_that_repeats_another_counts_nothing_again(journal: Journal) -> None:
    record(journal, "old", say(ts="x"), response("r1", 100, 10), response("r2", 50, 2))
    record(journal, "copy", response("r1", 100, 10), response("r2", 50, 5), response("r3", 7, 1))
    ledger = tally(journal, Scope())
    groups = grouped(ledger, "session")
    # What grew in the copy is the same response, and belongs to where it was seen first.
    assert (groups["old"].input, groups["old"].output, groups["copy"].input) == (150, 15, 7)
    assert ledger.repeated == 2 and total(groups).model_turns == 3
    assert used(journal, session="copy").input == 157


def test_equal_ids_of_providers_that_differ_are_two_responses(journal: Journal) -> None:
    def of(provider: str | None, *counts: int) -> tuple[str, Any, str]:
        return response("1", *counts, **({"provider.name": provider} if provider else {}))

    record(journal, "a", of("p", 100, 1), of(None, 100, 2))
    record(journal, "b", of("q", 30, 3))
    record(journal, "c", of("p", 100, 4), of("q", 30, 5))
    ledger = tally(journal, Scope())
    groups = grouped(ledger, "session")
    assert [(groups[name].input, groups[name].output) for name in "ab"] == [(100, 4), (30, 5)]
    assert ledger.repeated == 2 and total(groups).model_turns == 2
    # Of a line that names none, nobody can say that it is another's.
    record(journal, "d", of(None, 100, 9))
    assert used(journal).model_turns == 2


def test_sub_sessions_are_counted_with_theirs_and_a_circle_ends(journal: Journal) -> None:
    record(journal, "s", response("a", 1, 0), start={"parent": {"session": "s.1.1"}})
    record(journal, "s.1", response("b", 10, 0), start={"parent": {"session": "s", "branch": "try", "seq": 3}})
    record(journal, "s.1.1", response("c", 100, 0), start={"parent": {"session": "s.1"}})
    record(journal, "t", response("d", 1000, 0), start={"parent": {"session": "gone"}})
    record(journal, "odd", response("e", 10000, 0), start={"parent": "s"})
    assert used(journal, session="s").input == 111 and scope(journal, "s").below == ("s.1", "s.1.1")
    assert used(journal, session="s.1").input == 111 and used(journal, session="t").input == 1000
    assert used(journal, session="s", branch="main").input == 1
    journal.branch("s", 2, "try")
    record(journal, "s/try", response("f", 5, 0))
    assert used(journal, session="s", branch="try").input == 115


def test_a_response_on_two_branches_counts_for_the_one_that_is_asked_for(journal: Journal) -> None:
    record(journal, "s", say(), response("r1", 100, 10))
    journal.branch("s", 3, "b")
    # As an import of a transcript that was wound back makes it.
    record(journal, "s", response("r9", 500, 50))
    record(journal, "s/b", response("r9", 500, 60))

    def used(*where: str) -> tuple[int, int]:
        whole = total(grouped(tally(journal, scope(journal, *where))))
        return whole.input, whole.output

    assert used("s") == (600, 70)
    assert used("s", "main") == (600, 60) and used("s", "b") == (500, 60)


def test_a_renamed_branch_keeps_its_sub_sessions(journal: Journal) -> None:
    record(journal, "p", say())
    for branch in ("b", "other"):
        journal.branch("p", 2, branch)
    parent = {"session": "p", "branch": "b"}
    record(journal, "c", response("r1", 7, 7), start={"source": "http", "parent": parent})
    branches.rename(journal, "p/b", "bb")
    branches.rename(journal, "p/bb", "bbb")
    assert scope(journal, "p", "bbb").below == ("c",) and not scope(journal, "p", "other").below
    # A new branch of the old name has it, as it says.
    journal.branch("p", 2, "b")
    assert scope(journal, "p", "b").below == ("c",) and not scope(journal, "p", "bbb").below


def test_a_branch_has_not_the_sub_sessions_of_the_one_that_it_was_made_from(journal: Journal) -> None:
    record(journal, "p", say())
    journal.branch("p", 2, "b")
    start = {"source": "http", "parent": {"session": "p", "branch": "b"}}
    record(journal, "c", response("r1", 7, 7), start=start)
    journal.branch("p/b", 3, "from-b")
    assert scope(journal, "p", "b").below == ("c",) and not scope(journal, "p", "from-b").below
    # Nor when that is gone.
    branches.delete(journal, "p/b", force=True)
    assert not scope(journal, "p", "from-b").below


def test_a_sub_session_that_cannot_be_read_is_not_left_out_in_silence(gj: Gj, place: Path) -> None:
    journal = gitjournal.init(place)
    record(journal, "p", response("r1", 10, 1))
    record(journal, "c", response("r2", 100, 1), start={"source": "http", "parent": {"session": "p"}})
    assert gj("cost", "p", "--json", ok=False).exit_code == 0
    (place / "refs" / "heads" / "c" / "main").write_text("2" * 40 + "\n")
    run = gj("cost", "p", ok=False)
    assert run.exit_code == 1 and "whether c belongs to it is not known" in run.stderr
    run = gj("cost", "p", "--json", ok=False)
    assert run.exit_code == 1 and json.loads(run.stdout)["unread"] == [{"name": "c", "code": "missing-object"}]


def test_a_sub_session_without_a_trunk_is_counted_by_what_it_has(journal: Journal) -> None:
    record(journal, "p", response("r1", 10, 1))
    record(journal, "c", response("r2", 100, 1), start={"source": "http", "parent": {"session": "p"}})
    journal.branch("c", 2, "b")
    ref = journal.chain(Name("c")).ref
    journal.store.cas_ref(ref, journal.store.read_ref(ref), None)
    assert used(journal, session="p").input == 110


def test_a_turn_that_was_interrupted_took_as_long_as_it_was_worked_at(journal: Journal) -> None:
    def at(time: str, kind: str, turn: str | None = "t", **data: Any) -> Draft:
        return Draft(kind, data, "host", turn, f"2026-11-01T{time}.000Z")

    with journal.session("s", create=True) as s:
        s.append_many([at("10:00:00", "turn.start"), at("10:00:06", "tool.call", id="c", name="sh"),
                       at("10:00:50", "note", None),
                       at("20:00:00", "tool.result", id="c", is_error=True, code="interrupted", response="?"),
                       at("20:00:00", "turn.end", outcome="interrupted")])  # fmt: skip
        assert total(grouped(tally(journal, scope(journal, "s")))).turn_ms == 6000
        s.append_many(
            [at("20:00:00", "turn.start"), at("20:00:01", "note"), at("20:00:09", "turn.end", outcome="failed")]
        )
    assert total(grouped(tally(journal, scope(journal, "s")))).turn_ms == 15_000


@pytest.mark.parametrize(
    "words",
    [
        ("search", "x", "--session"),
        ("search", "x", "--in"),
        ("sessions", "--project"),
        ("sessions", "--label"),
        ("cost", "--prices"),
        ("export", "s", "--format", "md", "--prices"),
        ("resume", "s", "--project"),
    ],
)
def test_an_option_that_is_empty_is_not_taken_for_one_that_was_not_given(
    gj: Gj, place: Path, words: tuple[str, ...]
) -> None:
    record(gitjournal.init(place), "s", say())
    run = gj(*words, "", ok=False)
    assert (run.exit_code, run.stderr) == (2, f"gj: {words[-1]} is empty\n")


def test_the_time_of_a_line_whose_clock_went_back_is_from_its_earliest_to_its_latest_event(journal: Journal) -> None:
    begun = Draft("session.start", {}, ts="2026-01-01T12:00:00.000Z")
    with journal.session("s", create=True, start=begun) as s:
        for hour in (9, 15, 11):
            s.append("note", {}, ts=f"2026-01-01T{hour:02}:00:00.000Z")
    found = used(journal)
    assert (found.first, found.last) == ("2026-01-01T09:00:00.000Z", "2026-01-01T15:00:00.000Z")


def test_since_looks_at_where_a_response_was_seen_first(journal: Journal) -> None:
    with journal.session("s", create=True, start=Draft("session.start", {}, ts="2026-01-01T00:00:00.000Z")) as s:
        for day, one in enumerate((response("r", 10, 1), response("r", 10, 9), response("q", 5, 5)), 1):
            s.append(one[0], one[1], ts=f"2026-01-0{day}T12:00:00.000Z")
    assert tokens(used(journal, since="2026-01-02T00:00:00.000Z"))[:2] == (5, 5)
    assert used(journal, since="2026-01-02T00:00:00.000Z").events == 2
    record(journal, "copy", response("r", 10, 9))
    assert [tally(journal, Scope(), since).repeated for since in ("", "2026-01-02T00:00:00.000Z")] == [1, 0]
    days = grouped(tally(journal, Scope(frozenset({"s"}))), "day")
    assert {day: (one.input, one.output) for day, one in days.items()} == {
        "2026-01-01": (10, 9), "2026-01-02": (0, 0), "2026-01-03": (5, 5),
    }  # fmt: skip


def test_time_in_turns_is_summed_and_a_shared_beginning_is_not_timed_twice(journal: Journal) -> None:
    def at(second: int) -> str:
        return f"2026-01-01T00:00:{second:02}.000Z"

    with journal.session("s", create=True, start=Draft("session.start", {}, ts=at(0))) as s:
        s.append("turn.start", {}, turn="t1", ts=at(0))
        s.append("turn.end", {"outcome": "completed"}, turn="t1", ts=at(4))
        s.append("turn.end", {"outcome": "completed"}, turn="t1", ts=at(9))
        s.append("turn.start", {}, turn="t2", ts=at(10))
        s.append("turn.end", {"outcome": "completed"}, turn="t2", ts=at(8))
        s.append("turn.start", {}, turn="t3", ts=at(10))
    journal.branch("s", 7, "a")
    with journal.session("s") as s:
        s.append("turn.end", {"outcome": "completed"}, turn="t3", ts=at(15))
    # By the clock of the branch's first event, which is now: before that, the turn was the trunk's.
    with journal.session("s/a") as s:
        s.append("turn.end", {"outcome": "completed"}, turn="t3", ts=at(20))
    assert used(journal).turn_ms == 9000


# --- groups --------------------------------------------------------------------------------------


@settings(max_examples=30)
@given(
    st.lists(st.tuples(st.integers(0, 9), st.integers(1, 30), st.booleans(), st.lists(event, max_size=4)), max_size=6),
    st.sampled_from(["", "2026-01-02T00:00:00.000Z", "9"]),
)
def test_every_grouping_has_the_same_total(
    tmp_path_factory: pytest.TempPathFactory, made: list[Any], since: str
) -> None:
    journal = gitjournal.init(tmp_path_factory.mktemp("j") / "j")
    record(journal, "s", say(), response("r1", 10, 5, 2, 1, 1), call("a", "ls"), start={"source": "x"})
    days = itertools.cycle(("2026-01-01", "2026-01-02", "2026-01-03"))
    for number, (which, at, into_session, events) in enumerate(made):
        names = list(journal.sessions())
        parent = names[which % len(names)]
        seq = 1 + at % journal.head(parent).seq
        if into_session or journal.event(parent, seq).session != parent.session:
            child = journal.fork(parent, seq, f"f{number}")
        else:
            child = journal.branch(parent, seq, f"b{number}")
        with journal.session(child) as s:
            for kind, data in events:
                s.append(kind, data, ts=f"{next(days)}T00:00:00.000Z")
    prices = load(TABLE.encode(), "t")
    ledger = tally(journal, Scope(), since)
    sums = [total(grouped(ledger, by, prices)).as_dict() for by in GROUPINGS]
    assert all(one == sums[0] for one in sums)
    if not since:
        assert sums[0]["events"] == len({e.hash for name in journal.sessions() for e in journal.events(name)})
    # In pieces, the same again: sessions are disjoint, but for responses that several of them have.
    if not ledger.repeated and not since:
        sessions = {name.session for name in journal.sessions()}
        alone = [total(grouped(tally(journal, scope(journal, one), since), "day", prices)) for one in sessions]
        whole = Used()
        for one in alone:
            whole.add(one)
        assert whole.as_dict() == sums[0]


def test_money_is_exact_and_what_is_unknown_is_listed(journal: Journal) -> None:
    record(
        journal, "s", response("a", 1_000_000, 7, 400_000), response("b", 500, 20, model="m-9"),
        response("c", 10, 1, 4, 3), response("d", 5, 5, model=None), response("e", model="m-8"),
        response("f", 2, 0, model=None, **{"request.model": "m-1"}),
    )  # fmt: skip
    groups = grouped(tally(journal, Scope()), "model", load(TABLE.encode(), "t"))
    assert {key: one.unpriced for key, one in groups.items()} == {
        "": {"?": {"input": 5, "output": 5}},
        "m-1": {"m-1": {"cache_write": 3}},
        "m-8": {},
        "m-9": {"m-9": {"input": 500, "output": 20}},
    }
    assert groups["m-1"].cost == Decimal("1.400092") and groups["m-9"].cost == 0
    assert total(groups).as_dict()["cost"] == "1.400092"
    assert "cost" not in total(grouped(tally(journal, Scope()))).as_dict()


# --- the command ---------------------------------------------------------------------------------


@pytest.fixture
def filled(place: Path) -> Journal:
    journal = gitjournal.init(place)
    record(journal, "s", say(), response("a", 1200, 40, 1000), call("c"), result("c", True), start={"source": "x"})
    journal.branch("s", 3, "try")
    record(journal, "s/try", response("b", 300, 9, model="m-9"), ("error", {"message": "no"}, "host"))
    record(journal, "sub", response("d", 11, 1), start={"parent": {"session": "s"}})
    record(journal, "t", response("a", 1200, 40, 1000))
    return journal


def rows(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines()]


def test_the_time_stands_in_a_line_of_80_columns(gj: Gj, journal: Journal) -> None:
    start = Draft("session.start", {}, ts="2026-11-01T18:00:00.000Z")
    with journal.session("s", create=True, start=start) as s:
        s.append("note", {}, ts="2026-11-29T23:33:50.000Z")
    lines = gj("cost", "s").stdout.splitlines()
    (line,) = (line for line in lines if line.startswith("time "))
    assert line.split(maxsplit=5)[1:] == ["28", "d", "5", "h", "2026-11-01 18:00:00 to 2026-11-29 23:33:50 UTC"]
    assert max(map(len, lines)) <= 80


def test_cost_sums_up(gj: Gj, filled: Journal, tmp_path: Path) -> None:
    table = tmp_path / "prices.toml"
    table.write_text(TABLE)
    run = gj("cost", "s", "--prices", table)
    found = {line[0]: line[1:] for line in rows(run.stdout)}
    assert found["input"][0] == "1,511" and found["output"][0] == "50" and found["turns"][0] == "4"
    assert found["tool"][1] == "1" and found["errors"] == ["1"]
    assert found["cost"][:4] == ["EUR", "0.0013", "+", "?"]
    assert run.stderr == "gj: with 1 sub-session: sub\ngj: no price for m-9: 300 input, 9 output\n"
    assert "counted once" in gj("cost", "--all").stderr and gj("cost").stdout == gj("cost", "--all").stdout


def test_cost_of_a_session_a_branch_and_the_trunk(gj: Gj, filled: Journal) -> None:
    def inputs(name: str) -> int:
        return int(json.loads(gj("cost", name, "--json").stdout)["input"])

    assert [inputs(name) for name in ("s", "s/main", "s/try", "sub", "t")] == [1511, 1211, 300, 11, 1200]
    # A name that was completed means what the whole one does.
    assert [inputs(name) for name in ("s/tr", "su")] == [300, 11]
    assert gj("cost", "s@2", ok=False).exit_code == 2 and gj("cost", "s", "--all", ok=False).exit_code == 2
    assert gj("cost", "nobody", ok=False).exit_code == 4


def test_cost_by_tool_shows_what_tools_did_most_used_first(gj: Gj, place: Path) -> None:
    journal = gitjournal.init(place)
    calls = [call("1", "b"), result("1"), call("2", "b"), result("2", True), call("3", "a"), result("3")]
    record(journal, "s", say(), response("r", 5, 5), *calls)
    assert rows(gj("cost", "--by", "tool").stdout) == [
        ["TOOL", "TOOLS", "FAILED"], ["b", "2", "1"], ["a", "1", "0"], ["TOTAL", "3", "1"]
    ]  # fmt: skip
    record(journal, "cut", result("4", True))
    assert "\n? (unknown call)      0       1\n" in gj("cost", "--by", "tool").stdout


@pytest.mark.parametrize("by", GROUPINGS)
def test_cost_by_anything_as_json(gj: Gj, filled: Journal, tmp_path: Path, by: str) -> None:
    table = tmp_path / "prices.toml"
    table.write_text(TABLE)
    *groups, whole = [
        json.loads(line) for line in gj("cost", "--by", by, "--prices", table, "--json").stdout.splitlines()
    ]
    assert {group["by"] for group in groups} == {by} and (whole["by"], whole["currency"]) == (None, "EUR")
    for name in ("input", "output", "events", "tool_calls", "errors", "model_turns"):
        assert sum(group[name] for group in groups) == whole[name]
    assert sum(Decimal(group["cost"]) for group in groups) == Decimal(whole["cost"])
    assert whole["repeated_responses"] == 1 and whole["unpriced"] == {"m-9": {"input": 300, "output": 9}}


def test_cost_by_model_as_a_table(gj: Gj, filled: Journal, tmp_path: Path) -> None:
    table = tmp_path / "prices.toml"
    table.write_text(TABLE)
    shown = rows(gj("cost", "s", "--by", "model", "--prices", table).stdout)
    assert shown[0][:3] == ["MODEL", "COST", "INPUT"]
    assert [row[0] for row in shown[1:]] == ["(no", "m-1", "m-9", "TOTAL"]
    # Columns of nothing but zeros are left out, and so is a chart where nobody looks.
    assert "REASONING" not in shown[0] and shown[3][1] == "?" and shown[4][1:5] == ["EUR", "0.0013", "+", "?"]
    assert "█" not in gj("cost", "--by", "day").stdout


def test_a_chart_of_days_has_a_bar_for_each_that_has_something() -> None:
    columns = [Column("DAY"), Column("INPUT", right=True)]
    table: list[tuple[str, ...]] = [*((f"2026-01-0{n}", str(n)) for n in range(3)), ("TOTAL", "3")]
    sizes = cli_cost._sizes({"a": Used(input=9000), "b": Used(), "c": Used(input=1)}, None)
    wide, shown = cli_cost._with_bars(60, columns, table, sizes)
    assert [row[2] for row in shown] == ["█" * 30, "", "▏", ""] and len(wide) == 3
    assert cli_cost._with_bars(27, columns, table, sizes)[1][0][2] == "█" * 8
    assert cli_cost._with_bars(26, columns, table, sizes) == (columns, table)
    assert cli_cost._sizes({"a": Used()}, None) == []
    assert cli_cost.bar(Decimal("0.5"), 9) == "████▌"


def test_a_terminal_gets_a_chart_of_days(gj: Gj, filled: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(App, "width", property(lambda _: 150))
    lines = gj("cost", "--by", "day").stdout.splitlines()
    assert lines[1].endswith("█" * 30) and not lines[-1].endswith("█")
    assert "█" not in gj("cost", "--by", "model").stdout


@pytest.mark.parametrize("by", GROUPINGS)
def test_on_80_columns_the_cost_and_what_it_is_of_stay(
    gj: Gj, place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by: str
) -> None:
    table = tmp_path / "prices.toml"
    table.write_text(TABLE.replace("m-1", "claude-something-4-5-20251101"))
    name = "130d7b7e-5801-4345-9bd6-f32fd9b8429b"
    many = response("a", 2_611_133, 117_040, 2_448_055, 162_750, 12_345, model="claude-something-4-5-20251101")
    record(gitjournal.init(place), name, say(), many, call("c"), result("c", True), ("error", {"message": "n"}, "host"))
    gitjournal.open(place).branch(name, 3, "try-b")
    monkeypatch.setattr(App, "width", 80)
    head, *lines = gj("cost", "--by", by, "--prices", table).stdout.splitlines()
    shown = ["TOOLS", "FAILED"] if by == "tool" else ["INPUT", "OUTPUT"]
    assert head.split()[:4] == [by.upper(), "COST", *shown] and "EUR 2." in lines[-1]
    assert ("2.6M" in lines[-1]) == (by != "tool")
    assert max(map(len, lines)) <= 80 and (by == "day") == ("█" * 8 in lines[0])


def test_numbers_that_fit_are_shown_exactly(gj: Gj, filled: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    for width, shown in ((120, "1,511"), (40, "1.5k"), (None, "1,511")):
        monkeypatch.setattr(App, "width", width)
        assert shown in gj("cost", "s", "--by", "model").stdout.splitlines()[-1]


def test_a_mistake_in_the_table_prints_nothing_else(gj: Gj, filled: Journal, tmp_path: Path) -> None:
    table = tmp_path / "prices.toml"
    table.write_text(TABLE.replace("output", "ouput"))
    run = gj("cost", "--prices", table, ok=False)
    assert (run.exit_code, run.stdout) == (2, "")
    assert run.stderr == "gj: prices.toml: model 1 ('m-1'): unknown key 'ouput'; did you mean 'output'?\n"
    for bad in ((tmp_path / "nothing",), (tmp_path,)):
        assert gj("cost", "--prices", *bad, ok=False).exit_code == 4
    assert gj("cost", "--since", "yesterday", ok=False).exit_code == 2


def test_a_damaged_session_is_named_and_the_others_are_counted(gj: Gj, filled: Journal) -> None:
    (filled.path / "refs" / "heads" / "t" / "main").write_text("0" * 40 + "\n")
    (filled.path / "refs" / "heads" / "sub" / "main").write_text("rubbish\n")
    run = gj("cost", "--json", ok=False)
    found = json.loads(run.stdout)
    assert run.exit_code == 1 and found["input"] == 1500
    assert found["unread"] == [{"name": "sub", "code": "storage"}, {"name": "t", "code": "missing-object"}]
    assert "gj: not all of t is counted: [missing-object]" in run.stderr


def test_what_comes_before_damage_is_counted(filled: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    read = Chain.events

    def damaged(chain: Chain, after: int = 0, to: int | None = None) -> Iterator[Event]:
        for event in read(chain, after, to):
            if chain.name == Name("s") and event.seq == 4:
                raise VerificationError("bad-object", "it is damaged")
            yield event

    monkeypatch.setattr(Chain, "events", damaged)
    ledger = tally(filled, Scope())
    assert [(str(name), error.code) for name, error in ledger.unread.items()] == [("s", "bad-object")]
    # The branch of s at 3 is whole, and so are the others.
    assert grouped(ledger, "branch")["s"].events == 3 and total(grouped(ledger)).input == 1511


def test_counting_changes_no_file(gj: Gj, filled: Journal) -> None:
    def files() -> dict[Path, tuple[int, int]]:
        return {path: (path.stat().st_mtime_ns, path.stat().st_size) for path in filled.path.rglob("*")}

    before = files()
    for words in (("cost", "--by", "day"), ("diff", "s", "s/try"), ("branches", "s", "--forks")):
        gj(*words)
        assert files() == before


def test_what_names_say_stays_text(gj: Gj, place: Path) -> None:
    journal = gitjournal.init(place)
    record(journal, "s", response("a", 5, 5, model="m\x1b[31m"), call("c", "to\nol"))
    for by in ("model", "tool"):
        assert "\x1b" not in gj("cost", "--by", by).stdout and len(gj("cost", "--by", by).stdout.splitlines()) == 3
