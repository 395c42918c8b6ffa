"""What an event says as HTML: message parts, tool calls with their results, pictures.

Floor 5, pure but for the events of results, which it asks the source for. Data of any shape gives some HTML.
"""

from __future__ import annotations

import base64
import binascii
import difflib
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from html import escape
from typing import TYPE_CHECKING, Any

from gitjournal.page_markup import as_json, code, inline, language_of, markdown, pre, safe, shortened
from gitjournal.page_plan import WHOLE, Part, Place, Plan, Source, part_of, parts_of
from gitjournal.render import brief, clip, count, entry_gist, read_data
from gitjournal.vocabulary import DENIED, INTERRUPTED

if TYPE_CHECKING:
    from gitjournal.event import Event

#: Pictures that a browser may open: how their files begin. SVG is a program and never one of them.
_PICTURES = {
    "image/png": b"\x89PNG\r\n\x1a\n",
    "image/jpeg": b"\xff\xd8\xff",
    "image/gif": b"GIF8",
    "image/webp": b"RIFF",
}
_LARGEST_PICTURE = 16 * 1024 * 1024
#: So much of an event that says nothing to people is shown, in characters.
_RAW = 4000
#: Arguments that tell calls apart, the best first.
_TELLING = ("command", "cmd", "pattern", "query", "file_path", "path", "url", "description", "prompt")
_SHELL = frozenset({"command", "cmd", "script"})
_GIST = 110
_RESULT = {True: "Failed result", False: "Result"}
_CLASS = {True: "failed", False: "done"}
_SHORT = 120
#: Comparing more lines than these takes too long.
_MOST_LINES = 400


# --- small things --------------------------------------------------------------------------------


def meta(event: Event) -> str:
    """Seq, time and hash of an event, as they stand beside it."""
    stamp = f'<time datetime="{escape(event.ts)}" title="{escape(event.ts)}">{escape(event.ts[11:19])}</time>'
    return f'<span class="meta"><a href="#e{event.seq}">{event.seq}</a> {stamp} {digest(event.hash)}</span>'


def digest(full: str) -> str:
    """A hash of which the beginning is shown, and the whole can be copied."""
    shown = escape(full[:7])
    return f'<button type="button" class="hash" title="{escape(full)}" aria-label="copy hash {shown}">{shown}</button>'


def fold(kind: str, summary: str, content: str, *, is_open: bool = False) -> str:
    """Content that is folded away under a summary; both are HTML."""
    mark = " open" if is_open else ""
    return f'<details class="{kind}"{mark}><summary>{summary}</summary>{content}</details>'


def raw_data(event: Event, data: Mapping[str, Any] | None) -> str:
    """The payload as it is, cut when it is long."""
    if data is None:
        return note("The payload cannot be read.")
    text, left = shortened(as_json(data), _RAW)
    return code(text, "json") + _left(left, event)


def note(text: str) -> str:
    """A remark of ours."""
    return f'<p class="note">{safe(text)}</p>'


def _left(left: int, event: Event) -> str:
    return note(f"… {left:,} more characters: gj show {event.session}@{event.seq}") if left else ""


def seconds(first: str, last: str) -> float | None:
    """Seconds between two times of events; None when the clock went back."""
    span = (datetime.fromisoformat(last) - datetime.fromisoformat(first)).total_seconds()
    return span if span >= 0 else None


def duration(span: float | None) -> str:
    """``0.8 s``, ``3 min``, ``2 h 5 min``."""
    if span is None:
        return ""
    if span < 60:
        return f"{span:.1f} s"
    hours, minutes = divmod(round(span / 60), 60)
    return f"{hours:,} h {minutes} min" if hours else f"{minutes} min"


# --- parts ---------------------------------------------------------------------------------------


class Parts:
    """Message parts of one branch as HTML."""

    def __init__(self, source: Source, plan: Plan) -> None:
        self._source = source
        self._plan = plan
        # An answer to the question may have come: then the call waits to be run.
        waiting = (call for call in plan.state.open_calls if call["requires"] == "result" or call["approved"] is None)
        self._required = {call["id"]: call["requires"] for call in waiting}

    def all(self, event: Event, parts: Sequence[tuple[int, Part]]) -> str:
        """The given parts of an event, one after the other."""
        return "".join(self.one(event, part, (event.seq, number)) for number, part in parts)

    def one(self, event: Event, part: Part, place: Place) -> str:
        """A part of a message."""
        kind = part["type"]
        if kind == "text":
            return self.prose(event, part.get("content"))
        if kind == "reasoning":
            return self._reasoning(event, part)
        if kind == "tool_call":
            return self.call(event, part, place)
        if kind == "tool_call_response":
            return self.lone_result(event, part)
        return self._other(event, part)

    def prose(self, event: Event, text: Any) -> str:
        """A text of a message, as Markdown."""
        if not isinstance(text, str):
            return code(as_json(text), "json")
        shown, left = shortened(text)
        return f'<div class="prose" dir="auto">{markdown(shown)}</div>{_left(left, event)}'

    def _reasoning(self, event: Event, part: Part) -> str:
        text = part.get("content")
        if not (isinstance(text, str) and text.strip()):
            return '<p class="note">Thinking, not recorded</p>'
        about = inline(clip(entry_gist([{"type": "text", "content": text}]), _GIST))
        return fold("think", f'<b>Thinking</b> <span class="gist">{about}</span>', self.prose(event, text))

    def _other(self, event: Event, part: Part) -> str:
        if part["type"] == "blob":
            return self._blob(event, part)
        if part["type"] in ("uri", "file"):
            address = part.get("uri") or part.get("file_id")
            what = part.get("mime_type") or part.get("modality") or part["type"]
            return f'<p class="note">{inline(str(what))}, not part of this page: {inline(str(address))}</p>'
        text, left = shortened(as_json(part.get("value") if part["type"] == "other" else part), _RAW)
        return fold("raw", inline(str(part["type"])), code(text, "json") + _left(left, event))

    def _blob(self, event: Event, part: Part) -> str:
        mime, content = str(part.get("mime_type")), part.get("content")
        try:
            raw = base64.b64decode(content, validate=True) if isinstance(content, str) else b""
        except (binascii.Error, ValueError):
            raw = b""
        label = f"{mime}, {count(len(raw), 'byte')}"
        if not _is_picture(mime, raw):
            return note(f"{label}, not shown here: gj show {event.session}@{event.seq}")
        data = base64.b64encode(raw).decode("ascii")
        picture = f'<img src="data:{mime};base64,{data}" alt="{mime} of event {event.seq}" decoding="async">'
        return f"<figure>{picture}<figcaption>{label}</figcaption></figure>"

    # --- calls and results -----------------------------------------------------------------------

    def call(self, event: Event, part: Mapping[str, Any], place: Place) -> str:
        """A tool call, folded, with its result if that has come."""
        known = self._plan.calls.get(place)
        name, arguments = part.get("name"), part.get("arguments")
        if known is None or known.result is None:
            answer, status, kind = note("No result came."), self._waiting(part.get("id")), "open"
        else:
            answer, status, kind = self._answer(event, known.result)
        beside = "".join(_beside(self._source.event(seq)) for seq in (known.events if known else ()))
        about = inline(clip(_telling(arguments), _GIST))
        named = f'<b>{inline(name if isinstance(name, str) and name else "?")}</b> <span class="gist">{about}</span>'
        body = f'<div class="args">{_arguments(arguments)}</div>{beside}{answer}'
        return fold(f"call {kind}", f'{named} <span class="status">{status}</span>', body)

    def _waiting(self, ident: Any) -> str:
        """What a call without a result waits for."""
        requires = self._required.get(ident) if isinstance(ident, str) else None
        return f"waits for {'a result' if requires == 'result' else 'confirmation'}" if requires else "no result"

    def _answer(self, event: Event, place: Place) -> tuple[str, str, str]:
        """(the result, how it went in a few words, class)."""
        result = self._source.event(place[0])
        data = read_data(result) or {}
        part = data if place[1] == WHOLE else dict(parts_of(data))[place[1]]
        # Who closed a call that a crash has left open came whenever it was: that says nothing of the tool.
        took = "" if part.get("code") in (INTERRUPTED, DENIED) else duration(seconds(event.ts, result.ts))
        failed = part.get("is_error") is True
        why = part["code"] if isinstance(part.get("code"), str) else "failed"
        how = " · ".join(filter(None, (why if failed else "", took)))
        # The event has its anchor here when nothing of it is shown in its own place.
        first = min((number for seq, number in self._placed(result, data)), default=WHOLE)
        anchor = f' id="e{result.seq}"' if self._plan.rest(result, data) is None and first == place[1] else ""
        head = f'<div class="head"><span>{_RESULT[failed]}</span> {meta(result)}</div>'
        block = f'<div class="result"{anchor}>{head}{self._response(result, part.get("response"))}</div>'
        return block, inline(how), _CLASS[failed]

    def _placed(self, result: Event, data: Mapping[str, Any]) -> Iterator[Place]:
        """The results of an event that are shown with their calls."""
        places = [(result.seq, WHOLE), *((result.seq, number) for number, _ in parts_of(data))]
        return (place for place in places if place in self._plan.results)

    def lone_result(self, event: Event, part: Mapping[str, Any]) -> str:
        """A result whose call is not here."""
        failed = part.get("is_error") is True
        ident = part.get("id")
        summary = f"<b>{_RESULT[failed]}</b> of a call that is not here"
        if isinstance(ident, str):
            summary += f" {inline(ident)}"
        return fold(f"call {_CLASS[failed]}", summary, self._response(event, part.get("response")))

    def _response(self, event: Event, value: Any) -> str:
        if isinstance(value, str):
            text, left = shortened(value)
            return (pre(text) if text.strip() else note("Nothing.")) + _left(left, event)
        if value is None:
            return note("Nothing.")
        if isinstance(value, list) and value and all(part_of(item) is item for item in value):
            return "".join(self._returned(event, item) for item in value)
        if isinstance(value, Mapping) and any(isinstance(one, str) and "\n" in one for one in value.values()):
            return _arguments(value)
        text, left = shortened(as_json(value))
        return code(text, "json") + _left(left, event)

    def _returned(self, event: Event, part: Part) -> str:
        """A part of what a tool gave back: its text is no Markdown."""
        text = part.get("content", part.get("text"))
        if part["type"] == "text" and isinstance(text, str):
            return self._response(event, text)
        return self._other(event, part)


def _beside(event: Event) -> str:
    """That a call was run, or was allowed or refused."""
    said = "Run"
    if event.type == "tool.confirmation":
        data = read_data(event) or {}
        reason = data.get("reason")
        said = f"{'Allowed' if data.get('approved') is True else 'Refused'} by {inline(event.actor)}"
        said += f": {inline(reason)}" if isinstance(reason, str) else ""
    return f'<div class="head" id="e{event.seq}"><span>{said}</span> {meta(event)}</div>'


def _is_picture(mime: str, raw: bytes) -> bool:
    if mime not in _PICTURES or len(raw) > _LARGEST_PICTURE or not raw.startswith(_PICTURES[mime]):
        return False
    return mime != "image/webp" or raw[8:12] == b"WEBP"


def _telling(arguments: Any) -> str:
    """What tells a call apart from others of the tool, in one line."""
    if isinstance(arguments, Mapping):
        found = next((text for name in _TELLING if isinstance(text := arguments.get(name), str) and text), None)
        return brief(found or arguments) if arguments else ""
    return "" if arguments is None else brief(arguments)


def _arguments(arguments: Any) -> str:
    """Arguments by their names: short ones in a line, texts as blocks, a replacement as a comparison."""
    if not isinstance(arguments, Mapping):
        return "" if arguments is None else code(shortened(as_json(arguments))[0], "json")
    old, new = arguments.get("old_string"), arguments.get("new_string")
    compared = isinstance(old, str) and isinstance(new, str) and _compared(old, new)
    hidden = ("old_string", "new_string") if compared else ()
    path = next((one for name in ("file_path", "path") if isinstance(one := arguments.get(name), str)), "")
    rows = (_row(name, value, language_of(path)) for name, value in arguments.items() if name not in hidden)
    return f"<dl>{''.join(rows)}</dl>{compared or ''}"


def _row(name: str, value: Any, language: str) -> str:
    if isinstance(value, str):
        text, left = shortened(value)
        short = len(value) <= _SHORT and "\n" not in value
        language = "bash" if name in _SHELL else language
        shown = f"<code>{safe(value)}</code>" if short else code(text, language) if language else pre(text)
        shown += note(f"… {left:,} more characters") if left else ""
    elif isinstance(value, Mapping | list) and value:
        short, shown = False, code(shortened(as_json(value))[0], "json")
    else:
        short, shown = True, f"<code>{safe(brief(value))}</code>"
    kind = "" if short else ' class="block"'
    return f"<dt>{inline(name)}</dt><dd{kind}>{shown}</dd>"


def _compared(old: str, new: str) -> str:
    """Two texts line by line, what went and what came marked; empty when they are too long for that."""
    before, after = old.splitlines(), new.splitlines()
    if max(len(before), len(after)) > _MOST_LINES or len(old) + len(new) > 2 * 20_000:
        return ""
    kinds = {"+": "ins", "-": "del", " ": ""}
    lines = list(difflib.unified_diff(before, after, lineterm=""))[2:]
    shown = "".join(f'<span class="{kinds.get(one[0], "hunk")}">{safe(one)}\n</span>' for one in lines)
    return f'<pre class="code diff">\n{shown}</pre>'
