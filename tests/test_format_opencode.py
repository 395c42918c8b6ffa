"""opencode: its export and its database, which is read without leaving a trace."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from imported import JUNK, Json, changed, counters, folded, mapped, places, stored, texts

from gitjournal.errors import ImportRefused, NotFound
from gitjournal.formats import sqlite_read
from gitjournal.formats.opencode import Opencode
from gitjournal.formats.protocol import About, Head, Item, Source
from gitjournal.formats.records import MAX_RECORD
from gitjournal.formats.report import ImportReport

FMT = Opencode()
AT = 1_772_359_200_000
INFO: Json = {
    "id": "ses_1", "slug": "calm", "projectID": "p", "directory": "/home/ada/p", "title": "Listing", "version": "1.2.0",
    "time": {"created": AT, "updated": AT + 9000},
}  # fmt: skip


def tokens(given: int, made: int, reasoning: int = 0, read: int = 0, write: int = 0, total: int | None = None) -> Json:
    counts = {"input": given, "output": made, "reasoning": reasoning, "cache": {"read": read, "write": write}}
    return counts if total is None else {"total": total, **counts}


def user(own: str, *parts: Json, **more: Any) -> Json:
    info = {"id": own, "sessionID": "ses_1", "role": "user", "time": {"created": AT + 1000}, "agent": "build", **more}
    return {"info": info, "parts": list(parts)}


def assistant(own: str, *parts: Json, **more: Any) -> Json:
    info = {
        "id": own, "sessionID": "ses_1", "role": "assistant", "parentID": "msg_1", "modelID": "m-1", "providerID": "pr",
        "time": {"created": AT + 2000, "completed": AT + 3000}, "mode": "build", "cost": 0.001,
        "tokens": tokens(10, 5), "finish": "stop", **more,
    }  # fmt: skip
    return {"info": info, "parts": list(parts)}


def part(kind: str, **more: Any) -> Json:
    return {"id": f"prt_{kind}", "sessionID": "ses_1", "messageID": "msg", "type": kind, **more}


def said(text: str, **more: Any) -> Json:
    return part("text", text=text, **more)


def step(reason: str, counts: Json) -> Json:
    return part("step-finish", reason=reason, cost=0.001, tokens=counts)


def tool(status: str, name: str = "bash", call: str = "c1", **more: Any) -> Json:
    state = {"status": status, "input": {"command": "ls"}, "time": {"start": AT + 2500, "end": AT + 2600}, **more}
    return part("tool", callID=call, tool=name, state=state)


PNG = "data:image/png;base64,iVBORw0="
SESSION: list[Json] = [
    user("msg_1", said("List."), said("read a.py", synthetic=True), part("file", mime="image/png", url=PNG)),
    assistant(
        "msg_2", part("step-start", snapshot="ab"), part("reasoning", text="I run ls.", time={"start": AT + 2100}),
        said("Running.", time={"start": AT + 2200}), tool("completed", output="a.py", title="ls", metadata={"exit": 0}),
        step("tool-calls", tokens(100, 10, 4, 50, 7, 167)), part("patch", hash="ab", files=["a.py"]),
    ),
    assistant("msg_3", said("One file."), step("stop", tokens(20, 3, 2, 150, 0, 175))),
]  # fmt: skip


def export(*messages: Any, info: Any = INFO, **more: Any) -> bytes:
    return json.dumps({"info": info, "messages": list(messages), **more}, indent=2).encode() + b"\n"


def items_of(*messages: Any) -> list[Item]:
    return mapped(FMT, export(*messages))[0]


# --- what a part becomes ---------------------------------------------------------------------------


def test_each_part_has_its_event() -> None:
    items = items_of(*SESSION)
    shape = [(item.type, item.actor, item.data["native"]["type"]) for item in items if item.data.get("native")]
    assert shape == [
        ("session.update", "host", "session"),
        ("native", "host", "message"), ("message", "user", "text"), ("message", "host", "text"),
        ("message", "user", "file"), ("native", "host", "message"),
        ("model.response", "assistant", "message"), ("native", "host", "step-start"),
        ("model.response", "assistant", "reasoning"), ("model.response", "assistant", "text"),
        ("model.response", "assistant", "tool"), ("model.response", "assistant", "step-finish"),
        ("native", "host", "patch"), ("native", "host", "message"),
        ("model.response", "assistant", "message"), ("model.response", "assistant", "text"),
        ("model.response", "assistant", "step-finish"), ("native", "host", "message"),
    ]  # fmt: skip
    made = {item.data["native"]["type"]: item for item in items if item.data.get("response.id") == "msg_2"}
    assert made["tool"].data["parts"] == [
        {"type": "tool_call", "id": "c1", "name": "bash", "arguments": {"command": "ls"}},
        {"type": "tool_call_response", "id": "c1", "response": "a.py", "is_error": False},
    ]
    assert made["step-finish"].data["usage"] == {
        "gen_ai.usage.input_tokens": 157, "gen_ai.usage.output_tokens": 10, "gen_ai.usage.cache_read.input_tokens": 50,
        "gen_ai.usage.cache_creation.input_tokens": 7, "gen_ai.usage.reasoning.output_tokens": 4,
    }  # fmt: skip
    assert made["step-finish"].data["native_usage"] == tokens(100, 10, 4, 50, 7, 167)
    assert made["message"].data["native"] == {"type": "message", "id": "msg_2", "parent": "msg_1", "cost": 0.001}
    assert "usage" not in made["message"].data, "its steps have counted"
    assert made["tool"].ts == "2026-03-01T10:00:02.500Z"


def test_the_state_is_that_of_the_session() -> None:
    state = folded(items_of(*SESSION))
    assert (state.title, state.turns) == ("Listing", {"user": 1, "model": 2})
    assert (state.tool_calls, state.tool_results, state.open_calls) == (1, 1, [])
    assert texts(state.history) == ["List.", "read a.py", "Running.", "One file."]
    assert texts(state.history, "blob") == ["iVBORw0="]
    # The second response says its total, in which the reasoning is not a part of the output.
    assert counters(state) == [157 + 170, 10 + 5, 200, 7, 4 + 2]


def test_what_the_program_adds_to_a_prompt_is_no_turn_and_hides_none() -> None:
    before, after = said("read a.py", synthetic=True), said("List.")
    for parts in ([before, after], [after, before]):
        state = folded(items_of(user("m", *parts)))
        assert state.turns["user"] == 1 and len(state.history) == 2
    assert folded(items_of(user("m", before))).turns["user"] == 0


def test_a_message_without_steps_counts_itself_and_each_step_counts_once() -> None:
    assert counters(folded(items_of(user("msg_1", said("x")), assistant("msg_2", said("y")))))[:2] == [10, 5]
    two = assistant(
        "msg_2", step("tool-calls", tokens(10, 5)), said("y"), step("stop", tokens(30, 2)), tokens=tokens(30, 2)
    )
    state = folded(items_of(two))
    assert counters(state)[:2] == [40, 7] and state.turns["model"] == 2


def test_messages_that_share_an_id_are_responses_of_their_own() -> None:
    # A redaction by entropy has put one word in the place of all ids.
    items, report = mapped(FMT, export(*(assistant("REDACTED", said("x"), tokens=tokens(10, 5)) for _ in range(3))))
    state = folded(items)
    assert state.turns["model"] == 3 and counters(state)[:2] == [30, 15]
    assert report.odd["repeated_ids"] == 2


def test_reasoning_is_in_the_output_once() -> None:
    def made(counts: Json) -> int:
        return counters(folded(items_of(assistant("m", step("stop", counts)))))[1]

    assert made(tokens(10, 8, 5)) == 8, "a part of the output, unless the total says otherwise"
    assert made(tokens(10, 8, 5, total=18)) == 8
    assert made(tokens(10, 8, 5, total=23)) == 13
    assert made(tokens(10, 3, 5)) == 8, "more than the output cannot be a part of it"


@pytest.mark.parametrize(
    ("one", "answer"),
    [
        (tool("error", error="no such file"), ("no such file", True)),
        (tool("completed", output="x", metadata={"exit": 2}), ("x", True)),
        (tool("completed", "invalid", output="bad arguments"), ("bad arguments", True)),
        (tool("completed", output="x", metadata=None), ("x", False)),
    ],
    ids=["error", "exit-status", "invalid-tool", "good"],
)
def test_a_call_failed_also_where_its_status_does_not_say_so(one: Json, answer: tuple[Any, bool]) -> None:
    result = items_of(assistant("m", one))[2].data["parts"][1]
    assert (result["response"], result["is_error"]) == answer


@pytest.mark.parametrize("status", ["pending", "running"])
def test_a_call_that_runs_is_open(status: str) -> None:
    state = folded(items_of(assistant("m", tool(status))))
    assert [one["id"] for one in state.open_calls] == ["c1"]


def test_a_task_is_a_child_session() -> None:
    items = items_of(assistant("m", tool("completed", "task", output="done", metadata={"sessionId": "ses_2"})))
    assert items[2].data["child"] == {"session": "ses_2"}
    records = [item.record for item in mapped(FMT, export(info={**INFO, "parentID": "ses_0"}))[0]]
    assert FMT.about(iter(records), Source(Path("x"))) == About(
        "ses_1", {"project": "/home/ada/p", "parent": {"session": "ses_0"}, "agent.version": "1.2.0"}
    )


def test_errors_are_errors() -> None:
    failed = {"name": "APIError", "data": {"message": "overloaded", "statusCode": 529}}
    items = items_of(assistant("m", part("retry", attempt=1, error=failed), error=failed))
    assert [(item.type, item.data.get("error.type"), item.data.get("message")) for item in items][1:3] == [
        ("error", "APIError", "overloaded")
    ] * 2


def test_what_is_not_sent_to_the_model_is_native() -> None:
    items = items_of(user("m", said("note", ignored=True), part("agent", name="x"), part("future", a=1)))
    assert [item.type for item in items] == ["session.update", *["native"] * 6]


def test_a_summary_takes_the_place_of_what_was_said() -> None:
    asks = user("msg_5", part("compaction", auto=True))
    summary = assistant("msg_6", part("reasoning", text="Hm."), said("All was listed."), summary=True)
    state = folded(items_of(*SESSION, asks, summary, user("msg_7", said("Go on."))))
    assert texts(state.context) == ["All was listed.", "Go on."]
    failed = assistant("msg_6", said("half"), summary=True, error={"name": "x"})
    assert len(texts(folded(items_of(*SESSION, asks, failed)).context)) == 5


def test_a_summary_may_keep_the_end() -> None:
    asks = user("msg_5", part("compaction", auto=True, tail_start_id="msg_3"))
    state = folded(items_of(*SESSION, asks, assistant("msg_6", said("S"), summary=True), user("msg_7", said("Go on."))))
    assert texts(state.context) == ["S", "One file.", "Go on."]


def test_a_second_summary_does_not_keep_the_first() -> None:
    def cut(number: int, text: str) -> list[Json]:
        asks = user(f"msg_{number}", part("compaction", auto=True, tail_start_id="msg_3"))
        return [asks, assistant(f"msg_{number + 1}", said(text), summary=True)]

    state = folded(
        items_of(*SESSION, user("msg_4", said("And?")), *cut(5, "S"), user("msg_7", said("Go on.")), *cut(8, "T"))
    )
    assert texts(state.context) == ["T", "One file.", "And?", "Go on."]


# --- damage ----------------------------------------------------------------------------------------


def test_no_shape_of_any_member_stops_it() -> None:
    for message in SESSION:
        for path in places(message):
            mapped(FMT, export(*(changed(message, path, junk) for junk in JUNK)))
    for path in places(INFO):
        mapped(FMT, export(info=changed(INFO, path, "\ud83d")))


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_no_file_stops_it(data: st.DataObject) -> None:
    document: Any = {"info": INFO, "messages": SESSION, "todos": []}
    for _ in range(data.draw(st.integers(0, 4))):
        document = changed(
            document, data.draw(st.sampled_from(list(places(document)))), data.draw(st.sampled_from(JUNK))
        )
    content = json.dumps(document).encode()
    at = data.draw(st.integers(0, len(content)))
    mapped(FMT, content[:at] + data.draw(st.binary(max_size=3)) + content[at + data.draw(st.integers(0, 5)) :])


def test_an_export_that_is_cut_is_kept() -> None:
    items, _ = mapped(FMT, export(*SESSION)[:500])
    assert all(item.type == "native" for item in items)


# --- the database ----------------------------------------------------------------------------------

SCHEMA = """
CREATE TABLE `project` (`id` text PRIMARY KEY);
CREATE TABLE `session` (`id` text PRIMARY KEY, `project_id` text NOT NULL, `parent_id` text, `slug` text NOT NULL,
  `directory` text NOT NULL, `title` text NOT NULL, `version` text NOT NULL, `time_created` integer,
  `time_updated` integer);
CREATE TABLE `message` (`id` text PRIMARY KEY, `session_id` text NOT NULL, `time_created` integer NOT NULL,
  `time_updated` integer NOT NULL, `data` text NOT NULL);
CREATE TABLE `part` (`id` text PRIMARY KEY, `message_id` text NOT NULL, `session_id` text NOT NULL,
  `time_created` integer NOT NULL, `time_updated` integer NOT NULL, `data` text NOT NULL);
"""


def fill(connection: sqlite3.Connection, session: str, messages: list[Json], parent: str | None = None) -> None:
    """Write a session as the program does: the ids are columns, the rest is text."""
    row = (session, "p", parent, "calm", "/home/ada/p", "Listing", "1.2.0", AT, AT)
    connection.execute("INSERT INTO session VALUES (?,?,?,?,?,?,?,?,?)", row)
    for message in messages:
        info = {name: value for name, value in message["info"].items() if name not in ("id", "sessionID")}
        own = f"{session}.{message['info']['id']}"
        connection.execute("INSERT INTO message VALUES (?,?,?,?,?)", (own, session, AT, AT, json.dumps(info)))
        for number, one in enumerate(message["parts"]):
            data = {name: value for name, value in one.items() if name not in ("id", "sessionID", "messageID")}
            values = (f"{own}.{number:03d}", own, session, AT + number, AT, json.dumps(data))
            connection.execute("INSERT INTO part VALUES (?,?,?,?,?,?)", values)
    connection.commit()


@pytest.fixture
def database(tmp_path: Path) -> Path:
    return made(tmp_path / "share" / "opencode.db")


def made(path: Path, mode: str = "wal") -> Path:
    path.parent.mkdir(exist_ok=True)
    connection = sqlite3.connect(path)
    connection.execute(f"PRAGMA journal_mode={mode}")
    connection.executescript(SCHEMA)
    fill(connection, "ses_1", SESSION)
    fill(connection, "ses_2", [user("msg_1", said("Find it."))], parent="ses_1")
    connection.close()
    return path


def sessions(path: Path) -> dict[str, list[Item]]:
    found: dict[str, list[Item]] = {}
    for strand in FMT.strands(Source(path)):
        assert not strand.exact and strand.about.session
        items = list(strand.read(strand.records(), ImportReport(str(path), FMT.name)))
        stored(items)
        found[strand.about.session] = items
    return found


def beside(path: Path) -> dict[str, tuple[bytes, int]]:
    """The files in the folder of a database: what is in them, and when they were changed."""
    return {one.name: (one.read_bytes(), one.stat().st_mtime_ns) for one in path.parent.iterdir()}


def test_each_session_of_a_database_is_a_strand(database: Path) -> None:
    found = sessions(database)
    assert list(found) == ["ses_1", "ses_2"]
    abouts = [strand.about for strand in FMT.strands(Source(database))]
    start = {"project": "/home/ada/p", "parent": {"session": "ses_1"}, "agent.version": "1.2.0", "exact": False}
    assert abouts[1].start == start
    from_export, from_rows = folded(items_of(*SESSION)), folded(found["ses_1"])
    assert [entry["parts"] for entry in from_rows.history] == [entry["parts"] for entry in from_export.history]
    assert (from_rows.usage, from_rows.turns) == (from_export.usage, from_export.turns)
    assert found["ses_1"][1].data["native"] == {"type": "text", "id": "ses_1.msg_1.000", "parent": "ses_1.msg_1"}


def test_a_record_is_the_text_of_its_cell(database: Path) -> None:
    records = [item.record for item in sessions(database)["ses_2"]]
    with sqlite_read.opened(database) as connection:
        cells = [row[0].encode() for row in connection.execute("SELECT data FROM message WHERE session_id = 'ses_2'")]
        cells += [row[0].encode() for row in connection.execute("SELECT data FROM part WHERE session_id = 'ses_2'")]
    assert [record.raw for record in records] == cells
    assert [record.offset for record in records] == [0, len(cells[0])]


@pytest.mark.parametrize("mode", ["wal", "delete"])
def test_a_database_at_rest_is_read_without_a_trace(tmp_path: Path, mode: str) -> None:
    path = made(tmp_path / "d" / "opencode.db", mode)
    before = beside(path)
    assert list(before) == ["opencode.db"]
    assert FMT.sniff(Source(path).head()) and len(sessions(path)) == 2
    assert beside(path) == before


#: Another process, as the locks and the shared memory of one process are one: it writes, says so, and waits.
WRITER = """
import sqlite3, sys
writer = sqlite3.connect(sys.argv[1])
writer.execute("INSERT INTO session VALUES ('ses_3', 'p', NULL, 's', '/', 't', 'v', 0, 0)")
writer.commit()
print(flush=True)
sys.stdin.read()
"""


@contextmanager
def running(path: Path) -> Iterator[None]:
    with subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as writer:
        assert writer.stdout is not None
        writer.stdout.readline()
        yield
        writer.communicate()


def test_what_a_running_program_has_written_last_is_read_without_a_trace(database: Path) -> None:
    with running(database):
        before = beside(database)
        assert {"opencode.db-wal", "opencode.db-shm"} < set(before)
        assert "ses_3" in sessions(database)
        assert beside(database) == before


@pytest.fixture
def crashed(database: Path, tmp_path: Path) -> Path:
    """A database with its log but without the file that its program shares: after a crash, or a backup."""
    writer = sqlite3.connect(database)
    fill(writer, "ses_3", [user("msg_1", said("fresh"))])
    copy = tmp_path / "backup" / database.name
    copy.parent.mkdir()
    for end in ("", "-wal"):
        shutil.copy(f"{database}{end}", f"{copy}{end}")
    writer.close()
    return copy


def test_a_database_that_was_not_closed_is_read_without_a_trace(
    crashed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(scratch))
    before = beside(crashed)
    assert "ses_3" in sessions(crashed)
    assert beside(crashed) == before
    assert list(scratch.iterdir()) == [], "the private copy is gone"


def test_a_folder_that_cannot_be_written_to_is_no_obstacle(database: Path) -> None:
    database.parent.chmod(stat.S_IRUSR | stat.S_IXUSR)
    try:
        assert len(sessions(database)) == 2
    finally:
        database.parent.chmod(stat.S_IRWXU)


def test_a_locked_database_is_one_clear_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_read, "_PATIENCE", 0.01)
    path = made(tmp_path / "d" / "opencode.db", "delete")
    writer = sqlite3.connect(path, isolation_level=None)
    writer.execute("BEGIN EXCLUSIVE")
    with pytest.raises(ImportRefused, match=r"database is locked: its program is writing to it. Close the program"):
        sessions(path)
    assert FMT.sniff(Source(path).head()), "it is still known what it is"
    writer.close()


@pytest.mark.parametrize("kind", ["cut", "overwritten", "header-only", "no-tables"])
def test_a_damaged_database_is_one_clear_error(database: Path, kind: str) -> None:
    raw = bytearray(database.read_bytes())
    if kind == "cut":
        del raw[len(raw) // 2 :]
    elif kind == "overwritten":
        raw[100:4096] = os.urandom(3996)
    elif kind == "header-only":
        del raw[16:]
    else:
        database.unlink()
        sqlite3.connect(database).executescript("PRAGMA user_version = 1; CREATE TABLE x (y)").close()
        raw = bytearray(database.read_bytes())
    database.write_bytes(raw)
    before = beside(database)
    with pytest.raises(ImportRefused) as told:
        sessions(database)
    assert "\n" not in str(told.value) and str(database) in str(told.value)
    assert beside(database) == before
    FMT.sniff(Source(database).head())


def test_a_database_that_is_written_to_while_it_is_read_is_refused(database: Path) -> None:
    def reading() -> Iterator[Any]:
        with sqlite_read.opened(database) as connection:
            yield connection.execute("SELECT count(*) FROM part").fetchone()
            os.utime(database, ns=(1, 1))

    with pytest.raises(ImportRefused, match="was written to while it was read"):
        list(reading())


def test_no_file_is_no_database(tmp_path: Path) -> None:
    with pytest.raises(NotFound), sqlite_read.opened(tmp_path / "opencode.db"):
        pass
    assert list(tmp_path.iterdir()) == []


def test_cells_of_any_content_are_kept(database: Path) -> None:
    writer = sqlite3.connect(database)
    cells: list[Any] = [
        b"\xff{}",
        "",
        "[1",
        "null",
        '{"type":"text","text":"\\ud83d"}',
        7,
        "[" * 12_000,
        '{"type":"text"}' + " " * 5,
    ]
    for number, one in enumerate(cells):
        writer.execute("INSERT INTO part VALUES (?,?,?,?,?,?)", (f"z{number}", "ses_2.msg_1", "ses_2", AT, AT, one))
    big = json.dumps({"type": "text", "text": "x" * MAX_RECORD})
    writer.execute("INSERT INTO part VALUES ('zz', 'ses_2.msg_1', 'ses_2', 0, 0, ?)", (big,))
    writer.commit()
    writer.close()
    items = sessions(database)["ses_2"][2:]
    assert [item.record.fault for item in items] == [
        "unparsable", "blank", "unparsable", "", "", "", "unparsable", "", "oversized", "oversized",
    ]  # fmt: skip
    assert b"".join(item.record.raw for item in items[-2:]) == big.encode()


def test_a_part_of_no_message_is_last_and_native(database: Path) -> None:
    writer = sqlite3.connect(database)
    data = json.dumps({"type": "text", "text": "lost"})
    writer.execute("INSERT INTO part VALUES ('a', 'gone', 'ses_2', ?, ?, ?)", (AT, AT, data))
    writer.commit()
    writer.close()
    last = sessions(database)["ses_2"][-1]
    assert (last.type, last.record.raw, last.ts) == ("native", data.encode(), "2026-03-01T10:00:00.000Z")


# --- the older tree of files -----------------------------------------------------------------------


def tree(storage: Path, messages: list[Json] = SESSION, info: Json = INFO) -> Path:
    """A session as older versions wrote it, one file for each message and part; the file of the session."""
    own = storage / "session" / "p" / f"{info['id']}.json"
    files = {own: info}
    for message in messages:
        folder = storage / "message" / info["id"]
        files[folder / f"{message['info']['id']}.json"] = message["info"]
        for number, one in enumerate(message["parts"]):
            place = storage / "part" / message["info"]["id"] / f"prt_{number:03d}.json"
            files[place] = {**one, "id": place.stem, "messageID": message["info"]["id"]}
    for path, value in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(value, indent=2), encoding="utf-8")
    return own


def test_a_tree_of_files_says_what_the_export_says(tmp_path: Path) -> None:
    path = tree(tmp_path / "storage")
    assert FMT.sniff(Source(path).head())
    ((session, items),) = sessions(path).items()
    (strand,) = FMT.strands(Source(path))
    assert (session, strand.about.start["project"]) == ("ses_1", "/home/ada/p")
    exported, _ = mapped(FMT, export(*SESSION))
    ours, theirs = folded(items), folded(exported)
    assert (ours.turns, ours.tool_calls, counters(ours)) == (theirs.turns, theirs.tool_calls, counters(theirs))
    assert texts(ours.history) == texts(theirs.history)
    # Each message's own file, then those of its parts.
    assert [item.record.at[0] for item in items] == [
        kind for message in SESSION for kind in ("message", *("part" for _ in message["parts"]))
    ]
    assert items[0].record.raw == (tmp_path / "storage" / "message" / "ses_1" / "msg_1.json").read_bytes()


def test_of_a_tree_only_its_own_files_are_read(tmp_path: Path) -> None:
    path = tree(tmp_path / "storage")
    before = sessions(path)["ses_1"]
    secret = tmp_path / "secret.json"
    secret.write_text('{"type":"text","text":"secret"}')
    parts = tmp_path / "storage" / "part"
    (parts / "msg_1" / "prt_9.json").symlink_to(secret)
    (tmp_path / "storage" / "message" / "ses_1" / "msg_9.json").symlink_to(secret)
    (parts / "msg_1" / "prt_8.txt").write_text("no part")
    (parts / "msg_1" / "deeper").mkdir()
    (parts / "msg_1" / "deeper" / "prt_7.json").write_text('{"type":"text","text":"deeper"}')
    assert [item.record.raw for item in sessions(path)["ses_1"]] == [item.record.raw for item in before]
    (parts / "msg_1").rename(tmp_path / "elsewhere")
    (parts / "msg_1").symlink_to(tmp_path / "elsewhere")
    assert len(sessions(path)["ses_1"]) == len(before) - 3


def test_files_of_any_content_are_kept(tmp_path: Path) -> None:
    path = tree(tmp_path / "storage", SESSION[:1])
    parts = tmp_path / "storage" / "part" / "msg_1"
    for number, raw in enumerate((b"", b"[1", b"\xff{}", b"\0\0", b"null", b'{"type":3}', b"[" * 12_000)):
        (parts / f"prt_9{number}.json").write_bytes(raw)
    (tmp_path / "storage" / "message" / "ses_1" / "msg_2.json").write_bytes(b"{")
    items = sessions(path)["ses_1"]
    assert [item.record.fault for item in items[4:]] == [
        "blank", "unparsable", "unparsable", "unparsable", "", "", "unparsable", "unparsable",
    ]  # fmt: skip
    path.write_bytes(b"{}")
    assert not FMT.sniff(Source(path).head())
    alone = tmp_path / "ses_2.json"
    alone.write_text(json.dumps(INFO))
    assert not FMT.sniff(Source(alone).head()), "without its messages beside it"


# --- recognised ------------------------------------------------------------------------------------


def test_it_knows_its_own_and_nothing_else(database: Path, tmp_path: Path) -> None:
    def sniff(content: bytes, name: str = "x.json") -> bool:
        path = tmp_path / name
        path.write_bytes(content)
        return FMT.sniff(Source(path).head())

    assert sniff(export(*SESSION)) and sniff(database.read_bytes(), "y.db")
    assert sniff(export(user("m", said("x" * 400_000))))
    wide = {**INFO, "summary": {"diffs": ["x" * 400_000]}}
    assert sniff(export(info=wide)), "a session's own record may be longer than the head"
    for other in (b"", b"{}", b'{"info":{"id":"x"}}', b'{"info":[],"messages":[]}', b"SQLite format 3\0", b'["ses_1"]'):
        assert not sniff(other)
    foreign = tmp_path / "foreign.db"
    sqlite3.connect(foreign).executescript(
        "CREATE TABLE session(a); CREATE TABLE message(b); CREATE TABLE part(c)"
    ).close()
    assert not FMT.sniff(Source(foreign).head())
    assert not FMT.sniff(Head(b"SQLite format 3\0" + bytes(100), tmp_path / "gone.db"))
