"""Titles that other programs give a session, as ``session.update`` can hold them."""

from __future__ import annotations

import re
from typing import Any

from gitjournal.vocabulary import MAX_TITLE

_BREAKS = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]+")


def title_of(value: Any) -> str | None:
    """A text as a title: one line, no control characters, cut to `MAX_TITLE`. None for what is no text."""
    if type(value) is not str:
        return None
    line = " ".join(_BREAKS.sub(" ", value).split())
    return line if len(line) <= MAX_TITLE else line[: MAX_TITLE - 1] + "\u2026"
