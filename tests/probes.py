"""What tests share to look into a run."""

import torch

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


def fresh_run(installed, **changes):
    """Set up the kit's little task, untrained."""
    task = TASK.model_copy(update=changes)
    data = load_dataset(task.dataset, installed.datasets, root=None, device=CPU)
    return make_run(data, task, [], 0, installed, CPU)
