"""The command that draws the figures of an analysis."""

from typing import Any

import click

from dataeff.cli.adhoc import adhoc_options, choose_suite
from dataeff.cli.echo import echo
from dataeff.cli.options import device_option, training_options
from dataeff.cli.show import console
from dataeff.errors import DataeffError, UnknownName, did_you_mean
from dataeff.printable import printable


@click.command()
@click.argument("analysis", metavar="NAME", required=False)
@click.argument("suite", required=False)
@click.option("--task", "task_name", help="The task of the suite, where it has several.")
@click.option(
    "--figure", "figures", multiple=True, help="Only this figure, such as 2a; repeatable."
)
@click.option(
    "--seed",
    type=click.IntRange(0, 10_000),
    default=0,
    show_default=True,
    help="The seed of every run.",
)
@click.option(
    "--fresh/--resume",
    default=False,
    help="Train again what is trained (default: read it, go on with stopped runs).",
)
@adhoc_options
@device_option
@training_options
def analyze(analysis, suite, results, plugin_dirs, **options):
    """Draw the figures of the analysis NAME on a task of SUITE, or on an ad-hoc one.

    It trains what the figures need and leaves pictures (.png) and their numbers (.csv) in
    RESULTS/SUITE/analysis/NAME. What is trained stays, and is not trained again. NAME may carry
    parameters, as a strategy does.

    \b
    dataeff analyze mixtrain quickstart --figure 6
    dataeff analyze mixtrain --dataset digits --model resnet8 --epochs 10
    dataeff analyze 'overlap[other=resnet20,models=3]' quickstart
    """
    from dataeff.analysis.study import Study, check_figures
    from dataeff.bench.progress import StudyWatch
    from dataeff.lab import Lab, pick_device
    from dataeff.notation import parse_one
    from dataeff.plugins import load_plugins

    installed = load_plugins(plugin_dirs)
    if analysis is None:
        known = [f"{entry.name} ({entry.summary})" for entry in installed.analyses.entries()]
        raise DataeffError(f"Name an analysis: {', '.join(known) or 'none is installed'}")
    seed, figures = options["seed"], options["figures"]
    part = parse_one(analysis)
    entry = installed.analyses[part.name]
    values = entry.read(part.params)
    check_figures(entry, figures)
    # Where there is no such device, that is told before the first figure fails for it.
    device = str(pick_device(options["device"]))
    lab = Lab(installed, device, options["data_root"])
    # A suite needs a strategy, even where the analysis brings its own.
    chosen = choose_suite(lab, suite, [] if suite else ["baseline"], options)
    task_name = _pick_task(chosen, options["task_name"])
    home = results / chosen.name / "analysis"
    folder = home / part.name
    # A folder of its own for what would overwrite the rest.
    folder /= task_name if len(chosen.tasks) > 1 else ""
    folder /= f"seed{seed}" if seed else ""
    with StudyWatch(console) as watch:
        study = Study(
            chosen.name,
            task_name,
            chosen.tasks[task_name],
            folder,
            lab,
            seed=seed,
            asked=figures,
            fresh=options["fresh"],
            results=results,
            # One analysis may need what another one has trained.
            runs=home / "runs",
            watch=watch,
            tell=lambda line: console.print(printable(line), markup=False, soft_wrap=True),
        )
        entry.factory(study, **values)
    echo(f"\nWritten: {folder}/")


def _pick_task(suite: Any, name: str | None) -> str:
    tasks = ", ".join(suite.tasks)
    if name is None and len(suite.tasks) > 1:
        raise DataeffError(f"{suite.name} has several tasks; add --task with one of: {tasks}.")
    if name is not None and name not in suite.tasks:
        hint = did_you_mean(name, suite.tasks) or f" It has: {tasks}."
        raise UnknownName(f"{suite.name} has no task {name!r}.{hint}")
    return name or next(iter(suite.tasks))
