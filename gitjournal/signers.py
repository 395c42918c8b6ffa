"""Whose signatures count: files of allowed signers and of revoked keys (docs/verification.md section 9).

Floor 0, pure. The files are those of `ssh-keygen -Y` and git. What is different is on the safe side: times are always
UTC, and a line that cannot be read is an error and not passed over.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import NamedTuple

from gitjournal import rules
from gitjournal.errors import UsageError
from gitjournal.sshsig import read_key

_BLANKS = " \t"
_BLANK = re.compile(r"[ \t]")
# The second field of a line may hold blanks within quotes.
_FIELD = re.compile(r'(?:[^ \t"]|"[^"]*")+')
_OPTION = re.compile(r'([^ \t,="]+)(?:="([^"]*)")?(,|\Z)')
#: The options that are known here.
_VALUED = {"namespaces", "valid-after", "valid-before"}
_TIME = re.compile(r"([0-9]{4})([0-9]{2})([0-9]{2})(?:([0-9]{2})([0-9]{2})([0-9]{2})?)?Z?")


class Accepted(NamedTuple):
    """Why a signature counts: the line of the file that says so, and its first field.

    ``ends``: the line has an end, so the answer hangs on a time that is the signer's own word.
    """

    line: int
    principals: str
    ends: bool


class _Namespaces:
    """A list of patterns, as OpenSSH reads it: one matches, and none that begins with ``!`` does."""

    def __init__(self, text: str) -> None:
        patterns = text.split(",")
        self._yes = [one for one in patterns if not one.startswith("!")]
        self._no = [one[1:] for one in patterns if one.startswith("!")]

    def __contains__(self, namespace: str) -> bool:
        return any(_matches(one, namespace) for one in self._yes) and not any(
            _matches(one, namespace) for one in self._no
        )


class _Line(NamedTuple):
    number: int
    principals: str
    # None, here and below: the line has no such option.
    namespaces: _Namespaces | None = None
    after: int | None = None
    before: int | None = None

    def accepts(self, namespace: str, time: int) -> bool:
        if self.after is not None and time < self.after:
            return False
        if self.before is not None and time >= self.before:
            return False
        return self.namespaces is None or namespace in self.namespaces


class AllowedSigners:
    """The keys whose signatures count, and for what and when. ``len()`` is the number of lines that say so."""

    def __init__(self, lines: dict[bytes, list[_Line]], revoked: Collection[bytes] = ()) -> None:
        self._lines = lines
        self._revoked = revoked

    @classmethod
    def parse(cls, text: bytes | str, revoked: Collection[bytes] = ()) -> AllowedSigners:
        """Read a file of allowed signers. UsageError, with the number of the line, for one that cannot be read.

        ``revoked`` has public key blobs that are never accepted (`revoked_keys`).
        """
        lines: dict[bytes, list[_Line]] = {}
        for number, line in _lines(text, "allowed signers"):
            try:
                key, entry = _parse_line(number, line)
            except ValueError as error:
                raise UsageError(f"allowed signers, line {number}: {error}") from None
            if entry:
                lines.setdefault(key, []).append(entry)
        return cls(lines, revoked)

    def accepts(self, key: bytes, namespace: str, time: int) -> Accepted | None:
        """The first line that accepts a right signature by a public key blob, made at ``time`` (Unix seconds)."""
        if key in self._revoked:
            return None
        for line in self._lines.get(key, ()):
            if line.accepts(namespace, time):
                return Accepted(line.number, line.principals, line.before is not None)
        return None

    def __len__(self) -> int:
        return sum(map(len, self._lines.values()))


def revoked_keys(text: bytes | str) -> frozenset[bytes]:
    """The public key blobs in a file with lines ``keytype base64 [comment]``. UsageError for any other line."""
    keys = set()
    for number, line in _lines(text, "revoked keys"):
        found = read_key(line)
        if found is None:
            raise UsageError(f"revoked keys, line {number}: not '<type> <base64> [comment]'")
        keys.add(found[0])
    return frozenset(keys)


def _lines(text: bytes | str, what: str) -> Iterator[tuple[int, str]]:
    """The lines that mean something, with their numbers, without blanks around them."""
    if isinstance(text, bytes):
        try:
            text = text.decode()
        except UnicodeDecodeError:
            raise UsageError(f"{what}: not a text file in UTF-8") from None
    # Not splitlines(), which knows more ends of a line than the other programs that read these files.
    for number, line in enumerate(text.split("\n"), 1):
        line = line.removesuffix("\r").strip(_BLANKS)
        if line and not line.startswith("#"):
            yield number, line


def _parse_line(number: int, line: str) -> tuple[bytes, _Line | None]:
    """The key of a line, and what it accepts, if it accepts anything. ValueError when it cannot be read."""
    principals = _BLANK.split(line, maxsplit=1)[0]
    rest = line[len(principals) :].strip(_BLANKS)
    if found := read_key(rest):
        return found[0], _Line(number, principals)
    # The second field is no type of the key in the third one, so it must be the options.
    match = _FIELD.match(rest)
    if match is None or rest[match.end() : match.end() + 1] not in _BLANKS:
        raise ValueError("not '<principals> [options] <type> <base64> [comment]'")
    found = read_key(rest[match.end() :].strip(_BLANKS))
    if found is None:
        raise ValueError("no key, or one that is not of the type before it")
    options = _options(match[0])
    after, before = (_time(options[name]) if name in options else None for name in ("valid-after", "valid-before"))
    namespaces = _Namespaces(options["namespaces"]) if "namespaces" in options else None
    # Any other option is a certificate authority, or a condition that is not known here: such a line accepts nothing.
    known = options.keys() <= _VALUED
    return found[0], _Line(number, principals, namespaces, after, before) if known else None


def _options(text: str) -> dict[str, str]:
    """The options by their names. ValueError when they cannot be read."""
    out: dict[str, str] = {}
    at, more = 0, True
    while more:
        match = _OPTION.match(text, at)
        if match is None:
            raise ValueError('options are name or name="value", with commas between them')
        name, value = match[1].lower(), match[2]
        if name in _VALUED and (value is None or name in out):
            raise ValueError(f"{name} must be there once, with a value")
        out[name] = value or ""
        at, more = match.end(), match[3] == ","
    return out


def _time(text: str) -> int:
    """Unix seconds of ``YYYYMMDD[HHMM[SS]][Z]``, in UTC. ValueError for a moment that does not exist."""
    match = _TIME.fullmatch(text)
    if match is not None:
        year, month, day, hour, minute, second = (part or "00" for part in match.groups())
        ts = f"{year}-{month}-{day}T{hour}:{minute}:{second}.000Z"
        if rules.is_time(ts):
            return rules.unix_seconds(ts)
    raise ValueError(f"{text!a} is no time YYYYMMDD, YYYYMMDDHHMM or YYYYMMDDHHMMSS from 1970 on")


def _matches(pattern: str, text: str) -> bool:
    """``*`` and ``?``. Only the last ``*`` is tried again, so that no pattern takes long, as it may as a regex."""
    at, place, star, star_at = 0, 0, -1, 0
    while at < len(text):
        if pattern[place : place + 1] == "*":
            star, star_at, place = place, at, place + 1
        elif pattern[place : place + 1] in ("?", text[at]):
            at, place = at + 1, place + 1
        elif star >= 0:
            star_at += 1
            at, place = star_at, star + 1
        else:
            return False
    return not pattern[place:].strip("*")
