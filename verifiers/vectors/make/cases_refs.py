"""Refs: where they are read, what they hold, what lines say of each other (docs/verification.md sections 5 and 7)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .cases_git import MAIN, base
from .gitkit import Lies, Made, Repo, entry, oid
from .kit import Line, export, relink, talk
from .suite import Finding, Suite

EMPTY: dict[str, Any] = {"name": MAIN, "head": {"commit": None, "hash": None, "seq": 0}}
FOREIGN = "refs that are no line of a journal: "


def _lines(*lines: tuple[str, Any]) -> dict[str, Any]:
    """The verdict's lines by ref, with the commit that each holds."""
    return {"lines": [{"name": name, "head": {"commit": commit}} for name, commit in lines]}


def holding(text: str) -> Repo:
    """The plain repository, with another text in the file of its ref."""
    _, repo, _ = base()
    del repo.refs[MAIN]
    repo.files[MAIN] = text.encode()
    return repo


def _content(suite: Suite) -> None:
    _, _, made = base()
    head = made[4].commit
    texts: Mapping[str, str] = {
        "empty": "",
        "without-newline": head,
        "39-digits": head[:-1] + "\n",
        "41-digits": head + "0\n",
        "upper-case": head.upper() + "\n",
        "windows-line-end": head + "\r\n",
        "two-newlines": head + "\n\n",
        "two-lines": f"{head}\n{head}\n",
        "space-before": f" {head}\n",
        "space-behind": f"{head} \n",
        "comment-behind": f"{head} # main\n",
        "symbolic": "ref: refs/heads/s/other\n",
        "symbolic-to-itself": "ref: refs/heads/s/main\n",
        "letter-g": "g" * 40 + "\n",
        "wide-digits": "\uff10" * 40 + "\n",
        "nul-behind": head + "\x00",
        "nuls": "\x00" * 41,
        "byte-order-mark": "\ufeff" + head + "\n",
        "64-digits": "0" * 64 + "\n",
        "text": "garbage\n",
        "long": "0" * 5000 + "\n",
    }
    for name, text in texts.items():
        suite.repo(
            f"content-{name}",
            "a ref that does not hold an id and a newline",
            holding(text),
            [("wrong-ref", None, "")],
            line=EMPTY,
        )
    _, repo, _ = base()
    repo.refs["refs/heads/s/other"] = repo.refs.pop(MAIN)
    repo.links[MAIN] = "other"
    found: list[Finding] = [("wrong-ref", None, ""), ("wrong-ref", None, head)]
    verdict = _lines((MAIN, None), ("refs/heads/s/other", head))
    suite.repo("link-to-another-ref", "a ref that is a symbolic link", repo, found, verdict=verdict)
    _, repo, _ = base()
    del repo.refs[MAIN]
    repo.links[MAIN] = "/dev/zero"
    suite.repo(
        "link-to-an-endless-device",
        "a ref that is a symbolic link to /dev/zero",
        repo,
        [("wrong-ref", None, "")],
        line=EMPTY,
    )
    _, repo, _ = base()
    del repo.refs[MAIN]
    repo.pipes.append(MAIN)
    suite.repo("pipe", "a ref that is a pipe which nobody writes to", repo, [("wrong-ref", None, "")], line=EMPTY)
    tag = f"object {head}\ntype commit\ntag v1\ntagger x <x@x> 0 +0000\n\nx\n".encode()
    targets: Mapping[str, tuple[str, str]] = {
        "zeros": ("0" * 40, "missing-object"),
        "nothing": ("ab" * 20, "missing-object"),
        "a-blob": (made[1].blob, "bad-object"),
        "a-tree": (made[4].root, "bad-object"),
        "a-tag": (oid("tag", tag), "bad-object"),
    }
    for name, (target, code) in targets.items():
        _, repo, _ = base()
        repo.put("tag", tag)
        repo.refs[MAIN] = target
        suite.repo(
            f"to-{name}",
            "a ref that does not lead to a commit",
            repo,
            [(code, None, target)],
            line={"head": {"commit": target, "seq": 0}},
        )
    work = f"tree {oid('tree', b'')}\nauthor A <a@a> 0 +0000\ncommitter A <a@a> 0 +0000\n\nwork\n".encode()
    _, repo, _ = base()
    repo.put("tree", b"")
    repo.refs[MAIN] = repo.put("commit", work)
    suite.repo(
        "to-other-work",
        "a commit that is no journal's",
        repo,
        [("bad-commit", None, oid("commit", work))],
        line={"head": {"seq": 0}},
    )


def _packed(suite: Suite) -> None:
    _line, _, made = base()
    head, old = made[4].commit, made[2].commit
    header = "# pack-refs with: peeled fully-peeled sorted \n"
    good: Mapping[str, str] = {
        "plain": f"{header}{head} {MAIN}\n",
        "without-header": f"{head} {MAIN}\n",
        "without-newline": f"{header}{head} {MAIN}",
        "with-peeled": f"{header}{head} {MAIN}\n^{old}\n",
        "twice-the-last-holds": f"{header}{old} {MAIN}\n{head} {MAIN}\n",
        "among-other-refs": f"{header}{old} refs/tags/s/main\n{head} {MAIN}\n{old} refs/notes/x/y\n{old} HEAD\n",
        "among-garbage": f"garbage\n{head}\n{head} \n  {old} {MAIN}\n{head} {MAIN}\n{old.upper()} {MAIN}\n"
        f"{old[:39]} {MAIN}\n\x00\n{old}\t{MAIN}\n",
    }
    for name, text in good.items():
        _, repo, _ = base()
        del repo.refs[MAIN]
        repo.files["packed-refs"] = text.encode()
        suite.repo(f"packed-{name}", "the branch is in packed-refs", repo, verdict=_lines((MAIN, head)))
    _, repo, _ = base()
    repo.files["packed-refs"] = f"{old} {MAIN}\n".encode()
    suite.repo("packed-behind-a-file", "the file takes the place of the packed ref", repo, verdict=_lines((MAIN, head)))
    repo = holding("garbage\n")
    repo.files["packed-refs"] = f"{head} {MAIN}\n".encode()
    suite.repo("packed-behind-a-broken-file", "also when it holds none", repo, [("wrong-ref", None, "")], line=EMPTY)
    _, repo, _ = base()
    repo.files["packed-refs"] = f"{head} {MAIN}\r\n{head} {MAIN}.lock\n".encode()
    suite.repo(
        "packed-with-return",
        "the return belongs to the name",
        repo,
        verdict={**_lines((MAIN, head)), "unchecked": ["*", "*", "*", FOREIGN + "2"]},
    )
    _, repo, _ = base()
    repo.links["packed-refs"] = "elsewhere"
    repo.files["elsewhere"] = f"{head} refs/heads/s/other\n".encode()
    suite.repo("packed-is-a-link", "as if it was empty", repo, verdict=_lines((MAIN, head)))
    _, repo, _ = base()
    repo.pipes.append("packed-refs")
    suite.repo("packed-is-a-pipe", "as if it was empty", repo, verdict=_lines((MAIN, head)))
    _, repo, _ = base()
    repo.files["packed-refs/x"] = b""
    suite.repo("packed-is-a-folder", "as if it was empty", repo, verdict=_lines((MAIN, head)))
    _, repo, _ = base()
    del repo.refs[MAIN]
    repo.files["packed-refs"] = f"{head} {MAIN}\n{head} refs/heads/t/main\n".encode()
    found: list[Finding] = [("wrong-ref", None, head)]
    suite.repo(
        "packed-forged-name",
        "the branch under the name of another session as well",
        repo,
        found,
        verdict=_lines((MAIN, head), ("refs/heads/t/main", head)),
    )


def _foreign(suite: Suite) -> None:
    names = {
        "one-part": "refs/heads/main",
        "three-parts": "refs/heads/s/try/1",
        "remote-of-two-parts": "refs/remotes/origin/main",
        "remote-of-four-parts": "refs/remotes/origin/s/try/1",
        "needless-percent": "refs/heads/%73/main",
        "small-percent": "refs/heads/a%2fb/main",
        "raw-space": "refs/heads/a b/main",
        "raw-umlaut": "refs/heads/\u00e4/main",
        "cut-percent": "refs/heads/a%2/main",
        "percent-of-no-digits": "refs/heads/a%GG/main",
        "percent-alone": "refs/heads/%/main",
        "not-utf-8": "refs/heads/%FF/main",
        "surrogate": "refs/heads/%ED%A0%80/main",
        "overlong": "refs/heads/%C0%AF/main",
        "encoded-control": "refs/heads/a%1B%5B31m/main",
        "encoded-newline": "refs/heads/a%0Ab/main",
        "encoded-nul": "refs/heads/%00/main",
        "encoded-u0085": "refs/heads/%C2%85/main",
        "raw-escape": "refs/heads/a\x1b[31m/main",
        "raw-newline": "refs/heads/a\nb/main",
        "leading-dot": "refs/heads/.a/main",
        "leading-dash": "refs/heads/-a/main",
        "trailing-dot": "refs/heads/a./main",
        "two-dots": "refs/heads/a..b/main",
        "lock-folder": "refs/heads/s.lock/main",
        "too-long": f"refs/heads/{'a' * 201}/main",
        "too-long-in-bytes": f"refs/heads/{'%E2%82%AC' * 27}{'a' * 1}/{'b' * 201}",
        "plus": "refs/heads/a+b/main",
        "at": "refs/heads/a@b/main",
    }
    for name, ref in names.items():
        _, repo, made = base()
        repo.refs[ref] = made[4].commit
        verdict = {**_lines((MAIN, made[4].commit)), "unchecked": ["*", "*", "*", FOREIGN + "1"]}
        suite.repo(f"foreign-{name}", "a ref beside the line that is none of a journal", repo, verdict=verdict)
    packed = {
        "nothing-behind-heads": b"refs/heads/",
        "nothing-behind-remotes": b"refs/remotes/",
        "remote-without-a-name": b"refs/remotes//s/main",
        "remote-with-nul": b"refs/remotes/a\0b/s/main",
        "remote-with-escape": b"refs/remotes/a\x1b[31m/s/main",
        "remote-not-utf-8": b"refs/remotes/\xff\xfe/s/main",
        "remote-too-long": b"refs/remotes/" + b"a" * 201 + b"/s/main",
        "too-long-encoded": b"refs/heads/" + b"%2F" * 81 + b"/main",
        "branch-too-long-encoded": b"refs/heads/s/" + b"%2F" * 81,
    }
    for name, foreign in packed.items():
        _, repo, made = base()
        repo.files["packed-refs"] = b"%s %s\n" % (made[4].commit.encode(), foreign)
        verdict = {**_lines((MAIN, made[4].commit)), "unchecked": ["*", "*", "*", FOREIGN + "1"]}
        suite.repo(f"foreign-packed-{name}", "a ref that no file can be, or of no name", repo, verdict=verdict)
    _, repo, made = base()
    repo.files["packed-refs"] = f"{made[4].commit} refs/remotes//HEAD\n".encode()
    for ref in ("refs/remotes/origin/HEAD", "refs/remotes/x/HEAD", "refs/stash", "refs/heads/x.lock"):
        repo.files[ref] = b"ref: refs/remotes/origin/s/main\n"
    repo.links["refs/remotes/y/HEAD"] = "/dev/zero"
    repo.pipes.append("refs/remotes/z/HEAD")
    repo.refs["refs/tags/x"] = made[4].commit
    repo.refs["refs/replace/x"] = made[4].commit
    repo.refs["refs/heads/s/main.lock"] = made[4].commit
    repo.files["refs/heads/empty/.keep.lock"] = b""
    plain = ["*", "*", "who wrote the events: nothing is signed"]
    verdict = {**_lines((MAIN, made[4].commit)), "unchecked": plain}
    suite.repo("meaning-nothing", "HEADs of remotes, tags, stashes and locks", repo, verdict=verdict)
    _, repo, made = base()
    repo.links["refs/heads/t"] = "s"
    verdict = {**_lines((MAIN, made[4].commit)), "unchecked": [*plain, FOREIGN + "1"]}
    suite.repo("link-to-a-folder", "a folder of refs that is a symbolic link", repo, verdict=verdict)
    _, repo, made = base()
    repo.refs["refs/elsewhere/s/main"] = repo.refs.pop(MAIN)
    repo.links["refs/heads"] = "elsewhere"
    suite.repo("heads-is-a-link", "there is nothing under it", repo, exit_=4)
    _, repo, made = base()
    repo.refs["refs/remotes/HEAD/s/main"] = repo.refs.pop(MAIN)
    repo.refs["refs/remotes/o/HEAD/main"] = made[4].commit
    found: list[Finding] = [("wrong-ref", None, made[4].commit)]
    verdict = _lines(("refs/remotes/HEAD/s/main", made[4].commit), ("refs/remotes/o/HEAD/main", made[4].commit))
    suite.repo("called-head", "a remote and a session with the name HEAD", repo, found, verdict=verdict)
    _, repo, made = base()
    repo.refs["refs/heads/s/main/x"] = repo.refs.pop(MAIN)
    suite.repo("branch-is-a-folder", "no line, one foreign ref", repo, exit_=4)


def _names(suite: Suite) -> None:
    _, _, made = base()
    head = made[4].commit
    wrong: list[Finding] = [("wrong-ref", None, head)]
    for name, ref in {
        "another-session": "refs/heads/t/main",
        "another-branch": "refs/heads/s/try",
        "another-case": "refs/heads/S/main",
        "another-remote-session": "refs/remotes/origin/t/main",
        "a-space-more": "refs/heads/s%20/main",
    }.items():
        _, repo, _ = base()
        repo.refs = {ref: head}
        suite.repo(f"name-of-{name}", "the events are those of s/main", repo, wrong)
    line = talk(3)
    line.declare("try")
    repo = Repo()
    both = repo.write(line.events, "refs/heads/s/try")
    repo.refs[MAIN] = both[3].commit
    verdict = _lines((MAIN, both[3].commit), ("refs/heads/s/try", both[3].commit))
    suite.repo(
        "branch-ref-at-another-branch",
        "main was set to the branch try",
        repo,
        [("wrong-ref", None, both[3].commit)],
        verdict=verdict,
    )
    repo = Repo()
    both = repo.write(line.events, "refs/heads/s/try")
    repo.refs["refs/heads/s/try"] = both[2].commit
    suite.repo(
        "branch-ref-before-its-branch",
        "the branch was set back to before it began",
        repo,
        [("wrong-ref", None, both[2].commit)],
    )
    fork = talk(3)
    fork.fork("t")
    repo = Repo()
    made = repo.write(fork.events, "refs/heads/t/main")
    repo.refs[MAIN] = made[3].commit
    verdict = _lines((MAIN, made[3].commit), ("refs/heads/t/main", made[3].commit))
    suite.repo(
        "session-ref-at-a-fork",
        "the old session's ref was set to the fork",
        repo,
        [("wrong-ref", None, made[3].commit)],
        verdict=verdict,
    )
    fork = talk(3)
    fork.declare("try")
    fork.fork("t")
    repo = Repo()
    repo.write(fork.events, "refs/heads/t/main")
    suite.repo("fork-of-a-branch", "a fork begins with main, whatever was before", repo)


def _several(suite: Suite) -> None:
    main = talk(5)
    branch = talk(2)
    branch.declare("try")
    branch.say("on the branch")

    def case(name: str, about: str, lines: Mapping[str, Line], found: Mapping[str, list[Finding]], **more: Any) -> None:
        repo = Repo()
        made: dict[str, list[Made]] = {ref: repo.write(line.events, ref) for ref, line in sorted(lines.items())}
        every = [
            {
                "name": ref,
                "head": {"commit": made[ref][-1].commit, "hash": lines[ref].head},
                "findings": [{"code": one[0], "seq": one[1], "id": one[2]} for one in found.get(ref, [])],
            }
            for ref in sorted(lines)
        ]
        flat = [one for ref in sorted(lines) for one in found.get(ref, [])]
        suite.repo(name, about, repo, flat, verdict={"lines": every}, **more)

    case("two-branches", "a branch and its trunk", {MAIN: main, "refs/heads/s/try": branch}, {})
    late = talk(3)
    late.say("another 4")
    late.say("another 5")
    late.declare("lost", 3)
    case("branch-declared-late", "two writers, one of whom gave way", {MAIN: main, "refs/heads/s/lost": late}, {})
    other = talk(3)
    other.say("another 4")
    remote = "refs/remotes/origin/s/main"
    case(
        "equivocation",
        "two histories of one branch",
        {MAIN: main, remote: other},
        {remote: [("equivocation", 4, other[4].hash)]},
    )
    short = talk(3)
    case("remote-is-behind", "a copy that is older", {MAIN: main, remote: short}, {})
    first = Line()
    first.events = [first[1].change(data={"another": "start"})]
    case(
        "equivocation-from-the-start",
        "nothing in common",
        {MAIN: main, remote: first},
        {remote: [("equivocation", 1, first[1].hash)]},
    )
    wrong_place = talk(3)
    wrong_place.say("another 4")
    wrong_place.declare("lost", 2)
    lost = "refs/heads/s/lost"
    # `lost` sorts before `main`.
    case(
        "equivocation-behind-a-false-branch",
        "it says that it parted at 2, and did at 3",
        {MAIN: main, lost: wrong_place},
        {MAIN: [("equivocation", 4, main[4].hash)]},
    )
    a, b, c = talk(3), talk(3), talk(2)
    a.say("a")
    b.say("b")
    c.say("c")
    two, three = "refs/remotes/a/s/main", "refs/remotes/b/s/main"
    case(
        "equivocation-of-three",
        "each two of three lines go apart",
        {MAIN: a, two: b, three: c},
        {two: [("equivocation", 4, b[4].hash)], three: [("equivocation", 3, c[3].hash)]},
    )
    trunk = talk(4)
    sibling = talk(2)
    sibling.declare("x")
    twin = talk(2)
    twin.declare("y")
    case(
        "two-branches-from-one-event",
        "siblings, and both say where they come from",
        {MAIN: trunk, "refs/heads/s/x": sibling, "refs/heads/s/y": twin},
        {},
    )
    fork = talk(3)
    fork.fork("t")
    fork.say("on")
    fork_two = talk(3)
    fork_two.fork("t")
    fork_two.say("otherwise")
    tee, copy = "refs/heads/t/main", "refs/remotes/o/t/main"
    case(
        "equivocation-after-a-fork",
        "the fork says 3, they part at 4",
        {tee: fork, copy: fork_two},
        {copy: [("equivocation", 5, fork_two[5].hash)]},
    )
    case("a-session-and-its-fork", "two sessions have nothing to say of each other", {MAIN: main, tee: fork}, {})
    moved = Line("t")
    moved.events = relink([event.change(session="t") for event in other.events], 1)
    ref = "refs/heads/s/other"
    repo = Repo()
    made = repo.write(moved.events, ref)
    repo.write(main.events, MAIN)
    every = [
        {"name": MAIN, "findings": []},
        {"name": ref, "findings": [{"code": "wrong-ref", "seq": None, "id": made[-1].commit}]},
    ]
    suite.repo(
        "no-equivocation-with-a-wrong-ref",
        "a line of another session under this name",
        repo,
        [("wrong-ref", None, made[-1].commit)],
        verdict={"lines": every},
    )
    broken = talk(5)
    broken.events = broken.replaced(2, broken[2].as_bytes(b"{}"))
    repo = Repo()
    made = repo.write(broken.events, MAIN)
    different = talk(3)
    different.say("other 4")
    repo.write(different.events, remote)
    found: list[Finding] = [("bad-version", 2, made[1].blob)]
    suite.repo(
        "no-equivocation-behind-a-lost-event",
        "only the first events that are lost in neither are compared",
        repo,
        found,
    )
    start = Line()
    start.events = [start[1].change(data={"another": "start"})]
    repo = Repo()
    made = repo.write(broken.events, MAIN)
    repo.write(start.events, remote)
    found = [("bad-version", 2, made[1].blob), ("equivocation", 1, start[1].hash)]
    suite.repo("equivocation-before-a-lost-event", "event 1 of both is there", repo, found)


def _picked(suite: Suite) -> None:
    main, branch = talk(4), talk(2)
    branch.declare("try")
    other = talk(3)
    other.say("another 4")
    repo = Repo()
    m = repo.write(main.events, MAIN)
    t = repo.write(branch.events, "refs/heads/s/try")
    o = repo.write(other.events, "refs/remotes/origin/s/main")
    repo.refs["refs/heads/foreign"] = m[3].commit
    both = _lines((MAIN, m[3].commit), ("refs/remotes/origin/s/main", o[3].commit))
    found: list[Finding] = [("equivocation", 4, other[4].hash)]
    foreign = {"unchecked": ["*", "*", "*", FOREIGN + "1"]}
    suite.repo(
        "pick-session",
        "a session is its main branch, local and remote",
        repo,
        found,
        pick="s",
        verdict={**both, **foreign},
    )
    suite.repo("pick-main", "the same with the branch's name", repo, found, pick="s/main", verdict=both)
    suite.repo("pick-branch", "one line", repo, pick="s/try", verdict=_lines(("refs/heads/s/try", t[2].commit)))
    suite.repo("pick-none", "no such branch", repo, pick="s/other", exit_=4)
    suite.repo("pick-no-session", "no such session", repo, pick="t", exit_=4)
    suite.repo("pick-foreign", "a ref that is no line", repo, pick="foreign", exit_=4)
    suite.repo("pick-full-ref", "a name is no ref", repo, pick="refs/heads/s/main", exit_=4)
    suite.repo("pick-not-encoded", "a name that is not spelled as section 7 says", repo, pick="%73/main", exit_=4)
    suite.repo("pick-empty", "an empty name", repo, pick="", exit_=4)
    # gj knew what only a remote has by its session alone.
    afar = Repo()
    for name, events in (("main", main.events), ("try", branch.events)):
        ref = f"refs/remotes/origin/s/{name}"
        made = afar.write(events, ref)
        at = _lines((ref, made[-1].commit))
        suite.repo(f"pick-remote-{name}", "only a remote has the branch", afar, pick=f"s/{name}", verdict=at)
    expect = ["--expect-seq", "4", "--expect-head", main[4].hash]
    suite.repo("pick-two-and-expect", "an expected head needs exactly one line", repo, pick="s", args=expect, exit_=2)
    suite.repo("expect-without-a-name", "an expected head needs exactly one line", repo, args=expect, exit_=2)
    suite.repo(
        "expect-of-a-branch",
        "one line",
        repo,
        [("rollback", 3, "0" * 64)],
        pick="s/try",
        args=["--expect-seq", "3", "--expect-head", "0" * 64],
        verdict={"lines": [{"name": "refs/heads/s/try"}]},
    )
    odd = Line("a b/c")
    odd.declare("x y")
    repo = Repo()
    repo.write(odd.events, "refs/heads/a%20b%2Fc/x%20y")
    suite.repo("pick-encoded", "a name as section 7 spells it", repo, pick="a%20b%2Fc/x%20y")
    suite.repo("pick-raw", "a name as people say it", repo, pick="a b/c/x y", exit_=4)
    expect = ["--expect-seq", "5", "--expect-head", "0" * 64]
    suite.repo(
        "expect-of-a-ref-that-holds-none",
        "it has the one finding",
        holding("garbage\n"),
        [("wrong-ref", None, "")],
        pick="s",
        args=expect,
        line=EMPTY,
    )
    _, repo, made = base()
    repo.drop(made[4].commit)
    found = [("missing-object", None, made[4].commit), ("truncated", None, "0" * 64)]
    suite.repo("expect-of-a-bad-head", "a head that cannot be read has no events", repo, found, pick="s", args=expect)
    changed = Lies(leaf={5: lambda data: data + entry("README", oid("blob", b""))})
    _, repo, made = base(changed)
    found = [("bad-tree", 1, made[4].leaf), ("rollback", 5, "0" * 64)]
    suite.repo("expect-of-a-lost-head", "the event is lost", repo, found, pick="s", args=expect)


def _nothing(suite: Suite) -> None:
    """Wrong usage, and paths where nothing is."""
    _, repo, _ = base()
    line = talk(2)
    head = line.head or ""
    suite.file("nowhere", "no such path", "nowhere", None, exit_=4)
    suite.file("nowhere-jsonl", "no such file", "nowhere.jsonl", None, exit_=4)
    suite.file("nowhere-json", "no such file", "nowhere.json", None, exit_=4)
    suite.file("called-by-its-ending", "nothing before .jsonl", ".jsonl", export(line.events), "jsonl")
    suite.file("empty-export", "a file without a line", "empty.jsonl", b"", exit_=4)
    suite.file("other-file", "a file that is none of the three", "README.txt", b"hello\n", exit_=4)
    suite.file("folder", "a folder that is no repository", "folder/x.txt", b"", exit_=4, setup={"as": "folder"})
    suite.file(
        "folder-called-jsonl",
        "a folder with the name of an export",
        "folder.jsonl/x.txt",
        b"",
        exit_=4,
        setup={"as": "folder"},
    )
    suite.repo(
        "folder-called-json-with-a-repository",
        "a folder is a repository, whatever its name",
        repo,
        setup={"called": "repo.json"},
        line={"name": MAIN},
    )
    suite.repo("folder-with-dot-git", "a repository in .git", repo, setup={"as": "dot-git"}, line={"name": MAIN})
    suite.repo(
        "folder-with-control-characters",
        "a path that would paint the terminal",
        repo,
        setup={"called": "a\x1b[31m\n'\"; b"},
        line={"name": MAIN},
    )
    suite.repo("deeper-than-a-path", "refs that cannot be listed", repo, setup={"steps": [["deep"]]}, exit_=4)
    suite.repo("link-to-the-repository", "PATH is a symbolic link", repo, setup={"as": "link"}, line={"name": MAIN})
    suite.repo("dot-git-is-a-file", "a worktree: its .git is a file", repo, setup={"as": "worktree"}, exit_=4)
    _, repo, _ = base()
    repo.refs = {}
    suite.repo("no-ref", "a repository without refs", repo, exit_=4)
    _, repo, _ = base()
    repo.files["reftable/tables.list"] = b""
    suite.repo("reftable", "refs that are kept in another way", repo, exit_=4)
    for name, file in (("head", "HEAD"), ("objects", "objects")):
        _, repo, _ = base()
        suite.repo(f"no-{name}", f"a folder without {file}", repo, exit_=4, setup={"without": [file]})
    usage: Mapping[str, list[str]] = {
        "unknown-option": ["--quiet", "{input}"],
        "one-dash": ["-x", "{input}"],
        "abbreviated-option": ["--require", "{input}"],
        "no-path": [],
        "three-names": ["{input}", "s", "s"],
        "expect-seq-alone": ["--expect-seq", "2", "{input}"],
        "expect-head-alone": ["--expect-head", head, "{input}"],
        "expect-seq-0": ["--expect-seq", "0", "--expect-head", head, "{input}"],
        "expect-seq-minus-1": ["--expect-seq", "-1", "--expect-head", head, "{input}"],
        "expect-seq-plus-1": ["--expect-seq", "+1", "--expect-head", head, "{input}"],
        "expect-seq-with-zero": ["--expect-seq", "02", "--expect-head", head, "{input}"],
        "expect-seq-text": ["--expect-seq", "two", "--expect-head", head, "{input}"],
        "expect-seq-wide-digit": ["--expect-seq", "\uff12", "--expect-head", head, "{input}"],
        "expect-seq-too-long": ["--expect-seq", "100000000", "--expect-head", head, "{input}"],
        "expect-seq-space": ["--expect-seq", " 2", "--expect-head", head, "{input}"],
        "expect-seq-exponent": ["--expect-seq", "2e0", "--expect-head", head, "{input}"],
        "expect-head-upper-case": ["--expect-seq", "2", "--expect-head", head.upper(), "{input}"],
        "expect-head-too-short": ["--expect-seq", "2", "--expect-head", head[:-1], "{input}"],
        "expect-head-empty": ["--expect-seq", "2", "--expect-head", "", "{input}"],
        "expect-head-newline": ["--expect-seq", "2", "--expect-head", head + "\n", "{input}"],
        "value-missing": ["{input}", "--expect-seq"],
        "signers-nowhere": ["--allowed-signers", "{vectors}/nowhere", "{input}"],
        "revoked-nowhere": ["--revoked-keys", "{vectors}/nowhere", "{input}"],
        "signers-without-value": ["{input}", "--allowed-signers"],
        "name-with-an-export": ["{input}", "s"],
    }
    suite.files["refs/usage.jsonl"] = line[1].raw + b"\n" + line[2].raw + b"\n"
    for name, args in usage.items():
        suite.cases.append(
            {"name": f"refs/usage-{name}", "about": "wrong usage", "input": "refs/usage.jsonl", "args": args, "exit": 2}
        )


def add(suite: Suite) -> None:
    """All cases of this file."""
    suite.folder = "refs"
    _content(suite)
    _packed(suite)
    _foreign(suite)
    _names(suite)
    _several(suite)
    _picked(suite)
    _nothing(suite)
