"""What gitjournal is measured against: the plain ways to keep the same events, each as fast as it can be made."""

from __future__ import annotations

import json
import os
import resource
import shutil
import sqlite3
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pygit2

from gitjournal import objects
from gitjournal.journal import Journal

PACK_SUFFIXES = (".pack", ".idx")


class Timing(NamedTuple):
    """Seconds on the clock, and seconds of processor time of all threads."""

    wall: float
    cpu: float


# --- one durable event at a time -----------------------------------------------------------------


class Jsonl:
    """json.dumps, one write to a file opened with O_APPEND, fsync."""

    label = "JSONL + fsync"

    def __init__(self, folder: Path) -> None:
        self._fd = os.open(folder / "peer.jsonl", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def append(self, event: Mapping[str, Any], raw: bytes) -> None:
        """Serialise and store."""
        os.write(self._fd, json.dumps(event).encode() + b"\n")
        os.fsync(self._fd)

    def close(self) -> None:
        """Close the file."""
        os.close(self._fd)


class Sqlite:
    """One INSERT a transaction, WAL, synchronous=FULL; the bytes are given ready-made."""

    label = "SQLite WAL FULL"

    def __init__(self, folder: Path) -> None:
        self._db = sqlite3.connect(folder / "peer.db", isolation_level=None)
        self._db.execute("PRAGMA journal_mode=WAL")
        self._db.execute("PRAGMA synchronous=FULL")
        self._db.execute("CREATE TABLE events (seq INTEGER PRIMARY KEY, body BLOB NOT NULL)")

    def append(self, event: Mapping[str, Any], raw: bytes) -> None:
        """Insert the bytes."""
        self._db.execute("INSERT INTO events (body) VALUES (?)", (raw,))

    def close(self) -> None:
        """Close the database."""
        self._db.close()


class PlainGit:
    """pygit2: a blob, a tree of that one blob, a commit, the ref; each synced. The bytes are given ready-made."""

    label = "pygit2 commit + fsync"
    _REF = "refs/heads/main"

    def __init__(self, folder: Path) -> None:
        pygit2.settings.enable_fsync_gitdir(True)
        self._repo = pygit2.init_repository(str(folder / "peer.git"), bare=True)
        self._parents: list[Any] = []

    def append(self, event: Mapping[str, Any], raw: bytes) -> None:
        """Three loose objects and a ref."""
        repo = self._repo
        builder = repo.TreeBuilder()
        builder.insert("event.json", repo.create_blob(raw), pygit2.enums.FileMode.BLOB)
        who = pygit2.Signature("bench", "bench@gitjournal.invalid", event["seq"], 0)
        text = f"{event['type']} #{event['seq']}"
        self._parents = [repo.create_commit(self._REF, who, who, text, builder.write(), self._parents)]

    def close(self) -> None:
        """Give the handle back."""
        self._repo.free()


# --- stock git -----------------------------------------------------------------------------------


def git(*args: str | Path, cwd: Path, stdin: Any = None, capture: bool = False) -> bytes:
    """Run stock git with no configuration but the repository's; its output if ``capture``. Raises when it fails."""
    clean = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
    env = {**clean, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1", "LC_ALL": "C"}
    feed = {"input": stdin} if isinstance(stdin, bytes) else {"stdin": stdin or subprocess.DEVNULL}
    out = subprocess.PIPE if capture else subprocess.DEVNULL
    run = subprocess.run(
        ["git", *map(str, args)], cwd=cwd, env=env, stdout=out, stderr=subprocess.PIPE, check=False, **feed
    )
    if run.returncode:
        raise RuntimeError(f"git {args[0]}: {run.stderr.decode(errors='replace').strip()[-500:]}")
    return run.stdout or b""


def timed_git(*args: str | Path, cwd: Path, stdin: Any = None) -> Timing:
    """How long git takes."""
    cpu, wall = _children_cpu(), time.perf_counter()
    git(*args, cwd=cwd, stdin=stdin)
    return Timing(time.perf_counter() - wall, _children_cpu() - cpu)


def _children_cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def copy_journal(source: Path, target: Path) -> Path:
    """A copy whose packs are hard links: git and gitjournal replace packs and never change one."""

    def link_packs(one: str, other: str) -> None:
        if one.endswith(PACK_SUFFIXES):
            os.link(one, other)
        else:
            shutil.copy2(one, other)

    shutil.copytree(source, target, copy_function=link_packs)
    return target


def pack_bytes(repo: Path) -> dict[str, int]:
    """Bytes of all packs and of all indexes, and the number of packs."""
    files = [path for path in (repo / "objects" / "pack").iterdir() if path.suffix in PACK_SUFFIXES]
    sizes = {
        suffix[1:]: sum(path.stat().st_size for path in files if path.suffix == suffix) for suffix in PACK_SUFFIXES
    }
    return {**sizes, "packs": sum(path.suffix == ".pack" for path in files)}


def fast_import_stream(journal: Journal, name: str, ref: str) -> Iterator[bytes]:
    """The commands that make `git fast-import` build the very same objects: same paths, messages, names and times."""
    deriver = objects.Deriver()
    for event in journal.events(name):
        header, _, message = deriver.push(event, []).commit[1].partition(b"\n\n")
        lines = header.split(b"\n")
        people = b"\n".join(line for line in lines if line.startswith((b"author ", b"committer ")))
        yield b"commit %s\n%s\ndata %d\n%s\n" % (ref.encode(), people, len(message), message)
        yield b"M 100644 inline %s\ndata %d\n%s\n" % (event_path(event.seq).encode(), len(event.raw), event.raw)


def event_path(seq: int) -> str:
    """Where an event is in the tree of its commit."""
    return b"/".join((objects.root_entry(seq), objects.middle_entry(seq), objects.leaf_entry(seq))).decode()
