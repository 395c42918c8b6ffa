"""Events: two descriptions of section 2 that must agree on any bytes, and a hash that anyone can compute."""

from __future__ import annotations

import json
import re
from datetime import datetime
from hashlib import sha256
from typing import Any

import pytest
import rfc8785
from hypothesis import given, settings
from hypothesis import strategies as st
from support import derive, event, flips, members, naive_hash

from gitjournal import canonical, rules
from gitjournal.errors import FormatError
from gitjournal.event import Envelope, Event
from gitjournal.objects import parse_commit
from gitjournal.rules import MAX_EVENT_BYTES, MAX_SEQ, check_members

HASH = "0123456789abcdef" * 4
FILE = {"sha256": HASH, "size": 3, "media_type": "image/png"}

# --- strategies ------------------------------------------------------------------------------------

# Text that looks like the members around it, once it stands in a string or a name.
BAIT = [
    ',"epoch":1,"prev":null,"seq":1,"session":"x","ts":"2026-01-02T03:04:05.678Z","type":"session.start","v":1}',
    '"},"epoch":7', ',"epoch":', '","epoch":1', "\\", '"', '\\"', "\\\\", "epoch", "data_sha256", "files", "]", "}",
    "😀", "\u2028",
]  # fmt: skip
text = st.one_of(st.text(max_size=8), st.sampled_from(BAIT), st.lists(st.sampled_from(BAIT), max_size=3).map("".join))
name = text.filter(lambda word: not word.startswith("$gj:"))
numbers = st.one_of(st.integers(1 - 2**53, 2**53 - 1), st.sampled_from([0.5, 1e-7, -1.25, 3.141592653589793]))
values = st.recursive(
    st.one_of(st.none(), st.booleans(), numbers, text, st.sampled_from([{"$gj:json": "1"}, {"$gj:b64": "AA=="}])),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(name, inner, max_size=3)),
    max_leaves=8,
)
sessions = st.one_of(text, st.sampled_from(['"', "\\", "a\\b", '"\\"', "s😀", "x" * 200, "é" * 100])).filter(
    lambda word: 1 <= len(word.encode()) <= 200 and not re.search(r"[\x00-\x1f\x7f-\x9f]", word)
)
times = st.datetimes(datetime(1970, 1, 1), datetime(9999, 12, 31, 23, 59, 59)).map(
    lambda moment: moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{moment.microsecond // 1000:03d}Z"
)
types = st.from_regex(r"[a-z][a-z0-9_]{0,9}(\.[a-z][a-z0-9_]{0,9}){0,4}", fullmatch=True)
files = st.lists(
    st.fixed_dictionaries(
        {
            "sha256": st.sampled_from([HASH, "f" * 64]),
            "size": st.integers(0, 2**53 - 1),
            "media_type": st.sampled_from(["a/b", 'text/plain; x="]"', "x" * 127]),
        },
        optional={"name": st.sampled_from(["raw", "é", ',"prev":null', "n" * 255])},
    ),
    min_size=1,
    max_size=12,
)


@st.composite
def valid_members(draw: st.DrawFn, withheld: bool | None = None) -> dict[str, Any]:
    """Members that section 2 allows."""
    seq = draw(st.one_of(st.sampled_from([1, 2, 10, MAX_SEQ]), st.integers(1, MAX_SEQ)))
    made = members(
        seq,
        None if seq == 1 else draw(st.sampled_from([HASH, "f" * 64])),
        session=draw(sessions),
        epoch=draw(st.one_of(st.integers(1, 9), st.integers(1, 2**53 - 1))),
        ts=draw(times),
        type="session.start" if seq == 1 else draw(types.filter(lambda word: word != "session.start")),
        actor=draw(st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._:@/+-]{0,99}", fullmatch=True)),
        turn=draw(st.sampled_from([..., "t", "_-" * 32])),
    )
    if draw(st.booleans()) if withheld is None else withheld:
        return {**{key: value for key, value in made.items() if key != "data"}, "data_sha256": HASH}
    made["data"] = draw(st.dictionaries(name, values, max_size=4))
    if draw(st.booleans()):
        made["salt"] = draw(st.sampled_from(["A" * 22, "_-" * 10 + "zg"]))
    if draw(st.booleans()):
        made["files"] = draw(files)
        made["data"]["f"] = {"$gj:file": len(made["files"])}
        made["data"]["r"] = [{"$gj:ref": [1, "/a/0"]}, {"$gj:ref": [1, ""]}]
    return made


# What may be put in the place of a member, or of a part of one.
odd_values = st.sampled_from(
    [
        None, True, False, 0, 1, -1, 2, 1.0, 1.5, 2**53, 2**53 - 1, 10**16, 10**30, 1e300, float("nan"), -0.0, "",
        "a", "1", "A", [], [1],
        {}, {"a": 1}, [{}], {"$gj:file": 1}, {"$gj:file": 0}, {"$gj:nope": 1}, {"$gj:json": 1},
        {"$gj:b64": "x", "a": 1}, "x" * 201,
        "a\x00b", "\x7f", "\x9f", "\ud800", "é" * 101, "2026-02-29T00:00:00.000Z", "2026-01-01T00:00:60.000Z",
        "0000-01-01T00:00:00.000Z",
        "1969-12-31T23:59:59.999Z", "2026-01-01t00:00:00.000z", "2026-01-01T00:00:00Z", "٢026-01-01T00:00:00.000Z",
        "a..b", "a.", ".a",
        "a.b", "session.start", "Ab", "x" * 64, "x" * 65, HASH, HASH.upper(), HASH[1:], HASH + "\n", "a\n", "A" * 22,
        "A" * 21 + "B", "A" * 23,
        [FILE], [{**FILE, "size": -1}], [{**FILE, "x": 1}], [FILE, []], [{**FILE, "name": ""}],
        [{**FILE, "sha256": 1}], 99999999, 100000000,
    ]
)  # fmt: skip
member_names = st.sampled_from(
    [*sorted(rules.KNOWN), "", "a", "dx", "data2", "ea", "extra", "filez", "z", "😀", "$gj:file"]
)


@st.composite
def spoiled_members(draw: st.DrawFn) -> dict[str, Any]:
    """Valid members after one or two changes: removed, added, retyped, or something foul deep in the payload."""
    made = draw(valid_members())
    for _ in range(draw(st.integers(1, 2))):
        key = draw(member_names)
        how = draw(st.sampled_from(["set", "set", "remove", "deep"]))
        if how == "remove":
            made.pop(draw(st.sampled_from(sorted(made))), None)
        elif how == "deep" and isinstance(made.get("data"), dict):
            made["data"] = {
                **made["data"],
                draw(st.sampled_from(["$gj:file", "$gj:x", "epoch", "a"])): draw(odd_values),
            }
        else:
            made[key] = draw(odd_values)
    return made


def printed(value: Any) -> bytes:
    """JSON text, sorted and tight, but with Python's ideas of numbers, names and strings."""
    made = json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
    return made.encode("utf-8", "surrogatepass")


# --- the oracle: section 2, said a second time ----------------------------------------------------------


def tags_hold(node: Any, count: int) -> bool:
    """Section 2 on member names in ``data`` that begin with ``$gj:``."""
    if isinstance(node, list):
        return all(tags_hold(item, count) for item in node)
    if not isinstance(node, dict):
        return True
    if any(key.startswith("$gj:") for key in node):
        return len(node) == 1 and tag_holds(*next(iter(node.items())), count)
    return all(tags_hold(item, count) for item in node.values())


def tag_holds(tag: str, value: Any, count: int) -> bool:
    if tag == "$gj:file":
        return type(value) is int and 1 <= value <= count
    if tag == "$gj:ref":
        good = isinstance(value, list) and len(value) == 2 and type(value[0]) is int and 1 <= value[0] <= count
        return good and isinstance(value[1], str) and value[1][:1] in ("", "/")
    return tag in ("$gj:json", "$gj:b64") and isinstance(value, str)


def is_allowed(raw: bytes) -> bool:
    """Whether bytes are an event, by the slow and plain description."""
    try:
        found = canonical.loads_canonical(raw)
        check_members(found)
    except FormatError:
        return False
    return (
        len(raw) <= MAX_EVENT_BYTES
        and (found["seq"] == 1) == (found["prev"] is None) == (found["type"] == "session.start")
        and tags_hold(found.get("data"), len(found.get("files", ())))
    )


def is_taken(raw: bytes) -> bool:
    """Whether `Event.parse` takes bytes. Any exception but FormatError is a fault, and passes."""
    try:
        parsed = Event.parse(raw)
    except FormatError as error:
        assert error.code in {
            "bad-json",
            "not-canonical",
            "bad-member",
            "bad-version",
            "bad-seq",
            "broken-link",
            "bad-epoch",
            "bad-fork",
        }
        return False
    assert parsed.raw == raw
    return True


def agree(raw: bytes) -> None:
    assert is_taken(raw) == is_allowed(raw), raw


def code_of(raw: bytes) -> str:
    with pytest.raises(FormatError) as caught:
        Event.parse(raw)
    return caught.value.code


# --- events ------------------------------------------------------------------------------------------


@settings(max_examples=150)
@given(valid_members())
def test_every_valid_event_is_read_as_what_it_says(made: dict[str, Any]) -> None:
    raw = rfc8785.dumps(made)
    read = Event.parse(raw)
    assert is_allowed(raw) and read == Event.build(made) == Event(raw) and hash(read) == hash(Event(raw))
    for key in ("seq", "session", "prev", "epoch", "ts", "type", "actor"):
        assert getattr(read, key) == made[key] == getattr(Event(raw), key)
    assert read.turn == made.get("turn") and read.withheld == ("data_sha256" in made)
    assert read.members == made and read.data == made.get("data", {}) == Event(raw).data
    assert list(read.files) == made.get("files", [])
    assert read.hash == naive_hash(made) == Event(raw).hash


@settings(max_examples=80)
@given(valid_members(withheld=False))
def test_withholding_the_payload_changes_no_hash(made: dict[str, Any]) -> None:
    full = Event.build(made)
    kept_back = full.withhold()
    assert Event.parse(kept_back.raw).withheld and kept_back.hash == full.hash == sha256(kept_back.raw).hexdigest()
    assert kept_back.members.keys() == (made.keys() - {"data", "files", "salt"}) | {"data_sha256"}
    assert kept_back.withhold() == kept_back and kept_back.data == {} and not kept_back.files
    body = {key: made[key] for key in ("data", "files", "salt") if key in made}
    assert kept_back.members["data_sha256"] == sha256(rfc8785.dumps(body)).hexdigest()


@settings(max_examples=300)
@given(spoiled_members())
def test_a_spoiled_event_is_refused_by_both_descriptions(made: dict[str, Any]) -> None:
    agree(printed(made))


@settings(max_examples=150)
@given(spoiled_members())
def test_building_refuses_what_parsing_refuses(made: dict[str, Any]) -> None:
    try:
        built = Event.build(made)
    except FormatError:
        try:
            raw = canonical.dumps(made)
        except FormatError:
            return
        # 1.0 prints as 1: building may be stricter about types than the bytes are, never laxer.
        assert not is_taken(raw) or any(isinstance(value, float) for value in _leaves(made))
    else:
        assert is_taken(built.raw)


def _leaves(node: Any) -> list[Any]:
    inner = node.values() if isinstance(node, dict) else node if isinstance(node, list) else None
    return [node] if inner is None else [leaf for item in inner for leaf in _leaves(item)]


@settings(max_examples=150)
@given(valid_members(), st.data())
def test_one_changed_byte_is_refused_by_both_descriptions(made: dict[str, Any], data: st.DataObject) -> None:
    raw = rfc8785.dumps(made)
    at = data.draw(st.integers(0, len(raw) - 1))
    other = data.draw(st.one_of(st.sampled_from(b'"\\{}[],:0123456789.-e \n'), st.integers(0, 255)))
    new = bytes([other])
    for spoiled in (raw[:at] + new + raw[at + 1 :], raw[:at] + new + raw[at:], raw[:at] + raw[at + 1 :]):
        agree(spoiled)


@settings(max_examples=120)
@given(valid_members(), st.data())
def test_a_cut_or_repeated_piece_is_refused_by_both_descriptions(made: dict[str, Any], data: st.DataObject) -> None:
    raw = rfc8785.dumps(made)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(raw)), min_size=2, max_size=2)))
    # Commas and braces are where a piece can be left out or doubled and still look whole.
    seams = [match.start() for match in re.finditer(rb"[,{}\]]", raw)]
    seam = sorted(data.draw(st.lists(st.sampled_from(seams), min_size=2, max_size=2)))
    for low, high in (cuts, seam):
        agree(raw[:low] + raw[high:])
        agree(raw[:high] + raw[low:high] + raw[high:])


def test_every_flip_of_every_byte_agrees() -> None:
    made = members(
        2,
        session='a"\\😀',
        turn="t",
        salt="A" * 22,
        files=[{**FILE, "name": "n"}],
        data={"a": [1, {"epoch": 1}], "b": "\n"},
    )
    for raw in (rfc8785.dumps(made), event(1).withhold().raw):
        for _, spoiled in flips(raw, masks=(0xFF, 0x01, 0x02, 0x10, 0x20)):
            agree(spoiled)


def in_envelope(made: dict[str, Any]) -> Event | None:
    """What a live writer makes of the members in one go; None when it leaves them to `Event.build`."""
    data, salt = canonical.dumps([made["data"]])[1:-1], made.get("salt", "").encode()
    files = canonical.dumps(made["files"]) if "files" in made else b""
    envelope = Envelope(made["session"], made["epoch"])
    try:
        return envelope.event(
            made["seq"], made["prev"], made["ts"], made["type"], made["actor"], made.get("turn"), data, salt, files
        )
    except (FormatError, TypeError):
        return None


@given(valid_members(withheld=False))
def test_an_envelope_holds_what_building_makes(made: dict[str, Any]) -> None:
    if made["seq"] > 1:
        assert in_envelope(made) == Event.build(made)


@given(valid_members(withheld=False), st.sampled_from(["ts", "type", "actor", "turn"]), st.one_of(odd_values, text))
def test_an_envelope_takes_nothing_that_building_refuses(made: dict[str, Any], key: str, odd: Any) -> None:
    made[key] = odd
    if made["seq"] == 1 or (key == "turn" and odd is None):
        return
    found = in_envelope(made)
    assert found is None or found == Event.build(made)


def test_a_payload_of_two_values_is_no_json() -> None:
    raw = event(1).raw
    for two in (b'{"n":1},{}', b'{"n":1},1', b'{},"dx":{}', b'{"n":1},"data":{}'):
        spoiled = raw.replace(b'{"n":1}', two)
        agree(spoiled)
        assert code_of(spoiled) in ("bad-json", "bad-member")


@pytest.mark.parametrize(
    "data",
    [
        {"epoch": 9, "prev": None, "seq": 5, "session": "x", "ts": "t", "type": "t", "v": 1},
        {"a": {"epoch": 9, "files": [], "prev": None, "salt": "x", "seq": 5}},
        {"a": ',"epoch":9,"prev":null,"seq":5,"session":"x","ts":"2026-01-02T03:04:05.678Z","type":"t","v":1}'},
        {"z": [{"epoch": 1}, {"epoch": 2, "prev": HASH, "seq": 3}]},
        {"data": {"data_sha256": HASH, "epoch": 3}},
        {'","epoch":1': '","epoch":1'},
    ],
)
def test_a_payload_cannot_pass_for_the_header(data: dict[str, Any]) -> None:
    for more in ({}, {"files": [{**FILE, "name": ',"epoch":3,"prev":null'}]}, {"salt": "A" * 22}):
        made = members(7, HASH, data=data, **more)
        read = Event.parse(rfc8785.dumps(made))
        assert (read.seq, read.epoch, read.prev, read.session, read.type) == (7, 1, HASH, "s", "message")
        assert read.data == data and read.hash == naive_hash(made)


@pytest.mark.parametrize(
    "session", ['"', "\\", '\\"', "a\\u0041", "s😀\U0010ffff", "a/b:c@1 %", "'", "\u2028\u2029", "\\\\n"]
)
def test_a_session_of_hard_characters_reads_back(session: str) -> None:
    made = members(1, session=session)
    for read in (Event.build(made), Event.parse(rfc8785.dumps(made))):
        assert read.session == session and read.hash == naive_hash(made)
        commit = derive([read])[0].commit[1]
        parsed = parse_commit(commit)
        assert parsed is not None and parsed.session == session


def _without(raw: bytes, old: bytes, new: bytes) -> bytes:
    assert raw.count(old) == 1
    return raw.replace(old, new)


RAW = (
    b'{"actor":"host","data":{"n":1},"epoch":1,"prev":null,"seq":1,"session":"s",'
    b'"ts":"2026-01-02T03:04:05.678Z","type":"session.start","v":1}'
)


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        (b'{"n":1}', b'{"n":1,"n":1}', "bad-json"),
        (b'"epoch":1', b'"epoch":1,"epoch":1', "bad-json"),
        (b'{"n":1}', b'{"n":"\\ud800"}', "bad-json"),
        (b'{"n":1}', b'{"n":"\xed\xa0\x80"}', "bad-json"),
        (b'{"n":1}', b'{"n":"\xff"}', "bad-json"),
        (b'"session":"s"', b'"session":"\xff"', "bad-json"),
        (b'{"n":1}', b'{"\\udfff":1}', "bad-json"),
        (b'{"n":1}', b'{"n":9007199254740992}', "bad-json"),
        (b'{"n":1}', b'{"n":-9007199254740992}', "bad-json"),
        (b'{"n":1}', b'{"n":1e+30}', "bad-json"),
        (b'{"n":1}', b'{"n":NaN}', "bad-json"),
        (b'{"n":1}', b'{"n":-Infinity}', "bad-json"),
        (b'{"n":1}', b'{"n":-0}', "bad-json"),
        (b'{"n":1}', b'{"n":-0.0}', "bad-json"),
        (b'{"n":1}', b'{"n":01}', "bad-json"),
        (b'{"n":1}', b'{"n":%s}' % (b"[" * 63 + b"]" * 63), "bad-json"),
        (b'"epoch":1', b'"epoch":9007199254740992', "bad-json"),
        (b'"epoch":1', b'"epoch":99999999999999999999', "bad-json"),
        (b'{"n":1}', b'{"n":1.0}', "not-canonical"),
        (b'{"n":1}', b'{"n":1e2}', "not-canonical"),
        (b'{"n":1}', b'{"n":"\\u0041"}', "not-canonical"),
        (b'{"n":1}', b'{"n":"\\/"}', "not-canonical"),
        (b'{"n":1}', b'{ "n":1}', "not-canonical"),
        (b'{"n":1}', b'{"z":1,"a":1}', "not-canonical"),
        (b'"seq":1', b'"seq":1.0', "not-canonical"),
        (b'"session":"s"', b'"session":"\\u0073"', "not-canonical"),
        (b'"v":1}', b'"v":1}\n', "not-canonical"),
        (b'"type":"session.start","v":1', b'"v":1,"type":"session.start"', "not-canonical"),
        (b'"v":1', b'"v":2', "bad-version"),
        (b'"v":1', b'"v":"1"', "bad-version"),
        (b'"v":1', b'"v":true', "bad-version"),
        (b',"v":1', b"", "bad-version"),
    ],
)  # fmt: skip
def test_each_rule_of_the_bytes_has_its_code(old: bytes, new: bytes, code: str) -> None:
    raw = _without(RAW, old, new)
    assert code_of(raw) == code
    agree(raw)


@pytest.mark.parametrize(
    "raw", [b"", b"\n", b"{", b"{}x", b"nul", b"\x00", b"\xef\xbb\xbf" + RAW, RAW[:-1], RAW + RAW, b"[" * 100_000]
)
def test_bytes_that_are_no_json_are_refused(raw: bytes) -> None:
    assert code_of(raw) == "bad-json"


@pytest.mark.parametrize("raw", [b"null", b"1", b'"a"', b"[]", b"true", b"[%s]" % RAW])
def test_json_that_is_no_object_is_refused(raw: bytes) -> None:
    assert code_of(raw) == "bad-json"


#: (seq, member, values that it may not have, code of the refusal); ... takes the member away.
MEMBER_RULES: list[tuple[int, str, list[Any], str]] = [
    (1, "seq", [0, -1, 1.5, "1", True, None, MAX_SEQ + 1, []], "bad-seq"),
    (2, "prev", [HASH.upper(), HASH[1:], HASH + "0", "", 1, False, [], HASH + "\n"], "bad-member"),
    (1, "prev", [HASH], "broken-link"),
    (2, "prev", [None], "broken-link"),
    (1, "epoch", [0, -1, 1.5, "1", True, None], "bad-epoch"),
    (1, "session", ["", "a\x00", "\n", "\x7f", "\x85", "x" * 201, "é" * 101, 1, None], "bad-member"),
    (1, "ts", ["", 1, "2026-01-02T03:04:05Z", "2026-01-02T03:04:05.67Z", "2026-01-02 03:04:05.678Z"], "bad-member"),
    (1, "ts", ["2026-02-29T00:00:00.000Z", "2026-13-01T00:00:00.000Z", "2026-01-01T24:00:00.000Z"], "bad-member"),
    (1, "ts", ["2026-01-01T00:00:60.000Z", "2026-01-01T00:60:00.000Z", "0000-01-01T00:00:00.000Z"], "bad-member"),
    (1, "ts", ["1969-12-31T23:59:59.999Z"], "bad-member"),
    (2, "type", ["", "A", "a.", ".a", "a..b", "1a", "a.1", "a-b", "x" * 65, 1, None, "a\n", "é"], "bad-member"),
    (1, "type", ["message"], "bad-fork"),
    (2, "type", ["session.start"], "bad-fork"),
    (1, "actor", ["", ".a", "a b", "<a>", "a" * 101, 1, None, "a\n", "é"], "bad-member"),
    (1, "turn", ["", "a b", "x" * 65, 1, None, "a.b"], "bad-member"),
    (1, "salt", ["", "A" * 21, "A" * 23, "A" * 21 + "B", "A" * 21 + "=", 1, None], "bad-member"),
    (1, "data", [[], None, "x", 1, True, ...], "bad-member"),
    (1, "data_sha256", [HASH], "bad-member"),
    (1, "files", [[], {}, None, "x", [1], [{}], [{**FILE, "more": 1}]], "bad-member"),
    (1, "files", [[{**FILE, "size": bad}] for bad in (-1, 1.5, "1", True, None)], "bad-member"),
    (1, "files", [[{**FILE, "sha256": bad}] for bad in ("x", HASH.upper(), 1)], "bad-member"),
    (1, "files", [[{**FILE, "media_type": bad}] for bad in ("", "é", "\n", "x" * 128, 1)], "bad-member"),
    (1, "files", [[{**FILE, "name": bad}] for bad in ("", "\n", "n" * 256, 1, None)], "bad-member"),
    *[(1, key, [...], "bad-member") for key in ("session", "epoch", "ts", "type", "actor", "prev", "seq")],
    *[(1, key, [1], "bad-member") for key in ("a", "dx", "datum", "extra", "files2", "zz", "Data", "", "$gj:file")],
]
RULES = [(seq, {key: bad}, code) for seq, key, values_, code in MEMBER_RULES for bad in values_]
#: The same for the withheld form.
RULES += [(1, {"data": ..., "data_sha256": bad}, "bad-member") for bad in ("", HASH.upper(), HASH[1:], None, 1)]
RULES += [
    (1, {"data": ..., "data_sha256": HASH, key: bad}, "bad-member")
    for key, bad in {"salt": "A" * 22, "files": [FILE], "a": 1, "e": 1}.items()
]


@pytest.mark.parametrize(("seq", "changes", "code"), RULES)
def test_each_rule_of_the_members_has_its_code(seq: int, changes: dict[str, Any], code: str) -> None:
    made = {**members(seq), **changes}
    made = {key: value for key, value in made.items() if value is not ...}
    raw = rfc8785.dumps(made)
    assert code_of(raw) == code
    agree(raw)
    with pytest.raises(FormatError) as caught:
        Event.build(made)
    assert caught.value.code == code


GOOD_TAGS: list[Any] = [
    {"$gj:file": 1}, {"$gj:file": 2}, {"$gj:ref": [2, ""]}, {"$gj:ref": [1, "/a~0/1"]}, {"$gj:json": "1e400"},
    {"$gj:b64": ""},
]  # fmt: skip
BAD_TAGS: list[Any] = [
    {"$gj:file": 0}, {"$gj:file": 3}, {"$gj:file": "1"}, {"$gj:file": True}, {"$gj:file": None},
    {"$gj:file": 1, "a": 1},
    {"$gj:file": 1, "$gj:json": "1"}, {"$gj:ref": [1]}, {"$gj:ref": [1, "a"]}, {"$gj:ref": [0, ""]},
    {"$gj:ref": [3, ""]}, {"$gj:ref": "x"},
    {"$gj:ref": [1, "", 1]}, {"$gj:ref": {"a": 1}}, {"$gj:json": 1}, {"$gj:b64": {}}, {"$gj:": 1}, {"$gj:other": "x"},
    {"$gj:File": 1},
]  # fmt: skip
PLACES = [
    lambda tag: tag,
    lambda tag: {"a": tag},
    lambda tag: {"a": [1, [tag]]},
    lambda tag: {"a": {"b": {"$gx": tag}}},
]


@pytest.mark.parametrize("tag", GOOD_TAGS)
@pytest.mark.parametrize("place", PLACES)
def test_a_well_formed_tag_is_taken_anywhere(tag: Any, place: Any) -> None:
    made = members(1, data=place(tag), files=[FILE, FILE])
    assert Event.parse(rfc8785.dumps(made)) == Event.build(made)


@pytest.mark.parametrize("tag", BAD_TAGS)
@pytest.mark.parametrize("place", PLACES)
def test_any_other_name_that_begins_like_a_tag_is_refused(tag: Any, place: Any) -> None:
    made = members(1, data=place(tag), files=[FILE, FILE])
    assert code_of(rfc8785.dumps(made)) == "bad-member"
    with pytest.raises(FormatError, match=r"\$gj:"):
        Event.build(made)


@pytest.mark.parametrize("tag", [tag for tag in GOOD_TAGS + BAD_TAGS if tag != {"$gj:ref": [1, "/a~0/1"]}])
@pytest.mark.parametrize("place", PLACES)
def test_every_tag_but_a_plain_reference_is_looked_at(tag: Any, place: Any) -> None:
    assert not rules.only_references(canonical.dumps(place(tag)))


def test_plain_references_need_no_look() -> None:
    refs = [{"$gj:ref": [1, "/a/0"]}, {"x": {"$gj:ref": [1, "/ä b"]}, "text": "$gj and {"}]
    assert rules.only_references(canonical.dumps(refs)) and rules.only_references(b'{"a":"$"}')
    assert not rules.only_references(canonical.dumps([*refs, {"$gj:ref": [1, "/a"], "more": 1}]))
    assert not rules.only_references(canonical.dumps([*refs, {"!": 1, "$gj:ref": [1, "/a"]}]))


def test_attack_a_pointer_that_looks_like_the_end_of_its_reference() -> None:
    assert not rules.only_references(canonical.dumps({"$gj:ref": [1, '/a"]}', 5]}))


def test_a_tag_in_a_tuple_or_in_escapes_does_not_slip_through() -> None:
    with pytest.raises(FormatError):
        Event.build(members(1, data={"a": ({"$gj:nope": 1},)}))
    assert code_of(_without(RAW, b'"n"', b'"\\u0024gj:x"')) == "not-canonical"
    # A value, not a name: nothing to refuse.
    assert Event.build(members(1, data={"a": "$gj:nope", "b": '{"$gj:x":1}'})).data["a"] == "$gj:nope"


def test_nesting_is_counted_from_the_event() -> None:
    deepest: Any = 1
    for _ in range(62):
        deepest = [deepest]
    assert is_taken(rfc8785.dumps(members(1, data={"a": deepest})))
    assert Event.build(members(1, data={"a": deepest})).data["a"] == deepest
    too_deep = rfc8785.dumps(members(1, data={"a": [deepest]}))
    assert code_of(too_deep) == "bad-json"
    with pytest.raises(FormatError, match="deeper than 64"):
        Event.build(members(1, data={"a": [deepest]}))


def test_an_event_of_exactly_16_mib_is_the_largest() -> None:
    room = MAX_EVENT_BYTES - len(event(1, data={"a": ""}).raw)
    largest = event(1, data={"a": "x" * room})
    assert len(largest.raw) == MAX_EVENT_BYTES and Event.parse(largest.raw) == largest
    for make in (
        lambda: event(1, data={"a": "x" * (room + 1)}),
        lambda: Event.parse(largest.raw.replace(b"xx", b"xxx", 1)),
    ):
        with pytest.raises(FormatError, match="16777216 bytes, this one has 16777217") as caught:
            make()
        assert caught.value.code == "bad-member"
    with pytest.raises(FormatError, match="16777216 bytes"):
        Event.parse(b"x" * (MAX_EVENT_BYTES + 1))


def test_an_error_says_which_event_and_where() -> None:
    with pytest.raises(FormatError) as caught:
        Event.parse(rfc8785.dumps(members(7, HASH, actor="a b")))
    assert (caught.value.seq, caught.value.where) == (7, "/actor") and "event 7" in str(caught.value)
    with pytest.raises(FormatError) as caught:
        Event.parse(_without(RAW, b'{"n":1}', b'{"n":[1,{"x":-0}]}'))
    assert caught.value.seq == 1 and "/data/n/1/x" in str(caught.value)


def test_a_damaged_stored_payload_is_an_error_and_not_a_surprise() -> None:
    for bad in (b'{"n":1', b"[]", b"1", b'{"n":1},{}', b"\xff"):
        stored = Event(_without(RAW, b'{"n":1}', bad))
        with pytest.raises(FormatError):
            _ = stored.data


def test_an_event_cannot_be_changed() -> None:
    one = event(1)
    for name in ("raw", "seq", "hash", "data", "other"):
        with pytest.raises(AttributeError):
            setattr(one, name, 1)
    assert "s@1 session.start" in repr(one) and one != one.raw and len({one, event(1)}) == 1


def test_the_loader_of_a_journal_gives_data_and_leaves_the_stored_form() -> None:
    raw = event(1, data={"a": {"$gj:json": "1"}}).raw

    class Files:
        def data(self, one: Event) -> dict[str, int]:
            return {"seen": one.seq}

        def file(self, one: Event, number: int) -> bytes:
            return b"%d.%d" % (one.seq, number)

    read = Event(raw, Files())
    assert read.data == {"seen": 1} and read.stored_data == {"a": {"$gj:json": "1"}} == read.members["data"]
    assert read.read_file(3) == b"1.3"
    with pytest.raises(LookupError):
        Event(raw).read_file(1)


@given(times)
def test_seconds_are_those_of_the_calendar(ts: str) -> None:
    assert rules.unix_seconds(ts) == int(datetime.strptime(ts[:19] + "Z", "%Y-%m-%dT%H:%M:%S%z").timestamp())
