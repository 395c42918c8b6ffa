"""Gives changed inputs to the verifiers of all languages: all must print the same bytes, and none may break down.

    fuzz.py [--seed N] [--minutes M | --count N] [--from N] [--only LANGUAGE,...] [--built FOLDER] [--keep FOLDER]

The inputs are those of `inputs.py`; the n-th one depends on the seed and n alone. The library says of each event and
proof what it thinks as well, and `gj` of some of the rest: not of damaged repositories, where it may blame another
object, and not where another rule of docs/verification.md section 12 lets it say something else. What somebody
disagrees about is made smaller and put into the folder `--keep`.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path

from inputs import VECTORS, Input, Seeds, inputs
from run import built
from vectors.make import gj_rules
from vectors.make.runners import GJ, LANGUAGES, Answer, Runner, environment

from gitjournal import proof
from gitjournal.errors import FormatError
from gitjournal.event import Event

_STATUSES = range(5)
# What a program prints that breaks down; Go's exit status for that is the one for wrong usage.
_BROKEN = (b"panic", b"goroutine", b"Traceback", b"RangeError", b"TypeError", b"Exception in thread", b"fatal error")
_MORE = b"what comes after 1000 findings in a line"
# gj looks at one in so many inputs.
_SAMPLE = 5
_TRIES = 400
_SHOWN = 20


class Judge:
    """Gives inputs to all verifiers."""

    def __init__(self, runners: Sequence[Runner], folder: Path) -> None:
        self.runners = runners
        self.scratch = folder
        self.place = folder / "input"
        self.env = environment()
        self.statuses: Counter[str] = Counter()
        self.number = 0

    def answers(self, one: Input) -> dict[str, Answer]:
        """What each verifier says that is asked."""
        shutil.rmtree(self.place, ignore_errors=True)
        lay_out(one.files, self.place)
        arguments = [argument.replace("{}", str(self.place)) for argument in one.arguments]
        with_gj = self.number % _SAMPLE == 0 and not one.damaged and one.kind not in ("events", "proof")
        asked = [runner for runner in self.runners if runner.language != GJ or with_gj]
        answers = {runner.language: runner.run(arguments, self.env, self.scratch) for runner in asked}
        if GJ in answers and len(answers) > 1:
            case = {"exit": next(iter(answers.values())).status}
            if answers[GJ].status in gj_rules.allowed(case, arguments, self.place / "r.git"):
                del answers[GJ]
        return answers

    def complaints(self, one: Input) -> list[str]:
        """What is wrong; nothing if all agree."""
        answers = self.answers(one)
        first = next(iter(answers.values()))
        self.statuses[f"{one.kind}, exit {first.status}"] += 1
        out = [
            f"{name} broke down: {what.status} {what.errors[-1500:]!r}" for name, what in answers.items() if broke(what)
        ]
        full = _MORE in first.output  # then the findings need not be the same
        said: dict[tuple[int, bytes], list[str]] = {}
        for name, what in answers.items():
            said.setdefault((what.status, b"" if full else what.output), []).append(name)
        if len(said) > 1:
            out += [f"{' '.join(names)}: exit {status}, {output.decode()}" for (status, output), names in said.items()]
        return out or list(library(one, first))


def lay_out(files: Mapping[str, bytes], place: Path) -> None:
    """Write the files; a repository has its two folders even if nothing is in them."""
    place.mkdir()
    for name in files:
        if name.startswith("r.git/"):
            for folder in ("objects", "refs"):
                (place / "r.git" / folder).mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_bytes(content)


def broke(answer: Answer) -> bool:
    """Whether the verifier ended otherwise than it should."""
    return answer.status not in _STATUSES or any(word in answer.errors for word in _BROKEN)


def library(one: Input, answer: Answer) -> Iterator[str]:
    """Where `gitjournal` and a verdict differ: on the code of each single event, or of a proof."""
    if answer.status not in (0, 1, 3):
        return
    line = json.loads(answer.output)["lines"][0]
    if one.kind == "proof" and len(one.arguments) == 1:
        mine = sorted((found.code, found.seq) for found in proof.check(one.files["input.json"]).findings)
        theirs = sorted((found["code"], found["seq"]) for found in line["findings"])
        if mine != theirs:
            yield f"library: {mine}, and not {theirs}"
    if one.kind == "events" and len(line["findings"]) < 1000:
        for seq, raw in enumerate(one.files["input.jsonl"].split(b"\n")[:-1], 1):
            theirs = [found["code"] for found in line["findings"] if found["seq"] == seq]
            code = refusal(raw)
            if code and theirs != [code]:
                yield f"library: {code} at {seq}, and not {theirs}"


def refusal(raw: bytes) -> str:
    """The code with which the library refuses an event; empty if it takes it."""
    try:
        Event.parse(raw)
    except FormatError as error:
        return error.code
    return ""


def smaller(one: Input) -> Iterator[Input]:
    """The input with something left out: a file, then lines, then bytes; big parts first."""
    for name in one.files:
        yield replace(one, files={other: content for other, content in one.files.items() if other != name})
    for name, content in one.files.items():
        for separator in () if "/objects/" in name else (b"\n", b""):
            parts = content.split(b"\n") if separator else [content[at : at + 1] for at in range(len(content))]
            size = len(parts) // 2
            while size:
                for at in range(0, len(parts), size):
                    yield replace(one, files={**one.files, name: separator.join(parts[:at] + parts[at + size :])})
                size //= 2


def who(complaints: Sequence[str]) -> list[str]:
    """Who says what, without the words of it."""
    return [text.partition(",")[0] for text in complaints]


def minimised(one: Input, judge: Judge) -> Input:
    """The input as small as some hundred tries make it, with the same verifiers against each other."""
    tries, wanted = _TRIES, who(judge.complaints(one))
    while tries > 0:
        for candidate in smaller(one):
            tries -= 1
            if tries < 0 or who(judge.complaints(candidate)) == wanted:
                break
        else:
            return one
        one = candidate if tries >= 0 else one
    return one


def keep(one: Input, text: str, folder: Path) -> None:
    """Write an input, its arguments and what was said of it."""
    folder.mkdir(parents=True)
    lay_out(one.files, folder / "input")
    (folder / "arguments.json").write_text(json.dumps(one.arguments))
    (folder / "said.txt").write_text(text)


def run(options: argparse.Namespace, judge: Judge) -> int:
    """Try inputs until the time is over; how many were disagreed about."""
    end = time.monotonic() + 60 * options.minutes
    number, found = options.begin, 0
    for number, one in enumerate(islice(inputs(options.seed, Seeds(VECTORS)), options.begin - 1, None), options.begin):
        if number - options.begin >= options.count or time.monotonic() > end or found >= _SHOWN:
            break
        judge.number = number
        complaints = judge.complaints(one)
        if complaints:
            found += 1
            small = minimised(one, judge)
            text = "\n".join(judge.complaints(small) or complaints)
            print(f"seed {options.seed}, input {number} ({one.kind}):\n{text}\n", flush=True)
            if options.keep:
                keep(small, text, options.keep / f"{options.seed}-{number}")
    print(f"{number - options.begin} inputs, {found} of them disagreed about or too much for somebody")
    return found


def main() -> int:
    """The exit status: 0 if all agreed about everything."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=1)
    parser.add_argument("--count", type=int, default=1 << 40, help="try this many inputs at most")
    parser.add_argument("--from", dest="begin", type=int, default=1, help="begin with the N-th input")
    parser.add_argument("--only", default=",".join((*LANGUAGES, GJ)), help="languages, and gj, separated by commas")
    parser.add_argument("--built", type=Path, help="folder for what is built; kept")
    parser.add_argument("--keep", type=Path, help="folder for inputs that were disagreed about")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="fuzz-") as temporary:
        folder = Path(temporary)
        runners = list(built(options.only.split(","), options.built or folder / "built"))
        judge = Judge(runners, folder)
        found = run(options, judge)
    for what, times in sorted(judge.statuses.items()):
        print(f"{times:8} {what}")
    print("   ".join(f"{runner.language} {runner.seconds:.1f} s" for runner in runners))
    return int(found > 0)


if __name__ == "__main__":
    sys.exit(main())
