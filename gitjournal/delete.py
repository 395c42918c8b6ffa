"""Delete a session: its refs and tails go, a tombstone in the journal's own session stays (docs/format.md section 8).

Floor 3. Objects go when git collects what no ref reaches; branches of other sessions that share events keep them.

An intent is on disk before anything changes. Where it can be cut, and what is then on disk:

1. before the intent has its name: all as it was.
2. before the last ref is gone: the intent; perhaps the tombstone; some branches. The next run finishes it. The trunk
   goes last, and without it the session cannot begin anew: what is left would contradict it.
3. before the intent is gone: the same, without a branch left to remove.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, suppress
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from gitjournal import branches, canonical, erase, policy, refs, tail
from gitjournal.chain import Appended
from gitjournal.drafts import is_seq
from gitjournal.errors import (
    DamagedTail,
    FormatError,
    JournalError,
    NotFound,
    StorageError,
    UsageError,
    VerificationError,
    disk_errors,
)
from gitjournal.files import sync_folder, write_whole
from gitjournal.lease import Lease
from gitjournal.lineage import Beginning
from gitjournal.pins import is_hash
from gitjournal.refs import JOURNAL_SESSION, TRUNK, Name
from gitjournal.writer import Draft, Writer

if TYPE_CHECKING:
    from gitjournal.chain import Chain
    from gitjournal.journal import Journal

TOMBSTONE = "session.delete"
_COMMIT = re.compile("[0-9a-f]{40}")


class Stand(NamedTuple):
    """Where a branch is: its newest event, as far as it can be read, its commit, and what its tail holds.

    ``lost``: bytes of a damaged tail, and of writes that were cut. They are in no commit: nobody can bring them back.
    """

    head: Appended | None
    commit: str | None
    tail: str
    lost: int = 0

    @property
    def told(self) -> dict[str, Any]:
        """What the tombstone says of it."""
        head = {"seq": self.head.seq, "hash": self.head.hash} if self.head else {}
        return head | ({"commit": self.commit} if self.commit else {})


class Plan(NamedTuple):
    """What goes with a session, and what of it stays elsewhere.

    ``shared``: how many of its first events branches of other sessions have. ``tracking``: refs of remotes' copies.
    """

    session: str
    branches: Mapping[str, Stand]
    shared: Mapping[str, int]
    tracking: list[str]


class Deleted(NamedTuple):
    """What was deleted, and where the journal's own session says so. ``kept``: branches that were written to since."""

    plan: Plan
    tombstone: Appended
    kept: list[str]


def plan(journal: Journal, session: str, beginning: Beginning | None = None) -> Plan:
    """What deleting a session would take away. NotFound; UsageError for the journal's own log.

    Without ``beginning`` the first event of every session is read.
    """
    if session == JOURNAL_SESSION:
        raise UsageError("the journal's own log cannot be deleted")
    names = journal.branches(session)
    if not names:
        raise NotFound(f"there is no session {session!r} in {journal.path}", hint="gj sessions lists what is there.")
    tracking = [ref for name in names for ref in journal.store.tracking(name.path)]
    shared = dict(_shared(journal, session, names, beginning))
    return Plan(session, {name.branch: _stand(journal.chain(name)) for name in names}, shared, sorted(tracking))


def _stand(chain: Chain) -> Stand:
    oid = chain.store.read_ref(chain.ref)
    try:
        head = chain.head()
    except VerificationError:
        # A damaged branch can be deleted like any other.
        head = None
    return Stand(head, oid.hex() if oid else None, _tail(chain), _lost(chain))


def _tail(chain: Chain) -> str:
    """SHA-256 of what the tail holds, empty for nothing."""
    content = tail.read(chain.tail_path).strip(b"\n")
    return sha256(content).hexdigest() if content else ""


def _lost(chain: Chain) -> int:
    """Bytes of the branch that no flush can bring into git."""
    raw = tail.read(chain.tail_path)
    torn = chain.tail_path.with_suffix(".torn")
    try:
        found = chain.snapshot().tail
        fit = len(raw) if found.torn_at is None else found.torn_at
        beyond = 0 if found.damage else fit
    except VerificationError:
        beyond = 0
    with disk_errors(f"look at {torn}"):
        return len(raw[beyond:].strip(b"\n")) + (torn.stat().st_size if torn.exists() else 0)


def _shared(
    journal: Journal, session: str, names: list[Name], beginning: Beginning | None
) -> Iterator[tuple[str, int]]:
    """Branches of other sessions that have events of this one, and up to which."""
    chains = [journal.chain(name) for name in names]
    firsts = {_first(chain) for chain in chains} - {""}
    for other in sorted(beginning(firsts)) if beginning else journal.sessions():
        chain = journal.chain(other)
        if other.session != session and _first(chain) in firsts:
            yield str(other), max(branches.shared(one, chain) for one in chains)


def _first(chain: Chain) -> str:
    try:
        return chain.event(1).hash
    except JournalError:
        return ""


def delete(journal: Journal, session: str, reason: str | None = None, beginning: Beginning | None = None) -> Deleted:
    """Delete a session with all its branches; first finish a deletion that was cut. ``beginning`` is as for `plan`.

    Raises what `plan` does, LeaseHeld when somebody writes to one of them (nothing is changed then), RefLocked and
    StorageError (the next run goes on from there).
    """
    journal.store.check_writable()
    if erase.is_unfinished(journal):
        raise JournalError("an erasure was begun and not finished", hint="Finish it with: gj erase --finish")
    # Meanwhile no branch begins: one of this session would be left behind.
    with journal.creation_lock():
        cut = _finish(journal)
        if cut and cut.plan.session == session and not journal.branches(session):
            return cut
        planned = plan(journal, session, beginning)
        for branch in planned.branches:
            # All is in git then, and can be brought back by its commit id until git collects it.
            with suppress(DamagedTail):
                journal.flush(Name(session, branch))
        with _leases(journal, planned), journal.log() as log:
            stands = {branch: _stand(journal.chain(Name(session, branch))) for branch in planned.branches}
            planned = planned._replace(branches=stands)
            data = _tombstone(planned, policy.cleared(journal.store, reason) if reason else None)
            after = log.head.seq if log.head else 0
            with disk_errors("write down what is to be deleted"):
                write_whole(_intent(journal), _saved(planned, data, after))
            return _carry_out(journal, log, planned, data, after)


def _tombstone(planned: Plan, reason: str | None) -> dict[str, Any]:
    data: dict[str, Any] = {"session": planned.session}
    data["branches"] = {branch: stand.told for branch, stand in planned.branches.items()}
    return data | ({"reason": reason} if reason else {})


def is_unfinished(journal: Journal) -> bool:
    """Whether a deletion was begun and not finished."""
    return _intent(journal).exists()


def cut_session(journal: Journal) -> str | None:
    """The session whose deletion was begun and not finished. StorageError when the file of it is damaged."""
    try:
        return _loaded(_intent(journal).read_bytes())[0].session
    except FileNotFoundError:
        return None


def finish(journal: Journal) -> Deleted | None:
    """Finish a deletion that was cut; None when there is none. Raises what `delete` does."""
    if not is_unfinished(journal):
        return None
    journal.store.check_writable()
    with journal.creation_lock():
        return _finish(journal)


def _finish(journal: Journal) -> Deleted | None:
    try:
        raw = _intent(journal).read_bytes()
    except FileNotFoundError:
        return None
    planned, data, after = _loaded(raw)
    with _leases(journal, planned), journal.log() as log:
        return _carry_out(journal, log, planned, data, after)


def _leases(journal: Journal, planned: Plan) -> ExitStack:
    """The leases of all branches; none of them when one cannot be had. LeaseHeld."""
    with ExitStack() as held:
        for branch in planned.branches:
            name = Name(planned.session, branch)
            held.callback(Lease.acquire(journal.chain(name).lease_path, str(name)).release)
        return held.pop_all()


def _carry_out(journal: Journal, log: Writer, planned: Plan, data: Mapping[str, Any], after: int) -> Deleted:
    said = [event for event in log.chain.events(after=after) if event.type == TOMBSTONE and event.stored_data == data]
    tombstone = Appended(said[0].seq, said[0].hash) if said else log.append(Draft(TOMBSTONE, data))
    chains = {branch: journal.chain(Name(planned.session, branch)) for branch in planned.branches}
    last = sorted(planned.branches, key=lambda branch: branch == TRUNK)
    kept = [branch for branch in last if not _remove(chains[branch], planned.branches[branch])]
    if not kept:
        # Derived, also for branches that somebody else has removed.
        shutil.rmtree(journal.path / "gitjournal" / "index" / refs.encode(planned.session), ignore_errors=True)
    with disk_errors("finish the deletion"):
        sync_folder(journal.path / "refs" / "heads")
        _intent(journal).unlink(missing_ok=True)
    return Deleted(planned, tombstone, kept)


def _remove(chain: Chain, stand: Stand) -> bool:
    """Take a branch away, if it is where it was, or as far as an earlier run came; False when it was written to."""
    oid, content = chain.store.read_ref(chain.ref), _tail(chain)
    if (oid and oid.hex() != stand.commit) or content not in ("", stand.tail):
        return False
    branches.remove(chain, oid)
    for path in (chain.lease_path, chain.tail_path):
        # These folders hold files of other branches as well.
        with suppress(OSError):
            path.parent.rmdir()
    return True


# --- the intent ----------------------------------------------------------------------------------


def _intent(journal: Journal) -> Path:
    return journal.path / "gitjournal" / "delete.json"


def _saved(planned: Plan, data: Mapping[str, Any], after: int) -> bytes:
    tails = {branch: stand.tail for branch, stand in planned.branches.items()}
    lost = {branch: stand.lost for branch, stand in planned.branches.items()}
    about = {"shared": planned.shared, "tracking": planned.tracking, "tails": tails, "lost": lost}
    return canonical.dumps({"data": data, "after": after, **about})


def _loaded(raw: bytes) -> tuple[Plan, dict[str, Any], int]:
    """(what goes, what the tombstone says, the log's head before it). StorageError when the file is damaged."""
    try:
        found = canonical.loads(raw)
        data, after, tails, lost = found["data"], found["after"], found["tails"], found["lost"]
        stands = {
            refs.check_id(branch): _told(one, tails[branch], lost[branch]) for branch, one in data["branches"].items()
        }
        planned = Plan(refs.check_id(data["session"]), stands, dict(found["shared"]), list(found["tracking"]))
        reason = data.get("reason")
        # It is to be said in the journal's name: nothing that this module would not say.
        good = data == _tombstone(planned, reason) and type(reason) in (str, type(None))
        if not good or planned.session == JOURNAL_SESSION or type(after) is not int or after < 0:
            raise TypeError
        return planned, data, after
    except (FormatError, UsageError, TypeError, KeyError, AttributeError, ValueError):
        raise StorageError(
            "the file delete.json of a deletion that was cut is damaged, or not ours",
            hint="Remove gitjournal/delete.json in the journal, and delete again.",
        ) from None


def _told(one: Mapping[str, Any], content: str, lost: int) -> Stand:
    """The stand of a branch, of what the tombstone says. TypeError, KeyError."""
    commit = one.get("commit")
    head = Appended(one["seq"], one["hash"]) if "seq" in one else None
    if (head and not (is_seq(head.seq) and is_hash(head.hash))) or not (commit is None or _COMMIT.fullmatch(commit)):
        raise TypeError
    if type(lost) is not int or lost < 0:
        raise TypeError
    return Stand(head, commit, content, lost)
