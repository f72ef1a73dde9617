"""TOML files of users: read with care, because anything may be under the name."""

import re
import stat
import tomllib
from pathlib import Path
from typing import Any

from dataeff.errors import DataeffError

LARGEST = 2**18
"""Bytes that a suite's file may have."""
# A key of so many parts would take the parser minutes.
_DEEP = re.compile(r"""(?<![\w-])(?:(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')[ \t]*+\.[ \t]*+){100}""")


def read_toml(path: Path) -> dict[str, Any]:
    """Read a TOML file; what is none, or no file at all, is refused with one sentence."""
    try:
        # Before it is opened: that would wait for whoever writes into a FIFO.
        if not stat.S_ISREG(path.stat().st_mode):
            raise DataeffError(f"{path} is no file; name one that ends in .toml.")
        with path.open("rb") as file:
            content = file.read(LARGEST + 1)
    except FileNotFoundError:
        raise DataeffError(
            f"There is no suite file {path}; dataeff suites lists those by name."
        ) from None
    except OSError as error:
        raise DataeffError(f"{path} cannot be read: {error.strerror}.") from None
    if len(content) > LARGEST:
        raise DataeffError(f"{path} has more than {LARGEST} bytes, so it is no suite.")
    return parse_toml(content, str(path))


def parse_toml(content: bytes, where: str) -> dict[str, Any]:
    """Parse TOML, also with the mark that some editors put before it."""
    too_deep = f"{where} is nested too deeply; write it with fewer brackets and dots."
    try:
        text = content.decode("utf-8-sig")
        if _DEEP.search(text):
            raise DataeffError(too_deep)
        found = tomllib.loads(text)
    except RecursionError:
        raise DataeffError(too_deep) from None
    # Beside what TOML forbids: bytes that are no UTF-8, and numbers of thousands of digits.
    except ValueError as error:
        raise DataeffError(f"{where} is not valid TOML: {error}.") from None
    _check_numbers(found, where)
    return found


def _check_numbers(content: dict[str, Any], where: str) -> None:
    """Refuse integers of more than 64 bits, which TOML need not have and nobody could print."""
    open_values: list[Any] = [content]
    while open_values:
        value = open_values.pop()
        if isinstance(value, dict):
            open_values += value.values()
        elif isinstance(value, list):
            open_values += value
        elif isinstance(value, int) and not -(2**63) <= value < 2**63:
            raise DataeffError(
                f"{where} holds an integer of more than 64 bits; write a smaller one."
            )
