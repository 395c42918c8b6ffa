"""The long proof run of gitjournal/canonical.py: random values against rfc8785, random doubles against node.

    python bench/prove_canonical.py --examples 200000 --doubles 1000000 --seed 1

Prints the counts and every mismatch (at most 20). Exit status 1 if there was one. CI runs the same properties on
fewer examples in tests/test_canonical.py.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from hypothesis import HealthCheck, given, seed, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402
from strategies import (  # noqa: E402
    agrees_with_reference,
    documents,
    number_mismatches,
    ours,
    random_doubles,
    wild,
)

from gitjournal import canonical  # noqa: E402

BATCH = 100_000


def prove_values(examples: int, start: int) -> tuple[Counter[str], list[str]]:
    """Runs hypothesis; a mismatch is noted and does not stop the run (so nothing is shrunk)."""
    counts: Counter[str] = Counter()
    wrong: list[str] = []

    @seed(start)
    @settings(max_examples=examples, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(st.one_of(documents, wild))
    def run(value: Any) -> None:
        counts["values"] += 1
        if not agrees_with_reference(value):
            wrong.append(f"{value!a}: differs from rfc8785")
        text = ours(value)
        if text is None:
            counts["refused"] += 1
            return
        counts["by orjson"] += canonical.FAST and canonical._dumps_fast(value) is not None
        again = canonical.loads_canonical(text)
        if canonical.dumps(again) != text or canonical.loads(text) != again:
            wrong.append(f"{value!a}: does not come back from its text")

    run()
    return counts, wrong


def prove_doubles(count: int, start: int) -> tuple[int, list[str]]:
    """How many doubles the profile refused, and the mismatches with node."""
    refused, wrong = 0, []
    for offset in range(0, count, BATCH):
        doubles = list(random_doubles(min(BATCH, count - offset), start + offset))
        batch_refused, batch_wrong = number_mismatches(doubles)
        refused += batch_refused
        wrong += batch_wrong
    return refused, wrong


def main() -> int:
    parser = argparse.ArgumentParser(description="Compare canonical.dumps with rfc8785 and node.")
    parser.add_argument("--examples", type=int, default=20_000, metavar="N", help="hypothesis examples")
    parser.add_argument("--doubles", type=int, default=100_000, metavar="M", help="random doubles")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    print(f"fast path in use: {canonical.FAST}")
    began = time.monotonic()
    counts, wrong = prove_values(options.examples, options.seed)
    print(f"values: {dict(counts)}, {len(wrong)} mismatches, {time.monotonic() - began:.0f} s")
    began = time.monotonic()
    refused, wrong_doubles = prove_doubles(options.doubles, options.seed)
    print(
        f"doubles: {options.doubles}, refused by the profile {refused}, {len(wrong_doubles)} mismatches,"
        f" {time.monotonic() - began:.0f} s"
    )
    for line in [*wrong, *wrong_doubles][:20]:
        print(line)
    return 1 if wrong or wrong_doubles else 0


if __name__ == "__main__":
    sys.exit(main())
