"""The command that sets two strategies side by side."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

import click

from dataeff.cli.echo import echo
from dataeff.cli.listed import print_json
from dataeff.cli.options import json_option, margin_option, results_option
from dataeff.cli.show import say, show_table
from dataeff.errors import DataeffError, UnknownName, did_you_mean
from dataeff.plural import counted
from dataeff.report.found import results_folder

if TYPE_CHECKING:
    import pandas as pd

    from dataeff.report.explain import Explained


@click.command()
@click.argument("suite")
@click.argument("a")
@click.argument("b")
@click.option("--task", help="Only this task of the suite.")
@margin_option
@json_option
@results_option
def compare(suite, a, b, results, **options):
    """Say where the speed-up of strategy B over strategy A went, in the results of SUITE.

    Where one of them is the reference, first what the other one saves and costs, and how sure that
    is. Then the ideal speed-up, by counted work, beside the measured one, phase by phase; what
    would have to be cheaper; and for a composition, whether the effects of its parts add up.

    \b
    dataeff compare quickstart baseline mixtrain_cutmix
    """
    from dataeff.files import finite
    from dataeff.report import explain
    from dataeff.report.board import judge_folder
    from dataeff.report.compare import compare as compared
    from dataeff.report.composed import composed_effects
    from dataeff.report.frames import title
    from dataeff.report.looks import shown
    from dataeff.report.naming import strategy_named
    from dataeff.report.price import command_of
    from dataeff.report.trouble import contended

    folder = results_folder(results, suite)
    read = judge_folder(folder, options["margin"], suite)
    asked, margin = read.suite, read.margin
    runs = _of_task(shown(read.runs, read.looks), options["task"], suite)
    known = {name: read.measured.parameters[name] for name in runs["strategy"]}
    a, b = (strategy_named(text, known, suite) for text in (a, b))
    if a == b:
        raise DataeffError(f"A and B are both {a}; name two strategies.")
    here = [one for one in read.judged if one.table.key[0] in set(runs["task_name"])]
    found, reference = compared(here, a, b), asked["reference"]
    command = _command(suite, command_of(asked))
    if not found:
        raise DataeffError(explain.nothing_shared(runs, a, b, command))
    effects = composed_effects(runs, reference, margin)
    told = [explain.explained(one, runs, effects, (reference, command)) for one in found]
    both = runs[runs["strategy"].isin([a, b])]
    notes = [*explain.left_out(both, found), *contended(both), *read.measured.notes]
    seen = [one for one in here if one.table.key in {part.key for part in found}]
    notes += [f"{title(one.table.key)}: {text}." for one in seen if (text := one.waiting())]
    if options["as_json"]:
        head = {"suite": asked["name"], "reference": reference, "a": a, "b": b, "margin": margin}
        document = head | {"blocks": [one.numbers() for one in told], "notes": notes}
        print_json(finite(document))
        return
    for one in told:
        _show(one, reference)
    for note in notes:
        say(note)


def _of_task(runs: pd.DataFrame, task: str | None, suite: str) -> pd.DataFrame:
    names = list(runs["task_name"].unique())
    if task is not None and task not in names:
        hint = did_you_mean(task, names) or f" There are: {', '.join(names)}."
        raise UnknownName(f"{suite} has no runs of a task {task!r}.{hint}")
    return runs if task is None else runs[runs["task_name"] == task]


def _command(suite: str, last: str) -> str:
    """Return the command that runs more of this; what was compared ad hoc has no suite to name."""
    if suite.endswith(".toml"):
        return f"dataeff run {suite}"
    words = shlex.split(last)
    is_named = len(words) > 2 and not words[2].startswith("-")
    return shlex.join(words[:3]) if is_named else last


def _show(told: Explained, reference: str) -> None:
    from dataeff.report.composed import effects_table
    from dataeff.report.frames import title

    found = told.found
    seeds = counted(len(found.seeds), "seed", "seeds, paired")
    say(f"{title(found.key)}, {seeds}", bold=True)
    if found.method:
        first, *more = found.method.sentences
        say(first, bold=True)
        for line in more:
            say(line)
        echo()
    for line in (f"A: {found.a}", f"B: {found.b}", *told.headline):
        say(line)
    echo()
    table = [*found.visible().iterrows(), ("total", found.total)]
    header = ["phase", "A s", "B s", "ideal B s", "lost s"]
    texts = [[str(phase), *map(found.seconds, line)] for phase, line in table]
    show_table(header, texts, total=True)
    echo()
    for line in told.sentences:
        say(line)
    for letter, effects in told.composed.items():
        echo()
        seeds = counted(effects[0]["n"], "seed")
        say(f"Do the effects of {letter} add up? Against {reference}, {seeds}:", bold=True)
        show_table(["effect", "speed-up", "accuracy"], effects_table(effects))
    echo()
