"""The commands that read results: tables, the page, pictures."""

from __future__ import annotations

import math
import webbrowser
from collections.abc import Callable
from pathlib import Path

import click

from dataeff.cli.shared import console, json_option, results_option
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
_target_option = click.option(
    "--target",
    type=click.FloatRange(0, 100),
    callback=_finite,
    help="Test accuracy to be reached, in percent (default: the reference's mean less the margin).",
)


@click.command()
@click.argument("suite")
@margin_option
@_target_option
@click.option(
    "--csv", "csv_file", type=click.Path(path_type=Path), help="Also write the table here."
)
@click.option("--markdown", "form", flag_value="markdown", help="Print Markdown.")
@click.option("--latex", "form", flag_value="latex", help="Print LaTeX (booktabs).")
@json_option
@results_option
def leaderboard(suite, margin, target, csv_file, form, as_json, results):
    """Print the table of SUITE and write leaderboard.csv, runs.csv and classes.csv.

    Where the suite has claims, also claims.csv.
    """
    if as_json and form:
        raise DataeffError(f"--json and --{form} exclude each other; leave one out.")
    folder = results_folder(results, suite)
    show(folder, margin, target, csv_file, "json" if as_json else form)


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


def show(
    folder: Path,
    margin: float = MARGIN,
    target: float | None = None,
    csv_file: Path | None = None,
    form: str | None = None,
    with_page: bool = False,
) -> None:
    """Write the tables of a suite, its page where that is wanted, and print its leaderboard."""
    from dataeff.bench.results import write_csv
    from dataeff.report import latex, terminal
    from dataeff.report.board import read_board, write_tables

    board = read_board(folder, margin, target)
    write_tables(folder, board)
    if with_page:
        from dataeff.report.page import write_report

        write_report(folder, board)
    if csv_file:
        write_csv(csv_file, board.table)
    if form == "json":
        click.echo(board.table.to_json(orient="records", indent=1))
    elif form == "markdown":
        click.echo(terminal.markdown(board))
    elif form == "latex":
        click.echo(latex.latex(board))
    elif console.is_terminal:
        for part in terminal.rich_tables(board, console.width):
            console.print(part)
    else:
        click.echo(terminal.plain_text(board))
    if form is not None:
        for note in board.notes:
            click.echo(note, err=True)
    else:
        claims = ", claims.csv" if len(board.claims) else ""
        page = ", report.html" if with_page else ""
        click.echo(f"\nWritten: {folder}/leaderboard.csv, runs.csv, classes.csv{claims}{page}")


@click.command()
@click.argument("suite")
@margin_option
@_target_option
@click.option("--open", "open_it", is_flag=True, help="Open it in the browser.")
@click.option("--serve", "serve_it", is_flag=True, help="Serve it here, anew when results change.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=0,
    help="The port for --serve (default: one that is free).",
)
@results_option
def report(suite, margin, target, open_it, serve_it, port, results):
    """Write the page of SUITE: report.html, one file that works offline."""
    folder = results_folder(results, suite)
    make = _page_maker(folder, margin, target)
    if not serve_it:
        path = make()
        click.echo(f"Written: {path}")
        if open_it:
            webbrowser.open(path.resolve().as_uri())
        return
    from dataeff.report.serve import serve

    def ready(address: str) -> None:
        click.echo(f"The page of {folder.name} is at {address} (Ctrl-C ends it).")
        if open_it:
            webbrowser.open(address)

    serve(folder, make, port=port, on_ready=ready)


def _page_maker(folder: Path, margin: float, target: float | None) -> Callable[[], Path]:
    from dataeff.report.board import read_board
    from dataeff.report.page import write_report

    return lambda: write_report(folder, read_board(folder, margin, target))


@click.command()
@click.argument("suite")
@click.option("--figure", "figures", multiple=True, help="Only this figure; repeatable.")
@click.option(
    "--format",
    "formats",
    type=click.Choice(["png", "svg"]),
    multiple=True,
    default=("png",),
    show_default=True,
    help="The form of the pictures; repeatable.",
)
@click.option(
    "--out", type=click.Path(path_type=Path), help="Their folder (default: RESULTS/SUITE/figures)."
)
@margin_option
@_target_option
@results_option
def plot(suite, figures, formats, out, margin, target, results):
    """Draw the main figures of SUITE as pictures, for papers and slides.

    They are: tradeoff, time, epochs, phases, shares.
    """
    from dataeff.report.board import read_board
    from dataeff.report.figures import draw

    folder = results_folder(results, suite)
    board = read_board(folder, margin, target)
    paths = list(draw(board, out or folder / "figures", figures, formats))
    if not paths:
        raise DataeffError(f"There is nothing to draw in {folder} yet: no finished cell has it.")
    for path in paths:
        click.echo(f"Written: {path}")
