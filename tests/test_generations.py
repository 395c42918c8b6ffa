"""Rewinds, copies and growth: which branches an import makes, and that the source comes back whole."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from zlib import compress, decompress

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from imported import forget

import gitjournal
from gitjournal import Journal, fold, likeness
from gitjournal.errors import FormatError, UsageError
from gitjournal.formats import ImportReport, exporter
from gitjournal.formats import patch as patches
from gitjournal.formats.copied import is_copied
from gitjournal.formats.protocol import About, Head, Item, Options, RecordFormat, Source
from gitjournal.formats.records import Record


class Tape(RecordFormat):
    """Lines like ``{"id": 3, "say": "x", "session": "s", "copy_of": "p", "after": 1}``."""

    name = "tape"
    #: How many records were mapped, in all imports.
    mapped = 0

    def sniff(self, head: Head) -> bool:
        return False

    def about(self, found: Iterator[Record], source: Source) -> About:
        record = next(found, None)
        first = record.value if record and type(record.value) is dict else {}
        return About(first.get("session"), {"project": "/p"}, first.get("copy_of"))

    def read(self, found: Iterator[Record], report: ImportReport, source: Source) -> Iterator[Item]:
        mapper = self.mapper(report, source)
        for record in found:
            yield mapper.item(record)

    def mapper(self, report: ImportReport, source: Source) -> Any:
        return _Mapper(self)

    def same(self, record: Record) -> bytes:
        value = record.value if type(record.value) is dict else {}
        return json.dumps([value.get("id"), value.get("say")]).encode() if "id" in value else b""


class _Mapper:
    """Numbers the records in what it says of them, so that what it must remember shows."""

    def __init__(self, fmt: Tape) -> None:
        self._fmt, self._count = fmt, 0

    def item(self, record: Record) -> Item:
        self._fmt.mapped += 1
        self._count += 1
        value = record.value if type(record.value) is dict else {}
        if "say" not in value:
            return Item(record, "native", {"format": "tape", "type": "aside", "n": self._count})
        parts = [{"type": "text", "content": value["say"]}]
        data = {"role": "user", "parts": parts, "n": self._count}
        return Item(record, "message", data, "user", None, (), value.get("after"), value.get("turn"))

    def finish(self) -> None:
        pass

    def save(self) -> Any:
        return {"count": self._count}

    def load(self, saved: Any) -> None:
        self._count = saved["count"]


def said(n: int, say: str | None = None, session: str = "s", **members: Any) -> bytes:
    return json.dumps({"id": n, "say": say or f"words {n}", "session": session, **members}).encode() + b"\n"


def aside(session: str = "s", **members: Any) -> bytes:
    return json.dumps({"session": session, **members}).encode() + b"\n"


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    return gitjournal.init(tmp_path / "journal.git")


def take(journal: Journal, path: Path, content: bytes, fmt: Tape | None = None, **options: Any) -> ImportReport:
    path.write_bytes(content)
    return (fmt or Tape()).load(journal, Source(path), Options(**options))


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return tmp_path / "tape.jsonl"


def exported(journal: Journal, name: str) -> bytes:
    out = io.BytesIO()
    exporter.export_raw("tape", journal, journal.resolve(name), out)
    return out.getvalue()


def words(journal: Journal, name: str) -> list[str]:
    found = [event.data for event in journal.events(name) if event.type == "message"]
    return [data["parts"][0]["content"].removeprefix("words ") for data in found]


def branches(journal: Journal, session: str = "s") -> list[str]:
    return [name.branch for name in journal.branches(session)]


def refs(journal: Journal) -> dict[str, str]:
    return journal.store.heads()


# --- rewinds -------------------------------------------------------------------------------------

REWOUND = said(1) + said(2) + said(3) + said(4, after=1) + said(5) + said(6, after=4) + said(7)


def test_a_rewind_is_a_branch_and_the_trunk_gives_the_whole_source(journal: Journal, source: Path) -> None:
    report = take(journal, source, REWOUND)
    assert (report.added, report.rewinds, report.branch) == (7, 2, "rewind-2")
    assert branches(journal) == ["main", "rewind-1", "rewind-2"]
    assert words(journal, "s") == ["1", "2", "3"]
    assert words(journal, "s/rewind-1") == ["1", "4", "5"]
    assert words(journal, "s/rewind-2") == ["1", "4", "6", "7"]
    assert exported(journal, "s") == REWOUND
    assert exported(journal, "s/rewind-1") == said(1) + said(4, after=1) + said(5)
    found = list(exporter.raw_records(journal, journal.resolve("s")))
    assert b"".join(raw for _, raw in found) == REWOUND


@pytest.mark.parametrize("remembers", [True, False])
def test_importing_a_rewound_source_again_adds_nothing_and_growth_goes_where_it_ends(
    journal: Journal, source: Path, remembers: bool
) -> None:
    take(journal, source, REWOUND)
    before = refs(journal)
    for _ in range(2):
        if not remembers:
            forget(journal)
        report = take(journal, source, REWOUND)
        assert (report.added, report.skipped_known, report.branch) == (0, 7, "rewind-2")
        assert refs(journal) == before
    if not remembers:
        forget(journal)
    grown = REWOUND + said(8) + said(9, after=2) + said(10, after=0)
    report = take(journal, source, grown)
    assert (report.added, report.rewinds) == (3, 2)
    assert words(journal, "s/rewind-2") == ["1", "4", "6", "7", "8"]
    assert words(journal, "s/rewind-3") == ["1", "2", "9"]
    assert words(journal, "s/rewind-4") == ["10"]
    assert exported(journal, "s") == grown
    before = refs(journal)
    forget(journal)
    assert take(journal, source, grown).added == 0 and refs(journal) == before


def test_a_rewound_source_is_the_same_in_any_number_of_steps(tmp_path: Path) -> None:
    lines = (REWOUND + said(8) + aside() + said(9, after=3) + said(10)).splitlines(keepends=True)
    heads = []
    for name, steps in (("a", [len(lines)]), ("b", [3, 4, len(lines)]), ("c", range(1, len(lines) + 1))):
        journal = gitjournal.init(tmp_path / name)
        for step in steps:
            take(journal, tmp_path / "t.jsonl", b"".join(lines[:step]))
        heads.append({ref: oid for ref, oid in refs(journal).items() if not ref.startswith("journal/")})
    assert heads[0] == heads[1] == heads[2]


def test_a_rewind_that_makes_no_sense_is_none(journal: Journal, source: Path) -> None:
    content = said(1, after=0) + said(2, after=1) + said(3, after=9) + said(4, after=-1) + said(5, after=5)
    assert take(journal, source, content).rewinds == 0
    assert branches(journal) == ["main"] and exported(journal, "s") == content


def test_a_changed_source_with_rewinds_is_a_generation_with_rewinds_of_its_own(journal: Journal, source: Path) -> None:
    take(journal, source, REWOUND)
    changed = REWOUND.replace(b"words 5", b"other 5") + said(8, after=5)
    report = take(journal, source, changed)
    assert (report.skipped_known, report.added, report.branch) == (4, 4, "import-2.rewind-2")
    assert branches(journal) == ["import-2", "import-2.rewind-1", "import-2.rewind-2", "main", "rewind-1", "rewind-2"]
    assert exported(journal, "s") == REWOUND
    assert exported(journal, "s/import-2") == changed
    before = refs(journal)
    for content in (REWOUND, changed):
        for _ in range(2):
            assert take(journal, source, content).added == 0
            forget(journal)
    assert refs(journal) == before


def test_a_rewind_where_the_source_differs(journal: Journal, source: Path) -> None:
    take(journal, source, said(1) + said(2) + said(3))
    changed = said(1) + said(2) + said(4, after=1) + said(5)
    assert take(journal, source, changed).branch == "import-2"
    assert words(journal, "s/import-2") == ["1", "4", "5"]
    assert exported(journal, "s/import-2") == changed
    forget(journal)
    assert take(journal, source, changed).added == 0
    assert exported(journal, "s") == said(1) + said(2) + said(3)


def test_records_whose_branch_is_gone_are_missed(journal: Journal, source: Path) -> None:
    from gitjournal.branches import delete

    take(journal, source, REWOUND)
    delete(journal, "s/rewind-1", force=True)
    with pytest.raises(UsageError, match="lacks records 4 to 5"):
        exported(journal, "s")
    report = take(journal, source, REWOUND)
    assert report.branch.startswith("import-2") and exported(journal, "s/import-2") == REWOUND


def test_a_rewound_session_that_went_on_live(journal: Journal, source: Path) -> None:
    take(journal, source, REWOUND)
    with journal.session("s") as session:
        session.user("live")
    assert take(journal, source, REWOUND).added == 0
    # What is said on the trunk is not where the source ends.
    assert take(journal, source, REWOUND + said(8)).branch == "rewind-2"
    with pytest.raises(UsageError, match="1 events"):
        exported(journal, "s")
    with journal.session("s/rewind-2") as session:
        session.user("live")
    assert take(journal, source, REWOUND + said(8) + said(9)).branch == "import-2"


def test_a_turn_is_that_of_the_item(journal: Journal, source: Path) -> None:
    take(journal, source, said(1, turn="t1"))
    assert [event.turn for event in journal.events("s")] == [None, "t1"]


# --- copies --------------------------------------------------------------------------------------

PARENT = aside(session="p", mode="x") + b"".join(said(n, session="p") for n in range(1, 6))


def copied(upto: int = 4, *more: bytes) -> bytes:
    """A source that begins with a copy of the parent's history, with its own session id in each record."""
    history = [said(n, copy_of="p", stamp=n) for n in range(1, upto + 1)]
    return b"".join([*history, *more])


def test_a_copied_history_is_a_fork_and_not_there_twice(journal: Journal, source: Path) -> None:
    take(journal, source, PARENT)
    content = copied(4, said(7), said(8))
    report = take(journal, source, content)
    assert (report.session, report.added, report.copied) == ("s", 2, 4)
    assert any("copy of p" in note for note in report.notes)
    kinds = [event.type for event in journal.events("s")]
    assert kinds == ["session.start", "native", *["message"] * 4, "session.fork", "native", "message", "message"]
    assert words(journal, "s") == ["1", "2", "3", "4", "7", "8"]
    assert exported(journal, "s") == content
    assert exported(journal, "p") == PARENT
    (held,) = [event for event in journal.events("s") if is_copied(event)]
    assert held.data["records"] == 4 and held.data["start"] == {"project": "/p"}
    assert held.files[0]["size"] < len(copied(4)) * 0.6
    assert fold(journal.events("s")).turns["user"] == 6


def test_importing_a_copy_again_and_its_growth(journal: Journal, source: Path) -> None:
    take(journal, source, PARENT)
    content = copied(4, said(7))
    take(journal, source, content)
    before = refs(journal)
    for _ in range(2):
        report = take(journal, source, content)
        assert (report.added, report.branch) == (0, "main") and refs(journal) == before
        forget(journal)
    grown = content + said(8) + said(9, after=6) + said(10, after=5)
    assert take(journal, source, grown).added == 3
    assert words(journal, "s/rewind-1") == ["1", "2", "3", "4", "7", "10"]
    assert exported(journal, "s") == grown
    forget(journal)
    assert take(journal, source, grown).added == 0


def test_a_rewind_into_the_copied_part_has_no_branch_to_begin_on(journal: Journal, source: Path) -> None:
    take(journal, source, PARENT)
    content = copied(4, said(7), said(8, after=2))
    assert take(journal, source, content).rewinds == 0
    assert exported(journal, "s") == content


def test_a_copy_that_is_all_there_is(journal: Journal, source: Path) -> None:
    take(journal, source, PARENT)
    assert take(journal, source, copied(3)).copied == 3
    assert exported(journal, "s") == copied(3)
    assert take(journal, source, copied(3) + said(7)).added == 1
    assert take(journal, source, copied(2)).added == 0


def test_a_copy_whose_session_is_not_here_is_imported_whole(journal: Journal, source: Path) -> None:
    report = take(journal, source, copied(2, said(7)))
    assert (report.added, report.copied) == (3, 0) and any("not in the journal" in note for note in report.notes)
    take(journal, source, PARENT)
    assert take(journal, source, copied(2, said(7))).added == 0


def test_records_of_its_own_may_stand_in_a_copy_and_asides_be_left_out(journal: Journal, source: Path) -> None:
    parent = said(1, session="p") + aside(session="p") + aside(session="p", x=1) + said(2, session="p")
    take(journal, source, parent)
    content = aside(copy_of="p") + said(1) + aside(own=1) + said(2) + aside(own=2) + said(3)
    report = take(journal, source, content)
    assert (report.copied, report.added) == (4, 2)
    assert words(journal, "s") == ["1", "2", "3"]
    assert exported(journal, "s") == content
    forget(journal)
    assert take(journal, source, content).added == 0


def test_what_was_said_is_never_left_out_of_a_copy(journal: Journal, source: Path) -> None:
    take(journal, source, PARENT)
    content = said(1, copy_of="p") + said(3, copy_of="p") + said(4)
    report = take(journal, source, content)
    # The third is not the second: the copy ends before it.
    assert (report.copied, report.added) == (1, 2)
    assert words(journal, "s") == ["1", "3", "4"] and exported(journal, "s") == content


def test_a_copy_that_says_nothing_is_none(journal: Journal, source: Path) -> None:
    take(journal, source, aside(session="p", id=1) + said(1, session="p"))
    content = aside(id=1, copy_of="p") + said(9)
    assert take(journal, source, content).copied == 0
    assert exported(journal, "s") == content and words(journal, "s") == ["9"]


def test_a_copy_of_a_copy(journal: Journal, source: Path) -> None:
    take(journal, source, PARENT)
    second = copied(4, said(7), said(8))
    take(journal, source, second)
    third = second.replace(b'"s"', b'"t"').replace(b'"p"', b'"s"') + said(9, session="t")
    report = take(journal, source, third)
    assert (report.session, report.copied, report.added) == ("t", 6, 1)
    assert words(journal, "t") == ["1", "2", "3", "4", "7", "8", "9"]
    for name, content in (("p", PARENT), ("s", second), ("t", third)):
        assert exported(journal, name) == content
        forget(journal)
        assert take(journal, source, content).added == 0


def test_a_copy_of_a_line_that_was_rewound(journal: Journal, source: Path) -> None:
    parent = b"".join([said(1, session="p"), said(2, session="p"), said(3, session="p", after=1)])
    take(journal, source, parent)
    content = said(1, copy_of="p") + said(3) + said(4)
    assert take(journal, source, content).copied == 2
    assert words(journal, "s") == ["1", "3", "4"] and exported(journal, "s") == content


def test_a_copied_part_that_changes_is_a_generation(journal: Journal, source: Path) -> None:
    take(journal, source, PARENT)
    content = copied(4, said(7))
    take(journal, source, content)
    changed = content.replace(b'"stamp": 3', b'"stamp": 33')
    report = take(journal, source, changed)
    assert (report.branch, report.added) == ("import-2", 5)
    assert exported(journal, "s/import-2") == changed and exported(journal, "s") == content
    forget(journal)
    assert take(journal, source, changed).added == 0


def test_the_session_that_was_copied_can_be_deleted(journal: Journal, source: Path) -> None:
    from gitjournal.delete import delete

    take(journal, source, PARENT)
    content = copied(4, said(7))
    take(journal, source, content)
    delete(journal, "p")
    assert exported(journal, "s") == content


def test_a_dry_run_of_a_copy_and_of_rewinds_writes_nothing(journal: Journal, source: Path) -> None:
    take(journal, source, PARENT)
    before = refs(journal)
    report = take(journal, source, copied(4, said(7), said(8), said(9, after=5)), dry_run=True)
    assert (report.added, report.copied, report.rewinds) == (3, 4, 1) and refs(journal) == before


class Rows(Tape):
    """The same, cut otherwise: its records are no lines."""

    name = "tape"

    def cut(self, stream: Any) -> Iterator[Record]:
        offset = 0
        for number, piece in enumerate(stream.read().split(b"\n")[:-1], 1):
            yield Record(number, offset, piece, json.loads(piece), "", False, True, b"\n")
            offset += len(piece) + 1


def test_a_copy_of_a_source_that_is_no_lines(journal: Journal, source: Path) -> None:
    take(journal, source, PARENT, Rows())
    content = copied(4, said(7))
    assert take(journal, source, content, Rows()).copied == 4
    forget(journal)
    assert take(journal, source, content, Rows()).added == 0
    assert take(journal, source, content + said(8), Rows()).added == 1
    assert exported(journal, "s") == content + said(8)


PIECES = st.lists(st.sampled_from([b'"', b'{"a":"', b"words", b"sessionId", b"\xff", b"x" * 30, b","]), max_size=12)


@given(st.lists(st.tuples(PIECES.map(b"".join), PIECES.map(b"".join)), max_size=6), st.data())
@settings(max_examples=300, deadline=None)
def test_any_patch_gives_the_bytes_back(pairs: list[tuple[bytes, bytes]], data: st.DataObject) -> None:
    patch, at = patches.Patch(), 0
    for ours, theirs in pairs:
        likeness.describe(patch, ours, theirs, at)
        at += len(theirs)
    made = patch.whole()
    base = [theirs for _, theirs in pairs]
    assert b"".join(patches.patched(made, iter(base))) == b"".join(ours for ours, _ in pairs)
    damaged = bytearray(made)
    if damaged:
        damaged[data.draw(st.integers(0, len(damaged) - 1))] ^= data.draw(st.integers(1, 255))
        try:
            b"".join(patches.patched(bytes(damaged), iter(base)))
        except FormatError as error:
            assert error.code == "bad-file"


# --- growth --------------------------------------------------------------------------------------


def test_a_grown_source_is_not_mapped_again(journal: Journal, source: Path) -> None:
    fmt = Tape()
    content = b"".join(said(n) for n in range(50))
    take(journal, source, content, fmt)
    assert fmt.mapped == 50
    assert take(journal, source, content, fmt).skipped_known == 50
    assert fmt.mapped == 50
    report = take(journal, source, content + said(50) + said(51, after=3), fmt)
    assert (fmt.mapped, report.added, report.records) == (52, 2, 52)
    # It goes on as if it had seen the records before.
    assert [*journal.events("s/rewind-1")][-1].data["n"] == 52


_NO_NOTES = (b"", b"{}", b"[1]", b'{"gitjournal":1}', b"\xff", b"[" * 5000)


@pytest.mark.parametrize(
    "damage", [*_NO_NOTES, *map(compress, _NO_NOTES), compress(b" " * 9_000_000), compress(b"{}")[:-5]]
)
def test_what_is_noted_of_an_import_is_only_a_hint(journal: Journal, source: Path, damage: bytes) -> None:
    content = said(1) + said(2)
    take(journal, source, content)
    (note,) = (journal.path / "gitjournal" / "index").rglob("*.import")
    note.write_bytes(damage)
    report = take(journal, source, content + said(3))
    assert (report.added, report.branch) == (1, "main")
    assert exported(journal, "s") == content + said(3)


def test_a_note_of_a_mapper_that_is_damaged_is_thrown_away(journal: Journal, source: Path) -> None:
    content = said(1) + said(2)
    take(journal, source, content)
    (note,) = (journal.path / "gitjournal" / "index").rglob("*.import")
    for number, wrong in enumerate(([], {}, {"count": "x"}, None), 3):
        told = json.loads(decompress(note.read_bytes()))
        note.write_bytes(compress(json.dumps({**told, "mapper": wrong}).encode()))
        content += said(number)
        report = take(journal, source, content)
        assert (report.added, report.branch) == (1, "main")
    assert exported(journal, "s") == content


def test_a_note_of_an_import_is_not_believed_when_the_source_or_the_branch_is_another(
    journal: Journal, source: Path
) -> None:
    content = said(1) + said(2)
    take(journal, source, content)
    assert take(journal, source, said(1) + said(9) + said(3)).branch == "import-2"
    with journal.session("s") as session:
        session.user("live")
    assert take(journal, source, content).added == 0
    assert take(journal, source, content + said(3)).branch == "import-3"


@given(
    st.lists(st.tuples(st.sampled_from(["say", "aside", "torn"]), st.none() | st.integers(0, 8)), max_size=9),
    st.lists(st.integers(0, 400), max_size=3),
    st.booleans(),
)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_source_with_rewinds_in_any_steps(
    tmp_path_factory: pytest.TempPathFactory, plan: list[tuple[str, int | None]], cuts: list[int], remembers: bool
) -> None:
    folder = tmp_path_factory.mktemp("any")
    journal, path = gitjournal.init(folder / "j"), folder / "t.jsonl"
    lines = [said(0)]
    for n, (kind, after) in enumerate(plan, 1):
        lines.append({"say": said(n, after=after), "aside": aside(n=n), "torn": b'{"id": \n'}[kind])
    content = b"".join(lines)
    for end in [*sorted(min(cut, len(content)) for cut in cuts), len(content), len(content)]:
        take(journal, path, content[:end], session="s")
        if not remembers:
            forget(journal)
        if end:
            names = [name for name in journal.branches("s") if "rewind" not in name.branch]
            assert any(exported(journal, str(name)) == content[:end] for name in names)
