"""Signed journals for the tests of witnesses, and what somebody can do to them."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

import gitjournal
from gitjournal import cosign, proof
from gitjournal.event import Event
from gitjournal.journal import Journal
from gitjournal.keys import FileSigner
from gitjournal.refs import Name
from gitjournal.signers import AllowedSigners
from gitjournal.witness import Answer, Witness, newest_seal

S = Name("s")
LOG, OTHER_LOG, WITNESS, OTHER_WITNESS = (FileSigner(Ed25519PrivateKey.generate()) for _ in range(4))


def note(n: int, text: str = "line") -> tuple[str, dict[str, Any], str]:
    return "note", {"text": f"{text} {n}"}, "host"


def grown(journal: Journal, count: int, text: str = "line", *, signer: FileSigner = LOG, name: str = "s") -> Event:
    """Append ``count`` events and a signed seal, which is returned."""
    with journal.session(name, create=True, durability="os", signer=signer, sign="seal") as session:
        session.append_many([note(n, text) for n in range(count)])
        done = session.seal()
    return journal.event(name, done.seq)


def twins(folder: Path, texts: tuple[str, str] = ("mine", "yours")) -> tuple[Journal, Journal]:
    """Two journals with the same session, which part after the first seal (it is on 5 events)."""
    import shutil

    first = gitjournal.init(folder / "first")
    grown(first, 4)
    shutil.copytree(folder / "first", folder / "second")
    second = gitjournal.open(folder / "second")
    for journal, text in zip((first, second), texts, strict=True):
        grown(journal, 4, text)
    return first, second


def allowed(*signers: FileSigner, options: str = "") -> AllowedSigners:
    return AllowedSigners.parse("".join(allowed_line(one, options) for one in signers))


def allowed_line(signer: FileSigner, options: str = "", who: str = "who@example.com") -> str:
    return " ".join(filter(None, (who, options, signer.line))) + "\n"


def witness(
    state: Path,
    signer: FileSigner = WITNESS,
    signers: AllowedSigners | None = None,
    clock: Callable[[], float] = time.time,
) -> Witness:
    return Witness(state, signer, allowed(LOG) if signers is None else signers, clock)


def path_between(journal: Journal, first: Event, second: Event) -> list[bytes]:
    """The consistency proof between two seals."""
    import base64
    import json

    return [base64.b64decode(one) for one in json.loads(proof.consistency(journal, S, first.seq, second.seq))["path"]]


def cosigned(journal: Journal, signer: FileSigner = WITNESS, when: int = 1_800_000_000) -> cosign.Cosignature:
    """A cosignature of the newest seal of s, without asking anybody."""
    data = newest_seal(journal, S).stored_data
    return cosign.make(cosign.parse_checkpoint(data["checkpoint"]), signer, when)


def error_of(answer: Answer) -> tuple[int, str]:
    """Status and code of a refusal."""
    import json

    return answer.status, json.loads(answer.body)["error"]
