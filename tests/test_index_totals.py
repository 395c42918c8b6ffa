"""What the list says that sessions have used is what `gj cost` says of each: an event counts once, and a response."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from support import git
from test_cost import call, event, response, result, say
from transcripts import line, reply

import gitjournal
from gitjournal import index, index_fold, index_line, index_query, index_used, writer
from gitjournal.cost import grouped, tally, total
from gitjournal.erase import erase
from gitjournal.errors import JournalError
from gitjournal.formats import import_file
from gitjournal.journal import Journal
from gitjournal.ledger import Scope
from gitjournal.resume import resume
from gitjournal.state import USAGE
from gitjournal.writer import Draft

SOURCE = "6f0c3f1e-58c4-4f43-9d0b-3c1f5a2b7e11"


def listed(journal: Journal) -> dict[str, dict[str, Any]]:
    """The totals of the list, by session, with the names of `gj cost`."""
    rows = index.ask(journal, lambda db: index_query.sessions(db, archived=True))
    return {row["session"]: _as_cost(row) for row in rows if not row["error"]}


def _as_cost(row: dict[str, Any]) -> dict[str, Any]:
    tokens = row["tokens"]
    return {
        "events": row["events"],
        "input": tokens["input"],
        "output": tokens["output"],
        "cache_read": tokens["cache_read"],
        "cache_write": tokens["cache_creation"],
        "reasoning": tokens["reasoning"],
        "user_turns": row["turns"]["user"],
        "model_turns": row["turns"]["model"],
        "tool_calls": row["tool_calls"],
        "errors": row["errors"],
    }


def counted(journal: Journal, session: str) -> dict[str, Any]:
    """What `gj cost` says of a session without those below it."""
    found = total(grouped(tally(journal, Scope(frozenset({session}))))).as_dict()
    return {name: found[name] for name in _as_cost({"tokens": dict.fromkeys(
        ("input", "output", "cache_read", "cache_creation", "reasoning")), "turns": {"user": 0, "model": 0},
        "events": 0, "tool_calls": 0, "errors": 0})}  # fmt: skip


def check(journal: Journal) -> None:
    """A list that has grown and one made anew must say what the ledger says."""
    right = {session: counted(journal, session) for session in {name.session for name in journal.sessions()}}
    assert listed(journal) == right
    index.rebuild(journal)
    assert listed(journal) == right


# --- random sessions -----------------------------------------------------------------------------

ids = st.sampled_from(["r1", "r2", "r3", None])
answers = st.builds(
    lambda name, counts, provider, parts: (
        "model.response",
        {"usage": dict(zip(USAGE, counts, strict=False))}
        | ({"response.id": name} if name else {})
        | ({"provider.name": provider} if provider else {})
        | ({"parts": [{"type": "text", "content": "yes"}]} if parts else {}),
    ),
    ids,
    st.lists(st.integers(0, 9), max_size=5),
    st.sampled_from([None, None, "openai", "anthropic"]),
    st.booleans(),
)
drafts = st.lists(st.one_of(answers, answers, event), max_size=5)
steps = st.one_of(
    st.tuples(st.just("append"), st.integers(0, 9), drafts, st.booleans()),
    st.tuples(st.just("append"), st.integers(0, 9), drafts, st.booleans()),
    st.tuples(st.just("branch"), st.integers(0, 9), st.integers(0, 99)),
    st.tuples(st.just("fork"), st.integers(0, 9), st.integers(0, 99)),
    st.tuples(st.just("resume"), st.integers(0, 9)),
    st.tuples(st.just("import"), st.lists(st.tuples(st.integers(0, 3), st.integers(0, 9)), min_size=1, max_size=5)),
    st.tuples(st.just("copy"), st.integers(0, 9)),
    st.tuples(st.just("back"), st.integers(0, 9), st.integers(0, 99)),
    st.tuples(st.just("ask")),
)


class Played:
    """A journal to which such things happen."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.journal = gitjournal.init(folder / "journal")
        self.open: dict[Any, Any] = {}
        self.count = 0
        with self.journal.session("s", create=True, start=Draft("session.start", {"source": "console"})):
            pass

    def play(self, step: tuple[Any, ...]) -> None:
        self.count += 1
        getattr(self, f"do_{step[0]}")(*step[1:])

    def _name(self, number: int) -> Any:
        names = sorted(self.journal.sessions())
        return names[number % len(names)]

    def do_append(self, number: int, made: list[tuple[str, Any]], stays: bool) -> None:
        name = self._name(number)
        session = self.open.pop(name, None) or self.journal.session(name)
        for kind, data in made:
            session.append(kind, data)
        if stays:
            self.open[name] = session
        else:
            session.close()

    def do_branch(self, number: int, at: int) -> None:
        name = self._name(number)
        self.journal.branch(name, at % self.journal.head(name).seq + 1, f"b{self.count}")

    def do_fork(self, number: int, at: int) -> None:
        name = self._name(number)
        self.journal.fork(name, at % self.journal.head(name).seq + 1, f"f{self.count}")

    def do_resume(self, number: int) -> None:
        name = self._name(number)
        self.close(name)
        resume(self.journal, name)

    def do_import(self, said: list[tuple[int, int]]) -> None:
        """A transcript that other agents have rewound and repeated: the same ids, here and there with other counts."""
        path = self.folder / "x.jsonl"
        block = [{"type": "text", "text": "x"}]
        content = line("words", 0, sessionId=SOURCE)
        for place, (name, count) in enumerate(said, 1):
            usage = {"input_tokens": 10 * count, "output_tokens": count}
            content += reply(block, place, usage=usage, message={"id": f"r{name}"}, sessionId=SOURCE)
        path.write_bytes(content)
        import_file(self.journal, path)

    def do_copy(self, number: int) -> None:
        name = self._name(number)
        if oid := self.journal.store.read_ref(self.journal.chain(name).ref):
            git("update-ref", f"refs/heads/{name.session}/c{self.count}", oid.hex(), cwd=self.journal.path, check=False)

    def do_back(self, number: int, by: int) -> None:
        name = self._name(number)
        self.close(name)
        chain = self.journal.chain(name)
        commits = chain.commits()
        git("update-ref", chain.ref, commits[by % len(commits)].hex(), cwd=self.journal.path)

    def do_ask(self) -> None:
        listed(self.journal)

    def close(self, name: Any) -> None:
        if session := self.open.pop(name, None):
            session.close()


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(played=st.lists(steps, max_size=10), apart=st.sampled_from([2, 1000]))
# A response that two branches repeat, as an import of a rewound transcript makes it.
@example(
    played=[
        ("append", 0, [response("r1", 1000, 100)[:2]], False),
        ("branch", 0, 0),
        ("ask",),
        ("append", 0, [response("r9", 500, 50)[:2]], False),
        ("append", 1, [response("r9", 500, 60)[:2]], False),
        ("fork", 0, 2),
        ("ask",),
    ],
    apart=1000,
)
def test_totals_are_those_of_the_ledger(
    played: list[Any], apart: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("played")
    game = Played(folder)
    with pytest.MonkeyPatch.context() as patch:
        for room in (index_fold, index_line):
            patch.setattr(room, "APART", apart)
        # Between two looks at the same journal nobody should flush it.
        patch.setattr(writer, "IDLE_SECONDS", 1000)
        try:
            for step in played:
                try:
                    game.play(step)
                except JournalError:
                    # What a copied or set back branch refuses.
                    continue
            check(game.journal)
        finally:
            for name in list(game.open):
                game.close(name)
            shutil.rmtree(folder)


# --- one by one ----------------------------------------------------------------------------------


def record(journal: Journal, name: str, *made: tuple[str, Any, str]) -> None:
    with journal.session(name, create="/" not in name) as session:
        session.append_many(list(made))


def test_a_response_that_branches_repeat_counts_once_with_its_largest_counters(journal: Journal) -> None:
    record(journal, "p", say(), response("r1", 1000, 100))
    journal.branch("p", 3, "b")
    journal.fork("p", 3, "f")
    record(journal, "p", response("r9", 500, 50))
    record(journal, "p/b", response("r9", 500, 60))
    record(journal, "f", response("r1", 7, 7), call("c"), result("c"))
    found = listed(journal)
    assert (found["p"]["input"], found["p"]["output"], found["p"]["model_turns"]) == (1500, 160, 2)
    assert (found["f"]["events"], found["f"]["input"], found["f"]["user_turns"]) == (4, 7, 0)
    assert sum(one["events"] for one in found.values()) == total(grouped(tally(journal, Scope()))).events
    check(journal)


@pytest.mark.parametrize("asked", [False, True])
def test_an_event_that_has_its_payload_on_one_branch_only_counts_once(
    journal: Journal, tmp_path: Path, asked: bool
) -> None:
    record(journal, "s", say(), response("r1", 10, 1), say(), response("r2", 20, 2))
    git("clone", "-q", "--mirror", journal.path, tmp_path / "copy")
    erase(journal, "s", [3], "asked for")
    record(journal, "s", say(), response("r3", 40, 4))
    if asked:
        check(journal)
    # What a fetch from a copy brings that knows nothing of the erasure.
    git("fetch", "-q", tmp_path / "copy", "+refs/heads/s/main:refs/heads/s/old", cwd=journal.path)
    found = listed(journal)
    assert (found["s"]["events"], found["s"]["user_turns"]) == (8, 3)
    check(journal)


def test_more_than_a_counter_can_hold_is_no_error() -> None:
    data = {"response.id": "\ud800", "provider.name": 7}
    records = b"".join(index_used.record(seq, data, [10**30, 0, 0, 0, seq], spoke=False) for seq in (1, 2))
    assert index_used.total(records) == (1, (2**64 - 1, 0, 0, 0, 2))
    assert index_used.within(records, 1, 2) == records[len(records) // 2 :] and index_used.first(records) == 1
