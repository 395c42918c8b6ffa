"""``gj demo``: the whole of gitjournal in a minute, on a real session, with the commands that a user would type.

Floor 6. Each step is run as the program itself would run it. Needs no network, account or configuration.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from gitjournal.cli_base import App, color_option, pass_app
from gitjournal.errors import JournalError, UsageError

if TYPE_CHECKING:
    from gitjournal.journal import Journal

_SESSION = "demo"
#: The branch goes off after this event, and the damage is done to an event that only the trunk has.
_BRANCH_AT = 19
_DAMAGED = 29
_MESSAGE = '{"role": "user", "parts": [{"type": "text", "content": "Stop. Use decimal.Decimal instead."}]}'


@click.command(short_help="Show it all in a minute, on a session that comes along.")
@click.argument("folder", required=False, type=click.Path())
@color_option
@pass_app
def demo(app: App, folder: str | None) -> None:
    """Make a journal in FOLDER (which must be new or empty; else a temporary one) and take it through its paces.

    Imports a session that comes with this program, shows it, branches it, replays it, verifies it, changes one byte
    in a copy and shows that this is found. The journal stays for you to look around in.
    """
    import shutil
    import tempfile

    place = _place(folder)
    with tempfile.TemporaryDirectory(prefix="gj-demo-copy-") as scratch:
        try:
            _Demo(app, place, Path(scratch) / "copy.git").run()
        except BaseException:
            # Half a demonstration that nobody has named a place for is only litter.
            if folder is None:
                shutil.rmtree(place, ignore_errors=True)
            raise


def _place(folder: str | None) -> Path:
    import tempfile

    if folder is None:
        return Path(tempfile.mkdtemp(prefix="gj-demo-"))
    place = Path(folder)
    if place.exists() and (not place.is_dir() or any(place.iterdir())):
        raise UsageError(f"{place} is not an empty folder", hint="Name one that does not exist yet.")
    return place.absolute()


class _Demo:
    def __init__(self, app: App, place: Path, copy: Path) -> None:
        self._app = app
        self._place = place
        self._copy = copy

    def run(self) -> None:
        """All steps. JournalError when one does not come out as it must."""
        import shlex
        from importlib import resources

        self._title("A journal is a git repository. This one is new:")
        self._show(f"export GITJOURNAL_DIR={shlex.quote(str(self._place))}")
        self._gj("init")
        with resources.as_file(resources.files("gitjournal") / "demo" / "session.jsonl") as source:
            self._title("Import a session of a coding agent. Every byte of it is kept:")
            self._gj("import", str(source), "--session", _SESSION)
        self._title("Look at it, newest first:")
        self._gj("log", _SESSION, "-n", "12")
        self._title(f"What was the state after event {_BRANCH_AT}?")
        self._gj("replay", f"{_SESSION}@{_BRANCH_AT}")
        self._title("Go another way from there. Nothing is copied:")
        self._gj("branch", f"{_SESSION}@{_BRANCH_AT}", "try-decimal")
        self._gj("append", f"{_SESSION}/try-decimal", _MESSAGE, "--type", "message", "--actor", "user")
        self._gj("log", _SESSION, "--graph", "-n", "22")
        self._title("Verify: every event, link, tree and commit is derived anew and compared:")
        self._gj("verify")
        self._tamper()
        self._title("The journal itself is as it was:")
        self._gj("verify", _SESSION)
        self._title("It stays where it is, for git and for gj. Have a look around, then remove it:")
        self._show(f"gj show {_SESSION}@{_DAMAGED}")
        self._show(f"git -C $GITJOURNAL_DIR log --oneline {_SESSION}/main")
        self._show("rm -rf $GITJOURNAL_DIR")

    def _tamper(self) -> None:
        import shutil

        from gitjournal.journal import open_journal
        from gitjournal.verify import verify

        self._title(f"Now somebody changes one byte of event {_DAMAGED}, in a copy:")
        self._show(f"COPY={self._copy}; cp -r $GITJOURNAL_DIR $COPY")
        shutil.copytree(self._place, self._copy)
        pack, offset = find_event(open_journal(self._copy), _SESSION, _DAMAGED)
        self._show(f"PACK=$COPY/{pack.relative_to(self._copy)}; chmod u+w $PACK")
        old = _byte(pack, offset)
        self._put(pack, offset, old ^ 1)
        self._verify_copy(expected=1)
        found = {finding.seq for finding in verify(open_journal(self._copy), _SESSION).findings}
        if found != {_DAMAGED}:
            raise JournalError(f"the change at event {_DAMAGED} was found at {sorted(map(str, found))}")
        self._title("Found, at that very event. Undo it:")
        self._put(pack, offset, old)
        self._verify_copy(expected=0)

    def _put(self, pack: Path, offset: int, value: int) -> None:
        self._show(f"printf '\\x{value:02x}' | dd of=$PACK bs=1 seek={offset} conv=notrunc status=none")
        pack.chmod(0o600)
        with pack.open("r+b") as file:
            file.seek(offset)
            file.write(bytes([value]))

    def _verify_copy(self, expected: int) -> None:
        self._gj("-J", str(self._copy), "verify", _SESSION, shown=f"gj -J $COPY verify {_SESSION}", expected=expected)

    def _title(self, text: str) -> None:
        self._app.say()
        self._app.say(self._app.paint(f"# {text}", "dim"))

    def _show(self, command: str) -> None:
        self._app.say(f"{self._app.paint('$', 'green')} {self._app.paint(command, 'bold')}")

    def _gj(self, *words: str, shown: str = "", expected: int = 0) -> None:
        """Run ``gj`` and show how; JournalError when it ends with another status than it must."""
        import shlex

        program = click.get_current_context().find_root().command
        self._show(shown or shlex.join(["gj", *words]))
        inner = App()
        inner.named, inner.color, inner.pages = str(self._place), self._app.color, False
        status = program.main(list(words), prog_name="gj", standalone_mode=False, obj=inner) or 0
        if status:
            self._app.say(self._app.paint(f"(exit status {status})", "dim"))
        if status != expected:
            raise JournalError(f"{shlex.join(words)} ended with status {status}, not {expected}")


def find_event(journal: Journal, session: str, seq: int) -> tuple[Path, int]:
    """(pack, offset) of a byte in the middle of the stored form of an event that is in git."""
    from gitjournal.objects import git_id
    from gitjournal.packread import Pack

    blob = git_id(b"blob", journal.event(session, seq).raw)
    for path in sorted(journal.store.pack_folder.glob("*.pack")):
        pack = Pack(path)
        begin = pack.offset(blob)
        if begin is not None:
            # A pack ends with a checksum of 20 bytes.
            ends = [offset for _, _, offset in pack.entries()] + [pack.size - 20]
            return path, (begin + min(end for end in ends if end > begin)) // 2
    raise JournalError(f"event {seq} of {session} is in no pack")


def _byte(path: Path, offset: int) -> int:
    with path.open("rb") as file:
        file.seek(offset)
        return file.read(1)[0]
