"""The wheel: suites, template and page travel with it, and it runs from any folder."""

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """Build the wheel from a copy, so that the checkout stays clean."""
    place = tmp_path_factory.mktemp("wheel")
    source = place / "source"
    keep_out = shutil.ignore_patterns(".*", "__pycache__", "*.egg-info", "results", "build")
    shutil.copytree(ROOT, source, ignore=keep_out)
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*command, "--wheel-dir", str(place), str(source)], check=True)
    return next(place.glob("*.whl"))


def test_everything_travels(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    for name in (
        "dataeff_suites/quickstart.toml",
        "dataeff_plugins/random_backprop.py",
        "dataeff/py.typed",
        "dataeff/template/dataeff_NAME.py.in",
        "dataeff/report/web/page.html",
    ):
        assert name in names
    assert not [name for name in names if name.startswith(("tests/", "results/", "benchmarks/"))]


@pytest.mark.long
def test_it_runs_from_any_folder(wheel, tmp_path):
    target = tmp_path / "site"
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index"]
    subprocess.run([*install, "--target", str(target), str(wheel)], check=True)
    environment = {**os.environ, "PYTHONPATH": str(target), "PYTHONDONTWRITEBYTECODE": "1"}
    code = (
        "import dataeff, dataeff_suites, dataeff_plugins, sys;"
        f"assert all({str(target)!r} in m.__file__ for m in (dataeff, dataeff_suites));"
        "from dataeff.cli import main; main(['suites'])"
    )
    empty = tmp_path / "empty"
    empty.mkdir()
    run = subprocess.run(
        [sys.executable, "-c", code],
        cwd=empty,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    assert "quickstart" in run.stdout
    assert not list(empty.iterdir())
