"""Any session as OpenTelemetry spans with ``gen_ai.*`` attributes, in OTLP-JSON (docs/formats/otlp.md).

Names are those of the GenAI conventions 1.41. Ids come from event hashes, so the same session gives the same bytes,
and collectors that get it twice see the same spans.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, BinaryIO

from gitjournal import __version__, rules
from gitjournal.formats.losses import Losses
from gitjournal.formats.rendering import Counted, Said, as_text, said
from gitjournal.journal import Journal
from gitjournal.providers import provider_of
from gitjournal.refs import Name

Members = dict[str, Any]

_INTERNAL, _CLIENT = 1, 3
_STATUS_ERROR = 2
SCHEMA = "https://opentelemetry.io/schemas/1.41.0"
_START = ("agent.name", "agent.id", "agent.version")
_RESPONSE = ("response.id", "response.model", "request.model", "provider.name")


class ToOtlp:
    """Writes one document with all spans of a session: ``invoke_agent``, and below it ``chat`` and ``execute_tool``."""

    name = "otlp"

    def write(self, journal: Journal, name: Name, out: BinaryIO, losses: Losses) -> int:
        """See `Rendering.write`; the number of spans."""
        trace = _Trace(name, losses)
        for one in said(journal, name, losses):
            trace.take(one)
        spans = trace.spans()
        scope = {"scope": {"name": "gitjournal", "version": __version__}, "spans": spans, "schemaUrl": SCHEMA}
        resource = {"attributes": _attributes({"service.name": trace.agent})}
        document = {"resourceSpans": [{"resource": resource, "scopeSpans": [scope], "schemaUrl": SCHEMA}]}
        out.write(json.dumps(document, ensure_ascii=False, indent=1).encode() + b"\n")
        return len(spans)


@dataclass(slots=True)
class _Span:
    """A span while its end is not known."""

    id: str
    name: str
    kind: int
    start: str
    end: str
    attributes: Members
    error: str = ""
    events: list[Members] = field(default_factory=list)
    #: Whether a model's answer says this call as well.
    said: bool = False
    #: What the model said, for ``gen_ai.output.messages``.
    output: list[Members] = field(default_factory=list)

    def as_dict(self, trace: str, parent: str | None) -> Members:
        """The span in OTLP-JSON."""
        span: Members = {"traceId": trace, "spanId": self.id, "name": self.name, "kind": self.kind}
        if parent:
            span["parentSpanId"] = parent
        # Clocks go back in what programs write; no span ends before it begins.
        span["startTimeUnixNano"], span["endTimeUnixNano"] = _nanos(min(self.start, self.end)), _nanos(self.end)
        span["attributes"] = _attributes(self.attributes)
        if self.events:
            span["events"] = self.events
        if self.error:
            span["status"] = {"code": _STATUS_ERROR, "message": self.error}
        return span


class _Trace:
    """Puts events together to spans: a response, a call with its result, the session around them."""

    def __init__(self, name: Name, losses: Losses) -> None:
        self._name = name
        self._losses = losses
        self._root: _Span | None = None
        self._spans: list[_Span] = []
        self._open: dict[str, _Span] = {}
        self._counted = Counted()
        #: What was said to the model since its last response.
        self._input: list[Members] = []
        self._since = ""
        self._chat: _Span | None = None
        self.agent = "unknown"
        self._hash = ""

    def spans(self) -> list[Members]:
        """All spans, after the last event."""
        if self._root is None:
            return []
        if self._input:
            self._root.attributes["gen_ai.input.messages"] = _joined(self._input)
        for span in self._spans:
            if span.output:
                reason = span.attributes.pop("finish", None)
                message = {"role": "assistant", "parts": span.output, "finish_reason": reason or "unknown"}
                span.attributes["gen_ai.output.messages"] = _joined([message])
        self._losses.add("open", len(self._open))
        # The branches of a session have the same first event, and each is a trace of its own.
        trace = sha256(f"{self._hash} {self._name.branch}".encode()).hexdigest()[:32]
        # What never came back is no span; the call stands in the answer that asked for it.
        unfinished = {id(span) for span in self._open.values() if span.said}
        below = [span.as_dict(trace, self._root.id) for span in self._spans if id(span) not in unfinished]
        return [self._root.as_dict(trace, None), *below]

    def take(self, one: Said) -> None:
        """The next event."""
        if self._root is None:
            self._begin(one)
        if self._root is not None:
            self._root.end = max(self._root.end, one.event.ts)
        if one.type == "error":
            self._error(one)
        elif one.type == "model.response":
            self._respond(one)
        elif one.type == "session.start":
            self._instruct(one)
        else:
            self._say(one)

    def _begin(self, one: Said) -> None:
        self._hash = one.event.hash
        attributes: Members = {"gen_ai.operation.name": "invoke_agent", "gen_ai.conversation.id": self._name.session}
        attributes["gitjournal.branch"] = self._name.branch
        for name in _START:
            if value := one.text(name):
                attributes[f"gen_ai.{name}"] = value
        self.agent = one.text("agent.name") or one.text("source") or "unknown"
        ts = one.event.ts
        self._root = _Span(_id(one, "invoke_agent"), f"invoke_agent {self.agent}", _INTERNAL, ts, ts, attributes)

    def _instruct(self, one: Said) -> None:
        if self._root is not None and one.parts:
            self._root.attributes["gen_ai.system_instructions"] = _joined(one.parts)
        tools = one.data.get("tool.definitions")
        if self._root is not None and isinstance(tools, list) and tools:
            self._root.attributes["gen_ai.tool.definitions"] = _joined(tools)

    def _say(self, one: Said) -> None:
        self._losses.add("injected", one.data.get("injected") is True)
        spoken = [part for part in one.parts if part.get("type") not in ("tool_call", "tool_call_response")]
        for number, part in enumerate(one.parts):
            self._tool(one, part, number)
        if one.type != "tool.call":
            heard = [part for part in one.parts if part.get("type") != "tool_call"]
            if one.role == "assistant":
                heard = spoken
            if heard:
                self._input.append({"role": one.role, "parts": [_spelled(part) for part in heard]})
                self._since = self._since or one.event.ts

    def _respond(self, one: Said) -> None:
        response = one.text("response.id")
        span = self._chat
        if span is None or not response or span.attributes.get("gen_ai.response.id") != response:
            span = self._begin_chat(one)
        span.end = max(span.end, one.event.ts)
        for name, number in self._counted.new(one).items():
            span.attributes[name] = span.attributes.get(name, 0) + number
        if reason := one.text("finish_reason"):
            span.attributes["gen_ai.response.finish_reasons"] = [reason]
            span.attributes["finish"] = reason
        for number, part in enumerate(one.parts):
            self._tool(one, part, number)
            if part.get("type") != "tool_call_response":
                span.output.append(_spelled(part))

    def _begin_chat(self, one: Said) -> _Span:
        model = one.text("request.model") or one.text("response.model")
        attributes: Members = {"gen_ai.operation.name": "chat", "gen_ai.conversation.id": self._name.session}
        for name in _RESPONSE:
            if value := one.text(name):
                attributes[f"gen_ai.{name}"] = value
        if model:
            attributes["gen_ai.request.model"] = model
        if "gen_ai.provider.name" not in attributes:
            self._provide(attributes, one.text("response.model") or model or "")
        attributes["gitjournal.seq"] = one.event.seq
        if self._input:
            attributes["gen_ai.input.messages"] = _joined(self._input)
        start = self._since or one.event.ts
        span = _Span(_id(one, "chat"), f"chat {model or 'unknown'}", _CLIENT, start, one.event.ts, attributes)
        self._spans.append(span)
        self._chat, self._input, self._since = span, [], ""
        return span

    def _provide(self, attributes: Members, model: str) -> None:
        """The convention wants a provider. Programs rarely say whose models they use; the name of the model does."""
        provider = provider_of(model)
        if provider:
            attributes["gen_ai.provider.name"] = provider
        self._losses.add("provider", provider is None)

    def _tool(self, one: Said, part: Members, number: int) -> None:
        if part.get("type") == "tool_call":
            self._call(one, part, number)
        elif part.get("type") == "tool_call_response":
            self._answer(one, part)

    def _call(self, one: Said, part: Members, number: int) -> None:
        call, name = part.get("id"), part.get("name")
        known = self._open.get(call) if isinstance(call, str) else None
        if known is not None and known.attributes.get("gen_ai.tool.name") == name:
            known.start = one.event.ts if one.type == "tool.call" else known.start
            known.end = max(known.start, known.end)
            return
        attributes: Members = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.type": "function"}
        attributes["gen_ai.tool.name"] = name if isinstance(name, str) else "unknown"
        attributes["gen_ai.conversation.id"] = self._name.session
        if isinstance(call, str):
            attributes["gen_ai.tool.call.id"] = call
        if part.get("arguments") is not None:
            attributes["gen_ai.tool.call.arguments"] = as_text(part["arguments"])
        attributes["gitjournal.seq"] = one.event.seq
        ts = one.event.ts
        title = f"execute_tool {attributes['gen_ai.tool.name']}"
        span = _Span(_id(one, f"tool {number}"), title, _INTERNAL, ts, ts, attributes)
        span.said = one.type == "model.response"
        self._spans.append(span)
        if isinstance(call, str) and call:
            self._open[call] = span

    def _answer(self, one: Said, part: Members) -> None:
        call = part.get("id")
        span = self._open.pop(call, None) if isinstance(call, str) else None
        if span is None:
            self._losses.add("unmatched")
            return
        span.end = max(span.start, one.event.ts)
        if part.get("response") is not None:
            span.attributes["gen_ai.tool.call.result"] = as_text(part["response"])
        code = part.get("code")
        if part.get("is_error") is True or isinstance(code, str):
            span.attributes["error.type"] = code if isinstance(code, str) else "tool_error"
            span.error = span.attributes["error.type"]

    def _error(self, one: Said) -> None:
        """An error stands as an event of the session's span: which request it ended is not always known."""
        attributes = {"exception.type": one.text("error.type"), "exception.message": one.text("message")}
        event = {"timeUnixNano": _nanos(one.event.ts), "name": "exception", "attributes": _attributes(attributes)}
        if self._root is not None:
            self._root.events.append(event)


def _id(one: Said, what: str) -> str:
    """The id of a span, from the hash of its event."""
    return sha256(f"{one.event.hash} {what}".encode()).hexdigest()[:16]


def _spelled(part: Members) -> Members:
    """A part without members that only we know; results have their text in ``response``, as the schema says."""
    return {name: value for name, value in part.items() if name not in ("is_error", "code", "requires")}


def _joined(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _nanos(ts: str) -> str:
    return str(rules.unix_seconds(ts) * 10**9 + int(ts[20:23]) * 10**6)


def _attributes(members: Mapping[str, Any]) -> list[Members]:
    return [{"key": name, "value": _value(value)} for name, value in members.items() if value is not None]


def _value(value: Any) -> Members:
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        # 64-bit numbers are text in the JSON form of OTLP.
        return {"intValue": str(value)}
    if isinstance(value, list):
        return {"arrayValue": {"values": [_value(item) for item in value]}}
    return {"stringValue": value}
