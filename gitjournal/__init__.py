"""gitjournal: a git-backed, content-addressed, tamper-evident journal for AI-agent sessions.

>>> journal = gitjournal.init(path)
>>> with journal.session("s1", source="console") as s:
...     s.user("hello")

The names below are imported when they are first used, so that ``gj --help`` does not wait for libgit2.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType

# `typing` takes longer to load than a hook may: type checkers know this name as well.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from gitjournal.aio import AsyncSession as AsyncSession
    from gitjournal.chain import Appended as Appended
    from gitjournal.errors import JournalError as JournalError
    from gitjournal.event import Event as Event
    from gitjournal.journal import Journal as Journal
    from gitjournal.journal import init as init
    from gitjournal.journal import open_journal as open  # noqa: A004 - gitjournal.open, as for a file
    from gitjournal.refs import Name as Name
    from gitjournal.session import Session as Session
    from gitjournal.state import SessionState as SessionState
    from gitjournal.state import fold as fold
    from gitjournal.verify import Report as Report
    from gitjournal.verify import verify as verify
    from gitjournal.writer import Draft as Draft

__version__ = "0.1.0"

_HOME = {
    "Appended": "chain",
    "AsyncSession": "aio",
    "Draft": "writer",
    "Event": "event",
    "Journal": "journal",
    "JournalError": "errors",
    "Name": "refs",
    "Report": "verify",
    "Session": "session",
    "SessionState": "state",
    "fold": "state",
    "init": "journal",
    "open": "journal",
}

__all__ = [
    "Appended",
    "AsyncSession",
    "Draft",
    "Event",
    "Journal",
    "JournalError",
    "Name",
    "Report",
    "Session",
    "SessionState",
    "fold",
    "init",
    "open",
    "verify",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'gitjournal' has no attribute {name!r}")
    module = importlib.import_module(f"gitjournal.{_HOME[name]}")
    value = getattr(module, "open_journal" if name == "open" else name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*globals(), *__all__]


class _Package(ModuleType):
    """`gitjournal.verify` is the function, also after the import system has loaded the module of that name."""

    @property
    def verify(self) -> Any:
        return importlib.import_module("gitjournal.verify").verify

    @verify.setter
    def verify(self, module: ModuleType) -> None:
        """The import system binds each loaded submodule to its package; here the name is taken."""


sys.modules[__name__].__class__ = _Package
