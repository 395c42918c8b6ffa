"""Packs that git takes in another way than a quick reader of packs might (docs/verification.md section 4).

In each the commit that the ref holds lies loose, and all else in one pack that is made here byte by byte.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from hashlib import sha1

from .cases_git import MAIN
from .gitkit import TYPES, Made, Repo, header, pack_index, stored, varint
from .kit import Line
from .suite import Finding, Suite

_NAME = "objects/pack/pack-" + "0" * 40
_REF_DELTA, _OFS_DELTA = 7, 6
#: What git says of an object that it cannot unpack: it depends on its version.
_EITHER = ["bad-object", "missing-object"]


def _made() -> tuple[Repo, list[Made]]:
    """Five events; the third has an empty side file, one of a byte, and a longer one."""
    line, repo = Line(), Repo()
    for number in range(2, 6):
        line.add("message", {"n": number}, files=[b"", b"x", b"y" * 100] if number == 3 else [])
    return repo, repo.write(line.events, MAIN)


def _entry(repo: Repo, name: str) -> bytes:
    kind, data = repo.objects[name]
    return header(TYPES[kind], len(data)) + stored(data)


def _delta(old: bytes, new: bytes) -> bytes:
    parts = [new[at : at + 127] for at in range(0, len(new), 127)]
    return varint(len(old)) + varint(len(new)) + b"".join(bytes([len(part)]) + part for part in parts)


def _packed(
    repo: Repo,
    change: Mapping[str, bytes],
    *,
    large: int = 0,
    first: Sequence[str] = (),
    last: tuple[str, bytes] | None = None,
    called: str = _NAME,
) -> None:
    """Move all but the head from loose objects into a pack and its index.

    ``change`` has entries that are other ones, ``first`` the ids that come first, ``large`` how many places of 64 bits
    the index has, and ``last`` an id whose entry ends with the pack, inside of its sum.
    """
    names = [*first, *(name for name in repo.objects if name not in (*first, repo.refs[MAIN], last and last[0]))]
    text = b"PACK" + struct.pack(">II", 2, len(names) + bool(last))
    places: dict[str, int] = {}
    for name in names:
        places[name] = len(text)
        text += change.get(name) or _entry(repo, name)
    ending = last[1].rjust(20, b"\0") if last else sha1(text).digest()
    text += ending
    if last:
        places[last[0]] = len(text) - len(last[1])
    repo.files[f"{called}.pack"] = text
    repo.files[f"{called}.idx"] = pack_index(places, ending, large)
    for name in places:
        repo.drop(name)


def _indexes(suite: Suite) -> None:
    repo, made = _made()
    _packed(repo, {}, large=len(repo.objects) - 2)
    suite.repo("pack-index-with-large-places", "as many places of 64 bits as there can be", repo)
    repo, made = _made()
    _packed(repo, {}, large=len(repo.objects) - 1)
    found: list[Finding] = [("missing-object", 1, made[4].root), ("missing-object", 4, made[3].commit)]
    suite.repo("pack-index-with-too-many-large-places", "one more: git takes no such index", repo, found)
    repo, made = _made()
    lie = header(TYPES["blob"], 1) + stored(b"z")
    good = repo.objects[made[1].blob]
    _packed(repo, {made[1].blob: lie}, called="objects/pack/")
    repo.objects[made[1].blob] = good
    about = "a pack is named .pack: git reads it, and does not come to the good loose event"
    suite.repo("pack-without-a-name", about, repo, [("bad-object", 2, made[1].blob)])


def _entries(suite: Suite) -> None:
    def case(name: str, about: str, entry: bytes, target: str, found: list[Finding], first: Sequence[str] = ()) -> None:
        repo, _ = _made()
        _packed(repo, {target: entry}, first=first)
        suite.repo(name, about, repo, found, either=_EITHER)

    repo, made = _made()
    one, two = made[0].blob, made[1].blob
    old, new = repo.objects[one][1], repo.objects[two][1]
    delta = _delta(old, new)
    begin, text, back = header(_OFS_DELTA, len(delta)), stored(delta), len(_entry(repo, one))
    bad: list[Finding] = [("bad-object", 2, two)]

    def at_distance(distance: bytes) -> bytes:
        return begin + distance + text

    case("pack-delta", "an event is a delta of the one before", at_distance(_distance(back)), two, [], [one, two])
    wrapped = _distance(back + (1 << 64))
    case("pack-delta-overflow", "the distance is 2^64 too large", at_distance(wrapped), two, bad, [one, two])
    ahead = _distance((1 << 64) - len(begin) - 10 - len(text))
    case("pack-delta-forward", "the distance is negative modulo 2^64", at_distance(ahead), two, bad, [two, one])
    size = len(new)
    endless = bytes([TYPES["blob"] << 4 | 0x80 | size & 15, size >> 4 & 0x7F | 0x80, *[0x80] * 4])
    about = "the size goes on in the bytes behind it, and is above 16 MiB"
    case("pack-size-without-end", about, endless + stored(new), two, [("bad-member", 2, two)])
    padded = bytes([*endless[:-1], 0])
    case("pack-size-of-six-bytes", "a size with zeros that it does not need", padded + stored(new), two, [])
    delta = _delta(old, b"")
    empty = header(_REF_DELTA, len(delta)) + bytes.fromhex(one) + stored(delta)
    found: list[Finding] = [("missing-object", 3, made[2].files[0])]
    case("pack-delta-of-nothing", "an empty side file is a delta, which is too short", empty, made[2].files[0], found)
    side = made[2].files[1]
    repo, _ = _made()
    _packed(repo, {}, last=(side, header(TYPES["blob"], 1) + stored(b"x")))
    suite.repo(
        "pack-entry-in-the-sum",
        "a side file lies in the last 20 bytes",
        repo,
        [("bad-object", 3, side)],
        either=_EITHER,
    )


def _distance(number: int) -> bytes:
    """How far before a delta its base is, as a pack says it."""
    out = [number & 0x7F]
    while number := number >> 7:
        number -= 1
        out.append(number & 0x7F | 0x80)
    return bytes(reversed(out))


def _alternates(suite: Suite) -> None:
    for name, about, text, found in (
        ("through-nothing", "a folder that is not there, and back", b"none/../../other/objects\n", True),
        ("with-nul", "what stands behind a line with a zero byte is not read", b"../none\0\n../other/objects\n", True),
        ("with-nul-behind", "a zero byte ends a path", b"../other/objects\0x\n", False),
    ):
        repo, made = _made()
        _packed(repo, {}, called=f"other/{_NAME}")
        repo.files["objects/info/alternates"] = text
        missing: list[Finding] = [("missing-object", 1, made[4].root), ("missing-object", 4, made[3].commit)]
        suite.repo(f"alternates-{name}", about, repo, missing if found else [])


def _loose(suite: Suite) -> None:
    for name, size in (("63", 1 << 63), ("64", (1 << 64) - 1)):
        repo, made = _made()
        repo.headers = {made[1].blob: f"blob {size}", made[2].files[2]: f"blob {size}"}
        about = f"headers that say {size} bytes: an event is too big, a side file another"
        suite.repo(
            f"loose-size-near-2-to-the-{name}",
            about,
            repo,
            [("bad-member", 2, made[1].blob), ("bad-object", 3, made[2].files[2])],
        )


def _places(suite: Suite) -> None:
    repo, _ = _made()
    repo.files["reftable"] = b""
    suite.repo("reftable-is-a-file", "only a folder of this name means anything", repo)
    repo, _ = _made()
    suite.repo("dot-git-is-a-link", "PATH/.git leads to the repository", repo, setup={"as": "dot-git-link"})
    for name in ("packed-refs", "shallow"):
        suite.generated(f"{name}-too-large", "256 MiB and a byte", "git", exit_=4, generate=["large_file", name])
    suite.generated("many-packs", "300 packs of one object each", "git", generate=["many_packs", 300])
    suite.generated(
        "side-file-of-a-tebibyte",
        "its size shows that it is another one",
        "jsonl",
        [("bad-file", 2)],
        generate=["sparse_side_file", 1 << 40],
    )


def add(suite: Suite) -> None:
    """All cases."""
    suite.folder = "hostile"
    for part in (_indexes, _entries, _alternates, _loose, _places):
        part(suite)
