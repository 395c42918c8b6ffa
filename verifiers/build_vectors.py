"""Makes all vectors from nothing: `build_vectors.py [--check] [FOLDER]`, by default the folder `vectors` beside it.

The same bytes come out in every run. With `--check` nothing is written: the exit status says if the files are those.
"""

from __future__ import annotations

import sys
from pathlib import Path

from vectors.make import (
    cases_canonical,
    cases_commits,
    cases_fuzz,
    cases_git,
    cases_hostile,
    cases_lines,
    cases_members,
    cases_objects,
    cases_packs,
    cases_proofs,
    cases_refs,
    cases_seals,
    cases_signatures,
    cases_signed,
    cases_signers,
    cases_trees,
)
from vectors.make.suite import Suite

FOLDERS = ("canonical", "members", "lines", "git", "refs", "hostile", "seals", "proofs")
CASES = (
    *(cases_canonical, cases_members, cases_lines),
    *(cases_git, cases_commits, cases_trees, cases_objects, cases_refs, cases_hostile),
    *(cases_seals, cases_signatures, cases_signers, cases_signed, cases_proofs, cases_fuzz),
    cases_packs,
)


def build() -> dict[str, bytes]:
    """All files by path, `index.json` among them."""
    suite = Suite()
    for module in CASES:
        module.add(suite)
    return {**suite.files, "index.json": suite.index()}


def stored(folder: Path) -> dict[str, bytes]:
    """The files that are there now."""
    found = [path for name in FOLDERS for path in (folder / name).rglob("*") if path.is_file()]
    found += [path for path in [folder / "index.json"] if path.is_file()]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in found}


def differences(made: dict[str, bytes], there: dict[str, bytes]) -> list[str]:
    """Paths that are in one of the two only, or have other bytes."""
    return sorted(name for name in made.keys() | there.keys() if made.get(name) != there.get(name))


def main(arguments: list[str]) -> int:
    """Write the vectors, or compare them; the exit status."""
    check = "--check" in arguments
    folders = [Path(one) for one in arguments if one != "--check"]
    folder = folders[0] if folders else Path(__file__).with_name("vectors")
    made, there = build(), stored(folder)
    differ = differences(made, there)
    for name in differ:
        if check:
            print(f"differs: {name}")
        elif name in made:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(made[name])
        else:
            (folder / name).unlink()
    what = "not as made" if check else "written"
    print(f"{len(made)} files, {sum(map(len, made.values()))} bytes, {len(differ)} of them {what}")
    return int(check and bool(differ))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
