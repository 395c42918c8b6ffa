"""`gj key`, `seal`, `prove`, `pin`, `erase`, `export --only`, and what `gj verify` is told from elsewhere."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from support import Gj, git, git_text

from gitjournal import keys


@pytest.fixture(autouse=True)
def no_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A user who has no key yet."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


@pytest.fixture
def filled(gj: Gj, place: Path) -> Path:
    """A journal with session s: a start and four messages."""
    gj("init", place)
    for n in range(4):
        gj("append", "s", json.dumps({"n": n}), "--type", "message", "--actor", "user", "--create")
    return place


def reports(result: Any) -> dict[str, dict[str, Any]]:
    return {one["name"]: one for one in map(json.loads, result.stdout.splitlines())}


def codes(result: Any, name: str = "s") -> list[tuple[str, int | None]]:
    return [(one["code"], one["seq"]) for one in reports(result)[name]["findings"]]


# --- key and seal --------------------------------------------------------------------------------


def test_a_new_key_and_a_seal(gj: Gj, filled: Path) -> None:
    assert "nothing is signed" in gj("key").stdout
    line = gj("key", "--new").stdout
    assert line.split()[1] == "ssh-ed25519"
    Path("allowed").write_text(line)
    assert "signs seals" in gj("key").stdout
    assert gj("seal", "s").stdout.startswith("6 ")
    report = reports(gj("verify", "s", "--allowed-signers", "allowed", "--require-signed", "--json"))["s"]
    assert (report["verdict"], report["signed_to"], report["seals"]) == ("ok", 6, 1)
    assert report["signers"][0]["principals"] == line.split()[0]
    assert gj("verify", "s", ok=False).exit_code == 3, "nobody vouches for the key"
    shown = gj("verify", "s", "--allowed-signers", "allowed").stdout
    assert f"signed to 6 by {line.split()[0]}" in shown
    assert "To use it: gj key" in gj("key", "--new", ok=False).stderr


def test_a_seal_without_a_key_says_so(gj: Gj, filled: Path) -> None:
    result = gj("seal", "s", "--json")
    assert json.loads(result.stdout)["key"] is None
    assert "not signed" in gj("seal", "s").stderr
    assert gj("seal", "s@3", ok=False).exit_code == 2


def test_a_key_of_the_user(gj: Gj, filled: Path, tmp_path: Path) -> None:
    signer = keys.generate(tmp_path / "id")
    told = json.loads(gj("key", tmp_path / "id", "--sign", "every", "--json").stdout)
    line = told.pop("allowed_signer")
    assert line.endswith(f" {signer.line}")
    assert told == {"sign": "every", "key": str(tmp_path / "id"), "fingerprint": signer.fingerprint}
    assert gj("key").stdout == f"signs every commit with {tmp_path / 'id'}, {signer.fingerprint}\n{line}\n"
    (tmp_path / "id").rename(tmp_path / "away")
    assert "signs every commit" in gj("key").stdout
    (tmp_path / "away").rename(tmp_path / "id")
    gj("append", "s", "{}", "--type", "message")
    commits = git_text("rev-list", "--max-count=2", "s/main", cwd=filled).split()
    assert b"gpgsig" in git("cat-file", "-p", commits[0], cwd=filled).stdout
    gj("key", "--sign", "off")
    assert "nothing is signed" in gj("key").stdout
    before = git_text("rev-parse", "s/main", cwd=filled)
    assert gj("key", tmp_path / "missing", ok=False).exit_code == 4
    assert git_text("rev-parse", "s/main", cwd=filled) == before
    assert "nothing is signed" in gj("key").stdout


def test_one_append_makes_no_seal(gj: Gj, filled: Path) -> None:
    gj("key", "--new")
    gj("append", "s", "{}", "--type", "message")
    assert git_text("log", "-1", "--format=%s", "s/main", cwd=filled).startswith("message #6")


# --- prove and pin -------------------------------------------------------------------------------


def test_prove_and_check(gj: Gj, filled: Path) -> None:
    Path("allowed").write_text(gj("key", "--new").stdout)
    assert "gj seal s" in gj("prove", "s@3", ok=False).stderr
    gj("seal", "s")
    gj("append", "s", "{}", "--type", "message")
    gj("seal", "s")
    gj("prove", "s@3", "-o", "p.json")
    assert Path("p.json").read_text() == gj("prove", "s@3").stdout
    gj("prove", "s", "--from", "6", "--to", "8", "-o", "c.json")
    for file in ("p.json", "c.json"):
        result = gj("verify", "--proof", file, "--allowed-signers", "allowed", "--json")
        assert reports(result)["proof"]["signed_to"] == 7
    assert json.loads(json.loads(gj("prove", "s@3", "--withhold").stdout)["event"]).get("data") is None
    told = gj("verify", "--proof", "p.json", "--allowed-signers", "allowed").stdout
    assert "event 3 of s (message by user, " in told and "is under the seal on 7 events of s/main" in told
    Path("p.json").write_text(Path("p.json").read_text().replace("user", "host"))
    assert codes(gj("verify", "--proof", "p.json", "--json", ok=False), "proof") == [("bad-seal", None)]
    for words in (["s", "--from", "6"], ["s", "--from", "6", "--to", "8", "--withhold"]):
        assert gj("prove", *words, ok=False).exit_code == 2


def test_truncated_against_a_pin(gj: Gj, filled: Path, tmp_path: Path) -> None:
    gj("pin", "s", "-o", tmp_path / "pins")
    assert gj("pin").stdout == (tmp_path / "pins").read_text()
    assert "pinned at 5" in gj("verify", "s", "--pin", tmp_path / "pins").stdout
    git("update-ref", "refs/heads/s/main", "s/main~1", cwd=filled)
    result = gj("verify", "s", "--pin", tmp_path / "pins", "--forget", "--json", ok=False)
    assert (result.exit_code, codes(result)) == (1, [("truncated", 4)])


def test_what_was_verified_is_remembered(gj: Gj, filled: Path) -> None:
    gj("branch", "s@3", "b")
    assert gj("verify").exit_code == 0
    git("update-ref", "refs/heads/s/main", "s/main~2", cwd=filled)
    git("update-ref", "-d", "refs/heads/s/b", cwd=filled)
    result = gj("verify", "--json", ok=False)
    assert codes(result) == [("truncated", 3)] and codes(result, "s/b") == [("truncated", None)]
    assert gj("verify", "--forget").exit_code == 0, "and the user may know better"
    assert gj("verify").exit_code == 0


def test_another_history_in_the_same_place(gj: Gj, filled: Path) -> None:
    gj("verify")
    shutil.rmtree(filled)
    gj("init", filled)
    for n in range(6):
        gj("append", "s", json.dumps({"n": n}), "--type", "message", "--create")
    assert ("rollback", 5) in codes(gj("verify", "--json", ok=False))


def test_an_expected_head(gj: Gj, filled: Path) -> None:
    head = json.loads(gj("pin", "s").stdout)
    gj("verify", "s", "--expect-seq", head["seq"], "--expect-head", head["hash"])
    result = gj("verify", "s", "--expect-seq", 4, "--expect-head", head["hash"], "--json", ok=False)
    assert codes(result) == [("rollback", 4)]
    for words in (
        ["s", "--expect-seq", 4],
        ["--expect-seq", 4, "--expect-head", head["hash"]],
        ["s", "--expect-seq", 4, "--expect-head", "abc"],
        ["s", "--require-signed"],
        ["s", "--proof", "x"],
        ["s", "--pin", "allowed"],
    ):
        Path("allowed").write_text("garbage")
        assert gj("verify", *words, ok=False).exit_code == 2, words
    assert gj("verify", "--proof", "missing", ok=False).exit_code == 4


# --- erase and export ----------------------------------------------------------------------------


def test_erase(gj: Gj, filled: Path) -> None:
    gj("branch", "s@4", "b")
    planned = gj("erase", "s", "2-3", "--reason", "x", "--dry-run").stdout
    assert planned == "would erase 2 payloads of s: 2-3\nwould erase 2 payloads of s/b: 2-3\n"
    assert gj("erase", "s", "2-3", "--reason", "x").stdout == planned.replace("would erase", "erased")
    told = json.loads(gj("erase", "s", "3,4", "--reason", "y", "--json").stdout)
    assert (told["branches"], told["withheld_already"], told["left"]) == (
        {"s": [[4, 4]], "s/b": [[4, 4]]},
        [[3, 3]],
        [],
    )
    assert "3 withheld" in gj("verify", "s").stdout
    assert "no erasure was cut" in gj("erase", "--finish").stderr
    (filled / "gitjournal" / "erase.json").write_text("{")
    assert "gj erase --finish" in gj("verify", "s").stderr
    assert "not ours" in gj("erase", "--finish", ok=False).stderr
    (filled / "gitjournal" / "erase.json").unlink()
    for words in (["s", "x"], ["s", "5-2"], ["s", "1-9999999"], ["s@3", "2"], ["s", "7"]):
        assert gj("erase", *words, "--reason", "x", ok=False).exit_code in (2, 4), words


def test_an_export_that_shows_some_events(gj: Gj, filled: Path, place: Path) -> None:
    gj("export", "s", "--only", "2,4-5", "-o", "x.jsonl")
    lines = [json.loads(line) for line in Path("x.jsonl").read_text().splitlines()]
    assert [line["seq"] for line in lines if "data" in line] == [2, 4, 5]
    gj("init", place.parent / "other")
    gj("-J", place.parent / "other", "import", "x.jsonl")
    report = reports(gj("-J", place.parent / "other", "verify", "s", "--json"))["s"]
    assert (report["verdict"], report["withheld"]) == ("ok", [[1, 1], [3, 3]])
    Path("x.jsonl.files").mkdir()
    assert "withheld" in gj("export", "s", "--only", "2", "-o", "x.jsonl", ok=False).stderr
    assert gj("export", "s", "--only", "2", "--format", "records", ok=False).exit_code == 2
