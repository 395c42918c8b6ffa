"""The data of each kind of event, built from what a caller gives, and checked (docs/events.md).

Floor 0, pure. Every function returns the event's ``data``, or raises UsageError that names what cannot be kept.
What only the journal can know, such as whether a call is open, is checked in `calls`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from gitjournal import counters, providers, rules
from gitjournal.errors import UsageError
from gitjournal.plain import kind, plain
from gitjournal.vocabulary import (
    MAX_LABEL,
    MAX_SUMMARY,
    MAX_TITLE,
    OUTCOMES,
    PRIORITIES,
    REQUIREMENTS,
    TRUST_LEVELS,
    is_label,
    is_summary,
    is_title,
    is_wider,
    source_trust,
)

Data = dict[str, Any]

#: The members of a ``session.start`` that `start` knows.
START = frozenset({"source", "trust", "project", "parent", "title", "labels"})
_ROLES = ("user", "system", "assistant", "tool")
_NOT_IN_ACTOR = re.compile(r"[^A-Za-z0-9._:@/+-]")


# --- what is said --------------------------------------------------------------------------------


def message(role: str, content: object, name: str | None = None) -> Data:
    """Of a ``message``: text, a part, or a list of them."""
    return _given(role=_one_of("role", role, _ROLES), parts=parts(content), name=_text("name", name))


def parts(content: object) -> list[dict[str, Any]]:
    """Message parts: from text, parts of ours, blocks of OpenAI and Anthropic, or objects that are such blocks."""
    found = providers.parts(plain(content, "the message"))
    if not found:
        raise UsageError("a message needs at least one part")
    return found


def response(
    content: object,
    *,
    id: str | None = None,  # noqa: A002 - the provider's word
    model: str | None = None,
    usage: object = None,
    finish_reason: str | None = None,
    provider: str | None = None,
) -> Data:
    """Of a ``model.response``: text, parts, or what an OpenAI or Anthropic client returned. What is named wins."""
    value = plain(content, "the response")
    counts = None if usage is None else plain(usage, "usage")
    data = providers.response(value, counts) if isinstance(value, dict) else None
    if data is None:
        data = {"parts": found} if (found := _spoken(value, content)) else {}
    else:
        data |= _given(**{"provider.name": _provider(content)})
    if counts is not None:
        data |= counters.usage(counts)
    named = {"response.id": id, "response.model": model, "finish_reason": finish_reason, "provider.name": provider}
    data |= _given(**{member: _text(member, text) for member, text in named.items()})
    if not data:
        raise UsageError("a response needs parts, an id or its usage")
    return data


def _spoken(value: Any, content: object) -> list[dict[str, Any]]:
    if value is None:
        return []
    if isinstance(value, dict) and "type" not in value and not providers.is_message(value):
        raise UsageError(
            f"a {kind(content)} is no response of a kind that is known here",
            hint="Give its text or parts, and id=, model=, usage=.",
        )
    return providers.parts(value)


def _provider(content: object) -> str | None:
    """By the client that the object comes from; others speak the same shapes."""
    package = type(content).__module__.partition(".")[0]
    return package if package in ("openai", "anthropic") else None


def error(what: str | BaseException, kind: str | None = None, where: str | None = None) -> Data:
    """Of an ``error``: a text or an exception, whose class is then its kind."""
    if isinstance(what, BaseException):
        kind = kind or type(what).__name__
        what = shown(what)
    return _given(message=_needed("message", what), where=_text("where", where), **{"error.type": _text("type", kind)})


def shown(error: BaseException) -> str:
    """What an exception says, as text that an event can hold."""
    try:
        text = str(error) or type(error).__name__
    except Exception:
        text = f"{type(error).__name__}, which cannot be printed"
    return text.encode("utf-8", "backslashreplace").decode()


# --- tools ---------------------------------------------------------------------------------------


def call(id: str, name: str, arguments: object, requires: str | None) -> Data:  # noqa: A002 - the event's word
    """Of a ``tool.call``."""
    if requires is not None:
        _one_of("requires", requires, REQUIREMENTS)
    known = _given(id=_needed("id", id), name=_needed("name", name), requires=requires)
    return known if arguments is None else known | {"arguments": plain(arguments, "the arguments")}


def result(id: str, value: object, *, is_error: bool, code: str | None) -> Data:  # noqa: A002 - the event's word
    """Of a ``tool.result``."""
    _flag("is_error", is_error)
    data: Data = {"id": _needed("id", id), "response": plain(value, "the result")}
    return data | _given(is_error=is_error or None, code=_text("code", code))


def confirmation(id: str, approved: bool, reason: str | None) -> Data:  # noqa: A002 - the event's word
    """Of a ``tool.confirmation``."""
    return _given(id=_needed("id", id), approved=_flag("approved", approved), reason=_text("reason", reason))


def tool_actor(name: str) -> str:
    """The actor of a tool's result."""
    return f"tool:{_NOT_IN_ACTOR.sub('_', name)}"[:100]


# --- the session ---------------------------------------------------------------------------------


def start(
    *,
    source: str | None,
    trust: str | None,
    project: str | None,
    parent: Mapping[str, Any] | None,
    title: str | None,
    labels: Iterable[str] | None,
) -> Data:
    """Of a ``session.start``. Trust follows from the source; a caller may name a narrower one, never a wider."""
    if project is not None and not project.startswith("/"):
        raise UsageError("project is not an absolute path")
    named = source is not None or trust is not None
    data = _given(
        source=_text("source", source),
        trust=(trust or source_trust(source)) if named else None,
        project=project,
        parent=None if parent is None else _parent(parent),
        title=None if title is None else _title(title),
        labels=None if labels is None or labels in ([], ()) else _labels(labels),
    )
    check_trust(data)
    return data


def check_trust(data: Mapping[str, Any]) -> None:
    """UsageError when the data of a ``session.start`` names a level that is none, or wider than its source has."""
    trust, most = data.get("trust"), source_trust(data.get("source"))
    if trust is not None and is_wider(_one_of("trust", trust, TRUST_LEVELS), most):
        raise UsageError(
            f"trust {trust} is wider than {most}, which a session has from {_source(data.get('source'))}",
            hint="A session may be trusted less than its source, never more.",
        )


def _source(source: object) -> str:
    return "an unnamed source" if source is None else f"source {source!a:.80}"


def _parent(parent: Mapping[str, Any]) -> Data:
    data: Data = plain(parent, "parent")
    if unknown := data.keys() - {"session", "branch", "seq"}:
        raise UsageError(f"parent has no member {min(unknown)!a:.80}")
    seq = data.get("seq")
    if seq is not None and not is_seq(seq):
        raise UsageError("the seq of parent is not the number of an event")
    return _given(session=_needed("session", data.get("session")), branch=_text("branch", data.get("branch")), seq=seq)


def update(
    *,
    title: str | None = None,
    summary: str | None = None,
    archived: bool | None = None,
    add_labels: Iterable[str] | None = None,
    remove_labels: Iterable[str] | None = None,
) -> Data:
    """Of a ``session.update``."""
    if summary is not None and not is_summary(summary):
        raise UsageError(f"a summary is at most {MAX_SUMMARY:,} characters of text{_length(summary)}")
    # One of white space alone would hide what is shown when there is none.
    data = _given(
        title=None if title is None else _title(title),
        summary=None if summary is None else summary.strip(),
        archived=None if archived is None else _flag("archived", archived),
        add_labels=None if add_labels is None else _labels(add_labels),
        remove_labels=None if remove_labels is None else _labels(remove_labels),
    )
    if not data:
        raise UsageError("an update changes nothing")
    return data


def _title(title: object) -> str:
    if not is_title(title):
        faulty = isinstance(title, str) and len(title) <= MAX_TITLE
        raise UsageError(
            f"a title is one line of at most {MAX_TITLE} characters, without control characters"
            + (f", not {title!a:.80}" if faulty else _length(title))
        )
    return str(title).strip()


def _length(text: object) -> str:
    return f"; this one has {len(text):,}" if isinstance(text, str) else f", not a {kind(text)}"


def _labels(labels: Iterable[str]) -> list[str]:
    if isinstance(labels, str):
        raise UsageError("labels are a list of texts, not one text")
    if not isinstance(labels, Iterable):
        raise UsageError(f"labels are a list of texts, not a {kind(labels)}")
    found = list(labels)
    for label in found:
        # One of white space alone nobody would see.
        if not is_label(label) or not label.strip():
            shown = f"{label!a:.80}" if isinstance(label, str) else f"a {kind(label)}"
            raise UsageError(f"a label is 1 to {MAX_LABEL} characters without control characters, not {shown}")
    if not found:
        raise UsageError("no label was given")
    return sorted({label.strip() for label in found})


def checkpoint(state: Mapping[str, Any]) -> Data:
    """Of a ``session.checkpoint``: the whole of it, which replaces the one before."""
    data = plain(state, "the checkpoint")
    if not isinstance(data, dict):
        raise UsageError(f"a checkpoint is an object with members, not a {kind(state)}")
    return data


def resource(id: str, action: str, **about: str | None) -> Data:  # noqa: A002 - the event's word
    """Of a ``session.resource``; ``about``: type, uri and name."""
    known = {name: _text(name, text) for name, text in about.items()}
    return _given(id=_needed("id", id), action=action, **known)


def reason(text: str | None) -> Data:
    """Of a ``session.terminate`` or ``session.interrupt``."""
    return _given(reason=_text("reason", text))


def turn_end(outcome: str, message: str | None) -> Data:
    """Of a ``turn.end``."""
    return _given(outcome=_one_of("outcome", outcome, OUTCOMES), message=_text("message", message))


# --- wakes ---------------------------------------------------------------------------------------


def wake(due: str | datetime, reason: str, *, note: str | None, key: str | None, priority: str | None) -> Data:
    """Of a ``session.wake``; ``due`` is a ``ts`` or a datetime with its zone."""
    if priority is not None:
        _one_of("priority", priority, PRIORITIES)
    said = {"note": _text("note", note), "key": _text("key", key), "priority": priority}
    return _given(due=_moment(due), reason=_needed("reason", reason), **said)


def _moment(due: object) -> str:
    if isinstance(due, datetime):
        if due.utcoffset() is None:
            raise UsageError("due is a time without a zone", hint="For example datetime.now(UTC).")
        try:
            due = f"{due.astimezone(UTC):%Y-%m-%dT%H:%M:%S}.{due.microsecond // 1000:03d}Z"
        except OverflowError:
            # In UTC it is before year 1, or after 9999.
            due = None
    if not rules.is_ts(due):
        raise UsageError("due is not a datetime, nor a UTC time like 2026-01-02T03:04:05.678Z, from 1970 on")
    return str(due)


def wake_done(seqs: Iterable[int]) -> Data:
    """Of a ``session.wake_done``."""
    found = list(seqs)
    if not found or not all(map(is_seq, found)):
        raise UsageError("seqs are the numbers of the events of wakes")
    return {"seqs": sorted(set(found))}


# --- what they share -----------------------------------------------------------------------------


def _given(**members: Any) -> Data:
    """The members that have a value: one without is left out."""
    return {name: value for name, value in members.items() if value is not None}


def _text(name: str, value: Any) -> str | None:
    if value is not None and type(value) is not str:
        raise UsageError(f"{name} is a {kind(value)}, not text")
    return value


def _needed(name: str, value: Any) -> str:
    if not _text(name, value):
        raise UsageError(f"{name} is missing or empty")
    return str(value)


def _flag(name: str, value: Any) -> bool:
    if type(value) is not bool:
        raise UsageError(f"{name} is a {kind(value)}, not True or False")
    return value


def _one_of(name: str, value: Any, allowed: tuple[str, ...]) -> str:
    if type(value) is not str or value not in allowed:
        shown = f"{value!a:.80}" if isinstance(value, str) else f"a {kind(value)}"
        raise UsageError(f"{name} is {shown}, not one of {', '.join(allowed)}")
    return value


def is_seq(value: object) -> bool:
    """Whether a value can be the number of an event."""
    return type(value) is int and 1 <= value <= rules.MAX_SEQ
