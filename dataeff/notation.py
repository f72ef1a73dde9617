"""The notation `name[key=value]+name`: the label on the leaderboard is the thing you type."""

import re
from dataclasses import dataclass, field
from typing import Any

from dataeff.errors import DataeffError
from dataeff.printable import shortened, unseen

FREE = "?"
"""Written for the value that a suite is to find by itself."""

LONGEST = 10_000
"""Letters that a text in this notation may have."""

# What has matched is not given back: else a long text that cannot be read would take for ever.
_PART = re.compile(
    r"\s*+(?P<name>[^\[\]+=,\s]++)\s*+(\[(?P<params>(\"[^\"]*+\"|[^\]\"])*+)\])?\s*+"
)
_PARAM = re.compile(
    r"\s*+(?P<key>\w++)\s*+=\s*+(\"(?P<quoted>[^\"]*+)\"\s*+|(?P<plain>[^,\"]*+))(,|\Z)"
)


@dataclass(frozen=True)
class Part:
    """One `name[key=value]`, as typed: values are still text."""

    name: str
    params: dict[str, Any] = field(default_factory=dict)


def parse(text: str) -> list[Part]:
    """Read `a[x=1]+b` into its parts, in the order written."""
    _check(text)
    parts, at = [], 0
    while match := _PART.match(text, at):
        parts.append(Part(match["name"], _parse_params(match["params"] or "", text)))
        at = match.end()
        if at == len(text):
            return parts
        if text[at] != "+":
            break
        at += 1
    raise DataeffError(
        f"Cannot read {text!r} at position {at}; "
        "write name, name[key=value,key=value] or name+name."
    )


def _check(text: str) -> None:
    """Refuse what no label of a table may hold."""
    if len(text) > LONGEST:
        raise DataeffError(
            f"{shortened(text, 40)!r} has {len(text)} letters; write {LONGEST} at most."
        )
    if sign := unseen(text):
        raise DataeffError(
            f"{text!r} holds the character {sign}, which cannot be seen; write it without that."
        )


def parse_one(text: str) -> Part:
    """Read a text that must hold exactly one part, such as a dataset."""
    parts = parse(text)
    if len(parts) != 1:
        raise DataeffError(f"{text!r} names {len(parts)} things; only strategies combine with '+'.")
    return parts[0]


def split_parts(text: str) -> list[str]:
    """Split `a[x=1]+b` into the texts of its parts; what cannot be read is one part."""
    try:
        return [format_part(part.name, part.params) for part in parse(text)]
    except DataeffError:
        return [text] if text else []


def pattern_of(label: str) -> str:
    """Return what a strategy is with any numbers: `name[share=?]`."""
    return re.sub(r"(?<==)[\d.]+(?=[,\]])", FREE, label)


def is_open(label: str) -> bool:
    """Say whether a label, in canonical form, has a value that is still to be found."""
    return bool(re.search(r"=\?[,\]]", label))


def _parse_params(text: str, whole: str) -> dict[str, str]:
    params, at = {}, 0
    while at < len(text):
        match = _PARAM.match(text, at)
        if not match or match["key"] in params:
            reason = f"{match['key']} is given twice" if match else "write [key=value,key=value]"
            raise DataeffError(f"Cannot read the parameters of {whole!r}: {reason}.")
        quoted, plain = match["quoted"], match["plain"]
        params[match["key"]] = plain.strip() if quoted is None else quoted
        at = match.end()
    return params


def format_value(value: Any) -> str:
    """Print a parameter the way it is typed."""
    if isinstance(value, bool) or value is None:
        return str(value).lower()
    if isinstance(value, float):
        return repr(value).removesuffix(".0")
    text = str(value)
    return f'"{text}"' if re.search(r"[,\[\]\s]", text) or text == "" else text


def format_part(name: str, values: dict[str, Any]) -> str:
    """Print `name[key=value,...]`, or the bare name where there are no values."""
    inner = ",".join(f"{key}={format_value(value)}" for key, value in values.items())
    return f"{name}[{inner}]" if inner else name
