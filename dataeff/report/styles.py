"""Styles: how strategies are drawn and called, the same on the page, in plots and on cards."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from dataeff.errors import DataeffError
from dataeff.notation import format_part, parse, split_parts

COLOURS = {
    "ink": "#17191c",
    "c1": "#0072b2",
    "c2": "#d55e00",
    "c3": "#009e73",
    "c4": "#cc79a7",
    "c5": "#e69f00",
    "c6": "#56b4e9",
}
"""Colours by name, as on white: Okabe and Ito's, which the colour-blind tell apart."""
SYMBOLS = {
    "circle": "o",
    "square": "s",
    "diamond": "D",
    "triangle-up": "^",
    "cross": "P",
    "triangle-down": "v",
    "x": "X",
    "star": "*",
}
"""Symbols by name, and what matplotlib calls them."""
DASHES = ("solid", "dash", "dashdot", "longdash", "longdashdot")

# Six colours and seven shapes have no common divisor: 42 styles before one comes again.
_COLOURS, _SYMBOLS = list(COLOURS)[1:], list(SYMBOLS)[1:]


class Style(NamedTuple):
    """How one strategy is drawn everywhere; `key` tells it from others on a page.

    Symbols of controls are open.
    """

    key: int
    colour: str
    symbol: str
    dash: str
    is_open: bool = False

    @property
    def hex(self) -> str:
        """Return the colour as on white."""
        return COLOURS[self.colour]


Styles = Mapping[str, Style]


def styles(strategies: Iterable[str], reference: str, controls: Iterable[str]) -> dict[str, Style]:
    """Give every strategy a style; the reference is neutral, controls are open and dotted."""
    given, yardsticks = {reference: Style(0, "ink", "circle", "solid")}, set(controls)
    others = [name for name in dict.fromkeys(strategies) if name != reference]
    for place, name in enumerate(others):
        colour, symbol = _COLOURS[place % len(_COLOURS)], _SYMBOLS[place % len(_SYMBOLS)]
        is_open = name in yardsticks
        dash = "dot" if is_open else DASHES[place % len(DASHES)]
        given[name] = Style(place + 1, colour, symbol, dash, is_open)
    return given


def styles_of(suite: Mapping[str, Any], table: Any) -> dict[str, Style]:
    """Return the style of each strategy of a suite and of its table.

    They go by the order of the suite, which no result changes.
    """
    controls = table.loc[table["control"].astype(bool), "strategy"]
    names = [*suite["strategies"], *sorted(table["strategy"])]
    return styles(names, suite["reference"], controls)


def label_of(suite: Mapping[str, Any], strategy: str) -> str:
    """Return the short name that a suite gives a strategy, or else its name."""
    return str((suite.get("names") or {}).get(strategy, strategy))


def labels_of(suite: Mapping[str, Any], strategies: Iterable[str]) -> dict[str, str]:
    """Return what strategies are called where there is little room.

    Who has no short name goes by its name without the parameters that tell it from no other one.
    """
    names, alike = list(dict.fromkeys(strategies)), defaultdict(list)
    for name in names:
        alike["+".join(parts_of(name))].append(name)
    told = {name: label for group in alike.values() for name, label in _told_apart(group).items()}
    given = {name: label_of(suite, name) for name in names}
    labels = {name: told[name] if given[name] == name else given[name] for name in names}
    # A short name may be what another one is called without its parameters.
    known = Counter(labels.values())
    return {name: label if known[label] == 1 else given[name] for name, label in labels.items()}


def parts_of(strategy: str) -> list[str]:
    """Return the names of what a strategy is composed of, without their parameters."""
    return [part.partition("[")[0] for part in split_parts(strategy)]


def _told_apart(names: Sequence[str]) -> dict[str, str]:
    """Return the names of compositions of the same parts without the parameters that all share."""
    try:
        read = [parse(name) for name in names]
    except DataeffError:
        return {name: name for name in names}
    shared = [
        set.intersection(*(set(part.params.items()) for part in parts))
        for parts in zip(*read, strict=True)
    ]
    return {
        name: "+".join(
            format_part(part.name, dict(x for x in part.params.items() if x not in common))
            for part, common in zip(parts, shared, strict=True)
        )
        for name, parts in zip(names, read, strict=True)
    }
