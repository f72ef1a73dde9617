"""The ledger: what training has seen of each sample, as device tensors of length N."""

from __future__ import annotations

import torch
from torch import Tensor

from dataeff.training.batch import Batch


class Ledger:
    """Per-sample tables, written by the harness with scatters and never read back in the loop."""

    def __init__(self, n: int, device: torch.device) -> None:
        self.last_loss = torch.full((n,), torch.nan, device=device)
        self.previous_loss = torch.full((n,), torch.nan, device=device)
        self.last_correct = torch.zeros(n, dtype=torch.bool, device=device)
        self.last_mixed = torch.zeros(n, dtype=torch.bool, device=device)
        self.times_trained = torch.zeros(n, dtype=torch.int32, device=device)
        self.epoch_losses: list[Tensor] = []
        self.any_mixed = False
        self._before = self.times_trained.clone()

    def record(self, batch: Batch, logits: Tensor, losses: Tensor) -> None:
        """Write down the losses of a training forward, before the weights change."""
        idx = batch.idx
        self.previous_loss[idx] = self.last_loss[idx]
        self.last_loss[idx] = losses
        self.last_correct[idx] = logits.argmax(1) == batch.y
        # All False until a row is mixed for the first time: most runs never write it.
        self.any_mixed = self.any_mixed or batch.merged
        if self.any_mixed:
            self.last_mixed[idx] = batch.mixed
        self.times_trained.index_add_(0, idx, torch.ones_like(idx, dtype=torch.int32))
        # Added up once, at the end: each operation on a few numbers costs as much as on many.
        self.epoch_losses.append(losses)

    def close_epoch(self) -> tuple[float, int, int]:
        """Return the epoch's mean loss, how many samples it trained, and how many of these mixed.

        The one read-back, once per epoch.
        """
        losses, self.epoch_losses = self.epoch_losses, []
        trained = self.times_trained > self._before
        self._before.copy_(self.times_trained)
        loss = torch.cat(losses).mean() if losses else trained.new_zeros((), dtype=torch.float32)
        counts = (trained.sum(), (trained & self.last_mixed).sum())
        loss, *counts = torch.stack([loss, *(count.to(loss) for count in counts)]).tolist()
        return loss, *map(int, counts)

    def tables(self) -> dict[str, Tensor]:
        """Return the per-sample columns by name."""
        names = ("last_loss", "previous_loss", "last_correct", "last_mixed", "times_trained")
        return {name: getattr(self, name) for name in names}

    def state_dict(self) -> dict[str, Tensor | bool]:
        """Return the tables, between epochs."""
        return {**self.tables(), "any_mixed": self.any_mixed}

    def load_state_dict(self, state: dict[str, Tensor | bool]) -> None:
        """Take the tables back."""
        for name, table in self.tables().items():
            table.copy_(state[name])
        self._before.copy_(self.times_trained)
        self.any_mixed = state["any_mixed"]
