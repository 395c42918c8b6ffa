"""Every rule for one event alone, member by member (docs/verification.md section 6)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .kit import SALT, Event, Line, Raw, first, side_file
from .suite import Suite

HALF = Raw(b"1.5")
ZEROS = "0" * 64
_NOT_INTEGERS: Mapping[str, Any] = {
    "text": "1",
    "true": True,
    "null": None,
    "fraction": HALF,
    "array": [1],
    "object": {},
}
_NOT_TEXTS: Mapping[str, Any] = {"null": None, "number": 5, "true": True, "array": ["a"], "object": {"a": 1}}

#: Times that do not exist, or are written in another way.
_BAD_TIMES = {
    "february-29-of-2023": "2023-02-29T00:00:00.000Z",
    "february-29-of-2100": "2100-02-29T00:00:00.000Z",
    "february-30": "2024-02-30T00:00:00.000Z",
    "april-31": "2026-04-31T00:00:00.000Z",
    "day-0": "2026-01-00T00:00:00.000Z",
    "day-32": "2026-01-32T00:00:00.000Z",
    "month-0": "2026-00-01T00:00:00.000Z",
    "month-13": "2026-13-01T00:00:00.000Z",
    "hour-24": "2026-01-01T24:00:00.000Z",
    "minute-60": "2026-01-01T00:60:00.000Z",
    "second-60": "2016-12-31T23:59:60.000Z",
    "before-1970": "1969-12-31T23:59:59.999Z",
    "month-99-before-1970": "1969-99-01T00:00:00.000Z",
    "year-0": "0000-01-01T00:00:00.000Z",
    "year-900": "0900-01-01T00:00:00.000Z",
    "year-of-five-digits": "12026-01-01T00:00:00.000Z",
    "negative-year": "-026-01-01T00:00:00.000Z",
    "year-with-plus": "+026-01-01T00:00:00.000Z",
    "small-z": "2026-01-01T00:00:00.000z",
    "small-t": "2026-01-01t00:00:00.000Z",
    "space-for-t": "2026-01-01 00:00:00.000Z",
    "no-z": "2026-01-01T00:00:00.000",
    "offset-for-z": "2026-01-01T00:00:00.000+00:00",
    "no-fraction": "2026-01-01T00:00:00Z",
    "two-digits-of-fraction": "2026-01-01T00:00:00.00Z",
    "six-digits-of-fraction": "2026-01-01T00:00:00.000000Z",
    "comma-for-point": "2026-01-01T00:00:00,000Z",
    "no-seconds": "2026-01-01T00:00Z",
    "month-of-one-digit": "2026-1-01T00:00:00.000Z",
    "week-date": "2026-W01-1T00:00:00.000Z",
    "arabic-digits": "\u0662\u0660\u0662\u0666-01-01T00:00:00.000Z",
    "wide-digits": "2026-01-01T00:00:00.\uff10\uff10\uff10Z",
    "space-in-a-number": "2026-01- 1T00:00:00.000Z",
    "sign-in-a-number": "2026-01-+1T00:00:00.000Z",
    "underscore-in-a-number": "2026-0_1-1T00:00:00.000Z",
    "newline-after": "2026-01-01T00:00:00.000Z\n",
    "space-before": " 2026-01-01T00:00:00.000Z",
    "empty": "",
}
_GOOD_TIMES = (
    "1970-01-01T00:00:00.000Z",
    "2000-02-29T23:59:59.999Z",
    "2024-02-29T12:00:00.001Z",
    "2400-02-29T00:00:00.000Z",
    "2038-01-19T03:14:08.000Z",
    "9999-12-31T23:59:59.999Z",
)
_BAD_TYPES = {
    "empty": "",
    "upper-case": "Message",
    "digit-first": "1a",
    "digit-first-after-dot": "a.1",
    "underscore-first": "_a",
    "underscore-first-after-dot": "a._b",
    "two-dots": "a..b",
    "dot-first": ".a",
    "dot-last": "a.",
    "dash": "a-b",
    "space": "a b",
    "accent": "caf\u00e9",
    "newline-after": "a\n",
    "nul": "a\x00",
    "65-bytes": "a" * 65,
}
_BAD_ACTORS = {
    "empty": "",
    "101-characters": "a" * 101,
    "dot-first": ".a",
    "dash-first": "-a",
    "space": "a b",
    "angle": "a<b",
    "accent": "caf\u00e9",
    "wide-digit": "\uff11",
    "arabic-digit": "a\u0661",
    "newline-after": "a\n",
    "header-injected": "a\nparent " + "0" * 40,
    "percent": "a%b",
}
_BAD_TURNS = {
    "empty": "",
    "65-characters": "a" * 65,
    "dot": "a.b",
    "accent": "\u00e9",
    "newline-after": "a\n",
    "plus": "a+b",
}
_BAD_SALTS = {
    "empty": "",
    "21-characters": "A" * 21,
    "23-characters": "A" * 23,
    "last-one-with-more-bits": "A" * 21 + "B",
    "last-one-h": "A" * 21 + "h",
    "padded": "A" * 22 + "==",
    "plus": "+" + "A" * 21,
    "slash": "/" + "A" * 21,
    "newline-after": "A" * 22 + "\n",
}
_BAD_HASHES = {
    "empty": "",
    "63-digits": "0" * 63,
    "65-digits": "0" * 65,
    "upper-case": "A" * 64,
    "letter-g": "g" * 64,
    "with-prefix": "sha256:" + ZEROS,
    "newline-after": ZEROS + "\n",
    "wide-digits": "\uff10" * 64,
}
_BAD_SESSIONS = {
    "empty": "",
    "201-bytes": "a" * 201,
    "201-bytes-in-67-characters": "\u20ac" * 67,
    "204-bytes-in-102-utf-16-units": "\U0001f600" * 51,
    "newline": "a\nb",
    "nul": "\x00",
    "escape": "a\x1b[31m",
    "delete": "a\x7f",
    "u0080": "a\x80",
    "u009f": "a\x9f",
}
_GOOD_SESSIONS = {
    "200-bytes": "a" * 200,
    "200-bytes-in-50-characters": "\U0001f600" * 50,
    "no-break-space": "\xa0",
    "right-to-left": "\u202eabc",
    "proto": "__proto__",
    "quotes": '"\\/',
    "noncharacter": "\uffff\U0010ffff",
    "dots": "..",
    "slash": "a/b",
}


def _one(suite: Suite, name: str, event: Event, code: str | None, **more: Any) -> None:
    if code is None:
        suite.export(name, "an event that keeps all rules", [event], **more)
    else:
        suite.export(name, f"a first event with {code}", [event], [(code, 1)], line={"head": {"hash": None}}, **more)


def _second(suite: Suite, name: str, code: str | None, type_: str = "message", **changes: Any) -> None:
    """A case whose second event is the odd one; the first is plain."""
    line = Line()
    line.add(type_, {"n": 2}, **changes)
    if code is None:
        suite.export(name, "a second event that keeps all rules", line.events)
    else:
        suite.export(name, f"a second event with {code}", line.events, [(code, 2)], line={"head": {"hash": None}})


def _header(suite: Suite) -> None:
    for name in ("v", "session", "seq", "prev", "epoch", "ts", "type", "actor", "data"):
        members = {key: value for key, value in first().members.items() if key != name}
        _one(suite, f"{name}-missing", Event.of(members), "bad-version" if name == "v" else "bad-member")
    versions = {"zero": 0, "two": 2, "minus-one": -1, "big": 2**53 - 1, **_NOT_INTEGERS}
    for name, value in versions.items():
        _one(suite, f"v-{name}", first(v=value), "bad-version")
    others = ("extra", "Data", "V", "", "__proto__", "toJSON", "constructor", "$gj:file", "data_sha512", "actor\x00")
    for name in others:
        shown = f"unknown-{name or 'empty'}".replace("\x00", "-nul").replace(":", "-")
        _one(suite, shown, first(**{name: 1}), "bad-member")
    for name, value in {"zero": 0, "minus-one": -1, "100000000": 10**8, "big": 2**53 - 1, **_NOT_INTEGERS}.items():
        _one(suite, f"seq-{name}", first(seq=value), "bad-seq")
    for name, value in {"zero": 0, "minus-one": -1, **_NOT_INTEGERS}.items():
        _one(suite, f"epoch-{name}", first(epoch=value), "bad-epoch")
    _one(suite, "epoch-largest", first(epoch=2**53 - 1), None)
    _one(suite, "epoch-too-large", first(epoch=2**53), "bad-json")


def _texts(suite: Suite) -> None:
    for name, value in {**_BAD_SESSIONS, **_NOT_TEXTS}.items():
        _one(suite, f"session-{name}", first(session=value), "bad-member")
    for name, value in _GOOD_SESSIONS.items():
        _one(suite, f"session-good-{name}", first(session=value), None)
    for name, value in {**_BAD_TIMES, **_NOT_TEXTS}.items():
        _one(suite, f"ts-{name}", first(ts=value), "bad-member")
    for value in _GOOD_TIMES:
        _one(suite, f"ts-good-{value[:10]}", first(ts=value), None)
    for name, value in {**_BAD_ACTORS, **_NOT_TEXTS}.items():
        _one(suite, f"actor-{name}", first(actor=value), "bad-member")
    for name, value in {"100-characters": "a" * 100, "all-signs": "0.A_b:c@d/e+f-", "one": "Z"}.items():
        _one(suite, f"actor-good-{name}", first(actor=value), None)
    for name, value in {**_BAD_TURNS, **_NOT_TEXTS}.items():
        _one(suite, f"turn-{name}", first(turn=value), "bad-member")
    for name, value in {"64-characters": "a" * 64, "dash": "-", "underscore": "_0Z"}.items():
        _one(suite, f"turn-good-{name}", first(turn=value), None)


def _links(suite: Suite) -> None:
    for name, value in {**_BAD_HASHES, "number": 0, "false": False, "array": []}.items():
        _one(suite, f"prev-{name}", first(prev=value), "bad-member")
    _one(suite, "prev-at-seq-1", first(prev=ZEROS), "broken-link")
    _second(suite, "prev-null-at-seq-2", "broken-link", prev=None)
    for name, value in {**_BAD_TYPES, **_NOT_TEXTS}.items():
        _second(suite, f"type-{name}", "bad-member", type_=value)
    for name, value in {"64-bytes": "a" * 64, "dots": "a.b_1.c2_", "short": "z"}.items():
        _second(suite, f"type-good-{name}", None, type_=value)
    _second(suite, "start-at-seq-2", "bad-fork", type_="session.start")
    _one(suite, "message-at-seq-1", first(type="message"), "bad-fork")
    _one(suite, "branch-at-seq-1", first(type="session.branch"), "bad-fork")


def _body(suite: Suite) -> None:
    for name, value in {"null": None, "array": [], "text": "x", "number": 1, "false": False}.items():
        _one(suite, f"data-{name}", first(data=value), "bad-member")
    for name, value in {**_BAD_SALTS, **_NOT_TEXTS}.items():
        _one(suite, f"salt-{name}", first(salt=value), "bad-member")
    for last in "AQgw":
        _one(suite, f"salt-good-{last}", first(salt="-_" + "z" * 19 + last), None)
    withheld = first(data={"secret": 1}, salt=SALT).withhold()
    _one(suite, "withheld", withheld, None, line={"withheld": [[1, 1]]})
    for name, value in {**_BAD_HASHES, **_NOT_TEXTS}.items():
        _one(suite, f"data_sha256-{name}", withheld.change(data_sha256=value), "bad-member")
    for name, value in {"data": {}, "files": [side_file(b"")], "salt": SALT}.items():
        _one(suite, f"withheld-with-{name}", withheld.change(**{name: value}), "bad-member", side={})
    _one(suite, "neither-data-nor-data_sha256", first(data=...), "bad-member")
    for type_, code in {"session.branch": "bad-fork", "session.fork": "bad-fork", "session.seal": "bad-seal"}.items():
        line = Line()
        line.add(type_, {"n": 1})
        events = line.replaced(2, line[2].withhold())
        suite.export(f"withheld-{type_}", f"a withheld {type_}", events, [(code, 2)], line={"withheld": []})
    line = Line()
    line.add("session.erasure", {"seqs": [1], "reason": "x"})
    events = line.replaced(2, line[2].withhold())
    suite.export("withheld-session.erasure", "an erasure may be withheld", events, line={"withheld": [[2, 2]]})


def _files(suite: Suite) -> None:
    good = side_file(b"abc")
    lists: Mapping[str, Any] = {
        "empty": [],
        "null": None,
        "object": {},
        "text": "x",
        "of-null": [None],
        "of-text": ["x"],
        "of-array": [[]],
        "second-is-bad": [good, {}],
    }
    for name, value in lists.items():
        _one(suite, f"files-{name}", first(files=value), "bad-member", side={})
    changes: Mapping[str, Sequence[Any]] = {
        "sha256": (..., *_BAD_HASHES.values(), None, 5),
        "size": (..., -1, "3", True, None, HALF, [3]),
        "media_type": (..., "", "a" * 128, "caf\u00e9", "a\n", "a\x7f", "a\tb", None, 5),
        "name": (None, "", "a" * 256, "\u20ac" * 86, "a\nb", "a\x7f", "a\x80", 5, ["a"]),
        "extra": (1,),
        "__proto__": (1,),
    }
    for member, values in changes.items():
        for number, value in enumerate(values, 1):
            entry = side_file(b"abc", **{member: value})
            _one(suite, f"files-{member}-{number}", first(files=[entry]), "bad-member", side={"1.1": b"abc"})
    entries = {
        "media_type-127": {"media_type": "a" * 127},
        "media_type-all-signs": {"media_type": ' ~!x/y; charset="utf-8"'},
        "name-255": {"name": "a" * 255},
        "name-255-in-85-characters": {"name": "\u20ac" * 85},
        "name-with-slashes": {"name": "../../etc/passwd"},
    }
    for name, changes_ in entries.items():
        event = Event.of(first(files=[side_file(b"abc", **changes_)]).members, [b"abc"])
        _one(suite, f"files-good-{name}", event, None, line={"side_files": 1})
    suite.generated("files-1001", "one side file too many", "jsonl", [("bad-member", 1)], generate=["many_files", 1001])
    suite.generated(
        "files-good-1000",
        "as many side files as may be",
        "jsonl",
        generate=["many_files", 1000],
        verdict={"lines": [{"side_files": 1000, "name": None}]},
    )


def _tags(suite: Suite) -> None:
    bad: Mapping[str, Any] = {
        "file-0": {"$gj:file": 0},
        "file-2-of-1": {"$gj:file": 2},
        "file-minus-1": {"$gj:file": -1},
        "file-text": {"$gj:file": "1"},
        "file-fraction": {"$gj:file": HALF},
        "file-true": {"$gj:file": True},
        "file-null": {"$gj:file": None},
        "file-array": {"$gj:file": [1]},
        "file-with-a-neighbour": {"$gj:file": 1, "a": 1},
        "file-behind-a-neighbour": {"$": 1, "$gj:file": 1},
        "two-tags": {"$gj:b64": "", "$gj:file": 1},
        "unknown": {"$gj:x": 1},
        "only-the-prefix": {"$gj:": 1},
        "upper-case-file": {"$gj:File": 1},
        "ref-number": {"$gj:ref": 1},
        "ref-empty": {"$gj:ref": []},
        "ref-of-one": {"$gj:ref": [1]},
        "ref-of-three": {"$gj:ref": [1, "", ""]},
        "ref-without-slash": {"$gj:ref": [1, "a"]},
        "ref-pointer-null": {"$gj:ref": [1, None]},
        "ref-0": {"$gj:ref": [0, ""]},
        "ref-2-of-1": {"$gj:ref": [2, "/a"]},
        "ref-true": {"$gj:ref": [True, "/a"]},
        "ref-object": {"$gj:ref": {"0": 1, "1": "/a"}},
        "json-number": {"$gj:json": 1},
        "json-null": {"$gj:json": None},
        "json-object": {"$gj:json": {}},
        "b64-array": {"$gj:b64": []},
        "b64-null": {"$gj:b64": None},
        "inside-a-tag": {"$gj:json": {"$gj:json": "1"}},
    }
    for name, value in bad.items():
        for place, data in (("", {"a": [{"b": value}]}), ("-as-data", value)):
            if place and name not in ("file-2-of-1", "unknown", "two-tags"):
                continue
            event = Event.of(first(data=data, files=[side_file(b"abc")]).members, [b"abc"])
            _one(suite, f"tag-{name}{place}", event, "bad-member")
    _one(suite, "tag-file-without-files", first(data={"a": {"$gj:file": 1}}), "bad-member")
    good = {
        "file": {"a": {"$gj:file": 1}},
        "file-as-data": {"$gj:file": 1},
        "file-twice": [{"$gj:file": 1}, {"$gj:file": 1}],
        "ref-empty-pointer": {"a": {"$gj:ref": [1, ""]}},
        "ref-odd-pointer": {"a": {"$gj:ref": [1, "/~7/\u00e9//"]}},
        "json-of-anything": {"a": {"$gj:json": "{{{ \x00"}},
        "b64-of-anything": {"a": {"$gj:b64": "%%%"}},
        "names-that-look-like-tags": {"$gj": 1, "$GJ:file": 2, "gj:file": 3, "x$gj:file": 4},
        "values-that-look-like-tags": ["$gj:file", "$gj:x"],
        "no-tag-at-all": {},
    }
    for name, value in good.items():
        data = value if name.endswith("-as-data") else {"v": value}
        event = Event.of(first(data=data, files=[side_file(b"abc")]).members, [b"abc"])
        _one(suite, f"tag-good-{name}", event, None, line={"side_files": 1})


def _order(suite: Suite) -> None:
    """Of several broken rules the first one is named."""
    cases = {
        "version-before-members": (first(v=2, extra=1, seq=0), "bad-version"),
        "members-before-seq": (first(extra=1, seq=0), "bad-member"),
        "seq-before-epoch": (first(seq=0, epoch=0), "bad-seq"),
        "epoch-before-the-rest": (first(epoch=0, ts="x", type="X"), "bad-epoch"),
        "the-rest-before-the-link": (first(prev=ZEROS, actor=""), "bad-member"),
        "the-link-before-the-start": (first(prev=ZEROS, type="message"), "broken-link"),
        "missing-and-unknown": (first(prev=..., extra=1), "bad-member"),
    }
    for name, (event, code) in cases.items():
        _one(suite, f"order-{name}", event, code)
    branch = first(type="session.branch", data={"a": 1}).withhold()
    _one(suite, "order-the-link-before-the-withheld-branch", branch.change(prev=ZEROS), "broken-link")


def add(suite: Suite) -> None:
    """All cases of this file."""
    suite.folder = "members"
    _header(suite)
    _texts(suite)
    _links(suite)
    _body(suite)
    _files(suite)
    _tags(suite)
    _order(suite)
