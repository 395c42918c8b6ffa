"""`resume`: after a crash at any place the session is whole again, nothing was run, and doing it twice adds nothing."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from spoken import Spec, answer, asked, call, fill, gaps, response, said, turn
from support import Gj

import gitjournal
from gitjournal.errors import LeaseHeld, NotFound, Refused
from gitjournal.event import Event
from gitjournal.journal import Journal
from gitjournal.refs import Name
from gitjournal.resume import LOST, Resumed, resume
from gitjournal.session import Session
from gitjournal.state import SessionState, fold

COMPLETE: tuple[Spec, ...] = (
    turn("start", "t1"),
    said("count the lines"),
    asked("a", "b", text="I look."),
    call("a"),
    answer("a"),
    call("b", requires="confirmation"),
    ("tool.confirmation", {"id": "b", "approved": True}),
    answer("b"),
    response("Two files."),
    turn("end", "t1", outcome="completed"),
    turn("start", "t2"),
    said("and the size?"),
    call("c"),
    call("d", requires="result"),
    answer("d"),
    answer("c"),
    ("context.compaction", {"summary": "two files", "keep_last": 5}),
    response("12 kB."),
    turn("end", "t2", outcome="completed"),
    call("e", requires="confirmation"),
    ("tool.confirmation", {"id": "e", "approved": False}),
    answer("e", code="denied", is_error=True),
    response("Then not."),
)


def recorded(journal: Journal, *specs: Spec, name: str = "s", **start: Any) -> Journal:
    with journal.session(name, create=True, **start) as session:
        fill(session, *specs)
    return journal


def events(journal: Journal, name: str = "s") -> list[Event]:
    return list(journal.events(name))


def state(journal: Journal, name: str = "s") -> SessionState:
    return fold(journal.events(name))


def files(journal: Journal) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in sorted(journal.path.rglob("*")) if path.is_file()}


# --- the crash matrix ----------------------------------------------------------------------------


def test_cut_at_every_position_it_is_whole_after_one_resume_and_equal_after_two(journal: Journal) -> None:
    recorded(journal, *COMPLETE)
    for seq in range(1, len(COMPLETE) + 2):
        branch = journal.branch("s", seq, f"cut-{seq}")
        before = fold(journal.events(branch))
        first = resume(journal, branch)
        once = events(journal, str(branch))
        second = resume(journal, branch)
        assert events(journal, str(branch)) == once, "the second resume added something"
        assert (second.closed, second.turn, second.head) == ((), None, first.head)
        after = fold(once)
        assert after.odd == [] and after.unmatched_results == 0
        assert after.open_turn is None
        assert [one["id"] for one in first.closed] + [one["id"] for one in first.waiting] == sorted(
            one["id"] for one in before.open_calls
        )
        assert [one["id"] for one in after.open_calls] == [one["id"] for one in first.waiting]
        assert gaps(after.context) == []
        assert after.history[: len(before.history)] == before.history


STEPS = ["say", "respond", "ask one", "ask two", "call", "first result", "last result"]


def played(steps: list[str]) -> list[Spec]:
    """What an agent writes that crashes now and then and goes on without a resume: some calls stay open."""
    out: list[Spec] = []
    waiting: list[str] = []
    for number, step in enumerate(steps):
        keys = [f"{number}a", f"{number}b"]
        if step in ("say", "respond"):
            out.append(said("m") if step == "say" else response("r"))
            waiting = []
        elif step.startswith("ask"):
            waiting = keys if step == "ask two" else keys[:1]
            out.append(asked(*waiting))
        elif step == "call":
            # After a result it is a new round: what has none by then never gets one.
            waiting = [*waiting, keys[0]] if out and out[-1][0] != "tool.result" else keys[:1]
            out.append(call(keys[0]))
        elif waiting:
            out.append(answer(waiting.pop(0 if step == "first result" else -1)))
    return out


@settings(max_examples=100, deadline=None)
@given(steps=st.lists(st.sampled_from(STEPS), max_size=16))
def test_whatever_stayed_open_the_context_is_valid_after_a_resume(
    tmp_path_factory: pytest.TempPathFactory, steps: list[str]
) -> None:
    journal = recorded(gitjournal.init(tmp_path_factory.mktemp("j") / "journal"), *played(steps))
    resume(journal, "s")
    after = state(journal)
    assert (after.open_calls, gaps(after.context), after.odd) == ([], [], [])
    assert len(after.context) == len(after.history)
    assert not resume(journal, "s").closed


# --- what it writes ------------------------------------------------------------------------------


def test_results_say_that_nobody_knows_and_the_turn_is_interrupted(journal: Journal) -> None:
    recorded(journal, turn("start", "t"), said("go"), asked("a", "b"), answer("a"))
    done = resume(journal, "s")
    assert isinstance(done, Resumed) and done.turn == "t" and [one["id"] for one in done.closed] == ["b"]
    result, end = events(journal)[-2:]
    lost = {"id": "b", "is_error": True, "code": "interrupted", "response": LOST}
    assert (result.type, result.data, result.turn, result.actor) == ("tool.result", lost, "t", "host")
    assert (end.type, end.data, end.turn) == ("turn.end", {"outcome": "interrupted"}, "t")
    assert state(journal).status(False) == ("idle", "interrupted", ())


def test_result_stands_behind_its_call_also_when_somebody_spoke_before_the_resume(journal: Journal) -> None:
    recorded(journal, asked("a", "b"), answer("a"), said("hello?"))
    resume(journal, "s")
    assert [entry["seq"] for entry in state(journal).context] == [2, 3, 5, 4]


def test_what_waits_for_a_person_or_for_somebody_outside_stays_open(journal: Journal) -> None:
    recorded(journal, call("a", requires="confirmation"), call("b", requires="result"), call("c"))
    done = resume(journal, "s")
    assert ([one["id"] for one in done.closed], [one["id"] for one in done.waiting]) == (["c"], ["a", "b"])
    assert state(journal).status(False).blocking == ("a", "b")
    with journal.session("s") as session:
        fill(session, ("session.interrupt", {}))
    assert [one["id"] for one in resume(journal, "s").closed] == ["a", "b"]


def test_call_that_was_allowed_may_have_run_and_one_that_was_refused_has_not(journal: Journal) -> None:
    def confirm(key: str, approved: bool) -> Spec:
        return "tool.confirmation", {"id": key, "approved": approved}

    specs = (
        call("a", requires="confirmation"),
        call("b", requires="confirmation"),
        confirm("a", True),
        confirm("b", False),
    )
    recorded(journal, *specs)
    resume(journal, "s")
    assert [(one.data["id"], one.data["code"]) for one in events(journal)[-2:]] == [
        ("a", "interrupted"),
        ("b", "denied"),
    ]
    assert gaps(state(journal).context) == []


def test_more_open_calls_than_one_batch_holds(journal: Journal) -> None:
    recorded(journal, turn("start", "t"), *(call(f"c{number}") for number in range(4200)))
    assert len(resume(journal, "s").closed) == 4200
    assert (state(journal).open_calls, state(journal).open_turn) == ([], None)
    assert not resume(journal, "s").closed


# --- refusals ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (
            ("session.update", {"archived": True}),
            r"^Session is archived; unarchive it before resuming: gj unarchive s$",
        ),
        (("session.terminate", {}), "^Session is terminated"),
    ],
)
def test_archived_or_terminated_is_refused_and_nothing_written(journal: Journal, spec: Spec, message: str) -> None:
    recorded(journal, call("a"), spec)
    before = files(journal)
    with pytest.raises(Refused, match=message):
        resume(journal, "s")
    assert files(journal) == before


def test_what_the_trunk_says_counts_for_its_branches(journal: Journal) -> None:
    recorded(journal, call("a"), ("session.update", {"archived": True}))
    journal.branch("s", 3, "b")
    for _ in range(2):
        with pytest.raises(Refused, match=r"gj unarchive s$"):
            resume(journal, "s/b")
    with journal.session("s") as s:
        s.unarchive()
    # The branch has inherited the word of its trunk, not the trunk's change of mind.
    assert state(journal, "s/b").archived and resume(journal, "s/b").closed
    with journal.session("s/b") as b:
        b.terminate()
    assert resume(journal, "s").closed
    with pytest.raises(Refused, match="terminated") as refused:
        resume(journal, "s/b")
    assert f"gj fork s/b@{journal.head('s/b').seq - 1} NEW" in str(refused.value.hint)
    journal.branch("s", 2, "c")
    with journal.session("s") as s:
        s.terminate()
    with pytest.raises(Refused, match="terminated") as refused:
        resume(journal, "s/c")
    # What is there of the branch that was asked for, not what came before the end of another one.
    assert "gj fork s/c NEW" in str(refused.value.hint)


def test_another_project_is_refused_and_nothing_written(journal: Journal, tmp_path: Path) -> None:
    root, other = tmp_path / "a", tmp_path / "b"
    root.mkdir()
    recorded(journal, call("a"), project=str(root))
    before = files(journal)
    for wrong in (other, root / "below", tmp_path, "", "\0"):
        with pytest.raises(Refused, match=rf"^Session belongs to another project; its root is {root}$"):
            resume(journal, "s", project=wrong)
    assert files(journal) == before
    (tmp_path / "link").symlink_to(root)
    assert resume(journal, "s", project=tmp_path / "link").closed
    resume(journal, "s", project=str(root) + "/.")
    resume(journal, "s")


def test_session_without_a_project_belongs_to_all(journal: Journal, tmp_path: Path) -> None:
    recorded(journal, call("a"))
    assert resume(journal, "s", project=tmp_path).closed


def test_no_such_session(journal: Journal) -> None:
    with pytest.raises(NotFound):
        resume(journal, "nobody")


def test_unarchived_it_goes_on(journal: Journal) -> None:
    recorded(journal, call("a"), ("session.update", {"archived": True}), ("session.update", {"archived": False}))
    assert resume(journal, "s").closed


def test_what_another_process_did_before_the_lease_was_free_counts(journal: Journal) -> None:
    recorded(journal, call("a"), call("b"))

    def after(*specs: Spec) -> Callable[[Name], Session]:
        def opened(name: Name) -> Session:
            with journal.session(name) as other:
                fill(other, *specs)
            return journal.session(name)

        return opened

    assert [one["id"] for one in resume(journal, "s", opened=after(answer("a"))).closed] == ["b"]
    with pytest.raises(Refused, match="archived"):
        resume(journal, "s", opened=after(("session.update", {"archived": True})))


# --- processes -----------------------------------------------------------------------------------

_AGENT = """
import gitjournal, sys, time
session = gitjournal.open(sys.argv[1]).session("s", create=True, source="console")
session.user("count the lines")
session.tool_call("shell", {"command": "wc -l"}, id="a")
print("running", flush=True)
time.sleep(600)
"""


def test_killed_between_call_and_result_the_lease_is_free_and_the_call_closed_once(journal: Journal) -> None:
    command = [sys.executable, "-c", _AGENT, str(journal.path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as agent:
        assert agent.stdout is not None and agent.stdout.readline() == "running\n"
        assert state(journal).status(True).status == "running"
        before = events(journal)
        with pytest.raises(LeaseHeld, match=rf"process {agent.pid} on \S+ since \S+Z"):
            resume(journal, "s")
        assert events(journal) == before
        agent.kill()
    assert state(journal).status(False) == ("idle", "interrupted", ())
    assert [one["id"] for one in resume(journal, "s").closed] == ["a"]
    assert not resume(journal, "s").closed
    assert [entry["kind"] for entry in state(journal).context] == ["message", "tool.call", "tool.result"]


def test_killed_while_it_resumes_the_next_one_finishes(journal: Journal) -> None:
    """The results of one resume are one write: all are there, or none."""
    recorded(journal, turn("start", "t"), *(call(f"c{number}") for number in range(50)))
    whole = len(events(journal))
    code = (
        "import gitjournal, os, sys\n"
        "from gitjournal import resume\n"
        "journal = gitjournal.open(sys.argv[1])\n"
        "resume._result_of = resume._result\n"
        "def cut(call):\n"
        "    if call['id'] == 'c30': os._exit(9)\n"
        "    return resume._result_of(call)\n"
        "resume._result = cut\n"
        "resume.resume(journal, 's')\n"
    )
    assert subprocess.run([sys.executable, "-c", code, str(journal.path)], check=False).returncode == 9
    assert len(events(journal)) == whole
    assert len(resume(journal, "s").closed) == 50


# --- the command ---------------------------------------------------------------------------------


def test_a_call_whose_id_no_event_can_say_stays_open_and_is_named(gj: Gj, place: Path) -> None:
    journal = gitjournal.init(place)
    odd = {"$gj:json": '"a\\ud800b"'}
    parts = [{"type": "tool_call", "id": one, "name": "sh", "arguments": {}} for one in (odd, "good")]
    with journal.session("s", create=True, epoch=1, salted=False) as s:
        s.append("model.response", {"parts": parts}, actor="assistant")
    done = gj("resume", "s")
    assert "closed @2 sh (good)" in done.stdout and "s@3 is ready" in done.stdout
    assert done.stderr == "gj: @2 sh (a\\ud800b) stays open: its id is of an import, and no new event can say it\n"
    again = gj("resume", "s", "--json")
    assert json.loads(again.stdout)["left"] == [{"id": "a\ud800b", "name": "sh", "seq": 2}]
    assert "nothing was open" not in gj("resume", "s").stdout and journal.head("s").seq == 3


def test_gj_resume_says_what_it_closed(gj: Gj, place: Path) -> None:
    waits = call("b", name="ask", requires="confirmation")
    recorded(gitjournal.init(place), turn("start", "t1"), asked("a"), waits, project=str(Path.cwd()))
    shown = gj("resume", "s").stdout.splitlines()
    assert shown == [
        "closed @3 shell (a): interrupted, outcome unknown",
        "ended turn t1: interrupted",
        "waits on @4 ask (b) for a confirmation",
        "s@6 is ready",
    ]
    found = json.loads(gj("resume", "s", "--json").stdout)
    assert found["closed"] == [] and found["turn"] is None and found["seq"] == 6
    assert found["waiting"] == [{"id": "b", "name": "ask", "seq": 4, "requires": "confirmation"}]
    assert "nothing was open\n" in gj("resume", "s").stdout


def test_gj_resume_goes_by_the_folder_it_is_started_in(
    gj: Gj, place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "project"
    (root / "below").mkdir(parents=True)
    recorded(gitjournal.init(place), call("a"), project=str(root))
    refused = gj("resume", "s", ok=False)
    assert refused.exit_code == 1 and f"its root is {root}\n" in refused.stderr and "hint:" in refused.stderr
    assert gj("resume", "s", "--project", tmp_path, ok=False).exit_code == 1
    monkeypatch.chdir(root / "below")
    assert "closed @2" in gj("resume", "s").stdout
    assert gj("resume", "s", "--project", root).exit_code == 0


def test_gj_resume_of_an_archived_session_an_event_and_a_half_name(gj: Gj, place: Path) -> None:
    recorded(gitjournal.init(place), ("session.update", {"archived": True}), name="session")
    refused = gj("resume", "session", ok=False)
    assert refused.exit_code == 1
    assert refused.stderr == "gj: Session is archived; unarchive it before resuming: gj unarchive session\n"
    assert gj("resume", "session@1", ok=False).exit_code == 2
    assert gj("resume", "sess", ok=False).exit_code == 4, "nothing is written to a session that was only nearly named"


def test_commands_that_it_names_can_be_typed_as_they_are(gj: Gj, place: Path) -> None:
    journal = recorded(gitjournal.init(place), ("session.update", {"archived": True}), name="we ird")
    assert gj("resume", "we ird", ok=False).stderr.endswith("resuming: gj unarchive 'we ird'\n")
    with journal.session("we ird") as session:
        session.terminate()
    assert gj("resume", "we ird", ok=False).stderr.endswith(" gj fork 'we ird@2' NEW\n")


def test_gj_resume_names_the_holder(gj: Gj, place: Path) -> None:
    journal = gitjournal.init(place)
    with subprocess.Popen([sys.executable, "-c", _AGENT, str(place)], stdout=subprocess.PIPE, text=True) as agent:
        assert agent.stdout is not None and agent.stdout.readline() == "running\n"
        refused = gj("resume", "s", ok=False)
        agent.kill()
    assert refused.exit_code == 1 and f"is being written by process {agent.pid} on " in refused.stderr
    assert events(journal)[-1].type == "tool.call"


def test_what_a_call_is_named_cannot_control_the_terminal(gj: Gj, place: Path) -> None:
    evil = "\x1b[2J\nx"
    recorded(gitjournal.init(place), call(evil, name=evil), turn("start", "t"))
    assert "\x1b" not in gj("resume", "s").stdout
