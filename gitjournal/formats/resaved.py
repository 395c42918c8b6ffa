"""A document that its program has written anew, whole, while the session went on.

What is new or changed in it goes behind the document before, on the same branch. The event behind that holds the
document's bytes as it is now, as a patch on all records that are there (`copied`), so that each saving comes back
exactly. Which records are compared, their places in the document say.
"""

from __future__ import annotations

import io
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from contextlib import suppress
from hashlib import sha256
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from gitjournal.errors import FormatError, UsageError
from gitjournal.event import Event
from gitjournal.formats.copied import base, copied_bytes, in_order, is_copied
from gitjournal.formats.imported import EPOCH, after_record, continues, is_anew, raw_piece
from gitjournal.formats.patch import Patch, makes
from gitjournal.formats.records import Record
from gitjournal.formats.versions import Generation, generations
from gitjournal.journal import Journal
from gitjournal.refs import Name

if TYPE_CHECKING:
    from gitjournal.formats.protocol import RecordFormat

# Two of them are in memory together; larger ones are compared as other sources are, in bytes.
_MOST = 16 * 1024 * 1024
_MOST_RECORDS = 20_000
# So many places of the same record are looked at.
_MOST_SAME = 8
_BEGIN = frozenset({"session.start", "session.branch", "session.fork"})


class Resaved(NamedTuple):
    """What a document has that the version of it in the journal has not."""

    generation: Generation
    #: The newest event of that version: branch and seq.
    at: tuple[Name, int]
    #: The records of the document before, and those that are new or changed.
    before: list[Record]
    new: list[Record]
    #: Whether the journal has this document already, or a later one; and whether it has its bytes.
    known: bool
    kept: bool
    #: The bytes of the document, as a patch on the records of all events of the line and the new ones.
    patch: bytes
    records: int
    size: int
    #: SHA-256 (hex).
    digest: str


def document(found: Iterable[Record]) -> list[Record] | None:
    """The records if they are those of one document; None when they are not, or it is too large."""
    records: list[Record] = []
    size = 0
    for record in found:
        size += len(record.raw) + len(record.after)
        if record.fault or not (record.at or record.fragment) or size > _MOST or len(records) >= _MOST_RECORDS:
            return None
        records.append(record)
    # Rows of a database have a place too, but nothing around them.
    whole = bool(records) and records[0].fragment and len({record.at for record in records}) == len(records)
    return records if whole else None


def find(fmt: RecordFormat, journal: Journal, session: str, now: list[Record]) -> Resaved | None:
    """The version that a document goes on from, or is one of; None when it says something else than all of them."""
    whole = b"".join(record.raw + record.after for record in now)
    digest = sha256(whole).hexdigest()
    best = None
    for generation in generations(journal, session):
        held = _held(fmt, journal, generation)
        if held is None:
            continue
        kept = digest in held.digests
        found = Resaved(generation, held.at, held.records, [], True, kept, b"", len(now), len(whole), digest)
        new = changes(fmt, held.records, now)
        if kept or (new is None and _is_older(now, held.records)):
            return found
        if new is not None and (best is None or len(new) <= len(best.new)):
            best = found._replace(new=new, known=False)
    if best is None:
        return None
    patch = _patch(journal, best, now)
    return None if patch is None else best._replace(patch=patch)


def changes(fmt: RecordFormat, before: list[Record], now: list[Record]) -> list[Record] | None:
    """What is new or changed in a document; None when something is gone, or was changed that may not be."""
    places = {record.at: record for record in before}
    if not places.keys() <= {record.at for record in now}:
        return None
    found = []
    for record in now:
        was = places.get(record.at)
        if was is None:
            found.append(record)
        elif was.raw.strip() != record.raw.strip():
            if was.fragment != record.fragment or not fmt.comes_again(was, record):
                return None
            found.append(record)
    return found


def _is_older(now: list[Record], held: list[Record]) -> bool:
    """Whether a document has less than the journal has of it, and nothing else: what stands around may differ."""
    places = {record.at: record for record in held}
    found = [(record, places.get(record.at)) for record in now]
    return len(now) < len(held) and all(
        theirs is not None
        and theirs.fragment == record.fragment
        and (record.fragment or theirs.raw.strip() == record.raw.strip())
        for record, theirs in found
    )


class _Held(NamedTuple):
    """A document as the journal has it: the records of its newest saving, and SHA-256 (hex) of each."""

    at: tuple[Name, int]
    records: list[Record]
    digests: set[str]


def _held(fmt: RecordFormat, journal: Journal, generation: Generation) -> _Held | None:
    """None when a version is no document, is not whole, or something else stands behind it."""
    with suppress(FormatError, UsageError):
        return _read(fmt, journal, generation)
    return None


def _read(fmt: RecordFormat, journal: Journal, generation: Generation) -> _Held | None:
    at, last, torn = generation.root, None, False
    pieces: list[bytes] = []
    digests: set[str] = set()
    for name, event in in_order(journal, generation.name):
        if event.type in _BEGIN and not event.files:
            continue
        if not _is_saving(event):
            return None
        at = name, event.seq
        if is_copied(event):
            last, torn = (name, event), False
            digests.add(str(event.stored_data.get("sha256")))
        elif is_anew(event):
            torn = True
        else:
            pieces.append(event.read_file(1) + after_record(event))
    whole = b"".join(pieces)
    digests.add(sha256(whole).hexdigest())
    if last is not None:
        whole = b"".join(copied_bytes(journal, *last))
    records = document(fmt.cut(io.BytesIO(whole)))
    return None if torn or not records else _Held(at, records, digests)


def _is_saving(event: Event) -> bool:
    """Whether an event is a record of a document, or holds one of its savings."""
    if event.epoch != EPOCH or event.withheld:
        return False
    return is_anew(event) if is_copied(event) else raw_piece(event) is not None and not continues(event)


# --- the bytes -----------------------------------------------------------------------------------


class _Place(NamedTuple):
    """Where a record begins in what a patch goes by, without the white space around it; and what stands behind it."""

    at: int
    size: int
    behind: bytes


def _patch(journal: Journal, found: Resaved, now: list[Record]) -> bytes | None:
    """The bytes of ``now`` as a patch, which was tried; None when it does not give them back."""
    name, seq = found.at
    places: dict[bytes, list[_Place]] = {}
    offset = 0
    for raw, after in chain(_records(journal, name, seq), ((record.raw, record.after) for record in found.new)):
        before, core, behind = _parts(raw, after)
        places.setdefault(sha256(core).digest(), []).append(_Place(offset + len(before), len(core), behind))
        offset += len(raw) + len(after)
    patch = Patch()
    for record, place in zip(now, _chosen(places, now), strict=True):
        _say(patch, record, place)
    made = patch.whole()
    pieces = chain(base(journal, name, seq + 1), (one.raw + one.after for one in found.new))
    return made if makes(made, pieces, bytes.fromhex(found.digest)) else None


def _records(journal: Journal, name: Name, seq: int) -> Iterator[tuple[bytes, bytes]]:
    """(bytes, what stands behind them) of all records of a line, up to event ``seq``."""
    return ((event.read_file(1), after_record(event)) for event in journal.events(name, to=seq) if raw_piece(event))


def _parts(raw: bytes, after: bytes) -> tuple[bytes, bytes, bytes]:
    core = raw.strip()
    start = raw.find(core)
    return raw[:start], core, raw[start + len(core) :] + after


class _Way(NamedTuple):
    """Places one behind the other in what a patch goes by; ``of`` is the number of the last one's record."""

    of: int
    place: _Place
    before: _Way | None


def _chosen(places: dict[bytes, list[_Place]], now: list[Record]) -> list[_Place | None]:
    """For each record the place that it is copied from, if any: a patch never goes back, and should copy much."""
    # Where ways end, how many bytes are copied on each, and the way; longer ones only if more is copied on them.
    ends, totals = [0], [0]
    ways: list[_Way | None] = [None]
    for number, record in enumerate(now):
        same = places.get(sha256(record.raw.strip()).digest(), [])
        for place in reversed(same[-_MOST_SAME:]):
            n = bisect_right(ends, place.at) - 1
            end, total = place.at + place.size + len(place.behind), totals[n] + place.size
            way = _Way(number, place, ways[n])
            first = bisect_left(ends, end)
            if totals[first - 1] >= total:
                continue
            last = bisect_right(totals, total, first)
            ends[first:last], totals[first:last], ways[first:last] = [end], [total], [way]
    chosen: list[_Place | None] = [None] * len(now)
    step = ways[-1]
    while step is not None:
        chosen[step.of], step = step.place, step.before
    return chosen


def _say(patch: Patch, record: Record, place: _Place | None) -> None:
    before, core, behind = _parts(record.raw, record.after)
    patch.text(before)
    if place is None:
        patch.text(core + behind)
    elif place.behind == behind:
        patch.copy(place.at, place.size + len(behind))
    else:
        patch.copy(place.at, place.size)
        patch.text(behind)
