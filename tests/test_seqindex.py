"""The index of commit ids: a hint that may be missing, stale, cut or garbage, and then says nothing."""

from __future__ import annotations

import os
import struct
from hashlib import sha1
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import fork, wait

from gitjournal.seqindex import SeqIndex

HEADER = 20


def ids(first: int, count: int, line: bytes = b"") -> list[bytes]:
    return [sha1(b"%s%d" % (line, seq)).digest() for seq in range(first, first + count)]


@pytest.fixture
def index(tmp_path: Path) -> SeqIndex:
    return SeqIndex(tmp_path / "index" / "s" / "main.seq")


def test_no_file_says_nothing(index: SeqIndex) -> None:
    assert index.bounds() is None and index.get(1) is None and index.slice(1, 5) == []


def test_what_was_written_is_read(index: SeqIndex) -> None:
    index.replace(1, ids(1, 5))
    assert index.bounds() == (1, 5, ids(5, 1)[0]) and index.slice(1, 5) == ids(1, 5) and index.slice(2, 3) == ids(2, 2)
    assert [index.get(seq) for seq in range(7)] == [None, *ids(1, 5), None]
    assert index.slice(4, 99) == ids(4, 2) and index.slice(0, 3) == [] and index.slice(6, 9) == []
    assert index.path.stat().st_size == HEADER + 5 * 20


def test_a_branch_begins_at_its_own_first_event(index: SeqIndex) -> None:
    index.replace(1000, ids(1000, 3))
    assert (
        index.bounds() == (1000, 1002, ids(1002, 1)[0])
        and index.get(999) is None
        and index.get(1001) == ids(1001, 1)[0]
    )
    index.extend(1003, ids(1003, 2), ids(1002, 1)[0])
    assert index.bounds() == (1000, 1004, ids(1004, 1)[0]) and index.slice(1000, 1004) == ids(1000, 5)


@given(st.lists(st.integers(1, 40), min_size=1, max_size=8), st.integers(1, 99_999_000))
def test_growing_step_by_step_is_writing_at_once(
    tmp_path_factory: pytest.TempPathFactory, steps: list[int], first: int
) -> None:
    index = SeqIndex(tmp_path_factory.mktemp("seq") / "x.seq")
    at, parent = first, None
    for step in steps:
        index.extend(at, ids(at, step), parent)
        at += step
        parent = ids(at - 1, 1)[0]
    assert index.slice(first, at) == ids(first, at - first) and index.bounds() == (first, at - 1, parent)


def test_a_stale_index_is_left_alone(index: SeqIndex) -> None:
    index.replace(1, ids(1, 5))
    before = index.path.read_bytes()
    other = ids(5, 1, b"other")[0]
    index.extend(6, ids(6, 1), other)  # the ref went another way
    index.extend(6, ids(6, 1), None)
    index.extend(7, ids(7, 1), ids(6, 1)[0])  # a gap
    index.extend(5, ids(5, 1), ids(4, 1)[0])  # a step back
    assert index.path.read_bytes() == before


def test_an_index_is_made_anew_in_one_step(index: SeqIndex) -> None:
    index.replace(1, ids(1, 50))
    with index.path.open("rb") as reader:
        index.replace(1, ids(1, 3, b"other"))
        assert reader.read()[HEADER:] == b"".join(ids(1, 50))
    assert index.slice(1, 99) == ids(1, 3, b"other") and [path.name for path in index.path.parent.iterdir()] == [
        "main.seq"
    ]


def test_a_cut_index_says_what_is_whole(index: SeqIndex) -> None:
    index.replace(3, ids(3, 4))
    raw = index.path.read_bytes()
    for size in range(len(raw)):
        index.path.write_bytes(raw[:size])
        whole = max(size - HEADER, 0) // 20
        assert index.bounds() == ((3, 2 + whole, ids(2 + whole, 1)[0]) if whole else None)
        assert [index.get(seq) for seq in range(3, 7)] == [*ids(3, whole), *[None] * (4 - whole)]
        index.extend(3 + whole, ids(3 + whole, 2), ids(2 + whole, 1)[0])
        # Where nothing is left, only the beginning of a branch begins a file.
        if whole:
            assert index.slice(3, 4 + whole) == ids(3, whole + 2)
        else:
            assert index.get(3) is None


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"x",
        b"\x00" * 20,
        b"\x00" * 400,
        b"gjseq\x00\x00\x02" + bytes(400),
        b"gjseq\x00\x00\x01",
        os.urandom(333),
        b"gjseq\x00\x00\x01" + b"\xff" * 12,
    ],
)
def test_garbage_says_nothing_and_is_made_anew(index: SeqIndex, raw: bytes) -> None:
    index.path.parent.mkdir(parents=True)
    index.path.write_bytes(raw)
    assert index.bounds() is None and index.get(1) is None and index.slice(1, 3) == []
    index.extend(4, ids(4, 2), None)
    assert index.slice(4, 5) == ids(4, 2)


@pytest.mark.parametrize("first", [0, 2**63, 2**64 - 1])
def test_a_first_seq_of_nonsense_is_no_error(index: SeqIndex, first: int) -> None:
    index.path.parent.mkdir(parents=True)
    index.path.write_bytes(b"gjseq\x00\x00\x01" + struct.pack(">Q", first) + bytes(4) + b"".join(ids(1, 3)))
    assert index.get(1) in (None, ids(2, 1)[0])
    index.bounds()
    index.slice(1, 99_999_999)
    index.extend(4, ids(4, 1), ids(3, 1)[0])


def test_a_folder_in_the_way_is_no_error(index: SeqIndex) -> None:
    index.path.mkdir(parents=True)
    index.replace(1, ids(1, 2))
    index.extend(1, ids(1, 2), None)
    assert index.bounds() is None and index.get(1) is None
    (index.path.parent / "file").touch()
    nowhere = SeqIndex(index.path.parent / "file" / "x.seq")
    nowhere.replace(1, ids(1, 2))
    assert nowhere.bounds() is None


def test_readers_beside_a_writer_see_no_wrong_id(index: SeqIndex) -> None:
    index.replace(1, ids(1, 10))
    stop = index.path.parent / "stop"

    def read() -> None:
        known = ids(1, 400)
        while not stop.exists():
            bounds = index.bounds()
            assert bounds is None or (bounds[0] == 1 and bounds[2] == known[bounds[1] - 1])
            found = index.slice(1, 400)
            assert [one for one in found if len(one) == 20] == known[: len([one for one in found if len(one) == 20])]

    pid = fork(read)
    for first in range(11, 400):
        index.extend(first, ids(first, 1), ids(first - 1, 1)[0])
        if first % 50 == 0:
            index.replace(1, ids(1, first))
    stop.touch()
    assert wait(pid) == 0 and index.slice(1, 399) == ids(1, 399)
