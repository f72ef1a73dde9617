"""What the listings share: choosing by a pattern, and printing for people or for programs."""

import fnmatch
import json
from collections.abc import Collection
from typing import Any, TypeVar

from dataeff.cli.echo import echo
from dataeff.errors import DataeffError, did_you_mean

_Found = TypeVar("_Found")


def matching(names: Collection[str], pattern: str, command: str) -> list[str]:
    """Return the names that match a wildcard pattern; say how to find more where none does."""
    if found := fnmatch.filter(names, pattern):
        return found
    wider = f"*{pattern.strip('*')}*"
    if fnmatch.filter(names, wider):
        hint = f"; a wider pattern may help: dataeff {command} '{wider}'"
    else:
        hint = f".{did_you_mean(pattern, names)} See: dataeff {command}"
    raise DataeffError(f"Nothing matches {pattern!r}{hint}")


def for_people(found: list[_Found], as_json: bool) -> list[_Found]:
    """Return what a listing is to print for people: nothing, where it is printed as JSON."""
    if not as_json:
        return found
    print_json(found)
    return []


def print_json(value: Any) -> None:
    """Print a value for programs."""
    echo(json.dumps(value, indent=1))


def heading(name: str, text: str) -> None:
    """Print a name in bold and a text beside it, both as they are."""
    echo(name, bold=True, nl=False)
    echo(f"  {text}")


def detail(title: str, text: str) -> None:
    """Print an indented line, unless there is nothing to say."""
    if text:
        echo(f"    {title}: {text}")
