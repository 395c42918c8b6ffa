"""The five verifiers, and `gj verify`, as commands: how each is built, and run.

They are started by small servers, one a thread (`fork_server.py`).
"""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

VERIFIERS = Path(__file__).resolve().parents[2]
LANGUAGES = ("python", "go", "rust", "js", "java")
#: `gj verify`, with the command line and the verdict of a verifier.
GJ = "gj"
SECONDS = 60
_SERVER = Path(__file__).with_name("fork_server.py")
_GJ = Path(__file__).with_name("gj_verdict.py")
_BATCH = Path(__file__).with_name("Batch.java")
_BATCH_JS = Path(__file__).with_name("batch.mjs")


class Answer(NamedTuple):
    """What a verifier did. A status below 0 is a signal; ``rss`` is the most memory it had, in MB."""

    status: int
    output: bytes
    errors: bytes
    rss: int


class Missing(Exception):
    """A tool that a verifier needs is not there, or does not build it."""


def _run(*command: str | Path, cwd: Path | None = None, env: Mapping[str, str] | None = None) -> None:
    if not shutil.which(str(command[0])):
        raise Missing(f"{command[0]} is not installed")
    run = subprocess.run(
        list(map(str, command)), cwd=cwd, env={**os.environ, **(env or {})}, capture_output=True, check=False
    )
    if run.returncode:
        raise Missing(f"{' '.join(map(str, command))}:\n{run.stderr.decode(errors='replace')[-3000:]}")


def build(language: str, built: Path) -> list[str]:
    """Build a verifier below the folder ``built``, and return the command that runs it."""
    built = built.resolve()  # compilers are run in other folders
    if language == "python":
        return [sys.executable, str(VERIFIERS / "verify_chain.py")]
    if language == GJ:
        if not find_spec("gitjournal"):
            raise Missing("gitjournal is not installed here")
        return [sys.executable, str(_GJ)]
    if language == "go":
        _run("go", "build", "-o", built / "verify_chain_go", ".", cwd=VERIFIERS / "go")
        return [str(built / "verify_chain_go")]
    if language == "rust":
        _run("cargo", "build", "-q", "--release", "--locked", "--target-dir", built / "rust", cwd=VERIFIERS / "rust")
        found = [
            one
            for one in (built / "rust" / "release").iterdir()
            if one.is_file() and os.access(one, os.X_OK) and not one.suffix
        ]
        return [str(found[0])]
    if language == "js":
        if not shutil.which("node"):
            raise Missing("node is not installed")
        return ["node", str(VERIFIERS / "js" / "cli.mjs")]
    return _java(built)


def _java(built: Path) -> list[str]:
    """Compiled once; the classes of a first run are kept in an archive, which makes later starts faster."""
    classes, archive = built / "java", built / "java.jsa"
    _run("javac", "-nowarn", "-d", classes, VERIFIERS / "java" / "VerifyChain.java", _BATCH)
    flags = ["-Xshare:auto", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
    sample = VERIFIERS / "vectors" / "seals" / "signers-comment.jsonl"
    archive.unlink(missing_ok=True)
    subprocess.run(
        ["java", f"-XX:ArchiveClassesAtExit={archive}", *flags, "-cp", classes, "VerifyChain", sample],
        capture_output=True,
        check=False,
    )
    kept = [f"-XX:SharedArchiveFile={archive}"] if archive.exists() else []
    return ["java", *kept, *flags, "-cp", str(classes), "VerifyChain"]


class Runner:
    """Runs one verifier, from several threads."""

    def __init__(self, language: str, command: Sequence[str]) -> None:
        self.language = language
        self.command = list(command)
        self.seconds = 0.0
        self._servers = threading.local()

    def run(self, arguments: Sequence[str], env: Mapping[str, str], scratch: Path, *, alone: bool = False) -> Answer:
        """Run it once. ``scratch`` is a folder for what it prints; ``alone``: in a process of its own, as users do."""
        begin = time.monotonic()
        if self.language in ("java", "js") and not alone:
            answer = self._in_batch(arguments, scratch / f"{self.language}.out")
            self.seconds += time.monotonic() - begin
            return answer
        return self._in_process(arguments, env, scratch, begin)

    def _in_batch(self, arguments: Sequence[str], out: Path) -> Answer:
        """In the virtual machine of this thread: to start one takes longer than the verdict."""
        if not hasattr(self._servers, "batch"):
            place, program = self.command[:-1], self.command[-1]
            command = [*place, "Batch"] if self.language == "java" else [*place, str(_BATCH_JS), program]
            self._servers.batch = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment()
            )
        server: subprocess.Popen[bytes] = self._servers.batch
        assert server.stdin and server.stdout
        out.unlink(missing_ok=True)
        server.stdin.write(b" ".join(base64.b64encode(os.fsencode(one)) for one in [str(out), *arguments]) + b"\n")
        server.stdin.flush()
        if not select.select([server.stdout], [], [], SECONDS)[0]:
            server.kill()
        line = server.stdout.readline()
        if not line:
            del self._servers.batch
            return Answer(server.wait(), b"", b"the virtual machine has ended", 0)
        return Answer(int(line), out.read_bytes(), b"", 0)

    def _in_process(self, arguments: Sequence[str], env: Mapping[str, str], scratch: Path, begin: float) -> Answer:
        out, err = scratch / f"{self.language}.out", scratch / f"{self.language}.err"
        wish = {
            "command": self.command,
            "arguments": list(arguments),
            "env": dict(env),
            "out": str(out),
            "err": str(err),
            "seconds": SECONDS,
        }
        server = self._server()
        assert server.stdin and server.stdout
        server.stdin.write(json.dumps(wish).encode() + b"\n")
        server.stdin.flush()
        answer = json.loads(server.stdout.readline())
        self.seconds += time.monotonic() - begin
        return Answer(answer["status"], out.read_bytes(), err.read_bytes()[-4000:], answer["rss"])

    def _server(self) -> subprocess.Popen[bytes]:
        """The server of this thread. It ends when its standard input does."""
        if not hasattr(self._servers, "process"):
            program = self.command[1:] if self.language in ("python", GJ) else []
            start = [sys.executable, str(_SERVER), *program]
            env = {**os.environ, "PYTHONPATH": str(VERIFIERS)}
            self._servers.process = subprocess.Popen(start, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env)
        made: subprocess.Popen[bytes] = self._servers.process
        return made


def environment(more: Mapping[str, str] | None = None) -> dict[str, str]:
    """What a verifier gets: nothing of git's but what a case wants it to see."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    env.setdefault("TMPDIR", tempfile.gettempdir())
    return {**env, **(more or {})}
