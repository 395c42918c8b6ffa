"""Events: one immutable object for the canonical bytes of one event (docs/format.md sections 2 and 3).

Floor 0: bytes in, bytes out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from hashlib import sha256
from typing import Any, NoReturn, Protocol, Self, final

from gitjournal import canonical, rules
from gitjournal.errors import FormatError

# Canonical bytes have one order of members, so an event is: actor, its payload's first member, and a rest that holds
# no other `,"epoch":` - inside a string the quotes would be escaped, and the members that follow hold no such name.
_FRONT = re.compile(rb'\{"actor":"([A-Za-z0-9][A-Za-z0-9._:@/+-]{0,99})","data(?:":|_sha256":"([0-9a-f]{64})"(?=,"e))')
_REST_AT = b',"epoch":'
# Digits of the smallest number that is too large.
_LONG_NUMBER = len(str(rules.MAX_NUMBER))
_REST = re.compile(
    rb',"epoch":([1-9]\d{0,15})'
    rb'(,"files":\[.+\])?'
    rb'(,"prev":(?:null|"([0-9a-f]{64})"))'
    rb'(,"salt":"[A-Za-z0-9_-]{21}[AQgw]")?'
    rb',"seq":([1-9]\d{0,7})'
    rb',"session":"((?:[^"\\]++|\\["\\])+)"'
    rb',"ts":"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z)"'
    rb'(?:,"turn":"([A-Za-z0-9_-]{1,64})")?'
    rb',"type":"([a-z][a-z0-9_]*(?:\.[a-z][a-z0-9_]*)*)","v":1\}'
)


class Source(Protocol):
    """Where an event came from, and its side files are."""

    def data(self, event: Event) -> Mapping[str, Any]:
        """The payload with side files and foreign JSON in their places."""

    def file(self, event: Event, number: int) -> bytes:
        """Content of a side file."""


class _Unsealed:
    """What an `Event` holds, while it is made: to set six members past a ``__setattr__`` that refuses takes long."""

    __slots__ = ("_actor", "_data", "_hash", "_rest", "_source", "_start", "raw", "seq")

    #: The canonical bytes.
    raw: bytes
    #: Position along the branch, from 1.
    seq: int
    _actor: bytes
    # Where the payload begins in raw, 0 when it is withheld.
    _start: int
    _rest: re.Match[bytes]
    _source: Source | None
    # None and empty until they are first asked for.
    _data: Mapping[str, Any] | None
    _hash: str


@final
class Event(_Unsealed):
    """One immutable event: its canonical bytes and what they say.

    ``raw`` is the stored form, full or withheld. Make one with `parse` (bytes from anywhere), ``Event(raw)`` (bytes
    from a journal) or `build` (members).
    """

    __slots__ = ()

    def __new__(cls, raw: bytes, source: Source | None = None) -> Self:
        """Read canonical bytes that are known to be an event's: those of a journal.

        Checks the form of the header and nothing more; the payload is parsed when it is asked for. ``source`` is
        where it came from, and has its side files. FormatError when the bytes are not an event.
        """
        front = _FRONT.match(raw)
        rest = _REST.fullmatch(raw, raw.rfind(_REST_AT)) if front else None
        if front is None or rest is None:
            raise _why_not(raw)
        actor, withheld = front.groups()
        start = front.end()
        if withheld:
            # There is nothing between its digest and the rest.
            if start != rest.start():
                raise _why_not(raw)
            start = 0
        self = _Unsealed()
        self.raw = raw
        self.seq = int(rest[6])
        self._actor = actor
        self._start = start
        self._rest = rest
        self._source = source
        self._data = None
        self._hash = ""
        self.__class__ = cls
        return self  # type: ignore[return-value]  # that is what it is now

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"Event is immutable, cannot set {name}")

    @classmethod
    def parse(cls, raw: bytes) -> Event:
        """The event in bytes from anywhere. FormatError with the code of the first rule that they break (section 2)."""
        event = cls(raw)
        try:
            _check_header(event)
            if not event.withheld:
                event._check_payload()
        except FormatError:
            # Which rule is the first one is not in the order of the quick checks.
            raise event._refusal() from None
        return event

    @classmethod
    def build(cls, members: Mapping[str, Any], text: bytes | None = None) -> Event:
        """The event made of ``members``; FormatError when they break a rule of section 2.

        ``text`` is what `canonical.dumps` makes of them, if the caller has it.
        """
        event = cls(canonical.dumps(members) if text is None else text)
        # A name that sorts between `data` and `epoch` is taken for a part of the payload by the pattern.
        if not members.keys() <= rules.KNOWN or members.keys() >= {"data", "data_sha256"}:
            raise event._refusal()
        _check_header(event)
        if not event.withheld:
            event._check_parts(members["data"])
        return event

    def _check_payload(self) -> None:
        try:
            # Within a list, so that the payload is at level 2, as it is in the event.
            values = canonical.loads_canonical(b"[%s]" % self.raw[self._start : self._rest.start()])
            if self._rest[2]:
                canonical.loads_canonical(self._rest[2][len(b',"files":') :])
        except FormatError:
            raise self._refusal() from None
        # The pattern says where the payload ends, not that it is one value: `{},{}` is two.
        if len(values) != 1:
            raise self._refusal()
        self._check_parts(values[0])
        object.__setattr__(self, "_data", values[0])

    def _refusal(self) -> FormatError:
        error = _why_not(self.raw)
        return error if error.seq == self.seq else FormatError(error.code, str(error), seq=self.seq)

    def _check_parts(self, data: Any) -> None:
        if type(data) is not dict:
            raise FormatError("bad-member", "data is not an object", seq=self.seq, where="/data")
        files = self.files
        if self._rest[2]:
            rules.check_files(files, self.seq)
        if may_hold_tags(self.raw) and not (files and rules.only_references(self._data_bytes)):
            rules.check_tags(data, len(files), self.seq)

    @property
    def session(self) -> str:
        """Id of the session that the event belongs to."""
        return _session(self._rest[7])

    @property
    def prev(self) -> str | None:
        """Event hash of the previous event, 64 hex digits; None at seq 1."""
        return None if self._rest[4] is None else self._rest[4].decode()

    @property
    def epoch(self) -> int:
        """Number of the writer incarnation."""
        return int(self._rest[1])

    @property
    def ts(self) -> str:
        """Wall-clock time as ``YYYY-MM-DDTHH:MM:SS.mmmZ``; for people, never an order."""
        return self._rest[8].decode()

    @property
    def type(self) -> str:
        """For example ``tool.call`` (docs/events.md)."""
        return self._rest[10].decode()

    @property
    def actor(self) -> str:
        """Who acted: ``user``, ``assistant``, ``tool:shell``."""
        return self._actor.decode()

    @property
    def turn(self) -> str | None:
        """Execution id of the turn, if the writer gave one."""
        return self._rest[9].decode() if self._rest[9] else None

    @property
    def withheld(self) -> bool:
        """True when only the header is here and the payload is not."""
        return self._start == 0

    @property
    def _data_bytes(self) -> bytes:
        return self.raw[self._start : self._rest.start()]

    @property
    def stored_data(self) -> Mapping[str, Any]:
        """The payload as it is stored, tags unresolved; empty for a withheld event. FormatError if it is no JSON."""
        data = self._data
        if data is not None:
            return data
        start = self._start
        if start == 0:
            return {}
        data = canonical.loads(self.raw[start : self._rest.start()])
        if type(data) is not dict:
            raise FormatError("bad-member", "data is not an object", seq=self.seq, where="/data")
        object.__setattr__(self, "_data", data)
        return data

    @property
    def data(self) -> Mapping[str, Any]:
        """The payload; empty for a withheld event.

        An event that came from a journal gives the resolved value, side files and foreign JSON in their places.
        """
        return self.stored_data if self._source is None else self._source.data(self)

    def read_file(self, number: int) -> bytes:
        """Content of side file ``number`` (from 1). LookupError when the event did not come from a journal."""
        if self._source is None:
            raise LookupError(f"{self!r} did not come from a journal")
        return self._source.file(self, number)

    @property
    def files(self) -> Sequence[Mapping[str, Any]]:
        """Descriptions of the side files; empty when there are none."""
        return canonical.loads(self._rest[2][len(b',"files":') :]) if self._rest[2] else ()

    @property
    def members(self) -> dict[str, Any]:
        """The stored form as a new dict."""
        return canonical.loads(self.raw)  # type: ignore[no-any-return]

    @property
    def hash(self) -> str:
        """The event hash (section 3), 64 lower-case hex digits: SHA-256 of the canonical header. Computed once."""
        digest = self._hash
        if not digest:
            digest = sha256(self.header).hexdigest()
            object.__setattr__(self, "_hash", digest)
        return digest

    @property
    def header(self) -> bytes:
        """The canonical header: the event with ``data_sha256`` in the place of its payload (section 3)."""
        if self.withheld:
            return self.raw
        raw, rest = self.raw, self._rest
        epoch, files, prev, salt = rest.group(1, 2, 3, 5)
        body = b'{"data":%s%s%s}' % (raw[self._start : rest.start()], files or b"", salt or b"")
        digest = sha256(body).hexdigest().encode()
        end = raw[rest.start(6) - len(b',"seq":') :]
        return b'{"actor":"%s","data_sha256":"%s","epoch":%s%s%s' % (self._actor, digest, epoch, prev, end)

    def withhold(self) -> Event:
        """The same event without its payload: same hash, same place in the chain."""
        return Event(self.header)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Event) and self.raw == other.raw

    def __hash__(self) -> int:
        return hash(self.raw)

    def __repr__(self) -> str:
        return f"<Event {self.session}@{self.seq} {self.type} {self.hash[:12]}>"


class Envelope:
    """What all events of one writer have around their payloads, printed once.

    `Event.build` makes the same bytes of the same members, and is what this is tested against.
    """

    __slots__ = ("_epoch", "_session")

    def __init__(self, session: str, epoch: int) -> None:
        self._epoch = b',"epoch":%d' % epoch
        self._session = b',"session":%s,"ts":"' % canonical.dumps(session)

    def event(
        self, seq: int, prev: str, ts: str, kind: str, actor: str, turn: str | None, data: bytes, salt: bytes,
        files: bytes = b"",
    ) -> Event:  # fmt: skip
        """The event after another one. FormatError.

        ``data`` is canonical, ``files`` as well; it and ``salt`` may be empty. What they say is checked by the caller.
        """
        begin, end = _labels(kind, actor, turn)
        if not rules.is_time(ts):
            raise FormatError("bad-member", f"ts {ts!r:.80} {rules.WORDING['ts']}", seq=seq, where="/ts")
        listed = b',"files":' + files if files else b""
        salted = b'","salt":"' + salt if salt else b""
        before = b',"prev":"%s%s","seq":%d' % (prev.encode(), salted, seq)
        return Event(b"".join((begin, data, self._epoch, listed, before, self._session, ts.encode(), end)))


@lru_cache(maxsize=1024, typed=True)
def _labels(kind: str, actor: str, turn: str | None) -> tuple[bytes, bytes]:
    """What an event has before its payload and behind its time. FormatError when one of them is not allowed."""
    members = {"v": 1, "session": "x", "seq": 2, "prev": "0" * 64, "epoch": 1, "ts": "1970-01-01T00:00:00.000Z"}
    members |= {"type": kind, "actor": actor, "data": {}} | ({} if turn is None else {"turn": turn})
    event = Event.build(members)
    return event.raw[: event._start], event.raw[event._rest.end(8) :]


def may_hold_tags(text: bytes) -> bool:
    """Whether a member name of JSON may begin with ``$gj:``. To look for one byte first is much faster."""
    return b"$" in text and b'"$gj:' in text


@lru_cache(maxsize=1024)
def _session(text: bytes) -> str:
    """The session id behind its JSON text. Raises FormatError ``bad-member``."""
    session = str(canonical.loads_canonical(b'"%s"' % text))
    if len(session.encode()) > rules.MAX_SESSION_BYTES or rules.CONTROL.search(session):
        raise FormatError("bad-member", f"session {session!a:.80} {rules.WORDING['session']}", where="/session")
    return session


def _check_header(event: Event) -> None:
    """What the patterns do not say: sizes, dates, and the rules of seq 1."""
    seq, kind, ts, withheld = event.seq, event.type, event.ts, event.withheld
    epoch, files, prev, salt, session = event._rest.group(1, 2, 4, 5, 7)
    if withheld and (files or salt):
        raise _why_not(event.raw)
    _session(session)
    if len(event.raw) > rules.MAX_EVENT_BYTES:
        raise _too_large(event.raw, seq)
    if len(epoch) >= _LONG_NUMBER and int(epoch) >= rules.MAX_NUMBER:
        raise FormatError("bad-json", "a number with |x| >= 2^53", seq=seq, where="/epoch")
    if len(kind) > rules.MAX_TYPE_BYTES:
        raise FormatError("bad-member", f"type {kind!r:.80} {rules.WORDING['type']}", seq=seq, where="/type")
    if not rules.is_time(ts):
        raise FormatError("bad-member", f"ts {ts!r:.80} {rules.WORDING['ts']}", seq=seq, where="/ts")
    rules.check_place(seq, kind, first=prev is None, withheld=withheld)


def _too_large(raw: bytes, seq: int | None = None) -> FormatError:
    limit = rules.MAX_EVENT_BYTES
    return FormatError("bad-member", f"an event may have {limit} bytes, this one has {len(raw)}", seq=seq)


def _why_not(raw: bytes) -> FormatError:
    """The rule that bytes break which `Event` cannot read."""
    if len(raw) > rules.MAX_EVENT_BYTES:
        return _too_large(raw)
    try:
        rules.check_members(canonical.loads_canonical(raw))
    except FormatError as error:
        return error
    # The patterns and `check_members` say the same thing twice; a test compares them.
    return FormatError("bad-member", "the event is not in the form of section 2")
