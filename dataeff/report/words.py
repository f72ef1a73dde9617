"""Words: how numbers, intervals and verdicts are written, in every table, sentence and page."""

import math
from collections.abc import Iterable

from dataeff.report.frames import Record
from dataeff.report.stats import Interval, Paired, interval_of
from dataeff.report.verdicts import Verdicts

POINTS = "+z.2f"
"""The form of differences in accuracy."""
TIMES = ".2f x"
"""The form of factors: a form is that of `format`, and after a space its unit."""
NO_EFFECT = "no effect here"
"""What stands in the place of a verdict where a strategy can do nothing on this machine."""
READ_OFF = "read off a curve"
"""What stands in the place of a verdict where nothing was run, so that nothing is tested."""
OPEN = "open"
"""What may be said where nothing may be said yet."""
NO_VERDICT = "no verdict"
"""What stands in the place of a verdict where there are not two seeds to compare."""
NO_LOOK = "no look yet"
"""What stands in the place of a verdict before there is one."""
NOT_LISTED = "not listed"
"""What stands in the place of a verdict where the suite does not ask for a strategy."""
CONTROL = "control"
"""What stands in the place of a verdict where the suite has added a yardstick."""
NOT_TIMED = "speed not judged"
"""What is said where fewer than two seeds have times that can be trusted."""
BEATS, BEATEN = "beats training less", "beaten by training less"
"""What may be said of a method against the line."""
CLAIMS = (
    "Claims, judged by the intervals of the tables; those that compare something else, by "
    "intervals of their own, which share one chance of being wrong"
)
"""How claims are judged."""
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


def spread(found: Interval, form: str, to: str = "..", unit: str = "") -> str:
    """Return a mean with its interval beside it, where that is known."""
    reach = limits(found, form, to)
    return number(found.mean, form) + unit + (f" ({reach})" if reach else "")


def points(found: Interval, unit: str = "") -> str:
    """Return a difference in accuracy with its interval: `+0.10 (-0.20..+0.40)`."""
    return spread(found, POINTS, "..", unit)


def factor(found: Interval, unit: str = "x") -> str:
    """Return a factor with its interval: `1.52x (1.47-1.58)`."""
    reach = factor_limits(found)
    return number(found.mean, ".2f") + unit + (f" ({reach})" if reach else "")


def factor_limits(found: Interval) -> str:
    """Return from where to where a factor reaches, so that its ends are not taken for 1."""
    decimals = 2
    while decimals < 6 and any(end != 1 and round(end, decimals) == 1 for end in found[1:]):
        decimals += 1
    return limits(found, f".{decimals}f", "-")


def saved(speed: Interval) -> Interval:
    """Return the share of time that a speed-up saves, with its interval."""
    return Interval(*(1 - 1 / end if end else -math.inf for end in speed))


def percent(share: float) -> str:
    """Return a share in whole percent, and never `-0%`."""
    return f"{100 * share:z.0f}%"


def listed(texts: Iterable[str]) -> str:
    """Return `a, b and c`."""
    *head, last = texts
    return f"{', '.join(head)} and {last}" if head else last


# Verdicts ----------------------------------------------------------------------------------------


def verdict_words(told: Verdicts, diverged: Iterable[str]) -> list[str]:
    """Return the verdict on each strategy in a few words; `diverged` says in which seeds, or ''."""
    return [_words(told, i, seeds) for i, seeds in enumerate(diverged)]


def _words(told: Verdicts, i: int, diverged: str) -> str:
    pace = "faster" if told.faster[i] else "slower" if told.slower[i] else ""
    level, is_good = accuracy_word(told, i)
    untimed = NOT_TIMED if math.isnan(told.ends.speed_low[i]) else ""
    if diverged:
        return ", ".join(filter(None, [pace or untimed, level, diverged]))
    if pace and level:
        return f"{pace} {'and' if is_good is (pace == 'faster') else 'but'} {level}"
    if not pace and not level and not untimed:
        return OPEN
    return (
        f"{pace}, accuracy open"
        if pace
        else f"{level or 'accuracy open'}, {untimed or 'speed open'}"
    )


def verdict_of(line: Record) -> str:
    """Return the verdict on a line; of who has no finished run, what went wrong."""
    return ("" if line["n"] else line["trouble"]) or line["verdict"] or line["trouble"]


def diverged_in(count: int, ended: int) -> str:
    """Return in how many of its seeds a strategy diverged, or nothing."""
    return f"diverged in {count} of {ended}" if count else ""


def accuracy_word(told: Verdicts, i: int) -> tuple[str, bool]:
    """Return what may be said of a strategy's accuracy, or nothing, and whether that is good."""
    if told.no_worse[i]:
        return ("better" if told.better[i] else "no worse"), True
    if told.less_accurate[i]:
        return ("worse" if told.worse[i] else "less accurate"), False
    return "", False


def sentence(line: Record, more: str) -> str:
    """Return the verdict on one line of a table against its reference, as a sentence.

    `more` is what is to be said of seeds to come, where anything is open.
    """
    speed, word = interval_of(line, "speedup"), line["verdict"]
    timed = NOT_TIMED if NOT_TIMED in word else _pace(speed)
    said = f"{timed}, accuracy {points(interval_of(line, 'difference'))}: {word}"
    if "worse" in word:
        said += f" (margin {line['margin']:g})"
    return f"{said}; {more}" if more else said


def _pace(speed: Interval) -> str:
    mean, low, high = speed
    if math.isnan(low) or low <= 1 <= high:
        return factor(speed, "x the speed")
    if mean >= 1:
        return factor(speed, "x faster")
    return factor(Interval(1 / mean, 1 / high, 1 / low), "x slower")


def seeds_more(n: int, chance: float) -> str:
    """Return how likely so many seeds settle what is open."""
    told = (
        "less than 1%" if chance < 0.01 else "more than 99%" if chance > 0.99 else f"{chance:.0%}"
    )
    return f"{n} seeds settle it with a chance of {told}"


def against_line(gain: Interval, counted: bool = False) -> str:
    """Return how a method compares with just training less, at its own time; nothing if unknown.

    `counted` says that its time is not known, and its counted work stands for it.
    """
    if math.isnan(gain.mean):
        return ""
    word = BEATS if gain.low > 0 else BEATEN if gain.high < 0 else f"{OPEN} against training less"
    return f"{word}, {gained(gain)}{' at its counted work' if counted else ''}"


def gained(gain: Interval) -> str:
    """Return a gain with its interval; beyond an end of the line one side is not known."""
    if math.isinf(gain.low) and math.isinf(gain.high):
        return number(gain.mean, POINTS)
    if math.isinf(gain.low):
        return f"{number(gain.mean, POINTS)} (at most {number(gain.high, POINTS)})"
    if math.isinf(gain.high):
        return f"{number(gain.mean, POINTS)} (at least {number(gain.low, POINTS)})"
    return points(gain)


def matched_to(entry: Record, times: Paired, where: str) -> str:
    """Return how long a matched strategy takes; `times` are logarithms of the ratios per seed."""
    ratio = times.interval().exp()
    reach = limits(ratio, ".2f", "-") or "one seed"
    on = f" on {where}" if where else ""
    text = f"{entry['strategy']}: matched to {entry['match']}{on}, "
    text += f"{number(ratio.mean, TIMES)} its time ({reach})"
    off = f"off by {abs(ratio.mean - 1):.0%}" if abs(ratio.mean - 1) > MATCHED else ""
    return ", ".join(filter(None, [text, off, entry["note"]])) + "."
