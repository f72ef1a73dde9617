"""Merging: results of several machines in one folder, where tables are made of all of them.

Nothing is written before it is known that all are of the same suites. Each file appears whole, the
record of a cell after all else of it: who is interrupted merges again, and who merges twice changes
nothing.
"""

import os
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from dataeff.bench.results import BOOKS, read_runs
from dataeff.checked import read_checked, read_whole
from dataeff.damage import Damaged
from dataeff.errors import DataeffError
from dataeff.exchange.carrying import Sealed, carry, sum_of
from dataeff.exchange.joining import add_findings, check_same, write_joined
from dataeff.files import CHECKPOINTS, locked, read_bytes, slug, write_bytes
from dataeff.forms import ARTEFACT, SUITE
from dataeff.names import check_suite_name
from dataeff.plural import counted
from dataeff.report.read import read_suite

Show = Callable[[str], None]
"""Is told what is being merged."""


class Pair(NamedTuple):
    """The folder of a suite, and that into which it is merged."""

    target: Path
    source: Path
    asked: dict[str, Any]


@dataclass
class Merged:
    """What has become of the cells of a suite: how many of each outcome; and what there is to say.

    `refused` are sentences on cells that were not taken, `notes` on all else.
    """

    target: Path
    cells: Counter[str] = field(default_factory=Counter)
    refused: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def has_suite(folder: Path) -> bool:
    """Say whether a folder is that of a suite."""
    return any(os.path.lexists(folder / name) for name in ("suite.json", "suite.json.copy"))


def pairs_of(into: Path, sources: Sequence[Path]) -> list[Pair]:
    """Return what is merged into what; refuse what does not belong together.

    INTO is the folder of a suite if it has a suite.json, or is to be one of the name of the only
    suite that there is; otherwise it holds the folders of suites.
    """
    found = [suite for source in sources for suite in _suites(source)]
    asked = [read_suite(suite) for suite in found]
    names = {str(one["name"]) for one in asked}
    for name in names:
        check_suite_name(name)
    one = has_suite(into) or (
        not into.exists() and names == {into.name} and not _hold_suites(sources)
    )
    if has_suite(into) and _hold_suites(sources):
        raise DataeffError(
            f"{into} is the folder of one suite; name the folders of that suite to merge into it, "
            f"or merge into {into.parent}."
        )
    targets = [into if one else into / str(suite["name"]) for suite in asked]
    pairs = [Pair(*three) for three in zip(targets, found, asked, strict=True)]
    first: dict[Path, tuple[Path, Any]] = {}
    for target, source, suite in pairs:
        if target.exists() and source.exists() and target.samefile(source):
            raise DataeffError(f"{source} is where it would be merged into; leave it out.")
        if target not in first:
            ours = read_checked(target / "suite.json", SUITE) if has_suite(target) else None
            first[target] = (target, ours) if ours else (source, suite)
        check_same(*first[target], source, suite)
    return pairs


def _suites(folder: Path) -> list[Path]:
    if not folder.is_dir():
        raise DataeffError(f"There is no folder {folder}; name one that holds results of suites.")
    if has_suite(folder):
        return [folder]
    found = sorted({path.parent for path in folder.glob("*/suite.json*") if has_suite(path.parent)})
    if not found:
        raise DataeffError(
            f"There are no results in {folder}; name the folder of a suite, or one of such folders."
        )
    return found


def _hold_suites(sources: Iterable[Path]) -> bool:
    return not all(map(has_suite, sources))


def merge(pair: Pair, show: Show) -> Merged:
    """Merge a suite into another folder of it."""
    target, source, asked = pair
    records = {record["folder"]: record for record in read_runs(source)}
    done = Merged(target)
    if not records:
        done.notes.append(f"{source} holds no cells, so there is nothing to merge of it.")
        return done
    target.mkdir(parents=True, exist_ok=True)
    with locked(target / "merging", fleeting=True) as mine:
        if not mine:
            raise DataeffError(f"Another command merges into {target}; type this again later.")
        done.notes += write_joined(target, source, asked)
        _carry_all(pair, records, done, show)
    return done


def _carry_all(pair: Pair, records: dict[str, Any], done: Merged, show: Show) -> None:
    target, source, _ = pair
    sealed, sums = Sealed(source, records), []
    for number, (name, record) in enumerate(records.items(), 1):
        show(f"{target.name}: cell {number} of {len(records)}")
        _carry_artefacts(record, source.parent / "artefacts", target.parent / "artefacts")
        found = carry(source / name, target / name, sealed)
        done.cells[found.outcome] += 1
        if found.why:
            done.refused.append(found.why)
        else:
            sums.append(sum_of(record))
    add_findings(target, source, sums)
    if waiting := _unfinished(source, records):
        said = counted(waiting, "cell has not ended, and stays", "cells have not ended, and stay")
        done.notes.append(f"{source}: {said} there.")
    if left := done.cells["left"]:
        done.notes.append(f"{source}: {counted(left, 'cell is', 'cells are')} damaged.")


def _unfinished(suite: Path, ended: Collection[str]) -> int:
    """Return how many cells of a suite have begun and not ended."""
    begun = {path.parent.name for name in (BOOKS, *CHECKPOINTS) for path in suite.glob(f"*/{name}")}
    return len(begun - set(ended))


def _carry_artefacts(record: dict[str, Any], source: Path, target: Path) -> None:
    """Bring the scores that a cell has used, so that later cells need not make them anew."""
    for part in record.get("artefacts") or ():
        if not re.fullmatch(r"[0-9a-f]+", part["key"]):
            continue
        said, scores = (
            f"{slug(part['name'])}-{part['key']}.{kind}" for kind in ("json", "parquet")
        )
        if (target / said).exists() or (told := read_checked(source / said, ARTEFACT)) is None:
            continue
        try:
            content = read_whole(source / scores, told.get("files", {}).get(scores))
        except Damaged:
            continue
        if content is not None:
            write_bytes(target / scores, content)
            write_bytes(target / said, read_bytes(source / said))
