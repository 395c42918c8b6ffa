"""Cosignatures as signed pins: what they show, and attacks on them."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from hypothesis import given
from hypothesis import strategies as st
from sealed import LOG, OTHER_WITNESS, WITNESS, allowed, allowed_line, cosigned, grown, note, twins
from support import git_text

import gitjournal
from gitjournal import canonical, cli, cosign, proof, seal, sshsig
from gitjournal.cosign import Cosigned
from gitjournal.errors import FormatError, UsageError
from gitjournal.journal import Journal
from gitjournal.keys import FileSigner
from gitjournal.verify import Checks, Report, verify, verify_session


def found(report: Report) -> list[tuple[str, int | None, str]]:
    return [(one.code, one.seq, one.id) for one in report.findings]


def check(journal: Journal, *kept: cosign.Cosignature, options: str = "", name: str = "s") -> Report:
    """Verification with cosignatures, of which those of WITNESS count."""
    return verify(journal, name, Checks(cosigned=Cosigned(kept, allowed(WITNESS, options=options))))


# --- the bytes -------------------------------------------------------------------------------------


def test_a_line_is_canonical_and_comes_back(journal: Journal) -> None:
    grown(journal, 4)
    made = cosigned(journal)
    assert cosign.parse(made.line + b"\n" + made.line) == [made, made]
    assert canonical.loads_canonical(made.line[:-1]).keys() == {"checkpoint", "key", "time", "sshsig"}


def test_ssh_keygen_says_so_too(journal: Journal, tmp_path: Path) -> None:
    grown(journal, 4)
    made = cosigned(journal)
    (tmp_path / "witnesses").write_text(allowed_line(WITNESS, 'namespaces="gitjournal-witness"', "w@example.com"))
    (tmp_path / "sig").write_text(made.sshsig)
    run = ["ssh-keygen", "-Y", "verify", "-f", tmp_path / "witnesses", "-I", "w@example.com", "-s", tmp_path / "sig"]
    for message, code in ((made.message, 0), (made.message + b"x", 255)):
        done = subprocess.run([*run, "-n", "gitjournal-witness"], input=message, capture_output=True, check=False)
        assert done.returncode == code


@pytest.mark.parametrize(
    "change",
    [
        {"time": -1}, {"time": 1.5}, {"time": "1"}, {"time": None}, {"time": True},
        {"key": ""}, {"key": "SHA256:x"}, {"key": WITNESS.fingerprint + "="}, {"key": 1},
        {"sshsig": 1}, {"sshsig": None}, {"checkpoint": 1}, {"checkpoint": ""}, {"checkpoint": "x"}, {"more": 1},
    ],
)  # fmt: skip
def test_lines_that_are_none(change: dict[str, Any], journal: Journal) -> None:
    grown(journal, 4)
    members = json.loads(cosigned(journal).line)
    for wrong in (json.dumps({**members, **change}), *(json.dumps({k: v}) for k, v in members.items()), "[]", "{"):
        with pytest.raises(UsageError, match="line 2 of the cosignatures"):
            cosign.parse(b"\n" + wrong.encode())


@pytest.mark.parametrize(
    "old_new",
    [("s/main", "s"), ("s/main", "s/main/x"), ("s/main", "s%2Fx/main/"), ("s/main", "%73/main"), ("s/main", "/main"),
     ("gitjournal/", ""), ("gitjournal/", "Gitjournal/"), ("\n5\n", "\n05\n"), ("\n5\n", "\n0\n"), ("\n5\n", "\n\n"),
     ("\n5\n", "\n123456789\n"), ("\n5\n", "\n-5\n"), ("\n5\n", "\n٥\n"), ("=\n", "\n"), ("=\n", "=\n\n"),
     ("=\n", "=\nx\n"), ("=\n", "=")],
)  # fmt: skip
def test_checkpoints_that_no_seal_has(old_new: tuple[str, str], journal: Journal) -> None:
    text = str(grown(journal, 4).stored_data["checkpoint"])
    assert cosign.parse_checkpoint(text).text == text
    with pytest.raises(FormatError):
        cosign.parse_checkpoint(text.replace(*old_new))
    last = text[-3]
    for char in "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/".replace(last, ""):
        other = f"{text[:-3]}{char}=\n"
        try:
            assert cosign.parse_checkpoint(other).text == other
        except FormatError:
            continue


@given(st.binary(max_size=300))
def test_no_bytes_but_these_are_refused_otherwise(raw: bytes) -> None:
    try:
        cosign.parse(raw)
    except UsageError:
        return
    assert not raw.strip()


# --- what they show ----------------------------------------------------------------------------------


def test_a_branch_that_has_grown_is_pinned(journal: Journal) -> None:
    grown(journal, 4)
    kept = [cosigned(journal)]
    grown(journal, 200)
    kept.append(cosigned(journal))
    report = check(journal, *kept[::-1])
    assert report.ok and report.pinned == kept[1].checkpoint.size == 206
    assert report.witnesses[WITNESS.fingerprint].signatures == 2
    assert report.as_dict()["witnesses"] == [
        {"key": WITNESS.fingerprint, "principals": "who@example.com", "signatures": 2}
    ]
    assert any(note.startswith("whether newer events were cut off after the pinned 206") for note in report.unchecked)
    plain = verify(journal, "s")
    assert plain.as_dict()["witnesses"] == [] and plain.pinned == 0


def test_rewritten_line(tmp_path: Path) -> None:
    first, second = twins(tmp_path)
    kept = cosigned(first)
    report = check(second, kept)
    assert found(report) == [("rollback", 10, kept.checkpoint.root.hex())]
    assert report.pinned == 0 and not any("nothing pins" in note for note in report.unchecked)


def test_cut_line(tmp_path: Path) -> None:
    journal = gitjournal.init(tmp_path / "journal")
    grown(journal, 4)
    shutil.copytree(journal.path, tmp_path / "old")
    grown(journal, 4)
    kept = cosigned(journal)
    old = gitjournal.open(tmp_path / "old")
    assert found(check(old, kept)) == [("truncated", 6, kept.checkpoint.root.hex())]


def test_a_seal_of_the_same_size_that_was_cosigned_for_another_branch(journal: Journal) -> None:
    """A cosignature says what its origin says: it pins that branch and no other."""
    grown(journal, 4)
    journal.branch("s", 6, "b")
    kept = cosigned(journal)
    by_name = {
        report.name: report
        for report in verify_session(journal, "s", Checks(cosigned=Cosigned([kept], allowed(WITNESS))))
    }
    assert by_name["s"].pinned == 5 and by_name["s/b"].pinned == 0 and not by_name["s/b"].witnesses


def test_lost_events_are_not_called_a_rollback(tmp_path: Path) -> None:
    journal = gitjournal.init(tmp_path / "journal")
    grown(journal, 4)
    kept = [cosigned(journal)]
    grown(journal, 4)
    kept.append(cosigned(journal))
    blob = git_text("rev-parse", "refs/heads/s/main:0000/00/00000008.json", cwd=journal.path)
    for pack in (journal.path / "objects" / "pack").glob("*.pack"):
        objects = pack.read_bytes()
        pack.unlink()
        pack.with_suffix(".idx").unlink()
        git_text("unpack-objects", cwd=journal.path, stdin=objects)
    (journal.path / "objects" / blob[:2] / blob[2:]).unlink()
    report = check(gitjournal.open(journal.path), *kept)
    assert {code for code, _, _ in found(report)} == {"missing-object"} and report.pinned == 5


# --- attacks on the cosignature ------------------------------------------------------------------------


def test_forged_cosignatures(tmp_path: Path) -> None:
    first, second = twins(tmp_path)
    good, other = cosigned(first), cosigned(second)
    place = 10, WITNESS.fingerprint
    forged = {
        "edited time": good._replace(time=good.time + 1),
        "moved to another root": other._replace(sshsig=good.sshsig),
        "moved to another size": good._replace(checkpoint=good.checkpoint._replace(size=9)),
        "signature of the log": good._replace(sshsig=WITNESS.sign(good.message, seal.NAMESPACE)),
        "of the bare checkpoint": good._replace(sshsig=WITNESS.sign(good.checkpoint.text.encode(), cosign.NAMESPACE)),
        "another's signature": good._replace(sshsig=OTHER_WITNESS.sign(good.message, cosign.NAMESPACE)),
        "stripped": good._replace(sshsig=""),
    }
    for what, one in forged.items():
        report = check(first, one)
        wanted = (9 if "size" in what else 10), place[1]
        assert found(report) == [("bad-signature", *wanted)], what
        assert report.pinned == 0 and not report.witnesses, what
        assert any("nothing pins the head" in note for note in report.unchecked), what
    report = check(first, good, forged["stripped"])
    assert found(report) == [("bad-signature", *place)] and report.pinned == 10


def test_unknown_witness(journal: Journal) -> None:
    grown(journal, 4)
    kept = cosigned(journal, OTHER_WITNESS)
    assert found(check(journal, kept)) == [("unknown-signer", 5, OTHER_WITNESS.fingerprint)]
    # Not even where the branch is another one by now: what nobody believes shows nothing.
    lie = kept._replace(checkpoint=kept.checkpoint._replace(root=bytes(32)))
    lie = lie._replace(sshsig=OTHER_WITNESS.sign(lie.message, cosign.NAMESPACE))
    assert found(check(journal, lie)) == [("unknown-signer", 5, OTHER_WITNESS.fingerprint)]


def test_the_log_as_its_own_witness(journal: Journal) -> None:
    """Whoever allows the log's key for seals only does not believe it as a witness."""
    grown(journal, 4)
    kept = cosigned(journal, LOG)
    checks = Checks(cosigned=Cosigned([kept], allowed(LOG, options='namespaces="gitjournal,git"')))
    assert found(verify(journal, "s", checks)) == [("unknown-signer", 5, LOG.fingerprint)]


def test_a_witness_key_that_has_ended(journal: Journal) -> None:
    grown(journal, 4)
    options = 'valid-before="20300101Z"'
    early, late = cosigned(journal, when=1_800_000_000), cosigned(journal, when=1_900_000_000)
    report = check(journal, early, options=options)
    assert (
        report.ok
        and "when it was cosigned: an accepted key of a witness has an end, and the time is its own word"
        in (report.unchecked)
    )
    assert found(check(journal, late, options=options)) == [("unknown-signer", 5, WITNESS.fingerprint)]


def test_a_kind_of_key_that_is_not_checked(journal: Journal) -> None:
    grown(journal, 4)
    good = cosigned(journal)
    key = sshsig.string(b"sk-ssh-ed25519@openssh.com") + sshsig.string(bytes(32)) + sshsig.string(b"ssh:")
    armour = sshsig.enclose(key, cosign.NAMESPACE, sshsig.string(b"sk-ssh-ed25519@openssh.com") + sshsig.string(b"x"))
    report = check(journal, good._replace(key=sshsig.fingerprint(key), sshsig=armour))
    assert report.ok and report.incomplete and report.pinned == 0
    assert "cosignatures of a kind that is not checked here: 1" in report.unchecked


def test_other_kinds_of_keys_are_witnesses_too(journal: Journal) -> None:
    grown(journal, 4)
    key = FileSigner(generate_private_key(SECP256R1()))
    report = verify(journal, "s", Checks(cosigned=Cosigned([cosigned(journal, key)], allowed(key))))
    assert report.ok and report.pinned == 5


# --- gj verify -------------------------------------------------------------------------------------------


class Desk:
    """A journal, and a desk with the files of an auditor."""

    def __init__(self, folder: Path) -> None:
        self.journal = gitjournal.init(folder / "journal")
        self.folder = folder
        (folder / "witnesses").write_text(allowed_line(WITNESS))
        (folder / "kept").write_bytes(b"")

    def keep(self, *kept: cosign.Cosignature) -> None:
        (self.folder / "kept").write_bytes(b"".join(one.line for one in kept))

    def verify_proof(self, *words: str, journal: Journal | None = None) -> Result:
        """Verification of the proof of event 2 under the newest seal."""
        (self.folder / "proof.json").write_bytes(proof.inclusion(journal or self.journal, "s", 2))
        more = ["--cosigned", str(self.folder / "kept"), "--witnesses", str(self.folder / "witnesses")]
        return CliRunner().invoke(cli.gj, ["verify", "--proof", str(self.folder / "proof.json"), *words, *more])

    def verify(self, *words: str, journal: Journal | None = None) -> Result:
        more = ["--cosigned", str(self.folder / "kept"), "--witnesses", str(self.folder / "witnesses")]
        words = ("-J", str((journal or self.journal).path), "verify", *words, *more, "--forget")
        return CliRunner().invoke(cli.gj, words, prog_name="gj")


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def test_verify_says_who_has_cosigned(desk: Desk) -> None:
    grown(desk.journal, 4)
    desk.keep(cosigned(desk.journal))
    done = desk.verify()
    assert done.exit_code == 3 and "s: incomplete, 6 events" in done.stdout
    assert "pinned at 5, cosigned by who@example.com" in done.stdout
    assert json.loads(desk.verify("s", "--json").stdout)["witnesses"][0]["key"] == WITNESS.fingerprint


def test_verify_a_branch_that_is_gone(desk: Desk) -> None:
    grown(desk.journal, 4)
    kept = cosigned(desk.journal)
    other = gitjournal.init(desk.folder / "other")
    grown(other, 4, name="t")
    root = kept.checkpoint.root.hex()
    for one, finding in ((kept, ("truncated", None, root)), (kept._replace(time=1), ("bad-signature", 5, kept.key))):
        desk.keep(one)
        for words, meant in (((), True), (("t",), False)):
            done = desk.verify(*words, "--json", journal=other)
            reports = {report["name"]: report for report in map(json.loads, done.stdout.splitlines())}
            assert ("s" in reports) == meant and done.exit_code == (1 if meant else 3)
            if meant:
                (shown,) = reports["s"]["findings"]
                assert (shown["code"], shown["seq"], shown["id"]) == finding


def test_verify_wants_both_and_files_that_are_right(desk: Desk) -> None:
    grown(desk.journal, 4)
    kept, witnesses = str(desk.folder / "kept"), str(desk.folder / "witnesses")
    base = ("-J", str(desk.journal.path), "verify", "s")
    for words in (
        ("--cosigned", kept),
        ("--witnesses", witnesses),
        ("--cosigned", witnesses, "--witnesses", witnesses),
    ):
        assert CliRunner().invoke(cli.gj, [*base, *words]).exit_code == 2
    assert CliRunner().invoke(cli.gj, [*base, "--cosigned", "/no/such", "--witnesses", witnesses]).exit_code == 4
    words = ("verify", "--proof", kept, "--cosigned", kept)
    assert CliRunner().invoke(cli.gj, words).exit_code == 2


def test_a_proof_under_a_seal_that_a_witness_has_seen(desk: Desk) -> None:
    grown(desk.journal, 4)
    desk.keep(cosigned(desk.journal), cosigned(desk.journal)._replace(time=1))
    report = json.loads((done := desk.verify_proof("--json")).stdout)
    assert [(one["code"], one["seq"]) for one in report["findings"]] == [("bad-signature", 5)], done.stdout
    assert (report["pinned"], report["witnesses"][0]["signatures"]) == (5, 1)
    desk.keep(cosigned(desk.journal))
    done = desk.verify_proof()
    assert done.exit_code == 3 and "pinned at 5, cosigned by who@example.com" in done.stdout


def test_a_proof_of_another_history_than_a_witness_has_seen(tmp_path: Path) -> None:
    first, second = twins(tmp_path)
    desk = Desk(tmp_path)
    desk.keep(cosigned(first))
    done = desk.verify_proof(journal=second)
    assert done.exit_code == 1 and "rollback at proof@10: a witness has seen other events up to 10" in done.stdout


def test_cosignatures_of_other_seals_say_nothing_of_a_proof(desk: Desk) -> None:
    grown(desk.journal, 4)
    desk.keep(cosigned(desk.journal))
    grown(desk.journal, 4)
    done = desk.verify_proof()
    assert done.exit_code == 3 and "cosignatures of other seals than the proof has: 1" in done.stdout
    assert "pinned" not in done.stdout


def test_a_journal_that_is_rolled_back_and_its_owner_has_forgotten(tmp_path: Path) -> None:
    """The case that it is all for: no memory, no pin of one's own, only a line that a witness has signed."""
    desk = Desk(tmp_path)
    grown(desk.journal, 4)
    shutil.copytree(desk.journal.path, tmp_path / "old")
    grown(desk.journal, 4)
    desk.keep(cosigned(desk.journal))
    old = gitjournal.open(tmp_path / "old")
    with old.session("s", durability="os") as session:
        session.append_many([note(n, "other") for n in range(9)])
    done = desk.verify("s", journal=old)
    assert done.exit_code == 1 and "rollback at s@10: a witness has seen other events up to 10" in done.stdout
