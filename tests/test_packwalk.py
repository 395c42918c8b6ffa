"""Objects one behind the other in a pack: all of them, in order, wherever windows end; what is odd ends the walk."""

from __future__ import annotations

import os
import random
from collections.abc import Generator
from pathlib import Path

import pytest

from gitjournal import pack, packwalk
from gitjournal.objects import git_id
from gitjournal.packread import BadPack, Pack

MOST = 10_000_000
SIZES = (0, 1, 15, 16, 63, 64, 2047, 2048, 5000, 40_000, 300_000)


def blobs(seed: int, count: int = 60) -> list[bytes]:
    """Texts that deflate, and bytes that do not."""
    rng = random.Random(seed)
    made = []
    for number in range(count):
        size = rng.choice(SIZES[:-2] if number % 10 else SIZES)
        made.append(rng.randbytes(size) if rng.random() < 0.3 else (b"%d, " % number * size)[:size])
    return list(dict.fromkeys(made))


def written(folder: Path, contents: list[bytes]) -> Path:
    return pack.write(folder, [(pack.BLOB, git_id(b"blob", one), one) for one in contents], sync=False)


def walked(walk: Generator[tuple[bytes, bytes, int], None, int]) -> tuple[list[bytes], int]:
    found = []
    while True:
        try:
            kind, content, _ = next(walk)
        except StopIteration as end:
            return found, end.value
        assert kind == b"blob"
        found.append(content)


@pytest.mark.parametrize("window", [100, 3000, 128 * 1024])
@pytest.mark.parametrize("seed", range(4))
def test_all_that_lies_behind_an_object_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int, window: int
) -> None:
    monkeypatch.setattr(packwalk, "WINDOW", window)
    contents = blobs(seed)
    opened = Pack(written(tmp_path, contents))
    first = opened.offset(git_id(b"blob", contents[0]))
    assert first is not None
    found = []
    with pytest.raises(BadPack):  # there is nothing behind the last one
        found.extend(opened.behind(first))
    assert found == [(b"blob", content, opened.offset(git_id(b"blob", content))) for content in contents[1:]]


def test_a_walk_says_where_it_ended(tmp_path: Path) -> None:
    contents = [b"one" * 50, b"two" * 50, b"three" * 50]
    path = written(tmp_path, contents)
    opened = Pack(path)
    offsets = [opened.offset(git_id(b"blob", one)) for one in contents]
    with path.open("rb") as file:
        assert walked(packwalk.walk(file.fileno(), offsets[0] or 0, MOST)) == (contents, path.stat().st_size - 20)
        assert walked(packwalk.walk(file.fileno(), offsets[1] or 0, 152)) == (
            [contents[1], contents[2]][:1],
            offsets[2],
        )
        assert walked(packwalk.walk(file.fileno(), 1 << 40, MOST)) == ([], 1 << 40)


@pytest.mark.parametrize(
    "entry",
    [
        b"",
        b"\xff" * 200,
        b"\xb0" + b"\xff" * 5,
        b"\x33abc",
        b"\x03abc",
        b"\x63\x01abc",
        b"\x34" + pack._deflate(b"abc"),
        b"\x32" + pack._deflate(b"abc"),
        b"\x33" + pack._deflate(b"abc")[:-1] + b"?",
    ],
    ids=["nothing", "no end of size", "cut", "no stream", "kind 0", "delta", "too short", "too long", "bad sum"],
)
def test_what_is_odd_ends_the_walk(tmp_path: Path, entry: bytes) -> None:
    path = tmp_path / "odd"
    good = b"\x33" + pack._deflate(b"abc")
    path.write_bytes(good + entry + b"\0" * 300)
    with path.open("rb") as file:
        assert walked(packwalk.walk(file.fileno(), 0, MOST)) == ([b"abc"], len(good))


def test_a_bomb_is_not_inflated(tmp_path: Path) -> None:
    path = tmp_path / "bomb"
    bomb = pack.entry_header(pack.BLOB, 3) + pack._deflate(bytes(50_000_000))
    path.write_bytes(bomb + os.urandom(200))
    with path.open("rb") as file:
        assert walked(packwalk.walk(file.fileno(), 0, MOST)) == ([], 0)
