"""Whose signatures stand on a line, and how far they reach (docs/verification.md section 9).

Floor 0, pure. Writes what it finds into the report of the line.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from gitjournal import rules, seal, sshsig
from gitjournal.errors import FormatError
from gitjournal.verdict import Report, Signer

if TYPE_CHECKING:
    from gitjournal.event import Event
    from gitjournal.objects import Commit
    from gitjournal.signers import AllowedSigners


#: Seq and id of the findings about a signature.
Place: TypeAlias = tuple[int | None, str]


class Trust:
    """The signatures of one line."""

    def __init__(self, report: Report, signers: AllowedSigners | None) -> None:
        self._report = report
        self._signers = signers
        # Line number in the allowed signers, by fingerprint: the first one that accepted gives the name.
        self._lines: dict[str, int] = {}
        self._not_checked = 0
        self._ends = False

    def check_commit(self, commit: Commit, oid: bytes, raw: bytes) -> None:
        """The signature of a signed commit; it covers the event and all before it."""
        payload = raw[: raw.index(b"\ngpgsig ") + 1] + raw[raw.index(b"\n\n") + 1 :]
        self._check(commit.signature or "", sshsig.GIT, payload, commit.time, (commit.seq, oid.hex()), commit.seq)

    def check_seal(self, event: Event, place: Place) -> None:
        """The signatures of a seal that is in form; they cover the events that it is on. ``place`` is for findings."""
        data = event.stored_data
        message, time = data["checkpoint"].encode(), rules.unix_seconds(event.ts)
        for one in data["signatures"]:
            self._check(one["sshsig"], seal.NAMESPACE, message, time, place, data["size"], one["key"])

    def _check(
        self,
        armour: str,
        namespace: str,
        message: bytes,
        time: int,
        place: Place,
        reach: int,
        key: str | None = None,
    ) -> None:
        try:
            checked = sshsig.check(armour, message, namespace, key)
        except FormatError as error:
            self._report.add(error.code, *place, str(error))
            return
        if isinstance(checked, sshsig.NotChecked):
            self._not_checked += 1
            return
        self._report.signatures += 1
        fingerprint = sshsig.fingerprint(checked.key)
        signer = self._report.signers.setdefault(fingerprint, Signer())
        signer.signatures += 1
        if self._signers is None:
            return
        accepted = self._signers.accepts(checked.key, namespace, time)
        if accepted is None:
            self._report.add("unknown-signer", *place, f"the allowed signers do not accept {fingerprint} here")
            return
        if accepted.line < self._lines.get(fingerprint, accepted.line + 1):
            self._lines[fingerprint] = accepted.line
            signer.principals = accepted.principals
        self._report.signed_to = max(self._report.signed_to, reach)
        self._ends = self._ends or accepted.ends

    def close(self) -> None:
        """Say in the report what the signatures leave open."""
        report = self._report
        if not report.signatures:
            report.note("who wrote the events: nothing is signed")
        elif self._signers is None:
            report.note("whose keys signed: no allowed signers were given", incomplete=True)
        if self._not_checked:
            report.note(f"signatures of a kind that is not checked here: {self._not_checked}", incomplete=True)
        if self._ends:
            report.note("when it was signed: an accepted key has an end, and the time is the signer's word")
        if self._signers is not None and report.signed_to < report.head_seq:
            report.note(f"events after the last accepted signature: {report.head_seq - report.signed_to}")
