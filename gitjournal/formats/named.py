"""What the session of a source is called, where its id may be that of another format's session.

Two files of different formats can have one name, and a file that was not whole yet may have been taken for another
format. What one format reads is no version of what another one has read: it is a session of its own, called after both.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from gitjournal import refs
from gitjournal.errors import NotFound, UsageError
from gitjournal.refs import JOURNAL_SESSION, Name

if TYPE_CHECKING:
    from gitjournal.journal import Journal


def usable(session: str) -> str:
    """The session id if it can be one. UsageError."""
    refs.check_id(session)
    if session == JOURNAL_SESSION:
        raise UsageError(f"the session id {session!r} is reserved for the journal's own log")
    return session


def of_format(journal: Journal, fmt: str, session: str) -> str:
    """The session that is called so in a format, there or not: ``s``, or ``s.codex``, if ``s`` is of another format.

    UsageError for what can be no session id.
    """
    names = itertools.chain((session, f"{session}.{fmt}"), (f"{session}.{fmt}-{n}" for n in itertools.count(2)))
    return next(name for name in names if not is_of_another(journal, fmt, usable(name)))


def is_of_another(journal: Journal, fmt: str, session: str) -> bool:
    """Whether there is a session with this id that did not come from the format. One whose start is withheld may."""
    try:
        start = journal.event(Name(session), 1)
    except NotFound:
        return False
    return not start.withheld and start.stored_data.get("source") != fmt
