"""The git side: objects, repositories as text, packs and bundles (docs/format.md sections 5 to 7)."""

from __future__ import annotations

import base64
import json
import struct
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import sha1
from typing import Any

from .kit import Event

Change = Callable[[bytes], bytes]


def oid(kind: str, data: bytes) -> str:
    """The id that git gives to an object."""
    return sha1(b"%s %d\x00%s" % (kind.encode(), len(data), data)).hexdigest()


def entry(name: str, target: str, mode: str = "100644") -> bytes:
    """One entry of a tree."""
    return b"%s %s\x00%s" % (mode.encode(), name.encode(), bytes.fromhex(target))


def seconds(ts: str) -> int:
    """Whole Unix seconds of a `ts`."""
    return int(datetime.strptime(ts[:19], "%Y-%m-%dT%H:%M:%S").replace(tzinfo=UTC).timestamp())


def commit_text(event: Event, tree: str, parent: str | None, time: int) -> bytes:
    """The commit of an event, unsigned (section 6)."""
    says = event.members
    return (
        f"tree {tree}\n"
        + (f"parent {parent}\n" if parent else "")
        + f"author {says['actor']} <{says['actor']}@gitjournal.invalid> {time} +0000\n"
        f"committer gitjournal <gitjournal@gitjournal.invalid> {time} +0000\n\n"
        f"{says['type']} #{says['seq']}\n\nSession: {says['session']}\nEvent-Hash: sha256:{event.hash}\n"
    ).encode()


def signed_text(commit: bytes, armour: str) -> bytes:
    """A commit with a signature as its last header."""
    head, _, body = commit.partition(b"\n\n")
    return head + b"\ngpgsig " + armour.rstrip("\n").replace("\n", "\n ").encode() + b"\n\n" + body


@dataclass
class Lies:
    """How a forger changes what is derived; each by seq. Later objects follow from the changed ones.

    A change of ``leaf``, ``middle``, ``root`` is for that commit alone; ``commit`` changes the text of the commit,
    ``sign`` gives it a signature, ``like`` is an event that the commit speaks of in place of its own.
    """

    leaf: Mapping[int, Change] = field(default_factory=dict)
    middle: Mapping[int, Change] = field(default_factory=dict)
    root: Mapping[int, Change] = field(default_factory=dict)
    commit: Mapping[int, Change] = field(default_factory=dict)
    sign: Mapping[int, Callable[[bytes], str]] = field(default_factory=dict)
    like: Mapping[int, Event] = field(default_factory=dict)


@dataclass(frozen=True)
class Made:
    """The ids of what was made for one event."""

    blob: str
    files: tuple[str, ...]
    leaf: str
    middle: str
    root: str
    commit: str


def _leaf_part(seq: int, blob: str, files: Sequence[str]) -> bytes:
    named = sorted((f"{seq:08d}.{k}", name) for k, name in enumerate(files, 1))
    return b"".join(entry(*one) for one in (*named, (f"{seq:08d}.json", blob)))


def _folders(form: str, names: Mapping[int, str]) -> bytes:
    return b"".join(entry(form % number, names[number], "40000") for number in sorted(names))


def _as_is(data: bytes) -> bytes:
    return data


class Repo:
    """A bare repository that is not on a disk yet, with loose objects that may lie about their ids."""

    def __init__(self) -> None:
        self.objects: dict[str, tuple[str, bytes]] = {}
        #: Objects that are kept in another folder than `objects`.
        self.kept_in: dict[str, str] = {}
        #: What the headers of objects say in place of `<type> <size>`.
        self.headers: dict[str, str] = {}
        self.refs: dict[str, str] = {}
        self.files: dict[str, bytes] = {}
        self.links: dict[str, str] = {}
        self.pipes: list[str] = []

    def put(self, kind: str, data: bytes, under: str | None = None) -> str:
        """Add an object, perhaps under an id that is not its own; its id."""
        name = under or oid(kind, data)
        self.objects[name] = (kind, data)
        return name

    def drop(self, name: str) -> None:
        """Remove an object."""
        del self.objects[name]

    def write(self, events: Sequence[Event], ref: str | None = None, lies: Lies | None = None) -> list[Made]:
        """Write the objects of a line whose event n is the n-th of ``events``, and point ``ref`` at the last commit."""
        lies = lies or Lies()
        leaf, leaves, middles = b"", dict[int, str](), dict[int, str]()
        made: list[Made] = []
        time, parent = 0, None
        for seq, event in enumerate(events, 1):
            blob = self.put("blob", event.raw)
            files = tuple(self.put("blob", content) for content in event.files)
            leaf = (leaf if seq % 100 else b"") + _leaf_part(seq, blob, files)
            leaves[seq // 100] = oid("tree", leaf)
            this_leaf = self.put("tree", lies.leaf.get(seq, _as_is)(leaf))
            same = {n % 100: name for n, name in leaves.items() if n // 100 == seq // 10_000}
            middles[seq // 10_000] = oid("tree", _folders("%02d", same))
            changed = _folders("%02d", {**same, seq // 100 % 100: this_leaf})
            middle = self.put("tree", lies.middle.get(seq, _as_is)(changed))
            changed = _folders("%04d", {**middles, seq // 10_000: middle})
            root = self.put("tree", lies.root.get(seq, _as_is)(changed))
            time = max(time, seconds(event.members["ts"]))
            text = lies.commit.get(seq, _as_is)(commit_text(lies.like.get(seq, event), root, parent, time))
            if seq in lies.sign:
                text = signed_text(text, lies.sign[seq](text))
            parent = self.put("commit", text)
            made.append(Made(blob, files, this_leaf, middle, root, parent))
        if ref and parent:
            self.refs[ref] = parent
        return made

    def as_json(self, base: tuple[str, Repo] | None = None) -> bytes:
        """The repository as text, one object a line, without those that ``base`` (a path, a repository) has too."""
        rest: dict[str, Any] = {"refs": self.refs}
        known: Mapping[str, tuple[str, bytes]] = {}
        if base:
            odd = self.kept_in.keys() | self.headers.keys()
            known = {name: one for name, one in base[1].objects.items() if name not in odd}
            rest = {"base": base[0], "without": sorted(base[1].objects.keys() - self.objects.keys()), **rest}
        lines = [self._line(name) for name, one in self.objects.items() if known.get(name) != one]
        if self.files:
            rest["files"] = {name: _content(data) for name, data in self.files.items()}
        if self.links:
            rest["links"] = self.links
        if self.pipes:
            rest["pipes"] = self.pipes
        listed = ",\n".join(lines)
        return f'{{"objects":[\n{listed}\n],{json.dumps(rest, indent=1, ensure_ascii=False)[1:]}\n'.encode()

    def _line(self, name: str) -> str:
        kind, data = self.objects[name]
        one: dict[str, Any] = {"type": kind, **_content(data)}
        if name != oid(kind, data):
            one["id"] = name
        if name in self.headers:
            one["header"] = self.headers[name]
        if name in self.kept_in:
            one["in"] = self.kept_in[name]
        return json.dumps(one, ensure_ascii=False)


def _content(data: bytes) -> dict[str, str]:
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return {"content_b64": base64.b64encode(data).decode()}
    if any(ord(char) < 32 and char != "\n" for char in text):
        return {"content_b64": base64.b64encode(data).decode()}
    return {"content": text}


# --- packs and bundles ---------------------------------------------------------------------------

TYPES = {"commit": 1, "tree": 2, "blob": 3}


def stored(data: bytes) -> bytes:
    """A zlib stream without compression: the same bytes with every zlib."""
    parts = [data[at : at + 65535] for at in range(0, len(data), 65535)] or [b""]
    blocks = [
        struct.pack("<BHH", at == len(parts) - 1, len(part), len(part) ^ 0xFFFF) + part for at, part in enumerate(parts)
    ]
    return b"\x78\x01" + b"".join(blocks) + struct.pack(">I", zlib.adler32(data))


def header(kind: int, size: int) -> bytes:
    """What an entry of a pack begins with: its kind and the size of what is deflated."""
    out, size, low = bytearray(), size >> 4, size & 15
    first = kind << 4 | low
    while size:
        out.append(first | 0x80)
        first, size = size & 0x7F, size >> 7
    out.append(first)
    return bytes(out)


def varint(number: int) -> bytes:
    """A number in a delta."""
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def _grown(old: bytes, new: bytes) -> bytes | None:
    """The delta from a tree to one that begins with all but its last entry, if that is short."""
    same = next((n for n in (len(old), len(old) - 31, len(old) - 33) if n > 0 and new[:n] == old[:n]), 0)
    rest = new[same:]
    if not same or len(rest) > 127 or same > 0xFFFF:
        return None
    return varint(len(old)) + varint(len(new)) + b"\xb0" + struct.pack("<H", same) + bytes([len(rest)]) + rest


#: So many deltas upon each other, and no more, git makes (pack.depth).
_DEEPEST = 4095


def pack(repo: Repo) -> bytes:
    """All objects of a repository as a pack, trees as deltas to the one of the same kind before."""
    out = bytearray(b"PACK" + struct.pack(">II", 2, len(repo.objects)))
    before: list[tuple[str, bytes]] = []
    depth: dict[str, int] = {}
    for name, (kind, data) in repo.objects.items():
        delta = None
        if kind == "tree":
            bases = [(base, old) for base, old in reversed(before[-3:]) if depth[base] < _DEEPEST]
            found = ((base, _grown(old, data)) for base, old in bases)
            base, delta = next(((base, delta) for base, delta in found if delta), ("", None))
            before.append((name, data))
            depth[name] = depth[base] + 1 if delta else 0
        if delta:
            out += header(7, len(delta)) + bytes.fromhex(base) + stored(delta)
        else:
            out += header(TYPES[kind], len(data)) + stored(data)
    return bytes(out) + sha1(out).digest()


def pack_index(places: Mapping[str, int], ending: bytes, large: int = 0) -> bytes:
    """An index of version 2 with ids and where they are, the sum of their pack, and so many places of 64 bits."""
    ids = sorted(places)
    text = b"\xfftOc" + struct.pack(">I", 2)
    text += b"".join(struct.pack(">I", sum(int(name[:2], 16) <= n for name in ids)) for n in range(256))
    text += b"".join(map(bytes.fromhex, ids)) + bytes(4 * len(ids))
    text += b"".join(struct.pack(">I", places[name]) for name in ids) + bytes(8 * large) + ending
    return text + sha1(text).digest()


def bundle(repo: Repo) -> bytes:
    """The repository as a git bundle."""
    lines = "".join(f"{target} {name}\n" for name, target in sorted(repo.refs.items()))
    return b"# v2 git bundle\n" + lines.encode() + b"\n" + pack(repo)
