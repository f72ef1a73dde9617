"""Planning an epoch of ImageNet's size must not be felt."""

import torch
from dataeff_plugins.random_backprop import draw, kept_per_batch

from dataeff import Plan

IMAGENET = 1_281_167


def test_planning_an_epoch_of_imagenet(benchmark):
    generator = torch.Generator().manual_seed(0)

    def plan():
        whole = Plan.cut(torch.randperm(IMAGENET, generator=generator), 256)
        sizes = torch.tensor(whole.sizes)
        quota = kept_per_batch(sizes, 0.5)
        kept = Plan(whole.rows[draw(sizes, quota, generator)], quota.tolist())
        return kept.on(torch.device("cpu"))

    batches = benchmark.pedantic(plan, rounds=5, warmup_rounds=1)
    assert sum(rows.R for rows in batches) == IMAGENET // 2
    assert benchmark.stats.stats.median < 1.0
