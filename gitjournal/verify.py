"""Verify a branch from its bytes alone (docs/format.md sections 2 to 8 and 12).

Floor 3. Takes a reader of raw objects; imports neither pygit2 nor click and trusts no index, no cache and no git
view. Everything follows from the event bytes: the commits are derived anew with the same `Deriver` that wrote them,
and each derived id must be the one that git has. The result is data; printing it is the caller's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from gitjournal import objects, tail
from gitjournal.errors import BadRef, FormatError, NotFound, VerificationError
from gitjournal.event import Event
from gitjournal.line import Line
from gitjournal.objects import Deriver

if TYPE_CHECKING:
    from gitjournal.chain import Chain
    from gitjournal.journal import Journal
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
class Report:
    """What was checked of one branch, what was found, and what could not be checked."""

    name: str
    head_seq: int = 0
    head_hash: str = ""
    commit: str = ""
    in_tail: int = 0
    withheld: list[int] = field(default_factory=list)
    side_files: int = 0
    signatures: int = 0
    seals: int = 0
    findings: list[Finding] = field(default_factory=list)
    #: What a person must know that this run did not check; never empty.
    unchecked: list[str] = field(default_factory=list)
    #: True when something that should have been checked could not be (shallow history, signatures).
    incomplete: bool = False

    @property
    def ok(self) -> bool:
        """No fault was found. What was not checked is in ``unchecked``."""
        return not self.findings

    @property
    def exit_status(self) -> int:
        """0 intact, 1 broken, 3 intact as far as could be checked (section 12)."""
        return 1 if self.findings else 3 if self.incomplete else 0

    def as_dict(self) -> dict[str, Any]:
        """The report as JSON, the same in every run over the same bytes."""
        return {
            "name": self.name,
            "verdict": {0: "ok", 1: "broken", 3: "incomplete"}[self.exit_status],
            "head": {"seq": self.head_seq, "hash": self.head_hash, "commit": self.commit or None},
            "in_tail": self.in_tail,
            "side_files": self.side_files,
            "withheld": self.withheld,
            "findings": [finding.as_dict() for finding in self.findings],
            "unchecked": self.unchecked,
        }

    def add(self, code: str, seq: int | None, ident: str, text: str) -> None:
        """Note a fault once, up to a bound."""
        known = any((one.code, one.seq, one.id) == (code, seq, ident) for one in self.findings[-4:])
        if not known and len(self.findings) < MAX_FINDINGS:
            self.findings.append(Finding(code, seq, ident, text))


def verify(journal: Journal, name: str | Name) -> Report:
    """Check one branch of a journal, its tail included. Raises NotFound when there is no such branch."""
    return _checked(journal.chain(journal.resolve(name))).report


def verify_session(journal: Journal, session: str) -> list[Report]:
    """Check all branches of a session, and that they fork only where they say so (``equivocation``)."""
    checks = [_checked(journal.chain(name)) for name in journal.branches(session)]
    for number, one in enumerate(checks):
        for other in checks[:number]:
            _compare(other, one)
    return [check.report for check in checks]


def _checked(chain: Chain) -> _Check:
    check = _Check(chain)
    check.run()
    if check.leads_elsewhere:
        check = _Check(chain, walk=True)
        check.run()
    return check


class _Check:
    """One run over one branch.

    Deriving needs no walk: the derived commits are there, and the last one is the head. When the head is another
    all the same, its commits are signed or false; with ``walk`` they are read from the head back and compared.
    """

    def __init__(self, chain: Chain, *, walk: bool = False) -> None:
        self.chain = chain
        self.store = chain.store
        self.line = Line()
        self.report = Report(str(chain.name))
        self._deriver = Deriver()
        #: All that the events derive is there, and yet the ref leads elsewhere.
        self.leads_elsewhere = False
        self._walk = walk
        # Ids, 20 bytes each, of the commits that are there; read when something differs.
        self._commits: bytes | None = None
        self._first_commit = 1
        self._is_shallow = False
        self._last = 0
        self._compare_commits = True

    def run(self) -> None:
        """Fill the report. NotFound when the branch has no event."""
        try:
            oid, raw = self._look()
        except BadRef as error:
            self.report.add("wrong-ref", None, "", str(error))
            self._close()
            return
        if oid is None and not raw:
            raise NotFound(f"{self.chain.name} has no event")
        if oid is not None:
            self.report.commit = oid.hex()
            self._check_git(oid)
        self._check_tail(raw)
        self._check_name()
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
        self._last = commit.seq
        self._check_events(commit.tree)
        if self._compare_commits and self._deriver.head != oid:
            self.leads_elsewhere = not self._walk
            self.report.add("bad-commit", None, oid.hex(), "the events derive another head")

    def _walked(self) -> bytes:
        """The ids of the commits that the ref leads to, oldest first, from ``_first_commit`` on; walked once."""
        if self._commits is None:
            ids = bytearray()
            at: bytes | None = bytes.fromhex(self.report.commit)
            while at is not None and len(ids) < 20 * self._last:
                try:
                    raw = self.store.read(at, b"commit")
                except VerificationError as error:
                    self._no_commit(error, at, self._last - len(ids) // 20, bytes(ids[-20:][::-1]))
                    break
                ids += at[::-1]
                at = _parent(raw)
            if at is not None and len(ids) == 20 * self._last:
                self.report.add("bad-commit", 1, at.hex(), "the commit of the first event has a parent")
            self._commits = bytes(ids[::-1])
            self._first_commit = self._last - len(ids) // 20 + 1
        return self._commits

    def _no_commit(self, error: VerificationError, oid: bytes, seq: int, child: bytes) -> None:
        """The walk ends before ``seq``. That is no fault where git says that the history was cut, behind ``child``."""
        if error.code == "missing-object" and child.hex() in self.store.shallow_commits():
            self._is_shallow = self.report.incomplete = True
            self.report.unchecked.append(f"commits 1 to {seq}: the history is shallow; their events were checked")
        else:
            self.report.add(error.code, seq, oid.hex(), str(error))

    def _check_events(self, root: bytes) -> None:
        """Each event that must be in the head's tree, whatever the tree says."""
        pages = _Pages(self.store, root)
        for first in range(0, self._last + 1, objects.LEAF_SPAN):
            page = self._page(pages, first)
            for seq in range(max(first, 1), min(first + objects.LEAF_SPAN, self._last + 1)):
                if page is None:
                    self._lose(seq)
                else:
                    self._check_event(seq, *page.get(seq, (None, ())))
            # A forged head can claim a hundred million events that are not there.
            if len(self.report.findings) >= MAX_FINDINGS:
                self.report.unchecked.append(f"events after {seq}: there are {MAX_FINDINGS} findings already")
                return

    def _page(self, pages: _Pages, first: int) -> dict[int, tuple[bytes, Sequence[bytes]]] | None:
        try:
            return pages.page(first)
        except VerificationError as error:
            self.report.add(error.code, max(first, 1), error.oid, str(error))
        except FormatError as error:
            self.report.add(error.code, max(first, 1), "", str(error))
        return None

    def _check_event(self, seq: int, blob: bytes | None, files: Sequence[bytes]) -> None:
        event = self._read_event(seq, blob)
        if event is None or blob is None:
            # Without its bytes nothing can be derived from here on; the links of the rest still are checked.
            self._lose(seq)
            return
        self._check_line(event, seq, blob)
        if files or event.files:
            self._check_files(event, files)
        if event.seq == seq:
            self._check_commit(event, files, blob)
        else:
            # It derives the objects of another place.
            self._compare_commits = False

    def _read_event(self, seq: int, blob: bytes | None) -> Event | None:
        if blob is None:
            self.report.add("missing-object", seq, "", "the event is not in the head's tree")
            return None
        try:
            return Event.parse(self.store.read(blob, b"blob"))
        except VerificationError as error:
            self.report.add(error.code, seq, blob.hex(), str(error))
        except FormatError as error:
            self.report.add(error.code, seq, blob.hex(), str(error))
        return None

    def _lose(self, seq: int) -> None:
        self._compare_commits = False
        self.line.seq = seq
        self.line.prev = None
        self.line.hashes += bytes(32)

    def _check_line(self, event: Event, seq: int, blob: bytes) -> None:
        lost = self.line.prev is None and self.line.seq > 0
        for code, text in self.line.faults(event):
            if not (lost and code == "broken-link"):
                self.report.add(code, seq, blob.hex(), text)
        self.report.head_seq, self.report.head_hash = seq, event.hash
        if event.withheld:
            self.report.withheld.append(seq)
        if event.type == "session.seal":
            self.report.seals += 1

    def _check_files(self, event: Event, files: Sequence[bytes]) -> None:
        if len(files) != len(event.files):
            text = f"the tree has {len(files)} side files, the event names {len(event.files)}"
            self.report.add("bad-file", event.seq, event.hash, text)
            return
        for number, (oid, entry) in enumerate(zip(files, event.files, strict=True), 1):
            try:
                content = self.store.read(oid, b"blob")
            except VerificationError as error:
                self.report.add(error.code, event.seq, oid.hex(), f"side file {number}: {error}")
                continue
            self.report.side_files += 1
            if len(content) != entry["size"] or sha256(content).hexdigest() != entry["sha256"]:
                self.report.add("bad-file", event.seq, oid.hex(), f"side file {number} is not what the event says")

    def _check_commit(self, event: Event, files: Sequence[bytes], blob: bytes) -> None:
        """The commit and trees that the event derives must be there, byte for byte."""
        if not self._compare_commits:
            return
        derived = self._deriver.push(event, files, blob)
        commit = derived.commit
        if self._walk or not self.store.holds(commit[0], b"commit", commit[1]):
            self._explain_commit(event, commit[0])
        for oid, content in derived.trees:
            if not self.store.holds(oid, b"tree", content):
                self._explain(event.seq, oid, b"tree")

    def _explain_commit(self, event: Event, derived: bytes) -> None:
        """The commit that the event derives is not there: signed, missing here, damaged, or another one?"""
        actual = self._walked()
        at = 20 * (event.seq - self._first_commit)
        if at < 0:
            # The walk ended after this event and has said why; what is not shallow should still be there.
            self._explain(event.seq, derived, b"commit")
            return
        found = bytes(actual[at : at + 20])
        if found == derived:
            return
        commit = objects.parse_commit(self.store.read(found, b"commit"))
        signature = commit.signature if commit else None
        if signature and self._deriver.sign(event, signature)[0] == found:
            self.report.signatures += 1
            return
        self._compare_commits = False
        self.report.add(*_difference(event, found, commit))

    def _explain(self, seq: int, oid: bytes, kind: bytes) -> None:
        """Report what is wrong with an object that does not hold what was derived."""
        try:
            self.store.read(oid, kind)
        except VerificationError as error:
            # Only what lies behind the edge of a shallow history may be missing.
            if not (error.code == "missing-object" and self._is_shallow and seq < self._first_commit):
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
            self._check_line(event, event.seq, b"")
            self.report.in_tail += 1
        if found.damage:
            self.report.add("broken-link", line.seq + 1, "", f"tail: {found.damage}")
        if found.torn_at is not None:
            self.report.unchecked.append("the tail ends in a write that was cut and never acknowledged")

    def _check_name(self) -> None:
        name = self.chain.name
        if self.line.session is not None and (self.line.session, self.line.branch) != (name.session, name.branch):
            text = f"the events are of {self.line.session!r}, branch {self.line.branch!r}"
            self.report.add("wrong-ref", None, self.report.commit, f"{self.chain.ref}: {text}")

    def _close(self) -> None:
        report, note = self.report, self.report.unchecked.append
        signed = f"{report.signatures} signatures" if report.signatures else "no commit is signed"
        note(f"who wrote the events: {signed}")
        note(f"whether newer events were cut off: nothing pins the head, {report.head_hash} at {report.head_seq}")
        if report.seals:
            note(f"{report.seals} seals and their signatures")
        if report.withheld:
            note(f"the payloads of {len(report.withheld)} withheld events")
        report.incomplete = report.incomplete or report.signatures > 0 or report.seals > 0


class _Pages:
    """Leaf trees of the head's tree, each checked to be in the form of section 5 as far as it is walked."""

    def __init__(self, store: Any, root: bytes) -> None:
        self._store = store
        self._root_id = root
        self._root: dict[bytes, bytes] | None = None
        self._middle: dict[bytes, bytes] = {}
        self._at = -1

    def page(self, first: int) -> dict[int, tuple[bytes, Sequence[bytes]]]:
        """The events of the leaf that holds ``first``. VerificationError when a tree is missing or malformed."""
        if self._root is None:
            self._root = _folders(self._store.read(self._root_id, b"tree"))
        if self._at != first // objects.MIDDLE_SPAN:
            self._middle = {}
            self._at = first // objects.MIDDLE_SPAN
            self._middle = _folders(self._store.read(_named(self._root, objects.root_entry(first)), b"tree"))
        leaf = self._store.read(_named(self._middle, objects.middle_entry(first)), b"tree")
        return {seq: (blob, files) for seq, blob, files in objects.leaf_events(leaf)}


def _named(tree: dict[bytes, bytes], name: bytes) -> bytes:
    if name not in tree:
        raise VerificationError("missing-object", f"the head's tree has no {name.decode()}")
    return tree[name]


def _folders(tree: bytes) -> dict[bytes, bytes]:
    return {name: oid for mode, name, oid in objects.tree_entries(tree) if mode == b"40000"}


def _parent(raw: bytes) -> bytes | None:
    """The first parent of a commit, from its bytes: ``tree <40>\\n`` is 46 bytes long."""
    if raw[46:53] != b"parent ":
        return None
    try:
        return bytes.fromhex(raw[53:93].decode("ascii"))
    except ValueError:
        return None


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
    first, second = one.line.hashes, other.line.hashes
    low, high = 0, min(len(first), len(second)) // 32
    # Hashes are chained: lines that agree at an event agree on all before it.
    while low < high:
        middle = (low + high + 1) // 2
        if first[32 * middle - 32 : 32 * middle] == second[32 * middle - 32 : 32 * middle]:
            low = middle
        else:
            high = middle - 1
    if low == min(len(first), len(second)) // 32 or low in one.line.declared or low in other.line.declared:
        return
    text = f"{one.report.name} and {other.report.name} go on differently after event {low}, and neither says so"
    other.report.add("equivocation", low + 1, second[32 * low : 32 * low + 32].hex(), text)
