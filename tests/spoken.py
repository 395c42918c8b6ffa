"""Sessions as events of docs/events.md, built without a journal: for the fold and what stands on it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gitjournal.event import Event
from gitjournal.session import Session
from gitjournal.writer import Draft

#: (type, data[, actor[, turn]]) of an event.
Spec = tuple[str, Any] | tuple[str, Any, str] | tuple[str, Any, str, str | None]


def chain(*specs: Spec, start: Any = None, ts: Sequence[str] = ()) -> list[Event]:
    """A session of (type, data[, actor[, turn]]) events after a session.start; data None makes a withheld event."""
    events: list[Event] = []
    prev, session = None, "s1"
    for seq, (kind, data, *more) in enumerate([("session.start", start or {}), *specs], 1):
        session = "s2" if kind == "session.fork" else session
        members = {
            "v": 1, "session": session, "seq": seq, "prev": prev, "epoch": 1, "type": kind,
            "ts": ts[seq - 1] if ts else "2026-11-29T12:00:00.000Z",
            "actor": more[0] if more else "host", "data": {} if data is None else data,
        }  # fmt: skip
        if len(more) > 1 and more[1]:
            members["turn"] = more[1]
        event = Event.build(members)
        events.append(event.withhold() if data is None else event)
        prev = event.hash
    return events


def said(text: str, role: str = "user") -> tuple[str, dict[str, Any]]:
    return "message", {"role": role, "parts": [{"type": "text", "content": text}]}


def response(text: str | None = None, *, key: Any = None, usage: Any = None) -> tuple[str, dict[str, Any]]:
    parts = [{"type": "text", "content": text}] if text else []
    members = {"parts": parts, "response.id": key, "usage": usage}
    return "model.response", {name: value for name, value in members.items() if value is not None}


def call(key: str, name: str = "shell", **more: Any) -> tuple[str, dict[str, Any]]:
    return "tool.call", {"id": key, "name": name, "arguments": {}} | more


def answer(key: str, **more: Any) -> tuple[str, dict[str, Any]]:
    return "tool.result", {"id": key, "response": "done"} | more


def asked(*keys: str, text: str = "") -> tuple[str, dict[str, Any]]:
    """A model response that calls tools in its parts."""
    parts: list[dict[str, Any]] = [{"type": "text", "content": text}] if text else []
    parts += [{"type": "tool_call", "id": key, "name": "shell", "arguments": {}} for key in keys]
    return "model.response", {"parts": parts}


def turn(kind: str, key: str | None, **data: Any) -> tuple[str, dict[str, Any], str, str | None]:
    """``turn.start`` or ``turn.end`` of the turn ``key``."""
    return f"turn.{kind}", data, "host", key


def texts(entries: Sequence[dict[str, Any]]) -> list[str]:
    return [part["content"] for entry in entries for part in entry["parts"]]


def fill(session: Session, *specs: Spec) -> None:
    """Append what `chain` takes to an open session."""
    session.append_many(Draft(kind, data, *more) for kind, data, *more in specs)


def gaps(context: Sequence[dict[str, Any]]) -> list[str]:
    """What a provider would refuse: calls not directly followed by their results, results of no such call.

    Calls at the very end may still wait for theirs. Calls that follow each other are one message to a provider.
    """
    faults: list[str] = []
    waiting: list[str] = []
    answering = False
    for entry in context:
        kinds = {part["type"]: part for part in entry["parts"]}
        if "tool_call_response" in kinds:
            answering = True
            for part in entry["parts"]:
                if part["id"] in waiting:
                    waiting.remove(part["id"])
                else:
                    faults.append(f"@{entry['seq']} answers {part['id']}, which does not wait")
        else:
            if waiting and (answering or "tool_call" not in kinds):
                faults.append(f"@{entry['seq']} comes before the results of {waiting}")
                waiting = []
            answering = False
            waiting += [part["id"] for part in entry["parts"] if part["type"] == "tool_call"]
    return faults
