"""What the event of an imported record says of the record (docs/format.md section 9)."""

from __future__ import annotations

from gitjournal.event import Event
from gitjournal.redact import REDACTIONS

#: Name of the side file that holds a record's bytes.
RAW = "raw"
#: Members of ``data``: what stands in the source after the record (`Record.after`), and how many bytes of the record
#: are in the events before, because its line was not whole yet when they were imported.
AFTER = "after"
BEFORE = "before"
#: Member of ``data`` of what is not of the first saving of a document, but of a later one (`resaved`).
ANEW = "anew"
#: Imports never have another epoch; a live writer that takes over begins with 2.
EPOCH = 1
_AFTER_MEMBER = b'"after":'
_BEFORE_MEMBER = b'"before":'
_ANEW_MEMBER = b'"anew":true'
_REDACTIONS_MEMBER = b'"redactions":['


def raw_piece(event: Event) -> tuple[str, int] | None:
    """SHA-256 (hex) and size of the record that an event was imported from; None when the event has none."""
    files = event.files
    return (files[0]["sha256"], files[0]["size"]) if files and files[0].get("name") == RAW else None


def after_record(event: Event) -> bytes:
    """What stands in the source after the record that an event was imported from, before the next one."""
    # Most events have none, and need not be parsed to know it.
    after = event.stored_data.get(AFTER) if _AFTER_MEMBER in event.raw else None
    return after.encode() if type(after) is str else b""


def continues(event: Event) -> bool:
    """Whether an event has the rest of the record before it."""
    return _BEFORE_MEMBER in event.raw and type(event.stored_data.get(BEFORE)) is int


def is_anew(event: Event) -> bool:
    """Whether an event is of a later saving of a document: a record of it, or all of its bytes."""
    return _ANEW_MEMBER in event.raw and event.stored_data.get(ANEW) is True


def is_redacted(event: Event) -> bool:
    """Whether something was taken out of the record before it became the event."""
    return _REDACTIONS_MEMBER in event.raw and REDACTIONS in event.stored_data
