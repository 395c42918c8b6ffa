"""Import and export: the registry of formats, and the two calls of the library.

Floor 4. Built in: ``claude-code``, ``jsonl`` (our own) and ``records`` (any file). Others come through entry points in
the group ``gitjournal.formats``; see `gitjournal.formats.protocol`.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import cache
from importlib import import_module, metadata
from pathlib import Path
from typing import BinaryIO

from gitjournal.errors import StorageError, UsageError
from gitjournal.formats.generic import Records
from gitjournal.formats.jsonl import FILES_SUFFIX, Jsonl
from gitjournal.formats.protocol import Format, Item, Options, Progress, RecordFormat, Source
from gitjournal.formats.report import ImportReport
from gitjournal.journal import Journal
from gitjournal.refs import Name

__all__ = ["Format", "ImportReport", "Item", "RecordFormat", "export", "find", "formats", "import_file"]

GROUP = "gitjournal.formats"
#: Our own formats, in the order in which they are asked for a file: module and class below this package.
_BUILT_IN = {
    "jsonl": "jsonl:Jsonl",
    "claude-code": "claude_code:ClaudeCode",
    "records": "generic:Records",
}


def formats() -> list[str]:
    """Names of all formats, built in and installed, sorted."""
    return sorted({*_BUILT_IN, *(entry.name for entry in metadata.entry_points(group=GROUP))})


@cache
def _own(name: str) -> Format:
    module, kind = _BUILT_IN[name].split(":")
    fmt: Format = getattr(import_module(f"gitjournal.formats.{module}"), kind)()
    return fmt


def find(name: str) -> Format:
    """The format called ``name``. UsageError when there is none, or when an installed one cannot be loaded."""
    if name in _BUILT_IN:
        return _own(name)
    for entry in metadata.entry_points(group=GROUP, name=name):
        return _load(entry)
    raise UsageError(f"there is no format {name!r}", hint=f"Formats: {', '.join(formats())}.")


def _load(entry: metadata.EntryPoint) -> Format:
    try:
        loaded = entry.load()
        fmt = loaded() if isinstance(loaded, type) else loaded
    except Exception as error:  # whatever a foreign package raises on import
        raise UsageError(f"the format {entry.name!r} ({entry.value}) cannot be loaded: {error}") from error
    if not isinstance(fmt, Format):
        raise UsageError(f"{entry.value} is no gitjournal format")
    return fmt


def detect(source: Source) -> Format | None:
    """The format that claims the file, None when none does."""
    head = source.head()
    for name in _BUILT_IN:
        if (own := _own(name)).sniff(head):
            return own
    for entry in metadata.entry_points(group=GROUP):
        if entry.name not in _BUILT_IN and (fmt := _load(entry)).sniff(head):
            return fmt
    return None


def import_file(
    journal: Journal,
    path: str | Path,
    *,
    format: str = "auto",  # noqa: A002 - the word that users type
    session: str | None = None,
    dry_run: bool = False,
    progress: Progress | None = None,
) -> ImportReport:
    """Import a file into ``journal``; the report says what was found and done.

    ``auto`` takes the format that recognises the file, else ``records``. Importing again adds only what is new.
    ``session`` is used instead of the file's own session id. Raises JournalError.
    """
    source = Source(Path(path))
    try:
        fmt = detect(source) if format == "auto" else find(format)
        report = (fmt or _own(Records.name)).load(journal, source, Options(session, dry_run, progress))
    except OSError as error:  # the journal has errors of its own, so this is the source
        raise StorageError(f"{path} cannot be read: {error.strerror or error}") from error
    if fmt is None and report.records:
        report.notes.insert(0, "no format recognises this file: it was taken as generic records")
    return report


def export(
    journal: Journal,
    name: str | Name,
    format: str,  # noqa: A002 - the word that users type
    out: BinaryIO,
    files: str | Path | None = None,
    only: Collection[int] | None = None,
) -> int:
    """Write a branch to ``out``; the number of events or records written.

    With ``only`` (our own format) all other events are written as headers: the chain can be checked, what they say
    cannot be read.

    Side files go to the folder ``files``, by default that of the file behind ``out``: ``<its path>.files``.
    """
    path = getattr(out, "name", None)
    if files is None and isinstance(path, str) and not path.startswith("<"):
        files = path + FILES_SUFFIX
    target, folder = journal.resolve(name), Path(files) if files is not None else None
    chosen = find(format)
    if only is None:
        return chosen.export(journal, target, out, folder)
    if not isinstance(chosen, Jsonl):
        raise UsageError(f"only some events: that is for jsonl, {chosen.name} gives back whole files")
    return chosen.export(journal, target, out, folder, only)
