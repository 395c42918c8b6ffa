"""A witness, and attacks on what it promises: each a test that is named after it."""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sealed import (
    LOG,
    OTHER_LOG,
    OTHER_WITNESS,
    WITNESS,
    S,
    allowed,
    allowed_line,
    error_of,
    grown,
    note,
    path_between,
    twins,
    witness,
)
from support import fork, forked, wait

import gitjournal
from gitjournal import canonical, cosign, files, keys, merkle, seal, sshsig
from gitjournal import witness as room
from gitjournal import witness_http as http
from gitjournal.errors import ConflictError, FormatError, JournalError, NotFound, StorageError, UsageError
from gitjournal.event import Event
from gitjournal.journal import Journal
from gitjournal.refs import Name
from gitjournal.verify import Checks, verify
from gitjournal.witness import Answer, Request, Witness, ask, newest_seal


def state_of(folder: Path) -> int:
    """The size that the witness in ``folder`` has kept of s, 0 when none."""
    files = list(folder.glob("*.seal"))
    return Event.parse(files[0].read_bytes()[:-1]).stored_data["size"] if files else 0


def size_in(answer: Answer) -> int:
    size: int = json.loads(answer.body)["size"]
    return size


# --- what it is for --------------------------------------------------------------------------------


def test_a_branch_grows_and_each_seal_is_cosigned(journal: Journal, tmp_path: Path) -> None:
    one = witness(tmp_path / "state", clock=lambda: 1_800_000_000.9)
    sizes = []
    for count in (4, 1, 150):
        sealed = grown(journal, count)
        made = ask(journal, S, one.answer)
        assert made.checkpoint.text == sealed.stored_data["checkpoint"] and made.checkpoint.name == S
        assert made.key == WITNESS.fingerprint and made.time == 1_800_000_000
        assert sshsig.check(made.sshsig, made.message, "gitjournal-witness", made.key) == sshsig.Checked(WITNESS.public)
        sizes.append(made.checkpoint.size)
        assert ask(journal, S, one.answer) == made, "the same again is cosigned again"
        assert state_of(tmp_path / "state") == made.checkpoint.size
    assert sizes == [5, 7, 158]


def test_the_message_is_that_of_c2sp(journal: Journal) -> None:
    grown(journal, 2)
    checkpoint = cosign.parse_checkpoint(newest_seal(journal, S).stored_data["checkpoint"])
    made = cosign.make(checkpoint, WITNESS, 12)
    root = base64.b64encode(checkpoint.root).decode()
    assert made.message == f"cosignature/v1\ntime 12\ngitjournal/s/main\n3\n{root}\n".encode()


def test_branches_and_forks_are_logs_of_their_own(journal: Journal, tmp_path: Path) -> None:
    one = witness(tmp_path / "state")
    grown(journal, 4)
    ask(journal, S, one.answer)
    journal.branch("s", 6, "b")
    journal.fork("s", 6, "f")
    for name in ("s/b", "f"):
        with pytest.raises(NotFound, match="has no seal"):
            ask(journal, journal.resolve(name), one.answer)
        grown(journal, 2, name=name)
        made = ask(journal, journal.resolve(name), one.answer)
        assert str(made.checkpoint.name) == name and made.checkpoint.size == 9
    assert len(list((tmp_path / "state").glob("*.seal"))) == 3


def test_names_of_sessions_do_not_lead_out_of_the_state(journal: Journal, tmp_path: Path) -> None:
    one = witness(tmp_path / "a" / "state")
    grown(journal, 1, name="../../../etc/x é\u202e")
    ask(journal, Name("../../../etc/x é\u202e"), one.answer)
    files = [path.relative_to(tmp_path / "a").parts for path in (tmp_path / "a").rglob("*") if path.is_file()]
    assert all(parts[0] == "state" and re.fullmatch(r"[0-9a-f]{64}\.(seal|lock)", parts[1]) for parts in files)
    assert all(path.stat().st_mode & 0o077 == 0 for path in (tmp_path / "a" / "state").glob("*.*"))


# --- attacks: what is shown to it --------------------------------------------------------------------


def test_wrong_old_size(journal: Journal, tmp_path: Path) -> None:
    one = witness(tmp_path)
    first, second = grown(journal, 4), grown(journal, 4)
    path = path_between(journal, first, second)
    for old_size in (1, 4, 5):
        answer = one.answer(Request(old_size, path, second).body)
        assert error_of(answer) == (409, "conflict") and size_in(answer) == 0
    assert one.answer(Request(0, [], first).body).status == 200
    for old_size in (0, 1, 4, 6, 10):
        answer = one.answer(Request(old_size, path, second).body)
        assert error_of(answer) == (409, "conflict") and size_in(answer) == 5
    assert error_of(one.answer(Request(11, path, second).body)) == (400, "usage")
    assert state_of(tmp_path) == 5


def test_forged_proof(journal: Journal, tmp_path: Path) -> None:
    one = witness(tmp_path)
    first, second = grown(journal, 4), grown(journal, 40)
    path = path_between(journal, first, second)
    assert error_of(one.answer(Request(0, path, first).body)) == (422, "bad-seal")
    one.answer(Request(0, [], first).body)
    forged = [[*path[:at], bytes(32), *path[at + 1 :]] for at in range(len(path))]
    forged += [[], path[:-1], path[1:], [*path, bytes(32)], path[::-1], [bytes(32)] * 63]
    for bad in forged:
        assert error_of(one.answer(Request(5, bad, second).body)) == (422, "bad-seal")
    assert state_of(tmp_path) == 5
    assert one.answer(Request(5, path, second).body).status == 200


def test_rollback_served_to_the_witness(tmp_path: Path) -> None:
    journal = gitjournal.init(tmp_path / "journal")
    grown(journal, 4)
    shutil.copytree(tmp_path / "journal", tmp_path / "old")
    one = witness(tmp_path / "state")
    grown(journal, 4)
    ask(journal, S, one.answer)
    with pytest.raises(FormatError, match="has seen 10 events of s, the newest seal here is on 5") as caught:
        ask(gitjournal.open(tmp_path / "old"), S, one.answer)
    assert caught.value.code == "truncated" and state_of(tmp_path / "state") == 10


def test_rollback_and_then_other_events(tmp_path: Path) -> None:
    first, second = twins(tmp_path)
    one = witness(tmp_path / "state")
    ask(first, S, one.answer)
    grown(second, 9, "more")
    with pytest.raises(FormatError, match="other events") as caught:
        ask(second, S, one.answer)
    assert caught.value.code == "rollback" and state_of(tmp_path / "state") == 10
    # Where the witness saw a seal, the other line has none.
    third = gitjournal.init(tmp_path / "third")
    grown(third, 12)
    with pytest.raises(FormatError, match="a seal of s on 10 events, not here") as caught:
        ask(third, S, one.answer)
    assert caught.value.code == "rollback"


def test_replayed_seal(journal: Journal, tmp_path: Path) -> None:
    one = witness(tmp_path)
    first, second = grown(journal, 4), grown(journal, 4)
    one.answer(Request(0, [], first).body)
    one.answer(Request(5, path_between(journal, first, second), second).body)
    for old_size, code in ((0, (409, "conflict")), (5, (409, "conflict")), (10, (400, "usage"))):
        assert error_of(one.answer(Request(old_size, [], first).body)) == code
    assert state_of(tmp_path) == 10


def test_split_view_to_one_witness_is_equivocation_and_kept(tmp_path: Path) -> None:
    first, second = twins(tmp_path)
    one = witness(tmp_path / "state")
    ask(first, S, one.answer)
    for _ in range(3):
        with pytest.raises(FormatError, match="another history") as caught:
            ask(second, S, one.answer)
        assert caught.value.code == "equivocation"
    assert error_of(one.answer(Request(10, [], newest_seal(second, S)).body)) == (409, "equivocation")
    (evidence,) = (tmp_path / "state" / "evidence").iterdir()
    seals = [Event.parse(text.encode()) for text in json.loads(evidence.read_bytes()).values()]
    assert [one.hash for one in seals] == [newest_seal(journal, S).hash for journal in (first, second)]
    for sealed in seals:
        (signature,) = sealed.stored_data["signatures"]
        message = sealed.stored_data["checkpoint"].encode()
        assert sshsig.check(signature["sshsig"], message, seal.NAMESPACE) == sshsig.Checked(LOG.public)
    # It goes on with what it has seen first.
    grown(first, 1)
    assert ask(first, S, one.answer).checkpoint.size == 12


def test_split_view_to_two_witnesses_is_found_by_who_has_both_cosignatures(tmp_path: Path) -> None:
    first, second = twins(tmp_path)
    kept = [
        ask(journal, S, witness(tmp_path / f"state{n}", signer).answer)
        for n, (journal, signer) in enumerate(((first, WITNESS), (second, OTHER_WITNESS)))
    ]
    believed = cosign.Cosigned(kept, allowed(WITNESS, OTHER_WITNESS))
    for journal, other in ((first, kept[1]), (second, kept[0])):
        report = verify(journal, "s", Checks(cosigned=believed))
        (finding,) = report.findings
        assert (finding.code, finding.seq, finding.id) == ("rollback", 10, other.checkpoint.root.hex())
        assert report.pinned == 10


def test_evidence_does_not_fill_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "_MAX_EVIDENCE", 2)
    one = witness(tmp_path / "state")
    for n in range(5):
        journal = gitjournal.init(tmp_path / str(n))
        grown(journal, 4, f"view {n}")
        answer = one.answer(Request(5 * (n > 0), [], newest_seal(journal, S)).body)
        assert answer.status == (409 if n else 200)
    assert len(list((tmp_path / "state" / "evidence").iterdir())) == 2


# --- attacks: who signs --------------------------------------------------------------------------------


def with_signatures(sealed: Event, signatures: list[dict[str, str]]) -> Event:
    return Event.build({**sealed.members, "data": {**sealed.stored_data, "signatures": signatures}})


def signature(signer: keys.FileSigner, message: str, namespace: str = seal.NAMESPACE) -> dict[str, str]:
    return {"key": signer.fingerprint, "sshsig": signer.sign(message.encode(), namespace)}


def test_seals_that_no_allowed_signer_has_signed(journal: Journal, tmp_path: Path) -> None:
    one = witness(tmp_path)
    sealed = grown(journal, 4)
    text = sealed.stored_data["checkpoint"]
    good, unknown = signature(LOG, text), signature(OTHER_LOG, text)
    cases: dict[str, list[dict[str, str]]] = {
        "unknown-signer": [],
        "unknown-signer ": [unknown],
        "bad-signature": [signature(LOG, text, "git")],
        "bad-signature ": [signature(LOG, text, cosign.NAMESPACE)],
        "bad-signature  ": [signature(LOG, text + " ")],
        "bad-signature   ": [{**unknown, "key": LOG.fingerprint}],
        "bad-signature    ": [{**good, "key": OTHER_LOG.fingerprint}],
        "bad-signature     ": [good, {**good, "sshsig": "x"}],
    }
    for code, signatures in cases.items():
        answer = one.answer(Request(0, [], with_signatures(sealed, signatures)).body)
        assert error_of(answer) == (403, code.strip())
    assert state_of(tmp_path) == 0, "who may not ask is told nothing and changes nothing"
    for old_size, signatures in ((0, [unknown, good]), (5, [good, unknown])):
        assert one.answer(Request(old_size, [], with_signatures(sealed, signatures)).body).status == 200


def test_a_signature_of_another_branch_size_or_root(tmp_path: Path) -> None:
    first, second = twins(tmp_path)
    one = witness(tmp_path / "state")
    sealed, other = newest_seal(first, S), newest_seal(second, S)
    moved = with_signatures(sealed, other.stored_data["signatures"])
    assert error_of(one.answer(Request(0, [], moved).body)) == (403, "bad-signature")
    data = {**sealed.stored_data, "checkpoint": sealed.stored_data["checkpoint"].replace("s/main", "s/b")}
    renamed = Event.build({**sealed.members, "data": data})
    assert error_of(one.answer(Request(0, [], renamed).body)) == (403, "bad-signature")
    elsewhere = Event.build({**sealed.members, "session": "t"})
    assert error_of(one.answer(Request(0, [], elsewhere).body)) == (400, "usage")


def test_an_old_key_cannot_be_used_by_dating_back(journal: Journal, tmp_path: Path) -> None:
    """The seal's ts is before the key's end; the witness has a clock of its own."""
    sealed = grown(journal, 4)
    ends = "20990101"
    signers = allowed(LOG, options=f'valid-before="{ends}"')
    early, late = witness(tmp_path, signers=signers), witness(tmp_path, signers=signers, clock=lambda: 4_100_000_000.0)
    assert error_of(late.answer(Request(0, [], sealed).body)) == (403, "unknown-signer")
    assert early.answer(Request(0, [], sealed).body).status == 200


def test_a_key_of_another_namespace(journal: Journal, tmp_path: Path) -> None:
    sealed = grown(journal, 4)
    for options, status in (('namespaces="git"', 403), ('namespaces="gitjournal*"', 200), ("cert-authority", 403)):
        one = witness(tmp_path / options[:15].strip('"=,'), signers=allowed(LOG, options=options))
        assert one.answer(Request(0, [], sealed).body).status == status


# --- attacks: crash, power, races -----------------------------------------------------------------------


class Dying(keys.FileSigner):
    """A key whose process is killed when it is to sign."""

    def __init__(self) -> None:
        self.public = WITNESS.public

    def sign(self, message: bytes, namespace: str) -> str:
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError


def test_killed_between_persisting_and_answering(tmp_path: Path) -> None:
    first, second = twins(tmp_path)
    state = tmp_path / "state"
    assert forked(lambda: ask(first, S, Witness(state, Dying(), allowed(LOG)).answer)) == -signal.SIGKILL
    assert state_of(state) == 10, "what it was about to sign is on the disk"
    with pytest.raises(FormatError) as caught:
        ask(second, S, witness(state).answer)
    assert caught.value.code == "equivocation", "it knows what it may have signed"
    assert ask(first, S, witness(state).answer).checkpoint.size == 10, "who got no answer asks again"


@pytest.mark.parametrize("name", ["fsync", "replace", "write", "sync_folder"])
@pytest.mark.parametrize("after", [False, True])
def test_killed_anywhere_while_persisting(
    name: str, after: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = gitjournal.init(tmp_path / "journal")
    grown(journal, 4)
    one = witness(tmp_path / "state")
    ask(journal, S, one.answer)
    grown(journal, 4)

    def dies(real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **more: Any) -> Any:
            if after:
                real(*args, **more)
            os.kill(os.getpid(), signal.SIGKILL)

        return call

    def attack() -> None:
        place = {"fsync": os, "replace": Path, "write": files, "sync_folder": files}[name]
        attribute = "write_whole" if name == "write" else name
        monkeypatch.setattr(place, attribute, dies(getattr(place, attribute)))
        ask(journal, S, one.answer)

    assert forked(attack) == -signal.SIGKILL
    assert state_of(tmp_path / "state") in (5, 10)
    assert ask(journal, S, witness(tmp_path / "state").answer).checkpoint.size == 10


def test_what_is_signed_is_on_the_disk_before(
    journal: Journal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    grown(journal, 4)
    order: list[str] = []
    real_sync, real_replace, real_folder, real_make = os.fsync, Path.replace, files.sync_folder, cosign.make
    one = witness(tmp_path)

    def noting(what: str, real: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *args: (order.append(what), real(*args))[1]

    monkeypatch.setattr(os, "fsync", noting("file", real_sync))
    monkeypatch.setattr(Path, "replace", noting("name", real_replace))
    monkeypatch.setattr(files, "sync_folder", noting("folder", real_folder))
    monkeypatch.setattr(cosign, "make", noting("signature", real_make))
    for _ in range(2):
        order.clear()
        ask(journal, S, one.answer)
        # The folder's own sync is an fsync too.
        assert order[:4] == ["file", "name", "folder", "file"] and order[4] == "signature"


@pytest.mark.parametrize("name", ["fsync", "replace", "open", "sync_folder"])
def test_no_cosignature_when_the_disk_refuses(
    name: str, journal: Journal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = witness(tmp_path)
    sealed = grown(journal, 4)

    def full(*_: Any, **__: Any) -> Any:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr({"fsync": os, "replace": Path, "open": os, "sync_folder": files}[name], name, full)
    with pytest.raises(StorageError, match="No space left"):
        one.answer(Request(0, [], sealed).body)


@pytest.mark.parametrize("content", [b"", b"x", b"{}\n", b"\n"])
def test_a_damaged_state_is_not_taken_for_none(content: bytes, journal: Journal, tmp_path: Path) -> None:
    one = witness(tmp_path)
    sealed = grown(journal, 4)
    one.answer(Request(0, [], sealed).body)
    (file,) = tmp_path.glob("*.seal")
    wrong_branch = Event.build({**sealed.members, "session": "t"}).raw
    for raw in (content, sealed.raw[:-2], wrong_branch, grown(journal, 1, name="t").raw, journal.event("s", 2).raw):
        file.write_bytes(raw)
        with pytest.raises(StorageError, match="not the seal that was written there"):
            one.answer(Request(0, [], sealed).body)
        assert file.read_bytes() == raw


def test_two_processes_race_with_two_histories(tmp_path: Path) -> None:
    first, second = twins(tmp_path)
    seals = [newest_seal(journal, S) for journal in (first, second)]
    for attempt in range(10):
        state = tmp_path / f"state{attempt}"
        witness(state)
        start = time.monotonic() + 0.05

        def run(sealed: Event, state: Path = state, start: float = start) -> None:
            one = witness(state)
            time.sleep(max(0.0, start - time.monotonic()))
            os._exit(one.answer(Request(0, [], sealed).body).status == 200)

        pids = [fork(lambda sealed=sealed: run(sealed)) for sealed in seals * 2]  # type: ignore[misc]
        done = [wait(pid) for pid in pids]
        # Of each history once or twice 200 would do; here only the first request has the right old size.
        assert sum(done) == 1
        assert state_of(state) == 10


def test_a_slower_request_does_not_put_an_older_size_back(
    journal: Journal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The race in the text of C2SP: both are right when they come, and the one that is late is told."""
    first, second, third = (grown(journal, 4) for _ in range(3))
    one = witness(tmp_path)
    one.answer(Request(0, [], first).body)
    writing, go_on = threading.Event(), threading.Event()
    real = files.write_whole

    def slow(path: Path, content: bytes) -> None:
        writing.set()
        assert go_on.wait(60)
        real(path, content)

    monkeypatch.setattr(files, "write_whole", slow)
    answers: dict[int, int] = {}

    def client(sealed: Event) -> None:
        answers[sealed.seq] = one.answer(Request(5, path_between(journal, first, sealed), sealed).body).status

    threads = [threading.Thread(target=client, args=(sealed,)) for sealed in (third, second)]
    threads[0].start()
    assert writing.wait(60)
    threads[1].start()
    time.sleep(0.2)
    assert not answers, "the second one waits until the first one is on the disk"
    go_on.set()
    for thread in threads:
        thread.join()
    assert answers == {third.seq: 200, second.seq: 409} and state_of(tmp_path) == 15


def test_growing_past_each_other(journal: Journal, tmp_path: Path) -> None:
    """Two clients, one of them with an older copy: what the witness has kept never falls."""
    seals = [grown(journal, 2) for _ in range(9)]
    one = witness(tmp_path)
    seen: list[int] = []

    def client(order: list[Event]) -> None:
        for sealed in order:
            old, path = 0, []
            while (answer := one.answer(Request(old, path, sealed).body)).status == 409:
                old = size_in(answer)
                if old > sealed.seq - 1:
                    break
                path = path_between(journal, journal.event("s", old + 1), sealed) if old < sealed.seq - 1 else []
            seen.append(state_of(tmp_path))

    threads = [threading.Thread(target=client, args=(order,)) for order in (seals, seals[::2], seals[1::3])]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert state_of(tmp_path) == seals[-1].seq - 1
    assert len(seen) == 17


# --- attacks: bytes -------------------------------------------------------------------------------------


def test_requests_that_are_none(journal: Journal, tmp_path: Path) -> None:
    one = witness(tmp_path)
    sealed = grown(journal, 4)
    good: dict[str, Any] = json.loads(Request(0, [], sealed).body)
    text = sealed.raw.decode()
    wrong: list[Any] = [
        *({**good, name: value} for name in good for value in (None, 1.5, True, {}, [1], -1, "x", 100_000_000)),
        {**good, "more": 1},
        *({key: value for key, value in good.items() if key != name} for name in good),
        {**good, "proof": [base64.b64encode(bytes(31)).decode()]},
        {**good, "proof": [base64.b64encode(bytes(32)).decode().rstrip("=")]},
        {**good, "proof": ["A" * 43 + "B"]},
        {**good, "proof": [base64.b64encode(bytes(32)).decode()] * 64},
        {**good, "seal": text.replace('"seq":6', '"seq":7')},
        {**good, "seal": text.replace('"size":5', '"size":4')},
        {**good, "seal": text.replace("main", "m\\u0061in")},
        {**good, "seal": f" {text}"},
        {**good, "seal": journal.event("s", 3).raw.decode()},
        {**good, "seal": Event.parse(sealed.raw).header.decode()},
        [],
        None,
        "x",
    ]
    bodies = [json.dumps(value).encode() for value in wrong]
    bodies += [b"", b"{", b"\xff", b"[" * 10_000, b'{"old_size":0,"old_size":0,"proof":[],"seal":"x"}', bytes(100)]
    for body in bodies:
        assert error_of(one.answer(body)) == (400, "usage"), body[:200]
    assert one.answer(json.dumps(good, indent=1).encode()).status == 200, "a request need not be canonical"


@given(data=st.data())
def test_no_bytes_make_it_raise(data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    one = witness(tmp_path_factory.getbasetemp() / "fuzzed")
    journal = gitjournal.init(tmp_path_factory.getbasetemp() / "fuzzed journal")
    if not list(journal.sessions()):
        grown(journal, 2)
    body = bytearray(Request(0, [bytes(32)], newest_seal(journal, S)).body)
    for _ in range(data.draw(st.integers(1, 4))):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    assert one.answer(bytes(body)).status in (400, 403, 422)


def answers(*given_answers: tuple[int, bytes]) -> Callable[[bytes], Answer]:
    """A witness that says whatever it wants."""
    left = [Answer(*one) for one in given_answers]
    return lambda _: left.pop(0) if len(left) > 1 else left[0]


def test_hostile_witness(journal: Journal, tmp_path: Path) -> None:
    grown(journal, 4)
    first = ask(journal, S, witness(tmp_path / "a").answer)
    grown(journal, 4)
    second = ask(journal, S, witness(tmp_path / "a").answer)
    lies = {
        "another checkpoint": (200, first.line),
        "no cosignature": (200, b"x"),
        "not one of these bytes": (200, second._replace(time=second.time + 1).line),
        "and not by": (200, second._replace(key=OTHER_WITNESS.fingerprint).line),
        "is for": (200, second._replace(sshsig=WITNESS.sign(second.message, seal.NAMESPACE)).line),
        "does not say what size": (409, b"5\n"),
        "does not say what size it": (409, b'{"size":-1}'),
        r"refuses \(500\): no reason": (500, b"<html>"),
        r"refuses \(403\): go away": (403, b'{"message":"go away"}'),
        r"refuses \(302\)": (302, b""),
    }
    for text, answer in lies.items():
        with pytest.raises(JournalError, match=text):
            ask(journal, S, answers(answer))
    with pytest.raises(JournalError, match="all the time"):
        ask(journal, S, answers(*[(409, b'{"size":%d}' % size) for size in (5, 10, 5, 10, 5, 10)]))
    with pytest.raises(JournalError) as caught:
        ask(journal, S, answers((500, b'{"message":"%s"}' % (b"x" * 9999))))
    assert len(str(caught.value)) < 400


def test_what_cannot_be_asked_for(journal: Journal, tmp_path: Path) -> None:
    one = witness(tmp_path)
    with journal.session("s", create=True) as session:
        session.append(*note(1)[:2])
    with pytest.raises(NotFound, match="no seal"):
        ask(journal, S, one.answer)
    with journal.session("s", sign="off") as session:
        session.seal()
    with pytest.raises(UsageError, match="not signed"):
        ask(journal, S, one.answer)
    assert not list(tmp_path.glob("*.seal"))


# --- the service -----------------------------------------------------------------------------------------


@pytest.fixture
def log() -> list[str]:
    """What the service has logged."""
    return []


@pytest.fixture
def service(tmp_path: Path, log: list[str]) -> Iterator[http.Service]:
    with http.Service(witness(tmp_path / "state"), "127.0.0.1", 0, log.append) as one:
        thread = threading.Thread(target=one.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield one
        one.shutdown()
        thread.join()


def raw_exchange(service: http.Service, *pieces: bytes) -> bytes:
    """Send bytes piece by piece, and all that comes back."""
    return exchange(service, pieces)


def exchange(service: http.Service, pieces: Iterable[bytes]) -> bytes:
    """The same, for pieces that are made meanwhile."""
    with socket.create_connection(service.server_address[:2], timeout=60) as connection:  # type: ignore[arg-type]
        try:
            for piece in pieces:
                connection.sendall(piece)
        except (BrokenPipeError, ConnectionResetError):
            pass
        out = b""
        try:
            while piece := connection.recv(65536):
                out += piece
        except ConnectionResetError:
            pass
        return out


def head(size: int | str, path: str = http.PATH, more: str = "") -> bytes:
    return f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {size}\r\n{more}\r\n".encode()


def status(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1])


def test_over_http(service: http.Service, journal: Journal, log: list[str]) -> None:
    send = http.sender(service.url + "/")
    grown(journal, 4)
    assert ask(journal, S, send).checkpoint.size == 5
    grown(journal, 4)
    assert ask(journal, S, send).checkpoint.size == 10
    assert send(b"{}").status == 400
    assert http.sender(service.url + "/elsewhere")(b"{}").status == 404
    assert len(log) == 5 and all(line.startswith('127.0.0.1: "POST /') for line in log)


def test_oversized_body(service: http.Service, log: list[str]) -> None:
    big = b"x" * (http.MAX_BYTES + 1)
    assert http.sender(service.url)(big).status == 413
    assert status(raw_exchange(service, head(10**15))) == 413
    assert status(raw_exchange(service, head("9" * 5000))) == 413
    # More than it says: what is too much is not read.
    assert status(raw_exchange(service, head(2), b"{}" + big[:100])) == 400
    assert status(raw_exchange(service, b"POST /%s HTTP/1.1\r\n\r\n" % (b"x" * 70_000))) == 414
    assert not any("Traceback" in line for line in log)


@pytest.mark.parametrize(
    ("request_bytes", "expected"),
    [
        (b"GET /add-checkpoint HTTP/1.1\r\n\r\n", 404),
        (b"GET / HTTP/1.0\r\n\r\n", 404),
        (b"DELETE / HTTP/1.0\r\n\r\n", 501),
        (head(2, "/add-checkpoint/../x") + b"{}", 404),
        (head("x") + b"{}", 400),
        (head("-1") + b"{}", 400),
        (head("\u0662") + b"{}", 400),
        (b"POST /add-checkpoint HTTP/1.1\r\n\r\n", 400),
        (b"POST /add-checkpoint HTTP/1.1\r\nTransfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\n{}", 400),
        (head(2) + b"{}", 400),
        (b"\x00\xff garbage\r\n\r\n", 400),
        (b"POST /add-checkpoint HTTP/9.9\r\n\r\n", 505),
        (head(2, more="".join(f"X{n}: y\r\n" for n in range(200))) + b"{}", 431),
    ],
)
def test_requests_of_all_kinds(request_bytes: bytes, expected: int, service: http.Service, log: list[str]) -> None:
    answer = raw_exchange(service, request_bytes)
    assert status(answer) == expected
    body = answer.partition(b"\r\n\r\n")[2]
    assert set(json.loads(body)) == {"error", "message"} and b"Traceback" not in answer
    assert not any("Traceback" in line for line in log)


def test_slow_client(service: http.Service, journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    """A byte now and then does not hold a place for ever, and nobody else waits for it."""
    monkeypatch.setattr(http, "SECONDS", 2.0)
    grown(journal, 4)
    results: list[bytes] = []
    whole: list[bytes] = []

    def slowly(first: bytes, piece: bytes) -> Iterator[bytes]:
        yield first
        for _ in range(600):
            time.sleep(0.1)
            yield piece
        whole.append(piece)

    drips = [(b"P", b"P"), (head(1000), b"x"), (b"POST /add-checkpoint HTTP/1.1\r\n", b"X: y\r\n")]
    threads = [
        threading.Thread(target=lambda drip=drip: results.append(exchange(service, slowly(*drip))))  # type: ignore[misc]
        for drip in drips
    ]
    for thread in threads:
        thread.start()
    assert ask(journal, S, http.sender(service.url)).checkpoint.size == 5
    for thread in threads:
        thread.join()
    assert not whole, "each was cut off long before it was done"
    assert all(not answer or status(answer) in (400, 408) for answer in results)


def test_a_client_that_says_nothing_or_leaves(service: http.Service, journal: Journal, log: list[str]) -> None:
    silent = socket.create_connection(service.server_address[:2])  # type: ignore[arg-type]
    with socket.create_connection(service.server_address[:2]) as gone:  # type: ignore[arg-type]
        gone.sendall(head(1000))
        gone.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
    grown(journal, 4)
    assert ask(journal, S, http.sender(service.url)).checkpoint.size == 5
    silent.close()
    assert not any("Traceback" in line for line in log)


def test_too_many_at_a_time(tmp_path: Path, journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "PLACES", 2)
    sealed = grown(journal, 4)
    with http.Service(witness(tmp_path / "state"), "127.0.0.1", 0, lambda _: None) as one:
        thread = threading.Thread(target=one.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        idle = [socket.create_connection(one.server_address[:2]) for _ in range(2)]  # type: ignore[arg-type]
        # Who comes is taken in turn, so the places are taken before this one.
        assert raw_exchange(one, b"GET / HTTP/1.0\r\n\r\n") == b""
        for connection in idle:
            connection.close()
        # A place is free when its thread has seen that, whenever that is.
        while not raw_exchange(one, b"GET / HTTP/1.0\r\n\r\n"):
            time.sleep(0.01)
        assert http.sender(one.url)(Request(0, [], sealed).body).status == 200
        one.shutdown()
        thread.join()


def test_its_own_trouble_is_not_told(service: http.Service, journal: Journal, tmp_path: Path, log: list[str]) -> None:
    sealed = grown(journal, 4)
    send = http.sender(service.url)
    send(Request(0, [], sealed).body)
    (file,) = (tmp_path / "state").glob("*.seal")
    file.write_bytes(b"damaged")
    answer = send(Request(5, [], sealed).body)
    assert error_of(answer) == (500, "http") and str(tmp_path).encode() not in answer.body
    assert any(str(file) in line for line in log), "whoever runs it is told"


def test_a_port_that_is_taken(service: http.Service, tmp_path: Path) -> None:
    with pytest.raises(StorageError, match=r"cannot listen at 127\.0\.0\.1 port \d+"):
        http.Service(witness(tmp_path / "b"), "127.0.0.1", service.server_address[1], print)
    with pytest.raises(StorageError, match="cannot listen at no"):
        http.Service(witness(tmp_path / "b"), "no.such.host.invalid", 0, print)


@pytest.mark.parametrize(
    "url",
    ["", "x", "file:///etc/passwd", "http://", "ftp://x", "http://u:p@x", "http://x:y", "http://x:99999", "http://[x",
     "http://x?y", "http://é", "//x", "http://x\n"],
)  # fmt: skip
def test_no_url_of_a_witness(url: str) -> None:
    with pytest.raises(UsageError, match="not the URL of a witness"):
        http.sender(url)


def test_a_witness_that_cannot_be_reached_or_speaks_something_else() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]

        def talk() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(b"SSH-2.0-x\r\n")

        thread = threading.Thread(target=talk)
        thread.start()
        with pytest.raises(StorageError, match="does not speak HTTP"):
            http.sender(f"http://127.0.0.1:{port}")(b"{}")
        thread.join()
    with pytest.raises(StorageError, match="cannot ask the witness"):
        http.sender(f"http://127.0.0.1:{port}")(b"{}")
    with pytest.raises(StorageError, match="cannot ask the witness"):
        http.sender(f"https://127.0.0.1:{port}")(b"{}")


# --- gj witness --------------------------------------------------------------------------------------------


def gj(*words: object, place: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "gitjournal", *map(str, words)]
    env = {**os.environ, "GITJOURNAL_DIR": str(place)}
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, check=False)


def test_the_commands(tmp_path: Path) -> None:
    journal = gitjournal.init(tmp_path / "journal")
    grown(journal, 4)
    key = keys.generate(tmp_path / "key")
    (tmp_path / "signers").write_text(allowed_line(LOG))
    (tmp_path / "witnesses").write_text(allowed_line(key, 'namespaces="gitjournal-witness"', "w@example.com"))
    serve = [sys.executable, "-m", "gitjournal", "witness", "serve", "--state", tmp_path / "state"]
    serve += ["--key", tmp_path / "key", "--allowed-signers", tmp_path / "signers"]
    process = subprocess.Popen(serve, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+", url)
        done = gj("witness", "ask", url, "s", "-o", tmp_path / "kept", place=journal.path)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
        assert (tmp_path / "kept").read_bytes() == cosign.parse((tmp_path / "kept").read_bytes())[0].line
        printed = gj("witness", "ask", url, "s", place=journal.path)
        assert printed.returncode == 0 and json.loads(printed.stdout)["key"] == key.fingerprint
        for words, code in (
            (("ask", url, "t"), 4),
            (("ask", url, "main"), 4),
            (("ask", url, "s@3"), 2),
            (("ask", "x", "s"), 2),
            (("asks",), 2),
        ):
            assert gj("witness", *words, place=journal.path).returncode == code
        check = ("verify", "s", "--cosigned", tmp_path / "kept", "--witnesses", tmp_path / "witnesses")
        done = gj(*check, place=journal.path)
        assert done.returncode == 3 and "pinned at 5, cosigned by w@example.com" in done.stdout, (
            "nobody says whose seals"
        )
        other = gitjournal.init(tmp_path / "other")
        grown(other, 4, "other")
        done = gj(*check, place=other.path)
        assert done.returncode == 1 and "rollback at s@5: a witness has seen other events up to 5" in done.stdout
        done = gj("witness", "ask", url, "s", place=other.path)
        assert done.returncode == 1 and "another history" in done.stderr
    finally:
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=20)
    assert process.returncode == 130 and "Traceback" not in said
    assert f'namespaces="gitjournal-witness" {key.line}' in said


def test_serve_says_what_is_wrong(tmp_path: Path) -> None:
    keys.generate(tmp_path / "key")
    (tmp_path / "signers").write_text("what?\n")
    base = ("witness", "serve", "--state", tmp_path / "state")
    assert gj(*base, place=tmp_path).returncode == 2
    run = gj(*base, "--key", tmp_path / "none", "--allowed-signers", tmp_path / "signers", place=tmp_path)
    assert run.returncode == 4 and "no key" in run.stderr
    run = gj(*base, "--key", tmp_path / "key", "--allowed-signers", tmp_path / "signers", place=tmp_path)
    assert run.returncode == 2 and "line 1" in run.stderr
    (tmp_path / "signers").write_text(allowed_line(LOG))
    run = gj(*base, "--key", tmp_path / "key", "--allowed-signers", tmp_path / "signers", "--host", "no.such.invalid",
             place=tmp_path)  # fmt: skip
    assert run.returncode == 4 and "cannot listen" in run.stderr
    assert gj("witness", place=tmp_path).stdout.startswith("Usage: ")


def test_conflict_has_the_size(journal: Journal, tmp_path: Path) -> None:
    one = witness(tmp_path)
    sealed = grown(journal, 4)
    with pytest.raises(ConflictError) as caught:
        one.cosign(Request(3, [], sealed))
    assert caught.value.head_seq == 0


def test_the_proof_that_is_asked_for_is_that_of_the_tree(journal: Journal) -> None:
    first, second = grown(journal, 4), grown(journal, 9)
    hashes = b"".join(bytes.fromhex(event.hash) for event in journal.events("s"))
    path = path_between(journal, first, second)
    assert path == merkle.consistency_path(hashes, 5, 15)
    assert canonical.loads(Request(5, path, second).body)["old_size"] == 5
