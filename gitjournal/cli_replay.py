"""What follows from the events of a session: its state.

Floor 6. Changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import click

from gitjournal.cli_base import (
    App,
    color_option,
    journal_option,
    json_option,
    name_argument,
    pass_app,
)
from gitjournal.cli_names import position
from gitjournal.cli_read import when

if TYPE_CHECKING:
    from gitjournal.refs import Name
    from gitjournal.state import SessionState

#: `gj replay` shows so many entries of the context.
_LAST_ENTRIES = 8


# --- replay --------------------------------------------------------------------------------------


@click.command(short_help="Show the state of a session after an event.")
@name_argument("NAME[@SEQ]")
@click.option("--context", "only_context", is_flag=True, help="Only what the model sees at this point, in full.")
@json_option
@color_option
@journal_option
@pass_app
def replay(app: App, name: str, only_context: bool, as_json: bool) -> None:
    """Show the state of a session after an event: turns, tokens, tool calls, errors, compactions, context.

    The state is worked out from events 1 to SEQ alone (docs/events.md). --json gives all of it.
    """
    from gitjournal.render import gist
    from gitjournal.state import fold

    journal = app.journal()
    branch, seq = position(journal, name)
    state = fold(journal.events(branch, to=seq), seq)
    if as_json:
        whole = state.as_dict()
        app.emit(whole["context"] if only_context else whole)
        return
    with app.paged():
        if only_context:
            _say_entries(app, state.context)
        else:
            newest = gist(journal.event(branch, seq)) if seq else ""
            _say_state(app, branch, journal.head(branch).seq, state, newest)


def _say_entries(app: App, entries: list[dict[str, Any]]) -> None:
    from gitjournal.render import outline, printable, text_block

    for entry in entries:
        app.say(app.paint(printable(f"@{entry['seq']} {entry['role']} ({entry['actor']})"), "bold"))
        for part in entry["parts"]:
            text = part.get("content") if part.get("type") == "text" else None
            for line in text_block(text, "  ") if isinstance(text, str) else outline(part, "  "):
                app.say(line)
        app.say()


def _say_state(app: App, name: Name, head: int, state: SessionState, newest: str) -> None:
    from gitjournal.render import clip, count, printable

    width = app.width or 160
    usage = {counter.removeprefix("gen_ai.usage."): number for counter, number in state.usage.items()}
    cached = f"{usage['cache_read.input_tokens']:,} read from a cache, {usage['cache_creation.input_tokens']:,} written"
    facts = [
        ("state", f"{app.paint(printable(f'{name}@{state.last_seq}'), 'bold')} of {head:,}  {state.last_hash or ''}"),
        ("newest", newest),
        ("source", ", trust ".join(printable(one) for one in (state.source, state.trust) if one)),
        ("time", f"{when(state.started or '')} to {when(state.updated or '')} UTC"),
        ("turns", f"{state.turns['user']:,} of the user, {state.turns['model']:,} of the model"),
        ("tools", f"{count(state.tool_calls, 'call')}, {count(state.tool_results, 'result')}"),
        ("tokens", f"{usage['input_tokens']:,} in ({cached}), {usage['output_tokens']:,} out"),
        ("context", f"{len(state.context):,} of {count(len(state.history), 'entry', 'entries')} of the history"),
    ]
    for title, text in [*filter(itemgetter(1), facts), *_details(state)]:
        app.say(f"{title:<10}{text if title == 'state' else clip(text, width - 10)}")
    _say_last_entries(app, state.context, width)


def _details(state: SessionState) -> Iterator[tuple[str, str]]:
    """What not every session has, a line for each."""
    from gitjournal.render import count, one_line, origin_text, printable

    for point in state.branch_points:
        yield "from", printable(f"{origin_text(point['from'])}, event {point['seq']} begins {point['branch']}")
    for call in state.open_calls:
        yield "open", f"@{call['seq']} {one_line(str(call['name']))} has no result yet"
    for error in state.errors:
        yield "error", f"@{error['seq']} {one_line(': '.join(filter(None, (error['type'], error['message']))))}"
    for one in state.compactions:
        yield "compacted", f"@{one['seq']} kept {count(one['kept'], 'entry', 'entries')}"
    if state.withheld:
        yield "withheld", count(state.withheld, "event")
    for kind, number in state.unknown.items():
        yield "unknown", printable(f"{kind}: {number:,}")
    for odd in state.odd:
        yield "odd", f"@{odd['seq']} {odd['type']}: {printable(', '.join(odd['faults']))}"


def _say_last_entries(app: App, context: list[dict[str, Any]], width: int) -> None:
    from gitjournal.render import clip, entry_gist, printable

    if context:
        app.say()
        left = len(context) - _LAST_ENTRIES
        app.say(app.paint(f"What the model sees{f', after {left:,} more' if left > 0 else ''}:", "dim"))
    for entry in context[-_LAST_ENTRIES:]:
        place = f"@{entry['seq']}"
        app.say(clip(f"{place:>7} {printable(entry['role']):<10} {entry_gist(entry['parts'])}", width))
