"""What the paper's figures count: samples found in composites, losses, regions of the loss.

Sections 3.1, 3.2 and 7.3 of the paper. P composites of two samples have labels (P, 2); logits are
(P, K) where both samples are read off the same features, (P, 2, K) where each has its own.
"""

import torch
import torch.nn.functional as F

NAN = float("nan")


def spread(count, at_most):
    """Return at most so many of `count` epochs, evenly spread; the first and the last are there."""
    steps = min(count, at_most)
    return sorted({round(i * (count - 1) / max(1, steps - 1)) for i in range(steps)} | {count - 1})


# Composites --------------------------------------------------------------------------------------


def right_after_mixing(logits, labels):
    """Return which samples (P, 2) the network still finds.

    With logits of its own a sample is right if its label comes first. With shared logits it is
    right as well where its label comes second, after that of its partner.
    """
    if logits.ndim == 3:
        return logits.argmax(2) == labels
    top = logits.topk(2).indices
    first, second = top[:, :1], top[:, 1:]
    return (first == labels) | ((second == labels) & (first == labels.flip(1)))


def second_in_top5(logits, labels):
    """Return (found, asked): is the other sample in the top five where one of the two is first?

    It is not asked of two samples of one class: the class has been named already.
    """
    top = logits.topk(min(5, logits.shape[1])).indices
    named = top[:, :1] == labels
    asked = named.any(1) & (labels[:, 0] != labels[:, 1])
    other = torch.where(named[:, 0], labels[:, 1], labels[:, 0])
    return asked & (top == other[:, None]).any(1), asked


def constituent_losses(logits, labels):
    """Return the cross-entropy (P, 2) of a composite with respect to each of its labels."""
    lines = logits if logits.ndim == 3 else logits[:, None].expand(-1, 2, -1)
    return F.cross_entropy(lines.flatten(0, 1), labels.flatten(), reduction="none").view(-1, 2)


def tally(logits, labels):
    """Return the counts of a batch of composites, to be added up."""
    right = right_after_mixing(logits, labels)
    counts = {
        "samples": right.numel(),
        "right": int(right.sum()),
        "pairs": len(right),
        "both": int(right.all(1).sum()),
        "single": int((right.sum(1) == 1).sum()),
    }
    if logits.ndim == 2:
        found, asked = second_in_top5(logits, labels)
        counts |= {"second_asked": int(asked.sum()), "second_found": int(found.sum())}
    return counts


def shares(counts):
    """Return the counts as shares of what they were counted among."""

    def share(part, whole):
        return counts[part] / counts[whole] if counts.get(whole) else NAN

    return {
        "samples": counts.get("samples", 0),
        "right": share("right", "samples"),
        "single": share("single", "pairs"),
        "both": share("both", "pairs"),
        "second_asked": counts.get("second_asked", 0),
        "second_in_top5": share("second_found", "second_asked"),
    }


# Losses ------------------------------------------------------------------------------------------


def share_of(part, whole):
    """Return the share of `whole` that is in `part` as well, both boolean."""
    count = int(whole.sum())
    return int((part & whole).sum()) / count if count else NAN


def loss_below_which(loss, right, share=0.95):
    """Return the loss below which that share of the right samples lies."""
    return float(loss[right].quantile(share)) if right.any() else NAN


def by_loss(loss, columns, per_decade=4, least=5):
    """Return one line per bin of the loss, with the mean of each column there.

    Bins are equally wide on a logarithmic scale that begins at 1e-4; one that holds less than
    `least` samples is left out.
    """
    place = ((loss.clamp(min=1e-4).log10() + 4) * per_decade).long()
    counts = place.bincount()
    means = {name: place.bincount(column) / counts for name, column in columns.items()}
    middles = 10 ** ((torch.arange(len(counts)) + 0.5) / per_decade - 4)
    return [
        {
            "loss": float(middles[bin]),
            "samples": int(counts[bin]),
            **{name: float(mean[bin]) for name, mean in means.items()},
        }
        for bin in (counts >= least).nonzero()[:, 0].tolist()
    ]


def histogram(values, edges):
    """Return the share of the values in each bin; what lies outside counts for the outer ones."""
    if not len(values):
        return [NAN] * (len(edges) - 1)
    inner = torch.as_tensor(edges[1:-1], dtype=values.dtype)
    counts = torch.bucketize(values, inner, right=True).bincount(minlength=len(edges) - 1)
    return (counts / len(values)).tolist()
