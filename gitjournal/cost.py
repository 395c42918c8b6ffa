"""What sessions have used, counted from their events and never estimated; and what it cost by a table of the user's.

Floor 5. However many branches, forks and copies go on from an event, it counts once: all groupings have one total.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from gitjournal import lineage
from gitjournal.errors import JournalError
from gitjournal.index import below
from gitjournal.ledger import Ledger, Open, Place, Response, Scope, Used
from gitjournal.prices import KINDS, Asked, Prices, split
from gitjournal.refs import TRUNK, Name
from gitjournal.render import count, printable
from gitjournal.state import fold

if TYPE_CHECKING:
    from gitjournal.journal import Journal

#: What the counters are grouped by.
GROUPINGS = ("day", "model", "tool", "session", "branch")


# --- which events --------------------------------------------------------------------------------


def scope(
    journal: Journal, session: str, branch: str | None = None, *, say: Callable[[str], object] = lambda _: None
) -> Scope:
    """A session, or one branch of it, with its sub-sessions and theirs.

    ``say`` takes one line when something is wrong with the index that knows these.
    """
    children, unknown = below(journal, session, say=say)
    mine = _names(journal, Name(session, branch)) if branch is not None and branch != TRUNK else {branch}
    found, todo = [session], [(session, mine)]
    while todo:
        parent, of = todo.pop()
        # Sessions that name each other as parents are taken once.
        new = [one for one in children[parent] if one not in found and _is_below(journal, one, of, unknown)]
        found += new
        todo += [(one, {None}) for one in new]
    names = None
    if branch is not None:
        others = (name for one in found[1:] for name in journal.branches(one))
        names = frozenset((Name(session, branch), *others))
    missing = tuple((one, why) for one, why in unknown.items() if one not in found)
    return Scope(frozenset(found), names, tuple(sorted(found[1:])), missing)


def _names(journal: Journal, name: Name) -> set[str | None]:
    """The names that a branch has and had, but for those that another branch has by now."""
    try:
        points = fold(journal.events(name), history=False).branch_points
    except JournalError:
        # What cannot be read of it is told by who counts it.
        return {name.branch}
    had: set[str | None] = {one["branch"] for one in points if points and one["from"] == points[-1]["from"]}
    return had - {one.branch for one in journal.branches(name.session)} | {name.branch}


def _is_below(journal: Journal, session: str, of: set[str | None], unknown: dict[str, str]) -> bool:
    """Whether a sub-session is one of these branches of its parent; ``unknown`` takes why that cannot be told."""
    try:
        return not {None, _branch(journal, session)}.isdisjoint(of)
    except JournalError as error:
        unknown[session] = f"[{error.code}] {error}"
        return False


def _branch(journal: Journal, session: str) -> str:
    """The branch of its parent that a sub-session belongs to: the trunk, if it does not say."""
    # All branches begin with the same event, and the trunk need not be here.
    first, *_ = journal.branches(session) or [Name(session)]
    parent = journal.chain(first).event(1).stored_data.get("parent")
    branch = parent.get("branch") if isinstance(parent, dict) else None
    return branch if isinstance(branch, str) else TRUNK


def tally(journal: Journal, what: Scope, since: str = "") -> Ledger:
    """Read the events once each, those of parents before those of the branches that go on from them.

    What cannot be read of a branch is noted in the ledger, and the rest is counted.
    """
    names = (name for name in journal.sessions() if what.sessions is None or name.session in what.sessions)
    ledger, states = Ledger(what, since), dict[tuple[Name, int], Open]()
    parts = lineage.parts(journal, names, ledger.unread)
    # Of sessions that repeat each other, the one that began first has what they share.
    parts.sort(key=lambda part: journal.chain(part.name).event(1).ts)
    forks: dict[Name, set[int]] = {}
    for part in parts:
        if part.parent is not None:
            forks.setdefault(part.parent, set()).add(part.after)
    for part in parts:
        before = states.get((part.parent, part.after)) if part.parent else None
        events = journal.chain(part.name).events(part.after, part.head)
        try:
            left = ledger.read(part, events, before, forks.get(part.name, set()))
        except JournalError as error:
            ledger.unread[part.name] = error
        else:
            states.update({(part.name, seq): state for seq, state in left.items()})
    return ledger


# --- groups --------------------------------------------------------------------------------------


def grouped(ledger: Ledger, by: str = "session", prices: Prices | None = None) -> dict[str, Used]:
    """The counters by one of `GROUPINGS`, sorted; under the empty name what belongs to no model or no tool."""
    groups: dict[str, Used] = {}
    known: dict[Asked, Any] = {}
    for (place, tool), used in ledger.cells.items():
        groups.setdefault(_key(by, place, "", tool), Used()).add(used)
    for response in ledger.responses:
        if response.place is not None:
            group = groups.setdefault(_key(by, response.place, response.model, ""), Used())
            group.add(used_by(response, prices, known))
    if prices is not None:
        for group in groups.values():
            group.cost = group.cost or Decimal(0)
    return dict(sorted(groups.items()))


def total(groups: Mapping[str, Used]) -> Used:
    """The sum of groups."""
    whole = Used()
    for group in groups.values():
        whole.add(group)
    return whole


def _key(by: str, place: Place, model: str, tool: str) -> str:
    named = {"day": place.day, "session": place.session, "model": model, "tool": tool}
    return str(Name(place.session, place.branch)) if by == "branch" else named[by]


def used_by(response: Response, prices: Prices | None, known: dict[Asked, Any]) -> Used:
    """What one response used, with its cost if there are prices; ``known`` keeps those that were looked up."""
    given, output, read, written, reasoning = response.counts
    used = Used(
        input=given, output=output, cache_read=read, cache_write=written, reasoning=reasoning,
        model_turns=int(response.spoke),
    )  # fmt: skip
    if prices is not None and response.place is not None:
        models = tuple(dict.fromkeys(filter(None, (response.shown, response.requested))))
        asked = Asked(models, response.provider, response.place.day)
        if asked not in known:
            known[asked] = prices.find(asked)
        price, tokens = known[asked], split(response.counts)
        gaps = {kind: count for kind, count in zip(KINDS, tokens, strict=True) if count}
        if price is not None:
            used.cost, gaps = price.cost(tokens)
        if gaps:
            used.miss(response.model or "?", gaps)
    return used


# --- for people ----------------------------------------------------------------------------------


def money(used: Used, currency: str) -> str:
    """What something cost, as `amount` with its currency."""
    shown = amount(used)
    return f"{printable(currency)} {shown}" if shown.strip("?") else shown


def amount(used: Used) -> str:
    """Exact to four places; ``?`` when nothing has a price, ``+ ?`` when something has none; empty without tokens."""
    if not (used.input or used.output or used.unpriced):
        return ""
    cost = used.cost or Decimal(0)
    if used.unpriced and not cost:
        return "?"
    shown = "<0.0001" if 0 < cost < Decimal("0.0001") else f"{cost:,.4f}"
    return shown + (" + ?" if used.unpriced else "")


def gaps(used: Used, spell: Callable[[str], str]) -> list[str]:
    """What has no price, by model; ``spell`` makes the name of one fit for where it is shown."""
    missing = ((model, sum(tokens.values())) for model, tokens in sorted(used.unpriced.items()))
    return [f"no price for {spell(model)} ({count(number, 'token')})" for model, number in missing]
