"""Signed commits (docs/verification.md section 9)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .cases_git import MAIN
from .cases_seals import (
    AFTER_TEXT,
    ALICE,
    CUT_TEXT,
    GIT_TEXT,
    MALLORY,
    P256,
    P384,
    P521,
    rsa,
    says,
    sealed,
    signers_file,
    statement,
)
from .gitkit import Lies, Repo
from .kit import Event, Line, relink, talk
from .sshsig import Key, armour
from .suite import Finding, Suite


def _signed(suite: Suite) -> None:
    line = talk(4)
    alice = ["--allowed-signers", "{vectors}/seals/alice.signers"]
    who = "alice@example.org"

    def by(key: Key, **how: Any) -> Callable[[bytes], str]:
        return lambda text: key.sign(text, "git", **how)

    def case(
        name: str,
        about: str,
        sign: Mapping[int, Callable[[bytes], str]],
        find: Callable[[list[Any]], list[Finding]],
        events: Sequence[Event] | None = None,
        **more: Any,
    ) -> None:
        repo = Repo()
        made = repo.write(events or line.events, MAIN, Lies(sign=sign))
        suite.repo(name, about, repo, find(made), **more)

    stripped = Repo()
    stripped.write(line.events, MAIN)
    suite.repo(
        "signed-and-stripped",
        "the signatures are gone: unsigned commits are good ones",
        stripped,
        args=alice,
        keep=True,
    )
    case(
        "signed-head",
        "the head is signed",
        {4: by(ALICE)},
        lambda _: [],
        args=alice,
        line=says(1, 4, (ALICE, who, 1)),
        verdict={"unchecked": [GIT_TEXT, CUT_TEXT]},
    )
    case(
        "signed-head-of-nobody-known",
        "the head is signed, and no list of signers",
        {4: by(ALICE)},
        lambda _: [],
        exit_=3,
        line=says(1, 0, (ALICE, None, 1)),
    )
    case(
        "signed-every-commit",
        "all commits are signed",
        dict.fromkeys(range(1, 5), by(ALICE)),
        lambda _: [],
        args=[*alice, "--require-signed"],
        line=says(4, 4, (ALICE, who, 4)),
    )
    case(
        "signed-in-the-middle",
        "the second commit is signed",
        {2: by(ALICE)},
        lambda _: [],
        args=alice,
        line=says(1, 2, (ALICE, who, 1)),
        verdict={"unchecked": [GIT_TEXT, CUT_TEXT, AFTER_TEXT]},
    )
    args = ["--allowed-signers", "{vectors}/seals/every-kind.signers"]
    kinds = {1: by(P256), 2: by(P384), 3: by(rsa()), 4: by(ALICE, hash_="sha256")}
    everybody = ((P256, "p256", 1), (P384, "p384", 1), (rsa(), "rsa-3072", 1), (ALICE, "ed25519", 1))
    case(
        "signed-by-every-kind",
        "each commit with another key",
        kinds,
        lambda _: [],
        args=args,
        line=says(4, 4, *everybody),
    )
    long = {4: lambda text: _one_line(ALICE.sign(text, "git"))}
    case("signed-in-one-line", "base64 in one line", long, lambda _: [], args=alice, line={"signatures": 1})

    def bad(seq: int) -> Callable[[list[Any]], list[Finding]]:
        return lambda made: [("bad-signature", seq, made[seq - 1].commit)]

    wrong: Mapping[str, Callable[[bytes], str]] = {
        "of-another-namespace": lambda text: ALICE.sign(text, "gitjournal"),
        "of-another-namespace-that-lies": lambda text: ALICE.sign(text, "gitjournal", says="git"),
        "of-another-text": lambda text: ALICE.sign(text + b"\n", "git"),
        "of-nothing": lambda _: ALICE.sign(b"", "git"),
        "moved-from-the-commit-before": lambda text: ALICE.sign(
            text.replace(b" #4\n", b" #3\n").replace(b" #2\n", b" #1\n"), "git"
        ),
        "moved-from-another-session": lambda text: ALICE.sign(text.replace(b"Session: s", b"Session: t"), "git"),
        "with-sha1": lambda text: rsa(2048).sign(text, "git", algorithm="ssh-rsa"),
        "of-garbage": lambda _: armour(b"garbage"),
        "of-no-base64": lambda _: armour(b"garbage").replace("Z2", "="),
        "with-bytes-left-over": lambda text: ALICE.sign(text, "git", extra=b"\0"),
        "of-another-version": lambda text: ALICE.sign(text, "git", version=2),
    }
    for name, sign in wrong.items():
        for seq in (2, 4):
            case(
                f"signed-commit-{seq}-{name}",
                "a signature of something else",
                {seq: sign},
                bad(seq),
                args=alice,
                line=says(0),
            )
    case(
        "signed-by-mallory",
        "a key that nobody knows",
        {4: by(MALLORY)},
        lambda made: [("unknown-signer", 4, made[3].commit)],
        args=alice,
        line=says(1, 0, (MALLORY, None, 1)),
    )
    case(
        "signed-by-two-people",
        "Alice and then Mallory",
        {2: by(ALICE), 4: by(MALLORY)},
        lambda made: [("unknown-signer", 4, made[3].commit)],
        args=alice,
        line=says(2, 2, (ALICE, who, 1), (MALLORY, None, 1)),
    )
    case(
        "signed-with-an-unknown-kind",
        "a kind that is not checked here",
        {4: by(P521)},
        lambda _: [],
        args=alice,
        exit_=3,
        line=says(0),
    )
    none: list[Finding] = [("bad-signature", None, "")]
    suite.repo(
        "signed-and-stripped-and-required",
        "the signatures are gone, and one is asked for",
        stripped,
        none,
        args=[*alice, "--require-signed"],
    )
    # A signature of a commit that says something else is not looked at: the commit is wrong already.
    repo = Repo()
    made = repo.write(
        line.replaced(4, line[4].change(data={"edited": 1})), MAIN, Lies(like={4: line[4]}, sign={4: by(ALICE)})
    )
    suite.repo(
        "signed-and-edited",
        "the payload under a signed commit is another one",
        repo,
        [("bad-hash", 4, made[3].commit)],
        args=alice,
        line=says(0),
    )
    repo = Repo()
    lies = Lies(commit={4: lambda text: text.replace(b"> 17", b"> 16")}, sign={4: by(ALICE)})
    made = repo.write(line.events, MAIN, lies)
    suite.repo(
        "signed-with-another-time",
        "signed, and not what the event derives",
        repo,
        [("bad-tree", 4, made[3].commit)],
        args=alice,
        line=says(0),
    )
    two = {4: lambda text: ALICE.sign(text, "git") + ALICE.sign(text, "git")}
    case(
        "signed-with-two-blocks",
        "two blocks in one header",
        two,
        lambda made: [("bad-commit", None, made[3].commit)],
        args=alice,
    )
    repo = Repo()
    lies = Lies(commit={4: lambda text: _headers(text, ALICE.sign(text, "git"), 2)})
    made = repo.write(line.events, MAIN, lies)
    suite.repo(
        "signed-with-two-headers", "two gpgsig headers", repo, [("bad-commit", None, made[3].commit)], args=alice
    )
    repo = Repo()
    lies = Lies(commit={3: lambda text: _headers(text, ALICE.sign(text, "git"), 2)})
    made = repo.write(line.events, MAIN, lies)
    suite.repo(
        "signed-commit-3-with-two-headers", "two gpgsig headers", repo, [("bad-commit", 3, made[2].commit)], args=alice
    )
    repo = Repo()
    made = repo.write(line.events, MAIN, Lies(sign={1: by(ALICE), 2: by(ALICE), 4: by(ALICE)}))
    for one in made[:3]:
        repo.drop(one.commit)
    repo.files["shallow"] = made[3].commit.encode() + b"\n"
    texts = {"unchecked": [GIT_TEXT, CUT_TEXT, "commits that a shallow history leaves out: 3"]}
    suite.repo(
        "signed-and-shallow",
        "a shallow clone of a signed journal",
        repo,
        args=alice,
        exit_=3,
        verdict=texts,
        line=says(1, 4, (ALICE, who, 1)),
    )
    ended = ["--allowed-signers", "{vectors}/seals/ended-in-2025.signers"]
    case(
        "signed-with-an-ended-key",
        "the time of the commit is behind its end",
        {4: by(ALICE)},
        lambda made: [("unknown-signer", 4, made[3].commit)],
        args=ended,
    )
    only = signers_file(suite, "only-seals", f'alice namespaces="gitjournal" {ALICE.line}\n')
    case(
        "signed-with-a-key-for-seals",
        "the key may not sign commits",
        {4: by(ALICE)},
        lambda made: [("unknown-signer", 4, made[3].commit)],
        args=only,
    )
    full = sealed(ALICE, events=3)
    texts = {"unchecked": [GIT_TEXT, CUT_TEXT]}
    case(
        "signed-seal",
        "a seal, and its commit is signed too",
        {4: by(ALICE)},
        lambda _: [],
        full.events,
        args=alice,
        verdict=texts,
        line=says(2, 4, (ALICE, who, 2), seals=1),
    )
    wrong_seal = talk(3)
    wrong_seal.add("session.seal", {**statement(wrong_seal), "size": 2})
    case(
        "bad-seal",
        "a seal of another size, in git",
        {},
        lambda made: [("bad-seal", 4, made[3].blob)],
        wrong_seal.events,
    )
    repo = Repo()
    made = repo.write(relink([event.change(session="t") for event in full.events], 1), "refs/heads/t/main")
    suite.repo(
        "transplanted-with-its-seal",
        "a sealed session under another id",
        repo,
        [("bad-seal", 4, made[3].blob)],
        args=alice,
    )
    several = Repo()
    several.write(full.events, MAIN, Lies(sign={4: by(ALICE)}))
    other = Line("t")
    several.write(other.events, "refs/heads/t/main")
    lines = [says(2, 4, (ALICE, who, 2)), says(0)]
    suite.repo(
        "signed-line-beside-an-unsigned-one",
        "two lines",
        several,
        args=alice,
        verdict={"lines": lines, "unchecked": [GIT_TEXT, CUT_TEXT, AFTER_TEXT]},
    )
    suite.repo(
        "signed-line-beside-an-unsigned-one-and-required",
        "each line must be signed",
        several,
        none,
        args=[*alice, "--require-signed"],
    )


def _one_line(text: str) -> str:
    lines = text.strip().split("\n")
    return "\n".join([lines[0], "".join(lines[1:-1]), lines[-1], ""])


def _headers(text: bytes, armoured: str, times: int) -> bytes:
    head, _, body = text.partition(b"\n\n")
    header = b"\ngpgsig " + armoured.strip().replace("\n", "\n ").encode()
    return head + header * times + b"\n\n" + body


def add(suite: Suite) -> None:
    """All cases of this file."""
    suite.folder = "seals"
    _signed(suite)
