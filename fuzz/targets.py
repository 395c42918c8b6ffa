"""What of gitjournal reads bytes that others wrote, one function each: any input ends well or in the error tree.

Each function takes the bytes of one input and checks what must hold for it. `guided.py` gives them what atheris finds,
`tests/test_fuzz.py` what hypothesis makes of the seeds.
"""

from __future__ import annotations

import base64
import io
import json
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from hashlib import sha1, sha256
from itertools import islice
from pathlib import Path

import rfc8785

from gitjournal import (
    canonical,
    cosign,
    foreign,
    loose,
    merkle,
    objects,
    packread,
    payload,
    pins,
    proof,
    redact,
    refs,
    rules,
    signers,
    sshsig,
    tail,
    witness,
)
from gitjournal.errors import FormatError, JournalError, UsageError
from gitjournal.event import Event
from gitjournal.formats import (
    agentsessions_proto,
    atif,
    claude_code,
    claude_web,
    codex,
    copilot,
    course,
    gemini,
    generic,
    inspect_eval,
    openai_agents,
    openboa,
    opencode,
    otlp,
    patch,
    pi,
    records,
    swe_agent,
    times,
)
from gitjournal.formats.protocol import Head, RecordFormat, Source
from gitjournal.formats.report import ImportReport
from gitjournal.rules import JSON_TAG

Target = Callable[[bytes], None]
TARGETS: dict[str, Target] = {}


def target(function: Target) -> Target:
    """Enter a function into the list."""
    TARGETS[function.__name__] = function
    return function


@contextmanager
def refused(*kinds: type[JournalError]) -> Iterator[None]:
    """Errors of these kinds are an answer; each has a code, and a text that is one line."""
    try:
        yield
    except kinds as error:
        assert error.code
        text = str(error)
        assert text
        assert "\n" not in text, text


# --- JSON ----------------------------------------------------------------------------------------


@target
def canonical_json(raw: bytes) -> None:
    """What is taken comes back the same, as other JSON programs read and print it."""
    with refused(FormatError):
        value = canonical.loads(raw)
        text = canonical.dumps(value)
        assert canonical.loads(text) == canonical.loads_canonical(text) == value
        assert canonical.dumps(canonical.loads(text)) == text
        assert json.loads(raw) == value
        assert rfc8785.dumps(value) == text
        with suppress(FormatError):
            assert canonical.loads_canonical(raw) == value
            assert raw == text


@target
def foreign_json(raw: bytes) -> None:
    """Any text becomes a value that an event can hold, and what is wrapped is the text that stood there."""
    value = foreign.wrap(raw)
    text = canonical.dumps(value)
    assert canonical.loads(text) == value
    if b'"$gj:' not in text:
        assert json.loads(raw) == value
    elif type(value) is dict and JSON_TAG in value and len(value) == 1:
        assert value[JSON_TAG] == raw.decode().strip(" \t\r\n")
    try:
        read = foreign.lenient(raw)
    except ValueError:
        return
    with refused(FormatError):
        assert canonical.dumps(foreign.wrap_value(read))


# --- secrets -------------------------------------------------------------------------------------


@target
def redaction(raw: bytes) -> None:
    """A redacted record is clean, only its strings change, and JSON keeps its structure."""
    redactor = redact.Redactor(b"k" * 32)
    once, hits = redactor.record(raw)
    assert redactor.record(once) == (once, [])
    if not hits:
        assert once is raw
        return
    assert all(redact.mark(hit).encode() in once for hit in hits[-1:])
    try:
        before = json.loads(raw)
    except (ValueError, RecursionError):
        return
    assert _without_strings(json.loads(once)) == _without_strings(before)


def _without_strings(value: object) -> object:
    if isinstance(value, dict):
        return {name: _without_strings(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_without_strings(item) for item in value]
    return "" if isinstance(value, str) else repr(value)


# --- events --------------------------------------------------------------------------------------


@target
def event(raw: bytes) -> None:
    """An event is canonical JSON; its hash is that of its header."""
    with refused(FormatError):
        one = Event.parse(raw)
        members = canonical.loads_canonical(raw)
        assert (one.seq, one.session, one.prev, one.ts) == tuple(members[k] for k in ("seq", "session", "prev", "ts"))
        assert one.members == members
        assert Event.parse(raw).hash == one.hash
        if not one.withheld:
            _same_header(one)
            data = payload.resolve(one.stored_data, one.files, _no_file)
            assert data is not None


def _same_header(one: Event) -> None:
    try:
        header = Event.parse(one.withhold().raw)
    except FormatError as error:
        # These may not be withheld.
        assert error.code in ("bad-fork", "bad-seal"), error
        return
    assert header.hash == one.hash
    assert header.withheld


def _no_file(number: int) -> bytes:
    return b'{"a":["text"]}'


@target
def tail_file(raw: bytes) -> None:
    """Whatever lies in a tail, what is recovered is a chain, and the rest is named."""
    first = raw.partition(b"\n")[0]
    session, seq, before = "s", 0, None
    with suppress(FormatError):
        one = Event.parse(first.removeprefix(b" "))
        session, seq, before = one.session, one.seq - 1, one.prev
    found = tail.scan(raw, session, seq, before)
    prev = before
    for place, one in enumerate(found.events, seq + 1):
        assert one.seq == place
        assert one.prev == prev
        prev = one.hash
    assert 0 <= found.end <= len(raw)
    assert found.torn_at is None or not found.damage
    assert found.torn_at is None or found.end <= found.torn_at < len(raw)
    # A tail that is cut behind what was recovered is whole.
    again = tail.scan(raw[: found.end], session, seq, before)
    assert again.events == found.events
    assert again.torn_at is None
    assert not again.damage


# --- signatures and proofs -----------------------------------------------------------------------


@target
def signature(raw: bytes) -> None:
    """Only somebody who has a key signs; the parts of a signature make it again."""
    text = raw.decode("utf-8", "replace")
    with refused(FormatError):
        parts = sshsig.parse(text)
        fields = (parts.key, parts.namespace, b"", parts.hash_name, parts.signature)
        blob = b"SSHSIG\x00\x00\x00\x01" + b"".join(map(sshsig.string, fields))
        assert "".join(text.removesuffix("\n").split("\n")[1:-1]) == base64.b64encode(blob).decode()
        assert sshsig.parse(sshsig.armor(blob)) == parts
        checked = sshsig.check(text, b"not what anybody has signed", parts.namespace.decode("utf-8", "replace"))
        assert isinstance(checked, sshsig.NotChecked)
        assert not sshsig.is_checked(checked.key)


@target
def allowed_signers(raw: bytes) -> None:
    """A file of keys is read whole or refused."""
    with refused(UsageError):
        for blob in signers.revoked_keys(raw):
            assert signers.revoked_keys(sshsig.key_line(blob)) == {blob}
    with refused(UsageError):
        allowed = signers.AllowedSigners.parse(raw)
        assert len(allowed) <= raw.count(b"\n") + 1
        for line in raw.split():
            with suppress(ValueError):
                blob = sshsig.strict_base64(line.decode("ascii", "replace"))
                assert signers.AllowedSigners.parse(raw, {blob}).accepts(blob, "git", 0) is None
                allowed.accepts(blob, "git", 1_767_225_600)


@target
def proof_file(raw: bytes) -> None:
    """A proof is checked to its end, and only one in its one form is right."""
    report = proof.check(raw)
    assert report.exit_status in (0, 1, 3)
    if report.ok:
        assert canonical.dumps(canonical.loads(raw[:-1])) + b"\n" == raw
        assert proof.check(raw.replace(b'"path":["', b'"path":["A', 1)).findings or b'"path":["' not in raw
    canonical.dumps(report.as_dict())


@target
def merkle_path(raw: bytes) -> None:
    """No path leads from a leaf that is not there, or to another root."""
    if len(raw) < 64:
        return
    size, index = 1 + raw[0] % 40, raw[1]
    leaves = [sha1(bytes([n])).digest().ljust(32, b"\0") for n in range(size)]
    root = merkle.root(b"".join(leaves))
    path = [raw[at : at + 32] for at in range(2, len(raw) - 31, 32)]
    assert not merkle.verify_inclusion(raw[2:34], index, size, path, root)
    right = merkle.inclusion_path(b"".join(leaves), index % size, size)
    leaf = leaves[index % size]
    assert merkle.verify_inclusion(leaf, index % size, size, right, root)
    assert not merkle.verify_inclusion(leaf, index % size, size, [*right, path[0]], root)
    assert not merkle.verify_consistency(1 + index % size, size, raw[2:34], root, path)


@target
def witness_request(raw: bytes) -> None:
    """What a witness is asked is in form, or refused; it is asked the same again."""
    with refused(UsageError, FormatError):
        request = witness.Request.parse(raw)
        assert witness.Request.parse(request.body) == request
        assert cosign.parse_checkpoint(request.seal.stored_data["checkpoint"]).size == request.seal.seq - 1


@target
def cosignatures(raw: bytes) -> None:
    """Cosignatures and pins are read whole or refused; what is read is written again."""
    with refused(UsageError):
        for one in cosign.parse(raw):
            assert cosign.parse(one.line) == [one]
    with refused(UsageError):
        for pin in pins.parse(raw):
            assert pins.parse(pin.line) == [pin]


# --- git -----------------------------------------------------------------------------------------


@target
def git_tree(raw: bytes) -> None:
    """The entries of a tree, put together, are the tree."""
    with refused(FormatError):
        entries = list(objects.tree_entries(raw))
        assert b"".join(b"%s %s\x00%s" % entry for entry in entries) == raw
        for seq, blob, _ in objects.leaf_events(raw):
            assert 0 <= seq <= 99_999_999
            assert len(blob) == 20


@target
def git_commit(raw: bytes) -> None:
    """A commit in form has one spelling."""
    commit = objects.parse_commit(raw)
    if commit is not None:
        assert len(commit.tree) == 20
        assert f"Session: {commit.session}\n".encode() in raw
        assert f" #{commit.seq}\n".encode() in raw


@target
def git_pack(raw: bytes) -> None:
    """A pack of any bytes, with an index that names any place in it."""
    cut = int.from_bytes(raw[:2], "big") % (len(raw) + 1)
    pack, idx = raw[2:cut], raw[cut:]
    with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
        path = Path(folder) / "p.pack"
        path.write_bytes(pack)
        path.with_suffix(".idx").write_bytes(idx)
        try:
            opened = packread.Pack(path)
            opened.is_consistent()
            for oid, _, offset in islice(opened.entries(), 50):
                with suppress(packread.BadPack):
                    opened.offset(oid)
                    kind, content = opened.read_at(offset, 1 << 20)
                    assert kind in (b"commit", b"tree", b"blob")
                    assert len(content) <= 1 << 20
        except packread.BadPack:
            pass


@target
def git_delta(raw: bytes) -> None:
    """A delta makes as much as it says, of its base and itself, or is refused."""
    base, delta = raw[: raw[0]] if raw else b"", raw[raw[0] if raw else 0 :]
    with suppress(packread.BadPack):
        assert len(packread.apply_delta(base, delta, 1 << 20)) <= 1 << 20


@target
def git_loose(raw: bytes) -> None:
    """A file of any bytes in the place of a loose object."""
    with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
        path = Path(folder) / "00" / ("0" * 38)
        path.parent.mkdir()
        path.write_bytes(raw)
        with suppress(loose.BadLoose, packread.TooLarge):
            found = loose.read(Path(folder), bytes(20), 1 << 20)
            assert found is not None
            assert len(found[1]) <= 1 << 20


@target
def ref_name(raw: bytes) -> None:
    """A ref has one name, and a name one ref."""
    text = raw.decode("utf-8", "surrogateescape")
    name = refs.parse_ref(text)
    if name is not None:
        assert refs.ref_name(name) == text
    with refused(UsageError):
        refs.check_id(text)
        assert refs.decode(refs.encode(text)) == text


# --- what is imported ----------------------------------------------------------------------------


@target
def record_lines(raw: bytes) -> None:
    """The records of any file, put together, are the file; each can be stored."""
    for salvage in (None, claude_code.SALVAGE):
        whole = b""
        for one in records.records(io.BytesIO(raw), salvage):
            assert one.offset == len(whole)
            whole += one.raw
            if one.value is not records.NOT_JSON:
                canonical.dumps(one.value)
                if type(one.value) is dict:
                    times.to_ts(one.value.get("timestamp"))
        assert whole == raw


@target
def record_patch(raw: bytes) -> None:
    """A patch makes no more of a base than it and the base have, or is refused."""
    base, made = raw[: raw[0]] if raw else b"", raw[raw[0] if raw else 0 :]
    with refused(FormatError):
        whole = b"".join(patch.patched(made, iter([base])))
        assert len(whole) <= len(base) + len(made)
        assert patch.makes(made, [base], sha256(whole).digest())


#: Formats that are read from bytes alone.
_IMPORTERS: list[RecordFormat] = [
    atif.Atif(),
    inspect_eval.InspectEval(),
    openai_agents.OpenaiAgents(),
    otlp.Otlp(),
    swe_agent.SweAgent(),
    claude_code.ClaudeCode(),
    claude_web.ClaudeCodeWeb(),
    codex.Codex(),
    copilot.Copilot(),
    course.Course(),
    gemini.Gemini(),
    openboa.Openboa(),
    opencode.Opencode(),
    pi.Pi(),
    generic.Records(),
]


@target
def imported_file(raw: bytes) -> None:
    """Whatever is imported, nothing is lost, and each record can be an event."""
    for chosen in _IMPORTERS:
        source = Source(Path("nowhere"))
        chosen.sniff(Head(raw, source.path))
        chosen.about(chosen.cut(io.BytesIO(raw)), source)
        report = ImportReport("x", chosen.name)
        whole = b""
        for item in chosen.read(chosen.cut(io.BytesIO(raw)), report, source):
            whole += item.record.raw + item.record.after
            canonical.dumps(item.data)
            assert item.ts is None or rules.is_time(item.ts)
        assert whole == raw
        canonical.dumps(report.as_dict())


@target
def spans_in_a_file(raw: bytes) -> None:
    """The conversations in a file of spans: each record becomes an event, and together they are the file."""
    with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
        source = Source(Path(folder) / "spans.json")
        source.path.write_bytes(raw)
        pieces = 0
        for strand in otlp.Otlp().strands(source):
            for item in strand.read(strand.records(), ImportReport("x", "otlp")):
                canonical.dumps(item.data)
                pieces += len(item.record.raw)
        assert pieces == len(raw)


@target
def agentsessions_event(raw: bytes) -> None:
    """Bytes are an event of agentsessions with a hash, or none, and the reason is said."""
    try:
        event = agentsessions_proto.Decoder().event(raw)
    except ValueError as error:
        assert str(error)
        return
    assert len(agentsessions_proto.content_hash(event, "", 1)) == 64
