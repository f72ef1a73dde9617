"""The size of things: functions that fit a screen, few parameters, test files that one can read."""

import ast
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCES = [*sorted((ROOT / "dataeff").rglob("*.py")), *sorted((ROOT / "plugins").rglob("*.py"))]


def functions():
    """Yield every function of the harness and of the strategies, with where it stands."""
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef):
                yield f"{path.relative_to(ROOT)}:{node.name}", node


def parameters(node):
    given = node.args.posonlyargs + node.args.args + node.args.kwonlyargs
    return [one.arg for one in given if one.arg not in ("self", "cls")]


def test_at_most_ten_functions_have_more_than_five_parameters():
    many = [place for place, node in functions() if len(parameters(node)) > 5]
    assert len(many) <= 10, many


def test_no_function_is_longer_than_sixty_lines():
    long = [place for place, node in functions() if node.end_lineno - node.lineno + 1 > 60]
    assert not long


@pytest.mark.parametrize("path", sorted(Path(__file__).parent.glob("*.py")), ids=lambda p: p.name)
def test_no_test_file_is_longer_than_five_hundred_lines(path):
    assert len(path.read_text().splitlines()) <= 500


def test_modules_import_no_circle():
    modules = {_name(path): path for path in SOURCES if path.is_relative_to(ROOT / "dataeff")}
    imports = {name: _imported(path, modules) for name, path in modules.items()}
    done, path = set(), []

    def visit(name):
        assert name not in path, f"{' -> '.join(path[path.index(name) :])} -> {name}"
        if name not in done:
            path.append(name)
            for other in sorted(imports[name]):
                visit(other)
            done.add(path.pop())

    for name in sorted(modules):
        visit(name)


def _name(path):
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def _imported(path, modules):
    """Return the modules that a file imports when it is itself imported."""
    names = set()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.ImportFrom):
            whole = {f"{node.module}.{alias.name}" for alias in node.names}
            names |= whole & modules.keys() or {node.module}
        elif isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
    return names & modules.keys() - {_name(path)}


def test_every_package_is_in_the_wheel():
    content = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    listed = set(content["tool"]["setuptools"]["packages"])
    there = {
        ".".join(path.parent.relative_to(ROOT).parts)
        for path in (ROOT / "dataeff").rglob("__init__.py")
    }
    assert there <= listed
