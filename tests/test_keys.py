"""The user's key: files by ssh-keygen, a real ssh-agent, agents that lie, and files that others must not read."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding
from support import git_text
from test_sshsig import KINDS, MESSAGE, accepted_by_keygen, keygen, make_key, private, public

from gitjournal import keys, sshsig
from gitjournal.errors import AlreadyExists, NotFound, StorageError, UsageError
from gitjournal.keys import Agent, AgentSigner, FileSigner, Signer, find, generate, load
from gitjournal.sshsig import Checked, check, string

PASSPHRASE = "pass \u00e9 word"


def never() -> str:
    raise AssertionError("asked for a passphrase")


class Asked:
    """Gives a passphrase, and counts."""

    def __init__(self, answer: str = PASSPHRASE) -> None:
        self.answer, self.times = answer, 0

    def __call__(self) -> str:
        self.times += 1
        return self.answer


def works(signer: Signer, path: Path, tmp_path: Path) -> None:
    """The signer has the key of the file, and signs so that OpenSSH says so too."""
    beside = path.with_name(path.name + ".pub")
    assert signer.public == public(path) and signer.fingerprint == keygen("-l", "-f", beside).decode().split()[1]
    assert signer.line == " ".join(beside.read_text().split()[:2])
    for namespace in ("git", "gitjournal"):
        made = signer.sign(MESSAGE, namespace)
        assert check(made, MESSAGE, namespace) == Checked(signer.public)
        assert accepted_by_keygen(made, MESSAGE, namespace, tmp_path)
    assert signer.fingerprint in repr(signer)


# --- key files -------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_a_key_file(kind: str, tmp_path: Path) -> None:
    path = make_key(tmp_path / "key", kind)
    signer = load(path, never)
    assert isinstance(signer, FileSigner)
    works(signer, path, tmp_path)


@pytest.mark.parametrize("cipher", ["aes256-ctr", "aes256-cbc", "aes256-gcm@openssh.com"])
@pytest.mark.parametrize("kind", ["ed25519", "ecdsa-256", "rsa-2048"])
def test_an_encrypted_key_file_asks_once(kind: str, cipher: str, tmp_path: Path) -> None:
    pytest.importorskip("bcrypt")
    path = make_key(tmp_path / "key", kind, "-Z", cipher, "-a", "1", passphrase=PASSPHRASE)
    asked = Asked()
    works(load(path, asked), path, tmp_path)
    assert asked.times == 1
    for wrong in ("", "wrong"):
        asked = Asked(wrong)
        with pytest.raises(UsageError, match="not its passphrase, or damaged") as caught:
            load(path, asked)
        assert asked.times == 1 and PASSPHRASE not in str(caught.value)


def test_an_encrypted_key_with_nobody_to_ask(tmp_path: Path) -> None:
    pytest.importorskip("bcrypt")
    path = make_key(tmp_path / "key", "ed25519", "-a", "1", passphrase=PASSPHRASE)
    with pytest.raises(UsageError, match="nobody to ask") as caught:
        load(path)
    assert "ssh-add" in caught.value.hint


def test_an_encrypted_key_without_bcrypt_is_refused_before_anybody_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = make_key(tmp_path / "key", "ed25519", "-a", "1", passphrase=PASSPHRASE)
    monkeypatch.setitem(sys.modules, "bcrypt", None)
    with pytest.raises(UsageError, match="needs the Python package bcrypt") as caught:
        load(path, never)
    assert caught.value.code == "usage" and "ssh-add" in caught.value.hint


def test_an_unknown_cipher_is_said_to_be_one(tmp_path: Path) -> None:
    pytest.importorskip("bcrypt")
    path = make_key(tmp_path / "key", "ed25519", "-Z", "chacha20-poly1305@openssh.com", "-a", "1", passphrase="secret")
    with pytest.raises(UsageError, match="encrypted in a way that is not known"):
        load(path, Asked("secret"))


@pytest.mark.parametrize("kind", ["ecdsa-521", "rsa-1024"])
def test_kinds_that_do_not_sign(kind: str, tmp_path: Path) -> None:
    path = make_key(tmp_path / "key", kind)
    for each in (path, path.with_suffix(".pub")):
        with pytest.raises(UsageError, match="do not sign here") as caught:
            load(each, never)
        assert "Ed25519" in caught.value.hint


@pytest.mark.parametrize("form", ["PEM", "PKCS8"])
def test_other_forms_of_private_keys_are_named(form: str, tmp_path: Path) -> None:
    path = make_key(tmp_path / "key", "rsa-2048", "-m", form)
    with pytest.raises(UsageError, match="no private key in OpenSSH's own format") as caught:
        load(path, never)
    assert caught.value.hint.endswith(f"ssh-keygen -p -f {path}")
    keygen("-p", "-f", path, "-N", "", "-P", "")
    works(load(path), path, tmp_path)


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o644, 0o660, 0o601])
def test_a_private_key_that_others_can_read_is_refused(mode: int, tmp_path: Path) -> None:
    path = make_key(tmp_path / "key", "ed25519")
    path.chmod(mode)
    with pytest.raises(UsageError, match=f"open to others .mode {mode:o}") as caught:
        load(path)
    assert caught.value.hint == f"chmod 600 {path}"
    path.chmod(0o400)
    works(load(path), path, tmp_path)


def test_files_that_are_no_keys(tmp_path: Path) -> None:
    path = tmp_path / "key"
    with pytest.raises(NotFound, match="no key"):
        load(path)
    with pytest.raises(NotFound):
        load(tmp_path / "no" / "key")
    os.mkfifo(tmp_path / "pipe", 0o600)
    (tmp_path / "loop").symlink_to("loop")
    for other in (tmp_path, tmp_path / "pipe"):
        with pytest.raises((UsageError, StorageError)):
            load(other)
    with pytest.raises(StorageError, match="cannot read the key"):
        load(tmp_path / "loop")
    for content in (b"", b"\x00", b"x", b"\xff\xfe", b"ssh-ed25519", b"ssh-ed25519 AAAA", b"x" * 70_000,
                    b"-----BEGIN OPENSSH", b"-----BEGIN OPENSSH PRIVATE KEY-----"):  # fmt: skip
        path.write_bytes(content)
        path.chmod(0o600)
        with pytest.raises(UsageError):
            load(path, never)


def test_a_key_file_with_any_byte_changed_is_refused_or_the_same_key(tmp_path: Path) -> None:
    path = make_key(tmp_path / "key", "ed25519")
    good, raw = load(path).public, path.read_bytes()
    for at in range(0, len(raw), 3):
        for mask in (0x01, 0x20):
            path.write_bytes(raw[:at] + bytes([raw[at] ^ mask]) + raw[at + 1 :])
            try:
                signer = load(path, Asked("x"))
            except (UsageError, NotFound):
                continue
            # Its comment, the check numbers, what follows the end.
            assert signer.public == good and check(signer.sign(b"", "git"), b"", "git") == Checked(good)
    for end in range(0, len(raw) - 40, 7):
        path.write_bytes(raw[:end])
        with pytest.raises(UsageError):
            load(path, Asked("x"))


def test_a_public_half_of_another_key_is_refused(tmp_path: Path) -> None:
    """Somebody who can change only the .pub file, or only the outer half, must not choose the key."""
    one, two = make_key(tmp_path / "one", "ed25519"), make_key(tmp_path / "two", "ed25519")
    one.with_suffix(".pub").write_bytes(two.with_suffix(".pub").read_bytes())
    with pytest.raises(UsageError, match="is not the public half"):
        load(one.with_suffix(".pub"))
    blob, other = public(two), sshsig.public_blob(private(one))
    text = one.read_bytes().split(b"\n")
    inside = sshsig.strict_base64(b"".join(text[1:-2]).decode())
    forged = inside.replace(other, blob, 1)
    assert forged != inside
    (tmp_path / "forged").write_bytes(text[0] + b"\n" + sshsig.b64encode(forged) + b"\n" + text[-2] + b"\n")
    (tmp_path / "forged").chmod(0o600)
    with pytest.raises(UsageError, match="damaged"):
        load(tmp_path / "forged")


def test_a_public_key_file_leads_to_the_private_one_beside_it(tmp_path: Path) -> None:
    path = make_key(tmp_path / "a.b", "ed25519")
    works(load(path.with_name("a.b.pub"), never), path, tmp_path)
    lonely = tmp_path / "lonely.pub"
    path.with_name("a.b.pub").rename(lonely)
    with pytest.raises(NotFound, match="private half of SHA256:") as caught:
        load(lonely)
    assert "ssh-add" in caught.value.hint


# --- a new key ---------------------------------------------------------------------------------------


def test_a_new_key_is_one_for_openssh(tmp_path: Path) -> None:
    path = tmp_path / "new" / "folder" / "id"
    umask = os.umask(0)
    try:
        signer = generate(path, "ana@example.com, on the desk")
    finally:
        os.umask(umask)
    assert path.stat().st_mode & 0o7777 == 0o600 and path.parent.stat().st_mode & 0o7777 == 0o700
    assert path.with_name("id.pub").read_text() == f"{signer.line} ana@example.com, on the desk\n"
    assert keygen("-y", "-f", path).decode().split()[:2] == signer.line.split()
    assert sorted(each.name for each in path.parent.iterdir()) == ["id", "id.pub"]
    works(signer, path, tmp_path)
    works(load(path), path, tmp_path)
    assert signer.public != generate(tmp_path / "other").public
    assert keygen("-Y", "sign", "-n", "git", "-f", path, stdin=MESSAGE).decode() == signer.sign(MESSAGE, "git")
    assert signer.sign(MESSAGE, "git") not in repr(signer) and "PRIVATE" not in repr(vars(signer))


def test_a_new_key_writes_over_nothing(tmp_path: Path) -> None:
    path = tmp_path / "id"
    beside = tmp_path / "id.pub"
    for there, missing in ((path, beside), (beside, path)):
        there.write_text("mine")
        with pytest.raises(AlreadyExists, match="is there already"):
            generate(path)
        assert there.read_text() == "mine" and not missing.exists()
        there.unlink()
        there.symlink_to(tmp_path / "elsewhere")
        with pytest.raises(AlreadyExists):
            generate(path)
        assert not (tmp_path / "elsewhere").exists() and not missing.exists()
        there.unlink()
    assert list(tmp_path.iterdir()) == []


def test_a_new_key_that_cannot_be_written_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StorageError, match="cannot make"):
        generate(tmp_path / "file" / "id")
    for comment in ("a\nb", "\x00", "\x1b[1m"):
        with pytest.raises(UsageError, match="control character"):
            generate(tmp_path / "id", comment)

    def full(fd: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(keys.os, "fsync", full)
    with pytest.raises(StorageError, match="No space left"):
        generate(tmp_path / "id")
    assert [each.name for each in tmp_path.iterdir()] == ["file"]


# --- ssh-agent -----------------------------------------------------------------------------------------


@pytest.fixture
def short() -> Iterator[Path]:
    """A folder for sockets, whose paths must be short."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        yield Path(folder)


@pytest.fixture
def agent(short: Path) -> Iterator[Agent]:
    """A real ssh-agent without keys."""
    path = short / "agent"
    running = subprocess.Popen(["ssh-agent", "-D", "-a", path], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        while not path.exists():
            assert running.poll() is None
            time.sleep(0.005)
        yield Agent(path)
    finally:
        running.terminate()
        running.wait()


def add(agent: Agent, path: Path, *args: str) -> None:
    env = {**os.environ, "SSH_AUTH_SOCK": agent._path}
    subprocess.run(["ssh-add", "-q", *args, path], env=env, check=True, capture_output=True)


def test_an_empty_agent(agent: Agent, tmp_path: Path) -> None:
    assert agent.identities() == []
    with pytest.raises(StorageError, match="refused"):
        agent.sign(public(make_key(tmp_path / "key", "ed25519")), b"x")


@pytest.mark.parametrize("kind", KINDS)
def test_a_key_in_the_agent(agent: Agent, kind: str, tmp_path: Path) -> None:
    path = make_key(tmp_path / "key", kind)
    add(agent, path)
    assert agent.identities() == [(public(path), "a comment")]
    path.unlink()
    signer = load(path.with_name("key.pub"), never, agent)
    assert isinstance(signer, AgentSigner)
    works(signer, path, tmp_path)


def test_the_agent_opens_an_encrypted_key_that_it_has(agent: Agent, tmp_path: Path) -> None:
    path = make_key(tmp_path / "key", "ed25519")
    add(agent, path)
    keygen("-q", "-p", "-f", path, "-P", "", "-N", PASSPHRASE, "-a", "1")
    signer = load(path, never, agent)
    assert isinstance(signer, AgentSigner)
    works(signer, path, tmp_path)
    assert isinstance(load(path.with_name("key.pub"), never, agent), AgentSigner)


def test_an_encrypted_key_that_the_agent_has_not(agent: Agent, tmp_path: Path) -> None:
    pytest.importorskip("bcrypt")
    path = make_key(tmp_path / "key", "ed25519", "-a", "1", passphrase=PASSPHRASE)
    for source in (path, path.with_name("key.pub")):
        for held in (agent, Agent(tmp_path / "no-agent"), None):
            asked = Asked()
            assert isinstance(load(source, asked, held), FileSigner) and asked.times == 1


def test_a_locked_agent_and_one_that_lost_the_key(agent: Agent, tmp_path: Path) -> None:
    path = make_key(tmp_path / "key", "ed25519")
    add(agent, path)
    signer = load(path.with_name("key.pub"), never, agent)
    assert isinstance(signer, AgentSigner)
    add(agent, path, "-d")
    with pytest.raises(StorageError, match="refused") as caught:
        signer.sign(MESSAGE, "git")
    assert "ssh-add -l" in caught.value.hint


def test_no_agent_at_all(tmp_path: Path) -> None:
    path = make_key(tmp_path / "key", "ed25519")
    path.unlink()
    for other in (tmp_path / "nothing", path.with_name("key.pub"), tmp_path, "x" * 200):
        with pytest.raises(StorageError, match="cannot talk to ssh-agent"):
            load(path.with_name("key.pub"), never, Agent(other))


# --- agents that lie -----------------------------------------------------------------------------------


@contextmanager
def lying(answer: Callable[[bytes, socket.socket], None], folder: Path) -> Iterator[Agent]:
    """An agent that does with each request what ``answer`` says. Who never comes to an end is not waited for long."""
    path = folder / "lying"
    server = socket.socket(socket.AF_UNIX)
    server.bind(str(path))
    server.listen()

    def serve() -> None:
        while True:
            connection, _ = server.accept()
            with connection:
                size = int.from_bytes(connection.recv(4), "big")
                if not size:
                    return
                with suppress(OSError):
                    answer(connection.recv(size, socket.MSG_WAITALL), connection)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        patience = 0.4 if answer in (hangs, drips) else 60.0
        yield Agent(path, timeout=patience, patience=patience)
    finally:
        with socket.socket(socket.AF_UNIX) as last:
            last.connect(str(path))
            last.sendall(bytes(4))
        thread.join()
        server.close()
        path.unlink()


def says(raw: bytes) -> Callable[[bytes, socket.socket], None]:
    return lambda request, connection: connection.sendall(raw)


def hangs(request: bytes, connection: socket.socket) -> None:
    connection.recv(1)


def drips(request: bytes, connection: socket.socket) -> None:
    for byte in string(bytes(10_000)):
        connection.sendall(bytes([byte]))
        time.sleep(0.02)


def floods(request: bytes, connection: socket.socket) -> None:
    connection.sendall(b"\x7f\xff\xff\xff")
    while True:
        connection.sendall(bytes(65536))


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (says(b""), "hung up"), (says(b"\x00\x00"), "hung up"), (says(b"\x00\x00\x00\x05\x0c"), "hung up"),
        (says(bytes(4)), "answered with 0 bytes"), (says(b"\xff\xff\xff\xff"), "answered with 4294967295 bytes"),
        (floods, "answered with 2147483647 bytes"), (says(string(bytes(300_000))), "answered with 300000 bytes"),
        (says(string(b"\x05")), "refused"), (says(string(b"\x66")), "refused"),
        (says(string(b"\x06")), "type 6 instead"), (hangs, "timed out|takes too long"),
        (drips, "timed out|takes too long"),
    ],
)  # fmt: skip
def test_an_agent_that_does_not_answer_as_it_should(answer: Any, why: str, short: Path) -> None:
    with lying(answer, short) as agent:
        with pytest.raises(StorageError, match=why):
            agent.identities()
        with pytest.raises(StorageError, match=why):
            agent.sign(string(b"ssh-ed25519"), b"data")


@pytest.mark.parametrize(
    "listed",
    [
        b"", b"\x00\x00\x00", b"\x00\x00\x00\x01", b"\x00\x00\x00\x01" + string(b"k"), b"\xff\xff\xff\xff",
        b"\x00\x00\x00\x00x", b"\x00\x00\x00\x01" + string(b"k") + string(b"c") + b"x",
        b"\x00\x00\x08\x01" + bytes(8 * 2049), b"\x00\x00\x00\x01" + string(b"k") + b"\xff\xff\xff\xff",
    ],
)  # fmt: skip
def test_a_list_of_keys_that_is_none(listed: bytes, short: Path) -> None:
    with lying(says(string(b"\x0c" + listed)), short) as agent, pytest.raises(StorageError, match="cannot be read"):
        agent.identities()


def test_keys_of_an_agent_that_are_none(tmp_path: Path, short: Path) -> None:
    listed = b"\x00\x00\x00\x02" + string(b"") + string(b"\xff\x1b") + string(string(b"ssh-ed25519")) + string(b"")
    with lying(says(string(b"\x0c" + listed)), short) as agent:
        assert agent.identities() == [(b"", "\ufffd\x1b"), (string(b"ssh-ed25519"), "")]
        with pytest.raises(NotFound):
            find(None, tmp_path, never, agent)


def test_a_wrong_signature_of_an_agent_is_noticed(tmp_path: Path, short: Path) -> None:
    for kind in ("ed25519", "rsa-2048"):
        path = make_key(tmp_path / kind, kind)
        key = private(path)
        data = sshsig.signed_bytes("git", "sha512", MESSAGE)
        right = sshsig.raw_sign(key, data)
        wrong = [b"", bytes(8), right[:-1], right + b"\x00", string(b"ssh-rsa") + string(bytes(256)),
                 sshsig.raw_sign(key, data + b"x"), string(b"x") + string(b"y")]  # fmt: skip
        if kind.startswith("rsa"):
            wrong.append(string(b"ssh-rsa") + string(key.sign(data, padding.PKCS1v15(), hashes.SHA1())))
        for signature in wrong:
            said = string(b"\x0e" + string(signature))
            with lying(says(said), short) as agent, pytest.raises(StorageError, match="wrong signature"):
                AgentSigner(agent, public(path)).sign(MESSAGE, "git")
        with lying(says(string(b"\x0e" + right)), short) as agent, pytest.raises(StorageError, match="cannot be read"):
            AgentSigner(agent, public(path)).sign(MESSAGE, "git")


# --- finding -------------------------------------------------------------------------------------------


def test_the_order_of_the_usual_keys(agent: Agent, tmp_path: Path) -> None:
    ssh = tmp_path / "home" / ".ssh"
    ssh.mkdir(parents=True)
    for kind in ("ecdsa-521", "rsa-2048", "ed25519"):
        add(agent, make_key(tmp_path / kind, kind))
    with pytest.raises(NotFound, match="no key to sign with") as caught:
        find(None, tmp_path / "home", never)
    assert "ssh-keygen" in caught.value.hint
    # Of the agent's keys, the first one that signs here.
    assert find(None, tmp_path / "home", never, agent).public == public(tmp_path / "rsa-2048")
    for name, kind in (("id_rsa", "rsa-2048"), ("id_ecdsa", "ecdsa-256"), ("id_ed25519", "ed25519")):
        path = make_key(ssh / name, kind)
        assert find(None, tmp_path / "home", never, agent).public == public(path)
        assert find("", tmp_path / "home", never).public == public(path)
    # What is there is taken or refused; the next one would be a surprise.
    (ssh / "id_ed25519").chmod(0o644)
    with pytest.raises(UsageError, match="id_ed25519"):
        find(None, tmp_path / "home", never, agent)
    with pytest.raises(StorageError):
        find(None, tmp_path / "nothing", never, Agent(tmp_path / "no-agent"))


def test_what_git_names(agent: Agent, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = make_key(tmp_path / "key", "ed25519")
    other = make_key(tmp_path / "other", "ecdsa-256")
    monkeypatch.chdir(tmp_path)
    for text in (str(path), f"{path}.pub", "~/key", "~/key.pub", "key"):
        assert find(text, tmp_path, never).public == public(path)
    line = other.with_name("other.pub").read_text().strip()
    for text in (f"key::{line}", f"key::{' '.join(line.split()[:2])}"):
        with pytest.raises(NotFound, match="private half"):
            find(text, tmp_path, never, agent)
    add(agent, other)
    add(agent, path)
    assert find(f"key::{line}", tmp_path, never, agent).public == public(other)
    assert find(path.with_name("key.pub").read_text(), tmp_path, never, agent).public == public(path)
    for wrong in ("key::", "key::x", "ssh-ed25519", "ssh-ed25519 AAAA"):
        with pytest.raises(UsageError, match="not a public key"):
            find(wrong, tmp_path, never, agent)
    with pytest.raises(NotFound):
        find("~/nothing", tmp_path, never, agent)


def test_it_is_the_key_that_git_takes(repo: Path, tmp_path: Path) -> None:
    path = make_key(tmp_path / "key", "ed25519")
    tree = git_text("mktree", cwd=repo)
    person = {f"GIT_{who}_{what}": "a@b" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    for named in (path, path.with_name("key.pub")):
        oid = git_text(
            "-c", "gpg.format=ssh", "-c", f"user.signingkey={named}", "commit-tree", "-S", "-m", "x", tree,
            cwd=repo, env=person,
        )  # fmt: skip
        raw = git_text("cat-file", "commit", oid, cwd=repo) + "\n"
        head, _, rest = raw.partition("gpgsig ")
        block, _, message = rest.partition("\n\n")
        expected = find(str(named), tmp_path, never).sign(f"{head}\n{message}".encode(), "git")
        assert block.replace("\n ", "\n") == expected.rstrip("\n")
