"""Training by a fake clock, and a small suite with a value to be found."""

import math
from types import SimpleNamespace

from dataeff.bench import schedule
from dataeff.foretell import match
from dataeff.models.small import TinyNet
from dataeff.training import meter

# Seconds that a row takes by the fake clock.
TRAINED, SCORED = 0.01, 0.001


class Clock:
    """A clock that moves only when it is told to."""

    time = 100.0

    def __call__(self):
        return self.time


CLOCK = Clock()


def tick(monkeypatch):
    """Have training take time by the rows that it sees, and pilots go through their epochs once."""
    features = TinyNet.forward_features

    def ticking(self, x):
        if x.device.type != "meta":
            CLOCK.time += len(x) * (TRAINED if self.training else SCORED)
        return features(self, x)

    monkeypatch.setattr(TinyNet, "forward_features", ticking)
    monkeypatch.setattr(meter, "time", SimpleNamespace(perf_counter=CLOCK, process_time=CLOCK))
    monkeypatch.setattr(match, "warm_up", lambda job: None)
    monkeypatch.setattr(match, "_PASSES", 1)
    monkeypatch.setattr(match, "_PLANNING", math.inf)
    monkeypatch.setattr(match, "_PLANS", 100)
    # Whether this machine is busy is no matter here.
    monkeypatch.setattr(schedule, "flags_of", lambda record: [])


SUITE = """
seeds = 2
match = "random_subset[keep=0.60]"
strategies = ["baseline", "random_subset[keep=0.6]", "short_schedule[share=?]"]

[tasks.blobs]
dataset = "synthetic[samples=90,test_samples=20,classes=4,size=8]"
model = "tiny"
epochs = 4
batch_size = 16
lr = 0.05
"""
BLOBS = "synthetic[samples=90,test_samples=20,classes=4,size=8]"
ADHOC = ["run", "--dataset", BLOBS, "--model", "tiny", "--epochs", "4", "--set", "batch_size=16"]
ADHOC += ["--set", "lr=0.05", "--name", "mine", "--in-process", "--device", "cpu", "-s", "baseline"]
