"""What a verification says: findings and reports, as data (docs/verification.md sections 3 and 10).

Floor 0, pure. Printing is the caller's.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from gitjournal.refs import Name

#: Findings of one report; a broken journal can have as many as it has bytes, and nobody reads them.
MAX_FINDINGS = 1000


@dataclass(frozen=True, slots=True)
class Finding:
    """One fault: a code of section 12, the event's seq (None: not of one event), the object or event id, a text."""

    code: str
    seq: int | None
    id: str
    text: str

    def as_dict(self) -> dict[str, Any]:
        """The finding as JSON."""
        return {"code": self.code, "seq": self.seq, "id": self.id, "text": self.text}


@dataclass(slots=True)
class Signer:
    """A key that has signed: what the allowed signers call it (None: nothing), and its right signatures."""

    principals: str | None = None
    signatures: int = 0


@dataclass(slots=True)
class Report:
    """What was checked of one branch, what was found, and what could not be checked."""

    name: str
    #: The branch; None for a proof, for what a remote has of one, and for an export of which no event can be read.
    branch: Name | None = None
    head_seq: int = 0
    head_hash: str = ""
    commit: str = ""
    in_tail: int = 0
    #: seqs of withheld events, ascending.
    withheld: list[int] = field(default_factory=list)
    side_files: int = 0
    seals: int = 0
    #: Signatures that are cryptographically right, also those of unknown signers.
    signatures: int = 0
    #: By fingerprint of the key.
    signers: dict[str, Signer] = field(default_factory=dict)
    #: The highest seq that a signature of an allowed signer covers; 0 when there is none.
    signed_to: int = 0
    findings: list[Finding] = field(default_factory=list)
    #: The highest seq of which a head was kept that this one goes on from; 0 when nothing pins the head.
    pinned: int = 0
    #: Witnesses that are believed, and how often each has cosigned the branch, by fingerprint of the key.
    witnesses: dict[str, Signer] = field(default_factory=dict)
    #: What a person must know that this run did not check; never empty.
    unchecked: list[str] = field(default_factory=list)
    #: True when something that should have been checked could not be (shallow history, signatures).
    incomplete: bool = False
    #: What a proof shows, as JSON; None for a branch.
    proven: dict[str, Any] | None = None
    #: The full ref; empty where there is none.
    ref: str = ""

    @property
    def ok(self) -> bool:
        """No fault was found. What was not checked is in ``unchecked``."""
        return not self.findings

    @property
    def exit_status(self) -> int:
        """0 intact, 1 broken, 3 intact as far as could be checked (section 12)."""
        return 1 if self.findings else 3 if self.incomplete else 0

    @property
    def full(self) -> bool:
        """So many findings that nothing more is looked for."""
        return len(self.findings) >= MAX_FINDINGS

    def as_dict(self) -> dict[str, Any]:
        """The report as JSON, the same in every run over the same bytes."""
        return {
            "name": self.name,
            "ref": self.ref or None,
            **({} if self.proven is None else {"proven": self.proven}),
            "verdict": {0: "ok", 1: "broken", 3: "incomplete"}[self.exit_status],
            "head": {"seq": self.head_seq, "hash": self.head_hash or None, "commit": self.commit or None},
            "in_tail": self.in_tail,
            "side_files": self.side_files,
            "withheld": ranges(self.withheld),
            "seals": self.seals,
            "signatures": self.signatures,
            "signers": _as_list(self.signers),
            "signed_to": self.signed_to,
            "pinned": self.pinned,
            "witnesses": _as_list(self.witnesses),
            "findings": [finding.as_dict() for finding in self.findings],
            "unchecked": self.unchecked,
        }

    def add(self, code: str, seq: int | None, ident: str, text: str) -> None:
        """Note a fault once, up to a bound."""
        known = any((one.code, one.seq, one.id) == (code, seq, ident) for one in self.findings[-8:])
        if not known and not self.full:
            self.findings.append(Finding(code, seq, ident, text))

    def note(self, text: str, *, incomplete: bool = False) -> None:
        """Something that was not checked; ``incomplete``: and should have been."""
        self.unchecked.append(text)
        self.incomplete = self.incomplete or incomplete


def _as_list(signers: dict[str, Signer]) -> list[dict[str, Any]]:
    return [
        {"key": key, "principals": one.principals, "signatures": one.signatures} for key, one in sorted(signers.items())
    ]


def ranges(seqs: list[int]) -> list[list[int]]:
    """Ascending numbers as closed ranges ``[from, to]``."""
    out: list[list[int]] = []
    for seq in seqs:
        if out and out[-1][1] == seq - 1:
            out[-1][1] = seq
        else:
            out.append([seq, seq])
    return out
