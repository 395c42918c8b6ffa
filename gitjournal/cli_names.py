"""Names that people type: ``s``, ``s/branch``, ``s@40``, ``s/branch@40``, or the beginning of an event's hash.

Floor 6. How much of a name must be typed is one rule (`By`): a command that reads takes any part of it, one that writes
its beginning, one that cannot be undone or takes hold of a branch all of it. A whole name wins over beginnings, and
these over parts; what fits several names is refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Literal, NamedTuple

from gitjournal.cli_base import complain
from gitjournal.errors import JournalError, NotFound, UsageError

if TYPE_CHECKING:
    from gitjournal.journal import Journal
    from gitjournal.refs import Name

#: How a name is found: by any part of it or letters in its order, by its beginning, or only by all of it.
By = Literal["near", "prefix", "whole"]

_HASH = re.compile(r"[0-9a-f]{7,64}")
_RANGE = re.compile(r"(?s)(.+)@([0-9]{0,8})\.\.([0-9]{0,8})")
_CANDIDATES = 8
_SUGGESTED = 3
_SEQS = re.compile(r"([0-9]{1,8})(?:-([0-9]{1,8}))?")
#: Shorter texts are within too many names.
_LEAST = 3
_AGO = re.compile(r"([0-9]{1,6})([mhdw])")
_MINUTES = {"m": 1, "h": 60, "d": 24 * 60, "w": 7 * 24 * 60}
#: More events in one range are a slip of the finger.
_MOST = 1_000_000


class Target(NamedTuple):
    """A branch, and a position on it if one was given."""

    name: Name
    seq: int | None

    def __str__(self) -> str:
        return str(self.name) if self.seq is None else f"{self.name}@{self.seq}"


def find(journal: Journal, text: str, *, by: By = "near") -> Target:
    """What ``s``, ``s/branch``, ``s@40``, ``s/branch@40`` or, unless by ``whole``, the beginning of a hash stands for.

    NotFound suggests near names; JournalError when it can mean several things.
    """
    from gitjournal.refs import split_position

    base, seq = split_position(text)
    whole = _branch(journal, text)
    part = _branch(journal, base) if seq is not None else None
    if whole and part:
        raise JournalError(
            f"{text!r} can be event {seq} of {base!r} or a session of that name",
            hint=f"Write {text}/main for the session.",
        )
    if whole:
        return Target(whole, None)
    if part:
        return Target(part, seq)
    if by == "whole":
        return Target(_expected(journal, base), seq)
    like = _like(journal, base, by)
    if len(like) == 1:
        return Target(like[0], seq)
    if _HASH.fullmatch(text):
        return _by_hash(journal, text, like)
    if like:
        raise _ambiguous(journal, base, like)
    return Target(_expected(journal, base), seq)


def find_branch(journal: Journal, text: str, *, by: By) -> Name:
    """The branch that a name stands for, as `find` has it. UsageError also for an event."""
    target = find(journal, text, by=by)
    if target.seq is not None:
        raise UsageError(f"{text!r} is one event; give the session or branch")
    return target.name


def _branch(journal: Journal, text: str) -> Name | None:
    try:
        return journal.resolve(text)
    except NotFound:
        return None
    except UsageError as error:
        raise JournalError(str(error), hint=f"Write {text}/main for the session of that name.") from None


def _like(journal: Journal, text: str, by: By) -> list[Name]:
    """The branches whose name begins with ``text`` or, by ``near``, has it within, if it cannot be that of an event."""
    names = list(journal.sessions()) if text else []
    found = _matching(names, text, str.startswith)
    if not found and by == "near" and not _HASH.fullmatch(text):
        found = _parts(names, text)
    if len(found) == 1 and by == "near" and not _HASH.fullmatch(text):
        # Who reads may not see otherwise whose events these are. The beginning of an id that is a number is meant.
        complain(f"{text!r} is taken for {found[0]}")
    return found


def _parts(names: Iterable[Name], text: str) -> list[Name]:
    """Those that have the text within; without any, those that have its characters in this order."""
    if len(text) < _LEAST:
        return []
    return _matching(names, text, _within) or _matching(names, text, _in_order)


def _expected(journal: Journal, text: str) -> Name:
    """The branch of that whole name. NotFound suggests those of another case, and those that have it within."""
    try:
        return journal.resolve(text)
    except NotFound as error:
        names = list(journal.sessions())
        if like := _matching(names, text, _same) or _parts(names, text):
            error.hint = f"Did you mean {', '.join(map(str, like[:_SUGGESTED]))}?"
        raise


def _matching(names: Iterable[Name], text: str, fits: Callable[[str, str], bool]) -> list[Name]:
    """The trunks (or first branches) of sessions whose id fits; without any, branches, at each slash of the text."""
    sessions: dict[str, Name] = {}
    branches = []
    cuts = [(text[:at], text[at + 1 :]) for at, char in enumerate(text) if char == "/" and 0 < at < len(text) - 1]
    for name in sorted(names, key=lambda name: (name.session, name.branch != "main", name.branch)):
        if fits(name.session, text):
            sessions.setdefault(name.session, name)
        elif any(fits(name.session, left) and fits(name.branch, right) for left, right in cuts):
            branches.append(name)
    return list(sessions.values()) or branches


def _same(name: str, text: str) -> bool:
    return text.casefold() == name.casefold()


def _within(name: str, text: str) -> bool:
    return text.lower() in name.lower()


def _in_order(name: str, text: str) -> bool:
    """Whether a name has all characters of the text in this order."""
    rest = iter(name.lower())
    return all(char in rest for char in text.lower())


def _ambiguous(journal: Journal, text: str, found: list[Name], events: int = 0) -> JournalError:
    from gitjournal.index import titles
    from gitjournal.render import count

    known = titles(journal, found[:_CANDIDATES])
    shown = [f"{name} ({known[name]})" if known.get(name) else str(name) for name in found[:_CANDIDATES]]
    more = ", ..." if len(found) > _CANDIDATES else ""
    also = f", or {count(events, 'event')} by hash" if events else ""
    return JournalError(
        f"{text!r} can be {len(found)} sessions or branches{also}", hint=f"Which one? {', '.join(shown)}{more}"
    )


def find_range(journal: Journal, text: str) -> tuple[Name, int, int | None]:
    """(branch, first seq, last seq or None for the newest) of ``s``, ``s@40`` (up to 40) or ``s@10..40``."""
    match = _RANGE.fullmatch(text)
    if match and _branch(journal, text) is None and (name := find(journal, match[1]).name):
        first, last = int(match[2] or 1), int(match[3]) if match[3] else None
        if last is not None and last < first:
            raise UsageError(f"the range {text!r} is empty")
        return name, first, last
    target = find(journal, text)
    return target.name, 1, target.seq


def since(text: str) -> str:
    """The ``ts`` that ``7d``, ``12h``, ``2w``, ``30m`` (ago), ``2026-11-03`` (UTC) or a whole time stands for.

    UsageError for any other text.
    """
    from datetime import UTC, datetime, timedelta

    ago = _AGO.fullmatch(text)
    try:
        at = (
            datetime.now(UTC) - timedelta(minutes=int(ago[1]) * _MINUTES[ago[2]])
            if ago
            else datetime.fromisoformat(text)
        )
        at = at.astimezone(UTC) if at.tzinfo else at.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        raise UsageError(
            f"{text!r} is no time", hint="Write 7d, 12h, 30m, 2w, 2026-11-03 or 2026-11-03T12:00."
        ) from None
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def parse_seqs(text: str) -> list[int]:
    """The numbers in ``17,20-25``. UsageError."""
    seqs: list[int] = []
    for part in text.split(","):
        match = _SEQS.fullmatch(part.strip())
        if match is None:
            raise UsageError(f"{text!r} is not a list of events like 17,20-25")
        first, last = int(match[1]), int(match[2] or match[1])
        if not first <= last < first + _MOST:
            raise UsageError(f"the range {part!r} is empty or too long")
        seqs += range(first, last + 1)
    return seqs


def position(journal: Journal, text: str, *, by: By = "near") -> tuple[Name, int]:
    """A branch and a seq on it, by default that of the newest event. NotFound beyond the newest event."""
    target = find(journal, text, by=by)
    newest = journal.head(target.name).seq
    if target.seq is not None and target.seq > newest:
        raise NotFound(f"{target.name} has no event {target.seq}", hint=f"Its newest event is {target.name}@{newest}.")
    return target.name, newest if target.seq is None else target.seq


def _by_hash(journal: Journal, prefix: str, like: list[Name]) -> Target:
    """The event whose hash begins so. Looks at every event once, wherever branches share it.

    ``like``: branches whose names begin so, several or none.
    """
    from gitjournal.lineage import begins

    found: dict[str, Target] = {}
    for name in journal.sessions():
        chain = journal.chain(name)
        for event in chain.events(after=begins(journal, name).after):
            if event.hash.startswith(prefix):
                found.setdefault(event.hash, Target(name, event.seq))
                if len(prefix) == 64:
                    return found[event.hash]
    if like:
        raise _ambiguous(journal, prefix, like, len(found))
    if not found:
        raise NotFound(f"there is no session, branch or event {prefix!r}", hint="gj sessions lists what is there.")
    if len(found) > 1:
        shown = [f"{target} ({digest[: len(prefix) + 4]})" for digest, target in found.items()]
        more = ", ..." if len(shown) > _CANDIDATES else ""
        raise JournalError(
            f"{prefix!r} begins the hash of {len(found)} events",
            hint=f"Which one? {', '.join(shown[:_CANDIDATES])}{more}",
        )
    return next(iter(found.values()))
