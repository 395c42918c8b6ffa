"""A witness: it cosigns the seals of a branch as long as each goes on from the one before.

Floor 4. The rules are those of C2SP tlog-witness, with JSON and SSHSIG in the place of signed notes
(docs/verification.md section 13). A log that shows two auditors two histories must ask for cosignatures on both, and
gets them on one. This module knows no network: `Witness.answer` takes the bytes of a request, and `ask` is given a way
to send one.
"""

from __future__ import annotations

import base64
import os
import time
from collections.abc import Callable, Sequence
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from gitjournal import canonical, cosign, files, merkle, proof, rules, seal, sshsig
from gitjournal.cosign import Checkpoint, Cosignature
from gitjournal.errors import ConflictError, FormatError, JournalError, NotFound, StorageError, UsageError, disk_errors
from gitjournal.event import Event
from gitjournal.lease import locked

if TYPE_CHECKING:
    from gitjournal.journal import Journal
    from gitjournal.keys import Signer
    from gitjournal.refs import Name
    from gitjournal.signers import AllowedSigners

#: A seal with a few signatures of the largest keys, and the longest path. A request or answer has no more bytes.
MAX_BYTES = 64 * 1024
_MAX_PATH = 63
#: Whoever has an allowed key can contradict himself without end; so many proofs of it are kept.
_MAX_EVIDENCE = 1000
#: Another client can be quicker again and again.
_ATTEMPTS = 5
#: HTTP status by the code of the error. Whatever else goes wrong is the witness's own trouble.
_STATUS = {
    "usage": 400,
    "unknown-signer": 403,
    "bad-signature": 403,
    "conflict": 409,
    "equivocation": 409,
    "bad-seal": 422,
}


class Answer(NamedTuple):
    """An HTTP status, and JSON: a cosignature, or ``{"error", "message"}`` with ``size`` when it is 409."""

    status: int
    body: bytes


class Request(NamedTuple):
    """Please cosign this seal: ``path`` is the consistency proof from the first ``old_size`` events."""

    old_size: int
    path: Sequence[bytes]
    seal: Event

    @property
    def body(self) -> bytes:
        """The request as JSON."""
        path = [base64.b64encode(one).decode() for one in self.path]
        return canonical.dumps({"old_size": self.old_size, "proof": path, "seal": self.seal.raw.decode()})

    @classmethod
    def parse(cls, body: bytes) -> Request:
        """The request in a body. UsageError for anything that is none; whose seal it is has not been looked at."""
        try:
            return cls._parse(canonical.loads(body))
        except FormatError as error:
            raise UsageError(f"not a request for a cosignature: {error}") from None

    @classmethod
    def _parse(cls, members: Any) -> Request:
        if type(members) is not dict or members.keys() != {"old_size", "proof", "seal"}:
            raise FormatError("bad-member", "it has the members old_size, proof, seal")
        old_size, path, text = members["old_size"], members["proof"], members["seal"]
        if type(old_size) is not int or not 0 <= old_size <= rules.MAX_SEQ:
            raise FormatError("bad-member", "old_size is no number of events")
        if type(path) is not list or len(path) > _MAX_PATH or type(text) is not str:
            raise FormatError("bad-member", f"proof is no list of at most {_MAX_PATH} hashes, or seal no text")
        sealed = Event.parse(text.encode())
        if fault := seal.own_fault(sealed) if sealed.type == "session.seal" else "not a session.seal":
            raise FormatError("bad-seal", fault)
        return cls(old_size, [proof.path_hash(one) for one in path], sealed)


def _checkpoint(sealed: Event) -> Checkpoint:
    """What a seal in form states."""
    return cosign.parse_checkpoint(sealed.stored_data["checkpoint"])


# --- answering -----------------------------------------------------------------------------------


class Witness:
    """A witness with its key, and a folder that has the newest seal of each branch that it has cosigned.

    A witness that loses its folder must not go on with its key: it would cosign again what it has seen go another way.
    Any number of threads and processes may share the folder.
    """

    def __init__(
        self, state: Path, signer: Signer, signers: AllowedSigners, clock: Callable[[], float] = time.time
    ) -> None:
        """``signers``: whose seals are cosigned. Makes the folder when it is not there. StorageError."""
        self.signer = signer
        self._signers = signers
        self._clock = clock
        self._state = state
        self._evidence = state / "evidence"
        if not self._evidence.is_dir():
            with disk_errors(f"make the state of the witness in {state}"):
                state.mkdir(mode=0o700, parents=True, exist_ok=True)
                self._evidence.mkdir(mode=0o700, exist_ok=True)
                files.sync_folder(state)
                files.sync_folder(state.absolute().parent)

    def answer(self, body: bytes) -> Answer:
        """Answer the body of a request. Raises only for trouble of the witness's own: its disk, its key."""
        try:
            return Answer(200, self.cosign(Request.parse(body)).line)
        except JournalError as error:
            if error.code not in _STATUS:
                raise
            members = {"error": error.code, "message": str(error)}
            size = {"size": error.head_seq} if isinstance(error, ConflictError) else {}
            return Answer(_STATUS[error.code], canonical.dumps({**members, **size}) + b"\n")

    def cosign(self, request: Request) -> Cosignature:
        """Cosign a seal if nothing speaks against it.

        UsageError: the old size is above the new one. FormatError ``unknown-signer``, ``bad-signature``: no allowed
        signer has signed it; ``bad-seal``: the proof does not hold. ConflictError: the old size is not what was
        cosigned last (``head_seq`` says what was); with code ``equivocation`` when the root of that size is another
        one, and then both seals are kept as evidence. StorageError.
        """
        wanted = _checkpoint(request.seal)
        self._check_signed(request.seal, wanted)
        if request.old_size > wanted.size:
            raise UsageError(f"old_size {request.old_size} is above the {wanted.size} of the seal")
        place = self._state / sha256(wanted.name.path.encode()).hexdigest()
        # Looking, comparing and writing are one step, or a slower request would put an older size back.
        with locked(place.with_suffix(".lock")):
            self._check_growth(request, wanted, self._newest(place.with_suffix(".seal"), wanted.name))
            # Before a signature exists, so that no crash can make the witness forget what it has signed. Also when it
            # is the size of last time: the write of that time may have been cut before it was durable.
            with disk_errors(f"write {place}"):
                files.write_whole(place.with_suffix(".seal"), request.seal.raw + b"\n")
        return cosign.make(wanted, self.signer, int(self._clock()))

    def _check_signed(self, sealed: Event, wanted: Checkpoint) -> None:
        """A seal is cosigned for an allowed signer, whoever else has signed it; a wrong signature spoils it."""
        # By the clock of this witness: the ts of a seal is the word of whoever might have got hold of an old key.
        now = int(self._clock())
        message = wanted.text.encode()
        checked = [
            sshsig.check(one["sshsig"], message, seal.NAMESPACE, one["key"]) for one in sealed.stored_data["signatures"]
        ]
        right = [one.key for one in checked if isinstance(one, sshsig.Checked)]
        if not any(self._signers.accepts(key, seal.NAMESPACE, now) for key in right):
            raise FormatError("unknown-signer", "the seal has no signature that this witness accepts now")

    def _newest(self, path: Path, name: Name) -> Event | None:
        """The seal that was cosigned last, None when there was none. StorageError when it cannot be read."""
        with disk_errors(f"read {path}"):
            try:
                raw = path.read_bytes()
            except FileNotFoundError:
                return None
        try:
            sealed = Event.parse(raw.removesuffix(b"\n"))
            if not seal.own_fault(sealed) and _checkpoint(sealed).name == name:
                return sealed
        except FormatError:
            pass
        # To take it for nothing would be to forget what was cosigned.
        raise StorageError(f"{path} is not the seal that was written there")

    def _check_growth(self, request: Request, wanted: Checkpoint, newest: Event | None) -> None:
        known = _checkpoint(newest) if newest else None
        size = known.size if known else 0
        if request.old_size != size:
            raise ConflictError(f"{wanted.name} was cosigned up to {size}, not {request.old_size}", head_seq=size)
        if known is None or newest is None:
            if request.path:
                raise FormatError("bad-seal", "a proof from nothing is empty")
            return
        if wanted.size == size and wanted.root != known.root:
            self._keep_evidence(newest, request.seal, wanted)
            raise _Equivocation(f"another history of {wanted.name} was cosigned up to {size}", head_seq=size)
        if not merkle.verify_consistency(size, wanted.size, known.root, wanted.root, request.path):
            raise FormatError("bad-seal", f"the proof does not lead from {size} to {wanted.size} events")

    def _keep_evidence(self, first: Event, second: Event, wanted: Checkpoint) -> None:
        """Two seals, both signed, that cannot both be true: whoever knows the signer's key can see it."""
        branch = sha256(wanted.name.path.encode()).hexdigest()
        path = self._evidence / f"{branch[:32]}-{wanted.size}-{wanted.root.hex()[:32]}.json"
        with disk_errors(f"keep evidence in {self._evidence}"):
            full = len(os.listdir(self._evidence)) >= _MAX_EVIDENCE
            if not full:
                both = {"first": first.raw.decode(), "second": second.raw.decode()}
                files.write_whole(path, canonical.dumps(both) + b"\n")


class _Equivocation(ConflictError):
    code = "equivocation"


# --- asking --------------------------------------------------------------------------------------


def ask(journal: Journal, name: Name, send: Callable[[bytes], Answer]) -> Cosignature:
    """Have the newest seal of a branch cosigned; ``send`` takes the body of a request to the witness.

    NotFound: there is no seal. FormatError ``truncated``, ``rollback``, ``equivocation``: the witness has seen more
    events than the seal is on, or others. JournalError when it refuses or its answer is not one.
    """
    sealed = newest_seal(journal, name)
    size, old_size = sealed.seq - 1, 0
    path: list[bytes] = []
    for _ in range(_ATTEMPTS):
        answer = send(Request(old_size, path, sealed).body)
        if answer.status == 200:
            return _cosignature(answer.body, _checkpoint(sealed))
        if answer.status == 422:
            raise FormatError("rollback", f"the witness has seen other events of {name} up to {old_size}")
        if answer.status != 409:
            raise JournalError(f"the witness refuses ({answer.status}): {_message(answer.body)}")
        seen = _size(answer.body)
        if seen == old_size:
            raise FormatError("equivocation", f"the witness has seen another history of {name} up to {seen}")
        if seen > size:
            text = f"the witness has seen {seen} events of {name}, the newest seal here is on {size}"
            raise FormatError("truncated", text)
        old_size, path = seen, _path(journal, name, seen, sealed.seq)
    raise JournalError("others have the witness cosign this branch all the time", hint="Try again.")


def newest_seal(journal: Journal, name: Name) -> Event:
    """The newest signed seal of a branch that is on the branch itself. NotFound, UsageError."""
    chain = journal.chain(name)
    for seq in range(journal.head(name).seq, 0, -1):
        event = chain.event(seq)
        if event.type == "session.seal" and _is_of(event, name):
            if not event.stored_data["signatures"]:
                raise UsageError(f"the newest seal of {name} is not signed", hint=f"gj key, then: gj seal {name}")
            return event
    raise NotFound(f"{name} has no seal", hint=f"Make one with: gj seal {name}")


def _is_of(sealed: Event, name: Name) -> bool:
    """Whether a seal has the name of the branch: it begins with the seals of the one that it comes from."""
    if fault := seal.own_fault(sealed):
        raise FormatError("bad-seal", fault, seq=sealed.seq)
    return _checkpoint(sealed).name == name


def _path(journal: Journal, name: Name, old_size: int, seq: int) -> list[bytes]:
    """The proof from the seal on ``old_size`` events to the one at ``seq``."""
    if old_size == seq - 1:
        return []
    try:
        made: Any = canonical.loads(proof.consistency(journal, name, old_size + 1, seq))
    except NotFound:
        # A witness cosigns nothing but seals.
        raise FormatError("rollback", f"the witness has seen a seal of {name} on {old_size} events, not here") from None
    return [base64.b64decode(one) for one in made["path"]]


def _cosignature(body: bytes, wanted: Checkpoint) -> Cosignature:
    """The cosignature in an answer: of what was asked for, and right by its own key, whoever's that is."""
    try:
        one = cosign.parse_line(body)
        if one.checkpoint != wanted:
            raise FormatError("bad-signature", "it is of another checkpoint")
        sshsig.check(one.sshsig, one.message, cosign.NAMESPACE, one.key)
    except FormatError as error:
        raise JournalError(f"the witness's answer is no cosignature: {error}") from None
    return one


def _size(body: bytes) -> int:
    size = _members(body).get("size")
    if type(size) is not int or not 1 <= size <= rules.MAX_SEQ:
        raise JournalError("the witness answers 409 and does not say what size it knows")
    return size


def _message(body: bytes) -> str:
    return str(_members(body).get("message", "no reason given"))[:300]


def _members(body: bytes) -> dict[str, Any]:
    try:
        members = canonical.loads(body)
    except FormatError:
        members = None
    return members if type(members) is dict else {}
