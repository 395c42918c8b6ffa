"""Python values as the JSON values that an event can hold.

Floor 0, pure. Numbers and texts are judged where the event is made (`canonical`); here it is about types.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from gitjournal.canonical import MAX_DEPTH
from gitjournal.errors import UsageError

_EXACT = frozenset({str, int, float, bool, type(None)})
_HINT = "Give JSON values, dataclasses, or objects with model_dump (those of the OpenAI and Anthropic clients)."


def plain(value: object, what: str, level: int = 1) -> Any:
    """``value`` as dict, list, str, int, float, bool and None; ``what`` it is, for messages.

    Takes mappings, lists, tuples, dataclasses and objects with ``model_dump`` as well, at any depth. UsageError names
    the type of anything else, and of an object whose ``model_dump`` fails.
    """
    if value is None or type(value) in (str, int, float, bool):
        return value
    if level > MAX_DEPTH:
        raise UsageError(f"{what} is nested deeper than {MAX_DEPTH} levels, or holds itself")
    if isinstance(value, Mapping):
        return {_name(name, what): plain(item, what, level + 1) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item, what, level + 1) for item in value]
    if isinstance(value, type):
        raise UsageError(f"{what} holds the class {value.__name__}, not a value", hint=_HINT)
    if dataclasses.is_dataclass(value):
        members = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        return plain(members, what, level)
    if callable(getattr(value, "model_dump", None)):
        return plain(_dumped(value), what, level + 1)
    raise UsageError(f"{what} holds a {kind(value)}, which an event cannot keep", hint=_HINT)


def is_plain(value: object, level: int = 1) -> bool:
    """Whether `plain` has nothing to make of a value, so far as an event can be nested at all."""
    if level > MAX_DEPTH or type(value) in _EXACT:
        return True
    items = value.values() if type(value) is dict else value if type(value) is list else None
    return items is not None and all(is_plain(item, level + 1) for item in items)


def kind(value: object) -> str:
    """The name of a value's type, with its module unless that is Python's own."""
    of = type(value)
    return of.__qualname__ if of.__module__ == "builtins" else f"{of.__module__}.{of.__qualname__}"


def _dumped(value: Any) -> object:
    try:
        try:
            # As pydantic has it: times and the like come as text.
            return value.model_dump(mode="json")
        except TypeError:
            return value.model_dump()
    except Exception as error:
        raise UsageError(f"model_dump of {kind(value)} failed with {type(error).__name__}", hint=_HINT) from error


def _name(name: object, what: str) -> str:
    if type(name) is not str:
        raise UsageError(f"{what} has a member name that is a {kind(name)}, not text")
    return name


def without_nulls(value: Any) -> Any:
    """A plain value without the members that are null, at any depth: what an object does not say."""
    if isinstance(value, dict):
        return {name: without_nulls(item) for name, item in value.items() if item is not None}
    return [without_nulls(item) for item in value] if isinstance(value, list) else value
