"""What dispensable samples look like."""

import math
from collections import Counter

import torch
from dataeff_plugins.poster.runs import ensemble, scores_of, use_of
from pydantic import NonNegativeInt, PositiveInt

from dataeff import Share

COUNT, COLUMNS = 20, 7
FORMS = {"el2n": ".3g", "rank": ".6g"}
GAP = 0.34
"""Room above each image for its label, in heights of an image."""


def images(study, *, models: PositiveInt = 3, epochs: NonNegativeInt = 5, keep: Share = 0.5):
    """Show the samples of lowest EL2N, and of lowest rank by EL2N and use by SB together.

    EL2N is the mean over `models` networks of `epochs` epochs; `keep` is the share of a batch that
    SB trains.
    """
    scores = scores_of(study, models, epochs)
    samples = (~scores.isnan()).nonzero()[:, 0]
    scores = scores[samples]
    which = ensemble(models, epochs)
    if study.wanted("lowest"):
        lowest = scores.argsort(stable=True)[:COUNT]
        columns = {"sample": samples[lowest], "el2n": scores[lowest]}
        title = f"the {len(lowest)} samples of lowest EL2N"
        _show(study, "lowest", title, columns, "el2n", f"class: {which}")
    if study.wanted("combined"):
        use = use_of(study, keep)[samples]
        ranks = {"rank_el2n": mean_ranks(scores), "rank_use": mean_ranks(use)}
        rank = ranks["rank_el2n"] + ranks["rank_use"]
        lowest = lowest_of(rank, scores, COUNT)
        columns = {
            "sample": samples[lowest],
            "el2n": scores[lowest],
            "times_trained": use[lowest],
            **{name: column[lowest] for name, column in ranks.items()},
            "rank": rank[lowest],
        }
        title = f"the {len(lowest)} samples of lowest rank by EL2N + rank by use"
        told = f"class: sum of the ranks by {which} and by use, SB at keep {keep:g}"
        _show(study, "combined", title, columns, "rank", told)


images.figures = ("lowest", "combined")


def _show(study, name, title, columns, key, told):
    pixels, labels = study.samples(columns["sample"])
    labels = labels.tolist()
    table = {name: column.tolist() for name, column in columns.items()}
    table = {"sample": table.pop("sample"), "label": labels, **table}
    values = [f"{value:{FORMS[key]}}" for value in table[key]]
    label, often = Counter(labels).most_common(1)[0]
    says = f"{key} from {values[0]} to {values[-1]}; {len(set(labels))} of {study.classes} classes,"
    says += f" most often {label} ({often} of {len(labels)})"
    with study.figure(name, title, table, says) as axes:
        whole, places = montage(pixels, min(COLUMNS, len(pixels)))
        axes.imshow(whole.numpy())
        for (x, y), label, value in zip(places, labels, values, strict=True):
            axes.text(x, y, f"{label}: {value}", ha="center", va="bottom", fontsize=7.5)
        axes.grid(visible=False)
        axes.spines[:].set_visible(False)
        axes.set(xticks=[], yticks=[], xlabel=told)


def lowest_of(rank, scores, count):
    """Return the places of the lowest ranks; equal ones in the order of their scores."""
    by_score = scores.argsort(stable=True)
    return by_score[rank[by_score].argsort(stable=True)][:count]


def mean_ranks(values):
    """Return the rank of each value from 1 on; equal values have the mean of their ranks."""
    _, group, sizes = values.unique(return_inverse=True, return_counts=True)
    return (sizes.cumsum(0) - (sizes - 1) / 2)[group]


def montage(pixels, columns):
    """Return one white uint8 picture (H, W, 3) with the images on it, and where to label each.

    `pixels` are (n, height, width, channels); other than three channels are shown in grey.
    """
    n, height, width, channels = pixels.shape
    if channels != 3:
        pixels = pixels.double().mean(3, keepdim=True).round().byte().expand(-1, -1, -1, 3)
    top, side = math.ceil(GAP * height), math.ceil(0.1 * width)
    high, wide = height + top, width + side
    whole = torch.full((-(-n // columns) * high, columns * wide, 3), 255, dtype=torch.uint8)
    places = []
    for number, image in enumerate(pixels):
        y, x = number // columns * high + top, number % columns * wide + side // 2
        whole[y : y + height, x : x + width] = image
        places.append((x + (width - 1) / 2, y - 1))
    return whole, places
