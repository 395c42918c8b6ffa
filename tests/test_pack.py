"""Packs: what we write, everyone reads; what anyone wrote, we read right or refuse."""

from __future__ import annotations

import errno
import os
import random
import resource
import shutil
import struct
import threading
import zlib
from collections.abc import Callable, Iterable, Sequence
from hashlib import sha1
from pathlib import Path
from typing import Any

import pygit2
import pytest
from dulwich.repo import Repo
from hypothesis import given, settings
from hypothesis import strategies as st
from support import (
    KIND_NAMES,
    PackObject,
    as_flushed,
    as_loose,
    blob,
    chain,
    derive,
    flips,
    forked,
    fsck,
    git,
    git_text,
    pack_order,
)

from gitjournal import pack, packread, store
from gitjournal.errors import StorageError, VerificationError
from gitjournal.objects import git_id
from gitjournal.pack import BLOB, COMMIT, OFS_DELTA, REF_DELTA, TREE
from gitjournal.packread import BadPack, Pack, Packs, TooLarge, apply_delta
from gitjournal.store import Store


def noise(seed: int, size: int) -> bytes:
    """Bytes that do not deflate."""
    return random.Random(seed).randbytes(size)


def tree_of(blobs: Iterable[tuple[int, bytes]]) -> PackObject:
    data = b"".join(b"100644 %08d.json\x00%s" % one for one in blobs)
    return PackObject(TREE, git_id(b"tree", data), data)


def distinct(objects: Iterable[PackObject]) -> list[PackObject]:
    return list({one.oid: one for one in objects}.values())


def make_repo(path: Path) -> Path:
    store.create(path)
    return path


def write(repo: Path, objects: Sequence[PackObject]) -> Path:
    return pack.write(repo / "objects" / "pack", objects, sync=False)


def batch(repo: Path, objects: Sequence[PackObject]) -> list[bytes]:
    """The contents as `git cat-file --batch` gives them."""
    out = git("cat-file", "--batch", cwd=repo, stdin=b"".join(one.oid.hex().encode() + b"\n" for one in objects)).stdout
    found, at = [], 0
    for one in objects:
        end = out.index(b"\n", at)
        oid, kind, size = out[at:end].split()
        assert (oid, kind) == (one.oid.hex().encode(), KIND_NAMES[one.kind])
        found.append(out[end + 1 : end + 1 + int(size)])
        at = end + 2 + int(size)
    assert at == len(out)
    return found


def assert_everyone_reads(repo: Path, objects: Sequence[PackObject]) -> None:
    """git, libgit2, dulwich and our reader give the same bytes."""
    contents = [one.data for one in objects]
    assert batch(repo, objects) == contents
    ours, by_pygit2 = Store(repo), pygit2.Repository(str(repo))
    with Repo(str(repo)) as by_dulwich:
        for one in objects:
            assert ours.read(one.oid, KIND_NAMES[one.kind]) == one.data
            assert ours.holds(one.oid, KIND_NAMES[one.kind], one.data)
            assert by_pygit2.odb.read(pygit2.Oid(raw=one.oid)) == (one.kind, one.data)
            assert by_dulwich.object_store.get_raw(one.oid.hex().encode()) == (one.kind, one.data)


def assert_git_indexes_alike(written: Path, *flags: str) -> None:
    """`git index-pack --strict` takes the pack and makes the same index, byte for byte."""
    other = written.with_suffix(".other")
    git("index-pack", "--strict", *flags, "-o", other, written, cwd=written.parents[2])
    assert other.read_bytes() == written.with_suffix(".idx").read_bytes()
    git("verify-pack", "-v", written, cwd=written.parents[2])
    other.unlink()
    written.with_suffix(".rev").unlink(missing_ok=True)
    (written.parent / (other.name.removesuffix(".other") + ".rev")).unlink(missing_ok=True)


# --- the writer --------------------------------------------------------------------------------------

sizes = st.one_of(
    st.sampled_from([0, 1, 15, 16, 63, 64, 65, 127, 128, 2047, 2048, 16_383, 16_384, 65_535, 65_536, 131_072]),
    st.integers(0, 300),
    st.integers(0, 200_000),
)


@st.composite
def object_lists(draw: st.DrawFn) -> list[PackObject]:
    """Blobs of all sizes, dense and thin; trees over them that share prefixes or not; a few commits."""
    seeds = draw(st.lists(st.tuples(sizes, st.sampled_from("dtm"), st.integers(0, 99)), min_size=1, max_size=8))
    blobs = []
    for size, kind, seed in seeds:
        dense = noise(seed, size)
        blobs.append(
            blob({"d": dense, "t": b"%d" % seed * size, "m": dense[: size // 2] + bytes(size - size // 2)}[kind][:size])
        )
    named = [(position, one.oid) for position, one in enumerate(distinct(blobs), 1)]
    trees = [tree_of(named[:count]) for count in range(len(named), 0, -1)]
    trees += [tree_of([(at, oid) for at, oid in named if at % step == 0]) for step in (2, 3)]
    trees = [one for one in trees if one.data]
    events = chain(draw(st.integers(0, 3)), size=draw(st.integers(0, 200)))
    return distinct([*pack_order(derive(events)), *trees, *blobs])


@settings(max_examples=25)
@given(object_lists())
def test_whatever_we_write_everyone_reads(tmp_path_factory: pytest.TempPathFactory, objects: list[PackObject]) -> None:
    repo = make_repo(tmp_path_factory.mktemp("pack") / "r")
    assert_git_indexes_alike(write(repo, objects))
    assert_everyone_reads(repo, objects)
    shutil.rmtree(repo)


def test_a_session_packs_as_small_deltas(repo: Path) -> None:
    events = chain(250, size=300)
    written = write(repo, as_flushed(events))
    assert_git_indexes_alike(written)
    assert_everyone_reads(repo, pack_order(derive(events)))
    git("update-ref", "refs/heads/s/main", derive(events)[-1].commit[0].hex(), cwd=repo)
    fsck(repo)
    depths = [
        int(line.split()[5])
        for line in git_text("verify-pack", "-v", written, cwd=repo).splitlines()
        if len(line.split()) == 7
    ]
    assert set(depths) == {1} and len(depths) > 390


@pytest.mark.parametrize("size", [15, 16, 2047, 2048, 262_143, 262_144, (1 << 18) + 1])
def test_sizes_at_which_the_entry_header_grows(repo: Path, size: int) -> None:
    one = blob(bytes(size))
    assert_git_indexes_alike(write(repo, [one]))
    assert Store(repo).read(one.oid, b"blob") == one.data


@pytest.mark.parametrize("around", [0, 16_384, 2_113_664])
def test_distances_at_which_the_offset_header_grows(tmp_path: Path, around: int) -> None:
    entries = [(at, sha1(b"%d" % at).digest()) for at in range(1, 9)]
    base, delta = tree_of(entries), tree_of(entries[:5])
    repo = make_repo(tmp_path / "r")
    for filler in range(max(around - 300, 0), around + 20, 16 if around else 4):
        more = [blob(noise(filler, filler))] if filler else []
        single = make_repo(tmp_path / f"{filler}")
        objects = [base, *more, delta]
        written = write(single, objects)
        for one in objects:
            assert Store(single).read(one.oid, KIND_NAMES[one.kind]) == one.data
            assert pygit2.Repository(str(single)).odb.read(pygit2.Oid(raw=one.oid))[1] == one.data
        for suffix in (".pack", ".idx"):
            written.with_suffix(suffix).rename(repo / "objects" / "pack" / written.with_suffix(suffix).name)
    git("verify-pack", *sorted((repo / "objects" / "pack").glob("*.idx")), cwd=repo)


@pytest.mark.parametrize("rest", [1, 3, 4, 5, 9, 10])
def test_inserts_of_more_than_127_bytes_are_cut_up(repo: Path, rest: int) -> None:
    same = [(at, sha1(b"%d" % at).digest()) for at in range(1, 20)]
    objects = [
        tree_of(same + [(at, sha1(b"new%d" % at).digest()) for at in range(20, 40)]),
        tree_of(same + [(at, sha1(b"old%d" % at).digest()) for at in range(20, 20 + rest)]),
    ]
    write(repo, objects)
    assert_everyone_reads(repo, objects)


def test_a_tree_too_large_for_one_copy_instruction(repo: Path) -> None:
    # A copy instruction takes less than 16 MiB.
    entries = b"".join(b"100644 %08d.json\x00%s" % (at, b"12345678901234567890") for at in range(410_000))
    objects = [PackObject(TREE, git_id(b"tree", data), data) for data in (entries, entries[:-41])]
    assert len(objects[1].data) > 1 << 24
    write(repo, objects)
    for one in objects:
        # Larger than a tree of a journal may be.
        assert Packs(repo / "objects" / "pack").read(one.oid) == (b"tree", one.data)
        assert pygit2.Repository(str(repo)).odb.read(pygit2.Oid(raw=one.oid))[1] == one.data


def test_offsets_of_two_gigabytes_and_more(tmp_path: Path) -> None:
    offsets = [12, 0x7FFFFFFF, 0x80000000, 0x80000001, 1 << 32, 1 << 40]
    entries = [(sha1(b"%d" % offset).digest(), 7, offset) for offset in offsets]
    path = tmp_path / "pack-x.pack"
    path.write_bytes(struct.pack(">4sII", b"PACK", 2, len(entries)) + bytes(20))
    path.with_suffix(".idx").write_bytes(b"".join(pack._index(sorted(entries), bytes(20))))
    one = Pack(path)
    assert sorted(map(tuple, one.entries())) == sorted(entries)
    assert [one.offset(oid) for oid, _, _ in entries] == offsets and one.offset(bytes(20)) is None
    shown = git_text("show-index", stdin=path.with_suffix(".idx").read_bytes())
    assert sorted(int(line.split()[0]) for line in shown.splitlines()) == offsets


def test_the_keep_file_is_there_until_released(repo: Path) -> None:
    folder = repo / "objects" / "pack"
    written = pack.write(folder, [blob(b"a")], keep="note\n")
    assert written.with_suffix(".keep").read_text() == "note\n"
    pack.release(written)
    pack.release(written)
    assert sorted(path.suffix for path in folder.iterdir()) == [".idx", ".pack"]
    assert all(path.stat().st_mode & 0o777 == 0o444 for path in folder.iterdir())


def test_writing_the_same_pack_again_changes_nothing(repo: Path) -> None:
    objects = pack_order(derive(chain(3)))
    first = write(repo, objects)
    before = first.read_bytes(), first.with_suffix(".idx").read_bytes()
    assert write(repo, objects) == first and (first.read_bytes(), first.with_suffix(".idx").read_bytes()) == before
    assert len(list(first.parent.iterdir())) == 2


@pytest.mark.parametrize("call", ["fsync", "fchmod", "rename"])
@pytest.mark.parametrize("failing", [1, 2, 3])
def test_a_full_disk_leaves_no_broken_pack(
    repo: Path, monkeypatch: pytest.MonkeyPatch, call: str, failing: int
) -> None:
    real, calls = getattr(os, call), [0]

    def fail(*args: Any) -> Any:
        calls[0] += 1
        if calls[0] == failing:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(*args)

    objects = pack_order(derive(chain(3)))
    monkeypatch.setattr(os, call, fail)
    try:
        pack.write(repo / "objects" / "pack", objects, keep="k")
    except StorageError as error:
        assert "No space left" in str(error)
    else:
        assert calls[0] < failing
    monkeypatch.undo()
    fsck(repo)
    left = {path.name[:4] for path in (repo / "objects" / "pack").iterdir()}
    assert "tmp_" not in left
    pack.write(repo / "objects" / "pack", objects, keep="k")
    assert_everyone_reads(repo, objects)


def test_a_missing_or_read_only_folder_is_a_storage_error(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="cannot write a pack"):
        pack.write(tmp_path / "absent", [blob(b"a")])


# --- the reader against what git writes ------------------------------------------------------------------


def journal_like(repo: Path, count: int = 300) -> list[PackObject]:
    """A session in loose objects and a ref, for git to pack."""
    derived = derive(chain(count, size=200))
    objects = pack_order(derived)
    written = write(repo, objects)
    git("update-ref", "refs/heads/s/main", derived[-1].commit[0].hex(), cwd=repo)
    assert written.exists()
    return objects


def test_deep_chains_of_git_are_read(repo: Path) -> None:
    objects = journal_like(repo)
    git("-c", "gc.auto=0", "gc", "-q", "--aggressive", "--prune=now", cwd=repo)
    git("repack", "-adfq", "--depth=200", "--window=50", cwd=repo)
    listed = git_text("verify-pack", "-v", next((repo / "objects/pack").glob("*.idx")), cwd=repo)
    depths = [int(line.split()[5]) for line in listed.splitlines() if len(line.split()) == 7]
    assert max(depths) > 2 and len([depth for depth in depths if depth > 1]) > 10
    assert_everyone_reads(repo, objects)
    packs = Packs(repo / "objects" / "pack")
    random.Random(1).shuffle(objects)
    assert all(packs.read(one.oid) == (KIND_NAMES[one.kind], one.data) for one in objects)


@pytest.mark.parametrize("length", [4095, 4096])
def test_a_chain_of_deltas_is_followed_as_far_as_git_makes_it(tmp_path: Path, length: int) -> None:
    first = head(BLOB, 2) + zlib.compress(b"ab")
    delta = zlib.compress(b"\x02\x02\x90\x02")
    upon = head(OFS_DELTA, 4) + _distance(len(first)) + delta
    entries = [first, upon] + [head(OFS_DELTA, 4) + _distance(len(upon)) + delta] * (length - 1)
    reader, _ = forged(tmp_path, entries)
    found = Pack(reader.pack_folder / "pack-x.pack")
    newest = max(offset for _, _, offset in found.entries())
    if length == 4095:
        assert found.read_at(newest) == (b"blob", b"ab")
    else:
        with pytest.raises(BadPack, match="4095 deltas"):
            found.read_at(newest)


@pytest.mark.parametrize("options", [(), ("--delta-base-offset",)])
@pytest.mark.parametrize("level", ["0", "1", "9"])
def test_packs_of_git_with_either_kind_of_delta(repo: Path, options: tuple[str, ...], level: str) -> None:
    objects = journal_like(repo, 120)
    listed = git("rev-list", "--objects", "--all", cwd=repo).stdout
    folder = repo / "objects" / "pack"
    for path in folder.iterdir():
        path.rename(repo / path.name)
    (repo / "objects" / "info").mkdir(exist_ok=True)
    (repo / "objects" / "info" / "alternates").write_text("")
    git("unpack-objects", "-q", cwd=repo, stdin=next(repo.glob("*.pack")).read_bytes())
    compression = ("-c", f"pack.compression={level}")
    git(*compression, "pack-objects", "-q", "--depth=1", *options, folder / "pack", cwd=repo, stdin=listed)
    git("prune-packed", cwd=repo)
    assert not list((repo / "objects").glob("??/*"))
    packs = Packs(folder)
    assert all(packs.read(one.oid) == (KIND_NAMES[one.kind], one.data) for one in objects)
    made = next(iter(folder.glob("*.pack"))).read_bytes()
    one = Pack(next(iter(folder.glob("*.pack"))))
    kinds = {(made[offset] >> 4) & 7 for _, _, offset in one.entries()}
    assert (OFS_DELTA if options else REF_DELTA) in kinds


def test_several_threads_share_one_reader(repo: Path) -> None:
    objects = journal_like(repo)
    shared, wrong = Store(repo), []

    def work(seed: int) -> None:
        order = objects[:]
        random.Random(seed).shuffle(order)
        for one in order:
            if shared.read(one.oid, KIND_NAMES[one.kind]) != one.data:
                wrong.append(one)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_pack_that_appears_later_is_found(repo: Path) -> None:
    first, second = blob(b"first"), blob(b"second")
    write(repo, [first])
    reader = Packs(repo / "objects" / "pack")
    assert reader.read(first.oid) == (b"blob", b"first") and reader.read(second.oid) is None
    write(repo, [second])
    assert not reader.has(second.oid, refresh=False) and reader.has(second.oid, refresh=True)
    assert reader.read(second.oid) == (b"blob", b"second") and not reader.refresh()


def test_a_folder_that_is_missing_holds_nothing(tmp_path: Path) -> None:
    assert Packs(tmp_path / "absent").read(bytes(20)) is None


def test_a_pack_without_its_file_is_passed_over_in_silence(repo: Path, capfd: pytest.CaptureFixture[str]) -> None:
    one = blob(b"one")
    written = write(repo, [one])
    written.unlink()
    with pytest.raises(VerificationError) as caught:
        Store(repo).read(one.oid, b"blob")
    assert caught.value.code == "missing-object" and capfd.readouterr().err == ""


# --- the reader against damage ---------------------------------------------------------------------------


class Bench:
    """One small pack that can be written again and again in a changed form, each time under a name of its own."""

    def __init__(self, folder: Path, objects: Sequence[PackObject]) -> None:
        self.objects = objects
        self.written = write(make_repo(folder / "whole"), objects)
        self.pack, self.idx = self.written.read_bytes(), self.written.with_suffix(".idx").read_bytes()
        self.repo = make_repo(folder / "changed")
        self._count = 0

    def outcomes(self, raw_pack: bytes, idx: bytes) -> list[str]:
        """For each object ``right`` or the code of the error. Wrong bytes or another exception fail the test."""
        self._count += 1
        path = self.repo / "objects" / "pack" / f"pack-{self._count}.pack"
        path.write_bytes(raw_pack)
        path.with_suffix(".idx").write_bytes(idx)
        reader = Store(self.repo)
        out = [self._outcome(reader, one) for one in self.objects]
        path.unlink()
        path.with_suffix(".idx").unlink()
        return out

    def _outcome(self, reader: Store, one: PackObject) -> str:
        held = reader.holds(one.oid, KIND_NAMES[one.kind], one.data)
        assert not reader.holds(one.oid, KIND_NAMES[one.kind], one.data + b"x")
        try:
            assert reader.read(one.oid, KIND_NAMES[one.kind]) == one.data
        except VerificationError as error:
            assert error.code in ("missing-object", "bad-object") and error.oid == one.oid.hex() and not held
            return error.code
        assert held
        return "right"


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path, pack_order(derive(chain(2, size=70))))


def test_the_bench_reads_what_is_whole(bench: Bench) -> None:
    assert set(bench.outcomes(bench.pack, bench.idx)) == {"right"}


def test_every_changed_byte_of_a_pack_is_right_or_refused(bench: Bench) -> None:
    seen: set[str] = set()
    for at in range(len(bench.pack)):
        # One bit, another one, all: in turns, for each of them finds the same kinds of fault.
        mask = (0x01, 0x40, 0xFF)[at % 3]
        spoiled = bench.pack[:at] + bytes([bench.pack[at] ^ mask]) + bench.pack[at + 1 :]
        seen |= set(bench.outcomes(spoiled, bench.idx))
    assert seen == {"right", "bad-object", "missing-object"}


def test_every_changed_byte_of_an_index_is_right_or_refused(bench: Bench) -> None:
    for at, spoiled in flips(bench.idx):
        # The fan-out is one table of equal words: a sample of it says as much.
        if not 40 <= at < 1000 or at % 32 in (0, 3):
            bench.outcomes(bench.pack, spoiled)


def test_a_cut_pack_is_right_or_refused(bench: Bench) -> None:
    for size in [*range(0, len(bench.pack), 11), len(bench.pack) - 20, len(bench.pack) - 1]:
        found = bench.outcomes(bench.pack[:size], bench.idx)
        assert size > len(bench.pack) - 21 or "right" not in found[-1:]


def test_a_cut_index_hides_or_refuses(bench: Bench) -> None:
    for size in [*range(0, 1100, 99), *range(1072, len(bench.idx), 7)]:
        bench.outcomes(bench.pack, bench.idx[:size])


def test_an_index_that_exchanges_offsets_never_gives_another_object(bench: Bench) -> None:
    offsets = {oid: offset for oid, _, offset in Pack(bench.written).entries()}
    oids = sorted(offsets)
    for step in range(1, len(oids)):
        lying = [(oid, 0, offsets[oids[(at + step) % len(oids)]]) for at, oid in enumerate(oids)]
        found = bench.outcomes(bench.pack, b"".join(pack._index(sorted(lying), bench.pack[-20:])))
        assert set(found) == {"bad-object"}


@pytest.mark.parametrize("offset", [0, 1, 11, 12, 13, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 1 << 40, (1 << 64) - 1])
def test_an_index_that_points_anywhere_is_refused(bench: Bench, offset: int) -> None:
    lying = [(one.oid, 0, offset) for one in bench.objects]
    assert bench.outcomes(bench.pack, b"".join(pack._index(sorted(lying), bench.pack[-20:]))).count("right") <= 1


def test_an_index_with_an_offset_table_beyond_its_end_is_refused(bench: Bench) -> None:
    count = len(bench.objects)
    at = 1032 + 24 * count
    for word in (0x80000000, 0x80000001, 0xFFFFFFFF):
        assert set(
            bench.outcomes(bench.pack, bench.idx[:at] + struct.pack(">I", word) * count + bench.idx[at + 4 * count :])
        ) == {"bad-object"}


@pytest.mark.parametrize("more", [-1, 0, 1, 8])
def test_an_index_with_more_large_offsets_than_a_pack_can_have_is_passed_over(bench: Bench, more: int) -> None:
    body = bench.idx[:-40] + bytes(8 * (len(bench.objects) - 1) + more) + bench.idx[-40:-20]
    found = bench.outcomes(bench.pack, body + sha1(body).digest())
    assert set(found) == {"missing-object" if more > 0 else "right"}


def by_git(repo: Path, one: PackObject) -> bytes:
    """The content that git finds, empty when it finds none."""
    return git("cat-file", KIND_NAMES[one.kind].decode(), one.oid.hex(), cwd=repo, check=False).stdout


@pytest.mark.parametrize(
    ("at", "new", "opens"),
    [
        (4, struct.pack(">I", 2), True), (4, struct.pack(">I", 3), True), (4, struct.pack(">I", 4), False),
        (0, b"PICK", False), (8, struct.pack(">I", 1), False), (-20, bytes(20), False), (-1, b"", False),
    ],
)  # fmt: skip
def test_a_pack_is_opened_when_git_opens_it(bench: Bench, at: int, new: bytes, opens: bool) -> None:
    at %= len(bench.pack)
    changed = bench.pack[:at] + new + (bench.pack[at + len(new) :] if new else b"")
    (bench.repo / "objects/pack/pack-x.pack").write_bytes(changed)
    (bench.repo / "objects/pack/pack-x.idx").write_bytes(bench.idx)
    assert (by_git(bench.repo, bench.objects[0]) != b"") == opens
    assert set(bench.outcomes(changed, bench.idx)) == {"right" if opens else "missing-object"}


@pytest.mark.parametrize("where", ["loose", "in a pack", "nowhere"])
def test_what_cannot_be_unpacked_is_taken_from_where_it_is_good(bench: Bench, where: str) -> None:
    one = bench.objects[-1]
    at = next(offset for oid, _, offset in Pack(bench.written).entries() if oid == one.oid)
    spoiled = bench.pack[: at + 3] + bytes(4) + bench.pack[at + 7 : -20]
    (bench.repo / "objects/pack/pack-x.pack").write_bytes(spoiled + bench.pack[-20:])
    (bench.repo / "objects/pack/pack-x.idx").write_bytes(bench.idx)
    assert refused(Store(bench.repo), one.oid)
    if where == "loose":
        # git would not write it: its index says that it is there.
        path = bench.repo / "objects" / one.oid.hex()[:2] / one.oid.hex()[2:]
        path.parent.mkdir()
        path.write_bytes(zlib.compress(b"%s %d\x00%s" % (KIND_NAMES[one.kind], len(one.data), one.data)))
    elif where == "in a pack":
        write(bench.repo, [one])
    good = one.data if where != "nowhere" else b""
    assert by_git(bench.repo, one) == good
    # Whichever pack is asked first.
    for before in [one, *bench.objects]:
        reader = Store(bench.repo)
        reader.holds(before.oid, KIND_NAMES[before.kind], before.data)
        assert reader.holds(one.oid, KIND_NAMES[one.kind], one.data) == bool(good)


def test_something_else_where_the_folder_of_packs_should_be(repo: Path) -> None:
    one = blob(b"text")
    (repo / "objects" / "pack").rmdir()
    os.mkfifo(repo / "objects" / "pack")
    as_loose(repo, one)
    assert Store(repo).read(one.oid, b"blob") == one.data


def test_a_pack_without_a_name_is_one_as_for_git(bench: Bench) -> None:
    (bench.repo / "objects/pack/.pack").write_bytes(bench.pack)
    (bench.repo / "objects/pack/.idx").write_bytes(bench.idx)
    for one in bench.objects:
        assert by_git(bench.repo, one) == one.data == Store(bench.repo).read(one.oid, KIND_NAMES[one.kind])


def test_garbage_where_packs_should_be_is_passed_over(bench: Bench) -> None:
    for seed, size in enumerate([0, 1, 20, 1071, 1072, 1100, 5000]):
        raw = noise(seed, size)
        assert set(bench.outcomes(raw, raw)) == {"missing-object"}
        bench.outcomes(raw, bench.idx)
        bench.outcomes(bench.pack, b"\xfftOc\x00\x00\x00\x02" + raw)


# --- bombs and forged entries ----------------------------------------------------------------------------


def head(kind: int, size: int) -> bytes:
    out, byte, size = bytearray(), (kind << 4) | (size & 15), size >> 4
    while size:
        out.append(byte | 0x80)
        byte, size = size & 0x7F, size >> 7
    return bytes([*out, byte])


def forged(folder: Path, entries: Sequence[bytes], target: int = -1) -> tuple[Store, bytes]:
    """A repository with a pack of these entries, and the id that its index gives to entry ``target``."""
    repo = make_repo(folder / f"forged{len(list(folder.iterdir()))}")
    body, offsets = struct.pack(">4sII", b"PACK", 2, len(entries)), []
    for entry in entries:
        offsets.append(len(body))
        body += entry
    body += sha1(body).digest()
    ids = [sha1(b"%d" % at).digest() for at in range(len(entries))]
    (repo / "objects/pack/pack-x.pack").write_bytes(body)
    index = b"".join(
        pack._index(sorted((oid, 0, offset) for oid, offset in zip(ids, offsets, strict=True)), body[-20:])
    )
    (repo / "objects/pack/pack-x.idx").write_bytes(index)
    return Store(repo), ids[target]


def refused(reader: Store, oid: bytes) -> str:
    assert not reader.holds(oid, b"blob", b"")
    with pytest.raises(VerificationError) as caught:
        reader.read(oid, b"blob")
    assert caught.value.code == "bad-object"
    return str(caught.value)


def within(limit: int, work: Callable[[], object]) -> None:
    """Run ``work`` in a child that may take ``limit`` bytes more of memory."""

    def bounded() -> None:
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + limit, used + limit))
        work()

    assert forked(bounded) == 0


@pytest.mark.parametrize(
    "claim", [0, 1, 10, 63, 64, 1000, (50 << 20) - 1, (50 << 20) + 1, (1 << 30) - 1, 10 << 30, 1 << 62, 1 << 200]
)
def test_an_entry_that_claims_another_size_than_it_has(tmp_path: Path, claim: int) -> None:
    inflated = zlib.compress(bytes(50 << 20), 1)

    def work() -> None:
        assert refused(*forged(tmp_path, [head(BLOB, claim) + inflated]))

    within(3 << 30, work)


def varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(0x80 | (number & 0x7F))
        number >>= 7
    return bytes([*out, number])


def test_a_delta_that_makes_more_than_it_says(tmp_path: Path) -> None:
    # 10,000 copies of 16 MiB each: 156 GiB out of a pack of 40 KB.
    base = bytes(0xFFFFFF)
    copies = b"\xf0\xff\xff\xff" * 10_000
    for claim in (10, 0xFFFFFF, 1 << 26):
        delta = varint(len(base)) + varint(claim) + copies

        def work(delta: bytes = delta) -> None:
            first = head(TREE, len(base)) + zlib.compress(base)
            second = head(OFS_DELTA, len(delta)) + _distance(len(first)) + zlib.compress(delta)
            assert refused(*forged(tmp_path, [first, second]))

        within(3 << 30, work)


def _distance(number: int) -> bytes:
    out = [number & 0x7F]
    while number := number >> 7:
        number -= 1
        out.append(0x80 | (number & 0x7F))
    return bytes(reversed(out))


@pytest.mark.parametrize(
    "delta",
    [
        b"", b"\x80", b"\x05", b"\x05\x05", b"\x05\x05\x00", b"\x05\x05\x06abcde", b"\x05\x05\x05abcd",
        b"\x04\x05\x05abcde",
        b"\x05\x05\x91\x00", b"\x05\x05\x91\x01\x05", b"\x05\x05\x90\x06",
        b"\x05\x05\xff\xff\xff\xff\xff\xff\xff\xff", b"\x05\x06\x90\x05",
        b"\x05\x04\x90\x05", b"\x05\x05\x80", b"\x05" + b"\xff" * 9 + b"\x01", b"\xff" * 20, b"\x05\x05\x91\x05\x00",
    ],
)  # fmt: skip
def test_a_delta_that_does_not_fit_is_refused(tmp_path: Path, delta: bytes) -> None:
    with pytest.raises(BadPack):
        apply_delta(b"hello", delta)
    first = head(BLOB, 5) + zlib.compress(b"hello")
    for second in (
        head(OFS_DELTA, len(delta)) + _distance(len(first)) + zlib.compress(delta),
        head(REF_DELTA, len(delta)) + sha1(b"0").digest() + zlib.compress(delta),
    ):
        assert refused(*forged(tmp_path, [first, second]))


@pytest.mark.parametrize("delta", [b"\x05\x00", b"\x05\x00\x00", b"\x85\x00\x80\x00", b"\x85\x80\x00\x80\x00"])
def test_nothing_is_not_made_by_a_delta(tmp_path: Path, delta: bytes) -> None:
    # git takes none of these, and git has to read what is called good here.
    with pytest.raises(BadPack):
        apply_delta(b"hello", delta)
    first = head(BLOB, 5) + zlib.compress(b"hello")
    second = head(OFS_DELTA, len(delta)) + _distance(len(first)) + zlib.compress(delta)
    assert refused(*forged(tmp_path, [first, second]))


@pytest.mark.parametrize(
    ("kind", "name", "most", "code"),
    [(COMMIT, b"commit", 1 << 16, "bad-commit"), (TREE, b"tree", 1 << 24, "bad-tree")],
)
def test_an_object_is_not_read_when_its_head_says_that_it_is_too_large(
    tmp_path: Path, kind: int, name: bytes, most: int, code: str
) -> None:
    nothing = zlib.compress(b"")
    delta = varint(5) + varint(most + 1) + b"\x90\x05"
    first = head(kind, 5) + zlib.compress(b"hello")
    upon = head(OFS_DELTA, len(delta)) + _distance(len(first)) + zlib.compress(delta)
    for entries in ([head(kind, most + 1) + nothing], [first, upon]):
        reader, oid = forged(tmp_path, entries)
        with pytest.raises(VerificationError, match="larger than") as error:
            reader.read(oid, name)
        assert error.value.code == code and error.value.oid == oid.hex()
        # The kind is looked at first.
        with pytest.raises(VerificationError) as error:
            reader.read(oid, b"tree" if kind == COMMIT else b"commit")
        assert error.value.code == "bad-object"
    # At the limit it is read, and is not what it says.
    reader, oid = forged(tmp_path, [head(kind, most) + nothing])
    with pytest.raises(VerificationError, match="is not") as error:
        reader.read(oid, name)
    assert error.value.code == "bad-object"


@pytest.mark.parametrize("size", [(1 << 24) + 1, 1 << 30])
def test_a_blob_that_is_too_large_for_an_event_may_be_a_side_file(tmp_path: Path, size: int) -> None:
    reader, oid = forged(tmp_path, [head(BLOB, size) + zlib.compress(b"")])
    with pytest.raises(VerificationError) as error:
        reader.run(b"blob").read(oid)
    assert error.value.code == "bad-member"
    with pytest.raises(VerificationError, match="is not") as error:
        reader.read(oid, b"blob")
    assert error.value.code == "bad-object"


def test_a_small_object_that_is_made_from_a_huge_one_is_not_read(tmp_path: Path) -> None:
    delta = varint((1 << 28) + 1) + b"\x05\x90\x05"
    for first in (
        head(BLOB, (1 << 28) + 1) + zlib.compress(b""),
        head(OFS_DELTA, (1 << 28) + 1) + _distance(1) + zlib.compress(b""),
    ):
        upon = head(OFS_DELTA, len(delta)) + _distance(len(first)) + zlib.compress(delta)
        reader, oid = forged(tmp_path, [first, upon])
        with pytest.raises(VerificationError, match="builds on") as error:
            reader.run(b"blob").read(oid)
        assert error.value.code == "bad-object"


def test_a_commit_may_be_made_from_a_larger_one(tmp_path: Path) -> None:
    large = noise(1, 200_000)
    delta = varint(len(large)) + b"\x05\x90\x05"
    first = head(COMMIT, len(large)) + zlib.compress(large)
    upon = head(OFS_DELTA, len(delta)) + _distance(len(first)) + zlib.compress(delta)
    reader, oid = forged(tmp_path, [first, upon])
    assert Packs(reader.pack_folder).read(oid, 5) == (b"commit", large[:5])


def test_a_delta_copies_and_inserts() -> None:
    assert apply_delta(b"hello", b"\x05\x08\x90\x05\x03abc") == b"helloabc"
    assert apply_delta(b"hello", b"\x05\x03\x91\x02\x03") == b"llo"
    big = noise(1, 0x10000)
    assert apply_delta(big, varint(0x10000) + varint(0x10000) + b"\x80") == big


@pytest.mark.parametrize("rest", [b"", b"\x14" + b"i" * 20, b"\x03abc"], ids=["copy", "as-trees", "other"])
def test_a_delta_that_makes_a_byte_too_much_is_refused(rest: bytes) -> None:
    size = 5 + max(len(rest) - 1, 0)
    delta = varint(5) + varint(size) + b"\xb0\x05\x00" + rest
    assert apply_delta(b"hello", delta, size) == b"hello" + rest[1:]
    with pytest.raises(TooLarge):
        apply_delta(b"hello", delta, size - 1)


@given(st.binary(max_size=300), st.integers(0, 300), st.binary(max_size=25), st.integers(-1, 1), st.integers(-1, 1))
def test_a_delta_as_trees_have_it_fits_or_is_refused(
    base: bytes, copied: int, rest: bytes, more_base: int, more: int
) -> None:
    sizes = varint(max(len(base) + more_base, 0)) + varint(max(copied + len(rest) + more, 0))
    delta = sizes + b"\xb0" + copied.to_bytes(2, "little") + (bytes([len(rest)]) + rest if rest else b"")
    # Git reads a copy of 0 bytes as one of 64 KiB.
    if 0 < copied <= len(base) and more_base == 0 and more == 0:
        assert apply_delta(base, delta) == base[:copied] + rest
    else:
        with pytest.raises(BadPack):
            apply_delta(base, delta)


def test_reading_here_and_there_fetches_little_and_reading_on_fetches_windows(
    repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blobs = [blob(noise(seed, 900)) for seed in range(2000)]
    write(repo, blobs)
    fetched: list[int] = []
    pread = os.pread

    def count(fd: int, length: int, offset: int) -> bytes:
        fetched.append(length)
        return pread(fd, length, offset)

    monkeypatch.setattr(os, "pread", count)
    reader = Store(repo)
    for one in random.Random(5).sample(blobs, 20):
        assert reader.read(one.oid, b"blob") == one.data
    assert sum(fetched) < 20 * 40_000
    fetched.clear()
    for one in blobs:
        assert reader.read(one.oid, b"blob") == one.data
    assert sum(fetched) < 2_500_000 and len(fetched) < 100


@pytest.mark.parametrize(
    "entry",
    [
        head(0, 5), head(4, 5), head(5, 5), b"\xff" * 40, b"\x80" * 40, head(BLOB, 5) + b"nonsense" * 5,
        head(BLOB, 5) + b"\x78",
        head(BLOB, 5) + zlib.compress(b"hello")[:-5], head(OFS_DELTA, 5) + b"\x00" + zlib.compress(b"hello"),
        head(OFS_DELTA, 5) + b"\x7f" + zlib.compress(b"hello"), head(OFS_DELTA, 5) + b"\xff" * 40,
        head(OFS_DELTA, 5) + b"\xff" * 300_000,
        head(OFS_DELTA, 5) + b"\x80" * 30 + zlib.compress(b"hello"),
        head(REF_DELTA, 5) + bytes(20) + zlib.compress(b"hello"),
        head(REF_DELTA, 5) + sha1(b"0").digest() + zlib.compress(b"hello"), head(REF_DELTA, 5) + b"\x00",
    ],
)  # fmt: skip
def test_an_entry_of_nonsense_is_refused(tmp_path: Path, entry: bytes) -> None:
    assert refused(*forged(tmp_path, [entry]))


def test_a_circle_of_deltas_is_refused(tmp_path: Path) -> None:
    ids = [sha1(b"%d" % at).digest() for at in range(2)]
    stream = zlib.compress(b"\x05\x05\x90\x05\x00")
    for cut in (len(stream), 4):
        entries = [head(REF_DELTA, 5) + ids[1 - at] + stream[:cut] for at in range(2)]
        reader, oid = forged(tmp_path, entries)
        within(2 << 30, lambda reader=reader, oid=oid: refused(reader, oid))  # type: ignore[misc]


@pytest.mark.parametrize("flush", [zlib.Z_SYNC_FLUSH, zlib.Z_FULL_FLUSH])
def test_a_stream_that_is_larger_than_its_content_is_still_read(tmp_path: Path, flush: int) -> None:
    # Odd, but every git reads it: an empty block after every byte.
    one = blob(noise(3, 400))
    deflate = zlib.compressobj(9)
    stream = (
        b"".join(deflate.compress(one.data[at : at + 1]) + deflate.flush(flush) for at in range(400)) + deflate.flush()
    )
    assert len(stream) > 2000
    reader, _ = forged(tmp_path, [head(BLOB, 400) + stream])
    name = reader.path / "objects/pack/pack-x.idx"
    body = (reader.path / "objects/pack/pack-x.pack").read_bytes()
    name.write_bytes(b"".join(pack._index([(one.oid, 0, 12)], body[-20:])))
    assert Store(reader.path).read(one.oid, b"blob") == one.data
    assert git("cat-file", "blob", one.oid.hex(), cwd=reader.path).stdout == one.data


def test_a_stored_block_that_git_cannot_inflate_is_refused(bench: Bench, tmp_path: Path) -> None:
    one = blob(b"short")
    good = b"\x78\x01\x01\x05\x00\xfa\xffshort" + zlib.adler32(b"short").to_bytes(4, "big")
    assert zlib.decompress(good) == b"short"
    for at in (*range(3, 7), *range(12, 16)):
        stream = good[:at] + bytes([good[at] ^ 0x10]) + good[at + 1 :]
        with pytest.raises(zlib.error):
            zlib.decompress(stream)
        reader, _ = forged(tmp_path, [head(BLOB, 5) + stream])
        body = (reader.path / "objects/pack/pack-x.pack").read_bytes()
        (reader.path / "objects/pack/pack-x.idx").write_bytes(b"".join(pack._index([(one.oid, 0, 12)], body[-20:])))
        with pytest.raises(VerificationError):
            Store(reader.path).read(one.oid, b"blob")


def test_a_blob_does_not_pass_for_a_tree(tmp_path: Path) -> None:
    """The base of the trees' deltas has the right bytes and the wrong type: to git all of them are blobs."""
    objects = [one for one in pack_order(derive(chain(3))) if one.kind == TREE]
    written = write(make_repo(tmp_path / "r"), [one for one in as_flushed(chain(3)) if one[0] == TREE])
    raw, at = bytearray(written.read_bytes()), {one.oid: Pack(written).offset(one.oid) for one in objects}
    whole = [one for one in objects if (raw[at[one.oid] or 0] >> 4) & 7 == TREE]
    deltas = [one for one in objects if (raw[at[one.oid] or 0] >> 4) & 7 == OFS_DELTA]
    assert whole and deltas
    for one in whole:
        raw[at[one.oid] or 0] = raw[at[one.oid] or 0] & 0x8F | BLOB << 4
    written.chmod(0o644)
    written.write_bytes(bytes(raw))
    reader = Store(tmp_path / "r")
    for _ in range(2):
        for one in [*whole, *deltas]:
            assert not reader.holds(one.oid, b"tree", one.data)
            with pytest.raises(VerificationError):
                reader.read(one.oid, b"tree")


def test_the_wrong_type_is_refused(repo: Path) -> None:
    objects = pack_order(derive(chain(2)))
    write(repo, objects)
    reader = Store(repo)
    for one in objects:
        for kind in {b"blob", b"tree", b"commit"} - {KIND_NAMES[one.kind]}:
            assert not reader.holds(one.oid, kind, one.data)
            with pytest.raises(VerificationError, match="does not hold what its id says"):
                reader.read(one.oid, kind)
    assert {one.kind for one in objects} == {COMMIT, TREE, BLOB}


# --- an index as a table -------------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 40, 20_000])
def test_a_large_index_is_read_where_an_id_should_be_and_not_mapped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    ids = [sha1(b"%d" % n).digest() for n in range(count)]
    absent = [sha1(b"%d" % n).digest() for n in range(count, count + 500)] + [bytes(20), b"\xff" * 20]
    path = pack.write(tmp_path, [(pack.BLOB, oid, b"words") for oid in ids], sync=False)
    expected = [Pack(path).offset(oid) for oid in ids + absent]
    monkeypatch.setattr(packread, "_MOST_MAPPED", 0)
    large = Pack(path)
    asked: list[Any] = []
    real = large._find

    def find(*args: Any) -> int:
        asked.append(args)
        return real(*args)

    monkeypatch.setattr(large, "_find", find)
    assert [large.offset(oid) for oid in ids + absent] == expected
    assert None not in expected[:count] and set(expected[count:]) == {None}
    assert len(asked) < 0.01 * len(expected)


def _ids_at(index: bytearray, place: int) -> slice:
    return slice(packread._IDS + 20 * place, packread._IDS + 20 * place + 20)


def _swapped(index: bytearray) -> None:
    one, other = _ids_at(index, 3), _ids_at(index, 200)
    index[one], index[other] = index[other], index[one]


def _twice(index: bytearray) -> None:
    index[_ids_at(index, 8)] = index[_ids_at(index, 7)]


def _far_away(index: bytearray) -> None:
    at = packread._IDS + 24 * 400 + 4 * 5
    index[at : at + 4] = b"\x80\0\0\0"


@pytest.mark.parametrize("change", [None, _swapped, _twice, _far_away])
def test_an_index_in_memory_says_what_the_index_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: Callable[[bytearray], None] | None
) -> None:
    contents = [b"object %d" % number for number in range(400)]
    ids = [git_id(b"blob", content) for content in contents]
    path = pack.write(tmp_path, [(pack.BLOB, *pair) for pair in zip(ids, contents, strict=True)], sync=False)
    index = path.with_suffix(".idx")
    raw = bytearray(index.read_bytes())
    if change:
        change(raw)
        index.chmod(0o644)
        index.write_bytes(raw)
    opened = Pack(path)

    def said(ask: Callable[[bytes], int | None]) -> list[object]:
        found: list[object] = []
        for oid in [*ids, bytes(20), b"\xff" * 20]:
            try:
                found.append(ask(oid))
            except BadPack as error:
                found.append(str(error))
        return found

    expected = said(opened.offset)
    monkeypatch.setattr(packread, "_MANY_ASKED", 10)
    assert [said(opened.offset_next) for _ in range(2)] == [expected] * 2
    assert (opened._table is not None) == (change is None)
    opened.forget()
    assert opened._table is None and said(opened.offset_next) == expected
    monkeypatch.setattr(packread, "_MOST_TABLED", 399)
    opened.forget()
    assert said(opened.offset_next) == expected and opened._table is None
