"""Git objects: what stock git makes of the same events, byte for byte, and nothing else reads as ours."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from support import as_loose, chain, derive, event, flips, fsck, git, git_text, pack_order

from gitjournal import objects
from gitjournal.errors import FormatError
from gitjournal.event import Event
from gitjournal.objects import (
    Commit,
    Deriver,
    FileBlob,
    commit_bytes,
    git_id,
    leaf_events,
    parse_commit,
    side_file,
    tree_entries,
)
from gitjournal.rules import unix_seconds

SIGNATURE = "-----BEGIN SSH SIGNATURE-----\nU1NIU0lHAAAAAQ==\nAAAA+/Zz\n-----END SSH SIGNATURE-----\n"


def test_a_side_file_describes_its_bytes() -> None:
    made = side_file(b"\x00\xff", "image/png", "x.png")
    assert made.entry == {
        "sha256": sha256(b"\x00\xff").hexdigest(),
        "size": 2,
        "media_type": "image/png",
        "name": "x.png",
    }
    assert made.oid == git_id(b"blob", b"\x00\xff") and "name" not in side_file(b"", "a/b").entry


def _without(raw: bytes, old: bytes, new: bytes) -> bytes:
    assert raw.count(old) == 1
    return raw.replace(old, new)


def session_with_files() -> tuple[list[Event], dict[int, list[FileBlob]]]:
    """Nine events by several actors; one has twelve side files, so that git's order matters (.10 before .2)."""
    actors = ["host", "user", "assistant", "tool:shell", "user:ana@example.com", "a/b+c", "0", "x-y", "Z"]
    files = {
        3: [side_file(b"%d" % k, "text/plain") for k in range(12)],
        5: [side_file(b"", "a/b"), side_file(b"0", "a/b")],
    }
    out: list[Event] = []
    prev = None
    for seq, actor in enumerate(actors, 1):
        more: dict[str, Any] = {"files": [file.entry for file in files[seq]]} if seq in files else {}
        out.append(event(seq, prev, actor=actor, session='s "é"\\😀', ts=f"2026-01-02T03:04:0{seq}.999Z", **more))
        prev = out[-1].hash
    return out, files


def git_tree(repo: Path, paths: Mapping[str, bytes]) -> bytes:
    """The id of the tree with these paths, made by `git mktree` alone."""
    entries: dict[str, list[str]] = {}
    for path, oid in paths.items():
        folder, _, leaf = path.rpartition("/")
        entries.setdefault(folder, []).append(f"100644 blob {oid.hex()}\t{leaf}")
    for depth in (1, 0):
        folders = sorted(folder for folder in entries if folder and folder.count("/") == depth)
        made = git_text(
            "mktree",
            "--missing",
            "--batch",
            cwd=repo,
            stdin="\n\n".join("\n".join(entries[f]) for f in folders).encode(),
        )
        for folder, tree in zip(folders, made.split(), strict=True):
            parent, _, leaf = folder.rpartition("/")
            entries.setdefault(parent, []).append(f"040000 tree {tree}\t{leaf}")
    return bytes.fromhex(git_text("mktree", "--missing", cwd=repo, stdin="\n".join(entries[""]).encode()))


def paths_of(events: Sequence[Event], files: Mapping[int, Sequence[FileBlob]]) -> dict[str, bytes]:
    """Section 5, written down a second time."""
    out = {}
    for one in events:
        stem = f"{one.seq // 10000:04d}/{one.seq // 100 % 100:02d}/{one.seq:08d}"
        out[f"{stem}.json"] = git_id(b"blob", one.raw)
        out |= {f"{stem}.{k}": file.oid for k, file in enumerate(files.get(one.seq, ()), 1)}
    return out


def git_commit(repo: Path, one: Event, tree: bytes, parent: bytes | None, time: int) -> bytes:
    """The id that `git commit-tree` gives to the commit of section 6."""
    person = {
        "GIT_AUTHOR_NAME": one.actor, "GIT_AUTHOR_EMAIL": f"{one.actor}@gitjournal.invalid",
        "GIT_AUTHOR_DATE": f"{time} +0000",
        "GIT_COMMITTER_NAME": "gitjournal", "GIT_COMMITTER_EMAIL": "gitjournal@gitjournal.invalid",
        "GIT_COMMITTER_DATE": f"{time} +0000",
    }  # fmt: skip
    message = f"{one.type} #{one.seq}\n\nSession: {one.session}\nEvent-Hash: sha256:{one.hash}\n"
    parents = ["-p", parent.hex()] if parent else []
    return bytes.fromhex(git_text("commit-tree", tree.hex(), *parents, cwd=repo, stdin=message.encode(), env=person))


def test_stock_git_makes_the_same_objects(repo: Path) -> None:
    events, files = session_with_files()
    derived = derive(events, files)
    for one in pack_order(derived, [file for some in files.values() for file in some]):
        as_loose(repo, one)
    parent = None
    for position, (one, made) in enumerate(zip(events, derived, strict=True), 1):
        assert git_tree(repo, paths_of(events[:position], files)) == made.trees[2][0]
        time = unix_seconds(one.ts)
        parent = git_commit(repo, one, made.trees[2][0], parent, time)
        assert parent == made.commit[0]
    assert parent is not None
    git("update-ref", "refs/heads/s/main", parent.hex(), cwd=repo)
    fsck(repo)
    assert git("show", "refs/heads/s/main:0000/00/00000003.12", cwd=repo).stdout == b"11"
    listed = git_text("ls-tree", "-r", "--name-only", "refs/heads/s/main", cwd=repo).split()
    assert listed == sorted(paths_of(events, files))


@pytest.fixture(scope="module")
def long_chain() -> tuple[list[Event], list[objects.Derived]]:
    """10,105 events and their objects; longer than any boundary of section 5."""
    events = chain(10_105)
    return events, derive(events)


@pytest.mark.parametrize("seq", [1, 2, 99, 100, 101, 199, 200, 9_999, 10_000, 10_001, 10_099, 10_100, 10_105])
def test_trees_at_the_boundaries_are_those_of_git(repo: Path, long_chain: Any, seq: int) -> None:
    events, derived = long_chain
    assert git_tree(repo, paths_of(events[:seq], {})) == derived[seq - 1].trees[2][0]
    assert objects.event_path(seq) == next(iter(paths_of(events[seq - 1 : seq], {})))


def test_a_leaf_tree_reads_back_as_its_events(long_chain: Any) -> None:
    events, files = session_with_files()
    leaf = derive(events, files)[-1].trees[0][1]
    expected = [(one.seq, git_id(b"blob", one.raw), [file.oid for file in files.get(one.seq, ())]) for one in events]
    assert [(seq, oid, list(ids)) for seq, oid, ids in leaf_events(leaf)] == expected
    _, derived = long_chain
    assert [seq for seq, _, _ in leaf_events(derived[9_998].trees[0][1])] == list(range(9_900, 10_000))
    assert [name for _, name, _ in tree_entries(derived[-1].trees[2][1])] == [b"0000", b"0001"]


@pytest.mark.parametrize("files", [{}, {3: [side_file(b"x", "a/b")] * 11}])
def test_a_leaf_tree_of_any_other_bytes_is_read_or_refused(files: dict[int, list[FileBlob]]) -> None:
    leaf = derive(chain(4), files)[-1].trees[0][1]
    spoiled = [one for _, one in flips(leaf, masks=(0xFF, 0x01, 0x10))]
    cut = [leaf[:size] for size in range(len(leaf))]
    odd = [
        leaf.replace(b"00000002", other) for other in (b"0000000", b"-0000002", "\u0662".encode() * 4, b"2" * 6000, b"")
    ]
    suffixes = [
        leaf.replace(b".json", other) for other in (b".", b".JSON", b".9" + b"9" * 6000, b".-1", b"", b".json.1")
    ]
    for raw in (*spoiled, *cut, *odd, *suffixes):
        try:
            list(leaf_events(raw))
        except FormatError as error:
            assert error.code == "bad-tree"


def test_every_older_tree_is_a_prefix_of_the_newer(long_chain: Any) -> None:
    _, derived = long_chain
    for older, newer in pairwise(derived[10_050:]):
        if newer.seq % 100:
            assert newer.trees[0][1].startswith(older.trees[0][1])
            assert (
                newer.trees[1][1][:-20] == older.trees[1][1][:-20]
                and newer.trees[2][1][:-20] == older.trees[2][1][:-20]
            )


def test_resuming_anywhere_is_going_on(long_chain: Any) -> None:
    events, derived = long_chain
    for at in [*range(1, 251), *range(9_995, 10_005), 10_098, 10_099, 10_100]:
        known, commit = derived[at - 1], parse_commit(derived[at - 1].commit[1])
        assert commit is not None
        resumed = Deriver.resume(at, known.commit[0], commit.time, *(tree for _, tree in known.trees))
        assert [resumed.push(one) for one in events[at : at + 3]] == derived[at : at + 3]


def test_a_copy_goes_its_own_way(long_chain: Any) -> None:
    events, derived = long_chain
    one = Deriver()
    for each in events[:99]:
        one.push(each)
    twin = one.copy()
    twin.push(event(100, events[98].hash, data={"other": True}))
    assert one.push(events[99]) == derived[99] and one.head == derived[99].commit[0] != twin.head


def test_a_clock_that_goes_back_does_not_take_the_commits_along() -> None:
    clock = ["05", "07", "03", "07", "06", "09"]
    events, prev = [], None
    for seq, seconds in enumerate(clock, 1):
        events.append(event(seq, prev, ts=f"2026-01-02T03:04:{seconds}.000Z"))
        prev = events[-1].hash
    commits = [parse_commit(one.commit[1]) for one in derive(events)]
    start = int(datetime(2026, 1, 2, 3, 4, tzinfo=UTC).timestamp())
    assert [one and one.time - start for one in commits] == [5, 7, 7, 7, 7, 9]


def test_a_commit_says_what_its_event_says() -> None:
    events, files = session_with_files()
    parent = None
    for one, made in zip(events, derive(events, files), strict=True):
        time = unix_seconds(one.ts)
        expected = Commit(made.trees[2][0], parent, time, one.seq, one.session, one.type, one.hash, None)
        assert parse_commit(made.commit[1]) == expected
        parent = made.commit[0]


def test_a_signature_is_carried_and_changes_only_the_id(repo: Path) -> None:
    events = chain(3)
    deriver = Deriver()
    made = [deriver.push(one) for one in events[:2]]
    oid, raw = deriver.sign(events[1], SIGNATURE)
    parsed, plain = parse_commit(raw), parse_commit(made[1].commit[1])
    assert parsed is not None and plain is not None
    assert parsed._replace(signature=None) == plain and parsed.signature == SIGNATURE.rstrip("\n")
    assert git_text("hash-object", "-t", "commit", "--stdin", cwd=repo, stdin=raw) == oid.hex() == deriver.head.hex()  # type: ignore[union-attr]
    following = parse_commit(deriver.push(events[2]).commit[1])
    assert following is not None and following.parent == oid


COMMIT = derive(chain(2))[1].commit[1]
SIGNED = commit_bytes(event(2), b"\x11" * 20, b"\x22" * 20, 5, SIGNATURE)
GPGSIG = SIGNED[SIGNED.index(b"gpgsig") : SIGNED.index(b"\n\nmessage") + 1]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"tree ", b"tree  "), (b"tree ", b"Tree "), (b"\nparent ", b"\nparents "), (b"author host", b"author  host"),
        (b"author host <host@", b"author host <user@"),
        (b"author host <host@gitjournal.invalid>", b"author host <host@example.com>"),
        (b"author host <host@", b"author h\xc3\xa9 <h\xc3\xa9@"), (b" +0000\ncommitter", b" +0100\ncommitter"),
        (b" +0000\ncommitter", b" -0000\ncommitter"), (b"committer gitjournal", b"committer git"),
        (b"\n\nmessage", b"\nencoding UTF-8\n\nmessage"), (b"\n\nmessage", b"\nmergetag x\n\nmessage"),
        (b"\n\nmessage", b"\n\n\nmessage"),
        (b"message #2", b"message  #2"), (b"message #2", b"message #0"), (b"message #2", b"message #02"),
        (b"message #2", b"message #100000000"),
        (b"message #2", b"Message #2"), (b"message #2", b"message. #2"), (b"message #2", b"a..b #2"),
        (b"message #2", b"x" * 65 + b" #2"),
        (b"\n\nSession: s", b"\nSession: s"), (b"Session: s", b"Session: "), (b"Session: s", b"session: s"),
        (b"Session: s", b"Session: s\x00"),
        (b"Session: s", b"Session: s\r"), (b"Session: s", b"Session: \x7f"), (b"Session: s", b"Session: \xff"),
        (b"Session: s", b"Session: \xc2\x85"), (b"Session: s", b"Session: " + b"x" * 201),
        (b"Session: s", b"Session: s\nMore: x"),
        (b"sha256:", b"sha1:"), (b"sha256:", b"sha256: "), (b"\n\nmessage", b"\nHG:extra x\n\nmessage"),
    ],
)  # fmt: skip
def test_a_commit_in_any_other_form_is_none(old: bytes, new: bytes) -> None:
    assert parse_commit(COMMIT) is not None
    assert parse_commit(_without(COMMIT, old, new)) is None


def _lines(raw: bytes) -> tuple[bytes, bytes, bytes, bytes]:
    tree, parent, author, committer = raw.split(b"\n")[:4]
    return tree + b"\n", parent + b"\n", author + b"\n", committer + b"\n"


def test_a_commit_with_doubled_missing_or_moved_lines_is_none() -> None:
    tree, parent, author, committer = _lines(COMMIT)
    rest = COMMIT[len(tree + parent + author + committer) :]
    assert parse_commit(tree + parent + author + committer + rest) is not None
    assert parse_commit(tree + author + committer + rest) is not None  # of a first event, as far as a commit can tell
    for lines in (
        [tree, tree, parent, author, committer], [tree, parent, parent, author, committer],
        [tree, parent, author, author, committer],
        [tree, parent, author, committer, committer], [tree, author, committer, parent],
        [tree, author, parent, committer],
        [parent, tree, author, committer], [tree, parent, committer, author], [tree, parent, author],
        [tree, parent, committer],
        [parent, author, committer], [tree, parent, author, committer, GPGSIG, GPGSIG],
        [tree, parent, GPGSIG, author, committer],
        [tree, parent, author, committer, GPGSIG.replace(b"gpgsig", b"gpgsig-sha256")], [],
    ):  # fmt: skip
        assert parse_commit(b"".join(lines) + rest) is None
    assert parse_commit(tree + parent + author + committer + GPGSIG + rest) is not None


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"\n",
        COMMIT + b"\n",
        COMMIT[:-1],
        b" " + COMMIT,
        COMMIT + COMMIT,
        COMMIT + b"\x00",
        COMMIT.replace(b"\n", b"\r\n"),
    ],
)
def test_a_commit_with_something_around_it_is_none(raw: bytes) -> None:
    assert parse_commit(raw) is None


def test_a_commit_time_has_one_spelling() -> None:
    time = re.search(rb"> (\d+) \+0000\ncommitter", COMMIT)
    assert time is not None
    for other in (b"0" + time[1], b"00", b"-5", b"+5", b"", b"1e9", b"9" * 13):
        assert parse_commit(COMMIT.replace(b" %s " % time[1], b" %s " % other)) is None
    assert parse_commit(COMMIT.replace(b" %s " % time[1], b" 0 ")) is not None
    one_of_two = COMMIT.replace(b" %s " % time[1], b" 5 ", 1)
    assert parse_commit(one_of_two) is None


def test_no_flip_of_a_commit_reads_as_the_same_commit() -> None:
    for raw in (COMMIT, SIGNED):
        for _, spoiled in flips(raw, masks=(0x01, 0x20, 0xFF)):
            assert parse_commit(spoiled) != parse_commit(raw) or _actor(spoiled) != _actor(raw)


def _actor(raw: bytes) -> bytes:
    return raw[raw.index(b"author ") : raw.index(b" <")]
