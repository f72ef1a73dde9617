"""What is costly to find out, kept in the user's cache folder for as long as it holds."""

import hashlib
import importlib.util
import json
import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

_Content = TypeVar("_Content")
KEPT = 8
"""How many files of one name stay: one for each environment and set of plugins in use."""


class Finding(NamedTuple, Generic[_Content]):
    """What was found out, as JSON has it, and files it hangs on that only finding out tells."""

    content: _Content
    files: Sequence[Path] = ()


def kept(name: str, key: str, find: Callable[[], Finding[_Content]]) -> _Content:
    """Return what is kept under a name and a key; find it out, and keep it, where it is not."""
    folder = cache_folder()
    if folder is None:
        return find().content
    path = folder / f"{name}-{key}.json"
    content: _Content | None = _read(path)
    if content is None:
        content, files = find()
        # A cache that cannot be written costs time, and is no mistake of the user's.
        with suppress(OSError):
            _write(path, content, files)
            _tidy(folder, name)
    return content


def cache_folder() -> Path | None:
    """Return the folder of dataeff in the user's cache, None where there is no such place."""
    home = os.environ.get("XDG_CACHE_HOME", "")
    folder = Path(home if os.path.isabs(home) else os.path.expanduser("~/.cache"))
    return folder / "dataeff" if folder.is_absolute() else None


def key_of(*parts: Any) -> str:
    """Return a short hash of everything that something hangs on."""
    return hashlib.sha256(json.dumps(parts, default=str).encode()).hexdigest()[:16]


def stamps(paths: Iterable[Path]) -> list[list[Any]]:
    """Return path, time of change and size of each file, in order; a missing one has neither."""
    return [_stamp(os.path.abspath(path)) for path in paths]


def _stamp(path: str) -> list[Any]:
    try:
        found = os.stat(path)
    except OSError:
        return [path, None, None]
    return [path, found.st_mtime_ns, found.st_size]


def package_files(name: str) -> list[Path]:
    """List the .py and .toml files of a package, or the file of a module, importing neither."""
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        spec = None
    if spec is None or spec.submodule_search_locations is None:
        return [Path(spec.origin)] if spec and spec.origin else []
    found = [
        Path(folder, file)
        for place in spec.submodule_search_locations
        for folder, _, files in os.walk(place)
        for file in files
        if file.endswith((".py", ".toml"))
    ]
    return sorted(found)


def _read(path: Path) -> Any:
    """Return what a file keeps, None where it is missing, damaged or no longer true."""
    try:
        held = json.loads(path.read_bytes())
        content, known = held["content"], held["stamps"]
        whole = held["check"] == key_of(content, known)
        return content if whole and stamps(Path(path) for path, *_ in known) == known else None
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return None


def _write(path: Path, content: Any, files: Sequence[Path]) -> None:
    # Here, because it imports pandas, which whoever finds the file never needs.
    from dataeff.files import write_json

    known = stamps(files)
    write_json(path, {"check": key_of(content, known), "stamps": known, "content": content})


def _tidy(folder: Path, name: str) -> None:
    """Delete all but the newest files of a name."""
    files = sorted(folder.glob(f"{name}-*.json"), key=lambda path: path.stat().st_mtime_ns)
    for path in files[:-KEPT]:
        path.unlink(missing_ok=True)
