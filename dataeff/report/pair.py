"""What may be said of one strategy against another, in the words of the table."""

import math
from typing import NamedTuple

import numpy as np

from dataeff.report.grid import Grid, asked_of
from dataeff.report.judge import Judged
from dataeff.report.stats import Interval
from dataeff.report.verdicts import CHANCE, Asked, Ends, Verdicts, judge
from dataeff.report.words import NO_LOOK, NO_VERDICT, accuracy_word, diverged_in, verdict_words

BY_TABLE = "the intervals are the table's, and answer for all of it"
BY_PAIR = f"the intervals are for this pair alone: both hold in {1 - CHANCE:.0%} of cases"
BY_NOBODY = "there has been no look at this table yet"


class Said(NamedTuple):
    """Speed-up and accuracy of B against A with their intervals, and the words for them.

    `verdict` is for both, `pace` and `level` are for each; `by` says where the intervals are from.
    """

    speedup: Interval
    difference: Interval
    verdict: str
    pace: str
    level: str
    by: str


def pair_said(table: Judged, a: str, b: str) -> Said:
    """Say what may be said of B against A: what the table says, where one is the reference."""
    names, reference = table.grid.names, table.grid.reference
    unseen = [one for one in (a, b) if one != reference and table.listed[names.index(one)]]
    if reference in (a, b) and unseen and not table.seen[names.index(unseen[0])]:
        points, speed = _means(table, a, b)
        return Said(speed.exp(), points, NO_LOOK, NO_LOOK, NO_LOOK, BY_NOBODY)
    if a == reference and table.listed[names.index(b)]:
        place = names.index(b)
        points, speed = table.points.interval(place), table.speed.interval(place)
        return _said(table, (points, speed), _diverged(table, b), BY_TABLE)
    if b == reference and table.listed[names.index(a)]:
        place = names.index(a)
        points, speed = (
            Interval(-mean, -high, -low)
            for mean, low, high in (table.points.interval(place), table.speed.interval(place))
        )
        return _said(table, (points, speed), "", BY_TABLE)
    asked = _asked(table, a, b)
    found = judge(asked)
    low, high, slow, fast = (float(end[0]) for end in found.ends)
    points = Interval(float(asked.accuracy.mean[0]), low, high)
    speed = Interval(float(asked.speed.mean[0]), slow, fast)
    return _said(table, (points, speed), _diverged(table, b), BY_PAIR)


def _asked(table: Judged, a: str, b: str) -> Asked:
    """Return what is asked of B if A is its reference."""
    group = table.grid.group
    return asked_of(Grid(group[group["strategy"].isin([a, b])], a), [b], table.margin)


def _means(table: Judged, a: str, b: str) -> tuple[Interval, Interval]:
    """Return what B has beyond A, in points and logarithms of times, without intervals."""
    asked = _asked(table, a, b)
    points, speed = (float(part.mean[0]) for part in (asked.accuracy, asked.speed))
    return Interval(points, math.nan, math.nan), Interval(speed, math.nan, math.nan)


def _diverged(table: Judged, name: str) -> str:
    place = table.grid.names.index(name)
    return diverged_in(table.diverged[place], table.ended[place])


def _said(table: Judged, found: tuple[Interval, Interval], diverged: str, by: str) -> Said:
    """Put intervals of points and of logarithms of speed-ups into words."""
    if not table.against:
        points, speed = (Interval(one.mean, math.nan, math.nan) for one in found)
        return Said(speed.exp(), points, NO_LOOK, NO_LOOK, NO_LOOK, BY_NOBODY)
    points, speed = (_known(one) for one in found)
    ends = (np.array([end]) for end in (*points[1:], *speed[1:]))
    told = Verdicts(Ends(*ends), np.array([bool(diverged)]), table.margin)
    pace = "faster" if told.faster[0] else "slower" if told.slower[0] else "open"
    level = accuracy_word(told, 0)[0] or "open"
    [verdict] = verdict_words(told, [diverged])
    if np.isnan(points.low) and np.isnan(speed.low) and not diverged:
        pace = level = verdict = NO_VERDICT
        by = "one seed shows no spread; add seeds: --seeds 5"
    return Said(speed.exp(), points, verdict, pace, level, by)


def _known(found: Interval) -> Interval:
    """Return an interval whose ends are NaN where nothing is known of them."""
    ends = (end if math.isfinite(end) else math.nan for end in found[1:])
    return Interval(found.mean, *ends)
