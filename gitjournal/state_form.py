"""What a session is after some event: `SessionState`, and the `Status` that follows from it.

Floor 3; imports floor 0 only. Plain data: `state.fold` makes it.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple

from gitjournal import canonical, payload
from gitjournal.errors import FormatError
from gitjournal.foreign import wrap_value
from gitjournal.refs import TRUNK
from gitjournal.rules import B64_TAG
from gitjournal.vocabulary import NARROWEST, USAGE

# Bytes come from tags in stored data, which has at most 64 levels; the state adds a few.
_BYTES_LEVEL = 70

Entry = dict[str, Any]


class Status(NamedTuple):
    """What a session does now: ``terminated``, ``requires_action``, ``running``, ``rescheduling`` or ``idle``.

    ``stop_reason`` says why it does not run (None while it does), ``blocking`` has the ids of the open calls that
    wait for a person or for somebody outside.
    """

    status: str
    stop_reason: str | None = None
    blocking: tuple[str, ...] = ()


@dataclass(slots=True)
class SessionState:
    """What a session is after some event. Plain data; lists are in the order of ``seq``.

    An *entry* is ``{"seq", "actor", "role", "kind", "parts"}``, where ``kind`` is the event's type. Entries refer
    to the data of their events, so do not change them.
    """

    session: str = ""
    #: Name of the branch: the newest ``session.branch`` since the session began, else ``main``.
    branch: str = TRUNK
    #: Position and hash of the newest event; 0 and None before the first.
    last_seq: int = 0
    last_hash: str | None = None
    #: ``ts`` of the first and of the newest event by seq, even if the clock went back in between.
    started: str | None = None
    updated: str | None = None
    #: Fixed by ``session.start``; branches and forks inherit them and cannot change them.
    trust: str = NARROWEST
    source: str | None = None
    #: Root folder of the project, as the start names it.
    project: str | None = None
    #: ``{"session", "branch"?, "seq"?}``: the session that began this one.
    parent: dict[str, Any] | None = None
    #: All data of ``session.start``.
    start: dict[str, Any] = field(default_factory=dict)
    #: What ``session.update`` said last; the start may have the first title and labels.
    title: str = ""
    summary: str = ""
    archived: bool = False
    #: Sorted.
    labels: list[str] = field(default_factory=list)
    #: ``{"seq", "reason"}`` of the first ``session.terminate``.
    terminated: dict[str, Any] | None = None
    #: ``{"seq", "reason"}`` of the newest ``session.interrupt``.
    interrupted: dict[str, Any] | None = None
    #: All data of the newest ``session.checkpoint``.
    checkpoint: dict[str, Any] = field(default_factory=dict)
    #: What is attached: ``{"id", "seq", "type", "uri", "name"}``.
    resources: list[dict[str, Any]] = field(default_factory=list)
    #: ``{"id", "seq"}`` of the turn that has not ended.
    open_turn: dict[str, Any] | None = None
    #: ``{"id", "outcome", "seq"}`` of the turn that ended last.
    last_turn: dict[str, Any] | None = None
    #: Wakes that wait: ``{"seq", "due", "reason", "note", "key", "priority"}``.
    wakes: list[dict[str, Any]] = field(default_factory=list)
    #: Whether the newest thing said is a response of the model that calls no tool; None when nothing was said.
    answered: bool | None = None
    #: Transcript: everything that was said. Only ever grows.
    history: list[Entry] = field(default_factory=list)
    #: What the model sees now: history as changed by compactions.
    context: list[Entry] = field(default_factory=list)
    #: Sum of each counter of `USAGE`, once per provider response.
    usage: dict[str, int] = field(default_factory=lambda: dict.fromkeys(USAGE, 0))
    #: Number of messages with role ``user``, and of distinct provider responses.
    turns: dict[str, int] = field(default_factory=lambda: {"user": 0, "model": 0})
    tool_calls: int = 0
    tool_results: int = 0
    #: Calls without a result: ``{"id", "name", "seq", "requires", "approved"}``. ``requires`` is what the call waits
    #: for (``confirmation``, ``result`` or None), ``approved`` what a person decided (None before).
    open_calls: list[dict[str, Any]] = field(default_factory=list)
    #: Results whose id is not that of an open call.
    unmatched_results: int = 0
    #: ``{"seq", "actor", "type", "message", "where"}``
    errors: list[dict[str, Any]] = field(default_factory=list)
    #: ``{"seq", "from_seq", "to_seq", "keep_last", "kept", "summary"}``; ``kept``: how many entries stayed in context.
    compactions: list[dict[str, Any]] = field(default_factory=list)
    #: ``from`` of the newest ``session.fork``.
    forked_from: dict[str, Any] | None = None
    #: Every ``session.branch`` and ``session.fork`` on the way: ``{"seq", "session", "branch", "from"}``.
    branch_points: list[dict[str, Any]] = field(default_factory=list)
    #: Events without their payload.
    withheld: int = 0
    #: Imported records without a neutral meaning.
    native: int = 0
    #: Types that docs/events.md does not have, with the number of their events.
    unknown: dict[str, int] = field(default_factory=dict)
    #: Events whose data is not as docs/events.md says: ``{"seq", "type", "faults"}``, at most one each.
    odd: list[dict[str, Any]] = field(default_factory=list)

    def status(self, live: bool) -> Status:
        """What the session does. ``live``: somebody holds the branch's lease now.

        Follows from the events and that alone, so a crash cannot leave it wrong.
        """
        if self.terminated is not None:
            return Status("terminated", "terminated")
        if blocking := tuple(call["id"] for call in self.open_calls if waits(call)):
            return Status("requires_action", "requires_action", blocking)
        if live and (self._in_work() or any(map(_runs, self.open_calls))):
            return Status("running")
        if self.wakes or self._rescheduling():
            return Status("rescheduling", "rescheduling")
        return Status("idle", self._stop_reason(live))

    def _in_work(self) -> bool:
        if self.open_turn is not None or self.last_turn is not None:
            return self.open_turn is not None
        return self.answered is False

    def _rescheduling(self) -> bool:
        """Whether the last turn ended to go on later, and no interrupt came since."""
        turn, stop = self.last_turn, self.interrupted
        return turn is not None and turn["outcome"] == "rescheduling" and not (stop and stop["seq"] > turn["seq"])

    def _stop_reason(self, live: bool) -> str:
        if not live and (self.open_turn is not None or self.open_calls):
            return "interrupted"
        if self.last_turn is not None:
            # The turn that was to go on later: an interrupt has come between.
            outcome: str = self.last_turn["outcome"]
            return "interrupted" if outcome == "rescheduling" else outcome
        return "new" if self.answered is None else "completed"

    def as_dict(self) -> dict[str, Any]:
        """A copy that `canonical.dumps` takes, the same bytes for the same events.

        What JSON of docs/format.md section 2 cannot hold (lone surrogates, big numbers, deep nesting) comes as
        the tag of section 9, bytes as ``{"base64": text}``.
        """
        return wrap_value(_without_bytes(self.members(), 1))  # type: ignore[no-any-return]

    def members(self) -> dict[str, Any]:
        """The fields by their names. Not a copy."""
        return {f.name: getattr(self, f.name) for f in fields(self)}


def waits(call: dict[str, Any]) -> bool:
    """Whether an open call of a state waits for a confirmation or for a result from outside."""
    return call["requires"] is not None and call["approved"] is None


def _runs(call: dict[str, Any]) -> bool:
    """Whether an open call is on its way, as far as anybody knows: it waits for nobody and was not refused."""
    return not waits(call) and call["approved"] is not False


def is_same_call(known: str | None, name: str | None) -> bool:
    """Whether a call whose id is open is the open one, said again: another name is another call. None: it has none."""
    return known == name or known is None or name is None


def plain_json(value: Any) -> bytes:
    """Data of a state as JSON in canonical form: what `SessionState.as_dict` would make of it, without the copy."""
    try:
        if b'"$gj:' not in (raw := canonical.dumps(value)):
            return raw
    except FormatError:
        pass
    return canonical.dumps(wrap_value(_without_bytes(value, 1)))


def tagged(value: Any) -> Any:
    """A value as one that JSON can hold exactly, odd nodes as tags of docs/format.md section 9; see `untagged`."""
    try:
        if b'"$gj:' not in canonical.dumps(value):
            return value
    except FormatError:
        pass
    return _tagged(value, 1)


def _tagged(node: Any, level: int) -> Any:
    if isinstance(node, bytes):
        return {B64_TAG: base64.b64encode(node).decode()}
    if level > _BYTES_LEVEL:
        return wrap_value(node)
    if isinstance(node, list | tuple):
        return [_tagged(item, level + 1) for item in node]
    # The same list comes back if no name is odd or could be taken for a tag.
    if isinstance(node, dict) and wrap_value(names := list(node)) is names:
        return {name: _tagged(item, level + 1) for name, item in node.items()}
    return wrap_value(node)


def untagged(value: Any) -> Any:
    """The value that `tagged` was given; tuples come back as lists."""
    return payload.resolve(value, (), _no_file)


def _no_file(number: int) -> bytes:
    raise LookupError(number)


def _without_bytes(node: Any, level: int) -> Any:
    """A deep copy in which JSON can show bytes. ``level`` is the nesting depth of ``node``, from 1."""
    if isinstance(node, bytes):
        return {"base64": base64.b64encode(node).decode()}
    if level > _BYTES_LEVEL:
        return node
    if isinstance(node, dict):
        return {name: _without_bytes(item, level + 1) for name, item in node.items()}
    if isinstance(node, list | tuple):
        return [_without_bytes(item, level + 1) for item in node]
    return node
