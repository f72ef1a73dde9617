"""Looking ahead: the losses of samples before they are trained, by an extra forward."""

from typing import Literal

import torch
import torch.nn.functional as F

ScoreMode = Literal["eval", "train"]


def losses_of(run, x, y, mode):
    """Return one loss per image without gradients; in `train` mode BatchNorm counts them all.

    Where nothing depends on who shares a batch, large ones go in parts: this saves memory and time.
    """
    size = run.task.batch_size if mode == "eval" else len(x)
    with run.scoring() if mode == "eval" else torch.no_grad():
        logits = torch.cat([run.network(part) for part in x.split(size)])
    return F.cross_entropy(logits.float(), y, reduction="none")
