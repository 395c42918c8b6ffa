"""Fixtures that all tests share."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from hypothesis import HealthCheck, settings
from support import Gj

import gitjournal
from gitjournal import cli
from gitjournal import store as storage
from gitjournal.journal import Journal
from gitjournal.store import Store

# No test asserts a time, and this machine may be busy with something else.
settings.register_profile("gitjournal", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("gitjournal")


@pytest.fixture(autouse=True, scope="session")
def own_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Folders of the user's own for this run: verifications remember heads, and keys are looked for."""
    home = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        for name in ("HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME"):
            patch.setenv(name, str(home))
        patch.delenv("SSH_AUTH_SOCK", raising=False)
        yield


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    """A new journal with nothing in it but its own log."""
    return gitjournal.init(tmp_path / "journal")


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    """A new bare repository as `gj init` makes it, without any object or ref."""
    path = tmp_path / "repo.git"
    storage.create(path)
    return path


@pytest.fixture
def store(repo: Path) -> Store:
    """The repository of `repo`, opened."""
    return Store(repo)


@pytest.fixture
def public() -> Iterator[Path]:
    """A folder that other users can reach. pytest's own is closed to them anew by every run that begins meanwhile."""
    with tempfile.TemporaryDirectory(prefix="gitjournal-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        if not all(parent.stat().st_mode & 0o001 for parent in folder.parents):
            pytest.skip(f"other users cannot reach {folder}")
        yield folder


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Where the journal of `gj` is."""
    return tmp_path / "journal"


@pytest.fixture
def gj(place: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Gj:
    """Run ``gj`` in this process; ``ok=False`` allows any exit status."""
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    monkeypatch.setenv("GITJOURNAL_DIR", str(place))

    def run(*words: object, stdin: str | bytes | None = None, ok: bool = True) -> Result:
        result = CliRunner().invoke(cli.gj, [str(word) for word in words], input=stdin, prog_name="gj")
        assert "Traceback" not in result.output
        if ok:
            assert result.exit_code == 0, result.output
        return result

    return run
