"""Records of cells made by hand, with numbers known beforehand."""

import json

import pandas as pd

from dataeff.report.board import read_board


class Folder:
    """A results folder in the making."""

    def __init__(self, path, **asked):
        self.path = path
        path.mkdir(parents=True)
        self.asked = {"reference": "base"} | asked
        self.seeds = {}
        self.suite()

    def suite(self, **more):
        """Write what was asked for: unless told, what has been added, in as many seeds.

        What the suite adds itself are controls, and is not asked for.
        """
        self.asked |= more
        methods = [name for name, (_, control) in self.seeds.items() if not control]
        content = {
            "name": "hand",
            "title": "",
            "task_ids": {"blobs": "t1"},
            "published": [],
            "seeds": max((n for n, _ in self.seeds.values()), default=3),
            "strategies": list(dict.fromkeys([self.asked["reference"], *methods])),
            "tasks": {"blobs": {"dataset": "blobs", "model": "tiny", "epochs": 2.0}},
            "commands": ["dataeff run hand"],
        }
        (self.path / "suite.json").write_text(json.dumps(content | self.asked))

    def add(self, strategy, seed, accuracy=None, seconds=1.0, flops=100, status="finished", **more):
        """Write the record of one cell; without an accuracy, of one that failed.

        `curve` are its looks, as (train seconds, accuracy); None is an epoch without a look.
        """
        record = {
            "suite": "hand",
            "task_name": "blobs",
            "task_id": "t1",
            "strategy": strategy,
            "parameters": {strategy: {}},
            "seed": seed,
            "status": status,
            "error": "",
            "conditions_id": "c1",
            "conditions": {"device": "cpu"},
        }
        prepare, train = seconds if isinstance(seconds, tuple) else (0.0, seconds)
        curve = more.pop("curve", None)
        if accuracy is not None:
            curve = curve or [(train / 2, accuracy / 2), (train, accuracy)]
            record |= {
                "metrics": {"test_top1": accuracy, "test_macro_f1": accuracy - 1},
                "clocks": {"prepare": prepare, "train": train, "evaluate": 5.0},
                "rows": {"trained": flops // 2},
                "flops": flops,
                "peak_memory": 3 * 2**20,
                "ranked": True,
                "control": False,
                "columns": {},
            }
        record |= more
        most = max(self.seeds.get(strategy, (0, False))[0], seed + 1)
        self.seeds[strategy] = most, record.get("control", False)
        self.suite()
        cell = self.path / f"{record['task_name']}-{len(list(self.path.iterdir())):03}"
        cell.mkdir()
        (cell / "run.json").write_text(json.dumps(record))
        if accuracy is not None:
            times, accuracies = zip(*curve, strict=True)
            lines = {
                "epoch": range(len(curve)),
                "prepare_seconds": [prepare] * len(curve),
                "train_seconds": times,
                "test_top1": accuracies,
            }
            pd.DataFrame(lines).to_csv(cell / "epochs.csv", index=False)
        return self

    def fill(self, strategy, accuracies, seconds, **more):
        """Write one cell per seed."""
        for seed, (accuracy, time) in enumerate(zip(accuracies, seconds, strict=True)):
            self.add(strategy, seed, accuracy, time, **more)
        return self

    def board(self, **options):
        return read_board(self.path, **options)

    def lines(self, **options):
        return self.board(**options).table.set_index("strategy")
