"""How long an agent waits for its hook, and how soon a watch has a line that is whole.

``python bench/live.py``: prints medians. The hook is timed beside a Python that does nothing, and `gj --version`.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import gitjournal
from gitjournal.formats.homes import Place
from gitjournal.formats.protocol import Home
from gitjournal.live import Watcher


def record(number: int, session: str = "s1") -> bytes:
    """A record as Claude Code writes it."""
    value = {
        "parentUuid": f"u{number - 1}" if number else None, "isSidechain": False, "sessionId": session, "type": "user",
        "cwd": "/home/ada", "message": {"role": "user", "content": f"message {number} " + "word " * 150},
        "uuid": f"u{number}", "timestamp": "2026-05-01T10:00:00.000Z",
    }  # fmt: skip
    return json.dumps(value, separators=(",", ":")).encode() + b"\n"


def timed(command: list[str], raw: bytes, env: dict[str, str]) -> float:
    """Seconds until a process has ended and its pipes are closed."""
    began = time.perf_counter()
    subprocess.run(command, input=raw, capture_output=True, env=env, check=True)
    return time.perf_counter() - began


def hooks(folder: Path, runs: int, length: int) -> None:
    """The whole process of a hook on a transcript of so many records."""
    transcript = folder / "s1.jsonl"
    transcript.write_bytes(b"".join(map(record, range(length))))
    env = os.environ | {"GITJOURNAL_DIR": str(folder / "j"), "XDG_STATE_HOME": str(folder)}
    journal = gitjournal.init(folder / "j")
    raw = json.dumps({"transcript_path": str(transcript), "cwd": str(folder)}).encode()
    gj = [str(Path(sys.executable).with_name("gj"))]
    commands = {
        "hook": [*gj, "hook", "claude-code"],
        "gj --version": [*gj, "--version"],
        "python": [sys.executable, "-c", ""],
    }
    times: dict[str, list[float]] = {name: [] for name in commands}
    for number in range(runs):
        with transcript.open("ab") as stream:
            stream.write(record(length + number))
        for name, command in commands.items():
            times[name].append(timed(command, raw, env))
        _grown(journal, length + number + 2)
    for name, taken in times.items():
        print(f"{name:>14}: {statistics.median(taken) * 1000:6.1f} ms, at most {max(taken) * 1000:.1f}")


def watching(folder: Path, runs: int, length: int) -> None:
    """From the newline on the disk to the event in the journal."""
    folder.mkdir()
    path = folder / "s1.jsonl"
    path.write_bytes(b"".join(map(record, range(length))))
    journal = gitjournal.init(folder / "j")
    stop, place = threading.Event(), Place("auto", Home("", "", ("*.jsonl",)), folder)
    watcher = Watcher(journal, lambda: [place], lambda _: None, lambda path, error: print(path, error))
    thread = threading.Thread(target=watcher.run, args=(stop,))
    thread.start()
    reader = gitjournal.open(folder / "j")
    _grown(reader, length + 1)
    taken = []
    for number in range(runs):
        time.sleep(0.3)
        began = time.perf_counter()
        with path.open("ab") as stream:
            stream.write(record(length + number))
        _grown(reader, length + number + 2)
        taken.append(time.perf_counter() - began)
    stop.set()
    thread.join()
    print(f"         watch: {statistics.median(taken) * 1000:6.1f} ms, at most {max(taken) * 1000:.1f}")


def _grown(journal: gitjournal.Journal, length: int) -> None:
    """Wait until the session has so many events."""
    end = time.monotonic() + 300
    while "s1" not in set(map(str, journal.sessions())) or journal.head("s1").seq != length:
        if time.monotonic() > end:
            raise TimeoutError
        time.sleep(0.002)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--records", type=int, default=5000, help="records that the transcript has before")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        print(f"a transcript of {args.records:,} records, {args.runs} runs, medians")
        hooks(Path(name), args.runs, args.records)
        watching(Path(name) / "watch", args.runs, args.records)


if __name__ == "__main__":
    main()
