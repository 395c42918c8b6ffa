"""Names, refs and positions: no id is refused that the format allows, none collides, none makes a bad ref."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import git

from gitjournal import refs
from gitjournal.errors import UsageError
from gitjournal.refs import Name

# What git, file systems and our own syntax treat in a special way.
NASTY = [
    "/",
    ":",
    ".",
    "..",
    ".lock",
    "-",
    "@",
    "@{",
    "~",
    "^",
    "?",
    "*",
    "[",
    "\\",
    " ",
    "%",
    "%2E",
    "HEAD",
    "é",
    "😀",
]
ids = st.one_of(
    st.text(st.characters(exclude_categories=("Cs", "Cc")), min_size=1, max_size=60),
    st.lists(st.sampled_from([*NASTY, "a", "B", "lock"]), min_size=1, max_size=12).map("".join),
).filter(lambda text: len(refs.encode(text)) <= refs.MAX_ENCODED)

SAMPLE = [
    *NASTY, "a.lock", "a.lock.lock", ".lock", "x.LOCK", "a..b", "...", "a.", ".a", "-a", "a-", "a//b", "/a", "a/",
    "a@{1}",
    "s 1", "a\u0301", "\u202eabc", "refs/heads/main", "@", "a" * 200, "%", "%%", "%2e", "main", "FETCH_HEAD", "a:b",
    "~1",
]  # fmt: skip


@given(ids)
def test_encoding_loses_nothing(text: str) -> None:
    assert refs.decode(refs.encode(text)) == text


@given(st.lists(ids, min_size=2, max_size=2, unique=True))
def test_no_two_ids_share_a_ref(pair: list[str]) -> None:
    assert refs.encode(pair[0]) != refs.encode(pair[1])


@given(ids)
def test_only_safe_characters_come_out(text: str) -> None:
    out = refs.encode(text)
    assert out.isascii() and not set(out) - set(
        "%._-" + "abcdefghijklmnopqrstuvwxyz" + "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
    )
    assert not out.startswith((".", "-")) and not out.endswith((".", ".lock")) and ".." not in out


@pytest.mark.parametrize("text", SAMPLE)
def test_git_takes_every_encoded_name(text: str) -> None:
    for name in (Name(text), Name("s", text), Name(text, text)):
        git("check-ref-format", refs.ref_name(name))
        git("check-ref-format", refs.ref_name(name, refs.CLONE_PREFIX))


def test_the_table_of_section_7() -> None:
    table = {
        "a.b-c_D9": "a.b-c_D9",
        "a b/c": "a%20b%2Fc",
        ".a": "%2Ea",
        "-a": "%2Da",
        "a..b": "a%2E.b",
        "a...b": "a%2E%2E.b",
        "a.": "a%2E",
        "a.lock": "a%2Elock",
        "a.lock.b": "a.lock.b",
        "%41": "%2541",
        "é": "%C3%A9",
        "😀": "%F0%9F%98%80",
    }
    assert {text: refs.encode(text) for text in table} == table


@given(ids, ids, st.sampled_from([refs.OWN_PREFIX, refs.CLONE_PREFIX]))
def test_a_ref_parses_back_to_its_name(session: str, branch: str, prefix: str) -> None:
    name = Name(session, branch)
    if max(len(session.encode()), len(branch.encode())) <= refs.MAX_ID_BYTES:
        assert refs.parse_ref(refs.ref_name(name, prefix), prefix) == name


@given(st.text(max_size=20) | st.text("%2EFfe.aA/-", max_size=10))
def test_decoding_accepts_only_what_encoding_makes(component: str) -> None:
    try:
        text = refs.decode(component)
    except UsageError:
        return
    assert refs.encode(text) == component


@pytest.mark.parametrize(
    "component",
    ["", "%2e", "%41", "%", "%2", "%zz", "a b", "%ff", "é", ".a", "a.lock", "a..b", "%C3", "\ud800", "\udcff"],
)
def test_a_component_that_we_never_make_is_refused(component: str) -> None:
    with pytest.raises(UsageError):
        refs.decode(component)


@pytest.mark.parametrize(
    "ref",
    [
        "refs/heads/s", "refs/heads/s/a/b", "refs/heads/", "refs/heads//", "refs/heads/s/", "refs/tags/s/main",
        "HEAD", "",
        "s/main", "refs/heads/%ff/main", "refs/heads/a%00/main", "refs/heads/%C2%85/main", "refs/heads/\udcff/main",
        "refs/heads/" + "a" * 201 + "/main", "refs/heads/s/" + "b" * 201,
    ],
)  # fmt: skip
def test_a_ref_that_is_not_ours_is_passed_over(ref: str) -> None:
    assert refs.parse_ref(ref) is None


@pytest.mark.parametrize(
    "text", ["", "a" * 201, "é" * 101, "a\x00", "a\n", "\x7f", "\x85", "\ud800", "a\udfff", "/" * 81]
)
def test_an_id_that_breaks_the_rule_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="session id"):
        refs.check_id(text)


@pytest.mark.parametrize("text", ["a", "a" * 200, "é" * 40, "/" * 80, "😀", "a b", "..", ".lock", "\u2028"])
def test_an_id_at_the_limit_is_taken(text: str) -> None:
    assert refs.check_id(text) == text


@given(ids)
def test_a_file_of_that_name_can_be_made(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    folder = tmp_path_factory.getbasetemp()
    for suffix in (".jsonl", ".lock", ".torn"):
        path = folder / (refs.encode(text) + suffix)
        path.touch()
        assert path.parent == folder and path.name in {entry.name for entry in folder.iterdir()}
        path.unlink()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("s", ("s", None)),
        ("s@40", ("s", 40)),
        ("s/b@1", ("s/b", 1)),
        ("user@host", ("user@host", None)),
        ("user@1@2", ("user@1", 2)),
        ("s@", ("s@", None)),
        ("@5", ("@5", None)),
        ("", ("", None)),
        ("s@-1", ("s@-1", None)),
        ("s@123456789", ("s@123456789", None)),
        ("s@١", ("s@١", None)),
        ("s@5\n", ("s@5\n", None)),
        ("a\nb@5", ("a\nb", 5)),
    ],
)
def test_a_position_is_digits_at_the_very_end(text: str, expected: tuple[str, int | None]) -> None:
    assert refs.split_position(text) == expected


def test_a_name_with_slashes_has_all_its_readings_the_whole_first() -> None:
    assert refs.readings("a/b/c") == [Name("a/b/c"), Name("a/b", "c"), Name("a", "b/c")]
    assert refs.readings("a") == [Name("a")]
    assert refs.readings("/a/") == [Name("/a/")]
    assert refs.readings("a//b") == [Name("a//b"), Name("a/", "b"), Name("a", "/b")]
    assert refs.readings("") == [Name("")]


@given(ids, ids)
def test_what_a_name_prints_is_one_of_its_readings(session: str, branch: str) -> None:
    name = Name(session, branch)
    assert name in refs.readings(str(name))


def test_names_sort_and_hash_as_values() -> None:
    assert sorted({Name("b"), Name("a", "z"), Name("a"), Name("a", "main")}) == [Name("a"), Name("a", "z"), Name("b")]
    assert Name("s").path == "s/main" and Path(Name("a/b", "..").path) == Path("a%2Fb/%2E%2E")
