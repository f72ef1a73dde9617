"""Cells to be previewed, of a network by whose fake clock all is timed."""

from pathlib import Path

from ticking import CLOCK, SCORED, TRAINED

from dataeff import lab
from dataeff.bench.cells import Cell, Scene, never
from dataeff.bench.desk import Desk
from dataeff.foretell import steps
from dataeff.foretell.preview import Coming, preview
from dataeff.models.small import TinyNet
from dataeff.testing import lab_of
from dataeff.training.task import Task

# 81 samples to train in batches of 16, 16, 16, 16 and 17; 9 to validate, 20 to test.
TASK = Task(
    dataset="synthetic[samples=90,test_samples=20,classes=4,size=8]",
    model="ticking",
    epochs=3,
    batch_size=16,
    lr=0.05,
)


class TickingNet(TinyNet):
    """Every row takes its time, by the fake clock."""

    def forward_features(self, x):
        if x.device.type != "meta":
            CLOCK.time += len(x) * (TRAINED if self.training else SCORED)
        return super().forward_features(x)


def ticking(classes, shape, *, width: int = 8):
    return TickingNet(classes, shape, width)


def with_fake_clock(installed, monkeypatch):
    """Return what is installed, with the ticking model, by whose clock all is timed."""
    for module in (steps, lab):
        monkeypatch.setattr(module, "perf_counter", CLOCK)
    installed.models.register("ticking", ticking, source="test")
    return installed


def cells_of(installed, *strategies, seeds=1, name="blobs", **task):
    task = TASK.model_copy(update=task)
    scene = Scene(name, task, "data", "network", conditions={"threads": 1})
    compositions = [lab_of(installed).composition(text) for text in strategies]
    return [
        Cell(Path("results/try"), "try", scene, composition, seed)
        for seed in range(seeds)
        for composition in compositions
    ]


def desk_of(installed):
    return Desk.beside(lab_of(installed))


def coming(cells, again=never, apart=False):
    return Coming(cells, again, apart=apart)


def line_of(installed, strategy="baseline", steps=5, apart=False, **task):
    """Return the one line of a strategy; a class is registered first."""
    if not isinstance(strategy, str):
        installed.add_strategy("probe", strategy, "test")
        strategy = "probe"
    cells = coming(cells_of(installed, strategy, **task), apart=apart)
    (line,) = preview(cells, desk_of(installed), steps).lines
    return line
