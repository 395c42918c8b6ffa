"""Whether an answer is what a case asks for, and a verdict at all (docs/verification.md sections 2, 3 and 10)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from .kit import canon
from .suite import WORDS

#: Section 11.
TEXTS = {
    "bad-commit": "a commit is not in its form, or says something else than its event",
    "bad-epoch": "epoch is below 1, or falls",
    "bad-file": "a side file is not what the event says, or their number differs",
    "bad-fork": "a start, branch or fork does not stand or come from where it says",
    "bad-hash": "a commit names another event hash than its event has",
    "bad-json": "the bytes are not JSON, or break a rule that all JSON here keeps",
    "bad-member": "a member is missing, unknown, too big or breaks its rule",
    "bad-object": "an object cannot be read, or its content does not have its id",
    "bad-seal": "a seal or proof does not agree with the events",
    "bad-seq": "seq is out of range, or not one more than the event before",
    "bad-session": "session changes without a fork",
    "bad-signature": "a signature is wrong, of another namespace or key, or missing",
    "bad-tree": "a tree is malformed, or a commit is not the one that the events derive",
    "bad-version": "the version is not 1",
    "broken-link": "prev is not the hash of the event before",
    "equivocation": "two lines of a session go apart and neither says so",
    "missing-object": "an object that must be there is not",
    "not-canonical": "JSON, but not in canonical form",
    "rollback": "another event stands where the expected head was",
    "truncated": "the line ends before the expected head, or in the middle of an event",
    "unknown-signer": "a right signature of a key that the allowed signers do not accept",
    "wrong-ref": "the ref is not one of this line, or holds no commit id",
}
#: Section 10, in its order; whether the text makes a verdict incomplete.
UNCHECKED = (
    ("events that are not yet in git: the tail of a live journal", False),
    ("commits, trees and refs: an export has none", False),
    ("all other events: a proof shows what it names", False),
    ("whether newer events were cut off: no head was expected", False),
    ("who wrote the events: nothing is signed", False),
    ("whose keys signed: no allowed signers were given", True),
    ("signatures of a kind that is not checked here: N", True),
    ("when it was signed: an accepted key has an end, and the time is the signer's word", False),
    ("events after the last accepted signature", False),
    ("the payloads of withheld events: N", False),
    ("commits that a shallow history leaves out: N", True),
    ("refs that are no line of a journal: N", False),
    ("what comes after 1000 findings in a line", True),
)
_ORDER = [text for text, _ in UNCHECKED]
_LINE = {"findings", "head", "name", "seals", "side_files", "signatures", "signed_to", "signers", "withheld"}


def complaints(case: Mapping[str, Any], status: int, output: bytes) -> Iterator[str]:
    """What is wrong with an answer; nothing if it is the right one."""
    if status != case["exit"]:
        yield f"exit status {status}, not {case['exit']}"
    if status not in WORDS:
        if output:
            yield f"a verdict with exit status {status}: {output[:200]!r}"
        return
    try:
        verdict = json.loads(output)
        if canon(verdict) + b"\n" != output:
            yield "the verdict is not canonical JSON and a newline"
        yield from _form(verdict, status)
        if case["exit"] in WORDS:
            yield from _findings(case, verdict)
            yield from _missing(case.get("verdict", {}), verdict, "")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        yield f"no verdict ({type(error).__name__}: {error}): {output[:200]!r}"


def _form(verdict: Mapping[str, Any], status: int) -> Iterator[str]:
    if verdict.keys() != {"input", "lines", "unchecked", "verdict", "version"} or verdict["version"] != 1:
        yield f"the members of the verdict: {sorted(verdict)}"
    if verdict["verdict"] != WORDS[status]:
        yield f"verdict {verdict['verdict']} with exit status {status}"
    names = [line["name"] or "" for line in verdict["lines"]]
    if not names or names != sorted(names, key=lambda name: name.encode()) or len(set(names)) < len(names):
        yield f"the order of the lines: {names}"
    if (verdict["input"] == "git") != all(names):
        yield f"names of lines with input {verdict['input']}: {names}"
    for line in verdict["lines"]:
        yield from _line(line)
    places = [_ORDER.index(re.sub(r": \d+$", ": N", text)) for text in verdict["unchecked"]]
    if places != sorted(set(places)):
        yield f"the order of what was not checked: {verdict['unchecked']}"
    broken = any(line["findings"] for line in verdict["lines"])
    word = "broken" if broken else "incomplete" if any(UNCHECKED[place][1] for place in places) else "ok"
    if verdict["verdict"] != word:
        yield f"verdict {verdict['verdict']} does not follow from its own text"


def _line(line: Mapping[str, Any]) -> Iterator[str]:
    if line.keys() != _LINE or line["head"].keys() != {"commit", "hash", "seq"}:
        yield f"the members of a line: {sorted(line)}"
    keys = []
    for one in line["findings"]:
        if one.keys() != {"code", "id", "seq", "text"} or one["text"] != TEXTS[one["code"]]:
            yield f"a finding in another form: {one}"
        keys.append((one["seq"] is not None, one["seq"] or 0, one["code"], one["id"]))
    if keys != sorted(set(keys)):
        yield f"the order of findings, or one twice: {keys}"
    signers = [one["key"] for one in line["signers"]]
    if signers != sorted(set(signers)) or sum(one["signatures"] for one in line["signers"]) != line["signatures"]:
        yield f"signers: {line['signers']}"
    ranges = line["withheld"]
    if any(a > b for a, b in ranges) or any(a[1] + 1 >= b[0] for a, b in pairwise(ranges)):
        yield f"withheld: {ranges}"


def _findings(case: Mapping[str, Any], verdict: Mapping[str, Any]) -> Iterator[str]:
    if case.get("differ"):
        return
    found = [[one["code"], one["seq"], one["id"]] for line in verdict["lines"] for one in line["findings"]]
    wanted = [[*pair, None] for pair in case["findings"]]
    for one, ident in zip(wanted, case.get("ids", ()), strict=False):
        one[2] = ident
    either: Sequence[str] = case.get("either", ())
    if len(found) != len(wanted) or not all(_fits(one, two, either) for one, two in zip(wanted, found, strict=False)):
        yield f"findings {found}, not {wanted}"


def _fits(wanted: Sequence[Any], found: Sequence[Any], either: Sequence[str]) -> bool:
    """``either`` are codes of which git's version decides."""
    codes = either if wanted[0] in either else (wanted[0],)
    return found[0] in codes and found[1] == wanted[1] and wanted[2] in (None, found[2])


def _missing(wanted: Any, found: Any, path: str) -> Iterator[str]:
    """What a verdict does not have of what it must have; a text `*` is any."""
    if isinstance(wanted, Mapping):
        for name, value in wanted.items():
            if not isinstance(found, Mapping) or name not in found:
                yield f"{path}/{name} is missing"
            else:
                yield from _missing(value, found[name], f"{path}/{name}")
    elif isinstance(wanted, list) and isinstance(found, list) and len(wanted) == len(found):
        for number, (one, two) in enumerate(zip(wanted, found, strict=True)):
            yield from _missing(one, two, f"{path}/{number}")
    elif wanted not in ("*", found):
        yield f"{path} is {found!r}, not {wanted!r}"
