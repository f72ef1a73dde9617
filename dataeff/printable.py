"""Texts of others: made so that none acts on a terminal or on a spreadsheet."""

import re
import unicodedata
from collections.abc import Iterable, Sequence
from itertools import zip_longest

# Control, format (bidirectional and zero-width among them), surrogate, unknown and private
# characters; line ends.
_UNSEEN = ("Cc", "Cf", "Cs", "Cn", "Co", "Zl", "Zp")
# With one of these at its start, and more behind it, a spreadsheet takes a cell for a formula.
_FORMULA = re.compile(r"'*[=+\-@\t\r\n＝＋－＠].", re.DOTALL)


def printable(text: str, lines: bool = False) -> str:
    r"""Return a text with what cannot be seen written out, an escape as `\x1b`; `lines` stay."""
    if text.isprintable():
        return text
    return "".join(
        _written(sign) if _is_unseen(sign) and not (lines and sign in "\n\t") else sign
        for sign in text
    )


def unseen(text: str) -> str:
    """Return the first character that cannot be seen, by its number; nothing if there is none."""
    if text.isprintable():
        return ""
    return next((f"U+{ord(sign):04X}" for sign in text if _is_unseen(sign)), "")


def _is_unseen(sign: str) -> bool:
    return unicodedata.category(sign) in _UNSEEN


def _written(sign: str) -> str:
    return sign.encode("ascii", "backslashreplace").decode() if sign > "\x7f" else repr(sign)[1:-1]


def shortened(text: str, most: int = 1000) -> str:
    """Return a text without its middle where it is very long: its end says what to type."""
    if len(text) <= most:
        return text
    half = most // 2
    return f"{text[:half]} ... {text[-half:]}"


def fitted(text: str, room: int) -> str:
    """Return a text without its middle where a line has no room: both ends tell names apart."""
    text = printable(text)
    if len(text) <= room:
        return text
    tail = (room - 2) // 2
    return f"{text[: room - 2 - tail]}..{text[len(text) - tail :]}"


def told_apart(texts: Sequence[str], room: int) -> list[str]:
    """Return texts that fit; of those that would look the same, what differs stays."""
    shown = [fitted(text, room) for text in texts]
    made = []
    for text, short in zip(texts, shown, strict=True):
        alike = {other for other, look in zip(texts, shown, strict=True) if look == short}
        made.append(_around(text, _same(alike), room) if len(alike) > 1 else short)
    return made


def _same(texts: Iterable[str]) -> int:
    """Return how many letters texts begin with alike."""
    letters = enumerate(zip_longest(*texts))
    return next(place for place, signs in letters if len(set(signs)) > 1)


def _around(text: str, place: int, room: int) -> str:
    """Return the start of a text, and what stands at a place, from the parameter on it is in."""
    head = room // 3
    left = room - head - 4
    begins = max(text.rfind(sign, 0, place) for sign in "[,+") + 1
    start = max(begins, place - left + 2)
    if start <= head:
        return printable(f"{text[: room - 2]}..")
    rest = text[start : start + left]
    end = ".." if start + len(rest) < len(text) else ""
    return printable(f"{text[:head]}..{rest}{end}")


# Cells of a table that is written as CSV --------------------------------------------------------


def harmless(cell: object) -> object:
    """Return a cell that no spreadsheet takes for a formula: such a text gets a quote before it."""
    if not isinstance(cell, str) or not _FORMULA.match(cell) or _is_number(cell):
        return cell
    return f"'{cell}"


def as_was(cell: object) -> object:
    """Return a cell as it was before `harmless`."""
    if isinstance(cell, str) and cell[:1] == "'" and _FORMULA.match(cell):
        return cell[1:]
    return cell


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
