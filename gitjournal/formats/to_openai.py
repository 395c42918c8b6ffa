"""Any session as chat messages of OpenAI's Chat Completions (docs/formats/openai-chat.md).

The messages can be sent again: each call's result stands directly after the message with the call.
"""

from __future__ import annotations

import json
from typing import Any, BinaryIO

from gitjournal.formats.losses import Losses
from gitjournal.formats.rendering import Counted, Said, as_text, only_text, said, url_of
from gitjournal.journal import Journal
from gitjournal.refs import Name

Members = dict[str, Any]


class ToOpenai:
    """Writes the messages as one JSON array."""

    name = "openai-chat"

    def write(self, journal: Journal, name: Name, out: BinaryIO, losses: Losses) -> int:
        """See `Rendering.write`; the number of messages."""
        messages = _messages(journal, name, losses)
        out.write(json.dumps(messages, ensure_ascii=False, indent=2).encode() + b"\n")
        return len(messages)


class ToOpenaiLines:
    """Writes one message a line."""

    name = "openai-chat-jsonl"

    def write(self, journal: Journal, name: Name, out: BinaryIO, losses: Losses) -> int:
        """See `Rendering.write`; the number of messages."""
        messages = _messages(journal, name, losses)
        for message in messages:
            out.write(json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode() + b"\n")
        return len(messages)


def _messages(journal: Journal, name: Name, losses: Losses) -> list[Members]:
    chat = _Chat(losses)
    for one in said(journal, name, losses):
        chat.take(one)
    return chat.done()


class _Turn:
    """A message, and the results of the calls in it."""

    def __init__(self, role: str, response: str | None) -> None:
        self.role = role
        self.response = response
        self.content: list[Members] = []
        self.calls: list[Members] = []
        #: By the id of the call; None while it has none.
        self.results: dict[str, Members | None] = {}

    def messages(self) -> list[Members]:
        """The message, then the results."""
        message: Members = {"role": self.role, "content": _content(self.content)}
        if self.calls:
            message["content"] = message["content"] or None
            message["tool_calls"] = self.calls
        elif not self.content:
            return []
        return [message, *(result for result in self.results.values() if result is not None)]


def _content(parts: list[Members]) -> str | list[Members]:
    if all(part["type"] == "text" for part in parts):
        return "\n\n".join(part["text"] for part in parts)
    return parts


class _Chat:
    """Puts events together to messages: the records of one response are one message."""

    def __init__(self, losses: Losses) -> None:
        self._losses = losses
        self._turns: list[_Turn] = []
        self._open: dict[str, _Turn] = {}
        self._names: dict[str, Any] = {}
        self._counted = Counted()

    def done(self) -> list[Members]:
        """All messages. A call that never got a result stays: whether to drop or to answer it is for the reader."""
        self._losses.add("open", len(self._open))
        return [message for turn in self._turns for message in turn.messages()]

    def take(self, one: Said) -> None:
        """The next event."""
        self._losses.add("usage", any(self._counted.new(one).values()))
        self._losses.add("injected", one.data.get("injected") is True)
        if one.type == "error":
            self._losses.add("errors")
            return
        turn: _Turn | None = None
        for number, part in enumerate(one.parts):
            if part.get("type") == "tool_call_response":
                self._answer(part)
                continue
            turn = turn or self._turn(one)
            if part.get("type") == "tool_call":
                self._call(one, turn, part, number)
            else:
                self._say(turn, part)

    def _turn(self, one: Said) -> _Turn:
        last = self._turns[-1] if self._turns else None
        role = {"tool": "user"}.get(one.role, one.role)
        if last is not None and last.role == role:
            response = one.text("response.id")
            same = last.response is not None and last.response == response
            if same or one.type == "tool.call" or one.data.get("continues") is True:
                return last
        self._turns.append(_Turn(role, one.text("response.id")))
        return self._turns[-1]

    def _say(self, turn: _Turn, part: Members) -> None:
        url = url_of(part)
        if part.get("type") == "text" and isinstance(part.get("content"), str):
            turn.content.append({"type": "text", "text": part["content"]})
        elif url is not None and part.get("modality") == "image" and turn.role == "user":
            turn.content.append({"type": "image_url", "image_url": {"url": url}})
        elif part.get("type") == "reasoning":
            self._losses.add("reasoning", bool(part.get("content")))
        else:
            self._losses.add("media" if part.get("type") in ("blob", "uri", "file") else "parts")

    def _call(self, one: Said, turn: _Turn, part: Members, number: int) -> None:
        call, name = part.get("id"), part.get("name")
        if isinstance(call, str) and call in self._open and self._names.get(call) == name:
            return
        if isinstance(call, str) and call:
            self._open[call], self._names[call] = turn, name
            turn.results[call] = None
        else:
            call = f"gitjournal-{one.event.seq}-{number}"
            self._losses.add("ids")
        arguments = part.get("arguments")
        # The interface has arguments as JSON text; what a model gave as text that is no JSON is passed on as it was.
        given = "{}" if arguments is None else as_text(arguments)
        function = {"name": name if isinstance(name, str) else "unknown", "arguments": given}
        turn.calls.append({"id": call, "type": "function", "function": function})

    def _answer(self, part: Members) -> None:
        call = part.get("id")
        turn = self._open.pop(call, None) if isinstance(call, str) else None
        if turn is None:
            # No provider takes a result without its call.
            self._losses.add("unmatched")
            return
        response = part.get("response")
        content = only_text(response)
        if content is None and response is not None:
            self._losses.add("responses")
            content = as_text(response)
        turn.results[str(call)] = {"role": "tool", "tool_call_id": call, "content": content or ""}
