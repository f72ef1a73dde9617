"""The package that `dataeff plugins new` writes: templates, and how they are filled in."""

import re
from collections.abc import Container
from keyword import iskeyword
from pathlib import Path
from string import Template

from dataeff.errors import DataeffError


def write_package(text: str, into: Path, taken: Container[str] = ()) -> Path:
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
    for source in Path(__file__).parent.glob("*.in"):
        content = Template(source.read_text(encoding="utf-8")).substitute(words)
        (folder / source.stem.replace("NAME", name)).write_text(content, encoding="utf-8")
    return folder
