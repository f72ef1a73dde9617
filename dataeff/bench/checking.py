"""Checking: the conformance kit, where a strategy's code may run."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from dataeff.plugins import load_plugins
from dataeff.testing import check_strategy


class Checking:
    """Holds strategies to the rules of the kit."""

    def __init__(
        self, tell: Callable[[Any], None], folders: Sequence[Path], broken: Mapping[str, str]
    ) -> None:
        self._installed = load_plugins(folders, broken)

    def check(self, name: str, model: str) -> list[str]:
        """Check one strategy on a small network; return the rules that it was held to."""
        return check_strategy(name, installed=self._installed, model=model)
