"""Make the golden journals: one small journal for each version of docs/format.md, as a git bundle.

``python tests/golden/make.py VERSION [FOLDER]`` writes ``VERSION.bundle`` and, with what the sessions must be read as,
``VERSION.json``. A version is made once, when it is new, and its files are never written again: they stand for the
journals that people have. The events have fixed times and no salt, so the ids are the same on every machine.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gitjournal
from gitjournal.journal import Journal
from gitjournal.state import fold
from gitjournal.writer import Draft

#: What a state of a session has that says nothing of it, in the words of docs/events.md.
DEFAULTS = {
    "title": "", "summary": "", "archived": False, "labels": [], "project": None, "parent": None, "resources": [],
    "checkpoint": {}, "open_turn": None, "last_turn": None, "terminated": None, "wakes": [], "trust": "sandbox",
}  # fmt: skip


def _ts(n: int) -> str:
    return f"2026-11-29T20:00:{n:02d}.000Z"


def _session(journal: Journal, name: str, start: dict[str, Any], *events: tuple[str, str, dict[str, Any]]) -> None:
    first = Draft("session.start", start, ts=_ts(0))
    with journal.session(name, create=True, start=first, epoch=1, salted=False) as session:
        session.append_many(
            Draft(kind, data, actor, ts=_ts(n)) for n, (kind, actor, data) in enumerate(events, start=1)
        )


def _said(role: str, text: str) -> tuple[str, str, dict[str, Any]]:
    return "message", role, {"role": role, "parts": [{"type": "text", "content": text}]}


def _v1(journal: Journal) -> dict[str, dict[str, Any]]:
    """As written before sessions had titles, turns and wakes: only the types of the first version of events.md."""
    usage = {"gen_ai.usage.input_tokens": 12, "gen_ai.usage.output_tokens": 5}
    call = {"type": "tool_call", "id": "c1", "name": "shell", "arguments": {"command": "ls"}}
    _session(journal, "plain", {}, _said("user", "hello"), _said("assistant", "hi"))
    _session(
        journal,
        "tools",
        {"trust": "host", "source": "console", "agent.name": "helper"},
        _said("user", "What is here?"),
        ("model.response", "assistant", {"response.id": "r1", "parts": [call], "usage": usage}),
        ("tool.call", "assistant", {"id": "c1", "name": "shell", "arguments": {"command": "ls"}}),
        ("tool.result", "tool:shell", {"id": "c1", "response": "a.py"}),
        ("tool.call", "assistant", {"id": "c2", "name": "shell", "arguments": {"command": "rm a.py"}}),
        ("error", "host", {"message": "no answer", "error.type": "timeout"}),
        ("context.compaction", "host", {"summary": "There is a.py.", "keep_last": 1}),
        ("x.own", "host", {"kept": [1, 2.5, None, "ä"]}),
        ("message", "user", {"role": "user", "parts": [{"type": "text", "content": "long " * 14_000}]}),
    )
    journal.branch("tools", 4, "try", epoch=1)
    _session(journal, "ims", {"source": "claude-code"}, ("native", "host", {"type": "progress"}))
    tools = {"title": "", "trust": "host", "source": "console", "tool_calls": None, "errors": None, "open_calls": None}
    known = {"plain": DEFAULTS, "ims": DEFAULTS | {"source": "claude-code", "native": 1}, "tools": tools}
    return {name: _as_read(journal, name, wanted) for name, wanted in (known | {"tools/try": tools}).items()}


def _as_read(journal: Journal, name: str, members: dict[str, Any]) -> dict[str, Any]:
    """These members of the state, where None stands for whatever it is now."""
    found = fold(journal.events(name)).as_dict()
    return {member: found[member] if wanted is None else wanted for member, wanted in members.items()}


MADE: dict[str, Callable[[Journal], dict[str, dict[str, Any]]]] = {"v1": _v1}


def main(version: str, folder: Path) -> None:
    """Write the bundle and what it must be read as."""
    with tempfile.TemporaryDirectory() as work:
        journal = gitjournal.init(Path(work) / "journal")
        states = MADE[version](journal)
        heads = {str(name): journal.head(name).hash for name in journal.sessions()}
        expected = json.dumps({"heads": heads, "states": states}, indent=1, ensure_ascii=False, sort_keys=True)
        (folder / f"{version}.json").write_text(f"{expected}\n", encoding="utf-8")
        # Without the journal's own log, whose time is that of its making: a journal is read without it as well.
        refs = [journal.chain(name).ref for name in journal.sessions()]
        bundle = ["git", "bundle", "create", "-q", str((folder / f"{version}.bundle").resolve()), *refs]
        subprocess.run(bundle, cwd=journal.path, check=True)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]) if len(sys.argv) > 2 else Path(__file__).parent)
