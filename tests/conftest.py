"""Shared fixtures; one thread per test process, because the networks are tiny."""

import os
import tempfile
from pathlib import Path

# Before torch is imported, and for the processes that tests start.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import hypothesis
import pytest
import torch
from hypothesis.configuration import set_hypothesis_home_dir

from dataeff.plugins import Installed, load_plugins

torch.set_num_threads(1)

# Nothing of hypothesis' own in the checkout; and no deadline, because machines are noisy.
set_hypothesis_home_dir(Path(tempfile.gettempdir()) / "dataeff-hypothesis")
hypothesis.settings.register_profile("dataeff", database=None, deadline=None)
hypothesis.settings.load_profile("dataeff")


@pytest.fixture(scope="session")
def shared_installed() -> Installed:
    return load_plugins()


@pytest.fixture
def installed(shared_installed) -> Installed:
    """What is installed, with registries that a test may add to."""
    fresh = Installed(plugins=list(shared_installed.plugins))
    for kind in ("strategies", "datasets", "models", "suites", "analyses"):
        getattr(fresh, kind)._entries.update(getattr(shared_installed, kind)._entries)
    return fresh


@pytest.fixture(autouse=True)
def _away_from_the_checkout(tmp_path, monkeypatch):
    """Run in an empty folder, so that no test leaves files behind in the checkout."""
    monkeypatch.chdir(tmp_path)
    for name in ("DATAEFF_RESULTS", "DATAEFF_LOAD_PLUGINS"):
        monkeypatch.delenv(name, raising=False)
