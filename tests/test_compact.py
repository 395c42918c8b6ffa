"""`compact`: shorter for the model, whole for everybody else, and never half a tool call."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from spoken import Spec, answer, asked, call, fill, gaps, response, said
from support import Gj

import gitjournal
from gitjournal.compact import Compacted, compact
from gitjournal.errors import ConflictError, UsageError
from gitjournal.journal import Journal
from gitjournal.resume import resume
from gitjournal.session import Session
from gitjournal.state import SessionState, fold
from gitjournal.state_form import Entry

TEN = tuple(said(letter) for letter in "abcdefghij")  # seq 2 to 11


def recorded(journal: Journal, *specs: Spec) -> Journal:
    with journal.session("s", create=True) as session:
        fill(session, *specs)
    return journal


def run(journal: Journal, summary: Any = "S", name: str = "s", **how: Any) -> Compacted:
    with journal.session(name) as session:
        return compact(session, summary, **how)


def state(journal: Journal, to: int | None = None, name: str = "s") -> SessionState:
    return fold(journal.events(name), to)


def shown(entries: list[Entry]) -> str:
    """The texts of entries; a call is ``(id)``, a result ``)id(``."""
    names = {"text": "{content}", "tool_call": "({id})", "tool_call_response": "){id}("}
    return "".join(names[part["type"]].format(**part) for entry in entries for part in entry["parts"])


# --- what goes and what stays --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("how", "context"),
    [
        ({}, "Sefghij"),
        ({"keep": 6}, "Sefghij"),
        ({"keep": 0}, "S"),
        ({"keep": 9}, "Sbcdefghij"),
        ({"from_seq": 3, "to_seq": 5}, "aSefghij"),
        ({"to_seq": 5}, "Sefghij"),
        ({"from_seq": 9}, "abcdefgS"),
        ({"from_seq": 1, "to_seq": 11, "keep": 2}, "Sij"),
        ({"from_seq": 4, "to_seq": 4}, "abSdefghij"),
    ],
)
def test_what_goes_and_what_stays(journal: Journal, how: dict[str, int], context: str) -> None:
    done = run(recorded(journal, *TEN), **how)
    assert shown(state(journal).context) == context
    assert (done.kept, done.removed) == (len(context) - 1, 11 - len(context))
    assert shown(state(journal).history) == "abcdefghij"
    assert state(journal).odd == []


def test_function_is_given_what_goes_and_its_text_stands_there(journal: Journal) -> None:
    given_to: list[str] = []

    def summarise(entries: list[Entry]) -> str:
        given_to.append(shown(entries))
        return f" <{len(entries)} entries> \n"

    run(recorded(journal, *TEN), summarise, keep=3)
    assert given_to == ["abcdefg"]
    assert shown(state(journal).context) == "<7 entries>hij"


def test_no_summary_takes_away_and_puts_nothing_there(journal: Journal) -> None:
    run(recorded(journal, *TEN), None, keep=2)
    assert shown(state(journal).context) == "ij"


def test_several_in_a_row_and_each_place_shows_what_the_model_saw_there(journal: Journal) -> None:
    recorded(journal, *TEN)
    run(journal, "S1", keep=4)
    with journal.session("s") as session:
        fill(session, said("k"), said("l"))
    run(journal, "S2", keep=3)
    run(journal, "S3", from_seq=12)
    seen = {11: "abcdefghij", 12: "S1ghij", 14: "S1ghijkl", 15: "S2jkl", 16: "S3j"}
    for seq, context in seen.items():
        assert shown(state(journal, seq).context) == context
    assert shown(state(journal).history) == "abcdefghijkl"
    assert len(state(journal).compactions) == 3


def test_branch_from_before_has_the_whole_context_back(journal: Journal) -> None:
    recorded(journal, *TEN)
    run(journal, keep=2)
    before, after = journal.branch("s", 11, "before"), journal.branch("s", 12, "after")
    assert shown(state(journal, name=str(before)).context) == "abcdefghij"
    assert shown(state(journal, name=str(after)).context) == "Sij"
    run(journal, "T", str(before), keep=1)
    assert shown(state(journal, name=str(before)).context) == "Tj"
    assert shown(state(journal).context) == "Sij"


# --- calls and their results ---------------------------------------------------------------------

CALLS = (said("a"), asked("1", "2"), answer("1"), answer("2"), said("b"), call("3"), answer("3"), response("c"))


@pytest.mark.parametrize(
    ("keep", "context"),
    [
        (1, "Sc"),
        (2, "S(3))3(c"),
        (3, "S(3))3(c"),
        (4, "Sb(3))3(c"),
        (5, "S(1)(2))1()2(b(3))3(c"),
        (7, "S(1)(2))1()2(b(3))3(c"),
    ],
)
def test_a_call_and_its_results_leave_together(journal: Journal, keep: int, context: str) -> None:
    run(recorded(journal, *CALLS), keep=keep)
    assert shown(state(journal).context) == context
    assert gaps(state(journal).context) == []


@pytest.mark.parametrize(
    "how", [{"to_seq": 3}, {"to_seq": 4}, {"from_seq": 4, "to_seq": 5}, {"from_seq": 8}, {"to_seq": 9, "keep": 2}]
)
def test_range_through_a_call_and_its_result_is_refused(journal: Journal, how: dict[str, int]) -> None:
    recorded(journal, *CALLS)
    with pytest.raises(
        UsageError, match=r"event \d calls a tool, event \d has the result: a compaction takes both or neither"
    ):
        run(journal, **how)
    assert journal.head("s").seq == 9


@pytest.mark.parametrize("how", [{"from_seq": 3, "to_seq": 5}, {"from_seq": 7, "to_seq": 8}, {"to_seq": 6}])
def test_range_around_them_is_not(journal: Journal, how: dict[str, int]) -> None:
    run(recorded(journal, *CALLS), **how)
    assert gaps(state(journal).context) == []


def test_a_call_without_a_result_stays_until_it_is_closed(journal: Journal) -> None:
    recorded(journal, said("a"), said("b"), call("1"), said("c"), said("d"))
    assert run(journal, keep=1).kept == 3
    assert shown(state(journal).context) == "S(1)cd"
    for how in ({"to_seq": 4}, {"keep": 4}, {"from_seq": 4}):
        with pytest.raises(UsageError) as caught:
            run(journal, **how)
        if "keep" not in how:
            assert "event 4 calls a tool and has no result yet" in str(caught.value)
        assert "gj resume" in caught.value.hint
    resume(journal, "s")
    run(journal, "T", keep=1)
    assert shown(state(journal).context) == "Td"


def test_late_result_goes_with_its_call_wherever_it_stands(journal: Journal) -> None:
    recorded(journal, said("a"), call("1"), said("b"), said("c"))
    resume(journal, "s")
    assert shown(state(journal).context) == "a(1))1(bc"
    with pytest.raises(UsageError, match="both or neither"):
        run(journal, to_seq=3)
    run(journal, keep=2)
    assert shown(state(journal).context) == "Sbc"


ROUNDS = [(said("x"),), (response("y"),), (asked("1", "2"), answer("2"), answer("1")), (call("3"), answer("3"))]


def test_calls_of_one_breath_stay_together(journal: Journal) -> None:
    """The cut before the second call goes through the first and its result."""
    recorded(journal, said("a"), call("1"), call("2"), answer("1"), answer("2"), said("b"))
    run(journal, keep=2)
    assert shown(state(journal).context) == "S(1)(2))1()2(b"


def test_call_that_a_summary_tells_of_is_none(journal: Journal) -> None:
    told = ("context.compaction", {"summary": [{"type": "tool_call", "id": "1", "name": "shell"}]})
    recorded(journal, said("a"), told, call("1"), answer("1"), said("b"))
    assert run(journal, to_seq=3).removed == 1
    assert shown(state(journal).context) == "S(1))1(b"


@settings(max_examples=60, deadline=None)
@given(
    specs=st.lists(
        st.sampled_from(
            [(said("x"),), (response("y"),), (asked("1", "2"), answer("2"), answer("1")), (call("3"), answer("3"))]
        ),
        max_size=10,
    ),
    keeps=st.lists(st.integers(0, 8), max_size=3),
)
def test_any_compactions_in_a_row_leave_a_valid_context(
    tmp_path_factory: pytest.TempPathFactory, specs: list[tuple[Spec, ...]], keeps: list[int]
) -> None:
    journal = recorded(
        gitjournal.init(tmp_path_factory.mktemp("j") / "journal"), *(one for some in specs for one in some)
    )
    for keep in keeps:
        before = state(journal)
        try:
            done = run(journal, keep=keep)
        except UsageError:
            assert journal.head("s").seq == before.last_seq
            assert len(before.context) <= keep or before.context[0]["kind"] in ("tool.call", "model.response")
            continue
        after = state(journal)
        assert gaps(after.context) == []
        assert done.kept == len(after.context) - 1 >= min(keep, len(before.context) - 1)
        assert after.context[1:] == before.context[len(before.context) - done.kept :]


# --- refusals ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"keep": -1}, "keep is a whole number of entries, 0 or more, not -1"),
        ({"keep": 1.5}, "keep is a whole number of entries, 0 or more, not 1.5"),
        ({"keep": True}, "keep is a whole number of entries, 0 or more, not True"),
        ({"keep": "6"}, "keep is a whole number of entries, 0 or more, not '6'"),
        ({"from_seq": 0}, "the range 0 to 11 is not within s/main, which has the events 1 to 11"),
        ({"to_seq": 12}, "the range 1 to 12 is not within s/main, which has the events 1 to 11"),
        ({"from_seq": 7, "to_seq": 5}, "the range 7 to 5 is not within s/main, which has the events 1 to 11"),
        ({"from_seq": 50, "to_seq": 60}, "the range 50 to 60 is not within"),
        ({"from_seq": 1.0}, "the range 1.0 to 11 is not within"),
        ({"keep": 10}, "there is nothing to compact: all 10 entries of the context stay"),
        ({"keep": 10**9}, "there is nothing to compact"),
        ({"from_seq": 1, "to_seq": 1}, "there is nothing to compact"),
        ({"summary": 5}, "a summary is text, not int"),
        ({"summary": b"S"}, "a summary is text, not bytes"),
        ({"summary": lambda _: None}, "a summary is text, not NoneType"),
        ({"summary": " \n"}, "the summary is empty"),
        ({"summary": lambda _: ""}, "the summary is empty"),
    ],
)
def test_refused_in_one_line_and_nothing_written(journal: Journal, how: dict[str, Any], message: str) -> None:
    recorded(journal, *TEN)
    with pytest.raises(UsageError) as caught:
        run(journal, **how)
    assert str(caught.value).startswith(message.replace("s/main", "s")) and "\n" not in str(caught.value)
    assert journal.head("s").seq == 11


def test_nothing_removed_and_no_summary_is_refused(journal: Journal) -> None:
    journal.session("s", create=True).close()
    with pytest.raises(UsageError, match="nothing to compact: the context has no entry"):
        run(journal, None)


def test_the_one_entry_that_stays_is_no_plural(journal: Journal) -> None:
    with pytest.raises(UsageError, match="nothing to compact: the one entry of the context stays"):
        run(recorded(journal, said("a")))


def test_function_that_fails_leaves_no_trace(journal: Journal) -> None:
    recorded(journal, *TEN)

    def broken(_: list[Entry]) -> str:
        raise KeyError("model")

    with pytest.raises(KeyError):
        run(journal, broken)
    assert journal.head("s").seq == 11


def test_function_that_writes_meanwhile_does_not_lose_what_it_wrote(journal: Journal) -> None:
    """The summary is of what was there before: with more it would be another one."""
    recorded(journal, *TEN)

    def busy(session: Session) -> Callable[[list[Entry]], str]:
        return lambda _: (fill(session, said("k")), "S")[1]

    with journal.session("s") as session, pytest.raises(ConflictError):
        compact(session, busy(session))
    assert shown(state(journal).context) == "abcdefghijk"


# --- the command ---------------------------------------------------------------------------------


def test_gj_compact_and_what_the_model_saw(gj: Gj, place: Path) -> None:
    recorded(gitjournal.init(place), *TEN)
    Path("summary.txt").write_text("the first four\n", encoding="utf-8")
    assert gj("compact", "s", "--keep", 6, "--summary-file", "summary.txt").stdout == (
        "s@12: 4 entries left the context, 6 stayed\n"
    )
    found = json.loads(gj("compact", "s", "--from", 12, "--to", 12, "--summary", "again", "--json").stdout)
    assert (found["seq"], found["removed"], found["kept"]) == (13, 1, 6)
    gj("compact", "s", "--summary-file", "-", "--keep", 1, stdin="from a pipe\n")
    for place_, text in (("s@11", "a"), ("s@12", "the first four"), ("s@13", "again"), ("s", "from a pipe")):
        entries = json.loads(gj("replay", place_, "--context", "--json").stdout)
        assert entries[0]["parts"][0]["content"] == text
    assert "  the first four\n" in gj("replay", "s@12", "--context").stdout


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--keep", "-1", "--summary", "S"), "keep is a whole number"),
        (("--to", "99", "--summary", "S"), "the range 1 to 99 is not within s"),
        (("--keep", "99", "--summary", "S"), "there is nothing to compact"),
        (("--keep", "1"), "give the summary with --summary or --summary-file"),
        (("--summary", "S", "--summary-file", "-"), "and not with both"),
        (("--summary-file", "latin"), "not UTF-8"),
        (("--summary-file", os.devnull, "--keep", "1"), "the summary is empty"),
        (("--summary", ""), "the summary is empty"),
        (("--summary-file", "big"), "more than"),
    ],
)
def test_gj_compact_refuses_in_one_line(gj: Gj, place: Path, words: tuple[str, ...], message: str) -> None:
    journal = recorded(gitjournal.init(place), *TEN)
    Path("latin").write_bytes(b"\xff\xfe")
    Path("big").write_bytes(b"x" * (1024 * 1024 + 1))
    refused = gj("compact", "s", *words, ok=False)
    assert refused.exit_code == 2 and message in refused.stderr.splitlines()[0]
    assert refused.stdout == "" and journal.head("s").seq == 11


def test_gj_compact_of_no_file_no_session_and_an_event(gj: Gj, place: Path) -> None:
    recorded(gitjournal.init(place), *TEN)
    assert gj("compact", "s", "--summary-file", "missing", ok=False).exit_code == 4
    assert gj("compact", "nobody", "--summary", "S", ok=False).exit_code == 4
    assert gj("compact", "s@5", "--summary", "S", ok=False).exit_code == 2
