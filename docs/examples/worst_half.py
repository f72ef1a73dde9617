"""Worst half: go back through the worse half of each batch alone."""

from dataeff import Strategy, hookimpl


@hookimpl
def register_strategies(register):
    register("worst_half", WorstHalf)


class WorstHalf(Strategy):
    """Train on the mean of the larger half of a batch's losses."""

    reserves = ("normaliser",)

    @hookimpl
    def reduce_loss(self, batch, losses):
        count = (len(losses) + 1) // 2
        return (batch.weight * losses).topk(count).values.sum(), count
