"""The foot of a table: what holds for all of it, such as the chance that anything is wrong."""

from collections.abc import Mapping

import numpy as np

from dataeff.plural import counted
from dataeff.report.frames import numbers, seen_on
from dataeff.report.grid import lines_of
from dataeff.report.judge import Judged
from dataeff.report.looks import looks_of, spent
from dataeff.report.questions import LINE, REFERENCE
from dataeff.report.stats import paired
from dataeff.report.verdicts import chance_of, smallest_margin
from dataeff.report.words import listed


def foot(judged: Judged, images: Mapping[str, float]) -> list[str]:
    """Return what is to be said under a table, one sentence each.

    `images` are what the test images add to the error of each strategy's difference.
    """
    said = [*_together(judged), *_resolved(judged), *_on_new_images(judged, images)]
    said += [*_on_part(judged), *_falling(judged), *_beside_lanes(judged)]
    counts = set(judged.at[judged.seen])
    if len(counts) > 1:
        said.append("Who was settled earlier has fewer seeds: compare differences, not accuracies.")
    if waiting := judged.waiting():
        said.append(f"{waiting[0].upper()}{waiting[1:]}.")
    elif beyond := judged.beyond():
        said.append(f"{counted(beyond, 'more seed was', 'more seeds were')} run and not looked at.")
    return said


def _together(judged: Judged) -> list[str]:
    """Say how sure the verdicts are, all of them together."""
    if judged.at.max(initial=0) < 2:
        return []
    told = [text for about in (REFERENCE, LINE) if (text := _spent(judged, about))]
    if not told:
        return []
    settled = int(judged.settled.sum())
    return [
        f"Settled: {settled} of {int(judged.listed.sum())}. The chance that anything said here is "
        f"wrong, on this test set, is {listed(told)}."
    ]


def _spent(judged: Judged, about: str) -> str:
    """Say what the looks against one of the two have spent; nothing where there was none."""
    looks = [look for look in looks_of(judged.looks, judged.table.key, about) if look["chance"]]
    if not looks:
        return ""
    at = listed(str(n) for n in dict.fromkeys(look["n"] for look in looks))
    return f"{100 * spent(looks):.3g}% against the {about} (looked at {at} seeds)"


def _resolved(judged: Judged) -> list[str]:
    """Say what is typical, and the smallest margin that these seeds can show."""
    points, times = judged.typical()
    n = int(judged.at.max(initial=0))
    if np.isnan(points) or n < 2:
        return []
    chance = chance_of(judged.table.suite["seeds"])
    least = float(smallest_margin(points, n, max(1, int(judged.listed.sum())), chance))
    drift = "" if np.isnan(times) else f", {times:.0%} of time"
    return [
        f"Spread between seeds: typically {points:.2f} points{drift}. Smallest margin that "
        f"{counted(n, 'seed')} can show: {least:.1f} points."
    ]


def _on_new_images(judged: Judged, images: Mapping[str, float]) -> list[str]:
    """Say what the images add, where that is known of anybody who is judged."""
    known = [images[name] for name in judged.table.listed if name in images]
    if not known:
        return []
    return [
        f"For new images, those of this test set add a standard error of {np.median(known):.2f} "
        "points (typically), which no number of seeds lessens."
    ]


def _on_part(judged: Judged) -> list[str]:
    """Say that what is read off curves is of other images than accuracies are."""
    images = seen_on(judged.grid.cells)
    if not images:
        return []
    return [f"Curves, and what is read off them, are of {images}, for all the same ones."]


def _falling(judged: Judged) -> list[str]:
    """Warn of points of the line that are less accurate than cheaper ones: something is off."""
    said: list[str] = []
    lines = lines_of(judged.grid, judged.table.kinds) if judged.methods.any() else {}
    for kind, line in lines.items():
        ahead = paired(np.diff(line.accuracy, axis=0))
        for place in np.flatnonzero(ahead.high < 0):
            less, more = line.shares[place : place + 2]
            shares = f"{more:.2g} of the work is below {less:.2g}"
            said.append(f"The line falls: {kind} at {shares}, which does less.")
    return said


def _beside_lanes(judged: Judged) -> list[str]:
    """Say what busy lanes do to ratios of times, where there were several."""
    most, found = numbers(judged.table.group, "lanes").max(), judged.table.suite.get("calibration")
    if not found or not most > 1:
        return []
    return [
        f"Times are of up to {most:.0f} lanes at once: busy lanes change the ratio of two loads "
        f"beside them by {found['change']:+.1%} (standard error {found['error']:.1%})."
    ]
