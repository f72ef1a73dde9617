"""The commands that run suites and read their results."""

from __future__ import annotations

import shlex
import sys
import webbrowser
from pathlib import Path

import click

from dataeff.cli.adhoc import adhoc_options, choose_suite
from dataeff.cli.shared import (
    console,
    data_root_option,
    device_option,
    json_option,
    results_option,
    with_plugins,
)
from dataeff.errors import DataeffError, did_you_mean

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
@adhoc_options
@device_option
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

    chosen = choose_suite(suite, list(strategies), seeds, installed, adhoc)
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
