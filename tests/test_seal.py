"""Seals and signatures: made, checked, and attacked (docs/verification.md section 9)."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support import event, git, git_text, members

import gitjournal
from gitjournal import canonical, keys, merkle, seal, signing
from gitjournal.errors import FormatError, NotFound, UsageError
from gitjournal.event import Event
from gitjournal.journal import Journal
from gitjournal.keys import Signer
from gitjournal.refs import Name
from gitjournal.signers import AllowedSigners
from gitjournal.verify import Checks, Report, verify

TRUNK = Name("s")
TS = "2026-01-02T03:04:05.678Z"


@pytest.fixture(scope="module")
def ana(tmp_path_factory: pytest.TempPathFactory) -> Signer:
    return keys.generate(tmp_path_factory.mktemp("ana") / "key")


@pytest.fixture(scope="module")
def eve(tmp_path_factory: pytest.TempPathFactory) -> Signer:
    return keys.generate(tmp_path_factory.mktemp("eve") / "key")


def allowed(*signers: Signer, options: str = "") -> AllowedSigners:
    return AllowedSigners.parse("".join(f"p{n} {options} {one.line}\n" for n, one in enumerate(signers)))


def checked(journal: Journal, name: str = "s", **checks: Any) -> Report:
    return verify(gitjournal.open(journal.path), name, Checks(**checks))


def found(report: Report) -> list[tuple[str, int | None]]:
    return [(one.code, one.seq) for one in report.findings]


# --- made ----------------------------------------------------------------------------------------


def test_a_session_is_sealed_when_it_is_closed(journal: Journal, ana: Signer) -> None:
    with journal.session("s", create=True, signer=ana) as s:
        s.append("message", {"role": "user", "parts": []})
    types = [one.type for one in journal.events("s")]
    assert types == ["session.start", "message", "session.seal"]
    with journal.session("s", signer=ana):
        pass
    assert journal.head("s").seq == 3, "nothing was written: nothing to seal"
    report = checked(journal, signers=allowed(ana), require_signed=True)
    assert (report.findings, report.exit_status, report.signed_to, report.signatures) == ([], 0, 3, 2)
    assert [one.principals for one in report.signers.values()] == ["p0"]


def test_stock_git_says_good_of_the_commit_of_a_seal(journal: Journal, ana: Signer, tmp_path: Path) -> None:
    with journal.session("s", create=True, signer=ana, sign="every") as s:
        s.append("message", {})
    file = tmp_path / "allowed_signers"
    file.write_text(f"ana {ana.line}\n")
    commits = git_text("rev-list", "s/main", cwd=journal.path).split()
    assert len(commits) == 3
    for commit in commits:
        git("-c", f"gpg.ssh.allowedSignersFile={file}", "verify-commit", commit, cwd=journal.path)
    git("fsck", "--strict", cwd=journal.path)


def test_seals_grow_with_the_line(journal: Journal, ana: Signer) -> None:
    with journal.session("s", create=True, signer=ana) as s:
        for n in range(5):
            s.append_many([("message", {"n": k}, "user") for k in range(n)])
            s.seal()
    seals = [one for one in journal.events("s") if one.type == "session.seal"]
    hashes = b"".join(bytes.fromhex(one.hash) for one in journal.events("s"))
    assert len(seals) == 5
    for one in seals:
        assert one.data["root"] == merkle.root(hashes[: 32 * (one.seq - 1)]).hex()
    assert checked(journal, signers=allowed(ana)).ok


def test_a_seal_without_a_key_is_a_statement_that_nobody_signed(journal: Journal) -> None:
    with journal.session("s", create=True) as s:
        s.seal()
    report = checked(journal)
    assert (report.ok, report.seals, report.signatures, report.exit_status) == (True, 1, 0, 0)


def test_a_seal_of_a_branch_and_a_fork(journal: Journal, ana: Signer) -> None:
    with journal.session("s p/ö", create=True, signer=ana) as s:
        s.append("message", {})
    journal.branch("s p/ö", at=2, as_="b..c")
    journal.fork("s p/ö", at=2, session="f")
    for name in (Name("s p/ö", "b..c"), Name("f")):
        with journal.session(name, signer=ana) as s:
            s.append("message", {})
        report = verify(journal, name, Checks(signers=allowed(ana)))
        assert report.ok and report.signed_to == 5
        text = journal.event(name, 5).data["checkpoint"]
        assert text.split("\n")[0] == f"gitjournal/{name.path}"


def test_settings_of_the_journal_decide(journal: Journal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "key"
    keys.generate(path)
    assert signing.read(journal.store) == ("off", "")
    signing.write(journal.store, signing.Policy("seal", str(path)))
    with gitjournal.open(journal.path).session("s", create=True) as s:
        s.append("message", {})
    assert journal.event("s", 3).type == "session.seal"
    with gitjournal.open(journal.path).session("s", sign="off") as s:
        s.append("message", {})
    assert journal.head("s").seq == 4
    path.unlink()
    with pytest.raises(NotFound), gitjournal.open(journal.path).session("s"):
        pass
    git("config", "--unset", "gitjournal.signingkey", cwd=journal.path)
    with pytest.raises(UsageError, match="no key"), gitjournal.open(journal.path).session("s"):
        pass
    git("config", "gitjournal.sign", "sometimes", cwd=journal.path)
    with pytest.raises(UsageError, match="sometimes"), gitjournal.open(journal.path).session("s"):
        pass


def test_a_key_that_fails_at_the_end_loses_no_event(journal: Journal, ana: Signer) -> None:
    class Broken(Signer):
        public = ana.public

        def sign(self, message: bytes, namespace: str) -> str:
            raise UsageError("the token is gone")

    with pytest.raises(UsageError, match="token"), journal.session("s", create=True, signer=Broken()) as s:
        s.append("message", {})
    assert [one.type for one in journal.events("s")] == ["session.start", "message"]
    with journal.session("s", signer=ana) as s:
        s.append("message", {})
    assert checked(journal, signers=allowed(ana)).ok


def test_nobody_signs_a_line_that_is_not_one(journal: Journal, ana: Signer) -> None:
    with journal.session("s", create=True) as s:
        s.append_many([("message", {"n": n}, "user") for n in range(3)])
    # As an attacker who can write the repository: event 3 is another one, and commits are made for it.
    events = list(journal.events("s"))
    events[2] = event(seq=3, prev=events[1].hash, session="s", data={"n": "forged"})
    from test_verify import Attack, Item

    Attack(journal.path).forge([Item.of(one) for one in events])
    with pytest.raises(FormatError, match="not sealed"), gitjournal.open(journal.path).session("s", signer=ana) as s:
        s.seal()


def test_an_actor_who_is_called_like_a_header(journal: Journal, ana: Signer) -> None:
    with journal.session("s", create=True, signer=ana, sign="every") as s:
        s.append("message", {}, actor="gpgsig")
    assert checked(journal, signers=allowed(ana)).ok


def test_a_second_close_says_nothing_new(journal: Journal, ana: Signer) -> None:
    class Broken(Signer):
        public = ana.public

        def sign(self, message: bytes, namespace: str) -> str:
            raise UsageError("the token is gone")

    with journal.session("s", create=True, signer=Broken()) as s:
        s.append("message", {})
        with pytest.raises(UsageError, match="token"):
            s.close()


def test_nobody_seals_a_line_under_another_name(journal: Journal, ana: Signer) -> None:
    with journal.session("s", create=True) as s:
        s.append("message", {})
    git("update-ref", "refs/heads/s/evil", "refs/heads/s/main", cwd=journal.path)
    with pytest.raises(FormatError, match="not sealed"), journal.session("s/evil", signer=ana) as s:
        s.seal()


def test_the_first_commit_of_a_branch_is_signed_where_every_one_is(journal: Journal, tmp_path: Path) -> None:
    path = tmp_path / "key"
    keys.generate(path)
    with journal.session("s", create=True) as s:
        s.append("message", {})
    signing.write(journal.store, signing.Policy("every", str(path)))
    journal.branch("s", at=2, as_="b")
    assert b"gpgsig" in git("cat-file", "-p", "s/b", cwd=journal.path).stdout


def test_reserved_types_cannot_be_appended(journal: Journal) -> None:
    with journal.session("s", create=True) as s, pytest.raises(UsageError):
        s.append("session.seal", {})


# --- attacked ------------------------------------------------------------------------------------


class Forger:
    """Events 1 to 4 of session s, a seal at 5, and what an attacker makes of it; commits follow from the events."""

    def __init__(self, journal: Journal, signer: Signer) -> None:
        self.journal = journal
        self.signer = signer
        self.events: list[Event] = []
        for n in range(1, 5):
            self.add("session.start" if n == 1 else "message", {"n": n})

    def add(self, kind: str, data: dict[str, Any], **changes: Any) -> None:
        prev = self.events[-1].hash if self.events else None
        changes = {"session": "s", "type": kind, "data": data, "ts": TS, **changes}
        self.events.append(Event.build(members(len(self.events) + 1, prev, **changes)))

    @property
    def root(self) -> bytes:
        return merkle.root(b"".join(bytes.fromhex(one.hash) for one in self.events))

    def statement(self, name: Name = TRUNK, *, namespace: str = seal.NAMESPACE) -> dict[str, Any]:
        size = len(self.events)
        text = seal.checkpoint(name, size, self.root)
        signature = {"key": self.signer.fingerprint, "sshsig": self.signer.sign(text.encode(), namespace)}
        return seal.statement(name, size, self.root, [signature])

    def publish(self) -> None:
        self.journal.graft(Name("s"), [(one, ()) for one in self.events])


@pytest.fixture
def forger(journal: Journal, ana: Signer) -> Forger:
    return Forger(journal, ana)


def test_a_good_seal(forger: Forger, ana: Signer) -> None:
    forger.add("session.seal", forger.statement())
    forger.add("message", {})
    forger.publish()
    report = checked(forger.journal, signers=allowed(ana))
    assert (found(report), report.signed_to, report.seals) == ([], 4, 1)
    assert any(note.startswith("events after the last accepted signature") for note in report.unchecked)


CHANGES: dict[str, Callable[[dict[str, Any]], object]] = {
    "size": lambda data: data.update(size=3),
    "size-as-text": lambda data: data.update(size="4"),
    "size-true": lambda data: data.update(size=True),
    "root": lambda data: data.update(root="0" * 64),
    "root-upper-case": lambda data: data.update(root=data["root"].upper()),
    "checkpoint": lambda data: data.update(checkpoint=data["checkpoint"].replace("\n4\n", "\n5\n")),
    "checkpoint-branch": lambda data: data.update(checkpoint=data["checkpoint"].replace("/main", "/b")),
    "checkpoint-session": lambda data: data.update(checkpoint=data["checkpoint"].replace("/s/", "/t/")),
    "checkpoint-extension": lambda data: data.update(checkpoint=data["checkpoint"] + "more\n"),
    "member-missing": lambda data: data.pop("root"),
    "member-added": lambda data: data.update(more=1),
    "signatures-no-list": lambda data: data.update(signatures={}),
    "signature-member": lambda data: data["signatures"][0].update(more=""),
    "signature-key-number": lambda data: data["signatures"][0].update(key=1),
}


@pytest.mark.parametrize("how", CHANGES)
def test_forged_seal(forger: Forger, ana: Signer, how: str) -> None:
    data = forger.statement()
    CHANGES[how](data)
    forger.add("session.seal", data)
    forger.publish()
    assert found(checked(forger.journal, signers=allowed(ana))) == [("bad-seal", 5)]


def test_replayed_seal_at_a_later_event(forger: Forger, ana: Signer) -> None:
    data = forger.statement()
    forger.add("message", {})
    forger.add("session.seal", data)
    forger.publish()
    assert found(checked(forger.journal, signers=allowed(ana))) == [("bad-seal", 6)]


def test_replayed_seal_of_another_branch(forger: Forger, ana: Signer) -> None:
    forger.add("session.seal", forger.statement(Name("s", "b")))
    forger.publish()
    assert found(checked(forger.journal, signers=allowed(ana))) == [("bad-seal", 5)]


def test_replayed_seal_of_another_session(forger: Forger, ana: Signer) -> None:
    forger.add("session.seal", forger.statement(Name("t")))
    forger.publish()
    assert found(checked(forger.journal, signers=allowed(ana))) == [("bad-seal", 5)]


def test_signature_in_the_namespace_of_git(forger: Forger, ana: Signer) -> None:
    forger.add("session.seal", forger.statement(namespace="git"))
    forger.publish()
    assert found(checked(forger.journal, signers=allowed(ana))) == [("bad-signature", 5)]


def test_signature_moved_from_another_seal(forger: Forger, ana: Signer) -> None:
    moved = forger.statement()["signatures"]
    forger.add("message", {})
    forger.add("session.seal", {**forger.statement(), "signatures": moved})
    forger.publish()
    assert found(checked(forger.journal, signers=allowed(ana))) == [("bad-signature", 6)]


def test_signature_under_the_name_of_another_key(forger: Forger, ana: Signer, eve: Signer) -> None:
    data = forger.statement()
    data["signatures"][0]["key"] = eve.fingerprint
    forger.add("session.seal", data)
    forger.publish()
    assert found(checked(forger.journal, signers=allowed(ana, eve))) == [("bad-signature", 5)]


def test_key_substitution(forger: Forger, ana: Signer, eve: Signer) -> None:
    """Eve rewrites the session and signs it herself."""
    forger.signer = eve
    forger.add("session.seal", forger.statement())
    forger.publish()
    report = checked(forger.journal, signers=allowed(ana), require_signed=True)
    assert found(report) == [("unknown-signer", 5), ("bad-signature", None)]
    alone = checked(forger.journal)
    assert (alone.exit_status, alone.as_dict()["verdict"]) == (3, "incomplete"), "nobody vouches for the key"


def test_signature_stripping(forger: Forger, ana: Signer) -> None:
    forger.add("session.seal", {**forger.statement(), "signatures": []})
    forger.publish()
    assert found(checked(forger.journal, signers=allowed(ana), require_signed=True)) == [("bad-signature", None)]
    assert checked(forger.journal, signers=allowed(ana)).signed_to == 0


def test_several_signatures_of_which_one_is_wrong(forger: Forger, ana: Signer, eve: Signer) -> None:
    data = forger.statement()
    text = data["checkpoint"].encode()
    data["signatures"] += [{"key": eve.fingerprint, "sshsig": eve.sign(text + b"x", seal.NAMESPACE)}]
    forger.add("session.seal", data)
    forger.publish()
    report = checked(forger.journal, signers=allowed(ana, eve))
    assert (found(report), report.signed_to, report.signatures) == ([("bad-signature", 5)], 4, 1)


def test_two_blocks_in_one_signature(forger: Forger, ana: Signer) -> None:
    data = forger.statement()
    data["signatures"][0]["sshsig"] *= 2
    forger.add("session.seal", data)
    forger.publish()
    assert found(checked(forger.journal, signers=allowed(ana))) == [("bad-signature", 5)]


@pytest.mark.parametrize(
    ("options", "good"),
    [
        ('namespaces="gitjournal"', True),
        ('namespaces="git"', False),
        ('valid-after="20260101"', True),
        ('valid-after="20260103"', False),
        ('valid-before="20260102"', False),
        ('valid-before="20260103"', True),
    ],
)
def test_limits_of_an_allowed_signer(forger: Forger, ana: Signer, options: str, good: bool) -> None:
    forger.add("session.seal", forger.statement())
    forger.publish()
    report = checked(forger.journal, signers=allowed(ana, options=options))
    assert found(report) == ([] if good else [("unknown-signer", 5)])
    says_so = any(note.startswith("when it was signed") for note in report.unchecked)
    assert says_so == (good and "before" in options), "back-dating cannot make an expired key good without saying so"


def test_revoked_key(forger: Forger, ana: Signer) -> None:
    forger.add("session.seal", forger.statement())
    forger.publish()
    signers = AllowedSigners.parse(f"ana {ana.line}\n", revoked=[ana.public])
    assert found(checked(forger.journal, signers=signers)) == [("unknown-signer", 5)]


def test_a_seal_behind_a_lost_event_is_not_judged(forger: Forger, ana: Signer) -> None:
    forger.add("session.seal", forger.statement())
    forger.publish()
    blob = git_text("rev-parse", "s/main:0000/00/00000003.json", cwd=forger.journal.path).strip()
    for pack in (forger.journal.path / "objects" / "pack").glob("*.pack"):
        raw = pack.read_bytes()
        os.chmod(pack, 0o600)
        pack.unlink()
        git("unpack-objects", cwd=forger.journal.path, stdin=raw)
    (forger.journal.path / "objects" / blob[:2] / blob[2:]).unlink()
    for left in (forger.journal.path / "objects" / "pack").glob("*.idx"):
        left.unlink()
    assert found(checked(forger.journal, signers=allowed(ana))) == [("missing-object", 3)]


def test_withheld_seal_is_refused(forger: Forger) -> None:
    forger.add("session.seal", forger.statement())
    with pytest.raises(FormatError) as caught:
        Event.parse(forger.events[-1].header)
    assert caught.value.code == "bad-seal"


def test_withholding_keeps_the_seals(forger: Forger, ana: Signer) -> None:
    forger.add("session.seal", forger.statement())
    forger.events[2] = forger.events[2].withhold()
    forger.publish()
    report = checked(forger.journal, signers=allowed(ana))
    assert (report.ok, report.withheld, report.signed_to) == (True, [3], 4)


def test_the_seal_is_in_the_words_of_the_format(forger: Forger) -> None:
    data = forger.statement()
    size, root = len(forger.events), forger.root
    assert canonical.dumps(sorted(data)) == b'["checkpoint","root","signatures","size"]'
    assert data["checkpoint"].split("\n")[:2] == ["gitjournal/s/main", str(size)]
    assert data["root"] == root.hex()
