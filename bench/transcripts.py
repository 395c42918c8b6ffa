"""How fast transcripts of Claude Code are imported, in how much memory, and what they take in a journal.

python bench/transcripts.py                     a session of 24 MB
python bench/transcripts.py --mb 5000           one of 5 GB
python bench/transcripts.py --line 12           one line of 12 MB
python bench/transcripts.py --files FOLDER      files that are there, as the public corpus

Prints MB/s of processor time (one core, git objects included), the highest memory of the process, and the size of the
journal with everything in it, also the index for ``gj sessions`` and ``gj search``, as a share of the source, after
the import and after ``gj gc``, beside gzip and zstd.
"""

from __future__ import annotations

import argparse
import gzip
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import data

import gitjournal
from gitjournal.formats.batch import Total, gather, import_all

_PIECE = 1 << 20


def main(words: Sequence[str] | None = None) -> None:
    """Measure what the arguments say."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mb", type=int, default=24, help="size of the made session, in MB")
    parser.add_argument("--line", type=int, default=0, help="instead: a session with one line of so many MB")
    parser.add_argument("--files", type=Path, help="instead: all files of a folder")
    parser.add_argument("--no-gc", action="store_true", help="leave the packing out")
    options = parser.parse_args(words)
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        place = Path(folder)
        source = options.files or _made(place, options.mb, options.line)
        _measure(place, source, pack=not options.no_gc)


def _made(place: Path, megabytes: int, line: int) -> Path:
    path = place / "transcript.jsonl"
    if not line:
        data.transcript(path, megabytes * 1_000_000)
        return path
    text = data.World(1).prose(line * 1_000_000)
    record = {
        "type": "user", "sessionId": "long", "uuid": "u1", "timestamp": "2026-05-01T10:00:00.000Z", "cwd": "/p",
        "message": {"role": "user", "content": [{"type": "text", "text": text}]},
    }  # fmt: skip
    path.write_text(json.dumps(record) + "\n")
    return path


def _measure(place: Path, source: Path, *, pack: bool) -> None:
    files = [one.path for one in gather([source])]
    size = sum(path.stat().st_size for path in files)
    journal = gitjournal.init(place / "journal.git")
    total = Total()
    began = time.process_time()
    for outcome in import_all(journal, list(gather([source]))):
        total.add(outcome)
    spent = time.process_time() - began
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(f"source       {size / 1e6:10.2f} MB  {total.added} records  {total.sessions} sessions")
    pace = total.added / spent
    print(f"import       {size / 1e6 / spent:10.1f} MB/s  {pace:.0f} records/s  memory {memory / 1e6:.0f} MB")
    _run(journal.path, "sessions")
    print(f"journal      {_shares(journal.path, size)}")
    if pack:
        began = time.perf_counter()
        _run(journal.path, "gc")
        spent = time.perf_counter() - began
        print(f"after gj gc  {_shares(journal.path, size)}  {spent:.1f} s")
    print(f"gzip         {sum(_gzip(path) for path in files) / size:10.1%}  of each file")
    print(f"zstd -3      {sum(_zstd(path) for path in files) / size:10.1%}")


def _run(journal: Path, command: str) -> None:
    words = [sys.executable, "-m", "gitjournal", "-J", str(journal), command]
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def _shares(journal: Path, size: int) -> str:
    """All of a journal, its objects, and its index, of the size of the source."""
    index = sum(path.stat().st_size for path in (journal / "gitjournal").glob("index.sqlite*"))
    return f"{_disk(journal) / size:10.1%}  (objects {_disk(journal / 'objects') / size:.1%}, index {index / size:.1%})"


def _disk(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def _pieces(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while piece := file.read(_PIECE):
            yield piece


class _Count:
    """A file of which only the size is kept."""

    def __init__(self) -> None:
        self.size = 0

    def write(self, raw: bytes) -> int:
        self.size += len(raw)
        return len(raw)

    def flush(self) -> None:
        pass


def _gzip(path: Path) -> int:
    out = _Count()
    with gzip.GzipFile(fileobj=out, mode="wb", compresslevel=6) as packed:  # type: ignore[call-overload]
        for piece in _pieces(path):
            packed.write(piece)
    return out.size


def _zstd(path: Path) -> int:
    import zstandard

    packer = zstandard.ZstdCompressor(level=3).compressobj()
    return sum(len(packer.compress(piece)) for piece in _pieces(path)) + len(packer.flush())


if __name__ == "__main__":
    main()
