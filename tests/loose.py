"""A plugin in one file: a good strategy, one that fails, and one that breaks a rule."""

LOOSE = '''
"""Half."""

from dataclasses import dataclass

import torch

from dataeff import Share, hookimpl


@hookimpl
def register_strategies(register):
    register("half", Half)
    register("broken", Broken)
    register("dice", Dice)


@dataclass(eq=False)
class Half:
    """Keep the first rows, see half[keep=0.5]."""

    keep: Share = 0.5
    saves = "rows"
    reads_back = True

    @hookimpl
    def select_batch(self, run, batch):
        batch.keep_rows(torch.arange(max(1, int(self.keep * batch.R)), device=run.device))


@dataclass(eq=False)
class Broken:
    """Fail at once."""

    @hookimpl
    def prepare(self, run):
        raise ValueError("first line\\nsecond line")


@dataclass(eq=False)
class Dice:
    """Draw from the global stream."""

    @hookimpl
    def select_batch(self, run, batch):
        batch.keep_rows(torch.randperm(batch.R)[: batch.R - 1])
'''
