"""Any session as an ATIF trajectory, version 1.7 (docs/formats/atif.md).

The schema takes no unknown names, and wants a result in the step of its call: so results are put with their calls,
and what it has no place for stands in ``extra.gitjournal``, where our own importer finds it again.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, BinaryIO

from gitjournal.errors import NotFound
from gitjournal.formats.atif import OURS
from gitjournal.formats.losses import Losses
from gitjournal.formats.rendering import Counted, Said, as_text, said, url_of
from gitjournal.journal import Journal
from gitjournal.refs import Name

VERSION = "ATIF-v1.7"
_IMAGES = ("image/jpeg", "image/png", "image/gif", "image/webp")
_METRICS = {
    "gen_ai.usage.input_tokens": "prompt_tokens",
    "gen_ai.usage.output_tokens": "completion_tokens",
    "gen_ai.usage.cache_read.input_tokens": "cached_tokens",
}
_MORE_METRICS = {
    "gen_ai.usage.cache_creation.input_tokens": "cache_write_tokens",
    "gen_ai.usage.reasoning.output_tokens": "reasoning_tokens",
}
Members = dict[str, Any]


class ToAtif:
    """Writes a session, and its sub-agents' sessions within it."""

    name = "atif"

    def write(self, journal: Journal, name: Name, out: BinaryIO, losses: Losses) -> int:
        """See `Rendering.write`; the number of steps."""
        document = _trajectory(journal, name, losses, {name.session})
        out.write(json.dumps(document, ensure_ascii=False, indent=2).encode() + b"\n")
        return len(document["steps"])


def _trajectory(journal: Journal, name: Name, losses: Losses, above: set[str]) -> Members:
    """The document of a branch; ``above`` are the sessions that must not be embedded in it (again)."""
    events = said(journal, name, losses)
    steps, start = _Steps(losses), Members()
    children: list[Members] = []
    for one in events:
        if one.type == "session.start":
            start = start or dict(one.data)
        child_ids = [child for child in _child_sessions(one.data) if _embed(journal, child, above, children, losses)]
        steps.take(one, child_ids)
    shown = [step.as_dict(number, losses) for number, step in enumerate(steps.done(), 1)]
    head = journal.head(name)
    document: Members = {"schema_version": VERSION, "session_id": name.session}
    document["agent"] = _agent(start, shown)
    document["steps"] = shown
    document["final_metrics"] = _totals(shown)
    document["extra"] = {OURS: {"branch": name.branch, "seq": head.seq, "hash": head.hash}}
    if children:
        document["subagent_trajectories"] = children
    return document


def _child_sessions(data: Any) -> list[str]:
    found = data.get("children") if isinstance(data.get("children"), list) else [data.get("child")]
    return [one["session"] for one in found if isinstance(one, dict) and isinstance(one.get("session"), str)]


def _embed(journal: Journal, child: str, above: set[str], into: list[Members], losses: Losses) -> bool:
    """Add the trajectory of a sub-agent; False when its session is not here, or is above this one."""
    if any(one["trajectory_id"] == child for one in into):
        return True
    try:
        name = journal.resolve(child) if child not in above else None
    except NotFound:
        name = None
    if name is None:
        losses.add("children")
        return False
    above.add(child)
    document = _trajectory(journal, name, losses, above)
    into.append({"schema_version": VERSION, "trajectory_id": child, **document})
    return True


def _agent(start: Members, steps: list[Members]) -> Members:
    def said_of(member: str) -> str:
        value = start.get(member)
        return value if isinstance(value, str) and value else ""

    agent: Members = {"name": said_of("agent.name") or said_of("source") or "unknown"}
    agent["version"] = said_of("agent.version") or "unknown"
    if model := next((step["model_name"] for step in steps if "model_name" in step), None):
        agent["model_name"] = model
    tools = start.get("tool.definitions")
    if isinstance(tools, list) and tools and all(isinstance(tool, dict) for tool in tools):
        agent["tool_definitions"] = tools
    return agent


def _totals(steps: list[Members]) -> Members:
    totals: Members = {"total_steps": len(steps)}
    for name in _METRICS.values():
        numbers = [step["metrics"][name] for step in steps if name in step.get("metrics", {})]
        if numbers:
            totals[f"total_{name}"] = sum(numbers)
    return totals


@dataclass(slots=True)
class _Step:
    """A step while it may still get calls and results."""

    ts: str
    source: str
    seqs: list[int] = field(default_factory=list)
    parts: list[Members] = field(default_factory=list)
    calls: list[Members] = field(default_factory=list)
    results: list[Members] = field(default_factory=list)
    usage: dict[str, int] = field(default_factory=dict)
    model: str | None = None
    response: str | None = None
    finish: str | None = None
    #: Whether the program said it in the user's name.
    injected: bool = False
    #: Whether a model said it; what an agent does on its own has no metrics.
    inferred: bool = False

    def as_dict(self, number: int, losses: Losses) -> Members:
        """The step as the schema has it."""
        kept: list[Members] = []
        step: Members = {"step_id": number, "timestamp": self.ts, "source": self.source}
        step["message"] = _message([part for part in self.parts if part.get("type") != "reasoning"], kept, losses)
        if self.source == "agent":
            self._as_agent(step, kept, losses)
        if self.results:
            step["observation"] = {"results": self.results}
        ours: Members = {"seqs": self.seqs, "response_id": self.response, "finish_reason": self.finish}
        if kept:
            ours["parts"] = kept
        if self.injected:
            ours["injected"] = True
        step["extra"] = {OURS: {name: value for name, value in ours.items() if value is not None}}
        return step

    def _as_agent(self, step: Members, kept: list[Members], losses: Losses) -> None:
        reasoning = [part["content"] for part in self.parts if _is_reasoning(part)]
        if reasoning:
            step["reasoning_content"] = "\n\n".join(reasoning)
            losses.add("reasoning", len(reasoning) - 1)
        if self.model:
            step["model_name"] = self.model
        if self.calls:
            step["tool_calls"] = self.calls
        if self.usage:
            step["metrics"] = _metrics(self.usage)
        if not self.inferred and not reasoning:
            step["llm_call_count"] = 0


def _is_reasoning(part: Members) -> bool:
    return part.get("type") == "reasoning" and isinstance(part.get("content"), str) and bool(part["content"])


def _metrics(usage: dict[str, int]) -> Members:
    metrics: Members = {ours: usage[name] for name, ours in _METRICS.items() if name in usage}
    if more := {ours: usage[name] for name, ours in _MORE_METRICS.items() if name in usage}:
        metrics["extra"] = more
    return metrics


def _message(parts: list[Members], kept: list[Members], losses: Losses) -> str | list[Members]:
    """A message as text, or as content parts if it has to be; what the schema has no place for goes to ``kept``."""
    shown = _content(parts, kept, losses)
    if not shown:
        return ""
    return shown[0]["text"] if len(shown) == 1 and shown[0]["type"] == "text" else shown


def _content(parts: list[Members], kept: list[Members], losses: Losses) -> list[Members]:
    shown: list[Members] = []
    for part in parts:
        if part.get("type") == "text" and isinstance(part.get("content"), str):
            shown.append({"type": "text", "text": part["content"]})
        elif image := _image(part):
            shown.append(image)
        else:
            kept.append(part)
            losses.add("media" if part.get("type") in ("blob", "uri", "file") else "parts")
    return shown


def _parts_of(response: Any) -> list[Members]:
    """A response that is message parts, all of which the schema has a place for; else nothing."""
    if not isinstance(response, list) or not all(isinstance(part, dict) for part in response):
        return []
    kept: list[Members] = []
    shown = _content(response, kept, Losses())
    return [] if kept else shown


def _image(part: Members) -> Members | None:
    url = url_of(part)
    if url is None or part.get("modality") != "image" or part.get("mime_type") not in _IMAGES:
        return None
    return {"type": "image", "source": {"media_type": part["mime_type"], "path": url}}


class _Steps:
    """Puts events together to steps: those of one response, and results with their calls."""

    def __init__(self, losses: Losses) -> None:
        self._losses = losses
        self._steps: list[_Step] = []
        self._open: dict[str, _Step] = {}
        self._names: dict[str, Any] = {}
        self._counted = Counted()

    def done(self) -> list[_Step]:
        """The steps, after the last event."""
        self._losses.add("open", len(self._open))
        return self._steps

    def take(self, one: Said, children: Iterable[str]) -> None:
        """The next event, and the sub-agents that it began."""
        speaks = bool(one.parts or one.usage or one.text("response.id"))
        step = self._step(one) if speaks and not self._is_answer(one) else None
        if step is not None and one.type == "model.response":
            self._respond(step, one)
        for number, part in enumerate(one.parts):
            kind = part.get("type")
            if kind == "tool_call":
                self._call(one, step or self._step(one), part, number)
            elif kind == "tool_call_response":
                step = self._answer(one, part, step)
            elif step is not None:
                step.parts.append(part)
        refs = [{"trajectory_id": child} for child in children]
        if refs:
            step = step or (self._steps[-1] if self._steps else self._new(one, "system"))
            self._link(step, refs)

    def _is_answer(self, one: Said) -> bool:
        """Whether an event has nothing but results: those stand with their calls."""
        return bool(one.parts) and all(part.get("type") == "tool_call_response" for part in one.parts)

    def _step(self, one: Said) -> _Step:
        """The step of an event: a new one, unless the last one is of the same response or waits for a call."""
        last = self._steps[-1] if self._steps else None
        if last is not None and last.source == "agent":
            same = one.type == "model.response" and last.response is not None
            if one.type == "tool.call" or (same and last.response == one.text("response.id")):
                if last.seqs[-1] != one.event.seq:
                    last.seqs.append(one.event.seq)
                return last
        source = {"user": "user", "assistant": "agent"}.get(one.role, "system")
        if last is not None and last.source == source and one.data.get("continues") is True:
            last.seqs.append(one.event.seq)
            return last
        return self._new(one, source)

    def _new(self, one: Said, source: str) -> _Step:
        step = _Step(one.event.ts, source, [one.event.seq])
        step.injected = one.data.get("injected") is True
        self._steps.append(step)
        return step

    def _respond(self, step: _Step, one: Said) -> None:
        response = one.text("response.id")
        if not step.inferred and not self._counted.knows(response):
            # A response that comes back later only adds to its counters: as one of its own, or they count wrongly.
            step.response = response
        step.inferred = True
        step.model = step.model or one.text("response.model") or one.text("request.model")
        step.finish = one.text("finish_reason") or step.finish
        for name, number in self._counted.new(one).items():
            step.usage[name] = step.usage.get(name, 0) + number

    def _call(self, one: Said, step: _Step, part: Members, number: int) -> None:
        call, name = part.get("id"), part.get("name")
        if isinstance(call, str) and call in self._open and self._names.get(call) == name:
            return
        if any(other["tool_call_id"] == call for other in step.calls):
            # A step has each id once, or nobody could tell whose a result is.
            step = self._new(one, "agent")
        shown: Members = {"tool_call_id": call, "function_name": name if isinstance(name, str) else "unknown"}
        if not isinstance(call, str) or not call:
            shown["tool_call_id"] = f"{OURS}-{one.event.seq}-{number}"
            self._losses.add("ids")
        else:
            self._open[call], self._names[call] = step, name
        shown["arguments"] = part.get("arguments")
        if not isinstance(shown["arguments"], dict):
            shown["arguments"] = {} if part.get("arguments") is None else {"value": part["arguments"]}
            shown["extra"] = {OURS: {"wrapped": True}}
            self._losses.add("arguments", part.get("arguments") is not None)
        step.calls.append(shown)

    def _answer(self, one: Said, part: Members, step: _Step | None) -> _Step | None:
        """Put a result into the step of its call; the step that the rest of the event goes to."""
        call = part.get("id")
        owner = self._open.pop(call, None) if isinstance(call, str) else None
        if owner is None:
            self._losses.add("unmatched")
            owner = step = self._new(one, "system")
        owner.results.append(self._result(part))
        if owner.seqs[-1] != one.event.seq:
            owner.seqs.append(one.event.seq)
        return step

    def _result(self, part: Members) -> Members:
        response, call = part.get("response"), part.get("id")
        ours, extra = Members(), Members()
        result: Members = {"source_call_id": call} if isinstance(call, str) else {}
        if isinstance(response, str):
            result["content"] = response
        elif content := _parts_of(response):
            result["content"] = content
        elif response is not None:
            result["content"] = as_text(response)
            ours["response"] = response
            self._losses.add("responses")
        elif not result:
            result["content"] = ""
        if isinstance(part.get("code"), str):
            ours["code"] = part["code"]
        if isinstance(part.get("is_error"), bool):
            extra["is_error"] = part["is_error"]
        if ours:
            extra[OURS] = ours
        return {**result, "extra": extra} if extra else result

    def _link(self, step: _Step, refs: list[Members]) -> None:
        target = next((result for result in step.results if "subagent_trajectory_ref" not in result), None)
        if target is None:
            target = {}
            step.results.append(target)
        target["subagent_trajectory_ref"] = refs
