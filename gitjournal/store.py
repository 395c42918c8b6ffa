"""The git repository behind a journal: raw objects, packs, and refs by compare-and-swap.

Floor 1, and the only module that knows pygit2. Reads take raw objects by id and hash them again; they never ask git
for parents or histories, so replace refs, grafts, shallow files and commit-graphs have no say.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol
from zlib import error as zlib_error

import pygit2

from gitjournal import pack, refs, tiers
from gitjournal.errors import ConflictError, NotAJournal, RefLocked, StorageError, UsageError, VerificationError
from gitjournal.objects import git_id
from gitjournal.packread import BadPack, Deep, Packs

#: How long a ref move waits for another process's lock file, in seconds.
LOCK_PATIENCE = 2.0
_KINDS = {1: b"commit", 2: b"tree", 3: b"blob", 4: b"tag"}


class ObjectReader(Protocol):
    """What reading and verification need of a store."""

    def read(self, oid: bytes, kind: bytes) -> bytes:
        """Content of an object, hashed again. VerificationError: ``missing-object``, ``bad-object``."""

    def holds(self, oid: bytes, kind: bytes, content: bytes) -> bool:
        """Whether the object is there with this content, whose id the caller has computed. Never raises."""

    def read_ref(self, ref: str) -> bytes | None:
        """The commit id that a ref names, or None."""

    def is_shallow(self) -> bool:
        """Whether git itself says that older commits are missing here."""


class Store:
    """One repository. Safe to share between threads."""

    def __init__(self, path: Path, prefix: str = refs.OWN_PREFIX) -> None:
        """Open the repository whose git folder is ``path``. Raises NotAJournal for a kind that cannot be used."""
        self.path = path
        self.prefix = prefix
        self.pack_folder = path / "objects" / "pack"
        self._packs = Packs(self.pack_folder)
        self._local = threading.local()
        check_kind(path)
        # libgit2 syncs refs only when asked, and the switch is one for the whole process. Without it a power
        # cut after a flush could leave an empty ref although the tail has been cleared.
        pygit2.settings.enable_fsync_gitdir(True)
        _ = self._repo

    @property
    def _repo(self) -> Any:
        """This thread's handle: libgit2 handles may not be used by two threads at once."""
        repo = getattr(self._local, "repo", None)
        if repo is None:
            try:
                repo = self._local.repo = pygit2.Repository(str(self.path))
            except pygit2.GitError as error:
                raise NotAJournal(f"{self.path} cannot be opened as a git repository: {error}") from None
        return repo

    # --- objects -------------------------------------------------------------------------------

    def read(self, oid: bytes, kind: bytes) -> bytes:
        """Content of object ``oid``, hashed again. VerificationError: ``missing-object``, ``bad-object``."""
        found = self._raw(oid)
        if found is None:
            raise VerificationError("missing-object", f"{kind.decode()} {oid.hex()} is not there", oid=oid.hex())
        if found[0] != kind or git_id(kind, found[1]) != oid:
            raise VerificationError(
                "bad-object", f"{kind.decode()} {oid.hex()} does not hold what its id says", oid=oid.hex()
            )
        return found[1]

    def _raw(self, oid: bytes) -> tuple[bytes, bytes] | None:
        try:
            return self._packs.read(oid) or self._by_libgit2(oid)
        except Deep:
            return self._by_libgit2(oid)
        except (BadPack, OSError, zlib_error) as error:
            raise VerificationError("bad-object", f"object {oid.hex()}: {error}", oid=oid.hex()) from None

    def _by_libgit2(self, oid: bytes) -> tuple[bytes, bytes] | None:
        """Loose objects, alternates and chains of deltas."""
        try:
            kind, content = self._repo.odb.read(pygit2.Oid(raw=oid))
        except KeyError:
            return None
        except pygit2.GitError as error:
            raise VerificationError("bad-object", f"object {oid.hex()}: {error}", oid=oid.hex()) from None
        return _KINDS[kind], content

    def holds(self, oid: bytes, kind: bytes, content: bytes) -> bool:
        """Whether the object is there with this content, whose id the caller has computed. Never raises."""
        try:
            return self._raw(oid) == (kind, content)
        except VerificationError:
            return False

    def has(self, oid: bytes, *, refresh: bool = True) -> bool:
        """Whether the object is there; without ``refresh``, as of the last look at the pack folder."""
        if self._packs.has(oid, refresh=refresh):
            return True
        return (self.path / "objects" / oid.hex()[:2] / oid.hex()[2:]).exists()

    def is_shallow(self) -> bool:
        """Whether git itself says that older commits are missing here (a shallow clone)."""
        return (self.path / "shallow").exists()

    def refresh(self) -> None:
        """Look again at the pack folder."""
        self._packs.refresh()

    def write_pack(self, objects: Sequence[pack.PackObject], *, keep: str, sync: bool) -> Path:
        """Write a pack that stays until `release`. StorageError."""
        return pack.write(self.pack_folder, objects, keep=keep, sync=sync)

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

    def fold(self, *, sync: bool) -> int:
        """One folding step; packs that went away."""
        return tiers.fold(self.pack_folder, self.path / "gitjournal" / "fold.lock", sync=sync)

    def check_writable(self) -> None:
        """Raise UsageError when the journal is a plain clone, whose branches are only copies of another's."""
        if self.prefix != refs.OWN_PREFIX:
            raise UsageError(
                f"{self.path} is a plain clone and can only be read", hint="Clone with --mirror to go on from there."
            )

    # --- refs ----------------------------------------------------------------------------------

    def read_ref(self, ref: str) -> bytes | None:
        """The commit id (20 bytes) that a ref names, or None when there is no such ref."""
        try:
            found = self._repo.references.get(ref)
        except (pygit2.GitError, ValueError) as error:
            raise StorageError(f"ref {ref} cannot be read: {error}") from None
        if found is None or not isinstance(found.target, pygit2.Oid):
            return None
        return bytes(found.target.raw)

    def list_refs(self, under: str = "") -> Iterator[str]:
        """Full names of the journal's refs, sorted; ``under`` narrows to names that begin with it."""
        prefix = self.prefix + under
        return iter(sorted(name for name in self._repo.listall_references() if name.startswith(prefix)))

    def cas_ref(self, ref: str, old: bytes | None, new: bytes | None) -> None:
        """Move ``ref`` from ``old`` (None: it must not exist) to ``new`` (None: delete), under git's lock of the ref.

        Raises ConflictError when the ref is not at ``old``, RefLocked when the lock is not to be had.
        """
        deadline = time.monotonic() + LOCK_PATIENCE
        while not self._try_cas(ref, old, new):
            if time.monotonic() > deadline:
                raise self._locked(ref)
            time.sleep(0.01)

    def _try_cas(self, ref: str, old: bytes | None, new: bytes | None) -> bool:
        """One attempt; False when another process holds the lock. Only the ref itself says how it ended."""
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
            if not locked and self._lock_file(ref).exists():
                return False
            if self.read_ref(ref) != new:
                raise StorageError(f"ref {ref} cannot be moved: {error}") from None
        return True

    def _expect(self, ref: str, old: bytes | None) -> None:
        found = self.read_ref(ref)
        if found != old:
            there = found.hex() if found else "absent"
            raise ConflictError(f"ref {ref} is {there}, expected {old.hex() if old else 'absent'}")

    def _lock_file(self, ref: str) -> Path:
        return self.path / f"{ref}.lock"

    def _locked(self, ref: str) -> RefLocked:
        lock = self._lock_file(ref)
        try:
            age = f"{time.time() - lock.stat().st_mtime:.0f} s old"
        except OSError:
            age = "gone by now"
        return RefLocked(
            f"ref {ref} is locked by {lock} ({age})",
            hint="If no git or gj process is running, the one that made the file has died: remove the file.",
        )


def check_kind(path: Path) -> None:
    """Refuse what is no SHA-1 repository with ``files`` refs, by name. Raises NotAJournal."""
    if not (path / "objects").is_dir() or not (path / "HEAD").is_file():
        raise NotAJournal(f"{path} is not a git repository")
    try:
        config = pygit2.Config(str(path / "config"))
        objects = _setting(config, "extensions.objectformat", "sha1")
        storage = _setting(config, "extensions.refstorage", "files")
    except (pygit2.GitError, OSError) as error:
        raise NotAJournal(f"{path / 'config'} cannot be read: {error}") from None
    hint = "Make the journal with `gj init`, or git with: git init --bare --object-format=sha1 --ref-format=files"
    if objects.lower() != "sha1":
        raise NotAJournal(f"{path} uses {objects} object ids; a journal needs sha1", hint=hint)
    if storage.lower() != "files":
        raise NotAJournal(f"{path} keeps its refs in {storage}; a journal needs files", hint=hint)


def _setting(config: Any, name: str, default: str) -> str:
    return str(config[name]) if name in config else default


def create(path: Path) -> None:
    """Make an empty bare SHA-1 repository with ``files`` refs at ``path``, readable by its owner only."""
    try:
        path.mkdir(parents=True, exist_ok=True, mode=0o700)
        repo = pygit2.init_repository(str(path), bare=True, initial_head=f"{refs.OWN_PREFIX[11:]}journal/main")
        config = repo.config
        # A host that takes pushes to the journal keeps it append-only, and checks what it takes.
        config["receive.denyNonFastForwards"] = True
        config["receive.denyDeletes"] = True
        config["transfer.fsckObjects"] = True
        os.chmod(path, 0o700)
    except (OSError, pygit2.GitError) as error:
        raise StorageError(f"cannot make a journal at {path}: {error}") from None
    check_kind(path)
