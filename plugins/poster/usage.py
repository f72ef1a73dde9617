"""What Selective-Backprop trains, and what dropping samples costs in accuracy."""

import math
from typing import Annotated

import torch
from dataeff_plugins.poster.runs import el2n, ensemble, percent, scores_of, selective, use_of
from pydantic import BeforeValidator, Field, NonNegativeInt, PositiveInt

from dataeff import Share

PRUNED = 0.25
"""What Diet-SB drops before training, of the full set."""

Dropped = Annotated[float, Field(gt=0, lt=1)]
Fractions = Annotated[
    tuple[Dropped, ...],
    Field(min_length=1),
    BeforeValidator(lambda text: text.replace(",", " ").split() if isinstance(text, str) else text),
]
STYLES = {"SB": "C0-", "RB": "C1--", "EL2N": "C2-.", "Diet-SB": "C3-"}


def usage(
    study,
    *,
    fractions: Fractions = (0.25, 0.5, 0.75),
    models: PositiveInt = 3,
    epochs: NonNegativeInt = 5,
    keep: Share = 0.5,
):
    """Count how often SB trains each sample, and draw accuracy against the dropped fraction.

    `fractions` are of the full training set, such as fractions="0.25 0.5"; each is one run per
    method. EL2N is the mean over `models` networks of `epochs` epochs; `keep` is the share of a
    batch that SB trains where its use is counted.
    """
    if study.wanted("times") or study.wanted("deciles"):
        scores, use = scores_of(study, models, epochs), use_of(study, keep)
        known = ~scores.isnan()
        if study.wanted("times"):
            draw_times(study, use[known], keep)
        if study.wanted("deciles"):
            which = ensemble(models, epochs)
            draw_deciles(study, scores[known], use[known], keep, which)
    if study.wanted("dropped"):
        draw_dropped(study, sorted(set(fractions)), models, epochs)


usage.figures = ("times", "deciles", "dropped")


def draw_times(study, use, keep):
    """Draw how many samples were trained how often."""
    table = times_table(use, math.ceil(study.task.epochs))
    never, always = table[0]["share"], table[-1]["share"]
    says = f"trained never {percent(never)}, in every epoch {percent(always)} of the samples; "
    says += f"by chance {percent(table[0]['by_chance'])} and {percent(table[-1]['by_chance'])}"
    title = f"how often SB (keep {keep:g}) trains a sample"
    with study.figure("times", title, table, says) as axes:
        times = [line["times"] for line in table]
        axes.bar(times, [100 * line["share"] for line in table], 0.85, label="SB")
        chance = [100 * line["by_chance"] for line in table]
        axes.plot(times, chance, "ko:", label="as many, drawn by chance")
        axes.xaxis.get_major_locator().set_params(integer=True)
        axes.set_xlabel("times trained")
        axes.set_ylabel("samples (%)")


def draw_deciles(study, scores, use, keep, which):
    """Draw the mean use of each tenth of the samples by EL2N."""
    table = deciles(scores, use)
    mean = float(use.double().mean())
    first, last = table[0]["times_trained"], table[-1]["times_trained"]
    says = f"trained {first:.2f} times in the lowest tenth by EL2N, {last:.2f} times in the "
    says += f"highest, {mean:.2f} times in the mean"
    title = f"how often SB (keep {keep:g}) trains easy and hard samples"
    with study.figure("deciles", title, table, says) as axes:
        places = [line["decile"] for line in table]
        axes.bar(places, [line["times_trained"] for line in table], 0.85, label="SB")
        axes.axhline(mean, color="k", ls=":", label="mean of all samples")
        axes.set_xticks(places)
        axes.set_xlabel(f"tenths of the samples, lowest {which} first")
        axes.set_ylabel("times trained (mean)")


def draw_dropped(study, fractions, models, epochs):
    """Draw accuracy against what is dropped, of the full set, by each method."""
    plain = study.train("baseline").record
    table = [_line("baseline", 0.0, plain, plain)]
    for dropped in fractions:
        for method, strategy in methods(dropped, models, epochs).items():
            table.append(_line(method, dropped, study.train(strategy).record, plain))
    parts = []
    for dropped in fractions:
        found = [line for line in table if line["dropped"] == dropped]
        shown = ", ".join(f"{line['method']} {line['accuracy']:.1f}%" for line in found)
        parts.append(f"{100 * dropped:g}% dropped: {shown}")
    says = f"baseline {table[0]['accuracy']:.1f}%; {'; '.join(parts)} (one run each)"
    title = "accuracy against what is not trained, one run each"
    with study.figure("dropped", title, table, says) as axes:
        axes.axhline(table[0]["accuracy"], color="k", lw=1.2, label="baseline")
        for method, style in STYLES.items():
            lines = [line for line in table if line["method"] == method]
            if lines:
                places = [100 * line["dropped"] for line in lines]
                accuracy = [line["accuracy"] for line in lines]
                axes.plot(places, accuracy, style, marker="o", label=method)
        axes.set_xlabel(f"dropped, % of the full training set; {ensemble(models, epochs)}")
        axes.set_ylabel("test accuracy (%)")
        axes.set_xlim(0, 100)


def _line(method, dropped, record, plain):
    rows = record["rows"]["trained"]
    return {
        "method": method,
        "strategy": record["strategy"],
        "dropped": dropped,
        "accuracy": record["metrics"]["test_top1"],
        "rows_trained": rows,
        "rows_dropped": 1 - rows / plain["rows"]["trained"],
    }


def methods(dropped, models, epochs):
    """Return the strategies that drop this share of the full set; Diet-SB only beyond its EL2N."""
    keep = 1 - dropped
    found = {
        "SB": selective(keep),
        "RB": f"random_backprop[keep={keep:.12g}]",
        "EL2N": el2n(keep, models, epochs),
    }
    if dropped > PRUNED:
        # SB selects among those that EL2N has left.
        pruned = el2n(1 - PRUNED, models, epochs)
        found["Diet-SB"] = f"{pruned}+{selective(keep / (1 - PRUNED))}"
    return found


def times_table(use, epochs):
    """Return a line per number of times: the share of the samples, and that of equal chances."""
    most = max(epochs, int(use.max()))
    counts = use.long().bincount(minlength=most + 1).tolist()
    same = torch.distributions.Binomial(most, use.double().mean() / most)
    chances = same.log_prob(torch.arange(most + 1)).exp().tolist()
    return [
        {"times": times, "samples": count, "share": count / len(use), "by_chance": chance}
        for times, (count, chance) in enumerate(zip(counts, chances, strict=True))
    ]


def deciles(scores, use):
    """Return a line per tenth of the samples by score: its scores, and its mean use."""
    parts = scores.argsort(stable=True).tensor_split(10)
    return [
        {
            "decile": number,
            "samples": len(part),
            "el2n_from": float(scores[part[0]]),
            "el2n_to": float(scores[part[-1]]),
            "times_trained": float(use[part].double().mean()),
        }
        for number, part in enumerate(parts, 1)
        if len(part)
    ]
