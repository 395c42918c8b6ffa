"""What `fuzz.py` has found: inputs that a verifier once broke down on, or disagreed about."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from .cases_seals import ALICE, says, signed
from .gitkit import Lies, Repo
from .kit import Line, talk
from .suite import Suite


def _seals_of_nothing(suite: Suite) -> None:
    """A seal where a line begins, of 0 events: Go, Java and JavaScript looked for the root where there was no tree."""
    top = sha256().digest()
    text = f"gitjournal/s/main\n0\n{base64.b64encode(top).decode()}\n"
    right: dict[str, Any] = {"size": 0, "root": top.hex(), "checkpoint": text, "signatures": []}
    statements: Mapping[str, dict[str, Any]] = {
        "hash-of-no-bytes": right,
        "signed": signed(right, ALICE),
        "zeros": {**right, "root": "0" * 64, "checkpoint": text.replace(text.split("\n")[2], "A" * 43 + "=")},
        "empty": {},
        "size-twelve": {**right, "size": 12},
    }
    find = [("bad-seal", 1), ("bad-seq", 1), ("broken-link", 1)]
    for name, data in statements.items():
        line = Line(start=False)
        line.add("session.seal", data, seq=13, prev="0" * 64)
        about = "a seal where a line begins: it is of nothing"
        suite.export(f"seal-of-nothing-{name}", about, line.events, find, line={"seals": 1, **says(0)})


def _odd_places(suite: Suite) -> None:
    """An object whose place in the pack is odd, with a good loose one beside it, which git does not come to."""
    repo = Repo()
    made = repo.write(talk(5).events, "refs/heads/s/main")
    for name, found, target in (
        ("event", ("bad-object", 2), made[1].blob),
        ("tree", ("bad-object", 1), made[4].leaf),
        ("commit", ("bad-object", 3), made[2].commit),
    ):
        suite.repo(
            f"far-in-the-index-{name}",
            "the index of the pack says that an object is where nothing is",
            repo,
            [(*found, target)],
            setup={"steps": [["pack_beside"], ["far_in_idx", target]]},
        )


def _odd_first_line(suite: Suite) -> None:
    """The parent is in the second line, however long the first one is (gj looked at a fixed place)."""
    for name, change in (("longer", (b"tree ", b"tree  ")), ("other", (b"tree ", b"t "))):
        repo = Repo()
        lies = Lies(commit={3: lambda text, change=change: text.replace(*change)})
        made = repo.write(talk(5).events, "refs/heads/s/main", lies)
        repo.drop(made[0].commit)
        suite.repo(
            f"commit-first-line-{name}-and-the-first-missing",
            "a commit that is not in form names its parent all the same",
            repo,
            [("missing-object", 1, made[0].commit), ("bad-commit", 3, made[2].commit)],
        )


def _gap_in_side_files(suite: Suite) -> None:
    """Trees are derived with the entries that the head has (gj derived nothing from there on)."""
    repo = Repo()
    talked = talk(5, files=[3]).events
    made = repo.write(talked, "refs/heads/s/main", Lies(leaf={5: lambda leaf: leaf.replace(b"3.1\0", b"3.2\0")}))
    repo.drop(made[2].commit)
    suite.repo(
        "side-files-with-a-gap-and-a-commit-missing",
        "the head's tree numbers a side file from 2 on, and the walk ends behind that event",
        repo,
        [("bad-file", 3, talked[2].hash), ("missing-object", 3, made[2].commit), ("bad-tree", 4, made[3].commit)],
    )


def add(suite: Suite) -> None:
    """All cases."""
    suite.folder = "seals"
    _seals_of_nothing(suite)
    suite.folder = "hostile"
    _odd_places(suite)
    suite.folder = "git"
    _odd_first_line(suite)
    _gap_in_side_files(suite)
