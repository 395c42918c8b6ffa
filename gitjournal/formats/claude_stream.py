"""What a stream of ``claude -p`` does not say in its lines has been used too.

The lines of a stream carry the counters with which a response begins, and there is none for the last response of a
sub-agent. The record at the end of a run has the sums of all of them, by model, since the program was started.
"""

from __future__ import annotations

from typing import Any

from gitjournal.formats import shapes
from gitjournal.formats.shapes import Members, members, text, whole

#: Counters of OpenTelemetry in the order of `Counts`; the first includes the two that follow.
_NAMES = tuple(
    f"gen_ai.usage.{name}_tokens" for name in ("input", "cache_read.input", "cache_creation.input", "output")
)
#: The same as the program says them in its sums; there, the first includes no other.
_SUMS = ("inputTokens", "cacheReadInputTokens", "cacheCreationInputTokens", "outputTokens")
Counts = tuple[int, ...]
_NONE: Counts = (0, 0, 0, 0)
#: Responses whose lines may still come.
_MAX_OPEN = 100


class Stream:
    """The counters of one stream, in order."""

    def __init__(self) -> None:
        #: The newest responses, and the sum of all since the last result.
        self._open: dict[str, Counts] = {}
        self._said = _NONE
        #: The sums of the last result.
        self._before = _NONE

    def said(self, of: Members, data: Members) -> None:
        """Take the counters of a response's line, if it is one of a stream."""
        counted = data.get("usage")
        if counted is None or text(of, "session_id") is None:
            return
        now = tuple(counted.get(name, 0) for name in _NAMES)
        response = data.get("response.id", "")
        before = self._open.pop(response, _NONE) if response else _NONE
        most = tuple(map(max, now, before))
        self._said = tuple(said + new - old for said, new, old in zip(self._said, most, before, strict=True))
        if response:
            self._open[response] = most
            if len(self._open) > _MAX_OPEN:
                del self._open[next(iter(self._open))]

    def rest(self, of: Members) -> Members | None:
        """The ``data`` for what a result's record has counted beyond the lines; None when that is nothing."""
        native = members(of.get("modelUsage"))
        sums = [_sums(members(one)) for one in native.values()]
        now = tuple(map(sum, zip(*sums, strict=True))) if sums else _NONE
        # They begin anew with each start of the program.
        grown = all(new >= old for new, old in zip(now, self._before, strict=True))
        used = tuple(new - old * grown for new, old in zip(now, self._before, strict=True))
        rest = tuple(max(0, all_ - said) for all_, said in zip(used, self._said, strict=True))
        self._open, self._said, self._before = {}, _NONE, now
        if not any(rest):
            return None
        given, read, created, made = rest
        data: Members = {"parts": [], "usage": shapes.usage(given, made, read=read, created=created)}
        # The name may say the size of the window too.
        names = {name.partition("[")[0] for name in native}
        return data | ({"response.model": names.pop()} if len(names) == 1 else {}) | {"native_usage": native}

    def save(self) -> Any:
        """See `protocol.Mapper.save`."""
        return [self._open, self._said, self._before]

    def load(self, saved: Any) -> None:
        """See `protocol.Mapper.load`."""
        responses, said, before = saved
        self._open = {name: tuple(counts) for name, counts in responses.items()}
        self._said, self._before = tuple(said), tuple(before)


def _sums(of: Members) -> Counts:
    plain, read, created, made = (whole(of.get(name)) or 0 for name in _SUMS)
    return plain + read + created, read, created, made
