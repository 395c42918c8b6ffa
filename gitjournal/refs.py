"""Names: sessions, branches, positions, and the git refs and file paths that stand for them.

Floor 0, pure. The only builder and parser of ref names and of names that people type
(docs/format.md section 7).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import unquote_to_bytes

from gitjournal.errors import UsageError

#: Where the branches of a journal are, and where a plain `git clone` puts them.
OWN_PREFIX = "refs/heads/"
CLONE_PREFIX = "refs/remotes/origin/"
TRUNK = "main"
#: Session id of the journal's own log.
JOURNAL_SESSION = "journal"

MAX_ID_BYTES = 200
# A path component is at most 255 bytes on common file systems; ".jsonl" and ".lock" are appended to it.
MAX_ENCODED = 240
_PLAIN = re.compile(rb"[A-Za-z0-9._-]")
_ITSELF = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]*", re.ASCII)
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_POSITION = re.compile(r"(?s)(.*)@([0-9]{1,8})")


@dataclass(frozen=True, slots=True, order=True)
class Name:
    """A branch of a session. ``str()`` is what people type: ``s`` for the trunk, else ``s/branch``."""

    session: str
    branch: str = TRUNK

    def __str__(self) -> str:
        return self.session if self.branch == TRUNK else f"{self.session}/{self.branch}"

    @property
    def path(self) -> str:
        """``<session>/<branch>``, percent-encoded: the ref without its prefix, and a relative file path."""
        return f"{encode(self.session)}/{encode(self.branch)}"


def check_id(text: str, what: str = "session id") -> str:
    """Return ``text`` if it may be an id (1..200 UTF-8 bytes, no control characters), else raise UsageError."""
    if type(text) is not str:
        raise UsageError(f"{what} is a {type(text).__name__}, not text")
    try:
        size = len(text.encode("utf-8"))
    except UnicodeEncodeError:
        raise UsageError(f"{what} {text!a} holds a lone surrogate") from None
    if not 1 <= size <= MAX_ID_BYTES:
        raise UsageError(f"{what} must be 1 to {MAX_ID_BYTES} bytes of UTF-8, this one has {size}")
    if _CONTROL.search(text):
        raise UsageError(f"{what} {text!a} holds a control character")
    if len(encode(text)) > MAX_ENCODED:
        raise UsageError(
            f"{what} {text!r} is {len(encode(text))} bytes long once percent-encoded; at most {MAX_ENCODED}"
        )
    return text


def encode(text: str) -> str:
    """Percent-encode an id as one component of a ref name. Round trip: ``decode(encode(x)) == x``."""
    if _ITSELF.fullmatch(text):
        return text
    raw = text.encode("utf-8")
    out = [chr(b) if _PLAIN.match(bytes([b])) else f"%{b:02X}" for b in raw]
    for i, byte in enumerate(raw):
        leading = i == 0 and byte in b".-"
        doubled = byte == 0x2E and i + 1 < len(raw) and raw[i + 1] == 0x2E
        trailing = byte == 0x2E and i == len(raw) - 1
        lock = byte == 0x2E and raw[i:] == b".lock"
        if leading or doubled or trailing or lock:
            out[i] = f"%{byte:02X}"
    return "".join(out)


def decode(component: str) -> str:
    """The id behind one component of a ref name. Raises UsageError for a form that `encode` never makes."""
    try:
        text = unquote_to_bytes(component).decode("utf-8")
    except UnicodeError:  # not only of the bytes: names of files come with lone surrogates for what is no UTF-8
        raise UsageError(f"ref component {component!a} is not percent-encoded UTF-8") from None
    if not text or encode(text) != component:
        raise UsageError(f"ref component {component!a} is not in the canonical encoding")
    return text


def ref_name(name: Name, prefix: str = OWN_PREFIX) -> str:
    """The full ref name of a branch, for example ``refs/heads/s1/main``."""
    return prefix + name.path


def parse_ref(ref: str, prefix: str = OWN_PREFIX) -> Name | None:
    """The branch that a ref stands for, or None when it is not a ref of ours."""
    parts = ref.removeprefix(prefix).split("/")
    if not ref.startswith(prefix) or len(parts) != 2:
        return None
    try:
        return Name(check_id(decode(parts[0])), check_id(decode(parts[1]), "branch name"))
    except UsageError:
        return None


def is_remote(text: str) -> bool:
    """Whether a remote can be called so: a name as an id is, but in refs as it stands."""
    try:
        return 1 <= len(text.encode("utf-8")) <= MAX_ID_BYTES and not _CONTROL.search(text)
    except UnicodeEncodeError:
        return False


def split_position(text: str) -> tuple[str, int | None]:
    """``"s/branch@40"`` to ``("s/branch", 40)``; without ``@<digits>`` at its end, ``(text, None)``."""
    match = _POSITION.fullmatch(text)
    return (match[1], int(match[2])) if match and match[1] else (text, None)


def readings(text: str) -> list[Name]:
    """All branches that ``text`` can mean: the whole as a session's trunk, then a split at each slash.

    A session id may hold slashes, so the caller picks the reading that exists. UsageError for what is no text.
    """
    if type(text) is not str:
        raise UsageError(f"a session or branch is named by a text or a Name, not a {type(text).__name__}")
    cuts = [i for i, char in enumerate(text) if char == "/" and 0 < i < len(text) - 1]
    return [Name(text), *(Name(text[:i], text[i + 1 :]) for i in reversed(cuts))]
