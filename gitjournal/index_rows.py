"""What the list of sessions says of a branch and of a session, as JSON objects.

Floor 4. Pure. Numbers of a session count each event once, however many of its branches have it, or copies of them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from gitjournal import index_used
from gitjournal.index_used import Used
from gitjournal.refs import TRUNK
from gitjournal.vocabulary import USAGE

if TYPE_CHECKING:
    from gitjournal.index_fold import Spent
    from gitjournal.lineage import Begin
    from gitjournal.state import SessionState

_TOKENS = {
    "input": "gen_ai.usage.input_tokens",
    "output": "gen_ai.usage.output_tokens",
    "cache_read": "gen_ai.usage.cache_read.input_tokens",
    "cache_creation": "gen_ai.usage.cache_creation.input_tokens",
    "reasoning": "gen_ai.usage.reasoning.output_tokens",
}
_OF_THE_TRUNK = ("title", "summary", "first", "archived", "labels", "project", "source", "trust", "parent")


class Held(NamedTuple):
    """What a branch has of a segment: events ``first`` to ``upto``, written in ``session``, and what they count."""

    segment: int
    session: str
    first: int
    upto: int
    spent: Spent


class Known(NamedTuple):
    """A branch as the index knows it: its name, `about_branch`, why it cannot be read (else empty), and its parts."""

    branch: str
    about: dict[str, Any]
    error: str
    parts: Sequence[Held]


class Sum(NamedTuple):
    """What a session has used by itself: what it has from the session that it is a fork of counts there."""

    events: int
    spent: Spent
    used: Used


def about_branch(state: SessionState, first_words: str, begin: Begin) -> dict[str, Any]:
    """What a state says that the list needs; ``begin`` is where the branch says that it begins."""
    return {
        "started": state.started,
        "begin": [begin.after, begin.parent is not None],
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


def about_session(session: str, branches: Sequence[Known], total: Sum) -> dict[str, Any]:
    """The row of a session; ``branches`` with the trunk first.

    Title and labels are the trunk's. Of status there is what each branch has, the one with the newest event first.
    """
    readable = [known for known in branches if not known.error]
    newest = sorted(readable, key=lambda known: str(known.about["updated"]), reverse=True)
    spent, tokens = total.spent, dict(zip(USAGE, total.used.counts, strict=True))
    trunk: dict[str, Any] = readable[0].about if readable else {}
    return {
        "session": session,
        **{name: trunk.get(name) for name in _OF_THE_TRUNK},
        "events": total.events,
        "branches": [known.branch for known in branches],
        "updated": newest[0].about["updated"] if newest else "",
        "turns": {"user": spent.get("user", 0), "model": total.used.responses},
        "tokens": {name: tokens[counter] for name, counter in _TOKENS.items()},
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


def total(session: str, branches: Sequence[Known], responses: Callable[[int, int, int], bytes]) -> Sum:
    """What a session has used: each event counts once, and each response, as in `gj cost`.

    ``responses`` gives the records of a segment's events ``after`` < seq <= ``upto``.
    """
    records: list[bytes] = []
    longest: dict[int, Held] = {}
    for known in sorted((known for known in branches if not known.error), key=_rank):
        for part in known.parts:
            before = longest.get(part.segment)
            after = before.upto if before else part.first - 1
            if part.session == session and part.upto > after:
                records.append(responses(part.segment, after, part.upto))
                longest[part.segment] = part
    spent: Spent = {}
    for part in longest.values():
        add(spent, part.spent)
    events = sum(part.upto - part.first + 1 for part in longest.values())
    return Sum(events, spent, index_used.total(b"".join(records)))


def _rank(known: Known) -> tuple[Any, ...]:
    """The order in which `cost.tally` reads branches: it decides where a response of several providers counts."""
    after, parent = known.about["begin"]
    return known.about["started"], known.branch != TRUNK and not parent, after, known.branch


def as_text(about: Mapping[str, Any]) -> str:
    """A JSON object as a row has it."""
    return json.dumps(about, separators=(",", ":"))


def add(total: Spent, spent: Spent) -> None:
    """Add counters up."""
    for name, count in spent.items():
        total[name] = total.get(name, 0) + count
