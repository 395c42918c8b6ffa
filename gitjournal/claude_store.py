"""A session store for the Claude Agent SDK: what an agent says is in the journal as it says it (docs/live.md).

Floor 4. ``ClaudeAgentOptions(session_store=ClaudeSessionStore(journal))``. An entry is a line of the transcript, and
becomes the event that an import of the transcript would make of it. The SDK is not needed to write or load.
"""

from __future__ import annotations

import asyncio
import io
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from threading import Lock
from typing import Any, ParamSpec, TypeVar

from gitjournal import refs
from gitjournal.chain import Appended
from gitjournal.delete import delete
from gitjournal.errors import NotFound, Refused, UsageError
from gitjournal.formats.claude_code import ClaudeCode
from gitjournal.formats.drafted import drafted
from gitjournal.formats.feed import Feed
from gitjournal.formats.imported import EPOCH
from gitjournal.formats.protocol import Options, Source, Strand
from gitjournal.formats.report import ImportReport
from gitjournal.journal import Journal
from gitjournal.policy import redactor_for
from gitjournal.refs import Name
from gitjournal.rules import unix_seconds
from gitjournal.writer import Draft, now

#: A key of the SDK: ``project_key``, ``session_id``, and ``subpath`` for what is not the main transcript.
Key = Mapping[str, str]
Entry = Mapping[str, Any]
P = ParamSpec("P")
T = TypeVar("T")

_PARTS = ("project_key", "session_id", "subpath")
#: Nothing lies beside what comes from the SDK.
_NOWHERE = Source(Path(os.devnull) / "transcript.jsonl")


class ClaudeSessionStore:
    """All methods of the SDK's ``SessionStore``, on a journal. Any number of tasks and threads may use one.

    Processes take turns: of two that append to one session at the same moment one gets LeaseHeld, and the SDK tries
    again. An append changes and removes nothing; an entry whose ``uuid`` is there is left out, as the SDK wants it.
    """

    def __init__(self, journal: Journal) -> None:
        """Refused when the journal's policy cannot be known."""
        self._journal = journal
        self._redactor = redactor_for(journal.store, None, "import")
        self._lock = Lock()
        #: The keys of sessions that were looked at: a first event never changes.
        self._keys: dict[Name, Key | None] = {}
        #: The uuids in a session up to a seq.
        self._known: dict[Name, tuple[int, set[str]]] = {}
        self._summaries: dict[Name, tuple[str, dict[str, Any]]] = {}

    # --- what the SDK calls ----------------------------------------------------------------------

    async def append(self, key: Key, entries: Sequence[Entry]) -> None:
        """Add entries that are not there yet, in order; they are on the disk when this returns. JournalError."""
        await self._run(self._append, _checked(key), entries)

    async def load(self, key: Key) -> list[dict[str, Any]] | None:
        """All entries of a key, in order; None when there is no such session. JournalError."""
        return await self._run(self._load, _checked(key))

    async def list_sessions(self, project_key: str) -> list[dict[str, Any]]:
        """``session_id`` and ``mtime`` (Unix milliseconds) of a project's sessions."""
        return await self._run(self._list, project_key)

    async def list_session_summaries(self, project_key: str) -> list[dict[str, Any]]:
        """The SDK's own summaries, which its function makes of the entries. Needs the SDK."""
        return await self._run(self._summarised, project_key)

    async def delete(self, key: Key) -> None:
        """Delete a session with all that belongs to it, or one ``subpath``, as `gj delete` does. JournalError."""
        await self._run(self._delete, _checked(key))

    async def list_subkeys(self, key: Key) -> list[str]:
        """The subpaths of a session."""
        return await self._run(self._subkeys, _checked(key))

    async def _run(self, work: Callable[P, T], *args: P.args, **named: P.kwargs) -> T:
        def alone() -> T:
            with self._lock:
                return work(*args, **named)

        return await asyncio.to_thread(alone)

    # --- sessions of the journal -----------------------------------------------------------------

    def _find(self, key: Key) -> Name | None:
        return next((name for name in _names(key) if self._key(name) == key), None)

    def _key(self, name: Name) -> Key | None:
        """The key of a session; None when it has none or is not there."""
        if name not in self._keys:
            try:
                start = self._journal.event(name, 1)
            except NotFound:
                return None
            native = {} if start.withheld else start.stored_data.get("native")
            is_key = type(native) is dict and "project_key" in native and set(native) <= set(_PARTS)
            self._keys[name] = native if is_key else None
        return self._keys[name]

    def _of(self, project_key: str) -> Iterator[tuple[Name, Key]]:
        """All sessions of a project and their keys."""
        for name in self._journal.sessions():
            if name.branch == refs.TRUNK and (key := self._key(name)) and key["project_key"] == project_key:
                yield name, key

    def _append(self, key: Key, entries: Sequence[Entry]) -> None:
        name = self._find(key)
        fresh = self._unknown(name, entries)
        if not fresh:
            return
        raw = b"".join(map(_line, fresh))
        drafts, told = self._drafts(key["session_id"], raw)
        start = None
        if name is None:
            start = Draft("session.start", self._start(key, told), ts=drafts[0].ts)
            name = next(one for one in _names(key) if not self._exists(one))
        how: dict[str, Any] = {"create": True, "start": start} if start else {}
        with self._journal.session(name, epoch=EPOCH, salted=False, **how) as session:
            session.append_many(drafts)

    def _start(self, key: Key, told: Mapping[str, Any]) -> dict[str, Any]:
        data: dict[str, Any] = {"source": ClaudeCode.name, **told}
        if self._redactor is not None:
            if self._redactor.value(dict(key))[1]:
                # It is what the session is found by, so it can neither be kept nor changed.
                raise Refused("the key of a session holds a secret, and the journal's policy wants none")
            data = {**self._redactor.value(data)[0], "redacted": True}
        parent = {"parent": {"session": key["session_id"]}} if "subpath" in key else {}
        return {**data, **parent, "native": dict(key)}

    def _drafts(self, session: str, raw: bytes) -> tuple[list[Draft], Mapping[str, Any]]:
        """The events that an import of these lines would make, and what it would say of the session."""
        fmt, report, ts = ClaudeCode(), ImportReport(session, ClaudeCode.name), now()
        about = fmt.about(fmt.cut(io.BytesIO(raw)), _NOWHERE)
        read = partial(fmt.read, source=_NOWHERE)
        strand = Strand(about, lambda: fmt.cut(io.BytesIO(raw)), read)
        feed = Feed(fmt, strand, strand.records(), report, Options(redactor=self._redactor))
        items = map(feed.clean, strand.read(iter(feed), report))
        return [drafted(fmt.name, item, item.ts or ts, report) for item in items], about.start

    def _exists(self, name: Name) -> bool:
        try:
            return bool(self._journal.resolve(name))
        except NotFound:
            return False

    def _unknown(self, name: Name | None, entries: Sequence[Entry]) -> list[Entry]:
        """The entries whose uuid is not in the session; those without a uuid are always new."""
        seen, uuids = self._known.get(name, (0, set())) if name is not None else (0, set())
        for event in self._journal.events(name, after=seen) if name is not None else ():
            seen = event.seq
            native = None if event.withheld else event.stored_data.get("native")
            if type(native) is dict and type(native.get("id")) is str:
                uuids.add(native["id"])
        if name is not None:
            self._known[name] = (seen, uuids)
        fresh: dict[object, Entry] = {}
        for number, entry in enumerate(entries):
            uuid = entry.get("uuid")
            if type(uuid) is not str or not uuid:
                fresh[number] = entry
            elif uuid not in uuids:
                fresh.setdefault(uuid, entry)
        return list(fresh.values())

    def _load(self, key: Key) -> list[dict[str, Any]] | None:
        name = self._find(key)
        if name is None:
            return None
        raw = io.BytesIO()
        ClaudeCode().export(self._journal, name, raw, None)
        return [json.loads(line) for line in raw.getvalue().split(b"\n") if line]

    def _list(self, project_key: str) -> list[dict[str, Any]]:
        found = ((name, key) for name, key in self._of(project_key) if "subpath" not in key)
        return [{"session_id": key["session_id"], "mtime": self._mtime(name)} for name, key in found]

    def _mtime(self, name: Name) -> int:
        ts = self._journal.event(name, self._journal.head(name).seq).ts
        return unix_seconds(ts) * 1000 + int(ts[20:23])

    def _summarised(self, project_key: str) -> list[dict[str, Any]]:
        return [self._summary(name, key) for name, key in self._of(project_key) if "subpath" not in key]

    def _summary(self, name: Name, key: Key) -> dict[str, Any]:
        try:
            fold = import_module("claude_agent_sdk").fold_session_summary
        except ImportError:
            raise UsageError("summaries are the Claude Agent SDK's, which is not installed") from None
        head: Appended = self._journal.head(name)
        if self._summaries.get(name, ("",))[0] != head.hash:
            made = dict(fold(None, key, self._load(key) or []))
            self._summaries[name] = (head.hash, made | {"mtime": self._mtime(name)})
        return dict(self._summaries[name][1])

    def _delete(self, key: Key) -> None:
        whole = "subpath" not in key
        same = {part: key[part] for part in _PARTS[:2]}
        for name, found in list(self._of(key["project_key"])):
            if found == key or (whole and {part: found[part] for part in _PARTS[:2]} == same):
                delete(self._journal, name.session, reason="by the agent's SDK")
                for cache in (self._keys, self._known, self._summaries):
                    cache.pop(name, None)

    def _subkeys(self, key: Key) -> list[str]:
        found = (other for _, other in self._of(key["project_key"]) if other["session_id"] == key["session_id"])
        return sorted(other["subpath"] for other in found if "subpath" in other)


def _checked(key: Key) -> dict[str, str]:
    """A key with its own members only. UsageError."""
    told = {part: key[part] for part in _PARTS if part in key}
    if not {"project_key", "session_id"} <= set(told) or not all(type(v) is str and v for v in told.values()):
        raise UsageError("a session store's key has project_key, session_id and perhaps subpath, all of them text")
    return told


def _names(key: Key) -> list[Name]:
    """The sessions that a key can be: called as by an import, and where that is somebody else's, by the whole key."""
    session = key["session_id"]
    if "subpath" in key:
        session += "." + key["subpath"].rpartition("/")[2]
    digest = sha256("\0".join(key.get(part, "") for part in _PARTS).encode("utf-8", "surrogatepass")).hexdigest()
    return [Name(one) for one in (session, f"{session[:100]}.{digest[:16]}", digest) if _usable(one)]


def _usable(session: str) -> bool:
    try:
        refs.check_id(session)
    except UsageError:
        return False
    return session != refs.JOURNAL_SESSION


def _line(entry: Entry) -> bytes:
    """An entry as the agent writes it into its transcript: without spaces, and escaped only where it has to be."""
    text = json.dumps(entry, ensure_ascii=False, separators=(",", ":")) + "\n"
    try:
        return text.encode()
    except UnicodeEncodeError:  # a lone surrogate
        return (json.dumps(entry, separators=(",", ":")) + "\n").encode()
