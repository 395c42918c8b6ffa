"""Journals in git: good ones, clones, and attacks on events behind git's back (docs/verification.md section 8)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .cases_lines import edited
from .gitkit import Lies, Made, Repo, bundle, entry, oid
from .kit import Line, relink, talk
from .suite import Finding, Suite

MAIN = "refs/heads/s/main"
EMPTY_TREE = oid("tree", b"")
NOWHERE = "ab" * 20


def base(lies: Lies | None = None) -> tuple[Line, Repo, list[Made]]:
    """Five events in git; event 3 has a side file."""
    line, repo = talk(5, files=(3,)), Repo()
    return line, repo, repo.write(line.events, MAIN, lies)


def swap(old: bytes, new: bytes) -> Callable[[bytes], bytes]:
    """Replace the one place where ``old`` stands."""

    def change(data: bytes) -> bytes:
        if data.count(old) != 1:
            raise ValueError(f"{old!r} stands {data.count(old)} times in {data!r}")
        return data.replace(old, new)

    return change


def plus(tail: bytes) -> Callable[[bytes], bytes]:
    """Something more at the end."""
    return lambda data: data + tail


def _good(suite: Suite) -> None:
    line, repo, _ = base()
    texts = [
        "events that are not yet in git: the tail of a live journal",
        "whether newer events were cut off: no head was expected",
        "who wrote the events: nothing is signed",
    ]
    suite.repo(
        "good",
        "five events and a side file",
        repo,
        line={
            "head": {"seq": 5, "hash": line.head},
            "side_files": 1,
            "seals": 0,
            "signatures": 0,
            "signers": [],
            "withheld": [],
        },
        verdict={"unchecked": texts, "verdict": "ok", "version": 1},
        keep=True,
    )
    repo = Repo()
    one = Line()
    repo.write(one.events, MAIN)
    suite.repo("good-one-event", "the shortest journal", repo, line={"head": {"seq": 1, "hash": one.head}})
    line = talk(6, files=(2, 4))
    events = [event.withhold() if event.seq in (3, 4, 6) else event for event in line.events]
    repo = Repo()
    repo.write(events, MAIN)
    suite.repo(
        "good-withheld", "three events without payload", repo, line={"withheld": [[3, 4], [6, 6]], "side_files": 1}
    )
    clock = Line()
    clock.say("back in time", ts="2020-01-01T00:00:00.000Z")
    clock.say("and forth", ts="2031-01-01T00:00:00.999Z")
    clock.say("and back again", ts="1970-01-01T00:00:00.000Z")
    repo = Repo()
    repo.write(clock.events, MAIN)
    suite.repo("good-clock-that-goes-back", "commit times never fall", repo)
    names = Line("a b/\u00e9\U0001f600..lock.")
    names.declare(".try..lock")
    repo = Repo()
    repo.write(names.events, "refs/heads/a%20b%2F%C3%A9%F0%9F%98%80%2E.lock%2E/%2Etry%2E%2Elock")
    suite.repo("good-odd-names", "names that need the percent sign", repo)
    twelve = Line()
    twelve.add("message", {}, files=[b"%d" % n for n in range(12)])
    repo = Repo()
    repo.write(twelve.events, MAIN)
    suite.repo("good-12-side-files", "entries .1 .10 .11 .12 .2", repo, line={"side_files": 12})
    same = Line()
    same.add("message", {}, files=[b"", b""])
    same.add("message", {}, files=[same[1].raw])
    repo = Repo()
    repo.write(same.events, MAIN)
    suite.repo(
        "good-one-blob-three-times", "a side file that is empty, and one that is an event", repo, line={"side_files": 3}
    )


def _bundles(suite: Suite) -> None:
    line = talk(103, files=(3, 101))
    try_ = talk(103, files=(3, 101))
    try_.events = try_.events[:40]
    try_.declare("try")
    try_.say("on the branch")
    fork = talk(103, files=(3, 101))
    fork.events = fork.events[:102]
    fork.fork("t")
    repo = Repo()
    repo.write(line.events, MAIN)
    repo.write(try_.events, "refs/heads/s/try")
    repo.write(fork.events, "refs/heads/t/main")
    content = bundle(repo)
    heads = {"refs/heads/s/main": line, "refs/heads/s/try": try_, "refs/heads/t/main": fork}

    def lines(prefix: str) -> list[dict[str, Any]]:
        return [
            {
                "name": name.replace("refs/heads/", prefix),
                "head": {"commit": repo.refs[name], "hash": one.head, "seq": one.seq},
            }
            for name, one in heads.items()
        ]

    for how, prefix, status in (
        ("mirror", "refs/heads/", 0),
        ("plain", "refs/remotes/origin/", 0),
        ("depth", "refs/heads/", 3),
    ):
        what = {
            "mirror": "a bare clone",
            "plain": "a plain clone: its branches are remote ones",
            "depth": "a real shallow clone",
        }[how]
        # The depth-1 clone leaves out all commits but the heads.
        more: dict[str, Any] = {"verdict": {"lines": lines(prefix)}}
        if how == "depth":
            more["verdict"]["unchecked"] = [
                "events that are not yet in git: the tail of a live journal",
                "whether newer events were cut off: no head was expected",
                "who wrote the events: nothing is signed",
                f"commits that a shallow history leaves out: {102 + 41 + 102}",
            ]
        suite.file(f"bundle-{how}", what, "journal.bundle", content, exit_=status, setup={"clone": how}, **more)
    suite.file(
        "bundle-gc",
        "after git gc: packs, packed refs, a commit graph",
        "journal.bundle",
        content,
        setup={"clone": "gc"},
        verdict={"lines": lines("refs/heads/")},
    )


def _events(suite: Suite) -> None:
    line, _, _ = base()
    e = line.events

    def attack(
        name: str,
        about: str,
        events: list[Any],
        lies: Lies | None,
        found: Callable[[list[Made]], list[Finding]],
        **more: Any,
    ) -> None:
        repo = Repo()
        made = repo.write(events, MAIN, lies)
        suite.repo(name, about, repo, found(made), **more)

    lie = line.replaced(2, edited(e[1]))
    attack(
        "edited-event",
        "event 2 has another payload, and git was made to agree",
        lie,
        None,
        lambda m: [("broken-link", 3, m[2].blob)],
    )
    attack(
        "edited-event-under-its-old-hash",
        "event 2 has another payload, the commit names the old hash",
        lie,
        Lies(like={2: e[1]}),
        lambda m: [("bad-hash", 2, m[1].commit), ("broken-link", 3, m[2].blob)],
    )
    attack(
        "edited-header",
        "event 2 is said to be of somebody else",
        line.replaced(2, e[1].change(actor="assistant")),
        None,
        lambda m: [("broken-link", 3, m[2].blob)],
    )
    attack(
        "edited-last-event",
        "the commit still names the hash that event 5 had",
        line.replaced(5, edited(e[4])),
        Lies(like={5: e[4]}),
        lambda m: [("bad-hash", 5, m[4].commit)],
        line={"head": {"seq": 5, "hash": edited(e[4]).hash}},
    )
    other = edited(e[1])
    repo = Repo()
    repo.put("blob", other.raw)
    change = swap(bytes.fromhex(oid("blob", e[1].raw)), bytes.fromhex(oid("blob", other.raw)))
    made = repo.write(e, MAIN, Lies(leaf={5: change}))
    found = [("bad-hash", 2, made[1].commit), ("broken-link", 3, made[2].blob)]
    suite.repo(
        "edited-event-in-the-head-only", "the tree of the head has another event 2 than all trees before", repo, found
    )
    attack(
        "edited-event-and-all-after-it",
        "a line that agrees with itself: no hash can tell",
        relink(lie, 3),
        None,
        lambda _: [],
    )
    attack(
        "swapped-events",
        "events 2 and 3 have changed places",
        [e[0], e[2], e[1], e[3], e[4]],
        None,
        lambda m: [
            *[("bad-seq", 2, m[1].blob), ("broken-link", 2, m[1].blob), ("bad-seq", 3, m[2].blob)],
            *[("broken-link", 3, m[2].blob), ("broken-link", 4, m[3].blob)],
        ],
    )
    # The head says 5 and there are four: the last two of five commits cannot both be there.
    attack(
        "dropped-middle",
        "event 3 is not there, and each later one stands a place lower",
        [e[0], e[1], e[3], e[4]],
        None,
        lambda m: [
            *[("bad-commit", 2, m[0].commit), ("bad-hash", 2, m[0].commit), ("bad-seq", 3, m[2].blob)],
            *[("broken-link", 3, m[2].blob), ("bad-seq", 4, m[3].blob), ("missing-object", 5, "")],
        ],
    )
    gone = entry("00000003.json", oid("blob", e[2].raw))
    attack(
        "dropped-middle-of-the-tree",
        "the head's tree has no event 3",
        e,
        Lies(leaf={5: swap(gone, b"")}),
        lambda _: [("missing-object", 3, "")],
    )
    attack(
        "dropped-middle-relinked",
        "the rest is numbered and linked anew: no hash can tell",
        relink([e[0], e[1], e[3], e[4]], 3),
        None,
        lambda _: [],
    )
    args = ["--expect-seq", "5", "--expect-head", e[4].hash]
    attack("dropped-tail", "the branch was set back to event 3", e[:3], None, lambda _: [])
    attack(
        "dropped-tail-with-an-expected-head",
        "the branch was set back to event 3, and somebody knew the head",
        e[:3],
        None,
        lambda _: [("truncated", 3, e[4].hash)],
        args=args,
        pick="s/main",
    )
    attack("expected-head", "the head is the one that was kept", e, None, lambda _: [], args=args, pick="s")
    attack(
        "expected-head-rolled-back",
        "another event 5",
        relink(lie, 3),
        None,
        lambda _: [("rollback", 5, e[4].hash)],
        args=args,
        pick="s/main",
    )
    extra = Line()
    extra.events = e[:2]
    attack(
        "inserted-event",
        "an event between 2 and 3; the head says 5, so the last place is not looked at",
        [e[0], e[1], extra.say("inserted"), *e[2:]],
        None,
        lambda m: [
            *[("bad-commit", 1, m[0].commit), ("bad-hash", 1, m[1].commit)],
            *[("bad-seq", 4, m[3].blob), ("broken-link", 4, m[3].blob), ("bad-seq", 5, m[4].blob)],
        ],
    )
    attack(
        "duplicated-seq",
        "event 2 is there twice",
        [e[0], e[1], e[1], e[2]],
        Lies(commit={4: swap(b" #3\n", b" #4\n")}),
        lambda m: [("bad-seq", 3, m[2].blob), ("broken-link", 3, m[2].blob), ("bad-seq", 4, m[3].blob)],
    )
    attack(
        "renumbered",
        "event 3 says 7",
        line.replaced(3, e[2].change(seq=7)),
        None,
        lambda m: [("bad-seq", 3, m[2].blob), ("broken-link", 4, m[3].blob)],
    )
    moved = relink([event.change(session="t") for event in e], 1)
    attack(
        "transplanted",
        "all events say session t, the ref says s",
        moved,
        None,
        lambda m: [("wrong-ref", None, m[4].commit)],
    )
    one = relink(line.replaced(3, e[2].change(session="t")), 3)
    attack(
        "transplanted-event",
        "event 3 says session t",
        one,
        None,
        lambda m: [("bad-session", 3, m[2].blob), ("bad-session", 4, m[3].blob)],
    )
    epoch = relink(line.replaced(3, e[2].change(epoch=9)), 3)
    attack(
        "forged-epoch",
        "event 3 claims a later writer",
        epoch,
        None,
        lambda m: [("bad-epoch", 4, m[3].blob), ("bad-epoch", 5, m[4].blob)],
    )
    forged = talk(4)
    forged.add("session.branch", {"branch": "try", "from": forged.fork_point(2, hash="0" * 64)})
    repo = Repo()
    made = repo.write(forged.events, "refs/heads/s/try")
    suite.repo("forged-fork-point", "a branch that comes from nowhere", repo, [("bad-fork", 5, made[4].blob)])
    for name, raw, code in (
        ("not-json", b"hello", "bad-json"),
        ("empty", b"", "bad-json"),
        ("with-a-newline", e[1].raw + b"\n", "not-canonical"),
        ("with-newlines-inside", e[1].raw.replace(b",", b",\n"), "not-canonical"),
        ("with-a-raw-newline-in-a-string", e[1].raw.replace(b"line 2", b"line\n2"), "bad-json"),
        ("non-canonical", e[1].raw.replace(b'"v":1', b'"v":1.0'), "not-canonical"),
        ("version-2", e[1].raw.replace(b'"v":1', b'"v":2'), "bad-version"),
        ("duplicate-member", e[1].raw.replace(b'"v":1', b'"v":1,"v":1'), "bad-json"),
    ):
        attack(
            f"event-{name}",
            "event 2 is other bytes",
            line.replaced(2, e[1].as_bytes(raw)),
            None,
            lambda m, code=code: [(code, 2, m[1].blob)],
        )


def _heads(suite: Suite) -> None:
    line, _, _ = base()
    hash3 = line[3].hash

    def says(number: bytes) -> tuple[Repo, list[Made]]:
        _, repo, made = base(Lies(commit={5: swap(b" #5\n", b" #%s\n" % number)}))
        return repo, made

    repo, m = says(b"9")
    found: list[Finding] = [("bad-commit", 5, m[0].commit), ("bad-hash", 5, m[0].commit)]
    found += [("missing-object", seq, "") for seq in (6, 7, 8, 9)]
    suite.repo("forged-head-seq", "the head says 9, there are 5", repo, found, line={"head": {"seq": 9, "hash": None}})
    repo, m = says(b"3")
    found = [("bad-commit", 1, m[1].commit), ("bad-hash", 1, m[2].commit)]
    suite.repo(
        "forged-head-seq-too-small",
        "the head says 3, there are 5",
        repo,
        found,
        line={"head": {"seq": 3, "hash": hash3}},
    )
    repo, m = says(b"1")
    found = [("bad-commit", 1, m[3].commit), ("bad-hash", 1, m[4].commit)]
    suite.repo(
        "forged-head-seq-one",
        "the head says 1, there are 5",
        repo,
        found,
        line={"head": {"seq": 1, "hash": line[1].hash}},
    )
    repo, _ = says(b"99999999")
    suite.repo(
        "forged-head-seq-of-a-hundred-million",
        "whoever believes the head counts for long",
        repo,
        exit_=1,
        differ=True,
        rss=400,
        verdict={"unchecked": ["*", "*", "*", "what comes after 1000 findings in a line"]},
        line={"head": {"seq": 99_999_999, "hash": None}},
    )
    repo, m = says(b"0")
    suite.repo(
        "forged-head-seq-zero",
        "the head says 0",
        repo,
        [("bad-commit", None, m[4].commit)],
        line={"head": {"seq": 0, "hash": None}},
    )
    # Five commits, and the third has the first for its parent
    _, repo, made = base()
    first = made[0].commit
    _, repo, m = base(Lies(commit={3: swap(b"parent " + made[1].commit.encode(), b"parent " + first.encode())}))
    found = [("bad-commit", 2, first), ("bad-hash", 2, first)]
    suite.repo("commit-left-out", "the third commit has the first for its parent", repo, found)
    for name, parent in (("that-is-nowhere", NOWHERE), ("that-is-there", oid("commit", b"x"))):
        line, repo, m = base(
            Lies(commit={1: lambda text, parent=parent: text.replace(b"\n", b"\nparent %s\n" % parent.encode(), 1)})
        )
        repo.put("commit", b"x")
        found = [("bad-commit", 1, parent), ("bad-tree", 1, m[0].commit)]
        suite.repo(f"first-commit-has-a-parent-{name}", "history before the beginning", repo, found)


def add(suite: Suite) -> None:
    """All cases of this file."""
    suite.folder = "git"
    _good(suite)
    _bundles(suite)
    _events(suite)
    _heads(suite)
