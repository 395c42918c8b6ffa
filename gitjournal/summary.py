"""A summary of a session that nobody has summed up: what was said last.

Floor 3, pure. Computed whenever it is asked for, never stored.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from gitjournal.state import fold

if TYPE_CHECKING:
    from gitjournal.event import Event
    from gitjournal.state_form import Entry

_SAID = ("message", "model.response")
#: How many messages are taken, and the most characters of them all.
MESSAGES = 6
MOST = 2000


def automatic(entries: Iterable[Mapping[str, Any]]) -> str:
    """The last `MESSAGES` of the user and the model as lines ``role: text``, at most `MOST` characters.

    ``entries`` are the ``history`` of a state, or the end of it (`last_said`). Empty when nothing was said.
    """
    last: deque[str] = deque(maxlen=MESSAGES)
    for entry in entries:
        text = " ".join(_text(entry).split()) if entry["role"] in ("user", "assistant") else ""
        if text:
            last.append(f"{entry['role']}: {text}")
    return "\n".join(last)[:MOST]


def last_said(events: Iterable[Event]) -> list[Entry]:
    """The last `MESSAGES` entries, oldest first, in which somebody said something; ``events`` come newest first.

    Neither what a program said in the user's name nor the talk of sub-agents. Reads no more events than it needs.
    """
    found: list[Entry] = []
    for event in events:
        if event.type not in _SAID or event.withheld:
            continue
        aside = any(event.stored_data.get(mark) is True for mark in ("injected", "sidechain"))
        entries = [] if aside else fold([event]).history
        found += [entry for entry in entries if automatic([entry])]
        if len(found) == MESSAGES:
            break
    return found[::-1]


def _text(entry: Mapping[str, Any]) -> str:
    said = (part.get("content") for part in entry["parts"] if part["type"] == "text")
    return "\n".join(one for one in said if isinstance(one, str))
