"""What tests share to look into a run."""

from dataeff import Strategy, hookimpl
from dataeff.testing import TASK, lab_of
from dataeff.training.loop import batches, epoch


class Stateless(Strategy):
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


def fresh_job(installed, text="", seed=0, **changes):
    """Set up the kit's little task with a composition, untrained."""
    lab = lab_of(installed)
    strategies = lab.composition(text).fresh() if text else []
    with lab.started(TASK.model_copy(update=changes), strategies, seed) as job:
        return job


def fresh_run(installed, **changes):
    """Set up the kit's little task, untrained, as a strategy would see it."""
    return fresh_job(installed, **changes).run


def train_epoch(job):
    """Train the next epoch, unmeasured."""
    for plan in epoch(job, lambda job: {}):
        for _ in batches(job, plan):
            pass
