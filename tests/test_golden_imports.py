"""Counts that were written down by hand from the sources, before an importer saw them; and that no sample is without.

``golden/ours`` has small sources of our own making for the formats of which the corpus has none. A source that is a
database is there as SQL.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
from pathlib import Path

import pytest
from imported import Json, given_back, told_of
from support import CORPUS, ROOT

import gitjournal
from gitjournal import fold
from gitjournal.formats import detect, formats, import_file
from gitjournal.formats.protocol import Source

GOLDEN = ROOT / "tests" / "golden"
OURS: dict[str, Json] = json.loads((GOLDEN / "import-ours.json").read_text(encoding="utf-8"))
#: Samples that are no session, and that no format takes for one.
NO_SESSION = {"synthetic/gitjournal__empty.jsonl", "odd/agent-receipts-ar__canonicalization_vectors.json"}
#: All of its ids, sources and texts are one word, so that it has no counts; `test_format_atif` says what is there.
REDACTED = {"atif/Sinity-polylogue__nemo_relay_atif_v1.7_real_redacted.json"}


def placed(name: str, folder: Path) -> Path:
    """The source in a folder of its own; a database made of its SQL."""
    if not name.endswith(".sql"):
        return Path(shutil.copy(GOLDEN / "ours" / name, folder))
    path = folder / name.replace(".sql", ".sqlite")
    connection = sqlite3.connect(path)
    connection.executescript((GOLDEN / "ours" / name).read_text(encoding="utf-8"))
    connection.close()
    return path


@pytest.mark.parametrize("name", sorted(OURS))
def test_a_small_source_has_the_counts_that_stand_in_it(tmp_path: Path, name: str) -> None:
    told, path = OURS[name], placed(name, tmp_path)
    journal = gitjournal.init(tmp_path / "journal.git")
    report = import_file(journal, path)
    reports = {one.session: one for one in (report, *report.others)}
    found = {
        session: {**told_of([], fold(journal.events(session))), "records": one.records}
        for session, one in reports.items()
    }
    assert report.format == told["format"] and found == told["sessions"]
    assert not any(one.odd for one in reports.values())
    again = import_file(journal, path)
    assert not any(one.added for one in (again, *again.others))
    if journal.event(report.session, 1).data.get("exact") is not False:
        assert given_back(journal, report.session, report.format) == path.read_bytes()


def test_every_format_has_counts_of_a_source() -> None:
    named = {path.stem.removeprefix("import-") for path in GOLDEN.glob("import-*.json")}
    named |= {told["format"] for told in OURS.values()}
    # Our own comes back as it is, what nobody knows says nothing, and the web's export holds records of Claude Code.
    assert set(formats()) - named == {"jsonl", "records", "claude-code-web"}


@pytest.mark.skipif(not CORPUS.is_dir(), reason="the public corpus is not here")
def test_every_sample_of_the_corpus_has_counts() -> None:
    samples = {
        line.split("\t")[0] for line in (CORPUS / "INDEX.tsv").read_text(encoding="utf-8").splitlines()[1:] if line
    }
    told = {
        name
        for path in GOLDEN.glob("import-*.json")
        if path.name != "import-ours.json"
        for name in json.loads(path.read_text(encoding="utf-8"))
    }
    assert samples == told | NO_SESSION | REDACTED
    assert all(detect(Source(CORPUS / name)) is None for name in NO_SESSION)
