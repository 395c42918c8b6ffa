"""Branches into the index: the whole of a new one, or what a known one has grown by.

Floor 4. What is in git already and indexed is not read again, unless the fold has to begin before it; a branch that
is not what it was (a moved ref, an erased payload) is taken out and indexed anew.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterable, Mapping
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple

from gitjournal import refs
from gitjournal.errors import DamagedTail, JournalError
from gitjournal.index_fold import APART, LineFold, same_past
from gitjournal.index_line import Line, apart
from gitjournal.index_rows import Held, Known, Sum, about_branch, about_session, as_text, now, total
from gitjournal.index_segments import Segments
from gitjournal.index_shelf import Shelf
from gitjournal.index_sum import from_events
from gitjournal.index_text import encodable
from gitjournal.lineage import Begin, begins, said
from gitjournal.refs import JOURNAL_SESSION, TRUNK, Name

if TYPE_CHECKING:
    from gitjournal.index_look import Mark
    from gitjournal.journal import Journal

#: Called with the number of events that were read since the last call.
Progress = Callable[[int], None]


class _Branch(NamedTuple):
    """A branch to be indexed: its number in the index, and whether it is there already and has only grown."""

    name: Name
    path: str
    number: int
    grown: bool


class _Row(NamedTuple):
    """What a branch's row says."""

    mark: Mark
    head: str
    tree: bytes | None = None
    in_git: int = 0
    marks: bytes = b""
    own: int = 0
    error: str = ""
    about: dict[str, Any] | None = None


class Indexer:
    """Puts branches into an index. ``whole``: the index is empty, and all branches come."""

    def __init__(self, journal: Journal, db: sqlite3.Connection, *, whole: bool, progress: Progress) -> None:
        self._journal = journal
        self._store = journal.store
        self._db = db
        self._whole = whole
        self._progress = progress
        self._shelf = Shelf(db, aside=whole)
        self._segments = Segments(db, self._shelf, journal.store, whole=whole)
        self._next: int = db.execute("SELECT coalesce(max(id), 0) + 1 FROM branch").fetchone()[0]
        # The branches of the session that is being indexed, while all are.
        self._known: list[Known] = []

    @property
    def removed(self) -> bool:
        """Whether text was taken out."""
        return self._segments.removed

    def take(self, paths: Iterable[str], marks: Mapping[str, Mark]) -> None:
        """Bring branches (``session/branch``) up to date: those that are gone go, the others are indexed."""
        ours = []
        for path in paths:
            name = refs.parse_ref(self._store.prefix + path, self._store.prefix)
            if name is None:
                self._foreign(path, marks.get(path, ("", "")))
            elif name.session != JOURNAL_SESSION and not self._stayed(name, path, marks.get(path, ("", ""))):
                ours.append((name, path))
        ours.sort(key=lambda one: (one[0].session, one[0].branch != TRUNK, one[0].branch))
        branches = [self._sorted_out(name, path) for name, path in self._oldest_first(ours)]
        self._segments.settle()
        for session, group in groupby(branches, key=lambda branch: branch.name.session):
            for branch in group:
                self._index(branch, marks.get(branch.path, ("", "")))
            self._segments.settle()
            self._sum_up(session)

    def _oldest_first(self, ours: list[tuple[Name, str]]) -> list[tuple[Name, str]]:
        """Sessions in the order in which they were written last, as far as git has that: search looks at newest first.

        It finds them whatever their order is, and faster if those that follow each other stand together.
        """
        heads = self._store.heads()

        def written(one: tuple[Name, str]) -> int:
            try:
                return self._journal.chain(one[0]).read_commit(bytes.fromhex(heads[one[1]])).time
            except (JournalError, KeyError, ValueError):
                return 0

        sessions = [list(group) for _, group in groupby(ours, key=lambda one: one[0].session)]
        sessions.sort(key=lambda group: max(map(written, group)))
        return [one for group in sessions for one in group]

    def close(self, *, done: bool) -> None:
        """Write what is still on its way; unless ``done``, the caller throws all of it away."""
        if done:
            self._shelf.close()
        else:
            self._shelf.abandon()

    def _foreign(self, path: str, mark: Mark) -> None:
        """Note a ref that is no branch of ours, so that it is not looked into again before it moves."""
        self._db.execute("DELETE FROM branch WHERE path = ?", (path,))
        if mark != ("", ""):
            self._next += 1
            self._shelf.add("branch", (self._next - 1, path, "", "", "", *mark, None, 0, b"", 0, "", "{}"))

    # --- what is there ---------------------------------------------------------------------------

    def _stayed(self, name: Name, path: str, mark: Mark) -> bool:
        """Whether only the place of its ref is another one: git has packed it. Then that is noted."""
        query = "SELECT head, tail, error FROM branch WHERE path = ?"
        row = None if self._whole else self._db.execute(query, (path,)).fetchone()
        if row is None or row[2] or row[1] != mark[1] or mark[1].endswith("?"):
            return False
        try:
            oid = self._store.read_ref(self._journal.chain(name).ref)
        except JournalError:
            return False
        if oid is None or oid.hex() != row[0]:
            return False
        self._db.execute("UPDATE branch SET loose = ? WHERE path = ?", (mark[0], path))
        return True

    def _sorted_out(self, name: Name, path: str) -> _Branch:
        """The branch, after it was taken out of the index if it is not what it was."""
        query = "SELECT id, tree, in_git, error FROM branch WHERE path = ?"
        row = None if self._whole else self._db.execute(query, (path,)).fetchone()
        if row is not None:
            number, tree, in_git, error = row
            if not error and tree is not None and self._grew(name, tree, in_git):
                return _Branch(name, path, number, True)
            self._release(number)
        self._next += 1
        return _Branch(name, path, self._next - 1, False)

    def _grew(self, name: Name, tree: bytes, in_git: int) -> bool:
        """Whether a branch still has the events that it had in git, with the same payloads."""
        chain = self._journal.chain(name)
        try:
            oid = self._store.read_ref(chain.ref)
            commit = chain.read_commit(oid) if oid else None
        except JournalError:
            return False
        return commit is not None and commit.seq >= in_git and same_past(self._store, tree, commit.tree, in_git)

    def _release(self, number: int) -> None:
        self._segments.release(number)
        self._db.execute("DELETE FROM saved WHERE branch = ?", (number,))
        self._db.execute("DELETE FROM branch WHERE id = ?", (number,))

    # --- one branch ------------------------------------------------------------------------------

    def _index(self, branch: _Branch, mark: Mark) -> None:
        line: Line | None = None
        if branch.grown:
            # Of a tail that was written anew it may hold less.
            self._segments.loosen(branch.number)
        try:
            chain = self._journal.chain(branch.name)
            view = chain.snapshot()
            if view.tail.damage:
                raise DamagedTail(f"{chain.tail_path}: {view.tail.damage}")
            if view.head is None:
                # A tail in which nothing is yet: noted, so that it is not looked into again before it is written to.
                self._replace(branch, _Row(mark, ""))
                return
            line = Line(self._segments, chain, view)
            self._resume(line, branch)
            line.run(self._progress)
        except JournalError as error:
            if line is not None:
                self._segments.leave(line.touched, line.tree, line.in_git)
            self._unreadable(branch, mark, error)
            return
        self._write(branch, mark, line, view.oid.hex() if view.oid else "")

    def _resume(self, line: Line, branch: _Branch) -> None:
        """Let a long line begin where a fold of it, or of the branch that it begins on, was kept."""
        if line.in_git < APART:
            return
        number, upto = self._begins_on(branch, line)
        query = "SELECT seq, state FROM saved WHERE branch = ? AND seq <= ? ORDER BY seq DESC LIMIT 1"
        kept = self._db.execute(query, (number, upto)).fetchone()
        if kept is None or not (branch.grown or self._shares(number, line, kept[0])):
            return
        line.resume(LineFold.thaw(kept[1]), self._segments.of_branch(number))

    def _begins_on(self, branch: _Branch, line: Line) -> tuple[int, int]:
        """The number of the branch that has the line's first events already, and how many; (0, 0) for none."""
        if branch.grown:
            return branch.number, line.in_git
        begin = begins(self._journal, branch.name)
        if begin.parent is None:
            return 0, 0
        self._shelf.flush()
        row = self._db.execute("SELECT id FROM branch WHERE path = ?", (begin.parent.path,)).fetchone()
        return (row[0], begin.after) if row else (0, 0)

    def _shares(self, number: int, line: Line, seq: int) -> bool:
        (tree,) = self._db.execute("SELECT tree FROM branch WHERE id = ?", (number,)).fetchone()
        return None not in (tree, line.tree) and same_past(self._store, tree, line.tree or b"", seq)

    def _write(self, branch: _Branch, mark: Mark, line: Line, head: str) -> None:
        if branch.grown:
            self._db.execute("DELETE FROM part WHERE branch = ?", (branch.number,))
        self._segments.write(branch.number, line.held(), line.tree, line.in_git, line.marks)
        about = about_branch(line.fold.state(), line.fold.first_words, self._begin(branch.name, line))
        self._replace(branch, _Row(mark, head, line.tree, line.in_git, line.marks, line.fold.own, "", about))
        self._keep(branch, line.saves)
        if self._whole:
            held = [Held(one.id, one.session, *part) for one, part in line.parts()]
            self._known.append(Known(branch.name.branch, about, "", held))

    def _begin(self, name: Name, line: Line) -> Begin:
        """Where a branch says that it begins; the trunk of a session that is no fork is not read for it."""
        if name.branch == TRUNK and next(line.parts())[0].session == name.session:
            return Begin()
        return said(self._journal.chain(name))

    def _keep(self, branch: _Branch, saves: Mapping[int, bytes]) -> None:
        """Keep folds, no closer to each other than those of a line that is read at once."""
        rows = self._db.execute("SELECT seq FROM saved WHERE branch = ?", (branch.number,)) if branch.grown else ()
        there = [seq for (seq,) in rows]
        before = 0
        for seq, after in zip(there, [*there[1:], *sorted(saves)[:1]], strict=False):
            if after - before < apart(before):
                self._db.execute("DELETE FROM saved WHERE branch = ? AND seq = ?", (branch.number, seq))
            else:
                before = seq
        for seq, state in saves.items():
            self._shelf.add("saved", (branch.number, seq, state))

    def _unreadable(self, branch: _Branch, mark: Mark, error: JournalError) -> None:
        if branch.grown:
            self._release(branch.number)
        text = f"[{error.code}] {error}"
        self._replace(branch, _Row(mark, mark[0], error=text))
        if self._whole:
            self._known.append(Known(branch.name.branch, {}, text, ()))

    def _replace(self, branch: _Branch, row: _Row) -> None:
        """Put the row of a branch in the place of its old one; none for a branch that is not there at all."""
        if branch.grown:
            self._db.execute("DELETE FROM branch WHERE id = ?", (branch.number,))
        if row.about or row.error or row.mark != ("", ""):
            place = (branch.number, branch.path, branch.name.session, branch.name.branch)
            rest = (row.tree, row.in_git, row.marks, row.own, row.error, as_text(row.about or {}))
            self._shelf.add("branch", (*place, row.head, *row.mark, *rest))

    # --- one session -----------------------------------------------------------------------------

    def _sum_up(self, session: str) -> None:
        """Write the row of a session anew, from those of its branches."""
        known, self._known = self._known if self._whole else self._branches(session), []
        if not self._whole:
            self._db.execute("DELETE FROM session WHERE session = ?", (session,))
            self._db.execute("DELETE FROM label WHERE session = ?", (session,))
        if not known:
            return
        about = about_session(session, known, self._total(session, known))
        if self._whole:
            # Events of a session count in its own row only.
            self._segments.free(part.segment for one in known for part in one.parts if part.session == session)
        parent = (about["parent"] or {}).get("session", "")
        status, wakes = now(about["states"])[0] or "", bool(about["wakes"] or about["error"])
        names = (encodable(about["project"] or ""), encodable(parent))
        columns = (about["updated"], int(bool(about["archived"])), *names, status, int(wakes))
        self._shelf.add("session", (session, *columns, as_text(about)))
        for label in about["labels"] or ():
            self._shelf.add("label", (encodable(label), session))

    def _total(self, session: str, known: list[Known]) -> Sum:
        segments = self._segments
        if any(segments.is_twin(segments.of_id(part.segment)) for branch in known for part in branch.parts):
            # One line has lost a payload that another still has: the same event stands in two segments.
            return from_events(self._journal, session)

        def responses(segment: int, after: int, upto: int) -> bytes:
            return segments.responses(segments.of_id(segment), after, upto)

        return total(session, known, responses)

    def _branches(self, session: str) -> list[Known]:
        self._shelf.flush()
        query = (
            "SELECT id, name, error, about FROM branch WHERE session = ? AND (about <> '{}' OR error <> '') "
            "ORDER BY name <> 'main', name"
        )
        rows = self._db.execute(query, (session,)).fetchall()
        return [Known(name, json.loads(about), error, self._held(number)) for number, name, error, about in rows]

    def _held(self, branch: int) -> list[Held]:
        parts = self._segments.parts(branch)
        return [Held(one.id, one.session, one.first, upto, json.loads(spent)) for one, upto, spent in parts]
