"""Erase payloads for good: events stay in the chain as headers, what they said is gone (docs/format.md section 3).

Floor 3. Event hashes, and so seals and proofs, stay as they are. Commits change from the first erased event on, on
every branch that has it, and old objects are removed. An intent is on disk before anything changes: whatever was cut
is finished by the next run.
"""

from __future__ import annotations

import fcntl
import os
import shlex
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

from gitjournal import canonical, objects, refs, rules, sshsig
from gitjournal.errors import FormatError, NotFound, StorageError, UsageError, disk_errors
from gitjournal.event import Event
from gitjournal.flush import Packing, Pending
from gitjournal.pack import sync_folder
from gitjournal.verify import Pages, verify
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
_GIT_SECONDS = 24 * 3600


class Plan(NamedTuple):
    """What an erasure would change."""

    name: Name
    reason: str
    #: seqs to erase, by branch: each branch that shares an event loses its payload too.
    branches: Mapping[Name, list[int]]
    #: Those that are withheld already.
    done: list[int]
    #: Those without a salt: whoever can guess the payload can confirm it from the hash that stays.
    guessable: list[int]
    #: Git ids (hex) of the objects that hold the payloads.
    blobs: list[str]
    #: Where the refs are now, hex by ref.
    heads: Mapping[str, str]


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


def plan(journal: Journal, name: str | Name, seqs: Sequence[int], reason: str) -> Plan:
    """What erasing events ``seqs`` of a branch would change. NotFound, UsageError for events that must stay whole."""
    target = journal.resolve(name)
    chain = journal.chain(target)
    head = journal.head(target).seq
    events: dict[int, Event] = {}
    for seq in sorted(set(seqs)):
        if not 1 <= seq <= head:
            raise NotFound(f"{target} has no event {seq}", hint=f"Its newest event is {target}@{head}.")
        events[seq] = chain.event(seq)
        if events[seq].type in _STRUCTURE:
            raise UsageError(f"event {seq} is a {events[seq].type}: the chain cannot be read without its payload")
    if not events or not reason.strip():
        raise UsageError("an erasure has events and a reason")
    full = {seq: event for seq, event in events.items() if not event.withheld}
    shared = {one: _shared(journal.chain(one), full) for one in [*journal.sessions()] if one != target}
    branches = {target: sorted(full), **{one: found for one, found in shared.items() if found}}
    return Plan(
        target,
        reason,
        branches if full else {},
        sorted(events.keys() - full.keys()),
        [seq for seq, event in full.items() if "salt" not in event.members],
        _blobs(chain, full) if full else [],
        _heads(journal, branches),
    )


def _heads(journal: Journal, names: Iterable[Name]) -> dict[str, str]:
    named = {ref: journal.store.read_ref(ref) for ref in (journal.chain(name).ref for name in names)}
    return {ref: oid.hex() for ref, oid in named.items() if oid}


def _shared(chain: Chain, events: Mapping[int, Event]) -> list[int]:
    """The seqs at which a branch has these very events, with their payloads."""
    head = chain.head()
    found = []
    for seq, event in sorted(events.items()):
        if head is None or seq > head.seq:
            break
        there = chain.event(seq)
        # Branches part once: after the first difference nothing is shared.
        if there.hash != event.hash:
            break
        if not there.withheld:
            found.append(seq)
    return found


def _blobs(chain: Chain, events: Mapping[int, Event]) -> list[str]:
    """Ids of the blobs of events and their side files, as far as they are in git."""
    found: list[str] = []
    oid = chain.store.read_ref(chain.ref)
    if oid is None:
        return [objects.git_id(b"blob", event.raw).hex() for event in events.values()]
    commit = chain.read_commit(oid)
    pages = Pages(chain.store, commit.tree)
    for seq, event in events.items():
        found.append(objects.git_id(b"blob", event.raw).hex())
        if seq <= commit.seq:
            found += [one.hex() for one in pages.page(seq // objects.LEAF_SPAN * objects.LEAF_SPAN)[seq][1]]
    return found


def erase(journal: Journal, name: str | Name, seqs: Sequence[int], reason: str, signer: Signer | None = None) -> Erased:
    """Erase the payloads of events ``seqs``, on every branch that has them; first finish an erasure that was cut.

    ``signer`` signs those commits again that were signed. Raises what `plan` does, LeaseHeld when one of the branches
    is being written, and VerificationError when a branch is not intact: then nothing is changed.
    """
    journal.store.check_writable()
    cut = finish(journal, signer)
    planned = plan(journal, name, seqs, reason)
    if not planned.branches:
        return cut or Erased(planned, 0, 0, [], [])
    for one in planned.branches:
        report = verify(journal, one)
        if not report.ok:
            worst = report.findings[0]
            raise FormatError(worst.code, f"{one} is not intact, nothing was erased: {worst.text}", seq=worst.seq)
    return _carry_out(journal, planned, signer)


def finish(journal: Journal, signer: Signer | None = None) -> Erased | None:
    """Finish an erasure that was cut; None when there is none."""
    intent = _intent(journal)
    try:
        raw = intent.read_bytes()
    except FileNotFoundError:
        return None
    return _carry_out(journal, _loaded(raw), signer)


def _intent(journal: Journal) -> Path:
    return journal.path / "gitjournal" / "erase.json"


def _carry_out(journal: Journal, planned: Plan, signer: Signer | None) -> Erased:
    signed = _Signatures(signer)
    with ExitStack() as open_writers:
        writers = {name: open_writers.enter_context(Writer(journal.chain(name))) for name in planned.branches}
        _write(_intent(journal), _saved(planned))
        for name, writer in writers.items():
            # Also what is only in the tail goes to git first: there is one way to take a payload away.
            writer.flush()
            _record(journal.chain(name), writer, planned.branches[name], planned.reason)
        for name in writers:
            _rewrite(journal.chain(name), set(planned.branches[name]), signed)
            journal.store.drop_keeps(_note(journal.chain(name)))
    for name in planned.branches:
        # A write that was cut and set aside may hold what is to go.
        with disk_errors("remove a cut write that was set aside"):
            journal.chain(name).tail_path.with_suffix(".torn").unlink(missing_ok=True)
    _remove_old(journal)
    journal.store.refresh()
    left = _left(journal, planned.blobs)
    known = remotes(journal, planned)
    with disk_errors("remove the intent of the erasure"):
        _intent(journal).unlink(missing_ok=True)
    return Erased(planned, signed.resigned, signed.dropped, left, known)


# --- the intent ----------------------------------------------------------------------------------


def _saved(planned: Plan) -> bytes:
    members = planned._asdict() | {
        "name": planned.name.path,
        "branches": {name.path: seqs for name, seqs in planned.branches.items()},
        "heads": dict(planned.heads),
    }
    return canonical.dumps(members)


def _loaded(raw: bytes) -> Plan:
    """The plan of an erasure that was cut. StorageError when the file is damaged."""
    try:
        members: dict[str, Any] = canonical.loads(raw)
        branches = {_name(path): seqs for path, seqs in members["branches"].items()}
        return Plan(**{**members, "name": _name(members["name"]), "branches": branches})
    except (FormatError, TypeError, KeyError, AttributeError):
        raise StorageError(
            "the file erase.json of an erasure that was cut is damaged",
            hint="Remove gitjournal/erase.json in the journal and erase again.",
        ) from None


def _name(path: str) -> Name:
    name = refs.parse_ref(refs.OWN_PREFIX + path)
    if name is None:
        raise KeyError(path)
    return name


def _write(path: Path, content: bytes) -> None:
    """On disk when it returns: an erasure that was begun must not be forgotten."""
    with disk_errors(f"write {path}"):
        fresh = path.with_suffix(".new")
        with fresh.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(path)
    sync_folder(path.parent)


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

        None without the key that made the old one: nobody signs in another's name.
        """
        if self._signer is None or sshsig.parse(before).key != self._signer.public:
            self._unsigned.add(oid)
            return None
        if oid not in self._made:
            self._made[oid] = self._signer.sign(commit, sshsig.GIT)
        return self._made[oid]


def _rewrite(chain: Chain, seqs: set[int], signed: _Signatures) -> None:
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
        blob, files = pages.page(seq // objects.LEAF_SPAN * objects.LEAF_SPAN)[seq]
        event = Event.parse(store.read(blob, b"blob"))
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
    with _no_folding(journal):
        _git(journal, "reflog", "expire", "--expire=now", "--expire-unreachable=now", "--all")
        for stale in ("commit-graph", "commit-graphs/commit-graph-chain"):
            (journal.path / "objects" / "info" / stale).unlink(missing_ok=True)
        _git(journal, "repack", "-a", "-d", "-q", "--no-write-bitmap-index")
        _git(journal, "prune", "--expire=now")


@contextmanager
def _no_folding(journal: Journal) -> Iterator[None]:
    """Hold the lock under which packs are joined, so that none goes away while git looks at it."""
    path = journal.path / "gitjournal" / "fold.lock"
    with disk_errors(f"lock {path}"), path.open("ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _left(journal: Journal, oids: list[str]) -> list[str]:
    """Those objects that are still there, though no event has them any more.

    They can be in a pack that somebody keeps, in an alternate, or in the history of a ref that is no branch.
    """
    there = {oid for oid in oids if journal.store.has(bytes.fromhex(oid))}
    if not there:
        return []
    branches = [journal.chain(name).ref for name in journal.sessions()]
    used = _git(journal, "rev-list", "--objects", *branches)
    return sorted(there.difference(line[:40] for line in used.splitlines()))


def remotes(journal: Journal, planned: Plan) -> list[Remote]:
    """The repositories that git knows from here, with the command that takes the old objects out of their branches."""
    done = _git(journal, "config", "--get-regexp", r"^remote\..*\.url$", check=False)
    found = []
    for line in done.splitlines():
        key, _, url = line.partition(" ")
        name = key.removeprefix("remote.").removesuffix(".url")
        leases = [f"--force-with-lease={ref}:{oid}" for ref, oid in sorted(planned.heads.items())]
        command = ["git", "-C", str(journal.path), "push", *leases, name, *sorted(planned.heads)]
        found.append(Remote(name, _without_secrets(url), shlex.join(command)))
    return found


def _without_secrets(url: str) -> str:
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl() if parts.netloc else url


def _git(journal: Journal, *args: str, check: bool = True) -> str:
    """Run stock git on the journal, without anybody's hooks and helpers. StorageError."""
    safe = ["-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false"]
    clean = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
    try:
        done = subprocess.run(  # noqa: S603 - git, found as the user's shell finds it
            ["git", f"--git-dir={journal.path}", *safe, *args],  # noqa: S607
            env={**clean, "GIT_TERMINAL_PROMPT": "0", "GIT_NO_REPLACE_OBJECTS": "1", "GIT_ALLOW_PROTOCOL": "none"},
            capture_output=True,
            timeout=_GIT_SECONDS,
            check=False,
        )
    except FileNotFoundError:
        raise StorageError("erasing needs git, which is not installed") from None
    if check and done.returncode:
        why = done.stderr.decode("utf-8", "replace").strip().rpartition("\n")[2]
        hint = "Erase again when that is mended: it goes on from here."
        raise StorageError(f"git {args[0]} failed: {why}", hint=hint)
    return done.stdout.decode("utf-8", "replace")
