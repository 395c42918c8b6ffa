"""What a verification is given from elsewhere than the journal: signers, heads that were kept, and the memory.

Floor 6.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from gitjournal.cli_base import complain, read_file
from gitjournal.errors import JournalError, StorageError, UsageError

if TYPE_CHECKING:
    from gitjournal.chain import Appended
    from gitjournal.checks import Checks
    from gitjournal.cosign import Cosigned
    from gitjournal.journal import Journal
    from gitjournal.pins import Memory
    from gitjournal.refs import Name
    from gitjournal.signers import AllowedSigners
    from gitjournal.verdict import Report

_SEQ = re.compile(r"[1-9][0-9]{0,7}", re.ASCII)


class Options(NamedTuple):
    """What the command was told besides names and output."""

    allowed_signers: str | None
    revoked_keys: str | None
    require_signed: bool
    pins: tuple[str, ...]
    expect_seq: str | None
    expect_head: str | None
    cosigned: tuple[str, ...]
    witnesses: str | None
    proof: str | None
    export: str | None
    forget: bool
    report: str | None

    def checks(self) -> Checks:
        """The signers and cosignatures, and the heads in files of pins. UsageError, StorageError."""
        from gitjournal import pins
        from gitjournal.checks import Checks

        expected: dict[Name, list[Appended]] = {}
        for path in self.pins:
            for pin in pins.read(Path(path)):
                expected.setdefault(pin.name, []).append(pin.head)
        return Checks(self.signers(), self.require_signed, expected, self.cosignatures())

    def signers(self) -> AllowedSigners | None:
        """Whose signatures count; None: nobody's. UsageError, also when a file cannot be read."""
        from gitjournal.signers import AllowedSigners, revoked_keys

        if self.allowed_signers is None:
            if self.revoked_keys is not None or self.require_signed:
                raise UsageError("--require-signed and --revoked-keys need --allowed-signers: without it nobody counts")
            return None
        revoked = revoked_keys(_read(self.revoked_keys)) if self.revoked_keys else ()
        return AllowedSigners.parse(_read(self.allowed_signers), revoked)

    def cosignatures(self) -> Cosigned | None:
        """The cosignatures that the user has kept, and the witnesses that he believes."""
        from gitjournal import cosign
        from gitjournal.signers import AllowedSigners

        if bool(self.cosigned) != (self.witnesses is not None):
            raise UsageError("--cosigned and --witnesses go together: without witnesses no cosignature counts")
        if self.witnesses is None:
            return None
        kept = [one for path in self.cosigned for one in cosign.read(Path(path))]
        return cosign.Cosigned(kept, AllowedSigners.parse(_read(self.witnesses)))

    def head(self) -> Appended | None:
        """The head of ``--expect-seq`` and ``--expect-head``; None without them. UsageError."""
        from gitjournal import pins
        from gitjournal.chain import Appended

        seq, digest = self.expect_seq, self.expect_head
        if (seq is None) != (digest is None):
            raise UsageError("--expect-seq and --expect-head go together")
        if seq is None or digest is None:
            return None
        if not _SEQ.fullmatch(seq):
            raise UsageError(f"--expect-seq {seq!a} is not the number of an event")
        if not pins.is_hash(digest):
            raise UsageError(f"--expect-head {digest!a} is not an event hash of 64 hex digits")
        return Appended(int(seq), digest)


def _read(path: str) -> bytes:
    """A file of keys that an option names. UsageError when it cannot be read, as when it holds something else."""
    try:
        return read_file(path)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror or error}") from None


def memory(journal: Journal) -> Memory:
    """The heads that earlier verifications of a journal have found intact, in a folder of the user's own."""
    import platformdirs

    from gitjournal.pins import Memory

    return Memory(platformdirs.user_state_path("gitjournal") / "verified", journal.path)


class Remembered:
    """The heads that earlier runs have found intact, for one run; outside the journal."""

    def __init__(self, journal: Journal, *, forget: bool) -> None:
        """With ``forget`` the memory is emptied first. Warns of a memory that cannot be read. StorageError."""
        self._memory = memory(journal)
        if forget:
            self._memory.forget()
        self.heads: Mapping[Name, Appended] = {}
        #: Why nothing is known of earlier runs, though there were some; empty if it is.
        self.damage = ""
        try:
            self.heads = self._memory.heads()
        except JournalError as error:
            self.damage = str(error)
            complain(f"what earlier runs have found is not compared, the memory of them is damaged: {error}")

    def tell(self, report: Report) -> None:
        """Say in a report that there was nothing to compare with, and on standard error how to get out of a finding."""
        if self.damage:
            report.note("whether the branch went back since earlier runs: the memory of them is damaged")
        known = self.heads.get(report.branch) if report.branch else None
        if known and any(one.id == known.hash and one.code in ("rollback", "truncated") for one in report.findings):
            complain(
                f"{report.name} does not go on from event {known.seq}, which an earlier run has found intact here",
                "If this is a backup that you have put back yourself, begin anew: gj verify --forget",
            )

    def keep(self, reports: Iterable[Report]) -> None:
        """Remember the heads of branches without a finding."""
        from gitjournal.chain import Appended
        from gitjournal.pins import Pin

        intact = [one for one in reports if one.ok and one.head_seq]
        heads = [Pin(one.branch, Appended(one.head_seq, one.head_hash)) for one in intact if one.branch]
        # Where nothing can be kept (a read-only home), the check is worth as much as a first one.
        with suppress(StorageError):
            self._memory.keep(heads)


def gone(name: Name, heads: Sequence[Appended], cosigned: Cosigned | None) -> Report:
    """The report on a branch that was there before, by what was kept of it."""
    from gitjournal.line import Line
    from gitjournal.verdict import Report

    report = Report(str(name), name)
    if heads:
        newest = max(heads)
        report.add("truncated", None, newest.hash, f"the branch is gone; it had event {newest.seq} before")
    if cosigned:
        cosigned.check(report, Line())
    report.note("the events: the branch is not there")
    return report
