"""What a format is: the door for importers and exporters, ours and others'.

A package adds one by an entry point in the group ``gitjournal.formats`` whose object is a `Format` (or a class that
makes one without arguments). Formats that are a list of records derive from `RecordFormat` and only map records.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, Protocol, runtime_checkable

from gitjournal.errors import ImportRefused, NotFound, StorageError
from gitjournal.formats.records import Record
from gitjournal.formats.report import ImportReport
from gitjournal.journal import Journal
from gitjournal.refs import Name

#: Called with (bytes done, records done) every few thousand records.
Progress = Callable[[int, int], None]
#: So much of a source is shown to `Format.sniff`, in bytes.
HEAD_BYTES = 256 * 1024


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

    def head(self) -> bytes:
        """The first `HEAD_BYTES` bytes."""
        with self.open() as stream:
            return stream.read(HEAD_BYTES)


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

    def sniff(self, head: bytes, path: Path) -> bool:
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


class RecordFormat(ABC):
    """Base of formats that are lists of records: each becomes one event that keeps its bytes."""

    name: str = ""

    @abstractmethod
    def sniff(self, head: bytes, path: Path) -> bool:
        """See `Format.sniff`."""

    @abstractmethod
    def session_id(self, stream: BinaryIO) -> str | None:
        """The session id that the source gives itself. It may not change when the file grows."""

    @abstractmethod
    def read(self, stream: BinaryIO, report: ImportReport) -> Iterator[Item]:
        """All records, mapped; together they are all bytes of ``stream``. Oddities go to ``report``."""

    def load(self, journal: Journal, source: Source, options: Options) -> ImportReport:
        """See `Format.load`."""
        from gitjournal.formats.importer import import_records

        return import_records(self, journal, source, options)

    def export(self, journal: Journal, name: Name, out: BinaryIO, files: Path | None) -> int:
        """The source's bytes, one record after the other. See `Format.export`."""
        from gitjournal.formats.exporter import export_raw

        return export_raw(self.name, journal, name, out)
