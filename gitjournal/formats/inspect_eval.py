"""Logs of Inspect (docs/formats/inspect.md): ``.eval`` archives, and the same as one JSON document.

Each sample is a session: its messages, and the events of its transcript. What is said of the whole evaluation is a
session as well, from which the samples were begun.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from io import BytesIO
from pathlib import PurePosixPath
from typing import Any

from gitjournal.formats import chat, zipped
from gitjournal.formats.document import MAX_DOCUMENT, DocumentFormat, Opened, around, document
from gitjournal.formats.generic import Records
from gitjournal.formats.mapping import ObjectMapper
from gitjournal.formats.protocol import About, Head, Item, Source, Strand, mapped
from gitjournal.formats.records import Record, records
from gitjournal.formats.report import ImportReport
from gitjournal.formats.shapes import (
    Mapped,
    Members,
    beginning,
    is_text,
    items,
    members,
    native,
    text,
    tool_actor,
    usage,
    whole,
    without_none,
)
from gitjournal.formats.times import to_ts
from gitjournal.vocabulary import is_title

NAME = "inspect"
_HEADERS = ("header.json", "_journal/start.json")
_SAMPLE: Opened = frozenset({("messages",), ("events",)})
_ATTACHMENT = re.compile("attachment://([0-9a-f]{1,64})")
_DEPTH = 40


class InspectEval(DocumentFormat):
    """Reads logs of evaluations."""

    name = NAME
    opened = frozenset({("samples",)})

    def sniff(self, head: Head) -> bool:
        """Whether it is an archive with the names of a log, or a document that begins as one."""
        if head.raw.startswith(zipped.MAGIC):
            return head.path.suffix == ".eval" or b"_journal/start.json" in head.raw
        found = beginning(head.raw)
        return text(members(found.get("eval")), "task") is not None and {"version", "status"} <= found.keys()

    def about(self, found: Iterator[Record], source: Source) -> About:
        """The evaluation: its id, its task."""
        return _about_eval(around(found))

    def read(self, found: Iterator[Record], report: ImportReport, source: Source) -> Iterator[Item]:
        """The evaluation: its samples are sessions of their own, and here only native records."""
        return mapped(_Mapper(report, (), whole_log=True), found)

    def strands(self, source: Source) -> Iterator[Strand]:
        """The evaluation, then its samples."""
        if source.head().raw.startswith(zipped.MAGIC):
            yield from self._archived(source)
            return
        main = next(iter(super().strands(source)))
        yield main
        for record in main.records():
            if record.at[:1] == ("samples",) and not record.fragment and members(record.value):
                yield _sample(record.raw, main.about.session or source.stem, main.about.start)

    def _archived(self, source: Source) -> Iterator[Strand]:
        with zipped.opened(source) as archive:
            names, hidden = archive.names, archive.hidden
            header = next((archive.read(name, MAX_DOCUMENT) for name in _HEADERS if name in names), b"")
            about = _about_eval(members(next((record.value for record in Records().cut(BytesIO(header))), None)))
            session = about.session or source.stem
            samples = [name for name in names if _is_sample(name)]
            rest = [name for name in names if not _is_sample(name)]
            yield Strand(
                About(session, about.start),
                lambda: _members_of(source, rest),
                lambda found, report: self._read_rest(found, report, source, hidden),
                exact=False,
            )
            for name in samples:
                raw = archive.read(name, MAX_DOCUMENT)
                if len(raw) <= MAX_DOCUMENT:
                    yield _sample(raw, session, about.start, PurePosixPath(name).stem)
                else:
                    yield self._huge(source, name, session)

    def _read_rest(self, found: Iterator[Record], report: ImportReport, source: Source, hidden: int) -> Iterator[Item]:
        if hidden:
            report.notes.append(f"members with the name of a later one, left out: {hidden}")
        return self.read(found, report, source)

    def _huge(self, source: Source, name: str, session: str) -> Strand:
        """A sample that is too long to be looked into."""
        return Strand(
            About(f"{session}.{PurePosixPath(name).stem}", {"parent": {"session": session}}),
            lambda: _members_of(source, [name]),
            lambda found, report: self.read(found, report, source),
            exact=False,
        )


def _is_sample(name: str) -> bool:
    return name.startswith("samples/") and name.endswith(".json")


def _members_of(source: Source, names: Iterable[str]) -> Iterator[Record]:
    """The members of an archive that are no samples, each one record; their names are their places."""
    number = offset = 0
    with zipped.opened(source) as archive:
        for name in names:
            raw = archive.read(name, MAX_DOCUMENT)
            for record in Records().cut(BytesIO(raw)) if len(raw) <= MAX_DOCUMENT else records(archive.stream(name)):
                number += 1
                yield record._replace(number=number, offset=offset, at=(name,))
                offset += len(record.raw)


def _about_eval(root: Members) -> About:
    about = members(root.get("eval"))
    own = next((text(about, name) for name in ("eval_id", "run_id", "task_id") if text(about, name)), None)
    task = text(about, "task")
    return About(own, without_none({"title": task if is_title(task) else None}))


def _sample(raw: bytes, session: str, start: Any, stem: str = "") -> Strand:
    """The strand of a sample. Its bytes are read again when they are asked for."""
    found = document(raw, _SAMPLE) or list(Records().cut(BytesIO(raw)))
    root: Members = {}
    for record in found:
        if record.fragment:
            root.update(record.value)
    name, epoch = root.get("id"), root.get("epoch")
    number = f"{name}.{epoch}" if name is not None else stem or "sample"
    title = f"{start.get('title', 'sample')}: {name}, epoch {epoch}"
    about = {"parent": {"session": session}, "title": title if name is not None and is_title(title) else None}

    def read(again: Iterator[Record], report: ImportReport) -> Iterator[Item]:
        whole_sample = list(again)
        return mapped(_Mapper(report, whole_sample), iter(whole_sample))

    return Strand(
        About(text(root, "uuid") or f"{session}.{number}", without_none(about)), lambda: iter(found), read, exact=False
    )


class _Mapper(ObjectMapper):
    """Maps the records of a sample, or of what stands around the samples."""

    def __init__(self, report: ImportReport, found: Iterable[Record], *, whole_log: bool = False) -> None:
        super().__init__(NAME, report)
        self._whole_log = whole_log
        self._attachments: Members = {}
        #: When the model said what: by the id of the message.
        self._moments: dict[str, Any] = {}
        self._spent = False
        #: When the sample began.
        self._started: Any = None
        for record in found:
            if record.fragment:
                self._attachments |= members(record.value.get("attachments"))
                self._started = self._started or record.value.get("started_at")
            elif record.at[:1] == ("events",):
                self._look(members(record.value))

    def _look(self, event: Members) -> None:
        own = _message_id(event)
        if own is not None:
            self._moments[own] = event.get("completed") or event.get("timestamp")
        self._spent = self._spent or bool(members(members(event.get("output")).get("usage")))

    def moment(self, of: Members) -> Any:
        """The time of an event; a message has that of the event that made it."""
        if "epoch" in of or "eval" in of:
            return self._started or members(of.get("eval")).get("created")
        own = text(of, "id")
        found = of.get("timestamp") or (self._moments.get(own) if own is not None else None)
        # Some events count the seconds since the sample began; that is no time.
        return found if to_ts(found) is not None or is_text(found) else None

    def mapped(self, record: Record, of: Members) -> Mapped:
        """See `ObjectMapper.mapped`."""
        place = record.at[0] if record.at and not record.fragment else ""
        if self._whole_log:
            kind = str(place) or "eval"
            return native(NAME, "sample" if kind == "samples" else kind, of)
        if place == "messages":
            return self._message(members(self._resolved(of, 0)))
        return self._event(of) if place == "events" else self._around(of)

    def _resolved(self, value: Any, depth: int) -> Any:
        """A value with what stands for an attachment replaced by it. An attachment is not looked into."""
        if type(value) is str:
            match = _ATTACHMENT.fullmatch(value)
            found = self._attachments.get(match[1]) if match else None
            return found if is_text(found) else value
        if depth > _DEPTH:
            return value
        if type(value) is list:
            return [self._resolved(item, depth + 1) for item in value]
        if type(value) is dict:
            return {name: self._resolved(item, depth + 1) for name, item in value.items()}
        return value

    def _message(self, of: Members) -> Mapped:
        role = text(of, "role")
        kind, data, actor = self._said(of, role)
        return (
            kind,
            {**data, "native": without_none({"type": role, "id": text(of, "id"), "source": text(of, "source")})},
            actor,
        )

    def _said(self, of: Members, role: str | None) -> Mapped:
        if role == "assistant":
            parts = chat.content(of.get("content")) + chat.calls(of)
            for part in parts:
                self.remember(part.get("id"), part.get("name"))
            data = {"parts": parts, "response.id": text(of, "id"), "response.model": text(of, "model")}
            return "model.response", without_none(data), "assistant"
        if role == "tool":
            error = members(of.get("error"))
            part = chat.result(of, True if error else None)
            if error and not part["response"]:
                part["response"] = error.get("message")
            return "tool.result", {"parts": [part]}, tool_actor(text(of, "function") or self.called(part["id"]))
        if role in ("user", "system"):
            return chat.prompt(role, of)
        return native(NAME, "message", of)

    def _event(self, of: Members) -> Mapped:
        kind = text(of, "event") or "event"
        own = without_none({"type": kind, "id": text(of, "uuid"), "span": text(of, "span_id")})
        if kind == "model":
            output = members(of.get("output"))
            data: Members = {"parts": [], "response.id": _message_id(of), "request.model": text(of, "model")}
            data["response.model"] = text(output, "model")
            if spent := members(output.get("usage")):
                data |= {"usage": _usage(spent), "native_usage": spent}
            return "model.response", {**without_none(data), "native": own}, "assistant"
        if kind == "error":
            message = text(members(of.get("error")), "message") or "error"
            return "error", {"error.type": "inspect", "message": message, "native": own}, "host"
        name, data, actor = native(NAME, f"event/{kind}", of, ("event", "uuid", "span_id", "timestamp"))
        return name, {**data, "native": own}, actor

    def _around(self, of: Members) -> Mapped:
        """A piece around the arrays: an error that ended the sample, or what it used if no event says so."""
        spent = [members(one) for one in members(of.get("model_usage")).values()]
        if spent and not self._spent:
            counted = [_usage(one) for one in spent]
            total = {name: sum(one.get(name, 0) for one in counted) for one in counted for name in one}
            model = next(iter(of["model_usage"])) if len(spent) == 1 else None
            data = {"parts": [], "response.model": model, "usage": total, "native_usage": of["model_usage"]}
            return "model.response", without_none(data), "assistant"
        if error := text(members(of.get("error")), "message"):
            return "error", {"error.type": "inspect", "message": error}, "host"
        return native(NAME, "sample", of)


def _message_id(event: Members) -> str | None:
    """The id of the message that a call of a model gave."""
    choices = items(members(event.get("output")).get("choices"))
    return text(members(members(choices[0]).get("message")), "id") if choices else None


def _usage(native_usage: Members) -> Members:
    """Counters of a response. Providers differ in whether the input includes the cache; the total tells."""
    given, made, total = (whole(native_usage.get(name)) for name in ("input_tokens", "output_tokens", "total_tokens"))
    read, created = (whole(native_usage.get(f"input_tokens_cache_{name}")) for name in ("read", "write"))
    apart = (given or 0) + (read or 0) + (created or 0)
    if total is not None and total == (made or 0) + (given or 0):
        apart = given or 0
    known = given is not None or read is not None or created is not None
    return usage(
        apart if known else None, made, read=read, created=created, reasoning=native_usage.get("reasoning_tokens")
    )
