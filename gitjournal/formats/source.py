"""A file to import, as a stream of bytes, whatever it is packed in.

zstd and gzip are known by their first bytes, not by a name: a program that packs its old sessions changes nothing.
"""

from __future__ import annotations

import gzip
import io
import os
import stat
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any, BinaryIO, cast

from gitjournal.errors import ImportRefused, NotFound, StorageError
from gitjournal.files import NotRegular, open_regular
from gitjournal.foreign import lenient

#: So much of a source is shown to `Format.sniff`, in bytes.
HEAD_BYTES = 256 * 1024
_HEAD_LINES = 50
# A zstd stream may ask for so much memory, in bytes; `zstd --ultra --long=27` needs it.
_MOST_WINDOW = 128 * 1024 * 1024
_BUFFER = 256 * 1024
_STEP = 256
_ZSTD = b"\x28\xb5\x2f\xfd"
_GZIP = b"\x1f\x8b\x08"
_PACKED = (".zst", ".gz")


class Head:
    """How a file begins, for formats to recognise it; parsed once for all of them."""

    def __init__(self, raw: bytes, path: Path) -> None:
        #: The first `HEAD_BYTES` bytes of the file, decompressed.
        self.raw = raw
        self.path = path

    @cached_property
    def values(self) -> list[Any]:
        """The JSON values of those of the first 50 lines that are one (`foreign.lenient`)."""
        return [value for line in self.raw.split(b"\n")[:_HEAD_LINES] for value in _loads(line)]

    @cached_property
    def document(self) -> Any:
        """The file as one JSON value; None when it is none, or longer than the head."""
        return next(iter(_loads(self.raw)), None) if len(self.raw) < HEAD_BYTES else None


def _loads(text: bytes) -> list[Any]:
    try:
        return [lenient(text)] if text.strip() else []
    except ValueError:
        return []


@dataclass(frozen=True, slots=True)
class Source:
    """A file to import."""

    path: Path

    def open(self) -> BinaryIO:
        """The file's bytes, decompressed. NotFound, ImportRefused (not a regular file), StorageError."""
        try:
            file = os.fdopen(open_regular(self.path), "rb", _BUFFER)
        except FileNotFoundError:
            raise NotFound(f"there is no file {self.path}") from None
        except (NotRegular, IsADirectoryError):
            raise ImportRefused(f"{self.path} is not a regular file") from None
        except (OSError, ValueError) as error:
            raise StorageError(f"{self.path} cannot be read: {getattr(error, 'strerror', None) or error}") from None
        return unpacked(file, self.path)

    @property
    def packed(self) -> bool:
        """Whether the file is compressed."""
        with self.open() as stream:
            return isinstance(getattr(stream, "raw", None), _Joined)

    @property
    def stem(self) -> str:
        """The file's name without its last suffix, and without that of a compression behind it."""
        name = self.path.name
        for suffix in _PACKED:
            name = name.removesuffix(suffix) or name
        return Path(name).stem

    def size(self) -> int:
        """Bytes on the disk; 0 if that cannot be told."""
        try:
            found = self.path.stat()
        except (OSError, ValueError):
            return 0
        return found.st_size if stat.S_ISREG(found.st_mode) else 0

    def head(self) -> Head:
        """The first `HEAD_BYTES` bytes."""
        with self.open() as stream:
            return Head(stream.read(HEAD_BYTES), self.path)


def unpacked(file: BinaryIO, path: Path) -> BinaryIO:
    """The bytes of an open, buffered file, decompressed if it is. ImportRefused, while it is read, if it is damaged."""
    start = cast("io.BufferedReader", file).peek(4)
    if start.startswith(_ZSTD):
        pieces = _zstd(file)
    elif start.startswith(_GZIP):
        pieces = iter(partial(gzip.GzipFile(fileobj=file).read, _BUFFER), b"")
    else:
        return file
    return cast(BinaryIO, io.BufferedReader(_Joined(_checked(pieces, path), file), _BUFFER))


def _zstd(file: BinaryIO) -> Iterator[bytes]:
    """The content of all frames. ZstdError, EOFError when the last one is cut."""
    import zstandard

    unpack = zstandard.ZstdDecompressor(max_window_size=_MOST_WINDOW)
    frame, begun = unpack.decompressobj(), False
    # In small steps: a few bytes can be a whole block of 128 KiB, and what comes of a step is in memory at once.
    while given := file.read(_STEP):
        while given:
            begun = True
            if piece := frame.decompress(given):
                yield piece
            given = frame.unused_data if frame.eof else b""
            if frame.eof:
                frame, begun = unpack.decompressobj(), False
    if begun:
        raise EOFError("it ends within a frame")


def _checked(pieces: Iterator[bytes], path: Path) -> Iterator[bytes]:
    """The same; what is damaged in it is an ImportRefused."""
    try:
        yield from pieces
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise _damaged(path, error) from None
    except OSError:
        raise
    except Exception as error:
        # zstandard is loaded only when it is needed, and so is the name of its error.
        if type(error).__name__ != "ZstdError":
            raise
        raise _damaged(path, error) from None


def _damaged(path: Path, error: Exception) -> ImportRefused:
    return ImportRefused(f"{path} is compressed and damaged ({error}): mend it; what was before is imported")


def joined(pieces: Iterator[bytes]) -> BinaryIO:
    """A stream of pieces, one after the other."""
    return cast(BinaryIO, io.BufferedReader(_Joined(pieces), _BUFFER))


class _Joined(io.RawIOBase):
    def __init__(self, pieces: Iterator[bytes], file: BinaryIO | None = None) -> None:
        self._pieces = pieces
        self._file = file
        self._left = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._left:
            piece = next(self._pieces, None)
            if piece is None:
                return 0
            self._left = memoryview(piece)
        count = min(len(buffer), len(self._left))
        buffer[:count] = self._left[:count]
        self._left = self._left[count:]
        return count

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
        super().close()
