"""The command that runs suites."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from dataeff.cli.adhoc import adhoc_options, choose_suite
from dataeff.cli.options import Number, training_options
from dataeff.cli.show import console, show
from dataeff.cost import MARGIN
from dataeff.errors import DataeffError

if TYPE_CHECKING:
    from pathlib import Path

    from dataeff.bench.cells import Again, Settings
    from dataeff.bench.desk import Desk
    from dataeff.bench.schedule import Schedule
    from dataeff.bench.suite import Suite
    from dataeff.foretell.preview import Coming, Preview


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
        _choose_lanes(chosen, desk, settings)
        with locked(desk.lanes):
            _run_suite(chosen, desk, settings, options)


def _choose_lanes(suite: Suite, desk: Desk, settings: Settings) -> None:
    """Have the desk on the lanes of the run, and say so where these were measured."""
    from dataeff.bench.choosing import choose_lanes

    with console.status("Looking for the lanes in which these cores train most"):
        said = choose_lanes(desk, suite, settings)
    if said:
        click.echo(said, err=True)


def _run_suite(suite: Suite, desk: Desk, settings: Settings, options: Mapping[str, Any]) -> None:
    """Run a suite and show its leaderboard, or say what that would cost."""
    from dataeff.bench.asked import write_suite
    from dataeff.bench.choosing import calibrate
    from dataeff.bench.schedule import Schedule
    from dataeff.foretell.preview import Coming, check_setups
    from dataeff.report.due import Looking

    folder, fresh = settings.results / suite.name, options["fresh"]
    looking = Looking(folder)
    schedule = Schedule(suite, desk, settings.results, fresh, looking)
    again = _again(fresh, options["rerun_flagged"], schedule, folder)
    coming = Coming(schedule.cells, again, schedule.unsolved, not settings.in_process)
    if options["dry_run"]:
        _preview(schedule, coming, desk)
        _warn(schedule, desk)
        return
    check_setups(coming, desk)
    _warn(schedule, desk)
    if not options["yes"]:
        _ask(schedule, coming, desk)
    with console.status("Measuring what busy lanes do to the times beside them"):
        calibrate(desk, suite, settings)
    schedule.joined = looking.before = partial(write_suite, schedule, folder, _command())
    looking.before()
    if fresh:
        schedule.forget()
    try:
        _run(schedule, desk, settings, again)
    except (KeyboardInterrupt, SystemExit) as stop:
        if told := looking.missing():
            stop.add_note(told)
        raise
    looking.make(schedule.stages.last)
    show(folder)
    _tell_failures(schedule)


def _run(schedule: Schedule, desk: Desk, settings: Settings, again: Again) -> None:
    """Run what is planned."""
    from dataeff.bench.progress import Watch
    from dataeff.bench.runner import run_cells

    with Watch(console) as watch:
        schedule.matches.tell = watch.say
        run_cells(schedule, desk, settings, watch, again)


def _tell_failures(schedule: Schedule) -> None:
    """Say what failed; there is an exit code for it."""
    from dataeff.bench.ended import failures

    failed = [*failures(schedule.cells), *schedule.matches.troubles]
    for line in failed:
        click.echo(f"Failed: {line}", err=True)
    if failed:
        raise click.exceptions.Exit(1)


def _command() -> str:
    """Return the command to run this again: without what only says how, not what."""
    how = ("-y", "--yes", "--fresh", "--resume", "--rerun-flagged", "--in-process")
    return shlex.join(["dataeff", *(word for word in sys.argv[1:] if word not in how)])


def _again(fresh: bool, flagged: bool, schedule: Schedule, folder: Path) -> Again:
    """Return what says of a cell and its record, or of None, whether to start the cell anew."""
    from dataeff.bench.cells import Cell, never
    from dataeff.bench.results import flags_of, pairing
    from dataeff.report.doubts import Doubts

    if fresh:
        return lambda cell, record: True
    wrong = Doubts(folder).found

    def doubtful(record: Mapping[str, Any] | None) -> bool:
        return bool(record and (flags_of(dict(record)) or record.get("checksum") in wrong))

    def again(cell: Cell, record: dict[str, Any] | None) -> bool:
        if not record or doubtful(record) or "heat" not in record:
            return doubtful(record)
        # Its time is one beside a reference: it goes with that one's.
        reference = schedule.reference_of(cell).record()
        return doubtful(reference) or bool(pairing(record, reference)[1])

    return again if flagged else never


def _preview(schedule: Schedule, coming: Coming, desk: Desk) -> None:
    from dataeff.foretell import preview
    from dataeff.report.terminal import aligned

    with console.status("Measuring a few steps of each strategy"):
        costs = preview.preview(coming, desk)
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


def _warn(schedule: Schedule, desk: Desk) -> None:
    """Say before the run where it will be, what of its networks, and which margins are too fine."""
    from dataeff.bench.results import settled
    from dataeff.report.margin import Resolution, unresolved

    suite = schedule.suite
    coming = {cell.task_name for cell in schedule.cells if not settled(cell.record())}
    if coming:
        click.echo(desk.device_line(), err=True)
    for name, task in suite.tasks.items():
        if name not in coming:
            continue
        for line in desk.facts(task).said:
            click.echo(line, err=True)
        images = desk.facts(task).test_samples
        listed = len(suite.strategies) - 1
        given = Resolution(suite.seeds, listed, images, schedule.stages.typical(name))
        if said := unresolved(name, suite.margin, given):
            click.echo(said, err=True)


def _seconds_of_pilots(costs: Preview, schedule: Schedule) -> float:
    """Return about what pilots take: each trains as many epochs of the reference."""
    from dataeff.foretell.match import EPOCHS
    from dataeff.foretell.solve import PILOTS

    patterns = [text for text, _ in schedule.unsolved]
    lines = [line for line in costs.lines if line.strategy in patterns]
    return sum(2 * PILOTS * min(EPOCHS, line.epochs) * line.train / line.epochs for line in lines)


def _someone_is_there() -> bool:
    return console.is_terminal and bool(sys.stdin and sys.stdin.isatty())


def _ask(schedule: Schedule, coming: Coming, desk: Desk) -> None:
    """Ask before a long run, where somebody is there to answer."""
    from dataeff.foretell import preview

    if not _someone_is_there():
        return
    costs = preview.quick(coming, desk)
    more, pilots = _seconds_of_line(costs, schedule), _seconds_of_pilots(costs, schedule)
    if not preview.asks(costs.seconds + more + pilots):
        return
    line = f" The line takes at most another {preview.duration(more)}." if more else ""
    found = f" Pilots take up to {preview.duration(pilots)}." if pilots else ""
    if not click.confirm(f"{preview.sentence(costs)}{line}{found} Go on?", err=True):
        click.echo("Nothing was run.", err=True)
        raise click.exceptions.Exit(1)
