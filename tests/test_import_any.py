"""Every format, given anything: no traceback, nothing lost, nothing added twice."""

from __future__ import annotations

import gzip
import io
import json
import tracemalloc
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import gitjournal
from gitjournal import Journal, canonical, fold
from gitjournal.errors import ImportRefused, JournalError, NotFound, StorageError
from gitjournal.formats import detect, export, find, formats, import_file, importing
from gitjournal.formats import source as sources
from gitjournal.formats.batch import Outcome, Total, gather, import_all
from gitjournal.formats.protocol import RecordFormat, Source
from gitjournal.formats.report import ImportReport

ROOT = Path(__file__).resolve().parents[1]
CORPUS = ROOT.parent / "shared" / "corpus"
DEMO = ROOT / "gitjournal" / "demo" / "session.jsonl"
FILES = sorted(path for path in CORPUS.rglob("*") if path.is_file() and path.suffix != ".tsv")
corpus = pytest.mark.parametrize("path", FILES or [DEMO], ids=lambda path: f"{path.parent.name}/{path.name}"[:60])
NAMES = [name for name in formats() if isinstance(find(name), RecordFormat)]
every = pytest.mark.parametrize("name", NAMES)


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    return gitjournal.init(tmp_path / "journal.git")


def is_exact(name: str, path: Path) -> bool:
    fmt = find(name)
    assert isinstance(fmt, RecordFormat)
    try:
        return all(strand.exact for strand in fmt.strands(Source(path)))
    except JournalError:
        return False


def heads(journal: Journal) -> dict[str, str]:
    return {ref: oid for ref, oid in journal.store.heads().items() if not ref.startswith("journal/")}


def check(journal: Journal, path: Path, name: str) -> ImportReport | None:
    """Import as ``name``, and see that all of it comes out again; None when it is refused."""
    try:
        report = import_file(journal, path, format=name)
    except JournalError as error:
        assert str(error) and "\n" not in str(error)
        return None
    json.dumps(report.as_dict())
    assert report.lines()
    for one in (report, *report.others):
        if one.session:
            for branch in journal.branches(one.session):
                for event in journal.events(branch):
                    canonical.dumps(event.stored_data)
                    assert event.data is not None
                fold(journal.events(branch)).as_dict()
    if report.session and is_exact(name, path):
        out = io.BytesIO()
        own = report.branch.partition(".")[0] if report.branch.startswith("import-") else "main"
        export(journal, f"{report.session}/{own}", name, out)
        assert out.getvalue() == Source(path).open().read()
    before = heads(journal)
    again = import_file(journal, path, format=name)
    assert again.added == 0 and heads(journal) == before
    return report


# --- anything ------------------------------------------------------------------------------------

WORDS = st.sampled_from([
    b"\n", b"\r\n", b" ", b"\0\0", b"\xef\xbb\xbf", b"\xff", b"{", b"}", b"[", b"]", b'"', b",", b":", b"{}", b"null",
    b'{"type":"user","sessionId":"s"}', b'{"type":"session","id":"x"}', b'"messages":[', b'{"$rewindTo":"a"}', b"-0",
    b"1e400", b'"\\ud800"', b'{"a":1,"a":2}', b'{"$gj:ref":[1,""]}', b'"steps":', b'"payload":', b"SQLite format 3\0",
    b"PK\x03\x04", b"\x1f\x8b\x08", b"\x28\xb5\x2f\xfd",
])  # fmt: skip


@every
@given(content=st.lists(WORDS | st.binary(max_size=8), max_size=14).map(b"".join))
@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_bytes_are_imported_or_refused(tmp_path_factory: pytest.TempPathFactory, name: str, content: bytes) -> None:
    folder = tmp_path_factory.mktemp("any")
    path = folder / "some.file"
    path.write_bytes(content)
    check(gitjournal.init(folder / "j"), path, name)
    detect(Source(path)) if content[:2] not in (b"\x1f\x8b", b"\x28\xb5") else None


# --- damaged samples -----------------------------------------------------------------------------


def _samples() -> dict[str, list[bytes]]:
    """Small files by the format that recognises them."""
    found: dict[str, list[bytes]] = {"claude-code": [b"".join(DEMO.read_bytes().splitlines(keepends=True)[:8])]}
    for path in FILES:
        raw = path.read_bytes()
        lines = raw.splitlines(keepends=True)
        for small in (raw, b"".join(lines[:6])):
            if 0 < len(small) < 16_000:
                place = Source(path)
                fmt = detect(place)
                if fmt is not None:
                    found.setdefault(fmt.name, []).append(small)
    return found


SAMPLES = _samples()
CHANGES: list[Callable[[bytes, int, int], bytes]] = [
    lambda raw, a, b: raw[:a] + raw[b:],
    lambda raw, a, b: raw[:a] + raw[a:b] * 2 + raw[b:],
    lambda raw, a, b: raw[:a] + b"\0" * (b - a) + raw[b:],
    lambda raw, a, b: raw[:a] + b"null" + raw[a:],
    lambda raw, a, b: raw[:a] + b'"x"' + raw[b:],
    lambda raw, a, b: raw[:a] + b"{}" + raw[b:],
    lambda raw, a, b: raw[:a],
    lambda raw, a, b: raw.replace(b'"', b"\xff", 1),
    lambda raw, a, b: raw.replace(b':"', b':["', 2),
    lambda raw, a, b: raw.replace(b"\n", b"", 1),
    lambda raw, a, b: raw.replace(b"true", b"0").replace(b"null", b"[]"),
    lambda raw, a, b: raw.replace(b'"', b"", 1) if a % 2 else raw + raw,
]


@pytest.mark.parametrize("name", sorted(SAMPLES))
@given(data=st.data())
@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_damaged_sample_is_imported_or_refused(
    tmp_path_factory: pytest.TempPathFactory, name: str, data: st.DataObject
) -> None:
    raw = data.draw(st.sampled_from(SAMPLES[name]))
    for change in data.draw(st.lists(st.sampled_from(CHANGES), min_size=1, max_size=3)):
        a = data.draw(st.integers(0, len(raw)))
        raw = change(raw, a, min(len(raw), a + data.draw(st.integers(0, 40))))
    folder = tmp_path_factory.mktemp("damaged")
    path = folder / "some.file"
    path.write_bytes(raw)
    for kind in dict.fromkeys((name, "records")):
        check(gitjournal.init(folder / f"{kind}.git"), path, kind)


@corpus
def test_a_file_of_the_corpus_in_its_own_format_and_grown_from_its_half(
    path: Path, journal: Journal, tmp_path: Path
) -> None:
    fmt = detect(Source(path))
    if fmt is None or not isinstance(fmt, RecordFormat):
        return
    assert check(journal, path, fmt.name) is not None
    raw = path.read_bytes()
    grown = tmp_path / path.name
    for end in (len(raw) // 2, len(raw)):
        grown.write_bytes(raw[:end])
        check(gitjournal.init(tmp_path / "other"), grown, fmt.name)


@corpus
@pytest.mark.parametrize("hundredths", [2, 30, 97])
def test_a_file_of_the_corpus_that_was_cut_when_it_came_first(path: Path, journal: Journal, hundredths: int) -> None:
    raw, grown = path.read_bytes(), journal.path.parent / path.name
    grown.write_bytes(raw[: len(raw) * hundredths // 100])
    with suppress(JournalError):
        import_file(journal, grown)
    grown.write_bytes(raw)
    check(journal, grown, (detect(Source(grown)) or find("records")).name)


def test_the_whole_corpus_twice_leaves_the_same_refs(journal: Journal) -> None:
    wanted = list(gather([CORPUS if FILES else DEMO]))
    first = list(import_all(journal, wanted))
    assert not [outcome.error for outcome in first if outcome.error]
    before = heads(journal)
    total = Total()
    for outcome in import_all(journal, wanted):
        total.add(outcome)
    assert total.added == 0 and heads(journal) == before


# --- compressed, moved, many ---------------------------------------------------------------------


def packed(raw: bytes) -> dict[str, bytes]:
    frames = zstandard.ZstdCompressor().compress(raw[:100]) + zstandard.ZstdCompressor(level=19).compress(raw[100:])
    return {"a.zst": zstandard.ZstdCompressor().compress(raw), "b": frames, "c.gz": gzip.compress(raw)}


def test_a_compressed_source_is_the_source(journal: Journal, tmp_path: Path) -> None:
    raw = DEMO.read_bytes()
    whole = import_file(journal, DEMO)
    for name, content in packed(raw).items():
        path = tmp_path / "archived" / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)
        assert Source(path).open().read() == raw and Source(path).packed
        report = import_file(journal, path)
        assert (report.format, report.session, report.added) == ("claude-code", whole.session, 0)
        assert report.size == len(raw)


def test_the_name_of_a_compressed_source_is_that_of_the_source(journal: Journal, tmp_path: Path) -> None:
    path = tmp_path / "notes.jsonl"
    path.write_bytes(b'{"a":1}\n')
    assert import_file(journal, path).session == "notes"
    packed_path = tmp_path / "notes.jsonl.zst"
    packed_path.write_bytes(zstandard.ZstdCompressor().compress(path.read_bytes()))
    report = import_file(journal, packed_path)
    assert (report.session, report.added) == ("notes", 0)


@pytest.mark.parametrize("cut", [5, 20, -1])
def test_a_compressed_source_that_is_damaged_is_refused(journal: Journal, tmp_path: Path, cut: int) -> None:
    for name, content in packed(DEMO.read_bytes()).items():
        path = tmp_path / name
        path.write_bytes(content[:cut])
        with pytest.raises(ImportRefused, match="damaged"):
            import_file(journal, path)


def test_a_small_file_that_becomes_a_large_one_takes_no_memory(tmp_path: Path) -> None:
    path = tmp_path / "bomb.zst"
    path.write_bytes(zstandard.ZstdCompressor().compress(b"\0" * 300_000_000))
    assert path.stat().st_size < 50_000
    tracemalloc.start()
    try:
        with Source(path).open() as stream:
            assert sum(len(piece) for piece in iter(lambda: stream.read(1 << 20), b"")) == 300_000_000
        assert tracemalloc.get_traced_memory()[1] < 64_000_000
    finally:
        tracemalloc.stop()


def test_a_source_without_an_id_is_known_when_it_was_moved_or_renamed(journal: Journal, tmp_path: Path) -> None:
    raw = b"".join(b'{"n": %d, "text": "%s"}\n' % (n, b"x" * 60) for n in range(40))
    (tmp_path / "first.jsonl").write_bytes(raw)
    assert import_file(journal, tmp_path / "first.jsonl").session == "first"
    for name, content, added in (("second", raw, 0), ("third", raw + b'{"n": 40}\n', 1), ("fourth", raw[:2000], 0)):
        (tmp_path / f"{name}.jsonl").write_bytes(content)
        report = import_file(journal, tmp_path / f"{name}.jsonl")
        if name == "fourth":
            # Its last line is cut, so it is no beginning of the other.
            assert report.session == "fourth"
        else:
            assert (report.session, report.added) == ("first", added)
    (tmp_path / "fifth.jsonl").write_bytes(raw.replace(b"39", b"93"))
    assert import_file(journal, tmp_path / "fifth.jsonl").session == "fifth"


def test_folders_are_walked_and_what_is_no_session_is_passed_over(journal: Journal, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    (folder / "deep").mkdir(parents=True)
    (folder / "deep" / "s.jsonl").write_bytes(DEMO.read_bytes())
    (folder / "readme.txt").write_text("hello\n")
    (folder / "empty.jsonl").touch()
    (folder / "broken.zst").write_bytes(zstandard.ZstdCompressor().compress(DEMO.read_bytes())[:-9])
    outside = tmp_path / "outside.jsonl"
    outside.write_bytes(DEMO.read_bytes())
    (folder / "link.jsonl").symlink_to(outside)
    (folder / "loop").symlink_to(folder)
    import os

    os.mkfifo(folder / "pipe.jsonl")
    outcomes: list[Outcome] = list(import_all(journal, list(gather([folder, tmp_path / "nothing"]))))
    told = {
        outcome.wanted.path.name: "failed" if outcome.error else "read" if outcome.report else "passed"
        for outcome in outcomes
    }
    assert told == {
        "s.jsonl": "read", "readme.txt": "passed", "empty.jsonl": "passed", "broken.zst": "passed", "nothing": "failed",
    }  # fmt: skip
    total = Total()
    for outcome in outcomes:
        total.add(outcome)
    assert (total.files, total.imported, total.skipped, total.failed, total.sessions) == (5, 1, 3, 1, 1)
    assert [one.path.name for one in gather([folder], since=4e9)] == []


def test_special_files_are_never_opened(journal: Journal, tmp_path: Path) -> None:
    import os

    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/zero"), tmp_path):
        with pytest.raises(ImportRefused):
            import_file(journal, path)
    with pytest.raises(NotFound):
        import_file(journal, tmp_path / "nothing")
    with pytest.raises(StorageError):
        import_file(journal, Path("a\0b"))


def test_a_copy_is_imported_after_what_it_copies(journal: Journal, tmp_path: Path) -> None:
    from tests.test_generations import PARENT, Tape, copied, said  # the same small format

    class Known(Tape):
        def sniff(self, head: Any) -> bool:
            return True

    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.jsonl").write_bytes(copied(4, said(7)))
    (tmp_path / "in" / "b.jsonl").write_bytes(PARENT)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("gitjournal.formats.detect", lambda source: Known())
        patch.setattr("gitjournal.formats.batch.detect", lambda source: Known())
        outcomes = list(import_all(journal, list(gather([tmp_path / "in"]))))
    reports = {outcome.report.session: outcome.report for outcome in outcomes if outcome.report}
    assert list(reports) == ["p", "s"] and reports["s"].copied == 4


def test_memory_is_bounded_for_a_long_line(journal: Journal, tmp_path: Path) -> None:
    path = tmp_path / "long.jsonl"
    record = {
        "type": "user",
        "sessionId": "s",
        "uuid": "u",
        "message": {"role": "user", "content": "word " * 1_200_000},
    }
    path.write_text(json.dumps(record) + "\n")
    tracemalloc.start()
    try:
        import_file(journal, path)
        assert tracemalloc.get_traced_memory()[1] < 100_000_000
    finally:
        tracemalloc.stop()


def test_a_batch_is_bounded_in_bytes() -> None:
    assert importing._BATCH_BYTES < 5_000_000 and sources._STEP <= 4096
