"""The index: a grown one is the same as one made anew, and nothing that happens to the file costs more than time."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
import threading
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing, nullcontext
from pathlib import Path
from typing import Any, cast
from zlib import decompress

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from support import Gj, as_nobody, event, forked, git, git_text

import gitjournal
from gitjournal import (
    erase,
    foreign,
    index,
    index_build,
    index_db,
    index_fold,
    index_line,
    index_look,
    index_query,
    index_rank,
    index_used,
    rules,
    writer,
)
from gitjournal.branches import rename
from gitjournal.errors import JournalError, StorageError, UsageError
from gitjournal.index_text import MOST_TOOLS, Words, moment, words
from gitjournal.journal import Journal
from gitjournal.refs import Name
from gitjournal.writer import Draft

SECRET = "zanzibar"


def file_of(journal: Journal) -> Path:
    return index_db.place(journal.path)


def said(text: str) -> dict[str, Any]:
    return {"role": "user", "parts": [{"type": "text", "content": text}]}


def answered(text: str, number: int, call: str = "") -> dict[str, Any]:
    parts: list[Any] = [{"type": "text", "content": text}]
    if call:
        parts.append({"type": "tool_call", "id": call, "name": "shell", "arguments": {"command": f"run {text}"}})
    usage = {"gen_ai.usage.input_tokens": 10 * number, "gen_ai.usage.output_tokens": number}
    return {"parts": parts, "response.id": f"r{number % 7}", "usage": usage}


class Asked:
    """Asks a journal's index, and keeps what is said besides."""

    def __init__(self, journal: Journal) -> None:
        self.journal = journal
        self.notes: list[str] = []

    def sessions(self, **filters: Any) -> list[dict[str, Any]]:
        return index.ask(self.journal, lambda db: index_query.sessions(db, **filters), say=self.notes.append)

    def search(self, text: str, **filters: Any) -> list[str]:
        found = index.ask(
            self.journal, lambda db: index_query.search(db, self.journal, text, **filters), say=self.notes.append
        )
        return [f"{hit.name}@{hit.seq}" for hit in found]

    def content(self) -> dict[str, Any]:
        return index.ask(self.journal, lambda db: content(db, self.journal), say=self.notes.append)


@pytest.fixture
def asked(journal: Journal) -> Asked:
    return Asked(journal)


def content(db: sqlite3.Connection, journal: Journal) -> dict[str, Any]:
    """All that an index says, without the numbers of its rows and how lines are cut into segments."""
    documents = (
        "SELECT stamp.id, session, stamp.id & 134217727, ts FROM stamp LEFT JOIN segment ON segment.id = stamp.id >> 27"
    )
    branches = (
        "SELECT path, session, name, head, tree, in_git, marks, own, error, about FROM branch "
        "WHERE about <> '{}' OR error <> ''"
    )
    lines = (
        "SELECT stamp.id, path FROM branch JOIN part ON branch = branch.id JOIN segment ON segment.id = segment "
        "JOIN stamp ON stamp.id >> 27 = segment AND stamp.id & 134217727 <= part.upto"
    )
    said = tokens(db)
    found = {"branches": branches, "sessions": "SELECT * FROM session", "labels": "SELECT * FROM label"}
    rows = {name: sorted(db.execute(query).fetchall(), key=repr) for name, query in found.items()}
    stamped = {row: about for row, *about in db.execute(documents).fetchall()}
    assert stamped.keys() == said.keys(), "what is searched has a time"
    rows["words"] = sorted((*about, said[row]) for row, about in stamped.items())
    rows["lines"] = sorted((path, *stamped[row], said[row]) for row, path in db.execute(lines).fetchall())
    rows["parts"] = sorted(map(repr, _counted(db)))
    # What is found, not only what is kept.
    rows["found"] = [(text, index_query.search(db, journal, text, **how)) for text in WORDS for how in HOW]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(index_rank, "MOST_RANKED", 3)
        rows["found"] += [(text, index_query.search(db, journal, text, **how)) for text in WORDS for how in HOW]
    return rows


def tokens(db: sqlite3.Connection) -> dict[int, tuple[Any, ...]]:
    """The words that are searched, by row, each with its place."""
    found: dict[int, list[Any]] = {}
    db.execute("CREATE VIRTUAL TABLE IF NOT EXISTS temp.seen USING fts5vocab(main, words, instance)")
    for term, row, column, offset in db.execute("SELECT term, doc, col, offset FROM temp.seen"):
        found.setdefault(row, []).append((column, offset, term))
    return {row: tuple(sorted(words)) for row, words in found.items()}


def _counted(db: sqlite3.Connection) -> Iterator[tuple[Any, ...]]:
    """Of each branch how far it goes, and what it has used in each of the sessions that it was written in."""
    for number, path in db.execute("SELECT id, path FROM branch").fetchall():
        query = (
            "SELECT segment, first, part.upto, spent, session FROM part JOIN segment ON id = segment "
            "WHERE branch = ? ORDER BY place"
        )
        last, counts, records = 0, dict[tuple[str, str], int](), b""
        for segment, first, upto, spent, session in db.execute(query, (number,)).fetchall():
            assert first == last + 1 <= upto, "each event is in one segment"
            last = upto
            for name, count in json.loads(spent).items():
                counts[session, name] = counts.get((session, name), 0) + count
            query_used = "SELECT records FROM response WHERE id >> 27 = ? ORDER BY id"
            used = b"".join(decompress(one) for (one,) in db.execute(query_used, (segment,)))
            records += index_used.within(used, 0, upto)
        yield path, last, sorted(counts.items()), records


def said_in(journal: Journal) -> set[tuple[Any, ...]]:
    """What the events of all branches that can be read say, from the events themselves."""
    seen: list[tuple[int, int]] = []
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as db:
        db.execute(f"CREATE VIRTUAL TABLE words USING fts5(title, summary, text, tools, {index_db.TOKENS})")
        for name in journal.sessions():
            try:
                events = list(journal.events(name, to=journal.head(name).seq))
            except JournalError:
                continue
            for one in events:
                if said := words(one):
                    db.execute("INSERT INTO words(rowid, title, summary, text, tools) VALUES (?, ?, ?, ?, ?)",
                               (len(seen), *said))  # fmt: skip
                    seen.append((one.seq, moment(one.ts)))
        return {(*seen[row], found) for row, found in tokens(db).items()}


def check_grown(journal: Journal) -> dict[str, Any]:
    """The index as it is must be the same as one made anew, and say what the events say."""
    grown = Asked(journal).content()
    index.rebuild(journal)
    made = Asked(journal).content()
    for name, rows in made.items():
        assert grown[name] == rows, name
    assert all(row[0] for row in made["words"])
    assert {row[1:] for row in made["words"]} == said_in(journal)
    return made


# --- grown == made anew --------------------------------------------------------------------------

WORDS = ("alpha", "beta", "gamma", "delta", "title", SECRET)
HOW: tuple[dict[str, Any], ...] = (
    {"archived": True, "limit": 1000},
    {"limit": 1},
    {"limit": 3},
    {"session": "s1"},
    {"columns": ("title",), "limit": 2},
)
KINDS = ("said", "answered", "call", "result", "title", "error", "archived", "native")

steps = st.one_of(
    st.tuples(
        st.just("append"), st.integers(0, 9), st.lists(st.sampled_from(KINDS), min_size=1, max_size=6), st.booleans()
    ),
    st.tuples(st.just("session")),
    st.tuples(st.just("branch"), st.integers(0, 9), st.integers(0, 99)),
    st.tuples(st.just("fork"), st.integers(0, 9), st.integers(0, 99)),
    st.tuples(st.just("copy"), st.integers(0, 9)),
    st.tuples(st.just("delete"), st.integers(0, 9)),
    st.tuples(st.just("move"), st.integers(0, 9), st.integers(0, 999)),
    st.tuples(st.just("back"), st.integers(0, 9), st.integers(0, 99)),
    st.tuples(st.just("rename"), st.integers(0, 9)),
    st.tuples(st.just("erase"), st.integers(0, 9), st.integers(0, 99)),
    st.tuples(st.just("damage"), st.integers(0, 9)),
    st.tuples(st.just("pack")),
    st.tuples(st.just("ask")),
)


class Played:
    """A journal to which random things happen; some sessions stay open, so that their events are in a tail."""

    def __init__(self, folder: Path) -> None:
        self.journal = gitjournal.init(folder / "journal")
        #: What git had before erasures.
        self.objects = folder / "objects"
        self.open: dict[Name, Any] = {}
        self.count = 0
        #: All commits that there have been, also those of branches that are gone, and those with erased payloads.
        self.commits: dict[str, None] = {}

    def play(self, step: tuple[Any, ...]) -> None:
        getattr(self, step[0])(*step[1:])
        for name in self.journal.sessions():
            try:
                self.commits.update((oid.hex(), None) for oid in self.journal.chain(name).commits())
            except JournalError:
                continue

    def _name(self, number: int) -> Name | None:
        names = sorted(self.journal.sessions())
        return names[number % len(names)] if names else None

    def _close(self, name: Name) -> None:
        if session := self.open.pop(name, None):
            session.close()

    def session(self) -> None:
        self.count += 1
        data = {"title": f"title {self.count}", "source": "console", "labels": ["x"]}
        with self.journal.session(f"s{self.count}", create=True, start=Draft("session.start", data)):
            pass

    def append(self, number: int, kinds: list[str], stays: bool) -> None:
        name = self._name(number)
        if name is None:
            return
        session = self.open.get(name) or self.journal.session(name)
        self.open[name] = session
        for kind in kinds:
            self.count += 1
            session.append(*self._event(kind), actor="user")
        if not stays:
            self._close(name)

    def _event(self, kind: str) -> tuple[str, dict[str, Any]]:
        word = WORDS[self.count % len(WORDS)]
        made: dict[str, tuple[str, dict[str, Any]]] = {
            "said": ("message", said(f"{word} {self.count}")),
            "answered": ("model.response", answered(word, self.count)),
            "call": ("model.response", answered(word, self.count, f"c{self.count}")),
            "result": ("tool.result", {"id": f"c{self.count - 1}", "response": [{"text": word}]}),
            "title": ("session.update", {"title": f"{word} title", "add_labels": [word]}),
            "error": ("error", {"message": word}),
            "archived": ("session.update", {"archived": self.count % 2 == 0}),
            "native": ("native", {"type": "x", "fields": {"content": word}}),
        }
        return made[kind]

    def branch(self, number: int, at: int) -> None:
        name = self._name(number)
        if name is not None:
            self.count += 1
            head = self.journal.head(name).seq
            try:
                self.journal.branch(name, at % head + 1, f"b{self.count}")
            except UsageError:
                # The event was inherited from another session.
                return

    def fork(self, number: int, at: int) -> None:
        name = self._name(number)
        if name is not None:
            self.count += 1
            self.journal.fork(name, at % self.journal.head(name).seq + 1, f"f{self.count}")

    def copy(self, number: int) -> None:
        """A ref that somebody made with git: the same line under another name."""
        name = self._name(number)
        if name is not None and (oid := self.journal.store.read_ref(self.journal.chain(name).ref)):
            self.count += 1
            git(
                "update-ref",
                f"refs/heads/{name.session}/copy{self.count}",
                oid.hex(),
                cwd=self.journal.path,
                check=False,
            )

    def delete(self, number: int) -> None:
        name = self._name(number)
        if name is not None:
            self._close(name)
            git("update-ref", "-d", self.journal.chain(name).ref, cwd=self.journal.path)

    def back(self, number: int, by: int) -> None:
        """The ref is set back, as a forced fetch may do."""
        name = self._name(number)
        if name is not None:
            self._close(name)
            chain = self.journal.chain(name)
            commits = chain.commits()
            git("update-ref", chain.ref, commits[by % len(commits)].hex(), cwd=self.journal.path)

    def move(self, number: int, to: int) -> None:
        """The ref is set to anything that there has been."""
        name = self._name(number)
        if name is not None and self.commits:
            self._close(name)
            commits = list(self.commits)
            # As a fetch from a copy of the journal that knows nothing of an erasure.
            for path in self.objects.rglob("*"):
                back = self.journal.path / "objects" / path.relative_to(self.objects)
                if path.is_file() and not back.exists():
                    back.parent.mkdir(exist_ok=True)
                    shutil.copyfile(path, back)
            git("update-ref", self.journal.chain(name).ref, commits[to % len(commits)], cwd=self.journal.path)

    def rename(self, number: int) -> None:
        name = self._name(number)
        if name is not None:
            self._close(name)
            self.count += 1
            try:
                rename(self.journal, name, f"r{self.count}")
            except UsageError:
                # The trunk stays.
                return

    def erase(self, number: int, at: int) -> None:
        name = self._name(number)
        if name is not None:
            for one in list(self.open):
                self._close(one)
            shutil.copytree(self.journal.path / "objects", self.objects, dirs_exist_ok=True)
            try:
                erase.erase(self.journal, name, [at % self.journal.head(name).seq + 1], "test")
            except JournalError:
                # An event of the chain's own, or a line that a copied ref has broken.
                return

    def damage(self, number: int) -> None:
        """A ref that leads nowhere."""
        name = self._name(number)
        if name is not None:
            self._close(name)
            path = self.journal.path / self.journal.chain(name).ref
            if path.exists():
                path.write_text("1" * 40 + "\n")

    def pack(self) -> None:
        git("pack-refs", "--all", cwd=self.journal.path)

    def ask(self) -> None:
        Asked(self.journal).sessions()

    def end(self) -> None:
        for session in self.open.values():
            try:
                session.close()
            except JournalError:
                continue


@pytest.fixture(params=[2, 1000], ids=["folds are kept", "folds are short"])
def apart(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """How far apart the folds are that are kept."""
    for room in (index_fold, index_line, index_build):
        monkeypatch.setattr(room, "APART", request.param)
    return int(request.param)


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(played=st.lists(steps, max_size=14))
# Copied refs, and branches that were set back, that go on in other ways than what they were copied from.
@example(played=[("copy", 0), ("append", 0, ["said"], True), ("append", 1, ["said"], True)])
@example(played=[("copy", 0), ("ask",), ("append", 0, ["said"], False), ("append", 1, ["said", "call"], False)])
@example(
    played=[("copy", 0), ("ask",), ("append", 0, ["said"], True), ("ask",), ("append", 1, ["said"], True), ("pack",)]
)
@example(played=[
    ("append", 0, ["said", "call", "result"], False), ("fork", 0, 2), ("ask",), ("back", 0, 1), ("ask",),
    ("append", 0, ["title", "error"], True), ("ask",), ("append", 0, ["said"], False),
])  # fmt: skip
@example(played=[("append", 0, ["said"], True), ("fork", 0, 1)])
# An event that a branch has in git and its parent only in its tail, and is then erased.
@example(played=[("append", 0, ["said"], True), ("branch", 0, 1), ("ask",), ("erase", 0, 1)])
# A branch that is set back to before an erasure, and goes on: its event has the payload, that of the other has not.
@example(played=[
    ("append", 0, ["said"], False), ("copy", 0), ("erase", 0, 1), ("ask",), ("move", 0, 1), ("ask",),
    ("append", 0, ["answered"], False), ("append", 1, ["answered"], True), ("ask",), ("append", 0, ["said"], False),
])  # fmt: skip
# A line that was indexed where it parts from another one, which is gone by the time that it comes again.
@example(played=[
    ("append", 0, ["said", "said", "said"], False), ("copy", 0), ("back", 0, 1), ("append", 0, ["said"], False),
    ("ask",), ("delete", 1), ("ask",), ("copy", 0), ("ask",),
])  # fmt: skip
# The same, and a line comes there on which an event before has lost its payload.
@example(played=[
    ("append", 0, ["said"] * 5, False), ("erase", 0, 2), ("copy", 0), ("copy", 0), ("move", 0, 2), ("move", 1, 5),
    ("move", 2, 2), ("append", 2, ["said"], False), ("ask",), ("move", 0, 10), ("ask",),
])  # fmt: skip
def test_a_grown_index_is_the_same_as_one_made_anew(
    played: list[tuple[Any, ...]], apart: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("played")
    game = Played(folder)
    patch = pytest.MonkeyPatch()
    # Between two looks at the same journal nobody should flush it.
    patch.setattr(writer, "IDLE_SECONDS", 1000)
    try:
        game.session()
        for step in [*played, ("ask",)]:
            try:
                game.play(step)
            except JournalError:
                # What a damaged or set back branch refuses.
                continue
        check_grown(game.journal)
    finally:
        game.end()
        patch.undo()
        shutil.rmtree(folder)


# --- what is the same and counts once ------------------------------------------------------------


@pytest.fixture
def filled(journal: Journal) -> Journal:
    """Session s with seven events, its branch b from event 4, and its fork f from event 5."""
    with journal.session("s", create=True, start=Draft("session.start", {"source": "console"})) as s:
        s.append("message", said("alpha question"), actor="user")
        s.append("model.response", answered("beta answer", 3, "c1"), actor="assistant")
        s.append("tool.result", {"id": "c1", "response": {"stdout": "gamma output"}}, actor="tool:shell")
        s.append("message", said("delta question"), actor="user")
        s.append("session.update", {"title": "Epsilon title", "summary": "zeta summary", "labels": ["no"]})
        s.append("error", {"error.type": "timeout", "message": "eta failure"})
    journal.branch("s", 4, "b")
    journal.fork("s", 5, "f")
    return journal


def test_what_branches_share_is_found_once_and_counted_once(filled: Journal) -> None:
    asked = Asked(filled)
    assert asked.search("alpha") == ["s@2"] and asked.search("gamma") == ["s@4"] and asked.search("delta") == ["s@5"]
    rows = {row["session"]: row for row in asked.sessions()}
    assert rows["s"]["branches"] == ["main", "b"] and rows["s"]["events"] == 8
    assert rows["s"]["turns"] == {"user": 2, "model": 1} and rows["s"]["tokens"]["input"] == 30
    assert rows["s"]["errors"] == 1 and rows["s"]["tool_calls"] == rows["s"]["tool_results"] == 1


def test_a_row_says_what_the_fold_says(filled: Journal) -> None:
    state = gitjournal.fold(filled.events("s"))
    (row,) = (row for row in Asked(filled).sessions() if row["session"] == "s")
    for name in ("title", "summary", "archived", "labels", "project", "source", "trust", "parent"):
        assert row[name] == getattr(state, name), name
    shown = json.loads(json.dumps([state.status(False), state.status(True)]))
    assert row["states"]["main"] == shown
    assert row["first"] == "alpha question" and row["updated"] == max(
        filled.event(name, filled.head(name).seq).ts for name in ("s", "s/b")
    )


def test_the_shared_part_stays_found_when_its_branch_is_gone(filled: Journal) -> None:
    asked = Asked(filled)
    assert asked.search("delta") == ["s@5"]
    git("update-ref", "-d", "refs/heads/s/main", cwd=filled.path)
    assert asked.search("alpha") == ["f@2"] and asked.search("delta") == ["f@5"] and asked.search("eta") == []
    check_grown(filled)


def test_filters_of_the_list(journal: Journal) -> None:
    for number in range(4):
        start = Draft(
            "session.start", {"project": f"/p{number % 2}", "parent": {"session": "s0"}, "labels": [f"l{number}"]}
        )
        with journal.session(f"s{number}", create=True, start=start) as s:
            s.append("message", said("hello"), ts=f"2026-03-0{number + 1}T00:00:00.000Z")
            if number == 3:
                s.append("session.update", {"archived": True}, ts="2026-03-05T00:00:00.000Z")
    asked = Asked(journal)

    def listed(**filters: Any) -> list[str]:
        return [row["session"] for row in asked.sessions(**filters)]

    assert listed() == ["s2", "s1", "s0"] and listed(archived=True) == ["s3", "s2", "s1", "s0"]
    assert listed(since="2026-03-02T00:00:00.000Z") == ["s2", "s1"] and listed(limit=1) == ["s2"]
    assert listed(projects=["/p1", "/x"], archived=True) == ["s3", "s1"] and listed(label="l2") == ["s2"]
    assert listed(label="l") == [] and listed(projects=["/p"]) == []
    assert index.below(journal, "s0")[0] == {"s0": ["s0", "s1", "s2", "s3"], "s1": [], "s2": [], "s3": []}


# --- what moves it -------------------------------------------------------------------------------


def test_events_in_a_tail_are_found_at_once(journal: Journal) -> None:
    asked = Asked(journal)
    with journal.session("s", create=True, durability="disk") as s:
        s.append("message", said("first words"))
        assert asked.search("first") == ["s@2"] and asked.search("second") == []
        s.append("message", said("second words"))
        assert asked.search("second") == ["s@3"]
        assert asked.sessions()[0]["events"] == 3
    assert asked.search("words") == ["s@3", "s@2"] or asked.search("words") == ["s@2", "s@3"]
    check_grown(journal)


def test_an_append_of_another_process_is_seen(filled: Journal) -> None:
    asked = Asked(filled)
    assert asked.search("theta") == []

    def write() -> None:
        with gitjournal.open(filled.path).session("s") as s:
            s.append("message", said("theta"))

    assert forked(write) == 0
    assert asked.search("theta") == ["s@8"]


@pytest.mark.parametrize("packed", [False, True])
def test_refs_that_git_moves_are_seen(filled: Journal, tmp_path: Path, packed: bool) -> None:
    git("clone", "-q", "--mirror", filled.path, tmp_path / "mirror")
    mirror = gitjournal.open(tmp_path / "mirror")
    asked = Asked(mirror)
    before = asked.sessions()
    assert {row["session"] for row in before} == {"s", "f"}
    with filled.session("s") as s:
        s.append("message", said("theta"))
    filled.session("new", create=True).close()
    git("update-ref", "-d", "refs/heads/f/main", cwd=filled.path)
    git("fetch", "-q", "--prune", cwd=mirror.path)
    if packed:
        git("pack-refs", "--all", cwd=mirror.path)
    assert {row["session"] for row in asked.sessions()} == {"s", "new"} and asked.search("theta") == ["s@8"]
    git("update-ref", "refs/heads/s/main", "refs/heads/s/b", cwd=mirror.path)
    assert asked.search("theta") == [] and asked.search("gamma") == ["s@4"]
    check_grown(mirror)


def test_a_plain_clone_has_an_index_of_its_own(filled: Journal, tmp_path: Path) -> None:
    git("clone", "-q", filled.path, tmp_path / "clone")
    clone = gitjournal.open(tmp_path / "clone")
    assert Asked(clone).search("gamma") == ["s@4"] and file_of(clone).exists()


def test_nothing_moved_means_that_nothing_is_read(filled: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = Asked(filled)
    asked.sessions()
    git("update-ref", "refs/heads/stranger", "refs/heads/s/main", cwd=filled.path)
    git("update-ref", "refs/heads/a.b.c/x%2", "refs/heads/s/main", cwd=filled.path)
    asked.sessions()
    monkeypatch.setattr(index, "_refreshed", lambda *_: pytest.fail("it was read again"))
    assert len(asked.sessions()) == 2


def test_refs_that_are_only_packed_are_not_read_again(filled: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = Asked(filled)
    right = asked.sessions()
    git("pack-refs", "--all", cwd=filled.path)
    with monkeypatch.context() as patch:
        patch.setattr(index_line.Line, "run", lambda *_: pytest.fail("it was read again"))
        assert asked.sessions() == right
    check_grown(filled)


def test_a_long_session_is_not_folded_again_for_one_event_more(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    with journal.session("s", create=True) as s:
        s.append_many([Draft("message", said(f"words {n}"), "user") for n in range(2500)])
    asked = Asked(journal)
    asked.sessions()
    pushed: list[int] = []
    push = index_fold.LineFold.push
    monkeypatch.setattr(
        index_fold.LineFold, "push", lambda self, one, **how: pushed.append(one.seq) or push(self, one, **how)
    )
    with journal.session("s") as s:
        s.append("message", said("kappa"), actor="user")
    assert asked.search("kappa") == ["s@2502"] and 1 <= len(pushed) < 1000
    assert asked.sessions()[0]["turns"]["user"] == 2501
    check_grown(journal)


def test_thousands_of_loose_refs_are_packed(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index, "MANY_LOOSE", 5)
    asked = Asked(journal)
    for number in range(12):
        journal.session(f"s{number}", create=True).close()
    assert len(asked.sessions()) == 12
    assert (journal.path / "packed-refs").read_text().count("refs/heads/") == 13
    assert not list((journal.path / "refs" / "heads").glob("s*"))
    with journal.session("s3") as s:
        s.append("message", said("lambda"))
    assert asked.search("lambda") == ["s3@2"] and git_text("fsck", "--strict", cwd=journal.path) == ""
    check_grown(journal)


# --- erased --------------------------------------------------------------------------------------


def everything(journal: Journal) -> bytes:
    """The bytes of the index and of all that SQLite keeps beside it."""
    return b"".join(path.read_bytes() for path in file_of(journal).parent.glob("index.sqlite*")).lower()


@pytest.mark.parametrize("branch", ["s", "s/b"])
def test_an_erased_payload_is_gone_from_the_file(filled: Journal, branch: str) -> None:
    asked = Asked(filled)
    for name in ("s", "s/b"):
        with filled.session(name) as s:
            for text in ("mu nu", f"{SECRET} and {SECRET}s", "xi"):
                s.append("message", said(text), actor="user")
            s.append("session.update", {"title": f"about {SECRET}"})
    assert asked.search(SECRET) and SECRET.encode() in everything(filled)
    for name in ("s", "s/b"):
        head = filled.head(name).seq
        gitjournal.erase.erase(filled, name, [head - 2, head], "asked for")
    assert asked.search(f"{SECRET}*") == [] and SECRET.encode() not in everything(filled)
    assert all(SECRET not in json.dumps(row) for row in asked.sessions())
    assert len(asked.search("xi")) == 2
    check_grown(filled)


@pytest.mark.parametrize("flushed", [False, True])
def test_a_payload_that_was_erased_between_tail_and_git_is_gone(journal: Journal, flushed: bool) -> None:
    asked = Asked(journal)
    with journal.session("s", create=True) as s:
        if flushed:
            s.flush()
        s.append("message", said(SECRET), actor="user")
        assert asked.search(SECRET) == ["s@2"]
    gitjournal.erase.erase(journal, "s", [2], "asked for")
    assert asked.search(SECRET) == [] and SECRET.encode() not in everything(journal)


def test_what_was_set_back_is_taken_out_without_reading_all(filled: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = Asked(filled)
    with filled.session("s") as s:
        s.append("message", said("theta"), actor="user")
    assert asked.search("theta") == ["s@8"]
    git("update-ref", "refs/heads/s/main", "refs/heads/s/main~2", cwd=filled.path)
    with monkeypatch.context() as patch:
        patch.setattr(index, "rebuild", lambda *_, **__: pytest.fail("all was read"))
        assert asked.search("theta") == asked.search("eta") == [] and asked.search("epsilon") == ["s@6"]
    check_grown(filled)


def test_an_index_in_which_another_event_stands_in_the_place_of_one_that_goes_is_made_anew(filled: Journal) -> None:
    asked = Asked(filled)
    with filled.session("s") as s:
        s.append("message", said("theta"), actor="user")
    assert asked.search("theta") == ["s@8"]
    _execute(file_of(filled), "UPDATE stamp SET ts = ts + 1")
    git("update-ref", "refs/heads/s/main", "refs/heads/s/main~2", cwd=filled.path)
    assert asked.search("theta") == [] and asked.search("epsilon") == ["s@6"]
    check_grown(filled)


def test_what_git_has_collected_before_the_index_looked_is_gone_from_it(filled: Journal) -> None:
    asked = Asked(filled)
    with filled.session("s") as s:
        s.append("message", said(SECRET), actor="user")
    assert asked.search(SECRET) == ["s@8"]
    git("update-ref", "refs/heads/s/main", "refs/heads/s/main~2", cwd=filled.path)
    git("-c", "gc.pruneExpire=now", "gc", "-q", "--prune=now", cwd=filled.path)
    filled = gitjournal.open(filled.path)
    assert Asked(filled).search(SECRET) == [] and SECRET.encode() not in everything(filled)
    check_grown(filled)


def test_what_was_only_in_a_tail_that_is_gone_is_gone(journal: Journal) -> None:
    asked = Asked(journal)
    with journal.session("s", create=True) as s:
        s.append("message", said("alpha"))
        s.flush()
        s.append("message", said(SECRET))
        assert asked.search(SECRET) == ["s@3"]
        path = journal.chain(s.name).tail_path
        path.write_bytes(b"")
        assert asked.search(SECRET) == [] and asked.search("alpha") == ["s@2"]
        assert SECRET.encode() not in everything(journal)
        check_grown(journal)
        path.unlink()


@pytest.mark.parametrize("page", [index_db.SMALL_PAGE, index_db.LARGE_PAGE])
def test_an_index_keeps_the_size_of_its_pages(filled: Journal, page: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A database in use is not given another one's content if that has pages of another size."""
    right = rows_of(filled)
    assert index_db.page_of(file_of(filled)) == index_db.SMALL_PAGE
    index_db.remove(file_of(filled))
    assert index_db.page_of(file_of(filled)) == 0
    monkeypatch.setattr(index, "_SMALL", 10**9 if page == index_db.SMALL_PAGE else 0)
    assert rows_of(filled) == right and index_db.page_of(file_of(filled)) == page
    monkeypatch.undo()
    with closing(sqlite3.connect(file_of(filled))) as other:
        other.execute("SELECT * FROM session").fetchall()
        index.rebuild(filled)
    assert rows_of(filled) == right and index_db.page_of(file_of(filled)) == page


def test_an_index_that_gets_large_pages_while_another_is_made_takes_its_content(
    filled: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    right, put = rows_of(filled), index_db.put_in_place

    def widened(fresh: sqlite3.Connection, made: Path, path: Path) -> None:
        db = index_db.open_file(path)
        assert db is not None
        with closing(db):
            index_db.widen(db, index_db.LARGE_PAGE)
        put(fresh, made, path)

    monkeypatch.setattr(index_db, "put_in_place", widened)
    index.rebuild(filled)
    assert rows_of(filled) == right and index_db.page_of(file_of(filled)) == index_db.LARGE_PAGE


def test_an_index_that_has_grown_gets_large_pages_when_nobody_else_has_it_open(
    filled: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert rows_of(filled) and index_db.page_of(file_of(filled)) == index_db.SMALL_PAGE
    monkeypatch.setattr(index, "_SMALL", 0)

    def write(text: str) -> None:
        with filled.session("s") as session:
            session.user(text)
        check_grown(filled)

    with closing(sqlite3.connect(file_of(filled))) as other:
        other.execute("SELECT * FROM session").fetchall()
        write("while it is read")
        assert index_db.page_of(file_of(filled)) == index_db.SMALL_PAGE
    write("afterwards")
    assert index_db.page_of(file_of(filled)) == index_db.LARGE_PAGE
    with closing(sqlite3.connect(file_of(filled))) as other:
        assert other.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_an_index_that_came_in_pieces_is_written_without_gaps(filled: Journal, gj: Gj) -> None:
    def free() -> int:
        with closing(sqlite3.connect(file_of(filled))) as db:
            return int(db.execute("PRAGMA freelist_count").fetchone()[0])

    index.compact(filled)
    assert not file_of(filled).exists()
    for number in range(40):
        with filled.session("s") as session:
            session.user(f"{number} " + " ".join(f"word{number * 7 + n}" for n in range(200)))
        assert rows_of(filled)
    large, right = file_of(filled).stat().st_size, Asked(filled).content()
    with closing(sqlite3.connect(file_of(filled), isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        index.compact(filled)
    assert free() > 0
    gj("gc")
    assert free() == 0 and file_of(filled).stat().st_size < large
    assert Asked(filled).content() == right
    check_grown(filled)


def test_the_words_of_a_deleted_session_are_gone(filled: Journal) -> None:
    asked = Asked(filled)
    with filled.session("t", create=True) as s:
        s.append("message", said(SECRET), actor="user")
    assert asked.search(SECRET) == ["t@2"]
    git("update-ref", "-d", "refs/heads/t/main", cwd=filled.path)
    assert asked.search(SECRET) == [] and SECRET.encode() not in everything(filled)


@pytest.mark.parametrize(
    "kind", ["whole", "deleted", "older", "spoiled pages", "a schema that is no text", "without a table", "many"]
)
def test_the_index_forgets_whatever_state_it_is_in(filled: Journal, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with filled.session("s") as s:
        s.append("message", said(SECRET), actor="user")
    assert Asked(filled).search(SECRET)
    gitjournal.erase.erase(filled, "s", [filled.head("s").seq], "asked for")
    if kind == "many":
        monkeypatch.setattr(index, "_MANY", 0)
        for number in range(5):
            filled.branch("s", 3, f"b{number}")
    elif kind != "whole":
        FILES[kind](file_of(filled))
    assert index.forget(filled) == "" and SECRET.encode() not in everything(filled)
    made = kind in ("whole", "many", "without a table")
    assert file_of(filled).exists() == made, "what cannot be opened is made when it is asked for"
    assert not Asked(filled).search(SECRET)


@pytest.mark.parametrize("how", ["newer", "reader", "writer", "maker"])
def test_who_keeps_the_index_from_forgetting_is_named(
    filled: Journal, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index_db, "PATIENCE", 0.05)
    with filled.session("t", create=True) as s:
        s.append("message", said(SECRET), actor="user")
    assert Asked(filled).search(SECRET)
    other = sqlite3.connect(file_of(filled), isolation_level=None)
    maker = index_db.making(file_of(filled)) if how == "maker" else nullcontext(file_of(filled))
    with maker as made:
        made.touch()
        if how == "newer":
            other.execute("PRAGMA user_version = 99")
        elif how != "maker":
            other.execute("BEGIN" if how == "reader" else "BEGIN IMMEDIATE")
            other.execute("SELECT * FROM meta").fetchone()
        git("update-ref", "-d", "refs/heads/t/main", cwd=filled.path)
        told = {"newer": "newer version", "reader": "process reads it", "writer": "locked", "maker": "a new one"}
        assert told[how] in index.forget(filled)
        assert made.exists() and (how != "maker" or SECRET.encode() not in everything(filled))
    other.close()
    assert how == "newer" or (index.forget(filled) == "" and SECRET.encode() not in everything(filled))


# --- attacks on the file -------------------------------------------------------------------------


def rows_of(journal: Journal) -> list[tuple[str, int]]:
    return [(row["session"], row["events"]) for row in Asked(journal).sessions()]


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def _spoil(path: Path) -> None:
    raw = bytearray(path.read_bytes())
    for at in range(3000, len(raw), 97):
        raw[at] ^= 0x55
    path.write_bytes(raw)


def _undecodable(path: Path) -> None:
    """A name in the schema that is no UTF-8: Python cannot say what SQLite says of it."""
    raw = bytearray(path.read_bytes())
    at = raw.index(b"CREATE TABLE meta")
    raw[at - 5] = raw[at + 3] = 0xF3
    path.write_bytes(raw)


def _execute(path: Path, *statements: str) -> None:
    with sqlite3.connect(path) as db:
        for one in statements:
            db.execute(one)
    db.close()


FILES = {
    "deleted": Path.unlink,
    "empty": lambda path: path.write_bytes(b""),
    "truncated": _cut,
    "garbage": lambda path: path.write_bytes(b"no database at all" * 1000),
    "spoiled pages": _spoil,
    "a schema that is no text": _undecodable,
    "another program's": lambda path: (path.unlink(), _execute(path, "CREATE TABLE x(y)")),
    "older": lambda path: _execute(path, "PRAGMA user_version = 0"),
    "never finished": lambda path: _execute(path, "DELETE FROM meta"),
    "without a table": lambda path: _execute(path, "DROP TABLE session"),
    "without a column": lambda path: _execute(path, "DROP TABLE session", "CREATE TABLE session(session, about)"),
    "rows that are no JSON": lambda path: _execute(path, "UPDATE session SET about = 'x', updated = 'zzzz'"),
}


@pytest.mark.parametrize("kind", FILES)
def test_a_file_that_cannot_be_used_is_made_anew(filled: Journal, kind: str) -> None:
    right = rows_of(filled)
    FILES[kind](file_of(filled))
    asked = Asked(filled)
    assert [(row["session"], row["events"]) for row in asked.sessions()] == right
    assert asked.search("gamma") == ["s@4"]
    assert (kind == "deleted") == (not asked.notes) and all(note.count("\n") == 0 for note in asked.notes)
    asked.notes.clear()
    assert rows_of(filled) == right and not asked.notes
    check_grown(filled)


def test_a_newer_file_is_left_alone(filled: Journal) -> None:
    right = rows_of(filled)
    _execute(file_of(filled), "PRAGMA user_version = 99")
    before = file_of(filled).read_bytes()
    asked = Asked(filled)
    assert [(row["session"], row["events"]) for row in asked.sessions()] == right and asked.search("gamma") == ["s@4"]
    assert "newer version" in asked.notes[0] and file_of(filled).read_bytes() == before
    with pytest.raises(StorageError, match="newer version of gj; remove it"):
        index.rebuild(filled)
    assert not list(file_of(filled).parent.glob("*.new"))


@pytest.mark.parametrize("lock", ["BEGIN IMMEDIATE", "BEGIN EXCLUSIVE", "EXCLUSIVE"])
def test_a_locked_file_blocks_neither_append_nor_question(
    filled: Journal, lock: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index_db, "PATIENCE", 0.05)
    right = rows_of(filled)
    other = sqlite3.connect(file_of(filled), isolation_level=None)
    if lock == "EXCLUSIVE":
        other.execute("PRAGMA locking_mode = EXCLUSIVE")
        lock = "BEGIN IMMEDIATE"
    other.execute(lock)
    other.execute("INSERT OR REPLACE INTO meta VALUES ('other', 'x')")
    with filled.session("s") as s:
        s.append("message", said("theta"))
    asked = Asked(filled)
    found = {(row["session"], row["events"]) for row in asked.sessions()}
    # What it was, or (where not even that can be read) what it is.
    assert found in (set(right), {("s", 9), ("f", 1)}) and len(asked.notes) == 1
    other.execute("ROLLBACK")
    other.close()
    assert asked.search("theta") == ["s@8"] and dict(rows_of(filled))["s"] == 9
    check_grown(filled)


def test_sub_sessions_are_all_found_while_another_process_updates(
    filled: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index_db, "PATIENCE", 0.05)
    assert index.below(filled, "s") == ({"s": []}, {})
    start = Draft("session.start", {"source": "console", "parent": {"session": "s", "seq": 1}})
    with filled.session("sub", create=True, start=start):
        pass
    with closing(sqlite3.connect(file_of(filled), isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        notes: list[str] = []
        assert index.below(filled, "s", say=notes.append) == ({"s": ["sub"], "sub": []}, {}) and len(notes) == 1


@pytest.mark.parametrize("suffix", ["-wal", "-journal"])
def test_an_index_with_an_unfinished_change_is_not_read_as_it_stands(
    filled: Journal, suffix: str, public: Path
) -> None:
    index.rebuild(filled)
    path = Path(shutil.copytree(filled.path, public / "journal")) / "gitjournal" / "index.sqlite"
    path.with_name(path.name + suffix).write_bytes(b"x" * 600)
    for one in (path, *path.parent.glob("index.sqlite-*")):
        one.chmod(0o444)
    path.parents[1].chmod(0o755)
    path.parent.chmod(0o555)

    def look() -> None:
        with pytest.raises(index_db.Unusable, match=r"readonly|unable"):
            index_db.open_file(path)

    try:
        assert as_nobody(look) == 0
    finally:
        path.parent.chmod(0o755)


@pytest.mark.parametrize("age", [index_db.SCHEMA, 0])
def test_a_rebuild_does_not_wait_for_ever_for_a_file_that_is_in_use(
    filled: Journal, age: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index_db, "PATIENCE", 0.05)
    right = rows_of(filled)
    _execute(file_of(filled), f"PRAGMA user_version = {age}")
    with closing(sqlite3.connect(file_of(filled), isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StorageError, match="in use by another process"):
            index.rebuild(filled)
        assert rows_of(filled) == right
    assert not list(file_of(filled).parent.glob("*.new"))
    index.rebuild(filled)
    check_grown(filled)


@pytest.mark.parametrize("kind", ["whole", "older", "never finished"])
def test_a_file_that_another_process_has_open_is_not_taken_from_it(filled: Journal, kind: str) -> None:
    right = rows_of(filled)
    if kind != "whole":
        FILES[kind](file_of(filled))
    with closing(sqlite3.connect(file_of(filled), isolation_level=None)) as other:
        # So it has read the file and holds no lock.
        other.execute("SELECT * FROM sqlite_master").fetchall()
        before = file_of(filled).stat().st_ino
        index.rebuild(filled)
        assert file_of(filled).stat().st_ino == before
        assert other.execute("SELECT count(*) FROM session").fetchone() == (len(right),)
    assert rows_of(filled) == right


@pytest.mark.parametrize("state", ["none", "fresh", "stale"])
def test_in_a_folder_that_cannot_be_written_all_is_found(filled: Journal, state: str, public: Path) -> None:
    filled = gitjournal.open(shutil.copytree(filled.path, public / "journal"))
    asked = Asked(filled)
    right = rows_of(filled) if state != "none" else [("f", 1), ("s", 8)]
    if state == "stale":
        with filled.session("s") as s:
            s.append("message", said("theta"))
        right = [("s", 9), ("f", 1)]
    for path in [filled.path, *filled.path.rglob("*")]:
        path.chmod(0o555 if path.is_dir() else 0o444)

    def look() -> None:
        if [(row["session"], row["events"]) for row in asked.sessions()] != right or asked.search("gamma") != ["s@4"]:
            raise ValueError("another answer")
        if (not asked.notes) != (state == "fresh"):
            raise ValueError(f"notes {asked.notes}")

    try:
        assert as_nobody(look) == 0
    finally:
        for path in [filled.path, *filled.path.rglob("*")]:
            path.chmod(0o755 if path.is_dir() else 0o644)


def test_a_folder_in_the_place_of_the_index_is_one_line(filled: Journal) -> None:
    right = rows_of(filled)
    index_db.remove(file_of(filled))
    file_of(filled).mkdir()
    asked = Asked(filled)
    assert [(row["session"], row["events"]) for row in asked.sessions()] == right
    assert asked.notes[-1] == f"working without an index: {file_of(filled)} cannot be written: Is a directory"


@pytest.mark.parametrize("suffix", ["-wal", "-shm", "-journal"])
def test_a_link_in_the_place_of_what_sqlite_keeps_beside_the_index_is_mended(
    filled: Journal, tmp_path: Path, suffix: str
) -> None:
    right = rows_of(filled)
    beside = file_of(filled).with_name(f"index.sqlite{suffix}")
    beside.unlink(missing_ok=True)
    beside.symlink_to(tmp_path / "nothing")
    asked = Asked(filled)
    assert [(row["session"], row["events"]) for row in asked.sessions()] == right
    assert asked.notes == ["the index cannot be used: it is no file of its own; making a new one"]
    asked.notes.clear()
    assert asked.search("gamma") == ["s@4"] and not asked.notes
    assert not beside.is_symlink() and not (tmp_path / "nothing").exists()
    check_grown(filled)


@pytest.mark.parametrize("kind", ["link", "link to nothing", "another name", "pipe"])
@pytest.mark.parametrize("how", ["ask", "rebuild"])
def test_a_database_of_somebody_else_in_the_place_of_the_index_keeps_what_it_has(
    filled: Journal, tmp_path: Path, kind: str, how: str
) -> None:
    right = rows_of(filled)
    mine = tmp_path / "mine.db"
    _execute(mine, "CREATE TABLE precious(x)", "INSERT INTO precious VALUES (7)", "PRAGMA user_version = 1")
    before = mine.read_bytes()
    index_db.remove(file_of(filled))
    if kind == "another name":
        os.link(mine, file_of(filled))
    elif kind == "pipe":
        os.mkfifo(file_of(filled))
    else:
        file_of(filled).symlink_to(mine if kind == "link" else tmp_path / "nothing")
    if how == "rebuild":
        index.rebuild(filled)
    assert rows_of(filled) == right
    assert mine.read_bytes() == before and not (tmp_path / "nothing").exists()
    assert file_of(filled).is_file() and not file_of(filled).is_symlink()
    check_grown(filled)


def test_refs_that_were_copied_or_set_back_count_and_are_found_once(filled: Journal) -> None:
    asked = Asked(filled)
    before = {row["session"]: (row["events"], row["turns"], row["tokens"]) for row in asked.sessions()}
    for number in range(3):
        git("update-ref", f"refs/heads/s/copied{number}", "refs/heads/s/main", cwd=filled.path)
    git("update-ref", "refs/heads/s/short", "refs/heads/s/main~2", cwd=filled.path)
    for _ in range(2):
        after = {row["session"]: (row["events"], row["turns"], row["tokens"]) for row in asked.sessions()}
        assert after == before and asked.search("alpha") == ["s@2"] and asked.search("delta") == ["s@5"]
        assert index.rebuild(filled).events == sum(events for events, *_ in before.values())
    # One of them is set back and goes on in another way: what both have counts once, what each has is counted.
    git("update-ref", "refs/heads/s/copied0", "refs/heads/s/main~2", cwd=filled.path)
    with filled.session("s/copied0") as s:
        s.append("message", said("theta"), actor="user")
    events, turns, _ = before["s"]
    for _ in range(2):
        row = next(row for row in asked.sessions() if row["session"] == "s")
        assert (row["events"], row["turns"]["user"]) == (events + 1, turns["user"] + 1)
        assert row["tokens"] == before["s"][2] and asked.search("alpha") == ["s@2"]
        index.rebuild(filled)


def test_many_processes_make_one_index(filled: Journal) -> None:
    script = (
        "import sys, gitjournal; from gitjournal import index, index_query; j = gitjournal.open(sys.argv[1]);"
        "print([(r['session'], r['events']) for r in index.ask(j, index_query.sessions)])"
    )
    runs = [subprocess.Popen([sys.executable, "-c", script, filled.path], stdout=subprocess.PIPE) for _ in range(6)]
    assert {run.communicate()[0] for run in runs} == {b"[('f', 1), ('s', 8)]\n"}
    check_grown(filled)


@pytest.mark.parametrize(("pragma", "value"), [("secure_delete", 1), ("trusted_schema", 0)])
def test_what_is_erased_is_overwritten_and_no_schema_is_believed(filled: Journal, pragma: str, value: int) -> None:
    rows_of(filled)
    with closing(sqlite3.connect(":memory:")) as db:
        # Whatever this SQLite was built with.
        db.execute(f"PRAGMA {pragma} = {1 - value}")
        index_db.prepare(db)
        assert db.execute(f"PRAGMA {pragma}").fetchone() == (value,)
    ours = index_db.open_file(file_of(filled))
    assert ours is not None
    with closing(ours), closing(index_db.create(None)) as fresh:
        assert ours.execute(f"PRAGMA {pragma}").fetchone() == fresh.execute(f"PRAGMA {pragma}").fetchone() == (value,)


def test_the_file_is_for_its_owner_only(filled: Journal) -> None:
    rows_of(filled)
    assert {path.stat().st_mode & 0o777 for path in file_of(filled).parent.glob("index.sqlite*")} == {0o600}


def test_a_rebuild_that_is_cut_leaves_the_old_one(filled: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    right = rows_of(filled)
    monkeypatch.setattr(index, "_stamp", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        index.rebuild(filled)
    monkeypatch.undo()
    asked = Asked(filled)
    assert [(row["session"], row["events"]) for row in asked.sessions()] == right and not asked.notes
    known = {f"index.sqlite{suffix}" for suffix in ("", "-wal", "-shm", ".lock", ".new.lock")}
    assert {path.name for path in file_of(filled).parent.glob("index.sqlite*")} <= known


def left_behind(journal: Journal) -> set[str]:
    return {path.name for path in file_of(journal).parent.glob("*.new")}


@pytest.mark.parametrize("how", ["rebuild", "refresh", "forget"])
def test_what_a_rebuild_left_that_was_killed_is_cleared_away_though_its_number_runs_again(
    filled: Journal, how: str
) -> None:
    rows_of(filled)
    # As older versions named it, and as it is named now.
    for made in (os.getpid(), os.getppid(), 1, "0123456789abcdef"):
        file_of(filled).with_name(f"index.sqlite.{made}.new").touch()
    with filled.session("s") as s:
        s.append("message", said("theta"))
    {"rebuild": index.rebuild, "refresh": rows_of, "forget": index.forget}[how](filled)
    assert left_behind(filled) == set()


@pytest.mark.parametrize("how", ["rebuild", "refresh"])
def test_what_another_thread_or_process_is_making_stays(filled: Journal, how: str) -> None:
    rows_of(filled)
    with index_db.making(file_of(filled)) as made:
        made.touch()
        with filled.session("s") as s:
            s.append("message", said("theta"))
        {"rebuild": index.rebuild, "refresh": rows_of}[how](filled)
        assert left_behind(filled) == {made.name}
    assert left_behind(filled) == set()


def test_an_index_that_is_killed_while_it_is_made_is_cleared_away(filled: Journal) -> None:
    rows_of(filled)
    script = (
        "import os, sys, gitjournal; from gitjournal import index; index._stamp = lambda *_: os.kill(os.getpid(), 9);"
        "index.rebuild(gitjournal.open(sys.argv[1]))"
    )
    assert subprocess.run([sys.executable, "-c", script, filled.path], check=False).returncode == -9
    assert len(left_behind(filled)) == 1
    assert index.forget(filled) == "" and left_behind(filled) == set()


def test_an_index_that_cannot_even_begin_leaves_nothing(filled: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_db, "_TABLES", "no SQL")
    with pytest.raises(StorageError, match="cannot be made"):
        index.rebuild(filled)
    assert left_behind(filled) == set()


def test_a_database_that_fails_while_an_index_is_made_is_one_line(
    filled: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise sqlite3.OperationalError("disk I/O error")

    monkeypatch.setattr(index_build, "Segments", refuse)
    with pytest.raises(StorageError, match="cannot be written: disk I/O error"):
        index.rebuild(filled)
    with pytest.raises(StorageError, match="cannot be written: disk I/O error"):
        rows_of(filled)


def test_threads_that_ask_at_once_make_one_index(filled: Journal) -> None:
    found: list[object] = []

    def look(number: int) -> None:
        try:
            if number == 0:
                index.rebuild(filled)
            asked = Asked(gitjournal.open(filled.path))
            found.append((len(asked.sessions()), asked.search("gamma"), asked.notes))
        except Exception as error:
            found.append(error)

    for _ in range(5):
        index_db.remove(file_of(filled))
        threads = [threading.Thread(target=look, args=(number,)) for number in range(5)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert found == [(2, ["s@4"], [])] * 25
    check_grown(filled)


def test_of_two_that_find_no_index_one_does_not_take_the_file_of_the_other_away(
    filled: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken, reader = index_db.remove, list[sqlite3.Connection]()

    def make() -> None:
        index.rebuild(filled)
        ours = index_db.open_file(file_of(filled))
        assert ours is not None
        reader.append(ours)

    other = threading.Thread(target=make)

    def remove(path: Path) -> None:
        """Meanwhile the other one, unless it is kept waiting, has its index in place and open."""
        monkeypatch.setattr(index_db, "remove", taken)
        other.start()
        other.join(1)
        taken(path)

    monkeypatch.setattr(index_db, "remove", remove)
    index.rebuild(filled)
    other.join()
    with closing(reader[0]) as db:
        # SQLite refuses that of a file that is not in its place any more.
        db.execute("INSERT INTO meta VALUES ('ours', 'x')")
    check_grown(filled)


def test_a_rebuild_keeps_the_locks_that_this_process_has_on_the_index(filled: Journal) -> None:
    """A system lets go of all locks of a process on a file when that closes it once (SQLite, howtocorrupt 2.2)."""
    rows_of(filled)
    script = (
        "import sqlite3, sys; db = sqlite3.connect(sys.argv[1], timeout=0, isolation_level=None);"
        "db.execute('BEGIN IMMEDIATE')"
    )
    with closing(sqlite3.connect(file_of(filled), isolation_level=None)) as db:
        db.execute("PRAGMA journal_mode = DELETE")
        db.execute("BEGIN IMMEDIATE")
        assert index_db.page_of(file_of(filled)) == index_db.SMALL_PAGE
        other = subprocess.run([sys.executable, "-c", script, file_of(filled)], check=False, stderr=subprocess.PIPE)
        assert b"locked" in other.stderr


def test_a_session_that_cannot_be_read_is_listed_and_found_again_when_mended(filled: Journal) -> None:
    ref = filled.path / "refs" / "heads" / "f" / "main"
    right = ref.read_text()
    for wrong in ("1" * 40 + "\n", "nonsense\n", "ref: refs/heads/s/main\n"):
        ref.write_text(wrong)
        asked = Asked(filled)
        rows = {row["session"]: row for row in asked.sessions()}
        assert rows["f"]["error"] and not rows["s"]["error"] and rows["f"]["events"] == 0
        check_grown(filled)
    ref.write_text(right)
    assert {row["session"]: row["error"] for row in asked.sessions()} == {"s": None, "f": None}


# --- what is asked -------------------------------------------------------------------------------

QUERIES = [
    ("alpha question", ["s@2"]),
    ('"question alpha"', []),
    ('"alpha question"', ["s@2"]),
    ("alph*", ["s@2"]),
    ("al*", ["s@2"]),
    ('"alpha que"*', ["s@2"]),
    ("alpha OR gamma", ["s@2", "s@4"]),
    ("question -delta", ["s@2"]),
    ('question -"delta question"', ["s@2"]),
    ("ALPHA", ["s@2"]),
    ("epsilon", ["s@6"]),
    ("stdout", []),
    ("content", []),
    ("alpha AND question", ["s@2"]),
    ("alpha NEAR question", []),
    ("alpha NOT question", []),
    ("text:alpha", []),
    ("_ alpha __", ["s@2"]),
    ("timeout", ["s@7"]),
    ("shell run", ["s@3"]),
]


@pytest.mark.parametrize(("text", "found"), QUERIES)
def test_queries(filled: Journal, text: str, found: list[str]) -> None:
    assert sorted(Asked(filled).search(text)) == found


def test_columns_sessions_and_times_narrow_a_search(filled: Journal) -> None:
    asked = Asked(filled)
    assert asked.search("epsilon OR zeta OR gamma", columns=["title"]) == ["s@6"]
    assert asked.search("epsilon OR zeta OR gamma", columns=["summary", "tools"]) != []
    assert asked.search("alpha", session="f") == ["f@2"] and asked.search("eta", session="f") == []
    assert asked.search("alpha", since="9999-01-01T00:00:00.000Z") == []
    with pytest.raises(UsageError, match="no column"):
        asked.search("alpha", columns=["ts"])


def test_what_only_archived_sessions_have_is_found_when_asked_for(filled: Journal) -> None:
    asked = Asked(filled)
    with filled.session("s") as s:
        s.append("message", said("omicron"), actor="user")
    everywhere = {text: asked.search(text) for text in ("alpha", "gamma", "omicron")}
    with filled.session("s") as s:
        s.update(archived=True)
    for text, found in everywhere.items():
        assert asked.search(text, archived=True) == found == asked.search(text, session="s"), text
    shared = [text for text in everywhere if asked.search(text)]
    assert shared == [text for text in everywhere if asked.search(text, session="f")] and 0 < len(shared) < 3
    assert all(hit.startswith("f@") for text in shared for hit in asked.search(text)), (
        "in the fork that is not archived"
    )
    with filled.session("s") as s:
        s.update(archived=False)
    assert {text: asked.search(text) for text in everywhere} == everywhere


def test_a_title_comes_before_a_text_and_a_text_before_a_tool(journal: Journal) -> None:
    with journal.session("s", create=True) as s:
        s.append("tool.result", {"id": "x", "response": "omega and more"}, actor="tool:x")
        s.append("message", said("omega and more"), actor="user")
        s.append("session.update", {"title": "omega and more"})
    assert Asked(journal).search("omega") == ["s@4", "s@3", "s@2"]


INJECTIONS = [
    '"', '""', "'", "a'; DROP TABLE words; --", "words:alpha", "{title} : alpha", "^alpha", "alpha NEAR(beta, 2)",
    "(alpha", "alpha)", "AND", "OR", "NOT", "NOT alpha", "-alpha", "*", "***", "alpha**", '"alpha" + "beta"', "rank:1",
    "a\x00b", "alpha\\", "%", "_", "alpha OR", "OR alpha", "\ud800", "é" * 300, "- - -", '-"', "+", "col:*",
    "x" * 10_000, "a " * 63,
]  # fmt: skip


@pytest.mark.parametrize("text", INJECTIONS)
def test_injection_is_a_search_or_one_line(filled: Journal, text: str) -> None:
    try:
        Asked(filled).search(text)
    except UsageError as error:
        assert "\n" not in str(error)
    assert len(Asked(filled).sessions()) == 2


@given(st.text(st.sampled_from("ab \"*-()OR:^{}+\\'é\x00\ud800ANDNEAR,"), max_size=30))
def test_no_text_is_an_error_of_the_database(text: str) -> None:
    db = index_db.create(None)
    try:
        index_query.search(db, cast(Any, None), text)
    except UsageError:
        pass
    finally:
        db.close()


def test_a_snippet_says_where_it_matched(filled: Journal) -> None:
    (hit,) = index.ask(filled, lambda db: index_query.search(db, filled, "alp*"))
    assert hit.snippet == "alpha question" and [hit.snippet[a:b] for a, b in hit.matches] == ["alpha"]
    assert str(hit.name) == "s" and hit.seq == 2 and hit.score > 0


# --- what an event says --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "data", "expected"),
    [
        ("message", {"parts": [{"type": "text", "content": "a"}, {"type": "reasoning", "content": "b"}]},
         Words(text="a\nb")),
        ("message", {"parts": "plain"}, Words(text="plain")),
        ("message", {"parts": [{"type": "blob", "content": "QUJD"}, 3, None, {"type": "text", "content": 4}]}, None),
        ("tool.call", {"id": "x", "name": "sh", "arguments": {"cmd": "ls", "deep": [{"k": "v"}, 7]}},
         Words(tools="sh\nls\nv")),
        ("tool.result", {"id": "x", "response": [{"type": "text", "text": "out"}]}, Words(tools="out\ntext")),
        ("tool.result", {"parts": [{"type": "tool_call_response", "id": "x", "response": "r"}]}, Words(tools="r")),
        ("session.update", {"title": "t", "summary": "u"}, Words("t", "u")),
        ("context.compaction", {"summary": [{"type": "text", "content": "short"}]}, Words(summary="short")),
        ("custom.kind", {"note": "n", "list": ["m"]}, Words(text="m\nn")),
        ("session.seal", {"root": "00"}, None),
        ("message", {"parts": []}, None),
        ("tool.result", {"response": "x" * (3 * MOST_TOOLS)}, Words(tools="x" * MOST_TOOLS)),
    ],
)  # fmt: skip
def test_what_an_event_says(kind: str, data: dict[str, Any], expected: Words | None) -> None:
    assert words(event(2, type=kind, data=data)) == expected


def test_a_withheld_event_says_nothing() -> None:
    assert words(event(2, type="message", data=said("x")).withhold()) is None


# --- the look ------------------------------------------------------------------------------------


def test_a_tail_that_was_written_just_now_is_looked_at_again(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two appends within one tick of the clock of files leave the same time and size."""
    monkeypatch.setattr(index_look, "_JUST_NOW", 10**18)
    asked = Asked(journal)
    with journal.session("s", create=True) as s:
        s.append("message", said("one"))
        asked.sessions()
        path = journal.chain(s.name).tail_path
        stamp = path.stat().st_mtime_ns
        s.append("message", said("two"))
        os.utime(path, ns=(stamp, stamp))
        assert asked.search("two") == ["s@3"]


def test_empty_folders_of_tails_are_removed(filled: Journal) -> None:
    folder = filled.path / "gitjournal" / "tail"
    assert not folder.exists() or not list(folder.iterdir())
    (folder / "left-behind").mkdir(parents=True)
    index_look.look(filled.store)
    assert not (folder / "left-behind").exists()


# --- which of many hits --------------------------------------------------------------------------


def at(asked: Asked, name: str, second: int, *texts: str, **start: str) -> None:
    """A session of which all was written in that second."""
    ts = f"2026-01-01T00:00:{second:02d}.000Z"
    with asked.journal.session(name, create=True, start=Draft("session.start", start, ts=ts)) as session:
        session.append_many([Draft("message", said(text), ts=ts) for text in texts])


def test_a_title_is_found_behind_any_number_of_texts(asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    at(asked, "z-old", 1, "a zebra as well", title="The zebra question")
    asked.sessions()
    at(asked, "b", 2, *(f"a zebra and number {number}" for number in range(30)))
    monkeypatch.setattr(index_rank, "MOST_RANKED", 5)
    grown = asked.search("zebra", limit=3)
    assert grown[0] == "z-old@1"
    index.rebuild(asked.journal)
    assert asked.search("zebra", limit=3) == grown
    assert asked.search("zebra", limit=1, columns=("text",)) == [grown[1]]


def test_of_equal_hits_the_newest_are_shown_whenever_they_were_indexed(asked: Asked) -> None:
    for name, second in (("m", 2), ("z", 3), ("a", 1)):
        at(asked, name, second, "the same zebra")
        asked.sessions()
    grown = [asked.search("zebra", limit=limit) for limit in (1, 2, 9)]
    assert grown == [["z@2"], ["z@2", "m@2"], ["z@2", "m@2", "a@2"]]
    index.rebuild(asked.journal)
    assert [asked.search("zebra", limit=limit) for limit in (1, 2, 9)] == grown


def test_as_many_are_found_as_are_wanted_where_a_line_is_there_with_and_without_an_erased_payload(
    asked: Asked, tmp_path: Path
) -> None:
    journal = asked.journal
    at(asked, "s", 1, *["the same zebra"] * 10)
    git("clone", "-q", "--mirror", journal.path, tmp_path / "before")
    erase.erase(journal, "s", [2], "asked for")
    git("fetch", "-q", tmp_path / "before", "+refs/heads/s/main:refs/heads/s/before", cwd=journal.path)
    every = asked.search("zebra")
    assert len(every) == 10
    for limit in range(1, 11):
        assert asked.search("zebra", limit=limit) == every[:limit]
    check_grown(journal)


def test_of_too_many_hits_those_of_the_sessions_that_were_written_last_are_ranked(
    asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, second in (("m", 2), ("z", 1), ("a", 3)):
        at(asked, name, second, "a zebra", "zebra zebra")
    monkeypatch.setattr(index_rank, "MOST_RANKED", 4)
    index.rebuild(asked.journal)
    assert asked.search("zebra") == ["a@3", "m@3", "a@2", "m@2"]


@pytest.mark.parametrize("about", ["{}", "[]", '{"states": 1}', "null", "5", b"\xff"])
def test_a_row_that_lacks_something_is_damage(gj: Gj, asked: Asked, about: str) -> None:
    at(asked, "s", 1, "zebra")
    right = gj("sessions").stdout
    with closing(sqlite3.connect(file_of(asked.journal))) as db, db:
        db.execute("UPDATE session SET about = ?", (about,))
    result = gj("sessions")
    assert result.stdout == right and "the index is damaged" in result.stderr
    assert gj("sessions").stderr == ""


def test_what_a_question_itself_does_wrong_is_its_own_fault(asked: Asked) -> None:
    at(asked, "s", 1, "zebra")
    with pytest.raises(KeyError):
        index.ask(asked.journal, lambda _: {}["nothing"])


def test_half_a_character_in_a_label_or_a_folder_is_no_fault(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    # As an import writes it.
    monkeypatch.setattr(rules, "refuse_tags", lambda *_: None)
    start = Draft("session.start", {"project": "/p", "labels": ["l"]})
    with journal.session("s", create=True, start=start) as s:
        s.append("session.update", foreign.wrap('{"title": "t\\ud800", "add_labels": ["x\\ud800"]}'))
    assert [row["session"] for row in Asked(journal).sessions(label="x?")] == ["s"]
    check_grown(journal)


@pytest.mark.parametrize("how", ["ask", "forget"])
def test_branches_that_are_no_json_are_damage(filled: Journal, how: str) -> None:
    rows_of(filled)
    _execute(file_of(filled), "UPDATE branch SET about = 'x'")
    with filled.session("s/b") as s:
        s.append("message", said("theta"), actor="user")
    asked = Asked(filled)
    if how == "forget":
        assert index.forget(filled) == "" and not file_of(filled).exists()
    else:
        assert asked.search("theta") == ["s/b@6"] and "the index is damaged" in asked.notes[0]
    check_grown(filled)


def test_an_index_that_somebody_else_keeps_is_done_without_and_not_removed(filled: Journal) -> None:
    index.ask(filled, index_query.sessions)
    path = index_db.place(filled.path)
    other = sqlite3.connect(path, isolation_level=None)
    # As it is left where somebody was kept from setting the log again.
    other.execute("PRAGMA journal_mode = DELETE")
    said: list[str] = []

    def question(db: sqlite3.Connection) -> int:
        if not said and not other.in_transaction:
            other.execute("BEGIN EXCLUSIVE")
        return int(db.execute("SELECT count(*) FROM session").fetchone()[0])

    before = path.stat().st_ino
    with closing(other):
        assert index.ask(filled, question, say=said.append) == 2
        assert said == ["another process keeps the index: working without it"]
        assert path.stat().st_ino == before
        other.execute("ROLLBACK")
    with filled.session("more", create=True) as session:
        session.append("message", {"n": 1})
    index.ask(filled, index_query.sessions)
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_another_reader_that_ends_at_this_moment_makes_the_index_no_foreign_file(
    filled: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    index.ask(filled, index_query.sessions)
    path = index_db.place(filled.path)
    log = path.with_name(path.name + "-wal")
    log.write_bytes(b"")
    whole = os.lstat

    def lstat(one: Any, **how: Any) -> os.stat_result:
        found = whole(one, **how)
        if str(one) == str(log):
            log.unlink(missing_ok=True)
        return found

    monkeypatch.setattr(os, "lstat", lstat)
    assert index_db._is_own(path)
    assert not log.exists()


def _no_counters(kept: bytes) -> bytes:
    frozen = json.loads(zlib.decompress(kept))
    frozen["builder"]["counters"] = "x"
    return zlib.compress(json.dumps(frozen).encode())


@pytest.mark.parametrize("spoil", [lambda kept: b"x", lambda kept: zlib.compress(b"{}"), _no_counters])
def test_a_kept_fold_that_is_none_is_damage(
    filled: Journal, spoil: Callable[[bytes], bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    for room in (index_line, index_build):
        monkeypatch.setattr(room, "APART", 2)
    index.rebuild(filled)
    with closing(sqlite3.connect(file_of(filled))) as db, db:
        kept = db.execute("SELECT rowid, state FROM saved").fetchall()
        assert kept
        db.executemany("UPDATE saved SET state = ? WHERE rowid = ?", [(spoil(state), row) for row, state in kept])
    with filled.session("s") as s:
        s.append("message", said("theta"), actor="user")
    asked = Asked(filled)
    assert asked.search("theta") == ["s@8"] and "the index is damaged" in asked.notes[0]
    check_grown(filled)
