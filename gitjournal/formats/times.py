"""Times of foreign records as the ``ts`` of an event."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

from gitjournal import rules

#: The ``ts`` of records before the first that has a time.
NO_TIME = "1970-01-01T00:00:00.000Z"
# Not datetime.fromisoformat: what it takes differs between Python versions, and imports must not.
_ISO = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})[Tt ]([0-9]{2}):([0-9]{2}):([0-9]{2})"
    r"(?:[.,]([0-9]{1,9}))?(?:([Zz])|([+-])([0-9]{2}):?([0-9]{2}))?"
)
# Numbers from here on are milliseconds (year 5138 in seconds, 1973 in milliseconds).
_MILLISECONDS = 100_000_000_000
# Year 10,000 in milliseconds.
_END_OF_TIME = 253_402_300_800_000


def to_ts(value: Any) -> str | None:
    """A foreign time as ``YYYY-MM-DDTHH:MM:SS.mmmZ``; None when it is none, or lies before 1970.

    Takes ISO 8601 text (without a zone: UTC) and numbers (Unix seconds or milliseconds). Finer digits are cut.
    """
    if type(value) is str:
        return _from_text(value)
    if type(value) in (int, float) and 0 <= value < _END_OF_TIME:
        whole = int(value if value >= _MILLISECONDS else value * 1000)
        return _print(datetime(1970, 1, 1, tzinfo=UTC), timedelta(milliseconds=whole))
    return None


def _from_text(text: str) -> str | None:
    if len(text) == 24 and rules.is_ts(text):
        return text
    match = _ISO.fullmatch(text)
    if match is None:
        return None
    year, month, day, hour, minute, second = (int(match[i]) for i in range(1, 7))
    millis = int((match[7] or "").ljust(3, "0")[:3])
    sign = -1 if match[9] == "-" else 1
    offset = timedelta(hours=sign * int(match[10] or 0), minutes=sign * int(match[11] or 0))
    try:
        moment = datetime(year, month, day, hour, minute, second, millis * 1000, tzinfo=timezone(offset))
    except ValueError:
        return None
    return _print(moment, timedelta())


def _print(moment: datetime, after: timedelta) -> str | None:
    try:
        text = (moment + after).astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    except OverflowError:
        return None
    return text if rules.is_time(text) else None
