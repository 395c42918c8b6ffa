"""One line of events into its segments: which documents are new, and where the fold is worth keeping.

Floor 4.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from gitjournal.index_fold import APART, LineFold, Part

if TYPE_CHECKING:
    from gitjournal.chain import Chain, Snapshot
    from gitjournal.event import Event
    from gitjournal.index_segments import Segment, Segments

_STEP = 1000


class Line:
    """The line of one branch, as a look (``view``) at it has found it."""

    def __init__(self, segments: Segments, chain: Chain, view: Snapshot, own: Mapping[str, Segment]) -> None:
        """``own``: the segments that are known to be the line's, by the hash of their first event."""
        self.fold = LineFold()
        #: Folds in the middle that should be kept, by seq.
        self.saves: dict[int, str] = {}
        self.tree = view.commit.tree if view.commit else None
        self.in_git = view.in_git
        self._head = view.head.seq if view.head else 0
        self._segments = segments
        self._chain = chain
        self._own = own
        self._held: list[Segment] = []
        self._touched: list[tuple[Segment, int, int]] = []
        # First seq and hash of the newest part, and whether the line is known to be in it what its segment is.
        self._part = (0, "")
        self._checked = True
        # Whether nobody else's tail is in that segment.
        self._mine = True

    def resume(self, fold: LineFold, held: list[Segment]) -> None:
        """Go on after a fold that was kept; ``held`` are the segments of the line, of which it has the first ones."""
        self.fold = fold
        self._held = held[: fold.places]
        self._part = fold.part
        # Of another branch: it may go on otherwise after that.
        self._checked = self._mine = bool(self._own)
        self._touch(self._held[-1])

    def run(self, progress: Callable[[int], None]) -> None:
        """Read the rest of the line. Whatever reading it raises: then the caller calls `undo`."""
        fold, in_git, seen = self.fold, self.in_git, 0
        kept = fold.seq
        for event in self._chain.events(fold.seq, self._head):
            if fold.push(event):
                self._leave(event.seq - 1)
                self._enter(event)
            self._document(event)
            if event.seq - kept >= APART and (event.seq == in_git or apart(kept) <= event.seq - kept <= in_git - kept):
                kept = event.seq
                self.saves[kept] = fold.freeze()
            seen += 1
            if seen == _STEP:
                progress(seen)
                seen = 0
        progress(seen)
        self._leave(self._head)
        self._end()

    def held(self) -> Iterator[tuple[Segment, Part]]:
        """The segments of the line with its parts, oldest first."""
        return zip(self._held, self.fold.parts(), strict=True)

    def undo(self) -> None:
        """Take out what this run has put in."""
        for segment, last, tail in self._touched:
            self._segments.undo(segment, last, tail)

    # --- segments --------------------------------------------------------------------------------

    def _enter(self, event: Event) -> None:
        digest = event.hash
        self._part = event.seq, digest
        segment = self._own.get(digest)
        self._checked = segment is not None
        if segment is None:
            known = self._segments.of_hash(digest)
            segment = known[0] if known else self._segments.new(event.seq, digest)
            self._checked = not known
        self._mine = self._checked
        self._held.append(segment)
        self._touch(segment)

    def _document(self, event: Event) -> None:
        segment = self._held[-1]
        if event.seq > segment.last:
            if not self._segments.document(segment, event, mine=self._mine):
                self._other(self._segments.new(*self._part), event.seq)
        elif event.seq > self.in_git and not self._mine and not self._segments.says(segment, event):
            # What is only in this line's tail, trees do not say.
            self._other(self._segments.new(*self._part), event.seq)
        elif event.seq == segment.last:
            self._check(event.seq)

    def _other(self, segment: Segment, upto: int) -> None:
        """Go on in another segment, which gets the newest part up to event ``upto``."""
        self._held[-1] = segment
        self._mine = True
        self._touch(segment)
        for event in self._chain.events(max(self._part[0] - 1, segment.last), upto):
            self._segments.document(segment, event, mine=True)

    def _leave(self, upto: int) -> None:
        """The newest part ends at event ``upto``."""
        if self._held:
            self._check(upto)
            segment = self._held[-1]
            segment.last = max(segment.last, min(upto, self.in_git))

    def _end(self) -> None:
        """The line ends in a segment that is its own, with what is in its tail."""
        digest, path = self._part[1], self._chain.name.path
        if self.fold.owner != self._chain.name:
            # A ref that somebody has copied: it may go on otherwise than the branch whose line it is.
            last, tail = next((last, tail) for one, last, tail in self._touched if one is self._held[-1])
            self._segments.undo(self._held[-1], last, tail)
            known = self._segments.of_hash(f"{digest} {path}")
            self._part = self._part[0], f"{digest} {path}"
            self._other(known[0] if known else self._segments.new(*self._part), self._head)
            self._held[-1].last = max(self._held[-1].last, self.in_git)
        segment = self._held[-1]
        if self._own and segment.tail > self._head:
            self._segments.drop(segment, self._head + 1, segment.tail)
            segment.tail = self._head
        if self._head > self.in_git:
            segment.tail = max(segment.tail, self._head)

    def _check(self, upto: int) -> None:
        """Take another segment if the line is not what is indexed in the newest one, up to event ``upto``."""
        if self._checked:
            return
        self._checked = True
        for segment in self._segments.of_hash(self._part[1]):
            if self._segments.fits(segment, self.tree, min(upto, self.in_git, segment.last)):
                break
        else:
            segment = self._segments.new(*self._part)
        if segment is not self._held[-1]:
            self._other(segment, upto)

    def _touch(self, segment: Segment) -> None:
        self._touched.append((segment, segment.last, segment.tail))


def apart(seq: int) -> int:
    """How many events behind ``seq`` the next fold is kept: the longer the line the rarer, for a long one is large."""
    return max(APART, seq // 4)
