"""Copilot, Gemini, Pi, opencode, the course, openboa in a journal: found, exact, and again the same."""

from __future__ import annotations

import io
import json
import sqlite3
from pathlib import Path

import pytest
import test_format_copilot
import test_format_course
import test_format_gemini
import test_format_openboa
import test_format_opencode
import test_format_pi
from hypothesis import given, settings
from hypothesis import strategies as st
from imported import given_back, lines, mutations, take, texts
from support import CORPUS
from test_format_opencode import assistant, fill, said, tool, user
from test_format_pi import prompt, reply

import gitjournal
from gitjournal import Journal, fold
from gitjournal.errors import UsageError
from gitjournal.formats import ImportReport, detect, import_file, mapping
from gitjournal.formats.copilot import Copilot
from gitjournal.formats.course import Course
from gitjournal.formats.openboa import Openboa
from gitjournal.formats.pi import Pi
from gitjournal.formats.protocol import RecordFormat, Source

#: Format, name of the file, its content, and the session that it is.
SOURCES = [
    ("copilot", "events.jsonl", lines(*test_format_copilot.SESSION), "s-1"),
    ("gemini", "session-1.jsonl", lines(*test_format_gemini.SESSION), "s-1"),
    (
        "gemini",
        "session-2.json",
        test_format_gemini.document(test_format_gemini.ASKED, test_format_gemini.ANSWERED),
        "s-1",
    ),
    ("gemini", "session-3.jsonl", test_format_gemini.document(test_format_gemini.ASKED), "s-1"),
    ("pi", "2026_s-1.jsonl", lines(*test_format_pi.SESSION), "s-1"),
    ("pi", "s-1.jsonl.deleted.2026-03-01", lines(*test_format_pi.SESSION)[:-1], "s-1"),
    ("opencode", "export.json", test_format_opencode.export(*test_format_opencode.SESSION, todos=[]), "ses_1"),
    ("course", "main.jsonl", lines(*test_format_course.SESSION), "main"),
    ("openboa", "events.jsonl", lines(*test_format_openboa.SESSION), test_format_openboa.SESSION_ID),
]
sources = pytest.mark.parametrize(
    ("fmt", "file", "content", "session"), SOURCES, ids=[f"{s[0]}-{s[1]}" for s in SOURCES]
)


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    return gitjournal.init(tmp_path / "journal.git")


def context(journal: Journal, name: str) -> list[str]:
    return texts(fold(journal.events(name)).context)


@sources
def test_a_source_is_recognised_and_given_back(
    journal: Journal, tmp_path: Path, fmt: str, file: str, content: bytes, session: str
) -> None:
    report = take(journal, tmp_path / file, content)
    assert (report.format, report.session) == (fmt, session)
    assert report.size == len(content)
    assert given_back(journal, session, fmt) == content
    for name in journal.sessions():
        assert not fold(journal.events(name)).odd


@sources
def test_importing_again_adds_nothing(
    journal: Journal, tmp_path: Path, fmt: str, file: str, content: bytes, session: str
) -> None:
    take(journal, tmp_path / file, content)
    heads = {str(name): journal.head(name) for name in journal.sessions()}
    report = take(journal, tmp_path / file, content)
    assert (report.added, report.skipped_known) == (0, report.records)
    assert {str(name): journal.head(name) for name in journal.sessions()} == heads


@sources
def test_a_source_that_came_line_by_line_is_the_same(
    journal: Journal, tmp_path: Path, fmt: str, file: str, content: bytes, session: str
) -> None:
    if not file.endswith(".jsonl") or content.startswith(b"{\n"):
        pytest.skip("a document is written anew as a whole")
    whole = gitjournal.init(tmp_path / "whole.git")
    take(whole, tmp_path / file, content)
    so_far = b""
    for line in content.splitlines(keepends=True):
        so_far += line
        take(journal, tmp_path / file, so_far)
    for one in (journal, whole):
        assert {str(name) for name in one.sessions()} == {str(name) for name in whole.sessions()}
    for name in whole.sessions():
        assert journal.head(name) == whole.head(name)


@pytest.mark.parametrize("fmt", [Copilot(), Course(), Openboa(), Pi()], ids=lambda fmt: fmt.name)
def test_a_mapper_that_was_put_away_goes_on_as_if_it_had_read_all(fmt: RecordFormat) -> None:
    content = next(one for name, _, one, _ in SOURCES if name == fmt.name)
    if fmt.name == "pi":
        content += lines(prompt("c1", "a2"), prompt("c2", "a1"), reply("c3", "c2"), test_format_pi.entry(
            "compaction", "c4", "c3", summary="S", firstKeptEntryId="a1"
        ))  # fmt: skip
    source = Source(Path("nowhere"))
    found = list(fmt.cut(io.BytesIO(content)))
    whole = list(fmt.read(iter(found), ImportReport("x", fmt.name), source))
    for at in range(len(found)):
        first, then = (fmt.mapper(ImportReport("x", fmt.name), source) for _ in range(2))
        assert first is not None and then is not None
        for record in found[:at]:
            first.item(record)
        then.load(json.loads(json.dumps(first.save())))
        assert [then.item(record) for record in found[at:]] == whole[at:]


def test_what_is_put_away_stays_small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mapping, "MAX_IDS", 200)
    monkeypatch.setattr(mapping, "_MAX_SAVED", 30_000)
    source = Source(Path("nowhere"))
    hooks = [test_format_copilot.one("hook.end", n % 60, {"n": n}, id=f"h{n}") for n in range(1000)]
    tree = [prompt(f"e{n}", f"e{n - 1}") for n in range(1000)]
    for fmt, values in ((Copilot(), hooks), (Pi(), tree)):
        mapper = fmt.mapper(ImportReport("x", fmt.name), source)
        for record in fmt.cut(io.BytesIO(lines(*values))):
            mapper.item(record)
        saved = mapper.save()
        assert saved is None if fmt.name == "pi" else len(json.dumps(saved)) < 30_000


def test_a_tree_is_a_branch_for_each_way_through_it(journal: Journal, tmp_path: Path) -> None:
    values = [
        test_format_pi.HEADER, prompt("a", None), reply("b", "a"), prompt("c", "b"), reply("d", "c"), prompt("e", "b"),
        reply("f", "e"), prompt("g", "d"),
    ]  # fmt: skip
    content = lines(*values)
    take(journal, tmp_path / "x.jsonl", content)
    ways = [context(journal, str(name)) for name in journal.sessions() if name.session == "s-1"]
    assert sorted(ways) == [["a", "b", "c", "d"], ["a", "b", "c", "d", "g"], ["a", "b", "e", "f"]]
    assert given_back(journal, "s-1", "pi") == content


def test_a_rewind_is_a_branch_and_the_file_is_whole(journal: Journal, tmp_path: Path) -> None:
    content = lines(*test_format_gemini.SESSION)
    report = take(journal, tmp_path / "x.jsonl", content)
    assert report.branch != "main"
    assert context(journal, "s-1") == ["List.", "One file."]
    assert given_back(journal, "s-1", "gemini") == content


BRANCHY = {
    "gemini": [
        *test_format_gemini.SESSION,
        *test_format_gemini.prompts("p", "q"),
        {"$rewindTo": "p"},
        {"$rewindTo": "x"},
    ],
    "pi": [*test_format_pi.SESSION, prompt("c1", "a2"), prompt("c2", "a1"), prompt("c3", "c1"), prompt("c4", None)],
    "copilot": [
        *test_format_copilot.SESSION,
        test_format_copilot.one("session.snapshot_rewind", 20, {"upToEventId": "e5"}),
    ],
}


@pytest.mark.parametrize("fmt", sorted(BRANCHY))
@settings(max_examples=10, deadline=None)
@given(data=st.data())
def test_any_file_of_rewinds_is_given_back_and_is_known_again(
    tmp_path_factory: pytest.TempPathFactory, fmt: str, data: st.DataObject
) -> None:
    content = data.draw(mutations(BRANCHY[fmt]))
    folder = tmp_path_factory.mktemp("any")
    journal, path = gitjournal.init(folder / "journal.git"), folder / "x.jsonl"
    lines_of = content.splitlines(keepends=True)
    path.write_bytes(b"".join(lines_of[: data.draw(st.integers(0, len(lines_of)))]))
    import_file(journal, path, format=fmt, session="s")
    path.write_bytes(content)
    report = import_file(journal, path, format=fmt, session="s")
    if content:
        own = report.branch if report.branch.startswith("import-") else "main"
        assert given_back(journal, f"s/{own.partition('.')[0]}", fmt) == content
    assert import_file(journal, path, format=fmt, session="s").added == 0


def test_a_copy_of_a_session_shares_what_was_copied(journal: Journal, tmp_path: Path) -> None:
    said = [prompt("a", None), reply("b", "a"), prompt("c", "b")]
    take(journal, tmp_path / "2026_s-1.jsonl", lines(test_format_pi.HEADER, *said))
    header = {
        **test_format_pi.HEADER,
        "id": "s-2",
        "parentSession": "/home/ada/.pi/agent/sessions/--p--/2026_s-1.jsonl",
    }
    content = lines(header, *said[:2], prompt("d", "b"))
    report = take(journal, tmp_path / "2026_s-2.jsonl", content)
    assert report.copied and given_back(journal, "s-2", "pi") == content
    assert context(journal, "s-2") == ["a", "b", "d"]
    assert fold(journal.events("s-2")).forked_from


# --- opencode's database ---------------------------------------------------------------------------


@pytest.fixture
def database(tmp_path: Path) -> Path:
    return test_format_opencode.made(tmp_path / "share" / "opencode.db")


def test_a_database_is_imported_with_all_its_sessions(journal: Journal, database: Path) -> None:
    report = import_file(journal, database)
    assert (report.format, [report.session, *(one.session for one in report.others)]) == (
        "opencode",
        ["ses_1", "ses_2"],
    )
    assert fold(journal.events("ses_2")).parent == {"session": "ses_1"}
    with pytest.raises(UsageError, match="rows of a database"):
        given_back(journal, "ses_1", "opencode")
    again = import_file(journal, database)
    assert [again.added, *(one.added for one in again.others)] == [0, 0]


def test_a_session_that_grew_adds_its_growth(journal: Journal, database: Path) -> None:
    import_file(journal, database)
    writer = sqlite3.connect(database)
    fill_more(writer, "ses_2", assistant("msg_2", said("Found.")))
    writer.close()
    report = import_file(journal, database)
    assert [report.added, *(one.added for one in report.others)] == [0, 2]
    assert context(journal, "ses_2") == ["Find it.", "Found."]


def test_a_part_that_was_changed_in_place_is_a_new_generation(journal: Journal, database: Path) -> None:
    writer = sqlite3.connect(database)
    fill(writer, "ses_3", [user("msg_1", said("Run it.")), assistant("msg_2", tool("running"))])
    import_file(journal, database)
    assert len(fold(journal.events("ses_3")).open_calls) == 1
    done = json.dumps(
        {"type": "tool", "callID": "c1", "tool": "bash", "state": {"status": "completed", "output": "ok"}}
    )
    writer.execute("UPDATE part SET data = ? WHERE data LIKE '%running%'", (done,))
    writer.commit()
    writer.close()
    report = import_file(journal, database).others[-1]
    assert report.branch == "import-2"
    assert fold(journal.events("ses_3/import-2")).open_calls == []
    assert len(fold(journal.events("ses_3")).open_calls) == 1, "nothing is overwritten"


def test_cells_of_any_content_are_events(journal: Journal, database: Path) -> None:
    writer = sqlite3.connect(database)
    for number, cell in enumerate([b"\xff{}", "", "[1", "null", '{"type":"text","text":"\\ud83d"}', 7]):
        writer.execute("INSERT INTO part VALUES (?, 'ses_2.msg_1', 'ses_2', 0, 0, ?)", (f"z{number}", cell))
    writer.commit()
    writer.close()
    report = import_file(journal, database).others[0]
    assert (report.added, report.odd["invalid_utf8"], report.odd["blank"]) == (8, 1, 1)
    assert import_file(journal, database).others[0].added == 0


def fill_more(connection: sqlite3.Connection, session: str, message: dict[str, object]) -> None:
    """Add a message to a session that is there."""
    row = connection.execute("SELECT * FROM session WHERE id = ?", (session,)).fetchone()
    connection.execute("DELETE FROM session WHERE id = ?", (session,))
    fill(connection, session, [message], parent=row[2])


# --- the corpus ------------------------------------------------------------------------------------

OURS = {"copilot-cli": "copilot", "gemini-cli": "gemini", "pi": "pi"}


@pytest.mark.skipif(not CORPUS.is_dir(), reason="the public corpus is not here")
def test_each_file_of_the_corpus_is_claimed_by_its_own_format_only() -> None:
    for path in sorted(path for path in CORPUS.rglob("*") if path.is_file()):
        found = detect(Source(path))
        name = found.name if found else None
        if path.parent.name in OURS:
            assert name == OURS[path.parent.name], path
        else:
            assert name not in {*OURS.values(), "opencode", "course", "openboa"}, path


@pytest.mark.skipif(not CORPUS.is_dir(), reason="the public corpus is not here")
def test_files_of_the_corpus_are_given_back(journal: Journal) -> None:
    for folder, fmt in OURS.items():
        for path in sorted((CORPUS / folder).iterdir()):
            report = import_file(journal, path)
            assert given_back(journal, report.session, fmt) == path.read_bytes()
            assert import_file(journal, path).added == 0
