"""Measure gitjournal beside the plain ways to do the same, on the same data, in one run; print one table.

    python bench/compare.py --scale small
    python bench/compare.py --scale full --json run.json --write docs/benchmarks.md

What each figure means and why the comparison is fair: docs/benchmarks.md.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# The checkout that this file belongs to is what is measured, whatever is installed.
sys.path[:0] = [str(ROOT)]

import report  # noqa: E402
from harness import SCALES, Bench, Scale  # noqa: E402
from measures import MEASURES  # noqa: E402
from report import Row  # noqa: E402


def arguments(argv: list[str] | None = None) -> argparse.Namespace:
    """The command line; exits with status 2 when it makes no sense."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", choices=list(SCALES), default="small", help="small is a smoke test; default small")
    parser.add_argument("--only", action="append", choices=list(MEASURES), help="one measure; may be repeated")
    parser.add_argument("--dir", type=Path, default=Path(tempfile.gettempdir()), help="whose disk to measure")
    parser.add_argument("--events", type=int, metavar="N", help="events of the long session, instead of the scale's")
    parser.add_argument("--ingest", type=int, metavar="N", help="events of the ingest, size and verify measures")
    parser.add_argument("--session-mb", type=int, metavar="N", help="size of the transcript")
    parser.add_argument(
        "--transcripts", type=Path, metavar="FOLDER", help="real sessions (*.jsonl) for the size measure"
    )
    parser.add_argument("--rounds", type=int, metavar="N", help="rounds of the measures that take long")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every round as JSON")
    parser.add_argument("--write", type=Path, metavar="FILE", help="put table and machine into a Markdown file")
    options = parser.parse_args(argv)
    if options.write and options.only:
        parser.error("--write needs all measures: figures of different runs do not belong in one table")
    for folder in (options.dir, options.transcripts):
        if folder is not None and not folder.is_dir():
            parser.error(f"{folder} is no folder")
    if min(options.events or 2, options.ingest or 2, options.session_mb or 2, options.rounds or 2) < 1:
        parser.error("sizes are 1 or more")
    return options


def chosen(options: argparse.Namespace) -> Scale:
    """The scale with what the command line changes in it."""
    named = {name: getattr(options, name) for name in ("events", "ingest", "session_mb", "rounds")}
    return SCALES[options.scale]._replace(**{name: value for name, value in named.items() if value})


def run(options: argparse.Namespace, folder: Path) -> list[Row]:
    """All rows. A measure that fails gives a row that says so, and the others go on."""
    began = time.monotonic()

    def say(text: str) -> None:
        print(f"[{time.monotonic() - began:6.0f} s] {text}", file=sys.stderr)

    bench = Bench(folder, chosen(options), say, options.transcripts)
    rows: list[Row] = []
    for name in MEASURES:
        if options.only and name not in options.only:
            continue
        say(name)
        try:
            rows += MEASURES[name](bench)
        except Exception as error:  # whatever breaks one measure
            say(f"{name}: {type(error).__name__}: {error}")
            rows.append(report.failed(name, error))
    return rows


def described(options: argparse.Namespace) -> str:
    """The scale in words."""
    scale = chosen(options)
    return (
        f"{options.scale}: {scale.events:,} events, {scale.ingest:,} in ingest, size and verify, "
        f"transcript of {scale.session_mb:,} MB, {scale.rounds} rounds, {scale.blocks * scale.block:,} single appends"
    )


def main() -> int:
    """Exit status 1 when a measure could not be made; a missed target is only in the table."""
    options = arguments()
    facts = report.machine(options.dir)
    with tempfile.TemporaryDirectory(prefix="gj-bench-", dir=options.dir) as folder:
        rows = run(options, Path(folder))
    facts["load at the end"] = report.load()
    scale = described(options)
    for name, value in {**facts, "scale": scale}.items():
        print(f"{name}: {value}")
    print(f"\n{report.table(rows)}\n\nratio: how many times better than the peer; below 1x it is worse")
    if options.json:
        options.json.write_text(report.as_json(facts, scale, rows), encoding="utf-8")
    if options.write:
        report.write(options.write, facts, scale, rows)
    return 1 if any(row.value is None for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
