"""A journal: the sessions of one repository, and what can be done with them.

Floor 3. Everything here is a few calls of `chain` and `writer`; the format is theirs.
"""

from __future__ import annotations

import difflib
import os
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gitjournal import drafts, refs, signing, sshsig, store
from gitjournal.chain import Appended, Chain
from gitjournal.errors import (
    AlreadyExists,
    FormatError,
    JournalError,
    NotAJournal,
    NotFound,
    StorageError,
    UsageError,
    VerificationError,
    disk_errors,
)
from gitjournal.event import Event
from gitjournal.flush import Pending
from gitjournal.lease import locked
from gitjournal.line import Line
from gitjournal.objects import FileBlob
from gitjournal.plain import kind, plain
from gitjournal.refs import JOURNAL_SESSION, TRUNK, Name
from gitjournal.session import Session
from gitjournal.state import fold
from gitjournal.store import Store
from gitjournal.vocabulary import NARROWEST, TRUST_LEVELS, is_wider
from gitjournal.writer import Draft, Durability, Writer, start_branch

if TYPE_CHECKING:
    from gitjournal.aio import AsyncSession
    from gitjournal.keys import Signer
    from gitjournal.redact import Redactor
    from gitjournal.signing import Mode

_FOLDER = ".gitjournal"
_MOST_CHAINS = 1024
#: The version of docs/format.md that journals are made for.
FORMAT = 1


def init(path: str | os.PathLike[str]) -> Journal:
    """Make a journal at ``path`` (a folder that is missing, empty, or already a journal) and open it.

    Raises NotAJournal when something else is there, StorageError when the disk refuses.
    """
    folder = _folder(path)
    if folder.exists() and not _is_unused(folder):
        return open_journal(folder)
    store.create(folder)
    journal = Journal(Store(folder))
    with journal.log():
        return journal


def _is_unused(folder: Path) -> bool:
    """Whether a folder is empty, or holds what an `init` left that was cut before it wrote the journal's log."""
    if not folder.is_dir():
        return False
    head, branches = folder / "HEAD", folder / "refs" / "heads"
    if head.is_file() and head.read_text("utf-8", "replace") == f"ref: {refs.ref_name(Name(JOURNAL_SESSION))}\n":
        return not (folder / "packed-refs").exists() and not any(branches.glob("*/*"))
    return not any(folder.iterdir())


def open_journal(path: str | os.PathLike[str], *, check: bool = True) -> Journal:
    """Open the journal at ``path``: the repository itself, or a plain clone of one, which can only be read.

    Raises NotFound when there is nothing, NotAJournal when it is something else. Without ``check`` the caller looks at
    `Journal.check_format` himself.
    """
    folder = _folder(path)
    if folder.exists() and not folder.is_dir():
        raise NotAJournal(f"{folder} is a file, not a journal")
    if not folder.is_dir():
        raise NotFound(f"there is no journal at {folder}", hint="Make one with: gj init")
    prefix = refs.OWN_PREFIX
    if not (folder / "HEAD").is_file() and (folder / ".git").is_dir():
        folder, prefix = folder / ".git", refs.CLONE_PREFIX
    journal = Journal(Store(folder, prefix))
    if check:
        journal.check_format()
    return journal


def _folder(path: str | os.PathLike[str]) -> Path:
    """The path, if the system can have such a one."""
    folder = Path(path)
    try:
        folder.stat()
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return folder
    except (OSError, ValueError) as error:
        raise UsageError(f"{str(path)!a} cannot be a folder: {error}") from None
    return folder


def discover(explicit: str | None, environ: Mapping[str, str], cwd: Path) -> Path:
    """Where the journal is: ``explicit``, ``$GITJOURNAL_DIR``, the nearest ``.gitjournal`` upwards from ``cwd``,
    else the user's own. The folder may not exist yet."""
    named = explicit or environ.get("GITJOURNAL_DIR")
    if named:
        return Path(named)
    for folder in (cwd, *cwd.parents):
        if (folder / _FOLDER).is_dir():
            return folder / _FOLDER
    import platformdirs  # only the commands that come this far pay for it

    return platformdirs.user_data_path("gitjournal") / "journal.git"


def at_hand(explicit: str | None, environ: Mapping[str, str], cwd: Path) -> tuple[Journal, bool]:
    """The journal that `discover` finds, open, and whether it was made for that.

    Only the user's own is made when it is missing; NotFound for one that was asked for by name. Else as `open_journal`.
    """
    place = discover(explicit, environ, cwd)
    own = not (explicit or environ.get("GITJOURNAL_DIR") or place.name == _FOLDER)
    if own and not place.exists():
        return init(place), True
    return open_journal(place), False


class Journal:
    """The sessions of one repository. Get one with `init` or `open_journal`."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.path = store.path
        self._chains: dict[Name, Chain] = {}

    def check_format(self) -> None:
        """Raise NotAJournal when the repository holds no session, or was made by a version that this one is not.

        The journal's own log says the version; a clone of one branch does without.
        """
        made_for = self._format()
        if made_for is None and not any(self._is_ours(name) for name in self.sessions()):
            raise NotAJournal(f"{self.path} is a git repository, but not a journal", hint="Make one with: gj init")
        if made_for not in (None, FORMAT):
            raise NotAJournal(f"{self.path} has journal format {made_for!r}; this version knows {FORMAT}")

    def _format(self) -> Any:
        """What the journal's log says; None when there is no log, or none that can be read."""
        try:
            event = self.chain(Name(JOURNAL_SESSION)).event(1)
            return None if event.withheld else event.data.get("format", 0)
        except (NotFound, FormatError, VerificationError, StorageError):
            return None

    def _is_ours(self, name: Name) -> bool:
        try:
            oid = self.store.read_ref(self.chain(name).ref)
            return oid is None or self.chain(name).read_commit(oid).session == name.session
        except StorageError:
            return True
        except VerificationError as error:
            # A damaged journal is opened, so that verification can say what is wrong with it.
            return error.code != "bad-commit"

    def chain(self, name: Name) -> Chain:
        """The branch ``name`` for reading, whether it exists or not."""
        chain = self._chains.get(name)
        if chain is None:
            # Names of paths cost more to make than an event to read. Chains hold nothing else that could go stale.
            if len(self._chains) >= _MOST_CHAINS:
                self._chains.clear()
            chain = self._chains[name] = Chain(self.store, name)
        return chain

    # --- names -----------------------------------------------------------------------------------

    def resolve(self, name: str | Name) -> Name:
        """The existing branch that ``name`` means: ``s`` (its trunk), ``s/branch``, or a Name.

        NotFound suggests the nearest names; UsageError when two branches could be meant.
        """
        found = self._find(name)
        if found is None:
            raise self._not_found(str(name))
        return found

    def _find(self, name: str | Name) -> Name | None:
        readings = [name] if isinstance(name, Name) else refs.readings(name)
        found = [reading for reading in readings if self._usable(reading) and self.chain(reading).exists()]
        if len(found) > 1:
            raise UsageError(f"{name!r} can mean {' or '.join(_spelled(one) for one in found)}")
        return found[0] if found else None

    def _usable(self, name: Name) -> bool:
        try:
            refs.check_id(name.session)
            refs.check_id(name.branch, "branch name")
        except UsageError:
            return False
        return True

    def _not_found(self, text: str) -> NotFound:
        known = list(self.sessions())
        # Other sessions say more than other branches of one that is named.
        begun = [one for one in known if str(one).startswith(text)] if text else []
        begun.sort(key=lambda one: (one.branch != TRUNK, one))
        near = difflib.get_close_matches(text, map(str, known), n=3) or [str(one) for one in begun[:3]]
        hint = f"Did you mean {', '.join(near)}?" if near else "gj sessions lists what is there."
        return NotFound(f"there is no session or branch {text!r:.420} in {self.path}", hint=hint)

    def sessions(self) -> Iterator[Name]:
        """All branches of all sessions, in git or only in a tail, sorted; without the journal's own log."""
        return iter(sorted(name for name in self._names() if name.session != JOURNAL_SESSION))

    def branches(self, session: str) -> list[Name]:
        """All branches of one session, in git or only in a tail, sorted."""
        return sorted(self._names(refs.encode(session)))

    def _names(self, session: str | None = None) -> set[Name]:
        listed = self.store.list_refs(session)
        names = {name for ref in listed if (name := refs.parse_ref(ref, self.store.prefix))}
        folder = self.path / "gitjournal" / "tail"
        # Not by glob: it fails when a writer closes meanwhile, and the folder of its tail goes.
        for one in [session] if session else store.names(folder):
            for file in store.names(folder / one):
                name = refs.parse_ref(f"{one}/{file[:-6]}", "") if file.endswith(".jsonl") else None
                if name and name not in names and self.chain(name).exists():
                    names.add(name)
        return names

    # --- reading ---------------------------------------------------------------------------------

    def head(self, name: str | Name) -> Appended:
        """Seq and event hash of the newest event of a branch."""
        resolved = self.resolve(name)
        head = self.chain(resolved).head()
        if head is None:
            raise self._not_found(str(name))
        return head

    def events(self, name: str | Name, after: int = 0, to: int | None = None) -> Iterator[Event]:
        """Events ``after`` < seq <= ``to`` of a branch, oldest first, streamed."""
        _check_number(after)
        _check_number(to or 0)
        return self.chain(self.resolve(name)).events(after, to)

    def event(self, name: str | Name, seq: int) -> Event:
        """One event, in constant time. NotFound."""
        _check_number(seq)
        return self.chain(self.resolve(name)).event(seq)

    def raw_file(self, name: str | Name, seq: int, number: int) -> bytes:
        """Content of a side file (``number`` from 1) of an event."""
        return self.chain(self.resolve(name)).raw_file(seq, number)

    # --- writing ---------------------------------------------------------------------------------

    @contextmanager
    def log(self) -> Iterator[Writer]:
        """The journal's own log, open for writing; it begins with the number of the format. LeaseHeld."""
        mode, signer = self._signing(None, None, live=True)
        with Writer(self.chain(Name(JOURNAL_SESSION)), signer=signer, sign_every=mode == "every") as writer:
            if writer.head is None:
                writer.append(Draft("session.start", {"format": FORMAT}))
            yield writer

    def session(
        self,
        name: str | Name,
        create: bool | None = None,
        *,
        source: str | None = None,
        trust: str | None = None,
        project: str | os.PathLike[str] | None = None,
        parent: Session | Name | str | Mapping[str, Any] | None = None,
        title: str | None = None,
        labels: Iterable[str] | None = None,
        durability: Durability = "disk",
        start: Draft | Mapping[str, Any] | None = None,
        epoch: int | None = None,
        salted: bool = True,
        signer: Signer | None = None,
        sign: Mode | None = None,
        closing_seal: bool = True,
        redact: bool | None = None,
    ) -> Session:
        """Open a branch for writing: takes its lease, recovers its tail.

        With ``create`` a session that does not exist begins. ``source`` to ``labels`` say how, and that it may: with
        one of them ``create`` need not be given. They say nothing to a session that exists: it keeps what it began
        with, and is refused if it has another ``trust`` than the one named. ``trust`` follows from ``source``
        (``console`` is trusted as the ``host``, all others live in the ``sandbox``) and may be named to be narrower.
        A session whose parent is in this journal is not trusted more than that.
        ``project`` is a folder, ``parent`` the session that this one works for (one that is open, a name here, or
        ``{"session", "branch", "seq"}`` of another journal).

        ``start`` has more members of its first event (``agent.name``, ``system_instructions``), or is the whole event,
        as a Draft. ``epoch`` and ``salted=False`` are for imports, whose events must not depend on when and where they
        are made.

        ``signer`` and ``sign`` say what is signed; without them the journal's settings do (`signing.Policy`), but never
        for an import. With ``closing_seal=False`` closing makes no seal: more of the session is to come.

        ``redact`` replaces secrets in what is recorded, before it is hashed, and notes it; without it the journal's
        policy says (docs/secrets.md), but never for an import. Refused when the policy does not allow what is asked.
        Raises NotFound, LeaseHeld, AlreadyExists (an id that differs only in case, or a session whose deletion was
        cut), DamagedTail, and UsageError also for a trust wider than that of the source.
        """
        about = drafts.start(
            source=source,
            trust=trust,
            project=None if project is None else _root(project),
            parent=self._parent(parent),
            title=title,
            labels=labels,
        )
        first = _first(start, about)
        resolved = self._find(name)
        if resolved is None and not (bool(first.data) if create is None else create):
            error = self._not_found(str(name))
            error.hint += " To begin a session, say its source=, or create=True."
            raise error
        redactor = self._redactor(redact) if epoch is None or redact else None
        mode, signer = self._signing(sign, signer, live=epoch is None)
        seals = closing_seal and mode != "off"
        open_writer = partial(
            Writer, durability=durability, epoch=epoch, salted=salted, signer=signer, sign_every=mode == "every"
        )
        if resolved is None:
            if redactor:
                first = first._replace(data=redactor.noted(first.data))
            return Session(self._create(name, open_writer, first), seals=seals, redactor=redactor)
        _not_the_log(resolved)
        if trust is not None:
            self._check_trust(resolved, trust)
        writer = open_writer(self.chain(resolved))
        if writer.head is None:
            # Deleted since it was found.
            writer.close()
            raise self._not_found(str(name))
        return Session(writer, seals=seals, redactor=redactor)

    def _check_trust(self, name: Name, trust: str) -> None:
        """UsageError when a session that exists has another trust: the first event says it, for all that follows."""
        found = fold([self.chain(name).event(1)], history=False).trust
        if found != trust:
            raise UsageError(
                f"session {name} has trust {found}, not {trust}",
                hint="A session keeps the trust that it began with: leave trust out, or begin another session.",
            )

    def _check_parent_trust(self, start: Mapping[str, Any]) -> None:
        """UsageError when a session would be trusted more than its parent, if that is in this journal."""
        parent, trust = start.get("parent"), start.get("trust")
        session = parent.get("session") if isinstance(parent, Mapping) else None
        if not isinstance(session, str) or trust not in TRUST_LEVELS or not self._usable(Name(session)):
            return
        there = self.branches(session)
        if there and is_wider(trust, most := self._trust(Name(session) if Name(session) in there else there[0])):
            raise UsageError(
                f"trust {trust} is wider than {most}, which the parent {session!r} has",
                hint=f"Name a trust for it: {most}.",
            )

    def _trust(self, name: Name) -> str:
        """The trust of a session; of one whose first event cannot be read, the narrowest."""
        try:
            return fold([self.chain(name).event(1)], history=False).trust
        except JournalError:
            return NARROWEST

    def asession(self, name: str | Name, create: bool | None = None, **how: Any) -> AsyncSession:
        """The same for asyncio: ``async with journal.asession(...) as s``, and ``await`` before each method."""
        from gitjournal.aio import AsyncSession  # asyncio is slow to load, and gj does not use it

        return AsyncSession(partial(self.session, name, create, **how))

    def _parent(self, parent: object) -> Mapping[str, Any] | None:
        if parent is None:
            return None
        if isinstance(parent, Mapping):
            self._check_place(parent)
            return parent
        if isinstance(parent, Session):
            return {"session": parent.name.session, "branch": parent.name.branch, "seq": parent.head.seq}
        if not isinstance(parent, str | Name):
            raise UsageError(f"parent is a {kind(parent)}, not a session or the name of one")
        name = self.resolve(parent)
        return {"session": name.session, "branch": name.branch}

    def _check_place(self, place: Mapping[str, Any]) -> None:
        """UsageError for a place in a session of this journal that it does not have."""
        session, branch, seq = place.get("session"), place.get("branch", TRUNK), place.get("seq")
        if not isinstance(session, str) or not isinstance(branch, str) or not self._usable(Name(session, branch)):
            return
        there, parent = self.branches(session), Name(session, branch)
        if parent not in there:
            # A clone of some refs need not have the trunk.
            if there and "branch" in place:
                raise UsageError(f"the parent {session!r} has no branch {branch!a:.80}")
            return
        try:
            head = self.chain(parent).head()
        except JournalError:
            # A parent that is damaged does not hinder its children.
            return
        if head is not None and isinstance(seq, int) and seq > head.seq:
            raise UsageError(f"the parent {parent} has no event {seq}: it is at {head.seq}")

    def _signing(self, sign: Mode | None, signer: Signer | None, *, live: bool) -> tuple[Mode, Signer | None]:
        """What is signed, and by whom: as the caller or else the journal says."""
        if signer is not None:
            return sign or "seal", signer
        if sign == "off" or not live:
            return "off", None
        policy = signing.read(self.store)
        mode = sign or policy.mode
        return mode, signing.signer(policy._replace(mode=mode), os.environ)

    def _redactor(self, redact: bool | None) -> Redactor | None:
        from gitjournal import policy  # what finds secrets is slow to load, and few journals ask for it

        return policy.redactor_for(self.store, redact, "record")

    def _create(self, name: str | Name, open_writer: Callable[[Chain], Writer], start: Draft) -> Writer:
        target = name if isinstance(name, Name) else Name(name)
        if target.branch != TRUNK:
            raise NotFound(f"there is no branch {target}", hint="Make it with: gj branch")
        if not isinstance(name, Name):
            self._refuse_branch_of_another(name)
        _not_the_log(target)
        drafts.check_trust(start.data)
        self._check_parent_trust(start.data)
        with self.creating(target):
            if not self.chain(target).exists() and (left := self.branches(target.session)):
                raise AlreadyExists(
                    f"session {target} has no trunk, but {left[0]}: it cannot begin anew",
                    hint=f"If its deletion was cut, finish it with: gj delete {shlex.quote(target.session)}",
                )
            writer = open_writer(self.chain(target))
            try:
                if writer.head is None:
                    writer.append(start)
            except BaseException:
                writer.close()
                raise
        return writer

    def _refuse_branch_of_another(self, text: str) -> None:
        """NotFound when the text names a branch that a session here could have: a new session is hardly meant.

        AlreadyExists when the session has it: who forks names a new session, and the two could not be told apart.
        """
        for left, branch in ((text[:at], text[at + 1 :]) for at, char in enumerate(text) if char == "/"):
            if branch and self._usable(Name(left)) and self.chain(Name(left)).exists():
                if self.chain(Name(left, branch)).exists():
                    raise AlreadyExists(f"{text!r} is branch {branch!r} of session {left!r}")
                raise NotFound(
                    f"session {left!r} has no branch {branch!r}",
                    hint=f"Make it with: gj branch {shlex.quote(left)} {shlex.quote(branch)}",
                )

    @contextmanager
    def creating(self, name: Name) -> Iterator[None]:
        """Hold the journal's creation lock, so that of two ids that differ only in case one loses."""
        refs.check_id(name.session)
        refs.check_id(name.branch, "branch name")
        with self.creation_lock():
            self._refuse_case_twin(name)
            yield

    @contextmanager
    def creation_lock(self) -> Iterator[None]:
        """Meanwhile no branch begins, in whatever process."""
        lock = self.path / "gitjournal" / "create.lock"
        with disk_errors(f"make {lock.parent}"):
            lock.parent.mkdir(parents=True, exist_ok=True)
        with locked(lock):
            yield

    def _refuse_case_twin(self, name: Name) -> None:
        """Two names that differ only in case would be one file on a case-insensitive disk."""
        session, branch = name.path.split("/")
        folder = self.path / "gitjournal" / "tail"
        sessions = self.store.spellings(session) | _spellings(folder, session, "")
        branches = {ref.rpartition("/")[2] for ref in self.store.list_refs(session)}
        branches = {one for one in branches if one.lower() == branch.lower()}
        branches |= _spellings(folder / session, branch, ".jsonl")
        for twin in (sessions - {session}) | (branches - {branch}):
            raise AlreadyExists(f"{name} differs only in case from {refs.decode(twin)!r}, which exists")

    def branch(
        self, name: str | Name, at: int, as_: str, *, epoch: int | None = None, more: Mapping[str, Any] | None = None
    ) -> Name:
        """Begin branch ``as_`` of the same session after event ``at``. Copies nothing.

        ``epoch`` is for imports, and so is ``more`` that its first event says. Raises NotFound, AlreadyExists, and
        UsageError also for an event that a fork inherited from another session.
        """
        parent = self.resolve(name)
        child = Name(parent.session, as_)
        both = Name(str(child))
        if self._usable(both) and self.chain(both).exists():
            raise AlreadyExists(f"a session is called {both}: a branch of that name would be taken for it")
        return self._split(parent, at, child, "session.branch", {**(more or {}), "branch": as_}, epoch)

    def fork(self, name: str | Name, at: int, session: str, *, epoch: int | None = None) -> Name:
        """Begin the new session ``session`` with the events 1..``at`` of a branch as its past. Copies nothing.

        ``epoch`` is for imports.
        """
        parent = self.resolve(name)
        refs.check_id(session)
        if epoch is None:
            self._refuse_branch_of_another(session)
        return self._split(parent, at, Name(session), "session.fork", {}, epoch)

    def _split(self, parent: Name, at: int, child: Name, kind: str, data: dict[str, Any], epoch: int | None) -> Name:
        _check_number(at)
        _not_the_log(child)
        _not_the_log(parent)
        chain = self.chain(parent)
        before, owner = chain.event(at), chain.owner(at)
        origin: dict[str, Any] = {"branch": owner.branch, "seq": at, "hash": before.hash}
        if kind == "session.fork":
            origin["session"] = before.session
        elif before.session != child.session:
            raise UsageError(
                f"event {at} of {parent} was inherited from session {before.session!r}",
                hint="Branch that session, or fork.",
            )
        with self.creating(child):
            draft = Draft(kind, {**data, "from": origin})
            mode, signer = self._signing(None, None, live=epoch is None)
            sign = (lambda _, commit: signer.sign(commit, sshsig.GIT)) if signer and mode == "every" else None
            start_branch(chain, at, self.chain(child), draft, epoch, sign)
        return child

    def graft(self, name: Name, items: Iterable[tuple[Event, Sequence[FileBlob]]]) -> int:
        """Add finished events as they are: the whole line of branch ``name`` from seq 1, each with its side files.

        Events that the branch has already must be the same. Returns how many were new. FormatError when one does
        not fit, or (at the end) the line is another branch's; up to 4,096 events at a time, what came before stays.
        """
        _not_the_log(name)
        with self.creating(name):
            writer = Writer(self.chain(name))
        with writer:
            before = writer.head.seq if writer.head else 0
            writer.graft(_unknown(name, self.chain(name).events(), items))
            return (writer.head.seq if writer.head else 0) - before

    def flush(self, name: str | Name) -> None:
        """Move the tail of a branch to git. LeaseHeld when another process is writing to it."""
        chain = self.chain(self.resolve(name))
        if chain.tail_path.exists():
            mode, signer = self._signing(None, None, live=True)
            Writer(chain, signer=signer, sign_every=mode == "every").close()


def _first(start: Draft | Mapping[str, Any] | None, about: dict[str, Any]) -> Draft:
    """The first event of a session. UsageError when it is given as a whole and in members, or a member twice."""
    if isinstance(start, Draft):
        if about:
            raise UsageError("give the whole first event or its members, not both")
        return start
    more = {} if start is None else plain(start, "the start")
    if not isinstance(more, dict):
        raise UsageError(f"the start is an object with members, not a {kind(start)}")
    if own := drafts.START & more.keys():
        raise UsageError(f"{min(own)} of the start has a parameter of its own: {min(own)}=")
    return Draft("session.start", {**more, **about})


def _root(project: str | os.PathLike[str]) -> str:
    """The folder as an absolute path without links. UsageError for what is none."""
    try:
        return str(Path(project).resolve())
    except (TypeError, ValueError, OSError, RuntimeError) as error:
        raise UsageError(f"project cannot be a folder: {error}") from None


def _spellings(folder: Path, name: str, suffix: str) -> set[str]:
    """The names in ``folder``, without ``suffix``, that are ``name`` in whatever case."""
    wanted = (name + suffix).lower()
    return {one.removesuffix(suffix) for one in store.names(folder) if one.lower() == wanted}


def _unknown(
    name: Name, known: Iterator[Event], items: Iterable[tuple[Event, Sequence[FileBlob]]]
) -> Iterator[Pending]:
    """The items beyond those that are known, which must be equal to the first ones; all must be one good line."""
    line = Line()
    for event, files in items:
        for code, text in line.faults(event):
            raise FormatError(code, text, seq=event.seq)
        there = next(known, None)
        if there is None:
            yield Pending(event, files)
        elif there.hash != event.hash:
            raise FormatError("broken-link", "the journal has another event in this place", seq=event.seq)
    if line.seq and (line.session, line.branch) != (name.session, name.branch):
        raise FormatError("wrong-ref", f"the events are of {line.session!r}, branch {line.branch!r}, not {name}")


def _check_number(seq: object) -> None:
    """UsageError for what can be the number of no event in any journal."""
    if type(seq) is not int:
        raise UsageError(f"events are counted by whole numbers, not by a {kind(seq)}")


def _not_the_log(name: Name) -> None:
    if name.session == JOURNAL_SESSION:
        raise UsageError(f"the session id {JOURNAL_SESSION!r} is reserved for the journal's own log")


def _spelled(name: Name) -> str:
    return f"branch {name.branch!r} of session {name.session!r}"
