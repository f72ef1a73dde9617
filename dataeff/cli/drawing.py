"""Drawing: an analysis from the options of its command to its figures, where its code may run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dataeff.analysis.study import Study, check_figures
from dataeff.bench.desk import Desk
from dataeff.cli.adhoc import choose_suite
from dataeff.errors import DataeffError, UnknownName, did_you_mean
from dataeff.lab import Lab, pick_device
from dataeff.notation import parse_one
from dataeff.plugins import load_plugins
from dataeff.training.devices import about_device, device_line

if TYPE_CHECKING:
    from dataeff.bench.runner import Event
    from dataeff.bench.suite import Suite


class Drawing:
    """What draws the figures of one analysis, and tells how it goes on."""

    def __init__(
        self, tell: Callable[[Any], None], folders: Sequence[Path], broken: Mapping[str, str]
    ) -> None:
        self._tell, self._installed = tell, load_plugins(folders, broken)
        self._note = ""

    def draw(self, order: dict[str, Any]) -> str:
        """Draw what the options of a command ask for; return the folder of the figures."""
        # What was not given is an empty tuple, which JSON does not know.
        order = {key: tuple(v) if isinstance(v, list) else v for key, v in order.items()}
        installed, results = self._installed, Path(order["results"])
        if order["analysis"] is None:
            known = [f"{entry.name} ({entry.summary})" for entry in installed.analyses.entries()]
            raise DataeffError(f"Name an analysis: {', '.join(known) or 'none is installed'}")
        part = parse_one(order["analysis"])
        entry = installed.analyses[part.name]
        values = entry.read(part.params)
        check_figures(entry, order["figures"])
        study = self._study(order, results, part.name)
        entry.factory(study, **values)
        return str(study.folder)

    def _study(self, order: dict[str, Any], results: Path, name: str) -> Study:
        # Where there is no such device, that is told before the first figure fails for it.
        device = str(pick_device(order["device"]))
        root = order["data_root"] and Path(order["data_root"])
        lab = Lab(self._installed, device, root)
        self._note = device_line(about_device(lab.device))
        # A suite needs a strategy, even where the analysis brings its own.
        strategies = [] if order["suite"] else ["baseline"]
        chosen = choose_suite(Desk.beside(lab), order["suite"], strategies, order)
        task_name, seed = _pick_task(chosen, order["task_name"]), order["seed"]
        home = results / chosen.name / "analysis"
        folder = home / name
        # A folder of its own for what would overwrite the rest.
        folder /= task_name if len(chosen.tasks) > 1 else ""
        folder /= f"seed{seed}" if seed else ""
        return Study(
            chosen.name,
            task_name,
            chosen.tasks[task_name],
            folder,
            lab,
            seed=seed,
            asked=order["figures"],
            fresh=order["fresh"],
            results=results,
            # One analysis may need what another one has trained.
            runs=home / "runs",
            watch=self._watch,
            tell=self._tell,
        )

    def _watch(self, event: Event) -> None:
        if self._note:
            # Now it is certain that anything is trained.
            self._tell({"note": self._note})
            self._note = ""
        known = {"kind": event.kind, "title": event.cell.title, "share": event.share}
        self._tell(known | {"record": event.record})


def _pick_task(suite: Suite, name: str | None) -> str:
    tasks = ", ".join(suite.tasks)
    if name is None and len(suite.tasks) > 1:
        raise DataeffError(f"{suite.name} has several tasks; add --task with one of: {tasks}.")
    if name is not None and name not in suite.tasks:
        hint = did_you_mean(name, suite.tasks) or f" It has: {tasks}."
        raise UnknownName(f"{suite.name} has no task {name!r}.{hint}")
    return name or next(iter(suite.tasks))
