"""Attacks on a journal, each a test that is named after it, and what verification says of it.

The attacker may write any object and any ref, with git or without it, and knows the format as well as we do. The only
thing that is out of reach is a hash that somebody else has kept; nothing pins the head here, so a rewrite of all that
follows, and a cut at the end, cannot be seen. Two tests say so.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import sys
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pygit2
import pytest
from support import git, git_text

import gitjournal
from gitjournal import objects, pack, refs, rules, writer
from gitjournal.errors import FormatError, NotFound
from gitjournal.event import Event
from gitjournal.journal import Journal
from gitjournal.objects import Deriver, git_id
from gitjournal.refs import Name
from gitjournal.verify import MAX_FINDINGS, Report, verify_session

KINDS = {b"commit": pack.COMMIT, b"tree": pack.TREE, b"blob": pack.BLOB}
#: Seqs of the journal under attack: in git, with side files, and in the tail.
IN_GIT, LAST = 222, 230
BIG, TWO = 161, 162
PICTURE = "iVBORw0KGgoAAAANSUhEUg=="


def say(n: int) -> tuple[str, dict[str, Any], str]:
    return "message", {"role": "user", "parts": [{"type": "text", "content": f"line {n} é😀 \\ /"}]}, "user"


def build(path: Path) -> None:
    """Session s with 230 events (8 of them in the tail), its branch try-b from 120, and its fork f from 60."""
    journal = gitjournal.init(path)
    with journal.session("s", create=True, durability="os") as s:
        s.append_many([say(n) for n in range(2, 100)])
        s.flush()
        s.append_many([say(n) for n in range(100, BIG)])
        s.append("tool.result", {"output": "x" * 70_000}, actor="tool:shell")
        parts = [
            {"type": "blob", "mime_type": "image/png", "content": PICTURE},
            {"type": "text", "content": "y" * 66_000},
        ]
        s.append("message", {"role": "user", "parts": parts}, actor="user")
        s.append_many([say(n) for n in range(TWO + 1, IN_GIT + 1)])
    journal.branch("s", at=120, as_="try-b")
    journal.fork("s", at=60, session="f")
    for name in ("s/try-b", "f"):
        with journal.session(name, durability="os") as other:
            other.append_many([say(n) for n in range(10)])


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The journal as a crashed writer left it: eight events are in the tail."""
    folder = tmp_path_factory.mktemp("verify")
    build(folder / "first")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(writer, "IDLE_SECONDS", 3600)
        with gitjournal.open(folder / "first").session("s") as s:
            s.append_many([say(n) for n in range(IN_GIT + 1, LAST)])
            s.append(*say(LAST)[:2])
            shutil.copytree(folder / "first", folder / "base")
    return folder / "base"


@dataclass(frozen=True)
class Item:
    """What an attacker puts in an event's place: bytes, side files, and what the commit says of it."""

    raw: bytes
    files: tuple[bytes, ...]
    seq: int
    ts: str
    actor: str
    type: str
    session: str
    hash: str

    @classmethod
    def of(cls, event: Event, files: Sequence[bytes] = ()) -> Item:
        return cls(event.raw, tuple(files), event.seq, event.ts, event.actor, event.type, event.session, event.hash)

    def with_raw(self, raw: bytes) -> Item:
        """Other bytes; what the commit says follows where they can be read as an event."""
        try:
            return Item.of(Event(raw), self.files)
        except FormatError:
            return replace(self, raw=raw)


@contextmanager
def in_two_processes() -> Iterator[None]:
    """Verify also the shortest line with the help of a second process, wherever the tests run."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("gitjournal.aside.is_possible", lambda: True)
        patch.setattr(sys.modules["gitjournal.verify"], "_LONG", 1)
        yield


class Attack:
    """A copy of the journal in the hands of somebody who wants to lie."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.folder = path / "objects" / "pack"

    def journal(self) -> Journal:
        """The journal, opened anew: nothing is in a cache."""
        return gitjournal.open(self.path)

    def verify(self, name: str | Name = "s") -> Report:
        """The verdict, which must be the same when a second process is asked for its word."""
        report = gitjournal.verify(self.journal(), name)
        with in_two_processes():
            assert gitjournal.verify(self.journal(), name) == report
        return report

    def git(self, *args: str, stdin: bytes = b"") -> str:
        return git_text(*args, cwd=self.path, stdin=stdin)

    def tip(self, name: str = "s/main") -> str:
        return self.oid(f"refs/heads/{name}")

    def point(self, oid: str, name: str = "s/main") -> None:
        """Move a ref as an editor does: git would refuse some of these targets."""
        path = self.path / "refs" / "heads" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(oid + "\n")

    def oid(self, spec: str) -> str:
        """The id of what git's own syntax names."""
        return str(self._repo().revparse_single(spec).id)

    def content(self, oid: str) -> bytes:
        return bytes(self._repo().odb.read(pygit2.Oid(hex=oid))[1])

    def put(self, kind: str, data: bytes) -> str:
        """Write an object that git itself might refuse."""
        oid = git_id(kind.encode(), data).hex()
        if not self.loose_path(oid).exists():
            self.swap(oid, kind, data)
        return oid

    def history(self, name: str = "s/main") -> list[str]:
        """The commits of a branch, oldest first."""
        return self.git("rev-list", "--reverse", self.tip(name)).split()

    def _repo(self) -> Any:
        # Anew each time: libgit2 caches objects that these attacks change.
        return pygit2.Repository(str(self.path))

    def commit(self, tree: str, parent: str | None, like: str) -> str:
        """A commit that says what commit ``like`` says, with another tree or parent."""
        lines = self.content(like).split(b"\n")
        body = [line for line in lines if not line.startswith((b"tree ", b"parent "))]
        head = [f"tree {tree}".encode(), *([f"parent {parent}".encode()] if parent else [])]
        return self.put("commit", b"\n".join([*head, *body]))

    def items(self, name: str = "s/main") -> list[Item]:
        """The events of a branch that are in git."""
        chain = self.journal().chain(refs.parse_ref(f"refs/heads/{name}") or Name(name))
        head = chain.store.read_ref(chain.ref)
        assert head is not None
        out = []
        for event in chain.events(to=chain.read_commit(head).seq):
            files = [
                bytes.fromhex(self.oid(f"{head.hex()}:{objects.event_path(event.seq)[:-4]}{k}"))
                for k in range(1, len(event.files) + 1)
            ]
            out.append(Item.of(event, files))
        return out

    def forge(self, items: Sequence[Item], name: str = "s/main", *, point: bool = True) -> str:
        """Write all trees and commits that these events lead to, and point the branch at them."""
        deriver = Deriver()
        fresh: dict[bytes, tuple[int, bytes, bytes]] = {}
        for item in items:
            derived = deriver.push(item, item.files)  # type: ignore[arg-type]
            for kind, (oid, data) in (
                (pack.COMMIT, derived.commit),
                *((pack.TREE, tree) for tree in derived.trees),
                (pack.BLOB, derived.blob),
            ):
                fresh[oid] = (kind, oid, data)
        trees = [one for one in fresh.values() if one[0] == pack.TREE]
        rest = [one for one in fresh.values() if one[0] != pack.TREE]
        pack.write(self.folder, [*reversed(trees), *rest], sync=False)
        assert deriver.head is not None
        if point:
            self.point(deriver.head.hex(), name)
        return deriver.head.hex()

    def drop_tail(self) -> None:
        (self.path / "gitjournal" / "tail" / "s" / "main.jsonl").unlink(missing_ok=True)

    def loosen(self) -> None:
        """Turn the packs into loose objects, which can be changed one by one."""
        packs = sorted(self.folder.glob("*.pack"))
        spare = self.path / "spare"
        spare.mkdir()
        for one in packs:
            shutil.move(one, spare / one.name)
            one.with_suffix(".idx").unlink()
        for one in sorted(spare.glob("*.pack")):
            self.git("unpack-objects", "-q", stdin=one.read_bytes())
        shutil.rmtree(spare)

    def loose_path(self, oid: str) -> Path:
        return self.path / "objects" / oid[:2] / oid[2:]

    def swap(self, oid: str, kind: str, data: bytes) -> None:
        """Put other content under the id of a loose object."""
        path = self.loose_path(oid)
        path.unlink(missing_ok=True)
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(zlib.compress(b"%s %d\x00%s" % (kind.encode(), len(data), data), 1))

    def remove(self, oid: str) -> None:
        self.loosen()
        self.loose_path(oid).unlink()


@pytest.fixture
def attack(base: Path, tmp_path: Path) -> Attack:
    shutil.copytree(base, tmp_path / "j")
    return Attack(tmp_path / "j")


def found(report: Report) -> list[tuple[str, int | None]]:
    """(code, seq) of each finding, and all that any report of a fault must be."""
    assert not report.ok
    assert report.exit_status == 1
    assert json.loads(json.dumps(report.as_dict()))["verdict"] == "broken"
    assert report.unchecked
    assert all(one.text for one in report.findings)
    return [(one.code, one.seq) for one in report.findings]


def sealed(members: dict[str, Any], **changes: Any) -> Event:
    """An event as a forger makes it: canonical, with some members changed."""
    return Event.build({**members, **changes})


def relink(items: list[Item], first: int) -> list[Item]:
    """Give the events from ``first`` on the ``prev`` that they need now: a forger who rewrites all the rest."""
    out = items[: first - 1]
    for item in items[first - 1 :]:
        out.append(Item.of(sealed(Event(item.raw).members, prev=out[-1].hash), item.files))
    return out


def edit(item: Item) -> Item:
    """Another payload in the same event."""
    return item.with_raw(item.raw.replace(b"line ", b"lime ", 1))


# --- the journal itself ----------------------------------------------------------------------------


def test_intact_journal_is_ok(attack: Attack) -> None:
    report = attack.verify()
    assert report.findings == []
    assert (report.ok, report.exit_status, report.head_seq, report.in_tail, report.side_files) == (True, 0, LAST, 8, 3)
    assert report.head_hash == attack.journal().head("s").hash
    assert report.commit == attack.tip()
    assert any("nothing pins the head" in note for note in report.unchecked)
    for name, last in (("s/try-b", 131), ("f", 71), ("journal", 1)):
        report = attack.verify(name)
        assert (report.findings, report.head_seq) == ([], last)
    assert [one.ok for one in verify_session(attack.journal(), "s")] == [True, True]


def test_report_is_the_same_in_every_run(attack: Attack) -> None:
    assert attack.verify().as_dict() == attack.verify().as_dict()


def test_intact_after_gc_repack_and_loosening(attack: Attack) -> None:
    before = attack.verify().as_dict()
    attack.git("repack", "-adfq", "--depth=50")
    assert attack.verify().as_dict() == before
    attack.git("gc", "-q", "--prune=now")
    assert attack.verify().as_dict() == before
    attack.loosen()
    assert attack.verify().as_dict() == before


def test_branch_that_does_not_exist(attack: Attack) -> None:
    for name in ("nobody", "s/nothing", "", "s/", "/", "\x00", "\ud800", Name("s", "x"), Name("", ""), "a" * 300):
        with pytest.raises(NotFound):
            attack.verify(name)
    assert verify_session(attack.journal(), "nobody") == []


# --- events changed, moved, added, taken away ------------------------------------------------------


def test_edited_event(attack: Attack) -> None:
    items = attack.items()
    items[49] = edit(items[49])
    attack.forge(items)
    assert found(attack.verify())[0] == ("broken-link", 51)


def test_edited_event_without_new_commits(attack: Attack) -> None:
    """The blob and the trees are new, but the commit still says what it said."""
    items = attack.items()
    items[49] = replace(items[49], raw=edit(items[49]).raw)
    attack.forge(items)
    assert ("bad-hash", 50) in found(attack.verify())
    assert ("broken-link", 51) in found(attack.verify())


def test_edited_event_only_in_the_head_tree(attack: Attack) -> None:
    """The history is left alone; a new commit of the same event has a tree with one event changed."""
    items = attack.items()
    items[49] = edit(items[49])
    tree = attack.oid(attack.forge(items, point=False) + "^{tree}")
    tip = attack.tip()
    attack.point(attack.commit(tree, attack.oid(tip + "^"), tip))
    assert ("broken-link", 51) in found(attack.verify())


def test_edited_last_event_in_git(attack: Attack) -> None:
    items = attack.items()
    items[-1] = edit(items[-1])
    attack.forge(items)
    assert found(attack.verify()) == [("broken-link", IN_GIT + 1)]


def test_rewrite_of_everything_after_is_not_seen_without_a_pin(attack: Attack) -> None:
    """Hashes, commits and tail made anew from one event on: only somebody who kept the old head can tell."""
    before = attack.verify()
    items = attack.items()
    items[49] = edit(items[49])
    attack.forge(relink(items, 51))
    attack.drop_tail()
    report = attack.verify()
    assert report.ok
    assert report.head_hash != before.head_hash
    assert any("nothing pins the head" in note for note in report.unchecked)


def test_swapped_events(attack: Attack) -> None:
    items = attack.items()
    items[49], items[50] = items[50], items[49]
    items[49:51] = [replace(item, seq=seq) for seq, item in zip((50, 51), items[49:51], strict=True)]
    attack.forge(items)
    assert found(attack.verify())[0] == ("bad-seq", 50)


def test_swapped_events_renumbered(attack: Attack) -> None:
    items = attack.items()
    one, two = Event(items[49].raw), Event(items[50].raw)
    items[49:51] = [Item.of(sealed(two.members, seq=50)), Item.of(sealed(one.members, seq=51))]
    attack.forge(items)
    assert found(attack.verify())[0] == ("broken-link", 50)


def test_dropped_event_in_the_middle(attack: Attack) -> None:
    items = attack.items()
    del items[49]
    attack.forge(items)
    # One commit too few for the seq of the last, too.
    assert found(attack.verify()) == [("bad-commit", 2), ("bad-hash", 2), ("missing-object", 50)]


def test_dropped_event_and_the_rest_renumbered(attack: Attack) -> None:
    items = attack.items()
    del items[49]
    items[49:] = [Item.of(sealed(Event(item.raw).members, seq=item.seq - 1), item.files) for item in items[49:]]
    attack.forge(items)
    assert found(attack.verify())[0] == ("broken-link", 50)


def test_dropped_end_in_git_and_tail_is_not_seen_without_a_pin(attack: Attack) -> None:
    attack.point(attack.oid("refs/heads/s/main~20"))
    attack.drop_tail()
    report = attack.verify()
    assert (report.ok, report.head_seq) == (True, IN_GIT - 20)
    assert any("whether newer events were cut off" in note for note in report.unchecked)


def test_dropped_end_in_git_under_a_tail(attack: Attack) -> None:
    attack.point(attack.oid("refs/heads/s/main~20"))
    assert found(attack.verify()) == [("broken-link", IN_GIT - 19)]


def test_inserted_event(attack: Attack) -> None:
    items = attack.items()
    extra = Item.of(sealed(Event(items[49].raw).members, seq=51, prev=items[49].hash))
    rest = [Item.of(sealed(Event(item.raw).members, seq=item.seq + 1), item.files) for item in items[50:]]
    attack.forge([*items[:50], extra, *rest])
    assert found(attack.verify())[0] == ("broken-link", 52)


def test_duplicated_seq(attack: Attack) -> None:
    """Two events of one seq, one after the other."""
    items = attack.items()
    twin = Item.of(sealed(Event(items[50].raw).members, seq=50, prev=items[49].hash))
    attack.forge([*items[:50], replace(twin, seq=51), *items[51:]])
    assert found(attack.verify())[0] == ("bad-seq", 51)


@pytest.mark.parametrize("seq", [1, 49, 50, 52, 150, 221, 222, 223, 10_000, 99_999_999])
def test_renumbered_event(attack: Attack, seq: int) -> None:
    items = attack.items()
    members = Event(items[50].raw).members
    changed = sealed(members, seq=seq) if seq != 1 else sealed(members, seq=1, prev=None, type="session.start")
    attack.forge([*items[:50], replace(Item.of(changed), seq=51), *items[51:]])
    assert found(attack.verify())[0][1] == 51
    assert {code for code, _ in found(attack.verify())} & {"bad-seq", "bad-fork"}


@pytest.mark.parametrize("claimed", [1, 100, 221, 223, 10_000, 99_999_999])
def test_head_commit_claims_another_seq(attack: Attack, claimed: int) -> None:
    """A head that claims a hundred million events must not be believed event by event."""
    raw = attack.content(attack.tip())
    attack.point(attack.put("commit", raw.replace(b" #222\n", b" #%d\n" % claimed)))
    report = attack.verify()
    assert found(report)
    assert len(report.findings) <= MAX_FINDINGS
    assert any(note.startswith("what comes after") for note in report.unchecked) == (claimed == 99_999_999)


def test_transplanted_to_another_session(attack: Attack) -> None:
    """The ref is renamed: the events still say whose they are."""
    attack.point(attack.tip(), "t/main")
    assert found(attack.verify("t")) == [("wrong-ref", None)]


def test_ref_of_one_branch_at_another(attack: Attack) -> None:
    attack.drop_tail()
    attack.point(attack.tip("s/try-b"))
    assert found(attack.verify()) == [("wrong-ref", None)]
    attack.point(attack.tip("f/main"), "s/try-b")
    assert found(attack.verify("s/try-b")) == [("wrong-ref", None)]


def test_changed_session_without_a_fork(attack: Attack) -> None:
    items = attack.items()
    items[199:] = [Item.of(sealed(Event(item.raw).members, session="t"), item.files) for item in items[199:]]
    attack.forge(relink(items, 201))
    attack.drop_tail()
    assert found(attack.verify()) == [("bad-session", 200), ("wrong-ref", None)]


def test_fork_into_the_same_session(attack: Attack) -> None:
    """A fork begins a new session; within one session it would only hide that a line has parted."""
    items = attack.items()
    source = {"session": "s", "branch": "main", "seq": IN_GIT, "hash": items[-1].hash}
    fork = sealed(
        Event(items[-1].raw).members, seq=223, prev=items[-1].hash, type="session.fork", data={"from": source}
    )
    attack.forge([*items, Item.of(fork)])
    attack.drop_tail()
    assert found(attack.verify()) == [("bad-fork", 223)]


def branch_event(attack: Attack, **source: Any) -> list[Item]:
    """The line of try-b, its first own event with another ``from`` and all that follows made anew."""
    items = attack.items("s/try-b")
    own = Event(items[120].raw)
    data = {**own.stored_data, "from": {**own.stored_data["from"], **source}}
    items[120] = Item.of(sealed(own.members, data=data))
    return relink(items, 122)


@pytest.mark.parametrize(
    "source", [{"hash": "0" * 64}, {"seq": 119}, {"seq": 121}, {"seq": 0}, {"seq": -1}, {"seq": 10**9}, {"seq": "120"}]
)
def test_forged_fork_point_of_a_branch(attack: Attack, source: dict[str, Any]) -> None:
    attack.forge(branch_event(attack, **source), "s/try-b")
    assert found(attack.verify("s/try-b"))[0] == ("bad-fork", 121)


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"from": None},
        {"from": []},
        {"from": {}},
        {"branch": "try-b"},
        {"branch": 5, "from": {"seq": 120}},
        {"from": 1},
    ],
)
def test_malformed_fork_point(attack: Attack, data: dict[str, Any]) -> None:
    items = attack.items("s/try-b")
    items[120] = Item.of(sealed(Event(items[120].raw).members, data=data))
    attack.forge(relink(items, 122), "s/try-b")
    assert found(attack.verify("s/try-b"))[0] == ("bad-fork", 121)


@pytest.mark.parametrize("source", [{"hash": "0" * 64}, {"seq": 59}, {"session": "t"}, {"session": 5}, {"seq": 61}])
def test_forged_fork_point_of_a_session(attack: Attack, source: dict[str, Any]) -> None:
    items = attack.items("f/main")
    own = Event(items[60].raw)
    items[60] = Item.of(sealed(own.members, data={"from": {**own.stored_data["from"], **source}}))
    attack.forge(relink(items, 62), "f/main")
    assert found(attack.verify("f"))[0] == ("bad-fork", 61)


def test_branch_given_another_name(attack: Attack) -> None:
    attack.point(attack.tip("s/try-b"), "s/try-c")
    assert found(attack.verify("s/try-c")) == [("wrong-ref", None)]


def test_falling_epoch(attack: Attack) -> None:
    items = attack.items()
    items[99] = Item.of(sealed(Event(items[99].raw).members, epoch=7))
    attack.forge(relink(items, 101))
    attack.drop_tail()
    assert found(attack.verify())[0] == ("bad-epoch", 101)


def test_equivocation(attack: Attack) -> None:
    """Two histories of one session from one parent, each in order by itself, and neither says that it parted."""
    items = attack.items()
    other = relink([*items[:100], edit(items[100]), *items[101:130]], 102)
    name = items[100].seq
    assert name == 101
    attack.forge(other, "s/other")
    # Told apart only by the name of the ref, which the line itself does not know: declare it without leaving 100.
    reports = verify_session(attack.journal(), "s")
    codes = {(report.name, one.code, one.seq) for report in reports for one in report.findings}
    assert ("s/other", "equivocation", 101) in codes or ("s", "equivocation", 101) in codes
    assert ("s/other", "wrong-ref", None) in codes


def declare(items: list[Item], name: str, seq: int) -> Item:
    """The event that says, at the end of a line, where it left another one."""
    source = {"branch": "main", "seq": seq, "hash": items[seq - 1].hash}
    members = Event(items[-1].raw).members
    members.pop("files", None)
    return Item.of(
        sealed(
            members,
            seq=items[-1].seq + 1,
            prev=items[-1].hash,
            type="session.branch",
            actor="host",
            data={"branch": name, "from": source},
        )
    )


def test_equivocation_behind_a_true_branch(attack: Attack) -> None:
    """The line says that it left the other one, but at a later event than it did."""
    items = attack.items()
    other = relink([*items[:100], edit(items[100]), *items[101:130]], 102)
    attack.forge([*other, declare(other, "other", 110)], "s/other")
    reports = {report.name: report for report in verify_session(attack.journal(), "s")}
    everything = [(one.code, one.seq) for report in reports.values() for one in report.findings]
    assert ("equivocation", 101) in everything


def test_branch_declared_late(attack: Attack) -> None:
    """Two hosts went on from one event by accident; the loser says so at its end, and no hash changes."""
    items = attack.items()
    other = relink([*items[:100], edit(items[100]), *items[101:130]], 102)
    attack.forge([*other, declare(other, "other", 100)], "s/other")
    reports = verify_session(attack.journal(), "s")
    assert {report.name: report.ok for report in reports} == {"s": True, "s/other": True, "s/try-b": True}


# --- trees -----------------------------------------------------------------------------------------


def regrow(attack: Attack, change: Callable[[dict[bytes, list[tuple[bytes, bytes, bytes]]]], None]) -> None:
    """A head commit of the same event whose trees (by path) have been changed entry by entry."""
    tip = attack.tip()
    trees: dict[bytes, list[tuple[bytes, bytes, bytes]]] = {}

    def read(oid: str, path: bytes) -> None:
        raw, at = attack.content(oid), 0
        trees[path] = []
        while at < len(raw):
            end = raw.index(b"\x00", at)
            mode, name = raw[at:end].split(b" ", 1)
            trees[path].append((mode, name, raw[end + 1 : end + 21]))
            if mode == b"40000":
                read(raw[end + 1 : end + 21].hex(), path + name + b"/")
            at = end + 21

    def write(path: bytes) -> bytes:
        out = []
        for mode, name, oid in trees[path]:
            inner = path + name + b"/"
            out.append(b"%s %s\x00%s" % (mode, name, write(inner) if inner in trees else oid))
        return bytes.fromhex(attack.put("tree", b"".join(out)))

    read(attack.oid(tip + "^{tree}"), b"")
    change(trees)
    attack.point(attack.commit(write(b"").hex(), attack.oid(tip + "^"), tip))


LEAF = b"0000/00/"


@pytest.mark.parametrize("path", [b"", b"0000/", LEAF, b"0000/02/"])
@pytest.mark.parametrize("name", [b"README", b"zzz", b"00000050.json.bak", b"..", b"a/b", b"9999", b"99"])
def test_extra_file_in_the_tree(attack: Attack, path: bytes, name: bytes) -> None:
    blob = bytes.fromhex(attack.put("blob", b"smuggled"))
    regrow(attack, lambda trees: trees[path].append((b"100644", name, blob)))
    # A leaf tree of another form is not read at all: its events are lost.
    assert found(attack.verify())[0] == ("bad-tree", {LEAF: 1, b"0000/02/": 200}.get(path, IN_GIT))


def test_extra_folder_in_the_tree(attack: Attack) -> None:
    def change(trees: dict[bytes, list[tuple[bytes, bytes, bytes]]]) -> None:
        trees[b""].append((b"40000", b"0009", trees[b"0000/"][0][2]))

    regrow(attack, change)
    assert found(attack.verify()) == [("bad-tree", IN_GIT)]


@pytest.mark.parametrize(
    "mode", [b"120000", b"100755", b"160000", b"100664", b"100600", b"0100644", b"40000", b"", b"x"]
)
def test_odd_mode(attack: Attack, mode: bytes) -> None:
    """A symbolic link, a program, a submodule: the bytes are there, but the tree is not the one."""

    def change(trees: dict[bytes, list[tuple[bytes, bytes, bytes]]]) -> None:
        trees[LEAF] = [(mode if b"50.json" in name else old, name, oid) for old, name, oid in trees[LEAF]]

    regrow(attack, change)
    assert found(attack.verify()) == [("bad-tree", 1)]


def test_odd_mode_of_a_folder(attack: Attack) -> None:
    def change(trees: dict[bytes, list[tuple[bytes, bytes, bytes]]]) -> None:
        trees[b""] = [(b"040000", name, oid) for _, name, oid in trees[b""]]

    regrow(attack, change)
    assert found(attack.verify())[0][0] in ("bad-tree", "missing-object")


def test_duplicate_names_in_a_tree(attack: Attack) -> None:
    """Two entries of one name: which one a reader takes is its own business, so neither may stand."""
    other = bytes.fromhex(attack.put("blob", edit(attack.items()[49]).raw))
    for place in (0, 1):

        def change(trees: dict[bytes, list[tuple[bytes, bytes, bytes]]], place: int = place) -> None:
            at = next(i for i, entry in enumerate(trees[LEAF]) if b"50.json" in entry[1])
            trees[LEAF].insert(at + place, (b"100644", b"00000050.json", other))

        regrow(attack, change)
        assert found(attack.verify())


def test_unsorted_tree(attack: Attack) -> None:
    def change(trees: dict[bytes, list[tuple[bytes, bytes, bytes]]]) -> None:
        trees[LEAF].reverse()

    regrow(attack, change)
    assert found(attack.verify())[0] == ("bad-tree", IN_GIT)


@pytest.mark.parametrize(
    "name",
    [
        b"9" * 6000 + b".json",
        b"00000001." + b"9" * 6000,
        b"00000001.0",
        b"00000001.00000000000000000001",
        b"\xd9\xa1.json",
        b".json",
        b"00000001.",
        b"00000001.-1",
        b"+0000001.json",
    ],
)
def test_odd_name_in_a_leaf(attack: Attack, name: bytes) -> None:
    blob = bytes.fromhex(attack.put("blob", b"{}"))
    regrow(attack, lambda trees: trees[LEAF].insert(0, (b"100644", name, blob)))
    assert found(attack.verify())
    regrow(attack, lambda trees: trees[LEAF].append((b"100644", name, blob)))
    assert found(attack.verify())


@pytest.mark.parametrize("cut", [1, 20, 21, 30, 40])
def test_tree_cut_in_the_middle_of_an_entry(attack: Attack, cut: int) -> None:
    tip = attack.tip()
    leaf, middle = attack.oid(tip + ":0000/00"), attack.oid(tip + ":0000")
    tree = attack.oid(tip + "^{tree}")
    new = attack.put("tree", attack.content(leaf)[:-cut])
    middle = attack.put("tree", attack.content(middle).replace(bytes.fromhex(leaf), bytes.fromhex(new)))
    old_middle = bytes.fromhex(attack.oid(tip + ":0000"))
    root = attack.put("tree", attack.content(tree).replace(old_middle, bytes.fromhex(middle)))
    attack.point(attack.commit(root, attack.oid(tip + "^"), tip))
    assert found(attack.verify())[0][0] in ("bad-tree", "missing-object")


def test_tree_of_an_old_commit_changed(attack: Attack) -> None:
    """The head's tree is right; only somebody who checks out an old commit would see the other event."""
    items = attack.items()
    false = attack.forge([*items[:49], edit(items[49])], point=False)
    commits = attack.history()
    parent = attack.commit(attack.oid(false + "^{tree}"), commits[48], commits[49])
    for commit in commits[50:]:
        parent = attack.commit(attack.oid(commit + "^{tree}"), parent, commit)
    attack.point(parent)
    assert found(attack.verify()) == [("bad-tree", 50)]


# --- commits ---------------------------------------------------------------------------------------


def recommit(attack: Attack, seq: int, change: Callable[[bytes], bytes]) -> None:
    """Change the bytes of one commit and make those after it anew."""
    commits = attack.history()
    parent = attack.put("commit", change(attack.content(commits[seq - 1])))
    for commit in commits[seq:]:
        parent = attack.commit(attack.oid(commit + "^{tree}"), parent, commit)
    attack.point(parent)


@pytest.mark.parametrize("seq", [1, 50, IN_GIT])
def test_commit_that_is_too_large(attack: Attack, seq: int) -> None:
    """However right it is: a verifier does not read it."""
    armour = b"\ngpgsig -----BEGIN SSH SIGNATURE-----\n" + b" AAAA\n" * 11_000 + b" -----END SSH SIGNATURE-----\n\n"
    recommit(attack, seq, lambda raw: raw.replace(b"\n\n", armour, 1))
    assert found(attack.verify())[0] == ("bad-commit", None if seq == IN_GIT else seq)


def test_ref_that_is_a_pipe_or_a_link(attack: Attack) -> None:
    path = attack.path / "refs" / "heads" / "s" / "main"
    path.unlink(missing_ok=True)
    os.mkfifo(path)
    assert found(attack.verify()) == [("wrong-ref", None)]
    path.unlink()
    path.symlink_to("../other/main")
    assert found(attack.verify()) == [("wrong-ref", None)]


def twice(prefix: bytes) -> Callable[[bytes], bytes]:
    """Say one line of a commit's head twice."""

    def change(raw: bytes) -> bytes:
        lines = raw.split(b"\n")
        at = next(i for i, line in enumerate(lines) if line.startswith(prefix))
        return b"\n".join([*lines[: at + 1], *lines[at:]])

    return change


COMMITS: dict[str, Callable[[bytes], bytes]] = {
    "two-authors": twice(b"author "),
    "two-trees": twice(b"tree "),
    "two-parents": twice(b"parent "),
    "two-committers": twice(b"committer "),
    "two-sessions": twice(b"Session: "),
    "nul-in-message": lambda raw: raw + b"\x00hidden",
    "nul-in-session": lambda raw: raw.replace(b"Session: s\n", b"Session: s\x00\n"),
    "crlf": lambda raw: raw.replace(b"\n\n", b"\r\n\r\n"),
    "crlf-at-the-end": lambda raw: raw[:-1] + b"\r\n",
    "no-final-newline": lambda raw: raw[:-1],
    "two-final-newlines": lambda raw: raw + b"\n",
    "words-added": lambda raw: raw + b"Approved-By: the boss\n",
    "encoding": lambda raw: raw.replace(b"\n\n", b"\nencoding latin1\n\n", 1),
    "mergetag": lambda raw: raw.replace(b"\n\n", b"\nmergetag object x\n\n", 1),
    "another-author": lambda raw: raw.replace(b"author user <user@", b"author ana <ana@"),
    "author-not-its-mail": lambda raw: raw.replace(b"author user <", b"author ana <"),
    "another-committer": lambda raw: raw.replace(b"committer gitjournal <gitjournal@", b"committer git <git@"),
    "another-zone": lambda raw: raw.replace(b" +0000\n", b" +0100\n"),
    "another-time": lambda raw: raw.replace(b" +0000\n", b"0 +0000\n"),
    "another-type": lambda raw: raw.replace(b"\n\nmessage #", b"\n\ntool.call #"),
    "another-session": lambda raw: raw.replace(b"Session: s\n", b"Session: t\n"),
    "another-seq": lambda raw: raw.replace(b" #50\n", b" #51\n"),
    "another-hash": lambda raw: raw[:-65] + b"0" * 64 + b"\n",
    "upper-case-hash": lambda raw: raw[:-65] + raw[-65:].upper(),
    "garbage-signature": lambda raw: raw.replace(
        b"\n\n", b"\ngpgsig -----BEGIN SSH SIGNATURE-----\n AAAA\n -----END SSH SIGNATURE-----\n\n", 1
    ),
    "pgp-signature": lambda raw: raw.replace(
        b"\n\n", b"\ngpgsig -----BEGIN PGP SIGNATURE-----\n AAAA\n -----END PGP SIGNATURE-----\n\n", 1
    ),
    "empty": lambda raw: b"",
    "only-a-tree": lambda raw: raw[:46],
    "no-author": lambda raw: raw.replace(raw[raw.index(b"author") : raw.index(b"committer")], b""),
}
#: A signature is not looked into yet: said to be unchecked, never to be good.
UNCHECKED = {"garbage-signature"}


@pytest.mark.parametrize("seq", [50, IN_GIT])
@pytest.mark.parametrize("how", [how for how in COMMITS if how not in UNCHECKED])
def test_commit(attack: Attack, how: str, seq: int) -> None:
    """Bytes of a commit that git may take and that section 6 does not."""
    if how == "another-seq" and seq != 50:
        seq = 50
    recommit(attack, seq, COMMITS[how])
    code, at = found(attack.verify())[0]
    assert code in ("bad-commit", "bad-hash", "bad-tree")
    assert at == seq or (seq == IN_GIT and at is None)


@pytest.mark.parametrize("seq", [50, IN_GIT])
def test_commit_with_a_garbage_signature(attack: Attack, seq: int) -> None:
    attack.drop_tail()
    recommit(attack, seq, COMMITS["garbage-signature"])
    assert found(attack.verify()) == [("bad-signature", seq)]


def test_commit_time_not_clamped(attack: Attack) -> None:
    """A clock that went back: the commit's time is the parent's, not the event's own."""
    items = attack.items()
    late = sealed(Event(items[49].raw).members, ts="2090-01-01T00:00:00.000Z")
    items[49] = Item.of(late)
    items = relink(items, 51)
    attack.forge(items)
    attack.drop_tail()
    assert attack.verify().ok
    clamped = rules.unix_seconds(late.ts)
    assert b" %d +0000\n" % clamped in attack.content(attack.tip())
    own = rules.unix_seconds(items[-1].ts)
    recommit(attack, IN_GIT, lambda raw: raw.replace(b" %d +0000\n" % clamped, b" %d +0000\n" % own))
    assert found(attack.verify()) == [("bad-tree", IN_GIT)]


def test_first_commit_has_a_parent(attack: Attack) -> None:
    """The session is hung behind another history."""
    commits = attack.history()
    parent = attack.tip("journal/main")
    for commit in commits:
        parent = attack.commit(attack.oid(commit + "^{tree}"), parent, commit)
    attack.point(parent)
    assert found(attack.verify())[0][0] == "bad-commit"


def test_commit_with_two_parents(attack: Attack) -> None:
    other = attack.tip("f/main").encode()
    recommit(attack, IN_GIT, lambda raw: raw.replace(b"author ", b"parent %s\nauthor " % other, 1))
    assert found(attack.verify())[0] == ("bad-commit", None)


def test_commit_left_out_of_the_history(attack: Attack) -> None:
    """The trees hold all events, but the history of one of them has no commit."""
    commits = attack.history()
    parent = commits[48]
    for commit in commits[50:]:
        parent = attack.commit(attack.oid(commit + "^{tree}"), parent, commit)
    attack.point(parent)
    assert found(attack.verify())[0][0] in ("bad-commit", "bad-hash")


# --- bytes of an event -----------------------------------------------------------------------------


def members_of(item: Item) -> dict[str, Any]:
    return json.loads(item.raw)  # type: ignore[no-any-return]


def spaced(item: Item) -> bytes:
    return json.dumps(members_of(item), ensure_ascii=False, sort_keys=True).encode()


def reordered(item: Item) -> bytes:
    return json.dumps(dict(reversed(members_of(item).items())), ensure_ascii=False, separators=(",", ":")).encode()


BYTES: dict[str, tuple[str, Callable[[Item], bytes]]] = {
    "spaces": ("not-canonical", spaced),
    "key-order": ("not-canonical", reordered),
    "final-newline": ("not-canonical", lambda item: item.raw + b"\n"),
    "leading-space": ("not-canonical", lambda item: b" " + item.raw),
    "fraction-of-zero": ("not-canonical", lambda item: item.raw.replace(b'"epoch":1,', b'"epoch":1.0,')),
    "exponent": ("not-canonical", lambda item: item.raw.replace(b'"epoch":1,', b'"epoch":1e0,')),
    "escaped-slash": ("not-canonical", lambda item: item.raw.replace(b" /", b" \\/")),
    "escaped-letter": ("not-canonical", lambda item: item.raw.replace(b"line", b"\\u006cine")),
    "upper-case-escape": ("not-canonical", lambda item: item.raw.replace(b"line", b"\\u001Fline")),
    "duplicate-member": ("bad-json", lambda item: item.raw.replace(b'"epoch":1,', b'"epoch":1,"epoch":1,')),
    "duplicate-in-data": ("bad-json", lambda item: item.raw.replace(b'"role":', b'"role":"user","role":')),
    "byte-order-mark": ("bad-json", lambda item: b"\xef\xbb\xbf" + item.raw),
    "invalid-utf8": ("bad-json", lambda item: item.raw.replace("é".encode(), b"\xe9")),
    "cut-utf8": ("bad-json", lambda item: item.raw.replace("é".encode(), b"\xc3")),
    "overlong-utf8": ("bad-json", lambda item: item.raw.replace(b"line", b"\xc0\xaf")),
    "surrogate-utf8": ("bad-json", lambda item: item.raw.replace(b"line", b"\xed\xa0\x80")),
    "lone-surrogate": ("bad-json", lambda item: item.raw.replace(b"line", b"\\ud800")),
    "utf16": ("bad-json", lambda item: item.raw.decode().encode("utf-16-le")),
    "infinite": ("bad-json", lambda item: item.raw.replace(b'"role":"user"', b'"role":1e400')),
    "not-a-number": ("bad-json", lambda item: item.raw.replace(b'"role":"user"', b'"role":NaN')),
    "big-integer": ("bad-json", lambda item: item.raw.replace(b'"role":"user"', b'"role":9007199254740992')),
    "huge-integer": ("bad-json", lambda item: item.raw.replace(b'"role":"user"', b'"role":' + b"9" * 9999)),
    "minus-zero": ("bad-json", lambda item: item.raw.replace(b'"role":"user"', b'"role":-0')),
    "too-deep": ("bad-json", lambda item: item.raw.replace(b'"user","', b"[" * 99_999 + b"]" * 99_999 + b',"', 1)),
    "control-character": ("bad-json", lambda item: item.raw.replace(b"line", b"li\x01ne")),
    "nul": ("bad-json", lambda item: item.raw.replace(b"line", b"li\x00ne")),
    "empty": ("bad-json", lambda item: b""),
    "no-object": ("bad-json", lambda item: b"[" + item.raw + b"]"),
    "two-values": ("bad-json", lambda item: item.raw + item.raw),
    "cut": ("bad-json", lambda item: item.raw[:-1]),
    "another-version": ("bad-version", lambda item: item.raw[:-2] + b"2}"),
    "no-version": ("bad-version", lambda item: item.raw.replace(b',"v":1}', b"}")),
    "unknown-member": ("bad-member", lambda item: item.raw.replace(b',"v":1}', b',"v":1,"w":1}')),
    "no-data": ("bad-member", lambda item: item.raw.replace(b'"data":', b'"dat":')),
    "data-no-object": ("bad-member", lambda item: changed(item, data=[])),
    "bad-actor": ("bad-member", lambda item: changed(item, actor="a\nb")),
    "bad-type": ("bad-member", lambda item: changed(item, type="Message")),
    "bad-time": ("bad-member", lambda item: changed(item, ts="2026-02-30T00:00:00.000Z")),
    "leap-second": ("bad-member", lambda item: changed(item, ts="2016-12-31T23:59:60.000Z")),
    "bad-turn": ("bad-member", lambda item: changed(item, turn="")),
    "bad-salt": ("bad-member", lambda item: changed(item, salt="A" * 21 + "B")),
    "bad-session": ("bad-member", lambda item: changed(item, session="")),
    "epoch-zero": ("bad-epoch", lambda item: changed(item, epoch=0)),
    "epoch-true": ("bad-epoch", lambda item: changed(item, epoch=True)),
    "seq-text": ("bad-seq", lambda item: changed(item, seq="50")),
    "seq-zero": ("bad-seq", lambda item: changed(item, seq=0)),
    "seq-too-big": ("bad-seq", lambda item: changed(item, seq=100_000_000)),
    "start-in-the-middle": ("bad-fork", lambda item: changed(item, type="session.start")),
    "prev-null": ("broken-link", lambda item: changed(item, prev=None)),
    "prev-upper-case": ("bad-member", lambda item: changed(item, prev="A" * 64)),
    "data-and-its-hash": ("bad-member", lambda item: changed(item, data_sha256="0" * 64)),
    "unknown-tag": ("bad-member", lambda item: changed(item, data={"$gj:what": 1})),
    "tag-without-a-file": ("bad-member", lambda item: changed(item, data={"x": {"$gj:file": 1}})),
    "tag-not-alone": ("bad-member", lambda item: changed(item, data={"x": {"$gj:json": "1", "y": 2}})),
    "no-files": ("bad-member", lambda item: changed(item, files=[])),
    "files-no-list": ("bad-member", lambda item: changed(item, files={})),
    "another-object": ("bad-json", lambda item: b"tree 4b825dc642cb6eb9a060e54bf8d69288fbee4904\n"),
}


def changed(item: Item, **members: Any) -> bytes:
    return json.dumps(
        {**members_of(item), **members}, ensure_ascii=False, separators=(",", ":"), sort_keys=True
    ).encode()


@pytest.mark.parametrize("how", BYTES)
def test_bytes_of_an_event(attack: Attack, how: str) -> None:
    """Bytes that a lenient JSON reader takes for the same event, or for an event at all."""
    code, change = BYTES[how]
    items = attack.items()
    raw = change(items[49])
    assert raw != items[49].raw
    attack.forge([*items[:49], replace(items[49], raw=raw), *items[50:]])
    assert found(attack.verify())[0] == (code, 50)
    with pytest.raises(gitjournal.JournalError):
        _ = [event.data for event in attack.journal().events("s") if Event.parse(event.raw)]


def test_event_too_large(attack: Attack) -> None:
    """A blob of more than 16 MiB, small in its pack."""
    items = attack.items()
    raw = items[49].raw.replace(b"line", b"l" * rules.MAX_EVENT_BYTES)
    attack.forge([*items[:49], replace(items[49], raw=raw), *items[50:]])
    assert found(attack.verify())[0] == ("bad-member", 50)


# --- side files ------------------------------------------------------------------------------------


def test_side_file_replaced(attack: Attack) -> None:
    items = attack.items()
    other = bytes.fromhex(attack.put("blob", b"z" * 70_000))
    items[BIG - 1] = replace(items[BIG - 1], files=(other,))
    attack.forge(items)
    assert found(attack.verify()) == [("bad-file", BIG)]


def test_side_file_of_another_size(attack: Attack) -> None:
    items = attack.items()
    other = bytes.fromhex(attack.put("blob", b"x" * 69_999))
    items[BIG - 1] = replace(items[BIG - 1], files=(other,))
    attack.forge(items)
    assert found(attack.verify()) == [("bad-file", BIG)]


def test_side_files_swapped(attack: Attack) -> None:
    items = attack.items()
    assert len(items[TWO - 1].files) == 2
    items[TWO - 1] = replace(items[TWO - 1], files=items[TWO - 1].files[::-1])
    attack.forge(items)
    assert found(attack.verify()) == [("bad-file", TWO)] * len(found(attack.verify()))


def test_side_file_left_out(attack: Attack) -> None:
    items = attack.items()
    items[TWO - 1] = replace(items[TWO - 1], files=items[TWO - 1].files[:1])
    attack.forge(items)
    assert found(attack.verify()) == [("bad-file", TWO)]
    with pytest.raises(gitjournal.JournalError):
        _ = attack.journal().event("s", TWO).data


def test_side_file_too_many(attack: Attack) -> None:
    items = attack.items()
    extra = bytes.fromhex(attack.put("blob", b"smuggled"))
    items[BIG - 1] = replace(items[BIG - 1], files=(*items[BIG - 1].files, extra))
    items[9] = replace(items[9], files=(extra,))
    attack.forge(items)
    assert found(attack.verify()) == [("bad-file", 10), ("bad-file", BIG)]


def test_side_files_numbered_with_a_gap(attack: Attack) -> None:
    items = attack.items()
    items[BIG - 1] = replace(items[BIG - 1], files=objects.Gap([(2, items[BIG - 1].files[0])]))
    attack.forge(items)
    assert found(attack.verify()) == [("bad-file", BIG)]
    # And what is derived goes on behind it.
    attack.remove(attack.oid(attack.tip() + "~1^{tree}"))
    assert found(attack.verify()) == [("bad-file", BIG), ("missing-object", len(items) - 1)]


def test_side_file_object_missing(attack: Attack) -> None:
    attack.remove(attack.oid(f"{attack.tip()}:0000/01/{BIG:08d}.1"))
    assert found(attack.verify()) == [("missing-object", BIG)]


def test_side_file_is_a_tree(attack: Attack) -> None:
    items = attack.items()
    items[BIG - 1] = replace(items[BIG - 1], files=(bytes.fromhex(attack.oid(attack.tip() + "^{tree}")),))
    attack.forge(items)
    assert found(attack.verify()) == [("bad-object", BIG)]


# --- withheld events -------------------------------------------------------------------------------


def test_withheld_event_is_listed(attack: Attack) -> None:
    items = attack.items()
    items[49] = Item.of(Event(items[49].raw).withhold())
    items[BIG - 1] = Item.of(Event(items[BIG - 1].raw).withhold())
    attack.forge(items)
    report = attack.verify()
    assert (report.ok, report.withheld, report.side_files) == (True, [50, BIG], 2)
    assert any("withheld events: 2" in note for note in report.unchecked)


def test_withheld_event_with_another_hash(attack: Attack) -> None:
    items = attack.items()
    header = {**Event(items[49].raw).withhold().members, "data_sha256": "0" * 64}
    items[49] = Item.of(Event.build(header))
    attack.forge(items)
    assert found(attack.verify())[0] == ("broken-link", 51)


def test_withheld_event_with_side_files_left(attack: Attack) -> None:
    items = attack.items()
    items[BIG - 1] = Item.of(Event(items[BIG - 1].raw).withhold(), items[BIG - 1].files)
    attack.forge(items)
    assert found(attack.verify()) == [("bad-file", BIG)]


def test_withheld_branch_event(attack: Attack) -> None:
    """A branch that does not say where it comes from any more could be any branch."""
    items = attack.items("s/try-b")
    items[120] = Item.of(Event(items[120].raw).withhold())
    attack.forge(items, "s/try-b")
    assert found(attack.verify("s/try-b"))


# --- what git can be made to believe ---------------------------------------------------------------


def test_replace_ref(attack: Attack) -> None:
    """`git replace` shows git another event; the journal's bytes are the same, and so is the report."""
    before = attack.verify().as_dict()
    old = attack.oid(f"{attack.tip()}:0000/00/00000050.json")
    new = attack.put("blob", edit(attack.items()[49]).raw)
    attack.git("replace", old, new)
    tip = attack.tip()
    attack.git("replace", tip, attack.oid(tip + "^"))
    assert b"lime" in git("cat-file", "blob", old, cwd=attack.path).stdout
    assert attack.verify().as_dict() == before
    assert attack.journal().event("s", 50).raw == attack.items()[49].raw


def test_grafts_file(attack: Attack) -> None:
    before = attack.verify().as_dict()
    history = attack.history()
    (attack.path / "info").mkdir(exist_ok=True)
    (attack.path / "info" / "grafts").write_text(f"{history[-1]} {history[10]}\n")
    assert len(attack.history()) < len(history)
    assert attack.verify().as_dict() == before
    assert attack.journal().chain(Name("s")).commit_at(100).hex() == history[99]


def test_forged_commit_graph(attack: Attack) -> None:
    """A commit-graph of another history under the ids of this one."""
    before, history = attack.verify().as_dict(), attack.history()
    attack.git("commit-graph", "write", "--reachable")
    path = attack.path / "objects" / "info" / "commit-graph"
    raw = bytearray(path.read_bytes())
    at = raw.index(bytes.fromhex(attack.oid(history[-1] + "^{tree}")))
    raw[at : at + 20] = bytes.fromhex(attack.oid(history[0] + "^{tree}"))
    path.chmod(0o644)
    path.write_bytes(raw[:-20] + objects.sha1(raw[:-20]).digest())
    assert attack.verify().as_dict() == before


def test_alternates_with_false_objects(attack: Attack, tmp_path: Path) -> None:
    """Another object store may hold what is missing here, but not something else."""
    oid = attack.oid(f"{attack.tip()}:0000/00/00000050.json")
    right = attack.content(oid)
    attack.remove(oid)
    other = tmp_path / "other"
    (attack.path / "objects" / "info").mkdir(exist_ok=True)
    (attack.path / "objects" / "info" / "alternates").write_text(f"{other}\n")
    elsewhere = other / oid[:2] / oid[2:]
    elsewhere.parent.mkdir(parents=True)
    elsewhere.write_bytes(zlib.compress(b"blob %d\x00%s" % (len(right), right.replace(b"line", b"lime"))))
    assert found(attack.verify())[0] == ("bad-object", 50)
    elsewhere.write_bytes(zlib.compress(b"blob %d\x00%s" % (len(right), right)))
    assert attack.verify().ok


def test_shallow_clone_is_incomplete(attack: Attack, tmp_path: Path) -> None:
    clone = tmp_path / "clone.git"
    git("clone", "-q", "--bare", "--depth=5", "--no-single-branch", attack.path.as_uri(), clone, cwd=tmp_path)
    report = gitjournal.verify(gitjournal.open(clone), "s")
    assert (report.findings, report.exit_status, report.head_seq, report.side_files) == ([], 3, IN_GIT, 3)
    assert any("shallow" in note for note in report.unchecked)
    assert report.as_dict()["verdict"] == "incomplete"


def test_edited_event_in_a_shallow_clone(attack: Attack, tmp_path: Path) -> None:
    items = attack.items()
    items[49] = edit(items[49])
    attack.forge(items)
    clone = tmp_path / "clone.git"
    git("clone", "-q", "--bare", "--depth=5", "--no-single-branch", attack.path.as_uri(), clone, cwd=tmp_path)
    assert ("broken-link", 51) in found(gitjournal.verify(gitjournal.open(clone), "s"))


def test_shallow_file_does_not_excuse_a_missing_event(attack: Attack) -> None:
    oid = attack.oid(f"{attack.tip()}:0000/00/00000050.json")
    attack.remove(oid)
    (attack.path / "shallow").write_text(attack.tip() + "\n")
    assert found(attack.verify())[0] == ("missing-object", 50)


def test_shallow_file_does_not_excuse_false_commits(attack: Attack) -> None:
    attack.loosen()
    history = attack.history()
    for oid in history[:100]:
        attack.loose_path(oid).unlink()
    (attack.path / "shallow").write_text(history[100] + "\n")
    assert attack.verify().exit_status == 3
    raw = attack.content(history[150])
    tip = attack.put("commit", raw.replace(b"Event-Hash: sha256:", b"Event-Hash: sha256:0")[:-2] + b"\n")
    for commit in history[151:]:
        tip = attack.commit(attack.oid(commit + "^{tree}"), tip, commit)
    attack.point(tip)
    assert found(attack.verify())[0] == ("bad-hash", 151)


# --- damaged storage -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "spec", ["{tip}:0000/00/00000050.json", "{tip}:0000/01", "{tip}:0000", "{tip}^{{tree}}", "{tip}"]
)
def test_missing_object_of_the_head(attack: Attack, spec: str) -> None:
    attack.remove(attack.oid(spec.format(tip=attack.tip())))
    assert found(attack.verify())[0][0] == "missing-object"


@pytest.mark.parametrize("what", ["", "^{tree}", ":0000", ":0000/00"])
def test_missing_object_in_the_middle(attack: Attack, what: str) -> None:
    """A commit or a tree that only the history needs: `git checkout` of that event would fail."""
    attack.remove(attack.oid(attack.history()[49] + what))
    assert found(attack.verify())[0] == ("missing-object", 50)


def test_tampered_loose_object(attack: Attack) -> None:
    attack.loosen()
    oid = attack.oid(f"{attack.tip()}:0000/00/00000050.json")
    attack.swap(oid, "blob", edit(attack.items()[49]).raw)
    assert found(attack.verify())[0] == ("bad-object", 50)


@pytest.mark.parametrize("kind", ["tree", "commit", "tag", "x", ""])
def test_loose_object_of_another_kind(attack: Attack, kind: str) -> None:
    attack.loosen()
    oid = attack.oid(f"{attack.tip()}:0000/00/00000050.json")
    attack.swap(oid, kind, attack.content(oid))
    assert found(attack.verify())[0][1] == 50


@pytest.mark.parametrize(
    "data", [b"", b"garbage", zlib.compress(b""), zlib.compress(b"blob"), zlib.compress(b"blob 9\x00x")]
)
def test_garbage_loose_object(attack: Attack, data: bytes) -> None:
    attack.loosen()
    attack.loose_path(attack.oid(f"{attack.tip()}:0000/00/00000050.json")).write_bytes(data)
    assert found(attack.verify())[0][1] == 50


def overwrite(path: Path, data: bytes) -> None:
    """Put another file in the place of one that libgit2 may still have mapped."""
    path.unlink(missing_ok=True)
    path.write_bytes(data)


def one_pack(attack: Attack) -> tuple[Path, Path]:
    attack.git("repack", "-adfq")
    (path,) = attack.folder.glob("*.pack")
    for part in (path, path.with_suffix(".idx")):
        part.chmod(0o644)
    return path, path.with_suffix(".idx")


def test_lying_index(attack: Attack) -> None:
    """The index says that one event is where another one is, with a right checksum."""
    _, idx = one_pack(attack)
    items = attack.items()
    raw = bytearray(idx.read_bytes())
    count = int.from_bytes(raw[1028:1032], "big")
    offsets = 1032 + 24 * count
    ids = [bytes(raw[1032 + 20 * i : 1052 + 20 * i]) for i in range(count)]
    one, two = (ids.index(git_id(b"blob", items[seq - 1].raw)) for seq in (50, 60))
    raw[offsets + 4 * one : offsets + 4 * one + 4] = raw[offsets + 4 * two : offsets + 4 * two + 4]
    idx.write_bytes(raw[:-20] + objects.sha1(raw[:-20]).digest())
    assert found(attack.verify())[0] == ("bad-object", 50)


def test_index_that_hides_an_object(attack: Attack) -> None:
    _, idx = one_pack(attack)
    raw = bytearray(idx.read_bytes())
    at = raw.index(git_id(b"blob", attack.items()[49].raw))
    raw[at + 19] ^= 1
    idx.write_bytes(raw)
    assert found(attack.verify())[0] == ("missing-object", 50)


def test_flipped_bytes_of_pack_and_index(attack: Attack) -> None:
    """Never a wrong event, never an exception; a byte that no reader needs may be any."""
    want = attack.verify()
    for part in one_pack(attack):
        raw = part.read_bytes()
        for at in random.Random(7).sample(range(len(raw)), 60):
            overwrite(part, raw[:at] + bytes([raw[at] ^ 0x41]) + raw[at + 1 :])
            report = attack.verify()
            assert not report.ok or report.as_dict() == want.as_dict(), (part.suffix, at)
        overwrite(part, raw)


@pytest.mark.parametrize("size", [0, 4, 12, 500, 5000])
def test_cut_pack_and_index(attack: Attack, size: int) -> None:
    for part in one_pack(attack):
        raw = part.read_bytes()
        overwrite(part, raw[:size])
        assert found(attack.verify())
        overwrite(part, raw)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Attack:
    """Twelve events, one with a side file, every object loose."""
    path = tmp_path_factory.mktemp("small") / "j"
    journal = gitjournal.init(path)
    with journal.session("s", create=True, durability="os") as s:
        s.append_many([say(n) for n in range(2, 9)])
        s.append("tool.result", {"output": "x" * 70_000})
        s.append_many([say(n) for n in range(10, 13)])
    attack = Attack(path)
    attack.loosen()
    return attack


def every_object(attack: Attack) -> dict[str, tuple[str, str]]:
    """(kind, id) of every object of the branch, by a name."""
    out = {}
    for seq, commit in enumerate(attack.history(), 1):
        out[f"commit {seq}"] = ("commit", commit)
        for path in ("", "0000", "0000/00"):
            out[f"tree {seq} {path}"] = ("tree", attack.oid(f"{commit}:{path}"))
        out[f"event {seq}"] = ("blob", attack.oid(f"{commit}:{objects.event_path(seq)}"))
    return out


def flip_check(attack: Attack, oid: str, kind: str, places: Sequence[int], masks: Sequence[int]) -> None:
    right = attack.content(oid)
    for at in places:
        for mask in masks:
            attack.swap(oid, kind, right[:at] + bytes([right[at] ^ mask]) + right[at + 1 :])
            assert found(attack.verify())[0][0] in ("bad-object", "bad-commit"), (kind, at, mask)
    attack.swap(oid, kind, right)
    assert attack.verify().ok


@pytest.mark.parametrize("what", ["event 5", "commit 5", "commit 12", "tree 12 0000/00", "tree 5 0000/00", "tree 5 "])
def test_every_flipped_byte_of_an_object(small: Attack, what: str) -> None:
    """Other bytes under the id of an event, a commit, a tree; the newest and an old one."""
    kind, oid = every_object(small)[what]
    flip_check(small, oid, kind, range(len(small.content(oid))), [0x01])


def test_flipped_byte_of_each_object(small: Attack) -> None:
    """Two bytes of every commit, tree and event of the branch."""
    pick = random.Random(3)
    for kind, oid in every_object(small).values():
        flip_check(small, oid, kind, pick.sample(range(len(small.content(oid))), 2), [0x20])


# --- the tail --------------------------------------------------------------------------------------


def tail_of(attack: Attack) -> Path:
    return attack.path / "gitjournal" / "tail" / "s" / "main.jsonl"


def test_edited_event_in_the_tail(attack: Attack) -> None:
    path = tail_of(attack)
    path.write_bytes(path.read_bytes().replace(b"line 224", b"line 225"))
    assert found(attack.verify()) == [("broken-link", 225)]
    with pytest.raises(gitjournal.JournalError):
        list(attack.journal().events("s"))


def lines_of(attack: Attack) -> list[bytes]:
    return tail_of(attack).read_bytes().rstrip(b"\n").split(b"\n")


@pytest.mark.parametrize("change", ["drop", "swap", "twice", "blank-first", "other-session"])
def test_changed_lines_of_the_tail(attack: Attack, change: str) -> None:
    lines = [line.lstrip(b" ") for line in lines_of(attack)]
    if change == "drop":
        del lines[3]
    elif change == "swap":
        lines[3], lines[4] = lines[4], lines[3]
    elif change == "twice":
        lines.insert(3, lines[3])
    elif change == "blank-first":
        lines[0] = b""
    else:
        lines[3] = lines[3].replace(b'"session":"s"', b'"session":"t"')
    tail_of(attack).write_bytes(b"\n".join(lines) + b"\n" * 100)
    codes = found(attack.verify())
    assert codes[0][0] == "broken-link"
    assert codes[0][1] in (223, 226, 227)


def test_tail_event_with_side_files(attack: Attack) -> None:
    """An event in the tail cannot have side files: they would be nowhere."""
    members = json.loads(lines_of(attack)[-1])
    entry = objects.side_file(b"x", "text/plain").entry
    extra = sealed(members, seq=231, prev=Event(lines_of(attack)[-1].lstrip()).hash, files=[entry])
    tail_of(attack).write_bytes(b"\n".join([*lines_of(attack), extra.raw]) + b"\n")
    assert found(attack.verify()) == [("broken-link", 231)]


def test_tail_of_another_line_under_git(attack: Attack) -> None:
    """Lines that git seems to have already, but they are not what git has: acknowledged events of a rival."""
    items = attack.items()
    rival = relink([*items[:209], edit(items[209]), *items[210:]], 211)
    tail_of(attack).write_bytes(b"\n".join(item.raw for item in rival[205:]) + b"\n")
    assert found(attack.verify())[0] == ("broken-link", 210)


def test_tail_left_from_a_flush_is_fine(attack: Attack) -> None:
    items = attack.items()
    lines = [item.raw for item in items[205:]] + [line.lstrip(b" ") for line in lines_of(attack)]
    tail_of(attack).write_bytes(b"\n".join(lines) + b"\n")
    report = attack.verify()
    assert (report.findings, report.in_tail, report.head_seq) == ([], 8, LAST)


def test_every_flipped_byte_of_the_tail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Damage is found at its event. Only the last write can be taken for one that was cut, and then it is said."""
    monkeypatch.setattr(writer, "IDLE_SECONDS", 3600)
    journal = gitjournal.init(tmp_path / "j")
    attack = Attack(tmp_path / "j")
    path = tail_of(attack)
    with journal.session("s", create=True, salted=False) as s:
        s.flush()
        tip = attack.tip()
        for n in range(2, 6):
            s.append("message", {"n": n}, actor="user")
        raw = path.read_bytes().rstrip(b"\n")
        head = s.head.hash
    attack.point(tip)
    # Closing the session took it away.
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(raw + b"\n" * 64)
    assert gitjournal.verify(journal, "s").head_hash == head
    starts = [at + 1 for at, byte in enumerate(raw) if byte == 10]
    for at in range(len(raw)):
        path.write_bytes(raw[:at] + bytes([raw[at] ^ 0x10]) + raw[at + 1 :] + b"\n" * 64)
        report = gitjournal.verify(journal, "s")
        if at >= starts[-1] - 1:
            torn = any("never acknowledged" in note for note in report.unchecked)
            # Nothing comes after the last event that could tell that it was another.
            assert torn or report.head_hash != head
            continue
        line = sum(start <= at for start in starts)
        code, seq = found(report)[0]
        assert code == "broken-link"
        assert seq in (2 + line, 3 + line), at


@pytest.mark.parametrize("raw", [b"garbage", b"\x00" * 5000, b"{}\n{}\n", b"\xff\n", b" \n \n", b"[" * 100_000])
def test_garbage_for_a_tail(attack: Attack, raw: bytes) -> None:
    """Without any valid line it may be one write that was cut; it is said, and git's part is checked."""
    tail_of(attack).write_bytes(raw)
    report = attack.verify()
    assert report.head_seq == IN_GIT
    assert any("never acknowledged" in note for note in report.unchecked)


def test_garbage_before_valid_lines_of_a_tail(attack: Attack) -> None:
    tail_of(attack).write_bytes(b"garbage\n" + tail_of(attack).read_bytes())
    assert found(attack.verify()) == [("broken-link", 223)]


# --- refs ------------------------------------------------------------------------------------------


def test_ref_at_something_else(attack: Attack) -> None:
    tip = attack.tip()
    attack.drop_tail()
    tag = attack.put("tag", f"object {tip}\ntype commit\ntag x\ntagger a <a@b> 1 +0000\n\nx\n".encode())
    for oid, code in (
        (attack.oid(f"{tip}:0000/00/00000050.json"), "bad-object"),
        (attack.oid(tip + "^{tree}"), "bad-object"),
        (tag, "bad-object"),
        ("1" * 40, "missing-object"),
        ("0" * 40, "missing-object"),
    ):
        attack.point(oid)
        assert found(attack.verify()) == [(code, None)], oid


def test_ref_at_a_commit_of_other_work(attack: Attack) -> None:
    attack.drop_tail()
    tree = attack.oid(attack.tip() + "^{tree}")
    raw = f"tree {tree}\nauthor A <a@b> 1 +0000\ncommitter A <a@b> 1 +0000\n\nwork\n"
    attack.point(attack.put("commit", raw.encode()))
    assert found(attack.verify()) == [("bad-commit", None)]


@pytest.mark.parametrize(
    "text", ["", "\n", "garbage\n", "12345\n", "g" * 40, "\x00" * 41, "ref: refs/heads/x/y\n", "\xff\n"]
)
def test_garbage_for_a_ref(attack: Attack, text: str) -> None:
    """As a power cut leaves it. The branch is there, and it is not in order."""
    (attack.path / "refs" / "heads" / "s" / "main").write_bytes(text.encode("latin-1"))
    assert found(attack.verify())
    attack.drop_tail()
    assert found(attack.verify())
    assert not all(one.ok for one in verify_session(attack.journal(), "s"))
    assert gitjournal.verify(attack.journal(), "s/try-b").ok


def test_symbolic_ref(attack: Attack) -> None:
    """The branch is another branch by name: a write to one would move the other."""
    attack.git("symbolic-ref", "refs/heads/s/main", "refs/heads/s/try-b")
    assert found(attack.verify())


def test_ref_that_is_a_folder(attack: Attack) -> None:
    path = attack.path / "refs" / "heads" / "s" / "main"
    path.unlink()
    path.mkdir()
    assert found(attack.verify())


def test_ref_gone_under_a_tail(attack: Attack) -> None:
    (attack.path / "refs" / "heads" / "s" / "main").unlink()
    assert found(attack.verify())[0] == ("broken-link", 1)


def test_a_file_named_shallow_excuses_nothing(tmp_path: Path) -> None:
    """A tree is missing and the file ``shallow`` is there: empty, and with the id of a commit that is no edge."""
    journal = gitjournal.init(tmp_path / "journal")
    with journal.session("s", create=True) as session:
        for number in range(5):
            session.append("note", {"n": number})
    chain = journal.chain(Name("s"))
    explode(journal.path)
    tree = chain.read_commit(chain.commit_at(4)).tree.hex()
    (journal.path / "objects" / tree[:2] / tree[2:]).unlink()
    for content in ("", chain.commit_at(5).hex() + "\n"):
        (journal.path / "shallow").write_text(content)
        report = gitjournal.verify(gitjournal.open(journal.path), "s")
        assert [(one.code, one.seq) for one in report.findings] == [("missing-object", 4)]


def explode(repo: Path) -> None:
    """Turn all packs into loose objects."""
    for packed in list((repo / "objects" / "pack").glob("*.pack")):
        outside = repo / packed.name
        packed.rename(outside)
        packed.with_suffix(".idx").unlink()
        git("unpack-objects", "-q", cwd=repo, stdin=outside.read_bytes())
        outside.unlink()
