"""Rules of a whole line, as exports: links, numbers, sessions, branches, forks, side files, expected heads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .kit import Event, Line, Raw, relink, side_file, talk
from .suite import Suite

ZEROS = "0" * 64


def edited(event: Event) -> Event:
    """Another payload in the same event."""
    return event.change(data={"role": "user", "parts": [{"type": "text", "content": "I never said that"}]})


def _attacks(suite: Suite) -> None:
    line = talk(5)
    e = line.events
    suite.export("good", "five events", e)
    suite.export(
        "edited-event", "the payload of event 2 is another one", line.replaced(2, edited(e[1])), [("broken-link", 3)]
    )
    actor = line.replaced(2, e[1].change(actor="assistant"))
    suite.export("edited-header", "event 2 is said to be of somebody else", actor, [("broken-link", 3)])
    time = line.replaced(2, e[1].change(ts="2025-01-02T03:04:05.000Z"))
    suite.export("edited-time", "event 2 is said to be older", time, [("broken-link", 3)])
    saltless = line.replaced(2, e[1].change(salt=...))
    suite.export("edited-salt", "event 2 has lost its salt", saltless, [("broken-link", 3)])
    suite.export(
        "edited-prev",
        "event 3 names another hash",
        line.replaced(3, e[2].change(prev=ZEROS)),
        [("broken-link", 3), ("broken-link", 4)],
    )
    suite.export(
        "edited-last-event",
        "nothing comes after it that could tell: a good line, as long as nobody knows the head",
        line.replaced(5, edited(e[4])),
    )
    suite.export(
        "edited-event-and-all-after-it", "a line that agrees with itself", relink(line.replaced(2, edited(e[1])), 3)
    )
    swapped = [e[0], e[2], e[1], e[3], e[4]]
    found = [("bad-seq", 2), ("broken-link", 2), ("bad-seq", 3), ("broken-link", 3), ("broken-link", 4)]
    suite.export("swapped-events", "events 2 and 3 have changed places", swapped, found)
    numbered = [event.change(seq=n) for n, event in enumerate(swapped, 1)]
    found = [("broken-link", 2), ("broken-link", 3), ("broken-link", 4)]
    suite.export("swapped-and-renumbered", "they have each other's number as well", numbered, found)
    dropped = [e[0], e[1], e[3], e[4]]
    suite.export(
        "dropped-middle", "event 3 is not there", dropped, [("bad-seq", 3), ("broken-link", 3), ("bad-seq", 4)]
    )
    numbered = [event.change(seq=n) for n, event in enumerate(dropped, 1)]
    suite.export(
        "dropped-middle-renumbered", "and the rest counts on", numbered, [("broken-link", 3), ("broken-link", 4)]
    )
    suite.export(
        "dropped-middle-relinked", "and the rest is linked again: a line that agrees with itself", relink(dropped, 3)
    )
    found = [("bad-seq", 1), ("broken-link", 1), ("bad-seq", 2), ("bad-seq", 3), ("bad-seq", 4)]
    suite.export("dropped-first", "the line begins with event 2", e[1:], found)
    suite.export("dropped-tail", "a shorter line is a good line", e[:3])
    extra = Line()
    extra.events = e[:2]
    inserted = [e[0], e[1], extra.say("inserted"), *e[2:]]
    suite.export(
        "inserted-event",
        "an event between 2 and 3",
        inserted,
        [("bad-seq", 4), ("broken-link", 4), ("bad-seq", 5), ("bad-seq", 6)],
    )
    twice = [e[0], e[1], e[1], e[2]]
    suite.export(
        "duplicated-seq", "event 2 is there twice", twice, [("bad-seq", 3), ("broken-link", 3), ("bad-seq", 4)]
    )
    renumbered = line.replaced(3, e[2].change(seq=7))
    suite.export("renumbered", "event 3 says 7", renumbered, [("bad-seq", 3), ("broken-link", 4)])
    last = line.replaced(5, e[4].change(seq=99_999_999))
    suite.export("renumbered-to-the-highest", "the last event says 99999999", last, [("bad-seq", 5)])
    every = [event.change(seq=n + 1) for n, event in enumerate(e[1:], 2)]
    suite.export(
        "renumbered-all-by-one",
        "all but the first count one too far, and are linked so",
        [e[0], *_chained(e[0], every)],
        [("bad-seq", n) for n in range(2, 6)],
    )


def _chained(before: Event, events: Sequence[Event]) -> list[Event]:
    """Give each event the ``prev`` that it needs, and leave the numbers."""
    out = [before]
    for event in events:
        out.append(event.change(prev=out[-1].hash))
    return out[1:]


def _sessions(suite: Suite) -> None:
    line = talk(5)
    e = line.events
    other = [event.change(session="t") for event in e]
    suite.export(
        "transplanted", "all of it under another session id, linked again: no export can tell", relink(other, 1)
    )
    unlinked = [("broken-link", n) for n in range(2, 6)]
    suite.export("transplanted-unlinked", "all of it under another session id", other, unlinked)
    one = relink(line.replaced(3, e[2].change(session="t")), 3)
    suite.export("transplanted-event", "event 3 is of another session", one, [("bad-session", 3), ("bad-session", 4)])
    rest = relink([*e[:2], *other[2:]], 3)
    suite.export("transplanted-rest", "from event 3 on it is another session", rest, [("bad-session", 3)])
    falls = Line()
    falls.epoch = 3
    falls.say("a")
    falls.epoch = 2
    falls.say("b")
    falls.epoch = 3
    falls.say("c")
    falls.epoch = 2
    falls.say("d")
    suite.export(
        "falling-epoch", "a writer that was replaced writes on", falls.events, [("bad-epoch", 3), ("bad-epoch", 5)]
    )
    rises = Line()
    for rises.epoch in (1, 2, 2, 7, 2**53 - 1):
        rises.say("x")
    suite.export("rising-epoch", "writers come one after the other", rises.events)
    forged = talk(3)
    forged.epoch = 2**53 - 1
    forged.say("I am the last writer of all")
    forged.epoch = 1
    forged.say("as before")
    suite.export("forged-epoch", "an event claims the last of all epochs", forged.events, [("bad-epoch", 5)])


def _branches(suite: Suite) -> None:
    line = talk(3)
    line.declare("try")
    line.say("on the branch")
    suite.export("branch", "a branch from event 3", line.events)
    late = talk(5)
    late.declare("try", 2)
    suite.export("branch-declared-late", "a branch from event 2, declared at 6", late.events)
    twice = talk(3)
    twice.declare("a")
    twice.say("x")
    twice.declare("b")
    suite.export("branch-of-a-branch", "two branches, one from the other", twice.events)
    fork = talk(3)
    fork.fork("t")
    fork.say("in the new session")
    fork.declare("try")
    fork.fork("u")
    suite.export("fork", "two forks and a branch between them", fork.events)
    withheld = talk(4)
    withheld.declare("try", 3)
    events = withheld.replaced(3, withheld[3].withhold())
    suite.export("branch-from-a-withheld-event", "its hash is known all the same", events, line={"withheld": [[3, 3]]})
    origins: Mapping[str, Any] = {
        "from-itself": {"seq": 5},
        "from-the-future": {"seq": 6},
        "from-0": {"seq": 0},
        "from-minus-1": {"seq": -1},
        "from-far-away": {"seq": 99_999_999},
        "from-another-hash": {"hash": ZEROS},
        "from-the-hash-in-upper-case": {"hash": talk(4)[3].hash.upper()},
        "from-no-hash": {"hash": None},
        "from-a-hash-of-another-kind": {"hash": 5},
        "from-the-wrong-seq": {"seq": 2},
    }
    for name, change in origins.items():
        forged = talk(4)
        forged.add("session.branch", {"branch": "try", "from": {**forged.fork_point(3), **change}})
        forged.say("on")
        suite.export(f"branch-{name}", "the forged place where a branch begins", forged.events, [("bad-fork", 5)])
    shapes: Mapping[str, Any] = {
        "without-from": {"branch": "try"},
        "from-null": {"branch": "try", "from": None},
        "from-text": {"branch": "try", "from": "main"},
        "from-array": {"branch": "try", "from": [3]},
        "from-empty": {"branch": "try", "from": {}},
        "from-seq-text": {"branch": "try", "from": {"seq": "3", "hash": talk(4)[3].hash}},
        "from-seq-true": {"branch": "try", "from": {"seq": True, "hash": talk(4)[1].hash}},
        "from-seq-fraction": {"branch": "try", "from": {"seq": Raw(b"2.5"), "hash": talk(4)[3].hash}},
        "from-seq-null": {"branch": "try", "from": {"seq": None, "hash": talk(4)[3].hash}},
        "without-name": {"from": talk(4).fork_point(3)},
        "name-null": {"branch": None, "from": talk(4).fork_point(3)},
        "name-number": {"branch": 5, "from": talk(4).fork_point(3)},
        "name-empty": {"branch": "", "from": talk(4).fork_point(3)},
        "name-too-long": {"branch": "a" * 201, "from": talk(4).fork_point(3)},
        "name-too-long-in-67-characters": {"branch": "\u20ac" * 67, "from": talk(4).fork_point(3)},
        "name-with-newline": {"branch": "a\nb", "from": talk(4).fork_point(3)},
        "name-with-u0085": {"branch": "a\x85b", "from": talk(4).fork_point(3)},
        "of-nothing": {},
    }
    for name, data in shapes.items():
        forged = talk(4)
        forged.add("session.branch", data)
        suite.export(f"branch-{name}", "a branch in a form that says nothing", forged.events, [("bad-fork", 5)])
    free = talk(4)
    free.add("session.branch", {"branch": "a" * 200, "from": {"seq": 3, "hash": free[3].hash}, "why": "no reason"})
    suite.export(
        "branch-without-the-name-of-its-origin", "`from.branch` is for people; more members are free", free.events
    )
    start = Line()
    start.add("session.branch", {"branch": "try", "from": start.fork_point(1)})
    suite.export("branch-at-seq-2", "the earliest place for a branch", start.events)


def _forks(suite: Suite) -> None:
    good = talk(3)
    point = good.fork_point(3, session="s")
    changes: Mapping[str, tuple[str, Any]] = {
        "into-the-same-session": ("s", point),
        "from-another-seq": ("t", {**point, "seq": 2, "hash": good[2].hash}),
        "from-the-wrong-seq": ("t", {**point, "seq": 2}),
        "from-itself": ("t", {**point, "seq": 4}),
        "from-another-hash": ("t", {**point, "hash": ZEROS}),
        "from-another-session": ("t", {**point, "session": "u"}),
        "from-its-own-session": ("t", {**point, "session": "t"}),
        "from-a-session-of-another-kind": ("t", {**point, "session": 5}),
        "without-from": ("t", ...),
        "from-text": ("t", "s@3"),
        "from-seq-text": ("t", {**point, "seq": "3"}),
    }
    for name, (session, source) in changes.items():
        line = talk(3)
        line.session = session
        line.add("session.fork", {} if source is ... else {"from": source})
        line.say("on")
        suite.export(f"fork-{name}", "a forged fork", line.events, [("bad-fork", 4)])
    line = talk(3)
    line.session = "t"
    line.add("session.branch", {"branch": "try", "from": line.fork_point(3)})
    suite.export("branch-that-changes-the-session", "only a fork may do that", line.events, [("bad-session", 4)])
    line = talk(3)
    line.fork("t")
    line.session = "s"
    line.say("back in the old session")
    suite.export("fork-and-back", "the session returns without a fork", line.events, [("bad-session", 5)])


def _lost(suite: Suite) -> None:
    """What is said, and not said, around events that cannot be read."""
    line = talk(6)
    e = line.events
    broken = e[2].as_bytes(b"{}")
    suite.export(
        "lost-in-the-middle",
        "event 3 is no event: nobody knows its hash",
        line.replaced(3, broken),
        [("bad-version", 3)],
    )
    suite.export("lost-at-the-beginning", "event 1 is no event", line.replaced(1, broken), [("bad-version", 1)])
    events = line.replaced(6, broken)
    suite.export(
        "lost-at-the-end", "the head has no hash", events, [("bad-version", 6)], line={"head": {"hash": None, "seq": 6}}
    )
    suite.export("lost-all", "no line is an event", [broken] * 4, [("bad-version", n) for n in range(1, 5)])
    two = line.replaced(3, broken)
    two[4] = edited(two[4])
    suite.export(
        "lost-and-edited", "event 3 is lost and event 5 is edited", two, [("bad-version", 3), ("broken-link", 6)]
    )
    blank = b"".join(event.raw + b"\n\n" for event in e[:2])
    found = [("bad-json", 2), ("bad-seq", 3), ("bad-json", 4)]
    suite.export("empty-lines", "an empty line after each event", blank, found)
    crlf = b"".join(event.raw + b"\r\n" for event in e[:2])
    suite.export(
        "windows-line-ends", "a return before each newline", crlf, [("not-canonical", 1), ("not-canonical", 2)]
    )
    spaced = e[0].raw + b"\n " + e[1].raw + b"\n"
    suite.export("line-of-a-tail", "a space before the event, as in a tail", spaced, [("not-canonical", 2)])
    cut = b"".join(event.raw + b"\n" for event in e[:3])
    suite.export(
        "no-newline-at-the-end",
        "the last line is whole but for its newline",
        cut[:-1],
        [("truncated", 3)],
        line={"head": {"hash": None}},
    )
    suite.export("cut-in-an-event", "the last line is cut", cut[:-50], [("truncated", 3)])
    suite.export("cut-in-the-first-event", "nothing but a part of a line", cut[:20], [("truncated", 1)])
    suite.export("only-a-byte", "a byte that is no newline", b"{", [("truncated", 1)])
    branch = talk(5)
    branch.declare("try", 2)
    events = branch.replaced(2, broken)
    suite.export(
        "lost-origin-of-a-branch",
        "the event where the branch begins is lost: neither right nor wrong",
        events,
        [("bad-version", 2)],
    )
    fork = talk(3)
    fork.fork("t")
    suite.export(
        "lost-origin-of-a-fork", "the event before the fork is lost", fork.replaced(3, broken), [("bad-version", 3)]
    )
    whole = [broken, broken, broken, fork[4]]
    suite.export(
        "lost-all-before-a-fork",
        "nothing is known of the session before",
        whole,
        [("bad-version", n) for n in (1, 2, 3)],
    )
    wrong = [broken, broken, broken, fork[4].change(data={"from": {**fork[4].members["data"]["from"], "seq": 2}})]
    found = [("bad-version", 1), ("bad-version", 2), ("bad-version", 3), ("bad-fork", 4)]
    suite.export("lost-all-before-a-fork-from-elsewhere", "its seq is wrong whatever was there", wrong, found)
    seal = talk(3)
    seal.add("session.seal", {"size": 99})
    suite.export(
        "lost-event-before-a-seal",
        "the seal cannot be checked, and is counted",
        seal.replaced(2, broken),
        [("bad-version", 2)],
        line={"seals": 1},
    )


def _sides(suite: Suite) -> None:
    line = talk(4, files=(2, 3))
    e = line.events
    suite.export("side-files", "two events with a side file each", e, line={"side_files": 2})
    good = {"2.1": e[1].files[0], "3.1": e[2].files[0]}
    missing = [("missing-object", 2, e[1].hash)]
    wrong = [("bad-file", 2, e[1].hash)]
    suite.export(
        "side-file-missing",
        "the side file of event 2 is not there",
        e,
        missing,
        side={"3.1": good["3.1"]},
        line={"side_files": 1},
    )
    suite.export(
        "side-files-all-missing",
        "there is no folder for them",
        e,
        [*missing, ("missing-object", 3, e[2].hash)],
        side={},
    )
    swapped = {"2.1": good["3.1"], "3.1": good["2.1"]}
    suite.export(
        "side-files-swapped", "each has the other's content", e, [*wrong, ("bad-file", 3, e[2].hash)], side=swapped
    )
    for name, content in {
        "edited": b"s1de file of 2\n",
        "longer": good["2.1"] + b"\n",
        "shorter": good["2.1"][:-1],
        "empty": b"",
        "with-windows-line-ends": good["2.1"].replace(b"\n", b"\r\n"),
    }.items():
        suite.export(
            f"side-file-{name}", "the side file of event 2 is another one", e, wrong, side={**good, "2.1": content}
        )
    extra = {**good, "1.1": b"nobody names this", "2.2": b"nor this", "9.9": b"nor this", "x": b""}
    suite.export(
        "side-files-that-nobody-names", "more files lie beside the export", e, side=extra, line={"side_files": 2}
    )
    unlike = {name: {"links": {"{input}.files/2.1": "3.1"}} for name in ("another",)}
    unlike |= {
        "the-right-content": {"links": {"{input}.files/2.1": "right"}},
        "nothing": {"links": {"{input}.files/2.1": "/nonexistent"}},
        "the-random-device": {"links": {"{input}.files/2.1": "/dev/zero"}},
    }
    rest = {"3.1": good["3.1"]}
    for name, setup in unlike.items():
        side = {**rest, "right": good["2.1"]}
        suite.export(
            f"side-file-is-a-link-to-{name}",
            "no regular file: as if it was not there",
            e,
            missing,
            side=side,
            setup=setup,
        )
    suite.export(
        "side-file-is-a-pipe",
        "one that nobody writes to",
        e,
        missing,
        side=rest,
        setup={"pipes": ["{input}.files/2.1"]},
    )
    suite.export("side-file-is-a-folder", "a folder of that name", e, missing, side={**rest, "2.1/x": b""})
    two = Line()
    contents = [b"%d" % n for n in range(12)]
    two.add("message", {"n": 2}, files=contents)
    suite.export("side-files-12-of-one-event", "ten and more: .10 sorts before .2", two.events, line={"side_files": 12})
    empty = Line()
    empty.add("message", {"n": 2}, files=[b"", b""])
    suite.export("side-files-empty", "side files without content", empty.events, line={"side_files": 2})
    lie = Line()
    lie.add("message", {"n": 2}, files=[b"abc"])
    sized = lie[2].change(files=[side_file(b"abc", size=4)])
    suite.export(
        "side-file-size-lies", "the hash is right and the size is not", [lie[1], sized], [("bad-file", 2, sized.hash)]
    )
    hashed = lie[2].change(files=[side_file(b"abc", sha256=ZEROS)])
    suite.export(
        "side-file-hash-lies", "the size is right and the hash is not", [lie[1], hashed], [("bad-file", 2, hashed.hash)]
    )
    huge = lie[2].change(files=[side_file(b"abc", size=2**53 - 1)])
    suite.export("side-file-of-petabytes", "a size that nobody has", [lie[1], huge], [("bad-file", 2, huge.hash)])
    big = "a side file of 40 MiB"
    suite.generated(
        "side-file-big",
        big,
        "jsonl",
        generate=["big_side_file", 40 << 20],
        rss=600,
        verdict={"lines": [{"side_files": 1}]},
    )
    renumbered = [e[0], e[2], e[1], e[3]]
    found: list[tuple[Any, ...]] = [
        *[("bad-file", 2, e[2].hash), ("bad-seq", 2), ("broken-link", 2)],
        *[("bad-file", 3, e[1].hash), ("bad-seq", 3), ("broken-link", 3), ("broken-link", 4)],
    ]
    suite.export(
        "side-files-go-by-the-line", "swapped events; the files are looked for by place", renumbered, found, side=good
    )


def _withheld(suite: Suite) -> None:
    line = talk(8, files=(4,))
    events = list(line.events)
    for seq in (1, 3, 4, 5, 8):
        events[seq - 1] = events[seq - 1].withhold()
    ranges = {"withheld": [[1, 1], [3, 5], [8, 8]], "side_files": 0}
    unchecked = {"unchecked": [
        "commits, trees and refs: an export has none",
        "whether newer events were cut off: no head was expected",
        "who wrote the events: nothing is signed",
        "the payloads of withheld events: 5",
    ]}  # fmt: skip
    suite.export("withheld", "five events without their payload", events, line=ranges, verdict=unchecked)
    whole = [event.withhold() for event in line.events]
    suite.export("withheld-all", "headers only", whole, line={"withheld": [[1, 8]]})
    other = line.replaced(2, edited(line[2]).withhold())
    suite.export(
        "withheld-and-edited",
        "the payload that is withheld is another one",
        other,
        [("broken-link", 3)],
        line={"withheld": [[2, 2]]},
    )
    left = line.replaced(4, line[4].withhold())
    suite.export(
        "withheld-and-its-side-file-left",
        "nobody names it any more",
        left,
        side={"4.1": line[4].files[0]},
        line={"side_files": 0},
    )


def _expected(suite: Suite) -> None:
    line = talk(5)
    e = line.events
    lost = line.replaced(3, e[2].as_bytes(b"[]"))
    last, anew = line.replaced(5, edited(e[4])), relink(line.replaced(2, edited(e[1])), 3)
    unread = [("bad-json", 3), ("rollback", 3, e[2].hash)]
    cases: Sequence[tuple[str, str, Sequence[Event], int, str, list[tuple[Any, ...]]]] = (
        ("good", "the head is the one that was kept", e, 5, e[4].hash, []),
        ("good-and-longer", "the line has grown since", e, 3, e[2].hash, []),
        ("dropped-tail", "events 4 and 5 were cut off", e[:3], 5, e[4].hash, [("truncated", 3, e[4].hash)]),
        ("dropped-all-but-one", "only the first is left", e[:1], 5, e[4].hash, [("truncated", 1, e[4].hash)]),
        ("edited-last-event", "the last event is another one", last, 5, e[4].hash, [("rollback", 5, e[4].hash)]),
        ("relinked", "all from event 2 on is written anew", anew, 4, e[3].hash, [("rollback", 4, e[3].hash)]),
        ("withheld", "a withheld event has the hash that it had", line.replaced(4, e[3].withhold()), 4, e[3].hash, []),
        ("lost", "the event is there and cannot be read", lost, 3, e[2].hash, unread),
        ("of-another-seq", "the hash of event 2 at 3", e, 3, e[1].hash, [("rollback", 3, e[1].hash)]),
        ("far-away", "the highest seq", e, 99_999_999, ZEROS, [("truncated", 5, ZEROS)]),
    )
    for name, about, events, seq, head, found in cases:
        args = ["--expect-seq", str(seq), "--expect-head", head]
        suite.export(f"expect-{name}", about, events, found, args=args, line={"head": {"seq": len(events)}})
    args = ["--expect-head", e[4].hash, "--expect-seq", "5"]
    unchecked = ["commits, trees and refs: an export has none", "who wrote the events: nothing is signed"]
    suite.export("expect-in-the-other-order", "options in any order", e, args=args, verdict={"unchecked": unchecked})


def add(suite: Suite) -> None:
    """All cases of this file."""
    suite.folder = "lines"
    _attacks(suite)
    _sessions(suite)
    _branches(suite)
    _forks(suite)
    _lost(suite)
    _sides(suite)
    _withheld(suite)
    _expected(suite)
