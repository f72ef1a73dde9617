"""Words: how numbers, intervals and verdicts are written, in every table, sentence and page."""

import math
from collections.abc import Iterable

import numpy as np

from dataeff.plural import counted
from dataeff.report.frames import Record
from dataeff.report.stats import MOST_SEEDS, Array, Interval, Paired, Verdicts, interval_of

POINTS = "+z.2f"
"""The form of differences in accuracy."""
TIMES = ".2f x"
"""The form of factors: a form is that of `format`, and after a space its unit."""
NO_EFFECT = "no effect here"
"""What stands in the place of a verdict where a strategy can do nothing on this machine."""
READ_OFF = "read off a curve"
"""What stands in the place of a verdict where nothing was run, so that nothing is tested."""
MATCHED = 0.03
"""Times that were matched may differ by this share; beyond it is said by how much."""


# Numbers -----------------------------------------------------------------------------------------


def number(value: float, form: str, unknown: str = "-") -> str:
    """Return a number in this form, such as `1.52x`; what is not finite is unknown."""
    if value is None or not math.isfinite(value):
        return unknown
    spec, _, unit = form.partition(" ")
    return format(value, spec) + unit


def numbers(values: Iterable[float], form: str) -> list[str]:
    """Return numbers as the page has them."""
    return [on_page(value, form) for value in values]


def on_page(value: float, form: str) -> str:
    """Return a number with the signs that a page has, and a terminal may not."""
    return number(value, form, "–").replace("x", "×")


def limits(found: Interval, form: str, to: str = "..") -> str:
    """Return from where to where an interval reaches; nothing where it is not known."""
    if math.isnan(found.low):
        return ""
    return f"{number(found.low, form)}{to}{number(found.high, form)}"


def spread(found: Interval, form: str, to: str = "..", unit: str = "", label: str = "") -> str:
    """Return a mean with its interval beside it, where that is known."""
    reach = limits(found, form, to)
    return number(found.mean, form) + unit + (f" ({label}{reach})" if reach else "")


def points(found: Interval, unit: str = "", label: str = "") -> str:
    """Return a difference in accuracy with its interval: `+0.10 (-0.20..+0.40)`."""
    return spread(found, POINTS, "..", unit, label)


def factor(found: Interval, unit: str = "x") -> str:
    """Return a factor with its interval: `1.52x (1.47-1.58)`."""
    return spread(found, ".2f", "-", unit)


def listed(texts: Iterable[str]) -> str:
    """Return `a, b and c`."""
    *head, last = texts
    return f"{', '.join(head)} and {last}" if head else last


# Verdicts ----------------------------------------------------------------------------------------


def verdict_words(told: Verdicts, known: Iterable[bool]) -> list[str]:
    """Return the verdict on each strategy in a few words; `known` says who has two seeds."""
    return [_words(told, i) if enough else "no verdict" for i, enough in enumerate(known)]


def _words(told: Verdicts, i: int) -> str:
    faster, slower = told.faster[i], told.slower[i]
    if told.better[i]:
        return "faster and better" if faster else "slower but better" if slower else "better"
    if told.worse[i]:
        return "faster but worse" if faster else "slower and worse" if slower else "worse"
    if slower:
        return "slower"
    if told.no_worse[i]:
        return "faster and no worse" if faster else "no worse"
    return "undecided"


def sentence(line: Record, shared: float, needed: float) -> str:
    """Return the verdict on one line of a table against its reference, as a sentence.

    `shared` is the number of seeds that both have, `needed` about how many would decide all.
    """
    if shared < 1:
        return "no verdict: it shares no seed with the reference"
    speed, word = interval_of(line, "speedup"), line["verdict"]
    said = f"{_pace(speed)}, accuracy {points(interval_of(line, 'difference'))}"
    if shared < 2:
        return f"{said}: no verdict, for one seed shows no spread; add seeds: --seeds 5"
    if word in ("better", "no worse"):
        return f"{said}: {word}, speed undecided, {_more(shared, needed)}"
    return f"{said}: {word}" + (f", {_more(shared, needed)}" if word == "undecided" else "")


def _pace(speed: Interval) -> str:
    mean, low, high = speed
    if low <= 1 <= high:
        return factor(speed, "x the speed")
    if mean >= 1:
        return factor(speed, "x faster")
    return factor(Interval(1 / mean, 1 / high, 1 / low), "x slower")


def _more(shared: float, needed: float) -> str:
    if np.isinf(needed):
        return f"more than {MOST_SEEDS} seeds would be needed"
    return f"about {counted(max(1, int(needed - shared)), 'more seed')}"


def against_control(ahead: Interval, pace: Interval, told: int, control: str) -> str:
    """Return how a method compares with a control; both intervals are over the seeds of the two."""
    if math.isnan(ahead.low) or math.isnan(pace.low):
        return f"{number(ahead.mean, POINTS)} points against {control}: one seed tells nothing"
    # -1 is the last of the three.
    word = ("not told apart", "better", "worse")[told]
    return f"{word}, {points(ahead, ' points')} at {factor(pace, 'x the speed')} of {control}"


def without_control(cost: float, costs: Array, names: list[str]) -> str:
    """Return what is missing where no control has the cost of a method."""
    if not len(names):
        return "none was run"
    nearest = int(np.argmin(np.abs(np.log(costs / cost))))
    return (
        f"none was run at its cost, {cost:.0%} of the reference's; the nearest is "
        f"{names[nearest]} at {costs[nearest]:.0%}"
    )


def matched_to(entry: Record, times: Paired, where: str) -> str:
    """Return how long a matched strategy takes; `times` are logarithms of the ratios per seed."""
    ratio = times.interval().exp()
    reach = limits(ratio, ".2f", "-") or "one seed"
    on = f" on {where}" if where else ""
    text = f"{entry['strategy']}: matched to {entry['match']}{on}, "
    text += f"{number(ratio.mean, TIMES)} its time ({reach})"
    off = f"off by {abs(ratio.mean - 1):.0%}" if abs(ratio.mean - 1) > MATCHED else ""
    return ", ".join(filter(None, [text, off, entry["note"]])) + "."
