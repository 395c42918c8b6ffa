"""A journal in less space: gc.

Floor 6.
"""

from __future__ import annotations

import click

from gitjournal.cli_base import App, journal_option, json_option, pass_app
from gitjournal.cli_progress import shown
from gitjournal.errors import StorageError

#: Seconds after which it says how far it is.
_QUIET = 0.5


@click.command(short_help="Pack the journal tighter; nothing is removed from it.")
@json_option
@journal_option
@pass_app
def gc(app: App, as_json: bool) -> None:
    """Write the journal's packs anew as one, in which what is alike is deflated together.

    It takes about half of the space that it takes after git gc, which does not know what is like what. No object is
    left out, not even one that nothing leads to: git gc does that. Sessions can be recorded meanwhile, and what they
    write is in packs of its own. Refs are packed into one file, and the index is written without gaps. It takes about
    a second for each thousand events, and reading an event here and there takes a little longer afterwards.
    """
    from gitjournal import index

    journal = app.journal()
    journal.store.check_writable()
    with shown(_QUIET) as progress:

        def show(done: int, count: int) -> None:
            progress(f"packing, {done:,} of {count:,} objects")

        saved = journal.store.repack(show)
    try:
        journal.store.pack_refs()
    except StorageError as error:
        # A ref that is written at this moment: the next run packs it.
        app.note(str(error))
    index.compact(journal)
    if saved is None:
        app.note("there is nothing to pack, or another process packs it")
        before = after = objects = 0
    else:
        before, after, objects = saved
    if as_json:
        app.emit({"before": before, "after": after, "objects": objects})
    elif saved is not None:
        share = 100 * after // before if before else 100
        app.say(f"{objects:,} objects: {before:,} bytes before, {after:,} after ({share} %)")
