"""Redaction: secrets go, in whatever spelling, and nothing else changes."""

from __future__ import annotations

import importlib
import json
import re
import sys
import tracemalloc
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import ROOT

from gitjournal import detect, escapes, redact
from gitjournal.errors import FormatError, Refused, UsageError
from gitjournal.escapes import View
from gitjournal.redact import Hit, Redactor

sys.path.append(str(ROOT / "bench"))
labelled: Any = importlib.import_module("secret_cases")

KEY = b"k" * 32


def left(case: Any, text: str) -> bool:
    """Whether a part of its secret, a line of it, is in a text."""
    return any(line in text for one in case.secrets for line in one.replace("\\n", "\n").split("\n"))


POSITIVES = labelled.positives()
NEGATIVES = labelled.negatives()
#: Those that the detector finds as a text of their own; which it does not, docs/secrets.md says.
FOUND = [case for case in POSITIVES if not left(case, Redactor(KEY).text(case.text)[0])]
TOKEN = next(case.secrets[0] for case in POSITIVES if case.name == "github env")
OTHER = next(case.secrets[0] for case in POSITIVES if case.name == "gitlab env")
AWS = next(case.secrets[0] for case in POSITIVES if case.name == "aws talk")
PEM = next(case.text for case in POSITIVES if case.name == "pem RSA PRIVATE KEY")


def clean(raw: str | bytes) -> tuple[str, list[Hit]]:
    """The redacted record, which a second look must find clean."""
    once, hits = Redactor(KEY).record(raw.encode() if isinstance(raw, str) else raw)
    again, more = Redactor(KEY).record(once)
    assert (again, more) == (once, [])
    return once.decode("utf-8", "surrogateescape"), hits


def shape(value: Any) -> Any:
    """A JSON value with its strings taken out, unless they are JSON themselves."""
    if isinstance(value, dict):
        return {name: shape(item) for name, item in value.items()}
    if isinstance(value, list):
        return [shape(item) for item in value]
    if isinstance(value, str) and value[:1] in ("{", "["):
        try:
            return shape(json.loads(value))
        except ValueError:
            return ""
    return "" if isinstance(value, str) else value


# --- what is found -------------------------------------------------------------------------------


def test_most_of_the_labelled_secrets_are_found_and_nothing_else() -> None:
    assert len(POSITIVES) + len(NEGATIVES) >= 150
    assert len(FOUND) / len(POSITIVES) > 0.9
    assert [case.name for case in NEGATIVES if redact.places(case.text)] == []


def test_the_rules_of_the_manual_find_three_more_and_nothing_else() -> None:
    manual = (ROOT / "docs" / "secrets.md").read_text(encoding="utf-8")
    more = manual.partition("```text ruleset\n")[2].partition("```")[0]
    detect.check(more)
    redactor = Redactor(KEY, more=more)
    found = [case for case in POSITIVES if not left(case, redactor.text(case.text)[0])]
    assert f"{len(found)} of {len(POSITIVES)}:" in manual and len(found) == len(FOUND) + 3
    assert [case.name for case in NEGATIVES if redactor.look(case.text)] == []
    with pytest.raises(UsageError):
        detect.check(more.replace("exact 58", "some"))


def test_ids_hashes_and_blobs_in_records_are_no_secrets() -> None:
    for case in NEGATIVES:
        record = json.dumps({"type": "user", "message": {"content": [{"type": "text", "text": case.text}]}})
        assert Redactor(KEY).record(record.encode()) == (record.encode(), []), case.name


WAYS = {
    "text": lambda text: json.dumps({"content": [{"type": "text", "text": text}]}),
    "ascii": lambda text: json.dumps({"content": text + "\né\u2028😀"}),
    "arguments": lambda text: json.dumps({"call_id": "c", "arguments": json.dumps({"cmd": ["bash", "-c", text]})}),
    "three levels": lambda text: json.dumps({"a": json.dumps({"b": json.dumps({"c": text})})}),
    "unicode escapes": lambda text: '{"t":"' + "".join(f"\\u{ord(one):04X}" for one in text) + '"}',
    "in a text": lambda text: json.dumps({"output": "Exit code: 0\n" + json.dumps({"c": text}) + "\nDone"}),
    "escaped solidus": lambda text: json.dumps({"t": text}).replace("/", "\\/"),
    "escaped backslash": lambda text: json.dumps({"a": json.dumps({"b": text})}).replace("\\\\", "\\u005c"),
}


@pytest.mark.parametrize("way", WAYS)
def test_json_in_any_spelling_hides_no_secret(way: str) -> None:
    for case in FOUND:
        record = WAYS[way](case.text)
        got, hits = clean(record)
        assert hits and shape(json.loads(got)) == shape(json.loads(record)), case.name
        said = json.dumps(json.loads(got))
        assert not left(case, said), case.name


@pytest.mark.parametrize("between", ["\x00", "\x1b[01;31m", "\x7f", "\u200b"])
def test_what_a_terminal_does_not_show_hides_no_secret(between: str) -> None:
    split = TOKEN[:12] + between + TOKEN[12:]
    for record in (f"token {split}", json.dumps({"t": f"token {split}"})):
        got, hits = clean(record)
        assert [hit.rule for hit in hits] == ["github_token"]
        assert TOKEN[12:] not in got and TOKEN[:12] not in got


@pytest.mark.parametrize("ending", ["\n", "\r\n", "\\n", "\n   12→", "\n> "])
def test_a_secret_of_several_lines_goes_whole(ending: str) -> None:
    text = PEM.replace("\n", ending)
    got, hits = clean(json.dumps({"output": text}))
    assert [hit.rule for hit in hits] == ["private_key"]
    assert all(line not in got for line in PEM.split("\n") if len(line) == 64)


def test_lines_of_a_key_in_an_array_go_one_by_one() -> None:
    lines = PEM.strip("$ \n").split("\n")[1:]
    got, hits = clean(json.dumps({"source": lines}))
    assert len(json.loads(got)["source"]) == len(lines)
    assert {hit.rule for hit in hits} == {"private_key"}
    assert all(line not in got for line in lines if len(line) == 64)


# --- what does not change ------------------------------------------------------------------------


def test_only_the_secret_changes() -> None:
    record = ' {"a" :1.0, "b":"\\u00e9\\/ %s \\ud83d", "b":[-0,1E400,{"":"x"}] }\r\n'
    got, hits = clean(record % TOKEN)
    assert got == record % f"[redacted:github_token:{hits[0].digest}]"
    assert hits == [Hit("github_token", "/b", Redactor(KEY).digest(TOKEN))]


def test_a_record_without_a_secret_is_the_same_object() -> None:
    raw = b'{"a":"b"}'
    assert Redactor(KEY).record(raw)[0] is raw
    data = {"a": ["b"]}
    assert Redactor(KEY).value(data)[0] is data


def test_names_of_members_are_never_touched() -> None:
    inner = json.dumps({TOKEN: 1, "x": OTHER})
    got, hits = clean(json.dumps({TOKEN: {"a": inner}}))
    assert json.loads(json.loads(got)[TOKEN]["a"]).keys() == {TOKEN, "x"}
    assert [hit.rule for hit in hits] == ["gitlab_token"]


def test_a_name_that_is_a_secret_is_said_and_not_copied_anywhere() -> None:
    text = json.dumps({"a": [{TOKEN: f"token {OTHER}"}]})
    said = [(hit.rule, hit.at) for _, hit in Redactor(KEY).look(text, names=True)]
    digest = Redactor(KEY).digest(TOKEN)
    assert said == [("github_token", "/a/0"), ("gitlab_token", f"/a/0/[redacted:github_token:{digest}]")]
    noted = Redactor(KEY).noted(json.loads(text))
    assert Redactor(KEY).noted(noted) is noted and json.dumps(noted).count(TOKEN) == 1


@pytest.mark.parametrize("name", ["id", "uuid", "tool_use_id", "call_id", "sessionId", "signature", "data", "sha256"])
def test_ids_are_left_alone_beside_a_telling_name(name: str) -> None:
    word = "Zk3vQ9xW7rT5yU1iO8pA2sD4"
    telling = json.dumps({"password": word})
    assert clean(telling)[1], "the value is one that is found"
    for record in ({"password": {name: word}}, {"password": "", name: word}, {"arguments": json.dumps({name: word})}):
        assert clean(json.dumps(record)) == (json.dumps(record), [])


def test_a_secret_with_a_form_of_its_own_is_found_where_ids_stand() -> None:
    got, hits = clean(json.dumps({"id": TOKEN, "parent_id": TOKEN}))
    assert json.loads(got)["id"] == json.loads(got)["parent_id"] == f"[redacted:github_token:{hits[0].digest}]"


def test_a_uuid_beside_a_provider_that_has_such_keys_is_an_id() -> None:
    uuid = labelled.Draw().form("{u}")
    assert clean(json.dumps({"a": f"HEROKU_API_KEY={uuid}"}))[1]
    record = json.dumps({"type": "heroku_api_key", "session": uuid, "heroku": {"id": uuid}})
    assert clean(record) == (record, [])


@pytest.mark.parametrize("name", ["signature", "encrypted_content", "data", "thoughtSignature"])
def test_opaque_members_are_left_alone_while_they_are_base64(name: str) -> None:
    blob = "QUJD" * 300 + TOKEN.replace("_", "/")
    assert clean(json.dumps({"type": "thinking", name: blob}))[1] == []
    spoken = clean(json.dumps({name: f"the token is {TOKEN}"}))[1]
    assert [hit.rule for hit in spoken] == ["github_token"]


def test_an_opaque_value_may_look_like_a_secret() -> None:
    # Whether something is found goes by what stands before it, so the beginning of the value has to look like one.
    value = f"{AWS}/" + "QUJD" * 80
    for name, rules in (("content", ["aws_access_key_id"]), ("signature", [])):
        for record in ({name: value}, {"arguments": json.dumps({name: value})}):
            assert [hit.rule for hit in clean(json.dumps(record))[1]] == rules


@pytest.mark.parametrize("name", sorted(redact.OPAQUE))
def test_a_token_is_one_also_as_the_value_of_an_opaque_member(name: str) -> None:
    for record in ({name: TOKEN}, {"input": {name: TOKEN}}, {"arguments": json.dumps({name: TOKEN})}):
        got, hits = clean(json.dumps(record))
        assert [hit.rule for hit in hits] == ["github_token"] and TOKEN not in got


def test_a_token_by_the_users_rules_is_one_also_where_ids_stand() -> None:
    begun = 'ruleset-revision: 1\ndetector: acme\nspecificity: contextual\nprefix: "acme-key-"\n'
    redactor = Redactor(KEY, more=f"{begun}alphabet: alnum-dash\nrun: at-least 20\nvalidator: none\n")
    for name in ("id", "data"):
        record = json.dumps({name: "acme-key-" + "a1" * 15}).encode()
        assert [hit.rule for hit in redactor.record(record)[1]] == ["acme"]


def test_long_runs_of_base64_are_not_looked_at() -> None:
    assert clean(f"QUJD/{AWS}/QUJD")[1]
    assert clean("QUJD/" * (detect.MAX_RUN // 5) + f"{AWS}/QUJD")[1] == []
    assert clean("QUJD/" * detect.MAX_RUN + f" {AWS}")[1]
    assert clean("eyJ" * 3000)[1] == []


def test_a_mark_is_not_replaced_again_for_what_stands_behind_it(monkeypatch: pytest.MonkeyPatch) -> None:
    text = json.dumps({"a": "[redacted:rule:01234567]", "b": 1})
    at = text.index("[")
    monkeypatch.setattr(detect, "find", lambda text, more="": [detect.Found(at, len(text) - 2, "rule")])
    assert redact.places(text) == []


def test_a_string_that_would_not_be_json_any_more_is_replaced_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    def find(text: str, more: str = "") -> list[detect.Found]:
        return [detect.Found(match.start(), match.end(), "rule") for match in re.finditer('s3cr3t","b', text)]

    monkeypatch.setattr(detect, "find", find)
    # As if it were nested too deep to be looked at.
    monkeypatch.setattr(redact, "_DEPTH", 0)
    inner = json.dumps({"a": "s3cr3t", "b": 1}, separators=(",", ":"))
    got, hits = Redactor(KEY).text(json.dumps({"arguments": inner, "c": 2}))
    assert json.loads(got) == {"arguments": redact.mark(hits[0]), "c": 2}


def test_what_is_found_again_and_again_is_replaced_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    def find(text: str, more: str = "") -> list[detect.Found]:
        at = text.find("secret")
        return [] if at < 0 else [detect.Found(at, at + 1, "rule")]

    monkeypatch.setattr(detect, "find", find)
    got, _ = Redactor(KEY).text('{"a":"' + "secret" * 20 + '","b":"x"}')
    assert re.fullmatch(r"\[redacted:rule:[0-9a-f]{8}\]", json.loads(got)["a"]) and json.loads(got)["b"] == "x"


def test_what_cannot_be_taken_out_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def find(text: str, more: str = "") -> list[detect.Found]:
        return [detect.Found(1, 2, "rule")]

    monkeypatch.setattr(detect, "find", find)
    with pytest.raises(Refused):
        Redactor(KEY).record(b"abc")


@pytest.mark.parametrize(
    "raw",
    [
        b'{"a":"%s' % TOKEN.encode(),
        b"\xff\xfe %s \x80" % TOKEN.encode(),
        b'\xef\xbb\xbf{"a":"%s"}\n' % TOKEN.encode(),
        b'{"a":"%s"}{"b":2}' % TOKEN.encode(),
        b'"\\ud83d %s"' % TOKEN.encode(),
        b"[" * 5000 + b'"%s"' % TOKEN.encode() + b"]" * 5000,
        b"[" * 5000 + b'"{\\x %s"' % TOKEN.encode() + b"]" * 5000,
        b"[" * 20_000 + b'"{\\x %s"' % TOKEN.encode(),
    ],
)
def test_whatever_a_record_is_only_the_secret_goes(raw: bytes) -> None:
    got, hits = Redactor(KEY).record(raw)
    assert got == raw.replace(TOKEN.encode(), redact.mark(hits[0]).encode())


# --- marks ---------------------------------------------------------------------------------------


def test_equal_secrets_have_equal_marks_under_one_key_only() -> None:
    one, hits = clean(json.dumps({"a": f"token {TOKEN}", "b": json.dumps({"c": f"token {TOKEN}"})}))
    assert len({hit.digest for hit in hits}) == 1 and one.count(redact.mark(hits[0])) == 2
    assert Redactor(b"x" * 32).digest(TOKEN) != Redactor(KEY).digest(TOKEN)


def test_marks_are_no_secrets_and_hide_none() -> None:
    assert clean('{"api_key":"[redacted:contextual_secret:1a2b3c4d]"}')[1] == []
    got, hits = clean(f'{{"api_key":"[redacted:contextual_secret:1a2b3c4d]{TOKEN}"}}')
    assert hits and TOKEN not in got


def test_what_is_allowed_stays() -> None:
    raw = f"token {TOKEN} and {OTHER}".encode()
    digest = Redactor(KEY).digest(TOKEN)
    for allowed in ("github_token", digest):
        got, hits = Redactor(KEY, frozenset({allowed})).record(raw)
        assert TOKEN.encode() in got and [hit.rule for hit in hits] == ["gitlab_token"]


# --- values and notes ----------------------------------------------------------------------------


def test_data_of_an_event_gets_a_note() -> None:
    data = {"role": "user", "parts": [{"type": "text", "content": f"it is {TOKEN}"}]}
    noted = Redactor(KEY).noted(data)
    digest = Redactor(KEY).digest(TOKEN)
    assert noted["redactions"] == [{"rule": "github_token", "at": "/parts/0/content", "digest": digest}]
    assert noted["parts"][0]["content"] == f"it is [redacted:github_token:{digest}]"
    assert Redactor(KEY).noted(noted) is noted
    more = Redactor(KEY).noted({**noted, "a": f"token {OTHER}"})
    assert [one["rule"] for one in more["redactions"]] == ["github_token", "gitlab_token"]


def test_a_note_takes_nobodys_place() -> None:
    with pytest.raises(UsageError, match="redactions"):
        Redactor(KEY).noted({"redactions": "mine", "a": f"token {TOKEN}"})
    with pytest.raises(FormatError):
        Redactor(KEY).noted({"a": object()})


def test_pointers_are_those_of_rfc_6901() -> None:
    _, hits = clean(json.dumps({"a/b~c": [1, {"d": [[], f"token {TOKEN}"]}], "e": 1}))
    assert [hit.at for hit in hits] == ["/a~1b~0c/1/d/1"]
    _, hits = clean(json.dumps([{"a": [1, 2]}, "x,y", f"token {TOKEN}"]))
    assert [hit.at for hit in hits] == ["/2"]
    assert clean(json.dumps(f"token {TOKEN}"))[1][0].at == ""


# --- the detector --------------------------------------------------------------------------------


def test_without_a_detector_nothing_is_called_clean(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "redact_secret", None)
    detect._detector.cache_clear()
    try:
        with pytest.raises(detect.Missing) as caught:
            Redactor(KEY).record(b"{}")
        assert caught.value.code == "no-detector" and "gitjournal[secrets]" in caught.value.hint
    finally:
        detect._detector.cache_clear()


def test_findings_that_overlap_are_one() -> None:
    some = [detect.Found(0, 4, "a"), detect.Found(2, 8, "b"), detect.Found(8, 9, "c")]
    assert detect._apart(some) == [detect.Found(0, 8, "a"), detect.Found(8, 9, "c")]


# --- anything ------------------------------------------------------------------------------------

_SECRETS = st.sampled_from([case.text for case in FOUND])
_WORDS = st.text(max_size=20) | _SECRETS | st.builds(lambda one: json.dumps({"k": one}), _SECRETS)
_NAMES = st.sampled_from(["id", "type", "content", "password", "data", "token", ""]) | st.text(max_size=5)
_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | _WORDS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_NAMES, inner, max_size=4),
    max_leaves=8,
)


@settings(max_examples=150)
@given(_VALUES, st.booleans(), st.integers(0, 3))
def test_any_record_keeps_its_structure_and_is_clean_after(value: Any, ascii_only: bool, levels: int) -> None:
    for _ in range(levels):
        value = {"v": json.dumps(value, ensure_ascii=ascii_only)}
    record = json.dumps(value, ensure_ascii=ascii_only)
    got, hits = clean(record.encode("utf-8", "surrogatepass"))
    assert bool(hits) == (got != record)
    if hits:
        assert shape(json.loads(got)) == shape(value)


@pytest.mark.parametrize("at_once", [1, 2, 1 << 17])
@given(text=st.recursive(st.text(max_size=8), lambda inner: inner.map(json.dumps), max_leaves=3))
def test_every_place_of_a_view_leads_back_to_its_own_characters(at_once: int, text: str) -> None:
    whole = View(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(escapes, "_AT_ONCE", at_once)
        view = View(text)
    assert view.text == whole.text
    assert [view.forth(at) for at in range(len(text) + 1)] == [whole.forth(at) for at in range(len(text) + 1)]
    spans = [view.back(at, at + 1) for at in range(len(view.text))]
    assert spans == sorted(spans)
    for at, (start, end) in enumerate(spans):
        assert 0 <= start < end <= len(text)
        assert view.text[at] in View(text[start:end]).text


@pytest.mark.parametrize("escape", [r"\r\n", r"\"", r"\\n", r"\u00e9", "\x1b[0m\x07", r"\t\r"])
def test_the_view_of_a_text_of_escapes_takes_little_memory(escape: str) -> None:
    text = escape * (2_000_000 // len(escape))
    tracemalloc.start()
    try:
        view = View(text)
        # Runs of white space are one piece.
        assert tracemalloc.get_traced_memory()[1] < (10_000_000 if escape in (r"\r\n", r"\t\r") else 50_000_000)
    finally:
        tracemalloc.stop()
    assert view.back(len(view.text) - 1, len(view.text))[1] == len(text) if view.text else escape[0] == "\x1b"


def test_what_escapes_stand_for_is_not_remembered_without_bounds() -> None:
    View("x".join(r"\n" * n for n in range(300)))
    View("".join("\\" + "u005c" * (n % 7) + f"u{n:04x}" for n in range(0x11000)))
    assert len(escapes.ALL_LEVELS) <= 1 << 16 and max(map(len, escapes.ALL_LEVELS)) <= 64
    escapes.ALL_LEVELS.clear()


@pytest.mark.parametrize("between", ["\r\n", "\n\r\t", "\n\n", "\t"])
def test_a_secret_between_runs_of_white_space_goes_alone(between: str) -> None:
    record = json.dumps({"t": f"a{between * 3}{TOKEN}{between * 3}b"})
    got, hits = clean(record.encode())
    assert [hit.rule for hit in hits] == ["github_token"]
    assert json.loads(got)["t"].replace(redact.mark(hits[0]), TOKEN) == json.loads(record)["t"]
