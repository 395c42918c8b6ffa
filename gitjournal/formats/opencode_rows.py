"""The records of opencode as rows, alike for an export and for its database."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from gitjournal.formats.records import Record
from gitjournal.formats.shapes import Members, members, text
from gitjournal.formats.sqlite_read import Database, cell

_SESSIONS = "SELECT id, directory, parent_id, version FROM session ORDER BY id"
_MESSAGES = "SELECT id, CAST(data AS BLOB), time_created FROM message WHERE session_id = ? ORDER BY id"
_PARTS = "SELECT id, CAST(data AS BLOB), time_created FROM part WHERE message_id = ? ORDER BY id"
_STRAYS = (
    "SELECT id, CAST(data AS BLOB), time_created, message_id FROM part WHERE session_id = ?"
    " AND message_id NOT IN (SELECT id FROM message WHERE session_id = ?) ORDER BY id"
)


class Row(NamedTuple):
    """A record, and what it is: ``info`` of a message, a ``part``, or what stands around them (``session``)."""

    record: Record
    kind: str
    of: Members
    #: The message that it belongs to; None for the session itself.
    message: str | None = None
    id: str | None = None
    created: int | None = None


def of_document(record: Record) -> Row:
    """A record of an export; its place says what it is."""
    at, of = record.at, members(record.value)
    message = str(at[1]) if len(at) > 1 else None
    if len(at) == 4:
        return Row(record, "part", of, message, text(of, "id"))
    if message is None:
        return Row(record, "session", of)
    info = members(of.get("info"))
    return Row(record, "info" if info else "rest", info or of, message, text(info, "id"))


def of_database(record: Record) -> Row:
    """A record of the database (`rows`)."""
    table, message, own, created = record.at
    of = members(record.value)
    return Row(record, "info" if table == "message" else "part", of, str(message), str(own), int(created) or None)


def sessions(database: Database) -> list[Members]:
    """All sessions by their ids: what is the same as long as a session lives. Errors as `Database.read`."""
    names = ("id", "directory", "parent_id", "version")
    with database.read() as connection:
        return [dict(zip(names, row, strict=True)) for row in connection.execute(_SESSIONS)]


def rows(database: Database, session: str) -> Iterator[Record]:
    """The messages of a session, each with its parts behind it, by their ids; last what belongs to no message."""
    number, offset = 1, 0
    with database.read() as connection:
        for raw, at in _cells(connection.execute, session):
            for record in cell(raw, number, offset, at):
                yield record
                number, offset = record.number + 1, record.offset + len(record.raw)


def _cells(ask: Callable[..., Iterable[Any]], session: str) -> Iterator[tuple[bytes | None, tuple[str | int, ...]]]:
    """Each cell with what its row says of it: table, message, row, and the time in milliseconds."""
    for message, data, created in ask(_MESSAGES, (session,)):
        yield data, ("message", str(message), str(message), _time(created))
        for part, inner, since in ask(_PARTS, (message,)):
            yield inner, ("part", str(message), str(part), _time(since))
    for part, data, created, message in ask(_STRAYS, (session, session)):
        yield data, ("part", str(message), str(part), _time(created))


def _time(value: Any) -> int:
    return value if type(value) is int else 0
