"""Do two architectures, and do EL2N and Selective-Backprop, find the same samples dispensable?"""

import torch
from dataeff_plugins.poster.runs import ensemble, percent, scores_of, use_of
from pydantic import NonNegativeInt, PositiveInt

from dataeff import DataeffError, Share, portion

FRACTIONS = tuple(tenth / 10 for tenth in range(1, 10))


def overlap(
    study,
    *,
    other: str | None = None,
    models: PositiveInt = 3,
    epochs: NonNegativeInt = 5,
    keep: Share = 0.5,
):
    """Compare the samples pruned on two architectures, and those that SB uses least.

    `other` is the second network, resnet20 unless the task's own is that, then resnet8; the
    poster's pair is other=torchvision:googlenet on a task with resnet18. EL2N is the mean over
    `models` networks of `epochs` epochs; `keep` is the share of a batch that SB trains.
    """
    other = other or default_other(study.task.model)
    if other == study.task.model:
        raise DataeffError(
            f"overlap: other={other} is the task's own network; name another one, such as "
            f"other={default_other(other)}."
        )
    if study.wanted("architectures"):
        draw_architectures(study, other, models, epochs)
    if study.wanted("sb"):
        draw_sb(study, models, epochs, keep)


overlap.figures = ("architectures", "sb")


def default_other(model):
    """Return a small network that is not the one given."""
    return "resnet8" if model == "resnet20" else "resnet20"


def draw_architectures(study, other, models, epochs):
    """Draw what the lowest EL2N of two networks share, beside two ensembles of one network.

    Both are held against the same scores, and have the seeds of their networks in common: the
    difference between the two curves is the architecture's.
    """
    # The other network first: where its name is wrong, nothing has been trained yet.
    theirs = scores_of(study, models, epochs, model=other, fresh=True)
    again = scores_of(study, models, epochs, fresh=True)
    ours = scores_of(study, models, epochs)
    known = ~ours.isnan()
    pairs = {"architectures": theirs[known], "seeds": again[known]}
    table = overlaps(ours[known], pairs)
    model = study.task.model
    labels = {
        "architectures": (f"{model} and {other}", "C0-"),
        "seeds": (f"two ensembles of {model}", "C1--"),
    }
    title = "overlap of the samples of lowest EL2N"
    with study.figure("architectures", title, table, told(table, labels)) as axes:
        _draw(axes, table, labels, f"lowest {ensemble(models, epochs)}, % of the training set")


def draw_sb(study, models, epochs, keep):
    """Draw what the samples least used by SB share with the lowest EL2N."""
    use = use_of(study, keep)
    scores = scores_of(study, models, epochs)
    known = ~scores.isnan()
    table = overlaps(scores[known], {"sb": use[known]})
    labels = {"sb": (f"SB at keep {keep:g} and EL2N", "C0-")}
    title = "overlap of the N% least used by SB and the N% of lowest EL2N"
    with study.figure("sb", title, table, told(table, labels)) as axes:
        _draw(axes, table, labels, f"N, % of the training set; {ensemble(models, epochs)}")


def _draw(axes, table, labels, xlabel):
    fractions = [100 * line["fraction"] for line in table]
    for key, (label, style) in labels.items():
        axes.plot(fractions, [100 * line[key] for line in table], style, marker="o", label=label)
    chance = [100 * line["chance"] for line in table]
    axes.plot(fractions, chance, ":", color="#666666", label="by chance")
    axes.set_xlabel(xlabel)
    axes.set_ylabel("overlap (% of the samples of one set)")
    axes.set_xlim(0, 100)
    axes.set_ylim(0, 102)


def told(table, labels):
    """Say what is shared of a tenth and of half of the samples."""
    parts = []
    for line in table:
        if line["fraction"] in (0.1, 0.5):
            shares = [f"{label} {percent(line[key])}" for key, (label, _) in labels.items()]
            chance = f"by chance {percent(line['chance'])}"
            parts.append(f"of the lowest {line['fraction']:.0%}: {', '.join([*shares, chance])}")
    return "; ".join(parts)


def overlaps(values, others, fractions=FRACTIONS):
    """Return a line per fraction: what its lowest share with the lowest of each of the others."""
    lines = []
    for fraction in fractions:
        n = max(1, portion(fraction, len(values)))
        found = {key: shared(values, other, n) for key, other in others.items()}
        chance = n / len(values)
        lines.append({"fraction": fraction, "samples": n, **found, "chance": chance})
    return lines


def shared(a, b, n):
    """Return |A and B| / |A| of the n lowest of each: its mean over all ways to break ties."""
    return float((membership(a, n) * membership(b, n)).sum() / n)


def membership(values, n):
    """Return each value's odds to be among the n lowest, when equal ones rank at random."""
    cut = values.sort().values[n - 1]
    below, level = values < cut, values == cut
    odds = (n - below.sum()).double() / level.sum()
    return torch.where(below, 1.0, level * odds)
