"""The options of the Python door: what may be said of a run, of own data, and of a task."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from typing import Any, NamedTuple, TypedDict, get_type_hints

from dataeff.errors import DataeffError, did_you_mean
from dataeff.training.keys import Keys

Path = str | PathLike[str]


class RunOptions(TypedDict, total=False):
    """How and where to run: as the options of `dataeff run` of the same names."""

    name: str
    """The folder below `results` that keeps all of it (default: made of data, network, epochs)."""
    results: Path
    """Folder of results (default: `results`)."""
    reference: str
    """The strategy that the others are compared with (default: `baseline`)."""
    seeds: int | str
    """A number, `auto` (the default: more for what is not settled), or a range such as `3-5`."""
    margin: float
    """Points of accuracy that a strategy may lose and still be no worse."""
    controls: bool
    """Add the line: just training less, at a few budgets (default: yes)."""
    device: str
    """Where to run: `auto`, `cpu`, `cuda:0,cuda:1`, `cpu*2`."""
    data_root: Path
    """Folder of data sets."""
    plugin_dirs: Sequence[Path]
    """Folders whose files are plugins too."""
    timeout: float
    """Seconds without a finished epoch after which a cell is given up."""
    fresh: bool
    """Run finished cells again."""
    in_process: bool
    """Run in this process, for debugging: nothing guards clocks and test set there."""


class OwnOptions(TypedDict, total=False):
    """What may be said of own data, and of an own network."""

    pretrained: bool
    """Keep the weights of the module that is given (default: draw them anew for each seed)."""

    classes: Sequence[str]
    """Names of the classes, where labels are their numbers."""
    layout: str
    """Where arrays have their channels: `NHWC` or `NCHW`."""
    memory: str
    """Where images stay: on the `device`, or on the `host`."""
    image_column: str
    """The column of the images, where a dataset has several."""
    label_column: str
    """The column of the labels."""
    transform: Callable[[Any], Any]
    """Own augmentation of whole batches, seeded for each sample."""
    size: int
    """Height and width to resize to, once."""
    subset: int | float
    """A class-balanced count or share of the training set."""
    label_noise: float
    """The share of training labels to be replaced."""
    crop: int
    """Padding that random crops move in."""
    flip: bool
    """Mirror images at random."""


class TrainOptions(TypedDict, total=False):
    """How and where to train one network."""

    weights: Path
    """The file that keeps its weights, as safetensors."""
    seed: int
    """What is drawn: weights, order, augmentation (default: 0)."""
    device: str
    """Where to train: `auto`, `cpu`, `cuda:1`."""
    data_root: Path
    """Folder of data sets."""
    plugin_dirs: Sequence[Path]
    """Folders whose files are plugins too."""
    fresh: bool
    """Begin anew where a training of this file was stopped."""


class CompareOptions(RunOptions, OwnOptions, Keys, total=False):
    """All that `dataeff.compare` takes."""


class WinnerOptions(TrainOptions, OwnOptions, Keys, total=False):
    """All that `dataeff.train` takes."""


class Sorted(NamedTuple):
    """Options by what they are about: how to run, own data and network, the task."""

    how: dict[str, Any]
    own: dict[str, Any]
    task: dict[str, Any]


def sorted_out(options: Mapping[str, Any], how: type) -> Sorted:
    """Return options by what they are about; one that nobody knows is refused.

    `how` has those that say how to run.
    """
    kinds = [
        [*get_type_hints(how)],
        [*get_type_hints(OwnOptions)],
        [*get_type_hints(Keys)],
    ]
    known = [key for kind in kinds for key in kind]
    for name in options:
        if name not in known:
            hint = did_you_mean(name, known) or f" There are: {', '.join(known)}."
            raise DataeffError(f"There is no option {name!r}.{hint}")
    return Sorted(*({key: options[key] for key in kind if key in options} for kind in kinds))
