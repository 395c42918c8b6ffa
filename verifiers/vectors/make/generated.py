"""Inputs that are too big to keep. Each function writes one into an empty folder and returns its path."""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable
from hashlib import sha1
from pathlib import Path

from . import disk
from .cases_lines import edited
from .gitkit import Lies, Repo, entry, oid, pack, pack_index
from .kit import Event, Line, Raw, export, first, side_file, talk

MAIN = "refs/heads/s/main"


def _export(folder: Path, raw: bytes) -> Path:
    path = folder / "x.jsonl"
    path.write_bytes(raw)
    return path


def depth_bomb(folder: Path, kind: str, levels: int) -> Path:
    """An event, or a line, of very many levels."""
    texts = {
        "open": b'{"actor":"host","data":' + b"[" * levels,
        "arrays": first(data={"x": Raw(b"[" * levels + b"]" * levels)}).raw,
        "objects": first(data={"x": Raw(b'{"a":' * levels + b"1" + b"}" * levels)}).raw,
        "bare": b"[" * levels + b"]" * levels,
    }
    return _export(folder, texts[kind] + b"\n")


def _long(seq: int, size: int, prev: str | None = None) -> Event:
    line = Line()
    event = line[1] if seq == 1 else line.say("x")
    empty = event.change(data={"x": ""}, prev=prev or event.members["prev"])
    return empty.change(data={"x": "x" * (size - len(empty.raw))})


def long_event(folder: Path, size: int) -> Path:
    """A first event of so many bytes."""
    return _export(folder, _long(1, size).raw + b"\n")


def long_line(folder: Path, size: int) -> Path:
    """A line that is no JSON."""
    return _export(folder, b"x" * size + b"\n")


def many_files(folder: Path, count: int) -> Path:
    """An event with so many empty side files."""
    event = Event.of(first(files=[side_file(b"")] * count).members)
    path = _export(folder, event.raw + b"\n")
    beside = folder / "x.jsonl.files"
    beside.mkdir()
    for number in range(1, count + 1):
        (beside / f"1.{number}").write_bytes(b"")
    return path


def big_side_file(folder: Path, size: int) -> Path:
    """An export with a side file of so many bytes."""
    line = Line()
    line.add("message", {"n": 2}, files=[bytes(size)])
    path = _export(folder, export(line.events))
    beside = folder / "x.jsonl.files"
    beside.mkdir()
    (beside / "2.1").write_bytes(bytes(size))
    return path


def sparse_side_file(folder: Path, size: int) -> Path:
    """An export whose side file has so many bytes, which take no room, in place of 4."""
    path = big_side_file(folder, 4)
    os.truncate(folder / "x.jsonl.files" / "2.1", size)
    return path


def long_proof(folder: Path, size: int) -> Path:
    """A proof file of so many bytes."""
    path = folder / "x.json"
    path.write_bytes(b'{"event":"' + b"x" * (size - 13) + b'"}\n')
    return path


def listed_proof(folder: Path, size: int) -> Path:
    """A proof file of so many bytes that is right JSON: an object with a list of empty lists."""
    path = folder / "x.json"
    count = (size - 13) // 3
    path.write_bytes(b'{"path":[' + b"[]," * count + b'""]}\n')
    return path


def deep_proof(folder: Path, levels: int) -> Path:
    """A proof file of very many levels."""
    path = folder / "x.json"
    path.write_bytes(b"[" * levels + b"]" * levels + b"\n")
    return path


# --- repositories --------------------------------------------------------------------------------


def _base(lies: Lies | None = None, events: list[Event] | None = None) -> Repo:
    repo = Repo()
    repo.write(events or talk(5, files=(3,)).events, MAIN, lies)
    return repo


def _loose(repo: Repo, folder: Path) -> Path:
    objects = {("objects", name): (f"{kind} {len(data)}", data) for name, (kind, data) in repo.objects.items()}
    text = {"objects": objects, "refs": repo.refs}
    return disk.write_repo(text, folder / "repo.git")


def big_commit(folder: Path, seq: int, size: int) -> Path:
    """A commit with so many bytes more."""
    changed: Lies = Lies(commit={seq: lambda text: text + b"x" * size})
    return _loose(_base(changed), folder)


def _zeros(kind: str, size: int) -> str:
    """The id of so many zero bytes."""
    made = sha1(b"%s %d\x00" % (kind.encode(), size))
    for _ in range(size >> 20):
        made.update(bytes(1 << 20))
    made.update(bytes(size & 0xFFFFF))
    return made.hexdigest()


def _pour(path: Path, name: str, kind: str, pieces: Callable[[], list[tuple[bytes, int]]]) -> None:
    """A loose object of repeated pieces, written without holding it."""
    file = path / "objects" / name[:2] / name[2:]
    file.parent.mkdir(exist_ok=True)
    deflate = zlib.compressobj(9)
    size = sum(len(piece) * times for piece, times in pieces())
    with file.open("wb") as out:
        out.write(deflate.compress(b"%s %d\x00" % (kind.encode(), size)))
        for piece, times in pieces():
            for _ in range(times):
                out.write(deflate.compress(piece))
        out.write(deflate.flush())


def _bomb(folder: Path, repo: Repo, name: str, kind: str, size: int) -> Path:
    path = _loose(repo, folder)
    _pour(path, name, kind, lambda: [(bytes(1 << 20), size >> 20), (bytes(size & 0xFFFFF), 1)])
    return path


def zip_bomb_blob(folder: Path, size: int) -> Path:
    """Event 2 is a blob of zeros."""
    target = _zeros("blob", size)
    old = bytes.fromhex(oid("blob", talk(5, files=(3,))[2].raw))
    change = {seq: lambda leaf: leaf.replace(old, bytes.fromhex(target)) for seq in range(2, 6)}
    return _bomb(folder, _base(Lies(leaf=change)), target, "blob", size)


def zip_bomb_side_file(folder: Path, size: int) -> Path:
    """The side file of event 3 is a blob of zeros."""
    target = _zeros("blob", size)
    old = bytes.fromhex(oid("blob", talk(5, files=(3,))[3].files[0]))
    change = {seq: lambda leaf: leaf.replace(old, bytes.fromhex(target)) for seq in range(3, 6)}
    return _bomb(folder, _base(Lies(leaf=change)), target, "blob", size)


def zip_bomb_commit(folder: Path, size: int) -> Path:
    """The ref leads to a commit of zeros."""
    repo, target = _base(), _zeros("commit", size)
    repo.refs[MAIN] = target
    return _bomb(folder, repo, target, "commit", size)


def zip_bomb_tree(folder: Path, size: int) -> Path:
    """The head's leaf is a tree of zeros."""
    target = _zeros("tree", size)
    change = {5: lambda _: entry("00", target, "40000")}
    return _bomb(folder, _base(Lies(middle=change)), target, "tree", size)


def wide_tree(folder: Path, count: int) -> Path:
    """The head's leaf has so many entries."""
    one = entry("00000001.json", "ab" * 20)
    made = sha1(b"tree %d\x00" % (len(one) * count))
    thousand = one * 1000
    for _ in range(count // 1000):
        made.update(thousand)
    target = made.hexdigest()
    path = _loose(_base(Lies(middle={5: lambda _: entry("00", target, "40000")})), folder)
    _pour(path, target, "tree", lambda: [(thousand, count // 1000)])
    return path


def long_blob(folder: Path, size: int) -> Path:
    """Event 2 has so many bytes, and the rest is linked to it."""
    line = Line()
    line.events.append(_long(2, size, line[1].hash))
    line.say("on")
    return _loose(_base(events=line.events), folder)


def big_blob_side_file(folder: Path, size: int) -> Path:
    """A side file of so many bytes in git."""
    line = Line()
    line.add("message", {"n": 2}, files=[bytes(size)])
    return _loose(_base(events=line.events), folder)


def large_file(folder: Path, name: str) -> Path:
    """A repository with a file of 256 MiB and a byte, which take no room."""
    path = _loose(_base(), folder)
    (path / name).touch()
    os.truncate(path / name, (256 << 20) + 1)
    return path


def many_packs(folder: Path, count: int) -> Path:
    """Good events, and so many packs of something else."""
    path = _loose(_base(), folder)
    (path / "objects" / "pack").mkdir()
    for number in range(count):
        repo = Repo()
        name = repo.put("blob", b"%d" % number)
        text = pack(repo)
        stem = path / "objects" / "pack" / f"pack-{number:040x}"
        stem.with_suffix(".pack").write_bytes(text)
        stem.with_suffix(".idx").write_bytes(pack_index({name: 12}, text[-20:]))
    return path


def border(folder: Path, what: str) -> Path:
    """205 events; ``what`` is wrong with them. A middle tree has 29 bytes a leaf, the last 20 of them the id."""
    line = talk(205)
    events, lies = line.events, Lies()
    if what.startswith("edited-"):
        seq = int(what[7:])
        events = line.replaced(seq, edited(line[seq]))
    if what == "no-leaf":
        lies = Lies(middle={205: lambda data: data[:29] + data[58:]})
    if what == "swapped-leaves":
        lies = Lies(middle={205: lambda data: data[:9] + data[38:58] + data[29:38] + data[9:29] + data[58:]})
    if what == "malformed-leaf":
        lies = Lies(middle={205: lambda data: data[:38] + bytes.fromhex(oid("tree", b"x")) + data[58:]})
    if what == "old-tree":
        lies = Lies(root={150: lambda data: data + entry("README", oid("tree", b"x"))})
    repo = Repo()
    made = repo.write(events, MAIN, lies)
    repo.put("tree", b"x")
    if what == "missing-leaf":
        repo.drop(made[198].leaf)
    if what == "missing-commit":
        repo.drop(made[149].commit)
    return _loose(repo, folder)


def ten_thousand(folder: Path, count: int) -> Path:
    """So many events in a pack."""
    repo = Repo()
    repo.write(talk(count).events, MAIN)
    path = disk.bare(folder / "repo.git")
    disk.git("index-pack", "--stdin", cwd=path, stdin=pack(repo))
    (path / MAIN).parent.mkdir(parents=True)
    (path / MAIN).write_text(repo.refs[MAIN] + "\n")
    return path
