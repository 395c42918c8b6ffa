"""What the list of sessions says of a branch and of a session, as JSON objects.

Floor 4. Pure. Numbers of a session count each event once, however many of its branches have it, or copies of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from gitjournal.refs import TRUNK

if TYPE_CHECKING:
    from gitjournal.index_fold import Spent
    from gitjournal.state import SessionState

_TOKENS = {
    "input": "gen_ai.usage.input_tokens",
    "output": "gen_ai.usage.output_tokens",
    "cache_read": "gen_ai.usage.cache_read.input_tokens",
    "cache_creation": "gen_ai.usage.cache_creation.input_tokens",
    "reasoning": "gen_ai.usage.reasoning.output_tokens",
}
_OF_THE_TRUNK = ("title", "summary", "first", "archived", "labels", "project", "source", "trust", "parent")


class Known(NamedTuple):
    """A branch as the index knows it: its name, `about_branch`, why it cannot be read (else empty), and its parts.

    Each part is (segment, hash of its first event, first seq, last seq, what it spent).
    """

    branch: str
    about: dict[str, Any]
    error: str
    parts: Sequence[tuple[int, str, int, int, Spent]]


class Parted(NamedTuple):
    """What is asked of lines that part within what one branch wrote: refs that were copied or set back by force."""

    #: How many first events two branches have in common.
    common: Callable[[str, str], int]
    #: What a branch spent from the first event of one of its parts, which is given, to another.
    spent: Callable[[str, int, int], Spent]


def about_branch(state: SessionState, first_words: str) -> dict[str, Any]:
    """What a state says that the list needs."""
    return {
        "events": state.last_seq,
        "hash": state.last_hash,
        "updated": state.updated,
        "title": state.title,
        "summary": state.summary,
        "first": first_words or None,
        "archived": state.archived,
        "labels": state.labels,
        "project": state.project,
        "source": state.source,
        "trust": state.trust,
        "parent": state.parent if isinstance((state.parent or {}).get("session"), str) else None,
        "wakes": len(state.wakes),
        # As a writer is there or not: who asks for the list looks.
        "idle": list(state.status(live=False)),
        "live": list(state.status(live=True)),
    }


def about_session(session: str, branches: Sequence[Known], parted: Parted) -> dict[str, Any]:
    """The row of a session; ``branches`` with the trunk first.

    Title and labels are the trunk's. Of status there is what each branch has, the one with the newest event first.
    """
    readable = [known for known in branches if not known.error]
    newest = sorted(readable, key=lambda known: str(known.about["updated"]), reverse=True)
    spent, events = _total(readable, parted)
    trunk: dict[str, Any] = readable[0].about if readable else {}
    return {
        "session": session,
        **{name: trunk.get(name) for name in _OF_THE_TRUNK},
        "events": events,
        "branches": [known.branch for known in branches],
        "updated": newest[0].about["updated"] if newest else "",
        "turns": {"user": spent.get("user", 0), "model": spent.get("model", 0)},
        "tokens": {name: spent.get(counter, 0) for name, counter in _TOKENS.items()},
        **{name: spent.get(name, 0) for name in ("tool_calls", "tool_results", "errors")},
        "wakes": sum(known.about["wakes"] for known in readable),
        "error": next((known.error for known in branches if known.error), None),
        "states": {known.branch: [known.about["idle"], known.about["live"]] for known in newest},
    }


def now(states: Mapping[str, Any], live: Sequence[str] = ()) -> tuple[str | None, str | None, list[str]]:
    """(status, stop reason, what blocks) of a session: the branch that somebody writes to says it, else the newest.

    ``states`` are those of `about_session`, ``live`` the branches that have a writer. A trunk that is terminated says
    it for all; another branch that is does not, while one is left that is not.
    """
    over = {one for one, (idle, _) in states.items() if idle[0] == "terminated"}
    # Without one that goes on, the newest; the trunk's end is everybody's.
    some = [TRUNK] if TRUNK in over else [one for one in (*live, *states) if one not in over] or [*states]
    status, reason, blocking = states[some[0]][some[0] in live] if some else (None, None, [])
    return status, reason, blocking


def _total(branches: Sequence[Known], parted: Parted) -> tuple[Spent, int]:
    """What all parts of the branches spent, and how many events they have, each counted once."""
    # By the hash of the first event: of each segment that begins so, the longest part.
    found: dict[str, dict[int, _Longest]] = {}
    for known in branches:
        for segment, digest, first, upto, spent in known.parts:
            of = found.setdefault(digest, {})
            if segment not in of or of[segment].upto < upto:
                of[segment] = _Longest(known.branch, first, upto, spent)
    total: Spent = {}
    events = 0
    for of in found.values():
        counted: list[_Longest] = []
        for one in sorted(of.values(), key=lambda part: -part.upto) if len(of) > 1 else of.values():
            after = max((parted.common(one.branch, other.branch) for other in counted), default=one.first - 1)
            counted.append(one)
            if after < one.upto:
                events += one.upto - after
                _add(total, one.spent, 1)
                if after >= one.first:
                    _add(total, parted.spent(one.branch, one.first, after), -1)
    return total, events


class _Longest(NamedTuple):
    """A part of a branch."""

    branch: str
    first: int
    upto: int
    spent: Spent


def _add(total: Spent, spent: Spent, times: int) -> None:
    for name, count in spent.items():
        total[name] = total.get(name, 0) + times * count
