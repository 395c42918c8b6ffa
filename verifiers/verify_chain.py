#!/usr/bin/env python3
"""Verify a gitjournal repository, export or proof. One file, Python 3.11, standard library only.

"Section N" is a section of docs/verification.md, "format N" one of docs/format.md. Read it from top to bottom: JSON,
names, events, signatures, allowed signers, the rules of a line, git, and the three kinds of input.

Signatures are checked with the package `cryptography` if it can be imported, else with `ssh-keygen`, for which the
only files that this program ever writes are made: temporary ones. Without both, signatures are not checked.
"""

from __future__ import annotations

import base64
import errno
import fcntl
import json
import os
import re
import stat
import subprocess
import sys
import tempfile
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import date
from functools import lru_cache, reduce
from hashlib import sha1, sha256, sha512
from io import BufferedReader
from pathlib import Path
from typing import IO, Any, NamedTuple, TypeVar, cast

USAGE = """usage: verify_chain.py [--allowed-signers FILE] [--revoked-keys FILE] [--require-signed]
                       [--expect-seq N --expect-head HASH] PATH [NAME]"""

MAX_EVENT = 16 << 20
MAX_PROOF = 64 << 20
MAX_GIT_FILE = 256 << 20
MAX_LEVELS = 64
MAX_FILES = 1000
MAX_FINDINGS = 1000
MAX_SEQ = 99_999_999
LIMIT = 2**53

#: Section 11.
TEXTS = {
    "bad-commit": "a commit is not in its form, or says something else than its event",
    "bad-epoch": "epoch is below 1, or falls",
    "bad-file": "a side file is not what the event says, or their number differs",
    "bad-fork": "a start, branch or fork does not stand or come from where it says",
    "bad-hash": "a commit names another event hash than its event has",
    "bad-json": "the bytes are not JSON, or break a rule that all JSON here keeps",
    "bad-member": "a member is missing, unknown, too big or breaks its rule",
    "bad-object": "an object cannot be read, or its content does not have its id",
    "bad-seal": "a seal or proof does not agree with the events",
    "bad-seq": "seq is out of range, or not one more than the event before",
    "bad-session": "session changes without a fork",
    "bad-signature": "a signature is wrong, of another namespace or key, or missing",
    "bad-tree": "a tree is malformed, or a commit is not the one that the events derive",
    "bad-version": "the version is not 1",
    "broken-link": "prev is not the hash of the event before",
    "equivocation": "two lines of a session go apart and neither says so",
    "missing-object": "an object that must be there is not",
    "not-canonical": "JSON, but not in canonical form",
    "rollback": "another event stands where the expected head was",
    "truncated": "the line ends before the expected head, or in the middle of an event",
    "unknown-signer": "a right signature of a key that the allowed signers do not accept",
    "wrong-ref": "the ref is not one of this line, or holds no commit id",
}


class Broken(Exception):
    """A rule is broken: a code of TEXTS, and perhaps the id of an object."""

    def __init__(self, code: str, ident: str = "") -> None:
        super().__init__(code)
        self.code = code
        self.ident = ident


class Stop(Exception):
    """End without a verdict, with exit status 2 or 4 (section 2)."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status


# --- JSON: section 6, orders 2 and 3 -----------------------------------------------------------------------------


def parse(raw: bytes) -> Any:
    """The value of canonical JSON; whole numbers are int. Broken: bad-json, else not-canonical."""
    try:
        text = raw.decode("utf-8")
        value = parse_fast(raw, text)
        if value is not None:
            return value
        value = STRICT.decode(text)
        printed = canonical(value, 1)
        printed.encode("utf-8")  # UnicodeEncodeError, which is a ValueError: a lone surrogate
    except (ValueError, RecursionError):
        raise Broken("bad-json") from None
    if printed != text:
        raise Broken("not-canonical")
    return value


def refuse(_: str) -> Any:
    """NaN and the infinities, which json would take."""
    raise ValueError


def number(token: str) -> float:
    """A number that keeps the rules; the bound also keeps int() from long texts."""
    value = float(token)
    if not -LIMIT < value < LIMIT or (value == 0 and token.startswith("-")):
        raise ValueError
    return int(value) if value.is_integer() else value


def members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object without a repeated name."""
    value = dict(pairs)
    if len(value) != len(pairs):
        raise ValueError
    return value


# json takes the grammar of RFC 8259 and no more (strings without control characters, no other escapes, white space or
# numbers), but for what the hooks refuse, lone surrogates, and depth: it ends with RecursionError far beyond 64 levels.
STRICT = json.JSONDecoder(object_pairs_hook=members, parse_int=number, parse_float=number, parse_constant=refuse)
PRINTER = json.JSONEncoder(ensure_ascii=False, check_circular=False, sort_keys=True, separators=(",", ":"))


def canonical(value: Any, level: int) -> str:
    """RFC 8785. ValueError if it nests too deep, or a name has a lone surrogate."""
    if type(value) is float:
        return ecmascript(value)
    if type(value) is not dict and type(value) is not list:
        return PRINTER.encode(value)  # strings have no escape but those that they must have, in JCS's spelling
    if level > MAX_LEVELS:
        raise ValueError
    if type(value) is list:
        return "[" + ",".join([canonical(item, level + 1) for item in value]) + "]"
    names = sorted(value, key=lambda name: name.encode("utf-16-be"))
    return "{" + ",".join([PRINTER.encode(name) + ":" + canonical(value[name], level + 1) for name in names]) + "}"


def ecmascript(value: float) -> str:
    """A fraction below 2^53 as ECMAScript prints it."""
    mantissa, _, power = repr(value).partition("e-")
    if not power:
        return mantissa
    if int(power) > 6:
        return f"{mantissa}e-{int(power)}"  # repr says 1e-07
    sign = "-" if value < 0 else ""
    return sign + "0." + "0" * (int(power) - 1) + mantissa.lstrip("-").replace(".", "")  # repr says 1e-05


# The fast path. If a text is what PRINTER prints for its value, it is canonical, provided that PRINTER prints RFC 8785
# for this value: (1) all numbers are in ranges where Python and ECMAScript print the same, (2) no name has a character
# above U+FFFF, as Python sorts by code points, (3) it nests at most 64 levels. Then it does not matter what FAST takes.


def small(token: str) -> int:
    """An integer that is certainly below 2^53."""
    return int(token) if len(token) <= 15 else refuse(token)


def usual(token: str) -> float:
    """A fraction that Python and ECMAScript print the same."""
    value = float(token)
    return value if 1e-4 <= abs(value) < LIMIT and not value.is_integer() else refuse(token)


FAST = json.JSONDecoder(parse_int=small, parse_float=usual, parse_constant=refuse)
#: How UTF-8 begins for characters above U+FFFF.
ASTRAL = (b"\xf0", b"\xf1", b"\xf2", b"\xf3", b"\xf4")


def parse_fast(raw: bytes, text: str) -> Any:
    """The value of a text that is certainly canonical, None if that is not clear."""
    # With few brackets and no such character at all, `fits` need not look at each value.
    simple = text.count("{") + text.count("[") <= MAX_LEVELS and (raw.isascii() or not any(x in raw for x in ASTRAL))
    with suppress(ValueError, RecursionError):
        value = FAST.decode(text)
        if PRINTER.encode(value) == text and (simple or fits(value, 1)):
            return value
    return None


def fits(value: Any, level: int) -> bool:
    """Whether (2) and (3) hold."""
    if type(value) is dict:
        if not all(name.isascii() or max(name) <= "\uffff" for name in value):
            return False
        value = value.values()
    elif type(value) is not list:
        return True
    return level <= MAX_LEVELS and all(fits(item, level + 1) for item in value)


# --- Names: format 7 ---------------------------------------------------------------------------------------------

CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


def is_name(value: Any, limit: int = 200) -> bool:
    """Whether a value is a session id, a branch name, or (up to 255 bytes) the name of a side file."""
    return type(value) is str and 1 <= len(value.encode()) <= limit and not CONTROL.search(value)


def encode(name: str) -> str:
    """A name as one part of a ref."""
    out = [chr(byte) if re.match(rb"[A-Za-z0-9._-]", bytes([byte])) else f"%{byte:02X}" for byte in name.encode()]
    for at, plain in enumerate(out):
        # A dot or dash at the beginning; a dot at the end, before a dot, and that of ".lock" at the end.
        rest = out[at + 1 :]
        if (at == 0 and plain in ".-") or (plain == "." and (rest in ([], list("lock")) or rest[0] in (".", "%2E"))):
            out[at] = f"%{ord(plain):02X}"
    return "".join(out)


def is_part(part: str) -> bool:
    """Whether a part of a ref is spelled as its name is encoded."""
    raw = re.sub(rb"%([0-9A-F]{2})", lambda match: bytes([int(match[1], 16)]), part.encode())
    with suppress(UnicodeDecodeError):
        name = raw.decode("utf-8")
        return len(part) <= 240 and is_name(name) and encode(name) == part
    return False


# --- Events: section 6 -------------------------------------------------------------------------------------------

REQUIRED = {"v", "session", "seq", "prev", "epoch", "ts", "type", "actor"}
PAYLOAD = {"data", "files", "salt"}
KNOWN = REQUIRED | PAYLOAD | {"turn", "data_sha256"}

HASH = re.compile(r"[0-9a-f]{64}")
TYPE = re.compile(r"[a-z][a-z0-9_]*(?:\.[a-z][a-z0-9_]*)*")
ACTOR = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:@/+-]{0,99}")
TURN = re.compile(r"[A-Za-z0-9_-]{1,64}")
SALT = re.compile(r"[A-Za-z0-9_-]{21}[AQgw]")
MEDIA_TYPE = re.compile(r"[\x20-\x7e]{1,127}")
TS = re.compile(r"([0-9]{4}-[0-9]{2}-[0-9]{2})T([01][0-9]|2[0-3]):([0-5][0-9]):([0-5][0-9])\.[0-9]{3}Z")


class Event(NamedTuple):
    """What the rules of a line need of an event. `data` is None if it is withheld."""

    seq: int
    session: str
    prev: str | None
    epoch: int
    time: int
    type: str
    actor: str
    data: dict[str, Any] | None
    files: list[dict[str, Any]]
    hash: str


def read_event(raw: bytes) -> Event:
    """The event in bytes. Broken with the first code of section 6 whose rule is broken."""
    if len(raw) > MAX_EVENT:
        raise Broken("bad-member")
    value = parse(raw)
    if type(value) is not dict:
        raise Broken("bad-json")
    if not is_integer(value.get("v"), 1, 1):
        raise Broken("bad-version")
    if not REQUIRED <= value.keys() <= KNOWN:
        raise Broken("bad-member")
    seq, kind, prev, withheld = value["seq"], value["type"], value["prev"], "data_sha256" in value
    if not is_integer(seq, 1, MAX_SEQ):
        raise Broken("bad-seq")
    if not is_integer(value["epoch"], 1, LIMIT):
        raise Broken("bad-epoch")
    time = seconds(value["ts"])
    if time is None or not is_header(value) or not (is_withheld(value) if withheld else is_full(value, raw)):
        raise Broken("bad-member")
    if (seq == 1) != (prev is None):
        raise Broken("broken-link")
    if withheld and kind in ("session.branch", "session.fork"):
        raise Broken("bad-fork")
    if withheld and kind == "session.seal":
        raise Broken("bad-seal")
    if (seq == 1) != (kind == "session.start"):
        raise Broken("bad-fork")
    digest = sha256(raw if withheld else header(value, raw)).hexdigest()
    data, files = value.get("data"), value.get("files", [])
    return Event(seq, value["session"], prev, value["epoch"], time, kind, value["actor"], data, files, digest)


def is_integer(value: Any, low: int, high: int) -> bool:
    """Whether a value is a whole number within bounds; true and false are none."""
    return type(value) is int and low <= value <= high


def fully(pattern: re.Pattern[str], value: Any) -> bool:
    """Whether a value is a string that the pattern matches as a whole."""
    return type(value) is str and pattern.fullmatch(value) is not None


def seconds(ts: Any) -> int | None:
    """Unix seconds of a moment that exists, from 1970 on; None for anything else."""
    match = TS.fullmatch(ts) if type(ts) is str else None
    day = day_number(match[1]) if match else -1
    return day * 86400 + int(match[2]) * 3600 + int(match[3]) * 60 + int(match[4]) if match and day >= 0 else None


@lru_cache(maxsize=64)
def day_number(text: str) -> int:
    """Days since 1970-01-01, negative for a day that does not exist."""
    with suppress(ValueError):
        return date.fromisoformat(text).toordinal() - date(1970, 1, 1).toordinal()
    return -1


def is_header(value: dict[str, Any]) -> bool:
    """The members of the header that have no code of their own."""
    return (
        is_name(value["session"])
        and (value["prev"] is None or fully(HASH, value["prev"]))
        and fully(TYPE, value["type"])
        and len(value["type"]) <= 64
        and fully(ACTOR, value["actor"])
        and ("turn" not in value or fully(TURN, value["turn"]))
    )


def is_withheld(value: dict[str, Any]) -> bool:
    """The members of a withheld event beside the header."""
    return PAYLOAD.isdisjoint(value) and fully(HASH, value["data_sha256"])


def is_full(value: dict[str, Any], raw: bytes) -> bool:
    """The members of a full event beside the header."""
    files = value.get("files")
    return (
        type(value.get("data")) is dict
        and ("salt" not in value or fully(SALT, value["salt"]))
        and ("files" not in value or are_files(files))
        # A name that begins so stands in canonical text just so.
        and (b'"$gj:' not in raw or are_tags(value["data"], len(files or ())))
    )


def are_files(files: Any) -> bool:
    """The descriptions of all side files of an event."""
    return type(files) is list and 1 <= len(files) <= MAX_FILES and all(map(is_file, files))


def is_file(entry: Any) -> bool:
    """The description of a side file (format 4)."""
    return (
        type(entry) is dict
        and {"sha256", "size", "media_type"} <= entry.keys() <= {"sha256", "size", "media_type", "name"}
        and fully(HASH, entry["sha256"])
        and is_integer(entry["size"], 0, LIMIT)
        and fully(MEDIA_TYPE, entry["media_type"])
        and ("name" not in entry or is_name(entry["name"], 255))
    )


def are_tags(data: Any, files: int) -> bool:
    """Whether each member name that begins with $gj: is one of the tags, in its form."""
    todo = [data]
    while todo:
        node = todo.pop()
        if type(node) is list:
            todo += node
        elif type(node) is dict:
            todo += node.values()
            for name, value in node.items():
                if name.startswith("$gj:") and not (len(node) == 1 and is_tag(name, value, files)):
                    return False
    return True


def is_tag(name: str, value: Any, files: int) -> bool:
    """Whether this is a tag, of an event with so many side files."""
    if name == "$gj:file":
        return is_integer(value, 1, files)
    if name == "$gj:ref":
        pair = type(value) is list and len(value) == 2 and is_integer(value[0], 1, files)
        return pair and type(value[1]) is str and value[1][:1] in ("", "/")
    return name in ("$gj:json", "$gj:b64") and type(value) is str


def header(value: dict[str, Any], raw: bytes) -> bytes:
    """The canonical header of a full event (format 3), cut out of its bytes."""
    # They are {"actor":"...","data": D ,"epoch":E[,"files":F],"prev":P[,"salt":S],"seq": and so on. D ends at the last
    # `,"epoch":`: behind that one no member is called so, and within a string the quotes would be escaped.
    actor = value["actor"].encode()
    start, end = len(b'{"actor":"","data":') + len(actor), raw.rfind(b',"epoch":')
    files = b',"files":' + PRINTER.encode(value["files"]).encode() if "files" in value else b""
    salt = b',"salt":"%s"' % value["salt"].encode() if "salt" in value else b""
    body = b'{"data":%s%s%s}' % (raw[start:end], files, salt)
    rest = raw[end:].replace(files, b"", 1).replace(salt, b"", 1)
    return b'{"actor":"%s","data_sha256":"%s"%s' % (actor, sha256(body).hexdigest().encode(), rest)


# --- Signatures: section 9 ---------------------------------------------------------------------------------------

ARMOUR = ("-----BEGIN SSH SIGNATURE-----", "-----END SSH SIGNATURE-----")
HASHES = {b"sha256": sha256, b"sha512": sha512}
ALGORITHMS = {
    b"ssh-ed25519": (b"ssh-ed25519",),
    b"ecdsa-sha2-nistp256": (b"ecdsa-sha2-nistp256",),
    b"ecdsa-sha2-nistp384": (b"ecdsa-sha2-nistp384",),
    b"ssh-rsa": (b"rsa-sha2-256", b"rsa-sha2-512"),
}


def must(condition: bool) -> None:
    """A rule of signatures."""
    if not condition:
        raise Broken("bad-signature")


def unbase64(text: str) -> bytes:
    """Standard base64 with padding, in the one spelling that encoding gives."""
    try:
        raw = base64.b64decode(text.encode("ascii"), validate=True)
    except ValueError:
        raise Broken("bad-signature") from None
    must(base64.b64encode(raw).decode() == text)
    return raw


def ssh_string(raw: bytes, at: int = 0) -> bytes:
    """The RFC 4251 string that begins at a place."""
    size = int.from_bytes(raw[at : at + 4], "big")
    must(len(raw) >= at + 4 + size)
    return raw[at + 4 : at + 4 + size]


def ssh_strings(raw: bytes, count: int) -> list[bytes]:
    """Exactly so many RFC 4251 strings."""
    out, at = [], 0
    for _ in range(count):
        out.append(ssh_string(raw, at))
        at += 4 + len(out[-1])
    must(at == len(raw))
    return out


def mpint(raw: bytes) -> int:
    """A positive RFC 4251 mpint in its shortest form."""
    must(len(raw) > 0 and raw[0] < 0x80 and (raw[0] > 0 or raw[1:2] >= b"\x80"))
    return int.from_bytes(raw, "big")


def fingerprint(key: bytes) -> str:
    """Of a public key blob."""
    return "SHA256:" + base64.b64encode(sha256(key).digest()).decode().rstrip("=")


def check_sshsig(armour: str, namespace: str, message: bytes, wanted_key: str | None) -> tuple[bytes, bool]:
    """The public key of a right signature, and whether its kind could be checked. Broken: bad-signature."""
    lines = armour.removesuffix("\n").split("\n")
    must(len(lines) >= 2 and (lines[0], lines[-1]) == ARMOUR)
    blob = unbase64("".join(lines[1:-1]))
    must(blob[:10] == b"SSHSIG\x00\x00\x00\x01")
    key, space, reserved, hashing, signature = ssh_strings(blob[10:], 5)
    # OpenSSH signs and checks an empty reserved field, whatever stands there.
    must(reserved == b"" and hashing in HASHES and space == namespace.encode())
    must(wanted_key is None or fingerprint(key) == wanted_key)
    kind = ssh_string(key)
    if kind not in ALGORITHMS:
        return key, False
    algorithm, value = ssh_strings(signature, 2)
    must(algorithm in ALGORITHMS[kind])
    check_form(kind, key, value)
    parts = (space, b"", hashing, HASHES[hashing](message).digest())
    signed = b"SSHSIG" + b"".join(len(part).to_bytes(4, "big") + part for part in parts)
    is_right = by_cryptography(kind, key, algorithm, value, signed)
    if is_right is None:
        is_right = by_ssh_keygen(blob, namespace, message)
    must(is_right is not False)
    return key, is_right is not None


def check_form(kind: bytes, key: bytes, value: bytes) -> None:
    """What the table says of keys and signatures."""
    if kind == b"ssh-ed25519":
        must(len(ssh_strings(key, 2)[1]) == 32 and len(value) == 64)
        # ssh-keygen takes a second signature as well, with the order of the group added.
        must(int.from_bytes(value[32:], "little") < 2**252 + 27742317777372353535851937790883648493)
    elif kind == b"ssh-rsa":
        e, n = map(mpint, ssh_strings(key, 3)[1:])
        must(2048 <= n.bit_length() <= 8192 and n % 2 == 1 and e % 2 == 1 and 3 <= e < 2**31)
        must(len(value) == (n.bit_length() + 7) // 8 and int.from_bytes(value, "big") < n)
    else:
        curve, point = ssh_strings(key, 3)[1:]
        must(curve == kind[-8:] and point[:1] == b"\x04" and len(point) == (65 if curve == b"nistp256" else 97))
        for one in ssh_strings(value, 2):
            mpint(one)


def by_cryptography(kind: bytes, key: bytes, algorithm: bytes, value: bytes, signed: bytes) -> bool | None:
    """Whether a signature is right; None without the package."""
    try:
        from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
        from cryptography.hazmat.primitives import hashes
        from cryptography.hazmat.primitives.asymmetric import ec, padding, utils
        from cryptography.hazmat.primitives.serialization import load_ssh_public_key
    except ImportError:
        return None
    try:
        public: Any = load_ssh_public_key(kind + b" " + base64.b64encode(key))
        if kind == b"ssh-ed25519":
            public.verify(value, signed)
        elif kind == b"ssh-rsa":
            hashing = hashes.SHA256() if algorithm == b"rsa-sha2-256" else hashes.SHA512()
            public.verify(value, signed, padding.PKCS1v15(), hashing)
        else:
            pair = utils.encode_dss_signature(*map(mpint, ssh_strings(value, 2)))
            public.verify(pair, signed, ec.ECDSA(hashes.SHA256() if kind.endswith(b"256") else hashes.SHA384()))
    except UnsupportedAlgorithm:
        return None
    except (InvalidSignature, ValueError):  # the second one for a key that is none, as a point beside the curve
        return False
    return True


def by_ssh_keygen(blob: bytes, namespace: str, message: bytes) -> bool | None:
    """Whether a signature is right; None without the program."""
    text = base64.b64encode(blob).decode()
    lines = [ARMOUR[0], *(text[at : at + 70] for at in range(0, len(text), 70)), ARMOUR[1], ""]
    with suppress(OSError), tempfile.NamedTemporaryFile("w", suffix=".sig") as file:
        file.write("\n".join(lines))
        file.flush()
        command = ["ssh-keygen", "-Y", "check-novalidate", "-n", namespace, "-s", file.name]
        return subprocess.run(command, input=message, capture_output=True, check=False).returncode == 0
    return None


# --- Allowed signers and revoked keys: section 9 -----------------------------------------------------------------

OPTION = r'([^ \t,="]+)(?:="([^"]*)")?'
OPTIONS = re.compile(rf"({OPTION}(?:,{OPTION})*)[ \t]+(.*)", re.DOTALL)
MOMENT = re.compile(r"([0-9]{4})([0-9]{2})([0-9]{2})(?:([0-9]{2})([0-9]{2})([0-9]{2})?)?Z?")


class Signer(NamedTuple):
    """One line of the allowed signers that can accept something."""

    number: int
    principals: str
    key: bytes
    namespaces: str | None
    after: int
    before: int | None

    def accepts(self, key: bytes, namespace: str, time: int) -> bool:
        """The key is the same, the namespace is allowed, and the time is within the bounds."""
        in_time = self.after <= time and (self.before is None or time < self.before)
        return self.key == key and in_time and (self.namespaces is None or in_list(self.namespaces, namespace))


def in_list(patterns: str, namespace: str) -> bool:
    """As OpenSSH does it: one pattern matches, and none that begins with an exclamation mark."""
    found = set()
    for pattern in patterns.split(","):
        if matches(pattern.removeprefix("!"), namespace):
            found.add(pattern[:1] == "!")
    return found == {False}


def matches(pattern: str, text: str) -> bool:
    """`*` and `?`. Only the last `*` is tried again, so that no pattern takes long, as it may as a regex."""
    at, place, star, star_at = 0, 0, -1, 0
    while at < len(text):
        if pattern[place : place + 1] == "*":
            star, star_at, place = place, at, place + 1
        elif pattern[place : place + 1] in ("?", text[at]):
            at, place = at + 1, place + 1
        elif star >= 0:
            star_at += 1
            at, place = star_at, star + 1
        else:
            return False
    return not pattern[place:].strip("*")


def read_key_file(path: str, reader: Callable[[int, str], Any]) -> list[Any]:
    """What a reader makes of the lines of a file that mean something. Stop where it raises ValueError or Broken."""
    out, number = [], 0
    try:
        for number, line in enumerate(Path(path).read_bytes().decode("utf-8").split("\n"), 1):
            text = line.removesuffix("\r").strip(" \t")
            if text and not text.startswith("#"):
                out.append(reader(number, text))
    except (OSError, ValueError, Broken):
        raise Stop(2, f"{path!a} cannot be read, line {number}") from None
    return out


def read_key(_: int, text: str) -> bytes:
    """`keytype base64 [comment]`: the bytes begin with the type."""
    kind, key = [*re.split(r"[ \t]+", text, maxsplit=2), ""][:2]
    raw = unbase64(key)
    must(ssh_string(raw) == kind.encode())
    return raw


def read_signer(number: int, text: str) -> Signer | None:
    """`principals [options] keytype base64 [comment]`; None for a line that accepts nothing."""
    principals, rest = [*re.split(r"[ \t]+", text, maxsplit=1), ""][:2]
    options: dict[str, str] = {}
    try:
        key = read_key(number, rest)
    except Broken:
        match = OPTIONS.fullmatch(rest)
        if match is None:
            raise
        key = read_key(number, match[6])
        options = read_options(match[1])
    after, before = (moment(options[name]) if name in options else None for name in ("valid-after", "valid-before"))
    if options.keys() <= {"namespaces", "valid-after", "valid-before"}:
        return Signer(number, principals, key, options.get("namespaces"), after or 0, before)
    return None


def read_options(text: str) -> dict[str, str]:
    """Options by name. ValueError for one that means something here and is repeated or has no value."""
    options: dict[str, str] = {}
    for match in re.finditer(OPTION, text):
        name = match[1].lower()
        if name in ("namespaces", "valid-after", "valid-before") and (name in options or match[2] is None):
            raise ValueError
        options[name] = match[2] or ""
    return options


def moment(text: str) -> int:
    """Unix seconds of `valid-after` and `valid-before`. ValueError if there is no such moment."""
    match = MOMENT.fullmatch(text)
    year, month, day, hour, minute, second = match.groups("00") if match else ("",) * 6
    time = seconds(f"{year}-{month}-{day}T{hour}:{minute}:{second}.000Z")
    if time is None:
        raise ValueError
    return time


# --- One line of events: section 7 -------------------------------------------------------------------------------


class Options(NamedTuple):
    """What the command line asks for."""

    signers: list[Signer] | None
    revoked: set[bytes]
    require_signed: bool
    expected: tuple[int, str] | None


class Full(Exception):
    """There are 1,000 findings in a line."""


class Line:
    """The state of section 7, and what section 3 says of a line."""

    def __init__(self, options: Options, name: str | None = None, commit: str | None = None) -> None:
        self.options, self.name, self.commit = options, name, commit
        self.size = 0
        self.findings: set[tuple[str, int | None, str]] = set()
        self.is_cut = False
        self.seals = self.side_files = self.signatures = self.signed_to = self.left_out = self.not_checked = 0
        self.depends_on_clock = False
        #: By fingerprint: how many signatures, and the first of the allowed signers that accepted one.
        self.signers: dict[str, tuple[int, Signer | None]] = {}
        self.withheld: list[list[int]] = []
        self.seq, self.epoch, self.branch = 0, 1, "main"
        self.prev: str | None = None
        self.session: str | None = None
        #: 32 bytes for each event, zeros for a lost one.
        self.hashes = bytearray()
        self.first_lost = 0
        self.declared: set[int] = set()
        self.tree = MerkleTree(self.hashes)

    def add(self, code: str, seq: int | None, ident: str) -> None:
        """Note a finding. Full when there are too many."""
        if not self.is_cut:
            self.findings.add((code, seq, ident))
            if len(self.findings) == MAX_FINDINGS:
                self.is_cut = True
                raise Full

    def lose(self) -> None:
        """The next event is lost."""
        self.seq += 1
        self.first_lost = self.first_lost or self.seq
        self.hashes += bytes(32)

    def hash_at(self, seq: int) -> str | None:
        """The hash of an event so far; None if it is lost."""
        digest = self.hashes[32 * seq - 32 : 32 * seq] if 1 <= seq <= self.seq else b""
        return digest.hex() if any(digest) else None

    def push(self, event: Event, ident: str) -> None:
        """The next event; `ident` is for findings."""
        seq = self.seq + 1
        if event.seq != seq:
            self.add("bad-seq", seq, ident)
        if event.prev != self.prev and (seq == 1 or any(self.hashes[-32:])):
            self.add("broken-link", seq, ident)
        if event.epoch < self.epoch:
            self.add("bad-epoch", seq, ident)
        if event.session != self.session and self.session is not None and event.type != "session.fork":
            self.add("bad-session", seq, ident)
        if event.type in ("session.branch", "session.fork") and not self.fork(event, event.data or {}, seq):
            self.add("bad-fork", seq, ident)
        self.seq, self.prev, self.session, self.epoch = seq, event.hash, event.session, max(self.epoch, event.epoch)
        self.hashes += bytes.fromhex(event.hash)
        if event.data is None:
            self.withhold(seq)
        if event.type == "session.seal":
            self.seals += 1
            self.seal(event, seq, ident)

    def withhold(self, seq: int) -> None:
        """Note a withheld event in the ranges."""
        if self.withheld and self.withheld[-1][1] == seq - 1:
            self.withheld[-1][1] = seq
        else:
            self.withheld.append([seq, seq])

    def fork(self, event: Event, data: dict[str, Any], seq: int) -> bool:
        """A session.branch or session.fork: whether it keeps its rules."""
        origin = data.get("from")
        if type(origin) is not dict or type(origin.get("seq")) is not int:
            return False
        start = origin["seq"]
        if event.type == "session.branch":
            good = is_name(data.get("branch")) and 1 <= start < seq
            self.branch = data["branch"] if is_name(data.get("branch")) else self.branch
        else:
            good = start == seq - 1
            if self.session is not None:
                good = good and event.session != self.session == origin.get("session")
            self.branch = "main"
        if self.hash_at(start) is None:
            return good and 1 <= start < seq  # it is lost, if it is a place at all
        if self.hash_at(start) != origin.get("hash"):
            return False
        self.declared.add(start)
        return good

    def seal(self, event: Event, seq: int, ident: str) -> None:
        """Section 9. The signatures are looked at if the seal itself keeps all rules."""
        if self.first_lost:
            return
        try:
            checkpoint = read_seal(event, seq, f"gitjournal/{encode(event.session)}/{encode(self.branch)}")
            if seal_root(event) != self.tree.root(seq - 1):
                raise Broken("bad-seal")
        except Broken as error:
            self.add(error.code, seq, ident)
        else:
            self.seal_signatures(event, checkpoint, seq, ident)

    def seal_signatures(self, event: Event, checkpoint: str, seq: int | None, ident: str) -> None:
        """All signatures of a seal that keeps its other rules."""
        for one in (event.data or {})["signatures"]:
            place = (seq, ident, (event.data or {})["size"])
            self.signature(one["sshsig"], "gitjournal", checkpoint.encode(), event.time, place, one["key"])

    def signature(
        self,
        armour: str,
        namespace: str,
        message: bytes,
        time: int,
        place: tuple[int | None, str, int],
        key: str | None = None,
    ) -> None:
        """Check and count a signature. `place`: seq and id for a finding, and the seq up to which it signs."""
        seq, ident, covers = place
        try:
            blob, is_checked = check_sshsig(armour, namespace, message, key)
        except Broken as error:
            self.add(error.code, seq, ident)
            return
        if not is_checked:
            self.not_checked += 1
            return
        self.signatures += 1
        signers = [] if blob in self.options.revoked else self.options.signers or []
        accepted = next((one for one in signers if one.accepts(blob, namespace, time)), None)
        count, before = self.signers.get(fingerprint(blob), (0, None))
        first = min((one for one in (before, accepted) if one), key=lambda one: one.number, default=None)
        self.signers[fingerprint(blob)] = count + 1, first
        if accepted is not None:
            self.signed_to = max(self.signed_to, covers)
            self.depends_on_clock = self.depends_on_clock or accepted.before is not None
        elif self.options.signers is not None:
            self.add("unknown-signer", seq, ident)

    def finish(self) -> None:
        """What the options ask of the whole line."""
        if self.options.expected is not None:
            seq, digest = self.options.expected
            if self.size < seq:
                self.add("truncated", self.size or None, digest)
            elif self.hash_at(seq) != digest:
                self.add("rollback", seq, digest)
        if self.options.require_signed and self.signed_to == 0:
            self.add("bad-signature", None, "")

    def verdict(self) -> dict[str, Any]:
        """The line's part of the verdict (section 3)."""
        found = sorted(self.findings, key=lambda one: (one[1] or 0, one[0], one[2]))
        signers = [
            {"key": key, "principals": first.principals if first else None, "signatures": count}
            for key, (count, first) in sorted(self.signers.items())
        ]
        return {
            "findings": [{"code": code, "id": ident, "seq": seq, "text": TEXTS[code]} for code, seq, ident in found],
            "head": {"commit": self.commit, "hash": self.hash_at(self.size), "seq": self.size},
            "name": self.name,
            "seals": self.seals,
            "side_files": self.side_files,
            "signatures": self.signatures,
            "signed_to": self.signed_to,
            "signers": signers,
            "withheld": self.withheld,
        }


def read_seal(event: Event, seq: int, origin: str) -> str:
    """The checkpoint of a seal that keeps rules 1, 3 and 4 of section 9 with its own root. Broken: bad-seal."""
    data = event.data or {}
    if (
        data.keys() != {"size", "root", "checkpoint", "signatures"}
        or not is_integer(data["size"], max(seq - 1, 1), seq - 1)
        or not fully(HASH, data["root"])
        or data["checkpoint"] != f"{origin}\n{seq - 1}\n{base64.b64encode(seal_root(event)).decode()}\n"
        or type(data["signatures"]) is not list
        or not all(type(one) is dict and one.keys() == {"key", "sshsig"} for one in data["signatures"])
        or not all(type(text) is str for one in data["signatures"] for text in one.values())
    ):
        raise Broken("bad-seal")
    return str(data["checkpoint"])


def seal_root(event: Event) -> bytes:
    """The root that a seal says, which is known to be a hash."""
    return bytes.fromhex((event.data or {})["root"])


def node(left: bytes, right: bytes) -> bytes:
    """A node of the tree of RFC 9162 section 2.1.1."""
    return sha256(b"\x01" + left + right).digest()


class MerkleTree:
    """The tree over a growing list of event hashes; only the roots of its full subtrees are kept."""

    def __init__(self, hashes: bytearray) -> None:
        self.hashes = hashes
        self.size = 0
        self.full: list[bytes] = []

    def root(self, size: int) -> bytes:
        """The root over the first hashes, not fewer than the last time."""
        for at in range(self.size, size):
            one = sha256(b"\x00" + self.hashes[32 * at : 32 * at + 32]).digest()
            while at & 1:  # each 1 at the end of `at` is a full subtree of the same height, to the left
                one, at = node(self.full.pop(), one), at >> 1
            self.full.append(one)
        self.size = size
        if not self.full:
            return sha256().digest()
        return reduce(lambda right, left: node(left, right), reversed(self.full))


# --- Git objects: section 4 --------------------------------------------------------------------------------------

LARGEST = {b"commit": (64 << 10, "bad-commit"), b"tree": (16 << 20, "bad-tree"), b"blob": (MAX_EVENT, "bad-member")}
GIT = "git|--git-dir={}|--no-replace-objects|-c|core.bigFileThreshold=32m|-c|core.multiPackIndex=false"
CAT_FILE = ["cat-file", "--batch-command", "--buffer"]
ENVIRONMENT = {
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_ALLOW_PROTOCOL": "none",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ALLOC_LIMIT": "256m",
}


def object_id(kind: bytes, data: bytes) -> str:
    """The id that git gives to an object."""
    return sha1(b"%s %d\x00%s" % (kind, len(data), data)).hexdigest()


#: What git says to the last request of each question: it is for an id that nobody can know before.
END = f"{os.urandom(20).hex()} missing\n".encode()


class Git:
    """A child `git cat-file`. First `ask` for a group of objects, then take the answers in order, one by one.

    git believes the header of a loose blob: it can say more or less than the size in it. So nothing is read behind END,
    where git would wait for us, and after an answer that is not good a new child is asked for the rest.
    """

    def __init__(self, folder: Path) -> None:
        self.command = [*(word.format(folder) for word in GIT.split("|")), *CAT_FILE]
        self.pending: deque[str] = deque()
        self.child: subprocess.Popen[bytes] | None = None
        self.buffer = bytearray()
        self.last_read = b""
        self.is_open = False

    def ask(self, ids: Iterable[str]) -> None:
        """Ask for objects, when all answers to the question before have been taken."""
        self.pending.extend(ids)
        if not self.is_ended():
            self.end()
        if self.child is None:
            environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
            self.child = subprocess.Popen(
                self.command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=environment | ENVIRONMENT,
            )
            self.input, self.output = cast(IO[bytes], self.child.stdin), cast(IO[bytes], self.child.stdout).fileno()
            with suppress(OSError, AttributeError):  # a wide pipe, so that git can work ahead; only Linux has it
                fcntl.fcntl(self.output, fcntl.F_SETPIPE_SZ, 1 << 20)
        self.buffer.clear()
        self.last_read, self.is_open = b"", True
        requests = [f"contents {ident}\n" for ident in (*self.pending, END[:40].decode())]
        with suppress(BrokenPipeError):  # git has ended, and so will its answers
            self.input.write("".join(requests).encode() + b"flush\n")
            self.input.flush()

    def end(self) -> None:
        """End the child."""
        if self.child is not None:
            self.child.kill()
            self.child.communicate()
            self.child, self.is_open = None, False

    def close(self) -> None:
        """End the child, and forget what it was asked for."""
        self.pending.clear()
        self.end()

    def broken(self, code: str) -> Broken:
        """Give up the answer that is being read, and ask again for those behind it."""
        self.end()
        if self.pending:
            self.ask(())
        return Broken(code)

    def fill(self) -> bool:
        """Read more of the answers. False if git has said all, or has ended."""
        piece = os.read(self.output, 1 << 16) if self.last_read != END else b""
        self.last_read = (self.last_read + piece)[-len(END) :]
        self.buffer += piece
        return piece != b""

    def take(self, size: int) -> bytes:
        """The next bytes of the answers; fewer if there are no more."""
        while len(self.buffer) < size and self.fill():
            pass
        data = bytes(self.buffer[:size])
        del self.buffer[:size]
        return data

    def is_ended(self) -> bool:
        """Whether nothing but END stands behind the last answer."""
        was_open, self.is_open = self.is_open, False
        return not was_open or self.take(len(END) + 1) == END

    def begin(self, kind: bytes, limit: int | None) -> tuple[str, int]:
        """Id and size of the next answer, whose bytes and a newline follow. Broken."""
        ident = self.pending.popleft()
        while (size := self.buffer.find(b"\n")) < 0 and len(self.buffer) < 100 and self.fill():
            pass
        words = self.take(size + 1).split()
        if words == [ident.encode(), b"missing"]:
            raise Broken("missing-object")
        if len(words) != 3 or words[:2] != [ident.encode(), kind] or not words[2].isdigit():
            raise self.broken("bad-object")
        if limit is not None and int(words[2]) > limit:
            raise self.broken(LARGEST[kind][1])
        return ident, int(words[2])

    def read(self, kind: bytes) -> bytes:
        """The next answer: a commit, a tree or an event. Broken."""
        ident, size = self.begin(kind, LARGEST[kind][0])
        data = self.take(size + 1)
        if data[size:] != b"\n" or object_id(kind, data[:size]) != ident or not (self.pending or self.is_ended()):
            raise self.broken("bad-object")
        return data[:size]

    def get(self, ident: str, kind: bytes) -> bytes:
        """Ask for one object and read it. Broken, with the id."""
        self.ask([ident])
        try:
            return self.read(kind)
        except Broken as error:
            raise Broken(error.code, ident) from None

    def read_file(self) -> tuple[int, str]:
        """The next answer, a side file of any size: size and SHA-256. Broken."""
        ident, size = self.begin(b"blob", None)
        git_hash, file_hash, left = sha1(b"blob %d\x00" % size), sha256(), size
        while left and (piece := self.take(min(left, 1 << 20))):
            git_hash.update(piece)
            file_hash.update(piece)
            left -= len(piece)
        if self.take(1) != b"\n" or git_hash.hexdigest() != ident or not (self.pending or self.is_ended()):
            raise self.broken("bad-object")
        return size, file_hash.hexdigest()

    def answers(self, wanted: bytes) -> bool:
        """Whether the answers to all that was asked are these bytes."""
        self.pending.clear()
        at = 0
        while at < len(wanted):
            if not self.fill():
                break
            piece = self.buffer if len(self.buffer) <= len(wanted) - at else self.buffer[: len(wanted) - at]
            if not wanted.startswith(piece, at):
                break
            at += len(piece)
            del self.buffer[: len(piece)]
        if at == len(wanted) and self.is_ended():
            return True
        self.end()
        return False


# --- Trees and commits: format 5 and 6 ---------------------------------------------------------------------------

ENTRY = re.compile(rb"([^ \x00]+) ([^\x00]+)\x00(.{20})", re.DOTALL)
LEAF_ENTRY = re.compile(rb"100644 (([0-9]{8})\.(?:json|[1-9][0-9]{0,8}))\x00(.{20})", re.DOTALL)


def entries(form: re.Pattern[bytes], tree: bytes) -> Iterator[re.Match[bytes]]:
    """The entries of a tree. Broken if it is cut, or an entry does not have the form."""
    at = 0
    while at < len(tree):
        match = form.match(tree, at)
        if match is None:
            raise Broken("bad-tree")
        yield match
        at = match.end()


def read_folders(tree: bytes) -> dict[bytes, str]:
    """Ids of the folders in a root or middle tree, by name; of two with one name the first."""
    out: dict[bytes, str] = {}
    for match in entries(ENTRY, tree):
        if match[1] == b"40000":
            out.setdefault(match[2], match[3].hex())
    return out


class Entry:
    """What a leaf tree has of one event: the id of its blob, names and ids of its side files."""

    def __init__(self) -> None:
        self.blob = b""
        self.files: list[tuple[bytes, bytes]] = []


def read_leaf(tree: bytes) -> dict[int, Entry]:
    """What a leaf tree has, by seq. Broken."""
    out: dict[int, Entry] = {}
    names = set()
    for match in entries(LEAF_ENTRY, tree):
        name, seq, oid = match.groups()
        entry = out.setdefault(int(seq), Entry())
        if name.endswith(b".json"):
            entry.blob = oid
        else:
            entry.files.append((name, oid))
        if name in names:
            raise Broken("bad-tree")
        names.add(name)
    return out


COMMIT = re.compile(
    rb"tree (?P<tree>[0-9a-f]{40})\n"
    rb"(?:parent [0-9a-f]{40}\n)?"
    rb"author (?P<actor>[A-Za-z0-9][A-Za-z0-9._:@/+-]{0,99}) <(?P=actor)@gitjournal\.invalid> "
    rb"(?P<time>0|[1-9][0-9]{0,11}) \+0000\n"
    rb"committer gitjournal <gitjournal@gitjournal\.invalid> (?P=time) \+0000\n"
    rb"(?:gpgsig (?P<gpgsig>-----BEGIN SSH SIGNATURE-----\n(?: [A-Za-z0-9+/=]+\n)+ -----END SSH SIGNATURE-----)\n)?"
    rb"\n(?P<type>[a-z][a-z0-9_]*(?:\.[a-z][a-z0-9_]*)*) #(?P<seq>[1-9][0-9]{0,7})\n\n"
    rb"Session: (?P<session>[^\n\x00]+)\n"
    rb"Event-Hash: sha256:(?P<hash>[0-9a-f]{64})\n"
)
PARENT = re.compile(rb"[^\n]*\nparent ([0-9a-f]{40})(?:\n|$)")


def read_commit(raw: bytes) -> dict[str, str]:
    """What a commit in the form of format 6 says. Broken."""
    match = COMMIT.fullmatch(raw)
    with suppress(UnicodeDecodeError):
        says = {name: (text or b"").decode("utf-8") for name, text in match.groupdict().items()} if match else {}
        if says and len(says["type"]) <= 64 and is_name(says["session"]):
            return says
    raise Broken("bad-commit")


class Deriver:
    """Trees and commit of each event follow from the events."""

    def __init__(self) -> None:
        self.head: str | None = None
        self.time = 0
        # All entries of the leaf; those of the upper trees but for the last one, which still changes.
        self.leaf = self.middle = self.root = b""
        self.last_of_middle = self.last_of_root = b""

    def push(self, event: Event, entry: Entry) -> list[tuple[bytes, str, bytes]]:
        """Kind, id and bytes: of the commit without a signature, and of the three trees."""
        seq = event.seq
        if seq % 100 == 0:
            self.leaf, self.middle = b"", self.middle + self.last_of_middle
        if seq % 10_000 == 0:
            self.middle, self.root = b"", self.root + self.last_of_root
        files = b"".join([b"100644 %s\x00%s" % pair for pair in sorted(entry.files)])
        self.leaf += b"%s100644 %08d.json\x00%s" % (files, seq, entry.blob)
        leaf_id = object_id(b"tree", self.leaf)
        self.last_of_middle = b"40000 %02d\x00%s" % (seq // 100 % 100, bytes.fromhex(leaf_id))
        middle = self.middle + self.last_of_middle
        middle_id = object_id(b"tree", middle)
        self.last_of_root = b"40000 %04d\x00%s" % (seq // 10_000, bytes.fromhex(middle_id))
        root = self.root + self.last_of_root
        root_id = object_id(b"tree", root)
        self.time = max(self.time, event.time)
        parent = f"parent {self.head}\n" if self.head else ""
        commit = (
            f"tree {root_id}\n{parent}author {event.actor} <{event.actor}@gitjournal.invalid> {self.time} +0000\n"
            f"committer gitjournal <gitjournal@gitjournal.invalid> {self.time} +0000\n\n"
            f"{event.type} #{seq}\n\nSession: {event.session}\nEvent-Hash: sha256:{event.hash}\n"
        ).encode()
        self.head = object_id(b"commit", commit)
        return [
            (b"commit", self.head, commit),
            (b"tree", leaf_id, self.leaf),
            (b"tree", middle_id, middle),
            (b"tree", root_id, root),
        ]


# --- A line in git: section 8 ------------------------------------------------------------------------------------

T = TypeVar("T")


class NeedsWalk(Exception):
    """The shortcut does not hold: something is lost, not there, signed, or another than the derived one."""


class Repository:
    """A repository and the children that read it: trees, events and side files; derived objects; commits."""

    def __init__(self, folder: Path) -> None:
        self.events, self.derived, self.commits = Git(folder), Git(folder), Git(folder)
        lines = read_lines(folder / "shallow")
        self.shallow = {line.decode() for line in lines if re.fullmatch(rb"[0-9a-f]{40}", line)}

    def close(self) -> None:
        """End the children."""
        for git in (self.events, self.derived, self.commits):
            git.close()


class GitLine:
    """One check of one ref: with the shortcut of section 8, which can end in NeedsWalk, or with the walk."""

    def __init__(self, repo: Repository, line: Line, walks: bool) -> None:
        self.repo, self.line, self.walks = repo, line, walks
        self.head = line.commit or ""
        self.deriver = Deriver()
        self.deriving = True
        #: The root tree and the last middle tree, by the length of the names in them: id and folders.
        self.upper: dict[int, tuple[str, dict[bytes, str]]] = {}
        # Ids of the walk, newest first, 20 bytes each. It did not come to the first `unseen` commits: nothing is
        # compared there, and the commit after them names `edge` as its parent.
        self.walked = bytearray()
        self.unseen = 0
        self.edge: str | None = None
        #: What must be there: to be asked for, and asked for already. (seq, kind, id, bytes)
        self.wanted: list[tuple[int, bytes, str, bytes]] = []
        self.asked: list[tuple[int, bytes, str, bytes]] = []
        self.wanted_bytes = 0

    def check(self) -> None:
        """The whole line, from its head on."""
        try:
            commit = read_commit(self.repo.events.get(self.head, b"commit"))
        except Broken as error:
            self.line.add(error.code, None, self.head)
            return
        self.line.size = int(commit["seq"])
        if self.walks:
            self.walk()
        elif commit["gpgsig"]:
            raise NeedsWalk
        for first in range(0, self.line.size + 1, 100):
            self.check_leaf(commit["tree"], first)
        self.ask_for_wanted()
        self.take_asked()
        if not self.walks and self.deriver.head != self.head:
            raise NeedsWalk

    def stop_deriving(self) -> None:
        """From here on nothing can be compared, and the shortcut cannot hold."""
        if not self.walks:
            raise NeedsWalk
        self.deriving = False

    def walk(self) -> None:
        """From the head back by the parents, for the ids."""
        child, ident = "", self.head
        for seq in range(self.line.size, 0, -1):
            try:
                raw = self.repo.commits.get(ident, b"commit")
            except Broken as error:
                self.unseen, self.edge = seq, ident
                if error.code == "missing-object" and child in self.repo.shallow:
                    self.line.left_out = seq
                else:
                    self.line.add(error.code, seq, ident)
                return
            self.walked += bytes.fromhex(ident)
            match = PARENT.match(raw)
            if match is None and seq > 1:
                self.unseen = seq - 1
                self.line.add("bad-commit", seq, ident)
                return
            child, ident = ident, match[1].decode() if match else ""
        if ident:
            self.line.add("bad-commit", 1, ident)

    def compare(self, event: Event, entry: Entry) -> None:
        """Whether git has the trees and the commit that follow from an event."""
        seq = event.seq
        commit, *trees = self.deriver.push(event, entry)
        if seq <= self.unseen:
            self.deriver.head = self.edge
            return
        if self.walks:
            at = 20 * (self.line.size - seq)
            actual = self.walked[at : at + 20].hex()
            if actual != commit[1] and not self.is_signed(event, actual, commit[2]):
                self.deriving = False
                return
            self.deriver.head = actual
        else:
            trees.append(commit)
        self.wanted += [(seq, *one) for one in trees]
        self.wanted_bytes += sum([len(data) for _, _, data in trees])
        if self.wanted_bytes > 1 << 19:
            self.ask_for_wanted()

    def is_signed(self, event: Event, actual: str, derived: bytes) -> bool:
        """Whether a commit is the derived one with a signature, which is checked; if not, a finding says what it is."""
        try:
            raw = self.repo.commits.get(actual, b"commit")
            says = read_commit(raw)
        except Broken:
            self.line.add("bad-commit", event.seq, actual)
            return False
        start, _, message = derived.partition(b"\n\n")
        if says["gpgsig"] and raw == b"%s\ngpgsig %s\n\n%s" % (start, says["gpgsig"].encode(), message):
            armour = says["gpgsig"].replace("\n ", "\n")
            self.line.signature(armour, "git", derived, self.deriver.time, (event.seq, actual, event.seq))
            return True
        if says["hash"] != event.hash:
            self.line.add("bad-hash", event.seq, actual)
        elif (says["seq"], says["session"], says["type"]) != (str(event.seq), event.session, event.type):
            self.line.add("bad-commit", event.seq, actual)
        else:
            self.line.add("bad-tree", event.seq, actual)
        return False

    def ask_for_wanted(self) -> None:
        """Git works on this while the next events are read."""
        self.take_asked()
        if self.wanted:
            self.repo.derived.ask(ident for _, _, ident, _ in self.wanted)
        self.asked, self.wanted, self.wanted_bytes = self.wanted, [], 0

    def take_asked(self) -> None:
        """Equal bytes have the id that was derived from them, so they need not be hashed again."""
        asked, self.asked = self.asked, []
        answers = [b"%s %s %d\n%s\n" % (ident.encode(), kind, len(data), data) for _, kind, ident, data in asked]
        if not asked or self.repo.derived.answers(b"".join(answers)):
            return
        if not self.walks:
            raise NeedsWalk
        for seq, kind, ident, data in asked:
            try:
                if self.repo.derived.get(ident, kind) != data:
                    raise Broken("bad-object")
            except Broken as error:
                self.line.add(error.code, seq, ident)

    def check_leaf(self, root: str, first: int) -> None:
        """The events of one leaf tree."""
        places = range(max(first, 1), min(first + 100, self.line.size + 1))
        try:
            middle = self.folder(root, b"%04d" % (first // 10_000))
            leaf = self.tree(self.folder(middle, b"%02d" % (first // 100 % 100)), read_leaf)
        except Broken as error:
            self.stop_deriving()
            for _ in places:
                self.line.lose()
            self.line.add(error.code, places[0], error.ident)
            return
        found = [leaf.get(seq) or Entry() for seq in places]
        self.repo.events.ask(entry.blob.hex() for entry in found if entry.blob)
        with_files = []
        for seq, entry in zip(places, found, strict=True):
            event = self.check_event(seq, entry)
            if event is not None and (entry.files or event.files):
                with_files.append((seq, event.hash, event.files, entry))
        for one in with_files:
            self.check_files(*one)

    def tree(self, ident: str, reader: Callable[[bytes], T]) -> T:
        """What a reader makes of a tree. Broken, with the id."""
        try:
            return reader(self.repo.events.get(ident, b"tree"))
        except Broken as error:
            raise Broken(error.code, ident) from None

    def folder(self, tree: str, name: bytes) -> str:
        """The id of a folder in the root or a middle tree. Broken."""
        if self.upper.get(len(name), ("",))[0] != tree:
            self.upper[len(name)] = tree, self.tree(tree, read_folders)
        ident = self.upper[len(name)][1].get(name)
        if ident is None:
            raise Broken("missing-object")
        return ident

    def check_event(self, seq: int, entry: Entry) -> Event | None:
        """The next event, None if it is lost."""
        ident = entry.blob.hex()
        try:
            if not ident:
                raise Broken("missing-object")
            event = read_event(self.repo.events.read(b"blob"))
        except Broken as error:
            self.stop_deriving()
            self.line.lose()
            self.line.add(error.code, seq, ident)
            return None
        self.line.push(event, ident)
        if event.seq != seq:
            self.stop_deriving()
        if self.deriving:
            self.compare(event, entry)
        return event

    def check_files(self, seq: int, digest: str, files: list[dict[str, Any]], entry: Entry) -> None:
        """The side files of an event."""
        ids = {int(name[9:]): oid.hex() for name, oid in entry.files}
        if ids.keys() != set(range(1, len(files) + 1)):
            self.line.add("bad-file", seq, digest)
            return
        self.repo.events.ask(ids[number] for number in range(1, len(files) + 1))
        for number, file in enumerate(files, 1):
            try:
                if self.repo.events.read_file() != (file["size"], file["sha256"]):
                    raise Broken("bad-file")
                self.line.side_files += 1
            except Broken as error:
                self.line.add(error.code, seq, ids[number])


# --- Refs, and a repository: section 5 ---------------------------------------------------------------------------


def open_regular(path: Path, flags: int = os.O_NOFOLLOW) -> BufferedReader | None:
    """A regular file, open for reading; None for a link, a pipe, or nothing. OSError for one that cannot be read."""
    try:
        number = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | flags)
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENXIO):
            raise
        return None
    if stat.S_ISREG(os.fstat(number).st_mode):
        return os.fdopen(number, "rb")
    os.close(number)
    return None


def read_regular(path: Path, limit: int) -> bytes:
    """The bytes of a regular file, one more than the limit if there are more; nothing of any other file."""
    file = open_regular(path)
    if file is None:
        return b""
    with file:
        return file.read(limit + 1)


def read_lines(path: Path) -> list[bytes]:
    """The lines of a file that git keeps. Stop if it is too large to be read."""
    raw = read_regular(path, MAX_GIT_FILE)
    if len(raw) > MAX_GIT_FILE:
        raise Stop(4, f"{str(path)!a} is too large")
    return raw.split(b"\n")


def is_folder(path: Path) -> bool:
    """Whether it is a folder, and no link to one."""
    return path.is_dir() and not path.is_symlink()


def read_refs(repo: Path) -> dict[bytes, str | None]:
    """What is under refs/heads and refs/remotes, by full name: a commit id, or None where a ref holds none."""
    refs: dict[bytes, str | None] = {}
    for line in read_lines(repo / "packed-refs"):
        match = re.fullmatch(rb"([0-9a-f]{40}) (refs/(?:heads|remotes)/.*)", line, re.DOTALL)
        if match:
            refs[match[2]] = match[1].decode()
    top = repo / "refs"
    todo = [path for path in (top / "heads", top / "remotes") if is_folder(top) and is_folder(path)]
    while todo:
        with os.scandir(todo.pop()) as found:
            for entry in found:
                path = Path(entry.path)
                name = os.fsencode(path.relative_to(repo))
                if entry.is_dir(follow_symlinks=False):
                    todo.append(path)
                elif not name.endswith(b".lock"):
                    raw = read_regular(path, 41)
                    refs[name] = raw[:40].decode() if re.fullmatch(rb"[0-9a-f]{40}\n", raw) else None
    return refs


def parts_of(ref: bytes) -> tuple[str, str] | None:
    """Session and branch of a ref, encoded; None for a foreign ref."""
    try:
        words = ref.decode("utf-8").split("/")
    except UnicodeDecodeError:
        return None
    # A remote is called by a name, too, but as it stands.
    parts = words[2:] if words[1] == "heads" else words[3:] if is_name(words[2]) else []
    return (parts[0], parts[1]) if len(parts) == 2 and all(map(is_part, parts)) else None


def verify_repository(repo: Path, name: str | None, options: Options) -> tuple[list[Line], int]:
    """All lines of a repository, or those of a name; and how many refs are foreign."""
    if options.expected and name is None:
        raise Stop(2, "an expected head needs the name of a line")
    refs = {ref: held for ref, held in read_refs(repo).items() if not re.fullmatch(rb"refs/remotes/[^/]*/HEAD", ref)}
    known = {ref: parts for ref in refs if (parts := parts_of(ref))}
    wanted = name if name is None or "/" in name else name + "/main"
    chosen = sorted(ref for ref, parts in known.items() if wanted in (None, "/".join(parts)))
    if not chosen:
        raise Stop(4, "there is no line of this name" if name is not None else "there is no line of a journal")
    if options.expected and len(chosen) != 1:
        raise Stop(2, "an expected head needs a name that only one line has")
    repository = Repository(repo)
    try:
        lines = [verify_ref(repository, ref.decode(), known[ref], refs[ref], options) for ref in chosen]
    finally:
        repository.close()
    # Only lines whose last session is that of their ref are compared: of all others wrong-ref has been said.
    sessions: dict[str, list[Line]] = {}
    for ref, line in zip(chosen, lines, strict=True):
        if line.session is not None and encode(line.session) == known[ref][0]:
            others = sessions.setdefault(line.session, [])
            for other in others:
                with suppress(Full):
                    compare_lines(other, line)
            others.append(line)
    return lines, len(refs) - len(known)


def verify_ref(repository: Repository, ref: str, parts: tuple[str, str], held: str | None, options: Options) -> Line:
    """One line in git: with the shortcut, and if that does not hold with the walk."""
    line = Line(options, ref, held)
    if held is None:
        line.findings.add(("wrong-ref", None, ""))
        return line
    try:
        GitLine(repository, line, walks=False).check()
        finish_ref(line, parts, held)
    except NeedsWalk:
        repository.close()
        line = Line(options, ref, held)
        with suppress(Full):
            GitLine(repository, line, walks=True).check()
            finish_ref(line, parts, held)
    except Full:
        pass
    if line.is_cut:
        repository.close()
    return line


def finish_ref(line: Line, parts: tuple[str, str], held: str) -> None:
    """What is asked of the line at its end."""
    if line.session is not None and (encode(line.session), encode(line.branch)) != parts:
        line.add("wrong-ref", None, held)
    line.finish()


def compare_lines(earlier: Line, later: Line) -> None:
    """Equivocation: two lines of one session, in the order of their names."""
    most = min(line.first_lost - 1 if line.first_lost else line.seq for line in (earlier, later))
    low, high = 0, most
    hashes = memoryview(later.hashes)
    while low < high:  # if the first n hashes are equal, so are all shorter beginnings
        middle = (low + high + 1) // 2
        if earlier.hashes.startswith(hashes[32 * low : 32 * middle], 32 * low):
            low = middle
        else:
            high = middle - 1
    if low < most and low not in earlier.declared and low not in later.declared:
        later.add("equivocation", low + 1, later.hash_at(low + 1) or "")


# --- An export: section 11 ---------------------------------------------------------------------------------------


def verify_export(path: Path, options: Options) -> Line:
    """A file of events, one a line."""
    line = Line(options)
    file = open_regular(path, 0)
    if file is None:
        raise Stop(4, f"{str(path)!a} is no file that can be read")
    with file, suppress(Full):
        while (raw := file.readline(MAX_EVENT + 2)) != b"":
            # Of a line that is too long no more than that is kept; more than the limit is also too long for an event.
            end = raw
            while end and not end.endswith(b"\n"):
                end = file.readline(MAX_EVENT)
            line.size += 1
            if not line.is_cut:
                with suppress(Full):
                    check_line(path, line, raw.removesuffix(b"\n") if end else None)
        if not line.size:
            raise Stop(4, f"{str(path)!a} is empty")
        line.finish()
    return line


def check_line(path: Path, line: Line, raw: bytes | None) -> None:
    """One line of an export; None if its newline is not there."""
    try:
        if raw is None:
            raise Broken("truncated")
        event = read_event(raw)
    except Broken as error:
        line.lose()
        line.add(error.code, line.size, "")
        return
    line.push(event, "")
    for number, entry in enumerate(event.files, 1):
        file = None
        with suppress(OSError):
            file = open_regular(Path(f"{path}.files", f"{line.size}.{number}"))
        if file is None:
            line.add("missing-object", line.size, event.hash)
            continue
        with file:
            right = is_side_file(file, entry)
        if right:
            line.side_files += 1
        else:
            line.add("bad-file", line.size, event.hash)


def is_side_file(file: BufferedReader, entry: dict[str, Any]) -> bool:
    """Whether a file is what an event says; one of another size, however large, is not read."""
    left: int = entry["size"]
    if os.fstat(file.fileno()).st_size != left:
        return False
    digest = sha256()
    while piece := file.read(min(left, 1 << 20)):
        digest.update(piece)
        left -= len(piece)
    return left == 0 and digest.hexdigest() == entry["sha256"]


# --- A proof: section 9 ------------------------------------------------------------------------------------------

#: By kind: the members that are texts of events, in the order in which they are checked.
PROOFS = {"inclusion": ("event", "seal"), "consistency": ("first", "second")}


def verify_proof(path: Path, options: Options) -> Line:
    """A proof file."""
    line = Line(options)
    file = open_regular(path, 0)
    if file is None:
        raise Stop(4, f"{str(path)!a} is no file that can be read")
    with file:
        raw = file.read(MAX_PROOF + 1)
    try:
        for seal, checkpoint in check_proof(raw, line):
            line.seal_signatures(seal, checkpoint, None, "")
    except Broken as error:
        line.add(error.code, None, "")
    line.finish()
    return line


def check_proof(raw: bytes, line: Line) -> list[tuple[Event, str]]:
    """The seals and their checkpoints, if the proof holds. Broken with the first rule that it breaks."""
    proof = read_proof(raw)
    one, two = (read_text(name, proof[name], line) for name in PROOFS[proof["kind"]])
    seals = []
    for seal in (one, two) if proof["kind"] == "consistency" else (two,):
        seals.append((seal, read_seal(seal, seal.seq, proof_origin(seal))))
        line.seals += 1
    line.size = two.seq - 1
    path = [base64.b64decode(item) for item in proof["path"]]
    if proof["kind"] == "inclusion":
        digest = bytes.fromhex(one.hash)
        good = one.seq <= line.size and is_included(one.seq - 1, line.size, digest, path, seal_root(two))
    else:
        roots = seal_root(one), seal_root(two)
        good = one.session == two.session and is_consistent(one.seq - 1, line.size, *roots, path)
    if not good:
        raise Broken("bad-seal")
    return seals


def read_proof(raw: bytes) -> dict[str, Any]:
    """Rule 1 of proofs: the file and its members."""
    if len(raw) > MAX_PROOF or not has_few_values(raw):
        raise Broken("bad-json")
    proof = parse(raw.removesuffix(b"\n"))
    if not raw.endswith(b"\n"):
        raise Broken("not-canonical")
    if type(proof) is not dict:
        raise Broken("bad-json")
    if proof.get("format") != "gitjournal-proof" or not is_integer(proof.get("version"), 1, 1):
        raise Broken("bad-version")
    kind, path = proof.get("kind"), proof.get("path")
    texts = PROOFS.get(kind, ()) if type(kind) is str else ()
    if (
        not texts
        or proof.keys() != {"format", "version", "kind", "path", *texts}
        or not all(type(proof[name]) is str for name in texts)
        or type(path) is not list
        or len(path) > 64
        or not all(map(is_hash, path))
    ):
        raise Broken("bad-member")
    return proof


def has_few_values(raw: bytes) -> bool:
    """Whether at most 1,000 of the bytes `,` `[` `{` stand outside of strings: a list of nothing takes 64 bytes."""
    # Without these escapes each quote begins or ends a string; with so many strings there are too many values as well.
    pieces = raw.replace(b"\\\\", b"").replace(b'\\"', b"").split(b'"', 4100)
    marks = sum(piece.count(mark) for piece in pieces[::2] for mark in (b",", b"[", b"{"))
    return len(pieces) <= 4100 and marks <= 1000


def is_hash(item: Any) -> bool:
    """Whether a value is 32 bytes in base64."""
    with suppress(Broken):
        return type(item) is str and len(unbase64(item)) == 32
    return False


def read_text(name: str, text: str, line: Line) -> Event:
    """Rule 2 of proofs: an event, which must be a seal unless it is the member `event`."""
    event = read_event(text.encode())
    if name != "event" and event.type != "session.seal":
        raise Broken("bad-seal")
    if event.data is None:
        line.withhold(event.seq)
    return event


def proof_origin(seal: Event) -> str:
    """The first line that a checkpoint must have; its branch may be any that is spelled as one."""
    checkpoint = (seal.data or {}).get("checkpoint")
    branch = checkpoint.split("\n")[0].split("/")[-1] if type(checkpoint) is str else ""
    if not is_part(branch):
        raise Broken("bad-seal")
    return f"gitjournal/{encode(seal.session)}/{branch}"


def is_included(index: int, size: int, digest: bytes, path: Sequence[bytes], root: bytes) -> bool:
    """RFC 9162 section 2.1.3.2, with its names."""
    fn, sn = index, size - 1
    r = sha256(b"\x00" + digest).digest()
    for p in path:
        if sn == 0:
            return False
        if fn & 1 or fn == sn:
            r = node(p, r)
            while fn and not fn & 1:
                fn, sn = fn >> 1, sn >> 1
        else:
            r = node(r, p)
        fn, sn = fn >> 1, sn >> 1
    return sn == 0 and r == root


def is_consistent(first: int, second: int, first_root: bytes, second_root: bytes, path: Sequence[bytes]) -> bool:
    """RFC 9162 section 2.1.4.2, with its names; equal sizes have equal roots and an empty path."""
    if first >= second or not path:
        return first == second and first_root == second_root and not path
    rest = deque(path)
    if first & (first - 1) == 0:
        rest.appendleft(first_root)
    fn, sn = first - 1, second - 1
    while fn & 1:
        fn, sn = fn >> 1, sn >> 1
    fr = sr = rest.popleft()
    for c in rest:
        if sn == 0:
            return False
        if fn & 1 or fn == sn:
            fr, sr = node(c, fr), node(c, sr)
            while fn and not fn & 1:
                fn, sn = fn >> 1, sn >> 1
        else:
            sr = node(sr, c)
        fn, sn = fn >> 1, sn >> 1
    return sn == 0 and (fr, sr) == (first_root, second_root)


# --- The verdict: sections 2, 3 and 10 ---------------------------------------------------------------------------

NOT_SEEN = {
    "git": "events that are not yet in git: the tail of a live journal",
    "jsonl": "commits, trees and refs: an export has none",
    "proof": "all other events: a proof shows what it names",
}


def unchecked(kind: str, lines: list[Line], foreign: int, options: Options) -> tuple[list[str], bool]:
    """The texts of section 10, and whether one of them makes the check incomplete."""
    signatures = sum(line.signatures for line in lines)
    not_checked = sum(line.not_checked for line in lines)
    withheld = sum(last - first + 1 for line in lines for first, last in line.withheld)
    left_out = sum(line.left_out for line in lines)
    ends = any(line.depends_on_clock for line in lines)
    trusted = options.signers is not None
    behind = trusted and any(line.signed_to < line.size for line in lines)
    rows: list[tuple[Any, bool, str]] = [
        (True, False, NOT_SEEN[kind]),
        (not options.expected, False, "whether newer events were cut off: no head was expected"),
        (not signatures, False, "who wrote the events: nothing is signed"),
        (signatures and not trusted, True, "whose keys signed: no allowed signers were given"),
        (not_checked, True, f"signatures of a kind that is not checked here: {not_checked}"),
        (ends, False, "when it was signed: an accepted key has an end, and the time is the signer's word"),
        (behind, False, "events after the last accepted signature"),
        (withheld, False, f"the payloads of withheld events: {withheld}"),
        (left_out, True, f"commits that a shallow history leaves out: {left_out}"),
        (foreign, False, f"refs that are no line of a journal: {foreign}"),
        (any(line.is_cut for line in lines), True, f"what comes after {MAX_FINDINGS} findings in a line"),
    ]
    return [text for applies, _, text in rows if applies], any(applies and part for applies, part, _ in rows)


def arguments(words: list[str]) -> tuple[str, str | None, Options]:
    """The command line. Stop with 2 if it is not one."""
    given: dict[str, str] = {}
    plain: list[str] = []
    todo = deque(words)
    while todo:
        word = todo.popleft()
        if word in ("--allowed-signers", "--revoked-keys", "--expect-seq", "--expect-head") and todo:
            given[word] = todo.popleft()
        elif word == "--require-signed":
            given[word] = ""
        elif word.startswith("-"):
            raise Stop(2, USAGE)
        else:
            plain.append(word)
    seq, head = given.get("--expect-seq"), given.get("--expect-head")
    if not 1 <= len(plain) <= 2 or (seq is None) != (head is None):
        raise Stop(2, USAGE)
    expected = None
    if seq is not None and head is not None:
        if not re.fullmatch(r"[1-9][0-9]{0,7}", seq) or not HASH.fullmatch(head):
            raise Stop(2, "an expected head is a number and 64 lower-case hex digits")
        expected = int(seq), head
    signers = None
    if "--allowed-signers" in given:
        signers = [signer for signer in read_key_file(given["--allowed-signers"], read_signer) if signer]
    revoked = read_key_file(given["--revoked-keys"], read_key) if "--revoked-keys" in given else []
    options = Options(signers, {*revoked}, "--require-signed" in given, expected)
    return plain[0], plain[1] if plain[1:] else None, options


def verify(text: str, name: str | None, options: Options) -> tuple[str, list[Line], int]:
    """(input, lines, number of foreign refs) of whatever the path is."""
    path = Path(text)
    if path.is_dir():
        for repo in (path, path / ".git"):
            if (repo / "HEAD").is_file() and (repo / "objects").is_dir() and not (repo / "reftable").is_dir():
                return "git", *verify_repository(repo, name, options)
        raise Stop(4, f"{str(path)!a} is no git repository with refs that can be read")
    kind = "jsonl" if text.endswith(".jsonl") else "proof"
    if not text.endswith((".jsonl", ".json")) or not path.exists():
        raise Stop(4, f"{str(path)!a} is neither a folder nor a file *.jsonl or *.json")
    if name is not None or (options.expected and kind == "proof"):
        raise Stop(2, "only the lines of a repository have names, and a proof has no head")
    return kind, [verify_export(path, options) if kind == "jsonl" else verify_proof(path, options)], 0


def main(words: list[str]) -> int:
    """Print the verdict, and return the exit status."""
    try:
        text, name, options = arguments(words)
        kind, lines, foreign = verify(text, name, options)
    except (Stop, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return error.status if isinstance(error, Stop) else 4
    texts, incomplete = unchecked(kind, lines, foreign, options)
    status = 1 if any(line.findings for line in lines) else 3 if incomplete else 0
    verdict = {
        "input": kind,
        "lines": [line.verdict() for line in lines],
        "unchecked": texts,
        "verdict": {0: "ok", 1: "broken", 3: "incomplete"}[status],
        "version": 1,
    }
    sys.stdout.buffer.write(PRINTER.encode(verdict).encode() + b"\n")
    sys.stdout.buffer.flush()
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
