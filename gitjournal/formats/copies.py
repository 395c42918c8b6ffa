"""Sources that begin with a copy of another session: only what differs is kept, and the bytes are exact all the same.

A program that resumes or forks a session may copy its history into a new file. In the journal the new session is a fork
of the other one. Its first own event holds the bytes of the copied part, as a patch on those of the events that it
goes on from: whole numbers in base 128, each ``2 n`` before ``n`` bytes of text, or ``2 n + 1`` before the distance
from where the last copy ended to where the next ``n`` bytes of the other begin.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Callable, Iterator
from hashlib import sha256
from importlib import import_module
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

from gitjournal.errors import FormatError
from gitjournal.event import Event
from gitjournal.formats.imported import after_record, raw_piece
from gitjournal.formats.records import NOT_JSON, Record, value_of
from gitjournal.formats.source import joined
from gitjournal.journal import Journal
from gitjournal.likeness import describe
from gitjournal.refs import Name

if TYPE_CHECKING:
    from gitjournal.formats.protocol import Item, RecordFormat

#: Names of the side file that holds the patch, and of one with the sizes of the records (each a number for what is the
#: record and one for what stands after it) where they are not lines.
COPIED = "copied"
SIZES = "sizes"
#: Member of its ``data`` where the other is another version of the same source (`again`): the branch that it began on.
OF = "of"
#: What nobody says to the model: a copy may leave it out, or have it where the other has none.
_ASIDE = frozenset({"native", "session.update"})
# So many of them in a row.
_MOST_ASIDE = 256
#: A patch has not many more bytes.
MOST_PATCH = 64 * 1024 * 1024
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


def sizes_file(sizes: array[int]) -> bytes:
    """What `SIZES` holds."""
    return " ".join(map(str, sizes)).encode()


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
    if type(of) is not str:
        return base(journal, name, event.seq)
    # By name: what a version is, is known one room further up.
    version: Callable[[Journal, Name], Iterator[bytes]] = import_module("gitjournal.formats.again").base
    return version(journal, Name(name.session, of))


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


# --- patches -------------------------------------------------------------------------------------


class Patch:
    """A patch being made; ``at`` of `copy` never goes back."""

    def __init__(self) -> None:
        self._out = bytearray()
        self._text = bytearray()
        self._copied = self._at = self._end = 0

    def __len__(self) -> int:
        return len(self._out) + len(self._text)

    def copy(self, at: int, size: int) -> None:
        """The next ``size`` bytes are those of the base from ``at`` on."""
        if not size:
            return
        if not self._text and at == self._at + self._copied:
            self._copied += size
            return
        self._flush()
        self._at, self._copied = at, size

    def text(self, raw: bytes) -> None:
        """The next bytes are these."""
        if raw:
            self._flush_copy()
            self._text += raw

    def whole(self) -> bytes:
        """All of it."""
        self._flush()
        return bytes(self._out)

    def _flush(self) -> None:
        if self._text:
            self._number(2 * len(self._text))
            self._out += self._text
            self._text.clear()
        self._flush_copy()

    def _flush_copy(self) -> None:
        if self._copied:
            self._number(2 * self._copied + 1)
            self._number(self._at - self._end)
            self._end = self._at + self._copied
            self._at, self._copied = self._end, 0

    def _number(self, number: int) -> None:
        while number > 0x7F:
            self._out.append(0x80 | number & 0x7F)
            number >>= 7
        self._out.append(number)


def patched(patch: bytes, pieces: Iterator[bytes]) -> Iterator[bytes]:
    """The bytes that a patch makes of a base. FormatError ``bad-file`` when it does not fit."""
    source, at = joined(pieces), 0
    while at < len(patch):
        number, at = _read_number(patch, at)
        size = number >> 1
        if not number & 1:
            if at + size > len(patch):
                raise FormatError("bad-file", "the patch of a copied part is cut")
            yield patch[at : at + size]
            at += size
            continue
        skip, at = _read_number(patch, at)
        for _ in _take(source, skip):
            pass
        yield from _take(source, size)


def _take(source: BinaryIO, size: int) -> Iterator[bytes]:
    while size:
        piece = source.read(min(size, 1 << 20))
        if not piece:
            raise FormatError("bad-file", "the patch of a copied part goes beyond what it was made for")
        size -= len(piece)
        yield piece


def _read_number(patch: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while at < len(patch) and shift < 63:
        byte = patch[at]
        number |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return number, at
    raise FormatError("bad-file", "the patch of a copied part is cut")


# --- what is a copy of what ----------------------------------------------------------------------


class _Theirs(NamedTuple):
    event: Event
    key: bytes
    #: Where its record begins in the base, and the record.
    at: int
    raw: bytes


class Copy:
    """The copied part of a source, found record by record along one line of the other session."""

    def __init__(self, fmt: RecordFormat, journal: Journal, line: Name) -> None:
        self.line = line
        #: The newest event that was copied, how many records of the source were, and their bytes.
        self.seq = 0
        self.records = 0
        self.size = 0
        #: The time of the last of them.
        self.ts = ""
        #: Items behind the last one that has a partner: they are not copied.
        self.aside: list[Item] = []
        self._fmt = fmt
        self._journal = journal
        self._patch = Patch()
        self._sizes = array("Q")
        self._digest = sha256()
        self._said = False
        self._offset = 0
        self._events = journal.events(line, after=1)
        self._ahead: deque[_Theirs] = deque()

    def take(self, item: Item) -> bool:
        """Whether the next record goes into the copied part, or may yet; after False it is over."""
        key = self._fmt.same(item.record)
        theirs = self._partner(key) if key else None
        if theirs is None:
            if item.type not in _ASIDE or len(self.aside) >= _MOST_ASIDE or len(self._patch) > MOST_PATCH:
                return False
            self.aside.append(item)
            return True
        for one in self.aside:
            self._patch.text(self._count(one.record))
        describe(self._patch, self._count(item.record), theirs.raw, theirs.at)
        self.records += len(self.aside) + 1
        self.aside = []
        self.seq, self.ts = theirs.event.seq, item.ts or ""
        self._said = self._said or theirs.event.type not in _ASIDE
        return True

    def _count(self, record: Record) -> bytes:
        raw = record.raw + record.after
        self._digest.update(raw)
        self._sizes.extend((len(record.raw), len(record.after)))
        self.size += len(raw)
        return raw

    def _partner(self, key: bytes) -> _Theirs | None:
        """The next record of the other session that has this key; only what nobody says may stand before it."""
        at = 0
        while at < _MOST_ASIDE:
            if at == len(self._ahead) and not self._look():
                return None
            theirs = self._ahead[at]
            if theirs.key == key:
                for _ in range(at + 1):
                    self._ahead.popleft()
                return theirs
            if theirs.event.type not in _ASIDE:
                return None
            at += 1
        return None

    def _look(self) -> bool:
        event = next(self._events, None)
        while event is not None and not event.withheld and not raw_piece(event) and _is_between(event):
            event = next(self._events, None)
        if event is None or event.withheld or not raw_piece(event):
            return False
        raw = event.read_file(1)
        value = value_of(raw)
        record = Record(1, 0, raw, value, "" if value is not NOT_JSON else "unparsable", False, True)
        whole = raw + after_record(event)
        self._ahead.append(_Theirs(event, self._fmt.same(record), self._offset, whole))
        self._offset += len(whole)
        return True

    def finish(self) -> bytes | None:
        """The patch, which was tried; None when there is nothing worth it, or it does not give the bytes back."""
        patch = self._patch.whole()
        if not self._said:
            return None
        digest = sha256()
        try:
            for piece in patched(patch, base(self._journal, self.line, self.seq + 1)):
                digest.update(piece)
        except FormatError:
            return None
        return patch if digest.digest() == self._digest.digest() else None

    @property
    def sizes(self) -> bytes:
        """What `SIZES` holds."""
        return sizes_file(self._sizes)

    @property
    def digest(self) -> str:
        """SHA-256 (hex) of the copied part."""
        return self._digest.hexdigest()


def _is_between(event: Event) -> bool:
    """Whether an event is one that a line has between its records."""
    return event.type in ("session.branch", "session.fork") or is_copied(event)


def lines(journal: Journal, session: str) -> list[Name]:
    """The lines of a session that a source can be a copy of, the trunk first."""
    return sorted(journal.branches(session), key=lambda name: (name.branch != "main", name.branch))
