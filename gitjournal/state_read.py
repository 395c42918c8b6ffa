"""Reading the data of events, whatever shape it has, and noting what is not as docs/events.md says.

Floor 3; imports floor 0 only. The well-formed case comes first everywhere: a fold reads hundreds of thousands of
events a second.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from gitjournal.errors import FormatError
from gitjournal.event import Event
from gitjournal.vocabulary import USAGE

Data = Mapping[str, Any]


class Reader:
    """The base of the fold: what each member means, and which ones could not be read (``_faults``)."""

    __slots__ = ("_faults",)

    def __init__(self) -> None:
        self._faults: set[str] = set()

    def _data(self, event: Event) -> Data:
        try:
            data = event.data
        except FormatError:
            # A tag that stands for nothing, or a side file that is not here: the rest can still be read.
            self._faults.add("files")
            data = event.stored_data
        return data if type(data) is dict else self._object(data, "data")

    def _object(self, value: Any, what: str) -> Data:
        if isinstance(value, Mapping):
            return value
        self._faults.add(what)
        return {}

    def _text(self, data: Data, name: str, *, required: bool = False) -> str | None:
        value = data.get(name)
        if isinstance(value, str):
            return value
        if value is not None or required:
            self._faults.add(name)
        return None

    def _checked(self, data: Data, name: str, good: Callable[[Any], bool]) -> Any:
        """A member's value if it is ``good``; None when there is none, and (with a fault) for anything else."""
        value = data.get(name)
        if value is None or good(value):
            return value
        self._faults.add(name)
        return None

    def _one_of(self, data: Data, name: str, names: Collection[str], *, required: bool = False) -> str | None:
        value = self._text(data, name, required=required)
        if value is None or value in names:
            return value
        self._faults.add(name)
        return None

    def _flag(self, data: Data, name: str, *, required: bool = False) -> bool | None:
        value = data.get(name)
        if isinstance(value, bool):
            return value
        if value is not None or required:
            self._faults.add(name)
        return None

    def _number(self, data: Data, name: str, default: int) -> int | None:
        """A whole number >= 0, the default when there is none, None (and a fault) for anything else."""
        value = data.get(name)
        if value is None:
            return default
        number = _whole(value)
        if number is None:
            self._faults.add(name)
        return number

    def _items(self, data: Data, name: str, *, required: bool = False) -> list[Any]:
        """The items of an array; none (and a fault) for anything else."""
        value = data.get(name)
        if isinstance(value, list | tuple):
            return list(value)
        if value is not None or required:
            self._faults.add(name)
        return []

    def _numbers(self, data: Data, name: str) -> list[int]:
        """The whole numbers >= 0 of a required array."""
        items = self._items(data, name, required=True)
        numbers = [number for item in items if (number := _whole(item)) is not None]
        if len(numbers) != len(items):
            self._faults.add(name)
        return numbers

    def _counts(self, data: Data) -> list[int]:
        """The counters of `USAGE` in an event's ``usage``, 0 for each that is not there or cannot be read."""
        usage = data.get("usage")
        if usage is None:
            return [0] * len(USAGE)
        if type(usage) is not dict:
            usage = self._object(usage, "usage")
        counts = []
        for name in USAGE:
            value = usage.get(name)
            if value is None:
                value = 0
            elif type(value) is not int or value < 0:
                value = self._number(usage, name, 0) or 0
            counts.append(value)
        return counts

    def _parts(self, data: Data, name: str, *, required: bool = False, text: bool = False) -> list[Any]:
        """The well-formed message parts in a member. A string stands for a text part (``text``: without a fault)."""
        value = data.get(name)
        if type(value) is list:
            for part in value:
                if type(part) is not dict or type(part.get("type")) is not str:
                    break
            else:
                return value
        if value is None and not required:
            return []
        if isinstance(value, str):
            if not text:
                self._faults.add(name)
            return [{"type": "text", "content": value}] if value else []
        items = value if isinstance(value, list | tuple) else ()
        good = [part for part in items if isinstance(part, dict) and isinstance(part.get("type"), str)]
        if items is not value or len(good) != len(items):
            self._faults.add(name)
        return good


def begins_turn(event: Event, data: Data) -> bool:
    """Whether an event is a message by which somebody begins a turn.

    It is not when a program said it in the user's name, when it is talk of a sub-agent, or more of the one before.
    """
    said = event.type == "message" and data.get("role") == "user"
    return said and not any(data.get(mark) is True for mark in ("injected", "sidechain", "continues"))


def _whole(value: Any) -> int | None:
    # 1.0 and 1 have the same canonical bytes: an event just built may hold the one and, read back, the other.
    if type(value) is float and value.is_integer():
        value = int(value)
    return value if type(value) is int and value >= 0 else None
