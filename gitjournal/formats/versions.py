"""The versions of a source that a journal has, and on which branches the records of each of them are.

A source can be there in several versions, the generations: the trunk is the first one, each branch ``import-N`` another
that differs from some record on. A rewind within a source is a branch too: ``rewind-N``, or ``import-N.rewind-M``. So
the records of one generation are in runs, each of which is a piece of one branch.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import NamedTuple

from gitjournal import lineage
from gitjournal.journal import Journal
from gitjournal.refs import TRUNK, Name

#: Members of a ``session.branch``: the number of the record that the branch begins with; and for ``import-N``, on what
#: branch the generation began that has the records before.
POSITION = "position"
GENERATION = "generation"
_BASE = re.compile(r"import-[1-9][0-9]*")
_REWIND = re.compile(r"(?:(import-[1-9][0-9]*)\.)?rewind-[1-9][0-9]*")


class Run(NamedTuple):
    """Records that are events of one branch, one after the other."""

    #: Number of the first record, and the seq of its event.
    position: int
    name: Name
    first: int


class Generation(NamedTuple):
    """One version of a source."""

    #: The branch that it began on: the trunk, or ``import-N``.
    name: Name
    #: The event (branch and seq) behind which its first record stands.
    root: tuple[Name, int]
    runs: list[Run]

    def rewind(self, taken: set[str]) -> str:
        """A name for its next rewind."""
        begin = "" if self.name.branch == TRUNK else f"{self.name.branch}."
        return next(name for n in range(1, len(taken) + 2) if (name := f"{begin}rewind-{n}") not in taken)


def place(runs: list[Run], number: int) -> tuple[Name, int] | None:
    """The event (branch and seq) that record ``number`` is."""
    at = bisect_right(runs, number, key=lambda run: run.position)
    return (runs[at - 1].name, runs[at - 1].first + number - runs[at - 1].position) if at else None


def generations(journal: Journal, session: str) -> list[Generation]:
    """The versions of a source, the trunk first; none when the session is new."""
    names = journal.branches(session)
    found: dict[str, Generation] = {}
    trunk = Name(session)
    if trunk in names:
        begin = lineage.declared(journal.chain(trunk))
        root = begin.after + 1
        found[TRUNK] = Generation(trunk, (trunk, root), [Run(1, trunk, root + 1)])
    bases = sorted((name for name in names if _BASE.fullmatch(name.branch)), key=lambda name: int(name.branch[7:]))
    rewinds = [(name, match[1] or TRUNK) for name in names if (match := _REWIND.fullmatch(name.branch))]
    starts = {name: _start(journal, name) for name in [*bases, *(name for name, _ in rewinds)]}
    for base in [trunk, *bases]:
        if base in starts and not _based(found, base, starts):
            continue
        own = [(starts[name], name) for name, of in rewinds if of == base.branch]
        if base.branch in found:
            runs = found[base.branch].runs
            runs.extend(Run(start.position, name, start.after + 2) for start, name in own if start.position)
            runs.sort()
    return list(found.values())


class _Start(NamedTuple):
    #: 0 when it is not said.
    position: int
    after: int
    parent: Name | None
    #: ``""`` when it is not said.
    generation: str


def _start(journal: Journal, name: Name) -> _Start:
    chain = journal.chain(name)
    begin = lineage.declared(chain)
    said = chain.event(begin.after + 1).stored_data if begin.parent else {}
    position, generation = said.get(POSITION), said.get(GENERATION)
    return _Start(
        position if type(position) is int and position > 0 else 0,
        begin.after,
        begin.parent,
        generation if type(generation) is str else "",
    )


def _based(found: dict[str, Generation], base: Name, starts: dict[Name, _Start]) -> bool:
    """Enter the generation that begins with branch ``base``; False when nobody can tell what it goes on from."""
    start = starts[base]
    parent = start.parent
    match = _REWIND.fullmatch(parent.branch) if parent else None
    # Journals of earlier versions do not say it, and have no rewinds.
    of = found.get(start.generation or (match and match[1]) or (parent.branch if parent and not match else TRUNK))
    if of is None or parent is None:
        return False
    position = start.position or _implied(of, parent, start.after)
    if not position:
        return False
    before = [run for run in of.runs if run.position < position]
    found[base.branch] = Generation(base, of.root, [*before, Run(position, base, start.after + 2)])
    return True


def _implied(of: Generation, parent: Name, after: int) -> int:
    """The number of the record behind event ``after``; journals of earlier versions do not say it."""
    if (parent, after) == of.root:
        return 1
    runs = [run for run in of.runs if run.name == parent and run.first <= after]
    return runs[-1].position + after - runs[-1].first + 1 if runs else 0
