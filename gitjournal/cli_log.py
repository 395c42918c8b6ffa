"""``gj log``: the events of a branch, or the branches of a session as a graph.

Floor 6. Everything is streamed: memory does not grow with the session.
"""

from __future__ import annotations

import heapq
import re
import time
from collections.abc import Callable, Iterable, Iterator
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from gitjournal.cli_base import App, color_option, journal_option, json_option, name_argument, pass_app
from gitjournal.cli_names import find, find_range
from gitjournal.cli_read import unread
from gitjournal.errors import NotFound, UsageError

if TYPE_CHECKING:
    from gitjournal.errors import JournalError
    from gitjournal.event import Event
    from gitjournal.journal import Journal
    from gitjournal.lineage import Line
    from gitjournal.refs import Name
    from gitjournal.render import Layout

#: How often a live session is looked at, in seconds.
_POLL = 0.2
_FOLLOW_FROM = 10

Wanted = Callable[["Event"], bool]


@click.command(short_help="Show the events of a branch, newest first.")
@name_argument("NAME[@FROM..TO]")
@click.option("-n", "--max-count", "most", type=click.IntRange(min=0), metavar="N", help="Show at most N events.")
@click.option("--reverse", is_flag=True, help="Oldest first.")
@click.option("--type", "types", multiple=True, metavar="TYPE", help="Only this type (* is any text). Repeatable.")
@click.option("--grep", metavar="REGEX", help="Only events in whose texts the regular expression is found.")
@click.option("-i", "--ignore-case", is_flag=True, help="--grep takes A and a as the same.")
@click.option("--graph", is_flag=True, help="All branches of the session, and where they part.")
@click.option("-f", "--follow", is_flag=True, help="Show the newest events, then new ones as they come, until Ctrl-C.")
@json_option
@color_option
@journal_option
@pass_app
def log(
    app: App,
    name: str,
    most: int | None,
    reverse: bool,
    types: tuple[str, ...],
    grep: str | None,
    ignore_case: bool,
    graph: bool,
    follow: bool,
    as_json: bool,
) -> None:
    """Show the events of a branch, newest first, one a line: seq, hash, time (UTC), actor, type, what it says, and
    tokens (input→output).

    NAME@40 is the log up to event 40, NAME@10..40 a part of it. With --json each line is one event in its canonical
    form.
    """
    if graph and (reverse or follow or as_json):
        raise UsageError("--graph goes newest first, as text: it takes no --reverse, --follow or --json")
    wanted = _filter(types, grep, re.IGNORECASE if ignore_case else 0)
    journal = app.journal()
    if graph:
        _graph(app, journal, name, wanted, most)
    elif follow:
        _follow(app, journal, name, wanted, _FOLLOW_FROM if most is None else most, as_json)
    else:
        _log(app, journal, name, wanted, most, reverse, as_json)


# --- which events --------------------------------------------------------------------------------


def _filter(types: tuple[str, ...], grep: str | None, flags: int) -> Wanted:
    from gitjournal.grep import limited

    try:
        pattern = re.compile(grep, flags) if grep is not None else None
    except (re.error, OverflowError, RecursionError) as error:
        raise UsageError(f"--grep {grep!r} is no regular expression: {error}") from None

    def wanted(event: Event) -> bool:
        if types and not any(fnmatchcase(event.type, one) for one in types):
            return False
        if pattern is None:
            return True
        with limited(f"event {event.seq} of {event.session}", "Make the pattern of --grep simpler."):
            return _matches(pattern, event)

    return wanted


def _matches(pattern: re.Pattern[str], event: Event) -> bool:
    from gitjournal.render import read_data

    todo: list[Any] = [read_data(event)]
    while todo:
        node = todo.pop()
        if isinstance(node, str):
            if pattern.search(node):
                return True
        elif isinstance(node, dict):
            todo.extend(node.values())
        elif isinstance(node, list):
            todo.extend(node)
    return False


def _take(events: Iterable[Event], wanted: Wanted, most: int | None) -> Iterator[Event]:
    left = -1 if most is None else most
    for event in events:
        if left == 0:
            return
        if wanted(event):
            left -= 1
            yield event


# --- the plain log -------------------------------------------------------------------------------


def _log(app: App, journal: Journal, text: str, wanted: Wanted, most: int | None, reverse: bool, as_json: bool) -> None:
    from gitjournal.lineage import backwards

    name, first, to = find_range(journal, text)
    chain = journal.chain(name)
    head = journal.head(name).seq
    if max(first, to or 1) > head:
        raise NotFound(f"{name} has no event {max(first, to or 1)}", hint=f"Its newest event is {name}@{head}.")
    last = head if to is None else to
    events = chain.events(first - 1, last) if reverse else backwards(chain, first, last)
    with app.paged():
        _print(app, _take(events, wanted, most), _layout(app, last), as_json)
    if to is None:
        # Asking for what follows the head says so when a damaged tail hides events.
        next(chain.events(head), None)


def _print(app: App, events: Iterable[Event], layout: Layout, as_json: bool) -> None:
    for event in events:
        if as_json:
            app.json_line(event.raw)
        else:
            app.say(layout.row(event))


def _layout(app: App, last: int) -> Layout:
    from gitjournal.render import Layout

    return Layout(app.paint, max(3, len(str(last))), app.width)


def _follow(app: App, journal: Journal, text: str, wanted: Wanted, most: int, as_json: bool) -> None:
    target = find(journal, text)
    if target.seq is not None:
        raise UsageError("--follow takes a session or branch, without a position")
    chain = journal.chain(target.name)
    head = journal.head(target.name).seq
    layout = _layout(app, head)
    seen = max(0, head - most)
    try:
        while True:
            for event in chain.events(seen):
                seen = event.seq
                if wanted(event):
                    _print(app, [event], layout, as_json)
            app.out.flush()
            time.sleep(_POLL)
    except KeyboardInterrupt:
        # The one way to end it.
        return


# --- the graph -----------------------------------------------------------------------------------


def _graph(app: App, journal: Journal, text: str, wanted: Wanted, most: int | None) -> None:
    from gitjournal.lineage import lines

    target = find(journal, text)
    if target.seq is not None:
        raise UsageError("--graph shows a whole session: give its name without a position")
    failed: dict[Name, JournalError] = {}
    lanes = arrange(lines(journal, target.name.session, failed))
    layout = _layout(app, max((lane.head for lane in lanes), default=0))
    with app.paged():
        for text_line in _draw(journal, lanes, layout, wanted, most):
            app.say(text_line)
    unread(failed)


class Lane(NamedTuple):
    """One branch in the graph: its own events are ``after`` < seq <= ``head``, drawn in column ``column``.

    ``joins`` is the column of the branch that it goes on from, None for a line that begins by itself.
    """

    line: Line
    head: int
    after: int
    column: int
    joins: int | None


def arrange(found: list[Line]) -> list[Lane]:
    """Give each branch the first column that is free from its head down to where it joins its parent."""
    here = {line.name for line in found}
    spans: list[list[tuple[int, int]]] = []
    columns: dict[Any, int] = {}
    lanes = []
    for line in _parents_first(found):
        joined = line.begin.parent if line.begin.parent in here else None
        after = line.begin.after if joined else 0
        least = columns[joined] + 1 if joined else 0
        column = next(
            (at for at in range(least, len(spans)) if all(line.head < low or after > high for low, high in spans[at])),
            max(least, len(spans)),
        )
        while len(spans) <= column:
            spans.append([])
        spans[column].append((after, line.head))
        columns[line.name] = column
        lanes.append(Lane(line, line.head, after, column, columns[joined] if joined else None))
    return lanes


def _parents_first(found: list[Line]) -> Iterator[Line]:
    done: set[Any] = set()
    names = {line.name for line in found}
    todo = list(found)
    while todo:
        ready = [line for line in todo if line.begin.parent not in names or line.begin.parent in done]
        # Two branches that each claim to begin on the other: break the ring.
        for line in ready or todo[:1]:
            done.add(line.name)
            yield line if ready else line._replace(begin=line.begin._replace(after=0, parent=None))
        todo = [line for line in todo if line.name not in done]


def _draw(journal: Journal, lanes: list[Lane], layout: Layout, wanted: Wanted, most: int | None) -> Iterator[str]:
    """All events by falling seq. Within a session seq is the depth from the start, so children precede parents."""
    streams = [_lane_events(journal, lane) for lane in lanes]
    # The joins that are still to be drawn, the next one last.
    joins = sorted((lane for lane in lanes if lane.joins is not None), key=lambda lane: (lane.after, lane.column))
    left = -1 if most is None else most
    for _, _, lane, event in heapq.merge(*streams, key=lambda item: item[:2]):
        if left == 0:
            return
        while joins and joins[-1].after >= event.seq:
            joined = joins.pop()
            yield layout.paint(join_row(joined, lanes, joins), "dim")
        if wanted(event):
            left -= 1
            label = _safe(f"({lane.line.name.branch})") if event.seq == lane.head else ""
            yield layout.row(event, event_row(lane, event.seq, lanes), label)


def _lane_events(journal: Journal, lane: Lane) -> Iterator[tuple[int, int, Lane, Event]]:
    from gitjournal.lineage import backwards

    for event in backwards(journal.chain(lane.line.name), lane.after + 1, lane.head):
        yield -event.seq, lane.column, lane, event


def event_row(lane: Lane, seq: int, lanes: list[Lane]) -> str:
    """What stands before event ``seq`` of ``lane``: its dot, and the bars of the lanes that pass beside it."""
    joined = [one for one in lanes if one.after == seq]
    bars = {one.column for one in lanes if one is not lane and _passes(one, seq, lane.column, joined)}
    width = max(one.column for one in lanes) + 1
    return "".join("● " if at == lane.column else "│ " if at in bars else "  " for at in range(width))


def _passes(lane: Lane, seq: int, column: int, joined: list[Lane]) -> bool:
    """Whether a lane has something above and below the row of event ``seq`` in ``column``.

    Of one seq the left row comes first; the lanes ``joined`` have been drawn down to it.
    """
    above = lane.head > seq or (lane.head == seq and (lane.column < column or _is_joined(lane, joined)))
    over = lane.joins is None and seq == lane.after + 1 and lane.column < column
    return lane.after < seq and above and not over


def _is_joined(lane: Lane, joined: list[Lane]) -> bool:
    """Whether one of ``joined`` goes on from the newest event of ``lane``."""
    return any(one.joins == lane.column and one.after == lane.head for one in joined)


def join_row(lane: Lane, lanes: list[Lane], to_come: list[Lane]) -> str:
    """The row below the first event of ``lane``, which goes on from an event of a lane to its left: ``├─╯``.

    ``to_come`` are the lanes whose rows of this kind are still to be drawn.
    """
    joins, seq = lane.joins or 0, lane.after
    joined = [one for one in lanes if one is not lane and one not in to_come]
    bars = {
        one.column
        for one in lanes
        if one is not lane
        and (one.head > seq or (one.head == seq and _is_joined(one, joined)))
        and (one.after < seq or (one.after == seq and one in to_come))
    }
    cells = []
    for at in range(max({lane.column, *bars}) + 1):
        across = joins <= at < lane.column
        if at == joins:
            # Nothing is above when the branch goes on from the newest event of its parent.
            cell = "├" if at in bars else "╭"
        elif at == lane.column:
            cell = "╯"
        elif joins < at < lane.column:
            cell = "┼" if at in bars else "─"
        else:
            cell = "│" if at in bars else " "
        cells.append(cell + ("─" if across else " "))
    return "".join(cells).rstrip()


def _safe(text: str) -> str:
    from gitjournal.render import printable

    return printable(text)
