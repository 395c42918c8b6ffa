"""Proofs about one event, or two seals, for somebody who has nothing else (docs/verification.md section 9).

Floor 3. A proof is made from the whole line and checked in O(log n).
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from gitjournal import canonical, merkle, seal, sshsig
from gitjournal.cosign import parse_checkpoint
from gitjournal.errors import FormatError, NotFound, UsageError
from gitjournal.event import Event
from gitjournal.line import Line
from gitjournal.trust import Trust
from gitjournal.verdict import Report

if TYPE_CHECKING:
    from gitjournal.cosign import Cosigned
    from gitjournal.journal import Journal
    from gitjournal.refs import Name
    from gitjournal.signers import AllowedSigners

FORMAT, VERSION = "gitjournal-proof", 1
#: A proof holds at most two events, escaped as JSON text.
MAX_BYTES = 64 * 1024 * 1024
_MAX_PATH = 64
_MOST_VALUES = 1000


# --- making --------------------------------------------------------------------------------------


def inclusion(journal: Journal, name: str | Name, seq: int, *, withheld: bool = False) -> bytes:
    """The proof that event ``seq`` is the one under the newest (signed) seal of the branch that covers it.

    ``withheld``: with the header in the place of the event. NotFound when no seal covers the event.
    """
    line = _read(journal, name)
    covering = [one for one in line.seals if one.seq > seq]
    # A seal that nobody signed convinces nobody: the newest signed one, if there is one.
    signed = [one for one in covering if one.stored_data.get("signatures")]
    sealed = next(reversed(signed or covering), None)
    if sealed is None:
        raise NotFound(f"no seal of {name} covers event {seq}", hint=f"Make one with: gj seal {name}")
    event = journal.event(name, seq)
    return inclusion_of(event.withhold() if withheld and not event.withheld else event, sealed, line.hashes)


def inclusion_of(event: Event, sealed: Event, hashes: merkle.Hashes) -> bytes:
    """The proof of ``event`` under the seal ``sealed``; ``hashes`` are those of all events up to the seal."""
    path = merkle.inclusion_path(hashes, event.seq - 1, sealed.seq - 1)
    return _text("inclusion", event=event.raw.decode(), path=_path(path), seal=sealed.raw.decode())


def consistency(journal: Journal, name: str | Name, first: int, second: int) -> bytes:
    """The proof that what the seal at event ``first`` covers is the beginning of what the one at ``second`` covers."""
    line = _read(journal, name)
    seals = {one.seq: one for one in line.seals}
    for seq in (first, second):
        if seq not in seals:
            there = ", ".join(map(str, seals)) or "none"
            raise NotFound(f"event {seq} of {name} is no seal", hint=f"Seals of this branch: {there}.")
    if first > second:
        raise UsageError(f"seal {first} is not older than seal {second}")
    return _text(
        "consistency",
        first=seals[first].raw.decode(),
        path=_path(merkle.consistency_path(line.hashes, first - 1, second - 1)),
        second=seals[second].raw.decode(),
    )


class _Sealed(NamedTuple):
    hashes: bytearray
    seals: list[Event]


def _read(journal: Journal, name: str | Name) -> _Sealed:
    """All event hashes of a branch, and its seals. FormatError where its events do not follow one another."""
    line, seals = Line(), []
    for event in journal.events(name):
        for code, text in line.faults(event):
            raise FormatError(code, f"nothing to prove: {text}", seq=event.seq)
        if event.type == "session.seal":
            seals.append(event)
    return _Sealed(line.hashes, seals)


def _text(kind: str, **members: Any) -> bytes:
    return canonical.dumps({"format": FORMAT, "kind": kind, "version": VERSION, **members}) + b"\n"


def _path(hashes: list[bytes]) -> list[str]:
    return [base64.b64encode(one).decode() for one in hashes]


# --- checking ------------------------------------------------------------------------------------


def check(
    raw: bytes,
    signers: AllowedSigners | None = None,
    *,
    require_signed: bool = False,
    cosigned: Cosigned | None = None,
) -> Report:
    """Check a proof file: all findings are in the report, whose head is that of the (newer) seal."""
    report = Report("proof")
    trust = Trust(report, signers)
    try:
        seals = _check(_parse(raw), report)
    except FormatError as error:
        report.add(error.code, None, "", str(error))
    else:
        for one in seals:
            trust.check_seal(one, (None, ""))
        if cosigned is not None:
            cosigned.check_proof(report, [parse_checkpoint(one.stored_data["checkpoint"]) for one in seals])
    report.note("all other events: a proof shows what it names")
    report.note("whether newer events were cut off: no head was expected")
    if require_signed and not report.signed_to:
        report.add("bad-signature", None, "", "no signature of an allowed signer is there")
    trust.close()
    if report.withheld:
        report.note(f"the payloads of withheld events: {len(report.withheld)}")
    return report


def _parse(raw: bytes) -> dict[str, Any]:
    if len(raw) > MAX_BYTES:
        raise FormatError("bad-json", f"a proof has at most {MAX_BYTES} bytes")
    if not _has_few_values(raw):
        raise FormatError("bad-json", f"a proof has at most {_MOST_VALUES} values")
    if not raw.endswith(b"\n"):
        canonical.loads(raw)
        raise FormatError("not-canonical", "the newline at the end is missing")
    proof = canonical.loads_canonical(raw[:-1])
    if type(proof) is not dict:
        raise FormatError("bad-json", "a proof is a JSON object")
    version = proof.get("version")
    if proof.get("format") != FORMAT or type(version) is not int or version != VERSION:
        raise FormatError("bad-version", "not a proof of a version that is known here")
    texts = _TEXTS.get(proof["kind"]) if type(proof.get("kind")) is str else None
    if texts is None or proof.keys() != {"format", "kind", "version", "path", *texts}:
        raise FormatError("bad-member", "the members are not those of a proof")
    if not all(type(proof[name]) is str for name in texts) or type(proof["path"]) is not list:
        raise FormatError("bad-member", "a member of the proof is of the wrong type")
    if len(proof["path"]) > _MAX_PATH:
        raise FormatError("bad-member", f"the path has more than {_MAX_PATH} hashes")
    proof["path"] = [path_hash(one) for one in proof["path"]]
    return proof


def _has_few_values(raw: bytes) -> bool:
    """Whether few of the bytes `,` `[` `{` stand outside of strings: each list of nothing would take 64 bytes."""
    # Without these escapes each quote begins or ends a string; with so many strings there are too many values as well.
    most = 4 * _MOST_VALUES + 100
    pieces = raw.replace(b"\\\\", b"").replace(b'\\"', b"").split(b'"', most)
    marks = sum(piece.count(mark) for piece in pieces[::2] for mark in (b",", b"[", b"{"))
    return len(pieces) <= most and marks <= _MOST_VALUES


#: The events in each kind of proof, in the order in which they are checked.
_TEXTS = {"inclusion": ("event", "seal"), "consistency": ("first", "second")}


def path_hash(value: object) -> bytes:
    """A hash of a path, which is 32 bytes in base64. FormatError ``bad-member`` for anything else."""
    try:
        raw = sshsig.strict_base64(value) if type(value) is str else b""
    except ValueError:
        raw = b""
    if len(raw) != merkle.HASH_BYTES:
        raise FormatError("bad-member", "a hash of the path is not 32 bytes in base64")
    return raw


def _check(proof: dict[str, Any], report: Report) -> list[Event]:
    """Check all but the signatures; the seals."""
    kind = proof["kind"]
    one, other = (_event(proof, name, report) for name in _TEXTS[kind])
    seals = [other] if kind == "inclusion" else [one, other]
    for event in seals:
        if fault := seal.own_fault(event):
            raise FormatError("bad-seal", fault)
        report.seals += 1
    report.head_seq = other.stored_data["size"]
    if not _HOLDS[kind](one, other, proof["path"]):
        raise FormatError("bad-seal", "the path does not lead to the root of the seal")
    report.proven = {
        "branch": other.stored_data["checkpoint"].partition("\n")[0].removeprefix("gitjournal/"),
        **({"event": _about(one)} if kind == "inclusion" else {"first_size": one.stored_data["size"]}),
        "size": report.head_seq,
    }
    return seals


def _about(event: Event) -> dict[str, Any]:
    about = {"seq": event.seq, "hash": event.hash, "type": event.type, "actor": event.actor, "ts": event.ts}
    return {"session": event.session, **about, "withheld": event.withheld}


def _event(proof: dict[str, Any], name: str, report: Report) -> Event:
    event = Event.parse(proof[name].encode())
    if event.withheld:
        report.withheld.append(event.seq)
    if name != "event" and event.type != "session.seal":
        raise FormatError("bad-seal", "not a session.seal")
    return event


def _is_included(event: Event, sealed: Event, path: list[bytes]) -> bool:
    size, root = sealed.stored_data["size"], bytes.fromhex(sealed.stored_data["root"])
    leaf = bytes.fromhex(event.hash)
    return event.seq <= size and merkle.verify_inclusion(leaf, event.seq - 1, size, path, root)


def _is_consistent(first: Event, second: Event, path: list[bytes]) -> bool:
    (old, old_root), (new, new_root) = (
        (one.stored_data["size"], bytes.fromhex(one.stored_data["root"])) for one in (first, second)
    )
    same = first.session == second.session
    return same and old <= new and merkle.verify_consistency(old, new, old_root, new_root, path)


_HOLDS: dict[str, Callable[[Event, Event, list[bytes]], bool]] = {
    "inclusion": _is_included,
    "consistency": _is_consistent,
}
