"""Fixtures that all tests share."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

import gitjournal
from gitjournal import store as storage
from gitjournal.journal import Journal
from gitjournal.store import Store

# No test asserts a time, and this machine may be busy with something else.
settings.register_profile("gitjournal", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("gitjournal")


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
