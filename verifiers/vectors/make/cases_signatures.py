"""Signatures in every odd form, of every kind of key (docs/verification.md section 9)."""

from __future__ import annotations

import base64
import struct
from collections.abc import Mapping
from dataclasses import replace

from .cases_seals import (
    AFTER_TEXT,
    ALICE,
    CUT_TEXT,
    EXPORT_TEXT,
    KIND_TEXT,
    MALLORY,
    NOBODY_TEXT,
    P256,
    P384,
    P521,
    checkpoint,
    rsa,
    says,
    signed,
    statement,
    with_signature,
)
from .kit import Line, talk
from .sshsig import Key, armour, mpint, odd_key, string, to_sign
from .suite import Finding, Suite


def _blob(key: Key, /, **parts: bytes) -> bytes:
    """The parts of a signature blob put together, some of them others."""
    message = checkpoint()
    usual = {
        "magic": b"SSHSIG",
        "version": struct.pack(">I", 1),
        "key": string(key.blob),
        "namespace": string(b"gitjournal"),
        "reserved": string(b""),
        "hash": string(b"sha512"),
        "signature": string(
            key.raw(to_sign("gitjournal", message)) if key.private else string(key.kind.encode()) + string(bytes(64))
        ),
        "rest": b"",
    }
    return b"".join({**usual, **parts}.values())


def _armours() -> Mapping[str, tuple[str, bool]]:
    """Texts around a right blob, and whether they are right."""
    # Not of Ed25519: the length of this blob leaves bits over, and there is padding.
    blob = _blob(rsa(2048))
    text = base64.b64encode(blob).decode()
    begin, end = "-----BEGIN SSH SIGNATURE-----", "-----END SSH SIGNATURE-----"
    usual = armour(blob)
    bits = text.rstrip("=")
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    other_bits = bits[:-1] + alphabet[alphabet.index(bits[-1]) | 1] + "=" * (len(text) - len(bits))
    return {
        "plain": (usual, True),
        "without-last-newline": (usual[:-1], True),
        "in-one-line": (f"{begin}\n{text}\n{end}\n", True),
        "in-many-lines": (armour(blob, 7), True),
        "with-empty-lines": (usual.replace("\n", "\n\n", 2), True),
        "with-two-last-newlines": (usual + "\n", False),
        "with-a-newline-before": ("\n" + usual, False),
        "with-returns": (usual.replace("\n", "\r\n"), False),
        "with-a-space-in-a-line": (usual.replace("\n", "\n ", 1), False),
        "with-text-before": ("x\n" + usual, False),
        "with-text-behind": (usual + "x\n", False),
        "with-a-header": (usual.replace("\n", "\nComment: x\n", 1), False),
        "without-padding": (f"{begin}\n{bits}\n{end}\n", False),
        "with-more-padding": (f"{begin}\n{text}=\n{end}\n", False),
        "with-padding-in-the-middle": (f"{begin}\n{text[:4]}====\n{text[4:]}\n{end}\n", False),
        "with-other-last-bits": (f"{begin}\n{other_bits}\n{end}\n", False),
        "in-base64url": (f"{begin}\n{text.replace('+', '-').replace('/', '_')}\n{end}\n", False),
        "with-a-star": (f"{begin}\n{text[:8]}*{text[8:]}\n{end}\n", False),
        "with-an-umlaut": (f"{begin}\n{text[:8]}\u00e4{text[8:]}\n{end}\n", False),
        "with-four-dashes": (usual.replace("-----BEGIN", "----BEGIN"), False),
        "in-small-letters": (usual.replace("BEGIN SSH", "begin ssh"), False),
        "of-pgp": (usual.replace("SSH", "PGP"), False),
        "without-first-line": (f"{text}\n{end}\n", False),
        "without-last-line": (f"{begin}\n{text}\n", False),
        "without-body": (f"{begin}\n{end}\n", False),
        "twice": (usual * 2, False),
        "twice-in-one": (f"{begin}\n{text}\n{end}\n{begin}\n{text}\n{end}", False),
        "empty": ("", False),
        "only-the-blob": (text, False),
    }


def _envelopes() -> Mapping[str, tuple[Key, bytes | None, bool]]:
    """Blobs: whose key, the bytes, and whether they are right."""
    raw = ALICE.raw(to_sign("gitjournal", checkpoint()))
    value = raw[-64:]
    low = int.from_bytes(value[32:], "little")
    order = 2**252 + 27742317777372353535851937790883648493
    again = value[:32] + (low + order).to_bytes(32, "little")

    def sig(algorithm: bytes, data: bytes, rest: bytes = b"") -> bytes:
        return string(string(algorithm) + string(data) + rest)

    over_x = ALICE.raw(to_sign("gitjournal", checkpoint(), reserved=b"x"))
    kind = b"ssh-ed25519"
    point = ALICE.blob[-32:]
    return {
        "magic-in-small-letters": (ALICE, _blob(ALICE, magic=b"sshsig"), False),
        "version-0": (ALICE, _blob(ALICE, version=bytes(4)), False),
        "version-2": (ALICE, _blob(ALICE, version=b"\0\0\0\2"), False),
        "bytes-left-over": (ALICE, _blob(ALICE, rest=b"\0"), False),
        "cut": (ALICE, _blob(ALICE)[:-1], False),
        "empty": (ALICE, b"", False),
        "length-too-long": (ALICE, _blob(ALICE, reserved=b"\xff\xff\xff\xff"), False),
        "length-of-the-key-too-long": (ALICE, _blob(ALICE, key=b"\x7f\xff\xff\xff"), False),
        "hash-sha1": (ALICE, _blob(ALICE, hash=string(b"sha1")), False),
        "hash-sha384": (ALICE, _blob(ALICE, hash=string(b"sha384")), False),
        "hash-in-upper-case": (ALICE, _blob(ALICE, hash=string(b"SHA512")), False),
        "hash-of-the-other-kind": (ALICE, _blob(ALICE, hash=string(b"sha256")), False),
        "namespace-git": (ALICE, _blob(ALICE, namespace=string(b"git")), False),
        "namespace-empty": (ALICE, _blob(ALICE, namespace=string(b"")), False),
        "namespace-with-nul": (ALICE, _blob(ALICE, namespace=string(b"gitjournal\0")), False),
        # OpenSSH would take the first one for right, since it checks an empty field whatever stands there.
        "reserved-and-not-signed": (ALICE, _blob(ALICE, reserved=string(b"x")), False),
        "reserved-and-signed": (ALICE, _blob(ALICE, reserved=string(b"x"), signature=string(over_x)), False),
        "signature-of-63-bytes": (ALICE, _blob(ALICE, signature=sig(kind, value[:-1])), False),
        "signature-of-65-bytes": (ALICE, _blob(ALICE, signature=sig(kind, value + b"\0")), False),
        "signature-of-zeros": (ALICE, _blob(ALICE, signature=sig(kind, bytes(64))), False),
        "signature-empty": (ALICE, _blob(ALICE, signature=string(b"")), False),
        "signature-with-more": (ALICE, _blob(ALICE, signature=sig(kind, value, b"\0\0\0\1x")), False),
        "signature-without-bytes": (ALICE, _blob(ALICE, signature=string(string(kind))), False),
        "signature-malleable": (ALICE, _blob(ALICE, signature=sig(kind, again)), False),
        "algorithm-of-another-kind": (ALICE, _blob(ALICE, signature=sig(b"ssh-rsa", value)), False),
        "algorithm-unknown": (ALICE, _blob(ALICE, signature=sig(b"ssh-ed448", value)), False),
        "key-of-31-bytes": (replace(ALICE, blob=string(kind) + string(point[:-1])), None, False),
        "key-of-33-bytes": (replace(ALICE, blob=string(kind) + string(point + b"\0")), None, False),
        "key-with-more": (replace(ALICE, blob=ALICE.blob + string(b"x")), None, False),
        "key-without-point": (replace(ALICE, blob=string(kind)), None, False),
        "key-empty": (replace(ALICE, blob=b""), None, False),
        "key-cut": (replace(ALICE, blob=ALICE.blob[:-1]), None, False),
        "key-off-the-curve": (replace(ALICE, blob=string(kind) + string(b"\x02" + bytes(31))), None, False),
        "key-of-mallory": (MALLORY, _blob(ALICE, key=string(MALLORY.blob)), False),
    }


def _ecdsa() -> Mapping[str, tuple[Key, bytes | None, bool]]:
    signature = P256.raw(to_sign("gitjournal", checkpoint()))
    kind, curve = P256.kind.encode(), b"nistp256"
    inner = signature[4 + len(kind) + 4 :]
    size = struct.unpack(">I", inner[:4])[0]
    r, s = int.from_bytes(inner[4 : 4 + size], "big"), int.from_bytes(inner[8 + size :], "big")
    order = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
    point = P256.blob[-65:]
    y = int.from_bytes(point[33:], "big")

    def sig(first_: bytes, second: bytes, rest: bytes = b"", name: bytes = kind) -> bytes:
        return string(string(name) + string(first_ + second + rest))

    def key(at: bytes, name: bytes = curve, first_: bytes = kind) -> Key:
        return replace(P256, blob=string(first_) + string(name) + string(at))

    der = b"\x30\x44\x02\x20" + r.to_bytes(33, "big")[-32:] + b"\x02\x20" + s.to_bytes(33, "big")[-32:]
    padded = string(b"\0\0" + r.to_bytes(32, "big"))
    return {
        "the-other-s": (P256, _blob(P256, signature=sig(mpint(r), mpint(order - s))), True),
        "r-zero": (P256, _blob(P256, signature=sig(mpint(0), mpint(s))), False),
        "s-zero": (P256, _blob(P256, signature=sig(mpint(r), mpint(0))), False),
        "s-is-the-order": (P256, _blob(P256, signature=sig(mpint(r), mpint(order))), False),
        "s-and-the-order": (P256, _blob(P256, signature=sig(mpint(r), mpint(s + order))), False),
        "r-and-the-order": (P256, _blob(P256, signature=sig(mpint(r + order), mpint(s))), False),
        "r-with-zeros": (P256, _blob(P256, signature=sig(padded, mpint(s))), False),
        "r-negative": (P256, _blob(P256, signature=sig(string(b"\xff" + r.to_bytes(32, "big")), mpint(s))), False),
        "swapped": (P256, _blob(P256, signature=sig(mpint(s), mpint(r))), False),
        "with-more": (P256, _blob(P256, signature=sig(mpint(r), mpint(s), mpint(1))), False),
        "without-s": (P256, _blob(P256, signature=sig(mpint(r), b"")), False),
        "in-der": (P256, _blob(P256, signature=string(string(kind) + string(der))), False),
        "huge": (P256, _blob(P256, signature=sig(string(b"\x01" * 5000), mpint(s))), False),
        "algorithm-of-p384": (P256, _blob(P256, signature=sig(mpint(r), mpint(s), name=b"ecdsa-sha2-nistp384")), False),
        "compressed-point": (key(bytes([2 + y % 2]) + point[1:33]), None, False),
        "point-off-the-curve": (key(point[:-1] + bytes([point[-1] ^ 1])), None, False),
        "point-at-infinity": (key(b"\0"), None, False),
        "point-of-zeros": (key(b"\x04" + bytes(64)), None, False),
        "point-with-hybrid-form": (key(bytes([6 + y % 2]) + point[1:]), None, False),
        "point-beyond-the-field": (key(b"\x04" + b"\xff" * 64), None, False),
        "curve-of-p384": (key(point, b"nistp384"), None, False),
        "kind-of-p384": (key(point, curve, b"ecdsa-sha2-nistp384"), None, False),
    }


def _rsa_cases() -> Mapping[str, tuple[Key, bytes | None, bool]]:
    key = rsa(2048)
    n, d, _, _ = key.private
    message = to_sign("gitjournal", checkpoint())
    signature = key.raw(message)[4 + len("rsa-sha2-512") + 4 :]
    number = int.from_bytes(signature, "big")
    name = b"rsa-sha2-512"

    def sig(data: bytes, algorithm: bytes = name) -> bytes:
        return string(string(algorithm) + string(data))

    def other_key(e: bytes, modulus: bytes) -> Key:
        return replace(key, blob=string(b"ssh-rsa") + e + modulus)

    def padded(tail: bytes, fill: bytes = b"\xff", begin: bytes = b"\0\1") -> bytes:
        room = 256 - len(begin) - 1 - len(tail)
        made = int.from_bytes(begin + fill * room + b"\0" + tail, "big")
        return _blob(key, signature=sig(pow(made, d, n).to_bytes(256, "big")))

    import hashlib

    digest = hashlib.sha512(message).digest()
    info = bytes.fromhex("3051300d060960864801650304020305000440") + digest
    bare = bytes.fromhex("304f300b0609608648016503040203") + b"\x04\x40" + digest
    # Cube roots: with the exponent 3 and nobody looking at what follows the digest, anybody can sign.
    three = rsa(2048, 3)
    forged = _cube_root(int.from_bytes(b"\0\1" + b"\xff" * 8 + b"\0" + info, "big") << (8 * (256 - 11 - len(info))))
    small = forged.to_bytes(256, "big")
    exponent, modulus = mpint(65537), mpint(n)
    return {
        "algorithm-sha1": (key, _blob(key, signature=string(key.raw(message, "ssh-rsa"))), False),
        "algorithm-of-the-other-hash": (key, _blob(key, signature=sig(signature, b"rsa-sha2-256")), False),
        "algorithm-sha384": (key, _blob(key, signature=sig(signature, b"rsa-sha2-384")), False),
        "signature-too-short": (key, _blob(key, signature=sig(signature[1:])), False),
        "signature-too-long": (key, _blob(key, signature=sig(b"\0" + signature)), False),
        "signature-plus-modulus": (key, _blob(key, signature=sig((number + n).to_bytes(257, "big"))), False),
        "signature-zero": (key, _blob(key, signature=sig(bytes(256))), False),
        "signature-one": (key, _blob(key, signature=sig(bytes(255) + b"\1")), False),
        "signature-empty": (key, _blob(key, signature=sig(b"")), False),
        "digest-info-without-null": (key, padded(bare), False),
        "digest-without-info": (key, padded(digest), False),
        "digest-with-more-behind": (key, padded(info + b"\0" * 16), False),
        "padding-of-other-bytes": (key, padded(info, b"\xfe"), False),
        "padding-of-encryption": (key, padded(info, b"\xff", b"\0\2"), False),
        "forged-with-exponent-3": (three, _blob(three, signature=sig(small)), False),
        "bits-1024": (rsa(1024), None, False),
        "bits-2040": (rsa(2040), None, False),
        "bits-8676": (rsa(8676), None, False),
        "exponent-1": (other_key(mpint(1), modulus), None, False),
        "exponent-2": (other_key(mpint(2), modulus), None, False),
        "exponent-even": (other_key(mpint(65536), modulus), None, False),
        "exponent-too-large": (other_key(mpint(2**31 + 1), modulus), None, False),
        "exponent-of-64-bits": (other_key(mpint(2**64 + 1), modulus), None, False),
        "exponent-zero": (other_key(mpint(0), modulus), None, False),
        "exponent-with-zeros": (other_key(string(b"\0\1\0\1"), modulus), None, False),
        "exponent-negative": (other_key(string(b"\xff"), modulus), None, False),
        "modulus-with-zeros": (other_key(exponent, string(b"\0\0" + n.to_bytes(256, "big"))), None, False),
        "modulus-without-its-zero": (other_key(exponent, string(n.to_bytes(256, "big"))), None, False),
        "modulus-even": (other_key(exponent, mpint(n + 1)), None, False),
        "modulus-zero": (other_key(exponent, mpint(0)), None, False),
        "modulus-missing": (other_key(exponent, b""), None, False),
        "key-with-more": (other_key(exponent, modulus + mpint(1)), None, False),
    }


def _cube_root(number: int) -> int:
    """The smallest number whose cube is not smaller."""
    low, high = 0, 1 << (number.bit_length() // 3 + 2)
    while low < high:
        middle = (low + high) // 2
        low, high = (middle + 1, high) if middle**3 < number else (low, middle)
    return low


def _signatures(suite: Suite) -> None:
    bad: list[Finding] = [("bad-signature", 5)]

    def case(name: str, key: Key, text: str, right: bool) -> None:
        line = with_signature(text, key)
        about = "a signature in another form" if right else "a signature that is none"
        more = says(1, 0, (key, None, 1)) if right else says(0)
        suite.export(
            f"signature-{name}",
            about,
            line.events,
            [] if right else bad,
            exit_=3 if right else 1,
            line={"seals": 1, **more},
        )

    for name, (text, right) in _armours().items():
        case(f"armour-{name}", rsa(2048), text, right)
    for group, cases in {"blob": _envelopes(), "ecdsa": _ecdsa(), "rsa": _rsa_cases()}.items():
        for name, (key, blob, right) in cases.items():
            case(f"{group}-{name}", key, armour(_blob(key) if blob is None else blob), right)
    p384 = P384.raw(to_sign("gitjournal", checkpoint()))
    case("ecdsa-p384-as-p256", P256, armour(_blob(P256, signature=string(p384))), False)
    message = checkpoint()
    wrong: Mapping[str, Line] = {
        "of-another-text": with_signature(ALICE.sign(message.replace(b"\n4\n", b"\n5\n")), ALICE),
        "of-another-namespace": with_signature(ALICE.sign(message, "git"), ALICE),
        "of-another-namespace-that-lies": with_signature(ALICE.sign(message, "git", says="gitjournal"), ALICE),
        "of-the-text-itself": with_signature(armour(ALICE.envelope(ALICE.raw(message))), ALICE),
        "moved-from-another-session": with_signature(ALICE.sign(message.replace(b"/s/", b"/t/")), ALICE),
        "moved-from-another-branch": with_signature(ALICE.sign(message.replace(b"/main", b"/try")), ALICE),
        "under-another-key": with_signature(ALICE.sign(message), MALLORY),
        "under-a-key-in-hex": with_signature(ALICE.sign(message), _named(ALICE, "MD5:00")),
        "under-a-padded-fingerprint": with_signature(ALICE.sign(message), _named(ALICE, ALICE.fingerprint + "=")),
        "under-no-key": with_signature(ALICE.sign(message), _named(ALICE, "")),
    }
    for name, line in wrong.items():
        suite.export(
            f"signature-{name}", "a signature of something else", line.events, bad, line={"seals": 1, **says(0)}
        )
    mixed = talk(4)
    data = signed(statement(mixed), ALICE, P256)
    data["signatures"][0] = {**data["signatures"][0], "sshsig": "x"}
    mixed.add("session.seal", data)
    suite.export(
        "signature-bad-beside-a-good-one",
        "one of two",
        mixed.events,
        bad,
        line={"seals": 1, **says(1, 0, (P256, None, 1))},
    )
    both = talk(4)
    both.add(
        "session.seal", {**statement(both), "signatures": [{"key": "x", "sshsig": "x"}, {"key": "y", "sshsig": "y"}]}
    )
    suite.export("signature-two-bad-ones", "no finding twice", both.events, bad)


def _named(key: Key, name: str) -> Key:
    """The key under another fingerprint."""

    class Named(Key):
        @property
        def fingerprint(self) -> str:
            return name

    return Named(key.kind, key.blob, key.algorithm, key.private)


def _kinds(suite: Suite) -> None:
    """Kinds that are not checked here."""
    keys = {
        "sk-ed25519": odd_key("sk-ssh-ed25519@openssh.com", bytes(32), b"ssh:"),
        "sk-ecdsa": odd_key("sk-ecdsa-sha2-nistp256@openssh.com", b"nistp256", bytes(65), b"ssh:"),
        "certificate": odd_key("ssh-ed25519-cert-v01@openssh.com", bytes(32), bytes(100)),
        "dsa": odd_key("ssh-dss", b"\1"),
        "unknown": odd_key("x", b""),
        "of-no-name": odd_key("", b""),
        "of-another-case": odd_key("SSH-ED25519", bytes(32)),
    }
    for name, key in {"p521": P521, **keys}.items():
        line = with_signature(armour(_blob(key)), key)
        texts = {"unchecked": [EXPORT_TEXT, CUT_TEXT, NOBODY_TEXT, KIND_TEXT + "1"], "verdict": "incomplete"}
        suite.export(
            f"kind-{name}",
            "a kind of key that is not checked here",
            line.events,
            exit_=3,
            verdict=texts,
            line={"seals": 1, **says(0)},
        )
    key = keys["sk-ed25519"]
    bad: list[Finding] = [("bad-signature", 5)]
    line = with_signature(armour(_blob(key, namespace=string(b"git"))), key)
    suite.export("kind-unknown-and-another-namespace", "a wrong namespace is wrong in every kind", line.events, bad)
    line = with_signature(armour(_blob(key, reserved=string(b"x"))), key)
    suite.export("kind-unknown-and-reserved", "a reserved field is empty in every kind", line.events, bad)
    line = with_signature(armour(_blob(key)), ALICE)
    suite.export("kind-unknown-and-another-key", "a wrong fingerprint is wrong in every kind", line.events, bad)
    line = with_signature(armour(_blob(key, signature=string(b"anything"))), key)
    suite.export(
        "kind-unknown-and-an-odd-signature",
        "nothing more is looked at",
        line.events,
        exit_=3,
        line={"seals": 1, **says(0)},
    )
    odd = replace(ALICE, blob=b"\xff\xff")
    suite.export(
        "kind-that-cannot-be-read", "the key has no first string", with_signature(armour(_blob(odd)), odd).events, bad
    )
    raw = odd_key("x", b"")
    bytes_ = replace(raw, blob=string(b"\xff\x00\n"))
    suite.export(
        "kind-of-bytes",
        "the kind is no text",
        with_signature(armour(_blob(bytes_)), bytes_).events,
        exit_=3,
        line={"seals": 1},
    )
    line = talk(4)
    line.add("session.seal", signed(statement(line), ALICE))
    data = signed(statement(line), ALICE)
    data["signatures"].append({"key": key.fingerprint, "sshsig": armour(_blob(key))})
    line.add("session.seal", data)
    args = ["--allowed-signers", "{vectors}/seals/alice.signers"]
    texts = {"unchecked": [EXPORT_TEXT, CUT_TEXT, KIND_TEXT + "1", AFTER_TEXT]}
    suite.export(
        "kind-beside-a-known-one",
        "two signatures are accepted, one is not checked",
        line.events,
        exit_=3,
        args=args,
        verdict=texts,
        line=says(2, 5, (ALICE, "alice@example.org", 2)),
    )


def add(suite: Suite) -> None:
    """All cases of this file."""
    suite.folder = "seals"
    _signatures(suite)
    _kinds(suite)
