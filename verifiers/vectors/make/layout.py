"""Puts a case on the disk: repositories from text, clones of bundles, changed packs and indexes, links and pipes."""

from __future__ import annotations

import os
import shutil
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from . import generated
from .disk import git, read_repo, write_loose, write_repo


def lay_out(case: Mapping[str, Any], vectors: Path, folder: Path) -> Path:
    """The path that a verifier gets for a case; whatever must be made is made in ``folder``, which is empty."""
    setup = case.get("setup", {})
    source = vectors / case["input"]
    if "generate" in case:
        kind, *parameters = case["generate"]
        made: Path = getattr(generated, kind)(folder, *parameters)
        return made
    if source.name.endswith(".repo.json"):
        return _repository(source, vectors, folder, setup, str(folder / "marker"))
    if source.suffix == ".bundle":
        return _cloned(source, folder, setup["clone"])
    if setup.get("as") == "folder":
        return source.parent
    if not setup:
        return source
    copy = folder / source.name
    shutil.copy(source, copy)
    shutil.copytree(f"{source}.files", f"{copy}.files")
    for link, target in setup.get("links", {}).items():
        Path(link.replace("{input}", str(copy))).symlink_to(target)
    for pipe in setup.get("pipes", ()):
        os.mkfifo(pipe.replace("{input}", str(copy)))
    return copy


def _repository(source: Path, vectors: Path, folder: Path, setup: Mapping[str, Any], marker: str) -> Path:
    how = setup.get("as")
    inner = {"dot-git": "work/.git", "worktree": "real", "link": "real"}.get(str(how), setup.get("called", "repo.git"))
    path = write_repo(read_repo(source, vectors), folder / inner, marker)
    for step in setup.get("steps", ()):
        getattr(_Steps, step[0])(path, *step[1:])
    for name in setup.get("without", ()):
        shutil.rmtree(path / name) if (path / name).is_dir() else (path / name).unlink()
    if how == "dot-git":
        return path.parent
    if how == "dot-git-link":
        (folder / "work").mkdir()
        (folder / "work" / ".git").symlink_to(f"../{inner}")
        return folder / "work"
    if how == "worktree":
        (folder / "work").mkdir()
        (folder / "work" / ".git").write_text("gitdir: ../real\n")
        return folder / "work"
    if how == "link":
        (folder / "link").symlink_to("real")
        return folder / "link"
    return path


def _cloned(source: Path, folder: Path, how: str) -> Path:
    whole = folder / "whole.git"
    git("clone", "-q", "--mirror", source, whole)
    if how == "mirror":
        return whole
    if how == "gc":
        git("-c", "gc.writeCommitGraph=true", "gc", "-q", "--prune=now", cwd=whole)
        return whole
    if how == "plain":
        git("clone", "-q", "--no-checkout", source, folder / "plain")
        return folder / "plain"
    git("clone", "-q", "--bare", "--depth", "1", "--no-single-branch", f"file://{whole}", folder / "depth.git")
    return folder / "depth.git"


# --- what git derives from objects, and forgers change -------------------------------------------


def _chunks(data: bytes, header: int) -> dict[bytes, int]:
    """Where the chunks of a commit graph or multi-pack-index begin."""
    found, at = {}, header
    while data[at : at + 4] != bytes(4):
        found[data[at : at + 4]] = struct.unpack(">Q", data[at + 4 : at + 12])[0]
        at += 12
    return found


def _index_of(ids: bytes, name: str) -> int:
    wanted = bytes.fromhex(name)
    return next(n for n in range(len(ids) // 20) if ids[20 * n : 20 * n + 20] == wanted)


def _swap(path: Path, base: int, width: int, one: int, two: int) -> None:
    data = bytearray(path.read_bytes())
    a, b = base + width * one, base + width * two
    data[a : a + width], data[b : b + width] = data[b : b + width], data[a : a + width]
    path.chmod(0o644)
    path.write_bytes(data)


class _Steps:
    """What a case may do with a repository before it is verified; each function is one step."""

    @staticmethod
    def pack(path: Path) -> None:
        """All objects into one pack, reachable or not, and no loose ones."""
        _Steps.pack_beside(path)
        for folder in (path / "objects").glob("??"):
            shutil.rmtree(folder)

    @staticmethod
    def pack_beside(path: Path) -> None:
        """All objects into one pack; the loose ones stay."""
        names = [f"{one.parent.name}{one.name}\n".encode() for one in sorted((path / "objects").glob("??/*"))]
        (path / "objects" / "pack").mkdir(exist_ok=True)
        git("pack-objects", "-q", "--window=0", path / "objects" / "pack" / "pack", cwd=path, stdin=b"".join(names))

    @staticmethod
    def loose(path: Path, name: str, text: str) -> None:
        """A loose blob under an id that is not its own."""
        write_loose(path / "objects", name, f"blob {len(text)}", text.encode())

    @staticmethod
    def swap_in_idx(path: Path, one: str, two: str) -> None:
        """Exchange the places of two objects in the index of the pack (version 2)."""
        idx = next((path / "objects" / "pack").glob("*.idx"))
        data = idx.read_bytes()
        count = struct.unpack(">I", data[8 + 255 * 4 : 8 + 256 * 4])[0]
        ids = data[1032 : 1032 + 20 * count]
        _swap(idx, 1032 + 24 * count, 4, _index_of(ids, one), _index_of(ids, two))

    @staticmethod
    def hide_in_idx(path: Path, name: str) -> None:
        """Change the last byte of an id in the index."""
        idx = next((path / "objects" / "pack").glob("*.idx"))
        data = bytearray(idx.read_bytes())
        at = 1032 + 20 * _index_of(bytes(data[1032:]), name) + 19
        data[at] ^= 1
        idx.chmod(0o644)
        idx.write_bytes(data)

    @staticmethod
    def far_in_idx(path: Path, name: str) -> None:
        """Let the index say that an object lies beyond 2 GiB, at a place that it does not have."""
        idx = next((path / "objects" / "pack").glob("*.idx"))
        data = bytearray(idx.read_bytes())
        count = struct.unpack(">I", data[8 + 255 * 4 : 8 + 256 * 4])[0]
        at = 1032 + 24 * count + 4 * _index_of(bytes(data[1032 : 1032 + 20 * count]), name)
        data[at : at + 4] = b"\xff\xff\xff\xff"
        idx.chmod(0o644)
        idx.write_bytes(data)

    @staticmethod
    def damage_in_pack(path: Path, name: str) -> None:
        """Change a byte in the middle of an object's zlib stream."""
        idx = next((path / "objects" / "pack").glob("*.idx"))
        listed = git("show-index", cwd=path, stdin=idx.read_bytes()).decode().splitlines()
        offsets = sorted(int(line.split()[0]) for line in listed)
        start = next(int(line.split()[0]) for line in listed if line.split()[1] == name)
        pack = idx.with_suffix(".pack")
        data = bytearray(pack.read_bytes())
        end = next((offset for offset in offsets if offset > start), len(data) - 20)
        data[(start + end) // 2] ^= 0xFF
        pack.chmod(0o644)
        pack.write_bytes(data)

    @staticmethod
    def remove(path: Path, pattern: str) -> None:
        """Remove files."""
        for one in path.glob(pattern):
            one.unlink()

    @staticmethod
    def garbage(path: Path, pattern: str) -> None:
        """Overwrite files with as much garbage."""
        for one in path.glob(pattern):
            size = one.stat().st_size
            one.chmod(0o644)
            one.write_bytes((b"garbage\n" * (size // 8 + 1))[:size])

    @staticmethod
    def deep(path: Path) -> None:
        """A folder of refs whose path is longer than the system takes."""
        at = os.open(path / "refs" / "heads", os.O_RDONLY)
        for _ in range(30):
            os.mkdir("d" * 200, dir_fd=at)
            inner = os.open("d" * 200, os.O_RDONLY, dir_fd=at)
            os.close(at)
            at = inner
        os.close(at)

    @staticmethod
    def commit_graph(path: Path) -> None:
        """Let git write a commit graph."""
        git("commit-graph", "write", "--reachable", cwd=path)

    @staticmethod
    def forge_graph(path: Path, what: str) -> None:
        """Give all commits of the graph the tree, or the parent, of another one."""
        graph = path / "objects" / "info" / "commit-graph"
        data = bytearray(graph.read_bytes())
        at = _chunks(bytes(data), 8)[b"CDAT"]
        for n in range(struct.unpack(">I", data[_chunks(bytes(data), 8)[b"OIDF"] + 1020 :][:4])[0]):
            row = at + 36 * n
            if what == "trees":
                data[row : row + 20] = data[at : at + 20]
            else:
                data[row + 20 : row + 24] = struct.pack(">I", 0)
        graph.chmod(0o644)
        graph.write_bytes(data)

    @staticmethod
    def midx(path: Path) -> None:
        """Let git write a multi-pack-index."""
        git("multi-pack-index", "write", cwd=path)

    @staticmethod
    def swap_in_midx(path: Path, one: str, two: str) -> None:
        """Exchange the places of two objects in the multi-pack-index."""
        index = path / "objects" / "pack" / "multi-pack-index"
        data = index.read_bytes()
        chunks = _chunks(data, 12)
        ids = data[chunks[b"OIDL"] : chunks[b"OOFF"]]
        _swap(index, chunks[b"OOFF"], 8, _index_of(ids, one), _index_of(ids, two))

    @staticmethod
    def bitmap(path: Path) -> None:
        """Let git write a bitmap for the pack."""
        git("repack", "-q", "-a", "-d", "--write-bitmap-index", cwd=path)


def listing(path: Path) -> Sequence[tuple[str, int, int]]:
    """Names, sizes and times of all files, to see whether somebody wrote."""
    found = []
    for folder, _, names in os.walk(path):
        for name in names:
            stat = Path(folder, name).lstat()
            found.append((f"{folder}/{name}", stat.st_size, stat.st_mtime_ns))
    return sorted(found)
