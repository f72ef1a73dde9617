"""What is run on two strict devices, in a process of its own; errors travel back by themselves."""

import tempfile
from contextlib import suppress
from functools import cache, partial
from pathlib import Path

import strict
import torch
import torch._dynamo

from dataeff import Strategy, hookimpl
from dataeff.foretell.match import Pilot
from dataeff.foretell.pace import Estimate, Setup, Site
from dataeff.lab import Lab
from dataeff.plugins import load_plugins
from dataeff.testing import TASK
from dataeff.training.cell import validated
from dataeff.training.job import Place
from dataeff.training.loop import batches, epochs, prepare, train
from dataeff.training.meter import Meter
from dataeff.training.warming import warm_up


def install():
    """Give this process its devices."""
    torch.set_num_threads(1)
    strict.install()


@cache
def lab(device):
    """Return the lab of a device."""
    return Lab(load_plugins(), device)


def task_of(model, **changes):
    return TASK.model_copy(update={"model": model, **changes})


def told(result):
    """Return what can be said of a run elsewhere: how it ended, where it was, its weights."""
    state = result.run.model.state_dict().values()
    weights = torch.cat([value.cpu().flatten().double() for value in state])
    return result.record["status"], {str(value.device) for value in state}, weights


def start(text, model):
    """Train on the second device, while the first one is the current one."""
    there = lab("strict:1")
    return told(there.run(task_of(model), there.composition(text), 0))


def on_cpu(text, model):
    """Train the same on the CPU."""
    here = lab("cpu")
    return told(here.run(task_of(model), here.composition(text), 0))


class Stop(Exception):
    """Ends a run between two epochs, as a kill would."""


def _stop(last, epoch, *_):
    if epoch == last:
        raise Stop


def resume(text, model):
    """Train on one device for an epoch, on the other one for the next, and so on."""
    with tempfile.TemporaryDirectory() as name:
        place = Place(Path(name))
        for last in (2, 3, None):
            here = lab(f"strict:{(last or 0) % 2}")
            with suppress(Stop):
                run = here.composition(text), 0, place, partial(_stop, last)
                result = here.run(task_of(model), *run)
        return told(result)


def compiled(text, model):
    """Return how many graphs are made in warm-up, and how many by training on the clock."""
    torch._dynamo.reset()
    stats, here = torch._dynamo.utils.counters["stats"], lab("strict:1")
    stats.clear()
    strategies = here.composition(text).fresh()
    with here.started(task_of(model, compile="eager"), strategies, 0) as job:
        warm_up(job)
        before = stats["unique_graphs"]
        train(job, validated)
    return before, stats["unique_graphs"] - before


def hot(text, model):
    """Train with all refused that waits for the device within an epoch; return its epochs."""
    here = lab("strict:1")
    with here.started(task_of(model), here.composition(text).fresh(), 0) as job:
        prepare(job)
        for plan in epochs(job, validated):
            # The harness's own checks read back, once per epoch.
            job.calls.checking, job.calls.silent = False, True
            with strict.hot():
                for _ in batches(job, plan):
                    pass
    return job.run.epoch


SEEN = set()


class Notes(Strategy):
    """Note which device is current where a strategy's code runs."""

    @hookimpl
    def observe_batch(self):
        SEEN.add(current())


def foretold():
    """Preview a strategy and measure its cost; return which devices were current meanwhile."""
    here, task = lab("strict:1"), TASK
    here.installed.add_strategy("notes", Notes, "tests")
    line = Estimate(task.dataset, "notes", cells=1, finished=0)
    line = Site(here).fill(line, Setup(task, here.composition("notes"), 0))
    previewed = set(SEEN)
    SEEN.clear()
    pilot = Pilot(here, task, "baseline")
    # Far from this cost, one pass is enough.
    cost = pilot.cost("notes", 100.0)
    pilot.close()
    return line.trouble, cost > 0, previewed, SEEN


def current():
    """Return the index of the current device."""
    return torch.accelerator.current_device_index()


def events(steps):
    """Return how many events a meter makes for many phases, and which of these took time."""
    meter = Meter(torch.device("strict:1"))
    before = strict.Event.made
    for _ in range(steps):
        with meter.clock("train"), meter.stretch("own"):
            for phase in ("load", "forward", "backward"):
                meter.phase(phase)
    return strict.Event.made - before, {name for name, spent in meter.seconds.items() if spent > 0}


def refused(name):
    """Return why the device refuses what goes by this name, or what it returns."""
    x = torch.arange(6.0).to("strict:1")
    acts = {
        "another device": lambda: x + torch.ones(6, device="strict:0"),
        "the CPU": lambda: x + torch.ones(6),
        "an index of the CPU": lambda: x[torch.arange(3)],
        "a number": lambda: x + torch.tensor(1.0),
        "a generator": lambda: torch.rand(3, generator=torch.Generator(), device="strict:1"),
        "item": lambda: x.sum().item(),
        "if": lambda: bool(x[0] > 0),
        "a mask": lambda: x[x > 2],
        "nonzero": lambda: (x > 2).nonzero(),
        "a copy": lambda: x.cpu(),
        "a slow copy": lambda: torch.ones(3).to("strict:1"),
        "a quick copy": lambda: torch.ones(3).to("strict:1", non_blocking=True),
        "an event": lambda: torch.Event("strict:1").record(),
    }
    try:
        with strict.hot():
            acts[name]()
    except RuntimeError as error:
        return str(error)
    return ""


def read():
    """Read a device's tensors back, where that is no matter."""
    x = torch.arange(6.0, device="strict:1")
    return float(x.sum()), x[x > 2].cpu().tolist()
