"""The policy of a journal and the key of its marks: who may write what, and that doubt closes the door."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
from support import fork, git, wait
from test_redact import KEY, OTHER, TOKEN

from gitjournal import delete, erase, objects, policy
from gitjournal.errors import JournalError, Refused, StorageError, UsageError
from gitjournal.journal import Journal
from gitjournal.policy import Policy
from gitjournal.redact import Redactor
from gitjournal.refs import JOURNAL_SESSION, Name
from gitjournal.writer import Draft

Set = Callable[[str], Path]


@pytest.fixture
def rule(journal: Journal) -> Set:
    """Give the journal a policy of this text."""

    def write(text: str) -> Path:
        path = journal.path / "policy.toml"
        path.write_text(text)
        journal.store.set_settings({policy.SETTING: path.name})
        return path

    return write


def said(journal: Journal, name: str = "s") -> str:
    return " ".join(event.raw.decode() for event in journal.events(name))


# --- what a policy says --------------------------------------------------------------------------


def test_a_policy_is_read(journal: Journal, rule: Set) -> None:
    assert policy.read(journal.store) == Policy()
    rule('[import]\nredact = "required"\n[record]\nredact = "on"\n[scan]\nallow = ["jwt", "1a2b3c4d"]\n')
    assert policy.read(journal.store) == Policy("required", "on", frozenset({"jwt", "1a2b3c4d"}))
    rule("")
    assert policy.read(journal.store) == Policy()


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("x", "no TOML"),
        ("a = " + "[" * 10_000, "no TOML"),
        ("[imports]\n", r"no table \[imports\]"),
        ("import = 1\n", "import is no table"),
        ('[import]\nredacted = "on"\n', r"\[import\] has no redacted"),
        ("[import]\nredact = true\n", "not one of required, on, off"),
        ('[record]\nredact = "Required"\n', "not one of"),
        ('[scan]\nallow = "jwt"\n', "a list of names"),
        ('[scan]\nallow = ["*"]\n', "a list of names"),
        ("[scan]\nrules = 1\n", "the name of a file"),
        ("\x00", "no TOML"),
    ],
)
def test_a_policy_that_says_something_else_stops_imports_and_recordings(
    journal: Journal, rule: Set, text: str, why: str
) -> None:
    with pytest.raises(UsageError, match=why):
        policy.parse(text)
    rule(text)
    for what in ("import", "record"):
        for wish in (None, True, False):
            with pytest.raises(Refused, match=why) as caught:
                policy.redactor_for(journal.store, wish, what)  # type: ignore[arg-type]
            assert "\n" not in str(caught.value) and "--unset" in caught.value.hint
    with pytest.raises(Refused):
        journal.session("s", create=True)
    assert list(journal.sessions()) == []


def test_a_policy_that_cannot_be_read_stops_them_too(journal: Journal, rule: Set) -> None:
    path = rule("")
    path.unlink()
    with pytest.raises(Refused, match="cannot be used"):
        policy.redactor_for(journal.store, None, "import")
    os.mkfifo(path)
    with pytest.raises(Refused, match="not a regular file"):
        policy.redactor_for(journal.store, None, "import")
    path.unlink()
    path.write_bytes(b"\xff")
    with pytest.raises(Refused, match="utf-8"):
        policy.redactor_for(journal.store, None, "import")


@pytest.mark.parametrize(
    ("setting", "wish", "redacts"),
    [
        ("off", None, False),
        ("off", True, True),
        ("off", False, False),
        ("on", None, True),
        ("on", False, False),
        ("required", None, True),
        ("required", True, True),
    ],
)
def test_wish_and_policy_together(journal: Journal, rule: Set, setting: str, wish: bool | None, redacts: bool) -> None:
    rule(f'[record]\nredact = "{setting}"\n')
    assert (policy.redactor_for(journal.store, wish, "record") is not None) == redacts
    assert policy.redactor_for(journal.store, None, "import") is None


def test_what_is_required_cannot_be_turned_off(journal: Journal, rule: Set) -> None:
    rule('[import]\nredact = "required"\n[record]\nredact = "required"\n')
    with pytest.raises(Refused, match="imports are redacted"):
        policy.redactor_for(journal.store, False, "import")
    with pytest.raises(Refused, match="recordings are redacted"):
        journal.session("s", create=True, redact=False)


RULESET = """ruleset-revision: 1
detector: acme-token
specificity: contextual
prefix: "ACME_"
alphabet: alnum-dash
run: at-least 20
validator: none
"""


def test_rules_of_ones_own_are_found_too(journal: Journal, rule: Set) -> None:
    rule('[record]\nredact = "required"\n[scan]\nrules = "acme.ruleset"\n')
    (journal.path / "acme.ruleset").write_text(RULESET)
    with journal.session("s", create=True) as s:
        s.user(f"it is ACME_{'a1b2' * 6} and {TOKEN}")
    assert "ACME_a1b2" not in said(journal) and "[redacted:acme-token:" in said(journal) and TOKEN not in said(journal)


@pytest.mark.parametrize("text", [None, "", "ruleset-revision: 9\n", RULESET.replace("ACME_", "A")])
def test_rules_that_cannot_be_used_stop_everything(journal: Journal, rule: Set, text: str | None) -> None:
    rule('[record]\nredact = "on"\n[scan]\nrules = "acme.ruleset"\n')
    if text is not None:
        (journal.path / "acme.ruleset").write_text(text)
    with pytest.raises(Refused, match="ruleset cannot be used"):
        journal.session("s", create=True)
    with pytest.raises(Refused, match="ruleset cannot be used"):
        policy.redactor(journal.store)


# --- recording -----------------------------------------------------------------------------------


def test_a_recording_is_redacted_before_it_is_hashed(journal: Journal) -> None:
    with journal.session("s", create=True, redact=True, title=f"token {TOKEN}") as s:
        s.user(f"use {TOKEN}")
        s.append("x.y", {"a": [f"token {OTHER}"]})
        s.append_many([("message", {"role": "user", "parts": [{"type": "text", "content": TOKEN}]}, "user")])
        s.user("nothing")
        big = f"{'word ' * 20_000}{TOKEN}"
        s.user(big)
    events = list(journal.events("s"))
    assert TOKEN not in said(journal) and OTHER not in said(journal)
    assert TOKEN not in str([event.data for event in events])
    assert [[one["at"] for one in event.data.get("redactions", [])] for event in events] == [
        ["/title"],
        ["/parts/0/content"],
        ["/a/0"],
        ["/parts/0/content"],
        [],
        ["/parts/0/content"],
    ]
    assert len({one["digest"] for event in events for one in event.data.get("redactions", [])}) == 2


def test_a_redacted_call_is_still_the_models_call(journal: Journal) -> None:
    arguments = {"command": f"export GITHUB_TOKEN={TOKEN}"}
    with journal.session("s", create=True, redact=True) as s:
        s.model_response([{"type": "tool_call", "id": "call_1", "name": "sh", "arguments": arguments}])
        call = s.tool_call("sh", arguments)
        assert call.id == "call_1"
        s.tool_result(call.id, f"GITHUB_TOKEN={TOKEN}")
    assert TOKEN not in said(journal)


def test_what_would_pass_redaction_by_is_refused(journal: Journal) -> None:
    file = objects.side_file(TOKEN.encode(), "text/plain")
    with journal.session("s", create=True, redact=True) as s:
        with pytest.raises(UsageError, match="side files"):
            s.append_many([Draft("x.y", {"a": {"$gj:file": 1}}, files=[file])])
        for data in (TOKEN, [TOKEN]):
            with pytest.raises(JournalError):
                s.append("x.y", data)  # type: ignore[arg-type]
    assert TOKEN not in said(journal)


def test_without_a_wish_or_a_policy_what_is_said_is_kept(journal: Journal) -> None:
    with journal.session("s", create=True) as s:
        s.user(TOKEN)
    assert TOKEN in said(journal)
    assert not policy.key_path(journal.store).exists()


def test_a_policy_redacts_every_recording(journal: Journal, rule: Set) -> None:
    rule('[record]\nredact = "required"\n[scan]\nallow = ["gitlab_token"]\n')
    with journal.session("s", create=True) as s:
        s.user(f"{TOKEN} and {OTHER}")
    assert TOKEN not in said(journal) and OTHER in said(journal)


# --- the key -------------------------------------------------------------------------------------


def test_the_key_is_made_once_and_is_the_owners_own(journal: Journal) -> None:
    path = policy.key_path(journal.store)
    one = policy.key(journal.store)
    assert len(one) == 32 and policy.key(journal.store) == one
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert not any(path.parent.glob("*.new"))
    assert policy.redactor(journal.store).digest("x") == Redactor(one).digest("x") != Redactor(KEY).digest("x")


def test_processes_that_make_the_key_at_once_get_the_same(journal: Journal, tmp_path: Path) -> None:
    def child() -> None:
        (tmp_path / f"{os.getpid()}.key").write_bytes(policy.key(journal.store))

    assert [wait(pid) for pid in [fork(child) for _ in range(6)]] == [0] * 6
    assert {path.read_bytes() for path in tmp_path.glob("*.key")} == {policy.key(journal.store)}


def test_a_key_of_others_is_not_used(journal: Journal) -> None:
    policy.key(journal.store)
    path = policy.key_path(journal.store)
    path.chmod(0o640)
    with pytest.raises(UsageError, match="open to others") as caught:
        policy.key(journal.store)
    assert caught.value.hint == f"chmod 600 {path}"
    path.chmod(0o600)
    path.write_text("00ff")
    with pytest.raises(StorageError, match="no key of 32 bytes"):
        policy.key(journal.store)
    path.unlink()
    path.symlink_to("elsewhere")
    (path.parent / "elsewhere").write_text("00" * 32)
    with pytest.raises(StorageError):
        policy.key(journal.store)


def test_a_key_that_cannot_be_written_stops_redaction(journal: Journal) -> None:
    folder = journal.path / "gitjournal"
    policy.key_path(journal.store).mkdir()
    with pytest.raises(JournalError):
        policy.redactor(journal.store)
    assert folder.exists()


def test_neither_key_nor_policy_is_cloned(journal: Journal, tmp_path: Path) -> None:
    with journal.session("s", create=True, redact=True) as s:
        s.user(TOKEN)
    git("clone", "--bare", journal.path, tmp_path / "copy")
    assert not list((tmp_path / "copy").rglob("redaction.key"))
    assert policy.key(journal.store).hex().encode() not in b"".join(
        path.read_bytes() for path in (tmp_path / "copy").rglob("*") if path.is_file()
    )


def test_a_setting_that_names_nothing_closes(journal: Journal) -> None:
    git("config", policy.SETTING, "", cwd=journal.path)
    with pytest.raises(Refused):
        policy.read(journal.store)


def test_reasons_of_erasures_and_deletions_are_recorded_without_secrets(journal: Journal, rule: Set) -> None:
    rule('[record]\nredact = "required"\n')
    for name in ("a", "b"):
        with journal.session(name, source="console") as s:
            s.user("hello")
    erase.erase(journal, "a", [2], f"because of {TOKEN}")
    delete.delete(journal, "b", f"because of {TOKEN}")
    for name in (Name("a"), Name(JOURNAL_SESSION)):
        *_, last = journal.events(name)
        assert TOKEN.encode() not in last.raw and b"[redacted:" in last.raw
