"""OpenTelemetry spans with ``gen_ai.*`` attributes (docs/formats/otlp.md): OTLP-JSON documents, lines of them, and
single spans. Names of the conventions before 1.41, of OpenLLMetry and of OpenInference are understood where they say
the same.

Each conversation in a source is a session; where spans name none, each trace is.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO

from gitjournal.formats.otlp_cut import LISTS, Piece, Slice, Span, flat, pieces, spans
from gitjournal.formats.otlp_said import Message, messages_of, numbered
from gitjournal.formats.protocol import About, Head, Item, RecordFormat, Source, Strand
from gitjournal.formats.records import Record
from gitjournal.formats.report import ImportReport
from gitjournal.formats.shapes import (
    Mapped,
    Members,
    beginning,
    call_part,
    items,
    members,
    native,
    opened,
    response_part,
    tool_actor,
    usage,
    whole,
    without_none,
)
from gitjournal.formats.times import to_ts

NAME = "otlp"
_CONVERSATION = ("gen_ai.conversation.id", "session.id", "langfuse.session.id", "gen_ai.thread.id")
# Lines that stand one behind the other are read at once, up to so many bytes.
_JOINED = 1 << 20
_INFERENCE = frozenset({"chat", "generate_content", "text_completion", "completion", "LLM"})
_TOOLS = frozenset({"execute_tool", "TOOL", "tool"})
_INPUT = ("gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens", "llm.token_count.prompt")
_OUTPUT = ("gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens", "llm.token_count.completion")
_READ = (
    "gen_ai.usage.cache_read.input_tokens", "gen_ai.usage.cache_read_tokens", "gen_ai.usage.cache_read_input_tokens",
    "gen_ai.usage.cached_tokens", "llm.token_count.prompt_details.cache_read",
)  # fmt: skip
_CREATED = (
    "gen_ai.usage.cache_creation.input_tokens", "gen_ai.usage.cache_creation_input_tokens",
    "llm.token_count.prompt_details.cache_write",
)  # fmt: skip
_REASONING = (
    "gen_ai.usage.reasoning.output_tokens", "gen_ai.usage.reasoning_tokens",
    "llm.token_count.completion_details.reasoning",
)  # fmt: skip
_SPENT = (*_INPUT, *_OUTPUT, *_READ, *_CREATED, *_REASONING)


class Otlp(RecordFormat):
    """Reads spans; `to_otlp` writes them from any session."""

    name = NAME

    def sniff(self, head: Head) -> bool:
        """Whether it begins with spans, or with a single one of a model."""
        for value in (*head.values[:1], head.document, beginning(head.raw)):
            found = members(value)
            if type(found.get("resourceSpans")) is list:
                return True
            if {"gen_ai.operation.name", "gen_ai.provider.name", "gen_ai.system"} & flat(found).keys():
                return True
        return head.raw.lstrip()[:40].replace(b" ", b"").replace(b"\n", b"").startswith(b'{"resourceSpans":[')

    def cut(self, stream: BinaryIO) -> Iterator[Record]:
        """See `RecordFormat.cut`."""
        return (piece.record for piece in pieces(stream))

    def about(self, found: Iterator[Record], source: Source) -> About:
        """Nothing: records alone do not tell of what conversation they are (`strands`)."""
        return About()

    def read(self, found: Iterator[Record], report: ImportReport, source: Source) -> Iterator[Item]:
        """Pieces of spans, as `strands` has mapped them; other records as they are."""
        for record in found:
            if record.fragment and record.value:
                yield Item(record, **record.value)
            else:
                yield Item(record, *native(NAME, record.fault or "resource", {}))

    def strands(self, source: Source) -> Iterator[Strand]:
        """One strand for each conversation, in the order in which they begin."""
        with source.open() as stream:
            groups, places = _groups(spans(stream))
        for group, slices in places.items():
            yield Strand(
                About(group.session, group.start),
                lambda group=group, slices=slices: _records(source, groups, group, slices),  # type: ignore[misc]
                lambda found, report: self.read(found, report, source),
                exact=len(places) == 1,
            )


@dataclass(frozen=True, eq=False, slots=True)
class _Group:
    """A conversation: its id, and what is said of its agent."""

    session: str | None
    start: Members


_Groups = dict[str | None, _Group]


def _groups(found: Iterator[tuple[Slice, list[Span]]]) -> tuple[_Groups, dict[_Group, list[Slice]]]:
    """The conversation of each trace, and where each conversation stands.

    A conversation is the first that one of the trace's spans names, else the trace itself.
    """
    named: dict[str | None, str | None] = {}
    agents: dict[str | None, Members] = {}
    lines: list[tuple[Slice, list[str | None]]] = []
    for place, in_line in found:
        for span in in_line:
            trace = span.trace
            named[trace] = named.get(trace) or span.text(*_CONVERSATION)
            about = {name: span.text(f"gen_ai.{name}") for name in ("agent.name", "agent.id", "agent.version")}
            agents[trace] = {**without_none(about), **agents.get(trace, {})}
        lines.append((place, list(dict.fromkeys(span.trace for span in in_line))))
    by_name: dict[str | None, _Group] = {}
    groups = {t: by_name.setdefault(own or t, _Group(own or t, agents[t])) for t, own in named.items()}
    return groups, _places(groups, lines)


def _places(groups: _Groups, lines: list[tuple[Slice, list[str | None]]]) -> dict[_Group, list[Slice]]:
    """Where each conversation stands. A line without spans goes with the one before it."""
    current = [next(iter(groups.values()), _Group(None, {}))]
    places: dict[_Group, list[Slice]] = {group: [] for group in groups.values()} or {current[0]: []}
    for place, traces in lines:
        current = list(dict.fromkeys(groups[trace] for trace in traces)) or current[-1:]
        for group in current:
            last = places[group][-1] if places[group] else None
            if last is not None and last.offset + last.size == place.offset and last.size < _JOINED:
                places[group][-1] = Slice(last.offset, last.size + place.size)
            else:
                places[group].append(place)
    return places


def _records(source: Source, groups: _Groups, group: _Group, slices: list[Slice]) -> Iterator[Record]:
    """The records of a conversation. What a piece of a span says follows from other pieces, so its value is its event:
    what is taken out of a record before it is hashed, is taken out of that as well.
    """
    mapper = _Mapper()
    number, current = 0, group
    with source.open() as stream:
        for piece in pieces(stream, slices):
            current = groups.get(piece.span.trace, group) if piece.span is not None else current
            if current is not group:
                continue
            number += 1
            record = piece.record._replace(number=number)
            if piece.span is not None:
                record = record._replace(value=mapper.event(piece, piece.span), fragment=True)
            yield record


class _Mapper:
    """Maps the pieces of one conversation, in order."""

    def __init__(self) -> None:
        # What has been said to models, so that what each request repeats is shown once.
        self._heard: set[str] = set()
        self._answered = False
        self._results: set[str] = set()
        self._span: Span | None = None
        self._given: list[Message] = []
        self._fresh: range | None = None
        self._done = False

    def event(self, piece: Piece, span: Span) -> Members:
        """The event of a piece: the members of an `Item`."""
        if span is not self._span:
            self._span, self._fresh, self._done = span, None, False
        ts = to_ts(_moment(span, "end", "start")) if piece.last else to_ts(_moment(span, "start", "end"))
        kind, data, actor = self._map(piece, span)
        own = {"type": span.text("name"), "id": span.text("spanId"), "parent": span.text("parentSpanId")}
        data = {**data, "native": without_none({**own, "trace": span.trace})}
        return {"type": kind, "data": data, "actor": actor, "ts": ts}

    def _map(self, piece: Piece, span: Span) -> Mapped:
        operation = span.text("gen_ai.operation.name", "openinference.span.kind", "traceloop.span.kind")
        if operation in _INFERENCE:
            return self._inference(piece, span) or _around(span, piece)
        if operation in _TOOLS:
            return self._tool(piece, span) or _around(span, piece)
        return _around(span, piece)

    # --- requests to models ------------------------------------------------------------------------

    def _inference(self, piece: Piece, span: Span) -> Mapped | None:
        if piece.key == "gen_ai.system_instructions":
            parts = messages_of(opened(span.attributes.get(piece.key)))
            return self._hear(Message("system", [part for one in parts for part in one.parts])) if parts else None
        if _is_input(piece.key):
            return self._input(piece, span)
        if _is_output(piece.key) and not self._done:
            return self._output(span)
        if piece.last and not self._done:
            if error := _error(span):
                return error
            return self._output(span)
        return None

    def _input(self, piece: Piece, span: Span) -> Mapped | None:
        index = piece.index if piece.index >= 0 else _number_in(piece.key)
        if self._fresh is None:
            self._given = _said_to(span)
            self._fresh = self._new(self._given)
        if index is None:
            index = next(iter(self._fresh), len(self._given))
        return self._hear(self._given[index]) if index in self._fresh and index < len(self._given) else None

    def _new(self, given: list[Message]) -> range:
        """Which messages of a request are new: all behind the last answer, once there was one."""
        answers = [number for number, message in enumerate(given) if message.role == "assistant"]
        return range(answers[-1] + 1 if answers and self._answered else 0, len(given))

    def _hear(self, message: Message) -> Mapped | None:
        """A message to the model; None when it was shown before."""
        parts = [part for part in message.parts if not self._is_known_result(part)]
        again = message.role == "system" and message.digest in self._heard
        if not parts or again:
            return None
        self._heard.add(message.digest)
        if all(part["type"] == "tool_call_response" for part in parts):
            self._results.update(str(part["id"]) for part in parts if part.get("id") is not None)
            return "tool.result", {"parts": parts}, "host"
        actor = message.role if message.role in ("user", "assistant") else "host"
        return "message", {"role": message.role, "parts": parts}, actor

    def _is_known_result(self, part: Members) -> bool:
        known = part.get("id") is not None and str(part["id"]) in self._results
        return part["type"] == "tool_call_response" and known

    def _output(self, span: Span) -> Mapped:
        self._done = self._answered = True
        given = messages_of(opened(span.attributes.get("gen_ai.output.messages")))
        given = given or numbered(span.attributes, "gen_ai.completion.", "llm.output_messages.")
        given = given or messages_of(opened(span.attributes.get("gen_ai.completion")), "assistant")
        parts = [part for message in given for part in message.parts]
        self._results -= {str(part.get("id")) for part in parts if part["type"] == "tool_call"}
        reasons = [message.finish for message in given] + items(span.attributes.get("gen_ai.response.finish_reasons"))
        reason = next((one for one in reasons if type(one) is str), None)
        data: Members = {
            "parts": parts,
            "response.id": span.text("gen_ai.response.id"),
            "response.model": span.text("gen_ai.response.model", "llm.model_name"),
            "request.model": span.text("gen_ai.request.model"),
            "provider.name": span.text("gen_ai.provider.name", "gen_ai.system", "llm.provider", "llm.system"),
            "finish_reason": reason,
        }
        if spent := {name: span.attributes[name] for name in _SPENT if name in span.attributes}:
            data |= {"usage": _usage(spent), "native_usage": spent}
        return "model.response", without_none(data), "assistant"

    # --- tools -------------------------------------------------------------------------------------

    def _tool(self, piece: Piece, span: Span) -> Mapped | None:
        call = span.text("gen_ai.tool.call.id", "tool_call.id")
        given = span.attributes.get("gen_ai.tool.call.arguments", span.attributes.get("input.value"))
        answer = span.attributes.get("gen_ai.tool.call.result", span.attributes.get("output.value"))
        name = span.text("gen_ai.tool.name", "tool.name", "traceloop.entity.name", "name")
        if given is None and answer is None and piece.last and not self._done:
            # Nothing was recorded but that it ran.
            parts = [call_part(call, name, None), response_part(call, None, True if _failed(span) else None)]
            return "message", {"role": "assistant", "parts": parts}, "assistant"
        if piece.key in ("gen_ai.tool.call.arguments", "input.value") or (given is None and not self._done):
            self._done = True
            return "tool.call", without_none({"id": call, "name": name, "arguments": opened(given)}), "assistant"
        if piece.key in ("gen_ai.tool.call.result", "output.value") or (piece.last and answer is None):
            if call is not None and call in self._results:
                return None
            self._results |= {call} if call is not None else set()
            failed = True if _failed(span) else None
            data = {"id": call, "response": opened(answer), "is_error": failed}
            return "tool.result", without_none(data), tool_actor(name)
        return None


def _is_input(key: str) -> bool:
    return key in LISTS or key.startswith(("gen_ai.prompt.", "llm.input_messages."))


def _is_output(key: str) -> bool:
    return key.startswith(("gen_ai.output.messages", "gen_ai.completion", "llm.output_messages."))


def _number_in(key: str) -> int | None:
    """The number of a message in the name of its attribute."""
    return next((int(step) for step in key.split(".") if step.isdigit()), None)


def _said_to(span: Span) -> list[Message]:
    for name in LISTS:
        if found := messages_of(opened(span.attributes.get(name)), "user"):
            return found
    return numbered(span.attributes, "gen_ai.prompt.", "llm.input_messages.")


def _usage(spent: Members) -> Members:
    def first(names: tuple[str, ...]) -> int | None:
        return next((found for name in names if (found := whole(spent.get(name))) is not None), None)

    return usage(first(_INPUT), first(_OUTPUT), read=first(_READ), created=first(_CREATED), reasoning=first(_REASONING))


def _failed(span: Span) -> bool:
    status = members(span.members.get("status"))
    code = status.get("code", status.get("status_code"))
    return span.text("error.type") is not None or code in (2, "STATUS_CODE_ERROR", "ERROR")


def _error(span: Span) -> Mapped | None:
    """The error that a request ended with, when it gave no answer."""
    answered = any(_is_output(name) for name in span.attributes)
    if answered or not _failed(span):
        return None
    message = members(span.members.get("status")).get("message")
    kind = span.text("error.type") or "error"
    shown = message if type(message) is str and message else kind
    return "error", {"error.type": kind, "message": shown, "where": "model"}, "host"


def _around(span: Span, piece: Piece) -> Mapped:
    """A piece that says nothing new."""
    kind = span.text("gen_ai.operation.name") or "span"
    return native(NAME, f"{kind}/{piece.key}" if piece.key else kind, {})


def _moment(span: Span, *names: str) -> Any:
    """A time of a span, as `to_ts` takes it: spans count nanoseconds since 1970, in text."""
    for name in names:
        found = span.members.get(f"{name}TimeUnixNano", span.members.get(f"{name}_time"))
        digits = str(found)
        if digits.isdigit() and len(digits) < 20:
            return int(digits) // 1_000_000
        if type(found) is str:
            return found
    return None
