"""A folder in which tests run suites, and a plugin that misbehaves."""

import json
import linecache
import shutil
from dataclasses import replace
from pathlib import Path

import pandas as pd

from dataeff.bench.asked import write_suite
from dataeff.bench.blocks import Cells
from dataeff.bench.cells import Settings
from dataeff.bench.desk import Desk, open_desk
from dataeff.bench.runner import run_cells
from dataeff.bench.schedule import Schedule
from dataeff.bench.suite import make_suite
from dataeff.lab import Lab
from dataeff.plugins import load_plugins

TASK = {
    "dataset": "synthetic[samples=90,test_samples=20,classes=4,size=8]",
    "model": "tiny",
    "epochs": 3,
    "batch_size": 16,
    "lr": 0.05,
}
# What a second run of a cell may not reproduce: what a clock or the system says.
TIMES = (
    "clocks",
    "process_clocks",
    "phases",
    "peak_memory",
    "ended",
    "machine",
    "energy",
    "provenance",
    "outside",
    "heat",
    "heats",
    "lanes",
    # Of what holds times.
    "files",
    "checksum",
)

# A strategy that misbehaves in the middle of epoch 1, once or always.
LOOSE = '''
"""Trouble."""

import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

from dataeff import Strategy, hookimpl


@hookimpl
def register_strategies(register):
    register("trouble", Trouble)
    register("gauge", Gauge)


@dataclass(eq=False)
class Trouble(Strategy):
    """Do what `kind` says."""

    kind: str = "raise"

    @hookimpl
    def on_epoch_start(self, run, epoch):
        if epoch == 1 and not Path("mended").exists():
            if self.kind == "raise":
                raise ValueError("as asked")
            if self.kind == "exit":
                os._exit(3)
            if self.kind == "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            time.sleep(60)


@dataclass(eq=False)
class Gauge(Strategy):
    """Report what it can."""

    @hookimpl
    def report(self, run):
        return {"nothing": float("nan"), "share": run.ledger.times_trained.float().mean()}
'''


class Bench:
    """A folder to run suites in: it keeps its lab, as a command does, until a plugin changes."""

    def __init__(self, folder, installed):
        self.folder = folder
        self.settings = Settings(
            results=folder / "results", device="cpu", in_process=True, saves_every=0
        )
        self.lab = Lab(installed, "cpu")
        self.desk = Desk.beside(self.lab)

    def with_loose_plugins(self, text=LOOSE):
        (self.folder / "plugins").mkdir()
        self.settings = replace(self.settings, plugin_dirs=(self.folder / "plugins",))
        self.write_plugin(text)
        return self

    def write_plugin(self, text):
        """Write the loose plugin, or edit it, and load all as the next command would."""
        (plugins,) = self.settings.plugin_dirs
        (plugins / "trouble.py").write_text(text)
        linecache.clearcache()
        # Python takes a file of the same second and size for the one that it has compiled.
        shutil.rmtree(plugins / "__pycache__", ignore_errors=True)
        self.lab = Lab(load_plugins([plugins]), "cpu")
        self.desk = Desk.beside(self.lab)

    def apart(self, **options):
        self.settings = replace(self.settings, in_process=False, **options)
        return self

    def schedule(self, *strategies, seeds=1, **task):
        """Return what a command would run, and leave what it asks for, as the command does."""
        content = {"name": "try", "seeds": seeds, "strategies": list(strategies or ["baseline"])}
        content |= {"controls": False, "tasks": {"blobs": TASK | task}}
        suite = make_suite(content, self.desk, where="test")
        if not self.settings.in_process:
            # What plans in this process does not run here.
            self.desk.timing = lambda wanted: wanted
        schedule = Schedule(suite, self.desk, self.settings.results)
        write_suite(schedule, self.root, "dataeff run try")
        return schedule

    def cells(self, *strategies, **options):
        return self.schedule(*strategies, **options).cells

    def run(self, cells, fresh=False, on_event=lambda event: None):
        """Run cells; return the events that were told."""
        events = []

        def watch(event):
            events.append(event)
            on_event(event)

        planned = cells if isinstance(cells, Schedule) else Cells(cells)
        if self.settings.in_process:
            run_cells(planned, self.desk, self.settings, watch, lambda cell, record: fresh)
            return events
        with open_desk(self.settings) as desk:
            run_cells(planned, desk, self.settings, watch, lambda cell, record: fresh)
        return events

    def killed(self, cell):
        """Run a cell to its end, then again until trouble ends it; its numbers when whole."""
        Path("mended").touch()
        self.run([cell])
        whole = numbers(cell)
        Path("mended").unlink()
        self.apart()
        self.run([cell], fresh=True)
        return whole

    @property
    def root(self):
        return self.settings.results / "try"

    @property
    def suite(self):
        """Return what suite.json says."""
        return json.loads((self.root / "suite.json").read_text())


def cells_of(schedule):
    """Yield the cells of a schedule, each when those before it have ended."""
    for wave in schedule.waves():
        for block in wave:
            yield from block.cells


def record(cell):
    return json.loads((cell.folder / "run.json").read_text())


def rewrite(cell, **changes):
    """Change what run.json says; it has no checksum then, as one of an earlier version."""
    changed = record(cell) | {"schema": 2} | changes
    changed.pop("checksum", None)
    (cell.folder / "run.json").write_text(json.dumps(changed))


def numbers(cell):
    """Return all that must be the same whenever and wherever a cell runs."""
    epochs = pd.read_csv(cell.folder / "epochs.csv")
    epochs = epochs.drop(columns=["prepare_seconds", "train_seconds"]).fillna(-1)
    samples = pd.read_parquet(cell.folder / "samples.parquet").fillna(-1)
    rest = {key: value for key, value in record(cell).items() if key not in TIMES}
    hits = (cell.folder / "hits.bin").read_bytes()
    return rest, epochs.to_dict("list"), samples.to_dict("list"), hits


def kinds(events):
    return [event.kind for event in events]
