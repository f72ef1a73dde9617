"""Drives in loops of others' making: Accelerate and Lightning, where they are installed."""

import pytest
import torch
from driving import THREE, Loop, drive_of, same_weights
from torch.nn.functional import cross_entropy

from dataeff.training.optimizing import build_optimizer, schedule

TEXT = "infobatch+random_subset[keep=0.9]"


def trained_by_hand(text):
    """Return what a loop by hand comes to."""
    loop = Loop(drive_of(text, THREE), THREE)
    loop.train(loop.drive)
    return loop


def set_rate(optimizer, drive):
    for group in optimizer.param_groups:
        group["lr"] = THREE.lr * schedule(THREE, drive.progress)


def test_in_accelerate():
    by_hand = trained_by_hand(TEXT)
    accelerate = pytest.importorskip("accelerate")
    accelerator = accelerate.Accelerator(cpu=True)
    drive = drive_of(TEXT, THREE)
    model, optimizer = accelerator.prepare(drive.model, build_optimizer(THREE, drive.model))
    batches = []
    for batch in drive:
        batches.append(batch.indices.tolist())
        loss = drive.step(cross_entropy(model(batch.x), batch.y, reduction="none"))
        accelerator.backward(loss)
        set_rate(optimizer, drive)
        optimizer.step()
        optimizer.zero_grad()
    assert batches == by_hand.batches
    assert same_weights(drive.model, by_hand.model)


@pytest.fixture
def in_lightning():
    """Return a function that trains a drive in Lightning, and returns the batches."""
    lightning = pytest.importorskip("lightning.pytorch")

    class Module(lightning.LightningModule):
        def __init__(self, drive):
            super().__init__()
            self.drive, self.net, self.batches = drive, drive.model, []

        def training_step(self, batch, number):
            self.batches.append(batch.indices.tolist())
            set_rate(self.optimizers().optimizer, self.drive)
            return self.drive.step(cross_entropy(self.net(batch.x), batch.y, reduction="none"))

        def configure_optimizers(self):
            return build_optimizer(THREE, self.net)

        def on_save_checkpoint(self, checkpoint):
            checkpoint["drive"] = self.drive.state_dict()

        def on_load_checkpoint(self, checkpoint):
            self.drive.load_state_dict(checkpoint["drive"])

    class Saving(lightning.Callback):
        def on_train_batch_end(self, trainer, *given):
            trainer.save_checkpoint(f"{trainer.global_step}.ckpt")

    def train(drive, begin=None):
        module = Module(drive)
        trainer = lightning.Trainer(
            max_epochs=drive.epoch_count,
            reload_dataloaders_every_n_epochs=1,
            accelerator="cpu",
            callbacks=[] if begin else [Saving()],
            logger=False,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
        )
        trainer.fit(module, train_dataloaders=drive.loader, ckpt_path=begin)
        return module.batches

    return train


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("text", [TEXT, "selective_backprop", "baseline"])
def test_in_lightning_also_from_its_checkpoints(in_lightning, text):
    by_hand = trained_by_hand(text)
    drive = drive_of(text, THREE)
    assert in_lightning(drive) == by_hand.batches
    assert same_weights(drive.model, by_hand.model)
    for step in (1, 6, 7, 9):
        drive = drive_of(text, THREE)
        assert in_lightning(drive, f"{step}.ckpt") == by_hand.batches[step:]
        assert same_weights(drive.model, by_hand.model)


def test_a_scaler_takes_the_loss_as_it_is():
    drive = drive_of("infobatch", THREE)
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
    batch = next(iter(drive))
    loss = drive.step(cross_entropy(drive.model(batch.x), batch.y, reduction="none"))
    scaler.scale(loss).backward()
    assert all(p.grad.isfinite().all() for p in drive.model.parameters())
