"""A branch of a session as one page of HTML that needs nothing but itself.

Floor 5. The page is written as the events are read, so its length costs no memory. Nothing on it is loaded from
anywhere, its one script and its style are named by their hashes in a policy that allows nothing else, and what events
say is text (`gitjournal.page_markup`).
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from hashlib import sha256
from html import escape
from importlib import resources
from typing import TYPE_CHECKING, Any, BinaryIO

from gitjournal.page_head import aside, header, minute, spent, title_of
from gitjournal.page_markup import attribute, inline
from gitjournal.page_parts import Parts, fold, meta, note, raw_data
from gitjournal.page_plan import WHOLE, Part, Plan, Source, headed, is_edge, part_of, plan
from gitjournal.render import count, gist, origin_text

if TYPE_CHECKING:
    from gitjournal.event import Event
    from gitjournal.lineage import Line
    from gitjournal.prices import Prices

#: Records that say nothing to people are shown folded, so many together.
_TOGETHER = 200
#: Events that are a line of their own, and what that begins with.
_NOTICES = {
    "session.start": "Session begins",
    "session.branch": "Branch begins",
    "session.fork": "Fork begins",
    "session.seal": "Seal",
    "session.erasure": "Erased",
    "session.update": "Changed",
    "session.interrupt": "Interrupted",
    "session.terminate": "Terminated",
    "turn.end": "Turn ended",
    "tool.confirmation": "Confirmation",
    "error": "Error",
}
_SPOKEN = frozenset({"message", "model.response", "tool.call", "tool.result"})


def write(source: Source, out: BinaryIO, prices: Prices | None = None) -> int:
    """Write the page of a branch; the number of its events. The same events and prices give the same bytes.

    Raises what reading the events raises.
    """
    page = _Page(source, plan(source, prices))
    for piece in page.pieces():
        # What has no bytes in UTF-8 was spelled out where it came from.
        out.write(piece.encode("utf-8", "xmlcharrefreplace"))
    return page.written


class _Page:
    def __init__(self, source: Source, found: Plan) -> None:
        self._source = source
        self._plan = found
        self._parts = Parts(source, found)
        self.written = 0
        # Rows of records that wait for more of them.
        self._minor: list[str] = []
        self._kinds: dict[str, int] = {}
        self._turn = 0
        self._speaker = ""

    def pieces(self) -> Iterator[str]:
        """The page, piece by piece."""
        title = title_of(self._source, self._plan)
        yield _HEAD.format(policy=_policy(), title=attribute(title), style=_style(), script=_script())
        yield aside(self._plan)
        yield f'<div id="page">{header(self._source, self._plan)}<main id="transcript" tabindex="-1">'
        yield '<section class="turn" id="t0">'
        for event, data, begins in headed(self._source.events()):
            if begins:
                yield from self._rows()
                yield self._next_turn()
            yield from self._event(event, data)
            self.written += 1
        yield from self._rows()
        yield f"</section></main>{_FOOT}"

    # --- the transcript --------------------------------------------------------------------------

    def _event(self, event: Event, data: Mapping[str, Any] | None) -> Iterator[str]:
        made = self._shown(event, data, data or {})
        if made is None:
            self._add_row(event, data)
            if len(self._minor) >= _TOGETHER:
                yield from self._rows()
        elif made:
            yield from self._rows()
            yield made
        if event.seq in self._plan.forks:
            yield from self._rows()
            yield _parting(event.seq, self._plan.forks[event.seq])

    def _shown(self, event: Event, data: Mapping[str, Any] | None, known: Mapping[str, Any]) -> str | None:
        """An event in its place: None for a record among others, empty when it is shown with a call."""
        kind = event.type
        if event.withheld:
            text = note(f"{kind}: the payload is withheld, only its hash is here.")
            return _article("withheld", event, text)
        if kind in _SPOKEN or kind == "tool.confirmation":
            rest = self._plan.rest(event, known)
            if rest is None:
                return ""
            if kind in _SPOKEN:
                return self._spoken(event, known, rest)
        if kind == "context.compaction":
            return self._compaction(event, known)
        if is_edge(event, data):
            return _article("edge", event, "")
        if kind == "turn.end" and known.get("outcome") == "completed":
            return None
        return self._notice(event, data) if kind in _NOTICES else None

    def _spoken(self, event: Event, data: Mapping[str, Any], rest: list[tuple[int, Part]]) -> str | None:
        if event.type == "tool.call":
            return _article("tools" + _side(data), event, self._parts.call(event, data, (event.seq, WHOLE)))
        if event.type == "tool.result" and "parts" not in data:
            return _article("tools" + _side(data), event, self._parts.lone_result(event, data))
        if not rest:
            # A response that only brings counters.
            return None
        body = self._parts.all(event, rest)
        if event.type == "tool.result" or all(part["type"].startswith("tool_call") for _, part in rest):
            return _article("tools" + _side(data), event, body)
        kind = "assistant" if event.type == "model.response" else _role(data)
        return _article(kind + _side(data), event, self._label(event, data, kind) + body)

    def _label(self, event: Event, data: Mapping[str, Any], kind: str) -> str:
        """Who speaks, where that is not who spoke last."""
        model = data.get("response.model")
        name = model if isinstance(model, str) and model else kind
        if event.type == "message" and event.actor != kind:
            name = f"{kind}, by {event.actor}"
        if _side(data):
            name = f"{name}, sub-agent"
        if name == self._speaker and kind == "assistant":
            return ""
        self._speaker = name
        return f'<p class="who">{inline(name)}</p>'

    def _notice(self, event: Event, data: Mapping[str, Any] | None) -> str:
        said = origin_text((data or {}).get("from")) if event.type.endswith(("branch", "fork")) else gist(event)
        said = f"from {said}" if event.type.endswith(("branch", "fork")) else said
        if event.type == "session.seal":
            said = self._seal_text(event, said)
        summary = f'<b>{_NOTICES[event.type]}</b> <span class="gist">{inline(said)}</span>'
        kind = "error" if event.type == "error" else "notice"
        return _article(kind, event, fold("raw", summary, raw_data(event, data)))

    def _seal_text(self, event: Event, said: str) -> str:
        for one in self._plan.seals:
            if one.seq == event.seq:
                return f"on events 1 to {one.size}, {'signed' if one.keys else 'not signed'}"
        return f"not in form: {said}"

    def _compaction(self, event: Event, data: Mapping[str, Any]) -> str:
        note_of = next((one for one in self._plan.state.compactions if one["seq"] == event.seq), None)
        if note_of is None:
            said = "Its range cannot be read, so nothing was taken from what the model saw."
        else:
            first, last = max(note_of["from_seq"], 1), min(note_of["to_seq"], event.seq - 1)
            kept = (
                f", but the {count(note_of['keep_last'], 'newest entry', 'newest entries')}"
                if note_of["keep_last"]
                else ""
            )
            place = f'<a href="#e{first}">{first}</a> to <a href="#e{last}">{last}</a>' if first <= last else "none"
            said = f"From here on the model no longer saw what events {place} say{kept}."
        summary = data.get("summary")
        parts = summary if isinstance(summary, list) else [{"type": "text", "content": summary}] if summary else []
        text = self._parts.all(event, [(n, part_of(one)) for n, one in enumerate(parts)])
        seen = fold("think", "<b>The summary it saw instead</b>", text, is_open=True) if text else ""
        self._speaker = ""
        return _article("compaction", event, f'<p class="who">Context compacted</p><p class="said">{said}</p>{seen}')

    def _next_turn(self) -> str:
        self._turn += 1
        self._speaker = ""
        turn = self._plan.turns[self._turn - 1]
        facts = " · ".join(
            filter(None, (f'<time datetime="{escape(turn.ts)}">{minute(turn.ts)}</time>', spent(self._plan, turn)))
        )
        head = f'<h2><a href="#t{self._turn}">Turn {self._turn}</a></h2><p class="facts">{facts}</p>'
        return f'</section><section class="turn" id="t{self._turn}"><div class="mark">{head}</div>'

    # --- records that say little -----------------------------------------------------------------

    def _add_row(self, event: Event, data: Mapping[str, Any] | None) -> None:
        self._minor.append(
            _article("minor", event, fold("raw", inline(f"{event.type}: {gist(event)}"), raw_data(event, data)))
        )
        native = (data or {}).get("type") if event.type == "native" else None
        kind = native if isinstance(native, str) else event.type
        self._kinds[kind] = self._kinds.get(kind, 0) + 1

    def _rows(self) -> Iterator[str]:
        if self._minor:
            kinds = sorted(self._kinds.items(), key=lambda one: -one[1])
            named = ", ".join(f"{kind} × {number}" if number > 1 else kind for kind, number in kinds[:6])
            more = f" and {count(len(kinds) - 6, 'other kind')}" if len(kinds) > 6 else ""
            summary = f'{count(len(self._minor), "record")} <span class="gist">{inline(named + more)}</span>'
            yield fold("records", summary, "".join(self._minor))
            self._minor, self._kinds = [], {}


# --- pieces --------------------------------------------------------------------------------------


def _article(kind: str, event: Event, body: str) -> str:
    label = f"event {event.seq}, {event.type}"
    return (
        f'<article class="ev {kind}" id="e{event.seq}" aria-label="{label}">'
        f'<div class="body">{body}</div>{meta(event)}</article>\n'
    )


def _role(data: Mapping[str, Any]) -> str:
    role = data.get("role")
    return role if role in ("user", "system", "assistant", "tool") else "unknown"


def _side(data: Mapping[str, Any]) -> str:
    return " side" if data.get("sidechain") is True else ""


def _parting(seq: int, lines: list[Line]) -> str:
    names = ", ".join(f"<b>{inline(line.name.branch)}</b>" for line in lines)
    begin = "Branch" if len(lines) == 1 else "Branches"
    return f'<p class="parting">{begin} {names} {"begins" if len(lines) == 1 else "begin"} after event {seq}</p>'


# --- the page itself -----------------------------------------------------------------------------


@cache
def _style() -> str:
    return _file("page.css")


@cache
def _script() -> str:
    return _file("page.js")


def _file(name: str) -> str:
    return resources.files("gitjournal").joinpath(name).read_text(encoding="utf-8")


@cache
def _policy() -> str:
    """Nothing from anywhere, but pictures that are in the page, this very script and this very style."""

    def named(read: Callable[[], str]) -> str:
        return f"'sha256-{base64.b64encode(sha256(read().encode()).digest()).decode()}'"

    rules = ("default-src 'none'", "img-src data:", f"style-src {named(_style)}", f"script-src {named(_script)}")
    return "; ".join((*rules, "base-uri 'none'", "form-action 'none'"))


_HEAD = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<style>{style}</style>
<script>{script}</script>
</head>
<body>
<a class="skip" href="#transcript">Skip to the transcript</a>
"""

_FOOT = """<footer><p>This page shows a session and is not the session: long texts are cut, and much is left out.
<code>gj export --format jsonl</code> gives all of it, exactly, and <code>gj verify</code> checks it.</p></footer>
</div>
</body>
</html>
"""
