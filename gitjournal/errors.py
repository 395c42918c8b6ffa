"""Every error of gitjournal, as one tree with stable codes.

::

    JournalError            code             what happened
    ├── UsageError          usage            a value that the caller gave cannot be used
    ├── NotFound            not-found        no such journal, session, branch or event
    ├── NotAJournal         not-a-journal    the folder is no journal that this version can use
    ├── ConflictError       conflict         the head has moved; read again and retry
    ├── AlreadyExists       exists           a session or branch of that name is there
    ├── Refused             refused          what the session is now does not allow it
    ├── LeaseHeld           lease-held       another writer has the branch
    ├── Fenced              fenced           a newer writer has taken the branch over
    ├── RefLocked           ref-locked       git's lock file of the ref is there
    ├── DamagedTail         damaged-tail     acknowledged events in the tail cannot be read
    ├── StorageError        storage          the disk or the object store refused
    │   └── BadRef          storage          a ref that holds no commit id
    ├── FormatError         (section 12)     bytes that break a rule of docs/format.md
    │   └── ImportRefused   import           a source that cannot be imported at all
    └── VerificationError   (section 12)     a stored object is not what its id says

A code never changes its meaning. ``cli_base.py`` maps codes to exit statuses and hints in one place.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class JournalError(Exception):
    """Base of all errors. ``str()`` is one line that says what happened and where.

    ``code`` is the stable machine-readable name; ``hint`` (may be empty) says what to do.
    """

    code = "error"

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class UsageError(JournalError):
    """A value given by the caller cannot be used (a bad name, a bad position)."""

    code = "usage"


class NotFound(JournalError):
    """No journal, session, branch or event of that name."""

    code = "not-found"


class NotAJournal(JournalError):
    """The folder is not a journal, or one of a kind that this version refuses."""

    code = "not-a-journal"


class ConflictError(JournalError):
    """Compare-and-swap failed: the head is not what the caller expected. Retryable.

    ``head_seq`` is the seq of the head that was found, when it is known.
    """

    code = "conflict"

    def __init__(self, message: str, *, head_seq: int | None = None, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.head_seq = head_seq


class AlreadyExists(JournalError):
    """A session or branch of that name (or one that differs only in case) is there."""

    code = "exists"


class Refused(JournalError):
    """What the session is now (archived, terminated, another project's) does not allow it; nothing was written."""

    code = "refused"


class LeaseHeld(JournalError):
    """Another process or thread writes to the branch. The message names its holder."""

    code = "lease-held"


class Fenced(JournalError):
    """This writer has been superseded by one with a newer epoch; it may not write any more."""

    code = "fenced"


class RefLocked(JournalError):
    """The ref's ``.lock`` file exists. The message names the file and its age."""

    code = "ref-locked"


class DamagedTail(JournalError):
    """The tail holds acknowledged events that cannot be read; nothing was changed."""

    code = "damaged-tail"


class StorageError(JournalError):
    """The operating system or the object store refused a read or a write."""

    code = "storage"


class BadRef(StorageError):
    """A ref that holds no commit id of its own: garbage, or another ref's name."""


class FormatError(JournalError):
    """Bytes or values that break a rule of docs/format.md.

    ``code`` is one of the codes of section 12, ``seq`` the event (if known), ``where`` a JSON Pointer.
    """

    def __init__(self, code: str, message: str, *, seq: int | None = None, where: str | None = None) -> None:
        place = f" at {where}" if where else ""
        prefix = f"event {seq}: " if seq is not None else ""
        super().__init__(f"{prefix}{message}{place}")
        self.code = code
        self.seq = seq
        self.where = where


class ImportRefused(FormatError):
    """A source file that no importer can take as a whole."""

    def __init__(self, message: str) -> None:
        super().__init__("import", message)


class VerificationError(JournalError):
    """A stored object is missing or is not what its id says.

    ``code`` is ``missing-object``, ``bad-object``, ``bad-tree`` or ``bad-commit``; ``oid`` is the object's hex id.
    """

    def __init__(self, code: str, message: str, *, oid: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.oid = oid


@contextmanager
def disk_errors(doing: str) -> Iterator[None]:
    """Turn an OSError of the block into a StorageError that says what was being done: "cannot <doing>: <why>"."""
    try:
        yield
    except OSError as error:
        raise StorageError(f"cannot {doing}: {error.strerror or error}") from error
