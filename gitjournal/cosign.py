"""Cosignatures: a witness says that it has seen a checkpoint, and that it goes on from those before.

Floor 1. To whoever believes the witness they are pins that he need not have kept himself: a branch that has lost or
changed what was cosigned is found out (docs/verification.md section 13). The text is that of C2SP cosignature/v1.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from gitjournal import canonical, refs, rules, seal, sshsig
from gitjournal.errors import FormatError, UsageError
from gitjournal.files import read_given
from gitjournal.refs import Name
from gitjournal.seal import Seals
from gitjournal.signers import Accepted
from gitjournal.sshsig import NotChecked
from gitjournal.verdict import Signer

if TYPE_CHECKING:
    from gitjournal import keys
    from gitjournal.line import Line
    from gitjournal.signers import AllowedSigners
    from gitjournal.verdict import Report

#: SSHSIG namespace of cosignatures: a signature of a log can never pass for one of a witness.
NAMESPACE = "gitjournal-witness"

_CHECKPOINT = re.compile(r"gitjournal/([^\n]+)\n([1-9][0-9]{0,7})\n([A-Za-z0-9+/]{43}=)\n")
_KEY = re.compile(r"SHA256:[A-Za-z0-9+/]{43}")
_MEMBERS = {"checkpoint", "key", "time", "sshsig"}


class Checkpoint(NamedTuple):
    """The first ``size`` events of a branch have this Merkle tree hash."""

    name: Name
    size: int
    root: bytes

    @property
    def text(self) -> str:
        """The three lines that are signed."""
        return seal.checkpoint(*self)


class Cosignature(NamedTuple):
    """A witness says, at a time of its own clock, that it has seen a checkpoint. Not yet known to be right."""

    checkpoint: Checkpoint
    key: str
    time: int
    sshsig: str

    @property
    def line(self) -> bytes:
        """The cosignature as canonical JSON with a newline."""
        return canonical.dumps({**self._asdict(), "checkpoint": self.checkpoint.text}) + b"\n"

    @property
    def message(self) -> bytes:
        """What the witness signs."""
        return _message(self.checkpoint, self.time)


def make(checkpoint: Checkpoint, signer: keys.Signer, time: int) -> Cosignature:
    """Sign a checkpoint as a witness. Whether it may be signed is the caller's to know. The errors of the signer."""
    return Cosignature(checkpoint, signer.fingerprint, time, signer.sign(_message(checkpoint, time), NAMESPACE))


def _message(checkpoint: Checkpoint, time: int) -> bytes:
    return f"cosignature/v1\ntime {time}\n{checkpoint.text}".encode()


# --- reading -------------------------------------------------------------------------------------


def read(path: Path) -> list[Cosignature]:
    """The cosignatures in a file. UsageError when it holds anything else, StorageError when it cannot be read."""
    return parse(read_given(path, "cosignatures"))


def parse(raw: bytes) -> list[Cosignature]:
    """The cosignatures of a text, one a line. UsageError for anything else."""
    out = []
    for number, line in enumerate(raw.split(b"\n"), 1):
        if line.strip():
            try:
                out.append(parse_line(line))
            except FormatError:
                hint = "gj witness ask writes them."
                raise UsageError(f"line {number} of the cosignatures is not one", hint=hint) from None
    return out


def parse_line(raw: bytes) -> Cosignature:
    """One cosignature, in form. FormatError when it is not."""
    members: Any = canonical.loads(raw)
    if type(members) is not dict or members.keys() != _MEMBERS:
        raise FormatError("bad-member", f"a cosignature has the members {', '.join(sorted(_MEMBERS))}")
    time, key, armour = members["time"], members["key"], members["sshsig"]
    if type(time) is not int or not 0 <= time < rules.MAX_NUMBER:
        raise FormatError("bad-member", "time is not a number of seconds since 1970")
    if type(key) is not str or not _KEY.fullmatch(key) or type(armour) is not str:
        raise FormatError("bad-member", "key is no fingerprint, or sshsig no text")
    return Cosignature(parse_checkpoint(members["checkpoint"]), key, time, armour)


def parse_checkpoint(text: object) -> Checkpoint:
    """What a checkpoint says. FormatError for a text that a seal would not have."""
    match = _CHECKPOINT.fullmatch(text) if type(text) is str else None
    name = refs.parse_ref(match[1], "") if match else None
    if match is None or name is None:
        raise FormatError("bad-member", "checkpoint is not gitjournal/<session>/<branch>, size and root")
    try:
        return Checkpoint(name, int(match[2]), sshsig.strict_base64(match[3]))
    except ValueError:
        raise FormatError("bad-member", "the root of the checkpoint is not in standard base64") from None


# --- checking ------------------------------------------------------------------------------------


class Cosigned:
    """The cosignatures that somebody keeps, and the witnesses that he believes."""

    def __init__(self, cosignatures: Iterable[Cosignature], witnesses: AllowedSigners) -> None:
        self._witnesses = witnesses
        self._by_name: dict[Name, list[Cosignature]] = {}
        # By size, as the Merkle tree of a branch can only grow.
        for one in sorted(cosignatures, key=lambda one: one.checkpoint):
            self._by_name.setdefault(one.checkpoint.name, []).append(one)

    @property
    def names(self) -> Collection[Name]:
        """The branches that there are cosignatures of."""
        return self._by_name.keys()

    def check(self, report: Report, line: Line) -> int:
        """Hold the cosignatures of the report's branch against its events.

        Returns the highest size that a believed witness has seen, whether the branch still agrees or not.
        """
        seals, highest = Seals(), 0
        for one in self._accepted(report, self._by_name.get(report.branch, ()) if report.branch else ()):
            highest = one.checkpoint.size
            _hold(report, one.checkpoint, line, seals)
        return highest

    def check_proof(self, report: Report, sealed: Collection[Checkpoint]) -> None:
        """Hold the cosignatures against the seals of a proof. Those of other branches and sizes say nothing of it."""
        roots = {(one.name, one.size): one.root for one in sealed}
        all_ = [one for ones in self._by_name.values() for one in ones]
        of_these = [one for one in all_ if (one.checkpoint.name, one.checkpoint.size) in roots]
        for one in self._accepted(report, of_these):
            seen = one.checkpoint
            if roots[seen.name, seen.size] == seen.root:
                report.pinned = max(report.pinned, seen.size)
            else:
                _differs(report, seen)
        if len(of_these) < len(all_):
            report.note(f"cosignatures of other seals than the proof has: {len(all_) - len(of_these)}")

    def _accepted(self, report: Report, cosignatures: Iterable[Cosignature]) -> Iterator[Cosignature]:
        """Those that count; what is wrong with the others, and what all of them leave open, goes into the report."""
        not_checked, ends = 0, False
        for one in cosignatures:
            found = self._judge(report, one)
            if isinstance(found, Accepted):
                ends = ends or found.ends
                yield one
            elif found:
                not_checked += 1
        if not_checked:
            report.note(f"cosignatures of a kind that is not checked here: {not_checked}", incomplete=True)
        if ends:
            report.note("when it was cosigned: an accepted key of a witness has an end, and the time is its own word")

    def _judge(self, report: Report, one: Cosignature) -> Accepted | NotChecked | None:
        """Whether a cosignature counts; None, with a finding, when it does not."""
        place = one.checkpoint.size, one.key
        try:
            checked = sshsig.check(one.sshsig, one.message, NAMESPACE, one.key)
        except FormatError as error:
            report.add(error.code, *place, f"cosignature: {error}")
            return None
        if isinstance(checked, NotChecked):
            return checked
        accepted = self._witnesses.accepts(checked.key, NAMESPACE, one.time)
        if accepted is None:
            report.add("unknown-signer", *place, f"cosignature: {one.key} is no witness that is accepted here")
            return None
        witness = report.witnesses.setdefault(one.key, Signer(accepted.principals))
        witness.signatures += 1
        return accepted


def _hold(report: Report, seen: Checkpoint, line: Line, seals: Seals) -> None:
    """The branch must still begin with what the witness has seen."""
    if line.seq < seen.size:
        text = f"the branch ends at {line.seq}, a witness has seen {seen.size} events"
        report.add("truncated", line.seq or None, seen.root.hex(), text)
    elif line.first_lost and line.first_lost <= seen.size:
        # Without their hashes nobody can say what the root is; that they are lost has been found.
        return
    elif seals.root(line.hashes, seen.size) != seen.root:
        _differs(report, seen)
    else:
        report.pinned = max(report.pinned, seen.size)


def _differs(report: Report, seen: Checkpoint) -> None:
    text = f"a witness has seen other events up to {seen.size}, with the root {seen.root.hex()}"
    report.add("rollback", seen.size, seen.root.hex(), text)
