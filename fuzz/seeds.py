"""What each target begins with: the vectors that are of its kind, and what was found before.

    seeds.py FOLDER

writes what the target of `verifiers/rust/fuzz` begins with.
"""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from hashlib import sha1
from itertools import islice
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
VECTORS = ROOT / "verifiers" / "vectors"
#: Inputs that something was wrong with, in a folder for each target.
FOUND = Path(__file__).with_name("found")
# What verifiers/ has is no package.
sys.path.append(str(ROOT / "verifiers"))

from changes import git_pack  # noqa: E402
from vectors.make.cases_seals import ALICE, rsa  # noqa: E402
from vectors.make.disk import read_repo  # noqa: E402
from vectors.make.sshsig import ecdsa_key  # noqa: E402

_LARGEST = 8000


def seeds(name: str) -> list[bytes]:
    """The seeds of a target, each one once, in the same order in every run."""
    made = _SEEDS[name]() if name in _SEEDS else iter(())
    return list(dict.fromkeys([b"", *found(name), *made]))


def found(name: str) -> list[bytes]:
    """What was found before."""
    return [path.read_bytes() for path in sorted((FOUND / name).glob("*"))]


def _files(pattern: str) -> Iterator[bytes]:
    return (
        path.read_bytes() for path in sorted(VECTORS.glob(pattern)) if path.is_file() and path.stat().st_size < _LARGEST
    )


def _lines() -> Iterator[bytes]:
    for raw in _files("*/*.jsonl"):
        yield from raw.split(b"\n")[:3]


def _secrets() -> Iterator[bytes]:
    """Records with what looks like secrets; put together here, so that no file has one."""
    token = "ghp_" + "aB3dE5" * 6
    key = "-----BEGIN RSA PRIVATE " + "KEY-----\n" + "MIIEowIBAAKCAQEA" * 4 + "\n-----END RSA PRIVATE " + "KEY-----"
    for text in (
        f"export GITHUB_TOKEN={token}",
        f"password: Wq9!{token[5:20]}",
        key,
        f"https://ada:{token[8:28]}@git.acme.dev/",
    ):
        yield text.encode()
        yield json.dumps({"id": "a", "output": f"{text}\n", "token": [token, 1]}).encode()
        yield json.dumps({"arguments": json.dumps({"cmd": json.dumps({"c": text})})}).encode()
    yield ('{"t":"' + "".join(f"\\u{ord(one):04x}" for one in token) + '"}').encode()


def _armours() -> Iterator[bytes]:
    for key in (ALICE, rsa(), ecdsa_key("alice", "nistp256"), ecdsa_key("alice", "nistp384")):
        yield key.sign(b"message", namespace="git").encode()
    for line in _files("seals/*.jsonl"):
        with suppress(ValueError, LookupError, TypeError):
            yield json.loads(line.split(b"\n")[-2])["data"]["signatures"][0]["sshsig"].encode("utf-8", "replace")


def _cosignatures() -> Iterator[bytes]:
    checkpoint = f"gitjournal/s/main\n4\n{base64.b64encode(bytes(32)).decode()}\n"
    for armour in islice(_armours(), 3):
        members = {"checkpoint": checkpoint, "key": f"SHA256:{'A' * 43}", "sshsig": armour.decode(), "time": 1}
        yield json.dumps(members, separators=(",", ":")).encode() + b"\n"
    yield b'{"hash":"%s","name":"s/main","seq":4}\n' % (b"0" * 64)


def _objects(kind: str) -> Iterator[bytes]:
    for raw in islice(_files("git/*.repo.json"), 0, None, 6):
        listed: list[dict[str, Any]] = json.loads(raw)["objects"]
        for one in listed:
            if one["type"] == kind:
                yield base64.b64decode(one["content_b64"]) if "content_b64" in one else one["content"].encode()


def _packs() -> Iterator[bytes]:
    """The length of the pack, and two bytes, in two bytes; a pack with deltas; its index."""
    for name in ("git/good.repo.json", "refs/a-session-and-its-fork.repo.json"):
        listed = read_repo(VECTORS / name, VECTORS)["objects"]
        pack, index = git_pack({name: (header.split(" ")[0], data) for (_, name), (header, data) in listed.items()})
        yield (len(pack) + 2).to_bytes(2, "big") + pack + index


#: A few records of other programs: Copilot CLI, Gemini CLI (lines and a document), Pi, opencode, the course, openboa.
_OTHERS = (
    b'{"type":"session.start","data":{"sessionId":"s"},"id":"a","timestamp":"2026-01-01T00:00:00Z","parentId":null}\n'
    b'{"type":"assistant.message","data":{"content":"x","toolRequests":[{"toolCallId":"c","name":"n"}]},"id":"b",'
    b'"timestamp":"2026-01-01T00:00:00Z","parentId":"a"}\n{"type":"session.shutdown","data":{"modelMetrics":{"m":{"usage":'
    b'{"inputTokens":5}}}},"id":"c","timestamp":"2026-01-01T00:00:00Z","parentId":"b"}\n',
    b'{"sessionId":"s","projectHash":"h"}\n{"id":"u","type":"user","content":[{"text":"x"}]}\n{"id":"g","type":"gemini",'
    b'"content":"","toolCalls":[{"id":"c","name":"n","args":{},"status":"success","result":[{"functionResponse":{"id":"c",'
    b'"response":{"output":"x"}}}]}]}\n{"$rewindTo":"g"}\n{"$set":{"messages":[{"id":"u","type":"user","content":"y"}]}}\n',
    b'{"sessionId":"s","projectHash":"h","messages":[{"id":"u","type":"user","content":"x"}],"summary":"y"}',
    b'{"type":"session","version":3,"id":"s","timestamp":"2026-01-01T00:00:00Z","cwd":"/"}\n{"type":"message","id":"a",'
    b'"parentId":null,"message":{"role":"user","content":"x"}}\n{"type":"message","id":"b","parentId":null,"message":'
    b'{"role":"user","content":"y"}}\n{"type":"compaction","id":"c","parentId":"b","summary":"z","firstKeptEntryId":"b"}\n',
    b'{"info":{"id":"ses_1","directory":"/"},"messages":[{"info":{"id":"m","role":"assistant"},"parts":[{"type":"tool",'
    b'"tool":"n","callID":"c","state":{"status":"completed","output":"x"}},{"type":"step-finish","tokens":{"input":1}}]}]}',
    b'{"seq":1,"typ":"wiadomosc","rola":"user","tresc":"x"}\n{"seq":2,"typ":"kompakcja","do_seq":1,"streszczenie":"y"}\n',
    b'{"kind":"session.event.appended","sessionId":"s","event":{"id":"e","type":"agent.tool_use","toolName":"n",'
    b'"requestId":"r","input":{},"output":null,"permissionPolicy":"always_ask"}}\n',
)


def _transcripts() -> Iterator[bytes]:
    yield from _OTHERS
    lines = (ROOT / "gitjournal" / "demo" / "session.jsonl").read_bytes().splitlines(keepends=True)
    yield from (b"".join(lines[at : at + 4]) for at in range(0, len(lines), 4))


def _requests() -> Iterator[bytes]:
    for raw in islice(_files("seals/*.jsonl"), 0, None, 20):
        seal = raw.split(b"\n")[-2].decode("utf-8", "replace")
        yield json.dumps({"old_size": 1, "proof": [base64.b64encode(bytes(32)).decode()], "seal": seal}).encode()


_SEEDS: dict[str, Callable[[], Iterator[bytes]]] = {
    "canonical_json": _lines,
    "foreign_json": _lines,
    "redaction": _secrets,
    "event": _lines,
    "record_lines": lambda: _files("lines/*.jsonl"),
    "tail_file": lambda: _files("lines/*.jsonl"),
    "signature": _armours,
    "allowed_signers": lambda: _files("seals/*.signers"),
    "cosignatures": _cosignatures,
    "witness_request": _requests,
    "imported_file": _transcripts,
    "proof_file": lambda: _files("proofs/*.json"),
    "merkle_path": lambda: iter([bytes(range(130)), b"\x04\x02" + bytes(64)]),
    "git_tree": lambda: _objects("tree"),
    "git_commit": lambda: _objects("commit"),
    "git_pack": _packs,
    "git_delta": lambda: iter([b"\x05base\x05\x09\x90\x04\x05added", b"\x02b\x01\x01\x91\x00\x01"]),
    "git_loose": lambda: iter([bytes.fromhex("789c4bcac94f5230e42a4f2d01001519034f")]),
    "ref_name": lambda: iter([b"refs/heads/s/main", b"refs/heads/%2Ea/a%20b", b"refs/remotes/o/s/main"]),
}

#: By the first byte of an input of the Rust target: which of the targets here has the same seeds.
_RUST = {
    b"e": "event",
    b"x": "tail_file",
    b"p": "proof_file",
    b"s": "signature",
    b"k": "allowed_signers",
    b"c": "git_commit",
    b"t": "git_tree",
    b"g": "git_pack",
}


def main() -> None:
    """Write the seeds of the Rust target."""
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for raw in [*(kind + raw for kind, name in _RUST.items() for raw in seeds(name)), *found("rust")]:
        (folder / sha1(raw).hexdigest()).write_bytes(raw)


if __name__ == "__main__":
    main()
