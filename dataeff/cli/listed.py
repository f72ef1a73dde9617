"""What the listings share: choosing by a pattern, and printing for programs."""

from __future__ import annotations

import json
from collections.abc import Iterable
from fnmatch import fnmatch
from typing import Any

import click

from dataeff.errors import DataeffError


def matching(names: Iterable[str], pattern: str, command: str) -> list[str]:
    """Return the names that match a wildcard pattern; say how to find more where none does."""
    found = [name for name in names if fnmatch(name, pattern)]
    if not found:
        wider = f"dataeff {command} '*{pattern.strip('*')}*'"
        raise DataeffError(f"Nothing matches {pattern!r}; a wider pattern may help: {wider}")
    return found


def print_json(value: Any) -> None:
    """Print a value for programs."""
    click.echo(json.dumps(value, indent=1))


def count(number: int, word: str) -> str:
    """Return a number and its word: 1 task, 2 strategies."""
    plural = word[:-1] + "ies" if word.endswith("y") else word + "s"
    return f"{number} {word if number == 1 else plural}"
