"""Export of record formats: the bytes that were imported."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

from gitjournal.errors import UsageError
from gitjournal.event import Event
from gitjournal.formats.copies import copied_bytes, copied_count, is_copied
from gitjournal.formats.imported import after_record, continues, is_redacted, raw_piece
from gitjournal.formats.known import Generation, generations
from gitjournal.journal import Journal
from gitjournal.refs import Name


def export_raw(fmt: str, journal: Journal, name: Name, out: BinaryIO) -> int:
    """Write the bytes of all imported records of a branch, in the order of the source; the number of records.

    A trunk or an import branch gives its source whole, with the records of its rewinds. UsageError, before anything is
    written, when events are without a record, records are missing, or the session is of another format.
    """
    missing = 0
    for _, event in in_order(journal, name):
        if event.type == "session.start" and not event.withheld and event.data.get("source") != fmt:
            raise UsageError(f"{name} was not imported from {fmt}", hint="gj export --format jsonl writes any session.")
        if event.type == "session.start" and event.stored_data.get("exact") is False:
            raise UsageError(
                f"{name} was made from the rows of a database or the members of an archive: no file can be made of it",
                hint="gj export --format jsonl writes any session.",
            )
        missing += not (event.type.startswith("session.") or raw_piece(event) or is_copied(event))
    if missing:
        raise UsageError(
            f"{name} has {missing} events that are not from a {fmt} file or whose payload is gone",
            hint="gj export --format jsonl writes them all.",
        )
    count = 0
    for branch, event in in_order(journal, name):
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


def in_order(journal: Journal, name: Name) -> Iterator[tuple[Name, Event]]:
    """All events that an export is made of, in the order of the source, each with its branch."""
    found = next((one for one in generations(journal, name.session) if one.name == name), None)
    if found is None or not found.runs:
        for event in journal.events(name):
            yield name, event
        return
    yield from _of(journal, found)


def _of(journal: Journal, found: Generation) -> Iterator[tuple[Name, Event]]:
    trunk, root = found.root
    # The past of a copy is another source. That of a fork which somebody made of an imported session is its own.
    past = 1 if _begins_with_copy(journal, trunk, root) else root
    yield from ((trunk, event) for event in journal.events(trunk, to=past))
    number = 0 if past == 1 else found.runs[0].position - 1
    for run, then in zip(found.runs, [*found.runs[1:], None], strict=True):
        if run.position != number + 1:
            raise UsageError(
                f"{found.name} lacks records {number + 1} to {run.position - 1}: their branch is gone",
                hint="gj export --format jsonl writes each branch that is there.",
            )
        for event in journal.events(run.name, after=run.first - 1):
            if is_copied(event):
                number += copied_count(event)
            elif _is_record(event):
                if then and number + 1 == then.position:
                    break
                number += 1
            yield run.name, event


def _is_record(event: Event) -> bool:
    """Whether an event begins a record, be it one that is erased."""
    if event.withheld:
        return not event.type.startswith("session.")
    return raw_piece(event) is not None and not continues(event)


def _begins_with_copy(journal: Journal, trunk: Name, root: int) -> bool:
    return any(map(is_copied, journal.events(trunk, after=root, to=root + 1)))
