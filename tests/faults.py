"""A plugin with a strategy per hook, each of which misbehaves there as it is told."""

from dataeff.strategy import LOOP_HOOKS

HOOKS = list(LOOP_HOOKS)
WATCHED = ("setup", "on_resume", "prepare", "on_epoch_start", "end_epoch", "on_epoch_end")
"""Hooks of whose results nobody takes notice; observe_batch is another one."""

# What is returned, or done to the batch; the first five leave the process alive.
RETURNED = ("raise", "type", "shape", "device", "dtype", "nan", "nothing", "empty", "memory")
ENDING = ("hang", "exit", "os_exit", "segfault", "overflow", "thread", "process")
FAULTS = (*RETURNED, *ENDING)

PLUGIN = '''
"""Faults."""

import ctypes
import os
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import torch

from dataeff import Strategy, hookimpl

HOOKS = %r
OWN = %r
CHAIN = ("select_batch", "resize_batch", "transform_batch")


@hookimpl
def register_strategies(register):
    for hook in HOOKS:
        register(f"bad_{hook}", strategy(hook))


class Odd:
    """Nothing that anybody asked for."""


def deeper(n):
    return deeper(n + 1) + 1


def do(fault):
    """Do what does not come back, or raise."""
    if fault == "raise":
        raise ValueError("as asked")
    if fault == "memory":
        torch.empty(2**52)
    if fault == "hang":
        time.sleep(600)
    if fault == "exit":
        sys.exit(0)
    if fault == "os_exit":
        os._exit(0)
    if fault == "segfault":
        ctypes.string_at(0)
    if fault == "overflow":
        deeper(0)
    if fault == "thread" and threading.active_count() < 10:
        threading.Thread(target=time.sleep, args=(600,)).start()
    if fault == "process" and not Path("started").exists():
        Path("started").touch()
        subprocess.Popen(["sleep", "600"], start_new_session=True)


def wrong(fault, right):
    """Return something else than what is right."""
    if fault == "type":
        return Odd()
    if fault == "nothing":
        return None
    if isinstance(right, tuple):
        return (wrong(fault, right[0]), *right[1:])
    if isinstance(right, dict):
        return {1: 2} if fault == "shape" else right
    if not (right is None or isinstance(right, torch.Tensor | float | bool)):
        return Odd()
    tensor = torch.as_tensor(1.0 if right is None else right)
    return {
        "shape": lambda: torch.zeros(3, 2, 1),
        "device": lambda: tensor.to("meta"),
        "dtype": lambda: tensor.to(torch.complex64),
        "nan": lambda: tensor.float() * float("nan"),
        "empty": lambda: tensor.flatten()[:0],
    }.get(fault, lambda: right)()


def spoil(fault, batch):
    """Leave the batch as no batch may be."""
    if fault == "type":
        batch.x = "text"
    if fault == "shape":
        batch.x = batch.x[:1]
    if fault == "device":
        batch.x = batch.x.to("meta")
    if fault == "dtype":
        batch.x = batch.x.to(torch.int64)
    if fault == "nan":
        batch.weight = batch.weight * float("nan")
    if fault == "nothing":
        batch.x = None
    if fault == "empty":
        batch.x = batch.x[:0]


def strategy(hook):
    """Return a strategy with a fault in this hook."""

    def plain(self, run):
        do(self.fault)
        return wrong(self.fault, self.right) if self.fault in WRONG else self.right

    def chained(self, run, batch):
        do(self.fault)
        spoil(self.fault, batch)

    def wrapped(self, run):
        right = yield
        do(self.fault)
        return wrong(self.fault, right) if self.fault in WRONG else right

    def once(self, run, epoch):
        # A run is resumed only where it was stopped.
        if epoch == 1 and not Path("resumed").exists():
            Path("resumed").touch()
            raise ValueError("to be resumed")

    body = {"__module__": __name__, "__doc__": f"Misbehave in {hook}.", "right": RIGHT.get(hook)}
    body["__annotations__"] = {"fault": str}
    body["fault"] = "raise"
    body["_right"] = body.pop("right")
    body["right"] = property(lambda self: self._right)
    if hook in OWN:
        body[hook] = hookimpl(wrapper=True)(wrapped)
    else:
        body[hook] = hookimpl(chained if hook in CHAIN else plain)
    if hook == "on_resume":
        body["on_epoch_start"] = hookimpl(once)
    return dataclass(eq=False)(type(f"Bad_{hook}", (Strategy,), body))


WRONG = ("type", "shape", "device", "dtype", "nan", "nothing", "empty")
RIGHT = {
    "should_step": True,
    "should_stop": False,
    "lr_factor": 1.0,
    "compute_factor": 1.0,
    "report": {},
}
'''


def plugin():
    """Return the text of the plugin."""
    from dataeff.hookspecs import HOOKS as KINDS

    return PLUGIN % (HOOKS, [name for name in HOOKS if KINDS[name] == "own"])
