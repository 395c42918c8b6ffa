"""Commands that find things: sessions, search, grep; and reindex, which makes what the first two look in.

Floor 6. `grep` reads the events themselves and needs no index.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

import click

from gitjournal.cli_base import (
    EXIT,
    FAILED,
    App,
    color_option,
    complain,
    journal_option,
    json_option,
    not_empty,
    pass_app,
)
from gitjournal.cli_names import since
from gitjournal.cli_progress import Progress, shown
from gitjournal.cli_read import when
from gitjournal.cli_table import Column, table
from gitjournal.errors import JournalError, UsageError

if TYPE_CHECKING:
    import sqlite3

    from gitjournal.grep import Found, Wanted
    from gitjournal.index_query import Hit
    from gitjournal.journal import Journal

T = TypeVar("T")

_SHOWN = 50
_HITS = 20
#: More sessions than anybody has.
_MOST = 10**9
_STATUSES = ("idle", "running", "requires_action", "rescheduling", "terminated")
_COLUMNS = (
    # The beginning of a UUID in the first group and of a name will do where a name is asked for.
    Column("SESSION", least=9),
    Column("STATUS", least=9),
    Column("TURNS", right=True, leave=3),
    Column("TOKENS", right=True, leave=4),
    Column("EVENTS", right=True, leave=2),
    Column("BRANCHES", right=True, leave=1),
    Column("LAST ACTIVITY", leave=5),
    Column("TITLE", least=20),
)
#: Columns for a title where there is no terminal, and at the least.
_TITLE = 60
#: Seconds without news from an index that is being made.
_QUIET = 0.5


# --- the index, and what is said while it is brought up to date ----------------------------------


def _counted(progress: Progress) -> Callable[[int], None]:
    """Shows how many events were read, of which it is told as they are."""
    total = 0

    def read(events: int) -> None:
        nonlocal total
        total += events
        progress(f"indexing, {total:,} events")

    return read


def _ask(app: App, journal: Journal, question: Callable[[sqlite3.Connection], T]) -> T:
    from gitjournal.index import ask

    with shown(_QUIET) as progress:

        def say(text: str) -> None:
            progress.clear()
            app.note(text)

        return ask(journal, question, say=say, progress=_counted(progress))


def still_indexed(app: App, why: str) -> None:
    """Say why the index could not forget what was erased or deleted, if it could not."""
    if why:
        app.note(f"the index may hold what was said until gj sessions or gj search is run again: {why}")


@click.command(short_help="Make the index of sessions and words anew.")
@json_option
@journal_option
@pass_app
def reindex(app: App, as_json: bool) -> None:
    """Make the index of sessions and words anew, from all events.

    Never needed: the index brings itself up to date when it is asked, and is made anew when it is missing or damaged.
    It is the file gitjournal/index.sqlite in the journal, and nothing in it is the only copy of anything.
    """
    from gitjournal.index import rebuild
    from gitjournal.render import count

    journal = app.journal()
    begun = time.monotonic()
    with shown(_QUIET) as progress:
        done = rebuild(journal, progress=_counted(progress))
    seconds = time.monotonic() - begun
    if as_json:
        app.emit({**done._asdict(), "seconds": round(seconds, 3)})
        return
    told = (count(done.sessions, "session"), count(done.branches, "branch", "branches"), count(done.events, "event"))
    app.say(f"indexed {', '.join(told)} in {seconds:.1f} s")


# --- sessions ------------------------------------------------------------------------------------


@click.command(short_help="List sessions, the newest first.")
@click.option("--archived", is_flag=True, help="Archived ones as well.")
@click.option("--since", "after", metavar="TIME", help="With an event since then: 7d, 12h, 2026-11-03.")
@click.option("--project", metavar="PATH", callback=not_empty, help="Begun in this folder.")
@click.option("--label", metavar="LABEL", callback=not_empty, help="With this label.")
@click.option("--status", type=click.Choice(_STATUSES), help="In this state now.")
@click.option("-n", "--max-count", "most", type=click.IntRange(min=0), metavar="N", help="At most N; 0 is all of them.")
@json_option
@color_option
@journal_option
@pass_app
def sessions(
    app: App,
    archived: bool,
    after: str | None,
    project: str | None,
    label: str | None,
    status: str | None,
    most: int | None,
    as_json: bool,
) -> None:
    """List sessions, the one with the newest event first: its state, turns of the user, tokens (input→output), events,
    branches, last activity (UTC), and its title or how it began.

    At most 50, unless -n says otherwise; with --json all. Numbers are those of gj cost, without the sessions below:
    an event or response that several branches have counts once, and a fork counts only what it did itself. A session
    that cannot be read is listed with the reason, and the exit status is 1. A narrow terminal has fewer columns.
    """
    from gitjournal import index_query
    from gitjournal.vocabulary import is_label

    if label is not None and not (is_label(label) and label.isprintable()):
        raise UsageError(f"{label!a} is no label", hint="A label is 1 to 64 characters of text.")
    begin = since(after) if after is not None else ""
    journal = app.journal()
    limit = min(_SHOWN if most is None and not as_json else most or _MOST, _MOST)
    projects = _folders(project) if project else ()
    # Which state a session is in while somebody writes to it, only its lease says.
    leased = _leased(journal) if status else ()

    def question(db: sqlite3.Connection) -> list[dict[str, Any]]:
        rows = index_query.listed(
            db,
            archived=archived,
            since=begin,
            projects=projects,
            label=label or "",
            status=status or "",
            live=leased,
        )
        told = (_with_status(journal, row) for row in rows)
        # One more says that there are more.
        return list(islice((row for row in told if status in (None, row["status"])), limit + 1))

    wanted = _ask(app, journal, question)
    shown = wanted[:limit]
    _show_sessions(app, journal, shown, as_json)
    if len(wanted) > len(shown):
        app.note(f"there are more than these {len(shown)}; -n 0 lists all")
    if any(row["error"] for row in shown):
        click.get_current_context().exit(FAILED)


def _folders(project: str) -> list[str]:
    """A folder as sessions may name it: some recorders follow links, others do not."""
    found = (os.path.abspath(project), os.path.realpath(project))  # noqa: PTH100 - Path.absolute leaves .. in it
    # What is no text, no session names: also the folder that we are in may be called so.
    return sorted({path.encode("utf-8", "replace").decode() for path in found})


def _leased(journal: Journal) -> list[str]:
    """The sessions of which a branch may have a writer."""
    from gitjournal import refs
    from gitjournal.store import names

    found = []
    for name in names(journal.path / "gitjournal" / "lease"):
        # A name that is no session's is none of ours.
        with suppress(UsageError):
            found.append(refs.decode(name))
    return found


def _with_status(journal: Journal, row: dict[str, Any]) -> dict[str, Any]:
    """A row with what the session does now."""
    from gitjournal import index_rows, refs
    from gitjournal.lease import held

    states: dict[str, Any] = row.pop("states")
    folder = journal.path / "gitjournal" / "lease" / refs.encode(row["session"])
    live = [one for one in states if folder.exists() and held(folder / f"{refs.encode(one)}.json")]
    status, reason, blocking = index_rows.now(states, live)
    return row | {"live": bool(live), "status": status, "stop_reason": reason, "blocking": blocking}


def _show_sessions(app: App, journal: Journal, rows: list[dict[str, Any]], as_json: bool) -> None:
    if as_json:
        for row in rows:
            app.emit(row)
    elif rows:
        table(app, _COLUMNS, [_cells(app, row) for row in rows])
    if not rows:
        app.note(f"no session{'' if _is_empty(journal) else ' that fits'} in {journal.path}")


def _is_empty(journal: Journal) -> bool:
    return next(journal.sessions(), None) is None


def _cells(app: App, row: dict[str, Any]) -> tuple[str, ...]:
    from gitjournal.render import clip, one_line, short_number

    tokens = row["tokens"]
    used = f"{short_number(tokens['input'])}→{short_number(tokens['output'])}" if any(tokens.values()) else "-"
    said = one_line(row["error"] or (row["title"] or "").strip() or row["first"] or "")
    return (
        row["session"],
        ("● " if row["live"] else "") + (row["status"] or "-"),
        str(row["turns"]["user"]),
        used,
        str(row["events"]),
        str(len(row["branches"])),
        when(row["updated"])[: None if app.width is None else 16],
        # In front, where no long title and no narrow terminal takes it away.
        clip(("[archived] " if row["archived"] else "") + said, _TITLE if app.width is None else app.width),
    )


# --- search --------------------------------------------------------------------------------------


def _columns(_: click.Context, __: click.Parameter, value: str | None) -> tuple[str, ...]:
    if value is None:
        return ()
    named = tuple(filter(None, (one.strip() for one in value.split(","))))
    if not named:
        raise UsageError("--in is empty")
    return named


@click.command(short_help="Find words in all sessions, the best hits first.")
@click.argument("words", metavar="WORDS...", nargs=-1, required=True)
@click.option("--in", "columns", metavar="COLUMNS", callback=_columns, help="Only in these: title,summary,text,tools.")
@click.option("--session", metavar="NAME", callback=not_empty, help="Only in this session, also if it is archived.")
@click.option("--archived", is_flag=True, help="In archived sessions as well.")
@click.option("--since", "after", metavar="TIME", help="Only events since then: 7d, 12h, 2026-11-03.")
@click.option("-n", "--max-count", "most", type=click.IntRange(1, 1000), default=_HITS, help="At most N hits (20).")
@json_option
@color_option
@journal_option
@pass_app
def search(
    app: App,
    words: tuple[str, ...],
    columns: tuple[str, ...],
    session: str | None,
    archived: bool,
    after: str | None,
    most: int,
    as_json: bool,
) -> None:
    """Find events by what people, models and tools said, the best first: 'cache bug', '"a phrase"', 'begin*',
    'this OR that', '-not'.

    All words must be in one event, in whatever case. A title counts more than a text, a text more than what a tool gave
    back; of words that are in more than 16,000 events, only the newest sessions are looked at beside titles. Of very
    long texts and outputs only the beginning is found, and of a text without spaces between its words (Chinese,
    Japanese, Thai) none but the first: gj grep finds all. Times are UTC. The exit status is 1 when nothing is found, or
    when a session cannot be looked into.
    """
    from gitjournal import index_query

    journal = app.journal()
    text = " ".join(words)
    # What is wrong with the question should not wait for the index.
    index_query.match(text, columns)
    only = _session(journal, session) if session else ""
    cutoff = since(after) if after is not None else ""
    found = partial(index_query.search, columns=columns, session=only, since=cutoff, archived=archived, limit=most)
    hits, missed = _ask(app, journal, lambda db: (found(db, journal, text), index_query.missed(db, only)))
    for hit in hits:
        if as_json:
            app.emit(_members(hit))
        else:
            app.say(_hit_line(app, hit))
    if missed:
        told = f"{missed} branches were" if missed > 1 else "one branch was"
        app.note(f"{told} not looked into, because of damage: gj sessions says why")
    if not hits:
        app.note("nothing found; in languages that put no spaces between words, gj grep finds parts of a text")
        if index_query.is_foreign(text):
            app.note("NOT, NEAR and title: are words like others: leave out with -word, look in titles with --in title")
    if missed or not hits:
        click.get_current_context().exit(FAILED)


def _session(journal: Journal, text: str) -> str:
    """The session that ``text`` names. UsageError for a branch or an event: the index is not asked for those."""
    from gitjournal.cli_names import find
    from gitjournal.refs import TRUNK

    name, seq = find(journal, text)
    if seq is not None or (text != name.session and (text.endswith(f"/{TRUNK}") or (name.branch != TRUNK))):
        raise UsageError(
            f"{text!r} is not a whole session",
            hint=f"Search in --session {name.session}, or look for a text with gj grep PATTERN {text}.",
        )
    return name.session


def _members(hit: Hit) -> dict[str, Any]:
    place = {"name": f"{hit.name}@{hit.seq}", "session": hit.name.session, "branch": hit.name.branch, "seq": hit.seq}
    return place | {"ts": hit.ts, "score": hit.score, "snippet": hit.snippet, "matches": hit.matches}


def _hit_line(app: App, hit: Hit) -> str:
    from gitjournal.render import printable

    paint = app.paint
    said, at = "", 0
    for begin, end in hit.matches:
        said += printable(hit.snippet[at:begin]) + paint(printable(hit.snippet[begin:end]), "bold", "red")
        at = end
    said += printable(hit.snippet[at:])
    return f"{paint(printable(f'{hit.name}@{hit.seq}'), 'yellow')} {paint(when(hit.ts)[:16], 'dim')}  {said}"


# --- grep ----------------------------------------------------------------------------------------


@click.command(short_help="Find lines in all texts, exactly.")
@click.argument("pattern")
@click.argument("name", metavar="[NAME]", required=False)
@click.option("-i", "--ignore-case", is_flag=True, help="Take A and a as the same.")
@click.option("-F", "--fixed-strings", "fixed", is_flag=True, help="PATTERN is plain text, not a regular expression.")
@click.option("--type", "types", multiple=True, metavar="TYPE", help="Only events of this type (* is any text).")
@json_option
@color_option
@journal_option
@pass_app
def grep(
    app: App, pattern: str, name: str | None, ignore_case: bool, fixed: bool, types: tuple[str, ...], as_json: bool
) -> None:
    """Find the lines of all texts that match the regular expression PATTERN: in payloads of events, side files too,
    but not in names of members.

    Reads every event once, without the index, also where branches share it. NAME is a session with all its branches,
    s/branch that branch alone, s@40 its events up to 40. A pattern that takes more than 5 seconds on one event ends the
    search. The exit status is 1 when nothing is found.
    """
    from gitjournal import grep as texts

    wanted = texts.wanted(pattern, fixed=fixed, ignore_case=ignore_case, types=types)
    journal = app.journal()
    some, status = False, 0
    with app.paged():
        for found in _found(journal, name, wanted):
            if isinstance(found, JournalError):
                complain(str(found), found.hint)
                status = max(status, EXIT.get(found.code, FAILED))
            elif as_json:
                place = {
                    "name": f"{found.name}@{found.seq}",
                    "seq": found.seq,
                    "type": found.type,
                    "actor": found.actor,
                }
                app.emit(place | {"line": found.line, "begin": found.begin, "end": found.end})
            else:
                app.say(_line(app, found))
            some = some or not isinstance(found, JournalError)
    if status or not some:
        click.get_current_context().exit(status or FAILED)


def _found(journal: Journal, text: str | None, wanted: Wanted) -> Iterator[Found | JournalError]:
    from gitjournal import grep as texts
    from gitjournal.cli_names import find
    from gitjournal.refs import TRUNK

    if text is None:
        return texts.everywhere(journal, journal.sessions(), wanted)
    target = find(journal, text)
    whole = target.name.branch == TRUNK and target.seq is None and not text.endswith(f"/{TRUNK}")
    if whole:
        return texts.everywhere(journal, journal.branches(target.name.session), wanted)
    return texts.line(journal, target.name, wanted, to=target.seq)


def _line(app: App, found: Found) -> str:
    from gitjournal.render import printable

    begin, end = found.begin, found.end
    head, said, rest = found.line[:begin], found.line[begin:end], found.line[end:]
    if app.width is not None and begin > app.width // 2:
        # What was found is to be seen on a terminal, wherever in a long line it stands.
        head = "…" + head[-(app.width // 3) :]
    if app.width is not None:
        rest = rest[: app.width] + ("…" if len(rest) > app.width else "")
    paint = app.paint
    place = paint(printable(f"{found.name}@{found.seq}"), "yellow")
    return f"{place}: {printable(head)}{paint(printable(said), 'bold', 'red')}{printable(rest)}"
