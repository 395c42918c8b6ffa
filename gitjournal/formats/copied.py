"""Parts of a source that are a copy, of another session or of another version of the same one, and their exact bytes.

The event of such a part holds it as a patch (`patch`) on the records of all events before it, or on those of another
version in the order of that source. What an export is made of, in that order, is found here too: a version may go by
one that goes by another.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from hashlib import sha256
from typing import TYPE_CHECKING

from gitjournal.errors import FormatError, UsageError
from gitjournal.event import Event
from gitjournal.formats.imported import after_record, continues, raw_piece
from gitjournal.formats.patch import Patch, makes, patched
from gitjournal.formats.records import NOT_JSON, Record
from gitjournal.formats.source import joined
from gitjournal.formats.versions import Generation, Run, generations
from gitjournal.journal import Journal
from gitjournal.refs import Name

if TYPE_CHECKING:
    from gitjournal.formats.protocol import RecordFormat

#: Names of the side file that holds the patch, and of one with the sizes of the records (each a number for what is the
#: record and one for what stands after it) where they are not lines.
COPIED = "copied"
SIZES = "sizes"
#: Member of its ``data`` where the other is another version of the same source (`again`): the branch that it began on.
OF = "of"
#: Member of the same: where its records are, as number of the first one, branch and seq of each run.
PLACES = "places"
#: A version may go by one that goes by another: so many of them, and no more.
MOST_LEVELS = 16
# Of the size of a record.
_DIGITS = 8


def is_copied(event: Event) -> bool:
    """Whether an event holds the copied part of a source."""
    files = event.files if b'"copied"' in event.raw else ()
    return bool(files) and files[0].get("name") == COPIED


def copied_count(event: Event) -> int:
    """How many records the copied part has that an event holds."""
    count = event.stored_data.get("records")
    return count if type(count) is int and count > 0 else 0


class Part:
    """A copied part being made: its records, and their bytes as a patch."""

    def __init__(self) -> None:
        #: How many records, and how many bytes they have.
        self.records = 0
        self.size = 0
        self._patch = Patch()
        self._sizes = array("Q")
        self._digest = sha256()

    @property
    def sizes(self) -> bytes:
        """What `SIZES` holds."""
        return " ".join(map(str, self._sizes)).encode()

    @property
    def digest(self) -> str:
        """SHA-256 (hex) of the part."""
        return self._digest.hexdigest()

    def _count(self, record: Record) -> bytes:
        """One more record: its bytes, and what stands after it."""
        raw = record.raw + record.after
        self._digest.update(raw)
        self._sizes.extend((len(record.raw), len(record.after)))
        self.size += len(raw)
        self.records += 1
        return raw

    def _whole(self, pieces: Iterator[bytes]) -> bytes | None:
        """The patch, tried on what it goes by; None when it does not give the bytes back."""
        patch = self._patch.whole()
        return patch if makes(patch, pieces, self._digest.digest()) else None


def copied_bytes(journal: Journal, name: Name, event: Event) -> Iterator[bytes]:
    """The bytes of the copied part that an event of branch ``name`` holds. FormatError ``bad-file``."""
    digest = sha256()
    for piece in patched(event.read_file(1), _base_of(journal, name, event)):
        digest.update(piece)
        yield piece
    if digest.hexdigest() != event.stored_data.get("sha256"):
        raise FormatError(
            "bad-file", "a copied part is not what it was: records that it goes by are gone", seq=event.seq
        )


def _base_of(journal: Journal, name: Name, event: Event) -> Iterator[bytes]:
    of = event.stored_data.get(OF)
    return version_base(journal, Name(name.session, of)) if type(of) is str else base(journal, name, event.seq)


def copied_places(name: Name, event: Event) -> list[Run]:
    """Where the records of a copied part are on other branches of the session; none when it does not say so."""
    found = event.stored_data.get(PLACES)
    runs = []
    for one in found if type(found) is list else ():
        match one:
            case [int(position), str(branch), int(first)] if position > 0 and first > 0:
                runs.append(Run(position, Name(name.session, branch), first))
            case _:
                return []
    return runs


def copied_records(journal: Journal, name: Name, event: Event, fmt: RecordFormat) -> Iterator[Record]:
    """The records of the copied part. FormatError ``bad-file``."""
    stream = joined(copied_bytes(journal, name, event))
    if len(event.files) < 2:
        yield from fmt.cut(stream)
        return
    numbers = event.read_file(2).split()
    if not all(number.isdigit() and len(number) <= _DIGITS for number in numbers):
        raise FormatError("bad-file", "the sizes of a copied part are no numbers", seq=event.seq)
    offset = 0
    for number in range(len(numbers) // 2):
        raw, after = (stream.read(int(numbers[2 * number + n])) for n in (0, 1))
        yield Record(number + 1, offset, raw, NOT_JSON, "", False, True, after)
        offset += len(raw) + len(after)


def base(journal: Journal, name: Name, before: int) -> Iterator[bytes]:
    """What a patch goes by: the records of all events before one of a line, one after the other."""
    for event in journal.events(name, to=before - 1):
        if raw_piece(event):
            yield event.read_file(1) + after_record(event)


def version_base(journal: Journal, name: Name) -> Iterator[bytes]:
    """The records of a version that others may go by, one after the other. FormatError ``bad-file``."""
    if level(journal, name) >= MOST_LEVELS:
        raise FormatError("bad-file", f"{name} goes by too many other versions, or by itself")
    for branch, event in in_order(journal, name):
        if raw_piece(event):
            yield event.read_file(1) + after_record(event)
        elif is_copied(event):
            yield from copied_bytes(journal, branch, event)


def level(journal: Journal, name: Name) -> int:
    """How many versions this one goes by, one after the other; no more than are allowed are counted."""
    found = {one.name.branch: one for one in generations(journal, name.session)}
    level, branch = 0, name.branch
    while level < MOST_LEVELS and (of := _goes_by(journal, found.get(branch))):
        level, branch = level + 1, of
    return level


def _goes_by(journal: Journal, generation: Generation | None) -> str | None:
    if generation is None or not generation.runs:
        return None
    run = generation.runs[0]
    first = next(iter(journal.events(run.name, after=run.first - 1, to=run.first)), None)
    of = first.stored_data.get(OF) if first is not None and is_copied(first) else None
    return of if type(of) is str else None


# --- the order of a source ------------------------------------------------------------------------


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
