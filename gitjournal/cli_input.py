"""The input of ``gj append``: lines of JSON from the argument, a file, or standard input, as they come.

Floor 6.
"""

from __future__ import annotations

import io
import itertools
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from gitjournal.cli_base import complain, standard_input
from gitjournal.errors import FormatError, UsageError

_MIB = 1024 * 1024
#: The longest line that is read; long texts in it become side files, so it may be longer than an event.
_MAX_LINE = 64 * _MIB
#: A batch is stored whole or not at all only up to these sizes (`Session.append_many` allows a little more).
_BATCH_LINES = 1000
_BATCH_BYTES = 2 * _MIB

#: (number, line) of lines that are stored together.
Batch = list[tuple[int, bytes]]


def is_json(source: str) -> bool:
    """Whether the argument is the input itself."""
    return source.lstrip()[:1] in ("{", "[")


def _opened(source: str) -> BinaryIO:
    if is_json(source):
        return io.BytesIO(source.encode("utf-8", "surrogateescape"))
    if source == "-":
        stream = standard_input()
        if stream.isatty():
            complain("reading events from the terminal, one a line; Ctrl-D ends them")
        return stream
    path = Path(source.removeprefix("@"))
    if not source.startswith("@") and not path.exists():
        raise UsageError(f"{source!r} is neither JSON nor a file")
    return path.open("rb")


def read_batches(source: str) -> Iterator[Batch]:
    """The lines of JSON text, a file, or standard input (``-``), in batches that fit one `append_many`.

    A document over several lines comes as one line. UsageError for what is none of the three, OSError.
    """
    return _whole_document(_batches(_opened(source)))


def _batches(stream: BinaryIO) -> Iterator[Batch]:
    """(line number, line) of the input, as many at once as are there; blank lines are passed over."""
    batch: Batch = []
    size = 0
    for number, line, waiting in _lines(stream):
        if line.strip():
            batch.append((number, line))
            size += len(line)
        if batch and (waiting or len(batch) >= _BATCH_LINES or size >= _BATCH_BYTES):
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _whole_document(batches: Iterator[Batch]) -> Iterator[Batch]:
    """The batches; if the first line alone is no JSON but all lines together are, these as one line."""
    from gitjournal import canonical

    first = next(batches, None)
    if first is None:
        return
    try:
        canonical.loads(first[0][1])
    except FormatError:
        if first[0][1].lstrip()[:1] == b"{":
            lines = [line for batch in itertools.chain([first], batches) for _, line in batch]
            yield from _document(lines, first)
            return
    yield first
    yield from batches


def _document(lines: list[bytes], first: Batch) -> Iterator[Batch]:
    from gitjournal import canonical

    text = b"\n".join(lines)
    with suppress(FormatError):
        canonical.loads(text)
        first = [(first[0][0], text)]
    # Else the first line is to blame, and will be.
    yield first


def _lines(stream: BinaryIO) -> Iterator[tuple[int, bytes, bool]]:
    """(number, line, whether the next one may take its time to come)."""
    parts: list[bytes] = []
    number = 1
    size = 0
    # read1 gives what is there, so that a live producer's event is not held back by those that are to come.
    while chunk := stream.read1(_MIB):  # type: ignore[attr-defined]
        *done, rest = chunk.split(b"\n")
        for line in done:
            yield number, b"".join([*parts, line]), not rest and line is done[-1]
            number += 1
            parts, size = [], 0
        parts.append(rest)
        size += len(rest)
        if size > _MAX_LINE:
            raise UsageError(f"line {number} of the input is longer than {_MAX_LINE // _MIB} MiB")
    yield number, b"".join(parts), True
