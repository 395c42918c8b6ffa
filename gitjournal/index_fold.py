"""One branch on its way into the index: its fold, what each part of its line counts, and what trees share.

Floor 4. What a part is, the caller says.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple, cast
from zlib import compress, decompress

from gitjournal import index_used, objects
from gitjournal.chain import branch_origin
from gitjournal.errors import FormatError, VerificationError
from gitjournal.index_text import data_of, words
from gitjournal.state import StateBuilder
from gitjournal.state_read import Data, begins_turn

if TYPE_CHECKING:
    from gitjournal.event import Event
    from gitjournal.state import SessionState
    from gitjournal.store import Store

#: Events after which a fold is worth keeping, and how far apart two that are kept should be at the least.
APART = 1000
_FIRST_WORDS = 200
_SPLITS = frozenset({"session.branch", "session.fork"})
_SPENT = ("user", "tool_calls", "tool_results", "errors")

#: Counters by name.
Spent = dict[str, int]


class _Builder(StateBuilder):
    """The fold, which makes a record (`index_used`) of each response; somebody takes it before the next event."""

    __slots__ = ("response",)

    def __init__(self, *, history: bool = False) -> None:
        super().__init__(history=history)
        self.response: bytes | None = None

    def _count_response(self, data: Data, spoke: bool) -> None:
        super()._count_response(data, spoke)
        seq = self._last.seq if self._last else 0
        self.response = index_used.record(seq, data, self._counts(data), spoke=spoke)


class Part(NamedTuple):
    """A run of events in a line: from event ``first`` to ``upto``; ``spent`` is its own."""

    first: int
    upto: int
    spent: Spent


class LineFold:
    """The fold of one line: `push` its events in order; `freeze` and `thaw` to go on another time."""

    def __init__(self) -> None:
        self.seq = 0
        self.first_words = ""
        #: Where what the line's own branch wrote begins.
        self.own = 0
        self._builder = _Builder()
        self._state: SessionState | None = None
        # Of each part: first seq, and what had been spent before.
        self._begun: list[tuple[int, Spent]] = []

    @classmethod
    def thaw(cls, kept: bytes) -> LineFold:
        """The fold that `freeze` has written down."""
        frozen = json.loads(decompress(kept))
        self = cls()
        self.seq, self.first_words, self.own = frozen["seq"], frozen["first_words"], frozen["own"]
        self._begun = [(first, spent) for first, spent in frozen["begun"]]
        self._builder = cast(_Builder, _Builder.thaw(frozen["builder"]))
        return self

    def freeze(self) -> bytes:
        """All that is needed to go on, deflated: ids of all responses are in it."""
        frozen = {"seq": self.seq, "first_words": self.first_words, "own": self.own, "begun": self._begun}
        return compress(json.dumps(frozen | {"builder": self._builder.freeze()}, separators=(",", ":")).encode())

    def push(self, event: Event, *, begins: bool) -> bytes | None:
        """Take the next event, with which a part ``begins`` or not. The record of a response."""
        kind = event.type
        if begins:
            self._begun.append((event.seq, spent(self.state()) if self.seq else {}))
        self._state = None
        builder = self._builder
        builder.response = None
        builder.push(event)
        self.seq = event.seq
        if not self.first_words and kind == "message":
            self.first_words = _first_words(event)
        return builder.response

    def state(self) -> SessionState:
        """The state after the newest event. Not to be changed."""
        if self._state is None:
            self._state = self._builder.state()
        return self._state

    def parts(self) -> list[Part]:
        """The parts of the line so far, oldest first."""
        ends = [(first - 1, before) for first, before in self._begun[1:]]
        ends.append((self.seq, spent(self.state())))
        return [
            Part(first, upto, {name: after[name] - before.get(name, 0) for name in after})
            for (first, before), (upto, after) in zip(self._begun, ends, strict=True)
        ]

    @property
    def places(self) -> int:
        """How many parts there are so far."""
        return len(self._begun)


def spent(state: SessionState) -> Spent:
    """What a state counts, to be added up; what responses used is in their records."""
    counts = (state.turns["user"], state.tool_calls, state.tool_results, len(state.errors))
    return dict(zip(_SPENT, counts, strict=True))


def splits(event: Event) -> bool:
    """Whether what a branch or a session wrote begins with an event."""
    if event.type not in _SPLITS:
        return False
    try:
        origin = branch_origin(event)
    except FormatError:
        return False
    return origin is not None and origin[1] == event.seq - 1


def _first_words(event: Event) -> str:
    found = words(event) if not event.withheld and begins_turn(event, data_of(event)) else None
    return " ".join(found.text[: 3 * _FIRST_WORDS].split())[:_FIRST_WORDS] if found else ""


def same_past(store: Store, one: bytes, other: bytes, seq: int) -> bool:
    """Whether two root trees hold the same bytes for events 1 to ``seq``, payloads and side files included.

    False also when a tree is not to be had. Reads six trees, however long the lines are.
    """
    try:
        for name in (objects.root_entry(seq), objects.middle_entry(seq)):
            if one == other:
                return True
            (before, one), (there, other) = (_down(store.read(tree, b"tree"), name) for tree in (one, other))
            if before != there:
                return False
        return one == other or _leaf(store, one, seq) == _leaf(store, other, seq)
    except (VerificationError, FormatError):
        return False


def _down(tree: bytes, name: bytes) -> tuple[bytes, bytes]:
    """What a tree has before the entry ``name``, and the entry's id."""
    entry = b"40000 %s\x00" % name
    at = tree.find(entry)
    if at < 0:
        raise VerificationError("bad-tree", f"a tree has no entry {name.decode()}")
    return tree[:at], tree[at + len(entry) : at + len(entry) + 20]


def _leaf(store: Store, leaf: bytes, seq: int) -> list[Any]:
    return [entry for entry in objects.leaf_events(store.read(leaf, b"tree")) if entry[0] <= seq]
