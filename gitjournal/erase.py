"""Erase payloads for good: events stay in the chain as headers, what they said is gone (docs/format.md section 3).

Floor 3. Event hashes, and so seals and proofs, stay as they are. Commits change from the first erased event on, on
every branch that has it, and old objects are removed. An intent is on disk before anything changes: whatever was cut
is finished by the next run.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias
from urllib.parse import urlsplit

from gitjournal import canonical, git, objects, policy, refs, rules, signing, sshsig
from gitjournal.errors import FormatError, NotFound, StorageError, UsageError, VerificationError, disk_errors
from gitjournal.event import Event
from gitjournal.files import write_whole
from gitjournal.flush import Packing, Pending
from gitjournal.lease import Lease, locked
from gitjournal.verify import verify
from gitjournal.walk import Pages
from gitjournal.writer import Draft, Writer

if TYPE_CHECKING:
    from gitjournal.chain import Chain
    from gitjournal.journal import Journal
    from gitjournal.keys import Signer
    from gitjournal.refs import Name

ERASURE = "session.erasure"
#: Types whose payload is what the chain is made of.
_STRUCTURE = {*rules.STRUCTURE, ERASURE}
#: Events in one pack of the rewriting.
_BATCH = 4096
_ID = re.compile("[0-9a-f]{40}")
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._/-]*")


#: Is told, in one line of printable characters, how far a long work is.
Say: TypeAlias = Callable[[str], object]


#: Takes what is gone out of an index of words, and says why it cannot (`gitjournal.index.forget`).
Forget: TypeAlias = "Callable[[Journal], str]"


def silent(_: str) -> None:
    """Whoever wants to know nothing."""


def _no_index(_: Journal) -> str:
    return ""


def _count(number: int, name: Name) -> str:
    return f"{number:,} events of {str(name)!a}"


class Plan(NamedTuple):
    """What an erasure would change."""

    name: Name
    seqs: list[int]
    reason: str
    #: seqs to erase, by branch: each branch that shares an event loses its payload too.
    branches: Mapping[Name, list[int]]
    #: Those that no branch has the payload of any more.
    done: list[int]
    #: Those without a salt: whoever can guess the payload can confirm it from the hash that stays.
    guessable: list[int]
    #: Git ids (hex) of the objects that hold the payloads: of the events, and of their side files.
    blobs: list[str]
    files: list[str]
    #: Where the refs are now, hex by ref: the branches, and what is known of them at remotes.
    heads: Mapping[str, str]
    tracking: Mapping[str, str]


class Remote(NamedTuple):
    """A repository that this one was pushed to or fetched from, and may hold the old objects."""

    name: str
    url: str
    command: str


class Erased(NamedTuple):
    """What an erasure has changed, and what it could not."""

    plan: Plan
    #: Commits that were signed: signed again, and not (no key, or another one).
    resigned: int
    unsigned: int
    #: Ids of old objects that are still in the repository.
    left: list[str]
    remotes: list[Remote]
    #: Why the index may still hold what was said; empty: it does not.
    indexed: str


def plan(journal: Journal, name: str | Name, seqs: Sequence[int], reason: str) -> Plan:
    """What erasing events ``seqs`` of a branch would change. NotFound, UsageError for events that must stay whole."""
    target = journal.resolve(name)
    if target.session == refs.JOURNAL_SESSION:
        raise UsageError("the journal's own log says what the journal is: nothing is erased in it")
    events = _wanted(journal, target, seqs)
    if not events or not reason.strip():
        raise UsageError("an erasure has events and a reason")
    whole = {one: _shared(journal.chain(one), events) for one in [target, *journal.sessions()]}
    branches = {one: sorted(found) for one, found in whole.items() if found}
    full = {seq: event for found in whole.values() for seq, event in found.items()}
    blobs, files = set[str](), set[str]()
    for one in branches:
        blobs.update(objects.git_id(b"blob", event.raw).hex() for event in whole[one].values())
        files.update(_side_files(journal.chain(one), branches[one]))
    return Plan(
        name=target,
        seqs=sorted(events),
        reason=policy.cleared(journal.store, reason),
        branches=branches,
        done=sorted(events.keys() - full.keys()),
        guessable=sorted(seq for seq, event in full.items() if "salt" not in event.members),
        blobs=sorted(blobs),
        files=sorted(files - blobs),
        heads={ref: oid.hex() for one in branches if (oid := journal.store.read_ref(ref := journal.chain(one).ref))},
        tracking=_tracking(journal, branches),
    )


def _wanted(journal: Journal, target: Name, seqs: Sequence[int]) -> dict[int, Event]:
    chain = journal.chain(target)
    head = journal.head(target).seq
    events: dict[int, Event] = {}
    for seq in sorted(set(seqs)):
        if not 1 <= seq <= head:
            raise NotFound(f"{target} has no event {seq}", hint=f"Its newest event is {target}@{head}.")
        events[seq] = chain.event(seq)
        if events[seq].type in _STRUCTURE:
            raise UsageError(f"event {seq} is a {events[seq].type}: the chain cannot be read without its payload")
    return events


def _shared(chain: Chain, events: Mapping[int, Event]) -> dict[int, Event]:
    """Those of the events that a branch has with their payloads, whether the branch that was named still has them."""
    head = chain.head()
    found: dict[int, Event] = {}
    for seq, event in sorted(events.items()):
        if head is None or seq > head.seq:
            break
        there = chain.event(seq)
        # Branches part once: after the first difference nothing is shared.
        if there.hash != event.hash:
            break
        if not there.withheld:
            found[seq] = there
    return found


def _side_files(chain: Chain, seqs: list[int]) -> list[str]:
    """Ids of the side files of events; those have their place in git only."""
    oid = chain.store.read_ref(chain.ref)
    if oid is None:
        return []
    commit = chain.read_commit(oid)
    pages = Pages(chain.store, commit.tree)
    return [one.hex() for seq in seqs if seq <= commit.seq for one in pages.page(_first(seq))[seq][1]]


def _first(seq: int) -> int:
    return seq // objects.LEAF_SPAN * objects.LEAF_SPAN


def _tracking(journal: Journal, names: Iterable[Name]) -> dict[str, str]:
    """The refs under which git remembers what remotes have of these branches: they lead to the payloads as well."""
    paths = {name.path for name in names}
    listed = _git(journal, "for-each-ref", "--format=%(refname) %(objectname)", "refs/remotes").splitlines()
    found = dict(line.split(" ") for line in listed)
    return {ref: oid for ref, oid in found.items() if "/".join(ref.split("/")[-2:]) in paths}


def erase(
    journal: Journal,
    name: str | Name,
    seqs: Sequence[int],
    reason: str,
    signer: Signer | None = None,
    *,
    forget: Forget = _no_index,
    say: Say = silent,
) -> Erased:
    """Erase the payloads of events ``seqs``, on every branch that has them; first finish an erasure that was cut.

    ``signer`` signs those commits again that it had signed; ``forget`` is `gitjournal.index.forget`, for a journal that
    may have an index; ``say`` is told how far it is. Raises what `plan` does,
    LeaseHeld when somebody writes to the journal, and FormatError when one of the branches is not intact: then nothing
    is changed.
    """
    journal.store.check_writable()
    # Meanwhile no branch begins: it could take an event along that is about to go.
    with journal.creation_lock():
        cut = _finish(journal, signer, forget, say)
        planned = plan(journal, name, seqs, reason)
        if not planned.branches:
            return cut or Erased(planned, 0, 0, [], [], forget(journal))
        return _carry_out(journal, planned, signer, forget, say)


def finish(
    journal: Journal, signer: Signer | None = None, *, forget: Forget = _no_index, say: Say = silent
) -> Erased | None:
    """Finish an erasure that was cut; None when there is none. Arguments and errors are those of `erase`."""
    if not is_unfinished(journal):
        return None
    journal.store.check_writable()
    with journal.creation_lock():
        return _finish(journal, signer, forget, say)


def is_unfinished(journal: Journal) -> bool:
    """Whether an erasure was begun and not finished."""
    return _intent(journal).exists()


def _finish(journal: Journal, signer: Signer | None, forget: Forget, say: Say) -> Erased | None:
    try:
        raw = _intent(journal).read_bytes()
    except FileNotFoundError:
        return None
    # Whoever can write to the folder can have put it there: it says what was asked for, and all else is found anew.
    before = _loaded(raw)
    try:
        now = plan(journal, before.name, before.seqs, before.reason)
    except (NotFound, UsageError) as error:
        raise _bad_intent(str(error)) from None
    blobs, files = sorted({*before.blobs, *now.blobs}), sorted({*before.files, *now.files})
    heads, tracking = {**now.heads, **before.heads}, {**now.tracking, **before.tracking}
    known = now._replace(blobs=blobs, files=files, heads=heads, tracking=tracking)
    return _carry_out(journal, known, signer, forget, say)


def _intent(journal: Journal) -> Path:
    return journal.path / "gitjournal" / "erase.json"


def _carry_out(journal: Journal, planned: Plan, signer: Signer | None, forget: Forget, say: Say) -> Erased:
    signed = _Signatures(signer)
    every = signing.read(journal.store).mode == "every"
    with ExitStack() as held:
        # All branches: a writer elsewhere may find that an object is there, and not write it, just before it goes.
        for name in {*journal.sessions()} - planned.branches.keys():
            held.callback(Lease.acquire(journal.chain(name).lease_path, str(name)).release)
        writers = {
            name: held.enter_context(Writer(journal.chain(name), signer=signer, sign_every=every))
            for name in planned.branches
        }
        _check_intact(journal, planned, say)
        # Before anything changes: an erasure that was begun must not be forgotten.
        with disk_errors(f"write {_intent(journal)}"):
            write_whole(_intent(journal), _saved(planned))
        for name, writer in writers.items():
            # Also what is only in the tail goes to git first: there is one way to take a payload away.
            writer.flush()
            _record(journal.chain(name), writer, planned.branches[name], planned.reason)
        for name in writers:
            _rewrite(journal.chain(name), set(planned.branches[name]), signed, say)
            journal.store.drop_keeps(_note(journal.chain(name)))
            # A write that was cut and set aside may hold what is to go.
            with disk_errors("remove a cut write that was set aside"):
                journal.chain(name).tail_path.with_suffix(".torn").unlink(missing_ok=True)
        for ref, oid in planned.tracking.items():
            if journal.store.read_ref(ref) == bytes.fromhex(oid):
                journal.store.cas_ref(ref, bytes.fromhex(oid), None)
        say("removing the old objects")
        _remove_old(journal)
    journal.store.refresh()
    left = _left(journal, planned)
    # Before the intent goes: cut in between, the words would stay in the index, and nobody would know.
    index = forget(journal)
    with disk_errors("remove the intent of the erasure"):
        _intent(journal).unlink(missing_ok=True)
    return Erased(planned, signed.resigned, signed.dropped, left, remotes(journal, planned), index)


def _check_intact(journal: Journal, planned: Plan, say: Say) -> None:
    """FormatError unless all branches that would be written anew are what they say: new commits vouch for them."""
    for name in planned.branches:
        say(f"checking {_count(journal.head(name).seq, name)} first")
        report = verify(journal, name)
        if not report.ok:
            worst = report.findings[0]
            raise FormatError(worst.code, f"{name} is not intact, nothing was erased: {worst.text}", seq=worst.seq)


# --- the intent ----------------------------------------------------------------------------------


def _saved(planned: Plan) -> bytes:
    asked = {"name": planned.name.path, "seqs": planned.seqs, "reason": planned.reason}
    known = {"blobs": planned.blobs, "files": planned.files, "heads": planned.heads, "tracking": planned.tracking}
    return canonical.dumps({**asked, **{name: dict(v) if isinstance(v, Mapping) else v for name, v in known.items()}})


def _loaded(raw: bytes) -> Plan:
    """What was asked for, and what was known of it. StorageError when the file is damaged."""
    try:
        found: dict[str, Any] = canonical.loads(raw)
        name = refs.parse_ref(refs.OWN_PREFIX + found["name"])
        good = all(type(seq) is int for seq in found["seqs"]) and type(found["reason"]) is str
        ids = [*found["blobs"], *found["files"], *found["heads"].values(), *found["tracking"].values()]
        if name is None or not good or not all(map(_ID.fullmatch, ids)):
            raise _bad_intent("a member is not what it should be")
        return Plan(**{**found, "name": name, "branches": {}, "done": [], "guessable": []})
    except (FormatError, TypeError, KeyError, AttributeError):
        raise _bad_intent("it cannot be read") from None


def _bad_intent(why: str) -> StorageError:
    return StorageError(
        f"the file erase.json of an erasure that was cut is damaged, or not ours: {why}",
        hint="Remove gitjournal/erase.json in the journal, look at gj verify, and erase again.",
    )


# --- git's side ----------------------------------------------------------------------------------


def _record(chain: Chain, writer: Writer, seqs: list[int], reason: str) -> None:
    """Append the ``session.erasure`` to a branch, unless an earlier try has."""
    data = {"seqs": seqs, "reason": reason}
    if not any(event.type == ERASURE and event.stored_data == data for event in chain.events(after=seqs[-1])):
        writer.append(Draft(ERASURE, data))
        writer.flush()


class _Signatures:
    """Signs commits again; a commit that several branches share is signed once."""

    def __init__(self, signer: Signer | None) -> None:
        self._signer = signer
        self._made: dict[bytes, str] = {}
        self._unsigned: set[bytes] = set()

    @property
    def resigned(self) -> int:
        return len(self._made)

    @property
    def dropped(self) -> int:
        return len(self._unsigned)

    def sign(self, before: str, oid: bytes, commit: bytes) -> str | None:
        """The new signature of a commit that had ``before``; its unsigned form is given, with its id.

        None without the key that made the old one: nobody signs in another's name. That the old one was right is
        known: `verify` has looked at all of them.
        """
        if self._signer is None or sshsig.parse(before).key != self._signer.public:
            self._unsigned.add(oid)
            return None
        if oid not in self._made:
            self._made[oid] = self._signer.sign(commit, sshsig.GIT)
        return self._made[oid]


def _rewrite(chain: Chain, seqs: set[int], signed: _Signatures, say: Say) -> None:
    """Derive the branch anew with these events withheld, and move its ref."""
    store = chain.store
    old = store.read_ref(chain.ref)
    if old is None:
        raise NotFound(f"{chain.name} is not in git")
    ids = chain.commits()
    first = min(seqs)
    pages = Pages(store, chain.read_commit(old).tree)
    deriver = chain.deriver_at(ids[first - 2] if first > 1 else None)
    made = Packing()
    for seq in range(first, len(ids) + 1):
        if seq == first or seq % objects.LEAF_SPAN == 0:
            page = pages.page(_first(seq))
            say(f"writing anew, event {seq:,} of {_count(len(ids), chain.name)}")
        blob, files = page[seq]
        event = Event.parse(store.read(blob, b"blob", objects.EVENT_LIMIT))
        if seq in seqs and not event.withheld:
            event, files = event.withhold(), ()
        derived = deriver.push(event, files)
        before = chain.read_commit(ids[seq - 1]).signature
        if before and (signature := signed.sign(before, *derived.commit)):
            derived = derived._replace(commit=deriver.sign(event, signature))
        made.add(derived, Pending(event))
        if len(made.commits) == _BATCH:
            _store(chain, made)
            made = Packing()
    _store(chain, made)
    if deriver.head is not None and deriver.head != old:
        store.cas_ref(chain.ref, old, deriver.head)


def _store(chain: Chain, made: Packing) -> None:
    store = chain.store
    store.refresh()
    known = next((n for n, oid in enumerate(made.commits) if not store.has(oid, refresh=False)), len(made.commits))
    made.drop(known, lambda oid: True)
    if len(made):
        # Under the note of the branch's writers: the next one removes the .keep if this process dies.
        store.write_pack(made, keep=_note(chain))


def _note(chain: Chain) -> str:
    return f"gitjournal {chain.ref}\n"


def _remove_old(journal: Journal) -> None:
    """Drop all objects that no ref reaches, from packs, loose files and logs. StorageError."""
    # Under the lock for joining packs, so that none goes away while git looks at it.
    with locked(journal.path / "gitjournal" / "fold.lock"):
        _git(journal, "reflog", "expire", "--expire=now", "--expire-unreachable=now", "--all")
        for stale in ("commit-graph", "commit-graphs/commit-graph-chain"):
            (journal.path / "objects" / "info" / stale).unlink(missing_ok=True)
        _git(journal, "repack", "-a", "-d", "-q", "--no-write-bitmap-index")
        _git(journal, "prune", "--expire=now")


def _left(journal: Journal, planned: Plan) -> list[str]:
    """Those objects that are still there, though no event needs them any more.

    They can be in a pack that somebody keeps, in an alternate, or in the history of a ref that is no branch.
    """
    left = [oid for oid in planned.blobs if _is_there(journal, oid)]
    files = [oid for oid in planned.files if _is_there(journal, oid)]
    if files:
        branches = [journal.chain(name).ref for name in journal.sessions()]
        used = {line[:40] for line in _git(journal, "rev-list", "--objects", *branches).splitlines()}
        left += [oid for oid in files if oid not in used]
    return left


def _is_there(journal: Journal, oid: str) -> bool:
    try:
        journal.store.read(bytes.fromhex(oid), b"blob")
    except VerificationError as error:
        return error.code != "missing-object"
    return True


def remotes(journal: Journal, planned: Plan) -> list[Remote]:
    """The repositories that git knows from here, with the command that takes the old objects out of their branches."""
    done = _git(journal, "config", "-z", "--get-regexp", r"^remote\..*\.(push)?url$", check=False)
    found = []
    for line in filter(None, done.split("\0")):
        key, _, url = line.partition("\n")
        name = key.removeprefix("remote.").rpartition(".")[0]
        # A name that a shell or git could take for something else is shown, and put into no command.
        plain = _PLAIN_NAME.fullmatch(name) and not rules.CONTROL.search(url)
        found.append(Remote(name, _without_secrets(url), _push(journal, planned, name) if plain else ""))
    return found


def _push(journal: Journal, planned: Plan, remote: str) -> str:
    leases = []
    for ref, oid in sorted(planned.heads.items()):
        known = planned.tracking.get(f"refs/remotes/{remote}/{ref.removeprefix(refs.OWN_PREFIX)}", oid)
        leases.append(f"--force-with-lease={ref}:{known}")
    return shlex.join(["git", "-C", str(journal.path), "push", *leases, "--", remote, *sorted(planned.heads)])


def _without_secrets(url: str) -> str:
    try:
        parts = urlsplit(url)
    except ValueError:
        return "a url that cannot be read"
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl() if parts.netloc else url


def _git(journal: Journal, *args: str, check: bool = True) -> str:
    hint = "Erase again when that is mended: it goes on from here."
    return git.run(journal.path, *args, hint=hint, check=check)
