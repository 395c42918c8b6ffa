"""The pages for users, from the first block to the last in one folder: Python runs, commands print what is shown."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import pytest
from support import ROOT
from test_docs import blocks, clean_environment, commands, is_shown, run_all

import gitjournal
from gitjournal.journal import Journal
from gitjournal.state import fold
from gitjournal.verify import verify

#: Runs the programs that it is given, one a line as JSON, with the same names, and says when each is done.
_RUNNER = """
import json, sys
names = {"__name__": "__main__"}
for line in sys.stdin:
    exec(compile(json.loads(line), "<page>", "exec"), names)
    print("\\x1e", flush=True)
"""


@contextmanager
def python(folder: Path, env: Mapping[str, str]) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, "-c", _RUNNER],
        cwd=folder,
        env=env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=(folder.parent / "errors").open("w"),
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def pipe(stream: IO[str] | None) -> IO[str]:
    assert stream is not None
    return stream


def follow(name: str, folder: Path) -> Journal:
    """Do what a page says, in a new folder; the journal that it has made."""
    work = folder / "work"
    work.mkdir()
    env = clean_environment(folder / "home")
    with python(work, env) as process:
        for block in blocks((ROOT / "docs" / name).read_text(encoding="utf-8")):
            if block.info == "python":
                pipe(process.stdin).write(json.dumps(block.text) + "\n")
                pipe(process.stdin).flush()
                while (line := pipe(process.stdout).readline()) != "\x1e\n":
                    assert line, (folder / "errors").read_text()
            elif block.info == "console":
                check(f"```console\n{block.text}```\n", work, env)
    return gitjournal.open(work / ".gitjournal")


def check(page: str, work: Path, env: Mapping[str, str]) -> None:
    lines = commands(page)
    printed = run_all([line for line, _ in lines], work, env)
    for (line, shown), found in zip(lines, printed, strict=True):
        assert is_shown(shown, found), f"$ {line}\n{found}\n--- the page says\n{shown}"


def test_the_page_of_sessions(tmp_path: Path) -> None:
    journal = follow("sessions.md", tmp_path)
    state = fold(journal.events("s1"))
    assert (
        not state.odd
        and state.summary == "notes.txt has 12 lines."
        and state.usage["gen_ai.usage.input_tokens"] == 2460
    )
    assert not journal.branches("s2") and verify(journal, "s1").ok


def test_the_tutorial(tmp_path: Path) -> None:
    journal = follow("tutorial.md", tmp_path)
    trunk, branch = (fold(journal.events(name)) for name in ("notes", "notes/careful"))
    for state in (trunk, branch):
        assert not state.odd and not state.open_calls and not state.unmatched_results and state.trust == "host"
        assert state.context[:4] == trunk.history[:4]
    assert [state.last_turn and state.last_turn["outcome"] for state in (trunk, branch)] == ["interrupted", "completed"]
    asked = [event.data["parts"][0]["content"] for event in journal.events("notes") if event.actor == "user"]
    assert asked == ["How many words has notes.txt?", "Tidy up."]
    # What it was asked in the branch goes on from what was said before: the model is sent all of that.
    assert branch.usage["gen_ai.usage.input_tokens"] == 20 + 60 + 100 + 140
    assert all(verify(journal, name).ok for name in journal.sessions())


@pytest.mark.parametrize("method", [name for name in dir(gitjournal.Session) if not name.startswith("_")])
def test_the_page_names_every_method(method: str) -> None:
    page = (ROOT / "docs" / "sessions.md").read_text(encoding="utf-8")
    told_elsewhere = {
        "append_many",
        "chain",
        "close",
        "end_turn",
        "epoch",
        "flush",
        "head",
        "seal",
        "set_aside",
        "update",
    }
    assert (f"`{method}" in page) != (method in told_elsewhere)
