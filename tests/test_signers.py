"""Allowed signers: read as ssh-keygen reads them, and where not, on the safe side."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ed25519
from hypothesis import given
from hypothesis import strategies as st

from gitjournal import sshsig
from gitjournal.errors import UsageError
from gitjournal.signers import Accepted, AllowedSigners, revoked_keys
from gitjournal.sshsig import string

KEYS = [ed25519.Ed25519PrivateKey.from_private_bytes(bytes([n]) * 32) for n in range(1, 4)]
BLOBS = [sshsig.public_blob(key) for key in KEYS]
ONE, TWO, THREE = (sshsig.key_line(blob) for blob in BLOBS)
KEY = BLOBS[0]


def seconds(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp())


NOON = seconds("2026-03-04 12:00")


def accepts(text: str | bytes, key: bytes = KEY, namespace: str = "git", time: int = NOON) -> Accepted | None:
    return AllowedSigners.parse(text).accepts(key, namespace, time)


# --- against ssh-keygen ----------------------------------------------------------------------------


def principals_of(allowed: str, armour: str, namespace: str, time: int, folder: Path, revoked: str = "") -> str | None:
    """The first principal that ssh-keygen finds for the signature, if it then verifies with it, as git does it."""
    (folder / "allowed").write_bytes(allowed.encode())
    (folder / "sig").write_text(armour)
    (folder / "revoked").write_text(revoked)
    stamp = datetime.fromtimestamp(time, UTC).strftime("%Y%m%d%H%M%SZ")
    common = ["-f", "allowed", "-s", "sig", f"-Overify-time={stamp}"]
    env = {**os.environ, "TZ": "UTC"}
    found = subprocess.run(
        ["ssh-keygen", "-Y", "find-principals", *common], cwd=folder, env=env, capture_output=True, check=False
    )
    for name in found.stdout.decode().splitlines():
        name = name.split(",")[0]
        verify = ["ssh-keygen", "-Y", "verify", "-n", namespace, "-I", name, "-r", "revoked", *common]
        if subprocess.run(verify, cwd=folder, env=env, input=b"text", capture_output=True, check=False).returncode == 0:
            return name
    return None


SAME = [
    f"ana {ONE}", f"ana {ONE} a comment", f"ana\t{ONE}", f"  ana   {ONE.replace(' ', '  ')}  ", f"ana {ONE}\r\n",
    "", "# nothing\n\n   \n\t# nothing\n", f"# x\nana {ONE}\nbob {TWO}\n", f"bob {TWO}\nana {ONE}", f"bob {TWO}",
    f'ana namespaces="git" {ONE}', f'ana namespaces="file" {ONE}', f'ana namespaces="gitjournal" {ONE}',
    f'ana namespaces="file,git" {ONE}', f'ana NameSpaces="git" {ONE}', f'ana namespaces="" {ONE}',
    f'ana namespaces="*" {ONE}', f'ana namespaces="git*" {ONE}', f'ana namespaces="g?t" {ONE}',
    f'ana namespaces="gi?" {ONE}', f'ana namespaces="git?" {ONE}', f'ana namespaces="*t" {ONE}',
    f'ana namespaces="!git" {ONE}', f'ana namespaces="*,!git" {ONE}', f'ana namespaces="!git,*" {ONE}',
    f'ana namespaces="!g*journal,*" {ONE}', f'ana namespaces="GIT" {ONE}', f'ana namespaces="a b,git" {ONE}',
    f'ana namespaces="g[i]t" {ONE}', f'ana namespaces="git," {ONE}', f'ana namespaces=",git" {ONE}',
    f'ana valid-after="20260304" {ONE}', f'ana valid-after="20260305" {ONE}', f'ana valid-before="20260304" {ONE}',
    f'ana valid-before="20260305Z" {ONE}', f'ana valid-after="202603041200" {ONE}',
    f'ana valid-after="202603041201" {ONE}', f'ana valid-after="20260304120000Z" {ONE}',
    f'ana valid-after="20260304120001" {ONE}', f'ana valid-before="20260304120001" {ONE}',
    f'ana valid-before="20260304115959" {ONE}', f'ana valid-after="20250101",valid-before="20270101" {ONE}',
    f'ana valid-after="20250101",valid-before="20260101" {ONE}', f'ana Valid-Before="20990101" {ONE}',
    f'ana namespaces="git",valid-before="20270101" {ONE}', f'ana valid-before="20270101",namespaces="x" {ONE}',
    f'ana valid-before="20260101" {ONE}\nbob {ONE}',
    f"ana cert-authority {ONE}", f"ana CERT-AUTHORITY {ONE}", f"ana cert-authority,namespaces=\"git\" {ONE}",
    f"ana cert-authority {ONE}\nbob {ONE}", f"ana,bob {ONE}", f"ana@example.com {ONE}",
    f'ana no-such-option {ONE}', f'ana no-such="option" {ONE}', f'ana namespaces="git",no-such="x" {ONE}',
]  # fmt: skip


@pytest.mark.parametrize("namespace", ["git", "gitjournal"])
@pytest.mark.parametrize("text", SAME)
def test_as_ssh_keygen_does(text: str, namespace: str, tmp_path: Path) -> None:
    armour = sshsig.sign(KEYS[0], b"text", namespace)
    found = accepts(text, namespace=namespace)
    expected = principals_of(text, armour, namespace, NOON, tmp_path)
    assert (found.principals.split(",")[0] if found else None) == expected


def test_a_revoked_key_as_ssh_keygen_does(tmp_path: Path) -> None:
    armour = sshsig.sign(KEYS[0], b"text", "git")
    for revoked in ("", f"{ONE}\n", f"{TWO} x\n{ONE} y\n", f"# {ONE}\n", f"\n{TWO}\n"):
        found = AllowedSigners.parse(f"ana {ONE}", revoked_keys(revoked)).accepts(KEY, "git", NOON)
        expected = principals_of(f"ana {ONE}", armour, "git", NOON, tmp_path, revoked)
        assert (found.principals if found else None) == expected


# --- where we are stricter ---------------------------------------------------------------------------


def test_the_end_is_not_part_of_the_time() -> None:
    text = f'ana valid-after="20260304",valid-before="20260305" {ONE}'
    start, end = seconds("2026-03-04"), seconds("2026-03-05")
    assert [accepts(text, time=t) is not None for t in (start - 1, start, end - 1, end)] == [False, True, True, False]


def test_times_are_utc_with_and_without_z(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    for zone in ("", "Z"):
        for stamp in ("20260304", "202603040000", "20260304000000"):
            text = f'ana valid-after="{stamp}{zone}" {ONE}'
            assert accepts(text, time=seconds("2026-03-04")) and not accepts(text, time=seconds("2026-03-04") - 1)
    leap = f'ana valid-after="20240229235959" {ONE}'
    assert accepts(leap, time=seconds("2024-02-29 23:59:59")) and not accepts(leap, time=seconds("2024-02-29 23:59:58"))
    assert accepts(f'ana valid-after="19700101",valid-before="99991231235959" {ONE}', time=0)


def test_the_first_line_that_accepts_answers() -> None:
    text = f'a namespaces="x" {ONE}\n#\nb valid-before="20270101" {ONE}\nc {ONE}\nd {TWO}\n'
    assert accepts(text) == Accepted(3, "b", True)
    assert accepts(text, time=seconds("2028-01-01")) == Accepted(4, "c", False)
    assert accepts(text, namespace="x") == Accepted(1, "a", False)
    assert accepts(text, BLOBS[1]) == Accepted(5, "d", False) and accepts(text, BLOBS[2]) is None
    assert accepts(f'a valid-after="20200101" {ONE}') == Accepted(1, "a", False)
    assert len(AllowedSigners.parse(text)) == 4 and len(AllowedSigners.parse(f"a cert-authority {ONE}")) == 0


def test_each_line_counts_for_itself(tmp_path: Path) -> None:
    """Where find-principals names the first line with the key, and git stops there, whatever that line allows."""
    text = f'ana namespaces="x" {ONE}\nbob namespaces="git" {ONE}'
    assert accepts(text) == Accepted(2, "bob", False)
    assert principals_of(text, sshsig.sign(KEYS[0], b"text", "git"), "git", NOON, tmp_path) is None


def test_any_kind_of_key_can_stand_there() -> None:
    key = string(b"sk-ssh-ed25519@openssh.com") + string(bytes(32)) + string(b"ssh:")
    assert accepts(f"ana {sshsig.key_line(key)}", key) == Accepted(1, "ana", False)
    new = string(b"ssh-new") + b"?"
    assert accepts(f'ana namespaces="git" {sshsig.key_line(new)} c', new) == Accepted(1, "ana", False)


def test_text_that_is_not_ascii() -> None:
    assert accepts(f"an\u00e1@b.example,\u65e5\u672c {ONE} \u00e9\n".encode()) == Accepted(
        1, "an\u00e1@b.example,\u65e5\u672c", False
    )
    # Other blanks and ends of a line are text like any other.
    for odd in ("\u00a0", "\u2028", "\x0b", "\x0c", "\x85", "\x1c"):
        assert accepts(f"a{odd}b {ONE} {odd}") == Accepted(1, f"a{odd}b", False)


UNREADABLE = [
    "ana", f"{ONE}", f"ana {ONE.split()[0]}", f"ana {ONE.split()[1]}", f"ana {ONE}=", f"ana x {ONE[:-1]}",
    f"ana ssh-rsa {ONE.split()[1]}", f"ana x y {ONE}", f'ana namespaces="git" {ONE.split()[1]}',
    "ana ssh-ed25519 ====", f"ana namespaces=git {ONE}", f"ana namespaces= {ONE}", f"ana namespaces {ONE}",
    f"ana namespaces=\"git {ONE}", f"ana \"git\" {ONE}", f'ana namespaces="git"x {ONE}',
    f'ana namespaces="git", {ONE}', f'ana ,namespaces="git" {ONE}', f'ana namespaces="git",,cert-authority {ONE}',
    f'ana namespaces="a",namespaces="b" {ONE}', f"ana valid-after {ONE}",
    f'ana valid-after="20260304",Valid-After="20260304" {ONE}', f'ana valid-before="" {ONE}', f'ana x=y {ONE}',
    f'ana = {ONE}', f'ana ="x" {ONE}', f'ana namespaces ="git" {ONE}', f'ana namespaces="git" , cert-authority {ONE}',
    f"ana x= {ONE}", f'ana namespaces="a\\"b" {ONE}', f"ana namespaces='git' {ONE}", f"ana {ONE}\nbob",
    f"\ufeff# x\nana {ONE}", f'ana cert-authority,valid-before="x" {ONE}',
    f'ana namespaces="git"ssh-ed25519 {ONE.split()[1]}', "ana \ud800 AAAA",
]  # fmt: skip
BAD_TIMES = [
    "2026", "202603", "2026030", "202603041", "2026030412", "20260304120", "2026030412000", "202603041200000",
    "20261301", "20260001", "20260100", "20260132", "20260229", "21000229", "202603042400", "202603041260",
    "20260304120060", "20260304z", "20260304ZZ", "20260304UTC", "20260304+01", "-2026030", " 20260304", "20260304 ",
    "2026-03-04", "\u0662\u0660\u0662\u0660" "0304", "19691231", "00000101", "00010101", "always", "0", "forever",
    "+1d", "20260304T1200",
]  # fmt: skip


@pytest.mark.parametrize("text", UNREADABLE)
def test_a_line_that_cannot_be_read_is_an_error(text: str) -> None:
    with pytest.raises(UsageError, match=r"allowed signers, line \d"):
        AllowedSigners.parse(text)
    with pytest.raises(UsageError, match=r"allowed signers, line 4"):
        AllowedSigners.parse(f"# x\n\nbob {TWO}\n" + text.split("\n")[-1 if "bob" in text else 0])


@pytest.mark.parametrize("name", ["valid-after", "valid-before"])
@pytest.mark.parametrize("stamp", BAD_TIMES)
def test_a_time_that_is_none_is_an_error(stamp: str, name: str) -> None:
    with pytest.raises(UsageError, match=r"line 1: .* is no time"):
        AllowedSigners.parse(f'ana {name}="{stamp}" {ONE}')


def test_a_file_that_is_no_text_is_an_error() -> None:
    for raw in (b"\xff", f"ana {ONE} ".encode() + b"\xc3", b"\xed\xa0\x80", "ana".encode("utf-16")):
        with pytest.raises(UsageError, match="UTF-8"):
            AllowedSigners.parse(raw)
        with pytest.raises(UsageError, match="UTF-8"):
            revoked_keys(raw)


def test_revoked_keys() -> None:
    text = f"# revoked\n{ONE}\n\n  {TWO} a comment\r\n"
    assert revoked_keys(text) == revoked_keys(text.encode()) == {*BLOBS[:2]} and revoked_keys("") == set()
    signers = AllowedSigners.parse(f"a {ONE}\nb {THREE}", revoked_keys(text))
    assert signers.accepts(BLOBS[0], "git", NOON) is None and signers.accepts(BLOBS[2], "git", NOON) == (2, "b", False)


@pytest.mark.parametrize(
    "text", ["x", f"ana {ONE}", "SHA256:abc", f"cert-authority {ONE}", ONE[:-1], "SSHKRL\n\x00", "ssh-ed25519"]
)
def test_a_file_of_revoked_keys_that_cannot_be_read_is_an_error(text: str) -> None:
    """A key must not count as good because the line that revokes it is not understood."""
    with pytest.raises(UsageError, match=r"revoked keys, line 2"):
        revoked_keys(f"{TWO}\n{text}\n")


# --- anything ----------------------------------------------------------------------------------------

WORDS = [
    "ana",
    *(ONE, TWO),
    "cert-authority",
    'namespaces="git"',
    'valid-before="20270101"',
    "#",
    '"',
    "=",
    ",",
    "\t",
    " ",
]


def lines() -> Any:
    return st.lists(st.lists(st.sampled_from(WORDS), max_size=8).map(" ".join), max_size=5).map("\n".join)


@given(lines() | st.text() | st.binary())
def test_any_file_is_read_or_refused(text: str | bytes) -> None:
    for read in (AllowedSigners.parse, revoked_keys):
        with suppress(UsageError):
            read(text)


def plain_match(patterns: str, text: str) -> bool:
    """The list of patterns, once more and differently: by all ways to go through a pattern."""

    def ends(pattern: str, rest: str) -> Iterator[bool]:
        if not pattern:
            yield not rest
        elif pattern[0] == "*":
            for at in range(len(rest) + 1):
                yield from ends(pattern[1:], rest[at:])
        elif rest and pattern[0] in ("?", rest[0]):
            yield from ends(pattern[1:], rest[1:])

    hits = {one[0] == "!" for one in patterns.split(",") if one and any(ends(one.lstrip("!"), text))}
    return hits == {False}


@given(
    st.text("git?*,!.[", max_size=8).filter(lambda text: "!!" not in text),
    st.sampled_from(["git", "gitjournal", "g", "gg"]),
)
def test_patterns(patterns: str, namespace: str) -> None:
    found = accepts(f'ana namespaces="{patterns}" {ONE}', namespace=namespace)
    cleaned = ",".join(one for one in patterns.split(",") if one != "!")
    assert (found is not None) == plain_match(cleaned, namespace)


@pytest.mark.parametrize("stars", [40, 100_000])
def test_no_pattern_takes_long(stars: int) -> None:
    """As a regex, this one would be tried in more ways than there is time for."""
    many = "*" * stars
    assert accepts(f'ana namespaces="{many}x" {ONE}', namespace="gitjournal") is None
    assert accepts(f'ana namespaces="{many}n{many}?{many}" {ONE}', namespace="gitjournal") is not None
    assert accepts(f'ana namespaces="*,!{many}l{many}" {ONE}', namespace="gitjournal") is None
