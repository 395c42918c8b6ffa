"""`gj replay` and the fold over a real journal: the state at an event is that of the events up to it."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from spoken import Spec, answer, asked, call, fill, response, said, turn
from support import Gj

import gitjournal
from gitjournal.journal import Journal
from gitjournal.state import fold

ROUND: tuple[Spec, ...] = (
    turn("start", "t"),
    said("count the lines"),
    asked("a", text="I look."),
    call("a", requires="confirmation"),
    ("tool.confirmation", {"id": "a", "approved": True}),
    answer("a"),
    ("session.checkpoint", {"counters": {"tools": 1}, "scratchpad": "12"}),
    response("Twelve."),
    turn("end", "t", outcome="completed"),
    ("session.wake", {"due": "2999-01-01T00:00:00.000Z", "reason": "again", "key": "k"}),
    ("session.update", {"title": "Lines", "add_labels": ["notes", "old"]}),
    ("context.compaction", {"summary": "twelve lines", "keep_last": 1}),
)


def recorded(journal: Journal, *specs: Spec, name: str = "s") -> Journal:
    with journal.session(name, create=True, source="console", trust="host") as session:
        fill(session, *specs)
    return journal


def test_replay_at_20_random_events_equals_the_state_after_so_many(journal: Journal) -> None:
    recorded(journal, *ROUND * 8)
    events = list(journal.events("s"))
    for seq in random.Random(4).sample(range(len(events) + 1), 20):
        state = fold(journal.events("s", to=seq))
        assert state == fold(events[:seq]) == fold(journal.events("s"), to=seq)
        assert state.as_dict() == fold(journal.events("s", to=seq)).as_dict(), "replayed twice"


@settings(max_examples=40, deadline=None)
@given(specs=st.lists(st.sampled_from(ROUND), max_size=12), data=st.data())
def test_branch_at_n_begins_with_the_state_of_its_parent_at_n(
    tmp_path_factory: pytest.TempPathFactory, specs: list[Spec], data: st.DataObject
) -> None:
    journal = recorded(gitjournal.init(tmp_path_factory.mktemp("j") / "journal"), *specs)
    n = data.draw(st.integers(1, len(specs) + 1))
    branch, fork = journal.branch("s", n, "b"), journal.fork("s", n, "f")
    parent = fold(journal.events("s"), to=n)
    own = ("session", "branch", "branch_points", "forked_from", "last_seq", "last_hash", "updated")
    for child in (branch, fork):
        assert fold(journal.events(child), to=n) == parent
        begun = fold(journal.events(child))
        assert begun.last_seq == n + 1
        assert {**begun.as_dict(), **dict.fromkeys(own)} == {**parent.as_dict(), **dict.fromkeys(own)}


def test_text_shows_what_the_session_is_does_and_waits_for(gj: Gj, place: Path) -> None:
    journal = recorded(gitjournal.init(place), *ROUND, name="s")
    with journal.session("s") as session:
        fill(
            session,
            turn("start", "t2"),
            call("b", requires="result"),
            ("session.resource", {"id": "r", "action": "attach", "uri": "file:///notes"}),
            ("session.update", {"summary": "twelve\nlines", "archived": True}),
        )
    shown = [line.split(maxsplit=1) for line in gj("replay", "s").stdout.splitlines() if line.strip()]
    facts = {line[0]: line[1] for line in shown if len(line) == 2}
    assert facts["title"] == "Lines"
    assert facts["summary"] == "twelve lines"
    assert facts["status"] == "requires_action, blocked by b, archived"
    assert facts["labels"] == "notes, old"
    assert facts["source"] == "console, trust host"
    assert facts["resource"] == "@16 file:///notes"
    assert facts["checkpoint"] == 'counters: {"tools": 1}, scratchpad: 12'
    assert facts["wake"] == "@11 2999-01-01 00:00:00 UTC, normal: again"
    text = gj("replay", "s").stdout
    for line in ("open turn  @14 t2", "last turn  @10 t completed", "open       @15 shell (b) waits for a result"):
        assert line in text


def test_status_of_the_past_is_that_of_a_session_at_work(gj: Gj, place: Path) -> None:
    recorded(gitjournal.init(place), *ROUND)

    def status(at: str) -> str:
        return gj("replay", at).stdout.split("status")[1].splitlines()[0].strip()

    assert [status(f"s@{seq}") for seq in (1, 3, 5, 6, 10, 11)] == [
        "idle (new)", "running", "requires_action, blocked by a", "running", "idle (completed)", "rescheduling",
    ]  # fmt: skip
    fill_open(place)
    assert status("s") == "idle (interrupted)"
    with gitjournal.open(place).session("s"):
        assert status("s") == "running"


def fill_open(place: Path) -> None:
    """Leave a turn open, and nothing that waits."""
    with gitjournal.open(place).session("s") as session:
        fill(session, ("session.wake_done", {"seqs": [11]}), turn("start", "t2"), said("more"))


def test_json_has_all_of_it_and_the_status(gj: Gj, place: Path) -> None:
    journal = recorded(gitjournal.init(place), *ROUND)
    whole = json.loads(gj("replay", "s", "--json").stdout)
    state = fold(journal.events("s"))
    assert whole == json.loads(
        json.dumps({**state.as_dict(), "status": "rescheduling", "stop_reason": "rescheduling", "blocking": []})
    )


def test_context_shows_what_the_model_saw_even_after_later_compactions(gj: Gj, place: Path) -> None:
    journal = recorded(
        gitjournal.init(place), *ROUND[1:6], ROUND[-1], said("x"), ("context.compaction", {"summary": "all"})
    )
    seen = {seq: json.loads(gj("replay", f"s@{seq}", "--context", "--json").stdout) for seq in range(1, 10)}
    assert [[entry["seq"] for entry in seen[seq]] for seq in (1, 3, 6, 7, 8, 9)] == [
        [], [2, 3], [2, 3, 6], [7, 6], [7, 6, 8], [9],
    ]  # fmt: skip
    assert journal.head("s").seq == 9


def test_what_a_session_says_of_itself_cannot_control_the_terminal(gj: Gj, place: Path) -> None:
    evil = "x\x1b[2J\x9b\nstate      forged"
    specs: list[Spec] = [
        ("session.update", {"title": evil, "summary": evil, "add_labels": [evil]}),
        ("session.checkpoint", {evil: {evil: evil}}),
        ("session.resource", {"id": evil, "action": "attach", "uri": evil, "name": evil}),
        ("session.wake", {"due": "2999-01-01T00:00:00.000Z", "reason": evil}),
        call(evil, name=evil, requires="confirmation"),
        ("session.interrupt", {"reason": evil}),
        ("session.terminate", {"reason": evil}),
    ]
    with gitjournal.init(place).session("s", create=True, project="/p") as session:
        fill(session, *specs)
    for words in (("replay", "s"), ("log", "s"), *(("show", f"s@{seq}") for seq in range(1, 9))):
        text = gj(*words).stdout
        assert not {"\x1b", "\x9b"} & set(text)
        assert "\nstate      forged" not in text or words[0] == "show"
