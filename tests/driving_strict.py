"""Drives on strict devices, in a process of its own."""

import strict
import torch
from driving import THREE, Loop, drive_of, task_for
from torch.nn.functional import cross_entropy


def install():
    """Give this process its devices."""
    torch.set_num_threads(1)
    strict.install()


def on_both(text):
    """Say whether a device chooses as the CPU does, and goes on in the middle of an epoch."""
    task = task_for(text)
    here, there = (Loop(drive_of(text, task, device=d), task) for d in ("cpu", "strict:1"))
    here.train(here.drive)
    there.train(iter(there.drive), 4)
    on = Loop(drive_of(text, task, device="strict:1"), task)
    for name in ("drive", "model", "optimizer"):
        getattr(on, name).load_state_dict(getattr(there, name).state_dict())
    on.train(on.drive)
    weights = zip(here.model.state_dict().values(), on.model.state_dict().values(), strict=True)
    return (
        there.batches + on.batches == here.batches,
        all(torch.allclose(one, other.cpu(), atol=1e-5) for one, other in weights),
    )


def nothing_waits(text):
    """Train an epoch; after its first batch, the device refuses all that waits for it."""
    loop = Loop(drive_of(text, THREE, device="strict:1"), THREE)
    epochs = loop.drive.epochs()
    loop.train(next(epochs))
    epoch = next(epochs)
    loop.train(epoch, 1)
    with strict.hot():
        loop.train(epoch, 2)
    loop.train(epoch)
    return len(loop.batches)


def batches_elsewhere(text):
    """Train a network on a device by batches on the CPU; return the loss's device."""
    drive = drive_of(text, THREE, model=None, device="cpu")
    model = drive_of("baseline", THREE, device="strict:1").model
    for batch in drive:
        logits = model(batch.x.to("strict:1"))
        losses = cross_entropy(logits, batch.y.to("strict:1"), reduction="none")
        loss = drive.step(losses, logits)
        loss.backward()
    return str(loss.device), drive.progress


def where_the_network_is():
    """Return where batches are given, where a network is given."""
    model = drive_of("baseline", THREE, device="strict:1").model
    batch = next(iter(drive_of("kakurenbo", THREE, model=model)))
    return {str(part.device) for part in batch}
