"""Where `gj verify` may say something else than the verifiers: rules on what a case is, not on its name.

They are in docs/verification.md section 12, too.
"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from .gj_verdict import is_spelled, plain
from .runners import environment


def allowed(case: Mapping[str, Any], arguments: Sequence[str], path: Path) -> set[int]:
    """The exit statuses that a rule allows, with whatever verdict; none where no rule is about the case."""
    rules = (
        _packed_refs_are_a_file,
        _git_does_not_open_it,
        _names_are_typed,
        _heads_are_of_the_journal,
        _nobody_counts,
    )
    return {status for rule in rules for status in rule(case, arguments, path)}


def _git_does_not_open_it(case: Mapping[str, Any], arguments: Sequence[str], path: Path) -> set[int]:
    """gj reads such a repository by itself, or says by its config that it is none that a journal can be in."""
    if not path.is_dir():
        return set()
    asked = subprocess.run(
        ["git", f"--git-dir={path}", "rev-parse", "--show-object-format"],
        env=environment(),
        capture_output=True,
        check=False,
    )
    return set() if asked.stdout == b"sha1\n" else {0, 1, 3, 4}


def _packed_refs_are_a_file(case: Mapping[str, Any], arguments: Sequence[str], path: Path) -> set[int]:
    """One that is a link, a pipe or a folder is an error: to pass it over could begin a session anew that is there."""
    packed = path / "packed-refs"
    there = packed.is_symlink() or packed.exists()
    return {4} if there and (packed.is_symlink() or not packed.is_file()) else set()


def _names_are_typed(case: Mapping[str, Any], arguments: Sequence[str], path: Path) -> set[int]:
    """A name that is not spelled as in a ref can be one that people type for gj."""
    name = plain(arguments)[1:2]
    return {0, 1, 3, 4} if path.is_dir() and name and name[0] and not is_spelled(name[0]) else set()


def _nobody_counts(case: Mapping[str, Any], arguments: Sequence[str], path: Path) -> set[int]:
    """Without allowed signers it is wrong usage to say who must have signed, or whose signatures never count."""
    asked = {"--require-signed", "--revoked-keys"} & {*arguments}
    return {2} if asked and "--allowed-signers" not in arguments else set()


def _heads_are_of_the_journal(case: Mapping[str, Any], arguments: Sequence[str], path: Path) -> set[int]:
    """A head that was kept is held against the branch of the journal, and not against what a remote has of it."""
    several = case["exit"] == 2 and "--expect-seq" in arguments and len(plain(arguments)) == 2
    return {0, 1, 3} if several and path.is_dir() else set()
