"""ATIF, the Agent Trajectory Interchange Format, versions 1.0 to 1.8 (docs/formats/atif.md).

One JSON document; each of its steps is a record. A step holds what a model said, its calls and their results, so one
event holds them all. Sub-agents that are embedded in the document are sessions of their own as well.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from typing import Any

from gitjournal.formats.document import DocumentFormat, Opened, around, document
from gitjournal.formats.mapping import injected
from gitjournal.formats.protocol import About, Head, Item, Source, Strand
from gitjournal.formats.records import NOT_JSON, Record
from gitjournal.formats.report import ImportReport
from gitjournal.formats.shapes import (
    Mapped,
    Members,
    beginning,
    call_part,
    is_text,
    items,
    media_part,
    members,
    native,
    part_of,
    response_part,
    text,
    text_part,
    usage,
    whole,
    without_none,
)
from gitjournal.formats.times import to_ts

NAME = "atif"
#: Member of ``extra`` in which our own exporter says what the schema has no place for (`to_atif`).
OURS = "gitjournal"
_VERSION = "ATIF-v1."
_CHILDREN: Opened = frozenset({("subagent_trajectories",)})
# Lists of one number a token: not shown, they would be larger than the step.
_LISTS = ("prompt_token_ids", "completion_token_ids", "logprobs")
_REASONING = ("reasoning_tokens", "reasoning_output_tokens")
_CREATED = ("cache_write_tokens", "cache_creation_tokens", "cache_creation_input_tokens")


class Atif(DocumentFormat):
    """Reads trajectories; `to_atif` writes them from any session."""

    name = NAME
    opened = frozenset({("steps",)})
    grows = True

    def sniff(self, head: Head) -> bool:
        """Whether the document says which version of ATIF it is."""
        version = beginning(head.raw).get("schema_version")
        return type(version) is str and version.startswith(_VERSION)

    def comes_again(self, was: Record, now: Record) -> bool:
        """See `RecordFormat.comes_again`: only what stands around the steps, where nothing is said."""
        return now.fragment

    def about(self, found: Iterator[Record], source: Source) -> About:
        """The document's own id, else that of the run; the agent."""
        return _about(around(found))

    def read(self, found: Iterator[Record], report: ImportReport, source: Source) -> Iterator[Item]:
        """See `RecordFormat.read`."""
        whole_document = list(found)
        root = around(whole_document)
        return _Mapper(report, root, _about(root).session or source.stem).items(whole_document)

    def strands(self, source: Source) -> Iterator[Strand]:
        """The trajectory, then those of its sub-agents, which are parts of the same document."""
        main = next(iter(super().strands(source)))
        yield main
        if around(main.records()).get("subagent_trajectories"):
            raw = b"".join(record.raw + record.after for record in main.records())
            yield from self._embedded(raw, main.about.session or source.stem)

    def _embedded(self, raw: bytes, parent: str) -> Iterator[Strand]:
        for record in document(raw, _CHILDREN) or ():
            root = members(record.value)
            if record.fragment or not items(root.get("steps")):
                continue
            session = _child_name(parent, root)
            start = {"parent": {"session": parent}, **_about(root).start}
            yield self._strand(record.raw, About(session, start))
            yield from self._embedded(record.raw, session)

    def _strand(self, raw: bytes, about: About) -> Strand:
        def read(found: Iterator[Record], report: ImportReport) -> Iterator[Item]:
            whole_document = list(found)
            return _Mapper(report, around(whole_document), about.session or "").items(whole_document)

        return Strand(about, lambda: self.cut(io.BytesIO(raw)), read, exact=False)


def _about(root: Members) -> About:
    agent = members(root.get("agent"))
    start = {
        "agent.name": text(agent, "name"),
        "agent.version": text(agent, "version"),
        "tool.definitions": items(agent.get("tool_definitions")) or None,
    }
    return About(text(root, "trajectory_id") or text(root, "session_id"), without_none(start))


def _child_name(parent: str, root: Members) -> str:
    # The id of an embedded trajectory is unique in its parent only.
    return f"{parent}.{text(root, 'trajectory_id') or text(root, 'session_id') or 'sub'}"


class _Mapper:
    """Maps the records of one trajectory, in order."""

    def __init__(self, report: ImportReport, root: Members, session: str) -> None:
        self._report = report
        self._model = text(members(root.get("agent")), "model_name")
        self._session = session
        self._embedded = {text(members(one), "trajectory_id") for one in items(root.get("subagent_trajectories"))}
        self._ids: set[int] = set()

    def items(self, found: Iterable[Record]) -> Iterator[Item]:
        """The events of all records."""
        for record in found:
            if record.value is NOT_JSON:
                yield Item(record, "native", {"format": NAME, "type": record.fault})
            elif record.fragment:
                kind, data, actor = native(NAME, "trajectory", record.value)
                yield Item(record, kind, data, actor)
            else:
                yield self._step(record)

    def _step(self, record: Record) -> Item:
        step = members(record.value)
        own = whole(step.get("step_id"))
        if own is not None and own in self._ids:
            self._report.count("repeated_ids", record.number, record.offset)
        self._ids.add(own if own is not None else -1)
        ts = to_ts(step.get("timestamp"))
        if ts is None and step.get("timestamp") is not None:
            self._report.count("no_time", record.number, record.offset)
        kind, data, actor = self._map(step)
        return Item(record, kind, self._marked(step, data), actor, ts)

    def _marked(self, step: Members, data: Members) -> Members:
        copied = True if step.get("is_copied_context") is True else None
        own = {"type": step.get("source"), "id": step.get("step_id"), "copied": copied}
        data["native"] = without_none({**own, "llm_calls": whole(step.get("llm_call_count"))})
        children = [{"session": child} for child in self._children(step)]
        if len(children) == 1:
            data["child"] = children[0]
        elif children:
            data["children"] = children
        return data

    def _children(self, step: Members) -> Iterator[str]:
        """Sessions of the sub-agents that the results name, as their own import calls them."""
        for result in items(members(step.get("observation")).get("results")):
            for ref in map(members, items(members(result).get("subagent_trajectory_ref"))):
                own = text(ref, "trajectory_id")
                if own is not None and own in self._embedded:
                    yield f"{self._session}.{own}"
                elif name := own or text(ref, "session_id"):
                    yield name

    def _map(self, step: Members) -> Mapped:
        source = step.get("source")
        parts = _said(step.get("message"))
        if source == "user":
            parts += _results(step)
            by_program = _ours(step).get("injected") is True
            return injected(parts) if by_program else ("message", {"role": "user", "parts": parts}, "user")
        if source == "system":
            return "message", {"role": "system", "parts": parts + _results(step)}, "host"
        if source != "agent":
            return native(NAME, "step", step)
        parts = _reasoned(step) + parts + _calls(step) + _results(step)
        if whole(step.get("llm_call_count")) == 0:
            # The agent did this without asking a model.
            return "message", {"role": "assistant", "parts": parts}, "assistant"
        return "model.response", {"parts": parts, **self._response(step)}, "assistant"

    def _response(self, step: Members) -> Members:
        ours = _ours(step)
        metrics = members(step.get("metrics"))
        data: Members = {
            "response.id": text(ours, "response_id"),
            "response.model": text(step, "model_name") or self._model,
            "finish_reason": text(ours, "finish_reason"),
        }
        if metrics:
            data["native_usage"] = {name: value for name, value in metrics.items() if name not in _LISTS}
            # What was copied from another trajectory has been paid for there.
            data["usage"] = None if step.get("is_copied_context") is True else _usage(metrics)
        return without_none(data)


def _ours(of: Members) -> Members:
    """What our own exporter says beside a step, a call or a result."""
    return members(members(of.get("extra")).get(OURS))


def _reasoned(step: Members) -> list[Members]:
    content = step.get("reasoning_content")
    return [{"type": "reasoning", "content": content}] if is_text(content) and content else []


def _said(content: Any) -> list[Members]:
    """A message or the content of a result as parts."""
    return [_part(block) for block in content] if type(content) is list else text_part(content)


def _part(block: Any) -> Members:
    shape = members(block)
    if shape.get("type") == "text" and is_text(shape.get("text")):
        return {"type": "text", "content": shape["text"]}
    source = members(shape.get("source"))
    if shape.get("type") in ("image", "audio") and type(source.get("path")) is str:
        return media_part(shape["type"], source.get("media_type"), source["path"])
    return part_of(block)


def _calls(step: Members) -> list[Members]:
    return [_call(call) for call in items(step.get("tool_calls"))]


def _call(call: Any) -> Members:
    shape = members(call)
    if not shape:
        return part_of(call)
    arguments = shape.get("arguments")
    if _ours(shape).get("wrapped") is True:
        arguments = members(arguments).get("value")
    return call_part(shape.get("tool_call_id"), shape.get("function_name"), arguments)


def _results(step: Members) -> list[Members]:
    """The results of a step's observation; those that name no call go to the step's last calls that have none."""
    results = [members(result) for result in items(members(step.get("observation")).get("results"))]
    named = {result["source_call_id"] for result in results if type(result.get("source_call_id")) is str}
    calls = [members(call).get("tool_call_id") for call in items(step.get("tool_calls"))]
    free = [call for call in calls if type(call) is str and call not in named]
    nameless = [r for r in results if r.get("source_call_id") is None and r.get("content") is not None]
    owners = dict(zip(map(id, reversed(nameless)), reversed(free), strict=False))
    parts = [_result(result, result.get("source_call_id") or owners.get(id(result))) for result in results]
    return [part for part in parts if part is not None]


def _result(result: Members, call: Any) -> Members | None:
    content, extra = result.get("content"), members(result.get("extra"))
    if content is None and call is None:
        # Only names a sub-agent.
        return None
    ours = _ours(result)
    if "response" in ours:
        content = ours["response"]
    response = _said(content) if type(content) is list and "response" not in ours else content
    part = response_part(call, response, extra.get("is_error"))
    return {**part, "code": ours["code"]} if text(ours, "code") else part


def _usage(metrics: Members) -> Members:
    extra = members(metrics.get("extra"))
    return usage(
        metrics.get("prompt_tokens"),
        metrics.get("completion_tokens"),
        read=metrics.get("cached_tokens"),
        created=next((extra[name] for name in _CREATED if name in extra), None),
        reasoning=next((extra[name] for name in _REASONING if name in extra), None),
    )
