"""What the ids of a Claude Code file tell: records written again, prompts sent again, what a compaction keeps.

``parentUuid`` is a hint and no tree: parents are missing, and nearly all forks are mechanical (a result beside the
progress of its call). So the order is that of the file, and only two prompts of a person with the same parent are
taken for what they are: the second was written after going back to before the first.
"""

from __future__ import annotations

from array import array
from base64 import b64decode, b64encode
from hashlib import blake2b
from typing import Any

from isal.isal_zlib import crc32

from gitjournal.formats.claude_parts import session_of
from gitjournal.formats.records import Record
from gitjournal.formats.report import ImportReport
from gitjournal.formats.shapes import Members, items, members, text

#: So many of the newest ids are remembered: what is put away between two imports must stay small.
MAX_IDS = 20_000
_LOW = (1 << 32) - 1


class Tree:
    """The ids of one file, in order. 64 bits of a hash stand for an id."""

    def __init__(self, report: ImportReport) -> None:
        self._report = report
        self._session: str | None = None
        #: By id: a hash of what the message was, and the number of the record.
        self._seen: dict[int, int] = {}
        self._newest = "", _key("")
        self._missing: dict[int, tuple[int, int]] = {}
        #: Parents of prompts, in order.
        self._prompted: dict[int, None] = {}
        #: Ids of what is in the model's context, and how many of the last ones the newest boundary keeps.
        self._context: list[int] = []
        self._kept = 0

    def note(self, record: Record, of: Members) -> bool:
        """Take the ids of the next record. True when it was written before, with the same message."""
        session = session_of(of)
        if session and self._session is None:
            self._session = session
        elif session and session != self._session:
            self._report.count("other_session", record.number, record.offset)
        own, parent = text(of, "uuid"), text(of, "parentUuid")
        after = self._key(parent) if parent else None
        again = own is not None and self._note_own(record, of, self._key(own))
        if after is not None and after not in self._seen:
            self._missing[after] = record.number, record.offset
            _shorten(self._missing)
        return again

    def _key(self, uuid: str) -> int:
        """An id's hash. The newest id is the next record's parent, mostly."""
        if uuid != self._newest[0]:
            self._newest = uuid, _key(uuid)
        return self._newest[1]

    def _note_own(self, record: Record, of: Members, own: int) -> bool:
        said, before = _message_hash(of), self._seen.get(own)
        if before is not None:
            self._report.count("repeated_ids", record.number, record.offset)
        if before is not None and said and before >> 32 == said:
            return True
        self._seen[own] = said << 32 | record.number
        _shorten(self._seen)
        self._missing.pop(own, None)
        return False

    def is_other(self, session: str) -> bool:
        """Whether a session is not the one that the file began with."""
        return session != self._session

    def has(self, uuid: Any) -> bool:
        """Whether a record with this id was seen."""
        return type(uuid) is str and _key(uuid) in self._seen

    def prompt(self, of: Members) -> int | None:
        """Take a person's prompt; the number of the record that it follows, when another one did so before."""
        parent = text(of, "parentUuid")
        if parent is None or (number := self._seen.get(key := self._key(parent))) is None:
            return None
        if key not in self._prompted:
            self._prompted[key] = None
            _shorten(self._prompted)
            return None
        if key in self._context:
            del self._context[self._context.index(key) + 1 :]
        return number & _LOW

    def entered(self, of: Members) -> None:
        """Take what stands in the model's context now."""
        self._context.append(self._key(text(of, "uuid") or ""))
        del self._context[:-MAX_IDS]

    def boundary(self, of: Members) -> None:
        """Take the record before a compaction's summary: it may name messages that stay."""
        about = members(of.get("compactMetadata"))
        segment = members(about.get("preservedSegment"))
        uuids = [one for one in items(members(about.get("preservedMessages")).get("uuids")) if type(one) is str]
        head, tail = text(segment, "headUuid"), text(segment, "tailUuid")
        if uuids:
            head, tail = uuids[0], uuids[-1]
        self._kept = self._since(_key(head)) if head and tail and _key(tail) in self._context[-1:] else 0

    def _since(self, head: int) -> int:
        """How many entries of the context there are from this one on; 0 when it is not there."""
        return len(self._context) - self._context.index(head) if head in self._context else 0

    def compacted(self) -> int:
        """Take a compaction; how many of the last entries of the context it keeps."""
        kept, self._kept = self._kept, 0
        self._context = self._context[-kept:] if kept else []
        return kept

    def finish(self) -> None:
        """Report the parents that never came."""
        for number, offset in self._missing.values():
            self._report.count("dangling_parents", number, offset)

    def save(self) -> dict[str, Any]:
        """See `protocol.Mapper.save`. Parents that are missing are not in it: they only concern the report."""
        return {
            "session": self._session,
            "seen": [_pack(self._seen), _pack(self._seen.values())],
            "prompted": _pack(self._prompted),
            "context": _pack(self._context),
            "kept": self._kept,
        }

    def load(self, saved: dict[str, Any]) -> None:
        """See `protocol.Mapper.load`."""
        self._session, self._kept = saved["session"], saved["kept"]
        self._seen = dict(zip(*map(_unpack, saved["seen"]), strict=True))
        self._prompted = dict.fromkeys(_unpack(saved["prompted"]))
        self._context = list(_unpack(saved["context"]))


def _shorten(of: dict[int, Any]) -> None:
    if len(of) > MAX_IDS:
        del of[next(iter(of))]


def _key(uuid: str) -> int:
    return int.from_bytes(blake2b(uuid.encode(), digest_size=8).digest(), "little")


def _pack(numbers: Any) -> str:
    return b64encode(array("Q", numbers).tobytes()).decode()


def _unpack(packed: str) -> array[int]:
    return array("Q", b64decode(packed))


def _message_hash(of: Members) -> int:
    """32 bits of what a record says, so that the same can be told when it is written again; 0 for no message."""
    message = of.get("message")
    if type(message) is not dict:
        return 0
    kind = of.get("type")
    said = [kind if type(kind) is str else ""]
    _say(message.get("content"), said)
    return crc32("".join(said).encode()) or 1


def _say(value: Any, said: list[str]) -> None:
    """Add what a value says, in pieces."""
    if type(value) is str:
        said.append(value)
    elif type(value) is list:
        for item in value:
            _say(item, said)
        said.append("]")
    elif type(value) is dict:
        # The order of members is not kept when a record is written again.
        for name in sorted(value):
            said.append(name)
            _say(value[name], said)
        said.append("}")
    else:
        said.append(repr(value))
