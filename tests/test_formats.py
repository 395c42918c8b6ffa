"""Importers and exporters: no byte lost, nothing added twice, nothing overwritten."""

from __future__ import annotations

import io
import json
import os
import sys
from collections.abc import Iterator
from hashlib import sha256
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from transcripts import line, reply

import gitjournal
from gitjournal import Journal, canonical, fold, formats
from gitjournal.errors import FormatError, ImportRefused, NotFound, StorageError, UsageError
from gitjournal.event import Event
from gitjournal.formats import ImportReport, drafted, export, import_file, importing, records
from gitjournal.formats.claude_code import SALVAGE, ClaudeCode
from gitjournal.formats.generic import Records
from gitjournal.formats.protocol import Head, Source
from gitjournal.formats.records import NOT_JSON
from gitjournal.formats.report import KINDS
from gitjournal.formats.times import to_ts
from gitjournal.refs import Name

ROOT = Path(__file__).resolve().parents[1]
CORPUS = ROOT.parent / "shared" / "corpus"
DEMO = ROOT / "gitjournal" / "demo" / "session.jsonl"
FILES = sorted(path for path in CORPUS.rglob("*") if path.is_file())
needs_corpus = pytest.mark.skipif(not FILES, reason="the public corpus is not here")
corpus = pytest.mark.parametrize("path", FILES or [DEMO], ids=lambda path: f"{path.parent.name}/{path.name}"[:60])


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    return gitjournal.init(tmp_path / "journal.git")


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return tmp_path / "transcript.jsonl"


#: For readers that are given records and need no file.
NOWHERE = Source(Path("nowhere"))


def take(journal: Journal, path: Path, content: bytes, **options: Any) -> ImportReport:
    path.write_bytes(content)
    report = import_file(journal, path, **options)
    json.dumps(report.as_dict())
    assert report.lines()
    return report


def events(journal: Journal, name: str = "s1") -> list[Event]:
    """The events after session.start."""
    return list(journal.events(name, after=1))


def forget(journal: Journal) -> None:
    """Remove what only makes the next import quicker."""
    found = [*(journal.path / "gitjournal" / "index").rglob("*.import")]
    assert found
    for path in found:
        path.unlink()


def raw_bytes(journal: Journal, name: str = "s1") -> bytes:
    """What the stored records make together, read without the exporter."""
    found = [event for event in journal.events(name) if event.files]
    return b"".join(journal.raw_file(name, event.seq, 1) for event in found)


def split(content: bytes, salvage: Any = SALVAGE) -> list[records.Record]:
    found = list(records.records(io.BytesIO(content), salvage))
    assert b"".join(record.raw for record in found) == content
    assert [record.number for record in found] == list(range(1, len(found) + 1))
    offset = 0
    for record in found:
        assert record.offset == offset
        offset += len(record.raw)
    return found


def faults(content: bytes, salvage: Any = SALVAGE) -> list[str]:
    return [record.fault for record in split(content, salvage)]


# --- records -------------------------------------------------------------------------------------


@needs_corpus
@corpus
def test_the_records_of_a_corpus_file_are_its_bytes(path: Path) -> None:
    content = path.read_bytes()
    for salvage in (None, SALVAGE):
        split(content, salvage)
    for fmt in (ClaudeCode(), Records()):
        report = ImportReport(str(path), fmt.name)
        items = list(fmt.read(fmt.cut(io.BytesIO(content)), report, NOWHERE))
        assert b"".join(item.record.raw for item in items) == content
        for item in items:
            canonical.dumps(item.data)


pieces = st.sampled_from([
    b"\n", b"\r\n", b" ", b"\0\0", b"\xef\xbb\xbf", b"\xff", b"\xed\xa0\xbd", "\u2028\x85".encode(), b"{", b"}", b'"',
    b"{}", b'{"a":1}', b'{"type":"us', b'{"type":"user","sessionId":"s"}', b"[1,2]", b"12 ", b'"x"', b"\\",
    b'{"a":1,"a":2}', line(),
])  # fmt: skip


@given(st.lists(pieces | st.binary(max_size=8), max_size=12).map(b"".join), st.integers(4, 40))
@settings(max_examples=600, deadline=None)
def test_any_bytes_are_records(content: bytes, longest: int) -> None:
    split(content)
    split(content, None)
    before = records.MAX_RECORD
    try:
        records.MAX_RECORD = longest
        split(content)
    finally:
        records.MAX_RECORD = before


@given(st.lists(pieces | st.binary(max_size=8), max_size=12).map(b"".join))
@settings(max_examples=300, deadline=None)
def test_any_bytes_can_be_mapped(content: bytes) -> None:
    for fmt in (ClaudeCode(), Records()):
        report = ImportReport("x", fmt.name)
        items = list(fmt.read(fmt.cut(io.BytesIO(content)), report, NOWHERE))
        assert b"".join(item.record.raw for item in items) == content
        for item in items:
            canonical.dumps(item.data)
        json.dumps(report.as_dict())


def test_lines_end_at_newline_only() -> None:
    assert len(split(line("a\u2028b\u2029c\x85d\x0be\x1cf") + line(n=1))) == 2


def test_glued_records_are_told_apart() -> None:
    found = split(line(end=b"") + b" " + line("é 🪙", n=1, end=b"") + line(n=2))
    assert [record.glued for record in found] == [False, True, True]
    assert all(record.value is not NOT_JSON for record in found)
    assert [record.raw[-1:] for record in found] == [b" ", b"}", b"\n"]


def test_a_record_behind_a_torn_one_is_found() -> None:
    torn = b'{"type":"user","sessionId":"s1","message":{"content":[{"type":"text","te'
    found = split(torn + line())
    assert [record.fault for record in found] == ["unparsable", ""]
    assert found[1].value["uuid"] == "u0"


def test_an_object_inside_a_torn_record_is_no_record() -> None:
    torn = b'{"type":"assistant","sessionId":"s1","message":{"content":[{"type":"text","text":"x"}],"usage":{"a":'
    assert faults(torn + b"\n") == ["unparsable"]


def test_rubbish_behind_a_record_is_a_piece_of_its_own() -> None:
    assert faults(line(end=b"") + b"garbage 1 2\n") == ["", "unparsable"]


def test_a_run_of_nul_bytes_is_a_piece_of_its_own() -> None:
    assert faults(line() + b"\0" * 4096) == ["", "nul"]
    assert faults(line() + b"\0" * 4096 + line(n=1)) == ["", "nul", ""]


def test_byte_order_mark_crlf_blank_lines_and_no_final_newline() -> None:
    content = b"\xef\xbb\xbf" + line(end=b"\r\n") + b"\r\n" + line(n=1, end=b"  \r\n") + line(n=2, end=b"")
    assert faults(content) == ["", "blank", "", ""]


def test_invalid_utf8_is_kept_and_shown_with_a_replacement() -> None:
    bad = line("caf@").replace(b"@", b"\xe9")
    (record,) = split(bad)
    assert not record.valid and not record.is_json
    assert record.value["message"]["content"] == "caf\ufffd"


def test_numbers_on_one_line_are_no_records() -> None:
    assert faults(b"1 2\n", None) == ["unparsable"]
    assert faults(b"12\n", None) == [""]


def test_a_line_that_is_too_long_comes_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "MAX_RECORD", 300)
    found = split(line("x" * 1000) + line(n=1))
    assert {record.fault for record in found[:-1]} == {"oversized"}
    assert found[-1].value["uuid"] == "u1"
    exact = b'"' + b"x" * 297 + b'"\n'
    assert faults(exact) == [""]


@pytest.mark.timeout(120)
@pytest.mark.parametrize("part", [b'{"type":[', b'{"type":1,', b'{"type":{}},{"type":', b'{"type":"x","type":"y"}'])
def test_a_search_in_a_torn_line_ends(part: bytes) -> None:
    assert set(faults(b"{" + part * (2_000_000 // len(part)))) <= {"unparsable", ""}


# --- import and export ---------------------------------------------------------------------------


@needs_corpus
@corpus
def test_a_corpus_file_goes_in_and_comes_out_byte_for_byte(path: Path, journal: Journal) -> None:
    report = import_file(journal, path)
    content = path.read_bytes()
    assert report.size == len(content)
    if path.parent.name == "claude-code":
        assert report.format == "claude-code"
    if not content:
        assert report.records == 0 and not list(journal.sessions())
        return
    if report.format in ("claude-code", "records"):
        assert sha256(raw_bytes(journal, report.session)).digest() == sha256(content).digest()
    out = io.BytesIO()
    assert export(journal, report.session, report.format, out) == report.records
    assert out.getvalue() == content
    assert import_file(journal, path).added == 0
    for event in journal.events(report.session):
        assert isinstance(event.data, dict)
    fold(journal.events(report.session)).as_dict()


@pytest.mark.parametrize(
    ("content", "kinds"),
    [
        (line(end=b"") + line(n=1), {"glued": 1}),
        (line() + b'{"type":"pr-link","sess' + line(n=1), {"unparsable": 1, "glued": 1}),
        (line() + b"\0" * 100, {"nul": 1}),
        (b"\xef\xbb\xbf" + line(end=b"\r\n") + b"\r\n", {"blank": 1}),
        (line("[" * 3000 + "]" * 3000).replace(b'"[', b"[").replace(b']"', b"]"), {"wrapped": 1}),
        (line().replace(b'"type":"user"', b'"type":"x","type":"user"'), {"odd_names": 1}),
        (line([{"type": "tool_use", "input": {"n": 2**60, "z": -0.0, "f": float("nan")}}]), {"wrapped": 3}),
        (line("cut \ud83d".encode("ascii", "backslashreplace").decode()).replace(b"\\\\", b"\\"), {"wrapped": 1}),
        (line("caf@").replace(b"@", b"\xe9"), {"invalid_utf8": 1}),
        (line() + line(n=2), {"dangling_parents": 1}),
        (line() + line(), {"repeated_ids": 1}),
        (line() + line(n=1, sessionId="s2"), {"other_session": 1}),
        (line(timestamp="yesterday"), {"no_time": 1}),
        (line(n=1) + line(), {}),
        (line() + b'"a string"\n' + b"[1]\n" + b"{}\n" + b'{"$gj:file":1}\n', {"odd_names": 1}),
    ],
    ids=lambda value: " ".join(value) or "parent after child" if isinstance(value, dict) else "",
)
def test_what_is_odd_is_counted_and_kept(journal: Journal, source: Path, content: bytes, kinds: dict[str, int]) -> None:
    report = take(journal, source, content, format="claude-code", session="s1")
    assert dict(report.odd) == kinds
    assert kinds.keys() <= KINDS.keys() and all(report.places[kind] for kind in kinds)
    assert raw_bytes(journal) == content
    out = io.BytesIO()
    export(journal, "s1", "claude-code", out)
    assert out.getvalue() == content
    assert import_file(journal, source, format="claude-code", session="s1").added == 0
    assert all(isinstance(event.data, dict) for event in journal.events("s1"))


def test_a_lone_surrogate_is_shown_as_it_was(journal: Journal, source: Path) -> None:
    content = line("@").replace(b'"@"', b'"cut \\ud83d"') + line("@" + "x" * 300, n=1).replace(b'"@', b'"\\udd11')
    take(journal, source, content)
    said = [event.data["parts"][0]["content"] for event in events(journal)]
    assert said == ["cut \ud83d", "\udd11" + "x" * 300]


def test_long_strings_are_stored_once(journal: Journal, source: Path) -> None:
    take(journal, source, line("long " * 100))
    (event,) = events(journal)
    assert event.stored_data["parts"][0]["content"] == {"$gj:ref": [1, "/message/content"]}
    assert event.data["parts"][0]["content"] == "long " * 100


def test_the_first_event_and_the_facts_of_an_import(journal: Journal, source: Path) -> None:
    take(journal, source, line())
    first, second = journal.events("s1")
    assert (first.type, first.data, first.ts) == ("session.start", {"source": "claude-code"}, second.ts)
    assert first.epoch == second.epoch == 1
    assert "salt" not in first.members and "salt" not in second.members
    assert second.files == [
        {"media_type": "application/json", "name": "raw", "sha256": sha256(line()).hexdigest(), "size": len(line())}
    ]
    with journal.session("s1") as session:
        assert session.epoch == 2


def test_an_import_is_the_same_on_every_machine_and_in_any_number_of_steps(tmp_path: Path) -> None:
    lines = DEMO.read_bytes().splitlines(keepends=True)
    heads = set()
    for name, steps in (("a", [len(lines)]), ("b", [1, 2, 20, len(lines)]), ("c", range(1, len(lines) + 1))):
        journal = gitjournal.init(tmp_path / name)
        path = tmp_path / f"{name}.jsonl"
        for step in steps:
            path.write_bytes(b"".join(lines[:step]))
            report = import_file(journal, path)
        heads.add(
            (report.session, journal.store.read_ref(f"refs/heads/{report.session}/main"), journal.head(report.session))
        )
    assert len(heads) == 1


def test_importing_twice_adds_nothing(journal: Journal, source: Path) -> None:
    content = line() + line(n=1)
    assert take(journal, source, content).added == 2
    head = journal.head("s1")
    report = take(journal, source, content)
    assert (report.added, report.skipped_known, report.branch) == (0, 2, "main")
    assert journal.head("s1") == head


def test_importing_a_grown_file_adds_the_growth(journal: Journal, source: Path) -> None:
    take(journal, source, line())
    report = take(journal, source, line() + line(n=1) + b"\n")
    assert (report.added, report.skipped_known, report.branch) == (2, 1, "main")
    assert raw_bytes(journal) == line() + line(n=1) + b"\n"


def test_importing_an_older_copy_adds_nothing(journal: Journal, source: Path) -> None:
    take(journal, source, line() + line(n=1))
    report = take(journal, source, line())
    assert (report.added, report.skipped_known) == (0, 1)
    assert any("more of this session" in note for note in report.notes)


def test_a_changed_file_goes_to_a_branch_and_nothing_is_overwritten(journal: Journal, source: Path) -> None:
    first = line() + line("old", n=1) + line(n=2)
    take(journal, source, first)
    head = journal.head("s1")
    changed = line() + line("new", n=1) + line(n=2)
    report = take(journal, source, changed)
    assert (report.branch, report.added, report.skipped_known) == ("import-2", 2, 1)
    assert any("import-2" in note for note in report.lines())
    assert journal.head("s1") == head and raw_bytes(journal) == first
    assert raw_bytes(journal, "s1/import-2") == changed
    out = io.BytesIO()
    export(journal, "s1/import-2", "claude-code", out)
    assert out.getvalue() == changed
    # The same again, both versions grown, and a third version.
    assert take(journal, source, changed).added == 0
    report = take(journal, source, changed + line(n=3))
    assert (report.branch, report.added) == ("import-2", 1)
    report = take(journal, source, first + line(n=3))
    assert (report.branch, report.added) == ("main", 1)
    report = take(journal, source, changed + line("other", n=3))
    assert (report.branch, report.added, report.skipped_known) == ("import-3", 1, 3)
    assert raw_bytes(journal, "s1/import-3") == changed + line("other", n=3)


def test_branches_of_imports_are_the_same_on_every_machine(tmp_path: Path) -> None:
    heads = set()
    for name in "ab":
        journal = gitjournal.init(tmp_path / name)
        for content in (line() + line(n=1), line() + line("new", n=1)):
            take(journal, tmp_path / "x.jsonl", content)
        heads.add(journal.head("s1/import-2"))
    assert len(heads) == 1


def test_a_last_line_that_was_still_being_written(journal: Journal, source: Path) -> None:
    whole = line() + line("x" * 300, n=1)
    report = take(journal, source, line() + line("x" * 300, n=1)[:40])
    assert not report.complete and any("newline" in note for note in report.notes)
    report = take(journal, source, whole)
    assert (report.branch, report.added, report.complete) == ("main", 1, True)
    assert raw_bytes(journal) == whole
    torn, rest = events(journal)[1:]
    assert (torn.type, rest.type, rest.data["before"]) == ("native", "message", 40)
    assert rest.data["parts"][0]["content"] == "x" * 300
    assert take(journal, source, whole).added == 0
    forget(journal)
    assert take(journal, source, whole).added == 0
    assert take(journal, source, whole + line(n=2)).branch == "main"
    forget(journal)
    assert take(journal, source, whole + line(n=2) + line(n=3)).added == 1
    assert raw_bytes(journal) == whole + line(n=2) + line(n=3)


def test_a_last_line_that_grew_in_steps(journal: Journal, source: Path) -> None:
    whole = line("words")
    for end in (20, 60, len(whole) - 1, len(whole)):
        take(journal, source, whole[:end], session="s1", format="claude-code")
    assert raw_bytes(journal) == whole
    kinds = [event.type for event in events(journal)]
    # The words are said once: when nothing was missing any more but the end of the line.
    assert kinds == ["native", "native", "message", "native"]
    assert take(journal, source, whole + line(n=1), session="s1").branch == "main"
    out = io.BytesIO()
    assert export(journal, "s1", "claude-code", out) == 5
    assert out.getvalue() == whole + line(n=1)


def test_a_last_line_that_came_otherwise_is_a_change(journal: Journal, source: Path) -> None:
    take(journal, source, line() + line(n=1)[:40])
    report = take(journal, source, line() + b"x" + line(n=1))
    assert report.branch == "import-2"
    assert raw_bytes(journal, "s1/import-2") == line() + b"x" + line(n=1)


def test_a_last_line_can_be_left_for_the_next_time(journal: Journal, source: Path) -> None:
    first = line(cwd="/home/ada")
    report = take(journal, source, first + line(n=1)[:-1], complete_only=True)
    assert (report.added, report.pending, report.complete) == (1, True, False)
    for _ in range(2):
        report = take(journal, source, first + line(n=1)[:-1], complete_only=True)
        assert (report.added, report.pending) == (0, True)
    report = take(journal, source, first + line(n=1), complete_only=True)
    assert (report.added, report.pending, report.branch) == (1, False, "main")
    assert take(journal, source, first[:-1], complete_only=True, session="s2").added == 0
    assert [str(name) for name in journal.sessions()] == ["s1"]
    unsettled = take(journal, source, line(sessionId="s3"), complete_only=True)
    assert (unsettled.added, unsettled.pending) == (0, True)


def test_a_session_that_went_on_live_is_not_continued_by_the_file(journal: Journal, source: Path) -> None:
    take(journal, source, line())
    with journal.session("s1") as session:
        session.append("message", {"role": "user", "parts": []})
    assert take(journal, source, line()).added == 0
    report = take(journal, source, line() + line(n=1))
    assert (report.branch, report.added) == ("import-2", 1)
    assert raw_bytes(journal, "s1/import-2") == line() + line(n=1)
    with pytest.raises(UsageError, match="1 events"):
        export(journal, "s1", "claude-code", io.BytesIO())


def test_a_dry_run_writes_nothing(journal: Journal, source: Path) -> None:
    report = take(journal, source, line() + line(n=1), dry_run=True)
    assert report.added == 2 and "would add" in "\n".join(report.lines())
    assert not list(journal.sessions())
    take(journal, source, line())
    head = journal.head("s1")
    assert take(journal, source, line("x"), dry_run=True).branch == "import-2"
    assert [str(name) for name in journal.sessions()] == ["s1"] and journal.head("s1") == head


def test_an_empty_file_makes_no_session(journal: Journal, source: Path) -> None:
    for name in ("auto", "claude-code", "records", "jsonl"):
        report = take(journal, source, b"", format=name)
        assert (report.records, report.session) == (0, "")
    assert not list(journal.sessions())


def test_an_import_that_was_cut_goes_on(journal: Journal, source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = b"".join(line(n=n) for n in range(6))
    monkeypatch.setattr(importing, "_BATCH_RECORDS", 2)
    write, calls = importing.Importing._write, iter([1, 0])

    def cut(self: Any) -> None:
        if not next(calls):
            raise KeyboardInterrupt
        write(self)

    monkeypatch.setattr(importing.Importing, "_write", cut)
    with pytest.raises(KeyboardInterrupt):
        take(journal, source, content)
    monkeypatch.setattr(importing.Importing, "_write", write)
    report = import_file(journal, source)
    assert (report.added, report.skipped_known) == (4, 2)
    assert raw_bytes(journal) == content


def test_progress_is_told(journal: Journal, source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importing, "_BATCH_RECORDS", 2)
    told: list[tuple[int, int]] = []
    take(journal, source, line() + line(n=1) + line(n=2), progress=lambda *done: told.append(done))
    assert told == [(len(line() + line(n=1)), 2)]


# --- session ids ---------------------------------------------------------------------------------


def test_the_session_id_is_the_first_in_the_file_or_its_name(journal: Journal, source: Path) -> None:
    summary = b'{"type":"summary","summary":"t","leafUuid":"x"}\n'
    assert take(journal, source, summary + line(sessionId="in/file")).session == "in/file"
    assert take(journal, source, summary).session == "transcript"
    assert take(journal, source, line(), session="mine").session == "mine"
    assert take(journal, source, line(sessionId="a\nb")).session == "transcript"


def test_a_sub_agents_file_is_a_session_of_its_own(journal: Journal, source: Path) -> None:
    report = take(journal, source, line(isSidechain=True, agentId="a7"))
    assert report.session == "s1.agent-a7"
    assert "sidechain" not in events(journal, "s1.agent-a7")[0].data


def test_ids_that_cannot_be_used_are_named(journal: Journal, source: Path, tmp_path: Path) -> None:
    for session in ("", "x" * 201, "journal", "a\nb"):
        with pytest.raises(UsageError):
            take(journal, source, line(), session=session)
    with pytest.raises(UsageError, match="no usable session id"):
        take(journal, tmp_path / "journal.jsonl", b"{}\n")


# --- formats -------------------------------------------------------------------------------------


def test_a_file_of_no_known_format_is_taken_as_records(journal: Journal, source: Path) -> None:
    content = b'{"type":"x","timestamp":1700000000,"big":12345678901234567890}\nnot json\n'
    report = take(journal, source, content)
    assert report.format == "records" and any("generic" in note for note in report.lines())
    first, second = events(journal, "transcript")
    assert first.data["record"]["big"] == 12345678901234567890 and first.ts == "2023-11-14T22:13:20.000Z"
    assert first.data["type"] == "x" and second.data == {"format": "records", "type": "unparsable"}
    assert second.ts == first.ts
    assert raw_bytes(journal, "transcript") == content


def test_one_json_document_is_one_record(journal: Journal, source: Path) -> None:
    content = json.dumps({"a": [1, {"b": "x" * 300}]}, indent=2).encode()
    assert take(journal, source, content).records == 1
    (event,) = events(journal, "transcript")
    assert event.data["record"] == json.loads(content)
    assert take(journal, source, content + b"\n}", session="two").records > 1


def test_exports_are_refused_for_what_was_not_imported_from_the_format(journal: Journal, source: Path) -> None:
    take(journal, source, line(), format="records", session="s1")
    with pytest.raises(UsageError, match="not imported from claude-code"):
        export(journal, "s1", "claude-code", io.BytesIO())
    with pytest.raises(NotFound):
        export(journal, "s9", "claude-code", io.BytesIO())


def test_sources_that_are_no_files(journal: Journal, tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        import_file(journal, tmp_path / "nothing")
    with pytest.raises(ImportRefused):
        import_file(journal, tmp_path)
    with pytest.raises(UsageError, match="no format 'x'"):
        import_file(journal, DEMO, format="x")


def test_a_source_that_cannot_be_read_to_its_end(
    journal: Journal, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(stream: Any, salvage: Any = None) -> Iterator[records.Record]:
        yield from split(line())
        raise OSError(5, "Input/output error")

    monkeypatch.setattr("gitjournal.formats.protocol.records", broken)
    with pytest.raises(StorageError, match="Input/output error"):
        take(journal, source, line())
    assert not list(journal.sessions())


class Shouting(Records):
    """A format of somebody else's."""

    name = "shouting"

    def sniff(self, head: Head) -> bool:
        return head.raw.isupper()


class _Entry:
    def __init__(self, name: str, loaded: Any) -> None:
        self.name, self.value, self._loaded = name, f"somewhere:{name}", loaded

    def load(self) -> Any:
        if isinstance(self._loaded, Exception):
            raise self._loaded
        return self._loaded


def test_formats_of_other_packages_are_found(journal: Journal, source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entries = {"shouting": Shouting, "broken": ImportError("no luck"), "nothing": object()}

    def entry_points(*, group: str, name: str | None = None) -> Iterator[_Entry]:
        assert group == "gitjournal.formats"
        return (_Entry(key, value) for key, value in entries.items() if name in (None, key))

    monkeypatch.setattr(metadata, "entry_points", entry_points)
    assert {"claude-code", "jsonl", "records", *entries} <= set(formats.formats())
    assert take(journal, source, b"HELLO\n").format == "shouting"
    for name, message in (("broken", "no luck"), ("nothing", "no gitjournal format")):
        with pytest.raises(UsageError, match=message):
            formats.find(name)


#: A first line that is longer than what is looked at, with the id of the session at its end.
BEHIND = (
    b'{"parentUuid":null,"isSidechain":false,"message":{"role":"user","content":"%b"},"type":"user","sessionId":"s1"}\n'
)
BEHIND %= b"x" * 300_000


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (line(), True),
        (b"\xef\xbb\xbf" + line(), True),
        (b'{"torn' + b"\n" + line(), True),
        (b'{"type":"summary","summary":"x","leafUuid":"y"}\n', True),
        (line("x" * 300_000), True),
        (BEHIND, True),
        (BEHIND.replace(b'"isSidechain"', b'"other"'), False),
        (b"[" + BEHIND, False),
        (b'{"sessionId":"a","projectHash":"b","kind":"main"}\n', False),
        (b'{"type":"session.start","data":{"sessionId":"x"},"id":"y"}\n', False),
        (b'{"timestamp":"t","type":"session_meta","payload":{}}\n', False),
        (b"", False),
        (b"[" * 100_000, False),
        (b"\0" * 5000, False),
    ],
)
def test_claude_code_is_recognised(content: bytes, expected: bool) -> None:
    assert ClaudeCode().sniff(Head(content[: 256 * 1024], Path("x"))) is expected


# --- the mapping of Claude Code ------------------------------------------------------------------


def mapped(*lines: bytes) -> list[tuple[str, dict[str, Any], str]]:
    report = ImportReport("x", "claude-code")
    fmt = ClaudeCode()
    items = fmt.read(fmt.cut(io.BytesIO(b"".join(lines))), report, NOWHERE)
    return [(item.type, {k: v for k, v in item.data.items() if k != "native"}, item.actor) for item in items]


def test_messages_and_who_said_them() -> None:
    text = {"role": "user", "parts": [{"type": "text", "content": "hi"}]}
    assert mapped(line("hi")) == [("message", text, "user")]
    assert mapped(line([{"type": "text", "text": "hi"}])) == [("message", text, "user")]
    assert mapped(line("hi", isMeta=True)) == [("message", text | {"injected": True}, "host")]
    assert mapped(line("hi", isSidechain=True)) == [("message", text | {"sidechain": True}, "assistant")]
    queued = {"type": "queued_command", "prompt": "hi"}
    assert mapped(line(type="attachment", attachment=queued, message=None)) == [("message", text, "user")]


def test_a_response_with_its_usage() -> None:
    usage = {"input_tokens": 3, "cache_read_input_tokens": 10, "cache_creation_input_tokens": 5, "output_tokens": 7}
    content = [{"type": "thinking", "thinking": "hm", "signature": "x"}, {"type": "text", "text": "yes"}]
    ((kind, data, actor),) = mapped(reply(content, usage=usage))
    assert (kind, actor) == ("model.response", "assistant")
    assert data == {
        "parts": [{"type": "reasoning", "content": "hm"}, {"type": "text", "content": "yes"}],
        "response.id": "msg_1",
        "response.model": "m-1",
        "finish_reason": "end_turn",
        "usage": {
            "gen_ai.usage.input_tokens": 18,
            "gen_ai.usage.output_tokens": 7,
            "gen_ai.usage.cache_read.input_tokens": 10,
            "gen_ai.usage.cache_creation.input_tokens": 5,
        },
        "native_usage": usage,
    }


def test_usage_counts_once_per_response(journal: Journal, source: Path) -> None:
    def said(n: int, output: int) -> bytes:
        return reply("x", n, usage={"input_tokens": 10, "output_tokens": output})

    take(journal, source, said(0, 1) + said(1, 1) + said(2, 25))
    state = fold(journal.events("s1"))
    assert state.usage["gen_ai.usage.input_tokens"] == 10 and state.usage["gen_ai.usage.output_tokens"] == 25
    assert state.turns["model"] == 1


def test_tool_calls_and_results() -> None:
    call = {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "ls"}}
    answer = {"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "text", "text": "a"}], "is_error": True}
    (_, said, _), (kind, data, actor) = mapped(reply([call]), line([answer], n=1))
    assert said["parts"] == [{"type": "tool_call", "id": "t1", "name": "Bash", "arguments": {"command": "ls"}}]
    assert (kind, actor) == ("tool.result", "tool:Bash")
    response = {
        "type": "tool_call_response",
        "id": "t1",
        "response": [{"type": "text", "content": "a"}],
        "is_error": True,
    }
    assert data == {"parts": [response]}
    ((kind, _, actor),) = mapped(line([answer]))
    assert (kind, actor) == ("tool.result", "host")
    ((kind, _, _),) = mapped(line([answer, {"type": "text", "text": "and"}]))
    assert kind == "message"


def test_flat_tool_records() -> None:
    call = line(type="tool_use", message=None, name="bash", input={"c": 1})
    answer = line(type="tool_result", message=None, name="bash", output="x", n=1)
    assert mapped(call, answer) == [
        ("tool.call", {"name": "bash", "arguments": {"c": 1}}, "assistant"),
        ("tool.result", {"response": "x"}, "tool:bash"),
    ]


def test_errors() -> None:
    made_up = reply([{"type": "text", "text": "API Error: 529"}], isApiErrorMessage=True, error="overloaded")
    assert mapped(made_up) == [("error", {"error.type": "overloaded", "message": "API Error: 529"}, "host")]
    system = line(type="system", message=None, subtype="api_error", error={"status": 529})
    assert mapped(system) == [("error", {"error.type": "api_error", "message": '{"status": 529}'}, "host")]


def test_a_compaction_is_the_record_with_the_summary(journal: Journal, source: Path) -> None:
    boundary = line(type="system", message=None, subtype="compact_boundary", content="Conversation compacted", n=1)
    take(journal, source, line() + boundary + line("in short", n=2, isCompactSummary=True) + line("more", n=3))
    assert [event.type for event in events(journal)] == ["message", "native", "context.compaction", "message"]
    state = fold(journal.events("s1"))
    assert [part["content"] for entry in state.context for part in entry["parts"]] == ["in short", "more"]
    assert len(state.history) == 2


def test_images_and_documents() -> None:
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}
    linked = {"type": "image", "source": {"type": "url", "url": "https://example.com/a.png"}}
    stored = {"type": "document", "source": {"type": "file", "file_id": "f1"}}
    plain = {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "words"}}
    ((_, data, _),) = mapped(line([image, linked, stored, plain]))
    assert data["parts"] == [
        {"type": "blob", "modality": "image", "mime_type": "image/png", "content": "AAAA"},
        {"type": "uri", "modality": "image", "uri": "https://example.com/a.png"},
        {"type": "file", "modality": "document", "file_id": "f1"},
        plain,
    ]


def test_unknown_records_and_blocks_are_kept_as_they_are() -> None:
    new = line(type="mode", message=None, mode="plan", nested={"a": 1}, parentUuid=None)
    assert mapped(new) == [("native", {"format": "claude-code", "type": "mode", "fields": {"mode": "plan"}}, "host")]
    progress = line(type="progress", message=None, data={"type": "hook_progress"})
    assert mapped(progress)[0][1]["type"] == "progress/hook_progress"
    block = {"type": "server_tool_use", "id": "x"}
    assert mapped(line([block, [1]]))[0][1]["parts"] == [block, {"type": "native", "value": [1]}]


@pytest.mark.parametrize("value", [None, 5, True, [], {}, [None], "x", [[]], {"content": 7}, {"content": {"a": 1}}])
def test_members_of_any_shape(value: Any) -> None:
    names = [
        "type",
        "message",
        "attachment",
        "uuid",
        "parentUuid",
        "timestamp",
        "subtype",
        "sessionId",
        "error",
        "snapshot",
    ]
    for kind in ("user", "assistant", "system", "attachment", "tool_use", "tool_result", None):
        for name in names:
            record = {"type": kind, "sessionId": "s1", name: value}
            ClaudeCode().sniff(Head(json.dumps(record).encode(), Path("x")))
            split(b'{"torn' + json.dumps({"cwd": 1} | record).encode())
            for extra in ({}, {"isApiErrorMessage": True}, {"isCompactSummary": True}, {"subtype": "api_error"}):
                for _, data, _ in mapped(json.dumps(record | extra).encode()):
                    canonical.dumps(data)
    for name in ("type", "text", "source", "content", "id", "tool_use_id", "name", "input", "thinking"):
        for kind in ("text", "image", "tool_use", "tool_result", "thinking"):
            for _, data, _ in mapped(
                line([{"type": kind, name: value}]), reply([{"type": kind, name: value}], usage=value)
            ):
                canonical.dumps(data)


def test_a_view_that_is_too_big_for_an_event_is_left_out(
    journal: Journal, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drafted, "_VIEW_BYTES", 1000)
    monkeypatch.setattr(drafted, "_MEASURE_FROM", 500)
    report = take(journal, source, line([{"type": "x", "a": ["é" * 100] * 20}]) + line(n=1))
    assert report.odd["too_big"] == 1
    assert [event.type for event in events(journal)] == ["native", "message"]


# --- times ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given_time", "ts"),
    [
        ("2026-05-01T10:00:00.123Z", "2026-05-01T10:00:00.123Z"),
        ("2026-05-01T10:00:00Z", "2026-05-01T10:00:00.000Z"),
        ("2026-05-01T10:00:00.123999Z", "2026-05-01T10:00:00.123Z"),
        ("2026-05-01T10:00:00.5+02:00", "2026-05-01T08:00:00.500Z"),
        ("2026-05-01 10:00:00", "2026-05-01T10:00:00.000Z"),
        (1777629600, "2026-05-01T10:00:00.000Z"),
        (1777629600123, "2026-05-01T10:00:00.123Z"),
        (1777629600.5, "2026-05-01T10:00:00.500Z"),
        ("2026-02-30T10:00:00.000Z", None),
        ("2026-05-01T24:00:00.000Z", None),
        ("2026-05-01T10:00:60.000Z", None),
        ("1969-12-31T23:59:59.000Z", None),
        ("0001-01-01T00:00:00+23:59", None),
        ("9999-12-31T23:59:59-23:59", None),
        ("\u0662026-05-01T10:00:00.000Z", None),
        ("2026-05-01T10:00:00+99:99", None),
        (-1, None),
        (10**300, None),
        (1e300, None),
        (True, None),
        (None, None),
        ({"$gj:json": "1e400"}, None),
    ],
)
def test_times(given_time: Any, ts: str | None) -> None:
    assert to_ts(given_time) == ts


def test_records_without_a_time_take_the_one_before(journal: Journal, source: Path) -> None:
    summary = b'{"type":"summary","summary":"t","leafUuid":"x"}\n'
    take(journal, source, summary + line() + summary)
    assert [event.ts for event in journal.events("s1")] == [
        "1970-01-01T00:00:00.000Z",
        "1970-01-01T00:00:00.000Z",
        "2026-05-01T10:00:00.000Z",
        "2026-05-01T10:00:00.000Z",
    ]


# --- our own JSONL -------------------------------------------------------------------------------


def exported(journal: Journal, name: str, path: Path) -> Path:
    with path.open("wb") as out:
        export(journal, name, "jsonl", out)
    return path


def make_session(journal: Journal, source: Path) -> None:
    take(journal, source, line() + line("x" * 300, n=1))
    with journal.session("s1") as session:
        session.append("message", {"role": "user", "parts": [{"type": "text", "content": "y" * 70_000}]}, actor="user")
    journal.branch("s1", 3, "try-b")
    with journal.session("s1/try-b") as session:
        session.append("note", {"n": 1})


@pytest.mark.parametrize("name", ["s1", "s1/try-b"])
def test_our_own_export_brings_the_same_commits(journal: Journal, source: Path, tmp_path: Path, name: str) -> None:
    make_session(journal, source)
    path = exported(journal, name, tmp_path / "out.jsonl")
    assert len(path.read_bytes().splitlines()) == journal.head(name).seq
    other = gitjournal.init(tmp_path / "other")
    report = import_file(other, path)
    assert (report.format, report.added) == ("jsonl", journal.head(name).seq)
    assert str(Name(report.session, report.branch)) == name
    ref = f"refs/heads/{Name(report.session, report.branch).path}"
    assert other.store.read_ref(ref) == journal.store.read_ref(ref)
    assert [event.data for event in other.events(name)] == [event.data for event in journal.events(name)]
    assert import_file(other, path).added == 0
    assert import_file(journal, path).added == 0


def test_our_own_export_of_a_fork(journal: Journal, source: Path, tmp_path: Path) -> None:
    make_session(journal, source)
    journal.fork("s1/try-b", 4, "s2")
    path = exported(journal, "s2", tmp_path / "out.jsonl")
    other = gitjournal.init(tmp_path / "other")
    assert import_file(other, path).session == "s2"
    assert other.head("s2") == journal.head("s2")


def test_our_own_import_of_a_grown_and_of_a_different_session(journal: Journal, source: Path, tmp_path: Path) -> None:
    other = gitjournal.init(tmp_path / "other")
    take(journal, source, line())
    import_file(other, exported(journal, "s1", tmp_path / "a.jsonl"))
    take(journal, source, line() + line(n=1))
    grown = exported(journal, "s1", tmp_path / "b.jsonl")
    assert import_file(other, grown, dry_run=True).added == 1
    report = import_file(other, grown)
    assert (report.added, report.skipped_known) == (1, 2)
    third = gitjournal.init(tmp_path / "third")
    take(third, source, line("x"))
    with pytest.raises(gitjournal.JournalError):
        import_file(third, grown)
    assert raw_bytes(third) == line("x")


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda raw: raw[:-1], "is cut"),
        (lambda raw: raw.replace(b"hello", b"hullo"), "follow|fit|link|side file"),
        (lambda raw: raw + raw.splitlines(keepends=True)[-1], "follow"),
        (lambda raw: raw + b"{}\n", "line 4"),
        (lambda raw: raw + b"\n", "line 4"),
        (lambda raw: raw + b"\xff\0\n", "line 4"),
    ],
)
def test_a_damaged_export_is_refused(journal: Journal, source: Path, tmp_path: Path, damage: Any, message: str) -> None:
    take(journal, source, line() + line(n=1))
    path = exported(journal, "s1", tmp_path / "out.jsonl")
    path.write_bytes(damage(path.read_bytes()))
    other = gitjournal.init(tmp_path / "other")
    with pytest.raises(FormatError, match=message):
        import_file(other, path, format="jsonl")
    assert not list(other.sessions())


def test_side_files_that_are_missing_or_changed_are_refused(journal: Journal, source: Path, tmp_path: Path) -> None:
    take(journal, source, line() + line(n=1))
    path = exported(journal, "s1", tmp_path / "out.jsonl")
    side = tmp_path / "out.jsonl.files" / "3.1"
    other = gitjournal.init(tmp_path / "other")
    for change in (lambda: side.write_bytes(side.read_bytes()[:-1]), side.unlink):
        change()
        with pytest.raises(FormatError) as caught:
            import_file(other, path)
        assert caught.value.code == "bad-file"
    assert not list(other.sessions())


def test_side_files_that_are_pipes_or_links_are_refused(journal: Journal, source: Path, tmp_path: Path) -> None:
    take(journal, source, line() + line(n=1))
    path = exported(journal, "s1", tmp_path / "out.jsonl")
    side = tmp_path / "out.jsonl.files" / "3.1"
    kept = side.rename(tmp_path / "elsewhere")
    other = gitjournal.init(tmp_path / "other")
    for put in (lambda: os.mkfifo(side), lambda: side.symlink_to(kept), side.mkdir):
        put()
        with pytest.raises(FormatError) as caught:
            import_file(other, path)
        assert caught.value.code == "bad-file"
        side.rmdir() if side.is_dir() and not side.is_symlink() else side.unlink()


def test_side_files_need_a_folder(journal: Journal, source: Path) -> None:
    take(journal, source, line())
    with pytest.raises(UsageError, match="folder"):
        export(journal, "s1", "jsonl", io.BytesIO())
    with journal.session("s2", create=True) as session:
        session.append("note", {})
    out = io.BytesIO()
    assert export(journal, "s2", "jsonl", out) == 2
    assert not out.getvalue().count(b"$gj")


def test_the_session_of_our_own_export_cannot_be_renamed(journal: Journal, source: Path, tmp_path: Path) -> None:
    take(journal, source, line())
    path = exported(journal, "s1", tmp_path / "out.jsonl")
    with pytest.raises(UsageError, match="hash"):
        import_file(journal, path, session="s2")


# --- the demonstration ---------------------------------------------------------------------------


def test_the_demonstration_shows_everything(journal: Journal) -> None:
    report = import_file(journal, DEMO)
    assert report.format == "claude-code" and not report.odd
    kinds = {event.type for event in journal.events(report.session)}
    assert kinds >= {"message", "model.response", "tool.result", "error", "context.compaction", "native"}
    state = fold(journal.events(report.session))
    assert not state.open_calls and not state.odd and state.usage["gen_ai.usage.output_tokens"] > 1000
    out = io.BytesIO()
    export(journal, report.session, "claude-code", out)
    assert out.getvalue() == DEMO.read_bytes()


@pytest.mark.skipif(sys.platform != "linux", reason="RSS is read from /proc")
def test_memory_does_not_grow_with_the_file(journal: Journal, tmp_path: Path) -> None:
    source = tmp_path / "big.jsonl"
    with source.open("wb") as out:
        for n in range(6000):
            out.write(line("x" * 5000, n=n, timestamp="2026-05-01T10:00:00.000Z"))
    import tracemalloc

    tracemalloc.start()
    try:
        import_file(journal, source)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert source.stat().st_size > 30_000_000
    assert peak < 25_000_000


@given(st.lists(pieces | st.binary(max_size=8), min_size=1, max_size=8).map(b"".join))
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_bytes_go_in_and_come_out(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    # What begins so is compressed, and refused when it cannot be read (tests/test_import_any.py).
    assume(not content.startswith((b"\x1f\x8b\x08", b"\x28\xb5\x2f\xfd")))
    folder = tmp_path_factory.mktemp("any")
    journal = gitjournal.init(folder / "j")
    for fmt in ("claude-code", "records"):
        report = take(journal, folder / "x.jsonl", content, format=fmt, session=fmt)
        out = io.BytesIO()
        if report.session:
            export(journal, fmt, fmt, out)
        assert out.getvalue() == content
