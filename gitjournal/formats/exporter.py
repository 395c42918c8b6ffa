"""Export of record formats: the bytes that were imported."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

from gitjournal.errors import UsageError
from gitjournal.event import Event
from gitjournal.formats.copied import copied_bytes, copied_count, in_order, is_copied
from gitjournal.formats.generic import Records
from gitjournal.formats.imported import after_record, is_anew, is_redacted, raw_piece
from gitjournal.journal import Journal
from gitjournal.refs import Name


def export_raw(fmt: str, journal: Journal, name: Name, out: BinaryIO) -> int:
    """Write the bytes of all imported records of a branch, in the order of the source; the number of records.

    A trunk or an import branch gives its source whole, with the records of its rewinds. ``records`` gives that of any
    import. UsageError, before anything is written, when events are without a record, records are missing, or the
    session is of another format.
    """
    missing, newest = 0, None
    for branch, event in in_order(journal, name):
        is_start = event.type == "session.start" and not event.withheld
        if is_start and fmt not in (event.data.get("source"), Records.name):
            raise UsageError(f"{name} was not imported from {fmt}", hint="gj export --format jsonl writes any session.")
        if event.type == "session.start" and event.stored_data.get("exact") is False:
            raise UsageError(
                f"{name} was made from the rows of a database or the members of an archive: no file can be made of it",
                hint="gj export --format jsonl writes any session.",
            )
        missing += not (event.type.startswith("session.") or raw_piece(event) or is_copied(event))
        if is_copied(event) and is_anew(event):
            newest = branch, event
    if missing:
        raise UsageError(
            f"{name} has {missing} events that are not from a {fmt} file or whose payload is gone",
            hint="gj export --format jsonl writes them all.",
        )
    if newest is not None:
        # A document that was written anew holds the records before.
        out.writelines(copied_bytes(journal, *newest))
        return copied_count(newest[1])
    count = 0
    for branch, event in in_order(journal, name):
        if is_anew(event):
            # Its document is not there as a whole.
            continue
        if raw_piece(event):
            out.write(event.read_file(1) + after_record(event))
            count += 1
        elif is_copied(event):
            for piece in copied_bytes(journal, branch, event):
                out.write(piece)
            count += copied_count(event)
    return count


def raw_records(journal: Journal, name: Name) -> Iterator[tuple[Event, bytes]]:
    """(event, its record's bytes and what stands after them) in the order of the source; events without one left out.

    The part of a source that is a copy of another session's is one event, with all its bytes.
    """
    for branch, event in in_order(journal, name):
        if raw_piece(event):
            yield event, event.read_file(1) + after_record(event)
        elif is_copied(event):
            yield event, b"".join(copied_bytes(journal, branch, event))


def redacted(journal: Journal, name: Name) -> int:
    """How many records of a branch had something taken out of them, so that an export is not exact."""
    return sum(is_redacted(event) for _, event in in_order(journal, name))
