"""Folding packs: every object stays readable at every moment, and what is not ours is left alone."""

from __future__ import annotations

import errno
import fcntl
import os
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from support import KIND_NAMES, PackObject, blob, chain, derive, fork, forked, fsck, git, git_text, pack_order, wait

from gitjournal import pack, store, tiers
from gitjournal.errors import StorageError
from gitjournal.objects import Derived
from gitjournal.packread import Pack, Packs
from gitjournal.store import Store

REF = "refs/heads/s/main"


class Journal:
    """A repository with a session that was flushed into many small packs, one for each event."""

    def __init__(self, repo: Path, count: int = 10, size: int = 0) -> None:
        self.repo = repo
        self.folder = repo / "objects" / "pack"
        self.lock = repo / "gitjournal" / "fold.lock"
        self.lock.parent.mkdir(exist_ok=True)
        self.derived: list[Derived] = derive(chain(count, size=size))
        self.packs = [self._flush(one, number) for number, one in enumerate(self.derived)]
        git("update-ref", REF, self.derived[-1].commit[0].hex(), cwd=repo)
        self.objects = pack_order(self.derived)

    def _flush(self, one: Derived, number: int) -> Path:
        written = pack.write(self.folder, pack_order([one]), sync=False)
        os.utime(written, (1_000_000 + number, 1_000_000 + number))
        return written

    def fold(self) -> int:
        return tiers.fold(self.folder, self.lock, sync=False)

    def check(self) -> None:
        """Everything is there, for us and for git."""
        reader = Store(self.repo)
        for one in self.objects:
            assert reader.read(one.oid, KIND_NAMES[one.kind]) == one.data
        fsck(self.repo)

    def names(self, suffix: str = ".pack") -> set[str]:
        return {path.name for path in self.folder.iterdir() if path.suffix == suffix}


@pytest.fixture
def made(repo: Path) -> Journal:
    return Journal(repo)


def test_the_eight_oldest_packs_become_one(made: Journal) -> None:
    assert made.fold() == 8
    made.check()
    assert len(made.names()) == 3 and {path.name for path in made.packs[8:]} < made.names()
    assert made.names(".idx") == {name.replace(".pack", ".idx") for name in made.names()}
    assert made.fold() == 0 and len(list(made.folder.iterdir())) == 6


def test_fewer_than_eight_stay(repo: Path) -> None:
    made = Journal(repo, count=7)
    assert made.fold() == 0 and len(made.names()) == 7


def test_an_entry_is_moved_untouched(made: Journal) -> None:
    before = {}
    for path in made.packs[:8]:
        raw, entries = path.read_bytes(), sorted(offset for _, _, offset in Pack(path).entries())
        ends = [*entries[1:], len(raw) - 20]
        before |= {raw[start:end]: None for start, end in zip(entries, ends, strict=True)}
    made.fold()
    (folded,) = made.names() - {path.name for path in made.packs}
    raw = (made.folder / folded).read_bytes()
    assert raw[12:-20] == b"".join(before)
    other = made.folder / "other.idx"
    git("index-pack", "--strict", "-o", other, made.folder / folded, cwd=made.repo)
    assert other.read_bytes() == (made.folder / folded).with_suffix(".idx").read_bytes()


def test_a_session_of_many_flushes_stays_in_few_packs(repo: Path) -> None:
    made, most = Journal(repo, count=1), 0
    for number, one in enumerate(derive(chain(300)), 1):
        made._flush(one, number)
        while made.fold():
            pass
        most = max(most, len(made.names()))
    made.derived = derive(chain(300))
    made.objects = pack_order(made.derived)
    made.check()
    assert most <= 8 * 3


def test_large_packs_are_left_alone(repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiers, "LIMIT", 400)
    made = Journal(repo, size=2000)
    assert made.fold() == 0


@pytest.mark.parametrize("suffix", [".keep", ".promisor", ".bitmap", ".mtimes"])
def test_a_pack_that_somebody_has_marked_is_left_alone(made: Journal, suffix: str) -> None:
    marked = made.packs[2:5]
    for path in marked:
        path.with_suffix(suffix).touch()
    assert made.fold() == 0
    made.packs += [made._flush(one, 100 + number) for number, one in enumerate(derive(chain(3, session="more")))]
    assert made.fold() == 8
    assert {path.name for path in marked} < made.names()
    for path in marked:
        path.with_suffix(suffix).unlink()
    made.check()


def test_a_pack_that_a_multi_pack_index_names_is_left_alone(made: Journal) -> None:
    git("multi-pack-index", "write", cwd=made.repo)
    assert made.fold() == 0 and len(made.names()) == 10
    made.packs += [made._flush(one, 100 + number) for number, one in enumerate(derive(chain(9, session="more")))]
    assert made.fold() == 8 and {path.name for path in made.packs[:10]} < made.names()
    git("multi-pack-index", "verify", cwd=made.repo)
    made.check()


def test_a_layer_of_a_multi_pack_index_counts_too(made: Journal) -> None:
    layers = made.folder / "multi-pack-index.d"
    layers.mkdir()
    (layers / "multi-pack-index-1.midx").write_bytes(
        b"MIDX\x00" + made.packs[0].with_suffix(".idx").name.encode() + b"\x00"
    )
    assert made.fold() == 8 and made.packs[0].exists()


def test_packs_without_an_index_or_with_other_names_are_left_alone(made: Journal) -> None:
    made.packs[0].with_suffix(".idx").unlink()
    (made.folder / "tmp_pack_x").write_bytes(b"x")
    (made.folder / "pack-y.pack").touch()
    (made.folder / "other.txt").touch()
    assert made.fold() == 8
    assert {made.packs[0].name, "pack-y.pack"} < made.names() and (made.folder / "tmp_pack_x").exists()


def test_an_object_that_two_packs_hold_is_not_written_twice(made: Journal) -> None:
    again = pack.write(made.folder, [*pack_order(made.derived[1:2]), blob(b"more")], sync=False)
    os.utime(again, (1_000_000.5, 1_000_000.5))
    assert made.fold() > 0
    made.check()
    (folded,) = made.names() - {path.name for path in made.packs} - {again.name}
    entries = list(Pack(made.folder / folded).entries())
    assert len({oid for oid, _, _ in entries}) == len(entries)
    git("index-pack", "--strict", "-o", made.folder / "x.idx", made.folder / folded, cwd=made.repo)


def spoil(path: Path, change: Callable[[bytes], bytes]) -> None:
    path.chmod(0o644)
    path.write_bytes(change(path.read_bytes()))


def flip(at: int) -> Callable[[bytes], bytes]:
    return lambda raw: raw[:at] + bytes([raw[at] ^ 1]) + raw[at + 1 :] if at >= 0 else flip(len(raw) + at)(raw)


DAMAGE: dict[str, tuple[str, Callable[[bytes], bytes]]] = {
    "a byte of an entry": (".pack", flip(40)),
    "the checksum": (".pack", flip(-1)),
    "the count": (".pack", flip(11)),
    "the version": (".pack", flip(7)),
    "a cut pack": (".pack", lambda raw: raw[:-30]),
    "an empty pack": (".pack", lambda raw: b""),
    "an id in the index": (".idx", flip(1040)),
    "a crc in the index": (".idx", flip(-20 - 20 - 2)),
    "the index's checksum": (".idx", flip(-1)),
    "the pack's checksum in the index": (".idx", flip(-21)),
    "the fan-out": (".idx", flip(1030)),
    "a cut index": (".idx", lambda raw: raw[:1100]),
    "an empty index": (".idx", lambda raw: b""),
    "garbage for an index": (".idx", lambda raw: os.urandom(2000)),
}


@pytest.mark.parametrize("what", DAMAGE)
def test_a_damaged_pack_is_not_given_a_new_checksum(made: Journal, what: str) -> None:
    suffix, change = DAMAGE[what]
    bad = made.packs[3]
    spoil(bad.with_suffix(suffix), change)
    before = bad.read_bytes(), bad.with_suffix(".idx").read_bytes()
    assert made.fold() in (0, 7, 8)
    assert (bad.read_bytes(), bad.with_suffix(".idx").read_bytes()) == before
    reader = Packs(made.folder)
    for number, one in enumerate(made.derived):
        for each in pack_order([one]) if number != 3 else ():
            assert reader.read(each.oid) == (KIND_NAMES[each.kind], each.data)


def test_an_index_that_leaves_objects_out_is_not_folded(made: Journal) -> None:
    bad = made.packs[3]
    entries = list(Pack(bad).entries())
    spoil(bad.with_suffix(".idx"), lambda raw: b"".join(pack_index(entries[:-1], raw[-40:-20])))
    assert made.fold() in (0, 7, 8) and bad.exists()
    for name in made.names() - {bad.name}:
        git("verify-pack", made.folder / name, cwd=made.repo)


def pack_index(entries: Sequence[Any], checksum: bytes) -> Iterable[bytes]:
    made = b"".join(pack._index(entries, checksum))
    return [made] if isinstance(made, bytes) else made


def test_eight_bad_packs_do_not_keep_the_others_from_folding(repo: Path) -> None:
    made = Journal(repo, count=20)
    for path in made.packs[:8]:
        spoil(path, flip(-1))
    assert made.fold() > 0
    assert {path.name for path in made.packs[:8]} < made.names()


# --- several at once ---------------------------------------------------------------------------------


def test_while_one_folds_another_does_not(made: Journal) -> None:
    fd = os.open(made.lock, os.O_RDWR | os.O_CREAT)
    fcntl.flock(fd, fcntl.LOCK_EX)
    assert made.fold() == 0 and len(made.names()) == 10
    os.close(fd)
    assert made.fold() == 8


def test_processes_that_fold_at_once_lose_nothing(repo: Path) -> None:
    made = Journal(repo, count=40)

    def work() -> None:
        for _ in range(20):
            made.fold()

    assert [wait(pid) for pid in [fork(work) for _ in range(4)]] == [0] * 4
    made.check()
    assert len(made.names()) < 10


def test_readers_beside_a_fold_see_every_object_at_every_moment(repo: Path) -> None:
    made = Journal(repo, count=64)
    done = made.repo / "done"

    def read() -> None:
        reader = Store(made.repo)
        while True:
            last = done.exists()
            for one in made.objects:
                assert reader.read(one.oid, KIND_NAMES[one.kind]) == one.data
            if last:
                return

    readers = [fork(read) for _ in range(2)]
    while made.fold():
        time.sleep(0.01)
    done.touch()
    assert [wait(pid) for pid in readers] == [0, 0]


def test_a_pack_that_is_open_stays_readable_after_the_fold(made: Journal) -> None:
    reader, one = Pack(made.packs[0]), made.objects[-1]
    assert made.fold() == 8 and not made.packs[0].exists()
    for oid, _, offset in reader.entries():
        assert {each.oid: (KIND_NAMES[each.kind], each.data) for each in made.objects}[oid] == reader.read_at(offset)
    assert Packs(made.folder).read(one.oid) == (KIND_NAMES[one.kind], one.data)


# --- crashes -------------------------------------------------------------------------------------------

CALLS = ["rename", "unlink", "fsync", "fchmod", "open"]


class Nth:
    """A call of `os` that meets a fault at its ``at``-th use."""

    def __init__(self, call: str, at: int, fault: Callable[[], None], *, after: bool = False) -> None:
        self.real, self.at, self.fault, self.after, self.count = getattr(os, call), at, fault, after, 0

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self.count += 1
        if self.count == self.at and not self.after:
            self.fault()
        result = self.real(*args, **kwargs)
        if self.count == self.at:
            self.fault()
        return result


def nine(path: Path) -> Journal:
    """A journal of nine packs, of which a fold takes eight."""
    store.create(path)
    return Journal(path, count=9)


def fold_with(made: Journal, call: str, faulty: Nth) -> None:
    setattr(os, call, faulty)
    tiers.fold(made.folder, made.lock, sync=True)


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("after", [False, True])
def test_a_crash_at_every_call_leaves_every_object(tmp_path: Path, call: str, after: bool) -> None:
    for dying in range(1, 40):
        made = nine(tmp_path / f"{dying}")
        faulty = Nth(call, dying, partial(os._exit, 9), after=after)
        status = forked(partial(fold_with, made, call, faulty))
        made.check()
        assert status in (0, 9)
        if status == 0:
            assert len(made.names()) == 2
            return
        # The next fold goes on from whatever is there.
        made.fold()
        made.check()
    raise AssertionError("there was no end to the calls")


def _full() -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("call", CALLS)
def test_an_error_at_every_call_is_one_of_ours_and_leaves_every_object(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    for failing in range(1, 40):
        made = nine(tmp_path / f"{failing}")
        faulty = Nth(call, failing, _full)
        with monkeypatch.context() as patch:
            patch.setattr(os, call, faulty)
            try:
                tiers.fold(made.folder, made.lock, sync=True)
            except StorageError as error:
                assert "No space left" in str(error)
        made.check()
        if faulty.count < failing:
            return


# --- what git does afterwards ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "command",
    [
        ["gc", "-q", "--prune=now"], ["gc", "-q", "--aggressive", "--prune=now"], ["repack", "-adfq"],
        ["repack", "-dq", "--geometric=2", "--write-midx"],
        ["repack", "-adq", "--write-bitmap-index"], ["pack-refs", "--all", "--prune"], ["prune-packed"],
        ["multi-pack-index", "write"],
        ["commit-graph", "write", "--reachable"],
    ],
)  # fmt: skip
def test_after_folding_git_works_and_changes_no_id(repo: Path, command: list[str]) -> None:
    made = Journal(repo, count=30)
    listed = git_text("rev-list", "--objects", "--all", cwd=repo)
    for _ in range(2):
        while made.fold():
            pass
        git(*command, cwd=repo)
        made.check()
        assert git_text("rev-list", "--objects", "--all", cwd=repo) == listed
    while made.fold():
        pass
    made.check()


def test_after_folding_a_clone_has_everything(repo: Path, tmp_path: Path) -> None:
    made = Journal(repo, count=30)
    made.fold()
    git("clone", "-q", "--mirror", "--no-local", repo, tmp_path / "clone")
    assert git_text("rev-parse", REF, cwd=tmp_path / "clone") == made.derived[-1].commit[0].hex()
    fsck(tmp_path / "clone")
    reader = Store(tmp_path / "clone")
    assert all(reader.read(one.oid, KIND_NAMES[one.kind]) == one.data for one in made.objects)


def test_only_objects_in_order_are_needed(made: Journal) -> None:
    """A folded pack is read by its index alone: no order of entries is promised, and none is needed."""
    made.fold()
    objects: list[PackObject] = sorted(made.objects, key=lambda one: one.oid)
    reader = Packs(made.folder)
    assert all(reader.read(one.oid) == (KIND_NAMES[one.kind], one.data) for one in objects)
