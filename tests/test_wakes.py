"""Wakes that wait: a queue worked out from events alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from spoken import Spec, chain, fill, said
from support import Gj

import gitjournal
from gitjournal.errors import JournalError
from gitjournal.journal import Journal
from gitjournal.refs import Name
from gitjournal.state import fold
from gitjournal.wakes import Wake, in_order, of_journal, of_state

PAST, SOON, LATER = "2026-01-01T00:00:00.000Z", "2026-06-01T00:00:00.000Z", "2999-01-01T00:00:00.000Z"


def wake(due: str = PAST, reason: str = "go on", **more: Any) -> Spec:
    return "session.wake", {"due": due, "reason": reason, **more}


def done(*seqs: int) -> Spec:
    return "session.wake_done", {"seqs": list(seqs)}


def queued(*specs: Spec) -> list[int]:
    return [one["seq"] for one in fold(chain(*specs)).wakes]


# --- the queue -----------------------------------------------------------------------------------


def test_wake_waits_until_it_is_done() -> None:
    assert queued(wake(), wake(LATER)) == [2, 3]
    assert queued(wake(), wake(LATER), done(2)) == [3]
    assert queued(wake(), done(2, 3, 99), wake()) == [4]
    whole = fold(chain(wake(LATER, note="n", key="k", priority="high"))).wakes
    assert whole == [{"seq": 2, "due": LATER, "reason": "go on", "note": "n", "key": "k", "priority": "high"}]


def test_second_wake_with_a_key_that_waits_is_the_same_one() -> None:
    assert queued(wake(key="k"), wake(LATER, key="k"), wake(key="other"), wake(), wake()) == [2, 4, 5, 6]
    assert queued(wake(key="k"), done(2), wake(key="k")) == [4], "the first is done"
    assert queued(wake(key="k"), wake(key="k"), done(3)) == [2], "the second was none"


def test_interrupt_cancels_all_even_those_of_the_future() -> None:
    assert queued(wake(), wake(LATER, key="k"), ("session.interrupt", {})) == []
    assert queued(wake(key="k"), ("session.interrupt", {}), wake(key="k")) == [4]


@pytest.mark.parametrize(
    ("data", "faults", "waits"),
    [
        ({"reason": "r"}, ["due"], False),
        ({"due": "tomorrow", "reason": "r"}, ["due"], False),
        ({"due": "2026-02-31T00:00:00.000Z", "reason": "r"}, ["due"], False),
        ({"due": "2026-01-01T00:00:00Z", "reason": "r"}, ["due"], False),
        ({"due": 5, "reason": "r"}, ["due"], False),
        ({"due": PAST}, ["reason"], True),
        ({"due": PAST, "reason": "r", "priority": "urgent"}, ["priority"], True),
        ({"due": PAST, "reason": "r", "key": 1, "note": []}, ["key", "note"], True),
    ],
)
def test_misshapen_wakes_are_odd(data: dict[str, Any], faults: list[str], waits: bool) -> None:
    state = fold(chain(("session.wake", data)))
    assert state.odd == [{"seq": 2, "type": "session.wake", "faults": faults}]
    assert bool(state.wakes) == waits


@pytest.mark.parametrize("seqs", [None, 2, [2, "x"], [2, -1], [2, True]])
def test_misshapen_list_of_those_done_is_odd_and_what_can_be_read_is_done(seqs: Any) -> None:
    state = fold(chain(wake(), ("session.wake_done", {} if seqs is None else {"seqs": seqs})))
    assert state.odd == [{"seq": 3, "type": "session.wake_done", "faults": ["seqs"]}]
    assert bool(state.wakes) == (not isinstance(seqs, list))


steps = st.lists(
    st.one_of(
        st.builds(lambda key: wake(**({"key": key} if key else {})), st.sampled_from(["a", "b", None])),
        st.builds(done, st.integers(1, 12)),
        st.sampled_from([("session.interrupt", {}), said("x")]),
    ),
    max_size=12,
)


@settings(max_examples=200, deadline=None)
@given(steps)
def test_the_queue_is_that_of_a_plain_list(specs: list[Spec]) -> None:
    waiting: list[tuple[int, str | None]] = []
    for seq, (kind, data, *_) in enumerate(specs, 2):
        if kind == "session.wake" and not any(key and key == data.get("key") for _, key in waiting):
            waiting.append((seq, data.get("key")))
        elif kind == "session.wake_done":
            waiting = [one for one in waiting if one[0] not in data["seqs"]]
        elif kind == "session.interrupt":
            waiting = []
    assert queued(*specs) == [seq for seq, _ in waiting]


# --- order ---------------------------------------------------------------------------------------


def test_order_is_time_and_of_what_is_due_priority() -> None:
    def one(seq: int, due: str, priority: str = "normal", session: str = "s") -> Wake:
        return Wake(Name(session), seq, due, "r", None, None, priority)

    wakes = [
        one(2, LATER, "high"),
        one(3, SOON, "low"),
        one(4, PAST, "low"),
        one(5, SOON, "high"),
        one(6, SOON, "high", "a"),
    ]
    assert [wake.seq for wake in in_order(wakes)] == [4, 6, 5, 3, 2]
    assert [wake.seq for wake in in_order(wakes, SOON)] == [6, 5, 4, 3]
    assert in_order(wakes, "2020-01-01T00:00:00.000Z") == []


# --- a journal -----------------------------------------------------------------------------------


def recorded(journal: Journal, name: str, *specs: Spec) -> None:
    with journal.session(name, create=True) as session:
        fill(session, *specs)


def test_all_wakes_of_a_journal_but_those_that_nobody_may_run(journal: Journal) -> None:
    recorded(journal, "a", wake())
    recorded(journal, "b", wake(), ("session.update", {"archived": True}))
    recorded(journal, "c", wake(), ("session.terminate", {}))
    recorded(journal, "d", said("x"), wake(LATER))
    journal.branch("d", 3, "other")
    journal.branch("d", 2, "before")
    assert [(str(one.name), one.seq) for one in of_journal(journal)] == [("a", 2), ("d", 3), ("d/other", 3)]
    state = fold(journal.events("b"))
    assert [one.seq for one in of_state(Name("b"), state)] == [2]


@pytest.mark.parametrize("spec", [("session.update", {"archived": True}), ("session.terminate", {})])
def test_nobody_is_woken_on_a_branch_whose_session_is_over(journal: Journal, spec: Spec) -> None:
    recorded(journal, "s", wake())
    journal.branch("s", 2, "a")
    journal.branch("s", 2, "z")
    assert [str(one.name) for one in of_journal(journal)] == ["s", "s/a", "s/z"]
    with journal.session("s/a") as a:
        a.terminate()
    assert [str(one.name) for one in of_journal(journal)] == ["s", "s/z"]
    with journal.session("s") as s:
        fill(s, spec)
    assert not list(of_journal(journal))


def test_a_branch_from_an_archived_time_is_woken_when_its_session_is_back(journal: Journal) -> None:
    recorded(journal, "s", wake(), ("session.update", {"archived": True}))
    journal.branch("s", 3, "b")
    with journal.session("s") as s:
        s.unarchive()
    assert [str(one.name) for one in of_journal(journal)] == ["s", "s/b"]


def test_gj_wakes(gj: Gj, place: Path) -> None:
    journal = gitjournal.init(place)
    assert gj("wakes").stderr == "gj: no wake waits\n"
    recorded(journal, "a", wake(LATER, "later"), wake(PAST, "now", note="look\x1b[2J", priority="high"))
    recorded(journal, "b", wake(PAST, "also now"))
    table = [line.split() for line in gj("wakes").stdout.splitlines()]
    assert [row[2:5] for row in table[1:]] == [["high", "a", "@3"], ["normal", "b", "@2"], ["normal", "a", "@2"]]
    listed = [json.loads(line) for line in gj("wakes", "--json").stdout.splitlines()]
    assert [(one["name"], one["seq"]) for one in listed] == [("a", 3), ("b", 2), ("a", 2)]
    due = [json.loads(line) for line in gj("wakes", "--due", "--json").stdout.splitlines()]
    assert [(one["name"], one["seq"], one["priority"]) for one in due] == [("a", 3, "high"), ("b", 2, "normal")]
    assert [json.loads(line)["seq"] for line in gj("wakes", "a", "--json").stdout.splitlines()] == [3, 2]
    assert [json.loads(line)["seq"] for line in gj("wakes", "a@2", "--json").stdout.splitlines()] == [2]
    assert "\x1b" not in gj("wakes").stdout
    with journal.session("a") as session:
        fill(session, ("session.interrupt", {}))
    assert gj("wakes", "a", "--due").stderr == "gj: no wake is due\n"


def test_sessions_in_which_the_index_knows_no_wake_are_not_read(
    gj: Gj, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = gitjournal.init(place)
    recorded(journal, "a", said("x"))
    recorded(journal, "b", said("x"))
    journal.branch("b", 2, "c")
    recorded(journal, "b/c", wake())
    gj("sessions")
    folded: list[str] = []
    events = Journal.events
    monkeypatch.setattr(
        Journal, "events", lambda self, name, **at: folded.append(str(name)) or events(self, name, **at)
    )
    assert [json.loads(line)["name"] for line in gj("wakes", "--json").stdout.splitlines()] == ["b/c"]
    assert sorted(folded) == ["b", "b/c"]


def test_one_damaged_session_does_not_hide_the_wakes_of_the_others(gj: Gj, place: Path) -> None:
    journal = gitjournal.init(place)
    recorded(journal, "a", wake())
    recorded(journal, "b", wake())
    (place / "refs" / "heads" / "a" / "main").write_text("1" * 40 + "\n")
    result = gj("wakes", "--json", ok=False)
    assert result.exit_code == 1
    assert [json.loads(line)["name"] for line in result.stdout.splitlines()] == ["b"]
    assert "a: [missing-object]" in result.stderr
    with pytest.raises(JournalError):
        list(of_journal(gitjournal.open(place)))
