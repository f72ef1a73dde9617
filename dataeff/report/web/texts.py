"""Texts of the page: escaped, able to break where names are long, never told by colour alone."""

import math
import re
from collections.abc import Iterable
from html import escape

from dataeff.report.frames import Record
from dataeff.report.stats import Interval
from dataeff.report.words import verdict_of
from dataeff.report.worth import BEATS, KEEPS, SAVES, Sure

# A tone has a colour and a shape, so that neither is needed to read it.
_TONES = {
    ("good", "▲"): ("faster and no worse", "faster and better", "confirmed"),
    ("trade", "◆"): ("faster but less accurate", "faster but worse", "slower but better"),
    ("bad", "▼"): (
        *("slower but no worse", "slower and less accurate", "slower and worse", "not confirmed"),
        *("slower, accuracy open", "less accurate, speed open", "worse, speed open"),
        *("less accurate, speed not judged", "worse, speed not judged"),
    ),
    ("open", "●"): (
        *("faster, accuracy open", "better, speed open", "no worse, speed open"),
        *("better, speed not judged", "no worse, speed not judged"),
    ),
}
# What a question comes to where it is answered by yes, where it is open, and by no.
_WORDS = {
    SAVES: ("faster", "time", "slower"),
    KEEPS: ("no worse", "accuracy", "worse"),
    BEATS: ("beats less", "vs less", "beaten"),
}
_QUESTIONS = {
    SAVES: "Saves time",
    KEEPS: "Loses no more than may be lost",
    BEATS: "Beats just training less",
}
_DOTS = {"proven": "●", "likely": "◐", "open": "○"}
LEGEND = " ".join(f"{dot} {word}" for word, dot in _DOTS.items())
"""What dots mean."""


def breakable(text: object) -> str:
    """Escape a text; a long strategy may break between its parts."""
    return re.sub(r"(?<=[,+_])(?=[a-z])|(?<=\w)(?=\[)", "<wbr>", escape(str(text)))


def lines(texts: Iterable[str], kind: str = "") -> str:
    """Return a paragraph for each text that says anything."""
    css = f' class="{kind}"' if kind else ""
    return "".join(f"<p{css}>{breakable(text)}</p>" for text in texts if text)


def folded(anchor: str, summary: str, *inside: str) -> str:
    """Return what is shown after a click; nothing where there is nothing."""
    body = "".join(inside)
    if not body:
        return ""
    return f'<details id="{anchor}"><summary>{escape(summary)}</summary>{body}</details>'


def command(text: str) -> str:
    """Return a command with a button that copies it."""
    return (
        f'<div class="command"><pre tabindex="0">{escape(text)}</pre>'
        '<button type="button" data-copy>Copy</button></div>'
    )


def verdict(line: Record) -> str:
    """Return the verdict of a line, with its shape; what has no runs says so."""
    return toned(verdict_of(line) or ("no verdict" if line["n"] else "no finished run yet"))


def toned(text: str) -> str:
    """Return what is said of a strategy, with the shape and the colour of its tone."""
    found = (tone for tone, texts in _TONES.items() if text in texts)
    tone, shape = next(found, ("open", "○"))
    return f'<span class="verdict {tone}"><i aria-hidden="true">{shape}</i> {escape(text)}</span>'


def evidence(line: Record) -> str:
    """Return in dots and words how sure the questions of a method are answered."""
    told = [_dot(question, line[question]) for question in _WORDS if line[question]]
    return "".join(told) or escape(verdict_of(line) or "–")


def _dot(question: str, sure: str) -> str:
    yes, unknown, no = _WORDS[question]
    kind, is_no = sure.removesuffix(" not"), sure.endswith(" not")
    word = unknown if kind == Sure.OPEN.word else no if is_no else yes
    tone = "open" if kind == Sure.OPEN.word else "bad" if is_no else "good"
    return (
        f'<span class="dot {tone}"><i aria-hidden="true">{_DOTS[kind]}</i>'
        f'<span class="unseen">{kind}: </span>{word}</span>'
    )


def questions(line: Record) -> str:
    """Return each question of a method in words, and how sure it is answered."""
    asked = [
        f"<li>{text}: <b>{escape(line[question])}</b></li>"
        for question, text in _QUESTIONS.items()
        if line[question]
    ]
    return f'<ul class="asked">{"".join(asked)}</ul>' if asked else ""


def figure(found: Interval, form: str, unit: str = "") -> str:
    """Return a number with its interval below it, in the signs of a page."""
    if not math.isfinite(found.mean):
        return "–"
    ends = [_end(end, form) for end in found[1:]]
    if all(math.isinf(end) for end in found[1:]) or math.isnan(found.low):
        return _end(found.mean, form) + unit
    if math.isinf(found.low):
        reach = f"at most {ends[1]}"
    elif math.isinf(found.high):
        reach = f"at least {ends[0]}"
    else:
        reach = f"{ends[0]}..{ends[1]}"
    return f"{_end(found.mean, form)}{unit}<small>{reach}</small>"


def _end(value: float, form: str) -> str:
    return format(value, form).replace("-", "−")
