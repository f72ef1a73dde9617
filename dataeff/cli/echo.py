"""What commands print: no text of others reaches the terminal but through here."""

from typing import Any

import click

from dataeff.printable import printable


def echo(text: str = "", **options: Any) -> None:
    """Print a text, in the style of `click.secho`, with what cannot be seen written out."""
    click.secho(printable(text, lines=True), **options)
