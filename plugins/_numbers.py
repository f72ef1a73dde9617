"""Lines of epochs, as loggers take them."""

import math


def numbers(line):
    """Return what is a number in a line of an epoch, but which epoch it is."""
    known = {name: value for name, value in line.items() if name != "epoch"}
    return {
        name: float(value)
        for name, value in known.items()
        if isinstance(value, int | float) and not math.isnan(value)
    }
