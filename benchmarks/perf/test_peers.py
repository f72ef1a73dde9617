"""The trainer beside Fabric, Lightning and fastai: the same network, data, augmentation and steps.

Each is measured in turn with a hand-written loop, in one process, on a network so small that what a
trainer does around the step shows. Peers keep their learning rate, which is in their favour. They
are an extra: pip install -e '.[peers]'.
"""

import pytest
import torch
import torch.nn.functional as F
from test_overhead import by_hand
from trainers import lab, new_job, train_epoch

from dataeff.training.optimizing import build_optimizer
from dataeff.training.task import Task

TASK = Task(
    dataset="digits[size=16]", model="tiny", epochs=1000, batch_size=16, validation=0, lr=0.01
)


@pytest.mark.parametrize("peer", ["dataeff", "fabric", "lightning", "fastai"])
def test_a_peer_beside_a_loop_by_hand(ratio, peer):
    where = lab()
    hand = new_job(TASK, "", where).run
    epoch = PEERS[peer](new_job(TASK, "baseline", where))
    value = ratio(epoch, lambda: by_hand(hand, TASK, hand.split("train")))
    if peer == "dataeff":
        assert value <= 1.10


def dataeff(job):
    """Train an epoch with the common trainer."""
    return lambda: train_epoch(job)


def batches(job):
    """Return the augmented batches of an epoch, as the hand-written loop has them."""
    samples = torch.arange(len(job.train))
    order = samples[torch.randperm(len(samples))].split(job.task.batch_size)
    for idx, x in zip(order, job.train.stream(order, (0, 0)), strict=True):
        yield x, job.run.labels[idx]


def fabric(job):
    fabric = pytest.importorskip("lightning.fabric", reason="pip install -e '.[peers]'")
    owner = fabric.Fabric(accelerator="cpu", devices=1)
    model, optimizer = owner.setup(job.run.model, build_optimizer(TASK, job.run.model))

    def epoch():
        for x, y in batches(job):
            owner.backward(F.cross_entropy(model(x), y))
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)

    return epoch


def lightning(job):
    light = pytest.importorskip("lightning.pytorch", reason="pip install -e '.[peers]'")

    class Module(light.LightningModule):
        def __init__(self):
            super().__init__()
            self.model = job.run.model

        def training_step(self, batch):
            x, y = batch
            return F.cross_entropy(self.model(x), y)

        def configure_optimizers(self):
            return build_optimizer(TASK, self.model)

    class Batches(torch.utils.data.IterableDataset):
        def __iter__(self):
            return batches(job)

    quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False}
    quiet |= {"enable_model_summary": False, "accelerator": "cpu", "devices": 1}
    loader = torch.utils.data.DataLoader(Batches(), batch_size=None)
    module, owner = Module(), light.Trainer(max_epochs=1, **quiet)

    def epoch():
        # What it sets up once per training is no part of an epoch: it goes on with the next one.
        owner.fit_loop.max_epochs = owner.current_epoch + 1
        owner.fit(module, loader)

    return epoch


def fastai(job):
    learner = pytest.importorskip("fastai.learner", reason="pip install -e '.[peers]'")
    core = pytest.importorskip("fastai.data.core")
    optim = pytest.importorskip("fastai.optimizer")

    class Batches:
        device = torch.device("cpu")

        def __iter__(self):
            return batches(job)

        def __len__(self):
            return -(-len(job.train) // TASK.batch_size)

        def to(self, device):
            return self

    def wrapped(parameters, **options):
        return optim.OptimWrapper(opt=build_optimizer(TASK, job.run.model))

    data = core.DataLoaders(Batches(), Batches())
    owner = learner.Learner(data, job.run.model, loss_func=F.cross_entropy, opt_func=wrapped)
    owner.remove_cbs(
        [cb for cb in owner.cbs if type(cb).__name__ in ("Recorder", "ProgressCallback")]
    )
    owner._do_epoch_validate = lambda *given, **more: None

    def epoch():
        with owner.no_logging():
            owner.fit(1)

    return epoch


PEERS = {"dataeff": dataeff, "fabric": fabric, "lightning": lightning, "fastai": fastai}
