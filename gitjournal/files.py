"""Files that others may have put there, and files that must not be half there.

Floor 1. What is read here may be a pipe, a link or endless; what is written here is whole or not there at all.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress
from pathlib import Path

from gitjournal.errors import UsageError, disk_errors

#: A larger file of refs or events is not read, in bytes.
MAX_TEXT = 256 * 1024 * 1024


class NotRegular(OSError):
    """The file is a pipe, a device, a socket, or a link where none is followed."""

    def __init__(self, path: str | Path) -> None:
        super().__init__(errno.EINVAL, "not a regular file", os.fspath(path))


def open_regular(path: str | Path, flags: int = 0) -> int:
    """A file descriptor to read from. NotRegular, and never waits for the other end of a pipe; OSError.

    With ``os.O_NOFOLLOW`` in ``flags`` a symbolic link is not regular.
    """
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | flags)
    except OSError as error:
        if error.errno == errno.ENXIO or (error.errno == errno.ELOOP and flags & os.O_NOFOLLOW):
            raise NotRegular(path) from None
        raise
    mode = os.fstat(fd).st_mode
    if stat.S_ISREG(mode):
        return fd
    os.close(fd)
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(path))
    raise NotRegular(path)


def read_regular(path: str | Path, flags: int = 0) -> bytes:
    """All of a regular file. OSError; also when it is larger than `MAX_TEXT`, as a sparse one is at no cost."""
    with os.fdopen(open_regular(path, flags), "rb") as file:
        size = os.fstat(file.fileno()).st_size
        if size > MAX_TEXT:
            raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), os.fspath(path))
        # No more than it says: one of the system's may not end, or not answer, which gives None.
        return file.read(size) or b""


def read_given(path: Path, what: str) -> bytes:
    """All of a file that somebody has named. UsageError when it is larger than `MAX_TEXT`, StorageError.

    ``what`` it holds, for messages: "pins".
    """
    with disk_errors(f"read the {what} {path}"), path.open("rb") as file:
        raw = file.read(MAX_TEXT + 1)
    if len(raw) > MAX_TEXT:
        raise UsageError(f"{path} is too large for a file of {what}")
    return raw


def write_whole(path: Path, content: bytes) -> None:
    """Put a file in the place of an older one, for its owner only, and on the disk when this returns. OSError.

    Whatever cuts it, the old content is there or the new one. Processes may do so at once: one of them is the last.
    """
    fresh = path.with_name(f"{path.name}.{os.getpid()}.new")
    try:
        fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(fd, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(fd)
        fresh.replace(path)
    except BaseException:
        with suppress(OSError):
            fresh.unlink()
        raise
    sync_folder(path.parent)


def make_once(path: Path, content: bytes) -> None:
    """Write a file for its owner only, unless it is there. OSError.

    Of several processes that do so at once one wins, and what is read afterwards is its content.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f"{path.name}.{os.getpid()}.new")
    fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(fd)
        with suppress(FileExistsError):
            os.link(fresh, path)
    finally:
        fresh.unlink()
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make the names in ``folder`` durable. OSError."""
    fd = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
