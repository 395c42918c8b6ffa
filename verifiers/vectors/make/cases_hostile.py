"""Everything in a repository that could make git say or run something else (docs/verification.md sections 1 and 4).

Where a command could be run it would make the file `{MARKER}`; after each case that file must not be there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .cases_git import MAIN, base
from .cases_lines import edited
from .gitkit import Lies, Repo, entry, oid
from .kit import Line, talk
from .suite import Finding, Suite

TOUCH = '!touch \\"{MARKER}\\"; false'
RUN = '\\"touch\\" \\"{MARKER}\\" #'
OK: dict[str, Any] = {"line": {"name": MAIN, "findings": []}}


def _replace(suite: Suite) -> None:
    line, repo, made = base()
    other = edited(line[2]).raw
    false = repo.put("blob", other)
    repo.refs[f"refs/replace/{made[1].blob}"] = false
    suite.repo(
        "replace-ref-shows-another-event",
        "refs/replace has no say: the journal is intact",
        repo,
        verdict={"lines": [{"name": MAIN}]},
    )
    _, repo, made = base()
    repo.drop(made[1].blob)
    repo.refs[f"refs/replace/{made[1].blob}"] = repo.put("blob", other)
    found: list[Finding] = [("missing-object", 2, made[1].blob)]
    suite.repo("replace-ref-fills-a-gap", "the event is gone, refs/replace has another one", repo, found)
    _, repo, made = base()
    short = repo.write(line.events[:3])
    repo.refs[f"refs/replace/{made[4].commit}"] = short[2].commit
    suite.repo(
        "replace-ref-of-the-head",
        "the head is replaced by an older commit",
        repo,
        verdict={"lines": [{"head": {"seq": 5}}]},
    )
    _, repo, made = base(Lies(root={5: lambda data: data + entry("README", oid("blob", b"x"))}))
    good = Repo().write(line.events)
    repo.put("blob", b"x")
    repo.write(line.events)
    repo.refs[f"refs/replace/{made[4].commit}"] = good[4].commit
    suite.repo(
        "replace-ref-hides-a-forged-head",
        "the head is forged, its replacement is right",
        repo,
        [("bad-tree", 5, made[4].commit)],
    )


def _history_files(suite: Suite) -> None:
    line, repo, m = base()
    commits = [one.commit for one in m]
    repo.files["info/grafts"] = f"{commits[4]} {commits[0]}\n{commits[2]}\n".encode()
    suite.repo("grafts", "info/grafts tells another history", repo, **OK)
    repo = Repo()
    first = line.events[:2]
    other = Line()
    other.say("another 2")
    other.say("and 3")
    repo.write(first)
    forged = repo.write(other.events, MAIN)
    repo.files["info/grafts"] = f"{forged[2].commit} {oid('commit', b'')}\n".encode()
    suite.repo("grafts-to-nowhere", "a graft to a commit that is not there", repo, **OK)

    def case(name: str, about: str, shallow: bytes, drop: int, found: list[Finding], **more: Any) -> None:
        """``drop`` commits, from the first on, are not there."""
        _, repo, _ = base()
        for one in m[:drop]:
            repo.drop(one.commit)
        repo.files["shallow"] = shallow
        suite.repo(name, about, repo, found, **more)

    def ids(*seqs: int) -> bytes:
        return b"".join(commits[seq - 1].encode() + b"\n" for seq in seqs)

    def left_out(count: int) -> dict[str, Any]:
        return {
            "exit_": 3,
            "verdict": {
                "verdict": "incomplete",
                "unchecked": ["*", "*", "*", f"commits that a shallow history leaves out: {count}"],
            },
        }

    gap: list[Finding] = [("missing-object", 2, commits[1])]
    case(
        "shallow-forged-over-a-whole-history",
        "the file says shallow, and all commits are there",
        ids(5, 3, 1),
        0,
        [],
        **OK,
    )
    case("shallow", "two commits are left out, as the file says", ids(3), 2, [], **left_out(2))
    case("shallow-at-the-head", "all but the head are left out", ids(5), 4, [], **left_out(4))
    case("shallow-without-newline", "the last line of the file has none", ids(3)[:-1], 2, [], **left_out(2))
    case("shallow-among-garbage", "other lines mean nothing", b"garbage\n\n" + ids(3) + b"\xff\n", 2, [], **left_out(2))
    case("shallow-of-another-commit", "the file names another commit than the one before the gap", ids(4, 2, 1), 2, gap)
    case("shallow-empty", "a file shallow without a line", b"", 2, gap)
    case("shallow-in-upper-case", "an id in another spelling", ids(3).upper(), 2, gap)
    case("shallow-with-returns", "lines with a return", ids(3).replace(b"\n", b"\r\n"), 2, gap)
    case("shallow-with-spaces", "an id with a space before it", b" " + ids(3), 2, gap)
    for name, target in (("link", "real-shallow"), ("pipe", None)):
        _, repo, _ = base()
        for one in m[:2]:
            repo.drop(one.commit)
        repo.files["real-shallow"] = ids(3)
        if target:
            repo.links["shallow"] = target
        else:
            repo.pipes.append("shallow")
        suite.repo(f"shallow-is-a-{name}", "no regular file: as if it was not there", repo, gap)
    _, repo, _ = base()
    repo.drop(commits[0])
    repo.drop(m[1].blob)
    repo.files["shallow"] = ids(2)
    found: list[Finding] = [("missing-object", 2, m[1].blob)]
    suite.repo("shallow-does-not-excuse-a-missing-event", "only commits may be left out", repo, found)
    _, repo, _ = base()
    repo.put("commit", b"x", under=commits[1])
    repo.files["shallow"] = ids(3)
    suite.repo(
        "shallow-does-not-excuse-a-false-commit",
        "the commit is there and is another",
        repo,
        [("bad-object", 2, commits[1])],
    )
    _, repo, _ = base()
    lie = Lies(commit={3: lambda text: text.replace(b"\n\nmessage", b"\n\n\nmessage")})
    _, repo, made = base(lie)
    repo.drop(made[0].commit)
    repo.files["shallow"] = made[1].commit.encode() + b"\n"
    suite.repo(
        "shallow-and-a-false-commit-after-it", "what is there is compared", repo, [("bad-commit", 3, made[2].commit)]
    )
    _, repo, _ = base()
    repo.drop(commits[1])
    repo.drop(m[3].root)
    repo.files["shallow"] = ids(3)
    suite.repo(
        "shallow-and-a-missing-tree-after-it",
        "trees of commits that are there must be there",
        repo,
        [("missing-object", 4, m[3].root)],
    )


def _alternates(suite: Suite) -> None:
    _, _, m = base()

    def moved() -> Repo:
        _, repo, _ = base()
        repo.kept_in = dict.fromkeys(repo.objects, "other/objects")
        return repo

    repo = moved()
    repo.files["objects/info/alternates"] = b"../other/objects\n"
    suite.repo("alternates", "all objects are in an alternate", repo, **OK)
    repo = moved()
    repo.kept_in = dict.fromkeys(repo.objects, "other/objects")
    suite.repo(
        "alternates-not-named",
        "the objects are elsewhere, and nobody says where",
        repo,
        [("missing-object", None, m[4].commit)],
    )
    repo = moved()
    repo.put("blob", b"{}", under=m[1].blob)
    repo.files["objects/info/alternates"] = b"../other/objects\n"
    suite.repo(
        "alternates-with-a-false-object",
        "an alternate with another content under an id",
        repo,
        [("bad-object", 2, m[1].blob)],
    )
    _, repo, _ = base()
    repo.files["objects/info/alternates"] = b"../objects\n/nonexistent\n\n#x\n\xff\n../other/objects\n"
    repo.files["other/objects/info/alternates"] = b"../../objects\n"
    suite.repo("alternates-in-a-circle", "alternates that name each other, and garbage", repo, **OK)
    _, repo, _ = base()
    repo.files["objects/info/http-alternates"] = b"http://127.0.0.1:1/objects\n"
    repo.drop(m[1].blob)
    suite.repo(
        "alternates-by-http", "an alternate that would have to be fetched", repo, [("missing-object", 2, m[1].blob)]
    )


def _packs(suite: Suite) -> None:
    """Files that git derives from objects. They are made with git, and then changed."""
    _, _, m = base()
    both: list[Finding] = [("bad-object", 2, m[1].blob), ("bad-object", 4, m[3].blob)]
    missing = ["bad-object", "missing-object"]

    def case(name: str, about: str, steps: list[Any], found: list[Finding], **more: Any) -> None:
        _, repo, _ = base()
        suite.repo(name, about, repo, found, setup={"steps": steps}, **more)

    case("packed", "a pack and no loose object", [["pack"]], [], **OK)
    case(
        "lying-idx",
        "the index of the pack has swapped two events",
        [["pack"], ["swap_in_idx", m[1].blob, m[3].blob]],
        both,
    )
    case(
        "lying-idx-of-the-head",
        "the head's id leads to the commit before",
        [["pack"], ["swap_in_idx", m[4].commit, m[3].commit]],
        [("bad-object", None, m[4].commit)],
    )
    case(
        "lying-idx-of-a-tree",
        "a tree's id leads to an event",
        [["pack"], ["swap_in_idx", m[4].leaf, m[3].blob]],
        [("bad-object", 1, m[4].leaf)],
    )
    case(
        "lying-idx-hides-an-event",
        "the index does not know an event",
        [["pack"], ["hide_in_idx", m[1].blob]],
        [("missing-object", 2, m[1].blob)],
    )
    case(
        "damaged-pack",
        "a byte of an event is another one",
        [["pack"], ["damage_in_pack", m[1].blob]],
        [("bad-object", 2, m[1].blob)],
        either=missing,
    )
    case(
        "pack-without-idx",
        "the index is gone",
        [["pack"], ["remove", "objects/pack/*.idx"]],
        [("missing-object", None, m[4].commit)],
    )
    case(
        "idx-of-garbage",
        "the index is garbage",
        [["pack"], ["garbage", "objects/pack/*.idx"]],
        [("missing-object", None, m[4].commit)],
        either=missing,
    )
    case(
        "pack-of-garbage",
        "the pack is garbage",
        [["pack"], ["garbage", "objects/pack/*.pack"]],
        [("missing-object", None, m[4].commit)],
        either=missing,
    )
    graph = ["pack"], ["commit_graph"]
    case("commit-graph", "an honest commit graph", [*graph], [], **OK)
    case(
        "commit-graph-forged-trees", "the commit graph names other trees", [*graph, ["forge_graph", "trees"]], [], **OK
    )
    case(
        "commit-graph-forged-parents",
        "the commit graph names other parents",
        [*graph, ["forge_graph", "parents"]],
        [],
        **OK,
    )
    case(
        "commit-graph-of-garbage",
        "the commit graph is garbage",
        [*graph, ["garbage", "objects/info/commit-graph"]],
        [],
        **OK,
    )
    midx = ["pack"], ["midx"]
    case("multi-pack-index", "an honest multi-pack-index", [*midx], [], **OK)
    case(
        "multi-pack-index-forged",
        "the multi-pack-index has swapped two events",
        [*midx, ["swap_in_midx", m[1].blob, m[3].blob]],
        [],
        **OK,
    )
    case(
        "multi-pack-index-of-garbage",
        "the multi-pack-index is garbage",
        [*midx, ["garbage", "objects/pack/multi-pack-index"]],
        [],
        **OK,
    )
    case(
        "bitmap-of-garbage",
        "a bitmap that is garbage",
        [["pack"], ["bitmap"], ["garbage", "objects/pack/*.bitmap"]],
        [],
        **OK,
    )
    case(
        "loose-and-packed",
        "a good pack beside a false loose object",
        [["pack_beside"], ["loose", m[1].blob, "{}"]],
        [],
        **OK,
    )


def _config(text: str) -> bytes:
    return ("[core]\n\trepositoryformatversion = 0\n\tbare = true\n" + text).encode()


def _configs(suite: Suite) -> None:
    configs: Mapping[str, str] = {
        "fsmonitor": f'[core]\n\tfsmonitor = "{RUN}"\n\tuntrackedCache = true\n',
        "ssh-command": f'[core]\n\tsshCommand = "{RUN}"\n\tgitProxy = "{RUN}"\n',
        "pager-and-editor": (
            f'[core]\n\tpager = "{RUN}"\n\teditor = "{RUN}"\n\taskPass = "{RUN}"\n[pager]\n\tcat-file = "{RUN}"\n'
        ),
        "alias": (
            f'[alias]\n\tcat-file = "{TOUCH}"\n\trev-list = "{TOUCH}"\n\tfsck = "{TOUCH}"\n'
            f'\tverify-commit = "{TOUCH}"\n\tshow-ref = "{TOUCH}"\n\tfor-each-ref = "{TOUCH}"\n'
        ),
        "include": (
            '[include]\n\tpath = more\n[includeIf "gitdir:/"]\n\tpath = more\n'
            '[includeIf "onbranch:**"]\n\tpath = more\n'
        ),
        "hooks-path": "[core]\n\thooksPath = my-hooks\n",
        "filters": (
            f'[filter "x"]\n\tclean = "{RUN}"\n\tsmudge = "{RUN}"\n\tprocess = "{RUN}"\n'
            f'\trequired = true\n[diff "x"]\n\ttextconv = "{RUN}"\n\tcommand = "{RUN}"\n[merge "x"]\n'
            f'\tdriver = "{RUN}"\n'
        ),
        "credentials": f'[credential]\n\thelper = "{TOUCH}"\n',
        "signature-programs": (
            f'[gpg]\n\tprogram = "{RUN}"\n\tformat = ssh\n[gpg "ssh"]\n\tprogram = "{RUN}"\n'
            f'\tdefaultKeyCommand = "{RUN}"\n\tallowedSignersFile = /nonexistent\n[log]\n'
            "\tshowSignature = true\n"
        ),
        "alternate-refs": f'[core]\n\talternateRefsCommand = "{RUN}"\n\talternateRefsPrefixes = x\n',
        "pack-hook": f'[uploadpack]\n\tpackObjectsHook = "{RUN}"\n[receive]\n\tprocReceiveRefs = refs\n',
        "trace": '[trace2]\n\teventTarget = "{MARKER}"\n\tnormalTarget = "{MARKER}"\n\tperfTarget = "{MARKER}"\n',
        "replace": "[core]\n\tuseReplaceRefs = true\n\tcommitGraph = true\n\tmultiPackIndex = true\n",
        "worktree": "[core]\n\tworktree = /nonexistent\n\tbare = false\n",
        "small-limits": (
            "[core]\n\tbigFileThreshold = 1\n\tpackedGitLimit = 1\n\tpackedGitWindowSize = 1\n"
            "\tdeltaBaseCacheLimit = 1\n"
        ),
        "colours": (
            "[color]\n\tui = always\n[core]\n\tquotePath = false\n[i18n]\n"
            "\tlogOutputEncoding = UTF-16\n\tcommitEncoding = UTF-16\n"
        ),
        "advice-and-help": "[help]\n\tautoCorrect = immediate\n[gc]\n\tauto = 1\n[maintenance]\n\tauto = true\n",
    }
    for name, text in configs.items():
        _, repo, _ = base()
        repo.files["config"] = _config(text)
        repo.files["more"] = f'[alias]\n\tcat-file = "{TOUCH}"\n[core]\n\tfsmonitor = "{RUN}"\n'.encode()
        if name == "hooks-path":
            _hooks(repo, "my-hooks")
        if name == "filters":
            repo.files["info/attributes"] = (
                b"* filter=x diff=x merge=x text eol=crlf working-tree-encoding=UTF-16 ident export-subst\n"
            )
        suite.repo(f"config-{name}", "a config that names programs to run, or other answers", repo, **OK)
    broken: Mapping[str, bytes] = {
        "unknown-version": b"[core]\n\trepositoryformatversion = 99\n",
        "unknown-extension": b"[core]\n\trepositoryformatversion = 1\n[extensions]\n\tmystery = true\n",
        "of-garbage": b"[core\n",
        "including-itself": b"[include]\n\tpath = config\n",
    }
    head = base()[2][4].commit
    for name, text in broken.items():
        _, repo, _ = base()
        repo.files["config"] = text
        suite.repo(f"config-{name}", "git refuses to read such a repository", repo, [("bad-object", None, head)])
    _, repo, _ = base()
    repo.files["config"] = b"[core]\n\trepositoryformatversion = 1\n[extensions]\n\tobjectFormat = sha256\n"
    suite.repo(
        "config-of-sha-256",
        "a repository that says that its ids are longer",
        repo,
        [("missing-object", None, head)],
        either=["missing-object", "bad-object"],
    )


def _hooks(repo: Repo, folder: str) -> None:
    names = (
        "post-checkout pre-auto-gc post-index-change fsmonitor-watchman reference-transaction "
        "post-update update pre-receive proc-receive pre-push"
    )
    for name in names.split():
        repo.files[f"{folder}/{name}"] = b'#!/bin/sh\ntouch "{MARKER}"\n'


def _fetching(suite: Suite) -> None:
    """A partial clone fetches what is missing, and its config says with which program."""
    blob = base()[2][1].blob
    found: list[Finding] = [("missing-object", 2, blob)]
    promise = "[extensions]\n\tpartialClone = o\n[protocol]\n\tallow = always\n"
    remotes = {
        "ext": '\turl = "ext::sh -c touch% {MARKER}"\n[protocol "ext"]\n\tallow = always\n',
        "upload-pack": '\turl = /\n\tuploadpack = "touch {MARKER}; false"\n',
        "ssh": f'\turl = ssh://example.invalid/x\n[core]\n\tsshCommand = "{RUN}"\n[ssh]\n\tvariant = simple\n',
        "vcs": "\tvcs = ext\n\turl = ext::sh\n",
        "file": "\turl = file:///\n",
    }
    for name, remote in remotes.items():
        _, repo, _ = base()
        repo.drop(blob)
        text = f'{promise}[remote "o"]\n\tpromisor = true\n\tpartialclonefilter = blob:none\n{remote}'
        repo.files["config"] = _config(text).replace(b"version = 0", b"version = 1")
        suite.repo(
            f"promisor-{name}",
            "a missing object, and a remote that has promised it",
            repo,
            found,
            either=["missing-object", "bad-object"],
        )


def _rest(suite: Suite) -> None:
    _, repo, _ = base()
    _hooks(repo, "hooks")
    suite.repo("hooks", "hooks of every kind", repo, **OK)
    _, repo, _ = base()
    repo.files[".gitmodules"] = (
        b'[submodule "x"]\n\tpath = x\n\turl = ext::sh -c touch% {MARKER}\n\tupdate = !touch {MARKER}\n'
    )
    repo.files["modules/x/HEAD"] = b"ref: refs/heads/main\n"
    repo.files["modules/x/config"] = f'[core]\n\tfsmonitor = "{RUN}"\n'.encode()
    repo.files["info/sparse-checkout"] = b"*\n"
    repo.files["index"] = b"DIRC garbage"
    suite.repo("submodules-and-an-index", "files that only a checkout would read", repo, **OK)
    attributes = entry(".gitattributes", oid("blob", b"* filter=x\n"))
    _, repo, made = base(Lies(root={5: lambda data: attributes + data}))
    repo.put("blob", b"* filter=x\n")
    repo.files["config"] = _config(f'[filter "x"]\n\tsmudge = "{RUN}"\n')
    suite.repo(
        "attributes-in-the-tree", "a file .gitattributes in the head's tree", repo, [("bad-tree", 5, made[4].commit)]
    )
    modules = entry(".gitmodules", oid("blob", b"x")) + entry("x", "ab" * 20, "160000")
    _, repo, made = base(Lies(root={5: lambda data: modules + data}))
    repo.put("blob", b"x")
    suite.repo("submodule-in-the-tree", "a submodule in the head's tree", repo, [("bad-tree", 5, made[4].commit)])
    environments: Mapping[str, dict[str, str]] = {
        "another-repository": {
            "GIT_DIR": "/nonexistent",
            "GIT_OBJECT_DIRECTORY": "/nonexistent",
            "GIT_COMMON_DIR": "/nonexistent",
        },
        "traces": {
            "GIT_TRACE": "{MARKER}",
            "GIT_TRACE2": "{MARKER}",
            "GIT_TRACE2_EVENT": "{MARKER}",
            "GIT_TRACE_SETUP": "{MARKER}",
        },
        "config": {
            "GIT_CONFIG_COUNT": "1",
            "GIT_CONFIG_KEY_0": "core.repositoryformatversion",
            "GIT_CONFIG_VALUE_0": "99",
        },
        "config-parameters": {"GIT_CONFIG_PARAMETERS": "'extensions.mystery=1' 'core.repositoryformatversion=1'"},
        "namespace-and-grafts": {
            "GIT_NAMESPACE": "x",
            "GIT_GRAFT_FILE": "/dev/zero",
            "GIT_SHALLOW_FILE": "/dev/zero",
            "GIT_REPLACE_REF_BASE": "refs/heads/",
        },
        "limits": {"GIT_ALLOC_LIMIT": "1", "GIT_MMAP_LIMIT": "1", "GIT_FLUSH": "1"},
        "languages": {"LC_ALL": "C", "LANG": "C", "PYTHONIOENCODING": "utf-16", "TZ": "Pacific/Kiritimati"},
        "home": {"HOME": "/nonexistent", "XDG_CONFIG_HOME": "/nonexistent"},
    }
    for name, env in environments.items():
        _, repo, _ = base()
        suite.repo(f"environment-{name}", "variables that would change git's answers", repo, env=env, **OK)
    line = talk(3)
    line.add("note", {"text": "\x1b]0;title\x07\x1b[2J\u202e\u2028\x9b31m"})
    repo = Repo()
    repo.write(line.events, MAIN)
    suite.repo("control-characters-in-an-event", "text that would paint the terminal", repo, **OK)
    # One line only, though a reader of whole lines of git's output might see two objects.
    answer = f"\n{'0' * 40} missing\n{made[0].commit} commit 3\nabc\n".encode()
    line = Line()
    line.add("message", {}, files=[answer, b"\n\n\n", b""])
    repo = Repo()
    repo.write(line.events, MAIN)
    suite.repo(
        "side-file-like-an-answer-of-git", "content that looks like what git answers", repo, line={"side_files": 3}
    )


def add(suite: Suite) -> None:
    """All cases of this file."""
    suite.folder = "hostile"
    _replace(suite)
    _history_files(suite)
    _alternates(suite)
    _packs(suite)
    _configs(suite)
    _fetching(suite)
    _rest(suite)
