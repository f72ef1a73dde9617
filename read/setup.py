"""Cuts the part that reads results out of dataeff: what its commands import, and nothing else."""

import ast
import sys
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

ROOT = Path(__file__).resolve().parent.parent
COMMANDS = ("leaderboard", "report", "site", "plot", "compare", "merge", "export")
# What programs read results by: `dataeff.read`.
DOOR = "dataeff.door.result"


def file_of(module):
    """Return the file of a module of dataeff, None where it is a name in one."""
    place = ROOT / module.replace(".", "/")
    found = (place.with_suffix(".py"), place / "__init__.py")
    return next((path for path in found if path.is_file()), None)


def imports_of(path):
    """Return what a file imports, at once or later, but for type checkers alone."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            node.body = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def needed():
    """Return the modules of dataeff that reading needs, and the libraries that these need."""
    waiting = [DOOR, *(f"dataeff.cli.{name}" for name in COMMANDS)]
    modules, libraries = set(), set()
    while waiting:
        module = waiting.pop()
        if module in modules or (path := file_of(module)) is None:
            continue
        modules.add(module)
        # A module is imported after the packages that it is in.
        found = [module.rpartition(".")[0], *imports_of(path)]
        waiting += [name for name in found if name.split(".")[0] == "dataeff"]
        libraries |= {name.split(".")[0] for name in found if name}
    return modules, libraries - {"dataeff"} - sys.stdlib_module_names


class Cut(build_py):
    """Builds the modules that are needed."""

    def find_package_modules(self, package, package_dir):
        """Return those of a package."""
        found = super().find_package_modules(package, package_dir)
        return [one for one in found if _name(package, one[1]) in MODULES]


def _name(package, module):
    return package if module == "__init__" else f"{package}.{module}"


MODULES, LIBRARIES = needed()

if __name__ == "__main__":
    setup(
        packages=sorted(name for name in MODULES if file_of(name).name == "__init__.py"),
        package_dir={"dataeff": "../dataeff"},
        package_data={
            "dataeff": ["py.typed"],
            "dataeff.report.web": ["*.html", "*.css", "*.js"],
        },
        cmdclass={"build_py": Cut},
    )
