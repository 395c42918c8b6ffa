"""The events of agentsessions journals: protocol buffers into the JSON form that their hashes are made of.

The journal keeps an event as protocol buffers, and hashes its proto3-JSON in canonical form (RFC 8785). So reading one
and checking its hash is the same work. Only what these events use is here; the wire form is that of proto3.
"""

from __future__ import annotations

import base64
import math
import struct
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Any, NamedTuple

from gitjournal import canonical

Members = dict[str, Any]


class Field(NamedTuple):
    """A field of a message: its name, its type, how often it occurs, and which others it drives out."""

    name: str
    #: ``string``, ``bytes``, ``int32``, ``int64``, ``bool``, or the name of an enum or message.
    type: str
    repeated: bool = False
    #: Fields of the same name here exclude each other; such a field is shown even when it is empty.
    oneof: str = ""
    #: Whether it is shown when it is 0, once it was set.
    present: bool = False


def _body(*fields: tuple[int, str, str]) -> dict[int, Field]:
    return {number: Field(name, kind, oneof="body") for number, name, kind in fields}


def _plain(*fields: str) -> dict[int, Field]:
    """Fields that are numbered from 1 on, as ``name:type``; without a type it is a string."""
    split = [field.partition(":") for field in fields]
    return {number: Field(name, kind or "string") for number, (name, _, kind) in enumerate(split, 1)}


ENUMS = {
    "EventKind": (
        "EVENT_KIND_UNSPECIFIED", "EVENT_INPUT", "EVENT_MODEL_CALL", "EVENT_OUTPUT", "EVENT_TOOL_CALL",
        "EVENT_TOOL_RESULT", "EVENT_APPROVAL_REQUEST", "EVENT_APPROVAL_RESULT", "EVENT_USAGE", "EVENT_LIFECYCLE",
        "EVENT_END", "EVENT_ERROR", "EVENT_EXECUTION_START", "EVENT_PARKED",
    ),
    "Mediation": (
        "MEDIATION_UNSPECIFIED", "MEDIATION_IN_HARNESS_REPORTED", "MEDIATION_CONTROLLER_MEDIATED",
        "MEDIATION_REQUIRES_APPROVAL",
    ),
    "LifecycleKind": (
        "LIFECYCLE_UNSPECIFIED", "LIFECYCLE_SUSPEND", "LIFECYCLE_RESUME", "LIFECYCLE_FORK", "LIFECYCLE_BASELINE",
        "LIFECYCLE_CANCEL",
    ),
    "ToolResultCode": ("CODE_UNSPECIFIED", "APPROVAL_DENIED", "EXECUTOR_ERROR"),
    "ToolChoiceMode": ("MODE_UNSPECIFIED", "MODE_AUTO", "MODE_NONE", "MODE_REQUIRED"),
}  # fmt: skip

MESSAGES: dict[str, dict[int, Field]] = {
    "Event": {
        2: Field("execution_id", "string"),
        3: Field("ts", "Timestamp"),
        4: Field("schema_version", "int32"),
        7: Field("kind", "EventKind"),
        **_body(
            (8, "message", "Message"), (9, "model", "ModelCall"), (10, "tool", "ToolCall"),
            (11, "result", "ToolResult"), (12, "approval", "ApprovalRequest"),
            (13, "approval_result", "ApprovalResult"), (14, "usage", "Usage"),
            (15, "lifecycle", "Lifecycle"), (16, "end", "HarnessEnd"), (17, "error", "Error"),
            (19, "execution_start", "ExecutionStart"),
        ),
        18: Field("actor", "IdentityRef"),
    },
    "Message": {1: Field("role", "string"), 2: Field("parts", "Part", repeated=True)},
    "Part": {
        number: Field(name, kind, oneof="part")
        for number, name, kind in (
            (1, "text", "TextPart"), (2, "file", "FilePart"), (3, "data", "DataPart"),
            (4, "reasoning", "ReasoningPart"), (5, "tool_call", "ToolCall"), (6, "tool_result", "ToolResult"),
        )
    },
    "TextPart": _plain("text"),
    "FilePart": {
        1: Field("mime", "string"),
        2: Field("bytes", "bytes", oneof="source"),
        3: Field("uri", "string", oneof="source"),
        4: Field("name", "string"),
        5: Field("digest", "string"),
    },
    "DataPart": _plain("data:Struct"),
    "ReasoningPart": {
        1: Field("provider", "string"),
        2: Field("model_id", "string"),
        3: Field("opaque_bytes", "bytes", oneof="opaque"),
        4: Field("opaque_uri", "string", oneof="opaque"),
        5: Field("summary", "Part", repeated=True),
        6: Field("item_id", "string"),
        7: Field("ordinal", "int32"),
        8: Field("validity_scope", "string"),
        9: Field("opaque_digest", "string"),
    },
    "IdentityRef": _plain("principal", "issuer", "subject"),
    "ModelCall": {
        **_plain("model", "params:StringMap", "input_hash", "id"),
        5: Field("messages", "Message", repeated=True),
        6: Field("tools", "ToolDefinition", repeated=True),
        7: Field("tool_choice", "ToolChoice"),
    },
    "ToolDefinition": _plain("name", "description", "input_schema:Struct"),
    "ToolChoice": _plain("mode:ToolChoiceMode", "name"),
    "ToolCall": _plain("id", "tool", "args:Struct", "mediation:Mediation", "idempotency_key"),
    "ToolResult": {
        **_plain("id", "output:Struct", "output_uri", "is_error:bool", "error", "output_digest"),
        7: Field("content", "Part", repeated=True),
        8: Field("code", "ToolResultCode"),
        9: Field("approval_request_seq", "int64"),
        10: Field("approval_decision_seq", "int64"),
    },
    "ApprovalRequest": _plain("tool_call_id", "reason"),
    "ApprovalResult": _plain("tool_call_id", "approved:bool", "reason", "request_seq:int64"),
    "Usage": _plain("model", "input_tokens:int64", "output_tokens:int64", "reasoning_tokens:int64"),
    "Lifecycle": _plain(
        "kind:LifecycleKind", "detail", "snapshot_local", "snapshot_external_uri", "snapshot_memory:bool",
        "snapshot_sealed:bool",
    ),
    "HarnessEnd": _plain("state", "error:Error"),
    "Error": _plain("code:int32", "description"),
    "ExecutionStart": {
        1: Field("config", "bytes"),
        2: Field("resume_from_seq", "int64"),
        3: Field("input_count", "int64", present=True),
        4: Field("harness", "string"),
        5: Field("harness_version", "string"),
    },
}  # fmt: skip

_MAX_DEPTH = 100
#: A longer event, in bytes, is not decoded: a field can have two bytes, and in memory a hundred times as many.
MAX_EVENT = 4 * 1024 * 1024
# Wire types.
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_WIRE = {"string": _BYTES, "bytes": _BYTES, "int32": _VARINT, "int64": _VARINT, "bool": _VARINT}
_DEFAULTS = ("", 0, False, "0")
_ZERO_TIME = "0001-01-01T00:00:00Z"


class Decoder:
    """Decodes one event; `unknown` counts fields that are in no message here, which the hash does not cover."""

    def __init__(self) -> None:
        self.unknown = 0

    def event(self, raw: bytes) -> Members:
        """An event as proto3-JSON with the field names of the schema. ValueError when the bytes are none."""
        if len(raw) > MAX_EVENT:
            raise ValueError(f"it has more than {MAX_EVENT >> 20} MiB")
        event = self._message("Event", raw, 0)
        # Their journal never writes these two; a reader that meets them empty leaves them out.
        if event.get("actor") == {}:
            del event["actor"]
        if event.get("ts") == _ZERO_TIME:
            del event["ts"]
        return event

    def _message(self, kind: str, raw: bytes, depth: int) -> Members:
        if depth > _MAX_DEPTH:
            raise ValueError("messages nest too deep")
        fields = MESSAGES[kind]
        found: dict[int, list[Any]] = {}
        for number, wire, value in _fields(raw):
            field = fields.get(number)
            if field is None or wire != _WIRE.get(field.type, _VARINT if field.type in ENUMS else _BYTES):
                self.unknown += 1
                continue
            if field.oneof:
                for other in [n for n in found if n != number and fields[n].oneof == field.oneof]:
                    del found[other]
            found.setdefault(number, []).append(value)
        made = {fields[number].name: self._field(fields[number], values, depth) for number, values in found.items()}
        return {name: value for name, value in made.items() if value is not None}

    def _field(self, field: Field, values: list[Any], depth: int) -> Any:
        """A field's JSON value; None when it is not shown."""
        if field.repeated:
            return [self._message(field.type, value, depth + 1) for value in values]
        if field.type == "StringMap":
            return dict(sorted(map(_entry, values)))
        if field.type in MESSAGES or field.type in ("Struct", "Timestamp"):
            # A message that comes in pieces is all of them, one after the other.
            return self._single(field.type, b"".join(values), depth)
        value = _scalar(field.type, values[-1])
        return None if value in _DEFAULTS and not (field.present or field.oneof) else value

    def _single(self, kind: str, raw: bytes, depth: int) -> Any:
        if kind == "Struct":
            return _structure(raw, depth)
        return _timestamp(raw) if kind == "Timestamp" else self._message(kind, raw, depth + 1)


def content_hash(event: Members, prev: str, seq: int) -> str:
    """The hash of a record (hex): SHA-256 of its canonical JSON. ValueError for what has no canonical form."""
    return sha256(canonical.jcs({"event": event, "prev_hash": prev, "seq": str(seq)})).hexdigest()


# --- the wire ------------------------------------------------------------------------------------


def _varint(raw: bytes, at: int) -> tuple[int, int]:
    value = 0
    for n in range(10):
        if at + n >= len(raw):
            break
        value |= (raw[at + n] & 0x7F) << (7 * n)
        if raw[at + n] < 0x80:
            return value & 0xFFFFFFFFFFFFFFFF, at + n + 1
    raise ValueError("a number that is cut or too long")


def _fields(raw: bytes) -> Iterator[tuple[int, int, Any]]:
    """(number, wire type, value) of all fields of a message."""
    at = 0
    while at < len(raw):
        key, at = _varint(raw, at)
        number, wire = key >> 3, key & 7
        if not 0 < number < 1 << 29:
            raise ValueError("a field without a number")
        if wire == _VARINT:
            value: Any
            value, at = _varint(raw, at)
        elif wire in (_FIXED64, _FIXED32, _BYTES):
            size, at = _varint(raw, at) if wire == _BYTES else (8 if wire == _FIXED64 else 4, at)
            value, at = raw[at : at + size], at + size
            if at > len(raw):
                raise ValueError("a field that is cut")
        else:
            raise ValueError(f"wire type {wire}")
        yield number, wire, value


def _signed(value: int, bits: int) -> int:
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def _scalar(kind: str, value: Any) -> Any:
    if kind == "string":
        return value.decode("utf-8")
    if kind == "bytes":
        return base64.b64encode(value).decode()
    if kind == "bool":
        return value != 0
    if kind == "int64":
        return str(_signed(value, 64))
    number = _signed(value, 32)
    if kind == "int32":
        return number
    # Numbers that no name is known for stay numbers; 0 is the default of each enum.
    return ENUMS[kind][number] if 0 < number < len(ENUMS[kind]) else number


def _entry(raw: bytes) -> tuple[str, str]:
    pair = {number: value for number, wire, value in _fields(raw) if wire == _BYTES}
    return pair.get(1, b"").decode("utf-8"), pair.get(2, b"").decode("utf-8")


def _timestamp(raw: bytes) -> str:
    parts = {number: value for number, wire, value in _fields(raw) if wire == _VARINT}
    seconds, nanos = _signed(parts.get(1, 0), 64), _signed(parts.get(2, 0), 32)
    if not -62_135_596_800 <= seconds < 253_402_300_800 or not 0 <= nanos < 10**9:
        raise ValueError("a time out of range")
    text = (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)).strftime("%m-%dT%H:%M:%S")
    year = (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)).year
    digits = next(n for n in (0, 3, 6, 9) if nanos % 10 ** (9 - n) == 0)
    return f"{year:04d}-{text}" + (f".{nanos // 10 ** (9 - digits):0{digits}d}" if digits else "") + "Z"


# --- google.protobuf.Struct ----------------------------------------------------------------------


def _structure(raw: bytes, depth: int) -> Members:
    if depth > _MAX_DEPTH:
        raise ValueError("values nest too deep")
    members: Members = {}
    for number, wire, entry in _fields(raw):
        if number == 1 and wire == _BYTES:
            pair = {n: value for n, kind, value in _fields(entry) if kind == _BYTES}
            members[pair.get(1, b"").decode("utf-8")] = _value(pair.get(2, b""), depth + 1)
    return members


def _value(raw: bytes, depth: int) -> Any:
    value: Any = None
    for number, wire, found in _fields(raw):
        if number == 2 and wire == _FIXED64:
            value = struct.unpack("<d", found)[0]
            if not math.isfinite(value):
                raise ValueError("a number that JSON does not have")
        elif number == 3 and wire == _BYTES:
            value = found.decode("utf-8")
        elif number == 4 and wire == _VARINT:
            value = found != 0
        elif number == 5 and wire == _BYTES:
            value = _structure(found, depth)
        elif number == 6 and wire == _BYTES:
            value = _list(found, depth)
        elif number == 1 and wire == _VARINT:
            value = None
    return value


def _list(raw: bytes, depth: int) -> list[Any]:
    if depth > _MAX_DEPTH:
        raise ValueError("values nest too deep")
    return [_value(item, depth + 1) for number, wire, item in _fields(raw) if number == 1 and wire == _BYTES]
