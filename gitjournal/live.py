"""Sessions that go on while we look: what an agent's hook reports, and folders that are watched.

Floor 4. Where a file was left is never noted anywhere: the journal has its records, and an import goes on after them.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Event as Signal
from threading import Thread
from typing import Any

from gitjournal.errors import JournalError, LeaseHeld, UsageError, disk_errors
from gitjournal.formats import detect, import_file
from gitjournal.formats.homes import Place
from gitjournal.formats.protocol import Home, Source
from gitjournal.formats.report import ImportReport
from gitjournal.journal import Journal

#: The log of hooks is begun anew at this size, in bytes; the one before is kept beside it.
_LOG_BYTES = 1024 * 1024
#: A document is written anew by each change; it is looked at when it has been quiet for so long, in seconds.
QUIET = 2.0
#: Changes are gathered for so long before they are looked at, and in such steps, in milliseconds.
_GATHER = 150
_STEP = 30
# A file that somebody else imports at the moment is tried again after so many seconds; a hook gives up after so many.
_AGAIN = 1.0
_PATIENCE = 60
# Seconds between two looks for folders that were not there before, and the longest wait for a change.
_LOOK_FOR_PLACES = 5.0
_IDLE = 0.25


# --- hooks ---------------------------------------------------------------------------------------


def take_hook(raw: bytes, state: Path, open_journal: Callable[[Path], Journal]) -> list[ImportReport]:
    """Import what the transcript has gained that a hook of Claude Code speaks of, and its sub-agents'.

    ``raw`` is the hook's input, ``state`` a folder for the lock; ``open_journal`` is given the agent's folder. Empty
    when the transcript is not there yet, or when another process waits to import it, which will see it all. Raises
    JournalError.
    """
    path, folder = _transcript(raw)
    with _turn(state, path) as ours:
        if not ours or not path.is_file():
            return []
        journal = open_journal(folder)
        beside = Place("claude-code", Home("", "", ("**/agent-*.jsonl",)), path.with_suffix("") / "subagents")
        reports: list[ImportReport] = []
        for one in (path, *beside.files()):
            try:
                reports += _patiently(journal, one)
            except JournalError as error:
                # The others are not to wait for it.
                log_error(state, error)
        return reports


def _patiently(journal: Journal, path: Path) -> list[ImportReport]:
    """`grown`, also when another process writes the session for a while."""
    for _ in range(_PATIENCE):
        try:
            return grown(journal, path)
        except LeaseHeld:
            time.sleep(_AGAIN)
    return grown(journal, path)


def _transcript(raw: bytes) -> tuple[Path, Path]:
    """(transcript, working folder) of a hook's input. UsageError."""
    try:
        told = json.loads(raw)
        path, folder = told["transcript_path"], told.get("cwd") or "."
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise UsageError("a hook's input is an object with transcript_path and cwd") from None
    try:
        good = type(path) is str and type(folder) is str and b"\0" not in os.fsencode(path + folder)
    except UnicodeEncodeError:  # a lone surrogate
        good = False
    if not good:
        raise UsageError("transcript_path and cwd of a hook's input are paths")
    return Path(path), Path(folder)


@contextmanager
def _turn(state: Path, path: Path) -> Iterator[bool]:
    """Be the only process of this machine and user that imports ``path``; False when another one waits already."""
    place = int.from_bytes(sha256(os.fsencode(path)).digest()[:7]) * 2
    with disk_errors(f"lock {state}"):
        state.mkdir(parents=True, exist_ok=True)
        fd = os.open(state / "hook.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            # Two bytes of one file for each transcript: who waits, and who works. A process that ends frees both.
            fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, place)
        except OSError:
            yield False
            return
        with disk_errors(f"lock {state}"):
            fcntl.lockf(fd, fcntl.LOCK_EX, 1, place + 1)
            # From here on what is new may be missed, and somebody else may wait.
            fcntl.lockf(fd, fcntl.LOCK_UN, 1, place)
        yield True
    finally:
        os.close(fd)


def log_error(state: Path, error: BaseException) -> None:
    """Add an error to the log of hooks in ``state``. OSError."""
    state.mkdir(parents=True, exist_ok=True)
    log = state / "hook.log"
    with suppress(FileNotFoundError):
        if log.stat().st_size > _LOG_BYTES:
            log.replace(log.with_suffix(".log.1"))
    now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    code = error.code if isinstance(error, JournalError) else type(error).__name__
    line = json.dumps({"ts": now, "code": code, "message": str(error)}) + "\n"
    fd = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        os.write(fd, line.encode())
    finally:
        os.close(fd)


def logged(state: Path, limit: int = 20) -> list[dict[str, Any]]:
    """The newest errors of hooks, oldest first. Lines that cannot be read are left out. OSError."""
    try:
        lines = (state / "hook.log").read_bytes().splitlines()[-limit:]
    except FileNotFoundError:
        return []
    found = []
    for line in lines:
        with suppress(ValueError):
            entry = json.loads(line)
            if isinstance(entry, dict):
                found.append(entry)
    return found


def grown(journal: Journal, path: Path) -> list[ImportReport]:
    """Import what a file has gained, up to its last whole line; empty when no format recognises it (yet).

    LeaseHeld while another process writes the session, and other JournalErrors.
    """
    fmt = detect(Source(path))
    if fmt is None:
        return []
    report = import_file(journal, path, format=fmt.name, complete_only=True)
    return [report, *report.others]


# --- folders -------------------------------------------------------------------------------------


class Watcher:
    """Follows the files of sessions in some folders: what is there, the newest first, and then what changes.

    ``report`` is called with each import that added something, ``failed`` with each file that could not be imported;
    such a file is tried again when it changes.
    """

    def __init__(
        self,
        journal: Journal,
        find_places: Callable[[], list[Place]],
        report: Callable[[ImportReport], None],
        failed: Callable[[Path, JournalError], None],
    ) -> None:
        self._journal = journal
        self._find_places = find_places
        self._report = report
        self._failed = failed
        self._places: list[Place] = []
        #: What changed, and when it may be looked at (`time.monotonic`); and what was there, the newest last.
        self._due: dict[Path, float] = {}
        self._backlog: list[Path] = []
        self._changes: SimpleQueue[set[Path]] = SimpleQueue()
        self._watched: tuple[Thread, Signal] | None = None

    def run(self, stop: Signal) -> None:
        """Follow until ``stop`` is set. Raises JournalError only where no file is to blame."""
        looked = -_LOOK_FOR_PLACES
        try:
            while not stop.is_set():
                if time.monotonic() - looked >= _LOOK_FOR_PLACES:
                    self._look_for_places()
                    looked = time.monotonic()
                self._gather(wait=not self._take_one())
        finally:
            self._unwatch()

    def _look_for_places(self) -> None:
        """Folders that are there now: a program may have been installed since."""
        found = self._find_places()
        fresh = [place for place in found if place not in self._places]
        if not fresh and len(found) == len(self._places):
            return
        self._unwatch()
        self._places = found
        if found:
            stop = Signal()
            thread = Thread(target=self._watch, args=({place.root for place in found}, stop), daemon=True)
            self._watched = (thread, stop)
            thread.start()
        # Listed after the watching has begun, so that nothing falls between the two.
        files = {path: _age(path) for place in fresh for path in place.files()}
        self._backlog = sorted({*self._backlog, *files}, key=lambda path: files.get(path, 0.0))

    def _watch(self, roots: set[Path], stop: Signal) -> None:
        from watchfiles import watch

        for changes in watch(
            *roots, watch_filter=None, debounce=_GATHER, step=_STEP, stop_event=stop, raise_interrupt=False
        ):
            self._changes.put({Path(path) for _, path in changes})

    def _unwatch(self) -> None:
        if self._watched is not None:
            thread, stop = self._watched
            stop.set()
            thread.join()
            self._watched = None

    def _gather(self, *, wait: bool) -> None:
        """Take note of what has changed; with ``wait``, give it some time."""
        with suppress(Empty):
            changed = self._changes.get(timeout=_IDLE) if wait else self._changes.get_nowait()
            now = time.monotonic()
            for path in {source for one in changed for source in self._sources(one)}:
                self._due[path] = now if path.suffix == ".jsonl" else now + QUIET

    def _sources(self, path: Path) -> Iterator[Path]:
        """The files of sessions that a change is about."""
        if path.is_dir():
            # What came into a new folder before it was watched has told nobody.
            for place in self._places:
                yield from place.files(path)
            return
        # The changes of a database are in files beside it.
        for suffix in ("-wal", "-journal"):
            path = path.with_name(path.name.removesuffix(suffix))
        if any(place.has(path) for place in self._places):
            yield path

    def _take_one(self) -> bool:
        """Look at one file; False when there is none to look at now."""
        now = time.monotonic()
        path = next((path for path, due in self._due.items() if due <= now), None)
        if path is not None:
            del self._due[path]
        elif self._backlog:
            path = self._backlog.pop()
        if path is None:
            return False
        try:
            if path.is_file():
                for report in grown(self._journal, path):
                    if report.added:
                        self._report(report)
        except LeaseHeld:
            self._due.setdefault(path, now + _AGAIN)
        except JournalError as error:
            self._failed(path, error)
        return True


def _age(path: Path) -> float:
    """When a file was last written, in seconds; 0 when it is gone."""
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0
