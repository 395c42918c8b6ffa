"""Verify a branch from its bytes alone (docs/verification.md).

Floor 3. Takes a reader of raw objects; imports neither pygit2 nor click and trusts no index, no cache and no git
view. Everything follows from the event bytes: the commits are derived anew with the same `Deriver` that wrote them,
and each derived id must be the one that git has. The result is data; printing it is the caller's.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING, TypeVar

from gitjournal import objects, tail
from gitjournal.errors import BadRef, FormatError, NotFound, VerificationError
from gitjournal.event import Event
from gitjournal.line import Line
from gitjournal.objects import Deriver
from gitjournal.seal import Seals
from gitjournal.trust import Trust
from gitjournal.verdict import MAX_FINDINGS, Finding, Report

if TYPE_CHECKING:
    from gitjournal.chain import Appended, Chain
    from gitjournal.cosign import Cosigned
    from gitjournal.journal import Journal
    from gitjournal.refs import Name
    from gitjournal.signers import AllowedSigners
    from gitjournal.store import Store

T = TypeVar("T")
_PARENT = re.compile(rb"\nparent ([0-9a-f]{40})\n")

__all__ = ["MAX_FINDINGS", "Checks", "Finding", "Report", "verify", "verify_session"]


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


def verify(journal: Journal, name: str | Name, checks: Checks | None = None) -> Report:
    """Check one branch of a journal, its tail included. Raises NotFound when there is no such branch."""
    return _checked(journal.chain(journal.resolve(name)), checks or Checks()).report


def verify_session(journal: Journal, session: str, checks: Checks | None = None) -> list[Report]:
    """Check all branches of a session, and that they fork only where they say so (``equivocation``)."""
    lines = [_checked(journal.chain(name), checks or Checks()) for name in journal.branches(session)]
    for number, one in enumerate(lines):
        for other in lines[:number]:
            _compare(other, one)
    return [check.report for check in lines]


def _checked(chain: Chain, checks: Checks) -> _Check:
    check = _Check(chain, checks)
    try:
        check.run()
    except _LeadsElsewhereError:
        check = _Check(chain, checks, walk=True)
        check.run()
    return check


class _LeadsElsewhereError(Exception):
    """What the events derive is there, and yet the ref leads to other commits."""


class _Check:
    """One run over one branch.

    Deriving needs no walk while the derived commits are there and the last one is the head. From the first one that
    is not there on, or from the start with ``walk``, the commits that the ref leads to are compared one by one.
    """

    def __init__(self, chain: Chain, checks: Checks, *, walk: bool = False) -> None:
        self.chain = chain
        self.store = chain.store
        self.checks = checks
        self.line = Line()
        self.report = Report(str(chain.name), chain.name)
        self._trust = Trust(self.report, checks.signers)
        self._seals = Seals()
        self._deriver = Deriver()
        self._walk = walk
        self._history: _History | None = None
        # Ids of the commits that were derived and found, without looking where the ref leads.
        self._derived = bytearray()
        self._last = 0
        # The highest seq of which a head was kept, whether the branch goes on from it or not.
        self._kept = 0
        # False from the first event on whose commit and trees cannot be derived, or are not the derived ones.
        self._deriving = True

    def run(self) -> None:
        """Fill the report. NotFound when the branch has no event."""
        try:
            oid, raw = self._look()
        except BadRef as error:
            self.report.add("wrong-ref", None, "", str(error))
            self.report.note("the events: nothing leads to them")
            return
        if oid is None and not raw:
            raise NotFound(f"{self.chain.name} has no event")
        if oid is not None:
            self.report.commit = oid.hex()
            self._check_git(oid)
        self._check_tail(raw)
        self._check_name()
        self._check_expected()
        self._close()

    def _look(self) -> tuple[bytes | None, bytes]:
        """Ref and tail; once more when a flush moved the boundary between the two looks."""
        while True:
            oid = self.store.read_ref(self.chain.ref)
            raw = tail.read(self.chain.tail_path)
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
        self._check_events(oid, commit.tree)
        if self._history is None and not (self._deriving and self._deriver.head == oid):
            self._follow(oid)

    def _follow(self, oid: bytes) -> None:
        """From here on compare with the commits that the ref leads to. _LeadsElsewhereError when others were found."""
        self._history = history = _History(self.store, oid, self._last)
        if not history.begins_with(self._derived):
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
                self.report.note("what comes after 1000 findings in a line", incomplete=True)
                return

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
        self._check_line(event, seq, blob.hex())
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
            # By the index, as git finds it: a run of neighbours would also find what an index hides.
            return Event.parse(self.store.read(blob, b"blob", objects.EVENT_LIMIT))
        except (VerificationError, FormatError) as error:
            self.report.add(error.code, seq, blob.hex(), str(error))
        return None

    def _lose(self) -> None:
        self._deriving = False
        self.line.lose()

    def _check_line(self, event: Event, seq: int, ident: str) -> None:
        for code, text in self.line.faults(event):
            self.report.add(code, seq, ident, text)
        self.report.head_seq, self.report.head_hash = seq, event.hash
        if event.withheld:
            self.report.withheld.append(seq)
        if event.type == "session.seal":
            self._check_seal(event, seq, ident)

    def _check_seal(self, event: Event, seq: int, ident: str) -> None:
        self.report.seals += 1
        if self.line.first_lost:
            # Without their hashes nobody can say what the root must be.
            return
        fault = self._seals.fault(event, seq, self.line)
        if fault:
            self.report.add("bad-seal", seq, ident, fault)
            return
        self._trust.check_seal(event, (seq, ident))

    def _check_files(self, event: Event, seq: int, files: Sequence[bytes]) -> None:
        if b"" in files:
            self._deriving = False
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
        derived = self._deriver.push(event, files, blob)
        commit = derived.commit
        if self._history is None and not self.store.holds(commit[0], b"commit", commit[1]):
            self._follow(head)
        if self._history is None:
            self._derived += commit[0]
        elif not self._is_right(self._history, event, commit[0]):
            return
        for oid, content in derived.trees:
            if not self.store.holds(oid, b"tree", content):
                self._explain(event.seq, oid)

    def _is_right(self, history: _History, event: Event, derived: bytes) -> bool:
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
            self._trust.check_commit(commit, found, raw)
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
            self._check_line(event, event.seq, "")
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

    def _check_expected(self) -> None:
        if self.checks.cosigned is not None:
            self._kept = self.checks.cosigned.check(self.report, self.line)
        for expected in self.checks.expected.get(self.chain.name, ()):
            self._kept = max(self._kept, expected.seq)
            if self.line.seq < expected.seq:
                text = f"the branch ends at {self.line.seq}, event {expected.seq} was seen before"
                self.report.add("truncated", self.line.seq or None, expected.hash, text)
            elif self.line.hash_at(expected.seq) != expected.hash:
                text = f"event {expected.seq} had the hash {expected.hash} before"
                self.report.add("rollback", expected.seq, expected.hash, text)
            else:
                self.report.pinned = max(self.report.pinned, expected.seq)

    def _close(self) -> None:
        report = self.report
        if self.line.is_lost(self.line.seq):
            report.head_hash = ""
        head = f"{report.head_hash} at {report.head_seq}"
        if not self._kept:
            report.note(f"whether newer events were cut off: nothing pins the head, {head}")
        elif self._kept < report.head_seq:
            report.note(f"whether newer events were cut off after the pinned {self._kept}: {head}")
        if self.checks.require_signed and not report.signed_to:
            report.add("bad-signature", None, "", "no signature of an allowed signer is there")
        self._trust.close()
        if report.withheld:
            report.note(f"the payloads of withheld events: {len(report.withheld)}")


class _History:
    """The ids of the commits that a ref leads to, 20 bytes each, found by walking back from the head."""

    def __init__(self, store: Store, head: bytes, last: int) -> None:
        self._ids = bytearray()
        self._last = last
        #: Faults of the walk itself.
        self.findings: list[tuple[str, int, str, str]] = []
        #: Commits that a shallow history says it does not have.
        self.left_out = 0
        #: The parent that the oldest commit reached names.
        self.parent_of_first: bytes | None = None
        self._walk(store, head)

    def _walk(self, store: Store, head: bytes) -> None:
        at: bytes | None = head
        child = head
        while at is not None and len(self._ids) < 20 * self._last:
            try:
                raw = store.read(at, b"commit")
            except VerificationError as error:
                self._end(store, error, at)
                return
            self._ids += at[::-1]
            child, at = at, _parent(raw)
            self.parent_of_first = at
        seq = self._last - len(self._ids) // 20 + 1
        if at is None and seq > 1:
            self.findings.append(("bad-commit", seq, child.hex(), "the commit names no parent, and is not the first"))
        elif at is not None:
            self.findings.append(("bad-commit", 1, at.hex(), "the commit of the first event has a parent"))

    def _end(self, store: Store, error: VerificationError, oid: bytes) -> None:
        """The walk ends before the commit ``oid``. No fault where git says that the history was cut there."""
        seq = self._last - len(self._ids) // 20
        if error.code == "missing-object" and self._ids[-20:][::-1].hex() in store.shallow_commits():
            self.left_out = seq
        else:
            self.findings.append((error.code, seq, oid.hex(), str(error)))

    def begins_with(self, ids: bytes | bytearray) -> bool:
        """Whether the oldest commits have these ids, 20 bytes each, as far as the walk could tell."""
        missing = self._last - len(self._ids) // 20
        wanted = [self.at(seq) == ids[20 * seq - 20 : 20 * seq] for seq in range(missing + 1, len(ids) // 20 + 1)]
        return all(wanted)

    def at(self, seq: int) -> bytes | None:
        """The id of the commit of event ``seq``, None when the walk did not come so far."""
        place = 20 * (self._last - seq)
        return bytes(self._ids[place : place + 20][::-1]) if place < len(self._ids) else None


class Pages:
    """Leaf trees of the head's tree, each checked to be in the form of section 5 as far as it is walked."""

    def __init__(self, store: Store, root: bytes) -> None:
        self._store = store
        self._root_id = root
        self._root: dict[bytes, bytes] | None = None
        self._middle: dict[bytes, bytes] = {}
        self._at = -1

    def page(self, first: int) -> dict[int, tuple[bytes, Sequence[bytes]]]:
        """The events of the leaf that holds ``first``. VerificationError when a tree is missing or malformed."""
        if self._root is None:
            self._root = self._folders(self._root_id)
        if self._at != first // objects.MIDDLE_SPAN:
            self._middle = self._folders(_named(self._root, objects.root_entry(first)))
            self._at = first // objects.MIDDLE_SPAN
        oid = _named(self._middle, objects.middle_entry(first))
        leaf = self._store.read(oid, b"tree")
        page: dict[int, tuple[bytes, Sequence[bytes]]] = {}
        with_names = _told_of(oid, objects.leaf_events(leaf))
        for seq, blob, files in with_names:
            if seq in page:
                raise VerificationError("bad-tree", f"a leaf tree has event {seq} twice", oid=oid.hex())
            page[seq] = (blob, files)
        return page

    def _folders(self, oid: bytes) -> dict[bytes, bytes]:
        entries = _told_of(oid, objects.tree_entries(self._store.read(oid, b"tree")))
        folders: dict[bytes, bytes] = {}
        for mode, name, entry in entries:
            if mode == b"40000":
                folders.setdefault(name, entry)
        return folders


def _told_of(oid: bytes, entries: Iterator[T]) -> Iterator[T]:
    """The entries of a tree; an error of its form names the tree."""
    try:
        yield from entries
    except FormatError as error:
        raise VerificationError(error.code, str(error), oid=oid.hex()) from None


def _named(tree: dict[bytes, bytes], name: bytes) -> bytes:
    if name not in tree:
        raise VerificationError("missing-object", f"the head's tree has no {name.decode()}", oid="")
    return tree[name]


def _parent(raw: bytes) -> bytes | None:
    """The first parent of a commit, from its bytes: ``tree <40>\\n`` is 46 bytes long."""
    match = _PARENT.match(raw, 45)
    return bytes.fromhex(match[1].decode()) if match else None


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
