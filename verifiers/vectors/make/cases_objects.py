"""Objects that are missing, are others, lie about their size, or are too large (docs/verification.md section 4)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .cases_git import base
from .suite import Finding, Suite


def _objects(suite: Suite) -> None:
    _line, repo, m = base()
    #: name: (id, what is found when it is missing: the seq)
    targets: Mapping[str, tuple[str, int | None]] = {
        "event-2": (m[1].blob, 2),
        "event-5": (m[4].blob, 5),
        "side-file": (m[2].files[0], 3),
        "leaf-of-the-head": (m[4].leaf, 1),
        "middle-tree-of-the-head": (m[4].middle, 1),
        "root-of-the-head": (m[4].root, 1),
        "leaf-3": (m[2].leaf, 3),
        "middle-tree-3": (m[2].middle, 3),
        "root-3": (m[2].root, 3),
        "head": (m[4].commit, None),
        "commit-4": (m[3].commit, 4),
        "commit-3": (m[2].commit, 3),
        "commit-1": (m[0].commit, 1),
    }
    for name, (target, seq) in targets.items():
        _, repo, _ = base()
        repo.drop(target)
        suite.repo(f"missing-{name}", "an object is not there", repo, [("missing-object", seq, target)])
        for how, other in (("tampered", None), ("of-another-kind", "tag"), ("empty", b"")):
            _, repo, _ = base()
            kind, data = repo.objects[target]
            if how == "tampered":
                data = data[:-1] + bytes([data[-1] ^ 1])
            elif how == "empty":
                data = b""
            else:
                kind = str(other)
            repo.put(kind, data, under=target)
            suite.repo(
                f"{how}-{name}",
                "a loose object whose content does not have its id",
                repo,
                [("bad-object", seq, target)],
            )
    _, repo, _ = base()
    for one in m[:4]:
        for target in (one.commit, one.root, one.middle, one.leaf):
            repo.drop(target)
    found: list[Finding] = [("missing-object", 4, m[3].commit)]
    suite.repo("missing-all-history", "only the head and its tree are left, and no shallow file says why", repo, found)
    _, repo, _ = base()
    for name in list(repo.objects):
        if name != m[4].commit:
            repo.drop(name)
    found = [("missing-object", 1, m[4].root), ("missing-object", 4, m[3].commit)]
    suite.repo("missing-all-but-the-head", "nothing but one commit", repo, found)
    _, repo, _ = base()
    repo.objects[m[1].blob], repo.objects[m[3].blob] = repo.objects[m[3].blob], repo.objects[m[1].blob]
    suite.repo(
        "swapped-contents",
        "two loose objects have each other's content",
        repo,
        [("bad-object", 2, m[1].blob), ("bad-object", 4, m[3].blob)],
    )
    _, repo, _ = base()
    repo.objects[m[4].commit], repo.objects[m[3].commit] = repo.objects[m[3].commit], repo.objects[m[4].commit]
    suite.repo("swapped-commits", "the head's id holds the commit before", repo, [("bad-object", None, m[4].commit)])
    garbage = {
        "empty-file": b"",
        "text": b"garbage",
        "zeros": bytes(100),
        "cut": None,
    }
    for name, target in {"event-2": m[1].blob, "head": m[4].commit, "commit-3": m[2].commit}.items():
        for how, content in garbage.items():
            _, repo, _ = base()
            seq = targets[name][1]
            found = [("bad-object", seq, target)]
            repo.drop(target)
            repo.files[f"objects/{target[:2]}/{target[2:]}"] = (
                bytes.fromhex("789c4bcac94f526034") if content is None else content
            )
            # Git's versions do not agree whether such a file is an object.
            suite.repo(
                f"garbage-{how}-{name}",
                "a loose object that is no zlib stream",
                repo,
                found,
                either=["bad-object", "missing-object"],
            )
    for kind, about in (
        ("zip_bomb_blob", "an event"),
        ("zip_bomb_side_file", "a side file"),
        ("zip_bomb_commit", "the head"),
        ("zip_bomb_tree", "the leaf"),
    ):
        code, number = {
            "zip_bomb_blob": ("bad-member", 2),
            "zip_bomb_side_file": ("bad-file", 3),
            "zip_bomb_commit": ("bad-commit", None),
            "zip_bomb_tree": ("bad-tree", 1),
        }[kind]
        suite.generated(
            kind.replace("_", "-"),
            f"{about} of 200 MiB that is 200 KiB on the disk",
            "git",
            [(code, number)],
            generate=[kind, 200 << 20],
            rss=600,
        )
    suite.generated(
        "tree-of-10-million-entries",
        "a leaf of 400 MB, which git would not hold",
        "git",
        [("bad-tree", 1)],
        generate=["wide_tree", 10_000_000],
        rss=600,
    )
    suite.generated(
        "tree-of-half-a-million-entries",
        "a leaf of 20 MB: more than a tree may have",
        "git",
        [("bad-tree", 1)],
        generate=["wide_tree", 500_000],
        rss=600,
    )
    suite.generated(
        "event-of-16-mib-and-a-byte",
        "a right object, too large for an event",
        "git",
        [("bad-member", 2)],
        generate=["long_blob", (1 << 24) + 1],
        rss=600,
    )
    suite.generated("event-of-16-mib", "as large as an event may be", "git", generate=["long_blob", 1 << 24], rss=900)
    suite.generated(
        "side-file-of-40-mib",
        "a side file that git streams",
        "git",
        generate=["big_blob_side_file", 40 << 20],
        rss=600,
        verdict={"lines": [{"side_files": 1}]},
    )


def _headers(suite: Suite) -> None:
    """Loose objects whose header lies. Git prints a blob as it lies there, whatever its header says."""
    _line, _, m = base()
    blobs: Mapping[str, tuple[str, int]] = {
        "event-1": (m[0].blob, 1),
        "event-2": (m[1].blob, 2),
        "event-5": (m[4].blob, 5),
        "side-file": (m[2].files[0], 3),
    }

    def case(name: str, target: str, header: str, found: list[Finding], data: bytes | None = None, **more: Any) -> None:
        _, repo, _ = base()
        repo.headers[target] = header
        if data is not None:
            repo.objects[target] = (repo.objects[target][0], data)
        suite.repo(f"header-{name}", "a loose object whose header lies", repo, found, **more)

    _, repo, _ = base()
    for name, (target, seq) in blobs.items():
        size = len(repo.objects[target][1])
        found: list[Finding] = [("bad-object", seq, target)]
        for how, lie in {
            "smaller": size - 1,
            "half": size // 2,
            "zero": 0,
            "larger": size + 1,
            "much-larger": size + 5000,
        }.items():
            case(f"{how}-{name}", target, f"blob {lie}", found)
        huge = found if name == "side-file" else [("bad-member", seq, target)]
        case(f"20-million-{name}", target, "blob 20000000", huge)
        case(f"60-million-{name}", target, "blob 60000000", huge)
        # The answer is the right one, and then more comes.
        content = repo.objects[target][1]
        case(f"right-and-more-{name}", target, f"blob {size}", found, content + b"more")
    either = ["bad-object", "missing-object"]
    for name, header in {
        "unknown-type": "blub 5",
        "no-size": "blob",
        "negative": "blob -1",
        "leading-zero": "blob 05",
        "hexadecimal": "blob 0x5",
        "endless": "blob " + "9" * 40,
        "two-spaces": "blob  5",
        "upper-case": "BLOB 5",
        "empty": "",
    }.items():
        case(f"{name}-event-2", m[1].blob, header, [("bad-object", 2, m[1].blob)], either=either)
    others: Mapping[str, tuple[str, str, int | None]] = {
        "head": ("commit", m[4].commit, None),
        "commit-3": ("commit", m[2].commit, 3),
        "leaf": ("tree", m[4].leaf, 1),
        "old-leaf": ("tree", m[2].leaf, 3),
    }
    for name, (kind, target, number) in others.items():
        size = len(repo.objects[target][1])
        for how, lie in {"smaller": size - 1, "larger": size + 1}.items():
            case(f"{how}-{name}", target, f"{kind} {lie}", [("bad-object", number, target)], either=either)
    three, content = m[2].blob, repo.objects[m[1].blob][1]
    said = f"{three} missing\n".encode()
    # Which object it is that git is asked for next, no rule says: only that nobody may call this good.
    case(
        "right-and-an-answer-for-the-next-event-2",
        m[1].blob,
        f"blob {len(content)}",
        [],
        content + b"\n" + said,
        exit_=1,
        differ=True,
    )


def _borders(suite: Suite) -> None:
    """Where leaves and middle trees end: made when they are run, as 205 events have many trees."""

    def case(name: str, about: str, found: list[Finding], what: str, **more: Any) -> None:
        suite.generated(f"border-{name}", about, "git", found, generate=["border", what], **more)

    case("good", "205 events in three leaves", [], "good", verdict={"lines": [{"head": {"seq": 205}}]})
    case("edited-99", "the last event of the first leaf", [("broken-link", 100)], "edited-99")
    case("edited-100", "the first event of the second leaf", [("broken-link", 101)], "edited-100")
    case("missing-second-leaf", "events 100 to 199 are not there", [("missing-object", 100)], "missing-leaf")
    case("malformed-second-leaf", "the head's second leaf is no tree", [("bad-tree", 100)], "malformed-leaf")
    case("second-leaf-left-out", "the head's middle tree does not name it", [("missing-object", 100)], "no-leaf")
    case(
        "leaves-swapped",
        "two leaves have each other's name",
        [
            *(("missing-object", n) for n in range(1, 200)),
        ],
        "swapped-leaves",
    )
    case("missing-commit-150", "a commit in the second leaf", [("missing-object", 150)], "missing-commit")
    case("old-tree-150", "an old tree with a file more", [("bad-tree", 150)], "old-tree")
    suite.generated(
        "border-10000",
        "10,001 events in two middle trees",
        "git",
        generate=["ten_thousand", 10_001],
        verdict={"lines": [{"head": {"seq": 10_001}}]},
    )


def add(suite: Suite) -> None:
    """All cases of this file."""
    suite.folder = "git"
    _objects(suite)
    _headers(suite)
    _borders(suite)
