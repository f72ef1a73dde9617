"""The options of commands that read results, and where these are found."""

from __future__ import annotations

import math
from pathlib import Path

import click

from dataeff.errors import DataeffError, did_you_mean
from dataeff.report import MARGIN


def _finite(context: click.Context, option: click.Parameter, value: float | None) -> float | None:
    if value is not None and math.isnan(value):
        raise click.BadParameter(f"{value} is not a number.")
    return value


margin_option = click.option(
    "--margin",
    type=click.FloatRange(0, 100, min_open=True),
    callback=_finite,
    default=MARGIN,
    show_default=True,
    help="Points of accuracy by which a strategy may be lower and still be no worse.",
)
target_option = click.option(
    "--target",
    type=click.FloatRange(0, 100),
    callback=_finite,
    help="Test accuracy to be reached, in percent (default: the reference's mean less the margin).",
)


def results_folder(results: Path, suite: str) -> Path:
    """Return the folder of a suite's results; the suite's file may be given as well."""
    if (Path(suite) / "suite.json").exists():
        return Path(suite)
    if len(Path(suite).parts) != 1 and not suite.endswith(".toml"):
        raise DataeffError(f"There are no results in {suite}; name a suite, or add --results DIR.")
    name = Path(suite).name.removesuffix(".toml")
    if not (results / name / "suite.json").exists():
        known = sorted(path.parent.name for path in results.glob("*/suite.json"))
        hint = did_you_mean(name, known) or f" Type: dataeff run {suite}"
        raise DataeffError(f"There are no results of {name} in {results}.{hint}")
    return results / name
