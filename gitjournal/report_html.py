"""A verification as one page of HTML that can be filed, printed and mailed.

Floor 5, pure: reports and what is known around them in, text out. The page needs nothing but itself: no script, no
network, no font. Names, types and texts come from whoever wrote the journal: each is escaped, kept apart from the text
around it, and what would not be seen in it (controls, marks that turn the direction of text) is spelled out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from typing import NamedTuple

from gitjournal.render import count
from gitjournal.verdict import MAX_FINDINGS, Finding, Report, Signer, ranges

#: So many findings are shown with their surroundings, of all branches together; a page of more opens in no browser.
MAX_SHOWN = 2 * MAX_FINDINGS
#: Longer texts are cut; what a writer can put into one has 16 MiB.
_LONGEST = 1000
_MOST_RANGES = 200
# Letters and symbols to Python, and nothing at all to the eye.
_BLANK = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")

#: What each code means (docs/verification.md section 11).
MEANING = {
    "bad-commit": "a commit is not in its form, or says something else than its event",
    "bad-epoch": "epoch is below 1, or falls",
    "bad-file": "a side file is not what the event says, or their number differs",
    "bad-fork": "a start, branch or fork does not stand or come from where it says",
    "bad-hash": "a commit names another event hash than its event has",
    "bad-json": "the bytes are not JSON, or break a rule that all JSON here keeps",
    "bad-member": "a member is missing, unknown, too big or breaks its rule",
    "bad-object": "an object cannot be read, or its content does not have its id",
    "bad-seal": "a seal or proof does not agree with the events",
    "bad-seq": "seq is out of range, or not one more than the event before",
    "bad-session": "session changes without a fork",
    "bad-signature": "a signature is wrong, of another namespace or key, or missing",
    "bad-tree": "a tree is malformed, or a commit is not the one that the events derive",
    "bad-version": "the version is not 1",
    "broken-link": "prev is not the hash of the event before",
    "equivocation": "two lines of a session go apart and neither says so",
    "missing-object": "an object that must be there is not",
    "not-canonical": "JSON, but not in canonical form",
    "rollback": "another event stands where the expected head was",
    "truncated": "the line ends before the expected head, or in the middle of an event",
    "unknown-signer": "a right signature of a key that the allowed signers do not accept",
    "wrong-ref": "the ref is not one of this line, or holds no commit id",
}

#: By exit status: class, heading, explanation.
_VERDICTS = {
    0: ("ok", "Intact", "Nothing was found that was changed, lost or slipped in, as far as this page says."),
    1: ("broken", "Broken", "Something was changed, lost or slipped in. Each finding is below, in its place."),
    2: ("broken", "Not checked", "The command was used wrongly, so a part was not checked."),
    3: ("incomplete", "Incomplete", "Nothing wrong was found, but a part of the check could not be done: see below."),
    4: ("broken", "Not readable", "Something that was to be checked is not there or cannot be read."),
}
_WORDS = {0: "intact", 1: "broken", 3: "incomplete"}
_NEVER = (
    "whether everything was recorded, and whether it happened so: a writer who lies makes a good journal of it",
    "when: times are what the writer's clock said",
    "what withheld payloads say: only their hashes are here",
)


class Seen(NamedTuple):
    """An event near a finding, as it can be read now; ``fault`` says why it cannot."""

    seq: int
    ts: str = ""
    type: str = ""
    actor: str = ""
    hash: str = ""
    fault: str = ""


class Context(NamedTuple):
    """What a page says beside the reports themselves."""

    #: The repository or file, and when it was checked, as the caller says.
    where: str
    when: str
    program: str
    exit_status: int
    #: What the check was given, as (label, value): files of signers, pins, names.
    given: Sequence[tuple[str, str]] = ()
    #: What could not be read at all, and why.
    unreadable: Sequence[str] = ()
    #: Events near findings, by name of the report and seq.
    events: Mapping[tuple[str, int], Seen] = {}


def page(reports: Sequence[Report], context: Context) -> str:
    """The page, the same for the same input."""
    kind, title, explanation = _VERDICTS[context.exit_status]
    # What is wrong comes first.
    reports = sorted(reports, key=lambda report: (1, 3, 0).index(report.exit_status))
    parts = [
        f'<header class="{kind}"><h1>{title}</h1><p>{explanation}</p>{_totals(reports, context)}</header>',
        _section("What was checked", _facts(_checked(context))),
        _unreadable(context),
        _section("What was not checked", _unchecked(reports)),
        _section("Who signed", _signers(reports)),
        _section("Branches", _overview(reports)),
        *_branches(reports, context),
    ]
    return _PAGE.format(title=escape(title), style=_STYLE, body="\n".join(filter(None, parts)))


# --- text ----------------------------------------------------------------------------------------


def show(text: str) -> str:
    """Text of anybody as HTML: escaped, isolated, with what would not be seen spelled out."""
    cut = text[:_LONGEST] if text else "–"
    shown = "".join(map(_char, cut)) if not cut.isascii() or not cut.isprintable() else escape(cut)
    more = f"<i> … ({len(text):,} characters)</i>" if len(text) > _LONGEST else ""
    return f"<bdi>{shown}</bdi>{more}"


def _char(char: str) -> str:
    if char.isprintable() and char not in _BLANK:
        return escape(char)
    return f'<span class="u">U+{ord(char):04X}</span>'


def _code(text: str) -> str:
    return f"<code>{show(text)}</code>"


def _section(title: str, content: str) -> str:
    return f"<section><h2>{title}</h2>\n{content}\n</section>" if content else ""


def _facts(rows: Iterable[tuple[str, str]]) -> str:
    """Labels, which are ours, and values, which are HTML."""
    return "<dl>" + "".join(f"<dt>{label}</dt><dd>{value}</dd>" for label, value in rows if value) + "</dl>"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]], kind: str = "", here: int | None = None) -> str:
    """A table of cells that are HTML; the row number ``here`` stands out."""
    titles = "".join(f"<th>{one}</th>" for one in head)
    out = [f'<div class="wide"><table class="{kind}"><thead><tr>{titles}</tr></thead>']
    for number, cells in enumerate(rows):
        mark = ' class="here"' if number == here else ""
        out.append(f"<tr{mark}>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>")
    return "".join(out) + "</table></div>"


# --- the run as a whole --------------------------------------------------------------------------


def _totals(reports: Sequence[Report], context: Context) -> str:
    events = sum(report.head_seq for report in reports)
    found = sum(len(report.findings) for report in reports)
    broken = sum(1 for report in reports if report.findings)
    facts = [count(len(reports), "branch", "branches"), count(events, "event")]
    facts += [f"{count(found, 'finding')} in {count(broken, 'branch', 'branches')}"] if found else ["no findings"]
    return f"<p>{', '.join(facts)}. Exit status {context.exit_status}.</p>"


def _checked(context: Context) -> Iterator[tuple[str, str]]:
    yield "repository or file", _code(context.where)
    yield "checked", show(context.when)
    yield "by", show(context.program)
    for label, value in context.given:
        yield escape(label), _code(value)


def _unreadable(context: Context) -> str:
    items = "".join(f"<li>{show(one)}</li>" for one in context.unreadable)
    return _section("What could not be read", f"<ul>{items}</ul>" if items else "")


def _unchecked(reports: Sequence[Report]) -> str:
    """What the reports leave open, once for all branches; where it differs, each branch has its own words below."""
    topics: dict[str, dict[str, int]] = {}
    for report in reports:
        for note in report.unchecked:
            notes = topics.setdefault(note.partition(":")[0], {})
            notes[note] = notes.get(note, 0) + 1
    items = []
    for topic, notes in topics.items():
        uses = sum(notes.values())
        where = "" if uses == len(reports) else f' <span class="dim">({uses:,} of {len(reports):,} branches)</span>'
        items.append(f"<li>{show(topic if len(notes) > 1 else next(iter(notes)))}{where}</li>")
    never = "".join(f"<li>{one}</li>" for one in _NEVER)
    return f"<ul>{''.join(items)}</ul><p>What no verification of a journal can show:</p><ul>{never}</ul>"


def _signers(reports: Sequence[Report]) -> str:
    rows = [*_keys("events", ((one.name, one.signers) for one in reports))]
    rows += _keys("as a witness", ((one.name, one.witnesses) for one in reports))
    if not rows:
        return "<p>Nobody: no right signature was found.</p>"
    head = ("key", "known as", "signed", "signatures", "branches")
    return _table(head, rows)


def _keys(what: str, found: Iterable[tuple[str, Mapping[str, Signer]]]) -> Iterator[Sequence[str]]:
    keys: dict[str, list[tuple[str, Signer]]] = {}
    for name, signers in found:
        for key, signer in signers.items():
            keys.setdefault(key, []).append((name, signer))
    for key, uses in sorted(keys.items()):
        principals = sorted({one.principals for _, one in uses if one.principals})
        known = ", ".join(map(show, principals)) or "<em>nobody who is accepted here</em>"
        total = sum(one.signatures for _, one in uses)
        yield _code(key), known, what, f"{total:,}", f"{len(uses):,}"


# --- branches ------------------------------------------------------------------------------------


def _overview(reports: Sequence[Report]) -> str:
    head = ("branch", "verdict", "events", "findings", "signed up to", "pinned up to")
    return _table(head, map(_overview_row, reports, range(len(reports))), "overview")


def _overview_row(report: Report, number: int) -> Sequence[str]:
    word = _WORDS[report.exit_status]
    return (
        f'<a href="#b{number}">{show(report.name)}</a>',
        f'<b class="{word}">{word}</b>',
        f"{report.head_seq:,}",
        f"{len(report.findings):,}",
        f"{report.signed_to:,}" if report.signed_to else "–",
        f"{report.pinned:,}" if report.pinned else "–",
    )


def _branches(reports: Sequence[Report], context: Context) -> Iterator[str]:
    left = MAX_SHOWN
    for number, report in enumerate(reports):
        word = _WORDS[report.exit_status]
        title = f'<h2 id="b{number}">{show(report.name)} <b class="{word}">{word}</b></h2>'
        shown = report.findings[:left]
        left -= len(shown)
        found = "".join(_finding(report, one, context) for one in shown)
        if len(shown) < len(report.findings):
            found += f"<p>And {len(report.findings) - len(shown):,} more findings: <code>gj verify --json</code>.</p>"
        yield f"<section>{title}{_facts(_branch_facts(report))}{found}</section>"


def _branch_facts(report: Report) -> Iterator[tuple[str, str]]:
    yield "head", f"event {report.head_seq:,} {_code(report.head_hash)}" if report.head_seq else "none"
    yield "commit", _code(report.commit) if report.commit else ""
    yield "not yet in git", count(report.in_tail, "event") if report.in_tail else ""
    yield "pinned", f"to event {report.pinned:,}" if report.pinned else "no"
    yield "signed", _signed(report)
    yield "cosigned", ", ".join(show(one.principals or "") for one in report.witnesses.values())
    yield "seals", f"{report.seals:,}" if report.seals else ""
    yield "side files", f"{report.side_files:,}" if report.side_files else ""
    yield "withheld", _withheld(report)
    yield "not checked", "<br>".join(map(show, report.unchecked))


def _signed(report: Report) -> str:
    if not report.signatures:
        return "no: no right signature was found"
    if not report.signed_to:
        return f"{count(report.signatures, 'signature')}, none of them of a signer who is accepted here"
    known = sorted({one.principals for one in report.signers.values() if one.principals})
    return f"to event {report.signed_to:,} of {report.head_seq:,} by {', '.join(map(show, known))}"


def _withheld(report: Report) -> str:
    spans = ranges(report.withheld)
    shown = ", ".join(str(first) if first == last else f"{first}–{last}" for first, last in spans[:_MOST_RANGES])
    more = f" and {len(spans) - _MOST_RANGES:,} more ranges" if len(spans) > _MOST_RANGES else ""
    return f"{count(len(report.withheld), 'event')}: {shown}{more}" if spans else ""


def _finding(report: Report, finding: Finding, context: Context) -> str:
    place = f" at {show(report.name)}@{finding.seq}" if finding.seq is not None else " of no single event"
    meaning = escape(MEANING.get(finding.code, ""))
    facts = [("found", show(finding.text)), ("id", _code(finding.id) if finding.id else "")]
    title = f"<h3><code>{escape(finding.code)}</code>{place}</h3><p>{meaning}</p>"
    return f"<article>{title}{_facts(facts)}{_surroundings(report, finding, context)}</article>"


def _surroundings(report: Report, finding: Finding, context: Context) -> str:
    if finding.seq is None:
        return ""
    around = (context.events.get((report.name, seq)) for seq in (finding.seq - 1, finding.seq, finding.seq + 1))
    near = [one for one in around if one]
    here = next((number for number, one in enumerate(near) if one.seq == finding.seq), None)
    return _table(("seq", "time", "type", "actor", "event hash"), map(_event, near), "events", here) if near else ""


def _event(event: Seen) -> Sequence[str]:
    fields = (event.ts, event.type, event.actor)
    last = f"<em>cannot be read: {show(event.fault)}</em>" if event.fault else _code(event.hash)
    return str(event.seq), *map(show, fields), last


# --- the page itself -----------------------------------------------------------------------------

_STYLE = """
:root { color-scheme: light dark; --ink: #1b1f24; --paper: #fff; --dim: #59636e; --line: #d1d9e0; --soft: #f6f8fa;
  --ok: #1a7f37; --broken: #b3261e; --incomplete: #8a5a00; --here: #fff4d6; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e9ed; --paper: #0f1318; --dim: #9aa5b1; --line: #353d47;
  --soft: #181e25; --ok: #4cc26a; --broken: #ff7b72; --incomplete: #e0a83a; --here: #3a2f12; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 2rem 1.25rem 4rem; max-width: 64rem; background: var(--paper); color: var(--ink);
  font: 1rem/1.5 system-ui, sans-serif; overflow-wrap: anywhere; }
header { border: 1px solid; border-left-width: .5rem; border-radius: .375rem; padding: 1rem 1.25rem; }
header p { margin: .25rem 0; color: var(--ink); }
header.ok, b.intact { color: var(--ok); }
header.broken, b.broken, article h3 > code { color: var(--broken); }
header.incomplete, b.incomplete { color: var(--incomplete); }
h1 { margin: 0; font-size: 1.75rem; }
h2 { margin: 2.5rem 0 .75rem; padding-bottom: .25rem; border-bottom: 1px solid var(--line); font-size: 1.25rem; }
h3 { margin: 0; font-size: 1rem; }
h2 b, h3 code { font-size: 1rem; }
article { margin: 1rem 0; padding: .75rem 1rem; border: 1px solid var(--line); border-radius: .375rem; }
article > p { margin: .125rem 0 .5rem; color: var(--dim); }
dl { display: grid; grid-template-columns: minmax(7rem, max-content) 1fr; gap: .25rem 1rem; margin: .5rem 0; }
dt { color: var(--dim); }
dd { margin: 0; min-width: 0; }
.wide { overflow-x: auto; }
table { width: 100%; min-width: 36rem; border-collapse: collapse; font-size: .9375rem; }
th, td { padding: .3rem .6rem; border-bottom: 1px solid var(--line); text-align: left; vertical-align: top; }
th { color: var(--dim); font-weight: 600; white-space: nowrap; }
td { font-variant-numeric: tabular-nums; }
.events { min-width: 46rem; margin-top: .5rem; background: var(--soft); font-size: .875rem; table-layout: fixed; }
.events th:nth-child(1) { width: 5.5rem; }
.events th:nth-child(2) { width: 14rem; }
.events th:nth-child(3) { width: 8.5rem; }
.events th:nth-child(4) { width: 7rem; }
.here { background: var(--here); font-weight: 600; }
.dim { color: var(--dim); }
code { font: .875em ui-monospace, monospace; }
bdi { white-space: pre-wrap; }
a { color: inherit; }
.u { border: 1px solid var(--broken); border-radius: .2rem; padding: 0 .15rem; color: var(--broken);
  font: .75em ui-monospace, monospace; white-space: nowrap; }
footer { margin-top: 3rem; color: var(--dim); font-size: .875rem; }
@media print { :root { --ink: #000; --paper: #fff; --dim: #444; --line: #bbb; --soft: #f4f4f4; --ok: #1a7f37;
  --broken: #b3261e; --incomplete: #8a5a00; --here: #eee; color-scheme: light; font-size: 9pt; }
  body { max-width: none; padding: 0; } table, .events { min-width: 0; } .wide { overflow: visible; }
  article, tr, header { break-inside: avoid; } h2, h3 { break-after: avoid; } .here { print-color-adjust: exact; } }
"""

_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<title>{title}: verification of a journal</title>
<style>{style}</style>
</head>
<body>
{body}
<footer>This page says what gj verify has found, and is not signed itself. Where it counts, run the check again: any of
the verifiers says the same of the same bytes.</footer>
</body>
</html>
"""
