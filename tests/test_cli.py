"""`gj`: each command as a user runs it, what it prints where, its exit status, and that reading changes nothing.

``python tests/test_cli.py`` writes docs/cli.md anew.
"""

from __future__ import annotations

import errno
import inspect
import json
import os
import pty
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st
from support import CORPUS, NOBODY, ROOT, Gj, as_nobody, git

import gitjournal
from gitjournal import cli, cli_demo, cli_find, cli_log, render
from gitjournal.cli_base import EXIT
from gitjournal.journal import Journal
from gitjournal.lineage import Begin, Line, lines
from gitjournal.refs import Name

REFERENCE = ROOT / "docs" / "cli.md"
DEMO = ROOT / "gitjournal" / "demo" / "session.jsonl"

# --- how the tests run gj ------------------------------------------------------------------------


def program(*words: object, env: Mapping[str, str] | None = None, **more: Any) -> subprocess.CompletedProcess[bytes]:
    """Run ``gj`` as a process of its own."""
    clean = {key: value for key, value in os.environ.items() if key != "GITJOURNAL_DIR"}
    command = [sys.executable, "-m", "gitjournal", *map(str, words)]
    return subprocess.run(command, env={**clean, **(env or {})}, capture_output=True, timeout=60, check=False, **more)


def message(text: str, role: str = "user") -> dict[str, Any]:
    return {"role": role, "parts": [{"type": "text", "content": text}]}


@pytest.fixture
def filled(gj: Gj, place: Path) -> Journal:
    """A journal with session ``s``: 6 events, of which ``s/b`` goes off after 4 and has 2 of its own."""
    journal = gitjournal.init(place)
    with journal.session("s", create=True) as s:
        s.append("message", message("add two numbers"), actor="user")
        s.append("tool.call", {"id": "c1", "name": "sh", "arguments": {"command": "expr 1 + 1"}}, actor="assistant")
        s.append("tool.result", {"id": "c1", "response": "2"}, actor="tool:sh")
        usage = {"gen_ai.usage.input_tokens": 1500, "gen_ai.usage.output_tokens": 7}
        s.append("model.response", {"parts": message("Two.")["parts"], "usage": usage}, actor="assistant")
        s.append("error", {"error.type": "timeout", "message": "no answer"})
    journal.branch("s", at=4, as_="b")
    with journal.session("s/b") as s:
        s.append("message", message("and three?"), actor="user")
    return journal


def left_in_tail(place: Path, name: str, number: int) -> None:
    """Append events in a process that dies before they are in git."""
    code = (
        "import gitjournal, os, sys\n"
        "s = gitjournal.open(sys.argv[1]).session(sys.argv[2], create=True)\n"
        "for n in range(int(sys.argv[3])): s.append('note', {'n': n})\n"
        "os._exit(0)\n"
    )
    subprocess.run([sys.executable, "-c", code, str(place), name, str(number)], check=True)


def seqs(result: Result) -> list[int]:
    return [json.loads(line)["seq"] for line in result.stdout.splitlines()]


# --- the program ---------------------------------------------------------------------------------


def test_help_shows_all_commands_in_their_groups(gj: Gj) -> None:
    text = gj("--help").stdout
    assert gj().stdout == text
    shown = [line.split()[0] for line in text.splitlines() if re.match(r"  [a-z]+  ", line)]
    assert shown == [command.name for group in cli.GROUPS.values() for command in group]
    positions = [text.index(f"\n{title}:\n") for title in cli.GROUPS]
    assert positions == sorted(positions)


def test_help_waits_for_nothing_heavy() -> None:
    code = (
        "import sys, gitjournal.cli as c\n"
        "try: c.main()\n"
        "except SystemExit: pass\n"
        "print(' '.join(sys.modules), file=sys.stderr)"
    )
    run = subprocess.run([sys.executable, "-c", code, "--help"], capture_output=True, text=True, check=True)
    heavy = {"pygit2", "orjson", "isal", "rfc8785", "json", "platformdirs", "subprocess", "gitjournal.objects"}
    assert not heavy & set(run.stderr.split())


def test_a_wrong_command_suggests_the_near_one(gj: Gj) -> None:
    result = gj("verfy", ok=False)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == "gj: there is no command 'verfy'; did you mean verify?\nhint: gj --help\n"


def test_every_command_has_help_and_json_where_it_has_a_result() -> None:
    for group in cli.GROUPS.values():
        for command in group:
            names = {name for param in command.params for name in param.opts}
            assert command.help and command.short_help
            without = command.name in ("cat", "demo", "hook", "prove", "pin", "witness")
            assert ("--json" in names) != without, command.name
            assert "--journal" in names or command.name == "demo"


def test_it_runs_as_a_module() -> None:
    run = program("--version")
    assert run.stdout.decode() == f"gj {gitjournal.__version__}\n"


def test_completion_knows_commands_and_names(filled: Journal) -> None:
    def complete(*words: str) -> list[str]:
        env = {"COMP_WORDS": " ".join(words), "COMP_CWORD": str(len(words) - 1), "_GJ_COMPLETE": "bash_complete"}
        # The variable's name comes from the program's, so this needs the entry point, not the module.
        code = "import sys; sys.argv[0] = 'gj'; from gitjournal.cli import main; main()"
        env = {**os.environ, **env, "GITJOURNAL_DIR": str(filled.path)}
        run = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=False)
        assert run.stderr == ""
        return [line.split(",")[1] for line in run.stdout.split()]

    assert complete("gj", "ver") == ["verify"]
    assert complete("gj", "log", "s") == ["s", "s/b"]
    assert complete("gj", "-J", "/nowhere", "log", "s") == []
    assert complete("gj", "export", "s", "--format", "cl") == ["claude-code", "claude-code-web"]


# --- which journal -------------------------------------------------------------------------------


def test_the_journal_is_made_on_the_first_write_and_not_by_reading(gj: Gj, monkeypatch: Any, tmp_path: Path) -> None:
    monkeypatch.delenv("GITJOURNAL_DIR")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    assert gj("sessions", ok=False).exit_code == EXIT["not-found"]
    assert not (tmp_path / "data").exists()
    result = gj("append", "s", "{}", "--type", "note", "--create")
    assert "made your journal at" in result.stderr
    assert seqs(gj("log", "s", "--json")) == [2, 1]


def test_a_journal_that_was_named_is_not_made_by_appending(gj: Gj, place: Path) -> None:
    for words in (("append", "s", "{}"), ("-J", place / "x", "append", "s", "{}"), ("import", DEMO)):
        result = gj(*words, *(["--type", "note", "--create"] if "append" in words else []), ok=False)
        assert result.exit_code == EXIT["not-found"] and "gj init" in result.stderr
    assert not place.exists()


def test_init_and_discovery(gj: Gj, monkeypatch: Any, place: Path) -> None:
    monkeypatch.delenv("GITJOURNAL_DIR")
    assert gj("init").stdout == f"made a journal at {Path.cwd() / '.gitjournal'}\n"
    made = {"journal": str(Path.cwd() / ".gitjournal"), "created": False}
    assert json.loads(gj("init", "--json").stdout) == made
    gj("append", "s", "{}", "--type", "note", "--create")
    deeper = Path.cwd() / "a" / "b"
    deeper.mkdir(parents=True)
    monkeypatch.chdir(deeper)
    assert "s " in gj("sessions").stdout
    gj("init", place)
    for words in (("-J", place, "sessions"), ("sessions", "-J", place), ("sessions", f"--journal={place}")):
        assert gj(*words).stdout == ""


def test_what_is_no_journal_is_refused(gj: Gj, tmp_path: Path) -> None:
    assert gj("-J", tmp_path, "sessions", ok=False).exit_code == EXIT["not-a-journal"]
    assert gj("init", tmp_path, ok=False).exit_code == EXIT["not-a-journal"]
    (tmp_path / "file").write_text("x")
    assert gj("init", tmp_path / "file", ok=False).exit_code in EXIT.values()


# --- append --------------------------------------------------------------------------------------


def test_append_takes_json_a_file_and_standard_input(gj: Gj, place: Path) -> None:
    gj("init")
    line = json.dumps({"type": "message", "data": message("hello"), "actor": "user", "turn": "t1"})
    Path("one.jsonl").write_text(line + "\n")
    first = gj("append", "s", line, "--create").stdout
    assert re.fullmatch(r"s@2 [0-9a-f]{64}\n", first)
    gj("append", "s", "one.jsonl")
    gj("append", "s", "@one.jsonl")
    gj("append", "s", stdin=f"{line}\n\n{line}")
    gj("append", "s", "-", stdin=json.dumps(json.loads(line), indent=2))
    done = gj("append", "s", '{"n": 1}', "--type", "note", "--actor", "me", "--turn", "t2", "--json").stdout
    event = gitjournal.open(place).event("s", 8)
    assert json.loads(done) == {"name": "s", "seq": 8, "hash": event.hash}
    assert (event.type, event.actor, event.turn, event.data) == ("note", "me", "t2", {"n": 1})
    for seq in range(2, 8):
        event = gitjournal.open(place).event("s", seq)
        assert (event.type, event.actor, event.turn, event.data) == ("message", "user", "t1", message("hello"))


def test_append_stores_what_stands_before_a_bad_line_and_says_so(gj: Gj, place: Path) -> None:
    gj("init")
    good = '{"type": "note", "data": {}}'
    for number, bad in enumerate(
        ('{"type": "Bad", "data": {}}', "nonsense", '{"type": "note"}', '{"data": {}, "x": 1}')
    ):
        session = f"s{number}"
        result = gj("append", session, "--create", stdin=f"{good}\n{good}\n{bad}\n{good}\n", ok=False)
        assert result.exit_code in (1, 2) and "line 3: " in result.stderr
        assert f"{session}@3" in result.stderr
        assert len(result.stdout.splitlines()) == 2
        assert gitjournal.open(place).head(session).seq == 3


def test_append_does_not_begin_a_session_with_a_mistake(gj: Gj, place: Path) -> None:
    gj("init")
    mistakes: list[tuple[Any, ...]] = [
        ('{"type": "Bad", "data": {}}',),
        ("{}", "--type", "note", "--actor", "no spaces"),
        ("{}", "--type", "note", "--turn", "no spaces"),
        ("{}", "--type", "note", "--expect", "3"),
        ('{"a": 1, "a": 2}', "--type", "note"),
        ('{"a": NaN}', "--type", "note"),
        ("[]", "--type", "note"),
        ("no file",),
        ('{"type": "session.seal", "data": {}}', "--session"),
    ]
    for words in mistakes:
        assert gj("append", "s", *words, "--create", ok=False).exit_code in (1, 2)
    assert gj("append", "s", "--create", stdin="", ok=False).exit_code == 2
    assert gj("append", "s", "{}", "--type", "note", ok=False).exit_code == EXIT["not-found"]
    assert list(gitjournal.open(place).sessions()) == []


def test_append_compares_the_head(gj: Gj) -> None:
    gj("init")
    gj("append", "s", "{}", "--type", "note", "--create", "--expect", 0)
    result = gj("append", "s", "{}", "--type", "note", "--create", "--expect", 0, ok=False)
    assert (result.exit_code, result.stdout) == (1, "") and "at seq 2, expected 0" in result.stderr
    gj("append", "s", "--expect", 2, "--type", "note", stdin="{}\n{}\n")


def test_append_as_a_commit(gj: Gj, place: Path) -> None:
    gj("init")
    gj("append", "s", "{}", "--type", "note", "--create", "--durability", "commit")
    assert gj("append", "s", "{}", "--type", "note", "--durability", "hope", ok=False).exit_code == 2
    assert gitjournal.open(place).chain(Name("s")).snapshot().in_git == 2


def test_append_of_many_and_of_much(gj: Gj, place: Path) -> None:
    gj("init")
    Path("many").write_text("".join(f'{{"n": {n}}}\n' for n in range(3000)))
    gj("append", "s", "many", "--type", "note", "--create")
    gj("append", "s", "-", "--type", "note", stdin=json.dumps({"text": "x" * 20_000_000}))
    journal = gitjournal.open(place)
    assert [event.data["n"] for event in journal.events("s", after=1, to=3001)] == list(range(3000))
    assert len(journal.event("s", 3002).data["text"]) == 20_000_000
    result = gj("append", "s", "-", "--type", "note", stdin=json.dumps(["x" * 60_000] * 300)[1:-1], ok=False)
    assert result.exit_code == 1


def test_append_gives_each_event_of_a_live_producer_at_once(place: Path) -> None:
    gitjournal.init(place)
    command = [sys.executable, "-m", "gitjournal", "-J", str(place), "append", "s", "--create", "--type", "note"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None and process.stdout is not None
        for seq in (2, 3):
            process.stdin.write(b"{}\n")
            process.stdin.flush()
            assert process.stdout.readline().startswith(b"s@%d " % seq)
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 130
    assert gitjournal.open(place).chain(Name("s")).snapshot().in_git == 3


# --- names ---------------------------------------------------------------------------------------


def test_all_ways_to_name_an_event(gj: Gj, filled: Journal) -> None:
    for name, seq in (("s", 6), ("s/main", 6), ("s@3", 3), ("s/b", 6), ("s/b@2", 2), ("s/b@5", 5)):
        shown = json.loads(gj("show", name, "--json").stdout)
        branch = "s/b" if name.startswith("s/b") else "s"
        assert (shown["name"], shown["hash"]) == (branch, filled.event(branch, seq).hash)
    digest = filled.event("s/b", 6).hash
    for prefix in (digest, digest[:12]):
        assert gj("cat", prefix).stdout_bytes == filled.event("s/b", 6).raw
    for name in ("s@7", "s@0", "s/c", "s/c@1", "x", digest[:5], "0000000"):
        result = gj("show", name, ok=False)
        assert (result.exit_code, result.stdout) == (EXIT["not-found"], ""), name
    assert "Did you mean" in gj("log", "s/bb", ok=False).stderr


def test_a_hash_that_fits_two_events_lists_them(gj: Gj, place: Path, monkeypatch: Any) -> None:
    journal = gitjournal.init(place)
    with journal.session("s", create=True) as s:
        s.append_many([("note", {"n": n}, "host") for n in range(400)])
    monkeypatch.setattr("gitjournal.cli_names._HASH", re.compile(r"[0-9a-f]{1,64}"))
    result = gj("show", "a", ok=False)
    assert result.exit_code == 1
    assert len(re.findall(r"s@\d+ \(a[0-9a-f]{4}\)", result.stderr)) == 8 and "..." in result.stderr


def test_a_session_whose_name_looks_like_a_position(gj: Gj, place: Path) -> None:
    journal = gitjournal.init(place)
    for session in ("ana@2", "s", "s@1"):
        journal.session(session, create=True).close()
    assert seqs(gj("log", "ana@2", "--json")) == [1]
    assert gj("log", "s@1", ok=False).exit_code == 1
    assert seqs(gj("log", "s@1/main", "--json")) == [1]
    assert seqs(gj("log", "s@1@1", "--json")) == [1]


@pytest.mark.parametrize(
    "words",
    [
        ("title", "?", "x"),
        ("summary", "?", "x"),
        ("label", "?", "+x"),
        ("archive", "?"),
        ("unarchive", "?"),
        ("seal", "?"),
        ("branch", "?", "new"),
        ("fork", "?", "new"),
    ],
)
def test_who_writes_may_begin_a_name_and_not_guess_it(gj: Gj, place: Path, words: tuple[str, ...]) -> None:
    journal = gitjournal.init(place)
    with journal.session("production-run", create=True) as session:
        if words[0] == "unarchive":
            session.archive()
    before = session.head.seq
    for text in ("pdn", "duction", "PRODUCTION-RUN", "Prod"):
        refused = gj(*(text if word == "?" else word for word in words), ok=False)
        assert (refused.exit_code, refused.stdout) == (EXIT["not-found"], "")
        assert refused.stderr.endswith("hint: Did you mean production-run?\n")
    assert journal.head("production-run").seq == before and len(list(journal.sessions())) == 1
    gj(*("prod" if word == "?" else word for word in words))
    assert journal.head("production-run").seq == before + 1 or len(list(journal.sessions())) == 2


@pytest.mark.parametrize(
    "words",
    [
        ("append", "?", "{}", "--type", "note"),
        ("flush", "?"),
        ("resume", "?"),
        ("compact", "?", "--summary", "x"),
        ("terminate", "?"),
        ("delete", "?", "--yes"),
        ("erase", "?", "2", "--reason", "x"),
        ("branch", "-d", "?/try"),
        ("branch", "-m", "?/try", "new"),
    ],
)
def test_what_cannot_be_undone_takes_whole_names(gj: Gj, place: Path, words: tuple[str, ...]) -> None:
    journal = gitjournal.init(place)
    with journal.session("production-run", create=True) as s:
        s.append("note", {})
    journal.branch("production-run", at=2, as_="try")
    before = git("for-each-ref", cwd=place).stdout
    for text in ("pdn", "production-ru"):
        refused = gj(*(word.replace("?", text) for word in words), ok=False)
        assert (refused.exit_code, refused.stdout) == (EXIT["not-found"], "")
    assert git("for-each-ref", cwd=place).stdout == before


def test_who_reads_is_told_what_a_part_of_a_name_is_taken_for(gj: Gj, filled: Journal) -> None:
    filled.session("production-run", create=True).close()
    read = gj("title", "pdn")
    assert read.stderr == "gj: 'pdn' is taken for production-run\n"


def test_a_name_in_another_case_is_suggested(gj: Gj, filled: Journal) -> None:
    for text, near in (("S", "s"), ("S@3", "s")):
        refused = gj("replay", text, ok=False)
        assert refused.exit_code == EXIT["not-found"] and refused.stderr.endswith(f"hint: Did you mean {near}?\n")


# --- log -----------------------------------------------------------------------------------------


def test_log_is_one_readable_line_an_event(gj: Gj, filled: Journal) -> None:
    rows = gj("log", "s").stdout.splitlines()
    assert [int(row.split()[0]) for row in rows] == [6, 5, 4, 3, 2, 1]
    newest = filled.event("s", 6)
    assert rows[0].split()[1:] == [
        newest.hash[:7], newest.ts[:10], newest.ts[11:19], "host", "error", "timeout:", "no", "answer",
    ]  # fmt: skip
    assert rows[1].endswith("model.response  Two.  (1.5k→7)")
    assert rows[3].endswith("tool.call       sh(command: expr 1 + 1)")


def test_log_chooses_events(gj: Gj, filled: Journal) -> None:
    def log(*words: object) -> list[int]:
        return seqs(gj("log", *words, "--json"))

    assert log("s", "--reverse") == [1, 2, 3, 4, 5, 6]
    assert log("s", "-n", 2) == [6, 5] and log("s", "-n", 2, "--reverse") == [1, 2] and log("s", "-n", 0) == []
    assert log("s@3") == [3, 2, 1] and log("s@2..4") == [4, 3, 2] and log("s@5..") == [6, 5] and log("s@..2") == [2, 1]
    assert log("s", "--type", "tool.*", "--type", "error") == [6, 4, 3]
    assert log("s", "--grep", "expr|numbers") == [3, 2] and log("s", "--grep", "two\\.", "-i", "-n", 1) == [5]
    for bad in (("s@4..2",), ("s@9",), ("s@9..",), ("s@2..9",), ("s", "--grep", "("), ("s", "-n", "-1")):
        assert gj("log", *bad, ok=False).exit_code in (2, 4)


def test_log_as_json_gives_canonical_events(gj: Gj, filled: Journal) -> None:
    raw = b"".join(event.raw + b"\n" for event in filled.events("s"))
    assert gj("log", "s", "--reverse", "--json").stdout_bytes == raw


def test_log_goes_backwards_over_many_pieces(gj: Gj, place: Path) -> None:
    journal = gitjournal.init(place)
    with journal.session("s", create=True) as s:
        s.append_many([("note", {"n": n}, "host") for n in range(300)])
    left_in_tail(place, "s", 5)
    assert seqs(gj("log", "s", "--json")) == list(range(306, 0, -1))


def test_log_draws_branches(gj: Gj, filled: Journal) -> None:
    filled.branch("s/b", at=6, as_="c")
    filled.branch("s", at=2, as_="d")
    rows = [re.match(r"((?:[●│├╯╭┼─ ]*[●│╯])?) *(\d*)", row) for row in gj("log", "s", "--graph").stdout.splitlines()]
    assert [(row[1], row[2]) for row in rows if row] == [
        ("    ●", "7"),  # c, off the newest event of b
        ("  ╭─╯", ""),
        ("● │", "6"),  # main
        ("│ ●", "6"),  # b
        ("● │", "5"),
        ("│ ●", "5"),
        ("├─╯", ""),
        ("●", "4"),
        ("●", "3"),
        ("│ ●", "3"),  # d has the column that b has left
        ("├─╯", ""),
        ("●", "2"),
        ("●", "1"),
    ]
    assert "(main)" in gj("log", "s", "--graph").stdout
    for words in (("--reverse",), ("--json",), ("--follow",)):
        assert gj("log", "s", "--graph", *words, ok=False).exit_code == 2


def test_follow_shows_what_comes_until_ctrl_c(filled: Journal) -> None:
    command = [sys.executable, "-m", "gitjournal", "-J", str(filled.path), "log", "s", "--follow", "-n", "1", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stderr is not None
        assert json.loads(process.stdout.readline())["seq"] == 6
        with filled.session("s") as s:
            s.append("note", {"n": 1})
            assert json.loads(process.stdout.readline())["seq"] == 7
            s.flush()
            s.append("note", {"n": 2})
            assert json.loads(process.stdout.readline())["seq"] == 8
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 0
        assert process.stderr.read() == b""


def test_a_damaged_tail_is_shown_as_far_as_it_goes_and_told(gj: Gj, filled: Journal, place: Path) -> None:
    left_in_tail(place, "s", 3)
    tail = place / "gitjournal" / "tail" / "s" / "main.jsonl"
    raw = tail.read_bytes()
    tail.write_bytes(raw.replace(b'"n":1', b'"n":"', 1))
    result = gj("log", "s", ok=False)
    assert result.exit_code == 1 and "main.jsonl" in result.stderr
    assert result.stdout.splitlines()[0].split()[0] == "7"
    assert gj("verify", "s/main", ok=False).exit_code == 1


# --- one event, lists, state ---------------------------------------------------------------------


def test_show_and_cat(gj: Gj, place: Path) -> None:
    journal = gitjournal.init(place)
    text = "line one\nline two\n" + "x" * 70_000
    with journal.session("s", create=True) as s:
        s.append("tool.result", {"id": "c", "response": text, "nested": [{"a": [1, {}]}, []]}, actor="tool:sh")
    event = journal.event("s", 2)
    shown = gj("show", "s@2").stdout
    assert event.hash in shown and "file 1" in shown and "70,018 bytes" in shown
    assert "  response:\n    line one\n    line two\n    xxx" in shown
    assert gj("show", "s@2", "--raw").stdout_bytes == gj("cat", "s@2").stdout_bytes == event.raw
    assert json.loads(gj("show", "s@2", "--json").stdout)["data"]["response"] == text
    assert gj("cat", "s@2", 1).stdout == text
    assert gj("cat", "s@2", 2, ok=False).exit_code == EXIT["not-found"]
    assert gj("cat", "s@2", 0, ok=False).exit_code == 2


def test_show_of_foreign_values(gj: Gj) -> None:
    gj("init")
    Path("odd.jsonl").write_bytes(
        b'{"big": 123456789012345678901, "s": "\\ud800", "d": ' + b"[" * 90 + b"]" * 90 + b"}\n\xff\n"
    )
    gj("import", "records", "odd.jsonl")
    assert "123456789012345678901" in gj("show", "odd@2").stdout
    for seq in (2, 3):
        json.loads(gj("show", f"odd@{seq}", "--json").stdout)
        gj("log", f"odd@{seq}")


def test_lists(gj: Gj, filled: Journal) -> None:
    filled.fork("s/b", at=5, session="t")
    table = [line.split() for line in gj("branches", "s").stdout.splitlines()]
    assert [row[:4] for row in table] == [
        ["NAME", "EVENTS", "OWN", "FROM"], ["s", "6", "6", "-"], ["s/b", "6", "2", "s@4"]]  # fmt: skip
    rows = [json.loads(line) for line in gj("branches", "t", "--json").stdout.splitlines()]
    assert [(row["name"], row["events"], row["from"]) for row in rows] == [("t", 6, {"name": "s/b", "seq": 5})]
    found = {row["session"]: row for row in map(json.loads, gj("sessions", "--json").stdout.splitlines())}
    assert found["s"]["branches"] == ["main", "b"] and found["s"]["first"] == "add two numbers"
    assert gj("sessions").stdout.splitlines()[1].startswith("t ")


def test_one_damaged_session_does_not_hide_the_others(gj: Gj, filled: Journal, place: Path) -> None:
    filled.session("t", create=True).close()
    oid = "1" * 40
    (place / "refs" / "heads" / "s" / "main").write_text(oid + "\n")
    result = gj("sessions", ok=False)
    assert result.exit_code == 1
    assert "missing-object" in result.stdout and re.search(r"^t ", result.stdout, re.MULTILINE)


def test_replay(gj: Gj, filled: Journal) -> None:
    shown = gj("replay", "s").stdout
    for line in ("1,500 in (0 read from a cache, 0 written), 7 out", "1 call, 1 result", "@6 timeout: no answer"):
        assert line in shown
    assert "@3 sh (c1) has no result yet" in gj("replay", "s@3").stdout
    state = gitjournal.fold(filled.events("s"), 5)
    status = {"status": "idle", "stop_reason": "completed", "blocking": []}
    assert json.loads(gj("replay", "s@5", "--json").stdout) == json.loads(json.dumps(status | state.as_dict()))
    assert [entry["seq"] for entry in json.loads(gj("replay", "s@5", "--json", "--context").stdout)] == [2, 3, 4, 5]
    assert "@2 user (user)\n  add two numbers\n" in gj("replay", "s", "--context").stdout
    assert gj("replay", "s@0").exit_code == 0
    assert gj("replay", "s@9", ok=False).exit_code == EXIT["not-found"]


# --- branch, fork, flush -------------------------------------------------------------------------


def test_branch_and_fork(gj: Gj, filled: Journal) -> None:
    assert gj("branch", "s@3", "x").stdout == f"s/x@4 {filled.event('s/x', 4).hash}, goes on from s@3\n"
    begun = json.loads(gj("fork", "s/x", "new one", "--json").stdout)
    assert (begun["name"], begun["seq"], begun["from"]) == ("new one", 5, {"name": "s/x", "seq": 4})
    assert gj("branch", "s@3", "x", ok=False).exit_code == 1
    assert gj("fork", "s@3", "S", ok=False).exit_code == 1
    assert gj("fork", "s@3", "journal", ok=False).exit_code == 2
    assert gj("branch", "s@30", "y", ok=False).exit_code == EXIT["not-found"]
    assert [line.begin for line in lines(filled, "new one")] == [Begin(4, Name("s", "x"))]


def test_flush(gj: Gj, filled: Journal, place: Path) -> None:
    for name in ("s", "t", "u"):
        left_in_tail(place, name, 2)
    assert gj("flush", "s").stdout == "s: 2 events moved to git\n"
    with filled.session("u"):
        result = gj("flush", ok=False)
    assert result.exit_code == 1 and "u is being written by" in result.stderr
    assert result.stdout == "t: 3 events moved to git\n"
    assert json.loads(gj("flush", "u/main", "--json").stdout) == {"name": "u", "seq": 3, "moved": 0}
    assert gj("flush", "--all").stdout == ""
    assert gj("flush", "s", "--all", ok=False).exit_code == 2


def test_writing_where_another_writes_is_refused(gj: Gj, filled: Journal) -> None:
    with filled.session("s"):
        result = gj("append", "s", "{}", "--type", "note", ok=False)
    assert result.exit_code == 1 and "is being written by process" in result.stderr


# --- verify --------------------------------------------------------------------------------------


def test_verify_says_what_is_well_and_what_it_cannot_know(gj: Gj, filled: Journal) -> None:
    shown = gj("verify").stdout
    assert shown.splitlines()[:3] == ["journal: ok, 1 event", "s: ok, 6 events", "s/b: ok, 6 events"]
    assert "nothing is signed" in shown
    assert gj("verify", "--all", "--forget").stdout == shown
    reports = [json.loads(line) for line in gj("verify", "s", "--json").stdout.splitlines()]
    assert [(one["name"], one["verdict"]) for one in reports] == [("s", "ok"), ("s/b", "ok")]
    assert len(gj("verify", "s/main", "--json").stdout.splitlines()) == 1
    assert gj("verify", "s", "--all", ok=False).exit_code == 2


def test_verify_finds_a_changed_byte_at_its_event(gj: Gj, filled: Journal, place: Path) -> None:
    pack, offset = cli_demo.find_event(filled, "s", 6)
    raw = bytearray(pack.read_bytes())
    raw[offset] ^= 1
    pack.chmod(0o600)
    pack.write_bytes(raw)
    result = gj("verify", "s", "nowhere", ok=False)
    assert result.exit_code == 1
    assert "s: BROKEN" in result.stdout and "at s@6: " in result.stdout and "s/b: ok" in result.stdout
    found = json.loads(gj("verify", "s/main", "--json", ok=False).stdout)["findings"]
    assert [(one["code"], one["seq"]) for one in found] == [("bad-object", 6)]
    for words in (("log", "s"), ("show", "s@6"), ("replay", "s"), ("export", "s"), ("cat", "s@6"), ("show", "1234567")):
        result = gj(*words, ok=False)
        assert result.exit_code == 1 and result.stderr.startswith("gj: "), words


def test_verify_tells_absent_and_incomplete_from_broken(gj: Gj, filled: Journal, tmp_path: Path) -> None:
    result = gj("verify", "s", "nowhere", ok=False)
    assert result.exit_code == EXIT["not-found"] and "s: ok" in result.stdout
    clone = tmp_path / "clone"
    git("clone", "-q", "--mirror", "--depth", "1", "--no-single-branch", f"file://{filled.path}", clone)
    result = gj("-J", clone, "verify", "s", ok=False)
    assert result.exit_code == 3 and "s: incomplete" in result.stdout and "shallow" in result.stdout


# --- import and export ---------------------------------------------------------------------------


def test_import_reports_and_importing_again_adds_nothing(gj: Gj) -> None:
    gj("init")
    assert "added 36, 0 were there already" in gj("import", DEMO).stdout
    report = json.loads(gj("import", "claude-code", DEMO, "--json").stdout)
    assert (report["added"], report["skipped_known"], report["format"]) == (0, 36, "claude-code")
    assert gj("export", report["session"], "--format", "claude-code").stdout_bytes == DEMO.read_bytes()


def test_one_bad_file_does_not_stop_the_rest(gj: Gj) -> None:
    gj("init")
    Path("empty").write_bytes(b"")
    os.mkfifo("pipe")
    result = gj("import", "nowhere", "pipe", DEMO, "empty", ok=False)
    assert result.exit_code == 1
    assert "added 36" in result.stdout and "nothing to import" in result.stdout
    assert "there is no file nowhere" in result.stderr and "2 of 4 files" in result.stderr


def test_import_options(gj: Gj, place: Path) -> None:
    gj("init")
    assert "would add 36" in gj("import", DEMO, "--dry-run").stdout
    assert list(gitjournal.open(place).sessions()) == []
    gj("import", DEMO, "--session", "mine")
    assert list(gitjournal.open(place).sessions()) == [Name("mine")]
    assert gj("import", DEMO, DEMO, "--session", "mine", ok=False).exit_code == 2
    result = gj("import", "clod-code", DEMO, ok=False)
    assert result.exit_code == 2 and "claude-code" in result.stderr
    assert gj("import", "claude-code", ok=False).exit_code == 1


def test_a_dry_run_needs_no_journal_and_makes_none(gj: Gj, monkeypatch: Any, tmp_path: Path) -> None:
    monkeypatch.delenv("GITJOURNAL_DIR")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    assert "would add 36" in gj("import", DEMO, "--dry-run").stdout
    assert not (tmp_path / "data").exists()


@pytest.mark.skipif(not CORPUS.is_dir(), reason="the public corpus is not here")
def test_the_whole_corpus(gj: Gj) -> None:
    gj("init")
    files = sorted(path for path in CORPUS.rglob("*") if path.is_file() and path.name != "INDEX.tsv")
    result = gj("import", "--json", *files, ok=False)
    assert result.exit_code in (0, 1)
    told = result.stderr.count("gj: ") - result.stderr.count("could not be imported")
    assert len(result.stdout.splitlines()) + told == len(files)
    gj("verify")
    gj("sessions")
    for row in map(json.loads, gj("sessions", "--json").stdout.splitlines()):
        assert harmless(gj("log", f"{row['session']}/main").stdout)
        gj("replay", f"{row['session']}/main")


def test_export_and_import_give_the_same_commits(gj: Gj, filled: Journal, tmp_path: Path) -> None:
    assert gj("export", "s/b", "-o", "b.jsonl").stdout == "s/b: 6 records written to b.jsonl as jsonl\n"
    assert Path("b.jsonl").read_bytes() == gj("export", "s/b").stdout_bytes
    other = tmp_path / "other"
    gj("init", other)
    gj("-J", other, "import", "b.jsonl")
    assert gitjournal.open(other).head("s/b") == filled.head("s/b")
    told = json.loads(gj("export", "s", "-o", "x", "--json").stdout)
    assert told == {"name": "s", "format": "jsonl", "file": "x", "records": 6}


def test_an_export_that_fails_leaves_what_was_there(gj: Gj, filled: Journal) -> None:
    Path("out").write_text("precious")
    for words in (("s", "--format", "claude-code"), ("s", "--format", "nothing"), ("s@3",), ("nobody",)):
        assert gj("export", *words, "-o", "out", ok=False).exit_code in (2, 4)
    assert gj("export", "s", "-o", ".", ok=False).exit_code == 2
    assert gj("export", "s", "-o", "no/folder/x", ok=False).exit_code == EXIT["storage"]
    assert [path.name for path in Path().iterdir()] == ["out"] and Path("out").read_text() == "precious"


@pytest.mark.parametrize("command", ["export", "pin", "prove"])
def test_a_file_that_cannot_be_made_is_named_as_the_user_did(gj: Gj, filled: Journal, command: str) -> None:
    gj("seal", "s")
    refused = gj(command, "s@3" if command == "prove" else "s", "-o", "no/folder/x", ok=False)
    assert (refused.exit_code, refused.stderr) == (EXIT["storage"], "gj: no/folder/x: No such file or directory\n")


@pytest.mark.parametrize(("only", "absent"), [("99", 99), ("2,5-8", 7), ("0", 0)])
@pytest.mark.parametrize("kind", ["jsonl", "html", "md"])
def test_an_export_of_events_that_are_not_there(gj: Gj, filled: Journal, kind: str, only: str, absent: int) -> None:
    refused = gj("export", "s", "--only", only, "--format", kind, ok=False)
    assert (refused.exit_code, refused.stdout) == (EXIT["not-found"], "")
    assert refused.stderr == f"gj: s has no event {absent}\nhint: Its newest event is s@6.\n"


def test_an_export_that_needs_a_folder_says_so_before_it_has_written_a_line(gj: Gj, journal: Journal) -> None:
    with journal.session("s", create=True) as s:
        s.user("short")
        s.user("long " * 20_000)
        s.user("in the tail")
        refused = gj("export", "s", ok=False)
        assert (refused.exit_code, refused.stdout) == (2, "") and "s has side files" in refused.stderr
        assert len(gj("export", "s", "--only", "2,4").stdout.splitlines()) == 4


# --- demo ----------------------------------------------------------------------------------------


def test_demo_shows_the_whole_and_leaves_a_good_journal(gj: Gj, tmp_path: Path) -> None:
    folder = tmp_path / "demo"
    shown = gj("demo", folder).stdout
    steps = ("gj init", "gj import", "gj log demo", "gj replay demo@19", "gj branch demo@19", "gj verify", "dd of=")
    places = [shown.index(f"$ {step}" if step.startswith("gj") else step) for step in steps]
    assert places == sorted(places)
    assert "demo: BROKEN" in shown and "bad-object at demo@29: " in shown and "(exit status 1)" in shown
    assert all(
        report.ok
        for report in (gitjournal.verify(gitjournal.open(folder), name) for name in ("demo", "demo/try-decimal"))
    )
    result = gj("demo", folder, ok=False)
    assert result.exit_code == 2 and "not an empty folder" in result.stderr


def test_demo_without_a_folder_says_where_its_journal_is(gj: Gj, monkeypatch: Any, tmp_path: Path) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    shown = gj("demo").stdout
    (folder,) = tmp_path.glob("gj-demo-*")
    assert f"export GITJOURNAL_DIR={folder}" in shown
    shutil.rmtree(folder)
    monkeypatch.setattr("gitjournal.cli_demo.find_event", lambda *_: 1 / 0)
    assert gj("demo", ok=False).exit_code == 70
    assert list(tmp_path.glob("gj-demo-*")) == []


# --- reading changes nothing ---------------------------------------------------------------------

READERS: list[tuple[Any, ...]] = [
    ("log", "s"), ("log", "s", "--graph"), ("log", "s@3", "--json"), ("show", "s@3"), ("show", "s/b", "--json"),
    ("cat", "s@2"), ("branches", "s"), ("sessions",), ("replay", "s"), ("wakes",), ("verify",), ("verify", "s"),
    ("export", "s"), ("import", DEMO, "--dry-run"), ("show", "PREFIX"), ("--help",),
]  # fmt: skip


def files_of(folder: Path) -> dict[str, tuple[int, int, str]]:
    """Mode, time of change and hash of every file and folder, but for the derived index of sessions."""
    out = {}
    for path in sorted(folder.rglob("*")):
        if path.name.startswith("index.sqlite") or path == folder / "gitjournal":
            continue
        stat = path.stat()
        content = sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
        out[str(path.relative_to(folder))] = (stat.st_mode, stat.st_mtime_ns, content)
    return out


@pytest.mark.parametrize("index", ["kept", "lost"])
def test_no_reading_command_changes_a_file(gj: Gj, filled: Journal, place: Path, index: str) -> None:
    left_in_tail(place, "s", 3)
    left_in_tail(place, "t", 1)
    if index == "lost":
        shutil.rmtree(place / "gitjournal" / "index")
    prefix = filled.event("s/b", 6).hash[:10]
    before = files_of(place)
    for words in READERS:
        gj(*(prefix if word == "PREFIX" else word for word in words))
        assert files_of(place) == before, words


def test_reading_needs_no_permission_to_write(
    gj: Gj, filled: Journal, place: Path, public: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left_in_tail(place, "s", 3)
    place = shutil.copytree(place, public / "journal")
    monkeypatch.setenv("GITJOURNAL_DIR", str(place))
    readers = [words for words in READERS if "PREFIX" not in words and "import" not in words]
    for words in readers:
        gj(*words)  # What Python has to load is loaded by the one who may.
    tree = [place, *place.rglob("*")]
    for path in tree:
        path.chmod(path.stat().st_mode & 0o555)
        if os.geteuid() == 0:
            os.chown(path, NOBODY, NOBODY)

    def read() -> None:
        os.chdir(place)
        for words in readers:
            gj(*words)
        result = gj("append", "s", "{}", "--type", "note", ok=False)
        assert result.exit_code in (1, 4) and result.stderr.startswith("gj: ")

    before = files_of(place)
    try:
        assert as_nobody(read) == 0
        assert files_of(place) == before
    finally:
        for path in tree:
            path.chmod(path.stat().st_mode | 0o700)


# --- output --------------------------------------------------------------------------------------

_HARM = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\u2028\u2029]")


def harmless(text: str) -> bool:
    return not _HARM.search(text)


@given(st.text(st.characters(codec=None)))
def test_printable_text_is_harmless_and_encodable(text: str) -> None:
    for shown in (
        render.printable(text),
        render.one_line(text),
        *render.text_block(text),
        *render.outline({text: [text]}),
    ):
        assert harmless(shown) and "\n" not in shown
        shown.encode()


@given(st.text(), st.integers(0, 12))
def test_clip_keeps_to_its_width(text: str, width: int) -> None:
    shown = render.clip(text, width)
    assert render.columns(shown) <= width
    assert shown == text or shown.removesuffix("…") == text[: len(shown.removesuffix("…"))]


def test_what_events_say_cannot_control_the_terminal(gj: Gj, place: Path) -> None:
    evil = "\x1b]0;pwned\x07\x1b[2J\r\x9b31m\u202egnp.exe"
    journal = gitjournal.init(place)
    with journal.session("s \u202e", create=True) as s:
        s.append("message", {"role": evil, "parts": [{"type": "text", "content": evil}], evil: evil}, actor="user")
        s.append(
            "model.response", {"parts": [{"type": "tool_call", "id": evil, "name": evil, "arguments": {evil: evil}}]}
        )
        s.append("tool.result", {"id": evil, "response": {"text": evil}})
        s.append("error", {"error.type": evil, "message": evil, "where": evil})
        s.append("context.compaction", {"summary": evil, "keep_last": 1})
        s.append("native", {"type": evil, "fields": {"content": evil}})
        s.append("odd", {evil: [evil]})
    journal.branch("s \u202e", at=3, as_="b\u2066")
    for words in (
        ("log",),
        ("log", "--graph"),
        ("show",),
        ("replay",),
        ("replay", "--context"),
        ("branches",),
        ("verify",),
    ):
        shown = gj(words[0], "s \u202e", *words[1:]).stdout
        assert harmless(shown), words
    for seq in range(1, 9):
        assert harmless(gj("show", f"s \u202e@{seq}").stdout)
    assert "\\x1b" in gj("log", "s \u202e").stdout
    result = gj("log", f"nobody{evil}", ok=False)
    assert harmless(result.stderr.replace("\n", ""))
    assert harmless(gj(f"lgo{evil}", ok=False).stderr) and harmless(gj("log", f"--{evil}", ok=False).stderr)


SHAPES = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 2**60) | st.text(max_size=8) | st.binary(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "type",
                    "parts",
                    "content",
                    "text",
                    "name",
                    "arguments",
                    "usage",
                    "from",
                    "id",
                    "session",
                    "branches",
                    "seq",
                ]
            ),
            inner,
        )
    ),
    max_leaves=12,
)


@given(st.sampled_from(sorted(render._GISTS)), SHAPES)
def test_data_of_any_shape_gives_a_line(kind: str, data: Any) -> None:
    class Shaped:
        withheld = False
        type = kind
        seq, hash, ts, actor = 1, "0" * 64, "2026-01-01T00:00:00.000Z", "host"

    event: Any = Shaped()
    event.data = event.stored_data = (
        data if isinstance(data, dict) else {"parts": data, "usage": data, "response": data}
    )
    for width in (None, 40, 100):
        row = render.Layout(render.Paint(False), 3, width).row(event)
        assert harmless(row)
    list(render.outline(data))


def terminal(command: list[str], env: dict[str, str]) -> tuple[int, bytes]:
    """Run on a terminal of 80 columns; (exit status, what it shows)."""
    pid, fd = pty.fork()
    if pid == 0:
        os.execve(sys.executable, [sys.executable, "-m", "gitjournal", *command], {**os.environ, **env})
    shown = b""
    while True:
        try:
            piece = os.read(fd, 65536)
        except OSError as error:
            assert error.errno == errno.EIO
            break
        if not piece:
            break
        shown += piece
    os.close(fd)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), shown


def test_colours_and_pager_only_on_a_terminal(gj: Gj, filled: Journal) -> None:
    env = {"GITJOURNAL_DIR": str(filled.path), "TERM": "xterm", "COLUMNS": "80", "PAGER": "", "NO_COLOR": ""}
    status, shown = terminal(["log", "s"], env)
    assert status == 0 and b"\x1b[33m" in shown
    assert b"\x1b[" not in terminal(["log", "s"], env | {"NO_COLOR": "1"})[1]
    assert b"\x1b[" not in terminal(["log", "s", "--color", "never"], env)[1]
    assert terminal(["log", "s"], env | {"PAGER": "sed s/^/paged:/"})[1].count(b"paged:") == 6
    status, shown = terminal(["log", "s"], env | {"PAGER": "head -n 1"})
    assert status == 0 and len(shown.splitlines()) == 1
    assert terminal(["log", "s"], env | {"PAGER": "no-such-pager"})[0] == 0
    for line in re.sub(rb"\x1b\[[0-9;]*m", b"", terminal(["log", "s", "--graph"], env)[1]).decode().splitlines():
        assert render.columns(line) <= 80
    assert "\x1b[" not in gj("log", "s").stdout and "\x1b[33m" in gj("log", "s", "--color", "always").stdout


def test_json_on_a_terminal_has_its_controls_escaped(filled: Journal) -> None:
    with filled.session("s") as s:
        s.append("note", {"text": "\x9b31m"})
    env = {"GITJOURNAL_DIR": str(filled.path), "TERM": "xterm", "PAGER": ""}
    shown = terminal(["log", "s", "-n", "1", "--json"], env)[1].decode()
    assert harmless(shown.replace("\r\n", "\n")) and json.loads(shown)["data"]["text"] == "\x9b31m"


def test_rows_keep_to_the_terminal(filled: Journal) -> None:
    usage = {"gen_ai.usage.input_tokens": 123456, "gen_ai.usage.output_tokens": 4567}
    with filled.session("wide", create=True) as s:
        s.append(
            "model.response", {"parts": message("日本語のテキスト" * 40)["parts"], "usage": usage}, actor="assistant"
        )
        s.append("message", message("long " * 200), actor="user")
    for width in (80, 100, 200):
        layout = render.Layout(render.Paint(False), 3, width)
        for event in filled.events("wide", after=1):
            assert width - 2 <= render.columns(layout.row(event, "● │ ", "(main)")) <= width


# --- ends ----------------------------------------------------------------------------------------


def test_a_closed_pipe_is_silent(filled: Journal) -> None:
    read, write = os.pipe()
    os.close(read)
    for words in (("log", "s"), ("log", "s", "--json"), ("cat", "s@2"), ("sessions",), ("--help",)):
        command = [sys.executable, "-m", "gitjournal", "-J", str(filled.path), *words]
        run = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, check=False)
        assert (run.returncode, run.stderr) == (141, b""), words
    os.close(write)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_behind_standard_output_is_told(filled: Journal) -> None:
    with Path("/dev/full").open("wb") as full:
        for words in (("log", "s"), ("cat", "s@2"), ("export", "s")):
            command = [sys.executable, "-m", "gitjournal", "-J", str(filled.path), *words]
            run = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, check=False)
            assert run.returncode == EXIT["storage"] and run.stderr == b"gj: No space left on device\n", words


def test_closed_standard_streams(filled: Journal) -> None:
    for redirect in (">&-", "<&-", "2>&-"):
        command = f'"{sys.executable}" -m gitjournal append s --type note {redirect}'
        run = subprocess.run(
            ["sh", "-c", command], env={**os.environ, "GITJOURNAL_DIR": str(filled.path)},
            stdin=subprocess.DEVNULL, capture_output=True, check=False,
        )  # fmt: skip
        assert run.returncode in (2, 4) and b"Traceback" not in run.stderr
        assert filled.head("s").seq == 6


def test_an_encoding_without_the_characters(filled: Journal) -> None:
    env = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "GITJOURNAL_DIR": str(filled.path)}
    run = program("log", "s", "--graph", env=env)
    assert run.returncode == 0 and b"\\u25cf" in run.stdout


def test_ctrl_c_is_130_without_a_word(gj: Gj, filled: Journal, monkeypatch: Any) -> None:
    def interrupt(*_: object) -> Iterator[Any]:
        raise KeyboardInterrupt

    monkeypatch.setattr(cli_find, "_ask", interrupt)
    result = gj("sessions", ok=False)
    assert (result.exit_code, result.stdout, result.stderr.strip()) == (130, "", "")


def test_a_fault_of_ours_has_no_traceback_unless_asked_for(gj: Gj, filled: Journal, monkeypatch: Any) -> None:
    monkeypatch.setattr(cli_find, "_ask", lambda *_: 1 / 0)
    result = gj("sessions", ok=False)
    assert result.exit_code == 70 and result.stderr.startswith("gj: internal error: ZeroDivisionError")
    monkeypatch.setenv("GITJOURNAL_TRACEBACK", "1")
    assert isinstance(CliRunner().invoke(cli.gj, ["sessions"]).exception, ZeroDivisionError)


def test_names_that_are_no_text(filled: Journal) -> None:
    env = {"GITJOURNAL_DIR": str(filled.path)}
    for words in (
        [b"log", b"a\xff"],
        [b"append", b"a\xff", b"{}", b"--type", b"note", b"--create"],
        [b"import", b"\xff"],
    ):
        run = subprocess.run(
            [sys.executable.encode(), b"-m", b"gitjournal", *words], env={**os.environ, **env},
            capture_output=True, check=False,
        )  # fmt: skip
        assert run.returncode in (1, 2, 4) and run.stderr.startswith(b"gj: ") and b"\xff" not in run.stderr


def test_input_that_is_no_text(gj: Gj, filled: Journal) -> None:
    for raw in (b"\xff\xfe{\x00}\x00", b"\xef\xbb\xbf{}", b"\x00", b"{" * 200_000, b'{"a": "\\ud800"}', b"{}garbage"):
        result = gj("append", "s", "--type", "note", stdin=raw, ok=False)
        assert result.exit_code == 1 and result.stderr.startswith("gj: line 1: ")
    assert filled.head("s").seq == 6


# --- the graph -----------------------------------------------------------------------------------


def draw(*branches: tuple[str, int, str | None, int]) -> list[str]:
    """The graph of branches (name, head, parent, after), one row an event, and its joins."""
    found = [
        Line(Name("s", name), head, Begin(after, Name("s", parent) if parent else None))
        for name, head, parent, after in branches
    ]
    lanes = cli_log.arrange(found)
    joins = sorted((lane for lane in lanes if lane.joins is not None), key=lambda lane: (lane.after, lane.column))
    out = []
    for seq in range(max(lane.head for lane in lanes), 0, -1):
        while joins and joins[-1].after >= seq:
            out.append(cli_log.join_row(joins.pop(), lanes, joins))
        out += [
            cli_log.event_row(lane, seq, lanes).rstrip()
            for lane in sorted(lanes, key=lambda lane: lane.column)
            if lane.after < seq <= lane.head
        ]
    return out


def test_a_line_alone() -> None:
    assert draw(("main", 2, None, 0)) == ["●", "●"]


def test_two_branches_off_one_event() -> None:
    assert draw(("main", 2, None, 0), ("b", 2, "main", 1), ("c", 2, "main", 1)) == [
        "●",
        "│ ●",
        "│ │ ●",
        "├─┼─╯",
        "├─╯",
        "●",
    ]


def test_a_branch_off_the_newest_event_and_a_branch_of_a_branch() -> None:
    assert draw(("main", 1, None, 0), ("b", 2, "main", 1), ("c", 3, "b", 2)) == ["    ●", "  ╭─╯", "  ●", "╭─╯", "●"]


def test_a_branch_that_crosses_one_that_begins_there() -> None:
    """At event 2 c goes off b and d off main, each from the newest event there, and their ways cross."""
    found = draw(("main", 2, None, 0), ("b", 2, "main", 1), ("d", 3, "main", 2), ("c", 3, "b", 2))
    assert found == ["    ●", "    │ ●", "  ╭─┼─╯", "╭─┼─╯", "● │", "│ ●", "├─╯", "●"]


def test_a_column_is_used_again() -> None:
    assert draw(("main", 4, None, 0), ("b", 4, "main", 3), ("c", 2, "main", 1)) == [
        "●",
        "│ ●",
        "├─╯",
        "●",
        "●",
        "│ ●",
        "├─╯",
        "●",
    ]


def test_lines_without_a_parent_here_stand_alone() -> None:
    assert draw(("main", 1, "elsewhere", 0), ("b", 2, None, 0)) == ["  ●", "● │", "  ●"]


def test_branches_that_begin_on_each_other_are_drawn_all_the_same() -> None:
    assert len(draw(("b", 3, "c", 2), ("c", 3, "b", 2))) >= 4


# --- docs/cli.md ---------------------------------------------------------------------------------

_INTRO = """# gj

Written by `python tests/test_cli.py` from the program's own help; a test compares.

## Names

`s` is session `s` (its trunk, `s/main`), `s/try` its branch `try`. `s@40` is event 40 of `s`, `s/try@40` that of the
branch; a command that takes an event takes a branch too, and means its newest event. The beginning of an event's hash,
7 characters or more, is that event. If there is a session `s@40` as well, write `s@40/main` for it.

How much of a name must be typed depends on what a slip could cost:

- near, for all that read: a whole name; else the only one that begins so; else, of 3 characters or more in any case,
  the only one that has them within, or in that order. What is taken for a name so is said on standard error.
- prefix, for `title`, `summary` and `label` when they write, `archive`, `unarchive`, `seal`, `branch` and `fork`: a
  whole name; else the only one that begins so.
- whole, for what takes hold of a session or cannot be undone: `append`, `flush`, `resume`, `compact`, `terminate`,
  `delete`, `erase`, `branch --delete` and `branch --rename`, `verify` and `witness ask`.

What fits several names is refused with the names; what fits none, with names that are near.

## Which journal

`-J PATH`, before or after the command; else `$GITJOURNAL_DIR`; else the nearest folder `.gitjournal` from here
upwards; else your own in the folder where your system keeps data of programs, which the first `gj append` or
`gj import` makes.

## Output

Results go to standard output, everything else to standard error; `--json` gives one JSON object a line. Colours and
the pager (`$PAGER`, else `less`) are for terminals only; `NO_COLOR` turns colours off. Control characters in what
events say are shown as escapes like `\\x1b`; `gj cat`, `gj show --raw` and `gj export` give the exact bytes.
Errors are one line `gj: ...`, and often one `hint: ...`.

## Exit status

| status | meaning |
|---|---|
| 0 | done, or intact |
| 1 | not done: refused, damaged, or (`gj verify`) broken |
| 2 | the command line or a name in it cannot be used |
| 3 | `gj verify`: intact as far as could be checked |
| 4 | not there, or not readable |
| 70 | a fault in `gj` itself |
| 130 | ended by Ctrl-C |
| 141 | who read the output went away |

## Completion

`eval "$(_GJ_COMPLETE=bash_source gj)"` in `~/.bashrc`; `zsh_source` in `~/.zshrc`; for fish
`_GJ_COMPLETE=fish_source gj > ~/.config/fish/completions/gj.fish`. It knows commands, options, sessions and branches.
"""


def reference() -> str:
    """docs/cli.md as the program is now."""
    parts = [_INTRO]
    with click.Context(cli.gj, info_name="gj", **cli.gj.context_settings) as top:
        for title, commands in cli.GROUPS.items():
            parts.append(f"## {title}\n")
            for command in commands:
                with click.Context(command, parent=top, info_name=command.name) as ctx:
                    parts.append(_section(command, ctx))
                for below in command.commands.values() if isinstance(command, click.Group) else ():
                    with click.Context(below, parent=ctx, info_name=below.name) as inner:
                        parts.append(_section(below, inner))
    return "\n".join(parts)


def _section(command: click.Command, ctx: click.Context) -> str:
    path = ctx.command_path
    usage = " ".join([path, *command.collect_usage_pieces(ctx)])
    records = [record for param in command.get_params(ctx) if (record := param.get_help_record(ctx)) and record[1]]
    options = "\n".join(f"- `{names}`: {' '.join(text.split())}" for names, text in records)
    return f"### {path}\n\n```\n{usage}\n```\n\n{_help(command)}\n\n{options}\n"


def _help(command: click.Command) -> str:
    """The help of a command; what click shows as it is (after a line with a backspace) is a block of code."""
    out = []
    for paragraph in inspect.cleandoc(command.help or "").split("\n\n"):
        text = paragraph.strip("\n")
        out.append(f"```sh\n{text[2:].replace('  gj', 'gj').replace('  my', 'my')}\n```" if text[:1] == "\b" else text)
    return "\n\n".join(out)


def test_the_reference_is_that_of_the_program() -> None:
    assert REFERENCE.read_text(encoding="utf-8") == reference(), "run: python tests/test_cli.py"


if __name__ == "__main__":
    REFERENCE.write_text(reference(), encoding="utf-8")


def test_export_writes_into_a_pipe_and_leaves_it_one(filled: Journal, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = subprocess.Popen(["cat", str(pipe)], stdout=subprocess.PIPE)
    command = [sys.executable, "-m", "gitjournal", "-J", str(filled.path), "export", "s", "-o", str(pipe)]
    assert subprocess.run(command, check=False).returncode == 0
    read, _ = reader.communicate(timeout=30)
    assert len(read.splitlines()) == filled.head("s").seq
    assert pipe.is_fifo()


def test_an_acknowledged_append_is_a_success_even_if_git_must_wait(filled: Journal) -> None:
    lock = filled.path / "refs" / "heads" / "s" / "main.lock"
    lock.touch()
    command = [sys.executable, "-m", "gitjournal", "-J", str(filled.path), "append", "s", "--type", "note", "{}"]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    lock.unlink()
    assert run.returncode == 0 and run.stdout.startswith("s@")
    assert "safe, but not in git yet" in run.stderr and "main.lock" in run.stderr
