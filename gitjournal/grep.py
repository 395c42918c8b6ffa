"""Lines of texts that match a pattern, from the events themselves, each event once.

Floor 4.
"""

from __future__ import annotations

import re
import signal
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, NamedTuple

from gitjournal.errors import JournalError, UsageError
from gitjournal.index_text import data_of, strings
from gitjournal.lineage import Part, parts
from gitjournal.refs import TRUNK

if TYPE_CHECKING:
    from types import FrameType

    from gitjournal.event import Event
    from gitjournal.journal import Journal
    from gitjournal.refs import Name

#: How long a pattern may look at one event, in seconds: some take longer than anybody lives.
PATIENCE = 5.0
# What ends a line. str.splitlines would also cut at what stands within the lines of other programs.
_BREAK = re.compile(r"\r\n|\n|\r")
# Text that stands in an event's bytes as it is.
_ITSELF = re.compile(r"[A-Za-z0-9_ .,:;/()=+*?!@-]{2,}")


class Found(NamedTuple):
    """A line of a text in event ``seq``; what matched is ``line[begin:end]``."""

    name: Name
    seq: int
    type: str
    actor: str
    line: str
    begin: int
    end: int


class Wanted(NamedTuple):
    """What to look for; ``types`` are names of types, in which ``*`` is any text, or none for all."""

    pattern: re.Pattern[str]
    types: Sequence[str] = ()
    #: The pattern, when it is plain text in exactly these letters.
    literal: str = ""

    def may_have(self, event: Event) -> bool:
        """Whether it is worth to look into an event."""
        if self.types and not any(fnmatchcase(event.type, one) for one in self.types):
            return False
        # What stands in a side file is not in the bytes as it is; a tag says that there is some.
        plain = _ITSELF.fullmatch(self.literal) and b'"$gj:' not in event.raw
        return not plain or self.literal.encode() in event.raw


def wanted(pattern: str, *, fixed: bool = False, ignore_case: bool = False, types: Sequence[str] = ()) -> Wanted:
    """Look for a regular expression (``fixed``: a plain text). UsageError for one that is none."""
    try:
        found = re.compile(re.escape(pattern) if fixed else pattern, re.IGNORECASE if ignore_case else 0)
    except (re.error, OverflowError, RecursionError) as error:
        raise UsageError(f"{pattern!r} is no regular expression: {error}", hint="-F takes it as plain text.") from None
    return Wanted(found, types, pattern if fixed and not ignore_case else "")


def everywhere(journal: Journal, names: Iterable[Name], what: Wanted) -> Iterator[Found | JournalError]:
    """The matching lines of branches, session by session; an event that several have comes once, where it was written.

    A branch that cannot be read gives its error, and the others go on. UsageError when the pattern takes too long.
    """
    failed: dict[Name, JournalError] = {}
    for part in sorted(parts(journal, names, failed), key=_place):
        try:
            yield from line(journal, part.name, what, part.after, part.head)
        except UsageError:
            raise
        except JournalError as error:
            yield error
    yield from failed.values()


def _place(part: Part) -> tuple[str, bool, str]:
    """In a list of branches the trunk comes first."""
    return part.name.session, part.name.branch != TRUNK, part.name.branch


def line(journal: Journal, name: Name, what: Wanted, after: int = 0, to: int | None = None) -> Iterator[Found]:
    """The matching lines in events ``after`` < seq <= ``to`` of one branch. Raises what reading them does."""
    for event in journal.chain(name).events(after, to):
        if what.may_have(event):
            with limited(f"{name}@{event.seq}"):
                found = list(_lines(name, event, what.pattern))
            yield from found


def _lines(name: Name, event: Event, pattern: re.Pattern[str]) -> Iterator[Found]:
    for text in strings(data_of(event)):
        lines = _BREAK.split(text)
        # A break at the end begins no line.
        for one in lines if lines[-1] else lines[:-1]:
            if match := pattern.search(one):
                yield Found(name, event.seq, event.type, event.actor, one, *match.span())


@contextmanager
def limited(where: str, hint: str = "Make it simpler, or plain text: -F") -> Iterator[None]:
    """UsageError when the block takes longer than `PATIENCE`. Without a limit in threads, which get no signals."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(_signal: int, _frame: FrameType | None) -> Any:
        raise UsageError(f"the pattern takes too long on {where}", hint=hint)

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, PATIENCE)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
