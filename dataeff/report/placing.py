"""Placing: where labels of points stand, so that none covers another one, or a mark."""

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, Self

# What a step farther from its point costs a label.
_FAR = 3


class Box(NamedTuple):
    """A box on a drawing; whether y grows up or down does not matter."""

    left: float
    low: float
    right: float
    high: float

    def meets(self, other: Self) -> bool:
        """Say whether two boxes share anything."""
        across = self.left < other.right and other.left < self.right
        return across and self.low < other.high and other.low < self.high

    def holds(self, other: Self) -> bool:
        """Say whether another box lies inside."""
        across = self.left <= other.left and other.right <= self.right
        return across and self.low <= other.low and other.high <= self.high

    def spans(self, x: float, y: float) -> bool:
        """Say whether a place lies inside."""
        return self.left <= x <= self.right and self.low <= y <= self.high

    @classmethod
    def around(cls, x: float, y: float, width: float, height: float) -> Self:
        """Return a box by its middle."""
        return cls(x - width / 2, y - height / 2, x + width / 2, y + height / 2)


class Label(NamedTuple):
    """A text of this size that wants to stand by a point; `gap` is kept between the two."""

    x: float
    y: float
    width: float
    height: float
    gap: float


def placed(labels: Sequence[Label], taken: Sequence[Box], frame: Box) -> list[Box | None]:
    """Return where each label stands, None where there is no room: who comes first is served first.

    `taken` are boxes that nothing may cover, such as marks; nothing leaves the frame.
    """
    found: list[Box | None] = []
    full = list(taken)
    for label in labels:
        free = (box for box in _places(label) if frame.holds(box))
        spot = next((box for box in free if not any(box.meets(other) for other in full)), None)
        found.append(spot)
        if spot:
            full.append(spot)
    return found


def _places(label: Label) -> Iterator[Box]:
    """Yield boxes beside a point, the best first: right, left, below, above, then farther off."""
    x, y, width, height, gap = label
    beside, over = gap + width / 2, gap + height / 2
    # Nearly level ones first: a small shift keeps label and mark together.
    for shift in (0.0, 0.45, -0.45, 0.8, -0.8):
        for side in (1, -1):
            yield Box.around(x + side * beside, y + shift * height, width, height)
    for side in (-1, 1):
        for along in (0.0, 0.25, -0.25, 0.45, -0.45):
            yield Box.around(x + along * width, y - side * over, width, height)
    for shift in (1.25, -1.25, 1.8, -1.8):
        for side in (1, -1):
            yield Box.around(x + side * beside, y + shift * height, width, height)


def ways(label: Label, far: Sequence[float] = ()) -> Iterator[tuple[Box, int]]:
    """Yield where a label may stand, the best first, and what each place costs for being far off.

    `far` are heights by which it may be above or below its point, where a line then leads to it.
    """
    yield from ((box, 0) for box in _places(label))
    x, y, width, height, gap = label
    for step, shift in enumerate(far, 1):
        for up in (-shift, shift):
            for along in (0.0, 0.5, -0.5):
                across = x + along * (width + 2 * gap)
                yield Box.around(across, y + up * height, width, height), _FAR * step


def cheapest(boxes: Iterable[tuple[Box, int]], avoided: Sequence[Box]) -> Box | None:
    """Return the first box that costs least: its own cost, and one for each that it meets."""
    best, least = None, math.inf
    for box, cost in boxes:
        whole = cost + sum(box.meets(other) for other in avoided)
        if whole < least:
            best, least = box, whole
        if not least:
            break
    return best


def spaced(places: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Return places in a column, moved as little as needed to be a gap apart, within two ends."""
    order = sorted(range(len(places)), key=lambda i: places[i])
    # Neighbours that are too close become a group, which is centred on where its members were.
    groups: list[list[int]] = []
    for i in order:
        groups.append([i])
        while len(groups) > 1 and _first(groups[-1], places, gap, (low, high)) < (
            _first(groups[-2], places, gap, (low, high)) + gap * len(groups[-2])
        ):
            last = groups.pop()
            groups[-1] += last
    found = [0.0] * len(places)
    for group in groups:
        first = _first(group, places, gap, (low, high))
        for step, i in enumerate(group):
            found[i] = first + step * gap
    return found


def _first(
    group: Sequence[int], places: Sequence[float], gap: float, ends: tuple[float, float]
) -> float:
    """Return where the first of a group stands."""
    reach = gap * (len(group) - 1)
    middle = sum(places[i] for i in group) / len(group)
    return max(ends[0], min(middle - reach / 2, ends[1] - reach))
