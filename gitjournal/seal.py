"""Seals: a statement on all events before it, that others can sign (docs/format.md section 8).

Floor 0, pure.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from typing import Any

from gitjournal import refs
from gitjournal.event import Event
from gitjournal.line import Line
from gitjournal.merkle import Frontier
from gitjournal.refs import Name

#: SSHSIG namespace of the signatures over a checkpoint.
NAMESPACE = "gitjournal"

_ORIGIN = "gitjournal/"
_ROOT = re.compile("[0-9a-f]{64}")
_MEMBERS = {"size", "root", "checkpoint", "signatures"}


def checkpoint(name: Name, size: int, root: bytes) -> str:
    """The C2SP checkpoint (tlog-checkpoint) of the first ``size`` events of a branch."""
    return f"{_ORIGIN}{name.path}\n{size}\n{base64.b64encode(root).decode()}\n"


def statement(name: Name, size: int, root: bytes, signatures: list[dict[str, str]]) -> dict[str, Any]:
    """The ``data`` of a ``session.seal``."""
    return {"size": size, "root": root.hex(), "checkpoint": checkpoint(name, size, root), "signatures": signatures}


def form_fault(data: Mapping[str, Any], seq: int) -> str:
    """What is wrong with a seal's own members; empty when nothing is."""
    if data.keys() != _MEMBERS:
        return f"a seal has the members {', '.join(sorted(_MEMBERS))}"
    if type(data["size"]) is not int or not 1 <= data["size"] == seq - 1:
        return f"the seal of event {seq} is not on the {seq - 1} events before it"
    if type(data["signatures"]) is not list or not all(map(_is_signature, data["signatures"])):
        return "signatures is not a list of {key, sshsig}"
    return ""


def _is_signature(value: object) -> bool:
    return type(value) is dict and value.keys() == {"key", "sshsig"} and all(type(v) is str for v in value.values())


def own_fault(event: Event) -> str:
    """What is wrong with a seal by itself, when the line that it stands on is not there; empty when nothing is."""
    data = event.stored_data
    fault = form_fault(data, event.seq)
    if fault:
        return fault
    if type(data["root"]) is not str or not _ROOT.fullmatch(data["root"]):
        return "the root is not 64 lower-case hex digits"
    text = str(data["checkpoint"])
    name = refs.parse_ref(text.partition("\n")[0], _ORIGIN)
    good = name is not None and name.session == event.session
    if name is None or not good or text != checkpoint(name, data["size"], bytes.fromhex(data["root"])):
        return "the checkpoint is not that of this session, size and root"
    return ""


class Seals:
    """Checks the seals of one line; the Merkle tree grows from one to the next."""

    def __init__(self) -> None:
        self._frontier = Frontier()

    def root(self, hashes: bytes | bytearray, size: int) -> bytes:
        """Merkle tree hash over the first ``size`` event hashes. Sizes may only grow from call to call."""
        for seq in range(self._frontier.size, size):
            self._frontier.append(bytes(hashes[32 * seq : 32 * seq + 32]))
        return self._frontier.root()

    def fault(self, event: Event, seq: int, line: Line) -> str:
        """What is wrong with the seal that stands at ``seq`` of ``line``; empty when nothing is."""
        data = event.stored_data
        fault = form_fault(data, seq)
        if fault:
            return fault
        root = self.root(line.hashes, seq - 1)
        if data["root"] != root.hex():
            return f"the root is not that of the {seq - 1} events before it"
        if data["checkpoint"] != checkpoint(Name(event.session, line.branch), seq - 1, root):
            return "the checkpoint is not that of this branch, size and root"
        return ""
