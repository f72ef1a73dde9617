"""What reading costs: the leaderboard and the page of a suite with 10,000 stored runs."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

from dataeff.report.board import read_board
from dataeff.report.web.page import write_report

TASKS = {"digits": "t1", "letters": "t2"}
METHODS = 500
SEEDS = 10
EPOCHS = 30
CLASSES = 10
HEADER = (
    "epoch,progress,lr,train_loss,kept,mixed,prepare_seconds,train_seconds,rows_trained,steps,"
    "validation_top1,validation_top5,validation_macro_f1,validation_loss,"
    "test_top1,test_top5,test_macro_f1,test_loss"
)
PHASES = ("plan", "load", "score", "select", "transform", "forward", "backward", "step", "other")
# What all cells have in common; only its size and its depth matter here.
TASK = """{
 "dataset": "digits[size=16]", "model": "resnet8", "epochs": 30.0, "batch_size": 128,
 "optimizer": "sgd", "lr": 0.1, "momentum": 0.9, "nesterov": false, "weight_decay": 0.0005,
 "schedule": "cosine", "warmup": 0.0, "milestones": [], "gamma": 0.1, "clip": null,
 "label_smoothing": 0.0, "channels_last": true, "compile": false, "deterministic": false,
 "validation": 0.1, "test_every": 1, "workers": 0
}"""
COMMON = f"""
 "suite": "big", "status": "finished", "error": "", "epochs": {EPOCHS}, "steps": 380,
 "data": "77cdf0ffed1a", "train_loss": 0.0543410539627075, "peak_memory": 443682816,
 "ranked": true, "energy": {{}}, "conditions_id": "6f56060b",
 "task": {TASK},
 "use": {{"never_trained": 0.01245330012453300, "class_balance": 0.9412345678901234}},
 "columns": {{"method_note": "", "method_kept": 0.65, "method_threshold": 1.2345678901234}},
 "machine": {{
  "seconds": 12.345678901234, "cores": 8, "needed_cores": 1, "foreign_cores": 0.0123, "flags": [],
  "waiting_share": 0.0012345, "stolen_share": 0.0, "process_share": 0.98765432, "load_high": 1.25,
  "device": "cpu", "streams": false, "gpu_processes": null, "gpu_throttle": null, "driver": null,
  "clock_mhz": 2449.998, "memory_mib": 64000, "governor": "performance", "kernel": "6.1.0-amd64"
 }},
 "conditions": {{
  "device": "cpu", "device_name": "AMD EPYC", "cpu": "AMD EPYC", "cpu_capability": "AVX2",
  "threads": 1, "python": "3.11.7", "system": "Linux x86_64", "dataeff": "0.1.0",
  "torch": "2.9.0", "torchvision": "0.24.0", "timm": "1.0.30", "matmul_precision": "highest",
  "cudnn_benchmark": false, "cudnn_tf32": true
 }},
 "provenance": {{
  "commit": "0123456789abcdef0123456789abcdef01234567",
  "plugins": {json.dumps({f"dataeff-plugin-{number}": "0.1.0" for number in range(8)})}
 }}
}}
"""


def strategies():
    """Yield name, control, true speed-up and true accuracy difference of each strategy.

    Two controls stand at each of a dozen costs; one method of ten is also composed with another.
    """
    draw = np.random.default_rng(1)
    yield "baseline", False, 1.0, 0.0
    yield "amp", False, 1.1, 0.0
    for speedup in np.geomspace(1.1, 3, 12):
        yield f"random_backprop[keep={1 / speedup:.2f}]", True, speedup, -0.8
        yield f"short_schedule[share={1 / speedup:.2f}]", True, speedup, -0.6
    for number in range(METHODS - 26):
        name = f"method[kept={number}]" if number % 10 else f"method[kept={number + 1}]+amp"
        yield name, False, 1 + 2 * draw.random(), draw.normal(-0.5, 0.5)


def epochs_file(accuracy, seconds):
    """Return the lines of epochs.csv for a run that ends with this accuracy after these seconds."""
    lines = [HEADER]
    for epoch in range(EPOCHS):
        share = (epoch + 1) / EPOCHS
        top1 = accuracy * (0.3 + 0.7 * share)
        figures = f"{top1},99.12345678,{top1 - 1},0.123456789"
        lines.append(
            f"{epoch},{share},{0.1 - 0.1 * share},{2 - share},0.65,0.2,0.01,{seconds * share},"
            f"{1000 * epoch},{10 * epoch},{figures},{figures}"
        )
    return "\n".join(lines) + "\n"


def record(task, name, control, seed, speedup, accuracy, seconds):
    """Return what a record has of its own."""
    spread = np.linspace(-2, 2, CLASSES)
    names = ("validation_top1", "validation_top5", "validation_macro_f1", "validation_loss")
    names += ("test_top1", "test_top5", "test_macro_f1", "test_loss")
    return {
        "task_name": task,
        "task_id": TASKS[task],
        "strategy": name,
        "parameters": {part: {"keep": 0.5, "mode": "auto"} for part in name.split("+")},
        "sources": dict.fromkeys(name.split("+"), "a6298394"),
        "seed": seed,
        "metrics": dict.fromkeys(names, accuracy),
        "classes": {
            "test": [1000] * CLASSES,
            "accuracy": (accuracy + spread).tolist(),
            "trained": (1 / speedup + spread / 10).tolist(),
        },
        "clocks": {"prepare": 0.01, "train": seconds, "evaluate": 0.21076398300010624},
        "process_clocks": {"prepare": 0.01, "train": 0.98 * seconds, "evaluate": 0.2101268},
        "phases": {phase: seconds / len(PHASES) for phase in PHASES},
        "rows": dict.fromkeys(("loaded", "scored", "forwarded", "trained"), int(1e4 / speedup)),
        "flops": 52325652480.0 / speedup,
        "control": control,
        "ended": f"2026-11-16T11:56:{seed:02}.576246+00:00",
    }


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a results folder of 2 tasks x 500 strategies x 10 seeds."""
    folder = tmp_path_factory.mktemp("results") / "big"
    folder.mkdir()
    suite = {
        "name": "big",
        "title": "Ten thousand runs",
        "seeds": SEEDS,
        "strategies": [name for name, *_ in strategies()],
        "tasks": dict.fromkeys(TASKS, json.loads(TASK)),
        "published": [],
        "task_ids": TASKS,
        "data": dict.fromkeys(TASKS, "77cdf0ffed1a"),
        "reference": "baseline",
        "commands": ["dataeff run big"],
    }
    (folder / "suite.json").write_text(json.dumps(suite))
    draw = np.random.default_rng(0)
    for task in TASKS:
        for place, (name, control, speedup, difference) in enumerate(strategies()):
            noise = draw.normal(0, [[0.3], [0.03]], (2, SEEDS))
            for seed in range(SEEDS):
                accuracy = 90 + difference + noise[0, seed]
                seconds = 12 / speedup * np.exp(noise[1, seed])
                own = record(task, name, control, seed, speedup, accuracy, seconds)
                cell = folder / f"{task}-method-{place:03}-s{seed}-{place:04x}{seed:04x}"
                cell.mkdir()
                text = json.dumps(own, indent=1).removesuffix("\n}") + "," + COMMON
                (cell / "run.json").write_text(text)
                (cell / "epochs.csv").write_text(epochs_file(accuracy, seconds))
    return folder


def dataeff(*arguments):
    """Call the command in a process of its own, imports and all."""
    command = [sys.executable, "-c", "from dataeff.cli import main; main()", *map(str, arguments)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def seconds_of(benchmark, function, rounds=3):
    """Return the shortest time: a busy machine only ever adds to it.

    Where the processor's time, also that of child processes, is much less than the time that went
    by, the machine was busy.
    """
    before = _processor()
    benchmark.pedantic(function, rounds=rounds)
    seconds, busy = benchmark.stats.stats.min, (_processor() - before) / rounds
    print(f"\n{benchmark.name}: {seconds:.2f} s (processor {busy:.2f} s)")
    return seconds


def _processor():
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def test_records_are_as_large_as_real_ones(folder):
    (one, *_), cells = folder.glob("*/run.json"), len(list(folder.glob("*/run.json")))
    assert cells == len(TASKS) * METHODS * SEEDS == 10_000
    assert 3_500 < one.stat().st_size < 6_000


def test_the_leaderboard_command(benchmark, folder, tmp_path):
    table = tmp_path / "table.csv"
    call = ("leaderboard", folder.name, "--results", folder.parent, "--csv", table)
    assert seconds_of(benchmark, lambda: dataeff(*call)) < 3
    lines = [line for line in table.read_text().splitlines() if "early_termination" not in line]
    assert len(lines) == 1 + len(TASKS) * METHODS


def test_the_report_command(benchmark, folder):
    call = ("report", folder.name, "--results", folder.parent)
    assert seconds_of(benchmark, lambda: dataeff(*call)) < 10


def test_reading(benchmark, folder):
    seconds_of(benchmark, lambda: read_board(folder))


def test_writing_the_page(benchmark, folder):
    board = read_board(folder)
    seconds_of(benchmark, lambda: write_report(folder, board))
