"""The figures of the mixTrain paper, by the numbers of its first version (TMLR).

Each function draws one figure from the runs that it looks up. Tables are lists of lines or columns;
shares in them lie in [0, 1], accuracies are in percent.
"""

import math

import torch
from dataeff_plugins.mixtrain import analysis
from dataeff_plugins.mixtrain.runs import Runs

from dataeff import DataeffError


def _column(lines, name, factor=1):
    return [factor * line[name] for line in lines]


def _percent(share):
    return "none" if math.isnan(share) else f"{100 * share:.1f}%"


def _curves(axes, lines, curves):
    """Draw columns of shares over the epochs, each with its label and style."""
    for name, (label, style) in curves.items():
        shares = _column(lines, name, 100)
        axes.plot(_column(lines, "epoch"), shares, style, marker="o", label=label)


def _over_epochs(axes, ylabel, whole=True):
    """Label a figure over epochs; `whole` shows all from 0 to 100%."""
    axes.set_xlabel("epoch")
    axes.set_ylabel(ylabel)
    axes.xaxis.get_major_locator().set_params(integer=True)
    if whole:
        axes.set_ylim(-2, 102)


# Interference between the two samples ------------------------------------------------------------


def fig2a(study, runs):
    """Accuracy when every sample is mixed, naively and with less interference."""
    styles = {
        "baseline": "k-",
        "naive CutMix": "C0--",
        "naive MixUp": "C1--",
        "split CutMix": "C0-",
        "adaptive MixUp": "C1-",
    }
    measured = [key for key in runs["baseline"].epochs[-1] if key.endswith("_top1")]
    shown = measured[0]  # the validation part, where the task carves one
    # A task may look at the test set in some epochs only.
    looked = {name: [line for line in runs[name].epochs if shown in line] for name in styles}
    table = [
        {"run": name, "epoch": line["epoch"], **{key: line.get(key) for key in measured}}
        for name, lines in looked.items()
        for line in lines
    ]
    last = ", ".join(f"{name} {runs[name].epochs[-1][shown]:.1f}%" for name in styles)
    title = "accuracy when every sample is mixed"
    with study.figure("2a", title, table, f"{last} (last epoch)") as axes:
        for name, style in styles.items():
            lines = looked[name]
            axes.plot(_column(lines, "epoch"), _column(lines, shown), style, label=name)
        _over_epochs(axes, f"{shown.split('_')[0]} accuracy (%)", whole=False)


def fig2b(study, runs):
    """How many of the samples that the network knows it still finds in a composite."""
    names = ("naive CutMix", "naive MixUp", "split CutMix")
    table = [{"run": name, **line} for name in names for line in runs[name].probe.lines]
    styles = {
        "zeropatch": ("ZeroPatch (half blank)", "C4-"),
        "split": ("CutMix, split", "C0-"),
        "cutmix": ("CutMix", "C0--"),
        "mixup": ("MixUp", "C1--"),
    }
    curves = {key: [line for line in table if line["operator"] == key] for key in styles}
    last = ", ".join(f"{key} {_percent(lines[-1]['right'])}" for key, lines in curves.items())
    title = "known samples that are still right after mixing"
    with study.figure("2b", title, table, f"still right: {last} (last epoch)") as axes:
        axes.axhline(100, color="k", label="not mixed")
        for key, lines in curves.items():
            _curves(axes, lines, {"right": styles[key]})
        _over_epochs(axes, "still right (% of known samples)")


def fig12(study, runs):
    """How often the second sample of a composite is among the top five classes."""
    operators = {"naive CutMix": "cutmix", "naive MixUp": "mixup"}
    keys = ("epoch", "second_asked", "second_in_top5")
    table = [
        {"run": name, **{key: line[key] for key in keys}}
        for name, operator in operators.items()
        for line in runs[name].probe.lines
        if line["operator"] == operator
    ]
    curves = {name: [line for line in table if line["run"] == name] for name in operators}
    chance = min(1.0, 4 / (study.classes - 1))
    last = [f"{name} {_percent(lines[-1]['second_in_top5'])}" for name, lines in curves.items()]
    says = f"second sample in the top 5: {', '.join(last)}, by chance {_percent(chance)}"
    title = "is the second sample of a pair in the top 5?"
    with study.figure("12", title, table, f"{says} (last epoch)") as axes:
        for name, style in zip(curves, ("C0--", "C1--"), strict=True):
            _curves(axes, curves[name], {"second_in_top5": (name, style)})
        axes.axhline(100 * chance, color="#666666", ls=":", label="by chance")
        _over_epochs(axes, "in the top 5 (% of pairs with one found)")


# Who tolerates mixing ----------------------------------------------------------------------------


def fig5a(study, runs):
    """How far mixing moves the loss of a sample, by the loss itself."""
    lines = runs["mixTrain-CutMix"].probe.gaps
    epochs = sorted({line["epoch"] for line in lines})
    shown = sorted({epochs[len(epochs) // 4], epochs[len(epochs) // 2], epochs[-1]})
    table = [line for line in lines if line["epoch"] in shown]
    marks = {line["epoch"]: line["right_95"] for line in table}
    says = ", ".join(f"{mark:.3g} (epoch {epoch})" for epoch, mark in marks.items())
    says = f"95% of the right samples lie below a loss of {says}"
    with study.figure("5a", "how far CutMix moves the loss of a sample", table, says) as axes:
        for epoch, colour in zip(shown, ("C0", "C1", "C2"), strict=False):
            part = [line for line in table if line["epoch"] == epoch]
            loss = _column(part, "loss")
            axes.plot(loss, _column(part, "gap"), "o-", color=colour, label=f"epoch {epoch}")
            axes.plot(loss, _column(part, "gap_split"), "o--", color=colour, mfc="white")
            axes.axvline(marks[epoch], color=colour, ls=":", lw=1.2)
        axes.plot([], [], "ko--", mfc="white", label="same, split")
        axes.plot([], [], "k:", lw=1.2, label="95% of right samples below")
        axes.set_xscale("log")
        axes.set_ylim(bottom=0)
        axes.set_xlabel("loss without mixing (nats)")
        axes.set_ylabel("|loss mixed - loss| (nats)")


def fig5b(study, runs):
    """How many samples of region 1 are still right after mixing."""
    table = runs["mixTrain-CutMix"].probe.kept
    styles = {
        "split": ("CutMix, split", "C0-"),
        "pooled": ("CutMix, features pooled together", "C0--"),
    }
    last = ", ".join(f"{name} {_percent(table[-1][name])}" for name in styles)
    says = f"region 1 still right after mixing: {last} (last epoch)"
    title = "samples of region 1 (loss < L_mid) after mixing"
    with study.figure("5b", title, table, says) as axes:
        _curves(axes, table, styles)
        _over_epochs(axes, "still right (% of region 1)")


def fig5c(study, runs):
    """The losses of one epoch, and the three regions."""
    shown = runs["mixTrain-CutMix"].probe.shown
    loss, right, epoch = shown["loss"], shown["right"], shown["epoch"]
    limits = {"L_mid": shown["mid"], "L_incorr": shown["incorr"]}
    top = max(float(loss.quantile(0.999)), *(1.3 * x for x in limits.values() if x < math.inf))
    edges = torch.linspace(0, top, 41).tolist()
    whole = analysis.histogram(loss, edges)
    wrong = analysis.histogram(loss[~right], edges)
    wrong = [float((~right).float().mean()) * share if (~right).any() else 0.0 for share in wrong]
    table = {"from": edges[:-1], "to": edges[1:], "all": whole, "wrong": wrong, **limits}
    easy, hard = (loss < limits["L_mid"]), (loss > limits["L_incorr"])
    shares = [_percent(float(part.float().mean())) for part in (easy, ~(easy | hard), hard)]
    says = f"regions 1, 2 and 3 hold {', '.join(shares)} of the samples (epoch {epoch})"
    with study.figure("5c", f"losses in epoch {epoch}, and the regions", table, says) as axes:
        for colour, heights, label in (("C0", whole, "right"), ("C1", wrong, "wrong, in front")):
            heights = [100 * height for height in heights]
            axes.bar(edges[:-1], heights, edges[1], align="edge", color=colour, label=label)
        ends = [0, *(min(limit, top) for limit in limits.values()), top]
        for number, colour in enumerate(("C0", "#999999", "C1")):
            left, end = ends[number : number + 2]
            if end > left:
                axes.axvspan(left, end, color=colour, alpha=0.12, lw=0, zorder=0)
                place = axes.get_xaxis_transform()
                axes.text((left + end) / 2, 0.96, number + 1, transform=place, ha="center")
        axes.set_yscale("log")
        axes.set_xlim(0, top)
        axes.set_xlabel("training loss (nats); regions 1, 2, 3 meet at L_mid and L_incorr")
        axes.set_ylabel("samples (%)")


def fig6(study, runs):
    """Who lies below L_mid: the right samples, and not the wrong ones."""
    table = runs["mixTrain-CutMix"].probe.lines
    right, wrong = (_percent(table[-1][f"{name}_below"]) for name in ("right", "wrong"))
    says = f"right samples below L_mid {right}, wrong {wrong} (last epoch)"
    with study.figure("6", "L_mid tells right from wrong samples", table, says) as axes:
        styles = {"right_below": ("right samples", "C0-"), "wrong_below": ("wrong samples", "C1-")}
        _curves(axes, table, styles)
        _over_epochs(axes, "loss below L_mid (% of these samples)")


def fig7(study, runs):
    """How many samples are mixed out of region 1, and how many leave it."""
    keys = ("mixed", "region1", "deflected")
    lines = enumerate(runs["mixTrain-CutMix"].history)
    table = [{"epoch": epoch, **{key: line[key] for key in keys}} for epoch, line in lines]
    mixed, left = (_percent(table[-1][name]) for name in ("region1", "deflected"))
    says = f"mixed from region 1 {mixed}, deflected {left} of all samples (last epoch)"
    with study.figure("7", "samples mixed from region 1", table, says) as axes:
        styles = {
            "region1": ("mixed from region 1", "C0-"),
            "deflected": ("deflected (not mixed next)", "C1-"),
        }
        _curves(axes, table, styles)
        _over_epochs(axes, "samples (% of the training set)")


# Region 3 ----------------------------------------------------------------------------------------


def _time_in_region3(study, runs, name, right, limit):
    probe, words = runs["baseline"].probe, "right" if right else "wrong"
    these = (probe.trained > 0) & (probe.right == right)
    count = int(these.sum())
    edges = [step / 10 for step in range(11)]
    heights = analysis.histogram(probe.hard[these] / max(1, probe.epochs), edges)
    table = {"from": edges[:-1], "to": edges[1:], "share": heights, "samples": count}
    long = analysis.share_of(probe.hard > limit * probe.epochs, these)
    says = f"of the {count} samples {words} at the end, {_percent(long)} are in region 3 for over "
    title = f"how long samples that end up {words} are in region 3"
    with study.figure(name, title, table, f"{says}{limit:.0%} of the epochs") as axes:
        bars = [100 * height for height in heights]
        axes.bar(edges[:-1], bars, 0.094, align="edge", color="C0" if right else "C1")
        axes.set_xticks(edges, [f"{edge:.0%}" for edge in edges])
        axes.set_ylim(0, 102)
        axes.set_xlabel("share of the epochs spent in region 3, without mixing")
        axes.set_ylabel(f"samples (% of the {count} {words} at the end)")


def fig8a(study, runs):
    """How long the samples that are wrong at the end were in region 3."""
    _time_in_region3(study, runs, "8a", right=False, limit=0.7)


def fig8b(study, runs):
    """How long the samples that are right at the end were in region 3."""
    _time_in_region3(study, runs, "8b", right=True, limit=0.6)


def fig9a(study, runs):
    """How many samples are mixed out of region 3.

    In shares of all samples, as the paper's reason for their fall says; what part of region 3 is
    chosen for the next epoch stands in the table.
    """
    run = runs["mixTrain-CutMix"]
    seen = {line["epoch"]: line for line in run.probe.lines}
    keys = ("in_region3", "chosen_of_region3")
    table = [
        {
            "epoch": epoch,
            "mixed": line["region3"],
            **{key: seen.get(epoch, {}).get(key, math.nan) for key in keys},
        }
        for epoch, line in enumerate(run.history)
    ]
    mean = sum(_column(table, "mixed")) / len(table)
    says = f"mixed from region 3 {_percent(mean)} of all samples in the mean of the epochs"
    says += f", {_percent(table[-1]['mixed'])} in the last"
    with study.figure("9a", "samples mixed from region 3", table, says) as axes:
        styles = {
            "mixed": ("mixed from region 3", "C0-"),
            "in_region3": ("in region 3, not mixed", "C1--"),
        }
        _curves(axes, table, styles)
        _over_epochs(axes, "samples (% of the training set)", whole=False)
        axes.set_ylim(bottom=0)


# What it saves -----------------------------------------------------------------------------------


def _scatter(study, name, title, table):
    says = ", ".join(
        f"{line['label']} {line['accuracy']:.1f}% at {line['speedup_counted']:.2f}x "
        f"({line['speedup_measured']:.2f}x in seconds)"
        for line in table
    )
    with study.figure(name, title, table, says) as axes:
        for number, line in enumerate(table):
            ends, y = [line["speedup_counted"], line["speedup_measured"]], line["accuracy"]
            colour = "k" if line["run"] == "baseline" else f"C{number % 6}"
            axes.plot(ends, [y, y], "-", color=colour, lw=1, alpha=0.5)
            axes.plot(ends[1], y, "o", color=colour, ms=8, mfc="white")
            axes.plot(ends[0], y, "o", color=colour, ms=8, label=line["label"])
        axes.plot([], [], "o", color="#666666", mfc="white", ms=8, label="the same, in seconds")
        axes.margins(0.08)
        axes.set_xlabel("speed-up over the baseline (filled: counted work; open: measured seconds)")
        axes.set_ylabel("test accuracy (%)")


def fig9b(study, runs):
    """Accuracy and speed-up where losses must rise for k epochs."""
    names = {"k=1": "mixTrain-CutMix", "k=2": "k=2", "k=3": "k=3"}
    table = [{"label": label, **runs.savings(name)} for label, name in names.items()]
    _scatter(study, "9b", "region 3 is mixed after k rises, for k epochs", table)


def fig10a(study, runs):
    """Accuracy and speed-up of naive mixing, selective mixing, and the whole method."""
    names = ("naive CutMix", "selective CutMix", "mixTrain-CutMix", "naive MixUp", "mixTrain-MixUp")
    table = [{"label": name, **runs.savings(name)} for name in (*names, "baseline")]
    _scatter(study, "10a", "what selection and less interference give", table)


def fig10b(study, runs):
    """What the two regions save."""
    names = {"region 1": "region 1", "regions 1 and 3": "mixTrain-CutMix"}
    table = [{"mixed": label, **runs.savings(name)} for label, name in names.items()]
    one, both = _column(table, "saved_counted")
    says = f"region 1 saves {_percent(one)} of the work, region 3 {_percent(both - one)} more"
    with study.figure("10b", "what mixing each region saves", table, says) as axes:
        for shift, key, label in (
            (-0.18, "saved_counted", "counted work"),
            (0.18, "saved_measured", "measured seconds"),
        ):
            places = [place + shift for place in range(len(names))]
            bars = axes.bar(places, _column(table, key, 100), 0.34, label=label)
            axes.bar_label(bars, fmt="%.1f%%", padding=2)
        axes.set_xticks(range(len(names)), list(names))
        axes.grid(axis="x", visible=False)
        axes.axhline(0, color="k", lw=0.8)
        axes.margins(y=0.12)
        axes.set_xlabel("what is mixed")
        axes.set_ylabel("saved (% of the baseline)")


def fig13(study, runs):
    """The mean training loss of the baseline."""
    lines = runs["baseline"].epochs
    table = [{key: line[key] for key in ("epoch", "train_loss")} for line in lines]
    loss = _column(table, "train_loss")
    says = f"mean training loss {loss[0]:.3f} in the first epoch, {loss[-1]:.3f} in the last"
    with study.figure("13", "mean training loss of the baseline", table, says) as axes:
        axes.plot(_column(table, "epoch"), loss, marker="o")
        _over_epochs(axes, "training loss (nats)", whole=False)
        axes.set_ylim(bottom=0)


FIGURES = {
    draw.__name__.removeprefix("fig"): draw
    for draw in (
        *(fig2a, fig2b, fig5a, fig5b, fig5c, fig6, fig7),
        *(fig8a, fig8b, fig9a, fig9b, fig10a, fig10b, fig12, fig13),
    )
}


def mixtrain(study):
    """Draw the figures of the mixTrain paper."""
    if study.task.epochs < 3:
        raise DataeffError("mixtrain mixes from the third epoch on: take a task of 3 or more.")
    runs = Runs(study)
    failed = None
    for name, draw in FIGURES.items():
        if study.wanted(name):
            try:
                draw(study, runs)
            except DataeffError as error:
                study.tell(f"fig {name}: not drawn")
                failed = error
    if failed:
        raise failed


mixtrain.figures = tuple(FIGURES)
