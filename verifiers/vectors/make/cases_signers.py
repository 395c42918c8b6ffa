"""Whose signatures count: files of allowed signers and revoked keys (docs/verification.md section 9)."""

from __future__ import annotations

from collections.abc import Sequence

from .cases_seals import (
    AFTER_TEXT,
    ALICE,
    CLOCK_TEXT,
    CUT_TEXT,
    EXPORT_TEXT,
    MALLORY,
    NOBODY_TEXT,
    P256,
    checkpoint,
    revoked_file,
    says,
    sealed,
    signed,
    signers_file,
    statement,
    with_signature,
)
from .kit import talk
from .sshsig import armour, to_sign
from .suite import Finding, Suite


def _signers(suite: Suite) -> None:
    line = sealed(ALICE)
    moment = line[5].members["ts"]
    # 2026-01-02T03:04:04Z
    if moment[:19] != "2026-01-02T03:04:04":
        raise ValueError(moment)
    key = ALICE.line
    unknown: list[Finding] = [("unknown-signer", 5)]

    def accepted(name: str, about: str, text: str | bytes, who: str = "alice", *, ends: bool = False) -> None:
        texts = [EXPORT_TEXT, CUT_TEXT, *([CLOCK_TEXT] if ends else []), AFTER_TEXT]
        suite.export(
            f"signers-{name}",
            about,
            line.events,
            args=signers_file(suite, name, text),
            verdict={"unchecked": texts},
            line=says(1, 4, (ALICE, who, 1)),
        )

    def refused(name: str, about: str, text: str | bytes, more: Sequence[str] = ()) -> None:
        args = [*signers_file(suite, name, text), *more]
        texts = {"unchecked": [EXPORT_TEXT, CUT_TEXT, AFTER_TEXT]}
        suite.export(
            f"signers-{name}", about, line.events, unknown, args=args, verdict=texts, line=says(1, 0, (ALICE, None, 1))
        )

    def unreadable(name: str, about: str, text: str | bytes) -> None:
        suite.export(f"signers-{name}", about, line.events, args=signers_file(suite, name, text), exit_=2)

    base64_key = key.split()[1]
    accepted("comment", "a comment behind the key", f'alice {key} a comment = "x\n')
    accepted(
        "principals", "several principals are one text", f"alice,*@example.org,!eve {key}\n", "alice,*@example.org,!eve"
    )
    accepted("principals-with-quotes", "principals know no quotes", f'"alice {key}\n', '"alice')
    accepted("principals-not-ascii", "principals are text", f"\u00e9\U0001f600 {key}\n", "\u00e9\U0001f600")
    accepted(
        "tabs-and-spaces",
        "fields go by spaces and tabs",
        f' \talice\t \tnamespaces="gitjournal"  {key.replace(" ", chr(9))}\t\n',
    )
    accepted("returns", "lines that end as on Windows", f"# x\r\n\r\nalice {key}\r\n")
    accepted("without-newline", "no newline at the end", f"alice {key}")
    accepted(
        "comments-and-empty-lines", "lines that mean nothing", f"\n#\n  # {key}\n \t\n##alice {key}\nalice {key}\n\n"
    )
    accepted("first-line-counts", "two lines accept it", f"alice {key}\nbob {key}\n")
    accepted("second-line-accepts", "the first line does not", f'bob namespaces="git" {key}\nalice {key}\n')
    accepted("other-keys-before", "other people's lines", f"mallory {MALLORY.line}\nbob {P256.line}\nalice {key}\n")
    accepted("namespace", "the namespace is named", f'alice namespaces="git,gitjournal" {key}\n')
    accepted("namespace-star", "a star in the namespace", f'alice namespaces="git*" {key}\n')
    accepted("namespace-question-marks", "a question mark is one character", f'alice namespaces="?itjourna?" {key}\n')
    accepted("namespace-all", "a star alone", f'alice namespaces="*" {key}\n')
    stars = "*" * 1000
    accepted("namespace-many-stars", "stars match nothing too", f'alice namespaces="{stars}l{stars}" {key}\n')
    accepted("namespace-star-again", "a star is tried again", f'alice namespaces="g*?l" {key}\n')
    accepted("namespace-not-another", "another namespace is excluded", f'alice namespaces="*,!git" {key}\n')
    accepted("option-in-upper-case", "names of options have no case", f'alice NameSpaces="gitjournal" {key}\n')
    refused("nobody", "no line at all", "")
    refused("other-key", "another key", f"alice {MALLORY.line}\n")
    refused("namespace-git", "another namespace", f'alice namespaces="git" {key}\n')
    refused("namespace-in-upper-case", "namespaces have a case", f'alice namespaces="GITJOURNAL" {key}\n')
    refused("namespace-many-stars-and-no-match", "no pattern takes long", f'alice namespaces="{stars}x" {key}\n')
    refused("namespace-many-stars-excluded", "no pattern takes long", f'alice namespaces="*,!{stars}?{stars}" {key}\n')
    refused("namespace-excluded", "the namespace is excluded", f'alice namespaces="*,!gitjournal" {key}\n')
    refused("namespace-excluded-first", "in any order", f'alice namespaces="!git*,gitjournal" {key}\n')
    refused("namespace-only-excluded", "nothing is allowed", f'alice namespaces="!git" {key}\n')
    refused("namespace-empty", "no namespace", f'alice namespaces="" {key}\n')
    refused("namespace-too-short", "a pattern is for the whole", f'alice namespaces="gitjour" {key}\n')
    refused("namespace-too-many-marks", "a question mark is one character", f'alice namespaces="gitjournal?" {key}\n')
    refused("namespace-brackets", "brackets are no pattern", f'alice namespaces="[g]itjournal" {key}\n')
    refused("cert-authority", "a line for certificates", f"alice cert-authority {key}\n")
    refused(
        "cert-authority-and-more", "a line for certificates", f'alice namespaces="gitjournal",cert-authority {key}\n'
    )
    refused("unknown-option", "nobody knows what it restricts", f"alice only-on-sundays {key}\n")
    refused("unknown-option-with-a-value", "nobody knows what it restricts", f'alice days="sun, mon" {key}\n')
    for name, time, ok in (
        ("after-a-second-before", "20260102030403", True),
        ("after-the-same-second", "20260102030404", True),
        ("after-a-second-later", "20260102030405", False),
        ("after-the-minute", "202601020304", True),
        ("after-the-next-minute", "202601020305", False),
        ("after-the-day", "20260102", True),
        ("after-the-next-day", "20260103", False),
        ("after-with-z", "20260102030404Z", True),
        ("after-the-day-with-z", "20260103Z", False),
    ):
        (accepted if ok else refused)(name, "a key that begins", f'alice valid-after="{time}" {key}\n')
    for name, time, ok in (
        ("before-a-second-later", "20260102030405", True),
        ("before-the-same-second", "20260102030404", False),
        ("before-a-second-before", "20260102030403Z", False),
        ("before-the-next-day", "20260103", True),
        ("before-the-day", "20260102", False),
        ("before-the-year-9999", "99991231", True),
    ):
        text = f'alice valid-before="{time}" {key}\n'
        if ok:
            accepted(name, "a key that ends", text, ends=True)
        else:
            refused(name, "a key that has ended", text)
    window = f'alice valid-after="20260101",valid-before="20260201",namespaces="gitjournal" {key}\n'
    accepted("window", "begin, end and namespace", window, ends=True)
    refused(
        "window-that-is-empty",
        "it ends before it begins",
        f'alice valid-after="20260102",valid-before="20260101" {key}\n',
    )
    accepted(
        "window-behind-an-endless-line",
        "the first line that accepts counts",
        f'alice {key}\nalice valid-before="20270101" {key}\n',
    )
    accepted("expired-and-renewed", "an old line and a new one", f'alice valid-before="20250101" {key}\nalice {key}\n')
    for name, text in {
        "revoked": f"{key}\n",
        "revoked-with-comment": f"# lost\n\n{P256.line}\r\n{key} stolen laptop\n",
        "revoked-with-tab": f"\t{key.replace(' ', chr(9))}\n",
    }.items():
        refused(name, "the key is revoked", f"alice {key}\n", revoked_file(suite, name, text))
    args = [
        *signers_file(suite, "revoked-others", f"alice {key}\n"),
        *revoked_file(suite, "others", f"{MALLORY.line}\n"),
    ]
    suite.export("signers-revoked-others", "another key is revoked", line.events, args=args, line={"signed_to": 4})
    args = revoked_file(suite, "without-signers", f"{key}\n")
    suite.export(
        "signers-revoked-and-none-allowed",
        "no list of signers: the signature is right, and whose is not known",
        line.events,
        args=args,
        exit_=3,
        line={"signatures": 1},
    )
    for name, text in {
        "one-field": "alice\n",
        "two-fields": "alice ssh-ed25519\n",
        "no-key": "alice ssh-ed25519 !!!!\n",
        "key-of-another-kind": f"alice ssh-rsa {base64_key}\n",
        "key-without-padding": f"alice ssh-ed25519 {P256.line.split()[1].rstrip('=')}\n",
        "key-with-other-last-bits": "alice ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AB==\n",
        "two-option-fields": f'alice namespaces="git" cert-authority {key}\n',
        "quote-not-closed": f'alice namespaces="git {key}\n',
        "value-without-quotes": f"alice namespaces=git {key}\n",
        "option-without-value": f"alice namespaces {key}\n",
        "option-twice": f'alice namespaces="git",namespaces="gitjournal" {key}\n',
        "option-empty": f'alice namespaces="git",,cert-authority {key}\n',
        "option-comma-at-the-end": f'alice namespaces="git", {key}\n',
        "time-of-nonsense": f'alice valid-after="yesterday" {key}\n',
        "time-of-seven-digits": f'alice valid-after="2026010" {key}\n',
        "time-of-february-30": f'alice valid-after="20260230" {key}\n',
        "time-of-hour-24": f'alice valid-before="202601012400" {key}\n',
        "time-before-1970": f'alice valid-after="19691231" {key}\n',
        "time-of-month-99-before-1970": f'alice valid-after="19699901" {key}\n',
        "time-with-small-z": f'alice valid-after="20260101z" {key}\n',
        "time-empty": f'alice valid-after="" {key}\n',
        "time-without-value": f"alice valid-before {key}\n",
        "good-line-then-garbage": f"alice {key}\nx\n",
    }.items():
        unreadable(name, "a file with a line that cannot be read", text)
    unreadable("not-utf-8", "a file that is no UTF-8", f"alice {key}\n# ".encode() + b"\xff\n")
    for name, text in {
        "krl": "SSHKRL\n\0\n",
        "hash": f"{ALICE.fingerprint}\n",
        "with-principals": f"alice {key}\n",
    }.items():
        suite.export(
            f"signers-revoked-file-of-{name}",
            "a file with a line that cannot be read",
            line.events,
            args=revoked_file(suite, f"file-of-{name}", text),
            exit_=2,
        )
    alice = ["--allowed-signers", "{vectors}/seals/alice.signers"]
    required = [*alice, "--require-signed"]
    bare = sealed()
    suite.export(
        "signature-stripped",
        "the seal has lost its signature, and nobody asks",
        bare.events,
        args=alice,
        verdict={"unchecked": [EXPORT_TEXT, CUT_TEXT, NOBODY_TEXT, AFTER_TEXT]},
    )
    none: list[Finding] = [("bad-signature", None, "")]
    suite.export("signature-stripped-and-required", "the seal has lost its signature", bare.events, none, args=required)
    suite.export(
        "signature-required-of-nobody-known",
        "a signature, and no list of signers",
        line.events,
        none,
        args=["--require-signed"],
        line={"signatures": 1, "signed_to": 0},
    )
    mallory = sealed(MALLORY)
    found: list[Finding] = [("bad-signature", None, ""), ("unknown-signer", 5)]
    suite.export(
        "key-substitution",
        "Mallory has sealed in Alice's place",
        mallory.events,
        unknown,
        args=alice,
        line=says(1, 0, (MALLORY, None, 1)),
    )
    suite.export(
        "key-substitution-and-required", "Mallory has sealed in Alice's place", mallory.events, found, args=required
    )
    forged = with_signature(armour(MALLORY.envelope(MALLORY.raw(to_sign("gitjournal", checkpoint())))), ALICE)
    suite.export(
        "key-substitution-under-her-name",
        "Mallory's signature under Alice's fingerprint",
        forged.events,
        [("bad-signature", 5)],
        args=alice,
    )
    both = sealed(ALICE, MALLORY)
    suite.export(
        "key-added",
        "Mallory has signed beside Alice",
        both.events,
        unknown,
        args=alice,
        line=says(2, 4, (ALICE, "alice@example.org", 1), (MALLORY, None, 1)),
    )
    dated = talk(4)
    dated.add("session.seal", signed(statement(dated), ALICE), ts="2024-06-01T00:00:00.000Z")
    args = signers_file(suite, "ended-in-2025", f'alice valid-before="20250101" {key}\n')
    suite.export(
        "back-dated-seal",
        "an ended key, and a seal that says it is older: the verdict says whose word that is",
        dated.events,
        args=args,
        verdict={"unchecked": [EXPORT_TEXT, CUT_TEXT, CLOCK_TEXT, AFTER_TEXT]},
    )


def add(suite: Suite) -> None:
    """All cases of this file."""
    suite.folder = "seals"
    _signers(suite)
