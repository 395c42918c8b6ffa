"""Whether the events of a journal are intact: the command `gj verify`.

Floor 6. Changes nothing in the journal; the memory of verified heads is kept elsewhere.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import click

from gitjournal.cli_base import (
    App,
    color_option,
    complete_names,
    explain,
    journal_option,
    json_option,
    pass_app,
    read_file,
)
from gitjournal.cli_given import Options, Remembered, gone
from gitjournal.cli_names import find
from gitjournal.errors import JournalError, NotAJournal, NotFound, UsageError

if TYPE_CHECKING:
    from gitjournal.chain import Chain
    from gitjournal.checks import Checks
    from gitjournal.cli_report import Notes
    from gitjournal.journal import Journal
    from gitjournal.refs import Name
    from gitjournal.verdict import Report, Signer

    #: What remotes are known to have, by session.
    Copies: TypeAlias = Mapping[str, Sequence[Chain]]

_HASH = re.compile(r"\b([0-9a-f]{12})[0-9a-f]{52}\b")


@click.command(short_help="Check that nothing was changed, lost or slipped in.")
@click.argument("names", metavar="[NAME]...", nargs=-1, shell_complete=complete_names)
@click.option("--all", "everything", is_flag=True, help="All sessions and the journal's own log; so too without NAME.")
@click.option("--allowed-signers", metavar="FILE", help="Whose signatures count, as for git and ssh-keygen.")
@click.option("--revoked-keys", metavar="FILE", help="Public keys whose signatures never count.")
@click.option("--require-signed", is_flag=True, help="A branch that no allowed signer has signed is broken.")
@click.option("--pin", "pins", metavar="FILE", multiple=True, help="Heads that were kept with gj pin.")
@click.option("--expect-seq", metavar="N", help="With --expect-head, for one NAME.")
@click.option("--expect-head", metavar="HASH", help="The event hash that the branch had at N.")
@click.option("--cosigned", metavar="FILE", multiple=True, help="What witnesses have signed: gj witness ask.")
@click.option("--witnesses", metavar="FILE", help="With --cosigned: whose cosignatures count, as allowed signers.")
@click.option("--proof", metavar="FILE", help="Check a proof (gj prove) instead; needs no journal.")
@click.option("--export", metavar="FILE", help="Check a JSONL export (gj export) instead; needs no journal.")
@click.option("--forget", is_flag=True, help="First forget the heads that earlier runs have found.")
@click.option("--report", metavar="FILE", help="Write the result to FILE as a page of HTML, too.")
@json_option
@color_option
@journal_option
@pass_app
def verify(app: App, /, names: tuple[str, ...], everything: bool, as_json: bool, **given: Any) -> None:
    """Check that nothing was changed, lost or slipped in: every event, link, tree and commit is derived anew.

    A session is checked with all its branches; SESSION/BRANCH is one branch. Says also what it could not check. Heads
    that were found intact are remembered, outside the journal, and a branch must go on from them.

    Exit status: 0 intact, 1 broken, 2 usage, 3 intact as far as could be checked, 4 not there or not readable.
    """
    options = Options(**given)
    if names and everything:
        raise UsageError("give names or --all, not both")
    file = options.proof or options.export
    if file is None:
        _finish(app, _journal(app, names, options), as_json, _notes(names, options))
        return
    if names or everything or (options.proof and options.export):
        raise UsageError("--proof and --export each check one file alone: leave the names and the other one out")
    _finish(app, [[_proof(options) if options.proof else _export(options)]], as_json, _notes(names, options))


def _finish(app: App, run: Iterable[list[Report] | JournalError], as_json: bool, page: Notes | None) -> None:
    """Print the reports as they come, write the page if one is wanted, and end with the exit status."""
    statuses = {0}
    total = 0
    notes: dict[str, dict[str, str]] = {}
    for reports in run:
        if isinstance(reports, JournalError):
            statuses.add(explain(reports))
            if page:
                page.unreadable.append(str(reports))
            continue
        if page:
            page.reports += reports
        for report in reports:
            statuses.add(report.exit_status)
            total += 1
            for note in report.unchecked:
                notes.setdefault(note.split(":")[0], {})[report.name] = note
            if as_json:
                app.emit(report.as_dict())
            else:
                _say_report(app, report)
    if not as_json:
        _say_unchecked(app, notes, max(1, total))
    if page:
        try:
            page.write(app, _heaviest(statuses))
        except JournalError as error:
            statuses.add(explain(error))
    click.get_current_context().exit(_heaviest(statuses))


def _heaviest(statuses: set[int]) -> int:
    """Broken outweighs unreadable, which outweighs incomplete."""
    return next(status for status in (1, 2, 4, 3, 0) if status in statuses)


# --- what is checked -----------------------------------------------------------------------------


def _proof(options: Options) -> Report:
    from gitjournal import proof

    if options.pins or options.head():
        raise UsageError("a proof has no head: leave the pins out")
    raw = read_file(str(options.proof), proof.MAX_BYTES + 1)
    signers, cosigned = options.signers(), options.cosignatures()
    return proof.check(raw, signers, require_signed=options.require_signed, cosigned=cosigned)


def _export(options: Options) -> Report:
    from gitjournal.export_check import check_export

    head = options.head()
    return check_export(Path(str(options.export)), options.checks(), [head] if head else [])


def _journal(app: App, names: tuple[str, ...], options: Options) -> Iterator[list[Report] | JournalError]:
    """The reports of each name, or why there are none; then those of branches that were there before."""
    from dataclasses import replace

    checks = options.checks()
    journal, copies = _open(app)
    _say_cut(app, journal)
    expected = {name: [*heads] for name, heads in checks.expected.items()}
    if head := options.head():
        if len(names) != 1:
            raise UsageError("--expect-seq and --expect-head are of one branch: give its name")
        expected.setdefault(find(journal, names[0]).name, []).append(head)
    remembered = Remembered(journal, forget=options.forget)
    for name, head in remembered.heads.items():
        expected.setdefault(name, []).append(head)
    foreign = journal.store.foreign_refs()
    seen: dict[Name, Report] = {}
    for reports in _checked(journal, copies, names, replace(checks, expected=expected)):
        for report in () if isinstance(reports, JournalError) else reports:
            if foreign:
                report.note(f"refs that are no line of a journal: {foreign}")
            remembered.tell(report)
            if report.branch:
                seen[report.branch] = report
        yield reports
    kept = {*expected, *(checks.cosigned.names if checks.cosigned else ())}
    lost = sorted(name for name in kept - seen.keys() if _is_meant(names, name))
    missing = [gone(name, expected.get(name, ()), checks.cosigned) for name in lost]
    for report in missing:
        remembered.tell(report)
    yield missing
    remembered.keep(seen.values())


def _say_cut(app: App, journal: Journal) -> None:
    """Say what was begun and is not finished."""
    from gitjournal import delete, erase
    from gitjournal.render import printable

    if erase.is_unfinished(journal):
        app.note("an erasure was begun and is not finished: gj erase --finish")
    try:
        if (session := delete.cut_session(journal)) is not None:
            app.note(printable(f"a deletion was cut; finish it with gj delete {shlex.quote(session)}"))
    except JournalError as error:
        app.note(str(error))


def _open(app: App) -> tuple[Journal, Copies]:
    """The journal, and what its remotes are known to have.

    Also one whose every branch is so damaged that nothing but the names of refs is like a journal.
    """
    from gitjournal.journal import open_journal

    journal = open_journal(app.place(), check=False)
    copies = _copies(journal)
    try:
        journal.check_format()
    except NotAJournal as error:
        if not _sessions(journal, copies):
            raise
        app.note(str(error))
    return journal, copies


def _copies(journal: Journal) -> Copies:
    from gitjournal.chain import Chain
    from gitjournal.refs import parse_ref

    found: dict[str, list[Chain]] = {}
    for store in journal.store.copies():
        for ref in store.list_refs():
            if name := parse_ref(ref, store.prefix):
                found.setdefault(name.session, []).append(Chain(store, name))
    return found


def _sessions(journal: Journal, copies: Copies) -> list[str]:
    """All sessions, here or only at a remote; the journal's own log is the first."""
    from gitjournal.refs import JOURNAL_SESSION

    found = {*copies, *(name.session for name in journal.sessions())}
    # A clone of single branches has no log.
    own = [JOURNAL_SESSION] if journal.branches(JOURNAL_SESSION) else []
    return [*own, *sorted(found - {*own})]


def _checked(
    journal: Journal, copies: Copies, names: tuple[str, ...], checks: Checks
) -> Iterator[list[Report] | JournalError]:
    """The reports of each name, or why there are none; one that cannot be read does not stop the rest."""
    from gitjournal.refs import Name
    from gitjournal.verify import verify as check
    from gitjournal.verify import verify_session

    for text in names or _sessions(journal, copies):
        try:
            name = _meant(journal, copies, text) if names else Name(text)
            branch = None if text == name.session else name.branch
            there = [one for one in copies.get(name.session, ()) if branch in (None, one.name.branch)]
            reports = verify_session(journal, name.session, checks, branch=branch, copies=there)
            # A name that is not listed, and yet there: behind a link.
            reports = reports or [check(journal, name, checks)]
            yield sorted(reports, key=lambda report: report.name != str(name))
        except JournalError as error:
            yield error


def _meant(journal: Journal, copies: Copies, text: str) -> Name:
    """The branch of that name. What only a remote has is there under its whole name."""
    from gitjournal.refs import Name

    try:
        return journal.resolve(text)
    except NotFound:
        if text in copies:
            return Name(text)
        for copy in chain.from_iterable(copies.values()):
            if text == f"{copy.name.session}/{copy.name.branch}":
                return copy.name
        raise


def _notes(names: tuple[str, ...], options: Options) -> Notes | None:
    """What the page of the run will say, if one is wanted; so far, what the run was given."""
    from gitjournal.cli_report import Notes, named_file

    if options.report is None:
        return None
    file = options.proof or options.export
    given = [("branches", name) for name in names or (() if file else ("all",))]
    for label, path in (
        ("allowed signers", options.allowed_signers),
        ("revoked keys", options.revoked_keys),
        *(("pins", path) for path in options.pins),
        *(("cosignatures", path) for path in options.cosigned),
        ("witnesses", options.witnesses),
        ("proof", options.proof),
        ("export", options.export),
    ):
        given += named_file(label, path)
    if options.expect_seq:
        given.append(("expected head", f"{options.expect_head} at {options.expect_seq}"))
    given += [("asked for", "every branch signed")] if options.require_signed else []
    return Notes(options.report, given, file)


def _is_meant(names: tuple[str, ...], name: Name) -> bool:
    return not names or str(name) in names or name.session in names


# --- output --------------------------------------------------------------------------------------


def _say_report(app: App, report: Report) -> None:
    from gitjournal.render import count, printable

    paint = app.paint
    verdict = {0: ("ok", "green"), 1: ("BROKEN", "red"), 3: ("incomplete", "yellow")}[report.exit_status]
    facts = [_proven(report.proven)] if report.proven else [count(report.head_seq, "event")]
    facts += [count(report.side_files, "side file")] if report.side_files else []
    facts += [f"{report.in_tail:,} not yet in git"] if report.in_tail else []
    facts += [f"{len(report.withheld):,} withheld"] if report.withheld else []
    facts += [_signed(report)] if report.signatures else []
    facts += [f"pinned at {report.pinned:,}"] if report.pinned else []
    facts += [f"cosigned by {_principals(report.witnesses)}"] if report.witnesses else []
    app.say(f"{paint(printable(report.name), 'bold')}: {paint(verdict[0], verdict[1], 'bold')}, {', '.join(facts)}")
    for finding in report.findings:
        place = printable(report.name) + (f"@{finding.seq}" if finding.seq is not None else "")
        app.say(f"  {paint(finding.code, 'red')} at {paint(place, 'bold')}: {printable(finding.text)}")


def _proven(proven: dict[str, Any]) -> str:
    from gitjournal.render import printable

    under = f"the seal on {proven['size']:,} events of {proven['branch']}"
    if "event" not in proven:
        return f"the seal on {proven['first_size']:,} events is the beginning of {under}"
    event = proven["event"]
    what = f"event {event['seq']} of {event['session']} ({event['type']} by {event['actor']}, {event['hash'][:12]})"
    return printable(f"{what} is under {under}")


def _signed(report: Report) -> str:
    from gitjournal.render import count

    if not report.signed_to:
        return f"{count(report.signatures, 'signature')} of nobody who is known"
    return f"signed to {report.signed_to} by {_principals(report.signers)}"


def _principals(signers: Mapping[str, Signer]) -> str:
    from gitjournal.render import printable

    return ", ".join(sorted({printable(one.principals) for one in signers.values() if one.principals}))


def _say_unchecked(app: App, notes: Mapping[str, Mapping[str, str]], total: int) -> None:
    """What no run can say, once for all branches that it is the same for."""
    from gitjournal.render import printable

    if notes:
        app.say("not checked:")
    for topic, texts in notes.items():
        same = len(set(texts.values())) == 1
        text = next(iter(texts.values())) if same else topic
        where = next(iter(texts)) if len(texts) == 1 else f"{len(texts)} of {total} branches"
        alone = len(texts) == total and same
        # Of a hash as much as tells it from others; --json has all of it.
        text = _HASH.sub(r"\1", text)
        app.say("  " + printable(text if alone else f"{text} ({where}{'' if same else '; --json has each'})"))
