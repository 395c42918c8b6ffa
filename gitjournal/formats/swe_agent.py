"""Trajectories of SWE-agent and mini-swe-agent (docs/formats/swe-agent.md): one JSON document each.

SWE-agent says everything twice: in ``trajectory``, step by step with the whole prompt of each, and in ``history``, as
messages. The messages are shown, and the steps only where there are none.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gitjournal.formats import chat
from gitjournal.formats.document import DocumentFormat, around
from gitjournal.formats.mapping import ObjectMapper
from gitjournal.formats.protocol import About, Head, Item, Source, mapped
from gitjournal.formats.records import Record
from gitjournal.formats.report import ImportReport
from gitjournal.formats.shapes import (
    Mapped,
    Members,
    beginning,
    call_part,
    is_text,
    items,
    members,
    native,
    opened,
    response_part,
    text,
    text_part,
    tool_actor,
    usage,
    without_none,
)

NAME = "swe-agent"
_MINI = "mini-swe-agent"
_SUFFIXES = (".traj", ".traj.json")
#: How mini-swe-agent begins what it tells the model of a command, unless it is told otherwise.
_OUTPUT = "<returncode>"


class SweAgent(DocumentFormat):
    """Reads trajectories of both programs."""

    name = NAME
    opened = frozenset({(), ("trajectory",), ("history",), ("messages",)})
    grows = True

    def sniff(self, head: Head) -> bool:
        """Whether the members are those of a trajectory; a bare list of messages needs the name of one as well."""
        found = beginning(head.raw)
        if str(found.get("trajectory_format", "")).startswith(_MINI) or "mini_version" in members(found.get("info")):
            return True
        named = head.path.name.endswith(_SUFFIXES)
        if not found:
            return named and head.raw.lstrip()[:1] == b"["
        if named and type(found.get("messages")) is list:
            return True
        steps = items(found.get("trajectory"))
        if steps:
            return {"action", "observation"} <= members(steps[0]).keys()
        return named and b'"trajectory"' in head.raw

    def comes_again(self, was: Record, now: Record) -> bool:
        """See `RecordFormat.comes_again`: what stands around the arrays, unless tokens are counted there."""
        return now.fragment and not any(_spent(members(now.value)).values())

    def about(self, found: Iterator[Record], source: Source) -> About:
        """The instance that was worked on, and the program's version."""
        root = _root(list(found))
        info = members(root.get("info"))
        mini = text(info, "mini_version")
        start = {
            "agent.name": _MINI if mini or "messages" in root["arrays"] or () in root["arrays"] else NAME,
            "agent.version": mini or text(info, "swe_agent_version"),
        }
        return About(text(root, "instance_id"), without_none(start))

    def read(self, found: Iterator[Record], report: ImportReport, source: Source) -> Iterator[Item]:
        """See `RecordFormat.read`."""
        whole_document = list(found)
        return mapped(_Mapper(report, _root(whole_document)), iter(whole_document))


def _root(found: list[Record]) -> Members:
    """The members around the arrays, and as ``arrays`` which of those have elements."""
    root = around(found)
    root["arrays"] = {
        record.at[0] if len(record.at) > 1 else () for record in found if record.at and not record.fragment
    }
    return root


def _spent(around: Members) -> Members:
    """The tokens of the whole run, which only stand around the arrays."""
    stats = members(members(around.get("info")).get("model_stats"))
    return usage(stats.get("tokens_sent"), stats.get("tokens_received"))


def _model(root: Members) -> str | None:
    """The model that was asked, as the configuration names it."""
    config = members(members(root.get("info")).get("config"))
    replay = members(opened(root.get("replay_config")))
    asked = (
        text(members(config.get("model")), "model_name"),
        text(members(members(replay.get("agent")).get("model")), "name"),
    )
    return next(filter(None, asked), None)


class _Mapper(ObjectMapper):
    """Maps the records of one trajectory."""

    def __init__(self, report: ImportReport, root: Members) -> None:
        super().__init__(NAME, report)
        self._model = _model(root)
        self._steps_only = not {"history", "messages", ()} & root["arrays"]
        self._answered = False

    def moment(self, of: Members) -> Any:
        """The time of a message, which only mini-swe-agent writes."""
        return members(of.get("extra")).get("timestamp")

    def mapped(self, record: Record, of: Members) -> Mapped:
        """See `ObjectMapper.mapped`."""
        if record.fragment:
            return self._around(of)
        if record.at[:1] == ("trajectory",):
            return (
                self._step(of) if self._steps_only else native(NAME, "step", of, ("response", "thought", "observation"))
            )
        kind, data, actor = self._message(of)
        told = {"type": of.get("role"), "message_type": text(of, "message_type"), "agent": text(of, "agent")}
        demo = True if of.get("is_demo") is True else None
        return kind, {**data, "native": without_none({**told, "demo": demo})}, actor

    def _around(self, of: Members) -> Mapped:
        """What stands around the arrays."""
        info = members(of.get("info"))
        stats, spent = members(info.get("model_stats")), _spent(of)
        if not any(spent.values()):
            return native(NAME, "run", info or of)
        data: Members = {"parts": [], "response.model": self._model, "usage": spent, "native_usage": stats}
        return "model.response", {**without_none(data), "native": {"type": "run"}}, "assistant"

    def _step(self, of: Members) -> Mapped:
        """A step of SWE-agent without a history: what the model said, what was done, and what came of it."""
        parts = text_part(of.get("response")) or text_part(of.get("thought"))
        if is_text(of.get("action")) and of["action"]:
            parts.append(call_part(None, "shell", {"command": of["action"]}))
            parts.append(response_part(None, of.get("observation")))
        data = {"parts": parts, "response.model": self._model, "native": {"type": "step"}}
        return "model.response", without_none(data), "assistant"

    # --- messages --------------------------------------------------------------------------------

    def _message(self, of: Members) -> Mapped:
        role, after_answer = text(of, "role"), self._answered
        self._answered = role == "assistant"
        if role == "assistant":
            return self._response(of)
        if role == "tool" or (role == "user" and _is_output(of, after_answer)):
            return self._output(of)
        if role in ("user", "system"):
            return chat.prompt(role, of)
        return native(NAME, str(role or "message"), of)

    def _response(self, of: Members) -> Mapped:
        extra = members(of.get("extra"))
        answer = members(extra.get("response"))
        parts = chat.reasoning(of) + chat.content(of.get("content")) + self._called(of, extra)
        data: Members = {
            "parts": parts,
            "response.id": text(answer, "id"),
            "response.model": text(answer, "model") or self._model,
            "finish_reason": text(members(next(iter(items(answer.get("choices"))), None)), "finish_reason"),
        }
        if spent := members(answer.get("usage")):
            data |= {"usage": chat.counters(spent), "native_usage": spent}
        return "model.response", without_none(data), "assistant"

    def _called(self, of: Members, extra: Members) -> list[Members]:
        """The calls of a response: as the model's interface has them, else as the program has read them in its text."""
        found = chat.calls(of)
        for call in found:
            self.remember(call.get("id"), call.get("name"))
        if found:
            return found
        actions = [members(action).get("command", action) for action in items(extra.get("actions"))]
        actions += [of["action"]] if is_text(of.get("action")) and of["action"] else []
        return [call_part(None, "shell", {"command": command}) for command in actions]

    def _output(self, of: Members) -> Mapped:
        ids = items(of.get("tool_call_ids"))
        own = of.get("tool_call_id") if len(ids) != 1 else ids[0]
        part = chat.result({**of, "tool_call_id": own})
        return "tool.result", {"parts": [part]}, tool_actor(self.called(part["id"]))


def _is_output(of: Members, after_answer: bool) -> bool:
    """Whether a message with the role of the user is what a command has printed."""
    if text(of, "message_type") == "observation" or "returncode" in members(of.get("extra")):
        return True
    return after_answer and type(of.get("content")) is str and of["content"].startswith(_OUTPUT)
