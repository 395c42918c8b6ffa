"""A session as a whole: title, summary, labels, put away, ended; and what older journals have for them."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from golden import make
from hypothesis import given
from hypothesis import strategies as st
from support import ROOT, Gj, git

import gitjournal
from gitjournal.event import Event
from gitjournal.journal import Journal
from gitjournal.lineage import backwards
from gitjournal.refs import Name
from gitjournal.state import SessionState, fold
from gitjournal.summary import MESSAGES, MOST, automatic, last_said
from gitjournal.verify import verify

GOLDEN = ROOT / "tests" / "golden"


@pytest.fixture
def place(journal: Journal) -> Path:
    with journal.session("s1", source="console") as s:
        for n in range(4):
            s.user(f"question {n}\nwith two lines")
            s.model_response(f"answer {n}")
    return journal.path


def state(place: Path, name: str = "s1") -> SessionState:
    return fold(gitjournal.open(place).events(name))


def newest(place: Path) -> Mapping[str, Any]:
    journal = gitjournal.open(place)
    return journal.event("s1", journal.head("s1").seq).data


# --- the commands --------------------------------------------------------------------------------


def test_a_title_is_given_printed_and_removed(gj: Gj, place: Path) -> None:
    assert gj("title", "s1").stdout == ""
    done = gj("title", "s1", "The cache bug").stdout
    head = gitjournal.open(place).head("s1")
    assert done == f"s1@{head.seq} {head.hash}\n" and newest(place) == {"title": "The cache bug"}
    assert gj("title", "s1").stdout == "The cache bug\n"
    assert json.loads(gj("title", "s1", "--json").stdout) == {"name": "s1", "title": "The cache bug"}
    out = json.loads(gj("title", "s1", "", "--json").stdout)
    assert out == {"name": "s1", "seq": head.seq + 1, "hash": gitjournal.open(place).head("s1").hash, "title": ""}
    assert state(place).title == ""


def test_a_summary_is_written_or_made_from_what_was_said_last(gj: Gj, place: Path) -> None:
    before = gitjournal.open(place).head("s1")
    shown = gj("summary", "s1")
    lines = [f"{role}: {text}" for n in (1, 2, 3)
             for role, text in (("user", f"question {n} with two lines"), ("assistant", f"answer {n}"))]  # fmt: skip
    assert shown.stdout.splitlines() == lines and "nobody has written a summary" in shown.stderr
    out = json.loads(gj("summary", "s1", "--json").stdout)
    assert out == {"name": "s1", "summary": "\n".join(lines), "automatic": True}
    assert gitjournal.open(place).head("s1") == before
    gj("summary", "s1", "-", stdin="It was the cache.\nFixed.\n")
    assert newest(place) == {"summary": "It was the cache.\nFixed."}
    assert gj("summary", "s1").stdout == "It was the cache.\nFixed.\n"
    assert json.loads(gj("summary", "s1", "--json").stdout)["automatic"] is False
    gj("summary", "s1", "")
    assert json.loads(gj("summary", "s1", "--json").stdout)["automatic"] is True


def test_white_space_alone_is_no_title_and_no_summary(gj: Gj, place: Path) -> None:
    gj("summary", "s1", "   \n")
    assert newest(place) == {"summary": ""} and "nobody has written a summary" in gj("summary", "s1").stderr
    gj("title", "s1", "  The cache bug ")
    assert newest(place) == {"title": "The cache bug"}
    gj("title", "s1", "  ")
    assert newest(place) == {"title": ""} and "question 0" in gj("sessions").stdout
    # As an import may have it.
    gj("append", "s1", "--type", "session.update", '{"title": "  ", "summary": "\\n "}')
    assert "question 0" in gj("sessions").stdout
    assert json.loads(gj("summary", "s1", "--json").stdout)["automatic"] is True


def test_what_is_of_one_branch_alone_is_told(gj: Gj, place: Path) -> None:
    gitjournal.open(place).branch("s1", 2, "b")
    for words in (("title", "s1/b", "x"), ("summary", "s1/b", "x"), ("label", "s1/b", "+x")):
        assert "of s1/b alone: lists show what the trunk says" in gj(*words).stderr
    for words in (("title", "s1", "x"), ("label", "s1", "+x"), ("terminate", "s1/b")):
        assert gj(*words).stderr == ""


def test_a_session_in_which_nothing_was_said(gj: Gj, place: Path) -> None:
    gj("append", "s2", "--create", "--type", "x.note", "{}")
    shown = gj("summary", "s2")
    assert shown.stdout == "" and "nothing was said" in shown.stderr


def test_what_nobody_said_begins_no_title_and_is_not_summed_up(gj: Gj, place: Path) -> None:
    with gitjournal.open(place).session("s3", source="console") as s:
        s.append("message", {"role": "user", "parts": [{"type": "text", "content": "Caveat"}], "injected": True})
        s.append("message", {"role": "user", "parts": [{"type": "text", "content": "aside"}], "sidechain": True})
        s.user("Why is the build red?")
        s.append("message", {"role": "user", "parts": [{"type": "text", "content": "more"}], "continues": True})
    assert gj("summary", "s3").stdout == "user: Why is the build red?\nuser: more\n"
    line = next(line for line in gj("sessions").stdout.splitlines() if line.startswith("s3"))
    assert line.endswith("Why is the build red?")


def test_an_automatic_summary_reads_the_end_of_a_session_only(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal, seen = gitjournal.open(place), 0

    def counted() -> Iterator[Event]:
        nonlocal seen
        for event in backwards(journal.chain(Name("s1")), 1, journal.head("s1").seq):
            seen += 1
            yield event

    entries = last_said(counted())
    assert automatic(entries) == automatic(fold(journal.events("s1")).history) and len(entries) == MESSAGES
    assert seen < journal.head("s1").seq


def test_what_a_summary_says_cannot_control_the_terminal(gj: Gj) -> None:
    gj("summary", "s1", "a\x1b[31mb")
    assert gj("summary", "s1").stdout == "a\\x1b[31mb\n"


def test_labels_are_added_and_taken_off(gj: Gj, place: Path) -> None:
    gj("label", "s1", "+bug", "draft", "--add", "-odd", "--add", "+plus")
    assert newest(place) == {"add_labels": ["+plus", "-odd", "bug", "draft"]}
    out = json.loads(gj("label", "s1", "-draft", "--remove", "-odd", "-hot", "+new", "--json").stdout)
    assert (out["added"], out["removed"]) == (["new"], ["-odd", "draft", "hot"])
    assert gj("label", "s1").stdout.split() == ["+plus", "bug", "new"] == state(place).labels
    assert json.loads(gj("label", "s1", "--json").stdout) == {"name": "s1", "labels": ["+plus", "bug", "new"]}


def test_options_of_gj_are_no_labels(gj: Gj, place: Path) -> None:
    gj("label", "-J", place, "s1", "+a")
    gj("label", "s1", "-a", f"-J{place}", "--journal", place)
    assert state(place).labels == []
    assert "Usage" in gj("label", "-h").stdout


def test_put_away_taken_back_and_ended(gj: Gj, place: Path) -> None:
    out = json.loads(gj("archive", "s1", "--json").stdout)
    assert out["archived"] is True and state(place).archived
    head = state(place).last_seq
    again = gj("archive", "s1", ok=False)
    assert again.exit_code == 1 and "s1 is archived already; nothing was written" in again.stderr
    gj("unarchive", "s1")
    assert not state(place).archived
    again = gj("unarchive", "s1", ok=False)
    assert again.exit_code == 1 and "s1 is not archived; nothing was written" in again.stderr
    assert state(place).last_seq == head + 1
    gj("terminate", "s1", "--reason", "done")
    found = state(place)
    assert found.terminated == {"seq": found.last_seq, "reason": "done"}
    again = gj("terminate", "s1", ok=False)
    assert again.exit_code == 1 and f"terminated already, by event {found.last_seq}" in again.output
    assert state(place).last_seq == found.last_seq


@pytest.mark.parametrize("words", [("title", "s1", "x"), ("label", "s1", "+x"), ("archive", "s1"), ("terminate", "s1")])
def test_what_is_written_to_is_not_managed_from_outside(gj: Gj, place: Path, words: tuple[str, ...]) -> None:
    with gitjournal.open(place).session("s1"):
        refused = gj(*words, ok=False)
    # A branch is no way out: it would not be this session that changes.
    assert refused.exit_code == 1 and "s1 is being written by process" in refused.stderr
    assert "let that program do it" in refused.stderr and "gj branch" not in refused.stderr


def test_a_whole_session_is_archived_and_not_one_branch(gj: Gj, place: Path) -> None:
    journal = gitjournal.open(place)
    journal.branch("s1", 2, "b")
    for command in ("archive", "unarchive"):
        refused = gj(command, "s1/b", ok=False)
        assert refused.exit_code == 2 and "archived is a whole session: name s1" in refused.output
    assert journal.head("s1/b").seq == 3
    gj("archive", "s1")
    assert "Session is archived" in gj("resume", "s1/b", ok=False).output
    gj("unarchive", "s1")
    gj("resume", "s1/b")
    gj("terminate", "s1")
    assert "Session is terminated" in gj("resume", "s1/b", ok=False).output


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (("title", "s1", "x" * (1 << 17)), 2, "131,072"),
        (("title", "s1", "a\nb"), 2, "one line"),
        (("title", "s1", "a\x1bb"), 2, "without control characters, not 'a\\x1bb'"),
        (("title", "s1", "x" * 201), 2, "without control characters; this one has 201"),
        (("title", "nobody", "x"), 4, "nobody"),
        (("title", "s1@2", "x"), 2, "one event"),
        (("summary", "s1", "x" * 20_000), 2, "20,000"),
        (("label", "s1", "a\tb"), 2, "a\\tb"),
        (("label", "s1", "+"), 2, "1 to 64"),
        (("label", "s1", "x" * 65), 2, "1 to 64"),
        (("label", "s1", "+a", "-a"), 2, "'a'"),
        (("terminate", "s", "--reason", "x"), 4, "s1"),
        (("archive", "journal"), 2, "journal"),
    ],
)
def test_what_they_refuse(gj: Gj, place: Path, words: tuple[str, ...], status: int, said: str) -> None:
    before = git("for-each-ref", cwd=place).stdout
    refused = gj(*words, ok=False)
    assert refused.exit_code == status and said in refused.output, refused.output
    assert refused.stdout == "" and refused.output.startswith("gj: ") and len(refused.output) < 600
    assert git("for-each-ref", cwd=place).stdout == before


def test_a_summary_that_is_no_text(gj: Gj, place: Path) -> None:
    for raw in (b"\xff", b"x" * (1 << 20), b"a\x00" * 20_000):
        refused = gj("summary", "s1", "-", stdin=raw, ok=False)
        assert refused.exit_code == 2 and refused.stdout == ""
    assert gitjournal.open(place).head("s1").seq == 9


def test_a_command_leaves_no_seal_behind(gj: Gj, place: Path) -> None:
    gj("key", "--new", place / "key", "--sign", "seal")
    gj("title", "s1", "x")
    assert newest(place) == {"title": "x"}
    gj("key", place / "key", "--sign", "every")
    gj("title", "s1", "y")
    assert b"gpgsig" in git("cat-file", "commit", "s1/main", cwd=place).stdout


def test_what_a_fork_or_branch_cannot_do_from_its_beginning_is_told(gj: Gj, place: Path) -> None:
    assert gj("fork", "s1", "plain").stderr == gj("branch", "s1", "plain").stderr == ""
    gj("archive", "s1")
    fork = gj("fork", "s1@10", "away")
    assert fork.stderr == "gj: away is archived, as s1@10 is: gj unarchive away\n" and "away@11" in fork.stdout
    assert "s1/away is archived, as all of its session is: gj unarchive s1\n" in gj("branch", "s1", "away").stderr
    assert gj("fork", "s1@9", "before").stderr == ""
    gj("unarchive", "away")
    assert "away" in gj("sessions").stdout and gj("resume", "away").exit_code == 0
    gj("unarchive", "s1")
    gj("terminate", "s1")
    said = gj("fork", "s1", "over", "--json").stderr
    assert said == "gj: over is terminated, as s1@12 is; what came before can go on: gj fork over@11 NEW\n"
    assert gj("resume", "over", ok=False).exit_code == 1
    gj("fork", "over@11", "on")
    assert gj("resume", "on").exit_code == 0
    said = gj("branch", "s1@11", "over").stderr
    assert said == "gj: s1/over is terminated, as all of its session is; it can go on: gj fork s1/over NEW\n"


# --- the automatic summary -----------------------------------------------------------------------

ENTRY = st.fixed_dictionaries(
    {
        "role": st.sampled_from(["user", "assistant", "tool", "system"]),
        "parts": st.lists(
            st.fixed_dictionaries({"type": st.sampled_from(["text", "reasoning"]), "content": st.text() | st.none()}),
            max_size=3,
        ),
    }
)


@given(st.lists(ENTRY, max_size=12))
def test_an_automatic_summary_is_short_and_has_what_was_said_last(entries: list[dict[str, Any]]) -> None:
    text = automatic(entries)
    lines = text.splitlines() if text else []
    assert len(text) <= MOST and len(lines) <= MESSAGES
    assert all(line.startswith(("user: ", "assistant: ")) for line in lines)


def test_of_long_messages_it_has_2000_characters() -> None:
    entry = {"role": "user", "parts": [{"type": "text", "content": "x" * 5000}]}
    assert automatic([entry]) == "user: " + "x" * (MOST - 6)


# --- journals of older versions ------------------------------------------------------------------


@pytest.mark.parametrize("version", sorted(make.MADE))
def test_golden_journal_loads_with_defaults(version: str, tmp_path: Path) -> None:
    git("clone", "-q", "--bare", GOLDEN / f"{version}.bundle", tmp_path / "old.git")
    journal = gitjournal.open(tmp_path / "old.git")
    expected = json.loads((GOLDEN / f"{version}.json").read_text())
    assert {str(name): journal.head(name).hash for name in journal.sessions()} == expected["heads"]
    for name, wanted in expected["states"].items():
        found = fold(journal.events(name)).as_dict()
        assert {member: found[member] for member in wanted} == wanted, name
        assert verify(journal, name).ok
    with journal.session("plain") as s:
        s.title("Goes on")
    assert fold(journal.events("plain")).title == "Goes on"


@pytest.mark.parametrize("version", sorted(make.MADE))
def test_golden_journal_is_what_its_script_makes(version: str, tmp_path: Path) -> None:
    """The same ids on every machine: what the script writes has not changed since."""
    subprocess.run([sys.executable, GOLDEN / "make.py", version, tmp_path], check=True)
    heads = git("bundle", "list-heads", GOLDEN / f"{version}.bundle", cwd=tmp_path).stdout
    assert git("bundle", "list-heads", tmp_path / f"{version}.bundle", cwd=tmp_path).stdout == heads
    assert heads.count(b"refs/heads/") > 2


def test_there_is_a_golden_journal_of_the_present_format() -> None:
    assert f"v{gitjournal.journal.FORMAT}" in make.MADE
