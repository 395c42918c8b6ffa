"""Imported sessions, placed where their program looks for them, so that it can go on with them in another folder.

Only what must change there changes, in the bytes of the records: the folder that the program runs in, and the
session's id when there is one with it already. No file is overwritten, and the journal is only read. Names that become
file names are checked to be plain, so that no transcript leads out of the folder.
"""

from __future__ import annotations

import os
import re
import shlex
import uuid
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

from gitjournal.errors import StorageError, UsageError
from gitjournal.event import Event
from gitjournal.files import sync_folder
from gitjournal.formats import find
from gitjournal.formats.copied import is_copied
from gitjournal.formats.drafted import WHOLE
from gitjournal.formats.exporter import raw_records, redacted
from gitjournal.formats.imported import continues, raw_piece
from gitjournal.formats.protocol import About, RecordFormat, Source
from gitjournal.formats.records import Record
from gitjournal.formats.source import joined
from gitjournal.formats.splice import Changes, added, spliced
from gitjournal.journal import Journal
from gitjournal.refs import Name

#: An id as the programs make them. Any other one that a transcript names stays out of paths and patterns.
UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
#: What a path can have and JSON text cannot, or should not: control characters, and bytes that are no UTF-8.
_NO_TEXT = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
# So many names are told of what is left out, and so many characters of each.
_NAMES = 5
_SHOWN = 100
_WINDOWS = re.compile(r"[A-Za-z]:\\")


@dataclass
class Restored:
    """What was, or would be, placed where."""

    name: str
    format: str
    #: The session's id for its program, and the one that it had.
    session: str
    former: str
    project: str
    #: What the program is called with to go on.
    command: str
    files: list[Path] = field(default_factory=list)
    #: How often a member's value was changed.
    changed: Counter[str] = field(default_factory=Counter)
    notes: list[str] = field(default_factory=list)

    def lines(self) -> list[str]:
        """The report as lines of text."""
        new = f" with the new id {self.session}" if self.session != self.former else ""
        out = [f"{self.name} for {self.format} in {self.project}{new}"]
        out += [f"  {path}" for path in self.files]
        changed = [f"{name} in {number} record{'s' * (number != 1)}" for name, number in sorted(self.changed.items())]
        out.append(f"changed: {', '.join(changed) or 'nothing'}; all else has the bytes of the import")
        return [*out, *self.notes, f"to go on: {self.command}"]

    def as_dict(self) -> dict[str, Any]:
        """The report as a JSON object."""
        plain = {name: getattr(self, name) for name in ("name", "format", "session", "former", "project", "command")}
        return plain | {
            "files": list(map(str, self.files)),
            "changed": dict(sorted(self.changed.items())),
            "notes": list(self.notes),
        }


class Placement(ABC):
    """How one program finds its sessions. ``root`` is its folder, ``project`` where the session is to go on."""

    format: str = ""
    #: Variable and default of the program's folder.
    variable: str = ""
    default: str = ""

    def __init__(self, root: Path, project: Path) -> None:
        self.root = root
        self.project = project
        #: Names that are no plain ones, of what was not placed; filled as `place` is read.
        self.left: list[str] = []

    @abstractmethod
    def taken(self, session: str) -> bool:
        """Whether the program has a session with this id."""

    @abstractmethod
    def new_id(self) -> str:
        """An id that no session has."""

    #: What its program is called with to go on with a session.
    resume: str = ""

    def command(self, session: str) -> str:
        """What to type to go on with a session."""
        return f"cd {shlex.quote(str(self.project))} && {self.resume} {session}"

    @abstractmethod
    def place(self, journal: Journal, name: Name, about: About, session: str) -> Iterator[Placed]:
        """The files to make, the session's own last: as long as it is missing, the program sees nothing."""

    @abstractmethod
    def changes(self, former: str, session: str, old: str | None) -> Changes:
        """What changes in each record. ``old`` is the folder in which the session ran."""

    @abstractmethod
    def whence(self, record: Record, former: str) -> tuple[tuple[str, ...], Mapping[str, Any]] | None:
        """What says in a record that the session comes from ``former``: in which object, and which members.

        The first record of a file with an answer gets them, if the session has a new id. None are added to one that
        says already where it comes from.
        """


#: Records for their new place.
_Change = Callable[[Iterator[Record]], Iterator[bytes]]


@dataclass(frozen=True)
class Placed:
    """A file to make: its content, or the branch whose records it has."""

    path: Path
    content: bytes | None = None
    records: Name | None = None


def restore(journal: Journal, name: Name, placement: Placement, *, dry_run: bool = False) -> Restored:
    """Place a session that was imported from the placement's program. UsageError, StorageError; no file is left then.

    With ``dry_run`` the report says what would be done, and nothing is written.
    """
    if _NO_TEXT.search(str(placement.project)):
        raise UsageError(f"the path {str(placement.project)!r} cannot stand in a transcript")
    fmt = _format(journal, name, placement.format)
    about = said_of(fmt, journal, name)
    former = about.session or name.session
    session = former if UUID.fullmatch(former) and not placement.taken(former) else placement.new_id()
    project = str(placement.project)
    found = Restored(str(name), placement.format, session, former, project, placement.command(session))
    if gone := redacted(journal, name):
        found.notes.append(f"secrets were taken out of {gone} of its records before they came into the journal")
    if other := _without_record(journal, name):
        found.notes.append(
            f"left out: {other} events that are no records of {placement.format}, or whose payload is gone"
        )
    changes = placement.changes(former, session, _text(about.start.get("project")))
    made: list[Path] = []
    try:
        for placed in placement.place(journal, name, about, session):
            found.files.append(placed.path)
            _check_within(placed.path, placement.root)
            if placed.path.exists():
                raise UsageError(f"{placed.path} is there already, and nothing is overwritten")
            pieces = _pieces(fmt, journal, placed, partial(_changed, placement, changes, found), found)
            if dry_run:
                for _ in pieces:
                    pass
            else:
                _write(placed.path, pieces, made)
    except BaseException:
        for path in made:
            with suppress(OSError):
                path.unlink()
        raise
    if names := [name[:_SHOWN] for name in dict.fromkeys(placement.left)]:
        more = ", ..." if len(names) > _NAMES else ""
        found.notes.append(
            f"left out: {len(names)} sub-agents or files whose names are no plain ones: "
            f"{', '.join(names[:_NAMES])}{more}"
        )
    return found


def _check_within(path: Path, root: Path) -> None:
    """UsageError for a path that leads out of a folder: a net, as each placement checks its names."""
    if not path.is_relative_to(root) or ".." in path.relative_to(root).parts:
        raise UsageError(f"{path} leads out of {root}, and nothing is written there")


def _format(journal: Journal, name: Name, wanted: str) -> RecordFormat:
    start = next(iter(journal.events(name)))
    source = None if start.withheld else start.data.get("source")
    if source != wanted:
        raise UsageError(
            f"{name} was not imported from {wanted}" + (f" but from {source}" if isinstance(source, str) else ""),
            hint="Only a program's own sessions can be placed for it; gj export writes any session to a file.",
        )
    fmt = find(wanted)
    if not isinstance(fmt, RecordFormat):
        raise UsageError(f"{wanted} is no format of records")
    return fmt


def _without_record(journal: Journal, name: Name) -> int:
    return sum(
        not (event.type.startswith("session.") or raw_piece(event) or is_copied(event))
        for event in journal.events(name)
    )


def said_of(fmt: RecordFormat, journal: Journal, name: Name) -> About:
    """What the records of a branch say of their session."""
    return fmt.about(_records(fmt, journal, name), Source(Path(name.session)))


def _records(fmt: RecordFormat, journal: Journal, name: Name) -> Any:
    return fmt.cut(joined(raw for _, raw in raw_records(journal, name)))


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _pieces(
    fmt: RecordFormat,
    journal: Journal,
    placed: Placed,
    change: _Change,
    found: Restored,
) -> Iterator[bytes]:
    if placed.records is None:
        yield placed.content or b""
        return
    last = b""
    for last in change(_records(fmt, journal, placed.records)):
        yield last
    if last and not last.endswith(b"\n"):
        found.notes.append(f"{placed.path.name}: a newline was added at the end, for the program to go on after")
        yield b"\n"


def _changed(placement: Placement, changes: Changes, found: Restored, records: Iterator[Record]) -> Iterator[bytes]:
    """The records for their new place. One of them says where the session comes from, if it is another one there."""
    told = found.session == found.former
    for record in records:
        raw, changed = spliced(record, changes)
        if not told and (more := placement.whence(record, found.former)):
            (path, members), told = more, True
            raw = added(record._replace(raw=raw), path, members) if members else raw
            changed = [*changed, *((*path, name) for name in members)]
        found.changed.update(".".join(at) for at in dict.fromkeys(changed))
        yield raw


def _write(path: Path, pieces: Iterable[bytes], made: list[Path]) -> None:
    """Make a file that is not there yet, for its owner only, and durable."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        made.append(path)
        with os.fdopen(fd, "wb") as file:
            for piece in pieces:
                file.write(piece)
            file.flush()
            os.fsync(fd)
        sync_folder(path.parent)
    except FileExistsError:
        raise UsageError(f"{path} is there already, and nothing is overwritten") from None
    except OSError as error:
        raise StorageError(f"{path} cannot be written: {error.strerror}") from error


def moved(value: str, old: str | None, project: Path) -> str | None:
    """A folder within the old project as one within the new; None for a folder elsewhere."""
    within = old.rstrip("/\\") if old else ""
    if not old or not value.startswith(within):
        return None
    rest = value[len(within) :]
    if rest and rest[0] not in "/\\":
        return None
    steps = re.split(r"[\\/]" if _WINDOWS.match(old) else "/", rest)
    steps = [step for step in steps if step]
    # Whatever a transcript says, nothing leads out of the folder that the user has named.
    return str(project if ".." in steps else project.joinpath(*steps))


def new_uuid4() -> str:
    """A random id."""
    return str(uuid.uuid4())


def renamed(former: str, session: str) -> partial[str | None]:
    """The change of an id into another one, where it is that id."""
    return partial(_renamed, former, session)


def _renamed(former: str, session: str, value: str) -> str | None:
    return session if value == former else None


def side_files(journal: Journal, name: Name) -> Iterator[tuple[str, Event, int]]:
    """(name, event, number) of each side file of a branch that is no record, those of what it is a copy of first."""
    records = (event for event, _ in raw_records(journal, name))
    for event in chain(journal.events(name), records):
        if not raw_piece(event):
            continue
        for number, entry in enumerate(event.files, 1):
            given = entry.get("name")
            if number > 1 and isinstance(given, str) and not (given == WHOLE and continues(event)):
                yield given, event, number


def home(variables: Mapping[str, str], placement: type[Placement]) -> Path:
    """The folder of a program: where its variable says, else where it is by default."""
    return Path(variables.get(placement.variable) or placement.default).expanduser()
