"""dataeff-read: what reads results, in a wheel of its own that needs no torch."""

import importlib.metadata
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
ASKED = tomllib.loads((ROOT / "read" / "pyproject.toml").read_text())["project"]
WHOLE = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
# Distributions that are imported by another name.
CALLED = {"pydantic-core": "pydantic_core"}


@pytest.fixture(scope="module")
def cut():
    """Return the script that cuts the part out."""
    spec = importlib.util.spec_from_file_location("cut", ROOT / "read" / "setup.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def named(requirement):
    """Return the distribution that a requirement is of."""
    return re.match(r"[\w.-]+", requirement)[0].lower().replace("_", "-")


def test_what_reads_needs_what_is_declared_and_no_torch(cut):
    declared = {CALLED.get(name, name) for name in map(named, ASKED["dependencies"])}
    assert declared == cut.LIBRARIES
    assert not {name for name in cut.MODULES if name.startswith("dataeff.training")}
    assert {f"dataeff.cli.{name}" for name in cut.COMMANDS} <= cut.MODULES


def test_it_is_of_the_version_of_the_whole():
    assert ASKED["version"] == WHOLE["version"]
    assert ASKED["requires-python"] == WHOLE["requires-python"]
    bounds = {named(one): one for one in WHOLE["dependencies"]}
    shared = [one for one in ASKED["dependencies"] if named(one) in bounds]
    assert shared == [bounds[named(one)] for one in shared]


# Built and installed -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """Build the wheel from a copy, so that the checkout stays clean."""
    place = tmp_path_factory.mktemp("read")
    keep_out = shutil.ignore_patterns("__pycache__", "build", "*.egg-info")
    for name in ("read", "dataeff"):
        shutil.copytree(ROOT / name, place / name, ignore=keep_out)
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    command += ["--wheel-dir", str(place), str(place / "read")]
    subprocess.run(command, check=True, capture_output=True)
    return next(place.glob("*.whl"))


@pytest.fixture(scope="module")
def bare(wheel, tmp_path_factory):
    """Return a virtual environment with the wheel, and what it declares to need: nothing else."""
    place = tmp_path_factory.mktemp("bare") / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(place)], check=True)
    (packages,) = place.glob("lib/python*/site-packages")
    for path in {path for name in _needed(ASKED["dependencies"]) for path in _tops(name)}:
        (packages / path.name).symlink_to(path)
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index"]
    subprocess.run([*install, "--target", str(packages), str(wheel)], check=True)
    return place / "bin" / "python"


def _needed(requirements):
    """Return the distributions of requirements, and all that these need in turn."""
    waiting, found = [named(one) for one in requirements], set()
    while waiting:
        name = waiting.pop()
        if name in found:
            continue
        try:
            more = importlib.metadata.distribution(name).requires or []
        except importlib.metadata.PackageNotFoundError:
            # For another system than this.
            continue
        found.add(name)
        waiting += [named(one) for one in more if "extra ==" not in one]
    return found


def _tops(name):
    """Return what a distribution has put beside others."""
    dist = importlib.metadata.distribution(name)
    tops = {file.parts[0] for file in dist.files if file.parts[0] not in ("..", "__pycache__")}
    return [Path(dist.locate_file(top)) for top in tops]


@pytest.mark.long
def test_nothing_travels_that_does_not_read(wheel, cut):
    names = set(zipfile.ZipFile(wheel).namelist())
    modules = {
        name.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        for name in names
        if name.endswith(".py")
    }
    assert modules == cut.MODULES
    assert {
        "dataeff/py.typed",
        "dataeff/report/web/page.html",
        "dataeff/report/web/page.js",
    } <= names


def called(python, *words):
    """Call dataeff in an environment, in which nothing is remembered of this one."""
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    process = [str(python), "-c", "from dataeff.cli import main; main()", *map(str, words)]
    return subprocess.run(process, capture_output=True, text=True, env=environment, check=False)


@pytest.mark.long
def test_results_are_read_without_torch(bare, tmp_path):
    code = "import torch"
    assert subprocess.run([bare, "-c", code], capture_output=True, check=False).returncode == 1
    published = ROOT / "results" / "published"
    shutil.copytree(published / "quickstart", tmp_path / "results" / "quickstart")
    said = called(bare, "leaderboard", "quickstart", "--results", tmp_path / "results")
    assert said.returncode == 0, said.stderr
    assert "infobatch is the best bet" in said.stdout
    for words in (("report",), ("plot", "--format", "svg"), ("compare", "baseline", "infobatch")):
        command, *more = words
        told = called(bare, command, "quickstart", *more, "--results", tmp_path / "results")
        assert told.returncode == 0, told.stderr
    told = called(bare, "site", tmp_path / "results", "--out", tmp_path / "site")
    assert told.returncode == 0, told.stderr
    code = "import sys, dataeff; print(dataeff.read(sys.argv[1]).answer.strategy)"
    folder = tmp_path / "results" / "quickstart"
    told = subprocess.run([bare, "-c", code, folder], capture_output=True, text=True, check=False)
    assert told.stdout == "infobatch\n", told.stderr
    assert called(bare, "--version").stdout.strip().endswith(ASKED["version"])


@pytest.mark.long
def test_what_trains_says_what_to_install(bare):
    for words in (("run", "quickstart"), ("verify", "quickstart"), ("strategies",), ("doctor",)):
        told = called(bare, *words)
        assert (told.returncode, told.stdout) == (2, "")
        assert told.stderr == (
            f"Error: dataeff {words[0]} needs torch, which is not installed; type: pip install "
            "dataeff\n"
        )
    listed = called(bare, "--help").stdout
    assert "leaderboard" in listed
    assert not re.search(r"^  (run|verify|doctor) ", listed, flags=re.M)
    code = "from dataeff import Strategy"
    told = subprocess.run([bare, "-c", code], capture_output=True, text=True, check=False).stderr
    assert "ImportError: dataeff.Strategy needs torch, which is not installed" in told
