"""The command that prints the table of a suite."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING

import click

from dataeff.cli.echo import echo
from dataeff.cli.options import PATH, judging_options, results_option
from dataeff.cli.show import show_board
from dataeff.errors import DataeffError
from dataeff.report.found import results_folder

if TYPE_CHECKING:
    from collections.abc import Callable

    from dataeff.report.board import Board


@click.command()
@click.argument("suite")
@judging_options
@click.option("--full", is_flag=True, help="Print every column, verdicts as sentences, all notes.")
@click.option("--csv", "csv_file", type=PATH, help="Also write the table here.")
@click.option("--markdown", is_flag=True, help="Print Markdown.")
@click.option("--latex", is_flag=True, help="Print LaTeX that fits a column (booktabs, tabularx).")
@click.option(
    "--columns",
    metavar="A,B,C",
    help="Of LaTeX, the columns: those of leaderboard.csv, and time_saved (default: "
    "strategy, time_saved, difference, gain, verdict).",
)
@click.option("--json", is_flag=True, help="Print JSON.")
@results_option
def leaderboard(suite, results, csv_file, columns, **options):
    """Print what SUITE has shown, and write leaderboard.csv, runs.csv and classes.csv.

    Where the suite has claims, also claims.csv. Published results have tables and no cells: they
    are judged by runs.csv, curves.csv and classes.csv, which stay as they are.
    """
    from dataeff.files import write_csv
    from dataeff.report import terminal
    from dataeff.report.board import read_board, write_tables
    from dataeff.report.latex import chosen, latex

    names = [name.strip() for name in columns.split(",")] if columns is not None else []
    # A mistake is told before anything is read.
    chosen(names)
    printed: dict[str, Callable[[Board], str]] = {
        "json": _json,
        "markdown": terminal.markdown,
        "latex": partial(latex, columns=names),
    }
    forms = [form for form in printed if options[form]]
    if len(forms) > 1:
        raise DataeffError(f"--{forms[0]} and --{forms[1]} exclude each other; leave one out.")
    if names and not options["latex"]:
        raise DataeffError("--columns is for LaTeX; add --latex, or leave it out.")
    if csv_file and csv_file.is_dir():
        raise DataeffError(f"{csv_file} is a folder; --csv takes a file, such as table.csv.")
    folder = results_folder(results, suite)
    board = read_board(folder, options["margin"], options["target"])
    if csv_file:
        write_csv(csv_file, board.table)
    written = write_tables(folder, board)
    if not forms:
        show_board(folder, board, written, options["full"])
        return
    echo(printed[forms[0]](board))
    # Markdown has the feet of its tables.
    feet = [] if options["markdown"] else [text for part in board.feet.values() for text in part]
    for note in [*feet, *terminal.notes(board)]:
        echo(note, err=True)


def _json(board: Board) -> str:
    """Return answers, what is missing, claims and lines of a board; what is not known is null."""
    from dataeff.files import json_text

    told = {
        name: [one.numbers() for one in found]
        for name, found in (("answers", board.answers), ("missing", board.missing))
    }
    frames = {"claims": board.claims, "lines": board.table}
    lists = {name: json.loads(frame.to_json(orient="records")) for name, frame in frames.items()}
    return json_text(told | lists)
