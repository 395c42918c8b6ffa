"""Packing anew: no object is lost, whatever happens meanwhile, and it takes less space."""

from __future__ import annotations

import hashlib
import os
import random
import subprocess
import time
import tracemalloc
import zlib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import git_text

import gitjournal
from gitjournal import Journal, likeness, pack, packread, pages, repack
from gitjournal.errors import StorageError, VerificationError
from gitjournal.formats import import_file
from gitjournal.verify import verify

DEMO = Path(__file__).resolve().parents[1] / "gitjournal" / "demo" / "session.jsonl"


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    made = gitjournal.init(tmp_path / "journal.git")
    for name in ("a", "b"):
        import_file(made, DEMO, session=name)
        with made.session(name) as session:
            for n in range(120):
                session.user(f"question {n} of {name}")
    return made


def objects(journal: Journal) -> dict[str, tuple[str, bytes]]:
    """Kind and content of all objects as git reads them, by id, but for pages."""
    raw = subprocess.run(
        ["git", "-C", str(journal.path), "cat-file", "--batch-all-objects", "--batch"], capture_output=True, check=True
    ).stdout
    found, at = {}, 0
    while at < len(raw):
        end = raw.index(b"\n", at)
        oid, kind, size = raw[at:end].decode().split()
        content = raw[end + 1 : end + 1 + int(size)]
        at = end + 2 + int(size)
        if not pages.is_page(content, key(journal)):
            found[oid] = kind, content
    return found


def key(journal: Journal) -> bytes:
    return pages.key(journal.path / "gitjournal" / "pages.key")


def fsck(journal: Journal) -> str:
    run = subprocess.run(["git", "-C", str(journal.path), "fsck", "--full", "--strict"], capture_output=True, text=True)
    return (run.stdout + run.stderr if run.returncode else "").strip()


def packs(journal: Journal) -> list[Path]:
    return sorted(journal.store.pack_folder.glob("*.pack"))


def test_all_objects_are_there_and_take_less(journal: Journal) -> None:
    before, events = objects(journal), [event.raw for event in journal.events("a")]
    told: list[tuple[int, int]] = []
    saved = journal.store.repack(lambda *done: told.append(done))
    assert saved is not None and saved.after < 0.9 * saved.before and saved.objects == len(before)
    assert objects(journal) == before and fsck(journal) == ""
    assert len(packs(journal)) == 1
    assert [event.raw for event in journal.events("a")] == events
    assert not any(verify(gitjournal.open(journal.path), name).findings for name in ("a", "b"))
    again = journal.store.repack()
    assert again is not None and again.after <= saved.after and objects(journal) == before


def test_what_git_has_packed_is_packed_too(journal: Journal) -> None:
    before = objects(journal)
    subprocess.run(["git", "-C", str(journal.path), "gc", "-q"], check=True)
    assert list(journal.store.pack_folder.glob("*.bitmap"))
    saved = journal.store.repack()
    assert saved is not None and len(packs(journal)) == 1 and not list(journal.store.pack_folder.glob("*.bitmap"))
    assert objects(journal) == before and fsck(journal) == ""


def test_a_writer_goes_on_meanwhile_and_its_tail_stays(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    real = repack._check
    with journal.session("a") as session:
        session.user("in the tail")

        def meanwhile(path: Path) -> None:
            session.user("while it packs")
            session.flush()
            session.user("and after that")
            real(path)

        monkeypatch.setattr(repack, "_check", meanwhile)
        assert gitjournal.open(journal.path).store.repack() is not None
        session.user("and at the end")
    messages = [event.data for event in journal.events("a") if event.type == "message"]
    said = [data["parts"][0]["content"] for data in messages][-4:]
    assert said == ["in the tail", "while it packs", "and after that", "and at the end"]
    assert fsck(journal) == "" and len(packs(journal)) > 1


def test_what_nothing_leads_to_is_kept(journal: Journal) -> None:
    before = objects(journal)
    ref = "refs/heads/b/main"
    journal.store.cas_ref(ref, journal.store.read_ref(ref), None)
    journal.store.repack()
    assert objects(journal) == before


def test_packs_of_others_are_left_alone(journal: Journal) -> None:
    kept, *_ = packs(journal)
    kept.with_suffix(".keep").write_text("mine")
    journal.store.repack()
    assert kept in packs(journal) and fsck(journal) == ""


def test_a_second_process_passes(journal: Journal) -> None:
    from gitjournal import tiers

    with tiers.only_one(journal.path / "gitjournal" / "fold.lock"):
        assert journal.store.repack() is None


def test_a_run_that_was_cut_leaves_every_object(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    before = objects(journal)

    def cut(path: Path) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(repack, "_check", cut)
        with pytest.raises(KeyboardInterrupt):
            journal.store.repack()
    assert objects(journal) == before and fsck(journal) == ""
    assert journal.store.repack() is not None
    assert objects(journal) == before and len(packs(journal)) == 1


def test_a_damaged_object_stops_it_and_nothing_changes(journal: Journal) -> None:
    path = max(packs(journal), key=lambda path: path.stat().st_size)
    raw = bytearray(path.read_bytes())
    raw[len(raw) // 2] ^= 0xFF
    path.chmod(0o600)
    path.write_bytes(raw)
    names = packs(journal)
    with pytest.raises(VerificationError):
        gitjournal.open(journal.path).store.repack()
    assert packs(journal) == names and path.read_bytes() == raw
    assert not list(journal.store.pack_folder.glob("tmp_*"))


def test_a_new_pack_that_reads_back_wrong_removes_nothing(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    names = packs(journal)
    real = pack.copied
    monkeypatch.setattr(pack, "copied", lambda size, at, count: real(size, at + 1, count))
    with pytest.raises(VerificationError):
        journal.store.repack()
    assert packs(journal) == names


def test_a_pack_that_would_be_the_same_again_stays_when_it_cannot_be_checked(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    def bad(_: Path) -> None:
        raise VerificationError("bad-object", "a bad sector")

    journal.store.repack()
    journal.store.repack()
    names, before = packs(journal), objects(journal)
    journal.store.repack()
    assert packs(journal) == names, "it is written under the name that it has"
    monkeypatch.setattr(repack, "_check", bad)
    with pytest.raises(VerificationError, match="a bad sector"):
        journal.store.repack()
    assert packs(journal) == names and objects(journal) == before


def foreign(journal: Journal, content: bytes) -> str:
    """A blob of somebody else's in a pack of its own; its id."""
    oid = git_text("hash-object", "-w", "--stdin", cwd=journal.path, stdin=content)
    git_text("pack-objects", "-q", "objects/pack/pack", cwd=journal.path, stdin=f"{oid}\n".encode())
    (journal.path / "objects" / oid[:2] / oid[2:]).unlink()
    return oid


def test_a_large_object_of_somebody_else_is_written_piece_by_piece(journal: Journal) -> None:
    oid = foreign(journal, random.Random(1).randbytes(20_000_000))
    before = objects(journal)
    tracemalloc.start()
    try:
        saved = journal.store.repack()
        assert tracemalloc.get_traced_memory()[1] < 10_000_000
    finally:
        tracemalloc.stop()
    assert saved is not None and len(packs(journal)) == 1
    assert oid in before and objects(journal) == before and fsck(journal) == ""


@pytest.mark.parametrize("by_git", [False, True])
def test_what_counts_as_large_changes_no_object(
    journal: Journal, monkeypatch: pytest.MonkeyPatch, by_git: bool
) -> None:
    for n in range(3):
        foreign(journal, bytes(range(256)) * 40 + b"%d" % n)
    if by_git:
        # Then large ones are deltas of others.
        subprocess.run(["git", "-C", str(journal.path), "repack", "-adfkq"], check=True)
    before = objects(journal)
    monkeypatch.setattr(repack, "_LARGE", 400)
    for _ in range(2):
        journal.store.repack()
        assert objects(journal) == before and fsck(journal) == "" and len(packs(journal)) == 1


@pytest.mark.parametrize("spoilt", [b"another", b"x" * 10_000])
def test_a_large_object_that_is_not_what_its_id_says_stops_it(
    journal: Journal, monkeypatch: pytest.MonkeyPatch, spoilt: bytes
) -> None:
    path = pack.write(journal.store.pack_folder, [(pack.BLOB, bytes(20), spoilt * 300)])
    names = packs(journal)
    monkeypatch.setattr(repack, "_LARGE", 1000)
    with pytest.raises(VerificationError, match="not what its id says"):
        journal.store.repack()
    assert packs(journal) == names and path in names
    assert not list(journal.store.pack_folder.glob("tmp_*"))


def test_a_large_object_that_is_cut_stops_it(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    content = random.Random(1).randbytes(300_000)
    oid = foreign(journal, content)
    path = next(path for path in packs(journal) if path.stat().st_size > len(content))
    path.chmod(0o600)
    with path.open("r+b") as file:
        file.seek(200_000)
        file.write(bytes(1000))
    names = packs(journal)
    monkeypatch.setattr(repack, "_LARGE", 1000)
    with pytest.raises(VerificationError, match=oid):
        journal.store.repack()
    assert packs(journal) == names


def test_attack_a_size_that_is_hashed_but_is_not_that_of_the_content(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    content, claimed = b"y" * 5000, 4000
    oid = hashlib.sha1(b"blob %d\x00" % claimed + content).digest()
    entry = pack.entry_header(pack.BLOB, claimed) + zlib.compress(content)

    def fill(out: pack.Out) -> Any:
        out.add(oid, entry)
        return out.entries

    pack.publish(journal.store.pack_folder, 1, fill, None, False)
    monkeypatch.setattr(repack, "_LARGE", 1000)
    with pytest.raises(VerificationError, match=oid.hex()):
        journal.store.repack()


def test_a_large_journal_is_packed_into_several_packs(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    before = objects(journal)
    old = packs(journal)
    monkeypatch.setattr(repack, "_MOST_OBJECTS", len(before) // 3)
    monkeypatch.setattr(packread, "_MOST_SORTED", 40)
    saved = journal.store.repack()
    assert saved is not None and saved.objects == len(before) and 3 <= len(packs(journal)) <= 4
    assert not set(old) & set(packs(journal)) and objects(journal) == before and fsck(journal) == ""
    assert saved.after == sum(path.stat().st_size for path in journal.store.pack_folder.glob("*.*"))
    again = journal.store.repack()
    assert again is not None and objects(journal) == before and fsck(journal) == ""


def test_of_several_packs_none_stays_when_one_cannot_be_written(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    names, before = packs(journal), objects(journal)
    monkeypatch.setattr(repack, "_MOST_OBJECTS", len(before) // 3)
    real = pack.publish
    done: list[Path] = []

    def full(*args: Any, **more: Any) -> Path:
        if done:
            raise OSError(28, "No space left on device")
        done.append(real(*args, **more))
        return done[0]

    monkeypatch.setattr(pack, "publish", full)
    with pytest.raises(StorageError):
        journal.store.repack()
    assert done and packs(journal) == names and objects(journal) == before


def test_a_tree_of_which_one_copy_instruction_does_not_reach_to_the_end_is_whole() -> None:
    writing = repack._Writing([], b"", set, None)
    content = bytes(pack.MOST_COPIED)
    for more, expected in ((200, pack.TREE), (100, pack.OFS_DELTA), (201, pack.TREE)):
        assert writing._tree(content + b"x" * more, 1000)[0] >> 4 & 7 == expected


def test_what_several_packs_have_is_written_once(journal: Journal) -> None:
    oid = foreign(journal, b"words " * 100)
    pack.write(journal.store.pack_folder, [(pack.BLOB, bytes.fromhex(oid), b"words " * 100)])
    before = objects(journal)
    saved = journal.store.repack()
    assert saved is not None and saved.objects == len(before)
    assert objects(journal) == before and fsck(journal) == ""


def test_what_is_finished_while_it_is_looked_for_and_folders_are_not_left_over(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = journal.store.pack_folder
    old = (time.time() - 7200,) * 2
    for name in ("tmp_pack_left", "tmp_pack_done"):
        (folder / name).write_bytes(b"PACK")
        os.utime(folder / name, old)
    (folder / "tmp_dir").mkdir()
    os.utime(folder / "tmp_dir", old)
    whole = Path.lstat

    def lstat(path: Path) -> os.stat_result:
        if path.name == "tmp_pack_done":
            path.unlink(missing_ok=True)
        return whole(path)

    monkeypatch.setattr(Path, "lstat", lstat)
    assert repack.left_over(folder) == {folder / "tmp_pack_left": 4}
    assert journal.store.repack() is not None
    assert sorted(path.name for path in folder.glob("tmp_*")) == ["tmp_dir"]


PIECES = st.lists(
    st.sampled_from([b'"', b" ", b"tree ", b"words", b'"id":"x",', b"\0" * 40, b"\xff", b"ab" * 90]), max_size=20
).map(b"".join)


class _Said:
    def __init__(self, other: bytes) -> None:
        self.other, self.made, self.last = other, b"", 0

    def copy(self, at: int, size: int) -> None:
        assert at >= self.last
        self.made, self.last = self.made + self.other[at : at + size], at

    def text(self, raw: bytes) -> None:
        self.made += raw


@given(PIECES, PIECES)
@settings(max_examples=300, deadline=None)
def test_a_text_is_what_is_said_of_it(ours: bytes, theirs: bytes) -> None:
    said: Any = _Said(theirs)
    likeness.describe(said, ours, theirs)
    assert said.made == ours
