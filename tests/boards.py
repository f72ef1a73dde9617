"""Boards made by hand: what a suite measured, without measuring anything."""

import dataclasses

import numpy as np
import pandas as pd

from dataeff.report.answer import BET, Answer
from dataeff.report.board import Board
from dataeff.report.claims import COLUMNS as CLAIM_COLUMNS
from dataeff.report.columns import NAMES
from dataeff.report.frames import tables
from dataeff.report.stats import Interval
from dataeff.report.verdicts import Ends, Verdicts
from dataeff.report.words import against_line, verdict_words
from dataeff.report.worth import BEATS, KEEPS, SAVES

PHASES = ("plan", "load", "score", "select", "transform", "forward", "backward", "step", "other")
METHODS = {
    "baseline": (1.0, 0.0),
    "mixtrain_cutmix": (1.52, 0.15),
    "mixtrain_cutmix[selection=none,interference=off]": (1.81, -2.7),
    "selective_backprop[keep=0.5]": (1.22, -0.2),
    "amp": (0.93, 0.05),
    "el2n[keep=0.75]": (1.18, -0.9),
    "mixtrain_cutmix+amp": (1.38, 0.1),
    "infobatch": (1.31, 0.0),
    "random_backprop[keep=0.65,mode=accumulate]": (1.44, -0.7),
    "short_schedule[share=0.65]": (1.53, -0.5),
}
CONTROLS = ("random_backprop[keep=0.65,mode=accumulate]", "short_schedule[share=0.65]")
CONDITIONS = {
    "device": "cpu",
    "cpu": "AMD EPYC 7B13",
    "threads": 2,
    "python": "3.11.7",
    "torch": "2.9.1",
    "matmul_precision": "highest",
}

FOOT = "Settled: 5 of 9. The chance is 4%."
PUBLISHED = ("accuracy", "speedup", "macro_f1", "hours", "train_loss", "test_loss")


def board(
    methods=METHODS,
    controls=CONTROLS,
    tasks=("digits",),
    conditions=("99372ed4",),
    seeds=5,
    epochs=20,
    classes=10,
    compositions=True,
    published=True,
    notes=(),
    claims=(),
    answers=None,
    **suite,
):
    """Return a board on which every strategy has the given (speed-up, difference), more or less.

    The first strategy is the reference.
    """
    draw = np.random.default_rng(0)
    parts = [
        _measure(draw, methods, controls, task, name, seeds, epochs, classes)
        for task in tasks
        for name in conditions
    ]
    table, runs, curves, per_class = (
        pd.concat(part, ignore_index=True) for part in zip(*parts, strict=True)
    )
    strategies = list(methods)
    papers = [
        {"strategy": name, "task": None, "accuracy": 94.2, "speedup": 2.1, "source": "Nobody 2024"}
        for name in strategies[1 : 3 if published else 1]
    ]
    for paper in papers:
        lines = table["strategy"] == paper["strategy"]
        for key in ("accuracy", "speedup", "source"):
            table.loc[lines, f"published_{key}"] = paper[key]
    made = [_composition(task, name, strategies) for task in tasks for name in conditions]
    content = {
        "name": "hand",
        "title": "A board made by hand",
        "seeds": seeds,
        "strategies": [name for name in strategies if name not in controls],
        "tasks": {task: {"dataset": task, "model": "resnet8", "epochs": epochs} for task in tasks},
        "published": papers,
        "task_ids": {task: f"id-{task}" for task in tasks},
        "data": {},
        "reference": strategies[0],
        "commands": ["dataeff run hand"],
    }
    return Board(
        suite=content | suite,
        margin=0.5,
        answers=_answers(table) if answers is None else list(answers),
        table=table,
        runs=runs,
        curves=curves,
        classes=per_class,
        claims=pd.DataFrame(claims, columns=CLAIM_COLUMNS),
        compositions=pd.concat(made) if compositions and len(strategies) > 6 else made[0][:0],
        conditions={
            name: CONDITIONS | {"threads": 2 + place} for place, name in enumerate(conditions)
        },
        feet={(task, name): [FOOT] for task in tasks for name in conditions},
        notes=list(notes),
    )


def _answers(table):
    """Return for each table an answer that names its first method."""
    made = []
    for key, part in tables(table):
        methods = part[~part["control"].astype(bool)]["strategy"].iloc[1:]
        name = next(iter(methods), "")
        headline = f"{name} is the best bet: 30% less time for +0.1 points. All is proven."
        detail = "Time saved 30% (28% to 33%); accuracy +0.10 (-0.20..+0.40) points, 5 seeds."
        counts = f"{len(methods)} methods were tried."
        made.append(Answer(key, BET, headline, name, detail, counts=counts))
    return made


def changed(base, **columns):
    """Return the board with columns of its table replaced: values by strategy."""
    table = base.table.copy()
    for column, values in columns.items():
        for strategy, value in values.items():
            table.loc[table["strategy"] == strategy, column] = value
    return dataclasses.replace(base, table=table)


def renamed(base, names):
    """Return the board with strategies, tasks or conditions renamed in every table."""
    frames = ("table", "runs", "curves", "classes", "compositions")
    suite = base.suite | {
        "strategies": [names.get(name, name) for name in base.suite["strategies"]],
        "reference": names.get(base.suite["reference"], base.suite["reference"]),
        "tasks": {names.get(name, name): task for name, task in base.suite["tasks"].items()},
    }
    tables = {frame: getattr(base, frame).replace(names) for frame in frames}
    conditions = {names.get(name, name): values for name, values in base.conditions.items()}
    told = {"answers": _answers(tables["table"]), "conditions": conditions}
    return dataclasses.replace(base, suite=suite, **told, **tables)


def without_runs(base, *strategies):
    """Return the board as it was before these strategies had finished a run."""
    table = base.table.copy()
    blank = table["strategy"].isin(strategies)
    numbers = table.select_dtypes("float").columns
    table.loc[blank, numbers] = np.nan
    table.loc[blank, ["verdict", "sentence", "against_line"]] = ""
    table.loc[blank, ["n", "look"]] = 0
    table.loc[blank, ["pareto", "settled"]] = False
    kept = {
        frame: getattr(base, frame)[~getattr(base, frame)["strategy"].isin(strategies)]
        for frame in ("runs", "curves", "classes", "compositions")
    }
    return dataclasses.replace(base, table=table, **kept)


def _measure(draw, methods, controls, task, conditions, seeds, epochs, classes):
    names, count = list(methods), len(methods)
    true_speed, true_difference = (np.array(part) for part in zip(*methods.values(), strict=True))
    # One line per strategy, one column per seed.
    luck = draw.normal(0, 0.25, seeds)
    accuracy = 94 + luck + true_difference[:, None] + draw.normal(0, 0.15, (count, seeds))
    seconds = 40 / true_speed[:, None] * np.exp(draw.normal(0, 0.02, (count, seeds)))
    prepare = np.where([name.startswith("el2n") for name in names], 4.0, 0.01)
    half = 2.3 / np.sqrt(max(seeds, 1)) if seeds > 1 else np.nan
    gaps, ratios = accuracy - accuracy[0], np.log(seconds[0] / seconds)
    gap_half = half * gaps.std(1, ddof=1) if seeds > 1 else np.full(count, np.nan)
    log_half = half * ratios.std(1, ddof=1) if seeds > 1 else np.full(count, np.nan)
    speed, gap = np.exp(ratios.mean(1)), gaps.mean(1)
    frame = pd.DataFrame({"task": task, "strategy": names})
    frame["verdict"] = [
        _verdict(*line, seeds) for line in zip(ratios.mean(1), log_half, gap, gap_half, strict=True)
    ]
    numbers = {
        "n": seeds,
        "accuracy": accuracy.mean(1),
        "accuracy_std": accuracy.std(1, ddof=1) if seeds > 1 else np.nan,
        "difference": gap,
        "difference_low": gap - gap_half,
        "difference_high": gap + gap_half,
        "macro_f1": accuracy.mean(1) - 0.1,
        "worst_class": accuracy.mean(1) - 6,
        "prepare_seconds": prepare,
        "train_seconds": seconds.mean(1),
        "speedup": speed,
        "speedup_low": speed * np.exp(-log_half),
        "speedup_high": speed * np.exp(log_half),
        "oracle": np.nan,
        "train_speedup": speed,
        "early_speedup": None,
        "amortised_speedup": np.nan,
        "artefact_uses": np.nan,
        "ideal_speedup": speed * 1.1,
        "realised": 0.91,
        "target": 93.5,
        "target_seconds": np.where(gap > -0.5, seconds.mean(1) * 0.8, np.nan),
        "target_reached": np.where(gap > -0.5, 1.0, 0.4),
        "reference_at_same_time": 93 - np.maximum(speed - 1, 0),
        "rows_trained": 29_200 / speed,
        "never_trained": np.where(speed > 1.1, 0.02, 0.0),
        "class_balance": 0.98,
        "energy_joules": np.nan,
        "peak_memory_mib": 425.4,
    }
    frame = frame.assign(**numbers)
    frame["sentence"] = [_sentence(line, seeds) for line in frame.itertuples()]
    frame.loc[0, ["verdict", "sentence"]] = ""
    control = frame["strategy"].isin(controls)
    told = ~control & (frame["strategy"] != names[0]) & bool(controls) & (seeds > 1)
    frame["gain"] = np.where(told, gap + 5 * np.log(speed), np.nan)
    ends = {"gain_low": frame["gain"] - 0.5, "gain_high": frame["gain"] + 0.5}
    frame = frame.assign(**ends)
    gains = frame[["gain", "gain_low", "gain_high"]].to_numpy()
    fast, good = frame["speedup"].to_numpy(), frame["accuracy"].to_numpy()
    beaten = (fast[:, None] < fast) & (good[:, None] < good)
    frame = frame.assign(
        pareto=~beaten.any(1),
        settled=frame["verdict"].str.contains(" and | but "),
        look=seeds * (frame["verdict"] != ""),
        margin=0.5,
        on_clock=True,
        control=control,
        against_line=[against_line(Interval(*line)) for line in gains],
        contended=0,
        trouble="",
        note="",
        conditions=conditions,
        device="On cpu (a processor, 2 threads): torch is built without CUDA.",
        **{name: np.where(told, "open", "") for name in (SAVES, KEEPS, BEATS)},
        **dict.fromkeys((f"published_{name}" for name in PUBLISHED), np.nan),
        published_source="",
    )
    frame.loc[control, ["verdict", "sentence", "settled", "look"]] = "control", "", False, 0
    order = np.lexsort((-speed, -frame["gain"].fillna(-np.inf), control, np.arange(count) > 0))
    frame = frame.iloc[order].reset_index(drop=True).reindex(columns=NAMES)
    cells = pd.DataFrame(
        {
            "suite": "hand",
            "task_name": task,
            "strategy": np.repeat(names, seeds),
            "seed": np.tile(np.arange(seeds), count),
            "status": "finished",
            "contended": "",
            "error": "",
            "conditions_id": conditions,
            "test_top1": accuracy.ravel(),
            "prepare_seconds": np.repeat(prepare, seeds),
            "train_seconds": seconds.ravel(),
        }
    )
    shares = (0.01, 0.04, 0.03, 0.01, 0.02, 0.28, 0.55, 0.05, 0.01)
    for phase, share in zip(PHASES, shares, strict=True):
        cells[f"{phase}_phase_seconds"] = cells["train_seconds"] * share
    epoch = np.tile(np.arange(1, epochs + 1), count * seeds)
    done = epoch / epochs
    cell = np.repeat(np.arange(count * seeds), epochs)
    strategy = np.repeat(names, seeds * epochs)
    saves = np.repeat(true_speed > 1.1, seeds * epochs)
    mixes = np.char.startswith(strategy.astype(str), "mix")
    curves = pd.DataFrame(
        {
            "task": task,
            "conditions": conditions,
            "strategy": strategy,
            "seed": np.repeat(cells["seed"].to_numpy(), epochs),
            "epoch": epoch,
            "seconds": np.repeat(prepare, seeds * epochs) + seconds.ravel()[cell] * done,
            "test_top1": accuracy.ravel()[cell] * (1 - 0.9 * np.exp(-5 * done)) / 0.994,
            "train_loss": 2.3 * np.exp(-3 * done),
            "kept": np.where(saves, 1 - 0.4 * done, 1.0),
            "mixed": np.where(mixes, 0.9 - 0.5 * done, 0.0),
        }
    )
    tilt = np.tile(np.linspace(-1.5, 1.5, max(classes, 1))[:classes], count)
    per_class = pd.DataFrame(
        {
            "task": task,
            "conditions": conditions,
            "strategy": np.repeat(names, classes),
            "label": np.tile(np.arange(classes), count),
            "accuracy": 94.0 + tilt,
            "difference": tilt * np.repeat(np.arange(count) % 3, classes),
            "trained": 0.8,
        }
    )
    return frame, cells, curves, per_class


def _verdict(log_speed, log_half, gap, gap_half, seeds):
    if seeds < 2:
        return "no verdict"
    ends = gap - gap_half, gap + gap_half, log_speed - log_half, log_speed + log_half
    told = Verdicts(Ends(*(np.array([end]) for end in ends)), np.array([False]), 0.5)
    return verdict_words(told, [""])[0]


def _sentence(line, seeds):
    if seeds < 2:
        return f"{line.speedup:.2f}x, accuracy {line.difference:+.2f}: no verdict; one seed"
    speed = f"{line.speedup:.2f}x ({line.speedup_low:.2f}-{line.speedup_high:.2f})"
    points = f"{line.difference:+.2f} ({line.difference_low:+.2f}..{line.difference_high:+.2f})"
    return f"{speed}, accuracy {points}: {line.verdict}"


def _composition(task, conditions, strategies):
    name = next((name for name in strategies if "+" in name), strategies[-1])
    common = {"task": task, "conditions": conditions, "strategy": name, "n": 5}
    common["parts"] = name.replace("+", " + ")
    speed = common | {
        "quantity": "speedup",
        "effects": "1.52x, 0.93x",
        "sum": 1.41,
        "measured": 1.38,
        "interaction": 0.98,
        "interaction_low": 0.95,
        "interaction_high": 1.01,
        "says": "adds up",
    }
    points = common | {
        "quantity": "accuracy",
        "effects": "+0.15, +0.05",
        "sum": 0.2,
        "measured": -0.1,
        "interaction": -0.3,
        "interaction_low": -0.5,
        "interaction_high": -0.1,
        "says": "less than the sum",
    }
    return pd.DataFrame([speed, points])
