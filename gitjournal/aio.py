"""A session for asyncio: ``async with journal.asession("s1", source="console") as s: await s.user("hello")``.

Floor 3. Delegates: every method of `session.Session` under its own name, awaited. One thread of its own does the calls
of a session, in the order in which they were made, so the event loop never waits for the disk.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from gitjournal.errors import UsageError

if TYPE_CHECKING:
    from gitjournal.calls import ToolCall, Turn
    from gitjournal.session import Session

T = TypeVar("T")

#: What a session answers at once, without the disk.
_AT_ONCE = frozenset({"name", "head", "epoch", "chain", "set_aside"})
#: Methods whose value has a beginning and an end.
_SCOPES = frozenset({"tool_call", "turn"})
_OPEN_IT = "async with journal.asession(...) as s:"


def worker() -> ThreadPoolExecutor:
    """A thread of its own for calls, which are done in order."""
    return ThreadPoolExecutor(1, thread_name_prefix="gitjournal-asyncio")


async def finished(thread: ThreadPoolExecutor, work: Callable[[], T]) -> T:
    """What ``work`` returns in a thread; come back when it is done, cancelled or not."""
    future = asyncio.get_running_loop().run_in_executor(thread, work)
    cancelled: asyncio.CancelledError | None = None
    while not future.done():
        try:
            await asyncio.wait([future])
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        # Looked at, so that nobody is told that an error was never looked at.
        future.exception()
        raise cancelled
    return future.result()


class AsyncSession:
    """A branch open for writing, for one event loop; any number of its tasks may share it.

    A task that is cancelled while it waits for a call goes on (with CancelledError) when the call is done: what was
    begun is in the journal, in its place.
    """

    def __init__(self, open_session: Callable[[], Session]) -> None:
        self._open = open_session
        self._session: Session | None = None
        self._worker: ThreadPoolExecutor | None = None
        self._used = False

    async def __aenter__(self) -> AsyncSession:
        if self._used:
            raise UsageError("an asyncio session is opened once")
        self._used = True
        self._worker = worker()
        try:
            await self._run(self._begin)
        except BaseException:
            await self._end()
            raise
        return self

    def _begin(self) -> None:
        self._session = self._open()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._end(kind, error, trace)

    async def _end(
        self,
        kind: type[BaseException] | None = None,
        error: BaseException | None = None,
        trace: TracebackType | None = None,
    ) -> None:
        worker = self._worker
        try:
            if self._session is not None:
                await self._run(partial(self._session.__exit__, kind, error, trace))
        finally:
            self._worker = None
            if worker is not None:
                worker.shutdown(wait=False)

    async def _run(self, work: Callable[[], T]) -> T:
        """Do ``work`` in the session's thread, in its turn."""
        if self._worker is None:
            raise UsageError("the session is closed")
        return await finished(self._worker, work)

    async def run(self, work: Callable[[Session], T]) -> T:
        """Do ``work`` with the session itself, in its thread and in its turn: what takes a `Session` and may wait."""
        if self._session is None:
            raise UsageError("the session is not open", hint=_OPEN_IT)
        return await self._run(partial(work, self._session))

    def __getattr__(self, name: str) -> Any:
        """The session's own ``name``: a value, or a method to be awaited."""
        if name.startswith("_"):
            raise AttributeError(name)
        if self._session is None:
            raise UsageError("the session is not open", hint=_OPEN_IT)
        found = getattr(self._session, name)
        if name in _AT_ONCE:
            return found
        return partial(self._scope if name in _SCOPES else self._call, found)

    def _call(self, method: Callable[..., T], *args: Any, **named: Any) -> Awaitable[T]:
        return self._run(partial(method, *args, **named))

    def _scope(self, method: Callable[..., Any], *args: Any, **named: Any) -> AsyncScope:
        return AsyncScope(self._run, partial(method, *args, **named))


class AsyncScope:
    """A tool call or a turn: ``async with s.tool_call(...) as call: await call.result(...)``.

    ``call = await s.tool_call(...)`` begins it alone. `id` is there at once, all methods are awaited.
    """

    def __init__(
        self, run: Callable[[Callable[[], Any]], Awaitable[Any]], begin: Callable[[], ToolCall | Turn]
    ) -> None:
        self._run = run
        self._begin = begin
        self._scope: ToolCall | Turn | None = None

    async def _started(self) -> AsyncScope:
        def begin() -> None:
            self._scope = self._begin()

        try:
            await self._run(begin)
        except asyncio.CancelledError as error:
            # It has begun all the same, and nobody else is there to end it.
            if self._scope is not None:
                await self._run(partial(self._scope.__exit__, type(error), error, error.__traceback__))
            raise
        return self

    def __await__(self) -> Generator[Any, None, AsyncScope]:
        return self._started().__await__()

    async def __aenter__(self) -> AsyncScope:
        return await self._started()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._scope is not None:
            await self._run(partial(self._scope.__exit__, kind, error, trace))

    def __getattr__(self, name: str) -> Any:
        """The scope's own ``name``: its id and name as they are, methods to be awaited."""
        if name.startswith("_"):
            raise AttributeError(name)
        found = getattr(self._scope, name)
        return partial(_later, self._run, found) if callable(found) else found


def _later(run: Callable[[Callable[[], T]], Awaitable[T]], method: Callable[..., T], *args: Any, **named: Any) -> Any:
    return run(partial(method, *args, **named))
