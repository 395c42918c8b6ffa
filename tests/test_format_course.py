"""The course's journal: its words in ours."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from imported import Json, counters, folded, lines, mapped, misshapen, mutations, texts

from gitjournal.formats.course import Course
from gitjournal.formats.protocol import Head, Item, Source

FMT = Course()


def one(seq: int, typ: str, **more: Any) -> Json:
    return {"seq": seq, "ts": f"2026-02-01T10:00:{seq:02d}.000Z", "typ": typ, **more}


SESSION: list[Json] = [
    one(1, "sesja.start", zaufanie="host", zrodlo="konsola"),
    one(2, "wiadomosc", rola="user", tresc="Ile linii?"),
    one(3, "model.odpowiedz", tresc="Policzę.", tokeny_we=120, tokeny_wy=9, ms=800),
    one(4, "narzedzie.wywolanie", narzedzie="shell", argumenty={"polecenie": "wc -l"}, id="n1"),
    one(5, "narzedzie.wynik", id="n1", kod=0, tresc="12"),
    one(6, "blad", where="model", what="timeout"),
    one(7, "kompakcja", od_seq=1, do_seq=5, streszczenie="Plik ma 12 linii.", zachowaj_ostatnie=1),
    one(8, "galaz", rodzic="main", rodzic_seq=4),
    one(9, "wiadomosc", rola="asystent", tresc="Dwanaście."),
]


def items_of(*values: Any) -> list[Item]:
    return mapped(FMT, lines(*values))[0]


def test_each_kind_of_event_has_its_own() -> None:
    items = items_of(*SESSION)
    assert [(item.type, item.actor) for item in items] == [
        ("native", "host"), ("message", "user"), ("model.response", "assistant"), ("tool.call", "assistant"),
        ("tool.result", "tool:shell"), ("error", "host"), ("context.compaction", "host"), ("native", "host"),
        ("message", "assistant"),
    ]  # fmt: skip
    assert items[0].data["fields"] == {"zaufanie": "host", "zrodlo": "konsola"}
    assert items[2].data["native_usage"] == {"tokeny_we": 120, "tokeny_wy": 9}
    assert items[4].data == {
        "id": "n1", "response": "12", "is_error": False, "native": {"type": "narzedzie.wynik", "id": 5, "kod": 0},
    }  # fmt: skip
    assert (items[5].data["message"], items[5].data["where"]) == ("timeout", "model")
    assert items[7].data["fields"] == {"rodzic": "main", "rodzic_seq": 4}
    assert [item.ts for item in items] == [value["ts"] for value in SESSION]


def test_the_state_is_that_of_the_session() -> None:
    state = folded(items_of(*SESSION))
    assert (state.turns, state.tool_calls, state.open_calls) == ({"user": 1, "model": 1}, 1, [])
    assert counters(state)[:2] == [120, 9]
    assert texts(state.history) == ["Ile linii?", "Policzę.", "Dwanaście."]


@pytest.mark.parametrize(
    ("keep", "left"),
    [(0, ["S", "d"]), (1, ["S", "c", "d"]), (3, ["S", "a", "b", "c", "d"]), (9, ["S", "a", "b", "c", "d"])],
)
def test_a_compaction_keeps_the_last_entries_not_the_others(keep: int, left: list[str]) -> None:
    # The course's own reader drops the first k where it should keep the last k.
    said = [one(2 + n, "wiadomosc", rola="user", tresc=text) for n, text in enumerate("abc")]
    cut = one(5, "kompakcja", od_seq=1, do_seq=4, streszczenie="S", zachowaj_ostatnie=keep)
    items = items_of(SESSION[0], *said, cut, one(6, "wiadomosc", rola="user", tresc="d"))
    assert texts(folded(items).context) == left


def test_a_compaction_up_to_an_earlier_event_keeps_what_came_after() -> None:
    said = [one(2 + n, "wiadomosc", rola="user", tresc=text) for n, text in enumerate("abc")]
    items = items_of(*said, one(5, "kompakcja", od_seq=1, do_seq=3, streszczenie="S", zachowaj_ostatnie=0))
    assert texts(folded(items).context) == ["S", "c"]


def test_a_compaction_from_the_middle_removes_nothing() -> None:
    said = [one(2 + n, "wiadomosc", rola="user", tresc=text) for n, text in enumerate("abc")]
    items = items_of(*said, one(5, "kompakcja", od_seq=3, do_seq=3, streszczenie="S", zachowaj_ostatnie=0))
    assert items[3].type == "native" and len(folded(items).context) == 3


@pytest.mark.parametrize(
    ("code", "failed"), [(0, False), (2, True), ("ok", False), ("blad", True), ("?", None), (None, None)]
)
def test_a_code_says_whether_a_call_failed(code: Any, failed: bool | None) -> None:
    item = items_of(one(1, "narzedzie.wynik", id=7, kod=code, tresc="x"))[0]
    assert item.data["id"] == "7" and item.data.get("is_error") is failed


def test_trust_is_not_taken_from_the_file() -> None:
    about = FMT.about(iter([item.record for item in items_of(*SESSION)]), Source(Path("telegram~42.jsonl")))
    assert (about.session, about.start) == ("telegram:42", {})


def test_two_events_of_one_number_are_counted() -> None:
    # Two requests at once: both wrote the same seq.
    _, report = mapped(FMT, lines(SESSION[1], SESSION[1]))
    assert report.odd["repeated_ids"] == 1


def test_it_knows_its_own_and_nothing_else() -> None:
    def sniff(content: bytes) -> bool:
        return FMT.sniff(Head(content, Path("main.jsonl")))

    assert sniff(lines(SESSION[0])) and sniff(lines(b"torn\n", SESSION[2]))
    for other in ({"seq": 1, "type": "message"}, {"typ": "wiadomosc"}, {"seq": 1, "typ": "inny"}, [], None):
        assert not sniff(lines(other))


def test_no_shape_of_any_member_stops_it() -> None:
    mapped(FMT, misshapen(SESSION))


@settings(max_examples=60, deadline=None)
@given(mutations(SESSION))
def test_no_file_stops_it(content: bytes) -> None:
    mapped(FMT, content)
