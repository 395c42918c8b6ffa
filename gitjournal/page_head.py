"""What stands above and beside a transcript: title, totals, branches, what seals say, the list of turns.

Floor 5, pure.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from html import escape
from typing import TYPE_CHECKING

from gitjournal.cost import amount, gaps
from gitjournal.page_markup import inline, safe
from gitjournal.page_parts import digest, duration, seconds
from gitjournal.page_plan import Plan, Seal, Source, Turn
from gitjournal.refs import Name
from gitjournal.render import count, short_number

if TYPE_CHECKING:
    from gitjournal.lineage import Line


def title_of(source: Source, found: Plan) -> str:
    """The title of the session; else what the user said first; else the name of the branch."""
    first = found.turns[0].gist if found.turns else ""
    return found.state.title or first or str(source.name)


def header(source: Source, found: Plan) -> str:
    """Title, facts, totals, branches, and what seals say."""
    labels = "".join(f' <span class="label">{inline(one)}</span>' for one in found.state.labels)
    return (
        f'<header><p class="eyebrow">Session {inline(str(source.name))}</p>'
        f'<h1 dir="auto">{safe(title_of(source, found))}</h1>'
        f'<p class="facts">{" · ".join(_facts(found))}{labels}</p>{_summary(found)}{_totals(found)}'
        f"{_branches(source, found)}{_integrity(source, found)}</header>"
    )


def _facts(found: Plan) -> Iterator[str]:
    state = found.state
    if state.started:
        yield f'<time datetime="{escape(state.started)}">{minute(state.started)} UTC</time>'
    agent = (state.start.get("agent.name"), state.start.get("agent.version"))
    named = " ".join(one for one in agent if isinstance(one, str))
    parent = str((state.parent or {}).get("session") or "")
    known = [("agent", named), ("from", state.source), ("trust", state.trust), ("project", state.project)]
    known.append(("begun by", parent))
    yield from (f"{label} {inline(value)}" for label, value in known if value)
    if state.archived:
        yield "archived"
    if state.terminated:
        yield "terminated"


def _summary(found: Plan) -> str:
    text = found.state.summary
    return f'<p class="summary" dir="auto">{safe(text)}</p>' if text else ""


def _branches(source: Source, found: Plan) -> str:
    known = {line.name for line in source.lines}
    if len(known) < 2:
        return ""
    below: dict[Name | None, list[Line]] = {}
    for line in sorted(source.lines, key=lambda line: line.begin.after):
        parent = line.begin.parent
        below.setdefault(parent if parent in known and parent != line.name else None, []).append(line)
    seen: set[Name] = set()
    shown = partial(_branch, source, found)
    # A journal may say that two branches begin on each other: then no root leads to them.
    tree = "".join(_tree(below, parent, seen, shown) for parent in (None, *sorted(known)))
    return f'<nav class="branches" aria-label="Branches"><h2>Branches</h2>{tree}</nav>'


def _tree(
    below: Mapping[Name | None, list[Line]], parent: Name | None, seen: set[Name], shown: Callable[[Line], str]
) -> str:
    items = []
    for line in below.get(parent, ()):
        if line.name not in seen:
            seen.add(line.name)
            items.append(f"<li>{shown(line)}{_tree(below, line.name, seen, shown)}</li>")
    return f"<ul>{''.join(items)}</ul>" if items else ""


def _branch(source: Source, found: Plan, line: Line) -> str:
    here = line.name == source.name
    name = f"<b>{inline(line.name.branch)}</b>"
    after = line.begin.after
    place = f'<a href="#e{after}">event {after}</a>' if line in found.forks.get(after, ()) else f"event {after}"
    parts = f", parts after {place}" if after else ""
    own = f"{count(line.head - after, 'event')} of its own" if after else count(line.head, "event")
    mark = ' <em class="here">this page</em>' if here else ""
    return f'<span class="branch{" current" if here else ""}">{name} {own}{parts}{mark}</span>'


def _integrity(source: Source, found: Plan) -> str:
    state, seals = found.state, found.seals
    if not state.last_hash:
        return ""
    rows = [("Head", f"event {state.last_seq} {digest(state.last_hash)}")]
    rows.append(("Sealed", _sealed(seals[-1], state.last_seq) if seals else "no"))
    if state.withheld:
        rows.append(("Withheld", f"{count(state.withheld, 'payload')}: only hashes are here"))
    command = f"<code>gj verify {inline(shlex.quote(str(source.name)))}</code>"
    rows.append(("Verified", f"not by this page, which repeats what the journal says. Run {command}"))
    cells = "".join(f"<dt>{label}</dt><dd>{value}</dd>" for label, value in rows)
    return f'<section class="integrity" aria-label="Integrity"><dl>{cells}</dl></section>'


def _sealed(seal: Seal, last: int) -> str:
    keys = ", ".join(f"<code>{inline(key)}</code>" for key in seal.keys)
    who = f"signed with {keys}" if keys else "not signed"
    rest = f"; {count(last - seal.seq, 'event')} after that" if last > seal.seq else ""
    return f'events 1 to {seal.size} by <a href="#e{seal.seq}">event {seal.seq}</a>, {who}{rest}'


def minute(ts: str) -> str:
    """A time of an event for people."""
    return escape(f"{ts[:10]} {ts[11:16]}")


def spent(found: Plan, turn: Turn) -> str:
    """Tokens and what they cost, tool calls and errors of a turn."""
    used = turn.tokens
    tokens = f"{short_number(used[0])} tokens in, {short_number(used[1])} out" if any(used) else ""
    calls = count(turn.calls, "tool call") if turn.calls else ""
    cost = safe(found.cost(turn.used))
    return " · ".join(filter(None, (tokens, cost, *gaps(turn.used, inline), calls, _errors(turn))))


def _errors(turn: Turn) -> str:
    return f'<em class="bad">{count(turn.errors, "error")}</em>' if turn.errors else ""


def _totals(found: Plan) -> str:
    state = found.state
    use = {name.removeprefix("gen_ai.usage.").removesuffix("_tokens"): number for name, number in state.usage.items()}
    cached = (
        f"{100 * use['cache_read.input'] // use['input']} % from cache"
        if use["input"] and use["cache_read.input"]
        else ""
    )
    span = duration(seconds(state.started, state.updated)) if state.started and state.updated else ""
    tiles = [
        (f"{len(found.turns):,}", "turn" if len(found.turns) == 1 else "turns", ""),
        (f"{state.last_seq:,}", "event" if state.last_seq == 1 else "events", span),
        (f"{state.tool_calls:,}", "tool call" if state.tool_calls == 1 else "tool calls", _trouble(found)),
        (short_number(use["input"]), "tokens in", cached),
        (short_number(use["output"]), "tokens out", _reasoned(use["reasoning.output"])),
    ]
    if found.currency and (cost := amount(found.used)):
        tiles.append((safe(cost), f"cost in {inline(found.currency)}", ""))
    cells = "".join(f"<li><b>{value}</b> {label}<small>{more}</small></li>" for value, label, more in tiles)
    missing = ", ".join(gaps(found.used, inline))
    return f'<ul class="totals">{cells}</ul>' + (f'<p class="facts">{missing}</p>' if missing else "")


def _trouble(found: Plan) -> str:
    state = found.state
    facts = [f"{len(state.open_calls)} open"] if state.open_calls else []
    facts += [count(len(state.errors), "error")] if state.errors else []
    return ", ".join(facts)


def _reasoned(number: int) -> str:
    return f"{short_number(number)} of them reasoning" if number else ""


def aside(found: Plan) -> str:
    """Search, and the list of turns."""
    items = []
    for number, turn in enumerate(found.turns, 1):
        used = "→".join(short_number(number) for number in turn.tokens if any(turn.tokens))
        calls = count(turn.calls, "call") if turn.calls else ""
        cost = safe(found.cost(turn.used))
        facts = " · ".join(filter(None, (minute(turn.ts)[11:], used, cost, calls, _errors(turn))))
        items.append(f'<li><a href="#t{number}">{inline(turn.gist) or "…"}<small>{facts}</small></a></li>')
    listed = f'<details id="toc" open><summary>Turns</summary><ol>{"".join(items)}</ol></details>'
    return f'{_ASIDE}<nav aria-label="Turns">{listed}</nav></div>' if items else f"{_ASIDE}</div>"


_ASIDE = """<div id="side">
<form id="find" role="search">
<label for="query">Search</label>
<input id="query" type="search" autocomplete="off" spellcheck="false" placeholder="Search ( / )">
<button type="button" id="before" aria-label="Match before">↑</button>
<button type="button" id="next" aria-label="Next match">↓</button>
<output id="found" aria-live="polite"></output>
</form>
<p id="tools"><button type="button" id="unfold" aria-pressed="false">Unfold all</button>
<button type="button" id="theme">Dark</button></p>
"""
