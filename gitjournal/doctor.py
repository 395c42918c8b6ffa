"""What is wrong on this machine and in a journal, with the command that mends it.

Floor 4. Looks and changes nothing. Whether a journal is what it claims to be is the business of `verify`.
"""

from __future__ import annotations

import re
import shlex
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from gitjournal import delete, erase, index, index_query, lease, live, repack, signing
from gitjournal.errors import JournalError, UsageError, disk_errors
from gitjournal.formats import detect, formats, import_file
from gitjournal.formats.homes import Place
from gitjournal.formats.imported import raw_piece
from gitjournal.formats.protocol import Source
from gitjournal.lineage import parts
from gitjournal.refs import Name
from gitjournal.state import fold

if TYPE_CHECKING:
    from gitjournal.event import Event
    from gitjournal.formats.report import ImportReport
    from gitjournal.journal import Journal

Progress = Callable[[str], None]

_DAY = 86_400
#: A git lock that is older than this belongs to nobody who is still at work, in seconds.
_OLD_LOCK = 60
#: So much of a file's end is read to see whether its last record is in the journal, in bytes.
_END = 1024 * 1024
#: So many of a branch's last events are looked at for an imported record.
_LAST = 8
_UNREAD = re.compile(rb'"type":"(unparsable|nul|oversized|too_big)"')
_ODD = {
    "unparsable": "pieces of its file that are no JSON",
    "nul": "runs of NUL bytes in its file",
    "oversized": "pieces of lines that are too long",
    "too_big": "records that are too big to be shown",
    "orphans": "records whose parent is not in its file",
}


class Trouble(NamedTuple):
    """One thing that is wrong. ``mend`` is a command, or empty when there is nothing to be done about it."""

    code: str
    what: str
    mend: str = ""
    #: False for what is good to know and needs no hand.
    serious: bool = True
    #: How many there are of it.
    number: int = 1


def machine(journal: Journal, places: Sequence[Place], state: Path, progress: Progress) -> Iterator[Trouble]:
    """What is wrong with the way of sessions into the journal. ``state``: where hooks have their log. JournalError."""
    for place in places:
        yield from _not_imported(journal, place, progress)
    with disk_errors(f"read the log of hooks in {state}"):
        errors = live.logged(state)
    if errors:
        log, last = state / "hook.log", errors[-1]
        what = f"a hook failed, last at {last.get('ts')}: {last.get('message')}"
        yield Trouble("hook-failed", what, f"rm {shlex.quote(str(log))}", number=len(errors))


def examine(journal: Journal, progress: Progress) -> Iterator[Trouble]:
    """What is wrong in a journal. JournalError when it cannot be read at all."""
    names = sorted(journal.sessions(), key=str)
    yield from _unfinished(journal)
    yield from _locks(journal)
    yield from _packs(journal)
    yield from _remotes(journal)
    yield from _tails(journal, names)
    yield from _unsigned(journal, names)
    yield from _open_calls(journal, progress)
    yield from _records(journal, names, progress)


# --- what is not imported ------------------------------------------------------------------------


class _Waiting:
    """The files of a place that the journal does not have, or not whole."""

    def __init__(self) -> None:
        self.files: list[Path] = []
        self.bytes = 0
        #: When the first of them will be deleted by its program, in seconds since 1970.
        self.first = float("inf")


def _not_imported(journal: Journal, place: Place, progress: Progress) -> Iterator[Trouble]:
    waiting = {"new": _Waiting(), "grown": _Waiting()}
    for number, path in enumerate(place.files(), 1):
        progress(f"looking at {place.format}, {number:,} files")
        try:
            status, kind = path.stat(), _standing(journal, path)
        except (OSError, JournalError):
            continue
        if kind is not None:
            found = waiting[kind]
            found.files.append(path)
            found.bytes += status.st_size
            if place.home.keeps_days is not None:
                found.first = min(found.first, status.st_mtime + place.home.keeps_days * _DAY)
    for kind, words in (("new", "not in the journal"), ("grown", "in the journal only in part")):
        found = waiting[kind]
        if found.files:
            what = f"{_count(len(found.files), 'session')} of {place.format} {words} ({found.bytes / 1e6:.1f} MB)"
            what += _deleted_in(found.first - time.time())
            mend = f"gj import {place.format} {shlex.quote(str(place.root))}"
            yield Trouble(f"import-{kind}", what, mend, number=len(found.files))


def _deleted_in(seconds: float) -> str:
    if seconds == float("inf"):
        return ""
    when = f"in {_count(int(seconds // _DAY), 'day')}" if seconds > 0 else "now"
    return f"; its program deletes the first {when}"


def _standing(journal: Journal, path: Path) -> str | None:
    """``new``, ``grown``, or None for a file that is in the journal, or is no session."""
    source = Source(path)
    fmt = detect(source)
    if fmt is None:
        return None
    if _has_the_end(journal, path):
        return None
    report = import_file(journal, path, format=fmt.name, dry_run=True, complete_only=True)
    reports: list[ImportReport] = [report, *report.others]
    # What may say more of itself in lines to come is left for later by who watches; here it is what it is.
    if not any(one.added or (one.pending and not one.session) for one in reports):
        return None
    return "grown" if any(one.skipped_known or journal.branches(one.session) for one in reports) else "new"


def _has_the_end(journal: Journal, path: Path) -> bool:
    """Whether the last whole line of a file is the last record of a session of its name: then it need not be read."""
    with path.open("rb") as stream:
        stream.seek(max(0, path.stat().st_size - _END))
        lines = stream.read(_END).split(b"\n")
    if len(lines) < 3:
        return False
    digest = sha256(lines[-2] + b"\n").hexdigest()
    return any(digest in _last_records(journal, name) for name in journal.branches(path.stem))


def _last_records(journal: Journal, name: Name) -> set[str]:
    head = journal.head(name).seq
    pieces = (raw_piece(event) for event in journal.events(name, after=max(0, head - _LAST)))
    return {piece[0] for piece in pieces if piece}


# --- the journal ---------------------------------------------------------------------------------


def _unfinished(journal: Journal) -> Iterator[Trouble]:
    if erase.is_unfinished(journal):
        yield Trouble("erasure-cut", "an erasure was cut", "gj erase --finish")
    if (session := delete.cut_session(journal)) is not None:
        yield Trouble("deletion-cut", f"the deletion of {session} was cut", f"gj delete {shlex.quote(session)}")


def _locks(journal: Journal) -> Iterator[Trouble]:
    """Locks that a git or gj has left behind. One that is alive is held for milliseconds."""
    found = [*journal.path.glob("*.lock"), *(journal.path / "refs").rglob("*.lock")]
    for path in found:
        try:
            age = time.time() - path.stat().st_mtime
        except OSError:
            continue
        if age > _OLD_LOCK:
            what = f"{path} has been there for {_count(int(age // 60), 'minute')}: its maker has died"
            yield Trouble("stale-lock", what, f"rm {shlex.quote(str(path))}")


def _is_old_without_index(pack: Path) -> bool:
    try:
        return not pack.with_suffix(".idx").exists() and time.time() - pack.lstat().st_mtime > _OLD_LOCK
    except FileNotFoundError:
        # Packs are joined meanwhile.
        return False


def _packs(journal: Journal) -> Iterator[Trouble]:
    """What a git or gj that was killed has left among the packs."""
    folder = journal.store.pack_folder
    with disk_errors(f"look into {folder}"):
        left = repack.left_over(folder)
        bare = [path for path in sorted(folder.glob("pack-*.pack")) if _is_old_without_index(path)]
    if left:
        megabytes = sum(left.values()) / 1e6
        what = f"{_count(len(left), 'pack')} that nobody finished ({megabytes:.1f} MB): the writer was killed"
        yield Trouble("unfinished-pack", what, "gj gc", number=len(left))
    for path in bare:
        what = f"{path} has no index, so that nothing finds what is in it"
        yield Trouble("pack-without-index", what, f"git index-pack {shlex.quote(str(path))}")


def _remotes(journal: Journal) -> Iterator[Trouble]:
    git = f"git -C {shlex.quote(str(journal.path))} config"
    for remote, specs in sorted(journal.store.remotes().items()):
        key, wanted = shlex.quote(f"remote.{remote}.fetch"), shlex.quote(f"+refs/heads/*:refs/remotes/{remote}/*")
        if not specs:
            what = f"remote {remote} has no refspec, so that git fetch brings nothing"
            yield Trouble("no-refspec", what, f"{git} --add {key} {wanted}")
        elif any(spec.partition(":")[2].startswith(("refs/heads/", "refs/*")) for spec in specs):
            what = f"git fetch {remote} would write over the branches of this journal, and take events back"
            yield Trouble("mirror", what, f"{git} --replace-all {key} {wanted}")


def _tails(journal: Journal, names: Sequence[Name]) -> Iterator[Trouble]:
    """Events that are on the disk and not yet in git, where nobody is about to flush them."""
    for name in names:
        chain = journal.chain(name)
        if not chain.tail_path.exists() or lease.held(chain.lease_path):
            continue
        try:
            found = chain.snapshot().tail
        except JournalError as error:
            yield Trouble("unreadable", f"{name}: {error}", f"gj verify {shlex.quote(str(name))}")
            continue
        word = shlex.quote(str(name))
        if found.damage:
            yield Trouble("damaged-tail", f"{name}: its tail is damaged: {found.damage}", f"gj verify {word}")
        elif found.events:
            what = f"{name}: {_count(len(found.events), 'event')} not in git yet: git push would not send them"
            yield Trouble("unflushed", what, f"gj flush {word}", number=len(found.events))


def _unsigned(journal: Journal, names: Sequence[Name]) -> Iterator[Trouble]:
    """Heads without the signature that the journal is set to make."""
    try:
        mode = signing.read(journal.store).mode
    except UsageError as error:
        yield Trouble("signing", str(error), (error.hint or "").partition(": ")[2])
        return
    if mode == "off":
        return
    for name in names:
        chain = journal.chain(name)
        if lease.held(chain.lease_path):
            continue
        try:
            oid = journal.store.read_ref(chain.ref)
            signed = oid is None or b"\ngpgsig " in journal.store.read(oid, b"commit")
        except JournalError:
            continue
        if not signed:
            yield Trouble("unsigned", f"{name}: its head is not signed", f"gj seal {shlex.quote(str(name))}")


def _open_calls(journal: Journal, progress: Progress) -> Iterator[Trouble]:
    """Calls whose process has ended before their result. Those of imported sessions are their program's business."""

    def read(events: int) -> None:
        progress(f"indexing, {events:,} events")

    rows = index.ask(journal, lambda db: index_query.sessions(db), progress=read)
    imported = set(formats())
    for row in rows:
        if row["tool_calls"] == row["tool_results"] or row.get("source") in imported or row["error"]:
            continue
        for branch in row["branches"]:
            name = Name(row["session"], branch)
            if lease.held(journal.chain(name).lease_path):
                continue
            calls = fold(journal.events(name), history=False).open_calls
            left = [call for call in calls if not call.get("requires")]
            if left:
                what = f"{name}: {_count(len(left), 'call')} without a result, and nobody at work"
                yield Trouble("open-calls", what, f"gj resume {shlex.quote(str(name))}", number=len(left))


def _records(journal: Journal, names: Sequence[Name], progress: Progress) -> Iterator[Trouble]:
    """Imported records that are odd. They are kept byte for byte: good to know, and nothing to be done."""
    seen = 0
    failed: dict[Name, JournalError] = {}
    odd: dict[Name, Counter[str]] = {}
    for part in parts(journal, names, failed):
        counts, ids, missing = Counter[str](), set[int](), dict[int, int]()
        for event in journal.events(part.name, after=part.after, to=part.head):
            seen += 1
            if seen % 5000 == 0:
                progress(f"looking at records, {seen:,} events")
            _look_at(event, counts, ids, missing)
        if part.after == 0 and missing:
            counts["orphans"] = len(missing)
        if counts:
            odd[part.name] = counts
    for name, error in failed.items():
        yield Trouble("unreadable", f"{name}: {error}", f"gj verify {shlex.quote(str(name))}")
    for name, counts in odd.items():
        for kind, number in sorted(counts.items()):
            code = "orphans" if kind == "orphans" else "unread"
            yield Trouble(code, f"{name}: {_ODD[kind]}, kept as they are: {number:,}", serious=False, number=number)


def _look_at(event: Event, counts: Counter[str], ids: set[int], missing: dict[int, int]) -> None:
    """Count what is odd in an event's record; ``ids`` that were seen, and ``missing`` parents, by their hashes."""
    if event.withheld or raw_piece(event) is None:
        return
    if event.type == "native" and (found := _UNREAD.search(event.raw)):
        counts[found[1].decode()] += 1
        return
    native: Any = event.stored_data.get("native")
    if type(native) is not dict:
        return
    own, parent = native.get("id"), native.get("parent")
    if type(own) is str:
        ids.add(hash(own))
        missing.pop(hash(own), None)
    if type(parent) is str and hash(parent) not in ids:
        missing.setdefault(hash(parent), event.seq)


def _count(number: int, thing: str) -> str:
    return f"{number:,} {thing}{'' if number == 1 else 's'}"
