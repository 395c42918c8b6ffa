"""The fuzz targets of fuzz/ on their seeds, on what was found before, and on what hypothesis makes of both."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import ROOT

FUZZ = ROOT / "fuzz"
# What is in fuzz/ and verifiers/ is no package; `seeds` finds the latter by itself.
sys.path.append(str(FUZZ))
TARGETS: dict[str, Callable[[bytes], None]] = importlib.import_module("targets").TARGETS
seeds: Any = importlib.import_module("seeds")
changes: Any = importlib.import_module("changes")
inputs: Any = importlib.import_module("inputs")
# All seeds are tried by atheris, which takes minutes.
FEW = 40


def _some(name: str) -> list[bytes]:
    listed: list[bytes] = seeds.seeds(name)
    return listed[:: max(len(listed) // FEW, 1)]


@pytest.mark.parametrize("name", TARGETS)
def test_seeds_and_what_was_found_before(name: str) -> None:
    for raw in [*_some(name), *seeds.found(name)]:
        TARGETS[name](raw)


@pytest.mark.parametrize("name", TARGETS)
def test_changed_seeds(name: str) -> None:
    some = st.sampled_from(_some(name))
    changed = st.builds(changes.some_bytes, st.randoms(use_true_random=False), some)

    @settings(max_examples=60)
    @given(changed | st.binary(max_size=200))
    def right(raw: bytes) -> None:
        TARGETS[name](raw)

    right()


def test_inputs_depend_on_the_seed_and_their_number_alone() -> None:
    found = inputs.Seeds(inputs.VECTORS)
    some = [one for one, _ in zip(inputs.inputs(5, found), range(60), strict=False)]
    again = [one for one, _ in zip(inputs.inputs(5, found), range(60), strict=False)]
    assert some == again
    assert {one.kind for one in some} == {way.__name__ for way in inputs.WAYS}
    assert some != [one for one, _ in zip(inputs.inputs(6, found), range(40), strict=False)]


@pytest.mark.parametrize("raw", [b"", b"x", b'{"a":1}', bytes(range(256))])
def test_a_change_is_one(raw: bytes) -> None:
    random = Random(1)
    assert any(changes.some_bytes(random, raw) != raw for _ in range(5))


def test_the_guided_run_is_not_started_for_an_unknown_target() -> None:
    run = subprocess.run(
        [sys.executable, FUZZ / "guided.py", "no-such-target"],
        capture_output=True,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        check=False,
    )
    assert run.returncode == 2
    assert b"no target: no-such-target" in run.stderr
