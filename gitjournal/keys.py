"""The user's own key: from an OpenSSH key file, from ssh-agent, or a new one.

Floor 1. Nothing here reads the environment or the terminal: the caller says where the agent is and how a passphrase is
asked for. A private key is in no message, and in no file but the one that `generate` makes.
"""

from __future__ import annotations

import os
import socket
import stat
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from gitjournal import rules, sshsig
from gitjournal.errors import AlreadyExists, FormatError, NotFound, StorageError, UsageError, disk_errors

if TYPE_CHECKING:
    from gitjournal.sshsig import PrivateKey

#: Asks a person for the passphrase of a key; called once at most.
Ask = Callable[[], str]

_DEFAULT_FILES = ("id_ed25519", "id_ecdsa", "id_rsa")
_MAX_KEY_FILE = 64 * 1024
_BEGIN = b"-----BEGIN OPENSSH PRIVATE KEY-----"
_END = b"-----END OPENSSH PRIVATE KEY-----"
_MAGIC = b"openssh-key-v1\x00"


class Signer(ABC):
    """A key that signs. ``public`` is its public key blob."""

    public: bytes

    @property
    def fingerprint(self) -> str:
        """``SHA256:...`` of the public key."""
        return sshsig.fingerprint(self.public)

    @property
    def line(self) -> str:
        """The public key as one line, as in a ``.pub`` file."""
        return sshsig.key_line(self.public)

    @abstractmethod
    def sign(self, message: bytes, namespace: str) -> str:
        """The armoured SSHSIG of ``message``."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.fingerprint}>"


class FileSigner(Signer):
    """A private key in this process."""

    def __init__(self, key: PrivateKey) -> None:
        self.public = sshsig.public_blob(key)
        self._key = key

    def sign(self, message: bytes, namespace: str) -> str:
        """The armoured SSHSIG of ``message``."""
        signature = sshsig.raw_sign(self._key, sshsig.signed_bytes(namespace, sshsig.HASH, message))
        return sshsig.enclose(self.public, namespace, signature)


class AgentSigner(Signer):
    """A key that only ssh-agent has. Each signature is one question to it."""

    def __init__(self, agent: Agent, public: bytes) -> None:
        self.public = public
        self._agent = agent

    def sign(self, message: bytes, namespace: str) -> str:
        """The armoured SSHSIG of ``message``. StorageError when the agent does not give a right one."""
        signature = self._agent.sign(self.public, sshsig.signed_bytes(namespace, sshsig.HASH, message))
        armoured = sshsig.enclose(self.public, namespace, signature)
        # Old agents sign with SHA-1 whatever they are asked for, and any program can sit behind the socket.
        try:
            sshsig.check(armoured, message, namespace)
        except FormatError as error:
            raise StorageError(f"ssh-agent gave a wrong signature: {error}") from None
        return armoured


# --- finding a key -----------------------------------------------------------------------------------


def find(signing_key: str | None, home: Path, ask: Ask | None = None, agent: Agent | None = None) -> Signer:
    """The key that git and ssh would take. NotFound when there is none.

    ``signing_key`` is git's ``user.signingkey`` when ``gpg.format`` is ``ssh``. Without it: the usual files in
    ``~/.ssh``, then the first key of the agent. The first one that is there is taken, or refused with the reason.
    """
    if signing_key:
        literal = signing_key.removeprefix("key::")
        if literal != signing_key or literal.startswith("ssh-"):
            return _held(sshsig.parse_key(literal)[0], agent)
        path = home / signing_key[2:] if signing_key.startswith("~/") else Path(signing_key)
        return load(path, ask, agent)
    for name in _DEFAULT_FILES:
        if _is_file(home / ".ssh" / name):
            return load(home / ".ssh" / name, ask, agent)
    if agent:
        for public, _ in agent.identities():
            if sshsig.is_checked(public):
                return AgentSigner(agent, public)
    raise NotFound(
        f"no key to sign with in {home / '.ssh'} or ssh-agent",
        hint="Make one with ssh-keygen -t ed25519, or name one in git's user.signingkey (with gpg.format ssh).",
    )


def load(path: Path, ask: Ask | None = None, agent: Agent | None = None) -> Signer:
    """The key in an OpenSSH private key file, or the key whose public half is in the file, as ssh-keygen finds it.

    Encrypted files are opened with ``ask``, once, unless the agent has the key.
    """
    content, found = _read(path)
    if content.startswith(_BEGIN):
        # As ssh does. Where somebody else owns the file, as in containers, its owner answers for it.
        if found.st_uid == os.getuid() and found.st_mode & 0o077:
            raise UsageError(f"{path} is open to others (mode {found.st_mode & 0o777:03o})", hint=f"chmod 600 {path}")
        return _open(path, content, ask, agent)
    if content.startswith(b"-----BEGIN "):
        raise UsageError(
            f"{path} is no private key in OpenSSH's own format", hint=f"Convert it, in place: ssh-keygen -p -f {path}"
        )
    try:
        public, _ = sshsig.parse_key(content.decode())
    except (UsageError, UnicodeDecodeError):
        raise UsageError(f"{path} is neither a private nor a public SSH key") from None
    beside = path.with_suffix("")
    if path.suffix != ".pub" or not _is_file(beside):
        return _held(public, agent)
    with suppress(NotFound, StorageError):
        return _held(public, agent)
    signer = load(beside, ask, agent)
    if signer.public != public:
        raise UsageError(f"{path} is not the public half of {beside}")
    return signer


def _is_file(path: Path) -> bool:
    with disk_errors(f"look for the key {path}"):
        return path.is_file()


def _read(path: Path) -> tuple[bytes, os.stat_result]:
    """Content of a key file, and what the system says about it."""
    try:
        with disk_errors(f"read the key {path}"):
            # Not to hang where somebody has put a pipe.
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
            with os.fdopen(fd, "rb") as file:
                found = os.fstat(fd)
                content = file.read(_MAX_KEY_FILE + 1) if stat.S_ISREG(found.st_mode) else b""
    except StorageError as error:
        if isinstance(error.__cause__, FileNotFoundError):
            raise NotFound(f"no key {path}") from None
        raise
    if not 0 < len(content) <= _MAX_KEY_FILE:
        raise UsageError(f"{path} is no key: not a file, empty, or larger than {_MAX_KEY_FILE} bytes")
    return content, found


def _open(path: Path, content: bytes, ask: Ask | None, agent: Agent | None) -> Signer:
    try:
        public, encrypted = _outside(content)
        kind = sshsig.kind(public)
    except (FormatError, ValueError):
        raise UsageError(f"{path} is a damaged private key") from None
    _check_kind(public, kind)
    passphrase = None
    if encrypted:
        with suppress(NotFound, StorageError):
            return _held(public, agent)
        passphrase = _passphrase(path, ask)
    signer = FileSigner(_decode(path, content, passphrase))
    if signer.public != public:
        raise UsageError(f"{path} is a damaged private key: its two halves differ")
    return signer


def _outside(content: bytes) -> tuple[bytes, bool]:
    """What an OpenSSH private key file says without a passphrase: the public key blob, and whether one is needed."""
    inside = content.removeprefix(_BEGIN).partition(_END)[0]
    blob = sshsig.strict_base64(b"".join(inside.split()).decode("ascii"))
    if not blob.startswith(_MAGIC):
        raise ValueError("no openssh-key-v1")
    at = len(_MAGIC)
    cipher = sshsig.first_string(blob, at)
    for _ in ("cipher", "kdf", "kdf's options"):
        at += 4 + len(sshsig.first_string(blob, at))
    # The number of keys is in between, and is always 1.
    return sshsig.first_string(blob, at + 4), cipher != b"none"


def _check_kind(public: bytes, kind: str) -> None:
    if not sshsig.is_checked(public):
        raise UsageError(
            f"keys like this one ({kind!a}) do not sign here",
            hint="Ed25519, ECDSA of P-256 or P-384, and RSA of 2048 to 8192 bits do.",
        )


def _passphrase(path: Path, ask: Ask | None) -> bytes:
    if find_spec("bcrypt") is None:
        raise UsageError(
            f"{path} is encrypted, and opening it needs the Python package bcrypt",
            hint=f"Install bcrypt, or let ssh-agent hold the key: ssh-add {path}",
        )
    if ask is None:
        raise UsageError(
            f"{path} is encrypted, and there is nobody to ask for its passphrase",
            hint=f"Let ssh-agent hold the key: ssh-add {path}",
        )
    return ask().encode("utf-8", "surrogateescape")


def _decode(path: Path, content: bytes, passphrase: bytes | None) -> PrivateKey:
    from cryptography.exceptions import InvalidTag, UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import load_ssh_private_key

    # Whatever goes wrong, what the library says is not passed on: it may know of the key.
    try:
        key = load_ssh_private_key(content, passphrase)
    except UnsupportedAlgorithm:
        raise UsageError(f"{path} is encrypted in a way that is not known here") from None
    except (ValueError, TypeError, InvalidTag):
        why = "is a damaged private key" if passphrase is None else "does not open: not its passphrase, or damaged"
        raise UsageError(f"{path} {why}") from None
    # Its kind has been looked at: it is one of those that sign.
    return key  # type: ignore[return-value]


# --- making a key ------------------------------------------------------------------------------------


def generate(path: Path, comment: str = "") -> Signer:
    """Make an Ed25519 key without a passphrase: ``path`` for its owner only, and ``path.pub`` with the comment.

    AlreadyExists when one of the files is there; then nothing is changed.
    """
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    if rules.CONTROL.search(comment):
        raise UsageError(f"the comment {comment!a} holds a control character")
    key = Ed25519PrivateKey.generate()
    signer = FileSigner(key)
    text = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH, serialization.NoEncryption()
    )
    beside = path.with_name(path.name + ".pub")
    with disk_errors(f"make the folder {path.parent}"):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    _create(path, text, 0o600)
    try:
        _create(beside, f"{sshsig.key_line(signer.public, comment)}\n".encode(), 0o644)
    except BaseException:
        path.unlink(missing_ok=True)
        raise
    return signer


def _create(path: Path, content: bytes, mode: int) -> None:
    """Write a new file that has its mode from its first moment, and is on the disk when this returns."""
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    except FileExistsError:
        raise AlreadyExists(f"{path} is there already") from None
    except OSError as error:
        raise StorageError(f"cannot make {path}: {error.strerror}") from error
    try:
        with disk_errors(f"write {path}"), os.fdopen(fd, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(fd)
    except BaseException:
        path.unlink(missing_ok=True)
        raise


# --- ssh-agent -----------------------------------------------------------------------------------------

_FAILURE = (5, 30, 102)
_LIST, _LISTED = 11, 12
_SIGN, _SIGNED = 13, 14
_RSA_SHA2_512 = 4
# As many as OpenSSH takes.
_MAX_ANSWER = 256 * 1024
_MAX_KEYS = 2048


class Agent:
    """The ssh-agent behind a Unix socket: the one that ``$SSH_AUTH_SOCK`` names.

    Each question is a connection of its own, so that threads and forked children do not share one. What answers may be
    any program: sizes and times have limits. ``patience`` is how long a person may take to allow a signature.
    """

    def __init__(self, path: str | Path, timeout: float = 5.0, patience: float = 60.0) -> None:
        self._path = os.fspath(path)
        self._timeout = timeout
        self._patience = patience

    def identities(self) -> list[tuple[bytes, str]]:
        """Public key blob and comment of each key, in the agent's order. Comments are whatever somebody has written."""
        answer = self._exchange(bytes([_LIST]), _LISTED, self._timeout)
        try:
            return list(_identities(answer))
        except FormatError:
            raise StorageError(f"ssh-agent at {self._path} answered with a list that cannot be read") from None

    def sign(self, public: bytes, data: bytes) -> bytes:
        """The signature blob over ``data`` by the key ``public``; not yet known to be right."""
        flags = _RSA_SHA2_512 if sshsig.kind(public) == "ssh-rsa" else 0
        request = bytes([_SIGN]) + sshsig.string(public) + sshsig.string(data) + flags.to_bytes(4, "big")
        answer = self._exchange(request, _SIGNED, self._patience)
        try:
            (signature,) = sshsig.strings(answer, 1)
        except FormatError:
            raise StorageError(f"ssh-agent at {self._path} answered with a signature that cannot be read") from None
        return signature

    def _exchange(self, request: bytes, wanted: int, seconds: float) -> bytes:
        """The answer to one request, without its type."""
        end = time.monotonic() + seconds
        with disk_errors(f"talk to ssh-agent at {self._path}"), socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(seconds)
            connection.connect(self._path)
            connection.sendall(sshsig.string(request))
            size = int.from_bytes(_receive(connection, 4, end), "big")
            if not 1 <= size <= _MAX_ANSWER:
                raise StorageError(f"ssh-agent at {self._path} answered with {size} bytes")
            answer = _receive(connection, size, end)
        if answer[0] in _FAILURE:
            raise StorageError(
                f"ssh-agent at {self._path} refused", hint="Is the key still in it (ssh-add -l), and not locked?"
            )
        if answer[0] != wanted:
            raise StorageError(f"ssh-agent at {self._path} answered with type {answer[0]} instead of {wanted}")
        return answer[1:]


def _receive(connection: socket.socket, size: int, end: float) -> bytes:
    """So many bytes, before the moment ``end`` of the monotonic clock: a byte now and then is not enough."""
    out = bytearray()
    while len(out) < size:
        left = end - time.monotonic()
        if left <= 0:
            raise TimeoutError("it takes too long")
        connection.settimeout(left)
        piece = connection.recv(size - len(out))
        if not piece:
            raise ConnectionError("it hung up")
        out += piece
    return bytes(out)


def _identities(answer: bytes) -> Iterator[tuple[bytes, str]]:
    count = int.from_bytes(answer[:4], "big")
    if len(answer) < 4 or count > _MAX_KEYS:
        raise FormatError("bad-signature", "not a list of keys")
    fields = sshsig.strings(answer[4:], 2 * count)
    for public, comment in zip(fields[::2], fields[1::2], strict=True):
        yield public, comment.decode("utf-8", "replace")


def _held(public: bytes, agent: Agent | None) -> Signer:
    """The signer for a key that the agent must have."""
    _check_kind(public, sshsig.kind(public))
    if agent is None or public not in (key for key, _ in agent.identities()):
        raise NotFound(
            f"the private half of {sshsig.fingerprint(public)} is not here",
            hint="Let ssh-agent hold it (ssh-add), and look that SSH_AUTH_SOCK is set.",
        )
    return AgentSigner(agent, public)
