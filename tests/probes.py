"""What tests share to look into a run."""

import torch

from dataeff import hookimpl
from dataeff.data import load_dataset
from dataeff.testing import TASK
from dataeff.training.cell import make_run

CPU = torch.device("cpu")


class Stateless:
    """A probe that a checkpoint need not hold."""

    def state_dict(self):
        return {}

    def load_state_dict(self, state):
        pass


class Books(Stateless):
    """Write down, per epoch, the loss and the weight of each sample that was trained."""

    def __init__(self):
        self.epochs = []

    @hookimpl
    def on_epoch_start(self):
        self.epochs.append({})

    @hookimpl
    def observe_batch(self, batch, losses):
        columns = zip(batch.idx.tolist(), losses.tolist(), batch.weight.tolist(), strict=True)
        self.epochs[-1] |= {i: (loss, weight) for i, loss, weight in columns}


def fresh_run(installed, **changes):
    """Set up the kit's little task, untrained."""
    task = TASK.model_copy(update=changes)
    data = load_dataset(task.dataset, installed.datasets, root=None, device=CPU)
    return make_run(data, task, [], 0, installed, CPU)
