"""Token counters of a Codex rollout, once for each response; and names for responses, which rollouts do not have.

``token_count`` says the sum since the beginning and the counters of the newest response. It is written again
unchanged, sums go back to nothing when a client begins anew, and forks repeat those of the session they come from.
"""

from __future__ import annotations

from typing import Any

from gitjournal.formats import shapes
from gitjournal.formats.shapes import Members, members, whole

#: Counters of a record, in the order of `shapes.usage`: input, output, cached, written to a cache, reasoning.
_COUNTERS = (
    ("input_tokens", "prompt_tokens", "prompt"),
    ("output_tokens", "completion_tokens", "completion"),
    ("cached_input_tokens",),
    ("cache_write_input_tokens",),
    ("reasoning_output_tokens",),
)
Counts = tuple[int, ...]
_MAX_TURNS = 100


class Totals:
    """The sum so far, and what is new in the next one."""

    def __init__(self) -> None:
        self._sum: Counts | None = None

    def new(self, total: Any, last: Any) -> Members | None:
        """Usage of the response that a record is about; None when it repeats what was said, or says nothing."""
        sums, newest = _counts(total), _counts(last)
        if sums is None:
            return _usage(newest) if newest is not None and any(newest) else None
        before, self._sum = self._sum, sums
        if sums == before:
            return None
        if before is not None and all(now >= then for now, then in zip(sums, before, strict=True)):
            return _usage(tuple(now - then for now, then in zip(sums, before, strict=True)))
        # The first, or the sum of a client that began anew: what came before it is in none or in an older record.
        counts = newest if newest is not None else sums
        return _usage(counts) if any(counts) else None

    def save(self) -> Any:
        """See `protocol.Mapper.save`."""
        return self._sum

    def load(self, saved: Any) -> None:
        """See `protocol.Mapper.load`."""
        self._sum = tuple(saved) if saved is not None else None


def _counts(given: Any) -> Counts | None:
    of = members(given)
    found = [next((whole(of[name]) for name in names if whole(of.get(name)) is not None), None) for names in _COUNTERS]
    return None if found[0] is None and found[1] is None else tuple(value or 0 for value in found)


def _usage(counts: Counts) -> Members:
    given, made, read, created, reasoning = counts
    return shapes.usage(given, made, read=read, created=created, reasoning=reasoning)


class Responses:
    """Names the responses: ``<turn>/<n>``. All that a response gave, and its usage, has the same name.

    Copies of a history keep the turns' ids, so that a response has one name in all of them.
    """

    def __init__(self) -> None:
        self._turn = ""
        #: How many responses the newest turns have had.
        self._numbers: dict[str, int] = {}
        #: Whether more may belong to the newest response, and whether its usage is known.
        self._open = False
        self._counted = True

    def turn(self, turn: str) -> None:
        """A turn begins, or goes on."""
        if turn != self._turn:
            self._turn, self._open, self._counted = turn, False, True

    def given(self) -> None:
        """Something is said to the model: what it says next is another response."""
        self._open = False

    def said(self) -> str:
        """The name for what the model has said."""
        if not self._open:
            self._open, self._counted = True, False
            return self._next()
        return self._name()

    def counted(self) -> str:
        """The name of the response that new usage is of."""
        if not self._counted:
            self._counted = True
            return self._name()
        # Older versions write the counters before the call that a response ends with, or before all of it.
        self._open = True
        return self._next()

    def _next(self) -> str:
        # Taken out and put in again, the turn is the newest.
        self._numbers[self._turn] = self._numbers.pop(self._turn, 0) + 1
        if len(self._numbers) > _MAX_TURNS:
            del self._numbers[next(iter(self._numbers))]
        return self._name()

    def _name(self) -> str:
        return f"{self._turn}/{self._numbers[self._turn]}"

    def save(self) -> Any:
        """See `protocol.Mapper.save`."""
        return [self._turn, self._numbers, self._open, self._counted]

    def load(self, saved: Any) -> None:
        """See `protocol.Mapper.load`."""
        self._turn, self._numbers, self._open, self._counted = saved
