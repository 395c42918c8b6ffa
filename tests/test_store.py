"""The repository: what is no journal is refused, reads cannot be led astray, one of many writers moves a ref."""

from __future__ import annotations

import multiprocessing
import os
import random
import resource
import stat
import subprocess
import sys
import threading
import time
import zlib
from contextlib import suppress
from pathlib import Path
from typing import Any

import pygit2
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import (
    KIND_NAMES,
    PackObject,
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

import gitjournal
from gitjournal import loose, packedrefs
from gitjournal import store as storage
from gitjournal.errors import BadRef, ConflictError, NotAJournal, RefLocked, StorageError, UsageError, VerificationError
from gitjournal.journal import Journal
from gitjournal.pack import write as write_pack
from gitjournal.packedrefs import PackedRefs
from gitjournal.packread import Pack
from gitjournal.store import Store, check_kind

REF = "refs/heads/s/main"


def commits(repo: Path, count: int) -> list[bytes]:
    """Ids of commits that are there, all of them different."""
    out = []
    objects: dict[bytes, PackObject] = {}
    for number in range(count):
        derived = derive(chain(1, session=f"s{number}"))
        objects |= {one.oid: one for one in pack_order(derived)}
        out.append(derived[0].commit[0])
    write_pack(repo / "objects" / "pack", list(objects.values()), sync=False)
    return out


def code_of(reader: Store, one: PackObject) -> str:
    """``right``, or the code of the error; wrong bytes or another exception fail the test."""
    kind = KIND_NAMES[one.kind]
    held = reader.holds(one.oid, kind, one.data)
    try:
        assert reader.read(one.oid, kind) == one.data
    except VerificationError as error:
        assert not held and error.oid == one.oid.hex()
        return error.code
    assert held
    return "right"


# --- what can be a journal -----------------------------------------------------------------------------


def test_a_new_repository_is_one_that_git_knows(repo: Path) -> None:
    fsck(repo)
    assert git_text("rev-parse", "--is-bare-repository", "--show-object-format", cwd=repo) == "true\nsha1"
    assert git_text("symbolic-ref", "HEAD", cwd=repo) == "refs/heads/journal/main"
    for key, value in {
        "receive.denyNonFastForwards": "true",
        "receive.denyDeletes": "true",
        "transfer.fsckObjects": "true",
    }.items():
        assert git_text("config", "--get", key, cwd=repo) == value
    assert repo.stat().st_mode & 0o777 == 0o700


def test_a_repository_of_sha256_is_refused_by_name(tmp_path: Path) -> None:
    git("init", "-q", "--bare", "--object-format=sha256", tmp_path / "r")
    for use in (check_kind, Store, gitjournal.open):
        with pytest.raises(NotAJournal, match="uses sha256 object ids; a journal needs sha1") as caught:
            use(tmp_path / "r")
        assert "--object-format=sha1" in caught.value.hint


def test_a_repository_with_reftables_is_refused_by_name(repo: Path) -> None:
    git("config", "core.repositoryformatversion", "1", cwd=repo)
    git("config", "extensions.refStorage", "reftable", cwd=repo)
    for use in (check_kind, Store, gitjournal.open):
        with pytest.raises(NotAJournal, match="keeps its refs in reftable; a journal needs files"):
            use(repo)


def test_what_is_no_repository_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "head").mkdir()
    (tmp_path / "head" / "HEAD").write_text("ref: refs/heads/main\n")
    (tmp_path / "file").touch()
    for name in ("empty", "head", "file", "absent"):
        with pytest.raises(NotAJournal, match="is not a git repository"):
            Store(tmp_path / name)


@pytest.mark.parametrize(
    "config",
    [
        b"[",
        b"\xff\xfe",
        b"[core]\n\trepositoryformatversion = 9\n",
        b"[extensions]\n\tobjectformat = \n",
        b"\x00" * 50,
        b"[core]\nbare = maybe\n",
    ],
)
def test_a_repository_with_a_broken_config_is_refused_or_read(repo: Path, config: bytes) -> None:
    (repo / "config").write_bytes(config)
    try:
        assert Store(repo).read_ref(REF) is None
    except NotAJournal as error:
        assert str(repo) in str(error)


def test_a_missing_config_is_that_of_an_old_repository(repo: Path) -> None:
    (repo / "config").unlink()
    try:
        Store(repo)
    except NotAJournal as error:
        assert "config" in str(error)


def test_a_folder_in_the_way_is_a_storage_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StorageError, match="cannot make a journal"):
        storage.create(tmp_path / "file" / "r")


# --- refs by compare-and-swap --------------------------------------------------------------------------


def test_a_ref_moves_only_from_where_it_was_expected(store: Store, repo: Path) -> None:
    one, two, three = commits(repo, 3)
    store.cas_ref(REF, None, one)
    assert store.read_ref(REF) == one
    for wrong in (None, two, three):
        with pytest.raises(ConflictError, match="expected"):
            store.cas_ref(REF, wrong, three)
    store.cas_ref(REF, one, two)
    with pytest.raises(ConflictError, match="absent"):
        store.cas_ref("refs/heads/s/other", one, two)
    assert store.read_ref(REF) == two and store.read_ref("refs/heads/s/other") is None
    with pytest.raises(ConflictError):
        store.cas_ref(REF, one, None)
    store.cas_ref(REF, two, None)
    assert store.read_ref(REF) is None and not (repo / f"{REF}.lock").exists()


def test_a_packed_ref_counts(store: Store, repo: Path) -> None:
    one, two = commits(repo, 2)
    store.cas_ref(REF, None, one)
    git("pack-refs", "--all", cwd=repo)
    assert not (repo / REF).exists() and store.read_ref(REF) == one and store.list_refs() == [REF]
    with pytest.raises(ConflictError):
        store.cas_ref(REF, None, two)
    store.cas_ref(REF, one, two)
    assert store.read_ref(REF) == two == bytes.fromhex(git_text("rev-parse", REF, cwd=repo)) and store.list_refs() == [
        REF
    ]
    store.cas_ref(REF, two, None)
    assert store.read_ref(REF) is None and store.list_refs() == []


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\n",
        b"garbage\n",
        b"0" * 39,
        b"0" * 40,
        b"0" * 40 + b"\n\n",
        b"0" * 40 + b" ",
        b"\x00" * 41,
        b"ref: refs/heads/other/main\n",
        b"ref: \n",
        b"\xff" * 41,
    ],
)
def test_a_ref_that_is_none_moves_nothing(store: Store, repo: Path, content: bytes) -> None:
    one, two = commits(repo, 2)
    store.cas_ref("refs/heads/other/main", None, one)
    (repo / REF).parent.mkdir(parents=True)
    (repo / REF).write_bytes(content)
    for old in (None, one):
        with pytest.raises((StorageError, ConflictError)):
            store.cas_ref(REF, old, two)
    assert (repo / REF).read_bytes() == content and store.read_ref("refs/heads/other/main") == one


@pytest.mark.parametrize("kind", ["pipe", "socket", "link", "link to nothing", "link to a folder"])
def test_a_ref_that_is_no_file_is_one_that_holds_nothing(store: Store, repo: Path, kind: str) -> None:
    (one,) = commits(repo, 1)
    store.cas_ref("refs/heads/s/other", None, one)
    if kind == "pipe":
        os.mkfifo(repo / REF)
    elif kind == "socket":
        os.mknod(repo / REF, 0o600 | stat.S_IFSOCK)
    else:
        (repo / REF).symlink_to({"link": "other", "link to nothing": "absent", "link to a folder": "../s"}[kind])
    assert store.list_refs() == [REF, "refs/heads/s/other"]
    with pytest.raises(BadRef, match="no regular file"):
        store.read_ref(REF)
    with pytest.raises((StorageError, ConflictError)):
        store.cas_ref(REF, None, one)


def test_packed_refs_that_cannot_be_read_are_an_error_and_not_empty(store: Store, repo: Path) -> None:
    packed = repo / "packed-refs"
    (repo / "elsewhere").touch()
    for make in (lambda: os.mkfifo(packed), packed.touch, lambda: packed.symlink_to("elsewhere"), packed.mkdir):
        make()
        if make == packed.touch:
            os.truncate(packed, 20 << 30)
        for look in (store.list_refs, lambda: store.read_ref(REF), lambda: store.spellings("s")):
            with pytest.raises(StorageError, match=r"cannot read .*packed-refs"):
                look()
        if packed.is_dir():
            packed.rmdir()
        else:
            packed.unlink()
    assert store.list_refs() == [] and store.read_ref(REF) is None


def test_pipes_and_endless_files_elsewhere_stop_nobody(store: Store, repo: Path) -> None:
    one = blob(b"text")
    path = repo / "objects" / one.oid.hex()[:2] / one.oid.hex()[2:]
    path.parent.mkdir()
    for name in ("shallow", "objects/info/alternates", "objects/pack/pack-x.pack", "objects/pack/pack-x.idx"):
        os.mkfifo(repo / name)
    os.mkfifo(path)
    again = Store(repo)
    assert again.shallow_commits() == frozenset()
    assert code_of(again, one) == "bad-object"
    path.unlink()
    path.write_bytes(zlib.compress(b"blob 4\x00text"))
    assert code_of(again, one) == "right"
    os.truncate(path, 20 << 30)
    assert code_of(again, one) == "bad-object"
    (repo / "shallow").unlink()
    (repo / "shallow").touch()
    os.truncate(repo / "shallow", 20 << 30)
    assert again.shallow_commits() == frozenset()


def test_a_loose_object_is_not_read_when_its_head_says_that_it_is_too_large(repo: Path) -> None:
    reader, oid = Store(repo), bytes(19) + b"\x01"
    path = repo / "objects" / "00" / oid.hex()[2:]
    path.parent.mkdir()
    for kind, most, code in (
        (b"commit", 1 << 16, "bad-commit"),
        (b"tree", 1 << 24, "bad-tree"),
        (b"blob", 1 << 24, "bad-member"),
    ):
        read = reader.run(kind).read
        for size, found in ((most + 1, code), (most, "bad-object")):
            path.write_bytes(zlib.compress(b"%s %d\x00" % (kind, size)))
            with pytest.raises(VerificationError) as error:
                read(oid)
            assert (error.value.code, error.value.oid) == (found, oid.hex())
        path.write_bytes(zlib.compress(b"tag %d\x00" % (most + 1)))
        with pytest.raises(VerificationError) as error:
            read(oid)
        assert error.value.code == "bad-object"


@pytest.mark.parametrize("ref", ["refs/heads/../x", "", "/", "refs/heads/", "refs//heads"])
def test_a_name_that_git_does_not_take_is_one_of_our_errors(store: Store, repo: Path, ref: str) -> None:
    (one,) = commits(repo, 1)
    with pytest.raises(StorageError):
        store.cas_ref(ref, None, one)


def test_a_ref_beneath_another_is_a_storage_error(store: Store, repo: Path) -> None:
    (one,) = commits(repo, 1)
    git("update-ref", "refs/heads/s", one.hex(), cwd=repo)
    with pytest.raises(StorageError, match="cannot be moved"):
        store.cas_ref(REF, None, one)


PROCESSES = 8
ROUNDS = 40


def _race(repo: Path, mine: list[bytes], number: int, barrier: Any, won: Any) -> None:
    try:
        _contend(repo, mine, number, barrier, won)
    except BaseException:
        # Else the others would wait for this one for ever.
        barrier.abort()
        raise


def _contend(repo: Path, mine: list[bytes], number: int, barrier: Any, won: Any) -> None:
    contender = Store(repo)
    for number_of_round in range(ROUNDS):
        ref = f"refs/heads/r{number_of_round}/main"
        before = None
        for phase, target in enumerate(mine):
            barrier.wait()
            try:
                contender.cas_ref(ref, before, target)
                won[(number_of_round * len(mine) + phase) * PROCESSES + number] = 1
            except ConflictError:
                pass
            barrier.wait()
            before = contender.read_ref(ref)


def test_of_eight_processes_one_makes_the_ref_and_one_moves_it(repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage, "LOCK_PATIENCE", 60.0)
    phases = 3
    ids = commits(repo, PROCESSES * phases)
    context = multiprocessing.get_context("fork")
    barrier, won = context.Barrier(PROCESSES), context.Array("b", ROUNDS * phases * PROCESSES, lock=False)
    running = [
        context.Process(target=_race, args=(repo, ids[number::PROCESSES], number, barrier, won))
        for number in range(PROCESSES)
    ]
    for one in running:
        one.start()
    for one in running:
        one.join()
    assert [one.exitcode for one in running] == [0] * PROCESSES
    winners = [sum(won[at : at + PROCESSES]) for at in range(0, len(won), PROCESSES)]
    assert winners == [1] * (ROUNDS * phases)


def test_of_many_threads_one_moves_the_ref(store: Store, repo: Path) -> None:
    ids = commits(repo, 8)
    won: list[bytes] = []

    def work(target: bytes) -> None:
        try:
            store.cas_ref(REF, None, target)
            won.append(target)
        except ConflictError:
            pass

    threads = [threading.Thread(target=work, args=(one,)) for one in ids]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(won) == 1 and store.read_ref(REF) == won[0]


def test_a_stale_lock_is_named_with_its_age(store: Store, repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage, "LOCK_PATIENCE", 0.03)
    one, two = commits(repo, 2)
    store.cas_ref(REF, None, one)
    lock = repo / f"{REF}.lock"
    lock.touch()
    os.utime(lock, (time.time() - 4000, time.time() - 4000))
    for old, new in ((one, two), (None, two), (one, None)):
        with pytest.raises(RefLocked, match=rf"{lock} \(40\d\d s old\)") as caught:
            store.cas_ref(REF, old, new)
        assert "remove the file" in caught.value.hint
    assert lock.exists() and store.read_ref(REF) == one
    lock.unlink()
    store.cas_ref(REF, one, two)


def test_a_lock_that_is_released_in_time_is_waited_for(
    store: Store, repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storage, "LOCK_PATIENCE", 60.0)
    (one,) = commits(repo, 1)
    lock = repo / f"{REF}.lock"
    lock.parent.mkdir(parents=True)
    lock.touch()
    timer = threading.Timer(0.1, lock.unlink)
    timer.start()
    store.cas_ref(REF, None, one)
    timer.join()
    assert store.read_ref(REF) == one


def test_refs_are_listed_without_locks_and_strangers(store: Store, repo: Path) -> None:
    (one,) = commits(repo, 1)
    names = ["refs/heads/a/main", "refs/heads/a/x", "refs/heads/b%2Fc/main", "refs/heads/B/main"]
    for name in names:
        store.cas_ref(name, None, one)
    git("pack-refs", "--all", cwd=repo)
    store.cas_ref("refs/heads/a/loose", None, one)
    (repo / "refs/heads/a").mkdir(exist_ok=True)
    (repo / "refs/heads/a/main.lock").touch()
    git("update-ref", "refs/tags/t", one.hex(), cwd=repo)
    assert store.list_refs() == sorted([*names, "refs/heads/a/loose"])
    assert (
        store.list_refs("a") == ["refs/heads/a/loose", "refs/heads/a/main", "refs/heads/a/x"]
        and store.list_refs("x") == []
    )
    assert store.spellings("b") == {"B"} and store.spellings("A") == {"a"} and store.spellings("B%2fc") == {"b%2Fc"}


# --- reads ---------------------------------------------------------------------------------------------


def test_loose_objects_are_read(store: Store, repo: Path) -> None:
    objects = pack_order(derive(chain(3)))
    for one in objects:
        assert not store.has(one.oid) and code_of(store, one) == "missing-object"
        as_loose(repo, one)
        assert store.has(one.oid) and store.has(one.oid, refresh=False) and code_of(store, one) == "right"
        assert not store.holds(one.oid, KIND_NAMES[one.kind], one.data + b"x")


def test_loose_objects_are_known_as_of_the_last_refresh(store: Store, repo: Path) -> None:
    one, two = pack_order(derive(chain(2)))[:2]
    as_loose(repo, one)
    store.refresh()
    assert store.has(one.oid, refresh=False) and not store.has(two.oid, refresh=False)
    as_loose(repo, two)
    assert store.has(two.oid)
    store.refresh()
    assert store.has(two.oid, refresh=False)


def test_objects_of_an_alternate_are_read(store: Store, repo: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.git"
    storage.create(other)
    derived = derive(chain(50))
    objects = pack_order(derived)
    for one in objects[:10]:
        as_loose(other, one)
    write_pack(other / "objects" / "pack", objects[10:], sync=False)
    (repo / "objects" / "info").mkdir(exist_ok=True)
    (repo / "objects" / "info" / "alternates").write_text(f"{other}/objects\n")
    fresh = Store(repo)
    assert {code_of(fresh, one) for one in objects} == {"right"}
    git("update-ref", REF, derived[-1].commit[0].hex(), cwd=other)
    git("gc", "-q", "--prune=now", cwd=other)
    assert {code_of(Store(repo), one) for one in objects} == {"right"}


@pytest.mark.parametrize("content", ["", "nowhere\n", "/\n", "\x00\n", "objects\n", "../objects\n", "x" * 5000])
def test_alternates_of_nonsense_change_nothing(repo: Path, content: str) -> None:
    one = blob(b"a")
    (repo / "objects" / "info").mkdir(exist_ok=True)
    (repo / "objects" / "info" / "alternates").write_text(content)
    assert code_of(Store(repo), one) == "missing-object"
    as_loose(repo, one)
    assert code_of(Store(repo), one) == "right"


def test_alternates_end_at_the_first_zero_byte_as_for_git(repo: Path, tmp_path: Path) -> None:
    one, two = blob(b"a"), blob(b"b")
    for name, each in (("one", one), ("two", two)):
        storage.create(tmp_path / name)
        as_loose(tmp_path / name, each)
    (repo / "objects" / "info").mkdir(exist_ok=True)
    named = f"{tmp_path}/one/objects\x00x\n{tmp_path}/two/objects\n"
    (repo / "objects" / "info" / "alternates").write_text(named)
    for each, there in ((one, True), (two, False)):
        assert (git("cat-file", "-e", each.oid.hex(), cwd=repo, check=False).returncode == 0) == there
        assert code_of(Store(repo), each) == ("right" if there else "missing-object")


@pytest.mark.skipif(not os.access("/proc/kmsg", os.R_OK), reason="only root may open it")
def test_a_link_to_a_file_that_does_not_answer_is_no_object(repo: Path) -> None:
    one = blob(b"hello")
    loose_path(repo, one).symlink_to("/proc/kmsg")
    assert code_of(Store(repo), one) == "bad-object"
    (repo / "objects" / "info").mkdir(exist_ok=True)
    (repo / "objects" / "info" / "alternates").symlink_to("/proc/kmsg")
    assert code_of(Store(repo), blob(b"other")) == "missing-object"


@pytest.mark.parametrize(
    ("size", "code"), [((1 << 63), "bad-commit"), ((1 << 64) - 1, "bad-commit"), (1 << 64, "bad-object")]
)
def test_a_loose_header_may_say_what_git_can_count(repo: Path, size: int, code: str) -> None:
    one = pack_order(derive(chain(1)))[0]
    assert KIND_NAMES[one.kind] == b"commit"
    loose_path(repo, one).write_bytes(zlib.compress(b"commit %d\x00%s" % (size, one.data)))
    assert code_of(Store(repo), one) == code


def test_a_repository_with_an_endless_list_of_cut_commits_is_refused(repo: Path) -> None:
    (repo / "shallow").touch()
    os.truncate(repo / "shallow", 256 << 20)
    assert Store(repo).shallow_commits() == frozenset()
    os.truncate(repo / "shallow", (256 << 20) + 1)
    with pytest.raises(NotAJournal, match="too large"):
        Store(repo)


@pytest.mark.parametrize("name", ["pagemap", "environ"])
def test_a_file_that_says_that_it_is_empty_is_not_read(repo: Path, name: str) -> None:
    path = Path("/proc/self") / name
    if not path.exists():
        pytest.skip("this system has no such file")
    one = blob(b"hello")
    loose_path(repo, one).symlink_to(path)
    with pytest.raises(VerificationError, match="its header is none"):
        Store(repo).read(one.oid, b"blob")


def loose_path(repo: Path, one: PackObject) -> Path:
    path = repo / "objects" / one.oid.hex()[:2] / one.oid.hex()[2:]
    path.parent.mkdir(exist_ok=True)
    return path


def test_a_tampered_loose_object_is_refused(repo: Path) -> None:
    for one in pack_order(derive(chain(2))):
        path = loose_path(repo, one)
        for content in (one.data + b" ", one.data[:-1], one.data.replace(b"host", b"HOST"), b""):
            kind = KIND_NAMES[one.kind]
            path.write_bytes(zlib.compress(b"%s %d\x00%s" % (kind, len(content), content)))
            if content != one.data:
                assert code_of(Store(repo), one) == "bad-object"


@pytest.mark.parametrize(
    "raw",
    [
        b"", b"x", b"\x00" * 100, zlib.compress(b""), zlib.compress(b"blob"), zlib.compress(b"blob 5"),
        zlib.compress(b"blob 5\x00"),
        zlib.compress(b"blob 5\x00hell"), zlib.compress(b"blob 5\x00hello!"), zlib.compress(b"blob -1\x00hello"),
        zlib.compress(b"blob 99999999999999999999999\x00hello"), zlib.compress(b"nonsense 5\x00hello"),
        zlib.compress(b"tag 5\x00hello"),
        zlib.compress(b"tree 5\x00hello"), zlib.compress(b"blob 5\x00hello")[:-3], zlib.compress(b"hello"),
        zlib.compress(b"blob 05\x00hello"),
        zlib.compress(b"blob 6\x00hello"), zlib.compress(b"blob 1000000000000\x00hello"),
    ],
)  # fmt: skip
def test_a_loose_file_of_nonsense_is_refused(repo: Path, raw: bytes) -> None:
    one = blob(b"hello")
    loose_path(repo, one).write_bytes(raw)

    def work() -> None:
        assert code_of(Store(repo), one) in ("bad-object", "right" if b"" else "bad-object", "missing-object")

    assert forked(work) == 0


def test_a_loose_bomb_is_refused(repo: Path) -> None:
    one = blob(b"hello")
    loose_path(repo, one).write_bytes(zlib.compress(b"blob 5\x00" + bytes(100 << 20)))
    assert code_of(Store(repo), one) == "bad-object"


def test_every_changed_byte_of_a_loose_object_is_right_or_refused(repo: Path) -> None:
    one = pack_order(derive(chain(1)))[0]
    as_loose(repo, one)
    path = loose_path(repo, one)
    raw = path.read_bytes()
    path.chmod(0o644)
    for _, spoiled in flips(raw, masks=(0xFF, 0x04)):
        path.write_bytes(spoiled)
        assert code_of(Store(repo), one) in ("right", "bad-object", "missing-object")
    for size in range(len(raw)):
        path.write_bytes(raw[:size])
        assert code_of(Store(repo), one) in ("right", "bad-object", "missing-object")


def test_a_folder_where_an_object_should_be(repo: Path) -> None:
    one = blob(b"hello")
    loose_path(repo, one).mkdir()
    assert code_of(Store(repo), one) in ("missing-object", "bad-object")


def recorded(journal: Journal) -> tuple[list[bytes], list[bytes]]:
    """The raw events of session ``s`` and all of its commits, oldest first."""
    commits_ = git_text("--no-replace-objects", "rev-list", "--reverse", REF, cwd=journal.path).split()
    return [one.raw for one in journal.events("s")], [bytes.fromhex(one) for one in commits_]


def filled(journal: Journal, count: int = 12) -> None:
    with journal.session("s", create=True) as s:
        for number in range(count - 1):
            s.append("message", {"n": number})


def test_replace_refs_grafts_shallow_files_and_commit_graphs_have_no_say(journal: Journal) -> None:
    filled(journal)
    repo = journal.path
    events, ids = recorded(journal)
    reader = Store(repo)
    whole = {oid: reader.read(oid, b"commit") for oid in ids}
    blobs = {line.split()[2]: line.split()[3] for line in git_text("ls-tree", "-r", REF, cwd=repo).splitlines()}
    git("replace", ids[5].hex(), ids[2].hex(), cwd=repo)
    first, second, *_ = blobs
    git("replace", first, second, cwd=repo)
    git("commit-graph", "write", "--reachable", cwd=repo)
    (repo / "info").mkdir(exist_ok=True)
    (repo / "info" / "grafts").write_text(f"{ids[8].hex()} {ids[1].hex()}\n{ids[4].hex()}\n")
    (repo / "shallow").write_text(f"{ids[6].hex()}\n")
    graph = repo / "objects" / "info" / "commit-graph"
    graph.chmod(0o644)
    raw = bytearray(graph.read_bytes())
    random.Random(1).shuffle(raw)
    for forged in (graph.read_bytes()[:-40] + os.urandom(40), bytes(raw), b""):
        graph.write_bytes(forged)
        fresh = gitjournal.open(repo)
        assert {oid: fresh.store.read(oid, b"commit") for oid in ids} == whole
        assert [one.raw for one in fresh.events("s")] == events and fresh.event("s", 6).raw == events[5]
        assert fresh.store.shallow_commits()


def test_a_journal_survives_what_git_does_to_it(journal: Journal, tmp_path: Path) -> None:
    for _ in range(4):
        with journal.session("s", create=True) as s:
            for number in range(30):
                s.append("message", {"n": number})
    events, ids = recorded(journal)
    for command in (
        ["gc", "-q"],
        ["repack", "-adfq"],
        ["repack", "-dq", "--geometric=2", "--write-midx"],
        ["gc", "-q", "--aggressive", "--prune=now"],
        ["pack-refs", "--all"],
    ):
        git(*command, cwd=journal.path)
        fsck(journal.path)
        assert recorded(journal) == recorded(gitjournal.open(journal.path)) == (events, ids)
        with journal.session("s") as s:
            s.append("message", {"after": command})
        events, ids = recorded(journal)
    git("clone", "-q", "--mirror", journal.path, tmp_path / "clone")
    assert recorded(gitjournal.open(tmp_path / "clone")) == (events, ids)


def test_keep_files_of_others_stay(store: Store) -> None:
    folder = store.pack_folder
    (folder / "pack-a.keep").write_text("gitjournal refs/heads/a/main\n")
    (folder / "pack-b.keep").write_text("gitjournal refs/heads/b/main\n")
    (folder / "pack-c.keep").write_bytes(b"\xff")
    (folder / "pack-d.keep").touch()
    (folder / "pack-e.keep").mkdir()
    store.drop_keeps("gitjournal refs/heads/a/main\n")
    assert sorted(path.name for path in folder.iterdir()) == [f"pack-{name}.keep" for name in "bcde"]


def test_a_written_pack_is_kept_until_it_is_released(store: Store) -> None:
    objects = pack_order(derive(chain(2)))
    written = store.write_pack(objects, keep="k", sync=False)
    assert written.with_suffix(".keep").exists()
    store.release(written)
    assert not written.with_suffix(".keep").exists() and {code_of(store, one) for one in objects} == {"right"}


def test_a_mirror_is_not_written_to_for_its_next_fetch_takes_all_back(journal: Journal, tmp_path: Path) -> None:
    journal.session("s", create=True).close()
    git("clone", "-q", "--mirror", journal.path, tmp_path / "mirror")
    git("clone", "-q", "--bare", journal.path, tmp_path / "bare")
    with pytest.raises(UsageError, match="only be read") as refused:
        gitjournal.open(tmp_path / "mirror").session("s")
    assert "--bare" in refused.value.hint
    with gitjournal.open(tmp_path / "bare").session("s") as session:
        assert session.append("note", {}).seq == 2


def test_alternates_that_name_each_other_often(tmp_path: Path) -> None:
    folders = [tmp_path / f"{number}" / "objects" for number in range(7)]
    for folder in folders:
        (folder / "info").mkdir(parents=True)
        (folder / "info" / "alternates").write_text("".join(f"{one}\n" for one in folders) * 60)
    assert len(loose.alternates(folders[0])) == 6


# --- objects that lie behind each other ------------------------------------------------------------------


def test_a_run_reads_what_is_there_in_any_order_and_over_the_ends_of_packs(repo: Path) -> None:
    blobs = [blob(b"%d" % number * 40) for number in range(200)]
    for half in (blobs[:100], blobs[100:]):
        write_pack(repo / "objects/pack", half)
    for order in (blobs, blobs[::-1], random.Random(1).sample(blobs, 200), blobs[:3] * 50):
        run = Store(repo).run(b"blob")
        assert [run.read(one.oid) for one in order] == [one.data for one in order]


def test_a_run_believes_no_neighbour(repo: Path) -> None:
    blobs = [blob(b"%d" % number * 40) for number in range(50)]
    written = write_pack(repo / "objects/pack", blobs)
    lost = blob(b"of no pack")
    run = Store(repo).run(b"blob")
    assert run.read(blobs[0].oid) == blobs[0].data
    # The object behind the first one is another; and what is missing is missing for each call anew.
    for _ in range(3):
        with pytest.raises(VerificationError) as caught:
            run.read(lost.oid)
        assert caught.value.code == "missing-object"
    assert [run.read(one.oid) for one in blobs] == [one.data for one in blobs]
    # A neighbour that is damaged is damaged, and the one before and the one after are not.
    raw = bytearray(written.read_bytes())
    offset = Pack(written).offset(blobs[7].oid)
    assert offset is not None
    raw[offset + 5] ^= 0xFF
    written.chmod(0o644)
    written.write_bytes(raw)
    run = Store(repo).run(b"blob")
    for number, one in enumerate(blobs):
        if number == 7:
            with pytest.raises(VerificationError):
                run.read(one.oid)
        else:
            assert run.read(one.oid) == one.data
    trees = Store(repo).run(b"tree")
    with pytest.raises(VerificationError):
        trees.read(blobs[0].oid)


# --- many refs -----------------------------------------------------------------------------------


def test_packed_refs_have_for_one_name_what_they_have_for_all(store: Store, repo: Path) -> None:
    ids = [f"{number:040x}" for number in range(1, 9)]
    lines = [
        "# pack-refs with: peeled fully-peeled sorted ",
        f"{ids[0]} refs/heads/s/main",
        f"^{ids[7]}",
        f"{ids[1]} refs/heads/s/main2",
        f"{ids[2]} refs/heads/s/mai",
        f"{ids[3]} refs/heads/s/main with space",
        f"{ids[4][:39]}g refs/heads/bad/main",
        f"x{ids[5]} refs/heads/long/main",
        f"{ids[5]}  refs/heads/two/main",
        f"{ids[5]} refs/heads/twice/main",
        f"{ids[6]} refs/heads/twice/main",
        f"{ids[7]} refs/heads/last/main",
    ]
    (repo / "packed-refs").write_text("\n".join(lines))
    names = [
        "s/main",
        "s/main2",
        "s/mai",
        "s/m",
        "bad/main",
        "long/main",
        "two/main",
        "twice/main",
        "last/main",
        "/main",
    ]
    looked_up = {name: PackedRefs(str(repo)).get(f"refs/heads/{name}") for name in names}
    table = PackedRefs(str(repo)).all()
    assert looked_up == {name: table.get(f"refs/heads/{name}") for name in names}
    assert looked_up["s/main"] == ids[0] and looked_up["twice/main"] == ids[6] and looked_up["last/main"] == ids[7]
    assert [name for name in names if looked_up[name] is None] == ["s/m", "bad/main", "long/main", "two/main", "/main"]
    assert store.heads()["s/main2"] == ids[1] and store.read_ref(REF) == bytes.fromhex(ids[0])


def test_no_packed_ref_is_gone_while_another_thread_makes_the_table(tmp_path: Path) -> None:
    class Shared(packedrefs._Content):
        def __getattribute__(self, name: str) -> Any:
            if name == "searches":
                # The other thread, just before this one searches.
                self.names()
            return super().__getattribute__(name)

    path = tmp_path / "packed-refs"
    path.write_text(f"{7:040x} refs/heads/s/main\n")
    refs = PackedRefs(str(tmp_path))
    refs._content = Shared(refs.stamp(), path.read_bytes())
    assert refs.get(REF) == refs.get(REF) == f"{7:040x}"


def test_packing_the_refs_changes_none_and_leaves_no_folder(store: Store, repo: Path) -> None:
    one, two = commits(repo, 2)
    store.cas_ref(REF, None, one)
    store.cas_ref("refs/heads/t/main", None, one)
    before, stamp = store.heads(), store.packed_stamp()
    assert store.loose_refs() == before == {"s/main": one.hex(), "t/main": one.hex()}
    store.pack_refs()
    assert store.heads() == before and store.loose_refs() == {} and store.packed_stamp() != stamp
    assert list((repo / "refs" / "heads").iterdir()) == []
    store.cas_ref(REF, one, two)
    assert store.heads() == {"s/main": two.hex(), "t/main": one.hex()}
    assert store.loose_refs() == {"s/main": two.hex()} and git_text("rev-parse", REF, cwd=repo) == two.hex()
    store.cas_ref(REF, two, None)
    assert store.heads() == {"t/main": one.hex()}


def test_refs_move_while_others_pack_them(repo: Path) -> None:
    ids = commits(repo, 40)

    def move(number: int) -> None:
        mine, before = Store(repo), None
        for oid in ids:
            mine.cas_ref(f"refs/heads/s{number}/main", before, oid)
            before = oid

    def pack() -> None:
        mine = Store(repo)
        for _ in range(20):
            # A ref that is being moved is not packed this time.
            with suppress(StorageError):
                mine.pack_refs()

    threads = [threading.Thread(target=move, args=(number,)) for number in range(3)] + [threading.Thread(target=pack)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert Store(repo).heads() == {f"s{number}/main": ids[-1].hex() for number in range(3)}


PIECES = [
    "[core]", "[Extensions]", "[extensions]", "[include]", '[includeIf "x"]', '[remote "a.b"]', "[core.sub]", "\tkey",
    "", "bare = true", "objectformat = sha256", "objectFormat=sha1", "refstorage = reftable", "path = other",
    "a = b # c", 'a = "x' "a = b\\", "# objectformat", "; x", "[extensions] objectformat = sha256", '[extensions "x"]',
    "\ufeff[extensions]",
]  # fmt: skip


@given(st.lists(st.sampled_from(PIECES), max_size=6))
def test_a_config_that_is_not_parsed_names_no_extension(
    tmp_path_factory: pytest.TempPathFactory, lines: list[str]
) -> None:
    folder = tmp_path_factory.mktemp("config")
    (folder / "other").write_text("[extensions]\n\tobjectformat = sha256\n")
    path = folder / "config"
    path.write_text("".join(f"{line}\n" for line in lines))
    if storage._PLAIN_CONFIG.fullmatch(path.read_bytes()):
        try:
            config = pygit2.Config(str(path))
        except pygit2.GitError:
            return
        assert "extensions.objectformat" not in config and "extensions.refstorage" not in config


def test_a_large_config_takes_little_memory(repo: Path) -> None:
    path = repo / "config"
    path.write_bytes(path.read_bytes() + b"a=\n" * 2_500_000)

    def work() -> None:
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + (900 << 20), used + (900 << 20)))
        Store(repo)

    assert forked(work) == 0


def test_a_config_of_empty_lines_is_searched_once(repo: Path) -> None:
    (repo / "config").write_bytes(b"\n" * 2_000_000 + b'[remote "o"]\n\tfetch = +refs/*:refs/*\n')
    with pytest.raises(UsageError, match="only be read"):
        Store(repo).check_writable()


def test_reading_a_journal_loads_no_libgit2(journal: Journal) -> None:
    script = (
        "import sys, gitjournal; j = gitjournal.open(sys.argv[1]); list(j.sessions()); list(j.events('journal'));"
        "sys.exit('pygit2' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", script, journal.path], check=True)
