"""Repositories on the disk: loose objects, refs, links and pipes, written without git."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .gitkit import oid

_GIT = {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull, "LC_ALL": "C", "GIT_AUTHOR_DATE": "0 +0000"}


def git(*arguments: str | Path, cwd: Path | None = None, stdin: bytes | None = None) -> bytes:
    """Run stock git without anybody's config; what it prints."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")} | _GIT
    run = subprocess.run(["git", *map(str, arguments)], cwd=cwd, input=stdin, env=env, capture_output=True, check=False)
    if run.returncode:
        raise RuntimeError(f"git {arguments}: {run.stderr.decode(errors='replace')}")
    return run.stdout


def _content(one: Mapping[str, str]) -> bytes:
    return base64.b64decode(one["content_b64"]) if "content_b64" in one else one["content"].encode()


def read_repo(path: Path, vectors: Path) -> dict[str, Any]:
    """A repository's text, its base's objects among its own: `objects` by (folder, id), each header and content."""
    text = json.loads(path.read_bytes())
    objects: dict[tuple[str, str], tuple[str, bytes]] = {}
    if "base" in text:
        objects = read_repo(vectors / text["base"], vectors)["objects"]
        objects = {key: one for key, one in objects.items() if key[1] not in text["without"]}
    for one in text["objects"]:
        data = _content(one)
        name = one.get("id") or oid(one["type"], data)
        if "in" in one:
            objects.pop(("objects", name), None)
        objects[one.get("in", "objects"), name] = (one.get("header", f"{one['type']} {len(data)}"), data)
    return {**text, "objects": objects}


def write_loose(folder: Path, name: str, header: str, data: bytes) -> Path:
    """Write a loose object under an id, its own or not; the header is `<type> <size>` if it does not lie."""
    path = folder / name[:2] / name[2:]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    path.write_bytes(zlib.compress(b"%s\x00%s" % (header.encode(), data), 1))
    return path


def bare(path: Path) -> Path:
    """An empty bare repository."""
    (path / "objects").mkdir(parents=True)
    (path / "refs").mkdir()
    (path / "HEAD").write_text("ref: refs/heads/journal/main\n")
    (path / "config").write_text("[core]\n\trepositoryformatversion = 0\n\tbare = true\n")
    return path


def write_repo(text: Mapping[str, Any], path: Path, marker: str = "") -> Path:
    """Lay out a bare repository from what `read_repo` gave."""
    bare(path)
    for (store, name), (header, data) in text["objects"].items():
        write_loose(path / store, name, header, data)
    files = {name: _content(one).replace(b"{MARKER}", marker.encode()) for name, one in text.get("files", {}).items()}
    for name, data in [*((name, f"{target}\n".encode()) for name, target in text["refs"].items()), *files.items()]:
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_bytes(data)
        if data.startswith(b"#!"):
            (path / name).chmod(0o755)
    for name, target in text.get("links", {}).items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).symlink_to(target)
    for name in text.get("pipes", ()):
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        os.mkfifo(path / name)
    return path
