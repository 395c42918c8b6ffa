"""What follows from the events of a session: its state.

Floor 6. Changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
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
    from gitjournal.journal import Journal
    from gitjournal.refs import Name
    from gitjournal.state import SessionState, Status

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
    """Show the state of a session after an event: status, turns, tokens, tool calls, errors, compactions, context.

    The state is worked out from events 1 to SEQ alone (docs/events.md); the status of the newest event also from
    whether somebody holds the branch now, and whether the session is archived or terminated as a whole. --json gives
    all of it. --context is what the model saw at SEQ, whatever was compacted later.
    """
    from gitjournal.ahead import reading
    from gitjournal.render import gist
    from gitjournal.state import entry_of, fold
    from gitjournal.state_form import plain_json

    journal = app.journal()
    branch, seq = position(journal, name)
    # What entries say takes memory and time, and the text shows that of a few.
    with reading(journal.store):
        state = fold(journal.events(branch, to=seq), seq, parts=as_json or only_context)
    status = state.status(_live(journal, branch, seq))
    if seq == journal.head(branch).seq:
        state, status = _as_a_whole(journal, branch, state, status)
    if as_json:
        app.json_line(plain_json(state.context if only_context else {**status._asdict(), **state.members()}))
        return
    with app.paged():
        if only_context:
            _say_entries(app, state.context)
        else:
            newest = gist(journal.event(branch, seq)) if seq else ""
            _say_state(app, branch, journal.head(branch).seq, status, state, newest)
            last = state.context[-_LAST_ENTRIES:]
            entries = [entry_of(journal.event(branch, entry["seq"])) for entry in last]
            _say_last_entries(app, entries, len(state.context))


def _as_a_whole(journal: Journal, branch: Name, state: SessionState, status: Status) -> tuple[SessionState, Status]:
    """The newest state of a branch as its session's: that is archived, and over, as its trunk says."""
    from dataclasses import replace

    from gitjournal.resume import trunk_state

    whole = trunk_state(journal, branch, state)
    over = status._replace(status="terminated", stop_reason="terminated", blocking=())
    return replace(state, archived=whole.archived), over if whole.terminated else status


def _live(journal: Journal, branch: Name, seq: int) -> bool:
    """Whether somebody was at work after event ``seq``: who wrote the next one, or who holds the branch now."""
    from gitjournal.lease import held

    return seq < journal.head(branch).seq or held(journal.chain(branch).lease_path)


def _say_entries(app: App, entries: list[dict[str, Any]]) -> None:
    from gitjournal.render import outline, printable, text_block

    for entry in entries:
        app.say(app.paint(printable(f"@{entry['seq']} {entry['role']} ({entry['actor']})"), "bold"))
        for part in entry["parts"]:
            text = part.get("content") if part.get("type") == "text" else None
            for line in text_block(text, "  ") if isinstance(text, str) else outline(part, "  "):
                app.say(line)
        app.say()


def _say_state(app: App, name: Name, head: int, now: Status, state: SessionState, newest: str) -> None:
    from gitjournal.render import clip, count, printable

    width = app.width or 160
    usage = {counter.removeprefix("gen_ai.usage."): number for counter, number in state.usage.items()}
    cached = f"{usage['cache_read.input_tokens']:,} read from a cache, {usage['cache_creation.input_tokens']:,} written"
    place = app.paint(printable(f"{name}@{state.last_seq}"), "bold")
    facts = [
        ("state", f"{place} of {head:,}  {state.last_hash or ''}"),
        ("newest", newest),
        *_about(state, now),
        ("time", f"{when(state.started or '')} to {when(state.updated or '')} UTC"),
        ("turns", f"{state.turns['user']:,} of the user, {state.turns['model']:,} of the model"),
        ("tools", f"{count(state.tool_calls, 'call')}, {count(state.tool_results, 'result')}"),
        ("tokens", f"{usage['input_tokens']:,} in ({cached}), {usage['output_tokens']:,} out"),
        ("context", f"{len(state.context):,} of {count(len(state.history), 'entry', 'entries')} of the history"),
        *_working(state),
        *_details(state),
    ]
    for title, text in facts:
        if text:
            app.say(f"{title:<11}{text if title == 'state' else clip(text, width - 11)}")


def _about(state: SessionState, now: Status) -> Iterator[tuple[str, str]]:
    """What the session is and does."""
    from gitjournal.render import one_line, printable

    yield "title", one_line(state.title)
    yield "summary", one_line(state.summary)
    blocking = f", blocked by {', '.join(map(one_line, now.blocking))}" if now.blocking else ""
    why = f" ({now.stop_reason})" if now.stop_reason not in (None, now.status) else ""
    yield "status", f"{now.status}{why}{blocking}{', archived' if state.archived else ''}"
    if state.terminated:
        yield "terminated", _stopped(state.terminated)
    yield "labels", ", ".join(map(one_line, state.labels))
    yield "source", ", trust ".join(printable(one) for one in (state.source or "unknown", state.trust))
    yield "project", one_line(state.project or "")
    if state.parent:
        yield "parent", one_line(" ".join(str(state.parent[one]) for one in _PARENT if one in state.parent))


_PARENT = ("session", "branch", "seq")


def _stopped(stop: dict[str, Any]) -> str:
    from gitjournal.render import one_line

    return f"@{stop['seq']} {one_line(stop['reason'] or '')}".rstrip()


def _working(state: SessionState) -> Iterator[tuple[str, str]]:
    """What is under way, and what waits."""
    from gitjournal.render import brief, one_line

    if state.open_turn:
        yield "open turn", f"@{state.open_turn['seq']} {one_line(state.open_turn['id'])}"
    if state.last_turn:
        yield "last turn", f"@{state.last_turn['seq']} {one_line(state.last_turn['id'])} {state.last_turn['outcome']}"
    for call in state.open_calls:
        yield "open", f"@{call['seq']} {one_line(str(call['name']))} ({one_line(call['id'])}) {_waits_for(call)}"
    if state.interrupted:
        yield "interrupt", _stopped(state.interrupted)
    for wake in state.wakes:
        reason = one_line(wake["reason"] or "")
        yield "wake", f"@{wake['seq']} {when(wake['due'])} UTC, {wake['priority']}: {reason}"
    for one in state.resources:
        yield "resource", f"@{one['seq']} " + one_line(one["uri"] or one["name"] or one["id"])
    if state.checkpoint:
        yield "checkpoint", ", ".join(f"{one_line(name)}: {brief(item)}" for name, item in state.checkpoint.items())


def _waits_for(call: dict[str, Any]) -> str:
    if call["approved"] is not None:
        return "was allowed, and has no result yet" if call["approved"] else "was refused, and has no result yet"
    return f"waits for a {call['requires']}" if call["requires"] else "has no result yet"


def _details(state: SessionState) -> Iterator[tuple[str, str]]:
    """What not every session has, a line for each."""
    from gitjournal.render import count, one_line, origin_text, printable

    for point in state.branch_points:
        yield "from", printable(f"{origin_text(point['from'])}, event {point['seq']} begins {point['branch']}")
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


def _say_last_entries(app: App, entries: list[dict[str, Any]], size: int) -> None:
    from gitjournal.render import clip, entry_gist, printable

    if entries:
        app.say()
        left = size - len(entries)
        app.say(app.paint(f"What the model sees{f', after {left:,} more' if left > 0 else ''}:", "dim"))
    for entry in entries:
        place = f"@{entry['seq']}"
        app.say(clip(f"{place:>7} {printable(entry['role']):<10} {entry_gist(entry['parts'])}", app.width or 160))
