"""How results are shown: tables and sentences as they are, in a terminal or in plain text."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from dataeff.cli.echo import echo
from dataeff.printable import printable

if TYPE_CHECKING:
    from dataeff.report.board import Board

console = Console(highlight=False)


def show(folder: Path) -> None:
    """Write the tables and the page of a suite, and print its leaderboard."""
    from dataeff.report.board import read_board, write_tables
    from dataeff.report.web.page import write_report

    board = read_board(folder)
    written = write_tables(folder, board)
    show_board(folder, board, [*written, write_report(folder, board).name])


def show_board(folder: Path, board: Board, written: list[str], full: bool = False) -> None:
    """Print answers and methods on one screen, or all there is; and what has been written."""
    from dataeff.report import terminal
    from dataeff.report.screen import LINES, WIDTH, screen

    if full and console.is_terminal:
        for part in terminal.rich_tables(board, console.width):
            console.print(part)
    elif full:
        echo(terminal.plain_text(board))
    else:
        # Three lines are for what has been written.
        width = console.width if console.is_terminal else WIDTH
        for line in screen(board, width, LINES - 3):
            console.print(Text(line.text, style="bold" if line.bold else ""), soft_wrap=True)
    echo()
    say(f"Written: {folder}/{', '.join(written)}")


def say(text: str, bold: bool = False) -> None:
    """Print a sentence as it is."""
    shown = Text(printable(text), style="bold" if bold else "")
    console.print(shown, soft_wrap=not console.is_terminal)


def show_table(header: list[str], lines: list[list[str]], total: bool = False) -> None:
    """Print a table of texts; a last line of sums stands apart."""
    from dataeff.report.terminal import aligned, rich_table

    if not console.is_terminal:
        echo("\n".join(aligned(header, lines)))
        return
    table = rich_table(header, lines)
    if total:
        table.rows[-2].end_section = True
    console.print(table)
