"""How many of something there are, in words; torch is not needed to say so."""


def counted(number: int, one: str, many: str | None = None) -> str:
    """Return a number and the word for so many: `1 cell`, `3 strategies`, `2 runs were`."""
    if many is None:
        many = f"{one[:-1]}ies" if one.endswith("y") else f"{one}s"
    return f"{number} {one if number == 1 else many}"
