"""Write one branch of one session: append, flush, recover (docs/format.md sections 6, 7, 10).

Floor 2. The one place that assigns ``seq``, ``prev``, ``epoch`` and ``ts``. A cut anywhere is repaired by doing the
flush again: commits follow from events, so the same ids come out.

Where a flush can be cut, and what is then on disk:

1. before the pack has its name: the tail; a ``tmp_*`` file.
2. before the ref has moved: the tail; a pack with a ``.keep`` that no ref reaches yet.
3. before the tail is cleared: the ref; a tail whose lines are all in git already, known by their seq.
4. before the ``.keep`` is gone: as after 3, and the next writer removes the ``.keep``.
"""

from __future__ import annotations

import base64
import os
import string
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from datetime import UTC, datetime
from functools import lru_cache
from hashlib import sha256
from itertools import repeat
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from gitjournal import canonical, payload, rules, seal, sshsig
from gitjournal.chain import Appended, Chain, branch_origin
from gitjournal.errors import (
    AlreadyExists,
    ConflictError,
    DamagedTail,
    Fenced,
    FormatError,
    JournalError,
    StorageError,
    UsageError,
    VerificationError,
)
from gitjournal.event import Envelope, Event, may_hold_tags
from gitjournal.flush import Pending, Sign, publish
from gitjournal.lease import Lease
from gitjournal.line import Line
from gitjournal.objects import FileBlob
from gitjournal.seal import Seals
from gitjournal.tail import Tail

if TYPE_CHECKING:
    from gitjournal.keys import Signer

#: ``disk``: an append is on disk when it returns. ``os``: it survives the process, and the machine after a flush.
#: ``commit``: it is a git commit when it returns.
Durability = Literal["disk", "os", "commit"]

_REOPEN = "Open the session again: it recovers what is on disk."

#: The tail is flushed at this many events or bytes, and after this many idle seconds.
FLUSH_EVENTS = 512
FLUSH_BYTES = 4 * 1024 * 1024
IDLE_SECONDS = 1.0
#: A batch this large goes to git at once: its one pack costs less than a tail and a pack.
_BATCH_EVENTS = 4096
_DIRECT_EVENTS = 256
_DIRECT_BYTES = 256 * 1024
# Salts that are drawn at once, and the characters that a random byte stands for: in its last one a salt has two bits.
_SALTS = 64
_BASE64 = (string.ascii_uppercase + string.ascii_lowercase + string.digits + "-_").encode() * 4
_BASE64_END = b"AQgw" * 64


class Draft(NamedTuple):
    """An event before it has a place: what `Writer.append_many` takes.

    ``data`` may hold $gj: tags only when ``files`` says what they stand for (importers). ``ts`` defaults to now.
    """

    type: str
    data: Mapping[str, Any]
    actor: str = "host"
    turn: str | None = None
    ts: str | None = None
    files: Sequence[FileBlob] = ()


class Printed(NamedTuple):
    """A `Draft` whose payload is bytes and has been checked: ``data``, and ``listed`` for what is said of ``files``."""

    type: str
    data: bytes
    actor: str
    turn: str | None
    ts: str | None
    files: Sequence[FileBlob]
    listed: bytes


def compact(draft: Draft) -> Draft | Printed:
    """The draft in less memory, for who keeps many; itself when something is special in it, or wrong."""
    try:
        made = _printed(draft)
    except (FormatError, TypeError):
        return draft
    if made is None:
        return draft
    return Printed(draft.type, made[0], draft.actor, draft.turn, draft.ts, draft.files, made[1])


def _printed(draft: Draft) -> tuple[bytes, bytes] | None:
    """Payload and side files as canonical JSON; None when something is special in them. FormatError, TypeError."""
    if type(draft.data) is not dict:
        return None
    # Within a list, so that the payload is at level 2, as it is in the event.
    data = canonical.dumps([draft.data])[1:-1]
    if not draft.files:
        return None if payload.may_be_moved(data) or may_hold_tags(data) else (data, b"")
    if len(data) >= rules.SIDE_FILE_BYTES:
        return None
    entries = [file.entry for file in draft.files]
    rules.check_files(entries, 0)
    if not rules.only_references(data):
        rules.check_tags(draft.data, len(entries), 0)
    return data, canonical.dumps(entries)


def now() -> str:
    """The wall clock as an event's ``ts``."""
    return _stamp(time.time_ns() // 1_000_000)


@lru_cache(maxsize=1)
def _stamp(milliseconds: int) -> str:
    """Milliseconds since 1970 as a ``ts``. A batch makes many events in one."""
    return f"{_second(milliseconds // 1000)}.{milliseconds % 1000:03d}Z"


@lru_cache(maxsize=1)
def _second(seconds: int) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}"


def new_salt() -> str:
    """16 random bytes as 22 characters of base64url."""
    return base64.urlsafe_b64encode(os.urandom(16))[:22].decode()


def _salts() -> Iterator[bytes]:
    """The same without end, drawn for many events at a time. Each writer has its own: a fork must not repeat them."""
    while True:
        begins, ends = os.urandom(21 * _SALTS).translate(_BASE64), os.urandom(_SALTS).translate(_BASE64_END)
        for n in range(_SALTS):
            yield begins[21 * n : 21 * n + 21] + ends[n : n + 1]


class Writer:
    """The one writer of a branch, from taking the lease to `close`. Threads may share it."""

    def __init__(
        self,
        chain: Chain,
        *,
        durability: Durability = "disk",
        epoch: int | None = None,
        salted: bool = True,
        signer: Signer | None = None,
        sign_every: bool = False,
    ) -> None:
        """Take the lease and recover what an earlier writer left.

        ``epoch`` is fixed only by imports (1); a live writer takes the next one. ``signer`` signs the commits of seals,
        or with ``sign_every`` all that this writer makes. Raises LeaseHeld, DamagedTail,
        Fenced (an ``epoch`` below that of the head) and StorageError.
        """
        if durability not in ("disk", "os", "commit"):
            raise UsageError(f"durability {durability!a:.80} is not one of disk, os, commit")
        if epoch is not None and epoch < 1:
            raise UsageError(f"epoch {epoch} is not 1 or more")
        chain.store.check_writable()
        self.chain = chain
        self.store = chain.store
        self.durability = durability
        #: Bytes of a write that was cut and never acknowledged, now in ``<branch>.torn``.
        self.set_aside = 0
        self._salts = _salts() if salted else repeat(b"")
        self._signer = signer
        self._sign_every = sign_every
        self._seals = Seals()
        # What has been read for a seal: the next one goes on from there.
        self._sealed_line = Line()
        # Only imports fix the epoch, and only their data holds tags.
        self._live = epoch is None
        self._lock = threading.RLock()
        self._closing = threading.Event()
        self._idler: threading.Thread | None = None
        self._tail: Tail | None = None
        self._failed = ""
        self._interrupted = f"an append to {chain.name} was interrupted"
        self._note = f"gitjournal {chain.ref}\n"
        self._lease = Lease.acquire(chain.lease_path, str(chain.name))
        try:
            self._recover(epoch)
        except BaseException:
            if self._tail is not None:
                self._tail.close(remove=False)
            self._lease.release()
            raise

    def _recover(self, epoch: int | None) -> None:
        if self._lease.last_epoch:
            # The writer before died, perhaps while it moved the ref.
            self.store.drop_dead_lock(self.chain.ref)
        self._git = self.store.read_ref(self.chain.ref)
        commit = self.chain.read_commit(self._git) if self._git else None
        if commit and commit.session != self.chain.name.session:
            text = f"{self.chain.ref} leads to events of session {commit.session!r}"
            raise VerificationError("wrong-ref", text, oid=(self._git or b"").hex())
        self._deriver = self.chain.deriver_at(self._git)
        self._pending: list[Pending] = []
        self._bytes = 0
        self._head = Appended(commit.seq, commit.event_hash) if commit else None
        last_epoch = self.chain.event(commit.seq).epoch if commit else 0
        if self.chain.tail_path.exists():
            if damage := self.chain.snapshot().tail.damage:
                raise DamagedTail(
                    f"{self.chain.tail_path}: {damage}",
                    hint="The session can be read but not written. Keep a copy of the file before you mend it.",
                )
            self._tail = Tail(self.chain.tail_path)
            seq, prev = self._head or (0, None)
            events, self.set_aside = self._tail.recover(self.chain.name.session, seq, prev)
            for event in events:
                self._take(Pending(event))
                last_epoch = event.epoch
        if epoch is not None and epoch < last_epoch:
            raise Fenced(f"{self.chain.name} is at epoch {last_epoch}; a writer with epoch {epoch} may not go on")
        self.epoch = epoch or max(last_epoch, self._lease.last_epoch) + 1
        self._envelope = Envelope(self.chain.name.session, self.epoch)
        self._lease.stamp(self.epoch)
        # While events of a cut flush are pending, the packs that it left are all that keeps git from pruning them.
        self._keeps_left = bool(self._pending)
        if not self._keeps_left:
            self.store.drop_keeps(self._note)

    # --- appending -------------------------------------------------------------------------------

    @property
    def head(self) -> Appended | None:
        """The newest event, None before the first."""
        return self._head

    def append(self, draft: Draft, *, expected_seq: int | None = None) -> Appended:
        """Append one event; durable on return as the session's durability says.

        ``expected_seq`` is the seq that the head must have (compare-and-swap): ConflictError otherwise. Also raises
        Fenced, FormatError and UsageError (nothing is written) and StorageError (nothing is acknowledged).
        """
        self._lease.check_process()
        with self._lock:
            self._guard(expected_seq)
            return self._store([self._build(draft, self._head)])[0]

    def append_many(self, drafts: Iterable[Draft | Printed], *, expected_seq: int | None = None) -> list[Appended]:
        """Append a batch with one sync. Batches beyond 4,096 events or 4 MiB are stored piece by piece.

        Each piece is stored whole or not at all, and an error tells of the piece it happened in.
        """
        done: list[Appended] = []
        self._lease.check_process()
        with self._lock:
            self._guard(expected_seq)
            for piece in _pieces(self._built(drafts)):
                # Whoever makes the drafts could append between two of them.
                if piece[0].event.prev != (self._head.hash if self._head else None):
                    raise ConflictError(f"{self.chain.name} was appended to while a batch was being made")
                done += self._store(piece)
        return done

    def graft(self, items: Iterable[Pending]) -> Appended | None:
        """Append finished events as they are, to go on after the head: for our own JSONL and for transfers.

        The caller has checked the rest of the rules (`line.Line`). FormatError: ``broken-link``, ``bad-file``.
        """
        self._lease.check_process()
        with self._lock:
            self._guard(None)
            for piece in _pieces(self._fitting(items)):
                self._commit(piece)
        return self._head

    def _guard(self, expected_seq: int | None) -> None:
        if self._closing.is_set():
            raise UsageError(f"{self.chain.name} is closed")
        # A tail that failed may hold an event that was not acknowledged: another in its place would contradict it.
        failed = self._failed or (self._tail.failed if self._tail else "")
        if failed:
            raise StorageError(failed, hint="Open the session again: it recovers what is on disk.")
        self._lease.check()
        if expected_seq is None:
            return
        if not isinstance(expected_seq, int) or isinstance(expected_seq, bool) or expected_seq < 0:
            raise UsageError(f"expected_seq is {expected_seq!a:.80}, not the number of an event")
        head_seq = self._head.seq if self._head else 0
        if expected_seq != head_seq:
            raise ConflictError(
                f"{self.chain.name} is at seq {head_seq}, expected {expected_seq}",
                head_seq=head_seq,
                hint="Read the new events and decide again.",
            )

    def _built(self, drafts: Iterable[Draft | Printed]) -> Iterator[Pending]:
        head: Appended | Event | None = self._head
        for draft in drafts:
            built = self._build(draft, head)
            head = built.event
            yield built

    def _build(self, draft: Draft | Printed, head: Appended | Event | None) -> Pending:
        event = self._plain(draft, head)
        if event is not None:
            return Pending(event, draft.files)
        if isinstance(draft, Printed):
            data = canonical.loads(draft.data)
            draft = Draft(draft.type, data, draft.actor, draft.turn, draft.ts, draft.files)
        members = self._members(draft, head)
        text = canonical.dumps(members)
        files = draft.files
        if not files:
            if self._live and may_hold_tags(text):
                rules.refuse_tags(draft.data, members["seq"])
            members["data"], files = payload.extract(draft.data, text)
            if files:
                members["files"] = [file.entry for file in files]
                text = canonical.dumps(members)
        return Pending(Event.build(members, text), files)

    def _plain(self, draft: Draft | Printed, head: Appended | Event | None) -> Event | None:
        """The event of a draft in which nothing is special; None when `_build` has to look, or to say what is wrong."""
        if head is None:
            return None
        try:
            made = (draft.data, draft.listed) if isinstance(draft, Printed) else _printed(draft)
            if made is None:
                return None
            data, files = made
            kind, actor, turn, ts, salt = draft.type, draft.actor, draft.turn, draft.ts or now(), next(self._salts)
            return self._envelope.event(head.seq + 1, head.hash, ts, kind, actor, turn, data, salt, files)
        except (FormatError, TypeError):
            return None

    def _members(self, draft: Draft, head: Appended | Event | None) -> dict[str, Any]:
        members: dict[str, Any] = {
            "v": rules.VERSION,
            "session": self.chain.name.session,
            "seq": head.seq + 1 if head else 1,
            "prev": head.hash if head else None,
            "epoch": self.epoch,
            "ts": draft.ts or now(),
            "type": draft.type,
            "actor": draft.actor,
            "data": draft.data,
        }
        if draft.turn is not None:
            members["turn"] = draft.turn
        if draft.files:
            members["files"] = [file.entry for file in draft.files]
        if salt := next(self._salts):
            members["salt"] = salt.decode()
        return members

    def _fitting(self, items: Iterable[Pending]) -> Iterator[Pending]:
        head = self._head
        for item in items:
            event = item.event
            seq, prev = (head.seq + 1, head.hash) if head else (1, None)
            if event.seq != seq or event.prev != prev:
                raise FormatError("broken-link", f"does not go on after {self.chain.name}@{seq - 1}", seq=event.seq)
            if [file.entry for file in item.files] != list(event.files) or not all(map(_is_described, item.files)):
                raise FormatError("bad-file", "the side files are not those that the event names", seq=event.seq)
            head = Appended(event.seq, event.hash)
            yield item

    def _store(self, new: list[Pending]) -> list[Appended]:
        """Make new events durable: in the tail, or at once in git when the tail cannot or need not hold them."""
        size = sum(len(item.event.raw) for item in new)
        direct = self.durability == "commit" or any(item.files for item in new)
        if direct or len(new) >= _DIRECT_EVENTS or size >= _DIRECT_BYTES:
            self._commit(new)
        else:
            self._to_tail(new)
        return [Appended(item.event.seq, item.event.hash) for item in new]

    def _to_tail(self, new: list[Pending]) -> None:
        if self._tail is None:
            self._tail = Tail(self.chain.tail_path)
        # Interrupted (Ctrl-C) between here and the last line, nobody knows what is in the file.
        self._failed = self._interrupted
        try:
            self._tail.append([item.event.raw for item in new], sync=self.durability == "disk")
        except StorageError:
            # The tail knows by itself whether it can go on.
            self._failed = ""
            raise
        for item in new:
            self._take(item)
        self._failed = ""
        if len(self._pending) >= FLUSH_EVENTS or self._bytes >= FLUSH_BYTES:
            # The events are durable in the tail: a flush that fails now is tried again and lost to nobody.
            with suppress(JournalError):
                self._commit([])
        self._wake_idler()

    def _take(self, item: Pending) -> None:
        self._pending.append(item)
        self._bytes += len(item.event.raw)
        self._head = Appended(item.event.seq, item.event.hash)

    # --- sealing ---------------------------------------------------------------------------------

    def seal(self) -> Appended:
        """Append a ``session.seal`` on all events so far, signed by the writer's signer if it has one; it is in git.

        UsageError when there is no event.
        """
        self._lease.check_process()
        with self._lock:
            self._guard(None)
            name = self.chain.name
            if self._head is None:
                raise UsageError(f"{name} has no event to seal")
            root = self._seals.root(self._checked_hashes(), self._head.seq)
            signatures: list[dict[str, str]] = []
            if self._signer is not None:
                text = seal.checkpoint(name, self._head.seq, root).encode()
                signatures = [{"key": self._signer.fingerprint, "sshsig": self._signer.sign(text, seal.NAMESPACE)}]
            draft = Draft("session.seal", seal.statement(name, self._head.seq, root, signatures))
            self._commit([self._build(draft, self._head)])
            return self._head

    def _checked_hashes(self) -> bytearray:
        """The hashes of all events, 32 bytes each. FormatError where they do not follow: nobody should sign that."""
        line = self._sealed_line
        for event in self.chain.events(after=line.seq):
            for code, text in line.faults(event):
                self._sealed_line = Line()
                raise FormatError(code, f"not sealed: {text}", seq=event.seq)
        if (line.session, line.branch) != (self.chain.name.session, self.chain.name.branch):
            text = f"not sealed: the events are of {line.session!r}, branch {line.branch!r}"
            raise FormatError("wrong-ref", text, seq=line.seq)
        return line.hashes

    def _sign(self, event: Event, commit: bytes) -> str | None:
        if self._signer is None or not (self._sign_every or event.type == "session.seal"):
            return None
        return self._signer.sign(commit, sshsig.GIT)

    # --- flushing --------------------------------------------------------------------------------

    def flush(self) -> None:
        """Move everything from the tail to git. Raises StorageError, RefLocked, ConflictError, Fenced."""
        self._lease.check_process()
        with self._lock:
            if self._failed:
                raise StorageError(self._failed, hint=_REOPEN)
            if self._pending:
                self._lease.check()
                self._commit([])

    def _commit(self, new: list[Pending]) -> None:
        """Put the tail's events and then ``new`` into one pack, and move the ref."""
        todo = self._pending + new
        deriver = self._deriver.copy()
        try:
            sign = self._sign if self._signer else None
            # What is imported comes in long runs and is read from end to end.
            paged = not self._live
            ids = publish(self.store, deriver, todo, self.chain.ref, self._git, self._note, sign, paged=paged)
        except ConflictError as error:
            self._failed = f"somebody else moved the ref of {self.chain.name}: {error}"
            raise
        parent, last = self._git, todo[-1].event
        # At once: an interrupt between two of these would leave a writer that derives events twice.
        self._git, self._deriver, self._head, self._pending, self._bytes = (
            ids[-1], deriver, Appended(last.seq, last.hash), [], 0,
        )  # fmt: skip
        if self._keeps_left:
            self.store.drop_keeps(self._note)
            self._keeps_left = False
        if self._tail is not None:
            # Lines that cannot be cleared are harmless: their seq says that git has them.
            with suppress(StorageError):
                self._tail.reset()
        self._extend_index(todo, ids, parent)
        with suppress(StorageError, OSError):
            # Folding is housekeeping: a full disk is told by the next write that matters.
            self.store.fold()

    def _extend_index(self, items: Sequence[Pending], ids: list[bytes], parent: bytes | None) -> None:
        """Add commits to the derived index, which begins anew where a branch or fork begins (in what is grafted)."""
        for number in reversed(range(len(items))):
            event = items[number].event
            origin = branch_origin(event)
            if origin is not None and origin[1] == event.seq - 1:
                self.chain.index.replace(event.seq, ids[number:])
                return
        self.chain.index.extend(items[0].event.seq, ids, parent)

    def _wake_idler(self) -> None:
        self._touched = time.monotonic()
        if self._idler is None and self._pending:
            self._idler = threading.Thread(target=self._flush_when_idle, name="gitjournal-flush", daemon=True)
            self._idler.start()

    def _flush_when_idle(self) -> None:
        while True:
            with self._lock:
                wait = self._touched + IDLE_SECONDS - time.monotonic()
                if wait <= 0 or not self._pending or self._closing.is_set():
                    self._idler = None
                    # What cannot be flushed now stays in the tail; flush() and close() say why.
                    with suppress(JournalError):
                        if not self._closing.is_set():
                            self.flush()
                    return
            self._closing.wait(wait)

    def close(self) -> None:
        """Flush, then give the lease back. After an error the events are still in the tail."""
        try:
            # A thread of the parent may have held the lock when this process was forked: nobody would give it back.
            self._lease.check_process()
        except Fenced:
            self._closing.set()
            return
        with self._lock:
            if self._closing.is_set():
                return
            self._closing.set()
            try:
                if self._pending and self._failed:
                    raise StorageError(self._failed, hint="The events are in the tail: open the session again.")
                if self._pending:
                    self._lease.check()
                    self._commit([])
            finally:
                if self._tail is not None:
                    # Whoever holds the lease by now may have events in the file.
                    self._tail.close(remove=self._holds_lease() and not self._failed)
                self._lease.release()

    def _holds_lease(self) -> bool:
        try:
            self._lease.check()
        except Fenced:
            return False
        return True

    def __enter__(self) -> Writer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # The error of the block says more than what closing after it says.
        with suppress(JournalError) if kind else nullcontext():
            self.close()


def _is_described(file: FileBlob) -> bool:
    digest: str = file.entry["sha256"]
    return file.entry["size"] == len(file.data) and digest == sha256(file.data).hexdigest()


def _pieces(items: Iterable[Pending]) -> Iterator[list[Pending]]:
    """Cut a stream into batches of at most 4,096 events and about 4 MiB."""
    piece: list[Pending] = []
    size = 0
    for item in items:
        piece.append(item)
        size += len(item.event.raw)
        for file in item.files:
            size += len(file.data)
        if len(piece) >= _BATCH_EVENTS or size >= FLUSH_BYTES:
            yield piece
            piece, size = [], 0
    if piece:
        yield piece


def start_branch(
    parent: Chain, at: int, child: Chain, draft: Draft, epoch: int | None = None, sign: Sign | None = None
) -> Appended:
    """Begin ``child`` after event ``at`` of ``parent``, which may still be in its tail; ``draft`` is its first event.

    Copies nothing: the child's first commit has the parent's commit as its git parent. With ``epoch`` (imports) the
    event follows from its parent alone, without clock or chance. Raises NotFound, AlreadyExists, LeaseHeld.
    """
    child.store.check_writable()
    before = parent.event(at)
    lease = Lease.acquire(child.lease_path, str(child.name))
    try:
        if child.exists():
            raise AlreadyExists(f"{child.name} exists already")
        view = parent.snapshot()
        base = parent.commit_at(min(at, view.in_git)) if view.in_git else None
        items = [Pending(event) for event in view.tail.events if event.seq <= at]
        members: dict[str, Any] = {
            "v": rules.VERSION,
            "session": child.name.session,
            "seq": at + 1,
            "prev": before.hash,
            "epoch": epoch or before.epoch + 1,
            "ts": draft.ts or (before.ts if epoch else now()),
            "type": draft.type,
            "actor": draft.actor,
            "data": draft.data,
        }
        if epoch is None:
            members["salt"] = new_salt()
        event = Event.build(members)
        lease.stamp(event.epoch)
        note = f"gitjournal {child.ref}\n"
        ids = publish(child.store, child.deriver_at(base), [*items, Pending(event)], child.ref, None, note, sign)
        child.index.replace(event.seq, ids[-1:])
        with suppress(StorageError, OSError):
            child.store.fold()
        return Appended(event.seq, event.hash)
    finally:
        lease.release()
