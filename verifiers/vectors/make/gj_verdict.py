"""`gj verify` with the command line and the verdict of the verifiers, so that it can run their vectors.

    gj_verdict.py [OPTION]... PATH [NAME]

The work is gj's; this only says it in other words (docs/verification.md sections 2, 3, 10 and 12).
"""

from __future__ import annotations

import io
import json
import os
import re
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import platformdirs
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from vectors.make.judge import TEXTS, UNCHECKED
from vectors.make.kit import canon
from vectors.make.suite import WORDS

from gitjournal import cli, cosign, erase, export_check, pins, proof, refs, signers, verify

#: What gj imports when it needs it. The server that runs this has it from the start (`fork_server.py`).
LOADED = (platformdirs, ec, ed25519, rsa, cosign, erase, export_check, pins, proof, signers, verify)
WITH_VALUE = ("--allowed-signers", "--revoked-keys", "--expect-seq", "--expect-head")
#: What gj says of the same thing in other words, by how its note begins.
SAME = {
    "whether newer events were cut off: nothing pins": "whether newer events were cut off: no head was expected",
}
UNSIGNED = "who wrote the events: nothing is signed"
_COUNTED = re.compile(r": [0-9]+$")


def split(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """(options with their values, the other words) of a verifier's command line."""
    options, others = list[str](), list[str]()
    todo = iter(words)
    for word in todo:
        if word.startswith("-"):
            options += [word, *islice(todo, int(word in WITH_VALUE))]
        else:
            others.append(word)
    return options, others


def plain(words: Sequence[str]) -> list[str]:
    """PATH and NAME, as far as they are there."""
    return split(words)[1]


def command(words: Sequence[str]) -> tuple[str, list[str]]:
    """(input, arguments of gj) for those of a verifier."""
    options, others = split(words)
    if not others:
        return "git", ["--no-path"]
    path = Path(others[0])
    if path.is_dir():
        return "git", ["--journal", str(path), *options, "--", *map(typed, others[1:])]
    # What gj is told by the option, a verifier takes from the name of the file.
    kinds = {".jsonl": ("--export", "jsonl"), ".json": ("--proof", "proof")}
    option, kind = kinds.get(path.suffix or path.name, ("--journal", ""))
    return kind, [option, str(path), *options, "--", *others[1:]]


def is_spelled(name: str) -> bool:
    """Whether a NAME is one of a verifier's: encoded, as in a ref."""
    return refs.parse_ref(name if "/" in name else f"{name}/main", "") is not None


def typed(name: str) -> str:
    """A NAME as people type it for gj: in full, as `s` alone is all branches of a session there."""
    found = refs.parse_ref(name if "/" in name else f"{name}/main", "")
    return f"{found.session}/{found.branch}" if found else name


def run(arguments: Sequence[str]) -> tuple[int, bytes]:
    """Run gj in this process; its exit status and what it printed. Its memory of earlier runs is not the user's."""
    out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)
    kept, sys.stdout = sys.stdout, out
    with tempfile.TemporaryDirectory(prefix="gj-state-") as state:
        os.environ["XDG_STATE_HOME"] = state
        try:
            cli.gj.main(["verify", "--json", *arguments], prog_name="gj")
        except SystemExit as end:
            status = end.code if isinstance(end.code, int) else int(end.code is not None)
        finally:
            sys.stdout = kept
    return status, out.buffer.getvalue()  # type: ignore[attr-defined]


def verdict(kind: str, status: int, reports: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The verdict of section 3 that says what gj's reports say."""
    notes = [note for report in reports for note in report["unchecked"]]
    return {
        "input": kind,
        "lines": sorted(map(line, reports), key=lambda one: (one["name"] or "").encode()),
        "unchecked": [
            text
            for text in unchecked(kind, notes)
            # gj says it of each branch that is not signed.
            if text != UNSIGNED or not any(report["signatures"] for report in reports)
        ],
        "verdict": WORDS[status],
        "version": 1,
    }


def line(report: Mapping[str, Any]) -> dict[str, Any]:
    """One line of a verdict. All findings are kept, so that one that gj says twice is seen."""
    found = sorted(report["findings"], key=lambda one: (one["seq"] or 0, one["code"], one["id"]))
    same = ("head", "seals", "side_files", "signatures", "signed_to", "signers", "withheld")
    return {
        **{name: report[name] for name in same},
        "findings": [{**one, "text": TEXTS[one["code"]]} for one in found],
        "name": report["ref"],
    }


def unchecked(kind: str, notes: Sequence[str]) -> Iterator[str]:
    """The texts of section 10. gj gives numbers by branch; those of the repository it gives with each branch."""
    seen = dict[str, list[int]]()
    for note in notes:
        text = next((same for begin, same in SAME.items() if note.startswith(begin)), note)
        number = re.search(r": ([0-9]+)$", note)
        seen.setdefault(_COUNTED.sub(": N", text), []).append(int(number[1]) if number else 0)
    if kind == "git":
        # It has looked at the tail, of which the verifiers know nothing.
        seen[UNCHECKED[0][0]] = []
    if behind := seen.pop("events after the last accepted signature: N", None):
        seen["events after the last accepted signature"] = behind
    for text, _ in UNCHECKED:
        if text in seen:
            whole = max(seen[text], default=0) if text.startswith("refs ") else sum(seen[text])
            yield text.replace(": N", f": {whole}")


def main(words: Sequence[str]) -> int:
    """Print the verdict, and return the exit status."""
    kind, arguments = command(words)
    status, printed = run(arguments)
    if status in WORDS:
        reports = [json.loads(one) for one in printed.splitlines()]
        sys.stdout.buffer.write(canon(verdict(kind, status, reports)) + b"\n")
        sys.stdout.buffer.flush()
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
