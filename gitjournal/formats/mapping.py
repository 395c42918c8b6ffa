"""What all mappers of JSON objects do alike: faults, odd names, times, ids, and who follows whom."""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from array import array
from base64 import b64decode, b64encode
from hashlib import blake2b
from typing import Any, ClassVar

from gitjournal.formats.protocol import Item
from gitjournal.formats.records import NOT_JSON, Record
from gitjournal.formats.report import ImportReport
from gitjournal.formats.shapes import Mapped, Members, members, native, without_none
from gitjournal.formats.times import to_ts

#: So many of the newest ids are remembered: what is put away between two imports must stay small.
MAX_IDS = 50_000
# Calls that wait for their result.
_MAX_CALLS = 1_000
# Of what is put away between two imports, in characters.
_MAX_SAVED = 1_500_000
_NO_TURN = re.compile(r"[^A-Za-z0-9_-]")


def modality(mime: Any) -> str:
    """What kind of thing has this media type: ``image``, ``audio``, ``video``, else ``document``."""
    kind = mime.split("/", 1)[0] if type(mime) is str else ""
    return kind if kind in ("image", "audio", "video") else "document"


def blob_part(mime: Any, content: Any) -> Members:
    """The part ``blob``: bytes in base64."""
    return without_none({"type": "blob", "modality": modality(mime), "mime_type": mime, "content": content})


def injected(parts: list[Members]) -> Mapped:
    """What a program tells the model in the user's name."""
    return "message", {"role": "user", "parts": parts, "injected": True}, "host"


def turn_id(*names: str | None) -> str:
    """What a source calls a turn, as an event may call it: up to 64 of ``A-Z a-z 0-9 _ -``."""
    return _NO_TURN.sub("_", "-".join(name for name in names if name))[:64]


def _key(own: str) -> int:
    return int.from_bytes(blake2b(own.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little")


class ObjectMapper(ABC):
    """A `protocol.Mapper` of the records of one source. A format says what a record means (`mapped`), and when."""

    #: Attributes that the next records need, as JSON values.
    KEPT: ClassVar[tuple[str, ...]] = ()

    def __init__(self, name: str, report: ImportReport) -> None:
        self._name = name
        self._report = report
        #: Number of the record after which the present one stands: the one before it, or what `goes_after` has said.
        self.before = 0
        #: The turn that the present record belongs to.
        self.turn: str | None = None
        self._follows: int | None = None
        # Hashes instead of ids, which are three times as large.
        self._ids: dict[int, None] = {}
        self._parents: dict[int, tuple[int, int]] = {}
        self._calls: dict[str, str] = {}

    @abstractmethod
    def mapped(self, record: Record, of: Members) -> Mapped:
        """The event of a record that is an object: type, data, actor. Never raises."""

    def moment(self, of: Members) -> Any:
        """The time of a record, as it stands there; None when it has none by nature."""
        return of.get("timestamp")

    def item(self, record: Record) -> Item:
        """The event of one record."""
        self._follows = None
        item = self._item(record)
        self.before = record.number
        return item

    def finish(self) -> None:
        """After the last record: report the parents that never came."""
        for number, offset in self._parents.values():
            self._report.count("dangling_parents", number, offset)

    def goes_after(self, number: int) -> None:
        """The present record stands after this one: a rewind, or the other branch of a tree."""
        self._follows = self.before = number

    def save(self) -> Any:
        """See `protocol.Mapper.save`. None when it would be too much: the file is then read from its beginning."""
        ids = b64encode(array("Q", self._ids).tobytes()).decode()
        saved = {"before": self.before, "turn": self.turn, "calls": self._calls, "ids": ids, "own": self.kept()}
        return saved if len(json.dumps(saved)) <= _MAX_SAVED else None

    def load(self, saved: Any) -> None:
        """See `protocol.Mapper.load`."""
        self.before, self.turn, self._calls = saved["before"], saved["turn"], dict(saved["calls"])
        self._ids = dict.fromkeys(array("Q", b64decode(saved["ids"])))
        self.restore(saved["own"])

    def kept(self) -> Any:
        """What a format itself has to know of the records before, as a JSON value."""
        return [getattr(self, name) for name in self.KEPT]

    def restore(self, own: Any) -> None:
        """Go on from what `kept` gave."""
        for name, value in zip(self.KEPT, own, strict=True):
            setattr(self, name, value)

    def note(self, record: Record, own: str | None, parent: str | None) -> bool:
        """Count ids that repeat and parents that are not there; whether this id was there before."""
        repeated = own is not None and _key(own) in self._ids
        if repeated:
            self._report.count("repeated_ids", record.number, record.offset)
        elif own:
            self._ids[_key(own)] = None
            self._parents.pop(_key(own), None)
            if len(self._ids) > MAX_IDS:
                del self._ids[next(iter(self._ids))]
        if parent and _key(parent) not in self._ids and len(self._ids) < MAX_IDS:
            self._parents.setdefault(_key(parent), (record.number, record.offset))
        return repeated

    def remember(self, call: Any, name: Any) -> None:
        """The name of a tool, for the actor of its result."""
        if type(call) is str and type(name) is str:
            self._calls[call] = name
            if len(self._calls) > _MAX_CALLS:
                del self._calls[next(iter(self._calls))]

    def called(self, call: Any) -> str | None:
        """The name of the tool that was called under this id, once."""
        return self._calls.pop(call, None) if type(call) is str else None

    def _item(self, record: Record) -> Item:
        if record.value is NOT_JSON:
            return Item(record, "native", {"format": self._name, "type": record.fault})
        of = members(record.value)
        if of is not record.value and type(record.value) is dict:
            self._report.count("odd_names", record.number, record.offset)
        if not of:
            return Item(record, *native(self._name, "fragment" if record.fragment else "json", {}))
        moment = self.moment(of)
        ts = to_ts(moment)
        if ts is None and moment is not None:
            self._report.count("no_time", record.number, record.offset)
        kind, data, actor = self.mapped(record, of)
        return Item(record, kind, data, actor, ts, follows=self._follows, turn=self.turn)
