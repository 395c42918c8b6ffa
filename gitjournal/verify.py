"""Verify a branch from its bytes alone (docs/verification.md).

Floor 3. Takes a reader of raw objects; imports neither pygit2 nor click and trusts no index, no cache and no git
view. Everything follows from the event bytes: the commits are derived anew with the same `Deriver` that wrote them,
and each derived id must be the one that git has. The result is data; printing it is the caller's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import replace
from hashlib import sha256
from typing import TYPE_CHECKING, Any, NamedTuple

from gitjournal import aside, objects, tail
from gitjournal.aside import Aside
from gitjournal.checks import Checks, LineCheck
from gitjournal.errors import BadRef, FormatError, NotFound, VerificationError
from gitjournal.event import Event
from gitjournal.objects import Derived, Deriver
from gitjournal.verdict import MAX_FINDINGS, Finding, Report
from gitjournal.walk import History, Pages

if TYPE_CHECKING:
    from gitjournal.chain import Chain
    from gitjournal.journal import Journal
    from gitjournal.refs import Name


# Events of a line for which it pays to begin another process.
_LONG = 2000

__all__ = ["MAX_FINDINGS", "Checks", "Finding", "Report", "verify", "verify_session"]


def verify(journal: Journal, name: str | Name, checks: Checks | None = None) -> Report:
    """Check one branch of a journal, its tail included. Raises NotFound when there is no such branch."""
    return _checked(journal.chain(journal.resolve(name)), checks or Checks()).report


def verify_session(
    journal: Journal,
    session: str,
    checks: Checks | None = None,
    *,
    branch: str | None = None,
    copies: Sequence[Chain] = (),
) -> list[Report]:
    """Check all branches of a session, and that they fork only where they say so (``equivocation``).

    With ``branch`` only this one; with ``copies`` also what remotes are known to have of them (`Store.copies`).
    """
    given = checks or Checks()
    lines: list[_Check] = []
    for name in journal.branches(session):
        if branch in (None, name.branch):
            lines.append(_checked(journal.chain(name), given, known=lines))
    own = {check.chain.name: check for check in lines}
    for chain in copies:
        lines.append(_as_own(own.get(chain.name), chain) or _checked(chain, given, known=lines, is_copy=True))
    lines.sort(key=lambda check: check.chain.ref.encode("utf-8", "surrogateescape"))
    for number, one in enumerate(lines):
        for other in lines[:number]:
            _compare(other, one)
    return [check.report for check in lines]


def _as_own(own: _Check | None, chain: Chain) -> _Check | None:
    """What was found of the branch itself, where a copy has the same head and there is nothing to say against it."""
    if own is None or own.report.findings or own.report.in_tail:
        return None
    with suppress(BadRef):
        oid = chain.store.read_ref(chain.ref)
        if oid is not None and oid.hex() == own.report.commit:
            check = copy(own)
            check.chain = chain
            check.report = replace(own.report, name=chain.ref, branch=None, ref=chain.ref, pinned=0, witnesses={})
            # Lists of its own: more is noted in both.
            check.report.findings, check.report.unchecked = [], [*own.report.unchecked]
            return check
    return None


def _checked(chain: Chain, checks: Checks, *, known: Sequence[_Check] = (), is_copy: bool = False) -> _Check:
    """Check one line; ``known`` are lines that have been checked, and may begin with the same events."""
    shared = [one.derived for one in known if not one.report.findings]
    helped = aside.is_possible()
    while True:
        check = _Check(chain, checks, is_copy=is_copy, helped=helped)
        check.known = shared
        try:
            check.run()
            return check
        except _NotAsDerivedError:
            # What it is, one process says that looks at all in order.
            helped = False
        except _LeadsElsewhereError:
            check = _Check(chain, checks, is_copy=is_copy, walk=True)
            check.run()
            return check


class _LeadsElsewhereError(Exception):
    """What the events derive is there, and yet the ref leads to other commits."""


class _NotAsDerivedError(Exception):
    """The other process has not found all that the events derive, for whatever reason."""


class _Told(NamedTuple):
    """What the other process is told of an event."""

    seq: int
    session: str
    ts: str
    type: str
    actor: str
    hash: str
    files: Sequence[bytes]
    blob: bytes
    raw: bytes = b""


class _Check:
    """One run over one branch.

    Half of the work is to look for what the events derive. For a long line another process does it (``helped``): if
    all is there that is all it says, and if not, nothing of the run counts.

    Deriving needs no walk while the derived commits are there and the last one is the head. From the first one that
    is not there on, or from the start with ``walk``, the commits that the ref leads to are compared one by one.
    """

    def __init__(
        self, chain: Chain, checks: Checks, *, is_copy: bool = False, walk: bool = False, helped: bool = False
    ) -> None:
        """``is_copy``: what a remote has, of which nothing was kept here, and that has no tail."""
        self.chain = chain
        self.store = chain.store
        self._is_copy = is_copy
        self.report = (
            Report(chain.ref, ref=chain.ref) if is_copy else Report(str(chain.name), chain.name, ref=chain.ref)
        )
        self._along = LineCheck(self.report, checks)
        self.line = self._along.line
        self._deriver = Deriver()
        # By the index, as git finds it: neighbours alone would also be what an index hides.
        self._blobs = chain.store.run(b"blob", indexed=True)
        self._walk = walk
        self._helped = helped
        self._aside: Aside | None = None
        # What the other process will be told next: `_Told` of each event of a page.
        self._telling: list[tuple[Any, ...]] = []
        self._history: History | None = None
        #: Ids of the commits that were derived and found, without looking where the ref leads; 20 bytes each.
        self.derived = bytearray()
        #: Those of other lines, whose commits and trees have been found to be right.
        self.known: Sequence[bytearray] = ()
        self._last = 0
        # False from the first event on whose commit and trees cannot be derived, or are not the derived ones.
        self._deriving = True

    def run(self) -> None:
        """Fill the report. NotFound when the branch has no event."""
        try:
            oid, raw = self._look()
        except BadRef as error:
            self.report.add("wrong-ref", None, "", str(error))
            self.report.note("the events: nothing leads to them")
            self._along.close()
            return
        if oid is None and not raw:
            raise NotFound(f"{self.chain.name} has no event")
        if oid is not None:
            self.report.commit = oid.hex()
            self._check_git(oid)
        self._check_tail(raw)
        self._check_name()
        self._along.finish()
        self._along.close()

    def _look(self) -> tuple[bytes | None, bytes]:
        """Ref and tail; once more when a flush moved the boundary between the two looks."""
        while True:
            oid = self.store.read_ref(self.chain.ref)
            raw = b"" if self._is_copy else tail.read(self.chain.tail_path)
            if self.store.read_ref(self.chain.ref) == oid:
                return oid, raw

    # --- git -------------------------------------------------------------------------------------

    def _check_git(self, oid: bytes) -> None:
        try:
            commit = objects.parse_commit(self.store.read(oid, b"commit"))
        except VerificationError as error:
            self.report.add(error.code, None, oid.hex(), f"the ref's commit: {error}")
            return
        if commit is None:
            self.report.add("bad-commit", None, oid.hex(), "the ref's commit is not in the form of section 6")
            return
        self._last = self.report.head_seq = commit.seq
        if self._walk:
            self._follow(oid)
        if self._helped and self._last >= _LONG:
            self._check_with_help(oid, commit.tree)
            return
        self._check_events(oid, commit.tree)
        if self._history is None and not (self._deriving and self._deriver.head == oid):
            self._follow(oid)

    def _check_with_help(self, head: bytes, root: bytes) -> None:
        """`_check_events`, while another process looks for what they derive. _NotAsDerivedError unless all is there."""
        try:
            helper = Aside(self._find_derived)
        except OSError:
            raise _NotAsDerivedError from None
        with helper:
            self._aside = helper
            self._check_events(head, root)
            self._tell()
            helper.hang_up()
            answer = list(helper.answers())
        if len(answer) != 1 or answer[0][-20:] != head:
            raise _NotAsDerivedError
        self.derived += answer[0]

    def _find_derived(self, messages: Iterator[list[tuple[Any, ...]]], answer: Callable[[bytes], None]) -> None:
        """The work of the other process: answers with the ids of all commits, or not at all."""
        for message in messages:
            for told in message:
                event = _Told(*told)
                derived = self._deriver.push(event, event.files, event.blob)
                if not self._is_known(event.seq, derived.commit[0]) and not self._holds(derived):
                    return
                self.derived += derived.commit[0]
        answer(bytes(self.derived))

    def _holds(self, derived: Derived) -> bool:
        kept = self.store.holds
        return kept(derived.commit[0], b"commit", derived.commit[1]) and all(
            kept(oid, b"tree", content) for oid, content in derived.trees
        )

    def _tell(self) -> None:
        """Tell the other process of the events of a page."""
        if self._aside is not None:
            told, self._telling = self._telling, []
            if not (self._deriving and self._aside.tell(told)):
                raise _NotAsDerivedError

    def _follow(self, oid: bytes) -> None:
        """From here on compare with the commits that the ref leads to. _LeadsElsewhereError when others were found."""
        self._history = history = History(self.store, oid, self._last)
        if not history.begins_with(self.derived):
            raise _LeadsElsewhereError
        for finding in history.findings:
            self.report.add(*finding)
        if history.left_out:
            self.report.note(f"commits that a shallow history leaves out: {history.left_out}", incomplete=True)

    def _check_events(self, head: bytes, root: bytes) -> None:
        """Each event that must be in the head's tree, whatever the tree says."""
        pages = Pages(self.store, root)
        for first in range(0, self._last + 1, objects.LEAF_SPAN):
            page = self._page(pages, first)
            for seq in range(max(first, 1), min(first + objects.LEAF_SPAN, self._last + 1)):
                if page is None:
                    self._lose()
                else:
                    self._check_event(head, seq, *page.get(seq, (None, ())))
            # A forged head can claim a hundred million events that are not there.
            if self.report.full:
                self._along.cut_short()
                return
            self._tell()

    def _page(self, pages: Pages, first: int) -> dict[int, tuple[bytes, Sequence[bytes]]] | None:
        try:
            return pages.page(first)
        except VerificationError as error:
            self.report.add(error.code, max(first, 1), error.oid, str(error))
        return None

    def _check_event(self, head: bytes, seq: int, blob: bytes | None, files: Sequence[bytes]) -> None:
        event = self._read_event(seq, blob)
        if event is None or blob is None:
            # Without its bytes nothing can be derived from here on; the links of the rest still are checked.
            self._lose()
            return
        self._along.event(event, seq, blob.hex())
        if files or event.files:
            self._check_files(event, seq, files)
        if event.seq == seq:
            self._check_commit(head, event, files, blob)
        else:
            # It derives the objects of another place.
            self._deriving = False

    def _read_event(self, seq: int, blob: bytes | None) -> Event | None:
        if blob is None:
            self.report.add("missing-object", seq, "", "the event is not in the head's tree")
            return None
        try:
            return Event.parse(self._blobs.read(blob))
        except (VerificationError, FormatError) as error:
            self.report.add(error.code, seq, blob.hex(), str(error))
        return None

    def _lose(self) -> None:
        self._deriving = False
        self.line.lose()

    def _check_files(self, event: Event, seq: int, files: Sequence[bytes]) -> None:
        if b"" in files:
            self.report.add("bad-file", seq, event.hash, "the tree's side files are not numbered from 1 on")
            return
        if len(files) != len(event.files):
            text = f"the tree has {len(files)} side files, the event names {len(event.files)}"
            self.report.add("bad-file", seq, event.hash, text)
            return
        for number, (oid, entry) in enumerate(zip(files, event.files, strict=True), 1):
            try:
                content = self.store.read(oid, b"blob")
            except VerificationError as error:
                self.report.add(error.code, seq, oid.hex(), f"side file {number}: {error}")
                continue
            if len(content) != entry["size"] or sha256(content).hexdigest() != entry["sha256"]:
                self.report.add("bad-file", seq, oid.hex(), f"side file {number} is not what the event says")
            else:
                self.report.side_files += 1

    def _check_commit(self, head: bytes, event: Event, files: Sequence[bytes], blob: bytes) -> None:
        """The commit and trees that the event derives must be there, byte for byte."""
        if not self._deriving:
            return
        if self._aside is not None:
            if isinstance(files, objects.Gap):
                raise _NotAsDerivedError
            told = (event.seq, event.session, event.ts, event.type, event.actor, event.hash, files, blob)
            self._telling.append(told)
            return
        derived = self._deriver.push(event, files, blob)
        commit = derived.commit
        if self._history is None and self._is_known(event.seq, commit[0]):
            self.derived += commit[0]
            return
        if self._history is None and not self.store.holds(commit[0], b"commit", commit[1]):
            self._follow(head)
        if self._history is None:
            self.derived += commit[0]
        elif not self._is_right(self._history, event, commit[0]):
            return
        for oid, content in derived.trees:
            if not self.store.holds(oid, b"tree", content):
                self._explain(event.seq, oid)

    def _is_known(self, seq: int, commit: bytes) -> bool:
        """Whether another line has this commit here: then it has its trees, and all before it, as well."""
        at = 20 * seq - 20
        return any(ids[at : at + 20] == commit for ids in self.known)

    def _is_right(self, history: History, event: Event, derived: bytes) -> bool:
        """Whether the commit that the ref leads to is the derived one, as it is or signed."""
        found = history.at(event.seq)
        if found is None:
            # The commits before the edge may be signed and are not there to tell: take their child's word.
            self._deriver.head = history.parent_of_first
            return False
        if found == derived:
            return True
        raw = self.store.read(found, b"commit")
        commit = objects.parse_commit(raw)
        if commit and commit.signature and self._deriver.sign(event, commit.signature)[0] == found:
            self._along.trust.check_commit(commit, found, raw)
            return True
        self._deriving = False
        self.report.add(*_difference(event, found, commit))
        return False

    def _explain(self, seq: int, oid: bytes) -> None:
        """Report what is wrong with a tree that does not hold what was derived."""
        try:
            self.store.read(oid, b"tree")
        except VerificationError as error:
            self.report.add(error.code, seq, oid.hex(), str(error))

    # --- tail, name, summary ---------------------------------------------------------------------

    def _check_tail(self, raw: bytes) -> None:
        line = self.line
        found = tail.scan(raw, self.chain.name.session, line.seq, line.prev)
        for event in found.stale:
            if line.hash_at(event.seq) != event.hash:
                self.report.add("broken-link", event.seq, event.hash, "tail: git has another event in its place")
                break
        for event in found.events:
            self._along.event(event, event.seq, "")
            self.report.in_tail += 1
        if found.damage:
            self.report.add("broken-link", line.seq + 1, "", f"tail: {found.damage}")
        if found.torn_at is not None:
            self.report.note("the tail ends in a write that was cut and never acknowledged")

    def _check_name(self) -> None:
        name = self.chain.name
        if self.line.session is not None and (self.line.session, self.line.branch) != (name.session, name.branch):
            text = f"the events are of {self.line.session!r}, branch {self.line.branch!r}"
            self.report.add("wrong-ref", None, self.report.commit, f"{self.chain.ref}: {text}")


def _difference(event: Event, actual: bytes, commit: objects.Commit | None) -> tuple[str, int, str, str]:
    """How a commit differs from the one that its event derives, as a finding."""
    if commit is None:
        return "bad-commit", event.seq, actual.hex(), "the commit is not in the form of section 6"
    if commit.event_hash != event.hash:
        text = f"the commit says event hash {commit.event_hash}, the event has {event.hash}"
        return "bad-hash", event.seq, actual.hex(), text
    if commit.seq != event.seq or commit.session != event.session or commit.type != event.type:
        text = f"the commit says {commit.session}@{commit.seq} {commit.type}"
        return "bad-commit", event.seq, actual.hex(), text
    return "bad-tree", event.seq, actual.hex(), "the commit's tree or parent is not the one that the events derive"


def _compare(one: _Check, other: _Check) -> None:
    """Report equivocation where two branches of a session part without either saying so."""
    if not one.line.session == other.line.session == one.chain.name.session:
        # Under the name of another session: a finding of its own.
        return
    first, second = one.line.hashes, other.line.hashes
    compared = min(len(first) // 32, len(second) // 32)
    for lost in (one.line.first_lost, other.line.first_lost):
        compared = min(compared, lost - 1) if lost else compared
    low, high = 0, compared
    # Hashes are chained: lines that agree at an event agree on all before it.
    while low < high:
        middle = (low + high + 1) // 2
        if first[32 * middle - 32 : 32 * middle] == second[32 * middle - 32 : 32 * middle]:
            low = middle
        else:
            high = middle - 1
    if low == compared or low in one.line.declared or low in other.line.declared:
        return
    text = f"{one.report.name} and {other.report.name} go on differently after event {low}, and neither says so"
    other.report.add("equivocation", low + 1, second[32 * low : 32 * low + 32].hex(), text)
