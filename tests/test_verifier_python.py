"""The standalone verifier `verifiers/verify_chain.py`, against the library and by itself.

What all five verifiers must say is in `verifiers/vectors`; here are the parts of this one that a whole verdict cannot
show, and that it says the same as the library, which shares no line of code with it.
"""

from __future__ import annotations

import ast
import importlib.util
import io
import json
import math
import os
import shutil
import subprocess
import sys
import zlib
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any, cast

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from hypothesis import given
from hypothesis import strategies as st
from strategies import boundary_doubles, documents, random_doubles, spellings, surrogate_text
from support import KIND_NAMES, ROOT, as_nobody, chain, derive, event, git, git_text, members, naive_hash, pack_order

import gitjournal
from gitjournal import canonical, keys, proof, refs, rules, sshsig
from gitjournal.errors import FormatError, UsageError
from gitjournal.event import Event
from gitjournal.objects import Derived, FileBlob, git_id, side_file
from gitjournal.refs import Name
from gitjournal.signers import AllowedSigners
from gitjournal.verify import Checks
from gitjournal.verify import verify as library_verify

SCRIPT = ROOT / "verifiers" / "verify_chain.py"
VECTORS = ROOT / "verifiers" / "vectors"


def load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("verify_chain", SCRIPT)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules["verify_chain"] = module
    spec.loader.exec_module(module)
    return module


V: Any = load()


def run(*args: str | Path, status: int | None = None) -> dict[str, Any]:
    """The verdict, which must keep its own rules; nothing for an exit status without one."""
    out, errors = io.TextIOWrapper(io.BytesIO()), io.StringIO()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stdout", out)
        patch.setattr(sys, "stderr", errors)
        code = V.main([*map(str, args)])
    printed = cast(io.BytesIO, out.buffer).getvalue()
    assert status is None or code == status
    if code in (2, 4):
        assert printed == b"" and errors.getvalue()
        return {}
    assert printed.endswith(b"\n") and not errors.getvalue()
    verdict = canonical.loads_canonical(printed[:-1])
    assert code == {"ok": 0, "broken": 1, "incomplete": 3}[verdict["verdict"]]
    return dict(verdict)


def found(verdict: dict[str, Any]) -> list[tuple[str, int | None]]:
    """(code, seq) of all findings of the one line."""
    (line,) = verdict["lines"]
    return [(one["code"], one["seq"]) for one in line["findings"]]


def code_of(work: Callable[[], object]) -> str | None:
    try:
        work()
    except (FormatError, V.Broken) as error:
        return str(error.code)
    return None


# --- the file itself -------------------------------------------------------------------------------


def test_it_imports_the_standard_library_and_for_signatures_cryptography() -> None:
    tree = ast.parse(SCRIPT.read_text(encoding="utf-8"))
    nodes = [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
    names = {
        n
        for node in nodes
        for n in ([node.module] if isinstance(node, ast.ImportFrom) else [a.name for a in node.names])
    }
    others = {name.split(".")[0] for name in names if name} - sys.stdlib_module_names
    assert others == {"cryptography"}
    at_the_top = {node.module for node in tree.body if isinstance(node, ast.ImportFrom)}
    assert not any(name and name.startswith("cryptography") for name in at_the_top)


def test_it_says_what_the_documentation_says() -> None:
    page = (ROOT / "docs" / "verification.md").read_text(encoding="utf-8")
    for code, text in V.TEXTS.items():
        assert f"| `{code}` | {text} |" in page
    for name, value in V.ENVIRONMENT.items():
        assert f"`{name}`" in page and f"`{value}`" in page
    for text in V.NOT_SEEN.values():
        assert f"`{text}`" in page


# --- JSON ------------------------------------------------------------------------------------------


def json_code(raw: bytes) -> str | None:
    return code_of(lambda: V.parse(raw))


def agree(raw: bytes) -> None:
    """The verifier and the library say the same of a text, and read the same value."""
    assert json_code(raw) == code_of(lambda: canonical.loads_canonical(raw)), raw
    if json_code(raw) is None:
        assert canonical.dumps(V.parse(raw)) == raw


HARD = [
    b"", b" ", b"null", b" null", b"nul", b"true", b"tru", b"0", b"-0", b"-0.0", b"0.0", b"-1e-999", b"1e-999",
    b"1e999",
    b"1.0", b"1e0", b"1E0", b"01", b"-", b"+1", b".5", b"1.", b"1.5", b"-1.5", b"0.00001", b"1e-5", b"1e-7", b"1e-07",
    b"0.000001", b"0.0000001", b"1.5e-7", b"5e-324", b"9007199254740991", b"9007199254740992", b"-9007199254740991",
    b"-9007199254740992", b"9007199254740991.4", b"9007199254740991.5", b"9" * 5000, b"0." + b"3" * 5000,
    b"1" + b"0" * 15,
    b"NaN", b"Infinity", b"-Infinity", b"'a'", b'"a', b'"\x00"', b'"\x1f"', b'"\x7f"', b'"\\u001f"', b'"\\u001F"',
    b'"\\u0041"', b'"\\/"', b'"\\b\\t\\n\\f\\r\\"\\\\"', b'"\\u0008"', b'"\\v"', b'"\\u12"', b'"\\u+123"',
    b'"\\u 123"',
    b'"\\ud83d\\ude00"', b'"\xf0\x9f\x98\x80"', b'"\\ud83d"', b'"\\ude00"', b'"\\ude00\\ud83d"', b'"\\ud83d\\u0041"',
    b'"\\ud83dx"', b'"\xed\xa0\x80"', b'"\xc0\xaf"', b'"\xff"', b'"\xf4\x90\x80\x80"', b"\xef\xbb\xbf1", b"1 ",
    b"1\n", b"1 1",
    b"\x0c1", b"\xc2\xa01", b"[]", b"[ ]", b"[1,]", b"[,1]", b"[1 2]", b"{}", b"{ }", b'{"a":1}', b'{"a":1,}',
    b'{"a" :1}',
    b'{"b":1,"a":2}', b'{"a":1,"a":1}', b'{"a":1,"\\u0061":1}', b'{"b":1,"a":2,"b":3}', b"{1:2}", b"{a:1}",
    b'{"a"}', b"1.5.5",
    b'{"\xee\x80\x80":1,"\xf0\x90\x80\x80":2}', b'{"\xf0\x90\x80\x80":1,"\xee\x80\x80":2}', b'{"":1}', b'{"":1,"":2}',
    b'{"\\ud800":1}', b'[1.0,"\\ud800"]', b'[1.0,01]', b"[1.0,", b'{"__proto__":1,"constructor":2,"toJSON":3}',
    b"/**/1",
    *(b"[" * n + b"]" * n for n in (63, 64, 65, 66, 2000)), *(b'{"a":' * n + b"0" + b"}" * n for n in (63, 64,
    65, 2000)),
    b"[" * 100_000, b'{"a":[' * 64 + b"]}" * 64, b"[" + b"[]," * 200 + b"[]]", b"[" * 64 + b"1.0" + b"]" * 64,
]  # fmt: skip


@pytest.mark.parametrize("raw", HARD, ids=lambda raw: ascii(raw[:20]))
def test_hard_json(raw: bytes) -> None:
    agree(raw)


@given(documents)
def test_random_json_in_all_spellings(value: Any) -> None:
    agree(canonical.dumps(value))
    for text in spellings(value):
        agree(text)


@given(documents, st.data())
def test_mutated_json(value: Any, data: st.DataObject) -> None:
    raw = bytearray(canonical.dumps([value, "é😀", {"a": 1.5, "b": -7}]))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(raw) - 1))
        piece = data.draw(
            st.one_of(st.binary(max_size=2), st.sampled_from([b'"', b",", b"0", b"\\u00", b"e9", b"{}", b" "]))
        )
        raw[at : at + data.draw(st.integers(0, 2))] = piece
        if not raw:
            break
    agree(bytes(raw))


@given(st.one_of(st.binary(max_size=30), st.text('{}[]",:0123456789.eE+-truefalsn \\ud8', max_size=30).map(str.encode)))
def test_any_bytes(raw: bytes) -> None:
    agree(raw)


@given(surrogate_text)
def test_lone_surrogates(text: str) -> None:
    for value in ([text], {text: 1}, {"a": 1, text: 1}):
        agree(json.dumps(value, separators=(",", ":")).encode())


def test_numbers_are_printed_as_ecmascript_does() -> None:
    for value in [*random_doubles(5000, 7), *boundary_doubles(), 2.0**-44]:
        if math.isfinite(value) and abs(value) < 2**53 and not value.is_integer():
            text = V.ecmascript(value)
            assert text.encode() == canonical.dumps(value)
            agree(text.encode())
            agree(repr(value).encode())


def test_a_slow_text_is_judged_as_the_fast_one_is(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [canonical.dumps(members(n, data={"a": [n / 8], "b": "x\n"})) for n in range(1, 20)]
    fast = [V.parse(text) for text in texts]
    monkeypatch.setattr(V, "parse_fast", lambda raw, text: None)
    assert [V.parse(text) for text in texts] == fast


# --- names -----------------------------------------------------------------------------------------


@given(st.one_of(st.text(max_size=12), st.text(".-%/lock a\u00e9", max_size=8)))
def test_names(name: str) -> None:
    try:
        expected = refs.encode(refs.check_id(name))
    except UsageError:
        assert not V.is_name(name) or len(refs.encode(name)) > refs.MAX_ENCODED
        return
    assert V.encode(name) == expected and V.is_part(expected)


@given(st.text(".-%/lock aAF0128E9C3\u00e9", max_size=8))
def test_parts_of_refs(part: str) -> None:
    ours = refs.parse_ref(f"refs/heads/{part}/main")
    assert V.is_part(part) == (ours is not None and "/" not in part)


def test_odd_parts_of_refs() -> None:
    for ref in (
        b"refs/heads/s",
        b"refs/heads/s/a/b",
        b"refs/remotes/s/main",
        b"refs/remotes//s/main",
        b"refs/heads/\xff/main",
    ):
        assert V.parts_of(ref) is None
    assert V.parts_of("refs/remotes/ø/s%20/main".encode()) == ("s%20", "main")
    assert V.parts_of(b"refs/heads/s/" + b"a" * 200) and not V.parts_of(b"refs/heads/s/" + b"a" * 201)


# --- one event -------------------------------------------------------------------------------------

FILES = [{"media_type": "a/b", "name": "n", "sha256": "0" * 64, "size": 1}]
CHANGES: list[dict[str, Any]] = [
    {"v": 2}, {"v": True}, {"v": "1"}, {"v": ...}, {"v": ..., "seq": 0}, {"x": 1}, {"actor": ...}, {"prev": ...},
    {"seq": 0}, {"seq": -1}, {"seq": 100_000_000}, {"seq": 1.5}, {"seq": "1"}, {"seq": True}, {"seq": 99_999_999},
    {"epoch": 0}, {"epoch": 1.5}, {"epoch": None}, {"epoch": 2**53 - 1}, {"epoch": 0, "ts": ""},
    {"seq": 0, "epoch": 0},
    {"session": ""}, {"session": "a" * 200}, {"session": "é" * 101}, {"session": "a\x7f"},
    {"session": "\u009f"}, {"session": 1},
    {"prev": "0" * 63}, {"prev": "A" * 64}, {"prev": 0}, {"seq": 1, "type": "session.start"}, {"prev": None},
    {"seq": 1},
    {"ts": "2026-02-29T00:00:00.000Z"}, {"ts": "2024-02-29T23:59:59.999Z"}, {"ts": "1969-12-31T23:59:59.999Z"},
    {"ts": "1970-01-01T00:00:00.000Z"}, {"ts": "2026-01-01T24:00:00.000Z"}, {"ts": "2026-01-01T00:60:00.000Z"},
    {"ts": "2026-01-01T00:00:60.000Z"}, {"ts": "2026-13-01T00:00:00.000Z"}, {"ts": "2026-1-01T00:00:00.000Z"},
    {"ts": "2026-01-01T00:00:00Z"}, {"ts": "2026-01-01T00:00:00.000Z\n"}, {"ts": "٢٠٢٦-01-01T00:00:00.000Z"},
    {"ts": None},
    {"ts": "0000-01-01T00:00:00.000Z"}, {"ts": "9999-12-31T00:00:00.000Z"}, {"ts": "2100-02-29T00:00:00.000Z"},
    {"type": "A"}, {"type": "a" * 64}, {"type": "a" * 65}, {"type": "a..b"}, {"type": "a.1"},
    {"type": "a_.b9"}, {"type": "a\n"},
    {"type": "session.start"}, {"actor": ""}, {"actor": "-a"}, {"actor": "a" * 100}, {"actor": "a" * 101},
    {"actor": "a b"},
    {"turn": ""}, {"turn": "a" * 64}, {"turn": "a" * 65}, {"turn": None}, {"turn": "a.b"}, {"data": []},
    {"data": None}, {"data": ...},
    {"salt": "A" * 22}, {"salt": "A" * 21 + "B"}, {"salt": "A" * 21}, {"salt": None}, {"data_sha256": "0" * 64},
    {"data": ..., "data_sha256": "0" * 64}, {"data": ..., "data_sha256": "0" * 64, "salt": "A" * 22},
    {"data": ..., "data_sha256": "0"},
    {"data": ..., "data_sha256": "0" * 64, "files": FILES}, {"data": ..., "data_sha256": "0" * 64, "turn": "t"},
    *({"data": ..., "data_sha256": "0" * 64, "type": kind} for kind in ("session.branch", "session.fork",
    "session.seal")),
    {"files": []}, {"files": {}}, {"files": FILES}, {"files": [1]}, {"files": FILES * 1000}, {"files": FILES * 1001},
    *({"files": [{**FILES[0], **change}]} for change in (
        {"sha256": "0"}, {"size": -1}, {"size": 1.5}, {"size": True}, {"size": 0}, {"media_type": ""},
        {"media_type": "é"},
        {"media_type": "a" * 127}, {"media_type": "a" * 128}, {"name": ""}, {"name": "é" * 127},
        {"name": "é" * 128}, {"name": "\n"},
        {"name": None}, {"x": 1}, {"name": ',"epoch":1'},
    )),
    {"data": {"a": '","epoch":9'}}, {"data": {"epoch": 1, "files": [], "salt": ""}},
    {"data": {"x": {"epoch": 9}}, "files": FILES, "salt": "A" * 22},
    *({"data": data, "files": FILES} for data in (
        {"$gj:file": 1}, {"$gj:file": 0}, {"$gj:file": 2}, {"$gj:file": True}, {"$gj:file": 1.5},
        {"a": [{"$gj:file": 1}]},
        {"$gj:file": 1, "a": 1}, {"$gj:ref": [1, ""]}, {"$gj:ref": [1, "/a"]}, {"$gj:ref": [1, "a"]},
        {"$gj:ref": [2, ""]},
        {"$gj:ref": [1]}, {"$gj:ref": [1, 1]}, {"$gj:ref": 1}, {"$gj:json": "x"}, {"$gj:json": 1},
        {"$gj:b64": "?"}, {"$gj:b64": None},
        {"$gj:": 1}, {"$gj:x": ""}, {"a": [[{"$gj:y": 1}]]}, {"a": "$gj:file"}, {"a": '"$gj:file":'},
    )),
    {"data": {"$gj:file": 1}}, {"data": {"$gj:json": ""}},
]  # fmt: skip


def same_event(raw: bytes) -> None:
    ours = code_of(lambda: Event.parse(raw))
    assert code_of(lambda: V.read_event(raw)) == ours, raw
    if ours is None:
        event = V.read_event(raw)
        assert event.hash == Event.parse(raw).hash == naive_hash(canonical.loads(raw))
        assert event.time == rules.unix_seconds(Event.parse(raw).ts)


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: ascii(change)[:40])
def test_members_of_events(change: dict[str, Any]) -> None:
    for seq in (1, 7):
        value = {**members(seq), **change}
        same_event(canonical.dumps({key: item for key, item in value.items() if item is not ...}))


@given(st.data())
def test_mutated_events(data: st.DataObject) -> None:
    raw = bytearray(
        canonical.dumps(members(3, turn="t", salt="A" * 22, files=FILES, data={"n": 1, "é": [{"$gj:file": 1}]}))
    )
    at = data.draw(st.integers(0, len(raw) - 1))
    raw[at : at + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=3))
    same_event(bytes(raw))


def test_size_of_events() -> None:
    room = 16 * 1024 * 1024 - len(canonical.dumps(members(2, data={"a": ""})))
    for size in (room, room + 1):
        raw = canonical.dumps(members(2, data={"a": "x" * size}))
        assert code_of(lambda raw=raw: V.read_event(raw)) == (None if size == room else "bad-member")
    assert code_of(lambda: V.read_event(b"[" * (16 * 1024 * 1024 + 1))) == "bad-member"
    assert code_of(lambda: V.read_event(b"[" * (16 * 1024 * 1024))) == "bad-json"


# --- signatures ------------------------------------------------------------------------------------

ED = ed25519.Ed25519PrivateKey.from_private_bytes(b"\x07" * 32)
KEYS = {
    "ed25519": ED,
    "p256": ec.derive_private_key(7, ec.SECP256R1()),
    "p384": ec.derive_private_key(8, ec.SECP384R1()),
}


def verdict_of(armour: str, message: bytes = b"text", namespace: str = "git", key: str | None = None) -> str:
    try:
        return "right" if V.check_sshsig(armour, namespace, message, key)[1] else "not checked"
    except V.Broken as error:
        return str(error.code)


@pytest.fixture(scope="module")
def rsa_key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(65537, 2048)


@pytest.mark.parametrize("backend", ["cryptography", "ssh-keygen", "none"])
def test_signatures_with_each_backend(
    backend: str, monkeypatch: pytest.MonkeyPatch, rsa_key: rsa.RSAPrivateKey
) -> None:
    if backend != "cryptography":
        monkeypatch.setattr(V, "by_cryptography", lambda *parts: None)
    if backend == "none":
        monkeypatch.setenv("PATH", "/nowhere")
    elif backend == "ssh-keygen" and not shutil.which("ssh-keygen"):
        pytest.skip("no ssh-keygen")
    right, wrong = ("not checked", "not checked") if backend == "none" else ("right", "bad-signature")
    for key in (*KEYS.values(), rsa_key):
        armour = sshsig.sign(key, b"text", "git")
        assert verdict_of(armour) == verdict_of(armour, key=V.fingerprint(sshsig.public_blob(key))) == right
        assert verdict_of(armour, b"other") == wrong
        assert verdict_of(armour, namespace="file") == verdict_of(armour, key="SHA256:") == "bad-signature"


SIGNATURES = [V.unbase64("".join(sshsig.sign(key, b"text", "git").split("\n")[1:-2])) for key in KEYS.values()]


@given(st.sampled_from(SIGNATURES), st.data())
def test_mutated_signatures(signature: bytes, data: st.DataObject) -> None:
    raw = bytearray(signature)
    at = data.draw(st.integers(0, len(raw) - 1))
    raw[at : at + data.draw(st.integers(0, 4))] = data.draw(st.binary(max_size=4))
    armour = sshsig.armor(bytes(raw))
    try:
        ours = "right" if isinstance(sshsig.check(armour, b"text", "git"), sshsig.Checked) else "not checked"
    except FormatError as error:
        ours = error.code
    assert verdict_of(armour) == ours


def test_armour() -> None:
    good = sshsig.sign(ED, b"text", "git").removesuffix("\n")
    body = "".join(good.split("\n")[1:-1])
    begin, end = V.ARMOUR
    for text in (good, good + "\n", f"{begin}\n{body}\n{end}", f"{begin}\n\n{body}\n\n{end}"):
        assert verdict_of(text) == "right"
    for text in (
        good + "\n\n",
        "\n" + good,
        good.replace("\n", "\r\n"),
        begin,
        "",
        body,
        f"{begin}\n{end}",
        good + " ",
        "é",
    ):
        assert verdict_of(text) == "bad-signature"


LINES = [
    "{0}", "{0} comment more", "\t {0}\r", "  ", "# {0}", 'namespaces="git" {0}', 'namespaces="file" {0}',
    'NameSpaces="g*" {0}',
    'namespaces="*?**t" {0}', 'namespaces="*?i?t" {0}', f'namespaces="{"*" * 60}x" {{0}}',
    'namespaces="gi?,x" {0}', 'namespaces="*,!git" {0}', 'namespaces="!x" {0}', 'valid-after="20260101" {0}',
    'valid-before="20260101" {0}', 'valid-after="20260101",valid-before="20270101Z" {0}',
    'valid-after="202601011200" {0}',
    'valid-after="20260230" {0}', 'valid-after="2026" {0}', "valid-after=20260101 {0}", "namespaces {0}",
    "cert-authority {0}",
    'x="y z" {0}', 'namespaces="a",namespaces="git" {0}', 'x,x {0}', 'namespaces="git", {0}', ",x {0}",
    'namespaces="git {0}',
    "ssh-ed25519", "ssh-ed25519 AAAA", "ssh-rsa {1}", "{1}", "x {1}", "",
    "no-touch-required,namespaces=\"git\" {0}", "{0}x", "{0}=",
    'valid-before="19700101" {0}', 'namespaces="" {0}', 'valid-after="20260101000000z" {0}',
    'valid-before="20260101000001" {0}',
]  # fmt: skip


@given(
    st.lists(st.sampled_from(LINES), max_size=3),
    st.sampled_from([0, 1767225600, 1767225601, 1800000000]),
    st.booleans(),
)
def test_allowed_signers(tmp_path_factory: pytest.TempPathFactory, lines: list[str], time: int, two: bool) -> None:
    line = sshsig.key_line(sshsig.public_blob(ED))
    text = "".join(f"me@x,you {one.format(line, line.split()[1])}\n" for one in lines)
    path = tmp_path_factory.mktemp("signers") / "allowed"
    path.write_text(text, newline="")
    blob = sshsig.public_blob(KEYS["p256"] if two else ED)
    try:
        ours = AllowedSigners.parse(text).accepts(blob, "git", time)
    except UsageError:
        with pytest.raises(V.Stop):
            V.read_key_file(str(path), V.read_signer)
        return
    signers = [one for one in V.read_key_file(str(path), V.read_signer) if one]
    mine = next((one for one in signers if one.accepts(blob, "git", time)), None)
    assert (mine is None) == (ours is None)
    if mine and ours:
        assert (mine.number, mine.principals, mine.before is not None) == (ours.line, ours.principals, ours.ends)


# --- repositories ----------------------------------------------------------------------------------


def write_repo(path: Path, derived: Sequence[Derived], files: Sequence[FileBlob] = (), ref: str = "s/main") -> Path:
    """A repository with the objects as loose ones, and one ref."""
    if not path.exists():
        (path / "refs" / "heads").mkdir(parents=True)
        (path / "objects").mkdir()
        (path / "HEAD").write_text("ref: refs/heads/journal/main\n")
    for one in pack_order(derived, files):
        write_object(path, KIND_NAMES[one.kind], one.data)
    set_ref(path, derived[-1].commit[0], ref)
    return path


def write_object(path: Path, kind: bytes, data: bytes, as_id: str | None = None) -> bytes:
    oid = as_id or git_id(kind, data).hex()
    place = path / "objects" / oid[:2] / oid[2:]
    place.parent.mkdir(exist_ok=True)
    place.unlink(missing_ok=True)
    place.write_bytes(zlib.compress(b"%s %d\x00%s" % (kind, len(data), data)))
    return bytes.fromhex(oid)


def set_ref(path: Path, oid: bytes, ref: str = "s/main", root: str = "refs/heads") -> None:
    place = path / root / ref
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(oid.hex() + "\n")


def object_path(path: Path, oid: bytes) -> Path:
    return path / "objects" / oid.hex()[:2] / oid.hex()[2:]


@pytest.fixture
def events() -> list[Event]:
    return chain(105)


@pytest.fixture
def good(tmp_path: Path, events: list[Event]) -> Path:
    return write_repo(tmp_path / "good", derive(events))


def test_a_good_repository(good: Path, events: list[Event]) -> None:
    line = {
        "findings": [],
        "head": {"commit": derive(events)[-1].commit[0].hex(), "hash": events[-1].hash, "seq": 105},
        "name": "refs/heads/s/main",
        "seals": 0,
        "side_files": 0,
        "signatures": 0,
        "signed_to": 0,
        "signers": [],
        "withheld": [],
    }
    unchecked = [
        "events that are not yet in git: the tail of a live journal",
        "whether newer events were cut off: no head was expected",
        "who wrote the events: nothing is signed",
    ]
    assert run(good) == {"input": "git", "lines": [line], "unchecked": unchecked, "verdict": "ok", "version": 1}
    assert run(good, "s") == run(good, "s/main") == run(good)


@pytest.mark.parametrize("options", [[], ["-I", "-S"], ["-O"]])
def test_as_an_auditor_starts_it(good: Path, events: list[Event], options: list[str]) -> None:
    def start(*args: str | Path) -> tuple[int, bytes]:
        done = subprocess.run([sys.executable, *options, SCRIPT, *args], cwd=good, capture_output=True, check=False)
        assert b"Traceback" not in done.stderr
        return done.returncode, done.stdout

    status, printed = start(".")
    assert (status, json.loads(printed)) == (0, run(good))
    assert start(".", "none") == (4, b"") and start() == (2, b"")
    object_path(good, derive(events)[49].blob[0]).unlink()
    assert start(good)[0] == 1


def test_the_line_object_by_object(good: Path, events: list[Event]) -> None:
    """Each kind of object missing, changed, of another type, or cut."""
    derived = derive(events)
    one, last = derived[49], derived[-1]
    for (oid, data), kind, seqs in (
        (one.blob, b"blob", [50]),
        (one.commit, b"commit", [50]),
        (one.trees[0], b"tree", [50]),
        (one.trees[1], b"tree", [50]),
        (one.trees[2], b"tree", [50]),
        (last.commit, b"commit", [None]),
        (last.trees[0], b"tree", [100]),
        (derived[98].trees[0], b"tree", [1]),
        (last.trees[1], b"tree", [1, 100]),
        (last.trees[2], b"tree", [1, 100]),
    ):
        place = object_path(good, oid)
        kept = place.read_bytes()
        place.unlink()
        assert found(run(good)) == [("missing-object", seq) for seq in seqs]
        write_object(good, kind, data.replace(b"0", b"1", 1), oid.hex())
        assert found(run(good)) == [("bad-object", seq) for seq in seqs]
        write_object(good, b"blob" if kind != b"blob" else b"tree", data, oid.hex())
        assert found(run(good)) == [("bad-object", seq) for seq in seqs]
        place.write_bytes(kept[:-9])
        assert [seq for _, seq in found(run(good))] == seqs
        place.write_bytes(kept)
    assert run(good)["verdict"] == "ok"


def lie(path: Path, oid: bytes, size: int, content: bytes) -> None:
    """A loose blob whose header says another size: git prints it as it is."""
    object_path(path, oid).unlink()
    object_path(path, oid).write_bytes(zlib.compress(b"blob %d\x00%s" % (size, content)))


@pytest.mark.parametrize("seq", [3, 50, 99, 105])
def test_a_blob_that_lies_about_its_size_is_the_only_one_that_is_blamed(
    good: Path, events: list[Event], seq: int
) -> None:
    oid, raw = derive(events)[seq - 1].blob
    end = len(V.END)
    for size, content in (
        *((len(raw) + more, raw) for more in (1, 2, end, end + 1, end + 2, 1000, 100_000)),
        *((len(raw), raw + more) for more in (b"x", bytes(99_999))),
        *((len(raw), raw[:less]) for less in (0, 1, -1, -end, -end - 1)),
        (0, raw),
        (0, b""),
    ):
        lie(good, oid, size, content)
        (one,) = found(run(good))
        assert one == ("bad-object", seq)
    lie(good, oid, 20_000_000, raw)
    assert found(run(good)) == [("bad-member", seq)]


@pytest.mark.parametrize("seq", [3, 99, 105])
def test_an_answer_within_an_answer_is_never_ok(good: Path, events: list[Event], seq: int) -> None:
    """The bytes that the header promises are right, and more stand behind them."""
    oid, raw = derive(events)[seq - 1].blob
    following = derive(events)[min(seq, 104)].blob
    ident = following[0].hex().encode()
    right = b"%s blob %d\n%s" % (ident, len(following[1]), following[1])
    for more in (b"", ident + b" missing", right, right + b"\n", bytes(200_000)):
        lie(good, oid, len(raw), raw + b"\n" + more)
        assert run(good, status=1)


def test_a_side_file_that_lies_about_its_size(tmp_path: Path) -> None:
    contents = [side_file(b"%d" % n * 9, "text/plain") for n in range(3)]
    line = [event(files=[one.entry for one in contents])]
    repo = write_repo(tmp_path / "r", derive(line, {1: contents}), contents)
    for one in contents:
        for size in (0, 1, 8, 10, 9 + len(V.END), 10 + len(V.END), 30_000_000):
            lie(repo, one.oid, size, one.data)
            assert found(run(repo)) == [("bad-object", 1)]
        write_object(repo, b"blob", one.data)
    assert run(repo)["verdict"] == "ok"


def test_objects_that_are_too_large(tmp_path: Path, good: Path, events: list[Event]) -> None:
    derived = derive(events)
    write_object(good, b"commit", derived[9].commit[1] + bytes(64 << 10), derived[9].commit[0].hex())
    assert found(run(good)) == [("bad-commit", 10)]
    write_object(good, b"commit", derived[9].commit[1])
    write_object(good, b"tree", bytes(300 << 20), derived[9].trees[0][0].hex())
    assert found(run(good)) == [("bad-tree", 10)]
    write_object(good, b"tree", derived[9].trees[0][1])
    write_object(good, b"blob", bytes(17 << 20), derived[9].blob[0].hex())
    assert found(run(good)) == [("bad-member", 10)]


COMMIT_FORGERIES: list[tuple[str, Callable[[bytes], bytes]]] = [
    ("bad-hash", lambda raw: raw[:-2] + (b"1\n" if raw[-2:] == b"0\n" else b"0\n")),
    ("bad-commit", lambda raw: raw.replace(b"Session: s", b"Session: t")),
    ("bad-commit", lambda raw: raw.replace(b"message #50", b"message #51")),
    ("bad-commit", lambda raw: raw.replace(b"message #", b"massage #")),
    ("bad-commit", lambda raw: raw.replace(b" +0000", b" +0100")),
    ("bad-commit", lambda raw: raw.replace(b"\n\n", b"\ngpgsig x\n\n", 1)),
    ("bad-commit", lambda raw: raw + b"\n"),
    ("bad-commit", lambda raw: raw.replace(b"\n", b"\r\n")),
    ("bad-commit", lambda raw: raw[:46] + raw),
    ("bad-tree", lambda raw: raw.replace(b"host", b"hast")),
    ("bad-tree", lambda raw: b"tree " + b"0" * 40 + raw[45:]),
    ("bad-tree", lambda raw: raw.replace(b"1767323045", b"1767323046")),
]


@pytest.mark.parametrize(("code", "change"), COMMIT_FORGERIES)
def test_a_commit_in_the_place_of_another(
    good: Path, events: list[Event], code: str, change: Callable[[bytes], bytes]
) -> None:
    """With all that follow on it, which then are compared no more."""
    derived = derive(events)
    assert change(derived[49].commit[1]) != derived[49].commit[1]
    parent = write_object(good, b"commit", change(derived[49].commit[1]))
    for before, one in pairwise(derived[49:]):
        raw = one.commit[1].replace(before.commit[0].hex().encode(), parent.hex().encode())
        parent = write_object(good, b"commit", raw)
    set_ref(good, parent)
    assert found(run(good)) == [(code, 50)]


def test_a_parent_of_the_first_commit(good: Path, events: list[Event]) -> None:
    raw = derive(events[:1])[0].commit[1]
    parent = write_object(good, b"commit", raw)
    set_ref(good, write_object(good, b"commit", raw[:46] + b"parent " + parent.hex().encode() + b"\n" + raw[46:]))
    assert found(run(good)) == [("bad-commit", 1), ("bad-tree", 1)]


def test_head_that_says_another_seq(good: Path, events: list[Event]) -> None:
    head = derive(events)[-1].commit[1]
    set_ref(good, write_object(good, b"commit", head.replace(b"#105\n", b"#104\n")))
    assert ("bad-commit", 1) in found(run(good))
    set_ref(good, write_object(good, b"commit", head.replace(b"#105\n", b"#99999999\n")))
    verdict = run(good, status=1)
    assert len(found(verdict)) == 1000
    assert verdict["unchecked"][-1] == "what comes after 1000 findings in a line"
    set_ref(good, write_object(good, b"commit", head.replace(b"#105\n", b"#x\n")))
    assert found(run(good)) == [("bad-commit", None)]


def test_refs(good: Path, events: list[Event]) -> None:
    derived = derive(events)
    set_ref(good, derived[9].commit[0], "s/other")
    assert [found({"lines": [line]}) for line in run(good)["lines"]] == [[], [("wrong-ref", None)]]
    set_ref(good, derived[9].commit[0], "s/main", "refs/remotes/up")
    set_ref(good, derived[9].commit[0], "x/HEAD", "refs/remotes")
    set_ref(good, derived[9].commit[0], "s", "refs/remotes")
    set_ref(good, derived[9].commit[0], "s/main.lock")
    (good / "packed-refs").write_text(
        f"# pack-refs\n{derived[19].commit[0].hex()} refs/heads/s/main\n^{'0' * 40}\n{'0' * 39} refs/heads/s/x\n"
        f"{derived[8].commit[0].hex()} refs/remotes/up/s/main\n{derived[8].commit[0].hex()} refs/heads/a/b/c\n"
        f"{derived[4].commit[0].hex()} refs/remotes/down/s/main\n{derived[4].commit[0].hex()} refs/tags/t\n"
    )
    verdict = run(good)
    assert [(line["name"], line["head"]["seq"]) for line in verdict["lines"]] == [
        ("refs/heads/s/main", 105),
        ("refs/heads/s/other", 10),
        ("refs/remotes/down/s/main", 5),
        ("refs/remotes/up/s/main", 10),
    ]
    assert verdict["unchecked"][-1] == "refs that are no line of a journal: 2"
    assert len(run(good, "s")["lines"]) == 3
    (good / "refs/heads/s/main").unlink()
    assert run(good, "s")["lines"][0]["head"]["seq"] == 20
    for bad in (
        lambda p: p.write_text("ref: refs/heads/x\n"),
        lambda p: p.symlink_to("other"),
        os.mkfifo,
        lambda p: p.write_text(""),
    ):
        bad(good / "refs/heads/s/main")
        line = run(good, "s", "--require-signed")["lines"][0]
        assert (found({"lines": [line]}), line["head"]) == (
            [("wrong-ref", None)],
            {"commit": None, "hash": None, "seq": 0},
        )
        (good / "refs/heads/s/main").unlink()


def test_it_reads_what_clones_have(good: Path, tmp_path: Path) -> None:
    git("symbolic-ref", "HEAD", "refs/heads/s/main", cwd=good)
    git("clone", "-q", good, tmp_path / "clone")
    names = [line["name"] for line in run(tmp_path / "clone", status=0)["lines"]]
    assert names == ["refs/heads/s/main", "refs/remotes/origin/s/main"]
    git("clone", "-q", "--depth=3", f"file://{good}", tmp_path / "shallow")
    verdict = run(tmp_path / "shallow", "s", status=3)
    assert verdict["unchecked"][-1] == "commits that a shallow history leaves out: 204"
    (tmp_path / "shallow" / ".git" / "shallow").unlink()
    assert [found({"lines": [line]}) for line in run(tmp_path / "shallow", status=1)["lines"]] == [
        [("missing-object", 102)]
    ] * 2
    git("gc", "-q", cwd=good)
    assert run(good, status=0)


def test_what_cannot_be_run(good: Path, tmp_path: Path) -> None:
    hash_ = "0" * 64
    for args in (
        [], ["--help"], [good, "s", "x"], [good, "--expect-seq", "1"], [good, "s", "--expect-seq", "0",
        "--expect-head", hash_],
        [good, "s", "--expect-seq", "01", "--expect-head", hash_], [good, "s", "--expect-seq", "1",
        "--expect-head", "A" * 64],
        [good, "--expect-seq", "1", "--expect-head", hash_], [good, "--allowed-signers", tmp_path / "none"],
        [good, "--revoked-keys"],
        [tmp_path / "x.json", "--expect-seq", "1", "--expect-head", hash_], [tmp_path / "x.jsonl", "name"],
    ):  # fmt: skip
        (tmp_path / "x.json").touch()
        (tmp_path / "x.jsonl").touch()
        run(*args, status=2)
    (tmp_path / "empty").mkdir()
    (tmp_path / "x.txt").touch()
    os.mkfifo(tmp_path / "pipe.jsonl")
    for name in ("t", "s/x", "%73", ""):
        run(good, name, status=4)
    for other in ("none", "empty", "x.txt", "x.jsonl", "pipe.jsonl", "none.json", "good/objects"):
        run(tmp_path / other, status=4)
    (good / "reftable").mkdir()
    run(good, status=4)


def test_expected_heads(good: Path, events: list[Event]) -> None:
    def expect(seq: int, digest: str) -> list[tuple[str, int | None]]:
        return found(run(good, "s", "--expect-seq", str(seq), "--expect-head", digest))

    assert expect(105, events[-1].hash) == expect(1, events[0].hash) == []
    assert expect(105, events[-2].hash) == [("rollback", 105)]
    assert expect(106, events[-1].hash) == [("truncated", 105)]
    object_path(good, derive(events)[-1].commit[0]).unlink()
    assert expect(3, events[2].hash) == [("missing-object", None), ("truncated", None)]


def test_side_files(tmp_path: Path) -> None:
    contents = [side_file(b"%d" % n * n, "text/plain", f"n{n}") for n in range(1, 13)]
    line = chain(3)
    with_files = event(4, line[-1].hash, files=[one.entry for one in contents], data={"$gj:file": 12})
    line += [with_files, *chain(2, first=5, prev=with_files.hash)]
    repo = write_repo(tmp_path / "r", derive(line, {4: contents}), contents)
    assert run(repo, status=0)["lines"][0]["side_files"] == 12
    write_object(repo, b"blob", b"other", contents[9].oid.hex())
    object_path(repo, contents[3].oid).unlink()
    verdict = run(repo)
    assert found(verdict) == [("bad-object", 4), ("missing-object", 4)]
    assert verdict["lines"][0]["side_files"] == 10
    wrong = side_file(b"wrong", "text/plain")
    repo = write_repo(tmp_path / "wrong", derive(line, {4: [*contents[:11], wrong]}), [*contents, wrong])
    assert found(run(repo)) == [("bad-file", 4)]
    repo = write_repo(tmp_path / "more", derive(line, {4: contents, 5: [wrong]}), [*contents, wrong])
    assert found(run(repo)) == [("bad-file", 5)]


def test_equivocation_and_branches(tmp_path: Path) -> None:
    trunk = chain(20)
    other = trunk[:10] + chain(5, first=11, prev=trunk[9].hash, actor="b")
    repo = write_repo(tmp_path / "r", derive(trunk))
    write_repo(repo, derive(other), ref="s/x")
    set_ref(repo, derive(other)[-1].commit[0], root="refs/remotes/r")
    verdict = run(repo)
    assert [found({"lines": [line]}) for line in verdict["lines"]] == [
        [],
        [("wrong-ref", None), ("equivocation", 11)],
        [("equivocation", 11)],
    ]
    (repo / "refs/remotes/r/s/main").unlink()
    start = {"branch": "main", "seq": 10, "hash": trunk[9].hash}
    late = event(16, other[-1].hash, type="session.branch", data={"branch": "x", "from": start})
    write_repo(repo, derive([*other, late]), ref="s/x")
    assert run(repo)["verdict"] == "ok"
    fork = event(11, trunk[9].hash, session="f", type="session.fork", data={"from": {**start, "session": "s"}})
    write_repo(repo, derive([*trunk[:10], fork]), ref="f/main")
    assert run(repo)["verdict"] == "ok"


# --- against the library ---------------------------------------------------------------------------


@pytest.fixture(scope="module")
def signed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A journal with signed sessions, a branch, a fork, withheld events and proofs; allowed signers beside it."""
    folder = tmp_path_factory.mktemp("signed")
    journal = gitjournal.init(folder / "j")
    for name, key in KEYS.items():
        with journal.session(name, create=True, durability="os", sign="every", signer=keys.FileSigner(key)) as s:
            s.append_many([("message", {"n": n, "😀": n / 3, "\ue000": [[]] * 70}, "user") for n in range(30)])
            s.append("message", {"text": "x" * 70_000}, actor="user")
            s.seal()
            s.append_many([("message", {"n": n}, "user") for n in range(80)])
            s.seal()
    journal.branch("p256", at=20, as_="try b")
    journal.fork("p384", at=50, session="fork/1")
    for name in ("p256/try b", "fork/1"):
        with journal.session(name, durability="os") as s:
            s.append("message", {"n": 1}, actor="user")
    lines = [f"{name}@x {sshsig.key_line(sshsig.public_blob(key))}\n" for name, key in KEYS.items()]
    (folder / "signers").write_text("".join(lines))
    seals = [one.seq for one in journal.events("ed25519") if one.type == "session.seal"]
    (folder / "inclusion.json").write_bytes(proof.inclusion(journal, "ed25519", 40))
    (folder / "withheld.json").write_bytes(proof.inclusion(journal, "ed25519", 7, withheld=True))
    (folder / "consistency.json").write_bytes(proof.consistency(journal, "ed25519", *seals))
    raw = [(one.withhold() if one.seq in (3, 4, 9) else one).raw + b"\n" for one in journal.events("p256")]
    (folder / "x.jsonl").write_bytes(b"".join(raw))
    (folder / "x.jsonl.files").mkdir()
    big = next(one for one in journal.events("p256") if one.files)
    (folder / "x.jsonl.files" / f"{big.seq}.1").write_bytes(journal.raw_file("p256", big.seq, 1))
    return folder


def same_as_library(path: Path, name: Name, signers: Path | None = None) -> dict[str, Any]:
    """The verifier's line, which must be what the library says of it."""
    args = [] if signers is None else ["--allowed-signers", signers]
    line = run(path, name.path, *args)["lines"][0]
    checks = Checks(AllowedSigners.parse(signers.read_bytes()) if signers else None)
    report = library_verify(gitjournal.open(path), name, checks)
    mine = {(one["code"], one["seq"], one["id"]) for one in line["findings"]}
    assert mine == {(one.code, one.seq, one.id) for one in report.findings}
    signed_by = {one["key"]: (one["principals"], one["signatures"]) for one in line["signers"]}
    assert signed_by == {key: (one.principals, one.signatures) for key, one in report.signers.items()}
    for count in ("seals", "side_files", "signatures", "signed_to"):
        assert line[count] == getattr(report, count)
    return dict(line)


NAMES = [Name("ed25519"), Name("p256"), Name("p384"), Name("p256", "try b"), Name("fork/1"), Name("journal")]


@pytest.mark.parametrize("name", NAMES, ids=str)
def test_signed_journal_as_the_library_sees_it(signed: Path, name: Name) -> None:
    for signers in (None, signed / "signers"):
        line = same_as_library(signed / "j", name, signers)
        assert line["findings"] == []


def test_signed_journal_in_words(signed: Path) -> None:
    verdict = run(signed / "j", "p384", "--allowed-signers", signed / "signers", "--require-signed", status=0)
    assert "signed" not in "".join(verdict["unchecked"])
    (line,) = verdict["lines"]
    assert line["signed_to"] == line["head"]["seq"] == line["signatures"] - 2
    assert line["signers"][0]["principals"] == "p384@x"
    assert run(signed / "j", "p384", status=3)["unchecked"][-1] == "whose keys signed: no allowed signers were given"
    revoked = signed / "revoked"
    revoked.write_text(sshsig.key_line(sshsig.public_blob(KEYS["p384"])) + "\n")
    args = ("--allowed-signers", signed / "signers", "--revoked-keys", revoked, "--require-signed")
    codes = {code for code, _ in found(run(signed / "j", "p384", *args))}
    assert codes == {"unknown-signer", "bad-signature"}
    some = signed / "some"
    line_of = sshsig.key_line(sshsig.public_blob(KEYS["p384"]))
    some.write_text(f'a@x namespaces="git",valid-before="21000101" {line_of}\nb@x namespaces="gitjournal" {line_of}\n')
    verdict = run(signed / "j", "p384", "--allowed-signers", some, status=0)
    assert verdict["lines"][0]["signers"][0]["principals"] == "a@x"
    assert "when it was signed: an accepted key has an end, and the time is the signer's word" in verdict["unchecked"]


def test_shallow_clone_of_signed_commits(signed: Path, tmp_path: Path) -> None:
    git("clone", "-q", "--depth=4", "--bare", "--branch=p256/main", f"file://{signed / 'j'}", tmp_path / "c")
    verdict = run(tmp_path / "c", "p256", "--allowed-signers", signed / "signers", status=3)
    assert found(verdict) == []
    assert verdict["lines"][0]["signatures"] == 6


def test_signature_on_a_commit(signed: Path, tmp_path: Path) -> None:
    """Stripped, of another commit, and of another key."""
    repo = tmp_path / "j"
    shutil.copytree(signed / "j", repo)
    head = git_text("rev-parse", "refs/heads/p256/main", cwd=repo)
    raw = git("cat-file", "commit", head, cwd=repo).stdout
    parent = git("cat-file", "commit", head + "^", cwd=repo).stdout
    start, end = raw.index(b"gpgsig "), raw.index(b"\n\n") + 1
    foreign = parent[parent.index(b"gpgsig ") : parent.index(b"\n\n") + 1]
    for header, codes in ((b"", {"bad-tree"}), (foreign, {"bad-signature"}), (b"gpgsig x\n", {"bad-commit"})):
        oid = write_object(repo, b"commit", raw[:start] + header + raw[end:])
        set_ref(repo, oid, "p256/main")
        line = same_as_library(repo, Name("p256"), signed / "signers")
        # A commit without its signature is the derived one: only a demand for signatures tells the difference.
        assert {one["code"] for one in line["findings"]} == (codes if header else set())


@pytest.mark.parametrize("name", ["inclusion", "withheld", "consistency"])
def test_proofs(signed: Path, name: str, tmp_path: Path) -> None:
    path = signed / f"{name}.json"
    verdict = run(path, "--allowed-signers", signed / "signers", status=0)
    assert (verdict["input"], found(verdict)) == ("proof", [])
    (line,) = verdict["lines"]
    assert line["seals"] == line["signatures"] == (2 if name == "consistency" else 1)
    assert line["signed_to"] == line["head"]["seq"] and line["head"]["commit"] is None
    assert line["withheld"] == ([[7, 7]] if name == "withheld" else [])
    raw = path.read_bytes()
    value = canonical.loads(raw[:-1])
    signers = AllowedSigners.parse((signed / "signers").read_bytes())
    changes: list[bytes] = [
        raw[:-1],
        raw + b"\n",
        b" " + raw,
        b"\n",
        b"",
        b"[]\n",
        raw[: len(raw) // 2],
        b"\xff\n",
        b"1.0",
    ]
    for key in value:
        changes += [canonical.dumps({**value, key: other}) + b"\n" for other in (1, 2, "x", None, [], ["x"], {})]
        changes += [canonical.dumps({other: item for other, item in value.items() if other != key}) + b"\n"]
    changes += [
        canonical.dumps({**value, "x": 1}) + b"\n",
        canonical.dumps({**value, "path": value["path"] * 2}) + b"\n",
    ]
    changes += [
        canonical.dumps({**value, "path": value["path"][1:]}) + b"\n",
        canonical.dumps({**value, "path": value["path"][::-1]}) + b"\n",
    ]
    for text in [key for key in value if key in ("event", "seal", "first", "second")]:
        for old, new in (
            ('"seq":', '"seq":1'),
            ('"epoch":1', '"epoch":2'),
            ('"size":', '"size":1'),
            ("message", "massage"),
            ("U1N", "U2N"),
        ):
            changes.append(canonical.dumps({**value, text: value[text].replace(old, new, 1)}) + b"\n")
    for change in changes:
        line = V.Line(V.Options(V.read_key_file(str(signed / "signers"), V.read_signer), set(), False, None))
        file = tmp_path / "p.json"
        file.write_bytes(change)
        mine = V.verify_proof(file, line.options)
        report = proof.check(change, signers)
        assert mine.findings == {(one.code, one.seq, one.id) for one in report.findings}, change
        assert (mine.seals, mine.signatures, mine.size) == (report.seals, report.signatures, report.head_seq)


def test_merkle_proofs_against_naive_trees() -> None:
    def root(leaves: list[bytes]) -> bytes:
        if len(leaves) == 1:
            return bytes(V.sha256(b"\x00" + leaves[0]).digest())
        k = 1 << (len(leaves) - 1).bit_length() - 1
        return bytes(V.node(root(leaves[:k]), root(leaves[k:])))

    leaves = [bytes([n]) * 32 for n in range(1, 41)]
    tree = V.MerkleTree(bytearray(b"".join(leaves)))
    assert tree.root(0) == V.sha256(b"").digest()
    for size in (1, 2, 3, 7, 8, 21, 32, 40):
        assert tree.root(size) == root(leaves[:size])


# --- exports ---------------------------------------------------------------------------------------


def test_an_export(signed: Path, tmp_path: Path) -> None:
    verdict = run(signed / "x.jsonl", "--allowed-signers", signed / "signers", status=0)
    (line,) = verdict["lines"]
    assert (verdict["input"], line["findings"], line["side_files"], line["withheld"]) == (
        "jsonl",
        [],
        1,
        [[3, 4], [9, 9]],
    )
    assert (line["seals"], line["signatures"], line["signed_to"]) == (2, 2, line["head"]["seq"] - 1)
    lines = (signed / "x.jsonl").read_bytes().splitlines(keepends=True)
    big = next(n for n, raw in enumerate(lines, 1) if b'"files":' in raw)
    assert run(signed / "x.jsonl", "--expect-seq", "5", "--expect-head", line["head"]["hash"])["verdict"] == "broken"

    def changed(new: list[bytes]) -> list[tuple[str, int | None]]:
        path = tmp_path / "x.jsonl"
        path.write_bytes(b"".join(new))
        return found(run(path))

    for kind, code in (
        (None, "missing-object"),
        ("dir", "missing-object"),
        ("link", "missing-object"),
        (b"wrong", "bad-file"),
    ):
        place = tmp_path / "x.jsonl.files" / f"{big}.1"
        shutil.rmtree(place.parent, ignore_errors=True)
        place.parent.mkdir()
        if kind == "dir":
            place.mkdir()
        elif kind == "link":
            place.symlink_to(signed / "x.jsonl.files" / f"{big}.1")
        elif isinstance(kind, bytes):
            place.write_bytes(kind)
        assert changed(lines) == [(code, big)]
    shutil.rmtree(tmp_path / "x.jsonl.files")
    shutil.copytree(signed / "x.jsonl.files", tmp_path / "x.jsonl.files")
    assert changed(lines[:5]) == []
    assert changed([*lines[:5], lines[5][:-1]]) == [("truncated", 6)]
    assert changed([*lines[:5], b"x" * (17 << 20)]) == [("truncated", 6)]
    assert changed([*lines[:5], b"x" * (17 << 20) + b"\n", b"[" * (16 << 20) + b"\n"]) == [
        ("bad-member", 6),
        ("bad-json", 7),
    ]
    assert changed([*lines[:5], b"\n"]) == [("bad-json", 6)]
    assert changed([*lines[:4], lines[4][:-1] + b"\r\n"]) == [("not-canonical", 5)]
    assert changed([*lines[:4], lines[5], lines[4]]) == [
        ("bad-seq", 5),
        ("broken-link", 5),
        ("bad-seq", 6),
        ("broken-link", 6),
    ]
    assert changed([b"\n"] * 1500)[-1] == ("bad-json", 1000)
    assert run(tmp_path / "x.jsonl")["lines"][0]["head"] == {"commit": None, "hash": None, "seq": 1500}


def test_no_flipped_byte_of_an_export_is_missed(tmp_path: Path) -> None:
    start = {"branch": "main", "seq": 2, "hash": event(2, event().hash).hash}
    line = chain(2)
    line.append(event(3, line[-1].hash, type="session.branch", data={"branch": "b", "from": start}, salt="A" * 22))
    line.append(event(4, line[-1].hash, turn="t").withhold())
    raw = b"".join(one.raw + b"\n" for one in line)
    path = tmp_path / "x.jsonl"
    options = V.Options(None, set(), False, (4, line[-1].hash))
    path.write_bytes(raw)
    assert not V.verify_export(path, options).findings
    for at in range(len(raw)):
        path.write_bytes(raw[:at] + bytes([raw[at] ^ (0xFF, 0x01)[at % 2]]) + raw[at + 1 :])
        assert V.verify_export(path, options).findings, at


def test_a_seal_at_the_first_place_is_no_accident(tmp_path: Path) -> None:
    data = {"size": 0, "root": "0" * 64, "checkpoint": "", "signatures": []}
    (tmp_path / "x.jsonl").write_bytes(event(5, type="session.seal", data=data).raw + b"\n")
    assert found(run(tmp_path / "x.jsonl")) == [("bad-seal", 1), ("bad-seq", 1), ("broken-link", 1)]


# --- what cannot be read ---------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["packed-refs", "shallow", "refs/heads/s/main"])
def test_a_hidden_line_in_a_file_that_cannot_be_read_is_not_ok(name: str, public: Path) -> None:
    journal = gitjournal.init(public / "journal")
    with journal.session("s", create=True) as session:
        session.append("message", {"n": 1})
    file = journal.path / name
    if not file.exists():
        file.write_text("\n")
    for one in (journal.path, *journal.path.rglob("*")):
        one.chmod(one.stat().st_mode | 0o555)
    run(journal.path, "s", status=0)
    file.chmod(0)

    def look() -> None:
        run(journal.path, "s", status=4)

    assert as_nobody(look) == 0


def test_a_side_file_that_cannot_be_read_is_missing(public: Path) -> None:
    export = VECTORS / "lines" / "side-file-longer.jsonl"
    copy = public / "e.jsonl"
    shutil.copy(export, copy)
    shutil.copytree(f"{export}.files", f"{copy}.files")
    for file in Path(f"{copy}.files").iterdir():
        file.chmod(0)
    (expected,) = [seq for code, seq in found(run(export, status=1)) if code == "bad-file"]

    def look() -> None:
        assert ("missing-object", expected) in found(run(copy, status=1))

    assert as_nobody(look) == 0


# --- without the package cryptography --------------------------------------------------------------


def test_all_signature_vectors_are_as_right_by_ssh_keygen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(V, "by_cryptography", lambda *parts: None)
    cases = json.loads((VECTORS / "index.json").read_bytes())["cases"]
    tried = 0
    for case in cases:
        if (
            case["name"].startswith("seals/signature")
            and case["input"].endswith(".jsonl")
            and case["exit"] in (0, 1, 3)
        ):
            args = [one.format(input=VECTORS / case["input"], vectors=VECTORS) for one in case["args"]]
            assert found(run(*args, status=case["exit"])) == [tuple(one) for one in case["findings"]], case["name"]
            tried += 1
    assert tried > 100
