"""Keys, seals, proofs and pins: what lets somebody else check a journal, or one event of it.

Floor 6.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gitjournal.cli_base import App, journal_option, json_option, name_argument, pass_app, write_file
from gitjournal.cli_names import find, find_branch, position
from gitjournal.errors import JournalError, UsageError

if TYPE_CHECKING:
    from gitjournal.journal import Journal
    from gitjournal.keys import Signer
    from gitjournal.refs import Name
    from gitjournal.session import Session
    from gitjournal.signing import Policy
    from gitjournal.store import Store


# --- key -----------------------------------------------------------------------------------------


@click.command(short_help="Show or set the key that seals are signed with.")
@click.argument("key", metavar="[KEY]", required=False)
@click.option(
    "--new", is_flag=True, help="Make an Ed25519 key in the file KEY (by default one of gj's own) and use it."
)
@click.option("--sign", "mode", type=click.Choice(["every", "seal", "off"]), help="What is signed.")
@json_option
@journal_option
@pass_app
def key(app: App, key: str | None, new: bool, mode: str | None, as_json: bool) -> None:
    """Show or set what this journal signs, and with which key.

    KEY is an SSH key file (Ed25519, ECDSA or RSA; encrypted ones are asked for once), a .pub file whose key is in
    ssh-agent, or auto: the key that ssh would take. Once a key is set, sessions are sealed when they are closed
    (--sign seal); --sign every also signs each commit, --sign off nothing.

    The line that is printed goes into the file of allowed signers of those who check: gj verify --allowed-signers FILE.
    """
    from gitjournal import signing

    store = app.journal().store
    before = signing.Policy("off", signing.key(store)) if mode else signing.read(store)
    if key is None and not new and mode is None:
        _say_policy(app, before, as_json, _unasked(app, before))
        return
    wanted = _wanted(before, key, new, mode)
    signer = signing.signer(wanted, os.environ, _ask)
    signing.write(store, wanted)
    if as_json or signer is None:
        _say_policy(app, wanted, as_json, signer)
    else:
        app.note(f"{store.path} signs {_WHAT[wanted.mode]} with {signer.fingerprint}")
        app.say(_allowed_line(signer))


def _unasked(app: App, policy: Policy) -> Signer | None:
    """The key, if no passphrase is needed for it; else why there is none is said."""
    from gitjournal import signing

    try:
        return signing.signer(policy, os.environ)
    except JournalError as error:
        app.note(str(error))
        return None


_WHAT = {"every": "every commit", "seal": "seals", "off": "nothing"}


def _wanted(before: Policy, key: str | None, new: bool, mode: Any) -> Policy:
    import shlex

    from gitjournal import keys, signing

    if new:
        path = Path(key) if key else _own_key()
        if path.exists():
            raise UsageError(f"{path} is there already", hint=f"To use it: gj key {shlex.quote(str(path))}")
        keys.generate(path.absolute(), "gitjournal")
        return signing.Policy(mode or "seal", str(path.absolute()))
    if key is None:
        return before._replace(mode=mode, key=before.key or ("" if mode == "off" else "auto"))
    if key != "auto" and not key.startswith(("ssh-", "ecdsa-", "key::")):
        key = str(Path(key).expanduser().absolute())
    return signing.Policy(mode or (before.mode if before.mode != "off" else "seal"), key)


def _own_key() -> Path:
    import platformdirs

    return platformdirs.user_config_path("gitjournal") / "signing_key"


def _ask() -> str:
    return str(click.prompt("Passphrase of the key", hide_input=True, default="", show_default=False, err=True))


def _allowed_line(signer: Signer) -> str:
    import getpass
    import socket

    from gitjournal.render import printable

    return f"{printable(getpass.getuser())}@{printable(socket.gethostname())} {signer.line}"


def _say_policy(app: App, policy: Policy, as_json: bool, signer: Signer | None = None) -> None:
    from gitjournal.render import printable

    if as_json:
        told: dict[str, str | None] = {"sign": policy.mode, "key": policy.key or None, "fingerprint": None}
        if signer:
            told |= {"fingerprint": signer.fingerprint, "allowed_signer": _allowed_line(signer)}
        app.emit(told)
    elif policy.mode == "off":
        app.say("nothing is signed; gj key KEY sets a key")
    else:
        key = "the key that ssh would take" if policy.key == "auto" else printable(policy.key)
        app.say(f"signs {_WHAT[policy.mode]} with {key}{f', {signer.fingerprint}' if signer else ''}")
        if signer:
            app.say(_allowed_line(signer))


def for_one_append(journal: Journal) -> dict[str, Any]:
    """How a command opens a session: more of it is to come, so closing makes no seal. Commits are signed if all are."""
    signer = own_signer(journal.store, "every")
    return {"signer": signer, "sign": "every" if signer else "off", "closing_seal": False}


def own_signer(store: Store, mode: str | None = None) -> Signer | None:
    """The key of the journal; None when it signs nothing, or something else than ``mode`` says."""
    from gitjournal import signing

    policy = signing.read(store)
    return signing.signer(policy, os.environ, _ask) if mode in (None, policy.mode) else None


def opened(journal: Journal, name: Name) -> Session:
    """A branch open for what one command writes."""
    return journal.session(name, **for_one_append(journal))


# --- seal ----------------------------------------------------------------------------------------


@click.command(short_help="State, signed, what a session is up to here.")
@name_argument("NAME")
@json_option
@journal_option
@pass_app
def seal(app: App, name: str, as_json: bool) -> None:
    """Append a seal: a statement on all events of a branch so far, which others can check without the journal.

    Signed if the journal has a key (gj key). The seal is in git at once, and its commit is signed as well, so that
    stock git verify-commit knows it.
    """
    journal = app.journal()
    signer = own_signer(journal.store)
    branch = find_branch(journal, name, by="prefix")
    with journal.session(branch, signer=signer, sign=None if signer else "off") as session:
        done = session.seal()
    if as_json:
        app.emit({"seq": done.seq, "hash": done.hash, "key": signer.fingerprint if signer else None})
        return
    if signer is None:
        app.note("the seal is not signed: the journal has no key (gj key)")
    app.say(f"{done.seq} {done.hash}")


# --- prove ---------------------------------------------------------------------------------------


@click.command(short_help="Make a proof of one event, or of two seals.")
@name_argument("NAME[@SEQ]")
@click.option("--from", "first", type=click.IntRange(1), metavar="SEQ", help="With --to: the older of two seals.")
@click.option("--to", "second", type=click.IntRange(1), metavar="SEQ", help="The newer of two seals.")
@click.option("--withhold", is_flag=True, help="Only the event's header: prove that it is there, not what it says.")
@click.option("-o", "--output", metavar="FILE", help="Write to FILE; standard output by default.")
@journal_option
@pass_app
def prove(app: App, name: str, first: int | None, second: int | None, withhold: bool, output: str | None) -> None:
    """Make a proof that somebody can check who has nothing else: gj verify --proof FILE, or any of the verifiers.

    NAME@SEQ: that this event is the one under the newest seal. --from and --to, with the seqs of two seals: that
    nothing which the older one covers was changed in the newer one.
    """
    from gitjournal import proof

    journal = app.journal()
    if (first is None) != (second is None):
        raise UsageError("--from and --to go together: they are the seqs of two seals")
    if first is not None and second is not None:
        if withhold:
            raise UsageError("--withhold is for the proof of an event")
        made = proof.consistency(journal, find(journal, name).name, first, second)
    else:
        branch, seq = position(journal, name)
        made = proof.inclusion(journal, branch, seq, withheld=withhold)
    if output is None:
        app.write(made)
    else:
        write_file(Path(output), made)


# --- pin -----------------------------------------------------------------------------------------


@click.command(short_help="Note the heads of branches, to see later that nothing was cut off.")
@click.argument("names", metavar="[NAME]...", nargs=-1)
@click.option("-o", "--output", metavar="FILE", help="Write to FILE; standard output by default.")
@journal_option
@pass_app
def pin(app: App, names: tuple[str, ...], output: str | None) -> None:
    """Print seq and event hash of the newest event of each branch, one JSON object a line. All branches by default.

    Keep it where nobody can change it who can change the journal; gj verify --pin FILE compares.
    """
    from gitjournal import pins

    journal = app.journal()
    targets = [find(journal, name).name for name in names] or [*journal.sessions()]
    made = b"".join(pin.line for pin in pins.take(journal, targets))
    if output is None:
        app.write(made)
    else:
        write_file(Path(output), made)
