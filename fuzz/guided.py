"""Runs the targets of `targets.py` under atheris, one after the other, each in a process of its own.

    guided.py [--minutes M | --runs N] [--seed N] [--corpus FOLDER] [TARGET...]

The target `all` is all of them in one process, which is a short way to try each. The minutes are those of all targets
together. What ends a target is printed; the input is in the corpus folder, as `TARGET/wrong-...`. Move it to
`found/TARGET/`, and it is tried in every test run.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from hashlib import sha1
from pathlib import Path

ALL = "all"
HERE = Path(__file__).resolve().parent
_LARGEST = 20_000
_FEWER = 7


def one(name: str, arguments: list[str]) -> None:
    """Be libFuzzer with one target, or with all. Never returns."""
    import atheris

    with atheris.instrument_imports(include=["gitjournal"]):
        from targets import TARGETS
    listed = list(TARGETS.values())

    def all_of_them(raw: bytes) -> None:
        listed[raw[0] % len(listed) if raw else 0](raw[1:])

    atheris.Setup([sys.argv[0], *arguments], TARGETS.get(name, all_of_them))
    atheris.Fuzz()


def beginnings(name: str) -> Iterable[bytes]:
    """The seeds of a target. Those of all have the place of their target in front, and are fewer."""
    from seeds import seeds
    from targets import TARGETS

    if name != ALL:
        return seeds(name)
    return (bytes([place]) + raw for place, one in enumerate(TARGETS) for raw in seeds(one)[::_FEWER])


def run(name: str, options: argparse.Namespace, seconds: float, corpus: Path) -> bool:
    """Run one target in another process; False when something was wrong."""
    corpus.mkdir(parents=True, exist_ok=True)
    for raw in beginnings(name):
        (corpus / sha1(raw).hexdigest()).write_bytes(raw)
    limit = [f"-runs={options.runs}"] if options.runs else [f"-max_total_time={max(round(seconds), 1)}"]
    arguments = [*limit, f"-seed={options.seed}", f"-max_len={_LARGEST}", "-timeout=20", "-rss_limit_mb=2048"]
    command = [sys.executable, __file__, "--one", name, *arguments, f"-artifact_prefix={corpus}/wrong-", str(corpus)]
    ended = subprocess.run(command, cwd=HERE, capture_output=True, text=True, errors="replace", check=False)
    last = [line for line in ended.stderr.splitlines() if line.startswith(("Done", "#"))][-1:]
    print(f"{name:16} {'right' if ended.returncode == 0 else 'WRONG'}  {last[0] if last else ''}", flush=True)
    if ended.returncode:
        print(ended.stdout[-3000:], ended.stderr[-6000:], sep="\n", flush=True)
    return ended.returncode == 0


def main() -> int:
    """The exit status: 0 if nothing was wrong."""
    if sys.argv[1:2] == ["--one"]:
        one(sys.argv[2], sys.argv[3:])
    from targets import TARGETS

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=1)
    parser.add_argument("--runs", type=int, help="as many inputs for each target, however long it takes")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--corpus", type=Path, help="folder for inputs; kept")
    parser.add_argument("targets", nargs="*", default=list(TARGETS), metavar="TARGET", help=", ".join(TARGETS))
    options = parser.parse_args()
    if unknown := set(options.targets) - TARGETS.keys() - {ALL}:
        parser.error(f"no target: {', '.join(sorted(unknown))}")
    with tempfile.TemporaryDirectory(prefix="corpus-") as temporary:
        folder = options.corpus or Path(temporary)
        seconds = 60 * options.minutes / len(options.targets)
        right = [run(name, options, seconds, folder / name) for name in options.targets]
    return int(not all(right))


if __name__ == "__main__":
    sys.exit(main())
