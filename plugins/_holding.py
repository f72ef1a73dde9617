"""Holding: rows that passed a selection wait until they make a full batch."""

import copy

import torch

from dataeff import Batch, Plan, Strategy, hookimpl


class Holding(Strategy):
    """What strategies share that fill batches up with what they select.

    A full batch has the task's size, or that of the batch that comes in where this is larger. What
    is left at the end of an epoch makes a smaller one; a last few rows join the batch before it, as
    those of a plan do. Where that is trained already, they are trained by themselves, and a single
    one goes: BatchNorm has no variance of one.
    """

    @hookimpl
    def setup(self):
        self.held = []

    def hold(self, run, batch, rows):
        """Hold these rows of the batch, which becomes a full one of those held, or empty."""
        full = max(run.task.batch_size, batch.R)
        batch.keep_rows(rows)
        self.held.append(copy.copy(batch))
        count = sum(part.R for part in self.held)
        if count < full:
            batch.keep_rows(rows[:0])
            return
        batch.become(Batch.cat(self.held))
        self.held = []
        is_last = run.batch + 1 == run.batches
        if count > full and not (is_last and Plan.joins(count - full, full)):
            numbers = torch.arange(count)
            rest = copy.copy(batch)
            rest.keep_rows(numbers[full:])
            batch.keep_rows(numbers[:full])
            self.held = [rest]

    @hookimpl
    def drain(self):
        held, self.held = self.held, []
        return Batch.cat(held) if sum(part.R for part in held) > 1 else None
