"""gitjournal: a git-backed, content-addressed, tamper-evident journal for AI-agent sessions.

>>> journal = gitjournal.init(path)
>>> with journal.session("s1", create=True) as s:
...     s.append("message", {"role": "user", "parts": [{"type": "text", "content": "hello"}]}, actor="user")

The names below are imported when they are first used, so that ``gj --help`` does not wait for libgit2.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

# At once, for `gitjournal.verify` is the function: an import of the module of that name would hide it later.
from gitjournal.verify import Report, verify

if TYPE_CHECKING:
    from gitjournal.chain import Appended as Appended
    from gitjournal.errors import JournalError as JournalError
    from gitjournal.journal import Journal as Journal
    from gitjournal.journal import Session as Session
    from gitjournal.journal import init as init
    from gitjournal.journal import open_journal as open  # noqa: A004, F401 - gitjournal.open, as for a file
    from gitjournal.objects import Event as Event
    from gitjournal.refs import Name as Name
    from gitjournal.state import SessionState as SessionState
    from gitjournal.state import fold as fold
    from gitjournal.writer import Draft as Draft

__version__ = "0.1.0"

_HOME = {
    "Appended": "chain",
    "Draft": "writer",
    "Event": "objects",
    "Journal": "journal",
    "JournalError": "errors",
    "Name": "refs",
    "Session": "journal",
    "SessionState": "state",
    "fold": "state",
    "init": "journal",
    "open": "journal",
}

__all__ = ["Report", "verify", *sorted(_HOME)]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'gitjournal' has no attribute {name!r}")
    module = importlib.import_module(f"gitjournal.{_HOME[name]}")
    value = getattr(module, "open_journal" if name == "open" else name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*globals(), *_HOME]
