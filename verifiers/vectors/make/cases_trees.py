"""Trees with odd entries, and side files in them (docs/verification.md section 8)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from .cases_git import EMPTY_TREE, MAIN, NOWHERE, base, plus, swap
from .gitkit import Lies, Made, Repo, entry, oid
from .kit import Line, side_file, talk
from .suite import Finding, Suite


def _leaf_names() -> Mapping[str, str]:
    return {
        "readme": "README",
        "backup": "00000002.json.bak",
        "seven-digits": "0000002.json",
        "nine-digits": "000000002.json",
        "upper-case": "00000002.JSON",
        "side-file-0": "00000002.0",
        "side-file-01": "00000002.01",
        "side-file-of-ten-digits": "00000002.1234567890",
        "no-end": "00000002.",
        "no-dot": "00000002",
        "newline": "00000002.json\n",
        "two-ends": "00000002.1.json",
        "plus": "+0000002.json",
        "space": " 0000002.json",
        "minus-side-file": "00000002.-1",
        "wide-digits": "\uff10\uff10\uff10\uff10\uff10\uff10\uff10\uff12.json",
        "wide-side-file": "00000002.\uff11",
        "superscript-side-file": "00000002.\u00b2",
        "escape": "\x1b[31m.json",
        "attributes": ".gitattributes",
        "dots": "..",
        "dot-git": ".git",
        "slash": "a/b",
        "star": "*.json",
    }


BLOB = oid("blob", b"extra\n")
LOST: dict[str, Any] = {"line": {"head": {"seq": 5, "hash": None}}}
Found = Callable[[list[Made]], list[Finding]]


def _attack(suite: Suite, name: str, about: str, lies: Lies, found: Found, **more: Any) -> None:
    _, repo, made = base(lies)
    repo.put("blob", b"extra\n")
    repo.put("tree", b"")
    suite.repo(name, about, repo, found(made), **more)


def _no_leaf(made: list[Made]) -> list[Finding]:
    return [("bad-tree", 1, made[4].leaf)]


def _head_differs(made: list[Made]) -> list[Finding]:
    return [("bad-tree", 5, made[4].commit)]


def _modes(suite: Suite) -> None:
    attack = partial(_attack, suite)
    two = b"100644 00000002.json\x00"
    for mode in ("100755", "120000", "160000", "40000", "100664", "0100644", "100645", "644", "777"):
        lies = Lies(leaf={5: swap(two, mode.encode() + two[6:])})
        attack(f"odd-mode-{mode}", "the entry of event 2 has another mode", lies, _no_leaf, **LOST)
    lies = Lies(leaf={5: swap(b"100644 00000003.1\x00", b"120000 00000003.1\x00")})
    attack("side-file-as-a-link", "the side file is a symbolic link for git", lies, _no_leaf, **LOST)
    lies = Lies(leaf={5: swap(b"100644 00000003.1\x00", b"160000 00000003.1\x00")})
    attack("side-file-as-a-submodule", "the side file is a submodule for git", lies, _no_leaf, **LOST)
    for mode in ("040000", "100644", "120000", "160000", "4000", "40755"):
        about = "the folder has another mode"
        lies = Lies(root={5: swap(b"40000 ", mode.encode() + b" ")})
        attack(f"odd-mode-of-a-middle-tree-{mode}", about, lies, lambda _: [("missing-object", 1, "")], **LOST)
        lies = Lies(middle={5: swap(b"40000 ", mode.encode() + b" ")})
        attack(f"odd-mode-of-a-leaf-{mode}", about, lies, lambda _: [("missing-object", 1, "")], **LOST)


def _extras(suite: Suite) -> None:
    attack = partial(_attack, suite)
    for name, text in _leaf_names().items():
        attack(
            f"extra-name-in-a-leaf-{name}",
            "an entry that a leaf cannot have",
            Lies(leaf={5: plus(entry(text, BLOB))}),
            _no_leaf,
            **LOST,
        )
        if name in ("readme", "escape", "newline", "attributes", "dots", "dot-git", "slash"):
            for place in ("root", "middle"):
                lies = Lies(**{place: {5: plus(entry(text, BLOB))}})
                attack(f"extra-file-in-the-{place}-{name}", "an entry that nobody derives", lies, _head_differs)
    for name, text in {
        "beyond-the-head": "00000009.json",
        "of-another-leaf": "00000150.json",
        "of-event-0": "00000000.json",
        "side-file-beyond": "00000009.1",
    }.items():
        attack(
            f"extra-event-{name}",
            "an event that the head does not count",
            Lies(leaf={5: plus(entry(text, BLOB))}),
            _head_differs,
        )


def _extras_in_commits(suite: Suite) -> None:
    attack = partial(_attack, suite)
    for place in ("root", "middle"):
        attack(
            f"extra-folder-in-the-{place}",
            "a folder that nobody derives",
            Lies(**{place: {5: plus(entry("9999", EMPTY_TREE, "40000"))}}),
            _head_differs,
        )
        attack(
            f"submodule-in-the-{place}",
            "a submodule",
            Lies(**{place: {5: plus(entry("sub", NOWHERE, "160000"))}}),
            _head_differs,
        )
        attack(
            f"link-in-the-{place}",
            "a symbolic link",
            Lies(**{place: {5: plus(entry("zlink", BLOB, "120000"))}}),
            _head_differs,
        )
        attack(
            f"odd-mode-in-the-{place}",
            "a mode that is no number",
            Lies(**{place: {5: plus(entry("z", BLOB, "abc"))}}),
            _head_differs,
        )
        old = Lies(**{place: {3: plus(entry("README", BLOB))}})
        attack(
            f"extra-file-in-an-old-{place}",
            "the third commit's tree has a file more",
            old,
            lambda m: [("bad-tree", 3, m[2].commit)],
        )
        all_ = Lies(**{place: {seq: plus(entry("README", BLOB)) for seq in range(1, 6)}})
        attack(
            f"extra-file-in-every-{place}",
            "a file from the beginning on",
            all_,
            lambda m: [("bad-tree", 1, m[0].commit)],
        )
    every = Lies(leaf={seq: plus(entry("README", BLOB)) for seq in range(1, 6)})
    attack("extra-file-in-every-leaf", "a file from the beginning on", every, _no_leaf, **LOST)
    old = Lies(leaf={3: plus(entry("README", BLOB))})
    attack(
        "extra-file-in-an-old-leaf",
        "the third commit's leaf has a file more",
        old,
        lambda m: [("bad-tree", 3, m[2].commit)],
    )


def _duplicates(suite: Suite) -> None:
    attack = partial(_attack, suite)
    again = entry("00000002.json", oid("blob", talk(5, files=(3,))[2].raw))
    attack("duplicate-entry-in-a-leaf", "event 2 stands there twice", Lies(leaf={5: plus(again)}), _no_leaf, **LOST)
    attack(
        "duplicate-name-in-a-leaf", "two events 2", Lies(leaf={5: plus(entry("00000002.json", BLOB))}), _no_leaf, **LOST
    )
    attack(
        "duplicate-side-file-in-a-leaf",
        "two side files 1",
        Lies(leaf={5: plus(entry("00000003.1", BLOB))}),
        _no_leaf,
        **LOST,
    )

    def before(one: bytes) -> Callable[[bytes], bytes]:
        return lambda data: one + data

    # An empty leaf is one in which each event is missing.
    for place, name, last in (("root", "0000", 2), ("middle", "00", 6)):
        found: list[Finding] = [("missing-object", n, "") for n in range(1, last)]
        attack(
            f"duplicate-folder-first-of-{place}",
            "an empty folder of the same name before the right one",
            Lies(**{place: {5: before(entry(name, EMPTY_TREE, "40000"))}}),
            lambda _, found=found: found,
            **LOST,
        )
        attack(
            f"duplicate-folder-last-of-{place}",
            "an empty folder of the same name behind",
            Lies(**{place: {5: plus(entry(name, EMPTY_TREE, "40000"))}}),
            _head_differs,
        )
        file = Lies(**{place: {5: before(entry(name, BLOB))}})
        attack(f"duplicate-name-file-first-of-{place}", "a file of the folder's name before it", file, _head_differs)


def _shapes(suite: Suite) -> None:
    attack = partial(_attack, suite)

    def turned(data: bytes) -> bytes:
        return data[41:] + data[:41]

    attack("unsorted-leaf", "the first entry stands last", Lies(leaf={5: turned}), _head_differs)
    attack(
        "empty-leaf",
        "a leaf without entries",
        Lies(leaf={5: lambda _: b""}),
        lambda _: [("missing-object", n, "") for n in range(1, 6)],
        **LOST,
    )
    attack(
        "empty-middle",
        "a middle tree without entries",
        Lies(middle={5: lambda _: b""}),
        lambda _: [("missing-object", 1, "")],
        **LOST,
    )
    attack(
        "empty-root",
        "a root tree without entries",
        Lies(root={5: lambda _: b""}),
        lambda _: [("missing-object", 1, "")],
        **LOST,
    )
    shapes: Mapping[str, Callable[[bytes], bytes]] = {
        "cut-by-1": lambda data: data[:-1],
        "cut-by-20": lambda data: data[:-20],
        "cut-by-21": lambda data: data[:-21],
        "cut-by-27": lambda data: data[:-27],
        "garbage": lambda _: b"garbage",
        "one-nul": plus(b"\x00"),
        "newline-behind": plus(b"\n"),
        "no-mode": plus(b" 00000006.json\x00" + bytes(20)),
        "no-space": plus(b"10064400000006.json\x00" + bytes(20)),
        "no-name": plus(b"100644 \x00" + bytes(20)),
        "nothing-but-an-id": plus(b"\x00" + bytes(20)),
    }
    for name, shape in shapes.items():
        for place in ("leaf", "middle", "root"):
            lies = Lies(**{place: {5: shape}})
            attack(
                f"malformed-{place}-{name}",
                "no tree",
                lies,
                lambda m, place=place: [("bad-tree", 1, getattr(m[4], place))],
                **LOST,
            )
    last = Lies(leaf={5: lambda data: data[:-41]})
    attack(
        "leaf-without-the-last-event", "a leaf that ends too early", last, lambda _: [("missing-object", 5, "")], **LOST
    )
    attack(
        "old-leaf-malformed",
        "the third commit's leaf is cut",
        Lies(leaf={3: lambda data: data[:-1]}),
        lambda m: [("bad-tree", 3, m[2].commit)],
    )
    old_empty = Lies(root={3: lambda _: b""})
    attack("old-root-empty", "the third commit's tree is empty", old_empty, lambda m: [("bad-tree", 3, m[2].commit)])


def _side_files(suite: Suite) -> None:
    line, _, made = base()
    file, event = made[2].files[0], line[3]
    other = oid("blob", b"other\n")
    part = entry("00000003.1", file)

    def attack(name: str, about: str, change: Callable[[bytes], bytes], found: list[Finding], **more: Any) -> None:
        """The same change in all leaves that have event 3."""
        _, repo, _ = base(Lies(leaf=dict.fromkeys((3, 4, 5), change)))
        repo.put("blob", b"other\n")
        repo.put("tree", b"")
        suite.repo(name, about, repo, found, line={"side_files": 0}, **more)

    attack(
        "shattered-pair-as-side-files",
        "git's ids agree (as with two files of one SHA-1), the SHA-256 does not",
        swap(part, entry("00000003.1", other)),
        [("bad-file", 3, other)],
    )
    attack("side-file-left-out", "the tree has no side file", swap(part, b""), [("bad-file", 3, event.hash)])
    attack(
        "side-file-too-many",
        "the tree has two side files, the event names one",
        swap(part, part + entry("00000003.2", other)),
        [("bad-file", 3, event.hash)],
    )
    attack(
        "side-file-of-another-number",
        "its number is 2, and there is one",
        swap(part, entry("00000003.2", file)),
        [("bad-file", 3, event.hash)],
    )
    attack(
        "side-file-is-a-tree",
        "the id is that of a tree",
        swap(part, entry("00000003.1", EMPTY_TREE)),
        [("bad-object", 3, EMPTY_TREE)],
    )
    attack(
        "side-file-is-a-commit",
        "the id is that of a commit",
        swap(part, entry("00000003.1", made[0].commit)),
        [("bad-object", 3, made[0].commit)],
    )
    attack(
        "side-file-is-nowhere",
        "the id is that of nothing",
        swap(part, entry("00000003.1", NOWHERE)),
        [("missing-object", 3, NOWHERE)],
    )
    extra = entry("00000002.1", other)
    _, repo, _ = base(Lies(leaf=dict.fromkeys((2, 3, 4, 5), plus(extra))))
    repo.put("blob", b"other\n")
    plain = line[2].hash
    suite.repo(
        "side-file-of-an-event-that-has-none",
        "in all trees from 2 on, at the end of the leaf",
        repo,
        [("bad-file", 2, plain), ("bad-tree", 2, repo_commit(repo, 2))],
    )
    two = entry("00000002.json", oid("blob", line[2].raw))
    _, repo, _ = base(Lies(leaf=dict.fromkeys((2, 3, 4, 5), swap(two, extra + two))))
    repo.put("blob", b"other\n")
    suite.repo(
        "side-file-of-an-event-that-has-none-in-order",
        "in all trees from 2 on, where it would belong",
        repo,
        [("bad-file", 2, plain)],
    )
    repo = Repo()
    withheld = line.replaced(3, line[3].withhold())
    three = entry("00000003.json", oid("blob", withheld[2].raw))
    repo.put("blob", event.files[0])
    repo.write(withheld, MAIN, Lies(leaf=dict.fromkeys((3, 4, 5), swap(three, part + three))))
    suite.repo(
        "withheld-and-its-side-file-left",
        "the payload is withheld, its side file is still there",
        repo,
        [("bad-file", 3, event.hash)],
    )
    digest = line.replaced(3, line[3].withhold().change(data_sha256="0" * 64))
    repo = Repo()
    made = repo.write(digest, MAIN)
    suite.repo(
        "withheld-with-another-digest",
        "the hash of a payload that nobody has seen is another one",
        repo,
        [("broken-link", 4, made[3].blob)],
    )
    lies = Line()
    lies.add("message", {}, files=[b"abc"])
    for name, change in {"size": {"size": 2}, "hash": {"sha256": "0" * 64}}.items():
        event = lies[2].change(files=[side_file(b"abc", **change)])
        repo = Repo()
        made = repo.write([lies[1], event], MAIN)
        suite.repo(
            f"side-file-{name}-lies", "the event describes another file", repo, [("bad-file", 2, made[1].files[0])]
        )


def repo_commit(repo: Repo, seq: int) -> str:
    """The id of the commit that says a seq."""
    return next(
        name for name, (kind, data) in repo.objects.items() if kind == "commit" and b" #%d\n\nSession" % seq in data
    )


def add(suite: Suite) -> None:
    """All cases of this file."""
    suite.folder = "git"
    _modes(suite)
    _extras(suite)
    _extras_in_commits(suite)
    _duplicates(suite)
    _shapes(suite)
    _side_files(suite)
