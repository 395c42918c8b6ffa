"""``gj cost``: what sessions have used, and what that costs by a price table.

Floor 6.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gitjournal.cli_base import (
    FAILED,
    App,
    color_option,
    complete_names,
    journal_option,
    json_option,
    not_empty,
    pass_app,
    read_file,
)
from gitjournal.cli_names import find, since
from gitjournal.cli_read import when
from gitjournal.cli_table import Column, fit, table, taken
from gitjournal.errors import UsageError
from gitjournal.refs import TRUNK

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from decimal import Decimal

    from gitjournal.journal import Journal
    from gitjournal.ledger import Ledger, Scope, Used
    from gitjournal.prices import Prices

_BAR = 30
_LEAST_BAR = 8
_SHOWN = 8
_NUMBERS = {
    "INPUT": "input",
    "CACHE READ": "cache_read",
    "CACHE WRITE": "cache_write",
    "OUTPUT": "output",
    "REASONING": "reasoning",
    "USER TURNS": "user_turns",
    "MODEL TURNS": "model_turns",
    "TOOLS": "tool_calls",
    "FAILED": "tool_errors",
    "ERRORS": "errors",
}
#: What a narrow terminal leaves out, in this order; the empty title is that of the chart.
_LEFT_OUT = (
    *("CACHE WRITE", "CACHE READ", "REASONING", "USER TURNS", "FAILED", "ERRORS"),
    *("", "TOOLS", "MODEL TURNS", "OUTPUT", "INPUT"),
)
_LEAST_NAME = 14
_NOBODY = {"model": "(no model)", "tool": "(no tool)"}
# Results of calls that are not in the session, and calls without a name.
_UNNAMED = {"tool": "? (unknown call)"}


@click.command(short_help="Count tokens, turns, tools and money.")
@click.argument("name", metavar="[NAME]", required=False, shell_complete=complete_names)
@click.option("--all", "everything", is_flag=True, help="All sessions; so too without NAME.")
@click.option(
    "--by", type=click.Choice(["day", "model", "tool", "session", "branch"]), help="One row each, and the total."
)
@click.option("--since", "begin", metavar="TIME", help="Only from then on: 7d, 12h, 2026-11-03.")
@click.option(
    "--prices",
    "table",
    type=click.Path(),
    callback=not_empty,
    metavar="FILE",
    help="What tokens cost: TOML, or LiteLLM's JSON.",
)
@json_option
@color_option
@journal_option
@pass_app
def cost(
    app: App,
    name: str | None,
    everything: bool,
    by: str | None,
    begin: str | None,
    table: str | None,
    as_json: bool,
) -> None:
    """Count what was used: tokens, turns of users and models, tool calls, errors and time, from events alone.

    NAME is a session with all its branches and the sessions below it, or one branch. Each event counts once, whatever
    branches go on from it, and each response of a provider once, even if several sessions repeat it.

    Money comes from the table of --prices (docs/prices.md) and nowhere else; models without a price are listed. On a
    narrow terminal --by has shorter numbers and fewer columns; --json has all.
    """
    if name is not None and everything:
        raise UsageError("give a name or --all, not both")
    # A mistake in the command line or the table comes before anything is read or printed.
    first = since(begin) if begin is not None else ""
    prices = read_prices(table) if table is not None else None
    journal = app.journal()
    from gitjournal.cost import grouped, tally, total
    from gitjournal.ledger import Scope

    what = _scope(app, journal, name) if name is not None else Scope()
    ledger = tally(journal, what, first)
    groups = grouped(ledger, by or "session", prices)
    whole = total(groups)
    shown = groups if by else {}
    if as_json:
        _as_json(app, by, shown, whole, ledger, what, prices)
    elif by:
        _rows(app, by, groups, whole, prices)
    else:
        for line in _summary(whole, prices):
            app.say(line)
    if not as_json:
        _notes(app, whole, ledger, what)
    for one, error in ledger.unread.items():
        app.note(f"not all of {one} is counted: [{error.code}] {error}")
    for session, why in what.unknown:
        app.note(f"whether {session} belongs to it is not known, and it is not counted: {why}")
    if ledger.unread or what.unknown:
        click.get_current_context().exit(FAILED)


def read_prices(path: str) -> Prices:
    """The price table in a file. UsageError when it has a mistake."""
    from gitjournal.prices import load

    return load(read_file(path, 64 * 1024 * 1024), Path(path).name)


def _scope(app: App, journal: Journal, text: str) -> Scope:
    """A session by its name alone, a branch where one was named: ``s`` is all of session s, ``s/main`` its trunk."""
    from gitjournal.cost import scope

    target = find(journal, text)
    if target.seq is not None:
        raise UsageError(f"{text!r} is an event; the cost is that of a session or branch")
    name = target.name
    # What was typed may have been completed: a branch is meant where one was found, or its name was begun.
    named = text != name.session and (name.branch != TRUNK or ("/" in text and text not in name.session))
    return scope(journal, name.session, name.branch if named else None, say=app.note)


# --- for programs --------------------------------------------------------------------------------


def _as_json(
    app: App,
    by: str | None,
    groups: Mapping[str, Used],
    whole: Used,
    ledger: Ledger,
    what: Scope,
    prices: Prices | None,
) -> None:
    for key, used in groups.items():
        app.emit({"by": by, "key": key or None, **used.as_dict()})
    more: dict[str, Any] = {"sub_sessions": [*what.below], "repeated_responses": ledger.repeated}
    more["unread"] = [{"name": str(name), "code": error.code} for name, error in ledger.unread.items()]
    more["unread"] += [{"name": one, "code": why.partition("]")[0].removeprefix("[")} for one, why in what.unknown]
    if prices is not None:
        more["currency"] = prices.currency
    app.emit({"by": None, "key": "total", **whole.as_dict(), **more})


# --- for people ----------------------------------------------------------------------------------


def _summary(used: Used, prices: Prices | None) -> Iterator[str]:
    from gitjournal.cost import money
    from gitjournal.render import count

    def row(label: str, number: int | str, *more: str) -> str:
        shown = number if isinstance(number, str) else f"{number:,}"
        detail = ", ".join(filter(None, more))
        return f"{label:<12} {shown:>15}   {detail}".rstrip()

    yield row("input", used.input, f"{used.cache_read:,} read from cache", f"{used.cache_write:,} written to it")
    yield row("output", used.output, f"{used.reasoning:,} reasoning")
    yield row("turns", used.user_turns + used.model_turns, f"{used.user_turns:,} user", f"{used.model_turns:,} model")
    yield row("tool calls", used.tool_calls, f"{used.tool_errors:,} failed")
    yield row("errors", used.errors)
    yield row("events", used.events)
    if used.first is not None and used.last is not None:
        yield row("time", *_span(used.first, used.last))
    if used.turn_ms:
        yield row("in turns", _time(used.turn_ms))
    if prices is not None:
        missing = sum(sum(tokens.values()) for tokens in used.unpriced.values())
        without = f"without {count(missing, 'token')} that have no price" if missing else ""
        yield row("cost", money(used, prices.currency), without)


def _span(first: str, last: str) -> tuple[str, str]:
    """How long it took from one ``ts`` to another, and both of them."""
    from datetime import datetime

    took = datetime.fromisoformat(last) - datetime.fromisoformat(first)
    return _time(round(took.total_seconds() * 1000)), f"{when(first)} to {when(last)} UTC"


def _time(milliseconds: int) -> str:
    """An amount of time in its two largest units."""
    seconds = milliseconds // 1000
    if seconds < 60:
        return f"{milliseconds / 1000:.1f} s"
    for size, unit, part, smaller in ((86400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s")):
        if seconds >= size:
            return f"{seconds // size} {unit} {seconds % size // part} {smaller}"
    return ""


def _rows(app: App, by: str, groups: Mapping[str, Used], whole: Used, prices: Prices | None) -> None:
    """The groups as a table: counters that no named group has are left out, and the cost comes first."""
    from gitjournal.cost import money
    from gitjournal.render import short_number

    named = {key: used for key, used in groups.items() if key} or groups
    counters = {title: name for title, name in _NUMBERS.items() if any(getattr(one, name) for one in named.values())}
    if by == "tool":
        named = dict(sorted(named.items(), key=lambda item: (-item[1].tool_calls, item[0])))
    rest = groups.get("")
    if rest is not None and (prices or any(getattr(rest, name) for name in counters.values())):
        named = {"": rest, **named}
    columns = [Column(by.upper(), least=_LEAST_NAME, both_ends=by == "branch")]
    columns += [Column("COST", right=True)] if prices else []
    columns += [Column(title, right=True, leave=_LEFT_OUT.index(title) + 1) for title in counters]
    spelled = {"": _NOBODY.get(by, "-"), "?": _UNNAMED.get(by, "?")}
    lines = [*((spelled.get(key, key), used) for key, used in named.items()), ("TOTAL", whole)]

    def row(label: str, used: Used, spell: Callable[[int], str]) -> tuple[str, ...]:
        cost = (money(used, prices.currency),) if prices else ()
        return (label, *cost, *(spell(getattr(used, name)) for name in counters.values()))

    def rows(spell: Callable[[int], str]) -> list[tuple[str, ...]]:
        return [row(label, used, spell) for label, used in lines]

    shown, width = rows("{:,}".format), app.width
    sizes = _sizes(named, prices) if by == "day" and width is not None else []
    if width is not None:
        room = width - (_LEAST_BAR + 2 if sizes else 0)
        shown = rows(short_number) if taken(fit(columns, shown, None)) > room else shown
        columns, shown = _with_bars(width, columns, shown, sizes) if sizes else (columns, shown)
    table(app, columns, shown)


def _sizes(groups: Mapping[str, Used], prices: Prices | None) -> list[Decimal]:
    """How much of the longest bar each group has (0 to 1): by money if there is some, else by tokens; maybe none."""
    from decimal import Decimal

    money = [used.cost or Decimal(0) for used in groups.values()]
    sizes = money if prices and any(money) else [Decimal(used.input + used.output) for used in groups.values()]
    most = max(sizes, default=Decimal(0))
    return [size / most for size in sizes] if most else []


def _with_bars(
    width: int, columns: list[Column], rows: list[tuple[str, ...]], sizes: list[Decimal]
) -> tuple[list[Column], list[tuple[str, ...]]]:
    """The table with a bar in each row but the last, as long as the terminal has room."""
    chart = Column("", least=_LEAST_BAR, leave=_LEFT_OUT.index("") + 1)
    room = fit([*columns, chart], [(*row, " " * _BAR) for row in rows], width).get(len(columns))
    if room is None:
        return columns, rows
    bars = [*(bar(size, room) for size in sizes), ""]
    return [*columns, chart], [(*row, shown) for row, shown in zip(rows, bars, strict=True)]


def bar(share: Decimal, width: int) -> str:
    """A bar of ``share`` (0 to 1) of ``width`` columns, to an eighth of one; what is not nothing is seen."""
    eighths = max(int(share * width * 8), int(share > 0))
    return "█" * (eighths // 8) + " ▏▎▍▌▋▊▉"[eighths % 8].strip()


def _notes(app: App, whole: Used, ledger: Ledger, what: Scope) -> None:
    from gitjournal.render import count

    if what.below:
        more = ", ..." if len(what.below) > _SHOWN else ""
        app.note(f"with {count(len(what.below), 'sub-session')}: {', '.join(what.below[:_SHOWN])}{more}")
    if ledger.repeated:
        app.note(f"{count(ledger.repeated, 'response')} in more than one session, counted once")
    for model, tokens in sorted(whole.unpriced.items()):
        kinds = ", ".join(f"{number:,} {kind.replace('_', ' ')}" for kind, number in tokens.items())
        app.note(f"no price for {model}: {kinds}")
