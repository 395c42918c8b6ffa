"""The vectors of verifiers/vectors: made from nothing they are the same, and the Python verifier knows them."""

from __future__ import annotations

import importlib
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support import ROOT

VERIFIERS = ROOT / "verifiers"


@pytest.fixture(scope="module")
def cases() -> list[dict[str, Any]]:
    """All cases of the index."""
    found: list[dict[str, Any]] = json.loads((VERIFIERS / "vectors" / "index.json").read_bytes())["cases"]
    return found


@pytest.fixture
def layout(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The module that puts cases on the disk; what verifiers/ has is no package of the library."""
    monkeypatch.syspath_prepend(str(VERIFIERS))
    yield importlib.import_module("vectors.make.layout")


def test_they_are_made_from_nothing_and_the_same_in_every_run() -> None:
    run = subprocess.run([sys.executable, VERIFIERS / "build_vectors.py", "--check"], capture_output=True, check=False)
    assert run.returncode == 0, run.stdout.decode()[-2000:]


def test_there_are_enough_and_each_code_is_among_them(layout: Any, cases: list[dict[str, Any]]) -> None:
    texts: dict[str, str] = importlib.import_module("vectors.make.judge").TEXTS
    assert layout
    assert len({case["name"] for case in cases}) == len(cases)
    assert sum(case["exit"] == 1 for case in cases) > 1000
    assert {code for case in cases for code, _ in case.get("findings", ())} == set(texts)
    page = (ROOT / "docs" / "verification.md").read_text(encoding="utf-8")
    assert [code for code, text in texts.items() if f"| `{code}` | {text} |" not in page] == []


def test_each_file_belongs_to_a_case(cases: list[dict[str, Any]]) -> None:
    folder = VERIFIERS / "vectors"
    used = {case["input"] for case in cases}
    used |= {one.removeprefix("{vectors}/") for case in cases for one in case["args"]}
    for path in sorted(folder.glob("*/*")):
        name = path.relative_to(folder).as_posix()
        if path.is_file() and not name.startswith("make/"):
            assert name in used, name
        elif path.is_dir() and name.endswith(".files"):
            assert name.removesuffix(".files") in used, name


@pytest.mark.timeout(1200)
def test_the_python_verifier_knows_them() -> None:
    # `ssh-keygen` or `cryptography` checks the signatures; git lays out the repositories.
    if not shutil.which("git"):
        pytest.skip("no git")
    command = [sys.executable, VERIFIERS / "run.py", "--only", "python"]
    run = subprocess.run(command, capture_output=True, check=False)
    assert run.returncode == 0, (run.stdout + run.stderr).decode()[-4000:]


@pytest.mark.timeout(1200)
def test_gj_verify_knows_them() -> None:
    """In the words of a verifier, and byte for byte; the gate runs all cases so."""
    cases = ("--case", "lines/*", "--case", "refs/*", "--case", "proofs/e*")
    command = [sys.executable, VERIFIERS / "run.py", "--only", "python,gj", *cases]
    run = subprocess.run(command, capture_output=True, check=False)
    assert run.returncode == 0, (run.stdout + run.stderr).decode()[-4000:]


def test_the_rules_for_gj_are_about_few_cases(layout: Any, cases: list[dict[str, Any]]) -> None:
    rules = importlib.import_module("vectors.make.gj_rules")
    assert layout
    exports = [case for case in cases if case["input"].endswith((".jsonl", ".json")) and "repo" not in case["input"]]
    found = {one["name"]: rules.allowed(one, one["args"], VERIFIERS / "vectors" / one["input"]) for one in exports}
    assert len(exports) > 1300
    assert {one["name"] for one in exports if found[one["name"]] - {one["exit"]}} == {
        "seals/signers-revoked-and-none-allowed",
        "seals/signature-required-of-nobody-known",
    }


def test_a_wrong_verifier_is_found_out(layout: Any, cases: list[dict[str, Any]]) -> None:
    judge = importlib.import_module("vectors.make.judge")
    assert layout
    case = next(case for case in cases if case["name"] == "lines/edited-event")
    run = subprocess.run(
        [sys.executable, VERIFIERS / "verify_chain.py", VERIFIERS / "vectors" / case["input"]],
        capture_output=True,
        check=False,
    )
    right = run.stdout
    assert list(judge.complaints(case, 1, right)) == []
    for wrong in (right[:-1], right.replace(b"broken-link", b"bad-seq"), right.replace(b'"seq":3,', b'"seq":2,'), b""):
        assert list(judge.complaints(case, 1, wrong)) != []
    assert list(judge.complaints(case, 0, right)) != []


def test_a_repository_is_laid_out_as_its_text_says(layout: Any, cases: list[dict[str, Any]], tmp_path: Path) -> None:
    case = next(case for case in cases if case["name"] == "git/good")
    path = layout.lay_out(case, VERIFIERS / "vectors", tmp_path)
    fsck = subprocess.run(["git", "fsck", "--strict", "--full"], cwd=path, capture_output=True, check=False)
    assert fsck.returncode == 0, fsck.stderr
