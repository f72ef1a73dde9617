"""Shared fixtures; one thread per test process, because the networks are tiny."""

import os
import random
import subprocess
import tempfile
from pathlib import Path

# Before torch is imported, and for the processes that tests start.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import browser
import hypothesis
import pytest
import torch
from hypothesis.configuration import set_hypothesis_home_dir
from loose import LOOSE

from dataeff.plugins import Installed, load_plugins

torch.set_num_threads(1)

# Nothing of hypothesis' own in the checkout; and no deadline, because machines are noisy.
set_hypothesis_home_dir(Path(tempfile.gettempdir()) / "dataeff-hypothesis")
hypothesis.settings.register_profile("dataeff", database=None, deadline=None)
hypothesis.settings.load_profile("dataeff")


EVERYTHING = os.environ.get("DATAEFF_ALL") == "1"
"""Whether every case is run (make test-all), or a sample of those that are many (make test)."""

MOST_CASES = 5
"""Cases of one test that make test runs at the most."""


def _commit() -> str:
    """Return the commit that is tested; a fixed word where there is no git."""
    here = Path(__file__).parent
    asked = ["git", "rev-parse", "--short=12", "HEAD"]
    try:
        return subprocess.run(asked, cwd=here, capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return "dataeff"


# A red run is repeated by the seed that stands below it; every process draws the same cases.
SEED = os.environ.setdefault("DATAEFF_SEED", _commit().strip())


def drawn(cases: list, count: int) -> list:
    """Return some cases, in their order, another choice for each commit; all of them if asked."""
    if EVERYTHING or count >= len(cases):
        return cases
    places = random.Random(SEED).sample(range(len(cases)), count)
    return [cases[place] for place in sorted(places)]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out three of four long tests and most cases of those that have many.

    Other ones for each commit; none that was asked for.
    """
    if config.args_source is pytest.Config.ArgsSource.ARGS:
        return
    long = [item for item in items if item.get_closest_marker("long")]
    kept = {
        *drawn(long, len(long) // 4),
        *(item for item in items if not item.get_closest_marker("long")),
    }
    tests: dict[str, list[pytest.Item]] = {}
    for item in items:
        if item in kept:
            tests.setdefault(item.nodeid.partition("[")[0], []).append(item)
    kept = {item for cases in tests.values() for item in drawn(cases, MOST_CASES)}
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = [item for item in items if item in kept]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say how the cases were chosen; a header is not shown by quiet runs."""
    again = f"some cases were drawn; the same again: DATAEFF_SEED={SEED}; all: DATAEFF_ALL=1"
    terminalreporter.write_line("every case was run" if EVERYTHING else again)


@pytest.fixture(scope="session")
def shared_installed() -> Installed:
    return load_plugins()


@pytest.fixture
def installed(shared_installed) -> Installed:
    """What is installed, with registries that a test may add to."""
    fresh = Installed(plugins=list(shared_installed.plugins))
    for kind in ("strategies", "datasets", "models", "suites", "analyses", "observers"):
        getattr(fresh, kind).update(getattr(shared_installed, kind))
    return fresh


@pytest.fixture(autouse=True, scope="session")
def cache_home(tmp_path_factory):
    """Keep the user's own cache and key out of tests; theirs is shared by all of a session."""
    base = tmp_path_factory.getbasetemp()
    home = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "cache"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(home))
        patch.setenv("XDG_STATE_HOME", str(home.with_name("state")))
        yield home


@pytest.fixture
def loose(tmp_path):
    """Return a folder with a loose plugin."""
    folder = tmp_path / "loose"
    folder.mkdir()
    (folder / "half.py").write_text(LOOSE)
    return str(folder)


@pytest.fixture(autouse=True)
def _away_from_the_checkout(tmp_path, monkeypatch):
    """Run in an empty folder, so that no test leaves files behind in the checkout."""
    monkeypatch.chdir(tmp_path)
    for name in ("DATAEFF_RESULTS", "DATAEFF_LOAD_PLUGINS"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="module")
def tab():
    """Return a tab of a browser, for the tests of one file."""
    if browser.installed() is None:
        pytest.skip("no chromium, chromium-browser or google-chrome is on the PATH")
    with browser.Browser() as opened:
        yield opened
