"""OpenClaw's database: each row is what was a line of its files, and is the same session."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest
import zstandard
from imported import Json, counters, given_back, lines, stored
from test_format_pi import CALL, HEADER, RESULT, USAGE, entry, prompt, reply

import gitjournal
from gitjournal import Journal, fold
from gitjournal.errors import ImportRefused, UsageError
from gitjournal.formats import import_file
from gitjournal.formats.pi import Pi
from gitjournal.formats.protocol import Item, Source
from gitjournal.formats.report import ImportReport

FMT = Pi()
SESSION: list[Json] = [
    HEADER, prompt("a1", None, "Show a.py."), reply("a2", "a1", CALL), entry("message", "a3", "a2", message=RESULT),
    reply("a4", "a3"),
]  # fmt: skip
#: The tables of the two versions; the program has many more.
OLD = "CREATE TABLE transcript_events (session_id TEXT, seq INTEGER, event_json TEXT NOT NULL, created_at INTEGER)"
NEW = (
    "CREATE TABLE transcript_events (session_id TEXT, seq INTEGER, event_json TEXT, event_zstd BLOB,"
    " event_utf8_bytes INTEGER, created_at INTEGER);"
    "CREATE TABLE session_transcript_archives (session_id TEXT, generation TEXT, encoding TEXT, archive_blob BLOB,"
    " created_at INTEGER)"
)


def made(path: Path, sessions: dict[str, list[Any]], schema: str = NEW) -> Path:
    """A database of sessions; their rows are written out of order, as nothing says that they are not."""
    path.parent.mkdir(parents=True, exist_ok=True)
    connection = sqlite3.connect(path)
    connection.executescript(schema)
    for session, values in sessions.items():
        for seq, value in sorted(enumerate(values), key=lambda pair: pair[0] % 2):
            put(connection, session, seq, value)
    connection.commit()
    connection.close()
    return path


def put(connection: sqlite3.Connection, session: str, seq: int, value: Any) -> None:
    text = value if isinstance(value, str) else json.dumps(value)
    connection.execute(
        "INSERT INTO transcript_events (session_id, seq, event_json, created_at) VALUES (?, ?, ?, 0)",
        (session, seq, text),
    )


def packed(connection: sqlite3.Connection, session: str, seq: int, blob: Any) -> None:
    row = (session, seq, blob)
    connection.execute("INSERT INTO transcript_events VALUES (?, ?, NULL, ?, 1, 0)", row)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "agents" / "main" / "agent" / "openclaw-agent.sqlite"


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    return gitjournal.init(tmp_path / "journal.git")


def sessions(path: Path) -> list[tuple[str | None, list[Item]]]:
    found = []
    for strand in FMT.strands(Source(path)):
        assert not strand.exact
        items = list(strand.read(strand.records(), ImportReport(str(path), FMT.name)))
        stored(items)
        found.append((strand.about.session, items))
    return found


@pytest.mark.parametrize("schema", [OLD, NEW], ids=["text", "compressed"])
def test_each_session_is_a_strand_in_the_order_of_its_rows(path: Path, schema: str) -> None:
    made(path, {"s-2": [{**HEADER, "id": "s-2"}], "s-1": SESSION}, schema)
    assert FMT.sniff(Source(path).head())
    (first, items), (second, _) = sessions(path)
    assert (first, second) == ("s-1", "s-2")
    assert [item.record.raw for item in items] == [json.dumps(value).encode() + b"\n" for value in SESSION]
    assert [item.type for item in items] == ["native", "message", "model.response", "tool.result", "model.response"]


def test_counts_are_those_of_the_same_lines(path: Path, journal: Journal) -> None:
    import_file(journal, made(path, {"s-1": SESSION}))
    state = fold(journal.events("s-1"))
    # Two responses: 100 + 50 + 7 in, 20 out each.
    assert (state.turns, state.tool_calls, state.tool_results) == ({"user": 1, "model": 2}, 1, 1)
    assert counters(state)[:3] == [314, 40, 100] and USAGE["cacheRead"] == 50
    start = journal.event("s-1", 1).data
    assert (start["project"], start["exact"]) == ("/home/ada/p", False)
    with pytest.raises(UsageError, match="rows of a database"):
        given_back(journal, "s-1", "pi")


def test_a_session_goes_on_where_its_file_ended(path: Path, journal: Journal, tmp_path: Path) -> None:
    before = tmp_path / "s-1.jsonl"
    before.write_bytes(lines(*SESSION[:3]))
    import_file(journal, before)
    report = import_file(journal, made(path, {"s-1": SESSION}))
    assert (report.added, report.branch, report.skipped_known) == (2, "main", 3)
    assert import_file(journal, path).added == 0
    connection = sqlite3.connect(path)
    put(connection, "s-1", 9, prompt("a5", "a4"))
    connection.commit()
    connection.close()
    assert import_file(journal, path).added == 1
    assert given_back(journal, "s-1", "pi") == lines(*SESSION, prompt("a5", "a4"))


def test_large_entries_are_compressed_there(path: Path) -> None:
    made(path, {"s-1": SESSION[:1]})
    connection = sqlite3.connect(path)
    text = json.dumps(prompt("a1", None, "long " * 1000)).encode()
    packed(connection, "s-1", 1, zstandard.compress(text))
    for seq, blob in enumerate((b"\x28\xb5\x2f\xfdnothing", b"", None, "text", zstandard.compress(text)[:-9]), 2):
        packed(connection, "s-1", seq, blob)
    connection.commit()
    connection.close()
    ((_, items),) = sessions(path)
    assert items[1].record.raw == text + b"\n" and items[1].data["parts"][0]["content"] == "long " * 1000
    # What cannot be read stays as it is there.
    assert [item.record.raw for item in items[2:]] == [
        b"\x28\xb5\x2f\xfdnothing", b"", b"", b"", zstandard.compress(text)[:-9],
    ]  # fmt: skip


def test_sessions_that_were_deleted_are_there_as_files(path: Path, journal: Journal) -> None:
    made(path, {"s-1": SESSION})
    gone = lines({**HEADER, "id": "s-0"}, prompt("b1", None, "Gone."))
    connection = sqlite3.connect(path)
    rows = [("s-0", "g", "zstd", zstandard.compress(gone), 1), ("s-9", "g", "identity", b"no header\n", 2)]
    connection.executemany("INSERT INTO session_transcript_archives VALUES (?, ?, ?, ?, ?)", rows)
    connection.commit()
    connection.close()
    report = import_file(journal, path)
    assert [one.session for one in (report, *report.others)] == ["s-1", "s-0", "s-9"]
    assert fold(journal.events("s-0")).history[0]["parts"][0]["content"] == "Gone."
    again = import_file(journal, path)
    assert not any(one.added for one in (again, *again.others))


def test_an_archive_that_is_damaged_is_an_error_after_all_others(path: Path, journal: Journal) -> None:
    made(path, {"s-1": SESSION})
    connection = sqlite3.connect(path)
    blob = zstandard.compress(lines(HEADER) * 1000)[:-5]
    connection.execute("INSERT INTO session_transcript_archives VALUES ('s-0', 'g', 'zstd', ?, 1)", (blob,))
    connection.commit()
    connection.close()
    with pytest.raises(ImportRefused, match="damaged"):
        import_file(journal, path)
    assert len(list(journal.events("s-1"))) == 6


def test_cells_of_any_content_are_kept(path: Path) -> None:
    cells = [
        "[1",
        "",
        "null",
        '{"type":"message"}',
        "\ud83d".encode("utf-8", "surrogatepass").decode("latin-1"),
        "[" * 12_000,
    ]
    made(path, {"s-1": cells})
    ((session, items),) = sessions(path)
    assert session == "s-1" and [item.record.raw for item in items] == [one.encode() + b"\n" for one in cells]


def test_another_database_is_not_theirs(tmp_path: Path) -> None:
    other = tmp_path / "x.sqlite"
    sqlite3.connect(other).executescript("CREATE TABLE transcript_events (session_id, kind, payload)").close()
    assert not FMT.sniff(Source(other).head())
    other.write_bytes(b"SQLite format 3\0" + bytes(100))
    assert not FMT.sniff(Source(other).head())
    assert any(Path("agents/main/agent/openclaw-agent.sqlite").match(pattern) for pattern in FMT.homes[1].patterns)
