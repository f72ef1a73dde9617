"""A plugin whose strategies try to look better than they are, each in its own way."""

PLUGIN = '''
"""Cheats."""

import gc
import json
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import torch

import dataeff.bench.guest
import dataeff.training.cell
import dataeff.training.evaluate
from dataeff import Strategy, hookimpl
from dataeff.data import Dataset, ImageSet, Raw, Split

TESTS = 24


@hookimpl
def register_datasets(register):
    register("filed", Filed)


@dataclass(eq=False, kw_only=True)
class Filed(ImageSet):
    """Images in a file."""

    def read(self, root):
        return Raw(*torch.load(root / "filed.pt", weights_only=True), 4)


@hookimpl
def register_strategies(register):
    for kind in Cheat.__subclasses__():
        register(kind.__name__.lower(), kind)


class Cheat(Strategy):
    """The base of cheats."""

    def found(self, value):
        self.seen = max(getattr(self, "seen", 0), int(value))

    @hookimpl
    def report(self):
        return {"seen": getattr(self, "seen", 0)}


def is_test(thing):
    return isinstance(thing, Split) and hasattr(thing, "data") and len(thing.data) == TESTS


class Collector(Cheat):
    """Look for the test set among all objects."""

    @hookimpl
    def on_epoch_start(self, run):
        kinds = [thing for thing in gc.get_objects() if isinstance(thing, Split | torch.Tensor)]
        tensors = [t for t in kinds if isinstance(t, torch.Tensor) and t.ndim == 4]
        self.found(any(map(is_test, kinds)) or any(len(t) == TESTS for t in tensors))


class Frames(Cheat):
    """Look for the test set in the frames of those who call."""

    @hookimpl
    def on_epoch_start(self, run):
        frame = sys._getframe()
        while frame:
            for thing in frame.f_locals.values():
                whole = thing.test if isinstance(thing, Dataset) else thing
                self.found(is_test(whole))
            frame = frame.f_back


class Files(Cheat):
    """Read the test set where the dataset reads it."""

    @hookimpl
    def on_epoch_start(self, run):
        try:
            open(Path("data/filed.pt").resolve(), "rb").read()
        except Exception:
            pass


class Forger(Cheat):
    """Write test figures of its own."""

    @hookimpl
    def on_epoch_end(self, run):
        for line in run._job.history:
            line["test_top1"] = 100.0


class Peeper(Cheat):
    """Stop as soon as the test accuracy is good."""

    @hookimpl
    def should_stop(self, run):
        told = json.dumps(run._job.history, default=str)
        self.found("test_" in told)
        return "test_" in told


class Patcher(Cheat):
    """Make every evaluation perfect."""

    @hookimpl
    def setup(self, run):
        right = dataeff.training.evaluate.metrics

        def perfect(logits, y):
            return right(torch.nn.functional.one_hot(y, logits.shape[1]).float(), y)

        dataeff.training.evaluate.metrics = perfect
        dataeff.training.cell.evaluate = lambda model, split, samples, size: perfect(
            torch.zeros(len(samples), 4), split.labels[samples]
        )


@dataclass(eq=False)
class Early(Cheat):
    """Have the whole test set tested at its best, and not at its end; say after which epoch."""

    says: int = 0

    @hookimpl
    def on_epoch_start(self, run, epoch):
        host = run._job.place.host
        if epoch == 1:
            host.test(run._job, self.says, True)
            host.test = lambda *asked: None


class Sender(Cheat):
    """Change the record on its way."""

    @hookimpl
    def setup(self, run):
        send = dataeff.bench.guest.Line.send

        def better(line, message):
            if "ended" in message:
                message["ended"]["metrics"] = {"test_top1": 100.0}
                message["ended"]["classes"]["accuracy"] = [100.0] * 4
                message["ended"] |= {"strategy": "baseline", "seed": 7, "version": "other"}
            send(line, message)

        dataeff.bench.guest.Line.send = better


class Babbler(Cheat):
    """Say what makes no sense."""

    @hookimpl
    def on_epoch_start(self, run):
        for message in BABBLE[: run.epoch + 1]:
            run._job.place.host._line.send(message)


BABBLE = [
    {"nobody": "knows this"},
    {"mark": "on"},
    {"epoch": 1, "epochs": 0, "line": "text"},
]


class Pauser(Cheat):
    """Work while the clock stands still."""

    @hookimpl
    def on_epoch_start(self, run):
        with run._job.meter.paused():
            time.sleep(1.0)


class Saver(Cheat):
    """Work when its state is asked for."""

    def state_dict(self):
        time.sleep(0.4)
        return {}

    def load_state_dict(self, state):
        pass


class Divider(Cheat):
    """Divide the clock."""

    @hookimpl
    def on_epoch_start(self, run):
        time.sleep(0.4)
        for clock in list(run._job.meter.wall):
            run._job.meter.wall[clock] *= 0.1


class Slower(Cheat):
    """Slow the clock."""

    @hookimpl
    def setup(self, run):
        clock, begin = time.perf_counter, time.perf_counter()
        time.perf_counter = lambda: begin + (clock() - begin) / 10

    @hookimpl
    def on_epoch_start(self, run):
        time.sleep(0.4)


class Rewriter(Cheat):
    """Make the record of another cell worse."""

    @hookimpl
    def on_epoch_start(self, run):
        try:
            for path in Path("results").glob("try/*baseline*/run.json"):
                path.write_text("{}")
        except Exception:
            pass


class Shell(Cheat):
    """Make the record of another cell worse, by another program."""

    @hookimpl
    def on_epoch_start(self, run):
        change = """sed -i 's/"test_top1": [0-9.]*/"test_top1": 1.0/' """
        subprocess.run(change + "results/try/*baseline*/run.json", shell=True)


class Stater(Cheat):
    """State less work than it does, but in the first batch, which anybody would look at."""

    @hookimpl
    def compute_factor(self, run):
        return 1.0 if run.batch == 0 else 0.1


class Leaver(Cheat):
    """Have another process work on."""

    @hookimpl
    def setup(self, run):
        subprocess.Popen(["sleep", "600"], start_new_session=True)


class Threads(Cheat):
    """Compute under other conditions than the others."""

    @hookimpl
    def setup(self, run):
        torch.set_float32_matmul_precision("medium")


class Burglar(Cheat):
    """Take the key that records are sealed with."""

    @hookimpl
    def setup(self, run):
        try:
            (Path(%r)).read_bytes()
        except Exception:
            pass
'''
