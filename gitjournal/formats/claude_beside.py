"""Files that Claude Code keeps beside a session's own: outputs of tools that were too long, and what an agent is.

Only base names are taken from a transcript, and looked for in the one folder where the program puts such files.
"""

from __future__ import annotations

import io
import os
import re
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

from gitjournal import files, objects
from gitjournal.formats.claude_parts import last_texts, session_of
from gitjournal.formats.records import MAX_RECORD, Record, records
from gitjournal.formats.report import ImportReport
from gitjournal.formats.shapes import Members, members, text
from gitjournal.objects import FileBlob

#: The folder of outputs in a session's folder, and that of its sub-agents.
OUTPUTS = "tool-results"
AGENTS = "subagents"
_OUTPUTS = OUTPUTS.encode()
#: What a file beside a session may be called: nothing that leads anywhere.
PLAIN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")
# Ids that are made up otherwise, as in shortened transcripts, may be in two sessions that have nothing in common.
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_SAVED = re.compile(r"saved to: (\S[^\n]*)")
_MEDIA = {".txt": "text/plain", ".json": "application/json"}
_MAX_FILES = 20
#: So much of a transcript is looked at for its first message.
_HEAD_BYTES = 64 * 1024


class Beside:
    """The files beside one transcript."""

    def __init__(self, source: Path, report: ImportReport) -> None:
        self._source = source
        self._report = report
        self._folder = _folder(source) / OUTPUTS

    def of(self, record: Record, of: Members) -> list[FileBlob]:
        """The files that a record names; those that are missing or too big are counted."""
        found = [self._about_agent()] if record.number == 1 and self._source.name.startswith("agent-") else []
        if _OUTPUTS in record.raw:
            found += [self._output(session, name, record) for session, name in _names(of)]
        return [file for file in found if file is not None]

    def _output(self, session: str, name: str, record: Record) -> FileBlob | None:
        """An output of this session, else of the one in the same project whose it is: forks have it from there."""
        media = _MEDIA.get(Path(name).suffix, "application/octet-stream")
        folders = [self._folder]
        if PLAIN.fullmatch(session):
            folders.append(self._folder.parent.with_name(session) / OUTPUTS)
        safe = (folder for folder in folders if not (folder.is_symlink() or folder.parent.is_symlink()))
        file = next((file for folder in safe if (file := _read(folder / name, media))), None)
        if file is None:
            self._report.count("spilled", record.number, record.offset)
        return file

    def _about_agent(self) -> FileBlob | None:
        return _read(self._source.with_suffix(".meta.json"), "application/json")


def _folder(source: Path) -> Path:
    """The folder of the session that a transcript belongs to."""
    for parent in source.parents:
        if parent.name == AGENTS:
            return parent.parent
    return source.with_suffix("")


def _read(path: Path, media: str) -> FileBlob | None:
    try:
        with os.fdopen(files.open_regular(path, os.O_NOFOLLOW), "rb") as file:
            data = file.read(MAX_RECORD + 1)
    except OSError:
        return None
    return objects.side_file(data, media, path.name) if len(data) <= MAX_RECORD else None


def _names(of: Members) -> list[tuple[str, str]]:
    """(folder of the session, base name) of the outputs that a tool's result was moved to."""
    given: list[Any] = [members(of.get("toolUseResult")).get("persistedOutputPath")]
    for said in last_texts(members(of.get("message")).get("content")):
        if said.startswith("<persisted-output>") and (match := _SAVED.search(said)):
            given.append(match[1])
    steps = [re.split(r"[\\/]", path.strip()) for path in given if type(path) is str]
    found = {path[-1]: "".join(path[-3:-2]) for path in steps if len(path) > 1 and path[-2] == OUTPUTS}
    return [(session, name) for name, session in found.items() if PLAIN.fullmatch(name)][:_MAX_FILES]


def original(source: Path) -> str | None:
    """The session of an older file beside this one that begins with the same message under another session's id.

    Versions before ``forkedFrom`` copy a history into a new file when it is resumed, and do not say whose it was.
    """
    try:
        about = source.stat()
        uuid, session = _first(str(source), about.st_ino, min(about.st_size, _HEAD_BYTES))
        with os.scandir(source.parent) as entries:
            found = list(_elders(entries, uuid, about.st_mtime_ns)) if _UUID.fullmatch(uuid) else []
    except OSError:
        return None
    # Of a chain of copies, the newest is what was resumed.
    return max(((age, of) for age, of in found if of != session), default=(0, None))[1]


def _elders(entries: Iterator[os.DirEntry[str]], uuid: str, age: int) -> Iterator[tuple[int, str]]:
    """(when it was last written, session) of transcripts that are no younger and begin with this id."""
    for entry in entries:
        if not entry.name.endswith(".jsonl") or not entry.is_file(follow_symlinks=False):
            continue
        about = entry.stat(follow_symlinks=False)
        if about.st_mtime_ns <= age:
            first, session = _first(entry.path, about.st_ino, min(about.st_size, _HEAD_BYTES))
            if first == uuid and session:
                yield about.st_mtime_ns, session


@lru_cache(maxsize=10_000)
def _first(path: str, _inode: int, size: int) -> tuple[str, str]:
    """(id, session) of the first record with an id. What a file begins with stays, however it grows."""
    try:
        with os.fdopen(files.open_regular(path, os.O_NOFOLLOW), "rb") as file:
            head = file.read(size)
    except OSError:
        return "", ""
    found = (members(one.value) for one in records(io.BytesIO(head)))
    return next(((text(of, "uuid") or "", session_of(of) or "") for of in found if text(of, "uuid")), ("", ""))
