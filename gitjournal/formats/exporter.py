"""Export of record formats: the bytes that were imported."""

from __future__ import annotations

from typing import BinaryIO

from gitjournal.errors import UsageError
from gitjournal.formats.importer import after_record, raw_digest
from gitjournal.journal import Journal
from gitjournal.refs import Name


def export_raw(fmt: str, journal: Journal, name: Name, out: BinaryIO) -> int:
    """Write the bytes of all imported records of a branch; the number of records.

    UsageError, before anything is written, when the branch has events without a record, or is of another format.
    """
    missing = 0
    for event in journal.events(name):
        if event.type == "session.start" and not event.withheld and event.data.get("source") != fmt:
            raise UsageError(f"{name} was not imported from {fmt}", hint="gj export --format jsonl writes any session.")
        missing += not (event.type.startswith("session.") or raw_digest(event))
    if missing:
        raise UsageError(
            f"{name} has {missing} events that are not from a {fmt} file or whose payload is gone",
            hint="gj export --format jsonl writes them all.",
        )
    count = 0
    for event in journal.events(name):
        if raw_digest(event):
            out.write(event.read_file(1) + after_record(event))
            count += 1
    return count
