"""SSH signatures with fixed keys, right and wrong (docs/verification.md section 9)."""

from __future__ import annotations

import base64
import json
import struct
from dataclasses import dataclass
from hashlib import new as new_hash
from hashlib import sha256
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

#: Primes of the RSA keys, made once: finding new ones takes long, and would not give the same vectors.
_PRIMES = Path(__file__).with_name("rsa_primes.json")
_PREFIX = {
    "sha1": bytes.fromhex("3021300906052b0e03021a05000414"),
    "sha256": bytes.fromhex("3031300d060960864801650304020105000420"),
    "sha512": bytes.fromhex("3051300d060960864801650304020305000440"),
}
_CURVES: dict[str, tuple[Any, Any]] = {
    "nistp256": (ec.SECP256R1(), hashes.SHA256()),
    "nistp384": (ec.SECP384R1(), hashes.SHA384()),
    "nistp521": (ec.SECP521R1(), hashes.SHA512()),
}


def string(data: bytes) -> bytes:
    """An RFC 4251 string."""
    return struct.pack(">I", len(data)) + data


def mpint(number: int) -> bytes:
    """An RFC 4251 mpint, not negative."""
    return string(number.to_bytes(number.bit_length() // 8 + 1, "big") if number else b"")


def armour(blob: bytes, width: int = 70) -> str:
    """A signature blob between its two lines."""
    text = base64.b64encode(blob).decode()
    lines = [text[at : at + width] for at in range(0, len(text), width)]
    return "\n".join(["-----BEGIN SSH SIGNATURE-----", *lines, "-----END SSH SIGNATURE-----", ""])


def to_sign(namespace: str, message: bytes, hash_: str = "sha512", reserved: bytes = b"") -> bytes:
    """The bytes that are signed."""
    parts = (namespace.encode(), reserved, hash_.encode(), new_hash(hash_, message).digest())
    return b"SSHSIG" + b"".join(map(string, parts))


@dataclass(frozen=True)
class Key:
    """A key pair. ``algorithm`` is the name inside the signature."""

    kind: str
    blob: bytes
    algorithm: str
    private: Any

    @property
    def fingerprint(self) -> str:
        """``SHA256:...`` as ssh-keygen -l prints it."""
        return "SHA256:" + base64.b64encode(sha256(self.blob).digest()).decode().rstrip("=")

    @property
    def line(self) -> str:
        """``keytype base64``, as in all of OpenSSH's files."""
        return f"{self.kind} {base64.b64encode(self.blob).decode()}"

    def raw(self, data: bytes, algorithm: str | None = None) -> bytes:
        """The signature field over ``data``."""
        name = algorithm or self.algorithm
        if self.kind == "ssh-ed25519":
            value = self.private.sign(data)
        elif self.kind.startswith("ecdsa"):
            curve_hash = _CURVES[self.kind.rpartition("-")[2]][1]
            made = self.private.sign(data, ec.ECDSA(curve_hash, deterministic_signing=True))
            value = b"".join(map(mpint, decode_dss_signature(made)))
        else:
            value = _rsa(self.private, data, {"ssh-rsa": "sha1", "rsa-sha2-256": "sha256"}.get(name, "sha512"))
        return string(name.encode()) + string(value)

    def sign(
        self,
        message: bytes,
        namespace: str = "gitjournal",
        *,
        hash_: str = "sha512",
        algorithm: str | None = None,
        says: str | None = None,
        version: int = 1,
        extra: bytes = b"",
    ) -> str:
        """An armoured signature; ``says`` is another namespace than the signed one, ``extra`` comes after the blob."""
        blob = self.envelope(
            self.raw(to_sign(namespace, message, hash_), algorithm),
            *(says or namespace, hash_, version),
        )
        return armour(blob + extra)

    def envelope(
        self,
        signature: bytes,
        namespace: str = "gitjournal",
        hash_: str = "sha512",
        version: int = 1,
    ) -> bytes:
        """The blob around a signature field."""
        parts = (self.blob, namespace.encode(), b"", hash_.encode(), signature)
        return b"SSHSIG" + struct.pack(">I", version) + b"".join(map(string, parts))


def ed25519_key(name: str) -> Key:
    """A key whose seed is the hash of its name."""
    private = ed25519.Ed25519PrivateKey.from_private_bytes(sha256(name.encode()).digest())
    blob = string(b"ssh-ed25519") + string(private.public_key().public_bytes_raw())
    return Key("ssh-ed25519", blob, "ssh-ed25519", private)


def ecdsa_key(name: str, curve: str) -> Key:
    """A key whose secret number is the hash of its name."""
    private = ec.derive_private_key(int.from_bytes(sha256(name.encode()).digest()[:31], "big"), _CURVES[curve][0])
    numbers = private.public_key().public_numbers()
    size = (private.curve.key_size + 7) // 8
    point = b"\x04" + numbers.x.to_bytes(size, "big") + numbers.y.to_bytes(size, "big")
    kind = f"ecdsa-sha2-{curve}"
    return Key(kind, string(kind.encode()) + string(curve.encode()) + string(point), kind, private)


def rsa_key(bits: int, exponent: int = 65537) -> Key:
    """The stored key of this size; one of 8676 bits for any other."""
    stored = json.loads(_PRIMES.read_text()).get(str(bits))
    # The product of two Mersenne primes is the one that is too long.
    p, q = (int(text, 16) for text in stored) if stored else (2**4253 - 1, 2**4423 - 1)
    blob = string(b"ssh-rsa") + mpint(exponent) + mpint(p * q)
    private = (p * q, pow(exponent, -1, (p - 1) * (q - 1)) if exponent > 1 else 1, p, q)
    return Key("ssh-rsa", blob, "rsa-sha2-512", private)


def _rsa(private: tuple[int, int, int, int], data: bytes, hash_: str) -> bytes:
    """PKCS #1 v1.5, with plain numbers: no library signs with keys as short or long as some here."""
    n, d, p, q = private
    size = (n.bit_length() + 7) // 8
    digest = _PREFIX[hash_] + new_hash(hash_, data).digest()
    padded = int.from_bytes(b"\x00\x01" + b"\xff" * (size - 3 - len(digest)) + b"\x00" + digest, "big")
    at_p, at_q = pow(padded % p, d % (p - 1), p), pow(padded % q, d % (q - 1), q)
    return (at_q + (at_p - at_q) * pow(q, -1, p) % p * q).to_bytes(size, "big")


def odd_key(kind: str, *parts: bytes) -> Key:
    """A key of a kind that is not checked; its signature is 64 zero bytes."""
    return Key(kind, string(kind.encode()) + b"".join(map(string, parts)), kind, None)
