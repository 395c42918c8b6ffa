"""Seals: what they must say of the events before them (docs/verification.md section 9)."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from functools import cache
from hashlib import sha256
from typing import Any

from .kit import Line, Raw, relink, root, talk
from .sshsig import Key, ecdsa_key, ed25519_key, rsa_key
from .suite import Finding, Suite

ALICE, MALLORY = ed25519_key("alice"), ed25519_key("mallory")
P256, P384, P521 = ecdsa_key("p256", "nistp256"), ecdsa_key("p384", "nistp384"), ecdsa_key("p521", "nistp521")


ALICE, MALLORY = ed25519_key("alice"), ed25519_key("mallory")
P256, P384, P521 = ecdsa_key("p256", "nistp256"), ecdsa_key("p384", "nistp384"), ecdsa_key("p521", "nistp521")
GIT_TEXT = "events that are not yet in git: the tail of a live journal"
CUT_TEXT = "whether newer events were cut off: no head was expected"
EXPORT_TEXT = "commits, trees and refs: an export has none"
NOBODY_TEXT = "who wrote the events: nothing is signed"
WHOSE_TEXT = "whose keys signed: no allowed signers were given"
AFTER_TEXT = "events after the last accepted signature"
CLOCK_TEXT = "when it was signed: an accepted key has an end, and the time is the signer's word"
KIND_TEXT = "signatures of a kind that is not checked here: "


@cache
def rsa(bits: int = 3072, exponent: int = 65537) -> Key:
    """An RSA key; working with big ones takes a moment."""
    return rsa_key(bits, exponent)


def encode(text: str) -> str:
    """Percent-encoding of section 7, for names without dots and dashes."""
    return "".join(chr(b) if (chr(b).isalnum() and b < 128) or chr(b) in "_" else f"%{b:02X}" for b in text.encode())


def statement(line: Line, size: int | None = None) -> dict[str, Any]:
    """What an honest unsigned seal says of the first ``size`` events, by default all."""
    leaves = [bytes.fromhex(event.hash) for event in line.events[: size or line.seq]]
    top = root(leaves)
    text = f"gitjournal/{encode(line.session)}/{encode(line.branch)}\n{len(leaves)}\n{base64.b64encode(top).decode()}\n"
    return {"size": len(leaves), "root": top.hex(), "checkpoint": text, "signatures": []}


def signed(data: Mapping[str, Any], *keys: Key, **how: Any) -> dict[str, Any]:
    """A seal with signatures of these keys."""
    made = [{"key": key.fingerprint, "sshsig": key.sign(data["checkpoint"].encode(), **how)} for key in keys]
    return {**data, "signatures": made}


def sealed(*keys: Key, events: int = 4, **how: Any) -> Line:
    """A line whose last event is a seal that these keys have signed."""
    line = talk(events)
    line.add("session.seal", signed(statement(line), *keys, **how))
    return line


def with_signature(armoured: str, key: Key) -> Line:
    """A line whose last event is a seal with this signature."""
    line = talk(4)
    line.add("session.seal", {**statement(line), "signatures": [{"key": key.fingerprint, "sshsig": armoured}]})
    return line


def checkpoint() -> bytes:
    """The text that the seal of `sealed` has signed."""
    return str(statement(talk(4))["checkpoint"]).encode()


def signers_file(suite: Suite, name: str, text: str | bytes) -> list[str]:
    """A file of allowed signers, and the option for it."""
    suite.files[f"seals/{name}.signers"] = text if isinstance(text, bytes) else text.encode()
    return ["--allowed-signers", f"{{vectors}}/seals/{name}.signers"]


def revoked_file(suite: Suite, name: str, text: str) -> list[str]:
    """A file of revoked keys, and the option for it."""
    suite.files[f"seals/{name}.revoked"] = text.encode()
    return ["--revoked-keys", f"{{vectors}}/seals/{name}.revoked"]


def says(signatures: int, signed_to: int = 0, *signers: tuple[Key, str | None, int], **more: Any) -> dict[str, Any]:
    """What a line of the verdict says of signatures; of each key the principals and how often."""
    listed = sorted(
        ({"key": key.fingerprint, "principals": who, "signatures": count} for key, who, count in signers),
        key=lambda one: str(one["key"]),
    )
    return {"signatures": signatures, "signed_to": signed_to, "signers": listed, **more}


# --- seals ---------------------------------------------------------------------------------------


def _good(suite: Suite) -> None:
    line = sealed()
    suite.export("seal-unsigned", "a seal without signatures", line.events, line={"seals": 1, **says(0)})
    texts = {"unchecked": [EXPORT_TEXT, CUT_TEXT, WHOSE_TEXT], "verdict": "incomplete"}
    suite.export(
        "seal-of-nobody-known",
        "a right signature, and no list of signers",
        sealed(ALICE).events,
        exit_=3,
        verdict=texts,
        line=says(1, 0, (ALICE, None, 1)),
    )
    alice = signers_file(suite, "alice", f"alice@example.org {ALICE.line}\n")
    texts = {"unchecked": [EXPORT_TEXT, CUT_TEXT, AFTER_TEXT]}
    line = sealed(ALICE)
    suite.export(
        "seal",
        "a signed seal, and its key is known",
        line.events,
        args=alice,
        verdict=texts,
        line=says(1, 4, (ALICE, "alice@example.org", 1), seals=1),
    )
    suite.export(
        "seal-required",
        "a signature is asked for, and is there",
        line.events,
        args=[*alice, "--require-signed"],
        line={"signed_to": 4},
    )
    keys = {
        "p256": P256,
        "p384": P384,
        "rsa-2048": rsa(2048),
        "rsa-3072": rsa(),
        "rsa-8192": rsa(8192),
        "rsa-with-exponent-3": rsa(2048, 3),
    }
    every = "".join(f"{name} {key.line}\n" for name, key in {"ed25519": ALICE, **keys}.items())
    args = signers_file(suite, "every-kind", every)
    for name, key in keys.items():
        suite.export(
            f"seal-by-{name}",
            "a signed seal of another kind of key",
            sealed(key).events,
            args=args,
            line=says(1, 4, (key, name, 1)),
        )
    suite.export(
        "seal-by-rsa-with-sha256",
        "rsa-sha2-256",
        sealed(rsa(), algorithm="rsa-sha2-256").events,
        args=args,
        line=says(1, 4, (rsa(), "rsa-3072", 1)),
    )
    for name, key in {"ed25519": ALICE, "p256": P256}.items():
        suite.export(
            f"seal-by-{name}-over-sha256",
            "the message is hashed with SHA-256",
            sealed(key, hash_="sha256").events,
            args=args,
            line=says(1, 4, (key, name, 1)),
        )
    three = sealed(P256, ALICE, rsa())
    suite.export(
        "seal-by-three",
        "three keys",
        three.events,
        args=args,
        line=says(3, 4, (P256, "p256", 1), (ALICE, "ed25519", 1), (rsa(), "rsa-3072", 1)),
    )
    suite.export(
        "seal-by-one-key-twice",
        "the same signature two times",
        sealed(ALICE, ALICE).events,
        args=args,
        line=says(2, 4, (ALICE, "ed25519", 2)),
    )
    two = sealed(ALICE)
    two.say("on")
    two.add("session.seal", signed(statement(two), P256))
    suite.export(
        "two-seals",
        "a seal over a seal",
        two.events,
        args=args,
        line=says(2, 6, (ALICE, "ed25519", 1), (P256, "p256", 1), seals=2),
    )
    odd = Line("a b/\u00e9")
    odd.declare("x y")
    odd.add("session.seal", signed(statement(odd), ALICE))
    odd.fork("t")
    odd.add("session.seal", signed(statement(odd), ALICE))
    suite.export(
        "seal-of-branch-and-fork",
        "names in the checkpoint are those of the line at that place",
        odd.events,
        args=args,
        line=says(2, 4, (ALICE, "ed25519", 2)),
    )
    line = sealed(ALICE)
    events = [event.withhold() if event.seq in (2, 3) else event for event in line.events]
    suite.export(
        "seal-over-withheld-events",
        "a seal holds when payloads are gone",
        events,
        args=alice,
        line={"signed_to": 4, "withheld": [[2, 3]]},
    )


def _merkle(suite: Suite) -> None:
    line = Line()
    while line.seq <= 40:
        line.add("session.seal", statement(line))
    suite.export("merkle-roots-1-to-40", "each event is a seal over all before it", line.events, line={"seals": 40})

    def doubled(leaves: Sequence[bytes]) -> bytes:
        """The last node is doubled where there is an odd one, as in other trees."""
        level = [sha256(b"\x00" + leaf).digest() for leaf in leaves]
        while len(level) > 1:
            level += level[-1:] if len(level) % 2 else []
            level = [sha256(b"\x01" + a + b).digest() for a, b in zip(level[::2], level[1::2], strict=True)]
        return level[0]

    def bare(leaves: Sequence[bytes]) -> bytes:
        """Leaves and nodes are not told apart."""
        if len(leaves) == 1:
            return sha256(leaves[0]).digest()
        at = 1 << ((len(leaves) - 1).bit_length() - 1)
        return sha256(bare(leaves[:at]) + bare(leaves[at:])).digest()

    powers = {1, 2, 4, 8, 16, 32}
    for name, wrong, right in (("doubled-nodes", doubled, powers), ("no-prefixes", bare, set[int]())):
        line = Line()
        found: list[Finding] = []
        while line.seq < 34:
            data = statement(line)
            top = wrong([bytes.fromhex(event.hash) for event in line.events])
            old = base64.b64encode(bytes.fromhex(data["root"])).decode()
            data["checkpoint"] = data["checkpoint"].replace(old, base64.b64encode(top).decode())
            line.add("session.seal", {**data, "root": top.hex()})
            found += [] if line.seq - 1 in right else [("bad-seal", line.seq)]
        suite.export(f"merkle-{name}", "roots of a tree that is built otherwise", line.events, found)


def _bad_seals(suite: Suite) -> None:
    good = statement(talk(4))
    check, top = good["checkpoint"], good["root"]
    b64 = base64.b64encode(bytes.fromhex(top)).decode()
    other = base64.b64encode(bytes(32)).decode()
    without = {name: {key: value for key, value in good.items() if key != name} for name in good}
    changed: Mapping[str, Any] = {
        "size-too-small": {**good, "size": 3},
        "size-too-large": {**good, "size": 5},
        "size-zero": {**good, "size": 0},
        "size-negative": {**good, "size": -4},
        "size-text": {**good, "size": "4"},
        "size-true": {**good, "size": True},
        "size-null": {**good, "size": None},
        "size-fraction": {**good, "size": Raw(b"4.5")},
        "statement-about-three": statement(talk(4), 3),
        "root-of-zeros": {**good, "root": "0" * 64},
        "root-of-zeros-in-both": {**good, "root": "0" * 64, "checkpoint": check.replace(b64, other)},
        "root-in-upper-case": {**good, "root": top.upper()},
        "root-in-base64": {**good, "root": b64},
        "root-too-short": {**good, "root": top[:-1]},
        "root-null": {**good, "root": None},
        "checkpoint-of-another-root": {**good, "checkpoint": check.replace(b64, other)},
        "checkpoint-of-another-session": {**good, "checkpoint": check.replace("/s/", "/t/")},
        "checkpoint-of-another-branch": {**good, "checkpoint": check.replace("/main", "/try")},
        "checkpoint-of-another-size": {**good, "checkpoint": check.replace("\n4\n", "\n5\n")},
        "checkpoint-of-another-origin": {**good, "checkpoint": check.replace("gitjournal", "example.org")},
        "checkpoint-without-newline": {**good, "checkpoint": check[:-1]},
        "checkpoint-with-a-line-more": {**good, "checkpoint": check + "extension\n"},
        "checkpoint-with-an-empty-line": {**good, "checkpoint": check + "\n"},
        "checkpoint-with-returns": {**good, "checkpoint": check.replace("\n", "\r\n")},
        "checkpoint-without-padding": {**good, "checkpoint": check.replace("=", "")},
        "checkpoint-in-base64url": {
            **good,
            "checkpoint": check.replace("/", "_").replace("gitjournal_s_", "gitjournal/s/").replace("+", "-"),
        },
        "checkpoint-with-leading-zero": {**good, "checkpoint": check.replace("\n4\n", "\n04\n")},
        "checkpoint-encoded-otherwise": {**good, "checkpoint": check.replace("/s/", "/%73/")},
        "checkpoint-empty": {**good, "checkpoint": ""},
        "checkpoint-null": {**good, "checkpoint": None},
        "signatures-null": {**good, "signatures": None},
        "signatures-object": {**good, "signatures": {}},
        "signatures-text": {**good, "signatures": ""},
        "signature-text": {**good, "signatures": ["x"]},
        "signature-null": {**good, "signatures": [None]},
        "signature-without-key": {**good, "signatures": [{"sshsig": "x"}]},
        "signature-without-sshsig": {**good, "signatures": [{"key": "x"}]},
        "signature-with-a-member-more": {**good, "signatures": [{"key": "x", "sshsig": "x", "z": 1}]},
        "signature-key-number": {**good, "signatures": [{"key": 5, "sshsig": "x"}]},
        "signature-sshsig-null": {**good, "signatures": [{"key": "x", "sshsig": None}]},
        "member-more": {**good, "witness": []},
        "empty": {},
        **{f"without-{name}": data for name, data in without.items()},
    }
    changed = {name: data for name, data in changed.items() if data != good}
    for name, data in changed.items():
        line = talk(4)
        line.add("session.seal", data)
        line.say("on")
        suite.export(
            f"seal-{name}",
            "a seal that does not agree with the events",
            line.events,
            [("bad-seal", 5)],
            line={"seals": 1, **says(0)},
        )
    for name in ("root-of-zeros-in-both", "size-too-large", "checkpoint-of-another-branch"):
        line = talk(4)
        line.add("session.seal", signed(changed[name], ALICE))
        about = "a wrong seal with a right signature, which nobody looks at"
        suite.export(f"seal-{name}-and-signed", about, line.events, [("bad-seal", 5)], line={"seals": 1, **says(0)})


def _replays(suite: Suite) -> None:
    args = ["--allowed-signers", "{vectors}/seals/alice.signers"]
    line = sealed(ALICE)
    seal = line[5]
    bad: list[Finding] = [("bad-seal", 5)]
    moved = relink([event.change(session="t") for event in line.events], 1)
    suite.export(
        "replayed-seal-from-another-session", "all events under another id, and the old seal", moved, bad, args=args
    )
    branch = talk(3)
    branch.declare("try")
    branch.add("session.seal", seal.members["data"])
    suite.export("replayed-seal-from-another-branch", "the seal of main on a branch", branch.events, bad, args=args)
    later = sealed(ALICE)
    later.add("session.seal", seal.members["data"])
    suite.export(
        "replayed-seal-at-another-seq",
        "the same seal once more",
        later.events,
        [("bad-seal", 6)],
        args=args,
        line=says(1, 4, (ALICE, "alice@example.org", 1), seals=2),
    )
    edit = relink(line.replaced(2, line[2].change(data={"edited": True})), 3)
    suite.export(
        "replayed-seal-over-an-edited-event", "event 2 is another one, and all is linked anew", edit, bad, args=args
    )
    unlinked = line.replaced(2, line[2].change(data={"edited": True}))
    suite.export(
        "edited-event-under-a-seal",
        "event 2 is another one",
        unlinked,
        [("broken-link", 3), ("bad-seal", 5)],
        args=args,
    )
    dropped = relink([*line.events[:2], *line.events[3:]], 3)
    suite.export(
        "dropped-event-under-a-seal", "event 3 is gone and all is linked anew", dropped, [("bad-seal", 4)], args=args
    )


def add(suite: Suite) -> None:
    """All cases of this file."""
    suite.folder = "seals"
    _good(suite)
    _merkle(suite)
    _bad_seals(suite)
    _replays(suite)
