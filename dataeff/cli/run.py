"""The command that runs suites."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from dataeff.cli.adhoc import adhoc_options, choose_suite
from dataeff.cli.echo import echo
from dataeff.cli.options import Number, training_options
from dataeff.cli.show import console, show
from dataeff.cost import MARGIN
from dataeff.errors import DataeffError

if TYPE_CHECKING:
    from pathlib import Path

    from dataeff.bench.cells import Settings
    from dataeff.bench.desk import Desk
    from dataeff.bench.runner import Watcher
    from dataeff.bench.schedule import Schedule
    from dataeff.bench.suite import Suite
    from dataeff.door.running import Running
    from dataeff.foretell.preview import Preview


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
    "--seeds",
    metavar="auto|N|A-B",
    help="Seeds: auto (5, 10, 20: more for what is not settled), a number, or a range, which is "
    "run and not looked at (default: the suite's, or auto).",
)
@click.option(
    "--controls/--no-controls",
    default=None,
    help="Add the line: just training less, at a few budgets (default: as the suite says, which is "
    "yes).",
)
@click.option(
    "--match",
    help="Strategy whose time those with a value '?' shall take: -s 'short_schedule[share=?]'.",
)
@click.option(
    "--margin",
    type=Number(0, 100, min_open=True),
    help="Points of accuracy that a strategy may lose and still be no worse (default: the suite's, "
    f"or {MARGIN}).",
)
@adhoc_options
@click.option(
    "--devices",
    "--device",
    "device",
    default="auto",
    show_default=True,
    metavar="auto|cuda:0,1|cpu*2",
    help="Where to run, one lane for each: devices such as cuda:0,cuda:1, cpu for all cores at "
    "once, cpu*2 for two groups of them; auto takes the GPUs, or what these cores do best.",
)
@click.option(
    "--fresh/--resume",
    default=False,
    help="Run finished cells again (default: skip them, go on with stopped ones).",
)
@click.option(
    "--rerun-flagged",
    is_flag=True,
    help="Run those finished cells again whose times are doubtful, or that do not verify.",
)
@click.option(
    "--keep-weights",
    is_flag=True,
    help="Keep the final weights of each cell as weights.safetensors, also of finished ones.",
)
@click.option(
    "--log",
    "logs",
    multiple=True,
    envvar="DATAEFF_LOG",
    metavar="NAME",
    help="Also log epochs elsewhere: tensorboard, mlflow, or what a plugin offers; repeatable (or "
    "the variable DATAEFF_LOG).",
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

    --dataset, --model, --epochs, --set and --name are for comparisons without a suite.

    \b
    dataeff run quickstart
    dataeff run quickstart --dry-run
    dataeff run --dataset digits --model resnet8 --epochs 10 -s baseline -s amp
    """
    from dataeff.bench.cells import Settings
    from dataeff.bench.desk import open_desk
    from dataeff.bench.locks import locked

    if options["fresh"] and options["rerun_flagged"]:
        raise DataeffError("--fresh runs all cells again; leave it out, or --rerun-flagged.")
    how = {key: options[key] for key in ("results", "device", "data_root", "in_process", "timeout")}
    settings = Settings(plugin_dirs=plugin_dirs, **how)
    with open_desk(settings) as desk:
        chosen = choose_suite(desk, suite, list(strategies), options)
        if (controls := options["controls"]) is not None:
            # A suite that names its controls keeps to these.
            chosen.controls = controls and (chosen.controls or True)
        names = () if options["dry_run"] else options["logs"]
        # First of all: there may be none of that name.
        with _logged(names, settings, settings.results / chosen.name) as log:
            _choose_lanes(chosen, desk, settings)
            with locked(desk.lanes):
                _run_suite(chosen, desk, settings, options | {"log": log})


def _choose_lanes(suite: Suite, desk: Desk, settings: Settings) -> None:
    """Have the desk on the lanes of the run, and say so where these were measured."""
    from dataeff.bench.choosing import choose_lanes

    with console.status("Looking for the lanes in which these cores train most"):
        said = choose_lanes(desk, suite, settings)
    if said:
        click.echo(said, err=True)


def _run_suite(suite: Suite, desk: Desk, settings: Settings, options: Mapping[str, Any]) -> None:
    """Run a suite and show its leaderboard, or say what that would cost."""
    from dataeff.door.running import Running

    running = Running(suite, desk, settings, options["fresh"], options["rerun_flagged"])
    if options["dry_run"]:
        _preview(running)
        _warn(running)
        return
    running.check()
    _warn(running)
    if not options["yes"]:
        _ask(running)
    running.run(console, _command(), options["log"])
    if options["keep_weights"]:
        _keep_weights(running.schedule)
    show(running.folder)
    _tell_failures(running)


@contextmanager
def _logged(names: Sequence[str], settings: Settings, folder: Path) -> Iterator[Watcher]:
    """Yield what tells the observers that are asked for."""
    from dataeff.bench.observing import observed

    with observed(names, settings, folder, partial(echo, err=True)) as log:
        yield log


def _keep_weights(schedule: Schedule) -> None:
    """Leave the weights of all cells as other programs read them."""
    from dataeff.bench.keeping import keep_weights

    with console.status("Keeping the weights of the cells"):
        said = keep_weights(schedule.cells)
    for line in said:
        click.echo(line, err=True)


def _warn(running: Running) -> None:
    for said in running.warnings():
        click.echo(said, err=True)


def _tell_failures(running: Running) -> None:
    """Say what failed; there is an exit code for it."""
    failed = running.failures()
    for line in failed:
        click.echo(f"Failed: {line}", err=True)
    if failed:
        raise click.exceptions.Exit(1)


# Options that only say how to run, not what; the value of the last one is the word after it.
_HOW = ("-y", "--yes", "--fresh", "--resume", "--rerun-flagged", "--in-process", "--keep-weights")
_LOG = "--log"


def _command() -> str:
    """Return the command to run this again: without what only says how, not what."""
    words = sys.argv[1:]
    kept = [
        word
        for before, word in zip(["", *words], words, strict=False)
        if word not in (*_HOW, _LOG) and before != _LOG and not word.startswith(f"{_LOG}=")
    ]
    return shlex.join(["dataeff", *kept])


def _preview(running: Running) -> None:
    from dataeff.foretell import preview
    from dataeff.report.terminal import aligned

    schedule = running.schedule
    with console.status("Measuring a few steps of each strategy"):
        costs = preview.preview(running.coming, running.desk)
    click.echo("\n".join(aligned(*preview.table(costs))))
    click.echo(f"\n{preview.sentence(costs)} {preview.REMARK}")
    if patterns := list(dict.fromkeys(text for text, _ in schedule.unsolved)):
        click.echo(
            f"Values for {' and '.join(patterns)} are found by pilots of a few epochs, which come "
            f"on top: up to {preview.duration(_seconds_of_pilots(costs, schedule))}."
        )
    if most := _seconds_of_line(costs, schedule):
        names = " and ".join(schedule.kind_names)
        click.echo(
            f"The line comes on top ({names}, at two to four budgets): at most another "
            f"{preview.duration(most)}; --no-controls leaves it out."
        )
    for text in _coming_looks(costs, schedule):
        click.echo(text)


def _seconds_of_line(costs: Preview, schedule: Schedule) -> float:
    """Return the most that the line can take; its budgets come to so much of the reference."""
    from dataeff.bench.line import MOST_WORK

    if schedule.has_line:
        return 0.0
    base = [line for line in costs.lines if line.strategy == schedule.suite.reference]
    work = len(schedule.kind_names) * MOST_WORK / costs.lanes
    return work * sum(line.seconds for line in base)


def _coming_looks(costs: Preview, schedule: Schedule) -> list[str]:
    """Say until when these cells are, how likely that settles it, and what may come after it."""
    from dataeff.foretell.preview import duration
    from dataeff.seeds import AUTO

    if schedule.suite.seeds != AUTO:
        return []
    said = []
    for task in schedule.suite.tasks:
        n = max(cell.seed for cell in schedule.cells if cell.task_name == task) + 1
        lines = [line for line in costs.lines if line.task == task]
        if not any(line.cells for line in lines):
            continue
        text = f"{task}: these cells are for the look at {n} seeds"
        if likely := schedule.stages.likely(task):
            text += f", which {likely}"
        else:
            text += "; how likely it settles anything, the first look will tell"
        each = sum(line.seconds / line.cells for line in lines if line.cells) / costs.lanes
        last = schedule.stages.last
        more = (last - n) * each
        text += f". What is not settled then goes on, to {last} seeds at most"
        said.append(f"{text}: at most another {duration(more)}." if more else f"{text}.")
    return said


def _seconds_of_pilots(costs: Preview, schedule: Schedule) -> float:
    """Return about what pilots take: each trains as many epochs of the reference."""
    from dataeff.foretell.match import EPOCHS
    from dataeff.foretell.solve import PILOTS

    patterns = [text for text, _ in schedule.unsolved]
    lines = [line for line in costs.lines if line.strategy in patterns]
    return sum(2 * PILOTS * min(EPOCHS, line.epochs) * line.train / line.epochs for line in lines)


def _someone_is_there() -> bool:
    return console.is_terminal and bool(sys.stdin and sys.stdin.isatty())


def _ask(running: Running) -> None:
    """Ask before a long run, where somebody is there to answer."""
    from dataeff.foretell import preview

    if not _someone_is_there():
        return
    schedule = running.schedule
    costs = preview.quick(running.coming, running.desk)
    more, pilots = _seconds_of_line(costs, schedule), _seconds_of_pilots(costs, schedule)
    if not preview.asks(costs.seconds + more + pilots):
        return
    line = f" The line takes at most another {preview.duration(more)}." if more else ""
    found = f" Pilots take up to {preview.duration(pilots)}." if pilots else ""
    if not click.confirm(f"{preview.sentence(costs)}{line}{found} Go on?", err=True):
        click.echo("Nothing was run.", err=True)
        raise click.exceptions.Exit(1)
