"""Witnesses: cosign the seals of others, and have one's own cosigned.

Floor 6.
"""

from __future__ import annotations

import os
from pathlib import Path

import click

from gitjournal.cli_base import App, journal_option, name_argument, pass_app, read_file, write_file
from gitjournal.cli_names import find_branch


@click.group(short_help="Cosign seals for others, or have yours cosigned.", invoke_without_command=True)
@journal_option
@click.pass_context
def witness(ctx: click.Context) -> None:
    """Cosign seals for others (gj witness serve), or have yours cosigned (gj witness ask).

    A witness says of a seal that it goes on from all seals of that branch that it has seen before. Who keeps what it
    says, and believes it, finds out when a branch is cut or rewritten: gj verify --cosigned FILE --witnesses FILE.
    """
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


@witness.command(short_help="Run a witness.")
@click.option("--state", metavar="DIR", required=True, help="Where it keeps what it has seen; never to be lost.")
@click.option("--key", metavar="KEYFILE", required=True, help="The SSH key that it cosigns with, and nothing else.")
@click.option("--allowed-signers", metavar="FILE", required=True, help="Whose seals it cosigns; read once.")
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="0, the default, is any that is free.")
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen at.")
@pass_app
def serve(app: App, state: str, key: str, allowed_signers: str, port: int, host: str) -> None:
    """Run a witness until Ctrl-C. Its URL is printed when it is ready.

    It cosigns a seal that an allowed signer has signed and that comes with a proof of going on from the last one. Two
    seals that contradict each other are kept in DIR/evidence. It speaks HTTP without encryption: what it says is
    signed, and it is told names, sizes and hashes. For other machines, put it behind what you have for that.
    """
    from gitjournal import keys, signing
    from gitjournal.cosign import NAMESPACE
    from gitjournal.signers import AllowedSigners
    from gitjournal.witness import Witness
    from gitjournal.witness_http import Service

    signer = keys.load(Path(key), agent=signing.agent(os.environ))
    signers = AllowedSigners.parse(read_file(allowed_signers))
    with Service(Witness(Path(state), signer, signers), host, port, app.note) as service:
        app.note(f'who believes this witness has the line: witness namespaces="{NAMESPACE}" {signer.line}')
        app.say(service.url)
        app.out.flush()
        service.serve_forever()


@witness.command(short_help="Have the newest seal of a branch cosigned.")
@click.argument("url")
@name_argument("NAME")
@click.option("-o", "--output", metavar="FILE", help="Write to FILE; standard output by default.")
@journal_option
@pass_app
def ask(app: App, url: str, name: str, output: str | None) -> None:
    """Have the newest seal of a branch cosigned by the witness at URL, and print the cosignature: one line of JSON.
    NAME is its whole name, without a position.

    Fails when the witness has seen more events of the branch than there are here, or others. Keep the line where
    nobody can change it who can change the journal; a file may have many.
    """
    from gitjournal.witness import ask as cosignature
    from gitjournal.witness_http import sender

    send = sender(url)
    journal = app.journal()
    made = cosignature(journal, find_branch(journal, name, by="whole"), send).line
    if output is None:
        app.write(made)
    else:
        write_file(Path(output), made)
