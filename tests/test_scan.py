"""`gj scan`: secrets in a journal, in what a push would send, and in files; where they are, never what they are."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from support import Gj, git
from test_redact import OTHER, PEM, TOKEN

import gitjournal
from gitjournal import delete, detect, erase, policy, redact, scan
from gitjournal.journal import Journal
from gitjournal.redact import Redactor
from gitjournal.refs import JOURNAL_SESSION, Name
from gitjournal.scan import Secret

KEY = b"k" * 32


@pytest.fixture
def talk(place: Path) -> Journal:
    """A journal with a session that has a secret in an event, in a side file, on a branch, and in the tail."""
    journal = gitjournal.init(place)
    with journal.session("s", create=True) as s:
        s.user("hello")
        s.user(f"use {TOKEN}")
        s.append("x.y", {"a": json.dumps({"b": f"token {TOKEN}"}), "c": f"again {TOKEN}"})
        s.user(f"{'word ' * 20_000}{OTHER}")
    journal.branch("s", 3, "b")
    with journal.session("s/b") as s:
        s.user(PEM)
    with journal.session("clean", create=True, redact=True) as s:
        s.user(f"use {TOKEN}")
    return journal


def found(journal: Journal) -> list[Secret]:
    listed = list(scan.everywhere(journal, Redactor(KEY), journal.sessions()))
    assert all(isinstance(one, Secret) for one in listed)
    return [one for one in listed if isinstance(one, Secret)]


def test_each_secret_of_each_event_is_found_once_with_all_its_places(talk: Journal) -> None:
    got = {f"{one.name}@{one.seq}": (one.rule, one.places) for one in found(talk)}
    assert got == {
        "s@3": ("github_token", ("/data/parts/0/content",)),
        "s@4": ("github_token", ("/data/a", "/data/c")),
        "s@5": ("gitlab_token", ("file 1",)),
        "s/b@5": ("private_key", ("/data/parts/0/content",)),
    }
    assert len({one.digest for one in found(talk) if one.rule == "github_token"}) == 1


def test_a_name_that_is_a_secret_is_found_and_not_printed(gj: Gj, talk: Journal) -> None:
    with talk.session("names", create=True) as s:
        s.append("x.y", {"a": {TOKEN: 1, OTHER: {"b": f"token {TOKEN}"}}})
    result = gj("scan", "names", ok=False)
    assert [line.split()[:2] for line in result.stdout.splitlines()] == [
        ["names@2", "/data/a"],
        ["names@2", "/data/a"],
    ]
    assert TOKEN not in result.output and OTHER not in result.output


def test_the_tail_is_looked_at(talk: Journal) -> None:
    with talk.session("late", create=True) as s:
        s.user(f"use {TOKEN}")
        assert [one.seq for one in found(talk) if one.name.session == "late"] == [2]


def test_withheld_payloads_are_passed_over(gj: Gj, talk: Journal) -> None:
    gj("erase", "s", "3-5", "--reason", "secrets")
    assert [f"{one.name}@{one.seq}" for one in found(talk)] == ["s/b@5"]


def test_pictures_are_not_read_as_text(journal: Journal) -> None:
    import base64

    content = base64.b64encode(f"{'x ' * 50_000}{TOKEN}".encode()).decode()
    with journal.session("s", create=True) as s:
        for mime in ("image/png", "text/html"):
            s.user([{"type": "blob", "modality": "image", "mime_type": mime, "content": content}])
    assert [(one.seq, one.places) for one in found(journal)] == [(3, ("file 1",))]


def test_a_very_large_side_file_is_looked_at_in_pieces(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan, "_WHOLE", 1000)
    monkeypatch.setattr(scan, "_PIECE", 997)
    monkeypatch.setattr(scan, "_OVERLAP", 100)
    with journal.session("s", create=True) as s:
        for before in range(20_000, 20_060, 3):
            s.user(f"{'x ' * (before // 2)}{TOKEN} {'y ' * 40_000}")
    assert [(one.seq, one.places) for one in found(journal)] == [(seq, ("file 1",)) for seq in range(2, 22)]


def test_a_branch_that_cannot_be_read_is_said_and_the_others_go_on(gj: Gj, talk: Journal) -> None:
    ref = talk.path / "refs" / "heads" / "clean" / "main"
    ref.write_text(f"{'0' * 39}1\n")
    result = gj("scan", "--all", ok=False)
    assert result.exit_code == 1 and "s@3" in result.stdout and "clean" in result.stderr


# --- the command ---------------------------------------------------------------------------------


def test_what_is_printed_is_never_the_secret(gj: Gj, talk: Journal) -> None:
    for words in (["scan", "--all"], ["scan", "--all", "--json"], ["scan", "s"]):
        result = gj(*words, ok=False)
        assert result.exit_code == 1
        for secret in (TOKEN, OTHER, PEM.split("\n")[2]):
            assert secret not in result.output and secret[8:20] not in result.output
    lines = gj("scan", "--all", ok=False).stdout.splitlines()
    assert lines[0] == "s@3  /data/parts/0/content  github_token  ghp_… (40 characters)"
    assert "and 1 more" in lines[1]
    first = json.loads(gj("scan", "--all", "--json", ok=False).stdout.splitlines()[0])
    digest = policy.redactor(talk.store).digest(TOKEN)
    assert first == {
        "session": "s",
        "branch": "main",
        "seq": 3,
        "digest": digest,
        "rule": "github_token",
        "preview": "ghp_… (40 characters)",
        "places": ["/data/parts/0/content"],
    }


def test_names_say_where_to_look(gj: Gj, talk: Journal) -> None:
    def places(*words: str) -> list[str]:
        return [line.split()[0] for line in gj("scan", *words, ok=False).stdout.splitlines()]

    assert places("s") == ["s@3", "s@4", "s@5", "s/b@5"]
    assert places("s/main") == ["s@3", "s@4", "s@5"]
    assert places("s@3") == ["s@3"]
    assert places("s/b") == ["s/b@3", "s/b@5"]
    assert places("s/b", "s@3") == ["s/b@3", "s/b@5", "s@3"]


def test_a_scan_writes_nothing(gj: Gj, place: Path) -> None:
    journal = gitjournal.init(place)
    with journal.session("s", create=True) as s:
        s.user(TOKEN)
    before = sorted(place.rglob("*"))
    gj("scan", "--all", ok=False)
    assert sorted(place.rglob("*")) == before


def test_a_clean_session_ends_with_0(gj: Gj, talk: Journal) -> None:
    result = gj("scan", "clean")
    assert (result.stdout, result.stderr) == ("", "gj: no secret found\n")


def test_what_the_policy_allows_is_not_said(gj: Gj, talk: Journal) -> None:
    digest = policy.redactor(talk.store).digest(TOKEN)
    (talk.path / "p.toml").write_text(f'[scan]\nallow = ["{digest}", "private_key"]\n')
    talk.store.set_settings({policy.SETTING: "p.toml"})
    assert gj("scan", "--all", ok=False).stdout.splitlines() == ["s@5  file 1  gitlab_token  glp… (26 characters)"]


def test_rules_are_listed(gj: Gj) -> None:
    assert "github_token" in gj("scan", "--rules").stdout.splitlines()
    assert json.loads(gj("scan", "--rules", "--json").stdout.splitlines()[0])["detector"] == detect.version()


@pytest.mark.parametrize("words", [[], ["s", "--all"], ["--all", "--push"], ["--rules", "s"], ["--file", "x", "s"]])
def test_one_thing_at_a_time(gj: Gj, talk: Journal, words: list[str]) -> None:
    result = gj("scan", *words, ok=False)
    assert (result.exit_code, result.stdout) == (2, "")


def test_without_the_detector_scan_says_what_to_install(gj: Gj, talk: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "redact_secret", None)
    detect._detector.cache_clear()
    try:
        for words in (["--all"], ["--rules"], ["--push"], ["s"]):
            result = gj("scan", *words, ok=False)
            assert result.exit_code == 1 and result.stdout == ""
            assert "hint: Install it with: pip install 'gitjournal[secrets]'" in result.stderr
    finally:
        detect._detector.cache_clear()


# --- before a push -------------------------------------------------------------------------------


def pushed(journal: Journal, remote: Path, name: str = "origin") -> None:
    if not remote.exists():
        git("init", "--bare", "-q", remote)
        git("remote", "add", name, remote, cwd=journal.path)
    git("push", "-q", name, "refs/heads/*:refs/heads/*", cwd=journal.path)
    git("fetch", "-q", name, cwd=journal.path)


def test_a_push_sends_what_the_remote_has_not(gj: Gj, talk: Journal, tmp_path: Path) -> None:
    assert len(gj("scan", "--push", ok=False).stdout.splitlines()) == 4
    pushed(talk, tmp_path / "remote")
    assert gj("scan", "--push").stderr == "gj: no secret found\n"
    with talk.session("s") as s:
        s.user(f"now {OTHER}")
    talk.fork("s", 3, "f")
    with talk.session("f") as s:
        s.user(f"and {OTHER}")
    for words in (["--push"], ["--push", "origin"]):
        lines = gj("scan", *words, ok=False).stdout.splitlines()
        assert [line.split()[0] for line in lines] == ["s@6", "f@5"]
    # Nothing is known of this one, so it may have nothing.
    assert len(gj("scan", "--push", "elsewhere", ok=False).stdout.splitlines()) == 6


def test_of_several_remotes_one_is_named(gj: Gj, talk: Journal, tmp_path: Path) -> None:
    pushed(talk, tmp_path / "one", "one")
    pushed(talk, tmp_path / "two", "two")
    result = gj("scan", "--push", ok=False)
    assert result.exit_code == 2 and "several remotes: one, two" in result.stderr
    gj("scan", "--push", "two")


# --- files ---------------------------------------------------------------------------------------


def test_files_are_looked_at_without_a_journal(gj: Gj, tmp_path: Path) -> None:
    def lines(content: str) -> list[str]:
        path = tmp_path / "file"
        path.write_text(content)
        result = gj("scan", "--file", path, ok=False)
        assert result.exit_code == (1 if result.stdout else 0)
        return [line.removeprefix(f"{path}:") for line in result.stdout.splitlines()]

    assert lines("nothing\n") == []
    assert lines(f"one\ntwo {TOKEN}\n") == ["2  github_token  ghp_… (40 characters)"]
    assert [one.split()[0] for one in lines(f"{TOKEN}\n\n{TOKEN} {OTHER}\n\n{TOKEN}\n")] == ["1", "3", "3", "5"]
    assert lines(f'{{"a":1}}\n\n{{"b":{{"c":"{TOKEN}"}}}}\n') == ["3  /b/c  github_token  ghp_… (40 characters)"]
    assert lines(json.dumps({"b": [TOKEN]}, indent=1)) == ["3  /b/0  github_token  ghp_… (40 characters)"]
    assert [line.split()[1] for line in lines(PEM)] == ["private_key"]


def test_lines_without_a_secret_are_not_looked_at_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[str] = []
    find = detect.find
    monkeypatch.setattr(detect, "find", lambda text, more="": looked.append(text) or find(text, more))
    secret = json.dumps({"b": TOKEN})
    for line in ("\n", "\r\n", "{}\n", '{"a":1}\n'):
        got = [(at, hit.at) for at, _, hit in scan.in_text(Redactor(KEY), line * 3000 + secret + "\n" + line * 3000)]
        assert got == [(3001, "/b")] and len(looked) < 5
        looked.clear()


KIND = "RSA PRIVATE KEY"
_LINES = st.lists(
    st.one_of(
        st.sampled_from(["", " ", "{}", "[]", json.dumps({TOKEN: 1}), json.dumps({"id": OTHER, "password": "x"})]),
        st.builds(
            lambda name, text: json.dumps({name: json.dumps([text])}),
            st.sampled_from(["a", "password", "type"]),
            st.sampled_from([TOKEN, PEM, "hunter2", "s3cr3tPassw0rd9", f"{TOKEN} {OTHER}", "\r\n\t", "words"]),
        ),
    ),
    max_size=12,
)


@given(_LINES)
# What looks like one secret over several lines has others in it.
@example([f'"-----BEGIN {KIND}-----"', json.dumps(TOKEN), f'"-----END {KIND}-----"'])
@example([json.dumps(PEM[:200]), json.dumps(f"password={TOKEN}"), json.dumps(PEM[200:])])
def test_a_file_of_json_lines_is_as_its_lines(lines: list[str]) -> None:
    redactor = Redactor(KEY)
    alone = [(number, *one) for number, line in enumerate(lines, 1) for one in redactor.look(line, names=True)]
    if redact.is_json(text := "\n".join(lines)):
        return
    assert list(scan.in_text(redactor, text)) == alone


def test_a_file_that_is_not_there(gj: Gj, tmp_path: Path) -> None:
    result = gj("scan", "--file", tmp_path / "none", ok=False)
    assert result.exit_code != 0 and result.stdout == ""


def test_what_may_be_shown() -> None:
    assert scan.masked("hunter2") == "… (7 characters)"
    assert scan.masked("x" * 16) == "xx… (16 characters)"
    assert scan.masked(TOKEN) == "ghp_… (40 characters)"


def test_reasons_are_recorded_without_secrets_and_the_journals_own_log_is_looked_at(journal: Journal) -> None:
    for name in ("a", "b"):
        with journal.session(name, source="console") as s:
            s.user("hello")
    delete.delete(journal, "a", f"because of {TOKEN}")
    redactor = policy.redactor(journal.store, keep=False)
    found = list(scan.everywhere(journal, redactor, scan.all_names(journal)))
    assert [str(one.name) for one in found] == ["journal"]
    (journal.path / "policy.toml").write_text('[record]\nredact = "required"\n')
    journal.store.set_settings({policy.SETTING: "policy.toml"})
    erase.erase(journal, "b", [2], f"because of {TOKEN}")
    delete.delete(journal, "b", f"because of {TOKEN}")
    told = [event.raw for event in journal.events(Name(JOURNAL_SESSION))]
    assert sum(TOKEN.encode() in raw for raw in told) == 1 and b"[redacted:" in told[-1]


def test_all_is_the_journals_own_log_too(gj: Gj, talk: Journal) -> None:
    delete.delete(talk, "clean", f"it had {OTHER}")
    result = gj("scan", "--all", ok=False)
    assert "journal@" in result.stdout and "/data/reason" in result.stdout
