"""Strategies by name: which one of those that were run a text means, from the results alone."""

import math
from collections.abc import Mapping
from typing import Any

from dataeff.errors import DataeffError, UnknownName, did_you_mean
from dataeff.notation import Part, format_value, parse, split_parts

Parameters = Mapping[str, Mapping[str, Any]]
"""What a run was recorded with: every parameter of every part, defaults included."""


def strategy_named(text: str, known: Mapping[str, Parameters], suite: str) -> str:
    """Return a strategy as the results spell it, from any spelling of it."""
    if text in known:
        return text
    meant = [name for name, recorded in known.items() if _is_meant(text, name, recorded)]
    if len(meant) == 1:
        return meant[0]
    # The same parts in another order, or with other parameters, are closer than similar letters.
    same = meant or [
        name for name in known if sorted(split_parts(name)) == sorted(split_parts(text))
    ]
    same = same or [name for name in known if _bare(name) == _bare(text)]
    hint = f" Did you mean {' or '.join(same[:3])}?" if same else did_you_mean(text, known)
    hint = hint or did_you_mean(_bare(text), {_bare(name) for name in known})
    raise UnknownName(
        f"{text} was not run in {suite}.{hint or f' See what was: dataeff leaderboard {suite}'}"
    )


def _bare(text: str) -> str:
    return "+".join(sorted(part.split("[")[0] for part in split_parts(text)))


def _is_meant(text: str, name: str, recorded: Parameters) -> bool:
    """Say whether a text is the composition of this name, part by part."""
    try:
        asked, there = parse(text), parse(name)
    except DataeffError:
        # Results outlive the plugins that made them, and the rules for names.
        return False
    return len(asked) == len(there) and all(
        _same(*pair, recorded) for pair in zip(asked, there, strict=True)
    )


def _same(asked: Part, there: Part, recorded: Parameters) -> bool:
    values = {**there.params, **recorded.get(there.name, {})}
    given = all(key in values and _equal(text, values[key]) for key, text in asked.params.items())
    # A name shows what is not the default, and shares always: one left out may be the default.
    left_out = there.params.keys() - asked.params.keys()
    shares = all(0 < _number(there.params[key]) <= 1 for key in left_out)
    return asked.name == there.name and given and shares


def _equal(text: str, value: Any) -> bool:
    return text.lower() == format_value(value).lower() or _number(text) == _number(str(value))


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan
