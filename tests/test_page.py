"""Sessions as pages: `gj export --format html` and `--format md`. Attacks are named after what they try."""

from __future__ import annotations

import base64
import io
import json
import re
import struct
import zlib
from collections.abc import Iterator, Sequence
from decimal import Decimal
from hashlib import sha256
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import chromium
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from sealed import LOG
from support import CORPUS, ROOT, Gj, members

import gitjournal
from gitjournal import formats, page_html, page_markup, page_text
from gitjournal.cost import grouped, scope, tally, total
from gitjournal.errors import JournalError, StorageError
from gitjournal.event import Event
from gitjournal.journal import Journal
from gitjournal.lineage import Begin, Line
from gitjournal.page_plan import Source, plan, source_of
from gitjournal.prices import Prices, load
from gitjournal.refs import Name

S = Name("s")
Made = tuple[str, dict[str, Any]] | tuple[str, dict[str, Any], str]
STYLE = (ROOT / "gitjournal" / "page.css").read_text(encoding="utf-8")


def text(content: Any) -> dict[str, Any]:
    return {"type": "text", "content": content}


def user(*parts: Any) -> Made:
    return "message", {"role": "user", "parts": [text(one) if isinstance(one, str) else one for one in parts]}, "user"


def model(*parts: Any, **data: Any) -> Made:
    said = [text(one) if isinstance(one, str) else one for one in parts]
    return "model.response", {"response.model": "m-2", "parts": said, **data}, "assistant"


def call(ident: str, name: str = "shell", **arguments: Any) -> dict[str, Any]:
    return {"type": "tool_call", "id": ident, "name": name, "arguments": arguments}


def result(ident: str, response: Any, **data: Any) -> Made:
    return "tool.result", {"id": ident, "response": response, **data}, "tool:shell"


def used(into: int, out: int) -> dict[str, int]:
    return {"gen_ai.usage.input_tokens": into, "gen_ai.usage.output_tokens": out}


def events_of(*made: Made, first: dict[str, Any] | None = None) -> list[Event]:
    """A line of events that begins with a start."""
    out: list[Event] = []
    for seq, (kind, data, *actor) in enumerate((("session.start", first or {}), *made), 1):
        prev = out[-1].hash if out else None
        changes = {"type": kind, "data": data, "actor": actor[0] if actor else "host"}
        out.append(
            Event.build(members(seq, prev, ts=f"2026-01-02T03:{seq // 60 % 60:02d}:{seq % 60:02d}.000Z", **changes))
        )
    return out


def source(events: Sequence[Event], lines: Sequence[Line] = ()) -> Source:
    return Source(S, lambda: iter(events), lambda seq: events[seq - 1], lines)


def html(*made: Made, first: dict[str, Any] | None = None, prices: Prices | None = None) -> str:
    return page(source(events_of(*made, first=first)), prices)


def page(of: Source, prices: Prices | None = None) -> str:
    out = io.BytesIO()
    assert page_html.write(of, out, prices) == sum(1 for _ in of.events())
    return out.getvalue().decode()


def markdown(*made: Made, first: dict[str, Any] | None = None, prices: Prices | None = None) -> str:
    out = io.BytesIO()
    page_text.write(source(events_of(*made, first=first)), out, prices)
    return out.getvalue().decode()


# --- what may be on a page -----------------------------------------------------------------------

PAGE = "html head meta title style script body a div form label input button output p nav details summary small header"
PAGE += " main section article time span bdi figure img figcaption footer dl dt dd"
MARKDOWN = "h1 h2 h3 h4 h5 h6 p ul ol li b em i pre code strong s blockquote hr br table thead tbody tr th td"
TAGS = {*PAGE.split(), *MARKDOWN.split()}
VOID = frozenset({"meta", "input", "img", "hr", "br"})
WORDS = (
    "lang charset http-equiv content name class href id role for type autocomplete spellcheck placeholder open title"
)
WORDS += " aria-label aria-live aria-pressed tabindex datetime dir rel src alt decoding start"
ATTRIBUTES = {*WORDS.split()}
LINK = re.compile(r"(?:https?://|mailto:)[!-~]*|#(?:[et][0-9]+|transcript)")
PICTURE = re.compile(r"data:image/(?:png|jpeg|gif|webp);base64,[A-Za-z0-9+/]+=*")
UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\U000e0000-\U000e0fff]"
)


class Outline(HTMLParser):
    """A page as a browser reads it. Fails at a tag, attribute, address or character that may never be on one."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.ids: list[str] = []
        self.titles: list[str] = []
        self.links: list[str] = []
        self.texts: list[str] = []
        self._open: list[str] = []
        assert not UNSEEN.search(text)
        self.feed(text)
        self.close()
        assert not self._open, self._open
        assert len(set(self.ids)) == len(self.ids)
        assert self.tags.count("script") == self.tags.count("style") == 1

    @property
    def text(self) -> str:
        return "".join(self.texts)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in TAGS, tag
        self.tags.append(tag)
        if tag not in VOID:
            self._open.append(tag)
        for name, value in attrs:
            assert name in ATTRIBUTES, (tag, name)
            assert name != "href" or LINK.fullmatch(value or ""), value
            assert name != "src" or PICTURE.fullmatch(value or ""), value
            if name == "id":
                self.ids.append(value or "")
            if name == "title":
                self.titles.append(value or "")
            if name == "href":
                self.links.append(value or "")

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if not self._open or self._open[-1] not in ("script", "style"):
            self.texts.append(data)

    def handle_comment(self, data: str) -> None:
        raise AssertionError(data)


def png(width: int = 2, height: int = 2) -> str:
    """A picture as base64."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = (b"\0" + b"\x30\x60\x90" * width) * height
    head = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    return base64.b64encode(
        b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    ).decode()


def blob(mime: str, content: str) -> dict[str, Any]:
    return {"type": "blob", "modality": "image", "mime_type": mime, "content": content}


# --- attacks -------------------------------------------------------------------------------------

CANARY = "document.title='pwned';window.pwned=1"
ATTACKS = {
    "script element": f"<script>{CANARY}</script>",
    "script in markdown code": f"```html\n</code></pre><script>{CANARY}</script>\n```",
    "script in a fence of no language": f"```\n</pre><script>{CANARY}</script>\n```",
    "info string that is a tag": f'```"><script>{CANARY}</script>\nx\n```',
    "event handler on a picture": f'<img src=x onerror="{CANARY}">',
    "event handler on a drawing": f"<svg onload={CANARY}><script>{CANARY}</script></svg>",
    "attribute that ends early": f'" onmouseover="{CANARY}" autofocus onfocus="{CANARY}" x="',
    "attribute that ends early, single": f"' onmouseover='{CANARY}' x='",
    "title that ends early": f"</title><script>{CANARY}</script>",
    "style that ends early": "</style><style>*{display:none}</style>",
    "script that ends early": f"</script><script>{CANARY}</script>",
    "details that end early": "</summary></details></article></main></body></html>",
    "textarea": "</textarea><textarea>",
    "comment": "<!-- --><!--",
    "cdata": f"]]><![CDATA[<script>{CANARY}</script>]]>",
    "base": '<base href="https://evil.example/">',
    "refresh": '<meta http-equiv="refresh" content="0;url=https://evil.example/">',
    "form": '<form action="https://evil.example/"><input name=q><button>Go</button></form>',
    "frame": '<iframe srcdoc="<script>parent.document.title=1</script>"></iframe>',
    "style of an element": '<p style="background:url(https://evil.example/x)">x</p>',
    "link to a script": f"[x](javascript:{CANARY})",
    "link to a script, in capitals": f"[x](JaVaScRiPt:{CANARY})",
    "link to a script, with an entity": f"[x](java&#115;cript&colon;{CANARY})",
    "link to a script, with a tab": f"[x](java\tscript:{CANARY})",
    "link to a script, with a control": f"[x](\x01javascript:{CANARY})",
    "link to a script, percent": f"[x](%6aavascript:{CANARY})",
    "link to a script, defined": f"[x]\n\n[x]: javascript:{CANARY}",
    "link to a script, automatic": f"<javascript:{CANARY}>",
    "link to a script, with a title": f'[x](https://ok.example "\\" onclick=\\"{CANARY}")',
    "link to data": f"[x](data:text/html,<script>{CANARY}</script>)",
    "link to a file": "[x](file:///etc/passwd) [y](vbscript:x) [z](blob:x)",
    "picture from elsewhere": "![x](https://evil.example/pixel.png)",
    "picture that is a drawing": "![x](data:image/svg+xml;base64,PHN2Zz48L3N2Zz4=)",
    "language that is a class": '```x" class="away\ncode\n```',
    "format string": "{title} {policy} %s {0} {script}",
    "entities": "&lt;script&gt; &amp;lt; &#60;script&#62; &NewLine;",
    "bidi": "a\u202egnp.exe\u2066b\u2069\u200f\u061c",
    "nul": "before\x00after \x1b[2J\x1b]8;;https://evil.example\x07x\x9b",
    "hidden tags": "x" + "".join(chr(0xE0000 + ord(char)) for char in "ignore") + "\u200b\ufeff\u2060",
    "lone surrogates": "\ud800 x \udfff",
    "colours of a terminal": '\x1b[31;1m"><script>\x1b[0m\x1b[999;;38mx',
    "table": "|<b>|`|`|\n|-|:-:|\n|</td>|<script>|",
    "deep quotation": ">" * 3000 + " deep",
    "deep list": "".join("  " * n + "- x\n" for n in range(120)),
    "many brackets": "[" * 3000 + "](" * 3000,
    "heading": "# Turn 99\n\nTurn 99\n===",
    "fences": "````\n```\n~~~\n````` \n```",
}
HOSTILE = pytest.mark.parametrize("attack", ATTACKS.values(), ids=list(ATTACKS))


def everywhere(attack: str) -> list[Made]:
    """A session that says ``attack`` in every place there is."""
    deep = {"a": [attack, {attack[:40]: attack}], attack[:60]: attack}
    return [
        ("session.update", {"title": attack[:200], "summary": attack, "add_labels": [attack[:64]]}),
        user(attack, {"type": "reasoning", "content": attack}, {"type": attack, "x": attack}, attack[:3]),
        ("message", {"role": attack, "parts": attack}),
        ("message", {"role": "user", "parts": [attack, 3, None, {"type": "text", "content": deep}]}),
        model(
            attack,
            call(attack, attack, command=attack, path=attack, **{attack[:30]: deep}),
            **{"response.model": attack},
        ),
        ("tool.call", {"id": attack, "name": attack, "requires": "confirmation"}),
        ("tool.confirmation", {"id": attack, "approved": True, "reason": attack}),
        result(attack, attack, is_error=True, code=attack),
        model(call("e", file_path=attack + ".py", old_string=attack, new_string=attack + "\n" + attack)),
        result("e", [text(attack), {"type": "text", "text": attack}, blob(attack, attack), blob("image/png", attack)]),
        result("unknown", deep),
        ("tool.call", {"id": None, "name": None, "arguments": attack}),
        user(
            blob("image/svg+xml", base64.b64encode(b"<svg/>").decode()),
            {"type": "uri", "uri": attack, "mime_type": attack},
        ),
        ("error", {"error.type": attack, "message": attack, "where": attack}),
        ("context.compaction", {"summary": attack, "from_seq": 1, "to_seq": 4}),
        ("context.compaction", {"summary": [text(attack), attack], "from_seq": attack}),
        ("native", {"type": attack, "fields": deep}),
        ("session.branch", {"branch": attack, "from": {"branch": attack, "seq": 1, "hash": attack}}),
        ("session.seal", {"size": attack, "root": attack}),
        ("turn.end", {"outcome": attack, "message": attack}),
        ("own.type", deep),
    ]


def first_of(attack: str) -> dict[str, Any]:
    return {"source": attack, "agent.name": attack, "project": attack, "title": attack[:200]}


def plainly(attack: str) -> str:
    """An attack as JSON can hold it in an event."""
    return attack.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


@HOSTILE
def test_no_attack_gets_out_of_its_place(attack: str) -> None:
    made = everywhere(plainly(attack))
    outline = Outline(html(*made, first=first_of(plainly(attack))))
    assert {f"e{seq}" for seq in range(1, len(made) + 2)} <= set(outline.ids)


@HOSTILE
@pytest.mark.parametrize("show", [page_markup.safe, page_markup.inline, page_markup.pre, page_markup.markdown])
def test_what_was_written_can_be_read(attack: str, show: Any) -> None:
    outline = Fragment(show(attack))
    # Markdown has entities.
    words = re.findall(r"[a-z]{4,}", unescape(attack) if show is page_markup.markdown else attack)
    missing = [word for word in words if word not in outline.text + " ".join(outline.titles) + " ".join(outline.links)]
    assert not missing


class Fragment(Outline):
    """A part of a page."""

    def __init__(self, text: str) -> None:
        super().__init__(f"<style></style><script></script>{text}")


@pytest.mark.parametrize("language", ["python", "html", "diff", "", "no-such"])
@HOSTILE
def test_code_is_text_in_any_language(attack: str, language: str) -> None:
    assert "<script" not in page_markup.code(attack, language)
    assert set(Fragment(page_markup.code(attack, language)).tags) <= {"style", "script", "pre", "span"}


def test_a_lone_surrogate_of_an_imported_record_is_spelled_out(tmp_path: Path) -> None:
    assert "U+D800" in page_markup.safe("\ud800") and "\ufffd" in page_markup.markdown("\udfff")


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-5, 2**53 - 1)
    | st.text(max_size=30)
    | st.sampled_from(sorted(ATTACKS.values())),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
TYPES = ["message", "model.response", "tool.call", "tool.result", "tool.confirmation", "error", "context.compaction"]
TYPES += [
    "native",
    "session.update",
    "session.checkpoint",
    "turn.end",
    "session.seal",
    "session.interrupt",
    "other.type",
]
NAMES = ["role", "parts", "id", "name", "arguments", "response", "is_error", "code", "summary", "from_seq", "to_seq"]
NAMES += ["keep_last", "type", "fields", "title", "usage", "size", "signatures", "message", "sidechain", "native"]
PARTS = st.lists(
    VALUES
    | st.fixed_dictionaries(
        {"type": st.sampled_from(["text", "reasoning", "tool_call", "tool_call_response", "blob", "uri"])},
        optional=dict.fromkeys(("content", "id", "name", "arguments", "response", "mime_type", "is_error"), VALUES),
    ),
    max_size=4,
)
DATA = st.dictionaries(st.sampled_from(NAMES), VALUES, max_size=6) | st.fixed_dictionaries({"parts": PARTS})


@settings(max_examples=150)
@given(made=st.lists(st.tuples(st.sampled_from(TYPES), DATA), max_size=6))
def test_data_of_any_shape_gives_a_whole_page(made: list[Made]) -> None:
    good: list[Made] = []
    for one in made:
        try:
            events_of(one)
        except JournalError:
            continue
        good.append(one)
    outline = Outline(html(*good))
    assert {f"e{seq}" for seq in range(1, len(good) + 2)} <= set(outline.ids)
    whole_markdown(markdown(*good))


# --- the policy ----------------------------------------------------------------------------------


def test_the_policy_names_the_one_script_and_the_one_style_and_nothing_else() -> None:
    made = html(user("x"))
    rules = dict(
        rule.split(" ", 1) for rule in re.search('Content-Security-Policy" content="([^"]*)"', made)[1].split("; ")
    )

    def named(tag: str) -> str:
        content = re.search(f"<{tag}>(.*?)</{tag}>", made, re.DOTALL)[1]
        return f"'sha256-{base64.b64encode(sha256(content.encode()).digest()).decode()}'"

    assert rules == {
        "default-src": "'none'",
        "img-src": "data:",
        "style-src": named("style"),
        "script-src": named("script"),
        "base-uri": "'none'",
        "form-action": "'none'",
    }
    assert made.index("Content-Security-Policy") < made.index("<style") < made.index("<script")


def test_neither_script_nor_style_asks_for_anything() -> None:
    script = (ROOT / "gitjournal" / "page.js").read_text(encoding="utf-8")
    assert not re.search(
        r"fetch|XMLHttp|import\(|innerHTML|insertAdjacent|eval|\bFunction\b|https?:|setTimeout\(['\"]", script
    )
    assert not re.search(r"url\(|@import|@font-face|https?:|expression\(", STYLE)
    assert "</" not in STYLE and "</s" not in script and "<!--" not in script


# --- what is on it -------------------------------------------------------------------------------


def test_each_event_has_one_place_its_time_and_its_whole_hash() -> None:
    events = events_of(
        user("x"), model(call("a")), result("a", "1"), ("native", {"type": "n"}), ("session.checkpoint", {})
    )
    outline = Outline(page(source(events)))
    assert sorted(one for one in outline.ids if re.fullmatch("e[0-9]+", one)) == [f"e{n}" for n in range(1, 7)]
    assert {event.hash for event in events} <= set(outline.titles)
    assert {event.ts for event in events} <= set(outline.titles)


def test_the_same_events_give_the_same_bytes() -> None:
    assert html(*everywhere("x")) == html(*everywhere("x"))


def block(made: str, ident: str) -> str:
    """The article of an event."""
    return re.search(f'<article [^>]*id="{ident}".*?</article>', made, re.DOTALL)[0]


def test_a_result_is_shown_with_its_call_and_an_error_is_marked() -> None:
    made = html(
        user("go"),
        model("Both.", call("a", command="ls"), call("b", "read", path="x.py")),
        ("tool.call", {"id": "a", "name": "shell"}),
        (
            "tool.result",
            {
                "parts": [
                    {"type": "tool_call_response", "id": "b", "response": "gone", "is_error": True},
                    {"type": "tool_call_response", "id": "a", "response": "x.py"},
                ]
            },
        ),
        model(call("c")),
        ("tool.confirmation", {"id": "c", "approved": False, "reason": "no"}, "user"),
    )
    assert Outline(made).ids.count("e5") == 1
    both = block(made, "e3")
    assert (
        'class="call done"' in both
        and 'class="call failed"' in both
        and both.index("x.py</pre>") < both.index("gone</pre>")
    )
    assert 'id="e4"' in both and 'id="e5"' in both and '<article class="ev tools" id="e5"' not in made
    assert "✗" not in both and "failed · 2.0 s" in both
    waiting = block(made, "e6")
    assert (
        'class="call open"' in waiting
        and "No result came." in waiting
        and "Refused by" in waiting
        and 'id="e7"' in waiting
    )


def test_a_call_that_waits_says_for_what() -> None:
    def asked(ident: str, requires: str | None) -> Made:
        return "tool.call", {"id": ident, "name": "x"} | ({"requires": requires} if requires else {})

    yes: Made = ("tool.confirmation", {"id": "c", "approved": True})
    made = html(asked("a", "confirmation"), asked("b", "result"), asked("c", "confirmation"), yes, asked("d", None))
    said = re.findall('<span class="status">(.*?)</span>', made)
    assert said == ["waits for confirmation", "waits for a result", "no result", "no result"]


def test_headings_of_a_text_stand_below_those_of_the_page() -> None:
    made = html(user("# One\n\n###### Six"))
    assert "<h3>One</h3>" in made and "<h6>Six</h6>" in made and made.count("<h1") == 1


def test_a_result_of_a_call_that_is_not_here_stands_alone() -> None:
    assert "of a call that is not here" in block(html(result("x", "late")), "e2")


def test_an_id_that_is_used_again_is_a_new_call() -> None:
    made = html(model(call("a", n=1)), result("a", "one"), model(call("a", n=2)), result("a", "two"))
    assert "one" in block(made, "e2") and "two" in block(made, "e4")


def test_tokens_are_counted_once_a_response_and_shown_by_turn() -> None:
    made = html(
        user("one"),
        model("a", **{"response.id": "r", "usage": used(1000, 5)}),
        model("b", **{"response.id": "r", "usage": used(1000, 70)}),
        user("two"),
        model("c", usage=used(30, 2)),
        ("error", {"message": "no"}),
    )
    marks = re.findall('<div class="mark">(.*?)</div>', made)
    assert "1k tokens in, 70 out" in marks[0]
    assert "30 tokens in, 2 out" in marks[1] and "1 error" in marks[1]
    assert re.findall(r'<a href="#t[0-9]+"><bdi>(.*?)</bdi>', made) == ["one", "two"]


def test_reasoning_is_folded_and_what_was_not_recorded_is_said() -> None:
    made = html(model({"type": "reasoning", "content": "Hmm, *well*."}, {"type": "reasoning", "content": ""}))
    assert re.search('<details class="think"><summary><b>Thinking</b>.*<em>well</em>', made, re.DOTALL)
    assert "Thinking, not recorded" in made


def test_a_withheld_event_is_shown_as_such() -> None:
    events = events_of(user("the pin is 1234"), model(call("a", command="cat pin")), result("a", "1234"))
    hidden = [events[0], events[1].withhold(), events[2], events[3].withhold()]
    made = page(source(hidden))
    assert "1234" not in Outline(made).text and "withheld" in block(made, "e2") and "2 payloads" in made
    assert "No result came." in block(made, "e3")


def test_a_compaction_says_what_the_model_no_longer_saw() -> None:
    made = html(
        user("a"),
        model("b"),
        ("context.compaction", {"summary": "It was *a*.", "from_seq": 1, "to_seq": 3, "keep_last": 1}),
    )
    shown = block(made, "e4")
    assert '<a href="#e1">1</a> to <a href="#e3">3</a> say, but the 1 newest entry' in shown and "<em>a</em>" in shown
    odd = block(html(user("a"), ("context.compaction", {"from_seq": "x"})), "e3")
    assert "cannot be read" in odd


def test_what_a_seal_says_is_shown_and_not_believed(journal: Journal) -> None:
    with journal.session("s", create=True, signer=LOG, sign="seal", closing_seal=False) as session:
        session.append("note", {})
        session.seal()
        session.append("note", {})
    outline = Outline(page(source_of(journal, S)))
    assert f"events 1 to 2 by event 3, signed with {LOG.fingerprint}; 1 event after that" in outline.text
    assert "Verifiednot by this page" in outline.text and "gj verify s" in outline.text
    assert "Sealedno" in Outline(html(user("x"))).text
    assert "not in form" in html(("session.seal", {"size": 9}))


def test_the_command_that_verifies_a_session_does_nothing_else(journal: Journal) -> None:
    with journal.session("a b; rm x", source="console"):
        pass
    outline = Outline(page(source_of(journal, Name("a b; rm x"))))
    assert "Run gj verify 'a b; rm x'" in outline.text


def test_branches_are_a_tree_with_the_one_of_the_page_marked(journal: Journal) -> None:
    with journal.session("s", create=True) as session:
        for n in range(5):
            session.append(*user(f"turn {n}")[:2])
    journal.branch("s", 3, "b")
    journal.branch("s/b", 4, "c")
    journal.branch("s", 2, "d")
    journal.branch("s", 5, "late")
    main = page(source_of(journal, S))
    tree = re.search('<nav class="branches".*?</nav>', main, re.DOTALL)[0]
    assert re.findall("<b><bdi>(.*?)</bdi></b>", tree) == ["main", "d", "b", "c", "late"]
    assert tree.count("this page") == 1 and tree.index("main") < tree.index("this page") < tree.index(">d<")
    assert '1 event of its own, parts after <a href="#e3">event 3</a>' in tree and "parts after event 4" in tree
    assert "Branch <b><bdi>b</bdi></b> begins after event 3" in main and ">c</bdi></b> begins" not in main
    below = page(source_of(journal, Name("s", "c")))
    assert '<span class="branch current"><b><bdi>c</bdi></b>' in below
    assert "<bdi>late</bdi></b> begins after event 5" in main and "late</bdi></b> begins" not in below
    assert "<bdi>d</bdi></b> begins after event 2" in below and "<bdi>b</bdi></b> begins" not in below


def test_branches_that_begin_on_each_other_end() -> None:
    events = events_of(user("x"))
    lines = [
        Line(S, 2, Begin(1, Name("s", "a"))),
        Line(Name("s", "a"), 2, Begin(1, S)),
        Line(Name("s", "b"), 2, Begin(1, Name("s", "b"))),
    ]
    made = page(source(events, lines))
    tree = re.search('<nav class="branches".*?</nav>', made, re.DOTALL)[0]
    assert sorted(re.findall("<b><bdi>(.*?)</bdi></b>", tree)) == ["a", "b", "main"] and Outline(made)
    assert plan(source(events, lines)).forks.keys() <= {1}


@pytest.mark.parametrize(
    ("part", "there"),
    [
        (blob("image/png", png()), True),
        (blob("image/gif", base64.b64encode(b"GIF89a....").decode()), True),
        (blob("image/webp", base64.b64encode(b"RIFF....WEBPVP8 ").decode()), True),
        (blob("image/jpeg", png()), False),
        (blob("image/webp", base64.b64encode(b"RIFF....WAVEfmt ").decode()), False),
        (blob("image/svg+xml", base64.b64encode(b"<svg/>").decode()), False),
        (blob('image/png" onerror="x', png()), False),
        (blob("image/png", "not base64"), False),
        (blob("text/html", base64.b64encode(b"<script>").decode()), False),
    ],
)
def test_a_picture_is_one_of_four_kinds_and_says_so_itself(part: dict[str, Any], there: bool) -> None:
    outline = Outline(html(user(part)))
    assert ("img" in outline.tags) == there and ("not shown here" in outline.text) != there


def test_a_picture_that_a_tool_gave_back_is_shown() -> None:
    made = html(model(call("a")), result("a", [text("Here:"), blob("image/png", png())]))
    assert "<img src=" in block(made, "e2")


def test_a_replacement_is_compared_line_by_line() -> None:
    made = block(html(model(call("a", "edit", file_path="a.py", old_string="a\nb\n", new_string="a\nc\n"))), "e2")
    assert '<span class="del">-b\n</span><span class="ins">+c\n</span>' in made and "old_string" not in made


def test_code_is_coloured_by_its_language_and_by_the_name_of_its_file() -> None:
    made = html(user("```python\nreturn 1\n```"), model(call("a", "write", path="x/a.rs", content="fn main() {}\n")))
    assert '<span class="p-k">return</span>' in made and '<span class="p-k">fn</span>' in made


def test_a_long_run_is_not_given_to_a_lexer() -> None:
    assert "<span" not in page_markup.code("\n" * 9000 + "int", "java")
    assert "<span" not in page_markup.code("int " * 5000, "java")
    assert "<span" in page_markup.code("int x;\n" * 50, "java")


@pytest.mark.parametrize("deep", [">" * 300 + " word", "".join("  " * n + f"- x{n}\n" for n in range(90)) + "word"])
def test_what_is_nested_too_deep_is_shown_as_it_is(deep: str) -> None:
    assert deep.splitlines()[-1].strip(" >") in Fragment(page_markup.markdown(deep)).text


def test_a_definition_of_a_link_is_not_hidden() -> None:
    assert (
        "[here]: https://a.example"
        in Fragment(page_markup.markdown("see [here]\n\n[here]: https://a.example 'secret'")).text
    )


def test_a_long_text_is_cut_and_says_so() -> None:
    made = html(user("x" * 300_000), model(call("a", content="y" * 300_000)), result("a", "z" * 300_000))
    assert made.count("200,000 more characters") == 3 and len(made) < 500_000


def test_records_that_say_little_stand_together() -> None:
    made = html(*[("native", {"type": "progress"})] * 450, user("x"))
    assert re.findall("<summary>([0-9,]+) records", made) == ["200", "200", "50"] and "progress × 200" in made


@pytest.mark.parametrize(
    ("code", "shown"), [("interrupted", "interrupted"), ("denied", "denied"), ("error", "error · 1.0 s")]
)
def test_how_long_a_call_took_is_not_told_by_who_closed_it_later(code: str, shown: str) -> None:
    made = html(model(call("a")), result("a", "x", is_error=True, code=code))
    assert f">{shown}<" in made


def test_the_talk_of_a_sub_agent_begins_no_turn() -> None:
    aside = {"role": "user", "parts": [text("Look.")], "sidechain": True}
    made = html(user("go"), ("message", aside), ("message", {"role": "user", "parts": [text("x")], "injected": True}))
    assert made.count('<section class="turn"') == 2 and 'class="ev user side"' in made and "sub-agent" in made


class Sizes(io.RawIOBase):
    """Notes how much is written at once."""

    def __init__(self) -> None:
        self.sizes: list[int] = []

    def write(self, data: Any) -> int:
        self.sizes.append(len(data))
        return len(data)


def test_a_page_is_written_as_it_is_read() -> None:
    out = Sizes()
    page_html.write(source(events_of(*[model("word " * 200)] * 2000)), out)
    assert max(out.sizes) < sum(out.sizes) / 20


@pytest.mark.skipif(not CORPUS.is_dir(), reason="the public corpus is not here")
def test_the_whole_corpus(journal: Journal) -> None:
    for path in sorted(CORPUS.rglob("*.json*")):
        try:
            formats.import_file(journal, path)
        except JournalError:
            continue
    names = list(journal.sessions())
    assert len(names) > 10
    for name in names:
        of = source_of(journal, name)
        outline = Outline(page(of))
        assert {f"e{event.seq}" for event in of.events()} <= set(outline.ids)
        out = io.BytesIO()
        page_text.write(of, out)
        whole_markdown(out.getvalue().decode())


# --- colours -------------------------------------------------------------------------------------


def palette(dark: bool) -> dict[str, tuple[float, ...]]:
    pairs = re.findall(r"--([a-z-]+): light-dark\(#([0-9a-f]{6}), #([0-9a-f]{6})\)", STYLE)
    return {name: tuple(int(pair[dark][n : n + 2], 16) / 255 for n in (0, 2, 4)) for name, *pair in pairs}


def contrast(one: tuple[float, ...], other: tuple[float, ...]) -> float:
    """WCAG 2's contrast ratio."""

    def light(colour: tuple[float, ...]) -> float:
        parts = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in colour]
        return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]

    bright, dim = sorted((light(one), light(other)), reverse=True)
    return (bright + 0.05) / (dim + 0.05)


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_all_text_can_be_read_on_all_grounds(dark: bool) -> None:
    colours = palette(dark)
    inks = [name for name in colours if name in {"ink", "dim", "link", "good", "bad", "warn"} or name.startswith("s-")]
    faint = [
        (ink, ground)
        for ink in inks
        for ground in ("paper", "card", "soft", "user")
        if contrast(colours[ink], colours[ground]) < 4.5
    ]
    faint += [("ink", ground) for ground in ("ins", "del", "mark") if contrast(colours["ink"], colours[ground]) < 4.5]
    assert len(inks) == 11 and not faint


# --- Markdown ------------------------------------------------------------------------------------


def whole_markdown(made: str) -> list[str]:
    """The headings of a document; fails when there is HTML, a picture, or a link to a program in it."""
    reader = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
    reader.validateLink = lambda _: True
    tokens = reader.parse(made)
    every = [child for token in tokens for child in (token, *(token.children or ()))]
    assert not {token.type for token in every} & {"html_block", "html_inline", "image"}
    links = [str(token.attrGet("href")) for token in every if token.type == "link_open"]
    assert not [
        link for link in links if re.match("[a-z]+:", link, re.I) and not re.match("https?:|mailto:", link, re.I)
    ]
    return [
        tokens[n + 1].content for n, token in enumerate(tokens) if token.type == "heading_open" and token.level == 0
    ]


@HOSTILE
def test_no_attack_breaks_the_structure_of_markdown(attack: str) -> None:
    made = everywhere(plainly(attack))
    headings = whole_markdown(markdown(*made, first=first_of(plainly(attack))))
    turns = sum(1 for kind, data, *_ in made if kind == "message" and data["role"] == "user")
    assert len(headings) == 1 + turns and all(one.startswith("Turn ") for one in headings[1:])
    assert not UNSEEN.search(markdown(*made))


@settings(max_examples=200)
@given(st.lists(st.sampled_from("`~<>&![]()\\*_#-=|\n\n \tax1.:/\"'"), max_size=60).map("".join))
def test_a_text_of_markdown_stays_one_block(said: str) -> None:
    for made in (page_text.quoted(said), page_text.fenced(said)):
        whole = f"{made}\n\nEND\n\n- END"
        tokens = MarkdownIt("commonmark", {"html": True}).enable("table").parse(whole)
        outer = [token.type for token in tokens if token.level == 0]
        first = 1 if outer[0] == "fence" else 2
        assert outer[0] in ("fence", "blockquote_open")
        assert outer[first:] == ["paragraph_open", "paragraph_close", "bullet_list_open", "bullet_list_close"]
        whole_markdown(whole)


def test_html_and_pictures_in_a_quotation_are_marked_as_text() -> None:
    said = page_text.quoted("a < b, <b>x</b>, `<b>`, &amp; ![x](y)\n\n    <code>\n\n```\n<pre>\n```")
    assert said.split("\n")[0] == "> a \\< b, \\<b>x\\</b>, `<b>`, \\&amp; \\![x](y)"
    assert said.split("\n")[2:] == [">     <code>", ">", "> ```", "> <pre>", "> ```"]
    assert page_text.quoted("[x](javascript:1)") == "```\n[x](javascript:1)\n```"


@given(st.text(max_size=60) | st.sampled_from(sorted(map(plainly, ATTACKS.values()))))
def test_a_name_in_markdown_is_no_markup(said: str) -> None:
    tokens = MarkdownIt("commonmark", {"html": True}).enable("table").parse(f"x {page_text.plain(said)} x")
    assert [token.type for token in tokens] == ["paragraph_open", "inline", "paragraph_close"]
    assert {child.type for child in tokens[1].children or ()} <= {"text", "text_special"}


def test_markdown_has_turns_calls_with_results_and_what_is_withheld() -> None:
    made = markdown(
        user("First *thing*"),
        model({"type": "reasoning", "content": "Hm."}, "Look:", call("a", command="ls `x`")),
        result("a", "one\n```\ntwo", is_error=True),
        user("Second"),
        model(call("b"), blob("image/png", png())),
        ("native", {"type": "progress"}),
    )
    assert re.findall("^## (.*)", made, re.MULTILINE) == ["Turn 1: First \\*thing\\*", "Turn 2: Second"]
    assert "> First *thing*" in made and "> Hm." in made and '"command": "ls `x`"' in made
    assert "````\none\n```\ntwo\n````" in made and "**Failed result**" in made and "*No result came.*" in made
    assert "not in this text" in made and "progress" not in made


def in_turns(*said: str) -> list[Event]:
    """What `with s.turn()` records, with a turn at the end that fails."""
    made: list[Made] = []
    for one in said:
        outcome = {"outcome": "failed" if one is said[-1] else "completed"}
        made += [("turn.start", {}), user(one), model("yes"), ("turn.end", outcome)]
    return events_of(*made)


def test_a_turn_begins_with_its_start_and_its_ends_say_nothing_more() -> None:
    made = page(source(in_turns("a", "b", "c")))
    sections = dict(re.findall('<section class="turn" id="t([0-9]+)">(.*?)</section>', made, re.DOTALL))
    placed = {turn: [int(seq) for seq in re.findall(' id="e([0-9]+)"', said)] for turn, said in sections.items()}
    assert placed == {"0": [1], "1": [2, 3, 4, 5], "2": [6, 7, 8, 9], "3": [10, 11, 12, 13]}
    assert 'class="records"' not in made and made.count("Turn ended") == 1 and "failed" in sections["3"]


def test_in_markdown_as_well() -> None:
    out = io.BytesIO()
    assert page_text.write(source(in_turns("a", "b")), out) == 9
    made = out.getvalue().decode()
    assert "turn.start" not in made and made.count("turn.end") == 1
    # A start that says something stands below the heading.
    told = markdown(("turn.start", {"why": "wake"}), user("a"), ("turn.end", {"outcome": "completed", "message": "so"}))
    assert re.search(r"## Turn 1: a.*why.*> a.*turn\.end", told, re.DOTALL)


def test_a_start_without_a_message_after_it_stays_where_it_is() -> None:
    made = page(source(events_of(user("a"), ("turn.start", {}), model("woken"), ("turn.start", {}))))
    assert [int(one) for one in re.findall(' id="e([0-9]+)"', made)] == [1, 2, 3, 4, 5]


def test_the_title_of_a_turn_does_not_name_the_language_of_its_code() -> None:
    asked = "And in b.py?\n\n```python\ndef f(x):\n```\n\n~~~sh\nls\n~~~"
    assert [one.gist for one in plan(source(events_of(user(asked)))).turns] == ["And in b.py? def f(x): ls"]


# --- gj export -----------------------------------------------------------------------------------


@pytest.fixture
def filled(gj: Gj, place: Path) -> Journal:
    gj("init")
    journal = gitjournal.open(place)
    with journal.session("s", create=True) as session:
        for kind, data, actor in (user("The pin is 1234"), model("Fine", call("a")), result("a", "x" * 70_000)):
            session.append(kind, data, actor=actor)
    return journal


@pytest.mark.parametrize("kind", ["html", "md"])
def test_export_writes_a_rendering_and_says_that_it_is_not_exact(gj: Gj, filled: Journal, kind: str) -> None:
    run = gj("export", "s", "--format", kind, "-o", "x")
    count = filled.head("s").seq
    assert run.stdout == f"s: {count} records written to x as {kind}\n"
    assert run.stderr == f"gj: {kind} is to read and not exact; --format jsonl has everything\n"
    assert Path("x").read_bytes() == gj("export", "s", "--format", kind).stdout_bytes
    assert [path.name for path in Path().iterdir()] == ["x"]
    told = json.loads(gj("export", "s", "--format", kind, "-o", "x", "--json").stdout)
    assert told == {"name": "s", "format": kind, "file": "x", "records": count}


@pytest.mark.parametrize("kind", ["html", "md"])
def test_export_of_some_events_withholds_the_rest(gj: Gj, filled: Journal, kind: str) -> None:
    made = gj("export", "s", "--format", kind, "--only", "3").stdout
    assert "1234" not in made and "Fine" in made and "withheld" in made and "x" * 100 not in made


def test_export_of_an_unknown_format_names_all(gj: Gj, filled: Journal) -> None:
    run = gj("export", "s", "--format", "pdf", ok=False)
    named = run.stderr.partition("Formats: ")[2].rstrip(".\n").split(", ")
    assert run.exit_code == 2 and {"claude-code", "html", "jsonl", "md", "records"} <= {*named}


def test_a_rendering_that_fails_leaves_what_was_there(gj: Gj, filled: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("x").write_text("precious")

    def fail(*_: Any) -> Iterator[str]:
        yield "half"
        raise StorageError("the disk is gone")

    monkeypatch.setattr(page_html._Page, "pieces", fail)
    assert gj("export", "s", "--format", "html", "-o", "x", ok=False).exit_code == 4
    assert Path("x").read_text() == "precious" and [path.name for path in Path().iterdir()] == ["x"]


# --- what it cost --------------------------------------------------------------------------------

TABLE = 'currency = "EUR"\n[[model]]\nname = "m-2"\ninput = 2\noutput = 10\ncache_read = 0.5\n'
PRICES = load(TABLE.encode(), "t")


def priced(ident: str, into: int, out: int, name: str = "m-2") -> Made:
    return model("x", **{"response.id": ident, "response.model": name, "usage": used(into, out)})


#: A response before the first turn, one that goes on in the turn after its own, and models that nobody has a price for.
DEAR = (
    priced("a", 1_000_000, 0), user("one"), priced("b", 1000, 5), priced("c", 400, 5, "m-8"), user("two"),
    priced("b", 1000, 70), priced("d", 600, 5, "m-9"), user("three"), priced("e", 30, 2), user("four"),
)  # fmt: skip


def test_a_turn_has_the_cost_of_the_responses_that_were_seen_first_in_it() -> None:
    made = html(*DEAR, prices=PRICES)
    marks = [re.sub("<.*?>", "", one) for one in re.findall('<div class="mark">(.*?)</div>', made)]
    assert [one.partition(" · ")[2] for one in marks] == [
        "1.4k tokens in, 75 out · EUR 0.0027 + ? · no price for m-8 (405 tokens)",
        "600 tokens in, 5 out · ? · no price for m-9 (605 tokens)",
        "30 tokens in, 2 out · EUR &lt;0.0001",
        "",
    ]
    listed = re.findall(r'<li><a href="#t[0-9]+">.*?<small>(.*?)</small>', made)
    assert [one.partition(" · ")[2] for one in listed] == [
        "1.4k→75 · EUR 0.0027 + ?", "600→5 · ?", "30→2 · EUR &lt;0.0001", "",
    ]  # fmt: skip
    whole = re.sub("</?bdi>", "", re.findall('<ul class="totals">.*?</p>', made)[0])
    assert "<li><b>2.0028 + ?</b> cost in EUR<small></small></li>" in whole
    assert whole.endswith('<p class="facts">no price for m-8 (405 tokens), no price for m-9 (605 tokens)</p>')
    assert "<b>2.0000</b> cost in" in html(DEAR[0], prices=PRICES) and "cost in" not in html(user("x"), prices=PRICES)


def test_markdown_has_the_cost_beside_the_tokens() -> None:
    made = markdown(*DEAR, prices=PRICES)
    assert "- 1M tokens in, 82 out, EUR 2.0028 + ?, no price for m-8 (405 tokens), no price" in made
    assert "*1.4k tokens in, 75 out, EUR 0.0027 + ?, no price for m-8 (405 tokens), 0 tool calls, 0 errors*" in made
    assert "*0 tokens in, 0 out, 0 tool calls, 0 errors*" in made


def test_without_prices_there_is_no_money_on_a_page() -> None:
    for made in (html(*DEAR), markdown(*DEAR)):
        assert "EUR" not in made and "no price" not in made and "cost in" not in made


def test_a_price_of_0_is_a_price_and_an_unknown_one_is_not_0() -> None:
    free = load(b'currency = "EUR"\n[[model]]\nname = "m-2"\ninput = 0\noutput = 0\n', "t")
    marks = re.findall('<div class="mark">(.*?)</div>', html(*DEAR, prices=free))
    assert "EUR 0.0000" in marks[2] and "EUR" not in marks[1] and "· ? ·" in marks[1]


ids = st.sampled_from(["", "a", "b", "c"])
counts = st.integers(0, 10**7)
answers = st.builds(priced, ids, counts, counts, st.sampled_from(["m-2", "m-8", "m-9"]))


@settings(max_examples=25, deadline=None)
@given(st.lists(answers | st.just(user("go on")), max_size=12), st.booleans())
def test_turns_add_up_to_what_gj_cost_says(
    tmp_path_factory: pytest.TempPathFactory, made: list[Made], flushed: bool
) -> None:
    journal = gitjournal.init(tmp_path_factory.mktemp("j") / "j")
    with journal.session("s", create=True) as session:
        for kind, data, *actor in (user("begin"), *made):
            session.append(kind, data, actor=actor[0])
        if flushed:
            session.flush()
    found = plan(source_of(journal, S), PRICES)
    for branch in (None, "main"):
        said = total(grouped(tally(journal, scope(journal, "s", branch)), "session", PRICES))
        names = ("input", "output", "cache_read", "cache_write", "reasoning", "unpriced")
        assert all(getattr(found.used, name) == getattr(said, name) for name in names)
        assert (found.used.cost or 0) == said.cost
    assert total({str(turn.seq): turn.used for turn in found.turns}) == found.used
    state = found.state.usage
    assert found.used.input == state["gen_ai.usage.input_tokens"]
    assert found.used.output == state["gen_ai.usage.output_tokens"]


def test_a_branch_shows_the_cost_of_what_it_has_from_its_parent(journal: Journal) -> None:
    with journal.session("s", create=True) as session:
        for kind, data, *actor in DEAR:
            session.append(kind, data, actor=actor[0])
    name = journal.branch("s", journal.head("s").seq, "try")
    with journal.session(name) as session:
        kind, data, actor = priced("f", 1000, 0)
        session.append(kind, data, actor=actor)
    found = plan(source_of(journal, name), PRICES)
    assert found.used.cost == Decimal("2.00478") and found.turns[-1].used.cost == Decimal("0.002")
    assert (
        total(grouped(tally(journal, scope(journal, "s", "try")), "session", PRICES)).cost == found.turns[-1].used.cost
    )


@HOSTILE
def test_no_name_of_a_model_without_a_price_gets_out_of_its_place(attack: str) -> None:
    made = [user("x"), priced("a", 5, 5, plainly(attack)), user("y")]
    assert "no price for" in Outline(html(*made, prices=PRICES)).text
    assert len(whole_markdown(markdown(*made, prices=PRICES))) == 3


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "prices.toml"
    path.write_text(TABLE)
    return path


@pytest.mark.parametrize("kind", ["html", "md"])
def test_export_shows_what_a_session_cost(gj: Gj, filled: Journal, table: Path, kind: str) -> None:
    with filled.session("s") as session:
        for type_, data, actor in (user("two"), priced("a", 1000, 70), priced("b", 1, 1, "m-9")):
            session.append(type_, data, actor=actor)
    made = gj("export", "s", "--format", kind, "--prices", table).stdout
    said = json.loads(gj("cost", "s", "--prices", table, "--json").stdout)
    assert said["cost"] == "0.0027" and made.count(" 0.0027 + ?") == 2
    assert made.count("no price for") == made.count("(2 tokens)") == 2


def test_export_with_prices_is_refused_where_they_are_not_shown_or_wrong(gj: Gj, filled: Journal, table: Path) -> None:
    for kind in ("jsonl", "claude-code", "records"):
        run = gj("export", "s", "--format", kind, "--prices", table, "-o", "x", ok=False)
        assert (run.exit_code, run.stderr) == (2, f"gj: --prices is for html and md: {kind} shows no cost\n")
    table.write_text(TABLE.replace("output", "ouput"))
    run = gj("export", "s", "--format", "html", "--prices", table, "-o", "x", ok=False)
    assert run.exit_code == 2 and run.stderr.startswith("gj: prices.toml: model 1 ('m-2'): unknown key 'ouput'")
    assert gj("export", "s", "--format", "md", "--prices", "gone", "-o", "x", ok=False).exit_code == 4
    assert not Path("x").exists()


# --- in a browser --------------------------------------------------------------------------------

IN_BROWSER = pytest.mark.skipif(chromium.PROGRAM is None, reason="no Chromium")
WATCH = "window.refused = []; addEventListener('securitypolicyviolation', (e) => refused.push(e.violatedDirective))"


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[chromium.Browser]:
    with chromium.browser(tmp_path_factory.mktemp("profile")) as one:
        yield one


@pytest.fixture
def tab(browser: chromium.Browser) -> chromium.Page:
    browser.told.clear()
    tab = browser.page()
    tab("Page.addScriptToEvaluateOnNewDocument", source=WATCH)
    tab("Emulation.setDeviceMetricsOverride", width=1280, height=900, deviceScaleFactor=1, mobile=False)
    return tab


def asked(tab: chromium.Page) -> set[str]:
    """The schemes of all that a tab asked for."""
    return {told["request"]["url"].partition(":")[0] for told in tab.events("Network.requestWillBeSent")}


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    made = [one for attack in ATTACKS.values() for one in everywhere(plainly(attack))]
    path = tmp_path / "hostile.html"
    path.write_bytes(html(*made, user(blob("image/png", png())), first=first_of(CANARY)).encode())
    return path


@IN_BROWSER
def test_in_a_browser_no_attack_runs_or_asks_for_anything(tab: chromium.Page, hostile: Path) -> None:
    tab.open(hostile)
    title = tab.js("document.title")
    tab.js("for (const one of document.querySelectorAll('details')) one.open = true")
    touched = "['mouseover', 'focus', 'load', 'error'].forEach((kind) => one.dispatchEvent(new Event(kind)))"
    tab.js(f"for (const one of document.querySelectorAll('main *')) {touched}")
    assert tab.js(
        "[document.title, window.pwned ?? null, refused.length, document.scripts.length, document.styleSheets.length]"
    ) == [title, None, 0, 1, 1]
    assert tab.js(
        "[...document.querySelectorAll('a')].every((a) => ['https:', 'http:', 'mailto:', 'file:'].includes(a.protocol))"
    )
    assert tab.js("[...document.images].length") >= 1 and tab.js(
        "[...document.images].every((i) => i.naturalWidth > 0)"
    )
    assert asked(tab) <= {"file", "data"} and not tab.events("Runtime.exceptionThrown")


@IN_BROWSER
def test_in_a_browser_a_script_that_gets_in_all_the_same_is_refused(tab: chromium.Page, tmp_path: Path) -> None:
    wild = f"<main id=wild><script>{CANARY}</script><img src=x onerror=\"{CANARY}\"><p style='color:red'></p></main>"
    made = html(user("x")).replace("<footer>", wild + "<footer>")
    path = tmp_path / "wild.html"
    path.write_text(made)
    tab.open(path)
    assert tab.js("window.pwned ?? null") is None and tab.js("document.title") == "x"
    wanted = ["script-src-elem", "script-src-attr", "style-src-attr", "img-src"]
    tab.until(f"{wanted}.every((one) => refused.includes(one))")
    # Without the policy the same page is taken over: this test would see it.
    path.write_text(re.sub('<meta http-equiv="Content-Security[^>]*>', "", made))
    tab.open(path)
    assert tab.js("document.title") == "pwned"


def long_session() -> list[Event]:
    made: list[Made] = []
    while len(made) < 4999:
        n = len(made)
        if n % 40 == 0:
            made.append(user(f"Turn {n}: the *next* thing"))
        made.append(model(f"Step {n}.\n\n```python\ndef f{n}(): return {n}\n```", call(f"c{n}", command=f"echo {n}")))
        made.append(result(f"c{n}", f"needle {n}\n" + "line\n" * 20))
        made.append(("native", {"type": "progress", "n": n}))
    return events_of(*made[:4999])


@IN_BROWSER
def test_in_a_browser_a_session_of_5000_events_opens_and_works(tab: chromium.Page, tmp_path: Path) -> None:
    path = tmp_path / "long.html"
    with path.open("wb") as out:
        assert page_html.write(source(long_session()), out) == 5000
    print(f"\nopened in {tab.open(path):.2f} s, {path.stat().st_size:,} bytes")
    shown = "[...document.querySelectorAll('main .ev')].filter((e) => e.checkVisibility()).length"
    found = "document.getElementById('found').textContent"
    whole = tab.js("document.querySelectorAll('main .ev').length")
    # What is far from the window has not been laid out.
    seen = "(one) => one.checkVisibility({contentVisibilityAuto: true})"
    assert tab.js(f"[...document.querySelectorAll('main .turn .mark')].filter({seen}).length") < 10
    assert tab.js(f"[...document.querySelectorAll('#toc a')].filter({seen}).length") < 100
    # The key "/" goes to the search; what is typed filters, counts, and unfolds where it is found.
    tab.key("/", 191)
    assert tab.js("document.activeElement.id") == "query"
    tab.type("needle 40")
    tab.until(f"{found} !== ''")
    needles = sum(1 for event in long_session() if b"needle 40" in event.raw)
    assert tab.js(found) == f"{needles} matches in {needles} events"
    assert tab.js("[...document.querySelectorAll('main .ev:not(.away)')].length") == needles
    assert tab.js("CSS.highlights.get('found').size") == needles
    tab.key("Enter", 13)
    tab.key("Enter", 13)
    assert tab.js(found).startswith(f"match 2 of {needles}")
    tab.js("window.at = [...CSS.highlights.get('at')][0]")
    assert tab.js("at.toString()") == "needle 40"
    assert tab.js("at.getBoundingClientRect().top > 0 && at.getBoundingClientRect().top < innerHeight")
    tab.key("Escape", 27)
    assert tab.js(f"[{found}, document.querySelectorAll('.away').length]") == ["", 0]
    assert tab.js(shown) > 0 and whole > 3000
    # A link to an event that is folded into its call.
    seq = next(event.seq for event in reversed(long_session()) if event.type == "tool.result")
    tab.js(f"location.hash = '#e{seq}'")
    tab.until(f"(b => b.top > -5 && b.top < innerHeight)(document.getElementById('e{seq}').getBoundingClientRect())")
    assert tab.js(f"document.getElementById('e{seq}').closest('details').open")
    assert asked(tab) <= {"file", "data"} and not tab.events("Runtime.exceptionThrown")


@IN_BROWSER
def test_in_a_browser_themes_hashes_folds_narrow_windows_and_print(tab: chromium.Page, tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    wide = "| a | b |\n|-|-|\n| " + "wide" * 200 + " | x |\n\n" + "long" * 300 + "\n\n```\n" + "code " * 200 + "\n```"
    path.write_text(
        html(
            user(wide, blob("image/png", png(3000, 20))),
            model(call("a" * 300, "tool" * 60, x="y" * 500)),
            result("a" * 300, "z" * 900),
        )
    )
    ground = "getComputedStyle(document.body).backgroundColor"
    tab("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark"}])
    tab.open(path)
    dark = tab.js(ground)
    tab.js("document.getElementById('theme').click()")
    light = tab.js(ground)
    assert dark != light
    # The choice is remembered; without one the page follows the system.
    tab.open_until(path, f"{ground} === '{light}'")
    tab.js("localStorage.clear()")
    tab.open_until(path, f"{ground} === '{dark}'")
    tab("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "light"}])
    tab.open(path)
    assert tab.js(ground) == light
    # A hash is copied whole.
    tab.js("window.copied = []; navigator.clipboard.writeText = async (text) => { copied.push(text) }")
    tab.js("document.querySelector('#e2 .hash').click()")
    assert re.fullmatch("[0-9a-f]{64}", tab.js("copied[0]"))
    for width in (320, 420, 800, 1280):
        tab("Emulation.setDeviceMetricsOverride", width=width, height=800, deviceScaleFactor=1, mobile=False)
        tab.js("for (const one of document.querySelectorAll('details')) one.open = true")
        assert tab.js("document.documentElement.scrollWidth <= innerWidth"), width
    tab.js("document.getElementById('unfold').click(); document.getElementById('unfold').click()")
    assert tab.js("document.querySelectorAll('main details[open]').length") == 0
    opened = "document.querySelectorAll('main details[open]').length"
    tab.js(f"window.printed = 0; addEventListener('beforeprint', () => {{ printed = {opened} }})")
    assert tab.pdf().startswith(b"%PDF-")
    tab.until(f"{opened} === 0")
    assert tab.js("printed > 0")
    assert not tab.events("Runtime.exceptionThrown")


@IN_BROWSER
def test_in_a_browser_without_scripts_the_page_can_be_read(tab: chromium.Page, tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    path.write_text(html(user("x"), model(call("a")), result("a", "there")))
    tab("Emulation.setScriptExecutionDisabled", value=True)
    tab.open(path)
    assert tab.js("getComputedStyle(document.getElementById('find')).display") == "none"
    assert "there" in tab.js("document.body.textContent")
