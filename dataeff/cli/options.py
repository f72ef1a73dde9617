"""The options that commands share, and where results are found."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from dataeff.cost import MARGIN


class _Path(click.Path):
    """A file or a folder; nothing at all, which Python takes for the current one, is refused."""

    def convert(self, value: Any, *where: Any) -> Any:
        if not str(value):
            self.fail("it is empty; write a file or a folder.", *where)
        return super().convert(value, *where)


PATH = _Path(path_type=Path)
"""The type of an option that names a file or a folder."""


def together(*options: Callable) -> Callable:
    """Make one decorator of several, in the order in which the help lists them."""

    def decorate(command: Callable) -> Callable:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


class Number(click.FloatRange):
    """A number within limits; nan, which exceeds none of them, is refused too."""

    def convert(self, value: Any, *where: Any) -> Any:
        """Read what was typed."""
        number = super().convert(value, *where)
        if math.isnan(number):
            self.fail(f"{number} is not a number.", *where)
        return number


margin_option = click.option(
    "--margin",
    "--may-lose",
    "margin",
    type=Number(0, 100, min_open=True),
    help="Points of accuracy by which a strategy may be lower and still be no worse (default: the "
    f"suite's, which is {MARGIN} where it says nothing).",
)
target_option = click.option(
    "--target",
    type=Number(0, 100),
    help="Test accuracy to be reached, in percent (default: the reference's mean less the margin).",
)
results_option = click.option(
    "--results",
    type=PATH,
    default=Path("results"),
    envvar="DATAEFF_RESULTS",
    show_default=True,
    help="Folder of results.",
)
device_option = click.option(
    "--device", default="auto", show_default=True, help="auto, cpu, cuda, cuda:1, mps, ..."
)
data_root_option = click.option(
    "--data-root",
    type=PATH,
    envvar="DATAEFF_DATA",
    help="Folder of data sets (or the variable DATAEFF_DATA).",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
plugins_dir_option = click.option(
    "--plugins-dir",
    "plugin_dirs",
    multiple=True,
    type=PATH,
    help="Also load every .py file of this folder as a plugin, tests left out.",
)
judging_options = together(margin_option, target_option)
listing_options = together(json_option, plugins_dir_option)
training_options = together(data_root_option, results_option, plugins_dir_option)
