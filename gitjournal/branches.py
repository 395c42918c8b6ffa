"""Delete and rename a branch (docs/format.md section 8).

Floor 3. Nobody may be writing to the branch: its lease is held, and that of making branches, and its ref moves by
compare-and-swap. What is deleted is one ref; objects go when git collects what no ref reaches.

Where it can be cut, and what is then on disk:

1. before the ref is gone: the branch, with what was in its tail in git.
2. of a rename, before the old ref is gone: both, the new one with one event more. Renaming again finishes it.
3. after that: perhaps the branch's derived index and the file of its lease, which mean nothing without it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from gitjournal import erase, signing, sshsig
from gitjournal.chain import Appended, Chain
from gitjournal.errors import (
    AlreadyExists,
    ConflictError,
    JournalError,
    NotFound,
    Refused,
    UsageError,
    VerificationError,
    disk_errors,
)
from gitjournal.files import sync_folder
from gitjournal.lease import Lease
from gitjournal.lineage import Beginning, common, declaration
from gitjournal.refs import TRUNK, Name
from gitjournal.store import Store
from gitjournal.writer import Draft, start_branch

if TYPE_CHECKING:
    from gitjournal.flush import Sign
    from gitjournal.journal import Journal


class Kept(NamedTuple):
    """What is left of a branch without its own ref.

    ``to``: the events 1 to that one are on another branch, or in a remote's copy of this one. ``lost``: how many are
    not, apart from the ``session.branch`` that only said where the branch begins. ``tracking``: the refs of remotes'
    copies that have all of it.
    """

    to: int
    lost: int
    tracking: list[str]


class Gone(NamedTuple):
    """A branch that was deleted: its name, its newest event (None: it could not be read), and what is left of it."""

    name: Name
    head: Appended | None
    kept: Kept


class Renamed(NamedTuple):
    """A branch under its new name; ``head`` is the event that gives it. ``tracking``: refs that have the old one."""

    old: Name
    new: Name
    head: Appended
    tracking: list[str]


def kept_elsewhere(journal: Journal, name: Name, beginning: Beginning | None = None) -> Kept:
    """What would be left of a branch if its ref were gone. Looks at the other branches of the session first.

    Then at those that ``beginning`` names, each of which is read itself; without it at every session.
    """
    chain = journal.chain(name)
    head = chain.head()
    if head is None:
        raise NotFound(f"there is no branch {name}")
    tracking = {ref: _copied(journal, chain, ref, oid) for ref, oid in journal.store.tracking(name.path).items()}
    to = max(tracking.values(), default=0)
    for other in _others(journal, name, beginning):
        if to == head.seq:
            break
        to = max(to, shared(chain, journal.chain(other)))
    lost = sum(event.type != "session.branch" for event in chain.events(after=to))
    return Kept(to, lost, [ref for ref, seq in tracking.items() if seq == head.seq])


def _others(journal: Journal, name: Name, beginning: Beginning | None) -> Iterator[Name]:
    """The other branches that may have events of a branch, those of its session first."""
    yield from (one for one in journal.branches(name.session) if one != name)
    alike: Iterable[Name] = beginning({journal.chain(name).event(1).hash}) if beginning else journal.sessions()
    yield from (one for one in alike if one.session != name.session)


def shared(chain: Chain, other: Chain) -> int:
    """How many first events two branches have in common, 0 also when one of them cannot be read."""
    try:
        # Most branches of a journal are of other sessions, and nothing but their first event is looked at.
        return common(chain, other) if chain.event(1).hash == other.event(1).hash else 0
    except JournalError:
        # What cannot be read keeps nothing.
        return 0


def _copied(journal: Journal, chain: Chain, ref: str, oid: bytes) -> int:
    """How many first events of the branch a remote's copy of it has."""
    prefix = ref.removesuffix(chain.name.path)
    try:
        # The copy as a branch of its own: what it has beyond its ref is in no tail of ours.
        copy = Chain(Store(journal.path, prefix), chain.name)
        most = min(copy.read_commit(oid).seq, chain.snapshot().in_git)
        return most if copy.event(most).hash == chain.event(most).hash else common(copy, chain)
    except JournalError:
        return 0


def delete(journal: Journal, name: str | Name, *, force: bool = False, beginning: Beginning | None = None) -> Gone:
    """Delete a branch; its events stay on the branches that have them. ``beginning`` is as for `kept_elsewhere`.

    Raises Refused when it has events that no other ref has, unless ``force``; UsageError for the trunk, which
    goes with its session only; LeaseHeld when somebody writes to it; ConflictError, RefLocked, StorageError.
    """
    target = _no_trunk(journal, name, "deleted", "gj delete takes a session away, with all its branches.")
    if force and (gone := _unreadable(journal, target)):
        return gone
    with journal.creation_lock(), _held(journal, target) as (chain, oid, head):
        kept = _kept(journal, target, head, beginning, force=force)
        if kept.lost and not force:
            raise Refused(
                f"{target} has {_events(kept.lost)} that nothing else has, beyond event {kept.to}; not deleted",
                hint="Keep them in a file with gj export, or give --force.",
            )
        remove(chain, oid)
    return Gone(target, head, kept)


def _unreadable(journal: Journal, name: Name) -> Gone | None:
    """Delete a branch of which not even the newest event can be read; None, and nothing done, for any other."""
    chain = journal.chain(name)
    with journal.creation_lock():
        lease = Lease.acquire(chain.lease_path, str(name))
        try:
            chain.snapshot()
        except VerificationError:
            remove(chain, chain.store.read_ref(chain.ref))
            return Gone(name, None, Kept(0, 0, sorted(journal.store.tracking(name.path))))
        finally:
            lease.release()
    return None


def _kept(journal: Journal, name: Name, head: Appended, beginning: Beginning | None, *, force: bool) -> Kept:
    """`kept_elsewhere`; of a branch that is damaged, and goes by force, nothing is kept for certain."""
    try:
        return kept_elsewhere(journal, name, beginning)
    except VerificationError:
        if not force:
            raise
        return Kept(0, head.seq, [])


def rename(journal: Journal, name: str | Name, new: str) -> Renamed:
    """Give a branch another name: an event says so (a late ``session.branch``), and its ref moves. Hashes stay.

    Raises AlreadyExists when there is a branch of that name (unless it is what an earlier rename that was cut has
    left), UsageError for the trunk, and as `delete` does.
    """
    old = _no_trunk(journal, name, "renamed", "gj title gives a session a title.")
    target = Name(old.session, new)
    if new in (TRUNK, old.branch):
        raise UsageError(f"{old} cannot be renamed to {new!r}: that is the name of {Name(old.session, new)}")
    with journal.creating(target), _held(journal, old) as (chain, oid, head):
        child = journal.chain(target)
        said = declaration(chain)
        if said is None:
            raise Refused(f"{old} does not say where it begins", hint="gj verify says what is wrong with it.")
        data = {"branch": new, "from": said.stored_data["from"]}
        if child.exists():
            _check_cut(chain, child, head, data)
        else:
            start_branch(chain, head.seq, child, Draft("session.branch", data), sign=_sign(journal))
        # It says where the branch begins, and this one does not begin at the event that names it: let it be made anew.
        child.index.path.unlink(missing_ok=True)
        remove(chain, oid)
    return Renamed(old, target, journal.head(target), sorted(journal.store.tracking(old.path)))


def _events(number: int) -> str:
    return f"{number} event{'s' if number > 1 else ''}"


def _no_trunk(journal: Journal, name: str | Name, what: str, hint: str) -> Name:
    """The branch, if it is none that a session cannot be without. An erasure that was begun must find its branches."""
    journal.store.check_writable()
    found = journal.resolve(name)
    if found.branch == TRUNK:
        raise UsageError(f"{found} is the trunk of its session, which cannot be {what}", hint=hint)
    if erase.is_unfinished(journal):
        raise Refused("an erasure was begun and not finished", hint="Run gj erase again first.")
    return found


@contextmanager
def _held(journal: Journal, name: Name) -> Iterator[tuple[Chain, bytes, Appended]]:
    """The branch with its commit id and head, all of it in git, while nobody else can write to it."""
    journal.flush(name)
    chain = journal.chain(name)
    lease = Lease.acquire(chain.lease_path, str(name))
    try:
        view = chain.snapshot()
        if view.oid is None or view.commit is None or view.tail.events or view.tail.damage:
            raise ConflictError(f"{name} was written to meanwhile", hint="Try again.")
        yield chain, view.oid, Appended(view.commit.seq, view.commit.event_hash)
    finally:
        lease.release()


def remove(chain: Chain, oid: bytes | None) -> None:
    """Delete what a branch has in its tail, its ref if it is at ``oid`` (None: it has none), and its other files.

    The caller holds the branch's lease, and has all of it in git that is to be kept. ConflictError, RefLocked,
    StorageError.
    """
    with disk_errors(f"remove the tail of {chain.name}"):
        chain.tail_path.unlink(missing_ok=True)
        # Without its commit, a tail that came back would be a branch that nobody can read.
        if chain.tail_path.parent.is_dir():
            sync_folder(chain.tail_path.parent)
    if oid:
        chain.store.cas_ref(chain.ref, oid, None)
    with disk_errors(f"remove what was cut of {chain.name}"):
        chain.tail_path.with_suffix(".torn").unlink(missing_ok=True)
    chain.store.drop_keeps(f"gitjournal {chain.ref}\n")
    for path in (chain.index.path, chain.lease_path):
        # They mean nothing without the branch.
        with suppress(OSError):
            path.unlink(missing_ok=True)


def _check_cut(chain: Chain, child: Chain, head: Appended, data: dict[str, Any]) -> None:
    """AlreadyExists unless ``child`` is the branch with the event that renames it: a rename was cut there."""
    try:
        done = child.event(head.seq).hash == head.hash and child.event(head.seq + 1).stored_data == data
    except JournalError:
        done = False
    if not done:
        raise AlreadyExists(f"{child.name} exists already", hint=f"{chain.name} stays as it is.")


def _sign(journal: Journal) -> Sign | None:
    """How the commit of the new event is signed, in a journal that signs every one."""
    policy = signing.read(journal.store)
    signer = signing.signer(policy, os.environ) if policy.mode == "every" else None
    return (lambda _, commit: signer.sign(commit, sshsig.GIT)) if signer else None
