"""Taking old entries out of what the model sees, and a summary in their place: `compact`.

Floor 3. Writes one ``context.compaction``; the journal and the transcript lose nothing by it. A tool call and its
result leave the context together or not at all, because providers refuse the one without the other.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from gitjournal.chain import Appended
from gitjournal.errors import UsageError
from gitjournal.session import Session
from gitjournal.state import SessionState, fold
from gitjournal.state_form import Entry

if TYPE_CHECKING:
    from gitjournal.aio import AsyncSession

_OPEN = "A call without a result stays. Close those that were interrupted with: gj resume"

#: How many of the newest entries stay when neither a number nor a range is given.
KEEP = 6

Summary = str | Callable[[list[Entry]], str] | None
AsyncSummary = str | Callable[[list[Entry]], str | Awaitable[str]] | None
#: Places in the context of a call and of its result; a call without one has it behind the end.
Pair = tuple[int, int]


class _Plan(NamedTuple):
    """What a compaction takes out of the context as it was at ``head``: ``gone``, of so many ``entries``."""

    head: int
    first: int
    last: int
    keep: int
    gone: list[Entry]
    entries: int


class Compacted(NamedTuple):
    """What `compact` wrote, how many entries it took out of the context, and how many it left there."""

    event: Appended
    removed: int
    kept: int


def compact(
    session: Session,
    summary: Summary,
    *,
    keep: int | None = None,
    from_seq: int | None = None,
    to_seq: int | None = None,
) -> Compacted:
    """Take entries out of the context and put a summary where they stood.

    Without a range all entries go but the last ``keep`` (default `KEEP`), and a few more that belong to calls among
    these. With ``from_seq`` or ``to_seq`` those of the events in the range go, but never the last ``keep`` (default
    0). ``summary`` is the text, or a function that makes it of the entries that go; None puts nothing there.

    Raises UsageError for a range outside the session or through a call and its result, for a bad ``keep``, for a
    summary that says nothing, and when nothing would go; nothing is written then. ConflictError when another thread
    appends meanwhile.
    """
    plan = _plan(session, keep, from_seq, to_seq)
    if summary is None:
        return _write(session, plan)
    return _write(session, plan, as_summary(summary(plan.gone) if callable(summary) else summary))


async def acompact(
    session: AsyncSession,
    summary: AsyncSummary,
    *,
    keep: int | None = None,
    from_seq: int | None = None,
    to_seq: int | None = None,
) -> Compacted:
    """The same for asyncio. A function is called in the event loop, and what it returns may be awaitable.

    Meanwhile others can use the session; what they append is a ConflictError here, as above. Cancelled before the
    summary is there, it writes nothing.
    """
    plan = await session.run(partial(_plan, keep=keep, from_seq=from_seq, to_seq=to_seq))
    if summary is None:
        return await session.run(partial(_write, plan=plan))
    said = summary(plan.gone) if callable(summary) else summary
    text = as_summary(await said if isinstance(said, Awaitable) else said)
    return await session.run(partial(_write, plan=plan, summary=text))


def _plan(session: Session, keep: int | None, from_seq: int | None, to_seq: int | None) -> _Plan:
    ranged = from_seq is not None or to_seq is not None
    head = session.head.seq
    first, last = _range(session, from_seq, to_seq)
    state = fold(session.chain.events(to=head))
    kept = _keep(keep, KEEP if not ranged else 0)
    if not ranged:
        kept = _keep_pairs(state, kept)
    context = state.context
    gone = [i for i, one in enumerate(context[: max(len(context) - kept, 0)]) if first <= one["seq"] <= last]
    if not gone:
        hint = _OPEN if state.open_calls else ""
        raise UsageError(f"there is nothing to compact: {_all_stay(len(context))}", hint=hint)
    _check_pairs(state, set(gone))
    return _Plan(head, first, last, kept, [context[i] for i in gone], len(context))


def _write(session: Session, plan: _Plan, summary: str | None = None) -> Compacted:
    data: dict[str, Any] = {"from_seq": plan.first, "to_seq": plan.last, "keep_last": plan.keep}
    if summary is not None:
        data["summary"] = summary
    event = session.append("context.compaction", data, expected_seq=plan.head)
    return Compacted(event, len(plan.gone), plan.entries - len(plan.gone))


def _range(session: Session, from_seq: int | None, to_seq: int | None) -> tuple[int, int]:
    head = session.head.seq
    first, last = 1 if from_seq is None else from_seq, head if to_seq is None else to_seq
    if type(first) is not int or type(last) is not int or not 1 <= first <= last <= head:
        shown = f"{first!a:.40} to {last!a:.40}"
        raise UsageError(f"the range {shown} is not within {session.name}, which has the events 1 to {head}")
    return first, last


def _keep(keep: int | None, default: int) -> int:
    if keep is None:
        return default
    if type(keep) is not int or keep < 0:
        raise UsageError(f"keep is a whole number of entries, 0 or more, not {keep!a:.40}")
    return keep


def _all_stay(entries: int) -> str:
    if entries == 0:
        return "the context has no entry"
    return f"all {entries:,} entries of the context stay" if entries > 1 else "the one entry of the context stays"


def as_summary(text: object) -> str:
    """The text of a summary, without the white space around it. UsageError when it is none, or says nothing."""
    if not isinstance(text, str):
        raise UsageError(f"a summary is text, not {type(text).__name__}")
    if not (said := text.strip()):
        raise UsageError(
            "the summary is empty, and what it stands for would leave the context without a trace",
            hint="Say in it what the model must still know.",
        )
    return said


# --- calls and their results ---------------------------------------------------------------------


def _keep_pairs(state: SessionState, keep: int) -> int:
    """How many entries to keep so that the cut does not go between a call and its result."""
    size = len(state.context)
    pairs = list(_pairs(state))
    cut = max(size - keep, 0)
    while split := [call for call, result in pairs if call < cut <= result]:
        cut = min(split)
    return size - cut


def _check_pairs(state: SessionState, gone: set[int]) -> None:
    context = state.context
    for call, result in _pairs(state):
        if (call in gone) == (result in gone):
            continue
        asked = f"event {context[call]['seq']} calls a tool"
        if result == len(context):
            raise UsageError(f"{asked} and has no result yet", hint=_OPEN)
        answered = f"event {context[result]['seq']} has the result"
        raise UsageError(f"{asked}, {answered}: a compaction takes both or neither")


def _pairs(state: SessionState) -> Iterator[Pair]:
    """Where calls and their results stand in the context, for those of which at least the call does."""
    asked: dict[str, int] = {}
    for place, entry in enumerate(state.context):
        for part in entry["parts"]:
            call_id = part.get("id")
            if not isinstance(call_id, str) or entry["kind"] == "context.compaction":
                continue
            if part["type"] == "tool_call":
                asked.setdefault(call_id, place)
            elif part["type"] == "tool_call_response" and call_id in asked:
                yield asked.pop(call_id), place
    for call in state.open_calls:
        if call["id"] in asked:
            yield asked[call["id"]], len(state.context)
