"""TeX: texts and numbers as LaTeX prints them, and how wide they become."""

import re

# Points of a letter in footnotesize, by those that have about as many; of all others, and of what
# stands small above or below the line.
_POINTS = {
    "mwMW@%&": 8.2,
    "+=<>\N{MINUS SIGN}": 6.7,
    "0123456789": 4.3,
    "ce": 4.0,
    "rs": 3.6,
    "iljtfI.,:;!|'()[]{}-`": 3.1,
}
_LETTER, _CAPITAL, _SCRIPT = 4.6, 6.3, 0.87

_SPECIAL = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "±": r"$\pm$",
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
    # In brackets of their own: LaTeX would take them for an option, a star or a quotation mark.
    **{sign: f"{{{sign}}}" for sign in "[]*\"'`"},
}
_IN_MATHS = {"%": r"\%", ",": "{,}", "x": r"\times "}
# Behind these a name may be broken; elsewhere only where it does not fit otherwise.
_PIECES = re.compile(r"\s+|[^\s\[,=+_\-/:]*[\[,=+_\-/:]?")
_BREAK, _FORCED = r"\allowbreak{}", r"\penalty5000{}"


def escape(text: str) -> str:
    """Return a text that LaTeX prints as it is, on one line."""
    told = "".join(_SPECIAL.get(sign, sign) for sign in re.sub(r"\s+", " ", text))
    # Two of these would be printed as one that is longer.
    return re.sub("-(?=-)", "-{}", told)


def breakable(text: str, room: float) -> str:
    """Return a text that may be broken behind its parts, so that nothing is wider than this."""
    pieces = filter(None, _PIECES.findall(re.sub(r"\s+", " ", text)))
    told = [_piece(piece, room) for piece in pieces]
    return _BREAK.join(told).replace(f" {_BREAK}", " ").replace(f"{_BREAK} ", " ")


def _piece(piece: str, room: float) -> str:
    if width(piece) <= room:
        return escape(piece)
    return _FORCED.join(escape(sign) for sign in piece)


def width(text: str) -> float:
    """Return about how wide a text is, in points of footnotesize."""
    return sum(_width(sign) for sign in text)


def _width(sign: str) -> float:
    for signs, points in _POINTS.items():
        if sign in signs:
            return points
    return _CAPITAL if sign.isupper() or sign > "\x7f" else _LETTER


def maths(mean: str, low: str = "", high: str = "") -> str:
    """Return a number, and small below and above it where its interval begins and ends."""
    limits = (f"_{{{_signs(low)}}}" if low else "") + (f"^{{{_signs(high)}}}" if high else "")
    return f"${_signs(mean)}{limits}$"


def _signs(text: str) -> str:
    return "".join(_IN_MATHS.get(sign, sign) for sign in text)


def maths_width(mean: str, low: str = "", high: str = "") -> float:
    """Return about how wide that is."""
    small = max(width(text.replace("-", "\N{MINUS SIGN}")) for text in (low, high))
    return width(mean.replace("-", "\N{MINUS SIGN}")) + _SCRIPT * small
