"""What is checked of a line of events wherever it comes from: its rules, seals, signatures, and heads that were kept.

Floor 3, pure (docs/verification.md sections 7 and 9). `verify` and `export_check` bring the events, one after the
other; what is found goes into a report.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gitjournal.line import Line
from gitjournal.seal import Seals
from gitjournal.trust import Trust

if TYPE_CHECKING:
    from gitjournal.chain import Appended
    from gitjournal.cosign import Cosigned
    from gitjournal.event import Event
    from gitjournal.refs import Name
    from gitjournal.signers import AllowedSigners
    from gitjournal.verdict import Report


@dataclass(frozen=True, slots=True)
class Checks:
    """What a verification knows from elsewhere than the journal."""

    #: Whose signatures count. None: nobody's, and the report says so.
    signers: AllowedSigners | None = None
    #: A branch without a signature of one of them is a finding.
    require_signed: bool = False
    #: Heads that were kept, by branch: the branch must still have these events.
    expected: Mapping[Name, Sequence[Appended]] = field(default_factory=dict)
    #: What witnesses have cosigned: the branches must still begin so.
    cosigned: Cosigned | None = None


class LineCheck:
    """One run along one line."""

    def __init__(self, report: Report, checks: Checks, heads: Sequence[Appended] = ()) -> None:
        """``heads`` were kept of this line, whatever its branch is found to be."""
        self.report = report
        self.line = Line()
        self.trust = Trust(report, checks.signers)
        self._checks = checks
        self._seals = Seals()
        self._heads = heads
        # The highest size that a believed witness has seen, whether the line agrees or not.
        self._cosigned = 0

    def event(self, event: Event, seq: int, ident: str) -> None:
        """The event that stands at ``seq``, the next one of the line; ``ident`` is the id of findings."""
        report = self.report
        for code, text in self.line.faults(event):
            report.add(code, seq, ident, text)
        if event.withheld:
            report.withheld.append(seq)
        if event.type == "session.seal":
            self._seal(event, seq, ident)

    def _seal(self, event: Event, seq: int, ident: str) -> None:
        self.report.seals += 1
        if self.line.first_lost:
            # Without their hashes nobody can say what the root must be.
            return
        fault = self._seals.fault(event, seq, self.line)
        if fault:
            self.report.add("bad-seal", seq, ident, fault)
            return
        self.trust.check_seal(event, (seq, ident))

    def cut_short(self) -> None:
        """There are so many findings that what comes now is not looked at."""
        self.report.note("what comes after 1000 findings in a line", incomplete=True)

    def finish(self) -> None:
        """All events have come: whether the line goes on from the heads that were kept, and is signed as it must be."""
        report, line = self.report, self.line
        if self._checks.cosigned is not None:
            self._cosigned = self._checks.cosigned.check(report, line)
        for head in self._kept():
            if line.seq < head.seq:
                text = f"the branch ends at {line.seq}, event {head.seq} was seen before"
                report.add("truncated", line.seq or None, head.hash, text)
            elif line.hash_at(head.seq) != head.hash:
                report.add("rollback", head.seq, head.hash, f"event {head.seq} had the hash {head.hash} before")
            else:
                report.pinned = max(report.pinned, head.seq)
        if self._checks.require_signed and not report.signed_to:
            report.add("bad-signature", None, "", "no signature of an allowed signer is there")

    def _kept(self) -> Sequence[Appended]:
        branch = self.report.branch
        return [*self._heads, *(self._checks.expected.get(branch, ()) if branch else ())]

    def close(self) -> None:
        """Say in the report where the head is, and what this run did not check."""
        report = self.report
        # What the head's commit, or the number of lines, says there is; it need not be there to be read.
        report.head_seq = max(report.head_seq, self.line.seq)
        report.head_hash = self.line.hash_at(report.head_seq) or ""
        head = f"{report.head_hash} at {report.head_seq}"
        kept = max([self._cosigned, *(one.seq for one in self._kept())])
        if not kept:
            report.note(f"whether newer events were cut off: nothing pins the head, {head}")
        elif kept < report.head_seq:
            report.note(f"whether newer events were cut off after the pinned {kept}: {head}")
        self.trust.close()
        if report.withheld:
            report.note(f"the payloads of withheld events: {len(report.withheld)}")
