"""The command that sets two strategies side by side."""

from __future__ import annotations

import json
import math
import shlex
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click
from rich.text import Text

from dataeff.cli.reading import margin_option, results_folder
from dataeff.cli.shared import console, json_option, results_option, with_plugins
from dataeff.errors import DataeffError, UnknownName, did_you_mean

if TYPE_CHECKING:
    import pandas as pd

    from dataeff.plugins import Installed
    from dataeff.report.comparing import Comparison

Effect = dict[str, Any]
"""A line of `composed_effects`."""
Block = dict[str, Any]
"""One comparison: what it found, in words, and the effects of what is composed in it."""


@click.command()
@click.argument("suite")
@click.argument("a")
@click.argument("b")
@click.option("--task", help="Only this task of the suite.")
@margin_option
@json_option
@results_option
@with_plugins
def compare(suite, a, b, task, margin, as_json, results, installed, plugin_dirs):
    """Say where the speed-up of strategy B over strategy A went, in the results of SUITE.

    The ideal speed-up, by counted work, beside the measured one, phase by phase; what would have
    to be cheaper; and for a composition, whether the effects of its parts add up.

    \b
    dataeff compare quickstart baseline mixtrain_cutmix
    """
    from dataeff.bench.results import finite
    from dataeff.report.board import contended
    from dataeff.report.comparing import compare as compared
    from dataeff.report.comparing import composed_effects
    from dataeff.report.reading import current_runs, read_suite, runs_table

    folder = results_folder(results, suite)
    asked = read_suite(folder)
    records, notes = current_runs(folder, asked)
    if not records:
        raise DataeffError(f"{folder} holds no runs of this suite yet; type: dataeff run {suite}")
    runs = _of_task(runs_table(records), task, suite)
    a, b = (_strategy(text, runs["strategy"].unique(), suite, installed) for text in (a, b))
    if a == b:
        raise DataeffError(f"A and B are both {a}; name two strategies.")
    found, reference = compared(runs, a, b), asked["reference"]
    # What was compared ad hoc has no suite to name.
    named = suite.endswith(".toml") or suite in installed.suites
    command = f"dataeff run {suite}" if named else asked["commands"][-1]
    if not found:
        raise DataeffError(_nothing_shared(runs, a, b, command))
    effects = composed_effects(runs, reference, margin)
    blocks = [_block(one, runs, effects, reference, command) for one in found]
    compared_cells = runs[runs["strategy"].isin([a, b])]
    notes = [*_left_out(runs, found), *contended(compared_cells), *notes]
    if as_json:
        head = {"suite": asked["name"], "reference": reference, "a": a, "b": b, "margin": margin}
        document = head | {"blocks": [_numbers(block) for block in blocks], "notes": notes}
        click.echo(json.dumps(finite(document), indent=1, allow_nan=False))
        return
    for block in blocks:
        _show(block, reference)
    for note in notes:
        _say(note)


# Which runs --------------------------------------------------------------------------------------


def _of_task(runs: pd.DataFrame, task: str | None, suite: str) -> pd.DataFrame:
    names = list(runs["task_name"].unique())
    if task is not None and task not in names:
        hint = did_you_mean(task, names) or f" There are: {', '.join(names)}."
        raise UnknownName(f"{suite} has no runs of a task {task!r}.{hint}")
    return runs if task is None else runs[runs["task_name"] == task]


def _strategy(text: str, known: Any, suite: str, installed: Installed) -> str:
    """Return a strategy as the results spell it, from any spelling of it."""
    from dataeff.plugins import canonical, compose
    from dataeff.report.comparing import split_parts

    known = list(known)
    if text in known:
        return text
    try:
        name = canonical(compose(text, installed))
    except DataeffError:
        # Results outlive the plugins that made them.
        name = text
    if name in known:
        return name

    def bare(text: str) -> str:
        return "+".join(sorted(part.split("[")[0] for part in split_parts(text)))

    # The same parts in another order, or with other parameters, are closer than similar letters.
    same = [other for other in known if sorted(split_parts(other)) == sorted(split_parts(name))]
    same = same or [other for other in known if bare(other) == bare(name)][:3]
    hint = f" Did you mean {' or '.join(same)}?" if same else did_you_mean(name, known)
    hint = hint or did_you_mean(bare(name), {bare(other) for other in known})
    raise UnknownName(
        f"{name} was not run in {suite}.{hint or f' See what was: dataeff leaderboard {suite}'}"
    )


def _nothing_shared(runs: pd.DataFrame, a: str, b: str, command: str) -> str:
    """Say why two strategies that were run cannot be compared."""
    finished = runs[runs["status"] == "finished"]
    for name in (a, b):
        if name not in set(finished["strategy"]):
            counts = runs[runs["strategy"] == name]["status"].value_counts()
            told = ", ".join(f"{count} {status}" for status, count in counts.items())
            return f"No cell of {name} finished ({told}), so there is nothing to compare."
    typed = f"{command} {_options([a, b])}"
    return f"{a} and {b} share no finished seed under the same conditions; type: {typed}"


def _options(strategies: list[str]) -> str:
    return " ".join(f"-s {shlex.quote(name)}" for name in strategies)


def _left_out(runs: pd.DataFrame, found: list[Comparison]) -> list[str]:
    """Say which tasks and conditions have runs of A or B, but none that can be compared."""
    names = {found[0].a, found[0].b}
    pairs = runs[runs["strategy"].isin(names)][["task_name", "conditions_id"]].drop_duplicates()
    there = {(one.task, one.conditions) for one in found}
    missing = [pair for pair in pairs.itertuples(index=False, name=None) if pair not in there]
    return [
        f"Not compared: {_title(*pair)}, where they share no finished seed." for pair in missing
    ]


# What is said of them ----------------------------------------------------------------------------


def _title(task: str, conditions: str) -> str:
    return f"{task} (conditions {conditions})"


def _block(
    found: Comparison, runs: pd.DataFrame, effects: list[Effect], reference: str, command: str
) -> Block:
    from dataeff.report.explaining import headline, sentences

    keys = (found.task, found.conditions)
    here = runs[(runs["task_name"] == found.task) & (runs["conditions_id"] == found.conditions)]
    finished = set(here[here["status"] == "finished"]["strategy"])
    composed, said = {}, []
    for letter, name in (("A", found.a), ("B", found.b)):
        own = [e for e in effects if (e["task"], e["conditions"], e["strategy"]) == (*keys, name)]
        if own:
            composed[letter] = own
        else:
            said += _not_known(letter, name, finished, reference, command)
    return {
        "found": found,
        "headline": headline(found),
        "sentences": [*sentences(found), *said],
        "composed": composed,
    }


def _not_known(
    letter: str, name: str, finished: set[str], reference: str, command: str
) -> list[str]:
    """Say what is missing to tell whether a composition adds up; nothing of other strategies."""
    from dataeff.report.comparing import split_parts

    parts = split_parts(name)
    if len(parts) < 2 or name == reference:
        return []
    missing = [part for part in [reference, *parts] if part not in finished]
    start = f"Whether the effects of {letter} add up is not known: it takes"
    if missing:
        return [f"{start} runs of {', '.join(missing)} alone; type: {command} {_options(missing)}"]
    return [f"{start} a finished seed that {reference} and all of its parts share."]


def _numbers(block: Block) -> dict[str, Any]:
    """Return a block as numbers, for programs."""
    from dataeff.report.comparing import cheaper, counted_work, overhead

    found: Comparison = block["found"]
    total = found.total
    # What is saved on the way to A's time, or, for who is faster, to the ideal.
    behind = total["b"] - total["a"]
    surplus = behind if behind > 0 else total["lost"]
    return {
        "task": found.task,
        "conditions": found.conditions,
        "seeds": found.seeds,
        "speedup": vars(found.speedup),
        "speedup_on_the_clock": found.free,
        "ideal_speedup": found.ideal,
        "realised": found.realised,
        "accuracy_difference": vars(found.difference),
        "phases": _records(found.phases, "phase"),
        "total": total.to_dict(),
        "off_clock": _records(found.off_clock, "clock"),
        "rows": _records(found.rows, "kind"),
        "counted_work": vars(counted_work(found.rows)),
        "overhead": overhead(found.phases).to_dict(),
        "goal": "break even" if behind > 0 else "ideal",
        "surplus": surplus,
        "one_phase_alone": _records(cheaper(found.phases["b"], surplus), "phase")
        if surplus > 0
        else [],
        "compositions": [line for lines in block["composed"].values() for line in lines],
        "sentences": [*block["headline"], *block["sentences"]],
    }


def _records(table: pd.DataFrame, name: str) -> list[dict[str, Any]]:
    return table.rename_axis(name).reset_index().to_dict("records")


# How it looks ------------------------------------------------------------------------------------


def _show(block: Block, reference: str) -> None:
    from dataeff.report.explaining import seconds_of

    found: Comparison = block["found"]
    number = "1 seed" if len(found.seeds) == 1 else f"{len(found.seeds)} seeds, paired"
    _say(f"{_title(found.task, found.conditions)}, {number}", bold=True)
    for line in (f"A: {found.a}", f"B: {found.b}", *block["headline"]):
        _say(line)
    click.echo()
    seconds = seconds_of(found)
    table = [*_visible(found.phases, seconds).iterrows(), ("total", found.total)]
    header = ["phase", "A s", "B s", "ideal B s", "lost s"]
    _table(header, [[phase, *map(seconds, row)] for phase, row in table], total=True)
    click.echo()
    for line in block["sentences"]:
        _say(line)
    for letter, lines in block["composed"].items():
        _composition(letter, reference, lines)
    click.echo()


def _visible(phases: pd.DataFrame, seconds: Callable[[float], str]) -> pd.DataFrame:
    """Add what would be a line of zeros to `other`."""
    zero = phases[["a", "b"]].map(seconds).eq(seconds(0.0)).all(axis=1)
    small = phases[zero | (phases.index == "other")].sum(skipna=False)
    shown = phases[~zero & (phases.index != "other")].copy()
    if small[["a", "b"]].map(seconds).ne(seconds(0.0)).any():
        shown.loc["other"] = small
    return shown


def _composition(letter: str, reference: str, lines: list[Effect]) -> None:
    """Show the single effects, what they come to, and what was measured together."""
    from dataeff.report.comparing import effect_text

    def text(line: Effect, value: float) -> str:
        return effect_text(line["quantity"], value)

    def interaction(line: Effect) -> str:
        low, high = line["interaction_low"], line["interaction_high"]
        limits = "" if math.isnan(low) else f" ({text(line, low)}..{text(line, high)})"
        return text(line, line["interaction"]) + limits

    parts = lines[0]["parts"]
    rows = [
        *(
            [part, *(text(line, line["effects"][i]) for line in lines)]
            for i, part in enumerate(parts)
        ),
        ["if they add up", *(text(line, line["sum"]) for line in lines)],
        ["measured together", *(text(line, line["measured"]) for line in lines)],
        ["beyond the sum (95%)", *map(interaction, lines)],
        ["verdict", *(line["says"] for line in lines)],
    ]
    number = "1 seed" if lines[0]["n"] == 1 else f"{lines[0]['n']} seeds"
    click.echo()
    _say(f"Do the effects of {letter} add up? Against {reference}, {number}:", bold=True)
    _table(["effect", "speed-up", "accuracy"], rows)


def _say(text: str, bold: bool = False) -> None:
    if console.is_terminal:
        console.print(Text(text, style="bold" if bold else ""))
    else:
        click.echo(text)


def _table(header: list[str], lines: list[list[str]], total: bool = False) -> None:
    from dataeff.report.terminal import aligned, rich_table

    if not console.is_terminal:
        click.echo("\n".join(aligned(header, lines)))
        return
    table = rich_table(header, lines)
    if total:
        table.rows[-2].end_section = True
    console.print(table)
