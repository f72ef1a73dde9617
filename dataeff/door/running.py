"""Running a suite, from what is planned to its tables: the same from a shell and from Python."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console

from dataeff.bench.asked import write_suite
from dataeff.bench.cells import Again, Cell, Settings, never
from dataeff.bench.choosing import calibrate
from dataeff.bench.desk import Desk
from dataeff.bench.ended import failures
from dataeff.bench.progress import Watch
from dataeff.bench.results import flags_of, pairing, settled
from dataeff.bench.runner import Event, Watcher, run_cells
from dataeff.bench.schedule import Schedule
from dataeff.bench.service import unheard
from dataeff.bench.suite import Suite
from dataeff.foretell.preview import Coming, check_setups
from dataeff.report.doubts import Doubts
from dataeff.report.due import Looking
from dataeff.report.margin import Resolution, unresolved


class Running:
    """A suite that is about to be run on the lanes of a desk.

    `fresh` runs all cells again, `flagged` those whose times are doubtful or that do not verify.
    """

    def __init__(
        self,
        suite: Suite,
        desk: Desk,
        settings: Settings,
        fresh: bool = False,
        flagged: bool = False,
    ) -> None:
        self.desk, self._settings, self._fresh = desk, settings, fresh
        self.folder = settings.results / suite.name
        self.looking = Looking(self.folder)
        self.schedule = Schedule(suite, desk, settings.results, fresh, self.looking)
        self._again = again_of(fresh, flagged, self.schedule, self.folder)
        cells, unsolved = self.schedule.cells, self.schedule.unsolved
        self.coming = Coming(cells, self._again, unsolved, not settings.in_process)

    def check(self) -> None:
        """Refuse what a strategy has against a task, before anything is run."""
        check_setups(self.coming, self.desk)

    def warnings(self) -> Iterator[str]:
        """Yield where the run will be, what of its networks, and which margins are too fine."""
        suite = self.schedule.suite
        coming = {cell.task_name for cell in self.schedule.cells if not settled(cell.record())}
        if coming:
            yield self.desk.device_line()
        for name, task in suite.tasks.items():
            if name not in coming:
                continue
            facts = self.desk.facts(task)
            yield from facts.said
            typical = self.schedule.stages.typical(name)
            given = Resolution(suite.seeds, len(suite.strategies) - 1, facts.test_samples, typical)
            if said := unresolved(name, suite.margin, given):
                yield said

    def run(self, console: Console, command: str, log: Watcher = unheard) -> None:
        """Run what is planned, and look at it; `command` is what runs it again.

        Who logs hears of all that the bar shows.
        """
        schedule, looking = self.schedule, self.looking
        with console.status("Measuring what busy lanes do to the times beside them"):
            calibrate(self.desk, schedule.suite, self._settings)
        schedule.joined = looking.before = partial(write_suite, schedule, self.folder, command)
        looking.before()
        if self._fresh:
            schedule.forget()
        try:
            with Watch(console) as watch:
                schedule.matches.tell = watch.say

                def tell(event: Event) -> None:
                    watch(event)
                    log(event)

                run_cells(schedule, self.desk, self._settings, tell, self._again)
        except (KeyboardInterrupt, SystemExit) as stop:
            if told := looking.missing():
                stop.add_note(told)
            raise
        looking.make(schedule.stages.last)

    def failures(self) -> list[str]:
        """Return what failed, one line each."""
        return [*failures(self.schedule.cells), *self.schedule.matches.troubles]


def again_of(fresh: bool, flagged: bool, schedule: Schedule, folder: Path) -> Again:
    """Return what says of a cell and its record, or of None, whether to start the cell anew."""
    if fresh:
        return lambda cell, record: True
    wrong = Doubts(folder).found

    def doubtful(record: Mapping[str, Any] | None) -> bool:
        return bool(record and (flags_of(dict(record)) or record.get("checksum") in wrong))

    def again(cell: Cell, record: dict[str, Any] | None) -> bool:
        if not record or doubtful(record) or "heat" not in record:
            return doubtful(record)
        # Its time is one beside a reference: it goes with that one's.
        reference = schedule.reference_of(cell).record()
        return doubtful(reference) or bool(pairing(record, reference)[1])

    return again if flagged else never
