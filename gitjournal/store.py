"""The git repository behind a journal: raw objects, packs, and refs by compare-and-swap.

Floor 1, and the only module that knows pygit2, which it loads when it is first needed: that takes longer than most
readers run. Reads take raw objects by id and hash them again; they never ask git
for parents or histories, so replace refs, grafts, shallow files and commit-graphs have no say.
"""

from __future__ import annotations

import errno
import os
import re
import stat
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from hashlib import sha1
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gitjournal import git, loose, pack, pages, refs, repack, tiers
from gitjournal.errors import (
    BadRef,
    ConflictError,
    JournalError,
    NotAJournal,
    RefLocked,
    StorageError,
    UsageError,
    VerificationError,
    disk_errors,
)
from gitjournal.files import MAX_TEXT, NotRegular, open_regular, read_regular
from gitjournal.loose import BadLoose
from gitjournal.objects import EVENT_LIMIT, git_id
from gitjournal.packedrefs import PackedRefs, Stamp
from gitjournal.packread import MAX_OBJECT, BadIndex, BadPack, Pack, Packs, TooLarge

if TYPE_CHECKING:
    from gitjournal.ahead import Ahead

#: How long a ref move waits for another process's lock file, in seconds.
LOCK_PATIENCE = 2.0
#: How long a lock file must stay unchanged before it is taken for a dead writer's, in seconds.
DEAD_LOCK = 1.0
#: The largest size of an object, by kind, and the code of a larger one. A blob may be a side file.
LIMITS = {
    b"commit": (64 * 1024, "bad-commit"),
    b"tree": (16 * 1024 * 1024, "bad-tree"),
    b"blob": (MAX_OBJECT, "bad-object"),
}
_MOST_RECENT = 256
_LONGEST_PAUSE = 127
_MIRRORED = re.compile(
    rb"^[^\S\n]*fetch[^\S\n]*=[^\S\n]*\+refs/(?:heads/)?\*:refs/(?:heads/)?\*[^\S\n]*$", re.MULTILINE | re.IGNORECASE
)
_REMOTES = "refs/remotes/"
_WHERE_BRANCHES_ARE = ("refs/heads/", _REMOTES)
_REMOTE_HEAD = re.compile(r"refs/remotes/[^/]*/HEAD")
_BEFORE_NAME = re.compile(r"refs/(?:heads|remotes/([^/]+))/")
_NOTHING = (b"", b"", 0)
#: What `Store.loose_refs` has of a ref that cannot be read.
UNREAD = "?"
_DANGLING = re.compile(r"^dangling (?:blob|commit) ([0-9a-f]{40})$", re.MULTILINE)
_COMMIT_ID = re.compile(rb"[0-9a-f]{40}")
_LOOSE_REF = re.compile(rb"([0-9a-f]{40})\n")
# For a longer config the pattern takes 100 times its size.
_MOST_PLAIN = 64 * 1024
# A config of nothing but plain lines, as git and gj write it, none of which names an extension or another file.
_PLAIN_CONFIG = re.compile(
    rb'(?:[ \t]*(?:\[(?!include|extensions)[a-z0-9.-]+(?: "[^"\\\n\x00]*")?\]'
    rb'|[a-z][a-z0-9-]*[ \t]*=[^"\\#;\n\x00]*)?\n)*',
    re.IGNORECASE,
)


class Run:
    """Reads objects of one kind, each as `Store.read` does, and looks first behind the one that it has read last.

    Blobs are those of events. ``indexed``: what lies behind counts only if the pack's index says that it is there, as
    without looking: git finds nothing that no index has.
    """

    __slots__ = ("_behind", "_head", "_indexed", "_kind", "_limit", "_pack", "_packs", "_pause", "_read", "_wait")

    def __init__(
        self, read: Callable[[bytes, bytes, tuple[int, str]], bytes], packs: Packs, kind: bytes, *, indexed: bool
    ) -> None:
        self._read = read
        self._packs = packs
        self._kind = kind
        # What `git_id` hashes, without a call for each event.
        self._head = kind + b" %d\x00%s"
        self._indexed = indexed
        # Where `_behind` is.
        self._pack: Pack | None = None
        self._limit = EVENT_LIMIT if kind == b"blob" else LIMITS[kind]
        self._behind: Iterator[tuple[bytes, bytes, int]] | None = None
        # How many objects are read before the next look, and were before the last.
        self._wait = self._pause = 0

    def read(self, oid: bytes) -> bytes:
        """Content of object ``oid``, hashed again. VerificationError as in `Store.read`."""
        if self._behind is not None:
            kind, content, place = next(self._behind, _NOTHING)
            is_it = kind == self._kind and sha1(self._head % (len(content), content)).digest() == oid
            if is_it and (not self._indexed or self._is_at(oid, place)):
                self._pause = 0
                return content
            # A flush ended here; or git has put all in another order, and looking is in vain.
            self._behind = None
            self._wait = self._pause = min(2 * self._pause + 1, _LONGEST_PAUSE)
        content = self._read(oid, self._kind, self._limit)
        if self._wait:
            self._wait -= 1
        else:
            self._pack = self._packs.asked_first()
            self._behind = self._packs.behind(oid, self._limit[0])
        return content

    def _is_at(self, oid: bytes, place: int) -> bool:
        """Whether the object would have been read from there as well."""
        pack = self._pack
        try:
            return pack is not None and pack is self._packs.asked_first() and pack.offset_next(oid) == place
        except BadPack:
            # What is wrong with the index, who reads by it says.
            return False


class Store:
    """One repository. Safe to share between threads."""

    def __init__(self, path: Path, prefix: str = refs.OWN_PREFIX) -> None:
        """Open the repository whose git folder is ``path``. Raises NotAJournal for a kind that cannot be used."""
        self.path = path
        # As text: a Path costs more to make than a ref to read.
        self._folder = os.fspath(path)
        self.prefix = prefix
        self.pack_folder = path / "objects" / "pack"
        self._packs = Packs(self.pack_folder)
        # The folders of loose objects, mostly none, as of the last look; None before it.
        self._loose: frozenset[str] | None = None
        self._borrowed = [Packs(folder / "pack") for folder in loose.alternates(path / "objects")]
        self._packed = PackedRefs(self._folder)
        #: Who reads events before they are asked for (`ahead.reading`), if anybody does.
        self.ahead: Ahead | None = None
        # Content by id, as it was when its hash was checked.
        self._recent: dict[bytes, bytes] = {}
        self._no_links: set[str] = set()
        self._local = threading.local()
        check_kind(path)
        for folder in ("refs", prefix.rstrip("/")):
            if (path / folder).is_symlink():
                raise NotAJournal(f"{path / folder} is a link: refs behind it would be read and moved elsewhere")

    @property
    def _repo(self) -> Any:
        """This thread's repository, for moving refs."""
        import pygit2

        if not hasattr(self._local, "repo"):
            # libgit2 syncs refs only when asked, and the switch is one for the whole process. Without it a power
            # cut after a flush could leave an empty ref although the tail has been cleared.
            pygit2.settings.enable_fsync_gitdir(True)
            try:
                self._local.repo = pygit2.Repository(str(self.path))
            except pygit2.GitError as error:
                raise NotAJournal(f"{self.path} cannot be opened for writing: {error}") from None
        return self._local.repo

    # --- objects -------------------------------------------------------------------------------

    def read(self, oid: bytes, kind: bytes, limit: tuple[int, str] | None = None) -> bytes:
        """Content of object ``oid``, hashed again. VerificationError: ``missing-object``, ``bad-object``.

        One that is larger than ``limit`` (else that of `LIMITS`) has the limit's code and is not read.
        """
        most, code = limit or LIMITS[kind]
        try:
            found = self._raw(oid, most)
        except TooLarge as error:
            text = f"{kind.decode()} {oid.hex()} is larger than {most} bytes: {error}"
            raise VerificationError(code if error.kind == kind else "bad-object", text, oid=oid.hex()) from None
        if found is None:
            raise VerificationError("missing-object", f"{kind.decode()} {oid.hex()} is not there", oid=oid.hex())
        if found[0] != kind or git_id(kind, found[1]) != oid:
            raise VerificationError(
                "bad-object", f"{kind.decode()} {oid.hex()} does not hold what its id says", oid=oid.hex()
            )
        return found[1]

    def run(self, kind: bytes, *, indexed: bool = False) -> Run:
        """A reader of many objects that were mostly written one behind the other."""
        return Run(self.read, self._packs, kind, indexed=indexed)

    def read_again(self, oid: bytes, kind: bytes) -> bytes:
        """As `read`, for what is often read several times: the upper trees that lead to an event."""
        content = self._recent.get(oid)
        if content is None:
            content = self.read(oid, kind)
            if len(self._recent) >= _MOST_RECENT:
                self._recent.clear()
            self._recent[oid] = content
        return content

    def _raw(self, oid: bytes, most: int) -> tuple[bytes, bytes] | None:
        try:
            return self._any_copy(oid, most)
        except TooLarge:
            raise
        except OSError as error:
            raise StorageError(f"object {oid.hex()} cannot be read: {error}") from None
        except (BadPack, BadLoose) as error:
            raise VerificationError("bad-object", f"object {oid.hex()}: {error}", oid=oid.hex()) from None

    def _any_copy(self, oid: bytes, most: int) -> tuple[bytes, bytes] | None:
        try:
            return self._packs.read(oid, most) or self._elsewhere(oid, most)
        except (TooLarge, BadIndex):
            raise
        except BadPack:
            # As git does: what cannot be unpacked may be good elsewhere.
            found = self._elsewhere(oid, most)
            if found is None:
                raise
            return found

    def _elsewhere(self, oid: bytes, most: int) -> tuple[bytes, bytes] | None:
        """Among the loose objects, and in the repositories that this one borrows from."""
        found = loose.read(self.path / "objects", oid, most)
        for packs in () if found else self._borrowed:
            found = packs.read(oid, most) or loose.read(packs.folder.parent, oid, most)
            if found:
                break
        return found

    def holds(self, oid: bytes, kind: bytes, content: bytes) -> bool:
        """Whether the object is there with this content, whose id the caller has computed. StorageError."""
        try:
            found = self._packs.read(oid, len(content)) or self._raw(oid, len(content))
            return found == (kind, content)
        except (BadPack, OSError):
            return self._holds_elsewhere(oid, kind, content)
        except VerificationError:
            return False

    def _holds_elsewhere(self, oid: bytes, kind: bytes, content: bytes) -> bool:
        try:
            return self._raw(oid, len(content)) == (kind, content)
        except (VerificationError, TooLarge):
            return False

    def has(self, oid: bytes, *, refresh: bool = True) -> bool:
        """Whether the object is there; without ``refresh``, as of the last `refresh`."""
        if self._packs.has(oid, refresh=refresh):
            return True
        name = oid.hex()
        if not refresh and self._loose is not None and name[:2] not in self._loose:
            return False
        with suppress(OSError):
            os.stat(f"{self._folder}/objects/{name[:2]}/{name[2:]}")
            return True
        return False

    def shallow_commits(self) -> frozenset[str]:
        """The ids (hex) of the commits at which git says that the history was cut: those of a shallow clone."""
        try:
            raw = read_regular(self.path / "shallow", os.O_NOFOLLOW)
            return frozenset(line.decode() for line in raw.split(b"\n") if _COMMIT_ID.fullmatch(line))
        except OSError:
            return frozenset()

    def refresh(self) -> None:
        """Look again at the pack folder, and which folders of loose objects there are."""
        self._packs.refresh()
        self._loose = frozenset(names(self.path / "objects"))

    def write_pack(self, objects: pack.Objects, *, keep: str, sync: bool = True) -> Path:
        """Write a pack that stays until `release`. StorageError."""
        return pack.write(self.pack_folder, objects, keep=keep, sync=sync)

    def write_pages(self, objects: Iterable[pack.PackObject], *, keep: str) -> Path:
        """As `write_pack`, smaller and slower to read here and there: for what was written long ago. StorageError."""
        return pages.write(self.pack_folder, objects, self._page_key(), keep=keep)

    def _page_key(self) -> bytes:
        return pages.key(self.path / "gitjournal" / "pages.key")

    def release(self, written: Path) -> None:
        """Let git repack and prune a pack again, now that a ref reaches it."""
        pack.release(written)

    def drop_keeps(self, note: str) -> None:
        """Remove the ``.keep`` files with this text: their writer has died, and the caller holds its lease."""
        for path in self.pack_folder.glob("*.keep"):
            try:
                if path.read_text(encoding="utf-8") == note:
                    path.unlink()
            except (OSError, UnicodeDecodeError):
                # Gone meanwhile, or not ours.
                continue

    def fold(self, *, sync: bool = True) -> int:
        """One folding step; packs that went away."""
        return tiers.fold(self.pack_folder, self.path / "gitjournal" / "fold.lock", sync=sync)

    def repack(self, progress: repack.Progress | None = None) -> repack.Saved | None:
        """Write all packs anew as one, as small as can be. StorageError, VerificationError."""
        lock = self.path / "gitjournal" / "fold.lock"
        saved = repack.repack(self.pack_folder, lock, self._page_key(), self._dangling, progress)
        self.refresh()
        return saved

    def _dangling(self) -> set[bytes]:
        """The objects that no ref, log or other object leads to, as git sees it. StorageError."""
        if names(self.path / "worktrees"):
            # Before 2.40 git does not look into the indexes of linked work trees.
            return set()
        said = git.run(self.path, "fsck", "--connectivity-only", "--dangling", "--no-progress", check=False)
        return {bytes.fromhex(oid) for oid in _DANGLING.findall(said)}

    def check_writable(self) -> None:
        """Raise UsageError when the branches here are only copies of another's.

        They are in a plain clone, and in one whose next ``git fetch`` would force them back to what the other has
        (``git clone --mirror``): events that were acknowledged here would be gone.
        """
        if self.prefix != refs.OWN_PREFIX or self._is_mirror():
            raise UsageError(
                f"{self.path} is a copy and can only be read", hint="To go on from there: git clone --bare"
            )

    def _is_mirror(self) -> bool:
        try:
            return _MIRRORED.search(read_regular(self.path / "config")) is not None
        except OSError:
            return False

    def setting(self, name: str, *, unset: str = "") -> str:
        """A value of the repository's own git config; ``unset`` when it is not there."""
        import pygit2

        try:
            return _setting(pygit2.Config(str(self.path / "config")), name, unset)
        except (pygit2.GitError, OSError) as error:
            raise StorageError(f"{self.path / 'config'} cannot be read: {error}") from None

    def remotes(self) -> dict[str, list[str]]:
        """The remotes with a URL in the repository's own git config, by name, with their refspecs for fetching."""
        import pygit2

        found: dict[str, list[str]] = {}
        try:
            entries = [(entry.name, entry.value or "") for entry in pygit2.Config(str(self.path / "config"))]
        except (pygit2.GitError, OSError) as error:
            raise StorageError(f"{self.path / 'config'} cannot be read: {error}") from None
        for name, _ in entries:
            if name.startswith("remote.") and name.endswith(".url"):
                remote = name[len("remote.") : -len(".url")]
                found[remote] = [value for key, value in entries if key == f"remote.{remote}.fetch"]
        return found

    def set_settings(self, values: Mapping[str, str]) -> None:
        """Write values into the repository's own git config; an empty one is taken out."""
        import pygit2

        try:
            config = pygit2.Config(str(self.path / "config"))
            for name, value in values.items():
                if value:
                    config[name] = value
                elif name in config:
                    del config[name]
        except (pygit2.GitError, OSError) as error:
            raise StorageError(f"{self.path / 'config'} cannot be written: {error}") from None

    # --- refs ----------------------------------------------------------------------------------

    def read_ref(self, ref: str) -> bytes | None:
        """The commit id (20 bytes) that a ref names, or None when there is no such ref.

        StorageError when the ref cannot be read, or is a symbolic one, or its folder is: to move that would move
        another branch.
        """
        with disk_errors(f"read ref {ref}"):
            path = f"{self._folder}/{ref}"
            try:
                text = _read_small(path)
                self._refuse_link(path[: path.rindex("/")])
            except NotRegular:
                raise BadRef(f"ref {ref} is a link, a pipe or another thing that is no regular file") from None
            except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
                packed = self._packed.get(ref)
                return bytes.fromhex(packed) if packed else None
        loose = _LOOSE_REF.fullmatch(text)
        if loose is None:
            raise BadRef(f"ref {ref} does not hold a commit id: {text[:60]!r}")
        return bytes.fromhex(loose[1].decode())

    def _refuse_link(self, folder: str) -> None:
        """NotRegular for a folder of refs that is a link. Looks once: journals come with links, they do not get any."""
        if folder not in self._no_links:
            if Path(folder).is_symlink():
                raise NotRegular(folder)
            self._no_links.add(folder)

    def list_refs(self, session: str | None = None) -> list[str]:
        """Full names of the journal's refs, sorted; with ``session`` (an encoded id) only that session's."""
        found = {f"{self.prefix}{one}/{branch}" for one, branch in self._loose_names(session)}
        begin = f"{self.prefix}{session}/" if session else self.prefix
        deep = self.prefix.count("/") + 1
        found.update(name for name in self._packed.all() if name.startswith(begin) and name.count("/") == deep)
        return sorted(found)

    def _loose_names(self, session: str | None) -> Iterator[tuple[str, str]]:
        folder = self.path / self.prefix
        for one in [session] if session else names(folder):
            # A link in the place of the folder is one ref that is no branch.
            for branch in () if (folder / one).is_symlink() else names(folder / one, files=True):
                # git refuses ref names that end so: they are lock files.
                if not branch.endswith(".lock"):
                    yield one, branch

    def tracking(self, path: str) -> dict[str, bytes]:
        """What git remembers that remotes have of branch ``path`` (``Name.path``): commit ids by full ref name."""
        found: dict[str, bytes] = {}
        for remote in self._remotes():
            ref = f"{_REMOTES}{remote}/{path}"
            # One that is garbage holds nothing.
            with suppress(BadRef):
                if oid := self.read_ref(ref):
                    found[ref] = oid
        return found

    def copies(self) -> list[Store]:
        """The other places of branches in this repository: what it remembers of each remote, in a clone also its own.

        They share nothing with this store; their tails are not of their branches.
        """
        prefixes = [refs.OWN_PREFIX, *(f"{_REMOTES}{remote}/" for remote in self._remotes())]
        there = [one for one in prefixes if one != self.prefix and not (self.path / one.rstrip("/")).is_symlink()]
        return [Store(self.path, prefix) for prefix in there]

    def _remotes(self) -> list[str]:
        packed = (name.removeprefix(_REMOTES) for name in self._packed.all() if name.startswith(_REMOTES))
        found = {*names(self.path / _REMOTES), *(name.partition("/")[0] for name in packed)}
        return sorted(filter(refs.is_remote, found))

    def foreign_refs(self) -> int:
        """How many refs under refs/heads and refs/remotes are no branches, here or of a remote. StorageError."""
        found = {name for name in self._packed.all() if name.startswith(_WHERE_BRANCHES_ARE)}
        for begin in _WHERE_BRANCHES_ARE:
            with disk_errors(f"list {begin}"):
                found.update(f"{begin}{name}" for name in _below(self.path / begin.rstrip("/")))
        return sum(not (_REMOTE_HEAD.fullmatch(name) or _is_branch(name)) for name in found)

    def packed_stamp(self) -> Stamp:
        """What changes when git's file of packed refs does. StorageError."""
        return self._packed.stamp()

    def loose_refs(self) -> dict[str, str]:
        """What the journal's refs hold that have a file of their own, by ``<session>/<branch>``: mostly an id (hex).

        A branch that has none is in packed-refs or nowhere. A file that cannot be read (a link, a pipe) is `UNREAD`:
        who reads that branch learns why.
        """
        found = {}
        for session, branch in self._loose_names(None):
            name = f"{session}/{branch}"
            with suppress(FileNotFoundError):
                found[name] = self._loose_ref(name)
        return found

    def _loose_ref(self, name: str) -> str:
        try:
            return _read_small(f"{self._folder}/{self.prefix}{name}").decode("ascii", "replace").strip()
        except FileNotFoundError:
            raise
        except OSError:
            return UNREAD

    def heads(self) -> dict[str, str]:
        """What all of the journal's refs hold, by ``<session>/<branch>``, as `loose_refs`. StorageError."""
        # The loose ones first: one that git packs meanwhile is then seen twice, not missed.
        loose_ones = self.loose_refs()
        start, deep = len(self.prefix), self.prefix.count("/") + 1
        packed = self._packed.all().items()
        mine = {ref[start:]: oid for ref, oid in packed if ref.startswith(self.prefix) and ref.count("/") == deep}
        return mine | loose_ones

    def pack_refs(self) -> None:
        """Write all refs into git's one file of them, as ``git pack-refs --all`` does. StorageError.

        Who moves a ref meanwhile is not disturbed: git's locks are taken.
        """
        import pygit2

        try:
            self._repo.references.compress()
        except (pygit2.GitError, OSError) as error:
            raise StorageError(f"the refs of {self.path} cannot be packed: {error}") from None
        folder = self.path / self.prefix
        for session in names(folder):
            # libgit2 leaves the folders; looking into each of them is what packing is to save.
            with suppress(OSError):
                (folder / session).rmdir()

    def spellings(self, session: str) -> set[str]:
        """The encoded session ids among the refs that are ``session`` in whatever case.

        Looks at names alone, for it is asked whenever a session or branch begins, however many there are.
        """
        packed = (name.removeprefix(self.prefix) for name in self._packed.all() if name.startswith(self.prefix))
        found = {*names(self.path / self.prefix), *(name.partition("/")[0] for name in packed)}
        return {name for name in found if name.lower() == session.lower()}

    def cas_ref(self, ref: str, old: bytes | None, new: bytes | None) -> None:
        """Move ``ref`` from ``old`` (None: it must not exist) to ``new`` (None: delete), under git's lock of the ref.

        Raises ConflictError when the ref is not at ``old``, RefLocked when the lock is not to be had.
        """
        deadline = time.monotonic() + LOCK_PATIENCE
        while refusal := self._try_cas(ref, old, new):
            if time.monotonic() > deadline:
                raise self._locked(ref, refusal)
            time.sleep(0.01)

    def _try_cas(self, ref: str, old: bytes | None, new: bytes | None) -> str:
        """One attempt: why the lock was not to be had, or nothing. Only the ref itself says how it ended."""
        import pygit2

        locked = False
        try:
            with self._repo.transaction() as transaction:
                transaction.lock_ref(ref)
                locked = True
                self._expect(ref, old)
                if new is None:
                    transaction.remove(ref)
                else:
                    transaction.set_target(ref, new.hex())
        except (pygit2.GitError, OSError, ValueError, KeyError) as error:
            # By libgit2's words, not by the file: its owner may have removed it, or its new folder, before we look.
            if not locked and "lock" in str(error):
                return str(error)
            if self.read_ref(ref) != new:
                raise StorageError(f"ref {ref} cannot be moved: {error}") from None
        return ""

    def _expect(self, ref: str, old: bytes | None) -> None:
        found = self.read_ref(ref)
        if found != old:
            there = found.hex() if found else "absent"
            raise ConflictError(f"ref {ref} is {there}, expected {old.hex() if old else 'absent'}")

    def drop_dead_lock(self, ref: str) -> None:
        """Remove the lock file of a ref whose last writer has died; the caller holds the branch's lease.

        A lock that is alive is held for milliseconds, so one that stays as it is for a second belonged to the dead.
        """
        lock = self.path / f"{ref}.lock"
        try:
            before = lock.stat()
            time.sleep(max(0.0, min(DEAD_LOCK, DEAD_LOCK - (time.time() - before.st_mtime))))
            after = lock.stat()
            if (before.st_ino, before.st_mtime_ns) == (after.st_ino, after.st_mtime_ns):
                lock.unlink()
        except OSError:
            # Gone meanwhile; or it stays, and the move of the ref will name it.
            return

    def _locked(self, ref: str, refusal: str) -> JournalError:
        lock = self.path / f"{ref}.lock"
        try:
            age = f"{time.time() - lock.stat().st_mtime:.0f} s old"
        except OSError:
            return StorageError(f"ref {ref} cannot be moved: {refusal}")
        return RefLocked(
            f"ref {ref} is locked by {lock} ({age})",
            hint="If no git or gj process is running, the one that made the file has died: remove the file.",
        )


def _is_branch(ref: str) -> bool:
    """Whether a ref is a branch of ours, here or of a remote."""
    begin = _BEFORE_NAME.match(ref)
    if begin is None or not (begin[1] is None or refs.is_remote(begin[1])):
        return False
    return refs.parse_ref(ref, begin[0]) is not None


def _read_small(path: str) -> bytes:
    """The first bytes of a file, with as few calls of the system as can be: each read of an event begins with a ref."""
    fd = open_regular(path, os.O_NOFOLLOW)
    try:
        return os.read(fd, 4096)
    finally:
        os.close(fd)


def names(folder: Path, *, files: bool = False) -> list[str]:
    """The names in a folder, none where it is not there or goes away meanwhile. StorageError.

    With ``files`` without folders: they hold the refs of other work.
    """
    try:
        with os.scandir(folder) as found:
            return [entry.name for entry in found if not (files and entry.is_dir(follow_symlinks=False))]
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise StorageError(f"cannot list {folder}: {error.strerror}") from None


def _below(folder: Path) -> Iterator[str]:
    """The names of all refs below a folder, relative to it; a link in the place of a folder is one ref. OSError."""
    # No recursion: a folder can be nested deeper than that goes.
    todo = [""] if folder.is_dir() and not folder.is_symlink() else []
    while todo:
        begin = todo.pop()
        with os.scandir(f"{folder}/{begin}") as found:
            for entry in found:
                if entry.is_dir(follow_symlinks=False):
                    todo.append(f"{begin}{entry.name}/")
                elif not entry.name.endswith(".lock"):
                    yield begin + entry.name


def check_kind(path: Path) -> None:
    """Refuse what is no SHA-1 repository with ``files`` refs, by name. Raises NotAJournal."""
    if not (path / "objects").is_dir() or not (path / "HEAD").is_file():
        raise NotAJournal(f"{path} is not a git repository")
    if (path / "reftable").is_dir():
        raise NotAJournal(f"{path} keeps its refs in reftable; a journal needs files")
    with suppress(OSError):
        shallow = (path / "shallow").lstat()
        if stat.S_ISREG(shallow.st_mode) and shallow.st_size > MAX_TEXT:
            raise NotAJournal(f"{path / 'shallow'} is too large")
    objects, storage = _extensions(path / "config")
    hint = "Make the journal with `gj init`, or git with: git init --bare --object-format=sha1 --ref-format=files"
    if objects.lower() != "sha1":
        raise NotAJournal(f"{path} uses {objects} object ids; a journal needs sha1", hint=hint)
    if storage.lower() != "files":
        raise NotAJournal(f"{path} keeps its refs in {storage}; a journal needs files", hint=hint)


def _extensions(path: Path) -> tuple[str, str]:
    """What a config says of the format of objects and refs."""
    if _is_plain(path):
        return "sha1", "files"
    import pygit2

    try:
        config = pygit2.Config(str(path))
        objects = _setting(config, "extensions.objectformat", "sha1")
        return objects, _setting(config, "extensions.refstorage", "files")
    except (pygit2.GitError, OSError) as error:
        raise NotAJournal(f"{path} cannot be read: {error}") from None


def _is_plain(path: Path) -> bool:
    """Whether a config is one that need not be parsed. NotAJournal when it is so large that it must not be."""
    try:
        raw = read_regular(path)
    except OSError as error:
        if error.errno == errno.EFBIG:
            raise NotAJournal(f"{path} is too large for a config") from None
        return False
    return len(raw) <= _MOST_PLAIN and _PLAIN_CONFIG.fullmatch(raw) is not None


def _setting(config: Any, name: str, default: str) -> str:
    return str(config[name]) if name in config else default


def create(path: Path) -> None:
    """Make an empty bare SHA-1 repository with ``files`` refs at ``path``, readable by its owner only."""
    import pygit2

    try:
        path.mkdir(parents=True, exist_ok=True, mode=0o700)
        repo = pygit2.init_repository(str(path), bare=True, initial_head=f"{refs.OWN_PREFIX[11:]}journal/main")
        config = repo.config
        # A host that takes pushes to the journal keeps it append-only, and checks what it takes.
        config["receive.denyNonFastForwards"] = True
        config["receive.denyDeletes"] = True
        config["transfer.fsckObjects"] = True
        # gj folds the packs by itself. git would unpack what is only a page, and wait two weeks to remove it.
        config["gc.auto"] = 0
        os.chmod(path, 0o700)
    except (OSError, pygit2.GitError) as error:
        raise StorageError(f"cannot make a journal at {path}: {error}") from None
    check_kind(path)
