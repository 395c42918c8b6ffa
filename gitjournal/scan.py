"""Secrets that are in a journal already, and those that a push would send (docs/secrets.md).

Floor 4. Looks at the events themselves, side files and tails included, each event once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from gitjournal.errors import JournalError, NotFound, UsageError
from gitjournal.lineage import Part, common, parts
from gitjournal.redact import is_json, suspected
from gitjournal.refs import JOURNAL_SESSION, Name

if TYPE_CHECKING:
    from gitjournal.event import Event
    from gitjournal.journal import Journal
    from gitjournal.redact import Hit, Place, Redactor

#: Told how far the work is: a text for people.
Say = Callable[[str], None]

# Pictures, sounds and films are not read as text.
_MEDIA = ("image/", "audio/", "video/", "font/")
_EVERY = 100
# In bytes: a side file that is looked at in one piece, a piece of a larger one, and what no secret is longer than.
_WHOLE = 64 * 1024 * 1024
_PIECE = 16 * 1024 * 1024
_OVERLAP = 64 * 1024


class Secret(NamedTuple):
    """A secret in event ``seq`` of a branch, and all its places there."""

    name: Name
    seq: int
    rule: str
    digest: str
    #: What may be shown of it.
    preview: str
    #: JSON Pointers into the event, or into one of its side files: ``file 1 /message/content``.
    places: tuple[str, ...]


class Unread(NamedTuple):
    """A branch that cannot be read to its end, and why."""

    name: Name
    error: JournalError


def all_names(journal: Journal) -> list[Name]:
    """All branches, and those of the journal's own log, which is no session and pushed all the same."""
    return [*journal.sessions(), *journal.branches(JOURNAL_SESSION)]


def everywhere(
    journal: Journal, redactor: Redactor, names: Iterable[Name], say: Say | None = None
) -> Iterator[Secret | Unread]:
    """The secrets of branches, each event once. A branch that cannot be read is said, and the others go on."""
    failed: dict[Name, JournalError] = {}
    for part in parts(journal, names, failed):
        yield from line(journal, redactor, part, say)
    yield from map(Unread, failed.keys(), failed.values())


def unsent(
    journal: Journal, redactor: Redactor, remote: str | None, say: Say | None = None
) -> Iterator[Secret | Unread]:
    """The same for what a push would send: events that ``remote`` is not known to have.

    What is known is what git remembers of the last fetch or push; without that it is nothing, and all is looked at.
    UsageError when no remote is named and there are several.
    """
    has = _copy(journal, remote)
    failed: dict[Name, JournalError] = {}
    for part in parts(journal, all_names(journal), failed):
        try:
            after = part.after if has is None else max(part.after, _shared(journal, has, part.name))
        except JournalError as error:
            yield Unread(part.name, error)
            after = part.after
        yield from line(journal, redactor, part._replace(after=after), say)
    yield from map(Unread, failed.keys(), failed.values())


def _copy(journal: Journal, remote: str | None) -> Journal | None:
    """The journal as a remote is remembered to have it; None when nothing is remembered."""
    copies = {one.prefix.removeprefix("refs/remotes/").rstrip("/"): one for one in journal.store.copies()}
    copies.pop(journal.store.prefix.rstrip("/"), None)
    known = sorted(name for name in copies if "/" not in name)
    if remote is None and len(known) > 1:
        raise UsageError(
            f"there are several remotes: {', '.join(known)}", hint="Name the one to push to: --push REMOTE"
        )
    chosen = remote or (known[0] if known else None)
    return None if chosen not in known else type(journal)(copies[str(chosen)])


def _shared(journal: Journal, has: Journal, name: Name) -> int:
    """How many first events of a branch the other has, on the branch of the same name."""
    theirs = has.chain(name)
    return common(journal.chain(name), theirs) if theirs.exists() else 0


def line(journal: Journal, redactor: Redactor, part: Part, say: Say | None = None) -> Iterator[Secret | Unread]:
    """The secrets of the events of one part of a branch, and whether it could not be read to its end."""
    cut = b""
    try:
        for event in journal.chain(part.name).events(part.after, part.head):
            if say and event.seq % _EVERY == 0:
                say(f"looking for secrets, {part.name} event {event.seq:,} of {part.head:,}")
            yield from _in_event(redactor, part.name, event, cut)
            cut = _end(event)
    except JournalError as error:
        if error.code == "no-detector":
            raise
        yield Unread(part.name, error)


def _in_event(redactor: Redactor, name: Name, event: Event, cut: bytes) -> Iterator[Secret]:
    """``cut``: how the event before ends, if its record may go on in this one."""
    found: dict[tuple[str, str], Secret] = {}
    for where, place, hit in _hits(redactor, event, cut):
        known = found.get((hit.rule, hit.digest))
        known = known or Secret(name, event.seq, hit.rule, hit.digest, masked(place.secret), ())
        at = f"{where}{hit.at}".strip()
        found[hit.rule, hit.digest] = known._replace(places=tuple(dict.fromkeys([*known.places, at])))
    yield from found.values()


def _end(event: Event) -> bytes:
    """How a record ends that may be a piece of a longer one; nothing of others."""
    if not event.files or int(event.files[0]["size"]) < _PIECE // 2:
        return b""
    content = _record(event)
    return b"" if content.endswith(b"\n") else content[-_OVERLAP:]


def _record(event: Event) -> bytes:
    """The record of an imported event; nothing when it is not there."""
    try:
        return event.read_file(1)
    except NotFound:
        return b""


def _hits(redactor: Redactor, event: Event, cut: bytes) -> Iterator[tuple[str, Place, Hit]]:
    for where, text in _texts(event):
        for place, hit in redactor.look(text, names=True):
            yield where, place, hit
    if cut and event.files:
        left, right = (part.decode("utf-8", "surrogateescape") for part in (cut, _record(event)[:_OVERLAP]))
        for place, hit in redactor.look(left + right):
            if place.start < len(left) < place.end:
                yield "file 1 ", place, hit


def _texts(event: Event) -> Iterator[tuple[str, str]]:
    yield "", event.raw.decode("utf-8", "surrogateescape")
    for number, about in enumerate(event.files, 1):
        if not str(about.get("media_type", "")).startswith(_MEDIA):
            try:
                content = event.read_file(number)
            except NotFound:
                continue
            yield from ((f"file {number} ", text) for text in _pieces(content))


def _pieces(content: bytes) -> Iterator[str]:
    """A side file as text; a very large one in pieces that overlap, for memory has to hold it several times."""
    size = _PIECE if len(content) > _WHOLE else len(content) or 1
    for start in range(0, len(content), size):
        yield content[start : start + size + _OVERLAP].decode("utf-8", "surrogateescape")


def in_text(redactor: Redactor, text: str) -> Iterator[tuple[int, Place, Hit]]:
    """(number of the line, place, hit) of each secret in the text of a file, which may be lines of JSON values."""
    suspects = suspected(text)
    if not suspects:
        return
    lines = text.split("\n")
    if is_json(text) or not all(is_json(line) for line in lines if line.strip()):
        yield from _numbered(text, 1, redactor.look(text, names=True))
        return
    for number in _lines(text, suspects):
        yield from _numbered("", number, redactor.look(lines[number - 1], names=True))


def _numbered(text: str, number: int, found: Iterable[tuple[Place, Hit]]) -> Iterator[tuple[int, Place, Hit]]:
    past = 0
    for place, hit in found:
        number += text.count("\n", past, place.start)
        past = max(past, place.start)
        yield number, place, hit


def _lines(text: str, spans: Iterable[tuple[int, int]]) -> Iterator[int]:
    """The numbers of the lines that spans, which are in order, touch, each once."""
    number, past, last = 1, 0, 0
    for start, end in spans:
        number += text.count("\n", past, start)
        past = max(past, start)
        until = number + text.count("\n", start, end)
        yield from range(max(number, last + 1), until + 1)
        last = max(last, until)


def masked(secret: str) -> str:
    """What of a secret may be shown: how long it is, and of a long one how it begins."""
    return f"{secret[: min(4, len(secret) // 8)]}… ({len(secret)} characters)"
