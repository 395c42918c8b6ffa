"""Where Claude Code looks for sessions: ``projects/<the project's path, encoded>/<session>.jsonl``."""

from __future__ import annotations

import re
import unicodedata
from array import array
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from gitjournal.errors import NotFound, UsageError
from gitjournal.formats.claude_beside import AGENTS, OUTPUTS, PLAIN
from gitjournal.formats.claude_parts import NAME
from gitjournal.formats.named import is_of_another
from gitjournal.formats.protocol import About
from gitjournal.formats.records import Record
from gitjournal.formats.restore import Placed, Placement, moved, new_uuid4, renamed, side_files
from gitjournal.formats.shapes import Members, members, text
from gitjournal.formats.splice import Changes
from gitjournal.journal import Journal
from gitjournal.refs import Name

_OTHER = re.compile(r"[^A-Za-z0-9-]")
# The program cuts longer names, and adds a hash.
_LONGEST = 200
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


class Claude(Placement):
    """A session with its sub-agents and the outputs that lie beside it."""

    format = NAME
    variable = "CLAUDE_CONFIG_DIR"
    default = "~/.claude"
    resume = "claude --resume"

    @property
    def _folder(self) -> Path:
        return self.root / "projects" / encoded(str(self.project))

    def taken(self, session: str) -> bool:
        """Whether any project has a session with this id."""
        return any((self.root / "projects").glob(f"*/{session}*"))

    def new_id(self) -> str:
        """See `Placement.new_id`."""
        return new_uuid4()

    def place(self, journal: Journal, name: Name, about: About, session: str) -> Iterator[Placed]:
        """See `Placement.place`."""
        if "parent" in about.start:
            parent = about.start["parent"]["session"]
            raise UsageError(f"{name} is a sub-agent of {parent}", hint=f"gj restore {parent} places it as well.")
        beside = self._folder / session
        seen: set[Path] = set()
        for agent, child in _agents(journal, about.session or ""):
            if not PLAIN.fullmatch(agent):
                self.left.append(agent)
                continue
            yield from self._outputs(journal, child, beside, f"agent-{agent}.meta.json", seen)
            yield Placed(beside / AGENTS / f"agent-{agent}.jsonl", records=child)
        yield from self._outputs(journal, name, beside, "", seen)
        yield Placed(self._folder / f"{session}.jsonl", records=name)

    def _outputs(self, journal: Journal, name: Name, beside: Path, meta: str, seen: set[Path]) -> Iterator[Placed]:
        """The files beside a transcript: each once, under a plain name."""
        for given, event, number in side_files(journal, name):
            path = beside / (AGENTS if given == meta else OUTPUTS) / given
            if not PLAIN.fullmatch(given):
                self.left.append(given)
            elif path not in seen:
                seen.add(path)
                yield Placed(path, content=event.read_file(number))

    def changes(self, former: str, session: str, old: str | None) -> Changes:
        """See `Placement.changes`."""
        return {
            ("cwd",): lambda value: moved(value, old, self.project),
            ("sessionId",): renamed(former, session),
            # Where these two say, the program goes on, wherever it was started.
            ("relocatedCwd",): lambda value: moved(value, old, self.project) or str(self.project),
            ("worktreeSession",): None,
        }

    def whence(self, record: Record, former: str) -> tuple[tuple[str, ...], Members] | None:
        """See `Placement.whence`. The program says it so in the records of a fork."""
        of = members(record.value)
        uuid = text(of, "uuid")
        if uuid is None or text(of, "cwd") is None or text(of, "sessionId") != former:
            return None
        return (), {} if "forkedFrom" in of else {"forkedFrom": {"sessionId": former, "messageUuid": uuid}}


def encoded(path: str) -> str:
    """A path as the name of the folder of its sessions. JavaScript counts characters beyond U+FFFF twice."""
    path = unicodedata.normalize("NFC", path)
    name = _OTHER.sub(lambda match: "-" * (1 + (match[0] > "\uffff")), path)
    return name if len(name) <= _LONGEST else f"{name[:_LONGEST]}-{_hashed(path)}"


def _hashed(path: str) -> str:
    """The program's hash of a path. Its versions differ in it; newer ones find the folder with any."""
    number = 0
    for unit in array("H", path.encode("utf-16")[2:]):
        number = (31 * number + unit) & 0xFFFF_FFFF
    number, digits = min(number, (1 << 32) - number), ""
    while number or not digits:
        number, digit = divmod(number, len(_DIGITS))
        digits = _DIGITS[digit] + digits
    return digits


def _agents(journal: Journal, session: str) -> Iterator[tuple[str, Name]]:
    """(id, branch) of each sub-agent of a session."""
    begin = f"{session}.agent-"
    for found in sorted({name.session for name in journal.sessions() if name.session.startswith(begin)}):
        if is_of_another(journal, NAME, found):
            continue
        plain = found.removesuffix(f".{NAME}")
        agent = (plain if is_of_another(journal, NAME, plain) else found).removeprefix(begin)
        with suppress(NotFound):
            yield agent, journal.resolve(Name(found))
