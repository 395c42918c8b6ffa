"""Runs the verifiers over all vectors: each must say what the vector asks for, and all the same bytes.

    run.py [--only LANGUAGE,...] [--case GLOB]... [--built FOLDER] [--keep FOLDER] [--jobs N]

Languages are python, go, rust, js and java; gj is `gj verify` in the words of a verifier. One whose tools are not there
is an error, unless `--only` leaves it out. The Go, Rust and Java verifiers are built into the folder `--built`, by
default one that is removed afterwards.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from vectors.make import judge, layout
from vectors.make.runners import GJ, LANGUAGES, Answer, Missing, Runner, build, environment

VECTORS = Path(__file__).resolve().with_name("vectors")
ALL = (*LANGUAGES, GJ)
SHOWN = 12


def arguments(case: Mapping[str, Any], path: Path) -> list[str]:
    """The arguments of a case."""
    return [one.replace("{input}", str(path)).replace("{vectors}", str(VECTORS)) for one in case["args"]]


def run_case(case: Mapping[str, Any], runners: Sequence[Runner], folder: Path) -> dict[str, list[str]]:
    """What is wrong, by language; a difference between languages stands under the later one."""
    folder.mkdir(parents=True)
    inside = folder / "case"
    inside.mkdir()
    path = layout.lay_out(case, VECTORS, inside)
    marker = inside / "marker"
    env = environment({name: value.replace("{MARKER}", str(marker)) for name, value in case.get("env", {}).items()})
    before = layout.listing(inside)
    wrong: dict[str, list[str]] = {}
    first: Answer | None = None
    for runner in runners:
        # What a case sees of its environment and memory is that of a process of its own.
        answer = runner.run(arguments(case, path), env, folder, alone="env" in case or "rss" in case)
        found = list(judge.complaints(case, answer.status, answer.output))
        # gj reads objects itself, and need not find the same wrong with a damaged one as git does.
        free = case.get("differ") or (runner.language == GJ and "either" in case)
        if first and not free and answer.output != first.output:
            found.append(f"another verdict than {runners[0].language}: {_difference(first.output, answer.output)}")
        if found and runner.language == GJ and _is_allowed(case, path, answer):
            found = []
        if marker.exists():
            found.append("it has run something: the marker is there")
            marker.unlink()
        elif layout.listing(inside) != before:
            found.append("it has changed something")
        if answer.rss > case.get("rss", 1 << 30):
            found.append(f"it took {answer.rss} MB, more than {case['rss']}")
        if found and answer.errors:
            found.append(f"on standard error: {answer.errors.decode(errors='replace')[-600:]}")
        first = first or answer
        wrong[runner.language] = found
    return wrong


def _is_allowed(case: Mapping[str, Any], path: Path, answer: Answer) -> bool:
    """Whether a rule says that gj may answer so."""
    # The library, of which nothing else here knows, must be there for gj only.
    from vectors.make import gj_rules

    return answer.status in gj_rules.allowed(case, arguments(case, path), path)


def _difference(one: bytes, two: bytes) -> str:
    at = next((n for n, (a, b) in enumerate(zip(one, two, strict=False)) if a != b), min(len(one), len(two)))
    return f"byte {at}: {one[max(at - 60, 0) : at + 60]!r} / {two[max(at - 60, 0) : at + 60]!r}"


def built(languages: Sequence[str], folder: Path) -> Iterator[Runner]:
    """The verifiers, built. SystemExit when one cannot be."""
    folder.mkdir(parents=True, exist_ok=True)
    for language in languages:
        try:
            yield Runner(language, build(language, folder))
        except Missing as error:
            sys.exit(f"{language}: {error}")


def read_cases(patterns: Sequence[str]) -> list[dict[str, Any]]:
    """The cases whose names match one of the patterns; all without patterns."""
    cases = json.loads((VECTORS / "index.json").read_bytes())["cases"]
    return [case for case in cases if not patterns or any(fnmatchcase(case["name"], pattern) for pattern in patterns)]


def run_all(
    cases: Sequence[Mapping[str, Any]], runners: Sequence[Runner], work: Path, jobs: int, keep: bool
) -> dict[str, dict[str, list[str]]]:
    """Run all cases; what is wrong, by name of the case."""

    def one(number: int) -> tuple[str, dict[str, list[str]]]:
        folder = work / f"{number:04d}"
        try:
            return cases[number]["name"], run_case(cases[number], runners, folder)
        finally:
            if not keep:
                shutil.rmtree(folder, ignore_errors=True)

    with ThreadPoolExecutor(jobs) as pool:
        return dict(pool.map(one, range(len(cases))))


def report(wrong: Mapping[str, Mapping[str, list[str]]], runners: Sequence[Runner]) -> int:
    """Print the table and the first differences; how many cases failed."""
    failed = [name for name, by in wrong.items() if any(by.values())]
    for name in failed[:SHOWN]:
        print(f"\n{name}")
        for language, found in wrong[name].items():
            for text in found:
                print(f"  {language}: {text}")
    if len(failed) > SHOWN:
        print(f"\n... and {len(failed) - SHOWN} more: {' '.join(failed[SHOWN:60])}")
    print(f"\n{'verifier':10} {'right':>6} {'wrong':>6} {'seconds':>8}")
    for runner in runners:
        bad = sum(bool(by[runner.language]) for by in wrong.values())
        print(f"{runner.language:10} {len(wrong) - bad:6} {bad:6} {runner.seconds:8.1f}")
    return len(failed)


def main(arguments_: Sequence[str] | None = None) -> int:
    """The exit status: 0 if all verifiers are right in all cases."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join(ALL), help="languages, separated by commas")
    parser.add_argument("--case", action="append", default=[], help="names of cases, with * and ?")
    parser.add_argument("--built", type=Path, help="folder for what is built; kept")
    parser.add_argument("--keep", type=Path, help="folder in which the laid out cases and the answers stay")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args(arguments_)
    languages = options.only.split(",")
    if not set(languages) <= set(ALL):
        parser.error(f"languages are {', '.join(ALL)}")
    cases = read_cases(options.case)
    with tempfile.TemporaryDirectory(prefix="vectors-") as temporary:
        runners = list(built(languages, options.built or Path(temporary) / "built"))
        wrong = run_all(cases, runners, options.keep or Path(temporary) / "cases", options.jobs, bool(options.keep))
        return int(report(wrong, runners) > 0 or not wrong)


if __name__ == "__main__":
    sys.exit(main())
