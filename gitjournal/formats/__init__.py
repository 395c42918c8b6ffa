"""Import and export: the registry of formats, and the two calls of the library.

Floor 4. Built in: ``claude-code``, ``jsonl`` (our own) and ``records`` (any file). Others come through entry points in
the group ``gitjournal.formats``; see `gitjournal.formats.protocol`.
"""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from functools import cache
from importlib import import_module, metadata
from pathlib import Path
from typing import BinaryIO

from gitjournal.errors import StorageError, UsageError
from gitjournal.formats.generic import Records
from gitjournal.formats.jsonl import FILES_SUFFIX, Jsonl
from gitjournal.formats.losses import Losses
from gitjournal.formats.protocol import Format, Item, Options, Progress, RecordFormat, Source
from gitjournal.formats.rendering import Rendering, source_of
from gitjournal.formats.report import ImportReport
from gitjournal.journal import Journal
from gitjournal.policy import redactor_for
from gitjournal.refs import Name

__all__ = ["Format", "ImportReport", "Item", "RecordFormat", "export", "find", "formats", "import_file", "renderings"]

GROUP = "gitjournal.formats"
#: Our own formats, in the order in which they are asked for a file: module and class below this package.
_BUILT_IN = {
    "jsonl": "jsonl:Jsonl",
    "claude-code-web": "claude_web:ClaudeCodeWeb",
    "claude-code": "claude_code:ClaudeCode",
    "codex": "codex:Codex",
    "atif": "atif:Atif",
    "agentsessions": "agentsessions:Agentsessions",
    "copilot": "copilot:Copilot",
    "pi": "pi:Pi",
    "openboa": "openboa:Openboa",
    "course": "course:Course",
    "gemini": "gemini:Gemini",
    "opencode": "opencode:Opencode",
    "openai-agents": "openai_agents:OpenaiAgents",
    "swe-agent": "swe_agent:SweAgent",
    "inspect": "inspect_eval:InspectEval",
    "otlp": "otlp:Otlp",
    "records": "generic:Records",
}
#: Formats that any session can be written in anew, with losses: module and class below this package.
_RENDERINGS = {
    "atif": "to_atif:ToAtif",
    "otlp": "to_otlp:ToOtlp",
    "openai-chat": "to_openai:ToOpenai",
    "openai-chat-jsonl": "to_openai:ToOpenaiLines",
}


def renderings() -> list[str]:
    """Names of the formats that any session can be rendered in, sorted (`gitjournal.formats.rendering`)."""
    return sorted(_RENDERINGS)


def formats() -> list[str]:
    """Names of all formats, built in and installed, sorted."""
    return sorted({*_BUILT_IN, *(entry.name for entry in metadata.entry_points(group=GROUP))})


@cache
def _own(name: str) -> Format:
    module, kind = _BUILT_IN[name].split(":")
    fmt: Format = getattr(import_module(f"gitjournal.formats.{module}"), kind)()
    return fmt


@cache
def _rendering(name: str) -> Rendering:
    module, kind = _RENDERINGS[name].split(":")
    rendering: Rendering = getattr(import_module(f"gitjournal.formats.{module}"), kind)()
    return rendering


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
    complete_only: bool = False,
    redact: bool | None = None,
    wait: bool = False,
) -> ImportReport:
    """Import a file into ``journal``; the report says what was found and done.

    ``auto`` takes the format that recognises the file, else ``records``. Importing again adds only what is new.
    ``session`` is used instead of the file's own session id. ``complete_only`` leaves a last line that is not whole for
    the next time. Whether secrets are taken out, ``redact`` or the journal's policy says (`gitjournal.policy`); Refused
    when they contradict each other. ``wait`` is `Options.wait`. Raises JournalError.
    """
    source = Source(Path(path))
    redactor = redactor_for(journal.store, redact, "import")
    try:
        fmt = detect(source) if format == "auto" else find(format)
        report = (fmt or _own(Records.name)).load(
            journal, source, Options(session, dry_run, progress, complete_only, redactor, wait)
        )
    except OSError as error:  # the journal has errors of its own, so this is the source
        raise StorageError(f"{path} cannot be read: {error.strerror or error}") from error
    if fmt is None and report.records:
        report.notes.insert(0, _unknown(source))
    return report


def _unknown(source: Source) -> str:
    """What is said of a file that no format recognises."""
    from gitjournal.formats import sqlite_read, zipped

    for magic, what in ((sqlite_read.MAGIC, "an SQLite database"), (zipped.MAGIC, "a ZIP archive")):
        if source.head().raw.startswith(magic):
            return f"it is {what} that no format knows: its bytes were kept, and nothing in it was read"
    return "no format recognises this file: it was taken as generic records"


def export(
    journal: Journal,
    name: str | Name,
    format: str,  # noqa: A002 - the word that users type
    out: BinaryIO,
    files: str | Path | None = None,
    only: Collection[int] | None = None,
    losses: Losses | None = None,
) -> int:
    """Write a branch to ``out``; the number of events or records written.

    A format of `renderings` is written anew, unless the session came from it and its bytes are here. ``losses`` then
    counts what is not in it.

    With ``only`` (our own format) all other events are written as headers: the chain can be checked, what they say
    cannot be read.

    Side files go to the folder ``files``, by default that of the file behind ``out``: ``<its path>.files``.
    """
    path = getattr(out, "name", None)
    if files is None and isinstance(path, str) and not path.startswith("<"):
        files = path + FILES_SUFFIX
    target, folder = journal.resolve(name), Path(files) if files is not None else None
    if only is None and format in _RENDERINGS:
        return _render(journal, target, format, out, Losses() if losses is None else losses)
    chosen = find(format) if format not in _RENDERINGS else None
    if only is None and chosen is not None:
        return chosen.export(journal, target, out, folder)
    if not isinstance(chosen, Jsonl):
        raise UsageError(f"only some events: that is for jsonl, {format} gives back whole files")
    return chosen.export(journal, target, out, folder, only)


def _render(journal: Journal, name: Name, kind: str, out: BinaryIO, losses: Losses) -> int:
    """Write a branch anew; one that came from the format is given back as it was, if all of it is here."""
    if kind in _BUILT_IN and source_of(journal, name) == kind:
        # An exporter that cannot do it says so before it has written anything.
        with suppress(UsageError):
            return find(kind).export(journal, name, out, None)
    return _rendering(kind).write(journal, name, out, losses)
