"""What to train on: a suite by its name or file, or a task that the command line describes."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import click

from dataeff.bench.toml import parse_toml
from dataeff.cli.options import together
from dataeff.errors import DataeffError
from dataeff.names import LONGEST_FOLDER

if TYPE_CHECKING:
    from dataeff.bench.desk import Desk
    from dataeff.bench.suite import Suite
    from dataeff.training.task import Task

_TASK = ("dataset", "model", "epochs")
_KEYS = (*_TASK, "settings", "name")

task_options = together(
    click.option("-d", "--dataset", help="Dataset to train on."),
    click.option("-m", "--model", help="Network to train."),
    click.option("--epochs", type=float, help="Epochs to train."),
    click.option(
        "--set",
        "settings",
        multiple=True,
        metavar="KEY=VALUE",
        help="Another key of the task, such as lr=0.05; repeatable.",
    ),
)
"""The options that describe a task."""
adhoc_options = together(
    task_options,
    click.option("--name", help="Ad-hoc comparison: the name of its results folder."),
)
"""The options that describe a comparison without a suite, for `choose_suite`."""


def choose_suite(
    desk: Desk, text: str | None, strategies: list[str], options: Mapping[str, Any]
) -> Suite:
    """Return the suite of this name or file, or the one that the ad-hoc options make.

    Of `options`, `seeds`, `margin` and `match` are for both: the strategy that others are matched
    to, where that is not for the suite to say.
    """
    from dataeff.bench.suite import load_suite, make_suite
    from dataeff.notation import is_open
    from dataeff.seeds import read_seeds

    given = {key: options[key] for key in _KEYS if options.get(key) not in (None, ())}
    seeds, match = options.get("seeds"), options.get("match")
    seeds = None if seeds is None else read_seeds(seeds)
    if text and given:
        option = next(iter(given)).replace("settings", "set")
        raise DataeffError(
            f"--{option} is for ad-hoc comparisons; leave out the suite {text!r}, or the option."
        )
    strategies = [desk.composition(name).text for name in strategies]
    match = None if match is None else desk.composition(match).text
    if text:
        suite = load_suite(text, desk)
        content = suite.model_dump() | ({"seeds": seeds} if seeds else {})
        if any(map(is_open, strategies or suite.strategies)):
            match = match or suite.match
        if strategies:
            # The reference comes along: without it there is nothing to compare with.
            content["strategies"] = [suite.reference, *strategies]
    else:
        content = _adhoc(given, strategies) | ({"seeds": seeds} if seeds else {})
    if options.get("margin"):
        content["margin"] = options["margin"]
    # What others are matched to comes along as well.
    names = dict.fromkeys([*content["strategies"], *([match] if match else [])])
    content |= {"match": match, "strategies": list(names)}
    return make_suite(content, desk, where=text or "command line")


def _adhoc(given: dict[str, Any], strategies: list[str]) -> dict[str, Any]:
    """Return the content of the suite that the options describe."""
    from dataeff.files import slug
    from dataeff.notation import parse_one

    if missing := _missing(given):
        raise DataeffError(
            f"Name a suite (see: dataeff suites), or compare ad hoc: add {', '.join(missing)}."
        )
    if not strategies:
        raise DataeffError("Name what to compare: -s baseline -s 'random_backprop[keep=0.5]'.")
    task = _keys_of(given)
    epochs = f"{given['epochs']:g}"
    # Everything that tells two comparisons apart, so that none takes the other's place.
    parts = [given["dataset"], given["model"], f"{epochs}ep", *given.get("settings", ())]
    name = slug(given.get("name", _short("-".join(parts))))
    if not name:
        raise DataeffError("--name takes letters and digits, such as --name my-comparison.")
    # What stands in a folder elsewhere, as hf:owner/name, is none here.
    task_name = re.sub(r"[/\\]", "-", parse_one(given["dataset"]).name)
    return {
        "name": name,
        "title": f"{given['model']} on {given['dataset']}, {epochs} epochs",
        "strategies": strategies,
        "tasks": {task_name: task},
    }


def adhoc_task(options: Mapping[str, Any]) -> Task:
    """Return the task that the options describe, where it belongs to no suite."""
    from dataeff.bench.suite import make_task

    given = {key: value for key, value in options.items() if value not in (None, ())}
    if missing := _missing(given):
        raise DataeffError(f"Say what to train: add {', '.join(missing)}.")
    return make_task(_keys_of(given), "command line")


def _missing(given: Mapping[str, Any]) -> list[str]:
    return [f"--{key}" for key in _TASK if key not in given]


def _keys_of(given: Mapping[str, Any]) -> dict[str, Any]:
    return {key: given[key] for key in _TASK} | _settings(given.get("settings", ()))


def _short(text: str) -> str:
    """Return a text that can be the name of a folder: of a long one, the start and a hash."""
    if len(text.encode()) <= LONGEST_FOLDER:
        return text
    return f"{text[:40]}-{hashlib.sha256(text.encode()).hexdigest()[:12]}"


def _settings(pairs: tuple[str, ...]) -> dict[str, Any]:
    values = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals:
            raise DataeffError(f"--set takes key=value, such as lr=0.05, not {pair!r}.")
        if key in _TASK:
            raise DataeffError(f"--set takes the other keys of a task; write --{key} {value}.")
        # As in a suite file, only that a text needs no quotes, and a list no brackets.
        several = key == "milestones" and not value.lstrip().startswith("[")
        values[key] = [_read(part) for part in value.split(",")] if several else _read(value)
    return values


def _read(text: str) -> Any:
    """Read a value as TOML has it, or also a number that it has not, such as .5; or a text."""
    try:
        return parse_toml(f"value = {text}".encode(), text)["value"]
    except DataeffError:
        with suppress(ValueError):
            return float(text)
        return text
