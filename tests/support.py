"""Shared helpers: stock git without anybody's config, event chains, derived objects, children of fork."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import pygit2
import rfc8785
from click.testing import Result

from gitjournal import flush, pack
from gitjournal.event import Event
from gitjournal.objects import Derived, Deriver, FileBlob, git_id
from gitjournal.pack import BLOB, COMMIT, TREE

#: Runs ``gj`` in this process: the fixture of that name.
Gj = Callable[..., Result]

ROOT = Path(__file__).resolve().parents[1]
#: Public sessions to import; absent outside of the project's own machines.
CORPUS = ROOT.parent / "shared" / "corpus"


class PackObject(NamedTuple):
    """An object for a pack: type number, id (20 bytes), content."""

    kind: int
    oid: bytes
    data: bytes


KIND_NAMES = {COMMIT: b"commit", TREE: b"tree", BLOB: b"blob"}

_GIT_ENV = {
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_OPTIONAL_LOCKS": "0",
    "LC_ALL": "C",
}


def git(
    *args: str | Path,
    cwd: Path | None = None,
    stdin: bytes = b"",
    env: Mapping[str, str] | None = None,
    check: bool = True,
) -> subprocess.CompletedProcess[bytes]:
    """Run stock git in ``cwd`` with no configuration but the repository's. Shows its stderr when it fails."""
    clean = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
    run = subprocess.run(
        ["git", *map(str, args)],
        cwd=cwd,
        input=stdin,
        env={**clean, **_GIT_ENV, **(env or {})},
        capture_output=True,
        check=False,
    )
    if check and run.returncode:
        raise AssertionError(f"git {' '.join(map(str, args))}: {run.returncode}\n{run.stderr.decode(errors='replace')}")
    return run


def git_text(*args: str | Path, cwd: Path | None = None, stdin: bytes = b"", **more: Any) -> str:
    """What git prints, stripped."""
    return git(*args, cwd=cwd, stdin=stdin, **more).stdout.decode().strip()


def fsck(repo: Path) -> None:
    """`git fsck --strict` finds no fault, and `git verify-pack` none in any pack."""
    found = git("fsck", "--strict", "--full", "--no-dangling", cwd=repo)
    assert not [line for line in (found.stdout + found.stderr).splitlines() if line.startswith((b"error", b"warn"))]
    # A pack without its index is what a crash leaves: to git it is not there.
    for index in sorted((repo / "objects" / "pack").glob("*.idx")):
        git("verify-pack", index, cwd=repo)


# --- events ----------------------------------------------------------------------------------------


def members(seq: int = 1, prev: str | None = None, **changes: Any) -> dict[str, Any]:
    """The members of a small valid event; ``changes`` replace some, a value of ... removes one."""
    made: dict[str, Any] = {
        "v": 1,
        "session": "s",
        "seq": seq,
        "prev": prev,
        "epoch": 1,
        "ts": "2026-01-02T03:04:05.678Z",
        "type": "session.start" if seq == 1 else "message",
        "actor": "host",
        "data": {"n": seq},
    }
    if seq > 1 and prev is None:
        made["prev"] = f"{seq:064x}"
    made.update(changes)
    return {key: value for key, value in made.items() if value is not ...}


def event(seq: int = 1, prev: str | None = None, **changes: Any) -> Event:
    """The event of `members`."""
    return Event.build(members(seq, prev, **changes))


def chain(count: int, *, first: int = 1, prev: str | None = None, size: int = 0, **changes: Any) -> list[Event]:
    """``count`` events that follow each other, deterministic; ``size`` pads the payload with that many characters."""
    out: list[Event] = []
    for seq in range(first, first + count):
        data = {"n": seq, "text": "x" * size} if size else {"n": seq}
        out.append(event(seq, prev, **{"data": data, **changes}))
        prev = out[-1].hash
    return out


def naive_hash(event_members: Mapping[str, Any]) -> str:
    """The event hash straight from section 3, with nothing of ours: rfc8785 and hashlib."""
    header = {key: value for key, value in event_members.items() if key not in ("data", "files", "salt")}
    if "data" in event_members:
        body = {key: event_members[key] for key in ("data", "files", "salt") if key in event_members}
        header["data_sha256"] = sha256(rfc8785.dumps(body)).hexdigest()
    return sha256(rfc8785.dumps(header)).hexdigest()


# --- git objects -----------------------------------------------------------------------------------


def derive(events: Sequence[Event], files: Mapping[int, Sequence[FileBlob]] | None = None) -> list[Derived]:
    """The git objects of a chain from its start; ``files`` gives side files by seq."""
    deriver = Deriver()
    return [deriver.push(one, [file.oid for file in (files or {}).get(one.seq, ())]) for one in events]


def pack_order(derived: Sequence[Derived], files: Sequence[FileBlob] = ()) -> list[PackObject]:
    """All objects of a flush, distinct, commits and trees newest first."""
    out: dict[bytes, PackObject] = {}
    for one in reversed(derived):
        out.setdefault(one.commit[0], PackObject(COMMIT, *one.commit))
        for oid, tree in one.trees:
            out.setdefault(oid, PackObject(TREE, oid, tree))
    for one in derived:
        out.setdefault(one.blob[0], PackObject(BLOB, *one.blob))
    for file in files:
        out.setdefault(file.oid, PackObject(BLOB, file.oid, file.data))
    return list(out.values())


def as_flushed(events: Sequence[Event]) -> list[pack.PackObject]:
    """The objects of events as a flush packs them: older trees as prefixes of the newest."""
    made = flush.Packing()
    for one, derived in zip(events, derive(events), strict=True):
        made.add(derived, flush.Pending(one))
    return list(made)


def blob(data: bytes) -> PackObject:
    """A blob to put into a pack."""
    return PackObject(BLOB, git_id(b"blob", data), data)


def as_loose(repo: Path, one: PackObject) -> str:
    """Write an object with stock git as a loose one, and return its hex id, which must be ours."""
    kind = KIND_NAMES[one.kind].decode()
    written = git_text("hash-object", "-w", "--literally", "-t", kind, "--stdin", cwd=repo, stdin=one.data)
    assert written == one.oid.hex()
    return written


# --- processes -------------------------------------------------------------------------------------

#: A user and a group that own nothing.
NOBODY = 65534


def forked(work: Callable[[], object]) -> int:
    """Run ``work`` in a forked child and wait; its exit status (0 when it returned, 70 when it raised)."""
    return wait(fork(work))


def fork(work: Callable[[], object]) -> int:
    """Run ``work`` in a forked child that never comes back into the test; its pid."""
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid:
        return pid
    status = 70
    try:
        work()
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)


def as_nobody(work: Callable[[], object]) -> int:
    """The same as another user, because permissions say nothing to root; what ``work`` needs is in `public`."""

    def run() -> None:
        if os.geteuid() == 0:
            # libgit2 looks for root's configuration, which nobody may not even look for.
            for level in (pygit2.enums.ConfigLevel.GLOBAL, pygit2.enums.ConfigLevel.XDG):
                pygit2.settings.search_path[level] = ""
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
        work()

    return forked(run)


def wait(pid: int) -> int:
    """Wait for a child; its exit status, negative for a signal."""
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def kill(pid: int) -> None:
    """End a child of ours as a crash does, and collect it."""
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


def flips(raw: bytes, masks: Sequence[int] = (0xFF,)) -> Iterator[tuple[int, bytes]]:
    """``raw`` with one byte changed, for every byte and mask."""
    for at in range(len(raw)):
        for mask in masks:
            yield at, raw[:at] + bytes([raw[at] ^ mask]) + raw[at + 1 :]
