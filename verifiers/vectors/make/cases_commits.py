"""Commits in another form, and commits in the form that say something else (docs/verification.md section 8)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from .cases_git import EMPTY_TREE, NOWHERE, base, swap
from .gitkit import Lies
from .suite import Suite

#: Texts of a commit that are not in the form; (from, to) as a regular expression and its replacement.
_FORMS: Mapping[str, tuple[bytes, bytes]] = {
    "duplicate-author-line": (rb"(author .*\n)", rb"\1\1"),
    "duplicate-committer-line": (rb"(committer .*\n)", rb"\1\1"),
    "duplicate-parent-line": (rb"(parent .*\n)", rb"\1\1"),
    "extra-parent": (rb"(parent .*\n)", rb"\1parent " + NOWHERE.encode() + rb"\n"),
    "parent-behind-author": (rb"(author .*\n)", rb"\1parent " + NOWHERE.encode() + rb"\n"),
    "extra-header": (rb"(committer .*\n)", rb"\1encoding ISO-8859-1\n"),
    "extra-header-of-no-name": (rb"(committer .*\n)", rb"\1x\n"),
    "continued-header": (rb"(committer .*)\n", rb"\1\n more\n"),
    "header-before-author": (rb"(author .*\n)", rb"x y\n\1"),
    "garbage-for-a-signature": (rb"(committer .*\n)", rb"\1gpgsig x\n"),
    "empty-signature": (rb"(committer .*\n)", rb"\1gpgsig \n"),
    "pgp-signature": (
        rb"(committer .*\n)",
        rb"\1gpgsig -----BEGIN PGP SIGNATURE-----\n AAAA\n -----END PGP SIGNATURE-----\n",
    ),
    "signature-without-body": (
        rb"(committer .*\n)",
        rb"\1gpgsig -----BEGIN SSH SIGNATURE-----\n -----END SSH SIGNATURE-----\n",
    ),
    "signature-for-sha256": (
        rb"(committer .*\n)",
        rb"\1gpgsig-sha256 -----BEGIN SSH SIGNATURE-----\n AAAA\n -----END SSH SIGNATURE-----\n",
    ),
    "merge-tag": (rb"(committer .*\n)", rb"\1mergetag object " + NOWHERE.encode() + rb"\n type commit\n"),
    "two-blank-lines": (rb"\n\n(message|session)", rb"\n\n\n\1"),
    "no-blank-line": (rb"\n\n(message|session)", rb"\n\1"),
    "no-newline-at-the-end": (rb"\n\Z", rb""),
    "two-newlines-at-the-end": (rb"\n\Z", rb"\n\n"),
    "text-at-the-end": (rb"\n\Z", rb"\nSigned-off-by: x\n"),
    "nul-at-the-end": (rb"\n\Z", rb"\n\0"),
    "nul-in-the-message": (rb" #(\d)\n", rb" #\1\0\n"),
    "nul-in-the-session": (rb"Session: s", rb"Session: s\0"),
    "nul-before-the-rest": (rb"\n\nSession", rb"\n\0\nSession"),
    "crlf": (rb"\n", rb"\r\n"),
    "crlf-in-the-message": (rb" #(\d)\n", rb" #\1\r\n"),
    "return-in-the-session": (rb"Session: s", rb"Session: s\r"),
    "no-session": (rb"Session: .*\n", rb""),
    "two-sessions": (rb"(Session: .*\n)", rb"\1\1"),
    "empty-session": (rb"Session: s", rb"Session: "),
    "session-too-long": (rb"Session: s", rb"Session: " + b"s" * 201),
    "session-not-utf-8": (rb"Session: s", b"Session: \xff"),
    "session-with-a-surrogate": (rb"Session: s", b"Session: \xed\xa0\x80"),
    "session-with-an-escape": (rb"Session: s", b"Session: \x1b[31m"),
    "session-with-u0085": (rb"Session: s", b"Session: \xc2\x85"),
    "no-hash": (rb"Event-Hash: .*\n", rb""),
    "hash-in-upper-case": (rb"sha256:.{64}", rb"sha256:" + b"A" * 64),
    "hash-too-short": (rb"(sha256:.{63}).", rb"\1"),
    "hash-without-kind": (rb"sha256:", rb""),
    "hash-of-another-kind": (rb"sha256:", rb"sha512:"),
    "trailers-swapped": (rb"(Session: .*\n)(Event-Hash: .*\n)", rb"\2\1"),
    "small-session-trailer": (rb"Session: ", rb"session: "),
    "no-subject": (rb"\n\n\w[^#\n]*#\d\n", rb"\n\n\n"),
    "subject-without-number": (rb" #\d\n", rb"\n"),
    "subject-with-leading-zero": (rb" #(\d)\n", rb" #0\1\n"),
    "subject-of-nine-digits": (rb" #\d\n", rb" #123456789\n"),
    "subject-in-upper-case": (rb"\n\nm", rb"\n\nM"),
    "subject-with-a-space": (rb" #(\d)\n", rb" #\1 \n"),
    "author-of-another-address": (rb"author (\S+) <\S+@", rb"author \1 <x@"),
    "author-of-another-host": (rb"(author .*)@gitjournal.invalid", rb"\1@example.org"),
    "author-without-address": (rb"author (\S+) <\S+>", rb"author \1 <>"),
    "author-with-a-space": (rb"author \S+ <\S+@", rb"author a b <a b@"),
    "author-time-differs": (rb"(author .*> )\d+", rb"\g<1>1"),
    "committer-time-differs": (rb"(committer .*> )\d+", rb"\g<1>1"),
    "other-time-zone": (rb"\+0000", rb"+0100"),
    "minus-time-zone": (rb"\+0000", rb"-0000"),
    "time-with-leading-zero": (rb"> (\d+)", rb"> 0\1"),
    "negative-time": (rb"> (\d+)", rb"> -\1"),
    "time-of-13-digits": (rb"> (\d+)", rb"> 1234567890123"),
    "other-committer": (rb"committer gitjournal <gitjournal@", rb"committer git <git@"),
    "no-committer": (rb"committer .*\n", rb""),
    "tree-in-upper-case": (rb"\Atree .{40}", b"tree " + b"AB" * 20),
    "tree-too-short": (rb"\A(tree .{39}).", rb"\1"),
    "space-at-line-end": (rb"\A(tree .{40})", rb"\1 "),
    "tab-for-space": (rb"\Atree ", b"tree\t"),
    "byte-order-mark": (rb"\A", b"\xef\xbb\xbf"),
    "latin-1-in-the-author": (rb"author \S+ <\S+@", b"author \xe9 <\xe9@"),
}
#: Of these the second line is no parent line, so the walk ends at the commit.
_NO_PARENT: Mapping[str, tuple[bytes, bytes]] = {
    "duplicate-tree-line": (rb"(\Atree .*\n)", rb"\1\1"),
    "parent-in-upper-case": (rb"parent .{40}", b"parent " + b"AB" * 20),
    "parent-too-long": (rb"(parent .{40})", rb"\g<1>0"),
    "parent-with-a-space": (rb"(parent .{40})", rb"\1 "),
    "parent-with-return": (rb"(parent .{40})", rb"\1\r"),
    "no-tree-line": (rb"\Atree .*\n", rb""),
    "empty": (rb"(?s)\A.*\Z", rb""),
    "line-before-the-tree": (rb"\A", rb"x\n"),
}
#: Commits in the form that say something else; (from, to), code.
_SAYINGS: Mapping[str, tuple[bytes, bytes, str]] = {
    "another-hash": (rb"sha256:.{64}", b"sha256:" + b"0" * 64, "bad-hash"),
    "another-session": (rb"Session: s", rb"Session: t", "bad-commit"),
    "a-session-with-a-space": (rb"Session: ", rb"Session:  ", "bad-commit"),
    "another-type": (rb"message #", rb"note #", "bad-commit"),
    "another-time": (rb"> \d+", rb"> 1767323100", "bad-tree"),
    "time-zero": (rb"> \d+", rb"> 0", "bad-tree"),
    "another-actor": (rb"author user <user@", rb"author host <host@", "bad-tree"),
    "another-tree": (rb"\Atree .{40}", b"tree " + EMPTY_TREE.encode(), "bad-tree"),
    "another-hash-and-time": (rb"(?s)> \d+(.*)> \d+(.*)sha256:.{64}", rb"> 5\1> 5\2sha256:" + b"0" * 64, "bad-hash"),
}  # fmt: skip


def _sub(pair: tuple[bytes, ...]) -> Callable[[bytes], bytes]:
    def change(text: bytes) -> bytes:
        made = re.sub(pair[0], pair[1], text)
        if made == text:
            raise ValueError(f"{pair[0]!r} changes nothing")
        return made

    return change


def _commits(suite: Suite) -> None:
    for name, pair in {**_FORMS, **_NO_PARENT}.items():
        _, repo, made = base(Lies(commit={5: _sub(pair)}))
        about = "the head's commit is not in the form"
        suite.repo(
            f"commit-head-{name}",
            about,
            repo,
            [("bad-commit", None, made[4].commit)],
            line={"head": {"seq": 0, "hash": None}},
        )
    for name, pair in {**_FORMS, **_NO_PARENT}.items():
        _, repo, made = base(Lies(commit={3: _sub(pair)}))
        suite.repo(f"commit-3-{name}", "the third commit is not in the form", repo, [("bad-commit", 3, made[2].commit)])
    for seq in (3, 5):
        # It is in the form, as the first of another history.
        _, repo, made = base(Lies(commit={seq: _sub((rb"parent .*\n", b""))}))
        suite.repo(
            f"commit-{seq}-without-a-parent",
            "history begins in the middle",
            repo,
            [("bad-commit", seq, made[seq - 1].commit)],
        )
    for name, (old, new, code) in _SAYINGS.items():
        for seq in (3, 5):
            _, repo, made = base(Lies(commit={seq: _sub((old, new))}))
            repo.put("tree", b"")
            found = [(code, seq, made[seq - 1].commit)]
            if name == "another-tree" and seq == 5:
                # All is read through the head's tree, and this one has nothing.
                found = [("missing-object", 1, "")]
            suite.repo(f"commit-{seq}-says-{name}", "a commit in the form that says something else", repo, found)
    _, repo, made = base(Lies(commit={3: swap(b" #3\n", b" #4\n")}))
    suite.repo(
        "commit-3-says-another-seq",
        "a commit in the form that says something else",
        repo,
        [("bad-commit", 3, made[2].commit)],
    )
    for seq, number in ((5, None), (3, 3)):
        suite.generated(
            f"commit-{seq}-too-large",
            "more than 64 KiB of commit",
            "git",
            [("bad-commit", number)],
            generate=["big_commit", seq, 1 << 16],
        )
    suite.generated(
        "commit-5-of-300-mib",
        "a commit of 300 MiB that is packed small",
        "git",
        [("bad-commit", None)],
        generate=["big_commit", 5, 300 << 20],
        rss=500,
    )


def add(suite: Suite) -> None:
    """All cases of this file."""
    suite.folder = "git"
    _commits(suite)
