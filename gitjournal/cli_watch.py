"""Sessions as they go on: watch and hook.

Floor 6. What a hook does when an agent calls it is in `hook`, which does not load this.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gitjournal.cli_base import App, complain, explain, journal_option, json_option, pass_app
from gitjournal.errors import JournalError, LeaseHeld, Refused, UsageError

if TYPE_CHECKING:
    from threading import Event

    from gitjournal.formats import ImportReport
    from gitjournal.formats.homes import Place

_UNIT = """\
[Unit]
Description=gitjournal: keeps the sessions of coding agents

[Service]
ExecStart={command}
Restart=on-failure
RestartSec=10

[Install]
WantedBy=default.target
"""


@click.command(short_help="Follow the sessions of the agents on this machine as they go on.")
@click.argument("folders", metavar="[FOLDER]...", nargs=-1, type=click.Path())
@click.option("--install", is_flag=True, help="Write a service file that does this at login, and say how to start it.")
@json_option
@journal_option
@pass_app
def watch(app: App, folders: tuple[str, ...], install: bool, as_json: bool) -> None:
    """Import what the sessions of the known agents have gained, as soon as a line is whole, until interrupted.

    Without FOLDER, the folders where these programs keep their sessions; gj import --discover lists them. What was
    there before is imported first, the newest first. Nothing is ever written to the files themselves. There is one
    watch for a user and machine; where it was when it ended is in the journal, so it can be ended at any time.
    """
    if install:
        _install(app, folders, as_json)
        return
    from gitjournal.hook import state_folder
    from gitjournal.lease import Lease
    from gitjournal.live import Watcher
    from gitjournal.render import count, printable

    journal = app.journal_for_writing()
    state = state_folder()
    state.mkdir(parents=True, exist_ok=True)
    try:
        lease = Lease.acquire(state / "watch.lock", "gj watch")
        lease.stamp(1)
    except LeaseHeld as error:
        holder = str(error).rpartition(" by ")[2]
        raise Refused(f"a gj watch is running already: {holder}", hint="One is enough for a user.") from None

    def say(report: ImportReport) -> None:
        if as_json:
            app.emit(report.as_dict())
        else:
            name = report.session if report.branch == "main" else f"{report.session}/{report.branch}"
            app.say(printable(f"{name}: {count(report.added, 'new event')}, from {report.path}"))
        app.out.flush()

    def failed(path: Path, error: JournalError) -> None:
        complain(f"{path}: not imported")
        explain(error)

    try:
        places = _places(folders)
        app.note(f"watching {count(len(places), 'folder')}, into {journal.path}; Ctrl-C ends it")
        Watcher(journal, lambda: _places(folders), say, failed).run(_stopped())
    finally:
        lease.release()


def _stopped() -> Event:
    """Set when the program is told to end, by Ctrl-C or as a service is."""
    import signal
    from threading import Event

    stop = Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    return stop


def _places(folders: tuple[str, ...]) -> list[Place]:
    from gitjournal.formats.homes import Place, places
    from gitjournal.formats.protocol import Home

    if not folders:
        return places(os.environ)
    missing = next((folder for folder in folders if not Path(folder).is_dir()), None)
    if missing is not None:
        raise UsageError(f"{missing} is no folder")
    return [Place("auto", Home("", folder, ("**/*",)), Path(folder).absolute()) for folder in folders]


# --- a service -----------------------------------------------------------------------------------


def _install(app: App, folders: tuple[str, ...], as_json: bool) -> None:
    """Write the file that makes the user's service manager run a watch; starting it is left to the user."""
    from gitjournal.files import write_whole
    from gitjournal.render import printable

    journal = app.journal_for_writing().path
    command = [sys.executable, "-m", "gitjournal", "--journal", str(journal.absolute()), "watch"]
    command += [str(Path(folder).absolute()) for folder in folders]
    if any(character in word for word in command for character in "\n\r\0"):
        raise UsageError("a path with a line break cannot stand in a service file")
    if sys.platform == "darwin":
        path = Path("~/Library/LaunchAgents/gitjournal.watch.plist").expanduser()
        content, start = _plist(command), f"launchctl load -w {path}"
    else:
        base = Path(os.environ.get("XDG_CONFIG_HOME") or "~/.config").expanduser()
        path = base / "systemd" / "user" / "gitjournal-watch.service"
        content = _UNIT.format(command=" ".join(map(_quoted, command))).encode()
        start = "systemctl --user enable --now gitjournal-watch.service"
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, content)
    if as_json:
        app.emit({"path": str(path), "start": start})
    else:
        app.say(printable(f"wrote {path}; this starts it, now and at each login:"))
        app.say(printable(f"  {start}"))


def _plist(command: list[str]) -> bytes:
    import plistlib

    return plistlib.dumps({
        "Label": "gitjournal.watch", "ProgramArguments": command, "RunAtLoad": True, "KeepAlive": True,
    })  # fmt: skip


def _quoted(word: str) -> str:
    """A word of ``ExecStart``: systemd knows double quotes, backslashes, ``%`` and ``$``."""
    for character, escaped in (("\\", "\\\\"), ('"', '\\"'), ("%", "%%"), ("$", "$$")):
        word = word.replace(character, escaped)
    return f'"{word}"'


# --- hooks ---------------------------------------------------------------------------------------

_EVENTS = ("SessionStart", "PostToolUse", "Stop", "SessionEnd")


@click.command(short_help="What Claude Code calls as a hook, and the settings for it.")
@click.argument("agent", type=click.Choice(["claude-code"]))
@click.option("--settings", is_flag=True, help="Print what to add to ~/.claude/settings.json, and do nothing else.")
@journal_option
@pass_app
def hook(app: App, agent: str, settings: bool) -> None:
    """Take a hook's input on standard input, and import what its transcript has gained, in the background.

    It prints nothing and never fails, so that the agent is not disturbed; gj doctor shows what went wrong. Without
    --journal it is $GITJOURNAL_DIR, the nearest .gitjournal above the agent's folder, or your own.
    """
    if not settings:
        from gitjournal.hook import receive

        receive(app.named)
    import json
    import shlex

    command = ["gj", "hook", "claude-code", *(["--journal", str(Path(app.named).absolute())] if app.named else [])]
    entry = [{"hooks": [{"type": "command", "command": shlex.join(command)}]}]
    app.say(json.dumps({"hooks": dict.fromkeys(_EVENTS, entry)}, indent=2))
