"""``gj diff``: two branches side by side.

Floor 6.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

import click

from gitjournal.cli_base import (
    FAILED,
    App,
    color_option,
    complete_names,
    journal_option,
    json_option,
    name_argument,
    pass_app,
)
from gitjournal.cli_names import position
from gitjournal.errors import UsageError

if TYPE_CHECKING:
    from gitjournal.compare import Comparison, Side
    from gitjournal.event import Event
    from gitjournal.journal import Journal
    from gitjournal.refs import Name
    from gitjournal.render import Paint

#: Columns of a terminal from which on there is room for two.
_TWO = 80
#: Lines of one entry that are shown without --full.
_FOLD = 8
_GAP = 3


@click.command(short_help="Compare two branches.")
@name_argument("NAME[@SEQ]")
@click.argument("other", metavar="[NAME[@SEQ]]", required=False, shell_complete=complete_names)
@click.option("--stat", is_flag=True, help="The numbers alone, without what was said.")
@click.option("--full", is_flag=True, help="Long texts in full.")
@click.option("--exit-code", "tells", is_flag=True, help="Exit with 1 if they differ.")
@json_option
@color_option
@journal_option
@pass_app
def diff(app: App, name: str, other: str | None, stat: bool, full: bool, tells: bool, as_json: bool) -> None:
    """Compare two branches, of one session or of two: what they have in common, and what each did from there on.

    On a terminal of 80 columns or more, what was said stands in two columns; else first the one side, then the other.
    With one NAME it is compared with the branch that it began on.
    """
    from gitjournal.compare import compare

    journal = app.journal()
    right = position(journal, name)
    left, right = (right, position(journal, other)) if other else (_origin(journal, right[0]), right)
    found = compare(journal, left, right)
    if as_json:
        _as_json(app, journal, found, stat)
    else:
        with app.paged():
            _show(app, journal, found, stat, full)
    if tells and not found.is_same:
        click.get_current_context().exit(FAILED)


def _origin(journal: Journal, name: Name) -> tuple[Name, int]:
    """The branch that this one began on, as it is now."""
    from gitjournal.lineage import lines

    begin = next(line.begin for line in lines(journal, name.session) if line.name == name)
    if begin.parent is None:
        raise UsageError(f"{name} began on no branch that is here", hint="Give two names.")
    return begin.parent, journal.head(begin.parent).seq


# --- for programs --------------------------------------------------------------------------------


def _as_json(app: App, journal: Journal, found: Comparison, stat: bool) -> None:
    from gitjournal.compare import entries

    sides = {"left": found.left, "right": found.right}
    common = {"seq": found.common, "hash": found.hash}
    app.emit({"same": found.is_same, "common": common, **{where: _members(side) for where, side in sides.items()}})
    for where, side in () if stat else sides.items():
        for event in entries(journal, side, found.common):
            # As it is stored: `gj show --json` gives the one with its side files.
            app.emit({"side": where, "name": str(side.name), "hash": event.hash, **event.members})


def _members(side: Side) -> dict[str, Any]:
    status, reason, blocking = side.status
    stands = {"status": status, "stop_reason": reason, "blocking": [*blocking], "turn": side.turn}
    made = {"name": str(side.name), "seq": side.seq, "hash": side.hash, **side.used.as_dict()}
    return made | {"tools": side.tools, "models": side.models} | stands


# --- for people ----------------------------------------------------------------------------------


def _show(app: App, journal: Journal, found: Comparison, stat: bool, full: bool) -> None:
    from gitjournal.compare import entries
    from gitjournal.render import count, printable

    left, right = found.left, found.right
    names = printable(f"{left.name} and {right.name}")
    if found.is_same:
        app.say(f"{names} are the same: {count(found.common, 'event')}")
        return
    at = f", the last one {found.hash[:7]}" if found.hash else ""
    app.say(f"{names} have {count(found.common, 'event') if found.common else 'no event'} in common{at}")
    app.say()
    for line in stat_lines(left, right, app.width, app.paint):
        app.say(line)
    if stat:
        return
    app.say()
    limit = None if full else _FOLD
    sides = [entries(journal, side, found.common) for side in (left, right)]
    if app.width is not None and app.width >= _TWO:
        for line in two_columns(sides[0], sides[1], app.width, limit, app.paint):
            app.say(line)
        return
    for side, events, mark, style in zip((left, right), sides, "<>", ("red", "green"), strict=True):
        app.say(app.paint(printable(f"{mark} {side.name}, from {found.common + 1}"), "bold", style))
        for event in events:
            for line in entry_lines(event, app.width and app.width - 2, limit, app.paint):
                app.say(f"{app.paint(mark, style)} {line}".rstrip())


def stat_lines(left: Side, right: Side, width: int | None, paint: Paint) -> Iterator[str]:
    """The numbers of both, a row each, bold where they differ; without the rows that are empty on both sides."""
    from gitjournal.render import clip, columns, printable

    rows = [("", str(left.name), str(right.name)), *_numbers(left, right)]
    shown = [(label, *map(printable, cells)) for label, *cells in rows]
    room = max(columns(cell) for _, *cells in shown for cell in cells)
    if width is not None:
        room = min(room, max((width - 16 - _GAP) // 2, 8))
    for number, (label, *cells) in enumerate(shown):
        one, other = (clip(cell, room) for cell in cells)
        line = f"{label:<16}{one}{' ' * (room - columns(one) + _GAP)}{other}".rstrip()
        yield paint(line, "bold") if number and cells[0] != cells[1] else line


def _numbers(left: Side, right: Side) -> Iterator[tuple[str, str, str]]:
    rows = zip(_facts(left), _facts(right), strict=True)
    return ((label, one, other) for (label, one), (_, other) in rows if one or other)


def _facts(side: Side) -> Iterator[tuple[str, str]]:
    """What is compared, as text; nothing where there is nothing."""
    used = side.used
    tools = ", ".join(f"{tool} {number:,}" for tool, number in sorted(side.tools.items(), key=lambda one: -one[1]))
    yield "ends at", f"{side.seq:,} {side.hash[:7]}"
    yield "events", f"{used.events:,}"
    yield "turns", f"{used.user_turns:,} user, {used.model_turns:,} model"
    yield "models", ", ".join(side.models)
    yield "tool calls", f"{used.tool_calls:,} ({tools})" if tools else ""
    yield "failed calls", f"{used.tool_errors:,}" if used.tool_errors else ""
    yield "errors", f"{used.errors:,}" if used.errors else ""
    for name in ("input", "cache_read", "cache_write", "output", "reasoning"):
        number = getattr(used, name)
        yield name.replace("_", " "), f"{number:,}" if number else ""
    yield "in turns", f"{used.turn_ms / 1000:,.1f} s" if used.turn_ms else ""
    yield "last turn", side.turn or ""
    reason = side.status.stop_reason
    yield "status", side.status.status + (f", {reason}" if reason and reason != side.status.status else "")


def two_columns(
    left: Iterator[Event], right: Iterator[Event], width: int, limit: int | None, paint: Paint
) -> Iterator[str]:
    """What was said, the first beside the first and so on; ``|`` is between two that differ, else as in diff -y."""
    from gitjournal.compare import says_the_same
    from gitjournal.render import columns

    room = (width - _GAP) // 2
    for one, other in zip_longest(left, right):
        mark = " " if says_the_same(one, other) else "|" if one and other else "<" if one else ">"
        cells = [list(entry_lines(event, room, limit, None)) if event else [] for event in (one, other)]
        for number, (near, far) in enumerate(zip_longest(*cells, fillvalue="")):
            pad = " " * (room - columns(near))
            styles = ((_style(event) if not number else ()) for event in (one, other))
            shown = [paint(text, *style) for text, style in zip((near, far), styles, strict=True)]
            yield f"{shown[0]}{pad} {paint(mark, 'yellow')} {shown[1]}".rstrip()


def entry_lines(event: Event, width: int | None, limit: int | None, paint: Paint | None) -> Iterator[str]:
    """One entry: where and what it is, and below that what it says, folded after ``limit`` lines."""
    from gitjournal.render import clip, count

    head = f"{event.seq} {event.actor} {event.type}"
    head = clip(head, width) if width else head
    yield paint(head, *_style(event)) if paint else head
    lines = [f"  {line}" for line in _wrapped(_said(event), width and width - 2)]
    shown = lines if limit is None or len(lines) <= limit else lines[: limit - 1]
    yield from shown
    if len(shown) < len(lines):
        more = f"  … {count(len(lines) - len(shown), 'more line')}"
        yield clip(more, width) if width else more


def _style(event: Event | None) -> Sequence[str]:
    if event is None:
        return ()
    kind = "error" if event.type == "error" else event.actor.split(":")[0]
    return ({"user": "green", "assistant": "cyan", "tool": "magenta", "error": "red"}.get(kind, "dim"),)


def _said(event: Event) -> str:
    """What an event says: the texts of a message whole, anything else in one line."""
    from gitjournal.render import entry_gist, gist, read_data

    data = None if event.withheld else read_data(event)
    parts = data.get("parts") if data else None
    if event.type not in ("message", "model.response") or not isinstance(parts, list) or not parts:
        return gist(event)
    texts = []
    for part in parts:
        content = part.get("content") if isinstance(part, dict) and part.get("type") == "text" else None
        texts.append(content if isinstance(content, str) else entry_gist([part]))
    return "\n".join(texts)


def _wrapped(text: str, width: int | None) -> Iterator[str]:
    """Text as safe lines of at most ``width`` columns, broken at spaces where that is not too early."""
    from gitjournal.render import columns, text_block

    for line in text_block(text):
        rest = line
        while width and columns(rest) > width:
            cut = _fitting(rest, width)
            space = rest.rfind(" ", 0, cut + 1)
            cut = space if space > cut // 2 else cut
            yield rest[:cut].rstrip()
            rest = rest[cut:].lstrip()
        yield rest


def _fitting(text: str, width: int) -> int:
    """How many first characters of a text fit into ``width`` columns; at least one, as no terminal is that narrow."""
    from gitjournal.render import columns

    used = 0
    for at, char in enumerate(text):
        used += columns(char)
        if used > width:
            return max(at, 1)
    return len(text)
