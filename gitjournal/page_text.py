"""A branch of a session as Markdown.

Floor 5. Written as the events are read. What events say stays within its block: messages are quotations in which no
HTML can begin, everything else stands in fences longer than any in it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, BinaryIO

from markdown_it import MarkdownIt

from gitjournal.cost import gaps
from gitjournal.page_head import title_of
from gitjournal.page_markup import as_json, may_lead, shortened, spelled
from gitjournal.page_plan import WHOLE, Part, Place, Plan, Source, headed, is_edge, part_of, parts_of, plan
from gitjournal.render import count, gist, one_line, read_data, short_number

if TYPE_CHECKING:
    from gitjournal.event import Event
    from gitjournal.ledger import Used
    from gitjournal.prices import Prices

#: Longer results are cut, in characters.
_LONGEST = 20_000
_TICKS = re.compile("`+")
_PUNCTUATION = re.compile(r"([\\`*_{}\[\]<>&~|$^])")
# Where HTML, an entity, an autolink or a picture (which would be fetched) could begin.
_OPENING = re.compile(r"[<&]|!(?=\[)")
_CODE_SPAN = re.compile(r"(?<!`)(`+)(?!`)(.+?)(?<!`)\1(?!`)", re.DOTALL)
_SPOKEN = frozenset({"message", "model.response", "tool.call", "tool.result"})


def write(source: Source, out: BinaryIO, prices: Prices | None = None) -> int:
    """Write a branch as Markdown; the number of its events. The same events and prices give the same bytes.

    Raises what reading the events raises.
    """
    text = _Text(source, plan(source, prices))
    for block in text.blocks():
        out.write(f"{block}\n\n".encode("utf-8", "replace"))
    return text.written


class _Text:
    def __init__(self, source: Source, found: Plan) -> None:
        self._source = source
        self._plan = found
        self.written = 0
        self._turn = 0

    def blocks(self) -> Iterator[str]:
        """The blocks of the document, in order."""
        yield from self._top()
        for event, data, begins in headed(self._source.events()):
            if begins:
                yield from self._next_turn()
            yield from self._event(event, data or {})
            self.written += 1

    def _top(self) -> Iterator[str]:
        state = self._plan.state
        yield f"# {plain(title_of(self._source, self._plan))}"
        input_, output = (state.usage[f"gen_ai.usage.{way}_tokens"] for way in ("input", "output"))
        facts = [
            f"Branch {plain(str(self._source.name))}, {count(state.last_seq, 'event')}",
            f"{count(state.turns['user'], 'turn')}, {count(state.tool_calls, 'tool call')}",
            f"{short_number(input_)} tokens in, {short_number(output)} out{self._cost(self._plan.used)}",
            f"Begun {state.started or '?'}, last event {state.updated or '?'}, its hash `{state.last_hash or '?'}`",
        ]
        seals = self._plan.seals
        facts.append(f"Sealed up to event {seals[-1].size}, says event {seals[-1].seq}" if seals else "Not sealed")
        facts.append("To read, and not exact; nothing was verified for it: `gj verify`, `gj export --format jsonl`")
        yield "\n".join(f"- {one}" for one in facts)
        if state.summary:
            yield quoted(state.summary)

    def _cost(self, used: Used) -> str:
        return "".join(f", {one}" for one in (plain(self._plan.cost(used)), *gaps(used, plain)) if one)

    # --- events ----------------------------------------------------------------------------------

    def _next_turn(self) -> Iterator[str]:
        self._turn += 1
        turn = self._plan.turns[self._turn - 1]
        yield f"## Turn {self._turn}: {plain(turn.gist)}"
        tokens = "{} tokens in, {} out".format(*map(short_number, turn.tokens))
        yield f"*{tokens}{self._cost(turn.used)}, {count(turn.calls, 'tool call')}, {count(turn.errors, 'error')}*"

    def _event(self, event: Event, data: Mapping[str, Any]) -> Iterator[str]:
        if event.withheld:
            yield f"{_named(event.type, event)}: *the payload is withheld*"
        elif event.type in _SPOKEN or event.type == "tool.confirmation":
            yield from self._spoken(event, data)
        elif event.type == "context.compaction":
            yield _named("Context compacted", event)
            summary = data.get("summary")
            parts = summary if isinstance(summary, list) else [{"type": "text", "content": summary}] if summary else []
            yield from self._parts(event, [(n, part_of(one)) for n, one in enumerate(parts)])
        elif event.type != "native" and not is_edge(event, data):
            yield f"{_named(event.type, event)}: {plain(gist(event))}"

    def _spoken(self, event: Event, data: Mapping[str, Any]) -> Iterator[str]:
        rest = self._plan.rest(event, data)
        if rest is None:
            return
        if event.type == "tool.call":
            yield from self._call(event, data, (event.seq, WHOLE))
        elif event.type == "tool.result" and "parts" not in data:
            yield from _result(event, data)
        elif event.type == "tool.confirmation":
            yield f"{_named(event.type, event)}: {plain(gist(event))}"
        else:
            if any(not part["type"].startswith("tool_call") for _, part in rest):
                model = data.get("response.model")
                who = data.get("role") if event.type == "message" else model
                yield _named(who if isinstance(who, str) and who else event.actor, event)
            yield from self._parts(event, rest)

    def _parts(self, event: Event, parts: Sequence[tuple[int, Part]]) -> Iterator[str]:
        for number, part in parts:
            kind, content = part["type"], part.get("content")
            if kind == "text" and isinstance(content, str):
                yield quoted(content)
            elif kind == "reasoning":
                yield "*Thinking*"
                yield quoted(content if isinstance(content, str) and content.strip() else "(not recorded)")
            elif kind == "tool_call":
                yield from self._call(event, part, (event.seq, number))
            elif kind == "tool_call_response":
                yield from _result(event, part)
            else:
                yield _other(part)

    def _call(self, event: Event, part: Mapping[str, Any], place: Place) -> Iterator[str]:
        name = part.get("name")
        yield f"{_named('Tool call', event)}: {plain(name if isinstance(name, str) else '?')}"
        if part.get("arguments") is not None:
            yield fenced(as_json(part["arguments"]), "json")
        known = self._plan.calls.get(place)
        for seq in known.events if known else ():
            beside = self._source.event(seq)
            yield f"{_named(beside.type, beside)}: {plain(gist(beside))}"
        if known is None or known.result is None:
            yield "*No result came.*"
            return
        result = self._source.event(known.result[0])
        data = read_data(result) or {}
        yield from _result(result, data if known.result[1] == WHOLE else dict(parts_of(data))[known.result[1]])


def _named(who: str, event: Event) -> str:
    return f"**{plain(who)}** (event {event.seq}, {event.ts}, `{event.hash[:7]}`)"


def _result(event: Event, part: Mapping[str, Any]) -> Iterator[str]:
    yield _named("Failed result" if part.get("is_error") is True else "Result", event)
    value = part.get("response")
    if isinstance(value, str):
        yield fenced(value)
    elif isinstance(value, list) and value and all(part_of(item) is item for item in value):
        for item in value:
            text = item.get("content", item.get("text"))
            yield fenced(text) if item["type"] == "text" and isinstance(text, str) else _other(item)
    else:
        yield fenced(as_json(value), "json")


def _other(part: Part) -> str:
    """A part that is no text: what it is, and its data if that is no picture or sound."""
    what = f"{part['type']} {part.get('mime_type') or part.get('modality') or ''}".strip()
    if part["type"] == "blob":
        return f"*[{plain(what)}: not in this text]*"
    return f"*[{plain(what)}]*\n\n{fenced(as_json(part.get('value') if part['type'] == 'other' else part), 'json')}"


# --- text of anybody -----------------------------------------------------------------------------


def plain(text: str) -> str:
    """A text as one line in which nothing is markup."""
    return _PUNCTUATION.sub(r"\\\1", spelled(one_line(text)))


def fenced(text: str, info: str = "") -> str:
    """A text as it is, in a fence that is longer than any run of the same in it."""
    shown, left = shortened(text, _LONGEST)
    longest = max((len(run) for run in _TICKS.findall(shown)), default=0)
    fence = "`" * max(3, longest + 1)
    more = f"\n\n*… {left:,} more characters*" if left else ""
    return f"{fence}{info}\n{spelled(shown)}\n{fence}{more}"


def quoted(text: str) -> str:
    """A text as a quotation, its Markdown as it was; in a fence when it could get out of it."""
    shown, left = shortened(text, _LONGEST)
    made = "\n".join(f"> {line}" if line else ">" for line in _tamed(spelled(shown)).split("\n"))
    if not _is_closed(made):
        return fenced(text)
    return f"{made}\n\n*… {left:,} more characters*" if left else made


@cache
def _reader() -> MarkdownIt:
    """A reader that takes more for markup than the ones that people have."""
    reader = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
    reader.validateLink = lambda url: True  # type: ignore[method-assign]
    return reader


def _tamed(text: str) -> str:
    """The text with a backslash wherever HTML or a picture could begin outside of code."""
    places = (token.map for token in _reader().parse(text) if token.type in ("fence", "code_block"))
    code = {number for place in places for number in range(*(place or (0, 0)))}
    return "\n".join(line if number in code else _escaped(line) for number, line in enumerate(text.split("\n")))


def _escaped(line: str) -> str:
    out, end = [], 0
    for span in _CODE_SPAN.finditer(line):
        out += [_OPENING.sub(r"\\\g<0>", line[end : span.start()]), span[0]]
        end = span.end()
    return "".join(out) + _OPENING.sub(r"\\\g<0>", line[end:])


def _is_closed(made: str) -> bool:
    """Whether a reader sees one quotation, no HTML, no picture, and links to where a link may lead."""
    tokens = _reader().parse(made)
    outer = [token.type for token in tokens if token.level == 0]
    inner = [child for token in tokens for child in token.children or ()]
    wild = any(token.type.startswith("html") or token.type == "image" for token in (*tokens, *inner))
    links = (str(token.attrGet("href") or "") for token in inner if token.type == "link_open")
    return outer == ["blockquote_open", "blockquote_close"] and not wild and all(map(may_lead, links))
