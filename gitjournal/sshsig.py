"""SSH signatures, as `ssh-keygen -Y` and git write them: form, check, making (docs/verification.md section 9).

Floor 0, pure. `cryptography` is loaded when a signature is checked or made, and not before.
"""

from __future__ import annotations

import re
import struct
from base64 import b64decode, b64encode
from collections.abc import Callable
from functools import lru_cache
from hashlib import sha256, sha512
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from gitjournal.errors import FormatError, UsageError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
    from cryptography.hazmat.primitives.hashes import HashAlgorithm

    PrivateKey: TypeAlias = Ed25519PrivateKey | EllipticCurvePrivateKey | RSAPrivateKey

#: Namespace of the signature of a commit; that of a seal is `seal.NAMESPACE`.
GIT = "git"

#: The hash that signatures made here take of the message.
HASH = "sha512"
RSA_BITS = range(2048, 8193)

_MAGIC = b"SSHSIG"
_BEGIN = "-----BEGIN SSH SIGNATURE-----"
_END = "-----END SSH SIGNATURE-----"
_LINE = 70  # as long as OpenSSH makes them
_DIGESTS = {b"sha256": sha256, b"sha512": sha512}
_ED25519 = b"ssh-ed25519"
_RSA = b"ssh-rsa"
# Kind of key: name of its curve, length of a coordinate, hash of its signatures.
_CURVES = {
    b"ecdsa-sha2-nistp256": (b"nistp256", 32, "sha256"),
    b"ecdsa-sha2-nistp384": (b"nistp384", 48, "sha384"),
}
_CURVE_KINDS = {"secp256r1": b"ecdsa-sha2-nistp256", "secp384r1": b"ecdsa-sha2-nistp384"}
_RSA_HASHES = {b"rsa-sha2-256": "sha256", b"rsa-sha2-512": "sha512"}
_CHECKED_KINDS = {_ED25519, _RSA, *_CURVES}
# The fields of a key's text are separated by these only; str.split() would take other spaces as well.
_BLANKS = re.compile(r"[ \t]+")

# Whether a signature (algorithm, bytes) over some bytes is right. Raises FormatError when it has a wrong form.
_Verifier: TypeAlias = Callable[[bytes, bytes, bytes], bool]


class Signature(NamedTuple):
    """What a signature block says. ``key`` is the public key blob, ``signature`` a blob of (algorithm, bytes)."""

    key: bytes
    namespace: bytes
    hash_name: bytes
    signature: bytes


class Checked(NamedTuple):
    """The signature is right, and was made by ``key`` (a public key blob)."""

    key: bytes


class NotChecked(NamedTuple):
    """The signature is in form and of a kind of key that is not checked here."""

    key: bytes


def parse(armour: str) -> Signature:
    """The parts of an armoured signature, of whatever kind its key is. FormatError ``bad-signature``."""
    lines = armour.split("\n")
    if not lines[-1]:
        lines.pop()
    if len(lines) < 2 or lines[0] != _BEGIN or lines[-1] != _END:
        raise _bad("no SSH SIGNATURE block")
    try:
        blob = strict_base64("".join(lines[1:-1]))
    except ValueError:
        raise _bad("the signature block is not base64") from None
    if blob[:10] != _MAGIC + b"\x00\x00\x00\x01":
        raise _bad("not a signature of version 1")
    key, namespace, reserved, hash_name, signature = strings(blob[10:], 5)
    # OpenSSH signs and checks an empty one, whatever stands there.
    if reserved:
        raise _bad("the reserved field is not empty")
    if hash_name not in _DIGESTS:
        raise _bad(f"{hash_name[:20]!r} is neither sha256 nor sha512")
    return Signature(key, namespace, hash_name, signature)


def check(armour: str, message: bytes, namespace: str, fingerprint_wanted: str | None = None) -> Checked | NotChecked:
    """Check an armoured signature of ``message``. FormatError ``bad-signature`` when anything about it is wrong.

    ``fingerprint_wanted`` is that of the key which must have made it, if that is known.
    """
    parsed = parse(armour)
    if parsed.namespace != namespace.encode():
        raise _bad(f"the signature is for {parsed.namespace[:40]!r} and not for {namespace!r}")
    if fingerprint_wanted is not None and fingerprint(parsed.key) != fingerprint_wanted:
        raise _bad(f"the signature is by {fingerprint(parsed.key)} and not by {fingerprint_wanted[:60]!a}")
    if first_string(parsed.key) not in _CHECKED_KINDS:
        return NotChecked(parsed.key)
    right = _verifier(parsed.key)
    algorithm, signature = strings(parsed.signature, 2)
    if not right(algorithm, signature, _signed(parsed.namespace, parsed.hash_name, message)):
        raise _bad(f"the signature of {fingerprint(parsed.key)} is not one of these bytes")
    return Checked(parsed.key)


def signed_bytes(namespace: str, hash_name: str, message: bytes) -> bytes:
    """The bytes that a key signs for ``message``; ``hash_name`` is ``sha256`` or ``sha512``."""
    return _signed(namespace.encode(), hash_name.encode(), message)


def _signed(namespace: bytes, hash_name: bytes, message: bytes) -> bytes:
    digest = _DIGESTS[hash_name](message).digest()
    return _MAGIC + string(namespace) + string(b"") + string(hash_name) + string(digest)


def armor(blob: bytes) -> str:
    """A signature blob in the armour of OpenSSH, byte for byte, with a newline at its end."""
    text = b64encode(blob).decode()
    lines = [text[at : at + _LINE] for at in range(0, len(text), _LINE)]
    return "\n".join([_BEGIN, *lines, _END, ""])


def enclose(key: bytes, namespace: str, signature: bytes) -> str:
    """The armoured signature of what `raw_sign`, or an agent, made of ``signed_bytes(namespace, HASH, message)``."""
    fields = (key, namespace.encode(), b"", HASH.encode(), signature)
    return armor(_MAGIC + b"\x00\x00\x00\x01" + b"".join(map(string, fields)))


def sign(key: PrivateKey, message: bytes, namespace: str) -> str:
    """Sign ``message`` with a private key of `cryptography`. UsageError when signatures of its kind are not checked."""
    signature = raw_sign(key, signed_bytes(namespace, HASH, message))
    return enclose(public_blob(key), namespace, signature)


# --- keys ----------------------------------------------------------------------------------------


def fingerprint(key: bytes) -> str:
    """``SHA256:...`` of a public key blob, as `ssh-keygen -l` prints it."""
    return "SHA256:" + b64encode(sha256(key).digest()).decode().rstrip("=")


def kind(key: bytes) -> str:
    """The kind of a public key blob, for example ``ssh-ed25519``. FormatError ``bad-signature`` when it has none."""
    return first_string(key).decode("ascii", "backslashreplace")


def is_checked(key: bytes) -> bool:
    """Whether signatures of this public key blob can be checked here; also False when it is no good key."""
    try:
        return first_string(key) in _CHECKED_KINDS and bool(_verifier(key))
    except FormatError:
        return False


def parse_key(text: str) -> tuple[bytes, str]:
    """The blob and the comment of a public key line ``ssh-ed25519 AAAA... comment``. UsageError when it is none."""
    line, _, more = text.partition("\n")
    found = read_key(line.strip(" \t\r"))
    if found is None or more.strip():
        raise UsageError("not a public key, which is one line '<type> <base64> [comment]'")
    return found


def read_key(text: str) -> tuple[bytes, str] | None:
    """Blob and comment of ``<type> <base64> [comment]``; None when it is not that, or no key of that type."""
    fields = _BLANKS.split(text, maxsplit=2)
    if len(fields) < 2:
        return None
    try:
        key = strict_base64(fields[1])
        right = first_string(key) == fields[0].encode()
    except (ValueError, FormatError):
        return None
    return (key, "".join(fields[2:])) if right else None


def key_line(key: bytes, comment: str = "") -> str:
    """A public key blob as a line for people and programs, without a newline."""
    return f"{kind(key)} {b64encode(key).decode()} {comment}".rstrip()


def public_blob(key: PrivateKey) -> bytes:
    """The public key blob of a private key."""
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    text = key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
    return b64decode(text.split()[1])


def raw_sign(key: PrivateKey, data: bytes) -> bytes:
    """The signature blob (algorithm, bytes) of a private key over ``data``."""
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa, utils
    from cryptography.hazmat.primitives.hashes import SHA512

    if isinstance(key, ed25519.Ed25519PrivateKey):
        return string(_ED25519) + string(key.sign(data))
    if isinstance(key, rsa.RSAPrivateKey) and key.key_size in RSA_BITS:
        return string(b"rsa-sha2-512") + string(key.sign(data, padding.PKCS1v15(), SHA512()))
    if isinstance(key, ec.EllipticCurvePrivateKey) and key.curve.name in _CURVE_KINDS:
        name = _CURVE_KINDS[key.curve.name]
        r, s = utils.decode_dss_signature(key.sign(data, ec.ECDSA(_hash(_CURVES[name][2]))))
        return string(name) + string(_mpint(r) + _mpint(s))
    raise UsageError("a key that signs here is Ed25519, ECDSA of P-256 or P-384, or RSA of 2048 to 8192 bits")


# --- checking --------------------------------------------------------------------------------------


# A key of another kind never comes here, so that what is kept is small.
@lru_cache(maxsize=256)
def _verifier(key: bytes) -> _Verifier:
    """How signatures of a public key blob of a checked kind are checked. FormatError when it is no good key."""
    name = first_string(key)
    try:
        if name == _ED25519:
            return _ed25519(key)
        return _rsa(key) if name == _RSA else _ecdsa(key)
    except ValueError:
        raise _bad(f"the public key is no good {name.decode()} key") from None


def _ed25519(key: bytes) -> _Verifier:
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    name, point = strings(key, 2)
    public = Ed25519PublicKey.from_public_bytes(point)

    def right(algorithm: bytes, signature: bytes, data: bytes) -> bool:
        if algorithm != name or len(signature) != 64:
            raise _bad("not an Ed25519 signature")
        try:
            public.verify(signature, data)
        except InvalidSignature:
            return False
        return True

    return right


def _ecdsa(key: bytes) -> _Verifier:
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric import ec, utils

    name, curve_name, point = strings(key, 3)
    wanted, size, hash_name = _CURVES[name]
    # Compressed points are left out: one key has one blob, and so one fingerprint.
    if curve_name != wanted or len(point) != 1 + 2 * size or point[0] != 4:
        raise _bad("the public key is no uncompressed point of its curve")
    curve = ec.SECP256R1() if size == 32 else ec.SECP384R1()
    public = ec.EllipticCurvePublicKey.from_encoded_point(curve, point)

    def right(algorithm: bytes, signature: bytes, data: bytes) -> bool:
        r, s = strings(signature, 2)
        if algorithm != name or max(len(r), len(s)) > size + 1:
            raise _bad("not an ECDSA signature of its key's curve")
        der = utils.encode_dss_signature(_number(r), _number(s))
        try:
            public.verify(der, data, ec.ECDSA(_hash(hash_name)))
        except InvalidSignature:
            return False
        return True

    return right


def _rsa(key: bytes) -> _Verifier:
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric import padding, rsa

    _, exponent, modulus = strings(key, 3)
    if max(len(exponent), len(modulus)) > RSA_BITS.stop // 8 + 1:
        raise _bad("an RSA key of more than 8192 bits")
    e, n = _number(exponent), _number(modulus)
    # Libraries differ in which other exponents they take, and 65537 is what all keys have.
    if n.bit_length() not in RSA_BITS or not n & 1 or not e & 1 or not 3 <= e < 1 << 31:
        raise _bad("an RSA key of a size or exponent that is not taken")
    public = rsa.RSAPublicNumbers(e, n).public_key()
    size = (n.bit_length() + 7) // 8

    def right(algorithm: bytes, signature: bytes, data: bytes) -> bool:
        # `ssh-rsa` as an algorithm is SHA-1.
        if algorithm not in _RSA_HASHES or len(signature) != size:
            raise _bad("not an RSA signature with SHA-2")
        try:
            public.verify(signature, data, padding.PKCS1v15(), _hash(_RSA_HASHES[algorithm]))
        except InvalidSignature:
            return False
        return True

    return right


def _hash(name: str) -> HashAlgorithm:
    from cryptography.hazmat.primitives.hashes import SHA256, SHA384, SHA512

    known: dict[str, HashAlgorithm] = {"sha256": SHA256(), "sha384": SHA384(), "sha512": SHA512()}
    return known[name]


# --- bytes (RFC 4251 section 5) --------------------------------------------------------------------


def string(value: bytes) -> bytes:
    """A string: its length in four bytes, and it."""
    return struct.pack(">I", len(value)) + value


def strings(blob: bytes, count: int) -> list[bytes]:
    """The strings of a blob that has ``count`` of them and nothing else. FormatError ``bad-signature``."""
    out: list[bytes] = []
    at = 0
    for _ in range(count):
        out.append(first_string(blob, at))
        at += 4 + len(out[-1])
    if at != len(blob):
        raise _bad("something follows the last string")
    return out


def first_string(blob: bytes, at: int = 0) -> bytes:
    """The string that begins at ``at``. FormatError ``bad-signature`` when it is cut."""
    end = at + 4 + int.from_bytes(blob[at : at + 4], "big")
    if len(blob) < max(end, at + 4):
        raise _bad("a string is cut")
    return blob[at + 4 : end]


def strict_base64(text: str) -> bytes:
    """The bytes whose standard base64 is exactly ``text``. ValueError when there are none."""
    # Decoders differ in what they pass over; what encoding gives is one text for all.
    raw = b64decode(text, validate=True)
    if b64encode(raw).decode() != text:
        raise ValueError("not in the one form")
    return raw


def _mpint(value: int) -> bytes:
    """A positive number, as a string with the highest bit clear."""
    return string(value.to_bytes(value.bit_length() // 8 + 1, "big"))


def _number(raw: bytes) -> int:
    """The positive number behind the bytes of an mpint, which must be in their only form."""
    value = int.from_bytes(raw, "big")
    if value == 0 or string(raw) != _mpint(value):
        raise _bad("a number is not positive, or not in its shortest form")
    return value


def _bad(message: str) -> FormatError:
    return FormatError("bad-signature", message)
