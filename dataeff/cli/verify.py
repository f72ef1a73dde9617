"""The command that looks at results again."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from dataeff.cli.echo import echo
from dataeff.cli.options import (
    Number,
    data_root_option,
    device_option,
    plugins_dir_option,
    results_option,
)
from dataeff.cli.show import console
from dataeff.plural import counted
from dataeff.report.found import results_folder

if TYPE_CHECKING:
    from pathlib import Path

    from dataeff.bench.cells import Settings
    from dataeff.bench.verifying import Finding


@click.command()
@click.argument("suite")
@click.option(
    "--repeat",
    type=Number(0, 1),
    default=0.1,
    show_default=True,
    help="Share of the cells to train again, at least one; 0 for none.",
)
@click.option("--timeout", type=Number(0, 10**6, min_open=True), default=3600.0, hidden=True)
@device_option
@data_root_option
@results_option
@plugins_dir_option
def verify(suite, results, repeat, plugin_dirs, **options):
    """Look at the results of SUITE again: seals, hashes, accuracies, the leaderboard.

    The accuracy of every cell is measured anew by the weights that it kept, in a process that never
    ran a strategy, and some cells are trained again, to be compared bit by bit. A cell that does
    not verify is a row that says so, out of the order.
    """
    from dataeff.bench.cells import Settings

    folder = results_folder(results, suite)
    settings = Settings(results=results, plugin_dirs=plugin_dirs, **options)
    said = _unlike(folder)
    findings = _findings(folder, settings, repeat)
    wrong = [finding for finding in findings if finding.outcome == "does not verify"]
    for outcome in ("verified", "not verified", "does not verify"):
        count = sum(finding.outcome == outcome for finding in findings)
        echo(f"{outcome}: {counted(count, 'cell')}")
    again = [finding for finding in findings if finding.repeated]
    same = [finding for finding in again if finding.repeated == "bit-identical"]
    if again:
        echo(f"trained again: {counted(len(again), 'cell')}, {len(same)} bit-identical")
    echo(said or "leaderboard.csv: the same as made anew from the cells")
    if wrong or said:
        raise click.exceptions.Exit(1)


def _findings(folder: Path, settings: Settings, repeat: float) -> list[Finding]:
    """Look at every cell; say what is not as it should be as it is found."""
    from dataeff.bench.choosing import kept_lanes
    from dataeff.bench.desk import open_desk
    from dataeff.bench.lanes import AUTO
    from dataeff.bench.verifying import Verifier, chosen
    from dataeff.checked import write_entries
    from dataeff.forms import VERIFIED
    from dataeff.report.doubts import NAME

    findings = []
    with open_desk(settings) as desk:
        if settings.device == AUTO and (lanes := kept_lanes(folder)):
            desk.enter(lanes)
        verifier = Verifier(folder, desk, settings)
        cells = verifier.cells()
        again = chosen(cells, repeat)
        for name, record in cells:
            with console.status(f"Looking at {name}"):
                finding = verifier.look(name, record)
                if name in again and finding.outcome != "does not verify":
                    finding = verifier.repeat(finding, record)
            findings.append(finding)
            title = f"{finding.strategy} seed {finding.seed}"
            if finding.outcome != "verified":
                echo(f"{title}: {finding.outcome}: {finding.why}")
            if finding.repeated:
                echo(f"{title}: trained again: {finding.repeated}")
    write_entries(folder / NAME, map(asdict, findings), VERIFIED)
    return findings


def _unlike(folder: Path) -> str:
    """Make the leaderboard anew, and say how leaderboard.csv differs from it."""
    from dataeff.report.board import read_board
    from dataeff.report.recomputed import unlike

    return unlike(folder / "leaderboard.csv", read_board(folder).table)
