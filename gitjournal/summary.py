"""A summary of a session that nobody has summed up: what was said last.

Floor 3, pure. Computed whenever it is asked for, never stored.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any

#: How many messages are taken, and the most characters of them all.
MESSAGES = 6
MOST = 2000


def automatic(entries: Iterable[Mapping[str, Any]]) -> str:
    """The last `MESSAGES` of the user and the model as lines ``role: text``, at most `MOST` characters.

    ``entries`` are the ``history`` of a state. Empty when nothing was said.
    """
    last: deque[str] = deque(maxlen=MESSAGES)
    for entry in entries:
        text = " ".join(_text(entry).split()) if entry["role"] in ("user", "assistant") else ""
        if text:
            last.append(f"{entry['role']}: {text}")
    return "\n".join(last)[:MOST]


def _text(entry: Mapping[str, Any]) -> str:
    said = (part.get("content") for part in entry["parts"] if part["type"] == "text")
    return "\n".join(one for one in said if isinstance(one, str))
