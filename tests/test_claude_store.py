"""The session store for the Claude Agent SDK: its own conformance suite, and what that does not ask."""

from __future__ import annotations

import asyncio
import itertools
import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from transcripts import line, reply

import gitjournal
from gitjournal import Journal, policy
from gitjournal.claude_store import ClaudeSessionStore
from gitjournal.errors import LeaseHeld, Refused, UsageError
from gitjournal.formats import import_file
from gitjournal.refs import JOURNAL_SESSION, Name
from gitjournal.verify import verify

KEY = {"project_key": "-home-ada", "session_id": "s1"}
SUB = {**KEY, "subpath": "subagents/agent-a1"}


def do(coroutine: Any) -> Any:
    return asyncio.run(coroutine)


def entries(*lines: bytes) -> list[dict[str, Any]]:
    return [json.loads(one) for one in lines]


@pytest.fixture
def store(journal: Journal) -> ClaudeSessionStore:
    return ClaudeSessionStore(journal)


def test_the_conformance_suite_of_the_sdk(tmp_path: Path) -> None:
    testing = pytest.importorskip("claude_agent_sdk.testing", reason="the Claude Agent SDK is not installed")
    numbers = itertools.count()

    def fresh() -> ClaudeSessionStore:
        return ClaudeSessionStore(gitjournal.init(tmp_path / str(next(numbers))))

    do(testing.run_session_store_conformance(fresh))
    assert next(numbers) > 10


def test_entries_become_the_events_of_an_import(journal: Journal, store: ClaudeSessionStore, tmp_path: Path) -> None:
    lines = [line("hello"), reply([{"type": "text", "text": "hi"}], 1), line("é \u2028 😀", 2)]
    for one in lines:
        do(store.append(KEY, entries(one)))
    assert do(store.load(KEY)) == entries(*lines)
    assert [event.type for event in journal.events("s1")] == ["session.start", "message", "model.response", "message"]
    assert verify(journal, "s1").ok
    # The agent's own transcript, which has the same lines, adds nothing; and grown, its growth.
    transcript = tmp_path / "s1.jsonl"
    transcript.write_bytes(b"".join(lines) + line("more", 3))
    report = import_file(journal, transcript)
    assert (report.skipped_known, report.added, report.branch) == (3, 1, "main")
    do(store.append(KEY, entries(line("more", 3), line("last", 4))))
    assert do(store.load(KEY)) == entries(*lines, line("more", 3), line("last", 4))


def test_an_entry_with_a_known_uuid_is_left_out(journal: Journal, store: ClaudeSessionStore) -> None:
    """The SDK tries a batch again when it does not hear of it."""
    batch = entries(line(n=0), line(n=1))
    do(store.append(KEY, batch))
    do(store.append(KEY, [*batch, *entries(line(n=2)), *entries(line(n=2))]))
    again = ClaudeSessionStore(journal)
    do(again.append(KEY, batch))
    assert [one["uuid"] for one in do(again.load(KEY))] == ["u0", "u1", "u2"]
    # Those without one are never taken for each other.
    title = {"type": "custom-title", "customTitle": "x", "sessionId": "s1"}
    do(store.append(KEY, [title]))
    do(store.append(KEY, [title]))
    assert do(store.load(KEY)).count(title) == 2


def test_a_sub_agent_is_a_session_of_its_own_with_a_parent(journal: Journal, store: ClaudeSessionStore) -> None:
    do(store.append(KEY, entries(line())))
    do(store.append(SUB, entries(line(isSidechain=True, agentId="a1"))))
    assert {str(name) for name in journal.sessions()} >= {"s1", "s1.agent-a1"}
    assert journal.event("s1.agent-a1", 1).data["parent"] == {"session": "s1"}
    assert do(store.list_subkeys(KEY)) == ["subagents/agent-a1"]
    assert [one["session_id"] for one in do(store.list_sessions(KEY["project_key"]))] == ["s1"]


def test_keys_that_look_alike_are_kept_apart(journal: Journal, store: ClaudeSessionStore) -> None:
    keys = [
        KEY,
        {**KEY, "project_key": "other"},
        {**KEY, "subpath": "x/agent-1"},
        {**KEY, "subpath": "y/agent-1"},
        {**KEY, "subpath": "agent-1"},
        {**KEY, "session_id": "s1.agent-1"},
        {**KEY, "session_id": "../../etc/passwd"},
        {**KEY, "session_id": "x" * 500},
        {**KEY, "session_id": JOURNAL_SESSION},
        {**KEY, "subpath": "a/\n/\x00"},
        {**KEY, "subpath": "a/" + "y" * 500},
    ]
    for number, key in enumerate(keys):
        do(store.append(key, [{"type": "x", "n": number}]))
    for one in (store, ClaudeSessionStore(journal)):
        for number, key in enumerate(keys):
            assert do(one.load(key)) == [{"type": "x", "n": number}]


def test_a_session_that_was_not_stored_is_not_given_out(
    journal: Journal, store: ClaudeSessionStore, tmp_path: Path
) -> None:
    """A journal may hold what others have recorded; who asks by a key gets what was stored under it."""
    (tmp_path / "s1.jsonl").write_bytes(line("imported"))
    import_file(journal, tmp_path / "s1.jsonl")
    assert do(store.load(KEY)) is None
    do(store.append(KEY, entries(line("stored"))))
    assert do(store.load(KEY)) == entries(line("stored"))
    assert [event.data["parts"][0]["content"] for event in journal.events("s1", after=1)] == ["imported"]


@pytest.mark.parametrize(
    "key",
    [
        {},
        {"project_key": "a"},
        {"project_key": "", "session_id": "s"},
        {**KEY, "subpath": ""},
        {**KEY, "session_id": 3},
    ],
)
def test_what_is_no_key_is_refused(key: dict[str, Any], store: ClaudeSessionStore) -> None:
    with pytest.raises(UsageError, match="session_id"):
        do(store.append(key, [{"type": "x"}]))


def test_a_session_that_another_process_writes_is_refused_and_goes_on_later(
    journal: Journal, store: ClaudeSessionStore
) -> None:
    do(store.append(KEY, entries(line())))
    with journal.session("s1", epoch=1, salted=False), pytest.raises(LeaseHeld):
        do(store.append(KEY, entries(line(n=1))))
    do(store.append(KEY, entries(line(n=1))))
    assert len(do(store.load(KEY))) == 2


def test_what_another_process_appends_is_seen(journal: Journal, store: ClaudeSessionStore) -> None:
    do(store.append(KEY, entries(line())))
    other = ClaudeSessionStore(gitjournal.open(journal.path))
    do(other.append(KEY, entries(line(n=1))))
    do(store.append(KEY, entries(line(n=1), line(n=2))))
    assert [one["uuid"] for one in do(other.load(KEY))] == ["u0", "u1", "u2"]


def test_many_tasks_append_at_once(store: ClaudeSessionStore) -> None:
    async def work() -> list[dict[str, Any]]:
        await asyncio.gather(*(store.append({**KEY, "session_id": f"s{n % 3}"}, entries(line(n=n))) for n in range(12)))
        return [one for n in range(3) for one in await store.load({**KEY, "session_id": f"s{n}"}) or ()]

    assert sorted(one["uuid"] for one in do(work())) == sorted(f"u{n}" for n in range(12))


def test_a_deleted_session_leaves_a_tombstone(journal: Journal, store: ClaudeSessionStore) -> None:
    do(store.append(KEY, entries(line())))
    do(store.append(SUB, entries(line(isSidechain=True))))
    do(store.delete(KEY))
    assert do(store.load(KEY)) is None and do(store.load(SUB)) is None
    told = [event.data["session"] for event in journal.events(Name(JOURNAL_SESSION)) if event.type == "session.delete"]
    assert sorted(told) == ["s1", "s1.agent-a1"]
    do(store.append(KEY, entries(line("anew"))))
    assert do(store.load(KEY)) == entries(line("anew"))


def test_a_policy_that_wants_imports_redacted_holds(journal: Journal, tmp_path: Path) -> None:
    (journal.path / "policy.toml").write_text('[import]\nredact = "required"\n')
    journal.store.set_settings({policy.SETTING: "policy.toml"})
    store = ClaudeSessionStore(journal)
    secret = "ghp_" + "wWPw5k4aXcaT4fNP0UcnZwJUVFk6LO0pINUx"
    do(store.append(KEY, entries(line(f"my key is {secret}"))))
    [entry] = do(store.load(KEY))
    assert secret not in json.dumps(entry) and "[redacted:" in entry["message"]["content"] and entry["uuid"] == "u0"
    do(store.append(KEY | {"session_id": "s2"}, entries(line(cwd=f"/home/{secret}", sessionId="s2"))))
    with pytest.raises(Refused, match="key of a session"):
        do(store.append(KEY | {"project_key": secret}, entries(line())))
    raw = b"".join(event.raw for name in ("s1", "s2") for event in journal.events(name))
    assert secret.encode() not in raw and b'"redactions":[' in raw


def test_an_entry_too_big_for_an_event_comes_back_whole(store: ClaudeSessionStore) -> None:
    big = {"type": "user", "uuid": "u1", "sessionId": "s1", "text": "é" * 9_000_000}
    do(store.append(KEY, [{"type": "x"}, big, {"type": "y"}]))
    assert do(store.load(KEY)) == [{"type": "x"}, big, {"type": "y"}]


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=())),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)  # fmt: skip
any_entries = st.lists(
    st.dictionaries(st.sampled_from(["message", "uuid", "sessionId", "cwd", "$gj:x", ""]), json_values, max_size=4).map(
        lambda entry: {"type": "user", **entry}
    ),
    max_size=4,
)


@given(any_entries)
@settings(max_examples=60, deadline=None)
def test_any_entries_come_back_equal(tmp_path_factory: pytest.TempPathFactory, some: list[dict[str, Any]]) -> None:
    store = ClaudeSessionStore(gitjournal.init(tmp_path_factory.mktemp("any") / "j"))
    fresh: list[dict[str, Any]] = []
    for entry in some:
        uuid = entry.get("uuid")
        if not (type(uuid) is str and uuid and any(one.get("uuid") == uuid for one in fresh)):
            fresh.append(entry)
    do(store.append(KEY, some))
    assert do(store.load(KEY)) == (fresh or None)
    assert all(math.isfinite(one["mtime"]) for one in do(store.list_sessions(KEY["project_key"])))
