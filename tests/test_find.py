"""``gj sessions``, ``search``, ``grep`` and ``reindex``, and names that are not typed whole."""

from __future__ import annotations

import io
import json
import os
import re
import sqlite3
import sys
import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from support import Gj, git

import gitjournal
from gitjournal import cli_base, cli_find, grep, index_db, index_query
from gitjournal.cli_base import EXIT, App
from gitjournal.cli_names import find, find_range, since
from gitjournal.errors import JournalError, NotFound, UsageError
from gitjournal.journal import Journal
from gitjournal.refs import Name, ref_name
from gitjournal.render import short_number
from gitjournal.state import fold
from gitjournal.writer import Draft


def said(text: str) -> dict[str, Any]:
    return {"role": "user", "parts": [{"type": "text", "content": text}]}


@pytest.fixture
def filled(place: Path) -> Journal:
    """Sessions fix-cache (with branch try-b), fix-parser and Änderung; the first has a title, labels and tokens."""
    journal = gitjournal.init(place)
    start = Draft("session.start", {"source": "console", "title": "Cache repair", "labels": ["urgent"]})
    with journal.session("fix-cache", create=True, start=start) as s:
        s.append("message", said("why is the cache slow?\nit was quick before"), actor="user")
        usage = {"gen_ai.usage.input_tokens": 15_300, "gen_ai.usage.output_tokens": 41}
        s.append("model.response", {"parts": "looking", "usage": usage}, actor="assistant")
        s.append("tool.result", {"id": "c", "response": {"stdout": "cache.py:7: def get(key)\r\nend"}}, actor="tool:sh")
    journal.branch("fix-cache", 3, "try-b")
    with journal.session("fix-cache/try-b") as s:
        s.append("message", said("another cache"), actor="user")
    with journal.session("fix-parser", create=True) as s:
        s.append("message", said("parse \x1b[31mred\x1b[0m this"), actor="user")
    with journal.session("Änderung", create=True) as s:
        s.append("session.update", {"archived": True})
    return journal


# --- sessions ------------------------------------------------------------------------------------


def test_the_list_has_title_turns_tokens_and_state(gj: Gj, filled: Journal) -> None:
    lines = gj("sessions").stdout.splitlines()
    assert lines[0].split() == [
        "SESSION",
        "STATUS",
        "TURNS",
        "TOKENS",
        "EVENTS",
        "BRANCHES",
        "LAST",
        "ACTIVITY",
        "TITLE",
    ]
    assert [line.split()[0] for line in lines[1:]] == ["fix-parser", "fix-cache"]
    assert lines[2].split()[1:6] == ["idle", "2", "15.3k→41", "6", "2"] and lines[2].endswith("Cache repair")
    assert lines[1].endswith("parse red this") and "\x1b" not in gj("sessions").stdout


def test_archived_sessions_are_shown_when_asked_for(gj: Gj, filled: Journal) -> None:
    assert "Änderung" not in gj("sessions").stdout and "[archived]" in gj("sessions", "--archived").stdout
    rows = [json.loads(line) for line in gj("sessions", "--archived", "--json").stdout.splitlines()]
    assert {row["session"]: row["archived"] for row in rows} == {
        "fix-parser": False,
        "fix-cache": False,
        "Änderung": True,
    }


def test_that_a_session_is_archived_no_long_title_hides(
    gj: Gj, filled: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    with filled.session("fix-parser") as s:
        s.update(archived=True, title="a title that is as long as one may be " * 5)
    assert "[archived] a title" in gj("sessions", "--archived").stdout
    monkeypatch.setattr(cli_base.App, "width", 80)
    assert "[archived] a" in gj("sessions", "--archived").stdout


def status_of(gj: Gj, session: str) -> str:
    rows = {row["session"]: row for row in map(json.loads, gj("sessions", "--archived", "--json").stdout.splitlines())}
    return str(rows[session]["status"])


def test_a_terminated_trunk_ends_the_session_whatever_its_branches_do(gj: Gj, filled: Journal) -> None:
    gj("terminate", "fix-cache")
    filled.branch("fix-cache", 3, "late")
    assert status_of(gj, "fix-cache") == "terminated"
    with filled.session("fix-cache/late") as s:
        s.user("still here")
        assert status_of(gj, "fix-cache") == "terminated"
    assert "fix-cache" in gj("sessions", "--status", "terminated").stdout
    shown = json.loads(gj("replay", "fix-cache/late", "--json").stdout)
    assert (shown["status"], shown["stop_reason"]) == ("terminated", "terminated")
    assert json.loads(gj("replay", "fix-cache/late@3", "--json").stdout)["status"] != "terminated"


def test_a_branch_that_is_terminated_alone_does_not_end_its_session(gj: Gj, filled: Journal) -> None:
    gj("terminate", "fix-cache/try-b")
    assert status_of(gj, "fix-cache") == "idle"
    assert json.loads(gj("replay", "fix-cache", "--json").stdout)["status"] == "idle"
    assert json.loads(gj("replay", "fix-cache/try-b", "--json").stdout)["status"] == "terminated"
    gj("resume", "fix-cache")
    gj("branch", "--delete", "fix-cache/try-b", "--force")
    gj("terminate", "fix-parser")
    assert status_of(gj, "fix-parser") == "terminated"


def test_whether_a_session_is_archived_its_trunk_says_in_every_list(gj: Gj, filled: Journal) -> None:
    def archived(name: str) -> bool:
        told = bool(json.loads(gj("replay", name, "--json").stdout)["archived"])
        assert told == (", archived" in gj("replay", name).stdout)
        return told

    def listed() -> bool:
        return "fix-cache" in gj("sessions").stdout

    gj("archive", "fix-cache")
    assert archived("fix-cache") and archived("fix-cache/try-b") and not listed()
    filled.branch("fix-cache", filled.head("fix-cache").seq, "heir")
    gj("unarchive", "fix-cache")
    assert not archived("fix-cache") and not archived("fix-cache/heir") and listed()
    # What the branch says of itself, as of then, is what it has inherited.
    head = filled.head("fix-cache/heir").seq
    assert fold(filled.events("fix-cache/heir"), head).archived and archived(f"fix-cache/heir@{head - 1}")


def test_filters(gj: Gj, filled: Journal) -> None:
    def listed(*words: str) -> list[str]:
        return [json.loads(line)["session"] for line in gj("sessions", "--json", *words).stdout.splitlines()]

    assert listed("--label", "urgent") == ["fix-cache"] and listed("--since", "1h") == ["fix-parser", "fix-cache"]
    assert listed("-n", "1") == ["fix-parser"] and listed("-n", "0") == ["fix-parser", "fix-cache"]
    assert listed("--status", "terminated") == [] and len(listed("--status", "idle")) == 2
    assert "no session that fits" in gj("sessions", "--project", "nowhere").stderr
    assert gj("sessions", "--since", "soon", ok=False).exit_code == EXIT["usage"]


def test_a_project_is_found_by_the_link_to_it_and_by_what_it_leads_to(
    gj: Gj, place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal, (real, link) = gitjournal.init(place), (tmp_path / "real", tmp_path / "link")
    real.mkdir()
    link.symlink_to(real)
    journal.session("begun", source="console", project=link).close()
    # An import keeps the folder as its recorder had it.
    journal.session("imported", create=True, start=Draft("session.start", {"project": str(link)})).close()
    for folder, found in (
        (link, {"begun", "imported"}),
        (real, {"begun"}),
        (f"{link}/../link/.", {"begun", "imported"}),
    ):
        rows = gj("sessions", "--project", folder, "--json").stdout.splitlines()
        assert {json.loads(row)["session"] for row in rows} == found
    strange = tmp_path / os.fsdecode(b"d\xff")
    strange.mkdir()
    assert "no session that fits" in gj("sessions", "--project", strange).stderr
    monkeypatch.chdir(strange)
    assert "no session that fits" in gj("sessions", "--project", ".").stderr


def test_a_label_that_is_no_text_is_refused(gj: Gj, filled: Journal) -> None:
    for label in (os.fsdecode(b"\xff"), "x" * 65, "a\nb"):
        run = gj("sessions", "--label", label, ok=False)
        assert run.exit_code == EXIT["usage"] and run.stderr.startswith("gj: ") and "is no label" in run.stderr


def test_a_name_that_means_a_branch_and_a_session_lists_both(gj: Gj, filled: Journal) -> None:
    both = (Name("fix-cache/try"), Name("fix-cache", "try"))
    git("update-ref", ref_name(both[0]), "refs/heads/fix-cache/main", cwd=filled.path)
    git("update-ref", ref_name(both[1]), "refs/heads/fix-cache/main", cwd=filled.path)
    run = gj("log", "fix-cache/try", ok=False)
    assert run.exit_code == 1 and "can mean branch" in run.stderr and "fix-cache/try/main" in run.stderr


def test_a_name_that_was_completed_is_said(gj: Gj, filled: Journal) -> None:
    assert "'fix-c' is taken for fix-cache" in gj("log", "fix-c").stderr
    assert gj("log", "fix-cache").stderr == ""


@pytest.mark.parametrize(
    "words",
    [("sessions", "--label", ""), ("sessions", "--project", ""), ("sessions", "--since", ""),
     ("search", "x", "--since", ""), ("cost", ""), ("cost", "--since", ""), ("cost", "--prices", ""), ("log", "")],
)  # fmt: skip
def test_an_empty_word_is_not_taken_for_everything(gj: Gj, filled: Journal, words: tuple[str, ...]) -> None:
    run = gj(*words, ok=False)
    assert run.exit_code in (2, 4) and not run.stdout and run.stderr.startswith("gj: ")
    assert "Did you mean" not in run.stderr


def test_any_number_of_sessions_can_be_asked_for(gj: Gj, filled: Journal) -> None:
    assert gj("sessions", "-n", 10**30).stdout == gj("sessions").stdout


def test_a_session_that_cannot_be_read_is_listed_since_whenever(gj: Gj, filled: Journal, place: Path) -> None:
    (place / "refs" / "heads" / "fix-parser" / "main").write_text("2" * 40 + "\n")
    run = gj("sessions", "--since", "2100-01-01", ok=False)
    assert run.exit_code == 1 and "fix-parser" in run.stdout and "fix-cache" not in run.stdout


def test_more_than_fifty_are_cut_and_that_is_said(gj: Gj, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cli_find, "_SHOWN", 3)
    journal = gitjournal.init(place)
    assert "no session in" in gj("sessions").stderr
    for number in range(5):
        journal.session(f"s{number}", create=True).close()
    result = gj("sessions")
    assert len(result.stdout.splitlines()) == 4 and "more than these 3" in result.stderr
    assert len(gj("sessions", "--json").stdout.splitlines()) == 5 and gj("sessions", "-n", 0).stderr == ""


def test_a_session_that_is_written_to_is_live(gj: Gj, filled: Journal) -> None:
    with filled.session("fix-cache/try-b") as s:
        s.append("message", said("go"), actor="user")
        (row,) = (json.loads(line) for line in gj("sessions", "--json", "--status", "running").stdout.splitlines())
        assert row["session"] == "fix-cache" and row["live"] and row["stop_reason"] is None
        assert "● running" in gj("sessions").stdout
    rows = {row["session"]: row for row in map(json.loads, gj("sessions", "--json").stdout.splitlines())}
    assert not rows["fix-cache"]["live"] and rows["fix-cache"]["status"] == "idle"


def test_a_branch_that_is_written_to_says_it_whichever_is_newest(gj: Gj, filled: Journal) -> None:
    filled.branch("fix-cache", 3, "try-c")
    with filled.session("fix-cache/try-b") as s:
        s.user("go")
        filled.branch("fix-cache", 4, "newest")
        with filled.session("fix-cache/newest") as other:
            other.append("turn.start", {}, turn="t")
            other.append("turn.end", {"outcome": "completed"}, turn="t")
        rows = {row["session"]: row for row in map(json.loads, gj("sessions", "--json").stdout.splitlines())}
        assert (rows["fix-cache"]["live"], rows["fix-cache"]["status"]) == (True, "running")
        assert not rows["fix-parser"]["live"]
    rows = {row["session"]: row for row in map(json.loads, gj("sessions", "--json").stdout.splitlines())}
    assert (rows["fix-cache"]["live"], rows["fix-cache"]["stop_reason"]) == (False, "completed")


def test_short_numbers_are_short() -> None:
    numbers = (0, 999, 1000, 15_300, 999_949, 999_950, 999_999, 1_000_000, 2_100_000)
    assert [short_number(one) for one in numbers] == ["0", "999", "1k", "15.3k", "999.9k", "1M", "1M", "1M", "2.1M"]


# --- search --------------------------------------------------------------------------------------


def test_search(gj: Gj, filled: Journal) -> None:
    lines = gj("search", "cache").stdout.splitlines()
    assert lines[0].startswith("fix-cache@1 ") and lines[0].endswith("Cache repair")
    assert {line.split()[0] for line in lines} == {"fix-cache@1", "fix-cache@2", "fix-cache@4", "fix-cache/try-b@5"}
    assert gj("search", "--in", "title,summary", "cache").stdout.splitlines() == lines[:1]
    assert gj("search", "cache", "-n", "1").stdout.splitlines() == lines[:1]
    assert "\x1b[1;31mCache\x1b[0m repair" in gj("search", "cache", "--color", "always").stdout
    hit = json.loads(gj("search", "why", "is", "--json").stdout)
    assert (hit["name"], hit["seq"], hit["snippet"][slice(*hit["matches"][0])]) == ("fix-cache@2", 2, "why")
    assert gj("search", "red", "--session", "fix-p").stdout.startswith("fix-parser@2 ")
    assert "\x1b" not in gj("search", "red").stdout


@pytest.mark.parametrize("words", [['"open'], ["..."], ["x", "--in", "nowhere"], ["x", "--since", "?"], []])
def test_bad_searches_are_one_line(gj: Gj, filled: Journal, words: list[str]) -> None:
    result = gj("search", *words, ok=False)
    assert result.exit_code == EXIT["usage"] and result.stdout == ""
    assert len([line for line in result.stderr.splitlines() if line.startswith("gj: ")]) == 1


@pytest.mark.parametrize("text", ["cache NOT slow", "NEAR(cache slow, 3)", "title:why"])
def test_who_means_operators_of_the_database_is_told_ours(gj: Gj, filled: Journal, text: str) -> None:
    result = gj("search", text, ok=False)
    assert (result.exit_code, result.stdout) == (1, "") and "leave out with -word" in result.stderr
    assert "-word" not in gj("search", "not there", ok=False).stderr


def test_a_search_in_one_branch_is_refused(gj: Gj, filled: Journal) -> None:
    found = gj("search", "cache", "--session", "fix-cache").stdout
    assert found and gj("search", "cache", "--session", "fix-ca").stdout == found
    for name in ("fix-cache/try-b", "fix-cache/main", "fix-cache/tr", "fix-cache@1"):
        run = gj("search", "cache", "--session", name, ok=False)
        assert run.exit_code == EXIT["usage"] and "is not a whole session" in run.stderr and not run.stdout


def test_archived_sessions_are_searched_when_asked_for(gj: Gj, filled: Journal) -> None:
    with filled.session("fix-parser") as s:
        s.update(archived=True)
    assert gj("search", "red", ok=False).exit_code == 1
    for words in (["--archived"], ["--session", "fix-parser"]):
        assert gj("search", "red", *words).stdout.startswith("fix-parser@2 ")


@pytest.mark.parametrize(
    "words", [("erase", "fix-parser", "2", "--reason", "asked for"), ("delete", "fix-parser", "--yes")]
)
def test_what_was_erased_or_deleted_is_not_in_the_index_any_more(
    gj: Gj, filled: Journal, words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    def held() -> bool:
        files = index_db.place(filled.path).parent.glob("index.sqlite*")
        return any(b"parse" in path.read_bytes().replace(b"fix-parser", b"") for path in files)

    gj("search", "parse")
    assert held()
    result = gj(*words)
    assert not held() and "index" not in result.output
    with filled.session("other", create=True) as s:
        s.append("message", said("parse"), actor="user")
    gj("sessions")
    monkeypatch.setattr(index_db, "PATIENCE", 0.05)
    with closing(sqlite3.connect(index_db.place(filled.path), isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        again = gj(words[0], "other", *words[2:], ok=False)
    assert "the index may hold what was said until gj sessions" in again.stderr and held()
    assert again.exit_code == (words[0] == "erase"), "what was to be erased is still there"


@pytest.mark.parametrize("kind", ["link", "pipe", "folder of nobody"])
def test_a_ref_that_is_no_file_stops_nothing_else(gj: Gj, filled: Journal, place: Path, kind: str) -> None:
    folder = place / "refs" / "heads" / "junk"
    folder.mkdir()
    if kind == "pipe":
        os.mkfifo(folder / "odd")
    else:
        (folder / "odd").symlink_to(place / "refs" / "heads" / "fix-cache" / "main" if kind == "link" else "/nothing")
    for _ in range(2):
        run = gj("sessions", ok=False)
        assert run.exit_code == 1 and "fix-parser" in run.stdout
        assert re.search("junk .*is a link, a pipe", run.stdout)
        run = gj("search", "parse", ok=False)
        assert run.exit_code == 1 and run.stdout.startswith("fix-parser@2")
        assert "one branch was not looked into, because of damage: gj sessions says why" in run.stderr
        assert gj("search", "--session", "fix-parser", "parse").stderr == ""
        assert "input" in gj("cost", "fix-parser", ok=False).stdout
        assert gj("wakes", ok=False).exit_code in (0, 1)


def test_nothing_found_is_exit_one(gj: Gj, filled: Journal) -> None:
    for words in (("search", "nowhere"), ("grep", "nowhere"), ("grep", "another", "fix-cache/main")):
        result = gj(*words, ok=False)
        assert (result.exit_code, result.stdout) == (1, "")


class Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_how_far_the_index_is_is_shown_on_a_terminal_and_wiped_out(
    filled: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cli_find, "_QUIET", 0.0)
    monkeypatch.setattr(sys, "stderr", screen := Screen())
    assert cli_find._ask(App(), filled, index_query.sessions)
    assert re.fullmatch("(\r\x1b\\[Kindexing, [0-9]+ events)+\r\x1b\\[K", screen.getvalue())


def test_reindex(gj: Gj, filled: Journal) -> None:
    assert gj("reindex").stdout.startswith("indexed 3 sessions, 4 branches, 10 events in ")
    told = json.loads(gj("reindex", "--json").stdout)
    assert (told["sessions"], told["branches"], told["events"]) == (3, 4, 10)
    (filled.path / "gitjournal" / "index.sqlite").write_bytes(b"nonsense")
    assert "making a new one" in gj("sessions").stderr and gj("sessions").stderr == ""


# --- grep ----------------------------------------------------------------------------------------


def test_grep(gj: Gj, filled: Journal) -> None:
    assert gj("grep", "cache").stdout.splitlines() == [
        "fix-cache@2: why is the cache slow?",
        "fix-cache@4: cache.py:7: def get(key)",
        "fix-cache/try-b@5: another cache",
    ]
    assert "fix-cache@1: Cache repair" in gj("grep", "-i", "cache").stdout.splitlines()
    assert gj("grep", "-F", "get(key)").stdout == "fix-cache@4: cache.py:7: def get(key)\n"
    assert gj("grep", "^it").stdout == "fix-cache@2: it was quick before\n"
    assert gj("grep", "cache", "--type", "tool.*").stdout.startswith("fix-cache@4: ")
    assert gj("grep", "stdout", ok=False).exit_code == 1
    found = json.loads(gj("grep", "end$", "--json").stdout)
    assert found == {"name": "fix-cache@4", "seq": 4, "type": "tool.result", "actor": "tool:sh", "line": "end",
                     "begin": 0, "end": 3}  # fmt: skip
    assert gj("grep", "red").stdout == "fix-parser@2: parse \\x1b[31mred\\x1b[0m this\n"
    assert "\x1b[1;31mslow\x1b[0m" in gj("grep", "slow", "--color", "always").stdout


def test_grep_finds_nothing_in_what_is_withheld(gj: Gj, filled: Journal) -> None:
    gj("erase", "fix-cache", "2", "--reason", "asked for")
    for words in ((".*slow.*",), ("-F", "slow"), ("--type", "message", "slow")):
        result = gj("grep", *words, ok=False)
        assert (result.exit_code, result.output) == (1, "")
    assert gj("grep", ".", "--type", "message").stdout.startswith("fix-cache/try-b@5: ")


def test_grep_takes_a_session_a_branch_or_the_part_up_to_an_event(gj: Gj, filled: Journal) -> None:
    def places(*words: str) -> list[str]:
        return [line.split(":")[0] for line in gj("grep", "cache", *words).stdout.splitlines()]

    assert places("fix-cache") == ["fix-cache@2", "fix-cache@4", "fix-cache/try-b@5"]
    assert places("fix-cache/main") == ["fix-cache@2", "fix-cache@4"] and places("fix-cache@3") == ["fix-cache@2"]
    assert places("fix-cache/try-b") == ["fix-cache/try-b@2", "fix-cache/try-b@5"]


def test_search_and_grep_give_a_shared_event_to_the_branch_that_wrote_it(gj: Gj, filled: Journal) -> None:
    filled.branch("fix-cache", 4, "a")
    filled.fork("fix-cache/a", 4, "a-fork")
    with filled.session("fix-cache/a") as s:
        s.append("message", said("as slow as before"), actor="user")
    found = [line.split()[0].rstrip(":") for line in gj("grep", "slow").stdout.splitlines()]
    # The trunk stands first, whatever the others are called.
    assert found == ["fix-cache@2", "fix-cache/a@6"]
    assert sorted(line.split()[0] for line in gj("search", "slow").stdout.splitlines()) == sorted(found)
    assert gj("grep", "slow", "fix-cache/a").stdout.startswith("fix-cache/a@2: ")


def test_grep_takes_a_line_to_end_at_line_breaks_alone(gj: Gj, place: Path) -> None:
    odd = [f"one{char}two" for char in "\x0b\x0c\x1c\x85\u2028\u2029"]
    with gitjournal.init(place).session("s", create=True) as s:
        s.append("message", said("\r\n".join([*odd, "", "a\rb"]) + "\n"), actor="user")
    for text in odd:
        assert json.loads(gj("grep", "-F", text, "--json").stdout)["line"] == text
    assert [json.loads(one)["line"] for one in gj("grep", "^(.|)$", "--json").stdout.splitlines()] == ["", "a", "b"]


def test_grep_finds_what_is_in_a_side_file_and_in_escapes(gj: Gj, place: Path) -> None:
    with gitjournal.init(place).session("s", create=True) as s:
        s.append("message", said("x" * 70_000 + "\nneedle here\n"), actor="user")
        s.append("message", said('say "needle"'), actor="user")
    assert gj("grep", "-F", "needle").stdout.splitlines() == ["s@2: needle here", 's@3: say "needle"']
    assert gj("grep", "-F", 'say "needle"').stdout == 's@3: say "needle"\n'


def test_a_pattern_that_never_ends_is_stopped(filled: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    with filled.session("fix-parser") as s:
        s.append("message", said("a" * 40 + "!"), actor="user")
    monkeypatch.setattr(grep, "PATIENCE", 1.0)
    with pytest.raises(UsageError, match="takes too long on fix-parser@3"):
        list(grep.everywhere(filled, filled.sessions(), grep.wanted("(a+)+$")))


def test_grep_works_in_a_thread(filled: Journal) -> None:
    found: list[Any] = []
    work = threading.Thread(
        target=lambda: found.extend(grep.everywhere(filled, filled.sessions(), grep.wanted("slow")))
    )
    work.start()
    work.join()
    assert [(str(one.name), one.seq) for one in found] == [("fix-cache", 2)]


def test_a_damaged_branch_does_not_hide_what_others_have(gj: Gj, filled: Journal, place: Path) -> None:
    (place / "refs" / "heads" / "fix-parser" / "main").write_text("1" * 40 + "\n")
    result = gj("grep", "slow", ok=False)
    assert (
        result.exit_code == 1 and result.stdout == "fix-cache@2: why is the cache slow?\n" and "111111" in result.stderr
    )
    result = gj("sessions", ok=False)
    assert result.exit_code == 1 and "missing-object" in result.stdout and "Cache repair" in result.stdout
    git("update-ref", "-d", "refs/heads/fix-parser/main", cwd=place)
    assert gj("sessions").exit_code == 0


@pytest.mark.parametrize("pattern", ["(", "a{99999999999}", "(?P<n>x)(?P<n>y)", "\\"])
def test_a_pattern_that_is_none(gj: Gj, filled: Journal, pattern: str) -> None:
    result = gj("grep", pattern, ok=False)
    assert result.exit_code == EXIT["usage"] and "-F takes it as plain text" in result.stderr


# --- names ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "name", "seq"),
    [
        ("fix-cache", "fix-cache", None),
        ("fix-c", "fix-cache", None),
        ("fix-c@2", "fix-cache", 2),
        ("cache", "fix-cache", None),
        ("CACHE@3", "fix-cache", 3),
        ("fxcche", "fix-cache", None),
        ("fix-cache/t", "fix-cache/try-b", None),
        ("fix-c/try@4", "fix-cache/try-b", 4),
        ("ache/try", "fix-cache/try-b", None),
        ("änd", "Änderung", None),
    ],
)
def test_a_part_of_a_name_will_do(filled: Journal, text: str, name: str, seq: int | None) -> None:
    target = find(filled, text)
    assert (str(target.name), target.seq) == (name, seq)


def test_an_exact_name_wins_over_longer_ones(filled: Journal) -> None:
    for name in ("fix", "fix-cache-2"):
        filled.session(name, create=True).close()
    assert str(find(filled, "fix").name) == "fix" and str(find(filled, "fix-cache").name) == "fix-cache"


@pytest.mark.parametrize("text", ["fix", "fix-", "ix-", "fix@2"])
def test_an_ambiguous_name_lists_its_candidates(gj: Gj, filled: Journal, text: str) -> None:
    gj("sessions")
    result = gj("show", text, ok=False)
    assert result.exit_code == 1 and result.stdout == ""
    assert "can be 2 sessions" in result.stderr and "fix-cache (Cache repair), fix-parser (parse" in result.stderr


@pytest.mark.parametrize("text", ["fix-c", "cache", "fix-cache/t", "fxcche", "zz", ""])
def test_only_an_exact_name_will_do_where_something_could_be_lost(filled: Journal, text: str) -> None:
    with pytest.raises(JournalError):
        find(filled, text, by="whole")
    assert find(filled, "fix-cache/try-b@2", by="whole").name == Name("fix-cache", "try-b")


def test_a_name_that_is_near_to_none_says_so(filled: Journal) -> None:
    for text in ("zz", "zzz", "f/zzz", "fix-cachy", "/", "@3"):
        with pytest.raises((NotFound, UsageError)):
            find(filled, text)


def test_what_looks_like_a_hash_is_a_name_before_it_is_one(filled: Journal) -> None:
    digest = filled.event("fix-cache", 3).hash
    filled.session(f"{digest[:8]}-session", create=True).close()
    assert str(find(filled, digest[:8]).name) == f"{digest[:8]}-session"
    assert str(find(filled, digest[:12])) == "fix-cache@3"


def test_the_beginning_of_several_ids_that_could_be_a_hash_lists_its_candidates(gj: Gj, filled: Journal) -> None:
    for name in ("abcdef01-1111", "abcdef01-2222"):
        with filled.session(name, create=True):
            pass
    for text in ("abcdef01", "abcdef0", "abcdef01@1"):
        run = gj("log", text, ok=False)
        assert run.exit_code == 1 and "abcdef01-1111, abcdef01-2222" in run.stderr and "by hash" not in run.stderr
    # What is the beginning of an event's hash as well.
    prefix = filled.head("fix-parser").hash[:7]
    for name in (f"{prefix}-a", f"{prefix}-b"):
        with filled.session(name, create=True):
            pass
    run = gj("log", prefix, ok=False)
    assert run.exit_code == 1 and "2 sessions or branches, or 1 event by hash" in run.stderr


def test_a_pattern_of_log_that_never_ends_is_stopped(gj: Gj, filled: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    with filled.session("fix-parser") as s:
        s.append("message", said("a" * 40 + "!"), actor="user")
    monkeypatch.setattr(grep, "PATIENCE", 1.0)
    for words in ((), ("--graph",), ("--reverse",)):
        run = gj("log", "fix-parser", "--grep", "(a+)+$", *words, ok=False)
        assert run.exit_code == 2 and "the pattern takes too long on event 3 of fix-parser" in run.stderr


def test_ranges_take_a_part_of_a_name(filled: Journal) -> None:
    assert find_range(filled, "fix-c@2..3") == (Name("fix-cache"), 2, 3)
    assert find_range(filled, "cache") == (Name("fix-cache"), 1, None)


@pytest.mark.parametrize(
    "text", ["", "7", "d", "7 d", "-1d", "99999999d", "2026-13-01", "yesterday", "999999w", "1e3d"]
)
def test_what_is_no_time(text: str) -> None:
    with pytest.raises(UsageError):
        since(text)


def test_times() -> None:
    assert since("2026-11-03") == "2026-11-03T00:00:00.000Z"
    assert since("2026-11-03T10:00:00.123456+02:00") == "2026-11-03T08:00:00.123Z"
    assert since("1w") < since("6d") < since("1h") < since("30m")
