"""Pages: what is alike is deflated together, git reads it as any pack, and no file is taken for a page."""

from __future__ import annotations

import base64
import io
import subprocess
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import fsck, git, git_text
from test_repack import key, objects

import gitjournal
from gitjournal import Journal, pack, packread, pages
from gitjournal.errors import VerificationError
from gitjournal.formats import import_file
from gitjournal.formats.exporter import export_raw
from gitjournal.objects import git_id
from gitjournal.refs import Name
from gitjournal.verify import verify

DEMO = Path(__file__).resolve().parents[1] / "gitjournal" / "demo" / "session.jsonl"
SECRET = bytes(32)
WHO = {f"GIT_{who}_{what}": "x" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
TREE = b"tree " + b"1" * 40 + b"\n"


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    made = gitjournal.init(tmp_path / "journal.git")
    import_file(made, DEMO, session="demo")
    return made


def page_of(journal: Journal) -> bytes:
    """Some page of blobs."""
    for path in journal.store.pack_folder.glob("*.pack"):
        one = packread.Pack(path)
        for oid, _, offset in one.entries():
            kind, content = one.read_at(offset)
            if kind == b"blob" and pages.is_page(content, key(journal)):
                assert git_id(kind, content) == oid
                return content
    raise AssertionError("there is no page")


def attached(journal: Journal, content: bytes) -> bytes:
    """Record a message with this file, and give the id of its blob."""
    part = {"type": "blob", "mime_type": "image/png", "content": base64.b64encode(content).decode()}
    with journal.session("other", create=True) as session:
        session.append("message", {"role": "user", "parts": [part]}, actor="user")
    return git_id(b"blob", content)


def test_git_reads_what_is_on_pages(journal: Journal) -> None:
    page_of(journal)
    fsck = subprocess.run(
        ["git", "-C", str(journal.path), "fsck", "--full", "--strict", "--no-dangling"], capture_output=True, text=True
    )
    assert (fsck.returncode, fsck.stdout, fsck.stderr) == (0, "", "")
    assert not verify(journal, "demo").findings
    out = io.BytesIO()
    export_raw("claude-code", journal, Name("demo"), out)
    assert out.getvalue() == DEMO.read_bytes()


def test_git_gc_and_a_clone_are_without_pages_and_whole(journal: Journal, tmp_path: Path) -> None:
    before = objects(journal)
    subprocess.run(["git", "clone", "-q", "--bare", f"file://{journal.path}", str(tmp_path / "clone.git")], check=True)
    clone = gitjournal.open(tmp_path / "clone.git")
    assert not verify(clone, "demo").findings and objects(clone) == before
    subprocess.run(["git", "-C", str(journal.path), "gc", "-q", "--prune=now"], check=True)
    again = gitjournal.open(journal.path)
    assert not verify(again, "demo").findings and objects(again) == before
    with pytest.raises(AssertionError):
        page_of(again)


def test_new_pages_take_the_place_of_old_ones(journal: Journal) -> None:
    old = page_of(journal)
    with journal.session("demo") as session:
        session.user("one more, so that the page is another")
    before = objects(journal)
    journal.store.repack()
    assert objects(journal) == before
    with pytest.raises(VerificationError, match="not there"):
        gitjournal.open(journal.path).store.read(git_id(b"blob", old), b"blob")


def test_attack_a_file_that_is_made_to_look_like_a_page(journal: Journal) -> None:
    oid = attached(journal, b"gitjournal page\n" + b"0" * 32 + b"\n" + b"what would be lost " * 10)
    for _ in range(2):
        journal.store.repack()
    assert gitjournal.open(journal.path).store.read(oid, b"blob").endswith(b"be lost ")


def test_attack_a_file_that_repeats_a_page_of_this_journal(journal: Journal) -> None:
    page = page_of(journal)
    oid = attached(journal, page)
    assert git_id(b"blob", page) == oid
    for _ in range(3):
        journal.store.repack()
        journal = gitjournal.open(journal.path)
        assert git_id(b"blob", journal.store.read(oid, b"blob")) == oid
    assert not any(verify(journal, name).findings for name in journal.sessions())


def rescued(journal: Journal, kind: str) -> str:
    """The id of a page, which git calls dangling."""
    listed = git_text("fsck", cwd=journal.path).splitlines()
    return next(line.split()[2] for line in listed if line.startswith(f"dangling {kind} "))


def test_a_page_that_somebody_gave_a_name_stays(journal: Journal) -> None:
    branch, tag = rescued(journal, "commit"), rescued(journal, "blob")
    git("branch", "rescue", branch, cwd=journal.path)
    git("tag", "kept", tag, cwd=journal.path)
    before = objects(journal)
    for _ in range(2):
        journal.store.repack()
        fsck(journal.path)
    assert git_text("cat-file", "-t", "kept", cwd=journal.path) == "blob"
    assert git_text("rev-parse", "rescue", cwd=journal.path) == branch and before == objects(journal)


@pytest.mark.parametrize("kept", [False, True])
def test_a_page_in_a_tree_elsewhere_stays(journal: Journal, kept: bool) -> None:
    page = rescued(journal, "blob")
    tree = git_text("mktree", cwd=journal.path, stdin=f"100644 blob {page}\tf\n".encode())
    commit = git_text("commit-tree", "-m", "x", tree, cwd=journal.path, env=WHO)
    git("update-ref", "refs/other/x", commit, cwd=journal.path)
    if kept:
        made = git_text("pack-objects", "objects/pack/pack", cwd=journal.path, stdin=f"{tree}\n{commit}\n".encode())
        (journal.store.pack_folder / f"pack-{made}.keep").write_text("mine")
        git("prune-packed", cwd=journal.path)
    for _ in range(2):
        journal.store.repack()
        fsck(journal.path)


def test_a_page_in_the_index_of_a_linked_work_tree_stays(journal: Journal, tmp_path: Path) -> None:
    page, commit = rescued(journal, "blob"), rescued(journal, "commit")
    git("branch", "x", commit, cwd=journal.path)
    git("worktree", "add", "-q", "--no-checkout", str(tmp_path / "wt"), "x", cwd=journal.path)
    git_text("update-index", "--index-info", cwd=tmp_path / "wt", stdin=f"100644 {page} 0\tf\n".encode())
    for _ in range(2):
        journal.store.repack()
        assert git_text("cat-file", "-t", page, cwd=journal.path) == "blob"
    git("gc", "-q", cwd=journal.path)
    fsck(journal.path)


def test_pages_that_git_gc_has_made_loose_are_removed(journal: Journal) -> None:
    before = objects(journal)
    git("gc", "-q", cwd=journal.path)
    loose = list((journal.path / "objects").glob("??/*"))
    assert loose
    gitjournal.open(journal.path).store.repack()
    assert not [path for path in loose if path.exists()] and objects(journal) == before


def test_git_does_not_pack_a_journal_by_itself(journal: Journal) -> None:
    assert git_text("config", "gc.auto", cwd=journal.path) == "0"


def test_tags_are_packed_as_well(journal: Journal) -> None:
    git("tag", "-a", "-m", "a tag", "v1", "refs/heads/demo/main", cwd=journal.path, env=WHO)
    git("repack", "-q", cwd=journal.path)
    before = objects(journal)
    journal.store.repack()
    assert objects(journal) == before and any(kind == "tag" for kind, _ in before.values())


def test_without_its_key_a_journal_is_whole_and_pages_are_kept_as_files(journal: Journal) -> None:
    page, before = page_of(journal), objects(journal)
    (journal.path / "gitjournal" / "pages.key").write_bytes(b"cut")
    journal.store.repack()
    assert before.items() < objects(journal).items()
    assert gitjournal.open(journal.path).store.read(git_id(b"blob", page), b"blob") == page


@pytest.mark.parametrize("found", [b"", b"cut", bytes(33)], ids=["empty", "cut", "too-long"])
def test_attack_a_key_that_anybody_could_guess(tmp_path: Path, found: bytes) -> None:
    path = tmp_path / "pages.key"
    path.write_bytes(found)
    made = pages.key(path)
    assert len(made) == 32 and made != found and path.read_bytes() == made == pages.key(path)
    assert path.stat().st_mode & 0o077 == 0


def test_erased_bytes_are_on_no_page(journal: Journal) -> None:
    from gitjournal.erase import erase

    event = next(event for event in journal.events("demo") if event.files and event.type == "message")
    raw = event.read_file(1)
    erase(journal, "demo", [event.seq], "asked for")
    left = subprocess.run(
        ["git", "-C", str(journal.path), "cat-file", "--batch-all-objects", "--batch"], capture_output=True, check=True
    ).stdout
    assert raw not in left


def written(folder: Path, items: list[tuple[int, bytes]]) -> list[tuple[bytes, bytes]]:
    """Kind and content of what is in a pack of these objects that is not one of them: its pages."""
    kinds = {pack.BLOB: b"blob", pack.COMMIT: b"commit"}
    path = pages.write(folder, [(n, git_id(kinds[n], data), data) for n, data in items], SECRET, sync=False)
    read = packread.Pack(path)
    found = [read.read_at(offset) for _, _, offset in read.entries()]
    return [(kind, content) for kind, content in found if pages.is_page(content, SECRET)]


@pytest.mark.parametrize(("count", "made"), [(3, 0), (4, 1)])
def test_a_few_objects_are_not_worth_a_page(tmp_path: Path, count: int, made: int) -> None:
    assert len(written(tmp_path, [(pack.BLOB, b"%d" % n + b"words " * 20) for n in range(count)])) == made


def test_a_commit_in_which_git_would_find_a_fault_is_on_no_page(tmp_path: Path) -> None:
    good = [(pack.COMMIT, TREE + b"words " * 20 + b"%d" % n) for n in range(4)]
    # A page of commits is a commit as well, and of a NUL in one ``git fsck --strict`` complains.
    bad = [(pack.COMMIT, TREE + b"a NUL: \0" * 9), (pack.COMMIT, b"no tree " * 20)]
    [(kind, content)] = written(tmp_path, [*good[:2], *bad, *good[2:]])
    assert kind == b"commit" and content.endswith(b"".join(data for _, data in good)) and b"\0" not in content


OBJECTS = st.lists(
    st.tuples(
        st.sampled_from([pack.BLOB, pack.COMMIT]),
        st.binary(max_size=200) | st.builds(bytes, st.integers(0, 70_000)) | st.binary(max_size=90).map(TREE.__add__),
    ),
    max_size=30,
)


@given(OBJECTS)
@settings(max_examples=100, deadline=None)
def test_any_objects_are_read_back(tmp_path_factory: pytest.TempPathFactory, items: list[tuple[int, bytes]]) -> None:
    kinds = {pack.BLOB: b"blob", pack.COMMIT: b"commit"}
    made = {git_id(kinds[number], data): (number, data) for number, data in items}
    folder = tmp_path_factory.mktemp("packs")
    path = pages.write(folder, [(number, oid, data) for oid, (number, data) in made.items()], SECRET, sync=False)
    read = packread.Pack(path)
    offsets = sorted(offset for _, _, offset in read.entries())
    assert all(a < b for a, b in pairwise(offsets))
    found = {oid: read.read_at(offset) for oid, _, offset in read.entries()}
    assert all(git_id(kind, content) == oid for oid, (kind, content) in found.items())
    whole = {oid: entry for oid, entry in found.items() if not pages.is_page(entry[1], SECRET)}
    assert whole == {oid: (kinds[number], data) for oid, (number, data) in made.items()}
    check = subprocess.run(["git", "index-pack", "--verify", str(path)], capture_output=True, text=True)
    assert check.returncode == 0, check.stderr
