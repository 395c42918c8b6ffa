"""`gj verify`: exports, what remotes have, foreign refs and links, and the memory of earlier runs."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from support import Gj, git, git_text


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A memory of one's own."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest.fixture
def filled(gj: Gj, place: Path) -> Path:
    """A journal with session s: a start and four messages, the last of which has a side file."""
    gj("init", place)
    for n in range(4):
        text = "long " * 20_000 if n == 3 else str(n)
        gj("append", "s", json.dumps({"text": text}), "--type", "message", "--actor", "user", "--create")
    return place


@pytest.fixture
def export(gj: Gj, filled: Path, tmp_path: Path) -> Path:
    """An export of it."""
    gj("export", "s", "-o", tmp_path / "s.jsonl")
    return tmp_path / "s.jsonl"


def reports(result: Any) -> dict[str, dict[str, Any]]:
    return {one["name"]: one for one in map(json.loads, result.stdout.splitlines())}


def codes(result: Any, name: str) -> list[tuple[str, int | None]]:
    return [(one["code"], one["seq"]) for one in reports(result)[name]["findings"]]


def memory(tmp_path: Path) -> Path:
    return next((tmp_path / "state").glob("gitjournal/verified/*.pins"))


# --- exports -------------------------------------------------------------------------------------


def test_an_export_needs_no_journal(gj: Gj, export: Path, filled: Path) -> None:
    head = json.loads(gj("pin", "s").stdout)
    shutil.rmtree(filled)
    shown = gj("verify", "--export", export).stdout
    assert "s.jsonl: ok, 5 events, 1 side file" in shown and "commits, trees and refs: an export has none" in shown
    one = reports(gj("verify", "--export", export, "--json"))["s.jsonl"]
    assert (one["ref"], one["head"]) == (None, {"seq": 5, "hash": head["hash"], "commit": None})
    told = gj("verify", "--export", export, "--expect-seq", 5, "--expect-head", head["hash"]).stdout
    assert "pinned at 5" in told


def test_an_edited_export_and_one_without_a_side_file(gj: Gj, export: Path) -> None:
    lines = export.read_bytes().splitlines(keepends=True)
    export.write_bytes(b"".join([*lines[:2], lines[2].replace(b'"text":"1"', b'"text":"2"'), *lines[3:]]))
    assert codes(gj("verify", "--export", export, "--json", ok=False), "s.jsonl") == [("broken-link", 4)]
    shutil.rmtree(f"{export}.files")
    export.write_bytes(b"".join(lines))
    assert codes(gj("verify", "--export", export, "--json", ok=False), "s.jsonl") == [("missing-object", 5)]


def test_a_side_file_of_another_size_is_not_read(gj: Gj, export: Path) -> None:
    # A sparse one: to read it would take an hour.
    os.truncate(f"{export}.files/5.1", 1 << 40)
    assert codes(gj("verify", "--export", export, "--json", ok=False), "s.jsonl") == [("bad-file", 5)]


def test_pins_and_the_page_are_for_exports_too(gj: Gj, export: Path, tmp_path: Path) -> None:
    (tmp_path / "pins").write_text(gj("pin", "s").stdout)
    lines = export.read_bytes().splitlines(keepends=True)
    export.write_bytes(b"".join(lines[:-1]))
    result = gj("verify", "--export", export, "--pin", tmp_path / "pins", "--report", tmp_path / "r.html", ok=False)
    assert "truncated at s.jsonl@4: the branch ends at 4, event 5 was seen before" in result.stdout
    assert str(export) in (tmp_path / "r.html").read_text()


@pytest.mark.parametrize("content", [None, b""])
def test_an_export_that_is_not_there(gj: Gj, content: bytes | None, tmp_path: Path) -> None:
    if content is not None:
        (tmp_path / "x.jsonl").write_bytes(content)
    result = gj("verify", "--export", tmp_path / "x.jsonl", ok=False)
    assert (result.exit_code, result.stdout) == (4, "") and "x.jsonl" in result.stderr


def test_one_thing_at_a_time(gj: Gj, export: Path) -> None:
    for words in (("s",), ("--all",), ("--proof", export)):
        assert gj("verify", "--export", export, *words, ok=False).exit_code == 2, words
    for seq in ("0", "01", "+1", " 1", "1.0", "x", "100000000", "٣"):
        words = ("--expect-seq", seq, "--expect-head", "0" * 64)
        assert gj("verify", "--export", export, *words, ok=False).exit_code == 2, words


# --- refs ----------------------------------------------------------------------------------------


def test_equivocation_between_a_branch_and_what_a_remote_has(gj: Gj, filled: Path, tmp_path: Path) -> None:
    shutil.copytree(filled, tmp_path / "other.git")
    gj("-J", tmp_path / "other.git", "append", "s", '{"text":"there"}', "--type", "message")
    gj("append", "s", '{"text":"here"}', "--type", "message")
    git("fetch", "-q", str(tmp_path / "other.git"), "refs/heads/*:refs/remotes/other/*", cwd=filled)
    result = gj("verify", "s", "--json", ok=False)
    assert [*reports(result)] == ["s", "refs/remotes/other/s/main"]
    assert codes(result, "refs/remotes/other/s/main") == [("equivocation", 6)] and codes(result, "s") == []
    assert "equivocation at refs/remotes/other/s/main@6" in gj("verify", ok=False).stdout


def test_a_lost_tree_that_branches_share_is_found_on_each(gj: Gj, filled: Path, tmp_path: Path) -> None:
    """Of events that branches share, commits and trees are looked at once, but not where something was found."""
    gj("branch", "s@4", "b")
    assert all(one["verdict"] == "ok" for one in reports(gj("verify", "--json")).values())
    tree = git_text("rev-parse", "s/main~2^{tree}", cwd=filled).strip()
    packs = filled / "objects" / "pack"
    packs.rename(tmp_path / "packs")
    packs.mkdir()
    for pack in (tmp_path / "packs").glob("*.pack"):
        git("unpack-objects", "-q", cwd=filled, stdin=pack.read_bytes())
    (filled / "objects" / tree[:2] / tree[2:]).unlink()
    result = gj("verify", "--json", ok=False)
    assert codes(result, "s") == codes(result, "s/b") == [("missing-object", 3)]


def test_a_remote_may_be_behind_and_is_not_remembered(gj: Gj, filled: Path) -> None:
    git("update-ref", "refs/remotes/r/s/main", git_text("rev-parse", "s/main", cwd=filled).strip(), cwd=filled)
    gj("append", "s", '{"text":"more"}', "--type", "message")
    shown = gj("verify").stdout
    assert "s: ok, 6 events" in shown and "refs/remotes/r/s/main: ok, 5 events, 1 side file" in shown
    git("update-ref", "-d", "refs/remotes/r/s/main", cwd=filled)
    assert "remotes" not in gj("verify").stdout


def test_a_remote_with_the_same_head_has_the_same_report(gj: Gj, filled: Path) -> None:
    head = git_text("rev-parse", "s/main", cwd=filled).strip()
    git("update-ref", "refs/remotes/r/s/main", head, cwd=filled)
    git("update-ref", "refs/heads/wip", head, cwd=filled)
    own, there = reports(gj("verify", "s", "--json")).values()
    assert there.pop("name") == there.pop("ref") == "refs/remotes/r/s/main"
    assert {**there, "name": own["name"], "ref": own["ref"]} == own
    assert len(own["unchecked"]) == len(set(own["unchecked"])) == 3


def test_a_session_that_only_a_remote_has_can_be_named(gj: Gj, filled: Path) -> None:
    git("update-ref", "refs/remotes/r/away/main", git_text("rev-parse", "s/main", cwd=filled).strip(), cwd=filled)
    result = gj("verify", "away", "--json", ok=False)
    assert [*reports(result)] == ["refs/remotes/r/away/main"]
    assert codes(result, "refs/remotes/r/away/main") == [("wrong-ref", None)]
    assert gj("verify", "awa", ok=False).exit_code == 4


def test_what_a_remote_has_is_checked_as_well(gj: Gj, filled: Path) -> None:
    git("update-ref", "refs/remotes/r/t/main", git_text("rev-parse", "s/main", cwd=filled).strip(), cwd=filled)
    assert codes(gj("verify", "--json", ok=False), "refs/remotes/r/t/main") == [("wrong-ref", None)]


def test_refs_that_are_no_branches_are_counted(gj: Gj, filled: Path) -> None:
    head = git_text("rev-parse", "s/main", cwd=filled).strip()
    for ref in ("refs/heads/wip", "refs/heads/a/b/c", "refs/remotes/r/x", "refs/tags/v1"):
        git("update-ref", ref, head, cwd=filled)
    (filled / "refs" / "heads" / "sub").symlink_to("s")
    git("symbolic-ref", "refs/remotes/r/HEAD", "refs/remotes/r/main", cwd=filled)
    shown = gj("verify").stdout
    assert shown.count("refs that are no line of a journal: 4") == 1
    (filled / "refs" / "heads" / "sub").unlink()
    git("pack-refs", "--all", cwd=filled)
    for one in reports(gj("verify", "--json")).values():
        assert "refs that are no line of a journal: 3" in one["unchecked"]


def test_a_link_in_the_place_of_a_folder_of_refs(gj: Gj, filled: Path, tmp_path: Path) -> None:
    (filled / "refs" / "heads" / "s").rename(tmp_path / "elsewhere")
    (filled / "refs" / "heads" / "s").symlink_to(tmp_path / "elsewhere")
    result = gj("verify", "--json")
    assert [*reports(result)] == ["journal"], "it is not followed"
    assert codes(gj("verify", "s", "--json", ok=False), "s") == [("wrong-ref", None)]
    assert gj("append", "s", "{}", "--type", "message", ok=False).exit_code == 4, "and nothing is written behind it"


@pytest.mark.parametrize("folder", ["refs", "refs/heads"])
def test_a_link_in_the_place_of_all_refs(gj: Gj, folder: str, filled: Path, tmp_path: Path) -> None:
    (filled / folder).rename(tmp_path / "elsewhere")
    (filled / folder).symlink_to(tmp_path / "elsewhere")
    result = gj("verify", ok=False)
    assert result.exit_code == 4 and f"{folder} is a link" in result.stderr


def test_a_damaged_head_of_the_only_branch_is_a_finding(gj: Gj, filled: Path, tmp_path: Path) -> None:
    clone = tmp_path / "one.git"
    git("clone", "-q", "--bare", "--single-branch", "--branch", "s/main", str(filled), str(clone))
    tree = git_text("rev-parse", "s/main^{tree}", cwd=clone).strip()
    other = git_text("-c", "user.name=x", "-c", "user.email=x@y", "commit-tree", "-m", "x", tree, cwd=clone).strip()
    git("update-ref", "refs/heads/s/main", other, cwd=clone)
    result = gj("-J", clone, "verify", "--json", ok=False)
    assert codes(result, "s") == [("bad-commit", None)] and "not a journal" in result.stderr
    git("update-ref", "-d", "refs/heads/s/main", cwd=clone)
    assert gj("-J", clone, "verify", ok=False).exit_code == 4, "where no ref is like one, it is none"


# --- the memory, and words -----------------------------------------------------------------------


def test_a_backup_that_was_put_back_is_told_how_to_begin_anew(gj: Gj, filled: Path, tmp_path: Path) -> None:
    shutil.copytree(filled, tmp_path / "backup")
    gj("append", "s", '{"text":"lost"}', "--type", "message")
    gj("verify")
    shutil.rmtree(filled)
    shutil.copytree(tmp_path / "backup", filled)
    result = gj("verify", ok=False)
    assert result.exit_code == 1 and "truncated at s@5" in result.stdout
    assert "gj verify --forget" in result.stderr and result.stderr.count("an earlier run has found intact") == 1
    assert gj("verify", "--forget").stderr == "" and gj("verify").exit_code == 0


def test_a_finding_of_a_pin_is_not_blamed_on_the_memory(gj: Gj, filled: Path, tmp_path: Path) -> None:
    (tmp_path / "pins").write_text(gj("pin", "s").stdout.replace('"seq":5', '"seq":9'))
    result = gj("verify", "s", "--pin", tmp_path / "pins", ok=False)
    assert result.exit_code == 1 and "--forget" not in result.stderr


@pytest.mark.parametrize("content", [b"garbage\n", b"\xff", b'{"name":"s/main"}\n'])
def test_a_damaged_memory_is_said(gj: Gj, content: bytes, filled: Path, tmp_path: Path) -> None:
    gj("verify")
    memory(tmp_path).write_bytes(content)
    result = gj("verify", "s", "--json")
    assert result.stderr.count("\n") == 1 and "the memory of them is damaged" in result.stderr
    said = "whether the branch went back since earlier runs: the memory of them is damaged"
    assert said in reports(result)["s"]["unchecked"]
    assert gj("verify", "s").stderr == "", "it begins anew"
    gj("append", "s", '{"text":"more"}', "--type", "message")
    gj("verify", "s")
    git("update-ref", "refs/heads/s/main", git_text("rev-parse", "s/main~1", cwd=filled).strip(), cwd=filled)
    assert codes(gj("verify", "s", "--json", ok=False), "s") == [("truncated", 5)], "and works again"


def test_a_memory_that_is_a_folder_is_said_as_well(gj: Gj, filled: Path, tmp_path: Path) -> None:
    gj("verify")
    path = memory(tmp_path)
    path.unlink()
    path.mkdir()
    assert "the memory of them is damaged" in gj("verify").stderr


def test_hashes_are_short_for_people_and_whole_for_programs(gj: Gj, filled: Path) -> None:
    digest = json.loads(gj("pin", "s").stdout)["hash"]
    shown = gj("verify", "s").stdout
    assert f"nothing pins the head, {digest[:12]} at 5" in shown and digest not in shown
    assert max(map(len, shown.splitlines())) < 100
    (note,) = (one for one in reports(gj("verify", "s", "--forget", "--json"))["s"]["unchecked"] if "pins" in one)
    assert note.endswith(f"{digest} at 5")
