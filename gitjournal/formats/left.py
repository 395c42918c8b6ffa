"""Where an import stopped: a file that has not changed is then only hashed, and one that has grown is read from there.

A small file of deflated JSON beside the derived index. It may be missing, old or damaged: then the source is compared
with the events, as it is by whoever has no such file. It is believed only while the branch ends where it says, and the
source begins with the bytes that it says.
"""

from __future__ import annotations

import hashlib
import json
import os
import zlib
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from isal import isal_zlib

from gitjournal import __version__
from gitjournal.errors import JournalError
from gitjournal.files import read_regular
from gitjournal.formats.source import Source
from gitjournal.formats.versions import Generation, Run
from gitjournal.journal import Journal
from gitjournal.refs import Name, encode

_SUFFIX = ".import"
_MOST_BYTES = 8 * 1024 * 1024
_PIECE = 1 << 20


class Left(NamedTuple):
    """How far a source is imported: ``records`` of it, ``size`` bytes with the SHA-256 ``sha256``."""

    format: str
    #: The branch that the generation began on, and the event behind which its first record stands.
    base: str
    root: int
    #: The branch with the last record, its newest event and its time.
    branch: str
    seq: int
    hash: str
    ts: str
    records: int
    size: int
    sha256: str
    complete: bool
    #: Whether secrets were taken out; the digest is that of the source as it is.
    redacted: bool
    #: (position, branch, first seq) of each run.
    runs: list[tuple[int, str, int]]
    #: What `Mapper.save` gave, None without a mapper.
    mapper: Any

    def generation(self, session: str) -> Generation:
        """The generation, with its runs."""
        runs = [Run(position, Name(session, branch), first) for position, branch, first in self.runs]
        return Generation(Name(session, self.base), (Name(session), self.root), runs)


def keep(journal: Journal, session: str, left: Left) -> None:
    """Note where an import stopped. What cannot be written is not noted."""
    text = json.dumps({"gitjournal": __version__, **left._asdict()}, separators=(",", ":"))
    path = _folder(journal, session) / (encode(left.base) + _SUFFIX)
    fresh = path.with_name(f"{path.name}.{os.getpid()}.new")
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(fd, "wb") as file:
            # A hook writes it after each step of an agent: fast, and as small as zlib does it but for some percent.
            file.write(isal_zlib.compress(text.encode("ascii"), 2))
        fresh.replace(path)


def forget(journal: Journal, session: str) -> None:
    """Remove what is noted of a session."""
    for path in _folder(journal, session).glob("*" + _SUFFIX):
        with suppress(OSError):
            path.unlink()


class Found(NamedTuple):
    """Where an import stopped, the source from there on, and the SHA-256 of what is before."""

    left: Left
    stream: BinaryIO
    digest: hashlib._Hash


def find(journal: Journal, session: str, fmt: str, source: Source, *, redacted: bool) -> Found | None:
    """Where an earlier import of this source stopped; None when nobody knows."""
    for path in sorted(_folder(journal, session).glob("*" + _SUFFIX)):
        left = _read(path)
        if left is None or (left.format, left.redacted) != (fmt, redacted):
            continue
        if not _ends_there(journal, Name(session, left.branch), left):
            continue
        stream = source.open()
        digest = _digest(stream, left.size)
        if digest.hexdigest() == left.sha256:
            return Found(left, stream, digest)
        stream.close()
    return None


def _folder(journal: Journal, session: str) -> Path:
    # With the index of the session, so that it goes when the session does.
    return journal.path / "gitjournal" / "index" / encode(session)


def _read(path: Path) -> Left | None:
    try:
        if path.stat().st_size > _MOST_BYTES:
            return None
        said = json.loads(_inflated(read_regular(path)))
        if said.pop("gitjournal") != __version__:
            return None
        left = Left(**said)
        numbers = (left.root, left.seq, left.records, left.size)
        texts = (left.format, left.base, left.branch, left.hash, left.ts, left.sha256)
        runs = [(int(position), str(branch), int(first)) for position, branch, first in left.runs]
        sound = all(type(n) is int and n >= 0 for n in numbers) and all(type(text) is str for text in texts)
        return left._replace(runs=runs) if sound else None
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError, zlib.error):
        return None


def _inflated(raw: bytes) -> bytes:
    """zlib.error when it is none of ours; cut, which is no JSON, when it says more than a file may."""
    return zlib.decompressobj().decompress(raw, _MOST_BYTES)


def _ends_there(journal: Journal, name: Name, left: Left) -> bool:
    try:
        there = {one.branch for one in journal.branches(name.session)}
        return there.issuperset(branch for _, branch, _ in left.runs) and journal.head(name) == (left.seq, left.hash)
    except JournalError:
        return False


def _digest(stream: BinaryIO, size: int) -> hashlib._Hash:
    """Of the first ``size`` bytes, or all that there are."""
    digest = hashlib.sha256()
    while size and (piece := stream.read(min(size, _PIECE))):
        digest.update(piece)
        size -= len(piece)
    return digest
