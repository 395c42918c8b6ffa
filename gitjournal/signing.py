"""What a journal signs, and with which key: two settings in its git config (docs/verification.md section 9).

Floor 2. A clone does not take them along: whoever writes to it says anew what to sign with.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple, get_args

from gitjournal.errors import JournalError, UsageError
from gitjournal.store import Store

if TYPE_CHECKING:
    from gitjournal.keys import Agent, Ask, Signer

#: ``every``: each commit, and a seal when a session is closed. ``seal``: seals and their commits. ``off``: nothing.
Mode = Literal["every", "seal", "off"]
MODES: tuple[Mode, ...] = get_args(Mode)

_MODE, _KEY = "gitjournal.sign", "gitjournal.signingkey"


class Policy(NamedTuple):
    """``key`` is the path of a key file, a public key that ssh-agent holds the private half of, or ``auto``."""

    mode: Mode = "off"
    key: str = ""


def read(store: Store) -> Policy:
    """What is set. UsageError for a mode that there is not."""
    key = store.setting(_KEY)
    mode = store.setting(_MODE) or ("seal" if key else "off")
    if mode not in MODES:
        raise UsageError(f"{_MODE} is {mode!r}, not one of {', '.join(MODES)}", hint="Set it with: gj key --sign MODE")
    if mode != "off" and not key:
        # A journal from elsewhere must not decide that a key of ours signs.
        raise UsageError(f"{_MODE} is {mode}, and no key is set", hint="Set one with: gj key KEY")
    return Policy(mode, key)


def key(store: Store) -> str:
    """The key that is set, whatever is signed with it; empty when there is none."""
    return store.setting(_KEY)


def write(store: Store, policy: Policy) -> None:
    """Set both. StorageError."""
    store.set_settings({_MODE: policy.mode, _KEY: policy.key})


def agent(environ: Mapping[str, str]) -> Agent | None:
    """The ssh-agent of this environment."""
    from gitjournal.keys import Agent

    path = environ.get("SSH_AUTH_SOCK")
    return Agent(path) if path else None


def signer(policy: Policy, environ: Mapping[str, str], ask: Ask | None = None) -> Signer | None:
    """The key that the policy names, ready to sign; None when nothing is signed.

    ``ask`` gives the passphrase of an encrypted key. The errors of `keys.find`, with the setting named.
    """
    if policy.mode == "off":
        return None
    # Most journals sign nothing, and every command would pay for it.
    from gitjournal.keys import find

    try:
        return find(None if policy.key == "auto" else policy.key, Path.home(), ask, agent(environ))
    except JournalError as error:
        error.hint = f"{error.hint} To sign nothing: gj key --sign off".strip()
        raise
