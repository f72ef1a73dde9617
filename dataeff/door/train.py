"""Taking the winner home: one network, trained with one strategy on the whole training set."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Unpack

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from torch import nn

from dataeff.bench.suite import make_task
from dataeff.composition import Composition
from dataeff.door.handed import handed_over
from dataeff.door.options import TrainOptions, WinnerOptions, sorted_out
from dataeff.errors import DataeffError, Diverged
from dataeff.files import make_way, write_bytes
from dataeff.lab import Lab
from dataeff.models.identity import identity_of
from dataeff.models.own import as_given
from dataeff.plugins import load_plugins
from dataeff.training.cell import Result, train_cell
from dataeff.training.job import NOWHERE, Place
from dataeff.training.task import Task

SAVES_EVERY = 1.0
"""Seconds of training, at least, between two checkpoints."""


@dataclass(frozen=True, eq=False)
class Training:
    """A network to be trained: what on, how, and where its weights go; nowhere without `weights`.

    Beside the weights lies a folder with checkpoints while it trains: from there it goes on.
    """

    lab: Lab
    task: Task
    composition: Composition
    seed: int = 0
    weights: Path | None = None
    tested: bool = True

    @property
    def partial(self) -> Path | None:
        """Return the folder of its checkpoints."""
        return self.weights and self.weights.with_name(f"{self.weights.name}.training")

    def run(self, console: Console, fresh: bool = False) -> Result:
        """Train it, from its start or from where it was stopped, and write its weights."""
        place = self._place(fresh)
        with _Progress(console) as on_epoch:
            strategies = self.composition.fresh()
            with self.lab.started(self.task, strategies, self.seed, place) as job:
                test = self.lab.data(self.task).test if self.tested else None
                result = train_cell(job, test, on_epoch)
        if result.record["status"] != "finished":
            raise Diverged(result.record["error"])
        if self.weights:
            self._write(result, self.weights)
            shutil.rmtree(self.partial or "", ignore_errors=True)
        return result

    def _place(self, fresh: bool) -> Place:
        """Return where it keeps checkpoints; those of another training are refused."""
        if not (folder := self.partial):
            return NOWHERE
        if fresh:
            shutil.rmtree(folder, ignore_errors=True)
        known, path = self._known(), folder / "what.json"
        if path.exists() and path.read_text(encoding="utf-8") != known:
            raise DataeffError(
                f"{folder} is of another training that was stopped; add --fresh (fresh=True) to "
                "begin anew, or name another file of weights."
            )
        folder.mkdir(parents=True, exist_ok=True)
        path.write_text(known, encoding="utf-8")
        return Place(folder, saves_every=SAVES_EVERY)

    def _known(self) -> str:
        """Return what its numbers hang on, in a few letters."""
        task, what, data = self.task, self.composition, self.lab.data(self.task)
        models = self.lab.installed.models
        network = identity_of(task.model, models, data.classes, data.shape)
        told = [task.id, data.fingerprint, network, what.parameters, what.sources, self.seed]
        return hashlib.sha256(json.dumps(told, default=str).encode()).hexdigest()

    def _write(self, result: Result, path: Path) -> None:
        from safetensors.torch import save

        told = made_of(result)
        state = as_given(result.run.model).state_dict()
        # Tensors that share memory are written once each; views are no tensors of their own.
        tensors = {name: value.detach().cpu().clone().contiguous() for name, value in state.items()}
        make_way(path)
        write_bytes(path, save(tensors, {key: str(value) for key, value in told.items()}))


def made_of(result: Result) -> dict[str, Any]:
    """Return how a network was made, and what it reached."""
    record = result.record
    clocks = record["clocks"]
    told = {
        "strategy": record["strategy"],
        "task": json.dumps(record["task"]),
        "seed": record["seed"],
        "epochs": record["epochs"],
        "seconds": clocks.get("prepare", 0.0) + clocks["train"],
        **record["metrics"],
    }
    return {key: value for key, value in told.items() if value is not None}


def train(
    train: Any = None,
    test: Any = None,
    model: Any = "resnet8",
    strategy: str = "baseline",
    epochs: float = 10.0,
    **options: Unpack[WinnerOptions],
) -> nn.Module:
    """Train a network with a strategy on the whole training set, and return it, ready to be used.

    Data, networks and options are those of `compare`; no validation set is carved unless
    `validation` says so, and without `test` it is not tested. `weights="net.safetensors"` keeps its
    weights, and checkpoints while it trains: stopped, the same call goes on. `trained` of what is
    returned says how it was made and what it reached.

        net = dataeff.train((x, y), (x_test, y_test), make_net, result.answer.strategy, epochs=20)
    """
    run, own, task = sorted_out(options, TrainOptions)
    console = Console(highlight=False)
    handed = handed_over(train, test, model, own, "data")
    if untested := handed.lacks_test:
        # A data set has two parts; where one is trained, and nothing tested, they are the same.
        handed.data["test"] = train
    named = {"dataset": handed.dataset or train, "model": handed.network or model}
    with handed.laid_out() as (folder, _):
        dirs = [*run.get("plugin_dirs", ()), folder]
        root = run.get("data_root")
        lab = Lab(load_plugins(dirs), run.get("device", "auto"), root and Path(root))
        training = Training(
            lab,
            make_task({"validation": 0.0, **task, **named, "epochs": float(epochs)}, "train"),
            lab.composition(strategy),
            run.get("seed", 0),
            Path(run["weights"]) if "weights" in run else None,
            tested=not untested,
        )
        result = training.run(console, run.get("fresh", False))
    net = as_given(result.run.model).eval()
    # No tensor and no module: what torch keeps track of are these.
    vars(net)["trained"] = made_of(result)
    return net


class _Progress(Progress):
    """A bar that hears of epochs; a line for each where there is no terminal."""

    def __init__(self, console: Console) -> None:
        columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
        super().__init__(*columns, console=console, disable=not console.is_terminal)

    def __enter__(self) -> Callable[..., None]:  # type: ignore[override]
        super().__enter__()
        bar = self.add_task("training", total=1.0)

        def on_epoch(number: int, epochs: float, line: Mapping[str, Any]) -> None:
            loss = f"epoch {number} of {epochs:g}: loss {line['train_loss']:.4f}"
            seen = line.get("test_top1")
            said = loss if seen is None else f"{loss}, test accuracy {seen:.2f}%"
            self.update(bar, description=said, completed=min(1.0, number / epochs))
            if self.disable:
                self.console.print(said)

        return on_epoch
