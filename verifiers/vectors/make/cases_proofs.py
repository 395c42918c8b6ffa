"""Proofs: inclusion and consistency, for many sizes, right and tampered (docs/verification.md section 9)."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from .cases_seals import AFTER_TEXT, ALICE, CUT_TEXT, MALLORY, NOBODY_TEXT, WHOSE_TEXT, says, signed, statement
from .kit import Event, Line, Raw, canon, consistency, inclusion, relink, talk
from .suite import Suite

PROOF_TEXT = "all other events: a proof shows what it names"
BAD = [("bad-seal", None, "")]


@lru_cache(maxsize=1)
def seals() -> Line:
    """A line in which each event from the second on is a seal over all before it."""
    line = Line()
    while line.seq <= 70:
        line.add("session.seal", statement(line), salt=...)
    return line


def leaves(line: Line, count: int) -> list[bytes]:
    """The event hashes that a tree of this size has for leaves."""
    return [bytes.fromhex(event.hash) for event in line.events[:count]]


def b64(hashes: Sequence[bytes]) -> list[str]:
    """Hashes as a proof has them."""
    return [base64.b64encode(one).decode() for one in hashes]


def of_event(event: Event, seal: Event, path: Sequence[bytes]) -> dict[str, Any]:
    """The members of an inclusion proof."""
    return {
        "format": "gitjournal-proof",
        "version": 1,
        "kind": "inclusion",
        "event": event.raw.decode(),
        "seal": seal.raw.decode(),
        "path": b64(path),
    }


def of_seals(one: Event, two: Event, path: Sequence[bytes]) -> dict[str, Any]:
    """The members of a consistency proof."""
    return {
        "format": "gitjournal-proof",
        "version": 1,
        "kind": "consistency",
        "first": one.raw.decode(),
        "second": two.raw.decode(),
        "path": b64(path),
    }


def write(members: Mapping[str, Any]) -> bytes:
    """A proof as a file; members that are `...` are left out."""
    return canon({name: value for name, value in members.items() if value is not ...}) + b"\n"


def tampered(path: list[bytes]) -> Mapping[str, list[bytes]]:
    """Other paths in the place of a right one."""
    made = {"one-hash-more": [*path, bytes(32)], "one-hash-first": [bytes(32), *path]}
    if path:
        flipped = path[-1][:-1] + bytes([path[-1][-1] ^ 1])
        made |= {"one-hash-less": path[:-1], "one-bit": [*path[:-1], flipped], "nothing": []}
    if len(path) > 1:
        made |= {"backwards": path[::-1], "first-twice": [path[0], *path], "without-first": path[1:]}
    return made


def _inclusion(suite: Suite) -> None:
    line = seals()
    sizes = {
        1: [1],
        2: [1, 2],
        3: [1, 3],
        4: [2],
        5: [1, 5],
        6: [4, 5],
        7: [6, 7],
        8: [8],
        9: [1, 9],
        13: [7, 13],
        16: [16],
        17: [17],
        31: [16],
        33: [32, 33],
        64: [1],
        70: [1, 64, 65, 70],
    }
    for size, seqs in sizes.items():
        seal = line[size + 1]
        for seq in seqs:
            path = inclusion(leaves(line, size), seq - 1)
            members = of_event(line[seq], seal, path)
            more: dict[str, Any] = {"line": {"head": {"seq": size}, "seals": 1, "withheld": []}}
            suite.proof(f"inclusion-{seq}-of-{size}", "an event under a seal", write(members), **more)
            if (seq, size) in ((1, 1), (2, 2), (3, 3), (5, 5), (7, 13), (17, 17), (65, 70)):
                for name, other in tampered(path).items():
                    bad = write({**members, "path": b64(other)})
                    suite.proof(
                        f"inclusion-{seq}-of-{size}-{name}",
                        "an event under a seal, with another path",
                        bad,
                        BAD,
                        line={"head": {"seq": size}, "seals": 1},
                    )
            if size in (13, 70):
                other_event = write({**members, "event": line[seq - 1 or 2].raw.decode()})
                suite.proof(
                    f"inclusion-{seq}-of-{size}-of-its-neighbour", "the path of another event", other_event, BAD
                )
                other_seal = write({**members, "seal": line[size].raw.decode()})
                suite.proof(
                    f"inclusion-{seq}-of-{size}-under-another-seal", "the path to another root", other_seal, BAD
                )


def _full_of_marks(suite: Suite) -> None:
    """Marks within strings do not count, however they are escaped there."""
    line = Line()
    line.add("message", {"t": ',[{"\\' * 400 + '\\\\"', "u": [[], {}] * 300})
    line.add("session.seal", statement(line))
    members = of_event(line[2], line[3], inclusion(leaves(line, 2), 1))
    suite.proof("event-full-of-marks", "what a proof has few of, in the event", write(members), line={"seals": 1})


def _events(suite: Suite) -> None:
    line = talk(6)
    line.add("session.seal", statement(line))
    seal, path = line[7], inclusion(leaves(line, 6), 2)
    good = of_event(line[3], seal, path)
    texts = [PROOF_TEXT, CUT_TEXT, NOBODY_TEXT]
    suite.proof(
        "event",
        "a message under an unsigned seal",
        write(good),
        verdict={"unchecked": texts, "verdict": "ok"},
        line={"head": {"seq": 6}, **says(0)},
    )
    withheld = write({**good, "event": line[3].withhold().raw.decode()})
    suite.proof(
        "event-withheld",
        "the header of the event",
        withheld,
        verdict={"unchecked": [*texts, "the payloads of withheld events: 1"]},
        line={"withheld": [[3, 3]]},
    )
    _full_of_marks(suite)
    edited = line[3].change(data={"edited": True})
    suite.proof("event-edited", "another payload", write({**good, "event": edited.raw.decode()}), BAD)
    header = line[3].change(actor="assistant")
    suite.proof("event-edited-header", "another actor", write({**good, "event": header.raw.decode()}), BAD)
    again = line[3].withhold().change(data_sha256="0" * 64)
    suite.proof(
        "event-withheld-with-another-digest",
        "another payload, withheld",
        write({**good, "event": again.raw.decode()}),
        BAD,
        line={"withheld": [[3, 3]]},
    )
    renumbered = line[3].change(seq=4)
    suite.proof("event-renumbered", "event 3 says 4", write({**good, "event": renumbered.raw.decode()}), BAD)
    suite.proof(
        "event-at-another-place",
        "event 4 with the path of event 3",
        write({**good, "event": line[4].raw.decode()}),
        BAD,
    )
    beyond = of_event(seal, seal, path)
    suite.proof(
        "event-is-the-seal", "its seq is behind the size", write(beyond), BAD, line={"seals": 1, "head": {"seq": 6}}
    )
    node = line[3].change(seq=99_999_999)
    suite.proof(
        "event-far-behind-the-size", "its seq is behind the size", write({**good, "event": node.raw.decode()}), BAD
    )
    moved = relink([event.change(session="t") for event in line.events[:6]], 1)
    suite.proof(
        "event-of-another-session", "the event under another id", write({**good, "event": moved[2].raw.decode()}), BAD
    )
    texts_of = {
        "not-json": ("hello", "bad-json"),
        "empty": ("", "bad-json"),
        "not-canonical": (line[3].raw.decode() + "\n", "not-canonical"),
        "version-2": (line[3].raw.decode().replace('"v":1', '"v":2'), "bad-version"),
        "with-a-member-more": (line[3].change(z=1).raw.decode(), "bad-member"),
        "seq-0": (line[3].change(seq=0).raw.decode(), "bad-seq"),
        "epoch-0": (line[3].change(epoch=0).raw.decode(), "bad-epoch"),
        "without-prev": (line[3].change(prev=None).raw.decode(), "broken-link"),
        "start-at-3": (line[3].change(type="session.start").raw.decode(), "bad-fork"),
        "withheld-branch": (line[3].change(type="session.branch").withhold().raw.decode(), "bad-fork"),
        "withheld-seal": (seal.withhold().raw.decode(), "bad-seal"),
        "proof-in-a-proof": (write(good).decode()[:-1], "bad-version"),
    }
    for name, (text, code) in texts_of.items():
        suite.proof(
            f"event-{name}",
            "the text of the event breaks a rule",
            write({**good, "event": text}),
            [(code, None, "")],
            line={"seals": 0, "head": {"seq": 0}},
        )
        suite.proof(
            f"seal-{name}",
            "the text of the seal breaks a rule",
            write({**good, "seal": text}),
            [(code, None, "")],
            line={"seals": 0, "head": {"seq": 0}},
        )
    suite.proof(
        "both-break-a-rule",
        "the first one is named",
        write({**good, "event": "", "seal": seal.withhold().raw.decode()}),
        [("bad-json", None, "")],
    )


def _seal_rules(suite: Suite) -> None:
    line = talk(6)
    data = statement(line)
    path = inclusion(leaves(line, 6), 2)

    def case(name: str, about: str, seal: Event, *, bad: bool = True) -> None:
        members = of_event(line[3], seal, path)
        more: dict[str, Any] = (
            {"line": {"seals": 0, "head": {"seq": 0}}} if bad else {"line": {"seals": 1, "head": {"seq": 6}}}
        )
        suite.proof(f"seal-{name}", about, write(members), BAD if bad else [], **more)

    def seal(change: Mapping[str, Any] | None = None, **members: Any) -> Event:
        twin = line.copy()
        kept = {name: value for name, value in {**data, **(change or {})}.items() if value is not ...}
        return twin.add("session.seal", kept, **members)

    case("right", "as it must be", seal(), bad=False)
    case("of-another-type", "a message that has the members of a seal", line.copy().add("message", data))
    case("of-a-note", "another type whose name begins alike", line.copy().add("session.seals", data))
    case("at-another-seq", "its size is not one less than its seq", seal(seq=8))
    case("with-another-size", "its size is not one less than its seq", seal({"size": 5}))
    case("with-another-root", "root and checkpoint differ", seal({"root": "0" * 64}))
    case("with-a-root-in-upper-case", "root and checkpoint differ", seal({"root": data["root"].upper()}))
    case("with-a-root-of-another-length", "a root of 31 bytes", seal({"root": data["root"][:-2]}))
    case(
        "with-another-checkpoint", "of another session", seal({"checkpoint": data["checkpoint"].replace("/s/", "/t/")})
    )
    case("with-a-line-more", "in the checkpoint", seal({"checkpoint": data["checkpoint"] + "x\n"}))
    case("with-more-in-its-data", "a member that no seal has", seal({"more": 1}))
    case("without-signatures", "the member is not there", seal({"signatures": ...}))
    case("with-a-signature-of-text", "no object", seal({"signatures": ["x"]}))
    case("with-a-signature-without-key", "no key", seal({"signatures": [{"sshsig": "x"}]}))
    case(
        "of-any-branch",
        "which branch it was, the proof cannot know",
        seal({"checkpoint": data["checkpoint"].replace("/main", "/a%20b")}),
        bad=False,
    )
    for name, branch in {
        "spelled-otherwise": "%6Dain",
        "small-percent": "a%2fb",
        "empty": "",
        "of-two-parts": "a/b",
        "with-a-space": "a b",
        "with-a-newline": "a%0Ab",
        "too-long": "a" * 201,
    }.items():
        case(
            f"of-a-branch-{name}",
            "no branch as section 7 spells it",
            seal({"checkpoint": data["checkpoint"].replace("/main", f"/{branch}")}),
        )
    twin = Line("t")
    twin.events = relink([event.change(session="t") for event in line.events], 1)
    sealed = twin.copy().add("session.seal", statement(twin))
    suite.proof(
        "seal-over-another-session",
        "the event is not under that root",
        write(of_event(line[3], sealed, path)),
        BAD,
        line={"seals": 1, "head": {"seq": 6}},
    )


def _consistency(suite: Suite) -> None:
    line = seals()
    pairs = (
        (1, 1),
        (1, 2),
        (1, 3),
        (1, 7),
        (2, 2),
        (2, 3),
        (2, 5),
        (3, 4),
        (3, 7),
        (4, 4),
        (4, 5),
        (4, 7),
        (4, 8),
        (6, 7),
        (6, 8),
        (7, 8),
        (8, 9),
        (7, 13),
        (13, 13),
        (13, 16),
        (16, 33),
        (31, 32),
        (32, 33),
        (33, 64),
        (48, 70),
        (64, 70),
        (65, 70),
        (69, 70),
    )
    for first, second in pairs:
        one, two = line[first + 1], line[second + 1]
        path = consistency(leaves(line, second), first)
        members = of_seals(one, two, path)
        suite.proof(
            f"consistency-{first}-{second}",
            "one seal covers the beginning of another",
            write(members),
            line={"head": {"seq": second}, "seals": 2},
        )
        if (first, second) in ((1, 1), (1, 3), (3, 7), (4, 7), (7, 13), (13, 13), (16, 33), (48, 70)):
            for name, other in tampered(path).items():
                bad = write({**members, "path": b64(other)})
                suite.proof(
                    f"consistency-{first}-{second}-{name}",
                    "another path",
                    bad,
                    BAD,
                    line={"head": {"seq": second}, "seals": 2},
                )
        if first < second:
            swapped = write(of_seals(two, one, path))
            suite.proof(
                f"consistency-{second}-{first}",
                "the later seal first",
                swapped,
                BAD,
                line={"head": {"seq": first}, "seals": 2},
            )
    path = consistency(leaves(line, 13), 7)
    other = Line()
    other.events = [line[1].change(data={"another": 1})]
    while other.seq <= 13:
        other.add("session.seal", statement(other), salt=...)
    suite.proof(
        "consistency-with-another-history",
        "both are seals of this session, and not of one line",
        write(of_seals(other[8], line[14], path)),
        BAD,
    )
    suite.proof(
        "consistency-of-another-history",
        "both are seals of this session, and not of one line",
        write(of_seals(line[8], other[14], path)),
        BAD,
    )
    equal = write(of_seals(line[14], other[14], []))
    suite.proof("consistency-of-equal-sizes-and-other-roots", "two seals of one size: one of them is false", equal, BAD)
    two = Line("t")
    while two.seq <= 2:
        two.add("session.seal", statement(two), salt=...)
    suite.proof(
        "consistency-of-two-sessions",
        "of different sessions",
        write(of_seals(two[2], line[3], consistency(leaves(line, 2), 1))),
        BAD,
        line={"seals": 2},
    )
    branch = talk(3)
    branch.add("session.seal", statement(branch))
    branch.declare("try", 2)
    branch.add("session.seal", statement(branch))
    path = consistency(leaves(branch, 5), 3)
    suite.proof(
        "consistency-over-a-branch",
        "the line got another name between the seals",
        write(of_seals(branch[4], branch[6], path)),
        line={"seals": 2, "head": {"seq": 5}},
    )
    bad = branch[4].change(data={**branch[4].members["data"], "size": 2})
    suite.proof(
        "consistency-first-seal-is-bad",
        "its size is not one less than its seq",
        write(of_seals(bad, branch[6], path)),
        BAD,
        line={"seals": 0, "head": {"seq": 0}},
    )
    bad = branch[6].change(data={**branch[6].members["data"], "size": 2})
    suite.proof(
        "consistency-second-seal-is-bad",
        "its size is not one less than its seq",
        write(of_seals(branch[4], bad, path)),
        BAD,
        line={"seals": 1, "head": {"seq": 0}},
    )
    suite.proof(
        "consistency-of-messages", "no seals", write(of_seals(branch[2], branch[3], [])), BAD, line={"seals": 0}
    )


def _form(suite: Suite) -> None:
    line = talk(6)
    line.add("session.seal", statement(line))
    good = of_event(line[3], line[7], inclusion(leaves(line, 6), 2))
    raw = write(good)
    empty: dict[str, Any] = {"line": {"seals": 0, "head": {"seq": 0, "hash": None}}}

    def case(name: str, raw: bytes, code: str) -> None:
        suite.proof(f"form-{name}", "a file in another form", raw, [(code, None, "")], **empty)

    files: Mapping[str, tuple[bytes, str]] = {
        "empty": (b"", "bad-json"),
        "only-a-newline": (b"\n", "bad-json"),
        "text": (b"hello\n", "bad-json"),
        "without-newline": (raw[:-1], "not-canonical"),
        "two-newlines": (raw + b"\n", "not-canonical"),
        "return": (raw[:-1] + b"\r\n", "not-canonical"),
        "space-before": (b" " + raw, "not-canonical"),
        "with-spaces": (raw.replace(b'"version":1', b'"version": 1'), "not-canonical"),
        "members-in-another-order": (b'{"version":1,' + raw[1:].replace(b',"version":1}', b"}"), "not-canonical"),
        "byte-order-mark": (b"\xef\xbb\xbf" + raw, "bad-json"),
        "two-proofs": (raw + raw, "bad-json"),
        "two-proofs-in-a-line": (raw[:-1] + raw, "bad-json"),
        "nul-behind": (raw + b"\0", "bad-json"),
        "cut": (raw[:-20], "bad-json"),
        "array": (b"[]\n", "bad-json"),
        "null": (b"null\n", "bad-json"),
        "number": (b"1\n", "bad-json"),
        "not-utf-8": (raw.replace(b'"inclusion"', b'"\xff"'), "bad-json"),
        "lone-surrogate": (raw.replace(b'"inclusion"', b'"\\ud800"'), "bad-json"),
        "format-twice": (raw.replace(b'"format":', b'"format":"x","format":'), "bad-json"),
        "version-one-point-zero": (raw.replace(b'"version":1', b'"version":1.0'), "not-canonical"),
        "an-event": (line[3].raw + b"\n", "bad-version"),
        "empty-object": (b"{}\n", "bad-version"),
    }
    for name, (content, code) in files.items():
        case(name, content, code)
    members: Mapping[str, tuple[dict[str, Any], str]] = {
        "version-2": ({"version": 2}, "bad-version"),
        "version-text": ({"version": "1"}, "bad-version"),
        "version-true": ({"version": True}, "bad-version"),
        "version-null": ({"version": None}, "bad-version"),
        "version-missing": ({"version": ...}, "bad-version"),
        "format-other": ({"format": "gitjournal-export"}, "bad-version"),
        "format-upper-case": ({"format": "Gitjournal-Proof"}, "bad-version"),
        "format-number": ({"format": 1}, "bad-version"),
        "format-missing": ({"format": ...}, "bad-version"),
        "version-before-members": ({"version": 2, "extra": 1, "kind": 5}, "bad-version"),
        "kind-other": ({"kind": "exclusion"}, "bad-member"),
        "kind-of-the-other": ({"kind": "consistency"}, "bad-member"),
        "kind-null": ({"kind": None}, "bad-member"),
        "kind-missing": ({"kind": ...}, "bad-member"),
        "kind-proto": ({"kind": "__proto__"}, "bad-member"),
        "kind-constructor": ({"kind": "constructor"}, "bad-member"),
        "extra-member": ({"extra": 1}, "bad-member"),
        "extra-proto": ({"__proto__": 1}, "bad-member"),
        "both-kinds": ({"first": "", "second": ""}, "bad-member"),
        "event-missing": ({"event": ...}, "bad-member"),
        "event-null": ({"event": None}, "bad-member"),
        "event-object": ({"event": Raw(line[3].raw)}, "bad-member"),
        "seal-missing": ({"seal": ...}, "bad-member"),
        "seal-object": ({"seal": Raw(line[7].raw)}, "bad-member"),
        "path-missing": ({"path": ...}, "bad-member"),
        "path-null": ({"path": None}, "bad-member"),
        "path-text": ({"path": ""}, "bad-member"),
        "path-object": ({"path": {}}, "bad-member"),
        "path-of-numbers": ({"path": [1]}, "bad-member"),
        "path-of-null": ({"path": [None]}, "bad-member"),
        "path-of-31-bytes": ({"path": b64([bytes(31)])}, "bad-member"),
        "path-of-33-bytes": ({"path": b64([bytes(33)])}, "bad-member"),
        "path-of-nothing": ({"path": [""]}, "bad-member"),
        "path-in-hex": ({"path": ["0" * 64]}, "bad-member"),
        "path-without-padding": ({"path": [b64([bytes(32)])[0].rstrip("=")]}, "bad-member"),
        "path-with-other-last-bits": ({"path": [b64([bytes(32)])[0][:-2] + "B="]}, "bad-member"),
        "path-with-a-newline": ({"path": [b64([bytes(32)])[0] + "\n"]}, "bad-member"),
        "path-with-a-space": ({"path": [" " + b64([bytes(32)])[0]]}, "bad-member"),
        "path-in-base64url": ({"path": [b64([b"\xff" * 32])[0].replace("/", "_")]}, "bad-member"),
        "path-of-65": ({"path": b64([bytes(32)] * 65)}, "bad-member"),
        "members-before-the-event": ({"event": "", "path": [1]}, "bad-member"),
    }
    for name, (change, code) in members.items():
        case(name, write({**good, **change}), code)
    suite.proof(
        "form-path-of-64",
        "as long as a path may be, and wrong",
        write({**good, "path": b64([bytes(32)] * 64)}),
        BAD,
        line={"seals": 1},
    )
    deep = Raw(b"[" * 63 + b"]" * 63)
    case("depth-64", write({**good, "path": deep}), "bad-member")
    # 7 of the 1,000 marks outside of strings are not in the path.
    case("path-of-1000-marks", write({**good, "path": b64([bytes(32)] * 994)}), "bad-member")
    case("path-of-1001-marks", write({**good, "path": b64([bytes(32)] * 995)}), "bad-json")
    case("path-of-1001-lists", write({**good, "path": [[]] * 498}), "bad-json")
    case("path-of-3000-texts", write({**good, "path": ["\\"] * 3000}), "bad-json")
    case("depth-65", write({**good, "path": Raw(b"[" + deep + b"]")}), "bad-json")
    suite.generated(
        "form-64-mib-of-empty-lists",
        "more values than memory is for",
        "proof",
        [("bad-json", None, "")],
        generate=["listed_proof", 64 << 20],
        rss=600,
    )
    suite.generated(
        "form-64-mib-and-a-byte",
        "a file that is too large",
        "proof",
        [("bad-json", None, "")],
        generate=["long_proof", (64 << 20) + 1],
        rss=900,
    )
    suite.generated(
        "form-depth-bomb",
        "a hundred thousand levels",
        "proof",
        [("bad-json", None, "")],
        generate=["deep_proof", 100_000],
        rss=600,
    )


def _signed(suite: Suite) -> None:
    line = talk(6)
    data = statement(line)
    path = inclusion(leaves(line, 6), 2)
    args = ["--allowed-signers", "{vectors}/seals/alice.signers"]
    who = "alice@example.org"

    def seal(made: Mapping[str, Any]) -> Event:
        return line.copy().add("session.seal", made)

    good = write(of_event(line[3], seal(signed(data, ALICE)), path))
    texts = {"unchecked": [PROOF_TEXT, CUT_TEXT]}
    suite.proof(
        "signed", "an event under a seal of Alice", good, args=args, verdict=texts, line=says(1, 6, (ALICE, who, 1))
    )
    texts = {"unchecked": [PROOF_TEXT, CUT_TEXT, WHOSE_TEXT]}
    suite.proof(
        "signed-by-nobody-known", "no list of signers", good, exit_=3, verdict=texts, line=says(1, 0, (ALICE, None, 1))
    )
    suite.proof(
        "signed-and-required",
        "a signature is asked for, and is there",
        good,
        args=[*args, "--require-signed"],
        line={"signed_to": 6},
    )
    none = [("bad-signature", None, "")]
    bare = write(of_event(line[3], seal(data), path))
    suite.proof("signed-and-stripped", "the signature is gone", bare, none, args=[*args, "--require-signed"])
    mallory = write(of_event(line[3], seal(signed(data, MALLORY)), path))
    texts = {"unchecked": [PROOF_TEXT, CUT_TEXT, AFTER_TEXT]}
    suite.proof(
        "signed-by-mallory",
        "a key that nobody knows",
        mallory,
        [("unknown-signer", None, "")],
        args=args,
        verdict=texts,
        line=says(1, 0, (MALLORY, None, 1)),
    )
    found = [("bad-signature", None, ""), ("unknown-signer", None, "")]
    suite.proof(
        "signed-by-mallory-and-required", "a key that nobody knows", mallory, found, args=[*args, "--require-signed"]
    )
    false = signed(data, ALICE)
    false["signatures"][0]["sshsig"] = ALICE.sign(b"another text")
    suite.proof(
        "signed-with-another-text",
        "a signature of something else",
        write(of_event(line[3], seal(false), path)),
        none,
        args=args,
        line=says(0, seals=1),
    )
    wrong = write(of_event(line[4], seal(false), path))
    suite.proof(
        "signed-wrong-and-path-wrong",
        "signatures are looked at when all else holds",
        wrong,
        BAD,
        args=args,
        line=says(0),
    )
    twin = line.copy()
    twin.add("session.seal", signed(data, ALICE))
    twin.say("on")
    twin.add("session.seal", signed(statement(twin), ALICE))
    both = write(of_seals(twin[7], twin[9], consistency(leaves(twin, 8), 6)))
    suite.proof("signed-both", "two seals of Alice", both, args=args, line=says(2, 8, (ALICE, who, 2)))
    last = twin[7].change(data=false)
    whole = line.copy()
    whole.events.append(last)
    whole.say("on")
    whole.add("session.seal", signed(statement(whole), MALLORY))
    path = consistency(leaves(whole, 8), 6)
    mixed = write(of_seals(last, whole[9], path))
    suite.proof(
        "signed-first-wrong-and-second-by-mallory",
        "all seals of a proof are looked at",
        mixed,
        found,
        args=args,
        line=says(1, 0, (MALLORY, None, 1)),
    )
    expect = ["--expect-seq", "6", "--expect-head", "0" * 64]
    suite.proof("expected-head-with-a-proof", "wrong usage", good, args=expect, exit_=2)
    suite.proof("name-with-a-proof", "wrong usage", good, pick="s", exit_=2)


def add(suite: Suite) -> None:
    """All cases of this file."""
    suite.folder = "proofs"
    _inclusion(suite)
    _events(suite)
    _seal_rules(suite)
    _consistency(suite)
    _form(suite)
    _signed(suite)
