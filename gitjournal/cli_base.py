"""What all commands share: the journal they work on, output, errors and exit statuses.

Floor 6. Only this and `hook` read the environment. Imports nothing heavy, so that ``gj --help`` is quick.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TextIO, TypeVar, cast

import click

from gitjournal.errors import JournalError, NotFound, StorageError, UsageError

if TYPE_CHECKING:
    import subprocess

    from gitjournal.journal import Journal
    from gitjournal.render import Paint

F = TypeVar("F", bound=Callable[..., Any])

#: Exit status by the code of an error; all others are 1. Section 12 of docs/format.md: 0 fine, 1 broken or failed,
#: 2 usage, 3 intact but not complete (`gj verify`), 4 not there or not readable.
EXIT = {"usage": 2, "not-found": 4, "not-a-journal": 4, "storage": 4}
FAILED = 1
INTERRUPTED = 130
#: As a shell shows a program that SIGPIPE has ended.
PIPE_CLOSED = 141
#: A fault of this program.
INTERNAL = 70

_CONTROL = re.compile("[\x7f-\x9f]")


class PipeClosed(Exception):
    """The reader of standard output is gone."""


class App:
    """One run of the program. Commands get it through `pass_app`."""

    def __init__(self) -> None:
        self.named: str | None = None
        self.color = "auto"
        self.pages = True
        self._pager: TextIO | None = None

    # --- the journal -----------------------------------------------------------------------------

    def place(self) -> Path:
        """Where the journal is or would be."""
        from gitjournal.journal import discover

        return discover(self.named, os.environ, _here())

    def journal(self) -> Journal:
        """The journal, which must exist."""
        return _open(self.place())

    def journal_for_writing(self) -> Journal:
        """The journal. The user's own is made when it is missing; one that was asked for by name is not."""
        from gitjournal.journal import at_hand

        journal, made = at_hand(self.named, os.environ, _here())
        if made:
            self.note(f"made your journal at {journal.path}")
        return journal

    def journal_or_empty(self) -> Journal:
        """The journal to compare with; an empty one, thrown away at the end, where the user's own is not made yet."""
        try:
            return self.journal()
        except NotFound:
            if self.named:
                raise
        import tempfile

        from gitjournal.journal import init

        folder = tempfile.TemporaryDirectory(prefix="gitjournal-")
        click.get_current_context().call_on_close(folder.cleanup)
        return init(Path(folder.name) / "journal.git")

    # --- output ----------------------------------------------------------------------------------

    @property
    def out(self) -> TextIO:
        """Where results go: standard output or the pager."""
        if self._pager is not None:
            return self._pager
        if sys.stdout is None:
            raise StorageError("standard output is closed")
        return sys.stdout

    @property
    def on_terminal(self) -> bool:
        """Whether a person reads the results as they come."""
        return self.out.isatty() or self._pager is not None

    @property
    def width(self) -> int | None:
        """Columns of the terminal, None when there is none."""
        import shutil

        return shutil.get_terminal_size().columns if self.on_terminal else None

    @property
    def paint(self) -> Paint:
        """Colours as the terminal, ``--color`` and ``NO_COLOR`` have it."""
        from gitjournal.render import Paint

        plain = bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM") == "dumb"
        return Paint(self.color == "always" or (self.color == "auto" and self.on_terminal and not plain))

    def say(self, line: str = "") -> None:
        """One line of a result. What came from events must be `render.printable` already."""
        self.out.write(f"{line}\n")

    def emit(self, value: object) -> None:
        """One JSON object on a line of its own."""
        import json

        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
        # A lone surrogate (of a file name that is not UTF-8) is written as its JSON escape.
        self.json_line(text.encode("utf-8", "backslashreplace"))

    def json_line(self, raw: bytes) -> None:
        """A line of JSON that is there as bytes; on a terminal, controls that JSON allows are escaped."""
        if self.on_terminal:
            text = _CONTROL.sub(lambda match: f"\\u{ord(match[0]):04x}", raw.decode("utf-8", "replace"))
            raw = text.encode()
        self.write(raw + b"\n")

    def write(self, raw: bytes) -> None:
        """Exactly these bytes."""
        self.out.flush()
        self.out.buffer.write(raw)

    def note(self, text: str) -> None:
        """Something to know that is no result: to standard error."""
        complain(text)

    @contextmanager
    def paged(self) -> Iterator[None]:
        """Results within go through a pager, if a person reads them and has one."""
        command = _pager() if self.pages and sys.stdout is not None and sys.stdout.isatty() else []
        if not command:
            yield
            return
        import subprocess

        env = {"LESS": "FRX", "LV": "-c", **os.environ}
        # The user names the program, as for git.
        with subprocess.Popen(command, stdin=subprocess.PIPE, env=env, text=True, encoding="utf-8") as process:  # noqa: S603
            self._pager = cast(TextIO, process.stdin)
            try:
                # Leaving the pager early is not an error.
                with suppress(BrokenPipeError):
                    yield
                with suppress(BrokenPipeError):
                    self._pager.close()
            finally:
                self._pager = None
                _wait(process)


def _here() -> Path:
    try:
        return Path.cwd()
    except FileNotFoundError:
        raise StorageError("the folder that this was started in is gone") from None


def _pager() -> list[str]:
    import shlex
    import shutil

    command = os.environ.get("PAGER", "less")
    try:
        words = shlex.split(command)
    except ValueError:
        return []
    return words if words and words != ["cat"] and shutil.which(words[0]) else []


def _wait(process: subprocess.Popen[str]) -> None:
    """Wait for the pager, which takes Ctrl-C for itself."""
    while True:
        try:
            with suppress(OSError):
                process.stdin.close()  # type: ignore[union-attr]
            process.wait()
            return
        except KeyboardInterrupt:
            continue


def _open(place: Path) -> Journal:
    from gitjournal.journal import open_journal

    return open_journal(place)


pass_app = click.make_pass_decorator(App, ensure=True)


# --- options and arguments -----------------------------------------------------------------------


def _keep(attribute: str) -> Callable[[click.Context, click.Parameter, Any], None]:
    def keep(ctx: click.Context, _: click.Parameter, value: Any) -> None:
        if value is not None:
            setattr(ctx.ensure_object(App), attribute, value)

    return keep


def journal_option(command: F) -> F:
    """``-J/--journal``, which may stand before the command as well as after it."""
    return click.option(
        "-J",
        "--journal",
        metavar="PATH",
        expose_value=False,
        callback=_keep("named"),
        is_eager=True,
        help="The journal to use; else $GITJOURNAL_DIR, the nearest .gitjournal upwards, or your own.",
    )(command)


def color_option(command: F) -> F:
    """``--color``."""
    return click.option(
        "--color",
        type=click.Choice(["auto", "always", "never"]),
        expose_value=False,
        callback=_keep("color"),
        help="Colours: on a terminal (auto; not if NO_COLOR is set), always or never.",
    )(command)


def json_option(command: F) -> F:
    """``--json``."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON, one object a line.")(command)


def name_argument(metavar: str = "NAME", *, required: bool = True) -> Callable[[F], F]:
    """A session, branch or position, with completion."""
    return click.argument("name", metavar=metavar, required=required, shell_complete=complete_names)


def complete_names(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """Names of sessions and branches that begin with what is typed; none when there is no journal."""
    try:
        names = sorted(str(name) for name in ctx.ensure_object(App).journal().sessions())
    except (JournalError, OSError):
        return []
    return [name for name in names if name.startswith(incomplete)]


# --- input and errors ----------------------------------------------------------------------------


def not_empty(_: click.Context, option: click.Parameter, value: str | None) -> str | None:
    """For options whose text says something: "" is a variable of a script that was never set. UsageError."""
    if value == "":
        raise UsageError(f"{option.opts[0]} is empty")
    return value


def read_file(path: str, limit: int = 16 * 1024 * 1024) -> bytes:
    """The content of a file that the user named. UsageError when it is larger than ``limit``."""
    with Path(path).open("rb") as file:
        raw = file.read(limit + 1)
    if len(raw) > limit:
        raise UsageError(f"{path} has more than {limit} bytes")
    return raw


def write_file(path: Path, content: bytes) -> None:
    """Write a file that the user named, as `whole_file` has it."""
    with whole_file(path) as stream:
        stream.write(content)


@contextmanager
def whole_file(path: Path) -> Iterator[BinaryIO]:
    """A stream for a file that the user named; a failure leaves what was there. A device or pipe is written to.

    UsageError for a folder, OSError with the name that the user gave.
    """
    if path.is_dir():
        raise UsageError(f"{path} is a folder", hint="Give the name of a file in it.")
    if path.exists() and not path.is_file():
        # A file moved there would take its place.
        with path.open("wb") as stream:
            yield cast(BinaryIO, stream)
        return
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        with part.open("xb") as stream:
            yield cast(BinaryIO, stream)
        part.replace(path)
    except BaseException as error:
        if isinstance(error, OSError) and error.filename == os.fspath(part):
            error.filename = os.fspath(path)
        with suppress(OSError):
            part.unlink()
        raise


def standard_input() -> BinaryIO:
    """Standard input as bytes."""
    if sys.stdin is None:
        raise StorageError("standard input is closed")
    return sys.stdin.buffer


def complain(message: str, hint: str = "") -> None:
    """One line ``gj: ...`` on standard error, and one with a hint."""
    from gitjournal.render import printable

    if sys.stderr is None:
        return
    # Nobody is left to be told when standard error is gone as well.
    with suppress(OSError, ValueError):
        sys.stderr.write(f"gj: {printable(message)}\n")
        if hint:
            sys.stderr.write(f"hint: {printable(hint)}\n")
        sys.stderr.flush()


def explain(error: JournalError) -> int:
    """Say what went wrong; the exit status for it."""
    complain(str(error), error.hint)
    return EXIT.get(error.code, FAILED)


def guarded(run: Callable[[], Any]) -> int:
    """Run the program, turn every way it can end into a message and an exit status. Never raises but SystemExit."""
    try:
        status = run()
        if sys.stdout is not None:
            sys.stdout.flush()
        return status if isinstance(status, int) else 0
    except click.UsageError as error:
        command = error.ctx.command_path if error.ctx else "gj"
        # Click lists what can be chosen on lines of their own.
        complain(" ".join(error.format_message().split()), f"{command} --help")
        return EXIT["usage"]
    except click.ClickException as error:
        complain(error.format_message())
        return EXIT["usage"]
    except JournalError as error:
        return explain(error)
    except (click.Abort, KeyboardInterrupt):
        return INTERRUPTED
    except (BrokenPipeError, PipeClosed):
        _drop_output()
        return PIPE_CLOSED
    except OSError as error:
        _drop_output()
        where = f"{error.filename}: " if error.filename else ""
        complain(f"{where}{error.strerror or error}")
        return EXIT["storage"]
    except Exception as error:
        if os.environ.get("GITJOURNAL_TRACEBACK"):
            raise
        complain(
            f"internal error: {type(error).__name__}: {error}",
            "This is a fault in gj. With GITJOURNAL_TRACEBACK=1 it says where; please report that.",
        )
        return INTERNAL


def _drop_output() -> None:
    """Send what is still to be written nowhere, so that the interpreter does not fail on it when it ends."""
    with suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
