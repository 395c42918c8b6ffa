"""Two branches side by side: what is common, what each did, and how it looks on a terminal of any width."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import Gj, event

import gitjournal
from gitjournal import cli_compare
from gitjournal.cli_base import App
from gitjournal.compare import compare, entries, says_the_same
from gitjournal.journal import Journal
from gitjournal.refs import Name
from gitjournal.render import Paint, columns
from gitjournal.writer import Draft

USAGE = {"gen_ai.usage.input_tokens": 100, "gen_ai.usage.output_tokens": 9}


def say(text: str) -> tuple[str, Any, str]:
    return "message", {"role": "user", "parts": [{"type": "text", "content": text}]}, "user"


def answer(name: str, model: str, text: str = "yes") -> tuple[str, Any, str]:
    parts = [{"type": "text", "content": text}]
    return "model.response", {"response.id": name, "response.model": model, "parts": parts, "usage": USAGE}, "assistant"


def record(journal: Journal, name: str, *events: tuple[str, Any, str]) -> None:
    with journal.session(name, create="/" not in name) as s:
        s.append_many(list(events))


@pytest.fixture
def filled(place: Path) -> Journal:
    """``s`` and ``s/b`` part after event 3, within a call."""
    journal = gitjournal.init(place)
    record(journal, "s", say("fix it"), ("tool.call", {"id": "c", "name": "sh"}, "assistant"))
    journal.branch("s", 3, "b")
    result = ("tool.result", {"id": "c", "response": "done"}, "tool:sh")
    record(journal, "s", result, answer("r1", "m-1"), say("more"))
    failed = ("tool.result", {"id": "c", "response": "no", "is_error": True}, "tool:sh")
    record(journal, "s/b", failed, answer("r2", "m-2"), say("more"), ("error", {"message": "gone"}, "host"))
    return journal


def whole(journal: Journal, one: str, other: str) -> Any:
    return compare(journal, *((journal.resolve(name), journal.head(name).seq) for name in (one, other)))


# --- what is compared ----------------------------------------------------------------------------


def test_each_side_has_what_it_did_since_they_parted(filled: Journal) -> None:
    found = whole(filled, "s", "s/b")
    assert (found.common, found.hash, found.is_same) == (3, filled.event("s", 3).hash, False)
    left, right = found.left, found.right
    assert (left.used.events, right.used.events) == (3, 5)
    # The call is common: neither side has made it.
    assert left.tools == right.tools == {} and (left.used.tool_errors, right.used.tool_errors) == (0, 1)
    assert (left.models, right.models, right.used.errors, left.used.input) == (["m-1"], ["m-2"], 1, 100)
    assert left.status == ("idle", "completed", ())


def test_a_response_that_had_begun_before_is_not_new(journal: Journal) -> None:
    record(journal, "s", answer("r", "m-1"))
    journal.branch("s", 2, "b")
    record(journal, "s", answer("r", "m-1"), answer("q", "m-1"))
    found = whole(journal, "s", "s/b")
    assert (found.left.used.input, found.left.used.model_turns, found.right.used.input) == (100, 1, 0)


def test_forks_and_strangers_are_compared_alike(filled: Journal) -> None:
    filled.fork("s/b", 5, "f")
    record(filled, "t", say("fix it"))
    assert whole(filled, "f", "s").common == 3 and whole(filled, "f", "s/b").common == 5
    found = whole(filled, "t", "s")
    assert (found.common, found.hash, found.left.used.events) == (0, None, 2)


def test_a_branch_is_compared_up_to_an_event(filled: Journal) -> None:
    found = compare(filled, (Name("s"), 4), (Name("s", "b"), 2))
    assert (found.common, found.left.seq, found.right.used.events) == (2, 4, 0)
    assert compare(filled, (Name("s"), 2), (Name("s", "b"), 2)).is_same


def test_who_writes_now_says_how_it_stands(filled: Journal) -> None:
    with filled.session("s") as s:
        s.append("turn.start", {}, turn="t")
        assert whole(filled, "s", "s/b").left.status.status == "running"
        assert compare(filled, (Name("s"), 4), (Name("s"), 5)).left.status.status == "idle"
    s = filled.session("s/b")
    s.append("turn.start", {}, turn="t")
    s.append("turn.end", {"outcome": "failed"}, turn="t")
    s.close()
    assert whole(filled, "s", "s/b").right.turn == "failed"
    filled.branch("s/b", filled.head("s/b").seq, "c")
    # That turn is what they have in common by now.
    assert whole(filled, "s/b", "s/c").right.turn is None


def test_only_what_was_said_is_set_side_by_side(filled: Journal) -> None:
    found = whole(filled, "s", "s/b")
    assert [one.seq for one in entries(filled, found.right, found.common)] == [5, 6, 7, 8]


def test_the_same_words_are_the_same_wherever_they_stand() -> None:
    one = event(2, type="message", data={"n": 1})
    assert says_the_same(one, event(9, type="message", data={"n": 1}))
    assert not says_the_same(one, event(2, type="message", data={"n": 2}))
    assert not says_the_same(one, event(2, type="message", data={"n": 1}, actor="user"))
    assert not says_the_same(one, None) and not says_the_same(one.withhold(), one.withhold())
    entry = {"media_type": "text/plain", "sha256": "0" * 64, "size": 1}
    with_file = event(2, type="message", data={"n": {"$gj:file": 1}}, files=[entry])
    other = event(2, type="message", data={"n": {"$gj:file": 1}}, files=[entry | {"sha256": "1" * 64}])
    assert says_the_same(with_file, with_file) and not says_the_same(with_file, other)


# --- how it looks --------------------------------------------------------------------------------


def two(width: int, *pairs: tuple[str | None, str | None], limit: int | None = 8) -> list[str]:
    """The two columns of messages with these texts."""
    sides = [
        [event(n, type="message", data=say(text)[1]) for n, text in enumerate(side, 2) if text is not None]
        for side in zip(*pairs, strict=True)
    ]
    return list(cli_compare.two_columns(iter(sides[0]), iter(sides[1]), width, limit, Paint(False)))


def test_two_columns_mark_what_differs() -> None:
    assert two(41, ("same", "same"), ("one", "other"), (None, "new")) == [
        "2 host message        2 host message",
        "  same                  same",
        "3 host message      | 3 host message",
        "  one               |   other",
        "                    > 4 host message",
        "                    >   new",
    ]


def test_long_texts_are_folded_unless_they_are_wanted() -> None:
    rows = two(60, ("\n".join("abcdefghij"), "x"), limit=4)
    assert len(rows) == 5 and rows[-1].startswith("  … 7 more lines")
    assert len(two(60, ("\n".join("abcdefghij"), "x"), limit=None)) == 11


@given(st.text(max_size=200), st.text(max_size=200), st.integers(20, 90))
def test_no_row_is_wider_than_the_terminal_and_nothing_reaches_it(left: str, right: str, width: int) -> None:
    for row in two(width, (left.encode("utf-8", "replace").decode(), right.encode("utf-8", "replace").decode())):
        assert columns(row) <= width and not re.search(r"[\x00-\x1f\x7f-\x9f]", row)


@given(st.text(st.sampled_from("ab 日本\n"), max_size=120), st.integers(2, 30))
def test_wrapping_loses_nothing_but_spaces(text: str, width: int) -> None:
    lines = list(cli_compare._wrapped(text, width))
    assert all(columns(line) <= width for line in lines)
    assert "".join("".join(lines).split()) == "".join(text.split())


def test_diff_on_paper_shows_one_after_the_other(gj: Gj, filled: Journal) -> None:
    text = gj("diff", "s", "s/b").stdout
    assert text.startswith("s and s/b have 3 events in common, the last one ")
    assert [line for line in text.splitlines() if line.startswith("<")][:3] == [
        "< s, from 4", "< 4 tool:sh tool.result", "<   done",
    ]  # fmt: skip
    assert "> 8 host error" in text and text.index("> s/b") > text.index("< 6 user message")
    short = gj("diff", "s", "s/b", "--stat").stdout
    assert "from 4" not in short and re.search(r"^models +m-1 +m-2$", short, re.MULTILINE)
    assert "\x1b[" in gj("diff", "s", "s/b", "--color", "always").stdout


def test_diff_has_two_columns_where_there_is_room(gj: Gj, filled: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    rows: dict[int, list[str]] = {}
    for width in (20, 79, 80, 200):
        monkeypatch.setattr(App, "width", width)
        rows[width] = gj("diff", "s", "s/b").stdout.splitlines()
        assert all(columns(row) <= max(width, 40) for row in rows[width][2:])
    assert [any(row.startswith("> s/b") for row in rows[width]) for width in (20, 79, 80, 200)] == [1, 1, 0, 0]
    assert "4 tool:sh tool.result                  | 5 tool:sh tool.result" in rows[80]


def test_diff_of_the_same_says_so(gj: Gj, filled: Journal) -> None:
    assert gj("diff", "s", "s").stdout == "s and s are the same: 6 events\n"
    assert gj("diff", "s@3", "s/b@3", "--exit-code").exit_code == 0
    assert gj("diff", "s", "s/b", "--exit-code", ok=False).exit_code == 1 and gj("diff", "s", "s/b").exit_code == 0


def test_diff_of_one_name_is_with_what_it_began_on(gj: Gj, filled: Journal) -> None:
    assert gj("diff", "s/b").stdout == gj("diff", "s", "s/b").stdout
    filled.branch("s/b", 5, "c")
    assert gj("diff", "s/c").stdout.startswith("s/b and s/c have 5 events in common")
    run = gj("diff", "s", ok=False)
    assert (run.exit_code, run.stdout) == (2, "") and "began on no branch" in run.stderr


def test_diff_as_json_is_whole(gj: Gj, filled: Journal) -> None:
    first, *rest = [json.loads(line) for line in gj("diff", "s", "s/b", "--json").stdout.splitlines()]
    assert first["common"] == {"seq": 3, "hash": filled.event("s", 3).hash} and first["same"] is False
    assert first["right"] | {"name": "s/b", "seq": 8, "errors": 1, "status": "idle", "tools": {}} == first["right"]
    assert [(one["side"], one["seq"]) for one in rest] == [
        ("left", 4), ("left", 5), ("left", 6), ("right", 5), ("right", 6), ("right", 7), ("right", 8),
    ]  # fmt: skip
    assert rest[0]["data"] == {"id": "c", "response": "done"}
    assert len(gj("diff", "s", "s/b", "--json", "--stat").stdout.splitlines()) == 1


def test_diff_of_what_is_not_there(gj: Gj, filled: Journal) -> None:
    for words in (("s", "nobody"), ("s/x", "s"), ("s@99", "s/b")):
        run = gj("diff", *words, ok=False)
        assert (run.exit_code, run.stdout) == (4, "")


def test_withheld_and_odd_events_are_shown(gj: Gj, place: Path) -> None:
    journal = gitjournal.init(place)
    with journal.session("s", create=True, start=Draft("session.start", {})) as s:
        s.append("message", {"role": 5, "parts": "text"})
        s.append("model.response", {"parts": [7, {"type": "text"}, {"type": "reasoning", "content": "hm"}]})
    journal.fork("s", 1, "t")
    assert "(thinking) hm" in gj("diff", "t", "s").stdout
