"""What the list of sessions says of a branch and of a session, as JSON objects.

Floor 4. Pure. Numbers of a session count each event once, however many of its branches have it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

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

    Each part is (segment, first seq, last seq, what it spent).
    """

    branch: str
    about: dict[str, Any]
    error: str
    parts: Sequence[tuple[int, int, int, Spent]]


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


def about_session(session: str, branches: Sequence[Known]) -> dict[str, Any]:
    """The row of a session; ``branches`` with the trunk first.

    Title and labels are the trunk's. Of status there is what each branch has, the one with the newest event first.
    """
    readable = [known for known in branches if not known.error]
    newest = sorted(readable, key=lambda known: str(known.about["updated"]), reverse=True)
    spent, events = _total(readable)
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


def _total(branches: Sequence[Known]) -> tuple[Spent, int]:
    """What all parts of the branches spent, and how many events they have, each counted once."""
    longest: dict[int, tuple[int, int, Spent]] = {}
    for known in branches:
        for segment, first, upto, spent in known.parts:
            if segment not in longest or longest[segment][1] < upto:
                longest[segment] = first, upto, spent
    total: Spent = {}
    for _, _, spent in longest.values():
        for name, count in spent.items():
            total[name] = total.get(name, 0) + count
    return total, sum(upto - first + 1 for first, upto, _ in longest.values())
