"""Turns of a Codex rollout: which one is open, where each prompt stands, and where a rollback leads to."""

from __future__ import annotations

from typing import Any

from gitjournal.formats.mapping import turn_id

# Prompts that can be rolled back; what is put away between two imports must stay small.
_MAX_PROMPTS = 5000


class Turns:
    """The turns so far. ``number`` is that of the present record."""

    def __init__(self) -> None:
        self.number = 0
        #: The open turn, as an event can name it.
        self._open: str | None = None
        self._ends = False
        #: The record with which the turn of each prompt began, and that of the turn that has none yet.
        self._prompts: list[int] = []
        self._begun: int | None = None
        self._follows: int | None = None

    def started(self, turn: str | None) -> None:
        """A turn begins. Older versions do not name it."""
        self._begun = self.number
        self._open = turn_id(turn or f"turn-{self.number}")

    def ended(self, turn: str | None) -> bool:
        """A turn ends with the present record; False when it is not the open one."""
        self._ends = self._open is not None and (turn is None or turn_id(turn) == self._open)
        return self._ends

    def prompted(self) -> None:
        """A person, or the agent that began this one, says something."""
        self._prompts.append(self.number if self._begun is None else self._begun)
        self._begun = None
        del self._prompts[:-_MAX_PROMPTS]

    def rolled_back(self, turns: Any) -> None:
        """The last turns are taken back: the present record stands where the first of them began."""
        if type(turns) is int and 0 < turns <= len(self._prompts):
            self._follows = self._prompts[-turns] - 1
            del self._prompts[-turns:]
            self._open = self._begun = None

    def place(self) -> tuple[int | None, str | None]:
        """The record that the present one follows, if that is not the one before it, and the turn it belongs to."""
        found = self._follows, self._open
        self._follows = None
        if self._ends:
            self._open, self._ends = None, False
        return found

    def save(self) -> Any:
        """See `protocol.Mapper.save`."""
        return [self._open, self._prompts, self._begun]

    def load(self, saved: Any) -> None:
        """See `protocol.Mapper.load`."""
        self._open, self._prompts, self._begun = saved
