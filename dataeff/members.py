"""The public names of a class with their types and documentation, read off its source."""

import ast
import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

_HOME = Path(__file__).parent
HOMES = {
    "run": ("Run", _HOME / "training" / "run.py"),
    "batch": ("Batch", _HOME / "training" / "batch.py"),
    "strategy": ("Strategy", _HOME / "strategy.py"),
}
"""The classes that a strategy meets, by the word that `dataeff hooks` takes, and their files."""


@dataclass(frozen=True)
class Member:
    """A public name: `name: type`, or `name(parameters) -> type`, and what is said of it."""

    name: str
    form: str
    text: str


@dataclass(frozen=True)
class Described:
    """A class: its documentation and its public names, in the order of the source."""

    name: str
    text: str
    members: list[Member]


def describe(word: str) -> Described:
    """Describe a class of `HOMES`."""
    return described(*HOMES[word])


def described(name: str, path: Path) -> Described:
    """Describe a class of a file without importing it, and torch with it."""
    node = class_node(name, path)
    return Described(name, ast.get_docstring(node) or "", list(_members(node)))


def class_node(name: str, path: Path) -> ast.ClassDef:
    """Return a class of a file, parsed."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return next(node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == name)


def _members(node: ast.ClassDef) -> Iterator[Member]:
    for statement, after in pairwise([*node.body, ast.Pass()]):
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            name, kind = statement.target.id, _attribute_type(statement.annotation)
            if not name.startswith("_"):
                yield Member(name, f"{name}: {kind}", _literal(after))
        elif isinstance(statement, ast.FunctionDef) and not statement.name.startswith("_"):
            marks = [ast.unparse(mark) for mark in statement.decorator_list]
            # A setter has the name and the documentation of its property.
            if not any(mark.endswith(".setter") for mark in marks):
                form = _form(node.name, statement, marks)
                yield Member(statement.name, form, ast.get_docstring(statement) or "")


def _attribute_type(annotation: ast.expr) -> str:
    """Return a type as text; that it belongs to the class is no news here."""
    if isinstance(annotation, ast.Subscript) and ast.unparse(annotation.value) == "ClassVar":
        annotation = annotation.slice
    return ast.unparse(annotation)


def _literal(statement: ast.stmt) -> str:
    """Return the text that stands by itself below an attribute, '' where there is none."""
    value = statement.value if isinstance(statement, ast.Expr) else None
    text = value.value if isinstance(value, ast.Constant) else None
    return inspect.cleandoc(text) if isinstance(text, str) else ""


def _form(owner: str, function: ast.FunctionDef, marks: list[str]) -> str:
    returns = ast.unparse(function.returns) if function.returns else "None"
    if {"property", "cached_property"} & set(marks):
        return f"{function.name}: {returns}"
    if "contextmanager" in marks:
        returns = returns.replace("Iterator", "AbstractContextManager", 1)
    if "staticmethod" not in marks:
        del function.args.args[:1]
    whose = f"{owner}." if {"classmethod", "staticmethod"} & set(marks) else ""
    return f"{whose}{function.name}({ast.unparse(function.args)}) -> {returns}"
