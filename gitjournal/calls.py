"""What is open between two events: tool calls that have no result yet, and the turn.

Floor 3. A crash between the two leaves what was begun open, and readers see it as such.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any

from gitjournal import drafts
from gitjournal.errors import JournalError, UsageError
from gitjournal.state_form import is_same_call

if TYPE_CHECKING:
    from gitjournal.chain import Appended
    from gitjournal.session import Session

#: Types whose events open, answer or close calls.
TYPES = frozenset({"tool.call", "tool.result", "tool.confirmation", "model.response", "message", "session.interrupt"})


def new_id() -> str:
    """A name for a call or turn that nothing else has."""
    return secrets.token_hex(8)


class Calls:
    """The open tool calls of a session.

    Knows those that were made since the session was opened. The events before are read once, when somebody asks for a
    call that is not among them: opening a session for writing does not grow with its length.
    """

    def __init__(self, read: Callable[[], Iterable[Mapping[str, Any]]]) -> None:
        """``read`` gives all calls that are open now, as `state.SessionState.open_calls` has them."""
        self._read = read
        self._whole = False
        self._open: dict[str, dict[str, Any]] = {}
        # Arguments of calls that a model has asked for and nobody has begun.
        self._asked: dict[str, Any] = {}

    def note(self, kind: str, data: Mapping[str, Any]) -> None:
        """Take an event that was appended, of one of `TYPES`."""
        call = self._open.get(data["id"]) if isinstance(data.get("id"), str) else None
        if kind == "tool.call":
            self._begin(data)
            self._asked.pop(str(data.get("id")), None)
        elif kind == "tool.confirmation" and call is not None:
            call["approved"] = data.get("approved")
        elif kind == "tool.result":
            self._close(data)
        elif kind == "session.interrupt":
            for one in self._open.values():
                one["requires"] = None
        for part in _objects(data.get("parts")):
            if part.get("type") == "tool_call" and part.get("id") and isinstance(part["id"], str):
                if part["id"] not in self._open:
                    self._asked[part["id"]] = part.get("arguments")
                self._begin(part)
            elif part.get("type") == "tool_call_response":
                self._close(part)

    def _begin(self, call: Mapping[str, Any]) -> None:
        name, requires = call.get("name"), call.get("requires")
        fresh = {"name": name, "requires": None, "approved": None}
        known = self._open.setdefault(str(call.get("id")), fresh)
        if not is_same_call(known["name"], name):
            known = self._open[str(call.get("id"))] = fresh
        known["requires"] = known["requires"] or requires

    def _close(self, result: Mapping[str, Any]) -> None:
        for table in (self._open, self._asked):
            table.pop(str(result.get("id")), None)

    def forget(self) -> None:
        """Know nothing any more: some of what was noted may not have been stored."""
        self._whole = False
        self._open.clear()
        self._asked.clear()

    def next_id(self, name: str, arguments: Any) -> str:
        """The id of the model's call of this name and these arguments that nobody has begun, else a new one."""
        for call_id, asked in self._asked.items():
            if self._open.get(call_id, {}).get("name") == name and asked == arguments:
                return call_id
        return new_id()

    def check_free(self, call_id: str, name: str) -> None:
        """UsageError when a call of that id has begun and has no result, or the model has asked for another tool."""
        known = self._open.get(call_id)
        if known and call_id not in self._asked:
            raise UsageError(f"call {call_id!a:.80} is open already")
        if known and not is_same_call(known["name"], name):
            raise UsageError(f"call {call_id!a:.80} is one of {known['name']!a:.80}, not of {name!a:.80}")

    def give_ids(self, parts: Sequence[dict[str, Any]]) -> None:
        """Give an id where a model or server gave none: a call gets a new one, a result that of its tool's call.

        Without an id nobody could tell which result is whose: UsageError for a result that is nobody's.
        """
        made = list[Mapping[str, Any]]()
        # Also by a result that comes later in the message, with its id.
        answered = {part["id"] for part in parts if part["type"] == "tool_call_response" and part.get("id")}
        for part in parts:
            if part["type"] == "tool_call":
                part["id"] = part.get("id") or new_id()
                made.append(part)
            elif part["type"] == "tool_call_response":
                part["id"] = part.get("id") or self._oldest(part.get("name"), made, answered)
                answered.add(part["id"])

    def _oldest(self, name: object, made: Iterable[Mapping[str, Any]], answered: Container[str]) -> str:
        """The id of the first call of a tool that waits for its result, of those ``made`` in the same message or open.

        What is ``answered`` has its result in that message. UsageError when there is none.
        """
        if not isinstance(name, str):
            raise UsageError("a tool result has neither the id of its call nor the name of its tool")

        def waiting() -> str | None:
            ours = (str(call["id"]) for call in made if call.get("name") == name)
            found = (*ours, *(call_id for call_id, call in self._open.items() if call["name"] == name))
            return next((call_id for call_id in found if call_id not in answered), None)

        call_id = waiting()
        if call_id is None:
            self._read_all()
            call_id = waiting()
        if call_id is None:
            raise UsageError(f"a result of tool {name!a:.80} has no id, and no call of that tool is open")
        return call_id

    def _read_all(self) -> None:
        if not self._whole:
            self._open = {call["id"]: dict(call) for call in self._read()}
            self._whole = True

    def open(self, call_id: str) -> Mapping[str, Any]:
        """The open call of that id. UsageError when there is none."""
        if call_id not in self._open:
            self._read_all()
        call = self._open.get(call_id)
        if call is None:
            raise UsageError(f"call {call_id!a:.80} is not open: there is no such call, or it has its result")
        return call

    def check_answers(self, parts: Iterable[Mapping[str, Any]]) -> None:
        """UsageError unless the results among the parts of a message are of open calls, or of calls in it."""
        made, answered = set[str](), set[str]()
        for part in parts:
            call_id = part.get("id")
            if not isinstance(call_id, str):
                continue
            if part.get("type") == "tool_call":
                made.add(call_id)
            elif part.get("type") == "tool_call_response":
                if call_id in answered:
                    raise UsageError(f"call {call_id!a:.80} has two results in one message")
                if call_id not in made:
                    self.open(call_id)
                answered.add(call_id)

    def check_waiting(self, call_id: str) -> None:
        """UsageError unless the call waits for a person's answer."""
        call = self.open(call_id)
        if call["approved"] is not None:
            raise UsageError(f"call {call_id!a:.80} has its answer already")
        if call["requires"] != "confirmation":
            raise UsageError(f"call {call_id!a:.80} waits for no confirmation")


def _objects(parts: Any) -> list[dict[str, Any]]:
    return [part for part in parts if isinstance(part, dict)] if isinstance(parts, list | tuple) else []


class ToolCall:
    """A tool call that is in the journal and has no result yet: what `Session.tool_call` returns.

    As a context manager: an exception that leaves the block is kept as the call's result (``is_error``), and is raised
    again: who goes on after it catches it outside of the block. What interrupts the program (Ctrl-C, a cancelled task,
    exit) leaves the call open: nobody knows how far it came.
    """

    def __init__(self, session: Session, call_id: str, name: str) -> None:
        self._session = session
        self.id = call_id
        self.name = name
        self._answered = False

    def result(self, value: object = None, *, is_error: bool = False, code: str | None = None) -> Appended:
        """Write what the call gave; any value that JSON can hold. UsageError when it has its result already."""
        done = self._session.tool_result(self.id, value, is_error=is_error, code=code)
        self._answered = True
        return done

    def __enter__(self) -> ToolCall:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, Exception) and not self._answered:
            # The error of the block says more than what writing it down says.
            with suppress(JournalError):
                self.result(f"{type(error).__name__}: {drafts.shown(error)}", is_error=True, code="error")


class Turn:
    """A turn that has begun: what `Session.turn` returns. Every event of the session until its end has its ``id``.

    As a context manager it ends with the block: ``completed``, ``failed`` by an exception, ``canceled`` by what
    interrupts the program.
    """

    def __init__(self, session: Session, turn_id: str) -> None:
        self._session = session
        self.id = turn_id
        self._ended = False

    def end(self, outcome: str = "completed", message: str | None = None) -> Appended:
        """End the turn before its block does, or with another outcome. UsageError when it has ended."""
        if self._ended:
            raise UsageError(f"turn {self.id} has ended")
        done = self._session.end_turn(self.id, outcome, message)
        self._ended = True
        return done

    def __enter__(self) -> Turn:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._ended:
            return
        if error is None:
            self.end()
            return
        outcome = "failed" if isinstance(error, Exception) else "canceled"
        with suppress(JournalError):
            self.end(outcome, f"{type(error).__name__}: {drafts.shown(error)}")
