"""A second process: what it says counts only where it has said all, and it never stays behind."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, nullcontext
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from test_verify import Attack, in_two_processes

import gitjournal
from gitjournal import aside, chain
from gitjournal.ahead import Ahead, reading
from gitjournal.aside import Aside, Send
from gitjournal.errors import JournalError
from gitjournal.event import Event
from gitjournal.journal import Journal
from gitjournal.state import fold

VERIFY = sys.modules["gitjournal.verify"]
TEXTS = ["short", "x" * 3000, "long " * 60_000]


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    """Three packs, texts of all sizes, a side file, and a tail."""
    journal = gitjournal.init(tmp_path / "journal")
    with journal.session("s", create=True) as session:
        for number in range(240):
            text = TEXTS[0 if number % 40 else number // 40 % 3]
            session.append("message", {"role": "user", "parts": [{"type": "text", "content": f"{number} {text}"}]})
            if number % 100 == 50:
                session.flush()
        session.append("message", {"role": "user", "parts": [{"type": "text", "content": "in the tail"}]})
    return journal


@pytest.fixture
def possible(monkeypatch: pytest.MonkeyPatch) -> None:
    """A second process wherever the tests run, and for short lines."""
    monkeypatch.setattr(aside, "is_possible", lambda: True)
    monkeypatch.setattr(VERIFY, "_LONG", 1)
    monkeypatch.setattr(chain, "_LONG", 1)


def raws(events: Iterator[Event]) -> list[tuple[bytes, str]]:
    return [(event.raw, str(event.data)) for event in events]


def is_gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


# --- the process ---------------------------------------------------------------------------------


def test_a_process_answers_what_it_is_told() -> None:
    def double(messages: Iterator[Any], answer: Send) -> None:
        for number in messages:
            answer((2 * number, b"x" * number, os.getpid()))

    with Aside(double) as work:
        answers = work.answers()
        for number in (1, 200_000, 3):
            assert work.tell(number)
            twice, text, pid = next(answers)
            assert (twice, len(text)) == (2 * number, number) and pid != os.getpid()
        work.hang_up()
        assert list(answers) == []
    assert is_gone(pid)


def test_a_work_that_fails_says_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    def fail(messages: Iterator[Any], answer: Send) -> None:
        answer(next(messages))
        raise KeyError("x")

    with Aside(fail) as work:
        assert work.tell("begun")
        work.hang_up()
        assert list(work.answers()) == ["begun"]
    assert capfd.readouterr() == ("", "")


def test_who_tells_a_process_that_has_died_is_told_so() -> None:
    with Aside(lambda _messages, _answer: os.kill(os.getpid(), signal.SIGKILL)) as work:
        assert list(work.answers()) == []
        while work.tell(b"x" * 100_000):
            pass
        assert not work.tell(1)


def test_a_process_that_is_not_waited_for_is_ended() -> None:
    def chat(messages: Iterator[Any], answer: Send) -> None:
        answer(os.getpid())
        while True:
            answer(b"x" * 100_000)

    with Aside(chat) as work:
        pid = next(work.answers())
    assert is_gone(pid)


def test_a_message_that_is_cut_ends_the_answers() -> None:
    pipe = BytesIO()
    for message in (b"whole", [1, ("a", None)], b"cut"):
        aside._send(pipe, message)
    text = pipe.getvalue()
    for end in range(1, 8):
        assert list(aside._messages(BytesIO(text[:-end]))) == [b"whole", [1, ("a", None)]]


def test_a_process_of_several_threads_is_not_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1}, raising=False)
    monkeypatch.setattr(threading, "active_count", lambda: 1)
    assert aside.is_possible()
    monkeypatch.setattr(threading, "active_count", lambda: 2)
    assert not aside.is_possible()


def test_one_processor_does_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threading, "active_count", lambda: 1)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0}, raising=False)
    assert not aside.is_possible()


# --- reading ahead -------------------------------------------------------------------------------


@pytest.mark.usefixtures("possible")
def test_events_that_were_read_ahead_are_the_events(journal: Journal) -> None:
    alone = raws(journal.events("s"))
    fresh = gitjournal.open(journal.path)
    with reading(fresh.store):
        assert isinstance(fresh.store.ahead, Ahead)
        for after, to in ((0, None), (17, 160), (0, None)):
            assert raws(fresh.events("s", after, to)) == alone[after:to]
    assert fresh.store.ahead is None


@pytest.mark.usefixtures("possible")
def test_a_reader_is_for_one_at_a_time(journal: Journal) -> None:
    alone = raws(journal.events("s"))
    with reading(journal.store):
        events = journal.events("s")
        begun = [next(events) for _ in range(3)]
        assert raws(journal.events("s")) == alone
        assert raws(iter([*begun, *events])) == alone


@pytest.mark.usefixtures("possible")
def test_who_stops_reading_in_the_middle_leaves_no_process(journal: Journal) -> None:
    with reading(journal.store):
        ahead = journal.store.ahead
        assert ahead is not None
        pid = ahead._aside._pid
        with closing(journal.events("s")) as events:  # type: ignore[type-var]
            next(events)
        assert len(raws(journal.events("s"))) == 242
    assert is_gone(pid)


@pytest.mark.usefixtures("possible")
def test_a_reader_that_dies_is_done_without(journal: Journal) -> None:
    alone = raws(journal.events("s"))
    with reading(journal.store):
        ahead = journal.store.ahead
        assert ahead is not None
        events = journal.events("s")
        begun = [next(events) for _ in range(5)]
        os.kill(ahead._aside._pid, signal.SIGKILL)
        assert raws(iter([*begun, *events])) == alone
        assert raws(journal.events("s")) == alone


@pytest.mark.usefixtures("possible")
def test_another_thread_reads_by_itself(journal: Journal) -> None:
    alone, found = raws(journal.events("s")), []
    with reading(journal.store):
        thread = threading.Thread(target=lambda: found.append(raws(journal.events("s"))))
        thread.start()
        thread.join()
    assert found == [alone]


@pytest.mark.usefixtures("possible")
def test_a_damaged_event_is_refused_whoever_reads(journal: Journal) -> None:
    attack = Attack(journal.path)
    blob = attack.oid("s/main:0000/01/00000120.json")
    attack.loosen()
    attack.loose_path(blob).unlink()
    seen = []
    for helped in (False, True):
        fresh, count = gitjournal.open(journal.path), 0
        with reading(fresh.store) if helped else nullcontext(), pytest.raises(JournalError, match=blob):
            for event in fresh.events("s"):
                count = event.seq
        seen.append(count)
    assert seen == [119, 119]


@pytest.mark.usefixtures("possible")
def test_a_state_is_the_same_whoever_reads(journal: Journal) -> None:
    alone = fold(journal.events("s"))
    with reading(journal.store):
        assert fold(journal.events("s")) == alone


# --- verifying -----------------------------------------------------------------------------------


def test_a_long_line_is_verified_in_two_processes(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    begun = []
    monkeypatch.setattr(VERIFY, "Aside", lambda work: begun.append(Aside(work)) or begun[-1])
    alone = gitjournal.verify(journal, "s")
    assert not begun
    with in_two_processes():
        assert gitjournal.verify(journal, "s") == alone
    assert alone.ok and len(begun) == 1 and is_gone(begun[0]._pid)


@pytest.mark.parametrize("answers", [[], [b""], [b"\1" * 20], [b"", b""]])
def test_a_process_that_says_something_else_is_not_believed(
    journal: Journal, monkeypatch: pytest.MonkeyPatch, answers: list[bytes]
) -> None:
    attack = Attack(journal.path)
    gone = attack.oid("s/main~30^{tree}")
    attack.loosen()
    attack.loose_path(gone).unlink()
    alone = gitjournal.verify(attack.journal(), "s")
    assert [finding.code for finding in alone.findings] == ["missing-object"]
    monkeypatch.setattr(Aside, "answers", lambda _: iter(answers))
    with in_two_processes():
        assert gitjournal.verify(attack.journal(), "s") == alone


def test_no_process_to_be_had_is_no_error(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    def none() -> int:
        raise BlockingIOError("Resource temporarily unavailable")

    assert gitjournal.verify(journal, "s").ok
    open_files = len(os.listdir("/proc/self/fd")) if Path("/proc/self/fd").exists() else 0
    with in_two_processes(), monkeypatch.context() as patch:
        patch.setattr(os, "fork", none)
        assert gitjournal.verify(journal, "s").ok
        with reading(journal.store):
            assert journal.store.ahead is None
    assert open_files in (0, len(os.listdir("/proc/self/fd")))
