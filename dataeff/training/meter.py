"""The meter: clocks, seconds per phase, counts of rows, and the work they stand for."""

import resource
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import pairwise
from pathlib import Path
from time import thread_time
from typing import Any, Self
from weakref import WeakKeyDictionary

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from dataeff.training.energy import energy_counter
from dataeff.training.network import on_empty
from dataeff.training.system import kib

# Forward 1, backward 2: what a row costs, in forward passes. "gradient" is both, for a score.
_COST = {"scored": 1, "forwarded": 1, "trained": 2, "gradient": 3}


class Meter:
    """Measures a run from outside; strategies never report their own cost.

    Clocks nest exclusively: while an inner one runs, the outer one stands still. The device is
    synchronised at their borders only. Phases split the train clock: they are stamped on the
    device's own timeline and added up when that clock stops.

    `energy` holds joules per clock where the device has a counter, and nothing where it has none,
    where that is not to be read, where it failed, or where a part of the run went without. `mark`
    is told when a clock that counts begins or stands still.
    """

    def __init__(
        self,
        device: torch.device,
        mark: Callable[[bool], None] | None = None,
        energy: bool = True,
    ) -> None:
        self.device = device
        self._mark, self._counts = mark, False
        self._stamp = time.perf_counter if device.type in ("cpu", "meta") else self._event
        self.wall: dict[str, Any] = Counter()
        self.process: dict[str, Any] = Counter()
        self.energy: dict[str, Any] = Counter()
        self.seconds: dict[str, Any] = Counter()
        self.timed: dict[str, Any] = Counter()
        self.rows: dict[str, Any] = Counter()
        self.work: dict[str, Any] = Counter()
        self.flops = 0.0
        self.steps = 0
        # By network, and gone with it: a later one may get the same address.
        self._flops_per_row: WeakKeyDictionary[nn.Module, dict[str, int]] = WeakKeyDictionary()
        # The clocks that have begun; all but the last stand still.
        self.running: list[str] = []
        self._off = ""
        self._since = (0.0, 0.0, 0.0)
        # What `lived` returns, and how long this thread had run when a clock was last read.
        self._lived, self._ran = (0.0, 0.0, 0.0), 0.0
        self._joules = energy_counter(device) if energy else None
        self._phase = "other"
        self._spans: list[tuple[str, Any]] = []
        self._stretches: list[tuple[str, Any, Any]] = []
        self._open: list[tuple[str, Any]] = []
        # Events that have been read: making one takes longer than recording it.
        self._events: list[Any] = []
        self._keys: dict[tuple[str, torch.Size], str] = {}

    # Clocks -----------------------------------------------------------------------------------

    @contextmanager
    def clock(self, name: str) -> Iterator[None]:
        """Charge what happens inside to this clock."""
        self._charge()
        self.running.append(name)
        self._tell()
        outer, self._off = self._off, name if name.startswith("off_") else self._off
        try:
            with self.during("other"):
                yield
        finally:
            self._charge()
            self.running.pop()
            self._tell()
            self._off = outer

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Charge what happens inside to nobody."""
        try:
            with self.clock("paused"):
                yield
        finally:
            del self.wall["paused"], self.process["paused"], self.energy["paused"]

    @contextmanager
    def standing_still(self) -> Iterator[None]:
        """Charge what happens inside to nobody, not to what is being timed either."""
        # A stamp for each: they are used again once they have been read.
        self._stretches += [(name, start, self._stamp()) for name, start in self._open]
        with self.paused():
            yield
        self._open = [(name, self._stamp()) for name, _ in self._open]

    def _tell(self) -> None:
        counts = self.running[-1:] in (["prepare"], ["train"])
        if self._mark and counts != self._counts:
            self._mark(counts)
        self._counts = counts

    def _charge(self) -> None:
        end = (self._phase, self._stamp())
        if self.device.type not in ("cpu", "meta"):
            # After the last stamp: an event can be read only once the device has passed it.
            torch.accelerator.synchronize(self.device)
        now = (time.perf_counter(), time.process_time(), self._read_energy())
        for clock in self.running[-1:]:
            self.wall[clock] += now[0] - self._since[0]
            self.process[clock] += now[1] - self._since[1]
            if self._joules:
                self.energy[clock] += now[2] - self._since[2]
            if clock == "train":
                for (name, start), (_, stop) in pairwise([*self._spans, end]):
                    self.seconds[name] += _between(start, stop)
        for name, start, stop in self._stretches:
            self.timed[name] += _between(start, stop)
        if self._stamp == self._event:
            self._events += [
                stamp for _, *stamps in self._spans + self._stretches for stamp in stamps
            ]
        self._spans, self._stretches = [end], []
        self._live(*now[:2])
        self._since = now

    def _live(self, wall: float, process: float) -> None:
        ran = thread_time()
        if self.running[-1:] in (["prepare"], ["train"]):
            self._add_lived((wall - self._since[0], process - self._since[1], ran - self._ran))
        self._ran = ran

    def _add_lived(self, more: tuple[float, float, float]) -> None:
        wall, process, thread = self._lived
        self._lived = (wall + more[0], process + more[1], thread + more[2])

    def lived(self) -> tuple[float, float, float]:
        """Return the seconds that counted, in this process: on the wall, its own, this thread's.

        Unlike the clocks, they know no earlier part of a run, and nothing that was charged again.
        """
        return self._lived

    def _read_energy(self) -> float:
        try:
            return self._joules() if self._joules else 0.0
        except Exception:
            self._forget_energy()
            return 0.0

    def _forget_energy(self) -> None:
        """Give up on energy: what is known of a part says nothing about the whole."""
        self.energy, self._joules = Counter(), None

    # Phases -----------------------------------------------------------------------------------

    def phase(self, name: str) -> None:
        """Say what begins now; whatever went on before has ended."""
        self._phase = name
        self._spans.append((name, self._stamp()))

    @contextmanager
    def during(self, name: str) -> Iterator[None]:
        """Interrupt the current phase by another."""
        outer = self._phase
        self.phase(name)
        try:
            yield
        finally:
            self.phase(outer)

    @contextmanager
    def stretch(self, name: str) -> Iterator[None]:
        """Add the device's time inside to `timed`, whatever clock and phase it belongs to."""
        self._open.append((name, self._stamp()))
        try:
            yield
        finally:
            self._stretches.append((*self._open.pop(), self._stamp()))

    def _event(self) -> Any:
        event = self._events.pop() if self._events else torch.Event(self.device, enable_timing=True)
        # By default it would be the current device's.
        event.record(torch.accelerator.current_stream(self.device))
        return event

    # Counts -----------------------------------------------------------------------------------

    def count(self, kind: str, shape: torch.Size, version: str, factor: float) -> None:
        """Count the rows of an input of this shape that the network of this version saw.

        What is off the clock is counted apart, and is no part of the work.
        """
        rows = shape[0]
        if self._off:
            self.rows[f"{self._off}_{kind}"] += rows
            return
        self.rows[kind] += rows
        key = self._keys.get((version, shape))
        if key is None:
            key = self._keys[version, shape] = f"{version}/{'x'.join(map(str, shape[1:]))}"
        self.work[key] += _COST[kind] * rows * factor

    def close_work(self, model: nn.Module, version: str) -> None:
        """Turn the rows counted for this network into FLOPs, off the clock."""
        known = self._flops_per_row.setdefault(model, {})
        with self.paused():
            for key in [key for key in self.work if key.split("/")[0] == version]:
                if key not in known:
                    shape = [int(side) for side in key.split("/")[1].split("x")]
                    known[key] = flops_per_row(model, shape)
                self.flops += self.work.pop(key) * known[key]

    def absorb(self, child: Self) -> None:
        """Take over the cost of a nested run, onto the prepare clock."""
        for mine, theirs in ((self.wall, child.wall), (self.process, child.process)):
            mine["prepare"] += theirs["prepare"] + theirs["train"]
        if self._joules and child._joules:
            self.energy["prepare"] += child.energy["prepare"] + child.energy["train"]
        else:
            self._forget_energy()
        self._add_lived(child.lived())
        for kind, rows in child.rows.items():
            self.rows[f"prepare_{kind}"] += rows
        self.flops += child.flops

    # Bills ------------------------------------------------------------------------------------

    _BILLED = ("wall", "process", "energy", "rows")

    @contextmanager
    def bill(self) -> Iterator[dict[str, Any]]:
        """Yield a bill of what happens inside; it is filled in at the end, and charged anyway."""
        bill: dict[str, Any] = {}
        self._charge()
        before, flops = [Counter(getattr(self, name)) for name in self._BILLED], self.flops
        yield bill
        self._charge()
        for name, old in zip(self._BILLED, before, strict=True):
            # The difference of two counters holds what has grown.
            bill[name] = dict(getattr(self, name) - old)
        bill["flops"] = self.flops - flops

    def charge(self, bill: dict[str, Any]) -> None:
        """Charge again what was billed once: whoever reuses a thing pays for it in full."""
        for name in self._BILLED:
            getattr(self, name).update(bill[name])
        if not bill["energy"]:
            self._forget_energy()
        self.flops += bill["flops"]

    # State ------------------------------------------------------------------------------------

    _COUNTERS = ("wall", "process", "seconds", "timed", "rows", "work")

    def state_dict(self) -> dict[str, Any]:
        """Return every figure measured so far."""
        counters = {name: dict(getattr(self, name)) for name in self._COUNTERS}
        energy = dict(self.energy) if self._joules else None
        return {**counters, "energy": energy, "flops": self.flops, "steps": self.steps}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from earlier figures; what setting up has cost since is not counted twice."""
        for name in self._COUNTERS:
            setattr(self, name, Counter(state[name]))
        self.flops, self.steps = state["flops"], state["steps"]
        energy = state.get("energy")
        if self._joules and energy is not None:
            self.energy = Counter(energy)
        else:
            self._forget_energy()


def _between(start: Any, stop: Any) -> float:
    """Return the seconds between two stamps, of the host or of the device."""
    return stop - start if isinstance(start, float) else start.elapsed_time(stop) / 1000


def flops_per_row(model: nn.Module, shape: Sequence[int]) -> int:
    """Count the FLOPs of one forward row on a copy that holds no data."""
    return _counted(model, shape).get_total_flops()


def flops_by_module(model: nn.Module, shape: Sequence[int]) -> Counter[str]:
    """Count the FLOPs of one forward row, module by module; the network itself is ""."""
    counted = _counted(model, shape).get_flop_counts()
    # Names begin with the class of the network; "Global" is its other name.
    return Counter({name.partition(".")[2]: sum(parts.values()) for name, parts in counted.items()})


def _counted(model: nn.Module, shape: Sequence[int]) -> FlopCounterMode:
    return on_empty(model, shape, _counting)


def _counting(model: nn.Module, x: torch.Tensor) -> FlopCounterMode:
    with FlopCounterMode(display=False) as counter:
        model(x)
    return counter


def reset_peak_memory(device: torch.device) -> None:
    """Start a new high-water mark, where the system allows it."""
    if device.type == "cpu":
        with suppress(OSError):
            Path("/proc/self/clear_refs").write_text("5")
    elif hasattr(module := torch.get_device_module(device), "reset_peak_memory_stats"):
        module.reset_peak_memory_stats(device)
    elif device.type == "mps":
        module.empty_cache()


def peak_memory(device: torch.device) -> tuple[int, str]:
    """Return the peak memory in bytes, and of what that is: the device, its driver, the process."""
    module = torch.get_device_module(device)
    if hasattr(module, "max_memory_allocated"):
        return module.max_memory_allocated(device), "device"
    if device.type == "mps":
        # It knows no peak; but what Metal has once given, torch keeps.
        return module.driver_allocated_memory(), "driver"
    if (highest := kib(Path("/proc/self/status"), "VmHWM")) is not None:
        return highest * 1024, "process"
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit, "process"
