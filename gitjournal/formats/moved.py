"""Sources without an id of their own, found again by their content after they were moved or renamed.

A source is the same when its first record is, and one of both is the beginning of the other. What a session begins
with is looked up among the sessions of the same format; nothing is kept for that.
"""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING

from gitjournal.errors import JournalError
from gitjournal.formats.feed import Feed
from gitjournal.formats.imported import EPOCH, raw_piece
from gitjournal.formats.known import Line
from gitjournal.formats.named import is_of_another, usable
from gitjournal.formats.report import ImportReport
from gitjournal.formats.versions import generations
from gitjournal.journal import Journal
from gitjournal.refs import TRUNK, Name
from gitjournal.writer import Draft

if TYPE_CHECKING:
    from gitjournal.formats.protocol import Options, RecordFormat, Source, Strand

#: A source that is shorter or longer than what the journal has counts as the same from so many common bytes on.
_MOST_ALIKE = 1024
_LOOK_UPS: dict[str, dict[Name, tuple[str, str]]] = {}


def find(fmt: RecordFormat, strand: Strand, journal: Journal, source: Source, options: Options) -> str | None:
    """The session that has this very content under another name; None when none has, or the name is known."""
    stem = source.stem
    if _is_name(stem) and journal.branches(stem) and not is_of_another(journal, fmt.name, stem):
        return None
    feed = iter(Feed(fmt, strand, strand.records(), ImportReport("", fmt.name), options))
    first = next(feed, None)
    if first is None:
        return None
    wanted = (fmt.name, sha256(first.raw).hexdigest())
    begins = _begins(journal)
    return next(
        (name.session for name in begins if begins[name] == wanted and _is_same(fmt, strand, journal, name, options)),
        None,
    )


def _is_name(text: str) -> bool:
    try:
        usable(text)
    except JournalError:
        return False
    return True


def _begins(journal: Journal) -> dict[Name, tuple[str, str]]:
    """(format, SHA-256 of the first record) of each session that was imported; read once by each process."""
    known = _LOOK_UPS.setdefault(str(journal.path), {})
    for name in journal.sessions():
        if name.branch == TRUNK and name not in known:
            known[name] = _begin(journal, name)
    return known


def _begin(journal: Journal, name: Name) -> tuple[str, str]:
    try:
        start, first, *_ = [*journal.events(name, to=2), None, None]
    except JournalError:
        return "", ""
    if start is None or first is None or first.epoch != EPOCH or start.withheld:
        return "", ""
    piece = raw_piece(first)
    return str(start.stored_data.get("source")), piece[0] if piece else ""


def _is_same(fmt: RecordFormat, strand: Strand, journal: Journal, name: Name, options: Options) -> bool:
    found = generations(journal, name.session)
    if not found:
        return False
    line, size = Line(journal, fmt, found[0]), 0
    for record in Feed(fmt, strand, strand.records(), ImportReport("", fmt.name), options):
        if line.ended:
            return size >= _MOST_ALIKE
        if not line.agrees(record, _no_draft):
            return False
        size += len(record.raw)
    return line.ended or size >= _MOST_ALIKE


def _no_draft() -> Draft:
    return Draft("native", {})
