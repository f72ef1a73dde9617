"""The command that writes the page of a suite, or serves it."""

import webbrowser
from pathlib import Path

import click

from dataeff.cli.echo import echo
from dataeff.cli.options import judging_options, results_option
from dataeff.errors import DataeffError
from dataeff.report.found import results_folder


@click.command()
@click.argument("suite")
@judging_options
@click.option("--open", "open_it", is_flag=True, help="Open it in the browser.")
@click.option("--serve", "serve_it", is_flag=True, help="Serve it here, anew when results change.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=0,
    help="The port for --serve (default: one that is free).",
)
@results_option
def report(suite, results, open_it, serve_it, **options):
    """Write the page of SUITE: report.html, one file that works offline."""
    from dataeff.report.board import read_board
    from dataeff.report.web.page import write_report

    if options["port"] and not serve_it:
        raise DataeffError("--port goes with --serve; add that, or leave --port out.")
    folder = results_folder(results, suite)

    def make() -> Path:
        return write_report(folder, read_board(folder, options["margin"], options["target"]))

    def ready(address: str) -> None:
        echo(f"The page of {folder.name} is at {address} (Ctrl-C ends it).")
        if open_it:
            webbrowser.open(address)

    if serve_it:
        from dataeff.report.web.serve import serve

        serve(folder, make, port=options["port"], on_ready=ready)
        return
    path = make()
    echo(f"Written: {path}")
    if open_it:
        webbrowser.open(path.resolve().as_uri())
