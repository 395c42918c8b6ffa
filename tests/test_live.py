"""Sessions as they go on: hooks that never disturb the agent, and folders that are watched."""

from __future__ import annotations

import json
import os
import plistlib
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support import Gj, fork, forked, wait
from transcripts import line

import gitjournal
from gitjournal import Journal, cli_watch, hook, live
from gitjournal.errors import JournalError, StorageError, UsageError
from gitjournal.formats import homes, import_file
from gitjournal.formats.homes import Place
from gitjournal.formats.protocol import Home
from gitjournal.formats.report import ImportReport

#: A record that says all about its session that later ones could, so that it need not be waited for.
said = partial(line, cwd="/home/ada")
#: For what takes milliseconds on a machine that is not busy, in seconds.
LONG = 60


def until(seen: Callable[[], Any]) -> Any:
    """Wait until something is seen."""
    end = time.monotonic() + LONG
    while not (found := seen()):
        assert time.monotonic() < end, "it was never seen"
        time.sleep(0.02)
    return found


def seqs(journal: Journal, name: str = "s1") -> list[int]:
    """The events of a session, empty when it is not there."""
    return [event.seq for event in journal.events(name)] if name in set(map(str, journal.sessions())) else []


# --- hooks ---------------------------------------------------------------------------------------


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state" / "gitjournal"


@pytest.fixture
def transcript(tmp_path: Path) -> Path:
    path = tmp_path / "projects" / "-home-ada" / "s1.jsonl"
    path.parent.mkdir(parents=True)
    path.write_bytes(said(n=0) + said(n=1))
    return path


def call(path: object, **more: Any) -> bytes:
    return json.dumps(
        {"session_id": "s1", "transcript_path": str(path), "hook_event_name": "PostToolUse", **more}
    ).encode()


def run_hook(raw: bytes, journal: Path, cwd: Path | None = None) -> None:
    """Call the hook as the agent does. It must say nothing and succeed, whatever happens."""
    done = subprocess.run(
        [sys.executable, "-m", "gitjournal", "hook", "claude-code"],
        input=raw,
        capture_output=True,
        timeout=LONG,
        env=os.environ | {"GITJOURNAL_DIR": str(journal)},
        cwd=cwd,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_a_hook_imports_what_the_transcript_has(journal: Journal, transcript: Path, state: Path) -> None:
    run_hook(call(transcript), journal.path)
    until(lambda: seqs(journal) == [1, 2, 3])
    with transcript.open("ab") as stream:
        stream.write(said(n=2) + said(n=3, end=b""))
    run_hook(call(transcript), journal.path)
    # The last line is not whole yet, and is left for the next time.
    until(lambda: seqs(journal) == [1, 2, 3, 4])
    with transcript.open("ab") as stream:
        stream.write(b"\n")
    run_hook(call(transcript), journal.path)
    until(lambda: seqs(journal) == [1, 2, 3, 4, 5])
    assert not live.logged(state)
    assert {str(name) for name in journal.sessions()} >= {"s1"} and len(journal.branches("s1")) == 1


def test_a_hook_imports_sub_agents_too(journal: Journal, transcript: Path, state: Path) -> None:
    beside = transcript.with_suffix("") / "subagents"
    beside.mkdir(parents=True)
    (beside / "agent-a1.jsonl").write_bytes(said(isSidechain=True, agentId="a1"))
    run_hook(call(transcript), journal.path)
    until(lambda: seqs(journal, "s1.agent-a1") == [1, 2])
    assert not live.logged(state)


def test_a_bad_file_of_a_sub_agent_stops_no_other(
    journal: Journal, transcript: Path, state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    beside = transcript.with_suffix("") / "subagents"
    beside.mkdir(parents=True)
    (tmp_path / "elsewhere.jsonl").write_bytes(said(sessionId="s7"))
    (beside / "agent-a1.jsonl").symlink_to(tmp_path / "elsewhere.jsonl")
    os.mkfifo(beside / "agent-a2.jsonl")
    for name in ("a3", "a4"):
        (beside / f"agent-{name}.jsonl").write_bytes(said(isSidechain=True, agentId=name))
    real = live.grown

    def grown(journal: Journal, path: Path) -> list[ImportReport]:
        if path.name == "agent-a3.jsonl":
            raise StorageError("a bad sector")
        return real(journal, path)

    monkeypatch.setattr(live, "grown", grown)
    live.take_hook(call(transcript), state, lambda _: journal)
    assert seqs(journal) == [1, 2, 3] and seqs(journal, "s1.agent-a4") == [1, 2] and not seqs(journal, "s7")
    assert [entry["message"] for entry in live.logged(state)] == ["a bad sector"]


def test_a_hook_does_not_wait_for_a_journal_that_is_in_use(journal: Journal, transcript: Path, state: Path) -> None:
    import_file(journal, transcript)
    with transcript.open("ab") as stream:
        stream.write(said(n=2))
    with journal.session("s1", epoch=1, salted=False):
        # It comes back although its child has to wait.
        run_hook(call(transcript), journal.path)
        assert seqs(journal) == [1, 2, 3]
    until(lambda: seqs(journal) == [1, 2, 3, 4])


@pytest.mark.parametrize(
    "raw",
    [b"", b"nonsense", b"[]", b"{}", b'{"transcript_path":3}', b'{"transcript_path":"a\\u0000b"}', b"\xff\xfe",
     b'{"transcript_path":"x","cwd":3}', b"[" * 100_000, b'{"transcript_path":"\\ud800"}'],
    ids=["nothing", "no JSON", "a list", "no path", "a number", "a NUL", "no text", "no folder", "deep", "half a word"],
)  # fmt: skip
def test_what_is_no_hook_input_is_logged_and_disturbs_nobody(raw: bytes, journal: Journal, state: Path) -> None:
    run_hook(raw, journal.path)
    [entry] = until(lambda: live.logged(state))
    assert entry["code"] == "usage" and "transcript_path" in entry["message"]
    assert [str(name) for name in journal.sessions()] == ["journal"] or not list(journal.sessions())


def test_errors_of_a_hook_go_to_the_log(transcript: Path, tmp_path: Path, state: Path) -> None:
    run_hook(call(transcript), tmp_path / "nowhere")
    [entry] = until(lambda: live.logged(state))
    assert (entry["code"], "nowhere" in entry["message"]) == ("not-found", True)


def test_a_transcript_that_is_not_there_yet_is_no_error(journal: Journal, tmp_path: Path, state: Path) -> None:
    assert live.take_hook(call(tmp_path / "s9.jsonl"), state, lambda _: journal) == []
    assert live.take_hook(call(tmp_path), state, lambda _: journal) == []


def test_the_journal_of_a_hook_is_found_from_the_folder_of_the_agent(
    transcript: Path, state: Path, tmp_path: Path
) -> None:
    folders = []

    def opened(folder: Path) -> Journal:
        folders.append(folder)
        return gitjournal.init(tmp_path / "j")

    live.take_hook(call(transcript, cwd="/home/ada/notes"), state, opened)
    assert folders == [Path("/home/ada/notes")]


def test_of_many_hooks_one_works_and_one_waits(journal: Journal, transcript: Path, state: Path) -> None:
    """The third goes home: the second will see what it came for."""
    entered, leave = os.pipe(), os.pipe()

    def slow(_: Path) -> Journal:
        os.write(entered[1], b"x")
        os.read(leave[0], 1)
        return gitjournal.open(journal.path)

    def work() -> None:
        assert live.take_hook(call(transcript), state, slow)

    first = fork(work)
    os.read(entered[0], 1)
    second = fork(work)

    def third() -> None:
        with live._turn(state, transcript) as ours:
            assert not ours

    until(lambda: _waits(state, transcript))
    assert forked(third) == 0
    os.write(leave[1], b"xx")
    assert (wait(first), wait(second)) == (0, 0)
    assert seqs(journal) == [1, 2, 3]


def _waits(state: Path, path: Path) -> bool:
    """Whether some process waits for its turn."""
    import fcntl
    from hashlib import sha256

    place = int.from_bytes(sha256(os.fsencode(path)).digest()[:7]) * 2
    with (state / "hook.lock").open("r+b") as file:
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, place)
        except OSError:
            return True
    return False


def test_the_log_is_bounded_and_survives_nonsense(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert live.logged(state) == []
    monkeypatch.setattr(live, "_LOG_BYTES", 500)
    for number in range(50):
        live.log_error(state, StorageError(f"error {number}\nof two lines"))
    with (state / "hook.log").open("ab") as file:
        file.write(b"\xff nonsense\n[1]\n")
    live.log_error(state, RuntimeError("other"))
    found = live.logged(state)
    assert found[-1]["code"] == "RuntimeError" and all(isinstance(one, dict) for one in found)
    assert sum(path.stat().st_size for path in state.iterdir()) < 3000


def test_the_door_takes_only_the_exact_hook(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from gitjournal import entry

    called = []
    monkeypatch.setattr(hook, "receive", lambda journal: called.append(f"hook {journal}"))
    monkeypatch.setattr("gitjournal.cli.main", lambda: called.append("gj"))
    exact = (["hook", "claude-code"], ["hook", "claude-code", "--journal", "j"])
    for words in (*exact, ["hook", "--help"], ["hook"], ["hook", "claude-code", "--settings"], []):
        monkeypatch.setattr(sys, "argv", ["gj", *words])
        entry.main()
    assert called == ["hook None", "hook j", "gj", "gj", "gj", "gj"]


@pytest.mark.parametrize(
    "words",
    [
        ("hook",), ("hook", "codex"), ("hook", "claude-code", "--jornal", "x"), ("hook", "claude-code", "x", "--new"),
        ("--jornal", "x", "hook", "claude-code"), ("--journal=x", "hook", "claude-code", "--new"),
    ],
)  # fmt: skip
def test_a_hook_that_is_called_wrongly_forbids_the_agent_nothing(words: tuple[str, ...], state: Path) -> None:
    ran = subprocess.run([sys.executable, "-m", "gitjournal", *words], input=b"{}", capture_output=True, check=False)
    assert (ran.returncode, ran.stdout) == (1, b"") and ran.stderr.startswith(b"gj: ")
    assert live.logged(state)[-1]["message"].endswith("gj " + " ".join(words))


def test_what_is_no_hook_or_has_somebody_at_a_terminal_keeps_its_status(
    monkeypatch: pytest.MonkeyPatch, state: Path
) -> None:
    from gitjournal import entry

    for words, at in ((["hook", "codex"], True), (["show", "hook", "codex"], False), (["hok"], False)):
        monkeypatch.setattr(sys, "argv", ["gj", *words])
        monkeypatch.setattr("sys.stdin", SimpleNamespace(isatty=lambda at=at: at))
        with pytest.raises(SystemExit) as end:
            entry.main()
        assert end.value.code in (2, 4)
    assert not live.logged(state)


def test_a_hook_without_an_agent_is_one_line(gj: Gj) -> None:
    failed = gj("hook", ok=False)
    assert (failed.exit_code, failed.stderr.splitlines()[0]) == (
        2, "gj: Missing argument '{claude-code}'. Choose from: claude-code",
    )  # fmt: skip


def test_the_settings_of_a_hook_are_printed(gj: Gj) -> None:
    settings = json.loads(gj("hook", "claude-code", "--settings").stdout)
    assert set(settings["hooks"]) == {"SessionStart", "PostToolUse", "Stop", "SessionEnd"}
    for entries in settings["hooks"].values():
        assert entries == [{"hooks": [{"type": "command", "command": "gj hook claude-code"}]}]
    named = gj("hook", "claude-code", "--settings", "--journal", "a b").stdout
    assert f"gj hook claude-code --journal '{Path.cwd()}/a b'" in named


# --- folders -------------------------------------------------------------------------------------


class Watched:
    """A watcher in a thread, and what it has said."""

    def __init__(self, journal: Journal, *folders: Path) -> None:
        self.reports: list[ImportReport] = []
        self.failures: list[tuple[Path, JournalError]] = []
        self.stop = threading.Event()
        self.watcher = live.Watcher(
            journal,
            lambda: [Place("auto", Home("", "", ("**/*",)), folder) for folder in folders if folder.is_dir()],
            self.reports.append,
            lambda path, error: self.failures.append((path, error)),
        )
        self.thread = threading.Thread(target=self.watcher.run, args=(self.stop,))


@pytest.fixture
def watch(journal: Journal) -> Iterator[Callable[..., Any]]:
    @contextmanager
    def watching(*folders: Path) -> Iterator[Watched]:
        watched = Watched(gitjournal.open(journal.path), *folders)
        watched.thread.start()
        try:
            yield watched
        finally:
            watched.stop.set()
            watched.thread.join(LONG)
            assert not watched.thread.is_alive()

    yield watching


def append(path: Path, content: bytes) -> None:
    with path.open("ab") as stream:
        stream.write(content)


def test_a_watch_imports_what_is_there_and_follows(journal: Journal, transcript: Path, watch: Any) -> None:
    with watch(transcript.parents[1]) as watched:
        until(lambda: seqs(journal) == [1, 2, 3])
        append(transcript, said(n=2))
        until(lambda: seqs(journal) == [1, 2, 3, 4])
        other = transcript.with_name("s2.jsonl")
        other.write_bytes(said(sessionId="s2"))
        until(lambda: seqs(journal, "s2") == [1, 2])
        nested = transcript.parents[1] / "-other" / "s0" / "subagents"
        nested.mkdir(parents=True)
        (nested / "agent-1.jsonl").write_bytes(said(sessionId="s3"))
        until(lambda: seqs(journal, "s3") == [1, 2])
        assert not watched.failures


def test_a_line_is_taken_when_it_is_whole(journal: Journal, transcript: Path, watch: Any) -> None:
    whole = said(n=2)
    with watch(transcript.parent) as watched:
        until(lambda: seqs(journal) == [1, 2, 3])
        append(transcript, whole[:40])
        append(transcript.with_name("s2.jsonl"), said(sessionId="s2"))
        until(lambda: seqs(journal, "s2"))
        assert seqs(journal) == [1, 2, 3]
        append(transcript, whole[40:])
        until(lambda: seqs(journal) == [1, 2, 3, 4])
        assert not watched.failures
    assert len(journal.branches("s1")) == 1


def test_a_watch_goes_on_where_it_was_ended(journal: Journal, transcript: Path, watch: Any) -> None:
    with watch(transcript.parent):
        until(lambda: seqs(journal) == [1, 2, 3])
    append(transcript, said(n=2))
    with watch(transcript.parent) as watched:
        until(lambda: seqs(journal) == [1, 2, 3, 4])
        until(lambda: [report.added for report in watched.reports] == [1])
    with watch(transcript.parent) as watched:
        append(transcript.with_name("s2.jsonl"), said(sessionId="s2"))
        until(lambda: seqs(journal, "s2"))
        # What is as it was is not spoken of.
        until(lambda: [report.session for report in watched.reports] == ["s2"])


def test_truncated_and_rotated_files_overwrite_nothing(journal: Journal, transcript: Path, watch: Any) -> None:
    with watch(transcript.parent) as watched:
        until(lambda: seqs(journal) == [1, 2, 3])
        transcript.write_bytes(said("another", n=0))
        until(lambda: any(report.branch != "main" for report in watched.reports))
        transcript.rename(transcript.with_name("s1.jsonl.1"))
        transcript.write_bytes(said("a third", n=0))
        until(lambda: len(journal.branches("s1")) == 3)
        assert not watched.failures
    assert seqs(journal) == [1, 2, 3]


def test_a_file_that_goes_away_leaves_the_journal_as_it_is(journal: Journal, transcript: Path, watch: Any) -> None:
    with watch(transcript.parent) as watched:
        until(lambda: seqs(journal) == [1, 2, 3])
        transcript.unlink()
        append(transcript.with_name("s2.jsonl"), said(sessionId="s2"))
        until(lambda: seqs(journal, "s2"))
        assert not watched.failures
    assert seqs(journal) == [1, 2, 3]


def test_what_nobody_recognises_is_left_alone_until_it_is_recognised(
    journal: Journal, transcript: Path, watch: Any
) -> None:
    half = transcript.with_name("s2.jsonl")
    half.write_bytes(said(sessionId="s2")[:30])
    (transcript.parent / "notes.txt").write_text("not a session")
    with watch(transcript.parent) as watched:
        until(lambda: seqs(journal) == [1, 2, 3])
        append(half, said(sessionId="s2")[30:])
        until(lambda: seqs(journal, "s2") == [1, 2])
        assert not watched.failures
    assert {name.session for name in journal.sessions()} <= {"s1", "s2", "journal"}


def test_a_session_that_somebody_writes_is_tried_again(journal: Journal, transcript: Path, watch: Any) -> None:
    import_file(journal, transcript)
    with journal.session("s1", epoch=1, salted=False), watch(transcript.parent) as watched:
        append(transcript, said(n=2))
        append(transcript.with_name("s2.jsonl"), said(sessionId="s2"))
        until(lambda: seqs(journal, "s2"))
        assert not watched.failures
    with watch(transcript.parent):
        until(lambda: seqs(journal) == [1, 2, 3, 4])


def test_one_bad_file_does_not_stop_the_rest(
    journal: Journal, transcript: Path, watch: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = live.grown

    def grown(journal: Journal, path: Path) -> list[ImportReport]:
        if path.name == "s1.jsonl":
            raise StorageError("a bad sector")
        return real(journal, path)

    monkeypatch.setattr(live, "grown", grown)
    with watch(transcript.parent) as watched:
        append(transcript.with_name("s2.jsonl"), said(sessionId="s2"))
        until(lambda: seqs(journal, "s2"))
        until(lambda: watched.failures)
        assert str(watched.failures[0][1]) == "a bad sector"


def test_folders_that_appear_later_are_found(
    journal: Journal, transcript: Path, tmp_path: Path, watch: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "_LOOK_FOR_PLACES", 0.1)
    later = tmp_path / "later"
    with watch(transcript.parent, later) as watched:
        until(lambda: seqs(journal) == [1, 2, 3])
        later.mkdir()
        append(later / "s2.jsonl", said(sessionId="s2"))
        until(lambda: seqs(journal, "s2"))
        append(later / "s2.jsonl", said(sessionId="s2", n=1))
        until(lambda: seqs(journal, "s2") == [1, 2, 3])
        assert not watched.failures


def test_a_document_is_looked_at_when_it_is_quiet(transcript: Path, journal: Journal) -> None:
    watcher = Watched(journal, transcript.parent).watcher
    watcher._places = watcher._find_places()
    base = transcript.parent
    changed = {base / name for name in ("a.jsonl", "b.json", "c.db-wal", "d.db-journal")}
    watcher._changes.put(changed | {base.parent / "outside.jsonl"})
    watcher._gather(wait=False)
    now = time.monotonic()
    assert set(watcher._due) == {base / name for name in ("a.jsonl", "b.json", "c.db", "d.db")}
    assert [path.name for path, due in watcher._due.items() if due <= now] == ["a.jsonl"]


def test_a_new_folder_is_looked_into_because_its_files_may_have_come_before_the_watch(
    transcript: Path, journal: Journal
) -> None:
    watcher = Watched(journal, transcript.parent).watcher
    watcher._places = watcher._find_places()
    inner = transcript.parent / "x" / "y"
    inner.mkdir(parents=True)
    (inner / "a.jsonl").write_bytes(said())
    watcher._changes.put({transcript.parent / "x", transcript.parents[1], transcript.parent / "gone"})
    watcher._gather(wait=False)
    assert set(watcher._due) == {inner / "a.jsonl", transcript.parent / "gone"}


# --- the command ---------------------------------------------------------------------------------


@contextmanager
def program(*words: str | Path, **env: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "gitjournal", *map(str, words)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ | env
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def test_the_command_says_what_it_imports_and_ends_when_told(journal: Journal, transcript: Path, state: Path) -> None:
    with program("-J", journal.path, "watch", transcript.parent) as first:
        assert first.stdout is not None and first.stderr is not None
        assert first.stdout.readline() == f"s1: 2 new events, from {transcript}\n"
        append(transcript, said(n=2))
        assert first.stdout.readline() == f"s1: 1 new event, from {transcript}\n"
        with program("-J", journal.path, "watch", transcript.parent) as second:
            _, told = second.communicate(timeout=LONG)
        assert second.returncode == 1 and f"process {first.pid} on " in told
        first.send_signal(signal.SIGTERM)
        assert first.wait(LONG) == 0
    with program("-J", journal.path, "watch", "--json", transcript.parent) as third:
        assert third.stdout is not None
        append(transcript, said(n=3))
        assert json.loads(third.stdout.readline())["added"] == 1
        third.send_signal(signal.SIGINT)
        assert third.wait(LONG) == 0


def test_a_folder_that_is_not_there_is_refused(gj: Gj, journal: Journal, tmp_path: Path, state: Path) -> None:
    failed = gj("-J", str(journal.path), "watch", str(tmp_path / "nothing"), ok=False)
    assert failed.exit_code == 2 and "is no folder" in failed.stderr


def test_a_service_is_written_and_not_started(
    gj: Gj, journal: Journal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, state: Path
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setattr(sys, "platform", "linux")
    told = gj("-J", str(journal.path), "watch", "--install").stdout
    path = tmp_path / "config" / "systemd" / "user" / "gitjournal-watch.service"
    assert str(path) in told and "systemctl --user enable --now gitjournal-watch.service" in told
    unit = path.read_text()
    assert f'ExecStart="{sys.executable}" "-m" "gitjournal" "--journal" "{journal.path}" "watch"\n' in unit
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setenv("HOME", str(tmp_path))
    told = json.loads(gj("-J", str(journal.path), "watch", "--install", "--json").stdout)
    plist = plistlib.loads(Path(told["path"]).read_bytes())
    assert plist["ProgramArguments"][-1] == "watch" and "launchctl" in told["start"]


def test_words_of_a_service_file_are_quoted() -> None:
    assert cli_watch._quoted('a "b" 100% $HOME \\') == '"a \\"b\\" 100%% $$HOME \\\\"'


# --- where programs keep their sessions ----------------------------------------------------------


def test_patterns_of_homes(tmp_path: Path) -> None:
    place = Place("x", Home("", "", ("projects/**/*.jsonl", "one?.json")), tmp_path)
    there = {"projects/a.jsonl", "projects/x/y/a.jsonl", "one1.json"}
    others = {"a.jsonl", "projects/a.json", "projects/a.jsonl.bak", "one.json", "x/one1.json", "projectsX/a.jsonl"}
    for name in there | others:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x")
        assert place.has(tmp_path / name) is (name in there)
    assert {path.relative_to(tmp_path).as_posix() for path in place.files()} == there
    assert not place.has(Path("/elsewhere/projects/a.jsonl"))


def test_only_folders_that_lead_to_sessions_are_looked_into(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for folder in ("projects/x/y", "snapshot/a/b", "chats/1/2", "deep/" + "d/" * 400):
        (tmp_path / folder).mkdir(parents=True)
    seen: list[str] = []
    real = os.scandir

    def scandir(path: Path) -> Any:
        seen.append(Path(path).relative_to(tmp_path).as_posix())
        return real(path)

    monkeypatch.setattr(os, "scandir", scandir)
    assert not list(Place("x", Home("", "", ("projects/**/*.jsonl", "chats/*/a.json")), tmp_path).files())
    assert seen == [".", "chats", "chats/1", "projects", "projects/x", "projects/x/y"]
    assert not list(homes.walk(tmp_path))
    assert len(seen) > 400


def test_links_and_special_files_of_a_home_are_passed_over(tmp_path: Path) -> None:
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    for folder in (inside, outside):
        folder.mkdir()
        (folder / "a.jsonl").write_text("x")
    (inside / "link.jsonl").symlink_to(outside / "a.jsonl")
    (inside / "out").symlink_to(outside)
    (inside / "loop").symlink_to(inside)
    os.mkfifo(inside / "pipe.jsonl")
    assert list(homes.walk(inside)) == [inside / "a.jsonl"]
    assert list(homes.walk(tmp_path / "nothing")) == []


def test_homes_follow_their_variables(tmp_path: Path) -> None:
    (tmp_path / "projects").mkdir()
    found = homes.places({"CLAUDE_CONFIG_DIR": str(tmp_path)})
    assert [(place.format, place.root) for place in found if place.root == tmp_path] == [("claude-code", tmp_path)]
    assert found[0].home.keeps_days == 30 or len(found) > 1


def test_a_hook_input_names_paths() -> None:
    for raw in (b"{}", b'{"transcript_path": "x", "cwd": 3}'):
        with pytest.raises(UsageError):
            live._transcript(raw)
