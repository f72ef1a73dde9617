"""The ledger: what training has seen of each sample, as device tensors of length N."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from dataeff.training.batch import Batch

_TABLES = (
    "last_loss",
    "previous_loss",
    "last_correct",
    "last_mixed",
    "last_weight",
    "times_trained",
)


def _table(name: str) -> Any:
    """Return a table as it reads once what waits is written into it."""

    def read(ledger: "Ledger") -> Tensor:
        ledger._write()
        table: Tensor = getattr(ledger, f"_{name}")
        return table[: ledger._n]

    return property(read)


class Ledger:
    """Per-sample tables, written by the harness with scatters and never read back in the loop.

    What a batch showed waits until somebody reads a table, or the epoch ends: then all of it is
    written at once, because each operation on a few numbers costs as much as on many.
    """

    last_loss: Tensor = _table("last_loss")
    """The loss of each sample when it was last trained, NaN before that."""
    previous_loss: Tensor = _table("previous_loss")
    """Its loss the time before, NaN where there was none."""
    last_correct: Tensor = _table("last_correct")
    """Whether it was classified correctly when it was last trained."""
    last_mixed: Tensor = _table("last_mixed")
    """Whether it shared its image with another one then."""
    last_weight: Tensor = _table("last_weight")
    """What it counted in the loss then, as far as that was known when its loss was."""
    times_trained: Tensor = _table("times_trained")
    """How often it was trained."""

    def __init__(self, n: int, device: torch.device) -> None:
        # One place more than samples: what a later batch overwrites goes there.
        self._last_loss = torch.full((n + 1,), torch.nan, device=device)
        self._previous_loss = torch.full((n + 1,), torch.nan, device=device)
        self._last_correct = torch.zeros(n + 1, dtype=torch.bool, device=device)
        self._last_mixed = torch.zeros(n + 1, dtype=torch.bool, device=device)
        self._last_weight = torch.ones(n + 1, device=device)
        self._times_trained = torch.zeros(n + 1, dtype=torch.int32, device=device)
        self._before = torch.zeros(n, dtype=torch.int32, device=device)
        self._n = n
        self._waiting: list[tuple[Any, ...]] = []
        self._epoch_losses: list[Tensor] = []
        self._any_mixed = self._any_weighted = False

    def record(self, batch: Batch, logits: Tensor, losses: Tensor) -> None:
        """Note the losses of a training forward, before the weights change."""
        self._any_mixed = self._any_mixed or batch.merged
        self._any_weighted = self._any_weighted or batch.weighted
        mixed = batch.mixed if batch.merged else None
        weight = batch.weight.detach() if batch.weighted else None
        self._waiting.append((batch.idx, losses, logits.argmax(1), batch.y, mixed, weight))
        self._epoch_losses.append(losses)

    def _write(self) -> None:
        """Write what waits; of a sample that was trained more than once, the last time counts."""
        if not self._waiting:
            return
        waiting, self._waiting = self._waiting, []
        *columns, mixed, weight = zip(*waiting, strict=True)
        idx, losses, guesses, y = (torch.cat(column) for column in columns)
        order = idx.argsort(stable=True)
        sample, loss = idx[order], losses[order]
        again = torch.zeros_like(sample, dtype=torch.bool)
        again[1:] = sample[1:] == sample[:-1]
        superseded = again.roll(-1)
        place = sample.masked_fill(superseded, self._n)
        self._previous_loss[place] = torch.where(again, loss.roll(1), self._last_loss[sample])
        self._last_loss[place] = loss
        self._last_correct[place] = (guesses == y)[order]
        # All False and 1 until there is another one for the first time: most runs never write them.
        if self._any_mixed:
            self._last_mixed[place] = _filled(mixed, columns[1], False)[order]
        if self._any_weighted:
            self._last_weight[place] = _filled(weight, columns[1], 1.0)[order]
        self._times_trained.index_add_(0, idx, torch.ones_like(idx, dtype=torch.int32))

    def close_epoch(self) -> tuple[float, int, int]:
        """Return the epoch's mean loss, how many samples it trained, and how many of these mixed.

        The one read-back, once per epoch.
        """
        losses, self._epoch_losses = self._epoch_losses, []
        times = self.times_trained
        trained = times > self._before
        self._before.copy_(times)
        loss = torch.cat(losses).mean() if losses else trained.new_zeros((), dtype=torch.float32)
        counts = (trained.sum(), (trained & self.last_mixed).sum())
        told = torch.stack([loss, *(count.to(loss) for count in counts)]).tolist()
        return told[0], int(told[1]), int(told[2])

    def tables(self) -> dict[str, Tensor]:
        """Return the per-sample columns by name."""
        return {name: getattr(self, name) for name in _TABLES}

    def state_dict(self) -> dict[str, Any]:
        """Return the tables, between epochs."""
        tables = {name: table.clone() for name, table in self.tables().items()}
        return {**tables, "any_mixed": self._any_mixed, "any_weighted": self._any_weighted}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take the tables back."""
        for name, table in self.tables().items():
            # Checkpoints from before there were weights have none.
            table.copy_(state.get(name, table))
        self._before.copy_(self.times_trained)
        self._any_mixed = state["any_mixed"]
        self._any_weighted = state.get("any_weighted", False)


def _filled(parts: Sequence[Tensor | None], like: Sequence[Tensor], value: bool | float) -> Tensor:
    """Return the columns of several batches as one; a batch that has none has the same value."""
    kind = torch.bool if isinstance(value, bool) else torch.float32
    return torch.cat(
        [
            torch.full_like(other, value, dtype=kind) if part is None else part.to(kind)
            for part, other in zip(parts, like, strict=True)
        ]
    )
