"""The self-test: what only a device can show, in checks that take five minutes together.

Each runs in a process of its own. It returns why it was skipped, or nothing, and raises where it
fails; on a CPU those that ask for a GPU are skipped.
"""

from __future__ import annotations

import multiprocessing
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch

from dataeff.bench.checkup import Examination
from dataeff.bench.service import Hear, Service
from dataeff.composition import Active
from dataeff.errors import DataeffError, Refused, one_line
from dataeff.hookspecs import hookimpl
from dataeff.lab import Lab
from dataeff.plugins import load_plugins
from dataeff.registry import Entry
from dataeff.strategy import Strategy
from dataeff.testing import TASK, as_member, weights
from dataeff.training.cell import OnEpoch, Result, validated
from dataeff.training.devices import about_device, device_line
from dataeff.training.energy import energy_counter
from dataeff.training.job import NOWHERE, Place
from dataeff.training.loop import batches, epoch, plan_epoch, prepare
from dataeff.training.meter import Meter, peak_memory, reset_peak_memory
from dataeff.training.nvml import Gpu, find_gpu
from dataeff.training.run import Run
from dataeff.training.spying import reading_forbidden
from dataeff.training.task import Task

LIMIT = 300.0
"""Seconds that all checks may take together."""
_BYTES = 2**28


class Outcome(NamedTuple):
    """What came of a check: `word` is ok, failed or skipped."""

    check: str
    word: str
    why: str = ""


def selftest(device: str = "auto") -> Iterator[Outcome]:
    """Yield what comes of each check on a device."""
    with Service(Selftest, device, limit=LIMIT) as service:
        yield Outcome("the device", "ok", service.call("device"))
        yield from outcomes(service)


def outcomes(service: Service, limit: float = LIMIT) -> Iterator[Outcome]:
    """Yield what comes of each check; one that dies or hangs has failed, and the next one runs."""
    end = time.monotonic() + limit
    for check in CHECKS:
        title, left = check.__name__.replace("_", " "), end - time.monotonic()
        if left <= 0:
            yield Outcome(title, "skipped", f"{limit:g} seconds are over")
            continue
        try:
            why = service.call("check", check.__name__, limit=left)
            yield Outcome(title, "skipped" if why else "ok", why)
        except DataeffError as error:
            yield Outcome(title, "failed", one_line(str(error)))


@dataclass(frozen=True, eq=False)
class Patient:
    """A device, by the lab that works on it, and the strategies to try it with."""

    lab: Lab
    strategies: tuple[str, ...]

    @property
    def device(self) -> torch.device:
        """Return the device that is tested."""
        return self.lab.device

    @property
    def no_gpu(self) -> str:
        """Say that there is no GPU, where that is so."""
        return "" if self.device.type == "cuda" else f"it needs CUDA, and this is {self.device}"

    def active(self, *strategies: str | Strategy) -> list[Active]:
        """Return the members of a run: those of texts, and objects."""
        compose = self.lab.composition
        found = [compose(s).fresh() if isinstance(s, str) else [as_member(s)] for s in strategies]
        return [part for parts in found for part in parts]

    def task(self, *strategies: str | Strategy, **changes: Any) -> Task:
        """Return the kit's little task, with a residual network for whoever needs one."""
        task = TASK.model_copy(update=changes)
        with suppress(Refused), self.lab.started(task, self.active(*strategies), 0):
            return task
        return task.model_copy(update={"model": "resnet8[width=8]"})

    def train(
        self,
        *strategies: str | Strategy,
        place: Place = NOWHERE,
        on_epoch: OnEpoch | None = None,
        **changes: Any,
    ) -> Result:
        """Train that task, from its start or from where it was stopped."""
        task = self.task(*strategies, **changes)
        result = self.lab.run(task, self.active(*strategies), 0, place, on_epoch)
        assert result.record["status"] == "finished", result.record["error"]
        assert torch.isfinite(weights(result)).all(), "a weight is not finite"
        return result

    def stop_and_go_on(self, other: Patient, *strategies: str, **changes: Any) -> Result:
        """Train in two parts, the second as another one does it."""
        with tempfile.TemporaryDirectory(prefix="dataeff-selftest-") as name:
            place = Place(Path(name))
            with suppress(_Stopped):
                self.train(*strategies, place=place, on_epoch=_stop, **changes)
            return other.train(*strategies, place=place, **changes)

    def try_each(self, attempt: Callable[[str], Any]) -> None:
        """Try every strategy; who fails is named."""
        troubles = []
        for text in self.strategies:
            try:
                attempt(text)
            except Exception as error:
                troubles.append(f"{text} ({one_line(f'{type(error).__name__}: {error}')})")
        assert not troubles, "; ".join(troubles)


class _Stopped(Exception):
    """Ends a run as a kill would, between two epochs."""


def _stop(number: int, epochs: float, line: Any) -> None:
    if number == 2:
        raise _Stopped


Check = Callable[[Patient], str | None]


class Selftest:
    """The checks, where a device may be woken."""

    def __init__(self, tell: Hear, device: str) -> None:
        installed = load_plugins()
        ours = {plugin.name for plugin in installed.plugins if plugin.source == "bundled"}
        entries = [one for one in installed.strategies.entries() if one.source in ours]
        texts = tuple(_cheap(one) for one in entries if not one.alias_of)
        self._patient = Patient(Lab(installed, device), texts)

    def device(self) -> str:
        """Say what is tested."""
        return device_line(about_device(self._patient.device))

    def check(self, name: str) -> str:
        """Run one check; return why it was skipped."""
        (check,) = (one for one in CHECKS if one.__name__ == name)
        return check(self._patient) or ""


def _cheap(entry: Entry) -> str:
    """Return a strategy that trains one network for one epoch, where it scores with others."""
    few = [f"{name}=1" for name in ("models", "epochs") if name in entry.parameters]
    return f"{entry.name}[{','.join(few)}]" if few else entry.name


# The checks --------------------------------------------------------------------------------------


def every_strategy_trains_and_resumes(patient: Patient) -> None:
    """Whatever is bundled starts on the device, is stopped, and goes on from its checkpoint."""
    patient.try_each(lambda text: patient.stop_and_go_on(patient, text))


def every_strategy_resumes_on_another_device(patient: Patient) -> str | None:
    """A run that was stopped on one GPU goes on on another."""
    if patient.no_gpu or torch.cuda.device_count() < 2:
        return patient.no_gpu or "there is one GPU only"
    index = 1 - min(1, patient.device.index or 0)
    other = Patient(Lab(patient.lab.installed, f"cuda:{index}"), ())
    patient.try_each(lambda text: patient.stop_and_go_on(other, text))
    return None


def a_deterministic_run_resumes_bit_by_bit(patient: Patient) -> None:
    """With `deterministic`, two runs of a seed are the same, also where one was stopped."""
    whole = patient.train(deterministic=True)
    parts = patient.stop_and_go_on(patient, deterministic=True)
    assert torch.equal(weights(whole), weights(parts)), "the weights differ"


def no_strategy_reads_back(patient: Patient) -> None:
    """No batch waits for the device; on a CPU, by tensors without data."""

    def attempt(text: str) -> None:
        active = patient.active(text)
        if any(part.kind.reads_back for part in active):
            return
        with patient.lab.started(patient.task(text), active, 0) as job:
            prepare(job)
            for plan in epoch(job, validated):
                for _ in batches(job, plan):
                    pass
            plan = plan_epoch(job)
            with reading_forbidden(job):
                for _ in batches(job, plan):
                    pass

    patient.try_each(attempt)


def half_precision_trains(patient: Patient) -> str | None:
    """What changes precision trains in bfloat16 and in float16."""
    entries = patient.lab.installed.strategies.entries()
    names = [one.name for one in entries if one.factory.precision and "dtype" in one.parameters]
    for name in names:
        for dtype in ("bfloat16", "float16"):
            patient.train(f"{name}[dtype={dtype}]")
    return None if names else "no strategy changes precision"


def a_compiled_network_trains(patient: Patient) -> None:
    """Networks are compiled, also to CUDA graphs; on a CPU, by a backend that needs no compiler."""
    if patient.no_gpu:
        patient.train(compile="eager")
        return
    for mode in (None, "reduce-overhead"):
        patient.train(compile=True, compile_mode=mode)


class _Pinning(Strategy):
    """Pin every batch."""

    @hookimpl
    def setup(self, run: Run) -> None:
        assert run.pin(), "there is nothing to pin"


def pinned_batches_are_the_same(patient: Patient) -> str | None:
    """Batches that come through page-locked memory hold what the others hold."""
    if patient.no_gpu:
        return patient.no_gpu
    changes: dict[str, Any] = {
        "dataset": TASK.dataset.replace("]", ",memory=host]"),
        "deterministic": True,
    }
    plain, pinned = patient.train(**changes), patient.train(_Pinning(), **changes)
    assert torch.equal(weights(plain), weights(pinned)), "the weights differ"
    return None


def peak_memory_is_measured(patient: Patient) -> str | None:
    """What was in use and is free again is seen."""
    if patient.device.type == "cpu":
        return "on a CPU it is that of the process"
    reset_peak_memory(patient.device)
    before, whose = peak_memory(patient.device)
    if whose == "process":
        return f"{patient.device} does not count its memory"
    torch.ones(_BYTES, dtype=torch.uint8, device=patient.device)
    grown = peak_memory(patient.device)[0] - before
    assert grown >= _BYTES // 2, f"{_BYTES} bytes were used, {grown} seen"
    return None


def phases_add_up_to_the_clock(patient: Patient) -> None:
    """The device's own stamps tell about the same time as the wall."""
    meter = Meter(patient.device)
    _work(patient.device, 0.1)
    with meter.clock("train"):
        for phase in ("forward", "backward"):
            meter.phase(phase)
            _work(patient.device, 0.2)
    wall, phases = meter.wall["train"], sum(meter.seconds.values())
    assert 0.8 * wall < phases < 1.2 * wall, f"{phases:.3f} s in phases, {wall:.3f} s on the wall"


def _work(device: torch.device, seconds: float) -> None:
    """Keep the device busy."""
    end = time.perf_counter() + seconds
    x = torch.ones(256, 256, device=device)
    while time.perf_counter() < end:
        x = (x @ x).clamp(max=1.0)
        float(x[0, 0])


def energy_is_counted(patient: Patient) -> str | None:
    """The counter grows while the device works."""
    counter = energy_counter(patient.device)
    if counter is None:
        return "there is no counter, or none that may be read"
    before = counter()
    _work(patient.device, 1.0)
    assert counter() > before, "a second of work took no energy"
    return None


def nvml_knows_the_gpu(patient: Patient) -> str | None:
    """Driver and clock of the GPU are told."""
    if patient.no_gpu:
        return patient.no_gpu
    gpu = _watched(patient.device)
    if gpu is None:
        return _NO_NVML
    assert gpu.driver(), "the driver has no version"
    assert gpu.clock(), "the GPU has no clock"
    return None


_NO_NVML = "there is no NVML; type: pip install nvidia-ml-py"


def _watched(device: torch.device) -> Gpu | None:
    try:
        import pynvml  # noqa: F401
    except ImportError:
        return None
    gpu = find_gpu(device)
    assert gpu, "NVML does not find the GPU that torch computes on"
    return gpu


def the_process_that_started_this_has_no_context(patient: Patient) -> str | None:
    """Who only starts others leaves the GPU to them, which matters in its exclusive mode."""
    runner = multiprocessing.parent_process()
    if patient.no_gpu or runner is None:
        return patient.no_gpu or "nobody has started this process"
    gpu = _watched(patient.device)
    if gpu is None:
        return _NO_NVML
    torch.ones(1, device=patient.device).item()
    if os.getpid() not in (seen := gpu.processes()):
        return "NVML does not show this process; in a container it cannot"
    assert runner.pid not in seen, "it has one"
    return None


def a_hidden_gpu_is_not_seen(patient: Patient) -> str | None:
    """A process that is started with CUDA_VISIBLE_DEVICES empty has a CPU, and says why."""
    if patient.no_gpu:
        return patient.no_gpu
    before = os.environ.get("CUDA_VISIBLE_DEVICES")
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    try:
        with Service(Examination, "auto", limit=LIMIT) as service:
            told = service.call("examine")["device"]
    finally:
        del os.environ["CUDA_VISIBLE_DEVICES"]
        if before is not None:
            os.environ["CUDA_VISIBLE_DEVICES"] = before
    assert told["device"] == "cpu", told["line"]
    assert "CUDA_VISIBLE_DEVICES" in told["why_not"], told["line"]
    return None


CHECKS: tuple[Check, ...] = (
    every_strategy_trains_and_resumes,
    every_strategy_resumes_on_another_device,
    a_deterministic_run_resumes_bit_by_bit,
    no_strategy_reads_back,
    half_precision_trains,
    a_compiled_network_trains,
    pinned_batches_are_the_same,
    peak_memory_is_measured,
    phases_add_up_to_the_clock,
    energy_is_counted,
    nvml_knows_the_gpu,
    the_process_that_started_this_has_no_context,
    a_hidden_gpu_is_not_seen,
)
"""The checks, in order."""
