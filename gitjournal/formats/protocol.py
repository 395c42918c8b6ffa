"""What a format is: the door for importers and exporters, ours and others'.

A package adds one by an entry point in the group ``gitjournal.formats`` whose object is a `Format` (or a class that
makes one without arguments). Formats that are a list of records derive from `RecordFormat` and only map records.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, ClassVar, NamedTuple, Protocol, runtime_checkable

from gitjournal.event import Event
from gitjournal.formats.records import Record, Salvage, records
from gitjournal.formats.report import ImportReport
from gitjournal.formats.shapes import without
from gitjournal.formats.source import HEAD_BYTES, Head, Source
from gitjournal.journal import Journal
from gitjournal.objects import FileBlob
from gitjournal.refs import Name

if TYPE_CHECKING:
    from gitjournal.redact import Redactor

__all__ = [
    "HEAD_BYTES", "About", "Format", "Head", "Home", "Item", "Mapper", "Options", "Progress", "RecordFormat", "Source",
    "Strand", "mapped",
]  # fmt: skip

#: Called with (bytes done, records done) every few thousand records.
Progress = Callable[[int, int], None]


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


class Options(NamedTuple):
    """How to import."""

    #: Session id instead of the source's own.
    session: str | None = None
    #: Find out what would happen, write nothing.
    dry_run: bool = False
    progress: Progress | None = None
    #: Leave a last line without newline for the next time, and a source that is not `About.settled`.
    complete_only: bool = False
    #: Takes secrets out of records before they are hashed.
    redactor: Redactor | None = None
    #: Raise `importer.Deferred` for a source that begins with a copy of a session that is not in the journal yet.
    wait: bool = False


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
    #: 0 stands for the beginning. A branch begins there, and what comes next goes on on it.
    follows: int | None = None
    #: Id of the turn that the event belongs to.
    turn: str | None = None


class About(NamedTuple):
    """What a source says of its session before anything else. None of it may change when the source grows."""

    #: The id that the source gives the session; None when it gives none: the file's name is taken.
    session: str | None = None
    #: Members of ``session.start`` beside ``source`` (docs/events.md): ``parent``, ``project``, ``agent.name`` ...
    start: Mapping[str, Any] = {}
    #: The session, as the source names it, whose history the source begins with a copy of.
    copied_from: str | None = None
    #: False while a longer source may say more of its session in its first records.
    settled: bool = True
    #: The session that the source goes on from without repeating its records, and the number that the program gave the
    #: first of those that are not part of it (`RecordFormat.ordinal`).
    goes_on_from: tuple[str, int] | None = None


class Mapper(Protocol):
    """Maps records one by one, and can be put away between two of them: a file that grew need not be read again."""

    def item(self, record: Record) -> Item:
        """The event of the next record. Oddities go to the report; nothing is raised for any content."""
        ...

    def finish(self) -> None:
        """After the last record: report what can only be known then. More may come all the same."""
        ...

    def save(self) -> Any:
        """What the next records need, as a JSON value of at most about 1 MB."""
        ...

    def load(self, saved: Any) -> None:
        """Go on from what `save` gave."""
        ...


def mapped(mapper: Mapper, found: Iterator[Record]) -> Iterator[Item]:
    """All records through a mapper: what `RecordFormat.read` of a format with one is."""
    yield from map(mapper.item, found)
    mapper.finish()


class Strand(NamedTuple):
    """One session in a source; most sources have just one."""

    about: About
    #: The records from the beginning; called more than once.
    records: Callable[[], Iterator[Record]]
    #: Maps all of these records, in order. Oddities go to the report.
    read: Callable[[Iterator[Record], ImportReport], Iterator[Item]]
    #: Whether the records in order, each with what stands after it, are the bytes of the source.
    exact: bool = True
    #: Whether the records are lines, so that reading can begin after any of them.
    lines: bool = False


class RecordFormat(ABC):
    """Base of formats that are lists of records: each becomes one event that keeps its bytes.

    A format of lines has `sniff`, `about`, and `mapper` or `read`. One that is cut differently has its own `cut`, one
    that holds several sessions, or is no text (a database, an archive), its own `strands`.
    """

    name: str = ""
    #: How a whole record is found behind a torn one.
    salvage: ClassVar[Salvage | None] = None
    #: Where its program keeps sessions.
    homes: ClassVar[tuple[Home, ...]] = ()

    #: Members of a record, as the names that lead to them, that say where it is written and not what is said: they may
    #: differ when a session is written again for another place.
    stamps: ClassVar[tuple[tuple[str, ...], ...]] = ()

    #: Whether sources are documents that are written anew, whole, while the session goes on; see `comes_again`.
    grows: ClassVar[bool] = False

    @abstractmethod
    def sniff(self, head: Head) -> bool:
        """See `Format.sniff`."""

    @abstractmethod
    def about(self, found: Iterator[Record], source: Source) -> About:
        """What the first records say of the session; reads no more of them than it needs."""

    def read(self, found: Iterator[Record], report: ImportReport, source: Source) -> Iterator[Item]:
        """All records, mapped, in order. Oddities go to ``report``; nothing is raised for any content."""
        mapper = self.mapper(report, source)
        if mapper is None:
            raise NotImplementedError("a format has a mapper, or reads itself")
        return mapped(mapper, found)

    def cut(self, stream: BinaryIO) -> Iterator[Record]:
        """The records of a stream: its lines."""
        return records(stream, self.salvage)

    def finished(self, last: Record) -> bool:
        """Whether the last record is whole; else its writer may be busy with it."""
        return last.raw.endswith(b"\n")

    def same(self, record: Record) -> bytes:
        """What stays the same when the program copies a record into another file; ``b""`` is like no other."""
        return record.raw

    def told(self, value: Any) -> Any:
        """What a record's value says wherever it is written: all but its `stamps`.

        A source that says the same as one that the journal has, in other bytes, is a version of it.
        """
        for path in self.stamps:
            value = without(value, path)
        return value

    def comes_again(self, was: Record, now: Record) -> bool:
        """Whether a record of a document that `grows`, which was changed in place, may be mapped behind the others.

        They have the same place. `read` must then show only what is new in it.
        """
        return False

    def ordinal(self, event: Event) -> int | None:
        """The number that the program gave the record of an event, if it numbers them; see `About.goes_on_from`."""
        return None

    def origin(self, source: Source) -> str | None:
        """The session whose history the source begins with a copy of, where the source does not say it.

        Asked for new sessions only.
        """
        return None

    def mapper(self, report: ImportReport, source: Source) -> Mapper | None:
        """What maps the records one by one, if the format has such a thing; `read` must then give the same."""
        return None

    def strands(self, source: Source) -> Iterator[Strand]:
        """The sessions in a source. Raises JournalError when it cannot be read."""
        about = self.about(self._records(source), source)
        lines = type(self).cut is RecordFormat.cut
        yield Strand(
            about,
            lambda: self._records(source),
            lambda found, report: self.read(found, report, source),
            lines=lines,
        )

    def _records(self, source: Source) -> Iterator[Record]:
        with source.open() as stream:
            yield from self.cut(stream)

    def load(self, journal: Journal, source: Source, options: Options) -> ImportReport:
        """See `Format.load`."""
        # By name: the importer knows what a format is, and not the other way round.
        report: ImportReport = import_module("gitjournal.formats.importer").import_records(
            self, journal, source, options
        )
        return report

    def export(self, journal: Journal, name: Name, out: BinaryIO, files: Path | None) -> int:
        """The source's bytes, one record after the other. See `Format.export`."""
        count: int = import_module("gitjournal.formats.exporter").export_raw(self.name, journal, name, out)
        return count
