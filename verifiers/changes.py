"""Changes of bytes, JSON texts, signatures, trees and packs: which one follows from the random numbers alone."""

from __future__ import annotations

import base64
import json
import tempfile
from collections.abc import Iterator, Mapping
from copy import deepcopy
from hashlib import sha1
from pathlib import Path
from random import Random
from typing import Any

from vectors.make.disk import bare, git, write_loose
from vectors.make.gitkit import oid
from vectors.make.kit import Raw, canon, es6

# What nests deeper is changed by its bytes alone.
_DEEP = 300
# Bytes, and values and names of members, at which rules change.
_BYTES = b' "\\{}[]:,0123456789abeEfnrtuTZ+-./=\n\r\x00\x7f\x80\xc0\xed\xf0\xff'
_PIECES = (
    *(b"\\u0000", b"\\ud800", b"\\u00e9", b"\xed\xa0\x80", b"\xef\xbb\xbf"),
    *(b"1e-7", b"-0", b"1e21", b"0.1", b"$gj:"),
)
_VALUES: tuple[Any, ...] = (
    *(None, True, 0, 1, -1, 2, 100_000_000, 99_999_999, 2**53 - 1, 2**53),
    *map(Raw, (b"1.0", b"-0", b"0.5", b"1e-7")),
    *(
        "",
        "main",
        "a/b",
        "..",
        ".a",
        "a.lock",
        "é",
        "\ud7ff\ue000",
        "\U00010000",
        "a" * 100,
        "a" * 201,
        "A" * 22,
        "0" * 64,
    ),
    *("session.start", "session.branch", "session.fork", "session.seal"),
    *("1970-01-01T00:00:00.000Z", "2026-02-29T00:00:00.000Z"),
    *([], {}, [[]], {"": 0}, {"$gj:file": 1}, {"$gj:ref": [1, "/a"]}, {"$gj:json": "1"}, {"$gj:b64": ""}),
    {"$gj:file": 1, "a": 1},
)
_NAMES = (
    *("v", "data", "data_sha256", "files", "salt", "turn", "prev", "size"),
    *("$gj:file", "toJSON", "__proto__", "\uffff", ""),
)
_MODES = (b"100644", b"40000", b"040000", b"100755", b"120000", b"160000", b"")


def some_bytes(random: Random, raw: bytes) -> bytes:
    """The bytes with one to three places changed."""
    out = bytearray(raw)
    for _ in range(random.randint(1, 3)):
        at = random.randrange(len(out) + 1)
        what = random.randrange(7)
        if what == 0:
            out[at : at + 1] = bytes([random.choice(_BYTES)])
        elif what == 1:
            out[at:at] = bytes([random.choice(_BYTES)])
        elif what == 2:
            del out[at : at + random.choice((1, 1, 2, 8, 40))]
        elif what == 3:
            out[at : at + 1] = bytes([random.randrange(256)])
        elif what == 4:
            out[at:at] = random.choice(_PIECES)
        elif what == 5:
            out[at:at] = out[at : at + random.randrange(40)]
        elif at < len(out):
            out[at] ^= 1 << random.randrange(8)
    return bytes(out)


def nodes(value: Any) -> Iterator[tuple[Any, Any]]:
    """All places in a value: a container, and a name or index in it."""
    for key, item in list(value.items() if type(value) is dict else enumerate(value)):
        yield value, key
        if type(item) in (dict, list):
            yield from nodes(item)


def _value(random: Random) -> Any:
    return deepcopy(random.choice(_VALUES))


def some_member(random: Random, value: Any) -> Any:
    """The value (an object or array) with something in it changed; it is changed in place."""
    places = list(nodes(value))
    if not places:
        return _value(random)
    holder, key = random.choice(places)
    item, what = holder[key], random.randrange(6)
    if what == 0:
        del holder[key]
    elif what == 1 and type(holder) is dict:
        holder[random.choice(_NAMES)] = _value(random)
    elif what == 2 and type(item) is str and item:
        holder[key] = some_bytes(random, item.encode("utf-8", "surrogatepass")).decode("utf-8", "replace")
    elif what == 3 and type(item) is int:
        holder[key] = item + random.choice((-1, 1, 2))
    elif what == 4:
        holder[key] = [item] if random.random() < 0.5 else {random.choice(_NAMES): item}
    else:
        holder[key] = _value(random)
    return value


def exact(value: Any) -> Any:
    """The value as `canon` wants it: fractions as they are printed, no lone surrogates."""
    if type(value) is float:
        return Raw(es6(value))
    if type(value) is str:
        return value.encode("utf-8", "replace").decode()
    if type(value) is dict:
        return {exact(name): exact(item) for name, item in value.items()}
    return [exact(item) for item in value] if type(value) is list else value


def parsed(raw: bytes) -> Any:
    """The object of a JSON text; None if it is none, or one so deep that nobody here walks it."""
    if raw.count(b"[") + raw.count(b"{") > _DEEP:
        return None
    try:
        value = json.loads(raw)
    except ValueError:
        return None
    return value if type(value) is dict else None


def some_json(random: Random, raw: bytes) -> bytes:
    """A JSON text with its bytes, or its structure, changed."""
    value = parsed(raw) if random.random() < 0.6 else None
    if value is None:
        return some_bytes(random, raw)
    for _ in range(random.randint(1, 2)):
        value = some_member(random, value) if type(value) in (dict, list) else value
    return canon(exact(value))


def some_armour(random: Random, text: str) -> str:
    """An SSH signature with its armour, or the blob in it, changed."""
    lines = text.rstrip("\n").split("\n")
    if random.random() < 0.2 or len(lines) < 3:
        return some_bytes(random, text.encode()).decode("utf-8", "replace")
    blob = base64.b64encode(some_bytes(random, base64.b64decode("".join(lines[1:-1]) + "==="))).decode()
    return "\n".join([lines[0], *(blob[at : at + 70] for at in range(0, len(blob), 70)), lines[-1], ""])


def armours(value: Any) -> list[tuple[Any, Any]]:
    """The places of all signatures in a value."""
    return [(holder, key) for holder, key in nodes(value) if key == "sshsig" and type(holder[key]) is str]


def some_entry(random: Random, tree: bytes) -> bytes:
    """A tree with an entry changed, repeated, moved or taken out; or any bytes of it."""
    entries, at = [], 0
    while (zero := tree.find(b"\x00", at)) >= 0:
        entries.append(tree[at : zero + 21])
        at = zero + 21
    what = random.randrange(5)
    if what == 0 or not entries:
        return some_bytes(random, tree)
    entry = entries.pop(random.randrange(len(entries)))
    if what == 1:
        entries.insert(random.randrange(len(entries) + 1), entry)
    elif what == 2:
        entries += [entry, entry]
    elif what == 3:
        mode, _, rest = entry.partition(b" ")
        mode = random.choice((*_MODES, some_bytes(random, mode)))
        entries.append(mode + b" " + rest)
    return b"".join(entries)


#: (kind, content) of objects by their ids. Whoever names another one stands behind it.
Objects = Mapping[str, tuple[str, bytes]]


def following(objects: Objects, name: str, data: bytes) -> dict[str, tuple[str, str, bytes]]:
    """What must be another object when the one called ``name`` has the content ``data``.

    By the old id: the new one, the kind and the content.
    """
    kind = objects[name][0]
    new = {name: (oid(kind, data), kind, data)}
    for other, (kind, content) in objects.items():
        if other == name or kind == "blob":
            continue
        changed = content
        for old, (now, _, _) in new.items():
            if kind == "tree":
                changed = changed.replace(bytes.fromhex(old), bytes.fromhex(now))
            else:
                changed = changed.replace(old.encode(), now.encode())
        if changed != content:
            new[other] = (oid(kind, changed), kind, changed)
    return new


def git_pack(objects: Objects, *options: str) -> tuple[bytes, bytes]:
    """All objects in one pack, as git makes it, with deltas; and its index. RuntimeError when git cannot read one."""
    with tempfile.TemporaryDirectory(prefix="pack-") as folder:
        path = bare(Path(folder) / "r.git")
        for name, (kind, data) in objects.items():
            write_loose(path / "objects", name, f"{kind} {len(data)}", data)
        names = "".join(f"{name}\n" for name in objects).encode()
        git("pack-objects", "-q", "--threads=1", *options, path / "pack", cwd=path, stdin=names)
        return next(path.glob("pack-*.pack")).read_bytes(), next(path.glob("pack-*.idx")).read_bytes()


def some_pack(random: Random, objects: Objects) -> tuple[bytes, bytes]:
    """The objects in a pack that is changed, or whose index is. RuntimeError as `git_pack`."""
    pack, index = git_pack(objects, *random.choice(((), ("--delta-base-offset",), ("--window=0",))))
    what = random.randrange(6)
    if what < 2:
        pack = pack[:12] + some_bytes(random, pack[12:-20]) + pack[-20:]
    elif what < 4:
        index = _some_index(random, index, len(objects))
    elif what == 4:
        pack = some_bytes(random, pack)
    if random.random() < 0.7:  # what is changed agrees with the sums at its end
        pack = pack[:-20] + sha1(pack[:-20]).digest()
        index = index[:-40] + pack[-20:]
        index += sha1(index).digest()
    return pack, index


def _some_index(random: Random, index: bytes, count: int) -> bytes:
    """An index of a pack (version 2) with one of its tables changed: how many begin so, ids, places."""
    out, places = bytearray(index), 1032 + 24 * count
    one, other = random.randrange(count), random.randrange(count)
    what = random.randrange(6)
    if what == 0:
        return some_bytes(random, index)
    if what == 1:  # how many ids begin with a byte, or a lower one
        at = 8 + 4 * random.randrange(256)
        near = max(int.from_bytes(out[at : at + 4], "big") + random.choice((-1, 1)), 0)
        out[at : at + 4] = near.to_bytes(4, "big")
    elif what == 2:  # an id twice, or two in the wrong order
        here, there = 1032 + 20 * one, 1032 + 20 * other
        first, second = index[here : here + 20], index[there : there + 20]
        out[here : here + 20] = second
        out[there : there + 20] = random.choice((first, second))
    else:
        here, there = places + 4 * one, places + 4 * other
        near = int.from_bytes(index[here : here + 4], "big") + random.choice((-1, 1, 12, -12))
        options = (index[there : there + 4], bytes(4), random.randbytes(4), max(near, 0).to_bytes(4, "big"))
        out[here : here + 4] = random.choice(options)
    return bytes(out)
