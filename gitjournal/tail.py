"""The tail: events that are durable but not yet in git (docs/format.md section 10).

Floor 1. One canonical event a line, in a file that is filled with newlines ahead of the writing, so that the sync of
an append moves data and no inode. A line that was written together with the one before it begins with one space:
only a line without that space proves that all the lines before it were acknowledged.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

from gitjournal.errors import DamagedTail, FormatError, StorageError, disk_errors
from gitjournal.event import Event
from gitjournal.files import read_regular, sync_folder

_FIRST_FILL = 64 * 1024
_MOST_FILL = 1024 * 1024
# How often a folder is made anew that another process removes.
_TRIES = 100


class _Line(NamedTuple):
    offset: int
    number: int
    starts: bool
    event: Event | None
    problem: str


@dataclass(frozen=True, slots=True)
class Scan:
    """What a tail file holds beyond git: ``events`` in chain order and what follows them.

    ``stale`` are lines that a flush left behind, by their seq: git should have the same.
    ``end`` is the offset behind the last good line. ``torn_at`` is where a write begins that was cut and never
    acknowledged. ``damage`` says where acknowledged lines cannot be read or do not join the chain.
    """

    events: list[Event] = field(default_factory=list)
    end: int = 0
    torn_at: int | None = None
    damage: str = ""
    stale: list[Event] = field(default_factory=list)


def scan(raw: bytes, session: str, seq: int, prev: str | None) -> Scan:
    """Read the bytes of a tail that goes on after event ``seq`` with hash ``prev`` (0 and None: from the start).

    Lines up to ``seq`` are left from a flush that was cut before it could clear the tail; they are passed over.
    """
    events: list[Event] = []
    stale: list[Event] = []
    end = 0
    in_git = seq
    lines = _lines(raw)
    for line in lines:
        event = line.event
        if event is not None and event.seq <= in_git:
            stale.append(event)
            end = max(end, line.offset + len(event.raw) + (not line.starts))
            continue
        if event is None or not _joins(event, session, seq + 1, prev):
            return replace(_broken(events, end, line, lines, seq), stale=stale)
        events.append(event)
        end = line.offset + len(event.raw) + (not line.starts)
        seq, prev = event.seq, event.hash
    return Scan(events, end, stale=stale)


def _lines(raw: bytes) -> Iterator[_Line]:
    offset = 0
    for number, text in enumerate(raw.rstrip(b"\n").split(b"\n"), 1):
        if text:
            starts = not text.startswith(b" ")
            event, problem = None, ""
            try:
                event = Event.parse(text if starts else text[1:])
            except FormatError as error:
                problem = str(error)
            yield _Line(offset, number, starts, event, problem)
        offset += len(text) + 1


def _joins(event: Event, session: str, seq: int, prev: str | None) -> bool:
    # The content of side files cannot be in a tail, so an event that has some was not written by a `Writer`.
    fits = event.seq == seq and event.prev == prev and not event.files
    return fits and (event.session == session or event.type == "session.fork")


def _broken(events: list[Event], end: int, bad: _Line, rest: Iterator[_Line], seq: int) -> Scan:
    """Torn or damaged? Damaged when a later write was begun, for it began after the bad line was acknowledged."""
    for line in (bad, *rest):
        if line.event is not None and line.starts and line.event.seq > seq:
            problem = bad.problem or "the event does not follow the one before it"
            return Scan(events, end, damage=f"line {bad.number} (byte {bad.offset}): {problem}")
    return Scan(events, end, torn_at=bad.offset)


def read(path: Path) -> bytes:
    """The bytes of a tail file without the newlines at its end; empty when there is no such file.

    StorageError, also for what is no regular file and for one that is far larger than a writer makes it.
    """
    with disk_errors(f"read {path}"):
        try:
            return read_regular(path).rstrip(b"\n")
        except FileNotFoundError:
            return b""


def _sync_data(fd: int) -> None:
    """Make a file's data durable; where the system knows no ``fdatasync`` (macOS), its inode too."""
    if hasattr(os, "fdatasync"):
        os.fdatasync(fd)
    else:
        os.fsync(fd)


def _made(path: Path) -> int:
    """A descriptor of the file at ``path``, made with its folder where need be. OSError."""
    for last in reversed(range(_TRIES)):
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except (FileNotFoundError, FileExistsError):
            # The writer of another branch has closed its tail and removed the folder just now, or while mkdir looked.
            if not last:
                raise
    raise AssertionError("the last try returns or raises")


class Tail:
    """The tail file of one branch, open for writing. The caller holds the lease of the branch."""

    def __init__(self, path: Path) -> None:
        """Open or create ``path``. StorageError when the disk refuses."""
        self.path = path
        self._end = 0
        self._unsynced = False
        self._failed = ""
        # What is in the file: nothing in a new one, and `recover` says what in one that was there.
        self._known = False
        with disk_errors(f"write {path}"):
            self._fd = _made(path)
            try:
                self._size = os.fstat(self._fd).st_size
                if self._size == 0:
                    self._known = True
                    self._fill(_FIRST_FILL)
                    os.fsync(self._fd)
                # Also for a file that was there: who made it may have died before its name was on disk.
                sync_folder(path.parent)
                sync_folder(path.parent.parent)
            except BaseException:
                os.close(self._fd)
                raise

    @property
    def failed(self) -> str:
        """Why nobody can know what is on disk until the file is opened anew; empty when all is well."""
        return self._failed

    @property
    def used(self) -> int:
        """Bytes in use."""
        return self._end

    def recover(self, session: str, seq: int, prev: str | None) -> tuple[list[Event], int]:
        """Take over what an earlier writer left after event ``seq``: (its events, torn bytes set aside).

        Torn bytes go to ``<branch>.torn``. Raises DamagedTail and changes nothing when acknowledged lines are bad.
        """
        raw = read(self.path)
        found = scan(raw, session, seq, prev)
        if found.damage:
            raise DamagedTail(
                f"{self.path}: {found.damage}",
                hint="The session can be read but not written. Keep a copy of the file before you mend it.",
            )
        self._end = found.end
        if found.events:
            # The writer before may have died between its write and its sync.
            self._sync()
        torn = b"" if found.torn_at is None else raw[found.torn_at :]
        if torn:
            self._set_aside(torn)
            self._write(b"\n" * len(torn), found.torn_at or 0)
            self._sync()
        self._known = True
        return found.events, len(torn)

    def _set_aside(self, torn: bytes) -> None:
        path = self.path.with_suffix(".torn")
        with disk_errors(f"write {path}"), path.open("ab") as file:
            file.write(torn + b"\n")
            file.flush()
            os.fsync(file.fileno())

    def append(self, lines: Sequence[bytes], *, sync: bool = True) -> None:
        """Write ``lines`` (canonical events) as one write; with ``sync`` they are on disk on return.

        Raises StorageError; then none of them is there, or (after a failed sync, when nobody can know) the tail
        refuses to go on until it is opened anew.
        """
        text = b"\n ".join(lines)
        # What is not synced was not acknowledged as durable: it is one write with what follows it.
        if self._unsynced:
            text = b" " + text
        start = self._end + 1 if self._end else 0
        if self._failed:
            raise StorageError(self._failed, hint="Open the session again: it recovers what is on disk.")
        if start + len(text) + 1 > self._size:
            self._fill(start + len(text) + 1)
        self._write(text, start)
        if sync:
            self._sync()
        self._unsynced = not sync
        self._end = start + len(text)

    def reset(self) -> None:
        """Clear the tail after its events have reached git.

        Not synced: the next append's sync carries it, and stale lines are known by their seq. Raises StorageError,
        and then the tail refuses to go on until it is opened anew.
        """
        if self._end:
            try:
                self._write(b"\n" * self._end, 0)
            except StorageError as error:
                # Half a line may be left, which would be damage as soon as an event stood behind it.
                self._failed = str(error)
                raise
            self._end = 0
            self._unsynced = False

    def close(self, *, remove: bool = True) -> None:
        """Close the file; with ``remove``, remove it when nothing is in it."""
        if remove and self._known and self._end == 0 and not self._failed:
            with suppress(OSError):
                self.path.unlink()
                # Whoever looks for tails looks into each folder: only those that have one should be there.
                self.path.parent.rmdir()
        os.close(self._fd)

    def _fill(self, least: int) -> None:
        """Grow the file with newlines, by doubling up to a step of 1 MiB."""
        step = min(max(self._size, _FIRST_FILL), _MOST_FILL)
        size = self._size
        while size < least:
            size += step
        self._write(b"\n" * (size - self._size), self._size)
        self._size = size

    def _write(self, data: bytes, offset: int) -> None:
        done = 0
        try:
            while done < len(data):
                done += os.pwrite(self._fd, data[done:], offset + done)
        except OSError as error:
            self._take_back(offset, done)
            raise StorageError(f"cannot write {self.path}: {error.strerror}") from error

    def _take_back(self, offset: int, length: int) -> None:
        """Blank what a failed write left, so that no half line stands before the next one."""
        try:
            if length and os.pwrite(self._fd, b"\n" * length, offset) != length:
                self._failed = f"{self.path} holds half a line after a failed write"
        except OSError:
            self._failed = f"{self.path} holds half a line after a failed write"

    def _sync(self) -> None:
        try:
            _sync_data(self._fd)
        except OSError as error:
            # The kernel may have dropped the pages: what is on disk is unknown until it is read again.
            self._failed = f"cannot sync {self.path}: {error.strerror}"
            raise StorageError(self._failed) from error
