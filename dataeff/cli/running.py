"""The commands that run suites and read their results."""

from __future__ import annotations

import shlex
import sys
import tomllib
import webbrowser
from pathlib import Path
from typing import Any

import click

from dataeff.cli.shared import (
    console,
    data_root_option,
    json_option,
    results_option,
    with_plugins,
)
from dataeff.errors import DataeffError, did_you_mean
from dataeff.plugins import Installed, canonical, compose
from dataeff.registry import parse_one

# Running ---------------------------------------------------------------------------------------


@click.command()
@click.argument("suite", required=False)
@click.option(
    "-s",
    "--strategy",
    "strategies",
    multiple=True,
    help="Strategy to run instead of the suite's; repeatable. Ad hoc, the first is the reference.",
)
@click.option(
    "--seeds", type=click.IntRange(1), help="Number of seeds (default: the suite's, or 3)."
)
@click.option("-d", "--dataset", help="Ad-hoc comparison: the dataset, instead of a suite.")
@click.option("-m", "--model", help="Ad-hoc comparison: the model.")
@click.option("--epochs", type=float, help="Ad-hoc comparison: the epochs.")
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="KEY=VALUE",
    help="Ad-hoc comparison: another key of the task, such as lr=0.05.",
)
@click.option("--name", help="Ad-hoc comparison: the name of its results folder.")
@click.option(
    "--device", default="auto", show_default=True, help="auto, cpu, cuda, cuda:1, mps, ..."
)
@click.option(
    "--fresh/--resume",
    default=False,
    help="Run finished cells again (default: skip them, go on with stopped ones).",
)
@click.option("--in-process", is_flag=True, help="Run cells in this process, for debugging.")
@click.option(
    "--timeout",
    type=click.FloatRange(min=0, min_open=True),
    default=3600.0,
    show_default=True,
    help="Seconds without a finished epoch after which a cell is given up.",
)
@data_root_option
@results_option
@with_plugins
def run(
    suite,
    strategies,
    seeds,
    installed,
    plugin_dirs,
    results,
    data_root,
    device,
    fresh,
    in_process,
    timeout,
    **adhoc,
):
    """Run SUITE (a name or a .toml file), or an ad-hoc comparison, and print the leaderboard.

    \b
    dataeff run quickstart
    dataeff run --dataset digits --model resnet8 --epochs 10 -s baseline -s amp
    """
    from dataeff.bench import runner
    from dataeff.bench.progress import Watch

    chosen = _choose_suite(suite, list(strategies), seeds, installed, adhoc)
    settings = runner.Settings(results, device, data_root, plugin_dirs, in_process, timeout)
    cells = runner.suite_cells(chosen, settings, installed)
    runner.write_suite(chosen, cells, settings, command=shlex.join(["dataeff", *sys.argv[1:]]))
    with Watch(console) as watch:
        runner.run_cells(cells, settings, watch, fresh=fresh)
    _show(results / chosen.name)
    failed = runner.failures(cells)
    for line in failed:
        click.echo(f"Failed: {line}", err=True)
    if failed:
        raise click.exceptions.Exit(1)


def _choose_suite(
    text: str | None,
    strategies: list[str],
    seeds: int | None,
    installed: Installed,
    adhoc: dict[str, Any],
) -> Any:
    from dataeff.bench.results import slug
    from dataeff.bench.suite import load_suite, make_suite

    given = {key: value for key, value in adhoc.items() if value not in (None, ())}
    if text and given:
        option = next(iter(given)).replace("settings", "set")
        raise DataeffError(
            f"--{option} is for ad-hoc comparisons; leave out the suite {text!r}, or the option."
        )
    strategies = list(dict.fromkeys(canonical(compose(s, installed)) for s in strategies))
    if text:
        suite = load_suite(text, installed)
        content = suite.model_dump() | ({"seeds": seeds} if seeds else {})
        if strategies:
            # The reference comes along: without it there is nothing to compare with.
            content["strategies"] = list(dict.fromkeys([suite.reference, *strategies]))
        return make_suite(content, installed, where=text)
    missing = [f"--{key}" for key in ("dataset", "model", "epochs") if key not in given]
    if missing:
        raise DataeffError(
            f"Name a suite (see: dataeff suites), or compare ad hoc: add {', '.join(missing)}."
        )
    if not strategies:
        raise DataeffError("Name what to compare: -s baseline -s 'random_backprop[keep=0.5]'.")
    task = {key: given[key] for key in ("dataset", "model", "epochs")}
    task |= _settings(given.get("settings", ()))
    epochs = f"{given['epochs']:g}"
    # Everything that tells two comparisons apart, so that none takes the other's place.
    parts = [given["dataset"], given["model"], f"{epochs}ep", *given.get("settings", ())]
    name = slug(given.get("name") or "-".join(parts))
    if not name:
        raise DataeffError("--name takes letters and digits, such as --name my-comparison.")
    content = {
        "name": name,
        "title": f"{given['model']} on {given['dataset']}, {epochs} epochs",
        "strategies": strategies,
        "seeds": seeds or 3,
        "tasks": {parse_one(given["dataset"]).name: task},
    }
    return make_suite(content, installed, where="command line")


def _settings(pairs: tuple[str, ...]) -> dict[str, Any]:
    values = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals:
            raise DataeffError(f"--set takes key=value, such as lr=0.05, not {pair!r}.")
        if key in ("dataset", "model", "epochs"):
            raise DataeffError(f"--set takes the other keys of a task; write --{key} {value}.")
        # As in a suite file, only that a text needs no quotes, and a list no brackets.
        try:
            values[key] = tomllib.loads(f"value = {value}")["value"]
        except tomllib.TOMLDecodeError:
            values[key] = value
        if key == "milestones" and not isinstance(values[key], list):
            values[key] = value.split(",")
    return values


# Reading ---------------------------------------------------------------------------------------


@click.command()
@click.argument("suite")
@click.option(
    "--csv", "csv_file", type=click.Path(path_type=Path), help="Also write the table here."
)
@click.option("--markdown", "as_markdown", is_flag=True, help="Print Markdown.")
@json_option
@results_option
def leaderboard(suite, csv_file, as_markdown, as_json, results):
    """Print the table of SUITE and write leaderboard.csv, runs.csv and report.html."""
    _show(_folder(results, suite), csv_file, as_markdown, as_json)


def _folder(results: Path, suite: str) -> Path:
    """Return the folder of a suite's results; the suite's file may be given as well."""
    name = Path(suite).name.removesuffix(".toml")
    if not (results / name / "suite.json").exists():
        known = sorted(path.parent.name for path in results.glob("*/suite.json"))
        hint = did_you_mean(name, known) or f" Type: dataeff run {suite}"
        raise DataeffError(f"There are no results of {name} in {results}.{hint}")
    return results / name


def _show(
    folder: Path, csv_file: Path | None = None, as_markdown: bool = False, as_json: bool = False
) -> None:
    from dataeff.report import leaderboard as board
    from dataeff.report import page, terminal

    table = board.write_tables(folder)
    page.write_report(folder, table)
    if csv_file:
        board.write_csv(csv_file, table)
    if as_json:
        click.echo(table.to_json(orient="records", indent=1))
    elif as_markdown:
        click.echo(terminal.markdown(table))
    elif console.is_terminal:
        for part in terminal.rich_tables(table, console.width):
            console.print(part)
    else:
        click.echo(terminal.plain_text(table))
    if not (as_json or as_markdown):
        click.echo(f"\nWritten: {folder}/leaderboard.csv, runs.csv, report.html")


@click.command()
@click.argument("suite")
@click.option("--open", "open_it", is_flag=True, help="Open it in the browser.")
@results_option
def report(suite, open_it, results):
    """Write the page of SUITE: report.html, one file that works offline."""
    from dataeff.report import leaderboard as board
    from dataeff.report import page

    folder = _folder(results, suite)
    path = page.write_report(folder, board.write_tables(folder))
    click.echo(f"Written: {path}")
    if open_it:
        webbrowser.open(path.resolve().as_uri())
