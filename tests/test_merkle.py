"""The Merkle tree: vectors of Certificate Transparency, RFC 9162 written down naively, and proofs that are wrong."""

from __future__ import annotations

from functools import cache
from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitjournal import merkle
from gitjournal.errors import UsageError
from gitjournal.merkle import Frontier, leaf_hash, node_hash, verify_consistency, verify_inclusion

# The leaves, roots (of sizes 1 to 8) and proofs that implementations of Certificate Transparency are tested with.
CT_LEAVES = [
    bytes.fromhex(text)
    for text in ("", "00", "10", "2021", "3031", "40414243", "5051525354555657", "606162636465666768696a6b6c6d6e6f")
]
CT_ROOTS = [
    bytes.fromhex(text)
    for text in (
        "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
        "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
        "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
        "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
        "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
        "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
        "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
        "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
    )
]
CT_INCLUSION = {
    (0, 8): "96a296d224f285c67bee93c30f8a309157f0daa35dc5b87e410b78630a09cfc7"
    "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e"
    "6b47aaf29ee3c2af9af889bc1fb9254dabd31177f16232dd6aab035ca39bf6e4",
    (5, 8): "bc1a0643b12e4d2d7c77918f44e0f4f79a838b6cf9ec5b5c283e1f4d88599e6b"
    "ca854ea128ed050b41b35ffc1b87b8eb2bde461e9e3b5596ece6b9d5975a0ae0"
    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    (2, 3): "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    (1, 5): "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d"
    "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e"
    "bc1a0643b12e4d2d7c77918f44e0f4f79a838b6cf9ec5b5c283e1f4d88599e6b",
}
CT_CONSISTENCY = {
    (1, 8): CT_INCLUSION[0, 8],
    (6, 8): "0ebc5d3437fbe2db158b9f126a1d118e308181031d0a949f8dededebc558ef6a"
    "ca854ea128ed050b41b35ffc1b87b8eb2bde461e9e3b5596ece6b9d5975a0ae0"
    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    (2, 5): "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e"
    "bc1a0643b12e4d2d7c77918f44e0f4f79a838b6cf9ec5b5c283e1f4d88599e6b",
}

LEAVES = tuple(sha256(b"%d" % n).digest() for n in range(130))
JOINED = b"".join(LEAVES)


# --- RFC 9162 section 2.1, word for word -----------------------------------------------------------


def split(n: int) -> int:
    k = 1
    while 2 * k < n:
        k *= 2
    return k


@cache
def mth(leaves: tuple[bytes, ...]) -> bytes:
    if not leaves:
        return sha256(b"").digest()
    if len(leaves) == 1:
        return sha256(b"\x00" + leaves[0]).digest()
    k = split(len(leaves))
    return sha256(b"\x01" + mth(leaves[:k]) + mth(leaves[k:])).digest()


def path(m: int, leaves: tuple[bytes, ...]) -> list[bytes]:
    if len(leaves) == 1:
        return []
    k = split(len(leaves))
    return [*path(m, leaves[:k]), mth(leaves[k:])] if m < k else [*path(m - k, leaves[k:]), mth(leaves[:k])]


def subproof(m: int, leaves: tuple[bytes, ...], known: bool = True) -> list[bytes]:
    if m == len(leaves):
        return [] if known else [mth(leaves)]
    k = split(len(leaves))
    if m <= k:
        return [*subproof(m, leaves[:k], known), mth(leaves[k:])]
    return [*subproof(m - k, leaves[k:], False), mth(leaves[:k])]


def pieces(text: str) -> list[bytes]:
    raw = bytes.fromhex(text)
    return [raw[at : at + 32] for at in range(0, len(raw), 32)]


# --- vectors ---------------------------------------------------------------------------------------


def test_the_naive_tree_is_that_of_certificate_transparency() -> None:
    leaves = tuple(CT_LEAVES)
    assert [mth(leaves[:n]) for n in range(1, 9)] == CT_ROOTS
    assert {key: path(key[0], leaves[: key[1]]) for key in CT_INCLUSION} == {
        key: pieces(text) for key, text in CT_INCLUSION.items()
    }
    assert {key: subproof(key[0], leaves[: key[1]]) for key in CT_CONSISTENCY} == {
        key: pieces(text) for key, text in CT_CONSISTENCY.items()
    }


def test_the_frontier_over_those_leaves() -> None:
    # Its own leaves have 32 bytes, so these come in one step higher.
    frontier, roots = Frontier(), []
    for leaf in CT_LEAVES:
        frontier._push(leaf_hash(leaf), 0)
        roots.append(frontier.root())
    assert roots == CT_ROOTS


def test_those_consistency_proofs_hold() -> None:
    for (first, second), text in CT_CONSISTENCY.items():
        roots = CT_ROOTS[first - 1], CT_ROOTS[second - 1]
        assert verify_consistency(first, second, *roots, pieces(text))
        assert not verify_consistency(first, second, *roots[::-1], pieces(text))


def test_the_tree_of_nothing() -> None:
    assert merkle.root(b"") == Frontier().root() == sha256(b"").digest() and Frontier().size == 0


# --- all small trees -------------------------------------------------------------------------------


def test_roots_of_all_sizes_to_130() -> None:
    frontier = Frontier()
    for size in range(1, 131):
        frontier.append(LEAVES[size - 1])
        assert frontier.size == size
        assert frontier.root() == merkle.root(JOINED[: 32 * size]) == mth(LEAVES[:size])


def test_all_inclusion_proofs_of_all_sizes_to_130() -> None:
    for size in range(1, 131):
        root = mth(LEAVES[:size])
        for index in range(size):
            made = merkle.inclusion_path(JOINED, index, size)
            assert made == path(index, LEAVES[:size])
            assert verify_inclusion(LEAVES[index], index, size, made, root)


def test_all_consistency_proofs_of_all_sizes_to_130() -> None:
    roots = [mth(LEAVES[:size]) for size in range(131)]
    for second in range(1, 131):
        for first in range(1, second + 1):
            made = merkle.consistency_path(JOINED, first, second)
            assert made == subproof(first, LEAVES[:second])
            assert verify_consistency(first, second, roots[first], roots[second], made)


@pytest.mark.parametrize("size", [4095, 4096, 4097, 8191, 8192, 8193, 12_289])
def test_sizes_about_the_blocks_in_which_leaves_are_hashed(size: int) -> None:
    leaves = tuple(sha256(b"big %d" % n).digest() for n in range(size))
    hashes = bytearray(b"".join(leaves))
    root = mth(leaves)
    frontier = Frontier()
    for leaf in leaves:
        frontier.append(leaf)
    assert frontier.root() == merkle.root(hashes) == merkle.root(memoryview(hashes)) == root
    for index in {0, 1, size // 2, 4095 % size, 4096 % size, size - 1}:
        made = merkle.inclusion_path(hashes, index, size)
        assert made == path(index, leaves) and verify_inclusion(leaves[index], index, size, made, root)
    for first in {1, 2, 4000, 4095, 4096 % size + 1, size // 2, size - 1}:
        made = merkle.consistency_path(hashes, first, size)
        assert made == subproof(first, leaves)
        assert verify_consistency(first, size, merkle.root(hashes[: 32 * first]), root, made)
    hashes += bytes(32)  # nobody holds the buffer any more


def test_a_frontier_goes_on_from_given_hashes() -> None:
    frontier = Frontier(memoryview(JOINED)[: 32 * 77])
    for leaf in LEAVES[77:]:
        frontier.append(leaf)
    assert frontier.root() == mth(LEAVES) and frontier.size == 130 and len(frontier._peaks) == 2


# --- what is wrong ---------------------------------------------------------------------------------


def test_a_proof_holds_for_one_place_and_size_only() -> None:
    """All wrong places, sizes and roots: one path for each leaf of each tree of up to 33."""
    roots = [mth(LEAVES[:size]) for size in range(41)]
    for size in range(1, 34):
        for index in range(size):
            made = merkle.inclusion_path(JOINED, index, size)
            others = [(i, n) for n in range(40) for i in range(-1, n + 2) if (i, n) != (index, size)]
            held = [(i, n) for i, n in others if verify_inclusion(LEAVES[index], i, n, made, roots[size])]
            # The path says left or right at each level; some sizes share all turns of a leaf, and the same root then.
            assert all(_turns(i, n) == _turns(index, size) for i, n in held)
            assert not any(verify_inclusion(LEAVES[index], index, size, made, roots[n]) for n in range(41) if n != size)


def _turns(index: int, size: int) -> list[bool]:
    """At each level of a leaf's path, from the top: whether the leaf is in the left half."""
    if size <= 1:
        return []
    k = split(size)
    return [True, *_turns(index, k)] if index < k else [False, *_turns(index - k, size - k)]


def tampered(made: list[bytes]) -> list[list[bytes]]:
    """Every way to change, drop, double, swap, cut and lengthen one hash."""
    out = []
    for at, one in enumerate(made):
        flipped = bytes([one[0] ^ 1]) + one[1:]
        out += [[*made[:at], other, *made[at + 1 :]] for other in (flipped, one[:-1], one + b"\x00", b"")]
        out += [made[:at] + made[at + 1 :], [*made[: at + 1], *made[at:]]]
        if made[at : at + 1] != made[at + 1 : at + 2] and at + 1 < len(made):
            out.append([*made[:at], made[at + 1], one, *made[at + 2 :]])
    out += [[*made, bytes(32)], [bytes(32), *made], [*made, *made] if made else [bytes(32)]]
    return [one for one in out if one != made]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 8, 64, 65, 100, 128, 130])
def test_a_tampered_inclusion_proof_fails(size: int) -> None:
    root = mth(LEAVES[:size])
    for index in range(size):
        made = merkle.inclusion_path(JOINED, index, size)
        assert not any(verify_inclusion(LEAVES[index], index, size, other, root) for other in tampered(made))
        other_leaf = LEAVES[(index + 1) % 130]
        assert not verify_inclusion(other_leaf, index, size, made, root)
        assert not verify_inclusion(LEAVES[index][:31], index, size, made, root)
        assert not verify_inclusion(LEAVES[index], index, size, made, bytes(32))


@pytest.mark.parametrize("second", [1, 2, 3, 7, 8, 64, 65, 100, 128, 130])
def test_a_tampered_consistency_proof_fails(second: int) -> None:
    roots = [mth(LEAVES[:size]) for size in range(131)]
    for first in range(1, second + 1):
        made = merkle.consistency_path(JOINED, first, second)
        assert not any(
            verify_consistency(first, second, roots[first], roots[second], other) for other in tampered(made)
        )
        for wrong in ((roots[first - 1], roots[second]), (roots[first], roots[second - 1]), (b"", b"")):
            assert not verify_consistency(first, second, *wrong, made)


def test_a_node_does_not_pass_for_a_leaf() -> None:
    root = mth(LEAVES[:4])
    node = node_hash(leaf_hash(LEAVES[0]), leaf_hash(LEAVES[1]))
    assert not verify_inclusion(node, 0, 2, [mth(LEAVES[2:4])], root)


def test_an_empty_tree_is_proven_to_begin_nothing() -> None:
    nothing, root = merkle.root(b""), mth(LEAVES[:8])
    assert not verify_consistency(0, 8, nothing, root, []) and not verify_consistency(0, 0, nothing, nothing, [])
    assert not verify_inclusion(LEAVES[0], 0, 0, [], nothing)
    assert not verify_consistency(8, 7, root, mth(LEAVES[:7]), []) and not verify_consistency(8, 8, root, nothing, [])
    assert verify_consistency(8, 8, root, root, [])


@pytest.mark.parametrize(("index", "size"), [(-1, 5), (5, 5), (0, 0), (0, 131), (130, 130)])
def test_a_leaf_that_is_not_there_is_a_usage_error(index: int, size: int) -> None:
    with pytest.raises(UsageError):
        merkle.inclusion_path(JOINED, index, size)


@pytest.mark.parametrize(("first", "second"), [(0, 5), (-1, 5), (6, 5), (1, 131)])
def test_trees_that_are_not_there_are_a_usage_error(first: int, second: int) -> None:
    with pytest.raises(UsageError):
        merkle.consistency_path(JOINED, first, second)


def test_hashes_have_32_bytes() -> None:
    for wrong in (b"", bytes(31), bytes(33)):
        with pytest.raises(UsageError, match="32"):
            Frontier().append(wrong)
    for call in (
        merkle.root,
        lambda raw: merkle.inclusion_path(raw, 0, 1),
        lambda raw: merkle.consistency_path(raw, 1, 1),
    ):
        with pytest.raises(UsageError, match="33 bytes are no event hashes"):
            call(bytes(33))


@given(st.lists(st.binary(min_size=32, max_size=32), min_size=1, max_size=300), st.data())
def test_any_hashes_any_proof(leaves: list[bytes], data: st.DataObject) -> None:
    hashes = b"".join(leaves)
    size = data.draw(st.integers(1, len(leaves)))
    index = data.draw(st.integers(0, size - 1))
    first = data.draw(st.integers(1, size))
    root = merkle.root(hashes[: 32 * size])
    assert root == mth(tuple(leaves[:size]))
    inclusion = merkle.inclusion_path(hashes, index, size)
    assert inclusion == path(index, tuple(leaves[:size])) and verify_inclusion(
        leaves[index], index, size, inclusion, root
    )
    consistency = merkle.consistency_path(bytearray(hashes), first, size)
    first_root = merkle.root(hashes[: 32 * first])
    assert consistency == subproof(first, tuple(leaves[:size]))
    assert verify_consistency(first, size, first_root, root, consistency)


@given(
    st.integers(-2, 2**70), st.integers(-2, 2**70), st.lists(st.binary(min_size=32, max_size=32), max_size=66),
    st.binary(min_size=32, max_size=32),
)  # fmt: skip
def test_nonsense_is_false_and_ends(one: int, two: int, some: list[bytes], root: bytes) -> None:
    assert not verify_inclusion(root, one, two, some, root)
    assert not verify_consistency(one, two, root, sha256(root).digest(), some)
