"""Charts with one bar per strategy: phase times, composed effects; and classes, as a table.

The name stands above its bar instead of beside it: names are long and phones are narrow.
"""

from collections.abc import Iterator, Sequence
from html import escape
from typing import NamedTuple

import numpy as np
import pandas as pd

from dataeff.report import words as written
from dataeff.report.compare import PHASES
from dataeff.report.composed import FORMS
from dataeff.report.frames import Record, records
from dataeff.report.placing import Box
from dataeff.report.series import phase_means
from dataeff.report.styles import Style
from dataeff.report.web import svg
from dataeff.report.web.chart import Chart
from dataeff.report.web.shown import Shown
from dataeff.report.web.svg import NARROW, SMALL, WIDE, Frame, Scale, tag, words
from dataeff.report.web.webtable import tinted_table

# Strong colours for what takes long; pale ones for what shares a colour.
_COLOURS = ("c5", "c4", "c6", "c4", "c3", "c3", "c1", "c2", "ink", "soft")
_PALE = ("plan", "select", "step")
_LINE, _BAR, _TOP, _FOOT = 46.0, 18.0, 6.0, 40.0
_WIDTHS = (WIDE, NARROW)
MOST_CLASSES = 24
"""More classes than this are cut to those with the greatest losses."""
_MOST_COMPOSED = 30


class _Bars(NamedTuple):
    """A drawing with a line for each strategy: its frame, scale and names."""

    frame: Frame
    x: Scale
    names: Sequence[str]

    def around(self, across: str, neutral: float | None = None) -> Iterator[str]:
        """Yield the axis, the names above their bars, and where nothing is changed."""
        inside = self.frame.inside
        yield from svg.across_axis(self.x, inside, lambda value: f"{value:g}")
        yield from svg.titles(self.frame, across, "")
        if neutral is not None:
            at = self.x(neutral)
            yield tag("line", class_="zero", x1=at, x2=at, y1=inside.low, y2=inside.high)
        for place, name in enumerate(self.names):
            text = svg.shortened(name, inside.right - inside.left)
            yield words(text, inside.left, self.middle(place) - _BAR / 2 - 5, class_="name")

    def middle(self, place: int) -> float:
        """Return the height of the middle of a bar."""
        return _TOP + place * _LINE + _LINE - _BAR / 2 - 4


def _bars(width: float, names: Sequence[str], low: float, high: float) -> _Bars:
    frame = Frame(width, _TOP + _LINE * len(names) + 8 + _FOOT, 8, 12, _TOP, _FOOT)
    return _Bars(frame, Scale(low, high, frame.inside.left, frame.inside.right), names)


# Phases ------------------------------------------------------------------------------------------


def phases(shown: Shown, names: Sequence[str]) -> Chart | None:
    """Draw where the seconds went, one stacked bar per strategy."""
    means = phase_means(shown.of(shown.board.runs), list(names))
    if means.empty:
        return None
    totals = means.sum(axis=1)
    label = "Seconds per phase, in all: " + "; ".join(f"{n}: {s:.3g}" for n, s in totals.items())
    drawn = _phase_legend(list(means.columns))
    for width in _WIDTHS:
        bars = _bars(width, list(means.index), 0.0, 1.14 * float(totals.max()))
        parts = [*bars.around("mean seconds over seeds"), *_stacks(bars, means)]
        drawn += svg.drawing(bars.frame, label, parts)
    caption = "Seconds of preparing and of each phase of training, means over seeds."
    table = _texts("seconds", means, ".3g")
    return Chart("phases", "Where the time went", caption, drawn, wide=True, table=table)


def _stacks(bars: _Bars, means: pd.DataFrame) -> Iterator[str]:
    for place, line in enumerate(means.to_numpy()):
        low, end = bars.middle(place) - _BAR / 2, 0.0
        for phase, seconds in zip(means.columns, line, strict=True):
            left, end = bars.x(end), end + seconds
            at = Box(left, low, bars.x(end), low + _BAR)
            told = tag("title", escape(f"{phase}: {seconds:.3g} s"))
            parts = [svg.box(at, class_=_phase_class(phase)), told]
            if svg.width_of(phase, SMALL) + 8 < at.right - at.left and phase not in _PALE:
                parts.append(words(phase, at.left + 4, low + 13, class_="inside"))
            yield tag("g", *parts)
        yield words(f"{end:.3g} s", bars.x(end) + 5, low + 13, class_="axis")


def _phase_class(phase: str) -> str:
    colour = _COLOURS[PHASES.index(phase)]
    return f"fill {colour}" + (" pale" if phase in _PALE else "")


def _phase_legend(used: Sequence[str]) -> str:
    keys = "".join(
        f'<span><svg class="icon" width="12" height="12" aria-hidden="true"><rect '
        f'class="{_phase_class(phase)}" width="12" height="12"/></svg> {phase}</span>'
        for phase in used
    )
    return f'<p class="keys">{keys}</p>'


def _texts(first: str, values: pd.DataFrame, form: str) -> pd.DataFrame:
    columns = {str(name): written.numbers(values[name], form) for name in values}
    return pd.DataFrame({first: values.index, **columns})


# Composed effects --------------------------------------------------------------------------------

_COMPOSED = {
    "speedup": ("speed-up", "multiply", "speed-up (times)", 1.0),
    "accuracy": ("accuracy", "add up", "accuracy against the reference (points)", 0.0),
}


def composed(shown: Shown, quantity: str) -> Chart | None:
    """Draw the expected beside the measured effect of every composition."""
    everything = shown.of(shown.board.compositions)
    everything = everything[everything["quantity"] == quantity]
    few = everything.head(_MOST_COMPOSED)
    part = few.dropna(subset=["sum", "measured"])
    if part.empty:
        return None
    word, how, axis, neutral = _COMPOSED[quantity]
    join = np.multiply if quantity == "speedup" else np.add
    low, high = (join(part["sum"], part[f"interaction_{end}"]) for end in ("low", "high"))
    part = part.assign(low=low, high=high)
    ends = [*low.dropna(), *high.dropna(), *part["sum"], *part["measured"], neutral]
    pad = 0.08 * (max(ends) - min(ends)) or 0.1
    drawn = ""
    for width in _WIDTHS:
        bars = _bars(width, part["strategy"].tolist(), min(ends) - pad, max(ends) + pad)
        parts = [*bars.around(axis, neutral)]
        parts += [_pair(bars, place, line) for place, line in enumerate(records(part))]
        drawn += svg.drawing(bars.frame, f"Composed: {word}, expected and measured", parts)
    names = {"parts": "composition", "effects": "single effects", "sum": "expected"}
    table = few[[*names, "measured", "says"]].rename(columns=names)
    for kind in ("expected", "measured"):
        table[kind] = written.numbers(table[kind], FORMS[quantity])
    cut = f" The first {len(few)} of {len(everything)}." if len(few) < len(everything) else ""
    caption = (
        f"Diamond: expected if the effects {how}. Circle: measured, with what the interval of the "
        f"interaction leaves open.{cut}"
    )
    return Chart(f"composed-{quantity}", f"Composed: {word}", caption, drawn, table=table)


def _pair(bars: _Bars, place: int, line: Record) -> str:
    """Return one composition: what was expected, and what was measured."""
    middle = bars.middle(place)
    parts = [tag("title", escape(str(line["says"])))]
    if np.isfinite(line["high"] - line["low"]):
        ends = {"x1": bars.x(line["low"]), "x2": bars.x(line["high"])}
        parts.append(tag("line", class_="reach c1", y1=middle, y2=middle, **ends))
    parts += [
        svg.mark(Style(0, "ink", "diamond", "solid", True), bars.x(line["sum"]), middle),
        svg.mark(Style(0, "c1", "circle", "solid"), bars.x(line["measured"]), middle),
    ]
    return tag("g", *parts)


# Classes -----------------------------------------------------------------------------------------


def class_differences(classes: pd.DataFrame, strategies: Sequence[str]) -> pd.DataFrame:
    """Return differences to the reference: strategies down, classes across, at most so many.

    Of more classes, those in which some strategy loses most.
    """
    part = classes[classes["strategy"].isin(list(strategies))]
    wide = part.pivot_table(index="strategy", columns="label", values="difference")
    wide = wide.reindex([name for name in strategies if name in wide.index])
    worst = wide.min().sort_values(kind="stable").index[:MOST_CLASSES]
    return wide[sorted(worst)]


def per_class(shown: Shown, names: Sequence[str]) -> Chart | None:
    """Show the difference to the reference per class, as a table whose cells are tinted."""
    classes = shown.of(shown.board.classes)
    wide = class_differences(classes, [name for name in names if name != shown.reference])
    if wide.empty or wide.isna().all(axis=None):
        return None
    cut = classes["label"].nunique() > wide.shape[1]
    only = f" Only the {wide.shape[1]} classes in which most is lost." if cut else ""
    caption = f"Points against the reference, means over seeds; one column per class.{only}"
    return Chart("classes", "Accuracy by class", caption, tinted_table(wide), wide=True)
