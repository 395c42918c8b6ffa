"""``gj``: the commands in their groups, and the program's one way in and out.

Floor 6. A command parses, makes one call of the library, and renders; what they share is in `cli_base`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, NoReturn, cast

import click

from gitjournal import __version__
from gitjournal.cli_base import App, PipeClosed, color_option, guarded, journal_option
from gitjournal.cli_branch import branch, branches, fork
from gitjournal.cli_compare import diff
from gitjournal.cli_cost import cost
from gitjournal.cli_demo import demo
from gitjournal.cli_doctor import doctor
from gitjournal.cli_erase import erase
from gitjournal.cli_export import export
from gitjournal.cli_find import grep, reindex, search, sessions
from gitjournal.cli_gc import gc
from gitjournal.cli_import import import_
from gitjournal.cli_log import log
from gitjournal.cli_proof import key, pin, prove, seal
from gitjournal.cli_read import cat, show
from gitjournal.cli_replay import replay
from gitjournal.cli_restore import restore
from gitjournal.cli_resume import compact, resume, wakes
from gitjournal.cli_scan import scan
from gitjournal.cli_session import archive, delete, label, summary, terminate, title, unarchive
from gitjournal.cli_verify import verify
from gitjournal.cli_watch import hook, watch
from gitjournal.cli_witness import witness
from gitjournal.cli_write import append, flush, init

GROUPS: dict[str, tuple[click.Command, ...]] = {
    "Record": (init, append, resume, compact, branch, fork, flush),
    "Read": (sessions, search, grep, log, show, branches, diff, cost, replay, cat, wakes, reindex),
    "Check": (verify, doctor, scan, seal, prove, pin, witness, key),
    "Move": (import_, export, restore, watch, hook),
    "Manage": (title, summary, label, archive, unarchive, terminate, delete, erase, gc),
    "Try": (demo,),
}

_WIDTH = 100
_EPILOG = """\b
Names: s is the trunk of session s, s/branch a branch; s@40 and s/branch@40 are
events, and so is the beginning of an event's hash (7 characters or more).
To read, a part of a name will do; to write, its beginning; what holds a session
or cannot be undone takes the whole.
\b
Begin with: gj demo
Completion: eval "$(_GJ_COMPLETE=bash_source gj)", or zsh_source, or fish_source.
"""


@contextmanager
def _told_apart() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        raise PipeClosed from None


class Program(click.Group):
    """The group of all commands: shows them by topic, suggests near ones, and never ends in a traceback."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names in the order of `GROUPS`."""
        return [str(command.name) for commands in GROUPS.values() for command in commands]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The commands of the help, by topic."""
        width = max(map(len, self.list_commands(ctx)))
        for topic, commands in GROUPS.items():
            with formatter.section(topic):
                rows = [(f"{command.name:<{width}}", command.get_short_help_str(80)) for command in commands]
                formatter.write_dl(rows)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click does, but a wrong name suggests the near ones."""
        word = args[0]
        if word not in self.commands and not word.startswith("-") and not ctx.resilient_parsing:
            import difflib

            near = difflib.get_close_matches(word, self.commands, n=3, cutoff=0.55)
            ctx.fail(f"there is no command {word!r}" + (f"; did you mean {' or '.join(near)}?" if near else ""))
        return super().resolve_command(ctx, args)

    def make_context(self, *args: Any, **extra: Any) -> click.Context:
        """As click does, which may print the help. A closed pipe would be an exit status of 1 there."""
        with _told_apart():
            return super().make_context(*args, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command. Of a closed pipe, the same."""
        with _told_apart():
            return super().invoke(ctx)

    def main(self, *args: Any, standalone_mode: bool = True, **extra: Any) -> Any:
        """Run; in standalone mode (the program) every error becomes a message and an exit status."""
        run = partial(cast("Callable[..., Any]", super().main), *args, standalone_mode=False, **extra)
        if not standalone_mode:
            return run()
        sys.exit(guarded(run))


@click.group(
    cls=Program,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": _WIDTH},
    epilog=_EPILOG,
)
@journal_option
@color_option
@click.version_option(__version__, prog_name="gj", message="%(prog)s %(version)s")
@click.pass_context
def gj(ctx: click.Context) -> None:
    """Record, branch, replay and verify sessions of AI agents in a git journal."""
    ctx.ensure_object(App)
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


for _commands in GROUPS.values():
    for _command in _commands:
        gj.add_command(_command)


def main() -> NoReturn:
    """The entry point ``gj``."""
    for stream in (sys.stdout, sys.stderr):
        # Characters that the terminal's encoding does not have are shown as escapes.
        with suppress(AttributeError, ValueError):
            stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    gj.main(prog_name="gj")
    raise AssertionError("unreachable")
