"""What follows from the events of a session: its state (replay) and whether they are intact (verify).

Floor 6. Both change nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import click

from gitjournal.cli_base import (
    App,
    color_option,
    complete_names,
    explain,
    journal_option,
    json_option,
    name_argument,
    pass_app,
)
from gitjournal.cli_names import position
from gitjournal.cli_read import by_session, when
from gitjournal.errors import JournalError, UsageError

if TYPE_CHECKING:
    from gitjournal.journal import Journal
    from gitjournal.refs import Name
    from gitjournal.state import SessionState
    from gitjournal.verify import Report

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


# --- verify --------------------------------------------------------------------------------------


@click.command(short_help="Check that nothing was changed, lost or slipped in.")
@click.argument("names", metavar="[NAME]...", nargs=-1, shell_complete=complete_names)
@click.option("--all", "everything", is_flag=True, help="All sessions and the journal's own log; so too without NAME.")
@json_option
@color_option
@journal_option
@pass_app
def verify(app: App, names: tuple[str, ...], everything: bool, as_json: bool) -> None:
    """Check that nothing was changed, lost or slipped in: every event, link, tree and commit is derived anew.

    A session is checked with all its branches; SESSION/BRANCH is one branch. Says also what it could not check.

    Exit status: 0 intact, 1 broken, 2 usage, 3 intact as far as could be checked, 4 not there or not readable.
    """
    if names and everything:
        raise UsageError("give names or --all, not both")
    journal = app.journal()
    statuses = {0}
    notes: dict[str, list[str]] = {}
    for reports in _checked(journal, names):
        if isinstance(reports, JournalError):
            statuses.add(explain(reports))
            continue
        for report in reports:
            statuses.add(report.exit_status)
            for note in report.unchecked:
                notes.setdefault(note.split(":")[0], []).append(note)
            if as_json:
                app.emit(report.as_dict())
            else:
                _say_report(app, report)
    if not as_json:
        _say_unchecked(app, notes)
    # Broken outweighs unreadable, which outweighs incomplete.
    click.get_current_context().exit(next(status for status in (1, 2, 4, 3, 0) if status in statuses))


def _checked(journal: Journal, names: tuple[str, ...]) -> Iterator[list[Report] | JournalError]:
    """The reports of each name, or why there are none; one that cannot be read does not stop the rest."""
    from gitjournal.refs import JOURNAL_SESSION, Name
    from gitjournal.verify import verify as check
    from gitjournal.verify import verify_session

    for text in names or [None, *(session for session, _ in by_session(journal))]:
        try:
            if text is None:
                # A clone of single branches has no log.
                if journal.chain(Name(JOURNAL_SESSION)).exists():
                    yield [check(journal, Name(JOURNAL_SESSION))]
                continue
            name = journal.resolve(text) if names else Name(text)
            if text == name.session:
                yield sorted(verify_session(journal, name.session), key=lambda report: report.name != text)
            else:
                yield [check(journal, name)]
        except JournalError as error:
            yield error


def _say_report(app: App, report: Report) -> None:
    from gitjournal.render import count, printable

    paint = app.paint
    verdict = {0: ("ok", "green"), 1: ("BROKEN", "red"), 3: ("incomplete", "yellow")}[report.exit_status]
    facts = [count(report.head_seq, "event")]
    facts += [count(report.side_files, "side file")] if report.side_files else []
    facts += [f"{report.in_tail:,} not yet in git"] if report.in_tail else []
    facts += [f"{len(report.withheld):,} withheld"] if report.withheld else []
    app.say(f"{paint(printable(report.name), 'bold')}: {paint(verdict[0], verdict[1], 'bold')}, {', '.join(facts)}")
    for finding in report.findings:
        place = printable(report.name) + (f"@{finding.seq}" if finding.seq is not None else "")
        app.say(f"  {paint(finding.code, 'red')} at {paint(place, 'bold')}: {printable(finding.text)}")


def _say_unchecked(app: App, notes: dict[str, list[str]]) -> None:
    """What no run can say, once: with its details when it is of one branch."""
    from gitjournal.render import printable

    if not notes:
        return
    app.say("not checked:")
    for topic, texts in notes.items():
        same = len(set(texts)) == 1
        app.say("  " + printable(texts[0] if same else f"{topic} ({len(texts)} branches; --json has each)"))
