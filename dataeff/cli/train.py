"""The command that trains one network with a strategy, on the whole training set, to be used."""

from __future__ import annotations

import click

from dataeff.cli.adhoc import adhoc_task, task_options
from dataeff.cli.options import PATH, data_root_option, device_option, plugins_dir_option
from dataeff.cli.show import console, say
from dataeff.errors import DataeffError


@click.command()
@click.option("-s", "--strategy", help="The strategy to train with.")
@task_options
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="The seed.")
@click.option("--weights", type=PATH, help="The file for its weights, NAME.safetensors.")
@click.option("--fresh", is_flag=True, help="Begin anew where a training was stopped.")
@device_option
@data_root_option
@plugins_dir_option
def train(strategy, weights, plugin_dirs, **options):
    """Train one network on the whole training set, and keep its weights.

    No validation set is carved, unless --set validation=0.1 says so. What was stopped goes on with
    the same command.

    \b
    dataeff train -s infobatch -d digits -m resnet8 --epochs 24 --weights net.safetensors
    """
    from dataeff.door.train import Training, made_of
    from dataeff.lab import Lab
    from dataeff.plugins import load_plugins
    from dataeff.training.devices import about_device, device_line

    if not strategy or not weights:
        raise DataeffError("Say with which strategy, and where to: -s infobatch --weights FILE.")
    carved = any(text.startswith("validation=") for text in options["settings"])
    settings = options["settings"] if carved else ("validation=0", *options["settings"])
    task = adhoc_task(options | {"settings": settings})
    lab = Lab(load_plugins(plugin_dirs), options["device"], options["data_root"])
    training = Training(lab, task, lab.composition(strategy), options["seed"], weights)
    say(device_line(about_device(lab.device)))
    made = made_of(training.run(console, options["fresh"]))
    say(
        f"Test accuracy {made['test_top1']:.2f}% after {made['epochs']:g} epochs and "
        f"{made['seconds']:.3g} s of preparing and training."
    )
    say(f"Written: {weights}")
