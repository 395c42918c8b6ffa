"""SSH signatures: the same bytes as OpenSSH, accepted by stock git, and nothing else passes."""

from __future__ import annotations

import subprocess
import sys
from base64 import b64decode, b64encode
from collections.abc import Callable
from hashlib import sha512
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa, utils
from hypothesis import given
from hypothesis import strategies as st
from support import ROOT, chain, derive, flips, git, git_text

from gitjournal import sshsig
from gitjournal.errors import FormatError, UsageError
from gitjournal.objects import Deriver, git_id, parse_commit
from gitjournal.sshsig import Checked, NotChecked, check, parse, string

MESSAGE = b"gitjournal/s/main\n42\nAAAA\n"
KINDS = ["ed25519", "ecdsa-256", "ecdsa-384", "rsa-2048", "rsa-3072"]


def keygen(*args: str | Path, stdin: bytes = b"", check: bool = True) -> bytes:
    """What ssh-keygen prints."""
    run = subprocess.run(["ssh-keygen", *map(str, args)], input=stdin, capture_output=True, check=False)
    assert not check or run.returncode == 0, run.stderr.decode()
    return run.stdout


def make_key(path: Path, kind: str, *args: str, passphrase: str = "", comment: str = "a comment") -> Path:
    """A new key by ssh-keygen; ``kind`` is for example ``ecdsa-256``."""
    name, _, bits = kind.partition("-")
    keygen("-q", "-t", name, *(["-b", bits] if bits else []), "-N", passphrase, "-C", comment, "-f", path, *args)
    return path


@pytest.fixture(scope="session")
def key_files(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """A key of each kind, made when it is first asked for."""
    folder = tmp_path_factory.mktemp("keys")

    def of(kind: str) -> Path:
        path = folder / kind
        return path if path.exists() else make_key(path, kind)

    return of


def private(path: Path) -> Any:
    return serialization.load_ssh_private_key(path.read_bytes(), None)


def public(path: Path) -> bytes:
    return sshsig.parse_key(path.with_name(path.name + ".pub").read_text())[0]


def signed_by_keygen(path: Path, message: bytes, namespace: str, *args: str) -> str:
    return keygen("-Y", "sign", "-n", namespace, "-f", path, *args, stdin=message).decode()


def accepted_by_keygen(armour: str, message: bytes, namespace: str, folder: Path) -> bool:
    (folder / "sig").write_text(armour)
    run = subprocess.run(
        ["ssh-keygen", "-Y", "check-novalidate", "-n", namespace, "-s", folder / "sig"],
        input=message, capture_output=True, check=False,
    )  # fmt: skip
    return run.returncode == 0


def blob_of(armour: str) -> bytes:
    return b64decode("".join(armour.split("\n")[1:-2]))


def refused(armour: str, message: bytes = MESSAGE, namespace: str = "gitjournal", **more: Any) -> None:
    with pytest.raises(FormatError) as caught:
        check(armour, message, namespace, **more)
    assert caught.value.code == "bad-signature"


# --- with OpenSSH ----------------------------------------------------------------------------------


@pytest.mark.parametrize("message", [b"", b"x", MESSAGE, bytes(range(256)) * 5000])
@pytest.mark.parametrize("namespace", ["git", "gitjournal", "a b@\u00e9"])
def test_ed25519_gives_the_bytes_of_openssh(key_files: Any, message: bytes, namespace: str) -> None:
    path = key_files("ed25519")
    made = sshsig.sign(private(path), message, namespace)
    assert made == signed_by_keygen(path, message, namespace)
    assert check(made, message, namespace) == Checked(public(path))


@pytest.mark.parametrize("hash_name", ["sha256", "sha512"])
@pytest.mark.parametrize("kind", KINDS)
def test_signatures_of_openssh_are_right(key_files: Any, kind: str, hash_name: str) -> None:
    path = key_files(kind)
    made = signed_by_keygen(path, MESSAGE, "gitjournal", "-O", f"hashalg={hash_name}")
    assert parse(made).hash_name == hash_name.encode() and parse(made).namespace == b"gitjournal"
    assert check(made, MESSAGE, "gitjournal") == Checked(public(path))
    assert check(made.rstrip("\n"), MESSAGE, "gitjournal") == Checked(public(path))
    assert sshsig.is_checked(public(path))
    refused(made, MESSAGE + b"\n")
    refused(made, namespace="git")
    # An RSA signature has one form as well, and so is the same.
    ours = sshsig.sign(private(path), MESSAGE, "gitjournal")
    assert (ours == made) == (not kind.startswith("ecdsa") and hash_name == sshsig.HASH)


@pytest.mark.parametrize("kind", KINDS)
def test_openssh_takes_what_is_signed_here(key_files: Any, kind: str, tmp_path: Path) -> None:
    key = private(key_files(kind))
    for message in (b"", MESSAGE):
        made = sshsig.sign(key, message, "gitjournal")
        assert accepted_by_keygen(made, message, "gitjournal", tmp_path)
        assert not accepted_by_keygen(made, message + b" ", "gitjournal", tmp_path)
        assert check(made, message, "gitjournal") == Checked(public(key_files(kind)))


def test_ecdsa_numbers_of_every_length(tmp_path: Path) -> None:
    """About one number in 256 is shorter, and every second one has a zero byte in front."""
    key = ec.generate_private_key(ec.SECP256R1())
    lengths = set()
    for n in range(600):
        made = sshsig.sign(key, b"%d" % n, "git")
        assert check(made, b"%d" % n, "git") == Checked(sshsig.public_blob(key))
        lengths |= {len(one) for one in sshsig.strings(sshsig.strings(parse(made).signature, 2)[1], 2)}
    assert lengths >= {32, 33}


@pytest.mark.parametrize("kind", [*KINDS, "ecdsa-521"])
def test_texts_of_keys(key_files: Any, kind: str) -> None:
    path = key_files(kind)
    line = path.with_name(path.name + ".pub").read_text()
    blob, comment = sshsig.parse_key(line)
    assert comment == "a comment" and sshsig.key_line(blob, comment) + "\n" == line
    assert sshsig.public_blob(private(path)) == blob
    assert keygen("-l", "-f", path).decode().split()[1] == sshsig.fingerprint(blob)
    assert sshsig.kind(blob) == line.split()[0]
    assert sshsig.parse_key(line.replace(" ", " \t ", 2).strip()) == (blob, comment)
    assert sshsig.parse_key(line.replace("\n", "\r\n")) == (blob, comment)
    assert sshsig.parse_key(" ".join(line.split()[:2])) == (blob, "")


def test_kinds_that_are_not_checked(key_files: Any) -> None:
    path = key_files("ecdsa-521")
    made = signed_by_keygen(path, MESSAGE, "gitjournal")
    assert check(made, MESSAGE, "gitjournal") == NotChecked(public(path)) and not sshsig.is_checked(public(path))
    # Of the signature itself nothing is looked at, but all around it is.
    assert check(made, b"other", "gitjournal") == NotChecked(public(path))
    refused(made, namespace="git")
    refused(made, fingerprint_wanted="SHA256:x")
    assert check(made, MESSAGE, "gitjournal", sshsig.fingerprint(public(path))) == NotChecked(public(path))
    with pytest.raises(UsageError, match="Ed25519"):
        sshsig.sign(private(path), MESSAGE, "gitjournal")
    # Security keys put flags and a counter behind the two strings, and nobody knows what a new kind does.
    for name in (b"sk-ssh-ed25519@openssh.com", b"ssh-ed25519-cert-v01@openssh.com", b"ssh-dss", b"", b"\xff\x00"):
        key = string(name) + string(bytes(32)) + string(b"ssh:")
        for field in (string(name) + string(bytes(64)) + b"\x01\x00\x00\x00\x05", b""):
            assert check(sshsig.enclose(key, "git", field), b"", "git") == NotChecked(key)
    assert sshsig.kind(string(b"\xff\x00")) == "\\xff\x00"


# --- with git ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_stock_git_takes_the_commit_of_a_session(key_files: Any, repo: Path, kind: str, tmp_path: Path) -> None:
    path = key_files(kind)
    events = chain(2)
    deriver = Deriver()
    plain = [deriver.push(one) for one in events][1].commit[1]
    oid, raw = deriver.sign(events[1], sshsig.sign(private(path), plain, "git"))
    for made in derive(events):
        for name, (_, data) in (("blob", made.blob), *(("tree", tree) for tree in made.trees), ("commit", made.commit)):
            git("hash-object", "-w", "-t", name, "--stdin", cwd=repo, stdin=data)
    git("hash-object", "-w", "-t", "commit", "--stdin", cwd=repo, stdin=raw)
    allowed = tmp_path / "allowed"
    allowed.write_text(f'ana@example.com namespaces="git" {sshsig.key_line(public(path))}\n')
    config = ("-c", f"gpg.ssh.allowedSignersFile={allowed}")
    shown = git(*config, "verify-commit", oid.hex(), cwd=repo).stderr.decode()
    assert 'Good "git" signature for ana@example.com' in shown and sshsig.fingerprint(public(path)) in shown
    assert git_text(*config, "log", "-1", "--format=%G? %GS %GF", oid.hex(), cwd=repo).split() == [
        "G", "ana@example.com", sshsig.fingerprint(public(path)),
    ]  # fmt: skip
    parsed = parse_commit(raw)
    assert parsed is not None and parsed.signature is not None
    assert check(parsed.signature, plain, "git") == Checked(public(path))
    # Moved to the commit before it, the signature is worth nothing: for git as for us.
    first = derive(events)[0].commit[1]
    moved = first.replace(b"\n\n", b"\n" + raw[raw.index(b"gpgsig") : raw.index(b"\n\n") + 2], 1)
    moved_id = git_text("hash-object", "-w", "-t", "commit", "--stdin", cwd=repo, stdin=moved)
    assert git(*config, "verify-commit", moved_id, cwd=repo, check=False).returncode != 0
    refused(parsed.signature, first, "git")


def test_git_makes_the_same_signed_commit(key_files: Any, repo: Path) -> None:
    path = key_files("ed25519")
    tree = git_text("mktree", cwd=repo)
    person = {f"GIT_{who}_{what}": value for who in ("AUTHOR", "COMMITTER") for what, value in (
        ("NAME", "a"), ("EMAIL", "a@b"), ("DATE", "1767323045 +0000"))}  # fmt: skip
    by_git = git_text(
        "-c", "gpg.format=ssh", "-c", f"user.signingkey={path}", "commit-tree", "-S", "-m", "text", tree,
        cwd=repo, env=person,
    )  # fmt: skip
    plain = (f"tree {tree}\nauthor a <a@b> 1767323045 +0000\ncommitter a <a@b> 1767323045 +0000\n\ntext\n").encode()
    signature = sshsig.sign(private(path), plain, "git")
    header = "gpgsig " + signature.rstrip("\n").replace("\n", "\n ") + "\n\n"
    assert git_id(b"commit", plain.replace(b"\n\n", b"\n" + header.encode(), 1)).hex() == by_git


def test_git_signatures_made_by_commit_s_are_right(key_files: Any, repo: Path) -> None:
    for kind in KINDS:
        tree = git_text("mktree", cwd=repo)
        person = {f"GIT_{who}_{what}": "a@b" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
        oid = git_text(
            "-c", "gpg.format=ssh", "-c", f"user.signingkey={key_files(kind)}", "commit-tree", "-S", "-m", "x", tree,
            cwd=repo, env=person,
        )  # fmt: skip
        raw = git("cat-file", "commit", oid, cwd=repo).stdout
        head, _, rest = raw.partition(b"gpgsig ")
        block, _, message = rest.partition(b"\n\n")
        signature = block.decode().replace("\n ", "\n")
        assert check(signature, head + b"\n" + message, "git") == Checked(public(key_files(kind)))


# --- what is wrong -----------------------------------------------------------------------------------

KEY = ed25519.Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
PUBLIC = sshsig.public_blob(KEY)
GOOD = sshsig.sign(KEY, MESSAGE, "gitjournal")
BLOB = blob_of(GOOD)
BODY = GOOD.split("\n")[1:-2]


def test_the_good_one_is_good() -> None:
    assert check(GOOD, MESSAGE, "gitjournal", sshsig.fingerprint(PUBLIC)) == Checked(PUBLIC)
    refused(GOOD, fingerprint_wanted=sshsig.fingerprint(PUBLIC + b"x"))


def test_no_flip_of_a_bit_passes() -> None:
    """A flip that makes another kind of key of it is not checked; none is right."""
    for _, spoiled in flips(BLOB, masks=[1 << bit for bit in range(8)]):
        try:
            assert isinstance(check(sshsig.armor(spoiled), MESSAGE, "gitjournal"), NotChecked)
            assert parse(sshsig.armor(spoiled)).key != PUBLIC
        except FormatError as error:
            assert error.code == "bad-signature"


def test_no_change_of_the_armour_passes_but_other_lines() -> None:
    raw = GOOD.encode()
    for at, spoiled in flips(raw, masks=(0x01, 0x20, 0x2A)):
        if raw[at : at + 1] != b"\n":
            refused_or_unchecked(spoiled.decode("latin-1"))
    begin, end = GOOD.split("\n")[0], GOOD.split("\n")[-2]
    whole = "".join(BODY)
    for lines in ([whole], list(whole), [*BODY, ""], ["", *BODY], [BODY[0], "", *BODY[1:]], [whole[:1], whole[1:]]):
        for tail in ("", "\n"):
            assert check("\n".join([begin, *lines, end]) + tail, MESSAGE, "gitjournal") == Checked(PUBLIC)


def refused_or_unchecked(armour: str) -> None:
    try:
        assert isinstance(check(armour, MESSAGE, "gitjournal"), NotChecked)
    except FormatError as error:
        assert error.code == "bad-signature"


@pytest.mark.parametrize(
    "change",
    [
        lambda t: "", lambda t: "\n", lambda t: t[1:], lambda t: t + "\n", lambda t: "\n" + t, lambda t: t + t,
        lambda t: t + "x", lambda t: t + "\x00", lambda t: t.replace("\n", "\r\n"), lambda t: " " + t,
        lambda t: t.replace("SSH SIGNATURE", "PGP SIGNATURE"), lambda t: t.replace("-----END", "----END"),
        lambda t: t.split("\n")[0], lambda t: "\n".join(t.split("\n")[:-2]), lambda t: t.replace("\n", ""),
        lambda t: t.replace(BODY[0], BODY[0] + " "), lambda t: t.replace(BODY[0], BODY[0] + "\t"),
        lambda t: t.replace(BODY[0], BODY[0] + "="), lambda t: t.replace(BODY[-1], BODY[-1] + "===="),
        lambda t: t.replace(BODY[-1], BODY[-1] + "AAAA"), lambda t: t.replace(BODY[0], BODY[0] + "\x0b"),
        lambda t: t.replace(BODY[0], "Comment: x\n" + BODY[0]), lambda t: t.replace(BODY[0], "\u00e9" + BODY[0]),
        lambda t: t.replace(BODY[0], "\ud800" + BODY[0]), lambda t: t.replace(BODY[0], "-_-_" + BODY[0]),
        lambda t: t.replace("\n" + "\n".join(BODY), ""),
    ],
)  # fmt: skip
def test_other_armour_is_refused(change: Callable[[str], str]) -> None:
    refused(change(GOOD))


def test_base64_has_one_form() -> None:
    assert sshsig.strict_base64("") == b"" and sshsig.strict_base64("AA==") == b"\x00"
    for other in (
        "AB==",
        "AA=",
        "AA",
        "AAA",
        "AA==\n",
        " AA==",
        "A A==",
        "AA==AA==",
        "=",
        "AAA\u0430",
        "_-==",
        "AAAA=",
    ):
        with pytest.raises(ValueError):
            sshsig.strict_base64(other)


MAGIC = b"SSHSIG\x00\x00\x00\x01"


def put(key: bytes = PUBLIC, namespace: bytes = b"gitjournal", reserved: bytes = b"", hash_name: bytes = b"sha512",
        signature: bytes | None = None, magic: bytes = MAGIC, after: bytes = b"") -> str:  # fmt: skip
    """A signature block of these parts; the signature is the right one of exactly them."""
    if signature is None:
        digest = sha512(MESSAGE).digest()
        data = b"SSHSIG" + string(namespace) + string(reserved) + string(hash_name) + string(digest)
        signature = string(b"ssh-ed25519") + string(KEY.sign(data))
    fields = (key, namespace, reserved, hash_name, signature)
    return sshsig.armor(magic + b"".join(map(string, fields)) + after)


def test_what_is_reserved_is_empty() -> None:
    """ssh-keygen passes over it, and checks the second one as if it were empty."""
    assert put() == GOOD
    refused(put(reserved=b"x"))
    refused(put(reserved=b"x", signature=parse(GOOD).signature))
    with pytest.raises(FormatError, match="reserved"):
        parse(put(key=string(b"ssh-new"), reserved=b"x"))


RIGHT = sshsig.strings(parse(GOOD).signature, 2)[1]


@pytest.mark.parametrize(
    "armour",
    [
        put(magic=MAGIC[:-1] + b"\x02"), put(magic=bytes(10)), put(magic=b"SSHSIX\x00\x00\x00\x01"),
        put(magic=b""), put(after=b"\x00"), put(after=string(b"")), put(namespace=b""), put(namespace=b"git"),
        put(namespace=b"gitjournal\x00"), put(namespace=b"\xff"), put(hash_name=b"sha1"), put(hash_name=b"sha384"),
        put(hash_name=b"SHA512"), put(hash_name=b""), put(hash_name=b"sha256"), put(key=b""), put(key=b"\x00\x00\x00"),
        put(key=b"\x00\x00\x00\x05ssh-"), put(key=b"\xff\xff\xff\xff"), put(key=string(b"ssh-ed25519")),
        put(key=PUBLIC + b"\x00"), put(key=PUBLIC + string(b"")), put(key=PUBLIC[:-1]),
        put(key=string(b"ssh-ed25519") + string(bytes(31))), put(key=string(b"ssh-ed25519") + string(bytes(33))),
        put(key=string(b"ssh-ed25519") + string(bytes(32))), put(key=string(b"ssh-ed25519") + string(b"\xff" * 32)),
        put(key=string(b"ssh-rsa") + string(b"")), put(key=string(b"ecdsa-sha2-nistp256") + string(b"nistp256")),
        put(signature=b""), put(signature=string(b"ssh-ed25519")), put(signature=string(b"") + string(RIGHT)),
        put(signature=string(b"ssh-rsa") + string(RIGHT)), put(signature=string(b"Ssh-ed25519") + string(RIGHT)),
        put(signature=string(b"ssh-ed25519") + string(RIGHT[:-1])), put(signature=string(b"ssh-ed25519") + string(b"")),
        put(signature=string(b"ssh-ed25519") + string(RIGHT + b"\x00")),
        put(signature=string(b"ssh-ed25519") + string(RIGHT) + b"\x00"),
        put(signature=string(b"ssh-ed25519") + string(RIGHT) + string(b"")),
        put(signature=string(b"ssh-ed25519") + string(bytes(64))),
    ],
)  # fmt: skip
def test_other_blobs_are_refused(armour: str) -> None:
    refused(armour)


def test_the_other_half_of_an_ed25519_signature_is_refused() -> None:
    """S + L is the same number to the curve, and would be a second signature of the same bytes."""
    order = 2**252 + 27742317777372353535851937790883648493
    number = int.from_bytes(RIGHT[32:], "little") + order
    refused(put(signature=string(b"ssh-ed25519") + string(RIGHT[:32] + number.to_bytes(32, "little"))))


# --- ECDSA ---------------------------------------------------------------------------------------------

EC_KEY = ec.derive_private_key(0x1234567890, ec.SECP256R1())
EC_PUBLIC = sshsig.public_blob(EC_KEY)
EC_ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551


def mpint(value: int) -> bytes:
    return string(value.to_bytes(value.bit_length() // 8 + 1, "big") if value else b"")


def ec_parts(curve: bytes = b"nistp256", point: bytes = EC_PUBLIC[-65:], name: bytes = b"ecdsa-sha2-nistp256") -> bytes:
    return string(name) + string(curve) + string(point)


def ec_signed(numbers: Callable[[int, int], bytes], key: bytes = EC_PUBLIC, name: bytes = b"ecdsa-sha2-nistp256",
              hash_: Any = None) -> str:  # fmt: skip
    data = sshsig.signed_bytes("gitjournal", "sha512", MESSAGE)
    r, s = utils.decode_dss_signature(EC_KEY.sign(data, ec.ECDSA(hash_ or hashes.SHA256())))
    return sshsig.enclose(key, "gitjournal", string(name) + string(numbers(r, s)))


def test_ecdsa_in_its_one_form() -> None:
    assert check(ec_signed(lambda r, s: mpint(r) + mpint(s)), MESSAGE, "gitjournal") == Checked(EC_PUBLIC)
    assert ec_parts() == EC_PUBLIC
    # This is the same signature to the curve; nothing here needs signatures to be unique.
    assert check(ec_signed(lambda r, s: mpint(r) + mpint(EC_ORDER - s)), MESSAGE, "gitjournal") == Checked(EC_PUBLIC)


@pytest.mark.parametrize(
    "numbers",
    [
        lambda r, s: mpint(r), lambda r, s: mpint(r) + mpint(s) + b"\x00",
        lambda r, s: mpint(r) + mpint(s) + string(b""), lambda r, s: b"",
        lambda r, s: mpint(s) + mpint(r), lambda r, s: mpint(r) + mpint(0), lambda r, s: mpint(0) + mpint(s),
        lambda r, s: mpint(0) + mpint(0), lambda r, s: mpint(r + EC_ORDER) + mpint(s),
        lambda r, s: mpint(r) + mpint(s + EC_ORDER), lambda r, s: mpint(EC_ORDER) + mpint(s),
        lambda r, s: mpint(r) + string(b"\x00\x00" + s.to_bytes(32, "big")), lambda r, s: string(b"\x00") + mpint(s),
        lambda r, s: mpint(r) + string(b"\x00" + mpint(s)[4:]), lambda r, s: mpint(r) + string(b"\xff" * 32),
        lambda r, s: mpint(r) + string(b"\x01" + bytes(5000)), lambda r, s: string(r.to_bytes(32, "big")) + b"\x00",
        lambda r, s: utils.encode_dss_signature(r, s), lambda r, s: r.to_bytes(32, "big") + s.to_bytes(32, "big"),
    ],
)  # fmt: skip
def test_ecdsa_numbers_in_any_other_form_are_refused(numbers: Callable[[int, int], bytes]) -> None:
    refused(ec_signed(numbers))


def test_ecdsa_keys_in_any_other_form_are_refused() -> None:
    x962 = EC_KEY.public_key().public_bytes
    compressed = x962(serialization.Encoding.X962, serialization.PublicFormat.CompressedPoint)
    point = EC_PUBLIC[-65:]
    for key in (
        ec_parts(point=compressed), ec_parts(point=b""), ec_parts(point=b"\x00"), ec_parts(point=point[:-1]),
        ec_parts(point=point + b"\x00"), ec_parts(point=b"\x06" + point[1:]), ec_parts(point=b"\x04" + bytes(64)),
        ec_parts(point=point[:-1] + bytes([point[-1] ^ 1])), ec_parts(curve=b"nistp384"), ec_parts(curve=b""),
        ec_parts(name=b"ecdsa-sha2-nistp384"), ec_parts(b"nistp384", name=b"ecdsa-sha2-nistp384"),
        EC_PUBLIC + b"\x00",
    ):  # fmt: skip
        refused(ec_signed(lambda r, s: mpint(r) + mpint(s), key))
        assert not sshsig.is_checked(key)
    refused(ec_signed(lambda r, s: mpint(r) + mpint(s), name=b"ecdsa-sha2-nistp384"))
    refused(ec_signed(lambda r, s: mpint(r) + mpint(s), hash_=hashes.SHA384()))


# --- RSA -----------------------------------------------------------------------------------------------

RSA_KEY = rsa.generate_private_key(65537, 2048)
RSA_PUBLIC = sshsig.public_blob(RSA_KEY)
RSA_N = RSA_KEY.public_key().public_numbers().n


def rsa_parts(e: bytes = mpint(65537), n: bytes = mpint(RSA_N), name: bytes = b"ssh-rsa") -> bytes:
    return string(name) + e + n


def rsa_signed(name: bytes = b"rsa-sha2-512", hash_: Any = None, key: bytes = RSA_PUBLIC,
               change: Callable[[bytes], bytes] = bytes, pad: Any = None) -> str:  # fmt: skip
    data = sshsig.signed_bytes("gitjournal", "sha512", MESSAGE)
    made = RSA_KEY.sign(data, pad or padding.PKCS1v15(), hash_ or hashes.SHA512())
    return sshsig.enclose(key, "gitjournal", string(name) + string(change(made)))


def test_rsa_with_both_hashes() -> None:
    assert rsa_parts() == RSA_PUBLIC
    assert check(rsa_signed(), MESSAGE, "gitjournal") == Checked(RSA_PUBLIC)
    assert check(rsa_signed(b"rsa-sha2-256", hashes.SHA256()), MESSAGE, "gitjournal") == Checked(RSA_PUBLIC)


def test_rsa_in_any_other_form_is_refused() -> None:
    refused(rsa_signed(b"rsa-sha2-256"))
    refused(rsa_signed(b"rsa-sha2-512", hashes.SHA256()))
    refused(rsa_signed(pad=padding.PSS(padding.MGF1(hashes.SHA512()), 64)))
    for name in (b"ssh-rsa", b"", b"ssh-ed25519", b"rsa-sha2-384", b"RSA-SHA2-512"):
        refused(rsa_signed(name))
        refused(rsa_signed(name, hashes.SHA1()))
    for change in (lambda raw: (int.from_bytes(raw, "big") + RSA_N).to_bytes(257, "big"), lambda raw: raw[:-1],
                   lambda raw: raw + b"\x00", lambda raw: b"\x00" + raw, lambda raw: b"",
                   lambda raw: bytes(256), lambda raw: b"\xff" * 256):  # fmt: skip
        refused(rsa_signed(change=change))


@pytest.mark.parametrize(
    "key",
    [
        rsa_parts(e=mpint(1)), rsa_parts(e=mpint(0)), rsa_parts(e=mpint(65536)), rsa_parts(e=mpint(2**31 + 1)),
        rsa_parts(e=string(b"\x00\x01\x00\x01")), rsa_parts(e=string(b"\x81")), rsa_parts(e=string(b"")),
        rsa_parts(n=mpint(0)), rsa_parts(n=mpint(RSA_N - 1)), rsa_parts(n=string(b"\x00" + mpint(RSA_N)[4:])),
        rsa_parts(n=string(mpint(RSA_N)[5:])), rsa_parts(n=mpint(2**2047 - 1)), rsa_parts(n=mpint(2**8192 + 1)),
        rsa_parts(n=mpint(2**70000 + 1)), rsa_parts(n=mpint(5)), rsa_parts(e=mpint(RSA_N), n=mpint(65537)),
        rsa_parts() + b"\x00", rsa_parts() + string(b""), rsa_parts(n=b""),
    ],
)  # fmt: skip
def test_rsa_keys_in_any_other_form_are_refused(key: bytes) -> None:
    refused(rsa_signed(key=key))
    assert not sshsig.is_checked(key)


def test_rsa_keys_from_2048_to_8192_bits() -> None:
    for n in (2**2047 + 1, 2**2048 - 1, 2**4095 + 1, 2**8191 + 1, 2**8192 - 1):
        assert sshsig.is_checked(rsa_parts(n=mpint(n)))
    for e in (3, 35, 65537, 2**31 - 1):
        assert sshsig.is_checked(rsa_parts(e=mpint(e)))


def test_rsa_keys_of_other_sizes_neither_sign_nor_count() -> None:
    small = rsa.generate_private_key(65537, 1024)
    with pytest.raises(UsageError, match="2048 to 8192"):
        sshsig.sign(small, b"", "git")
    data = sshsig.signed_bytes("git", "sha512", b"")
    made = string(b"rsa-sha2-512") + string(small.sign(data, padding.PKCS1v15(), hashes.SHA512()))
    refused(sshsig.enclose(sshsig.public_blob(small), "git", made), b"", "git")
    assert check(rsa_signed(key=rsa_parts()), MESSAGE, "gitjournal") == Checked(RSA_PUBLIC)
    for curve in (ec.SECP521R1(), ec.SECP256K1(), ec.BrainpoolP256R1()):
        with pytest.raises(UsageError, match="P-256"):
            sshsig.sign(ec.generate_private_key(curve), b"", "git")


# --- texts of keys, and nonsense -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "", "\n", "ssh-ed25519", "ssh-ed25519 ", "ssh-ed25519 AAAA", "ssh-ed25519 ====", "ssh-ed25519 \ud800",
        "\ud800 AAAA", sshsig.key_line(PUBLIC).replace("ssh-ed25519 ", "ssh-rsa "), b64encode(PUBLIC).decode(),
        sshsig.key_line(PUBLIC) + "\nssh-ed25519", "# " + sshsig.key_line(PUBLIC), 'namespaces="git" ssh-ed25519',
        sshsig.key_line(PUBLIC).replace(" ", "\u00a0"), sshsig.key_line(PUBLIC).rstrip("A") + "=",
    ],
)  # fmt: skip
def test_what_is_no_key_is_a_usage_error(text: str) -> None:
    with pytest.raises(UsageError, match="not a public key"):
        sshsig.parse_key(text)


@given(st.binary(max_size=200))
def test_any_bytes_are_refused_by_their_code(blob: bytes) -> None:
    for raw in (blob, BLOB[:10] + blob):
        with pytest.raises(FormatError) as caught:
            check(sshsig.armor(raw), MESSAGE, "gitjournal")
        assert caught.value.code == "bad-signature"


@given(st.integers(0, len(BLOB)), st.integers(0, len(BLOB)), st.binary(max_size=8))
def test_no_cut_or_insertion_passes(start: int, end: int, piece: bytes) -> None:
    spoiled = BLOB[:start] + piece + BLOB[end:]
    if spoiled != BLOB:
        refused_or_unchecked(sshsig.armor(spoiled))


@given(st.text())
def test_any_text_is_refused(text: str) -> None:
    refused(text)


def test_many_strings_and_long_ones_take_no_memory() -> None:
    for blob in (bytes(1 << 22), BLOB[:10] + bytes(1 << 22), BLOB[:10] + b"\xff" * (1 << 22)):
        refused(sshsig.armor(blob))
    long = string(b"other") + string(bytes(1 << 22))
    assert check(sshsig.enclose(long, "git", b""), b"", "git") == NotChecked(long)
    assert sshsig._verifier.cache_info().currsize <= 256


def test_importing_it_does_not_load_cryptography() -> None:
    script = (
        "import sys, gitjournal.sshsig, gitjournal.signers, gitjournal.keys; sys.exit('cryptography' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", script], cwd=ROOT, check=True)
