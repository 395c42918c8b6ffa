"""SQLite files of others are data: what is a program in them is not run, and what never ends is stopped."""

from __future__ import annotations

import sqlite3
import zipfile
from contextlib import closing
from pathlib import Path

import pytest

from gitjournal import formats
from gitjournal.errors import ImportRefused
from gitjournal.formats import sqlite_read
from gitjournal.journal import Journal

RECURSIVE = "with recursive c(x) as (select 1 union all select x + 1 from c)"
#: Where the three formats with databases read their rows.
VIEWS = {
    "openai-agents": f"""
        create table agent_sessions(session_id text, created_at, updated_at);
        create view agent_messages as {RECURSIVE}
            select x as id, 's' as session_id, '{{}}' as message_data, '' as created_at from c;""",
    "opencode": f"""
        create table session(id text, project_id, parent_id, directory, title, version, time_created, time_updated);
        insert into session values('s', 'p', null, '/x', 't', '1', 1, 1);
        create view message as {RECURSIVE}
            select x as id, 's' as session_id, '{{}}' as data, 1 as time_created, 1 as time_updated from c;
        create table part(id, message_id, session_id, data, time_created, time_updated);""",
    "agentsessions": f"""
        create table sessions(session, name, harness, parent_uid, created_at);
        create view events as {RECURSIVE}
            select x as seq, 's' as session, '' as prev_hash, '' as hash, 0 as fence, x'00' as event from c;""",
}


def made(path: Path, script: str) -> Path:
    with closing(sqlite3.connect(path)) as database:
        database.executescript(script)
    return path


@pytest.mark.parametrize("kind", VIEWS)
def test_a_view_that_never_ends_is_refused(journal: Journal, tmp_path: Path, kind: str) -> None:
    source = made(tmp_path / "x.db", VIEWS[kind])
    with pytest.raises(ImportRefused, match=r"a view or a program\.$"):
        formats.import_file(journal, source, format=kind)
    assert list(journal.sessions()) == []


@pytest.mark.parametrize(
    "script",
    [
        "create table a(x); create view t as select l.x from a l, a m, a n;",
        "create virtual table t using rtree(x, low, high);",
    ],
)
def test_only_tables_are_read(tmp_path: Path, script: str) -> None:
    source = made(tmp_path / "x.db", script)
    with pytest.raises(ImportRefused, match="a view or a program"), sqlite_read.opened(source) as connection:
        connection.execute("SELECT x FROM t").fetchall()


def test_a_table_of_more_rows_than_a_file_can_hold_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = made(tmp_path / "x.db", "create table t(x); insert into t values(1), (2), (3);")
    with sqlite_read.opened(source) as connection:
        assert connection.execute("SELECT x FROM t").fetchall() == [(1,), (2,), (3,)]
    monkeypatch.setattr(sqlite_read, "_STEPS", 0)
    monkeypatch.setattr(sqlite_read, "_STEPS_FOR_BYTE", 0)
    monkeypatch.setattr(sqlite_read, "_ASKED_EVERY", 1)
    with pytest.raises(ImportRefused, match="more rows than fit"), sqlite_read.opened(source) as connection:
        connection.execute("SELECT x FROM t").fetchall()


def test_a_cell_that_is_larger_than_memory_should_be_is_refused(tmp_path: Path) -> None:
    source = made(tmp_path / "x.db", f"create table t(x); insert into t values(zeroblob({sqlite_read.MAX_CELL + 1}));")
    with pytest.raises(ImportRefused, match="more than 32 MiB"), sqlite_read.opened(source) as connection:
        connection.execute("SELECT x FROM t").fetchall()


def test_what_is_no_text_and_of_no_known_program_is_said_so(journal: Journal, tmp_path: Path) -> None:
    database = made(tmp_path / "x.db", "create table t(x);")
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        archive.writestr("a", "b")
    for path, what in ((database, "an SQLite database"), (tmp_path / "x.zip", "a ZIP archive")):
        first = formats.import_file(journal, path, dry_run=True).notes[0]
        assert first.startswith(f"it is {what} that no format knows")
