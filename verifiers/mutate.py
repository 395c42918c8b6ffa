"""Changes every byte of a small journal, one at a time: each verifier must see it, and all must say the same.

    mutate.py [--only LANGUAGE,...] [--every LANGUAGE=N,...] [--masks N] [--built FOLDER] [--jobs N]

The journal has two branches, a side file, a withheld event, a signed seal and a signed commit; it is laid out as loose
objects and refs. Mutants are

- `in place`: a byte of an object or ref is another one, the id stays;
- `rehashed`: the object gets the id of its new content, and all that names it is made to follow, up to the refs: what
  a forger does;
- `dropped` and `exchanged`: an object is not there, or has the content of another one.

The library (`gitjournal.verify`) must see each change as well. Node and Java start slowly, so they look at a sample;
`--every js=1,java=1` makes them look at all. The seconds are those of all threads.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import threading
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from changes import following
from run import built
from vectors.make import judge
from vectors.make.cases_git import MAIN
from vectors.make.cases_seals import ALICE, signed, statement
from vectors.make.disk import read_repo, write_repo
from vectors.make.gitkit import Lies, Repo
from vectors.make.kit import Line
from vectors.make.runners import LANGUAGES, Answer, Runner, environment

import gitjournal
from gitjournal.errors import JournalError
from gitjournal.signers import AllowedSigners
from gitjournal.verify import Checks, verify_session

MASKS = (0x01, 0x20, 0x80, 0x04)
EVERY = {"python": 1, "go": 1, "rust": 1, "js": 16, "java": 16}
TRY = "refs/heads/s/try"
SHOWN = 10


def journal() -> Repo:
    """The journal that is changed."""
    line = Line()
    line.add("message", {"t": {"$gj:file": 1}}, files=[b"side\n"])
    line.say("secret")
    branch = line.copy()
    line.add("session.seal", signed(statement(line), ALICE))
    branch.declare("try")
    repo = Repo()
    signs = Lies(sign={2: lambda text: ALICE.sign(text, "git")})
    for ref, one in ((MAIN, line), (TRY, branch)):
        one.events[2] = one[3].withhold()
        repo.write(one.events, ref, signs)
    return repo


@dataclass(frozen=True)
class Mutant:
    """One changed journal: files of the repository that are other ones, None for one that is not there."""

    name: str
    files: Mapping[str, bytes | None]


def loose(kind: str, data: bytes) -> bytes:
    """The content of a loose object's file."""
    return zlib.compress(b"%s %d\x00%s" % (kind.encode(), len(data), data), 1)


def path_of(name: str) -> str:
    """The file of a loose object."""
    return f"objects/{name[:2]}/{name[2:]}"


def flips(data: bytes, masks: int) -> Iterator[tuple[str, bytes]]:
    """The bytes with one of them changed; which masks a byte gets goes round."""
    for at in range(len(data)):
        for turn in range(masks):
            mask = MASKS[(at + turn) % len(MASKS)]
            yield f"byte {at} ^ {mask:#04x}", data[:at] + bytes([data[at] ^ mask]) + data[at + 1 :]


def rehashed(repo: Repo, name: str, data: bytes) -> dict[str, bytes | None]:
    """All objects and refs that follow from another content of one object."""
    new = following(repo.objects, name, data)
    files: dict[str, bytes | None] = {path_of(now): loose(kind, content) for now, kind, content in new.values()}
    files |= {ref: f"{new[target][0]}\n".encode() for ref, target in repo.refs.items() if target in new}
    return files


def mutants(repo: Repo, masks: int) -> Iterator[Mutant]:
    """All of them."""
    for name, (kind, data) in repo.objects.items():
        what = f"{kind} {name[:12]}"
        for where, changed in flips(data, masks):
            yield Mutant(f"in place: {what} {where}", {path_of(name): loose(kind, changed)})
            yield Mutant(f"rehashed: {what} {where}", rehashed(repo, name, changed))
        yield Mutant(f"dropped: {what}", {path_of(name): None})
    for ref, target in repo.refs.items():
        for where, changed in flips(f"{target}\n".encode(), masks):
            yield Mutant(f"in place: {ref} {where}", {ref: changed})
    for kind in ("blob", "tree", "commit"):
        names = [name for name, one in repo.objects.items() if one[0] == kind]
        for one, other in zip(names, [*names[1:], names[0]], strict=True):
            yield Mutant(
                f"exchanged: {kind} {one[:12]} has the content of {other[:12]}",
                {path_of(one): loose(*repo.objects[other])},
            )


class Place:
    """A folder with the journal, in which one thread puts one mutant after the other."""

    def __init__(self, repo: Repo, folder: Path) -> None:
        self.scratch = folder
        text = folder / "journal.repo.json"
        text.write_bytes(repo.as_json())
        self.path = write_repo(read_repo(text, folder), folder / "repo.git")
        self.signers = folder / "signers"
        self.signers.write_text(f"alice {ALICE.line}\n")

    def put(self, mutant: Mutant) -> dict[str, bytes | None]:
        """Change the files; what they held before."""
        before: dict[str, bytes | None] = {}
        for name, content in mutant.files.items():
            path = self.path / name
            before[name] = path.read_bytes() if path.exists() else None
            path.parent.mkdir(exist_ok=True)
            path.unlink(missing_ok=True)
            if content is not None:
                path.write_bytes(content)
        return before

    def library(self) -> str:
        """The verdict of the library: `ok`, `incomplete`, `broken`, or the error that it ends in."""
        try:
            opened = gitjournal.open(self.path)
            signers = AllowedSigners.parse(Path(self.signers).read_bytes())
            reports = verify_session(opened, "s", Checks(signers=signers))
        except JournalError as error:
            return type(error).__name__
        statuses = {report.exit_status for report in reports}
        return "ok" if len(reports) == 2 and statuses == {0} else "incomplete" if 1 not in statuses else "broken"


class Trial:
    """Tries mutants, in several threads."""

    def __init__(self, repo: Repo, runners: Sequence[Runner], every: Mapping[str, int], folder: Path) -> None:
        self.repo, self.runners, self.every, self.folder = repo, runners, every, folder
        self.tried: Counter[str] = Counter()
        self.env = environment()
        self._places = threading.local()
        self._lock = threading.Lock()
        self._made = 0

    def _place(self) -> Place:
        if not hasattr(self._places, "place"):
            with self._lock:
                self._made += 1
                folder = self.folder / str(self._made)
            folder.mkdir()
            self._places.place = Place(self.repo, folder)
        made: Place = self._places.place
        return made

    def _answers(self, place: Place, number: int) -> dict[str, Answer]:
        arguments = ["--allowed-signers", str(place.signers), str(place.path)]
        return {
            runner.language: runner.run(arguments, self.env, place.scratch)
            for runner in self.runners
            if number % self.every[runner.language] == 0
        }

    def good(self) -> list[str]:
        """What is wrong with the unchanged journal."""
        place = self._place()
        answers = self._answers(place, 0)
        wrong = [
            f"{name}: exit {one.status}: {one.output!r} {one.errors!r}" for name, one in answers.items() if one.status
        ]
        return wrong + ([] if place.library() == "ok" else [f"library: {place.library()}"])

    def one(self, numbered: tuple[int, Mutant]) -> list[str]:
        """What is wrong with what is said of one mutant."""
        number, mutant = numbered
        place = self._place()
        before = place.put(mutant)
        answers = self._answers(place, number)
        library = place.library()
        place.put(Mutant("as it was", before))
        # A forger who writes another kind of key into a signature has made one that nobody can check: incomplete.
        other_kind = mutant.name.startswith("rehashed: commit") and {one.status for one in answers.values()} == {3}
        wrong = ["library: ok"] if library == "ok" or (library == "incomplete" and not other_kind) else []
        for name, answer in answers.items():
            wanted = {"exit": 3 if other_kind else 1, "differ": True}
            wrong += [f"{name}: {text}" for text in judge.complaints(wanted, answer.status, answer.output)]
        outputs = {answer.output for answer in answers.values()}
        if len(outputs) > 1:
            wrong += [f"{name} says {answer.output!r}" for name, answer in answers.items()]
        with self._lock:
            self.tried.update([*answers, "library"])
        return [f"{mutant.name}\n    " + "\n    ".join(wrong)] if wrong else []


def _numbers(text: str) -> dict[str, int]:
    pairs = [pair.partition("=") for pair in text.split(",") if pair]
    return {name: int(number) for name, _, number in pairs}


def main() -> int:
    """The exit status: 0 if every change was seen by everybody."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join(LANGUAGES), help="languages, separated by commas")
    parser.add_argument("--every", default="", help="look at every N-th mutant only: LANGUAGE=N,...")
    parser.add_argument("--masks", type=int, default=1, choices=range(1, len(MASKS) + 1), help="changes of each byte")
    parser.add_argument("--built", type=Path, help="folder for what is built; kept")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--stride", type=int, default=1, help="try only every N-th mutant of all")
    options = parser.parse_args()
    every = {**EVERY, **_numbers(options.every)}
    repo = journal()
    with tempfile.TemporaryDirectory(prefix="mutants-") as temporary:
        folder = Path(temporary)
        runners = list(built(options.only.split(","), options.built or folder / "built"))
        trial = Trial(repo, runners, every, folder)
        wrong = trial.good()
        todo = enumerate(islice(mutants(repo, options.masks), 0, None, options.stride))
        with ThreadPoolExecutor(options.jobs) as pool:
            wrong += [text for found in pool.map(trial.one, todo) for text in found]
    for text in wrong[:SHOWN]:
        print(text)
    print(f"{trial.tried['library']} mutants, {len(wrong)} of them not seen, or seen otherwise")
    for runner in runners:
        name = runner.language
        print(f"{name:8} {trial.tried[name]:6} (every {every[name]}) {runner.seconds:8.1f} s")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
