"""What a journal redacts: its policy file, and the key of its marks (docs/secrets.md).

Floor 2. A journal's git config names the file (`gitjournal.policy`). It closes: while it is named and cannot be read,
or says what this version does not know, nothing is imported or recorded.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from gitjournal.errors import Refused, StorageError, UsageError, disk_errors
from gitjournal.files import make_once, open_regular, read_regular
from gitjournal.store import Store

if TYPE_CHECKING:
    from gitjournal.redact import Redactor

#: ``required``: always, and nobody may turn it off. ``on``: unless told not to. ``off``: when told to.
Wish = Literal["required", "on", "off"]
#: What is written: what other programs have written before, or what is recorded now.
What = Literal["import", "record"]

SETTING = "gitjournal.policy"
#: Stands for a setting that is not there; no value of a git config holds this character.
UNSET = "\0"
_WISHES: tuple[Wish, ...] = get_args(Wish)
_ALLOWED = re.compile(r"[a-z0-9][a-z0-9_.-]{0,63}")
_KEY_BYTES = 32


@dataclass(frozen=True, slots=True)
class Policy:
    """``imports`` and ``records`` say whether those are redacted, ``allow`` which rules and digests are let through.

    ``rules`` names a file of more rules, relative to the journal; empty for none.
    """

    imports: Wish = "off"
    records: Wish = "off"
    allow: frozenset[str] = frozenset()
    rules: str = ""


def read(store: Store) -> Policy:
    """The journal's policy; without a setting one that asks for nothing. Refused when it cannot be known."""
    # An empty one names no file that can be read: that somebody set it is enough.
    named = store.setting(SETTING, unset=UNSET)
    if named == UNSET:
        return Policy()
    with _closed(store, f"the policy {store.path / named}"):
        return parse(read_regular(store.path / named).decode("utf-8"))


@contextmanager
def _closed(store: Store, what: str) -> Iterator[None]:
    """Refused for whatever is wrong with a file in the block."""
    try:
        yield
    except OSError as error:
        why = error.strerror or str(error)
    except (UsageError, UnicodeDecodeError) as error:
        why = str(error)
    else:
        return
    hint = f"Nothing is written until it can. Mend it, or: git -C {store.path} config --unset {SETTING}"
    raise Refused(f"{what} cannot be used: {why}", hint=hint)


def _more(store: Store, policy: Policy) -> str:
    """The rules that the policy names a file of. Refused when they cannot be used."""
    from gitjournal import detect

    if not policy.rules:
        return ""
    with _closed(store, f"the rules {store.path / policy.rules}"):
        more = read_regular(store.path / policy.rules).decode("utf-8")
        detect.check(more)
    return more


def parse(text: str) -> Policy:
    """The text of a policy file, TOML. UsageError names the first thing that is not as it should be."""
    import tomllib

    try:
        data = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise UsageError(f"it is no TOML: {error}") from None
    for name in data:
        if name not in _MEMBERS:
            raise UsageError(f"there is no table [{name}]"[:80])
    tables = {name: _table(data, name) for name in _MEMBERS}
    allow, rules = tables["scan"].get("allow", []), tables["scan"].get("rules", "")
    if not isinstance(allow, list) or not all(isinstance(one, str) and _ALLOWED.fullmatch(one) for one in allow):
        raise UsageError("allow in [scan] is a list of names of rules and of digests")
    if not isinstance(rules, str) or "\0" in rules:
        raise UsageError("rules in [scan] is the name of a file")
    return Policy(_wish(tables, "import"), _wish(tables, "record"), frozenset(allow), rules)


_MEMBERS = {"import": {"redact"}, "record": {"redact"}, "scan": {"allow", "rules"}}


def _table(data: dict[str, Any], name: str) -> dict[str, Any]:
    table = data.get(name, {})
    if not isinstance(table, dict):
        raise UsageError(f"{name} is no table")
    if unknown := sorted(table.keys() - _MEMBERS[name]):
        raise UsageError(f"[{name}] has no {unknown[0]}"[:80])
    return table


def _wish(tables: dict[str, dict[str, Any]], name: str) -> Wish:
    wish: Wish = tables[name].get("redact", "off")
    if wish not in _WISHES:
        raise UsageError(f"redact in [{name}] is {wish!a:.40}, not one of {', '.join(_WISHES)}")
    return wish


def redactor_for(store: Store, wish: bool | None, what: What) -> Redactor | None:
    """What redacts an import or a recording; None when nothing is redacted.

    ``wish`` is what the caller says: yes, no, or nothing. Refused when he says no and the policy requires it, or when
    the policy cannot be known; `detect.Missing` when there is nothing to find secrets with.
    """
    policy = read(store)
    rule = policy.imports if what == "import" else policy.records
    if rule == "required" and wish is False:
        raise Refused(
            f"the policy {store.path / store.setting(SETTING)} requires that {_DOING[what]} are redacted",
            hint="Leave --no-redact out." if what == "import" else "Leave redact=False out.",
        )
    if not (rule != "off" if wish is None else wish):
        return None
    return redactor(store, policy)


def cleared(store: Store, text: str) -> str:
    """``text`` that is about to be recorded, without secrets where the policy wants it so. As `redactor_for`."""
    found = redactor_for(store, None, "record")
    return found.text(text)[0] if found is not None else text


_DOING = {"import": "imports", "record": "recordings"}


def redactor(store: Store, policy: Policy | None = None, *, keep: bool = True) -> Redactor:
    """What finds and replaces secrets in this journal. `detect.Missing`, Refused; StorageError.

    With ``keep=False`` nothing is written: while there is no key, one of this process's own stands in, and the digests
    mean nothing to the next.
    """
    from gitjournal import detect
    from gitjournal.redact import Redactor

    detect.version()
    policy = read(store) if policy is None else policy
    known = keep or os.path.lexists(key_path(store))
    return Redactor(key(store) if known else os.urandom(_KEY_BYTES), policy.allow, _more(store, policy))


def key_path(store: Store) -> Path:
    """Where the key of the marks is: beside what git keeps, so that no push or clone takes it along."""
    return store.path / "gitjournal" / "redaction.key"


def key(store: Store) -> bytes:
    """The journal's key, made when it is missing. UsageError when others can read it, StorageError."""
    path = key_path(store)
    with disk_errors(f"keep the key {path}"):
        if not path.exists():
            make_once(path, os.urandom(_KEY_BYTES).hex().encode() + b"\n")
        fd = open_regular(path, os.O_NOFOLLOW)
        with os.fdopen(fd, "rb") as file:
            mode = os.fstat(fd).st_mode & 0o777
            text = file.read(2 * _KEY_BYTES + 2)
    if mode & 0o077:
        raise UsageError(f"{path} is open to others (mode {mode:03o})", hint=f"chmod 600 {path}")
    with suppress(ValueError):
        if len(found := bytes.fromhex(text.decode("ascii"))) == _KEY_BYTES:
            return found
    raise StorageError(
        f"{path} is no key of {_KEY_BYTES} bytes in hex", hint="Bring it back from a backup, or remove it."
    )
