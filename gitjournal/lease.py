"""The lease of one branch: who may write to it (docs/format.md section 10).

Floor 1. The lock is ``flock`` on a file, so a crash frees it at once; the file's content says who holds it and with
which epoch. A writer checks before each append that the file is still its own: when somebody has removed the file and
another writer has taken its place, the older one is refused.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from weakref import WeakSet

from gitjournal.errors import Fenced, LeaseHeld, StorageError, disk_errors
from gitjournal.rules import MAX_NUMBER

# A reader that asks whether a lease is held (`held`) has it for an instant: a writer looks again after so long.
_LOOK_AGAIN = (0.001, 0.004, 0.02)
# So often the folder of a lease is made again that somebody has removed meanwhile.
_MOST_GONE = 100

#: The leases of this process.
_held: WeakSet[Lease] = WeakSet()


def _after_fork() -> None:
    for lease in list(_held):
        lease.forget()
    _held.clear()


os.register_at_fork(after_in_child=_after_fork)


class Lease:
    """A held lease. Take one with `acquire`; give it back with `release`."""

    def __init__(self, path: Path, fd: int, what: str) -> None:
        self.path = path
        self._what = what
        # Looked at before each append: as text, which is quicker than a Path.
        self._file = os.fspath(path)
        self._fd = fd
        self._pid = os.getpid()
        self._content = os.pread(fd, 4096, 0)
        self._seen = _identity(path)
        # What a writer that died has left says so until the next one has stamped the file.
        self._ours = not self._content
        _held.add(self)

    @classmethod
    def acquire(cls, path: Path, what: str) -> Lease:
        """Take the lease at ``path``, or raise LeaseHeld naming its holder; ``what`` is the branch in the message."""
        with disk_errors(f"take the lease {path}"):
            while True:
                fd = _made(path)
                if not _lock(fd):
                    holder = _holder(os.pread(fd, 4096, 0))
                    os.close(fd)
                    raise LeaseHeld(
                        f"{what} is being written by {holder}",
                        hint="Wait until it is done. To go on from what it has so far: gj branch.",
                    )
                # The holder before removes the file when it is done; a lock on a removed file is worth nothing.
                if (found := _identity(path)) and found[0] == os.fstat(fd).st_ino:
                    return cls(path, fd, what)
                os.close(fd)

    @property
    def last_epoch(self) -> int:
        """The epoch of the latest holder that crashed, 0 when the one before left cleanly."""
        try:
            epoch = json.loads(self._content)["epoch"]
        except (ValueError, KeyError, TypeError, RecursionError):
            return 0
        return epoch if type(epoch) is int and 0 < epoch < MAX_NUMBER - 1 else 0

    def stamp(self, epoch: int) -> None:
        """Write into the file who holds the lease, with which epoch."""
        record = {
            "epoch": epoch,
            "host": socket.gethostname(),
            "pid": self._pid,
            "since": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "token": os.urandom(8).hex(),
        }
        self._content = json.dumps(record).encode() + b"\n"
        self._ours = True
        with disk_errors(f"write {self.path}"):
            os.pwrite(self._fd, self._content, 0)
            os.ftruncate(self._fd, len(self._content))
            self._seen = _identity(self.path)

    def check_process(self) -> None:
        """Raise Fenced in a forked child of the process that took the lease."""
        if os.getpid() != self._pid:
            raise Fenced(f"{self._what} was opened by process {self._pid}; a forked child opens it for itself")

    def check(self) -> None:
        """Raise Fenced when this process no longer holds the newest lease of the branch."""
        self.check_process()
        try:
            seen = _identity(self._file)
        except OSError as error:
            raise StorageError(f"cannot look at the lease {self.path}: {error.strerror or error}") from error
        if seen != self._seen:
            raise Fenced(f"{self.path} is no longer this writer's: another one has taken over")

    def release(self) -> None:
        """Give the lease back and remove its file."""
        if os.getpid() != self._pid:
            return
        _held.discard(self)
        if self._ours and _identity(self.path) == self._seen:
            with suppress(OSError):
                self.path.unlink()
                # Who asks which sessions are live looks into those that have a folder here.
                self.path.parent.rmdir()
        os.close(self._fd)

    def forget(self) -> None:
        """In a forked child: let go of the file, or the lease would outlive the process that holds it."""
        os.close(self._fd)


def held(path: Path) -> bool:
    """Whether somebody, this process included, has the lease at ``path`` now. False where nobody may look."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        # A child forked meanwhile has the descriptor too, and would go on holding the lock.
        fcntl.flock(fd, fcntl.LOCK_UN)
    except BlockingIOError:
        return True
    except OSError:
        return False
    finally:
        os.close(fd)
    return False


def _made(path: Path) -> int:
    """Open a lease file, which is made with its folder: that goes with the session when somebody deletes it."""
    left = _MOST_GONE
    while True:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except (FileNotFoundError, FileExistsError):
            # The second is said of what goes between two looks at it.
            left -= 1
            if not left:
                raise


def _lock(fd: int) -> bool:
    """Lock a lease file, if no writer has it."""
    for pause in (*_LOOK_AGAIN, None):
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if pause is not None:
                time.sleep(pause)
        else:
            return True
    return False


@contextmanager
def locked(path: Path, *, shared: bool = False) -> Iterator[None]:
    """Be alone among all threads and processes that lock ``path``; waits for them. A crash frees the lock.

    Those that lock it ``shared`` are not alone: they keep out only who wants to be.
    """
    with disk_errors(f"lock {path}"):
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        with disk_errors(f"lock {path}"):
            fcntl.flock(fd, fcntl.LOCK_SH if shared else fcntl.LOCK_EX)
        yield
    finally:
        # A child forked meanwhile has the descriptor too, and would go on holding the lock.
        fcntl.flock(fd, fcntl.LOCK_UN)
        os.close(fd)


def _identity(path: str | Path) -> tuple[int, int, int] | None:
    """What changes when another writer makes the file anew or writes into it: inode, time of the last write, size."""
    try:
        status = os.stat(path)
    except FileNotFoundError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size


def _holder(content: bytes) -> str:
    try:
        record = json.loads(content)
        return f"process {record['pid']} on {record['host']} since {record['since']}"
    except (ValueError, KeyError, TypeError, RecursionError):
        return "another process that has only just begun"
