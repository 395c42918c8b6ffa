"""Lists on a terminal of any width: what matters stays, nothing wraps, and without a terminal all is there."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import Gj

import gitjournal
from gitjournal.cli_base import App
from gitjournal.cli_table import Column, fit, table, taken
from gitjournal.render import columns as wide
from gitjournal.render import printable
from gitjournal.writer import Draft

UUID = "130d7b7e-5801-4345-9bd6-f32fd9b8429b"
TITLE = "We should add the name of the agent to any logging that there is"


def shown(columns: list[Column], rows: list[tuple[str, ...]], width: int | None) -> list[str]:
    """The lines of a table on a terminal of ``width``."""

    class Fake(App):
        lines: list[str]

        def say(self, line: str = "") -> None:
            self.lines.append(line)

    app = Fake()
    app.lines, app.color = [], "never"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(App, "width", width)
        table(app, columns, rows)
    return app.lines


@st.composite
def tables(draw: st.DrawFn) -> tuple[list[Column], list[tuple[str, ...]]]:
    texts = st.text(st.sampled_from("ab/@é漢\u0301\x1b\t😀 -"), max_size=50)
    column = st.builds(Column, st.text("ABC", max_size=9), st.booleans(), st.integers(0, 30), st.booleans())
    columns = draw(st.lists(column, min_size=1, max_size=6))
    leave = draw(st.permutations(range(len(columns))))
    columns = [one._replace(leave=order) for one, order in zip(columns, leave, strict=True)]
    return columns, draw(st.lists(st.tuples(*[texts] * len(columns)), max_size=4))


@given(tables(), st.integers(1, 120))
def test_no_line_is_wider_than_the_terminal_and_nothing_reaches_it(
    given: tuple[list[Column], list[tuple[str, ...]]], width: int
) -> None:
    for line in shown(*given, width):
        assert wide(line) <= width and not re.search(r"[\x00-\x1f\x7f-\x9f]", line)


@given(tables())
def test_without_a_terminal_every_cell_is_whole(given: tuple[list[Column], list[tuple[str, ...]]]) -> None:
    columns, rows = given
    head, *lines = shown(columns, rows, None)
    assert all(column.title in head for column in columns)
    for row, line in zip(rows, lines, strict=True):
        assert all(printable(cell).rstrip() in line for cell in row)


@given(tables(), st.integers(1, 300))
def test_what_is_never_left_out_is_there_and_what_is_goes_in_order(
    given: tuple[list[Column], list[tuple[str, ...]]], width: int
) -> None:
    columns, rows = given
    rows = [tuple(map(printable, row)) for row in rows]
    full, widths = fit(columns, rows, None), fit(columns, rows, width)
    gone = {columns[at].leave for at in full if at not in widths}
    assert 0 not in gone and gone == set(range(1, len(gone) + 1))
    for at, room in widths.items():
        least = columns[at].least or full[at]
        assert min(least, full[at]) <= room <= full[at]
    if taken(full) <= width:
        assert widths == full


def test_the_widest_is_clipped_first() -> None:
    columns = [Column("A", least=5), Column("B", least=20), Column("C")]
    rows = [("a" * 30, "b" * 60, "c" * 10)]
    assert fit(columns, rows, 80) == {0: 30, 1: 36, 2: 10}
    assert fit(columns, rows, 50) == {0: 16, 1: 20, 2: 10}
    assert fit(columns, rows, 10) == {0: 5, 1: 20, 2: 10}


def test_a_name_that_is_clipped_keeps_both_ends() -> None:
    columns = [Column("NAME", least=16, both_ends=True), Column("N", right=True)]
    assert shown(columns, [(f"{UUID}/try-b@17", "5")], 27)[1] == "130d7b7e-580…9b/try-b@17  5"
    assert shown(columns, [("漢" * 20, "5")], 27)[1] == "漢漢漢漢漢漢…漢漢漢漢漢   5"


# --- the commands --------------------------------------------------------------------------------


@pytest.fixture
def filled(place: Path) -> Path:
    """A session with a UUID, a long title, tokens and two more branches, and a fork of it."""
    journal = gitjournal.init(place)
    with journal.session(UUID, create=True, start=Draft("session.start", {"source": "x", "title": TITLE})) as s:
        usage = {"gen_ai.usage.input_tokens": 560_300, "gen_ai.usage.output_tokens": 4100}
        s.append("model.response", {"parts": "yes", "usage": usage}, actor="assistant")
    journal.branch(UUID, 2, "a-rather-long-name-of-a-branch")
    journal.branch(UUID, 1, "b")
    journal.fork(UUID, 2, "forked")
    return place


def lines(gj: Gj, monkeypatch: pytest.MonkeyPatch, width: int, *words: str) -> list[str]:
    monkeypatch.setattr(App, "width", width)
    found = gj(*words).stdout.splitlines()
    assert all(wide(line) <= width for line in found)
    return [click.unstyle(line) for line in found]


def test_sessions_on_80_columns(gj: Gj, filled: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    head, *rows = lines(gj, monkeypatch, 80, "sessions")
    assert head.split() == ["SESSION", "STATUS", "TURNS", "TOKENS", "LAST", "ACTIVITY", "TITLE"]
    row = next(line for line in rows if line.startswith(UUID[:8]))
    assert re.search(r"^[0-9a-f-]{8,}…  idle +0  560.3k→4.1k  \d{4}-\d\d-\d\d \d\d:\d\d  We should add the n.*…$", row)
    # What is left of the id is enough to ask for the session by.
    assert UUID in gj("show", row.split("…")[0]).stdout


def test_sessions_on_80_columns_while_one_is_live(gj: Gj, filled: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with gitjournal.open(filled).session(UUID) as s:
        said = {"role": "user", "parts": [{"type": "text", "content": "go"}]}
        s.append("message", said, actor="user")
        head, row, *_ = lines(gj, monkeypatch, 80, "sessions")
    assert "● running" in row and len(row) - head.index("TITLE") >= 20
    assert "EVENTS" not in head and "BRANCHES" not in head


def test_sessions_elsewhere_have_all_columns(gj: Gj, filled: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for width in (120, None):
        monkeypatch.setattr(App, "width", width)
        head = gj("sessions").stdout.splitlines()[0]
        assert "EVENTS  BRANCHES  LAST ACTIVITY" in head
    assert f"{UUID}  idle" in gj("sessions").stdout and re.search(r":\d\d:\d\d  We", gj("sessions").stdout)


def test_branches_on_80_columns(gj: Gj, filled: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    head, trunk, *rows = lines(gj, monkeypatch, 80, "branches", UUID, "--forks")
    assert head.split() == ["NAME", "EVENTS", "FROM", "LAST", "EVENT"] and trunk.startswith(UUID[:8])
    assert [row.split()[0][-5:] for row in rows] == ["orked", "ranch", "29b/b"]
    assert all(re.search(r"…\S*@[12]  \d{4}-\d\d-\d\d \d\d:\d\d:\d\d$", row) for row in rows)


def test_wakes_on_80_columns(gj: Gj, filled: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with gitjournal.open(filled).session(f"{UUID}/b") as s:
        s.wake("2030-01-01T00:00:00.000Z", "look whether the long build has come to its end by now")
    head, row = lines(gj, monkeypatch, 80, "wakes", f"{UUID}/b")
    assert head.split() == ["DUE", "PRIORITY", "SESSION", "EVENT", "REASON"]
    assert "/b  " in row and "look whether the" in row
