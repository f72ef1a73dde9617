"""Curves: accuracy against time or epochs, and what each epoch trained, named at their ends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from dataeff.report.frames import seen_on
from dataeff.report.placing import Box, spaced
from dataeff.report.plots.layout import Ground
from dataeff.report.plots.lettering import Lettering, Wish, height_of, width_of
from dataeff.report.plots.subject import Drawn, Entry, Shown
from dataeff.report.series import focus, means

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Lines that end in the last part of the axes have their names beside these, in a column.
_LAST = 0.9
# Between axes and that column, in sizes of its letters.
_LEAD = 1.6


class Curve(NamedTuple):
    """A line with its name, and the looks of line and of the mark at its end."""

    text: str
    xs: Sequence[float]
    ys: Sequence[float]
    line: Mapping[str, Any]
    mark: Mapping[str, Any]


def learning(shown: Shown, ground: Ground, x: str) -> Drawn | None:
    """Draw accuracy against `seconds` or `epoch`; None where nothing was tested on the way."""
    tests = shown.curves.dropna(subset=["test_top1"])
    found = means(tests, shown.names, "test_top1")
    if not found:
        return None
    images, axes = seen_on(shown.runs), ground.axes
    axes.set(xlabel=_ACROSS[x], ylabel="test accuracy (%)", ylim=focus(found.values()))
    axes.set_xlim(0, 1.02 * max(line[x].max() for line in found.values()))
    if x == "epoch":
        _whole(axes)
    curves = []
    for name, line in found.items():
        looks, mark = shown.line(name), shown.mark(name)
        band = {"color": looks["color"], "alpha": 0.1, "linewidth": 0}
        axes.fill_between(line[x], line["low"], line["high"], **band)
        curves.append(Curve(shown.label(name), list(line[x]), list(line["mean"]), looks, mark))
    says = [
        f"Mean and range of seeds{f', on {images}' if images else ''}.",
        shown.left_out,
    ]
    return Drawn(_draw(curves, ground), " ".join(filter(None, says)))


_ACROSS = {"seconds": "time of prepare + train (s)", "epoch": "epochs"}


def shares(shown: Shown, ground: Ground) -> Drawn | None:
    """Draw what each epoch trained, and mixed; None where all trained everything as it is."""
    told = shown.curves[["kept", "mixed"]].dropna()
    if not ((told["kept"] < 1) | (told["mixed"] > 0)).any():
        return None
    curves = []
    for name in shown.names:
        lines = shown.curves[shown.curves["strategy"] == name]
        mean = lines.groupby("epoch")[["kept", "mixed"]].mean().dropna()
        told = {"": mean["kept"], ", mixed": mean["mixed"] * mean["kept"]}
        seen = {"": (mean["kept"] < 1).any(), ", mixed": (mean["mixed"] > 0).any()}
        for what, share in told.items():
            if seen[what]:
                looks = shown.line(name) | ({"linestyle": (0, (1, 1))} if what else {})
                text, mark = f"{shown.label(name)}{what}", shown.mark(name)
                curves.append(Curve(text, list(mean.index), list(100 * share), looks, mark))
    if not curves:
        return None
    ground.axes.set(xlabel=_ACROSS["epoch"], ylabel="training samples (%)", ylim=(0, 105))
    ground.axes.set_xlim(0, 1.02 * max(curve.xs[-1] for curve in curves))
    _whole(ground.axes)
    says = ["Mean over seeds.", shown.left_out]
    return Drawn(_draw(curves, ground), " ".join(filter(None, says)))


def _whole(axes: Axes) -> None:
    """Count epochs in whole numbers."""
    from matplotlib.ticker import MaxNLocator

    axes.xaxis.set_major_locator(MaxNLocator(6, integer=True, steps=[1, 2, 5, 10]))


def _draw(curves: Sequence[Curve], ground: Ground) -> list[Entry]:
    """Draw lines with a mark and a name at each end; return what has no room for its name."""
    axes, points = ground.axes, ground.sheet.small
    end = _LAST * axes.get_xlim()[1]
    late = [curve for curve in curves if curve.xs[-1] >= end]
    early = [curve for curve in curves if curve.xs[-1] < end]
    widest = max((width_of(curve.text, points) for curve in late), default=0.0)
    ground.lay(widest + (_LEAD + 0.4) * points if late else 0.0)
    letters = Lettering(axes, points)
    for curve in curves:
        axes.plot(curve.xs, curve.ys, zorder=2, **curve.line)
        letters.add_line([letters.at(*at) for at in zip(curve.xs, curve.ys, strict=True)], 1.5)
        x, y = _end(curve, letters)
        letters.add_mark(x, y, ground.sheet.mark)
        letters.draw([x], [y], zorder=3, label=curve.text, **curve.mark)
    left = [*_name_late(late, letters), *_name_early(early, letters, ground.sheet.mark / 2)]
    return [Entry(c.text, {**c.mark, **c.line}) for c in left]


def _end(curve: Curve, letters: Lettering) -> tuple[float, float]:
    return letters.at(curve.xs[-1], curve.ys[-1])


def _name_late(curves: Sequence[Curve], letters: Lettering) -> Sequence[Curve]:
    """Write names in a column beside the axes, each led to the end of its line.

    Return those that have no room in it.
    """
    high = max((height_of(curve.text, letters.points) for curve in curves), default=1.0)
    fitting = int(letters.frame.high / high)
    here = curves[:fitting]
    ends = [_end(curve, letters) for curve in here]
    places = spaced([y for _, y in ends], high, high / 2, letters.frame.high - high / 2)
    left = letters.frame.right + _LEAD * letters.points
    for curve, at, y in zip(here, ends, places, strict=True):
        wide = width_of(curve.text, letters.points)
        letters.write(curve.text, Box(left - 1, y - high / 2, left + wide + 1, y + high / 2))
        letters.lead(at, (left - 2, y), curve.line["color"])
    return curves[fitting:]


def _name_early(curves: Sequence[Curve], letters: Lettering, clear: float) -> Sequence[Curve]:
    """Write names beside the ends of lines; return those that have no room there."""
    ends = [_end(curve, letters) for curve in curves]
    wishes = [Wish(c.text, *at, clear) for c, at in zip(curves, ends, strict=True)]
    found = list(map(letters.find, wishes))
    for curve, at, box in zip(curves, ends, found, strict=True):
        if box:
            letters.name(curve.text, box, *at)
    return [curve for curve, box in zip(curves, found, strict=True) if box is None]
