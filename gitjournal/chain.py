"""One branch of one session, for reading: git and the tail as one line of events.

Floor 2. Path = seq in the head's tree, so reading walks no commits (docs/format.md section 5). Writing is `writer`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from gitjournal import objects, payload, refs, tail
from gitjournal.errors import DamagedTail, JournalError, NotFound, StorageError, VerificationError
from gitjournal.event import Event, may_hold_tags
from gitjournal.objects import Commit, Deriver
from gitjournal.seqindex import SeqIndex
from gitjournal.store import Store

# Events of one read for which it pays to have somebody read ahead.
_LONG = 2000


class Appended(NamedTuple):
    """Where an event is: its seq and event hash. The head of a branch is that of its newest event."""

    seq: int
    hash: str


class Snapshot(NamedTuple):
    """One consistent look at a branch: the commit in git (if any) and the tail that goes on after it."""

    oid: bytes | None
    commit: Commit | None
    tail: tail.Scan

    @property
    def in_git(self) -> int:
        """Seq of the newest event in git, 0 when there is none."""
        return self.commit.seq if self.commit else 0

    @property
    def head(self) -> Appended | None:
        """The newest event; None for a branch without events."""
        if self.tail.events:
            return Appended(self.tail.events[-1].seq, self.tail.events[-1].hash)
        return Appended(self.commit.seq, self.commit.event_hash) if self.commit else None


class Chain:
    """A branch as readers see it. Takes no lock; several processes may read while one writes."""

    def __init__(self, store: Store, name: refs.Name) -> None:
        self.store = store
        self.name = name
        self.ref = refs.ref_name(name, store.prefix)
        folder = store.path / "gitjournal"
        self.tail_path = folder / "tail" / f"{name.path}.jsonl"
        self.lease_path = folder / "lease" / f"{name.path}.json"
        # The commit that was read last, mostly the head: what has this id does not change.
        self._commit: tuple[bytes, Commit] | None = None
        self.index = SeqIndex(folder / "index" / f"{name.path}.seq")

    # --- where the branch stands -----------------------------------------------------------------

    def snapshot(self) -> Snapshot:
        """Ref and tail together. Looks again when a flush moved the boundary between the two looks."""
        seen: tuple[bytes | None, bytes] | None = None
        while True:
            oid = self.store.read_ref(self.ref)
            raw = tail.read(self.tail_path)
            if self.store.read_ref(self.ref) != oid:
                continue
            commit = self.read_commit(oid) if oid else None
            seq, prev = (commit.seq, commit.event_hash) if commit else (0, None)
            found = tail.scan(raw, self.name.session, seq, prev)
            if commit is not None and found.stale and not self._is_stale(commit, found.stale[-1]):
                found = replace(found, damage=f"it holds another event {found.stale[-1].seq} than git")
            # A file that is cleared and written while it is read can look damaged: believe two equal looks.
            if not found.damage or seen == (oid, raw):
                return Snapshot(oid, commit, found)
            seen = oid, raw

    def _is_stale(self, commit: Commit, event: Event) -> bool:
        """Whether git has the event, so that the tail's line is only left over from a flush."""
        blob = _entry(self._leaf(commit.tree, event.seq), objects.leaf_entry(event.seq))
        return blob == objects.git_id(b"blob", event.raw) or self._load(blob, ()).hash == event.hash

    def head(self) -> Appended | None:
        """The newest event, None when the branch does not exist."""
        return self.snapshot().head

    def exists(self) -> bool:
        """Whether the branch has an event, in git or in its tail, readable or not."""
        try:
            if self.store.read_ref(self.ref) is not None:
                return True
            view = self.snapshot()
        except StorageError:
            # It is there all the same: whoever reads the branch is told what is wrong with it.
            return True
        return view.head is not None or bool(view.tail.damage)

    def read_commit(self, oid: bytes) -> Commit:
        """A commit of the branch. VerificationError when it is missing or not in the form of section 6."""
        known = self._commit
        if known is not None and known[0] == oid:
            return known[1]
        commit = objects.parse_commit(self.store.read(oid, b"commit"))
        if commit is None:
            raise VerificationError("bad-commit", f"commit {oid.hex()} is not one of a session", oid=oid.hex())
        self._commit = oid, commit
        return commit

    # --- events ----------------------------------------------------------------------------------

    def events(self, after: int = 0, to: int | None = None) -> Iterator[Event]:
        """Events ``after`` < seq <= ``to`` in order, from git and then from the tail.

        Raises DamagedTail after the last readable event when the tail is damaged within the range.
        """
        view = self.snapshot()
        after = max(after, 0)
        last = view.in_git if to is None else min(to, view.in_git)
        if view.commit and last > after:
            yield from self._git_events(view.commit.tree, after, last)
        for event in view.tail.events:
            if event.seq > after and (to is None or event.seq <= to):
                yield self._event(event.raw, ())
        if view.tail.damage and (to is None or to > view.in_git + len(view.tail.events)):
            raise DamagedTail(f"{self.tail_path}: {view.tail.damage}")

    def event(self, seq: int) -> Event:
        """The event ``seq``, in constant time. NotFound when the branch is shorter, DamagedTail if that is unknown."""
        oid = self.store.read_ref(self.ref)
        commit = self.read_commit(oid) if oid else None
        if commit is not None and 1 <= seq <= commit.seq:
            leaf = self._leaf(commit.tree, seq)
            blob = _entry(leaf, objects.leaf_entry(seq))
            return self._load(blob, _file_ids(leaf, seq))
        view = self.snapshot()
        for event in view.tail.events:
            if event.seq == seq:
                return self._event(event.raw, ())
        # A flush between the two looks has moved the event from the tail to git.
        if self.store.read_ref(self.ref) != oid:
            return self.event(seq)
        if view.tail.damage and seq > view.in_git:
            raise DamagedTail(f"{self.tail_path}: {view.tail.damage}")
        raise NotFound(f"{self.name} has no event {seq}")

    def raw_file(self, seq: int, number: int) -> bytes:
        """Content of side file ``number`` (from 1) of event ``seq``. NotFound, VerificationError."""
        event = self.event(seq)
        if not 1 <= number <= len(event.files):
            raise NotFound(f"event {seq} of {self.name} has no side file {number}")
        return event.read_file(number)

    def in_tree(self, root_id: bytes, after: int, last: int) -> Iterator[Event]:
        """Events ``after`` < seq <= ``last`` of a root tree, if a branch has it or not. VerificationError."""
        return self._git_events(root_id, after, last)

    def _git_events(self, root_id: bytes, after: int, last: int) -> Iterator[Event]:
        read: Callable[[bytes], bytes] = self.store.run(b"blob").read
        if self.store.ahead is not None and last - after >= _LONG:
            read = self.store.ahead.reader(root_id, after, last, read)
        for _, blob, files in blobs(self.store, root_id, after, last):
            raw = read(blob)
            yield Event(raw, _Files(self, files) if files or may_hold_tags(raw) else None)

    def _leaf(self, root_id: bytes, seq: int) -> bytes:
        root = self.store.read_again(root_id, b"tree")
        middle = self.store.read_again(_entry(root, objects.root_entry(seq)), b"tree")
        return self.store.read(_entry(middle, objects.middle_entry(seq)), b"tree")

    def _load(self, blob: bytes, files: Sequence[bytes]) -> Event:
        return self._event(self.store.read(blob, b"blob", objects.EVENT_LIMIT), files)

    def _event(self, raw: bytes, files: Sequence[bytes]) -> Event:
        return Event(raw, _Files(self, files) if files or may_hold_tags(raw) else None)

    # --- commits by seq --------------------------------------------------------------------------

    def commit_at(self, seq: int) -> bytes:
        """The commit id of event ``seq``, which is in git; constant time while the derived index is good."""
        oid = self.store.read_ref(self.ref)
        if oid is None or not 1 <= seq <= self.read_commit(oid).seq:
            raise NotFound(f"{self.name} has no event {seq} in git")
        found = self._hinted(seq)
        # Index files are only hints: the commit must say that it is this very event, else the commits are walked.
        if found is None or not self._is_event(found, seq):
            first, ids = self._walk(oid, None, whole=True)
            found = ids[seq - first]
        return found

    def _is_event(self, oid: bytes, seq: int) -> bool:
        try:
            return self.read_commit(oid).event_hash == self.event(seq).hash
        except VerificationError:
            return False

    def commits(self) -> list[bytes]:
        """The ids of all commits of the branch, oldest first; walks them. NotFound when it is not in git."""
        oid = self.store.read_ref(self.ref)
        if oid is None:
            raise NotFound(f"{self.name} is not in git")
        return self._walk(oid, None, whole=True)[1]

    def owner(self, seq: int) -> refs.Name:
        """The branch that event ``seq`` was written to: this one, or the one that it was inherited from."""
        chain, seen = self, set[refs.Name]()
        # A parent that is gone or damaged is known by its name all the same.
        with suppress(JournalError):
            while chain.name not in seen:
                first = chain._indexed(seq)[0]
                origin = branch_origin(chain.event(first)) if seq < first else None
                if origin is None:
                    break
                seen.add(chain.name)
                chain = Chain(self.store, origin[0])
        return chain.name

    def _hinted(self, seq: int) -> bytes | None:
        """What the index of the branch that owns ``seq`` says."""
        try:
            return Chain(self.store, self.owner(seq))._indexed(seq)[1]
        except JournalError:
            # No loss: the commits are all in this branch's history.
            return None

    def _indexed(self, seq: int) -> tuple[int, bytes | None]:
        """(first seq of the branch's own, commit id of ``seq`` if it is one of them)."""
        oid = self.store.read_ref(self.ref)
        if oid is None:
            raise NotFound(f"{self.name} is not in git")
        bounds = self.index.bounds()
        if bounds is not None and bounds[1:] == (self.read_commit(oid).seq, oid):
            return bounds[0], self.index.get(seq)
        first, ids = self._walk(oid, bounds)
        return first, ids[seq - first] if first <= seq < first + len(ids) else None

    def _walk(
        self, oid: bytes, known: tuple[int, int, bytes] | None, *, whole: bool = False
    ) -> tuple[int, list[bytes]]:
        """Walk back from the head to where the index is right, or to where the branch begins; write the index.

        Returns (first seq, commit ids). ``whole`` walks to seq 1.
        """
        ids: list[bytes] = []
        at: bytes | None = oid
        first = 1
        while at is not None:
            commit = self.read_commit(at)
            first = commit.seq
            if known and known[0] <= first <= known[1] and self.index.get(first) == at:
                first, before = known[0], self.index.slice(known[0], first)
                ids.extend(reversed(before))
                break
            ids.append(at)
            if not whole and commit.type in ("session.branch", "session.fork") and self._begins_at(commit):
                break
            at = commit.parent
        ids.reverse()
        # The file begins where the branch does: `owner` goes by that.
        if not whole:
            self.index.replace(first, ids)
        return first, ids

    def _begins_at(self, commit: Commit) -> bool:
        blob = _entry(self._leaf(commit.tree, commit.seq), objects.leaf_entry(commit.seq))
        origin = branch_origin(self._load(blob, ()))
        return origin is not None and origin[1] == commit.seq - 1

    def deriver_at(self, oid: bytes | None) -> Deriver:
        """The deriver that goes on after commit ``oid`` (None: from the start)."""
        if oid is None:
            return Deriver()
        commit = self.read_commit(oid)
        root = self.store.read(commit.tree, b"tree")
        middle = self.store.read(_entry(root, objects.root_entry(commit.seq)), b"tree")
        leaf = self.store.read(_entry(middle, objects.middle_entry(commit.seq)), b"tree")
        return Deriver.resume(commit.seq, oid, commit.time, leaf, middle, root)


class _Files:
    """The side files of one event of a chain, by their git ids."""

    __slots__ = ("_chain", "_ids")

    def __init__(self, chain: Chain, ids: Sequence[bytes]) -> None:
        self._chain = chain
        self._ids = ids

    def data(self, event: Event) -> Mapping[str, Any]:
        data: Mapping[str, Any] = payload.resolve(event.stored_data, event.files, partial(self.file, event))
        return data

    def file(self, event: Event, number: int) -> bytes:
        if not 1 <= number <= len(self._ids):
            raise NotFound(f"event {event.seq} of {self._chain.name} has no side file {number}")
        return self._chain.store.read(self._ids[number - 1], b"blob")


def blobs(store: Store, root_id: bytes, after: int, last: int) -> Iterator[tuple[int, bytes, Sequence[bytes]]]:
    """(seq, blob id, ids of side files) of events ``after`` < seq <= ``last`` in a root tree. VerificationError."""
    root = store.read(root_id, b"tree")
    middle = b""
    for first in range((after + 1) // 100 * 100, last + 1, 100):
        if not middle or first % objects.MIDDLE_SPAN == 0:
            middle = store.read(_entry(root, objects.root_entry(first)), b"tree")
        leaf = store.read(_entry(middle, objects.middle_entry(first)), b"tree")
        for entry in objects.leaf_events(leaf):
            if after < entry[0] <= last:
                yield entry


def branch_origin(event: Event) -> tuple[refs.Name, int, str] | None:
    """(parent branch, seq, hash) that a ``session.branch`` or ``session.fork`` event goes on from; else None."""
    if event.type not in ("session.branch", "session.fork") or event.withheld:
        return None
    source = event.stored_data.get("from")
    if not isinstance(source, dict):
        return None
    session, branch, seq, digest = (source.get(key) for key in ("session", "branch", "seq", "hash"))
    if event.type == "session.branch":
        session = event.session
    if not (isinstance(session, str) and isinstance(branch, str) and isinstance(digest, str) and type(seq) is int):
        return None
    return refs.Name(session, branch), seq, digest


def _entry(tree: bytes, name: bytes) -> bytes:
    """The id of the entry ``name``. VerificationError when the tree has none."""
    mode = b"100644 " if name.endswith(b".json") else b"40000 "
    wanted = b"%s%s\x00" % (mode, name)
    at = tree.find(wanted)
    if at < 0:
        raise VerificationError("bad-tree", f"a tree has no entry {name.decode()}")
    at += len(wanted)
    if len(tree) < at + 20:
        raise VerificationError("bad-tree", "a tree is cut in the middle of an entry")
    return tree[at : at + 20]


def _file_ids(leaf: bytes, seq: int) -> Sequence[bytes]:
    if b" %08d.1\x00" % seq not in leaf:
        return ()
    return next((files for at, _, files in objects.leaf_events(leaf) if at == seq), ())
