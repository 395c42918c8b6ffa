"""The journal of the course: one file of lines for a session, its words are Polish (docs/formats/course.md)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, ClassVar

from gitjournal.formats.mapping import ObjectMapper
from gitjournal.formats.protocol import About, Head, RecordFormat, Source
from gitjournal.formats.records import Record
from gitjournal.formats.report import ImportReport
from gitjournal.formats.shapes import (
    Mapped,
    Members,
    is_text,
    native,
    text,
    text_part,
    tool_actor,
    usage,
    whole,
    without_none,
)

NAME = "course"
_KINDS = frozenset({
    "sesja.start", "wiadomosc", "model.odpowiedz", "narzedzie.wywolanie", "narzedzie.wynik", "blad", "kompakcja",
    "galaz",
})  # fmt: skip
_ENVELOPE = frozenset({"seq", "ts", "typ"})
_ROLES = {"uzytkownik": "user", "użytkownik": "user", "asystent": "assistant", "narzedzie": "tool", "narzędzie": "tool"}
_ACTORS = {"user": "user", "assistant": "assistant"}
#: Results that say in a word how it went.
_WORDS = {"ok": False, "blad": True, "błąd": True, "error": True}


def _is_event(of: Any) -> bool:
    return type(of) is dict and type(of.get("seq")) is int and type(of.get("typ")) is str and of["typ"] in _KINDS


class Course(RecordFormat):
    """Reads and writes the session files of the course."""

    name = NAME

    def sniff(self, head: Head) -> bool:
        """Whether one of the first lines is an event of the course."""
        return any(map(_is_event, head.values))

    def about(self, found: Iterator[Record], source: Source) -> About:
        """The file is called like the session, with ``~`` for ``:``. No event says the id."""
        return About(source.path.stem.replace("~", ":") or None)

    def mapper(self, report: ImportReport, source: Source) -> ObjectMapper:
        """See `RecordFormat.mapper`."""
        return _Mapper(NAME, report)


class _Mapper(ObjectMapper):
    """Maps the events of one file, in order."""

    KEPT = ("_said",)

    def __init__(self, name: str, report: ImportReport) -> None:
        super().__init__(name, report)
        #: The ``seq`` of the events that the context has an entry of, in order.
        self._said: list[int] = []

    def moment(self, of: Members) -> Any:
        """The event's ``ts``."""
        return of.get("ts")

    def mapped(self, record: Record, of: Members) -> Mapped:
        """See `ObjectMapper.mapped`."""
        kind, seq = text(of, "typ") or "unknown", whole(of.get("seq"))
        self.note(record, None if seq is None else str(seq), None)
        handler = self._HANDLERS.get(kind)
        event, data, actor = (handler(self, of) if handler else None) or native(NAME, kind, of, _ENVELOPE)
        if event in ("message", "model.response", "tool.call", "tool.result"):
            self._said.append(seq or 0)
        marks = {"type": kind, "id": seq, "ms": whole(of.get("ms")), "kod": of.get("kod") if "kod" in of else None}
        data["native"] = without_none(marks)
        return event, data, actor

    # --- by type: None when the shape does not fit -----------------------------------------------

    def _message(self, of: Members) -> Mapped | None:
        role = text(of, "rola")
        if role is None or not is_text(of.get("tresc")):
            return None
        role = _ROLES.get(role, role)
        return "message", {"role": role, "parts": text_part(of["tresc"])}, _ACTORS.get(role, "host")

    def _response(self, of: Members) -> Mapped | None:
        if not is_text(of.get("tresc")):
            return None
        counts = {name: of[name] for name in ("tokeny_we", "tokeny_wy") if name in of}
        data: Members = {"parts": text_part(of["tresc"]), "response.model": text(of, "model")}
        if counts:
            data["usage"] = usage(counts.get("tokeny_we"), counts.get("tokeny_wy"))
            data["native_usage"] = counts
        return "model.response", without_none(data), "assistant"

    def _call(self, of: Members) -> Mapped | None:
        call, name = _id(of), text(of, "narzedzie")
        if call is None or name is None:
            return None
        self.remember(call, name)
        return "tool.call", without_none({"id": call, "name": name, "arguments": of.get("argumenty")}), "assistant"

    def _result(self, of: Members) -> Mapped | None:
        call, code = _id(of), of.get("kod")
        if call is None:
            return None
        failed = code != 0 if type(code) is int else _WORDS.get(code) if type(code) is str else None
        data = {"id": call, "response": of.get("tresc"), "is_error": failed}
        return "tool.result", without_none(data), tool_actor(self.called(call))

    def _error(self, of: Members) -> Mapped | None:
        if not is_text(of.get("what")):
            return None
        where = of.get("where")
        return "error", without_none({"message": of["what"], "where": where if is_text(where) else None}), "host"

    def _compaction(self, of: Members) -> Mapped | None:
        """What was left out, as a number of entries that stay: seqs of another file mean nothing here."""
        first, last, keep = (whole(of.get(name)) for name in ("od_seq", "do_seq", "zachowaj_ostatnie"))
        parts = text_part(of.get("streszczenie"))
        if not parts or (self._said and first is not None and first > self._said[0]):
            return None
        after = sum(seq > last for seq in self._said) if last is not None else 0
        return "context.compaction", {"summary": parts, "keep_last": max(after, keep or 0)}, "host"

    _HANDLERS: ClassVar[dict[str, Callable[[_Mapper, Members], Mapped | None]]] = {
        "wiadomosc": _message,
        "model.odpowiedz": _response,
        "narzedzie.wywolanie": _call,
        "narzedzie.wynik": _result,
        "blad": _error,
        "kompakcja": _compaction,
    }


def _id(of: Members) -> str | None:
    """A call's id; the course lets it be a number."""
    value = of.get("id")
    return str(value) if type(value) is int else text(of, "id")
