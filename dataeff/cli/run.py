"""The command that runs suites."""

from __future__ import annotations

import shlex
import sys
from typing import TYPE_CHECKING

import click

from dataeff.cli.adhoc import adhoc_options, choose_suite
from dataeff.cli.options import Number, device_option, training_options
from dataeff.cli.show import console, show
from dataeff.errors import DataeffError

if TYPE_CHECKING:
    from dataeff.bench.cells import Again, Settings
    from dataeff.bench.schedule import Schedule
    from dataeff.foretell.preview import Coming, Preview
    from dataeff.lab import Lab


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
@click.option(
    "--controls/--no-controls",
    default=None,
    help="Add controls of each method's measured cost (default: as the suite says, which is yes).",
)
@click.option(
    "--match",
    help="Strategy whose time those with a value '?' shall take: -s 'short_schedule[share=?]'.",
)
@adhoc_options
@device_option
@click.option(
    "--fresh/--resume",
    default=False,
    help="Run finished cells again (default: skip them, go on with stopped ones).",
)
@click.option(
    "--rerun-flagged", is_flag=True, help="Run those finished cells again whose times are doubtful."
)
@click.option("--dry-run", is_flag=True, help="Say what it would cost, by a few measured steps.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask, however long it takes.")
@click.option("--in-process", is_flag=True, help="Run cells in this process, for debugging.")
@click.option(
    "--timeout",
    # About the longest that the operating system waits.
    type=Number(0, 10**6, min_open=True),
    default=3600.0,
    show_default=True,
    help="Seconds without a finished epoch after which a cell is given up.",
)
@training_options
def run(suite, strategies, plugin_dirs, **options):
    """Run SUITE (a name or a .toml file), or an ad-hoc comparison, and print the leaderboard.

    \b
    dataeff run quickstart
    dataeff run quickstart --dry-run
    dataeff run --dataset digits --model resnet8 --epochs 10 -s baseline -s amp
    """
    from dataeff.bench.cells import Settings
    from dataeff.bench.schedule import Schedule
    from dataeff.foretell.preview import Coming, check_setups
    from dataeff.lab import Lab
    from dataeff.plugins import load_plugins

    fresh, flagged, controls = (options[key] for key in ("fresh", "rerun_flagged", "controls"))
    if fresh and flagged:
        raise DataeffError("--fresh runs all cells again; leave it out, or --rerun-flagged.")
    how = {key: options[key] for key in ("results", "device", "data_root", "in_process", "timeout")}
    settings = Settings(plugin_dirs=plugin_dirs, **how)
    lab = Lab(load_plugins(plugin_dirs), settings.device, settings.data_root)
    chosen = choose_suite(lab, suite, list(strategies), options)
    if controls is not None:
        # A suite that names its controls keeps to these.
        chosen.controls = controls and (chosen.controls or True)
    schedule = Schedule(chosen, lab, settings.results, fresh)
    again = _again(fresh, flagged)
    coming = Coming(schedule.cells, again, schedule.unsolved, not settings.in_process)
    if options["dry_run"]:
        _preview(schedule, coming, lab)
        return
    check_setups(coming, lab)
    if not options["yes"]:
        _ask(schedule, coming, lab)
    _run(schedule, lab, settings, again)


def _run(schedule: Schedule, lab: Lab, settings: Settings, again: Again) -> None:
    """Run what is planned, and show what came of it; say what failed."""
    from dataeff.bench.asked import write_suite
    from dataeff.bench.progress import Watch
    from dataeff.bench.runner import failures, run_cells

    folder, command = settings.results / schedule.suite.name, _command()
    write_suite(schedule, folder, command)
    with Watch(console) as watch:
        schedule.matches.tell = watch.say
        run_cells(schedule, lab, settings, watch, again)
    write_suite(schedule, folder, command)
    show(folder)
    failed = [*failures(schedule.cells), *schedule.matches.troubles]
    for line in failed:
        click.echo(f"Failed: {line}", err=True)
    if failed:
        raise click.exceptions.Exit(1)


def _command() -> str:
    """Return the command to run this again: without what only says how, not what."""
    how = ("-y", "--yes", "--fresh", "--resume", "--rerun-flagged", "--in-process")
    return shlex.join(["dataeff", *(word for word in sys.argv[1:] if word not in how)])


def _again(fresh: bool, flagged: bool) -> Again:
    """Return what says of a cell's record, or of None, whether to start the cell anew."""
    from dataeff.bench.cells import never
    from dataeff.bench.results import flags_of

    if fresh:
        return lambda record: True
    return (lambda record: bool(record and flags_of(record))) if flagged else never


def _preview(schedule: Schedule, coming: Coming, lab: Lab) -> None:
    from dataeff.foretell import preview
    from dataeff.report.terminal import aligned

    with console.status("Measuring a few steps of each strategy"):
        costs = preview.preview(coming, lab)
    click.echo("\n".join(aligned(*preview.table(costs))))
    click.echo(f"\n{preview.sentence(costs)} {preview.REMARK}")
    if patterns := list(dict.fromkeys(text for text, _ in schedule.unsolved)):
        click.echo(
            f"Values for {' and '.join(patterns)} are found by pilots of a few epochs, which come "
            f"on top: up to {preview.duration(_seconds_of_pilots(costs, schedule))}."
        )
    if names := schedule.control_names:
        most = preview.duration(_seconds_of_controls(costs, schedule))
        click.echo(
            f"Controls come on top ({' and '.join(names)}, once for each cost that is measured): "
            f"at most another {most}; --no-controls leaves them out."
        )


def _seconds_of_controls(costs: Preview, schedule: Schedule) -> float:
    """Return the most that controls can take: one of each kind for each method, at its cost."""
    judged = [line.seconds for line in costs.lines if line.strategy in schedule.methods]
    return len(schedule.control_names) * sum(judged)


def _seconds_of_pilots(costs: Preview, schedule: Schedule) -> float:
    """Return about what pilots take: each trains as many epochs of the reference."""
    from dataeff.foretell.match import EPOCHS
    from dataeff.foretell.solve import PILOTS

    patterns = [text for text, _ in schedule.unsolved]
    lines = [line for line in costs.lines if line.strategy in patterns]
    return sum(2 * PILOTS * min(EPOCHS, line.epochs) * line.train / line.epochs for line in lines)


def _someone_is_there() -> bool:
    return console.is_terminal and sys.stdin.isatty()


def _ask(schedule: Schedule, coming: Coming, lab: Lab) -> None:
    """Ask before a long run, where somebody is there to answer."""
    from dataeff.foretell import preview

    if not _someone_is_there():
        return
    costs = preview.quick(coming, lab)
    more, pilots = _seconds_of_controls(costs, schedule), _seconds_of_pilots(costs, schedule)
    if not preview.asks(costs.seconds + more + pilots):
        return
    controls = f" Controls take at most another {preview.duration(more)}." if more else ""
    found = f" Pilots take up to {preview.duration(pilots)}." if pilots else ""
    if not click.confirm(f"{preview.sentence(costs)}{controls}{found} Go on?", err=True):
        click.echo("Nothing was run.", err=True)
        raise click.exceptions.Exit(1)
