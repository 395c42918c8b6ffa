"""Lists as tables that fit the terminal: what a column may give up, and which column goes before the others.

Floor 6. Where there is no terminal, nothing is clipped or left out: the reader is a program, or a file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from gitjournal.cli_base import App

_GAP = 2


class Column(NamedTuple):
    """One column: its title, and what happens to it on a terminal that is too narrow."""

    title: str
    #: Numbers stand on the right.
    right: bool = False
    #: The least width in columns of the terminal that it may be clipped to; 0: it is never clipped.
    least: int = 0
    #: Clipped in the middle: of ``session/branch@7`` both ends tell something.
    both_ends: bool = False
    #: The order in which columns are left out: 1 goes first, 0 never.
    leave: int = 0


def table(app: App, columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> None:
    """Print rows of cells under the titles of their columns. Cells may be any text; tabs and controls are escaped."""
    from gitjournal.render import clip, printable

    width = app.width
    shown = [tuple(column.title for column in columns), *(tuple(map(printable, row)) for row in rows)]
    widths = fit(columns, shown[1:], width)
    for number, row in enumerate(shown):
        line = (" " * _GAP).join(_cell(columns[at], row[at], wide) for at, wide in widths.items()).rstrip()
        # What cannot be made narrower by any means must still not wrap.
        line = line if width is None else clip(line, width)
        app.say(line if number else app.paint(line, "dim"))


def fit(columns: Sequence[Column], rows: Sequence[Sequence[str]], width: int | None) -> Mapping[int, int]:
    """The columns that a terminal of ``width`` has room for, by their place, and how wide each is there.

    ``width`` None is room for all. Columns are left out while the least widths of all are too much; then those that
    may be clipped are, the widest first. The cells of ``rows`` must be printable.
    """
    from gitjournal.render import columns as wide

    full = {at: max(map(wide, (column.title, *(row[at] for row in rows)))) for at, column in enumerate(columns)}
    if width is None:
        return full
    least = {at: min(full[at], columns[at].least or full[at]) for at in full}
    for at in sorted((at for at in full if columns[at].leave), key=lambda at: columns[at].leave):
        if taken(least) <= width:
            break
        del least[at]
    widths = {at: full[at] for at in least}
    while taken(widths) > width and (soft := [at for at in widths if widths[at] > least[at]]):
        widths[max(soft, key=widths.__getitem__)] -= 1
    return widths


def taken(widths: Mapping[int, int]) -> int:
    """How many columns of the terminal a table of these widths takes, with the gaps between them."""
    return sum(widths.values()) + _GAP * (len(widths) - 1)


def _cell(column: Column, text: str, width: int) -> str:
    from gitjournal.render import clip, columns

    shown = _clip_middle(text, width) if column.both_ends else clip(text, width)
    pad = " " * (width - columns(shown))
    return pad + shown if column.right else shown + pad


def _clip_middle(text: str, width: int) -> str:
    """Both ends of ``text``, at most ``width`` columns, with an ellipsis for what is left out between them."""
    from gitjournal.render import clip, columns

    if columns(text) <= width:
        return text
    tail = clip(text[::-1], (width + 1) // 2)[::-1].removeprefix("…")
    return clip(text, width - columns(tail)) + tail
