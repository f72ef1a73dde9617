"""Charts of lines: accuracy as it grows, and which share of the samples each epoch has used."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from html import escape
from typing import NamedTuple

import pandas as pd

from dataeff.report.placing import spaced
from dataeff.report.series import focus, means
from dataeff.report.web import svg
from dataeff.report.web.chart import Chart
from dataeff.report.web.shown import Shown
from dataeff.report.web.svg import NARROW, SMALL, Frame, Scale, tag, words

_SEEDS = (
    "Lines show one seed, so there is no band.",
    "Lines are means over seeds; bands reach from the lowest to the highest seed.",
)
_LEARNING = {
    "seconds": ("Accuracy against time", "prepare + train seconds"),
    "epoch": ("Accuracy against epoch", "epoch"),
}
# What is usual, and how it is said.
_SHARES = {
    "kept": (1, "Share of the training samples that were trained.", "of the training samples"),
    "mixed": (0, "Share of the trained samples that were in mixed rows.", "of the samples trained"),
}
_FRAMES = (Frame(580.0, 340.0, 40, 140, 22, 40), Frame(NARROW, 300.0, 36, 12, 22, 40))
# Pixels between the labels of two lines.
_APART = 14.0


class _Axes(NamedTuple):
    """What a chart of lines shows: its axes in words, the range upwards, how values are written."""

    x: str
    across: str
    up: str
    range: Sequence[float]
    form: Callable[[float], str]


def learning(shown: Shown, names: Sequence[str], x: str, images: str = "") -> Chart | None:
    """Draw test accuracy against `x` (seconds or epoch): mean over seeds, lowest to highest.

    `images` says on which of the test images, where not on all.
    """
    curves = shown.of(shown.board.curves).dropna(subset=["test_top1", "seconds"])
    if not (lines := means(curves, names, "test_top1")):
        return None
    heading, across = _LEARNING[x]
    several = any(line["count"].max() > 1 for line in lines.values())
    seen = f" On {images}." if images else ""
    range_ = focus(lines.values())
    if min(line["low"].min() for line in lines.values()) < range_[0]:
        seen += " The beginning is cut off."
    axes = _Axes(x, across, "test accuracy, %", range_, lambda value: f"{value:g}")
    label = f"{heading}: {_ends(lines, x)}"
    return Chart(x, heading, _SEEDS[several] + seen, _drawn(shown, lines, axes, label))


def _ends(lines: Mapping[str, pd.DataFrame], x: str) -> str:
    """Say where lines end."""
    unit = {"seconds": "seconds", "epoch": "epochs"}[x]
    ends = {name: line.iloc[-1] for name, line in lines.items()}
    return "; ".join(
        f"{name}: {end['mean']:.2f}% after {end[x]:.3g} {unit}" for name, end in ends.items()
    )


def shares(shown: Shown, names: Sequence[str], column: str) -> Chart | None:
    """Draw a share of the samples per epoch (kept or mixed), where it is not always the usual."""
    usual, caption, what = _SHARES[column]
    seen = shown.of(shown.board.curves).dropna(subset=[column])
    unusual = set(seen.loc[(seen[column] - usual).abs() > 1e-6, "strategy"])
    lines = means(seen, [name for name in names if name in unusual], column)
    if not lines:
        return None
    told = {name: line.assign(mean=100 * line["mean"]) for name, line in lines.items()}
    # What a share is over seeds is one number: a band would say how the draw fell.
    told = {name: line.assign(low=line["mean"], high=line["mean"]) for name, line in told.items()}
    most = max(line["mean"].max() for line in told.values())
    axes = _Axes("epoch", "epoch", f"% {what}", (0.0, 1.04 * most), lambda value: f"{value:g}")
    heading = f"{column.capitalize()} per epoch"
    over = "; ".join(f"{name}: {line['mean'].mean():.0f}%" for name, line in told.items())
    caption += f" Those not drawn are at {usual:.0%} throughout."
    return Chart(column, heading, caption, _drawn(shown, told, axes, f"{heading}: {over}"))


def _drawn(shown: Shown, lines: Mapping[str, pd.DataFrame], axes: _Axes, label: str) -> str:
    return "".join(_Curves(frame, shown, lines, axes).text(label) for frame in _FRAMES)


class _Curves:
    """A chart of lines in one size."""

    def __init__(
        self, frame: Frame, shown: Shown, lines: Mapping[str, pd.DataFrame], axes: _Axes
    ) -> None:
        self.frame, self.shown, self.lines, self.axes = frame, shown, lines, axes
        inside = self.inside = frame.inside
        first = 0.0 if axes.x == "seconds" else min(line[axes.x].min() for line in lines.values())
        last = max(line[axes.x].max() for line in lines.values())
        self.x = Scale(float(first), float(last), inside.left, inside.right)
        self.y = Scale(axes.range[0], axes.range[1], inside.high, inside.low)

    def text(self, label: str) -> str:
        """Return the drawing."""
        inside = self.inside
        size = {"width": inside.right - inside.left, "height": inside.high - inside.low}
        view = f"{inside.left} {inside.low} {size['width']} {size['height']}"
        # What is below the axis is cut off by a drawing within the drawing.
        within = tag(
            "svg",
            *map(self._line, self.lines),
            x=inside.left,
            y=inside.low,
            viewBox=view,
            **{name: float(value) for name, value in size.items()},
        )
        parts = [
            *svg.up_axis(self.y, inside, self.axes.form),
            *svg.across_axis(self.x, inside, lambda value: f"{value:g}"),
            *svg.titles(self.frame, self.axes.across, self.axes.up),
            within,
            *(self._labels() if self.frame.is_wide else []),
        ]
        return svg.drawing(self.frame, label, parts)

    def _line(self, name: str) -> str:
        line, style = self.lines[name], self.shown.styles[name]
        across = [self.x(value) for value in line[self.axes.x]]
        mean, low, high = (
            [self.y(value) for value in line[column]] for column in ("mean", "low", "high")
        )
        there = list(zip(across, low, strict=True))
        back = list(zip(across, high, strict=True))[::-1]
        band = line["count"].max() > 1 and bool((line["high"] > line["low"]).any())
        often = max(1, len(across) // 6)
        return tag(
            "g",
            tag("title", escape(name)),
            *([svg.area([*there, *back], class_=f"band {style.colour}")] if band else []),
            svg.path_of(zip(across, mean, strict=True), style),
            *(svg.mark(style, across[i], mean[i], 0.7) for i in range(0, len(across), often)),
            data_key=style.key,
        )

    def _labels(self) -> Iterator[str]:
        """Yield marks and names beside the ends of their lines, moved apart where needed."""
        inside, lines = self.inside, self.lines.items()
        wanted = [self.y(line["mean"].iloc[-1]) for _, line in lines]
        room = (inside.low + 4, inside.high - 2)
        apart = min(_APART, (room[1] - room[0]) / max(1, len(wanted) - 1))
        start = inside.right + 10
        for (name, _), y in zip(lines, spaced(wanted, apart, *room), strict=True):
            style = self.shown.styles[name]
            text = svg.shortened(self.shown.labels[name], self.frame.width - start - 12, SMALL)
            parts = [svg.mark(style, start, y, 0.8), words(text, start + 10, y + 4, class_="end")]
            yield tag("g", *parts, data_key=style.key)
