"""Where results are: the folder of a suite, by its name, its file or its own path."""

import os
from pathlib import Path

from dataeff.errors import DataeffError, did_you_mean
from dataeff.names import check_suite_name


def results_folder(results: Path, suite: str) -> Path:
    """Return the folder of a suite's results; the suite's file may be given as well."""
    if _has_results(Path(suite)):
        return Path(suite)
    if len(Path(suite).parts) != 1 and not suite.endswith(".toml"):
        raise DataeffError(f"There are no results in {suite}; name a suite, or add --results DIR.")
    name = Path(suite).name.removesuffix(".toml")
    check_suite_name(name)
    if not _has_results(results / name):
        known = sorted(path.parent.name for path in results.glob("*/suite.json"))
        hint = did_you_mean(name, known) or f" Type: dataeff run {suite}"
        raise DataeffError(f"There are no results of {name} in {results}.{hint}")
    return results / name


def _has_results(folder: Path) -> bool:
    """Say whether there are results, also where what was asked for is damaged."""
    names = (f"suite.json{end}" for end in ("", ".copy", ".damaged"))
    return any(os.path.lexists(folder / name) for name in names)
