"""Machines made of files, and a GPU's library played by an object."""

import os
import sys
import time
from types import SimpleNamespace

import torch

from dataeff.training import machine, system
from dataeff.training.machine import Guard

CPU = torch.device("cpu")
CUDA = torch.device("cuda", 0)
SECOND = os.sysconf("SC_CLK_TCK")


class Box:
    """A machine of three cores, of which this process may use two."""

    def __init__(self, root, monkeypatch):
        self.root, self.now, self.load = root, 100.0, 1.5
        self.lived, self.asleep, self.continued = (0.0, 0.0, 0.0), 7.0, SimpleNamespace(count=3)
        monkeypatch.setattr(system, "slept", lambda: self.asleep)
        monkeypatch.setattr(system, "continues", lambda: self.continued)
        monkeypatch.setattr(machine, "time", SimpleNamespace(perf_counter=lambda: self.now))
        monkeypatch.setattr(system, "_usable", lambda: {0, 2})
        monkeypatch.setattr(os, "getloadavg", lambda: (self.load, 0, 0), raising=False)
        self.cores(cpu0=0, cpu1=0, cpu2=0)
        self.process("self", 0)

    def write(self, path, text):
        path = self.root / path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def cores(self, stolen=0.0, **busy):
        """Write /proc/stat: seconds since boot that each core was busy."""
        lines = ["cpu  9 9 9 9 9 9 9 9 9 9"]
        for name, seconds in busy.items():
            # In equal parts: user, nice, system, irq and softirq; a tenth of user was for guests.
            part, lost = round(seconds * SECOND / 5), round(stolen * SECOND)
            idle = 3 * part + 77777
            times = [part, part, part, idle, idle, part, part, lost, part // 10, 0]
            lines.append(f"{name} {' '.join(map(str, times))}")
        self.write("proc/stat", "\n".join([*lines, "intr 5 6 7", "", "ctxt 123\n"]))

    def process(self, name, seconds, dead_children=0.0, children=""):
        own, dead = (round(time * SECOND / 2) for time in (seconds, dead_children))
        head = "4242 (py thon) 1) R 1 1 1 0 -1 4194304 2836 6533 9 2"
        self.write(f"proc/{name}/stat", f"{head} {own} {own} {dead} {dead} 20 0 1 0 94319")
        self.write(f"proc/{name}/task/1/children", children)

    def thread(self, name, ran, waited):
        self.write(f"proc/self/task/{name}/schedstat", f"{ran * 1e9:.0f} {waited * 1e9:.0f} 55\n")

    def live(self, wall, process, thread, waited=0.0):
        """Let time pass on the clocks that count, and the thread wait for a core."""
        self.now += wall
        self.lived = tuple(map(sum, zip(self.lived, (wall, process, thread), strict=True)))
        before = system.thread_waited(self.root) or 0.0
        self.write("proc/thread-self/schedstat", f"5 {(before + waited) * 1e9:.0f} 55\n")

    def end_thread(self, name):
        (self.root / f"proc/self/task/{name}/schedstat").unlink()

    def guard(self, **options):
        return Guard(CPU, 2, lived=lambda: self.lived, root=self.root, **options)


class Nvml:
    """A pynvml that knows one GPU."""

    NVML_CLOCK_SM, NVML_CLOCK_MEM = 1, 2

    class NVMLError(Exception):
        pass

    class NVMLError_NotFound(NVMLError):
        pass

    def __init__(self, uuid="GPU-1234-abcd"):
        self.uuid = uuid
        self.pids, self.bits, self.millijoules = [os.getpid()], 0, 5000
        self.clocks = {1: 1500, 2: 9000}
        # Nanoseconds by policy, and who used it; None is a GPU that does not say.
        self.violations, self.used = None, None
        self.mode = 0
        self.broken = set()

    def _answer(self, name, handle, value):
        assert handle == f"handle of {self.uuid}"
        if name in self.broken:
            raise self.NVMLError(name)
        return value

    def nvmlInit(self):
        if "init" in self.broken:
            raise self.NVMLError("no driver")

    def nvmlDeviceGetHandleByUUID(self, uuid):
        if uuid != self.uuid:
            raise self.NVMLError("not found")
        return f"handle of {uuid}"

    def nvmlSystemGetDriverVersion(self):
        return b"535.104.05"

    def nvmlDeviceGetClockInfo(self, handle, kind):
        return self._answer("clock", handle, self.clocks[kind])

    def nvmlDeviceGetMaxClockInfo(self, handle, kind):
        return self._answer("clock", handle, {1: 1980}[kind])

    def nvmlDeviceGetCurrentClocksEventReasons(self, handle):
        return self._answer("reasons", handle, self.bits)

    def nvmlDeviceGetComputeRunningProcesses(self, handle):
        return self._answer("pids", handle, [SimpleNamespace(pid=pid) for pid in self.pids])

    def nvmlDeviceGetViolationStatus(self, handle, policy):
        if self.violations is None:
            raise self.NVMLError("not supported")
        seen = SimpleNamespace(violationTime=self.violations.get(policy, 0))
        return self._answer("violations", handle, seen)

    def nvmlDeviceGetProcessUtilization(self, handle, since):
        if self.used is None:
            raise self.NVMLError("not supported")
        if not self.used:
            raise self.NVMLError_NotFound
        return self._answer("used", handle, self.used)

    def use(self, pid, percent, ago=0.0):
        """Say that a process has used the GPU."""
        at = time.time_ns() // 1000 + 1000 - round(ago * 1e6)
        self.used = [*self.used, SimpleNamespace(pid=pid, timeStamp=at, smUtil=percent)]

    def nvmlDeviceGetComputeMode(self, handle):
        return self._answer("mode", handle, self.mode)

    def nvmlDeviceGetTotalEnergyConsumption(self, handle):
        return self._answer("energy", handle, self.millijoules)


class OldNvml(Nvml):
    """One whose function has its old name."""

    nvmlDeviceGetCurrentClocksEventReasons = property()

    def nvmlDeviceGetCurrentClocksThrottleReasons(self, handle):
        return self._answer("reasons", handle, self.bits)


def put_nvml(monkeypatch, nvml):
    """Put a pynvml, and a CUDA device that torch knows, in place."""
    monkeypatch.setitem(sys.modules, "pynvml", nvml)
    properties = SimpleNamespace(uuid="1234-abcd", total_memory=int(79.2 * 2**30))
    monkeypatch.setattr("torch.cuda.get_device_properties", lambda device: properties)
    monkeypatch.setattr("torch.cuda.get_device_name", lambda device: "A GPU")
    return nvml
