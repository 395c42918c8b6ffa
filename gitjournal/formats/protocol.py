"""What a format is: the door for importers and exporters, ours and others'.

A package adds one by an entry point in the group ``gitjournal.formats`` whose object is a `Format` (or a class that
makes one without arguments). Formats that are a list of records derive from `RecordFormat` and only map records.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO, ClassVar, NamedTuple, Protocol, runtime_checkable

from gitjournal.errors import ImportRefused, NotFound, StorageError
from gitjournal.foreign import lenient
from gitjournal.formats.records import Record, Salvage, records
from gitjournal.formats.report import ImportReport
from gitjournal.journal import Journal
from gitjournal.objects import FileBlob
from gitjournal.refs import Name

#: Called with (bytes done, records done) every few thousand records.
Progress = Callable[[int, int], None]
#: So much of a source is shown to `Format.sniff`, in bytes.
HEAD_BYTES = 256 * 1024
_HEAD_LINES = 50


class Head:
    """How a file begins, for formats to recognise it; parsed once for all of them."""

    def __init__(self, raw: bytes, path: Path) -> None:
        #: The first `HEAD_BYTES` bytes of the file, decompressed.
        self.raw = raw
        self.path = path

    @cached_property
    def values(self) -> list[Any]:
        """The JSON values of those of the first 50 lines that are one (`foreign.lenient`)."""
        return [value for line in self.raw.split(b"\n")[:_HEAD_LINES] for value in _loads(line)]

    @cached_property
    def document(self) -> Any:
        """The file as one JSON value; None when it is none, or longer than the head."""
        return next(iter(_loads(self.raw)), None) if len(self.raw) < HEAD_BYTES else None


def _loads(text: bytes) -> list[Any]:
    try:
        return [lenient(text)] if text.strip() else []
    except ValueError:
        return []


class Home(NamedTuple):
    """A folder in which a program keeps its sessions on this machine."""

    #: Environment variable that names the folder; ``""`` if there is none.
    variable: str
    #: Where it is without that; ``~`` is the user's home.
    default: str
    #: Which files below it are sessions, as patterns of ``Path.glob``.
    patterns: tuple[str, ...]
    #: After so many days the program deletes them itself; None if it never does.
    keeps_days: int | None = None


@dataclass(frozen=True, slots=True)
class Source:
    """A file to import."""

    path: Path

    def open(self) -> BinaryIO:
        """The file, for reading bytes. NotFound, ImportRefused (not a regular file), StorageError."""
        if not self.path.exists():
            raise NotFound(f"there is no file {self.path}")
        if not self.path.is_file():
            raise ImportRefused(f"{self.path} is not a regular file")
        try:
            return self.path.open("rb")
        except OSError as error:
            raise StorageError(f"{self.path} cannot be read: {error.strerror}") from None

    def head(self) -> Head:
        """The first `HEAD_BYTES` bytes."""
        with self.open() as stream:
            return Head(stream.read(HEAD_BYTES), self.path)


class Options(NamedTuple):
    """How to import."""

    #: Session id instead of the source's own.
    session: str | None = None
    #: Find out what would happen, write nothing.
    dry_run: bool = False
    progress: Progress | None = None


@runtime_checkable
class Format(Protocol):
    """A format that sessions can be imported from and exported to."""

    #: What users type: ``claude-code``.
    name: str

    def sniff(self, head: Head) -> bool:
        """Whether a file that begins with ``head`` is of this format. Sure, or False."""
        ...

    def load(self, journal: Journal, source: Source, options: Options) -> ImportReport:
        """Import a file. Raises JournalError; never another exception for any content."""
        ...

    def export(self, journal: Journal, name: Name, out: BinaryIO, files: Path | None) -> int:
        """Write a branch to ``out`` and its side files, if the format has any, to ``files``; how many events."""
        ...


class Item(NamedTuple):
    """A record, mapped: what will be its event."""

    record: Record
    type: str
    #: The neutral view, in wrapped values. Long strings become references later.
    data: dict[str, Any]
    actor: str = "host"
    #: Time of the record (`times.to_ts`), None when it has none.
    ts: str | None = None
    #: More side files of the event, after the record's bytes: what the program keeps in files of their own.
    files: Sequence[FileBlob] = ()
    #: Number of the record after which this one stands, when that is not the one before it: a rewind is recorded.
    follows: int | None = None


class About(NamedTuple):
    """What a source says of its session before anything else. None of it may change when the source grows."""

    #: The id that the source gives the session; None when it gives none: the file's name is taken.
    session: str | None = None
    #: Members of ``session.start`` beside ``source`` (docs/events.md): ``parent``, ``project``, ``agent.name`` ...
    start: Mapping[str, Any] = {}


class Strand(NamedTuple):
    """One session in a source; most sources have just one."""

    about: About
    #: The records from the beginning; called more than once.
    records: Callable[[], Iterator[Record]]
    #: Maps all of these records, in order. Oddities go to the report.
    read: Callable[[Iterator[Record], ImportReport], Iterator[Item]]
    #: Whether the records in order, each with what stands after it, are the bytes of the source.
    exact: bool = True


class RecordFormat(ABC):
    """Base of formats that are lists of records: each becomes one event that keeps its bytes.

    A format of lines has `sniff`, `about` and `read`. One that is cut differently has its own `cut`, one that holds
    several sessions, or is no text (a database, an archive), its own `strands`.
    """

    name: str = ""
    #: How a whole record is found behind a torn one.
    salvage: ClassVar[Salvage | None] = None
    #: Where its program keeps sessions.
    homes: ClassVar[tuple[Home, ...]] = ()

    @abstractmethod
    def sniff(self, head: Head) -> bool:
        """See `Format.sniff`."""

    @abstractmethod
    def about(self, found: Iterator[Record], source: Source) -> About:
        """What the first records say of the session; reads no more of them than it needs."""

    @abstractmethod
    def read(self, found: Iterator[Record], report: ImportReport, source: Source) -> Iterator[Item]:
        """All records, mapped, in order. Oddities go to ``report``; nothing is raised for any content."""

    def cut(self, stream: BinaryIO) -> Iterator[Record]:
        """The records of a stream: its lines."""
        return records(stream, self.salvage)

    def strands(self, source: Source) -> Iterator[Strand]:
        """The sessions in a source. Raises JournalError when it cannot be read."""
        about = self.about(self._records(source), source)
        yield Strand(about, lambda: self._records(source), lambda found, report: self.read(found, report, source))

    def _records(self, source: Source) -> Iterator[Record]:
        with source.open() as stream:
            yield from self.cut(stream)

    def load(self, journal: Journal, source: Source, options: Options) -> ImportReport:
        """See `Format.load`."""
        from gitjournal.formats.importer import import_records

        return import_records(self, journal, source, options)

    def export(self, journal: Journal, name: Name, out: BinaryIO, files: Path | None) -> int:
        """The source's bytes, one record after the other. See `Format.export`."""
        from gitjournal.formats.exporter import export_raw

        return export_raw(self.name, journal, name, out)
