"""What was asked for: suite.json, beside the results, says which of them a table is made from."""

from pathlib import Path
from typing import Any

from dataeff.bench.schedule import Schedule
from dataeff.checked import read_checked, write_checked
from dataeff.forms import SUITE
from dataeff.seeds import looks_at

# Where one of these has changed, what earlier commands left is not to be compared with ours.
_SAME = ("task_ids", "data", "networks", "reference")
_LANES = ("devices", "calibration")


def write_suite(schedule: Schedule, folder: Path, command: str) -> None:
    """Leave what a command asks for, for the leaderboard to read.

    What earlier commands asked for on the same tasks stays: its results are in the table too. Which
    cells count is said by hashes, never by time: of each strategy, those that the last command to
    name it would run. Patterns give way to what they have become, as far as that is known.
    """
    path, suite = folder / "suite.json", schedule.suite
    content: dict[str, Any] = suite.model_dump(mode="json")
    solved = [label for task in suite.tasks for label in schedule.matches.labels(task).values()]
    content["strategies"] = list(dict.fromkeys([*suite.complete, *solved]))
    # A look waits for these; what earlier commands have named has a look when it is complete.
    content["awaited"] = content["strategies"]
    content["task_ids"] = {name: task.id for name, task in suite.tasks.items()}
    content["data"] = {name: scene.data for name, scene in schedule.scenes.items()}
    content["networks"] = {name: scene.network for name, scene in schedule.scenes.items()}
    content["reference"] = suite.reference
    content["commands"] = [command]
    before = read_checked(path, SUITE) or {}
    if any(before.get(key) != content[key] for key in _SAME):
        before = {}
    for key in ("strategies", "commands"):
        content[key] = list(dict.fromkeys([*before.get(key, ()), *content[key]]))
    content["names"] = {**before.get("names", {}), **content["names"]}
    # A range is run beside what was planned: it changes no plan.
    planned = bool(looks_at(suite.seeds))
    content["seeds"] = suite.seeds if planned else before.get("seeds", suite.seeds)
    content["command"] = command if planned else before.get("command", command)
    content["conditions"] = {name: scene.conditions_id for name, scene in schedule.scenes.items()}
    content["unplanned"] = {task: schedule.unplanned(task) for task in suite.tasks}
    content["line"] = schedule.patterns
    content["match"] = content["match"] or before.get("match")
    content |= schedule.devices or {key: before[key] for key in _LANES if key in before}
    content["counts"], content["sources"] = (before.get(key, {}) for key in ("counts", "sources"))
    _decide(content, schedule)
    write_checked(path, content, SUITE)


def _decide(content: dict[str, Any], schedule: Schedule) -> None:
    """Say which version of each strategy counts; of what shares a part that has changed, none."""
    counts, sources = content["counts"], content["sources"]
    now = {part: h for cell in schedule.cells for part, h in cell.composition.sources.items()}
    for strategy, parts in sources.items():
        if any(now.get(part, h) != h for part, h in parts.items()):
            for versions in counts.values():
                versions[strategy] = dict.fromkeys(versions.get(strategy, {}), "")
    for cell in schedule.cells:
        versions = counts.setdefault(cell.task_name, {}).setdefault(cell.strategy, {})
        versions[cell.scene.conditions_id] = cell.version
        sources[cell.strategy] = cell.composition.sources
