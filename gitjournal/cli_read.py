"""Commands that look at a journal and change nothing: show, cat, branches, sessions, replay, verify.

Floor 6. ``gj log`` is in `cli_log`.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import click

from gitjournal.cli_base import (
    FAILED,
    App,
    color_option,
    complete_names,
    explain,
    find,
    journal_option,
    json_option,
    name_argument,
    pass_app,
    position,
)
from gitjournal.errors import JournalError, UsageError

if TYPE_CHECKING:
    from gitjournal.journal import Journal
    from gitjournal.objects import Event
    from gitjournal.refs import Name
    from gitjournal.state import SessionState
    from gitjournal.verify import Report

#: `gj sessions` looks for the first words of a user in so many events.
_FIRST = 200
#: `gj replay` shows so many entries of the context.
_LAST_ENTRIES = 8


# --- one event -----------------------------------------------------------------------------------


@click.command(short_help="Show one event in full.")
@name_argument("NAME@SEQ")
@click.option("--raw", is_flag=True, help="The stored bytes, and nothing else.")
@json_option
@color_option
@journal_option
@pass_app
def show(app: App, name: str, raw: bool, as_json: bool) -> None:
    """Show one event in full; without @SEQ, the newest of the branch.

    Its payload is shown with side files in their places. --json gives that as JSON; --raw the event as it is stored,
    in canonical form.
    """
    journal = app.journal()
    branch, seq = position(journal, name)
    event = journal.event(branch, seq)
    if raw:
        app.write(event.raw)
    elif as_json:
        app.emit({"name": str(branch), "hash": event.hash, **_members(event)})
    else:
        with app.paged():
            for line in _event_lines(app, branch, event):
                app.say(line)


def _members(event: Event) -> dict[str, Any]:
    """The members of an event with its data resolved, in a form that JSON can hold."""
    members = event.members
    if not event.withheld:
        members["data"] = _plain(event.data)
    return members


def _plain(value: Any) -> Any:
    """Data as JSON can hold it: bytes as base64, odd values as the tags of docs/format.md section 9."""
    from gitjournal.state import SessionState

    return SessionState(start={"data": value}).as_dict()["start"]["data"]


def _event_lines(app: App, name: Name, event: Event) -> Iterator[str]:
    from gitjournal.render import outline, printable

    paint = app.paint
    yield paint(printable(f"{name}@{event.seq}"), "bold")
    yield f"{'hash':<8} {paint(event.hash, 'yellow')}"
    if event.session != name.session:
        yield f"{'session':<8} {printable(event.session)}"
    for member in ("prev", "epoch", "ts", "type", "actor", "turn", "salt", "data_sha256"):
        if member in event.members:
            yield f"{member:<8} {event.members[member] or '-'}"
    for number, entry in enumerate(event.files, 1):
        named = f"{printable(entry['name'])}, " if "name" in entry else ""
        yield f"{f'file {number}':<8} {named}{entry['media_type']}, {entry['size']:,} bytes, sha256 {entry['sha256']}"
    yield ""
    if event.withheld:
        yield "The payload is withheld; its hash is data_sha256."
        return
    yield from outline(_data(app, event), "  ")


def _data(app: App, event: Event) -> Any:
    try:
        return event.data
    except JournalError as error:
        app.note(f"the payload is shown as it is stored: {error}")
        return event.stored_data


@click.command(short_help="Write the stored bytes of an event or side file.")
@name_argument("NAME@SEQ")
@click.argument("file_number", metavar="[K]", required=False, type=click.IntRange(min=1))
@journal_option
@pass_app
def cat(app: App, name: str, file_number: int | None) -> None:
    """Write the stored bytes of an event, or of its side file K (from 1), exactly, to standard output."""
    journal = app.journal()
    branch, seq = position(journal, name)
    if file_number is None:
        app.write(journal.event(branch, seq).raw)
    else:
        app.write(journal.raw_file(branch, seq, file_number))


# --- lists ---------------------------------------------------------------------------------------


@click.command(short_help="List the branches of a session.")
@name_argument("SESSION")
@json_option
@color_option
@journal_option
@pass_app
def branches(app: App, name: str, as_json: bool) -> None:
    """List the branches of a session: how long each is, how many events are its own, and where it begins."""
    from gitjournal.lineage import lines

    journal = app.journal()
    rows = []
    for line in lines(journal, find(journal, name).name.session):
        begin, head = line.begin, journal.event(line.name, line.head)
        origin = {"name": str(begin.parent), "seq": begin.after} if begin.parent else None
        if as_json:
            own = line.head - begin.after
            app.emit(
                {"name": str(line.name), "branch": line.name.branch, "events": line.head, "own": own, "from": origin}
                | {"head": head.hash, "updated": head.ts}
            )
            continue
        source = f"{begin.parent}@{begin.after}" if begin.parent else "-"
        rows.append((str(line.name), str(line.head), str(line.head - begin.after), source, head.hash[:7], _when(head.ts)))
    if not as_json:
        _table(app, ("NAME", "EVENTS", "OWN", "FROM", "HEAD", "LAST EVENT"), rows)


@click.command(short_help="List all sessions, the newest first.")
@json_option
@color_option
@journal_option
@pass_app
def sessions(app: App, as_json: bool) -> None:
    """List all sessions, the one with the newest event first: events, branches, last time, and how it began."""
    from gitjournal.render import clip

    journal = app.journal()
    found = [_summary(journal, session, names) for session, names in _by_session(journal)]
    found.sort(key=lambda row: str(row["updated"]), reverse=True)
    rows = []
    for row in found:
        if as_json:
            app.emit(row)
        else:
            said = row["error"] or row["first"] or ""
            cells = (row["session"], str(row["events"]), str(len(row["branches"])), _when(row["updated"]))
            rows.append((*cells, clip(said, 60 if app.width is None else max(24, app.width - 52))))
    if not as_json and rows:
        _table(app, ("SESSION", "EVENTS", "BRANCHES", "LAST EVENT", "BEGINS WITH"), rows)
    if not found:
        app.note(f"no session yet in {journal.path}")
    if any(row["error"] for row in found):
        click.get_current_context().exit(FAILED)


def _by_session(journal: Journal) -> Iterator[tuple[str, list[Name]]]:
    for session, names in itertools.groupby(journal.sessions(), key=lambda name: name.session):
        yield session, sorted(names, key=lambda name: (name.branch != "main", name.branch))


def _summary(journal: Journal, session: str, names: list[Name]) -> dict[str, Any]:
    """One session; a fault in it is a part of the answer, so that the others are listed all the same."""
    row: dict[str, Any] = {"session": session, "events": 0, "branches": [name.branch for name in names]}
    row |= {"updated": "", "first": None, "error": None}
    try:
        newest = max((journal.event(name, journal.head(name).seq) for name in names), key=lambda event: event.ts)
        row |= {"events": journal.head(names[0]).seq, "updated": newest.ts}
        row["first"] = _first_words(journal.events(names[0], to=_FIRST))
    except JournalError as error:
        row["error"] = f"[{error.code}] {error}"
    return row


def _first_words(events: Iterable[Event]) -> str | None:
    """What the first message of a user says."""
    from gitjournal.render import gist, read_data

    for event in events:
        if event.type == "message" and (read_data(event) or {}).get("role") == "user":
            return gist(event)
    return None


def _when(ts: str) -> str:
    return ts[:19].replace("T", " ") or "-"


def _table(app: App, head: tuple[str, ...], rows: list[tuple[str, ...]]) -> None:
    from gitjournal.render import columns, printable

    shown = [head, *(tuple(map(printable, row)) for row in rows)]
    widths = [max(columns(row[at]) for row in shown) for at in range(len(head))]
    numbers = {"EVENTS", "OWN", "BRANCHES"}
    for row in shown:
        cells = []
        for title, cell, width in zip(head, row, widths, strict=True):
            pad = " " * (width - columns(cell))
            cells.append(pad + cell if title in numbers else cell + pad)
        line = "  ".join(cells).rstrip()
        app.say(app.paint(line, "dim") if row is head else line)


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
    from gitjournal.render import clip, count, one_line, origin_text, printable

    width = app.width or 160
    usage = {counter.removeprefix("gen_ai.usage."): number for counter, number in state.usage.items()}
    cached = f"{usage['cache_read.input_tokens']:,} read from a cache, {usage['cache_creation.input_tokens']:,} written"
    facts = [
        ("state", f"{app.paint(printable(f'{name}@{state.last_seq}'), 'bold')} of {head:,}  {state.last_hash or ''}"),
        ("newest", newest),
        ("source", ", trust ".join(printable(one) for one in (state.source or "live", state.trust) if one)),
        ("time", f"{_when(state.started or '')} to {_when(state.updated or '')} UTC"),
        ("turns", f"{state.turns['user']:,} of the user, {state.turns['model']:,} of the model"),
        ("tools", f"{count(state.tool_calls, 'call')}, {count(state.tool_results, 'result')}"),
        ("tokens", f"{usage['input_tokens']:,} in ({cached}), {usage['output_tokens']:,} out"),
        ("context", f"{len(state.context):,} of {count(len(state.history), 'entry', 'entries')} of the history"),
    ]
    facts += [("from", printable(f"{point['branch']}@{point['seq']} on {origin_text(point['from'])}")) for point in state.branch_points]
    facts += [("open", f"@{call['seq']} {one_line(str(call['name']))}, no result yet") for call in state.open_calls]
    facts += [("error", f"@{one['seq']} {one_line(': '.join(filter(None, (one['type'], one['message']))))}") for one in state.errors]
    facts += [("shorter", f"@{one['seq']} a compaction kept {count(one['kept'], 'entry', 'entries')}") for one in state.compactions]
    facts += [("withheld", count(state.withheld, "event"))] if state.withheld else []
    facts += [("unknown", printable(f"{kind}: {number:,}")) for kind, number in state.unknown.items()]
    facts += [("odd", f"@{one['seq']} {one['type']}: {printable(', '.join(one['faults']))}") for one in state.odd]
    for title, text in facts:
        app.say(f"{title:<9}{text if title == 'state' else clip(text, width - 9)}")
    _say_last_entries(app, state.context, width)


def _say_last_entries(app: App, context: list[dict[str, Any]], width: int) -> None:
    from gitjournal.render import clip, entry_gist, printable

    if context:
        app.say()
        left = len(context) - _LAST_ENTRIES
        app.say(app.paint(f"What the model sees{f', after {left:,} more' if left > 0 else ''}:", "dim"))
    for entry in context[-_LAST_ENTRIES:]:
        app.say(clip(f"{'@' + str(entry['seq']):>7} {printable(entry['role']):<10} {entry_gist(entry['parts'])}", width))


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
    statuses, notes = {0}, {}
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

    for text in names or [None, *(session for session, _ in _by_session(journal))]:
        try:
            if text is None:
                yield [check(journal, Name(JOURNAL_SESSION))]
                continue
            name = journal.resolve(text) if names else Name(text)
            yield verify_session(journal, name.session) if text == name.session else [check(journal, name)]
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
        app.say(f"  {printable(texts[0])}" if same else f"  {printable(topic)} ({len(texts)} branches; --json has each)")
