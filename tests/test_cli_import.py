"""`gj import` of files, folders and what is on a machine; `gj export` back; `gj gc`."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest
import zstandard

import gitjournal
from gitjournal import cli_import
from gitjournal.errors import StorageError
from gitjournal.store import Store
from tests.support import Gj
from tests.transcripts import line

DEMO = Path(__file__).resolve().parents[1] / "gitjournal" / "demo" / "session.jsonl"
SECRET = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"


@pytest.fixture(autouse=True)
def made(gj: Gj) -> None:
    gj("init")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home with two sessions of Claude Code, and a file that is none."""
    home = tmp_path / "home"
    monkeypatch.setenv("HOME", str(home))
    for variable in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "XDG_DATA_HOME", "COPILOT_HOME"):
        monkeypatch.delenv(variable, raising=False)
    projects = home / ".claude" / "projects" / "-p"
    projects.mkdir(parents=True)
    for name, n in (("s1", 0), ("s2", 10)):
        content = line(n=n, sessionId=name, cwd="/p", parentUuid=None) + line(n=n + 1, sessionId=name)
        (projects / f"{name}.jsonl").write_bytes(content)
    (projects / "empty.jsonl").touch()
    old = time.time() - 25 * 86_400
    os.utime(projects / "s1.jsonl", (old, old))
    return home


def folder(tmp_path: Path) -> Path:
    made = tmp_path / "in"
    (made / "deep").mkdir(parents=True)
    (made / "deep" / "a.jsonl.zst").write_bytes(zstandard.ZstdCompressor().compress(DEMO.read_bytes()))
    (made / "b.jsonl").write_bytes(line(sessionId="b"))
    (made / "notes.txt").write_text("nothing\n")
    (made / "torn.gz").write_bytes(b"\x1f\x8b\x08\0torn")
    return made


# --- folders -------------------------------------------------------------------------------------


def test_a_folder_is_imported_with_one_line_for_all(gj: Gj, tmp_path: Path) -> None:
    told = gj("import", folder(tmp_path)).stdout
    assert told.splitlines()[-1] == "4 files, 2 of them no sessions: 2 sessions, added 37 records, 0 were there already"
    assert "a.jsonl.zst: 36 records" in told and "notes.txt" not in told
    again = gj("import", "auto", tmp_path / "in").stdout
    assert again == "4 files, 2 of them no sessions: 2 sessions, added 0 records, 37 were there already\n"


def test_a_format_chooses_among_the_files_of_a_folder(gj: Gj, tmp_path: Path) -> None:
    assert "2 of them no sessions" in gj("import", "claude-code", folder(tmp_path)).stdout
    assert "4 of them no sessions" in gj("import", "codex", tmp_path / "in").stdout


def test_a_folder_as_json_ends_with_the_sums(gj: Gj, tmp_path: Path) -> None:
    *reports, last = map(json.loads, gj("import", "--json", folder(tmp_path)).stdout.splitlines())
    assert [report["added"] for report in reports] == [1, 36]
    assert last["total"] == {
        "files": 4, "imported": 2, "skipped": 2, "failed": 0, "sessions": 2, "added": 37, "known": 0, "copied": 0,
        "size": last["total"]["size"],
    }  # fmt: skip


def test_only_files_that_were_changed_since_a_day(gj: Gj, tmp_path: Path, home: Path) -> None:
    assert "1 session, added 2" in gj("import", home / ".claude", "--since", "7d").stdout
    assert gj("import", home, "--since", "soon", ok=False).exit_code == 2


def test_an_empty_folder_says_so(gj: Gj, tmp_path: Path) -> None:
    (tmp_path / "none").mkdir()
    result = gj("import", tmp_path / "none")
    assert result.stdout == "" and "nothing to import" in result.stderr


def test_words_that_do_not_go_together(gj: Gj, tmp_path: Path) -> None:
    for words in ((), (DEMO, "--discover"), ("--discover", "--session", "x"), (folder(tmp_path), "--session", "x")):
        result = gj("import", *words, ok=False)
        assert result.exit_code == 2, words


# --- what is on this machine ---------------------------------------------------------------------


def test_what_is_on_this_machine_is_shown_and_imported_with_yes(gj: Gj, home: Path) -> None:
    shown = gj("import", "--discover")
    head, row = shown.stdout.splitlines()
    assert head.split() == ["PROGRAM", "FILES", "BYTES", "NEWEST", "DELETES", "FOLDER"]
    # The older one is 25 of its 30 days old.
    assert row.split()[:2] == ["claude-code", "3"] and "in 4 days" in row and str(home / ".claude") in row
    assert "with --yes it is" in shown.stderr
    assert gj("sessions", "--json").stdout == ""
    assert "2 sessions, added 4 records" in gj("import", "--discover", "--yes").stdout
    assert len(gj("sessions", "--json").stdout.splitlines()) == 2
    assert "would add 0" in gj("import", "--discover", "--dry-run").stdout
    rows = [json.loads(row) for row in gj("import", "claude-code", "--discover", "--json").stdout.splitlines()]
    assert rows == [
        {
            "format": "claude-code", "folder": str(home / ".claude"), "files": 3, "size": rows[0]["size"],
            "newest": rows[0]["newest"], "deletes_in_days": 4,
        }
    ]  # fmt: skip
    assert gj("import", "codex", "--discover").stdout.startswith("no sessions of other programs")


@pytest.mark.parametrize(("answer", "added"), [("y\n", True), ("n\n", False), ("\n", False)])
def test_a_terminal_is_asked(gj: Gj, home: Path, monkeypatch: pytest.MonkeyPatch, answer: str, added: bool) -> None:
    monkeypatch.setattr(cli_import.App, "on_terminal", property(lambda self: True))
    result = gj("import", "--discover", stdin=answer)
    assert "Import these 3 files?" in result.output
    assert bool(list(gitjournal.open(os.environ["GITJOURNAL_DIR"]).sessions())) is added


# --- secrets -------------------------------------------------------------------------------------


def test_secrets_are_taken_out_and_the_export_says_so(gj: Gj, tmp_path: Path) -> None:
    pytest.importorskip("redact_secret", reason="the detector is an extra")
    source = tmp_path / "s.jsonl"
    source.write_bytes(line() + line(f"my token is {SECRET}", n=1) + line(n=2))
    told = gj("import", source, "--redact").stdout
    assert "secrets taken out" in told
    assert SECRET not in gj("log", "s1", "--json").stdout
    result = gj("export", "s1", "--format", "claude-code")
    assert "not exact: secrets were taken out of 1 record" in result.stderr and SECRET not in result.stdout
    assert result.stdout.count("\n") == 3
    assert gitjournal.open(os.environ["GITJOURNAL_DIR"]).event("s1", 1).data["redacted"] is True
    # Also without the word, for it began so.
    for words in ((), ("--redact",)):
        assert "added 0" in gj("import", source, *words).stdout
    source.write_bytes(source.read_bytes() + line(f"again {SECRET}", n=3))
    assert "added 1" in gj("import", source).stdout
    assert SECRET not in gj("log", "s1", "--json").stdout


# --- back again ----------------------------------------------------------------------------------


def test_a_file_to_go_on_with_ends_with_a_newline(gj: Gj, tmp_path: Path) -> None:
    source = tmp_path / "s.jsonl"
    whole = line() + line(n=1)
    source.write_bytes(whole[:-1])
    gj("import", source)
    exact = gj("export", "s1", "--format", "claude-code", "--for-resume")
    assert exact.stdout_bytes == whole and "a newline was added" in exact.stderr
    assert gj("export", "s1", "--format", "claude-code").stdout_bytes == whole[:-1]
    gj("export", "s1", "--format", "claude-code", "--for-resume", "-o", "out.jsonl")
    assert Path("out.jsonl").read_bytes() == whole
    source.write_bytes(whole)
    gj("import", source)
    assert "newline" not in gj("export", "s1", "--format", "claude-code", "--for-resume").stderr


# --- packing -------------------------------------------------------------------------------------


def test_a_journal_is_packed_tighter(gj: Gj) -> None:
    gj("import", DEMO)
    told = json.loads(gj("gc", "--json").stdout)
    assert 0 < told["after"] < told["before"] and told["objects"] > 100
    assert "objects: " in gj("gc").stdout
    gj("verify")
    assert gj("export", _only(gj), "--format", "claude-code").stdout_bytes == DEMO.read_bytes()


def test_a_ref_that_is_written_meanwhile_does_not_undo_the_packing(gj: Gj, monkeypatch: pytest.MonkeyPatch) -> None:
    def locked(_: Store) -> None:
        raise StorageError("a ref is locked")

    gj("import", DEMO)
    monkeypatch.setattr(Store, "pack_refs", locked)
    result = gj("gc", "--json")
    assert json.loads(result.stdout)["objects"] > 100
    assert "a ref is locked" in result.stderr


def _only(gj: Gj) -> Any:
    (row,) = map(json.loads, gj("sessions", "--json").stdout.splitlines())
    return row["session"]
