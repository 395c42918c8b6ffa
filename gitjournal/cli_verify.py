"""Whether the events of a journal are intact: the command `gj verify`.

Floor 6. Changes nothing in the journal; the memory of verified heads is kept elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

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
from gitjournal.cli_names import find
from gitjournal.cli_read import by_session
from gitjournal.errors import JournalError, StorageError, UsageError

if TYPE_CHECKING:
    from gitjournal.chain import Appended
    from gitjournal.cli_report import Notes
    from gitjournal.cosign import Cosigned
    from gitjournal.journal import Journal
    from gitjournal.refs import Name
    from gitjournal.signers import AllowedSigners
    from gitjournal.verdict import Signer
    from gitjournal.verify import Checks, Report

    Heads: TypeAlias = Mapping[Name, Sequence[Appended]]


@click.command(short_help="Check that nothing was changed, lost or slipped in.")
@click.argument("names", metavar="[NAME]...", nargs=-1, shell_complete=complete_names)
@click.option("--all", "everything", is_flag=True, help="All sessions and the journal's own log; so too without NAME.")
@click.option("--allowed-signers", metavar="FILE", help="Whose signatures count, as for git and ssh-keygen.")
@click.option("--revoked-keys", metavar="FILE", help="Public keys whose signatures never count.")
@click.option("--require-signed", is_flag=True, help="A branch that no allowed signer has signed is broken.")
@click.option("--pin", "pins", metavar="FILE", multiple=True, help="Heads that were kept with gj pin.")
@click.option("--expect-seq", type=click.IntRange(1), metavar="N", help="With --expect-head, for one NAME.")
@click.option("--expect-head", metavar="HASH", help="The event hash that the branch had at N.")
@click.option("--cosigned", metavar="FILE", multiple=True, help="What witnesses have signed: gj witness ask.")
@click.option("--witnesses", metavar="FILE", help="With --cosigned: whose cosignatures count, as allowed signers.")
@click.option("--proof", metavar="FILE", help="Check a proof (gj prove) instead; needs no journal.")
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
    if options.proof is None:
        _finish(app, _journal(app, names, options), as_json, _notes(names, options))
        return
    if names or everything or options.pins or options.expect_seq or options.cosigned:
        raise UsageError("--proof checks the file alone: leave the names, pins and cosignatures out")
    _finish(app, [[_proof(options)]], as_json, _notes(names, options))


class Options(NamedTuple):
    """What the command was told besides names and output."""

    allowed_signers: str | None
    revoked_keys: str | None
    require_signed: bool
    pins: tuple[str, ...]
    expect_seq: int | None
    expect_head: str | None
    cosigned: tuple[str, ...]
    witnesses: str | None
    proof: str | None
    forget: bool
    report: str | None


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

    raw = read_file(str(options.proof), proof.MAX_BYTES + 1)
    return proof.check(raw, _signers(options), require_signed=options.require_signed)


def _journal(app: App, names: tuple[str, ...], options: Options) -> Iterator[list[Report] | JournalError]:
    """The reports of each name, or why there are none; then those of branches that were there before."""
    from gitjournal.erase import is_unfinished
    from gitjournal.verify import Checks

    signers = _signers(options)
    journal = app.journal()
    if is_unfinished(journal):
        app.note("an erasure was begun and is not finished: gj erase --finish")
    memory = _memory(journal)
    if options.forget:
        memory.forget()
    expected = _expected(journal, names, options)
    for name, head in memory.heads().items():
        expected.setdefault(name, []).append(head)
    cosigned = _cosigned(options)
    seen: dict[Name, Report] = {}
    for reports in _checked(journal, names, Checks(signers, options.require_signed, expected, cosigned)):
        if not isinstance(reports, JournalError):
            seen.update((report.branch, report) for report in reports if report.branch)
        yield reports
    kept = [*expected, *(name for name in cosigned.names if name not in expected)] if cosigned else [*expected]
    gone = [name for name in kept if name not in seen and _is_meant(names, name)]
    yield [_gone(name, expected.get(name, ()), cosigned) for name in gone]
    _remember(memory, seen)


def _checked(journal: Journal, names: tuple[str, ...], checks: Checks) -> Iterator[list[Report] | JournalError]:
    """The reports of each name, or why there are none; one that cannot be read does not stop the rest."""
    from gitjournal.refs import JOURNAL_SESSION, Name
    from gitjournal.verify import verify as check
    from gitjournal.verify import verify_session

    for text in names or [None, *(session for session, _ in by_session(journal))]:
        try:
            if text is None:
                # A clone of single branches has no log.
                if journal.chain(Name(JOURNAL_SESSION)).exists():
                    yield [check(journal, Name(JOURNAL_SESSION), checks)]
                continue
            name = journal.resolve(text) if names else Name(text)
            if text == name.session:
                yield sorted(verify_session(journal, name.session, checks), key=lambda report: report.name != text)
            else:
                yield [check(journal, name, checks)]
        except JournalError as error:
            yield error


def _notes(names: tuple[str, ...], options: Options) -> Notes | None:
    """What the page of the run will say, if one is wanted; so far, what the run was given."""
    from gitjournal.cli_report import Notes, named_file

    if options.report is None:
        return None
    given = [("branches", name) for name in names or (() if options.proof else ("all",))]
    for label, path in (
        ("allowed signers", options.allowed_signers),
        ("revoked keys", options.revoked_keys),
        *(("pins", path) for path in options.pins),
        *(("cosignatures", path) for path in options.cosigned),
        ("witnesses", options.witnesses),
        ("proof", options.proof),
    ):
        given += named_file(label, path)
    if options.expect_seq:
        given.append(("expected head", f"{options.expect_head} at {options.expect_seq}"))
    given += [("asked for", "every branch signed")] if options.require_signed else []
    return Notes(options.report, given, options.proof)


# --- what is known from elsewhere ----------------------------------------------------------------


def _signers(options: Options) -> AllowedSigners | None:
    from gitjournal.signers import AllowedSigners, revoked_keys

    if options.allowed_signers is None:
        if options.revoked_keys is not None or options.require_signed:
            raise UsageError("--require-signed and --revoked-keys need --allowed-signers: without it nobody counts")
        return None
    revoked = revoked_keys(read_file(options.revoked_keys)) if options.revoked_keys else ()
    return AllowedSigners.parse(read_file(options.allowed_signers), revoked)


def _expected(journal: Journal, names: tuple[str, ...], options: Options) -> dict[Name, list[Appended]]:
    """The heads that the user has kept."""
    from gitjournal import pins
    from gitjournal.chain import Appended

    expected: dict[Name, list[Appended]] = {}
    for path in options.pins:
        for pin in pins.read(Path(path)):
            expected.setdefault(pin.name, []).append(pin.head)
    if (options.expect_seq is None) != (options.expect_head is None):
        raise UsageError("--expect-seq and --expect-head go together")
    if options.expect_seq is not None and options.expect_head is not None:
        if len(names) != 1:
            raise UsageError("--expect-seq and --expect-head are of one branch: give its name")
        if not pins.is_hash(options.expect_head):
            raise UsageError(f"--expect-head {options.expect_head!a} is not an event hash of 64 hex digits")
        expected.setdefault(find(journal, names[0]).name, []).append(Appended(options.expect_seq, options.expect_head))
    return expected


def _cosigned(options: Options) -> Cosigned | None:
    """The cosignatures that the user has kept, and the witnesses that he believes."""
    from gitjournal import cosign
    from gitjournal.signers import AllowedSigners

    if bool(options.cosigned) != (options.witnesses is not None):
        raise UsageError("--cosigned and --witnesses go together: without witnesses no cosignature counts")
    if options.witnesses is None:
        return None
    kept = [one for path in options.cosigned for one in cosign.read(Path(path))]
    return cosign.Cosigned(kept, AllowedSigners.parse(read_file(options.witnesses)))


def _memory(journal: Journal) -> Any:
    import platformdirs

    from gitjournal.pins import Memory

    return Memory(platformdirs.user_state_path("gitjournal") / "verified", journal.path)


def _remember(memory: Any, seen: Mapping[Name, Report]) -> None:
    from gitjournal.chain import Appended
    from gitjournal.pins import Pin

    heads = [Pin(name, Appended(one.head_seq, one.head_hash)) for name, one in seen.items() if one.ok and one.head_seq]
    # Where nothing can be kept (a read-only home), the check is worth as much as a first one.
    with suppress(StorageError):
        memory.keep(heads)


def _is_meant(names: tuple[str, ...], name: Name) -> bool:
    return not names or str(name) in names or name.session in names


def _gone(name: Name, heads: Sequence[Appended], cosigned: Cosigned | None) -> Report:
    from gitjournal.line import Line
    from gitjournal.verify import Report

    report = Report(str(name), name)
    if heads:
        newest = max(heads)
        report.add("truncated", None, newest.hash, f"the branch is gone; it had event {newest.seq} before")
    if cosigned:
        cosigned.check(report, Line())
    report.note("the events: the branch is not there")
    return report


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
        app.say("  " + printable(text if alone else f"{text} ({where}{'' if same else '; --json has each'})"))
