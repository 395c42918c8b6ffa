"""One branch of one session, for reading: git and the tail as one line of events.

Floor 2. Path = seq in the head's tree, so reading walks no commits (docs/format.md section 5). Writing is `writer`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from gitjournal import objects, payload, refs, tail
from gitjournal.errors import DamagedTail, NotFound, VerificationError
from gitjournal.objects import Commit, Deriver, Event
from gitjournal.seqindex import SeqIndex
from gitjournal.store import Store


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
        self.index = SeqIndex(folder / "index" / f"{name.path}.seq")

    # --- where the branch stands -----------------------------------------------------------------

    def snapshot(self) -> Snapshot:
        """Ref and tail together. Looks again when a flush moved the boundary between the two looks."""
        while True:
            oid = self.store.read_ref(self.ref)
            raw = tail.read(self.tail_path)
            if self.store.read_ref(self.ref) == oid:
                break
        commit = self.read_commit(oid) if oid else None
        seq, prev = (commit.seq, commit.event_hash) if commit else (0, None)
        return Snapshot(oid, commit, tail.scan(raw, self.name.session, seq, prev))

    def head(self) -> Appended | None:
        """The newest event, None when the branch does not exist."""
        return self.snapshot().head

    def exists(self) -> bool:
        """Whether the branch has an event, in git or in its tail."""
        return self.store.read_ref(self.ref) is not None or self.head() is not None

    def read_commit(self, oid: bytes) -> Commit:
        """A commit of the branch. VerificationError when it is missing or not in the form of section 6."""
        commit = objects.parse_commit(self.store.read(oid, b"commit"))
        if commit is None:
            raise VerificationError("bad-commit", f"commit {oid.hex()} is not one of a session", oid=oid.hex())
        return commit

    # --- events ----------------------------------------------------------------------------------

    def events(self, after: int = 0, to: int | None = None) -> Iterator[Event]:
        """Events ``after`` < seq <= ``to`` in order, from git and then from the tail.

        Raises DamagedTail after the last readable event when the tail is damaged within the range.
        """
        view = self.snapshot()
        last = view.in_git if to is None else min(to, view.in_git)
        if view.commit and last > after:
            yield from self._git_events(view.commit.tree, after, last)
        for event in view.tail.events:
            if event.seq > after and (to is None or event.seq <= to):
                yield self._event(event.raw, ())
        if view.tail.damage and (to is None or to > view.in_git + len(view.tail.events)):
            raise DamagedTail(f"{self.tail_path}: {view.tail.damage}")

    def event(self, seq: int) -> Event:
        """The event ``seq``, in constant time. NotFound when the branch is shorter."""
        oid = self.store.read_ref(self.ref)
        commit = self.read_commit(oid) if oid else None
        if commit is not None and 1 <= seq <= commit.seq:
            leaf = self._leaf(commit.tree, seq)
            blob = _entry(leaf, objects.leaf_entry(seq))
            return self._load(blob, _file_ids(leaf, seq))
        for event in self.snapshot().tail.events:
            if event.seq == seq:
                return self._event(event.raw, ())
        # A flush between the two looks has moved the event from the tail to git.
        if self.store.read_ref(self.ref) != oid:
            return self.event(seq)
        raise NotFound(f"{self.name} has no event {seq}")

    def raw_file(self, seq: int, number: int) -> bytes:
        """Content of side file ``number`` (from 1) of event ``seq``. NotFound, VerificationError."""
        oid = self.store.read_ref(self.ref)
        commit = self.read_commit(oid) if oid else None
        if commit is None or not 1 <= seq <= commit.seq:
            raise NotFound(f"{self.name} has no event {seq} with side files")
        files = _file_ids(self._leaf(commit.tree, seq), seq)
        if not 1 <= number <= len(files):
            raise NotFound(f"event {seq} of {self.name} has no side file {number}")
        return self.store.read(files[number - 1], b"blob")

    def _git_events(self, root_id: bytes, after: int, last: int) -> Iterator[Event]:
        root = self.store.read(root_id, b"tree")
        middle = b""
        for first in range((after + 1) // 100 * 100, last + 1, 100):
            if not middle or first % objects.MIDDLE_SPAN == 0:
                middle = self.store.read(_entry(root, objects.root_entry(first)), b"tree")
            leaf = self.store.read(_entry(middle, objects.middle_entry(first)), b"tree")
            for seq, blob, files in objects.leaf_events(leaf):
                if after < seq <= last:
                    yield self._load(blob, files)

    def _leaf(self, root_id: bytes, seq: int) -> bytes:
        root = self.store.read(root_id, b"tree")
        middle = self.store.read(_entry(root, objects.root_entry(seq)), b"tree")
        return self.store.read(_entry(middle, objects.middle_entry(seq)), b"tree")

    def _load(self, blob: bytes, files: Sequence[bytes]) -> Event:
        return self._event(self.store.read(blob, b"blob"), files)

    def _event(self, raw: bytes, files: Sequence[bytes]) -> Event:
        return Event(raw, partial(self._resolve, files) if b'"$gj:' in raw else None)

    def _resolve(self, files: Sequence[bytes], event: Event) -> Mapping[str, Any]:
        def load(number: int) -> bytes:
            if not 1 <= number <= len(files):
                raise NotFound(f"event {event.seq} of {self.name} has no side file {number}")
            return self.store.read(files[number - 1], b"blob")

        data: Mapping[str, Any] = payload.resolve(event.stored_data, event.files, load)
        return data

    # --- commits by seq --------------------------------------------------------------------------

    def commit_at(self, seq: int) -> bytes:
        """The commit id of event ``seq``, which is in git; constant time while the derived index is good."""
        oid = self.store.read_ref(self.ref)
        if oid is None or seq < 1:
            raise NotFound(f"{self.name} has no event {seq} in git")
        bounds = self.index.bounds()
        if bounds is not None and bounds[2] == oid:
            first, last = bounds[:2]
            own, found = self.index.get(first), self.index.get(seq)
        else:
            first, ids = self._walk(oid, bounds)
            last = first + len(ids) - 1
            own, found = ids[0], ids[seq - first] if first <= seq <= last else None
        if seq > last:
            raise NotFound(f"{self.name} has no event {seq} in git")
        if seq < first:
            found = self._parent_commit(first, own, seq)
        # The file is only a hint: what it names must say that it is this event, else the commits are walked.
        if found is None or not self._is_event(found, seq):
            first, ids = self._walk(oid, None, whole=True)
            found = ids[seq - first]
        return found

    def _is_event(self, oid: bytes, seq: int) -> bool:
        try:
            return self.read_commit(oid).seq == seq
        except VerificationError:
            return False

    def _parent_commit(self, first: int, own: bytes | None, seq: int) -> bytes | None:
        """The commit ``seq`` before this branch began at ``first`` with commit ``own``: its parent has it."""
        origin = branch_origin(self.event(first))
        if origin is None or own is None or origin[1] != first - 1:
            return None
        try:
            parent = Chain(self.store, origin[0])
            # The parent must still hold the very commit that this branch goes on from.
            joint = self.read_commit(own).parent
            return parent.commit_at(seq) if parent.commit_at(first - 1) == joint else None
        except (NotFound, VerificationError):
            return None

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
    return tree[at : at + 20]


def _file_ids(leaf: bytes, seq: int) -> Sequence[bytes]:
    if b" %08d.1\x00" % seq not in leaf:
        return ()
    return next((files for at, _, files in objects.leaf_events(leaf) if at == seq), ())
