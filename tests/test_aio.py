"""The asyncio form of a session: the same names, in order, and nothing half done when a task is cancelled."""

from __future__ import annotations

import asyncio
import inspect
import threading
import time
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from gitjournal import aio
from gitjournal.aio import AsyncSession
from gitjournal.compact import acompact, compact
from gitjournal.errors import ConflictError, LeaseHeld, NotFound, Refused, UsageError
from gitjournal.journal import Journal
from gitjournal.resume import aresume
from gitjournal.session import Session
from gitjournal.state import fold
from gitjournal.state_form import Entry

Agent = Callable[[AsyncSession], Coroutine[Any, Any, None]]


def run(journal: Journal, agent: Agent) -> None:
    async def main() -> None:
        async with journal.asession("s", source="console") as s:
            await agent(s)

    asyncio.run(main())


def kinds(journal: Journal) -> list[str]:
    return [event.type for event in journal.events("s", after=1)]


def is_free(journal: Journal) -> bool:
    try:
        journal.session("s").close()
    except LeaseHeld:
        return False
    return True


def test_an_agent_in_asyncio_writes_what_one_without_does(journal: Journal) -> None:
    async def agent(s: AsyncSession) -> None:
        assert (await s.user("hi")).seq == 2 and s.head.seq == 2 and s.name.session == "s" and s.epoch == 1
        async with s.turn("t1") as turn:
            assert turn.id == "t1"
            await s.model_response("I look.", usage={"input_tokens": 3})
            async with s.tool_call("shell", {"command": "ls"}) as call:
                await call.result("a.py")
            assert call.name == "shell"
            waiting = await s.tool_call("ask", id="c", requires="confirmation")
            await s.confirm("c", False)
            await waiting.result("no", is_error=True, code="denied")
            await turn.end("completed")
        await s.append("x.mine", {"n": 1})
        await s.flush()
        assert s.chain.event(2).actor == "user"

    run(journal, agent)
    assert kinds(journal) == [
        "message", "turn.start", "model.response", "tool.call", "tool.result", "tool.call", "tool.confirmation",
        "tool.result", "turn.end", "x.mine",
    ]  # fmt: skip
    state = fold(journal.events("s"))
    assert not state.open_calls and not state.odd and state.last_turn is not None
    assert [event.turn for event in journal.events("s", after=2)] == ["t1"] * 8 + [None]
    assert is_free(journal)


def test_every_public_name_of_a_session_is_there(journal: Journal) -> None:
    async def agent(s: AsyncSession) -> None:
        public = {name for name in dir(Session) if not name.startswith("_")} | {"name"}
        for name in public:
            found = getattr(s, name)
            assert callable(found) != (name in aio._AT_ONCE), name
        # What has a beginning and an end comes with one, and only that.
        returns = {
            name: str(inspect.signature(getattr(Session, name)).return_annotation) for name in public - aio._AT_ONCE
        }
        assert {name for name, kind in returns.items() if kind in ("ToolCall", "Turn")} == aio._SCOPES
        with pytest.raises(AttributeError):
            _ = s.nonsense

    run(journal, agent)


def test_events_of_one_task_and_of_many_keep_their_order(journal: Journal) -> None:
    async def agent(s: AsyncSession) -> None:
        async def task(name: str) -> None:
            for n in range(20):
                await s.append("x.mine", {"task": name, "n": n})

        await asyncio.gather(*(task(name) for name in "abc"))
        # Begun in this order, without waiting.
        await asyncio.gather(*(s.append("x.mine", {"task": "d", "n": n}) for n in range(20)))

    run(journal, agent)
    for name in "abcd":
        assert [e.data["n"] for e in journal.events("s", after=1) if e.data["task"] == name] == list(range(20))


def test_the_event_loop_goes_on_while_the_disk_is_slow(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    gate = threading.Event()
    real = Session.user
    monkeypatch.setattr(Session, "user", lambda self, text: gate.wait(30) and real(self, text))

    async def agent(s: AsyncSession) -> None:
        writing = asyncio.ensure_future(s.user("hi"))
        await asyncio.sleep(0.01)
        # Were the loop blocked, nobody could open the gate.
        assert not writing.done()
        gate.set()
        await writing

    run(journal, agent)
    assert kinds(journal) == ["message"]


def test_a_cancelled_task_leaves_what_it_began_and_ends_after_it(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = threading.Event()
    real = Session.user
    monkeypatch.setattr(Session, "user", lambda self, text: gate.wait(30) and real(self, text))

    async def agent(s: AsyncSession) -> None:
        writing = asyncio.ensure_future(s.user("hi"))
        for _ in range(3):
            await asyncio.sleep(0.01)
            writing.cancel()
        await asyncio.sleep(0.01)
        assert not writing.done()
        gate.set()
        with pytest.raises(asyncio.CancelledError):
            await writing
        assert s.head.seq == 2
        await s.append("x.mine", {})

    run(journal, agent)
    assert kinds(journal) == ["message", "x.mine"]


def test_a_cancelled_agent_leaves_its_call_open_and_its_turn_canceled(journal: Journal) -> None:
    async def agent(s: AsyncSession) -> None:
        async with s.turn(), s.tool_call("sleep", id="c"):
            await asyncio.sleep(3600)

    async def main() -> None:
        async def work() -> None:
            async with journal.asession("s", source="console") as s:
                await agent(s)

        task = asyncio.create_task(work())
        while not any(event.type == "tool.call" for event in events()):
            await asyncio.sleep(0.005)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    def events() -> list[Any]:
        try:
            return list(journal.events("s"))
        except NotFound:
            return []

    asyncio.run(main())
    state = fold(journal.events("s"))
    assert [call["id"] for call in state.open_calls] == ["c"]
    assert state.last_turn is not None and state.last_turn["outcome"] == "canceled"
    assert is_free(journal)


@pytest.mark.parametrize("kind", ["turn", "tool_call"])
def test_cancelled_while_a_turn_or_call_begins_it_ends_as_if_it_had_begun(
    journal: Journal, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    gate = threading.Event()
    real = getattr(Session, kind)
    monkeypatch.setattr(Session, kind, lambda self, *args: gate.wait(30) and real(self, *args))

    async def agent(s: AsyncSession) -> None:
        async def work() -> None:
            async with s.turn() if kind == "turn" else s.tool_call("shell"):
                raise AssertionError("unreachable")

        task = asyncio.create_task(work())
        await asyncio.sleep(0.01)
        task.cancel()
        await asyncio.sleep(0.01)
        gate.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        await s.user("free of it")
        async with s.turn():
            pass

    run(journal, agent)
    state = fold(journal.events("s"))
    assert len(state.open_calls) == (kind == "tool_call") and state.open_turn is None and not state.odd
    begun = "turn.start", "turn.end"
    assert kinds(journal) == [*(begun if kind == "turn" else ["tool.call"]), "message", *begun]
    assert journal.event("s", journal.head("s").seq - 2).turn is None


def test_a_timeout_around_an_append_is_told_and_the_session_goes_on(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Session.user

    def slow(self: Session, text: str) -> Any:
        time.sleep(0.05)
        return real(self, text)

    monkeypatch.setattr(Session, "user", slow)

    async def agent(s: AsyncSession) -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await s.user("hi")
        await s.append("x.mine", {})

    run(journal, agent)
    assert kinds(journal) == ["message", "x.mine"]


def test_cancelled_while_it_opens_gives_the_lease_back(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    gate = threading.Event()
    real = journal.session
    monkeypatch.setattr(journal, "session", lambda *args, **named: gate.wait(30) and real(*args, **named))

    async def main() -> None:
        async def work() -> None:
            async with journal.asession("s", source="console"):
                raise AssertionError("unreachable")

        task = asyncio.create_task(work())
        await asyncio.sleep(0.01)
        task.cancel()
        await asyncio.sleep(0.01)
        gate.set()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert is_free(journal)


def test_errors_come_to_who_waits(journal: Journal) -> None:
    with pytest.raises(UsageError, match="object"):
        run(journal, failing)
    assert kinds(journal)[-1] == "turn.end" and is_free(journal)


async def failing(s: AsyncSession) -> None:
    with pytest.raises(UsageError, match="nobody"):
        await s.tool_result("nobody", 1)
    with pytest.raises(ValueError, match="odd"):
        async with s.tool_call("t", id="c"):
            raise ValueError("odd")
    async with s.turn(), s.tool_call("t", {"x": object()}, id="d"):
        raise AssertionError("unreachable")


def test_a_session_is_opened_once_and_used_while_it_is_open(journal: Journal) -> None:
    async def main() -> None:
        session = journal.asession("s", source="console")
        with pytest.raises(UsageError, match="not open"):
            _ = session.user
        async with session as s:
            with pytest.raises(UsageError, match="once"):
                await s.__aenter__()
        with pytest.raises(UsageError, match="closed"):
            await session.user("late")
        assert session.head.seq == 1
        with pytest.raises(NotFound):
            async with journal.asession("nobody"):
                pass

    asyncio.run(main())
    for thread in threading.enumerate():
        if thread.name.startswith("gitjournal-asyncio"):
            # It ends by itself.
            thread.join()


# --- compact and resume --------------------------------------------------------------------------


async def said_four_times(s: AsyncSession) -> None:
    for text in "abcd":
        await s.user(text)


def test_compact_in_asyncio_writes_what_it_does_without(journal: Journal) -> None:
    seen: list[str] = []

    async def asked(entries: list[Entry]) -> str:
        assert threading.current_thread() is threading.main_thread()
        await asyncio.sleep(0)
        seen.extend(entry["parts"][0]["content"] for entry in entries)
        return " asked "

    async def agent(s: AsyncSession) -> None:
        await said_four_times(s)
        assert (await acompact(s, asked, keep=2))[1:] == (2, 2)
        assert (await acompact(s, lambda entries: f"{len(entries)} said", from_seq=4, to_seq=4))[1:] == (1, 2)
        assert (await acompact(s, "S", keep=0))[1:] == (3, 0)
        with pytest.raises(UsageError, match="nothing to compact"):
            await acompact(s, "S", keep=9)
        with pytest.raises(UsageError, match="text, not int"):
            await acompact(s, lambda entries: 3, keep=0)  # type: ignore[arg-type,return-value]
        assert (await acompact(s, None, keep=0)).removed == 1

    run(journal, agent)
    written = [event.data for event in journal.events("s") if event.type == "context.compaction"]
    assert seen == ["a", "b"] and [data.get("summary") for data in written] == ["asked", "1 said", "S", None]
    with journal.session("t", source="console") as s:
        for text in "abcd":
            s.user(text)
        compact(s, "asked", keep=2)
    assert journal.event("t", 6).data == written[0]


def test_while_a_summary_is_made_the_session_goes_on_and_a_compaction_of_less_is_refused(journal: Journal) -> None:
    async def agent(s: AsyncSession) -> None:
        async def slow(entries: list[Entry]) -> str:
            await s.user("meanwhile")
            return "S"

        await said_four_times(s)
        with pytest.raises(ConflictError):
            await acompact(s, slow, keep=1)

    run(journal, agent)
    assert kinds(journal) == ["message"] * 5


def test_cancelled_while_a_summary_is_made_nothing_is_compacted(journal: Journal) -> None:
    async def agent(s: AsyncSession) -> None:
        begun = asyncio.Event()

        async def endless(entries: list[Entry]) -> str:
            begun.set()
            await asyncio.Event().wait()
            raise AssertionError("unreachable")

        await said_four_times(s)
        work = asyncio.create_task(acompact(s, endless, keep=1))
        await begun.wait()
        work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await work
        await s.append("x.mine", {})

    run(journal, agent)
    assert kinds(journal) == [*["message"] * 4, "x.mine"]


def test_resume_in_asyncio_closes_what_is_open_beside_the_loop(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    with journal.session("s", source="console") as s:
        s.tool_call("shell", id="c1")
        with pytest.raises(LeaseHeld):
            asyncio.run(aresume(journal, "s"))
    threads: list[threading.Thread] = []
    real = journal.session

    def session(*args: Any, **named: Any) -> Session:
        threads.append(threading.current_thread())
        return real(*args, **named)

    monkeypatch.setattr(journal, "session", session)
    assert [call["id"] for call in asyncio.run(aresume(journal, "s")).closed] == ["c1"]
    assert not asyncio.run(aresume(journal, "s")).closed and threading.main_thread() not in threads
    with pytest.raises(Refused, match="another project"):
        asyncio.run(aresume(fresh(journal), "p", project="/elsewhere"))


def fresh(journal: Journal) -> Journal:
    with journal.session("p", source="console", project="/p"):
        return journal


def test_a_resume_that_is_cancelled_is_done_first(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    with journal.session("s", source="console") as s:
        s.tool_call("shell", id="c1")
    gate, begun = threading.Event(), threading.Event()
    real = journal.session

    def session(*args: Any, **named: Any) -> Session:
        begun.set()
        assert gate.wait(60)
        return real(*args, **named)

    monkeypatch.setattr(journal, "session", session)

    async def main() -> None:
        work = asyncio.create_task(aresume(journal, "s"))
        while not begun.is_set():
            await asyncio.sleep(0.005)
        work.cancel()
        await asyncio.sleep(0.01)
        assert not work.done()
        gate.set()
        with pytest.raises(asyncio.CancelledError):
            await work

    asyncio.run(main())
    assert not fold(journal.events("s")).open_calls and is_free(journal)


def test_work_with_the_session_itself_is_done_in_its_turn(journal: Journal) -> None:
    async def agent(s: AsyncSession) -> None:
        work = s.run(lambda session: session.append("x.mine", {"n": 1}))
        _, done = await asyncio.gather(s.append("x.mine", {"n": 0}), work)
        assert done == s.head

    run(journal, agent)
    assert [event.data["n"] for event in journal.events("s", after=1)] == [0, 1]
    with pytest.raises(UsageError, match="not open"):
        asyncio.run(journal.asession("s").run(lambda session: session.head))
