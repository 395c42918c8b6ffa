"""Inspect: archives of any compression and as one document; samples, attachments, and archives that are traps."""

from __future__ import annotations

import io
import json
import struct
import zipfile
import zlib
from pathlib import Path
from typing import Any

import pytest
import zstandard
from hypothesis import given, settings
from imported import JUNK, NOWHERE, Json, changed, documents, folded, places, stored, texts

from gitjournal import Journal, fold
from gitjournal.errors import ImportRefused, UsageError
from gitjournal.formats import detect, export, import_file, inspect_eval, records, zipped
from gitjournal.formats.inspect_eval import InspectEval
from gitjournal.formats.protocol import Item, Source
from gitjournal.formats.report import ImportReport

INSPECT = InspectEval()
HEADER: Json = {
    "version": 2, "status": "success", "eval": {"eval_id": "ev1", "task": "arithmetic", "model": "openai/m"},
    "plan": {}, "results": {"total_samples": 1},
}  # fmt: skip
PIXEL = "data:image/png;base64,AQI="
USAGE = {
    "input_tokens": 20,
    "output_tokens": 9,
    "total_tokens": 109,
    "input_tokens_cache_read": 80,
    "reasoning_tokens": 2,
}
SAMPLE: Json = {
    "id": 7, "epoch": 1, "input": "How many?", "uuid": "u-7", "target": "2",
    "messages": [
        {"id": "m1", "role": "system", "content": "Count."},
        {"id": "m2", "role": "user", "source": "input", "content": [
            {"type": "text", "text": "attachment://0123abcd"}, {"type": "image", "image": "attachment://00ff"}]},
        {"id": "m3", "role": "assistant", "model": "m-1", "content": [
            {"type": "reasoning", "reasoning": "One, two.", "signature": "s"}, {"type": "text", "text": "I count."}],
         "tool_calls": [{"id": "c1", "function": "count", "type": "function", "arguments": {"of": "x"}}]},
        {"id": "m4", "role": "tool", "tool_call_id": "c1", "function": "count", "content": "2"},
        {"id": "m5", "role": "assistant", "content": "Two."},
        {"id": "m6", "role": "tool", "tool_call_id": "c9", "content": "",
         "error": {"type": "timeout", "message": "late"}},
    ],
    "events": [
        {"event": "model", "uuid": "e1", "timestamp": "2026-01-02T03:04:05+00:00", "model": "openai/m",
         "output": {"model": "m-1", "choices": [{"message": {"id": "m3"}}], "usage": USAGE}},
        {"event": "score", "uuid": "e2", "timestamp": "2026-01-02T03:04:06+00:00", "score": {"value": "C"}},
        {"event": "error", "uuid": "e3", "error": {"message": "sandbox gone"}},
    ],
    "model_usage": {"openai/m": {"input_tokens": 20, "output_tokens": 9, "total_tokens": 109}},
    "attachments": {"0123abcd": "How many are there?", "00ff": PIXEL},
}  # fmt: skip


def archive(path: Path, *samples: Json, method: int = zipfile.ZIP_DEFLATED, **members: bytes) -> Path:
    names = {"_journal/start.json": json.dumps({"version": 2, "eval": HEADER["eval"]}).encode()}
    names |= {f"samples/{one['id']}_epoch_{one['epoch']}.json": json.dumps(one).encode() for one in samples}
    names |= {"header.json": json.dumps(HEADER).encode(), **{k.replace("__", "/"): v for k, v in members.items()}}
    with zipfile.ZipFile(path, "w", method) as made:
        for name, content in names.items():
            made.writestr(name, content)
    return path


def zstd_archive(path: Path, names: dict[str, bytes], crc: int | None = None) -> Path:
    """A ZIP archive whose members are compressed with Zstandard (method 93), put together by hand."""
    out, directory = b"", b""
    for name, content in names.items():
        packed = zstandard.ZstdCompressor().compress(content)
        check = zlib.crc32(content) if crc is None else crc
        fields = struct.pack("<5H3I2H", 63, 0, 93, 0, 0x21, check, len(packed), len(content), len(name), 0)
        local = b"PK\x03\x04" + fields + name.encode()
        entry = (
            b"PK\x01\x02" + struct.pack("<H", 63) + fields + struct.pack("<HHHII", 0, 0, 0, 0, len(out)) + name.encode()
        )
        out, directory = out + local + packed, directory + entry
    count = len(names)
    end = b"PK\x05\x06" + struct.pack("<4H2IH", 0, 0, count, count, len(directory), len(out), 0)
    path.write_bytes(out + directory + end)
    return path


def items_of(path: Path) -> dict[str, list[Item]]:
    made = {}
    for strand in INSPECT.strands(Source(path)):
        found = list(strand.read(strand.records(), ImportReport("x", "inspect")))
        stored(found)
        made[strand.about.session or ""] = found
    return made


def sample(**more: Any) -> list[Item]:
    """The events of the one sample of a document."""
    found = list(INSPECT.strands(_document({**SAMPLE, **more})))
    return list(found[1].read(found[1].records(), ImportReport("x", "inspect")))


def _document(*samples: Json) -> Source:
    class Memory(Source):
        def open(self) -> Any:
            return io.BytesIO(json.dumps({**HEADER, "samples": list(samples)}).encode())

    return Memory(Path("log.json"))


@pytest.mark.parametrize("kind", ["deflate", "stored", "zstd", "document"])
def test_a_log_in_each_form(journal: Journal, tmp_path: Path, kind: str) -> None:
    path = tmp_path / ("log.json" if kind == "document" else "log.eval")
    if kind == "document":
        path.write_text(json.dumps({**HEADER, "samples": [SAMPLE]}, indent=2))
    elif kind == "zstd":
        names = {"header.json": json.dumps(HEADER).encode(), "samples/7_epoch_1.json": json.dumps(SAMPLE).encode()}
        zstd_archive(path, names)
    else:
        archive(path, SAMPLE, method=zipfile.ZIP_STORED if kind == "stored" else zipfile.ZIP_DEFLATED)
    found = detect(Source(path))
    assert found is not None and found.name == "inspect"
    report = import_file(journal, path)
    assert [report.session, *(one.session for one in report.others)] == ["ev1", "u-7"]
    inexact = {} if kind == "document" else {"exact": False}
    assert journal.event("ev1", 1).data == {"source": "inspect", "title": "arithmetic", **inexact}
    assert journal.event("u-7", 1).data == {
        "source": "inspect", "parent": {"session": "ev1"}, "title": "arithmetic: 7, epoch 1", "exact": False,
    }  # fmt: skip
    state = fold(journal.events("u-7"))
    assert texts(state.history) == ["Count.", "How many are there?", "I count.", "Two."]
    assert state.turns == {"user": 1, "model": 2} and (state.tool_calls, state.unmatched_results) == (1, 1)
    assert list(state.usage.values()) == [100, 9, 80, 0, 2] and [one["message"] for one in state.errors] == [
        "sandbox gone"
    ]
    again = import_file(journal, path)
    assert [again.added, *(one.added for one in again.others)] == [0, 0]
    records_of = (event for event in journal.events("u-7", after=1))
    pieces = [event.read_file(1) + str(event.stored_data.get("after", "")).encode() for event in records_of]
    assert json.loads(b"".join(pieces)) == SAMPLE
    with pytest.raises(UsageError):
        export(journal, "u-7", "inspect", io.BytesIO())
    if kind == "document":
        with (tmp_path / "out").open("wb") as out:
            export(journal, "ev1", "inspect", out)
        assert (tmp_path / "out").read_bytes() == path.read_bytes()


def test_a_sample_piece_by_piece() -> None:
    items = sample()
    assert [item.type for item in items] == [
        "native", "message", "message", "model.response", "tool.result", "model.response", "tool.result",
        "native", "model.response", "native", "error", "native",
    ]  # fmt: skip
    assert items[2].data["parts"][1] == {
        "type": "blob", "modality": "image", "mime_type": "image/png", "content": "AQI=",
    }  # fmt: skip
    assert items[3].data["parts"] == [
        {"type": "reasoning", "content": "One, two."}, {"type": "text", "content": "I count."},
        {"type": "tool_call", "id": "c1", "name": "count", "arguments": {"of": "x"}},
    ]  # fmt: skip
    # Said when the event says that the model said it.
    assert items[3].ts == items[8].ts == "2026-01-02T03:04:05.000Z"
    assert items[3].data["response.id"] == items[8].data["response.id"] == "m3"
    assert items[6].data["parts"] == [
        {"type": "tool_call_response", "id": "c9", "response": "late", "is_error": True},
    ]  # fmt: skip
    assert items[9].data["type"] == "event/score" and items[4].actor == "tool:count"


def test_a_sample_begins_when_it_was_started_and_an_evaluation_when_it_was_created() -> None:
    assert sample(started_at="2026-01-02T03:00:00+00:00")[0].ts == "2026-01-02T03:00:00.000Z"
    created = {**HEADER, "eval": {**HEADER["eval"], "created": "2026-01-01T00:00:00Z"}}
    items = list(INSPECT.read(INSPECT.cut(io.BytesIO(json.dumps(created).encode())), ImportReport("x", "i"), NOWHERE))
    assert items[0].ts == "2026-01-01T00:00:00.000Z"
    assert sample(started_at=[])[0].ts is None


def test_what_a_sample_used_counts_once_also_without_events() -> None:
    two = {"a": {"input_tokens": 5, "output_tokens": 1, "total_tokens": 6}, "b": USAGE}
    assert list(folded(sample(events=[], model_usage=two)).usage.values()) == [105, 10, 80, 0, 2]
    assert list(folded(sample(model_usage=two)).usage.values()) == [100, 9, 80, 0, 2]


@pytest.mark.parametrize(
    ("spent", "expected"),
    [
        (
            {"input_tokens": 100, "output_tokens": 5, "total_tokens": 105, "input_tokens_cache_read": 80},
            [100, 5, 80, 0],
        ),
        ({"input_tokens": 20, "output_tokens": 5, "total_tokens": 105, "input_tokens_cache_read": 80}, [100, 5, 80, 0]),
        ({"input_tokens": 20, "output_tokens": 5, "input_tokens_cache_write": 7}, [27, 5, 0, 7]),
        ({"output_tokens": 5}, [0, 5, 0, 0]),
        ({"input_tokens": "x", "output_tokens": None}, [0, 0, 0, 0]),
    ],
    ids=["cache within the input", "cache beside it", "no total", "output only", "no numbers"],
)
def test_input_with_and_without_the_cache(spent: Json, expected: list[int]) -> None:
    state = folded(sample(events=[], model_usage={"m": spent}))
    assert list(state.usage.values())[:4] == expected


def test_samples_without_an_id_of_their_own_are_named_by_the_evaluation(tmp_path: Path) -> None:
    bare = {"id": "a/b", "epoch": 2, "messages": []}
    assert [*items_of(archive(tmp_path / "a.eval", bare | {"id": "q"}))] == ["ev1", "ev1.q.2"]
    (tmp_path / "log.json").write_text(json.dumps({**HEADER, "samples": [bare, 5, None]}))
    assert [*items_of(tmp_path / "log.json")] == ["ev1", "ev1.a/b.2"]


def test_what_stands_twice_in_an_archive_counts_as_it_stands_last(tmp_path: Path) -> None:
    path = archive(tmp_path / "a.eval", SAMPLE)
    with zipfile.ZipFile(path, "a") as made, pytest.warns(UserWarning, match="Duplicate name"):
        made.writestr("header.json", json.dumps({**HEADER, "eval": {"eval_id": "ev2", "task": "t"}}))
    assert [*items_of(path)] == ["ev2", "u-7"]


def test_the_report_says_what_stands_behind_another_of_its_name(journal: Journal, tmp_path: Path) -> None:
    path = archive(tmp_path / "a.eval", SAMPLE)
    hidden = "members with the name of a later one, left out: 1"
    assert hidden not in import_file(journal, path, dry_run=True).notes
    with zipfile.ZipFile(path, "a") as made, pytest.warns(UserWarning, match="Duplicate name"):
        made.writestr("header.json", json.dumps(HEADER))
    assert hidden in import_file(journal, path).notes


# --- archives that are traps -----------------------------------------------------------------------


def test_an_archive_without_its_directory_is_refused_with_a_reason(journal: Journal, tmp_path: Path) -> None:
    path = archive(tmp_path / "a.eval", SAMPLE)
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(ImportRefused, match="its program was stopped"):
        import_file(journal, path)
    assert not list(journal.sessions())


@pytest.mark.parametrize("kind", ["deflate", "zstd"])
def test_a_bomb_is_refused(journal: Journal, tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zipped, "MAX_MEMBER", 1 << 20)
    bomb = b" " * (5 << 20)
    path = tmp_path / "a.eval"
    if kind == "zstd":
        zstd_archive(path, {"header.json": json.dumps(HEADER).encode(), "samples/1_epoch_1.json": bomb})
    else:
        archive(path, samples__1_epoch_1_json=bomb, **{"samples__1.json": bomb})
    assert path.stat().st_size < 20_000
    with pytest.raises(ImportRefused, match="unpacks to more than 1 MiB"):
        import_file(journal, path)


def test_a_sample_that_is_too_long_is_kept_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inspect_eval, "MAX_DOCUMENT", 3000)
    monkeypatch.setattr(records, "MAX_RECORD", 1000)
    long = {**SAMPLE, "messages": [{"role": "user", "content": "x" * 4000}]}
    for path in (
        archive(tmp_path / "a.eval", long),
        zstd_archive(tmp_path / "b.eval", {"samples/7_epoch_1.json": json.dumps(long).encode()}),
    ):
        made = items_of(path)
        (name,) = [name for name in made if name.endswith("7_epoch_1")]
        assert b"".join(item.record.raw for item in made[name]) == json.dumps(long).encode()
        assert {item.data["type"] for item in made[name]} == {"oversized"}


def test_an_archive_of_too_many_members_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zipped, "MAX_MEMBERS", 2)
    with pytest.raises(ImportRefused, match="more than 2 members"):
        items_of(archive(tmp_path / "a.eval", SAMPLE))


@pytest.mark.parametrize("large", [False, True])
def test_a_directory_that_is_larger_than_memory_should_be_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, large: bool
) -> None:
    if large:
        # From so many members on, the true numbers are in a record of their own.
        monkeypatch.setattr(zipfile, "ZIP_FILECOUNT_LIMIT", 1)
    path = archive(tmp_path / "a.eval", SAMPLE)
    assert (b"PK\x06\x06" in path.read_bytes()) == large and items_of(path)
    monkeypatch.setattr(zipped, "_MAX_DIRECTORY", 100)
    monkeypatch.setattr(zipfile.ZipFile, "infolist", None)
    with pytest.raises(ImportRefused, match="its directory is over"):
        items_of(path)
    with zipfile.ZipFile(path, "a") as made:
        made.comment = b"a comment"
    with pytest.raises(ImportRefused, match="its directory is over"):
        items_of(path)


def test_an_archive_whose_members_together_fill_a_disk_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = archive(tmp_path / "a.eval", **{f"samples__{n}.json": b" " * 100_000 for n in range(10)})
    assert items_of(path)
    monkeypatch.setattr(zipped, "_MAX_TOTAL", 1000)
    with pytest.raises(ImportRefused, match="more than can be meant by"):
        items_of(path)


def test_a_member_of_more_than_the_directory_says_is_refused(tmp_path: Path) -> None:
    path = zstd_archive(tmp_path / "a.eval", {"header.json": json.dumps(HEADER).encode()})
    size = len(json.dumps(HEADER))
    path.write_bytes(path.read_bytes().replace(struct.pack("<I", size), struct.pack("<I", size - 1)))
    with pytest.raises(ImportRefused, match="more than the directory says"):
        items_of(path)


def test_a_member_with_a_wrong_checksum_or_an_unknown_compression_is_refused(tmp_path: Path) -> None:
    names = {"header.json": json.dumps(HEADER).encode()}
    with pytest.raises(ImportRefused, match="checksum"):
        items_of(zstd_archive(tmp_path / "a.eval", names, crc=1))
    path = zstd_archive(tmp_path / "b.eval", names)
    path.write_bytes(path.read_bytes().replace(struct.pack("<HHHH", 63, 0, 93, 0), struct.pack("<HHHH", 63, 0, 97, 0)))
    with pytest.raises(ImportRefused, match="cannot be unpacked"):
        items_of(path)


def test_names_in_an_archive_are_never_paths(journal: Journal, tmp_path: Path) -> None:
    archive(tmp_path / "a.eval", SAMPLE, **{"..__..__evil.json": b"{}", "samples__..__x.json": b'{"messages": []}'})
    import_file(journal, tmp_path / "a.eval")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.eval", "journal"]


@given(documents(SAMPLE))
@settings(max_examples=150, deadline=None)
def test_any_sample_is_mapped(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    path = archive(tmp_path_factory.mktemp("any") / "a.eval", samples__7_epoch_1=b"", **{"samples__7.json": content})
    for strand in INSPECT.strands(Source(path)):
        records = list(strand.records())
        stored(list(strand.read(iter(records), ImportReport("x", "inspect"))))
    assert b"".join(record.raw + record.after for record in records) == content


@pytest.mark.parametrize("junk", JUNK, ids=repr)
def test_members_of_any_shape(tmp_path: Path, junk: Any) -> None:
    whole = {**HEADER, "samples": [SAMPLE]}
    path = tmp_path / "log.json"
    for place in places(whole):
        path.write_text(json.dumps(changed(whole, place, junk)))
        items_of(path)
