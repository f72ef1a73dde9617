"""How much of what smaller networks save arrives: CIFAR-10 images, batch 128, one thread.

As in `test_selection`: counted work is the ideal, and each round trains with and without in turn.
"""

from trainers import TASK, measured


def test_skipped_blocks_cost_nothing(ratio):
    """ResNet-56, whose last block survives at 0.5, as in the paper."""
    deep = TASK.model_copy(update={"model": "resnet56"})
    _, ideal, realised, _ = measured(ratio, "stochastic_depth", rounds=3, task=deep)
    assert ideal > 1.25
    assert realised >= 0.9
