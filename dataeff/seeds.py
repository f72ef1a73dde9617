"""Seeds: how many of each cell a suite runs, and at how many its tables are looked at."""

import re

from dataeff.errors import DataeffError

AUTO = "auto"
"""More seeds for what is not settled, look by look."""
LOOKS = (5, 10, 20)
"""Seeds at which a suite that runs until all is settled looks at its tables."""
MOST = 10_000
"""More seeds than this are a slip of the finger."""

Seeds = int | str
"""A number, `auto`, or a range such as `3-5`, both ends included."""


def read_seeds(given: Seeds) -> Seeds:
    """Check what was written for seeds; a number may be a text."""
    text = str(given).strip()
    if text == AUTO:
        return AUTO
    if re.fullmatch(r"[0-9]{1,9}", text) and 1 <= int(text) <= MOST:
        return int(text)
    if (ends := _ends(text)) and ends[0] <= ends[1] <= MOST:
        return text
    raise DataeffError(
        f"{given!r} is no number of seeds; write auto, a number such as 5, or a range such as 3-5."
    )


def _ends(text: str) -> tuple[int, int] | None:
    match = re.fullmatch(r"([0-9]{1,9})-([0-9]{1,9})", text)
    return (int(match[1]), int(match[2])) if match else None


def stages(seeds: Seeds) -> list[range]:
    """Return the seeds to be run, in stages: after each comes a look, but after a range none."""
    if seeds == AUTO:
        return [range(first, last) for first, last in zip((0, *LOOKS), LOOKS, strict=False)]
    if isinstance(seeds, int):
        return [range(seeds)]
    first, last = _ends(seeds) or (0, -1)
    return [range(first, last + 1)]


def looks_at(seeds: Seeds) -> tuple[int, ...]:
    """Return the numbers of seeds at which to look; a range has none."""
    if seeds == AUTO:
        return LOOKS
    return (seeds,) if isinstance(seeds, int) else ()


def in_words(seeds: Seeds) -> str:
    """Return how many seeds there are of each cell."""
    if seeds == AUTO:
        return "seeds until settled"
    if isinstance(seeds, int):
        return "1 seed each" if seeds == 1 else f"{seeds} seeds each"
    return f"seeds {seeds}"
