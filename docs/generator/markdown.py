"""How tables and code are written in Markdown."""

from collections.abc import Iterable, Sequence


def table(header: Sequence[str], lines: Iterable[Sequence[str]], right: Iterable[str] = ()) -> str:
    """Return a table; columns named in `right` are numbers. No cell may hold a bar."""
    rule = "|".join("---:" if name in set(right) else "---" for name in header)
    body = [f"| {' | '.join(line)} |" for line in lines]
    return "\n".join([f"| {' | '.join(header)} |", f"|{rule}|", *body])


def fenced(text: str, language: str = "") -> str:
    """Return a block of code."""
    return f"```{language}\n{text}\n```"


def code(text: str) -> str:
    """Return a text as code within a line; nothing where there is none.

    How a bar is written in a table depends on who reads it, so there is none: `a|b` is `a, b`.
    """
    bare = text.replace(" | ", " or ").replace("|", ", ")
    return f"`{bare}`" if text else ""
