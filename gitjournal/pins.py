"""Heads that were kept, to see that a branch goes on from them (docs/verification.md section 7).

Floor 3. A pin is a file that a person keeps or sends; the memory is what earlier verifications on this machine have
found to be intact. Both are outside the journal: whoever can change it must not be able to change them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from gitjournal import canonical, refs
from gitjournal.chain import Appended
from gitjournal.errors import FormatError, StorageError, UsageError, disk_errors
from gitjournal.files import read_given, write_whole
from gitjournal.refs import Name
from gitjournal.rules import MAX_SEQ

if TYPE_CHECKING:
    from gitjournal.journal import Journal


class Pin(NamedTuple):
    """A branch had this head."""

    name: Name
    head: Appended

    @property
    def line(self) -> bytes:
        """The pin as canonical JSON with a newline; names are encoded as in refs."""
        members = {"name": self.name.path, "seq": self.head.seq, "hash": self.head.hash}
        return canonical.dumps(members) + b"\n"


def take(journal: Journal, names: Iterable[Name]) -> Iterator[Pin]:
    """The heads of branches as they are now."""
    for name in names:
        yield Pin(name, journal.head(name))


def parse(raw: bytes) -> list[Pin]:
    """The pins of a file, one a line. UsageError for anything else."""
    return [_pin(number, line) for number, line in enumerate(raw.splitlines(), 1) if line.strip()]


def read(path: Path) -> list[Pin]:
    """The pins of the file at ``path``. UsageError when it is none, StorageError when it cannot be read."""
    return parse(read_given(path, "pins"))


def _pin(number: int, line: bytes) -> Pin:
    wrong = UsageError(f"line {number} of the pins is not one", hint="gj pin writes them.")
    try:
        members: Any = canonical.loads(line)
    except FormatError:
        raise wrong from None
    if type(members) is not dict or members.keys() != {"name", "seq", "hash"}:
        raise wrong
    name, seq, digest = members["name"], members["seq"], members["hash"]
    found = refs.parse_ref(f"{refs.OWN_PREFIX}{name}") if type(name) is str else None
    if found is None or type(seq) is not int or not 1 <= seq <= MAX_SEQ or not is_hash(digest):
        raise wrong
    return Pin(found, Appended(seq, digest))


def is_hash(value: object) -> bool:
    """Whether a value is an event hash: 64 lower-case hex digits."""
    return type(value) is str and len(value) == 64 and not value.strip("0123456789abcdef")


class Memory:
    """The heads that verifications of one journal have found intact; a file of pins in a folder of the user's own."""

    def __init__(self, folder: Path, journal: Path) -> None:
        """``journal`` is where the journal is: another one in its place is told apart from it by nobody."""
        place = os.fsencode(journal.resolve())
        self._path = folder / f"{sha256(place).hexdigest()[:32]}.pins"

    def heads(self) -> Mapping[Name, Appended]:
        """What is remembered; nothing when there is no memory. UsageError for a damaged one, StorageError.

        Whatever happens to it, a memory never says that something is intact.
        """
        try:
            return dict(read(self._path))
        except StorageError as error:
            if isinstance(error.__cause__, FileNotFoundError | NotADirectoryError):
                return {}
            raise

    def keep(self, pins: Iterable[Pin]) -> None:
        """Remember newer heads; a damaged memory begins anew. StorageError."""
        self._change(lambda heads: heads.update(pins))

    def drop(self, names: Iterable[Name]) -> None:
        """Forget these branches: they were deleted on purpose. StorageError."""
        gone = {*names}
        self._change(lambda heads: [heads.pop(name, None) for name in gone])

    def _change(self, change: Callable[[dict[Name, Appended]], object]) -> None:
        heads: dict[Name, Appended] = {}
        with suppress(UsageError):
            heads.update(self.heads())
        before = dict(heads)
        change(heads)
        if heads == before:
            return
        text = b"".join(Pin(name, head).line for name, head in sorted(heads.items()))
        with disk_errors(f"write {self._path}"):
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_whole(self._path, text)

    def forget(self) -> None:
        """Remember nothing of this journal. StorageError."""
        with disk_errors(f"remove {self._path}"):
            self._path.unlink(missing_ok=True)
