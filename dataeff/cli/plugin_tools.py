"""Tools for plugin authors and users: describe, write, install."""

from __future__ import annotations

import importlib.resources
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Container
from keyword import iskeyword
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Any

import click

from dataeff.errors import DataeffError

if TYPE_CHECKING:
    from dataeff.plugins import Installed

_FILES = {
    "pyproject.toml.in": "pyproject.toml",
    "module.py.in": "dataeff_$name.py",
    "test.py.in": "test_$name.py",
    "README.md.in": "README.md",
}


def describe(installed: Installed) -> list[dict[str, Any]]:
    """Return one line per plugin: name, version, source, strategies, hooks, error."""
    from dataeff.plugins import hooks_of

    lines = []
    for plugin in installed.plugins:
        entries = installed.offered_by(plugin)
        hooks = sorted({hook for entry in entries for hook in hooks_of(entry.factory)})
        lines.append(
            {
                "name": plugin.name,
                "version": plugin.version,
                "source": plugin.source,
                "strategies": [entry.name for entry in entries],
                "hooks": hooks,
                "error": plugin.error,
            }
        )
    return lines


def new(text: str, into: Path, taken: Container[str] = ()) -> Path:
    """Write the package dataeff-NAME into a folder; return the package's folder."""
    name = text.lower().replace("-", "_").removeprefix("dataeff_")
    words = {
        "name": name,
        "dashed": name.replace("_", "-"),
        "title": name.replace("_", " ").capitalize(),
        "Class": "".join(word.capitalize() for word in name.split("_")),
    }
    if not re.fullmatch(r"[a-z][a-z0-9]*(_[a-z0-9]+)*", name) or iskeyword(words["Class"]):
        raise DataeffError(
            f"{text!r} is no name for a plugin; use letters, digits and dashes: my-idea."
        )
    if name in taken:
        raise DataeffError(f"There is a strategy {name} already; choose another name.")
    folder = into / f"dataeff-{words['dashed']}"
    if folder.exists():
        raise DataeffError(f"{folder} is there already; choose another name or delete it.")
    folder.mkdir(parents=True)
    templates = importlib.resources.files("dataeff.template")
    for source, target in _FILES.items():
        content = Template(templates.joinpath(source).read_text(encoding="utf-8")).substitute(words)
        (folder / Template(target).substitute(words)).write_text(content, encoding="utf-8")
    return folder


def pip(*arguments: str) -> None:
    """Run the pip of this environment (or uv's, where there is no pip), saying what is run."""
    command = [sys.executable, "-m", "pip", *arguments]
    if subprocess.run([*command[:3], "--version"], capture_output=True, check=False).returncode:
        if not shutil.which("uv"):
            raise DataeffError(f"This environment has no pip; type: {sys.executable} -m ensurepip")
        uv_arguments = [part for part in arguments if part != "--yes"]
        command = ["uv", "pip", uv_arguments[0], "--python", sys.executable, *uv_arguments[1:]]
    click.echo(f"$ {shlex.join(command)}")
    code = subprocess.run(command, check=False).returncode
    if code:
        raise DataeffError(f"pip ended with code {code}; its own message is above.")
