"""One branch on its way into the index: its fold, the parts that its line is made of, and what trees share.

Floor 4. A part is a run of events that one branch wrote. Where a part begins the events say themselves, so every
branch that has inherited them finds the same parts, whichever branches are still there.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from gitjournal import objects
from gitjournal.chain import branch_origin
from gitjournal.errors import FormatError, VerificationError
from gitjournal.index_text import data_of, words
from gitjournal.refs import TRUNK, Name
from gitjournal.state import StateBuilder
from gitjournal.state_read import begins_turn

if TYPE_CHECKING:
    from gitjournal.event import Event
    from gitjournal.state import SessionState
    from gitjournal.store import Store

#: Events after which a fold is worth keeping, and how far apart two that are kept should be at the least.
APART = 1000
_FIRST_WORDS = 200
_SPLITS = frozenset({"session.branch", "session.fork"})
_SPENT = ("user", "model", "tool_calls", "tool_results", "errors")

#: Counters by name.
Spent = dict[str, int]


class Part(NamedTuple):
    """A run of events in a line: from event ``first``, whose hash is ``hash``, to ``upto``; ``spent`` is its own."""

    first: int
    hash: str
    upto: int
    spent: Spent


class LineFold:
    """The fold of one line: `push` its events in order; `freeze` and `thaw` to go on another time."""

    def __init__(self) -> None:
        self.seq = 0
        self.first_words = ""
        self._builder = StateBuilder(history=False)
        self._state: SessionState | None = None
        #: The branch that wrote the newest part.
        self.owner = Name("")
        # Of each part: first seq, its hash, and what had been spent before.
        self._begun: list[tuple[int, str, Spent]] = []

    @classmethod
    def thaw(cls, text: str) -> LineFold:
        """The fold that `freeze` has written down."""
        frozen = json.loads(text)
        self = cls()
        self.seq, self.first_words, self.owner = frozen["seq"], frozen["first_words"], Name(*frozen["owner"])
        self._begun = [(first, digest, spent) for first, digest, spent in frozen["begun"]]
        self._builder = StateBuilder.thaw(frozen["builder"])
        return self

    def freeze(self) -> str:
        """All that is needed to go on."""
        frozen = {"seq": self.seq, "first_words": self.first_words, "begun": self._begun}
        frozen["owner"] = [self.owner.session, self.owner.branch]
        return json.dumps(frozen | {"builder": self._builder.freeze()}, separators=(",", ":"))

    def push(self, event: Event) -> bool:
        """Take the next event; whether a part begins with it."""
        kind = event.type
        begins = not self._begun or (kind in _SPLITS and _splits(event))
        if begins:
            self.owner = _owner(event, kind)
            self._begun.append((event.seq, event.hash, spent(self.state()) if self.seq else {}))
        self._state = None
        self._builder.push(event)
        self.seq = event.seq
        if not self.first_words and kind == "message":
            self.first_words = _first_words(event)
        return begins

    def state(self) -> SessionState:
        """The state after the newest event. Not to be changed."""
        if self._state is None:
            self._state = self._builder.state()
        return self._state

    def parts(self) -> list[Part]:
        """The parts of the line so far, oldest first."""
        ends = [(first - 1, before) for first, _, before in self._begun[1:]]
        ends.append((self.seq, spent(self.state())))
        return [
            Part(first, digest, upto, {name: after[name] - before.get(name, 0) for name in after})
            for (first, digest, before), (upto, after) in zip(self._begun, ends, strict=True)
        ]

    @property
    def part(self) -> tuple[int, str]:
        """First seq, and its hash, of the newest part."""
        return self._begun[-1][:2]

    @property
    def places(self) -> int:
        """How many parts there are so far."""
        return len(self._begun)


def spent(state: SessionState) -> Spent:
    """What a state counts, to be added up."""
    counts = (state.turns["user"], state.turns["model"], state.tool_calls, state.tool_results, len(state.errors))
    return dict(zip(_SPENT, counts, strict=True)) | state.usage


def _owner(event: Event, kind: str) -> Name:
    """The branch that begins with an event."""
    branch = data_of(event).get("branch") if kind == "session.branch" else TRUNK
    return Name(event.session, branch if isinstance(branch, str) else TRUNK)


def _splits(event: Event) -> bool:
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
