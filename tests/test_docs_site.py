"""The documentation as a site: it is built without a warning, and links find their pages."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from generator.gather import moved

ROOT = Path(__file__).parent.parent


@pytest.mark.parametrize(
    ("place", "link", "there"),
    [
        ("index.md", "[a](docs/hooks.md#load)", "[a](hooks.md#load)"),
        ("index.md", "[a](results/README.md)", "[a](results/README.md)"),
        ("hooks.md", "[a](run-and-batch.md)", "[a](run-and-batch.md)"),
        ("hooks.md", "[a](../results/README.md)", "[a](results/README.md)"),
        ("hooks.md", "[a](../README.md#develop)", "[a](index.md#develop)"),
        ("results/README.md", "[a](../docs/suites.md)", "[a](../suites.md)"),
        ("results/README.md", "[a](published/twin/README.md)", "[a](published/twin/README.md)"),
    ],
)
def test_links_are_as_in_the_site(place, link, there):
    assert moved(link, place) == there


@pytest.mark.long
def test_it_is_built_without_a_warning(tmp_path):
    pytest.importorskip(
        "material", reason="mkdocs-material is not installed: pip install '.[docs]'"
    )
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict"]
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    built = subprocess.run(
        [*command, "--config-file", ROOT / "mkdocs.yml", "--site-dir", tmp_path / "site"],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stderr
    text = (tmp_path / "site" / "index.html").read_text(encoding="utf-8")
    assert "Two commands" in text
    assert not re.findall(r'<(?:script|link|img)[^>]+(?:src|href)="http', text), "fetched elsewhere"
    for page in ("hooks", "strategies", "results/published/quickstart/index"):
        assert (tmp_path / "site" / f"{page}.html").exists()
