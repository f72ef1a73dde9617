"""The command that draws the figures of an analysis."""

from typing import Any

import click

from dataeff.cli.adhoc import adhoc_options
from dataeff.cli.echo import echo
from dataeff.cli.options import device_option, training_options
from dataeff.cli.show import console
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
    from dataeff.bench.progress import StudyWatch
    from dataeff.bench.service import PluginService
    from dataeff.cli.drawing import Drawing

    # As long as it takes: what is trained here says nothing for a while.
    service = PluginService(Drawing, plugin_dirs, limit=10**6)
    with service, StudyWatch(console) as watch:

        def hear(told: Any) -> None:
            if isinstance(told, str):
                console.print(printable(told), markup=False, soft_wrap=True)
            elif "note" in told:
                echo(told["note"], err=True)
            else:
                watch.show(**told)

        order = {"analysis": analysis, "suite": suite, "results": str(results), **options}
        order["data_root"] = options["data_root"] and str(options["data_root"])
        folder = service.call("draw", order, hear=hear)
    echo(f"\nWritten: {folder}/")
