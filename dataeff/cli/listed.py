"""What the listings share: choosing by a pattern, and printing for people or for programs."""

import json
from collections.abc import Iterable
from fnmatch import fnmatch
from typing import Any, TypeVar

import click

from dataeff.errors import DataeffError

_Found = TypeVar("_Found")


def matching(names: Iterable[str], pattern: str, command: str) -> list[str]:
    """Return the names that match a wildcard pattern; say how to find more where none does."""
    found = [name for name in names if fnmatch(name, pattern)]
    if not found:
        wider = f"dataeff {command} '*{pattern.strip('*')}*'"
        raise DataeffError(f"Nothing matches {pattern!r}; a wider pattern may help: {wider}")
    return found


def for_people(found: list[_Found], as_json: bool) -> list[_Found]:
    """Return what a listing is to print for people: nothing, where it is printed as JSON."""
    if not as_json:
        return found
    print_json(found)
    return []


def print_json(value: Any) -> None:
    """Print a value for programs."""
    click.echo(json.dumps(value, indent=1))


def heading(name: str, text: str) -> None:
    """Print a name in bold and a text beside it, both as they are."""
    click.echo(f"{click.style(name, bold=True)}  {text}")


def detail(title: str, text: str) -> None:
    """Print an indented line, unless there is nothing to say."""
    if text:
        click.echo(f"    {title}: {text}")
