"""The page of `gj verify --report`: what is on it, and that what a journal says cannot get out of its place."""

from __future__ import annotations

import re
import shutil
import zlib
from collections.abc import Iterator
from hashlib import sha256
from html.parser import HTMLParser
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st
from sealed import LOG, WITNESS, allowed_line, cosigned, grown
from support import ROOT, git_text

import gitjournal
from gitjournal import cli, proof, report_html
from gitjournal.journal import Journal
from gitjournal.refs import Name, encode
from gitjournal.report_html import MAX_SHOWN, MEANING, Context, Seen, page, show
from gitjournal.verdict import Finding, Report, Signer

HOSTILE = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "</title></style><style>*{display:none}",
    "'; alert(1) //",
    "&lt;b&gt;&amp;#60;",
    "{title} {body} %s {0}",
    "javascript:alert(1)",
    "]]><!-- -->",
    "a\u202egnp.exe\u2066b\u200b\ufeff\u061c\u00ad",
    "\x1b[31mred\x00\r\n\t\x7f\x9b",
    "\ud800 lone \udfff",
    "x" * 5000,
    "\u2800\u3164",
]
NEVER_THERE = re.compile(
    "[\x00-\x09\x0b-\x1f\x7f-\x9f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]"
)


class Outline(HTMLParser):
    """Tags and attributes in order, without the marks of unseen characters; and the text."""

    VOID = frozenset({"meta", "br"})

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[object] = []
        self.texts: list[str] = []
        self._open: list[str] = []
        self._marked = False
        self.feed(html)
        self.close()
        assert not self._open, "every tag is closed"

    @property
    def text(self) -> str:
        return "".join(self.texts)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in self.VOID:
            self._open.append(tag)
        if attrs != [("class", "u")] and tag != "i":
            self.tags.append((tag, attrs))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    def handle_comment(self, data: str) -> None:
        raise AssertionError(data)


def report_of(text: str, number: int = 0) -> Report:
    """A broken report with ``text`` in every place that somebody else fills."""
    return Report(
        name=text,
        branch=Name("s"),
        head_seq=1200,
        head_hash="ab" * 32,
        commit="cd" * 20,
        withheld=[2, 3, 4, 9],
        seals=1,
        signatures=3,
        signers={text: Signer(text, 2), text + "~": Signer(None, 1)},
        witnesses={text: Signer(text, 1)},
        signed_to=900,
        findings=[
            Finding("bad-hash", 7 + number, text, text),
            Finding("wrong-ref", None, "", text),
            Finding("equivocation", 1, "ef" * 32, text),
        ],
        unchecked=[text, "whether newer events were cut off: nothing pins the head"],
        incomplete=True,
    )


def page_of(text: str) -> str:
    events = {(text, seq): Seen(seq, "2026-01-02T03:04:05.678Z", text, text, text) for seq in (6, 7)}
    events[text, 8] = Seen(8, fault=text)
    context = Context(text, text, text, 1, [("names", text)], [text], events)
    return page([report_of(text), report_of(text, 1)], context)


# --- what is on it -------------------------------------------------------------------------------


def good(**changes: object) -> Report:
    report = Report("s", Name("s"), 12, "ab" * 32, "cd" * 20, unchecked=["who wrote the events: nothing is signed"])
    for name, value in changes.items():
        setattr(report, name, value)
    return report


CONTEXT = Context("/srv/journal", "2026-11-29 12:00:00 UTC", "gj 1.2.3", 0)


def test_a_good_journal() -> None:
    text = Outline(page([good()], CONTEXT)).text
    wanted = ["Intact", "1 branch, 12 events, no findings. Exit status 0.", "/srv/journal", "2026-11-29 12:00:00 UTC"]
    wanted += ["gj 1.2.3", "who wrote the events: nothing is signed", "ab" * 32, "cd" * 20, "Nobody"]
    assert [one for one in wanted if one not in text] == []
    assert page([good()], CONTEXT) == page([good()], CONTEXT)


def test_a_broken_one() -> None:
    text = Outline(page_of("X")).text
    for wanted in ("Broken", "2 branches, 2,400 events, 6 findings in 2 branches. Exit status 1.", "4 events: 2–4, 9",
                   "to event 900 of 1,200 by X", "bad-hash at X@7", MEANING["bad-hash"], "cannot be read: X",
                   "nobody who is accepted here", "as a witness"):  # fmt: skip
        assert wanted in text
    outline = Outline(page_of("X"))
    # The event of a finding stands out between its neighbours.
    assert outline.tags.count(("tr", [("class", "here")])) == 2
    assert ("th", []) in outline.tags


def test_the_verdict_is_that_of_the_exit_status() -> None:
    for status, title in ((0, "Intact"), (1, "Broken"), (2, "Not checked"), (3, "Incomplete"), (4, "Not readable")):
        html = page([good()], CONTEXT._replace(exit_status=status))
        assert f"<h1>{title}</h1>" in html and f"Exit status {status}." in html


def test_what_is_wrong_comes_first() -> None:
    reports = [
        good(name="fine"),
        good(name="open", incomplete=True),
        good(name="bad", findings=[Finding("bad-tree", 1, "", "")]),
    ]
    links = re.findall(r'<a href="#b\d"><bdi>(\w+)</bdi>', page(reports, CONTEXT))
    assert links == ["bad", "open", "fine"]


def test_what_was_not_checked_is_said_once() -> None:
    notes = ["who wrote the events: nothing is signed", "whether newer events were cut off: nothing pins 1"]
    reports = [good(name=f"s{n}", unchecked=[notes[0], f"{notes[1]}{n}"]) for n in range(300)]
    reports.append(good(name="last", unchecked=["commits that a shallow history leaves out: 4"]))
    html = page(reports, CONTEXT)
    top = html[html.index("What was not checked") : html.index("Who signed")]
    assert top.count("<li>") == 3 + 3 and "(300 of 301 branches)" in top and "nothing pins 1" not in top
    assert "commits that a shallow history leaves out: 4" in top and "(1 of 301 branches)" in top
    assert html.count("nothing pins 117</bdi>") == 1, "each branch has its own"


def test_more_findings_than_anybody_reads() -> None:
    many = [Finding("bad-object", seq, f"{seq:040x}", "x") for seq in range(1, 1001)]
    html = page([good(name=f"s{n}", findings=many) for n in range(4)], CONTEXT._replace(exit_status=1))
    assert html.count("<article>") == MAX_SHOWN and html.count("And 1,000 more findings") == 2
    assert "4,000 findings in 4 branches" in html


def test_many_withheld_ranges_and_long_texts() -> None:
    html = page([good(withheld=list(range(2, 2002, 2)), findings=[Finding("bad-seal", 3, "", "y" * 100_000)])], CONTEXT)
    assert "1,000 events: 2, 4, 6" in html and "and 800 more ranges" in html
    assert "(100,000 characters)" in html and len(html) < 20_000


def test_a_proof_and_a_branch_that_is_gone() -> None:
    gone = Report("s", Name("s"), findings=[Finding("truncated", None, "ab" * 32, "the branch is gone")])
    text = Outline(page([Report("proof", unchecked=["x"]), gone], CONTEXT._replace(exit_status=1))).text
    assert text.count("headnone") == 2 and "truncated of no single event" in text


def test_the_meanings_are_those_of_the_documentation() -> None:
    text = (ROOT / "docs" / "verification.md").read_text(encoding="utf-8")
    table = text.split("| code | text |\n|---|---|\n", 1)[1].partition("\n\n")[0]
    assert dict(re.findall(r"^\| `([a-z-]+)` \| (.*) \|$", table, re.MULTILINE)) == MEANING


# --- attacks: what somebody else has written -------------------------------------------------------


@pytest.mark.parametrize("text", HOSTILE)
def test_html_injection_in_names_types_actors_and_texts(text: str) -> None:
    html = page_of(text)
    outline, plain = Outline(html), Outline(page_of("plain"))
    assert outline.tags == plain.tags, "whatever it is, it is text in the same places"
    assert {tag for tag, _ in outline.tags} & {"script", "img", "iframe", "object", "link", "base", "form"} == set()  # type: ignore[misc]
    assert not NEVER_THERE.search(html)
    html.encode()


@given(st.text(max_size=50))
def test_any_text_stays_in_its_place(text: str) -> None:
    html = page_of("q" + text)
    assert Outline(html).tags == Outline(page_of("plain")).tags
    assert not NEVER_THERE.search(html)


def test_the_page_asks_for_nothing_and_runs_nothing() -> None:
    outline = Outline(page_of("http://evil.example/x"))
    for tag, attributes in outline.tags:  # type: ignore[misc]
        for name, value in attributes:
            assert not name.startswith("on") and name not in ("src", "style", "srcset", "action")
            assert name != "href" or re.fullmatch(r"#b\d+", value)
        assert tag not in ("script", "link", "img")
    html = page_of("x")
    assert "default-src 'none'; style-src 'unsafe-inline'" in html
    assert not re.search(r"url\(|@import|https?:", html)


def test_what_is_not_seen_is_spelled_out() -> None:
    assert show("a\u202eb") == '<bdi>a<span class="u">U+202E</span>b</bdi>'
    assert show("\n") == '<bdi><span class="u">U+000A</span></bdi>'
    assert show("\ud800") == '<bdi><span class="u">U+D800</span></bdi>'
    assert show("\u3164") == '<bdi><span class="u">U+3164</span></bdi>', "a letter that is blank"
    assert show("\U000e0041") == '<bdi><span class="u">U+E0041</span></bdi>'
    # What looks like it is told apart: it is not marked.
    assert show("U+202E") == "<bdi>U+202E</bdi>"
    assert show("é 日本 שלום 😀") == "<bdi>é 日本 שלום 😀</bdi>"


# --- gj verify --report --------------------------------------------------------------------------


def run(journal: Journal | None, *words: object) -> Result:
    where = ["-J", str(journal.path)] if journal else []
    return CliRunner().invoke(cli.gj, [*where, "verify", *map(str, words), "--forget"], prog_name="gj")


def loose_objects(path: Path) -> None:
    for pack in list((path / "objects" / "pack").glob("*.pack")):
        content = pack.read_bytes()
        for file in pack.parent.glob(f"{pack.stem}.*"):
            file.unlink()
        git_text("unpack-objects", "-q", cwd=path, stdin=content)


def blob(journal: Journal, name: str, seq: int) -> Path:
    oid = git_text("rev-parse", f"refs/heads/{encode(name)}/main:0000/00/{seq:08d}.json", cwd=journal.path)
    return journal.path / "objects" / oid[:2] / oid[2:]


@pytest.fixture
def hostile(tmp_path: Path) -> Iterator[tuple[Journal, str]]:
    """A journal whose session has a hostile name, with an event lost and another one changed."""
    name = "<img src=x onerror=alert(1)>\u202e"
    journal = gitjournal.init(tmp_path / "journal")
    grown(journal, 9, name=name)
    grown(journal, 3, name="fine")
    loose_objects(journal.path)
    blob(journal, name, 3).unlink()
    changed = blob(journal, name, 7)
    content = zlib.decompress(changed.read_bytes()).replace(b"line", b"LINE")
    changed.unlink()
    changed.write_bytes(zlib.compress(content))
    yield gitjournal.open(journal.path), name


def test_report_of_a_broken_journal(hostile: tuple[Journal, str], tmp_path: Path) -> None:
    journal, name = hostile
    plain = run(journal)
    done = run(journal, "--report", tmp_path / "page.html")
    assert done.exit_code == plain.exit_code == 1 and done.stdout == plain.stdout and not done.stderr
    html = (tmp_path / "page.html").read_text("utf-8")
    text = Outline(html).text
    assert "<img" not in html and "\u202e" not in html
    assert "missing-object at <img src=x onerror=alert(1)>U+202E@3" in text
    assert "bad-object at <img src=x onerror=alert(1)>U+202E@7" in text
    assert journal.event(name, 2).hash in text and journal.event(name, 8).hash in text, "the neighbours"
    assert text.count("cannot be read: ") == 2
    assert str(journal.path) in text and f"gj {gitjournal.__version__}" in text and " UTC" in text


def test_report_of_a_good_one_says_what_it_was_given(tmp_path: Path) -> None:
    journal = gitjournal.init(tmp_path / "journal")
    grown(journal, 4)
    files = {"signers": allowed_line(LOG), "witnesses": allowed_line(WITNESS), "revoked": ""}
    for file, content in files.items():
        (tmp_path / file).write_text(content)
    (tmp_path / "kept").write_bytes(cosigned(journal).line)
    words = ["--allowed-signers", tmp_path / "signers", "--revoked-keys", tmp_path / "revoked", "--require-signed"]
    words += [
        "--cosigned",
        tmp_path / "kept",
        "--witnesses",
        tmp_path / "witnesses",
        "--report",
        tmp_path / "page.html",
    ]
    done = run(journal, "s", *words)
    assert done.exit_code == 0, done.output
    text = Outline((tmp_path / "page.html").read_text("utf-8")).text
    for file in ("signers", "kept", "witnesses", "revoked"):
        assert f"{tmp_path / file}, SHA-256 {sha256((tmp_path / file).read_bytes()).hexdigest()}" in text
    assert LOG.fingerprint in text and WITNESS.fingerprint in text and "every branch signed" in text
    assert "to event 6 of 6 by who@example.com" in text and "pinnedto event 5" in text


def test_report_of_a_proof(tmp_path: Path) -> None:
    journal = gitjournal.init(tmp_path / "journal")
    grown(journal, 4)
    raw = proof.inclusion(journal, "s", 3)
    for content, status in ((raw, 3), (raw.replace(b'"path":["', b'"path":["AAAA'), 1)):
        (tmp_path / "proof.json").write_bytes(content)
        done = run(None, "--proof", tmp_path / "proof.json", "--report", tmp_path / "page.html")
        text = Outline((tmp_path / "page.html").read_text("utf-8")).text
        assert done.exit_code == status and str(tmp_path / "proof.json") in text and "all other events" in text


def test_report_says_what_could_not_be_read(tmp_path: Path) -> None:
    journal = gitjournal.init(tmp_path / "journal")
    grown(journal, 4)
    done = run(journal, "s", "nobody<b>", "--report", tmp_path / "page.html")
    text = Outline((tmp_path / "page.html").read_text("utf-8")).text
    assert done.exit_code == 4 and "What could not be read" in text and "nobody<b>" in text and "Not readable" in text


def test_report_that_cannot_be_written_does_not_hide_the_verdict(hostile: tuple[Journal, str], tmp_path: Path) -> None:
    journal, _ = hostile
    assert run(journal, "--report", tmp_path / "no" / "page.html").exit_code == 1
    done = run(journal, "fine", "--report", tmp_path / "no" / "page.html")
    assert done.exit_code == 4 and "cannot write the report" in done.stderr and "fine: " in done.stdout
    assert run(journal, "fine", "--report", tmp_path).exit_code == 2
    assert not list(tmp_path.glob("*.part"))


def test_report_with_json_and_of_a_branch_that_is_gone(tmp_path: Path) -> None:
    journal = gitjournal.init(tmp_path / "journal")
    grown(journal, 4)
    (tmp_path / "kept").write_bytes(cosigned(journal).line)
    (tmp_path / "witnesses").write_text(allowed_line(WITNESS))
    shutil.rmtree(journal.path / "refs" / "heads" / "s")
    words = ["--json", "--cosigned", tmp_path / "kept", "--witnesses", tmp_path / "witnesses"]
    done = run(gitjournal.open(journal.path), *words, "--report", tmp_path / "page.html")
    assert done.exit_code == 1 and '"truncated"' in done.stdout
    assert "truncated of no single event" in Outline((tmp_path / "page.html").read_text("utf-8")).text


def test_events_near_a_finding_never_stop_the_report(tmp_path: Path) -> None:
    """Whatever a byte of an event is changed to: the page is written."""
    journal = gitjournal.init(tmp_path / "journal")
    grown(journal, 4)
    loose_objects(journal.path)
    path = blob(journal, "s", 3)
    raw = zlib.decompress(path.read_bytes())
    for at in range(0, len(raw), 7):
        path.unlink()
        path.write_bytes(zlib.compress(raw[:at] + bytes([raw[at] ^ 0x80]) + raw[at + 1 :]))
        done = run(gitjournal.open(journal.path), "s", "--report", tmp_path / "page.html")
        assert done.exit_code == 1 and "Traceback" not in done.output and "internal" not in done.output
        assert "s@3" in Outline((tmp_path / "page.html").read_text("utf-8")).text


def test_it_is_a_pure_function() -> None:
    source = Path(report_html.__file__).read_text("utf-8")
    assert set(re.findall(r"^from (gitjournal\.\w+) import", source, re.MULTILINE)) == {
        "gitjournal.render",
        "gitjournal.verdict",
    }
    assert not re.search(r"\b(open|time|environ|print)\(", source)
