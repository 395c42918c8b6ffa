"""Data for the benchmarks: events and transcripts as a coding agent makes them, the same for the same seed.

Sizes and compressibility follow real Claude Code transcripts, because they decide the size ratio: a record of 500 to
2,000 bytes deflates to 0.44 to 0.60 of its size there. Text is prose with identifiers, tool results show lines of files
that are read again and again, ids and hashes are random.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import accumulate, islice
from pathlib import Path
from typing import Any

#: What `Session.append_many` takes: type, data, actor.
Draft = tuple[str, dict[str, Any], str]
Record = dict[str, Any]

_TEXT = """
the to a of is in and it that for this with not on be as we when but from so the one now are an by which if at has
have will only there then all was no first still test file line error value before after function call should does
because same name new read each list path change check where what can return would two call other use more need string
makes run without code between both since order result key next look given case time set message branch event
default type wrong empty missing write old here right fails passes add also why how second keep last data parse
session commit index number might already found config import class method argument caller module cache server
client request response header token timeout retry lock thread queue worker process signal handler stream buffer
socket query row column table schema migration transaction rollback index cursor database record field model view
template render route middleware cookie login permission user group role admin audit log level metric trace span
sample rate limit window bucket counter gauge histogram percentile median average total sum count minimum maximum
bound range slice offset length size byte character encoding unicode escape quote newline whitespace indent format
printer parser lexer grammar node tree leaf root parent child sibling edge graph path cycle visit walk depth breadth
sort merge split join filter map reduce fold zip iterate generator iterator closure decorator wrapper adapter proxy
factory builder visitor observer listener callback promise future await async sync block yield resume cancel abort
exception traceback assertion failure warning notice debug verbose silent strict lenient valid invalid legal illegal
expected actual difference equal unequal greater smaller newer older stale fresh dirty clean public private internal
external local remote upstream downstream release version tag build compile link bundle package install upgrade pin
dependency license readme changelog document comment docstring example tutorial guide reference rename move copy delete
create update insert replace append prepend truncate flush sync close open connect disconnect attach detach mount
unmount load save store fetch pull push clone fork rebase squash amend revert cherry stash bisect blame diff patch
rounding currency invoice account balance payment refund customer product price discount tax shipping warehouse stock
supplier delivery address postcode country language locale timezone calendar schedule reminder deadline holiday
weekday month quarter report summary chart export archive backup restore snapshot replica shard partition leader
follower quorum election heartbeat lease epoch fence checkpoint journal segment compaction tombstone bloom sparse
dense vector matrix scalar gradient weight bias layer batch loss accuracy recall precision threshold baseline
experiment variant control cohort funnel retention churn revenue forecast estimate variance deviation outlier noise
smooth interpolate extrapolate normalise quantise clamp saturate overflow underflow carry borrow shift mask toggle
"""
_WORDS = _TEXT.split()
_WEIGHTS = list(accumulate(1 / (rank + 8) for rank in range(len(_WORDS))))
_CODE = (
    "def {a}_{b}(self, {c}: int) -> str:",
    "    if self._{a} is None or {b} > {n}:",
    "        raise {A}Error(f\"{a} {{{b}}} is not a {c}\")",
    "    {a} = {b}.get(\"{c}\", {n})",
    "    for {a} in self.{b}_{c}():",
    "        {a}.append({b}[{n}:])",
    "    return [{a}.{b} for {a} in {c}s if {a}.{d}]",
    "class {A}{B}({C}):",
    "    assert {a}_{b}({n}) == {c}[{m}]",
    "from {a}.{b} import {A}, {c}_{d}",
    "    # {a} the {b} {c}, else {d} is {e}",
    "    with {a}.{b}(timeout={n}) as {c}:",
    "        {a}[\"{b}\"] += {c} * {n} // {m}",
    "",
    "    logger.info(\"{a} %s took %d ms for {b}\", {c}, {d})",
)  # fmt: skip
_TOOLS = ("Read", "Bash", "Grep", "Edit", "Write")
_FOLDERS = ("src", "src/core", "src/api/v2", "tests", "tests/unit", "lib/storage", "docs", "scripts", "web/components")
# How often a file is read or a test run again with nearly the same result: what git can make deltas of.
_AGAIN = 0.2
_START = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)


class World:
    """One project and the agent that works on it: where all texts of a session come from."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.files = {self._path(): [self.code() for _ in range(self.rng.randint(40, 400))] for _ in range(300)}
        self.paths = list(self.files)
        self.tokens = 4000
        self.recent: list[str] = []

    def words(self, count: int) -> list[str]:
        """Words, frequent ones more often."""
        return self.rng.choices(_WORDS, cum_weights=_WEIGHTS, k=count)

    def hex(self, digits: int) -> str:
        """A random hexadecimal number."""
        return f"{self.rng.getrandbits(4 * digits):0{digits}x}"

    def _path(self) -> str:
        return f"/home/dev/shop/{self.rng.choice(_FOLDERS)}/{'_'.join(self.words(2))}.py"

    def path(self) -> str:
        """A file of the project."""
        return self.rng.choice(self.paths)

    def code(self) -> str:
        """One line of source."""
        a, b, c, d, e = self.words(5)
        numbers = {"n": self.rng.randint(0, 9999), "m": self.rng.randint(2, 64)}
        names = {"a": a, "b": b, "c": c, "d": d, "e": e, "A": a.title(), "B": b.title(), "C": c.title()}
        return self.rng.choice(_CODE).format(**names, **numbers)

    def sentence(self) -> str:
        """A sentence, now and then with a file, an identifier or a commit in it."""
        words = self.words(self.rng.randint(6, 18))
        dice = self.rng.random()
        if dice < 0.15:
            words.append(f"`{self.path()[20:]}:{self.rng.randint(1, 400)}`")
        elif dice < 0.35:
            words[3] = f"`{'_'.join(self.words(2))}()`"
        elif dice < 0.40:
            words.append(self.hex(10))
        elif dice < 0.45:
            words.insert(4, self.rng.choice("→✓—≥é"))
        return f"{words[0].capitalize()} {' '.join(words[1:])}."

    def prose(self, size: int) -> str:
        """About ``size`` characters of sentences, in paragraphs."""
        parts: list[str] = []
        length = 0
        while length < size:
            parts.append(self.sentence())
            length += len(parts[-1]) + 1
            parts.append("\n\n" if self.rng.random() < 0.15 else " ")
        return "".join(parts[:-1])

    def listing(self, size: int) -> str:
        """About ``size`` characters of a file, with line numbers, as a Read tool shows them."""
        lines = self.files[self.path()]
        first = at = self.rng.randrange(len(lines))
        out: list[str] = []
        length = 0
        while length < size:
            out.append(f"{at + 1:6}\t{lines[at % len(lines)]}")
            length += len(out[-1]) + 1
            at += 1
        return "\n".join(out) if at > first else ""

    def output(self, size: int) -> str:
        """About ``size`` characters of what a tool gives back: often what it gave a moment ago, but for a few lines."""
        if self.recent and self.rng.random() < _AGAIN:
            lines = self.rng.choice(self.recent).split("\n")
            lines[self.rng.randrange(len(lines))] = self.code()
            text = "\n".join(lines)
        else:
            text = self.listing(size) if self.rng.random() < 0.6 else self.verdicts(size)
        self.recent = [*self.recent[-7:], text]
        return text

    def verdicts(self, size: int) -> str:
        """About ``size`` characters of a test run."""
        out: list[str] = []
        length = 0
        while length < size:
            name = f"{self.path()[20:]}::test_{'_'.join(self.words(2))}"
            out.append(f"{name} {'PASSED' if self.rng.random() < 0.9 else 'FAILED'} [{self.rng.randint(0, 100):3}%]")
            length += len(out[-1]) + 1
        return "\n".join(out)

    def arguments(self, tool: str, size: int) -> dict[str, Any]:
        """What a tool is called with."""
        if tool == "Read":
            return {"file_path": self.path(), "offset": self.rng.randint(1, 300), "limit": 80, "why": self.prose(size)}
        if tool == "Edit":
            old = "\n".join(self.code() for _ in range(4))
            return {"file_path": self.path(), "old_string": old, "new_string": old + "\n" + self.code()}
        if tool == "Write":
            return {"file_path": self.path(), "content": "\n".join(self.code() for _ in range(size // 40))}
        command = f"cd /home/dev/shop && grep -n '{self.words(1)[0]}' {self.path()} | head -{size}"
        return {"command": command, "description": self.prose(size), "timeout": 120000}

    def size(self, low: int, high: int) -> int:
        """A size between the two; the smaller the more likely."""
        return int(low + (high - low) * self.rng.random() ** 2)

    def counters(self) -> tuple[int, int, int]:
        """Tokens of one response: (input that was cached before, new input, output)."""
        new, output = self.rng.randint(50, 3000), self.rng.randint(20, 900)
        before = self.tokens
        self.tokens = before + new if before < 180_000 else 4000
        return before, new, output


def drafts(count: int, seed: int = 1) -> Iterator[Draft]:
    """``count`` events of about 1,024 canonical bytes on average (400 to 3,500), in the order of a session."""
    return islice(_drafts(World(seed)), count)


def _drafts(world: World) -> Iterator[Draft]:
    while True:
        text = {"type": "text", "content": world.prose(world.size(200, 1500))}
        yield "message", {"role": "user", "parts": [text]}, "user"
        for _ in range(world.rng.randint(2, 9)):
            yield from _turn(world)


def _turn(world: World) -> Iterator[Draft]:
    tool, call = world.rng.choice(_TOOLS), f"toolu_{world.hex(24)}"
    before, new, output = world.counters()
    parts = [
        {"type": "reasoning", "content": world.prose(world.size(60, 500))},
        {"type": "text", "content": world.prose(world.size(60, 600))},
    ]
    usage = {
        "gen_ai.usage.input_tokens": before + new,
        "gen_ai.usage.output_tokens": output,
        "gen_ai.usage.cache_read.input_tokens": before,
    }
    response = {"response.id": f"msg_{world.hex(24)}", "response.model": "claude-sonnet-4-5", "parts": parts}
    yield "model.response", {**response, "finish_reason": "tool_call", "usage": usage}, "assistant"
    arguments = world.arguments(tool, world.size(60, 400))
    yield "tool.call", {"id": call, "name": tool, "arguments": arguments}, "assistant"
    result = {"id": call, "response": world.output(world.size(200, 2600)), "is_error": world.rng.random() < 0.1}
    yield "tool.result", result, f"tool:{tool}"


def members(count: int, seed: int = 1) -> list[dict[str, Any]]:
    """Whole events as dicts, as they look in a journal; ``prev`` is random, so they are no chain."""
    world = World(seed + 1000)
    return [
        {
            "v": 1,
            "session": "bench",
            "seq": seq,
            "prev": world.hex(64),
            "epoch": 1,
            "ts": _time(seq),
            "type": kind,
            "actor": actor,
            "data": data,
            "salt": f"{world.hex(21)}A",
        }
        for seq, (kind, data, actor) in enumerate(drafts(count, seed), 2)
    ]


def _time(number: int) -> str:
    moment = _START + timedelta(milliseconds=1370 * number)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def transcript(path: Path, size: int, seed: int = 1) -> int:
    """Write a Claude Code transcript of about ``size`` bytes; the number of its records."""
    number = written = 0
    with path.open("wb") as file:
        for record in _records(World(seed)):
            line = json.dumps(record, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
            file.write(line)
            number += 1
            written += len(line)
            if written >= size:
                return number
    return number


def _records(world: World) -> Iterator[Record]:
    session, parent = f"{world.hex(8)}-bench-4000-8000-{world.hex(12)}", None
    for number, (kind, own) in enumerate(_messages(world)):
        uuid = f"{world.hex(8)}-{world.hex(4)}-4{world.hex(3)}-8{world.hex(3)}-{world.hex(12)}"
        yield {
            "parentUuid": parent,
            "isSidechain": False,
            "userType": "external",
            "cwd": "/home/dev/shop",
            "sessionId": session,
            "version": "2.1.170",
            "gitBranch": "main",
            "type": kind,
            **own,
            "uuid": uuid,
            "timestamp": _time(number),
        }
        parent = uuid


def _messages(world: World) -> Iterator[tuple[str, Record]]:
    """Type and own members of one record after the other."""
    while True:
        yield "user", {"message": {"role": "user", "content": world.prose(world.size(100, 2000))}}
        for _ in range(world.rng.randint(3, 15)):
            yield from _exchange(world)


def _exchange(world: World) -> Iterator[tuple[str, Record]]:
    tool, call = world.rng.choice(_TOOLS), f"toolu_{world.hex(24)}"
    before, new, output = world.counters()
    blocks = [
        {"type": "text", "text": world.prose(world.size(60, 800))},
        {"type": "tool_use", "id": call, "name": tool, "input": world.arguments(tool, world.size(60, 600))},
    ]
    usage = {"input_tokens": new, "cache_read_input_tokens": before, "output_tokens": output}
    head = {"model": "claude-sonnet-4-5", "id": f"msg_{world.hex(24)}", "type": "message", "role": "assistant"}
    yield "assistant", {"message": {**head, "content": blocks, "stop_reason": "tool_use", "usage": usage}}
    # Tool results are what makes transcripts big: a few are very long.
    text = world.output(world.size(200, 4000) if world.rng.random() < 0.97 else world.size(4000, 120_000))
    if tool == "Bash":
        yield from _progress(world, call, text)
    result = {"tool_use_id": call, "type": "tool_result", "content": text}
    message = {"role": "user", "content": [result]}
    yield "user", {"message": message, "toolUseResult": {"stdout": text, "interrupted": False}}


def _progress(world: World, call: str, text: str) -> Iterator[tuple[str, Record]]:
    """While a command runs, each second one record with the end of its output so far."""
    for second in range(world.size(0, 8)):
        seen = {"type": "bash_progress", "output": text[:600], "elapsedTimeSeconds": second}
        yield "progress", {"toolUseID": f"bash-progress-{second}", "parentToolUseID": call, "data": seen}
