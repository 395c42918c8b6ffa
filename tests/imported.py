"""What the tests of import formats do alike: records through a format, events folded, shapes that are wrong."""

from __future__ import annotations

import copy
import io
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st
from support import CORPUS, ROOT, event

from gitjournal import Journal, canonical, fold
from gitjournal.event import Event
from gitjournal.formats import export, import_file
from gitjournal.formats.protocol import Item, RecordFormat, Source
from gitjournal.formats.report import ImportReport
from gitjournal.state_form import SessionState

Json = dict[str, Any]

#: For readers that are given records and need no file.
NOWHERE = Source(Path("nowhere"))
#: In the place of a member: every type of JSON, and shapes that look like what is expected.
JUNK: tuple[Any, ...] = (
    None, 0, -1, 1.5, True, "", "x", [], {}, [None], [[]], [{}], {"type": 1}, [{"type": "text"}], {"a": {"b": [0]}},
    2**60, "\ud83d", [{"type": {}, "id": [], "text": 3, "content": {}}],
)  # fmt: skip


def lines(*values: Any) -> bytes:
    """JSON Lines; bytes are taken as they are."""
    return b"".join(one if isinstance(one, bytes) else json.dumps(one).encode() + b"\n" for one in values)


def mapped(fmt: RecordFormat, content: bytes, source: Source = NOWHERE) -> tuple[list[Item], ImportReport]:
    """The events of all records, checked: nothing raises, all can be stored, the records are the source."""
    report = ImportReport(str(source.path), fmt.name)
    items = list(fmt.read(fmt.cut(io.BytesIO(content)), report, source))
    assert b"".join(item.record.raw + item.record.after for item in items) == content
    stored(items)
    return items, report


def stored(items: Iterable[Item]) -> None:
    """Every event can be stored, and what it says of its own format is right."""
    for number, item in enumerate(items, 1):
        assert item.record.number == number
        assert item.follows is None or 0 <= item.follows < number
        assert canonical.loads(canonical.dumps(item.data)) is not None
        event(2, type=item.type, actor=item.actor, data=item.data, **({"turn": item.turn} if item.turn else {}))


def line_of(items: Sequence[Item], last: int = 0) -> list[Item]:
    """The records on the way to record ``last`` (default: the last one), over rewinds."""
    out: list[Item] = []
    number = last or len(items)
    while number:
        item = items[number - 1]
        out.append(item)
        number = item.record.number - 1 if item.follows is None else item.follows
    return out[::-1]


def folded(items: Sequence[Item], last: int = 0) -> SessionState:
    """The state after record ``last``, on the way that leads to it."""
    made: list[Event] = [event(1, data={"source": "test"})]
    for item in line_of(items, last):
        turn = {"turn": item.turn} if item.turn else {}
        made.append(event(len(made) + 1, made[-1].hash, type=item.type, actor=item.actor, data=item.data, **turn))
    state = fold(made)
    assert not state.odd, state.odd
    return state


def texts(entries: Iterable[Any], kind: str = "text") -> list[str]:
    """What was said, in order."""
    return [part["content"] for entry in entries for part in entry["parts"] if part["type"] == kind]


def counters(state: SessionState) -> list[int]:
    """Input, output, read from a cache, written to it, reasoning."""
    return list(state.usage.values())


# --- in a journal ----------------------------------------------------------------------------------


def take(journal: Journal, path: Path, content: bytes, **options: Any) -> ImportReport:
    """Write a file and import it; what the report says can be printed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    report = import_file(journal, path, **options)
    json.dumps(report.as_dict())
    assert report.lines()
    return report


def forget(journal: Journal) -> None:
    """As if nobody had noted where imports stopped."""
    for note in (journal.path / "gitjournal" / "index").rglob("*.import"):
        note.unlink()


def given_back(journal: Journal, name: str, fmt: str) -> bytes:
    """A branch in the format that it came from."""
    out = io.BytesIO()
    export(journal, name, fmt, out)
    return out.getvalue()


# --- shapes that are wrong -------------------------------------------------------------------------


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The paths to all members and elements of a JSON value, itself included."""
    yield path
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for step, item in inner:
        yield from places(item, (*path, step))


def changed(value: Any, path: tuple[Any, ...], junk: Any) -> Any:
    """A copy of a JSON value with ``junk`` in one place."""
    if not path:
        return junk
    whole = copy.deepcopy(value)
    node = whole
    for step in path[:-1]:
        node = node[step]
    node[path[-1]] = junk
    return whole


def misshapen(values: Iterable[Any]) -> bytes:
    """Each record with each kind of junk in the place of each of its members, then the record itself."""
    return lines(*(wrong for value in values for wrong in [*_wrongs(value), value]))


def _wrongs(value: Any) -> Iterator[Any]:
    for path in places(value):
        for junk in JUNK:
            yield changed(value, path, junk)


def mutations(values: Sequence[Any]) -> st.SearchStrategy[bytes]:
    """Files of real-looking records: some are dropped, repeated, retyped or cut, and stand in another order."""
    junk = st.sampled_from(JUNK)

    @st.composite
    def record(draw: Callable[..., Any]) -> bytes:
        value = copy.deepcopy(draw(st.sampled_from(values)))
        for _ in range(draw(st.integers(0, 3))):
            value = changed(value, draw(st.sampled_from(list(places(value)))), draw(junk))
        raw = lines(value)
        if draw(st.integers(0, 9)) == 0:
            at = draw(st.integers(0, len(raw)))
            raw = raw[:at] + draw(st.binary(max_size=4)) + raw[at + draw(st.integers(0, 3)) :]
        return raw

    return st.lists(record(), max_size=12).map(b"".join)


def documents(value: Any) -> st.SearchStrategy[bytes]:
    """The document, with up to three members retyped, and now and then cut or with other bytes in it."""
    everywhere = list(places(value))

    @st.composite
    def document(draw: Callable[..., Any]) -> bytes:
        made = value
        for _ in range(draw(st.integers(0, 3))):
            path = draw(st.sampled_from(everywhere))
            try:
                made = changed(made, path, draw(st.sampled_from(JUNK)))
            except (KeyError, IndexError, TypeError):
                # An earlier change has taken this place away.
                continue
        raw = json.dumps(made, indent=draw(st.sampled_from([None, 2]))).encode()
        if draw(st.integers(0, 4)) == 0:
            at = draw(st.integers(0, len(raw)))
            raw = raw[:at] + draw(st.binary(max_size=4)) + raw[at + draw(st.integers(0, 3)) :]
        return raw

    # A file that begins as a compressed one is taken for that.
    return document().filter(lambda raw: not raw.startswith((b"\x28\xb5\x2f\xfd", b"\x1f\x8b")))


# --- the corpus ------------------------------------------------------------------------------------


def golden(name: str) -> Any:
    """Cases of ``golden/import-NAME.json``: file of the corpus, and what it holds as counted by hand or by `json`."""
    told = json.loads((ROOT / "tests" / "golden" / f"import-{name}.json").read_text(encoding="utf-8"))
    cases = [(CORPUS / path, counts) for path, counts in told.items()]
    marks = [pytest.mark.skipif(not path.exists(), reason="the public corpus is not here") for path, _ in cases]
    return pytest.mark.parametrize(
        ("path", "told"),
        [pytest.param(*case, marks=mark) for case, mark in zip(cases, marks, strict=True)],
        ids=[path.name[:40] for path, _ in cases],
    )


def told_of(items: Sequence[Item], state: SessionState) -> Json:
    """What a golden file says, of what a format has made."""
    said = [(entry["role"], text) for entry in state.history for text in texts([entry])]
    return {
        "records": len(items),
        "prompts": state.turns["user"],
        "responses": state.turns["model"],
        "calls": state.tool_calls,
        "results": state.tool_results,
        "open": len(state.open_calls),
        "tokens": counters(state),
        "first": next((text for role, text in said if role == "user"), None),
        "last": next((text for role, text in reversed(said) if role == "assistant"), None),
    }
