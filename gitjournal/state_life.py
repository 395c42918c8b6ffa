"""The part of the fold that is about a session's life: title, end, turns, wakes, what is attached to it.

Floor 3. Base of `state.StateBuilder`; none of this is said to the model.
"""

from __future__ import annotations

from typing import Any

from gitjournal import rules
from gitjournal.event import Event
from gitjournal.state_form import SessionState, waits
from gitjournal.state_read import Data, Reader
from gitjournal.vocabulary import (
    OUTCOMES,
    PRIORITIES,
    RESOURCE_ACTIONS,
    TRUST_LEVELS,
    is_label,
    is_summary,
    is_title,
    is_wider,
    source_trust,
)


class Life(Reader):
    """Handlers of the events that say what a session is and does, rather than what was said in it."""

    __slots__ = ("_keys", "_labels", "_open", "_resources", "_state", "_wakes")

    def __init__(self) -> None:
        super().__init__()
        self._state = SessionState()
        self._labels: set[str] = set()
        self._open: dict[str, dict[str, Any]] = {}
        self._resources: dict[str, dict[str, Any]] = {}
        self._wakes: dict[int, dict[str, Any]] = {}
        # The keys of the wakes that wait.
        self._keys: set[str] = set()

    def _resume(self, state: SessionState) -> None:
        """Go on after ``state``."""
        self._state = state
        self._labels = set(state.labels)
        self._open = {call["id"]: call for call in state.open_calls}
        self._resources = {one["id"]: one for one in state.resources}
        self._wakes = {wake["seq"]: wake for wake in state.wakes}
        self._keys = {wake["key"] for wake in state.wakes if wake["key"] is not None}

    # --- what it is ------------------------------------------------------------------------------

    def _on_start(self, event: Event, data: Data) -> None:
        if event.seq != 1:
            # Whatever it says, a session begins once: nothing later may widen its trust.
            self._faults.add("seq")
            return
        state = self._state
        state.start = dict(data)
        state.source = self._text(data, "source")
        state.trust = self._trust(data)
        state.project = self._text(data, "project")
        if data.get("parent") is not None:
            parent = self._object(data["parent"], "parent")
            state.parent = dict(parent) or None
            self._text(parent, "session", required=True)
        self._name(data, "labels")

    def _trust(self, data: Data) -> str:
        """The level that the start names, if it is one, and no wider than its source is trusted."""
        named, most = data.get("trust"), source_trust(self._state.source)
        if named is None:
            return TRUST_LEVELS[0]
        if named in TRUST_LEVELS and not is_wider(named, most):
            return str(named)
        self._faults.add("trust")
        return TRUST_LEVELS[0]

    def _on_update(self, _event: Event, data: Data) -> None:
        self._name(data, "add_labels")
        self._labels.difference_update(self._label_items(data, "remove_labels"))
        self._summarise(data)
        archived = self._flag(data, "archived")
        if archived is not None:
            self._state.archived = archived

    def _name(self, data: Data, labels: str) -> None:
        title = self._checked(data, "title", is_title)
        if title is not None:
            self._state.title = title
        self._labels.update(self._label_items(data, labels))

    def _summarise(self, data: Data) -> None:
        summary = self._checked(data, "summary", is_summary)
        if summary is not None:
            self._state.summary = summary

    def _label_items(self, data: Data, name: str) -> list[str]:
        items = self._items(data, name)
        good = [item for item in items if is_label(item)]
        if len(good) != len(items):
            self._faults.add(name)
        return good

    def _on_terminate(self, event: Event, data: Data) -> None:
        self._state.terminated = self._state.terminated or self._stop(event, data)

    def _stop(self, event: Event, data: Data) -> dict[str, Any]:
        return {"seq": event.seq, "reason": self._text(data, "reason")}

    # --- what it has -----------------------------------------------------------------------------

    def _on_checkpoint(self, _event: Event, data: Data) -> None:
        self._state.checkpoint = dict(data)

    def _on_resource(self, event: Event, data: Data) -> None:
        key = self._text(data, "id", required=True)
        action = self._one_of(data, "action", RESOURCE_ACTIONS, required=True)
        about = {name: self._text(data, name) for name in ("type", "uri", "name")}
        if key is None or action is None:
            return
        # Attached anew, it stands where its newest event does.
        self._resources.pop(key, None)
        if action == "attach":
            self._resources[key] = {"id": key, "seq": event.seq, **about}

    # --- what it does ----------------------------------------------------------------------------

    def _on_turn_start(self, event: Event, _data: Data) -> None:
        if event.turn is None:
            self._faults.add("turn")
        else:
            self._state.open_turn = {"id": event.turn, "seq": event.seq}

    def _on_turn_end(self, event: Event, data: Data) -> None:
        outcome = self._one_of(data, "outcome", OUTCOMES, required=True)
        self._text(data, "message")
        turn = self._state.open_turn
        if turn is None or event.turn != turn["id"]:
            self._faults.add("turn")
            return
        # A turn of which nobody can say how it ended has not been completed.
        self._state.last_turn = {"id": turn["id"], "outcome": outcome or "interrupted", "seq": event.seq}
        self._state.open_turn = None

    def _on_confirmation(self, _event: Event, data: Data) -> None:
        call_id = self._text(data, "id", required=True)
        approved = self._flag(data, "approved", required=True)
        self._text(data, "reason")
        call = self._open.get(call_id or "")
        if call is None or call["requires"] != "confirmation" or call["approved"] is not None:
            # The first answer counts: a second one cannot allow what was refused.
            self._faults.add("id")
        elif approved is not None:
            self._open[call["id"]] = call | {"approved": approved}

    def _on_wake(self, event: Event, data: Data) -> None:
        wake = {
            "seq": event.seq,
            "due": self._checked(data, "due", rules.is_ts),
            "reason": self._text(data, "reason", required=True),
            "note": self._text(data, "note"),
            "key": self._text(data, "key"),
            "priority": self._one_of(data, "priority", PRIORITIES) or "normal",
        }
        if wake["due"] is None:
            # Nobody can say when: it cannot wait for its time.
            self._faults.add("due")
        elif wake["key"] is None or wake["key"] not in self._keys:
            self._wakes[event.seq] = wake
            self._keys.update(filter(None, [wake["key"]]))

    def _on_wake_done(self, _event: Event, data: Data) -> None:
        for seq in self._numbers(data, "seqs"):
            wake = self._wakes.pop(seq, None)
            if wake is not None:
                self._keys.discard(wake["key"])

    def _on_interrupt(self, event: Event, data: Data) -> None:
        self._state.interrupted = self._stop(event, data)
        self._wakes.clear()
        self._keys.clear()
        for call_id, call in self._open.items():
            if waits(call):
                self._open[call_id] = call | {"requires": None}
