"""Stacks: where the time went, a bar per strategy, its phases named where they are long enough."""

from __future__ import annotations

import pandas as pd

from dataeff.report.compare import PHASES
from dataeff.report.placing import Box
from dataeff.report.plots.layout import Ground
from dataeff.report.plots.lettering import INK, Lettering, Looks, height_of, size_of, width_of
from dataeff.report.plots.subject import Drawn, Entry, Shown
from dataeff.report.series import phase_means

# The network's own work in blue and black, whatever comes on top in the warm colours.
_COLOURS = dict(
    zip(
        PHASES,
        (
            *("#cc79a7", "#f0e442", "#e69f00", "#d55e00", "#8b3a00"),
            *("#009e73", "#56b4e9", "#0072b2", "#222222", "#bbbbbb"),
        ),
        strict=True,
    )
)
_ON_DARK = {"score", "select", "transform", "backward", "step"}
# Of its place a bar takes so much, which is so many times as high as its name.
_BAR, _AIR = 0.72, 1.35
# Points of a phase that one can see.
_SEEN = 1.2


def phases(shown: Shown, ground: Ground) -> Drawn | None:
    """Draw where the time went; None where no phase has any that can be trusted."""
    told = phase_means(shown.runs, shown.names)
    if told.empty or not len(told.columns):
        return None
    names, points = [shown.label(name) for name in told.index], shown.sheet.small
    axes = ground.axes
    ends = told.cumsum(axis=1)
    for phase in told:
        looks: Looks = {"color": _COLOURS[phase], "edgecolor": "white", "linewidth": 0.4}
        axes.barh(range(len(names)), told[phase], _BAR, ends[phase] - told[phase], **looks)
    axes.set(xlabel="seconds, mean over seeds", ylim=(len(names) - 0.4, -0.6))
    axes.set_yticks(range(len(names)), names, fontsize=points)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="y", visible=False)
    for label in axes.get_yticklabels():
        label.set_parse_math(False)
    ground.lay()
    ground.grow(sum(_AIR * height_of(name, points) for name in names))
    totals = [f"{total:.3g} s" for total in ends.iloc[:, -1]]
    _total(ground, ends.iloc[:, -1].max(), max(width_of(text, points) for text in totals))
    letters = Lettering(axes, points)
    for place, (text, total) in enumerate(zip(totals, ends.iloc[:, -1], strict=True)):
        x, y = letters.at(total, place)
        letters.write(text, Box(x + 1, y, x + 1, y))
    return Drawn(_name(told, ends, letters), shown.left_out)


def _total(ground: Ground, longest: float, width: float) -> None:
    """Leave room for so wide a text behind the longest bar."""
    whole, _ = size_of(ground.axes)
    ground.axes.set_xlim(0, longest * whole / (whole - width - 4))
    ground.lay()


def _name(told: pd.DataFrame, ends: pd.DataFrame, letters: Lettering) -> list[Entry]:
    """Write each phase into the first bar where it has room; return the others that are seen."""
    left = []
    for phase in map(str, told):
        wide, seen = width_of(phase, letters.points), 0.0
        for place, (seconds, end) in enumerate(zip(told[phase], ends[phase], strict=True)):
            (start, y), (stop, _) = letters.at(end - seconds, place), letters.at(end, place)
            seen = max(seen, stop - start)
            if stop - start > wide + 4:
                middle = (start + stop - wide) / 2 - 1
                colour = "white" if phase in _ON_DARK else INK
                letters.write(phase, Box(middle, y, middle, y), color=colour)
                break
        else:
            left += [Entry(phase, {"facecolor": _COLOURS[phase]})] * (seen > _SEEN)
    return left
