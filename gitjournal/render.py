"""Events and states as text for people.

Floor 5. Returns strings; printing them is the caller's. What an event says is never trusted: `printable` is
between it and the terminal, and data of any shape gives some line.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from gitjournal.errors import JournalError

if TYPE_CHECKING:
    from gitjournal.event import Event

# C0 and C1 controls, line separators, marks that turn the direction of text, and lone surrogates.
_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]")
_SPACE = re.compile(r"\s+")
# Rules such as ======== take the room of what is between them.
_RULE = re.compile(r"([-=_*#.~─═])\1{5,}")
#: A gist looks at so much of a text.
_LOOK = 600
#: Without a terminal's width to keep to, a gist has at most this many columns.
_UNBOUNDED = 200
#: A row of a log leaves out its tokens when its gist would get fewer columns than these.
_LEAST = 20
_DEEPEST = 40
_TELLING = frozenset({"command", "cmd", "file_path", "path", "pattern", "query", "url"})

_COLORS = {"red": "31", "green": "32", "yellow": "33", "blue": "34", "magenta": "35", "cyan": "36"}
_STYLES = {"bold": "1", "dim": "2"}


# --- text ----------------------------------------------------------------------------------------


def printable(text: str) -> str:
    r"""One line of text that does nothing to a terminal: ``\x1b`` and its like stand as they are written here."""
    return _UNSAFE.sub(_escape, text)


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    short = {9: "\\t", 10: "\\n", 13: "\\r"}.get(code)
    return short or (f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}")


def one_line(text: str) -> str:
    """Text with each run of white space as one space, safe to print; only its beginning when it is long."""
    return printable(_RULE.sub(r"\1\1\1", _SPACE.sub(" ", text[:_LOOK])).strip())


def columns(text: str) -> int:
    """How many columns of a terminal ``text`` takes."""
    return len(text) if text.isascii() else sum(map(_columns, text))


def _columns(char: str) -> int:
    if unicodedata.combining(char) or char in "\u200b\u200d\ufe0f":
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def clip(text: str, width: int) -> str:
    """The beginning of ``text``, at most ``width`` columns, with an ellipsis when something is left out."""
    if text.isascii():
        return text if len(text) <= width else text[: max(0, width - 1)] + "…"[:width]
    used = fits = 0
    for at, char in enumerate(text):
        used += _columns(char)
        if used <= width - 1:
            fits = at + 1
        if used > width:
            return text[:fits] + "…"[:width]
    return text


def count(number: int, noun: str, plural: str = "") -> str:
    """``1 event``, ``2,000 events``."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def short_number(number: int) -> str:
    """``950``, ``15.3k``, ``2.1M``."""
    for limit, unit in ((1_000_000, "M"), (1000, "k")):
        # From 999,950 on it is rounded to 1M.
        if number >= limit - limit // 20_000:
            return f"{number / limit:.1f}".removesuffix(".0") + unit
    return str(number)


class Paint:
    """Colours, or nothing when they are off."""

    def __init__(self, on: bool) -> None:
        self.on = on

    def __call__(self, text: str, *styles: str) -> str:
        """``text`` in the given colours and styles (``bold``, ``dim``)."""
        codes = ";".join(_COLORS.get(style) or _STYLES[style] for style in styles)
        return f"\x1b[{codes}m{text}\x1b[0m" if self.on and text and codes else text


# --- one event in one line -----------------------------------------------------------------------


def gist(event: Event) -> str:
    """What an event says, in one safe line of any length."""
    if event.withheld:
        return "[payload withheld]"
    data = read_data(event)
    if data is None:
        return "[payload cannot be read]"
    handler = _GISTS.get(event.type)
    text = handler(data) if handler else ""
    if one_line(text):
        return one_line(text)
    # What the source's own record was called, and its counters as they came, say nothing to who reads a line.
    own = {name: value for name, value in data.items() if name not in ("native", "native_usage", "after")}
    return brief(own) if own or not data else ""


def entry_gist(parts: list[Any]) -> str:
    """What an entry of a history says, in one safe line."""
    return one_line(_of_parts({"parts": parts}))


def read_data(event: Event) -> Mapping[str, Any] | None:
    """The payload, as stored when a side file is not to be had; None when it is no JSON at all."""
    for attempt in ("data", "stored_data"):
        try:
            data: Mapping[str, Any] = getattr(event, attempt)
            return data
        except JournalError:
            continue
    return None


def brief(value: object) -> str:
    """A JSON value in one safe line."""
    if isinstance(value, str):
        return one_line(value)
    try:
        return one_line(json.dumps(value, ensure_ascii=False, default=_size_of))
    except (ValueError, RecursionError):
        return "[deeply nested]"


def _size_of(value: object) -> str:
    return f"<{len(value)} bytes>" if isinstance(value, bytes) else str(value)


def _text(data: Mapping[str, Any], name: str) -> str:
    value = data.get(name)
    return value if isinstance(value, str) else ""


def _of_start(data: Mapping[str, Any]) -> str:
    agent = " ".join(filter(None, (_text(data, "agent.name"), _text(data, "agent.version"))))
    facts = (("agent", agent), ("source", _text(data, "source")), ("trust", _text(data, "trust")))
    return ", ".join(f"{name} {value}" for name, value in facts if value)


def _of_parts(data: Mapping[str, Any]) -> str:
    parts = data.get("parts")
    if isinstance(parts, str):
        return parts
    items = [part for part in parts if isinstance(part, dict)] if isinstance(parts, list) else []
    spoken = [said for part in items if part.get("type") != "reasoning" and (said := _of_part(part))]
    thought = [said for part in items if part.get("type") == "reasoning" and (said := _of_part(part))]
    return "  ".join(spoken) or "  ".join(thought)


def _of_part(part: Mapping[str, Any]) -> str:
    kind = part.get("type")
    if kind == "text":
        return _text(part, "content")[:_LOOK]
    if kind == "reasoning":
        text = _text(part, "content")[:_LOOK]
        return f"(thinking) {text}" if text.strip() else "(thinking)"
    if kind == "tool_call":
        return _of_call(part)
    if kind == "tool_call_response":
        return _of_result(part)
    what = _text(part, "mime_type") or _text(part, "modality") or str(kind)
    return f"[{what} {_text(part, 'uri') or _text(part, 'file_id')}".rstrip() + "]"


def _of_call(data: Mapping[str, Any]) -> str:
    arguments = data.get("arguments")
    if isinstance(arguments, dict):
        # Canonical order is that of the alphabet; what tells calls apart comes first.
        ordered = sorted(arguments.items(), key=lambda item: item[0] not in _TELLING)[:6]
        shown = ", ".join(f"{name}: {clip(brief(value), 80)}" for name, value in ordered)
    else:
        shown = "" if arguments is None else clip(brief(arguments), 160)
    return f"{_text(data, 'name') or '?'}({shown})"


def _of_result(data: Mapping[str, Any]) -> str:
    if "parts" in data:
        return _of_parts(data)
    text = brief(_first_text(data.get("response"), 0) or data.get("response"))
    return f"[failed] {text}" if data.get("is_error") is True else text


def _first_text(value: Any, level: int) -> str:
    """The first text in a tool's response, which may be a string, content blocks, or an object with either."""
    if isinstance(value, str):
        return value[:_LOOK]
    if level > 6:
        return ""
    if isinstance(value, list):
        return next((text for item in value[:20] if (text := _first_text(item, level + 1))), "")
    if isinstance(value, dict):
        names = ("text", "content", "output", "stdout", "result", "message", "error")
        return next((text for name in names if (text := _first_text(value.get(name), level + 1))), "")
    return ""


def _of_error(data: Mapping[str, Any]) -> str:
    return ": ".join(filter(None, (_text(data, "error.type"), _text(data, "message"))))


def _of_compaction(data: Mapping[str, Any]) -> str:
    summary = data.get("summary")
    return summary if isinstance(summary, str) else _of_parts({"parts": summary}) or "context made shorter"


def origin_text(origin: Any) -> str:
    """``main@8`` or ``s1/try-b@9``: where a branch or fork goes on from."""
    if not isinstance(origin, dict):
        return "?"
    names = [one for one in (origin.get("session"), origin.get("branch")) if isinstance(one, str)]
    return printable(f"{'/'.join(names)}@{origin.get('seq')}")


def _of_native(data: Mapping[str, Any]) -> str:
    kind = _text(data, "type")
    fields = data.get("fields")
    rest = fields if isinstance(fields, dict) else {}
    said = next((text for name in ("content", "summary", "message", "text") if (text := _text(rest, name))), "")
    detail = said or ", ".join(f"{name}: {clip(brief(value), 40)}" for name, value in list(rest.items())[:4])
    return f"{kind}: {detail}" if kind and detail else kind or detail


def _of_update(data: Mapping[str, Any]) -> str:
    said = [f"{name}: {value}" for name in ("title", "summary") if isinstance(value := data.get(name), str)]
    if isinstance(archived := data.get("archived"), bool):
        said.append("archived" if archived else "unarchived")
    labels = (("add_labels", "+"), ("remove_labels", "-"))
    said += [f"{sign}{label}" for name, sign in labels if isinstance(data.get(name), list) for label in data[name]]
    return ", ".join(said)


def _of_deletion(data: Mapping[str, Any]) -> str:
    branches = data.get("branches")
    stands = branches.items() if isinstance(branches, dict) else ()
    ends = [f"{name}@{stand['seq']}" if isinstance(stand, dict) and "seq" in stand else name for name, stand in stands]
    places = f"({', '.join(ends)})" if ends else ""
    said = " ".join(filter(None, (_text(data, "session"), places)))
    return ": ".join(filter(None, (said, _text(data, "reason"))))


def _of_confirmation(data: Mapping[str, Any]) -> str:
    verdict = "allowed" if data.get("approved") is True else "refused"
    return ": ".join(filter(None, (f"{_text(data, 'id')} {verdict}", _text(data, "reason"))))


def _of_wake(data: Mapping[str, Any]) -> str:
    said = ": ".join(filter(None, (_text(data, "reason"), _text(data, "note"))))
    return f"{_text(data, 'due')} {said}"


_GISTS: dict[str, Callable[[Mapping[str, Any]], str]] = {
    "session.start": _of_start,
    "session.update": _of_update,
    "session.terminate": lambda data: _text(data, "reason"),
    "session.resource": lambda data: f"{_text(data, 'action')} {_text(data, 'uri') or _text(data, 'id')}",
    "session.wake": _of_wake,
    "session.wake_done": lambda data: f"events {brief(data.get('seqs'))}",
    "session.interrupt": lambda data: _text(data, "reason"),
    "turn.end": lambda data: ": ".join(filter(None, (_text(data, "outcome"), _text(data, "message")))),
    "message": _of_parts,
    "model.response": _of_parts,
    "tool.call": _of_call,
    "tool.confirmation": _of_confirmation,
    "tool.result": _of_result,
    "error": _of_error,
    "context.compaction": _of_compaction,
    "session.branch": lambda data: f"{_text(data, 'branch')} from {origin_text(data.get('from'))}",
    "session.fork": lambda data: f"from {origin_text(data.get('from'))}",
    "session.delete": _of_deletion,
    "session.erasure": lambda data: f"events {brief(data.get('seqs'))}: {_text(data, 'reason')}",
    "session.seal": lambda data: f"{data.get('size')} events, root {_text(data, 'root')}",
    "native": _of_native,
}


def tokens(event: Event) -> str:
    """``15.3k→41``, input to output, or nothing when the event has no usage."""
    usage = None if event.withheld else (read_data(event) or {}).get("usage")
    if not isinstance(usage, dict):
        return ""
    counts = [usage.get(f"gen_ai.usage.{way}_tokens") for way in ("input", "output")]
    shown = [short_number(n) if type(n) is int and n >= 0 else "?" for n in counts]
    return "" if shown == ["?", "?"] else "→".join(shown)


class Layout(NamedTuple):
    """How the rows of a log are laid out; ``width`` is the terminal's, None when there is none."""

    paint: Paint
    seq_width: int = 4
    width: int | None = None

    def row(self, event: Event, lanes: str = "", label: str = "") -> str:
        """One event as one line; ``lanes`` stands before it, ``label`` before its gist."""
        paint = self.paint
        seq = f"{event.seq:>{self.seq_width}}"
        stamp = event.ts[:19].replace("T", " ")
        if self.width is not None and self.width < 120:
            stamp = stamp[5:]
        actor = f"{clip(event.actor, 16):<9}"
        used = f"  ({spent})" if (spent := tokens(event)) else ""
        room = _UNBOUNDED
        if self.width is not None:
            head = columns(f"{lanes}{seq} 1234567 {stamp} {actor} {event.type:<14}  {label}") + bool(label)
            used = used if self.width - head - len(used) >= _LEAST else ""
            room = max(_LEAST // 2, self.width - head - len(used))
        fields = (
            paint(seq, "bold"),
            paint(event.hash[:7], "yellow"),
            paint(stamp, "dim"),
            paint(actor, *_actor_style(event.actor)),
            paint(f"{event.type:<14}", *_type_style(event.type)),
        )
        said = paint(f"{label} ", "bold", "green") if label else ""
        said += paint(clip(gist(event), room), *(("red",) if event.type == "error" else ()))
        return f"{lanes}{' '.join(fields)}  {said}{paint(used, 'dim')}".rstrip()


def _actor_style(actor: str) -> tuple[str, ...]:
    kind = actor.split(":")[0]
    return {"user": ("green",), "assistant": ("cyan",), "tool": ("magenta",)}.get(kind, ())


def _type_style(kind: str) -> tuple[str, ...]:
    if kind == "error":
        return ("red",)
    return ("blue",) if kind.startswith("session.") or kind == "context.compaction" else ("dim",)


# --- values in full ------------------------------------------------------------------------------


def outline(value: Any, indent: str = "", level: int = 0) -> Iterator[str]:
    """A JSON value as indented, safe lines; text of several lines as a block."""
    if level > _DEEPEST:
        yield f"{indent}{brief(value)}"
    elif isinstance(value, Mapping) and value:
        for name, item in value.items():
            yield from _member(f"{printable(str(name))}:", item, indent, level)
    elif isinstance(value, list | tuple) and value:
        for item in value:
            yield from _member("-", item, indent, level)
    else:
        yield from text_block(_scalar(value), indent)


def _member(label: str, item: Any, indent: str, level: int) -> Iterator[str]:
    nested = (isinstance(item, Mapping | list | tuple) and item) or (isinstance(item, str) and "\n" in item)
    if not nested:
        yield f"{indent}{label} {printable(_scalar(item))}"
        return
    lines = outline(item, indent + "  ", level + 1)
    if label == "-":
        # The first member of an object stands beside the dash, as in YAML.
        yield f"{indent}- {next(lines)[len(indent) + 2 :]}"
    else:
        yield f"{indent}{label}"
    yield from lines


def _scalar(value: Any) -> str:
    if isinstance(value, str):
        return value or '""'
    if isinstance(value, bytes):
        return f"<{len(value)} bytes>"
    return brief(value)


def text_block(text: str, indent: str = "") -> Iterator[str]:
    """Text of several lines as safe lines; a tab becomes spaces."""
    for line in text.split("\n"):
        yield f"{indent}{printable(line.removesuffix(chr(13)).expandtabs())}".rstrip()
