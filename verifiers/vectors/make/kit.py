"""Events, lines and exports, as an honest writer or a forger makes them (docs/format.md sections 2 to 4).

Nothing here is the library's: the vectors would otherwise have its faults. Nothing here refuses anything either.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any

TS = "2026-01-02T03:04:05.678Z"
#: A fixed salt; real ones are random.
SALT = "AAECAwQFBgcICQoLDA0ODw"


class Raw(bytes):
    """Bytes that stand in a JSON value just as they are."""


def canon(value: Any) -> bytes:
    """RFC 8785 for everything but fractions, which are given as `Raw`."""
    if isinstance(value, Raw):
        return bytes(value)
    if isinstance(value, Mapping):
        names = sorted(value, key=lambda name: name.encode("utf-16-be"))
        return b"{%s}" % b",".join(canon(name) + b":" + canon(value[name]) for name in names)
    if isinstance(value, list | tuple):
        return b"[%s]" % b",".join(map(canon, value))
    return json.dumps(value, ensure_ascii=False).encode()


def es6(number: float) -> bytes:
    """A double as ECMAScript prints it; Python's repr has the same digits in another form."""
    sign, digits, exponent = ("-" if number < 0 else ""), "", 0
    mantissa, _, power = repr(abs(number)).partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = (whole + fraction).lstrip("0")
    exponent = len(whole) + int(power or 0) - (len(whole + fraction) - len(digits))
    digits = digits.rstrip("0") or "0"
    if 0 < exponent <= 21:
        padded = digits.ljust(exponent, "0")
        text = padded[:exponent] + ("." + padded[exponent:] if len(padded) > exponent else "")
    elif -6 < exponent <= 0:
        text = "0." + "0" * -exponent + digits
    else:
        text = digits[0] + ("." + digits[1:] if len(digits) > 1 else "") + f"e{exponent - 1:+d}"
    return (sign + text).encode() if number else b"0"


def hash_of(members: Mapping[str, Any]) -> str:
    """The event hash (section 3)."""
    body = {name: members[name] for name in ("data", "files", "salt") if name in members}
    header = {name: members[name] for name in members if name not in body}
    if "data" in body:
        header["data_sha256"] = sha256(canon(body)).hexdigest()
    return sha256(canon(header)).hexdigest()


@dataclass(frozen=True)
class Event:
    """One event: its members, the bytes that are stored, and the content of its side files."""

    members: Mapping[str, Any]
    raw: bytes
    files: tuple[bytes, ...] = ()

    @classmethod
    def of(cls, members: Mapping[str, Any], files: Sequence[bytes] = ()) -> Event:
        """The event with these members; one that is `...` is left out."""
        kept = {name: value for name, value in members.items() if value is not ...}
        return cls(kept, canon(kept), tuple(files))

    @property
    def hash(self) -> str:
        return hash_of(self.members)

    @property
    def seq(self) -> int:
        return int(self.members["seq"])

    def change(self, **changes: Any) -> Event:
        """The same event with other members; whoever comes after still names the old hash."""
        return Event.of({**self.members, **changes}, self.files)

    def withhold(self) -> Event:
        """The header in the place of the event."""
        members = dict(self.members)
        body = {name: members.pop(name) for name in ("data", "files", "salt") if name in members}
        return Event.of({**members, "data_sha256": sha256(canon(body)).hexdigest()})

    def as_bytes(self, raw: bytes) -> Event:
        """The same event, stored as other bytes."""
        return replace(self, raw=raw)


def side_file(content: bytes, **changes: Any) -> dict[str, Any]:
    """The description of a side file; a change of `...` removes a member."""
    entry = {"sha256": sha256(content).hexdigest(), "size": len(content), "media_type": "text/plain", **changes}
    return {name: value for name, value in entry.items() if value is not ...}


def first(**changes: Any) -> Event:
    """A `session.start`, the shortest good line there is."""
    members = {
        "v": 1,
        "session": "s",
        "seq": 1,
        "prev": None,
        "epoch": 1,
        "ts": TS,
        "type": "session.start",
        "actor": "host",
        "data": {},
    }
    return Event.of({**members, **changes})


class Line:
    """A growing line of events; each one names the hash of the one before."""

    def __init__(self, session: str = "s", *, start: bool = True) -> None:
        self.session = session
        self.branch = "main"
        self.epoch = 1
        self.events: list[Event] = []
        if start:
            self.add("session.start", {}, actor="host")

    def copy(self) -> Line:
        """Another line with the same events."""
        twin = Line(self.session, start=False)
        twin.branch, twin.epoch, twin.events = self.branch, self.epoch, list(self.events)
        return twin

    def __getitem__(self, seq: int) -> Event:
        """The event at a place, from 1."""
        return self.events[seq - 1]

    @property
    def seq(self) -> int:
        """How many events there are."""
        return len(self.events)

    @property
    def head(self) -> str | None:
        """The event hash of the last one."""
        return self.events[-1].hash if self.events else None

    def add(self, type_: str, data: Any, *, files: Sequence[bytes] = (), **changes: Any) -> Event:
        """Append an event; ``changes`` replace members, `...` removes one."""
        members: dict[str, Any] = {
            "v": 1,
            "session": self.session,
            "seq": self.seq + 1,
            "prev": self.head,
            "epoch": self.epoch,
            "ts": f"2026-01-02T03:{4 + (self.seq // 60) % 50:02d}:{self.seq % 60:02d}.250Z",
            "type": type_,
            "actor": "user",
            "data": data,
            "salt": SALT,
        }
        if files:
            members["files"] = [side_file(content) for content in files]
        self.events.append(Event.of({**members, **changes}, files))
        return self.events[-1]

    def say(self, text: str, **changes: Any) -> Event:
        """Append a message."""
        return self.add("message", {"role": "user", "parts": [{"type": "text", "content": text}]}, **changes)

    def fork_point(self, seq: int, **changes: Any) -> dict[str, Any]:
        """What `from` must say of an event of this line."""
        return {"branch": self.branch, "seq": seq, "hash": self[seq].hash, **changes}

    def declare(self, name: str, at: int | None = None, **changes: Any) -> Event:
        """Append `session.branch`: the branch begins after event ``at``, by default the last one."""
        made = self.add("session.branch", {"branch": name, "from": self.fork_point(at or self.seq)}, **changes)
        self.branch = name
        return made

    def fork(self, session: str, **changes: Any) -> Event:
        """Append `session.fork`: a new session goes on from here."""
        source = self.fork_point(self.seq, session=self.session)
        self.session, self.branch = session, "main"
        return self.add("session.fork", {"from": source}, **changes)

    def replaced(self, seq: int, event: Event) -> list[Event]:
        """The events with another one at ``seq``, nothing after it changed."""
        return [*self.events[: seq - 1], event, *self.events[seq:]]


def talk(count: int, session: str = "s", *, files: Sequence[int] = ()) -> Line:
    """A line of ``count`` events; those in ``files`` have a side file each."""
    line = Line(session)
    for seq in range(2, count + 1):
        if seq in files:
            content = b"side file of %d\n" % seq
            parts = [{"type": "text", "content": {"$gj:file": 1}}]
            line.add("message", {"role": "user", "parts": parts}, files=[content])
        else:
            line.say(f"line {seq} \u00e9\U0001f600")
    return line


def relink(events: Sequence[Event], start: int) -> list[Event]:
    """Number and link the events from place ``start`` on anew: a forger who rewrites all the rest."""
    out = list(events[: start - 1])
    for event in events[start - 1 :]:
        out.append(event.change(seq=len(out) + 1, prev=out[-1].hash if out else None))
    return out


def export(events: Sequence[Event]) -> bytes:
    """One event a line (section 11)."""
    return b"".join(event.raw + b"\n" for event in events)


def side_files(events: Sequence[Event]) -> dict[str, bytes]:
    """The side files of an export by name."""
    return {f"{n}.{k}": data for n, event in enumerate(events, 1) for k, data in enumerate(event.files, 1)}


# --- Merkle trees (RFC 9162 section 2.1) ---------------------------------------------------------


def _split(count: int) -> int:
    """The largest power of two below ``count``."""
    return 1 << ((count - 1).bit_length() - 1)


def root(leaves: Sequence[bytes]) -> bytes:
    """Section 2.1.1."""
    if len(leaves) == 1:
        return sha256(b"\x00" + leaves[0]).digest()
    at = _split(len(leaves))
    return sha256(b"\x01" + root(leaves[:at]) + root(leaves[at:])).digest()


def inclusion(leaves: Sequence[bytes], index: int) -> list[bytes]:
    """Section 2.1.3.1."""
    if len(leaves) == 1:
        return []
    at = _split(len(leaves))
    if index < at:
        return [*inclusion(leaves[:at], index), root(leaves[at:])]
    return [*inclusion(leaves[at:], index - at), root(leaves[:at])]


def consistency(leaves: Sequence[bytes], size: int, *, whole: bool = True) -> list[bytes]:
    """Section 2.1.4.1: that the first ``size`` leaves are the beginning of all."""
    if size == len(leaves):
        return [] if whole else [root(leaves)]
    at = _split(len(leaves))
    if size <= at:
        return [*consistency(leaves[:at], size, whole=whole), root(leaves[at:])]
    return [*consistency(leaves[at:], size - at, whole=False), root(leaves[:at])]
