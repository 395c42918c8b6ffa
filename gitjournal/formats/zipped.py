"""Members of ZIP archives, read within bounds: archives of others can unpack to more than any disk holds."""

from __future__ import annotations

import io
import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO, cast

import zstandard

from gitjournal.errors import ImportRefused
from gitjournal.formats.source import Source

#: How each ZIP archive begins.
MAGIC = b"PK\x03\x04"
#: A member may unpack to so many bytes, and an archive may have so many members.
MAX_MEMBER = 512 * 1024 * 1024
MAX_MEMBERS = 100_000
# The directory of an archive may have so many bytes: `zipfile` makes an object of each entry, before it can be counted.
_MAX_DIRECTORY = 12 * 1024 * 1024
# All members together may unpack to so many bytes, and so many for each byte of the archive.
_MAX_TOTAL = 256 * 1024 * 1024
_MAX_RATIO = 100
#: Compression method of Zstandard, which `zipfile` does not know.
_ZSTD = 93
_ENCRYPTED = 1
_LOCAL = struct.Struct("<4s5H3I2H")
# The record at the end of an archive, before which one for larger numbers can stand; then the comment of the archive.
_END, _END64, _LOCATOR = b"PK\5\6", b"PK\6\6", b"PK\6\7"
_END_BYTES, _END64_BYTES, _LOCATOR_BYTES = 22, 56, 20
_MAX_COMMENT = 0xFFFF


class Archive:
    """An open archive; of members with one name the last counts."""

    def __init__(self, stream: BinaryIO, path: object) -> None:
        self._stream = stream
        self._path = path
        size = stream.seek(0, io.SEEK_END)
        if _directory_bytes(stream, size) > _MAX_DIRECTORY:
            raise ImportRefused(f"{path} has more members than can be read: its directory is over 12 MiB")
        self._zip = zipfile.ZipFile(stream)
        infos = [info for info in self._zip.infolist() if not info.is_dir()]
        self._infos = {info.filename: info for info in infos}
        #: How many members have the name of a later one, and are not read.
        self.hidden = len(infos) - len(self._infos)
        if len(self._infos) > MAX_MEMBERS:
            raise ImportRefused(f"{path} has more than {MAX_MEMBERS} members")
        total = sum(info.file_size for info in self._infos.values())
        if total > _MAX_TOTAL + _MAX_RATIO * size:
            raise ImportRefused(f"{path} unpacks to {total >> 20} MiB, which is more than can be meant by {size} bytes")

    @property
    def names(self) -> list[str]:
        """Names of all members, in the order of the archive."""
        return list(self._infos)

    def read(self, name: str, limit: int) -> bytes:
        """What a member holds, up to a byte more than ``limit``. ImportRefused as `stream`."""
        with self.stream(name) as member:
            return member.read(limit + 1)

    def stream(self, name: str) -> io.BufferedReader:
        """A member as a stream. ImportRefused, now or while it is read: too large, damaged, encrypted."""
        return io.BufferedReader(_Member(self._path, self._infos[name], self._opened(name)), 1 << 16)

    def _opened(self, name: str) -> BinaryIO:
        info = self._infos[name]
        with _refused(self._path, info):
            if info.flag_bits & _ENCRYPTED:
                raise ValueError("it is encrypted")
            if info.compress_type != _ZSTD:
                return cast(BinaryIO, self._zip.open(info))
            self._stream.seek(info.header_offset)
            header = _LOCAL.unpack(self._stream.read(_LOCAL.size))
            self._stream.seek(header[9] + header[10], io.SEEK_CUR)
            packed = io.BytesIO(self._stream.read(info.compress_size))
            return zstandard.ZstdDecompressor().stream_reader(packed, read_across_frames=True)


def _directory_bytes(stream: BinaryIO, size: int) -> int:
    """How large the directory says that it is; 0 when there is none. It is found where `zipfile` finds it."""
    known = _END_BYTES + _END64_BYTES + _LOCATOR_BYTES
    stream.seek(max(0, size - _MAX_COMMENT - 1 - known))
    tail = stream.read()
    end = len(tail) - _END_BYTES
    if not (tail[end:].startswith(_END) and tail.endswith(b"\0\0")):
        end = tail.rfind(_END)
    if end < 0 or len(tail) < end + _END_BYTES:
        return 0
    locator = end - _LOCATOR_BYTES
    large = locator - _END64_BYTES
    if large >= 0 and tail[locator:end].startswith(_LOCATOR) and tail[large:locator].startswith(_END64):
        return int.from_bytes(tail[large + 40 : large + 48], "little")
    return int.from_bytes(tail[end + 12 : end + 16], "little")


class _Member(io.RawIOBase):
    """The bytes of a member, counted and checked on the way."""

    def __init__(self, path: object, info: zipfile.ZipInfo, inner: BinaryIO) -> None:
        self._path, self._info, self._inner = path, info, inner
        self._size = self._check = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        with _refused(self._path, self._info):
            piece = self._inner.read(len(buffer))
            self._size += len(piece)
            self._check = zlib.crc32(piece, self._check)
            if self._size > self._info.file_size:
                raise ValueError("it unpacks to more than the directory says")
            if self._size > MAX_MEMBER:
                raise ValueError(f"it unpacks to more than {MAX_MEMBER >> 20} MiB")
            if not piece and self._check != self._info.CRC:
                raise ValueError("its checksum is wrong")
        buffer[: len(piece)] = piece
        return len(piece)


@contextmanager
def _refused(path: object, info: zipfile.ZipInfo) -> Iterator[None]:
    try:
        yield
    except _DAMAGE as error:
        raise ImportRefused(f"{path}: the member {info.filename!a} cannot be unpacked: {_why(error)}") from None


_DAMAGE = (
    zipfile.BadZipFile, zlib.error, zstandard.ZstdError, struct.error, EOFError, NotImplementedError, RuntimeError,
    ValueError,
)  # fmt: skip


def _why(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__


@contextmanager
def opened(source: Source) -> Iterator[Archive]:
    """The archive that a source is. ImportRefused when it is none, or was cut before its directory was written."""
    with source.open() as stream:
        try:
            archive = Archive(stream, source.path)
        except _DAMAGE as error:
            why = f"{_why(error)}. If its program was stopped, the directory at its end was never written."
            raise ImportRefused(f"{source.path} cannot be read as an archive: {why}") from None
        yield archive
