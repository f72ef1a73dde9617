"""Sources: what a result hangs on, as a hash of the code behind it."""

import ast
import hashlib
import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path


def digest(module: str) -> str:
    """Return a short hash of a module's source, '' where there is none.

    It covers the module and those of its own package that it imports, directly or not; of the
    harness, those of the same room.
    """
    texts = own_sources(module)
    whole = "".join(texts[name] for name in sorted(texts))
    return hashlib.sha256(whole.encode()).hexdigest()[:8] if texts else ""


def beside(module: str) -> str:
    """Return a short hash of a module's source and of those that lie in its folder, '' for none.

    It covers those that it imports, directly or not: code of a user's own need be no package.
    """
    folder = _folder(module)
    # What is installed lies beside everything else that is.
    own = None if folder is None or folder.name.endswith("-packages") else folder
    texts = own_sources(module, lambda other: own is not None and _folder(other) == own)
    whole = "".join(texts[name] for name in sorted(texts))
    return hashlib.sha256(whole.encode()).hexdigest()[:8] if texts else ""


def _folder(module: str) -> Path | None:
    """Return the folder that the file, or the package, of a module's first name lies in."""
    file = _file_of(module.partition(".")[0])
    if file is None:
        return None
    place = Path(file).resolve()
    return place.parent.parent if place.name == "__init__.py" else place.parent


def own_sources(name: str, more: Callable[[str], bool] = lambda other: False) -> dict[str, str]:
    """Read a module and what it imports of its own package, wherever in the file it does so.

    `more` says what else counts as its own.
    """
    texts: dict[str, str] = {}
    waiting = [name]
    while waiting:
        name = waiting.pop()
        text = None if name in texts else source_of(name)
        if text is None:
            continue
        texts[name] = text
        for node in ast.walk(ast.parse(text)):
            names = []
            if isinstance(node, ast.ImportFrom):
                origin = _absolute(node, name)
                # What is imported is a module itself, or something that a module holds.
                whole = [f"{origin}.{alias.name}" for alias in node.names]
                names = [other if source_of(other) else origin for other in whole]
            elif isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            waiting += [other for other in names if _own(name) == _own(other) or more(other)]
    return texts


def _own(name: str) -> str:
    """Return what a module shares with those that it is hashed with: its package; ours, a room."""
    parts = name.split(".")
    return ".".join(parts[:2]) if parts[0] == "dataeff" else parts[0]


def _absolute(node: ast.ImportFrom, name: str) -> str:
    """Return the module that a statement of another one imports from."""
    if not node.level:
        return str(node.module)
    is_package = (_file_of(name) or "").endswith("__init__.py")
    parts = name.split(".")
    parts = parts[: len(parts) - node.level + is_package]
    return ".".join([*parts, node.module] if node.module else parts)


def source_of(name: str) -> str | None:
    """Return the text of a module's file, None where it has none."""
    file = _file_of(name)
    return Path(file).read_text(encoding="utf-8") if file else None


def _file_of(name: str) -> str | None:
    """Return the file of a module's source."""
    if module := sys.modules.get(name):
        file: str | None = getattr(module, "__file__", None)
    else:
        try:
            spec = importlib.util.find_spec(name)
        # A name of nothing, too.
        except (ImportError, ValueError):
            return None
        file = spec.origin if spec else None
    return file if file and file.endswith(".py") else None
