"""The runs behind the poster's figures: EL2N's scores, and Selective-Backprop in the batch."""

from dataeff_plugins.poster.probes import OnlyPrepare


def el2n(keep, models, epochs, reuse=True):
    """Return the strategy that keeps this share of the highest EL2N."""
    reuse = str(reuse).lower()
    return f"el2n[keep={keep:.12g},models={models},epochs={epochs},reuse={reuse}]"


def selective(keep):
    """Return Selective-Backprop as the poster has it: in every batch, from start to end."""
    return f"selective_backprop_batch[keep={keep:.12g},start=0,end=1,interrupt=0]"


def scores_of(study, models, epochs, *, model=None, fresh=False):
    """Return a score per sample, NaN for those held out of training.

    `fresh` takes networks of other seeds than those that all other runs share.
    """
    strategy = el2n(1, models, epochs, reuse=not fresh)
    result = study.train(strategy, OnlyPrepare(), model=model)
    return result.run.strategies[0].plugin.scores


def use_of(study, keep):
    """Return how often Selective-Backprop has trained each sample."""
    return study.train(selective(keep)).samples["times_trained"]


def ensemble(models, epochs):
    """Say which networks have given the scores."""
    return f"EL2N ({models} network{'s' * (models > 1)}, {epochs} epoch{'s' * (epochs != 1)})"


def percent(share):
    """Print a share."""
    return f"{100 * share:.1f}%"
