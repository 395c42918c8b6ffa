"""Measure everybody who verifies, on one repository in one run: `gj verify`, five verifiers, and `git fsck`.

    python bench/verify.py --events 50000 --rounds 5 --write docs/benchmarks.md

Each contender is a whole process, from its start to its verdict; they take turns, and the figures are medians. Also:
what a signature costs, and a proof for one event of a million.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
# The checkout that this file belongs to is what is measured, whatever is installed.
sys.path[:0] = [str(ROOT), str(ROOT / "verifiers")]

import data  # noqa: E402
from vectors.make.runners import LANGUAGES, build  # noqa: E402

import gitjournal  # noqa: E402
from gitjournal import keys, merkle, proof, seal, sshsig  # noqa: E402
from gitjournal.event import Event  # noqa: E402
from gitjournal.refs import Name  # noqa: E402

MILLION = 1_000_000
BEGIN, END = "<!-- verify -->", "<!-- /verify -->"


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=50_000, help="events of the repository")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--built", type=Path, help="folder for what is compiled; a temporary one by default")
    parser.add_argument("--write", type=Path, metavar="FILE", help="put the table between the markers of a page")
    return parser.parse_args()


def repository(folder: Path, events: int) -> Path:
    """A journal with one session."""
    journal = gitjournal.init(folder / "journal")
    drafts = data.drafts(events)
    with journal.session("s", create=True) as session:
        session.append_many(drafts)
    return journal.path


def timed(command: Sequence[str], env: dict[str, str]) -> tuple[float, float]:
    """(wall, processor) seconds of a process and its children; it must say that all is well."""
    before, begin = os.times(), time.perf_counter()
    done = subprocess.run(command, env=env, capture_output=True, check=False)
    wall, after = time.perf_counter() - begin, os.times()
    if done.returncode:
        raise SystemExit(f"{command[0]}: exit status {done.returncode}: {done.stderr.decode()[-500:]}")
    spent = after.children_user + after.children_system - before.children_user - before.children_system
    return wall, spent


def races(path: Path, events: int, rounds: int, built: Path) -> list[str]:
    """Rows: contender, events/s, the ratio to git fsck, processor time an event."""
    env = {**os.environ, "XDG_STATE_HOME": str(built / "state"), "PYTHONPATH": str(ROOT)}
    contenders: dict[str, list[str]] = {"git fsck --full": ["git", "-C", str(path), "fsck", "--full", "--strict"]}
    contenders["gj verify"] = [sys.executable, "-m", "gitjournal", "-J", str(path), "verify", "s"]
    for language in LANGUAGES:
        # The runners' flag for thousands of short runs of Java would halve the speed of a long one.
        command = [one for one in build(language, built) if "TieredStop" not in one]
        contenders[f"verifier in {language}"] = [*command, str(path), "s"]
    spent: dict[str, list[tuple[float, float]]] = {name: [] for name in contenders}
    order = list(contenders)
    for number in range(rounds):
        for name in order[number % len(order) :] + order[: number % len(order)]:
            spent[name].append(timed(contenders[name], env))
    walls = {name: statistics.median(wall for wall, _ in runs) for name, runs in spent.items()}
    rows = []
    for name, runs in spent.items():
        cpu = statistics.median(one for _, one in runs) / events * 1e6
        ratio = walls["git fsck --full"] / walls[name]
        rows.append(f"| {name} | {events / walls[name]:,.0f} | {ratio:.2f} | {cpu:.0f} us |")
    return rows


def median_us(work: Callable[[], Any], times: int = 400) -> float:
    """Median microseconds of a call."""
    runs = []
    for _ in range(times):
        begin = time.perf_counter_ns()
        work()
        runs.append(time.perf_counter_ns() - begin)
    return statistics.median(runs) / 1000


def signatures(folder: Path) -> list[str]:
    """Rows: making and checking a signature and a proof."""
    signer = keys.generate(folder / "key")
    message = b"x" * 200
    armour = signer.sign(message, "git")
    rows = [
        f"| make an Ed25519 signature | {median_us(lambda: signer.sign(message, 'git')):.0f} us |",
        f"| check one | {median_us(lambda: sshsig.check(armour, message, 'git')):.0f} us |",
    ]
    raw = million(signer)
    if not proof.check(raw).ok:
        raise SystemExit("the proof is wrong")
    checked, own = median_us(lambda: proof.check(raw)), len(raw) - len(_member(raw, "event"))
    return [
        *rows,
        f"| check a proof of one event of {MILLION:,}, its signature included | {checked:.0f} us |",
        f"| size of that proof, without the text of the event; and whole | {own:,}; {len(raw):,} bytes |",
    ]


def _member(raw: bytes, name: str) -> str:
    return str(json.loads(raw)[name])


def million(signer: keys.Signer) -> bytes:
    """A proof of the middle one of a million events: their hashes are made up, the event and the seal are real."""
    seq = MILLION // 2
    members = {
        "actor": "user", "data": {"role": "user", "parts": [{"type": "text", "content": "hello"}]}, "epoch": 1,
        "prev": "0" * 64, "salt": "AAECAwQFBgcICQoLDA0ODw", "seq": seq, "session": "s",
        "ts": "2026-01-02T03:04:05.678Z", "type": "message", "v": 1,
    }  # fmt: skip
    event = Event.build(members)
    hashes = bytearray(os.urandom(32 * MILLION))
    hashes[32 * seq - 32 : 32 * seq] = bytes.fromhex(event.hash)
    root = merkle.root(hashes)
    text = seal.checkpoint(Name("s"), MILLION, root).encode()
    signed = [{"key": signer.fingerprint, "sshsig": signer.sign(text, seal.NAMESPACE)}]
    statement = seal.statement(Name("s"), MILLION, root, signed)
    sealed = Event.build({**members, "actor": "host", "data": statement, "seq": MILLION + 1, "type": "session.seal"})
    return proof.inclusion_of(event, sealed, hashes)


def main() -> None:
    """Measure, print, write."""
    given = arguments()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        built = given.built or folder / "built"
        built.mkdir(parents=True, exist_ok=True)
        path = repository(folder, given.events)
        load = os.getloadavg()[0]
        table = [
            f"{given.events:,} events of about 1 KB, {given.rounds} rounds, load at the start {load:.1f}.",
            "",
            "| who | events/s | speed beside git fsck | processor time an event, children included |",
            "|---|---|---|---|",
            *races(path, given.events, given.rounds, built),
            "",
            "| what | costs |",
            "|---|---|",
            *signatures(folder),
        ]
    text = "\n".join(table)
    print(text)
    if given.write:
        page = given.write.read_text(encoding="utf-8")
        head, rest = page.split(BEGIN)
        given.write.write_text(f"{head}{BEGIN}\n{text}\n{END}{rest.split(END)[1]}", encoding="utf-8")


if __name__ == "__main__":
    main()
