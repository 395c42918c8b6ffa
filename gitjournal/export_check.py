"""Verify an export, a file of events one a line (docs/verification.md section 11), without a journal.

Floor 3. The rules along the line are those of `checks`, as for a branch in git.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from hashlib import sha256
from pathlib import Path
from typing import BinaryIO

from gitjournal.chain import Appended
from gitjournal.checks import Checks, LineCheck
from gitjournal.errors import FormatError, NotFound, disk_errors
from gitjournal.event import Event
from gitjournal.files import open_regular
from gitjournal.refs import Name
from gitjournal.rules import MAX_EVENT_BYTES
from gitjournal.verdict import Report

#: Side file k of line n of ``x.jsonl`` is ``x.jsonl.files/n.k`` (docs/format.md section 11).
FILES_SUFFIX = ".files"
_PIECE = 1 << 20


def check_export(path: Path, checks: Checks | None = None, heads: Sequence[Appended] = ()) -> Report:
    """Check the export at ``path`` and its side files. Its branch is the last one that begins in it.

    ``heads`` are heads that were kept of this export, whatever its branch.

    NotFound when the file is empty, StorageError when it cannot be read or is no regular one.
    """
    report = Report(path.name)
    along = LineCheck(report, checks or Checks(), heads)
    folder = path.with_name(path.name + FILES_SUFFIX)
    with disk_errors(f"read {path}"), os.fdopen(open_regular(path), "rb") as file:
        for number, raw in enumerate(_lines(file), 1):
            report.head_seq = number
            if not report.full:
                _check_line(along, folder, number, raw)
    if not report.head_seq:
        raise NotFound(f"{path} has no event")
    if report.full:
        along.cut_short()
    if along.line.session is not None:
        report.branch = Name(along.line.session, along.line.branch)
    report.note("commits, trees and refs: an export has none")
    along.finish()
    along.close()
    return report


def _lines(file: BinaryIO) -> Iterator[bytes | None]:
    """The lines without their newlines, of one that is too long only the beginning; None where the newline is cut."""
    # One byte more than an event may have, so that it is seen to be too long.
    while (raw := file.readline(MAX_EVENT_BYTES + 2)) != b"":
        end = raw
        while end and not end.endswith(b"\n"):
            end = file.readline(_PIECE)
        yield raw.removesuffix(b"\n") if end else None


def _check_line(along: LineCheck, folder: Path, number: int, raw: bytes | None) -> None:
    try:
        if raw is None:
            raise FormatError("truncated", "the last line has no newline: the file is cut")
        event = Event.parse(raw)
    except FormatError as error:
        along.report.add(error.code, number, "", str(error))
        along.line.lose()
        return
    along.event(event, number, "")
    for k, entry in enumerate(event.files, 1):
        try:
            right = _holds(folder / f"{number}.{k}", entry["size"], entry["sha256"])
        except OSError as error:
            text = f"side file {k}: {error.strerror or error}"
            along.report.add("missing-object", number, event.hash, text)
            continue
        if right:
            along.report.side_files += 1
        else:
            along.report.add("bad-file", number, event.hash, f"side file {k} is not what the event says")


def _holds(path: Path, size: int, wanted: str) -> bool:
    """Whether a file is of this size, and only then read, and has this SHA-256. OSError when it is no regular one."""
    digest = sha256()
    with os.fdopen(open_regular(path, os.O_NOFOLLOW), "rb") as file:
        if os.fstat(file.fileno()).st_size != size:
            # A sparse one can be of terabytes.
            return False
        while size > 0 and (piece := file.read(min(_PIECE, size))):
            digest.update(piece)
            size -= len(piece)
    return size == 0 and digest.hexdigest() == wanted
