"""One line of events into its segments: which documents are new, and where the fold is worth keeping.

Floor 4.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from gitjournal.index_fold import APART, LineFold, splits
from gitjournal.index_rows import as_text
from gitjournal.index_segments import mark

if TYPE_CHECKING:
    from gitjournal.chain import Chain, Snapshot
    from gitjournal.event import Event
    from gitjournal.index_fold import Part
    from gitjournal.index_segments import Segment, Segments

_STEP = 1000


class Line:
    """The line of one branch, as a look (``view``) at it has found it."""

    def __init__(self, segments: Segments, chain: Chain, view: Snapshot) -> None:
        self.fold = LineFold()
        #: Folds in the middle that should be kept, by seq.
        self.saves: dict[int, bytes] = {}
        self.tree = view.commit.tree if view.commit else None
        self.in_git = view.in_git
        #: The marks (`index_segments.mark`) of the events that are not in git.
        self.marks = b""
        self._head = view.head.seq if view.head else 0
        self._segments = segments
        self._chain = chain
        self._held: list[Segment] = []
        # Up to which event trees say that the line is what its newest segment is.
        self._agreed = 0

    def resume(self, fold: LineFold, held: list[Segment]) -> None:
        """Go on after a fold that was kept; ``held`` are the segments of the line, of which it has the first ones."""
        self.fold = fold
        self._held = held[: fold.places - 1]
        self._go_on_in(held[fold.places - 1])

    def run(self, progress: Callable[[int], None]) -> None:
        """Read the rest of the line. Whatever reading it raises: then the caller lets go of `touched`."""
        fold, in_git, segments, seen = self.fold, self.in_git, self._segments, 0
        kept = fold.seq
        for event in self._chain.events(fold.seq, self._head):
            seq, places = event.seq, len(self._held)
            segment = self._place(event)
            response = fold.push(event, begins=len(self._held) > places)
            if seq > segment.upto:
                segments.document(segment, event, response)
            if seq > in_git:
                self.marks += mark(event)
            elif seq - kept >= APART and (seq == in_git or apart(kept) <= seq - kept):
                kept = seq
                self.saves[kept] = fold.freeze()
            seen += 1
            if seen == _STEP:
                progress(seen)
                seen = 0
        progress(seen)

    def parts(self) -> Iterator[tuple[Segment, Part]]:
        """The segments of the line with what it has of each, oldest first."""
        return zip(self._held, self.fold.parts(), strict=True)

    def held(self) -> Iterator[tuple[Segment, int, str]]:
        """(segment, up to which event, what these count) of each part, as rows have it."""
        return ((segment, part.upto, as_text(part.spent)) for segment, part in self.parts())

    @property
    def touched(self) -> list[Segment]:
        """The segments that the line has come through."""
        return self._held

    # --- segments --------------------------------------------------------------------------------

    def _place(self, event: Event) -> Segment:
        """The segment that an event belongs to."""
        now = self._held[-1] if self._held else None
        seq = event.seq
        if now is None or event.session != now.session or splits(event):
            self.fold.own = seq
            return self._go_on_in(self._segments.begun(now, event, parted=False))
        if seq <= self._agreed:
            return now
        if seq > now.upto:
            # Somebody may have gone on from here before.
            other = self._segments.find(now, event) if seq in self._segments.parted else None
            return self._go_on_in(other) if other else now
        if self._segments.has(now, event):
            return now
        return self._go_on_in(self._segments.begun(now, event, parted=True))

    def _go_on_in(self, segment: Segment) -> Segment:
        self._held.append(segment)
        self._agreed = self._segments.agreed(segment, self.tree, self.in_git)
        return segment


def apart(seq: int) -> int:
    """How many events behind ``seq`` the next fold is kept: the longer the line the rarer, for a long one is large."""
    return max(APART, seq // 4)
