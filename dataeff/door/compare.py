"""Comparing from Python: own data and an own network, or names of ours, in; an answer out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Unpack

from rich.console import Console

from dataeff.bench.cells import Settings
from dataeff.bench.choosing import choose_lanes
from dataeff.bench.desk import Desk, open_desk
from dataeff.bench.locks import locked
from dataeff.bench.suite import Suite, make_suite
from dataeff.damage import listening
from dataeff.door.handed import handed_over
from dataeff.door.options import CompareOptions, RunOptions, sorted_out
from dataeff.door.result import Result
from dataeff.door.running import Running
from dataeff.errors import DataeffError
from dataeff.files import slug
from dataeff.report.board import write_tables
from dataeff.report.web.page import write_report
from dataeff.seeds import read_seeds

_SETTINGS = ("results", "device", "data_root", "plugin_dirs", "in_process", "timeout")
_PATHS = ("results", "data_root")


def compare(
    train: Any = None,
    test: Any = None,
    model: Any = "resnet8",
    strategies: Sequence[str] | str = (),
    epochs: float = 10.0,
    **options: Unpack[CompareOptions],
) -> Result:
    """Compare strategies on data and a network, and return what came of it.

    `train` and `test` are each an (x, y) pair of arrays or tensors, a torch or Hugging Face
    dataset, or a folder of images; or `train` alone is the name of a dataset. `model` is a name, a
    module (drawn anew for each seed), or a function or class that makes one. `strategies` are
    compared with `reference`, which is `baseline` where nothing is said.

    What is finished is not run again, and what was stopped goes on: `name` is the folder below
    `results` that keeps all of it. Other options are those of `dataeff run`, what may be said of
    own data, and the keys of a task: `lr=0.05`, `batch_size=64`.

        result = dataeff.compare((x, y), (x_test, y_test), make_net, ["infobatch"], epochs=20)
        print(result.answer)
    """
    if not strategies:
        raise DataeffError(
            "Name what to compare: strategies=[...]; dataeff strategies lists what there is."
        )
    run, own, task = sorted_out(options, RunOptions)
    console = Console(highlight=False)
    handed = handed_over(train, test, model, own, run.get("name", "data"))
    if handed.lacks_test:
        raise DataeffError("There is nothing to test on: give test=(x, y) as well.")
    dataset = handed.dataset or train
    network = handed.network or model
    content = _content(
        run, strategies, {"dataset": dataset, "model": network, "epochs": epochs, **task}
    )
    with handed.laid_out() as (folder, trouble), listening(lambda text: console.print(text)):
        settings = _settings(run, folder)
        if trouble:
            console.print(
                f"Cells run in this process, without its guards: others cannot have what was "
                f"handed over ({trouble}).",
                soft_wrap=True,
            )
            settings = replace(settings, in_process=True, device=_one(settings.device))
        with open_desk(settings) as desk, _suite(content, desk, settings, console) as suite:
            running = Running(suite, desk, settings, run.get("fresh", False))
            running.check()
            for said in running.warnings():
                console.print(said, soft_wrap=True)
            running.run(console, _typed(suite))
    for line in running.failures():
        console.print(f"Failed: {line}", soft_wrap=True)
    result = Result(running.folder)
    write_tables(running.folder, result.board)
    write_report(running.folder, result.board)
    return result


@contextmanager
def _suite(
    content: dict[str, Any], desk: Desk, settings: Settings, console: Console
) -> Iterator[Suite]:
    """Yield the suite on its lanes, which nobody else has meanwhile."""
    suite = make_suite(content, desk, where="compare")
    if said := choose_lanes(desk, suite, settings):
        console.print(said, soft_wrap=True)
    with locked(desk.lanes):
        yield suite


def _settings(run: dict[str, Any], folder: Path) -> Settings:
    how = {key: run[key] for key in _SETTINGS if key in run}
    how |= {key: Path(how[key]) for key in _PATHS if how.get(key) is not None}
    dirs = tuple(Path(path).resolve() for path in how.get("plugin_dirs", ()))
    return Settings(**how | {"plugin_dirs": (*dirs, folder)})


def _one(device: str) -> str:
    """Return the first of several devices: one process has one."""
    return device.partition(",")[0].partition("*")[0]


def _content(
    run: dict[str, Any], strategies: Sequence[str] | str, task: dict[str, Any]
) -> dict[str, Any]:
    """Return the content of the suite that is asked for."""
    if isinstance(strategies, str):
        strategies = [strategies]
    title = f"{task['model']} on {task['dataset']}, {task['epochs']:g} epochs"
    name = run.get("name") or slug(f"{task['dataset']}-{task['model']}-{task['epochs']:g}ep")
    task = task | {"epochs": float(task["epochs"])}
    content = {
        "name": name,
        "title": title,
        "strategies": list(dict.fromkeys([run.get("reference", "baseline"), *strategies])),
        "tasks": {name: task},
    }
    content |= {key: run[key] for key in ("margin", "controls") if key in run}
    return content | ({"seeds": read_seeds(run["seeds"])} if "seeds" in run else {})


def _typed(suite: Suite) -> str:
    """Return what to type for more of it."""
    return f"dataeff.compare(..., name={suite.name!r})"
