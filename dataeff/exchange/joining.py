"""Joining: what two folders of one suite say beside their cells, as one."""

import shlex
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from dataeff.checked import Form, read_checked, read_entries, write_checked, write_entries
from dataeff.errors import DataeffError
from dataeff.forms import BUDGETS, LOOKS, MATCHES, SUITE, VERIFIED
from dataeff.report.doubts import NAME as FOUND
from dataeff.seeds import looks_at, stages

Record = dict[str, Any]

_WHAT = {
    "task_ids": "the task {} is another one",
    "data": "the data of {} are others",
    "reference": "the reference is another one",
}
"""What must be equal in two suites, and how it is said that it is not."""
# Lists of which each has a part.
_LISTS = ("strategies", "awaited", "commands")
# By task, strategy and conditions, or by name: the first to have said it is right.
_TABLES = ("counts", "sources", "names", "conditions", "networks")


def check_same(into: Path, ours: Mapping[str, Any], source: Path, theirs: Record) -> None:
    """Refuse two folders that do not hold results of one suite; it is said what differs."""
    for key, what in _WHAT.items():
        one, other = ours.get(key), theirs.get(key)
        if one == other:
            continue
        named = _differs(one or {}, other or {}) if key != "reference" else ""
        more = f" ({other} instead of {one})" if key == "reference" else ""
        raise DataeffError(
            f"{into} and {source} hold results of different suites: {what.format(named)} in "
            f"{source}{more}; run both with one version of the suite, or name another INTO."
        )


def _differs(one: Mapping[str, Any], other: Mapping[str, Any]) -> str:
    """Return the first name under which two say different things."""
    return next(name for name in [*one, *other] if one.get(name) != other.get(name))


def joined(ours: Record, theirs: Record) -> Record:
    """Return what was asked for in two folders; where they differ, the first is right.

    Lanes and their calibration are those of the first: they are of a machine. Nothing changes where
    the second has been joined before.
    """
    suite = dict(ours)
    for key in _LISTS:
        suite[key] = list(dict.fromkeys([*ours.get(key, ()), *theirs.get(key, ())]))
    for key in _TABLES:
        suite[key] = _filled(ours.get(key) or {}, theirs.get(key) or {})
    for key in ("match", "line"):
        suite[key] = ours.get(key) or theirs.get(key)
    plans, others = ours.get("unplanned", {}), theirs.get("unplanned", {})
    # What one of them has found is found.
    suite["unplanned"] = {
        task: [text for text in told if text in others.get(task, told)]
        for task, told in plans.items()
    }
    suite["seeds"] = _seeds(ours["seeds"], theirs["seeds"])
    if suite["seeds"] != ours["seeds"]:
        suite["command"] = _with(theirs.get("command", ""), "--seeds", str(suite["seeds"]))
    return {key: value for key, value in suite.items() if value is not None or key in ours}


def _filled(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> Record:
    """Return a table with what the other one has beside it, at any depth."""
    found = dict(ours)
    for name, value in theirs.items():
        if isinstance(found.get(name), Mapping) and isinstance(value, Mapping):
            found[name] = _filled(found[name], value)
        else:
            found.setdefault(name, value)
    return found


def _seeds(ours: int | str, theirs: int | str) -> int | str:
    """Return what was asked for in seeds: two ranges become one, a plan counts more than a range.

    Of two plans the first stays, unless both are numbers: then it is the larger.
    """
    if isinstance(ours, int) and isinstance(theirs, int):
        return max(ours, theirs)
    if looks_at(ours):
        return ours
    if looks_at(theirs):
        return theirs
    (one,), (other,) = stages(ours), stages(theirs)
    return f"{min(one.start, other.start)}-{max(one.stop, other.stop) - 1}"


def _with(command: str, option: str, value: str) -> str:
    """Return a command with another value of an option; as it is, where it does not have that."""
    words = shlex.split(command)
    for place, word in enumerate(words):
        if word == option and place + 1 < len(words):
            words[place + 1] = value
        elif word.startswith(f"{option}="):
            words[place] = f"{option}={value}"
    return shlex.join(words)


def _here(command: str, into: Path) -> str:
    """Return a command that fills this folder: it was typed where the results were another's."""
    results = str(into.parent)
    if command and "--results" not in command and results != "results":
        return f"{command} --results {shlex.quote(results)}"
    return _with(command, "--results", results)


# On disk -----------------------------------------------------------------------------------------


def write_joined(into: Path, source: Path, theirs: Record) -> list[str]:
    """Write what both say beside their cells; return sentences on what cannot be had of both."""
    ours = read_checked(into / "suite.json", SUITE)
    suite = joined(ours, theirs) if ours else dict(theirs)
    command = suite.get("command", "")
    if command != (ours or {}).get("command", ""):
        suite["command"] = _here(command, into)
    _write(into / "suite.json", ours, suite, SUITE)
    _add(into, source, ("match.json", MATCHES), ("task", "conditions_id", "pattern", "match"))
    _add(into, source, ("looks.json", LOOKS), ("task", "conditions", "about", "n", "of"))
    lines = [read_entries(folder / "line.json", BUDGETS) for folder in (into, source)]
    _add(into, source, ("line.json", BUDGETS), ("task", "conditions"))
    return _told_of_line(*lines)


def _write(path: Path, before: Record | None, now: Record, form: Form) -> None:
    if before != now:
        write_checked(path, now, form)


def _add(into: Path, source: Path, file: tuple[str, Form], keys: tuple[str, ...]) -> None:
    """Add the entries that are not there under the same keys."""
    name, form = file
    ours, theirs = (read_entries(folder / name, form) for folder in (into, source))
    known = {tuple(entry[key] for key in keys) for entry in ours}
    more = [entry for entry in theirs if tuple(entry[key] for key in keys) not in known]
    if more:
        write_entries(into / name, [*ours, *more], form)


def _told_of_line(ours: list[Record], theirs: list[Record]) -> list[str]:
    """Say where the line was run at other budgets: the table has the points of both."""
    chosen = {(entry["task"], entry["conditions"]): entry["budgets"] for entry in ours}
    said = []
    for entry in theirs:
        here = chosen.get((entry["task"], entry["conditions"]))
        if here is None or here == entry["budgets"]:
            continue
        told = [", ".join(f"{share:g}" for share in one) for one in (here, entry["budgets"])]
        said.append(
            f"{entry['task']}: the line was run at other shares of the time there ({told[1]}, not "
            f"{told[0]}), so its points have fewer seeds; merge after the first seed, and both go "
            "by one line."
        )
    return said


def add_findings(into: Path, source: Path, checksums: Iterable[str]) -> None:
    """Take along what `dataeff verify` has found against records; what it has confirmed is not.

    That was by another key, or is to be found anew.
    """
    wanted = set(checksums)
    ours, theirs = (read_entries(folder / FOUND, VERIFIED) for folder in (into, source))
    known = {entry.get("checksum") for entry in ours}
    more = [
        entry
        for entry in theirs
        if entry.get("checksum") in wanted - known and entry["outcome"] == "does not verify"
    ]
    if more:
        write_entries(into / FOUND, [*ours, *more], VERIFIED)
