"""Missing: what was asked for and has not ended; how long that takes, and what to type."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from dataeff.notation import pattern_of
from dataeff.plural import counted
from dataeff.report.frames import KEYS, Key, Record
from dataeff.report.judge import Judged
from dataeff.report.looks import next_look, seeds_shown
from dataeff.report.price import command_of, lanes_of, lasting, taken
from dataeff.report.questions import planned
from dataeff.report.words import listed
from dataeff.seeds import AUTO, LOOKS, stages

# Tables that are named one by one.
_TABLES = 3


class Missing(NamedTuple):
    """What is missing of one table: `cells` have not ended, `of` so many that were asked for.

    Where seeds go on until all is settled, it is what the `look` at so many seeds waits for. The
    cells of what is `unplanned` come on top: nobody knows them before others have ended. `seconds`
    are those until all that is known has run, NaN before anything has ended; `command` does it.
    """

    key: Key
    cells: int
    of: int
    look: int | None
    unplanned: list[str]
    seconds: float
    command: str

    def numbers(self) -> Record:
        """Return all of it for programs."""
        return dict(zip(KEYS, self.key, strict=True)) | {
            name: value for name, value in self._asdict().items() if name != "key"
        }


def missing(suite: Mapping[str, Any], judged: Iterable[Judged]) -> list[Missing]:
    """Return what is missing of each table that the last command fills, where anything is.

    What has failed has ended, and what is settled is not asked for.
    """
    there = {one.table.key: one for one in judged}
    # Results of version 0.1.0 and before do not say where they were asked for.
    keys = suite.get("conditions", {}).items()
    found = (_of_table(suite, key, there.get(key)) for key in keys)
    return [one for one in found if one.cells]


def _of_table(suite: Mapping[str, Any], key: Key, judged: Judged | None) -> Missing:
    look, asked = _asked(suite, key, judged)
    lines = judged.table.group[["strategy", "seed"]].itertuples(index=False) if judged else ()
    left = Counter(name for name, _ in asked - set(map(tuple, lines)))
    return Missing(
        key=key,
        cells=left.total(),
        of=len(asked),
        look=look,
        unplanned=_unplanned(suite, key[0]),
        seconds=_seconds(left, judged),
        command=command_of(suite),
    )


def _asked(
    suite: Mapping[str, Any], key: Key, judged: Judged | None
) -> tuple[int | None, set[tuple[str, int]]]:
    """Return at how many seeds there is a look that waits, and the cells that were asked for."""
    known = planned(suite, key) or []
    names = [name for name in suite.get("awaited", suite["strategies"]) if name in known]
    line = _line(suite, known) if suite.get("controls", True) else []
    look, seeds = None, stages(suite["seeds"])[0]
    if suite["seeds"] == AUTO and judged:
        look, names = _under_way(judged, names)
        seeds = range(look)
    elif suite["seeds"] == AUTO:
        look = seeds.stop
    return look, {(name, seed) for name in [*names, *line] for seed in seeds}


def _unplanned(suite: Mapping[str, Any], task: str) -> list[str]:
    """Return what comes on top of a task's cells, the line as one."""
    kinds, told = suite.get("line") or [], suite.get("unplanned", {}).get(task, [])
    return list(dict.fromkeys("the line" if text in kinds else text for text in told))


def _line(suite: Mapping[str, Any], known: Iterable[str]) -> list[str]:
    """Return who is on the line: it is run for as long as anybody."""
    kinds, methods = suite.get("line") or [], suite["strategies"]
    return [name for name in known if name not in methods and pattern_of(name) in kinds]


def _under_way(judged: Judged, names: list[str]) -> tuple[int, list[str]]:
    """Return at how many seeds the next look is, or the last was, and who of these runs for it."""
    suite, coming = judged.table.suite, next_look(judged.table, judged.looks)
    if not judged.against or (coming and coming.n == LOOKS[0]):
        return LOOKS[0], names
    if coming:
        with_them = (suite["reference"], suite.get("match"))
        return coming.n, [name for name in names if name in (*coming.going, *with_them)]
    return int(seeds_shown(judged.looks, judged.table.key)), [suite["reference"]]


def _seconds(left: Mapping[str, int], judged: Judged | None) -> float:
    """Return how long so many cells of each take, by those that have finished."""
    cells = judged.table.whole.cells if judged else None
    if cells is None or (known := taken(cells)).empty:
        return math.nan
    usual = float(known.mean())
    spent = sum(count * float(known.get(name, usual)) for name, count in left.items())
    return spent / lanes_of(cells)


# Saying it ---------------------------------------------------------------------------------------


def still_missing(found: Iterable[Missing]) -> str:
    """Say what is missing of these tables, for how long, and what to type; nothing if it is none.

    All are of one suite, and so of one command.
    """
    if not (tables := list(found)):
        return ""
    if len(tables) == 1:
        what = _counts(tables[0], " cells missing")
    else:
        cells, of = sum(one.cells for one in tables), sum(one.of for one in tables)
        named = [f"{one.key[0]}: {_counts(one)}" for one in tables[:_TABLES]]
        if more := len(tables) - len(named):
            named.append(f"{counted(more, 'table')} more")
        what = f"{cells} of {of} cells missing ({'; '.join(named)})"
    told = ", ".join(filter(None, [what, _long(tables)]))
    return f"{told}: {tables[0].command}"


def _counts(one: Missing, what: str = "") -> str:
    """Say how many cells are missing of one table, and what for."""
    told = f"{one.cells} of {one.of}{what}"
    if one.look:
        told += f" for the look at {one.look} seeds"
    return f"{told}, beside those of {listed(one.unplanned)}" if one.unplanned else told


def _long(tables: Iterable[Missing]) -> str:
    """Say how long it takes, or at least: nothing is known of tables that have not begun."""
    known = [one.seconds for one in tables]
    whole = not any(math.isnan(seconds) for seconds in known)
    seconds = sum(seconds for seconds in known if not math.isnan(seconds))
    if not whole and seconds < 60:
        return ""
    return lasting(seconds, "about" if whole else "at least")
