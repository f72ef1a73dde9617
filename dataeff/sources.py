"""Sources: what a result hangs on, as a hash of the code behind it."""

import ast
import hashlib
import importlib.util
import sys
from pathlib import Path


def digest(module: str) -> str:
    """Return a short hash of a module's source, '' where there is none.

    It covers the module and those of its own package that it imports, directly or not; of the
    harness, those of the same room.
    """
    texts = own_sources(module)
    whole = "".join(texts[name] for name in sorted(texts))
    return hashlib.sha256(whole.encode()).hexdigest()[:8] if texts else ""


def own_sources(name: str) -> dict[str, str]:
    """Read a module and what it imports of its own package, wherever in the file it does so."""
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
            if isinstance(node, ast.ImportFrom) and not node.level:
                whole = [f"{node.module}.{alias.name}" for alias in node.names]
                # What is imported is a module itself, or something that a module holds.
                names = [other if source_of(other) else str(node.module) for other in whole]
            elif isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            waiting += [other for other in names if _own(name) == _own(other)]
    return texts


def _own(name: str) -> str:
    """Return what a module shares with those that it is hashed with: its package; ours, a room."""
    parts = name.split(".")
    return ".".join(parts[:2]) if parts[0] == "dataeff" else parts[0]


def source_of(name: str) -> str | None:
    """Return the text of a module's file, None where it has none."""
    if module := sys.modules.get(name):
        file: str | None = getattr(module, "__file__", None)
    else:
        try:
            spec = importlib.util.find_spec(name)
        except ImportError:
            return None
        file = spec.origin if spec else None
    return Path(file).read_text(encoding="utf-8") if file and file.endswith(".py") else None
