"""Files that are small on the disk and large in memory: kept byte for byte, and not looked into."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path

import pytest

from gitjournal import foreign, formats
from gitjournal.formats import document, records
from gitjournal.journal import Journal
from gitjournal.refs import Name

EMPTY = "[]," * (foreign.MAX_VALUES // 2)


def exported(journal: Journal, name: str, fmt: str) -> bytes:
    out = io.BytesIO()
    formats.export(journal, Name(name), fmt, out, None)
    return out.getvalue()


def test_a_line_of_too_many_values_is_kept_and_not_read(journal: Journal, tmp_path: Path) -> None:
    source = tmp_path / "s.jsonl"
    source.write_text(f'{{"type": "a"}}\n{{"type": "b", "x": [{EMPTY}0]}}\n{{"type": "c"}}\n')
    report = formats.import_file(journal, source, format="records")
    assert [e.data["type"] for e in journal.events("s") if e.seq > 1] == ["a", "unparsable", "c"]
    assert report.odd["unparsable"] == 1
    assert exported(journal, "s", "records") == source.read_bytes()


def test_text_with_many_commas_is_one_value(tmp_path: Path) -> None:
    line = json.dumps({"a": "[,{" * foreign.MAX_VALUES, "b": '\\",'}) + "\n"
    (found,) = records.records(io.BytesIO(line.encode()))
    assert found.is_json and found.value["b"] == '\\",'


@pytest.mark.parametrize(
    ("text", "values"),
    [("1, 2", 1), ('"a, b"', 0), ("[]", 1), ("[1, 2]", 2), ('{"a": [1, "],"], "b": {}}[]', 5), ('["a', 1), ("", 0)],
)
def test_values_are_counted_to_the_end_of_one(text: str, values: int) -> None:
    assert foreign.count(text, 0) == values


@pytest.mark.parametrize("inside", ['{"messages": [%s 0]}', '{"messages": [{"x": [%s 0]}]}', '{"x": [%s 0]}'])
def test_a_document_of_too_many_values_is_taken_as_lines(inside: str) -> None:
    opened = frozenset({("messages",)})
    assert document.document((inside % "0,").encode(), opened) is not None
    assert document.document((inside % EMPTY).encode(), opened) is None


def test_a_document_that_is_too_wide_in_memory_is_taken_as_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    class Messages(document.DocumentFormat):
        opened = frozenset({("messages",)})

        sniff = about = read = None  # type: ignore[assignment]

    monkeypatch.setattr(document, "_MAX_WIDE", 64)
    monkeypatch.setattr(document, "MAX_DOCUMENT", 128)
    for text, pieces in (("a" * 60, 3), ("é" * 40, 3), ("😀" * 20, 1), ("a" * 128, 1)):
        raw = json.dumps({"messages": [text]}, ensure_ascii=False).encode()
        found = list(Messages.cut(Messages.__new__(Messages), io.BytesIO(raw)))
        assert (len(found), b"".join(one.raw + one.after for one in found)) == (pieces, raw)


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the peak of a process is known on Linux only")
@pytest.mark.parametrize("name", ["line.jsonl", "document.json", "wide.jsonl"])
def test_no_file_needs_more_memory_than_is_said(tmp_path: Path, name: str) -> None:
    many = "[]," * (5 * 1024 * 1024)
    content = {
        "line.jsonl": f'{{"type": "user", "sessionId": "s", "toolUseResult": [{many}0]}}\n',
        "document.json": f'{{"schema_version": "ATIF-v1.4", "session_id": "s", "agent": {{}}, "steps": [{many}0]}}',
        "wide.jsonl": json.dumps({"type": "user", "text": "😀" + "word " * 3_000_000}, ensure_ascii=False) + "\n",
    }[name]
    (tmp_path / name).write_text(content, encoding="utf-8")
    # Not getrusage: that begins with what the process had that started this one.
    program = (
        "import gitjournal, re, sys; from gitjournal import formats;"
        "formats.import_file(gitjournal.init(sys.argv[1]), sys.argv[2]);"
        "print(re.search(r'VmHWM:\\s*(\\d+) kB', open('/proc/self/status').read())[1])"
    )
    given = [sys.executable, "-c", program, str(tmp_path / "j.git"), str(tmp_path / name)]
    used = int(subprocess.run(given, capture_output=True, check=True, text=True, timeout=300).stdout)
    assert used * 1024 < 300_000_000
