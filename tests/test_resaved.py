"""Documents that are written anew at each saving: what is new goes on the same branch, and every saving comes back."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from imported import Json, counters, forget, given_back, take, texts

import gitjournal
from gitjournal import Journal, fold
from gitjournal.erase import erase
from gitjournal.errors import FormatError
from gitjournal.event import Event
from gitjournal.formats import export, find, import_file, resaved
from gitjournal.formats.copied import is_copied
from gitjournal.formats.protocol import RecordFormat
from gitjournal.formats.records import Record
from gitjournal.refs import Name
from gitjournal.state_form import SessionState

ID = "s-1"


def said(n: int, text: str = "", kind: str = "user", **more: Any) -> Json:
    content = text or f"words {n} " + "of some length " * 5
    return {"id": f"m{n}", "timestamp": f"2026-04-01T10:{n:02d}:00.000Z", "type": kind, "content": content, **more}


def answer(n: int, *calls: str, **more: Any) -> Json:
    tokens = {"input": 100 * n, "output": 10, "cached": 0, "thoughts": 0, "tool": 0, "total": 100 * n + 10}
    made = [{"id": one, "name": "ls", "args": {}, "status": "executing"} for one in calls]
    return said(n, f"answer {n}", "gemini", model="m", tokens=tokens, **({"toolCalls": made} if made else {}), **more)


def gemini(*messages: Json, indent: int | None = 2, **more: Any) -> bytes:
    """The document; it says when it was saved."""
    saved = f"2026-04-01T11:{len(messages):02d}:00.000Z"
    about = {"sessionId": ID, "projectHash": "ab" * 32, "startTime": "2026-04-01T10:00:00.000Z", "lastUpdated": saved}
    return json.dumps({**about, "messages": messages, **more}, indent=indent).encode()


def atif(*steps: Json, **more: Any) -> bytes:
    agent = {"name": "a", "version": "1"}
    return json.dumps(
        {"schema_version": "ATIF-v1.7", "session_id": ID, "agent": agent, "steps": steps, **more}
    ).encode()


def step(n: int, source: str = "user") -> Json:
    return {"step_id": n, "source": source, "message": f"step {n}"}


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    return gitjournal.init(tmp_path / "journal.git")


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return tmp_path / "session.json"


def exported(journal: Journal, name: str = ID, fmt: str = "gemini") -> bytes:
    return given_back(journal, name, fmt)


def heads(journal: Journal) -> dict[str, Any]:
    return {name.branch: journal.head(name) for name in journal.branches(ID)}


def state(journal: Journal, name: str = ID) -> SessionState:
    return fold(journal.events(name))


def savings(journal: Journal, name: str = ID) -> list[Event]:
    return [event for event in journal.events(name) if is_copied(event)]


STEPS = [
    gemini(said(1)),
    gemini(said(1), answer(2, "c1")),
    gemini(said(1), answer(2, "c1"), said(3), answer(4)),
]


def test_what_was_added_to_a_document_goes_on_the_same_branch(journal: Journal, source: Path) -> None:
    reports = [take(journal, source, content) for content in STEPS]
    assert [(one.branch, one.skipped_known) for one in reports] == [("main", 0), ("main", 2), ("main", 3)]
    # The frame with the time of the saving, and the messages that are new.
    assert [one.added for one in reports] == [3, 2, 3]
    assert len(journal.branches(ID)) == 1 and exported(journal) == STEPS[-1]
    assert "written anew: 3 of its 6 records" in reports[-1].notes[0]


def test_turns_and_tokens_are_those_of_the_last_saving(journal: Journal, source: Path, tmp_path: Path) -> None:
    for content in STEPS:
        take(journal, source, content)
    other = gitjournal.init(tmp_path / "other.git")
    take(other, source, STEPS[-1])
    ours, theirs = state(journal), state(other)
    assert (ours.turns, counters(ours), ours.tool_calls) == (theirs.turns, counters(theirs), theirs.tool_calls)
    assert texts(ours.history) == texts(theirs.history) and ours.turns["user"] == 2 and counters(ours)[:2] == [600, 20]


def test_a_message_that_was_changed_is_said_once(journal: Journal, source: Path) -> None:
    take(journal, source, gemini(said(1), answer(2, "c1")))
    assert len(state(journal).open_calls) == 1
    done = answer(2, "c1")
    done["content"], done["tokens"]["output"] = "answer 2", 55
    done["toolCalls"][0] |= {"status": "success", "result": [{"functionResponse": {"id": "c1", "response": {}}}]}
    content = gemini(said(1), done)
    assert take(journal, source, content).branch == "main"
    now = state(journal)
    assert (now.turns["model"], now.tool_calls, now.tool_results, len(now.open_calls)) == (1, 1, 1, 0)
    assert counters(now)[:2] == [200, 55] and texts(now.history).count("answer 2") == 1
    assert exported(journal) == content


def test_every_saving_comes_back(journal: Journal, source: Path) -> None:
    ends = []
    for content in STEPS:
        take(journal, source, content)
        ends.append(journal.head(Name(ID)).seq)
    for number, (content, end) in enumerate(zip(STEPS, ends, strict=True)):
        journal.branch(Name(ID), end, f"old-{number}")
        assert exported(journal, f"{ID}/old-{number}") == content


def test_importing_any_saving_again_adds_nothing(journal: Journal, source: Path, tmp_path: Path) -> None:
    for content in STEPS:
        take(journal, source, content)
    before = heads(journal)
    for content in [*STEPS, STEPS[0]]:
        report = take(journal, source, content)
        assert report.added == 0 and heads(journal) == before
        forget(journal)
    # One that was never seen, of the time between two others.
    assert take(journal, source, gemini(said(1), answer(2, "c1"), said(3))).added == 0 and heads(journal) == before


def test_the_same_savings_are_the_same_events_everywhere(journal: Journal, tmp_path: Path) -> None:
    other = gitjournal.init(tmp_path / "other.git")
    for one, folder in ((journal, "a"), (other, "b")):
        (tmp_path / folder).mkdir()
        for content in STEPS:
            take(one, tmp_path / folder / "session.json", content)
            if one is other:
                forget(one)
    assert heads(journal) == heads(other)


def test_a_saving_costs_what_is_new_in_it(journal: Journal, source: Path) -> None:
    messages: list[Json] = []
    for n in range(1, 30):
        messages.append(said(n))
        take(journal, source, gemini(*messages))
    assert exported(journal) == gemini(*messages)
    sizes = [event.files[0]["size"] for event in savings(journal)]
    # A few bytes for each message that is there already.
    assert max(sizes) < 250 + 12 * 29 and len(list(journal.events(ID))) < 4 * 30


def test_a_document_that_lost_a_message_is_a_new_version(journal: Journal, source: Path) -> None:
    for content in STEPS:
        take(journal, source, content)
    fewer = gemini(said(1), said(7), said(8))
    report = take(journal, source, fewer)
    assert report.branch == "import-2" and exported(journal, f"{ID}/import-2") == fewer
    # It grows, and so does the first one: each where it is.
    for content, name in (
        (gemini(said(1), said(7), said(8), said(9)), f"{ID}/import-2"),
        (gemini(said(1), answer(2, "c1"), said(3), answer(4), said(5)), ID),
        (gemini(said(1), said(7), said(8), said(9), said(10)), f"{ID}/import-2"),
    ):
        forget(journal)
        assert take(journal, source, content).branch == (name.partition("/")[2] or "main")
        assert exported(journal, name) == content
    assert {name.branch for name in journal.branches(ID)} == {"main", "import-2"}


def test_a_document_that_is_shorter_and_changed_is_not_an_older_one(journal: Journal, source: Path) -> None:
    take(journal, source, gemini(said(1), said(2), said(3)))
    assert take(journal, source, gemini(said(1), said(2))).added == 0
    content = gemini(said(1), said(2, "otherwise"))
    assert take(journal, source, content).branch == "import-2" and exported(journal, f"{ID}/import-2") == content


def test_an_older_saving_that_was_never_seen_is_said_not_to_be_kept(journal: Journal, source: Path) -> None:
    older, newest = gemini(said(1), said(2), lastUpdated="other"), gemini(said(1), said(2), said(3))
    for content in (gemini(said(1)), newest):
        assert take(journal, source, content).exact
    before = heads(journal)
    report = take(journal, source, older)
    assert (report.added, report.exact, report.as_dict()["exact"]) == (0, False, False)
    assert "older saving" in report.notes[0] and "its exact bytes are not kept" in report.lines()[-1]
    assert heads(journal) == before and exported(journal) == newest
    # One that was seen is kept, and who wants the other one too has it under another id.
    assert take(journal, source, gemini(said(1))).exact
    source.write_bytes(older)
    assert import_file(journal, source, session="other").exact and exported(journal, "other") == older


def test_another_message_under_the_same_place_is_no_growth(journal: Journal, source: Path) -> None:
    take(journal, source, gemini(said(1), said(2)))
    assert take(journal, source, gemini(said(1), said(3), said(4))).branch == "import-2"


def test_an_element_that_becomes_what_stands_around_others_is_no_growth() -> None:
    def at(place: tuple[str, int], raw: bytes, *, fragment: bool) -> Record:
        return Record(1, 0, raw, json.loads(raw), "", False, True, b"", place, fragment)

    fmt = find("openai-agents")
    assert isinstance(fmt, RecordFormat)
    word, other = at(("a", 0), b'"x"', fragment=False), at(("a", 0), b'{"y": 1}', fragment=True)
    assert fmt.comes_again(word, other) and resaved.changes(fmt, [word], [other]) is None
    assert resaved.changes(fmt, [other._replace(raw=b"{}")], [other]) == [other]


def test_a_document_that_is_only_spaced_otherwise(journal: Journal, source: Path) -> None:
    for indent in (2, None, 4, 2):
        content = gemini(said(1), answer(2), indent=indent)
        take(journal, source, content)
        forget(journal)
        take(journal, source, content)
    assert len(journal.branches(ID)) == 1 and state(journal).turns == {"user": 1, "model": 1}
    # The last one is the first one again, which is there.
    assert exported(journal) == gemini(said(1), answer(2), indent=4)


def test_a_trajectory_grows_but_its_steps_do_not_change(journal: Journal, source: Path) -> None:
    take(journal, source, atif(step(1)))
    metrics = {"total_prompt_tokens": 3}
    report = take(journal, source, atif(step(1), step(2, "agent"), final_metrics=metrics))
    assert (report.branch, report.added) == ("main", 2)
    changed = atif(step(1), {**step(2, "agent"), "message": "otherwise"}, final_metrics=metrics)
    assert take(journal, source, changed).branch == "import-2"
    assert exported(journal, f"{ID}/import-2", "atif") == changed
    assert exported(journal, ID, "atif") == atif(step(1), step(2, "agent"), final_metrics=metrics)


def test_a_run_of_mini_swe_agent_grows(journal: Journal, tmp_path: Path) -> None:
    path = tmp_path / "s-1.traj.json"
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "List."}]
    info = {"mini_version": "2", "model_stats": {"api_calls": 1}}
    take(journal, path, json.dumps({"info": info, "messages": messages}).encode())
    messages.append({"role": "assistant", "content": "a.py"})
    info = {"mini_version": "2", "model_stats": {"api_calls": 2}}
    content = json.dumps({"info": info, "messages": messages}).encode()
    report = take(journal, path, content)
    (name,) = journal.sessions()
    assert (report.branch, report.added) == ("main", 2) and exported(journal, str(name), "swe-agent") == content
    assert state(journal, str(name)).turns == {"user": 1, "model": 1}
    # Where the tokens of the run are counted, they would count twice.
    info["model_stats"] = {"tokens_sent": 9, "tokens_received": 1}
    assert take(journal, path, json.dumps({"info": info, "messages": messages}).encode()).branch == "import-2"


def test_the_state_of_a_run_grows(journal: Journal, source: Path) -> None:
    def run(turn: int, *said_so_far: str) -> bytes:
        items = [
            {"type": "message_output_item", "raw_item": {"role": "assistant", "type": "message", "content": one}}
            for one in said_so_far
        ]
        responses = [
            {"response_id": f"r{n}", "usage": {"input_tokens": 10, "output_tokens": 1}} for n, _ in enumerate(items)
        ]
        about = {"$schemaVersion": "1.13", "conversation_id": ID, "current_turn": turn, "generated_items": items}
        return json.dumps({**about, "model_responses": responses, "original_input": "Hi.", "turns": turn}).encode()

    for turn, content in enumerate([run(1, "a"), run(2, "a", "b"), run(3, "a", "b", "c")], 1):
        report = take(journal, source, content)
        assert report.branch == "main" and exported(journal, ID, "openai-agents") == content
        now = state(journal)
        assert (now.turns["user"], counters(now)[:2]) == (1, [10 * turn, turn])
    assert texts(now.history) == ["a", "Hi.", "b", "c"]


def test_who_watches_waits_for_a_document_that_is_half_written(journal: Journal, source: Path) -> None:
    for content in STEPS:
        for half in (content[: len(content) // 2], content[: content.index(b"{", 5) + 20], content[:30]):
            report = take(journal, source, half, format="gemini", complete_only=True)
            assert report.pending and not report.added
        assert take(journal, source, content, complete_only=True).branch == "main"
    assert len(list(journal.sessions())) == 1 and exported(journal) == STEPS[-1]


def test_after_it_went_on_live_a_document_is_a_new_version(journal: Journal, source: Path) -> None:
    take(journal, source, STEPS[0])
    take(journal, source, STEPS[1])
    with journal.session(ID) as session:
        session.user("live")
    report = take(journal, source, STEPS[2])
    assert report.branch == "import-2" and exported(journal, f"{ID}/import-2") == STEPS[2]


def test_what_was_erased_does_not_come_back_on_the_branch(journal: Journal, source: Path) -> None:
    take(journal, source, STEPS[0])
    take(journal, source, STEPS[1])
    erase(journal, ID, [3], "a name")
    forget(journal)
    with pytest.raises((FormatError, gitjournal.errors.UsageError)):
        exported(journal)
    report = take(journal, source, STEPS[2])
    assert report.branch == "import-2" and exported(journal, f"{ID}/import-2") == STEPS[2]


def test_a_saving_that_was_cut_is_not_gone_on_from(journal: Journal, source: Path) -> None:
    take(journal, source, STEPS[0])
    take(journal, source, STEPS[1])
    # As if the process had ended before the document's bytes were written.
    last = journal.head(Name(ID)).seq - 1
    torn = gitjournal.init(journal.path.parent / "torn.git")
    path = journal.path.parent / "part.jsonl"
    with path.open("wb") as out:
        export(journal, ID, "jsonl", out)
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:last]))
    import_file(torn, path)
    assert exported(torn) == STEPS[0]
    report = take(torn, source, STEPS[2])
    assert report.branch == "import-2" and exported(torn, f"{ID}/import-2") == STEPS[2]


def test_secrets_stay_out_of_every_saving(journal: Journal, source: Path) -> None:
    token = "ghp_" + "a1B2c3D4e5F6" * 3
    take(journal, source, gemini(said(1, f"key {token}")), redact=True)
    report = take(journal, source, gemini(said(1, f"key {token}"), answer(2, "c1"), said(3, f"again {token}")))
    assert (report.branch, report.added) == ("main", 3)
    document = json.loads(exported(journal))
    assert [one["id"] for one in document["messages"]] == ["m1", "m2", "m3"]
    assert token not in json.dumps(document) and document["messages"][2]["content"].startswith("again [redacted:")
    assert all(token.encode() not in event.read_file(1) for event in journal.events(ID) if event.files)


def test_a_dry_run_says_what_would_come(journal: Journal, source: Path) -> None:
    take(journal, source, STEPS[0])
    before = heads(journal)
    report = take(journal, source, STEPS[2], dry_run=True)
    assert (report.added, report.branch) == (4, "main") and heads(journal) == before
    assert take(journal, source, STEPS[2]).added == 4


SPOTS = st.lists(st.tuples(st.integers(1, 4), st.lists(st.integers(0, 12), max_size=3, unique=True)), max_size=5)


@given(SPOTS)
@settings(max_examples=300, deadline=None)
def test_as_much_as_can_be_is_copied(spots: list[tuple[int, list[int]]]) -> None:
    """What is chosen never goes back, and no other choice copies more."""
    now = [Record(n, 0, b"%d" % n * size, None, "", False, True) for n, (size, _) in enumerate(spots)]
    places = {
        sha256(record.raw).digest(): [resaved._Place(at, len(record.raw), b"") for at in sorted(ats)]
        for record, (_, ats) in zip(now, spots, strict=True)
    }

    def copied(choice: Iterable[resaved._Place | None]) -> int:
        end = total = 0
        for one in choice:
            if one is not None:
                if one.at < end:
                    return -1
                end, total = one.at + one.size, total + one.size
        return total

    options = [[None, *places[sha256(record.raw).digest()]] for record in now]
    assert copied(resaved._chosen(places, now)) == max(map(copied, itertools.product(*options)))


MESSAGES = st.lists(
    st.builds(
        lambda n, kind, text: said(n, text, kind),
        st.integers(1, 6), st.sampled_from(["user", "gemini", "info"]), st.sampled_from(["", "a", "b" * 40]),
    ),
    max_size=5,
)  # fmt: skip


@given(st.lists(st.tuples(MESSAGES, st.booleans(), st.sampled_from([None, 2])), min_size=1, max_size=5))
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_savings_come_back(
    tmp_path_factory: pytest.TempPathFactory, plan: list[tuple[list[Json], bool, int | None]]
) -> None:
    folder = tmp_path_factory.mktemp("any")
    journal, path = gitjournal.init(folder / "j"), folder / "s.json"
    messages: list[Json] = []
    for more, grows, indent in plan:
        messages = messages + more if grows else more
        content = gemini(*messages, indent=indent)
        before = heads(journal) if journal.branches(ID) else {}
        report = take(journal, path, content)
        forget(journal)
        assert take(journal, path, content).added == 0
        if heads(journal) != before:
            assert exported(journal, f"{ID}/{report.branch}") == content
