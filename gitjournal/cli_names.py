"""Names that people type: ``s``, ``s/branch``, ``s@40``, ``s/branch@40``, or the beginning of an event's hash.

Floor 6.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from gitjournal.errors import JournalError, NotFound, UsageError

if TYPE_CHECKING:
    from gitjournal.journal import Journal
    from gitjournal.refs import Name

_HASH = re.compile(r"[0-9a-f]{7,64}")
_RANGE = re.compile(r"(?s)(.+)@([0-9]{0,8})\.\.([0-9]{0,8})")
_CANDIDATES = 8
_SEQS = re.compile(r"([0-9]{1,8})(?:-([0-9]{1,8}))?")
#: More events in one range are a slip of the finger.
_MOST = 1_000_000


class Target(NamedTuple):
    """A branch, and a position on it if one was given."""

    name: Name
    seq: int | None

    def __str__(self) -> str:
        return str(self.name) if self.seq is None else f"{self.name}@{self.seq}"


def find(journal: Journal, text: str) -> Target:
    """What ``s``, ``s/branch``, ``s@40``, ``s/branch@40`` or the beginning of an event hash stands for.

    NotFound suggests near names; UsageError or JournalError when it can mean several things.
    """
    from gitjournal.refs import split_position

    base, seq = split_position(text)
    whole = _branch(journal, text)
    part = _branch(journal, base) if seq is not None else None
    if whole and part:
        raise UsageError(
            f"{text!r} can be event {seq} of {base!r} or a session of that name",
            hint=f"Write {text}/main for the session.",
        )
    if whole:
        return Target(whole, None)
    if part:
        return Target(part, seq)
    if _HASH.fullmatch(text):
        return _by_hash(journal, text)
    journal.resolve(base)
    raise NotFound(f"there is no session or branch {text!r}")


def _branch(journal: Journal, text: str) -> Name | None:
    try:
        return journal.resolve(text)
    except NotFound:
        return None


def find_range(journal: Journal, text: str) -> tuple[Name, int, int | None]:
    """(branch, first seq, last seq or None for the newest) of ``s``, ``s@40`` (up to 40) or ``s@10..40``."""
    match = _RANGE.fullmatch(text)
    if match and (name := _branch(journal, match[1])):
        first, last = int(match[2] or 1), int(match[3]) if match[3] else None
        if last is not None and last < first:
            raise UsageError(f"the range {text!r} is empty")
        return name, first, last
    target = find(journal, text)
    return target.name, 1, target.seq


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


def position(journal: Journal, text: str) -> tuple[Name, int]:
    """A branch and a seq on it, by default that of the newest event. NotFound beyond the newest event."""
    target = find(journal, text)
    newest = journal.head(target.name).seq
    if target.seq is not None and target.seq > newest:
        raise NotFound(f"{target.name} has no event {target.seq}", hint=f"Its newest event is {target.name}@{newest}.")
    return target.name, newest if target.seq is None else target.seq


def _by_hash(journal: Journal, prefix: str) -> Target:
    """The event whose hash begins so. Looks at every event once, wherever branches share it."""
    from gitjournal.lineage import begins

    found: dict[str, Target] = {}
    for name in journal.sessions():
        chain = journal.chain(name)
        for event in chain.events(after=begins(journal, name).after):
            if event.hash.startswith(prefix):
                found.setdefault(event.hash, Target(name, event.seq))
                if len(prefix) == 64:
                    return found[event.hash]
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
