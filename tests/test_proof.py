"""Proofs of one event and of two seals, and pins: made, checked, and attacked (docs/verification.md)."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import gitjournal
from gitjournal import canonical, keys, pins, proof
from gitjournal.chain import Appended
from gitjournal.errors import NotFound, StorageError, UsageError
from gitjournal.journal import Journal
from gitjournal.keys import Signer
from gitjournal.pins import Memory, Pin
from gitjournal.refs import Name
from gitjournal.signers import AllowedSigners
from gitjournal.verdict import Report
from gitjournal.verify import Checks, verify

SEALS = (4, 9, 14, 21)


@pytest.fixture(scope="module")
def ana(tmp_path_factory: pytest.TempPathFactory) -> Signer:
    return keys.generate(tmp_path_factory.mktemp("ana") / "key")


@pytest.fixture(scope="module")
def sealed(tmp_path_factory: pytest.TempPathFactory, ana: Signer) -> Journal:
    """Session s with 22 events; those of `SEALS` are seals."""
    journal = gitjournal.init(tmp_path_factory.mktemp("proof") / "journal")
    with journal.session("s", create=True, signer=ana, sign="off") as s:
        for seq in range(2, 23):
            if seq in SEALS:
                s.seal()
            else:
                s.append("message", {"n": seq}, actor="user")
    return journal


def findings(report: Report) -> list[str]:
    assert all((one.seq, one.id) == (None, "") for one in report.findings)
    return [one.code for one in report.findings]


def check(raw: bytes, *signers: Signer) -> Report:
    return proof.check(raw, AllowedSigners.parse("".join(f"ana {one.line}\n" for one in signers)) if signers else None)


def changed(raw: bytes, change: Callable[[dict[str, Any]], object]) -> bytes:
    members = json.loads(raw)
    change(members)
    return canonical.dumps(members) + b"\n"


# --- inclusion -----------------------------------------------------------------------------------


def test_every_event_under_a_seal_is_proven(sealed: Journal, ana: Signer) -> None:
    for seq in range(1, SEALS[-1]):
        for withheld in (False, sealed.event("s", seq).type != "session.seal" and seq > 1):
            report = check(proof.inclusion(sealed, "s", seq, withheld=withheld), ana)
            assert (report.ok, report.head_seq, report.signed_to) == (True, SEALS[-1] - 1, SEALS[-1] - 1)
            assert report.withheld == ([seq] if withheld else [])


def test_an_event_behind_the_last_seal_has_no_proof(sealed: Journal) -> None:
    for seq in (SEALS[-1], SEALS[-1] + 1):
        with pytest.raises(NotFound, match="no seal"):
            proof.inclusion(sealed, "s", seq)


def test_a_proof_survives_the_journal(sealed: Journal, ana: Signer) -> None:
    raw = proof.inclusion(sealed, "s", 2)
    assert check(raw, ana).ok
    assert check(raw).exit_status == 3, "nobody vouches for the key"
    assert findings(proof.check(raw, AllowedSigners.parse(b""), require_signed=True)) == [
        "unknown-signer",
        "bad-signature",
    ]


HASH = base64.b64encode(b"x" * 32).decode()
ATTACKS: dict[str, tuple[Callable[[dict[str, Any]], object], str]] = {
    "another-event": (lambda m: m.update(event=m["event"].replace('"n":5', '"n":6')), "bad-seal"),
    "another-seq": (lambda m: m.update(event=m["event"].replace('"seq":5', '"seq":6')), "bad-seal"),
    "path-swapped": (lambda m: m["path"].reverse(), "bad-seal"),
    "path-cut": (lambda m: m["path"].pop(), "bad-seal"),
    "path-longer": (lambda m: m["path"].append(HASH), "bad-seal"),
    "path-empty": (lambda m: m.update(path=[]), "bad-seal"),
    "hash-of-31-bytes": (lambda m: m["path"].append(base64.b64encode(b"x" * 31).decode()), "bad-member"),
    "hash-without-padding": (lambda m: m["path"].append(HASH.rstrip("=")), "bad-member"),
    "65-hashes": (lambda m: m.update(path=[HASH] * 65), "bad-member"),
    "path-of-numbers": (lambda m: m.update(path=[1]), "bad-member"),
    "path-no-list": (lambda m: m.update(path={}), "bad-member"),
    "seal-is-a-message": (lambda m: m.update(seal=m["event"]), "bad-seal"),
    "seal-no-text": (lambda m: m.update(seal={}), "bad-member"),
    "seal-size": (lambda m: m.update(seal=m["seal"].replace('"size":20', '"size":19')), "bad-seal"),
    "seal-checkpoint": (lambda m: m.update(seal=m["seal"].replace("\\n20\\n", "\\n19\\n")), "bad-seal"),
    "seal-garbage": (lambda m: m.update(seal="{"), "bad-json"),
    "event-not-canonical": (lambda m: m.update(event=m["event"] + " "), "not-canonical"),
    "kind": (lambda m: m.update(kind="consistency"), "bad-member"),
    "kind-unknown": (lambda m: m.update(kind="x"), "bad-member"),
    "kind-no-text": (lambda m: m.update(kind=[]), "bad-member"),
    "member-added": (lambda m: m.update(more=1), "bad-member"),
    "member-missing": (lambda m: m.pop("path"), "bad-member"),
    "version": (lambda m: m.update(version=2), "bad-version"),
    "version-true": (lambda m: m.update(version=True), "bad-version"),
    "format": (lambda m: m.update(format="x"), "bad-version"),
}


@pytest.mark.parametrize("how", ATTACKS)
def test_forged_proof(sealed: Journal, ana: Signer, how: str) -> None:
    change, code = ATTACKS[how]
    assert findings(check(changed(proof.inclusion(sealed, "s", 5), change), ana)) == [code]


@pytest.mark.parametrize(
    ("raw", "code"),
    [(b"", "bad-json"), (b"[]\n", "bad-json"), (b"\n", "bad-json"), (b"{}\n", "bad-version"), (b"\xff\n", "bad-json")],
)
def test_what_is_no_proof(raw: bytes, code: str) -> None:
    assert findings(check(raw)) == [code]


def test_white_space_around_a_proof(sealed: Journal) -> None:
    raw = proof.inclusion(sealed, "s", 5)
    for other in (raw[:-1], raw + b"\n", b" " + raw, raw.replace(b":", b": ", 1)):
        assert findings(check(other)) == ["not-canonical"]


def test_every_byte_of_a_proof_counts(sealed: Journal, ana: Signer) -> None:
    raw = proof.inclusion(sealed, "s", 5)
    for at in range(len(raw)):
        flipped = raw[:at] + bytes([raw[at] ^ 1]) + raw[at + 1 :]
        report = check(flipped, ana)
        # The seal's own ts, turn, prev, salt and so on are not what it states, and nobody has signed them.
        if report.ok:
            seal_at = raw.index(b'"seal":')
            assert at > seal_at, at
            assert json.loads(json.loads(flipped)["seal"])["data"] == json.loads(json.loads(raw)["seal"])["data"]


# --- consistency ---------------------------------------------------------------------------------


def test_every_two_seals_are_consistent(sealed: Journal, ana: Signer) -> None:
    for n, first in enumerate(SEALS):
        for second in SEALS[n:]:
            report = check(proof.consistency(sealed, "s", first, second), ana)
            assert (report.ok, report.seals, report.head_seq) == (True, 2, second - 1)


def test_seals_in_the_wrong_order_or_none(sealed: Journal) -> None:
    with pytest.raises(UsageError):
        proof.consistency(sealed, "s", 9, 4)
    with pytest.raises(NotFound, match="no seal") as caught:
        proof.consistency(sealed, "s", 5, 9)
    assert "4, 9, 14, 21" in caught.value.hint


def test_a_rewritten_history_is_not_consistent(sealed: Journal, ana: Signer, tmp_path: Path) -> None:
    other = gitjournal.init(tmp_path / "other")
    with other.session("s", create=True, signer=ana, sign="off") as s:
        s.append_many([("message", {"n": n}, "user") for n in range(12)])
        s.seal()
    seal = other.event("s", 14).raw.decode()
    forged = changed(proof.consistency(sealed, "s", 9, 14), lambda m: m.update(second=seal))
    assert findings(check(forged, ana)) == ["bad-seal"]


def test_seals_of_two_sessions_are_not_consistent(sealed: Journal, ana: Signer) -> None:
    def change(members: dict[str, Any]) -> None:
        seal = members["first"].replace('"session":"s"', '"session":"t"').replace("gitjournal/s/", "gitjournal/t/")
        members["first"] = seal

    assert findings(check(changed(proof.consistency(sealed, "s", 9, 14), change), ana)) == ["bad-seal"]


# --- pins ----------------------------------------------------------------------------------------


def expecting(journal: Journal, seq: int, digest: str) -> list[tuple[str, int | None]]:
    report = verify(journal, "s", Checks(expected={Name("s"): [Appended(seq, digest)]}))
    return [(one.code, one.seq) for one in report.findings]


def test_a_pinned_head(sealed: Journal) -> None:
    for event in sealed.events("s"):
        assert expecting(sealed, event.seq, event.hash) == []


def test_dropped_tail_against_a_pin(sealed: Journal) -> None:
    assert expecting(sealed, 23, "0" * 64) == [("truncated", 22)]


def test_rewrite_against_a_pin(sealed: Journal) -> None:
    assert expecting(sealed, 7, sealed.event("s", 8).hash) == [("rollback", 7)]


def test_pins_are_lines_that_read_back(sealed: Journal) -> None:
    made = list(pins.take(sealed, [Name("s"), Name("journal")]))
    assert pins.parse(b"".join(one.line for one in made)) == made
    assert made[0] == Pin(Name("s"), Appended(22, sealed.event("s", 22).hash))


@pytest.mark.parametrize(
    "line",
    [
        b"x", b"[]", b"{}", b'{"name":"s/main","seq":1}', b'{"hash":"00","name":"s/main","seq":1}', b"\xff",
        b'{"hash":"%s","name":"s","seq":1}' % (b"0" * 64), b'{"hash":"%s","name":"s/main","seq":0}' % (b"0" * 64),
        b'{"hash":"%s","name":"s/main","seq":true}' % (b"0" * 64), b'{"hash":"%s","name":1,"seq":1}' % (b"0" * 64),
        b'{"hash":"%s","name":"s/../main","seq":1}' % (b"0" * 64),
    ],
)  # fmt: skip
def test_what_is_no_pin(line: bytes) -> None:
    with pytest.raises(UsageError, match="line 2"):
        pins.parse(b"\n" + line + b"\n")


def test_the_memory_keeps_the_newest_heads(tmp_path: Path) -> None:
    memory = Memory(tmp_path / "state", tmp_path / "journal")
    assert memory.heads() == {}
    memory.keep([Pin(Name("s"), Appended(3, "1" * 64)), Pin(Name("a b", "c/d"), Appended(1, "2" * 64))])
    memory.keep([Pin(Name("s"), Appended(4, "3" * 64))])
    again = Memory(tmp_path / "state", tmp_path / "journal")
    assert again.heads() == {Name("s"): (4, "3" * 64), Name("a b", "c/d"): (1, "2" * 64)}
    assert Memory(tmp_path / "state", tmp_path / "other").heads() == {}
    again.forget()
    again.forget()
    assert again.heads() == {}


def test_a_memory_that_cannot_be_kept_or_read(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    memory = Memory(tmp_path / "file", tmp_path / "journal")
    assert memory.heads() == {}
    with pytest.raises(StorageError):
        memory.keep([Pin(Name("s"), Appended(3, "1" * 64))])
    folder = tmp_path / "state"
    other = Memory(folder, tmp_path / "journal")
    other.keep([Pin(Name("s"), Appended(3, "1" * 64))])
    next(folder.iterdir()).write_bytes(b"garbage")
    with pytest.raises(UsageError, match="line 1 of the pins is not one"):
        other.heads()
    other.keep([Pin(Name("s"), Appended(4, "2" * 64))])
    assert other.heads() == {Name("s"): Appended(4, "2" * 64)}, "a damaged one begins anew"


def test_a_branch_that_was_deleted_on_purpose_is_forgotten(tmp_path: Path) -> None:
    memory = Memory(tmp_path / "state", tmp_path / "journal")
    memory.drop([Name("s")])
    assert not (tmp_path / "state").exists(), "nothing to forget"
    memory.keep([Pin(Name("s"), Appended(3, "1" * 64)), Pin(Name("t"), Appended(1, "2" * 64))])
    memory.drop([Name("s"), Name("never")])
    assert memory.heads() == {Name("t"): Appended(1, "2" * 64)}
