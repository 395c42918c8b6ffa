"""Journals of agentsessions: their hashes are made again, row by row, and the mapping of each kind of event."""

from __future__ import annotations

import base64
import json
import sqlite3
import struct
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gitjournal import Journal, canonical, fold
from gitjournal.errors import ImportRefused, NotFound
from gitjournal.event import Event
from gitjournal.formats import agentsessions_proto, import_file
from gitjournal.formats.agentsessions import Agentsessions
from gitjournal.formats.agentsessions_proto import ENUMS, MESSAGES, Decoder, content_hash
from gitjournal.formats.protocol import Source
from gitjournal.formats.report import ImportReport

Json = dict[str, Any]


# --- an encoder, the other way round ---------------------------------------------------------------


def varint(value: int) -> bytes:
    value &= 0xFFFFFFFFFFFFFFFF
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def chunk(number: int, body: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(body)) + body


def struct_value(value: Any) -> bytes:
    if value is None:
        return varint(1 << 3) + b"\0"
    if isinstance(value, bool):
        return varint(4 << 3) + varint(value)
    if isinstance(value, (int, float)):
        return varint(2 << 3 | 1) + struct.pack("<d", value)
    if isinstance(value, str):
        return chunk(3, value.encode())
    if isinstance(value, list):
        return chunk(6, b"".join(chunk(1, struct_value(item)) for item in value))
    return chunk(5, struct_of(value))


def struct_of(members: Json) -> bytes:
    return b"".join(chunk(1, chunk(1, k.encode()) + chunk(2, struct_value(v))) for k, v in members.items())


def encode(kind: str, members: Json) -> bytes:
    """The wire form of a message in proto3-JSON."""
    numbers = {field.name: (number, field) for number, field in MESSAGES[kind].items()}
    out = b""
    for name, value in members.items():
        number, field = numbers[name]
        for item in value if field.repeated else [value]:
            out += encode_field(number, field.type, item)
    return out


def encode_field(number: int, kind: str, value: Any) -> bytes:
    if kind == "string":
        return chunk(number, value.encode())
    if kind == "bytes":
        return chunk(number, base64.b64decode(value))
    if kind == "Struct":
        return chunk(number, struct_of(value))
    if kind == "StringMap":
        return b"".join(chunk(number, chunk(1, k.encode()) + chunk(2, v.encode())) for k, v in value.items())
    if kind == "Timestamp":
        seconds, _, digits = value.removesuffix("Z").partition(".")
        at = int(datetime.fromisoformat(seconds + "+00:00").timestamp())
        return chunk(number, varint(1 << 3) + varint(at) + varint(2 << 3) + varint(int(digits.ljust(9, "0"))))
    if kind in ENUMS:
        return varint(number << 3) + varint(ENUMS[kind].index(value))
    if kind in MESSAGES:
        return chunk(number, encode(kind, value))
    return varint(number << 3) + varint(int(value))


def decoded(event: Json) -> Json:
    return Decoder().event(encode("Event", event))


# --- golden hashes ---------------------------------------------------------------------------------

HELLO = {"role": "assistant", "parts": [{"text": {"text": "hello"}}]}
ACTOR = {"principal": "agent://a", "issuer": "entra", "subject": "sub-1"}
START = {"kind": "EVENT_EXECUTION_START"}


def output(*parts: Json, **more: Any) -> Json:
    return {"kind": "EVENT_OUTPUT", "message": {"role": "assistant", "parts": list(parts)}, **more}


def text(value: str) -> Json:
    return {"text": {"text": value}}


BOTH = {
    "approval_decision_seq": "9007199254740994", "approval_request_seq": "9007199254740993", "code": "APPROVAL_DENIED",
    "id": "c1", "is_error": True,
}  # fmt: skip
NUMBERS = {
    "a": 2.0, "b": 1e21, "c": 1e-7, "d": -0.0, "e": 0.1, "f": 9007199254740993, "g": 1e20, "h": 333333333.33333329,
    "i": 5e-324,
}  # fmt: skip
NAMES = {"\u20ac": 1, "\r": 2, "\ufb33": 3, "1": 4, "\U0001f600": 5, "\u0080": 6, "\u00f6": 7}
GOLDEN: dict[str, tuple[Json, str]] = {
    "V1": (
        {"execution_id": "exec-1", "schema_version": 1, "ts": "2023-11-14T22:13:20Z", "kind": "EVENT_OUTPUT",
         "message": HELLO, "actor": ACTOR},
        "551bd146050c8d630b0c3b999a4445f3792a470db9bca443d8d4a67706283fcc",
    ),
    "V2": (
        {"execution_id": "exec-config", **START,
         "execution_start": {"config": "AP8gCgk=", "input_count": "2", "resume_from_seq": "9007199254740993"}},
        "aa1f42a26b7a227836d32d31608ebb69c59f3b1c57eadd8537b6faf88a01c790",
    ),
    "V3": (
        {"execution_id": "exec-default", **START, "execution_start": {"input_count": "0"}},
        "b09cbff45d5a30990c3b72be8b06af6bc509d5a29a849aab5fd42153ef10ec65",
    ),
    "V4": (
        {"execution_id": "exec-default", **START, "execution_start": {"input_count": "2"}},
        "f06c25ee5b3673ee23b8f91883c7f1c6c5682d94986caf5bc067908a61b2ac4f",
    ),
    "V5": (
        {"kind": "EVENT_TOOL_RESULT", "result": {"id": "c1"}},
        "2eddf9826b382796691c15da8ee7dd6af7b41dbab55c949f131ed2933e0b0d8e",
    ),
    "V6": (
        {"kind": "EVENT_APPROVAL_RESULT", "approval_result": {"reason": "no", "tool_call_id": "c1"}},
        "c36a909b1ea5f243536ff6b4f1770e99e47b35cb1dfb94c2e943b85a42206bea",
    ),
    "P1": ({**START, "execution_start": {}}, "024d1076d3079f481d8333dd24ef719d329a5c3c80a5db3cf65d3e94fcfe7ff1"),
    "P4": (
        {"execution_id": "e1", "kind": "EVENT_TOOL_RESULT", "result": BOTH},
        "914a8ce344beb7637d645455f02ff3afc9e83631e38dd142aed15ab352c7b52f",
    ),
    "P5": (
        {"actor": {"principal": "human"}, "execution_id": "e1", "kind": "EVENT_APPROVAL_RESULT",
         "approval_result": {"reason": "no", "request_seq": "9007199254740993", "tool_call_id": "c1"}},
        "9ead821ea56b43ce52f3759db6985ba9d19c02b1991003368ea89c8210a56d78",
    ),
    "X4": (output(text("a<b>&c\u2028d")), "e72d51480d27c023f8b81e32d046ac77bb3dfc21befc7327da8691db59b70586"),
    "X5": (
        output(text('tab\tnl\nq"b\\s/\x01\x7f')), "5e9cb6ee70c72b70a77ef92a34766df67eeaea464c390c855a93e8a70c970e62"
    ),
    "X6": (
        output({"data": {"data": NAMES}}), "0f0a86e8a493dd617982e3693ea969fde5b1b84032fc1302a56e4641952dc728"
    ),
    "X7": (
        output({"data": {"data": NUMBERS}}), "94e6d670bed401a5aa8543205347997ef3d685dc1d9142e377daa5159f2ea149"
    ),
    "X8": (
        output(text("x"), ts="2023-11-14T22:13:20.500Z"),
        "cd7ddb6ebc510c2503209c6e0661810d22a6427c4791fa8d993131fbadcf247d",
    ),
    "X9": (output({"text": {}}), "22d0e2d946e91ab7dee8e6f5ecb1c110cc0c9a3878d260506850dc5d7f138426"),
}  # fmt: skip


@pytest.mark.parametrize("name", GOLDEN)
def test_a_golden_hash_is_made_again_from_the_wire_form(name: str) -> None:
    event, expected = GOLDEN[name]
    assert content_hash(decoded(event), "", 1) == expected
    if not name.startswith("X"):
        assert decoded(event) == event


def test_the_field_numbers_are_those_on_the_wire() -> None:
    # Put together by hand from the numbers of the public schema, not by the table that is tested.
    raw = bytes.fromhex("1206") + b"exec-1" + bytes.fromhex("1a06 0880e2cfaa06") + bytes.fromhex("2001 3803")
    raw += bytes.fromhex("4216 0a09") + b"assistant" + bytes.fromhex("1209 0a07 0a05") + b"hello"
    raw += (
        bytes.fromhex("920119 0a09")
        + b"agent://a"
        + bytes.fromhex("1205")
        + b"entra"
        + bytes.fromhex("1a05")
        + b"sub-1"
    )
    event = Decoder().event(raw)
    assert event["actor"] == ACTOR and event["message"] == HELLO and event["ts"] == "2023-11-14T22:13:20Z"
    assert content_hash(event, "", 1) == GOLDEN["V1"][1]


#: Numbers of the fields, as the public schema gives them.
NUMBERED = """
Event: 2 execution_id 3 ts 4 schema_version 7 kind 8 message 9 model 10 tool 11 result 12 approval 13 approval_result
  14 usage 15 lifecycle 16 end 17 error 18 actor 19 execution_start
Message: 1 role 2 parts
Part: 1 text 2 file 3 data 4 reasoning 5 tool_call 6 tool_result
TextPart: 1 text
FilePart: 1 mime 2 bytes 3 uri 4 name 5 digest
DataPart: 1 data
ReasoningPart: 1 provider 2 model_id 3 opaque_bytes 4 opaque_uri 5 summary 6 item_id 7 ordinal 8 validity_scope
  9 opaque_digest
IdentityRef: 1 principal 2 issuer 3 subject
ModelCall: 1 model 2 params 3 input_hash 4 id 5 messages 6 tools 7 tool_choice
ToolDefinition: 1 name 2 description 3 input_schema
ToolChoice: 1 mode 2 name
ToolCall: 1 id 2 tool 3 args 4 mediation 5 idempotency_key
ToolResult: 1 id 2 output 3 output_uri 4 is_error 5 error 6 output_digest 7 content 8 code 9 approval_request_seq
  10 approval_decision_seq
ApprovalRequest: 1 tool_call_id 2 reason
ApprovalResult: 1 tool_call_id 2 approved 3 reason 4 request_seq
Usage: 1 model 2 input_tokens 3 output_tokens 4 reasoning_tokens
Lifecycle: 1 kind 2 detail 3 snapshot_local 4 snapshot_external_uri 5 snapshot_memory 6 snapshot_sealed
HarnessEnd: 1 state 2 error
Error: 1 code 2 description
ExecutionStart: 1 config 2 resume_from_seq 3 input_count 4 harness 5 harness_version
"""


def test_all_field_numbers_are_those_of_the_public_schema() -> None:
    told: dict[str, dict[int, str]] = {}
    for line in NUMBERED.replace("\n  ", " ").split("\n")[1:-1]:
        name, _, rest = line.partition(": ")
        words = rest.split()
        told[name] = {int(number): field for number, field in zip(words[::2], words[1::2], strict=True)}
    assert told == {name: {n: field.name for n, field in fields.items()} for name, fields in MESSAGES.items()}


@pytest.mark.parametrize(
    ("event", "shown"),
    [
        (output({"file": {"mime": "a/b", "bytes": ""}}), {"mime": "a/b", "bytes": ""}),
        (output({"file": {"mime": "", "uri": ""}}), {"uri": ""}),
    ],
)
def test_what_excludes_something_else_is_shown_when_it_is_empty(event: Json, shown: Json) -> None:
    assert decoded(event)["message"]["parts"] == [{"file": shown}]


def test_the_last_of_what_excludes_each_other_counts() -> None:
    both = encode("Part", {"text": {"text": "a"}}) + encode("Part", {"data": {"data": {"x": 1}}})
    raw = chunk(8, chunk(2, both))
    assert Decoder().event(raw)["message"]["parts"] == [{"data": {"data": {"x": 1.0}}}]
    assert Decoder().event(chunk(8, chunk(1, b"us")) + chunk(8, chunk(1, b"user")))["message"] == {"role": "user"}


# Journals of the released program v0.1.2: kind, text or id, content hash.
MIXED = [
    ("I", "hello", "62daf59c5c1e5062b1b0d47d5665b34aa52bf7ed0ca8a0b016af2c9827b5d8f6"),
    ("M", "3845894835dd7ca5", "699b9c3d1bd27f64999e7f16ea2f0ea520a03eadc92874ff4012f47091147bd5"),
    ("O", "hello", "61bd39e558e70e09368fdaa6d7c57e75ad2e28c4556a5d221c6d0f68556c26ec"),
    ("E", "", "f926dbb0a94376a5c8bd1bd9adb73013b1a56411f56df175946cad6b178a4874"),
    ("S", "", "40f6b0ad1e0b3db9f22ea475fdc74f38b2fef8e10a4b1996a0c204b98ab59c31"),
    ("I", "new", "a0af70c858cc1073e7e804871524971bca9ab745f04e6582b96919b035b48647"),
    ("M", "4c42ee2f6d3d2939", "1b12ec8b986c77224cd2979d87ee4cdb385621fb5af27108924705a98033da38"),
    ("O", "new", "0f3a449f84537906169b8657749baa1952607a6b8280cf83459e0804421c19b0"),
    ("E", "", "efdfe2a4c0450ca5d8f24eb0ad7a5f5f499df09e73b786e9de745c7109aff193"),
]
INPUT_HASHES = {
    "hello": "2611c24a1a665deca46265ed96d1e1efc699260c9cba9c07f22cda7939232c30",
    "new": "403e89a947b27e8d1ce3838a7481b8fc33e51c0e03489bdb745ceab8b02f260d",
}


def mixed() -> list[Json]:
    events: list[Json] = []
    said = ""
    for number, (kind, word, _) in enumerate(MIXED, 1):
        said = word if kind == "I" else said
        event: Json = {"execution_id": "721cca6eababd5be"} if number > 4 else {}
        event |= {
            "I": {"kind": "EVENT_INPUT", "message": {"role": "user", "parts": [text(word)]}},
            "M": {"kind": "EVENT_MODEL_CALL", "model": {"model": "echo", "input_hash": INPUT_HASHES[said], "id": word}},
            "O": {"kind": "EVENT_OUTPUT", "message": {"role": "assistant", "parts": [text(f"echo:{word}")]}},
            "E": {"kind": "EVENT_END", "end": {"state": "COMPLETED"}},
            "S": {"kind": "EVENT_EXECUTION_START", "execution_start": {"input_count": "1"}},
        }[kind]
        events.append(event)
    return events


# --- a journal -------------------------------------------------------------------------------------

SCHEMA = """
CREATE TABLE sessions (session TEXT PRIMARY KEY, fence INTEGER NOT NULL DEFAULT 0, project TEXT, name TEXT,
  harness TEXT, parent_uid TEXT, created_at INTEGER);
CREATE TABLE events (session TEXT NOT NULL, seq INTEGER NOT NULL, prev_hash TEXT NOT NULL, hash TEXT NOT NULL,
  fence INTEGER NOT NULL, event BLOB NOT NULL, PRIMARY KEY (session, seq));
"""


def hashed(event: Json, prev: str, seq: int) -> str:
    """The hash of a record as their page says; enough for events without odd numbers."""
    record = {"event": event, "prev_hash": prev, "seq": str(seq)}
    return sha256(json.dumps(record, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()).hexdigest()


def made(path: Path, *events: Json, session: str = "sess-1", **about: Any) -> Path:
    with sqlite3.connect(path) as database:
        if not database.execute("SELECT 1 FROM sqlite_master").fetchone():
            database.executescript(SCHEMA)
        columns = {"session": session, **about}
        names, marks = ", ".join(columns), ", ".join("?" * len(columns))
        database.execute(f"INSERT INTO sessions ({names}) VALUES ({marks})", tuple(columns.values()))
        prev = ""
        for seq, event in enumerate(events, 1):
            digest = hashed(event, prev, seq)
            row = (session, seq, prev, digest, 1, encode("Event", event))
            database.execute("INSERT INTO events VALUES (?, ?, ?, ?, ?, ?)", row)
            prev = digest
    database.close()
    return path


def events_of(journal: Journal, path: Path, session: str = "sess-1") -> list[Event]:
    report = import_file(journal, path)
    assert report.format == "agentsessions"
    return list(journal.events(session))[1:]


def one(journal: Journal, tmp_path: Path, event: Json) -> tuple[str, Any, str]:
    (found,) = events_of(journal, made(tmp_path / "one.db", event))
    data = dict(found.data)
    data.pop("native")
    return found.type, data, found.actor


def test_a_journal_of_the_released_program(journal: Journal, tmp_path: Path) -> None:
    path = made(tmp_path / "mixed.db", *mixed(), harness="echo", name="Echo", created_at=1_700_000_000_000_000_000)
    with sqlite3.connect(path) as database:
        stored = [row[0] for row in database.execute("SELECT hash FROM events ORDER BY seq")]
    assert stored == [digest for _, _, digest in MIXED]
    report = import_file(journal, path)
    assert report.notes[0] == "hash chain of the source: 9 records, all hashes and links are right"
    assert (report.session, report.records, report.added) == ("sess-1", 9, 9)
    first = journal.event("sess-1", 1)
    assert first.data == {"source": "agentsessions", "title": "Echo", "agent.name": "echo", "exact": False}
    assert first.ts == "2023-11-14T22:13:20.000Z"
    state = fold(journal.events("sess-1"))
    assert state.turns == {"user": 2, "model": 2} and state.native == 3 and not state.odd
    assert [entry["parts"][0]["content"] for entry in state.history] == ["hello", "echo:hello", "new", "echo:new"]
    again = import_file(journal, path)
    assert (again.added, again.skipped_known) == (0, 9)
    assert journal.event("sess-1", 4).data["native"]["hash"] == MIXED[2][2]
    assert journal.event("sess-1", 4).read_file(1) == encode("Event", mixed()[2])


def test_an_event_that_is_too_long_is_kept_and_not_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    raw = b"\x52\x00" * 50
    assert Decoder().event(raw) is not None
    monkeypatch.setattr(agentsessions_proto, "MAX_EVENT", 99)
    with pytest.raises(ValueError, match="more than"):
        Decoder().event(raw)


@pytest.mark.parametrize(
    ("change", "where", "why"),
    [
        ("UPDATE events SET event = (SELECT event FROM events WHERE seq = 8) WHERE seq = 3", 3, "another content"),
        ("UPDATE events SET hash = replace(hash, '6', '7') WHERE seq = 9", 9, "another content"),
        ("UPDATE events SET prev_hash = 'x' WHERE seq = 3", 3, "does not name the hash"),
        ("DELETE FROM events WHERE seq = 4", 5, "stands where 4 belongs"),
        ("UPDATE events SET event = x'0801ff' WHERE seq = 2", 2, "cannot be decoded"),
        ("UPDATE events SET event = CAST(event || x'a00101' AS BLOB) WHERE seq = 6", None, ""),
    ],
    ids=["text", "hash", "link", "removed", "torn", "field the hash does not cover"],
)
def test_a_changed_record_breaks_the_chain_where_it_is(
    journal: Journal, tmp_path: Path, change: str, where: int | None, why: str
) -> None:
    path = made(tmp_path / "mixed.db", *mixed())
    with sqlite3.connect(path) as database:
        database.execute(change)
    database.close()
    notes = [note for note in import_file(journal, path).notes if "hash chain" in note]
    if where is None:
        assert "all hashes and links are right" in notes[0]
        assert "1 records have fields" in notes[1]
        return
    assert notes[0].startswith(f"hash chain of the source: it breaks at record {where}, which ")
    assert why in notes[0]
    assert any("broken" in event.data["native"] for event in list(journal.events("sess-1"))[1:])


def test_records_that_are_moved_to_another_session_still_verify_there(journal: Journal, tmp_path: Path) -> None:
    """Their hash covers no session id: the journal that imports them is what binds them to one."""
    path = made(tmp_path / "mixed.db", *mixed())
    with sqlite3.connect(path) as database:
        database.execute("UPDATE events SET session = 'other'")
    database.close()
    report = import_file(journal, path)
    assert [one.session for one in (report, *report.others) if one.session] == ["other"]


def test_sessions_are_strands_and_forks_come_after_their_parents(journal: Journal, tmp_path: Path) -> None:
    fork = {"kind": "EVENT_LIFECYCLE", "lifecycle": {"kind": "LIFECYCLE_FORK", "detail": "parent@2"}}
    path = made(tmp_path / "two.db", *mixed()[:4], session="sess-b")
    made(path, *mixed()[:2], fork, session="sess-a", parent_uid="sess-b")
    strands = list(Agentsessions().strands(Source(path)))
    assert [(one.about.session, one.about.copied_from) for one in strands] == [("sess-b", None), ("sess-a", "sess-b")]
    assert not any(one.exact for one in strands)
    assert [record.raw for record in strands[1].records()] == [encode("Event", one) for one in (*mixed()[:2], fork)]


def test_a_fork_goes_on_from_the_history_of_its_parent(journal: Journal, tmp_path: Path) -> None:
    fork = {"kind": "EVENT_LIFECYCLE", "lifecycle": {"kind": "LIFECYCLE_FORK", "detail": "parent@4"}}
    path = made(tmp_path / "two.db", *mixed(), session="sess-b")
    made(path, *mixed()[:4], fork, mixed()[5], session="sess-a", parent_uid="sess-b")
    import_file(journal, path)
    parent, child = (list(journal.events(name)) for name in ("sess-b", "sess-a"))
    said = [entry["parts"][0]["content"] for entry in fold(child).history]
    assert said == ["hello", "echo:hello", "new"]
    assert [event.type for event in child[5:]] == ["session.fork", "native", "native", "message"]
    assert child[:5] == parent[:5]


def test_a_database_of_somebody_else_is_not_claimed(journal: Journal, tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE events (id INTEGER, event TEXT)")
    database.close()
    assert not Agentsessions().sniff(Source(path).head())
    (tmp_path / "torn.db").write_bytes(path.read_bytes()[:100])
    assert not Agentsessions().sniff(Source(tmp_path / "torn.db").head())
    with pytest.raises(ImportRefused):
        import_file(journal, tmp_path / "torn.db", format="agentsessions")
    with pytest.raises(NotFound):
        import_file(journal, tmp_path / "absent.db", format="agentsessions")


# --- the mapping, row by row -----------------------------------------------------------------------


def test_messages_of_all_roles_and_parts(journal: Journal, tmp_path: Path) -> None:
    parts: list[Json] = [
        text("hi"), {"text": {}}, {"file": {"mime": "image/png", "bytes": "AQI="}},
        {"file": {"mime": "application/pdf", "uri": "https://a/b"}}, {"data": {"data": {"a": 1}}},
        {"reasoning": {"provider": "openai", "opaque_bytes": "AQ==", "summary": [text("why")]}},
        {"tool_call": {"id": "c", "tool": "t", "args": {"x": "y"}}},
        {"tool_result": {"id": "c", "output": {"r": True}}},
    ]  # fmt: skip
    kind, data, actor = one(journal, tmp_path, {"kind": "EVENT_INPUT", "message": {"role": "system", "parts": parts}})
    assert (kind, data["role"], actor) == ("message", "system", "host")
    assert data["parts"] == [
        {"type": "text", "content": "hi"}, {"type": "text", "content": ""},
        {"type": "blob", "modality": "image", "mime_type": "image/png", "content": "AQI="},
        {"type": "uri", "modality": "document", "mime_type": "application/pdf", "uri": "https://a/b"},
        {"type": "data", "value": {"a": 1}}, {"type": "reasoning", "content": "why"},
        {"type": "tool_call", "id": "c", "name": "t", "arguments": {"x": "y"}},
        {"type": "tool_call_response", "id": "c", "response": {"r": True}, "is_error": False},
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        (
            {"kind": "EVENT_INPUT",
             "message": {"role": "tool", "parts": [{"tool_result": {"id": "c", "error": "no"}}]}},
            ("tool.result", {"parts": [
                {"type": "tool_call_response", "id": "c", "response": "no", "is_error": False}]}, "host"),
        ),
        (
            {"kind": "EVENT_TOOL_CALL", "tool": {"id": "c", "tool": "rm", "mediation": "MEDIATION_REQUIRES_APPROVAL"}},
            ("tool.call", {"id": "c", "name": "rm", "arguments": {}, "requires": "confirmation"}, "assistant"),
        ),
        (
            {"kind": "EVENT_APPROVAL_RESULT", "approval_result": {"tool_call_id": "c", "reason": "no"}},
            ("tool.confirmation", {"id": "c", "approved": False, "reason": "no"}, "user"),
        ),
        (
            {"kind": "EVENT_TOOL_RESULT", "result": {"id": "c", "is_error": True, "code": "APPROVAL_DENIED"}},
            ("tool.result", {"id": "c", "is_error": True, "code": "denied"}, "host"),
        ),
        (
            {"kind": "EVENT_TOOL_RESULT", "result": {"id": "c", "content": [{"text": {"text": "ok"}}]}},
            ("tool.result", {"id": "c", "response": [{"type": "text", "content": "ok"}], "is_error": False}, "host"),
        ),
        (
            {"kind": "EVENT_ERROR", "error": {"code": 14, "description": "gone"}},
            ("error", {"error.type": "14", "message": "gone"}, "host"),
        ),
        (
            {"kind": "EVENT_END", "end": {"state": "FAILED"}},
            ("native", {"format": "agentsessions", "type": "end", "fields": {"state": "FAILED"}}, "host"),
        ),
        (
            {"kind": "EVENT_LIFECYCLE", "lifecycle": {"kind": "LIFECYCLE_SUSPEND", "detail": "d"}},
            ("native", {"format": "agentsessions", "type": "lifecycle/LIFECYCLE_SUSPEND",
                        "fields": {"kind": "LIFECYCLE_SUSPEND", "detail": "d"}}, "host"),
        ),
        ({}, ("native", {"format": "agentsessions", "type": "unreadable"}, "host")),
    ],
    ids=lambda value: str(value.get("kind", "empty")) if isinstance(value, dict) else "",
)  # fmt: skip
def test_each_kind_of_event(journal: Journal, tmp_path: Path, event: Json, expected: tuple[str, Json, str]) -> None:
    assert one(journal, tmp_path, event) == expected


def test_usage_counts_for_the_model_call_before_it(journal: Journal, tmp_path: Path) -> None:
    call = {"kind": "EVENT_MODEL_CALL", "model": {"model": "m", "id": "r1"}}
    spent = {"model": "m-2", "input_tokens": "100", "output_tokens": "20", "reasoning_tokens": "5"}
    made(tmp_path / "u.db", call, output(text("x")), {"kind": "EVENT_USAGE", "usage": spent})
    import_file(journal, tmp_path / "u.db")
    state = fold(journal.events("sess-1"))
    assert state.turns["model"] == 1
    assert [state.usage[f"gen_ai.usage.{name}"] for name in ("input_tokens", "output_tokens")] == [100, 20]
    assert state.usage["gen_ai.usage.reasoning.output_tokens"] == 5


def test_a_turn_begins_and_ends(journal: Journal, tmp_path: Path) -> None:
    events = events_of(journal, made(tmp_path / "t.db", *mixed()))
    assert [(event.type, event.turn) for event in events if event.type.startswith("turn.")] == [
        ("turn.start", "721cca6eababd5be"), ("turn.end", "721cca6eababd5be"),
    ]  # fmt: skip


# --- anything else ---------------------------------------------------------------------------------


@given(st.binary(max_size=60) | st.sampled_from([encode("Event", event) for event, _ in GOLDEN.values()]), st.data())
@settings(max_examples=400, deadline=None)
def test_any_bytes_are_decoded_or_refused_by_name(raw: bytes, data: st.DataObject) -> None:
    cut = bytearray(raw)
    for _ in range(data.draw(st.integers(0, 3))):
        at = data.draw(st.integers(0, len(cut)))
        cut[at : at + data.draw(st.integers(0, 2))] = data.draw(st.binary(max_size=2))
    try:
        event = Decoder().event(bytes(cut))
    except ValueError as error:
        assert str(error)
        return
    assert isinstance(event, dict)
    content_hash(event, "", 1)


@given(st.lists(st.tuples(*[st.none() | st.integers() | st.text(max_size=5) | st.binary(max_size=9)] * 5), max_size=4))
@settings(max_examples=60, deadline=None)
def test_any_rows_become_records_and_events(tmp_path_factory: pytest.TempPathFactory, rows: list[Any]) -> None:
    path = tmp_path_factory.mktemp("rows") / "a.db"
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE sessions (session)")
        database.execute("CREATE TABLE events (session, seq, prev_hash, hash, fence, event)")
        for row in rows:
            storable = [int(v) % 2**62 if isinstance(v, int) else v for v in row]
            database.execute("INSERT INTO events VALUES ('s', ?, ?, ?, ?, ?)", storable)
    database.close()
    for strand in Agentsessions().strands(Source(path)):
        for item in strand.read(strand.records(), ImportReport("x", "agentsessions")):
            canonical.dumps(item.data)


def test_nesting_without_end_is_refused() -> None:
    raw = b""
    for _ in range(5000):
        raw = chunk(5, chunk(1, chunk(2, raw)))
    with pytest.raises(ValueError, match="too deep"):
        Decoder().event(chunk(10, chunk(3, chunk(1, chunk(2, raw)))))
